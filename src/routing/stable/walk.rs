//! The paths of all switches to one destination, chosen without regard to other destination switches.

use super::Criteria;
use super::per_target::{Destination, Eligible, PerTarget, ending, joined};
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::ordering::{Rule, Turns};
use crate::routing::Lookahead;
use crate::routing::minimal_dag::{MinimalDag, Predecessor};
use crate::routing::under_rule::label_sets::RuleWithSets;
use crate::routing::under_rule::load_walk::ADMITTED;
use crate::routing::under_rule::paths::{Paths, Walk};

/// A path with how well it ends: 0 for a marked channel, more for another, the last channel first. Its cost is
/// the expected load along it, or along the least loaded eligible one.
type Path = crate::routing::under_rule::paths::Path<u64>;

/// Chooses the paths of all switches to one destination after the other.
pub(super) struct StableWalk<'a> {
    rule: RuleWithSets<'a>,
    lookahead: Lookahead,
    criteria: &'a Criteria,
    paths: Paths<'a, u64>,
    any_violation: bool,
    /// With [`Lookahead::LastOption`], by switch: next hops whose switches have not chosen yet; [`ADMITTED`]
    /// after one that has chosen admits it.
    options: Vec<u32>,
    /// By channel: destinations on the present target that were assigned to it.
    used: Vec<u16>,
    /// The eligible paths of one switch.
    eligible: Vec<Path>,
    /// The predecessors of one switch, where turns have labels.
    predecessors: Vec<u64>,
    /// What all destinations on the present target have in common.
    common: PerTarget,
    /// Destinations on it whose paths were chosen.
    assigned: usize,
}

/// The choice among the eligible paths of a switch.
struct Pick {
    number: usize,
    /// The expected load along the least loaded of them.
    cost: u64,
    /// How well the chosen one ends, where paths are to meet.
    ends: Option<u64>,
}

impl<'a> StableWalk<'a> {
    pub(super) fn new(
        fabric: &'a Fabric,
        rule: RuleWithSets<'a>,
        lookahead: Lookahead,
        criteria: &'a Criteria,
    ) -> Self {
        Self {
            rule,
            lookahead,
            criteria,
            paths: Paths::new(fabric),
            any_violation: false,
            options: vec![0; fabric.num_switches()],
            used: vec![0; fabric.channels().len()],
            eligible: Vec::new(),
            predecessors: Vec::new(),
            common: PerTarget::default(),
            assigned: 0,
        }
    }

    /// Turns to the target of a DAG.
    ///
    /// - `twin`: the last target, if it has the same neighbours.
    /// - `hash`: of the target.
    pub(super) fn turn_to(&mut self, dag: &MinimalDag, twin: Option<SwitchId>, hash: u64) {
        self.paths.target = dag.target;
        let fabric = self.paths.fabric;
        match self.lookahead {
            Lookahead::Every => {
                let common = &mut self.common;
                let is_known =
                    twin.is_some_and(|twin| common.learn_twin(self.rule, self.criteria, dag, twin));
                if !is_known {
                    common.learn(fabric, self.rule, self.criteria, dag, hash);
                }
            }
            Lookahead::LastOption => self.common.forget(fabric),
        }
        self.assigned = 0;
        if !self.common.everywhere() {
            self.used.fill(0);
        }
    }

    /// Updates the options of the predecessors of a switch that has chosen.
    fn announce(&mut self, dag: &MinimalDag, switch: SwitchId) {
        let path = self.paths.paths[switch.index()];
        let end = path.position == Rule::END;
        for p in dag.predecessors(switch) {
            let options = &mut self.options[p.from.index()];
            let blocks = !end && self.rule.rule.blocks(p.channel, path.channel, path.position);
            *options = if path.violations == 0 && !blocks { ADMITTED } else { options.saturating_sub(1) };
        }
    }

    /// Collects the paths of the switch at an index of the DAG with the fewest violations, and of these those
    /// that block the fewest predecessors.
    ///
    /// - `hops`: a longer path counts as a violation.
    ///
    /// Returns their violations.
    fn gather(&mut self, dag: &MinimalDag, index: usize, hops: u16, destination: Destination<'_>) -> u16 {
        let next_hops = dag.next_hops(index);
        let considered = |p: &&Predecessor| match self.lookahead {
            Lookahead::Every => true,
            Lookahead::LastOption => self.options[p.from.index()] == 1,
        };
        // A single next hop is taken whomever it blocks.
        let most = if next_hops.len() > 1 { usize::MAX } else { 0 };
        let channels =
            dag.predecessors(dag.order[index]).iter().filter(considered).map(|p| p.channel).take(most);
        let mut set = std::mem::take(&mut self.predecessors);
        let predecessors = self.rule.predecessors(channels, &mut set);
        let mut eligible = std::mem::take(&mut self.eligible);
        eligible.clear();
        let mut least = (u16::MAX, u32::MAX);
        for hop in next_hops {
            let path = self.over(hop.channel, hop.to, destination);
            let violations = path.violations + u16::from(path.hops > hops);
            if violations > least.0 {
                continue;
            }
            let blocked = predecessors.blocked(path.channel, path.position);
            if (violations, blocked) < least {
                least = (violations, blocked);
                eligible.clear();
            }
            if (violations, blocked) == least {
                eligible.push(Path { violations, hops: path.hops.min(hops), ..path });
            }
        }
        (self.predecessors, self.eligible) = (set, eligible);
        least.0
    }

