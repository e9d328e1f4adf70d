//! Classes of service in stock OpenSM: partitions with SLs, a QoS policy, queries that ask for an SL.

use std::time::Duration;

use dfdn::engine::{self, Routed, Settings};
use dfdn::fabric::{Fabric, FabricBuilder, Guid, Lmc, Node, NodeKind, PortNum, PortRef, Sl};
use dfdn::tables::Routes;
use dfdn::topology::Dragonfly;
use dfdn::verify::{SlPolicy, verify, verify_with};

use crate::host::ibsim::{Ibsim, net};
use crate::host::opensm::{Config, OpenSm};
use crate::host::readback::Readback;
use crate::host::{self, ibdmchk, plugin, saquery};
use crate::plugin::{assert_programmed, read_back};

/// A subnet that dfdn routes with given settings, and its files.
struct Subnet {
    sim: Ibsim,
    sm: OpenSm,
    fabric: Fabric,
    computed: Routed,
    held: Routes,
    _files: tempfile::TempDir,
}

impl Subnet {
    /// `dfdn_conf`: the plugin's file; `files`: OpenSM's files by the option that names them.
    fn up(test: &str, dfdn_conf: &str, files: &[(&str, &str)]) -> Option<Self> {
        let tools = host::tools(test)?;
        let fabric = Dragonfly::balanced(1).build().expect("a Dragonfly");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("a file is written");
            path
        };
        let env = vec![("DFDN_CONF".to_owned(), write("dfdn.conf", dfdn_conf))];
        let extra =
            files.iter().map(|(option, text)| format!("{option} {}\n", write(option, text).display()));
        let sim = Ibsim::start(tools, &net(&fabric));
        let mut sm = OpenSm::up(&sim, &Config { extra: extra.collect(), env, ..plugin::config("dfdn") });
        assert_eq!(sm.engine_used().as_deref(), Some("dfdn"), "{}", sm.log());
        sm.wait_log("dfdn: DF05", 1, Duration::from_secs(10));
        sm.wait_log("psl", 1, Duration::from_secs(20));
        let (fabric, held) = read_back(&sim, &sm, &fabric);
        let settings = Settings::from_config(dfdn_conf).expect("a good file");
        let computed = engine::route(&fabric, &settings).expect("it is routed");
        Some(Self { sim, sm, fabric, computed, held, _files: folder })
    }

    /// For all other destinations of some adapters: the SA's answer to a query with these
    /// components, and the SLs that the tables have for the pair.
    fn answers(&self, components: &[&str]) -> Vec<(Option<u8>, u16)> {
        let adapters: Vec<_> = self.fabric.adapters().collect();
        let mut answers = Vec::new();
        for &(from, source) in adapters.iter().step_by(3) {
            for (_, target) in adapters.iter().filter(|(to, _)| *to != from) {
                let sl = saquery::path_sl_for(&self.sim, source.lid.get(), target.lid.get(), components);
                answers.push((sl, self.computed.routes.path_sl.assigned_sls(&self.fabric, from, target.lid)));
            }
        }
        answers
    }

    /// The tables in switches and adapters are the computed ones.
    fn assert_in_place(&self, test: &str) {
        assert_programmed(test, &self.fabric, &self.held, &self.computed.routes);
        let wanted: Vec<String> =
            self.computed.routes.sl2vl.adapters().vls().iter().map(|vl| vl.0.to_string()).collect();
        let text = Readback::of(&self.sim).sl2vl();
        let mut adapters = 0;
        for section in text.split("\n\n").filter(|s| s.starts_with("Channel Adapter")) {
            let row = section.lines().find(|l| l.starts_with("0   0")).expect("a row");
            let row = row.split_once(':').expect("VLs").1;
            assert_eq!(row.split_whitespace().collect::<Vec<_>>(), wanted, "{test}: {section}");
            adapters += 1;
        }
        assert_eq!(adapters, self.fabric.adapters().count(), "{test}");
    }

    /// OpenSM refused no query because of us, unless expected, and ends properly.
    fn end(mut self, test: &str, refused: bool) {
        let log = self.sm.log();
        for refusal in ["ERR 1F24", "ERR 1F1F", "ERR DF"] {
            assert!(!log.contains(refusal), "{test}: {log}");
        }
        assert_eq!(log.contains("ERR 1F2A"), refused, "{test}: {log}");
        assert!(self.sm.alive() && self.sm.stop().success(), "{test}: {log}");
    }
}

