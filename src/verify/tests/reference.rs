//! A second judge, slow and plain: it sends every packet hop by hop and keeps all results in sets. It shares
//! no code with the first one, and reads only ports, cables and LIDs of a fabric.

use std::collections::{BTreeMap, BTreeSet};

use crate::fabric::{EndPort, EndPortId, Fabric, Lid, LinkState, Port, PortNum, PortRef, Sl, SwitchId};
use crate::tables::{McastGroup, PathSl, Routes};
use crate::verify::{Fault, SlPolicy};

/// A virtual channel: the switch that sends, its port, and the VL.
pub(super) type Lane = (usize, u8, u8);
/// The first of two virtual channels waits for the second.
pub(super) type Waits = BTreeSet<(Lane, Lane)>;
type Sls = BTreeSet<u8>;

/// Where the entries for a packet lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The end port that owns the LID.
    Home,
    /// A switch that the packet has passed before.
    Loop,
    /// No entry, no live cable, or another node.
    Dead,
}

/// The path of a packet.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) end: End,
    /// Some row maps its SL to VL 15.
    pub(super) dropped: bool,
    /// The virtual channels before that.
    pub(super) lanes: Vec<Lane>,
    /// Number of all channels.
    pub(super) hops: u16,
}

/// The other end of the cable in a port, if both ends are up.
fn peer(f: &Fabric, s: usize, port: u8) -> Option<PortRef> {
    let up = |p: &Port| p.state != LinkState::Down;
    let here = f.switch(SwitchId::at(s)).ports.get(usize::from(port)).filter(|p| up(p))?;
    here.peer.filter(|there| up(&f.node(there.node).ports[there.port.index()]))
}

/// The other switch that a port leads to, and its in port.
pub(super) fn next(f: &Fabric, s: usize, port: u8) -> Option<(usize, u8)> {
    let there = peer(f, s, port)?;
    let to = f.switch_of(there.node)?.index();
    (to != s).then_some((to, there.port.0))
}

fn vl(r: &Routes, s: usize, in_port: u8, out: u8, sl: u8) -> u8 {
    r.sl2vl.row(SwitchId::at(s), PortNum(in_port), PortNum(out)).get(Sl(sl)).0
}

/// Whether an end port does not send packets with an SL: adapters have SL2VL rows of their own.
pub(super) fn withheld(r: &Routes, from: &EndPort, sl: u8) -> bool {
    from.port.0 != 0 && r.sl2vl.adapters().get(Sl(sl)).0 == 15
}

/// Sends a packet.
pub(super) fn walk(f: &Fabric, r: &Routes, from: &EndPort, to: &EndPort, dlid: Lid, sl: u8) -> Walk {
    let (first, injected) = from.attachment.expect("an end port on a switch");
    let (mut s, mut in_port) = (first.index(), injected.0);
    let mut walk = Walk { end: End::Loop, dropped: withheld(r, from, sl), lanes: Vec::new(), hops: 0 };
    let mut met = BTreeSet::new();
    while met.insert(s) {
        walk.end = End::Dead;
        let ports = f.switch(SwitchId::at(s)).ports.len();
        let entry = r.lft.get(SwitchId::at(s), dlid).filter(|out| out.index() < ports);
        let Some(PortNum(out)) = entry else { return walk };
        let vl = vl(r, s, in_port, out, sl);
        walk.dropped |= vl == 15;
        let itself = PortRef { node: f.switch_node_id(SwitchId::at(s)), port: PortNum(0) };
        let there = if out == 0 { Some(itself) } else { peer(f, s, out) };
        if there == Some(PortRef { node: to.node, port: to.port }) {
            walk.end = End::Home;
            return walk;
        }
        let Some(ahead) = next(f, s, out) else { return walk };
        walk.hops += 1;
        if !walk.dropped {
            walk.lanes.push((s, out, vl));
        }
        (s, in_port) = ahead;
        walk.end = End::Loop;
    }
    walk
}

