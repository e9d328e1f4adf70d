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
use dfdn::tables::Routes;
use dfdn::topology::Torus;
use dfdn::verify::verify;

use crate::host::falsify::Falsifier;
use crate::host::ibsim::Ibsim;
use crate::host::opensm::{Config, OpenSm};
use crate::host::readback::Readback;
use crate::host::{self, plugin};

fn net(fabric: &Fabric) -> String {
    let mut text = Vec::new();
    formats::ibnetdiscover::write(&mut text, fabric).expect("a vector takes everything");
    String::from_utf8(text).expect("text")
}

fn torus() -> Fabric {
    Torus { dims: vec![3, 4], cas: 1 }.build().expect("a torus")
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
        let sm = OpenSm::start(&sim, &falsifier.config(config));
        Some(Self { fabric, sim, falsifier, sm })
    }

    fn switch(&self, s: u32) -> Guid {
        self.fabric.switch(SwitchId(s)).guid
    }

    /// Waits for so many tables in all.
    fn routed(&mut self, times: usize) {
        self.sm.wait_log("dfdn: DF03", times, Duration::from_secs(90));
    }

    /// Waits until tables are in place of a sweep that began after this call.
    fn settle(&mut self) {
        let count = |sm: &OpenSm, what: &str| sm.log().matches(what).count();
        let routed = count(&self.sm, "dfdn: DF03");
        self.sm.hang_up();
        self.routed(routed + 2);
        let placed = count(&self.sm, "dfdn: DF05");
        self.sm.hang_up();
        self.sm.wait_log("dfdn: DF05", placed + 1, Duration::from_secs(60));
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
        let (left, held) =
            formats::load_tables(Readback::of(&self.sim).folder(), left).expect("the tables load");
        let routed = engine::route(&left, &Settings::default()).expect("it can be routed");
        let log = self.sm.log();
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
        case.routed(4);
        let left = case.without(&[5]);
        case.assert_holds(left);
        assert!(!case.falsifier.seen().is_empty(), "{lie}");
        let (name, host) = (case.switch(5).to_string(), case.fabric.adapters().nth(5).unwrap().1.node);
        let host = case.fabric.node(host).guid.to_string();
        case.assert_said_once(&["is left out", &name, &host]);
        // It tells the truth at last, and is back.
        case.falsifier.order::<&str>(&[]);
        case.settle();
        let left = case.without(&[]);
        case.assert_holds(left);
        case.assert_said_once(&["no longer so", "is left out", &name]);
    }
}

/// A switch that takes no tables is left out after some sweeps, and comes back when it takes them.
#[test]
fn a_switch_that_takes_no_tables_is_left_out() {
    for lie in ["lose set lft * 100", "refuse set sl2vl * 0x1c"] {
        let order = |f: &Fabric| vec![format!("{} {lie}", f.switch(SwitchId(6)).guid)];
        let Some(mut case) = Case::new("a switch without tables", order) else { return };
        case.sm.wait_log("does not take its tables", 1, Duration::from_secs(90));
        let routed = case.sm.log().matches("dfdn: DF03").count();
        case.routed(routed + 1);
        case.sm.wait_log("dfdn: DF05", 1, Duration::from_secs(30));
        let left = case.without(&[6]);
        case.assert_holds(left);
        let name = case.switch(6).to_string();
        case.assert_said_once(&["is left out", &name]);
        case.falsifier.order::<&str>(&[]);
        case.sm.wait_log("no longer so", 1, Duration::from_secs(60));
        case.settle();
        let left = case.without(&[]);
        case.assert_holds(left);
    }
}

/// The owner of a LID by OpenSM's table keeps it.
#[test]
fn a_lid_that_another_has_and_a_wrong_lmc() {
    for lie in ["lid 1 1", "lmc 1 3"] {
        let order = |f: &Fabric| {
            let host = f.adapters().nth(7).unwrap().1.node;
            vec![format!("{} {lie}", f.node(host).guid)]
        };
        let Some(mut case) = Case::new("a wrong LID", order) else { return };
        case.routed(4);
        let (_, end) = case.fabric.adapters().nth(7).unwrap();
        let (node, name) = (end.node, case.fabric.node(end.node).guid.to_string());
        let left = if lie.starts_with("lid") {
            let mut builder = FabricBuilder::from_fabric(&case.without(&[]));
            builder.disconnect(PortRef { node, port: PortNum(1) });
            builder.finish(Default::default()).unwrap()
        } else {
            case.without(&[])
        };
        case.assert_holds(left);
        let what = if lie.starts_with("lid") { "LID 1 with LMC 0" } else { "with LMC 3" };
        case.assert_said_once(&[&name, what, "belongs to"]);
    }
}

/// A switch without SL2VL tables and one port with one VL: everybody is routed, on VL 0 over these links.
#[test]
fn a_switch_without_sl2vl_tables_and_a_narrow_port() {
    let lies: [(&str, fn(&mut FabricBuilder, NodeId)); 2] = [
        ("cap 0 0", |builder, node| {
            builder.node_mut(node).ports.iter_mut().for_each(|port| port.data_vls = Some(1));
        }),
        ("vlcap 2 1", |builder, node| builder.node_mut(node).ports[2].data_vls = Some(1)),
    ];
    for (lie, apply) in lies {
        let order = |f: &Fabric| vec![format!("{} {lie}", f.switch(SwitchId(5)).guid)];
        let Some(mut case) = Case::new("a narrow switch", order) else { return };
        case.routed(2);
        case.settle();
        let mut builder = FabricBuilder::from_fabric(&case.fabric);
        for s in case.fabric.switch_ids() {
            // What ibsim's switches have.
            let node = case.fabric.switch_node_id(s);
            builder.node_mut(node).ports.iter_mut().for_each(|port| port.data_vls = Some(8));
        }
        apply(&mut builder, case.fabric.switch_node_id(SwitchId(5)));
        let left = builder.finish(Default::default()).unwrap();
        case.assert_holds(left);
        if lie.starts_with("cap") {
            let name = case.switch(5).to_string();
            case.assert_said_once(&["has no SL to VL mapping tables", &name]);
        }
    }
}
