//! Multicast groups in stock OpenSM: the switches hold the parts of the trees that were proven, for the members that there
//! are.

use std::time::Duration;

use dfdn::engine::{Settings, route};
use dfdn::fabric::{Fabric, Guid, Lmc, PortNum, SwitchId};
use dfdn::formats;
use dfdn::tables::{McastGroup, Routes};
use dfdn::topology::{Dragonfly, Torus};
use dfdn::verify::verify;

use crate::host::ibsim::{Ibsim, net};
use crate::host::opensm::{Config, OpenSm};
use crate::host::readback::Readback;
use crate::host::{self, ibdmchk, mcjoin, plugin};
use crate::multicast::{fabrics, multicast};

/// OpenSM's own dump, empty until it exists.
fn dump(sm: &OpenSm) -> String {
    std::fs::read_to_string(sm.path("opensm.mcfdbs")).unwrap_or_default()
}

/// The groups that the switches hold, which OpenSM's own dump shows too.
fn held(sim: &Ibsim, sm: &OpenSm, fabric: &Fabric) -> (Fabric, Routes) {
    let back = Readback::of(sim);
    assert_eq!(sorted(&back.text("opensm.mcfdbs")), sorted(&dump(sm)));
    formats::load_tables(back.folder(), fabric.clone()).expect("the tables load")
}

/// The entries of a dump, sorted: OpenSM's order differs if it wrote the dump before the last
/// member left.
fn sorted(text: &str) -> Vec<String> {
    let mut switch = "";
    let mut list = Vec::new();
    for line in text.lines() {
        if line.starts_with("Switch") {
            switch = line;
        } else if line.starts_with("0x") {
            list.push(format!("{switch} {}", line.trim_end()));
        }
    }
    list.sort();
    list
}

/// Port GUIDs of adapters, every `step`-th.
fn adapters(fabric: &Fabric, step: usize) -> Vec<Guid> {
    fabric.adapters().map(|(_, e)| e.guid).step_by(step).collect()
}

/// What the trees in `routes` give the members.
fn expected(fabric: &Fabric, routes: &Routes, mlid: u16, sl: u8, members: &[Guid]) -> McastGroup {
    let serves = |g: &&McastGroup| g.sls.is_some_and(|sls| sls & 1 << sl != 0);
    let tree = routes.multicast.iter().find(serves).expect("a tree for the SL");
    let of = |guid: &Guid| fabric.endports().iter().find(|e| e.guid == *guid).and_then(|e| e.attachment);
    let members: Vec<_> = members.iter().filter_map(of).collect();
    McastGroup { mlid, sls: None, ports: tree.pruned(fabric, &members) }
}