/// Why packets to a LID end at a switch.
pub(super) fn dead_end(f: &Fabric, r: &Routes, at: SwitchId, dlid: Lid) -> Fault {
    let Some(port) = r.lft.get(at, dlid) else { return Fault::NoEntry };
    let node = f.switch_node_id(at);
    let cable = f.switch(at).ports.get(port.index()).and_then(|p| p.peer);
    match peer(f, at.index(), port.0) {
        _ if port.0 == 0 => Fault::WrongNode(port, node),
        _ if cable.is_some_and(|there| there.node == node) => Fault::BackToItself(port),
        Some(there) => Fault::WrongNode(port, there.node),
        None => Fault::NoLink(port),
    }
}

/// The SLs assigned to a sender, and those that its packets may have.
fn of_tables(f: &Fabric, path_sl: &PathSl, from: EndPortId, dlid: Lid) -> (Sls, Sls) {
    let set = |mask: u16| (0..16).filter(|sl| mask >> sl & 1 != 0).collect::<Sls>();
    let one = |sl: u8| match sl {
        PathSl::UNKNOWN => (Sls::from([0]), set(u16::MAX)),
        sl => (Sls::from([sl]), Sls::from([sl])),
    };
    match path_sl {
        PathSl::Any(mask) => (set(*mask).first().copied().into_iter().collect(), set(*mask)),
        PathSl::BySwitch(table) => {
            let (s, _) = f.endport(from).attachment.expect("an end port on a switch");
            one(table[dlid.index() * f.num_switches() + s.index()])
        }
        PathSl::BySwitchPair(pairs) => {
            let (s, _) = f.endport(from).attachment.expect("an end port on a switch");
            one(pairs.to(dlid)[s.index()])
        }
        PathSl::ByEndPort(table) => one(table[from.index() * f.lid_table_len() + dlid.index()]),
        PathSl::Classes(c) => {
            let vl_set = c.vl_set_of.get(dlid.index()).copied().unwrap_or(0);
            let n = c.classes;
            let sls = |set: u8, own: u8| (0..n.classes).map(move |q| q + n.classes * (set * n.sls + own));
            match &*c.own {
                PathSl::Any(mask) => (sls(vl_set, 0).collect(), set(*mask)),
                table => match of_tables(f, table, from, dlid) {
                    (_, own) if own.len() == 1 => {
                        let own = own.first().copied().unwrap_or(0);
                        (sls(vl_set, own).collect(), (0..n.vl_sets).flat_map(|set| sls(set, own)).collect())
                    }
                    unknown => unknown,
                },
            }
        }
    }
}

/// The same under a policy.
pub(super) fn sls(
    f: &Fabric,
    r: &Routes,
    policy: SlPolicy,
    from: EndPortId,
    to: EndPortId,
    dlid: Lid,
) -> (Sls, Sls) {
    let (assigned, mut allowed) = of_tables(f, &r.path_sl, from, dlid);
    match policy {
        SlPolicy::AsTold => {}
        SlPolicy::Fixed(sl) => return (Sls::from([sl.0]), Sls::from([sl.0])),
        SlPolicy::Any => return (Sls::from([0]), (0..16).collect()),
        SlPolicy::WithReplies => {
            allowed.extend(f.endport(from).lids().flat_map(|slid| of_tables(f, &r.path_sl, to, slid).1));
        }
    }
    (assigned, allowed)
}

/// Hops between switches: all cables, repeated as often as there are switches.
pub(super) fn distances(f: &Fabric) -> Vec<Vec<Option<u16>>> {
    let n = f.num_switches();
    let mut d: Vec<Vec<Option<u16>>> =
        (0..n).map(|s| (0..n).map(|t| (s == t).then_some(0)).collect()).collect();
    let cables: Vec<(usize, usize)> =
        (0..n).flat_map(|s| (1..=254).filter_map(move |port| Some((s, next(f, s, port)?.0)))).collect();
    for row in &mut d {
        for _ in 0..n {
            for &(a, b) in &cables {
                if let Some(x) = row[a] {
                    row[b] = Some(row[b].map_or(x + 1, |y| y.min(x + 1)));
                }
            }
        }
    }
    d
}

/// The edges that remain after repeatedly removing those to a vertex without outgoing edges.
pub(super) fn without_dead_ends(mut waits: Waits) -> Waits {
    loop {
        let (before, begins) = (waits.len(), waits.iter().map(|w| w.0).collect::<BTreeSet<_>>());
        waits.retain(|w| begins.contains(&w.1));
        if waits.len() == before {
            return waits;
        }
    }
}

