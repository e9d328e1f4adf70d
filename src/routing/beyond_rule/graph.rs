//! The dependencies between virtual channels, by the turns that packets take one after the other.

use rayon::prelude::*;

use super::Ascent;
use crate::fabric::{ChannelId, Fabric, SwitchId, Vl, bits};
use crate::ordering::{Edges, Labels, Rank, Rule, TopologicalOrder, VirtualChannelOrder, positions};
use crate::routing::turn_pairs::{Found, Pair, Pairs, by_other_number};
use crate::tables::McastGroup;

/// The next hop of each switch to one destination; `None` at the target.
pub(super) type NextHops = [Option<ChannelId>];

/// Two turns one after the other, by their numbers: of a packet, the first ones that it takes.
type Start = (Option<u32>, Option<u32>);

/// Labels that are tried for a change: those of all turns of a short cycle.
const LABELS: usize = 24;
/// Turns of packets that are counted at a time, as they take memory.
const PAIRS: usize = 2_000_000;
/// Shares of the destinations that are counted side by side.
const SHARES: usize = 8;

/// A turn of a multicast tree, and those that its packets take next.
type Branch = (u32, Vec<u32>);

/// What changed since the last [`Graph::settle`].
#[derive(Clone)]
enum Change {
    /// So many more or fewer destinations whose packets may begin with a turn.
    Uses(u32, i32),
    /// The same for a turn after another one.
    Pair(u32, u32, i32),
    /// The label that a turn had.
    Label(u32, u8),
}

/// Whether a dependency that closed a cycle is tried again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// It is.
    None,
    /// It is not.
    Refusals,
}

/// The edges of the graph, in bits: by turn to change them, by vertex to follow them. Of a switch with many links, few are
/// edges of a vertex.
#[derive(Clone)]
struct Waits<'a> {
    fabric: &'a Fabric,
    /// For the numbers of the turns.
    turns: &'a Labels,
    vls: usize,
    /// By turn: the VLs before it on which packets wait.
    before: Vec<u16>,
    /// By turn: the VL after it.
    after: Vec<u8>,
    /// Words of a set of channels: a bit for each channel out of one switch.
    words: usize,
    /// By vertex: the set of channels that edges lead to.
    leads_to: Vec<u64>,
    /// By vertex: the set of channels that edges come from, each as the channel back.
    comes_from: Vec<u64>,
}

impl<'a> Waits<'a> {
    /// Without edges.
    fn new(fabric: &'a Fabric, turns: &'a Labels, vls: u8) -> Self {
        let channels = fabric.channels();
        let words = fabric.switch_ids().map(|s| channels.out_range(s).len().div_ceil(64)).max().unwrap_or(0);
        let sets = vec![0; channels.len() * usize::from(vls) * words];
        let after = turns.by_turn().to_vec();
        Self {
            fabric,
            turns,
            vls: usize::from(vls),
            before: vec![0; after.len()],
            after,
            words,
            leads_to: sets.clone(),
            comes_from: sets,
        }
    }

    /// Changes the edges of a turn.
    ///
    /// - `first`, `second`: the channels before and after it.
    /// - `before`: the VLs before it on which packets wait.
    /// - `after`: the VL after it.
    fn set(&mut self, turn: usize, (first, second): (ChannelId, ChannelId), before: u16, after: u8) {
        let old = (self.before[turn], usize::from(self.after[turn]));
        if old == (before, usize::from(after)) {
            return;
        }
        let channels = self.fabric.channels();
        let start = channels.out_range(channels.get(second).from).start;
        let flip = |sets: &mut [u64], vertex: usize, channel: ChannelId| {
            let place = channel.index() - start;
            sets[vertex * self.words + place / 64] ^= 1 << (place % 64);
        };
        for vl in bits(old.0 ^ before) {
            flip(&mut self.leads_to, first.index() * self.vls + vl, second);
        }
        let back = channels.get(first).reverse;
        for (_, label) in [old, (before, usize::from(after))].into_iter().filter(|&(vls, _)| vls != 0) {
            flip(&mut self.comes_from, second.index() * self.vls + label, back);
        }
        (self.before[turn], self.after[turn]) = (before, after);
    }