    /// Chooses one of the eligible paths of a switch.
    ///
    /// - `eligible`: their channels, expected loads, how well they end beyond their first channels, and their hops.
    fn pick(
        &self,
        eligible: impl Iterator<Item = (ChannelId, u64, u64, u16)> + Clone,
        destination: Destination<'_>,
    ) -> Pick {
        let cost = eligible.clone().map(|(_, cost, ..)| cost).min().unwrap_or(0);
        let Criteria { prices, hashes, descents } = self.criteria;
        let mut best: Option<(u64, u64, usize)> = None;
        // What comes second in a key is looked up only where the first does not decide.
        for (number, (channel, own, ahead, hops)) in eligible.enumerate() {
            let decided = |first: u64| best.is_some_and(|(least, ..)| first > least);
            let (first, hash) = if descents.is_some() {
                if decided(joined(ahead, 0, hops)) {
                    continue;
                }
                let (here, hash) = ending(hashes.of(channel), channel, destination);
                (joined(ahead, here, hops), hash)
            } else {
                // Over the rate: a channel of half the rate has its turn half as often.
                let weight = self.paths.fabric.weights().by_channel()[channel.index()];
                let used = (u64::from(self.used[channel.index()]) + 1) * u64::from(weight);
                if decided(used) || !prices.eligible(own, cost) {
                    continue;
                }
                (used, hashes.with(channel, destination.target_hash))
            };
            if best.is_none_or(|(least, least_hash, _)| (first, hash) < (least, least_hash)) {
                best = Some((first, hash, number));
            }
        }
        let (first, _, number) = best.expect("a path is eligible");
        Pick { number, cost, ends: descents.is_some().then_some(first) }
    }

    /// Takes one of the gathered paths for a destination, with the cost of the cheapest of them.
    fn take(&mut self, destination: Destination<'_>) -> Path {
        let eligible = self.eligible.iter().map(|path| (path.channel, path.cost, path.extra, path.hops));
        let pick = self.pick(eligible, destination);
        self.taken(self.eligible[pick.number], pick)
    }

    fn taken(&mut self, path: Path, Pick { cost, ends, .. }: Pick) -> Path {
        self.used[path.channel.index()] += 1;
        Path { cost, extra: ends.unwrap_or(path.extra), ..path }
    }

    /// Gives every switch a minimal path: with the fewest violations, then with the fewest blocked
    /// predecessors, then one of those with nearly the least expected load, as
    /// [`stable_sssp`](super::stable_sssp) says.
    pub(super) fn choose(&mut self, dag: &MinimalDag, destination: Destination<'_>) {
        self.paths.outward_order.clear();
        self.paths.outward_order.extend_from_slice(&dag.order);
        self.any_violation = false;
        if self.common.everywhere() {
            self.common.assign(self.criteria, dag, destination, self.assigned, &mut self.paths);
            self.assigned += 1;
            return;
        }
        self.paths.set_target();
        let last = self.lookahead == Lookahead::LastOption;
        if last {
            for (index, s) in dag.order.iter().enumerate() {
                self.options[s.index()] = dag.range(index).len() as u32;
            }
        }
        for (index, &s) in dag.order.iter().enumerate().skip(1) {
            let (violations, path) = if let Some((violations, hops)) = self.common.at(s) {
                let ahead = |hop: &Eligible| &self.paths.paths[hop.to.index()];
                let cost = |hop: &Eligible| ahead(hop).cost + self.criteria.prices.of(hop.channel);
                let eligible =
                    hops.iter().map(|hop| (hop.channel, cost(hop), ahead(hop).extra, ahead(hop).hops + 1));
                let pick = self.pick(eligible, destination);
                let hop = hops[pick.number];
                (violations, self.taken(self.over(hop.channel, hop.to, destination), pick))
            } else {
                (self.gather(dag, index, u16::MAX, destination), self.take(destination))
            };
            self.paths.paths[s.index()] = path;
            self.any_violation |= violations > 0;
            if last {
                self.announce(dag, s);
            }
        }
    }

    /// Whether a path violates the rule.
    pub(super) fn any_violation(&self) -> bool {
        self.any_violation
    }
}

impl<'a> Walk<'a> for StableWalk<'a> {
    type Extra = u64;
    type Destination<'g> = Destination<'g>;
    /// Expected load, then a hash.
    type Price = (u64, u64);

    fn paths(&self) -> &Paths<'a, u64> {
        &self.paths
    }

    fn paths_mut(&mut self) -> &mut Paths<'a, u64> {
        &mut self.paths
    }

    fn rule(&self) -> &'a Rule {
        self.rule.rule
    }

    #[inline(always)]
    fn over(&self, channel: ChannelId, to: SwitchId, _: Destination<'_>) -> Path {
        let ahead = &self.paths.paths[to.index()];
        let position = self.rule.position(channel, self.paths.next(to));
        Path {
            cost: ahead.cost + self.criteria.prices.of(channel),
            channel,
            to,
            position,
            violations: ahead.violations + u16::from(!Rule::legal(position, ahead.position)),
            hops: ahead.hops + 1,
            extra: ahead.extra,
        }
    }

    fn price(&self, path: &Path, destination: Destination<'_>) -> (u64, u64) {
        (path.cost, self.criteria.hashes.with(path.channel, destination.hash))
    }

    fn minimal(&mut self, dag: &MinimalDag, index: usize, hops: u16, destination: Destination<'_>) -> Path {
        self.gather(dag, index, hops, destination);
        self.take(destination)
    }
}
