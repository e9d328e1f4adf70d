//! The ways of all switches to one destination, and longer ones in place of those that break a rule.
//!
//! How a switch chooses between minimal ways is told elsewhere: by the load so far in `legal.rs`, by
//! what is to be expected in `stable/local.rs`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::outward::Outward;
use super::{Hops, Stuck};
use crate::fabric::{ChannelId, EndPort, Fabric, Lid, SwitchId};
use crate::ordering::{Rule, Tree};

const UNROUTED: u16 = u16::MAX;
/// Ways to a destination that are given to switches by having others change theirs.
const MOST_GIVEN: usize = 16;

/// Where a path stands at one switch. Half a cache line, as the ways of all switches are walked for
/// each destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<X> {
    /// Of the channels of the way, in units of the walk.
    pub(super) cost: u64,
    /// The channel that it goes on over; meaningless at the target.
    pub(super) channel: ChannelId,
    /// The switch that this leads to.
    pub(super) to: SwitchId,
    /// [`Rule::place`] of that.
    pub(super) place: u32,
    /// Consecutive turns on the way that the rule forbids.
    pub(super) wrong: u16,
    /// Channels to the target; [`UNROUTED`] while there is no way.
    pub(super) hops: u16,
    /// What else a walk wants to know of it.
    pub(super) more: X,
}

/// The ways to one destination after the other.
pub(super) struct Ways<'a, X> {
    pub(super) fabric: &'a Fabric,
    pub(super) target: SwitchId,
    /// By switch.
    pub(super) ways: Vec<Way<X>>,
    /// Switches with a way, each after the one that it sends to; the target first.
    pub(super) grown: Vec<SwitchId>,
    /// By switch: the channel that it must take.
    forced: Vec<Option<ChannelId>>,
    /// By switch, after [`count`](Self::count): routes that it sends on.
    pub(super) flow: Vec<u64>,
    /// By channel.
    out_port: Vec<u8>,
}

impl<'a, X: Copy + Default> Ways<'a, X> {
    pub(super) fn new(fabric: &'a Fabric) -> Self {
        let n = fabric.num_switches();
        let nowhere = Way {
            cost: 0,
            channel: ChannelId(0),
            to: SwitchId(0),
            place: Rule::END,
            wrong: 0,
            hops: UNROUTED,
            more: X::default(),
        };
        Self {
            fabric,
            target: SwitchId(0),
            ways: vec![nowhere; n],
            grown: Vec::with_capacity(n),
            forced: vec![None; n],
            flow: vec![0; n],
            out_port: fabric.channels().as_slice().iter().map(|c| c.out_port.0).collect(),
        }
    }

    /// Gives the target its way, which ends there.
    pub(super) fn arrive(&mut self) {
        let more = X::default();
        let target = &mut self.ways[self.target.index()];
        *target = Way { cost: 0, place: Rule::END, wrong: 0, hops: 0, more, ..*target };
    }

    fn has_way(&self, s: SwitchId) -> bool {
        self.ways[s.index()].hops != UNROUTED
    }

    fn complete(&self) -> bool {
        self.grown.len() == self.ways.len()
    }

    /// The switches whose ways break the rule.
    pub(super) fn wrong(&self) -> impl Iterator<Item = SwitchId> {
        let wrong = self.ways.iter().enumerate().filter(|(_, w)| w.wrong > 0);
        wrong.map(|(s, _)| SwitchId::at(s))
    }

    /// Takes the ways away that break the rule.
    fn drop_wrong(&mut self) {
        let ways = &mut self.ways;
        for way in ways.iter_mut().filter(|w| w.wrong > 0) {
            (way.hops, way.wrong) = (UNROUTED, 0);
        }
        self.grown.retain(|s| ways[s.index()].hops != UNROUTED);
    }

    /// Takes all ways away but that of the target.
    fn drop_all(&mut self) {
        for way in &mut self.ways {
            (way.hops, way.wrong) = (UNROUTED, 0);
        }
        self.arrive();
        self.grown.clear();
        self.grown.push(self.target);
    }

    fn set(&mut self, from: SwitchId, way: Way<X>) {
        self.ways[from.index()] = way;
        self.grown.push(from);
    }

    /// Has a switch and all on its way along the tree take that.
    fn force(&mut self, from: SwitchId, tree: &Tree) {
        let mut at = from;
        while at != self.target && self.forced[at.index()].is_none() {
            let Some(next) = tree.next(self.fabric, at, self.target) else { break };
            self.forced[at.index()] = Some(next);
            at = self.fabric.channels().get(next).to;
        }
    }

