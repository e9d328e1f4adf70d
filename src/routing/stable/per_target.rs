//! The eligible next hops of each switch, where they are the same for all destinations on one switch.

use super::{Criteria, mix};
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::ordering::Rule;
use crate::routing::minimal_dag::{MinimalDag, NextHop};
use crate::routing::under_rule::label_sets::RuleWithSets;
use crate::routing::under_rule::paths::Paths;

/// Hops before the destination whose endings are compared, and bits for each.
const ENDING_HOPS: u16 = 5;
const ENDING_BITS: u32 = 11;

/// A LID of an end port on the target, as far as choices depend on it.
#[derive(Clone, Copy)]
pub(super) struct Destination<'a> {
    /// Its hash, always the same for this LID of this end port.
    pub(super) hash: u64,
    /// The hash of the target.
    pub(super) target_hash: u64,
    /// The channels with which its paths should end; empty if any will do.
    pub(super) descent: &'a [ChannelId],
}

/// How well a channel ends a path: 0 for a marked one, more for another; and the hash of the channel for the
/// destination, which decides between several that end a path alike.
///
/// - `of_channel`: the hash of the channel.
#[inline(always)]
pub(super) fn ending(of_channel: u64, channel: ChannelId, destination: Destination<'_>) -> (u64, u64) {
    let hash = mix(of_channel ^ destination.hash);
    let is_marked = destination.descent.contains(&channel);
    let here = if is_marked { 0 } else { 1 + (hash >> (65 - ENDING_BITS)) };
    (here, hash)
}

/// How well a path of so many hops ends, the last channel first: `ahead` is the rest of it.
#[inline(always)]
pub(super) fn joined(ahead: u64, here: u64, hops: u16) -> u64 {
    if hops > ENDING_HOPS { ahead } else { ahead << ENDING_BITS | here }
}

/// A next hop that is eligible for all destinations on the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eligible {
    pub(super) channel: ChannelId,
    pub(super) to: SwitchId,
    /// The least and the greatest [`Rule::position_of`] a path over it, whatever next hops follow.
    positions: (u32, u32),
    /// The hash of the channel; where there are no descents, for the target: the next hops of a switch are sorted by it then.
    hash: u64,
}

/// What all destinations on the target have in common at one switch.
#[derive(Clone, Copy, Debug)]
struct TargetChoices {
    violations: u16,
    hops: u16,
    /// Expected load along the least loaded eligible path.
    cost: u64,
    /// The least and the greatest position of its paths.
    positions: (u32, u32),
    /// Its eligible next hops.
    first: u32,
    len: u32,
    /// The first index in the DAG of a switch with next hops to the same switches.
    alike: u32,
}

/// As much of [`TargetChoices`] as it takes to choose where they are known everywhere.
#[derive(Clone, Copy, Debug)]
struct Brief {
    switch: SwitchId,
    first: u32,
    len: u16,
    hops: u16,
    alike: u32,
    /// Whether the paths of others lead there.
    passed: bool,
}

/// What all destinations on one switch have in common, for one target after the other.
///
/// Eligible next hops depend on the rule, the expected load and choices nearer the target; usually not on which
/// LID of the switch is routed: up*/down* asks only whether a path goes up or down, and in a network of small
/// diameter the target is near. So they are found once for all destinations. Each destination then takes its
/// turn among them, or is led by its descent.
///
/// What it saves: without it `dfdn route --balance stable` takes 13.8 instead of 5.6 seconds of processor time on a
/// fat tree of 1620 switches (k = 36), 7.3 instead of 6.0 on a Dragonfly (p = 8), and 7.5 instead of 6.9 on a Slim
/// Fly (q = 19).
#[derive(Default)]
pub(super) struct PerTarget {
    /// By switch; `None` where the choices depend on the destination.
    at: Vec<Option<TargetChoices>>,
    next_hops: Vec<Eligible>,
    /// What is [assigned](Self::assign) by, in the order of the DAG, without the target.
    briefs: Vec<Brief>,
    /// Whether they depend on it nowhere, no path violates the rule, and next hops take turns evenly.
    everywhere: bool,
    /// While learning, by switch: the last switch whose first next hop leads there.
    last_to: Vec<Option<SwitchId>>,
    /// By index: the number of the next hop that ends best among those of this switch and others alike, if it is
    /// the only best one.
    best: Vec<Option<u32>>,
    /// By switch: how well its path ends.
    ends: Vec<u64>,
    /// The predecessors of one switch, where turns have labels.
    predecessors: Vec<u64>,
}

impl PerTarget {
    /// Nothing is known of any switch.
    pub(super) fn forget(&mut self, fabric: &Fabric) {
        self.at.clear();
        self.at.resize(fabric.num_switches(), None);
        self.everywhere = false;
    }

