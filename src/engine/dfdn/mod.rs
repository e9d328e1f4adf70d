//! The engine `dfdn`: one SL if possible, else shortest paths with several SLs.
//!
//! This file is the policy. On tori with long rings, tables are in dimension order with two VLs and several SLs, or have
//! one SL with detours (`torus/`). Elsewhere they are *stable* (`stable.rs`: a failed link changes few of them) or *searched*
//! (`searched.rs`: by the best rule of a search; `several.rs`: with several SLs). [`ordering`](crate::ordering) has the idea, its
//! proof and what was measured.
//!
//! After a change of the fabric they keep to earlier ones as far as these are good enough (`baseline.rs`): lost paths
//! move, and few others (`mended.rs`), or those that the earlier rule, or a new one, does not allow.
//!
//! ```text
//! candidates ──> stable ─────────────────────────────────────┐
//!      │                                                     ├──> build ──> Plan
//!      └───────> search (estimate) ──> searched (trials) ────┘
//! ```
//!
//! Where adapters have several LIDs, all that is for the base LIDs, and `layers.rs` adds the others.

mod baseline;
mod beyond_rule;
mod build;
mod candidates;
mod estimate;
mod keepable;
mod layers;
mod mended;
mod objective;
mod orders;
mod search;
mod searched;
mod several;
mod stable;
#[cfg(test)]
mod tests;
mod torus;
mod trials;
mod tuning;

use std::cell::OnceCell;
use std::sync::OnceLock;

use self::candidates::{BalanceBy, Candidate};
use self::estimate::Budget;
use self::objective::{Measured, Objective};
use self::search::Search;
use self::searched::{searched_plan, several_sls_suffice};
use self::stable::{NO_RULE, Relieved, StableTables, first_or_better, lasting_plan};
use self::torus::{cooler_torus, damaged_grid_plan, fewer_vls, torus_in_order, torus_plan};
use self::tuning::{DETOURS, KEPT, STABILITY, STABLE_LOST, VL};
use super::plan::Plan;
use super::{Balance, EngineError, Lineage, Prefer, Settings, Task};

pub use baseline::Baseline;
pub use keepable::Keepable;
pub use mended::{MAX_MENDED, max_counts};

use crate::fabric::Fabric;
use crate::lanes::LaneLimits;
use crate::ordering::{Rule, Tree};
use crate::routing::{Hops, LabelledRoutes};
use crate::tables::PathSl;

/// A plan with its price by the [objective](objective).
struct Priced {
    plan: Plan,
    price: f64,
    /// Share of the bandwidth that is lost, with what detours take.
    lost: f64,
    /// Share of the adapter pairs on detours.
    detours: f64,
    /// By how much the price fell as the load got level where nothing was lost.
    levelled: f64,
    /// What all paths are legal under, where they have one SL by a rule of the search.
    legal: Option<Legal>,
}

/// A rule, and a spanning tree whose paths may be legal under it.
struct Legal {
    rule: Rule,
    tree: Tree,
}

/// Routes to the base LIDs by [`balanced`], and to further LIDs as [`Settings::layers`] asks.
///
/// # Errors
/// Those of [`searched_plan`].
pub(super) fn dfdn(task: Task<'_>) -> Result<Plan, EngineError> {
    layers::with_layers(task)
}

