//! The dependencies between virtual channels under a routing: a graph that grows and stays acyclic.

use std::sync::atomic::{AtomicU16, Ordering};

use rayon::prelude::*;

use super::adjacent::{Adjacent, Way};
use crate::fabric::{ChannelId, EndPortId, Fabric, Lid, PortNum, SwitchId, TurnNumbers, Vl, bits};
use crate::ordering::{TopologicalOrder, VirtualChannelOrder};
use crate::tables::{Lft, PathSl, Sl2Vl, SlClasses};

/// No channel.
const NONE: u32 = u32::MAX;

/// The dependencies that a growing tree has to check.
pub(super) trait Graph {
    /// The VLs, as bits, with which end ports of a class send into a channel.
    fn injected(&mut self, channel: ChannelId, class: usize) -> u16;

    /// The VL, as a bit, of a class after a turn; 0 if packets are dropped.
    fn vl(&self, first: ChannelId, second: ChannelId, class: usize) -> u16;

    /// The VLs, as bits, that a class may use after a turn, the current one first.
    fn choices(&self, first: ChannelId, second: ChannelId, class: usize) -> Vec<u16> {
        let now = self.vl(first, second, class);
        if now == 0 { Vec::new() } else { vec![now] }
    }

    /// Sets the VL, given as a bit, of a class after a turn: one of its choices.
    fn set_vl(&mut self, _: ChannelId, _: ChannelId, _: usize, _: u16) {}

    /// Adds the dependencies from some VLs of the first channel to a VL of the second, all given as bits.
    /// False if that would close a cycle; some may have been added then.
    fn depend(&mut self, first: ChannelId, held: u16, second: ChannelId, vl: u16) -> bool;

    /// Number of virtual channels visited so far: the cost of additions.
    fn visited(&self) -> usize {
        0
    }

    /// The state that [`Graph::roll_back`] restores.
    fn checkpoint(&self) -> usize {
        0
    }

    /// Undoes what was added and set since a checkpoint.
    fn roll_back(&mut self, _: usize) {}
}

#[derive(Clone)]
enum Change {
    /// An edge that was added: (channel, VL) to (channel, VL).
    Edge((ChannelId, usize), (ChannelId, usize)),
    /// A VL that was set: index into `vls`, old value.
    Vl(usize, u8),
}

/// The dependencies between virtual channels, (channel, VL): a packet that holds the first waits for the second.
/// A topological order tells whether an edge would close a cycle; such an edge is refused.
#[derive(Clone)]
pub(super) struct Dependencies<'a> {
    fabric: &'a Fabric,
    classes: &'a SlClasses,
    /// One more than the highest data VL in the tables.
    lanes: usize,
    turns: TurnNumbers,
    /// By turn x VL of the second channel: the VLs of the first.
    waits: Vec<u16>,
    /// By turn x class: the VL.
    vls: Vec<u8>,
    /// By class: the VLs of all turns, as bits.
    entered: Vec<u16>,
    /// By turn: the classes whose unicast packets take it, as bits; empty before [`Self::find_used`].
    used: Vec<u16>,
    /// By channel x class: the VLs with which the end ports of its switch send into it.
    injected: Vec<u16>,
    /// Of the virtual channels, numbered as channel x VL.
    order: TopologicalOrder,
    /// Changes that can be undone, the latest last.
    changes: Vec<Change>,
    /// The graph as bits, once a search needs it.
    adjacent: Option<Adjacent<'a>>,
    /// Virtual channels visited to maintain the order.
    visited: usize,
}

impl<'a> Dependencies<'a> {
    /// The virtual channels of some tables, without dependencies yet.
    ///
    /// Cost: O(turns x VLs) time and memory.
    pub(super) fn new(fabric: &'a Fabric, classes: &'a SlClasses, sl2vl: &Sl2Vl) -> Self {
        let channels = fabric.channels();
        let turns = TurnNumbers::new(fabric);
        let mut vls = Vec::with_capacity(turns.len() * classes.len());
        let mut entered = vec![0; classes.len()];
        let mut highest = 0;
        for (_, c) in channels.iter() {
            for (_, d) in channels.out(c.to) {
                let row = sl2vl.row(c.to, c.in_port, d.out_port);
                for (class, entered) in entered.iter_mut().enumerate() {
                    let vl = row.get(classes.sl(class));
                    highest = highest.max(vl.0 % Vl::MAX_DATA);
                    *entered |= vl.data_bit();
                    vls.push(vl.0);
                }
            }
        }
        let mut injected = Vec::with_capacity(channels.len() * classes.len());
        for (id, _) in channels.iter() {
            injected.extend((0..classes.len()).map(|class| classes.injected(fabric, sl2vl, id, class)));
        }
        let sent: u16 = injected.iter().fold(0, |all, vls| all | vls);
        highest = highest.max(sent.checked_ilog2().unwrap_or(0) as u8);
        let lanes = usize::from(highest) + 1;
        Self {
            fabric,
            classes,
            lanes,
            waits: vec![0; turns.len() * lanes],
            turns,
            vls,
            entered,
            used: Vec::new(),
            injected,
            order: TopologicalOrder::new(channels.len() * lanes),
            changes: Vec::new(),
            adjacent: None,
            visited: 0,
        }
    }

