//! Small fabrics drawn by hand; [`random`] has random ones. A slow reference judges each of them too.

mod common;
mod compare;
mod mixture;
mod random;
mod reference;
mod sets;
mod ways;

use super::*;
use crate::fabric::{FabricBuilder, Guid, LinkState, Lmc, Node, NodeId, NodeKind, PortRef};
use crate::tables::{Lft, McastGroup, PathSl, PortSet};

/// Switches with 12 ports, and adapters; cables use the next free port at either end.
struct Build {
    builder: FabricBuilder,
    switches: Vec<crate::fabric::NodeId>,
    free: Vec<u8>,
    adapters: u64,
}

impl Build {
    fn new(switches: usize) -> Self {
        Self::with_ports(switches, |_| 12)
    }

    fn with_ports(switches: usize, ports: impl Fn(usize) -> u8) -> Self {
        let mut builder = FabricBuilder::new();
        let ids = (0..switches).map(|s| {
            let name = format!("S{s}");
            builder.add(Node::new(NodeKind::Switch, Guid(0x100 + s as u64), ports(s), &name)).unwrap()
        });
        let switches: Vec<_> = ids.collect();
        Self { free: vec![1; switches.len()], builder, switches, adapters: 0 }
    }

    fn port(&mut self, s: usize) -> PortRef {
        self.free[s] += 1;
        PortRef { node: self.switches[s], port: PortNum(self.free[s] - 1) }
    }

    fn cable(&mut self, a: usize, b: usize) {
        let (a, b) = (self.port(a), self.port(b));
        self.builder.connect(a, b).unwrap();
    }

    fn adapter(&mut self, s: usize) {
        let guid = Guid(0x1000 + 0x10 * self.adapters);
        let name = format!("H{}", self.adapters);
        self.adapters += 1;
        let node = self.builder.add(Node::new(NodeKind::ChannelAdapter, guid, 1, &name)).unwrap();
        let port = self.port(s);
        self.builder.connect(port, PortRef { node, port: PortNum(1) }).unwrap();
    }

    fn finish(self, lmc: u8) -> Fabric {
        self.builder.finish(Lmc::new(lmc).unwrap()).unwrap()
    }
}

/// A ring with its cables in order and an adapter on each switch of `with`.
fn ring(switches: usize, with: impl IntoIterator<Item = usize>, lmc: u8) -> Fabric {
    let mut b = Build::new(switches);
    (0..switches).for_each(|s| b.cable(s, (s + 1) % switches));
    with.into_iter().for_each(|s| b.adapter(s));
    b.finish(lmc)
}

fn routes(fabric: &Fabric, lft: Lft) -> Routes {
    Routes::on_one_vl("test", fabric, lft)
}

/// A tree for each LID, breadth first: `choose` picks among the reachable switches.
fn tables(fabric: &Fabric, mut choose: impl FnMut(usize) -> usize, minimal: bool) -> Lft {
    let mut lft = Lft::new(fabric);
    for d in destinations(fabric) {
        let root = SwitchId::at(d.root);
        lft.set(root, d.lid, PortNum(d.port));
        let mut inside: Vec<bool> = vec![false; fabric.num_switches()];
        inside[d.root] = true;
        let mut front = vec![root];
        while !front.is_empty() {
            let mut edges: Vec<_> = front
                .iter()
                .flat_map(|&s| fabric.channels().out(s))
                .map(|(_, c)| (c.to, c.in_port))
                .filter(|(to, _)| !inside[to.index()])
                .collect();
            if !minimal {
                // Switches join one at a time, next to any switch of the tree: any tree is possible.
                if edges.is_empty() {
                    break;
                }
                let (s, port) = edges[choose(edges.len())];
                lft.set(s, d.lid, port);
                inside[s.index()] = true;
                front.push(s);
                continue;
            }
            front.clear();
            while !edges.is_empty() {
                let (s, port) = edges.swap_remove(choose(edges.len()));
                if !inside[s.index()] {
                    lft.set(s, d.lid, port);
                    inside[s.index()] = true;
                    front.push(s);
                }
            }
        }
    }
    lft
}