    /// Calls `each` with the channels of the set of a vertex, in ascending order.
    ///
    /// - `switch`: the one that they leave.
    #[inline(always)]
    fn members(&self, sets: &[u64], vertex: u32, switch: SwitchId, mut each: impl FnMut(ChannelId)) {
        let start = self.fabric.channels().out_range(switch).start;
        for (&set, i) in sets[vertex as usize * self.words..][..self.words].iter().zip(0..) {
            bits(set).for_each(|place| each(ChannelId::at(start + 64 * i + place)));
        }
    }

    fn vertex(&self, channel: ChannelId, vl: usize) -> usize {
        channel.index() * self.vls + vl
    }

    fn channel(&self, vertex: u32) -> (ChannelId, usize) {
        (ChannelId::at(vertex as usize / self.vls), vertex as usize % self.vls)
    }
}

impl Edges for Waits<'_> {
    fn after(&self, vertex: u32, mut each: impl FnMut(u32)) {
        let (first, _) = self.channel(vertex);
        self.members(&self.leads_to, vertex, self.fabric.channels().get(first).to, |second| {
            let label = self.after[self.turns.turn(first, second)];
            each(self.vertex(second, label.into()) as u32);
        });
    }

    fn before(&self, vertex: u32, mut each: impl FnMut(u32)) {
        let (second, _) = self.channel(vertex);
        let channels = self.fabric.channels();
        self.members(&self.comes_from, vertex, channels.get(second).from, |back| {
            let first = channels.get(back).reverse;
            let vls = self.before[self.turns.turn(first, second)];
            bits(vls).for_each(|vl| each(self.vertex(first, vl) as u32));
        });
    }
}

/// The dependencies of tables with one SL whose packets start on VL 0.
#[derive(Clone)]
pub(super) struct Graph<'a> {
    waits: Waits<'a>,
    order: TopologicalOrder,
    /// By turn.
    labels: Vec<u8>,
    /// By turn: the channels before it and after it.
    ends: Vec<(ChannelId, ChannelId)>,
    /// By turn: destinations whose packets may begin with it.
    uses: Vec<u32>,
    /// By turn: the turns that packets come from, each with the number of destinations.
    from: Vec<Vec<(u32, u32)>>,
    journal: Vec<Change>,
    /// Changes of packets so far, also those that were taken back later, and all that was taken back. So a new label
    /// does not count, but to take it back does.
    changes: u64,
    /// By turn: the dependencies that [`take`](Self::take) found to close a cycle; a bit for the VLs before and after.
    refused: Vec<u64>,
}

impl<'a> Graph<'a> {
    /// Of the packets to some destinations; `None` where these close a cycle.
    ///
    /// - `ends`: the destinations.
    /// - `paths`: to a destination, by switch, the next hop.
    ///
    /// Cost: O(D S + T log d) on all cores, with D destinations, S switches, and T turns, of which d lead to the same one; that
    /// of [`TopologicalOrder::admit`] for each dependency that does not ascend in the order.
    pub(super) fn of_paths<T: Sync>(
        fabric: &'a Fabric,
        ascent: Ascent<'a>,
        ends: &[T],
        paths: impl Fn(&T) -> Vec<Option<ChannelId>> + Sync,
    ) -> Option<Self> {
        let mut graph = Self::new(fabric, ascent.order, ascent.labels, ascent.vls);
        let turns = graph.labels.len();
        let counted = |ends: &[T]| {
            let (mut found, mut uses) = (Found::new(turns), vec![0; turns]);
            for next in ends.iter().map(&paths) {
                for (turn, second) in (0..next.len()).map(|s| graph.start(&next, s)) {
                    let Some(first) = turn else { continue };
                    uses[first as usize] += 1;
                    second.into_iter().for_each(|second| found.push(Pair { first, second, weight: 1 }));
                }
            }
            (found, uses)
        };
        let mut pairs = Pairs::none(turns);
        let mut uses = vec![0; turns];
        for some in ends.chunks((PAIRS / fabric.num_switches().max(1)).max(1)) {
            let counted = some.par_chunks(some.len().div_ceil(SHARES)).map(counted);
            let (found, used): (Vec<Found>, Vec<Vec<u32>>) = counted.unzip();
            pairs = pairs.joined(&found, |weight| weight);
            used.iter().for_each(|used| uses.iter_mut().zip(used).for_each(|(all, some)| *all += some));
        }
        graph.uses = uses;
        let turned = pairs.map(|&Pair { first, second, weight }| (second, (first, weight as u32)));
        for (second, from) in by_other_number(&turned, |&(second, _)| second).into_iter().flatten() {
            graph.from[second as usize].push(from);
        }
        let all: Vec<u32> = (0..turns as u32).collect();
        graph.update(&all, Memory::None).is_none().then_some(graph)
    }

