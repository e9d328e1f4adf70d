//! The ways of all switches to one destination, chosen without a look at any other destination.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Guide, mix, near};
use crate::fabric::{ChannelId, Fabric, Lid, SwitchId};
use crate::ordering::{Rule, Tree};
use crate::routing::outward::{Behind, Outward};
use crate::routing::{Hops, Lookahead};
use crate::tables::Lft;

const UNROUTED: u32 = u32::MAX;
const LET_IN: u32 = u32::MAX / 2;
/// Hops before the destination that are compared by what the tails want, and bits for each.
const TAIL_HOPS: u32 = 5;
const TAIL_BITS: u32 = 11;

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
    /// Expected load along the way, or along the least loaded one among those that were in choice.
    cost: u64,
    /// How well it ends: 0 for a marked channel, more for another, the last channel first.
    tail: u64,
}

/// A destination: a LID of an end port on the target.
#[derive(Clone, Copy)]
pub(super) struct Goal<'a> {
    pub(super) lid: Lid,
    /// A number of its own, the same wherever and whenever it is routed to.
    pub(super) key: u64,
    /// The same of the target.
    pub(super) target_key: u64,
    /// The channels that its ways should end with; empty if that is all the same.
    pub(super) tail: &'a [ChannelId],
}

/// Chooses the ways of all switches to one destination after the other.
pub(super) struct Ways<'a> {
    fabric: &'a Fabric,
    rule: &'a Rule,
    lookahead: Lookahead,
    guide: &'a Guide,
    target: SwitchId,
    ways: Vec<Way>,
    /// Switches with a way, each after the one that it sends to.
    grown: Vec<SwitchId>,
    any_wrong: bool,
    /// Switches that must take the tree.
    forced: Vec<bool>,
    /// With [`Lookahead::LastChance`], by switch: steps to switches that have not chosen yet;
    /// [`LET_IN`] once one that has lets it in.
    chances: Vec<u32>,
    /// By channel: destinations on the present target that were sent over it.
    used: Vec<u16>,
    flow: Vec<u64>,
    /// The channels in choice at one switch.
    choice: Vec<Way>,
}

impl<'a> Ways<'a> {
    pub(super) fn new(fabric: &'a Fabric, rule: &'a Rule, lookahead: Lookahead, guide: &'a Guide) -> Self {
        let n = fabric.num_switches();
        let nowhere = Way {
            channel: ChannelId(0),
            to: SwitchId(0),
            place: Rule::END,
            wrong: 0,
            hops: UNROUTED,
            cost: 0,
            tail: 0,
        };
        Self {
            fabric,
            rule,
            lookahead,
            guide,
            target: SwitchId(0),
            ways: vec![nowhere; n],
            grown: Vec::with_capacity(n),
            any_wrong: false,
            forced: vec![false; n],
            chances: vec![0; n],
            used: vec![0; fabric.channels().len()],
            flow: vec![0; n],
            choice: Vec::new(),
        }
    }

    /// Turns to another destination switch.
    pub(super) fn turn_to(&mut self, target: SwitchId) {
        self.target = target;
        self.used.fill(0);
    }

