//! The command compared with stock OpenSM and ibdmchk.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use dfdn::engine::{self, Settings};
use dfdn::fabric::{Fabric, Lmc, SwitchId};
use dfdn::formats::{self, WriteOptions};
use dfdn::tables::{PathSl, Routes, Sl2Vl};
use dfdn::topology::{FatTree, Hypercube, Mesh, Ring, Torus, small_members};
use dfdn::verify::verify;

use crate::command::check_credit_loop;
use crate::host::ibsim::{Ibsim, net};
use crate::host::opensm::{Config, OpenSm};
use crate::host::readback::Readback;
use crate::host::{self, Tools, ibdmchk, plugin};

fn dfdn(words: &[&str], files: &[&Path]) -> (Option<i32>, Value) {
    let output = Command::new(plugin::command()).args(words).args(files).arg("--json").output();
    let output = output.expect("dfdn starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let value = serde_json::from_str(&text);
    (output.status.code(), value.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))))
}

/// The verdicts of both judges on tables as `route` writes them: (reachable, deadlock-free).
fn judged(tools: &Tools, fabric: &Fabric, routes: &Routes) -> [(bool, bool); 2] {
    let folder = tempfile::tempdir().expect("a temporary folder");
    formats::write_tables(folder.path(), fabric, routes, WriteOptions::default()).expect("tables");
    let file = |name| folder.path().join(name);
    let psl = Some(file("psl")).filter(|p| p.exists());
    let other = ibdmchk::judge(
        tools,
        &file("opensm-subnet.lst"),
        &file("opensm.fdbs"),
        &file("slvl"),
        psl.as_deref(),
    );
    let own = verify(fabric, routes);
    // ibdmchk checks packets between adapters.
    [(own.reachable, own.deadlock_free_adapters), (other.reachable, other.deadlock_free)]
}

/// Each engine that promises freedom from credit loops, on a member of every family.
#[test]
fn ibdmchk_agrees_on_every_engine() {
    let Some(tools) = host::tools("ibdmchk on every engine") else { return };
    let mut judged_by = std::collections::BTreeMap::new();
    for (name, fabric) in small_members() {
        for engine in engine::ENGINES.iter().filter(|e| e.deadlock_free) {
            let settings = Settings { engine: engine.name.to_owned(), ..Settings::default() };
            // Too few lanes for a method is no error here: tests/engines.rs checks refusals.
            let Ok(routed) = engine::route(&fabric, &settings) else { continue };
            assert_eq!(
                judged(tools, &fabric, &routed.routes),
                [(true, true); 2],
                "{} on {name}",
                engine.name
            );
            *judged_by.entry(engine.name).or_insert(0) += 1;
        }
    }
    let free = engine::ENGINES.iter().filter(|e| e.deadlock_free).count();
    assert_eq!(judged_by.len(), free, "each engine routes some of them: {judged_by:?}");
}

/// The cuts of rings keep one SL free of credit loops; on one VL there are some.
#[test]
fn ibdmchk_agrees_on_tori_with_one_sl() {
    let Some(tools) = host::tools("ibdmchk on tori with one SL") else { return };
    for dims in [&[8, 8][..], &[7, 7], &[9, 7], &[12, 5], &[4, 8], &[5, 3, 7], &[4, 6, 7]] {
        let torus = Torus { dims: dims.to_vec(), cas: 1 }.build().expect("a torus");
        let settings = Settings { prefer: engine::Prefer::OneSl, ..Settings::default() };
        let good = engine::route(&torus, &settings).expect("it can be routed").routes;
        assert_eq!(judged(tools, &torus, &good), [(true, true); 2], "{torus}");
        let one_vl = Routes { sl2vl: Sl2Vl::new(&torus), ..good };
        assert_eq!(judged(tools, &torus, &one_vl), [(true, false); 2], "{torus} on one VL");
    }
}

