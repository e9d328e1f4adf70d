//! `dfdn route`: what an engine would do to a fabric.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Parser;
use serde_json::json;

use super::progress::Progress;
use super::settings::EngineArgs;
use super::{Failure, Outcome, output};
use crate::engine::{self, Routed};
use crate::evaluate::channel_load;
use crate::fabric::{Fabric, FabricBuilder, Lmc};
use crate::formats::{self, WriteOptions};

/// Route a fabric and say what it takes, and write the tables
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    dfdn route fabric.net\n  \
    ibnetdiscover | dfdn route - -o tables\n\n\
    ibdmchk judges the tables:\n  \
    ibdmchk -s tables/opensm-subnet.lst -f tables/opensm.fdbs -c tables/psl -d tables/slvl\n\n\
    OpenSM loads the forwarding tables with 'routing_engine file' and 'lfts_file tables/opensm-lfts.dump', \
    where it gives the same LIDs (tables/guid2lid in its cache folder, 'honor_guid2lid_file TRUE'). It has \
    no such file for SLs and VLs: where more than one VL is needed, that alone may deadlock; use the plugin.\n\n\
    Exit code 1 if the tables may deadlock (they are not written then), 2 if the fabric cannot be routed, \
    or for bad usage or input.")]
pub(super) struct Args {
    /// The fabric: ibnetdiscover text, opensm-subnet.lst, or '-'
    fabric: PathBuf,
    /// Engine
    #[arg(long, default_value = engine::ENGINES[0].name, help = engines_help())]
    engine: String,
    #[command(flatten)]
    settings: EngineArgs,
    /// Give all adapters 2^LMC LIDs anew; the fabric's own LIDs are kept if left out
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=7))]
    lmc: Option<u8>,
    /// Folder to write the tables to
    #[arg(short, long, value_name = "TABLES")]
    output: Option<PathBuf>,
    /// Write tables although they may have credit loops
    #[arg(long)]
    allow_unsafe: bool,
    /// Write psl and opensm.fdbs however large they are
    #[arg(long)]
    large_files: bool,
}

fn engines_help() -> String {
    let list: Vec<String> = engine::ENGINES.iter().map(|e| format!("{}: {}", e.name, e.about)).collect();
    format!("Engine\n{}", list.join("\n"))
}

pub(super) fn run(args: &Args, json: bool) -> Result<Outcome, Failure> {
    let fabric = with_lmc(super::load_fabric(&args.fabric)?, args.lmc)?;
    let tables = args.output.as_deref().map(output::Tables::for_folder).transpose()?;
    let progress = Progress::on(format!("routing with {}", args.engine));
    let routed = engine::route(&fabric, &args.settings.settings(&args.engine))?;
    let safe = routed.verdict.is_safe();
    let mut written = None;
    match tables {
        Some(tables) if safe || args.allow_unsafe => {
            progress.say("writing tables");
            let options = WriteOptions { large_files: args.large_files };
            for why in formats::write_tables(tables.path(), &fabric, &routed.routes, options)? {
                log::info!("not written: {why}");
            }
            tables.finish()?;
            written = args.output.as_ref();
        }
        Some(_) => {
            log::error!("{} may deadlock: nothing was written (--allow-unsafe writes it)", args.engine);
        }
        None => {}
    }
    drop(progress);
    // A fabric with fewer than two adapters has no load.
    let max_load = channel_load(&fabric, &routed.routes).map_or(0, |load| load.edge_forwarding_index);
    if json {
        output::json(&as_json(&fabric, &routed, max_load))?;
    } else {
        output::stdout(|out| {
            text(out, &fabric, &routed, max_load)?;
            written.map_or(Ok(()), |folder| output::line(out, "written to", folder.display()))
        })?;
    }
    Ok(if safe { Outcome::Fine } else { Outcome::Fails })
}

/// Gives all LIDs anew where an LMC is asked for.
fn with_lmc(fabric: Fabric, lmc: Option<u8>) -> Result<Fabric, Failure> {
    let Some(lmc) = lmc.and_then(Lmc::new) else { return Ok(fabric) };
    let mut builder = FabricBuilder::from_fabric(&fabric);
    builder.forget_lids();
    Ok(builder.finish(lmc)?)
}

fn as_json(fabric: &Fabric, routed: &Routed, max_load: u64) -> serde_json::Value {
    let v = &routed.verdict;
    let parts = routed.classes;
    let mut value = v.to_json(fabric);
    value["safe_with_sls"] = routed.safety.to_json();
    let more = json!({
        "engine": routed.routes.engine,
        "switches": fabric.num_switches(),
        "cas": fabric.adapters().count(),
        "links": fabric.num_links(),
        "max_channel_load": max_load,
        "vls_offered": routed.offer.vls,
        "sls_offered": routed.offer.sls,
        "classes": parts.classes,
        "vls_per_class": parts.vls * parts.ways,
        "sls_per_class": parts.sls * parts.ways,
        "ways": parts.ways,
        "seconds": routed.computing.as_secs_f64(),
        "verify_seconds": routed.judging.as_secs_f64(),
        "remarks": routed.routes.remarks,
    });
    if let (Some(all), Some(more)) = (value.as_object_mut(), more.as_object()) {
        all.extend(more.clone());
    }
    value
}

fn text(out: &mut dyn Write, fabric: &Fabric, routed: &Routed, max_load: u64) -> io::Result<()> {
    output::line(out, "engine", &routed.routes.engine)?;
    let seconds = |d: std::time::Duration| d.as_secs_f64();
    let time = format!("{:.3} s, and {:.3} s to verify", seconds(routed.computing), seconds(routed.judging));
    output::line(out, "time", time)?;
    output::line(out, "largest channel load", max_load)?;
    super::verify::text(out, fabric, &routed.routes, &routed.verdict, routed.safety)
}
