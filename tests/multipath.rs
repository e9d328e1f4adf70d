//! Several LIDs an adapter: inside OpenSM, and at the desk.

use std::fmt::Write as _;

use dfdn::engine::{self, Routed, Settings};
use dfdn::evaluate::Multipath;
use dfdn::fabric::{EndPort, Fabric};
use dfdn::formats;
use dfdn::topology::{Dragonfly, SlimFly};
use dfdn::verify::verify;

use crate::host::ibsim::{Ibsim, net};
use crate::host::opensm::{Config, OpenSm};
use crate::host::{self, ibdmchk, plugin};
use crate::plugin::{assert_programmed, read_back};

/// All pairs of LIDs of different adapters, as `tests/tools/paths.c` reads them; any SL may be assigned.
fn pairs(fabric: &Fabric) -> (String, usize) {
    let (mut text, mut count) = (String::new(), 0);
    let ends: Vec<&EndPort> = fabric.adapters().map(|(_, end)| end).collect();
    for (from, to) in
        ends.iter().flat_map(|a| ends.iter().map(move |b| (a, b))).filter(|(a, b)| a.lid != b.lid)
    {
        for (slid, dlid) in from.lids().flat_map(|slid| to.lids().map(move |dlid| (slid, dlid))) {
            writeln!(text, "{slid} {dlid} ffff").expect("a string takes everything");
            count += 1;
        }
    }
    (text, count)
}

/// OpenSM assigns the LIDs, switches hold the computed tables, both judges accept them, and the SA has a path for each
/// pair of LIDs.
fn check(name: &str, fabric: &Fabric, lmc: u8) {
    let Some(tools) = host::tools(name) else { return };
    let sim = Ibsim::start(tools, &net(fabric));
    let mut sm = OpenSm::up(&sim, &Config { lmc, ..plugin::config("dfdn,no_fallback") });
    assert_eq!(sm.engine_used().as_deref(), Some("dfdn"), "{name}: not a silent minhop\n{}", sm.log());
    sm.wait_log("dfdn: DF05", 1, std::time::Duration::from_secs(20));
    assert!(!sm.log().contains("ERR DF"), "{name}: {}", sm.log());

    let (with_lids, read) = read_back(&sim, &sm, fabric);
    assert!(with_lids.adapters().all(|(_, end)| end.lmc.get() == lmc), "{name}: LMC {lmc}");
    let Routed { routes, .. } = engine::route(&with_lids, &Settings::default()).expect("it can be routed");
    assert_programmed(name, &with_lids, &read, &routes);
    let verdict = verify(&with_lids, &dfdn::tables::Routes { path_sl: routes.path_sl.clone(), ..read });
    assert!(verdict.is_safe() && verdict.sls == 1, "{name}: {:?}", verdict.witnesses);
    let found = Multipath::new(&with_lids, &routes).expect("sound tables");
    let two = |class: &dfdn::evaluate::Distance| class.disjoint.get(1).copied().unwrap_or(0.0);
    assert!(
        found.lids == 1 << lmc && found.distances.iter().any(|class| two(class) > 0.3),
        "{name}: {found:?}"
    );

    // Base LIDs are routed as with LMC 0. The other judge takes no other LIDs.
    let one = engine::route(fabric, &Settings::default()).expect("it can be routed").routes;
    for (a, b) in fabric.endports().iter().zip(with_lids.endports()) {
        assert_eq!(one.lft.to(a.lid), routes.lft.to(b.lid), "{name}: {}", fabric.describe(a.node));
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    formats::write_tables(folder.path(), fabric, &one, formats::WriteOptions::default())
        .expect("tables are written");
    let file = |name: &str| folder.path().join(name);
    let judged = ibdmchk::judge(tools, &file("opensm-subnet.lst"), &file("opensm.fdbs"), &file("slvl"), None);
    assert!(judged.reachable && judged.deadlock_free, "{name}: {}", judged.text);

    let (queries, count) = pairs(&with_lids);
    let file = folder.path().join("pairs");
    std::fs::write(&file, queries).expect("the pairs are written");
    let output = sim.run(&[], sim.paths()).arg(&file).arg(count.to_string()).output().expect("paths starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let all = format!("answered {count} wrong 0 none 0 silent 0");
    assert!(text.contains(&all), "{name}: {count} pairs: {text}");
    assert!(sm.alive() && sm.stop().success(), "{name}: OpenSM ends in good order\n{}", sm.log());
}

#[test]
fn a_dragonfly_with_two_lids() {
    check("LMC 1", &Dragonfly::balanced(1).build().expect("a Dragonfly"), 1);
}

#[test]
fn a_slim_fly_with_four_lids() {
    check("LMC 2", &SlimFly { q: 3, cas: Some(1) }.build().expect("a Slim Fly"), 2);
}

#[test]
fn a_slim_fly_with_eight_lids() {
    check("LMC 3", &SlimFly { q: 3, cas: Some(1) }.build().expect("a Slim Fly"), 3);
}
