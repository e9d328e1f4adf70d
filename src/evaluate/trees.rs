//! Counts all routes in one pass over the destination trees, without walking any.

use std::cmp::Reverse;

use rayon::prelude::*;

use super::EvaluateError;
use super::paths::{Adapter, Paths};
use crate::fabric::{ChannelId, Fabric, Lid, SwitchId};

/// Totals over routes.
#[derive(Clone)]
pub(super) struct Counts {
    /// Number of routes on each channel.
    pub(super) load: Vec<u64>,
    /// Number of routes by length in channels.
    pub(super) hops: Vec<u64>,
}

/// Counts the routes of all pairs and checks that every LID of every adapter is reached.
///
/// The entries for one LID form a tree towards it. Starting at its leaves, each switch adds its own
/// adapters to what arrives and passes the sum on; what never arrives ends at a missing entry or in
/// a loop.
///
/// # Errors
/// [`EvaluateError::Unreached`].
///
/// Cost: O(S) per LID, over all cores.
pub(super) fn count(paths: &Paths) -> Result<Counts, EvaluateError> {
    let trees = paths.adapters.iter().flat_map(|to| to.end.lids().map(move |lid| (to, lid)));
    let trees: Vec<(&Adapter, Lid)> = trees.collect();
    let total = trees
        .par_iter()
        .enumerate()
        .with_min_len(64)
        .fold(
            || Pass::new(paths),
            |mut pass, (i, &(to, lid))| {
                if !pass.follow(paths, to, lid) {
                    pass.broken = pass.broken.min(i);
                } else if lid == to.end.lid {
                    pass.add(paths, to);
                }
                pass
            },
        )
        .reduce_with(Pass::merge)
        .unwrap_or_else(|| Pass::new(paths));
    // A tree is broken only if some adapter's packets are lost, so there is a witness.
    match trees.get(total.broken).and_then(|&(to, lid)| paths.unreached(to, lid)) {
        Some(error) => Err(error),
        None => Ok(Counts { load: total.load, hops: total.hops }),
    }
}

/// The same totals where each pair has a LID of its own, see [`Paths::lid`]. All LIDs are known to be reached.
///
/// Cost: O(P^2 h l) over all cores, with P adapters of l LIDs and routes of h channels.
pub(super) fn count_drawn(paths: &Paths) -> Counts {
    let empty = || Counts {
        load: vec![0; paths.fabric.channels().len()],
        hops: vec![0; paths.fabric.num_switches()],
    };
    let adapters = 0..paths.adapters.len();
    adapters
        .clone()
        .into_par_iter()
        .fold(empty, |mut counts, to| {
            for from in adapters.clone().filter(|&from| from != to) {
                let mut hops = 0;
                for channel in
                    paths.walk(paths.adapters[from].switch, &paths.adapters[to], paths.lid(from, to))
                {
                    counts.load[channel.index()] += 1;
                    hops += 1;
                }
                counts.hops[hops] += 1;
            }
            counts
        })
        .reduce(empty, |mut a, b| {
            a.load.iter_mut().zip(b.load).for_each(|(a, b)| *a += b);
            a.hops.iter_mut().zip(b.hops).for_each(|(a, b)| *a += b);
            a
        })
}

/// The totals of one thread so far, and its buffers for a tree.
struct Pass {
    load: Vec<u64>,
    hops: Vec<u64>,
    /// The first tree in which some adapter does not arrive.
    broken: usize,
    /// By slot: the channel out of it, and the switch that this leads to.
    ahead: Vec<Option<(ChannelId, SwitchId)>>,
    /// The next switch of each switch; `None` where the path ends.
    next: Vec<Option<(ChannelId, SwitchId)>>,
    /// By switch: number of unvisited switches that send to it.
    pending: Vec<u32>,
    /// The switches, each before its next one; without those on loops. It mostly serves the next tree, too.
    order: Vec<SwitchId>,
    /// By switch: its place in the order.
    place: Vec<u32>,
    /// By switch: number of adapters whose packets pass it.
    flow: Vec<u64>,
    /// By switch: channels to the end of the path.
    depth: Vec<u32>,
}