/// For each remaining virtual channel of a graph: all those that it waits for, directly or not, and over how
/// many edges.
fn reach(waits: &Waits) -> BTreeMap<Lane, BTreeMap<Lane, usize>> {
    let left = without_dead_ends(waits.clone());
    let from = |v: Lane| {
        let mut met = BTreeMap::new();
        let mut level = BTreeSet::from([v]);
        for steps in 1.. {
            let after = level.iter().flat_map(|&v| left.range((v, (0, 0, 0))..=(v, (usize::MAX, 255, 255))));
            level = after.map(|w| w.1).filter(|w| !met.contains_key(w)).collect();
            met.extend(level.iter().map(|&w| (w, steps)));
            if level.is_empty() {
                break;
            }
        }
        met
    };
    left.iter().map(|w| (w.0, from(w.0))).collect()
}

/// The virtual channels that wait for a given one and that it waits for.
fn component(reach: &BTreeMap<Lane, BTreeMap<Lane, usize>>, v: Lane) -> Vec<Lane> {
    let back = |w: &Lane| reach.get(w).is_some_and(|after| after.contains_key(&v));
    reach[&v].keys().copied().filter(back).collect()
}

/// The number of sets of virtual channels that all wait for each other.
pub(super) fn components(waits: &Waits) -> usize {
    let reach = reach(waits);
    let all: BTreeSet<Vec<Lane>> = reach.keys().map(|&v| component(&reach, v)).collect();
    all.iter().filter(|c| !c.is_empty()).count()
}

/// The length of the shortest cycle in the component of a virtual channel.
pub(super) fn shortest(waits: &Waits, v: Lane) -> usize {
    let reach = reach(waits);
    component(&reach, v).iter().map(|v| reach[v][v]).min().expect("it is in a cycle")
}

/// Data VLs that both ends of a link between switches can operate.
pub(super) fn operates(f: &Fabric, s: usize, port: u8) -> u8 {
    let of = |s: usize, port: u8| f.switch(SwitchId::at(s)).ports[usize::from(port)].data_vls.unwrap_or(15);
    next(f, s, port).map_or(15, |(to, in_port)| of(s, port).min(of(to, in_port)))
}

/// The properties of some tables; names as in [`Verdict`](crate::verify::Verdict).
#[derive(Default)]
pub(super) struct Truth {
    pub(super) unreachable: bool,
    pub(super) looping: bool,
    pub(super) illegal: bool,
    /// A packet from an untrusted port reaches another switch.
    pub(super) foreign: bool,
    pub(super) waits: Waits,
    pub(super) waits_adapters: Waits,
    pub(super) lanes: BTreeSet<Lane>,
    pub(super) cyclic_components: usize,
    /// Of the adapter pairs whose packets arrive by the entries: (hops, least possible hops).
    pub(super) pairs: Vec<(u16, u16)>,
    pub(super) diameter: u16,
    pub(super) diameter_all: u16,
    pub(super) vls: BTreeSet<u8>,
    pub(super) vls_all: BTreeSet<u8>,
    pub(super) sls: Sls,
    pub(super) sls_all: Sls,
}

