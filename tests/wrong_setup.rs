//! Every possible wrong setup, and memory exhaustion: OpenSM survives, and the log says what is
//! wrong and what to do.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use dfdn::engine::{self, Routed, Settings};
use dfdn::fabric::Fabric;
use dfdn::formats;
use dfdn::tables::Routes;
use dfdn::topology::{Dragonfly, Ring};
use dfdn::verify::verify;

use crate::host::ibsim::{Ibsim, net};
use crate::host::opensm::{Config, OpenSm};
use crate::host::readback::Readback;
use crate::host::sweeps::{End, Sweeps};
use crate::host::{self, plugin};

fn ring() -> Fabric {
    Ring { switches: 5, cas: 1 }.build().expect("a ring")
}

/// The switches hold what the default engine computes, and it is safe.
fn assert_routed(what: &str, sim: &Ibsim, fabric: &Fabric) {
    let (fabric, held) =
        formats::load_tables(Readback::of(sim).folder(), fabric.clone()).expect("the tables load");
    let Routed { routes, .. } = engine::route(&fabric, &Settings::default()).expect("it can be routed");
    assert!(held.lft == routes.lft, "{what}");
    assert!(verify(&fabric, &Routes { path_sl: routes.path_sl, ..held }).is_safe(), "{what}");
}

