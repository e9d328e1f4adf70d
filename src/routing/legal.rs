//! The ways of all switches to one destination, under a rule.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Hops;
use super::outward::{Behind, Outward};
use crate::fabric::{ChannelId, Fabric, Lid, SwitchId};
use crate::ordering::{Rule, Tree};
use crate::tables::Lft;

/// Where a path stands at one switch.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// The channel that it goes on over; meaningless at the target.
    channel: ChannelId,
    /// The switch that this leads to.
    to: SwitchId,
    /// [`Rule::place`] of that.
    place: u32,
    /// Consecutive turns on the way that the rule forbids.
    wrong: u32,
    /// Channels to the target; [`UNROUTED`] while there is no way.
    hops: u32,
    /// Routes on the channels of the way.
    cost: u64,
}

const UNROUTED: u32 = u32::MAX;
const LET_IN: u32 = u32::MAX / 2;

/// How far a switch thinks of those behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookahead {
    /// It shuts out as few of the channels that lead into it as possible.
    #[default]
    Every,
    /// It minds only switches that no one nearer lets in and that have no other switch left to ask.
    /// Leaves more choice to the load, and takes longer.
    LastChance,
}

/// Chooses the ways of all switches to one destination after the other.
pub(super) struct Ways<'a> {
    fabric: &'a Fabric,
    rule: &'a Rule,
    target: SwitchId,
    ways: Vec<Way>,
    /// Switches with a way, each after the one that it sends to.
    grown: Vec<SwitchId>,
    any_wrong: bool,
    /// Switches that must take the tree.
    forced: Vec<bool>,
    lookahead: Lookahead,
    /// With [`Lookahead::LastChance`], by switch: steps to switches that have not chosen yet;
    /// [`LET_IN`] once one that has lets it in.
    chances: Vec<u32>,
    flow: Vec<u64>,
    /// By channel.
    out_port: Vec<u8>,
}

impl<'a> Ways<'a> {
    pub(super) fn new(fabric: &'a Fabric, rule: &'a Rule, lookahead: Lookahead) -> Self {
        let n = fabric.num_switches();
        let nowhere = Way {
            channel: ChannelId(0),
            to: SwitchId(0),
            place: Rule::END,
            wrong: 0,
            hops: UNROUTED,
            cost: 0,
        };
        Self {
            fabric,
            rule,
            target: SwitchId(0),
            ways: vec![nowhere; n],
            grown: Vec::with_capacity(n),
            any_wrong: false,
            forced: vec![false; n],
            out_port: fabric.channels().as_slice().iter().map(|c| c.out_port.0).collect(),
            lookahead,
            chances: vec![0; n],
            flow: vec![0; n],
        }
    }

    /// The way of a switch over a channel, if the switch that it leads to has one.
    #[inline(always)]
    fn over(&self, channel: ChannelId, to: SwitchId, load: &[u64]) -> Way {
        let ahead = &self.ways[to.index()];
        let next = (to != self.target).then_some(ahead.channel);
        let place = self.rule.place(channel, next);
        Way {
            channel,
            to,
            place,
            wrong: ahead.wrong + u32::from(!Rule::legal(place, ahead.place)),
            hops: ahead.hops + 1,
            cost: ahead.cost + load[channel.index()],
        }
    }

    /// How many of the channels that lead into a switch from one hop farther away could not be
    /// followed by this way of the switch, as far as the lookahead minds.
    fn blocked(&self, dag: &Outward, switch: SwitchId, way: &Way) -> u32 {
        if way.place == Rule::END {
            return 0;
        }
        let shut = |c: ChannelId| !Rule::legal(self.rule.place(c, Some(way.channel)), way.place);
        let behind = dag.behind(switch);
        match (self.lookahead, self.rule) {
            (Lookahead::LastChance, _) => {
                let last = |b: &&Behind| self.chances[b.from.index()] == 1 && shut(b.channel);
                behind.iter().filter(last).count() as u32
            }
            (_, Rule::FirstTurnFree(_)) => u32::from(behind.first().is_some_and(|b| shut(b.channel))),
            _ => behind.iter().filter(|b| shut(b.channel)).count() as u32,
        }
    }

