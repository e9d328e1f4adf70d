//! Earlier tables, mended so that the way to them and back is free of credit loops.
//!
//! Where a link fails, some destinations lose paths. A rule says more than these tables need: it forbids turns that
//! close no cycle with the turns that paths really take. So nothing is asked of a rule here. The dependencies between
//! virtual channels that the earlier tables have are one graph, to which those of the new entries are added one
//! switch after the other, as long as there is no cycle.
//!
//! What is added is more than the paths of the new tables: the turns of packets that meet an old entry at one switch
//! and a new one at the next. Two graphs stay acyclic, those of the two steps in which the tables go to and fro:
//!
//! | graph | entries over channels that are gone | other entries |
//! |---|---|---|
//! | `ends` | old or new | new |
//! | `rest` | old | old or new |
//!
//! When a channel fails the rest goes first, and the entries over the channel, which drop their packets anyway, go
//! next. When it returns, these go back first. SL2VL rows stay, but for turns that no packet took: such a turn may get
//! another VL. While `rest` changes it has either VL.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rayon::prelude::*;

use super::demand::Demand;
use crate::fabric::{ChannelId, Fabric, Lid, PortNum, Sl, SwitchId, Vl};
use crate::ordering::Acyclic;
use crate::tables::{Lft, McastGroup, Sl2Vl};

/// Earlier tables with one SL, and what is left of their fabric.
pub struct Mending<'a> {
    /// The fabric of the tables; all numbers here are of this one.
    pub fabric: &'a Fabric,
    /// By channel: whether it is still there.
    pub alive: &'a [bool],
    /// By switch: whether it is still there. Without it none of its channels is.
    pub present: &'a [bool],
    /// The LIDs that have to be reached.
    pub lids: &'a [Lid],
    /// Entries; all paths are complete.
    pub lft: &'a Lft,
    /// Rows, alike for all SLs that senders may use.
    pub sl2vl: &'a Sl2Vl,
    /// One of these SLs.
    pub sl: Sl,
    /// VLs that they may have, from 0 on.
    pub most_vls: u8,
    /// Multicast trees.
    pub trees: &'a [McastGroup],
}

/// Mended tables.
pub struct Mended {
    /// The entries, by numbers of the earlier fabric.
    pub lft: Lft,
    /// Rows that differ: (switch, in port, out port), and the VL.
    pub rows: Vec<(SwitchId, PortNum, PortNum, Vl)>,
    /// By VL, by channel of the earlier fabric: a place in an order in which all packets ascend, lower VLs first.
    /// `None` where some packets go on to a lower VL.
    pub places: Option<Vec<Vec<u32>>>,
}

/// What counts where switches have a choice.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Whether the new entries must close no cycle with the multicast trees. If not, they still close none before
    /// the trees have been taken away.
    pub trees_stay: bool,
    /// Of paths of the same length, the one of the least load, and only then one that stays; else the other way round.
    pub by_load: bool,
}

impl Choice {
    /// All of them, those first that change the least.
    pub const ALL: [Self; 4] = [
        Self { trees_stay: true, by_load: false },
        Self { trees_stay: true, by_load: true },
        Self { trees_stay: false, by_load: false },
        Self { trees_stay: false, by_load: true },
    ];
}

/// What all choices have in common.
pub struct PreparedMending<'a> {
    mending: &'a Mending<'a>,
    turns: Turns,
    /// By channel: the VLs on which end ports of its switch send over it.
    injected: Vec<u16>,
    demand: Demand<'a>,
    /// Destinations that have lost a path.
    lost: Vec<Lid>,
    /// By turn, VLs of packets that take it: in the earlier tables, in what is left of them, and in the trees.
    before: Vec<u16>,
    left: Vec<u16>,
    trees: Vec<u16>,
    /// By channel: routes to the destinations that have lost nothing.
    load: Vec<u64>,
}