    /// Finds the eligible next hops of all switches where they are the same for all destinations on a target.
    ///
    /// Cost: O(S + E), and O(E d) where the rule has labels.
    pub(super) fn learn(
        &mut self,
        fabric: &Fabric,
        rule: RuleWithSets<'_>,
        criteria: &Criteria,
        dag: &MinimalDag,
        hash: u64,
    ) {
        self.forget(fabric);
        self.next_hops.clear();
        self.last_to.clear();
        self.last_to.resize(fabric.num_switches(), None);
        let positions = (Rule::END, Rule::END);
        self.at[dag.target.index()] =
            Some(TargetChoices { violations: 0, hops: 0, cost: 0, positions, first: 0, len: 0, alike: 0 });
        self.everywhere = true;
        for (index, &s) in dag.order.iter().enumerate().skip(1) {
            let first = self.next_hops.len();
            let Some(violations) = self.gather(rule, dag, index) else {
                self.next_hops.truncate(first);
                self.everywhere = false;
                continue;
            };
            self.everywhere &= violations == 0;
            let cost = self.least_cost(criteria, first);
            if criteria.descents.is_none() {
                self.everywhere &= self.keep_eligible(fabric, criteria, first, cost, hash);
            }
            let mut choices = TargetChoices { violations, ..self.choices(criteria, first, cost) };
            choices.alike = index as u32;
            if let (Some(hop), Some(_)) = (self.next_hops.get(first), &criteria.descents) {
                let last = self.last_to[hop.to.index()].replace(s);
                if let Some(other) = last.and_then(|other| self.at[other.index()]) {
                    let to = |hop: &Eligible| hop.to;
                    if self.of(&other).iter().map(to).eq(self.next_hops[first..].iter().map(to)) {
                        choices.alike = other.alike;
                    }
                }
            }
            self.at[s.index()] = Some(choices);
        }
        self.sum_up(dag);
    }

    /// As [`learn`](Self::learn), for a twin of the last target. Where nothing changes two hops away, nothing does farther
    /// off.
    ///
    /// - `dag`: to the twin.
    /// - `old`: the last target.
    ///
    /// Returns whether that is so; if not, nothing is known any more.
    ///
    /// Cost: O(S), and that of learning within two hops.
    pub(super) fn learn_twin(
        &mut self,
        rule: RuleWithSets<'_>,
        criteria: &Criteria,
        dag: &MinimalDag,
        old: SwitchId,
    ) -> bool {
        let is_known = self.everywhere && criteria.descents.is_some();
        let Some(place) = self.at[dag.target.index()].filter(|_| is_known) else { return false };
        self.at[dag.target.index()] = self.at[old.index()].take();
        for (index, &s) in dag.order.iter().enumerate().skip(1) {
            // The old target takes the place of the new one.
            let known = self.at[s.index()].unwrap_or(place);
            if known.hops > 2 {
                break;
            }
            let first = self.next_hops.len();
            if self.gather(rule, dag, index) != Some(0) {
                return false;
            }
            let new = self.choices(criteria, first, self.least_cost(criteria, first));
            let (before, now) = self.next_hops.split_at_mut(first);
            let before = &mut before[known.first as usize..][..known.len as usize];
            let to = |hop: &Eligible| hop.to;
            let is_like = |a: &Eligible, b: &Eligible| (a.channel, a.positions) == (b.channel, b.positions);
            let stays = match known.hops {
                1 => (new.len, new.cost) == (known.len, known.cost),
                _ if s == old => now.iter().map(to).eq(before.iter().map(to)),
                _ => {
                    let all =
                        now.len() == before.len() && now.iter().zip(&*before).all(|(a, b)| is_like(a, b));
                    all && (new.cost, new.positions) == (known.cost, known.positions)
                }
            };
            if !stays {
                return false;
            }
            before.copy_from_slice(now);
            self.next_hops.truncate(first);
            self.at[s.index()] = Some(TargetChoices { first: known.first, alike: known.alike, ..new });
        }
        self.sum_up(dag);
        true
    }

    /// The expected load over a next hop.
    fn cost(&self, criteria: &Criteria, hop: &Eligible) -> u64 {
        let ahead = self.at[hop.to.index()].expect("gather asked for it");
        ahead.cost + criteria.prices.of(hop.channel)
    }

    /// The least expected load over the next hops that were appended for a switch.
    fn least_cost(&self, criteria: &Criteria, first: usize) -> u64 {
        self.next_hops[first..].iter().map(|hop| self.cost(criteria, hop)).min().unwrap_or(0)
    }

