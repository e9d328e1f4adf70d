//! The engine `dfdn`: one SL where that is to be had, else shortest paths with several.
//!
//! This file is what is preferred to what; the idea, its proof and what was measured are with
//! [`ordering`](crate::ordering).

use rayon::prelude::*;

use super::search::{COMPARED, Found, Search, search, worth};
use super::steady::steady;
use super::{Balance, EngineError, Plan, Prefer, Settings};
use crate::fabric::{Fabric, Sl};
use crate::lanes::{Lanes, LanesError, Offer, df_dn, ordered};
use crate::ordering::Rule;
use crate::routing::{Hops, Lookahead, Ranked, Stuck, ranked_sssp, sssp};
use crate::tables::{Lft, PathSl};

/// How much larger than its limit the share of detours has to look on the sample before one SL is
/// not even tried.
const HOPELESS: f64 = 2.0;

/// In the order of preference, the first that the settings allow and the lanes suffice for; with
/// [`Balance::Stable`] before all of them one SL by the first rule that is good enough (see
/// `steady.rs`):
///
/// 1. one SL with all adapter pairs minimal, on as few VLs as lose nothing;
/// 2. one SL with detours for a limited share of the pairs;
/// 3. several SLs with all adapter pairs minimal;
/// 4. DF-DN as printed;
/// 5. one SL with detours without limit, where no limit was stated.
///
/// # Errors
/// [`EngineError::Lanes`] with what the third would have needed.
pub(super) fn dfdn(
    fabric: &Fabric,
    hops: &Hops,
    settings: &Settings,
    offer: Offer,
) -> Result<Plan, EngineError> {
    let limit = match (settings.prefer, settings.max_nonminimal) {
        (Prefer::Minimal, _) => 0.0,
        (_, Some(limit)) => limit,
        (Prefer::Default, None) => Settings::MAX_NONMINIMAL,
        (Prefer::OneSl, None) => 1.0,
    };
    if settings.balance == Balance::Stable
        && let Some(mut steady) = steady(fabric, hops, offer.vls)
    {
        let ranked = steady.one_sl(fabric, hops, settings.balance, offer.vls, limit);
        if ranked.complete && ranked.nonminimal_share() <= limit {
            return Ok(one_sl(
                fabric,
                offer,
                OneSl { rule: steady.rule, name: steady.name, ranked, bandwidth: 1.0 },
            ));
        }
    }
    let Search { found, compare } = search(fabric, hops, offer.vls, settings.search_effort);
    let mut rejected = None;
    if found[0].probe.broken <= HOPELESS * limit {
        let mut one = best_of(fabric, hops, settings.balance, &found[..compare.min(found.len())]);
        if compare == 1 && found[0].probe.broken == 0.0 && one.ranked.detours > 0 {
            // The sample promised more.
            one = best_of(fabric, hops, settings.balance, &found[..COMPARED.min(found.len())]);
        }
        let slow = settings.prefer == Prefer::Default && one.bandwidth < 1.0 - settings.max_loss;
        if one.ranked.nonminimal_share() <= limit && !slow {
            return Ok(one_sl(fabric, offer, one));
        }
        rejected = Some(one);
    }
    let needed = match minimal(fabric, hops, settings.balance, offer, &found, compare) {
        Ok(plan) => return Ok(plan),
        Err(needed) => needed,
    };
    let lft = sssp(fabric, hops);
    if let Ok(lanes) = df_dn(fabric, &lft, offer) {
        return Ok(plan(lanes, lft, "DF-DN: one VL more at each hop".to_owned()));
    }
    if settings.max_nonminimal.is_none() {
        let one = rejected.unwrap_or_else(|| best_of(fabric, hops, settings.balance, &found[..1]));
        return Ok(one_sl(fabric, offer, one));
    }
    Err(EngineError::Lanes { engine: "dfdn", source: needed })
}

/// The search alone.
pub(super) fn orders_tried(fabric: &Fabric, hops: &Hops, offer: Offer) -> Vec<String> {
    search(fabric, hops, offer.vls, Settings::default().search_effort)
        .found
        .into_iter()
        .map(|found| found.name)
        .collect()
}

/// A routing on one SL.
struct OneSl {
    rule: Rule,
    name: String,
    ranked: Ranked,
    /// What is to be expected in relation to P-SSSP without a rule; 1 where that was not found out.
    bandwidth: f64,
}