    /// Counts virtual channels that a copy of the graph visited.
    pub(super) fn count(&mut self, visited: usize) {
        self.visited += visited;
    }

    /// Replaces the graph by all dependencies that unicast can have if each ascends in an order: every turn from every
    /// VL that packets may use before it, if that ascends. Packets do not turn back.
    ///
    /// For any paths that obey the order, this contains all dependencies that [`Self::follow`] finds. As
    /// there, packets on a VL that no turn leads to are left out.
    ///
    /// Cost: O(turns x VLs) time.
    pub(super) fn assume(&mut self, order: &VirtualChannelOrder) {
        let (classes, lanes) = (self.classes.len(), self.lanes);
        let all = 0..self.fabric.channels().len() * lanes;
        let place = |v: usize| order.position(ChannelId::at(v / lanes), Vl((v % lanes) as u8));
        let places: Vec<u32> = all.map(place).collect();
        let mut held = self.injected.clone();
        self.for_turns(|turn, _, second| {
            for (class, &vl) in self.vls[turn * classes..][..classes].iter().enumerate() {
                held[second.index() * classes + class] |= Vl(vl).data_bit();
            }
        });
        let entered = self.entered_by_any();
        let mut waits = vec![0; self.waits.len()];
        self.for_turns(|turn, first, second| {
            for (class, &vl) in self.vls[turn * classes..][..classes].iter().enumerate() {
                if vl == Vl::MAX_DATA {
                    continue;
                }
                let place = places[self.vertex(second, usize::from(vl))];
                let from = bits(held[first.index() * classes + class] & entered);
                let ascending = from.filter(|&vl| places[self.vertex(first, vl)] < place);
                waits[turn * lanes + usize::from(vl)] |= ascending.fold(0, |all, vl| all | 1 << vl);
            }
        });
        self.replace(waits);
        self.order = TopologicalOrder::by_place(places);
        self.changes.clear();
    }

    /// Visits all turns that do not lead back, with number and channels.
    fn for_turns(&self, mut visit: impl FnMut(usize, ChannelId, ChannelId)) {
        let channels = self.fabric.channels();
        for (first, c) in channels.iter() {
            for second in channels.out_range(c.to).map(ChannelId::at).filter(|&second| second != c.reverse) {
                visit(self.turns.get(first, second), first, second);
            }
        }
    }

    /// Replaces the graph by the dependencies of all packets that the tables route, from and to every end port. False
    /// if they have a cycle.
    ///
    /// For each LID it follows the paths from every switch, up to where a packet with the same SL and VL has been.
    /// Packets that wait on a VL that no turn leads to are left out: no packet waits for that VL, so it is in no
    /// cycle.
    ///
    /// Cost: O(L S V) time with L LIDs, S switches and V VLs in use per channel, divided among all threads.
    pub(super) fn follow(&mut self, lft: &Lft, path_sl: &PathSl) -> bool {
        let waits = zeros(self.waits.len());
        self.unicast(lft, path_sl, self.entered_by_any(), |turn, vl, held, _| {
            set(&waits[turn * self.lanes + vl], held);
        });
        self.replace(inner(waits));
        self.changes.clear();
        self.sort()
    }

    /// Takes all edges anew.
    fn replace(&mut self, waits: Vec<u16>) {
        self.waits = waits;
        self.adjacent = None;
    }

    /// Finds an order anew; false if there is a cycle.
    fn sort(&mut self) -> bool {
        let vertices = self.fabric.channels().len() * self.lanes;
        let order = TopologicalOrder::of(vertices, |v, each| self.after(v, each));
        order.map(|order| self.order = order).is_some()
    }