/// Runs `dfdn doctor` on the configuration of an OpenSM; returns its errors and warnings.
fn doctor(sm: &OpenSm, settings: &Path) -> (Option<i32>, String) {
    let output = Command::new(plugin::command())
        .arg("doctor")
        .args([Path::new("--conf"), &sm.path("opensm.conf"), Path::new("--settings"), settings])
        .args([Path::new("--plugin"), &plugin::folder().join("libdfdn.so")])
        .output()
        .expect("dfdn starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = text.lines().filter(|l| l.starts_with("FAULT") || l.starts_with("warning"));
    (output.status.code(), wrong.collect::<Vec<_>>().join("\n"))
}

/// Files that cannot be read or make no sense, from the start and while running.
#[test]
fn settings_that_cannot_be_read() {
    let Some(tools) = host::tools("settings that cannot be read") else { return };
    let fabric = ring();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("dfdn.conf");
    let put = |bytes: Option<&[u8]>| {
        let _ = std::fs::remove_dir(&file);
        let _ = std::fs::remove_file(&file);
        match bytes {
            Some([]) => std::fs::create_dir(&file).expect("a folder is made"),
            Some(bytes) => std::fs::write(&file, bytes).expect("it is written"),
            None => {}
        }
    };
    // A named file that does not exist, a folder, binary data, a typing error.
    let wrongs: [(Option<&[u8]>, &str); 4] = [
        (None, "cannot read"),
        (Some(b""), "cannot read"),
        (Some(b"vls \xff\xfe\n"), "cannot read"),
        (Some(b"prefer everything\n"), "line 1: prefer"),
    ];
    let sim = Ibsim::start(tools, &net(&fabric));
    put(None);
    let env = vec![("DFDN_CONF".to_owned(), file.clone())];
    let mut sm = OpenSm::start(&sim, &Config { env, ..plugin::config("dfdn,no_fallback") });
    let mut sweeps = Sweeps::of(&sm);
    let mut started = 0;
    // Without earlier settings those count that can be read.
    for (bytes, word) in wrongs {
        put(bytes);
        let end = if started == 0 { sweeps.rest(&mut sm, 0) } else { sweeps.settle(&mut sm) };
        started = sweeps.started();
        assert_eq!(end, End::Up, "{word}");
        let said = sweeps.said();
        let line = said.iter().find(|l| l.starts_with("ERR DF28")).unwrap_or_else(|| panic!("{said:?}"));
        assert!(line.contains(word) && line.contains("dfdn.conf") && line.contains("Routed with"), "{line}");
        assert!(said.iter().any(|l| l.starts_with("DF05")), "{said:?}");
        if bytes.is_some() {
            let (code, found) = doctor(&sm, &file);
            assert!(code == Some(1) && found.contains(word), "{word}: {found}");
        }
    }
    put(Some(b"prefer one-sl\n"));
    assert_eq!(sweeps.settle(&mut sm), End::Up);
    // With earlier settings, these stay in force.
    for (bytes, word) in wrongs {
        put(bytes);
        assert_eq!(sweeps.settle(&mut sm), End::Up, "{word}");
        let said = sweeps.said().join("\n");
        assert!(said.contains("ERR DF28") && said.contains(word) && said.contains("DF05"), "{said}");
    }
    assert_routed("at last", &sim, &fabric);
    assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
}

#[test]
fn a_plugin_named_twice_is_loaded_once() {
    let Some(tools) = host::tools("plugin twice") else { return };
    let fabric = ring();
    let sim = Ibsim::start(tools, &net(&fabric));
    let extra = "event_plugin_name dfdn dfdn\n".to_owned();
    let mut sm = OpenSm::up(&sim, &Config { extra, ..plugin::config("dfdn,no_fallback") });
    let log = sm.log();
    assert!(log.contains("ERR DF20") && log.contains("name it once in event_plugin_name"), "{log}");
    sm.wait_log("dfdn: DF05", 1, Duration::from_secs(10));
    sm.resweep();
    assert_routed("twice", &sim, &fabric);
    let (code, found) = doctor(&sm, Path::new("/nonexistent"));
    assert!(code == Some(0) && found.contains("dfdn twice"), "{found}");
    assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
}

#[test]
fn a_misspelt_engine_is_told() {
    let Some(tools) = host::tools("misspelt engine") else { return };
    let fabric = ring();
    for (engine, used) in [("dfnd", Some("minhop")), ("DFDN,no_fallback", None)] {
        let sim = Ibsim::start(tools, &net(&fabric));
        let mut sm = OpenSm::start(&sim, &plugin::config(engine));
        let mut sweeps = Sweeps::of(&sm);
        sweeps.rest(&mut sm, 0);
        let log = sm.log();
        let name = engine.split(',').next().unwrap_or_default();
        let line = log.lines().find(|l| l.contains("dfdn: DF16")).unwrap_or_else(|| panic!("{log}"));
        assert!(line.contains(name) && line.contains("'routing_engine dfdn,no_fallback'"), "{line}");
        assert_eq!(sm.engine_used().as_deref(), used, "{log}");
        let (code, found) = doctor(&sm, Path::new("/nonexistent"));
        assert!(code == Some(1) && found.contains("routing_engine does not name dfdn"), "{found}");
        assert!(sm.alive() && sm.stop().success(), "{engine}: {}", sm.log());
    }
}

/// Various limits on the address space: the engine computes, or reports that memory does not
/// suffice and changes nothing; OpenSM never dies of it. When the limit is raised it computes
/// again. (With nothing left at all the C library ends OpenSM: "cannot allocate memory for
/// thread-local data".)
#[test]
fn too_little_memory_is_an_error() {
    let Some(tools) = host::tools("too little memory") else { return };
    let fabric = Dragonfly::balanced(3).build().expect("a Dragonfly");
    let mut sim = Ibsim::start(tools, &net(&fabric));
    let config = Config { extra: "max_wire_smps 16\n".to_owned(), ..plugin::config("dfdn,no_fallback") };
    let mut sm = OpenSm::up(&sim, &config);
    let mut sweeps = Sweeps::of(&sm);
    assert_eq!(sweeps.settle(&mut sm), End::Up);
    let cable = format!(
        "\"S-{:016x}\"[{}]",
        fabric.switch(fabric.channels().as_slice()[0].from).guid.0,
        fabric.channels().as_slice()[0].out_port
    );
    let used = sm.address_space().expect("a running process");
    let limit = |sm: &OpenSm, kib: Option<u64>| {
        let bytes = kib.map_or("unlimited".to_owned(), |kib| (1024 * kib).to_string());
        let status = Command::new("prlimit")
            .args(["--pid", &sm.pid().to_string(), &format!("--as={bytes}:unlimited")])
            .status();
        assert!(status.expect("prlimit is part of util-linux").success());
    };
    let (mut refused, mut routed) = (0, 0);
    for (n, more) in
        [1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 192, 256].into_iter().enumerate()
    {
        limit(&sm, Some(used + 1024 * more));
        let command = if n % 2 == 0 { "Unlink" } else { "ReLink" };
        sim.commands(&[format!("{command} {cable}")]);
        match sweeps.settle(&mut sm) {
            End::Up => {
                assert!(sweeps.said().iter().any(|l| l.starts_with("DF05")), "{:?}", sweeps.said());
                routed += 1;
            }
            End::Held(said) => {
                let told =
                    said.iter().find(|l| l.starts_with("ERR DF35")).unwrap_or_else(|| panic!("{said:?}"));
                assert!(told.contains("ulimit -v") && told.contains("MiB"), "{told}");
                refused += 1;
            }
            end => panic!("with {more} MiB more: {end:?}\n{}", sm.log()),
        }
    }
    assert!(refused >= 3 && routed >= 3, "{refused} refused, {routed} routed");
    limit(&sm, None);
    // The last of them was a cut.
    sim.commands(&[format!("ReLink {cable}")]);
    assert_eq!(sweeps.settle(&mut sm), End::Up);
    assert_routed("without a limit", &sim, &fabric);
    assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
}
