//! The ways in choice at each switch, as far as they are the same for all destinations on one switch.

use super::{Goal, Guide, mix};
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::ordering::Rule;
use crate::routing::outward::{Outward, Step};
use crate::routing::ways::Ways;

/// Hops before the destination that are compared by what the tails want, and bits for each.
const TAIL_HOPS: u16 = 5;
const TAIL_BITS: u32 = 11;

/// How well a channel ends a way: 0 for a marked one, more for another; and how much a destination likes
/// it, less being better, which decides between several that end a way alike.
#[inline(always)]
pub(super) fn ending(guide: &Guide, channel: ChannelId, goal: Goal<'_>) -> (u64, u64) {
    let like = mix(guide.keys.channel(channel) ^ goal.key);
    let here = if goal.tail.contains(&channel) { 0 } else { 1 + (like >> (65 - TAIL_BITS)) };
    (here, like)
}

/// How well a way of so many hops ends, the last channel first: what is `ahead` before its own channel.
#[inline(always)]
pub(super) fn joined(ahead: u64, here: u64, hops: u16) -> u64 {
    if hops > TAIL_HOPS { ahead } else { ahead << TAIL_BITS | here }
}

/// A way that is in choice for all destinations on the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct InChoice {
    pub(super) channel: ChannelId,
    pub(super) to: SwitchId,
    /// The least and the greatest [`Rule::place`] that it has, whatever ways the switches before it take.
    places: (u32, u32),
    /// How much the target likes it: less is better. The ways of a switch are sorted by that where there are
    /// no tails.
    like: u64,
}

/// What all destinations have in common at one switch.
#[derive(Clone, Copy, Debug)]
struct Settled {
    /// Consecutive turns on its way that the rule forbids.
    wrong: u16,
    hops: u16,
    /// Expected load along the least loaded way in choice.
    cost: u64,
    /// The least and the greatest place of its ways.
    places: (u32, u32),
    /// Its ways.
    first: u32,
    len: u32,
    /// The first place in the DAG of a switch with ways to the same switches.
    alike: u32,
}

/// What all destinations on one switch have in common, for one such switch after the other.
///
/// Which ways are in choice hangs on the rule, on expected loads, and on the ways that the switches nearer to
/// the target take, as far as the rule minds which of theirs that is. Mostly it does not: up*/down*
/// asks whether a way goes up or down, and in a network of small diameter the target is near. So they are
/// found once for all destinations, and one by one these are dealt out or led by the tails.
#[derive(Default)]
pub(super) struct Common {
    /// By switch; `None` where it hangs on the destination.
    at: Vec<Option<Settled>>,
    ways: Vec<InChoice>,
    /// Whether that is so nowhere, and no way breaks the rule.
    all: bool,
    /// By switch: the last switch whose first way leads there, while they are settled.
    last_to: Vec<Option<SwitchId>>,
    /// By place: the number of the way that ends best among those of this switch and its like, if but one does.
    best: Vec<Option<u32>>,
    /// By switch: how well its way ends.
    ends: Vec<u64>,
}

impl Common {
    /// Nothing is known of any switch.
    pub(super) fn forget(&mut self, fabric: &Fabric) {
        self.at.clear();
        self.at.resize(fabric.num_switches(), None);
        self.all = false;
    }

    /// Finds what is in choice at all switches where that is the same for all destinations on a target.
    ///
    /// Cost: O(S + E), and O(E d) where the rule has labels.
    pub(super) fn learn(&mut self, fabric: &Fabric, rule: &Rule, guide: &Guide, dag: &Outward, key: u64) {
        self.forget(fabric);
        self.ways.clear();
        self.last_to.clear();
        self.last_to.resize(fabric.num_switches(), None);
        let places = (Rule::END, Rule::END);
        self.at[dag.target.index()] =
            Some(Settled { wrong: 0, hops: 0, cost: 0, places, first: 0, len: 0, alike: 0 });
        self.all = true;
        for (place, &s) in dag.order.iter().enumerate().skip(1) {
            let first = self.ways.len();
            let Some(wrong) = self.gather(rule, dag, place) else {
                self.ways.truncate(first);
                self.all = false;
                continue;
            };
            self.all &= wrong == 0;
            let at = &self.at;
            let ahead = |way: &InChoice| at[way.to.index()].expect("it was asked for above");
            let cost_of = |way: &InChoice| ahead(way).cost + guide.prices.of(way.channel);
            let cost = self.ways[first..].iter().map(cost_of).min().unwrap_or(0);
            let mut alike = place as u32;
            if guide.tails.is_none() {
                let mut kept = first;
                for i in first..self.ways.len() {
                    let way = self.ways[i];
                    if guide.prices.near(cost_of(&way), cost) {
                        self.ways[kept] =
                            InChoice { like: mix(guide.keys.channel(way.channel) ^ key), ..way };
                        kept += 1;
                    }
                }
                self.ways.truncate(kept);
                self.ways[first..].sort_by_key(|way| way.like);
            } else if let Some(way) = self.ways.get(first) {
                let last = self.last_to[way.to.index()].replace(s);
                if let Some(other) = last.and_then(|other| at[other.index()]) {
                    let to = |way: &InChoice| way.to;
                    if self.of(&other).iter().map(to).eq(self.ways[first..].iter().map(to)) {
                        alike = other.alike;
                    }
                }
            }
            let ways = &self.ways[first..];
            let least = ways.iter().map(|way| way.places.0).min().unwrap_or(Rule::END);
            let most = ways.iter().map(|way| way.places.1).max().unwrap_or(Rule::END);
            let hops = 1 + ways.first().map_or(0, |way| ahead(way).hops);
            let (first, len) = (first as u32, ways.len() as u32);
            self.at[s.index()] =
                Some(Settled { wrong, hops, cost, places: (least, most), first, len, alike });
        }
    }