    /// Visits the virtual channels that a virtual channel waits for.
    fn after(&self, v: u32, visit: &mut dyn FnMut(u32)) {
        let (channel, vl) = (ChannelId::at(v as usize / self.lanes), v as usize % self.lanes);
        // The turns out of a channel are numbered as the channels that they lead to.
        let out = self.fabric.channels().out_range(self.turns.switch(channel));
        let turns = self.turns.get(channel, ChannelId::at(out.start));
        let waits = &self.waits[turns * self.lanes..][..out.len() * self.lanes];
        for (held, next) in waits.iter().zip((out.start * self.lanes) as u32..) {
            if held >> vl & 1 != 0 {
                visit(next);
            }
        }
    }

    /// The number of a virtual channel.
    fn vertex(&self, channel: ChannelId, vl: usize) -> usize {
        channel.index() * self.lanes + vl
    }

    /// The VLs of all turns, as bits.
    fn entered_by_any(&self) -> u16 {
        self.entered.iter().fold(0, |all, vls| all | vls)
    }

    /// Visits the dependencies of unicast packets: turn, VL of the second channel, VLs of the first as bits,
    /// class. A dependency of several LIDs is visited several times. The order is unspecified.
    ///
    /// - `from`: VLs, as bits. Packets that wait on other VLs may be left out.
    fn unicast(
        &self,
        lft: &Lft,
        path_sl: &PathSl,
        from: u16,
        visit: impl Fn(usize, usize, u16, usize) + Sync,
    ) {
        let (fabric, channels) = (self.fabric, self.fabric.channels());
        let (switches, classes) = (fabric.num_switches(), self.classes.len());
        let lids: Vec<(Lid, SwitchId)> = fabric
            .endports()
            .iter()
            .filter_map(|e| e.attachment.map(|(s, _)| (e, s)))
            .flat_map(|(e, s)| e.lids().map(move |lid| (lid, s)))
            .collect();
        // Where the SL depends on the switch alone, one end port tells.
        let asked = if path_sl.is_by_switch() { 1 } else { usize::MAX };
        let classes_from = |s: SwitchId, lid: Lid| {
            let allowed = |e: &EndPortId| path_sl.allowed(fabric, *e, lid);
            self.classes.of(fabric.endports_on(s).iter().take(asked).fold(0, |all, e| all | allowed(e)))
        };
        let same = path_sl.any().map(|set| self.classes.of(set));
        lids.par_chunks(64).for_each(|chunk| {
            let mut seen = vec![0_u16; switches * classes];
            let mut next = vec![NONE; switches];
            for &(lid, root) in chunk {
                seen.fill(0);
                for (s, (next, &port)) in next.iter_mut().zip(lft.to(lid)).enumerate() {
                    let channel = channels.at_port(SwitchId::at(s), PortNum(port));
                    *next = channel.filter(|_| s != root.index()).map_or(NONE, |c| c.0);
                }
                for (source, &first) in next.iter().enumerate().filter(|&(_, &c)| c != NONE) {
                    let set = same.unwrap_or_else(|| classes_from(SwitchId::at(source), lid));
                    for class in bits(set) {
                        let (mut at, mut channel) = (source, first);
                        let mut held = self.injected[channel as usize * classes + class];
                        loop {
                            let here = &mut seen[at * classes + class];
                            held &= !*here;
                            *here |= held;
                            let to = self.turns.switch(ChannelId(channel)).index();
                            let ahead = next[to];
                            if held == 0 || ahead == NONE {
                                break;
                            }
                            // Nothing to report here, and every path from the next switch has been followed.
                            let followed = self.entered[class] & !seen[to * classes + class] == 0;
                            if followed && held & from == 0 {
                                break;
                            }
                            let turn = self.turns.get(ChannelId(channel), ChannelId(ahead));
                            let vl = self.vls[turn * classes + class];
                            if vl == Vl::MAX_DATA {
                                break;
                            }
                            visit(turn, usize::from(vl), held, class);
                            (at, channel, held) = (to, ahead, 1 << vl);
                        }
                    }
                }
            }
        });
    }

    /// Finds the turns that unicast packets take, for [`Graph::choices`]. From then on turns may get any VL, so
    /// packets on all VLs are followed.
    pub(super) fn find_used(&mut self, lft: &Lft, path_sl: &PathSl) {
        let used = zeros(self.turns.len());
        let waits: Vec<AtomicU16> = std::mem::take(&mut self.waits).into_iter().map(AtomicU16::new).collect();
        self.unicast(lft, path_sl, u16::MAX, |turn, vl, held, class| {
            set(&used[turn], 1 << class);
            set(&waits[turn * self.lanes + vl], held);
        });
        self.used = inner(used);
        self.replace(inner(waits));
        self.sort();
    }

