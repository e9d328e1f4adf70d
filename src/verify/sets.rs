//! The judge of sets of next hops: is a credit loop possible, whichever port each switch chooses for each packet?
//!
//! A packet that waits in a buffer waits for one buffer of the next switch: adaptive routing chooses the out port when a
//! packet arrives, and does not choose again. So one choice at each switch can close a loop, and there is none exactly
//! if the graph of all possible waits has no cycle (Dally and Seitz; with escape paths Duato's weaker condition would
//! do, but no switch of InfiniBand guarantees these).
//!
//! Nothing here is shared with [`verify`](super::verify()), which judges tables with one next hop.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::SlPolicy;
use crate::fabric::{ChannelId, EndPort, Fabric, Lid, PortNum, Sl, SwitchId, Vl};
use crate::tables::{McastGroup, PathSl, PortSets, Routes, Sl2Vl};

/// What the judge found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetsVerdict {
    /// A cycle of buffers, each of which may wait for the next and the last for the first; empty if there is none.
    pub credit_loop: Vec<(ChannelId, Vl)>,
    /// A switch and a LID for which a packet may be there and cannot go on: no port, one that leads nowhere, VL 15, or
    /// an SL that the adapters on that switch do not send.
    pub dead_end: Option<(SwitchId, Lid)>,
    /// A channel that packets may use on a VL that an end of it cannot operate, as far as the ends state their VLs.
    pub illegal: Option<(ChannelId, Vl)>,
    /// Buffers (channel and VL) that packets may use.
    pub buffers: usize,
    /// Entries (switch and LID) with more than one port.
    pub entries: usize,
}

impl SetsVerdict {
    /// Whether every packet arrives, whatever is chosen.
    ///
    /// A packet cannot go round for ever without a cycle of buffers, so nothing else is needed.
    pub fn is_safe(&self) -> bool {
        self.credit_loop.is_empty() && self.dead_end.is_none() && self.illegal.is_none()
    }

    /// As JSON, with names, GUIDs and ports instead of indices.
    pub fn to_json(&self, fabric: &Fabric) -> Value {
        let buffer =
            |(channel, vl): &(ChannelId, Vl)| format!("{} on VL {}", fabric.describe_channel(*channel), vl.0);
        let dead_end = self.dead_end.map(
            |(switch, lid)| json!({ "switch": fabric.switch(switch).guid.to_string(), "lid": lid.get() }),
        );
        json!({
            "entries": self.entries,
            "deadlock_free": self.credit_loop.is_empty(),
            "credit_loop": self.credit_loop.iter().map(buffer).collect::<Vec<_>>(),
            "dead_end": dead_end,
            "illegal_vl": self.illegal.as_ref().map(buffer),
            "buffers": self.buffers,
        })
    }
}

/// Judges the sets of some tables, if they have any, under an assumption about the SLs that senders use. Replies are taken
/// to have any SL.
///
/// Cost: that of [`verify_sets`].
pub(super) fn judge(fabric: &Fabric, routes: &Routes, policy: SlPolicy) -> Option<SetsVerdict> {
    let sets = routes.port_sets.as_ref()?;
    let path_sl = match policy {
        SlPolicy::AsTold => &routes.path_sl,
        SlPolicy::Fixed(sl) => &PathSl::one(sl),
        SlPolicy::Any | SlPolicy::WithReplies => &PathSl::Any(u16::MAX),
    };
    Some(verify_sets(fabric, sets, &routes.sl2vl, path_sl, &routes.multicast))
}

/// Judges sets of next hops: packets from every end port on a switch to every LID of the others, with each SL that the
/// pair may have, beside copies of multicast packets.
///
/// - `multicast`: groups whose SLs are not stated have SL 0. Whether these alone are right is not judged here.
///
/// Cost: O(D L P) time for D LIDs, L SLs that differ in some row, and P turns that sets allow towards one LID; O(V T)
/// memory with T turns of the fabric and V VLs in use.
pub fn verify_sets(
    fabric: &Fabric,
    sets: &PortSets,
    sl2vl: &Sl2Vl,
    path_sl: &PathSl,
    multicast: &[McastGroup],
) -> SetsVerdict {
    let mut waits = Waits::new(fabric);
    let mut verdict = SetsVerdict { entries: sets.adaptive(), ..SetsVerdict::default() };
    let alike = alike(sl2vl);
    for end in fabric.endports().iter().filter(|end| end.attachment.is_some()) {
        for lid in end.lids() {
            for &(sl, sls) in &alike {
                let walk = Walk { fabric, sets, sl2vl, path_sl, lid, end, sl, sls };
                walk.run(&mut waits, &mut verdict);
            }
        }
    }
    for group in multicast {
        let sls = group.sls.unwrap_or(1);
        for sl in (0..Sl::COUNT as u8).filter(|sl| sls >> sl & 1 != 0) {
            waits.add_copies(fabric, group, sl2vl, Sl(sl));
        }
    }
    verdict.illegal = waits.illegal(fabric);
    verdict.buffers = waits.used.iter().filter(|&&used| used).count();
    verdict.credit_loop = waits.cycle().into_iter().map(buffer).collect();
    verdict
}

