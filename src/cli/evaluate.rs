//! `dfdn evaluate`: the quality of tables.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{ArgGroup, Parser, ValueEnum};
use serde_json::{Value, json};

use super::output::line;
use super::progress::Progress;
use super::settings::EngineArgs;
use super::{Failure, Outcome, output};
use dfdn::engine;
use dfdn::evaluate::{
    Alternatives, Bounds, ByRole, ClassFigures, Evaluation, LidChoice, Multipath, Options, Shift, evaluate,
};
use dfdn::fabric::Fabric;
use dfdn::tables::Routes;

/// Measure tables: edge-forwarding index, effective bisection bandwidth, path lengths, load
#[derive(Debug, Parser)]
#[command(
    group(ArgGroup::new("subject").required(true)),
    override_usage = "dfdn evaluate [OPTIONS] <FABRIC> <TABLES|--engine <ENGINE>>",
    after_help = "Examples:\n  \
    dfdn evaluate fabric.net tables\n  \
    dfdn evaluate fabric.net --engine dfdn --patterns 10000 --json\n\n\
    Exit code 1 if the tables lead some adapter nowhere, 2 for bad usage or input.")]
pub(super) struct Args {
    #[arg(help = super::FABRIC)]
    fabric: PathBuf,
    /// Folder of tables
    #[arg(group = "subject")]
    tables: Option<PathBuf>,
    /// Engine whose tables to measure instead of a folder
    #[arg(long, group = "subject")]
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
    /// Also the paths to all LIDs of an adapter: how many have no link in common, and what patterns reach over them
    #[arg(long)]
    multipath: bool,
}

/// The random part of the measurement.
#[derive(Clone, Copy, Debug, Parser)]
pub(super) struct Patterns {
    /// Random bisections for the effective bisection bandwidth, 1 to 10000000
    #[arg(long, default_value = "1000", value_parser = patterns)]
    patterns: NonZeroU32,
    /// Seed of the bisections, and of '--lids shortest'
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The LIDs of a receiver that senders use: the first, or one with the shortest path, drawn once per pair
    #[arg(long, value_enum, default_value_t = Lids::Base)]
    lids: Lids,
}

/// Reads a number of random bisections. Each takes eight bytes.
pub(super) fn patterns(text: &str) -> Result<NonZeroU32, String> {
    const MOST: u32 = 10_000_000;
    let number = text.parse().ok().filter(|n: &NonZeroU32| n.get() <= MOST);
    number.ok_or_else(|| format!("it takes 1 to {MOST}"))
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
    if args.tables.is_some() {
        args.settings.refuse_without_engine(&["--roles"])?;
    }
    let mut fabric = super::load_fabric(&args.fabric)?;
    let settings = args.settings.settings("");
    engine::assign_roles(&settings.roles, &mut fabric);
    let progress = Progress::on("reading or computing tables");
    let (fabric, routes) = match (&args.tables, &args.engine) {
        (Some(folder), _) => {
            let (fabric, mut routes) = super::load_tables(folder, fabric)?;
            routes.remarks.extend(engine::unmatched(&fabric, &settings));
            (fabric, routes)
        }
        (None, engine) => {
            let engine = engine.as_deref().unwrap_or(engine::ENGINES[0].name);
            let routed = args.settings.route(&fabric, engine, None)?;
            args.settings.unmet(&fabric, &routed).iter().for_each(|sentence| log::warn!("{sentence}"));
            (fabric, routed.routes)
        }
    };
    progress.say(format!("measuring with {} patterns", args.patterns.patterns));
    let e = evaluate(&fabric, &routes, &args.patterns.options())?;
    let by_role =
        fabric.has_duties().then(|| ByRole::new(&fabric, &routes, &args.patterns.options())).transpose()?;
    let shift = Shift::new(&fabric, &routes)?;
    let bounds = args.bounds.then(|| Bounds::new(&fabric));
    let alternatives = args.alternatives.then(|| Alternatives::new(&fabric, &routes)).transpose()?;
    let multipath = args.multipath.then(|| Multipath::new(&fabric, &routes)).transpose()?;
    drop(progress);
    if json {
        let mut value = as_json(&e)?;
        if let Some(multipath) = multipath {
            value["multipath"] = serde_json::to_value(multipath)?;
        }
        value["engine"] = routes.engine.clone().into();
        value["remarks"] = routes.remarks.clone().into();
        let of_roles = by_role.map(serde_json::to_value);
        let more = [
            Some(serde_json::to_value(shift)),
            of_roles,
            bounds.map(serde_json::to_value),
            alternatives.map(serde_json::to_value),
        ];
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
        let shares = format!("mean {:.4} of full, worst {:.4}", shift.shift_mean, shift.shift_least);
        line(out, "shifts by name of host", shares)?;
        if let Some(ByRole { among_compute, with_storage }) = by_role {
            for (what, figures) in [("among compute nodes", among_compute), ("with storage", with_storage)] {
                let Some(ClassFigures { largest_load, ebb, .. }) = figures else { continue };
                line(
                    out,
                    what,
                    format!("largest load {largest_load}, effective bandwidth {ebb:.4} of full"),
                )?;
            }
        }
        if let Some(a) = alternatives {
            let percent =
                |share: f64, turns| format!("{:.2} % of a route's links avoided, by {turns}", 100.0 * share);
            line(out, "alternative paths", percent(a.path_difference_any_turn, "any turns"))?;
            line(out, "", percent(a.path_difference_own_turns, "turns in use"))?;
        }
        if let Some(multipath) = multipath {
            paths_of_all_lids(out, &multipath)?;
        }
        let Some(b) = bounds else { return Ok(()) };
        let percent = |share: f64| format!("{:.3} % of the pairs, with any routing", 100.0 * share);
        line(out, "longer with one SL", percent(b.one_sl_longer_at_least))?;
        line(out, "longer with one VL", percent(b.one_vl_longer_at_least))
    })?;
    Ok(Outcome::Fine)
}