    /// Adds an edge, or takes it out.
    fn set_edge(&mut self, a: (ChannelId, usize), b: (ChannelId, usize), there: bool) {
        let held = &mut self.waits[self.turns.get(a.0, b.0) * self.lanes + b.1];
        *held = if there { *held | 1 << a.1 } else { *held & !(1 << a.1) };
        if let Some(adjacent) = &mut self.adjacent {
            adjacent.set(a, b, there);
        }
    }

    /// Writes the VLs that were set into the tables.
    pub(super) fn write_vls(&self, sl2vl: &mut Sl2Vl) {
        for (first, c) in self.fabric.channels().iter() {
            for (second, d) in self.fabric.channels().out(c.to) {
                let mut row = sl2vl.row(c.to, c.in_port, d.out_port);
                for class in 0..self.classes.len() {
                    let vl = Vl(self.vls[self.turns.get(first, second) * self.classes.len() + class]);
                    row = self.classes.with(row, class, vl);
                }
                sl2vl.set(c.to, c.in_port, d.out_port, row);
            }
        }
    }

    /// Changes the order so that `a` comes before `b`; false if a path leads from `b` to `a`.
    fn order_before(&mut self, a: usize, b: usize) -> bool {
        let (low, high) = (self.order.place(b), self.order.place(a));
        if high < low {
            return true;
        }
        let mut adjacent = self.adjacent.take().unwrap_or_else(|| self.adjacent());
        let (order, visited) = (&self.order, &mut self.visited);
        let ahead = adjacent.reach(b, Way::Ahead, |v| order.place(v) <= high, Some(a), visited);
        let behind =
            ahead.is_some().then(|| adjacent.reach(a, Way::Behind, |v| order.place(v) >= low, None, visited));
        self.adjacent = Some(adjacent);
        let (Some(ahead), Some(Some(behind))) = (ahead, behind) else { return false };
        self.order.exchange(behind, ahead);
        true
    }

    /// The graph as bits.
    fn adjacent(&self) -> Adjacent<'a> {
        let mut adjacent = Adjacent::new(self.fabric, self.lanes);
        for (first, c) in self.fabric.channels().iter() {
            for second in self.fabric.channels().out_range(c.to).map(ChannelId::at) {
                let entry = self.turns.get(first, second) * self.lanes;
                for (vl, &held) in self.waits[entry..][..self.lanes].iter().enumerate() {
                    bits(held).for_each(|from| adjacent.set((first, from), (second, vl), true));
                }
            }
        }
        adjacent
    }
}

impl Graph for Dependencies<'_> {
    fn injected(&mut self, channel: ChannelId, class: usize) -> u16 {
        self.injected[channel.index() * self.classes.len() + class]
    }

    fn vl(&self, first: ChannelId, second: ChannelId, class: usize) -> u16 {
        Vl(self.vls[self.turns.get(first, second) * self.classes.len() + class]).data_bit()
    }

    /// All VLs in use, if it is known that no unicast packet of the class takes the turn.
    fn choices(&self, first: ChannelId, second: ChannelId, class: usize) -> Vec<u16> {
        let now = self.vl(first, second, class);
        let turn = self.turns.get(first, second);
        let mut list = vec![now];
        if self.used.get(turn).is_some_and(|used| used & 1 << class == 0) {
            list.extend((0..self.lanes).rev().map(|vl| 1 << vl).filter(|&vl| vl != now));
        }
        list.retain(|&vl| vl != 0);
        list
    }

    fn set_vl(&mut self, first: ChannelId, second: ChannelId, class: usize, vl: u16) {
        let entry = self.turns.get(first, second) * self.classes.len() + class;
        let new = vl.trailing_zeros() as u8;
        let old = std::mem::replace(&mut self.vls[entry], new);
        if new != old {
            self.changes.push(Change::Vl(entry, old));
        }
    }

    fn depend(&mut self, first: ChannelId, held: u16, second: ChannelId, vl: u16) -> bool {
        let vl = vl.trailing_zeros() as usize;
        let waits = self.waits[self.turns.get(first, second) * self.lanes + vl];
        bits(held & !waits).all(|from| {
            let ordered = self.order_before(self.vertex(first, from), self.vertex(second, vl));
            if ordered {
                self.set_edge((first, from), (second, vl), true);
                self.changes.push(Change::Edge((first, from), (second, vl)));
            }
            ordered
        })
    }

    fn visited(&self) -> usize {
        self.visited
    }

    fn checkpoint(&self) -> usize {
        self.changes.len()
    }

    /// The topological order stays valid.
    fn roll_back(&mut self, checkpoint: usize) {
        while self.changes.len() > checkpoint {
            match self.changes.pop().expect("there is one") {
                Change::Edge(first, second) => self.set_edge(first, second, false),
                Change::Vl(entry, vl) => self.vls[entry] = vl,
            }
        }
    }
}

