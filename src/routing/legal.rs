//! The ways of all switches to one destination, under a rule.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Hops;
use super::outward::{Behind, Outward};
use crate::fabric::{ChannelId, Fabric, Lid, SwitchId};
use crate::ordering::{Rule, Tree};
use crate::tables::Lft;

/// Where a path stands at one switch. Half a cache line, as the ways of all switches are walked for
/// each destination.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Routes on the channels of the way.
    cost: u64,
    /// The channel that it goes on over; meaningless at the target.
    channel: ChannelId,
    /// The switch that this leads to.
    to: SwitchId,
    /// [`Rule::place`] of that.
    place: u32,
    /// Place of the channel itself in the order, where the rule has but one.
    rank: u32,
    /// Consecutive turns on the way that the rule forbids.
    wrong: u16,
    /// Channels to the target; [`UNROUTED`] while there is no way.
    hops: u16,
}

const UNROUTED: u16 = u16::MAX;
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
    /// By step of the DAG of `counted_for`: how many it shuts out, where that depends on nothing else.
    shut_out: Vec<u8>,
    counted_for: Option<SwitchId>,
}

impl<'a> Ways<'a> {
    pub(super) fn new(fabric: &'a Fabric, rule: &'a Rule, lookahead: Lookahead) -> Self {
        let n = fabric.num_switches();
        let nowhere = Way {
            cost: 0,
            channel: ChannelId(0),
            to: SwitchId(0),
            place: Rule::END,
            rank: 0,
            wrong: 0,
            hops: UNROUTED,
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
            shut_out: Vec::new(),
            counted_for: None,
        }
    }

    /// The way of a switch over a channel, if the switch that it leads to has one.
    fn over(&self, channel: ChannelId, to: SwitchId, load: &[u64]) -> Way {
        match self.rule {
            Rule::Any => self.by(&Free, channel, to, load),
            Rule::OneVl(rank) => self.by(&Ascending(rank.places()), channel, to, load),
            Rule::FirstTurnFree(rank) => self.by(&AfterFirst(rank.places()), channel, to, load),
            Rule::Labelled { .. } => self.by(&General(self.rule), channel, to, load),
        }
    }

    #[inline(always)]
    fn by(&self, kind: &impl Kind, channel: ChannelId, to: SwitchId, load: &[u64]) -> Way {
        let ahead = &self.ways[to.index()];
        let place = kind.place(channel, ahead, to == self.target);
        Way {
            cost: ahead.cost + load[channel.index()],
            channel,
            to,
            place,
            rank: kind.rank(channel),
            wrong: ahead.wrong + u16::from(!Rule::legal(place, ahead.place)),
            hops: ahead.hops + 1,
        }
    }

    /// How many of the channels that lead into a switch from one hop farther away could not be
    /// followed over a channel at a place, as far as the lookahead minds.
    fn blocked<K: Kind>(&self, kind: &K, dag: &Outward, switch: SwitchId, way: (ChannelId, u32)) -> u32 {
        let (channel, place) = way;
        if place == Rule::END {
            return 0;
        }
        let behind = dag.behind(switch);
        let shut = |b: &Behind| kind.shut(b.channel, channel, place);
        match self.lookahead {
            Lookahead::LastChance => {
                let last = behind.iter().filter(|b| self.chances[b.from.index()] == 1);
                last.filter(|b| shut(b)).count() as u32
            }
            Lookahead::Every if K::ALIKE => u32::from(behind.first().is_some_and(shut)),
            Lookahead::Every => behind.iter().filter(|b| shut(b)).count() as u32,
        }
    }

    /// Tells those behind a switch, which has chosen, whether it lets them in.
    #[inline(always)]
    fn announce<K: Kind>(&mut self, kind: &K, dag: &Outward, switch: SwitchId) {
        let way = self.ways[switch.index()];
        let behind = dag.behind(switch);
        if way.place == Rule::END || K::ALIKE {
            let shut = |b: &Behind| way.place != Rule::END && kind.shut(b.channel, way.channel, way.place);
            let open = way.wrong == 0 && !behind.first().is_some_and(shut);
            for b in behind {
                let chances = &mut self.chances[b.from.index()];
                *chances = if open { LET_IN } else { chances.saturating_sub(1) };
            }
            return;
        }
        for b in behind {
            let chances = &mut self.chances[b.from.index()];
            let open = way.wrong == 0 && !kind.shut(b.channel, way.channel, way.place);
            *chances = if open { LET_IN } else { chances.saturating_sub(1) };
        }
    }