/// SLs that have the same VL everywhere and that adapters all send or all do not, as one of them and the set of all.
fn alike(sl2vl: &Sl2Vl) -> Vec<(Sl, u16)> {
    let mut found: Vec<(Sl, u16)> = Vec::new();
    // Of the rows of adapters, only the SLs that they do not send matter.
    let unsent = sl2vl.adapters().drops();
    for sl in (0..Sl::COUNT as u8).map(Sl) {
        let rows = sl2vl.rows().iter().chain([&unsent]);
        let same = |other: Sl| rows.clone().all(|row| row.get(sl) == row.get(other));
        match found.iter_mut().find(|(other, _)| same(*other)) {
            Some((_, sls)) => *sls |= 1 << sl.0,
            None => found.push((sl, 1 << sl.0)),
        }
    }
    found
}

/// VLs, VL 15 among them.
const VLS: usize = 16;

fn number(channel: ChannelId, vl: Vl) -> usize {
    channel.index() * VLS + usize::from(vl.0)
}

fn buffer(number: usize) -> (ChannelId, Vl) {
    (ChannelId((number / VLS) as u32), Vl((number % VLS) as u8))
}

/// Which buffer may wait for which: a graph over (channel, VL).
struct Waits {
    next: Vec<BTreeSet<u32>>,
    used: Vec<bool>,
}

impl Waits {
    fn new(fabric: &Fabric) -> Self {
        let buffers = fabric.channels().len() * VLS;
        Self { next: vec![BTreeSet::new(); buffers], used: vec![false; buffers] }
    }

    /// Adds what copies of a group's packets wait for, from all end ports on its switches.
    ///
    /// Cost: O(turns of the group x VLs).
    fn add_copies(&mut self, fabric: &Fabric, group: &McastGroup, sl2vl: &Sl2Vl, sl: Sl) {
        let copies = |at: SwitchId, in_port: PortNum| {
            let out_ports = group.at(at).iter().filter(move |&port| port != in_port);
            out_ports.filter_map(move |port| {
                let channel = fabric.channels().at_port(at, port)?;
                let vl = sl2vl.row(at, in_port, port).get(sl);
                (vl.0 != Vl::MAX_DATA).then_some((channel, vl))
            })
        };
        let on = |s: SwitchId| fabric.endports_on(s).iter().filter_map(|&e| fabric.endport(e).attachment);
        let switches = group.ports.iter().map(|&(s, _)| s);
        let mut queue: Vec<(ChannelId, Vl)> =
            switches.flat_map(on).flat_map(|(s, port)| copies(s, port)).collect();
        let mut seen = BTreeSet::new();
        while let Some((channel, vl)) = queue.pop() {
            if !seen.insert((channel, vl)) {
                continue;
            }
            self.used[number(channel, vl)] = true;
            let arrived = fabric.channels().get(channel);
            for (next, vl_next) in copies(arrived.to, arrived.in_port) {
                self.next[number(channel, vl)].insert(number(next, vl_next) as u32);
                queue.push((next, vl_next));
            }
        }
    }

    /// The first buffer in use that an end of its channel cannot operate.
    fn illegal(&self, fabric: &Fabric) -> Option<(ChannelId, Vl)> {
        let used = (0..self.used.len()).filter(|&at| self.used[at]).map(buffer);
        used.into_iter().find(|(channel, vl)| {
            let c = fabric.channels().get(*channel);
            let stated = |s: SwitchId, port: PortNum| fabric.switch(s).ports[port.index()].data_vls;
            let ends = [stated(c.from, c.out_port), stated(c.to, c.in_port)];
            ends.into_iter().flatten().any(|vls| vl.0 >= vls)
        })
    }

