//! The virtual channel dependency graph, and the search for a credit loop in it.
//!
//! Vertices are (switch-to-switch channel, VL). An edge (c1, v1) -> (c2, v2) means that some packet that
//! holds a buffer of c1 on v1 waits for one of c2 on v2. Channels from and to adapters are left out: nothing
//! waits for a channel out of a source, and a destination always accepts packets (the two-buffer model of
//! Schneider, Bibartiu, Hoefler, "Ensuring Deadlock-Freedom in Low-Diameter InfiniBand Networks", section
//! II). Without a cycle no set of packets can wait for itself (Dally and Seitz).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use rayon::prelude::*;

use crate::fabric::{Channel, ChannelId, Fabric, SwitchId, Vl};

use super::Turns;

/// Number of vertices of a component from which the search for the shortest cycle starts.
const SEARCHES: usize = 64;

/// Virtual channels and dependencies found so far. The order in which threads add to it does not
/// matter.
pub(super) struct Graph {
    lanes: usize,
    /// Binary logarithm of the bits of a cell: as few as hold a bit for each lane, so that the caches hold many cells.
    width: u32,
    /// By turn x VL of the second channel, a cell: the VLs of the first. The first cell of a word is in its lowest bits.
    waits: Vec<AtomicU64>,
    /// By slot: VLs used on the channel out of it.
    used: Vec<AtomicU16>,
    /// VLs that packets between adapters use on channels.
    by_adapters: AtomicU16,
}

/// The contents of the finished graph.
pub(super) struct Cycles {
    pub(super) virtual_channels: usize,
    pub(super) dependencies: usize,
    /// Virtual channels of the strongly connected components that have a cycle.
    pub(super) components: Vec<Vec<(ChannelId, Vl)>>,
    /// A short cycle: each virtual channel waits for the next one and the last for the first.
    pub(super) example: Option<Vec<(ChannelId, Vl)>>,
}

/// The graph, taken apart from its beginnings.
struct Peeled {
    dependencies: usize,
    /// The virtual channels outside of cycles and not behind them, each before those that it waits for. By slot x VL.
    order: Vec<u32>,
    /// The others, ascending: those in cycles, and those that they wait for, directly or not. By channel x VL.
    left: Vec<usize>,
}

/// Where the cells of all turns behind a channel are.
#[derive(Clone)]
struct Behind {
    cells: Range<usize>,
    /// The slot of port 0 of the switch that the channel leads to.
    first_slot: usize,
    /// The VLs on which packets on the channel wait for others.
    waiting: u16,
}

impl Clone for Graph {
    fn clone(&self) -> Self {
        let waits = self.waits.iter().map(|word| AtomicU64::new(word.load(Ordering::Relaxed)));
        let used = self.used.iter().map(|vls| AtomicU16::new(vls.load(Ordering::Relaxed)));
        Self {
            lanes: self.lanes,
            width: self.width,
            waits: waits.collect(),
            used: used.collect(),
            by_adapters: AtomicU16::new(self.used_by_adapters()),
        }
    }
}

impl Graph {
    /// `lanes`: one more than the highest VL that can occur.
    pub(super) fn new(lanes: usize, turns: usize, slots: usize) -> Self {
        let width = lanes.next_power_of_two().ilog2();
        let words = (turns * lanes).div_ceil(64 >> width);
        Self {
            lanes,
            width,
            waits: (0..words).map(|_| AtomicU64::new(0)).collect(),
            used: (0..slots).map(|_| AtomicU16::new(0)).collect(),
            by_adapters: AtomicU16::new(0),
        }
    }

    /// One more than the highest VL that can occur.
    pub(super) fn lanes(&self) -> usize {
        self.lanes
    }

    /// The cell that records which VLs of the first channel of a turn wait for a VL of the second.
    pub(super) fn cell(&self, turn: usize, to: u8) -> usize {
        turn * self.lanes + usize::from(to)
    }

