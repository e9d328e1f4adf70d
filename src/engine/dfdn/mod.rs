//! The engine `dfdn`: one SL if possible, else shortest paths with several SLs.
//!
//! This file is the policy. Tables are *stable* (`stable.rs`: a failed link changes few of them) or *searched*
//! (`searched.rs`: by the best rule of a search). [`ordering`](crate::ordering) has the idea, its proof and what
//! was measured.
//!
//! ```text
//! candidates ──> stable ──────────────────────────┐
//!      │                                          ├──> build ──> Plan
//!      └───────> search (estimate) ──> searched ──┘
//! ```

mod build;
mod candidates;
mod estimate;
mod orders;
mod search;
mod searched;
mod stable;
mod tuning;

use rayon::prelude::*;

use self::candidates::BalanceBy;
use self::estimate::Budget;
use self::searched::searched_plan;
use self::stable::stable_plan;
use self::tuning::{LEAST_WORK, NEAR, NEAR_HOPS, STABLE_DETOURS, STABLE_LOSS, STABLE_VLS};
use super::plan::Plan;
use super::{Balance, EngineError, Prefer, Settings};
use crate::evaluate::quick_bisection;
use crate::fabric::{Fabric, SwitchId};
use crate::lanes::LaneLimits;
use crate::ordering::Dimensions;
use crate::routing::{Hops, has_core_switches};

/// What is to be routed, and with what.
#[derive(Clone, Copy)]
struct Task<'a> {
    fabric: &'a Fabric,
    hops: &'a Hops,
    settings: &'a Settings,
    limits: LaneLimits,
}

/// Routes as [`Settings::balance`] asks: stable, searched, or the better of both.
///
/// # Errors
/// Those of [`searched_plan`].
pub(super) fn dfdn(
    fabric: &Fabric,
    hops: &Hops,
    settings: &Settings,
    limits: LaneLimits,
) -> Result<Plan, EngineError> {
    let task = Task { fabric, hops, settings, limits };
    match settings.balance {
        Balance::Full => searched_plan(task, BalanceBy::Load),
        Balance::Stable => stable_plan(task, limit(settings)).or_else(|why_not| {
            let mut plan = searched_plan(task, BalanceBy::ExpectedLoad)?;
            plan.remarks.push(format!("a failed link may bring another order of the links ({why_not})"));
            Ok(plan)
        }),
        Balance::Auto => stable_or_searched(task),
    }
}

/// Stable tables where they cost next to nothing, else searched ones.
///
/// Grids are searched: that gives one VL and a better balance. Where routing takes hundredths of a second both are
/// computed. Then stable tables must not take several VLs where one does, nor two more than the searched ones, and
/// must have nearly their bandwidth. On larger fabrics they may take three VLs, and one on trees.
fn stable_or_searched(task: Task<'_>) -> Result<Plan, EngineError> {
    let Task { fabric, hops, settings, .. } = task;
    let searched = || searched_plan(task, BalanceBy::Load);
    let because = |plan: Result<Plan, EngineError>, why_not: &str| {
        let mut plan = plan?;
        plan.remarks.push(format!("balanced anew whenever the fabric changes (balance stable: {why_not})"));
        Ok(plan)
    };
    if Dimensions::find(fabric).is_some() {
        return because(searched(), "a grid has fewer VLs or more bandwidth so");
    }
    let near = near_pairs(fabric, hops) > NEAR;
    let detours = if near { 0.0 } else { limit(settings).min(STABLE_DETOURS) };
    let compares = Budget::pass(fabric) <= LEAST_WORK;
    let (stable, other) = rayon::join(|| stable_plan(task, detours), || compares.then(searched));
    match (stable, other) {
        (Err(why_not), other) => because(other.unwrap_or_else(searched), &why_not),
        (Ok(stable), Some(Ok(other))) => {
            let most = if near || other.vls == 1 { other.vls } else { other.vls + 1 };
            if stable.vls > most {
                let why_not = format!("{} VLs instead of {}", stable.vls, other.vls);
                return because(Ok(other), &why_not);
            }
            let ebb = |plan: &Plan| quick_bisection(fabric, &plan.lft);
            let (kept, best) = rayon::join(|| ebb(&stable), || ebb(&other));
            let loss = 1.0 - kept / best;
            if loss > STABLE_LOSS.min(settings.max_loss) {
                return because(Ok(other), &format!("{:.1} % less bandwidth", 100.0 * loss));
            }
            Ok(stable)
        }
        (Ok(stable), Some(Err(_))) => Ok(stable),
        (Ok(stable), None) => {
            let most = if has_core_switches(fabric) { 1 } else { STABLE_VLS };
            if stable.vls <= most { Ok(stable) } else { because(searched(), &format!("{} VLs", stable.vls)) }
        }
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

/// Share of the pairs of switches with adapters that are at most [`NEAR_HOPS`] apart.
fn near_pairs(fabric: &Fabric, hops: &Hops) -> f64 {
    let with: Vec<SwitchId> = fabric.switch_ids().filter(|&s| fabric.num_adapters_on(s) > 0).collect();
    let near = |&a: &SwitchId| with.iter().filter(|&&b| hops.get(a, b) <= NEAR_HOPS).count();
    with.par_iter().map(near).sum::<usize>() as f64 / (with.len() * with.len()).max(1) as f64
}

/// The search alone: the names of its candidates, the best first.
pub(super) fn orders_tried(fabric: &Fabric, hops: &Hops, limits: LaneLimits) -> Vec<String> {
    let task = Task { fabric, hops, settings: &Settings::default(), limits };
    search::search(task).candidates.iter().map(candidates::Candidate::name).collect()
}
