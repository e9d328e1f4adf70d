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
use self::objective::Objective;
use self::searched::searched_plan;
use self::stable::{route_stable, stable_plan};
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
}

/// A plan with its price by the [objective](objective).
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
    let task = Task { fabric, hops, settings, limits };
    let detours = limit(settings);
    let stable = || match settings.balance {
        Balance::Full => Err("not asked for".to_owned()),
        Balance::Stable | Balance::Auto => route_stable(task, detours),
    };
    let (objective, stable) = rayon::join(|| Objective::new(task), stable);
    let stable = stable.and_then(|stable| stable_plan(&objective, stable, detours));
    let routed = match settings.balance {
        Balance::Full => searched_plan(&objective, BalanceBy::Load),
        Balance::Stable => stable.or_else(|why_not| {
            let searched = searched_plan(&objective, BalanceBy::ExpectedLoad)?;
            Ok(searched.because(format!("a failed link may bring another order of the links ({why_not})")))
        }),
        Balance::Auto => stable_or_searched(&objective, stable),
    };
    routed.map(|routed| routed.plan)
}

/// Stable tables unless searched ones are better by more than [`STABILITY`].
///
/// On large fabrics there is no search where stable tables are as good as P-SSSP.
fn stable_or_searched(
    objective: &Objective<'_>,
    stable: Result<Priced, String>,
) -> Result<Priced, EngineError> {
    let large = Budget::pass(objective.task.fabric) > LEAST_WORK;
    let why_not = match stable {
        Ok(stable) if large && stable.price <= 0.0 => return Ok(stable),
        Ok(stable) => match searched_plan(objective, BalanceBy::Load) {
            Ok(searched) if searched.price + STABILITY < stable.price => {
                let loss = 100.0 * (stable.price - searched.price);
                return Ok(searched.because(format!("{ANEW} (balance stable: worth {loss:.1} % less)")));
            }
            _ => return Ok(stable),
        },
        Err(why_not) => why_not,
    };
    Ok(searched_plan(objective, BalanceBy::Load)?.because(format!("{ANEW} (balance stable: {why_not})")))
}

/// What is remarked of searched tables.
const ANEW: &str = "balanced anew whenever the fabric changes";

impl Priced {
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
    let task = Task { fabric, hops, settings: &Settings::default(), limits };
    search::search(task).candidates.iter().map(candidates::Candidate::name).collect()
}