/// On a ring: always the cable to the next switch.
fn clockwise(fabric: &Fabric) -> Lft {
    let n = fabric.num_switches();
    let mut lft = Lft::new(fabric);
    for d in destinations(fabric) {
        for s in fabric.switch_ids() {
            let out = port_to(fabric, s.index(), (s.index() + 1) % n);
            lft.set(s, d.lid, if s.index() == d.root { PortNum(d.port) } else { out });
        }
    }
    lft
}

/// On a ring: a group whose packets take some cables one after the other, the first from this switch to the next.
fn around(fabric: &Fabric, first: usize, cables: usize, sls: Option<u16>) -> McastGroup {
    let n = fabric.num_switches();
    let mut ports: Vec<(SwitchId, PortSet)> = (first..first + cables)
        .map(|s| {
            let mut set = PortSet::default();
            set.insert(port_to(fabric, s % n, (s + 1) % n));
            (SwitchId::at(s % n), set)
        })
        .collect();
    ports.sort_unstable_by_key(|&(s, _)| s);
    McastGroup { mlid: McastGroup::FIRST_MLID + first as u16, sls, ports }
}

/// The first port of a switch to another one.
fn port_to(fabric: &Fabric, from: usize, to: usize) -> PortNum {
    let mut out = fabric.channels().out(SwitchId::at(from));
    out.find(|(_, c)| c.to.index() == to).unwrap().1.out_port
}

fn adapter_lid(fabric: &Fabric, i: usize) -> Lid {
    fabric.adapters().nth(i).unwrap().1.lid
}

/// The judge's verdict, compared with the reference.
fn check(f: &Fabric, r: &Routes, policy: SlPolicy) -> Verdict {
    compare::compare(f, r, policy, Sizes::default())
}

fn credit_loop(v: &Verdict) -> &[Wait] {
    let found = v.witnesses.iter().find_map(|w| match w {
        Witness::CreditLoop(waits) => Some(waits),
        _ => None,
    });
    found.expect("a credit loop")
}

/// The turns of the first switch are at the beginning of the graph.
#[test]
fn the_turns_of_a_small_first_switch_are_looked_at() {
    for n in 3..8 {
        let mut b = Build::with_ports(n, |s| if s == 0 { 2 } else { 12 });
        (0..n).for_each(|s| b.cable(s, (s + 1) % n));
        (1..n).for_each(|s| b.adapter(s));
        let f = b.finish(0);
        let v = check(&f, &routes(&f, clockwise(&f)), SlPolicy::AsTold);
        assert!(!v.deadlock_free && v.loop_free);
        assert_eq!((v.virtual_channels, v.dependencies, v.cyclic_components), (n, n, 1));
    }
}

#[test]
fn a_ring_on_one_vl_has_a_credit_loop() {
    let f = ring(6, 0..6, 0);
    let r = routes(&f, clockwise(&f));
    let v = check(&f, &r, SlPolicy::AsTold);
    assert!(!v.deadlock_free && v.reachable && v.loop_free && !v.minimal && !v.is_safe());
    let waits = credit_loop(&v);
    assert_eq!(waits.len(), 6);
    assert!(waits.iter().all(|w| f.endport(w.packet.source).is_adapter()));
    assert_eq!((v.max_hops, v.diameter, v.vls, v.sls, v.pairs), (5, 3, 1, 1, 30));
    assert_eq!((v.virtual_channels, v.dependencies, v.cyclic_components), (6, 6, 1));
    let text = v.witness().unwrap().explain(&f);
    assert!(text.contains("'S0' (0x0000000000000100) port 1 -> 'S1'") && text.contains("waits for"));
    let json = v.to_json(&f);
    assert_eq!(json["witness"]["waits"].as_array().unwrap().len(), 6);
    assert_eq!(json["deadlock_free"], false);
}

