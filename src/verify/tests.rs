//! Fabrics one can draw, and random ones against a second, naive judge that walks pair by pair.

use std::collections::{BTreeSet, HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::fabric::{FabricBuilder, Guid, Lmc, Node, NodeId, NodeKind, PortRef};
use crate::tables::{Lft, PathSl, VlArb};

/// Switches with 12 ports and adapters; cables take the next free port of either side.
struct Build {
    builder: FabricBuilder,
    switches: Vec<crate::fabric::NodeId>,
    free: Vec<u8>,
    adapters: u64,
}

impl Build {
    fn new(switches: usize) -> Self {
        let mut builder = FabricBuilder::new();
        let ids = (0..switches).map(|s| {
            let name = format!("S{s}");
            builder.add(Node::new(NodeKind::Switch, Guid(0x100 + s as u64), 12, &name)).unwrap()
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

/// A ring with its cables in order, an adapter on each of the switches of `with`.
fn ring(switches: usize, with: impl IntoIterator<Item = usize>, lmc: u8) -> Fabric {
    let mut b = Build::new(switches);
    (0..switches).for_each(|s| b.cable(s, (s + 1) % switches));
    with.into_iter().for_each(|s| b.adapter(s));
    b.finish(lmc)
}

fn routes(fabric: &Fabric, lft: Lft) -> Routes {
    Routes {
        engine: "test".into(),
        lft,
        sl2vl: Sl2Vl::new(fabric),
        path_sl: PathSl::one(Sl(0)),
        vlarb: VlArb::fair(1),
        multicast: Vec::new(),
        remarks: Vec::new(),
    }
}

/// For each LID a tree: breadth first, `choose` among the switches that are in reach.
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
                // One switch at a time joins, from anywhere at the rim: any tree can come out.
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
            let next = SwitchId::at((s.index() + 1) % n);
            let out = fabric.channels().out(s).find(|(_, c)| c.to == next).unwrap().1.out_port;
            lft.set(s, d.lid, if s.index() == d.root { PortNum(d.port) } else { out });
        }
    }
    lft
}

fn adapter_lid(fabric: &Fabric, i: usize) -> Lid {
    fabric.adapters().nth(i).unwrap().1.lid
}

/// What the naive judge finds. Fields as in [`Verdict`].
#[derive(Debug, PartialEq)]
struct Naive {
    deadlock_free: bool,
    deadlock_free_adapters: bool,
    reachable: bool,
    loop_free: bool,
    vls_legal: bool,
    minimal: bool,
    pairs: u64,
    detours: u64,
    stretch: f64,
    max_hops: u16,
    hops: u64,
    diameter: u16,
    diameter_all: u16,
    counts: [u32; 4],
    virtual_channels: usize,
    dependencies: usize,
}

type Lane = (ChannelId, u8);

/// One packet from switch port to LID: lanes, and how it ends. Follows cables, not channels.
fn send(f: &Fabric, r: &Routes, source: EndPortId, dlid: Lid, sl: usize) -> (Vec<Lane>, &'static str) {
    let owner = f.endport(f.owner_of(dlid).unwrap());
    let (mut at, mut inp) = f.endport(source).attachment.unwrap();
    let mut seen = HashSet::new();
    let (mut lanes, mut dropped) = (Vec::new(), false);
    loop {
        if !seen.insert(at) {
            return (lanes, "loop");
        }
        let Some(out) = r.lft.get(at, dlid) else { return (lanes, "dead") };
        let node = f.switch(at);
        if out.index() >= node.ports.len() {
            return (lanes, "dead");
        }
        let vl = r.sl2vl.row(at, inp, out).get(Sl(sl as u8)).0;
        dropped |= vl == 15;
        let end = if dropped { "dropped" } else { "arrived" };
        let here = f.switch_node_id(at);
        if out.0 == 0 {
            return (lanes, if here == owner.node { end } else { "dead" });
        }
        let Some(peer) = node.ports[out.index()].peer else { return (lanes, "dead") };
        if peer == (PortRef { node: owner.node, port: owner.port }) {
            return (lanes, end);
        }
        let Some(next) = f.switch_of(peer.node) else { return (lanes, "dead") };
        if next == at {
            return (lanes, "dead");
        }
        if !dropped {
            lanes.push((f.channels().at_port(at, out).unwrap(), vl));
        }
        (at, inp) = (next, peer.port);
    }
}

fn hops_by_cables(f: &Fabric) -> Vec<Vec<Option<u16>>> {
    let n = f.num_switches();
    let mut d: Vec<Vec<Option<u16>>> = vec![vec![None; n]; n];
    for (s, row) in d.iter_mut().enumerate() {
        row[s] = Some(0);
    }
    for _ in 0..n {
        for row in &mut d {
            for c in f.channels().as_slice() {
                if let Some(x) = row[c.from.index()] {
                    let y = row[c.to.index()].map_or(x + 1, |y| y.min(x + 1));
                    row[c.to.index()] = Some(y);
                }
            }
        }
    }
    d
}

fn cyclic(edges: &HashSet<(Lane, Lane)>) -> bool {
    fn visit(v: Lane, next: &HashMap<Lane, Vec<Lane>>, state: &mut HashMap<Lane, bool>) -> bool {
        match state.get(&v) {
            Some(open) => *open,
            None => {
                state.insert(v, true);
                let found = next.get(&v).is_some_and(|ws| ws.iter().any(|&w| visit(w, next, state)));
                state.insert(v, false);
                found
            }
        }
    }
    let mut next: HashMap<Lane, Vec<Lane>> = HashMap::new();
    for &(a, b) in edges {
        next.entry(a).or_default().push(b);
    }
    let mut state = HashMap::new();
    next.keys().any(|&v| visit(v, &next, &mut state))
}

fn naive(f: &Fabric, r: &Routes, policy: SlPolicy) -> Naive {
    let distance = hops_by_cables(f);
    let mut n = Naive {
        deadlock_free: true,
        deadlock_free_adapters: true,
        reachable: true,
        loop_free: true,
        vls_legal: true,
        minimal: true,
        pairs: 0,
        detours: 0,
        stretch: 0.0,
        max_hops: 0,
        hops: 0,
        diameter: 0,
        diameter_all: 0,
        counts: [0; 4],
        virtual_channels: 0,
        dependencies: 0,
    };
    let (mut lanes, mut edges, mut adapter_edges) = (HashSet::new(), HashSet::new(), HashSet::new());
    let mut sets: [BTreeSet<u32>; 4] = Default::default();
    let ends = || (0..f.endports().len()).map(EndPortId::at);
    for (a, b) in ends().flat_map(|a| ends().map(move |b| (a, b))) {
        let (from, to) = (f.endport(a), f.endport(b));
        let (s, t) = (from.attachment.unwrap().0.index(), to.attachment.unwrap().0.index());
        let adapters = from.is_adapter() && to.is_adapter();
        if let Some(d) = distance[s][t] {
            n.diameter_all = n.diameter_all.max(d);
            n.diameter = n.diameter.max(if adapters { d } else { 0 });
        }
        for dlid in to.lids().filter(|_| a != b) {
            let mut mask = match policy {
                SlPolicy::Fixed(sl) => 1 << sl.0,
                SlPolicy::Any => 0xffff,
                _ => r.path_sl.allowed(f, a, dlid),
            };
            sets[3].insert(mask.trailing_zeros());
            if adapters {
                sets[2].insert(mask.trailing_zeros());
            }
            if policy == SlPolicy::WithReplies {
                mask = from.lids().fold(mask, |m, slid| m | r.path_sl.allowed(f, b, slid));
            }
            let mut length = None;
            for sl in (0..16).filter(|sl| mask >> sl & 1 == 1) {
                let (path, end) = send(f, r, a, dlid, sl);
                n.reachable &= end == "arrived";
                n.loop_free &= end != "loop";
                if end != "arrived" && end != "dropped" {
                    continue;
                }
                for &(c, vl) in &path {
                    lanes.insert((c, vl));
                    sets[1].insert(vl.into());
                    if adapters {
                        sets[0].insert(vl.into());
                    }
                    let c = f.channels().get(c);
                    for (s, p) in [(c.from, c.out_port), (c.to, c.in_port)] {
                        n.vls_legal &= f.switch(s).ports[p.index()].data_vls.is_none_or(|limit| vl < limit);
                    }
                }
                edges.extend(path.windows(2).map(|w| (w[0], w[1])));
                if adapters {
                    adapter_edges.extend(path.windows(2).map(|w| (w[0], w[1])));
                }
                if end == "arrived" {
                    length = Some(path.len() as u16);
                }
            }
            // A packet that is dropped on its way says nothing of the length of its path: SL 0 on
            // rows that are all VL 0 does.
            if adapters {
                let plain = Routes { sl2vl: Sl2Vl::new(f), ..r.clone() };
                if let (path, "arrived") = send(f, &plain, a, dlid, 0) {
                    let hops = path.len() as u16;
                    assert!(length.is_none_or(|l| l == hops));
                    let least = distance[s][t].unwrap();
                    n.pairs += 1;
                    n.hops += u64::from(hops);
                    n.detours += u64::from(hops > least);
                    n.minimal &= hops == least;
                    n.max_hops = n.max_hops.max(hops);
                    n.stretch += f64::from(hops + 1) / f64::from(least + 1);
                }
            }
        }
    }
    n.deadlock_free = !cyclic(&edges);
    n.deadlock_free_adapters = !cyclic(&adapter_edges);
    n.counts = sets.map(|s| s.len() as u32);
    n.virtual_channels = lanes.len();
    n.dependencies = edges.len();
    n
}

/// The fast judge agrees with the naive one, and what its witnesses say is true.
fn check(f: &Fabric, r: &Routes, policy: SlPolicy) -> Verdict {
    let (v, n) = (verify_with(f, r, policy), naive(f, r, policy));
    let fast = Naive {
        deadlock_free: v.deadlock_free,
        deadlock_free_adapters: v.deadlock_free_adapters,
        reachable: v.reachable,
        loop_free: v.loop_free,
        vls_legal: v.vls_legal,
        minimal: v.minimal,
        pairs: v.pairs,
        max_hops: v.max_hops,
        diameter: v.diameter,
        diameter_all: v.diameter_all,
        counts: [v.vls, v.vls_all, v.sls, v.sls_all],
        virtual_channels: v.virtual_channels,
        dependencies: v.dependencies,
        ..n
    };
    assert_eq!(fast, n);
    let pairs = n.pairs.max(1) as f64;
    assert!((v.nonminimal_share - n.detours as f64 / pairs).abs() < 1e-12);
    assert!((v.mean_hops - n.hops as f64 / pairs).abs() < 1e-12);
    let stretch = if n.pairs == 0 { 1.0 } else { n.stretch / pairs };
    assert!((v.mean_stretch - stretch).abs() < 1e-9);
    assert_eq!(v.cyclic_components == 0, v.deadlock_free);

    let holds = [v.reachable, v.loop_free, v.deadlock_free, v.vls_legal, v.minimal];
    assert_eq!(v.witnesses.len(), holds.iter().filter(|h| !**h).count(), "a witness each");
    for w in &v.witnesses {
        assert!(!w.explain(f).is_empty());
        let walk = |p: &Packet| {
            assert!(policy.mask(f, &r.path_sl, p.source, p.dlid) >> p.sl.0 & 1 == 1, "SL in use");
            assert_ne!(f.owner_of(p.dlid), Some(p.source));
            send(f, r, p.source, p.dlid, p.sl.0.into())
        };
        match w {
            Witness::Multicast(_) => panic!("these tables have no groups"),
            Witness::Unreachable { packet, fault, .. } => {
                let expected = match fault {
                    Fault::Loop(_) => "loop",
                    Fault::Vl15(..) => "dropped",
                    _ => "dead",
                };
                assert_eq!(walk(packet).1, expected);
            }
            Witness::Loop { packet, switches } => {
                assert_eq!(walk(packet).1, "loop");
                for (i, &s) in switches.iter().enumerate() {
                    let c = f.channels().at_port(s, r.lft.get(s, packet.dlid).unwrap()).unwrap();
                    assert_eq!(f.channels().get(c).to, switches[(i + 1) % switches.len()]);
                }
            }
            Witness::CreditLoop(waits) => {
                assert!(waits.len() > 1);
                for (i, a) in waits.iter().enumerate() {
                    let b = &waits[(i + 1) % waits.len()];
                    assert_eq!(f.channels().get(a.channel).to, f.channels().get(b.channel).from);
                    let pair = [(a.channel, a.vl.0), (b.channel, b.vl.0)];
                    assert!(walk(&a.packet).0.windows(2).any(|w| w == pair), "{}", w.explain(f));
                }
            }
            Witness::IllegalVl { wait, data_vls } => {
                assert!(wait.vl.0 >= *data_vls);
                assert!(walk(&wait.packet).0.contains(&(wait.channel, wait.vl.0)));
            }
            Witness::Detour { packet, hops, minimal } => {
                assert!(minimal < hops);
                let from = f.endport(packet.source).attachment.unwrap().0.index();
                let to = f.endport(f.owner_of(packet.dlid).unwrap()).attachment.unwrap().0.index();
                assert_eq!(hops_by_cables(f)[from][to], Some(*minimal));
            }
        }
    }
    v
}

fn credit_loop(v: &Verdict) -> &[Wait] {
    let found = v.witnesses.iter().find_map(|w| match w {
        Witness::CreditLoop(waits) => Some(waits),
        _ => None,
    });
    found.expect("a credit loop")
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
    // Shortest paths on a ring of 5 have two hops at most: VL 0, then VL 1 (DF-D2).
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
    assert_eq!(fault(s1, far, 3), Fault::BackToItself(PortNum(3)));
    assert!(matches!(fault(s1, far, 0), Fault::WrongNode(PortNum(0), _)));
    assert!(matches!(fault(s0, adapter_lid(&f, 0), 3), Fault::WrongNode(PortNum(3), _)));
    assert!(matches!(fault(s1, far, 1), Fault::Loop(circle) if circle.len() == 2));
}

#[test]
fn vl_15_drops() {
    let f = ring(4, 0..4, 0);
    let mut r = routes(&f, tables(&f, |_| 0, true));
    // Out of the port to the adapter: only packets that come in by port 1 are hit.
    let (_, end) = f.adapters().next().unwrap();
    let (s, port) = end.attachment.unwrap();
    let row = SlVlRow::default().with(Sl(2), Vl(15));
    r.sl2vl.set(s, PortNum(1), port, row);
    assert!(check(&f, &r, SlPolicy::AsTold).reachable);
    let v = check(&f, &r, SlPolicy::Fixed(Sl(2)));
    assert!(!v.reachable && v.loop_free);
    let text = v.witness().unwrap().explain(&f);
    assert!(text.contains("SL 2 maps to VL 15 from port 1"), "{text}");
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
    // Round and round for packets to adapters, direct for the rest.
    let mut r = routes(&f, tables(&f, |_| 0, true));
    let round = clockwise(&f);
    for (_, end) in f.adapters() {
        for s in f.switch_ids() {
            r.lft.set(s, end.lid, round.get(s, end.lid).unwrap());
        }
    }
    assert_eq!(credit_loop(&check(&f, &r, SlPolicy::AsTold)).len(), 3);
    // One of the two-hop paths continues over the second cable: the cycle is gone.
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
    r.path_sl = PathSl::Any(0b1001);
    assert!(!check(&f, &r, SlPolicy::AsTold).deadlock_free);
}

#[test]
fn no_switch_and_no_pair() {
    let f = FabricBuilder::new().finish(Lmc::default()).unwrap();
    assert!(verify(&f, &routes(&f, Lft::new(&f))).is_safe());
    let f = ring(1, [0], 0);
    let v = check(&f, &routes(&f, tables(&f, |_| 0, true)), SlPolicy::AsTold);
    assert!(v.is_safe() && v.pairs == 0 && v.vls == 0 && v.mean_stretch == 1.0);
}

/// Numbers for a random case, drawn by proptest so that it can shrink them.
struct Dice<'a>(std::iter::Cycle<std::slice::Iter<'a, u16>>);

impl Dice<'_> {
    fn below(&mut self, n: usize) -> usize {
        usize::from(*self.0.next().unwrap()) % n
    }
}

