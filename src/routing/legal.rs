//! The ways of all switches to one destination, under a rule.

use super::outward::{Behind, Outward, Step};
use super::ways::{Detours, Ways};
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::ordering::Rule;

/// A way with the place of its channel in the order, where the rule has but one.
type Way = super::ways::Way<u32>;

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
pub(super) struct Legal<'a> {
    rule: &'a Rule,
    ways: Ways<'a, u32>,
    any_wrong: bool,
    lookahead: Lookahead,
    /// With [`Lookahead::LastChance`], by switch: steps to switches that have not chosen yet;
    /// [`LET_IN`] once one that has lets it in.
    chances: Vec<u32>,
    /// By step of the DAG of `known_for`: what is the same for all destinations on a switch, where
    /// there is such a thing.
    known: Vec<Known>,
    /// By place in that DAG, where the choice is by cost alone, whatever else is chosen.
    by_cost: Vec<Option<ByCost>>,
    /// By step of the present one of these: cost of the switch that it leads to.
    ahead: Vec<u64>,
    known_for: Option<SwitchId>,
    /// By switch, beside its way.
    heads: Vec<Head>,
}

/// What a step is worth with [`Rule::OneVl`], whatever else is chosen.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// How many it shuts out, where a key has that.
    shut_out: u64,
    place: u32,
}

/// Steps over channels with numbers in a row, between which cost alone decides.
#[derive(Clone, Copy, Debug)]
struct ByCost {
    first: ChannelId,
    /// Whether they lead to the same switches as those at the place before.
    repeated: bool,
}

/// As much of a way as one behind it has to know.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// Forbidden turns and cost.
    key: u64,
    place: u32,
}

/// Where a key has the forbidden turns and the switches that are shut out; the cost is below. Both
/// are fewer than 256, and a way carries less than 2^48: the square of the LIDs, on at most 254
/// channels.
const WRONG: u32 = 56;
const SHUT_OUT: u32 = 48;

impl<'a> Legal<'a> {
    pub(super) fn new(fabric: &'a Fabric, rule: &'a Rule, lookahead: Lookahead) -> Self {
        Self {
            rule,
            ways: Ways::new(fabric),
            any_wrong: false,
            lookahead,
            chances: vec![0; fabric.num_switches()],
            known: Vec::new(),
            by_cost: Vec::new(),
            ahead: Vec::new(),
            known_for: None,
            heads: vec![Head { key: 0, place: Rule::END }; fabric.num_switches()],
        }
    }

