//! All minimal paths to one switch, as lists that are fast to walk.

use rayon::prelude::*;

use super::Hops;
use crate::fabric::{Channel, ChannelId, Fabric, SwitchId};

/// A channel and the switch that it leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextHop {
    pub(super) channel: ChannelId,
    pub(super) to: SwitchId,
}

impl NextHop {
    /// What a list has where there is no next hop.
    pub(super) const NONE: Self = Self { channel: ChannelId(0), to: SwitchId(0) };
}

/// The first channel of some next hops over channels with consecutive numbers; `None` over other ones.
pub(super) fn in_line(next_hops: &[NextHop]) -> Option<ChannelId> {
    let first = next_hops.first()?.channel;
    next_hops.iter().zip(first.0..).all(|(hop, c)| hop.channel.0 == c).then_some(first)
}

/// A channel and the switch that it comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Predecessor {
    pub(super) channel: ChannelId,
    pub(super) from: SwitchId,
}

/// The minimal-path DAG of one destination switch: the other switches by distance, each with the channels
/// that lead one hop nearer, in port order. All lists are in the order in which they are walked.
pub(super) struct MinimalDag {
    pub(super) target: SwitchId,
    /// All switches by distance, then by GUID: the target first.
    pub(super) order: Vec<SwitchId>,
    /// By index in `order`: where its next hops begin in `next_hops`.
    first: Vec<u32>,
    next_hops: Vec<NextHop>,
    /// By switch: where the channels into it begin in `predecessors`.
    first_predecessor: Vec<u32>,
    /// Channels into a switch from one hop farther away, with the switch that they leave.
    predecessors: Vec<Predecessor>,
    /// By switch: where its next hops begin in `by_switch`, while the DAG is built.
    first_by_switch: Vec<u32>,
    by_switch: Vec<NextHop>,
}

impl MinimalDag {
    pub(super) fn new() -> Self {
        Self {
            target: SwitchId(0),
            order: Vec::new(),
            first: Vec::new(),
            next_hops: Vec::new(),
            first_predecessor: Vec::new(),
            predecessors: Vec::new(),
            first_by_switch: Vec::new(),
            by_switch: Vec::new(),
        }
    }

    /// Rebuilds it for distances of any kind, without predecessors.
    ///
    /// - `distance`: by switch, 0 for the target alone.
    /// - `nearer`: the channels of the DAG; each leads to a switch of less distance, and at least one leaves
    ///   each switch but the target.
    pub(super) fn rebuild(&mut self, fabric: &Fabric, distance: &[u16], nearer: impl Fn(&Channel) -> bool) {
        self.order.clear();
        self.order.extend(fabric.switch_ids());
        self.order.sort_by_key(|s| distance[s.index()]);
        self.target = self.order[0];
        self.first.clear();
        self.next_hops.clear();
        for &s in &self.order {
            self.first.push(self.next_hops.len() as u32);
            let out = fabric.channels().out(s).filter(|(_, c)| nearer(c));
            self.next_hops.extend(out.map(|(channel, c)| NextHop { channel, to: c.to }));
        }
        self.first.push(self.next_hops.len() as u32);
    }

    /// Sorts the switches by their distance, and the next hops likewise.
    fn finish(&mut self, row: &[u8]) {
        self.first_by_switch.push(self.by_switch.len() as u32);
        let mut first = [0_u32; 257];
        for &h in row {
            first[usize::from(h) + 1] += 1;
        }
        for h in 0..256 {
            first[h + 1] += first[h];
        }
        self.order.resize(row.len(), SwitchId(0));
        for (s, &h) in row.iter().enumerate() {
            let index = &mut first[usize::from(h)];
            self.order[*index as usize] = SwitchId::at(s);
            *index += 1;
        }
        self.first.resize(row.len() + 1, 0);
        self.next_hops.resize(self.by_switch.len(), NextHop::NONE);
        let mut last = 0;
        for (first, s) in self.first.iter_mut().zip(&self.order) {
            *first = last;
            let range = &self.first_by_switch[s.index()..][..2];
            let from = &self.by_switch[range[0] as usize..range[1] as usize];
            // Most lists are short: copying one by one is faster than a call.
            for (next_hop, hop) in self.next_hops[last as usize..].iter_mut().zip(from) {
                *next_hop = *hop;
            }
            last += from.len() as u32;
        }
        self.first[row.len()] = last;
    }

