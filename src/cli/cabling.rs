//! `dfdn cabling`: a fabric as it should be against the fabric as it is.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Parser;

use super::output::line;
use super::progress::Progress;
use super::{Failure, Outcome, generate, output};
use dfdn::cabling::{Cable, Comparison, Difference, compare};
use dfdn::fabric::Fabric;

/// Compare a fabric with its plan: swapped, moved, missing, additional and degraded cables
///
/// Nodes are matched by GUID, then by description, then by structure: by the ports of nodes that are
/// matched already. If neither GUIDs nor names are alike, structure alone decides.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    dfdn cabling plan.net fabric.net\n  \
    ibnetdiscover | dfdn cabling yesterday.net -\n  \
    ibnetdiscover | dfdn cabling 'dragonfly --p 4' - --json\n\n\
    Exit code 1 if they differ.")]
pub(super) struct Args {
    /// The fabric as it should be: a file as for FABRIC, or what 'dfdn generate' takes, in quotation marks
    plan: PathBuf,
    #[arg(help = super::FABRIC)]
    fabric: PathBuf,
}

pub(super) fn run(args: &Args, json: bool) -> Result<Outcome, Failure> {
    super::one_standard_input([("PLAN", &args.plan), ("FABRIC", &args.fabric)])?;
    let plan = planned(&args.plan)?;
    let fabric = super::load_fabric(&args.fabric)?;
    let progress = Progress::on("comparing");
    let comparison = compare(&plan, &fabric)?;
    drop(progress);
    if json {
        output::json(&serde_json::to_value(&comparison)?)?;
    } else {
        output::stdout(|out| text(out, &comparison))?;
    }
    Ok(if comparison.differences.is_empty() { Outcome::Fine } else { Outcome::Fails })
}

/// A file, or else the words of a generator.
fn planned(plan: &Path) -> Result<Fabric, Failure> {
    if plan == Path::new("-") || plan.exists() {
        return super::load_fabric(plan);
    }
    let plan = plan.to_string_lossy();
    let words = ["dfdn generate"].into_iter().chain(plan.split_whitespace());
    let generator = generate::Args::try_parse_from(words).map_err(|error| {
        let error = error.to_string();
        let first = error.lines().next().unwrap_or_default().trim_start_matches("error: ");
        format!("PLAN '{plan}' is neither a file nor what 'dfdn generate' takes: {first}")
    })?;
    Ok(generator.build()?)
}

/// The report as text.
fn text(out: &mut dyn Write, c: &Comparison) -> io::Result<()> {
    line(out, "cables", format!("{} planned, {} found, {} in place", c.planned, c.found, c.in_place))?;
    let m = c.matched;
    line(
        out,
        "nodes matched",
        format!("{} by GUID, {} by name, {} by structure", m.by_guid, m.by_name, m.by_structure),
    )?;
    for [planned, found] in &c.renamed {
        line(out, "note", format!("'{planned}' of the plan has the place of '{found}'"))?;
    }
    line(out, "differences", c.differences.len())?;
    c.differences.iter().try_for_each(|difference| one(out, difference))
}

fn one(out: &mut dyn Write, difference: &Difference) -> io::Result<()> {
    let list = |out: &mut dyn Write, head: &str, cables: &[Cable]| {
        cables.iter().try_for_each(|cable| writeln!(out, "  {head:<8} {}", ends(cable)))
    };
    match difference {
        Difference::Swapped { planned, found } => {
            writeln!(out, "\nswapped: {} cables have exchanged ends", found.len())?;
            list(out, "planned", planned)?;
            list(out, "found", found)
        }
        Difference::Moved { planned, found } => {
            writeln!(out, "\nmoved: the same ports, cabled in another way")?;
            list(out, "planned", planned)?;
            list(out, "found", found)
        }
        Difference::Missing { cable } => writeln!(out, "\nmissing: {}", ends(cable)),
        Difference::Additional { cable } => writeln!(out, "\nadditional: {}", ends(cable)),
        Difference::Degraded { cable, planned, found } => {
            writeln!(out, "\ndegraded: {}: {found} instead of {planned}", ends(cable))
        }
        Difference::MissingNode { node, guid, cables } => {
            writeln!(out, "\nmissing node: '{node}' ({guid})")?;
            list(out, "planned", cables)
        }
        Difference::AdditionalNode { node, guid, cables } => {
            writeln!(out, "\nadditional node: '{node}' ({guid})")?;
            list(out, "found", cables)
        }
    }
}

/// `'leaf' port 3 - 'spine' port 7`.
fn ends([a, b]: &Cable) -> String {
    format!("'{}' port {} - '{}' port {}", a.node, a.port, b.node, b.port)
}