const PARTITIONS: (&str, &str) =
    ("partition_config_file", "Default=0x7fff,ipoib : ALL=full ;\nstorage=0x10,ipoib,sl=1 : ALL=full ;\n");

/// One SL per class: partitions choose, and a query that asks for an SL gets it.
#[test]
fn partitions_choose_the_class_and_no_query_is_refused() {
    let test = "classes by partition";
    let Some(subnet) = Subnet::up(test, "classes 2\n", &[PARTITIONS]) else { return };
    subnet.assert_in_place(test);
    assert!(
        subnet.sm.log().contains("2 classes of service, 2 VLs and 1 SL for each class"),
        "{}",
        subnet.sm.log()
    );
    for (sl, told) in subnet.answers(&["--pkey", "0xffff"]) {
        assert_eq!((sl, told), (Some(0), 0b11), "{test}");
    }
    for (sl, _) in subnet.answers(&["--pkey", "0x8010"]) {
        assert_eq!(sl, Some(1), "{test}");
    }
    for asked in [0, 1, 2, 7, 15_u8] {
        let answers = subnet.answers(&["--sl", &asked.to_string()]);
        assert!(answers.iter().all(|&(sl, _)| sl == Some(asked)), "{test}: SL {asked}: {answers:?}");
    }
    let held = &subnet.held;
    let verdict = verify_with(&subnet.fabric, held, SlPolicy::Any);
    assert!(verdict.is_safe() && verdict.vls_all == 4, "{:?}", verdict.witnesses);
    subnet.end(test, false);
}

/// Several SLs per class: the answer is the pair's own SL of the class that was named.
#[test]
fn a_class_of_several_sls_is_named_by_its_first() {
    let test = "classes of several SLs";
    let conf = "engine dfdn-paper\nclasses 2\n";
    let Some(subnet) = Subnet::up(test, conf, &[PARTITIONS]) else { return };
    assert!(subnet.computed.classes.sls > 1);
    subnet.assert_in_place(test);
    for class in 0..2_u8 {
        let key = if class == 0 { "0xffff" } else { "0x8010" };
        for (sl, told) in subnet.answers(&["--pkey", key]) {
            let sl = sl.expect("an answer");
            assert!(sl % 2 == class && told & 1 << sl != 0, "{test}: SL {sl} of {told:016b} with {key}");
        }
    }
    // psl, as the plugin wrote it, has both classes.
    assert_eq!(subnet.held.path_sl.classes(), 2);
    let verdict = verify(&subnet.fabric, &subnet.held);
    assert!(verdict.is_safe(), "{:?}", verdict.witnesses);
    assert_eq!(verdict.sls_all, subnet.computed.verdict.sls_all);
    assert_eq!(verdict.vls_all, subnet.computed.verdict.vls_all);
    let at = |name: &str| subnet.sm.path(name);
    let judged = ibdmchk::judge(
        host::tools(test).expect("they were there"),
        &at("opensm-subnet.lst"),
        &at("opensm.fdbs"),
        &at("opensm-sl2vl.dump"),
        Some(&at("psl")),
    );
    assert!(judged.reachable && judged.deadlock_free, "{}", judged.text);
    // A query that insists on an SL gets that one or, if it is not safe, none.
    let insisted = subnet.answers(&["--sl", "4"]);
    assert!(
        insisted
            .iter()
            .all(|&(sl, told)| sl.is_none_or(|sl| sl == 4) && (sl.is_some() || told & 1 << 4 == 0))
    );
    subnet.end(test, insisted.iter().any(|(sl, _)| sl.is_none()));
}

/// A QoS policy chooses by the components of a query.
#[test]
fn a_qos_policy_chooses_the_class() {
    let test = "classes by QoS policy";
    let policy = "qos-levels\n qos-level\n  name: DEFAULT\n  sl: 0\n end-qos-level\n qos-level\n  name: fast\n  sl: 2\n \
                  end-qos-level\nend-qos-levels\nqos-match-rules\n qos-match-rule\n  qos-class: 7\n  qos-level-name: \
                  fast\n end-qos-match-rule\nend-qos-match-rules\n";
    let files = [("qos_policy_file", policy)];
    let Some(subnet) = Subnet::up(test, "classes 3\n", &files) else { return };
    subnet.assert_in_place(test);
    assert!(subnet.answers(&[]).iter().all(|&(sl, _)| sl == Some(0)), "{test}");
    assert!(subnet.answers(&["--qos_class", "7"]).iter().all(|&(sl, _)| sl == Some(2)), "{test}");
    subnet.end(test, false);
}

