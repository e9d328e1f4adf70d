//! The engine `dfdn`: one SL where that is to be had, else shortest paths with several.
//!
//! See [`ordering`](crate::ordering) for the idea. This file is what is preferred to what.

use super::search::{Found, search};
use super::{EngineError, Plan, Prefer, Settings};
use crate::fabric::{Fabric, Sl};
use crate::lanes::{Lanes, LanesError, Offer, df_dn, ordered};
use crate::ordering::Rule;
use crate::routing::{Hops, Lookahead, Ranked, Stuck, ranked_sssp, sssp};
use crate::tables::{Lft, PathSl};

/// How much larger than its limit the share of detours has to look on the sample before one SL is
/// not even tried.
const HOPELESS: f64 = 2.0;

/// Work for the search, in passes of P-SSSP.
const EFFORT: f64 = 1.0;

/// In the order of preference, the first that the settings allow and the lanes suffice for:
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
    offer: Offer,
    settings: &Settings,
) -> Result<Plan, EngineError> {
    let limit = match (settings.prefer, settings.max_nonminimal) {
        (Prefer::Minimal, _) => 0.0,
        (_, Some(limit)) => limit,
        (Prefer::Default, None) => Settings::MAX_NONMINIMAL,
        (Prefer::OneSl, None) => 1.0,
    };
    let mut found = search(fabric, hops, offer.vls, EFFORT);
    let mut rejected = None;
    if found.probe.broken <= HOPELESS * limit {
        let ranked = found.one_sl(fabric, hops);
        if ranked.nonminimal_share() <= limit {
            return Ok(one_sl(fabric, offer, &found, ranked));
        }
        rejected = Some(ranked);
    }
    let needed = match minimal(fabric, hops, offer, &found) {
        Ok(plan) => return Ok(plan),
        Err(needed) => needed,
    };
    let lft = sssp(fabric, hops);
    if let Ok(lanes) = df_dn(fabric, &lft, offer) {
        return Ok(plan(lanes, lft, "DF-DN: one VL more at each hop".to_owned()));
    }
    if settings.max_nonminimal.is_none() {
        let ranked = rejected.unwrap_or_else(|| found.one_sl(fabric, hops));
        return Ok(one_sl(fabric, offer, &found, ranked));
    }
    Err(EngineError::Lanes { engine: "dfdn", source: needed })
}

fn one_sl(fabric: &Fabric, offer: Offer, found: &Found, ranked: Ranked) -> Plan {
    let all = u16::MAX >> (Sl::COUNT - usize::from(offer.sls));
    let detours = match ranked.detours {
        0 => "all adapter pairs on shortest paths".to_owned(),
        _ => format!("{:.2} % of the adapter pairs on detours", 100.0 * ranked.nonminimal_share()),
    };
    let how = match found.rule {
        Rule::OneVl(_) | Rule::Any => "every path ascends in the order",
        Rule::FirstTurnFree(_) => "every path ascends in the order after its first turn",
        Rule::Labelled { .. } => "every path ascends in the order or to a higher VL after its first turn",
    };
    let vls = found.rule.vls();
    let remark = format!("one SL, {vls} VLs, {detours}: {how} ({})", found.name);
    let lanes = Lanes { sl2vl: found.rule.sl2vl(fabric), path_sl: PathSl::Any(all), vls };
    plan(lanes, ranked.lft, remark)
}

/// Several SLs over the order that was found; its labels are those of SL 0.
fn minimal(fabric: &Fabric, hops: &Hops, offer: Offer, found: &Found) -> Result<Plan, LanesError> {
    if let Rule::OneVl(_) | Rule::Any = found.rule {
        return Err(LanesError::TooFewVls { needed: 2, offered: offer.vls });
    }
    let ranked = ranked_sssp(fabric, hops, &found.rule, Lookahead::LastChance, Stuck::Break);
    let lanes = ordered(fabric, &found.rule, &ranked.lft, &ranked.broken, offer)?;
    let remark = format!(
        "{} VLs, all adapter pairs on shortest paths: every path ascends in the order or to a higher VL ({})",
        lanes.vls, found.name
    );
    Ok(plan(lanes, ranked.lft, remark))
}

fn plan(lanes: Lanes, lft: Lft, remark: String) -> Plan {
    let mut remarks = vec![remark];
    if let PathSl::Any(_) = lanes.path_sl {
        let text = "one SL suffices: no host has to query PathRecords, every SL is safe, in both directions";
        remarks.push(text.to_owned());
    }
    Plan { lft, sl2vl: lanes.sl2vl, path_sl: lanes.path_sl, vls: lanes.vls, remarks }
}
