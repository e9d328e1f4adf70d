//! Moves routes off the hottest channels of tables under a rule, one table entry at a time.

use std::collections::{HashMap, HashSet};

use super::Forwarding;
use super::in_tree::InTree;
use crate::fabric::{ChannelId, Fabric, Lid, PortNum, SwitchId};
use crate::ordering::Rule;
use crate::routing::{Hops, adapters_by_switch, ends_on};

/// How far [`relieve`] goes.
#[derive(Clone, Copy, Debug)]
pub struct Relief {
    /// Channels with at most as many routes are left alone.
    pub goal: u64,
    /// Which channels are hot.
    pub hot: Hot,
    /// How often a switch may look for another channel.
    pub tries: u64,
}

/// The channels that [`relieve`] moves routes off, of those above the goal.
#[derive(Clone, Copy, Debug)]
pub enum Hot {
    /// Those in the upper half between the mean and the largest load: few routes move, and the largest load falls.
    UpperHalf,
    /// Those above the mean: the load gets level, for random bisections, and many routes move.
    AboveMean,
}

/// Another pass follows only where the last one lowered the largest load by at least one part in so many. Otherwise many
/// passes would lower it by one route each.
const ENOUGH: u64 = 100;

/// Moves routes to adapters off the channels that carry more than the goal, as far as the rule allows it.
///
/// Destination by destination, of those with routes over a hot channel, the switch at its beginning tries its
/// other channels: those that lead to the destination over no more hops, by the paths that the next switches have,
/// and that leave its own path and those over it legal. The best one is taken if it lowers the sum over all channels
/// of the eighth power of the load: that power is high enough that the hottest channels decide, and low enough
/// that many warm ones still count. Where none does, the switches that send to it try theirs, and so on. So each
/// move changes one entry, and the largest load falls pass by pass, until it falls by less than a hundredth.
///
/// Paths that violate the rule may go on doing so, or become legal; no other one violates it.
///
/// - `forwarding`: complete tables under the rule.
///
/// Cost: a pass takes O(D H) with D destination LIDs and H switches before hot channels, and for each destination with hot
/// channels O(S) and O(d h) for each switch that tries, with d the channels of a switch and h the hops of a path;
/// O(S + C) memory.
pub fn relieve(fabric: &Fabric, hops: &Hops, rule: &Rule, relief: Relief, forwarding: &mut Forwarding) {
    let (channels, adapters) = (fabric.channels(), adapters_by_switch(fabric));
    let mut violating: HashMap<Lid, Vec<SwitchId>> = HashMap::new();
    for &(s, lid) in &forwarding.broken {
        violating.entry(lid).or_default().push(s);
    }
    let ends: Vec<(SwitchId, Lid)> = fabric.switch_ids().flat_map(|s| destinations(fabric, s)).collect();
    let mut tree = Tree::new(fabric, rule, &adapters);
    tree.tries = relief.tries;
    loop {
        let largest = forwarding.largest_load();
        let load = &forwarding.load;
        let mean = load.iter().sum::<u64>() / (load.len() as u64).max(1);
        let warm = match relief.hot {
            Hot::UpperHalf => relief.goal.max(mean + (largest - mean) / 2),
            Hot::AboveMean => relief.goal.max(mean),
        };
        let hot: Vec<bool> = load.iter().map(|&load| load > warm).collect();
        let before_hot: Vec<SwitchId> =
            fabric.switch_ids().filter(|&s| hot[channels.out_range(s)].contains(&true)).collect();
        let mut is_hot_slot = vec![false; channels.num_slots()];
        for (_, c) in channels.iter().filter(|(id, _)| hot[id.index()]) {
            is_hot_slot[channels.first_slot(c.from) + c.out_port.index()] = true;
        }
        tree.begin(load, largest);
        let mut moved = false;
        for &(target, lid) in &ends {
            let ports = forwarding.lft.to(lid);
            let is_hot = |c: ChannelId| hot[c.index()] && tree.carried[c.index()].load > warm;
            let uses = |s: &SwitchId| {
                let port = PortNum(ports[s.index()]);
                // Most are not, and this look is the cheaper one.
                let may_be = is_hot_slot.get(channels.first_slot(*s) + port.index());
                may_be == Some(&true) && channels.at_port(*s, port).is_some_and(is_hot)
            };
            let from: Vec<SwitchId> = before_hot.iter().copied().filter(uses).collect();
            tree.paths.lid = Some(lid);
            if from.is_empty() || tree.tries == 0 || !tree.paths.read(target, ports) {
                continue;
            }
            let detours = tree.paths.detours(hops);
            let mut violating = violating.get_mut(&lid);
            let these = violating.as_deref().map_or(&[][..], Vec::as_slice);
            these.iter().for_each(|s| tree.violates[s.index()] = true);
            let mut changed = false;
            for s in from {
                changed |= tree.relieve(tree.paths.next[s.index()], warm);
            }
            these.iter().for_each(|s| tree.violates[s.index()] = false);
            if changed {
                tree.paths.write(forwarding.lft.to_mut(lid));
                moved = true;
                // Where there were none, there are none: no path became longer.
                if detours > 0 {
                    tree.paths.measure();
                    forwarding.detours -= detours - tree.paths.detours(hops);
                }
                violating.iter_mut().for_each(|violating| violating.retain(|&s| !tree.obeys(s)));
            }
        }
        forwarding.load.iter_mut().zip(&tree.carried).for_each(|(load, carried)| *load = carried.load);
        let fallen = largest.saturating_sub(forwarding.largest_load());
        if !moved || tree.tries == 0 || ENOUGH * fallen < largest {
            break;
        }
    }
    let violating: HashSet<(SwitchId, Lid)> =
        violating.into_iter().flat_map(|(lid, from)| from.into_iter().map(move |s| (s, lid))).collect();
    forwarding.broken.retain(|path @ (s, _)| {
        let violates = violating.contains(path);
        forwarding.broken_pairs -= if violates { 0 } else { adapters[s.index()] };
        violates
    });
}