/// Routes so that the tables keep to the baseline, or anew.
///
/// The baseline is kept to as long as that takes at most [`KEPT`] of the bandwidth, compared with the baseline itself
/// or with new tables: first so that the way is free of credit loops, then under the rule of the baseline. Where it
/// takes more, paths of the baseline are kept as far as the rule of the new tables allows them. On a torus in dimension
/// order, that order is kept to where that takes less, and always with `balance stable`, as it changes fewer blocks; also
/// where no such way is found. It needs every ring in one part. Where it is hot, paths [leave it](cooler_torus) if that takes one
/// SL, as no way to other SLs is proven.
///
/// One SL stays one SL, whatever that takes, unless the settings limit it: hosts go on with the SL that they know, and
/// no way to tables with several SLs is free of credit loops then.
///
/// # Errors
/// Those of [`searched_plan`].
fn balanced(task: Task<'_>) -> Result<Priced, EngineError> {
    let Some(baseline) = task.baseline else { return torus_or_anew(task, None) };
    let mut settings = task.settings.clone();
    if baseline.has_one_sl() && settings.prefer == Prefer::Default {
        settings.prefer = Prefer::OneSl;
    }
    let task = Task { settings: &settings, ..task };
    let known = OnceCell::new();
    let objective = || *known.get_or_init(|| Objective::new(task));
    let in_order = |objective| {
        let stays = baseline.in_dimension_order(task);
        stays.then(|| torus_in_order(task, objective)).flatten()
    };
    let is_first = task.settings.balance == Balance::Stable;
    if let Some(in_order) = is_first.then(|| in_order(None)).flatten() {
        return Ok(in_order);
    }
    let mended = match baseline.mend(task, &objective, task.fabric) {
        Some(mended) if baseline.matched_by(&mended) => return Ok(mended),
        mended => mended,
    };
    let in_order = (!is_first).then(|| in_order(mended.is_some().then(&objective))).flatten();
    if let Some(in_order) = in_order {
        let kept = mended.filter(|mended| mended.lost <= in_order.lost).unwrap_or(in_order);
        let cooler = (kept.lost > KEPT).then(|| cooler_torus(task, objective())).flatten();
        return Ok(match cooler.filter(|cooler| cooler.lost + KEPT < kept.lost) {
            Some(cooler) if cooler.has_one_sl() => cooler,
            Some(cooler) => {
                let gain = 100.0 * (kept.lost - cooler.lost);
                kept.because(format!(
                    "OpenSM's next start brings tables that are worth {gain:.1} % more: no way to their SLs is proven"
                ))
            }
            None => kept,
        });
    }
    let mut new = None;
    if let Some(mended) = mended {
        let made = new.insert(match baseline.has_one_sl() {
            true => anew(task, Some(objective())),
            false => torus_or_anew(task, Some(objective())),
        });
        if made.as_ref().is_ok_and(|new| mended.lost <= new.lost + KEPT) {
            return Ok(mended);
        }
    }
    let objective = objective();
    let under = |new| baseline.under(&objective, &new).unwrap_or(new);
    match baseline.follow(&objective) {
        Some(kept) if baseline.matched_by(&kept) => Ok(kept),
        Some(kept) => match new.unwrap_or_else(|| anew(task, Some(objective))) {
            Ok(new) if new.lost + KEPT < kept.lost => Ok(under(new)),
            _ => Ok(kept),
        },
        None => {
            let made = new.filter(|_| !baseline.has_one_sl());
            made.unwrap_or_else(|| torus_or_anew(task, Some(objective))).map(under)
        }
    }
}

/// Routes on a torus with long rings in dimension order, elsewhere [`anew`]: on some damaged grids [with fewer VLs](fewer_vls)
/// first. Where one SL costs too much on a damaged grid, P-SSSP in layers and dimension order with several SLs count too.
///
/// - `objective`: of the task, where it is known already.
///
/// # Errors
/// Those of [`searched_plan`].
fn torus_or_anew<'a>(task: Task<'a>, objective: Option<Objective<'a>>) -> Result<Priced, EngineError> {
    if let Some(found) = torus_plan(task, objective) {
        return Ok(found);
    }
    let fewer = fewer_vls(task);
    let objective = objective.or_else(|| fewer.map(|_| Objective::new(task)));
    // Nothing with several SLs is cheaper than `max_loss`. Where one SL takes too many detours, or loses too much bandwidth, it
    // would on one VL more too.
    let may_be_better =
        |found: &Priced| found.keeps_one_sl(task.settings) && found.price >= task.settings.max_loss;
    let better = |best: Priced, other: Priced| best.or_better(other, task.settings);
    let limits = fewer.map_or(task.limits, |(limits, _)| limits);
    let found = anew(Task { limits, ..task }, objective.map(|objective| objective.within(limits)));
    let found = match found {
        Ok(found) if fewer.is_some_and(|(_, suffices)| !suffices) && may_be_better(&found) => {
            Ok(anew(task, objective).into_iter().fold(found, better))
        }
        found => found,
    };
    // Where several SLs by dimension may come before a search, they were compared already.
    let is_compared = |found: &Priced| several_sls_suffice(task).is_some_and(|most| found.price < most);
    let is_final = |found: &Priced| {
        found.keeps_one_sl(task.settings)
            || is_compared(found)
            || found.is_nearly_as_good_with_several(task.settings)
    };
    if found.as_ref().is_ok_and(is_final) {
        return found;
    }
    let is_better = |grid: &Priced| found.as_ref().map_or(true, |found| grid.price < found.price);
    damaged_grid_plan(task, objective).filter(is_better).map_or(found, Ok)
}

