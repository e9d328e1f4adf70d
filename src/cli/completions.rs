//! `dfdn completions`: shell completions.

use clap::{CommandFactory, Parser};
use clap_complete::{Shell, generate};

use super::{Cli, Failure, Outcome, output};

/// Print the completions of a shell
#[derive(Debug, Parser)]
#[command(after_help = "Example:\n  \
    dfdn completions bash > /usr/share/bash-completion/completions/dfdn")]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &Args) -> Result<Outcome, Failure> {
    // The generator panics if it cannot write, as to a closed pipe.
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "dfdn", &mut script);
    output::stdout(|out| out.write_all(&script))?;
    Ok(Outcome::Fine)
}
