//! Routes a file as the plugin would, and writes the tables.
//!
//! `cargo run --release --example route_file -- fabric.net tables`
//!
//! The first argument is the output of `ibnetdiscover` or an `opensm-subnet.lst`. With no argument a small Dragonfly
//! is routed, and nothing is written.

use std::error::Error;
use std::path::PathBuf;

use dfdn::{engine, formats, topology::Dragonfly};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let fabric = match arguments.next() {
        Some(file) => {
            let (fabric, warnings) = formats::load_fabric(&file)?;
            warnings.iter().for_each(|warning| eprintln!("{}: {warning}", file.display()));
            fabric
        }
        None => Dragonfly::balanced(2).build()?,
    };
    for note in fabric.notes() {
        eprintln!("{}", fabric.explain(note));
    }
    let routed = engine::route(&fabric, &engine::Settings::default())?;
    let verdict = &routed.verdict;
    println!("{fabric}: {} VLs, {} SLs, {}", verdict.vls, verdict.sls, routed.routes.remarks.join("; "));
    if let Some(folder) = arguments.next() {
        formats::write_tables(&folder, &fabric, &routed.routes, formats::WriteOptions::default())?;
        println!("tables written to {}", folder.display());
    }
    Ok(())
}
