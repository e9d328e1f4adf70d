//! The plugin in stock OpenSM over ibsim.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use dfdn::engine::{self, Routed, Settings};
use dfdn::fabric::{Fabric, FabricBuilder, Guid, Lmc, Node, NodeKind, PortNum, PortRef};
use dfdn::formats;
use dfdn::tables::{PathSl, Routes};
use dfdn::topology::{Dragonfly, FatTree, Mesh, Ring, SlimFly};
use dfdn::verify::verify;

use crate::host::ibsim::Ibsim;
use crate::host::opensm::{Config, OpenSm};
use crate::host::readback::Readback;
use crate::host::{self, ibdmchk, plugin, saquery};

/// A fabric as ibsim reads it, GUIDs stated.
fn net(fabric: &Fabric) -> String {
    let mut text = Vec::new();
    formats::ibnetdiscover::write(&mut text, fabric).expect("a vector takes everything");
    String::from_utf8(text).expect("text")
}

/// Two leaves and two spines with three cables between each leaf and spine, and two adapters a leaf.
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

/// A folder of fabrics that others made; `None`, after saying so, where it is not there.
fn real_fabric(file: &str) -> Option<Fabric> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/fabrics");
    let folder = std::env::var_os("DFDN_FABRICS").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = folder.join(file);
    if !path.exists() {
        eprintln!("skipped: {file} is not there (DFDN_FABRICS names the folder of such fabrics)");
        return None;
    }
    Some(formats::load_fabric(&path).expect("it loads").0)
}

/// The fabric with the LIDs that OpenSM gave, and the tables that the switches hold. SLs are those
/// that `path_sl` gives out, from `psl` where there is one.
fn read_back(sim: &Ibsim, sm: &OpenSm, fabric: &Fabric) -> (Fabric, Routes) {
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

/// Everything that must hold of a subnet that dfdn routed.
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
    assert!(read.lft == routes.lft, "{name}: the forwarding tables in the switches are not those computed");
    for s in fabric.switch_ids() {
        let live = |p: u8| p == 0 || fabric.switch(s).ports[usize::from(p)].peer.is_some();
        let ports: Vec<u8> = (0..fabric.switch(s).ports.len() as u8).filter(|&p| live(p)).collect();
        for &out in &ports {
            // Towards adapters OpenSM masks the VLs by what the adapter has, which is no matter.
            if fabric.channels().at_port(s, PortNum(out)).is_none() {
                continue;
            }
            for &inp in &ports {
                let (inp, out) = (PortNum(inp), PortNum(out));
                let (held, computed) = (read.sl2vl.row(s, inp, out), routes.sl2vl.row(s, inp, out));
                assert_eq!(held, computed, "{name}: {} in {inp} out {out}", fabric.describe_switch(s));
            }
        }
    }

    // PathRecords of some pairs: the SL that the tables tell.
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
    if let Some(fabric) = real_fabric("x5/X5.topofile") {
        check("real cluster", &fabric);
    }
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

/// The judges on an engine that uses SLs, through the `psl` that the plugin writes for it.
#[test]
fn psl_is_written_for_stock_engines() {
    let Some(tools) = host::tools("psl of dfsssp") else { return };
    let fabric = Ring { switches: 6, cas: 1 }.build().expect("a ring");
    let sim = Ibsim::start(tools, &net(&fabric));
    let mut sm = OpenSm::up(&sim, &plugin::config("dfsssp"));
    sm.wait_log("dfdn: DF06", 1, Duration::from_secs(10));
    let (fabric, held) = read_back(&sim, &sm, &fabric);
    // dfsssp plans for adapters; with switch port 0 as an end there may be a loop left.
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
    let config = Config { max_op_vls: Some(2), ..plugin::config("dfdn dfsssp") };
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
    for callback in
        ["build_lid_matrices", "ucast_build_fwd_tables", "update_sl2vl", "update_vlarb", "path_sl", "report"]
    {
        let sim = Ibsim::start(tools, &net(&fabric));
        let env = vec![("DFDN_DRILL_PANIC".to_owned(), PathBuf::from(callback))];
        let mut sm = OpenSm::up(&sim, &Config { env, ..plugin::config("dfdn dfsssp") });
        sm.wait_log("ERR DF99", 1, Duration::from_secs(10));
        let used = if callback.contains("build") { "dfsssp" } else { "dfdn" };
        assert_eq!(sm.engine_used().as_deref(), Some(used), "{callback}: {}", sm.log());
        if callback == "update_sl2vl" {
            // Rows that were never filled are found out, not taken for safe.
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
    let version = b"OpenSM 3.3.23\0";
    let places: Vec<usize> = (0..library.len()).filter(|&i| library[i..].starts_with(version)).collect();
    assert!(!places.is_empty(), "the library names the version that it was built for");
    let mut other = library;
    for place in places {
        other[place..place + version.len()].copy_from_slice(b"OpenSM 3.3.99\0");
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

/// One sweep with a single VL, then a restart: OpenSM clips the SL2VL tables of the first sweep by
/// what the ports operate from before.
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

/// The same tables whatever the order in which the subnet is discovered.
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
