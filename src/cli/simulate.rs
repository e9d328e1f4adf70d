//! `dfdn simulate`: what happens on the wires.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::{Parser, ValueEnum};
use serde_json::{Value, json};
use signal_hook::consts::SIGINT;
use signal_hook::low_level::emulate_default_handler;

use super::output::line;
use super::parts::{self, Part, Rows};
use super::progress::Progress;
use super::{Failure, Outcome, output};
use dfdn::evaluate::worst_pairs;
use dfdn::fabric::{Fabric, Sl};
use dfdn::simulate::{
    self, Arrivals, LidChoice, Load, Model, Queues, Room, Settings, Simulation, Traffic, Update,
};
use dfdn::tables::Routes;

/// Simulate packets, queues and credits: accepted load, latency, and whether it deadlocks
///
/// Without --load and --message, loads range from a tenth of the links' rate to all of it. With
/// --message and without --load, each pair of the pattern sends one message, and the run ends when
/// all have arrived or none can move.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    dfdn simulate fabric.net tables --load .3,.6,.9\n  \
    dfdn simulate fabric.net tables --traffic cycle --message 128KiB --model schneider\n  \
    dfdn simulate fabric.net tables --load .5 --update plan.json --way rewriting\n  \
    dfdn simulate fabric.net tables --seed 1,2,3 --json --part 2/4 > part-2.json\n  \
    dfdn simulate --json --merge part-1.json part-2.json part-3.json part-4.json\n\n\
    Patterns: uniform, permutation, bisection, shift:N, all-to-all, incast:N, hotspot:N:PERCENT, cycle, \
    adversarial (the permutation that crowds the paths to the base LIDs most), or a file with a pair a line, hosts by name, GUID or LID.\n\
    Exit code 1, with the credit loop that closed, if a run deadlocks.")]
