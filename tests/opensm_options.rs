//! OpenSM's options together with dfdn: each works, or the log mentions it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use dfdn::engine::{self, EngineError, IGNORED_OPTIONS, Routed, Settings};
use dfdn::fabric::{Fabric, FabricBuilder, NodeKind};
use dfdn::formats;
use dfdn::tables::{PathSl, Routes};
use dfdn::topology::{Dragonfly, Ring, Torus};
use dfdn::verify::verify;

use crate::host::ibsim::{Ibsim, net};
use crate::host::opensm::{Config, OpenSm};
use crate::host::readback::{self, Readback};
use crate::host::sweeps::{End, Sweeps};
use crate::host::{self, plugin};

fn ring() -> Fabric {
    Ring { switches: 6, cas: 1 }.build().expect("a ring")
}

/// The tables in the switches, with the SLs that `path_sl` assigns.
fn held(sim: &Ibsim, sm: &OpenSm, fabric: &Fabric) -> (Fabric, Routes) {
    let back = Readback::of(sim);
    if sm.path("psl").exists() {
        std::fs::copy(sm.path("psl"), back.folder().join("psl")).expect("psl is copied");
    }
    formats::load_tables(back.folder(), fabric.clone()).expect("the tables load")
}

/// OpenSM's torus-2QoS routes tori, meshes and mixtures by the file that `dfdn export torus-2qos` writes, with rings of
/// four and parallel paths of two in it, and without the switch of the first seed.
#[test]
fn torus_2qos_routes_by_the_exported_file() {
    let Some(tools) = host::tools("torus-2qos") else { return };
    let torus = |dims: &[u32]| Torus { dims: dims.to_vec(), cas: 1 }.build().expect("a torus");
    for fabric in [torus(&[5, 5]), torus(&[4, 6, 3]), torus(&[4, 4]), torus(&[2, 5])] {
        let desk = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(desk.path().join("fabric.net"), net(&fabric)).expect("the fabric is written");
        let words = ["export", "torus-2qos", "fabric.net", "-o", "out"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_dfdn"));
        let ran = command.args(words).current_dir(&desk).output().expect("dfdn starts");
        assert!(ran.status.success(), "{fabric}: {}", String::from_utf8_lossy(&ran.stderr));
        let sim = Ibsim::start(tools, &net(&fabric));
        let file = desk.path().join("out/torus-2QoS.conf");
        let text = std::fs::read_to_string(&file).expect("the file");
        let config = Config {
            engine: "torus-2QoS,no_fallback".into(),
            extra: format!("torus_config {}\n", file.display()),
            ..Config::default()
        };
        let sm = OpenSm::up(&sim, &config);
        assert_eq!(sm.engine_used().as_deref(), Some("torus-2QoS"), "{fabric}:\n{text}\n{}", sm.log());
        // Each route of the switches reaches its LID.
        let (_, routes) = held(&sim, &sm, &fabric);
        let verdict = verify(&fabric, &routes);
        assert!(verdict.reachable && verdict.loop_free, "{fabric}:\n{text}");
    }
}

/// An option that works, or makes the engine refuse.
struct Row {
    lines: &'static str,
    engine: &'static str,
    /// LMC of the adapters and of the enhanced port 0.
    lmc: (u8, u8),
    /// Remaining data VLs.
    vls: u8,
}

const fn row(lines: &'static str, engine: &'static str, lmc: (u8, u8), vls: u8) -> Row {
    Row { lines, engine, lmc, vls }
}

#[test]
fn options_that_work() {
    let Some(tools) = host::tools("options") else { return };
    let rows = [
        row("lmc 1", "dfdn", (1, 0), 8),
        row("lmc 1\nlmc_esp0 TRUE", "dfdn-paper", (1, 1), 8),
        row("lmc 2", "updn-trees", (2, 0), 8),
        row("lmc 3\nlmc_esp0 TRUE", "dfdn", (3, 3), 8),
        row("max_op_vls 1", "dfdn", (0, 0), 1),
        row("max_op_vls 2", "dfdn", (0, 0), 2),
        row("max_op_vls 3", "dfdn-paper", (0, 0), 4),
        row("max_op_vls 4", "dfdn", (0, 0), 8),
        row("max_op_vls 1", "dfdn-paper", (0, 0), 1),
        row("sm_sl 1", "dfdn-paper", (0, 0), 8),
        row("qos FALSE", "dfdn", (0, 0), 8),
        row("single_thread TRUE\nuse_mfttop FALSE", "dfdn-paper", (0, 0), 8),
        row("max_wire_smps 64\nmax_wire_smps2 64", "dfdn-paper", (0, 0), 8),
        row("reassign_lids TRUE\nforce_heavy_sweep TRUE\nsweep_interval 1", "dfdn", (0, 0), 8),
        row("disable_multicast TRUE", "dfdn", (0, 0), 8),
    ];
    let mut refused = 0;
    for Row { lines, engine, lmc, vls } in rows {
        let fabric = {
            let mut b = FabricBuilder::from_fabric(&ring());
            let third = ring().switch_node_id(dfdn::fabric::SwitchId::at(2));
            b.node_mut(third).enhanced_port0 = true;
            b.finish(dfdn::fabric::Lmc::default()).expect("a fabric")
        };
        let sim = Ibsim::start(tools, &net(&fabric));
        let lmc_line = lines.lines().find_map(|l| l.strip_prefix("lmc ")).and_then(|n| n.parse().ok());
        let extra: String =
            lines.lines().filter(|l| !l.starts_with("lmc ")).map(|l| format!("{l}\n")).collect();
        let qos = !lines.contains("qos FALSE");
        let config = Config {
            lmc: lmc_line.unwrap_or(0),
            extra,
            qos,
            ..plugin::config(&format!("{engine},no_fallback"))
        };
        let mut sm = OpenSm::start(&sim, &config);
        let mut sweeps = Sweeps::of(&sm);
        let end = sweeps.rest(&mut sm, 0);
        assert!(sweeps.defects.is_empty(), "{lines}: {:?}", sweeps.defects);
        let settings = Settings { engine: engine.to_owned(), vls: Some(vls), ..Settings::default() };
        match (end, engine::route(&fabric, &settings)) {
            (End::Up, Ok(_)) => {
                let (fabric, held) = held(&sim, &sm, &fabric);
                for e in fabric.endports() {
                    let node = fabric.node(e.node);
                    let wanted = match (node.kind, node.enhanced_port0) {
                        (NodeKind::Switch, true) => lmc.1,
                        (NodeKind::Switch, false) => 0,
                        _ => lmc.0,
                    };
                    assert_eq!(e.lmc.get(), wanted, "{lines}: LMC of {}", node.description);
                }
                let Routed { routes, .. } = engine::route(&fabric, &settings).expect("as before");
                assert!(held.lft == routes.lft, "{lines}");
                let any = matches!(routes.path_sl, PathSl::Any(_));
                let path_sl = if any { routes.path_sl } else { held.path_sl.clone() };
                let verdict = verify(&fabric, &Routes { path_sl, ..held });
                assert!(verdict.is_safe() && verdict.vls <= vls.into(), "{lines}: {:?}", verdict.witnesses);
            }
            // Here the setting limits the VLs, in OpenSM the links do.
            (End::Refused(said), Err(EngineError::OwnLimit { needed, offered, .. })) => {
                let why = format!("{needed} VLs are needed and {offered} are offered");
                assert!(
                    said.iter().any(|l| l.starts_with("ERR DF22") && l.contains(&why)),
                    "{lines}: {said:?}"
                );
                refused += 1;
            }
            (end, computed) => {
                panic!("{lines}: {end:?} in OpenSM, {:?} outside", computed.map(|r| r.verdict.vls))
            }
        }
        assert!(sm.alive() && sm.stop().success(), "{lines}: {}", sm.log());
    }
    assert!(refused >= 1, "one VL does not do for dfdn-paper on a ring of six");
}

/// All at once in OpenSM, and one by one in the log; the tables are those without them.
#[test]
fn options_without_effect_are_told() {
    let Some(tools) = host::tools("options without effect") else { return };
    let fabric = Torus { dims: vec![3, 3], cas: 1 }.build().expect("a torus");
    let run = |extra: String| {
        let sim = Ibsim::start(tools, &net(&fabric));
        let sm = OpenSm::up(&sim, &Config { extra, ..plugin::config("dfdn,no_fallback") });
        let back = Readback::of(&sim);
        ([back.lfts(), back.sl2vl(), back.text("vlarb")], sm.log())
    };
    let value = |name: &str, default: &str| match default {
        "FALSE" => "TRUE",
        "(null)" => "/nonexistent/file",
        _ if name.ends_with("sl2vl") => "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0",
        _ if name.contains("vlarb") => "0:1,1:2",
        _ => "3",
    };
    let all: String =
        IGNORED_OPTIONS.iter().map(|o| format!("{} {}\n", o.name, value(o.name, o.default))).collect();
    let (without, log) = run(String::new());
    assert!(!log.contains("DF15"), "{log}");
    let (with, log) = run(all);
    let line =
        log.lines().find(|l| l.contains("dfdn: DF15")).unwrap_or_else(|| panic!("nothing told\n{log}"));
    for option in IGNORED_OPTIONS {
        let told = format!("{} {} ({})", option.name, value(option.name, option.default), option.why);
        assert!(line.contains(&told), "{} is not in: {line}", option.name);
    }
    assert!(with == without, "an option changed the tables");
    assert_eq!(log.matches("dfdn: DF15").count(), 1, "told once\n{log}");
}

/// Every option of OpenSM's headers is in the table of docs/settings.md, and those without effect are those of the code.
#[test]
fn every_option_is_documented() {
    let folder =
        std::env::var_os("OPENSM_INCLUDE_DIR").map_or("/usr/include/infiniband".into(), PathBuf::from);
    let header = folder.join("opensm/osm_subnet.h");
    let Ok(text) = std::fs::read_to_string(&header) else {
        eprintln!("skipped: {} is not there (libopensm-dev)", header.display());
        return;
    };
    let docs =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/settings.md")).expect("the page");
    let (_, table) = docs.split_once("## Options of `opensm.conf`").expect("the table");
    let rows: Vec<(&str, &str)> =
        table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | ")).collect();
    let named = |name: &str| {
        let is = |word: &str| word.strip_suffix('*').map_or(word == name, |start| name.starts_with(start));
        let found =
            rows.iter().find(|(names, _)| names.split(['`', ' ']).filter(|word| !word.is_empty()).any(is));
        found.map(|(_, what)| *what)
    };
    // The names of fields that differ from those of the options, and fields that are no options.
    let renamed = [
        ("m_key_protect_bits", "m_key_protection_level"),
        ("routing_engine_names", "routing_engine"),
        ("torus_conf_file", "torus_config"),
    ];
    let none = ["config_file", "file_opts", "part_enforce_enum"];
    let fields = text.split_once("typedef struct osm_subn_opt {").and_then(|(_, rest)| rest.split_once('}'));
    let fields: Vec<&str> = (fields.expect("the options").0.lines())
        .filter_map(|line| line.split(';').next()?.split_whitespace().last())
        .map(|field| field.trim_start_matches('*').split('[').next().unwrap_or_default())
        .filter(|field| field.starts_with(|c: char| c.is_ascii_lowercase()) && !none.contains(field))
        .filter(|field| !field.starts_with("qos_") || *field == "qos_policy_file")
        .collect();
    assert!(fields.len() > 100, "{fields:?}");
    for field in fields {
        let option = renamed.iter().find(|(name, _)| *name == field).map_or(field, |(_, option)| option);
        assert!(named(option).is_some(), "docs/settings.md does not say what becomes of {option}");
    }
    for option in IGNORED_OPTIONS {
        let what = named(option.name).unwrap_or_else(|| panic!("{} is not in docs/settings.md", option.name));
        assert!(what.starts_with("no effect"), "{}: {what}", option.name);
    }
}

/// OpenSM reads its file again at SIGHUP.
#[test]
fn a_file_that_changes_under_way() {
    let Some(tools) = host::tools("SIGHUP") else { return };
    let fabric = ring();
    let sim = Ibsim::start(tools, &net(&fabric));
    let mut sm = OpenSm::up(&sim, &plugin::config("dfdn,no_fallback"));
    let file = sm.path("opensm.conf");
    let before = std::fs::read_to_string(&file).expect("the configuration");
    std::fs::write(&file, format!("{before}scatter_ports 5\nmax_reverse_hops 3\nqos FALSE\n"))
        .expect("it is written");
    let mut sweeps = Sweeps::of(&sm);
    assert_eq!(sweeps.settle(&mut sm), End::Up);
    let said = sweeps.said().join("\n");
    assert!(said.contains("DF15") && said.contains("scatter_ports 5"), "{said}");
    assert!(said.contains("DF05"), "SL2VL tables are still programmed: {said}");
    // OpenSM takes an option from the file whenever it changes there.
    for qos in ["TRUE", "FALSE"] {
        std::fs::write(&file, format!("{before}qos {qos}\n")).expect("it is written");
        assert_eq!(sweeps.settle(&mut sm), End::Up);
        let said = sweeps.said().join("\n");
        assert!(said.contains("DF05") && said.contains("DF02") == (qos == "FALSE"), "{qos}: {said}");
    }
    std::fs::write(&file, before).expect("it is written");
    assert_eq!(sweeps.settle(&mut sm), End::Up);
    assert!(!sweeps.said().join("\n").contains("DF15"));
    let (fabric, held) = held(&sim, &sm, &fabric);
    let Routed { routes, .. } = engine::route(&fabric, &Settings::default()).expect("it can be routed");
    assert!(held.lft == routes.lft && verify(&fabric, &Routes { path_sl: routes.path_sl, ..held }).is_safe());
}

/// With the cache, OpenSM does not ask the engine if only adapters or leaves disappear or come
/// back.
#[test]
fn the_unicast_cache() {
    let Some(tools) = host::tools("unicast cache") else { return };
    let fabric = Torus { dims: vec![3, 3], cas: 2 }.build().expect("a torus");
    let mut sim = Ibsim::start(tools, &net(&fabric));
    let extra = "use_ucast_cache TRUE\n".to_owned();
    let mut sm = OpenSm::up(&sim, &Config { extra, ..plugin::config("dfdn-paper,no_fallback") });
    let mut sweeps = Sweeps::of(&sm);
    let adapter = fabric.nodes().iter().rfind(|n| n.kind == NodeKind::ChannelAdapter).expect("an adapter");
    let adapter = format!("H-{:016x}", adapter.guid.0);
    let channel = fabric.channels().as_slice()[3];
    let cable = format!("\"S-{:016x}\"[{}]", fabric.switch(channel.from).guid.0, channel.out_port);
    let mut by_cache = 0;
    for (command, whole) in [
        (format!("Unlink \"{adapter}\"[1]"), false),
        (format!("ReLink \"{adapter}\"[1]"), true),
        (format!("Unlink {cable}"), false),
        (format!("ReLink {cable}"), true),
    ] {
        sim.commands(std::slice::from_ref(&command));
        assert_eq!(sweeps.settle(&mut sm), End::Up, "{command}: {}", sm.log());
        assert!(sweeps.defects.is_empty(), "{command}: {:?}", sweeps.defects);
        by_cache += usize::from(!sweeps.said().iter().any(|l| l.starts_with("DF03")));
        if whole {
            let (fabric, held) = held(&sim, &sm, &fabric);
            let verdict = verify(&fabric, &held);
            assert!(verdict.is_safe(), "{command}: {:?}", verdict.witness().map(|w| w.explain(&fabric)));
        }
    }
    assert!(by_cache > 0, "the cache was used at least once");
    assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
}

/// A way in steps goes on although OpenSM could answer each sweep from its cache, and so do settings that change.
#[test]
fn the_unicast_cache_does_not_outlive_a_step_or_a_setting() {
    let Some(tools) = host::tools("unicast cache and steps") else { return };
    let fabric = Dragonfly::balanced(2).build().expect("a fabric");
    let mut sim = Ibsim::start(tools, &net(&fabric));
    let folder = tempfile::tempdir().expect("a folder");
    let conf = folder.path().join("dfdn.conf");
    std::fs::write(&conf, "prefer one-sl\n").expect("it is written");
    let env = vec![("DFDN_CONF".to_owned(), conf.clone())];
    let extra = "use_ucast_cache TRUE\n".to_owned();
    let mut sm = OpenSm::up(&sim, &Config { extra, env, ..plugin::config("dfdn,no_fallback") });
    let mut sweeps = Sweeps::of(&sm);
    let mut steps = 0;
    for channel in fabric.channels().as_slice().iter().step_by(9) {
        let cable = format!("\"S-{:016x}\"[{}]", fabric.switch(channel.from).guid.0, channel.out_port);
        for command in ["Unlink", "ReLink"] {
            let (before, log) = (sweeps.started(), sm.log().len());
            sim.commands(&[format!("{command} {cable}")]);
            assert_eq!(sweeps.settle(&mut sm), End::Up, "{command} {cable}: {}", sm.log());
            assert!(sweeps.defects.is_empty(), "{command} {cable}: {:?}", sweeps.defects);
            assert!(sweeps.started() - before < 10, "{} sweeps", sweeps.started() - before);
            let said = &sm.log()[log..];
            // A way that was begun came to its end.
            let of = |n: &str| said.matches(n).count();
            assert_eq!(of(" in 2 steps"), of("step 2 of 2"), "{said}");
            steps += of("step 2 of 2");
            let (fabric, held) = held(&sim, &sm, &fabric);
            if command == "ReLink" {
                let verdict = verify(&fabric, &held);
                assert!(verdict.is_safe(), "{cable}: {:?}", verdict.witness().map(|w| w.explain(&fabric)));
            }
        }
    }
    assert!(steps > 0, "no way had two steps");
    std::fs::write(&conf, "prefer one-sl\nvls 3\n").expect("it is written");
    assert_eq!(sweeps.settle(&mut sm), End::Up);
    assert!(sm.log().contains("vls 3,"), "the settings were read again");
    assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
}

/// ibsim's ports have 8 VLs each; a library between OpenSM and them gives some fewer.
#[test]
fn ports_with_fewer_vls() {
    let Some(tools) = host::tools("fewer VLs") else { return };
    let shim = readback::compile_shared("fewer_vls").expect("a C compiler");
    let fabric = ring();
    // Ports 1 are those of adapters and towards them, ports 2 and 3 the ring.
    for (port, cap, vls) in [(1, 1, 8), (2, 2, 2), (3, 1, 1)] {
        let sim = Ibsim::start(tools, &net(&fabric));
        let env = [("FEWER_VLS_PORT", port), ("FEWER_VLS_CAP", cap)];
        let env = env.map(|(name, value)| (name.to_owned(), PathBuf::from(value.to_string()))).into();
        let loader = "/lib64/ld-linux-x86-64.so.2".to_owned();
        let under = vec![loader, "--preload".to_owned(), shim.display().to_string()];
        let config = Config { env, under, ..plugin::config("dfdn,no_fallback") };
        let mut sm = OpenSm::start(&sim, &config);
        let mut sweeps = Sweeps::of(&sm);
        assert_eq!(sweeps.rest(&mut sm, 0), End::Up, "port {port}: {}", sm.log());
        let said = sweeps.said().join("\n");
        assert!(said.contains(&format!(" of {vls} VLs")) && said.contains("DF05"), "port {port}: {said}");
        let back = Readback::of(&sim);
        let few =
            back.op_vls().iter().filter(|(_, p, _)| *p == port).map(|&(_, _, vls)| vls).collect::<Vec<_>>();
        assert!(!few.is_empty() && few.iter().all(|&v| v == cap), "port {port} operates {few:?}");
        let (fabric, held) = held(&sim, &sm, &fabric);
        let settings = Settings { vls: Some(vls), ..Settings::default() };
        let Routed { routes, .. } = engine::route(&fabric, &settings).expect("it can be routed");
        assert!(held.lft == routes.lft, "port {port}");
        assert!(verify(&fabric, &Routes { path_sl: routes.path_sl, ..held }).is_safe(), "port {port}");
        // Each VL once, in the tables of all ports that have more than one; OpenSM sends none for
        // others.
        for (guid, p, high, entries) in back.vlarb() {
            let operates = back.op_vls().iter().find(|o| (o.0, o.1) == (guid, p)).map(|o| o.2);
            let operates = operates.expect("a port that is up");
            let mut used: Vec<_> = entries.iter().filter(|(_, weight)| *weight > 0).collect();
            let count = used.len();
            used.sort_unstable();
            used.dedup();
            let fair =
                used.len() == count && used.iter().all(|(vl, _)| *vl < operates) && (high || count > 0);
            assert!(operates == 1 || fair, "{guid:x} port {p} of {operates} VLs: {entries:?}");
        }
        sm.wait_log("dfdn: DF05", 1, Duration::from_secs(5));
        assert!(sm.alive() && sm.stop().success(), "port {port}: {}", sm.log());
    }
}
