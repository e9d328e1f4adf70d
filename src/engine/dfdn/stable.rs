//! Stable tables: a failed link changes few of them.
//!
//! They use the first candidate that is good enough, not the best of many. Taking the best would switch rules
//! after small failures and change most tables; a good enough rule usually survives. Only where none is, the best one
//! is taken.

use std::collections::VecDeque;
use std::sync::Arc;

use rayon::prelude::*;

use super::build::one_sl;
use super::candidates::{BalanceBy, Candidate, Refinement};
use super::estimate::{Budget, spread, thrifty};
use super::objective::{Measured, Objective};
use super::orders::stable;
use super::tuning::{
    DETOURS, STABLE_BROKEN, STABLE_LABEL_ROUNDS, STABLE_LABEL_VLS, STABLE_LOST, STABLE_TARGETS,
};
use super::{Priced, is_nearly_as_good, lasts_well};
use crate::engine::Task;
use crate::fabric::SwitchId;
use crate::ordering::Rule;
use crate::routing::{Forwarding, Lookahead, NoLegalPath, Probe, RuleSearch, probe_within, search_labels};

const BY: BalanceBy = BalanceBy::ExpectedLoad;

/// Why there are no stable tables.
pub(super) const NO_RULE: &str = "no rule lasts";

/// A candidate that is good enough, and tables by it.
pub(super) struct Stable {
    candidate: Candidate,
    pub(super) forwarding: Forwarding,
}

/// Tables of each candidate that leaves nearly all adapter pairs a legal minimal path, on one SL, in a fixed sequence; or
/// why it has none, in words. Each is made when it is requested.
pub(super) struct StableTables<'a> {
    task: Task<'a>,
    /// The largest share of the adapter pairs that may take a detour.
    limit: f64,
    candidates: Box<dyn Iterator<Item = Candidate> + Send + 'a>,
}

impl<'a> StableTables<'a> {
    pub(super) fn new(task: Task<'a>, limit: f64) -> Self {
        Self { task, limit, candidates: Box::new(good_enough(task)) }
    }

    /// Leaves out those whose rule needs a search or a tree.
    fn plain(self) -> impl Iterator<Item = Stable> {
        let Self { task, limit, candidates } = self;
        candidates.filter_map(move |candidate| match route_plainly(task, candidate, limit) {
            Plainly::Suffices(stable) => Some(stable),
            Plainly::FallsShort(..) => None,
        })
    }
}

impl Iterator for StableTables<'_> {
    type Item = Result<Stable, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self { task, limit, candidates } = self;
        let stable = candidates.find_map(|candidate| match route_plainly(*task, candidate, *limit) {
            Plainly::Suffices(stable) => Some(stable),
            Plainly::FallsShort(candidate, plain) => route_anyway(*task, candidate, plain),
        })?;
        Some(fits(&stable.forwarding, *limit).map(|()| stable))
    }
}

/// The first tables, unless further ones by plain rules lose next to nothing where these lose more. Such are looked for as
/// long as each is cheaper than the one before: else the balance stands in the way, and not the rule.
pub(super) fn first_or_better(
    objective: &Objective<'_>,
    first: Result<Stable, String>,
    others: StableTables<'_>,
) -> Result<Relieved, String> {
    let first = first?.relieved(objective);
    if first.is_nearly_as_good() {
        return Ok(first);
    }
    let mut least = first.price;
    for next in others.plain() {
        let next = next.relieved(objective);
        if next.is_nearly_as_good() {
            return Ok(next);
        }
        if next.price >= least {
            break;
        }
        least = next.price;
    }
    Ok(first)
}

