//! Routing with candidates for one SL, and the choice among the results.

use std::cmp::Ordering;
use std::sync::Arc;

use rayon::prelude::*;

use super::beyond_rule::{UnderRule, completed, levels};
use super::candidates::{BalanceBy, Candidate};
use super::estimate::{Budget, is_hopeless};
use super::objective::{Measured, Objective, level_price};
use super::orders::LinkOrder;
use super::{Priced, is_nearly_as_good, limit};
use crate::multicast::McastTrees;
use crate::routing::Forwarding;

/// Why one SL will not do.
pub(super) struct Rejected {
    /// The best one with too many detours; `None` where none was tried.
    pub(super) least: Option<Judged>,
    /// A plan within the limits, but without a multicast tree.
    pub(super) without_tree: Option<Priced>,
}

/// One SL within the limits: the best candidate by what comes out when its detours are as short as they can be.
pub(super) fn one_sl_plan(
    objective: &Objective<'_>,
    by: BalanceBy,
    candidates: &[&Candidate],
) -> Result<Priced, Box<Rejected>> {
    let mut settled = settle(objective, by, trials(objective, by, candidates)).into_iter();
    let Some(best) = settled.next() else {
        return Err(Box::new(Rejected { least: None, without_tree: None }));
    };
    match best.stage {
        Stage::Planned(plan) if !best.exceeds && best.has_tree => Ok(plan),
        Stage::Planned(plan) if !best.exceeds => {
            let least = settled.find(|other| other.has_tree);
            Err(Box::new(Rejected { least, without_tree: Some(plan) }))
        }
        stage => {
            let least = Some(Judged { stage, ..best });
            Err(Box::new(Rejected { least, without_tree: None }))
        }
    }
}

/// A candidate, possibly changed for its tree, and the routing with one SL.
pub(super) struct Trial {
    candidate: Candidate,
    pub(super) forwarding: Forwarding,
    measured: Measured,
    /// For multicast, if these are known already.
    trees: Option<McastTrees>,
    /// Whether its hottest channels were relieved. With far too many detours they are only once nothing else serves.
    is_relieved: bool,
}

impl Trial {
    pub(super) fn new(objective: &Objective<'_>, by: BalanceBy, candidate: &Candidate) -> Self {
        let forwarding = candidate.route(objective.task, by, candidate.detours());
        Self::finish(objective, by, candidate.clone(), forwarding)
    }

    /// As [`completed`].
    pub(super) fn completed(objective: &Objective<'_>, by: BalanceBy, candidate: &Candidate) -> Option<Self> {
        let (candidate, forwarding, trees) = completed(objective, by, candidate)?;
        Some(Self { trees: Some(trees), ..Self::finish(objective, by, candidate, forwarding) })
    }

    fn with_tree(objective: &Objective<'_>, by: BalanceBy, mut candidate: Candidate) -> Self {
        candidate.reserve_tree(objective.task);
        Self::new(objective, by, &candidate)
    }

    pub(super) fn finish(
        objective: &Objective<'_>,
        by: BalanceBy,
        candidate: Candidate,
        mut forwarding: Forwarding,
    ) -> Self {
        let is_relieved = !is_hopeless(objective.task, forwarding.nonminimal_share());
        let measured = match is_relieved {
            true => objective.relieve(&candidate.rule, by, &mut forwarding),
            false => objective.measure(&forwarding),
        };
        Self { candidate, measured, forwarding, trees: None, is_relieved }
    }

    /// Whether these tables lose next to nothing beside P-SSSP, and may be had.
    fn is_nearly_as_good(&self, objective: &Objective<'_>) -> bool {
        let price = objective.price(&self.measured, self.candidate.rule.vls(), 1);
        is_nearly_as_good(price) && self.measured.detours <= limit(objective.task.settings)
    }

    /// With the hottest channels relieved.
    fn relieved(self, objective: &Objective<'_>, by: BalanceBy) -> Self {
        if self.is_relieved {
            return self;
        }
        let Self { candidate, mut forwarding, .. } = self;
        let measured = objective.relieve(&candidate.rule, by, &mut forwarding);
        Self { candidate, forwarding, measured, is_relieved: true, ..self }
    }
}

/// How far a candidate has come.
enum Stage {
    /// Routed, and as it is.
    Routed(Trial),
    /// With its plan, beyond the rule where that is better.
    Planned(Priced),
}

