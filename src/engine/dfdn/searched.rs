//! Tables by the best rule of a search.

use std::sync::OnceLock;

use rayon::prelude::*;

use super::build::{df_dn_plan, layered_plan};
use super::candidates::{BalanceBy, Candidate};
use super::estimate::{Budget, is_hopeless};
use super::objective::Objective;
use super::search::{Search, in_dimension_order, trees_by_dimension, with_stricter};
use super::several::several_sls_plan;
use super::torus::damaged_grid_plan;
use super::trials::{Trial, best_with_tree, one_sl_plan};
use super::tuning::{GRID_SUFFICES, VL};
use super::{Priced, limit};
use crate::engine::{Balance, EngineError, Prefer, Task};
use crate::lanes::LanesError;

/// Tables in dimension order on a grid where these are nearly as good as those of P-SSSP, on a small one only with one VL; else
/// by the best rule of a search, or in dimension order where that is worth more. On a large grid there is no search where
/// dimension order is worth more than any tables with several SLs may be, nor on the largest damaged ones where
/// [several SLs](several_sls_by_dimension) suffice. Where plain orders seem to suffice, but their tables are not nearly as good,
/// the search goes on. Where one SL loses too much, a grid takes paths [along its trees](along_trees_plan) if these are worth
/// more.
///
/// - `by`: what tables under the rule are balanced by.
/// - `known`: the search as it begins, which does not depend on that; empty until there was one.
///
/// # Errors
/// Those of [`by_rules`].
pub(super) fn searched_plan<'a>(
    objective: &Objective<'a>,
    by: BalanceBy,
    known: &OnceLock<Search<'a>>,
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
    if let Some(grid) = several_sls_by_dimension(objective) {
        return Ok(in_order.into_iter().fold(grid, |best, other| best.or_better(other, task.settings)));
    }
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
    if !found.keeps_one_sl(task.settings) {
        found = along_trees_plan(objective, by).into_iter().fold(found, better);
    }
    Ok(layered_where_better(objective, found))
}

/// [Dimension order with several SLs](damaged_grid_plan) on a damaged grid, where these [suffice](several_sls_suffice).
fn several_sls_by_dimension(objective: &Objective<'_>) -> Option<Priced> {
    let most = several_sls_suffice(objective.task).filter(|_| !objective.one_sl_alone)?;
    damaged_grid_plan(objective.task, Some(*objective)).filter(|grid| grid.price < most)
}

/// The price below which several SLs on a damaged grid come in place of a search: they lose no more than twice what one SL may.
/// `None` where a search is not [long](Budget::searches_are_long). With `balance stable`, one SL is looked for all the same.
pub(super) fn several_sls_suffice(Task { fabric, settings, .. }: Task<'_>) -> Option<f64> {
    let is_wanted = Budget::searches_are_long(fabric) && settings.balance != Balance::Stable;
    is_wanted.then_some(GRID_SUFFICES * settings.max_loss)
}

/// [P-SSSP in layers](layered_plan) in place of tables that cost more than it would on all VLs, if it fits on these. There is
/// no such attempt on a large fabric: it takes long. One SL stays one where it loses no more than it may.
///
/// Cost: that of [`layered_plan`], where it may come instead.
fn layered_where_better(objective: &Objective<'_>, found: Priced) -> Priced {
    let Task { fabric, settings, .. } = objective.task;
    let dearest = settings.max_loss + VL * f64::from(objective.several.vls);
    let exceeds = found.detours > limit(settings);
    let may_yield = exceeds || !found.keeps_one_sl(settings);
    let is_tried = may_yield && !objective.one_sl_alone && Budget::searches_are_cheap(fabric);
    if found.price <= dearest || !is_tried {
        return found;
    }
    let yields =
        |layered: &Priced| layered.price < found.price && (exceeds || found.may_yield_to(layered, settings));
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
    best_with_tree(objective, by, tried)
}

/// Tables of a damaged grid whose detours along the trees by dimension are made shortest. `None` elsewhere, and where more
/// pairs take detours than may.
fn along_trees_plan(objective: &Objective<'_>, by: BalanceBy) -> Option<Priced> {
    let trial = Trial::new(objective, by, &trees_by_dimension(objective.task)?);
    if !trial.forwarding.complete {
        return None;
    }
    best_with_tree(objective, by, vec![trial])
}

