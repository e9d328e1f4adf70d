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
mod objective;
mod orders;
mod search;
mod searched;
mod stable;
mod tuning;

use self::candidates::BalanceBy;
use self::estimate::Budget;
use self::objective::Reference;
use self::searched::searched_plan;
use self::stable::stable_plan;
use self::tuning::{LEAST_WORK, STABILITY};
use super::plan::Plan;
use super::{Balance, EngineError, Prefer, Settings};
use crate::fabric::Fabric;
use crate::lanes::LaneLimits;
use crate::routing::Hops;

/// What is to be routed, and with what.
#[derive(Clone, Copy)]
struct Task<'a> {
    fabric: &'a Fabric,
    hops: &'a Hops,
    settings: &'a Settings,
    limits: LaneLimits,
    reference: &'a Reference,
}

/// A plan with its price.
struct Priced {
    plan: Plan,
    price: f64,
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
    let reference = Reference::new(fabric, hops);
    let task = Task { fabric, hops, settings, limits, reference: &reference };
    let routed = match settings.balance {
        Balance::Full => searched_plan(task, BalanceBy::Load),
        Balance::Stable => stable_plan(task, limit(settings)).or_else(|why_not| {
            let mut searched = searched_plan(task, BalanceBy::ExpectedLoad)?;
            let remark = format!("a failed link may bring another order of the links ({why_not})");
            searched.plan.remarks.push(remark);
            Ok(searched)
        }),
        Balance::Auto => stable_or_searched(task),
    };
    routed.map(|routed| routed.plan)
}

/// Stable tables unless searched ones are better by more than [`STABILITY`].
///
/// On large fabrics there is no search where stable tables are as good as P-SSSP.
fn stable_or_searched(task: Task<'_>) -> Result<Priced, EngineError> {
    let stable = stable_plan(task, limit(task.settings));
    let large = Budget::pass(task.fabric) > LEAST_WORK;
    if large && stable.as_ref().is_ok_and(|stable| stable.price <= STABILITY) {
        return stable.map_err(|_| unreachable!("it is there"));
    }
    let searched = searched_plan(task, BalanceBy::Load);
    let why_not = match (stable, &searched) {
        (Ok(stable), Err(_)) => return Ok(stable),
        (Ok(stable), Ok(searched)) if stable.price <= searched.price + STABILITY => return Ok(stable),
        (Ok(stable), Ok(searched)) => {
            format!("it would cost {:.1} % of the bandwidth", 100.0 * (stable.price - searched.price))
        }
        (Err(why_not), _) => why_not,
    };
    let mut searched = searched?;
    let remark = format!("balanced anew whenever the fabric changes (balance stable: {why_not})");
    searched.plan.remarks.push(remark);
    Ok(searched)
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
    let reference = Reference::new(fabric, hops);
    let task = Task { fabric, hops, settings: &Settings::default(), limits, reference: &reference };
    search::search(task).candidates.iter().map(candidates::Candidate::name).collect()
}