/// A trial or its plan, and what that is worth.
pub(super) struct Judged {
    /// The order whose tree is reserved.
    reserved: Option<Arc<LinkOrder>>,
    /// Whether more pairs take detours than may.
    exceeds: bool,
    has_tree: bool,
    price: f64,
    /// The bandwidth that is lost, without what detours take.
    lost: f64,
    /// The price of the detours of a trial.
    detours: f64,
    stage: Stage,
    /// Of a plan that exceeds: what it came of. Not all of its detours may have been looked at.
    origin: Option<Box<Candidate>>,
}

impl Judged {
    /// As it is. Multicast may have a tree.
    fn open(trial: Trial, objective: &Objective<'_>) -> Self {
        let measured = &trial.measured;
        let price = objective.price(measured, trial.candidate.rule.vls(), 1);
        let lost = objective.lost(measured);
        let exceeds = measured.detours > limit(objective.task.settings);
        let reserved = trial.candidate.tree_reserved.then(|| trial.candidate.order.clone());
        let detours = objective.detours(measured);
        let stage = Stage::Routed(trial);
        Self { reserved, exceeds, has_tree: true, price, lost, detours, stage, origin: None }
    }

    fn is_routed(&self) -> bool {
        matches!(self.stage, Stage::Routed(_))
    }

    /// The price that paths beyond the rule may bring, where they lose at least so much.
    fn at_best(&self, least_lost: f64) -> f64 {
        let gain = self.detours + (self.lost - least_lost).max(0.0);
        if self.is_routed() { self.price - gain } else { self.price }
    }

    /// The price with a level load, and detours as they are.
    fn levelled(&self) -> f64 {
        if self.is_routed() { self.price - self.lost.max(0.0) } else { self.price }
    }

    /// Whether it has a plan that may be had, with a multicast tree.
    fn is_settled(&self) -> bool {
        !self.is_routed() && self.has_tree && !self.exceeds
    }

    /// With its plan; the load of stable tables gets [level](Objective::level_load) now. Where the plan has no multicast tree,
    /// the candidate with its tree reserved comes beside it, if the tree of its order is not among those that are `reserved`
    /// elsewhere. On large fabrics another one gets labels around the tree meanwhile, as no search has done that.
    ///
    /// - `most_bent`: the share of the adapter pairs that may be on detours. Where more are, it does not matter how many.
    fn planned(
        self,
        objective: &Objective<'_>,
        by: BalanceBy,
        reserved: &[Arc<LinkOrder>],
        most_bent: f64,
    ) -> Vec<Self> {
        let Stage::Routed(trial) = self.stage else { return vec![self] };
        let Trial { candidate, mut forwarding, measured, trees, .. } = trial.relieved(objective, by);
        let measured = objective.level_load(&candidate.rule, by, measured, &mut forwarding);
        let under_rule = UnderRule::new(objective, by, &candidate, forwarding, measured, trees);
        let plan = under_rule.beyond(objective, by, most_bent);
        let has_tree = plan.plan.serves_multicast();
        let with_tree = || Self::open(Trial::with_tree(objective, by, candidate.clone()), objective);
        let with_labels = || {
            let is_large = !Budget::searches_are_cheap(objective.task.fabric);
            let candidate = is_large.then(|| candidate.with_labels_around_tree(objective.task))??;
            Some(Self::open(Trial::new(objective, by, &candidate), objective))
        };
        let is_wanted = !candidate.tree_reserved
            && reserved.iter().all(|elsewhere| !Arc::ptr_eq(elsewhere, &candidate.order));
        let beside = (!has_tree && is_wanted).then(|| rayon::join(with_tree, with_labels));
        let exceeds = plan.detours > limit(objective.task.settings);
        let (price, lost) = (plan.price, plan.lost - plan.detours);
        let origin = exceeds.then(|| Box::new(candidate.clone()));
        let stage = Stage::Planned(plan);
        let planned = Self { exceeds, has_tree, price, lost, stage, origin, ..self };
        let beside = beside.into_iter().flat_map(|(tree, labels)| std::iter::once(tree).chain(labels));
        std::iter::once(planned).chain(beside).collect()
    }

    fn into_plan(self) -> Option<Priced> {
        match self.stage {
            Stage::Planned(plan) => Some(plan),
            Stage::Routed(_) => None,
        }
    }

