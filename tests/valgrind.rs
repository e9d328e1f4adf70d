//! OpenSM with the plugin under valgrind: no errors of ours, and no growing memory.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use dfdn::topology::{Dragonfly, Torus};

use crate::host::ibsim::{Ibsim, net};
use crate::host::opensm::{Config, OpenSm};
use crate::host::sweeps::{End, Sweeps};
use crate::host::{self, plugin};

/// The errors in a valgrind report with a frame in our library, as XML elements.
fn ours(report: &str) -> Vec<String> {
    let errors = report.split("<error>").skip(1).filter_map(|rest| rest.split("</error>").next());
    errors.filter(|error| error.contains("libdfdn.so</obj>")).map(str::to_owned).collect()
}

/// Cuts and restores a link `cycles` times under a valgrind tool; returns its report after OpenSM
/// has ended.
fn under_valgrind(options: &[&str], cycles: usize) -> String {
    let tools = host::tools("valgrind").expect("asked before");
    let fabric = Torus { dims: vec![3, 3], cas: 1 }.build().expect("a torus");
    let mut sim = Ibsim::start(tools, &net(&fabric));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("report.xml");
    let mut under =
        vec!["valgrind".to_owned(), "--xml=yes".to_owned(), format!("--xml-file={}", file.display())];
    under.extend(options.iter().map(|&o| o.to_owned()));
    // Several SLs and psl, occasional refusals, messages: as much of the plugin as possible.
    let config = Config { under, lmc: 1, ..plugin::config("dfdn-paper,no_fallback") };
    let mut sm = OpenSm::start(&sim, &config);
    let mut sweeps = Sweeps::of(&sm);
    assert_eq!(sweeps.rest(&mut sm, 0), End::Up, "{}", sm.log());
    let cable = fabric.channels().as_slice()[0];
    let cable = format!("\"S-{:016x}\"[{}]", fabric.switch(cable.from).guid.0, cable.out_port);
    let asked = tempfile::NamedTempFile::new().expect("a temporary file");
    // Pairs of adapters by LID, with any SL: the test is about how they are answered.
    std::fs::write(asked.path(), "10 12 ffff\n12 14 ffff\n16 10 ffff\n").expect("the pairs are written");
    let other = fabric.nodes().iter().rfind(|n| !n.is_switch()).expect("an adapter").guid;
    let paths = sim.paths().to_owned();
    let mut client = sim.run_on(&format!("H-{:016x}", other.0), &[], &paths);
    client.arg(asked.path()).arg("300").stdout(Stdio::null()).stderr(Stdio::null());
    let mut client = client.spawn().expect("paths starts");
    for _ in 0..cycles {
        for command in ["Unlink", "ReLink"] {
            sim.commands(&[format!("{command} {cable}")]);
            assert_eq!(sweeps.settle(&mut sm), End::Up, "{}", sm.log());
        }
    }
    client.wait().expect("paths ends");
    assert!(sweeps.defects.is_empty(), "{:?}", sweeps.defects);
    assert!(sm.stop().success(), "{}", sm.output());
    std::fs::read_to_string(&file).expect("valgrind writes its report")
}

fn valgrind() -> bool {
    let found = Path::new("/usr/bin/valgrind").exists();
    if !found {
        let required = std::env::var_os("DFDN_REQUIRE_VALGRIND").is_some_and(|v| v == "1");
        assert!(!required, "there is no valgrind, and DFDN_REQUIRE_VALGRIND=1 forbids to skip");
        eprintln!("skipped: there is no valgrind");
    }
    found
}

/// How many times the fabric changes under valgrind: a few, or as `ci/sanitize` says.
fn cycles() -> usize {
    std::env::var("DFDN_VALGRIND_CYCLES").ok().and_then(|v| v.parse().ok()).unwrap_or(5)
}

#[test]
fn memcheck_finds_nothing_of_ours() {
    let Some(_) = host::tools("memcheck") else { return };
    if !valgrind() {
        return;
    }
    let report =
        under_valgrind(&["--tool=memcheck", "--leak-check=full", "--show-leak-kinds=definite"], cycles());
    assert!(report.contains("<state>FINISHED</state>"), "{report}");
    let found = ours(&report);
    assert!(found.is_empty(), "{} errors of ours, first {}", found.len(), found[0]);
    // The same report has errors that are not ours, otherwise valgrind saw nothing at all.
    assert!(report.contains("<tool>memcheck</tool>") && report.contains("opensm"), "{report}");
}