/// IPoIB's broadcast group as OpenSM creates it, members that join and leave between sweeps, and a
/// link of their tree that fails.
fn check(name: &str, fabric: &Fabric, engine: &str) {
    let Some(tools) = host::tools(name) else { return };
    let mut sim = Ibsim::start(tools, &net(fabric));
    let config = plugin::config(engine);
    let mut sm = OpenSm::up(&sim, &config);
    assert_eq!(sm.engine_used().as_deref(), Some(engine), "{name}: {}", sm.log());
    sm.wait_log("multicast group 0xc000: 0 members", 1, Duration::from_secs(20));
    let settings = Settings { engine: engine.into(), ..Settings::default() };

    let all = adapters(fabric, 1);
    assert_eq!(mcjoin::join(&sim, mcjoin::BROADCAST, &all), vec![0xc000; all.len()], "{name}");
    sm.wait_log(&format!("multicast group 0xc000: {} members", all.len()), 1, Duration::from_secs(20));
    let settled = |sm: &OpenSm, count: usize| {
        let whole = || (sorted(&dump(sm)).len() >= count).then_some(());
        assert!(host::wait_for(Duration::from_secs(20), whole).is_some(), "{name}: {}", sm.log());
    };
    let (addressed, _) = formats::load_tables(Readback::of(&sim).folder(), fabric.clone()).expect("tables");
    let routed = route(&addressed, &settings).expect("it is routed").routes;
    let want = expected(&addressed, &routed, 0xc000, 0, &all);
    settled(&sm, want.ports.len());
    let (_, tables) = held(&sim, &sm, fabric);
    assert_eq!(tables.multicast, [want], "{name}: the switches hold what was proven");
    let verdict = verify(&addressed, &Routes { path_sl: routed.path_sl.clone(), ..tables });
    assert!(verdict.is_safe() && multicast(&verdict).sls & 1 == 1, "{name}: {:?}", verdict.witnesses);
    let judged = ibdmchk::judge_all(
        tools,
        &sm.path("opensm-subnet.lst"),
        &sm.path("opensm.fdbs"),
        &sm.path("opensm.mcfdbs"),
        &sm.path("opensm-sl2vl.dump"),
        Some(sm.path("psl")).filter(|p| p.exists()).as_deref(),
    );
    assert!(judged.reachable && judged.deadlock_free, "{name}: {}", judged.text);
    let looked_at = judged.text.lines().find(|l| l.contains("Multicast Group:0xC000 has:"));
    let hosts = format!("{} HCAs", all.len());
    assert!(looked_at.is_some_and(|l| l.contains(&hosts)), "{name}: {}", judged.text);
    assert!(!judged.text.contains("-E-"), "{name}: {}", judged.text);

    // All but a few leave: no sweep, and the tree shrinks to what they need.
    let stay = adapters(fabric, (all.len() / 3).max(1));
    let gone: Vec<Guid> = all.iter().copied().filter(|g| !stay.contains(g)).collect();
    mcjoin::leave(&sim, mcjoin::BROADCAST, &gone);
    let line = format!("multicast group 0xc000: {} members", stay.len());
    let before = sm.log().matches(&line).count();
    if before == 0 {
        sm.wait_log(&line, 1, Duration::from_secs(20));
    }
    let want = expected(&addressed, &routed, 0xc000, 0, &stay);
    let shrunk = || {
        let (_, tables) = formats::load_tables(Readback::of(&sim).folder(), fabric.clone()).ok()?;
        (tables.multicast == [want.clone()]).then_some(())
    };
    assert!(host::wait_for(Duration::from_secs(20), shrunk).is_some(), "{name}: {}", sm.log());

    // A link of the tree fails: the next sweep proves and programs another.
    let c = fabric.channels().as_slice().iter().find(|c| {
        let on = |s: SwitchId, p: PortNum| want.at(s).contains(p);
        on(c.from, c.out_port) && on(c.to, c.in_port) && fabric.channels().out_range(c.from).len() > 1
    });
    if let Some(c) = c {
        let name = &fabric.switch(c.from).guid.to_string()[2..];
        sim.command(&format!("Unlink \"S-{name}\"[{}]", c.out_port));
        sm.resweep();
        let safe = || {
            let (fabric, tables) = formats::load_tables(Readback::of(&sim).folder(), fabric.clone()).ok()?;
            let group = tables.multicast.first()?;
            let gone = !group.at(c.from).contains(c.out_port) && !group.at(c.to).contains(c.in_port);
            let m = verify(&fabric, &tables).multicast?;
            (gone && m.loop_free && m.reachable && group.ports.len() > 1).then_some(())
        };
        assert!(host::wait_for(Duration::from_secs(20), safe).is_some(), "{name}: {}", sm.log());
    }
    for error in ["ERR 0A03", "ERR 0A17", "ERR DF", "DF31"] {
        assert!(!sm.log().contains(error), "{name}: {error} in {}", sm.log());
    }
    assert!(sm.alive() && sm.stop().success(), "{name}: {}", sm.log());
}

#[test]
fn broadcast_on_a_dragonfly() {
    check("broadcast on a Dragonfly", &Dragonfly::balanced(2).build().expect("a Dragonfly"), "dfdn");
}

/// Nothing reads hop counts then, so none are written.
#[test]
fn broadcast_where_nothing_is_dumped() {
    let name = "broadcast without dumps";
    let Some(tools) = host::tools(name) else { return };
    let fabric = Dragonfly::balanced(2).build().expect("a Dragonfly");
    let sim = Ibsim::start(tools, &net(&fabric));
    let mut sm = OpenSm::up(&sim, &Config { dumps: false, ..plugin::config("dfdn,no_fallback") });
    sm.wait_log("multicast group 0xc000: 0 members", 1, Duration::from_secs(20));
    let all = adapters(&fabric, 1);
    assert_eq!(mcjoin::join(&sim, mcjoin::BROADCAST, &all), vec![0xc000; all.len()]);
    for sweeps in 1..=2 {
        sm.wait_log("dfdn: DF05", sweeps, Duration::from_secs(20));
        let programmed = || {
            let (addressed, held) = formats::load_tables(Readback::of(&sim).folder(), fabric.clone()).ok()?;
            let computed = route(&addressed, &Settings::default()).expect("it is routed").routes;
            let want = expected(&addressed, &computed, 0xc000, 0, &all);
            (held.lft == computed.lft && held.multicast == [want]).then_some(())
        };
        assert!(host::wait_for(Duration::from_secs(20), programmed).is_some(), "{}", sm.log());
        sm.resweep();
    }
    for error in ["ERR 0A03", "ERR 0A17", "ERR DF", "DF31"] {
        assert!(!sm.log().contains(error), "{error} in {}", sm.log());
    }
    assert!(!sm.path("opensm.fdbs").exists());
    assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
}