    /// Of the next hops that were appended for a switch, keeps those with nearly the least expected load, by their hash.
    ///
    /// - `least`: the [least](Self::least_cost).
    ///
    /// Returns whether they can take turns evenly: channels of unlike rates cannot.
    fn keep_eligible(
        &mut self,
        fabric: &Fabric,
        criteria: &Criteria,
        first: usize,
        least: u64,
        hash: u64,
    ) -> bool {
        let mut kept = first;
        for i in first..self.next_hops.len() {
            let hop = self.next_hops[i];
            if criteria.prices.eligible(self.cost(criteria, &hop), least) {
                let hash = criteria.hashes.with(hop.channel, hash);
                self.next_hops[kept] = Eligible { hash, ..hop };
                kept += 1;
            }
        }
        self.next_hops.truncate(kept);
        self.next_hops[first..].sort_by_key(|hop| hop.hash);
        let weight = |hop: &Eligible| fabric.weights().by_channel()[hop.channel.index()];
        self.next_hops[first..].windows(2).all(|w| weight(&w[0]) == weight(&w[1]))
    }

    /// The choices of a switch over the next hops that were appended for it.
    ///
    /// - `cost`: the [least](Self::least_cost) over them.
    fn choices(&mut self, criteria: &Criteria, first: usize, cost: u64) -> TargetChoices {
        if criteria.descents.is_some() {
            self.next_hops[first..].iter_mut().for_each(|hop| hop.hash = criteria.hashes.of(hop.channel));
        }
        let next_hops = &self.next_hops[first..];
        let least = next_hops.iter().map(|hop| hop.positions.0).min().unwrap_or(Rule::END);
        let most = next_hops.iter().map(|hop| hop.positions.1).max().unwrap_or(Rule::END);
        let ahead = |hop: &Eligible| self.at[hop.to.index()].map_or(0, |ahead| ahead.hops);
        let hops = 1 + next_hops.first().map_or(0, ahead);
        let (first, len) = (first as u32, next_hops.len() as u32);
        TargetChoices { violations: 0, hops, cost, positions: (least, most), first, len, alike: 0 }
    }

    /// Notes what is assigned by.
    fn sum_up(&mut self, dag: &MinimalDag) {
        self.briefs.clear();
        if self.everywhere {
            let brief = |&switch: &SwitchId| {
                let TargetChoices { hops, first, len, alike, .. } =
                    self.at[switch.index()].expect("known everywhere");
                let passed = !dag.predecessors(switch).is_empty();
                Brief { switch, first, len: len as u16, hops, alike, passed }
            };
            self.briefs.extend(dag.order[1..].iter().map(brief));
        }
    }

    /// Appends the next hops of the switch at an index with the fewest violations, and of these those that block
    /// the fewest predecessors, if they are the same for all destinations.
    ///
    /// Returns their violations.
    fn gather(&mut self, rule: RuleWithSets<'_>, dag: &MinimalDag, index: usize) -> Option<u16> {
        let first = self.next_hops.len();
        let next_hops = dag.next_hops(index);
        let channels = dag.predecessors(dag.order[index]).iter().map(|p| p.channel);
        let mut set = std::mem::take(&mut self.predecessors);
        let predecessors = rule.predecessors(channels, &mut set);
        let mut least = (u16::MAX, u32::MAX);
        for &NextHop { channel, to } in next_hops {
            let ahead = self.at[to.index()]?;
            let (positions, legal) = self.enter(rule, channel, &ahead, to == dag.target)?;
            let violations = ahead.violations + u16::from(!legal);
            if violations > least.0 {
                continue;
            }
            let blocked = if next_hops.len() > 1 { predecessors.blocked(channel, positions.0) } else { 0 };
            let fixed = blocked == 0 || positions.0 == positions.1;
            if !fixed && predecessors.blocked(channel, positions.1) != blocked {
                return None;
            }
            if (violations, blocked) < least {
                least = (violations, blocked);
                self.next_hops.truncate(first);
            }
            if (violations, blocked) == least {
                self.next_hops.push(Eligible { channel, to, positions, hash: 0 });
            }
        }
        self.predecessors = set;
        Some(least.0)
    }

    /// The least and the greatest position of a path over a channel, and whether the rule allows it, whatever
    /// the next switch chooses; `None` if that depends on its choice.
    #[inline(always)]
    fn enter(
        &self,
        rule: RuleWithSets<'_>,
        channel: ChannelId,
        ahead: &TargetChoices,
        at_target: bool,
    ) -> Option<((u32, u32), bool)> {
        let legal = |position: u32, (least, most): (u32, u32)| {
            let legal = Rule::legal(position, least);
            (legal == Rule::legal(position, most)).then_some(legal)
        };
        if at_target || !rule.rule.depends_on_next() {
            let position = rule.position(channel, None);
            return Some(((position, position), legal(position, ahead.positions)?));
        }
        let (mut least, mut most, mut all) = (u32::MAX, 0, None);
        for next in self.of(ahead) {
            let position = rule.position(channel, Some(next.channel));
            let this = legal(position, next.positions)?;
            if *all.get_or_insert(this) != this {
                return None;
            }
            (least, most) = (least.min(position), most.max(position));
        }
        Some(((least, most), all?))
    }