/// The LIDs of the adapters on a switch, with the switch.
fn destinations(fabric: &Fabric, switch: SwitchId) -> impl Iterator<Item = (SwitchId, Lid)> {
    let ends = ends_on(fabric, switch).into_iter().map(|(end, _)| end).filter(|end| end.is_adapter());
    ends.flat_map(move |end| end.lids().map(move |lid| (switch, lid)))
}

/// What a channel carries. All of it lies together, as looks jump from channel to channel.
#[derive(Clone, Copy)]
struct Carried {
    load: u64,
    /// Of the load.
    price: f64,
    /// Where the channel leads.
    to: SwitchId,
    /// What a route adds to the load.
    weight: u32,
}

impl Carried {
    /// The load of so many routes.
    fn of(self, routes: u64) -> u64 {
        routes * u64::from(self.weight)
    }
}

/// The paths of all switches to one destination, under a rule.
struct Tree<'a> {
    paths: InTree<'a>,
    rule: &'a Rule,
    /// Routes on the hottest channel as a pass begins: no channel gets more.
    largest: u64,
    /// One over that.
    scale: f64,
    /// By channel.
    carried: Vec<Carried>,
    /// By switch on the path that is to change: what all channels before it cost less without its routes. Others have an
    /// older number beside it.
    saved: Vec<(u32, f64)>,
    /// The number of that path.
    number: u32,
    /// How often a switch may still look for another channel.
    tries: u64,
    /// By switch: whether its path may violate the rule.
    violates: Vec<bool>,
}

impl<'a> Tree<'a> {
    fn new(fabric: &'a Fabric, rule: &'a Rule, adapters: &'a [u64]) -> Self {
        Self {
            paths: InTree::new(fabric, adapters),
            rule,
            largest: 1,
            scale: 1.0,
            carried: Vec::new(),
            saved: vec![(0, 0.0); fabric.num_switches()],
            number: 0,
            tries: 0,
            violates: vec![false; fabric.num_switches()],
        }
    }