#[test]
fn ibdmchk_agrees_on_every_family_and_on_broken_tables() {
    let Some(tools) = host::tools("ibdmchk on the files of route") else { return };
    let (mut loops, mut holes) = (0, 0);
    for (name, fabric) in small_members() {
        let good = engine::route(&fabric, &Settings::default()).expect("it can be routed").routes;
        assert_eq!(judged(tools, &fabric, &good), [(true, true); 2], "{name}");

        // All on one VL: some have a credit loop, and the judges agree on which.
        let one_vl =
            Routes { sl2vl: Sl2Vl::new(&fabric), path_sl: PathSl::one(dfdn::fabric::Sl(0)), ..good.clone() };
        let [own, other] = judged(tools, &fabric, &one_vl);
        assert_eq!(own, other, "{name} on one VL");
        loops += usize::from(!own.1);

        // One entry is removed: that of the last switch for an adapter elsewhere.
        let last = SwitchId::at(fabric.num_switches() - 1);
        let far = fabric
            .adapters()
            .find(|(_, e)| e.attachment.is_some_and(|(s, _)| s != last) && fabric.num_adapters_on(last) > 0);
        let Some((_, far)) = far else { continue };
        let mut hole = good.clone();
        hole.lft = formats::lfts_dump::read(without(&fabric, &good, last, far.lid).as_bytes(), &fabric)
            .expect("the rest reads back")
            .0;
        let [own, other] = judged(tools, &fabric, &hole);
        assert!(!own.0 && !other.0, "{name}: an adapter cannot be reached: {own:?} {other:?}");
        holes += 1;
    }
    assert!(loops >= 3 && holes >= 10, "{loops} credit loops, {holes} holes");
}

/// The dump of the forwarding tables without one entry.
fn without(fabric: &Fabric, routes: &Routes, switch: SwitchId, lid: dfdn::fabric::Lid) -> String {
    let mut dump = Vec::new();
    formats::lfts_dump::write(&mut dump, fabric, &routes.lft).expect("text");
    let guid = format!("guid {} ", fabric.switch(switch).guid);
    let entry = format!("0x{:04x} ", lid.get());
    let mut here = false;
    let mut rest = String::new();
    for line in String::from_utf8(dump).expect("text").lines() {
        here = if line.starts_with("Unicast") { line.contains(&guid) } else { here };
        if !(here && line.starts_with(&entry)) {
            rest += line;
            rest.push('\n');
        }
    }
    rest
}

#[test]
fn opensm_loads_back_what_route_writes() {
    let Some(tools) = host::tools("routing_engine file") else { return };
    let fabrics: [(&str, Fabric); 3] = [
        ("fat tree", FatTree { k: 4, levels: 3, down: None, cas: None }.build().expect("a fat tree")),
        ("torus", Torus { dims: vec![3, 4], cas: 2 }.build().expect("a torus")),
        ("mesh", Mesh { dims: vec![3, 3], cas: 1 }.build().expect("a mesh")),
    ];
    for ((name, fabric), lmc) in fabrics.iter().zip([0, 0, 1]) {
        let fabric = fabric.with_lmc(Lmc::new(lmc).expect("an LMC")).expect("enough LIDs");
        let routes = engine::route(&fabric, &Settings::default()).expect("it can be routed").routes;
        let folder = tempfile::tempdir().expect("a temporary folder");
        formats::write_tables(folder.path(), &fabric, &routes, WriteOptions::default()).expect("tables");
        // ibsim starts without LIDs, like switches that were just turned on.
        let sim = Ibsim::start(tools, &net(&fabric.with_lmc(Lmc::default()).expect("enough LIDs")));
        let config = Config {
            engine: "file".into(),
            lmc,
            extra: format!(
                "lfts_file {}\nhonor_guid2lid_file TRUE\n",
                folder.path().join("opensm-lfts.dump").display()
            ),
            env: vec![("OSM_CACHE_DIR".into(), folder.path().into())],
            ..Config::default()
        };
        let sm = OpenSm::up(&sim, &config);
        assert_eq!(sm.engine_used().as_deref(), Some("file"), "{name}: {}", sm.log());
        let held = Readback::of(&sim).lfts();
        let (held, warnings) = formats::lfts_dump::read(held.as_bytes(), &fabric).expect("it reads");
        assert!(warnings.is_empty(), "{name}: {warnings:?}");
        assert!(held == routes.lft, "{name}: the switches hold other tables than were written");
    }
}