    /// A legal path to the target with the fewest hops and switches on it that have to change their
    /// way, both counted alike; those that are forced keep it.
    ///
    /// Searches backward. Of the paths that begin with a channel, found one after the other, only
    /// those count that stand at a later place than the ones before, so that more channels may lead to
    /// them.
    fn legal_path(&self, rule: &Rule, from: SwitchId) -> Option<Vec<ChannelId>> {
        let channels = self.fabric.channels();
        // Paths as their first channel, the place there, and the path that follows.
        let mut paths: Vec<(ChannelId, u32, Option<usize>)> = Vec::new();
        let mut best: Vec<Option<u32>> = vec![None; channels.len()];
        let mut open = BinaryHeap::from([Reverse((0_u32, None))]);
        while let Some(Reverse((price, path))) = open.pop() {
            let follow = || std::iter::successors(path, |&i: &usize| paths[i].2).map(|i| paths[i].0);
            let (here, next, ahead) = match path.map(|i| paths[i]) {
                None => (self.target, None, Rule::END),
                Some((channel, place, _)) => {
                    let here = channels.get(channel).from;
                    if here == from {
                        return Some(follow().collect());
                    }
                    let best = &mut best[channel.index()];
                    if best.is_some_and(|best| best >= place) {
                        continue;
                    }
                    *best = Some(place);
                    (here, Some(channel), place)
                }
            };
            let passed: Vec<SwitchId> = follow().map(|c| channels.get(c).from).collect();
            for (_, out) in channels.out(here) {
                let (back, s) = (out.reverse, out.to);
                let place = rule.place(back, next);
                let free = self.forced[s.index()].is_none_or(|forced| forced == back);
                if !free || !Rule::legal(place, ahead) || s == self.target || passed.contains(&s) {
                    continue;
                }
                let stays = s == from || self.has_way(s) && self.ways[s.index()].channel == back;
                open.push(Reverse((price + 2 - u32::from(stays), Some(paths.len()))));
                paths.push((back, place, path));
            }
        }
        None
    }

    /// Takes the channels of a path as the ways of the switches on it, for good.
    fn force_path(&mut self, path: &[ChannelId]) {
        for &channel in path {
            let c = self.fabric.channels().get(channel);
            self.forced[c.from.index()] = Some(channel);
            let way = &mut self.ways[c.from.index()];
            (way.channel, way.to, way.hops) = (channel, c.to, 0);
        }
    }

    /// Writes the ways into the ports by switch of a destination.
    pub(super) fn write(&self, ports: &mut [u8]) {
        for &s in &self.grown[1..] {
            ports[s.index()] = self.out_port[self.ways[s.index()].channel.index()];
        }
    }

    /// Counts `times` the routes of all adapters to the target on the channels of the ways.
    pub(super) fn count(&mut self, adapters: &[u64], times: u64, load: &mut [u64]) {
        self.flow.copy_from_slice(adapters);
        for &s in self.grown[1..].iter().rev() {
            let way = &self.ways[s.index()];
            let flow = self.flow[s.index()];
            load[way.channel.index()] += times * flow;
            self.flow[way.to.index()] += flow;
        }
    }

    /// The switches but the target and the channels that they take, each after the one that it
    /// sends to.
    pub(super) fn outward(&self) -> impl Iterator<Item = (SwitchId, ChannelId)> {
        self.grown[1..].iter().map(|&s| (s, self.ways[s.index()].channel))
    }

    /// Switches whose way is not minimal, and by how many hops.
    pub(super) fn detours<'b>(&'b self, hops: &'b Hops) -> impl Iterator<Item = (SwitchId, u32)> + 'b {
        let row = hops.row(self.target);
        let extra =
            move |(s, way): (usize, &Way<X>)| (SwitchId::at(s), u32::from(way.hops) - u32::from(row[s]));
        self.ways.iter().enumerate().map(extra).filter(|&(_, extra)| extra > 0)
    }
}

