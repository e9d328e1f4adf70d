//! Packets that are followed together, or not at all: what differs between them is found.

use super::{Build, around, check, port_to, ring, routes, tables};
use crate::fabric::{FabricBuilder, LinkState, Lmc, NodeId, PortNum, SwitchId, Vl};
use crate::tables::{Lft, PathSl, Routes, SlVlRow};
use crate::topology::Torus;
use crate::verify::{SlPolicy, destinations, verify};

/// Between the two adapters there are switches without one. The packets in one direction pass the switches in falling
/// order, and use another VL at the end.
#[test]
fn vls_of_adapters_are_found_over_any_number_of_hops() {
    let mut b = Build::new(4);
    (0..3).for_each(|s| b.cable(s, s + 1));
    b.adapter(0);
    b.adapter(3);
    let f = b.finish(0);
    for (s, from, to) in [(1, 2, 0), (2, 1, 3)] {
        let mut r = routes(&f, tables(&f, |_| 0, true));
        r.sl2vl.set(SwitchId::at(s), port_to(&f, s, from), port_to(&f, s, to), SlVlRow::uniform(Vl(1)));
        let v = check(&f, &r, SlPolicy::AsTold);
        assert!(v.is_safe() && (v.vls, v.vls_all) == (2, 2));
    }
}

/// A switch without end ports has no entries.
#[test]
fn nobody_sends_at_a_switch_without_end_ports() {
    let mut b = FabricBuilder::from_fabric(&ring(3, [0, 1], 0));
    b.node_mut(NodeId(2)).ports[0].state = LinkState::Down;
    let f = b.finish(Lmc::default()).unwrap();
    let mut r = routes(&f, tables(&f, |_| 0, true));
    destinations(&f).iter().for_each(|d| r.lft.clear(SwitchId(2), d.lid));
    assert!(f.endports_on(SwitchId(2)).is_empty() && check(&f, &r, SlPolicy::AsTold).is_safe());
}

/// Copies that two adapters send to groups wait for each other around a ring, behind several switches without end ports.
#[test]
fn a_copy_that_waits_comes_from_an_end_port() {
    let mut b = FabricBuilder::from_fabric(&ring(6, [0, 3], 0));
    for s in [1, 2, 4, 5] {
        b.node_mut(NodeId(s)).ports[0].state = LinkState::Down;
    }
    let f = b.finish(Lmc::default()).unwrap();
    let mut r = routes(&f, Lft::new(&f));
    r.multicast = [0, 3].map(|s| around(&f, s, 4, Some(1))).to_vec();
    let v = check(&f, &r, SlPolicy::AsTold);
    assert!(v.deadlock_free && v.multicast.is_some_and(|m| !m.deadlock_free && m.sls == 0));
}

/// Packets to several LIDs take the same way with the same SLs, which is followed once. Each fault of one of them is
/// found.
#[test]
fn equal_lids_differ_at_their_switch() {
    let mut b = Build::new(2);
    b.cable(0, 1);
    for s in [0, 1, 1] {
        b.adapter(s);
    }
    let f = b.finish(0);
    let good = Routes { path_sl: PathSl::by_switch(&f), ..routes(&f, tables(&f, |_| 0, true)) };
    assert!(check(&f, &good, SlPolicy::AsTold).is_safe());
    let on = |s: usize| destinations(&f).into_iter().filter(move |d| d.root == s);
    for d in on(1) {
        let mut dropped = good.clone();
        dropped.sl2vl.set(SwitchId(1), PortNum(1), PortNum(d.port), SlVlRow::uniform(Vl(15)));
        assert!(!check(&f, &dropped, SlPolicy::AsTold).reachable);
        for other in on(1).filter(|other| other.lid != d.lid) {
            let mut wrong = good.clone();
            wrong.lft.clear(SwitchId(1), d.lid);
            wrong.lft.set(SwitchId(1), other.lid, PortNum(1));
            assert!(!check(&f, &wrong, SlPolicy::AsTold).loop_free);
        }
    }
    // The entries for a LID on the other switch.
    for (a, b) in on(0).flat_map(|a| on(1).map(move |b| (a, b))) {
        let mut wrong = good.clone();
        wrong.lft.to_mut(b.lid).copy_from_slice(good.lft.to(a.lid));
        assert!(!check(&f, &wrong, SlPolicy::AsTold).reachable);
    }
}

/// All LIDs of a torus' switch have the same paths, which are followed once. A fault of one of them is found.
#[test]
fn a_fault_of_one_of_several_equal_lids_is_found() {
    let f = Torus { dims: vec![7, 7], cas: 3 }.build().unwrap();
    let routed = crate::engine::route(&f, &crate::engine::Settings::default()).unwrap();
    assert!(routed.verdict.is_safe() && routed.verdict.sls == 4);
    for (_, end) in f.adapters().take(6) {
        let (home, port) = end.attachment.unwrap();
        let ring = |s: SwitchId| f.channels().out(s).next().unwrap().1.out_port;
        // At home, to the wrong port; elsewhere, around a ring for ever.
        let mut wrong = routed.routes.clone();
        wrong.lft.set(home, end.lid, ring(home));
        assert!(!verify(&f, &wrong).reachable, "{home:?} {port}");
        let mut wrong = routed.routes.clone();
        for s in f.switch_ids().filter(|&s| s != home) {
            wrong.lft.set(s, end.lid, ring(s));
        }
        assert!(!verify(&f, &wrong).loop_free, "{home:?} {port}");
    }
    let table = vec![0; f.lid_table_len() * f.num_switches()];
    let one_sl = Routes { path_sl: PathSl::BySwitch(table), ..routed.routes };
    assert!(!verify(&f, &one_sl).deadlock_free, "without datelines the rings are cycles");
}
