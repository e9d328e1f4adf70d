//! `dfdn export`: files for simulators of others.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use serde_json::json;

use super::progress::Progress;
use super::{Failure, Outcome, output};
use dfdn::formats::{self, booksim, ib_flit_sim};

/// Write a fabric and its tables as another simulator reads them
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    dfdn export booksim fabric.net tables -o booksim\n  \
    dfdn export ib_flit_sim fabric.net tables -o model\n\n\
    booksim: fabric.anynet, a topology file of BookSim 2; booksim.cfg, a configuration that loads it; \
    fabric.names, which node is which.\n\
    ib_flit_sim: fabric.ned, the network for Mellanox's model in OMNeT++; fabric.fdbs, the forwarding tables; \
    fabric.ini, settings that an omnetpp.ini includes.\n\
    The report says what of the tables a simulator cannot read.")]
pub(super) struct Args {
    /// Simulator
    #[arg(value_enum)]
    simulator: Simulator,
    #[arg(help = super::FABRIC)]
    fabric: PathBuf,
    /// Folder of tables
    tables: PathBuf,
    /// Folder for the files
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Simulator {
    /// BookSim 2, network 'anynet'
    Booksim,
    /// Mellanox's model of InfiniBand for OMNeT++
    #[value(name = "ib_flit_sim")]
    IbFlitSim,
}

pub(super) fn run(args: &Args, json: bool) -> Result<Outcome, Failure> {
    let fabric = super::load_fabric(&args.fabric)?;
    let progress = Progress::on(format!("reading {}", args.tables.display()));
    let (fabric, routes) = formats::load_tables(&args.tables, fabric)?;
    let (files, not_carried) = match args.simulator {
        Simulator::Booksim => (booksim::FILES, booksim::not_carried(&fabric)),
        Simulator::IbFlitSim => (ib_flit_sim::FILES, ib_flit_sim::not_carried(&fabric)),
    };
    let not_carried = not_carried.map_err(|e| format!("{}: {e}", args.fabric.display()))?;
    let folder = output::Tables::for_folder(&args.output)?;
    progress.say("writing");
    folder.fill(|folder| match args.simulator {
        Simulator::Booksim => booksim::write(folder, &fabric, &routes),
        Simulator::IbFlitSim => ib_flit_sim::write(folder, &fabric, &routes),
    })?;
    folder.finish(&files)?;
    drop(progress);
    if json {
        output::json(&json!({
            "folder": args.output.display().to_string(),
            "files": files,
            "switches": fabric.num_switches(),
            "cas": fabric.adapters().count(),
            "remarks": routes.remarks,
            "not_carried": not_carried,
        }))?;
    } else {
        output::stdout(|out| {
            output::line(out, "fabric", &fabric)?;
            routes.remarks.iter().try_for_each(|remark| output::line(out, "note", remark))?;
            files
                .iter()
                .try_for_each(|file| output::line(out, "written", args.output.join(file).display()))?;
            not_carried.iter().try_for_each(|what| output::line(out, "not carried", what))
        })?;
    }
    Ok(Outcome::Fine)
}