    /// Gives every switch a minimal way: with as few forbidden turns as possible, then so that as
    /// few as possible of those behind are shut out, then with the least load, then over the lowest
    /// port.
    pub(super) fn choose(&mut self, dag: &Outward, load: &[u64]) {
        let rule = self.rule;
        match rule {
            Rule::Any => self.choose_by(&Free, dag, load),
            Rule::OneVl(rank) => self.choose_by(&Ascending(rank.places()), dag, load),
            Rule::FirstTurnFree(rank) => self.choose_by(&AfterFirst(rank.places()), dag, load),
            Rule::Labelled { .. } => self.choose_by(&General(rule), dag, load),
        }
    }

    fn choose_by<K: Kind>(&mut self, kind: &K, dag: &Outward, load: &[u64]) {
        match self.lookahead {
            Lookahead::Every => self.choose_minding::<K, false>(kind, dag, load),
            Lookahead::LastChance => self.choose_minding::<K, true>(kind, dag, load),
        }
    }

    /// [`choose`](Self::choose) for one kind of rule. `LAST`: [`Lookahead::LastChance`].
    fn choose_minding<K: Kind, const LAST: bool>(&mut self, kind: &K, dag: &Outward, load: &[u64]) {
        let last = LAST && K::SHUTS;
        self.target = dag.target;
        self.grown.clear();
        self.grown.extend_from_slice(&dag.order);
        self.reset_target();
        if last {
            for (place, s) in dag.order.iter().enumerate() {
                self.chances[s.index()] = dag.range(place).len() as u32;
            }
        }
        let fixed = !LAST && K::FIXED;
        if fixed && self.counted_for != Some(dag.target) {
            self.count_shut_out(kind, dag);
        }
        let mut any_wrong = 0;
        for (place, &s) in dag.order.iter().enumerate().skip(1) {
            let range = dag.range(place);
            let steps = dag.steps(place);
            let mut best = 0;
            if steps.len() > 1 {
                let has_behind = K::ALIKE && !dag.behind(s).is_empty();
                // With LAST: how many a step shuts out that shuts out any, once that is known.
                let mut alike = None;
                let mut least = u64::MAX;
                for (i, step) in steps.iter().enumerate() {
                    let ahead = &self.ways[step.to.index()];
                    let place = kind.place(step.channel, ahead, step.to == dag.target);
                    let wrong = ahead.wrong + u16::from(!Rule::legal(place, ahead.place));
                    let blocked = if !K::SHUTS || place == Rule::END {
                        0
                    } else if fixed {
                        u32::from(self.shut_out[range.start + i])
                    } else if K::ALIKE {
                        let shut = has_behind && kind.shut(step.channel, step.channel, place);
                        match (shut, LAST) {
                            (false, _) => 0,
                            (true, false) => 1,
                            (true, true) => *alike.get_or_insert_with(|| {
                                let last = |b: &&Behind| self.chances[b.from.index()] == 1;
                                dag.behind(s).iter().filter(last).count() as u32
                            }),
                        }
                    } else {
                        self.blocked(kind, dag, s, (step.channel, place))
                    };
                    // Forbidden turns and switches behind are fewer than 256, and a way carries less
                    // than 2^48: the square of the LIDs, on at most 254 channels.
                    let cost = ahead.cost + load[step.channel.index()];
                    let key = u64::from(wrong) << 56 | u64::from(blocked) << 48 | cost;
                    (best, least) = if key < least { (i, key) } else { (best, least) };
                }
            }
            let step = steps[best];
            let way = self.by(kind, step.channel, step.to, load);
            any_wrong |= way.wrong;
            self.ways[s.index()] = way;
            if last {
                self.announce(kind, dag, s);
            }
        }
        self.any_wrong = any_wrong > 0;
    }

    /// Counts, once for all destinations on a switch, what does not depend on them.
    fn count_shut_out<K: Kind>(&mut self, kind: &K, dag: &Outward) {
        self.counted_for = Some(dag.target);
        self.shut_out.clear();
        self.shut_out.resize(dag.len(), 0);
        for (place, &s) in dag.order.iter().enumerate().skip(1) {
            let steps = dag.steps(place);
            if steps.len() < 2 {
                continue;
            }
            for (i, step) in dag.range(place).zip(steps) {
                let place = kind.place(step.channel, &self.ways[step.to.index()], step.to == dag.target);
                self.shut_out[i] = self.blocked(kind, dag, s, (step.channel, place)) as u8;
            }
        }
    }