/// The first of these that the settings allow and the VLs and SLs suffice for:
///
/// 1. one SL with all adapter pairs minimal, on as few VLs as lose nothing;
/// 2. one SL with detours for a limited share of the pairs;
/// 3. several SLs with all adapter pairs minimal;
/// 4. DF-DN as printed;
/// 5. one SL with detours without limit; with several classes only where no limit was stated.
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
    let is_wanted = |several: &Priced| one.as_ref().map_or(true, |one| several.price < one.price);
    let several = several_sls_plan(objective, by, search, is_wanted);
    let rejected = match one {
        Ok(one) => {
            let serves = |plan: &Priced| plan.plan.serves_multicast();
            let better = |best: Priced, other: Priced| if other.price < best.price { other } else { best };
            let best = several.into_iter().filter(serves).fold(one, better);
            let df_dn = df_dn_plan(objective, best.price).filter(serves);
            return Ok(df_dn.into_iter().fold(best, better));
        }
        Err(rejected) => rejected,
    };
    let mut without_tree = match (several, rejected.without_tree) {
        (Ok(plan), _) if plan.plan.serves_multicast() => return Ok(plan),
        (_, Some(one)) => Ok(one),
        (several, None) => several,
    };
    if without_tree.is_err() {
        if let Some(plan) = df_dn_plan(objective, f64::INFINITY) {
            if plan.plan.serves_multicast() {
                return Ok(plan);
            }
            without_tree = Ok(plan);
        }
    }
    let may_exceed = match settings.max_nonminimal {
        None => without_tree.is_err() || settings.prefer != Prefer::Minimal,
        // A limit that is not met is better than no tables; where fewer classes may meet it, they do.
        Some(_) => without_tree.is_err() && settings.classes == 1,
    };
    if may_exceed {
        let of_all = || one_sl_plan(objective, by, &candidates).err()?.least;
        let left_out = promising.len() < candidates.len();
        if let Some(least) = rejected.least.or_else(|| left_out.then(of_all)?) {
            let mut found = least.whatever_it_takes(objective, by);
            if let Some(limit) = settings.max_nonminimal.filter(|&limit| found.detours > limit) {
                let why = format!("no tables with so many VLs and SLs keep to max_nonminimal {limit}");
                found = found.because(why);
            }
            if found.plan.serves_multicast() || without_tree.is_err() {
                return Ok(found);
            }
        }
    }
    without_tree.map_err(|source| EngineError::Lanes { engine: "dfdn", source })
}

/// The candidates that may keep to the [limit] on detours with one SL, without [hopeless](is_hopeless) ones. On large fabrics,
/// labels or moved channels may, within the limit: where the search came to labels, it found plain orders wanting on a sample.
/// Labels that promise most are compared with nothing there.
fn promising<'a>(task: Task<'_>, candidates: &[&'a Candidate]) -> Vec<&'a Candidate> {
    let mut kept = candidates.to_vec();
    let has_labels = candidates.iter().any(|candidate| candidate.has_labels());
    if !has_labels || Budget::searches_are_cheap(task.fabric) {
        kept.retain(|candidate| !is_hopeless(task, candidate.probe.broken));
        return kept;
    }
    kept.retain(|candidate| !candidate.is_plain() && candidate.probe.broken <= limit(task.settings));
    kept.sort_by(|a, b| a.expected_price().total_cmp(&b.expected_price()));
    if kept.first().is_some_and(|best| best.has_labels()) {
        kept.truncate(1);
    }
    kept
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
            let few = Objective { several: LaneLimits { vls: 3, ..task.limits }, ..objective };
            assert!(matches!(layered_plan(&few), Err(LanesError::TooFewVls { needed: 4, offered: 3 })));
            let found = Priced { price: 1.0, ..layered_plan(&objective).unwrap() };
            assert_eq!(layered_where_better(&few, found).price, 1.0);
        })
        .unwrap();
    }
}
