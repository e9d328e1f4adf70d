//! One node that lies, keeps silent or refuses is left out; the rest is routed, and it is said once.
//!
//! After some heavy sweeps the tables are read back from the simulated switches, past the falsifier. They
//! must be those that `engine::route` computes for what is left of the fabric, and safe with whatever comes
//! from what was left out. What is left the test says itself.

use std::time::Duration;

use dfdn::engine::{self, Settings};
use dfdn::fabric::{
    EndPort, Fabric, FabricBuilder, Guid, NodeId, PortNum, PortRef, Sifted, Survey, SwitchId, sift,
};
use dfdn::formats;
use dfdn::tables::{Routes, SlVlRow};
use dfdn::topology::Torus;
use dfdn::verify::verify;

use crate::host::falsify::Falsifier;
use crate::host::ibsim::Ibsim;
use crate::host::opensm::{Config, OpenSm};
use crate::host::readback::Readback;
use crate::host::{self, mcjoin, plugin};

fn net(fabric: &Fabric) -> String {
    let mut text = Vec::new();
    formats::ibnetdiscover::write(&mut text, fabric).expect("a vector takes everything");
    String::from_utf8(text).expect("text")
}

fn torus() -> Fabric {
    Torus { dims: vec![3, 5], cas: 1 }.build().expect("a torus")
}

/// A fabric under an OpenSM that hears lies.
struct Case {
    fabric: Fabric,
    sim: Ibsim,
    falsifier: Falsifier,
    sm: OpenSm,
}

impl Case {
    /// Starts OpenSM where these lies hold from the beginning. `None` without the tools.
    fn new(test: &str, lies: impl Fn(&Fabric) -> Vec<String>) -> Option<Self> {
        let tools = host::tools(test)?;
        let fabric = torus();
        let sim = Ibsim::start(tools, &net(&fabric));
        let falsifier = Falsifier::new();
        falsifier.order(&lies(&fabric));
        let extra = "sweep_interval 2\ntransaction_timeout 100\ntransaction_retries 1\n".to_owned();
        let config = Config { extra, ..plugin::config("dfdn,no_fallback") };
        let mut sm = OpenSm::start(&sim, &falsifier.config(config));
        sm.wait_log("dfdn: DF03", 1, Duration::from_secs(90));
        Some(Self { fabric, sim, falsifier, sm })
    }

    fn switch(&self, s: u32) -> Guid {
        self.fabric.switch(SwitchId(s)).guid
    }

    fn count(&self, what: &str) -> usize {
        self.sm.log().matches(what).count()
    }

    /// Has OpenSM sweep until what is true now has been found out and is in place.
    fn settle(&mut self) {
        let limit = Duration::from_secs(90);
        let mut placed = 0;
        for _ in 0..4 {
            let routed = self.count("dfdn: DF03");
            placed = self.count("dfdn: DF05");
            self.sm.hang_up();
            self.sm.wait_log("dfdn: DF03", routed + 1, limit);
        }
        self.sm.wait_log("dfdn: DF05", placed + 1, limit);
    }

    /// Notes on the fabric that were said.
    fn notes(&self) -> Vec<String> {
        let log = self.sm.log();
        log.lines().filter_map(|line| Some(line.split_once("dfdn: DF04: ")?.1.to_owned())).collect()
    }

    /// What is left without these switches.
    fn without(&self, switches: &[u32]) -> Fabric {
        let builder = FabricBuilder::from_fabric(&self.fabric);
        let mut owners = vec![None; self.fabric.lid_table_len()];
        let place = |end: &EndPort| PortRef { node: end.node, port: end.port };
        for end in self.fabric.endports() {
            end.lids().for_each(|lid| owners[lid.index()] = Some(place(end)));
        }
        let home = self.fabric.endports().iter().find(|end| end.is_adapter()).map(place);
        let id = |&s: &u32| (self.fabric.switch_node_id(SwitchId(s)), String::new());
        let bad = switches.iter().map(id).collect();
        let Sifted { fabric, .. } = sift(Survey { builder, owners, bad, home, ..Survey::default() }).unwrap();
        fabric
    }

    /// The switches hold what is computed for this fabric, and it is safe.
    fn assert_holds(&mut self, left: Fabric) {
        self.assert_holds_but(left, None);
    }

