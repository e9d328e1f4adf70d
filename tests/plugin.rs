//! The plugin in stock OpenSM over ibsim.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use dfdn::engine::{self, Routed, Settings};
use dfdn::fabric::{Fabric, FabricBuilder, Guid, Lmc, Node, NodeKind, PortNum, PortRef, SwitchId};
use dfdn::formats;
use dfdn::tables::{PathSl, Routes};
use dfdn::topology::{Dragonfly, FatTree, Mesh, Ring, SlimFly};
use dfdn::verify::verify;

use crate::host::ibsim::{Ibsim, net};
use crate::host::opensm::{Config, OpenSm};
use crate::host::readback::Readback;
use crate::host::{self, foreign, ibdmchk, plugin, saquery};

/// Two leaves and two spines with three cables between each leaf and spine, and two adapters per
/// leaf.
fn parallel_links() -> Fabric {
    let mut b = FabricBuilder::new();
    let mut add =
        |kind, guid, ports, name: &str| b.add(Node::new(kind, Guid(guid), ports, name)).expect("few ports");
    let switches: Vec<_> = (0..4).map(|i| add(NodeKind::Switch, 0x200 + i, 12, &format!("sw{i}"))).collect();
    let adapters: Vec<_> =
        (0..4).map(|i| add(NodeKind::ChannelAdapter, 0x1000 + 16 * i, 1, &format!("host{i}"))).collect();
    let mut cable = |a: (_, u8), b_: (_, u8)| {
        let end = |(node, port)| PortRef { node, port: PortNum(port) };
        b.connect(end(a), end(b_)).expect("free ports");
    };
    for (i, &adapter) in adapters.iter().enumerate() {
        cable((adapter, 1), (switches[i / 2], 1 + (i % 2) as u8));
    }
    for leaf in 0..2_u8 {
        for spine in 0..2_u8 {
            for n in 0..3 {
                let port = 3 + 3 * spine + n;
                cable(
                    (switches[usize::from(leaf)], port),
                    (switches[usize::from(2 + spine)], 1 + 3 * leaf + n),
                );
            }
        }
    }
    b.finish(Lmc::default()).expect("a fabric")
}

/// The fabric with the LIDs that OpenSM assigned, and the tables that the switches hold. SLs are
/// those that `path_sl` assigns, from `psl` if it exists.
pub(super) fn read_back(sim: &Ibsim, sm: &OpenSm, fabric: &Fabric) -> (Fabric, Routes) {
    let back = Readback::of(sim);
    if sm.path("psl").exists() {
        std::fs::copy(sm.path("psl"), back.folder().join("psl")).expect("psl is copied");
    }
    formats::load_tables(back.folder(), fabric.clone()).expect("the tables load")
}