/// The plan for stable tables: the first ones that [last well](Priced::lasts_well), else the cheapest. They are compared before
/// their load gets [level](Objective::level_load), as that takes long. Where the plan costs more than the second cheapest as they
/// are, these get theirs too.
///
/// # Errors
/// Why there is none, in words: the first reason.
pub(super) fn lasting_plan(
    objective: &Objective<'_>,
    tables: impl Iterator<Item = Result<Stable, String>>,
    limit: f64,
) -> Result<Priced, String> {
    let mut best: Result<Priced, String> = Err(NO_RULE.to_owned());
    let mut others: Vec<Relieved> = Vec::new();
    for found in tables {
        let plan = match found.map(|stable| stable.relieved(objective)) {
            Ok(relieved) if relieved.lasts_well() => relieved.plan(objective, limit),
            Ok(relieved) => {
                others.push(relieved);
                others.sort_by(|a, b| a.price.total_cmp(&b.price));
                others.truncate(2);
                continue;
            }
            Err(why_not) => Err(why_not),
        };
        if plan.as_ref().is_ok_and(Priced::lasts_well) {
            return plan;
        }
        best = cheaper(best, plan);
    }
    for relieved in others {
        if best.as_ref().is_ok_and(|best| best.price <= relieved.price) {
            break;
        }
        best = cheaper(best, relieved.plan(objective, limit));
    }
    best
}

/// The plan that costs less, or the first reason why there is none.
fn cheaper(best: Result<Priced, String>, other: Result<Priced, String>) -> Result<Priced, String> {
    match (best, other) {
        (Ok(best), Ok(other)) if best.price <= other.price => Ok(best),
        (_, Ok(other)) => Ok(other),
        (Ok(best), Err(_)) => Ok(best),
        (Err(first), Err(other)) => Err(if first == NO_RULE { other } else { first }),
    }
}

/// Stable tables whose hot channels were relieved.
pub(super) struct Relieved {
    candidate: Candidate,
    forwarding: Forwarding,
    measured: Measured,
    /// What they cost by the objective.
    pub(super) price: f64,
}

impl Stable {
    /// Relieves their hot channels. Detours stay: a failed link would bring other ones, and other labels for the shortest
    /// paths in place of them.
    pub(super) fn relieved(self, objective: &Objective<'_>) -> Relieved {
        let Self { candidate, mut forwarding } = self;
        let measured = objective.relieve(&candidate.rule, BY, &mut forwarding);
        let price = objective.price(&measured, candidate.rule.vls(), 1);
        Relieved { candidate, forwarding, measured, price }
    }
}

impl Relieved {
    /// Share of the adapter pairs on detours.
    pub(super) fn detours(&self) -> f64 {
        self.measured.detours
    }

    /// Whether they lose next to nothing beside P-SSSP.
    pub(super) fn is_nearly_as_good(&self) -> bool {
        is_nearly_as_good(self.price)
    }

    /// Whether tables as good as those of P-SSSP would not outdo these.
    fn lasts_well(&self) -> bool {
        lasts_well(self.price, self.detours())
    }

    /// The plan, once these tables are chosen: the load gets [level](Objective::level_load), or the hottest channels are relieved
    /// of a few routes more. It reserves the tree where multicast needs it.
    ///
    /// # Errors
    /// Why tables around the tree do not fit, in words.
    pub(super) fn plan(self, objective: &Objective<'_>, limit: f64) -> Result<Priced, String> {
        let plan = |Self { candidate, mut forwarding, measured, .. }: Self| {
            let measured = objective.level_load(&candidate.rule, BY, measured, &mut forwarding);
            let (forwarding, measured) = objective.relieve_few(&candidate.rule, forwarding, measured, 0);
            let remark = "a failed link changes few tables (balance stable)".to_owned();
            one_sl(objective, &candidate, forwarding, measured, vec![remark], None)
        };
        let mut candidate = self.candidate.clone();
        let found = plan(self);
        if found.plan.serves_multicast() {
            return Ok(found);
        }
        let task = objective.task;
        reserve_tree(task, &mut candidate);
        // Most that do not fit show it on some destinations.
        if probed(task, &candidate.rule, candidate.lookahead, limit).is_none() {
            return Err(format!(
                "more than {:.2} % of the adapter pairs on detours around the multicast tree",
                100.0 * limit
            ));
        }
        let forwarding = candidate.route(task, BY, candidate.detours());
        fits(&forwarding, limit)?;
        Ok(plan(Stable { candidate, forwarding }.relieved(objective)))
    }
}

