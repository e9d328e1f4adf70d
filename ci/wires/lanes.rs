//! VLs and SLs under load: what `spread` and `classes` bring under a hotspot, and what happens if hosts ignore SLs.

use dfdn::engine;
use dfdn::fabric::{Fabric, Sl};
use dfdn::simulate::{Load, Model, Settings, Simulation, Traffic};
use dfdn::tables::{PathSl, Routes};
use dfdn::verify::verify;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::engines::{model, present};
use crate::measure::{Context, Fallible, first_deadlock, in_short, on_sl_0, ours, sweep};

pub(crate) fn run(context: &Context) -> Fallible {
    hotspot(context)?;
    ignored(context)
}

/// One message of this many goes to the hotspot.
const ONE_IN: usize = 20;

/// Each host sends to random others in rotation, one of [`ONE_IN`] messages to one host.
fn pairs(fabric: &Fabric, spot: u32, seed: u64) -> Vec<(u32, u32)> {
    let hosts = fabric.adapters().count() as u32;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut all = Vec::new();
    for from in (0..hosts).filter(|&from| from != spot) {
        let mut to = vec![spot];
        while to.len() < ONE_IN {
            let other = rng.random_range(0..hosts);
            if other != from && other != spot {
                to.push(other);
            }
        }
        to.shuffle(&mut rng);
        all.extend(to.into_iter().map(|to| (from, to)));
    }
    all
}

/// The same tables, with the second class for all that goes to a host.
fn second_class(fabric: &Fabric, routes: Routes, spot: u32) -> Routes {
    let special = fabric.adapters().nth(spot as usize).map(|(_, end)| end.lid);
    let switches = fabric.num_switches();
    let mut sls = vec![PathSl::UNKNOWN; fabric.lid_table_len() * switches];
    for (source, end) in fabric.adapters() {
        let Some((at, _)) = end.attachment else { continue };
        for (_, to) in fabric.adapters() {
            let class = usize::from(Some(to.lid) == special);
            let allowed = routes.path_sl.allowed(fabric, source, to.lid);
            let sl = (class..16).step_by(2).find(|sl| allowed >> sl & 1 != 0).unwrap_or(0);
            sls[to.lid.index() * switches + at.index()] = sl as u8;
        }
    }
    Routes { path_sl: PathSl::BySwitch(sls), ..routes }
}

fn hotspot(context: &Context) -> Fallible {
    let load = 0.3;
    println!("\n### A hotspot\n");
    println!(
        "Load {load}; one message in {ONE_IN} of each host goes to the same host, whose link cannot take them. Arrived: \
         the share of all other messages that arrived in the simulated time.\n"
    );
    println!(
        "| fabric | tables | VLs | others arrived | median, ns | 99th percentile, ns |\n|---|---|--:|--:|--:|--:|"
    );
    // The rates of the cluster's links differ, so a share of them is not a number of messages.
    for (name, title) in present(context).filter(|(name, _)| *name != "cluster") {
        let fabric = context.fabric(name)?;
        let spot = fabric.adapters().count() as u32 / 3;
        let base = engine::Settings::default();
        let kinds = [
            ("dfdn", base.clone()),
            ("spread", engine::Settings { spread: true, ..base.clone() }),
            ("classes 2, the hotspot's own", engine::Settings { classes: 2, ..base.clone() }),
            ("classes 2 and spread", engine::Settings { classes: 2, spread: true, ..base }),
        ];
        for (kind, settings) in kinds {
            let classes = settings.classes;
            let routed = match engine::route(&fabric, &settings) {
                Ok(routed) => routed,
                Err(why) => {
                    println!("| {title} | {kind} | {why} | | | |");
                    continue;
                }
            };
            let routes =
                if classes == 2 { second_class(&fabric, routed.routes, spot) } else { routed.routes };
            let settings = Settings {
                // Each send queue as long as need be: a full one of one VL does not stop another VL.
                model: Model { window: 1 << 20, ..model() },
                traffic: Traffic::Pairs(pairs(&fabric, spot, 1)),
                time: Some(400_000_000),
                ..Settings::default()
            };
            let simulation = Simulation::new(&fabric, &routes, &settings)?;
            let row = simulation.run(Load::Share(load), 1)?;
            // The hotspot's link is always busy.
            let senders = fabric.adapters().count() as f64 - 1.0;
            let others = load * (1.0 - 1.0 / ONE_IN as f64) * senders;
            let arrived = ((row.accepted * senders - 1.0) / others).min(1.0);
            let ns = |value: Option<f64>| value.map_or("–".to_owned(), |v| format!("{v:.0}"));
            println!(
                "| {title} | {kind} | {} | {:.1} % | {} | {} |",
                simulation.vls(),
                100.0 * arrived,
                ns(row.latency.p50),
                ns(row.latency.p99)
            );
        }
    }
    Ok(())
}

/// Everything with SL 0, on tables that need several SLs.
fn ignored(context: &Context) -> Fallible {
    let seeds = context.pick(2, 10);
    println!("\n### Hosts that ignore SLs\n");
    println!(
        "All packets with SL 0. Microseconds to the first deadlock of {seeds} seeds: messages of 128 KiB along cycles, and \
         uniform traffic at load .5 and .9 for a millisecond. \"–\": none.\n"
    );
    println!(
        "| fabric | tables | SLs | loop | cycle | uniform .5 | uniform .9 |\n|---|---|--:|---|--:|--:|--:|"
    );
    for (name, title) in present(context) {
        let fabric = context.fabric(name)?;
        let mut tables = vec![("dfdn".to_owned(), Ok((fabric.clone(), ours(&fabric, "dfdn")?)))];
        match ours(&fabric, "dfdn-paper") {
            Ok(routes) => tables.push(("dfdn-paper (DF-DN)".to_owned(), Ok((fabric.clone(), routes)))),
            Err(why) => tables.push(("dfdn-paper (DF-DN)".to_owned(), Err(why.to_string()))),
        }
        for engine in ["dfsssp", "lash"] {
            tables.push((format!("OpenSM {engine}"), context.stock(name, engine)?));
        }
        for (label, of) in tables {
            let (fabric, routes) = match of {
                Ok(of) => of,
                Err(why) => {
                    println!("| {title} | {label} | {why} | | | | |");
                    continue;
                }
            };
            let sls = verify(&fabric, &routes).sls;
            if sls == 1 {
                println!("| {title} | {label} | 1 | no | nothing to ignore | | |");
                continue;
            }
            let one = Routes { path_sl: PathSl::one(Sl(0)), ..routes.clone() };
            let cyclic = !verify(&fabric, &one).deadlock_free_adapters;
            let base = on_sl_0(&Settings { model: model(), ..Settings::default() });
            let cycle = Settings { traffic: Traffic::Cycle, message: Some(128 << 10), ..base.clone() };
            let open = Settings { time: Some(1_000_000_000), ..base };
            let after = |settings: &Settings, load: Load| -> Fallible<String> {
                let rows = match sweep(&fabric, &routes, settings, &[load], seeds) {
                    Ok(rows) => rows,
                    Err(why) => return Ok(in_short(&why).to_owned()),
                };
                Ok(first_deadlock(&rows).map_or("–".to_owned(), |us| format!("{us:.0}")))
            };
            println!(
                "| {title} | {label} | {sls} | {} | {} | {} | {} |",
                if cyclic { "yes" } else { "no" },
                after(&cycle, Load::Messages)?,
                after(&open, Load::Share(0.5))?,
                after(&open, Load::Share(0.9))?
            );
        }
    }
    Ok(())
}
