//! `dfdn reconfigure`: the way from tables in force to new ones.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};

use super::output::{line, yes};
use super::progress::Progress;
use super::{Failure, Outcome, output, verify};
use dfdn::fabric::Fabric;
use dfdn::formats::{self, TABLE_FILES, WriteOptions};
use dfdn::reconfigure::{Options, Planned, Strategy, double_scheme, judge, plan, senders};
use dfdn::tables::{Plan, Routes, Step, Transition};

/// The strategy that is not in [`Strategy`], as it takes hosts to help.
const DOUBLE_SCHEME: &str = "double-scheme";

/// Data VLs where the fabric states none, as for `dfdn route`.
const USUAL_VLS: u8 = 8;

/// The names of all strategies.
fn strategies() -> Vec<&'static str> {
    Strategy::ALL.iter().map(|(name, _)| *name).chain([DOUBLE_SCHEME]).collect()
}

/// Plan the way from tables in force to new ones, in steps that are each proven free of credit loops
///
/// While switches are programmed, old and new entries, rows and trees are in force side by side, in any mixture.
/// A step is proven if no packet can close a credit loop in any of them. Between steps everything has to be
/// acknowledged, and the packets of before have to leave the fabric.
///
/// Switches are matched by GUID and ports by number. Entries over links that NEW_FABRIC does not have drop their
/// packets. A switch that OLD_FABRIC does not have is taken to have no entries, and VL 0 in its rows.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    dfdn reconfigure whole.net whole damaged.net damaged -o plan.json\n  \
    dfdn reconfigure whole.net whole damaged.net damaged --apply plan.json --tables after\n\n\
    Exit code 1, with the credit loop as a witness, if a step is not proven, or if the plan of --apply does not lead \
    to NEW_TABLES.")]
pub(super) struct Args {
    /// The fabric that the tables in force were made for; a file as for NEW_FABRIC
    old_fabric: PathBuf,
    /// Folder of the tables in force
    old_tables: PathBuf,
    #[arg(help = super::FABRIC)]
    new_fabric: PathBuf,
    /// Folder of the new tables
    new_tables: PathBuf,
    /// How steps are searched; auto takes the cheapest that is proven, and never double-scheme, for which hosts have to
    /// go over to other LIDs and SLs
    #[arg(long, default_value = "auto", value_parser = PossibleValuesParser::new(strategies()))]
    strategy: String,
    /// Steps at most; one more if rows change behind discards
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..=100))]
    max_steps: u8,
    /// Data VLs that double-scheme divides; by default those of the links, or 8 if the fabric does not say
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=15))]
    vls: Option<u8>,
    /// File for the plan
    #[arg(short, long, value_name = "PLAN")]
    output: Option<PathBuf>,
    /// Write into the plan, for each step, the order of the virtual channels that proves it
    #[arg(long)]
    certificates: bool,
    /// Judge this plan instead of making one
    #[arg(long, value_name = "PLAN", conflicts_with = "strategy")]
    apply: Option<PathBuf>,
    /// Folder for the tables after the plan
    #[arg(long, value_name = "TABLES")]
    tables: Option<PathBuf>,
}