    /// Begins a pass with these loads.
    fn begin(&mut self, load: &[u64], largest: u64) {
        self.largest = largest.max(1);
        self.scale = 1.0 / self.largest as f64;
        let weights = self.paths.fabric.weights().by_channel();
        let channels = self.paths.fabric.channels().as_slice().iter().zip(weights).zip(load);
        let carried = channels.map(|((c, &weight), &load)| Carried {
            load,
            price: self.price(load),
            to: c.to,
            weight: weight.into(),
        });
        self.carried = carried.collect();
    }

    /// See [`Rule::position_of`]; [`Rule::END`] at the target.
    fn position(&self, switch: SwitchId) -> u32 {
        let Some(channel) = self.paths.after(switch) else { return Rule::END };
        self.rule.position_of(channel, self.paths.after(self.paths.to(channel)))
    }

    /// Whether a switch may go on over another channel: its path is legal then, and all paths over it stay so that must not
    /// violate the rule.
    fn legal(&self, switch: SwitchId, channel: ChannelId) -> bool {
        let to = self.paths.to(channel);
        let position = self.rule.position_of(channel, self.paths.after(to));
        let stay = |(from, _): &(SwitchId, ChannelId)| !self.violates[from.index()];
        Rule::legal(position, self.position(to))
            && !self.violates[to.index()]
            && self.paths.predecessors(switch).filter(stay).all(|(from, before)| {
                let changed = self.rule.position_of(before, Some(channel));
                Rule::legal(changed, position)
                    && (!self.rule.depends_on_next()
                        || self.paths.predecessors(from).filter(stay).all(|(_, first)| {
                            Rule::legal(self.rule.position_of(first, Some(before)), changed)
                        }))
            })
    }

    /// Whether the path of a switch obeys the rule.
    fn obeys(&self, switch: SwitchId) -> bool {
        let ahead = |s: SwitchId| self.paths.after(s).map(|channel| self.paths.to(channel));
        let mut path = std::iter::successors(Some(switch), |&s| ahead(s));
        path.all(|s| ahead(s).is_none_or(|to| Rule::legal(self.position(s), self.position(to))))
    }

    /// The price of a load.
    fn price(&self, load: u64) -> f64 {
        let share = load as f64 * self.scale;
        let square = share * share;
        let fourth = square * square;
        fourth * fourth
    }

    /// Moves routes off a channel until it has at most `warm` of them: those of the switch before it, or else those
    /// of the switches that send to that one, and so on. Returns whether any has moved.
    fn relieve(&mut self, hot: ChannelId, warm: u64) -> bool {
        let mut moved = false;
        let mut upstream = vec![self.paths.fabric.channels().get(hot).from];
        while let Some(s) = upstream.pop() {
            if self.carried[hot.index()].load <= warm || self.tries == 0 {
                break;
            }
            if self.reroute(s) {
                moved = true;
            } else {
                let before = self.paths.predecessors(s).map(|(from, _)| from);
                upstream.extend(before.filter(|from| self.paths.flow[from.index()] > 0));
            }
        }
        moved
    }

    /// Gives a switch another channel, the best one, if that lowers the price of all channels.
    fn reroute(&mut self, switch: SwitchId) -> bool {
        let flow = self.paths.flow[switch.index()];
        let here = self.paths.next[switch.index()];
        if flow == 0 {
            return false;
        }
        self.tries -= 1;
        let all = self.note_savings(switch, flow);
        let mut best: Option<(f64, ChannelId)> = None;
        let length = self.paths.length[switch.index()];
        let out = self.paths.fabric.channels().out_range(switch).map(ChannelId::at);
        for channel in out.filter(|&channel| channel != here) {
            if self.paths.length[self.carried[channel.index()].to.index()] >= length {
                continue;
            }
            let least = best.map_or(0.0, |(least, _)| least);
            let change = self.change(switch, channel, flow, all + least);
            if change.is_some_and(|change| change < least) && self.legal(switch, channel) {
                best = change.map(|change| (change, channel));
            }
        }
        let Some((_, channel)) = best else { return false };
        self.shift(here, |load, by| load - by, flow);
        self.paths.next[switch.index()] = channel;
        self.shift(channel, |load, by| load + by, flow);
        true
    }