    /// Frees what only building it needs.
    fn settle(&mut self) {
        (self.first_by_switch, self.by_switch) = (Vec::new(), Vec::new());
    }

    /// Lists the next hops once more, by the switch that they lead to.
    fn find_predecessors(&mut self) {
        let n = self.order.len();
        self.first_predecessor.clear();
        self.first_predecessor.resize(n + 1, 0);
        for hop in &self.next_hops {
            self.first_predecessor[hop.to.index() + 1] += 1;
        }
        for s in 0..n {
            self.first_predecessor[s + 1] += self.first_predecessor[s];
        }
        let none = Predecessor { channel: ChannelId(0), from: SwitchId(0) };
        self.predecessors.resize(self.next_hops.len(), none);
        for (index, &from) in self.order.iter().enumerate() {
            for i in self.first[index]..self.first[index + 1] {
                let NextHop { channel, to } = self.next_hops[i as usize];
                let next = &mut self.first_predecessor[to.index()];
                self.predecessors[*next as usize] = Predecessor { channel, from };
                *next += 1;
            }
        }
        // Each start has moved to the next one.
        self.first_predecessor.copy_within(0..n, 1);
        self.first_predecessor[0] = 0;
    }

    /// Turns from the target to another switch with the same neighbours over as many channels each. The result is that of
    /// building it.
    ///
    /// - `row`: the distances of the other switch.
    ///
    /// Cost: O(S + d^2) with d channels of a switch, and the lists between the places of the two.
    fn turn_to_twin(&mut self, fabric: &Fabric, twin: SwitchId, row: &[u8]) {
        let (channels, old) = (fabric.channels(), self.target);
        let level = |s: SwitchId| row[s.index()];
        let end = 1 + self.order[1..].iter().take_while(|&&s| level(s) == 1).count();
        for index in 1..end {
            let to_twin = channels.out(self.order[index]).filter(|(_, c)| c.to == twin);
            let range = self.range(index);
            for (hop, (channel, _)) in self.next_hops[range].iter_mut().zip(to_twin) {
                *hop = NextHop { channel, to: twin };
            }
        }
        // All that leaves the old target leads nearer now.
        let from = self.order.iter().position(|&s| s == twin).expect("it is among all switches");
        let range = self.range(from);
        let count = range.len();
        for (hop, (channel, c)) in self.next_hops[range].iter_mut().zip(channels.out(old)) {
            *hop = NextHop { channel, to: c.to };
        }
        self.order[from] = old;
        let is_before =
            |i: usize| level(self.order[i]) < 2 || level(self.order[i]) == 2 && self.order[i] < old;
        let mut to = from;
        while !is_before(to - 1) {
            to -= 1;
        }
        while to + 1 < self.order.len() && is_before(to + 1) {
            to += 1;
        }
        let (low, high) = (from.min(to), from.max(to));
        let lists = &mut self.next_hops[self.first[low] as usize..self.first[high + 1] as usize];
        if to < from {
            self.order[low..=high].rotate_right(1);
            lists.rotate_right(count);
            (low + 1..=high).rev().for_each(|i| self.first[i] = self.first[i - 1] + count as u32);
        } else {
            self.order[low..=high].rotate_left(1);
            lists.rotate_left(count);
            (low + 1..=high).for_each(|i| self.first[i] = self.first[i + 1] - count as u32);
        }
        self.order[0] = twin;
        self.target = twin;
        if !self.predecessors.is_empty() {
            self.exchange_predecessors(fabric, (old, twin), end);
        }
    }