    fn of(&self, choices: &TargetChoices) -> &[Eligible] {
        &self.next_hops[choices.first as usize..][..choices.len as usize]
    }

    /// The eligible next hops of a switch, if they are the same for all destinations, and their violations.
    pub(super) fn at(&self, s: SwitchId) -> Option<(u16, &[Eligible])> {
        let choices = self.at[s.index()].as_ref()?;
        Some((choices.violations, self.of(choices)))
    }

    /// Whether the eligible next hops are the same for all destinations everywhere, of like rates, and no path
    /// violates the rule.
    pub(super) fn everywhere(&self) -> bool {
        self.everywhere
    }

    /// Chooses a next hop for each switch, for destination number `n` on the target. The result is that of
    /// choosing them one after the other, where [`everywhere`](Self::everywhere) holds.
    ///
    /// Cost: O(S) with few eligible next hops. With descents, those of one switch of each group that is alike.
    ///
    /// - `paths`: gets the next hops, and nothing else.
    pub(super) fn assign(
        &mut self,
        criteria: &Criteria,
        dag: &MinimalDag,
        destination: Destination<'_>,
        n: usize,
        paths: &mut Paths<'_, u64>,
    ) {
        let mut take = |s: SwitchId, hop: &Eligible| {
            let path = &mut paths.paths[s.index()];
            (path.channel, path.to) = (hop.channel, hop.to);
        };
        if criteria.descents.is_none() {
            for brief in &self.briefs {
                take(brief.switch, &self.next_hops[brief.first as usize + n % usize::from(brief.len)]);
            }
            return;
        }
        self.best.clear();
        self.best.resize(dag.order.len(), None);
        self.ends.resize(self.at.len(), 0);
        self.ends[dag.target.index()] = 0;
        for brief in &self.briefs {
            let next_hops = &self.next_hops[brief.first as usize..][..usize::from(brief.len)];
            let number = match self.best[brief.alike as usize] {
                _ if next_hops.len() == 1 => 0,
                Some(number) => number as usize,
                None => {
                    let (mut number, mut least, mut several) = (0, u64::MAX, false);
                    for (i, hop) in next_hops.iter().enumerate() {
                        let end = self.ends[hop.to.index()];
                        several = end == least || several && end > least;
                        (number, least) = if end < least { (i, end) } else { (number, least) };
                    }
                    if several {
                        let ends = &self.ends;
                        let best =
                            next_hops.iter().enumerate().filter(|(_, hop)| ends[hop.to.index()] == least);
                        let key = |hop: &Eligible| {
                            let (here, hash) = ending(hop.hash, hop.channel, destination);
                            (joined(0, here, brief.hops), hash)
                        };
                        best.min_by_key(|(_, hop)| key(hop)).map_or(0, |(i, _)| i)
                    } else {
                        self.best[brief.alike as usize] = Some(number as u32);
                        number
                    }
                }
            };
            let hop = &next_hops[number];
            if brief.passed {
                let here = ending(hop.hash, hop.channel, destination).0;
                self.ends[brief.switch.index()] = joined(self.ends[hop.to.index()], here, brief.hops);
            }
            take(brief.switch, hop);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::{host_levels, up_down_rank};
    use crate::routing::Hops;
    use crate::routing::minimal_dag::{Lists, for_each_target_here};
    use crate::topology::{FatTree, SlimFly};

    /// Share of the switches whose eligible next hops are the same for all destinations on a target.
    fn known(f: &Fabric, rule: &Rule) -> f64 {
        let hops = Hops::new(f).unwrap();
        let criteria = Criteria::new(f, &hops);
        let mut common = PerTarget::default();
        let (mut known, mut all) = (0, 0);
        let targets: Vec<SwitchId> = f.switch_ids().collect();
        for_each_target_here(f, &hops, &targets, Lists::All, |dag| {
            common.learn(f, RuleWithSets::new(rule, None), &criteria, dag, 1);
            known += f.switch_ids().filter(|&s| common.at(s).is_some()).count();
            all += f.num_switches();
        });
        known as f64 / all as f64
    }

    #[test]
    fn most_is_the_same_for_all_destinations() {
        let tree = FatTree { k: 6, levels: 3, down: None, cas: None }.build().unwrap();
        assert_eq!(known(&tree, &Rule::OneVl(up_down_rank(&tree, SwitchId(0)))), 1.0);
        let fly = SlimFly { q: 5, cas: None }.build().unwrap();
        assert_eq!(known(&fly, &Rule::FirstTurnFree(host_levels(&fly, 1))), 1.0);
    }
}