pub(super) fn run(args: &Args, json: bool) -> Result<Outcome, Failure> {
    super::one_standard_input([("OLD_FABRIC", &args.old_fabric), ("NEW_FABRIC", &args.new_fabric)])?;
    let inputs = [&args.old_fabric, &args.old_tables, &args.new_fabric, &args.new_tables];
    let tables = args.tables.iter().flat_map(|folder| output::files_in(folder, &TABLE_FILES));
    output::spare(
        inputs.into_iter().chain(&args.apply).map(PathBuf::as_path),
        args.output.iter().cloned().chain(tables),
    )?;
    let read = |fabric: &Path, tables: &Path| -> Result<(Fabric, Routes), Failure> {
        let fabric = super::load_fabric(fabric)?;
        let _progress = Progress::on(format!("reading {}", tables.display()));
        super::load_tables(tables, fabric)
    };
    let (old_fabric, old) = read(&args.old_fabric, &args.old_tables)?;
    let (fabric, new) = read(&args.new_fabric, &args.new_tables)?;
    if old.port_sets.is_some() || new.port_sets.is_some() {
        let text = "with adaptive routing (ibdiagnet2.far) no way is judged: switches may choose other ports than their \
                    forwarding tables have. Without that file the tables alone are judged";
        return Err(text.into());
    }
    let folder = args.tables.as_deref().map(output::Tables::for_folder).transpose()?;
    let transition = Transition::between(&old_fabric, &old, &fabric, &new);
    if let [first, ..] = &*transition.moved_lids {
        let count = transition.moved_lids.len();
        log::warn!(
            "{count} LIDs belong to other ports than before, LID {first} first: their packets may go astray"
        );
    }
    let progress = Progress::on("planning");
    let began = Instant::now();
    let planned = match &args.apply {
        Some(path) => {
            let plan = read_plan(path)?;
            judge(&fabric, &transition, &plan).map_err(|error| format!("{}: {error}", path.display()))?
        }
        None if args.strategy == DOUBLE_SCHEME => {
            let vls = args.vls.or(fabric.min_data_vls()).unwrap_or(USUAL_VLS);
            double_scheme(&fabric, &transition, vls)?
        }
        None => {
            let strategy = Strategy::ALL.iter().find(|(name, _)| *name == args.strategy);
            let strategy = strategy.expect("the parser knows all").1;
            plan(&fabric, &transition, Options { strategy, max_steps: usize::from(args.max_steps) })
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    drop(progress);
    let last = planned.states.last().expect("at least the tables in force");
    let missing = Step::between(&fabric, last, &transition.new);
    let mut remarks = old.remarks;
    remarks.extend(new.remarks.iter().cloned());
    let mut seen = BTreeSet::new();
    remarks.retain(|remark| seen.insert(remark.clone()));
    let mut value = as_json(&fabric, &transition, &planned, args.certificates);
    value["remarks"] = remarks.clone().into();
    value["seconds"] = seconds.into();
    if let Some(file) = &args.output {
        output::to_file_or_stdout(Some(file), |mut out| {
            serde_json::to_writer(&mut out, &value)?;
            writeln!(out)
        })?;
    }
    if let Some(tables) = folder {
        let routes = last.tables(&new);
        tables.fill(|folder| formats::write_tables(folder, &fabric, &routes, WriteOptions::default()))?;
        tables.finish(&TABLE_FILES)?;
    }
    if json {
        output::json(&value)?;
    } else {
        output::stdout(|out| text(out, &fabric, &transition, &planned, &missing, (&remarks, seconds)))?;
    }
    if !missing.is_empty() {
        log::error!("the plan does not lead to NEW_TABLES: {} differ", counts(&missing));
    }
    Ok(if planned.is_proven() && missing.is_empty() { Outcome::Fine } else { Outcome::Fails })
}

pub(super) fn read_plan(path: &Path) -> Result<Plan, Failure> {
    let file = File::open(path).map_err(|error| format!("{}: cannot open it: {error}", path.display()))?;
    Ok(formats::plan::read(BufReader::new(file)).map_err(|error| format!("{}: {error}", path.display()))?)
}

/// What the command prints with `--json`, and the plan.
fn as_json(fabric: &Fabric, transition: &Transition, planned: &Planned, certificates: bool) -> Value {
    let step = |(i, step): (usize, &Step)| {
        let verdict = &planned.verdicts[i];
        let mut value = formats::plan::step(step);
        value["proven"] = verdict.deadlock_free.into();
        value["loop_free"] = verdict.loop_free.into();
        value["virtual_channels"] = verdict.virtual_channels.into();
        value["dependencies"] = verdict.dependencies.into();
        value["witness"] = verdict.witnesses.first().map(|w| w.to_json(fabric)).into();
        if certificates {
            let states = [&planned.states[i], &planned.states[i + 1]];
            let sls = senders(fabric, transition, &planned.plan, i);
            value["order"] = verify::certificate(fabric, &sls, &states);
        }
        value
    };
    let steps = &planned.plan.steps;
    json!({
        "proven": planned.is_proven(),
        "loop_free": planned.is_loop_free(),
        "old_proven": planned.old_proven,
        "new_proven": planned.new_proven,
        "how": planned.how,
        "changed_entries": planned.changed_entries,
        "changed_rows": planned.changed_rows,
        "dropped_entries": planned.dropped_entries,
        "moved_lids": transition.moved_lids.len(),
        "path_sl": if steps.iter().all(|step| step.paths.is_none()) { "either" } else { "by step" },
        "failed": formats::plan::failed(&planned.plan),
        "steps": steps.iter().enumerate().map(step).collect::<Vec<_>>(),
    })
}

/// `12 entries, 3 rows, no tree entries`.
fn counts(step: &Step) -> String {
    let some = |n: usize, one: &str, many: &str| match n {
        0 => format!("no {many}"),
        1 => format!("1 {one}"),
        n => format!("{n} {many}"),
    };
    format!(
        "{}, {}, {}",
        some(step.lft.len(), "entry", "entries"),
        some(step.sl2vl.len(), "row", "rows"),
        some(step.mcast.len(), "tree entry", "tree entries")
    )
}

fn text(
    out: &mut dyn Write,
    fabric: &Fabric,
    transition: &Transition,
    planned: &Planned,
    missing: &Step,
    (remarks, seconds): (&[String], f64),
) -> io::Result<()> {
    line(out, "fabric", fabric)?;
    remarks.iter().try_for_each(|remark| line(out, "note", remark))?;
    if !transition.moved_lids.is_empty() {
        line(out, "LIDs of other ports", transition.moved_lids.len())?;
    }
    line(out, "changes", format!("{} entries, {} rows", planned.changed_entries, planned.changed_rows))?;
    line(out, "way", format!("{}, planned and judged in {seconds:.3} s", planned.how))?;
    let mut before = None;
    for (i, (step, verdict)) in planned.plan.steps.iter().zip(&planned.verdicts).enumerate() {
        let dropped = match step.dropped() {
            0 => String::new(),
            n => format!("; {n} entries drop their packets"),
        };
        let proof = if verdict.deadlock_free { "proven" } else { "NOT PROVEN" };
        line(out, &format!("step {}", i + 1), format!("{}{dropped}: {proof}", counts(step)))?;
        if let Some(paths) = step.paths.filter(|paths| i > 0 && before != Some(*paths)) {
            let half = if paths.upper { "upper" } else { "lower" };
            line(out, "", format!("all hosts go over to the {half} half of the LIDs, and to their SLs"))?;
        }
        before = step.paths;
        if let Some(d) = step.drain.size().filter(|_| !step.drain.is_empty()) {
            let what = format!("{} virtual channels with {} dependencies", d.channels, d.dependencies);
            let way = format!("{} sources, {} leaves", d.sources, d.leaves);
            line(out, "drain", format!("{what}: {way}, {} control packets", d.control_packets))?;
        }
    }
    if !planned.old_proven {
        line(out, "note", "the old tables alone have a credit loop on this fabric")?;
    }
    if !planned.new_proven {
        line(
            out,
            "note",
            "the new tables are not safe with all SLs of the old ones: hosts have to ask again",
        )?;
    }
    line(out, "entries dropped", planned.dropped_entries)?;
    line(out, "free of loops", yes(planned.is_loop_free()))?;
    if !missing.is_empty() {
        line(out, "not reached", counts(missing))?;
    }
    for witness in planned.verdicts.iter().flat_map(|v| &v.witnesses) {
        writeln!(out, "\n{}", witness.explain(fabric))?;
    }
    let proven = planned.is_proven() && missing.is_empty();
    writeln!(out, "\n{}", if proven { "PROVEN" } else { "NOT PROVEN" })
}