fn fits(forwarding: &Forwarding, limit: f64) -> Result<(), String> {
    let share = forwarding.nonminimal_share();
    if !forwarding.complete {
        Err("its rule leaves switches without a path".to_owned())
    } else if share > limit {
        Err(format!("{:.2} % of the adapter pairs on detours", 100.0 * share))
    } else {
        Ok(())
    }
}

/// The candidates that leave nearly all adapter pairs a legal minimal path. On large fabrics, where each takes long, those come
/// last whose detours alone would cost more than the bandwidth that may be lost.
///
/// Cost: that of routing to at most 256 destination switches for each candidate, twice where it has to.
fn good_enough(task: Task<'_>) -> impl Iterator<Item = Candidate> {
    let affordable = stable(task).filter(move |(_, rule)| rule.vls() <= task.limits.vls);
    let mut candidates = affordable.filter_map(move |(order, rule)| {
        let probed = |lookahead| Some((lookahead, probed(task, &rule, lookahead, STABLE_BROKEN)?));
        let (lookahead, probe) = [Lookahead::Every, Lookahead::LastOption].into_iter().find_map(probed)?;
        Some(Candidate { probe, ..Candidate::plain(Arc::new(order), rule, lookahead) })
    });
    let is_large = !Budget::searches_are_cheap(task.fabric);
    let mut last = VecDeque::new();
    std::iter::from_fn(move || {
        for candidate in candidates.by_ref() {
            if is_large && DETOURS * candidate.probe.broken > STABLE_LOST {
                last.push_back(candidate);
            } else {
                return Some(candidate);
            }
        }
        last.pop_front()
    })
}

/// What a rule costs on some destinations; `None` where more than a share of the adapter pairs has no legal minimal path.
///
/// Cost: that of routing to at most 256 destination switches.
fn probed(
    Task { fabric, hops, .. }: Task<'_>,
    rule: &Rule,
    lookahead: Lookahead,
    most: f64,
) -> Option<Probe> {
    probe_within(fabric, hops, rule, lookahead, &spread(fabric, STABLE_TARGETS), most)
}

/// What comes of a rule as it is.
enum Plainly {
    Suffices(Stable),
    /// The candidate, with its tables where these are complete.
    FallsShort(Candidate, Option<Forwarding>),
}

/// Routes with detours, under the rule as it is. Where these do not reach everything, or exceed the limit, turns get labels
/// for one VL more that need no search: [late turns](Candidate::with_late_turns), where a search takes long and only
/// switches without adapters are concerned.
///
/// - `limit`: share of the adapter pairs that may take a detour.
fn route_plainly(task: Task<'_>, candidate: Candidate, limit: f64) -> Plainly {
    let plain = candidate.route(task, BY, NoLegalPath::Detour(None));
    if plain.complete && plain.nonminimal_share() <= limit.min(STABLE_BROKEN) {
        return Plainly::Suffices(Stable { candidate, forwarding: plain });
    }
    let no_search = candidate.probe.broken == 0.0 && !Budget::searches_are_cheap(task.fabric);
    if let Some(labelled) = candidate.with_late_turns(task).filter(|_| no_search) {
        let forwarding = labelled.route(task, BY, NoLegalPath::Detour(None));
        if forwarding.complete && forwarding.detours == 0 {
            return Plainly::Suffices(Stable { candidate: labelled, forwarding });
        }
    }
    Plainly::FallsShort(candidate, Some(plain).filter(|plain| plain.complete))
}