    /// Without packets.
    ///
    /// - `order`: in which those that come will mostly ascend.
    fn new(fabric: &'a Fabric, order: &VirtualChannelOrder, turns: &'a Labels, vls: u8) -> Self {
        let channels = fabric.channels();
        let labels = turns.by_turn().to_vec();
        let all = channels.iter().flat_map(|(c, _)| (0..vls).map(move |vl| (c, Vl(vl))));
        let places = positions(all.map(|(c, vl)| order.position(c, vl)));
        Self {
            waits: Waits::new(fabric, turns, vls),
            order: TopologicalOrder::by_place(places),
            uses: vec![0; labels.len()],
            refused: vec![0; labels.len()],
            from: vec![Vec::new(); labels.len()],
            labels,
            ends: turns.ends(fabric),
            journal: Vec::new(),
            changes: 0,
        }
    }

    fn vls(&self) -> u8 {
        self.waits.vls as u8
    }

    /// Adds the packets of a multicast tree.
    pub(super) fn add_tree(&mut self, group: &McastGroup) {
        self.branches(group).iter().for_each(|branch| self.add_branch(branch));
    }

    /// Takes the packets to a destination away.
    pub(super) fn remove(&mut self, next: &NextHops) {
        (0..next.len()).for_each(|s| self.count(self.start(next, s), -1));
        self.settle().expect("fewer dependencies close no cycle");
        self.forget();
    }

    /// What packets of a multicast tree wait for, turn by turn.
    fn branches(&self, group: &McastGroup) -> Vec<Branch> {
        let channels = self.waits.fabric.channels();
        let out = |s: SwitchId| group.at(s).iter().filter_map(move |port| channels.at_port(s, port));
        let follow = |first: ChannelId| {
            let c = *channels.get(first);
            out(c.to).filter(move |&second| second != c.reverse)
        };
        let all = self.waits.fabric.switch_ids().flat_map(out);
        let turns = all.flat_map(|first| follow(first).map(move |second| (first, second)));
        let branch = |(first, second)| {
            let next = follow(second).map(|third| self.turn(second, third));
            (self.turn(first, second), next.collect())
        };
        turns.map(branch).collect()
    }

    fn add_branch(&mut self, (turn, next): &Branch) {
        self.count((Some(*turn), None), 1);
        next.iter().for_each(|&next| self.change(Change::Pair(*turn, next, 1)));
    }

    /// Changes entries to one destination whose packets are there. The last change made decides.
    pub(super) fn reroute(&mut self, next: &mut NextHops, changes: &[(SwitchId, ChannelId)]) {
        // Packets from these, and from two hops behind them, begin with other turns.
        for &(s, to) in changes {
            let affected = self.behind(next, s);
            affected.iter().for_each(|s| self.count(self.start(next, s.index()), -1));
            next[s.index()] = Some(to);
            affected.iter().for_each(|s| self.count(self.start(next, s.index()), 1));
        }
    }

    /// How packets begin that take changed entries among their first three.
    fn starts_behind(&self, next: &NextHops, changes: &[(SwitchId, ChannelId)]) -> Vec<Start> {
        let affected = changes.iter().flat_map(|&(s, _)| self.behind(next, s));
        affected.map(|s| self.start(next, s.index())).collect()
    }

    /// A switch, and those that come to it over one or two hops.
    fn behind(&self, next: &NextHops, s: SwitchId) -> Vec<SwitchId> {
        let channels = self.waits.fabric.channels();
        let mut list = vec![s];
        let mut from = 0;
        for _ in 0..2 {
            let end = list.len();
            for at in from..end {
                let into = channels.out(list[at]).map(|(_, out)| out);
                list.extend(into.filter(|out| next[out.to.index()] == Some(out.reverse)).map(|out| out.to));
            }
            from = end;
        }
        list
    }