/// Routes as [`Settings::balance`] asks: stable, searched, or the better of both.
///
/// - `objective`: of the task, where it is known already.
///
/// # Errors
/// Those of [`searched_plan`].
fn anew<'a>(task: Task<'a>, objective: Option<Objective<'a>>) -> Result<Priced, EngineError> {
    let settings = task.settings;
    let detours = limit(settings);
    let mut tables = StableTables::new(task, detours);
    let mut first = || match settings.balance {
        Balance::Full => Err("not asked for".to_owned()),
        Balance::Auto if task.dimensions().is_some() => Err("a grid has fewer VLs so".to_owned()),
        Balance::Stable | Balance::Auto => tables.next().unwrap_or_else(|| Err(NO_RULE.to_owned())),
    };
    let (objective, first) =
        if objective.is_none() && settings.balance != Balance::Full && Objective::has_floor_in_reach(task) {
            let first = first();
            let at_floor =
                first.as_ref().ok().and_then(|stable| Objective::at_floor(task, &stable.forwarding));
            (at_floor.unwrap_or_else(|| Objective::new(task)), first)
        } else {
            rayon::join(|| objective.unwrap_or_else(|| Objective::new(task)), first)
        };
    let lasting = Settings { balance: Balance::Stable, ..settings.clone() };
    let search = OnceLock::new();
    match settings.balance {
        Balance::Full => searched_plan(&objective, BalanceBy::Load, &search),
        Balance::Stable => {
            let stable = lasting_plan(&objective, std::iter::once(first).chain(tables), detours);
            stable_anyway(&objective, stable, &search, true)
        }
        Balance::Auto => {
            let first = first_or_better(&objective, first, tables);
            let found = stable_or_searched(&objective, first, detours, &search)?;
            if found.is_nearly_as_good() || !Budget::is_small(task.fabric) {
                return Ok(found);
            }
            // To allow tables that do not last shall not end worse.
            let task = Task { settings: &lasting, ..task };
            let objective = Objective { task, ..objective };
            let stable = lasting_plan(&objective, StableTables::new(task, detours), detours);
            // Those balanced by the load were compared already.
            let stable = stable_anyway(&objective, stable, &search, false);
            Ok(stable.into_iter().fold(found, |found, stable| found.or_better(stable, settings)))
        }
    }
}

/// Stable tables unless those of a rule of the search [outdo](Priced::outdoes) them. That rule is balanced by the expected
/// load too. Where that takes several SLs, and a search is cheap, tables balanced by the load come instead if they are worth
/// more, or have one SL that loses no more than it may: neither would last.
///
/// - `search`: as it begins; empty until there was one.
/// - `by_load`: whether tables balanced by the load count, too.
fn stable_anyway<'a>(
    objective: &Objective<'a>,
    stable: Result<Priced, String>,
    search: &OnceLock<Search<'a>>,
    by_load: bool,
) -> Result<Priced, EngineError> {
    let Task { fabric, settings, .. } = objective.task;
    let (kept, why_not) = match stable {
        Ok(stable) if stable.lasts_well() => return Ok(stable),
        Ok(stable) => (Some(stable), "those that last are worth less".to_owned()),
        Err(why_not) => (None, why_not),
    };
    let mut searched = searched_plan(objective, BalanceBy::ExpectedLoad, search).map(|found| {
        found.because(format!("a failed link may bring another order of the links ({why_not})"))
    });
    let is_enough = searched.as_ref().is_ok_and(Priced::has_one_sl);
    if by_load && !is_enough && Budget::searches_are_cheap(fabric) {
        let by_load = searched_plan(objective, BalanceBy::Load, search)
            .map(|found| found.because(format!("{ANEW} (balance stable: its rules need several SLs)")));
        let better = |best: Priced, other: Priced| {
            let is_allowed = other.keeps_one_sl(settings) && other.detours <= limit(settings);
            if is_allowed { other } else { best.or_better(other, settings) }
        };
        searched = match searched {
            Ok(found) => Ok(by_load.into_iter().fold(found, better)),
            Err(_) => by_load,
        };
    }
    match (searched, kept) {
        (Ok(searched), Some(kept)) if !searched.outdoes(kept.price, kept.detours) => Ok(kept),
        (Err(_), Some(kept)) => Ok(kept),
        (searched, _) => searched,
    }
}

