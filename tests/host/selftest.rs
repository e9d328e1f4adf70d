//! The harness itself, with stock engines only.

use std::time::Duration;

use super::ibsim::Ibsim;
use super::opensm::{Config, OpenSm};
use super::readback::Readback;
use super::{ibdmchk, saquery, tools};

/// A network in ibsim's short form: `links` between switches, one adapter on port 1 of each.
fn net(switches: usize, links: &[(usize, usize)]) -> String {
    let mut ports: Vec<Vec<String>> = (0..switches).map(|s| vec![format!("\"H{s}\"[1]")]).collect();
    for &(a, b) in links {
        let (pa, pb) = (ports[a].len() + 1, ports[b].len() + 1);
        ports[a].push(format!("\"S{b}\"[{pb}]"));
        ports[b].push(format!("\"S{a}\"[{pa}]"));
    }
    let mut text = String::new();
    for (s, ports) in ports.iter().enumerate() {
        text += &format!("Hca 1 \"H{s}\"\n[1] \"S{s}\"[1]\n\nSwitch {} \"S{s}\"\n", ports.len());
        for (p, peer) in ports.iter().enumerate() {
            text += &format!("[{}] {peer}\n", p + 1);
        }
        text.push('\n');
    }
    text
}

fn ring(n: usize) -> String {
    net(n, &(0..n).map(|i| (i, (i + 1) % n)).collect::<Vec<_>>())
}

fn mesh(w: usize, h: usize) -> String {
    let across = (0..w * h).filter(|i| i % w + 1 < w).map(|i| (i, i + 1));
    let down = (0..w * (h - 1)).map(|i| (i, i + w));
    net(w * h, &across.chain(down).collect::<Vec<_>>())
}

#[test]
fn tables_read_back_are_those_that_opensm_dumped() {
    let Some(tools) = tools("read-back of stock tables") else { return };
    for (net, engine, lmc) in [(ring(6), "minhop", 0), (ring(6), "dfsssp", 1), (mesh(3, 3), "lash", 0)] {
        let sim = Ibsim::start(tools, &net);
        let mut sm = OpenSm::up(&sim, &Config { engine: engine.into(), lmc, ..Config::default() });
        let back = Readback::of(&sim);
        let dump = |name| std::fs::read_to_string(sm.path(name)).expect("OpenSM writes its dumps");
        assert_eq!(back.lfts(), dump("opensm-lfts.dump"), "{engine}");
        assert_eq!(back.sl2vl(), dump("opensm-sl2vl.dump"), "{engine}");
        assert!(back.op_vls().iter().all(|&(_, _, vls)| vls == 8), "{engine}: ibsim's ports have 8 VLs");
        assert_eq!(sm.engine_used().as_deref(), Some(engine));
        assert!(sm.engine_time().is_some_and(|t| t > Duration::ZERO && t < Duration::from_secs(60)));
        assert!(sm.peak_memory().is_some_and(|kib| kib > 1000));
        assert!(sm.alive() && sm.stop().success());
    }
}

#[test]
fn ibdmchk_finds_the_credit_loop_of_a_ring_under_minhop_and_none_in_a_line() {
    let Some(tools) = tools("ibdmchk on stock tables") else { return };
    for (net, free) in [(ring(6), false), (mesh(6, 1), true)] {
        let sim = Ibsim::start(tools, &net);
        let sm = OpenSm::up(&sim, &Config::default());
        let back = Readback::of(&sim);
        let file = |name| back.folder().join(name);
        let verdict = ibdmchk::judge(
            tools,
            &sm.path("opensm-subnet.lst"),
            &file("opensm.fdbs"),
            &file("opensm-sl2vl.dump"),
            None,
        );
        assert_eq!(verdict.deadlock_free, free, "{}", verdict.text);
        assert!(verdict.reachable, "{}", verdict.text);
    }
}

#[test]
fn the_sa_tells_the_sl_of_dfsssp() {
    let Some(tools) = tools("PathRecords by saquery") else { return };
    let sim = Ibsim::start(tools, &ring(6));
    let _sm = OpenSm::up(&sim, &Config { engine: "dfsssp".into(), ..Config::default() });
    let mut lids = adapter_lids(&Readback::of(&sim).sl2vl());
    lids.sort_unstable();
    assert_eq!(lids.len(), 6);
    let sls: Vec<Option<u8>> = lids
        .iter()
        .flat_map(|&a| lids.iter().map(move |&b| (a, b)))
        .filter(|(a, b)| a != b)
        .map(|(a, b)| saquery::path_sl(&sim, a, b))
        .collect();
    assert!(sls.iter().all(Option::is_some), "{sls:?}");
    // A ring of six has a credit loop on one layer; dfsssp spreads the paths over all layers
    // allowed.
    assert!(sls.iter().any(|&sl| sl != sls[0]), "{sls:?}");
    assert!(sls.iter().all(|&sl| sl < Some(8)), "{sls:?}");
    assert_eq!(saquery::path_sl(&sim, lids[0], 999), None);
}

fn adapter_lids(sl2vl: &str) -> Vec<u16> {
    let lid = |l: &str| l.split("base LID ").nth(1)?.split(',').next()?.parse().ok();
    sl2vl.lines().filter(|l| l.starts_with("Channel Adapter")).filter_map(lid).collect()
}

#[test]
fn a_pulled_cable_is_routed_round() {
    let Some(tools) = tools("Unlink on the simulator's console") else { return };
    let mut sim = Ibsim::start(tools, &ring(6));
    let mut sm = OpenSm::up(&sim, &Config::default());
    let up = Readback::of(&sim).op_vls().len();
    sim.command("Unlink \"S0\"[2]");
    sm.resweep();
    let back = Readback::of(&sim);
    assert_eq!(back.op_vls().len(), up - 2, "one cable, two ports");
    assert_eq!(adapter_lids(&back.sl2vl()).len(), 6);
}