fn verdict_of_command(fabric: &Path, tables: &Path) -> (Option<i32>, String) {
    let output = Command::new(plugin::command()).arg("verify").args([fabric, tables]).output();
    let output = output.expect("dfdn starts");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The switches hold the computed tables, as far as they matter.
pub(super) fn assert_programmed(name: &str, fabric: &Fabric, held: &Routes, computed: &Routes) {
    assert!(held.lft == computed.lft, "{name}: the forwarding tables in the switches are not those computed");
    for s in fabric.switch_ids() {
        let live = |p: u8| p == 0 || fabric.switch(s).ports[usize::from(p)].peer.is_some();
        let ports: Vec<u8> = (0..fabric.switch(s).ports.len() as u8).filter(|&p| live(p)).collect();
        for &out in &ports {
            // Towards adapters OpenSM masks the VLs to those of the adapter, which does no harm.
            if fabric.channels().at_port(s, PortNum(out)).is_none() {
                continue;
            }
            for &inp in &ports {
                let (inp, out) = (PortNum(inp), PortNum(out));
                let (held, computed) = (held.sl2vl.row(s, inp, out), computed.sl2vl.row(s, inp, out));
                assert_eq!(held, computed, "{name}: {} in {inp} out {out}", fabric.describe_switch(s));
            }
        }
    }
}

/// All properties of a subnet that dfdn routed.
fn check(name: &str, fabric: &Fabric) {
    let Some(tools) = host::tools(name) else { return };
    let sim = Ibsim::start(tools, &net(fabric));
    let mut sm = OpenSm::up(&sim, &plugin::config("dfdn"));
    assert_eq!(sm.engine_used().as_deref(), Some("dfdn"), "{name}: not a silent minhop\n{}", sm.log());
    assert!(sm.log().contains("dfdn: DF03"), "{name}: {}", sm.log());
    sm.wait_log("dfdn: DF05", 1, Duration::from_secs(10));
    sm.wait_log("psl", 1, Duration::from_secs(20));
    assert!(!sm.log().contains("ERR DF"), "{name}: {}", sm.log());

    let (fabric, read) = read_back(&sim, &sm, fabric);
    let Routed { routes, .. } = engine::route(&fabric, &Settings::default()).expect("it can be routed");
    assert_programmed(name, &fabric, &read, &routes);

    // PathRecords of some pairs have the SL of the tables.
    let adapters: Vec<_> = fabric.adapters().collect();
    let step = (adapters.len() / 4).max(1);
    for (from, source) in adapters.iter().step_by(step) {
        for (_, target) in adapters.iter().skip(1).step_by(step).filter(|(to, _)| to != from) {
            let told = routes.path_sl.get(&fabric, *from, target.lid);
            let sl = saquery::path_sl(&sim, source.lid.get(), target.lid.get());
            assert_eq!(sl, Some(told.0), "{name}: {} to {}", source.lid, target.lid);
        }
    }

    // Both judges, on what the switches hold and on OpenSM's own dumps.
    let held = Routes { path_sl: routes.path_sl.clone(), ..read };
    let verdict = verify(&fabric, &held);
    assert!(verdict.is_safe() && verdict.minimal, "{name}: {:?}", verdict.witnesses);
    let file = sm.path("fabric.net");
    std::fs::write(&file, net(&fabric)).expect("the fabric is written");
    let (code, text) = verdict_of_command(&file, sm.dumps());
    assert_eq!(code, Some(0), "{name}: {text}");
    let psl = sm.path("psl");
    assert_eq!(psl.exists(), !matches!(routes.path_sl, PathSl::Any(_)), "{name}: psl where SLs matter");
    let judged = ibdmchk::judge(
        tools,
        &sm.path("opensm-subnet.lst"),
        &sm.path("opensm.fdbs"),
        &sm.path("opensm-sl2vl.dump"),
        psl.exists().then_some(psl.as_path()),
    );
    assert!(judged.reachable && judged.deadlock_free, "{name}: {}", judged.text);
    let dump = std::fs::read_to_string(sm.path("opensm.fdbs")).expect("OpenSM's dump");
    assert!(!dump.contains("HOPS UNKNOWN"), "{name}: hop counts are written where they are dumped");
    assert!(sm.alive() && sm.stop().success(), "{name}: OpenSM ends in good order\n{}", sm.log());
}

#[test]
fn ring() {
    check("ring", &Ring { switches: 6, cas: 1 }.build().expect("a ring"));
}

#[test]
fn mesh() {
    check("mesh", &Mesh { dims: vec![3, 3], cas: 2 }.build().expect("a mesh"));
}

#[test]
fn dragonfly() {
    check("dragonfly", &Dragonfly::balanced(2).build().expect("a Dragonfly"));
}

#[test]
fn slim_fly() {
    check("slim fly", &SlimFly { q: 5, cas: Some(2) }.build().expect("a Slim Fly"));
}

#[test]
fn fat_tree() {
    let tree = FatTree { k: 4, levels: 3, down: None, cas: None };
    check("fat tree", &tree.build().expect("a fat tree"));
}

#[test]
fn fat_tree_with_parallel_links() {
    check("parallel links", &parallel_links());
}

#[test]
fn real_cluster() {
    if let Some(fabric) = foreign::fabric("x5/X5.topofile") {
        check("real cluster", &fabric);
    }
}

/// A ring of six with an adapter of two ports, a router, a switch without adapters and one with an
/// enhanced port 0.
fn mixed() -> Fabric {
    let mut b = FabricBuilder::new();
    let ring: Vec<_> = (0..6_u64)
        .map(|i| {
            let mut node = Node::new(NodeKind::Switch, Guid(0x200 + i), 4, &format!("sw{i}"));
            node.enhanced_port0 = i == 2;
            b.add(node).expect("few ports")
        })
        .collect();
    let hosts = [0, 1, 2, 4, 5].map(|s| {
        let node = Node::new(NodeKind::ChannelAdapter, Guid(0x1000 + 16 * s as u64), 1, &format!("host{s}"));
        (b.add(node).expect("few ports"), s)
    });
    let two = b.add(Node::new(NodeKind::ChannelAdapter, Guid(0x5000), 2, "two ports")).expect("few ports");
    let router = b.add(Node::new(NodeKind::Router, Guid(0x6000), 1, "router")).expect("few ports");
    let mut cable = |a, a_port, s: usize, s_port| {
        let (a, s) =
            (PortRef { node: a, port: PortNum(a_port) }, PortRef { node: ring[s], port: PortNum(s_port) });
        b.connect(a, s).expect("free ports");
    };
    for (i, &switch) in ring.iter().enumerate() {
        cable(switch, 1, (i + 1) % 6, 2);
    }
    for (host, s) in hosts {
        cable(host, 1, s, 3);
    }
    cable(two, 1, 0, 4);
    cable(two, 2, 2, 4);
    cable(router, 1, 1, 4);
    b.finish(Lmc::default()).expect("a fabric")
}

/// Special nodes of subnets, with several LIDs per port, and after a link failed.
#[test]
fn mixed_fabric_with_lmc_and_a_link_that_goes_down() {
    let Some(tools) = host::tools("mixed fabric") else { return };
    let fabric = mixed();
    let mut sim = Ibsim::start(tools, &net(&fabric));
    let extra = "lmc_esp0 TRUE\n".to_owned();
    // As printed in the paper: several SLs.
    let settings = Settings { engine: "dfdn-paper".to_owned(), ..Settings::default() };
    let mut sm = OpenSm::up(&sim, &plugin::fast(Config { lmc: 2, extra, ..plugin::config("dfdn-paper") }));
    let mut fabric = fabric;
    for sweep in 1..=2 {
        sm.wait_log("dfdn: DF05", sweep, Duration::from_secs(10));
        let (with_lids, held) = read_back(&sim, &sm, &fabric);
        let lids: Vec<u16> = with_lids.endports().iter().map(|e| e.lmc.lids()).collect();
        assert_eq!(lids.iter().filter(|&&n| n == 4).count(), 9, "8 adapter ports and the enhanced port 0");
        let Routed { routes, verdict, .. } = engine::route(&with_lids, &settings).expect("it can be routed");
        assert!(verdict.sls_all > 1);
        assert_programmed("mixed fabric", &with_lids, &held, &routes);
        let held = Routes { path_sl: routes.path_sl, ..held };
        assert!(verify(&with_lids, &held).is_safe());
        assert_eq!(sm.engine_used().as_deref(), Some("dfdn-paper"), "{}", sm.log());
        if sweep == 1 {
            // Between switches 3 and 4.
            sim.command("Unlink \"S-0000000000000203\"[1]");
            let mut b = FabricBuilder::from_fabric(&fabric);
            b.disconnect(PortRef { node: fabric.switch_node_id(SwitchId::at(3)), port: PortNum(1) });
            fabric = b.finish(Lmc::default()).expect("a fabric");
            sm.resweep();
        }
    }
    assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
}

/// The counter-example that both judges must find.
#[test]
fn minhop_on_a_ring_of_six_has_a_credit_loop() {
    let Some(tools) = host::tools("credit loop of minhop") else { return };
    let fabric = Ring { switches: 6, cas: 1 }.build().expect("a ring");
    let sim = Ibsim::start(tools, &net(&fabric));
    let mut sm = OpenSm::up(&sim, &plugin::config("minhop"));
    sm.wait_log("dfdn: DF07", 1, Duration::from_secs(10));
    assert_eq!(sm.engine_used().as_deref(), Some("minhop"));
    let (fabric, held) = read_back(&sim, &sm, &fabric);
    let verdict = verify(&fabric, &held);
    assert!(verdict.reachable && !verdict.deadlock_free);
    let file = sm.path("fabric.net");
    std::fs::write(&file, net(&fabric)).expect("the fabric is written");
    let (code, text) = verdict_of_command(&file, sm.dumps());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("credit loop"), "{text}");
    let (subnet, fdbs, sl2vl) =
        (sm.path("opensm-subnet.lst"), sm.path("opensm.fdbs"), sm.path("opensm-sl2vl.dump"));
    assert!(!ibdmchk::judge(tools, &subnet, &fdbs, &sl2vl, None).deadlock_free);
}