#[test]
fn broadcast_on_a_torus_with_several_sls() {
    check(
        "broadcast on a torus",
        &Torus { dims: vec![4, 4], cas: 1 }.build().expect("a torus"),
        "updn-trees",
    );
}

/// A group whose partition has another SL is routed by the tree of that SL.
#[test]
fn a_group_with_another_sl() {
    let Some(tools) = host::tools("a group with another SL") else { return };
    let fabric = Torus { dims: vec![4, 4], cas: 1 }.build().expect("a torus");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let partitions = folder.path().join("partitions.conf");
    std::fs::write(&partitions, "Default=0x7fff, ipoib, sl=1 : ALL=full;\n").expect("it is written");
    let extra = format!("partition_config_file {}\n", partitions.display());
    let sim = Ibsim::start(tools, &net(&fabric));
    let mut sm = OpenSm::up(&sim, &Config { extra, ..plugin::config("updn-trees") });
    let members = adapters(&fabric, 3);
    mcjoin::join(&sim, mcjoin::BROADCAST, &members);
    let line = format!("multicast group 0xc000: {} members", members.len());
    sm.wait_log(&line, 1, Duration::from_secs(20));
    let (addressed, _) = formats::load_tables(Readback::of(&sim).folder(), fabric.clone()).expect("tables");
    let settings = Settings { engine: "updn-trees".into(), ..Settings::default() };
    let routed = route(&addressed, &settings).expect("it is routed").routes;
    let want = expected(&addressed, &routed, 0xc000, 1, &members);
    let there = || {
        let (_, tables) = formats::load_tables(Readback::of(&sim).folder(), fabric.clone()).ok()?;
        (tables.multicast == [want.clone()]).then_some(())
    };
    assert!(host::wait_for(Duration::from_secs(20), there).is_some(), "{}", sm.log());
    assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
}

/// An SL that no tree serves: that group is not routed, the others are, and the log says what to
/// do.
#[test]
fn a_group_that_no_tree_serves() {
    let Some(tools) = host::tools("a group that no tree serves") else { return };
    let engine = "dfdn-paper-minhop";
    let settings = Settings { engine: engine.into(), ..Settings::default() };
    let candidates = fabrics().into_iter().filter_map(|(name, fabric)| {
        let fabric = fabric.with_lmc(Lmc::default()).expect("enough LIDs");
        let routed = route(&fabric, &settings).ok()?;
        let served = routed.verdict.multicast?.sls;
        (served != u16::MAX && fabric.num_switches() < 40).then(|| (name, fabric, (!served).trailing_zeros()))
    });
    // OpenSM may assign other LIDs, with other paths and SLs: its result counts.
    for (name, fabric, sl) in candidates {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let partitions = folder.path().join("partitions.conf");
        let text = format!("Default=0x7fff, ipoib, sl={sl} : ALL=full;\n");
        std::fs::write(&partitions, text).expect("it is written");
        let extra = format!("partition_config_file {}\n", partitions.display());
        let sim = Ibsim::start(tools, &net(&fabric));
        let mut sm = OpenSm::up(&sim, &Config { extra, ..plugin::config(engine) });
        if !sm.log().contains(&format!("has SL {sl} and no tree")) {
            continue;
        }
        mcjoin::join(&sim, mcjoin::BROADCAST, &adapters(&fabric, 2));
        sm.wait_log("ERR DF30", 2, Duration::from_secs(20));
        assert!(sm.log().contains("partitions.conf"), "{name}: {}", sm.log());
        assert_eq!(sorted(&Readback::of(&sim).text("opensm.mcfdbs")), Vec::<String>::new(), "{name}");
        assert!(sm.alive() && sm.stop().success(), "{name}: {}", sm.log());
        return;
    }
    panic!("no small fabric has an SL without a tree under {engine}");
}