    /// Moves the predecessors of an old target to its twin, and those that the twin was to the old one.
    ///
    /// - `end`: of the neighbours in `order`.
    fn exchange_predecessors(&mut self, fabric: &Fabric, (old, twin): (SwitchId, SwitchId), end: usize) {
        let (low, high) = (old.index().min(twin.index()), old.index().max(twin.index()));
        let lists = self.first_predecessor[low] as usize..self.first_predecessor[high + 1] as usize;
        let count = self.predecessors(old).len();
        if old < twin {
            self.predecessors[lists].rotate_left(count);
            self.first_predecessor[low + 1..=high].iter_mut().for_each(|first| *first -= count as u32);
        } else {
            self.predecessors[lists].rotate_right(count);
            self.first_predecessor[low + 1..=high].iter_mut().for_each(|first| *first += count as u32);
        }
        let mut place = self.first_predecessor[twin.index()] as usize;
        for index in 1..end {
            let neighbour = self.order[index];
            for i in self.range(index) {
                self.predecessors[place] =
                    Predecessor { channel: self.next_hops[i].channel, from: neighbour };
                place += 1;
            }
            let first = &self.first_predecessor[neighbour.index()..][..2];
            let list = &mut self.predecessors[first[0] as usize..first[1] as usize];
            let of_twin = list.iter().filter(|p| p.from == twin).count();
            let begin = list.iter().position(|p| p.from == twin).expect("they are neighbours");
            let from_old = fabric.channels().out(old).filter(|(_, c)| c.to == neighbour);
            for (p, (channel, _)) in list[begin..].iter_mut().zip(from_old) {
                *p = Predecessor { channel, from: old };
            }
            // The others are sorted, as the switches two hops away are.
            let before = list.iter().filter(|p| p.from < old).count();
            if before < begin {
                list[before..begin + of_twin].rotate_right(of_twin);
            } else {
                list[begin..before + of_twin].rotate_left(of_twin);
            }
        }
    }

    /// The next hops of the switch at an index of `order`.
    #[inline]
    pub(super) fn next_hops(&self, index: usize) -> &[NextHop] {
        &self.next_hops[self.range(index)]
    }

    /// The next hops of all switches.
    pub(super) fn all_next_hops(&self) -> impl ExactSizeIterator<Item = &NextHop> {
        self.next_hops.iter()
    }

    /// Where the next hops of the switch at an index are among all next hops.
    #[inline]
    pub(super) fn range(&self, index: usize) -> std::ops::Range<usize> {
        self.first[index] as usize..self.first[index + 1] as usize
    }

    /// The channels into a switch from one hop farther away.
    #[inline]
    pub(super) fn predecessors(&self, switch: SwitchId) -> &[Predecessor] {
        let first = &self.first_predecessor[switch.index()..][..2];
        &self.predecessors[first[0] as usize..first[1] as usize]
    }
}

/// Destinations whose DAGs are built together: two words of a byte each, see [`build`].
const CHUNK: usize = 16;

/// One in each byte of a word.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Which lists of a DAG a walk needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lists {
    /// Next hops alone.
    NextHops,
    /// Predecessors too.
    All,
}

/// Builds the DAGs of at most [`CHUNK`] targets. Distances lie side by side, a byte for each target, so one
/// comparison of words tells for eight targets whether a channel leads nearer.
///
/// Cost: O(C + T S + E) with T the targets and E the next hops of all their DAGs.
fn build(dags: &mut Vec<MinimalDag>, fabric: &Fabric, hops: &Hops, targets: &[SwitchId], lists: Lists) {
    build_ahead(dags, fabric, hops, targets);
    if lists == Lists::All {
        dags.iter_mut().for_each(MinimalDag::find_predecessors);
    }
}

/// The same without predecessors.
fn build_ahead(dags: &mut Vec<MinimalDag>, fabric: &Fabric, hops: &Hops, targets: &[SwitchId]) {
    dags.resize_with(targets.len(), MinimalDag::new);
    let mut near = vec![[0_u64; CHUNK / 8]; fabric.num_switches()];
    for (i, (dag, &target)) in dags.iter_mut().zip(targets).enumerate() {
        dag.target = target;
        dag.first_by_switch.clear();
        dag.by_switch.clear();
        for (near, &h) in near.iter_mut().zip(hops.row(target)) {
            near[i / 8] |= u64::from(h) << (i % 8 * 8);
        }
    }
    let channels = fabric.channels();
    for s in fabric.switch_ids() {
        for dag in dags.iter_mut() {
            dag.first_by_switch.push(dag.by_switch.len() as u32);
        }
        let here = near[s.index()];
        for (channel, c) in channels.out(s) {
            let there = &near[c.to.index()];
            for (word, (&here, &there)) in here.iter().zip(there).enumerate() {
                // No byte overflows, as distances are at most Hops::MAX. A byte becomes zero where the ends
                // differ by exactly this hop, and the zero bytes are marked. Bytes beyond the last target
                // are zero at both ends and never marked.
                let differs = here ^ (there + ONES);
                let low = 0x7f * ONES;
                let mut marked = !(((differs & low) + low) | differs | low);
                while marked != 0 {
                    let i = word * 8 + (marked.trailing_zeros() / 8) as usize;
                    dags[i].by_switch.push(NextHop { channel, to: c.to });
                    marked &= marked - 1;
                }
            }
        }
    }
    for dag in dags.iter_mut() {
        dag.finish(hops.row(dag.target));
    }
}

