//! `dfdn config`: the plugin's configuration file, every key commented out.

use clap::Parser;

use super::{Failure, Outcome, output};
use dfdn::engine;

/// Print a configuration file for the plugin, with every key and its default commented out
#[derive(Debug, Parser)]
#[command(after_help = "Example:\n  \
    dfdn config > /etc/opensm/dfdn.conf")]
pub(super) struct Args {}

pub(super) fn run() -> Result<Outcome, Failure> {
    output::stdout(|out| out.write_all(engine::template().as_bytes()))?;
    Ok(Outcome::Fine)
}
