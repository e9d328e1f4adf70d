//! The virtual channel dependency graph, and the search for a credit loop in it.
//!
//! Vertices are (switch-to-switch channel, VL). An edge (c1, v1) -> (c2, v2) means that some packet that
//! holds a buffer of c1 on v1 waits for one of c2 on v2. Channels from and to adapters are left out: nothing
//! waits for a channel out of a source, and a destination always accepts packets (the two-buffer model of
//! Schneider, Bibartiu, Hoefler, "Ensuring Deadlock-Freedom in Low-Diameter InfiniBand Networks", section
//! II). Without a cycle no set of packets can wait for itself (Dally and Seitz).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU16, Ordering};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use rayon::prelude::*;

use crate::fabric::{ChannelId, Fabric, SwitchId, Vl};

use super::Turns;

/// Number of vertices of a component from which the search for the shortest cycle starts.
const SEARCHES: usize = 64;

/// Virtual channels and dependencies found so far. The order in which threads add to it does not
/// matter.
pub(super) struct Graph {
    lanes: usize,
    /// By turn x VL of the second channel: the VLs of the first.
    waits: Vec<AtomicU16>,
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
    /// The virtual channels outside of cycles and not behind them, each before those that it waits for.
    order: Vec<usize>,
    /// The others, ascending: those in cycles, and those that they wait for, directly or not.
    left: Vec<usize>,
}

impl Clone for Graph {
    fn clone(&self) -> Self {
        let copy = |list: &[AtomicU16]| -> Vec<AtomicU16> {
            list.iter().map(|x| AtomicU16::new(x.load(Ordering::Relaxed))).collect()
        };
        let by_adapters = AtomicU16::new(self.used_by_adapters());
        Self { lanes: self.lanes, waits: copy(&self.waits), used: copy(&self.used), by_adapters }
    }
}

impl Graph {
    /// `lanes`: one more than the highest VL that can occur.
    pub(super) fn new(lanes: usize, turns: usize, slots: usize) -> Self {
        let zeros = |n| (0..n).map(|_| AtomicU16::new(0)).collect();
        Self { lanes, waits: zeros(turns * lanes), used: zeros(slots), by_adapters: AtomicU16::new(0) }
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
        set(&self.waits[cell], from);
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
        let named = |v: usize| (ChannelId::at(v / self.lanes), Vl((v % self.lanes) as u8));
        let used = |&(channel, vl): &(ChannelId, Vl)| {
            let c = fabric.channels().get(channel);
            let slot = fabric.channels().first_slot(c.from) + c.out_port.index();
            self.used(slot) >> vl.0 & 1 != 0
        };
        left.is_empty().then(|| order.into_iter().map(named).filter(used).collect())
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
            let cells = self.waits[turn * lanes..][..lanes].iter().enumerate();
            let waits = cells.filter(move |(_, cell)| cell.load(Ordering::Relaxed) >> vl & 1 != 0);
            waits.map(move |(vl, _)| c.index() * lanes + vl)
        })
    }

    /// Repeatedly removes the virtual channels that no remaining one waits for (Kahn).
    fn peel(&self, fabric: &Fabric, turns: &Turns) -> Peeled {
        let channels = fabric.channels();
        let lanes = self.lanes;
        let vertices = channels.len() * lanes;
        // Every port by which a channel leaves is also a port by which a channel arrives.
        let into = |s: SwitchId| {
            let mut waiting = vec![0_u32; channels.out_range(s).len() * lanes];
            for (_, first) in channels.out(s) {
                for (counts, (_, second)) in waiting.chunks_mut(lanes).zip(channels.out(s)) {
                    let turn = turns.at(s.index(), second.out_port.0, first.out_port.0);
                    for (count, cell) in counts.iter_mut().zip(&self.waits[turn * lanes..]) {
                        *count += cell.load(Ordering::Relaxed).count_ones();
                    }
                }
            }
            waiting
        };
        let switches = (0..fabric.num_switches()).into_par_iter();
        let mut waiting: Vec<u32> = switches.flat_map_iter(|s| into(SwitchId::at(s))).collect();
        let dependencies = waiting.iter().map(|&n| n as usize).sum();

        let mut free: Vec<usize> = (0..vertices).filter(|&v| waiting[v] == 0).collect();
        let mut order = Vec::with_capacity(vertices);
        while let Some(v) = free.pop() {
            order.push(v);
            // Faster than a loop, which would take the iterator step by step.
            self.after(fabric, turns, v).for_each(|w| {
                waiting[w] -= 1;
                if waiting[w] == 0 {
                    free.push(w);
                }
            });
        }
        let left = if order.len() == vertices {
            Vec::new()
        } else {
            (0..vertices).filter(|&v| waiting[v] > 0).collect()
        };
        Peeled { dependencies, order, left }
    }
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