impl PreparedMending<'_> {
    /// Entries for the destinations that have lost a path, all others as they were. `None` where some switch finds no
    /// path, or the earlier tables are not acyclic.
    ///
    /// A switch with a lost path gets the shortest that closes no cycle. Where some find none, all switches may get new
    /// paths to that destination. Destinations follow one another in the order of LIDs. A turn that was free gets its
    /// old VL if that closes no cycle, else the lowest that closes none.
    ///
    /// Cost: for each destination with lost paths O(C log C) with C channels of the switches that have lost theirs, and the
    /// cost of [`Acyclic::add`] for each new dependency.
    pub fn mend(&self, choice: Choice) -> Option<Mended> {
        let &Self { mending, ref turns, ref demand, .. } = self;
        let sum = |a: &[u16], b: &[u16]| -> Vec<u16> { a.iter().zip(b).map(|(a, b)| a | b).collect() };
        let rest = Graph::new(self, &sum(&self.before, &self.trees))?;
        let with_trees = choice.trees_stay.then(|| sum(&self.left, &self.trees));
        let ends = Graph::new(self, with_trees.as_ref().unwrap_or(&self.left))?;
        let mut graphs = [ends, rest];
        let mut load = self.load.clone();
        let mut lft = mending.lft.clone();
        for &lid in &self.lost {
            let next = mending.route(lid, &mut graphs, &load, choice.by_load, demand)?;
            mending.count(lid, &next, demand, &mut load);
            for (s, channel) in
                mending.fabric.switch_ids().zip(&next).filter(|(s, _)| mending.present[s.index()])
            {
                if let &Some(channel) = channel {
                    lft.set(s, lid, mending.fabric.channels().get(channel).out_port);
                }
            }
        }
        let [ends, _] = graphs;
        let rows = mending.rows(turns, &ends);
        Some(Mended { lft, rows, places: ends.places(mending.fabric.channels().len()) })
    }
}