    /// Records that packets on the first channel of a turn, on any VL in `from`, wait for the
    /// cell's VL of the second.
    pub(super) fn depend(&self, cell: usize, from: u16) {
        assert!(u32::from(from) >> (1 << self.width) == 0, "no packet is on a VL beyond the lanes");
        let (word, shift) = self.place(cell);
        let (word, bits) = (&self.waits[word], u64::from(from) << shift);
        // They are nearly always set already; then this only reads.
        if word.load(Ordering::Relaxed) & bits != bits {
            word.fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// The word that a cell is in, and how far from its lowest bit.
    fn place(&self, cell: usize) -> (usize, u32) {
        let in_word = 6 - self.width;
        (cell >> in_word, ((cell & ((1 << in_word) - 1)) as u32) << self.width)
    }

    /// Bit 0 of each cell of a word.
    fn each(&self) -> u64 {
        u64::MAX / self.of_cell()
    }

    /// All bits of the first cell of a word.
    fn of_cell(&self) -> u64 {
        (1 << (1 << self.width)) - 1
    }

    /// The VLs that a cell records.
    fn wait(&self, cell: usize) -> u16 {
        let (word, shift) = self.place(cell);
        (self.waits[word].load(Ordering::Relaxed) >> shift & self.of_cell()) as u16
    }

    /// Calls `each` with the number of every cell of a range in which some VLs are set, and with these.
    ///
    /// - `vls`: the VLs to look at, in each cell of a word.
    fn for_each_cell(&self, cells: Range<usize>, vls: u64, mut each: impl FnMut(usize, u16)) {
        let in_word = 64 >> self.width;
        let words = cells.start / in_word..cells.end.div_ceil(in_word);
        for (at, word) in words.clone().zip(&self.waits[words]) {
            let mut left = word.load(Ordering::Relaxed) & vls;
            while left != 0 {
                let place = left.trailing_zeros() as usize >> self.width;
                let (cell, shift) = (at * in_word + place, place << self.width);
                if cells.contains(&cell) {
                    each(cell - cells.start, (left >> shift & self.of_cell()) as u16);
                }
                left &= !(self.of_cell() << shift);
            }
        }
    }

    /// Records that packets use these VLs of the channel out of a slot.
    pub(super) fn carry(&self, slot: usize, vls: u16) {
        set(&self.used[slot], vls);
    }

    /// Records that packets between adapters use these VLs of some channel.
    pub(super) fn carry_of_adapters(&self, vls: u16) {
        set(&self.by_adapters, vls);
    }

    /// VLs that packets between adapters use on any channel.
    pub(super) fn used_by_adapters(&self) -> u16 {
        self.by_adapters.load(Ordering::Relaxed)
    }

    /// VLs used on the channel out of a slot.
    pub(super) fn used(&self, slot: usize) -> u16 {
        self.used[slot].load(Ordering::Relaxed)
    }

    /// VLs used on any channel.
    pub(super) fn used_anywhere(&self) -> u16 {
        self.used.iter().fold(0, |all, vls| all | vls.load(Ordering::Relaxed))
    }

    /// Whether the graph has no cycle.
    ///
    /// Cost: that of [`Graph::cycles`] without the search of components.
    pub(super) fn is_acyclic(&self, fabric: &Fabric, turns: &Turns) -> bool {
        self.peel(fabric, turns).left.is_empty()
    }

    /// The virtual channels in use, each before all that it waits for; `None` if there is a cycle.
    ///
    /// Cost: that of [`Graph::is_acyclic`].
    pub(super) fn order(&self, fabric: &Fabric, turns: &Turns) -> Option<Vec<(ChannelId, Vl)>> {
        let Peeled { order, left, .. } = self.peel(fabric, turns);
        let mut channel = vec![None; self.used.len()];
        fabric.channels().iter().for_each(|(id, c)| channel[slot_of(fabric, c)] = Some(id));
        let named = |v: u32| {
            let (slot, vl) = (v as usize / self.lanes, v as usize % self.lanes);
            (self.used(slot) >> vl & 1 != 0).then_some((channel[slot]?, Vl(vl as u8)))
        };
        left.is_empty().then(|| order.into_iter().filter_map(named).collect())
    }

    /// Searches for cycles and splits them, if there are any, into strongly connected components.
    ///
    /// Cost: O(turns x lanes) time, times the number of VLs in use per channel; O(channels x lanes)
    /// memory.
    pub(super) fn cycles(&self, fabric: &Fabric, turns: &Turns) -> Cycles {
        self.cycles_left(fabric, turns, &self.peel(fabric, turns))
    }

    /// What [`Graph::cycles`] says, if there is no cycle.
    ///
    /// Cost: that of [`Graph::is_acyclic`].
    pub(super) fn if_acyclic(&self, fabric: &Fabric, turns: &Turns) -> Option<Cycles> {
        let peeled = self.peel(fabric, turns);
        peeled.left.is_empty().then(|| self.cycles_left(fabric, turns, &peeled))
    }

    fn cycles_left(&self, fabric: &Fabric, turns: &Turns, peeled: &Peeled) -> Cycles {
        let lanes = self.lanes;
        let after = |v: usize| self.after(fabric, turns, v);
        let Peeled { dependencies, ref left, .. } = *peeled;
        let components = if left.is_empty() { Vec::new() } else { cyclic_components(left, &after) };
        let named = |list: &[usize]| -> Vec<(ChannelId, Vl)> {
            list.iter().map(|v| (ChannelId::at(v / lanes), Vl((v % lanes) as u8))).collect()
        };
        let smallest = components.iter().min_by_key(|c| (c.len(), c[0]));
        let example = smallest.map(|component| named(&shortest_cycle(component, &after)));
        let components = components.iter().map(|c| named(c)).collect();
        let virtual_channels =
            self.used.iter().map(|u| u.load(Ordering::Relaxed).count_ones() as usize).sum();
        Cycles { virtual_channels, dependencies, components, example }
    }

    /// The virtual channels that a virtual channel waits for.
    pub(super) fn after<'a>(
        &'a self,
        fabric: &'a Fabric,
        turns: &'a Turns,
        v: usize,
    ) -> impl Iterator<Item = usize> + use<'a> {
        let (channels, lanes) = (fabric.channels(), self.lanes);
        let (first, vl) = (channels.get(ChannelId::at(v / lanes)), v % lanes);
        channels.out(first.to).flat_map(move |(c, second)| {
            let turn = turns.at(first.to.index(), second.out_port.0, first.in_port.0);
            let waits = (0..lanes).filter(move |to| self.wait(turn * lanes + to) >> vl & 1 != 0);
            waits.map(move |to| c.index() * lanes + to)
        })
    }

