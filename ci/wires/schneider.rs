//! Schneider, Bibartiu, Hoefler, "Ensuring Deadlock-Freedom in Low-Diameter InfiniBand Networks", Fig. 7: how soon
//! Slim Flies deadlock.

use dfdn::fabric::Fabric;
use dfdn::simulate::{Load, Model, Row, Settings, Traffic};
use dfdn::tables::Routes;
use dfdn::verify::verify;

use crate::measure::{Context, Fallible, first_deadlock, median, on_sl_0, ours, sweep};

/// Switches of a Slim Fly by q, and the time to the deadlock as printed.
const PRINTED: [(u32, u32, &str); 5] =
    [(3, 18, "no deadlock"), (5, 50, "40.5"), (7, 98, "9.2"), (11, 242, "22.3"), (13, 338, "8.1")];

/// What "10 GiB" may mean: a name, and femtoseconds per byte.
const READINGS: [(&str, u64); 3] = [("10 GiB/s", 93_132), ("4x QDR", 250_000), ("10 Gbit/s", 800_000)];

pub(crate) fn run(context: &Context) -> Fallible {
    let seeds = context.pick(3, 20);
    println!("\n### Schneider et al., Fig. 7\n");
    println!(
        "Microseconds until the first deadlock: the earliest and the median of {seeds} seeds that deadlock, and how many \
         do. \"–\": none.\n"
    );
    println!("| switches | printed | tables | loop | {} |", READINGS.map(|r| r.0).join(" | "));
    println!("|--:|--:|---|---|--:|--:|--:|");
    for (q, switches, printed) in PRINTED {
        let name = format!("slim-fly-{q}-cas-2");
        let fabric = context.fabric(&name)?;
        assert_eq!(fabric.num_switches() as u32, switches);
        let mut tables: Vec<(String, Fabric, Routes)> = Vec::new();
        match context.stock(&name, "sssp")? {
            Ok((fabric, routes)) => tables.push(("OpenSM sssp".to_owned(), fabric, routes)),
            Err(why) => println!("| {switches} | {printed} | OpenSM sssp: {why} | | | | |"),
        }
        for engine in ["sssp", "dfd2", "dfdn-paper", "dfdn"] {
            let routes = ours(&fabric, engine)?;
            tables.push((engine.to_owned(), fabric.clone(), routes));
        }
        for (name, fabric, routes) in &tables {
            let bare = name.ends_with("sssp");
            let mut cells = Vec::new();
            let loops = if bare {
                // Everything on VL 0, as in the paper.
                let one =
                    Routes { path_sl: dfdn::tables::PathSl::one(dfdn::fabric::Sl(0)), ..routes.clone() };
                !verify(fabric, &one).deadlock_free_adapters
            } else {
                !verify(fabric, routes).deadlock_free_adapters
            };
            for (_, rate) in READINGS {
                let model = Model { rate: Some(rate), ..Model::named("schneider").expect("a model") };
                let settings = Settings {
                    model,
                    traffic: Traffic::Cycle,
                    message: Some(128 << 10),
                    ..Settings::default()
                };
                let settings = if bare { on_sl_0(&settings) } else { settings };
                let rows = sweep(fabric, routes, &settings, &[Load::Messages], seeds)?;
                cells.push(cell(&rows));
            }
            let verdict = if loops { "yes" } else { "no" };
            println!("| {switches} | {printed} | {name} | {verdict} | {} |", cells.join(" | "));
        }
    }
    Ok(())
}

fn cell(rows: &[Row]) -> String {
    let times: Vec<f64> =
        rows.iter().filter_map(|r| r.deadlock.as_ref()).map(|d| d.time as f64 / 1e6).collect();
    match first_deadlock(rows) {
        None => "–".to_owned(),
        Some(first) => {
            format!("{first:.1}, {:.1} ({} of {})", median(times.clone()), times.len(), rows.len())
        }
    }
}