impl Mending<'_> {
    /// What all choices have in common.
    ///
    /// Cost: O(D S) with D LIDs and S switches, on all cores.
    pub fn prepare(&self) -> PreparedMending<'_> {
        let lost: Vec<Lid> = self.lids.iter().copied().filter(|&lid| self.has_lost(lid)).collect();
        let mut is_lost = vec![false; self.lft.lids()];
        lost.iter().for_each(|lid| is_lost[lid.index()] = true);
        let turns = Turns::new(self.fabric);
        let injected: Vec<u16> = self.fabric.channels().iter().map(|(c, _)| self.injected(c)).collect();
        let before = self.used(&turns, &injected, |lid, s| self.next(s, lid));
        let left = self.used(&turns, &injected, |lid, s| {
            let stays = !is_lost[lid.index()] || !self.present[s.index()] || self.is_whole(s, lid);
            self.next(s, lid).filter(|_| stays)
        });
        let trees = self.used_by_trees(&turns, &injected);
        let demand = Demand::new(self.fabric);
        let load = self.load(|lid| !is_lost[lid.index()], &demand);
        PreparedMending { mending: self, turns, injected, demand, lost, before, left, trees, load }
    }

    /// The rows of turns that have another VL now.
    fn rows(&self, turns: &Turns, ends: &Graph<'_>) -> Vec<(SwitchId, PortNum, PortNum, Vl)> {
        let channels = self.fabric.channels();
        let mut rows = Vec::new();
        for (first, c) in channels.iter() {
            for (second, d) in channels.out(c.to) {
                let vls = ends.vls_after[turns.of(first, second)];
                if vls != 1 << self.vl_after(first, second) {
                    rows.push((c.to, c.in_port, d.out_port, Vl(vls.trailing_zeros() as u8)));
                }
            }
        }
        rows
    }

    fn next(&self, s: SwitchId, lid: Lid) -> Option<ChannelId> {
        self.fabric.channels().at_port(s, PortNum(self.lft.to(lid)[s.index()]))
    }

    fn has_lost(&self, lid: Lid) -> bool {
        let mut present = self.fabric.switch_ids().filter(|s| self.present[s.index()]);
        present.any(|s| self.next(s, lid).is_some_and(|c| !self.alive[c.index()]))
    }

    fn target(&self, lid: Lid) -> Option<SwitchId> {
        let (s, _) = self.fabric.endport(self.fabric.owner_of(lid)?).attachment?;
        Some(s)
    }

    fn vl(&self, s: SwitchId, inp: PortNum, out: PortNum) -> u8 {
        self.sl2vl.row(s, inp, out).get(self.sl).0
    }

    /// The VLs on which end ports of a switch send over a channel.
    fn injected(&self, channel: ChannelId) -> u16 {
        let c = self.fabric.channels().get(channel);
        let ends = self.fabric.endports_on(c.from).iter().filter_map(|&e| self.fabric.endport(e).attachment);
        ends.fold(0, |vls, (_, port)| vls | 1 << self.vl(c.from, port, c.out_port))
    }

    /// Whether all channels of a path are still there.
    fn is_whole(&self, s: SwitchId, lid: Lid) -> bool {
        let mut at = s;
        for _ in 0..self.alive.len() {
            let Some(channel) = self.next(at, lid) else { return true };
            if !self.alive[channel.index()] {
                return false;
            }
            at = self.fabric.channels().get(channel).to;
        }
        false
    }

    /// By turn: the VLs of packets that take it.
    fn used(
        &self,
        turns: &Turns,
        injected: &[u16],
        next: impl Fn(Lid, SwitchId) -> Option<ChannelId> + Sync,
    ) -> Vec<u16> {
        let channels = self.fabric.channels();
        let nothing = || (vec![0_u16; turns.len], vec![0_u16; self.fabric.num_switches()]);
        let read = |(mut used, mut vls): (Vec<u16>, Vec<u16>), lid: Lid| {
            let hops: Vec<Option<ChannelId>> = self.fabric.switch_ids().map(|s| next(lid, s)).collect();
            let follow = |s: SwitchId| {
                let first = hops[s.index()]?;
                Some((first, hops[channels.get(first).to.index()]?))
            };
            for s in self.fabric.switch_ids() {
                vls[s.index()] = hops[s.index()].map_or(0, |c| injected[c.index()]);
            }
            for (first, second) in self.fabric.switch_ids().filter_map(follow) {
                vls[channels.get(first).to.index()] |= 1 << self.vl_after(first, second);
            }
            for s in self.fabric.switch_ids() {
                if let Some((first, second)) = follow(s) {
                    used[turns.of(first, second)] |= vls[s.index()];
                }
            }
            (used, vls)
        };
        let lids = (1..self.lft.lids()).into_par_iter().filter_map(|lid| Lid::new(lid as u16));
        let lids = lids.filter(|&lid| self.target(lid).is_some());
        lids.fold(nothing, read).map(|(used, _)| used).reduce(
            || vec![0; turns.len],
            |mut a, b| {
                a.iter_mut().zip(b).for_each(|(a, b)| *a |= b);
                a
            },
        )
    }

    /// The same for multicast.
    fn used_by_trees(&self, turns: &Turns, injected: &[u16]) -> Vec<u16> {
        let channels = self.fabric.channels();
        let mut used = vec![0; turns.len];
        for group in self.trees {
            let out = |s: SwitchId| group.at(s).iter().filter_map(move |port| channels.at_port(s, port));
            let follow = |first: ChannelId| {
                let c = channels.get(first);
                out(c.to).filter(move |&second| second != c.reverse)
            };
            let all: Vec<ChannelId> = self.fabric.switch_ids().flat_map(out).collect();
            let mut vls = injected.to_vec();
            for &first in &all {
                follow(first).for_each(|second| vls[second.index()] |= 1 << self.vl_after(first, second));
            }
            for &first in &all {
                follow(first).for_each(|second| used[turns.of(first, second)] |= vls[first.index()]);
            }
        }
        used
    }

    fn vl_after(&self, first: ChannelId, second: ChannelId) -> u8 {
        let channels = self.fabric.channels();
        let c = channels.get(first);
        self.vl(c.to, c.in_port, channels.get(second).out_port)
    }

    /// Routes by channel to some destinations, over the rates of the channels.
    fn load(&self, counts: impl Fn(Lid) -> bool, demand: &Demand<'_>) -> Vec<u64> {
        let mut load = vec![0; self.fabric.channels().len()];
        for &lid in self.lids.iter().filter(|lid| counts(**lid)) {
            let next: Vec<_> = self.fabric.switch_ids().map(|s| self.next(s, lid)).collect();
            self.count(lid, &next, demand, &mut load);
        }
        load
    }

    fn count(&self, lid: Lid, next: &[Option<ChannelId>], demand: &Demand<'_>, load: &mut [u64]) {
        let Some(owner) = self.fabric.owner_of(lid).map(|end| self.fabric.endport(end)) else { return };
        if !owner.is_adapter() {
            return;
        }
        let channels = self.fabric.channels();
        let weights = self.fabric.weights().by_channel();
        let (routes, times) = demand.to(owner);
        for s in self.fabric.switch_ids().filter(|s| self.present[s.index()]) {
            let mut at = s;
            for _ in 0..next.len() {
                let Some(channel) = next[at.index()] else { break };
                load[channel.index()] += routes[s.index()] * times * u64::from(weights[channel.index()]);
                at = channels.get(channel).to;
            }
        }
    }

    /// The next hop of each switch to a destination; `None` at the target, and for switches that are gone what they
    /// had.
    /// Where the switches that have lost their paths find none, all may move.
    fn route(
        &self,
        lid: Lid,
        graphs: &mut [Graph<'_>; 2],
        load: &[u64],
        by_load: bool,
        demand: &Demand<'_>,
    ) -> Option<Vec<Option<ChannelId>>> {
        let target = self.target(lid)?;
        let old: Vec<Option<ChannelId>> = self.fabric.switch_ids().map(|s| self.next(s, lid)).collect();
        let left = self.hops_left(target, &old);
        let mut nothing = vec![None; left.len()];
        nothing[target.index()] = Some(0);
        let owner = self.fabric.endport(self.fabric.owner_of(lid)?);
        let routes = if owner.is_adapter() { Some(demand.to(owner)) } else { None };
        [left, nothing].into_iter().find_map(|hops| {
            graphs.iter_mut().for_each(|graph| graph.begin(old.len()));
            let next = self.search(&old, hops, graphs, load.to_vec(), (by_load, routes));
            if next.is_none() {
                graphs.iter_mut().for_each(|graph| graph.back_to(0));
            }
            next
        })
    }

    /// - `hops`: of the paths that stay.
    /// - `routes`: from each switch, and how often they count.
    fn search(
        &self,
        old: &[Option<ChannelId>],
        mut hops: Vec<Option<u32>>,
        [ends, rest]: &mut [Graph<'_>; 2],
        mut load: Vec<u64>,
        (by_load, routes): (bool, Option<(&[u64], u64)>),
    ) -> Option<Vec<Option<ChannelId>>> {
        let channels = self.fabric.channels();
        let weights = self.fabric.weights().by_channel();
        for s in self.fabric.switch_ids() {
            let Some(channel) = old[s.index()] else { continue };
            if !self.present[s.index()] || hops[s.index()].is_some() {
                ends.add(s, channel, &[]).then_some(())?;
            }
            rest.add(s, channel, &[]).then_some(())?;
        }
        let mut next = old.to_vec();
        let cost = |next: &[Option<ChannelId>], load: &[u64], channel: ChannelId| {
            let after = |c: &ChannelId| next[channels.get(*c).to.index()];
            std::iter::successors(Some(channel), after).map(|c| load[c.index()]).sum::<u64>()
        };
        let mut open = BinaryHeap::new();
        let push =
            |open: &mut BinaryHeap<_>, next: &[Option<ChannelId>], load: &[u64], to: SwitchId, hops: u32| {
                for (_, back) in channels.out(to).filter(|(_, back)| self.alive[back.reverse.index()]) {
                    let (from, channel) = (back.to, back.reverse);
                    let is_new = old[from.index()] != Some(channel);
                    let cost = cost(next, load, channel);
                    open.push(Reverse((hops + 1, is_new && !by_load, cost, is_new, from, channel)));
                }
            };
        for s in self.fabric.switch_ids() {
            if let Some(hops) = hops[s.index()] {
                push(&mut open, &next, &load, s, hops);
            }
        }
        while let Some(Reverse((length, first, price, is_new, from, channel))) = open.pop() {
            if hops[from.index()].is_some() {
                continue;
            }
            let now = cost(&next, &load, channel);
            if now > price {
                open.push(Reverse((length, first, now, is_new, from, channel)));
                continue;
            }
            let gone = old[from.index()].filter(|c| !self.alive[c.index()]);
            let (in_ends, in_rest) = (ends.mark(), rest.mark());
            let mut fits = |vl: Option<u8>| {
                if let Some(vl) = vl {
                    ends.choose(channel, vl, &rest.taken);
                    if ends.mark() == in_ends {
                        return false;
                    }
                }
                let fits = ends.add(from, channel, &[])
                    && gone.is_none_or(|gone| ends.add(from, gone, &[]))
                    && (gone.is_some() || !is_new || rest.add(from, channel, &ends.vls_after));
                if !fits {
                    ends.back_to(in_ends);
                    rest.back_to(in_rest);
                }
                fits
            };
            if !fits(None) && !(0..self.most_vls).any(|vl| fits(Some(vl))) {
                continue;
            }
            hops[from.index()] = Some(length);
            next[from.index()] = Some(channel);
            if let Some((routes, times)) = routes {
                let mut at = Some(channel);
                while let Some(channel) = at {
                    let weight = u64::from(weights[channel.index()]);
                    load[channel.index()] += routes[from.index()] * times * weight;
                    at = next[channels.get(channel).to.index()];
                }
            }
            push(&mut open, &next, &load, from, length);
        }
        let missing = self.fabric.switch_ids().any(|s| self.present[s.index()] && hops[s.index()].is_none());
        (!missing).then_some(next)
    }

    /// Hops of the paths that are left.
    fn hops_left(&self, target: SwitchId, old: &[Option<ChannelId>]) -> Vec<Option<u32>> {
        let length = |s: SwitchId| {
            let mut at = s;
            for hops in 0..old.len() {
                if at == target {
                    return Some(hops as u32);
                }
                let channel = old[at.index()].filter(|c| self.alive[c.index()])?;
                at = self.fabric.channels().get(channel).to;
            }
            None
        };
        self.fabric.switch_ids().map(|s| length(s).filter(|_| self.present[s.index()])).collect()
    }
}

/// Numbers of turns.
struct Turns {
    /// By channel.
    after: Vec<u32>,
    out_port: Vec<u8>,
    len: usize,
}

impl Turns {
    fn new(fabric: &Fabric) -> Self {
        let channels = fabric.channels();
        let mut len = 0;
        let after = channels.as_slice().iter().map(|c| {
            let start = len;
            len += channels.slots_of(c.to);
            start as u32
        });
        let after = after.collect();
        Self { after, out_port: channels.as_slice().iter().map(|c| c.out_port.0).collect(), len }
    }

    fn of(&self, first: ChannelId, second: ChannelId) -> usize {
        self.after[first.index()] as usize + usize::from(self.out_port[second.index()])
    }
}

/// Dependencies between virtual channels, with the packets to one destination.
struct Graph<'a> {
    tables: &'a Mending<'a>,
    turns: &'a Turns,
    /// By channel: the VLs on which end ports of its switch send over it.
    injected: &'a [u16],
    order: Acyclic,
    /// By turn: the VL after it, as a set.
    vls_after: Vec<u16>,
    /// By turn: whether packets take it.
    taken: Vec<bool>,
    /// Whether packets may go on to a lower VL.
    descends: bool,
    /// By switch: the channels by which it may forward to the present destination.
    hops: Vec<Vec<ChannelId>>,
    /// By channel: VLs of packets to the present destination.
    load: Vec<u16>,
    journal: Vec<Change>,
}