impl Pass {
    fn new(paths: &Paths) -> Self {
        let (switches, channels) = (paths.fabric.num_switches(), paths.fabric.channels());
        let mut ahead = vec![None; channels.num_slots()];
        for (id, c) in channels.iter() {
            ahead[channels.first_slot(c.from) + c.out_port.index()] = Some((id, c.to));
        }
        Self {
            load: vec![0; channels.len()],
            hops: vec![0; switches],
            broken: usize::MAX,
            ahead,
            next: vec![None; switches],
            pending: vec![0; switches],
            order: Vec::with_capacity(switches),
            place: vec![0; switches],
            flow: vec![0; switches],
            depth: vec![0; switches],
        }
    }

    fn merge(mut self, other: Self) -> Self {
        for (a, b) in self.load.iter_mut().zip(other.load) {
            *a += b;
        }
        for (a, b) in self.hops.iter_mut().zip(other.hops) {
            *a += b;
        }
        self.broken = self.broken.min(other.broken);
        self
    }

    /// Sorts the switches and forwards the packets of all adapters except `to`; returns whether all
    /// arrive.
    fn follow(&mut self, paths: &Paths, to: &Adapter, lid: Lid) -> bool {
        let (ports, channels) = (paths.lft.to(lid), paths.fabric.channels());
        // No channel leaves by the port to an adapter.
        for ((s, next), &port) in paths.fabric.switch_ids().zip(&mut self.next).zip(ports) {
            let port = usize::from(port);
            let is_there = port < channels.slots_of(s);
            *next = if is_there { self.ahead[channels.first_slot(s) + port] } else { None };
        }
        if !self.is_sorted() {
            self.sort(paths.fabric);
        }
        self.flow.copy_from_slice(&paths.senders);
        self.flow[to.switch.index()] -= 1;
        for &s in &self.order {
            if let Some((_, next)) = self.next[s.index()] {
                self.flow[next.index()] += self.flow[s.index()];
            }
        }
        let home = to.switch.index();
        ports[home] == to.port && self.flow[home] + 1 == paths.adapters.len() as u64
    }

    /// Whether the order has all switches, each before its next one.
    fn is_sorted(&self) -> bool {
        let mut ways = self.next.iter().zip(&self.place);
        self.order.len() == self.next.len()
            && ways.all(|(next, place)| next.is_none_or(|(_, next)| self.place[next.index()] > *place))
    }

    /// Sorts the switches, the farthest first: that order serves all trees of shortest paths to the same switch.
    fn sort(&mut self, fabric: &Fabric) {
        self.pending.fill(0);
        self.next.iter().flatten().for_each(|(_, next)| self.pending[next.index()] += 1);
        self.order.clear();
        self.order.extend(fabric.switch_ids().filter(|s| self.pending[s.index()] == 0));
        let mut head = 0;
        while let Some(&s) = self.order.get(head) {
            head += 1;
            if let Some((_, next)) = self.next[s.index()] {
                self.pending[next.index()] -= 1;
                if self.pending[next.index()] == 0 {
                    self.order.push(next);
                }
            }
        }
        for s in self.order.iter().rev() {
            self.depth[s.index()] = self.next[s.index()].map_or(0, |(_, next)| self.depth[next.index()] + 1);
        }
        self.order.sort_unstable_by_key(|s| Reverse(self.depth[s.index()]));
        self.order.iter().zip(0..).for_each(|(s, place)| self.place[s.index()] = place);
    }

    /// Adds a tree in which all adapters arrive to the totals.
    fn add(&mut self, paths: &Paths, to: &Adapter) {
        for &s in self.order.iter().rev() {
            let s = s.index();
            self.depth[s] = 0;
            if let Some((channel, next)) = self.next[s] {
                self.depth[s] = self.depth[next.index()] + 1;
                self.load[channel.index()] += self.flow[s];
            }
            if paths.senders[s] > 0 {
                self.hops[self.depth[s] as usize] += paths.senders[s];
            }
        }
        // The destination sends nothing to itself.
        self.hops[0] -= 1;
        debug_assert_eq!(self.depth[to.switch.index()], 0);
    }
}
