//! `dfdn export`: files for programs of others.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use serde_json::json;

use super::progress::Progress;
use super::{Failure, Outcome, output};
use dfdn::fabric::Fabric;
use dfdn::formats::{FormatError, booksim, graphviz, ib_flit_sim, slurm, torus_2qos};
use dfdn::report::Groups;
use dfdn::tables::{Lft, Routes};

/// Write a fabric as another program reads it: a simulator, Slurm, Graphviz, OpenSM's torus-2QoS
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    dfdn export booksim fabric.net tables -o booksim\n  \
    dfdn export ib_flit_sim fabric.net tables -o model\n  \
    dfdn export slurm fabric.net -o slurm\n  \
    dfdn export graphviz fabric.net -o graph; sfdp -Tsvg graph/fabric.dot > fabric.svg\n  \
    dfdn export torus-2qos fabric.net -o torus\n\n\
    booksim: fabric.anynet, a topology file of BookSim 2; booksim.cfg, a configuration that loads it; \
    fabric.names, which node is which.\n\
    ib_flit_sim: fabric.ned, the network for Mellanox's model in OMNeT++; fabric.fdbs, the forwarding tables; \
    fabric.ini, settings that an omnetpp.ini includes.\n\
    slurm: topology.conf for topology/tree, and topology-block.conf for topology/block. The first word of an \
    adapter's description is the name of its host.\n\
    graphviz: fabric.dot.\n\
    torus-2qos: torus-2QoS.conf, which OpenSM reads with 'routing_engine torus-2QoS' and 'torus_config FILE'.\n\
    The report says what of the fabric and the tables the other program does not get.")]
pub(super) struct Args {
    /// Program
    #[arg(value_enum)]
    program: Program,
    #[arg(help = super::FABRIC)]
    fabric: PathBuf,
    /// Folder of tables, for simulators
    #[arg(required_if_eq_any([("program", "booksim"), ("program", "ib_flit_sim")]))]
    tables: Option<PathBuf>,
    /// Folder for the files
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Program {
    /// BookSim 2, network 'anynet'
    Booksim,
    /// Mellanox's model of InfiniBand for OMNeT++
    #[value(name = "ib_flit_sim")]
    IbFlitSim,
    /// Slurm's topology.conf
    Slurm,
    /// Graphviz
    Graphviz,
    /// OpenSM's engine torus-2QoS
    #[value(name = "torus-2qos")]
    Torus2Qos,
}

impl Program {
    fn files(self) -> &'static [&'static str] {
        match self {
            Self::Booksim => &booksim::FILES,
            Self::IbFlitSim => &ib_flit_sim::FILES,
            Self::Slurm => &slurm::FILES,
            Self::Graphviz => &graphviz::FILES,
            Self::Torus2Qos => &torus_2qos::FILES,
        }
    }

    fn not_carried(self, fabric: &Fabric) -> Result<Vec<String>, FormatError> {
        match self {
            Self::Booksim => booksim::not_carried(fabric),
            Self::IbFlitSim => ib_flit_sim::not_carried(fabric),
            Self::Slurm => slurm::not_carried(fabric),
            Self::Graphviz => Ok(graphviz::not_carried(fabric)),
            Self::Torus2Qos => torus_2qos::not_carried(fabric),
        }
    }
}

pub(super) fn run(args: &Args, json: bool) -> Result<Outcome, Failure> {
    let inputs = [&args.fabric].into_iter().chain(&args.tables).map(PathBuf::as_path);
    output::spare(inputs, output::files_in(&args.output, args.program.files()))?;
    let fabric = super::load_fabric(&args.fabric)?;
    let progress = Progress::on("reading tables");
    let (fabric, routes) = match &args.tables {
        Some(tables) => super::load_tables(tables, fabric)?,
        None => {
            let none = Routes::on_one_vl("", &fabric, Lft::new(&fabric));
            (fabric, none)
        }
    };
    let files = args.program.files();
    let not_carried = args.program.not_carried(&fabric);
    let not_carried = not_carried.map_err(|e| format!("{}: {e}", args.fabric.display()))?;
    let folder = output::Tables::for_folder(&args.output)?;
    progress.say("writing");
    folder.fill(|folder| match args.program {
        Program::Booksim => booksim::write(folder, &fabric, &routes),
        Program::IbFlitSim => ib_flit_sim::write(folder, &fabric, &routes),
        Program::Slurm => slurm::write(folder, &fabric, &Groups::find(&fabric).of),
        Program::Graphviz => graphviz::write(folder, &fabric, &Groups::find(&fabric).of),
        Program::Torus2Qos => torus_2qos::write(folder, &fabric),
    })?;
    folder.finish(files)?;
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
