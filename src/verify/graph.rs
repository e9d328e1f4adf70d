//! The virtual channel dependency graph, and the search for a credit loop in it.
//!
//! Vertices are (switch-to-switch channel, VL). An edge (c1, v1) -> (c2, v2) says that some packet
//! that holds a buffer of c1 on v1 waits for one of c2 on v2. Channels from and to adapters are
//! left out: nothing waits behind a source, and a destination always drains (the two-buffer model of
//! Schneider, Bibartiu, Hoefler, "Ensuring Deadlock-Freedom in Low-Diameter InfiniBand Networks",
//! section II). Without a cycle no set of packets can wait for itself (Dally and Seitz).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU16, Ordering};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use crate::fabric::{ChannelId, Fabric, Vl};

use super::{Turns, bits};

/// From how many vertices of a component the shortest cycle is looked for.
const SEARCHES: usize = 64;

/// Virtual channels and dependencies found so far. Threads add to it in any order with the same
/// result.
pub(super) struct Graph {
    lanes: usize,
    /// By turn x VL of the second channel: the VLs of the first.
    waits: Vec<AtomicU16>,
    /// By slot: VLs used on the channel out of it.
    used: Vec<AtomicU16>,
}

/// What the finished graph amounts to.
pub(super) struct Cycles {
    pub(super) virtual_channels: usize,
    pub(super) dependencies: usize,
    /// Strongly connected components with a cycle.
    pub(super) components: usize,
    /// A short cycle, each virtual channel waiting for the next one and the last for the first.
    pub(super) example: Option<Vec<(ChannelId, Vl)>>,
}

impl Clone for Graph {
    fn clone(&self) -> Self {
        let copy = |list: &[AtomicU16]| -> Vec<AtomicU16> {
            list.iter().map(|x| AtomicU16::new(x.load(Ordering::Relaxed))).collect()
        };
        Self { lanes: self.lanes, waits: copy(&self.waits), used: copy(&self.used) }
    }
}

impl Graph {
    /// `lanes`: one more than the highest VL that can occur.
    pub(super) fn new(lanes: usize, turns: usize, slots: usize) -> Self {
        let zeros = |n| (0..n).map(|_| AtomicU16::new(0)).collect();
        Self { lanes, waits: zeros(turns * lanes), used: zeros(slots) }
    }

    /// Packets on the first channel of a turn, on any of `from`, wait for VL `to` of the second.
    pub(super) fn depend(&self, turn: usize, to: u8, from: u16) {
        set(&self.waits[turn * self.lanes + usize::from(to)], from);
    }

    /// Packets use these VLs of the channel out of a slot.
    pub(super) fn carry(&self, slot: usize, vls: u16) {
        set(&self.used[slot], vls);
    }

    /// VLs used on the channel out of a slot.
    pub(super) fn used(&self, slot: usize) -> u16 {
        self.used[slot].load(Ordering::Relaxed)
    }

    /// VLs used on any channel.
    pub(super) fn used_anywhere(&self) -> u16 {
        self.used.iter().fold(0, |all, vls| all | vls.load(Ordering::Relaxed))
    }

    /// Looks for cycles: takes away what waits for nothing that is left to wait for (Kahn), and
    /// splits the rest, if any, into strongly connected components.
    ///
    /// Cost: O(turns x lanes + dependencies) in time and memory.
    pub(super) fn cycles(&self, fabric: &Fabric, turns: &Turns) -> Cycles {
        let channels = fabric.channels();
        let lanes = self.lanes;
        let each = |mut visit: Box<dyn FnMut(usize, usize) + '_>| {
            for (c1, first) in channels.iter() {
                for (c2, second) in channels.out(first.to) {
                    let turn = turns.at(first.to.index(), second.out_port.0, first.in_port.0);
                    for v2 in 0..lanes {
                        for v1 in bits(self.waits[turn * lanes + v2].load(Ordering::Relaxed)) {
                            visit(c1.index() * lanes + v1, c2.index() * lanes + v2);
                        }
                    }
                }
            }
        };
        let vertices = channels.len() * lanes;
        let mut start = vec![0_usize; vertices + 1];
        let mut waiting = vec![0_u32; vertices];
        each(Box::new(|a, b| {
            start[a + 1] += 1;
            waiting[b] += 1;
        }));
        for v in 0..vertices {
            start[v + 1] += start[v];
        }
        let dependencies = start[vertices];
        let mut next = start.clone();
        let mut edges = vec![0_u32; dependencies];
        each(Box::new(|a, b| {
            edges[next[a]] = b as u32;
            next[a] += 1;
        }));
        let after = |v: usize| edges[start[v]..start[v + 1]].iter().map(|&w| w as usize);

        let mut free: Vec<usize> = (0..vertices).filter(|&v| waiting[v] == 0).collect();
        let mut gone = 0;
        while let Some(v) = free.pop() {
            gone += 1;
            for w in after(v) {
                waiting[w] -= 1;
                if waiting[w] == 0 {
                    free.push(w);
                }
            }
        }
        let components = if gone == vertices {
            Vec::new()
        } else {
            let left: Vec<usize> = (0..vertices).filter(|&v| waiting[v] > 0).collect();
            cyclic_components(&left, &after)
        };
        let smallest = components.iter().min_by_key(|c| (c.len(), c[0]));
        let example = smallest.map(|component| {
            let cycle = shortest_cycle(component, &after);
            cycle.into_iter().map(|v| (ChannelId::at(v / lanes), Vl((v % lanes) as u8))).collect()
        });
        let virtual_channels =
            self.used.iter().map(|u| u.load(Ordering::Relaxed).count_ones() as usize).sum();
        Cycles { virtual_channels, dependencies, components: components.len(), example }
    }
}

/// Once the bits are in, which is nearly always, this only reads.
fn set(mask: &AtomicU16, bits: u16) {
    if mask.load(Ordering::Relaxed) & bits != bits {
        mask.fetch_or(bits, Ordering::Relaxed);
    }
}

/// Strongly connected components of more than one vertex, sorted. No vertex waits for itself: a
/// channel ends where the next begins, and begins somewhere else.
fn cyclic_components<I: Iterator<Item = usize>>(
    left: &[usize],
    after: &impl Fn(usize) -> I,
) -> Vec<Vec<usize>> {
    let mut graph = DiGraph::<(), (), u32>::with_capacity(left.len(), left.len());
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

/// The shortest cycle through one of the first vertices of a component.
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
