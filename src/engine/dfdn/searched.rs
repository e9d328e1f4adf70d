//! Tables by the best rule of a search.

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::sync::Arc;

use rayon::prelude::*;

use super::beyond_rule::{UnderRule, completed, levels};
use super::build::{df_dn_plan, layered_plan, several_lanes, several_sls};
use super::candidates::{BalanceBy, Candidate};
use super::estimate::Budget;
use super::objective::{Measured, Objective};
use super::orders::LinkOrder;
use super::search::{Search, in_dimension_order, trees_by_dimension, with_stricter};
use super::tuning::VL;
use super::{Priced, limit};
use crate::engine::{EngineError, Prefer, Task};
use crate::lanes::{Lanes, LanesError};
use crate::multicast::McastTrees;
use crate::routing::{Forwarding, Lookahead, NoLegalPath};

/// Tables in dimension order on a grid where these are nearly as good as those of P-SSSP, on a small one only with one VL; else
/// by the best rule of a search, or in dimension order where that is worth more. On a large grid there is no search where
/// dimension order is worth more than any tables with several SLs may be. Where plain orders seem to suffice, but their tables
/// are not nearly as good, the search goes on. Where one SL loses too much, a grid takes paths
/// [along its trees](along_trees_plan) if these are worth more.
///
/// - `by`: what tables under the rule are balanced by.
/// - `known`: the search as it begins, which does not depend on that; empty until there was one.
///
/// # Errors
/// Those of [`by_rules`].
pub(super) fn searched_plan<'a>(
    objective: &Objective<'a>,
    by: BalanceBy,
    known: &OnceCell<Search<'a>>,
) -> Result<Priced, EngineError> {
    let task = objective.task;
    let is_allowed = |found: &Priced| found.detours <= limit(task.settings);
    let suffices = |found: &Priced| {
        let is_as_good = found.is_nearly_as_good() && (found.plan.vls == 1 || !Budget::is_small(task.fabric));
        let beats_several_sls = found.price < task.settings.max_loss;
        is_allowed(found) && (is_as_good || beats_several_sls && !Budget::searches_are_cheap(task.fabric))
    };
    let in_order = match in_dimension_order_plan(objective, by) {
        Some(found) if suffices(&found) => return Ok(found),
        found => found,
    };
    let begin = || {
        // Searches take many passes.
        task.hops.keep_dags(task.fabric);
        with_stricter(task)
    };
    let mut first = known.get_or_init(begin).clone();
    let better = |best: Priced, other: Priced| best.or_better(other, task.settings);
    let mut found = match by_rules(objective, by, &first) {
        Ok(found) => found,
        Err(none) => {
            let found = in_order.filter(is_allowed);
            let layered = || layered_plan(objective).ok().filter(|_| !objective.one_sl_alone);
            return found.or_else(layered).ok_or(none);
        }
    };
    if first.ended_early && !found.is_nearly_as_good() {
        first.go_on();
        found = by_rules(objective, by, &first).into_iter().fold(found, better);
    }
    found = in_order.into_iter().fold(found, better);
    if !found.has_one_sl() || found.is_slow(task.settings) {
        found = along_trees_plan(objective, by).into_iter().fold(found, better);
    }
    Ok(layered_where_better(objective, found))
}

/// [P-SSSP in layers](layered_plan) in place of tables that cost more than it would on all VLs, if it fits on these. There is
/// no such attempt on a large fabric: it takes long. One SL stays one where it loses no more than it may.
fn layered_where_better(objective: &Objective<'_>, found: Priced) -> Priced {
    let Task { fabric, settings, limits, .. } = objective.task;
    let dearest = settings.max_loss + VL * f64::from(limits.vls);
    if found.price <= dearest || objective.one_sl_alone || !Budget::searches_are_cheap(fabric) {
        return found;
    }
    let yields = |layered: &Priced| {
        let exceeds = found.detours > limit(settings);
        layered.price < found.price && (exceeds || found.may_yield_to(layered, settings))
    };
    layered_plan(objective).ok().filter(yields).unwrap_or(found)
}