/// The judges on an engine that uses SLs, with the `psl` that the plugin writes for it.
#[test]
fn psl_is_written_for_stock_engines() {
    let Some(tools) = host::tools("psl of dfsssp") else { return };
    let fabric = Ring { switches: 6, cas: 1 }.build().expect("a ring");
    let sim = Ibsim::start(tools, &net(&fabric));
    let mut sm = OpenSm::up(&sim, &plugin::config("dfsssp"));
    sm.wait_log("dfdn: DF06", 1, Duration::from_secs(10));
    let (fabric, held) = read_back(&sim, &sm, &fabric);
    // dfsssp plans for adapters; with switch port 0 as an end a loop may remain.
    let verdict = verify(&fabric, &held);
    assert!(verdict.reachable && verdict.deadlock_free_adapters, "{:?}", verdict.witnesses);
    assert!(verdict.sls > 1);
    let (subnet, fdbs, sl2vl) =
        (sm.path("opensm-subnet.lst"), sm.path("opensm.fdbs"), sm.path("opensm-sl2vl.dump"));
    assert!(ibdmchk::judge(tools, &subnet, &fdbs, &sl2vl, Some(&sm.path("psl"))).deadlock_free);
}

#[test]
fn too_few_vls_are_refused_and_the_next_engine_runs() {
    let Some(tools) = host::tools("refusal") else { return };
    let fabric = Mesh { dims: vec![3, 3], cas: 1 }.build().expect("a mesh");
    let sim = Ibsim::start(tools, &net(&fabric));
    let config = Config { max_op_vls: Some(2), ..plugin::config("dfdn-paper dfsssp") };
    let sm = OpenSm::up(&sim, &config);
    let log = sm.log();
    assert!(log.contains("ERR DF22") && log.contains("4 VLs are needed and 2 are offered"), "{log}");
    assert!(!log.contains("DF03"), "{log}");
    assert_eq!(sm.engine_used().as_deref(), Some("dfsssp"), "{log}");
    // Nothing of the failed attempt is in the tables: they are dfsssp's, complete and minimal.
    let (fabric, held) = read_back(&sim, &sm, &fabric);
    let verdict = verify(&fabric, &held);
    assert!(verdict.reachable && verdict.minimal);
}