    /// The plan, with a multicast tree if that may be had.
    pub(super) fn whatever_it_takes(self, objective: &Objective<'_>, by: BalanceBy) -> Priced {
        let planned = |judged: Self| judged.planned(objective, by, &[], 1.0);
        let anew = self.origin.as_deref().map(|candidate| Trial::new(objective, by, candidate));
        let anew = anew.filter(|trial| trial.forwarding.complete).map(|trial| Self::open(trial, objective));
        let plans = std::iter::once(self).chain(anew).flat_map(planned).flat_map(planned);
        let best = plans.min_by(Self::by_worth);
        best.and_then(Self::into_plan).expect("there is a plan")
    }

    /// Those with a multicast tree come first, then those of the least price.
    fn by_worth(&self, other: &Self) -> Ordering {
        other.has_tree.cmp(&self.has_tree).then(self.price.total_cmp(&other.price))
    }
}

/// Finds the trial that is worth most when its detours are shortest. It comes first, with its plan. Those within the limit
/// on detours and with a multicast tree come before all others. Where a plan has no such tree, its candidate with its
/// tree reserved is another trial, unless one with the tree of the same order already may serve.
///
/// On small fabrics those that might be better get their plans, in the order of what they are worth as they are: with nothing
/// lost and no detours, or with as little lost as by any other. Of those with too many detours some do; the smaller a fabric,
/// the more of them ([`Budget::plans`]). On others only two get a plan: the one that is worth most as it is, and the one that might be worth most, with a level load where it [gets level](levels). On large ones only the first
/// does. More do as long as these have no multicast tree, and none where all have too many detours as they are.
///
/// Cost: that of [`UnderRule`] for each plan, two at once.
fn settle(objective: &Objective<'_>, by: BalanceBy, trials: Vec<Trial>) -> Vec<Judged> {
    let mut all: Vec<Judged> = trials.into_iter().map(|trial| Judged::open(trial, objective)).collect();
    if all.is_empty() {
        return all;
    }
    let fabric = objective.task.fabric;
    let (is_small, is_cheap) = (Budget::is_small(fabric), Budget::searches_are_cheap(fabric));
    let (plans, levels) = (Budget::plans(fabric), levels(objective.task, by));
    let most_bent = limit(objective.task.settings);
    loop {
        all.sort_by(|a, b| a.exceeds.cmp(&b.exceeds).then_with(|| a.by_worth(b)));
        let is_settled = all.iter().any(Judged::is_settled);
        let is_open = all[0].is_routed() && (is_small || !all[0].exceeds);
        let mut next: Vec<usize> = (0..usize::from(is_open)).collect();
        let least = if is_open { f64::INFINITY } else { all[0].price };
        let others = || all.iter().enumerate().skip(1).filter(|(_, other)| other.is_routed());
        if is_small {
            let least_lost = all.iter().map(|judged| judged.lost).fold(0.0, f64::min);
            let left = plans.saturating_sub(all.len() - others().count());
            let may_win = |other: &Judged| other.at_best(least_lost) < least && (!other.exceeds || left > 0);
            next.extend(others().filter(|(_, other)| may_win(other)).map(|(i, _)| i).take(2 - next.len()));
        } else if is_open && is_cheap && !is_settled {
            let within = others().filter(|(_, other)| !other.exceeds);
            let promise = |judged: &Judged| if levels { judged.levelled() } else { judged.at_best(0.0) };
            let promising = within.min_by(|(_, a), (_, b)| promise(a).total_cmp(&promise(b)));
            next.extend(promising.map(|(i, _)| i));
        }
        if next.is_empty() {
            return all;
        }
        let may_serve = |judged: &&Judged| judged.has_tree && !judged.exceeds;
        let reserved = all.iter().filter(may_serve).filter_map(|judged| judged.reserved.clone());
        let reserved: Vec<Arc<LinkOrder>> = reserved.collect();
        let next: Vec<Judged> = next.into_iter().rev().map(|i| all.remove(i)).collect();
        let planned =
            next.into_par_iter().flat_map(|judged| judged.planned(objective, by, &reserved, most_bent));
        all.extend(planned.collect::<Vec<_>>());
    }
}

