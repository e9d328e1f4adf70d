//! `dfdn path`: the path of one pair.

use std::path::PathBuf;

use clap::Parser;

use super::output::line;
use super::{Failure, Outcome, output};
use dfdn::report::{PathError, path};

/// Show the path of a pair, hop by hop, with its SL and VLs
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    dfdn path fabric.net tables sw-0-0-ca-1 sw-1-0-ca-1\n  \
    dfdn path fabric.net tables 0x0002c90300000011 17 --json\n\n\
    A and B are descriptions, GUIDs (0x…) or LIDs. A LID of B's range chooses one of its paths.\n\
    Exit code 1 if packets do not arrive.")]
pub(super) struct Args {
    #[arg(help = super::FABRIC)]
    fabric: PathBuf,
    /// Folder of tables
    tables: PathBuf,
    /// The sender
    #[arg(value_name = "A")]
    from: String,
    /// The receiver
    #[arg(value_name = "B")]
    to: String,
}

pub(super) fn run(args: &Args, json: bool) -> Result<Outcome, Failure> {
    let fabric = super::load_fabric(&args.fabric)?;
    let (fabric, routes) = super::load_tables(&args.tables, fabric)?;
    let found = match path(&fabric, &routes, &args.from, &args.to) {
        Err(lost @ PathError::Lost { .. }) => {
            log::error!("{lost}");
            return Ok(Outcome::Fails);
        }
        found => found?,
    };
    if json {
        output::json(&serde_json::to_value(&found)?)?;
        return Ok(Outcome::Fine);
    }
    output::stdout(|out| {
        line(out, "from", format!("{}, LID {}", found.from, found.slid))?;
        line(out, "to", format!("{}, LID {}", found.to, found.dlid))?;
        line(out, "SL", found.sl)?;
        line(out, "links between switches", found.hops.len() - 1)?;
        for (hop, number) in found.hops.iter().zip(1..) {
            writeln!(
                out,
                "{number:>3}  {}: in by port {}, out by port {} on VL {}",
                hop.switch, hop.in_port, hop.out_port, hop.vl
            )?;
        }
        Ok(())
    })?;
    Ok(Outcome::Fine)
}
