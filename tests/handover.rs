//! Two OpenSMs on one fabric: a standby takes over what a master leaves.

use std::time::Duration;

use dfdn::fabric::Fabric;
use dfdn::formats;
use dfdn::topology::{Dragonfly, Ring};
use dfdn::verify::verify;

use crate::host::ibsim::{Ibsim, net};
use crate::host::opensm::{Config, OpenSm};
use crate::host::readback::{self, Readback};
use crate::host::sweeps::{End, Sweeps};
use crate::host::{self, Tools, plugin, saquery};

/// How a master ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takeover {
    /// SIGKILL while nothing happens.
    Killed,
    /// SIGKILL during a sweep that a cut cable caused.
    KilledInASweep,
    /// A master of higher priority starts and takes over the subnet.
    HandedOver,
}

/// Shortens the default waits of a standby, 50 s in total.
/// Uses a library that keeps time as the kernel does: on a busy machine the simulator may lose a
/// request between two subnet managers, and OpenSM would wait for it forever.
fn config(engine: &str, priority: u8) -> Config {
    let extra = format!("sm_priority {priority}\nsminfo_polling_timeout 300\npolling_retry_number 2\n");
    let timeouts = readback::compile_shared("timeouts").expect("a C compiler");
    let loader = "/lib64/ld-linux-x86-64.so.2".to_owned();
    let under = vec![loader, "--preload".to_owned(), timeouts.display().to_string()];
    Config { engine: format!("{engine},no_fallback"), extra, under, ..plugin::config(engine) }
}

/// SLs of some pairs, as the SA reports them.
fn sls(sim: &Ibsim, fabric: &Fabric) -> Vec<Option<u8>> {
    let lids: Vec<u16> = fabric.adapters().map(|(_, e)| e.lid.get()).collect();
    let pairs = lids.iter().flat_map(|&a| lids.iter().map(move |&b| (a, b))).filter(|(a, b)| a != b);
    let all: Vec<_> = pairs.collect();
    all.iter().step_by((all.len() / 30).max(1)).map(|&(a, b)| saquery::path_sl(sim, a, b)).collect()
}

/// The state of switches and SA.
struct Held {
    tables: [String; 3],
    sls: Vec<Option<u8>>,
    fabric: Fabric,
}

fn held(what: &str, sim: &Ibsim, fabric: &Fabric) -> Held {
    let back = Readback::of(sim);
    let (fabric, routes) = formats::load_tables(back.folder(), fabric.clone()).expect("the tables load");
    let verdict = verify(&fabric, &routes);
    assert!(verdict.reachable && verdict.loop_free, "{what}: {:?}", verdict.witnesses);
    let sls = sls(sim, &fabric);
    assert!(sls.iter().all(Option::is_some), "{what}: {sls:?}");
    Held { tables: [back.lfts(), back.sl2vl(), back.text("vlarb")], sls, fabric }
}

fn take_over(tools: &'static Tools, fabric: &Fabric, engine: &str, takeover: Takeover) {
    let what = format!("{engine}, {takeover:?}");
    let mut sim = Ibsim::start(tools, &net(fabric));
    let hosts: Vec<String> = net(fabric)
        .lines()
        .filter(|l| l.starts_with("Ca"))
        .filter_map(|l| l.split('"').nth(1).map(str::to_owned))
        .collect();
    let far = &hosts[hosts.len() / 2];
    let mut master = OpenSm::start(&sim, &config(engine, 8));
    let mut sweeps = Sweeps::of(&master);
    assert_eq!(sweeps.rest(&mut master, 0), End::Up, "{what}: {}", master.log());
    let priority = if takeover == Takeover::HandedOver { 12 } else { 4 };
    let before = sweeps.started();
    let mut standby = None;
    if takeover != Takeover::HandedOver {
        let mut sm = OpenSm::start_on(&sim, far, &config(engine, priority));
        sm.wait_log("ENTERING STANDBY STATE", 1, Duration::from_secs(20));
        // It has announced itself to the master, which makes the master sweep.
        sweeps.rest(&mut master, before);
        standby = Some(sm);
    }
    // The standby has not seen what the master has.
    let cable = net(fabric).lines().filter(|l| l.starts_with("Switch")).nth(1).map(|l| {
        let switch = l.split('"').nth(1).expect("a name");
        let ports: u8 = l.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("its ports");
        format!("\"{switch}\"[{ports}]")
    });
    let cable = cable.expect("a second switch");
    sim.commands(&[format!("Unlink {cable}")]);
    assert_eq!(sweeps.settle(&mut master), End::Up, "{what}: {}", master.log());
    sim.commands(&[format!("ReLink {cable}")]);
    assert_eq!(sweeps.settle(&mut master), End::Up, "{what}: {}", master.log());
    let before = held(&what, &sim, fabric);

    let mut standby = match takeover {
        Takeover::Killed => {
            master.kill();
            standby.expect("it was started")
        }
        Takeover::KilledInASweep => {
            let begun = master.log().matches("INITIATING HEAVY SWEEP").count();
            sim.commands(&[format!("Unlink {cable}")]);
            master.wait_log("INITIATING HEAVY SWEEP", begun + 1, Duration::from_secs(20));
            master.kill();
            sim.commands(&[format!("ReLink {cable}")]);
            standby.expect("it was started")
        }
        Takeover::HandedOver => OpenSm::start_on(&sim, far, &config(engine, priority)),
    };
    standby.wait_log("ENTERING SM MASTER STATE", 1, Duration::from_secs(30));
    let mut sweeps = Sweeps::of(&standby);
    assert_eq!(sweeps.rest(&mut standby, 0), End::Up, "{what}: {}", standby.log());
    assert!(sweeps.defects.is_empty(), "{what}: {:?}", sweeps.defects);
    assert_eq!(standby.engine_used().as_deref(), Some(engine), "{what}: {}", standby.log());
    standby.wait_log("dfdn: DF05", 1, Duration::from_secs(10));
    let after = held(&what, &sim, &before.fabric);
    for (name, (a, b)) in
        ["LFT blocks", "SL2VL rows", "VL arbitration"].iter().zip(before.tables.iter().zip(&after.tables))
    {
        assert!(a == b, "{what}: {name} have changed");
    }
    assert_eq!(before.sls, after.sls, "{what}: SLs that were assigned before");
    if engine != "dfdn" {
        assert!(
            after.sls.iter().any(|sl| *sl != after.sls[0]),
            "{what}: several SLs, so that they could change"
        );
    }
    assert!(standby.alive() && standby.stop().success(), "{what}: {}", standby.log());
}

#[test]
fn a_standby_takes_over_from_a_master_that_was_killed_and_changes_nothing() {
    let Some(tools) = host::tools("handover") else { return };
    let dragonfly = Dragonfly::balanced(2).build().expect("a Dragonfly");
    let ring = Ring { switches: 9, cas: 1 }.build().expect("a ring");
    take_over(tools, &dragonfly, "dfdn", Takeover::Killed);
    take_over(tools, &ring, "dfdn-paper", Takeover::Killed);
    take_over(tools, &ring, "dfdn-paper", Takeover::KilledInASweep);
}

#[test]
fn a_master_of_higher_priority_takes_over_and_changes_nothing() {
    let Some(tools) = host::tools("handover by priority") else { return };
    let ring = Ring { switches: 9, cas: 1 }.build().expect("a ring");
    take_over(tools, &ring, "dfdn-paper", Takeover::HandedOver);
}