pub(super) struct Args {
    #[arg(required_unless_present = "merge", help = super::FABRIC)]
    fabric: Option<PathBuf>,
    /// Folder of tables
    #[arg(required_unless_present = "merge")]
    tables: Option<PathBuf>,
    /// Hardware: default, schneider, flich
    #[arg(long, value_name = "NAME", default_value = "default")]
    model: String,
    /// Traffic: a pattern or a file of pairs
    #[arg(long, default_value = "uniform")]
    traffic: PathBuf,
    /// Shares of the rate of the hosts' links, such as .1,.5
    #[arg(long, value_delimiter = ',')]
    load: Vec<f64>,
    /// Bytes of a message, such as 128KiB; one packet by default
    #[arg(long, value_parser = bytes)]
    message: Option<u64>,
    /// Bytes of the largest packet, such as 2KiB
    #[arg(long, value_parser = bytes)]
    packet: Option<u64>,
    /// Arbitration for a link; rr and fcfs choose the VL by the arbitration tables
    #[arg(long, value_enum)]
    arbitration: Option<Arbitration>,
    /// One SL for all packets, instead of those of the tables
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..16))]
    sl: Option<u8>,
    /// Which LID of a receiver with several to send to
    #[arg(long, value_enum, default_value = "base")]
    lids: Lids,
    /// Times between messages
    #[arg(long, value_enum)]
    arrivals: Option<Times>,
    /// Seeds; each load is run with each
    #[arg(long, value_delimiter = ',', default_value = "1")]
    seed: Vec<u64>,
    /// Simulated time, such as 100us; by default that, or until all messages have arrived
    #[arg(long, value_parser = time)]
    time: Option<u64>,
    /// Initial time that is not counted; by default a quarter
    #[arg(long, value_parser = time)]
    warm_up: Option<u64>,
    /// When the initial time is over, links fail and tables change, as 'dfdn reconfigure' plans
    #[arg(long, value_name = "PLAN")]
    update: Option<PathBuf>,
    /// How switches are programmed then
    #[arg(long, value_enum, default_value = "steps", requires = "update")]
    way: Way,
    /// Management packets a second
    #[arg(long, value_name = "N", default_value_t = 100_000, requires = "update",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    mads: u64,
    /// Time between the steps of the plan
    #[arg(long, value_parser = time, default_value = "100us", requires = "update")]
    barrier: u64,
    /// Credits (64 bytes) of each VL of a switch's in port, at most 65536
    #[arg(long, value_name = "CREDITS", value_parser = clap::value_parser!(u32).range(1..=65536))]
    buffer: Option<u32>,
    /// One queue for each VL of an in port, or one for each out port
    #[arg(long, value_enum)]
    queues: Option<QueueKind>,
    /// Data rate of all links in Gbit/s, instead of what the fabric states
    #[arg(long, value_name = "GBIT")]
    rate: Option<f64>,
    /// Include the use of each link by VL in the JSON
    #[arg(long)]
    links: bool,
    /// Run only part I of N of the rows
    #[arg(long, value_name = "I/N")]
    part: Option<Part>,
    /// Join the JSON of all parts
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["fabric", "tables", "part"])]
    merge: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Arbitration {
    /// In ports round-robin
    Rr,
    /// First come, first served
    Fcfs,
    /// The oldest packet first
    Age,
    /// The highest VL first
    VlAge,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Lids {
    /// The base LID
    Base,
    /// One with the shortest path, drawn once for each pair and for all seeds alike
    Shortest,
    /// A random one for each packet
    Random,
    /// All in rotation
    Striped,
    /// By the sender's number
    SameIndex,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Times {
    /// Random and independent
    Poisson,
    /// All the same
    Constant,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Way {
    /// The steps of the plan
    Steps,
    /// All at once, in random order, as OpenSM does
    Rewriting,
    /// Hosts stop, and go on when all is done
    Static,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum QueueKind {
    /// One for each VL
    Fifo,
    /// One for each VL and out port
    PerOutPort,
}

/// A number and a unit; a number without a unit is in the unit `least`.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Result<u64, String> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let known =
        || units.iter().map(|(name, _)| *name).filter(|n| !n.is_empty()).collect::<Vec<_>>().join(", ");
    let scale = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim()));
    let number: Option<f64> = number.parse().ok();
    match (number, scale) {
        (Some(number), Some((_, scale))) if number * (*scale as f64) < 1e18 => {
            Ok((number * *scale as f64).round() as u64)
        }
        _ => Err(format!("it takes a number and one of {}", known())),
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    with_unit(text, &[("", 1), ("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)])
}

/// In picoseconds.
fn time(text: &str) -> Result<u64, String> {
    with_unit(text, &[("ns", 1000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)])
}

pub(super) fn run(args: &Args, json: bool) -> Result<Outcome, Failure> {
    if !args.merge.is_empty() {
        return finish(&parts::merge(&args.merge, &SWEEP)?, json);
    }
    let (Some(fabric), Some(tables)) = (&args.fabric, &args.tables) else {
        return Err("FABRIC and TABLES are needed".into());
    };
    let fabric = super::load_fabric(fabric)?;
    let progress = Progress::on(format!("reading {}", tables.display()));
    let (fabric, routes) = super::load_tables(tables, fabric)?;
    let settings = settings(args, &fabric, &routes)?;
    let loads = loads(args);
    progress.say("checking all paths");
    let simulation = Simulation::new(&fabric, &routes, &settings)?;
    drop(progress);

    let all: Vec<(Load, u64)> =
        loads.iter().flat_map(|&load| args.seed.iter().map(move |&seed| (load, seed))).collect();
    let own: Vec<(Load, u64)> = Part::of(args.part, &all);
    let interrupted = parts::interruptions()?;
    let progress = Progress::steps(own.len());
    progress.say("simulating");
    let stop = || interrupted.load(Ordering::Relaxed);
    let rows = simulation.sweep(&own, &stop, &|_| progress.done())?;
    drop(progress);

    let mut value = head(args, &fabric, &routes, &simulation, &all);
    if let Some(part) = args.part {
        value["part"] = part.to_string().into();
    }
    value["rows"] = rows.iter().map(|row| row.to_json(&fabric, args.links)).collect();
    if stop() {
        value["interrupted"] = true.into();
        finish(&value, json)?;
        emulate_default_handler(SIGINT)?;
    }
    finish(&value, json)
}

/// The loads requested.
fn loads(args: &Args) -> Vec<Load> {
    if !args.load.is_empty() {
        args.load.iter().map(|&load| Load::Share(load)).collect()
    } else if args.message.is_some() {
        vec![Load::Messages]
    } else {
        (1..=10).map(|tenth| Load::Share(f64::from(tenth) / 10.0)).collect()
    }
}

fn settings(args: &Args, fabric: &Fabric, routes: &Routes) -> Result<Settings, Failure> {
    let known = || format!("no model '{}': there are {}", args.model, Model::NAMES.join(", "));
    let mut model = Model::named(&args.model).ok_or_else(known)?;
    if let Some(packet) = args.packet {
        model.packet = u32::try_from(packet).unwrap_or(u32::MAX);
    }
    if let Some(arbitration) = args.arbitration {
        model.arbitration = match arbitration {
            Arbitration::Rr => simulate::Arbitration::RoundRobin,
            Arbitration::Fcfs => simulate::Arbitration::FirstCome,
            Arbitration::Age => simulate::Arbitration::Age,
            Arbitration::VlAge => simulate::Arbitration::VlAge,
        };
    }
    if let Some(credits) = args.buffer {
        model.buffer = Room::PerVl(credits);
    }
    if let Some(queues) = args.queues {
        model.queues = match queues {
            QueueKind::Fifo => Queues::Fifo,
            QueueKind::PerOutPort => Queues::PerOutPort,
        };
    }
    if let Some(gbit) = args.rate {
        let femtoseconds = 8e6 / gbit;
        if !(1.0..1e12).contains(&femtoseconds) {
            return Err(format!("no link has a rate of {gbit} Gbit/s").into());
        }
        model.rate = Some(femtoseconds.round() as u64);
    }
    let traffic = match args.traffic.to_string_lossy().parse::<Traffic>() {
        Ok(traffic) => traffic,
        Err(_) if args.traffic == Path::new("adversarial") => Traffic::Pairs(worst_pairs(fabric, routes)?),
        Err(_) if args.traffic.exists() => Traffic::Pairs(pairs(&args.traffic, fabric)?),
        Err(_) => {
            let (text, names) = (args.traffic.display(), Traffic::NAMES);
            return Err(format!(
                "no traffic pattern '{text}': there are {names}, adversarial, and files of pairs"
            )
            .into());
        }
    };
    let constant = args.arrivals.map_or(args.model == "flich", |times| matches!(times, Times::Constant));
    Ok(Settings {
        model,
        traffic,
        message: args.message,
        arrivals: if constant { Arrivals::Constant } else { Arrivals::Poisson },
        lids: match args.lids {
            Lids::Base => LidChoice::Base,
            Lids::Shortest => LidChoice::Shortest,
            Lids::Random => LidChoice::Random,
            Lids::Striped => LidChoice::Striped,
            Lids::SameIndex => LidChoice::SameIndex,
        },
        sl: args.sl.map(Sl),
        time: args.time,
        warm_up: args.warm_up,
        update: args.update.as_deref().map(|plan| update(args, plan)).transpose()?,
    })
}

fn update(args: &Args, plan: &Path) -> Result<Update, Failure> {
    Ok(Update {
        plan: super::reconfigure::read_plan(plan)?,
        way: match args.way {
            Way::Steps => simulate::Way::Steps,
            Way::Rewriting => simulate::Way::Rewriting,
            Way::Static => simulate::Way::Static,
        },
        interval: 1_000_000_000_000 / args.mads,
        barrier: args.barrier,
    })
}

/// A file of pairs: sender and receiver, each a LID, a GUID of a node or port (0x…) or a node's
/// description; separated by a blank, or by a tab if descriptions contain blanks. `#` begins a
/// comment.
fn pairs(path: &Path, fabric: &Fabric) -> Result<Vec<(u32, u32)>, Failure> {
    let text = fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let mut hosts: BTreeMap<String, Option<u32>> = BTreeMap::new();
    for ((_, end), host) in fabric.adapters().zip(0..) {
        let node = fabric.node(end.node);
        let names = [node.description.clone(), node.guid.to_string(), end.guid.to_string()];
        let mut names: Vec<String> = names.into_iter().chain(end.lids().map(|lid| lid.to_string())).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            // A name that two ports share identifies neither.
            hosts.entry(name).and_modify(|of| *of = None).or_insert(Some(host));
        }
    }
    let mut list = Vec::new();
    for (number, line) in text.lines().enumerate().map(|(i, line)| (i + 1, line)) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let at = |why: String| format!("{}: line {number}: {why}", path.display());
        let separator = |c: char| if line.contains('\t') { c == '\t' } else { c.is_whitespace() };
        let words: Vec<&str> = line.split(separator).map(str::trim).filter(|w| !w.is_empty()).collect();
        let [from, to] = words[..] else {
            return Err(
                at(format!("a line needs a sender and a receiver, but has {} words", words.len())).into()
            );
        };
        let host = |name: &str| {
            let host = hosts.get(name).or_else(|| hosts.get(&name.to_lowercase()));
            match host {
                Some(Some(host)) => Ok(*host),
                Some(None) => Err(at(format!("'{name}' is the name of several adapter ports: use a LID"))),
                None => Err(at(format!("no adapter of the fabric has the name, GUID or LID '{name}'"))),
            }
        };
        list.push((host(from)?, host(to)?));
    }
    Ok(list)
}

/// The part of the output that all parts of a sweep share.
fn head(
    args: &Args,
    fabric: &Fabric,
    routes: &Routes,
    simulation: &Simulation<'_>,
    runs: &[(Load, u64)],
) -> Value {
    let run = |(load, seed): &(Load, u64)| match load {
        Load::Share(share) => json!({ "load": share, "seed": seed }),
        Load::Messages => json!({ "load": null, "seed": seed }),
    };
    json!({
        "engine": routes.engine,
        "fabric": fabric.to_string(),
        "remarks": routes.remarks,
        "vls": simulation.vls(),
        "model": args.model,
        "traffic": args.traffic.display().to_string(),
        "message": args.message,
        "update": args.update.as_ref().map(|plan| json!({
            "plan": plan.display().to_string(),
            "way": args.way.to_possible_value().map(|way| way.get_name().to_owned()),
            "mads_per_second": args.mads,
            "barrier_ns": args.barrier as f64 / 1000.0,
        })),
        // A plan is as long as the tables that it changes.
        "settings": format!("{:?}", Settings { update: None, ..simulation.settings().clone() }),
        "runs": runs.iter().map(run).collect::<Vec<_>>(),
    })
}

/// The rows of a sweep, by load and seed.
const SWEEP: Rows = Rows {
    command: "dfdn simulate --json",
    list: "runs",
    is_row: |run, row| run["load"] == row["load"] && run["seed"] == row["seed"],
    name: |row| format!("load {} seed {}", row["load"], row["seed"]),
};

fn finish(value: &Value, json: bool) -> Result<Outcome, Failure> {
    if json {
        output::json(value)?;
    } else {
        output::stdout(|out| text(out, value))?;
    }
    let stuck = value["rows"].as_array().into_iter().flatten().any(|row| !row["deadlock"].is_null());
    Ok(if stuck { Outcome::Fails } else { Outcome::Fine })
}

/// The report as text.
fn text(out: &mut dyn Write, value: &Value) -> io::Result<()> {
    let word = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    line(out, "fabric", word("fabric"))?;
    line(out, "tables", word("engine"))?;
    for remark in value["remarks"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        line(out, "note", remark)?;
    }
    line(out, "VLs in use", &value["vls"])?;
    line(out, "model, traffic", format!("{}, {}", word("model"), word("traffic")))?;
    writeln!(
        out,
        "\n{:>6} {:>5} {:>9} {:>11} {:>11} {:>11} {:>11} {:>9} {:>10}",
        "load", "seed", "accepted", "mean ns", "median ns", "95 % ns", "99 % ns", "fairness", "packets"
    )?;
    let rows = || value["rows"].as_array().into_iter().flatten();
    for row in rows() {
        let number = |value: &Value, digits: usize| match value.as_f64() {
            Some(number) => format!("{number:.digits$}"),
            None => "-".to_owned(),
        };
        let latency = |key: &str| number(&row["latency_ns"][key], 0);
        write!(
            out,
            "{:>6} {:>5} {:>9} {:>11} {:>11} {:>11} {:>11} {:>9} {:>10}",
            number(&row["load"], 3),
            row["seed"].to_string(),
            number(&row["accepted"], 4),
            latency("mean"),
            latency("p50"),
            latency("p95"),
            latency("p99"),
            number(&row["fairness"], 3),
            row["packets"].to_string(),
        )?;
        match (row["deadlock"]["time_ns"].as_f64(), row["finished_ns"].as_f64()) {
            (Some(time), _) => writeln!(out, "  DEADLOCK at {time:.0} ns")?,
            (None, Some(time)) => writeln!(out, "  all arrived at {time:.0} ns")?,
            (None, None) => writeln!(out)?,
        }
    }
    if !value["update"].is_null() {
        writeln!(
            out,
            "\n{:>6} {:>5} {:>6} {:>9} {:>9} {:>9} {:>9} {:>17}",
            "load", "seed", "MADs", "no link", "no entry", "cut off", "stopped", "all flows after"
        )?;
    }
    for row in rows().filter(|row| row["update"].is_object()) {
        let (update, lost) = (&row["update"], &row["update"]["lost"]);
        let us =
            |value: &Value| value.as_f64().map_or("never".to_owned(), |ns| format!("{:.1} us", ns / 1000.0));
        writeln!(
            out,
            "{:>6} {:>5} {:>6} {:>9} {:>9} {:>9} {:>9} {:>17}",
            row["load"].as_f64().map_or("-".to_owned(), |load| format!("{load:.3}")),
            row["seed"].to_string(),
            update["mads"].to_string(),
            lost["no_link"].to_string(),
            lost["no_entry"].to_string(),
            lost["cut_off"].to_string(),
            us(&update["stopped_ns"]),
            us(&update["without_service_ns"]),
        )?;
    }
    if value["interrupted"].as_bool() == Some(true) {
        writeln!(out, "\ninterrupted: unfinished rows are left out")?;
    }
    if let Some(row) = rows().find(|row| !row["deadlock"].is_null()) {
        let d = &row["deadlock"];
        writeln!(
            out,
            "\nAt load {} with seed {} {} packets in {} buffers never move again.\n{}",
            row["load"],
            row["seed"],
            d["packets"],
            d["buffers"],
            d["text"].as_str().unwrap_or_default()
        )?;
    }
    Ok(())
}