fn random_case(dice: &mut Dice<'_>) -> (Fabric, Routes) {
    let switches = 2 + dice.below(6);
    let mut b = Build::new(switches);
    (1..switches).for_each(|s| b.cable(s, dice.below(s)));
    for _ in 0..dice.below(7) {
        let (x, y) = (dice.below(switches), dice.below(switches));
        if b.free[x] < 9 && b.free[y] < 9 {
            b.cable(x, y);
        }
    }
    for _ in 0..1 + dice.below(5) {
        let s = dice.below(switches);
        if b.free[s] < 12 {
            b.adapter(s);
        }
    }
    let limit = [None, None, Some(1), Some(2), Some(4)][dice.below(5)];
    let (s, p) = (dice.below(switches), 1 + dice.below(4));
    b.builder.node_mut(b.switches[s]).ports[p].data_vls = limit;
    let f = b.finish(dice.below(3) as u8);

    let minimal = dice.below(3) > 0;
    let mut r = routes(&f, tables(&f, |n| dice.below(n), minimal));
    let vls = 1 + dice.below(4);
    let alike = dice.below(2) == 0;
    for row in r.sl2vl.rows_mut() {
        let mut vl = || Vl(dice.below(vls) as u8);
        *row = if alike { SlVlRow::uniform(vl()) } else { SlVlRow::from_vls(std::array::from_fn(|_| vl())) };
    }
    for _ in 0..[0, 0, 1, 3][dice.below(4)] {
        let i = dice.below(r.sl2vl.rows().len());
        let row = &mut r.sl2vl.rows_mut()[i];
        *row = row.with(Sl(dice.below(16) as u8), Vl(15));
    }
    let mut some = |len: usize, unknown: usize| -> Vec<u8> {
        let sl = |d: &mut Dice<'_>| if d.below(20) < unknown { PathSl::UNKNOWN } else { d.below(4) as u8 };
        (0..len * f.lid_table_len()).map(|_| sl(dice)).collect()
    };
    r.path_sl = match some(1, 0)[0] {
        0 => PathSl::one(Sl(2)),
        1 => PathSl::Any(1 + u16::from(some(1, 0).iter().map(|x| x * 16).fold(0, |a, x| a ^ x))),
        2 => PathSl::BySwitch(some(switches, 0)),
        _ => PathSl::ByEndPort(some(f.endports().len(), 2)),
    };
    for _ in 0..[0, 0, 0, 1, 2][dice.below(5)] {
        let s = SwitchId::at(dice.below(switches));
        let all = destinations(&f);
        let lid = all[dice.below(all.len())].lid;
        match dice.below(4) {
            0 => r.lft.clear(s, lid),
            _ => r.lft.set(s, lid, PortNum(dice.below(14) as u8)),
        }
    }
    (f, r)
}

/// The random cases are worth something: each property holds in some and fails in others.
#[test]
fn random_cases_are_of_every_kind() {
    let mut state = 1_u64;
    let mut seen = [[0; 2]; 5];
    for _ in 0..600 {
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as u16
        };
        let numbers: Vec<u16> = (0..211).map(|_| draw()).collect();
        let (f, r) = random_case(&mut Dice(numbers.iter().cycle()));
        let v = check(&f, &r, SlPolicy::AsTold);
        let holds = [v.reachable, v.loop_free, v.deadlock_free, v.vls_legal, v.minimal];
        holds.iter().zip(&mut seen).for_each(|(&h, n)| n[usize::from(h)] += 1);
    }
    assert!(seen.as_flattened().iter().all(|&n| n >= 10), "{seen:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn agrees_with_the_naive_judge(numbers in proptest::collection::vec(any::<u16>(), 211)) {
        let (f, r) = random_case(&mut Dice(numbers.iter().cycle()));
        for policy in [SlPolicy::AsTold, SlPolicy::Fixed(Sl(1)), SlPolicy::Any, SlPolicy::WithReplies] {
            check(&f, &r, policy);
        }
    }
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