#[test]
fn a_vl_raise_after_the_first_hop_breaks_it() {
    // Shortest paths on a ring of 5 have at most two hops: VL 0, then VL 1 (DF-D2).
    let f = ring(5, 0..5, 0);
    let mut r = routes(&f, tables(&f, |_| 0, true));
    assert!(!check(&f, &r, SlPolicy::AsTold).deadlock_free);
    for c in f.channels().as_slice() {
        for out in 0..13 {
            r.sl2vl.set(c.to, c.in_port, PortNum(out), SlVlRow::uniform(Vl(1)));
        }
    }
    for policy in [SlPolicy::AsTold, SlPolicy::Any, SlPolicy::Fixed(Sl(7)), SlPolicy::WithReplies] {
        let v = check(&f, &r, policy);
        assert!(v.is_safe() && v.minimal && v.witnesses.is_empty());
        assert_eq!((v.vls, v.sls, v.max_hops), (2, 1, 2));
    }
}

#[test]
fn a_vl_beyond_the_link_is_illegal() {
    let mut b = FabricBuilder::from_fabric(&ring(5, 0..5, 0));
    b.node_mut(crate::fabric::NodeId(2)).ports[1].data_vls = Some(1);
    let f = b.finish(Lmc::default()).unwrap();
    let mut r = routes(&f, tables(&f, |_| 0, true));
    assert!(check(&f, &r, SlPolicy::AsTold).vls_legal);
    r.sl2vl.rows_mut().fill(SlVlRow::uniform(Vl(1)));
    let v = check(&f, &r, SlPolicy::AsTold);
    assert!(!v.vls_legal && !v.is_safe());
}

#[test]
fn what_a_left_out_switch_sends_must_be_dropped() {
    let mut b = FabricBuilder::from_fabric(&ring(5, 0..5, 0));
    let free = (1..).find(|&p| b.node(NodeId(2)).ports[p].peer.is_none()).unwrap();
    b.node_mut(NodeId(2)).ports[free].untrusted = true;
    let f = b.finish(Lmc::default()).unwrap();
    let s = f.switch_of(NodeId(2)).unwrap();
    let mut r = routes(&f, tables(&f, |_| 0, false));
    let v = check(&f, &r, SlPolicy::AsTold);
    assert!(!v.contained && !v.is_safe());
    let foreign = |w: &&Witness| matches!(w, Witness::Foreign { at, sl: Sl(0), .. } if *at == s);
    assert_eq!(v.witnesses.iter().filter(foreign).count(), 1);
    let outs: Vec<PortNum> = f.channels().out(s).map(|(_, c)| c.out_port).collect();
    for &out in &outs {
        r.sl2vl.set(s, PortNum(free as u8), out, SlVlRow::uniform(Vl(15)));
    }
    assert!(check(&f, &r, SlPolicy::AsTold).contained);
    // One SL towards one port is enough.
    let row = SlVlRow::uniform(Vl(15)).with(Sl(9), Vl(1));
    r.sl2vl.set(s, PortNum(free as u8), outs[1], row);
    let v = check(&f, &r, SlPolicy::AsTold);
    let w = v.witnesses.iter().find(|w| matches!(w, Witness::Foreign { .. })).unwrap();
    assert!(!v.contained && w.explain(&f).contains("SL 9"));
    assert_eq!(w.to_json(&f)["kind"], "foreign");
}