impl Truth {
    pub(super) fn of(f: &Fabric, r: &Routes, policy: SlPolicy) -> Self {
        let mut t = Self { foreign: foreign(f, r), ..Self::default() };
        let distance = distances(f);
        let ends =
            || (0..f.endports().len()).map(EndPortId::at).filter(|&e| f.endport(e).attachment.is_some());
        let on = |e: EndPortId| f.endport(e).attachment.map_or(0, |(s, _)| s.index());
        for (s, b) in (0..f.num_switches()).flat_map(|s| ends().map(move |b| (s, b))) {
            t.diameter_all = t.diameter_all.max(distance[s][on(b)].unwrap_or(0));
        }
        for (a, b) in ends().flat_map(|a| ends().map(move |b| (a, b))) {
            let (from, to) = (f.endport(a), f.endport(b));
            let adapters = from.is_adapter() && to.is_adapter();
            if let Some(d) = distance[on(a)][on(b)] {
                t.diameter = t.diameter.max(if adapters { d } else { 0 });
            }
            for dlid in to.lids().filter(|_| a != b) {
                let (assigned, allowed) = sls(f, r, policy, a, b, dlid);
                t.sls.extend(assigned.iter().filter(|_| adapters));
                t.sls_all.extend(assigned);
                let plain = walk(f, r, from, to, dlid, 0);
                if adapters && plain.end == End::Home {
                    t.pairs.push((plain.hops, distance[on(a)][on(b)].expect("it got there")));
                }
                t.looping |= plain.end == End::Loop;
                t.unreachable |= plain.end != End::Home;
                for sl in allowed.into_iter().filter(|_| plain.end == End::Home) {
                    let w = walk(f, r, from, to, dlid, sl);
                    t.unreachable |= w.dropped;
                    t.illegal |= w.lanes.iter().any(|&(s, port, vl)| vl >= operates(f, s, port));
                    t.lanes.extend(&w.lanes);
                    t.vls_all.extend(w.lanes.iter().map(|l| l.2));
                    t.waits.extend(w.lanes.windows(2).map(|w| (w[0], w[1])));
                    if adapters {
                        t.vls.extend(w.lanes.iter().map(|l| l.2));
                        t.waits_adapters.extend(w.lanes.windows(2).map(|w| (w[0], w[1])));
                    }
                }
            }
        }
        t.cyclic_components = components(&t.waits);
        t
    }

    pub(super) fn deadlock_free(&self) -> bool {
        without_dead_ends(self.waits.clone()).is_empty()
    }

    pub(super) fn is_safe(&self) -> bool {
        self.deadlock_free() && !self.unreachable && !self.looping && !self.illegal && !self.foreign
    }
}

/// Whether a switch forwards packets that arrive by an untrusted port to another switch.
fn foreign(f: &Fabric, r: &Routes) -> bool {
    f.switch_ids().any(|s| {
        let ports = &f.switch(s).ports;
        let numbers = || (0..ports.len()).map(|p| PortNum(p as u8));
        numbers().filter(|p| ports[p.index()].untrusted).any(|i| {
            let onward = numbers().filter(|o| next(f, s.index(), o.0).is_some());
            onward.into_iter().any(|o| (0..16).any(|sl| r.sl2vl.row(s, i, o).get(Sl(sl)).0 != 15))
        })
    })
}

/// A copy of a packet: the switch that makes it, the in port of the packet and the out port of the copy.
pub(super) type Copy = (usize, u8, u8);

/// All copies of a packet of a group that arrives at a switch by a port.
pub(super) fn copies(f: &Fabric, g: &McastGroup, s: usize, in_port: u8) -> BTreeSet<Copy> {
    let mut made = BTreeSet::new();
    let mut open = vec![(s, in_port)];
    while let Some((s, in_port)) = open.pop() {
        let ports = f.switch(SwitchId::at(s)).ports.len() as u8;
        let set = g.ports.iter().find(|(at, _)| at.index() == s).map(|(_, set)| *set).unwrap_or_default();
        for out in (0..ports).filter(|&out| out != in_port && set.contains(PortNum(out))) {
            if made.insert((s, in_port, out)) {
                open.extend(next(f, s, out));
            }
        }
    }
    made
}

/// End ports on the switches of a group: the possible senders, whether the switch's ports to them belong to
/// the group (these are its members), and all copies of their packets.
fn senders(f: &Fabric, g: &McastGroup) -> Vec<(EndPortId, bool, BTreeSet<Copy>)> {
    let ends = f.endports().iter().enumerate().filter_map(|(i, e)| Some((EndPortId::at(i), e.attachment?)));
    let with = ends.filter_map(|(e, (s, port))| {
        let (_, set) = g.ports.iter().find(|(at, set)| *at == s && !set.is_empty())?;
        Some((e, set.contains(port), copies(f, g, s.index(), port.0)))
    });
    with.collect()
}

/// Channels that follow one another on the path of some packet of a group.
pub(super) fn followers(f: &Fabric, g: &McastGroup) -> BTreeSet<(Copy, Copy)> {
    let mut pairs = BTreeSet::new();
    for (_, _, copies) in senders(f, g) {
        for &(s, in_port, out) in &copies {
            let Some((to, entered)) = next(f, s, out) else { continue };
            let ahead = copies.iter().filter(|c| (c.0, c.1) == (to, entered) && next(f, c.0, c.2).is_some());
            pairs.extend(ahead.map(|&c| ((s, in_port, out), c)));
        }
    }
    pairs
}