    /// The way of a switch over a channel, if the switch that it leads to has one.
    #[inline(always)]
    fn over(&self, channel: ChannelId, to: SwitchId) -> Way {
        let ahead = &self.ways[to.index()];
        let next = (to != self.target).then_some(ahead.channel);
        let place = self.rule.place(channel, next);
        Way {
            channel,
            to,
            place,
            wrong: ahead.wrong + u32::from(!Rule::legal(place, ahead.place)),
            hops: ahead.hops + 1,
            cost: ahead.cost + self.guide.price[channel.index()],
            tail: ahead.tail,
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

    /// Of the ways in choice the one for a destination; it gets the cost of the cheapest of them.
    fn pick(&self, goal: Goal<'_>) -> Way {
        let least = self.choice.iter().map(|way| way.cost).min().unwrap_or(0);
        let keys = &self.guide.keys;
        let best = match self.guide.tails {
            None => {
                let near = self.choice.iter().filter(|way| near(way.cost, least));
                let like = |c: ChannelId| mix(keys.channel(c) ^ goal.target_key);
                near.min_by_key(|way| (self.used[way.channel.index()], like(way.channel))).copied()
            }
            Some(_) => {
                let ways = self.choice.iter().map(|&way| {
                    let like = mix(keys.channel(way.channel) ^ goal.key);
                    let marked = goal.tail.contains(&way.channel);
                    let here = if marked { 0 } else { 1 + (like >> (65 - TAIL_BITS)) };
                    let tail = if way.hops > TAIL_HOPS { way.tail } else { way.tail << TAIL_BITS | here };
                    (like, Way { tail, ..way })
                });
                ways.min_by_key(|(like, way)| (way.tail, *like)).map(|(_, way)| way)
            }
        };
        let best = best.expect("there is a way in choice");
        Way { cost: least, ..best }
    }

    /// Gives every switch a minimal way: with as few forbidden turns as possible, then so that as
    /// few as possible of those behind are shut out, then one of those with nearly the least
    /// expected load, as [`stable_sssp`](super::stable_sssp) tells.
    pub(super) fn choose(&mut self, dag: &Outward, goal: Goal<'_>) {
        self.grown.clear();
        self.any_wrong = false;
        self.arrive();
        if self.lookahead == Lookahead::LastChance {
            for (place, s) in dag.order.iter().enumerate() {
                self.chances[s.index()] = dag.range(place).len() as u32;
            }
        }
        for (place, &s) in dag.order.iter().enumerate().skip(1) {
            let steps = dag.steps(place);
            self.choice.clear();
            let mut least = (u32::MAX, u32::MAX);
            for step in steps {
                let way = self.over(step.channel, step.to);
                if way.wrong > least.0 {
                    continue;
                }
                let blocked = if steps.len() > 1 { self.blocked(dag, s, &way) } else { 0 };
                if (way.wrong, blocked) < least {
                    least = (way.wrong, blocked);
                    self.choice.clear();
                }
                if (way.wrong, blocked) == least {
                    self.choice.push(way);
                }
            }
            self.take(s, goal);
            self.any_wrong |= least.0 > 0;
            if self.lookahead == Lookahead::LastChance {
                self.announce(dag, s);
            }
        }
    }

    /// Decides between the ways in choice at a switch.
    fn take(&mut self, s: SwitchId, goal: Goal<'_>) {
        let way = self.pick(goal);
        self.used[way.channel.index()] += 1;
        self.ways[s.index()] = way;
        self.grown.push(s);
    }

    fn arrive(&mut self) {
        let target = &mut self.ways[self.target.index()];
        (target.place, target.wrong, target.hops) = (Rule::END, 0, 0);
        (target.cost, target.tail) = (0, 0);
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
    /// First by a search outward from the switches that have a legal way, in order of hops, then of
    /// expected load. A switch that this does not reach is sent along the tree, with all switches on
    /// its way; then everything else is chosen anew around these, until nothing is left. The ways
    /// along the tree are legal and agree with each other, so it ends with the whole tree at the
    /// latest.
    ///
    /// Returns whether every switch has a legal way in the end.
    pub(super) fn detour(&mut self, dag: &Outward, hops: &Hops, goal: Goal<'_>, tree: Option<&Tree>) -> bool {
        self.search(goal);
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
            self.choose_around(dag, hops, goal, tree);
            self.search(goal);
        }
        true
    }

    /// Replaces all ways that break the rule by longer ones that keep to it, or none where a search
    /// does not find them all.
    pub(super) fn detour_some(&mut self, goal: Goal<'_>) {
        let (ways, grown) = (self.ways.clone(), self.grown.clone());
        self.search(goal);
        if self.grown.len() < ways.len() {
            (self.ways, self.grown) = (ways, grown);
        }
    }

    /// Finds ways for all switches whose own breaks the rule, as far as that can be without
    /// changing any other.
    fn search(&mut self, goal: Goal<'_>) {
        let ways = &mut self.ways;
        for way in ways.iter_mut().filter(|w| w.wrong > 0) {
            (way.hops, way.wrong) = (UNROUTED, 0);
        }
        self.grown.retain(|s| ways[s.index()].hops != UNROUTED);
        let channels = self.fabric.channels();
        let mut found = BinaryHeap::new();
        let open = |ways: &Self, s: SwitchId| ways.ways[s.index()].hops == UNROUTED;
        let offer = |ways: &Self, found: &mut BinaryHeap<_>, channel: ChannelId, to: SwitchId| {
            let way = ways.over(channel, to);
            if way.wrong == 0 {
                let like = mix(ways.guide.keys.channel(channel) ^ goal.key);
                found.push(Reverse((way.hops, way.cost, like, channel)));
            }
        };
        for s in self.fabric.switch_ids().filter(|&s| open(self, s)) {
            for (id, c) in channels.out(s).filter(|(_, c)| !open(self, c.to)) {
                offer(self, &mut found, id, c.to);
            }
        }
        while let Some(Reverse((.., channel))) = found.pop() {
            let c = channels.get(channel);
            if !open(self, c.from) {
                continue;
            }
            self.ways[c.from.index()] = self.over(channel, c.to);
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
    fn choose_around(&mut self, dag: &Outward, hops: &Hops, goal: Goal<'_>, tree: &Tree) {
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
                self.ways[c.from.index()] = self.over(next, c.to);
                self.grown.push(c.from);
            }
        }
        let row = hops.row(dag.target);
        for (place, &s) in dag.order.iter().enumerate().skip(1) {
            if self.forced[s.index()] {
                continue;
            }
            self.choice.clear();
            let mut least = (u32::MAX, u32::MAX);
            for step in dag.steps(place) {
                let mut way = self.over(step.channel, step.to);
                way.wrong += u32::from(way.hops > u32::from(row[s.index()]));
                way.hops = u32::from(row[s.index()]);
                let key = (way.wrong, self.blocked(dag, s, &way));
                if key < least {
                    least = key;
                    self.choice.clear();
                }
                if key == least {
                    self.choice.push(way);
                }
            }
            self.take(s, goal);
        }
    }

    /// Writes the ways into the ports by switch of a destination.
    pub(super) fn write(&self, ports: &mut [u8]) {
        ports.fill(Lft::NO_PATH);
        for &s in &self.grown[1..] {
            ports[s.index()] = self.fabric.channels().get(self.ways[s.index()].channel).out_port.0;
        }
    }

    /// Counts the routes of all adapters to the target on the channels of the ways.
    pub(super) fn count(&mut self, adapters: &[u64], load: &mut [u64]) {
        self.flow.copy_from_slice(adapters);
        for &s in self.grown[1..].iter().rev() {
            let way = &self.ways[s.index()];
            let flow = self.flow[s.index()];
            load[way.channel.index()] += flow;
            self.flow[way.to.index()] += flow;
        }
    }

    /// Switches whose way is not minimal.
    pub(super) fn detours<'b>(&'b self, hops: &'b Hops) -> impl Iterator<Item = SwitchId> + 'b {
        let row = hops.row(self.target);
        let longer = move |(s, way): &(usize, &Way)| way.hops > u32::from(row[*s]);
        self.ways.iter().enumerate().filter(longer).map(|(s, _)| SwitchId::at(s))
    }
}
