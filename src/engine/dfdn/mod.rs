//! The engine `dfdn`: one SL where that is to be had, else shortest paths with several.
//!
//! This file is what is preferred to what: tables that last, by a rule of `steady.rs`, or those that `fresh.rs`
//! makes by the best rule of a search. The idea, its proof and what was measured are with
//! [`ordering`](crate::ordering).

use rayon::prelude::*;

mod fresh;
mod search;
mod stable;

use self::fresh::{fresh, limit, one_sl, serves_multicast};
use self::search::{LEAST_WORK, Work, search};
use self::stable::{Steady, steady};
use super::{Balance, EngineError, Plan, Settings};
use crate::evaluate::quick_bisection as bisection;
use crate::fabric::{Fabric, SwitchId};
use crate::lanes::Offer;
use crate::ordering::Dimensions;
use crate::routing::{Forwarding, Hops, has_core_switches};

/// Share of the adapter pairs that tables may send on detours to last, unless it is asked for that they do.
const FEW_DETOURS: f64 = 0.005;
/// Share of the effective bisection bandwidth that they may lose.
const LITTLE_LOSS: f64 = 0.02;
/// VLs that they may take where they are compared with nothing: of a Dragonfly with a link down as many as that.
const FEW_VLS: u8 = 3;
/// Share of the pairs of switches with adapters within two hops of each other from which on a search finds a rule
/// without detours, so that tables that last may have none and no further VL either.
const NEAR: f64 = 2.0 / 3.0;

/// Tables by [`Settings::balance`]: such as last, such as are [fresh](fresh()), or what is better.
///
/// # Errors
/// Those of [`fresh`](fresh()).
pub(super) fn dfdn(
    fabric: &Fabric,
    hops: &Hops,
    settings: &Settings,
    offer: Offer,
) -> Result<Plan, EngineError> {
    match settings.balance {
        Balance::Full => fresh(fabric, hops, settings, offer, Balance::Full),
        Balance::Stable => match lasting(fabric, hops, offer, limit(settings)) {
            Ok(plan) => Ok(plan),
            Err(why_not) => {
                let mut plan = fresh(fabric, hops, settings, offer, Balance::Stable)?;
                plan.remarks.push(format!("a failed link may bring another order of the links ({why_not})"));
                Ok(plan)
            }
        },
        Balance::Auto => auto(fabric, hops, settings, offer),
    }
}

/// Tables that last where that costs next to nothing, else fresh ones.
///
/// Not on grids, where one VL and a better balance are to be had. Where routing takes hundredths of a second
/// both are made, and tables that last must not take several VLs where one does, nor two more than the
/// fresh ones, and have nearly their bandwidth. On larger fabrics they may take three VLs, and one on trees.
fn auto(fabric: &Fabric, hops: &Hops, settings: &Settings, offer: Offer) -> Result<Plan, EngineError> {
    let fresh = || fresh(fabric, hops, settings, offer, Balance::Full);
    let told = |plan: Result<Plan, EngineError>, why_not: &str| {
        let mut plan = plan?;
        plan.remarks.push(format!("balanced anew whenever the fabric changes (balance stable: {why_not})"));
        Ok(plan)
    };
    if Dimensions::find(fabric).is_some() {
        return told(fresh(), "a grid has fewer VLs or more bandwidth so");
    }
    let near = within_two_hops(fabric, hops) > NEAR;
    let detours = if near { 0.0 } else { limit(settings).min(FEW_DETOURS) };
    let compares = Work::pass(fabric) <= LEAST_WORK;
    let (lasting, other) = rayon::join(|| lasting(fabric, hops, offer, detours), || compares.then(fresh));
    match (lasting, other) {
        (Err(why_not), other) => told(other.unwrap_or_else(fresh), &why_not),
        (Ok(plan), Some(Ok(other))) => {
            let most = if near || other.vls == 1 { other.vls } else { other.vls + 1 };
            if plan.vls > most {
                let why_not = format!("{} VLs instead of {}", plan.vls, other.vls);
                return told(Ok(other), &why_not);
            }
            let (kept, best) = rayon::join(|| bisection(fabric, &plan.lft), || bisection(fabric, &other.lft));
            let loss = 1.0 - kept / best;
            if loss > LITTLE_LOSS.min(settings.max_loss) {
                let why_not = format!("{:.1} % less bandwidth", 100.0 * loss);
                return told(Ok(other), &why_not);
            }
            Ok(plan)
        }
        (Ok(plan), Some(Err(_))) => Ok(plan),
        (Ok(plan), None) => {
            let most = if has_core_switches(fabric) { 1 } else { FEW_VLS };
            if plan.vls > most { told(fresh(), &format!("{} VLs", plan.vls)) } else { Ok(plan) }
        }
    }
}

/// Tables of which a failed link changes few: on one SL, by the first rule that is good enough.
///
/// - `limit`: the largest share of the adapter pairs that may take a detour.
///
/// # Errors
/// Why there are none, in words.
fn lasting(fabric: &Fabric, hops: &Hops, offer: Offer, limit: f64) -> Result<Plan, String> {
    let fits = |ranked: &Forwarding| {
        let share = ranked.nonminimal_share();
        if !ranked.complete {
            Err("its rule leaves switches without a way".to_owned())
        } else if share > limit {
            Err(format!("{:.2} % of the adapter pairs on detours", 100.0 * share))
        } else {
            Ok(())
        }
    };
    let mut from = 0;
    while let Some(mut steady) = steady(fabric, hops, offer.vls, from) {
        from = steady.number + 1;
        let ranked = steady.one_sl(fabric, hops, offer.vls, limit);
        if steady.changed {
            continue;
        }
        fits(&ranked)?;
        let plan = steady.plan(fabric, hops, offer, ranked);
        if serves_multicast(&plan) {
            return Ok(plan);
        }
        let ranked = steady.along_tree(fabric, hops);
        fits(&ranked)?;
        return Ok(steady.plan(fabric, hops, offer, ranked));
    }
    Err("no rule lasts".to_owned())
}

impl Steady {
    fn plan(&self, fabric: &Fabric, hops: &Hops, offer: Offer, ranked: Forwarding) -> Plan {
        let mut plan = one_sl(fabric, hops, offer, (&self.rule, &self.name, &self.tree), ranked);
        plan.remarks.push("a failed link changes few tables (balance stable)".to_owned());
        plan
    }
}

/// Share of the pairs of switches with adapters that are at most two hops apart.
fn within_two_hops(fabric: &Fabric, hops: &Hops) -> f64 {
    let with: Vec<SwitchId> = fabric.switch_ids().filter(|&s| fabric.num_adapters_on(s) > 0).collect();
    let near = |&a: &SwitchId| with.iter().filter(|&&b| hops.get(a, b) <= 2).count();
    with.par_iter().map(near).sum::<usize>() as f64 / (with.len() * with.len()).max(1) as f64
}

/// The search alone.
pub(super) fn orders_tried(fabric: &Fabric, hops: &Hops, offer: Offer) -> Vec<String> {
    search(fabric, hops, offer.vls, Settings::default().search_effort)
        .found
        .into_iter()
        .map(|found| found.name)
        .collect()
}