/// A switch and its adapters.
fn star(adapters: u8) -> Fabric {
    let mut builder = FabricBuilder::new();
    let hub = builder.add(Node::new(NodeKind::Switch, Guid(1), adapters, "hub")).expect("a switch");
    for port in 1..=adapters {
        let adapter = Node::new(NodeKind::ChannelAdapter, Guid(16 * u64::from(port)), 1, &format!("h{port}"));
        let adapter = builder.add(adapter).expect("an adapter");
        let at = |node, port| PortRef { node, port: PortNum(port) };
        builder.connect(at(hub, port), at(adapter, 1)).expect("a cable");
    }
    builder.finish(Lmc::default()).expect("a star")
}

/// OpenSM clips the rows of the first sweep to the VLs that ports operated before. If only links to
/// adapters are affected, no credit loop can result, but classes would share a VL until some later
/// sweep.
#[test]
fn rows_towards_adapters_are_sent_again_where_they_keep_classes_apart() {
    let test = "clipped classes";
    let Some(tools) = host::tools(test) else { return };
    let fabric = star(3);
    let sim = Ibsim::start(tools, &net(&fabric));
    let mut before = OpenSm::up(&sim, &Config { max_op_vls: Some(1), ..plugin::config("minhop") });
    assert!(before.stop().success());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let conf = folder.path().join("dfdn.conf");
    std::fs::write(&conf, "classes 2\n").expect("a file is written");
    let env = vec![("DFDN_CONF".to_owned(), conf)];
    let mut sm = OpenSm::up(&sim, &Config { env, ..plugin::config("dfdn") });
    sm.wait_log("dfdn: DF25", 1, Duration::from_secs(10));
    assert!(sm.log().contains("do not keep classes of service apart"), "{}", sm.log());
    sm.wait_log("dfdn: DF05", 1, Duration::from_secs(20));
    sm.wait_log("-> SUBNET UP", 2, Duration::from_secs(20));
    let (fabric, held) = read_back(&sim, &sm, &fabric);
    for out in (1..=3).map(PortNum) {
        let switch = fabric.switch_ids().next().expect("a switch");
        for inp in (0..=3).map(PortNum) {
            let row = held.sl2vl.row(switch, inp, out);
            assert_ne!(row.get(Sl(0)), row.get(Sl(1)), "{test}: from {inp:?} to {out:?}");
        }
    }
    assert!(!sm.log().contains("DF26") && sm.stop().success(), "{}", sm.log());
}

/// Destinations spread: different SLs for different destinations, all in the class of the
/// partition.
#[test]
fn destinations_are_spread_within_their_class() {
    let test = "spreading";
    let Some(subnet) = Subnet::up(test, "classes 2\nspread yes\n", &[PARTITIONS]) else { return };
    let parts = subnet.computed.classes;
    assert_eq!((parts.vls, parts.vl_sets), (2, 2));
    subnet.assert_in_place(test);
    let mut seen = 0_u16;
    for (class, key) in [(0, "0xffff"), (1, "0x8010")] {
        for (sl, told) in subnet.answers(&["--pkey", key]) {
            let sl = Sl(sl.expect("an answer"));
            assert!(
                parts.class_of(sl) == class && told & 1 << sl.0 != 0,
                "{test}: SL {} of {told:016b}",
                sl.0
            );
            seen |= 1 << sl.0;
        }
    }
    assert_eq!(seen, 0b1111, "two VL sets in each of two classes");
    // SLs beyond those that name a class are granted.
    assert!(subnet.answers(&["--sl", "5"]).iter().all(|&(sl, _)| sl == Some(5)), "{test}");
    let verdict = verify_with(&subnet.fabric, &subnet.held, SlPolicy::Any);
    assert!(verdict.is_safe() && verdict.vls_all == 8, "{:?}", verdict.witnesses);
    // One that does name a class is granted only to destinations of one VL set: the price of
    // spreading.
    let insisted = subnet.answers(&["--sl", "0"]);
    assert!(insisted.iter().all(|&(sl, told)| if told & 1 != 0 { sl == Some(0) } else { sl.is_none() }));
    assert!(insisted.iter().any(|(sl, _)| sl.is_none()));
    subnet.end(test, true);
}