    #[inline(always)]
    fn by(&self, kind: &impl Kind, channel: ChannelId, to: SwitchId, load: &[u64]) -> Way {
        let ahead = &self.ways.ways[to.index()];
        let place = kind.place(channel, ahead, to == self.ways.target);
        Way {
            cost: ahead.cost + load[channel.index()],
            channel,
            to,
            place,
            wrong: ahead.wrong + u16::from(!Rule::legal(place, ahead.place)),
            hops: ahead.hops + 1,
            more: kind.rank(channel),
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
        let way = self.ways.ways[switch.index()];
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
            Rule::OneVl(rank) if self.lookahead == Lookahead::Every => {
                self.choose_ascending(rank.places(), dag, load)
            }
            Rule::OneVl(rank) => self.choose_minding::<_, true>(&Ascending(rank.places()), dag, load),
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
        self.set_out(dag);
        if last {
            for (place, s) in dag.order.iter().enumerate() {
                self.chances[s.index()] = dag.range(place).len() as u32;
            }
        }
        let mut any_wrong = 0;
        for (place, &s) in dag.order.iter().enumerate().skip(1) {
            let steps = dag.steps(place);
            let mut best = 0;
            if steps.len() > 1 {
                let has_behind = K::ALIKE && !dag.behind(s).is_empty();
                // With LAST: how many a step shuts out that shuts out any, once that is known.
                let mut alike = None;
                let mut least = u64::MAX;
                for (i, step) in steps.iter().enumerate() {
                    let ahead = &self.ways.ways[step.to.index()];
                    let place = kind.place(step.channel, ahead, step.to == dag.target);
                    let wrong = ahead.wrong + u16::from(!Rule::legal(place, ahead.place));
                    let blocked = if !K::SHUTS || place == Rule::END {
                        0
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
                    let cost = ahead.cost + load[step.channel.index()];
                    let key = u64::from(wrong) << WRONG | u64::from(blocked) << SHUT_OUT | cost;
                    (best, least) = if key < least { (i, key) } else { (best, least) };
                }
            }
            let step = steps[best];
            let way = self.by(kind, step.channel, step.to, load);
            any_wrong |= way.wrong;
            self.ways.ways[s.index()] = way;
            if last {
                self.announce(kind, dag, s);
            }
        }
        self.any_wrong = any_wrong > 0;
    }

    fn set_out(&mut self, dag: &Outward) {
        self.ways.target = dag.target;
        self.ways.grown.clear();
        self.ways.grown.extend_from_slice(&dag.order);
        self.ways.arrive();
    }

    /// [`choose`](Self::choose) with one VL and [`Lookahead::Every`]: what most large fabrics take, and
    /// by far the most of their time.
    fn choose_ascending(&mut self, rank: &[u32], dag: &Outward, load: &[u64]) {
        self.set_out(dag);
        if self.known_for != Some(dag.target) {
            self.get_to_know(rank, dag);
        }
        let heads = self.heads.as_mut_slice();
        heads[dag.target.index()] = Head { key: 0, place: Rule::END };
        let mut any_wrong = 0;
        for (i, &s) in dag.order.iter().enumerate().skip(1) {
            let range = dag.range(i);
            let steps = dag.steps(i);
            let mut best = 0;
            if let Some(ByCost { first, repeated }) = self.by_cost[i] {
                if !repeated {
                    self.ahead.clear();
                    self.ahead.extend(steps.iter().map(|step| heads[step.to.index()].key));
                }
                best = least_of(&self.ahead, &load[first.index()..][..steps.len()]);
            } else if steps.len() > 1 {
                let mut least = u64::MAX;
                for (i, (step, known)) in steps.iter().zip(&self.known[range]).enumerate() {
                    let head = heads[step.to.index()];
                    let wrong = u64::from(known.place >= head.place) << WRONG;
                    let key = head.key + load[step.channel.index()] + known.shut_out + wrong;
                    (best, least) = if key < least { (i, key) } else { (best, least) };
                }
            }
            let Step { channel, to } = steps[best];
            let (place, head) = (rank[channel.index()], heads[to.index()]);
            let wrong = u64::from(place >= head.place) << WRONG;
            let key = head.key + load[channel.index()] + wrong;
            any_wrong |= key >> WRONG;
            heads[s.index()] = Head { key, place };
            let hops = self.ways.ways[to.index()].hops + 1;
            let (cost, wrong) = (key & !(u64::MAX << WRONG), (key >> WRONG) as u16);
            self.ways.ways[s.index()] = Way { cost, channel, to, place, wrong, hops, more: 0 };
        }
        self.any_wrong = any_wrong > 0;
    }

    /// Finds out, once for all destinations on a switch, what does not depend on them.
    fn get_to_know(&mut self, rank: &[u32], dag: &Outward) {
        self.known_for = Some(dag.target);
        self.known.clear();
        self.by_cost.clear();
        // By switch: the least place that its way may have, 0 where it may break the rule.
        let mut entered = vec![0; dag.order.len()];
        for (i, &s) in dag.order.iter().enumerate() {
            let steps = dag.steps(i);
            let known_before = self.known.len();
            let behind = || dag.behind(s).iter().map(|b| rank[b.channel.index()]);
            let (least, most) = behind().fold((u32::MAX, 0), |(least, most), p| (least.min(p), most.max(p)));
            self.known.extend(steps.iter().map(|step| {
                let place = rank[step.channel.index()];
                let shut_out = match () {
                    _ if steps.len() < 2 || place > most => 0,
                    _ if place <= least => dag.behind(s).len(),
                    _ => behind().filter(|&behind| behind >= place).count(),
                };
                Known { shut_out: (shut_out as u64) << SHUT_OUT, place }
            }));
            let known = &self.known[known_before..];
            let sound = steps.iter().zip(known).all(|(step, known)| known.place < entered[step.to.index()]);
            let alike = known.iter().all(|k| k.shut_out == known[0].shut_out);
            let first = steps.first().map_or(ChannelId(0), |step| step.channel);
            let in_a_row = steps.iter().zip(first.0..).all(|(step, c)| step.channel.0 == c);
            let by_cost = (sound && alike && in_a_row && steps.len() > 1).then(|| {
                let before = self.by_cost.last().is_some_and(Option::is_some).then(|| dag.steps(i - 1));
                let repeated =
                    before.is_some_and(|before| before.iter().map(|b| b.to).eq(steps.iter().map(|s| s.to)));
                ByCost { first, repeated }
            });
            self.by_cost.push(by_cost);
            let least = known.iter().map(|k| k.place).min().unwrap_or(Rule::END);
            entered[s.index()] = if sound { least } else { 0 };
        }
    }

    /// Whether a way breaks the rule.
    pub(super) fn any_wrong(&self) -> bool {
        self.any_wrong
    }

    /// Calls `visit` for each two turns in a row, as three channels, with the routes over them and
    /// whether the rule allows them. After [`count`](Ways::count).
    pub(super) fn each_pair(&self, mut visit: impl FnMut([ChannelId; 3], u64, bool)) {
        for &s in &self.ways.grown[1..] {
            let way = &self.ways.ways[s.index()];
            let middle = way.to;
            if middle == self.ways.target {
                continue;
            }
            let ahead = &self.ways.ways[middle.index()];
            let last = ahead.to;
            if last == self.ways.target {
                continue;
            }
            let beyond = &self.ways.ways[last.index()];
            let legal = way.wrong == ahead.wrong;
            visit([way.channel, ahead.channel, beyond.channel], self.ways.flow[s.index()], legal);
        }
    }
}

impl<'a> Detours<'a> for Legal<'a> {
    type More = u32;
    /// The load by channel.
    type Goal<'g> = &'g [u64];
    type Price = u64;

    fn ways(&self) -> &Ways<'a, u32> {
        &self.ways
    }