enum Change {
    Dependency(usize, usize),
    Load(ChannelId, u16),
    Hop(SwitchId),
    Taken(usize),
    VlAfter(usize, u16),
}

impl<'a> Graph<'a> {
    /// `None` if the dependencies have a cycle.
    ///
    /// - `used`: by turn, VLs of packets that take it.
    fn new(prepared: &'a PreparedMending<'a>, used: &[u16]) -> Option<Self> {
        let PreparedMending { mending: tables, turns, injected, .. } = prepared;
        let channels = tables.fabric.channels();
        let mut graph = Self {
            tables,
            turns,
            injected,
            order: Acyclic::new(channels.len() * usize::from(tables.most_vls)),
            vls_after: vec![0; turns.len],
            taken: vec![false; turns.len],
            descends: false,
            hops: vec![Vec::new(); tables.fabric.num_switches()],
            load: vec![0; channels.len()],
            journal: Vec::new(),
        };
        for (first, c) in channels.iter() {
            for (second, _) in channels.out(c.to) {
                let turn = turns.of(first, second);
                let vl = tables.vl_after(first, second);
                graph.vls_after[turn] = 1 << vl;
                let fits = vl < tables.most_vls || used[turn] == 0;
                if !fits || !graph.depend(first, used[turn], second, 0) {
                    return None;
                }
            }
        }
        Some(graph)
    }