/// Whether the packets of a group loop.
pub(super) fn loops(f: &Fabric, g: &McastGroup) -> bool {
    let lane = |c: Copy| (c.0, c.2, 0);
    !without_dead_ends(followers(f, g).into_iter().map(|(a, b)| (lane(a), lane(b))).collect()).is_empty()
}

/// The pairs of members of which the second does not get the packets of the first.
pub(super) fn missed(f: &Fabric, g: &McastGroup) -> Vec<(EndPortId, EndPortId)> {
    let senders = senders(f, g);
    let members = || senders.iter().filter(|(_, member, _)| *member);
    let gets = |copies: &BTreeSet<Copy>, e: EndPortId| {
        f.endport(e)
            .attachment
            .is_some_and(|(s, port)| copies.iter().any(|c| (c.0, c.2) == (s.index(), port.0)))
    };
    let pairs = members().flat_map(|from| members().map(move |to| (from, to)));
    pairs.filter(|(a, b)| a.0 != b.0 && !gets(&a.2, b.0)).map(|(a, b)| (a.0, b.0)).collect()
}

/// The pairs of end ports of which the second gets packets of the first twice: it is at or behind a port by
/// which two copies of a packet leave.
pub(super) fn twice(f: &Fabric, g: &McastGroup) -> BTreeSet<(EndPortId, EndPortId)> {
    let ends = || f.endports().iter().enumerate().map(|(i, e)| (EndPortId::at(i), e.attachment));
    let mut pairs = BTreeSet::new();
    for (from, _, sent) in senders(f, g) {
        for &(s, in_port, out) in &sent {
            if sent.iter().any(|c| (c.0, c.2) == (s, out) && c.1 != in_port) {
                let ahead = next(f, s, out).map(|(to, entered)| copies(f, g, to, entered));
                let behind = ahead.unwrap_or_default().into_iter().map(|c| (c.0, c.2));
                for (s, out) in behind.chain([(s, out)]) {
                    let there = Some((SwitchId::at(s), PortNum(out)));
                    pairs.extend(ends().filter(|(_, at)| *at == there).map(|(to, _)| (from, to)));
                }
            }
        }
    }
    pairs
}

/// Whether an adapter on a switch of a group does not send packets with an SL.
pub(super) fn unsent(f: &Fabric, r: &Routes, g: &McastGroup, sl: u8) -> bool {
    senders(f, g).iter().any(|(e, _, _)| withheld(r, f.endport(*e), sl))
}

/// Whether a copy is dropped or needs a VL that an end of the link cannot operate.
pub(super) fn impossible(f: &Fabric, r: &Routes, (s, in_port, out): Copy, sl: u8) -> bool {
    vl(r, s, in_port, out, sl) >= operates(f, s, out).min(15)
}

/// The dependencies of the packets of a group with an SL.
pub(super) fn mcast_waits(f: &Fabric, r: &Routes, g: &McastGroup, sl: u8) -> Waits {
    let lane = |(s, in_port, out): Copy| (s, out, vl(r, s, in_port, out, sl));
    followers(f, g).into_iter().map(|(a, b)| (lane(a), lane(b))).collect()
}

/// Whether groups may have some SLs at the same time, each group those of them that it can have.
pub(super) fn sls_serve(f: &Fabric, r: &Routes, unicast: &Waits, sls: u16) -> bool {
    let mut waits = unicast.clone();
    for g in &r.multicast {
        let copies: BTreeSet<Copy> = senders(f, g).into_iter().flat_map(|(_, _, copies)| copies).collect();
        for sl in (0..16).filter(|sl| sls & g.sls.unwrap_or(u16::MAX) & 1 << sl != 0) {
            if unsent(f, r, g, sl) || copies.iter().any(|&c| impossible(f, r, c, sl)) {
                return false;
            }
            waits.extend(mcast_waits(f, r, g, sl));
        }
    }
    without_dead_ends(waits).is_empty()
}