    /// Repeatedly removes the virtual channels that no remaining one waits for (Kahn).
    fn peel(&self, fabric: &Fabric, turns: &Turns) -> Peeled {
        let (channels, lanes) = (fabric.channels(), self.lanes);
        let counted = (0..fabric.num_switches()).into_par_iter();
        let counted = counted.map(|s| self.waiting_at(fabric, turns, SwitchId::at(s)));
        let counted: Vec<(Vec<u16>, Vec<u16>)> = counted.collect();
        let mut waiting = Vec::with_capacity(channels.num_slots() * lanes);
        counted.iter().for_each(|(counts, _)| waiting.extend_from_slice(counts));
        let behind = |c: &Channel| {
            let (to, in_port) = (c.to.index(), c.in_port.0);
            let first = turns.at(to, 0, in_port) * lanes;
            Behind {
                cells: first..first + turns.side[to] * lanes,
                first_slot: channels.first_slot(c.to),
                waiting: counted[to].1[usize::from(in_port)],
            }
        };
        let mut ahead = vec![None; channels.num_slots()];
        channels.as_slice().iter().for_each(|c| ahead[slot_of(fabric, c)] = Some(behind(c)));
        let slots = || channels.as_slice().iter().map(|c| slot_of(fabric, c));
        let dependencies = slots().flat_map(|slot| &waiting[slot * lanes..][..lanes]);
        let dependencies = dependencies.map(|&n| usize::from(n)).sum();

        let vertices = slots().flat_map(|slot| slot * lanes..(slot + 1) * lanes);
        let mut free: Vec<u32> = vertices.filter(|&v| waiting[v] == 0).map(|v| v as u32).collect();
        let mut order = Vec::with_capacity(channels.len() * lanes);
        while let Some(v) = free.pop() {
            let (slot, vl) = (v as usize / lanes, v as usize % lanes);
            let Some(behind) = &ahead[slot] else { continue };
            order.push(v);
            if behind.waiting >> vl & 1 == 0 {
                continue;
            }
            let first = behind.first_slot * lanes;
            self.for_each_cell(behind.cells.clone(), self.each() << vl, |cell, _| {
                waiting[first + cell] -= 1;
                if waiting[first + cell] == 0 {
                    free.push((first + cell) as u32);
                }
            });
        }
        let mut left = Vec::new();
        if order.len() < channels.len() * lanes {
            let of_channel =
                slots().enumerate().flat_map(|(c, slot)| (0..lanes).map(move |vl| (c, slot, vl)));
            let is_left = of_channel.filter(|(_, slot, vl)| waiting[slot * lanes + vl] > 0);
            left.extend(is_left.map(|(c, _, vl)| c * lanes + vl));
        }
        Peeled { dependencies, order, left }
    }