    /// The same where one switch has no SL2VL tables to be read, and sends on VL 0.
    fn assert_holds_but(&mut self, left: Fabric, on_vl_0: Option<SwitchId>) {
        let (left, mut held) = formats::load_tables(Readback::of(&self.sim).folder(), left)
            .unwrap_or_else(|e| panic!("{e}\n{}", self.sm.log()));
        let routed = engine::route(&left, &Settings::default()).expect("it can be routed");
        let log = self.sm.log();
        if let Some(s) = on_vl_0 {
            let ports = || (0..held.sl2vl.ports_of(s) as u8).map(PortNum);
            let turns: Vec<_> = ports().flat_map(|a| ports().map(move |b| (a, b))).collect();
            turns.into_iter().for_each(|(a, b)| held.sl2vl.set(s, a, b, SlVlRow::default()));
        }
        assert!(held.lft == routed.routes.lft, "{log}");
        let verdict = verify(&left, &Routes { path_sl: routed.routes.path_sl, ..held });
        assert!(verdict.is_safe(), "{:?}\n{log}", verdict.witness().map(|w| w.explain(&left)));
        assert!(self.sm.alive(), "{log}");
        for defect in ["ERR DF21", "ERR DF22", "ERR DF23", "ERR DF24", "ERR DF99"] {
            assert!(!log.contains(defect), "{log}");
        }
    }

    /// What was said of a node was said once, and it names all of these.
    fn assert_said_once(&self, words: &[&str]) {
        let notes = self.notes();
        let fit: Vec<_> = notes.iter().filter(|note| words.iter().all(|word| note.contains(word))).collect();
        assert_eq!(fit.len(), 1, "{words:?}: {notes:#?}");
    }
}

/// A switch with a foreign M_Key: it answers nothing that it is asked for of one kind, or takes no LID.
#[test]
fn a_switch_that_does_not_answer_is_left_out() {
    let lies = ["lose get switchinfo * 100", "lose get portinfo 0 100", "lid 0 0"];
    for lie in lies {
        let order = |f: &Fabric| vec![format!("{} {lie}", f.switch(SwitchId(5)).guid)];
        let Some(mut case) = Case::new("a silent switch", order) else { return };
        case.settle();
        let left = case.without(&[5]);
        case.assert_holds(left);
        assert!(!case.falsifier.seen().is_empty(), "{lie}");
        let (name, host) = (case.switch(5).to_string(), case.fabric.adapters().nth(5).unwrap().1.node);
        let host = case.fabric.node(host).guid.to_string();
        // Of one that does not answer OpenSM forgets all but the ports that lead to it.
        let forgotten = lie.contains("info");
        if forgotten {
            let behind = case.notes().iter().filter(|note| note.starts_with("what is behind switch")).count();
            assert_eq!(behind, 4, "{:?}", case.notes());
        } else {
            case.assert_said_once(&["is left out: ", &name, &host]);
        }
        // It tells the truth at last, and is back.
        case.falsifier.order::<&str>(&[]);
        case.settle();
        let left = case.without(&[]);
        case.assert_holds(left);
        if !forgotten {
            case.assert_said_once(&["no longer so", "is left out", &name]);
        }
    }
}

/// A switch that takes no tables is left out after some sweeps, and comes back when it takes them.
#[test]
fn a_switch_that_takes_no_tables_is_left_out() {
    for lie in ["lose set lft * 100", "refuse set sl2vl * 0x1c"] {
        let order = |f: &Fabric| vec![format!("{} {lie}", f.switch(SwitchId(6)).guid)];
        let Some(mut case) = Case::new("a switch without tables", order) else { return };
        case.sm.wait_log("does not take its tables", 1, Duration::from_secs(90));
        case.settle();
        let left = case.without(&[6]);
        case.assert_holds(left);
        let name = case.switch(6).to_string();
        case.assert_said_once(&["is left out", &name]);
        case.falsifier.order::<&str>(&[]);
        case.settle();
        let left = case.without(&[]);
        case.assert_holds(left);
    }
}

