//! When dfdn cannot route, nothing is lost: in stock OpenSM the SA continues to answer, groups keep
//! their trees, and switches keep what is still valid of their tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use dfdn::engine::{self, Settings};
use dfdn::fabric::{Channel, Fabric, Guid};
use dfdn::formats;
use dfdn::tables::{Lft, McastGroup, Routes, SlVlRow};
use dfdn::topology::{Ring, small_members};
use dfdn::verify::verify;

use crate::host::ibsim::{Ibsim, net};
use crate::host::opensm::{Config, OpenSm};
use crate::host::readback::{self, Readback};
use crate::host::sweeps::{End, Sweeps};
use crate::host::{self, mcjoin, plugin, saquery, wait_for};

/// Number of SA queries in each situation.
const QUERIES: usize = 1000;

fn held(sim: &Ibsim, fabric: &Fabric) -> (Fabric, Routes) {
    formats::load_tables(Readback::of(sim).folder(), fabric.clone()).expect("the tables load")
}

/// The SL of each pair of adapters that has a path.
fn path_sls(sim: &Ibsim, fabric: &Fabric) -> BTreeMap<(u16, u16), u8> {
    let lids: Vec<u16> = fabric.adapters().map(|(_, e)| e.lid.get()).collect();
    let pairs = lids.iter().flat_map(|&a| lids.iter().map(move |&b| (a, b))).filter(|(a, b)| a != b);
    pairs.filter_map(|(a, b)| Some(((a, b), saquery::path_sl(sim, a, b)?))).collect()
}