/// The most memory that the DAGs of all switches may take for [`all`] to build them: some 1,000 switches of 20 ports.
const MOST_BYTES: usize = 200 << 20;

/// The DAGs of all switches, by switch. `None` where they might take more than [`MOST_BYTES`].
///
/// Cost: that of [`build`] for all switches, on all cores. Memory: at most 8 C + 20 S bytes for each switch.
pub(super) fn all(fabric: &Fabric, hops: &Hops) -> Option<Vec<MinimalDag>> {
    let switches = fabric.num_switches();
    // A link leads nearer in one direction at most.
    let next_hops = fabric.channels().len() / 2;
    let each = next_hops * (size_of::<NextHop>() + size_of::<Predecessor>()) + 20 * switches;
    if switches * each > MOST_BYTES {
        return None;
    }
    let targets: Vec<SwitchId> = fabric.switch_ids().collect();
    let chunks = targets.par_chunks(CHUNK).flat_map_iter(|targets| {
        let mut dags = Vec::new();
        build(&mut dags, fabric, hops, targets, Lists::All);
        dags.iter_mut().for_each(MinimalDag::settle);
        dags
    });
    Some(chunks.collect())
}

/// Calls `visit` with the DAG of each target in turn. Other threads build the next ones meanwhile, so with
/// more than one core only walking them takes time. DAGs that are [kept](Hops::keep_dags) are not built.
pub(super) fn for_each_target(
    fabric: &Fabric,
    hops: &Hops,
    targets: &[SwitchId],
    lists: Lists,
    mut visit: impl FnMut(&MinimalDag) + Send,
) {
    for_each_block(fabric, hops, targets, lists, |dags| {
        dags.iter().for_each(|dag| visit(dag));
        true
    });
}

/// As [`for_each_target`], with the DAGs of [`CHUNK`] targets at a time, as long as `visit` returns true.
pub(super) fn for_each_block(
    fabric: &Fabric,
    hops: &Hops,
    targets: &[SwitchId],
    lists: Lists,
    mut visit: impl FnMut(&[&MinimalDag]) -> bool + Send,
) {
    let mut chunks = targets.chunks(CHUNK);
    if let Some(all) = hops.dags(fabric) {
        let of = |targets: &[SwitchId]| targets.iter().map(|t| &all[t.index()]).collect::<Vec<_>>();
        // Like the loop below, it ends once `visit` says so.
        let _ = chunks.all(|targets| visit(&of(targets)));
        return;
    }
    let (mut now, mut next) = (Vec::new(), Vec::new());
    build(&mut now, fabric, hops, chunks.next().unwrap_or_default(), lists);
    while !now.is_empty() {
        let coming = chunks.next().unwrap_or_default();
        let dags: Vec<&MinimalDag> = now.iter().collect();
        let (go_on, ()) = rayon::join(|| visit(&dags), || build(&mut next, fabric, hops, coming, lists));
        if !go_on {
            return;
        }
        std::mem::swap(&mut now, &mut next);
    }
}

/// As [`for_each_target`] on the calling thread alone, for callers that share out the targets themselves.
pub(super) fn for_each_target_here(
    fabric: &Fabric,
    hops: &Hops,
    targets: &[SwitchId],
    lists: Lists,
    mut visit: impl FnMut(&MinimalDag),
) {
    let alone: Vec<Vec<SwitchId>> = targets.iter().map(|&target| vec![target]).collect();
    for_each_twin_here(fabric, hops, &alone, lists, |dag, _| visit(dag));
}