    fn vertex(&self, channel: ChannelId, vl: usize) -> usize {
        channel.index() * usize::from(self.tables.most_vls) + vl
    }

    /// The packets on a channel wait for another one.
    ///
    /// - `more`: further VLs after the turn.
    fn depend(&mut self, first: ChannelId, vls: u16, second: ChannelId, more: u16) -> bool {
        if vls == 0 {
            return true;
        }
        let turn = self.turns.of(first, second);
        if !std::mem::replace(&mut self.taken[turn], true) {
            self.journal.push(Change::Taken(turn));
        }
        let after = self.vls_after[turn] | more;
        for (from, to) in bits(vls).flat_map(|from| bits(after).map(move |to| (from, to))) {
            let (start, end) = (self.vertex(first, from), self.vertex(second, to));
            if self.order.has(start, end) {
                continue;
            }
            if !self.order.add(start, end) {
                return false;
            }
            self.descends |= from > to;
            self.journal.push(Change::Dependency(start, end));
        }
        true
    }

    /// The next destination.
    fn begin(&mut self, switches: usize) {
        self.journal.clear();
        self.hops.clear();
        self.hops.resize_with(switches, Vec::new);
        self.load.fill(0);
    }

    fn mark(&self) -> usize {
        self.journal.len()
    }