#[test]
fn a_panic_in_any_callback_leaves_opensm_alive() {
    let Some(tools) = host::tools("panics") else { return };
    let fabric = Ring { switches: 5, cas: 1 }.build().expect("a ring");
    for callback in [
        "build_lid_matrices",
        "ucast_build_fwd_tables",
        "update_sl2vl",
        "update_vlarb",
        "path_sl",
        "mcast_build_stree",
        "report",
    ] {
        let sim = Ibsim::start(tools, &net(&fabric));
        let env = vec![("DFDN_DRILL_PANIC".to_owned(), PathBuf::from(callback))];
        let mut sm = OpenSm::up(&sim, &Config { env, ..plugin::config("dfdn dfsssp") });
        sm.wait_log("ERR DF99", 1, Duration::from_secs(10));
        let used = if matches!(callback, "build_lid_matrices" | "ucast_build_fwd_tables") {
            "dfsssp"
        } else {
            "dfdn"
        };
        assert_eq!(sm.engine_used().as_deref(), Some(used), "{callback}: {}", sm.log());
        if callback == "update_sl2vl" {
            // Rows that were never filled are detected, not taken as safe.
            sm.wait_log("DF25", 1, Duration::from_secs(10));
        }
        let (fabric, held) = read_back(&sim, &sm, &fabric);
        assert!(verify(&fabric, &held).reachable, "{callback}");
        assert!(sm.alive() && sm.stop().success(), "{callback}: {}", sm.log());
    }
}

#[test]
fn another_version_of_opensm_is_not_served() {
    let Some(tools) = host::tools("version") else { return };
    let library = std::fs::read(plugin::folder().join("libdfdn.so")).expect("the library is read");
    let versions = [b"OpenSM 3.3.23\0", b"OpenSM 3.3.24\0"];
    let named = |i: &usize| versions.iter().any(|version| library[*i..].starts_with(*version));
    let places: Vec<usize> = (0..library.len()).filter(named).collect();
    assert!(!places.is_empty(), "the library names the version that it was built for");
    let mut other = library.clone();
    for place in places {
        other[place..place + versions[0].len()].copy_from_slice(b"OpenSM 3.3.99\0");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("libdfdn.so"), other).expect("the library is written");
    let fabric = Ring { switches: 5, cas: 1 }.build().expect("a ring");
    let sim = Ibsim::start(tools, &net(&fabric));
    let sm = OpenSm::up(&sim, &Config { plugin: Some(folder.path().to_owned()), ..plugin::config("dfdn") });
    let log = sm.log();
    assert!(log.contains("version mismatch"), "{log}");
    assert_eq!(sm.engine_used().as_deref(), Some("minhop"), "{log}");
}

