//! The trees of all LIDs of one adapter, searched together.
//!
//! All layers begin with base paths, which are complete and legal: those of other adapters on the same switch, as far as
//! they differ. Then one switch after the other takes
//! another next hop in one of the layers, if that lowers the price of all pairs whose paths it changes. In the first
//! sweeps the price may also rise, less and less (threshold accepting: Dueck and Scheuer 1990).
//!
//! | what | price |
//! |---|---|
//! | paths without a common link that a pair lacks | [`MISSING`]: the second path counts most |
//! | two paths of a pair with a common link | [`SHARED`] |
//! | a hop more than the shortest path has | [`LONGER`] |
//! | load of the channels, by all layers of this adapter | [`LOAD`] times its square, in units of its mean |
//!
//! When the trees to all adapters are found, one more sweep counts the load of all of them together instead, by
//! [`LEVEL`] times its eighth power.
//!
//! A switch that others go over on their longer paths has to keep its own path short. Where such a switch would gain by
//! another path, those others are led elsewhere first, if that is possible. Where a switch would gain by going over one
//! whose path is too long or not legal from there, that one takes another path first. The sum of both steps counts. Searches
//! of few sweeps, on large fabrics, do without such steps.

use super::apart::Overlaps;
use super::in_tree::InTree;
use super::{MOST, Stretch};
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::ordering::Rule;
use crate::routing::Hops;
use crate::routing::stable::mix;

/// Price by the paths of a pair that have no link in common. A second path takes most of the load off the first
/// one, a third a third of the rest, and so on.
const MISSING: [i64; MOST + 1] = [0, 5000, 2000, 400, 280, 150, 90, 40, 0];
/// Quarters of that price that count between adjacent switches: their further paths are the longest, and while a switch
/// next to the target takes one, no other can end its path over it.
const ADJACENT: i64 = 2;
/// Price of two paths with a common link.
const SHARED: i64 = 30;
/// Price of each hop more than the shortest path has: less than what any path that is apart gains.
const LONGER: i64 = 4;
/// Price of the routes of one switch over a channel that has as many as the mean already.
const LOAD: f64 = 4.0;
/// The same where the load of all destinations is levelled, times the seventh power of the load over the mean: with twice
/// the mean that is as much as a third path. Without it uniform traffic over four LIDs of a Dragonfly
/// of 114 switches reaches 0.33 instead of 0.59 of the rate. Four times as much takes a third path from pairs of a
/// HyperX, and a quarter leaves a Slim Fly of 50 switches 6 % less.
const LEVEL: f64 = 16.0;

/// Price that a change may add in the first sweep, less from sweep to sweep: about what a third path is worth. Without it
/// 85 instead of 90 % of the pairs of a Slim Fly of 50 switches have three paths.
const TOLERATED: i64 = 1500;
/// Fewest sweeps of which the first ones tolerate changes to the worse: with fewer, the last ones do not make up for it.
const LEAST_WARM: usize = 8;

/// Price of the load of a channel: its square, or its eighth power, by which the most loaded channels decide.
#[derive(Clone, Copy, Debug)]
struct PriceOfLoad {
    /// Load that counts 1.
    mean: f64,
    scale: f64,
    eighth: bool,
}

impl PriceOfLoad {
    /// How the price of a channel changes with some more load, or less.
    fn change(self, load: i64, more: i64) -> f64 {
        let of = |load: i64| {
            let share = load as f64 / self.mean;
            let square = share * share;
            if self.eighth { (square * square) * (square * square) } else { square }
        };
        self.scale * (of(load + more) - of(load))
    }
}

/// A switch that took another next hop.
#[derive(Clone, Copy, Debug)]
struct Move {
    switch: SwitchId,
    /// The channel that it took before.
    old: ChannelId,
    /// The first of its switches in [`Search::log_of_pairs`].
    first: usize,
    /// The routes that moved.
    routes: i64,
}

