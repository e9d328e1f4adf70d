//! `dfdn evaluate`: the quality of tables.

use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use serde_json::{Value, json};

use super::output::line;
use super::progress::Progress;
use super::settings::EngineArgs;
use super::{Failure, Outcome, output};
use dfdn::engine;
use dfdn::evaluate::{Alternatives, Bounds, Evaluation, LidChoice, Options, evaluate};
use dfdn::fabric::Fabric;
use dfdn::formats;
use dfdn::tables::Routes;

/// Measure tables: edge-forwarding index, effective bisection bandwidth, path lengths, load
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    dfdn evaluate fabric.net tables\n  \
    dfdn evaluate fabric.net --engine dfdn --patterns 10000 --json\n\n\
    Exit code 1 if the tables lead some adapter nowhere, 2 for bad usage or input.")]
pub(super) struct Args {
    #[arg(help = super::FABRIC)]
    fabric: PathBuf,
    /// Folder of tables
    #[arg(required_unless_present = "engine", conflicts_with = "engine")]
    tables: Option<PathBuf>,
    /// Engine whose tables to measure instead of a folder
    #[arg(long)]
    engine: Option<String>,
    #[command(flatten)]
    settings: EngineArgs,
    #[command(flatten)]
    patterns: Patterns,
    /// Also prove how many pairs need longer paths in any routing with one SL, and with one VL
    #[arg(long)]
    bounds: bool,
    /// Also how different the alternatives to each route are: equally long paths, by any turns and by those in use
    #[arg(long)]
    alternatives: bool,
}

/// The random part of the measurement.
#[derive(Clone, Copy, Debug, Parser)]
pub(super) struct Patterns {
    /// Random bisections for the effective bisection bandwidth
    #[arg(long, default_value = "1000")]
    patterns: NonZeroU32,
    /// Seed of the bisections, and of '--lids shortest'
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The LIDs of a receiver that senders use: the first, or one with the shortest path, drawn once per pair
    #[arg(long, value_enum, default_value_t = Lids::Base)]
    lids: Lids,
}

/// [`LidChoice`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Lids {
    Base,
    Shortest,
}

impl Patterns {
    pub(super) fn options(self) -> Options {
        let lids = match self.lids {
            Lids::Base => LidChoice::Base,
            Lids::Shortest => LidChoice::Shortest,
        };
        Options { patterns: self.patterns, seed: self.seed, lids }
    }
}

pub(super) fn run(args: &Args, json: bool) -> Result<Outcome, Failure> {
    let fabric = super::load_fabric(&args.fabric)?;
    let progress = Progress::on("reading or computing tables");
    let (fabric, routes) = match (&args.tables, &args.engine) {
        (Some(folder), _) => formats::load_tables(folder, fabric)?,
        (None, engine) => {
            let engine = engine.as_deref().unwrap_or(engine::ENGINES[0].name);
            let routed = engine::route(&fabric, &args.settings.settings(engine))?;
            args.settings.unmet(&routed).iter().for_each(|sentence| log::warn!("{sentence}"));
            (fabric, routed.routes)
        }
    };
    progress.say(format!("measuring with {} patterns", args.patterns.patterns));
    let e = evaluate(&fabric, &routes, &args.patterns.options())?;
    let bounds = args.bounds.then(|| Bounds::new(&fabric));
    let alternatives = args.alternatives.then(|| Alternatives::new(&fabric, &routes)).transpose()?;
    drop(progress);
    if json {
        let mut value = as_json(&e)?;
        value["engine"] = routes.engine.clone().into();
        let more = [bounds.map(serde_json::to_value), alternatives.map(serde_json::to_value)];
        for more in more.into_iter().flatten() {
            if let (Value::Object(more), Some(all)) = (more?, value.as_object_mut()) {
                all.extend(more);
            }
        }
        output::json(&value)?;
        return Ok(Outcome::Fine);
    }
    output::stdout(|out| {
        text(out, &fabric, &routes, &e)?;
        if let Some(a) = alternatives {
            let percent =
                |share: f64, turns| format!("{:.2} % of a route's links avoided, by {turns}", 100.0 * share);
            line(out, "alternative paths", percent(a.path_difference_any_turn, "any turns"))?;
            line(out, "", percent(a.path_difference_own_turns, "turns in use"))?;
        }
        let Some(b) = bounds else { return Ok(()) };
        let percent = |share: f64| format!("{:.3} % of the pairs, with any routing", 100.0 * share);
        line(out, "longer with one SL", percent(b.one_sl_longer_at_least))?;
        line(out, "longer with one VL", percent(b.one_vl_longer_at_least))
    })?;
    Ok(Outcome::Fine)
}

/// The report as text.
fn text(out: &mut dyn Write, fabric: &Fabric, routes: &Routes, e: &Evaluation) -> io::Result<()> {
    line(out, "tables", &routes.engine)?;
    line(out, "fabric", fabric)?;
    line(out, "edge-forwarding index", e.load.edge_forwarding_index)?;
    let load = format!(
        "mean {:.1}, coefficient of variation {:.3}",
        e.load.mean_channel_load, e.load.channel_load_cv
    );
    line(out, "channel load", load)?;
    let b = &e.bisection;
    let ebb = format!(
        "{:.4} of full (95 %: {:.4} to {:.4}, {} patterns)",
        b.ebb, b.ebb_low, b.ebb_high, b.patterns
    );
    line(out, "effective bisection bw", ebb)?;
    line(out, "hops", format!("mean {:.3}, most {}", e.lengths.mean_hops, e.lengths.max_hops))?;
    for (hops, pairs) in e.lengths.hop_histogram.iter().enumerate().filter(|(_, n)| **n > 0) {
        line(out, "", format!("{hops} hops: {pairs} pairs"))?;
    }
    let cut = format!("mean {:.1} pairs, most {}", e.faults.mean_pairs_cut, e.faults.max_pairs_cut);
    line(out, "cut by a failed link", cut)?;
    Ok(())
}

/// The metrics without the load of each channel.
pub(super) fn as_json(e: &Evaluation) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(e)?;
    if let Some(all) = value.as_object_mut() {
        let load = all.remove("channel_load");
        let load = load.as_ref().and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_u64);
        let mut histogram = std::collections::BTreeMap::<u64, u64>::new();
        load.for_each(|routes| *histogram.entry(routes).or_default() += 1);
        all.insert("channel_load_histogram".to_owned(), json!(histogram.into_iter().collect::<Vec<_>>()));
    }
    Ok(value)
}
