//! Hoefler, Schneider, Lumsdaine, "Optimized Routing for Large-Scale InfiniBand Networks", Fig. 8 and 9: bandwidth of
//! random bisect patterns on Odin and Deimos, as counted and with flow control.

use dfdn::evaluate::{Options, evaluate};
use dfdn::fabric::Fabric;
use dfdn::simulate::{Load, Model, Queues, Room, Settings, Traffic};
use dfdn::tables::Routes;

use crate::measure::{Context, Fallible, on_sl_0, ours, sweep};

/// 4x SDR, femtoseconds per byte.
const SDR: u64 = 1_000_000;

pub(crate) fn run(context: &Context) -> Fallible {
    let seeds = context.pick(4, 20);
    println!("\n### Hoefler et al., Fig. 8 and 9\n");
    println!(
        "Mean bandwidth of {seeds} random bisect patterns, as a share of that of an adapter. Gain: P-SSSP against the best \
         engine of OpenSM in that column.\n"
    );
    println!(
        "| fabric | tables | linear model | 16 KiB a VL | 64 KiB a VL | one queue per out port |\n|---|---|--:|--:|--:|--:|"
    );
    // The adapters of Odin send and receive 584 MiB/s, those of Deimos 946: of 1000 MB/s.
    for (name, share) in [("odin", 0.612), ("deimos", 0.992)] {
        let fabric = context.fabric(name)?;
        let mut rows = vec![("P-SSSP", figures(&fabric, &ours(&fabric, "sssp")?, share, seeds)?)];
        for engine in ["minhop", "updn", "ftree", "dor", "lash"] {
            match context.stock(name, engine)? {
                Ok((fabric, routes)) => match figures(&fabric, &routes, share, seeds) {
                    Ok(row) => rows.push((engine, row)),
                    Err(_) => println!("| {name} | OpenSM {engine} | incomplete | | | |"),
                },
                Err(why) => println!("| {name} | OpenSM {engine} | {why} | | | |"),
            }
        }
        for (engine, row) in &rows {
            let whose = if *engine == "P-SSSP" { "" } else { "OpenSM " };
            let cells: Vec<String> =
                row.iter().map(|v| v.map_or("deadlock".to_owned(), |v| format!("{v:.3}"))).collect();
            println!("| {name} | {whose}{engine} | {} |", cells.join(" | "));
        }
        let gain = |column: usize| {
            let best = rows[1..].iter().filter_map(|(_, row)| row[column]).fold(0.0, f64::max);
            rows[0].1[column].map_or("–".to_owned(), |own| format!("{:+.1} %", 100.0 * (own / best - 1.0)))
        };
        println!("| {name} | gain | {} |", (0..4).map(gain).collect::<Vec<_>>().join(" | "));
    }
    Ok(())
}

/// The linear model's share, and what is accepted in three models of a switch; [`None`] after a deadlock.
fn figures(fabric: &Fabric, routes: &Routes, share: f64, seeds: u64) -> Fallible<[Option<f64>; 4]> {
    let linear = evaluate(fabric, routes, &Options::default())?.bisection.ebb;
    let base = Model {
        rate: Some(SDR),
        sink: Some((Room::PerVl(256), (SDR as f64 / share) as u64)),
        ..Model::default()
    };
    let models = [
        base.clone(),
        Model { buffer: Room::PerVl(1024), ..base.clone() },
        Model { queues: Queues::PerOutPort, ..base },
    ];
    let mut out = [Some(linear), None, None, None];
    for (i, model) in models.into_iter().enumerate() {
        let settings =
            Settings { model, traffic: Traffic::Bisection, time: Some(500_000_000), ..Settings::default() };
        let rows = sweep(fabric, routes, &on_sl_0(&settings), &[Load::Share(share)], seeds)?;
        if rows.iter().all(|row| row.deadlock.is_none()) {
            let mean = rows.iter().map(|row| row.accepted).sum::<f64>() / rows.len() as f64;
            out[i + 1] = Some(mean / share);
        }
    }
    Ok(out)
}