    fn turn(&self, first: ChannelId, second: ChannelId) -> u32 {
        self.waits.turns.turn(first, second) as u32
    }

    fn label(&self, turn: u32) -> u8 {
        self.labels[turn as usize]
    }

    fn set_label(&mut self, turn: u32, label: u8) {
        let old = std::mem::replace(&mut self.labels[turn as usize], label);
        self.journal.push(Change::Label(turn, old));
    }

    /// Makes the changes so far final where the graph stays free of cycles; else takes them back, and returns the turns of
    /// a cycle that they would close.
    ///
    /// Cost: that of [`TopologicalOrder::admit`] for each new dependency.
    pub(super) fn settle(&mut self) -> Result<(), Vec<u32>> {
        let touched = self.touched();
        let Some(refused) = self.update(&touched, Memory::None) else {
            self.journal.clear();
            return Ok(());
        };
        let (from, to) = self.ends_of(refused);
        // The last vertex first.
        let way = self.order.way(&self.waits, to, from).unwrap_or_default();
        let steps = way.windows(2).map(|step| [step[1], step[0]]).chain([[from as u32, to as u32]]);
        let channels = steps.map(|step| step.map(|vertex| self.waits.channel(vertex).0));
        let cycle = channels.map(|[first, second]| self.turn(first, second)).collect();
        self.take_back();
        Err(cycle)
    }

    /// Changes entries to one destination if that closes no cycle. Turns that no packets take yet may get another label for
    /// that. A dependency that closed a cycle before is not tried again.
    ///
    /// Cost: as [`settle`](Self::settle), for each label; little where a dependency is not tried again.
    pub(super) fn take(&mut self, next: &mut NextHops, changes: &[(SwitchId, ChannelId)]) -> bool {
        let old = entries(next, changes);
        changes.iter().for_each(|&(s, to)| next[s.index()] = Some(to));
        let starts = self.starts_behind(next, changes);
        put_back(next, &old);
        if self.takes(next, changes, &starts, &[], 0) {
            return true;
        }
        let is_unused = |turn: u32| self.uses[turn as usize] == 0 && self.from[turn as usize].is_empty();
        let turns = starts.iter().flat_map(|&(first, second)| [first, second]).flatten();
        let mut unused: Vec<u32> = turns.filter(|&turn| is_unused(turn)).collect();
        unused.sort_unstable();
        unused.dedup();
        (1..self.vls()).any(|label| {
            let differs = unused.iter().any(|&turn| self.label(turn) != label);
            differs && self.takes(next, changes, &starts, &unused, label)
        })
    }

    /// Changes entries to one destination, and labels of turns, if that closes no cycle and adds no dependency that closed one
    /// before. Else all stays as it was.
    ///
    /// - `starts`: how packets begin after the change.
    /// - `relabelled`: the turns, sorted, that get this `label`.
    fn takes(
        &mut self,
        next: &mut NextHops,
        changes: &[(SwitchId, ChannelId)],
        starts: &[Start],
        relabelled: &[u32],
        label: u8,
    ) -> bool {
        let label_of = |turn: u32| match relabelled.binary_search(&turn) {
            Ok(_) => label,
            Err(_) => self.label(turn),
        };
        let is_refused = |turn: u32, vl: u8| {
            let at = turn as usize;
            let is_there = self.waits.after[at] == label_of(turn) && self.waits.before[at] >> vl & 1 != 0;
            !is_there && self.refused[at] & self.bit(vl.into(), label_of(turn)) != 0
        };
        let begins_refused = |&(first, second): &Start| {
            first.is_some_and(|first| {
                is_refused(first, 0) || second.is_some_and(|second| is_refused(second, label_of(first)))
            })
        };
        if starts.iter().any(begins_refused) {
            return false;
        }
        let old = entries(next, changes);
        relabelled.iter().for_each(|&turn| self.set_label(turn, label));
        self.reroute(next, changes);
        let fits = self.admits(Memory::Refusals);
        if !fits {
            put_back(next, &old);
        }
        fits
    }