/// An adapter that answers the LID of another one costs the two of them, as OpenSM takes the LID away from both; one
/// that answers a wrong LMC keeps the LIDs that are its own.
#[test]
fn a_lid_that_another_has_and_a_wrong_lmc() {
    const HONEST: usize = 4;
    const LIAR: usize = 7;
    for lie in ["lid", "lmc"] {
        let order = |f: &Fabric| {
            let end = |n| f.adapters().nth(n).unwrap().1;
            let value = if lie == "lid" { end(HONEST).lid.get() } else { 3 };
            vec![format!("{} {lie} 1 {value}", f.node(end(LIAR).node).guid)]
        };
        let Some(mut case) = Case::new("a wrong LID", order) else { return };
        case.settle();
        let node = |n| case.fabric.adapters().nth(n).unwrap().1.node;
        let name = |n| case.fabric.node(node(n)).guid.to_string();
        let gone: &[usize] = if lie == "lid" { &[HONEST, LIAR] } else { &[] };
        let mut builder = FabricBuilder::from_fabric(&case.without(&[]));
        for &n in gone {
            builder.disconnect(PortRef { node: node(n), port: PortNum(1) });
        }
        let left = builder.finish(Default::default()).unwrap();
        let (honest, liar) = (name(HONEST), name(LIAR));
        case.assert_holds(left);
        if lie == "lid" {
            case.assert_said_once(&[&honest, "is left out"]);
            case.assert_said_once(&[&liar, "is left out"]);
        } else {
            case.assert_said_once(&[&liar, "with LMC 3", "belongs to"]);
        }
    }
}

/// A switch without SL2VL tables and one port with one VL: everybody is routed, on VL 0 over these links.
#[test]
fn a_switch_without_sl2vl_tables_and_a_narrow_port() {
    type Apply = fn(&mut FabricBuilder, NodeId);
    let lies: [(&str, Apply); 2] = [
        ("cap 0 0", |builder, node| {
            builder.node_mut(node).ports.iter_mut().for_each(|port| port.data_vls = Some(1));
        }),
        ("vlcap 2 1", |builder, node| builder.node_mut(node).ports[2].data_vls = Some(1)),
    ];
    for (lie, apply) in lies {
        let order = |f: &Fabric| vec![format!("{} {lie}", f.switch(SwitchId(5)).guid)];
        let Some(mut case) = Case::new("a narrow switch", order) else { return };
        case.settle();
        let mut builder = FabricBuilder::from_fabric(&case.fabric);
        for s in case.fabric.switch_ids() {
            // What ibsim's switches have.
            let node = case.fabric.switch_node_id(s);
            builder.node_mut(node).ports.iter_mut().for_each(|port| port.data_vls = Some(8));
        }
        apply(&mut builder, case.fabric.switch_node_id(SwitchId(5)));
        let left = builder.finish(Default::default()).unwrap();
        let on_vl_0 = lie.starts_with("cap").then_some(SwitchId(5));
        case.assert_holds_but(left, on_vl_0);
        // One VL for all would send 8 % of the pairs on detours.
        let said = case.sm.log();
        let said = said.lines().rfind(|line| line.contains("dfdn: DF03")).unwrap_or_default();
        assert!(said.contains("links with fewer than 8 VLs"), "{said}");
        if lie.starts_with("cap") {
            let name = case.switch(5).to_string();
            case.assert_said_once(&["has no SL to VL mapping tables", &name]);
        }
    }
}

/// Members behind a left-out switch are left out of a group, under way; it is no gap, and the others stay.
#[test]
fn members_that_are_left_out_make_no_gap() {
    let Some(mut case) = Case::new("members left out", |_| Vec::new()) else { return };
    case.sm.wait_log("-> SUBNET UP", 1, Duration::from_secs(90));
    let all: Vec<Guid> = case.fabric.adapters().map(|(_, end)| end.guid).collect();
    assert_eq!(mcjoin::join(&case.sim, mcjoin::BROADCAST, &all), vec![0xc000; all.len()]);
    let members = |n: usize| format!("multicast group 0xc000: {n} members over {n} switches");
    case.sm.wait_log(&members(15), 1, Duration::from_secs(30));
    case.falsifier.order(&[format!("{} lid 0 0", case.switch(6))]);
    case.settle();
    let left = case.without(&[6]);
    case.assert_holds(left);
    assert!(case.count(&members(14)) > 0, "{}", case.sm.log());
    assert_eq!(case.count("dfdn: DF31"), 0, "{}", case.sm.log());
}