/// Tables of a grid in dimension order; where links are missing that it needs, other paths [complete](completed) it. `None`
/// elsewhere, and where that does not succeed.
fn in_dimension_order_plan(objective: &Objective<'_>, by: BalanceBy) -> Option<Priced> {
    let task = objective.task;
    let candidates = in_dimension_order(task);
    let tried = candidates.par_iter().filter_map(|candidate| {
        let forwarding = candidate.route(task, by, candidate.detours());
        let serves = forwarding.complete && forwarding.detours == 0;
        serves.then(|| Trial::finish(objective, by, candidate.clone(), forwarding))
    });
    let mut tried: Vec<Trial> = tried.collect();
    if tried.is_empty() {
        tried.extend(Trial::completed(objective, by, candidates.last()?));
    }
    first_with_tree(settle(objective, by, opened(objective, tried)))
}

/// Tables of a damaged grid whose detours along the trees by dimension are made shortest. `None` elsewhere, and where more
/// pairs take detours than may.
fn along_trees_plan(objective: &Objective<'_>, by: BalanceBy) -> Option<Priced> {
    let trial = Trial::new(objective, by, &trees_by_dimension(objective.task)?);
    if !trial.forwarding.complete {
        return None;
    }
    first_with_tree(settle(objective, by, vec![Judged::open(trial, objective)]))
}

/// The first plan, if it has a multicast tree.
fn first_with_tree(settled: Vec<Judged>) -> Option<Priced> {
    let best = settled.into_iter().next()?;
    best.trial.err().filter(|_| best.has_tree)
}

/// The first of these that the settings allow and the VLs and SLs suffice for:
///
/// 1. one SL with all adapter pairs minimal, on as few VLs as lose nothing;
/// 2. one SL with detours for a limited share of the pairs;
/// 3. several SLs with all adapter pairs minimal;
/// 4. DF-DN as printed;
/// 5. one SL with detours without limit, where no limit was stated.
///
/// Where one SL loses more bandwidth than `max_loss`, the third and the fourth are taken if they are worth more: the better
/// of the two.
///
/// Each of them needs a multicast tree for SL 0. Where the first three have none, the rule is changed so that the
/// paths of a tree are legal. Only where none of that has a multicast tree, plans without one count: with all
/// adapter pairs minimal, or within a limit that was stated.
///
/// - `by`: what tables under the rule are balanced by.
///
/// # Errors
/// [`EngineError::Lanes`] with what the third would have needed.
fn by_rules(objective: &Objective<'_>, by: BalanceBy, search: &Search<'_>) -> Result<Priced, EngineError> {
    let settings = objective.task.settings;
    let candidates = search.compared();
    let promising = promising(objective.task, &candidates);
    let one = match one_sl_plan(objective, by, &promising) {
        Ok(plan) if objective.one_sl_alone || !plan.is_slow(settings) => return Ok(plan),
        Err(_) if objective.one_sl_alone => {
            let source = LanesError::TooFewSls { needed: 2, offered: 1 };
            return Err(EngineError::Lanes { engine: "dfdn", source });
        }
        one => one,
    };
    let several = |with_tree| several_sls_plan(objective, by, search, with_tree);
    let is_wanted = |several: &Priced| one.as_ref().map_or(true, |one| several.price < one.price);
    let several = match several(false) {
        Ok(plan) if !plan.plan.serves_multicast() && is_wanted(&plan) => several(true).or(Ok(plan)),
        several => several,
    };
    let rejected = match one {
        Ok(one) => {
            let serves = |plan: &Priced| plan.plan.serves_multicast();
            let others = several.into_iter().chain(df_dn_plan(objective)).filter(serves);
            return Ok(others.fold(one, |best, other| if other.price < best.price { other } else { best }));
        }
        Err(rejected) => rejected,
    };
    let mut without_tree = match (several, rejected.without_tree) {
        (Ok(plan), _) if plan.plan.serves_multicast() => return Ok(plan),
        (_, Some(one)) => Ok(one),
        (several, None) => several,
    };
    if without_tree.is_err() {
        if let Ok(plan) = df_dn_plan(objective) {
            if plan.plan.serves_multicast() {
                return Ok(plan);
            }
            without_tree = Ok(plan);
        }
    }
    if settings.max_nonminimal.is_none() && (without_tree.is_err() || settings.prefer != Prefer::Minimal) {
        let of_all = || one_sl_plan(objective, by, &candidates).err()?.least;
        let left_out = promising.len() < candidates.len();
        if let Some(least) = rejected.least.or_else(|| left_out.then(of_all)?) {
            let found = least.whatever_it_takes(objective, by);
            if found.plan.serves_multicast() || without_tree.is_err() {
                return Ok(found);
            }
        }
    }
    without_tree.map_err(|source| EngineError::Lanes { engine: "dfdn", source })
}

