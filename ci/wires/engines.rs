//! What users want to know first: dfdn beside the engines of stock OpenSM under load.

use dfdn::engine;
use dfdn::fabric::Fabric;
use dfdn::simulate::{Model, Room, Row, Settings, Traffic};
use dfdn::tables::Routes;

use crate::measure::{Context, Fallible, first_deadlock, in_short, ours, saturation, shares, sweep};

/// A fabric with the tables of an engine, or why there are none.
type Tables = Result<(Fabric, Routes), String>;

/// Folders of dumps, and what the fabric is; the last one may be missing.
pub(crate) const FABRICS: [(&str, &str); 6] = [
    ("dragonfly-3", "Dragonfly p=3"),
    ("dragonfly-4", "Dragonfly p=4"),
    ("slim-fly-7", "Slim Fly q=7"),
    ("fat-tree-8", "fat tree k=8"),
    ("torus-4-4-4", "torus 4x4x4"),
    ("cluster", "university cluster"),
];
const STOCK: [&str; 4] = ["dfsssp", "ftree", "minhop", "lash"];

/// 64 KiB of buffer for each in port, shared by the VLs in use: an engine with more VLs has not more memory.
pub(crate) fn model() -> Model {
    Model { buffer: Room::PerPort(1024), ..Model::default() }
}

/// The fabrics whose dumps are there.
pub(crate) fn present(context: &Context) -> impl Iterator<Item = (&'static str, &'static str)> {
    FABRICS.into_iter().filter(|(name, _)| context.dumps.join(name).exists())
}

pub(crate) fn run(context: &Context) -> Fallible {
    let loads: Vec<f64> = if context.quick {
        vec![0.2, 0.4, 0.6, 0.8, 1.0]
    } else {
        (1..=20).map(|i| f64::from(i) / 20.0).collect()
    };
    let seeds = context.pick(1, 4);
    println!("\n### dfdn and stock OpenSM under load\n");
    println!(
        "Saturation (the largest accepted share of the adapters' rate), and 99th percentile of the latency in ns at half \
         of the best saturation of that fabric and pattern.\n"
    );
    println!("| fabric | engine | VLs | uniform | | permutation | | shift by half | | incast of 16 | |");
    println!("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for (name, title) in present(context) {
        let mut tables: Vec<(String, Tables)> = Vec::new();
        let fabric = context.fabric(name)?;
        let routes = ours(&fabric, "dfdn")?;
        tables.push(("**dfdn**".to_owned(), Ok((fabric.clone(), routes))));
        // The engines of OpenSM that assign VLs use all of them.
        let spread = engine::Settings { spread: true, ..engine::Settings::default() };
        let routes = engine::route(&fabric, &spread)?.routes;
        tables.push(("**dfdn, spread**".to_owned(), Ok((fabric, routes))));
        for engine in STOCK {
            tables.push((format!("OpenSM {engine}"), context.stock(name, engine)?));
        }
        let mut lines: Vec<Vec<String>> = tables.iter().map(|(engine, _)| vec![engine.clone()]).collect();
        for pattern in 0..4 {
            let mut found: Vec<Option<Result<Vec<Row>, String>>> = Vec::new();
            for (i, (_, of)) in tables.iter().enumerate() {
                let Ok((fabric, routes)) = of else {
                    found.push(None);
                    continue;
                };
                let settings = settings(fabric, pattern);
                if pattern == 0 {
                    match dfdn::simulate::Simulation::new(fabric, routes, &settings) {
                        Ok(simulation) => lines[i].push(simulation.vls().to_string()),
                        Err(why) => lines[i].push(in_short(&why).to_owned()),
                    }
                }
                let rows =
                    sweep(fabric, routes, &settings, &shares(&loads), if pattern == 0 { 1 } else { seeds });
                found.push(Some(rows.map_err(|why| why.to_string())));
            }
            let saturations: Vec<Option<f64>> = found
                .iter()
                .map(|rows| rows.as_ref()?.as_ref().ok().and_then(|rows| mean_saturation(rows)))
                .collect();
            let best = saturations.iter().flatten().copied().fold(0.0, f64::max);
            for (i, rows) in found.iter().enumerate() {
                let Some(Ok(rows)) = rows else { continue };
                let Ok((fabric, routes)) = &tables[i].1 else { continue };
                match saturations[i] {
                    Some(share) => {
                        let settings = settings(fabric, pattern);
                        let rows = sweep(fabric, routes, &settings, &shares(&[best / 2.0]), seeds)?;
                        let p99: Vec<f64> = rows.iter().filter_map(|row| row.latency.p99).collect();
                        lines[i].push(format!("{share:.3}"));
                        lines[i].push(format!("{:.0}", p99.iter().sum::<f64>() / p99.len() as f64));
                    }
                    None => {
                        let at = first_deadlock(rows).unwrap_or_default();
                        lines[i].extend([format!("deadlock, {at:.0} us"), String::new()]);
                    }
                }
            }
        }
        for (line, (_, of)) in lines.into_iter().zip(&tables) {
            match of {
                Ok(_) => println!("| {title} | {} |", line.join(" | ")),
                Err(why) => println!("| {title} | {} | {why} | | | | | | | | |", line.join(" | ")),
            }
        }
    }
    Ok(())
}

/// The mean over seeds of the largest accepted share of a seed.
fn mean_saturation(rows: &[Row]) -> Option<f64> {
    let mut seeds: Vec<u64> = rows.iter().map(|row| row.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let of = |seed: u64| saturation(&rows.iter().filter(|row| row.seed == seed).cloned().collect::<Vec<_>>());
    let all: Option<Vec<f64>> = seeds.into_iter().map(of).collect();
    all.map(|all| all.iter().sum::<f64>() / all.len() as f64)
}

fn settings(fabric: &Fabric, pattern: usize) -> Settings {
    let hosts = fabric.adapters().count();
    let traffic = [Traffic::Uniform, Traffic::Permutation, Traffic::Shift(hosts / 2), Traffic::Incast(16)]
        [pattern]
        .clone();
    Settings { model: model(), traffic, ..Settings::default() }
}
