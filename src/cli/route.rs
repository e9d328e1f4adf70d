//! `dfdn route`: what an engine would do to a fabric.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Parser;
use serde_json::json;

use super::progress::Progress;
use super::settings::EngineArgs;
use super::{Failure, Outcome, output};
use dfdn::engine::{self, Baseline, Lineage, Routed, Settings};
use dfdn::evaluate::channel_load;
use dfdn::fabric::{Fabric, Lmc};
use dfdn::formats::{self, Fate, LARGE_FILE, PlannedText, TABLE_FILES, WriteOptions};

/// Route a fabric, report what that takes, and write the tables
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    dfdn route fabric.net\n  \
    ibnetdiscover | dfdn route - -o tables\n\n\
    ibdmchk judges the tables:\n  \
    ibdmchk -s tables/opensm-subnet.lst -f tables/opensm.fdbs -m tables/opensm.mcfdbs \\\n    \
    -d tables/slvl -c tables/psl\n\
    Leave '-c tables/psl' out where there is no such file and no psl.dfdn: SL 0 serves every pair then.\n\n\
    Texts of more than 500 MB are not written but with --large-files. lfts.dfdn, sl2vl.dfdn and psl.dfdn take \
    the place of opensm-lfts.dump, opensm-sl2vl.dump and psl; 'dfdn verify', 'evaluate' and 'compare' read them.\n\n\
    OpenSM loads the forwarding tables with 'routing_engine file' and 'lfts_file tables/opensm-lfts.dump', \
    where it gives the same LIDs (tables/guid2lid in its cache folder, 'honor_guid2lid_file TRUE'). It has \
    no such file for SLs and VLs: where more than one VL is needed, that alone may deadlock; use the plugin.\n\n\
    Exit code 1 if the tables may deadlock (they are not written then), or if --prefer or --max-nonminimal asks \
    for what they do not have (they are written then); 2 if the fabric cannot be routed, or for bad usage or \
    input.")]
pub(super) struct Args {
    #[arg(help = super::FABRIC)]
    fabric: PathBuf,
    /// Engine
    #[arg(long, default_value = engine::ENGINES[0].name, help = engines_help())]
    engine: String,
    #[command(flatten)]
    settings: EngineArgs,
    /// Assign 2^LMC new LIDs to each adapter; by default the fabric's own LIDs are kept
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=7))]
    lmc: Option<u8>,
    /// Keep to the tables of this earlier state of the fabric, as the plugin does after a change
    #[arg(long, value_name = "FABRIC")]
    after: Option<PathBuf>,
    /// Folder for the tables
    #[arg(short, long, value_name = "TABLES")]
    output: Option<PathBuf>,
    /// Write tables although they may have credit loops
    #[arg(long)]
    allow_unsafe: bool,
    /// Write all texts, however large, without compact forms
    #[arg(long)]
    large_files: bool,
}

fn engines_help() -> String {
    let list: Vec<String> = engine::ENGINES.iter().map(|e| format!("{}: {}", e.name, e.about)).collect();
    format!("Engine\n{}", list.join("\n"))
}