/// On a large fabric, the candidates that may keep to the [limit] on detours with one SL: labels or moved channels. Where the
/// search came to labels, it found plain orders wanting on a sample. Labels that promise most are compared with nothing.
fn promising<'a>(task: Task<'_>, candidates: &[&'a Candidate]) -> Vec<&'a Candidate> {
    let has_labels = candidates.iter().any(|candidate| candidate.has_labels());
    if !has_labels || Budget::searches_are_cheap(task.fabric) {
        return candidates.to_vec();
    }
    let mut kept = candidates.to_vec();
    kept.retain(|candidate| !candidate.is_plain() && candidate.probe.broken <= limit(task.settings));
    kept.sort_by(|a, b| a.expected_price().total_cmp(&b.expected_price()));
    if kept.first().is_some_and(|best| best.has_labels()) {
        kept.truncate(1);
    }
    kept
}

/// Why one SL will not do.
struct Rejected {
    /// The best one with too many detours; `None` where none was tried.
    least: Option<Judged>,
    /// A plan within the limits, but without a multicast tree.
    without_tree: Option<Priced>,
}

/// One SL within the limits: the best candidate by what comes out when its detours are as short as they can be.
fn one_sl_plan(
    objective: &Objective<'_>,
    by: BalanceBy,
    candidates: &[&Candidate],
) -> Result<Priced, Box<Rejected>> {
    let open = opened(objective, trials(objective, by, candidates));
    let mut settled = settle(objective, by, open).into_iter();
    let Some(best) = settled.next() else {
        return Err(Box::new(Rejected { least: None, without_tree: None }));
    };
    match best.trial {
        Err(plan) if !best.exceeds && best.has_tree => Ok(plan),
        Err(plan) if !best.exceeds => {
            let least = settled.find(|other| other.has_tree);
            Err(Box::new(Rejected { least, without_tree: Some(plan) }))
        }
        trial => {
            let least = Some(Judged { trial, ..best });
            Err(Box::new(Rejected { least, without_tree: None }))
        }
    }
}

fn opened(objective: &Objective<'_>, trials: Vec<Trial>) -> Vec<Judged> {
    trials.into_iter().map(|trial| Judged::open(trial, objective)).collect()
}

/// Finds the trial that is worth most when its detours are shortest. It comes first, with its plan. Those within the limit
/// on detours and with a multicast tree come before all others. Where a plan has no such tree, its candidate with its
/// tree reserved is another trial, unless one with the tree of the same order already may serve.
///
/// On small fabrics those that might be better get their plans, in the order of what they are worth as they are: with nothing
/// lost and no detours, or with as little lost as by any other. Those with too many detours do once one is within the limit;
/// the smaller a fabric, the more of them ([`Budget::plans`]). On others only two get a plan: the one that is worth most as it
/// is, and the one that might be worth most, with a level load where it [gets level](levels). On large ones only the first
/// does. More do as long as these have no multicast tree, and none where all have too many detours as they are.
///
/// Cost: that of [`UnderRule`] for each plan, two at once.
fn settle(objective: &Objective<'_>, by: BalanceBy, mut all: Vec<Judged>) -> Vec<Judged> {
    if all.is_empty() {
        return all;
    }
    let fabric = objective.task.fabric;
    let (is_small, is_cheap) = (Budget::is_small(fabric), Budget::searches_are_cheap(fabric));
    let (plans, levels) = (Budget::plans(fabric), levels(objective.task, by));
    loop {
        all.sort_by(|a, b| a.exceeds.cmp(&b.exceeds).then_with(|| a.by_worth(b)));
        let is_settled = all.iter().any(Judged::is_settled);
        let is_open = all[0].trial.is_ok() && (is_small || !all[0].exceeds);
        let mut next: Vec<usize> = (0..usize::from(is_open)).collect();
        let least = if is_open { f64::INFINITY } else { all[0].price };
        let others = || all.iter().enumerate().skip(1).filter(|(_, other)| other.trial.is_ok());
        if is_small {
            let least_lost = all.iter().map(|judged| judged.lost).fold(0.0, f64::min);
            let left = plans.saturating_sub(all.len() - others().count());
            let may_win = |other: &Judged| {
                other.at_best(least_lost) < least && (!other.exceeds || is_settled && left > 0)
            };
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
        let planned = next.into_par_iter().flat_map(|judged| judged.planned(objective, by, &reserved));
        all.extend(planned.collect::<Vec<_>>());
    }
}

/// Routes with candidates. Where one leaves a switch without a path, there are up to two others in its place: with
/// [late turns](Candidate::with_late_turns), and with its tree reserved. Where others have all paths, the tree is not
/// tried on large fabrics, or if the candidate would have too many detours anyway, or if the search tried it.
fn trials(objective: &Objective<'_>, by: BalanceBy, candidates: &[&Candidate]) -> Vec<Trial> {
    let complete = |trial: &Trial| trial.forwarding.complete;
    let most = limit(objective.task.settings);
    let is_cheap = Budget::searches_are_cheap(objective.task.fabric);
    let tried: Vec<Option<Trial>> = candidates
        .par_iter()
        .map(|candidate| Some(Trial::new(objective, by, candidate)).filter(complete))
        .collect();
    let mut late: Vec<(usize, Candidate)> = Vec::new();
    for (i, candidate) in candidates.iter().enumerate().filter(|(i, _)| tried[*i].is_none()) {
        let Some(new) = candidate.with_late_turns(objective.task) else { continue };
        // On one VL and with the first turn free they are alike.
        if !late.iter().any(|(_, other)| other.is_alike(&new)) {
            late.push((i, new));
        }
    }
    let mut late: Vec<(usize, Trial)> =
        late.into_par_iter().map(|(i, candidate)| (i, Trial::new(objective, by, &candidate))).collect();
    late.retain(|(_, trial)| complete(trial));
    let none = late.is_empty() && tried.iter().all(Option::is_none);
    let with_tree = |i: usize, candidate: &Candidate| {
        let is_beside =
            |other: &&Candidate| other.tree_reserved && Arc::ptr_eq(&other.order, &candidate.order);
        let promises = is_cheap && candidate.probe.broken <= most && !candidates.iter().any(is_beside);
        let is_wanted = tried[i].is_none() && (none || promises);
        is_wanted.then(|| Trial::with_tree(objective, by, candidate.clone()))
    };
    let trees: Vec<Option<Trial>> =
        candidates.par_iter().enumerate().map(|(i, candidate)| with_tree(i, candidate)).collect();
    let mut late = late.into_iter().peekable();
    let with_late = |(i, (plain, tree)): (usize, (Option<Trial>, Option<Trial>))| {
        let late = late.next_if(|(of, _)| *of == i).map(|(_, trial)| trial);
        [plain, late, tree].into_iter().flatten()
    };
    tried.into_iter().zip(trees).enumerate().flat_map(with_late).collect()
}

/// Several SLs, by the candidate that is worth most; its labels are those of SL 0.
///
/// - `with_tree`: whether the tree is reserved.
fn several_sls_plan(
    objective: &Objective<'_>,
    by: BalanceBy,
    search: &Search<'_>,
    with_tree: bool,
) -> Result<Priced, LanesError> {
    let task = objective.task;
    let tried = search.for_several_sls().into_par_iter().map(|candidate| {
        let mut candidate = candidate.clone();
        if with_tree {
            candidate.reserve_tree(task);
        }
        candidate.lookahead = Lookahead::LastOption;
        let plain = candidate.route(task, by, NoLegalPath::Break);
        let mut relieved = plain.clone();
        let measured = objective.relieve(&candidate.rule, by, &mut relieved);
        let measured = objective.level_load(&candidate.rule, by, measured, &mut relieved);
        let tables = |forwarding: Forwarding, measured: Measured| {
            let lanes = several_lanes(task, &candidate.rule, &forwarding)?;
            let price = objective.price(&measured, lanes.vls, lanes.sls);
            Ok((price, lanes, forwarding, candidate.clone(), measured))
        };
        // Paths that moved may need more VLs or SLs than there are.
        tables(relieved, measured).or_else(|_: LanesError| {
            let measured = objective.measure(&plain);
            tables(plain, measured)
        })
    });
    type Tried = Result<(f64, Lanes, Forwarding, Candidate, Measured), LanesError>;
    let tried: Vec<Tried> = tried.collect();
    let mut best: Tried = Err(LanesError::TooFewVls { needed: 2, offered: task.limits.vls });
    for result in tried {
        best = match (result, best) {
            (Ok(new), Ok(old)) if new.0 < old.0 => Ok(new),
            (Ok(new), Err(_)) => Ok(new),
            (Err(new), Err(LanesError::TooFewVls { needed: 2, .. })) => Err(new),
            (_, old) => old,
        };
    }
    let (_, lanes, forwarding, candidate, measured) = best?;
    Ok(several_sls(objective, &candidate, forwarding, measured, lanes))
}

/// A candidate, possibly changed for its tree, and the routing with one SL.
struct Trial {
    candidate: Candidate,
    forwarding: Forwarding,
    measured: Measured,
    /// For multicast, if these are known already.
    trees: Option<McastTrees>,
}

impl Trial {
    fn new(objective: &Objective<'_>, by: BalanceBy, candidate: &Candidate) -> Self {
        let forwarding = candidate.route(objective.task, by, candidate.detours());
        Self::finish(objective, by, candidate.clone(), forwarding)
    }

    /// As [`completed`].
    fn completed(objective: &Objective<'_>, by: BalanceBy, candidate: &Candidate) -> Option<Self> {
        let (candidate, forwarding, trees) = completed(objective, by, candidate)?;
        Some(Self { trees: Some(trees), ..Self::finish(objective, by, candidate, forwarding) })
    }

    fn with_tree(objective: &Objective<'_>, by: BalanceBy, mut candidate: Candidate) -> Self {
        candidate.reserve_tree(objective.task);
        Self::new(objective, by, &candidate)
    }

    fn finish(
        objective: &Objective<'_>,
        by: BalanceBy,
        candidate: Candidate,
        mut forwarding: Forwarding,
    ) -> Self {
        let measured = objective.relieve(&candidate.rule, by, &mut forwarding);
        Self { candidate, measured, forwarding, trees: None }
    }
}

/// A trial or its plan, and what that is worth.
struct Judged {
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
    trial: Result<Trial, Priced>,
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
        Self { reserved, exceeds, has_tree: true, price, lost, detours, trial: Ok(trial) }
    }

    /// The price that paths beyond the rule may bring, where they lose at least so much.
    fn at_best(&self, least_lost: f64) -> f64 {
        let gain = self.detours + (self.lost - least_lost).max(0.0);
        if self.trial.is_ok() { self.price - gain } else { self.price }
    }

    /// The price with a level load, and detours as they are.
    fn levelled(&self) -> f64 {
        if self.trial.is_ok() { self.price - self.lost.max(0.0) } else { self.price }
    }

    /// Whether it has a plan that may be had, with a multicast tree.
    fn is_settled(&self) -> bool {
        self.trial.is_err() && self.has_tree && !self.exceeds
    }

    /// With its plan; the load of stable tables gets [level](Objective::level_load) now. Where the plan has no multicast tree,
    /// the candidate with its tree reserved comes beside it, if the tree of its order is not among those that are `reserved`
    /// elsewhere. On large fabrics another one gets labels around the tree meanwhile, as no search has done that.
    fn planned(self, objective: &Objective<'_>, by: BalanceBy, reserved: &[Arc<LinkOrder>]) -> Vec<Self> {
        let Ok(Trial { candidate, mut forwarding, measured, trees }) = self.trial else { return vec![self] };
        let measured = objective.level_load(&candidate.rule, by, measured, &mut forwarding);
        let under_rule = UnderRule::new(objective, by, &candidate, forwarding, measured, trees);
        let plan = under_rule.beyond(objective, by);
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
        let planned =
            Self { reserved: self.reserved, exceeds, has_tree, price, lost, trial: Err(plan), ..self };
        let beside = beside.into_iter().flat_map(|(tree, labels)| std::iter::once(tree).chain(labels));
        std::iter::once(planned).chain(beside).collect()
    }

    /// The plan, with a multicast tree if that may be had.
    fn whatever_it_takes(self, objective: &Objective<'_>, by: BalanceBy) -> Priced {
        let planned = |judged: Self| judged.planned(objective, by, &[]);
        let plans = planned(self).into_iter().flat_map(planned);
        let best = plans.min_by(Self::by_worth);
        best.and_then(|best| best.trial.err()).expect("there is a plan")
    }

    /// Those with a multicast tree come first, then those of the least price.
    fn by_worth(&self, other: &Self) -> Ordering {
        other.has_tree.cmp(&self.has_tree).then(self.price.total_cmp(&other.price))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Settings;
    use crate::engine::dfdn::tests::with_task;
    use crate::lanes::LaneLimits;
    use crate::topology::Random;

    #[test]
    fn p_sssp_in_layers_takes_the_place_of_what_costs_more() {
        let fabric = Random { switches: 60, degree: 3, cas: 1, seed: 2 }.build().unwrap();
        let settings = Settings::default();
        with_task(&fabric, &settings, |task| {
            let objective = Objective::new(task);
            let layered = layered_plan(&objective).unwrap();
            // Nothing is lost.
            let price = settings.max_loss + VL * f64::from(layered.plan.vls);
            assert!((layered.price - price).abs() < 1e-9 && layered.plan.serves_multicast());
            let dearest = settings.max_loss + VL * f64::from(task.limits.vls);
            for (before, after) in [(dearest, dearest), (1.0, layered.price)] {
                let found = Priced { price: before, ..layered_plan(&objective).unwrap() };
                assert_eq!(layered_where_better(&objective, found).price, after);
            }
            let few = objective.within(LaneLimits { vls: 3, ..task.limits });
            assert!(matches!(layered_plan(&few), Err(LanesError::TooFewVls { needed: 4, offered: 3 })));
            let found = Priced { price: 1.0, ..layered_plan(&objective).unwrap() };
            assert_eq!(layered_where_better(&few, found).price, 1.0);
        })
        .unwrap();
    }
}
