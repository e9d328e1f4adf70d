//! Compares two engines on one fabric by the usual figures of papers.
//!
//! `cargo run --release --example compare_engines -- dfdn sssp`

use std::error::Error;

use dfdn::{engine, evaluate, topology::SlimFly};

fn main() -> Result<(), Box<dyn Error>> {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        names = vec!["dfdn".to_owned(), "sssp".to_owned()];
    }
    let fabric = SlimFly { q: 5, cas: None }.build()?;
    println!("{fabric}");
    for name in names {
        let settings = engine::Settings { engine: name.clone(), ..engine::Settings::default() };
        let routed = engine::route(&fabric, &settings)?;
        let figures = evaluate::evaluate(&fabric, &routed.routes, &evaluate::Options::default())?;
        println!(
            "{name:12} deadlock-free {:5}  VLs {}  SLs {}  largest load {:5}  eBB {:.3}  mean hops {:.3}",
            routed.verdict.deadlock_free,
            routed.verdict.vls,
            routed.verdict.sls,
            figures.load.edge_forwarding_index,
            figures.bisection.ebb,
            routed.verdict.mean_hops,
        );
    }
    Ok(())
}