/// As [`for_each_target_here`] for lists of switches with the same neighbours each: a DAG is built for the first of each
/// list, and turned to the others. `visit` gets the target before on the same list, too: `None` for the first of a list,
/// and for all where DAGs are kept.
pub(super) fn for_each_twin_here(
    fabric: &Fabric,
    hops: &Hops,
    twins: &[Vec<SwitchId>],
    lists: Lists,
    mut visit: impl FnMut(&MinimalDag, Option<SwitchId>),
) {
    if let Some(all) = hops.dags(fabric) {
        return twins.iter().flatten().for_each(|t| visit(&all[t.index()], None));
    }
    let mut dags = Vec::new();
    for twins in twins.chunks(CHUNK) {
        let firsts: Vec<SwitchId> = twins.iter().map(|list| list[0]).collect();
        build(&mut dags, fabric, hops, &firsts, lists);
        for (dag, list) in dags.iter_mut().zip(twins) {
            visit(dag, None);
            for &twin in &list[1..] {
                let before = dag.target;
                dag.turn_to_twin(fabric, twin, hops.row(twin));
                visit(dag, Some(before));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Dragonfly, small_members};

    #[test]
    fn dags_of_large_fabrics_are_not_kept() {
        let f = Dragonfly::balanced(8).build().unwrap();
        let hops = Hops::new(&f).unwrap();
        hops.keep_dags(&f);
        assert!(hops.dags(&f).is_none());
    }

    /// Turned from each switch to each other one with the same neighbours, a DAG is as if it were built for that.
    #[test]
    fn a_dag_turned_to_a_twin_is_that_of_the_twin() {
        type Lists = (Vec<SwitchId>, Vec<Vec<u32>>, Vec<Vec<(u32, SwitchId)>>);
        let lists = |dag: &MinimalDag| -> Lists {
            let next_hops =
                (0..dag.order.len()).map(|i| dag.next_hops(i).iter().map(|hop| hop.channel.0).collect());
            let of = |s| dag.predecessors(SwitchId::at(s)).iter().map(|p| (p.channel.0, p.from)).collect();
            (dag.order.clone(), next_hops.collect(), (0..dag.order.len()).map(of).collect())
        };
        let mut turned = 0;
        for (name, f) in small_members() {
            let hops = Hops::new(&f).unwrap();
            let neighbours = |s: SwitchId| {
                let mut to: Vec<SwitchId> = f.channels().out(s).map(|(_, c)| c.to).collect();
                to.sort_unstable();
                to
            };
            for a in f.switch_ids() {
                for b in f.switch_ids().filter(|&b| b != a && neighbours(a) == neighbours(b)) {
                    let mut dags = Vec::new();
                    build(&mut dags, &f, &hops, &[a, b], super::Lists::All);
                    dags[0].turn_to_twin(&f, b, hops.row(b));
                    assert_eq!(dags[0].target, b);
                    assert_eq!(lists(&dags[0]), lists(&dags[1]), "{name}: {a:?} to {b:?}");
                    turned += 1;
                }
            }
        }
        assert!(turned > 100, "{turned}");
    }

    #[test]
    fn it_holds_every_channel_that_leads_nearer() {
        let alike = |kept| small_members().into_iter().map(move |(name, f)| (name, f, kept));
        for (name, f, kept) in alike(false).chain(alike(true)) {
            let hops = Hops::new(&f).unwrap();
            if kept {
                hops.keep_dags(&f);
                assert!(hops.dags(&f).is_some() && hops.clone().without_dags().dags(&f).is_none());
            }
            let targets: Vec<_> = (0..f.num_switches()).rev().map(SwitchId::at).collect();
            let mut seen = Vec::new();
            for_each_target(&f, &hops, &targets, Lists::All, |dag| {
                let row = hops.row(dag.target);
                assert!(dag.order.is_sorted_by_key(|s| (row[s.index()], *s)), "{name}");
                let mut predecessors = 0;
                for (index, &s) in dag.order.iter().enumerate() {
                    let nearer = f.channels().out(s).filter(|(_, c)| row[c.to.index()] < row[s.index()]);
                    let nearer: Vec<_> = nearer.map(|(id, c)| (id, c.to)).collect();
                    let next_hops: Vec<_> = dag.next_hops(index).iter().map(|s| (s.channel, s.to)).collect();
                    assert_eq!(next_hops, nearer, "{name}");
                    for b in dag.predecessors(s) {
                        let c = f.channels().get(b.channel);
                        assert_eq!((c.from, c.to), (b.from, s), "{name}");
                        assert_eq!(row[b.from.index()], row[s.index()] + 1, "{name}");
                        predecessors += 1;
                    }
                }
                assert_eq!(
                    (predecessors, dag.order.len()),
                    (dag.next_hops.len(), f.num_switches()),
                    "{name}"
                );
                seen.push(dag.target);
            });
            assert_eq!(seen, targets, "{name}");
        }
    }
}