    fn back_to(&mut self, mark: usize) {
        while self.journal.len() > mark {
            match self.journal.pop() {
                Some(Change::Dependency(from, to)) => self.order.remove_last(from, to),
                Some(Change::Load(channel, vls)) => self.load[channel.index()] = vls,
                Some(Change::Hop(s)) => {
                    self.hops[s.index()].pop();
                }
                Some(Change::Taken(turn)) => self.taken[turn] = false,
                Some(Change::VlAfter(turn, vls)) => self.vls_after[turn] = vls,
                None => {}
            }
        }
    }

    /// Channels by which packets to the present destination come to a switch.
    fn entering(&self, s: SwitchId) -> Vec<ChannelId> {
        let into = self.tables.fabric.channels().out(s).map(|(_, c)| c.reverse);
        into.filter(|c| self.load[c.index()] != 0).collect()
    }

    /// Gives the turns to and from a channel that nobody takes another VL.
    ///
    /// - `other`: by turn, whether somebody takes it elsewhere.
    fn choose(&mut self, channel: ChannelId, vl: u8, other: &[bool]) {
        let c = self.tables.fabric.channels().get(channel);
        let before = self.entering(c.from).into_iter().map(|first| self.turns.of(first, channel));
        let behind = self.hops[c.to.index()].iter().map(|&second| self.turns.of(channel, second));
        for turn in before.chain(behind).collect::<Vec<_>>() {
            if !self.taken[turn] && !other[turn] && self.vls_after[turn] != 1 << vl {
                self.journal.push(Change::VlAfter(turn, self.vls_after[turn]));
                self.vls_after[turn] = 1 << vl;
            }
        }
    }

    /// Packets to the present destination may leave a switch by a channel. Returns whether there is no cycle; if there
    /// is one, what was added has to be taken [back](Self::back_to).
    ///
    /// - `more`: by turn, further VLs after it, if any.
    fn add(&mut self, s: SwitchId, channel: ChannelId, more: &[u16]) -> bool {
        if self.hops[s.index()].contains(&channel) {
            return true;
        }
        self.hops[s.index()].push(channel);
        self.journal.push(Change::Hop(s));
        let more = |turn: usize| more.get(turn).copied().unwrap_or(0);
        let mut vls = self.injected[channel.index()];
        for first in self.entering(s) {
            let turn = self.turns.of(first, channel);
            if !self.depend(first, self.load[first.index()], channel, more(turn)) {
                return false;
            }
            vls |= self.vls_after[turn] | more(turn);
        }
        let mut open = vec![(channel, vls)];
        while let Some((channel, vls)) = open.pop() {
            let load = self.load[channel.index()];
            let new = vls & !load;
            if new == 0 {
                continue;
            }
            self.journal.push(Change::Load(channel, load));
            self.load[channel.index()] = load | vls;
            let to = self.tables.fabric.channels().get(channel).to;
            for i in 0..self.hops[to.index()].len() {
                let second = self.hops[to.index()][i];
                let turn = self.turns.of(channel, second);
                if !self.depend(channel, new, second, more(turn)) {
                    return false;
                }
                open.push((second, self.vls_after[turn] | more(turn)));
            }
        }
        true
    }

    /// By VL and channel, places in the order.
    fn places(&self, channels: usize) -> Option<Vec<Vec<u32>>> {
        let place = |c, vl| self.order.place(self.vertex(ChannelId::at(c), vl));
        let of_vl = |vl| (0..channels).map(|c| place(c, vl)).collect();
        (!self.descends).then(|| (0..usize::from(self.tables.most_vls)).map(of_vl).collect())
    }
}

fn bits(set: u16) -> impl Iterator<Item = usize> {
    (0..16).filter(move |bit| set >> bit & 1 != 0)
}
