//! `dfdn hold`: entries for the file of hold-outs.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use serde_json::json;

use super::{Failure, Outcome, output};
use dfdn::engine::parse_holds;
use dfdn::fabric::{Channel, ChannelId, Fabric, Hold, PortRef, hold_out, named_links};
use dfdn::formats::FormatError;
use dfdn::formats::port_errors::{LinkErrors, read_ibqueryerrors, read_perfquery};

/// Propose links to avoid, from the error counters of their ports
///
/// Errors of both ends are added; a link that retrained or went down counts ten for each time. The entries go to
/// standard output; with -o they are added to a file, which 'hold' in dfdn.conf names.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    ibqueryerrors > errors.txt; dfdn hold --from ibqueryerrors errors.txt fabric.net\n  \
    dfdn hold --from perfquery counters.txt fabric.net --least 1000 -o /etc/opensm/hold\n\n\
    Counters grow until they are cleared (ibqueryerrors -k): look at what came since then. Links to adapters are \
    named and not proposed, as nothing else leads there.")]
pub(super) struct Args {
    /// What printed the counters
    #[arg(long, value_enum)]
    from: Program,
    /// What it printed
    errors: PathBuf,
    #[arg(help = super::FABRIC)]
    fabric: PathBuf,
    /// Errors from which on a link is proposed
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    least: u64,
    /// File to add the entries to; what it holds already stays
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Program {
    /// A survey of the fabric
    Ibqueryerrors,
    /// Counters of single ports, by LID
    Perfquery,
}

/// A link with errors.
struct Proposal {
    /// The line of the file.
    entry: String,
    /// What it is about, and why.
    why: String,
    errors: LinkErrors,
}

pub(super) fn run(args: &Args, json: bool) -> Result<Outcome, Failure> {
    output::spare([&*args.errors, &args.fabric], args.output.clone())?;
    let fabric = super::load_fabric(&args.fabric)?;
    let bytes = fs::read(&args.errors).map_err(|error| cannot_read(&args.errors, &error))?;
    let read = match args.from {
        Program::Ibqueryerrors => read_ibqueryerrors(&bytes[..], &fabric),
        Program::Perfquery => read_perfquery(&bytes[..], &fabric),
    };
    let (links, warnings) = read.map_err(|error| FormatError { file: Some(args.errors.clone()), ..error })?;
    warnings.iter().for_each(|warning| log::warn!("{}: {warning}", args.errors.display()));
    let before = args.output.as_deref().map(existing).transpose()?.unwrap_or_default();
    let file = args.output.as_deref().unwrap_or(Path::new("hold")).display().to_string();
    let held = parse_holds(&before, &file).map_err(|error| format!("{file}: {error}"))?;
    let bad: Vec<Proposal> = links
        .into_iter()
        .filter(|link| link.weight >= args.least)
        .map(|link| proposal(&fabric, link))
        .collect();
    let (between, at_adapters): (Vec<Proposal>, Vec<Proposal>) =
        bad.into_iter().partition(|proposal| is_between_switches(&fabric, &proposal.errors));
    let known = held_already(&fabric, &held)?;
    let new: Vec<&Proposal> =
        between.iter().filter(|proposal| !known.contains(&proposal.errors.end)).collect();
    let mut text = before;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    new.iter().for_each(|proposal| text += &format!("{} # {}\n", proposal.entry, proposal.why));
    let all = parse_holds(&text, &file).map_err(|error| format!("{file}: {error}"))?;
    let refused: Vec<String> = hold_out(fabric.clone(), &all)?
        .notes
        .into_iter()
        .filter(|note| !note.done)
        .map(|note| note.text)
        .collect();
    if let Some(path) = args.output.as_deref().filter(|_| !new.is_empty()) {
        output::to_file_or_stdout(Some(path), |out| out.write_all(text.as_bytes()))?;
    }
    if json {
        let row = |proposal: &Proposal| {
            let errors = &proposal.errors;
            json!({
                "guid": fabric.node(errors.end.node).guid.to_string(),
                "port": errors.end.port.0,
                "errors": errors.weight,
                "counters": errors.counters,
            })
        };
        output::json(&json!({
            "proposed": new.iter().map(|proposal| row(proposal)).collect::<Vec<_>>(),
            "at_adapters": at_adapters.iter().map(row).collect::<Vec<_>>(),
            "stay_in_use": refused,
            "written": args.output.as_ref().filter(|_| !new.is_empty()),
        }))?;
        return Ok(Outcome::Fine);
    }
    output::stdout(|out| {
        new.iter().try_for_each(|proposal| writeln!(out, "{} # {}", proposal.entry, proposal.why))?;
        at_adapters
            .iter()
            .try_for_each(|p| writeln!(out, "# not proposed, as nothing else leads there: {}", p.why))?;
        refused.iter().try_for_each(|text| writeln!(out, "# {text}"))?;
        match (&args.output, new.len()) {
            (_, 0) => {
                writeln!(out, "# no link between switches has {} errors that is not held already", args.least)
            }
            (Some(path), n) => writeln!(out, "# {n} entries added to {}", path.display()),
            (None, _) => writeln!(out, "# nothing was written: -o FILE adds these lines to a file"),
        }
    })?;
    Ok(Outcome::Fine)
}

/// The text of a file that may not be there.
fn existing(path: &Path) -> Result<String, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(cannot_read(path, &error).into()),
    }
}

fn cannot_read(path: &Path, error: &io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}

fn is_between_switches(fabric: &Fabric, errors: &LinkErrors) -> bool {
    let channel = fabric.switch_of(errors.end.node).map(|s| fabric.channels().at_port(s, errors.end.port));
    channel.flatten().is_some()
}

/// Ends of links that carry nothing with what is held already, and of those that an entry names: one that has to stay in use is
/// not written again at each run.
fn held_already(fabric: &Fabric, held: &[Hold]) -> Result<BTreeSet<PortRef>, Failure> {
    let left = hold_out(fabric.clone(), held)?.fabric;
    let named = named_links(fabric, held);
    let is_held = |&(id, c): &(ChannelId, &Channel)| {
        named.contains(&id.min(c.reverse)) || left.channels().at_port(c.from, c.out_port).is_none()
    };
    let ends = fabric.channels().iter().filter(is_held).map(|(_, c)| (c.from, c.out_port));
    Ok(ends.map(|(s, port)| PortRef { node: fabric.switch_node_id(s), port }).collect())
}

fn proposal(fabric: &Fabric, errors: LinkErrors) -> Proposal {
    let node = fabric.node(errors.end.node);
    let name = |end: PortRef| format!("'{}' port {}", fabric.node(end.node).description, end.port);
    let peer = node.ports[errors.end.port.index()].peer;
    let link = peer.map_or_else(|| name(errors.end), |peer| format!("{} - {}", name(errors.end), name(peer)));
    let counters: Vec<String> =
        errors.counters.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let why = format!("{link}: {}", counters.join(", "));
    Proposal { entry: format!("avoid {} {}", node.guid, errors.end.port), why, errors }
}
