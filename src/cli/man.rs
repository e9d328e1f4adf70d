//! `dfdn man`: the manual, from the text of `--help`.

use clap::{CommandFactory, Parser};
use clap_mangen::Man;

use super::{Cli, Failure, Outcome, output};

/// Print a page of the manual
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    dfdn man route | man -l -\n  \
    dfdn man > /usr/share/man/man1/dfdn.1")]
pub(super) struct Args {
    /// The subcommand to describe; the command as a whole by default
    subcommand: Option<String>,
}

pub(super) fn run(args: &Args) -> Result<Outcome, Failure> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    if let Some(name) = &args.subcommand {
        let page = command.find_subcommand(name).ok_or_else(|| format!("no subcommand '{name}'"))?;
        command = page.clone();
    }
    output::stdout(|mut out| Man::new(command).render(&mut out))?;
    Ok(Outcome::Fine)
}