/// Routes by each of some rules on one SL and keeps what is worth most.
fn best_of(fabric: &Fabric, hops: &Hops, balance: Balance, rules: &[Found]) -> OneSl {
    let route = |found: &Found| {
        let mut found = found.clone();
        let ranked = found.one_sl(fabric, hops, balance);
        OneSl { rule: found.rule, name: found.name, ranked, bandwidth: 1.0 }
    };
    if let [only] = rules {
        return route(only);
    }
    let plain = ranked_sssp(fabric, hops, &Rule::Any, Lookahead::Every, Stuck::Break).bandwidth(fabric);
    let compared = rules.par_iter().map(|found| {
        let mut one = route(found);
        one.bandwidth = one.ranked.bandwidth(fabric) / plain;
        (worth(one.ranked.nonminimal_share(), one.bandwidth, &one.rule), one)
    });
    let compared: Vec<(f64, OneSl)> = compared.collect();
    let best = compared.into_iter().min_by(|(a, _), (b, _)| a.total_cmp(b));
    best.expect("there is a rule").1
}

fn one_sl(fabric: &Fabric, offer: Offer, one: OneSl) -> Plan {
    let OneSl { rule, name, ranked, .. } = one;
    let all = u16::MAX >> (Sl::COUNT - usize::from(offer.sls));
    let detours = match ranked.detours {
        0 => "all adapter pairs on shortest paths".to_owned(),
        _ => format!("{:.2} % of the adapter pairs on detours", 100.0 * ranked.nonminimal_share()),
    };
    let how = match rule {
        Rule::OneVl(_) | Rule::Any => "every path ascends in the order",
        Rule::FirstTurnFree(_) => "every path ascends in the order after its first turn",
        Rule::Labelled { .. } => "every path ascends in the order or to a higher VL after its first turn",
    };
    let vls = rule.vls();
    let lanes_used = if vls == 1 { "1 VL".to_owned() } else { format!("{vls} VLs") };
    let remark = format!("one SL, {lanes_used}, {detours}: {how} ({name})");
    let lanes = Lanes { sl2vl: rule.sl2vl(fabric), path_sl: PathSl::Any(all), vls, sls: 1 };
    plan(lanes, ranked.lft, remark)
}

/// Several SLs over one of the orders that were found, the one that takes the fewest SLs; its labels
/// are those of SL 0.
fn minimal(
    fabric: &Fabric,
    hops: &Hops,
    balance: Balance,
    offer: Offer,
    found: &[Found],
    compare: usize,
) -> Result<Plan, LanesError> {
    let rules: Vec<&Found> =
        found.iter().filter(|f| !matches!(f.rule, Rule::OneVl(_) | Rule::Any)).take(compare).collect();
    let tried: Vec<Result<(Lanes, Lft, &Found), LanesError>> = rules
        .into_par_iter()
        .map(|found| {
            let ranked = balance.route(fabric, hops, &found.rule, Lookahead::LastChance, Stuck::Break);
            let lanes = ordered(fabric, &found.rule, &ranked.lft, &ranked.broken, offer)?;
            Ok((lanes, ranked.lft, found))
        })
        .collect();
    let mut least: Result<(Lanes, Lft, &Found), LanesError> =
        Err(LanesError::TooFewVls { needed: 2, offered: offer.vls });
    for result in tried {
        least = match (result, least) {
            (Ok(new), Ok(old)) if (new.0.sls, new.0.vls) < (old.0.sls, old.0.vls) => Ok(new),
            (Ok(new), Err(_)) => Ok(new),
            (Err(new), Err(LanesError::TooFewVls { needed: 2, .. })) => Err(new),
            (_, old) => old,
        };
    }
    let (lanes, lft, found) = least?;
    let remark = format!(
        "{} SLs, {} VLs, all adapter pairs on shortest paths: every path ascends in the order or to a higher \
         VL after its first turn ({})",
        lanes.sls, lanes.vls, found.name
    );
    Ok(plan(lanes, lft, remark))
}

fn plan(lanes: Lanes, lft: Lft, remark: String) -> Plan {
    let mut remarks = vec![remark];
    if let PathSl::Any(_) = lanes.path_sl {
        let text = "one SL suffices: no host has to query PathRecords, every SL is safe, in both directions";
        remarks.push(text.to_owned());
    }
    Plan { lft, sl2vl: lanes.sl2vl, path_sl: lanes.path_sl, vls: lanes.vls, remarks }
}