    /// A cycle; empty if there is none.
    ///
    /// Cost: O(waits). Depth-first, with a stack of its own.
    fn cycle(&self) -> Vec<usize> {
        #[derive(Clone, Copy, PartialEq)]
        enum Seen {
            No,
            Open,
            Done,
        }
        let mut seen = vec![Seen::No; self.next.len()];
        for start in (0..self.next.len()).filter(|&start| self.used[start]) {
            if seen[start] != Seen::No {
                continue;
            }
            let mut stack = vec![(start, self.next[start].iter())];
            seen[start] = Seen::Open;
            while let Some((at, rest)) = stack.last_mut() {
                let Some(&to) = rest.next() else {
                    seen[*at] = Seen::Done;
                    stack.pop();
                    continue;
                };
                let to = to as usize;
                match seen[to] {
                    Seen::Done => {}
                    Seen::Open => {
                        return stack.iter().map(|(at, _)| *at).skip_while(|&at| at != to).collect();
                    }
                    Seen::No => {
                        seen[to] = Seen::Open;
                        stack.push((to, self.next[to].iter()));
                    }
                }
            }
        }
        Vec::new()
    }
}

/// The packets of some SLs to one LID.
struct Walk<'a> {
    fabric: &'a Fabric,
    sets: &'a PortSets,
    sl2vl: &'a Sl2Vl,
    path_sl: &'a PathSl,
    lid: Lid,
    end: &'a EndPort,
    /// One of the SLs, which have the same VL everywhere.
    sl: Sl,
    /// All of them.
    sls: u16,
}