    /// Notes what the path of a switch costs less without its routes, up to each switch on it. Returns that for all.
    fn note_savings(&mut self, switch: SwitchId, flow: u64) -> f64 {
        self.number += 1;
        self.saved[switch.index()] = (self.number, f64::INFINITY);
        let (mut at, mut saved) = (switch, 0.0);
        while let Some(c) = self.paths.after(at) {
            let carried = self.carried[c.index()];
            at = carried.to;
            saved += carried.price - self.price(carried.load - carried.of(flow));
            self.saved[at.index()] = (self.number, saved);
        }
        saved
    }

    /// By how much the price changes if a switch goes on over a channel. `None` where that leads back to it, costs as
    /// much as `most` before it joins the old path, or makes a channel the hottest.
    fn change(&self, switch: SwitchId, channel: ChannelId, flow: u64, most: f64) -> Option<f64> {
        let (mut c, mut added) = (channel, 0.0);
        loop {
            let carried = self.carried[c.index()];
            let after = carried.load + carried.of(flow);
            added += self.price(after) - carried.price;
            let to = carried.to;
            let (number, saved) = self.saved[to.index()];
            if added >= most || after > self.largest || to == switch {
                return None;
            }
            if number == self.number {
                return Some(added - saved);
            }
            c = self.paths.next[to.index()];
        }
    }

