//! The program of `ci/simulations`: repeats simulations and prints their results as Markdown.
//!
//! `wires PART [--quick] --dumps FOLDER --plots FOLDER`. FOLDER/FABRIC/ENGINE has the tables of an engine of stock
//! OpenSM, or a file `refused` that says why there are none.

mod age;
mod engines;
mod flich;
mod hoefler;
mod lanes;
mod measure;
mod plot;
mod schneider;

use std::path::PathBuf;

use measure::{Context, Fallible};

fn main() -> Fallible {
    let mut context = Context { quick: false, dumps: PathBuf::new(), plots: PathBuf::new() };
    let mut part = String::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => context.quick = true,
            "--dumps" => context.dumps = words.next().unwrap_or_default().into(),
            "--plots" => context.plots = words.next().unwrap_or_default().into(),
            _ => part = word,
        }
    }
    match part.as_str() {
        "schneider" => schneider::run(&context),
        "flich" => flich::run(&context),
        "hoefler" => hoefler::run(&context),
        "engines" => engines::run(&context),
        "lanes" => lanes::run(&context),
        "age" => age::run(&context),
        _ => Err(format!("no part '{part}'").into()),
    }
}