/// One sweep with a single VL, then a restart: OpenSM clips the SL2VL tables of the first sweep to
/// the VLs that the ports operated before.
#[test]
fn clipped_tables_are_found_and_sent_again() {
    let Some(tools) = host::tools("clipping") else { return };
    let fabric = Dragonfly::balanced(2).build().expect("a Dragonfly");
    let sim = Ibsim::start(tools, &net(&fabric));
    let mut before = OpenSm::up(&sim, &Config { max_op_vls: Some(1), ..plugin::config("minhop") });
    assert!(before.stop().success());
    assert!(Readback::of(&sim).op_vls().iter().all(|&(_, _, vls)| vls == 1), "the ports operate one VL");
    let mut sm = OpenSm::up(&sim, &plugin::config("dfdn"));
    sm.wait_log("dfdn: DF25", 1, Duration::from_secs(10));
    sm.wait_log("dfdn: DF05", 1, Duration::from_secs(20));
    sm.wait_log("-> SUBNET UP", 2, Duration::from_secs(20));
    let (fabric, held) = read_back(&sim, &sm, &fabric);
    let verdict = verify(&fabric, &held);
    assert!(verdict.is_safe(), "{:?}", verdict.witness().map(|w| w.explain(&fabric)));
    assert!(verdict.vls > 1);
}

#[test]
fn each_sweep_adds_a_line_to_the_sweep_log() {
    let Some(tools) = host::tools("sweep_log") else { return };
    let fabric = Ring { switches: 6, cas: 1 }.build().expect("a ring");
    let sim = Ibsim::start(tools, &net(&fabric));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (conf, log) = (folder.path().join("dfdn.conf"), folder.path().join("sweeps.json"));
    std::fs::write(&conf, format!("sweep_log {}\n", log.display())).expect("the configuration is written");
    let env = vec![("DFDN_CONF".to_owned(), conf)];
    let mut sm = OpenSm::up(&sim, &Config { env, ..plugin::config("dfdn") });
    sm.resweep();
    let text = std::fs::read_to_string(&log).unwrap_or_else(|e| panic!("{e}\n{}", sm.log()));
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.len() >= 2, "{text}");
    for line in &lines {
        assert!(line["in_place"] == true && line["held"] == false && line["switches"] == 6, "{line}");
        assert!(line["engine"] == "dfdn" && line["seconds"]["all"].as_f64() > Some(0.0), "{line}");
    }
}

/// OpenSM treats a row of zeros whose MAD failed as sent. Rows that were not acknowledged are sent
/// again, so what is reported as in place is in place.
#[test]
fn rows_whose_mads_failed_are_sent_again() {
    let Some(tools) = host::tools("failed MADs") else { return };
    let fabric = Ring { switches: 6, cas: 1 }.build().expect("a ring");
    let mut sim = Ibsim::start(tools, &net(&fabric));
    // What the switches hold from before: VL 7 for every SL. In the second sweep the ports have 8
    // VLs.
    let extra = format!("qos_sl2vl {}\n", ["7"; 16].join(","));
    let mut before = OpenSm::up(&sim, &Config { extra, ..host::opensm::Config::default() });
    before.resweep();
    assert!(before.stop().success());
    let switch = fabric.switch(fabric.switch_ids().next().expect("a switch")).guid;
    sim.command(&format!("Error \"S-{:016x}\" 100 0x17", switch.0));
    let mut sm = OpenSm::up(&sim, &plugin::fast(plugin::config("dfdn")));
    sm.wait_log("dfdn: ERR DF26", 1, Duration::from_secs(20));
    // The next sweep may have come already, which avoids the switch.
    let log = sm.log();
    let (before, _) = log.split_once("dfdn: ERR DF26").expect("the line has come");
    assert!(!before.contains("dfdn: DF05"), "{log}");
    sim.command(&format!("Error \"S-{:016x}\" 0", switch.0));
    sm.resweep();
    // The switch was avoided meanwhile.
    sm.wait_log("dfdn: DF04: no longer so", 1, Duration::from_secs(20));
    let before = sm.log().matches("dfdn: DF05").count();
    sm.resweep();
    sm.wait_log("dfdn: DF05", before + 1, Duration::from_secs(20));
    let (fabric, held) = read_back(&sim, &sm, &fabric);
    let Routed { routes, .. } = engine::route(&fabric, &Settings::default()).expect("it can be routed");
    assert_programmed("failed MADs", &fabric, &held, &routes);
}