/// Queries these pairs repeatedly: number of answers with the same SL as before, and number of
/// queries without an answer.
fn ask(sim: &Ibsim, pairs: &BTreeMap<(u16, u16), u8>) -> (usize, usize) {
    let mut text = String::new();
    for ((from, to), sl) in pairs {
        writeln!(text, "{from} {to} {:x}", 1 << sl).expect("a string takes everything");
    }
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    fs::write(file.path(), text).expect("the pairs are written");
    let output =
        sim.run(&[], sim.paths()).arg(file.path()).arg(QUERIES.to_string()).output().expect("paths starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |name| words[words.iter().position(|w| *w == name).expect("a word") + 1].parse().unwrap();
    (number("answered"), number("none"))
}

fn cable(fabric: &Fabric, channel: &Channel) -> String {
    format!("\"S-{:016x}\"[{}]", fabric.switch(channel.from).guid.0, channel.out_port)
}

/// The tables without the entries over a removed cable and to missing LIDs.
fn without(fabric: &Fabric, lft: &Lft, cut: &[Channel]) -> Lft {
    let mut left = lft.clone();
    for lid in fabric.endports().iter().flat_map(|e| e.lids()) {
        for s in fabric.switch_ids() {
            let over = |c: &Channel| {
                let there = c.from == s && lft.get(s, lid) == Some(c.out_port);
                there || c.to == s && lft.get(s, lid) == Some(c.in_port)
            };
            if cut.iter().any(over) {
                left.clear(s, lid);
            }
        }
    }
    left
}

fn assert_lft(what: &str, fabric: &Fabric, found: &Lft, wanted: &Lft) {
    for lid in fabric.endports().iter().flat_map(|e| e.lids()) {
        for s in fabric.switch_ids() {
            assert_eq!(
                found.get(s, lid),
                wanted.get(s, lid),
                "{what}: LID {lid} at {}",
                fabric.describe_switch(s)
            );
        }
    }
}

/// Whether packets of a pair arrive.
fn arrives(fabric: &Fabric, lft: &Lft, (from, to): (u16, u16)) -> bool {
    let end = |lid: u16| fabric.adapters().map(|(_, e)| e).find(|e| e.lid.get() == lid).expect("an adapter");
    let (mut at, target) = (end(from).attachment.expect("a switch").0, end(to));
    for _ in 0..=fabric.num_switches() {
        let Some(port) = lft.get(at, target.lid) else { return false };
        if Some((at, port)) == target.attachment {
            return true;
        }
        let Some(channel) = fabric.channels().at_port(at, port) else { return false };
        at = fabric.channels().get(channel).to;
    }
    false
}

fn group(routes: &Routes) -> McastGroup {
    let group = routes.multicast.iter().find(|g| g.mlid == McastGroup::FIRST_MLID).cloned();
    group.unwrap_or(McastGroup { mlid: McastGroup::FIRST_MLID, sls: None, ports: Vec::new() })
}

/// Waits until the switches have the leaf ports of all these adapters in the broadcast group.
fn wait_for_members(sim: &Ibsim, fabric: &Fabric, members: &[Guid]) -> Option<McastGroup> {
    wait_for(Duration::from_secs(10), || {
        let group = group(&held(sim, fabric).1);
        let there = |guid: &Guid| {
            let end = fabric.adapters().map(|(_, e)| e).find(|e| e.guid == *guid).expect("an adapter");
            let (s, port) = end.attachment.expect("a switch");
            group.at(s).contains(port)
        };
        members.iter().all(there).then_some(group)
    })
}

fn assert_held(what: &str, end: End, reason: &str) -> String {
    let End::Held(said) = end else { panic!("{what}: {end:?}") };
    let said = said.join("\n");
    assert!(
        said.contains(reason) && said.contains("ERR DF29") && !said.contains("ERR 0A03"),
        "{what}: {said}"
    );
    said
}

/// What a hold keeps of tables is as safe as they were, according to a judge that knows nothing of
/// holds.
#[test]
fn what_is_left_of_safe_tables_is_safe() {
    let mut judged = 0;
    for (name, fabric) in small_members() {
        for engine in ["dfdn", "dfdn-paper", "updn-trees"] {
            let settings = Settings { engine: engine.to_owned(), vls: Some(15), ..Settings::default() };
            let Ok(routed) = engine::route(&fabric, &settings) else { continue };
            let channels = fabric.channels().as_slice();
            for step in [2, 3, 7] {
                let cut: Vec<Channel> = channels.iter().skip(step).step_by(step).copied().collect();
                let lft = without(&fabric, &routed.routes.lft, &cut);
                let verdict = verify(&fabric, &Routes { lft, ..routed.routes.clone() });
                let what = format!("{engine} on {name}, each {step}th channel cut");
                assert!(verdict.deadlock_free && verdict.loop_free && verdict.vls_legal, "{what}");
                judged += usize::from(!verdict.reachable);
            }
        }
    }
    assert!(judged > 100, "{judged} tables with gaps");
}

/// DF-D2 routes a ring of five switches, which has diameter two, and refuses the chain that a cut
/// cable leaves.
#[test]
fn a_refusal_costs_nothing() {
    let Some(tools) = host::tools("refusals") else { return };
    let plan = Ring { switches: 5, cas: 2 }.build().expect("a ring");
    let mut sim = Ibsim::start(tools, &net(&plan));
    // One adapter is added later.
    let late = plan.nodes().iter().rfind(|n| !n.is_switch()).expect("an adapter").guid;
    let late_cable = format!("\"H-{:016x}\"[1]", late.0);
    sim.commands(&[format!("Unlink {late_cable}")]);
    let mut sm = OpenSm::start(&sim, &plugin::config("dfd2,no_fallback"));
    let mut sweeps = Sweeps::of(&sm);
    assert_eq!(sweeps.rest(&mut sm, 0), End::Up);
    let (fabric, before) = held(&sim, &plan);
    let pairs: BTreeMap<_, _> = path_sls(&sim, &fabric);
    assert_eq!(pairs.len(), 9 * 8);
    assert_eq!(ask(&sim, &pairs), (QUERIES, 0), "before");
    let ports: Vec<Guid> = fabric.adapters().filter(|(_, e)| e.guid != late).map(|(_, e)| e.guid).collect();
    mcjoin::join(&sim, mcjoin::BROADCAST, &ports[..3]);
    assert!(wait_for_members(&sim, &fabric, &ports[..3]).is_some(), "{}", sm.log());

    // The cable opposite the subnet manager, which reaches all switches by the others.
    let channels = fabric.channels().as_slice();
    let named = |s, name: &str| fabric.switch(s).description == name;
    let cut = channels.iter().find(|c| named(c.from, "sw-2") && named(c.to, "sw-3"));
    let cut = *cut.expect("a ring has it");
    sim.commands(&[format!("Unlink {}", cable(&fabric, &cut))]);
    let said = assert_held("cut", sweeps.settle(&mut sm), "ERR DF22");
    assert!(said.contains("lead nowhere now") && !said.contains("NO ROUTE"), "{said}");
    let left = without(&fabric, &before.lft, &[cut]);
    assert!(left != before.lft);
    assert_lft("cut", &fabric, &held(&sim, &fabric).1.lft, &left);
    let kept: BTreeMap<_, _> =
        pairs.iter().filter(|(pair, _)| arrives(&fabric, &left, **pair)).map(|(p, s)| (*p, *s)).collect();
    assert!(kept.len() >= pairs.len() / 2 && kept.len() < pairs.len(), "{}", kept.len());
    assert_eq!(ask(&sim, &kept), (QUERIES, 0), "while it refuses");
    let dead = pairs.iter().filter(|(pair, _)| !kept.contains_key(*pair)).map(|(p, s)| (*p, *s)).collect();
    assert_eq!(ask(&sim, &dead), (0, QUERIES), "a path over a cable that is gone");
    // A member joins while dfdn refuses.
    let old = group(&held(&sim, &fabric).1);
    mcjoin::join(&sim, mcjoin::BROADCAST, &ports[3..4]);
    let new = wait_for_members(&sim, &fabric, &ports[..4]).unwrap_or_else(|| panic!("{}", sm.log()));
    for (s, set) in &old.ports {
        assert!(set.iter().all(|port| new.at(*s).contains(port)), "a port left the group");
    }
    assert!(!sm.log().contains("ERR 0A03"));

    // A new adapter is neither routed nor admitted, and nobody else notices.
    sim.commands(&[format!("ReLink {late_cable}")]);
    let said = assert_held("new", sweeps.settle(&mut sm), "ERR DF22");
    assert!(said.contains("1 end ports are new"), "{said}");
    let (_, now) = held(&sim, &fabric);
    assert_lft("new", &fabric, &now.lft, &left);
    let (s, port) = plan
        .adapters()
        .map(|(_, e)| e)
        .find(|e| plan.node(e.node).guid == late)
        .and_then(|e| e.attachment)
        .expect("a switch");
    for (_, out) in fabric.channels().out(s) {
        let there = *out != cut && channels[cut.reverse.index()] != *out;
        if there {
            assert_eq!(now.sl2vl.row(s, port, out.out_port), SlVlRow(u64::MAX), "a row that drops");
        }
    }
    assert_eq!(ask(&sim, &kept), (QUERIES, 0), "with a new adapter");

    // An adapter disappears and comes back, and so do its entries.
    let other = fabric.adapters().map(|(_, e)| e).find(|e| e.guid == ports[2]).expect("an adapter");
    let (s, port) = other.attachment.expect("a switch");
    let cable_to = format!("\"S-{:016x}\"[{port}]", fabric.switch(s).guid.0);
    sim.commands(&[format!("Unlink {cable_to}")]);
    let said = assert_held("gone", sweeps.settle(&mut sm), "ERR DF22");
    assert!(said.contains("1 LIDs are gone"), "{said}");
    let lft = held(&sim, &fabric).1.lft;
    assert!(fabric.switch_ids().all(|s| lft.get(s, other.lid).is_none()), "no entry to it");
    sim.commands(&[format!("ReLink {cable_to}")]);
    assert_held("back", sweeps.settle(&mut sm), "ERR DF22");
    assert_lft("back", &fabric, &held(&sim, &fabric).1.lft, &left);
    assert_eq!(ask(&sim, &kept), (QUERIES, 0), "after an adapter came back");

    // It is routed as soon as the fabric can be.
    sim.commands(&[format!("ReLink {}", cable(&fabric, &cut))]);
    assert_eq!(sweeps.settle(&mut sm), End::Up);
    assert!(sweeps.said().iter().any(|l| l.starts_with("DF05")), "{:?}", sweeps.said());
    let (whole, now) = held(&sim, &plan);
    let settings = Settings { engine: "dfd2".to_owned(), ..Settings::default() };
    let routed = engine::route(&whole, &settings).expect("it can be routed");
    assert!(now.lft == routed.routes.lft);
    assert!(verify(&whole, &Routes { path_sl: routed.routes.path_sl, ..now }).is_safe());
    assert_eq!(path_sls(&sim, &whole).len(), 10 * 9);
    assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
}

/// Panics in either callback and memory exhaustion: every entry, row and answer stays, over several
/// sweeps.
#[test]
fn nothing_changes_where_only_dfdn_fails() {
    let Some(tools) = host::tools("failures of dfdn's own") else { return };
    let plan = Ring { switches: 5, cas: 1 }.build().expect("a ring");
    let mut answered = 0;
    for (way, reason) in [
        (Some("build_lid_matrices:1"), "ERR DF99"),
        (Some("ucast_build_fwd_tables:1"), "ERR DF99"),
        (None, "ERR DF35"),
    ] {
        let what = way.unwrap_or("memory");
        let sim = Ibsim::start(tools, &net(&plan));
        let env = way.map(|way| ("DFDN_DRILL_PANIC".to_owned(), PathBuf::from(way)));
        let config = Config { env: env.into_iter().collect(), ..plugin::config("dfdn-paper,no_fallback") };
        let mut sm = OpenSm::start(&sim, &config);
        let mut sweeps = Sweeps::of(&sm);
        assert_eq!(sweeps.rest(&mut sm, 0), End::Up, "{what}");
        let tables = || {
            let back = Readback::of(&sim);
            [back.lfts(), back.sl2vl(), back.text("opensm.mcfdbs"), back.text("vlarb")]
        };
        let (fabric, _) = held(&sim, &plan);
        let ports: Vec<Guid> = fabric.adapters().map(|(_, e)| e.guid).collect();
        mcjoin::join(&sim, mcjoin::BROADCAST, &ports[1..3]);
        assert!(wait_for_members(&sim, &fabric, &ports[1..3]).is_some(), "{what}: {}", sm.log());
        let (before, pairs) = (tables(), path_sls(&sim, &fabric));
        assert_eq!(pairs.len(), 5 * 4);
        let memory = |sm: &OpenSm, limit: &str| {
            let pid = sm.pid().to_string();
            let status =
                Command::new("prlimit").args(["--pid", &pid, &format!("--as={limit}:unlimited")]).status();
            assert!(status.expect("prlimit is part of util-linux").success());
        };
        if way.is_none() {
            let used = sm.address_space().expect("a running process");
            memory(&sm, &(1024 * (used + 4096)).to_string());
        }
        for sweep in 1..=3 {
            let said = assert_held(what, sweeps.settle(&mut sm), reason);
            assert!(!said.contains("lead nowhere now"), "{what}: {said}");
            assert!(tables() == before, "{what}: sweep {sweep}");
            let (yes, no) = ask(&sim, &pairs);
            answered += yes;
            assert_eq!((yes, no), (QUERIES, 0), "{what}: sweep {sweep}");
        }
        if way.is_none() {
            memory(&sm, "unlimited");
            assert_eq!(sweeps.settle(&mut sm), End::Up, "{what}");
            assert!(tables() == before, "{what}: afterwards");
        }
        assert!(sm.alive() && sm.stop().success(), "{what}: {}", sm.log());
    }
    println!("{answered} of {answered} queries answered as before");
}

/// If the administrator lets OpenSM fall back to another engine, that one is asked.
#[test]
fn another_engine_takes_over_where_there_is_one() {
    let Some(tools) = host::tools("other engines") else { return };
    let plan = Ring { switches: 5, cas: 1 }.build().expect("a ring");
    for (engines, other) in [("dfd2", "minhop"), ("dfd2,dfdn,no_fallback", "dfdn")] {
        let mut sim = Ibsim::start(tools, &net(&plan));
        let mut sm = OpenSm::start(&sim, &plugin::config(engines));
        let mut sweeps = Sweeps::of(&sm);
        assert_eq!(sweeps.rest(&mut sm, 0), End::Up);
        assert_eq!(sm.engine_used().as_deref(), Some("dfd2"));
        sim.commands(&[format!("Unlink {}", cable(&plan, &plan.channels().as_slice()[0]))]);
        assert_eq!(sweeps.settle(&mut sm), End::Up, "{engines}");
        assert_eq!(sm.engine_used().as_deref(), Some(other), "{engines}");
        let (fabric, _) = held(&sim, &plan);
        assert_eq!(path_sls(&sim, &fabric).len(), 5 * 4, "{engines}");
        assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
    }
}

/// The tables in force are those of another engine, which fails as dfdn does: nothing is sent, and
/// the SA answers from what the switches have.
#[test]
fn answers_go_on_by_the_tables_of_another_engine() {
    let Some(tools) = host::tools("tables of another engine") else { return };
    let plan = Ring { switches: 6, cas: 1 }.build().expect("a ring");
    let sim = Ibsim::start(tools, &net(&plan));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let roots = folder.path().join("roots");
    fs::write(&roots, format!("{}\n", plan.switch(plan.switch_ids().next().expect("six")).guid))
        .expect("it is written");
    let extra = format!("root_guid_file {}\n", roots.display());
    let mut sm = OpenSm::start(&sim, &Config { extra, ..plugin::config("updn,dfd2,no_fallback") });
    let mut sweeps = Sweeps::of(&sm);
    assert_eq!(sweeps.rest(&mut sm, 0), End::Up);
    assert_eq!(sm.engine_used().as_deref(), Some("updn"), "{}", sm.log());
    let (fabric, before) = held(&sim, &plan);
    let pairs = path_sls(&sim, &fabric);
    assert_eq!(pairs.len(), 6 * 5);
    fs::remove_file(&roots).expect("it is removed");
    let end = sweeps.settle(&mut sm);
    assert!(matches!(end, End::Refused(_)), "{end:?}");
    assert_eq!(ask(&sim, &pairs), (QUERIES, 0));
    assert!(held(&sim, &fabric).1.lft == before.lft);
    assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
}

/// Settings that do not fit the fabric: those from before stay in force; at start, the nearest that
/// fit are used.
#[test]
fn settings_that_do_not_fit_are_slips() {
    let Some(tools) = host::tools("settings that do not fit") else { return };
    let plan = Ring { switches: 6, cas: 1 }.build().expect("a ring");
    let slips = [
        ("classes 15\n", "Set classes to at most"),
        ("engine updn-trees\nvls 2\ntrees 5\n", "trees 2 at most"),
        ("engine dfdn-paper\nvls 1\n", "the setting vls allows 1"),
        ("engine dfd2\n", "at most two channels"),
    ];
    let start = |text: &str| {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        fs::write(file.path(), text).expect("the settings are written");
        let sim = Ibsim::start(tools, &net(&plan));
        let env = vec![("DFDN_CONF".to_owned(), file.path().to_owned())];
        let mut sm = OpenSm::start(&sim, &Config { env, ..plugin::config("dfdn,no_fallback") });
        let mut sweeps = Sweeps::of(&sm);
        assert_eq!(sweeps.rest(&mut sm, 0), End::Up, "{text}: {}", sm.log());
        (file, sim, sm, sweeps)
    };
    let said = |sweeps: &Sweeps, what: &str, hint: &str| {
        let said = sweeps.said();
        let line =
            said.iter().find(|l| l.starts_with("ERR DF28")).unwrap_or_else(|| panic!("{what}: {said:?}"));
        assert!(line.contains(hint) && line.contains(" instead of "), "{what}: {line}");
        assert!(said.iter().any(|l| l.starts_with("DF05")), "{what}: {said:?}");
    };
    let (file, sim, mut sm, mut sweeps) = start("classes 2\n");
    let tables = || [Readback::of(&sim).lfts(), Readback::of(&sim).sl2vl()];
    let before = tables();
    for (slip, hint) in slips {
        fs::write(file.path(), slip).expect("the settings are written");
        assert_eq!(sweeps.settle(&mut sm), End::Up, "{slip}");
        said(&sweeps, slip, hint);
        assert!(tables() == before, "{slip}");
    }
    assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
    for (slip, hint) in slips {
        let (_file, sim, mut sm, sweeps) = start(slip);
        said(&sweeps, slip, hint);
        assert!(verify(&held(&sim, &plan).0, &held(&sim, &plan).1).reachable, "{slip}");
        assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
    }
}

/// A pipe as configuration file: OpenSM does not wait for a writer.
#[test]
fn a_pipe_for_a_configuration_file_does_not_hang_opensm() {
    let Some(tools) = host::tools("a pipe for a file") else { return };
    let plan = Ring { switches: 5, cas: 1 }.build().expect("a ring");
    let sim = Ibsim::start(tools, &net(&plan));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("dfdn.conf");
    fs::write(&file, "prefer one-sl\n").expect("the settings are written");
    let env = vec![("DFDN_CONF".to_owned(), file.clone())];
    let mut sm = OpenSm::start(&sim, &Config { env, ..plugin::config("dfdn,no_fallback") });
    let mut sweeps = Sweeps::of(&sm);
    assert_eq!(sweeps.rest(&mut sm, 0), End::Up);
    fs::remove_file(&file).expect("it is removed");
    assert!(Command::new("mkfifo").arg(&file).status().expect("mkfifo is of coreutils").success());
    assert_eq!(sweeps.settle(&mut sm), End::Up);
    let said = sweeps.said().join("\n");
    assert!(said.contains("ERR DF28") && said.contains("not a regular file"), "{said}");
    assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
}

/// No thread can be started, then one: the fabric is still routed, with the same tables.
#[test]
fn without_further_threads_the_fabric_is_routed_all_the_same() {
    let Some(tools) = host::tools("few threads") else { return };
    let plan = Ring { switches: 5, cas: 1 }.build().expect("a ring");
    let sim = Ibsim::start(tools, &net(&plan));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("threads");
    let library = readback::compile_shared("few_threads").expect("a C compiler");
    let loader = "/lib64/ld-linux-x86-64.so.2".to_owned();
    let under = vec![loader, "--preload".to_owned(), library.display().to_string()];
    let env = vec![("FEW_THREADS".to_owned(), file.clone())];
    let mut sm = OpenSm::start(&sim, &Config { env, under, ..plugin::config("dfdn,no_fallback") });
    let mut sweeps = Sweeps::of(&sm);
    assert_eq!(sweeps.rest(&mut sm, 0), End::Up);
    let before = [Readback::of(&sim).lfts(), Readback::of(&sim).sl2vl()];
    for left in ["0", "1", "0"] {
        fs::write(&file, left).expect("it is written");
        assert_eq!(sweeps.settle(&mut sm), End::Up, "{}", sm.log());
        assert!(sweeps.said().iter().any(|l| l.starts_with("DF03")), "{:?}", sweeps.said());
        assert!([Readback::of(&sim).lfts(), Readback::of(&sim).sl2vl()] == before, "{left}");
    }
    assert!(sm.log().contains("dfdn: DF17"), "{}", sm.log());
    fs::remove_file(&file).expect("it is removed");
    assert_eq!(sweeps.settle(&mut sm), End::Up);
    assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
}

/// An adapter that takes no SL2VL row under two classes: sweeps become rarer and rarer.
#[test]
fn one_adapter_does_not_make_a_storm_of_sweeps() {
    let Some(tools) = host::tools("storms of sweeps") else { return };
    let plan = Ring { switches: 5, cas: 1 }.build().expect("a ring");
    let mut sim = Ibsim::start(tools, &net(&plan));
    let adapter = plan.nodes().iter().rfind(|n| !n.is_switch()).expect("an adapter").guid;
    sim.command(&format!("Error \"H-{:016x}\" 100 0x17", adapter.0));
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    fs::write(file.path(), "classes 2\n").expect("the settings are written");
    let env = vec![("DFDN_CONF".to_owned(), file.path().to_owned())];
    let extra = "sweep_interval 2\n".to_owned();
    let sm = OpenSm::start(&sim, &Config { env, extra, ..plugin::config("dfdn,no_fallback") });
    std::thread::sleep(Duration::from_secs(14));
    let log = sm.log();
    let count = |what: &str| log.matches(what).count();
    assert!(log.contains("ERR DF26") && log.contains("Tried again in 4 s"), "{log}");
    assert!(!log.contains("dfdn: DF05"), "{log}");
    assert!(
        (4..=7).contains(&count("INITIATING HEAVY SWEEP")),
        "{} sweeps\n{log}",
        count("INITIATING HEAVY SWEEP")
    );
}

/// Switches that lose their blocks of forwarding tables: nothing claims that they are in place, and
/// the log names these switches and how many blocks each misses.
#[test]
fn lost_forwarding_tables_are_not_called_in_place() {
    let Some(tools) = host::tools("lost forwarding tables") else { return };
    let plan = Ring { switches: 5, cas: 1 }.build().expect("a ring");
    let mut sim = Ibsim::start(tools, &net(&plan));
    let switches: Vec<Guid> = plan.switch_ids().skip(2).map(|s| plan.switch(s).guid).collect();
    for guid in &switches {
        sim.command(&format!("Error \"S-{:016x}\" 100 0x19", guid.0));
    }
    let mut sm = OpenSm::start(&sim, &plugin::config("dfdn,no_fallback"));
    sm.wait_log("blocks of forwarding tables are not in place", 1, Duration::from_secs(30));
    let log = sm.log();
    assert!(!log.contains("dfdn: DF05"), "{log}");
    let line = log
        .lines()
        .find(|l| l.contains("blocks of forwarding tables are not in place"))
        .expect("it is there");
    assert!(line.contains("3 of 5 blocks"), "{line}");
    assert!(switches.iter().all(|guid| line.contains(&guid.to_string())), "{line}");
    for guid in &switches {
        sim.command(&format!("Error \"S-{:016x}\" 0", guid.0));
    }
    sm.hang_up();
    sm.wait_log("dfdn: DF05", 1, Duration::from_secs(30));
    let (fabric, now) = held(&sim, &plan);
    let routed = engine::route(&fabric, &Settings::default()).expect("it can be routed");
    assert!(now.lft == routed.routes.lft);
}