pub(super) fn run(args: &Args, json: bool) -> Result<Outcome, Failure> {
    if let Some(after) = &args.after {
        super::one_standard_input([("FABRIC", &args.fabric), ("--after", after)])?;
    }
    if let Some(folder) = &args.output {
        // The fabric of earlier tables may be in the folder: new tables take their place, and are what comes after them.
        let inputs = args.settings.files().chain([&*args.fabric]);
        output::spare(inputs, output::files_in(folder, &TABLE_FILES))?;
    }
    let fabric = with_lmc(super::load_fabric(&args.fabric)?, args.lmc)?;
    let tables = args.output.as_deref().map(output::Tables::for_folder).transpose()?;
    let progress = Progress::on(format!("routing with {}", args.engine));
    let settings = args.settings.settings(&args.engine);
    let baseline =
        args.after.as_deref().map(|path| baseline(path, args.lmc, &settings)).transpose()?.flatten();
    let mut routed = args.settings.route(&fabric, &args.engine, baseline.as_ref())?;
    if let (Some(after), Some(_), Lineage::First(_) | Lineage::Single) =
        (&args.after, &baseline, &routed.lineage)
    {
        let remark = format!(
            "nothing of the tables of {} was kept: new ones are better, or none fits",
            after.display()
        );
        routed.routes.remarks.push(remark);
    }
    let safe = routed.verdict.is_safe();
    let unmet = args.settings.unmet(&fabric, &routed);
    let mut written = None;
    match tables {
        Some(tables) if safe || args.allow_unsafe => {
            progress.say("writing tables");
            let largest_text = if args.large_files { u64::MAX } else { LARGE_FILE };
            let options = WriteOptions { largest_text };
            let texts = formats::plan_tables(&fabric, &routed.routes, options);
            texts.iter().for_each(announce);
            tables.fill(|folder| formats::write_tables(folder, &fabric, &routed.routes, options))?;
            tables.finish(&TABLE_FILES)?;
            written = args.output.as_deref().map(|folder| (folder, texts));
        }
        Some(_) => {
            log::error!("{} may deadlock: nothing was written (--allow-unsafe writes it)", args.engine);
        }
        None => {}
    }
    drop(progress);
    // A fabric with fewer than two adapters has no load.
    let max_load = channel_load(&fabric, &routed.routes).map_or(0, |load| load.edge_forwarding_index);
    unmet.iter().for_each(|sentence| log::warn!("{sentence}"));
    let met = unmet.is_empty();
    if json {
        let mut value = as_json(&fabric, &routed, max_load);
        value["unmet"] = unmet.into();
        if let Some((_, texts)) = &written {
            value["not_written"] = texts.iter().filter_map(not_written).collect();
        }
        output::json(&value)?;
    } else {
        output::stdout(|out| {
            text(out, &fabric, &routed, max_load)?;
            unmet.iter().try_for_each(|sentence| output::line(out, "not met", sentence))?;
            let Some((folder, texts)) = &written else { return Ok(()) };
            output::line(out, "written to", folder.display())?;
            let left_out = texts.iter().filter(|text| text.fate == Fate::TooLarge);
            left_out.map(in_words).try_for_each(|why| output::line(out, "not written", why))
        })?;
    }
    Ok(if safe && met { Outcome::Fine } else { Outcome::Fails })
}

/// The tables of an earlier state of the fabric.
fn baseline(path: &Path, lmc: Option<u8>, settings: &Settings) -> Result<Option<Baseline>, Failure> {
    let fabric = with_lmc(super::load_fabric(path)?, lmc)?;
    let routed = engine::route(&fabric, settings)?;
    let baseline = Baseline::new(&fabric, settings, &routed);
    if baseline.is_none() {
        log::warn!("later tables cannot keep to those of {}: --after changes nothing", path.display());
    }
    Ok(baseline)
}

/// Texts larger than this many bytes are announced before they are written.
const ANNOUNCED: u64 = 100_000_000;

/// Announces the size of large texts before they are written.
fn announce(text: &PlannedText) {
    match text.fate {
        Fate::Written if text.bytes > ANNOUNCED => {
            log::warn!("{} takes about {}", text.name, output::size(text.bytes));
        }
        Fate::TooLarge => log::warn!("not written: {}", in_words(text)),
        Fate::Written | Fate::NotNeeded => {}
    }
}

/// Why a text is too large, and what replaces it.
fn in_words(text: &PlannedText) -> String {
    let size = output::size(text.bytes);
    match text.compact {
        Some(compact) => format!("{} of about {size}; {compact} holds the same (--large-files)", text.name),
        None => format!("{} of about {size}, which only ibdmchk needs (--large-files)", text.name),
    }
}

/// A text that is not written, as JSON.
fn not_written(text: &PlannedText) -> Option<serde_json::Value> {
    let why = match text.fate {
        Fate::Written => return None,
        Fate::TooLarge => "too large",
        Fate::NotNeeded => "SL 0 serves every pair",
    };
    let instead = text.compact.filter(|_| text.fate == Fate::TooLarge);
    Some(json!({ "name": text.name, "bytes": text.bytes, "why": why, "instead": instead }))
}

/// Assigns all LIDs anew if an LMC is given.
fn with_lmc(fabric: Fabric, lmc: Option<u8>) -> Result<Fabric, Failure> {
    Ok(match lmc.and_then(Lmc::new) {
        Some(lmc) => fabric.with_lmc(lmc)?,
        None => fabric,
    })
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
        "vls_offered": routed.limits.vls,
        "sls_offered": routed.limits.sls,
        "classes": parts.classes,
        "vls_per_class": parts.vls * parts.vl_sets,
        "sls_per_class": parts.sls * parts.vl_sets,
        "ways": parts.vl_sets,
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