/// Routes where the rule as it is does not suffice. With the first turn free, turns get labels that a search finds, for one
/// VL more or two. Where that does not help, the tables by the plain rule remain, or the tree is reserved, at the price of
/// the rank.
///
/// - `plain`: complete tables by the plain rule.
///
/// `None` where reserving the tree changed the rule: then the candidate was judged by another one.
fn route_anyway(task: Task<'_>, mut candidate: Candidate, plain: Option<Forwarding>) -> Option<Stable> {
    if let Rule::FirstTurnFree(rank) = &candidate.rule {
        task.hops.keep_dags(task.fabric);
        let all: Vec<SwitchId> = task.fabric.switch_ids().collect();
        let ranks = [rank.clone(), rank.clone()];
        let is_cheap = Budget::searches_are_cheap(task.fabric);
        let search = RuleSearch::new(candidate.lookahead, &all, STABLE_LABEL_ROUNDS);
        // Ended early, damaged Megaflies of 130 to 250 switches would lose a hundredth of their bisections.
        let search = if is_cheap { search } else { thrifty(task, search) };
        let with_labels = |most| {
            let (rule, _) = search_labels(task.fabric, task.hops, &ranks, most, search);
            let refinement = Refinement::Labels(candidate.order.clone());
            let candidate = Candidate { rule, refinement, ..candidate.clone() };
            let forwarding = candidate.route(task, BY, NoLegalPath::Detour(None));
            Stable { candidate, forwarding }
        };
        let is_complete = |labelled: &Stable| labelled.forwarding.complete;
        let numbers = 2..task.limits.vls.min(STABLE_LABEL_VLS);
        // A search on a large fabric takes all cores.
        let found = match is_cheap {
            true => numbers.into_par_iter().map(with_labels).find_first(is_complete),
            false => numbers.map(with_labels).find(is_complete),
        };
        if let Some(labelled) = found {
            return Some(labelled);
        }
    }
    if let Some(forwarding) = plain {
        return Some(Stable { candidate, forwarding });
    }
    if reserve_tree(task, &mut candidate) {
        return None;
    }
    let forwarding = candidate.route(task, BY, candidate.detours());
    Some(Stable { candidate, forwarding })
}

/// Drops labels and puts the tree outermost. Returns whether that changed the rank.
fn reserve_tree(task: Task<'_>, candidate: &mut Candidate) -> bool {
    candidate.tree_reserved = true;
    if let Rule::Labelled { ranks, .. } = &candidate.rule {
        candidate.rule = Rule::FirstTurnFree(ranks[1].clone());
        candidate.refinement = Refinement::None;
    }
    let (Rule::OneVl(rank) | Rule::FirstTurnFree(rank)) = &mut candidate.rule else {
        unreachable!("the registry has no other rules")
    };
    let outermost = candidate.order.tree.with_tree_outermost(task.fabric, rank);
    let changed = outermost != *rank;
    *rank = outermost;
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Settings;
    use crate::engine::dfdn::tests::with_task;
    use crate::topology::{Rails, SlimFly, fail_links};

    #[test]
    fn on_large_fabrics_rules_with_dear_detours_come_last() {
        let fly = SlimFly { q: 5, cas: None }.build().unwrap();
        let rails = Rails {
            pods: 4,
            units: 7,
            rails: 8,
            spines: 10,
            width: 2,
            cores: 12,
            cas: 20,
            cross: 12,
            services: 2,
            seed: 1,
        };
        let rails = rails.build().unwrap();
        for (whole, failed, is_large) in [(rails, 20, true), (fly, 11, false)] {
            let f = fail_links(&whole, failed, 1).unwrap();
            assert_eq!(!Budget::searches_are_cheap(&f), is_large);
            let prices =
                |task: Task<'_>| good_enough(task).map(|c| DETOURS * c.probe.broken).collect::<Vec<f64>>();
            let prices = with_task(&f, &Settings::default(), prices).unwrap();
            let is_dear = |price: &f64| *price > STABLE_LOST;
            let cheap = prices.iter().filter(|price| !is_dear(price)).count();
            assert!(0 < cheap && cheap < prices.len(), "{prices:?}");
            let are_sorted = prices[cheap..].iter().all(is_dear);
            assert_eq!(are_sorted, is_large, "{prices:?}");
        }
    }
}