/// The tables do not depend on the order of discovery.
#[test]
fn tables_do_not_depend_on_the_run_or_the_order_of_records() {
    let Some(tools) = host::tools("determinism") else { return };
    let text = net(&Dragonfly::balanced(2).build().expect("a Dragonfly"));
    // Records begin after a blank line. The first adapter stays: OpenSM runs there.
    let mut records: Vec<&str> = text.split("\n\n").collect();
    let reversed = {
        let adapter = records.iter().position(|r| r.contains("Ca\t")).expect("there is an adapter");
        let first = records.remove(adapter);
        records.reverse();
        records.insert(0, first);
        records.join("\n\n") + "\n"
    };
    let dumps: Vec<(String, String)> = [&text, &text, &reversed]
        .map(|text| {
            let sim = Ibsim::start(tools, text);
            let sm = OpenSm::up(&sim, &plugin::config("dfdn"));
            let read = |name| std::fs::read_to_string(sm.path(name)).expect("OpenSM writes its dumps");
            (read("opensm-lfts.dump"), read("opensm-sl2vl.dump"))
        })
        .into();
    assert!(dumps[0] == dumps[1], "two runs");
    assert!(dumps[0] == dumps[2], "records in another order");
}

#[test]
fn the_configuration_file_chooses_and_a_slip_in_it_harms_nothing() {
    let Some(tools) = host::tools("configuration") else { return };
    let fabric = Dragonfly::balanced(1).build().expect("a Dragonfly");
    let sim = Ibsim::start(tools, &net(&fabric));
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let write = |text: &str| std::fs::write(file.path(), text).expect("the configuration is written");
    write("engine dfdn-paper-minhop # for once\n");
    let env = vec![("DFDN_CONF".to_owned(), file.path().to_owned())];
    let mut sm = OpenSm::up(&sim, &Config { env, ..plugin::config("dfdn") });
    assert!(sm.log().contains("DF09") && sm.log().contains("engine dfdn-paper-minhop"), "{}", sm.log());
    write("engine dfdn-paper-minhop\nlanes 3\n");
    sm.resweep();
    let log = sm.log();
    assert!(log.contains("ERR DF28") && log.contains("line 2: there is no key 'lanes'"), "{log}");
    assert_eq!(log.matches("DF03").count(), 2, "the sweep went on with the settings from before\n{log}");
    assert_eq!(log.matches("DF09").count(), 1, "settings are announced once\n{log}");
    write("prefer minimal\n");
    sm.resweep();
    assert_eq!(sm.log().matches("DF09").count(), 2, "{}", sm.log());
}

#[test]
fn a_bad_line_of_the_configuration_at_the_start_is_left_out() {
    let Some(tools) = host::tools("bad configuration") else { return };
    let fabric = Ring { switches: 5, cas: 1 }.build().expect("a ring");
    let sim = Ibsim::start(tools, &net(&fabric));
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), "engine minhop\nvls 3\n").expect("the configuration is written");
    let env = vec![("DFDN_CONF".to_owned(), file.path().to_owned())];
    let sm = OpenSm::up(&sim, &Config { env, ..plugin::config("dfdn dfsssp") });
    let log = sm.log();
    assert!(log.contains("ERR DF28") && log.contains("credit loops"), "{log}");
    assert!(log.contains("engine dfdn, vls 3,"), "the other line counts: {log}");
    assert_eq!(sm.engine_used().as_deref(), Some("dfdn"));
    // It was read before the first sweep: a standby tells of a mistake before it takes over.
    assert!(log.find("DF28") < log.find("DF03") && log.matches("ERR DF28").count() >= 2, "{log}");
}

#[test]
fn engines_of_the_papers_have_names_of_their_own() {
    let Some(tools) = host::tools("engines by name") else { return };
    let fabric = Ring { switches: 6, cas: 1 }.build().expect("a ring");
    for name in ["updn-trees", "bfot-plus", "dfdn-paper"] {
        let sim = Ibsim::start(tools, &net(&fabric));
        let mut sm = OpenSm::up(&sim, &plugin::config(name));
        assert_eq!(sm.engine_used().as_deref(), Some(name), "{}", sm.log());
        sm.wait_log("dfdn: DF05", 1, Duration::from_secs(10));
        sm.wait_log("psl", 1, Duration::from_secs(20));
        let (fabric, held) = read_back(&sim, &sm, &fabric);
        let verdict = verify(&fabric, &held);
        assert!(verdict.is_safe(), "{name}: {:?}", verdict.witness().map(|w| w.explain(&fabric)));
    }
}