/// Routes with candidates. Where one leaves a switch without a path, there are up to two others in its place: with
/// [late turns](Candidate::with_late_turns), and with its tree reserved. Where others have all paths, the tree is not
/// tried on large fabrics, or if the candidate would have too many detours anyway, or if the search tried it.
///
/// Where routing takes long, they end with the first ones that lose [next to nothing](is_nearly_as_good). Returns them in the order
/// of the candidates that they come of.
fn trials(objective: &Objective<'_>, by: BalanceBy, candidates: &[&Candidate]) -> Vec<Trial> {
    let mut found = placed_trials(objective, by, candidates);
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, trial)| trial).collect()
}

/// As [`trials`], each with the place of its candidate.
fn placed_trials(objective: &Objective<'_>, by: BalanceBy, candidates: &[&Candidate]) -> Vec<(usize, Trial)> {
    let task = objective.task;
    let most = limit(task.settings);
    let is_cheap = Budget::searches_are_cheap(task.fabric);
    let route = |place: usize, candidate: &Candidate| {
        let forwarding = candidate.route(task, by, candidate.detours());
        forwarding.complete.then(|| (place, candidate.clone(), forwarding))
    };
    let plain: Vec<Routed> =
        candidates.par_iter().enumerate().filter_map(|(i, candidate)| route(i, candidate)).collect();
    let mut left: Vec<usize> = (0..candidates.len()).collect();
    left.retain(|i| plain.iter().all(|(place, ..)| place != i));
    let (mut found, is_enough) = finish_all(objective, by, plain);
    if is_enough {
        return found;
    }
    let mut late: Vec<(usize, Candidate)> = Vec::new();
    for &i in &left {
        let Some(new) = candidates[i].with_late_turns(task) else { continue };
        // On one VL and with the first turn free they are alike.
        if !late.iter().any(|(_, other)| other.is_alike(&new)) {
            late.push((i, new));
        }
    }
    let late = late.par_iter().filter_map(|(i, candidate)| route(*i, candidate)).collect();
    let (late, is_enough) = finish_all(objective, by, late);
    found.extend(late);
    if is_enough {
        return found;
    }
    let none = found.is_empty();
    let is_wanted = |candidate: &Candidate| {
        let is_beside =
            |other: &&Candidate| other.tree_reserved && Arc::ptr_eq(&other.order, &candidate.order);
        none || is_cheap && candidate.probe.broken <= most && !candidates.iter().any(is_beside)
    };
    left.retain(|&i| is_wanted(candidates[i]));
    let with_tree = left.into_par_iter().map(|i| (i, Trial::with_tree(objective, by, candidates[i].clone())));
    found.extend(with_tree.collect::<Vec<_>>());
    found
}

/// The place of a candidate among others, and tables by it.
type Routed = (usize, Candidate, Forwarding);

/// Relieves the hottest channels of tables, and measures them. Where [that takes long](Budget::comparisons_are_cheap), they come two
/// at a time, those first that cost least but for their load, until some lose [next to nothing](Trial::is_nearly_as_good). Returns
/// whether some do.
fn finish_all(objective: &Objective<'_>, by: BalanceBy, mut all: Vec<Routed>) -> (Vec<(usize, Trial)>, bool) {
    let is_cheap = Budget::comparisons_are_cheap(objective.task.fabric);
    if !is_cheap {
        let level = |(_, candidate, forwarding): &Routed| level_price(forwarding, &candidate.rule);
        all.sort_by(|a, b| level(a).total_cmp(&level(b)));
    }
    let at_once = if is_cheap { all.len() } else { 2 };
    let mut found = Vec::new();
    while !all.is_empty() {
        let next: Vec<Routed> = all.drain(..at_once.min(all.len())).collect();
        let finish =
            |(place, candidate, forwarding)| (place, Trial::finish(objective, by, candidate, forwarding));
        let next: Vec<(usize, Trial)> = next.into_par_iter().map(finish).collect();
        let is_enough = !is_cheap && next.iter().any(|(_, trial)| trial.is_nearly_as_good(objective));
        found.extend(next);
        if is_enough {
            return (found, true);
        }
    }
    (found, false)
}

/// The best plan that comes of trials, if it has a multicast tree.
///
/// Cost: that of [`settle`].
pub(super) fn best_with_tree(objective: &Objective<'_>, by: BalanceBy, trials: Vec<Trial>) -> Option<Priced> {
    let best = settle(objective, by, trials).into_iter().next()?;
    Some(best).filter(|best| best.has_tree)?.into_plan()
}
