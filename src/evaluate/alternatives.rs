//! Fault tolerance by paths that the tables do not hold: how different the alternatives to a route are.

use rayon::prelude::*;
use serde::Serialize;

use super::paths::{Adapter, Paths};
use super::{EvaluateError, trees};
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::tables::Routes;

/// Alternatives of tables of which only the entries are known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Alternatives {
    /// [`path_difference`] where an alternative may turn anywhere: what the cables offer to a routing that needs no
    /// order.
    pub path_difference_any_turn: f64,
    /// [`path_difference`] where an alternative turns only as routes between adapters do already, whatever their VL.
    /// Such a path adds nothing to the channel dependency graph of tables on one VL.
    pub path_difference_own_turns: f64,
}

impl Alternatives {
    /// # Errors
    /// As [`evaluate`](super::evaluate).
    ///
    /// Cost: that of [`path_difference`], twice; C d bits for the turns, with d channels out of a switch.
    pub fn new(fabric: &Fabric, routes: &Routes) -> Result<Self, EvaluateError> {
        let paths = Paths::new(fabric, &routes.lft)?;
        trees::count(&paths)?;
        let turns = Turns::in_use(&paths);
        Ok(Self {
            path_difference_any_turn: mean_difference(&paths, &|_, _| true),
            path_difference_own_turns: mean_difference(&paths, &|a, b| turns.has(a, b)),
        })
    }
}

/// The fault tolerance of Chiu et al. (section 6.3) with the alternatives that a routing permits, in `0..=1`: the share
/// of a route's links that its most different alternative avoids, averaged over the ordered pairs of adapters on
/// different switches. In other words, how often a path is at hand when a link of the route fails.
///
/// The alternatives of a pair are all paths that have no more channels than its route and that turn only as permitted.
/// A link is a cable between two switches, both directions. Without pairs on different switches this is 1.
///
/// - `routes`: tables of `fabric`; only the LFTs are used, and of each adapter the base LID.
/// - `allow`: whether a path may go over the first channel and then over the second. Routes themselves need not obey.
///
/// # Errors
/// As [`evaluate`](super::evaluate).
///
/// Cost: O(S C d + Q E) time over all cores, with S switches, C channels, d of them out of a switch, Q pairs of a switch
/// and an adapter, and E turns on the alternatives of a pair; O(C) memory a thread.
pub fn path_difference(
    fabric: &Fabric,
    routes: &Routes,
    allow: impl Fn(ChannelId, ChannelId) -> bool + Sync,
) -> Result<f64, EvaluateError> {
    let paths = Paths::new(fabric, &routes.lft)?;
    trees::count(&paths)?;
    Ok(mean_difference(&paths, &allow))
}

/// The turns of a fabric, some of them marked.
struct Turns<'a> {
    fabric: &'a Fabric,
    /// By channel: the first bit of the turns out of it.
    first: Vec<usize>,
    marked: Vec<bool>,
}

impl<'a> Turns<'a> {
    /// Marks those of all routes.
    fn in_use(paths: &Paths<'a>) -> Self {
        let channels = paths.fabric.channels();
        let mut first = Vec::with_capacity(channels.len());
        let mut count = 0;
        for (_, c) in channels.iter() {
            first.push(count);
            count += channels.out_range(c.to).len();
        }
        let mut turns = Self { fabric: paths.fabric, first, marked: vec![false; count] };
        for to in &paths.adapters {
            let senders = paths.fabric.switch_ids().filter(|s| paths.senders[s.index()] > 0);
            for from in senders {
                let mut last = None;
                for channel in paths.walk(from, to, to.end.lid) {
                    if let Some(before) = last.replace(channel) {
                        let turn = turns.at(before, channel);
                        turns.marked[turn] = true;
                    }
                }
            }
        }
        turns
    }

    fn at(&self, a: ChannelId, b: ChannelId) -> usize {
        let channels = self.fabric.channels();
        self.first[a.index()] + b.index() - channels.out_range(channels.get(a).to).start
    }

    fn has(&self, a: ChannelId, b: ChannelId) -> bool {
        self.marked[self.at(a, b)]
    }
}

/// The sums of all switches are added in order, so the result does not depend on threads.
fn mean_difference(paths: &Paths, allow: &(impl Fn(ChannelId, ChannelId) -> bool + Sync)) -> f64 {
    let mut homes: Vec<(SwitchId, Vec<&Adapter>)> =
        paths.fabric.switch_ids().map(|s| (s, Vec::new())).collect();
    paths.adapters.iter().for_each(|to| homes[to.switch.index()].1.push(to));
    let sums: Vec<(f64, u64)> = homes
        .par_iter()
        .map_init(|| Search::new(paths, allow), |search, (target, ends)| search.toward(*target, ends))
        .collect();
    let (sum, pairs) = sums.into_iter().fold((0.0, 0), |(sum, pairs), (s, p)| (sum + s, pairs + p));
    if pairs == 0 { 1.0 } else { sum / pairs as f64 }
}

