//! A node that lies, does not answer or refuses is left out; the rest is routed, and the log says
//! so once.
//!
//! After some heavy sweeps the tables are read back from the simulated switches, bypassing the
//! falsifier. They must be those that `engine::route` computes for the remaining fabric, and safe
//! with any packets from what was left out. The test itself states what remains.

use std::time::Duration;

use dfdn::engine::{self, Settings};
use dfdn::fabric::{
    EndPort, Fabric, FabricBuilder, Guid, LinkState, NodeId, PortNum, PortRef, Sifted, Survey, SwitchId, sift,
};
use dfdn::formats;
use dfdn::tables::{Routes, SlVlRow};
use dfdn::topology::Torus;
use dfdn::verify::verify;

use crate::host::falsify::Falsifier;
use crate::host::ibsim::{Ibsim, net};
use crate::host::opensm::{Config, OpenSm};
use crate::host::readback::Readback;
use crate::host::{self, mcjoin, plugin};

fn torus() -> Fabric {
    Torus { dims: vec![3, 5], cas: 1 }.build().expect("a torus")
}

/// A fabric under an OpenSM that receives false answers.
struct Case {
    fabric: Fabric,
    sim: Ibsim,
    falsifier: Falsifier,
    sm: OpenSm,
}

impl Case {
    /// Starts OpenSM with these lies in force from the beginning. `None` without the tools.
    fn new(test: &str, lies: impl Fn(&Fabric) -> Vec<String>) -> Option<Self> {
        let tools = host::tools(test)?;
        let fabric = torus();
        let sim = Ibsim::start(tools, &net(&fabric));
        let falsifier = Falsifier::new();
        falsifier.order(&lies(&fabric));
        let extra = "sweep_interval 2\ntransaction_timeout 100\ntransaction_retries 1\n".to_owned();
        let config = plugin::fast(Config { extra, ..plugin::config("dfdn,no_fallback") });
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

    /// Makes OpenSM sweep until the current state has been found and is in place.
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

    /// Remarks logged about the fabric.
    fn notes(&self) -> Vec<String> {
        let log = self.sm.log();
        log.lines().filter_map(|line| Some(line.split_once("dfdn: DF04: ")?.1.to_owned())).collect()
    }

    /// Who owns each LID.
    fn owners(&self) -> Vec<Option<PortRef>> {
        let mut owners = vec![None; self.fabric.lid_table_len()];
        for end in self.fabric.endports() {
            let place = PortRef { node: end.node, port: end.port };
            end.lids().for_each(|lid| owners[lid.index()] = Some(place));
        }
        owners
    }

    /// What is left without these switches.
    fn without(&self, switches: &[u32]) -> Fabric {
        let builder = FabricBuilder::from_fabric(&self.fabric);
        let owners = self.owners();
        let place = |end: &EndPort| PortRef { node: end.node, port: end.port };
        let home = self.fabric.endports().iter().find(|end| end.is_adapter()).map(place);
        let id = |&s: &u32| (self.fabric.switch_node_id(SwitchId(s)), String::new());
        let bad = switches.iter().map(id).collect();
        let Sifted { fabric, .. } = sift(Survey { builder, owners, bad, home, ..Survey::default() }).unwrap();
        fabric
    }

    /// The switches hold what is computed for this fabric, and it is safe.
    fn assert_holds(&mut self, left: Fabric) {
        self.assert_holds_but(left, None, None);
    }

    /// The same where one switch has no SL2VL tables to be read, and sends on VL 0, or one has no LID, so that
    /// nothing can be read from it.
    fn assert_holds_but(&mut self, left: Fabric, on_vl_0: Option<SwitchId>, no_lid: Option<SwitchId>) {
        let (left, mut held) = formats::load_tables(Readback::of(&self.sim).folder(), left)
            .unwrap_or_else(|e| panic!("{e}\n{}", self.sm.log()));
        let routed = engine::route(&left, &Settings::default()).expect("it can be routed");
        let log = self.sm.log();
        if let Some(s) = on_vl_0 {
            let ports = || (0..held.sl2vl.ports_of(s) as u8).map(PortNum);
            let turns: Vec<_> = ports().flat_map(|a| ports().map(move |b| (a, b))).collect();
            turns.into_iter().for_each(|(a, b)| held.sl2vl.set(s, a, b, SlVlRow::default()));
        }
        if let Some(s) = no_lid {
            for lid in left.endports().iter().flat_map(EndPort::lids) {
                held.lft.set(s, lid, PortNum(routed.routes.lft.to(lid)[s.index()]));
            }
            let ports = || (0..held.sl2vl.ports_of(s) as u8).map(PortNum);
            let turns: Vec<_> = ports().flat_map(|a| ports().map(move |b| (a, b))).collect();
            turns.into_iter().for_each(|(a, b)| held.sl2vl.set(s, a, b, routed.routes.sl2vl.row(s, a, b)));
        }
        assert!(held.lft == routed.routes.lft, "{log}");
        let verdict = verify(&left, &Routes { path_sl: routed.routes.path_sl, ..held });
        assert!(verdict.is_safe(), "{:?}\n{log}", verdict.witness().map(|w| w.explain(&left)));
        assert!(self.sm.alive(), "{log}");
        for defect in ["ERR DF21", "ERR DF22", "ERR DF23", "ERR DF24", "ERR DF99"] {
            assert!(!log.contains(defect), "{log}");
        }
    }

    /// A remark about a node appears once and contains all of these.
    fn assert_said_once(&self, words: &[&str]) {
        let notes = self.notes();
        let fit: Vec<_> = notes.iter().filter(|note| words.iter().all(|word| note.contains(word))).collect();
        assert_eq!(fit.len(), 1, "{words:?}: {notes:#?}");
    }
}

/// A switch with a foreign M_Key: it answers nothing that it is asked for of one kind.
#[test]
fn a_switch_that_does_not_answer_is_left_out() {
    for lie in ["lose get switchinfo * 100", "lose get portinfo 0 100"] {
        let order = |f: &Fabric| vec![format!("{} {lie}", f.switch(SwitchId(5)).guid)];
        let Some(mut case) = Case::new("a silent switch", order) else { return };
        case.settle();
        let left = case.without(&[5]);
        case.assert_holds(left);
        assert!(!case.falsifier.seen().is_empty(), "{lie}");
        // OpenSM forgets all but the ports that lead to it.
        let behind = case.notes().iter().filter(|note| note.starts_with("what is behind switch")).count();
        assert_eq!(behind, 4, "{:?}", case.notes());
        // It tells the truth at last, and is back.
        case.falsifier.order::<&str>(&[]);
        case.settle();
        let left = case.without(&[]);
        case.assert_holds(left);
    }
}

/// A switch whose LID an adapter answers loses it, even the one that the subnet manager hangs off. Packets go
/// through it, and the rest of the fabric is there.
#[test]
fn a_switch_without_a_lid_forwards() {
    for victim in [0, 5] {
        let order = |f: &Fabric| {
            let port0 =
                f.endports_on(SwitchId(victim)).iter().map(|&e| f.endport(e)).find(|e| !e.is_adapter());
            let liar = f.adapters().nth(9).unwrap().1.node;
            vec![format!("{} lid 1 {}", f.node(liar).guid, port0.unwrap().lid)]
        };
        let Some(mut case) = Case::new("a switch without a LID", order) else { return };
        case.settle();
        let mut builder = FabricBuilder::from_fabric(&case.without(&[]));
        let port0 = &mut builder.node_mut(case.fabric.switch_node_id(SwitchId(victim))).ports[0];
        (port0.lid, port0.state) = (None, LinkState::Down);
        let liar = case.fabric.adapters().nth(9).unwrap().1;
        builder.disconnect(PortRef { node: liar.node, port: PortNum(1) });
        let left = builder.finish(Default::default()).unwrap();
        case.assert_holds_but(left, None, Some(SwitchId(victim)));
        case.assert_said_once(&["has no LID", &case.switch(victim).to_string()]);
        case.falsifier.order::<&str>(&[]);
        case.settle();
        let left = case.without(&[]);
        case.assert_holds(left);
        case.assert_said_once(&["no longer so", "has no LID", &case.switch(victim).to_string()]);
    }
}

/// A switch that takes no blocks is left out after some sweeps. One that takes no SL2VL rows, or does not raise
/// its LinearFDBTop, carries its own adapters only. Both come back when they take them.
#[test]
fn a_switch_that_takes_no_tables_is_left_out_or_avoided() {
    let lies = [
        ("lose set lft * 100", "does not take its tables"),
        ("refuse set sl2vl * 0x1c", "is avoided: its SL2VL rows"),
        ("lintop * 3", "is avoided: its LinearFDBTop"),
    ];
    for (lie, said) in lies {
        let order = |f: &Fabric| vec![format!("{} {lie}", f.switch(SwitchId(6)).guid)];
        let Some(mut case) = Case::new("a switch without tables", order) else { return };
        case.sm.wait_log(said, 1, Duration::from_secs(90));
        case.settle();
        if lie.contains("lft") {
            let left = case.without(&[6]);
            case.assert_holds(left);
        } else {
            let builder = FabricBuilder::from_fabric(&case.fabric);
            let id = case.fabric.switch_node_id(SwitchId(6));
            let one_vl = lie.contains("sl2vl").then(|| (id, String::new())).into_iter().collect();
            let avoid = [(id, String::new())].into();
            let owners = case.owners();
            let survey = Survey { builder, owners, avoid, one_vl, ..Survey::default() };
            let left = sift(survey).unwrap().fabric;
            assert_eq!(left.channels().out(SwitchId(6)).count(), 1);
            case.assert_holds_but(left, lie.contains("sl2vl").then_some(SwitchId(6)), None);
        }
        let name = case.switch(6).to_string();
        case.assert_said_once(&[said, &name]);
        case.falsifier.order::<&str>(&[]);
        case.settle();
        let left = case.without(&[]);
        case.assert_holds(left);
    }
}

/// A link that OpenSM does not get to ACTIVE is avoided, until it is.
#[test]
fn a_link_that_does_not_come_up_is_avoided() {
    let order = |f: &Fabric| vec![format!("{} state 3 2", f.switch(SwitchId(6)).guid)];
    let Some(mut case) = Case::new("a link that does not come up", order) else { return };
    case.sm.wait_log("is avoided: it does not come to state ACTIVE", 1, Duration::from_secs(90));
    case.settle();
    let mut builder = FabricBuilder::from_fabric(&case.fabric);
    builder.disconnect(PortRef { node: case.fabric.switch_node_id(SwitchId(6)), port: PortNum(3) });
    let left = builder.finish(Default::default()).unwrap();
    case.assert_holds(left);
    let name = case.switch(6).to_string();
    case.assert_said_once(&["is avoided: it does not come to state ACTIVE", &name]);
    case.falsifier.order::<&str>(&[]);
    case.settle();
    let left = case.without(&[]);
    case.assert_holds(left);
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

/// A switch without SL2VL tables and one port with one VL: everybody is routed, on VL 0 over these
/// links.
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
        case.assert_holds_but(left, on_vl_0, None);
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

/// A member that is left out is left out of its group, under way; it is no gap, and the others stay.
#[test]
fn members_that_are_left_out_make_no_gap() {
    let Some(mut case) = Case::new("members left out", |_| Vec::new()) else { return };
    case.sm.wait_log("-> SUBNET UP", 1, Duration::from_secs(90));
    let all: Vec<Guid> = case.fabric.adapters().map(|(_, end)| end.guid).collect();
    assert_eq!(mcjoin::join(&case.sim, mcjoin::BROADCAST, &all), vec![0xc000; all.len()]);
    let members = |n: usize| format!("multicast group 0xc000: {n} members over {n} switches");
    case.sm.wait_log(&members(15), 1, Duration::from_secs(30));
    let liar = case.fabric.adapters().nth(6).unwrap().1.node;
    case.falsifier.order(&[format!("{} lid 1 0", case.fabric.node(liar).guid)]);
    case.settle();
    let mut builder = FabricBuilder::from_fabric(&case.without(&[]));
    builder.disconnect(PortRef { node: liar, port: PortNum(1) });
    let left = builder.finish(Default::default()).unwrap();
    case.assert_holds(left);
    assert!(case.count("multicast group 0xc000: 14 members over") > 0, "{}", case.sm.log());
    assert_eq!(case.count("dfdn: DF31"), 0, "{}", case.sm.log());
}

/// A lost table of VL arbitration would leave a VL without service, and OpenSM counts no error.
#[test]
fn a_switch_that_loses_its_vl_arbitration_is_not_called_in_place() {
    let lies = |f: &Fabric| vec![format!("{} lose set vlarb * 100", f.switch(SwitchId(4)).guid)];
    let Some(mut case) = Case::new("VL arbitration", lies) else { return };
    let liar = case.switch(4);
    case.sm.wait_log("do not serve all VLs in use", 3, Duration::from_secs(60));
    let log = case.sm.log();
    let named = |line: &str| line.contains("do not serve all VLs in use") && line.contains(&liar.to_string());
    assert!(log.lines().any(named), "{log}");
    let last = log.rfind("do not serve all VLs in use");
    assert!(log.rfind("dfdn: DF05") < last, "{log}");
    case.falsifier.order::<&str>(&[]);
    case.settle();
    case.assert_holds(case.fabric.clone());
}