    /// Changes entries to one destination if that closes no cycle, with another label for one turn of the cycle if need be.
    /// Then what closed a cycle before may be tried again.
    ///
    /// Cost: as [`fit_by_label`](Self::fit_by_label).
    pub(super) fn take_by_label(
        &mut self,
        next: &mut NextHops,
        changes: &[(SwitchId, ChannelId)],
        most: u64,
    ) -> bool {
        let old = entries(next, changes);
        let fits = self.fit_by_label(most, |graph| {
            put_back(next, &old);
            graph.reroute(next, changes);
        });
        if fits {
            self.forget();
        } else {
            put_back(next, &old);
        }
        fits
    }

    /// Adds the packets of a multicast tree, turn by turn, as [`fit_by_label`](Self::fit_by_label). Returns whether all fit; if
    /// not, some are there.
    pub(super) fn take_tree(&mut self, group: &McastGroup) -> bool {
        let branches = self.branches(group);
        branches.iter().all(|branch| self.fit_by_label(u64::MAX, |graph| graph.add_branch(branch)))
    }

    /// Makes a change if that closes no cycle, with another label for one turn of the cycle if need be.
    ///
    /// - `most`: steps of the graph; no label is tried beyond.
    /// - `change`: called again after it was taken back.
    ///
    /// Cost: as [`settle`](Self::settle), for at most `LABELS` labels.
    fn fit_by_label(&mut self, most: u64, mut change: impl FnMut(&mut Self)) -> bool {
        change(self);
        let Err(cycle) = self.settle() else { return true };
        let others = cycle.iter().flat_map(|&turn| (1..self.vls()).map(move |label| (turn, label)));
        let others: Vec<(u32, u8)> = others.filter(|&(turn, label)| self.label(turn) != label).collect();
        others.into_iter().take(LABELS).any(|(turn, label)| {
            let within = self.steps() < most;
            within && {
                self.set_label(turn, label);
                change(self);
                self.admits(Memory::None)
            }
        })
    }

    /// Makes the changes so far final; takes them back where they close a cycle, or where they add a dependency that did so
    /// before and is not tried again. Returns whether they are final.
    fn admits(&mut self, memory: Memory) -> bool {
        let touched = self.touched();
        let refused = self.update(&touched, memory);
        match refused {
            None => self.journal.clear(),
            Some(_) => self.take_back(),
        }
        refused.is_none()
    }

    /// Forgets what closed a cycle: that may have changed.
    pub(super) fn forget(&mut self) {
        self.refused.fill(0);
    }

    /// Vertices that the searches of all changes met so far, and the changes.
    pub(super) fn steps(&self) -> u64 {
        self.order.visited() + self.changes
    }

    /// The rule that all packets obey. Channels on further VLs are in the order of their numbers.
    pub(super) fn into_rule(self) -> Rule {
        let rank = Rank::by_key(self.waits.fabric, |c, _| c);
        let mut labels = self.waits.turns.clone();
        labels.by_turn_mut().copy_from_slice(&self.labels);
        let vls = 1 + usize::from(self.labels.iter().copied().max().unwrap_or(0));
        let places = self.order.places().chunks_exact(self.waits.vls);
        let places = places.flat_map(|of_channel| &of_channel[..vls]).copied().collect();
        Rule::Ordered { order: VirtualChannelOrder::mixed(places, rank), labels }
    }

    /// The turns that packets from a switch take first.
    fn start(&self, next: &NextHops, s: usize) -> Start {
        let after = |c: ChannelId| next[self.waits.fabric.channels().get(c).to.index()];
        let Some((first, second)) = next[s].and_then(|first| Some((first, after(first)?))) else {
            return (None, None);
        };
        (Some(self.turn(first, second)), after(second).map(|third| self.turn(second, third)))
    }

    fn count(&mut self, (turn, next): Start, by: i32) {
        let Some(turn) = turn else { return };
        self.change(Change::Uses(turn, by));
        if let Some(next) = next {
            self.change(Change::Pair(turn, next, by));
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Uses(turn, by) => {
                let uses = &mut self.uses[turn as usize];
                *uses = uses.wrapping_add_signed(by);
            }
            Change::Pair(turn, next, by) => {
                let from = &mut self.from[next as usize];
                let place = from.binary_search_by_key(&turn, |&(turn, _)| turn).unwrap_or_else(|place| {
                    from.insert(place, (turn, 0));
                    place
                });
                from[place].1 = from[place].1.wrapping_add_signed(by);
                if from[place].1 == 0 {
                    from.remove(place);
                }
            }
            Change::Label(turn, label) => self.labels[turn as usize] = label,
        }
        self.journal.push(change);
        self.changes += 1;
    }