#[test]
fn dumps_of_stock_engines_are_judged() {
    let Some(tools) = host::tools("dumps of stock engines") else { return };
    let fabrics: [(&str, Fabric); 4] = [
        ("ring", Ring { switches: 6, cas: 2 }.build().expect("a ring")),
        ("torus", Torus { dims: vec![4, 4], cas: 1 }.build().expect("a torus")),
        ("hypercube", Hypercube { n: 3, cas: 2 }.build().expect("a hypercube")),
        ("fat tree", FatTree { k: 4, levels: 2, down: None, cas: None }.build().expect("a fat tree")),
    ];
    let (mut rows, mut loops) = (0, 0);
    for (name, fabric) in &fabrics {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("fabric.net");
        fs::write(&file, net(fabric)).expect("the fabric is written");
        for engine in ["minhop", "updn", "dor", "lash", "ftree", "dfsssp"] {
            let sim = Ibsim::start(tools, &net(fabric));
            // The plugin writes psl for any engine in use.
            let mut sm = OpenSm::up(&sim, &Config { qos: true, ..plugin::config(engine) });
            sm.wait_log("psl", 1, Duration::from_secs(20));
            let used = sm.engine_used().expect("some engine is in use");
            let label = format!("{engine} ({used}) on {name}");
            let (code, verdict) = dfdn(&["verify"], &[&file, sm.dumps()]);
            assert_eq!(verdict["loop_free"], true, "{label}");
            if verdict["reachable"] == false {
                // Up*/down* engines leave some switches without a path to others.
                let packet = &verdict["witness"]["packet"];
                let names = [&packet["source"]["name"], &packet["destination"]["name"]];
                let is_switch = |name: &&Value| !name.as_str().expect("a name").contains("-ca-");
                assert!(names.iter().any(is_switch), "{label}: {packet}");
            }
            let free = verdict["deadlock_free"] == true;
            assert_eq!(code, Some(i32::from(verdict["safe"] == false)), "{label}");
            let psl = Some(sm.path("psl")).filter(|p| p.exists());
            let other = ibdmchk::judge(
                tools,
                &sm.path("opensm-subnet.lst"),
                &sm.path("opensm.fdbs"),
                &sm.path("opensm-sl2vl.dump"),
                psl.as_deref(),
            );
            assert!(other.reachable, "{label}: {}", other.text);
            assert_eq!(verdict["deadlock_free_adapters"], other.deadlock_free, "{label}: {}", other.text);
            if !other.deadlock_free {
                let found = verdict["witnesses"].as_array().expect("witnesses");
                check_credit_loop(found.iter().find(|w| w["kind"] == "credit_loop").expect("a credit loop"));
                loops += 1;
            }
            let tables = sm.dumps().to_str().expect("a path");
            let (code, table) = dfdn(&["compare", "--patterns", "20", "--tables", tables], &[&file]);
            assert_eq!(code, Some(0), "{label}");
            assert_eq!(table["rows"][0]["deadlock_free"], free, "{label}: {table}");
            assert!(
                table["rows"][0]["ebb"].as_f64().is_some_and(|e| e > 0.0 && e <= 1.0),
                "{label}: {table}"
            );
            rows += 1;
        }
    }
    assert_eq!(rows, 24);
    assert!(loops >= 3, "rings and tori have credit loops under minhop and dor: {loops}");
}