/// The trees to one adapter after the other.
pub(super) struct Search<'a> {
    fabric: &'a Fabric,
    hops: &'a Hops,
    stretch: Stretch,
    /// By switch.
    adapters: &'a [u64],
    target: SwitchId,
    /// By switch: the most hops of its paths.
    limit: Vec<u16>,
    /// The layers, that of the base LID first.
    trees: Vec<InTree<'a>>,
    used: usize,
    /// By switch.
    overlaps: Vec<Overlaps>,
    /// By layer: LIDs that have it.
    copies: [i64; MOST],
    /// By channel: routes times weight.
    load: Vec<i64>,
    price_of_load: PriceOfLoad,
    /// Whether pairs that lack nothing may change for the load.
    levels: bool,
    /// Whether other switches may have to move for a switch.
    thorough: bool,
    /// By switch: the price of its pair with the target.
    prices: Vec<i64>,
    /// The moves since the last decision.
    log: Vec<Move>,
    /// Of all moves in the log: the switches whose paths it changed, with their overlaps and prices before.
    log_of_pairs: Vec<(SwitchId, Overlaps, i64)>,
    subtree: Vec<SwitchId>,
    /// Links of a path.
    links: Vec<ChannelId>,
    /// By layer: the links of the path of the switch that is looked at.
    links_of: Vec<Vec<ChannelId>>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        fabric: &'a Fabric,
        hops: &'a Hops,
        rule: &'a Rule,
        stretch: Stretch,
        adapters: &'a [u64],
    ) -> Self {
        let n = fabric.num_switches();
        Self {
            fabric,
            hops,
            stretch,
            adapters,
            target: SwitchId(0),
            limit: vec![0; n],
            trees: (0..MOST).map(|_| InTree::new(fabric, rule)).collect(),
            used: 0,
            overlaps: vec![Overlaps::default(); n],
            copies: [1; MOST],
            load: vec![0; fabric.channels().len()],
            price_of_load: PriceOfLoad { mean: 1.0, scale: 0.0, eighth: false },
            levels: false,
            thorough: true,
            prices: vec![0; n],
            log: Vec::new(),
            log_of_pairs: Vec::new(),
            subtree: Vec::new(),
            links: Vec::new(),
            links_of: vec![Vec::new(); MOST],
        }
    }

    /// Searches for the layers to a target. Returns false where some path is not complete.
    ///
    /// - `begin`: ports by switch of each layer to begin with, that of the base LID first; at most [`MOST`].
    /// - `seed`: decides between choices that are equal.
    pub(super) fn run(&mut self, target: SwitchId, begin: &[&[u8]], seed: u64, sweeps: usize) -> bool {
        if !self.read(target, begin) {
            return false;
        }
        self.copies = [1; MOST];
        self.levels = false;
        self.own_load();
        let lacks = |s: SwitchId| self.adapters[s.index()] > 0 && self.overlaps[s.index()].pairs() > 0;
        if !self.fabric.switch_ids().any(lacks) {
            // The paths of other adapters will do, and load the channels as evenly as those do.
            return true;
        }
        self.thorough = sweeps >= LEAST_WARM;
        let warm = if sweeps < LEAST_WARM || self.stretch == Stretch::None { 0 } else { sweeps - sweeps / 4 };
        for sweep in 0..sweeps {
            let tolerated = TOLERATED * warm.saturating_sub(sweep) as i64 / warm.max(1) as i64;
            if !self.sweep(seed, sweep, tolerated) {
                break;
            }
        }
        true
    }

    /// Levels the load of all destinations together: one sweep that begins with trees that were found.
    ///
    /// - `copies`: by layer, LIDs that have these trees.
    /// - `load`: by channel, routes to all destinations, these included, times weight.
    /// - `sweeps`: those of the search that found them.
    ///
    /// Returns whether a path has changed.
    pub(super) fn level(
        &mut self,
        target: SwitchId,
        begin: &[&[u8]],
        copies: [i64; MOST],
        load: &[i64],
        (seed, sweeps): (u64, usize),
    ) -> bool {
        if !self.read(target, begin) {
            return false;
        }
        self.copies = copies;
        self.levels = true;
        self.thorough = sweeps >= LEAST_WARM;
        self.load.copy_from_slice(load);
        let mean = load.iter().sum::<i64>() as f64 / load.len().max(1) as f64;
        let copies = copies.into_iter().max().unwrap_or(1) as f64;
        self.price_of_load =
            PriceOfLoad { mean, scale: LEVEL * mean / (8.0 * self.usual_flow() * copies), eighth: true };
        self.sweep(mix(seed), 0, 0)
    }

    /// By channel, the load after [`level`](Self::level).
    pub(super) fn load(&self) -> &[i64] {
        &self.load
    }

    /// Lets each switch take other next hops in each layer. Returns whether any did.
    fn sweep(&mut self, seed: u64, number: usize, tolerated: i64) -> bool {
        let further = self.used - 1;
        let salt = mix(seed ^ number as u64);
        let mut order: Vec<SwitchId> = self.fabric.switch_ids().filter(|&s| s != self.target).collect();
        order.sort_by_key(|&s| mix(self.fabric.switch(s).guid.0 ^ salt));
        let mut moved = false;
        for &s in &order {
            let first = (mix(salt ^ self.fabric.switch(s).guid.0) % further as u64) as usize;
            for turn in 0..further {
                moved |= self.improve(1 + (first + turn) % further, s, salt, tolerated);
            }
        }
        moved
    }

    /// Writes the next hops of a layer.
    pub(super) fn write(&self, layer: usize, ports: &mut [u8]) {
        self.trees[layer].write(ports);
    }

    /// Takes trees, with their limits and overlaps. Returns false where some path is not complete.
    fn read(&mut self, target: SwitchId, begin: &[&[u8]]) -> bool {
        self.target = target;
        self.used = begin.len();
        if !self.trees.iter_mut().zip(begin).all(|(tree, ports)| tree.read(target, ports)) {
            return false;
        }
        let row = self.hops.row(self.target);
        for s in self.fabric.switch_ids() {
            let longest = self.trees[..self.used].iter().map(|tree| tree.length(s)).max();
            self.limit[s.index()] = self.stretch.most(row[s.index()].into()).max(longest.unwrap_or(0));
            self.overlaps[s.index()] = Overlaps::default();
            if s != self.target && self.adapters[s.index()] > 0 {
                (0..self.used).for_each(|layer| self.compare(layer, s));
            }
            self.prices[s.index()] = self.price(s);
        }
        true
    }

    /// Counts the load of these layers alone.
    fn own_load(&mut self) {
        self.load.fill(0);
        let weights = self.fabric.weights();
        for s in self.fabric.switch_ids().filter(|&s| s != self.target) {
            for tree in &self.trees[..self.used] {
                for c in tree.path(tree.next(s)) {
                    let weight = i64::from(weights.by_channel()[c.index()]);
                    self.load[c.index()] += weight * self.adapters[s.index()] as i64;
                }
            }
        }
        // The mean over the channels into the target.
        let routes = (self.adapters.iter().sum::<u64>() * self.used as u64 * weights.usual()) as f64;
        let mean = (routes / self.fabric.channels().out(self.target).len().max(1) as f64).max(1.0);
        self.price_of_load = PriceOfLoad { mean, scale: LOAD * mean / self.usual_flow(), eighth: false };
    }

    /// The load that the adapters of a switch bring to a channel of the usual rate.
    fn usual_flow(&self) -> f64 {
        let senders = self.adapters.iter().filter(|&&adapters| adapters > 0).count() as u64;
        let adapters = (self.adapters.iter().sum::<u64>() / senders.max(1)).max(1);
        (adapters * self.fabric.weights().usual()) as f64
    }

    /// The price of the paths that a pair lacks.
    fn missing(&self, s: SwitchId, apart: usize) -> i64 {
        let weight = if self.hops.get(s, self.target) == 1 { ADJACENT } else { 4 };
        MISSING[apart] * weight / 4
    }

    /// The price of the pair of a switch and the target.
    fn price(&self, s: SwitchId) -> i64 {
        if self.adapters[s.index()] == 0 {
            return 0;
        }
        let overlaps = self.overlaps[s.index()];
        let apart = overlaps.disjoint(self.used) as usize;
        let hops: u32 = self.trees[..self.used].iter().map(|tree| u32::from(tree.length(s))).sum();
        self.missing(s, apart) + SHARED * i64::from(overlaps.pairs()) + LONGER * i64::from(hops)
    }

    /// Whether the pair of a switch and the target lacks nothing. A switch without adapters has no such pair.
    fn is_perfect(&self, layer: usize, s: SwitchId) -> bool {
        !self.levels
            && self.adapters[s.index()] > 0
            && self.overlaps[s.index()].pairs() == 0
            && self.trees[layer].length(s) == u16::from(self.hops.get(s, self.target))
    }

    /// Finds which layers share links with the path of a switch in one of them.
    fn compare(&mut self, layer: usize, s: SwitchId) {
        let channels = self.fabric.channels();
        let link = |c: ChannelId| c.min(channels.get(c).reverse);
        let tree = &self.trees[layer];
        self.links.clear();
        self.links.extend(tree.path(tree.next(s)).map(link));
        let mut others = 0;
        for (i, other) in self.trees[..self.used].iter().enumerate().filter(|&(i, _)| i != layer) {
            let shares = other.path(other.next(s)).any(|c| self.links.contains(&link(c)));
            others |= u8::from(shares) << i;
        }
        self.overlaps[s.index()].set(layer, others);
    }

    /// Gives a switch another next hop and returns how that changes the price.
    fn set(&mut self, layer: usize, s: SwitchId, channel: ChannelId) -> i64 {
        let mut subtree = std::mem::take(&mut self.subtree);
        let old = self.trees[layer].next(s);
        self.trees[layer].subtree(s, &mut subtree);
        let routes: i64 = subtree.iter().map(|s| self.adapters[s.index()] as i64).sum();
        self.log.push(Move { switch: s, old, first: self.log_of_pairs.len(), routes });
        let mut change = self.carry(layer, old, -routes);
        self.trees[layer].set(s, channel, &subtree);
        change += self.carry(layer, channel, routes);
        for &s in &subtree {
            let before = self.prices[s.index()];
            self.log_of_pairs.push((s, self.overlaps[s.index()], before));
            if self.adapters[s.index()] > 0 {
                self.compare(layer, s);
            }
            self.prices[s.index()] = self.price(s);
            change += self.prices[s.index()] - before;
        }
        self.subtree = subtree;
        change
    }

    /// Adds routes to a channel and those after it, and returns how that changes the price.
    fn carry(&mut self, layer: usize, channel: ChannelId, routes: i64) -> i64 {
        let mut change = 0.0;
        for c in self.trees[layer].path(channel) {
            let more = routes * self.load_of_route(layer, c);
            let load = &mut self.load[c.index()];
            change += self.price_of_load.change(*load, more);
            *load += more;
        }
        change as i64
    }

    /// The load of a route of a layer on a channel.
    fn load_of_route(&self, layer: usize, channel: ChannelId) -> i64 {
        self.copies[layer] * i64::from(self.fabric.weights().by_channel()[channel.index()])
    }

    /// Takes the moves in the log back, to the `to` first ones.
    fn undo(&mut self, layer: usize, to: usize) {
        while self.log.len() > to {
            let Some(Move { switch, old, first, routes }) = self.log.pop() else { return };
            self.subtree.clear();
            for (s, overlaps, price) in self.log_of_pairs.drain(first..) {
                self.overlaps[s.index()] = overlaps;
                self.prices[s.index()] = price;
                self.subtree.push(s);
            }
            self.carry_back(layer, self.trees[layer].next(switch), -routes);
            self.trees[layer].set(switch, old, &self.subtree);
            self.carry_back(layer, old, routes);
        }
    }

    /// Adds routes to a channel and those after it.
    fn carry_back(&mut self, layer: usize, channel: ChannelId, routes: i64) {
        for c in self.trees[layer].path(channel) {
            self.load[c.index()] += routes * self.load_of_route(layer, c);
        }
    }

    fn forget_moves(&mut self) {
        self.log.clear();
        self.log_of_pairs.clear();
    }

    /// Gives a switch the best other next hop in a layer, if that adds less than `tolerated` to the price. Returns
    /// whether it did.
    fn improve(&mut self, layer: usize, s: SwitchId, salt: u64, tolerated: i64) -> bool {
        let here = self.trees[layer].next(s);
        if self.is_perfect(layer, s) {
            return false;
        }
        self.look_at(s);
        let mut best: Option<(i64, u64, ChannelId)> = None;
        for channel in self.fabric.channels().out_range(s).map(ChannelId::at) {
            if channel == here {
                continue;
            }
            if let Some(change) = self.price_of_move(layer, s, channel) {
                let key = (change, mix(salt ^ u64::from(channel.0)), channel);
                if change < tolerated && best.is_none_or(|best| key < best) {
                    best = Some(key);
                }
            }
        }
        let Some((_, _, channel)) = best else { return false };
        self.forget_moves();
        self.try_move(layer, s, channel);
        true
    }

    /// How a move would change the price, as [`try_move`](Self::try_move) says.
    fn price_of_move(&mut self, layer: usize, s: SwitchId, channel: ChannelId) -> Option<i64> {
        let tree = &self.trees[layer];
        if tree.is_leaf(s) && tree.own_path_fits(s, channel, &self.limit) {
            return Some(self.price_of_leaf(layer, s, channel));
        }
        if !self.thorough && !tree.fits(s, channel, &self.limit) {
            return None;
        }
        self.forget_moves();
        let change = self.try_move(layer, s, channel);
        self.undo(layer, 0);
        change
    }

    /// The same for a switch that no other goes over and that has a legal path over the channel. Changes nothing.
    fn price_of_leaf(&self, layer: usize, s: SwitchId, channel: ChannelId) -> i64 {
        let channels = self.fabric.channels();
        let link = |c: ChannelId| c.min(channels.get(c).reverse);
        let tree = &self.trees[layer];
        let routes = self.adapters[s.index()] as i64;
        let (mut others, mut load) = (0_u8, 0.0);
        let carry = |c: ChannelId, routes: i64| {
            self.price_of_load.change(self.load[c.index()], routes * self.load_of_route(layer, c))
        };
        for c in tree.path(channel) {
            for (i, links) in self.links_of[..self.used].iter().enumerate() {
                others |= u8::from(links.contains(&link(c))) << i;
            }
            // Channels of both paths keep their load.
            if !tree.path(tree.next(s)).any(|old| old == c) {
                load += carry(c, routes);
            }
        }
        for c in tree.path(tree.next(s)) {
            if !tree.path(channel).any(|new| new == c) {
                load += carry(c, -routes);
            }
        }
        let load = load as i64;
        if routes == 0 {
            return load;
        }
        let before = self.overlaps[s.index()];
        let mut overlaps = before;
        overlaps.set(layer, others);
        let missing = |overlaps: Overlaps| self.missing(s, overlaps.disjoint(self.used) as usize);
        let to = channels.get(channel).to;
        missing(overlaps) - missing(before)
            + SHARED * (i64::from(overlaps.pairs()) - i64::from(before.pairs()))
            + LONGER * (i64::from(tree.length(to)) + 1 - i64::from(tree.length(s)))
            + load
    }

    /// Lists the links of all paths of a switch.
    fn look_at(&mut self, s: SwitchId) {
        let channels = self.fabric.channels();
        let link = |c: ChannelId| c.min(channels.get(c).reverse);
        for (tree, links) in self.trees[..self.used].iter().zip(&mut self.links_of) {
            links.clear();
            links.extend(tree.path(tree.next(s)).map(link));
        }
    }

    /// Moves a switch to another next hop, with all that this takes, and returns how it changes the price. `None` where
    /// it is not possible; what was done for it is in the log.
    fn try_move(&mut self, layer: usize, s: SwitchId, channel: ChannelId) -> Option<i64> {
        let mut change = 0;
        let to = self.fabric.channels().get(channel).to;
        if !self.trees[layer].own_path_fits(s, channel, &self.limit) {
            // The next switch takes another path first.
            change += self.lead_to(layer, to, s, channel)?;
        }
        let before: Vec<_> = self.trees[layer].predecessors(s).collect();
        for from in before {
            if !self.trees[layer].predecessor_fits(from, s, channel, &self.limit) {
                change += self.lead_elsewhere(layer, from.0, s)?;
            }
        }
        // What was led elsewhere may lie on the new path.
        let fits = self.trees[layer].fits(s, channel, &self.limit);
        fits.then(|| change + self.set(layer, s, channel))
    }

    /// Gives a switch its cheapest path that does not lead over another switch.
    fn lead_elsewhere(&mut self, layer: usize, s: SwitchId, over: SwitchId) -> Option<i64> {
        let here = self.trees[layer].next(s);
        let mut best: Option<(i64, ChannelId)> = None;
        for (channel, c) in self.fabric.channels().out(s) {
            let tree = &self.trees[layer];
            if channel == here || tree.passes(c.to, over) || !tree.fits(s, channel, &self.limit) {
                continue;
            }
            let mark = self.log.len();
            let change = self.set(layer, s, channel);
            self.undo(layer, mark);
            if best.is_none_or(|best| (change, channel) < best) {
                best = Some((change, channel));
            }
        }
        let (_, channel) = best?;
        Some(self.set(layer, s, channel))
    }

    /// Gives a switch the cheapest path over which `from` may go on to it.
    fn lead_to(&mut self, layer: usize, s: SwitchId, from: SwitchId, before: ChannelId) -> Option<i64> {
        if s == self.target || self.trees[layer].passes(s, from) {
            return None;
        }
        let here = self.trees[layer].next(s);
        let mut best: Option<(i64, ChannelId)> = None;
        for (channel, c) in self.fabric.channels().out(s) {
            let tree = &self.trees[layer];
            if channel == here
                || tree.length(c.to) + 2 > self.limit[from.index()]
                || !tree.fits(s, channel, &self.limit)
            {
                continue;
            }
            let mark = self.log.len();
            let change = self.set(layer, s, channel);
            let serves = self.trees[layer].own_path_fits(from, before, &self.limit);
            self.undo(layer, mark);
            if serves && best.is_none_or(|best| (change, channel) < best) {
                best = Some((change, channel));
            }
        }
        let (_, channel) = best?;
        Some(self.set(layer, s, channel))
    }
}