impl Walk<'_> {
    /// Follows all of them at once.
    fn run(&self, waits: &mut Waits, verdict: &mut SetsVerdict) {
        let mut queue = Vec::new();
        let mut seen = BTreeSet::new();
        for source in self.fabric.switch_ids() {
            for &sender in self.fabric.endports_on(source) {
                let end = self.fabric.endport(sender);
                let Some((_, port)) = end.attachment else { continue };
                let sends = self.path_sl.allowed(self.fabric, sender, self.lid) & self.sls != 0;
                if !sends || end.lid == self.end.lid {
                    continue;
                }
                if end.is_adapter() && self.sl2vl.adapters().get(self.sl).0 == Vl::MAX_DATA {
                    verdict.dead_end.get_or_insert((source, self.lid));
                    continue;
                }
                queue.extend(self.onward(source, port, verdict));
            }
        }
        while let Some((channel, vl)) = queue.pop() {
            if !seen.insert((channel, vl)) {
                continue;
            }
            waits.used[number(channel, vl)] = true;
            let arrived = self.fabric.channels().get(channel);
            for (next, vl_next) in self.onward(arrived.to, arrived.in_port, verdict) {
                waits.next[number(channel, vl)].insert(number(next, vl_next) as u32);
                queue.push((next, vl_next));
            }
        }
    }

    /// The buffers that a packet may be sent on to from a switch.
    fn onward(&self, at: SwitchId, in_port: PortNum, verdict: &mut SetsVerdict) -> Vec<(ChannelId, Vl)> {
        let ports = self.sets.get(at, self.lid);
        let mut dead = ports.is_empty();
        let mut found = Vec::new();
        for out_port in ports.iter() {
            let home = self.end.attachment == Some((at, out_port));
            let channel = self.fabric.channels().at_port(at, out_port);
            if !home && channel.is_none() {
                dead = true;
                continue;
            }
            let vl = self.sl2vl.row(at, in_port, out_port).get(self.sl);
            // VL 15 drops the packet.
            if vl.0 == Vl::MAX_DATA {
                dead = true;
            } else {
                found.extend(channel.map(|channel| (channel, vl)));
            }
        }
        if dead {
            verdict.dead_end.get_or_insert((at, self.lid));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Settings, route};
    use crate::tables::{Lft, PortSet};
    use crate::topology::{FatTree, Ring, small_members};
    use crate::verify::verify;

    /// All ports on shortest paths.
    fn shortest(fabric: &Fabric, lft: &Lft) -> PortSets {
        let hops = crate::routing::Hops::new(fabric).expect("connected");
        let mut sets = PortSets::of_lft(fabric, lft);
        for end in fabric.endports() {
            let (home, _) = end.attachment.expect("all are attached");
            for s in fabric.switch_ids().filter(|&s| s != home) {
                let mut set = PortSet::default();
                let nearer = |to: SwitchId| hops.get(to, home) < hops.get(s, home);
                let out = fabric.channels().out(s).filter(|(_, c)| nearer(c.to));
                out.for_each(|(_, c)| set.insert(c.out_port));
                end.lids().for_each(|lid| sets.set(s, lid, set));
            }
        }
        sets
    }

    #[test]
    fn with_one_port_each_it_is_the_verdict_of_verify() {
        let (mut safe, mut unsafe_) = (0, 0);
        for (name, fabric) in small_members() {
            for engine in ["dfdn", "sssp", "minhop"] {
                let settings = Settings { engine: engine.to_owned(), ..Settings::default() };
                let Ok(routed) = route(&fabric, &settings) else { continue };
                let sets = PortSets::of_lft(&fabric, &routed.routes.lft);
                let found = verify_sets(&fabric, &sets, &routed.routes.sl2vl, &routed.routes.path_sl, &[]);
                let expected = verify(&fabric, &routed.routes);
                assert_eq!(found.credit_loop.is_empty(), expected.deadlock_free, "{name} {engine}");
                assert_eq!(found.dead_end, None, "{name} {engine}");
                *(if expected.deadlock_free { &mut safe } else { &mut unsafe_ }) += 1;
            }
        }
        assert!(safe > 10 && unsafe_ > 3, "{safe} safe, {unsafe_} not");
    }

    #[test]
    fn a_fat_tree_may_choose_any_spine_and_a_ring_may_not_choose_its_side() {
        let tree = FatTree { k: 4, levels: 3, down: None, cas: None }.build().unwrap();
        // Between hosts all shortest paths go up and then down. Between switches they need not.
        let routed = route(&tree, &Settings { engine: "minhop".to_owned(), ..Settings::default() }).unwrap();
        let mut builder = crate::fabric::FabricBuilder::from_fabric(&tree);
        for s in tree.switch_ids().filter(|&s| tree.num_adapters_on(s) == 0) {
            let port0 = &mut builder.node_mut(tree.switch_node_id(s)).ports[0];
            (port0.lid, port0.state) = (None, crate::fabric::LinkState::Down);
        }
        let hosts = builder.finish(crate::fabric::Lmc::default()).unwrap();
        let sets = shortest(&hosts, &routed.routes.lft);
        assert!(sets.adaptive() > 0);
        let verdict = verify_sets(&hosts, &sets, &routed.routes.sl2vl, &PathSl::one(Sl(0)), &[]);
        assert!(verdict.is_safe() && verdict.buffers > 0, "{verdict:?}");

        let ring = Ring { switches: 6, cas: 1 }.build().unwrap();
        let routed = route(&ring, &Settings { engine: "minhop".to_owned(), ..Settings::default() }).unwrap();
        let sets = shortest(&ring, &routed.routes.lft);
        let verdict = verify_sets(&ring, &sets, &Sl2Vl::new(&ring), &PathSl::one(Sl(0)), &[]);
        let loop_ = &verdict.credit_loop;
        assert!(!verdict.is_safe() && loop_.len() >= 6, "{verdict:?}");
        let channel = |i: usize| ring.channels().get(loop_[i % loop_.len()].0);
        assert!((0..loop_.len()).all(|i| channel(i).to == channel(i + 1).from), "it is a cycle");
    }

    #[test]
    fn a_port_that_leads_nowhere_is_found() {
        let ring = Ring { switches: 4, cas: 1 }.build().unwrap();
        let routed = route(&ring, &Settings::default()).unwrap();
        let (sl2vl, path_sl) = (&routed.routes.sl2vl, &routed.routes.path_sl);
        let whole = PortSets::of_lft(&ring, &routed.routes.lft);
        assert!(verify_sets(&ring, &whole, sl2vl, path_sl, &[]).is_safe());
        let lid = ring.endports()[0].lid;
        let far = ring.switch_ids().find(|&s| ring.endports()[0].attachment.is_some_and(|(at, _)| at != s));
        let far = far.expect("another switch");
        for port in [None, Some(200)] {
            let mut sets = whole.clone();
            let mut set = PortSet::default();
            port.into_iter().for_each(|port| set.insert(PortNum(port)));
            sets.set(far, lid, set);
            let verdict = verify_sets(&ring, &sets, sl2vl, path_sl, &[]);
            assert_eq!(verdict.dead_end, Some((far, lid)));
        }
    }
}