/// The search for alternatives to one switch, with buffers.
struct Search<'a, 'f, F> {
    paths: &'a Paths<'f>,
    allow: &'a F,
    /// By channel: the fewest channels of a permitted path that begins with it; `u16::MAX` if there is none.
    left: Vec<u16>,
    /// By channel: the fewest links shared with the route by a path that ends with it, where [`Self::step`] says now.
    shared: Vec<u16>,
    step: Vec<u64>,
    steps: u64,
    /// The last channels of the paths with equally many channels, and of those with one more.
    open: Vec<ChannelId>,
    next: Vec<ChannelId>,
}

impl<'a, 'f, F: Fn(ChannelId, ChannelId) -> bool> Search<'a, 'f, F> {
    fn new(paths: &'a Paths<'f>, allow: &'a F) -> Self {
        let n = paths.fabric.channels().len();
        let (left, shared, step) = (vec![u16::MAX; n], vec![0; n], vec![0; n]);
        Self { paths, allow, left, shared, step, steps: 0, open: Vec::new(), next: Vec::new() }
    }

    /// Sum of the differences of all routes to the adapters of a switch, and how many routes these are.
    fn toward(&mut self, target: SwitchId, ends: &[&Adapter]) -> (f64, u64) {
        let senders: Vec<(SwitchId, u64)> =
            self.paths.fabric.switch_ids().zip(self.paths.senders.iter().copied()).collect();
        let senders: Vec<_> = senders.into_iter().filter(|&(s, n)| n > 0 && s != target).collect();
        if ends.is_empty() || senders.is_empty() {
            return (0.0, 0);
        }
        self.measure(target);
        let (mut sum, mut pairs) = (0.0, 0);
        let mut route = Vec::new();
        for to in ends {
            for &(from, adapters) in &senders {
                route.clear();
                route.extend(self.paths.walk(from, to, to.end.lid).map(|id| self.link(id)));
                let shared = self.least_shared(from, target, &route);
                sum += adapters as f64 * (route.len() - usize::from(shared)) as f64 / route.len() as f64;
                pairs += adapters;
            }
        }
        (sum, pairs)
    }

    fn link(&self, id: ChannelId) -> ChannelId {
        id.min(self.paths.fabric.channels().get(id).reverse)
    }

    /// Lengths of the permitted paths to a switch, from there outwards.
    fn measure(&mut self, target: SwitchId) {
        let channels = self.paths.fabric.channels();
        self.left.fill(u16::MAX);
        self.open.clear();
        for (_, c) in channels.out(target) {
            self.left[c.reverse.index()] = 1;
            self.open.push(c.reverse);
        }
        let mut hops = 1;
        while !self.open.is_empty() {
            hops += 1;
            self.next.clear();
            for &id in &self.open {
                for (_, c) in channels.out(channels.get(id).from) {
                    let before = c.reverse;
                    if self.left[before.index()] == u16::MAX && c.to != target && (self.allow)(before, id) {
                        self.left[before.index()] = hops;
                        self.next.push(before);
                    }
                }
            }
            std::mem::swap(&mut self.open, &mut self.next);
        }
    }

    /// The fewest links that a path no longer than the route shares with it.
    fn least_shared(&mut self, from: SwitchId, target: SwitchId, route: &[ChannelId]) -> u16 {
        let channels = self.paths.fabric.channels();
        let most = route.len();
        let mut least = most as u16;
        self.open.clear();
        self.next.clear();
        self.steps += 1;
        for (id, _) in channels.out(from) {
            self.reach(id, 0, 1, route);
        }
        for hops in 1..=most {
            std::mem::swap(&mut self.open, &mut self.next);
            self.next.clear();
            // Copied, as a channel may be reached again in the next step.
            let found: Vec<(ChannelId, u16)> =
                self.open.iter().map(|&id| (id, self.shared[id.index()])).collect();
            self.steps += 1;
            for (id, shared) in found {
                let at = channels.get(id).to;
                if at == target {
                    least = least.min(shared);
                    continue;
                }
                for (onward, _) in channels.out(at) {
                    if hops < most && (self.allow)(id, onward) {
                        self.reach(onward, shared, hops + 1, route);
                    }
                }
            }
            if self.next.is_empty() {
                break;
            }
        }
        least
    }

    /// A path over a channel, the `hops`-th one, with as many shared links before it.
    fn reach(&mut self, id: ChannelId, before: u16, hops: usize, route: &[ChannelId]) {
        let left = usize::from(self.left[id.index()]);
        if hops - 1 + left > route.len() {
            return;
        }
        // Routes are short: a linear search is faster than a set.
        let shared = before + u16::from(route.contains(&self.link(id)));
        let i = id.index();
        if self.step[i] != self.steps {
            (self.step[i], self.shared[i]) = (self.steps, shared);
            self.next.push(id);
        } else {
            self.shared[i] = self.shared[i].min(shared);
        }
    }
}