    /// Appends the ways of the switch at a place that break the rule least and shut out the fewest behind, as
    /// far as that is the same for all destinations.
    ///
    /// Returns how many turns of theirs it forbids.
    fn gather(&mut self, rule: &Rule, dag: &Outward, place: usize) -> Option<u16> {
        let first = self.ways.len();
        let steps = dag.steps(place);
        let followers = Followers::new(rule, dag, dag.order[place]);
        let mut least = (u16::MAX, u32::MAX);
        for step in steps {
            let ahead = self.at[step.to.index()]?;
            let (places, legal) = self.enter(rule, step, &ahead, step.to == dag.target)?;
            let wrong = ahead.wrong + u16::from(!legal);
            if wrong > least.0 {
                continue;
            }
            let blocked = if steps.len() > 1 { followers.shut_out(rule, step.channel, places)? } else { 0 };
            if (wrong, blocked) < least {
                least = (wrong, blocked);
                self.ways.truncate(first);
            }
            if (wrong, blocked) == least {
                self.ways.push(InChoice { channel: step.channel, to: step.to, places, like: 0 });
            }
        }
        Some(least.0)
    }

    /// Which places a way over a step may have, and whether the rule allows it to enter there, whatever way
    /// the next switch takes; `None` if it hangs on that.
    #[inline(always)]
    fn enter(
        &self,
        rule: &Rule,
        step: &Step,
        ahead: &Settled,
        at_target: bool,
    ) -> Option<((u32, u32), bool)> {
        let (least, most) = ahead.places;
        let same = |place: u32, (least, most): (u32, u32)| {
            let legal = Rule::legal(place, least);
            (legal == Rule::legal(place, most)).then_some(legal)
        };
        match rule {
            Rule::Any => Some(((Rule::END, Rule::END), true)),
            _ if at_target => {
                let place = rule.place(step.channel, None);
                Some(((place, place), same(place, (least, most))?))
            }
            Rule::OneVl(rank) => {
                let place = rank.of(step.channel);
                Some(((place, place), same(place, (least, most))?))
            }
            _ => {
                let (mut least, mut most, mut legal) = (u32::MAX, 0, None);
                for next in self.of(ahead) {
                    let place = rule.place(step.channel, Some(next.channel));
                    let this = same(place, next.places)?;
                    if *legal.get_or_insert(this) != this {
                        return None;
                    }
                    (least, most) = (least.min(place), most.max(place));
                }
                Some(((least, most), legal?))
            }
        }
    }

    fn of(&self, settled: &Settled) -> &[InChoice] {
        &self.ways[settled.first as usize..][..settled.len as usize]
    }

    /// The ways in choice at a switch, if they are the same for all destinations, and how many turns of theirs
    /// the rule forbids.
    pub(super) fn at(&self, s: SwitchId) -> Option<(u16, &[InChoice])> {
        let settled = self.at[s.index()].as_ref()?;
        Some((settled.wrong, self.of(settled)))
    }

    /// Whether the ways in choice are the same for all destinations everywhere, and none breaks the rule.
    pub(super) fn everywhere(&self) -> bool {
        self.all
    }

