//! The command: arguments, one file per subcommand. None contains an algorithm.
//!
//! Every subcommand prints its result on standard output, as text or with `--json` as one JSON
//! object; warnings and progress go to standard error. Exit codes: 0 fine, 1 a property does not
//! hold, 2 usage or unreadable input.

mod cabling;
mod compare;
mod completions;
mod config;
mod doctor;
mod evaluate;
mod export;
mod generate;
mod hold;
mod man;
mod output;
mod parts;
mod path;
mod progress;
mod reconfigure;
mod report;
mod route;
mod settings;
mod simulate;
mod verify;
mod whatif;

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use dfdn::evaluate::EvaluateError;
use dfdn::fabric::Fabric;
use dfdn::formats;
use dfdn::tables::Routes;
use progress::Progress;

/// Deadlock-free routing for InfiniBand, without OpenSM: generate and route fabrics, judge tables.
#[derive(Debug, Parser)]
#[command(
    name = "dfdn",
    version,
    max_term_width = 100,
    after_help = "FABRIC is a file in ibnetdiscover's text format (also ibsim's short form), an \
                  opensm-subnet.lst, JSON as 'dfdn generate --json' prints it, or '-' for standard input.\n\
                  DFDN_LOG in the environment says what goes to standard error: error, warn (the default), or info, \
                  which also names each cable and port that is left out.\n\
                  Exit codes: 0 fine, 1 a property does not hold, 2 usage or unreadable input."
)]
struct Cli {
    /// Print one JSON object instead of text; not for config, completions and man
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Generate(generate::Args),
    Route(route::Args),
    Verify(verify::Args),
    Evaluate(evaluate::Args),
    Compare(compare::Args),
    Simulate(simulate::Args),
    Whatif(whatif::Args),
    Report(report::Args),
    Path(path::Args),
    Reconfigure(reconfigure::Args),
    Cabling(cabling::Args),
    Export(export::Args),
    Hold(hold::Args),
    Doctor(doctor::Args),
    Config(config::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// What the argument FABRIC accepts.
const FABRIC: &str =
    "The fabric: ibnetdiscover text, opensm-subnet.lst, JSON of 'dfdn generate --json', or '-'";

/// How a subcommand that did its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All properties hold.
    Fine,
    /// A property does not hold.
    Fails,
}

type Failure = Box<dyn Error>;

/// Runs the command with the process's arguments.
pub(super) fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::new().filter_or("DFDN_LOG", "warn"))
        .format(|out, record| {
            writeln!(out, "dfdn: {}: {}", record.level().as_str().to_lowercase(), record.args())
        })
        .init();
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Config(_) | Command::Completions(_) | Command::Man(_) if cli.json => {
            Err("--json is not for config, completions and man: what they print has a form of its own".into())
        }
        Command::Generate(args) => generate::run(&args, cli.json),
        Command::Route(args) => route::run(&args, cli.json),
        Command::Verify(args) => verify::run(&args, cli.json),
        Command::Evaluate(args) => evaluate::run(&args, cli.json),
        Command::Compare(args) => compare::run(&args, cli.json),
        Command::Simulate(args) => simulate::run(&args, cli.json),
        Command::Whatif(args) => whatif::run(&args, cli.json),
        Command::Report(args) => report::run(&args, cli.json),
        Command::Path(args) => path::run(&args, cli.json),
        Command::Reconfigure(args) => reconfigure::run(&args, cli.json),
        Command::Cabling(args) => cabling::run(&args, cli.json),
        Command::Export(args) => export::run(&args, cli.json),
        Command::Hold(args) => hold::run(&args, cli.json),
        Command::Doctor(args) => doctor::run(&args, cli.json),
        Command::Config(_) => config::run(),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    };
    match result {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Fails) => ExitCode::from(1),
        Err(failure) => {
            let _ = writeln!(io::stderr(), "dfdn: error: {}", chain(failure.as_ref()));
            ExitCode::from(if is_a_property(failure.as_ref()) { 1 } else { 2 })
        }
    }
}

/// Whether the tables are at fault: read, understood, and with a property that does not hold.
fn is_a_property(failure: &(dyn Error + 'static)) -> bool {
    matches!(failure.downcast_ref(), Some(EvaluateError::Unreached { .. }))
}

/// An error and its causes, without repeating text.
fn chain(failure: &dyn Error) -> String {
    let mut text = failure.to_string();
    let mut cause = failure.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            let _ = write!(text, ": {more}");
        }
        cause = error.source();
    }
    text
}

/// Refuses two fabrics from standard input.
///
/// - `fabrics`: their names in the help, and what was given.
fn one_standard_input(fabrics: [(&str, &Path); 2]) -> Result<(), Failure> {
    let [(a, _), (b, _)] = fabrics;
    match fabrics.iter().all(|(_, path)| *path == Path::new("-")) {
        true => Err(format!("only one of {a} and {b} can be standard input").into()),
        false => Ok(()),
    }
}

/// Reads a fabric and reports the remarks of its reader and builder.
fn load_fabric(path: &Path) -> Result<Fabric, Failure> {
    let reading = Progress::on(format!("reading {}", path.display()));
    let (fabric, warnings) = formats::load_fabric(path)?;
    drop(reading);
    for warning in warnings {
        log::warn!("{}: {warning}", path.display());
    }
    for note in fabric.notes() {
        log::info!("{}", fabric.explain(note));
    }
    Ok(fabric)
}

/// Reads a folder of tables. The remarks include what a verdict on the fabric does not cover.
fn load_tables(folder: &Path, fabric: Fabric) -> Result<(Fabric, Routes), Failure> {
    let (fabric, mut routes) = formats::load_tables(folder, fabric)?;
    routes.remarks.extend(fabric.limits_of_verdicts());
    Ok((fabric, routes))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        super::Cli::command().debug_assert();
    }
}