/// A walk over the minimal-path DAG of a destination that gives each switch a way.
pub(super) trait Detours<'a> {
    /// [`Way::more`].
    type More: Copy + Default;
    /// The destination, as far as it has a say in what is chosen.
    type Goal<'g>: Copy;
    /// What decides between detours of as many hops, the least first; then the channel's number does.
    type Price: Ord + Copy;
    /// Whether others [make room](Self::make_room) where detours without a tree leave some without a way.
    const MAKES_ROOM: bool = false;

    fn ways(&self) -> &Ways<'a, Self::More>;
    fn ways_mut(&mut self) -> &mut Ways<'a, Self::More>;

    /// What ways have to keep to.
    fn rule(&self) -> &Rule;

    /// The way of a switch over a channel, to a switch that has one.
    fn over(&self, channel: ChannelId, to: SwitchId, goal: Self::Goal<'_>) -> Way<Self::More>;

    fn price(&self, way: &Way<Self::More>, goal: Self::Goal<'_>) -> Self::Price;

    /// The minimal way of the switch at a place in the DAG, where some others have longer ones: one
    /// that leads over such a switch counts as broken. `hops`: of a minimal way.
    fn minimal(
        &mut self,
        dag: &Outward,
        place: usize,
        hops: u16,
        goal: Self::Goal<'_>,
    ) -> Option<Way<Self::More>>;

    /// Replaces ways that break the rule by longer ones that keep to it.
    ///
    /// First by a search outward from the switches that have a legal way, in order of hops and then
    /// of price. A switch that this does not reach is sent along the tree, with all switches on its
    /// way; then everything else is chosen anew around these, until nothing is left. The ways along
    /// the tree are legal and agree with each other, so it ends with the whole tree at the latest.
    ///
    /// Returns whether every switch has a legal way in the end.
    fn detour(&mut self, dag: &Outward, hops: &Hops, goal: Self::Goal<'_>, tree: Option<&Tree>) -> bool {
        self.search(goal);
        let Some(tree) = tree.filter(|_| !self.ways().complete()) else {
            return self.ways().complete();
        };
        self.ways_mut().forced.fill(None);
        while !self.ways().complete() {
            let ways = self.ways_mut();
            for s in ways.fabric.switch_ids() {
                if !ways.has_way(s) {
                    ways.force(s, tree);
                }
            }
            self.choose_around(dag, hops, goal);
            self.search(goal);
        }
        true
    }

    /// Finds ways for the switches that a search has left without by having others change theirs: one
    /// switch after the other gets a legal path, and what this makes illegal is searched for anew.
    ///
    /// Returns whether every switch has a legal way in the end.
    ///
    /// Cost: O(C log C) for each path, where few switches are passed by several.
    fn make_room(&mut self, goal: Self::Goal<'_>) -> bool {
        self.ways_mut().forced.fill(None);
        for _ in 0..MOST_GIVEN {
            let ways = self.ways();
            let Some(stuck) = ways.fabric.switch_ids().find(|&s| !ways.has_way(s)) else { return true };
            let Some(path) = ways.legal_path(self.rule(), stuck) else { return false };

            self.ways_mut().force_path(&path);
            self.follow(goal);
            self.search(goal);
        }
        self.ways().complete()
    }

    /// Makes up anew how the ways run that the switches have, and takes those away that break the rule
    /// and all that lead over them.
    ///
    /// Cost: O(S).
    fn follow(&mut self, goal: Self::Goal<'_>) {
        let ways = self.ways();
        let mut behind: Vec<Vec<SwitchId>> = vec![Vec::new(); ways.ways.len()];
        for s in ways.fabric.switch_ids().filter(|&s| s != ways.target && ways.has_way(s)) {
            behind[ways.ways[s.index()].to.index()].push(s);
        }
        self.ways_mut().drop_all();
        let mut place = 0;
        while let Some(&to) = self.ways().grown.get(place) {
            for &s in &behind[to.index()] {
                let way = self.over(self.ways().ways[s.index()].channel, to, goal);
                if way.wrong == 0 {
                    self.ways_mut().set(s, way);
                }
            }
            place += 1;
        }
    }

    /// Replaces all ways that break the rule by longer ones that keep to it, or none where a search
    /// does not find them all.
    fn detour_some(&mut self, goal: Self::Goal<'_>) {
        let (ways, grown) = (self.ways().ways.clone(), self.ways().grown.clone());
        self.search(goal);
        if !self.ways().complete() {
            (self.ways_mut().ways, self.ways_mut().grown) = (ways, grown);
        }
    }

    /// Finds ways for all switches whose own breaks the rule, as far as that can be without
    /// changing any other.
    ///
    /// Cost: O(C).
    fn search(&mut self, goal: Self::Goal<'_>) {
        self.ways_mut().drop_wrong();
        let fabric = self.ways().fabric;
        let channels = fabric.channels();
        // By hops: channels from switches without a way that a legal one goes on over.
        let mut levels: Vec<Vec<(Self::Price, ChannelId)>> = Vec::new();
        let offer = |walk: &Self, levels: &mut Vec<Vec<_>>, channel: ChannelId, to: SwitchId| {
            let way = walk.over(channel, to, goal);
            if way.wrong == 0 {
                let level = usize::from(way.hops);
                levels.resize_with(levels.len().max(level + 1), Vec::new);
                levels[level].push((walk.price(&way, goal), channel));
            }
        };
        for s in fabric.switch_ids().filter(|&s| !self.ways().has_way(s)) {
            for (id, c) in channels.out(s).filter(|(_, c)| self.ways().has_way(c.to)) {
                offer(self, &mut levels, id, c.to);
            }
        }
        let mut best: Vec<Option<(Self::Price, ChannelId)>> = vec![None; fabric.num_switches()];
        let mut level = 0;
        while level < levels.len() {
            let mut reached = Vec::new();
            for offered in std::mem::take(&mut levels[level]) {
                let from = channels.get(offered.1).from;
                if self.ways().has_way(from) {
                    continue;
                }
                match &mut best[from.index()] {
                    Some(best) => *best = offered.min(*best),
                    none => {
                        *none = Some(offered);
                        reached.push(from);
                    }
                }
            }
            for &s in &reached {
                if let Some((_, channel)) = best[s.index()] {
                    let way = self.over(channel, channels.get(channel).to, goal);
                    self.ways_mut().set(s, way);
                }
            }
            for s in reached {
                for (_, back) in channels.out(s).filter(|(_, back)| !self.ways().has_way(back.to)) {
                    offer(self, &mut levels, back.reverse, s);
                }
            }
            level += 1;
        }
    }

    /// Chooses ways anew around the switches that must take a certain channel.
    fn choose_around(&mut self, dag: &Outward, hops: &Hops, goal: Self::Goal<'_>) {
        let (fabric, target) = (self.ways().fabric, self.ways().target);
        let channels = fabric.channels();
        self.ways_mut().drop_all();
        let mut path = Vec::new();
        for s in fabric.switch_ids() {
            let mut at = s;
            while !self.ways().has_way(at) {
                let Some(next) = self.ways().forced[at.index()] else { break };
                path.push(next);
                at = channels.get(next).to;
            }
            while let Some(next) = path.pop() {
                let c = channels.get(next);
                let way = self.over(next, c.to, goal);
                self.ways_mut().set(c.from, way);
            }
        }
        let row = hops.row(target);
        for (place, &s) in dag.order.iter().enumerate().skip(1) {
            if self.ways().forced[s.index()].is_some() {
                continue;
            }
            if let Some(way) = self.minimal(dag, place, u16::from(row[s.index()]), goal) {
                self.ways_mut().set(s, way);
            }
        }
    }
}

/// What a rule costs some destinations, as in [`Ranked`](super::Ranked).
#[derive(Default)]
pub(super) struct Toll {
    pub(super) broken: Vec<(SwitchId, Lid)>,
    pub(super) broken_pairs: u64,
    pub(super) detours: u64,
    pub(super) incomplete: bool,
}

/// Does about ways that break the rule what is to be done.
pub(super) struct Mender<'a> {
    pub(super) hops: &'a Hops,
    pub(super) stuck: Stuck<'a>,
    /// By switch.
    pub(super) adapters: &'a [u64],
}

impl Mender<'_> {
    /// Mends the ways to a LID of an end port; nothing once some switch has stayed without a way.
    pub(super) fn mend<'a, W: Detours<'a>>(
        &self,
        walk: &mut W,
        dag: &Outward,
        goal: W::Goal<'_>,
        to: (&EndPort, Lid),
        toll: &mut Toll,
    ) {
        if toll.incomplete {
            return;
        }
        let (end, lid) = to;
        let weight = |s: SwitchId| if end.is_adapter() { self.adapters[s.index()] } else { 0 };
        match self.stuck {
            Stuck::Break => {
                if !end.is_adapter() {
                    walk.detour_some(goal);
                }
                toll.broken.extend(walk.ways().wrong().map(|s| (s, lid)));
                toll.broken_pairs += walk.ways().wrong().map(weight).sum::<u64>();
            }
            Stuck::Detour(tree) => {
                let complete = walk.detour(dag, self.hops, goal, tree)
                    || W::MAKES_ROOM && tree.is_none() && walk.make_room(goal);
                toll.incomplete = !complete;
                toll.detours += walk.ways().detours(self.hops).map(|(s, _)| weight(s)).sum::<u64>();
            }
        }
    }
}