fn zeros(len: usize) -> Vec<AtomicU16> {
    (0..len).map(|_| AtomicU16::new(0)).collect()
}

fn inner(list: Vec<AtomicU16>) -> Vec<u16> {
    list.into_iter().map(AtomicU16::into_inner).collect()
}

/// The bits are nearly always set already; then this only reads.
fn set(mask: &AtomicU16, bits: u16) {
    if mask.load(Ordering::Relaxed) & bits != bits {
        mask.fetch_or(bits, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Lmc;
    use crate::lanes::{LaneLimits, Lanes, ordered};
    use crate::ordering::{Labels, Rule, Tree, global_links_first, up_down_rank};
    use crate::routing::{Hops, Lookahead, NoLegalPath, ranked_sssp};
    use crate::topology::{fail_links, small_members};

    /// A small member: whole, damaged, and with several LIDs per adapter.
    fn variants(whole: Fabric) -> [Fabric; 3] {
        let spare = whole.channels().len() / 2 + 1 - whole.num_switches();
        let damaged = fail_links(&whole, spare.min(whole.channels().len() / 6), 1).unwrap();
        let several = damaged.with_lmc(Lmc::new(1).unwrap()).unwrap();
        [whole, damaged, several]
    }

    /// A rule of each kind; one with labels from 1 to 3.
    fn rules(fabric: &Fabric) -> [Rule; 3] {
        let (around, few) = (up_down_rank(fabric, SwitchId(0)), global_links_first(fabric, SwitchId(0)));
        let mut labels = Labels::ones(fabric);
        for (turn, label) in labels.by_turn_mut().iter_mut().enumerate() {
            *label = 1 + (turn * 7 % 5 % 3) as u8;
        }
        let ranks = vec![around.clone(), few.clone(), around.clone()];
        [Rule::OneVl(around), Rule::FirstTurnFree(few), Rule::Labelled { ranks, labels }]
    }

    /// Lanes and tables that obey a rule, with several SLs if one does not suffice.
    fn routed(fabric: &Fabric, rule: &Rule) -> (Lft, Lanes) {
        let hops = Hops::new(fabric).unwrap();
        let tree = Tree::new(fabric, &up_down_rank(fabric, SwitchId(0)), SwitchId(0));
        let stuck = if rule.vls() == 1 { NoLegalPath::Detour(Some(&tree)) } else { NoLegalPath::Break };
        let ranked = ranked_sssp(fabric, &hops, rule, Lookahead::Every, stuck);
        assert!(ranked.complete);
        let lanes = if ranked.broken.is_empty() {
            Lanes { sl2vl: rule.sl2vl(fabric), path_sl: PathSl::Any(u16::MAX), vls: rule.vls(), sls: 1 }
        } else {
            ordered(fabric, rule, &ranked.lft, &ranked.broken, LaneLimits { vls: 15, sls: 16 }).unwrap()
        };
        (ranked.lft, lanes)
    }

    #[test]
    fn what_is_assumed_under_an_order_has_all_dependencies_of_unicast() {
        let (mut several, mut more) = (0, 0);
        for (name, whole) in small_members() {
            for fabric in variants(whole) {
                for rule in rules(&fabric) {
                    let (lft, lanes) = routed(&fabric, &rule);
                    let classes = SlClasses::new(&lanes.sl2vl);
                    let mut real = Dependencies::new(&fabric, &classes, &lanes.sl2vl);
                    assert!(real.follow(&lft, &lanes.path_sl), "{name}");
                    let mut assumed = Dependencies::new(&fabric, &classes, &lanes.sl2vl);
                    assumed.assume(&rule.virtual_channel_order().unwrap());
                    // Some dependencies from a VL that no turn leads to may be found.
                    let entered = real.entered_by_any();
                    for (real, assumed) in real.waits.iter().zip(&assumed.waits) {
                        let missing = real & entered & !assumed;
                        assert_eq!(missing, 0, "{name}, {} SLs, {} VLs", lanes.sls, lanes.vls);
                    }
                    let place = |v: u32| assumed.order.place(v as usize);
                    for v in 0..assumed.order.places().len() as u32 {
                        assumed.after(v, &mut |w| assert!(place(v) < place(w), "{name}"));
                    }
                    several += usize::from(classes.len() > 1);
                    more += usize::from(real.waits != assumed.waits);
                }
            }
        }
        assert!(several > 10 && more > 10, "{several} with several SLs, {more} with more assumed");
    }
}