/// Stable tables unless searched ones [outdo](Priced::outdoes) them. There is no search where stable tables lose next to
/// nothing. Nor is there one on fabrics that are not small where tables as good as those of P-SSSP would not outdo them. There is
/// no plan for stable tables that are outdone anyway; on large fabrics it is made meanwhile.
///
/// - `search`: as it begins; empty until there was one.
fn stable_or_searched<'a>(
    objective: &Objective<'a>,
    stable: Result<Relieved, String>,
    detours: f64,
    search: &OnceLock<Search<'a>>,
) -> Result<Priced, EngineError> {
    let search = || searched_plan(objective, BalanceBy::Load, search);
    let anew = |searched: Priced, why: String| searched.because(format!("{ANEW} (balance stable: {why})"));
    let worth_less = |searched: Priced, price: f64| {
        let loss = 100.0 * (price - searched.price);
        anew(searched, format!("worth {loss:.1} % less"))
    };
    let relieved = match stable {
        Ok(relieved) => relieved,
        Err(why_not) => return Ok(anew(search()?, why_not)),
    };
    let (price, of_pairs) = (relieved.price, relieved.detours());
    let is_small = Budget::is_small(objective.task.fabric);
    let suffices = |price, detours| is_nearly_as_good(price) || !is_small && lasts_well(price, detours);
    let (stable, searched) = if suffices(price, of_pairs) {
        (Err(relieved), None)
    } else if Budget::searches_are_cheap(objective.task.fabric) {
        (Err(relieved), Some(search()))
    } else {
        let (stable, searched) = rayon::join(|| relieved.plan(objective, detours), search);
        (Ok(stable), Some(searched))
    };
    let searched = match searched {
        Some(Ok(found)) if found.outdoes(price, of_pairs) => return Ok(worth_less(found, price)),
        searched => searched,
    };
    let stable = stable.unwrap_or_else(|relieved| relieved.plan(objective, detours));
    let stable = match stable {
        Ok(stable) if suffices(stable.price, stable.detours) => return Ok(stable),
        Ok(stable) => stable,
        Err(why_not) => return Ok(anew(searched.unwrap_or_else(search)?, why_not)),
    };
    match searched.unwrap_or_else(search) {
        Ok(found) if found.outdoes(stable.price, stable.detours) => Ok(worth_less(found, stable.price)),
        _ => Ok(stable),
    }
}

/// Whether tables of a price lose next to nothing beside P-SSSP.
fn is_nearly_as_good(price: f64) -> bool {
    price <= as_good() + STABLE_LOST
}

/// Whether tables as good as those of P-SSSP would not [outdo](Priced::outdoes) stable ones.
fn lasts_well(price: f64, detours: f64) -> bool {
    price <= as_good() + STABILITY && paid(price, detours) <= as_good() + STABLE_LOST
}

/// The price of tables if a detour counts once: what they cost in bandwidth and VLs.
fn paid(price: f64, detours: f64) -> f64 {
    price - (DETOURS - 1.0) * detours
}

/// The price of tables that are as good as those of P-SSSP, on two VLs.
fn as_good() -> f64 {
    2.0 * VL
}

/// What is remarked of searched tables.
const ANEW: &str = "balanced anew whenever the fabric changes";

