//! `dfdn compare`: engines and dumps side by side.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use serde_json::{Value, json};

use super::evaluate::{Patterns, as_json};
use super::progress::Progress;
use super::settings::EngineArgs;
use super::{Failure, Outcome, output};
use dfdn::engine::{self, ENGINES};
use dfdn::evaluate::{Shift, evaluate};
use dfdn::fabric::Fabric;
use dfdn::formats::FormatError;
use dfdn::tables::Routes;
use dfdn::verify::{Verdict, verify};

/// Measure engines, and tables that other engines wrote, in one table
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    dfdn compare fabric.net --engines dfdn,sssp\n  \
    dfdn compare fabric.net --tables dumps-of-minhop --tables dumps-of-dfsssp\n\n\
    Stretch: the switches that a path passes over the fewest possible, in the mean over all pairs of adapters.\n\n\
    An engine that cannot route the fabric has a row with the reason. Exit code 0 when every row was \
    computed or has its reason.")]
pub(super) struct Args {
    #[arg(help = super::FABRIC)]
    fabric: PathBuf,
    /// Engines, separated by commas; all by default
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Folder of tables of another engine, e.g. dumps of OpenSM; its name is the row's name
    #[arg(long)]
    tables: Vec<PathBuf>,
    #[command(flatten)]
    settings: EngineArgs,
    #[command(flatten)]
    patterns: Patterns,
}

/// What a row measures.
enum Subject {
    Engine(String),
    Tables(PathBuf),
}

pub(super) fn run(args: &Args, json: bool) -> Result<Outcome, Failure> {
    if !args.tables.is_empty() && args.engines.is_empty() {
        args.settings.refuse_without_engine(&[])?;
    }
    let fabric = super::load_fabric(&args.fabric)?;
    let mut subjects: Vec<Subject> = args.tables.iter().cloned().map(Subject::Tables).collect();
    if args.engines.is_empty() && args.tables.is_empty() {
        subjects.extend(ENGINES.iter().map(|e| Subject::Engine(e.name.to_owned())));
    }
    for name in &args.engines {
        engine::by_name(name)?;
        subjects.push(Subject::Engine(name.clone()));
    }
    let progress = Progress::steps(subjects.len());
    let mut rows = Vec::new();
    for subject in &subjects {
        let name = match subject {
            Subject::Engine(name) => name.clone(),
            Subject::Tables(folder) => {
                folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned()
            }
        };
        progress.say(name.clone());
        let mut row = match row(args, &fabric, subject) {
            Ok(row) => row,
            // A folder that cannot be read is a usage error.
            Err(failure) if failure.is::<FormatError>() => return Err(failure),
            Err(failure) => json!({ "failed": super::chain(failure.as_ref()) }),
        };
        row["engine"] = name.into();
        rows.push(row);
        progress.done();
    }
    drop(progress);
    if json {
        output::json(&json!({
            "switches": fabric.num_switches(),
            "cas": fabric.adapters().count(),
            "links": fabric.num_links(),
            "rows": rows,
        }))?;
    } else {
        let mut notes = engine::unmatched(&fabric, &args.settings.settings(""));
        notes.extend(fabric.limits_of_verdicts());
        output::stdout(|out| table(out, &fabric, &notes, &rows))?;
    }
    Ok(Outcome::Fine)
}

fn row(args: &Args, fabric: &Fabric, subject: &Subject) -> Result<Value, Failure> {
    match subject {
        Subject::Engine(name) => {
            let routed = args.settings.route(fabric, name, None)?;
            let mut row = measured(args, fabric, &routed.routes, &routed.verdict)?;
            row["seconds"] = routed.computing.as_secs_f64().into();
            row["unmet"] = args.settings.unmet(fabric, &routed).into();
            Ok(row)
        }
        Subject::Tables(folder) => {
            let (fabric, routes) = super::load_tables(folder, fabric.clone())?;
            let start = Instant::now();
            let verdict = verify(&fabric, &routes);
            log::info!("{} judged in {:.3} s", folder.display(), start.elapsed().as_secs_f64());
            measured(args, &fabric, &routes, &verdict)
        }
    }
}

fn measured(args: &Args, fabric: &Fabric, routes: &Routes, verdict: &Verdict) -> Result<Value, Failure> {
    let mut row = as_json(&evaluate(fabric, routes, &args.patterns.options())?)?;
    let shift = serde_json::to_value(Shift::new(fabric, routes)?)?;
    for more in [shift, verdict.to_json(fabric)] {
        if let (Some(row), Value::Object(more)) = (row.as_object_mut(), more) {
            row.extend(more);
        }
    }
    row["remarks"] = routes.remarks.clone().into();
    Ok(row)
}

fn table(out: &mut dyn Write, fabric: &Fabric, notes: &[String], rows: &[Value]) -> io::Result<()> {
    writeln!(out, "{fabric}")?;
    notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))?;
    writeln!(out)?;
    writeln!(
        out,
        "{:<18} {:>4} {:>4} {:>9} {:>9} {:>8} {:>10} {:>9} {:>15} {:>6} {:>8}",
        "engine",
        "VLs",
        "SLs",
        "deadlock-",
        "longer",
        "stretch",
        "mean",
        "edge fwd",
        "eBB",
        "shift",
        "seconds"
    )?;
    writeln!(
        out,
        "{:<18} {:>4} {:>4} {:>9} {:>9} {:>8} {:>10} {:>9} {:>15} {:>6} {:>8}",
        "", "", "", "free", "pairs %", "", "hops", "index", "(95 %)", "mean", ""
    )?;
    for row in rows {
        let name = row["engine"].as_str().unwrap_or_default();
        if let Some(why) = row["failed"].as_str() {
            writeln!(out, "{name:<18} {why}")?;
            continue;
        }
        let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
        let free = match (row["deadlock_free"].as_bool(), row["deadlock_free_adapters"].as_bool()) {
            (Some(true), _) => "yes",
            (_, Some(true)) => "CAs only",
            _ => "NO",
        };
        let seconds = row["seconds"].as_f64().map_or("-".to_owned(), |s| format!("{s:.3}"));
        let ebb = format!("{:.4}±{:.4}", number("ebb"), (number("ebb_high") - number("ebb_low")) / 2.0);
        writeln!(
            out,
            "{name:<18} {:>4} {:>4} {free:>9} {:>9.3} {:>8.4} {:>10.3} {:>9} {ebb:>15} {:>6.4} {seconds:>8}",
            row["vls"].to_string(),
            row["sls"].to_string(),
            100.0 * number("nonminimal_share"),
            number("mean_stretch"),
            number("mean_hops"),
            row["edge_forwarding_index"].to_string(),
            number("shift_mean"),
        )?;
    }
    Ok(())
}
