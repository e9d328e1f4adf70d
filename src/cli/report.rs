//! `dfdn report`: a page about a fabric and its tables.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use clap::Parser;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::evaluate::Patterns;
use super::progress::Progress;
use super::settings::EngineArgs;
use super::{Failure, Outcome, output};
use dfdn::engine;
use dfdn::fabric::Fabric;
use dfdn::formats::TABLE_FILES;
use dfdn::report::{Report, Source, Subject, render};
use dfdn::tables::Routes;
use dfdn::verify::{SlSafety, Verdict, sl_safety, verify};
use dfdn::whatif::{Row, Summary};

/// Write a page about a fabric and its tables: verdict, weak points, load, path lengths, failures
///
/// The page is one file without network, readable without scripts. The first TABLES are its subject;
/// further ones, and what the engine would compute, are compared with them. Without TABLES the
/// engine's own are the subject.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    dfdn report fabric.net -o report.html\n  \
    ibnetdiscover > fabric.net; dfdn report fabric.net /var/log -o report.html\n  \
    dfdn whatif fabric.net tables --json > whatif.json\n  \
    dfdn report fabric.net tables --whatif whatif.json -o report.html --json > report.json\n\n\
    Exit code 1 if the first tables are not safe; the page is written all the same.")]
pub(super) struct Args {
    #[arg(help = super::FABRIC)]
    fabric: PathBuf,
    /// Folders of tables
    tables: Vec<PathBuf>,
    /// File for the page; standard output by default, nothing with --json
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The JSON of 'dfdn whatif' on the same fabric
    #[arg(long, value_name = "FILE")]
    whatif: Option<PathBuf>,
    /// Engine to compare with
    #[arg(long, default_value = engine::ENGINES[0].name)]
    engine: String,
    #[command(flatten)]
    settings: EngineArgs,
    #[command(flatten)]
    patterns: Patterns,
}

/// Tables, their fabric and their verdict.
struct Judged {
    label: String,
    fabric: Fabric,
    routes: Routes,
    verdict: Verdict,
    safety: SlSafety,
}

impl Judged {
    fn subject(&self) -> Subject<'_> {
        let Self { label, fabric, routes, verdict, safety } = self;
        Subject { label, fabric, routes, verdict, safety: *safety }
    }
}

pub(super) fn run(args: &Args, json: bool) -> Result<Outcome, Failure> {
    let inputs = [&args.fabric].into_iter().chain(&args.tables).chain(&args.whatif).map(PathBuf::as_path);
    output::spare(inputs.chain(args.settings.files()), args.output.clone())?;
    let fabric = super::load_fabric(&args.fabric)?;
    let mut sources = vec![digest(&args.fabric)?];
    let whatif = args.whatif.as_deref().map(|path| summary(path, &fabric)).transpose()?;
    sources.extend(args.whatif.as_deref().map(digest).transpose()?);
    let progress = Progress::on("reading and verifying");
    let mut all = Vec::new();
    for folder in &args.tables {
        progress.say(format!("reading and verifying {}", folder.display()));
        let (fabric, routes) = super::load_tables(folder, fabric.clone())?;
        let verdict = verify(&fabric, &routes);
        let safety = sl_safety(&fabric, &routes, &verdict);
        all.push(Judged { label: folder.display().to_string(), fabric, routes, verdict, safety });
        let files = TABLE_FILES.iter().map(|name| folder.join(name)).filter(|path| path.is_file());
        sources.extend(files.map(|path| digest(&path)).collect::<Result<Vec<_>, _>>()?);
    }
    progress.say(format!("routing with {}", args.engine));
    match args.settings.route(&fabric, &args.engine, None) {
        Ok(routed) => all.push(Judged {
            label: format!("{} would compute", args.engine),
            fabric,
            routes: routed.routes,
            verdict: routed.verdict,
            safety: routed.safety,
        }),
        Err(error) if all.is_empty() => return Err(error.into()),
        Err(error) => log::warn!("not compared with {}: {error}", args.engine),
    }
    progress.say("measuring");
    let subjects: Vec<Subject<'_>> = all.iter().map(Judged::subject).collect();
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let command = words.collect::<Vec<_>>().join(" ");
    let report = Report::new(&subjects, &args.patterns.options(), sources, command, whatif);
    if args.output.is_some() || !json {
        progress.say("writing");
        let page = render(&report, &subjects[0]);
        output::to_file_or_stdout(args.output.as_deref(), |out| out.write_all(page.as_bytes()))?;
    }
    drop(progress);
    if json {
        output::json(&report.json)?;
    }
    Ok(if all[0].verdict.is_safe() { Outcome::Fine } else { Outcome::Fails })
}

/// What `dfdn whatif --json` found on this fabric.
fn summary(path: &Path, fabric: &Fabric) -> Result<Summary, Failure> {
    let at = |why: String| format!("{}: {why}", path.display());
    let text = fs::read_to_string(path).map_err(|e| at(format!("cannot be read: {e}")))?;
    let foreign = |why: serde_json::Error| at(format!("not what 'dfdn whatif --json' writes: {why}"));
    let mut value: Value = serde_json::from_str(&text).map_err(foreign)?;
    let rows = value.get_mut("rows").map(Value::take).unwrap_or_default();
    let rows: Vec<Row> = serde_json::from_value(rows).map_err(foreign)?;
    if value["fabric"] != fabric.to_string().as_str() {
        return Err(at(format!("is about another fabric: {}", value["fabric"])).into());
    }
    Ok(Summary::new(&rows))
}

/// A file with its SHA-256. What is no regular file, as a pipe, has none: it cannot be read again.
fn digest(path: &Path) -> Result<Source, Failure> {
    let name = path.display().to_string();
    if path == Path::new("-") {
        return Ok(Source { name: "standard input".to_owned(), sha256: String::new() });
    }
    if !path.is_file() {
        return Ok(Source { name, sha256: String::new() });
    }
    let mut hash = Sha256::new();
    File::open(path)
        .and_then(|mut file| io::copy(&mut file, &mut hash))
        .map_err(|e| format!("{name}: {e}"))?;
    let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Source { name, sha256 })
}