    /// Tells those behind a switch, which has chosen, whether it lets them in.
    fn announce(&mut self, dag: &Outward, switch: SwitchId) {
        let way = self.ways[switch.index()];
        for b in dag.behind(switch) {
            let chances = &mut self.chances[b.from.index()];
            let open = way.place == Rule::END
                || Rule::legal(self.rule.place(b.channel, Some(way.channel)), way.place);
            *chances = if open && way.wrong == 0 { LET_IN } else { chances.saturating_sub(1) };
        }
    }

    /// Gives every switch a minimal way: with as few forbidden turns as possible, then so that as
    /// few as possible of those behind are shut out, then with the least load, then over the lowest
    /// port.
    pub(super) fn choose(&mut self, dag: &Outward, load: &[u64]) {
        self.target = dag.target;
        self.grown.clear();
        self.any_wrong = false;
        self.arrive();
        if self.lookahead == Lookahead::LastChance {
            for &s in &dag.order {
                self.chances[s.index()] = dag.steps(s).len() as u32;
            }
        }
        for &s in &dag.order[1..] {
            let steps = dag.steps(s);
            let mut best = self.over(steps[0].channel, steps[0].to, load);
            if steps.len() > 1 {
                let mut best_key = (best.wrong, self.blocked(dag, s, &best), best.cost);
                for step in &steps[1..] {
                    let way = self.over(step.channel, step.to, load);
                    if way.wrong > best_key.0 {
                        continue;
                    }
                    let key = (way.wrong, self.blocked(dag, s, &way), way.cost);
                    if key < best_key {
                        (best, best_key) = (way, key);
                    }
                }
            }
            self.ways[s.index()] = best;
            self.grown.push(s);
            self.any_wrong |= best.wrong > 0;
            if self.lookahead == Lookahead::LastChance {
                self.announce(dag, s);
            }
        }
    }

    fn arrive(&mut self) {
        let target = &mut self.ways[self.target.index()];
        (target.place, target.wrong, target.hops, target.cost) = (Rule::END, 0, 0, 0);
        self.grown.push(self.target);
    }

    /// Whether a way breaks the rule.
    pub(super) fn any_wrong(&self) -> bool {
        self.any_wrong
    }

    /// The switches whose ways break the rule.
    pub(super) fn wrong(&self) -> impl Iterator<Item = SwitchId> {
        let wrong = self.ways.iter().enumerate().filter(|(_, w)| w.wrong > 0);
        wrong.map(|(s, _)| SwitchId::at(s))
    }

    /// Replaces ways that break the rule by longer ones that keep to it.
    ///
    /// First by a search outward from the switches that have a legal way, in order of hops and then
    /// of load. A switch that this does not reach is sent along the tree, with all switches on its
    /// way; then everything else is chosen anew around these, until nothing is left. The ways along
    /// the tree are legal and agree with each other, so it ends with the whole tree at the latest.
    ///
    /// Returns whether every switch has a legal way in the end.
    pub(super) fn detour(&mut self, dag: &Outward, hops: &Hops, load: &[u64], tree: Option<&Tree>) -> bool {
        self.search(load);
        let Some(tree) = tree.filter(|_| self.grown.len() < self.ways.len()) else {
            return self.grown.len() == self.ways.len();
        };
        self.forced.fill(false);
        while self.grown.len() < self.ways.len() {
            for s in 0..self.ways.len() {
                if self.ways[s].hops == UNROUTED {
                    self.force(SwitchId::at(s), tree);
                }
            }
            self.choose_around(dag, hops, load, tree);
            self.search(load);
        }
        true
    }

    /// Replaces all ways that break the rule by longer ones that keep to it, or none where a search
    /// does not find them all.
    pub(super) fn detour_some(&mut self, load: &[u64]) {
        let (ways, grown) = (self.ways.clone(), self.grown.clone());
        self.search(load);
        if self.grown.len() < ways.len() {
            (self.ways, self.grown) = (ways, grown);
        }
    }

