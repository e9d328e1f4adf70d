//! The ways of all switches to one destination, chosen without a look at any other destination.

use super::settled::{Common, ending, joined};
use super::{Guide, mix};
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::ordering::Rule;
use crate::routing::Lookahead;
use crate::routing::outward::{Behind, Outward};
use crate::routing::ways::{Detours, Ways};

/// A way with how well it ends: 0 for a marked channel, more for another, the last channel first.
/// Its cost is the expected load along it, or along the least loaded one among those that were in
/// choice.
type Way = crate::routing::ways::Way<u64>;

const LET_IN: u32 = u32::MAX / 2;

/// A LID of an end port on the target, as far as choices go by it.
#[derive(Clone, Copy)]
pub(super) struct Goal<'a> {
    /// A number of its own, the same wherever and whenever it is routed to.
    pub(super) key: u64,
    /// The same of the target.
    pub(super) target_key: u64,
    /// The channels that its ways should end with; empty if that is all the same.
    pub(super) tail: &'a [ChannelId],
}

/// Chooses the ways of all switches to one destination after the other.
pub(super) struct Local<'a> {
    rule: &'a Rule,
    lookahead: Lookahead,
    guide: &'a Guide,
    ways: Ways<'a, u64>,
    any_wrong: bool,
    /// With [`Lookahead::LastChance`], by switch: steps to switches that have not chosen yet;
    /// [`LET_IN`] once one that has lets it in.
    chances: Vec<u32>,
    /// By channel: destinations on the present target that were sent over it.
    used: Vec<u16>,
    /// The channels in choice at one switch.
    choice: Vec<Way>,
    /// What all destinations on the present target have in common.
    common: Common,
    /// Destinations on it that ways were chosen for.
    dealt: usize,
}

impl<'a> Local<'a> {
    pub(super) fn new(fabric: &'a Fabric, rule: &'a Rule, lookahead: Lookahead, guide: &'a Guide) -> Self {
        Self {
            rule,
            lookahead,
            guide,
            ways: Ways::new(fabric),
            any_wrong: false,
            chances: vec![0; fabric.num_switches()],
            used: vec![0; fabric.channels().len()],
            choice: Vec::new(),
            common: Common::default(),
            dealt: 0,
        }
    }

    /// Turns to the target of a DAG.
    ///
    /// - `key`: a number of its own.
    pub(super) fn turn_to(&mut self, dag: &Outward, key: u64) {
        self.ways.target = dag.target;
        let fabric = self.ways.fabric;
        match self.lookahead {
            Lookahead::Every => self.common.learn(fabric, self.rule, self.guide, dag, key),
            Lookahead::LastChance => self.common.forget(fabric),
        }
        self.dealt = 0;
        if !self.common.everywhere() {
            self.used.fill(0);
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
        let way = self.ways.ways[switch.index()];
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
                let near = self.choice.iter().filter(|way| self.guide.prices.near(way.cost, least));
                let like = |c: ChannelId| mix(keys.channel(c) ^ goal.target_key);
                near.min_by_key(|way| (self.used[way.channel.index()], like(way.channel))).copied()
            }
            Some(_) => {
                let ways = self.choice.iter().map(|&way| {
                    let (here, like) = ending(self.guide, way.channel, goal);
                    (like, Way { more: joined(way.more, here, way.hops), ..way })
                });
                ways.min_by_key(|(like, way)| (way.more, *like)).map(|(_, way)| way)
            }
        };
        let best = best.expect("there is a way in choice");
        Way { cost: least, ..best }
    }

    /// Gives every switch a minimal way: with as few forbidden turns as possible, then so that as
    /// few as possible of those behind are shut out, then one of those with nearly the least
    /// expected load, as [`stable_sssp`](super::stable_sssp) tells.
    pub(super) fn choose(&mut self, dag: &Outward, goal: Goal<'_>) {
        self.ways.grown.clear();
        self.ways.grown.extend_from_slice(&dag.order);
        self.any_wrong = false;
        if self.common.everywhere() {
            self.common.deal(self.guide, dag, goal, self.dealt, &mut self.ways);
            self.dealt += 1;
            return;
        }
        self.ways.arrive();
        if self.lookahead == Lookahead::LastChance {
            for (place, s) in dag.order.iter().enumerate() {
                self.chances[s.index()] = dag.range(place).len() as u32;
            }
        }
        for (place, &s) in dag.order.iter().enumerate().skip(1) {
            self.choice.clear();
            if let Some((wrong, ways)) = self.common.at(s) {
                let mut choice = std::mem::take(&mut self.choice);
                choice.extend(ways.iter().map(|way| self.over(way.channel, way.to, goal)));
                self.choice = choice;
                self.ways.ways[s.index()] = self.take(goal);
                self.any_wrong |= wrong > 0;
                continue;
            }
            let steps = dag.steps(place);
            let mut least = (u16::MAX, u32::MAX);
            for step in steps {
                let way = self.over(step.channel, step.to, goal);
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
            self.ways.ways[s.index()] = self.take(goal);
            self.any_wrong |= least.0 > 0;
            if self.lookahead == Lookahead::LastChance {
                self.announce(dag, s);
            }
        }
    }

    /// Decides between the ways in choice.
    fn take(&mut self, goal: Goal<'_>) -> Way {
        let way = self.pick(goal);
        self.used[way.channel.index()] += 1;
        way
    }

    /// Whether a way breaks the rule.
    pub(super) fn any_wrong(&self) -> bool {
        self.any_wrong
    }
}

impl<'a> Detours<'a> for Local<'a> {
    type More = u64;
    type Goal<'g> = Goal<'g>;
    /// Expected load, then by a hash.
    type Price = (u64, u64);
    const MAKES_ROOM: bool = true;

    fn ways(&self) -> &Ways<'a, u64> {
        &self.ways
    }

    fn ways_mut(&mut self) -> &mut Ways<'a, u64> {
        &mut self.ways
    }

    fn rule(&self) -> &Rule {
        self.rule
    }

    #[inline(always)]
    fn over(&self, channel: ChannelId, to: SwitchId, _: Goal<'_>) -> Way {
        let ahead = &self.ways.ways[to.index()];
        let next = (to != self.ways.target).then_some(ahead.channel);
        let place = self.rule.place(channel, next);
        Way {
            cost: ahead.cost + self.guide.prices.of(channel),
            channel,
            to,
            place,
            wrong: ahead.wrong + u16::from(!Rule::legal(place, ahead.place)),
            hops: ahead.hops + 1,
            more: ahead.more,
        }
    }

    fn price(&self, way: &Way, goal: Goal<'_>) -> (u64, u64) {
        (way.cost, mix(self.guide.keys.channel(way.channel) ^ goal.key))
    }

    fn minimal(&mut self, dag: &Outward, place: usize, hops: u16, goal: Goal<'_>) -> Option<Way> {
        self.choice.clear();
        let mut least = (u16::MAX, u32::MAX);
        for step in dag.steps(place) {
            let way = self.over(step.channel, step.to, goal);
            let way = Way { wrong: way.wrong + u16::from(way.hops > hops), hops, ..way };
            let key = (way.wrong, self.blocked(dag, dag.order[place], &way));
            if key < least {
                least = key;
                self.choice.clear();
            }
            if key == least {
                self.choice.push(way);
            }
        }
        Some(self.take(goal))
    }
}
