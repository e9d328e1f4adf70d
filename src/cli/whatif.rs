//! `dfdn whatif`: what failures would cost.

use std::fs;
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::Parser;
use serde_json::{Value, json};
use signal_hook::consts::SIGINT;
use signal_hook::low_level::emulate_default_handler;

use super::output::line;
use super::parts::{self, Part, Rows};
use super::progress::Progress;
use super::settings::EngineArgs;
use super::{Failure, Outcome, output};
use dfdn::engine::{self, Baseline};
use dfdn::evaluate::{Options, evaluate};
use dfdn::fabric::Fabric;
use dfdn::tables::Routes;
use dfdn::whatif::{self, Extremes, Row, Summary, WhatIf};

/// Show what failures would cost: each link and switch fails in turn, and the rest is routed again
///
/// By default every link between switches and every switch fails, one at a time. TABLES, as 'dfdn
/// verify' takes them and of any engine, are those before; without them, the engine's own.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    dfdn whatif fabric.net\n  \
    dfdn whatif fabric.net tables --links --json > links.json\n  \
    dfdn whatif fabric.net --down 'spine-3' --down 'leaf-7 port 12'\n  \
    dfdn whatif fabric.net --random-pairs 500 --seed 2 --json --part 1/2 > part-1.json\n  \
    dfdn whatif --json --merge part-1.json part-2.json\n\n\
    A host is cut off if it has no link to the largest part that is left. A pair is cut if its path before uses what \
    failed: until the new tables are sent it has none. A block is 64 entries of a forwarding table, the unit that \
    OpenSM sends.\n\n\
    SIGINT ends it, with the rows that are there.\n\
    Exit code 1 if there are no safe tables after some failure.")]
pub(super) struct Args {
    #[arg(required_unless_present = "merge", help = super::FABRIC)]
    fabric: Option<PathBuf>,
    /// Folder of the tables before
    tables: Option<PathBuf>,
    /// Each link between switches
    #[arg(long)]
    links: bool,
    /// Each switch
    #[arg(long)]
    switches: bool,
    /// N random pairs instead, of links and switches or of what --links or --switches says
    #[arg(long, value_name = "N", conflicts_with_all = ["down", "list"])]
    random_pairs: Option<usize>,
    /// Seed of the pairs and of the bisections
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A part that fails, together with all others named so: a node's description or GUID, or a cable as in 'leaf-7 port 12'
    #[arg(long, value_name = "NAME", conflicts_with_all = ["links", "switches", "list"])]
    down: Vec<String>,
    /// A file with a failure a line: parts as for --down, separated by tabs
    #[arg(long, value_name = "FILE", conflicts_with_all = ["links", "switches"])]
    list: Option<PathBuf>,
    /// Engine
    #[arg(long, default_value = engine::ENGINES[0].name)]
    engine: String,
    #[command(flatten)]
    settings: EngineArgs,
    /// Random bisections for the effective bisection bandwidth, 1 to 10000000
    #[arg(long, default_value = "50", value_parser = super::evaluate::patterns)]
    patterns: NonZeroU32,
    /// Only part I of N of the rows
    #[arg(long, value_name = "I/N")]
    part: Option<Part>,
    /// Join the JSON of all parts
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["fabric", "tables", "part"])]
    merge: Vec<PathBuf>,
}

/// The rows, by what fails.
const FAILURES: Rows = Rows {
    command: "dfdn whatif --json",
    list: "failures",
    is_row: |failure, row| *failure == row["failed"],
    name: |row| row["failed"].as_str().or(row.as_str()).unwrap_or("a row without 'failed'").to_owned(),
};

pub(super) fn run(args: &Args, json: bool) -> Result<Outcome, Failure> {
    if !args.merge.is_empty() {
        return finish(parts::merge(&args.merge, &FAILURES)?, json);
    }
    let Some(path) = &args.fabric else { return Err("FABRIC is needed".into()) };
    let fabric = super::load_fabric(path)?;
    let progress = Progress::on("reading or computing the tables before");
    let settings = args.settings.settings(&args.engine);
    let (fabric, before, baseline) = match &args.tables {
        Some(folder) => {
            let (fabric, before) = super::load_tables(folder, fabric)?;
            (fabric, before, None)
        }
        None => {
            let routed = args.settings.route(&fabric, &args.engine, None)?;
            let baseline = Baseline::new(&fabric, &settings, &routed);
            (fabric, routed.routes, baseline)
        }
    };
    let all = failures(args, &fabric)?;
    let options = Options { patterns: args.patterns, seed: args.seed, ..Options::default() };
    let mut value = head(&fabric, &before, &args.engine, options, &all)?;
    drop(progress);

    let own = Part::of(args.part, &all);
    let interrupted = parts::interruptions()?;
    let progress = Progress::steps(own.len());
    progress.say("failing and routing");
    let stop = || interrupted.load(Ordering::Relaxed);
    let baseline = baseline.as_ref();
    let whatif = WhatIf { fabric: &fabric, before: &before, baseline, settings: &settings, options };
    let rows = whatif.rows(&own, &stop, &|| progress.done())?;
    drop(progress);
    if let Some(part) = args.part {
        value["part"] = part.to_string().into();
    }
    value["rows"] = rows.into_iter().flatten().map(serde_json::to_value).collect::<Result<_, _>>()?;
    if stop() {
        value["interrupted"] = true.into();
        finish(value, json)?;
        emulate_default_handler(SIGINT)?;
        return Ok(Outcome::Fails);
    }
    finish(value, json)
}

