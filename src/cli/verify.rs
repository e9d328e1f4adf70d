//! `dfdn verify`: whether tables are safe.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Parser;
use serde_json::{Value, json};

use super::output::{line, yes};
use super::progress::Progress;
use super::{Failure, Outcome, output};
use dfdn::fabric::{ChannelId, Fabric, Vl};
use dfdn::tables::{InForce, Routes, SenderSls, Transition};
use dfdn::verify::mixture::Mixture;
use dfdn::verify::{SlSafety, Verdict, sl_safety, verify};

/// Judge the tables of any engine: every pair reachable, no loop, no credit loop
///
/// TABLES is a folder as `dfdn route -o` writes it, or the dumps of a running OpenSM (with log
/// flags that contain 0x40): opensm-lfts.dump, opensm-sl2vl.dump, psl, or instead lfts.dfdn,
/// sl2vl.dfdn, psl.dfdn. Without path SLs, every SL may be used on every path, and all of them must
/// be safe. With an opensm.mcfdbs, multicast is judged too; OpenSM's dump of it states no SLs, so
/// groups are assumed to have SL 0.
///
/// LIDs are those of the tables where these state them, and a note says where FABRIC has others. Whether links operate the
/// VLs is judged between switches. Where a table of SLs lacks a row between two links, packets are taken to be dropped.
///
/// What ibdiagnet 2 writes serves as well, so that tables of any subnet manager can be judged: ibdiagnet2.fdbs,
/// ibdiagnet2.slvl, ibdiagnet2.mcfdbs, and ibdiagnet2.lst as FABRIC. With an ibdiagnet2.far, its adaptive routing
/// groups are judged as sets of next hops: is a credit loop possible, whatever switches choose?
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    dfdn verify fabric.net tables\n  \
    ibnetdiscover | dfdn verify - /var/log --json\n\n\
    Exit code 1, with the credit loop or the pair that cannot reach as a witness, if they are not safe.")]
pub(super) struct Args {
    #[arg(help = super::FABRIC)]
    fabric: PathBuf,
    /// Folder of tables
    tables: PathBuf,
    /// File for the order of the virtual channels that proves that there is no credit loop
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
}

pub(super) fn run(args: &Args, json: bool) -> Result<Outcome, Failure> {
    output::spare([&*args.fabric, &args.tables], args.certificate.clone())?;
    let fabric = super::load_fabric(&args.fabric)?;
    let progress = Progress::on(format!("reading {}", args.tables.display()));
    let (fabric, routes) = super::load_tables(&args.tables, fabric)?;
    progress.say("verifying");
    let verdict = verify(&fabric, &routes);
    let safety = sl_safety(&fabric, &routes, &verdict);
    if let Some(file) = &args.certificate {
        if routes.port_sets.is_some() {
            log::error!(
                "there is no certificate for adaptive routing: it would cover the forwarding tables alone"
            );
        } else {
            let Transition { new, sls, .. } = Transition::between(&fabric, &routes, &fabric, &routes);
            match certificate(&fabric, &sls, &[&new]) {
                Value::Null if verdict.deadlock_free => log::error!(
                    "there is a credit loop of packets that do not arrive, so there is no certificate"
                ),
                Value::Null => log::error!("there is a credit loop, so there is no certificate"),
                order => output::to_file_or_stdout(Some(file), |out| {
                    writeln!(out, "{}", json!({ "order": order }))
                })?,
            }
        }
    }
    drop(progress);
    if json {
        let mut value = verdict.to_json(&fabric);
        value["safe_with_sls"] = safety.to_json();
        value["remarks"] = routes.remarks.clone().into();
        output::json(&value)?;
    } else {
        output::stdout(|out| text(out, &fabric, &routes, &verdict, safety))?;
    }
    Ok(if verdict.is_safe() { Outcome::Fine } else { Outcome::Fails })
}

/// The virtual channels in use, `[switch GUID, port, VL]`, each before all that it waits for while any of the states
/// may be in force; null if there is a credit loop.
pub(super) fn certificate(fabric: &Fabric, sls: &SenderSls, states: &[&InForce]) -> Value {
    let lane = |(channel, vl): (ChannelId, Vl)| {
        let c = fabric.channels().get(channel);
        json!([fabric.switch(c.from).guid.to_string(), c.out_port.0, vl.0])
    };
    let order = Mixture::new(fabric, sls, states).order();
    order.map_or(Value::Null, |order| order.into_iter().map(lane).collect())
}

/// The report as text.
pub(super) fn text(
    out: &mut dyn Write,
    fabric: &Fabric,
    routes: &Routes,
    v: &Verdict,
    safety: SlSafety,
) -> io::Result<()> {
    line(out, "fabric", fabric)?;
    for remark in &routes.remarks {
        line(out, "note", remark)?;
    }
    line(out, "every pair reachable", yes(v.reachable))?;
    line(out, "free of loops", yes(v.loop_free))?;
    let of_whom = match (v.deadlock_free, v.deadlock_free_adapters) {
        (true, _) if !(v.reachable && v.loop_free) => ", but for packets that do not arrive",
        (false, true) => " (yes between adapters alone)",
        _ => "",
    };
    line(out, "deadlock-free", format!("{}{of_whom}", yes(v.deadlock_free)))?;
    line(out, "safe if hosts use", safety.describe())?;
    line(out, "multicast", multicast(v))?;
    if let Some(adaptive) = &v.adaptive {
        let safe = yes(adaptive.is_safe());
        line(
            out,
            "adaptive routing",
            format!("{} entries with more than one port: safe whatever is chosen {safe}", adaptive.entries),
        )?;
    }
    line(out, "VLs within the links", yes(v.vls_legal))?;
    let detours = format!(
        "{:.3} % of the pairs longer, mean stretch {:.4}",
        100.0 * v.nonminimal_share,
        v.mean_stretch
    );
    line(out, "minimal", if v.minimal { "yes" } else { &detours })?;
    // If one switch has all adapters, none of their packets takes a link between switches.
    let vls = if v.vls == 0 { "none between switches".to_owned() } else { v.vls.to_string() };
    let all = if v.vls_all == 0 { "none".to_owned() } else { v.vls_all.to_string() };
    line(out, "VLs, SLs", format!("{vls}, {} (with switches as ends: {all}, {})", v.sls, v.sls_all))?;
    line(
        out,
        "hops between switches",
        format!("mean {:.3}, most {}, diameter {}", v.mean_hops, v.max_hops, v.diameter),
    )?;
    for witness in &v.witnesses {
        writeln!(out, "\n{}", witness.explain(fabric))?;
    }
    writeln!(out, "\n{}", if v.is_safe() { "SAFE" } else { "NOT SAFE" })
}

/// The groups, as one line.
fn multicast(v: &Verdict) -> String {
    let Some(m) = &v.multicast else { return "no tables".to_owned() };
    let groups = if m.groups == 1 { "group" } else { "groups" };
    let sls = match m.sls {
        u16::MAX => "any SL".to_owned(),
        0 => "no SL".to_owned(),
        _ => format!("SL {}", m.sl_numbers().iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    };
    format!(
        "{} {groups}: every member reached {}, once {}, free of loops {}, deadlock-free together with unicast {} ({sls})",
        m.groups,
        yes(m.reachable),
        yes(m.once),
        yes(m.loop_free),
        yes(m.deadlock_free)
    )
}
