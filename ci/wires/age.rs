//! Age-based arbitration (Schneider et al., section VIII): does it help, and do VL arbitration tables that prefer late
//! hops?

use dfdn::fabric::{Fabric, Vl};
use dfdn::simulate::{Arbitration, Model, Settings, Simulation, Traffic};
use dfdn::tables::{Routes, VlArb};
use dfdn::topology::{Dragonfly, Random, SlimFly};

use crate::engines::model;
use crate::measure::{Context, Fallible, ours, saturation, shares, sweep};

/// High priority for all VLs but the first: DF-DN raises the VL at every hop.
fn late_hops_first(vls: usize, limit: u8) -> VlArb {
    VlArb { high: (1..vls).map(|vl| (Vl(vl as u8), 255)).collect(), low: vec![(Vl(0), 64)], limit }
}

pub(crate) fn run(context: &Context) -> Fallible {
    let seeds = context.pick(1, 5);
    let loads: Vec<f64> =
        context.pick(vec![0.4, 0.6, 0.8, 1.0], (4..=20).map(|i| f64::from(i) / 20.0).collect());
    println!("\n### Age\n");
    println!(
        "Saturation; 99th percentile of the latency in ns at half of the saturation of round robin and at nine tenths of it; \
         fairness (least over mean accepted of the sources) at full load. Means of {seeds} seeds.\n"
    );
    println!(
        "| fabric | tables | traffic | arbitration | saturation | 99 % at half | 99 % at .9 | fairness |"
    );
    println!("|---|---|---|---|--:|--:|--:|--:|");
    let fabrics: [(&str, Fabric); 3] = [
        ("Dragonfly p=4", Dragonfly::balanced(4).build()?),
        ("Slim Fly q=7", SlimFly { q: 7, cas: None }.build()?),
        ("random, 64 switches of degree 6", Random { switches: 64, degree: 6, cas: 4, seed: 1 }.build()?),
    ];
    for (title, fabric) in &fabrics {
        for engine in ["dfdn-paper", "dfdn"] {
            let routes = ours(fabric, engine)?;
            for (pattern, traffic) in [("uniform", Traffic::Uniform), ("permutation", Traffic::Permutation)] {
                compare(
                    &format!("{title} | {engine} | {pattern}"),
                    fabric,
                    &routes,
                    &traffic,
                    &loads,
                    seeds,
                )?;
            }
        }
    }
    Ok(())
}

fn compare(
    title: &str,
    fabric: &Fabric,
    routes: &Routes,
    traffic: &Traffic,
    loads: &[f64],
    seeds: u64,
) -> Fallible {
    let settings = |arbitration| Settings {
        model: Model { arbitration, ..model() },
        traffic: traffic.clone(),
        ..Settings::default()
    };
    let vls = Simulation::new(fabric, routes, &settings(Arbitration::RoundRobin))?.vls();
    let with = |vlarb: VlArb| Routes { vlarb, ..routes.clone() };
    let kinds = [
        ("round robin", Arbitration::RoundRobin, routes.clone()),
        ("first come first served", Arbitration::FirstCome, routes.clone()),
        ("vl-age", Arbitration::VlAge, routes.clone()),
        ("age", Arbitration::Age, routes.clone()),
        ("VLArb, late hops first, limit 16 KiB", Arbitration::RoundRobin, with(late_hops_first(vls, 4))),
        (
            "VLArb, late hops first, no limit",
            Arbitration::RoundRobin,
            with(late_hops_first(vls, VlArb::UNLIMITED)),
        ),
    ];
    let mut reference = None;
    for (name, arbitration, routes) in kinds {
        let settings = settings(arbitration);
        let rows = sweep(fabric, &routes, &settings, &shares(loads), seeds)?;
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        let of_seed = |seed| {
            let own: Vec<_> = rows.iter().filter(|row| row.seed == seed).cloned().collect();
            saturation(&own).expect("no credit loop")
        };
        let share = mean((1..=seeds).map(of_seed).collect());
        let reference = *reference.get_or_insert(share);
        let p99 = |load: f64| -> Fallible<f64> {
            let rows = sweep(fabric, &routes, &settings, &shares(&[load]), seeds)?;
            Ok(mean(rows.iter().filter_map(|row| row.latency.p99).collect()))
        };
        let full = rows.iter().filter(|row| row.load == Some(1.0)).map(|row| row.fairness).collect();
        println!(
            "| {title} | {name} | {share:.3} | {:.0} | {:.0} | {:.2} |",
            p99(reference / 2.0)?,
            p99(reference * 0.9)?,
            mean(full)
        );
    }
    Ok(())
}