    /// Changes what a channel and those that follow it carry.
    fn shift(&mut self, channel: ChannelId, by: fn(u64, u64) -> u64, flow: u64) {
        let mut next = Some(channel);
        while let Some(c) = next {
            let carried = self.carried[c.index()];
            let load = by(carried.load, carried.of(flow));
            self.carried[c.index()] = Carried { load, price: self.price(load), ..carried };
            let at_end = &mut self.paths.flow[carried.to.index()];
            *at_end = by(*at_end, flow);
            next = self.paths.after(carried.to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::up_down_rank;
    use crate::routing::{Lookahead, NoLegalPath, ranked_sssp, stable_sssp};
    use crate::topology::{FatTree, Mesh, Ring, fail_links, slow_links, small_members};

    fn until(goal: u64) -> Relief {
        Relief { goal, hot: Hot::UpperHalf, tries: u64::MAX }
    }

    /// The routes by channel, and the adapter pairs on detours, found by walking every path.
    fn walked(f: &Fabric, hops: &Hops, forwarding: &Forwarding) -> (Vec<u64>, u64) {
        let (mut load, mut detours) = (vec![0; f.channels().len()], 0);
        for (target, lid) in f.switch_ids().flat_map(|s| destinations(f, s)) {
            for source in f.switch_ids().filter(|&s| s != target) {
                let routes = f.num_adapters_on(source) as u64;
                let (mut at, mut length) = (source, 0);
                while at != target {
                    let c = f.channels().at_port(at, forwarding.lft.get(at, lid).unwrap()).unwrap();
                    load[c.index()] += routes * u64::from(f.weights().by_channel()[c.index()]);
                    at = f.channels().get(c).to;
                    length += 1;
                    assert!(length < f.num_switches(), "a loop");
                }
                if length > usize::from(hops.get(source, target)) {
                    detours += routes;
                }
            }
        }
        (load, detours)
    }

    /// The paths that violate a rule, found by walking every path.
    fn violating(f: &Fabric, rule: &Rule, forwarding: &Forwarding) -> HashSet<(SwitchId, Lid)> {
        let adapters = adapters_by_switch(f);
        let mut tree = Tree::new(f, rule, &adapters);
        let mut found = HashSet::new();
        for (target, lid) in f.switch_ids().flat_map(|s| destinations(f, s)) {
            assert!(tree.paths.read(target, forwarding.lft.to(lid)));
            let from = tree.paths.order.iter().filter(|s| !tree.obeys(**s));
            found.extend(from.map(|&s| (s, lid)));
        }
        found
    }

    #[test]
    fn the_largest_load_falls_and_what_is_counted_is_true() {
        let slow = |(name, f): (_, Fabric)| (name, slow_links(&f, f.channels().len() / 6, 3).unwrap());
        for (name, f) in small_members().into_iter().chain(small_members().into_iter().map(slow)) {
            let hops = Hops::new(&f).unwrap();
            let rank = up_down_rank(&f, SwitchId(0));
            for rule in [Rule::Any, Rule::OneVl(rank.clone()), Rule::FirstTurnFree(rank)] {
                let detour = NoLegalPath::Detour(None);
                for route in [ranked_sssp, stable_sssp] {
                    let mut forwarding = route(&f, &hops, &rule, Lookahead::Every, detour);
                    if !forwarding.complete {
                        continue;
                    }
                    let (before, detours) = (forwarding.largest_load(), forwarding.detours);
                    for hot in [Hot::UpperHalf, Hot::AboveMean] {
                        relieve(&f, &hops, &rule, Relief { hot, ..until(0) }, &mut forwarding);
                        assert!(forwarding.largest_load() <= before, "{name}");
                        assert!(forwarding.detours <= detours, "{name}");
                        assert!(
                            walked(&f, &hops, &forwarding) == (forwarding.load.clone(), forwarding.detours),
                            "{name}"
                        );
                        assert!(violating(&f, &rule, &forwarding).is_empty(), "{name}");
                    }
                }
            }
        }
    }

    /// Stable tables of a damaged fat tree have a channel with half as many routes again as P-SSSP.
    #[test]
    fn a_damaged_tree_comes_down_to_the_goal_by_few_moves() {
        let whole = FatTree { k: 8, levels: 3, down: None, cas: None }.build().unwrap();
        let f = fail_links(&whole, 26, 1).unwrap();
        let hops = Hops::new(&f).unwrap();
        let rule = Rule::OneVl(up_down_rank(&f, SwitchId(0)));
        let route = |rule| ranked_sssp(&f, &hops, rule, Lookahead::Every, NoLegalPath::Detour(None));
        let goal = route(&Rule::Any).largest_load();
        let mut tables = stable_sssp(&f, &hops, &rule, Lookahead::Every, NoLegalPath::Detour(None));
        let before = tables.lft.clone();
        assert!(10 * tables.largest_load() > 13 * goal);
        relieve(&f, &hops, &rule, until(goal), &mut tables);
        assert!(tables.largest_load() <= goal);
        let entries = |f: &Fabric| f.adapters().count() * f.num_switches();
        let moved = f.adapters().flat_map(|(_, end)| before.to(end.lid).iter().zip(tables.lft.to(end.lid)));
        let moved = moved.filter(|(a, b)| a != b).count();
        assert!(moved > 0 && 20 * moved < entries(&f), "{moved} of {}", entries(&f));
        // Nothing is above the goal any more.
        let after = tables.lft.clone();
        relieve(&f, &hops, &rule, until(goal), &mut tables);
        assert!(tables.lft == after);
    }

    #[test]
    fn no_other_path_violates_the_rule_than_before() {
        let ring = Ring { switches: 9, cas: 2 }.build().unwrap();
        let mesh = fail_links(&Mesh { dims: vec![5, 5], cas: 2 }.build().unwrap(), 4, 1).unwrap();
        let mut moved = 0;
        for f in [ring, mesh] {
            let hops = Hops::new(&f).unwrap();
            let rank = up_down_rank(&f, SwitchId(0));
            for rule in [Rule::OneVl(rank.clone()), Rule::FirstTurnFree(rank)] {
                let mut tables = ranked_sssp(&f, &hops, &rule, Lookahead::Every, NoLegalPath::Break);
                let (before, largest) = (tables.broken.clone(), tables.largest_load());
                relieve(&f, &hops, &rule, until(0), &mut tables);
                let to_adapters =
                    |&&(_, lid): &&(SwitchId, Lid)| f.endport(f.owner_of(lid).unwrap()).is_adapter();
                let listed: HashSet<_> = tables.broken.iter().filter(to_adapters).copied().collect();
                assert_eq!(listed, violating(&f, &rule, &tables));
                assert!(tables.broken.iter().all(|path| before.contains(path)));
                let pairs = listed.iter().map(|(s, _)| f.num_adapters_on(*s) as u64).sum::<u64>();
                assert_eq!(tables.broken_pairs, pairs);
                assert_eq!(walked(&f, &hops, &tables).0, tables.load);
                moved += usize::from(tables.largest_load() < largest);
            }
        }
        assert!(moved > 0);
    }
}