/// The allocator's memory must not grow with the number of sweeps: measured in one OpenSM over two
/// hundred of them, after twenty to warm up.
#[test]
fn two_hundred_sweeps_take_no_memory() {
    let Some(tools) = host::tools("growth") else { return };
    let fabric = Dragonfly::balanced(2).build().expect("a Dragonfly");
    let mut sim = Ibsim::start(tools, &net(&fabric));
    // Freed memory is returned at once, so that resident memory is memory in use.
    let env =
        vec![("MALLOC_ARENA_MAX".to_owned(), "1".into()), ("MALLOC_TRIM_THRESHOLD_".to_owned(), "0".into())];
    let mut sm = OpenSm::start(&sim, &Config { env, ..plugin::config("dfdn-paper,no_fallback") });
    let mut sweeps = Sweeps::of(&sm);
    assert_eq!(sweeps.rest(&mut sm, 0), End::Up);
    let cable = fabric.channels().as_slice()[0];
    let cable = format!("\"S-{:016x}\"[{}]", fabric.switch(cable.from).guid.0, cable.out_port);
    let mut measured = Vec::new();
    for n in 0..220 {
        let command = if n % 2 == 0 { "Unlink" } else { "ReLink" };
        sim.commands(&[format!("{command} {cable}")]);
        assert_eq!(sweeps.settle(&mut sm), End::Up, "{}", sm.log());
        if n % 20 == 19 {
            measured.push(sm.memory().expect("a running process"));
        }
    }
    sm.wait_log("dfdn: DF05", 220, Duration::from_secs(5));
    let (early, late) = (measured[0], measured[measured.len() - 1]);
    eprintln!("resident KiB after each 20 of 220 sweeps: {measured:?}");
    // The SL2VL rows of this fabric alone are 23 KiB: one leaked copy per sweep would be 4.6 MiB.
    assert!(late < early + 1024, "{measured:?}");
    assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
}

/// The library in which a stack works: `ours`, or OpenSM's.
fn side(stack: &str) -> Option<bool> {
    let objects = stack.split("<obj>").skip(1).filter_map(|rest| rest.split("</obj>").next());
    objects.into_iter().find_map(|object| {
        let name = object.rsplit('/').next().unwrap_or(object);
        if name == "libdfdn.so" {
            Some(true)
        } else if name.starts_with("opensm") || name.starts_with("libosm") {
            Some(false)
        } else {
            None
        }
    })
}

/// Races between the plugin and OpenSM: two accesses to the same memory, one in code of each side,
/// without a lock between them. Helgrind knows locks but no atomics, so it reports every hand-over
/// between rayon's threads as a race; races within our code are excluded, as it is safe Rust.
///
/// This tests the lock that OpenSM holds around the callbacks and that the plugin takes for
/// `report`. PathRecords are queried meanwhile, so that the SA's threads call too.
#[test]
fn helgrind_finds_no_race_with_opensm() {
    let Some(_) = host::tools("helgrind") else { return };
    if !valgrind() {
        return;
    }
    // Which access Helgrind names beside one of ours is random if the true one is by a thread of
    // rayon, whose end it does not see: a missing lock shows in each run.
    let mut runs = 0;
    loop {
        runs += 1;
        let report = under_valgrind(&["--tool=helgrind", "--history-level=full"], cycles().min(20));
        assert!(report.contains("<state>FINISHED</state>"), "{report}");
        let all = ours(&report);
        let with_opensm: Vec<&String> = all.iter().filter(|error| is_with_opensm(error)).collect();
        eprintln!("{} reports, {} of them with OpenSM on the other side", all.len(), with_opensm.len());
        if with_opensm.is_empty() {
            return;
        }
        assert!(runs < 3, "{}", with_opensm[0]);
    }
}

/// Whether a report is about an access of ours and one of OpenSM's.
fn is_with_opensm(error: &str) -> bool {
    // Threads of rayon compute, and write LFTs and hops. They start and end within a callback,
    // while OpenSM waits; Helgrind does not see what they hand to each other.
    if error.contains("rayon_core::") {
        return false;
    }
    // The C library atomically counts the threads that have thread-local data to destroy in the
    // library they come from, next to data that the dynamic linker reads.
    if error.contains("<fn>__cxa_thread_atexit_impl</fn>") {
        return false;
    }
    // OpenSM is never given memory that the plugin allocated. Then Helgrind names an access from
    // before the allocation, as the allocating thread was one of rayon's.
    if error.split_once("alloc'd</auxwhat>").and_then(|(_, stack)| side(stack)) == Some(true) {
        return false;
    }
    // LFTs are written by threads of rayon, and by OpenSM when a switch acknowledges a block.
    if error.contains("<fn>osm_switch_prepare_path_rebuild</fn>") && !error.contains("osm_lft_rcv") {
        return false;
    }
    // At SIGHUP, OpenSM's main thread sets the flag for a heavy sweep without any lock. So does the plugin.
    // Both only ever set it.
    if error.contains("<fn>osm_manager_loop</fn>") {
        return false;
    }
    let sides: Vec<bool> = error.split("<stack>").skip(1).filter_map(side).collect();
    sides.contains(&true) && sides.contains(&false)
}