/// The failures requested.
fn failures(args: &Args, fabric: &Fabric) -> Result<Vec<whatif::Failure>, Failure> {
    if let Some(path) = &args.list {
        return listed(path, fabric);
    }
    if !args.down.is_empty() {
        let parts = args.down.iter().map(|name| whatif::find(fabric, name));
        let together =
            |all: whatif::Failure, part: Result<whatif::Failure, _>| Ok::<_, Failure>(all.with(&part?));
        return Ok(vec![parts.into_iter().try_fold(whatif::Failure::default(), together)?]);
    }
    let both = args.links == args.switches;
    let mut list = Vec::new();
    if both || args.links {
        list.extend(whatif::links(fabric));
    }
    if both || args.switches {
        list.extend(whatif::switches(fabric));
    }
    Ok(match args.random_pairs {
        Some(count) => whatif::pairs(&list, count, args.seed),
        None => list,
    })
}

/// A file with a failure a line. `#` begins a comment line.
fn listed(path: &Path, fabric: &Fabric) -> Result<Vec<whatif::Failure>, Failure> {
    let text = fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let lines =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let failure = |(number, line): (usize, &str)| {
        let names = line.split('\t').map(str::trim).filter(|name| !name.is_empty());
        names.map(|name| whatif::find(fabric, name)).try_fold(whatif::Failure::default(), |all, part| {
            let at = |why| format!("{}: line {}: {why}", path.display(), number + 1);
            part.map(|part| all.with(&part)).map_err(|why| at(why).into())
        })
    };
    let list = lines.map(failure).collect::<Result<Vec<_>, Failure>>()?;
    if list.is_empty() { Err(format!("{} names no failure", path.display()).into()) } else { Ok(list) }
}

/// The part of the output that all parts share.
fn head(
    fabric: &Fabric,
    before: &Routes,
    engine: &str,
    options: Options,
    all: &[whatif::Failure],
) -> Result<Value, Failure> {
    let measured = evaluate(fabric, before, &options)?;
    Ok(json!({
        "fabric": fabric.to_string(),
        "before": {
            "engine": before.engine,
            "ebb": measured.bisection.ebb,
            "edge_forwarding_index": measured.load.edge_forwarding_index,
            "remarks": before.remarks,
        },
        "engine": engine,
        "patterns": options.patterns,
        "seed": options.seed,
        "failures": all.iter().map(|failure| failure.describe(fabric)).collect::<Vec<_>>(),
    }))
}

/// Adds the summary and prints.
fn finish(mut value: Value, json: bool) -> Result<Outcome, Failure> {
    let rows: Vec<Row> = serde_json::from_value(value["rows"].clone())
        .map_err(|why| format!("a row is not one of 'dfdn whatif --json': {why}"))?;
    let summary = Summary::new(&rows);
    let mut object = serde_json::to_value(&summary)?;
    value["worst"] = object.as_object_mut().and_then(|object| object.remove("worst")).unwrap_or_default();
    value["summary"] = object;
    if json {
        output::json(&value)?;
    } else {
        output::stdout(|out| text(out, &value, &summary))?;
    }
    Ok(if summary.unroutable > 0 { Outcome::Fails } else { Outcome::Fine })
}

/// The report as text.
fn text(out: &mut dyn Write, value: &Value, summary: &Summary) -> io::Result<()> {
    let word = |key: &Value| key.as_str().unwrap_or_default().to_owned();
    let before = &value["before"];
    line(out, "fabric", word(&value["fabric"]))?;
    line(out, "tables before", word(&before["engine"]))?;
    for remark in before["remarks"].as_array().into_iter().flatten().map(word) {
        line(out, "note", remark)?;
    }
    let ebb = before["ebb"].as_f64().unwrap_or_default();
    line(out, "effective bisection bw", format!("{ebb:.4} of full, {} patterns", value["patterns"]))?;
    line(out, "engine afterwards", word(&value["engine"]))?;
    line(out, "failures", summary.failures)?;
    line(out, "without safe tables", summary.unroutable)?;
    line(out, "ways not proven", summary.unproven)?;
    if let (Some(mean), Some(extremes)) = (summary.mean, summary.extremes) {
        writeln!(out, "\n{HEAD}  of all failures")?;
        writeln!(out, "{}  mean", numbers(&mean, 1))?;
        writeln!(out, "{}  the worst of each", numbers(&extremes, 0))?;
    }
    if !summary.worst.is_empty() {
        writeln!(out, "\n{HEAD}  what fails; the worst first")?;
    }
    for row in &summary.worst {
        match (&row.figures, &row.error) {
            (Some(_), _) => {
                let alone = Summary::new(std::slice::from_ref(row)).mean;
                writeln!(
                    out,
                    "{}  {}",
                    alone.map_or_else(String::new, |mean| numbers(&mean, 0)),
                    row.failed
                )?;
            }
            (None, why) => {
                let why = why.as_deref().unwrap_or_default();
                writeln!(out, "{:>7} {:>10}  no tables: {}: {why}", row.cut_off, row.pairs_cut, row.failed)?;
            }
        }
    }
    if value["interrupted"].as_bool() == Some(true) {
        writeln!(out, "\ninterrupted: failures that were not finished are left out")?;
    }
    Ok(())
}

const HEAD: &str =
    "cut off  pairs cut   VLs   SLs  detours %     eBB  busiest  blocks  SL2VL  steps  dropped";

fn numbers(of: &Extremes, digits: usize) -> String {
    format!(
        "{:>7.digits$} {:>10.0} {:>5.digits$} {:>5.digits$} {:>10.3} {:>7.4} {:>8.0} {:>7.0} {:>6.0} {:>6.digits$} {:>8.0}",
        of.cut_off,
        of.pairs_cut,
        of.vls,
        of.sls,
        100.0 * of.nonminimal_share,
        of.ebb,
        of.edge_forwarding_index,
        of.lft_blocks,
        of.sl2vl_rows,
        of.steps,
        of.dropped_entries,
    )
}