    fn ways_mut(&mut self) -> &mut Ways<'a, u32> {
        &mut self.ways
    }

    fn rule(&self) -> &Rule {
        self.rule
    }

    fn over(&self, channel: ChannelId, to: SwitchId, load: &[u64]) -> Way {
        match self.rule {
            Rule::Any => self.by(&Free, channel, to, load),
            Rule::OneVl(rank) => self.by(&Ascending(rank.places()), channel, to, load),
            Rule::FirstTurnFree(rank) => self.by(&AfterFirst(rank.places()), channel, to, load),
            Rule::Labelled { .. } => self.by(&General(self.rule), channel, to, load),
        }
    }

    fn price(&self, way: &Way, _: &[u64]) -> u64 {
        way.cost
    }

    fn minimal(&mut self, dag: &Outward, place: usize, hops: u16, load: &[u64]) -> Option<Way> {
        let ways = dag.steps(place).iter().map(|step| {
            let way = self.over(step.channel, step.to, load);
            let wrong = way.wrong + u16::from(way.hops > hops);
            let way = Way { wrong, hops, ..way };
            let blocked = self.blocked(&General(self.rule), dag, dag.order[place], (way.channel, way.place));
            ((wrong, blocked, way.cost), way)
        });
        ways.min_by_key(|(key, _)| *key).map(|(_, way)| way)
    }
}

/// The number of the step of least cost, the first of those.
///
/// - `ahead`: by step, the cost beyond its channel.
/// - `load`: by step.
#[inline(always)]
fn least_of(ahead: &[u64], load: &[u64]) -> usize {
    let (mut best, mut least) = (0, u64::MAX);
    for (i, (ahead, load)) in ahead.iter().zip(load).enumerate() {
        let cost = ahead + load;
        (best, least) = if cost < least { (i, cost) } else { (best, least) };
    }
    best
}

/// What a kind of rule comes to, so that the walk over a DAG is compiled for each by itself.
trait Kind {
    /// Whether there is anything that a way could shut out.
    const SHUTS: bool = true;
    /// Whether a way shuts out all behind it or none.
    const ALIKE: bool = false;

    /// [`Rule::place`] over `channel` to the switch whose way is `ahead`.
    fn place(&self, channel: ChannelId, ahead: &Way, at_target: bool) -> u32;

    /// Whether `behind` cannot be followed by a way over `channel` at `place`, which is not the end.
    fn shut(&self, behind: ChannelId, channel: ChannelId, place: u32) -> bool;

    /// Of a channel, for [`Way::more`](super::ways::Way::more).
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
        if at_target { Rule::END } else { ahead.more }
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