impl Priced {
    /// - `measured`: what its tables come to by the objective.
    fn new(plan: Plan, sls: u8, objective: &Objective<'_>, measured: &Measured) -> Self {
        let price = objective.price(measured, plan.vls, sls);
        let detours = measured.detours;
        Self { plan, price, lost: objective.lost(measured) + detours, detours, levelled: 0.0, legal: None }
    }

    /// The same, for later tables to keep to: see [`Keepable::of`].
    fn keepable(
        mut self,
        objective: &Objective<'_>,
        candidate: Option<&Candidate>,
        sls: u8,
        largest: u64,
    ) -> Self {
        let keepable = Keepable::of(objective, &self, candidate, sls, largest);
        self.plan.lineage = Lineage::First(Box::new(keepable));
        self
    }

    /// Tables that are taken whatever they cost.
    fn free(plan: Plan) -> Self {
        Self { plan, price: 0.0, lost: 0.0, detours: 0.0, levelled: 0.0, legal: None }
    }

    /// Whether these are worth giving up stable tables for: [`STABILITY`] more in all, or [`STABLE_LOST`] more in bandwidth
    /// and VLs. A level load is not where nothing was lost.
    ///
    /// - `price`, `detours`: of the stable ones.
    fn outdoes(&self, price: f64, detours: f64) -> bool {
        let own = self.price + self.levelled;
        own + STABILITY < price || own < price && paid(own, self.detours) + STABLE_LOST < paid(price, detours)
    }

    /// Other tables where they are worth more and may be had instead.
    fn or_better(self, other: Self, settings: &Settings) -> Self {
        let is_better = other.price < self.price && self.may_yield_to(&other, settings);
        if is_better { other } else { self }
    }

    /// Whether other tables may be had instead if they are worth more. One SL stays one as long as it loses no more than it
    /// may.
    fn may_yield_to(&self, other: &Self, settings: &Settings) -> bool {
        other.detours <= limit(settings)
            && (other.has_one_sl() || !self.keeps_one_sl(settings))
            && (other.plan.serves_multicast() || !self.plan.serves_multicast())
    }

    /// Whether these lose next to nothing beside P-SSSP.
    fn is_nearly_as_good(&self) -> bool {
        is_nearly_as_good(self.price)
    }

    /// Whether these lose next to nothing beside P-SSSP, but for several SLs on as many VLs as dimension order takes.
    fn is_nearly_as_good_with_several(&self, settings: &Settings) -> bool {
        self.price <= settings.max_loss + VL * f64::from(LabelledRoutes::VLS) + STABLE_LOST
    }

    /// Whether tables as good as those of P-SSSP would not [outdo](Self::outdoes) these.
    fn lasts_well(&self) -> bool {
        lasts_well(self.price, self.detours)
    }

    /// Whether one SL loses more bandwidth than it may by default.
    fn is_slow(&self, settings: &Settings) -> bool {
        settings.prefer == Prefer::Default
            && self.has_one_sl()
            && self.lost - self.detours > settings.max_loss
    }

    /// Whether these have one SL that loses no more than it may.
    fn keeps_one_sl(&self, settings: &Settings) -> bool {
        self.has_one_sl() && !self.is_slow(settings)
    }

    fn has_one_sl(&self) -> bool {
        matches!(self.plan.path_sl, PathSl::Any(_))
    }

    fn because(mut self, remark: String) -> Self {
        self.plan.remarks.push(remark);
        self
    }
}

/// The largest share of the adapter pairs that one SL may send on detours.
pub(super) fn limit(settings: &Settings) -> f64 {
    match (settings.prefer, settings.max_nonminimal) {
        (Prefer::Minimal, _) => 0.0,
        (_, Some(limit)) => limit,
        (Prefer::Default, None) => Settings::MAX_NONMINIMAL,
        (Prefer::OneSl, None) => 1.0,
    }
}

/// The search alone: the names of its candidates, the best first.
pub(super) fn orders_tried(fabric: &Fabric, hops: &Hops, limits: LaneLimits) -> Vec<String> {
    let (settings, dimensions) = (Settings::default(), OnceLock::new());
    let task = Task { fabric, hops, settings: &settings, limits, baseline: None, dimensions: &dimensions };
    search::search(task).candidates().into_iter().map(candidates::Candidate::name).collect()
}