    /// By port of a switch x VL: how many virtual channels wait for it. By port: the VLs of the channel into it that
    /// wait for others.
    fn waiting_at(&self, fabric: &Fabric, turns: &Turns, s: SwitchId) -> (Vec<u16>, Vec<u16>) {
        let side = turns.side[s.index()];
        let (mut counts, mut waiting) = (vec![0_u16; side * self.lanes], vec![0; side]);
        // Every port by which a channel leaves is also a port by which a channel arrives.
        for (_, back) in fabric.channels().out(s) {
            let in_port = back.out_port;
            let first = turns.at(s.index(), 0, in_port.0) * self.lanes;
            self.for_each_cell(first..first + counts.len(), u64::MAX, |cell, vls| {
                // At most 254 ports of 15 VLs.
                counts[cell] += vls.count_ones() as u16;
                waiting[in_port.index()] |= vls;
            });
        }
        (counts, waiting)
    }
}

/// The slot of the port by which a channel leaves its switch.
fn slot_of(fabric: &Fabric, c: &Channel) -> usize {
    fabric.channels().first_slot(c.from) + c.out_port.index()
}

/// The bits are nearly always set already; then this only reads.
fn set(mask: &AtomicU16, bits: u16) {
    if mask.load(Ordering::Relaxed) & bits != bits {
        mask.fetch_or(bits, Ordering::Relaxed);
    }
}

/// Strongly connected components of more than one vertex, sorted. No vertex waits for itself, as a
/// channel connects two different switches.
fn cyclic_components<I: Iterator<Item = usize>>(
    left: &[usize],
    after: &impl Fn(usize) -> I,
) -> Vec<Vec<usize>> {
    let mut graph = DiGraph::<(), (), usize>::with_capacity(left.len(), left.len());
    for _ in left {
        graph.add_node(());
    }
    for (i, &v) in left.iter().enumerate() {
        for w in after(v) {
            let j = left.binary_search(&w).expect("what is waited for by what is left is left");
            graph.add_edge(NodeIndex::new(i), NodeIndex::new(j), ());
        }
    }
    let components = kosaraju_scc(&graph).into_iter().filter(|c| c.len() > 1);
    let mut components: Vec<Vec<usize>> =
        components.map(|c| c.into_iter().map(|i| left[i.index()]).collect()).collect();
    components.iter_mut().for_each(|c| c.sort_unstable());
    components
}

/// The shortest cycle through any of the first vertices of a component.
fn shortest_cycle<I: Iterator<Item = usize>>(component: &[usize], after: &impl Fn(usize) -> I) -> Vec<usize> {
    let mut best: Vec<usize> = Vec::new();
    for &origin in component.iter().take(SEARCHES) {
        let mut from = vec![usize::MAX; component.len()];
        let place = |v: usize| component.binary_search(&v).ok();
        let mut queue = VecDeque::from([origin]);
        'search: while let Some(v) = queue.pop_front() {
            for w in after(v) {
                let Some(i) = place(w) else { continue };
                if from[i] != usize::MAX {
                    continue;
                }
                from[i] = v;
                if w == origin {
                    break 'search;
                }
                queue.push_back(w);
            }
        }
        let mut cycle = vec![origin];
        let back = |v: usize| from[place(v).expect("the search stays within the component")];
        let mut v = back(origin);
        while v != origin {
            cycle.push(v);
            v = back(v);
        }
        cycle.reverse();
        if best.is_empty() || cycle.len() < best.len() {
            best = cycle;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};

    use super::Graph;

    /// Whatever the number of lanes, and so the width of a cell: what was recorded is there, and nothing else.
    #[test]
    fn cells_hold_what_was_recorded() {
        let mut dice = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        for lanes in 1..=15 {
            let turns = 50;
            let graph = Graph::new(lanes, turns, 1);
            let mut expected = vec![0_u16; turns * lanes];
            for _ in 0..40 {
                let (turn, to) = (dice.random_range(0..turns), dice.random_range(0..lanes) as u8);
                let cell = graph.cell(turn, to);
                let vls = dice.random_range(0..1_u32 << lanes) as u16;
                graph.depend(cell, vls);
                expected[cell] |= vls;
            }
            let graph = graph.clone();
            assert!((0..expected.len()).all(|cell| graph.wait(cell) == expected[cell]), "{lanes} lanes");
            for range in [0..expected.len(), 3 * lanes..20 * lanes, 7 * lanes..8 * lanes] {
                let mut found = vec![0_u16; range.len()];
                graph.for_each_cell(range.clone(), u64::MAX, |cell, vls| found[cell] = vls);
                assert_eq!(found, expected[range.clone()], "{lanes} lanes");
                let highest = lanes - 1;
                let mut found = vec![0_u16; range.len()];
                graph.for_each_cell(range.clone(), graph.each() << highest, |cell, vls| found[cell] = vls);
                let of_highest = expected[range].iter().map(|vls| vls & 1 << highest);
                assert!(of_highest.eq(found), "{lanes} lanes");
            }
        }
    }
}