    /// Takes a way for each switch, for destination number `n` on the target: what choosing them one after the
    /// other comes to where [`everywhere`](Self::everywhere) holds.
    ///
    /// Cost: O(S) with few ways in choice; with tails those of one switch of each kind that has ways to the
    /// same switches.
    ///
    /// - `ways`: get where each switch sends to, and nothing else.
    pub(super) fn deal(
        &mut self,
        guide: &Guide,
        dag: &Outward,
        goal: Goal<'_>,
        n: usize,
        ways: &mut Ways<'_, u64>,
    ) {
        let mut take = |s: SwitchId, choice: &InChoice| {
            let way = &mut ways.ways[s.index()];
            (way.channel, way.to) = (choice.channel, choice.to);
        };
        if guide.tails.is_none() {
            for &s in &dag.order[1..] {
                let Settled { first, len, .. } = self.at[s.index()].expect("all switches are settled");
                take(s, &self.ways[(first + n as u32 % len) as usize]);
            }
            return;
        }
        self.best.clear();
        self.best.resize(dag.order.len(), None);
        self.ends.resize(self.at.len(), 0);
        self.ends[dag.target.index()] = 0;
        for &s in &dag.order[1..] {
            let settled = self.at[s.index()].expect("all switches are settled");
            let ways = &self.ways[settled.first as usize..][..settled.len as usize];
            let number = match self.best[settled.alike as usize] {
                _ if ways.len() == 1 => 0,
                Some(number) => number as usize,
                None => {
                    let (mut number, mut least, mut several) = (0, u64::MAX, false);
                    for (i, way) in ways.iter().enumerate() {
                        let end = self.ends[way.to.index()];
                        several = end == least || several && end > least;
                        (number, least) = if end < least { (i, end) } else { (number, least) };
                    }
                    if several {
                        let ends = &self.ends;
                        let best = ways.iter().enumerate().filter(|(_, way)| ends[way.to.index()] == least);
                        let key = |way: &InChoice| {
                            let (here, like) = ending(guide, way.channel, goal);
                            (joined(0, here, settled.hops), like)
                        };
                        best.min_by_key(|(_, way)| key(way)).map_or(0, |(i, _)| i)
                    } else {
                        self.best[settled.alike as usize] = Some(number as u32);
                        number
                    }
                }
            };
            let way = &ways[number];
            if !dag.behind(s).is_empty() {
                let here = ending(guide, way.channel, goal).0;
                self.ends[s.index()] = joined(self.ends[way.to.index()], here, settled.hops);
            }
            take(s, way);
        }
    }
}

/// The channels into a switch from one hop farther away, as a rule looks at them.
enum Followers<'a> {
    Nobody,
    /// All are shut out or none is.
    Alike,
    /// The least and the greatest rank of them.
    Between(u32, u32, &'a Outward, SwitchId),
    Each(&'a Outward, SwitchId),
}

impl<'a> Followers<'a> {
    fn new(rule: &Rule, dag: &'a Outward, s: SwitchId) -> Self {
        let behind = dag.behind(s);
        match rule {
            _ if behind.is_empty() => Self::Nobody,
            Rule::Any => Self::Nobody,
            Rule::OneVl(rank) => {
                let ranks = behind.iter().map(|b| rank.of(b.channel));
                let (least, most) = ranks.fold((u32::MAX, 0), |(least, most), r| (least.min(r), most.max(r)));
                Self::Between(least, most, dag, s)
            }
            Rule::FirstTurnFree(_) => Self::Alike,
            Rule::Labelled { .. } => Self::Each(dag, s),
        }
    }

    /// How many of them could not be followed over a channel; `None` where that hangs on the place of the
    /// way over it.
    #[inline(always)]
    fn shut_out(&self, rule: &Rule, channel: ChannelId, places: (u32, u32)) -> Option<u32> {
        if places.0 == Rule::END {
            return Some(0);
        }
        let shut = |behind: ChannelId| {
            let place = rule.place(behind, Some(channel));
            let legal = Rule::legal(place, places.0);
            (legal == Rule::legal(place, places.1)).then_some(u32::from(!legal))
        };
        match *self {
            Self::Nobody => Some(0),
            Self::Alike => shut(channel),
            Self::Between(_, most, ..) if places.0 > most => Some(0),
            Self::Between(least, _, dag, s) if places.1 <= least => Some(dag.behind(s).len() as u32),
            Self::Between(_, _, dag, s) | Self::Each(dag, s) => {
                dag.behind(s).iter().map(|b| shut(b.channel)).sum()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::{bfs, host_levels};
    use crate::routing::Hops;
    use crate::routing::outward::for_each_target_here;
    use crate::topology::{FatTree, SlimFly};

    /// Shares of the switches with ways in choice that are the same for all destinations on a target.
    fn settled(f: &Fabric, rule: &Rule) -> f64 {
        let hops = Hops::new(f).unwrap();
        let guide = Guide::new(f, &hops);
        let mut common = Common::default();
        let (mut known, mut all) = (0, 0);
        let targets: Vec<SwitchId> = f.switch_ids().collect();
        for_each_target_here(f, &hops, &targets, |dag| {
            common.learn(f, rule, &guide, dag, 1);
            known += f.switch_ids().filter(|&s| common.at(s).is_some()).count();
            all += f.num_switches();
        });
        known as f64 / all as f64
    }

    #[test]
    fn most_is_the_same_for_all_destinations() {
        let tree = FatTree { k: 6, levels: 3, down: None, cas: None }.build().unwrap();
        assert_eq!(settled(&tree, &Rule::OneVl(bfs(&tree, SwitchId(0)))), 1.0);
        let fly = SlimFly { q: 5, cas: None }.build().unwrap();
        assert_eq!(settled(&fly, &Rule::FirstTurnFree(host_levels(&fly, 1))), 1.0);
    }
}