/// How many links between switches have which rate, where rates differ.
fn rates(fabric: &Fabric) -> Option<String> {
    if fabric.weights().equal() {
        return None;
    }
    let mut links: BTreeMap<(u64, String), usize> = BTreeMap::new();
    for (_, c) in fabric.channels().iter().filter(|(id, c)| *id < c.reverse) {
        let time = fabric.byte_time_at(c.from, c.out_port).unwrap_or(u64::MAX);
        let ends = [(c.from, c.out_port), (c.to, c.in_port)];
        let mut ports = ends.map(|(s, port)| &fabric.switch(s).ports[port.index()]).into_iter();
        let slower = ports.find(|port| port.byte_time() == Some(time));
        let name = slower.and_then(|port| Some(format!("{}x{:?}", port.width?, port.speed?).to_uppercase()));
        *links
            .entry((time, name.map_or("unknown".to_owned(), |name| name.replace('X', "x"))))
            .or_default() += 1;
    }
    let list: Vec<String> = links.iter().map(|((_, name), links)| format!("{links} of {name}")).collect();
    Some(format!("{}: load counts over rate", list.join(", ")))
}

/// The report as text.
fn text(out: &mut dyn Write, fabric: &Fabric, routes: &Routes, e: &Evaluation) -> io::Result<()> {
    line(out, "tables", &routes.engine)?;
    line(out, "fabric", fabric)?;
    routes.remarks.iter().try_for_each(|remark| line(out, "note", remark))?;
    if let Some(rates) = rates(fabric) {
        line(out, "link rates", rates)?;
    }
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

/// The paths to all LIDs as text.
fn paths_of_all_lids(out: &mut dyn Write, multipath: &Multipath) -> io::Result<()> {
    line(out, "LIDs an adapter", multipath.lids)?;
    for class in &multipath.distances {
        let disjoint = class.disjoint.iter().zip(1..).skip(1);
        let disjoint: Vec<String> =
            disjoint.map(|(share, n)| format!("{:.1} % have {n}", 100.0 * share)).collect();
        let text = format!(
            "{} pairs, {:.1} % of the paths shortest, mean {:.2} hops; paths without a common link: {}",
            class.pairs,
            100.0 * class.shortest,
            class.mean_hops,
            if disjoint.is_empty() { "1".to_owned() } else { disjoint.join(", ") }
        );
        line(out, &format!("pairs {} hops apart", class.hops), text)?;
    }
    for pattern in &multipath.patterns {
        let text = format!(
            "{:.4} at once, {:.4} if all links were loaded alike, {:.4} in the mean",
            pattern.load, pattern.level, pattern.mean_rate
        );
        line(out, &format!("{}, {}", pattern.pattern, pattern.lids), text)?;
    }
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