    /// The turns whose dependencies the changes may concern.
    fn touched(&self) -> Vec<u32> {
        let mut list = Vec::new();
        for change in &self.journal {
            match *change {
                Change::Uses(turn, _) | Change::Pair(_, turn, _) => list.push(turn),
                Change::Label(turn, _) => {
                    list.push(turn);
                    let (_, second) = self.ends[turn as usize];
                    let channels = self.waits.fabric.channels();
                    let next = channels.out(channels.get(second).to);
                    list.extend(next.map(|(third, _)| self.turn(second, third)));
                }
            }
        }
        list.sort_unstable();
        list.dedup();
        list
    }

    /// A dependency of a turn among those that were [refused](Self::refused). With more than eight VLs some have no bit.
    fn bit(&self, vl: usize, label: u8) -> u64 {
        1_u64.checked_shl((vl * self.waits.vls + usize::from(label)) as u32).unwrap_or(0)
    }

    /// The vertices of a dependency.
    fn ends_of(&self, (turn, vl): (u32, usize)) -> (usize, usize) {
        let (first, second) = self.ends[turn as usize];
        let label = usize::from(self.labels[turn as usize]);
        (self.waits.vertex(first, vl), self.waits.vertex(second, label))
    }

    /// Brings the edges up to date with labels and packets. Returns a dependency that closes a cycle, as its turn and the VL
    /// before; then some edges are missing.
    fn update(&mut self, touched: &[u32], memory: Memory) -> Option<(u32, usize)> {
        let needed = |&turn: &u32| {
            let first = u16::from(self.uses[turn as usize] > 0);
            let from = &self.from[turn as usize];
            from.iter().fold(first, |vls, &(before, _)| vls | 1 << self.labels[before as usize])
        };
        let needed: Vec<u16> = touched.iter().map(needed).collect();
        for (&turn, needed) in touched.iter().zip(&needed) {
            let turn = turn as usize;
            let is_same = self.waits.after[turn] == self.labels[turn];
            let kept = self.waits.before[turn] & if is_same { *needed } else { 0 };
            self.waits.set(turn, self.ends[turn], kept, self.labels[turn]);
        }
        for (&turn, needed) in touched.iter().zip(needed) {
            for vl in bits(needed & !self.waits.before[turn as usize]) {
                let (from, to) = self.ends_of((turn, vl));
                let known = self.bit(vl, self.labels[turn as usize]);
                let refused = &mut self.refused[turn as usize];
                if memory == Memory::Refusals && *refused & known != 0 {
                    return Some((turn, vl));
                }
                if !self.order.admit(&self.waits, from, to) {
                    *refused |= if memory == Memory::Refusals { known } else { 0 };
                    return Some((turn, vl));
                }
                let turn = turn as usize;
                self.waits.set(turn, self.ends[turn], self.waits.before[turn] | 1 << vl, self.labels[turn]);
            }
        }
        None
    }

    fn take_back(&mut self) {
        let mut touched = self.touched();
        let mut journal = std::mem::take(&mut self.journal);
        while let Some(change) = journal.pop() {
            self.change(match change {
                Change::Uses(turn, by) => Change::Uses(turn, -by),
                Change::Pair(turn, next, by) => Change::Pair(turn, next, -by),
                label => label,
            });
        }
        touched.extend(self.touched());
        touched.sort_unstable();
        touched.dedup();
        let cycle = self.update(&touched, Memory::None);
        debug_assert!(cycle.is_none(), "there was none before");
        self.journal.clear();
    }
}

/// The entries that changes replace.
fn entries(next: &NextHops, changes: &[(SwitchId, ChannelId)]) -> Vec<(SwitchId, Option<ChannelId>)> {
    changes.iter().map(|&(s, _)| (s, next[s.index()])).collect()
}

/// Puts entries back.
fn put_back(next: &mut NextHops, old: &[(SwitchId, Option<ChannelId>)]) {
    old.iter().for_each(|&(s, old)| next[s.index()] = old);
}