#[test]
fn entries_that_lead_nowhere() {
    let mut b = Build::new(3);
    b.cable(0, 1);
    b.cable(1, 2);
    b.adapter(0);
    b.adapter(0);
    b.adapter(2);
    b.cable(1, 1);
    b.adapter(1);
    b.builder.node_mut(b.switches[1]).ports[5].state = LinkState::Down;
    let f = b.finish(0);
    let good = routes(&f, tables(&f, |_| 0, true));
    assert!(check(&f, &good, SlPolicy::AsTold).is_safe());
    let far = adapter_lid(&f, 2);
    let (s0, s1) = (SwitchId(0), SwitchId(1));
    let fault = |s: SwitchId, lid: Lid, port: u8| {
        let mut r = good.clone();
        r.lft.set(s, lid, PortNum(port));
        let v = check(&f, &r, SlPolicy::AsTold);
        assert!(!v.reachable && v.loop_free == (port != 1) && v.deadlock_free);
        match v.witness() {
            Some(Witness::Unreachable { at, fault, .. }) => {
                assert_eq!(*at, if port == 1 { *at } else { s });
                fault.clone()
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(fault(s1, far, Lft::NO_PATH), Fault::NoEntry);
    assert_eq!(fault(s1, far, 9), Fault::NoLink(PortNum(9)));
    assert_eq!(fault(s1, far, 99), Fault::NoLink(PortNum(99)));
    assert_eq!(fault(s1, far, 5), Fault::NoLink(PortNum(5)));
    assert_eq!(fault(s1, far, 3), Fault::BackToItself(PortNum(3)));
    assert!(matches!(fault(s1, far, 0), Fault::WrongNode(PortNum(0), _)));
    assert!(matches!(fault(s0, adapter_lid(&f, 0), 3), Fault::WrongNode(PortNum(3), _)));
    assert!(matches!(fault(s1, far, 1), Fault::Loop(switches) if switches.len() == 2));
}

#[test]
fn vl_15_drops() {
    let f = ring(4, 0..4, 0);
    let mut r = routes(&f, tables(&f, |_| 0, true));
    // Out of the port to the adapter: only packets that arrive by port 1 are affected.
    let (_, end) = f.adapters().next().unwrap();
    let (s, port) = end.attachment.unwrap();
    let row = SlVlRow::default().with(Sl(2), Vl(15));
    r.sl2vl.set(s, PortNum(1), port, row);
    assert!(check(&f, &r, SlPolicy::AsTold).reachable);
    let v = check(&f, &r, SlPolicy::Fixed(Sl(2)));
    assert!(!v.reachable && v.loop_free);
    let mut all = r.clone();
    all.sl2vl.rows_mut().fill(SlVlRow::uniform(Vl(15)));
    assert!(!check(&f, &all, SlPolicy::AsTold).reachable);
    // There is no row with another VL.
    all.sl2vl.set_adapters(SlVlRow::uniform(Vl(15)));
    assert!(!check(&f, &all, SlPolicy::AsTold).reachable);
    let text = v.witness().unwrap().explain(&f);
    assert!(text.contains("SL 2 maps to VL 15 from port 1"), "{text}");
}

/// Packets to each destination have an SL of their own, and on its switch the rows from other end ports to it drop one
/// SL.
#[test]
fn what_is_dropped_at_home_is_looked_up_by_destination() {
    let f = ring(3, [0, 0, 1, 2], 0);
    let all = destinations(&f);
    assert_eq!(all.iter().map(|d| d.root).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 2, 2]);
    let (len, switches) = (f.lid_table_len(), f.num_switches());
    let mut by_switch = vec![0; len * switches];
    let mut by_end_port = vec![0; len * f.endports().len()];
    for (sl, d) in (1..).zip(&all) {
        by_switch[d.lid.index() * switches..][..switches].fill(sl);
        by_end_port.iter_mut().skip(d.lid.index()).step_by(len).for_each(|entry| *entry = sl);
    }
    for path_sl in [PathSl::BySwitch(by_switch), PathSl::ByEndPort(by_end_port)] {
        for (own, d) in (1..).zip(&all) {
            for sl in 0..=7 {
                let mut r = Routes { path_sl: path_sl.clone(), ..routes(&f, tables(&f, |_| 0, true)) };
                let s = SwitchId::at(d.root);
                for from in f.endports_on(s).iter().map(|&e| f.endport(e).attachment.unwrap().1) {
                    let row = SlVlRow::default().with(Sl(sl), Vl(15));
                    r.sl2vl.set(s, from, PortNum(d.port), row);
                }
                assert_eq!(check(&f, &r, SlPolicy::AsTold).reachable, sl != own, "{own} {sl}");
            }
        }
    }
}

/// Adapters share one row, so that of most of them stands for all; nothing is safe that one of them does not send.
#[test]
fn what_some_adapters_do_not_send_may_not_arrive() {
    let f = ring(3, 0..3, 0);
    let mut r = routes(&f, tables(&f, |_| 0, true));
    let (dropping, _) = f.adapters().next().unwrap();
    r.sl2vl.set_withheld(std::collections::BTreeMap::from([(dropping, 1 << 2)]));
    let v = verify(&f, &r);
    assert!(v.is_safe() && sl_safety(&f, &r, &v) == SlSafety { sl_zero: true, replies: true, any: false });
    for policy in [SlPolicy::Fixed(Sl(2)), SlPolicy::Any] {
        let v = verify_with(&f, &r, policy);
        let some = |w: &Witness| {
            let sent = |packet: &Packet| (packet.source, packet.sl) == (dropping, Sl(2));
            matches!(w, Witness::Unreachable { packet, fault: Fault::Unsent, .. } if sent(packet))
        };
        assert!(!v.reachable && v.deadlock_free && v.witness().is_some_and(some), "{:?}", v.witnesses);
    }
    // Another adapter may send it.
    let stride = f.lid_table_len();
    let mut table = vec![2; f.endports().len() * stride];
    table[dropping.index() * stride..][..stride].fill(0);
    r.path_sl = PathSl::ByEndPort(table);
    assert!(verify(&f, &r).is_safe());
    r.path_sl = PathSl::one(Sl(2));
    let v = verify(&f, &r);
    let safety = SlSafety { sl_zero: true, replies: false, any: false };
    assert!(!v.is_safe() && sl_safety(&f, &r, &v) == safety);
}

#[test]
fn what_adapters_do_not_send_does_not_arrive() {
    let unsent = SlVlRow::default().with(Sl(2), Vl(15)).with(Sl(5), Vl(7));
    for f in [ring(5, 0..5, 0), ring(1, [0, 0], 0)] {
        let mut r = routes(&f, tables(&f, |_| 0, true));
        r.sl2vl.set_adapters(unsent);
        let home: Vec<SwitchId> = f.adapters().map(|(_, end)| end.attachment.unwrap().0).collect();
        assert!(check(&f, &r, SlPolicy::AsTold).reachable && check(&f, &r, SlPolicy::Fixed(Sl(5))).reachable);
        for policy in [SlPolicy::Fixed(Sl(2)), SlPolicy::Any] {
            let v = check(&f, &r, policy);
            assert!(!v.reachable && v.loop_free && !v.is_safe());
            match v.witness() {
                Some(Witness::Unreachable { packet, at, fault: Fault::Unsent }) => {
                    assert!(f.endport(packet.source).is_adapter() && home.contains(at));
                }
                other => panic!("{other:?}"),
            }
        }
        let verdict = check(&f, &r, SlPolicy::AsTold);
        assert!(!compare::compare_safety(&f, &r, &verdict, Sizes::default()).any);
        let mut table = vec![2; f.endports().len() * f.lid_table_len()];
        r.path_sl = PathSl::ByEndPort(table.clone());
        assert!(!check(&f, &r, SlPolicy::AsTold).reachable);
        // Switches send another one.
        for (i, _) in f.endports().iter().enumerate().filter(|(_, end)| !end.is_adapter()) {
            table[i * f.lid_table_len()..][..f.lid_table_len()].fill(0);
        }
        r.path_sl = PathSl::ByEndPort(table);
        assert!(!check(&f, &r, SlPolicy::AsTold).reachable);
        // So does what the first switch would drop too.
        for (_, end) in f.adapters() {
            let (s, port) = end.attachment.unwrap();
            for out in 0..r.sl2vl.ports_of(s) as u8 {
                r.sl2vl.set(s, port, PortNum(out), SlVlRow::default().with(Sl(2), Vl(15)));
            }
        }
        assert!(!check(&f, &r, SlPolicy::AsTold).reachable);
        assert!(!check(&f, &r, SlPolicy::Fixed(Sl(2))).reachable);
    }
}

/// OpenSM masks the rows of a link to an adapter with the VLs that the link operates, in both directions, so
/// packets on VLs that it lacks arrive on others. No packet can wait for itself there.
#[test]
fn rows_of_a_link_to_an_adapter_may_name_vls_that_it_lacks() {
    let mut b = FabricBuilder::from_fabric(&ring(4, 0..4, 0));
    let node = (0..b.len()).map(NodeId::at).find(|&n| b.node(n).kind != NodeKind::Switch).unwrap();
    b.node_mut(node).ports[1].data_vls = Some(1);
    let f = b.finish(Lmc::default()).unwrap();
    let mut r = routes(&f, tables(&f, |_| 0, true));
    for end in f.adapters().map(|(_, end)| end) {
        let (s, port) = end.attachment.unwrap();
        for in_port in 0..r.sl2vl.ports_of(s) as u8 {
            r.sl2vl.set(s, PortNum(in_port), port, SlVlRow::uniform(Vl(3)));
        }
    }
    r.sl2vl.set_adapters(SlVlRow::uniform(Vl(3)));
    let v = check(&f, &r, SlPolicy::AsTold);
    assert!(v.vls_legal && v.is_safe());
}

/// The group leads from S0 to S1 and S3, and from each of these to S2, which has the only member.
#[test]
fn a_packet_on_two_paths_arrives_twice() {
    let f = ring(4, 0..4, 0);
    let mut r = routes(&f, tables(&f, |_| 0, true));
    let port = |from: usize, to: usize| {
        let mut out = f.channels().out(SwitchId::at(from));
        out.find(|(_, c)| c.to.index() == to).unwrap().1.out_port
    };
    let member = f.adapters().find(|(_, end)| end.attachment.unwrap().0 == SwitchId(2)).unwrap().1;
    let set = |ports: &[PortNum]| {
        let mut set = PortSet::default();
        ports.iter().for_each(|&port| set.insert(port));
        set
    };
    let ports = vec![
        (SwitchId(0), set(&[port(0, 1), port(0, 3)])),
        (SwitchId(1), set(&[port(1, 2)])),
        (SwitchId(2), set(&[member.attachment.unwrap().1])),
        (SwitchId(3), set(&[port(3, 2)])),
    ];
    r.multicast.push(McastGroup { mlid: McastGroup::FIRST_MLID, sls: Some(1), ports });
    let v = check(&f, &r, SlPolicy::AsTold);
    let m = v.multicast.clone().unwrap();
    assert!(m.loop_free && m.reachable && !m.once && !v.is_safe());
    match v.witnesses.iter().find(|w| matches!(w, Witness::Multicast(McastFault::Twice { .. }))) {
        Some(w) => assert!(w.explain(&f).contains("twice"), "{}", w.explain(&f)),
        None => panic!("{v:?}"),
    }
    // Without one of the two paths the group is safe.
    r.multicast[0].ports.remove(3);
    assert!(check(&f, &r, SlPolicy::AsTold).multicast.is_some_and(|m| m.is_safe()));
}

#[test]
fn each_lid_of_a_range_has_its_own_tree() {
    let f = ring(4, [0, 2], 2);
    let mut r = routes(&f, tables(&f, |_| 0, true));
    let v = check(&f, &r, SlPolicy::AsTold);
    assert!(v.is_safe() && v.pairs == 8);
    let third = Lid::new(adapter_lid(&f, 1).get() + 2).unwrap();
    r.lft.clear(SwitchId(0), third);
    let v = check(&f, &r, SlPolicy::AsTold);
    assert!(matches!(v.witness(), Some(Witness::Unreachable { packet, .. }) if packet.dlid == third));
}

#[test]
fn port_0_can_make_a_cycle_that_adapters_do_not() {
    let f = ring(6, [0, 1], 0);
    let r = routes(&f, tables(&f, |_| 0, true));
    let v = check(&f, &r, SlPolicy::AsTold);
    assert!(!v.deadlock_free && v.deadlock_free_adapters && v.minimal);
    assert!(credit_loop(&v).iter().any(|w| !f.endport(w.packet.source).is_adapter()));
}

#[test]
fn parallel_cables_are_channels_of_their_own() {
    let mut b = Build::new(3);
    for s in 0..3 {
        b.cable(s, (s + 1) % 3);
        b.cable(s, (s + 1) % 3);
        b.adapter(s);
    }
    let f = b.finish(0);
    // Packets to adapters loop; all others go directly.
    let mut r = routes(&f, tables(&f, |_| 0, true));
    let round = clockwise(&f);
    for (_, end) in f.adapters() {
        for s in f.switch_ids() {
            r.lft.set(s, end.lid, round.get(s, end.lid).unwrap());
        }
    }
    assert_eq!(credit_loop(&check(&f, &r, SlPolicy::AsTold)).len(), 3);
    // One of the two-hop paths uses the second cable: the cycle is gone.
    let end = *f.adapters().find(|(_, e)| e.attachment.unwrap().0 == SwitchId(2)).unwrap().1;
    let second = |from: u32, to: u32| {
        let twins: Vec<_> = f.channels().out(SwitchId(from)).filter(|(_, c)| c.to.0 == to).collect();
        twins[1].1.out_port
    };
    r.lft.set(SwitchId(1), end.lid, second(1, 2));
    assert!(check(&f, &r, SlPolicy::AsTold).is_safe());
}

#[test]
fn a_cycle_of_one_sl_shows_when_it_is_in_use() {
    let f = ring(5, 0..5, 0);
    let mut r = routes(&f, tables(&f, |_| 0, true));
    for c in f.channels().as_slice() {
        for out in 0..13 {
            let row = SlVlRow::uniform(Vl(1)).with(Sl(3), Vl(0));
            r.sl2vl.set(c.to, c.in_port, PortNum(out), row);
        }
    }
    assert!(check(&f, &r, SlPolicy::AsTold).is_safe());
    let v = check(&f, &r, SlPolicy::Any);
    assert!(!v.deadlock_free && credit_loop(&v).iter().any(|w| w.packet.sl == Sl(3)));
    // Groups that need no SL in particular may have any other one.
    let mut grouped = r.clone();
    grouped.multicast = (0..5).map(|s| around(&f, s, 2, None)).collect();
    let v = check(&f, &grouped, SlPolicy::AsTold);
    assert!(v.is_safe() && v.multicast.is_some_and(|m| m.sls == !(1 << 3)));
    r.path_sl = PathSl::Any(0b1001);
    assert!(!check(&f, &r, SlPolicy::AsTold).deadlock_free);
}

/// Packets to the opposite switch make three of the four dependencies of a cycle. A copy makes the
/// fourth, though the switch that it goes to has no port in the group.
#[test]
fn a_copy_that_the_next_switch_drops_waits_too() {
    let f = ring(4, 0..4, 0);
    let mut r = routes(&f, tables(&f, |_| 0, true));
    for end in f.endports() {
        let s = (end.attachment.unwrap().0.index() + 2) % 4;
        r.lft.set(SwitchId::at(s), end.lid, port_to(&f, s, if s == 3 { 2 } else { s + 1 }));
    }
    let set = |port| {
        let mut set = PortSet::default();
        set.insert(port);
        set
    };
    let ports = vec![(SwitchId(0), set(port_to(&f, 0, 1))), (SwitchId(3), set(port_to(&f, 3, 0)))];
    r.multicast.push(McastGroup { mlid: McastGroup::FIRST_MLID, sls: Some(1), ports });
    let v = check(&f, &r, SlPolicy::AsTold);
    assert!(v.deadlock_free && v.reachable && !v.is_safe());
    let Some(Witness::Multicast(McastFault::CreditLoop(waits))) = v.witness() else { panic!("{v:?}") };
    assert_eq!(waits.iter().filter(|w| matches!(w.cause, Cause::Multicast { .. })).count(), 1);
    // Without the port to the switch outside of the group, the tables are safe.
    r.multicast[0].ports.remove(0);
    assert!(check(&f, &r, SlPolicy::AsTold).is_safe());
}

/// The entry of the last switch, which is small, names a port that only larger switches have. This says nothing about
/// the packets that the next block's entry of the first switch sends nowhere.
#[test]
fn an_entry_beyond_the_ports_of_a_small_switch_is_forgotten() {
    let mut builder = FabricBuilder::new();
    let ids: Vec<NodeId> = [8, 8, 3]
        .into_iter()
        .enumerate()
        .map(|(s, ports)| {
            let node = Node::new(NodeKind::Switch, Guid(0x100 + s as u64), ports, &format!("S{s}"));
            builder.add(node).unwrap()
        })
        .collect();
    let port = |s: usize, port: u8| PortRef { node: ids[s], port: PortNum(port) };
    builder.connect(port(0, 5), port(1, 1)).unwrap();
    builder.connect(port(1, 2), port(2, 1)).unwrap();
    let f = builder.finish(Lmc::default()).unwrap();
    let mut r = routes(&f, tables(&f, |_| 0, true));
    let all = destinations(&f);
    let (first, second) = (all[0], all[1]);
    assert_eq!((first.root, second.root), (0, 1));
    r.lft.set(SwitchId(2), first.lid, PortNum(5));
    r.lft.clear(SwitchId(0), second.lid);
    let sizes = Sizes { block: 1, tile: 1, ..Sizes::default() };
    assert!(!compare::compare(&f, &r, SlPolicy::AsTold, sizes).reachable);
}

/// All LIDs of a block use it, and all are adapters'.
#[test]
fn the_vl_of_the_only_channel_in_use_counts() {
    let mut b = Build::new(2);
    b.cable(0, 1);
    b.adapter(0);
    b.adapter(1);
    let f = b.finish(0);
    let r = routes(&f, tables(&f, |_| 0, true));
    for block in [1, 64] {
        let v = compare::compare(&f, &r, SlPolicy::AsTold, Sizes { block, ..Sizes::default() });
        assert_eq!((v.vls, v.vls_all), (1, 1));
    }
}

/// In a block of one LID both channels of the turn carry the same LIDs.
#[test]
fn a_row_between_two_channels_drops() {
    let mut b = Build::new(3);
    b.cable(0, 1);
    b.cable(1, 2);
    b.adapter(0);
    b.adapter(2);
    let f = b.finish(0);
    let mut r = routes(&f, tables(&f, |_| 0, true));
    r.sl2vl.set(SwitchId(1), PortNum(1), PortNum(2), SlVlRow::uniform(Vl(15)));
    for block in [1, 64] {
        let v = compare::compare(&f, &r, SlPolicy::AsTold, Sizes { block, ..Sizes::default() });
        assert!(!v.reachable && v.loop_free);
    }
}

/// Packets to the switch come by the second cable, from which none may go on to the adapter; those to the adapter come
/// by the first.
#[test]
fn a_row_that_no_packet_to_the_lid_uses_drops_none() {
    let mut b = Build::new(2);
    b.cable(0, 1);
    b.cable(0, 1);
    b.adapter(1);
    let f = b.finish(0);
    let mut r = routes(&f, tables(&f, |_| 0, true));
    let adapter = adapter_lid(&f, 0);
    let own = destinations(&f).iter().find(|d| d.root == 1 && d.port == 0).unwrap().lid;
    r.lft.set(SwitchId(0), adapter, PortNum(1));
    r.lft.set(SwitchId(0), own, PortNum(2));
    r.sl2vl.set(SwitchId(1), PortNum(2), PortNum(3), SlVlRow::uniform(Vl(15)));
    assert!(check(&f, &r, SlPolicy::AsTold).is_safe());
}

#[test]
fn no_switch_and_no_pair() {
    let f = FabricBuilder::new().finish(Lmc::default()).unwrap();
    assert!(verify(&f, &routes(&f, Lft::new(&f))).is_safe());
    let f = ring(1, [0], 0);
    let v = check(&f, &routes(&f, tables(&f, |_| 0, true)), SlPolicy::AsTold);
    assert!(v.is_safe() && v.pairs == 0 && v.vls == 0 && v.mean_stretch == 1.0);
}

#[test]
fn the_verdict_does_not_depend_on_threads() {
    let f = ring(40, 0..40, 1);
    let mut r = routes(&f, clockwise(&f));
    r.lft.clear(SwitchId(3), adapter_lid(&f, 30));
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| verify(&f, &r))
    };
    assert_eq!(with(1), with(3));
}