    fn arrive(&mut self) {
        self.reset_target();
        self.grown.push(self.target);
    }

    fn reset_target(&mut self) {
        let target = &mut self.ways[self.target.index()];
        (target.place, target.wrong, target.hops, target.cost) = (Rule::END, 0, 0, 0);
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
        for (place, &s) in dag.order.iter().enumerate().skip(1) {
            if self.forced[s.index()] {
                continue;
            }
            let mut best: Option<((u16, u32, u64), Way)> = None;
            for step in dag.steps(place) {
                let mut way = self.over(step.channel, step.to, load);
                way.wrong += u16::from(way.hops > u16::from(row[s.index()]));
                let blocked = self.blocked(&General(self.rule), dag, s, (way.channel, way.place));
                let key = (way.wrong, blocked, way.cost);
                if best.as_ref().is_none_or(|(least, _)| key < *least) {
                    best = Some((key, way));
                }
            }
            if let Some((_, mut way)) = best {
                way.hops = u16::from(row[s.index()]);
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
        let extra = move |(s, way): (usize, &Way)| (SwitchId::at(s), u32::from(way.hops) - u32::from(row[s]));
        self.ways.iter().enumerate().map(extra).filter(|&(_, extra)| extra > 0)
    }
}

/// What a kind of rule comes to, so that the walk over a DAG is compiled for each by itself.
trait Kind {
    /// Whether there is anything that a way could shut out.
    const SHUTS: bool = true;
    /// Whether a way shuts out all behind it or none.
    const ALIKE: bool = false;
    /// Whether it depends on the channel of a way alone what that shuts out.
    const FIXED: bool = false;

    /// [`Rule::place`] over `channel` to the switch whose way is `ahead`.
    fn place(&self, channel: ChannelId, ahead: &Way, at_target: bool) -> u32;

    /// Whether `behind` cannot be followed by a way over `channel` at `place`, which is not the end.
    fn shut(&self, behind: ChannelId, channel: ChannelId, place: u32) -> bool;

    /// Of a channel, for [`Way::rank`].
    fn rank(&self, _channel: ChannelId) -> u32 {
        0
    }
}

/// [`Rule::Any`].
struct Free;

impl Kind for Free {
    const SHUTS: bool = false;

    #[inline(always)]
    fn place(&self, _: ChannelId, _: &Way, _: bool) -> u32 {
        Rule::END
    }

    #[inline(always)]
    fn shut(&self, _: ChannelId, _: ChannelId, _: u32) -> bool {
        false
    }
}

/// [`Rule::OneVl`].
struct Ascending<'a>(&'a [u32]);

impl Kind for Ascending<'_> {
    const FIXED: bool = true;

    #[inline(always)]
    fn place(&self, channel: ChannelId, _: &Way, _: bool) -> u32 {
        self.0[channel.index()]
    }

    #[inline(always)]
    fn shut(&self, behind: ChannelId, _: ChannelId, place: u32) -> bool {
        self.0[behind.index()] >= place
    }
}

/// [`Rule::FirstTurnFree`].
struct AfterFirst<'a>(&'a [u32]);

impl Kind for AfterFirst<'_> {
    const ALIKE: bool = true;

    #[inline(always)]
    fn place(&self, _: ChannelId, ahead: &Way, at_target: bool) -> u32 {
        if at_target { Rule::END } else { ahead.rank }
    }

    #[inline(always)]
    fn shut(&self, _: ChannelId, channel: ChannelId, place: u32) -> bool {
        self.0[channel.index()] >= place
    }

    #[inline(always)]
    fn rank(&self, channel: ChannelId) -> u32 {
        self.0[channel.index()]
    }
}

/// Any rule, by its own word.
struct General<'a>(&'a Rule);

impl Kind for General<'_> {
    #[inline(always)]
    fn place(&self, channel: ChannelId, ahead: &Way, at_target: bool) -> u32 {
        self.0.place(channel, (!at_target).then_some(ahead.channel))
    }

    #[inline(always)]
    fn shut(&self, behind: ChannelId, channel: ChannelId, place: u32) -> bool {
        !Rule::legal(self.0.place(behind, Some(channel)), place)
    }
}