    /// Finds ways for all switches whose own breaks the rule, as far as that can be without
    /// changing any other.
    fn search(&mut self, load: &[u64]) {
        let ways = &mut self.ways;
        for way in ways.iter_mut().filter(|w| w.wrong > 0) {
            (way.hops, way.wrong) = (UNROUTED, 0);
        }
        self.grown.retain(|s| ways[s.index()].hops != UNROUTED);
        let channels = self.fabric.channels();
        let mut found = BinaryHeap::new();
        let open = |ways: &Self, s: SwitchId| ways.ways[s.index()].hops == UNROUTED;
        let offer = |ways: &Self, found: &mut BinaryHeap<_>, channel: ChannelId, to: SwitchId| {
            let way = ways.over(channel, to, load);
            if way.wrong == 0 {
                found.push(Reverse((way.hops, way.cost, channel)));
            }
        };
        for s in self.fabric.switch_ids().filter(|&s| open(self, s)) {
            for (id, c) in channels.out(s).filter(|(_, c)| !open(self, c.to)) {
                offer(self, &mut found, id, c.to);
            }
        }
        while let Some(Reverse((_, _, channel))) = found.pop() {
            let c = channels.get(channel);
            if !open(self, c.from) {
                continue;
            }
            self.ways[c.from.index()] = self.over(channel, c.to, load);
            self.grown.push(c.from);
            for (_, back) in channels.out(c.from).filter(|(_, back)| open(self, back.to)) {
                offer(self, &mut found, back.reverse, c.from);
            }
        }
    }

    fn force(&mut self, from: SwitchId, tree: &Tree) {
        let mut at = from;
        while at != self.target && !std::mem::replace(&mut self.forced[at.index()], true) {
            let Some(next) = tree.next(self.fabric, at, self.target) else { break };
            at = self.fabric.channels().get(next).to;
        }
    }

    /// As [`choose`](Self::choose), with the forced switches on the tree. A minimal way over a
    /// forced switch whose own is not minimal counts as broken.
    fn choose_around(&mut self, dag: &Outward, hops: &Hops, load: &[u64], tree: &Tree) {
        let channels = self.fabric.channels();
        for way in &mut self.ways {
            (way.hops, way.wrong) = (UNROUTED, 0);
        }
        self.grown.clear();
        self.arrive();
        let mut path = Vec::new();
        for s in self.fabric.switch_ids().filter(|s| self.forced[s.index()]) {
            let mut at = s;
            while self.ways[at.index()].hops == UNROUTED {
                let Some(next) = tree.next(self.fabric, at, self.target) else { break };
                path.push(next);
                at = channels.get(next).to;
            }
            while let Some(next) = path.pop() {
                let c = channels.get(next);
                self.ways[c.from.index()] = self.over(next, c.to, load);
                self.grown.push(c.from);
            }
        }
        let row = hops.row(dag.target);
        for &s in &dag.order[1..] {
            if self.forced[s.index()] {
                continue;
            }
            let mut best: Option<((u32, u32, u64), Way)> = None;
            for step in dag.steps(s) {
                let mut way = self.over(step.channel, step.to, load);
                way.wrong += u32::from(way.hops > u32::from(row[s.index()]));
                let key = (way.wrong, self.blocked(dag, s, &way), way.cost);
                if best.as_ref().is_none_or(|(least, _)| key < *least) {
                    best = Some((key, way));
                }
            }
            if let Some((_, mut way)) = best {
                way.hops = u32::from(row[s.index()]);
                self.ways[s.index()] = way;
                self.grown.push(s);
            }
        }
    }

    /// Writes the ways into the tables of a LID on the target.
    pub(super) fn write(&self, lid: Lid, lft: &mut Lft) {
        let ports = lft.to_mut(lid);
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

    /// Calls `visit` for each two turns in a row, as three channels, with the routes over them and
    /// whether the rule allows them. After [`count`](Self::count).
    pub(super) fn each_pair(&self, mut visit: impl FnMut([ChannelId; 3], u64, bool)) {
        for &s in &self.grown[1..] {
            let way = &self.ways[s.index()];
            let middle = way.to;
            if middle == self.target {
                continue;
            }
            let ahead = &self.ways[middle.index()];
            let last = ahead.to;
            if last == self.target {
                continue;
            }
            let beyond = &self.ways[last.index()];
            let legal = way.wrong == ahead.wrong;
            visit([way.channel, ahead.channel, beyond.channel], self.flow[s.index()], legal);
        }
    }

    /// Switches whose way is not minimal, and by how many hops.
    pub(super) fn detours<'b>(&'b self, hops: &'b Hops) -> impl Iterator<Item = (SwitchId, u32)> + 'b {
        let row = hops.row(self.target);
        let extra = move |(s, way): (usize, &Way)| (SwitchId::at(s), way.hops - u32::from(row[s]));
        self.ways.iter().enumerate().map(extra).filter(|&(_, extra)| extra > 0)
    }
}
