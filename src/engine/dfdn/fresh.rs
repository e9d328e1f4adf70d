//! Tables that are balanced anew whenever the fabric changes, by the best rule that a search finds.

use rayon::prelude::*;

use super::search::{COMPARED, Found, Search, search, worth};
use crate::engine::build::find_trees;
use crate::engine::{Balance, EngineError, Plan, Prefer, Settings};
use crate::evaluate::quick_bisection as bisection;
use crate::fabric::{Fabric, Sl};
use crate::lanes::{Lanes, LanesError, Offer, df_dn, ordered};
use crate::multicast::{KnownOrder, McastTrees};
use crate::ordering::{Rule, Tree};
use crate::routing::{Forwarding, Hops, Lookahead, NoLegalPath, ranked_sssp, sssp};
use crate::tables::{Lft, PathSl};

/// How much larger than its limit the share of detours has to look on the sample before one SL is
/// not even tried.
const HOPELESS: f64 = 2.0;

/// Share of the effective bisection bandwidth that a tree for multicast may cost before other orders are looked at.
const TREE_LOSS: f64 = 0.02;

/// The largest share of the adapter pairs that one SL may send on detours.
pub(super) fn limit(settings: &Settings) -> f64 {
    match (settings.prefer, settings.max_nonminimal) {
        (Prefer::Minimal, _) => 0.0,
        (_, Some(limit)) => limit,
        (Prefer::Default, None) => Settings::MAX_NONMINIMAL,
        (Prefer::OneSl, None) => 1.0,
    }
}

/// In the order of preference, the first that the settings allow and the lanes suffice for:
///
/// 1. one SL with all adapter pairs minimal, on as few VLs as lose nothing;
/// 2. one SL with detours for a limited share of the pairs;
/// 3. several SLs with all adapter pairs minimal;
/// 4. DF-DN as printed;
/// 5. one SL with detours without limit, where no limit was stated.
///
/// Each of them needs a multicast tree for SL 0. Where the first three have none, the rule is changed so
/// that the paths of a tree are legal. Only where nothing of that has one, tables without come out: with
/// all adapter pairs minimal, or within a limit that was stated.
///
/// - `balance`: how the ways are chosen under the rule.
///
/// # Errors
/// [`EngineError::Lanes`] with what the third would have needed.
pub(super) fn fresh(
    fabric: &Fabric,
    hops: &Hops,
    settings: &Settings,
    offer: Offer,
    balance: Balance,
) -> Result<Plan, EngineError> {
    let limit = limit(settings);
    let Search { found, compare } = search(fabric, hops, offer.vls, settings.search_effort);
    let mut rejected = None;
    let mut treeless = None;
    if found[0].probe.broken <= HOPELESS * limit {
        let by = |found: &Found| OneSl::by(found, fabric, hops, balance);
        let (some, others) = found.split_at(compare.min(found.len()));
        let mut ones: Vec<OneSl> = some.par_iter().map(by).collect();
        if let [only] = &*ones
            && found[0].probe.broken == 0.0
            && (only.ranked.detours > 0 || only.found.rule != found[0].rule)
        {
            // The search promised more.
            ones.par_extend(others.par_iter().take(COMPARED - 1).map(by));
        }
        let mut one = best_of(fabric, hops, ones);
        let slow = settings.prefer == Prefer::Default && one.bandwidth < 1.0 - settings.max_loss;
        if one.ranked.nonminimal_share() <= limit && !slow {
            let (plan, without) = one.plan(fabric, hops, offer);
            if serves_multicast(&plan) {
                return Ok(plan);
            }
            let rule = without.rule.clone();
            one = OneSl::along_tree(without, fabric, hops, balance);
            let ebb = |lft: &Lft| bisection(fabric, lft);
            let (best, along) = rayon::join(|| ebb(&plan.lft), || ebb(&one.ranked.lft));
            if along < (1.0 - TREE_LOSS) * best {
                // The tree draws traffic together. An order that has one as it is may do better.
                let others = found.iter().filter(|found| found.rule != rule).take(COMPARED);
                let plans = others.map(by).filter(|other| other.ranked.nonminimal_share() <= limit);
                let plans = plans.map(|other| other.plan(fabric, hops, offer).0).filter(serves_multicast);
                let judged = plans.map(|plan| (ebb(&plan.lft), plan)).filter(|&(ebb, _)| ebb > along);
                if let Some((_, plan)) = judged.max_by(|(a, _), (b, _)| a.total_cmp(b)) {
                    return Ok(plan);
                }
            }
            treeless = Some(plan);
            if one.ranked.nonminimal_share() <= limit {
                return Ok(one.plan(fabric, hops, offer).0);
            }
        }
        rejected = Some(one);
    }
    let several = |along_tree| minimal(fabric, hops, balance, offer, &found, compare, along_tree);
    let mut treeless = match several(false) {
        Ok(plan) if serves_multicast(&plan) => return Ok(plan),
        Ok(plan) => {
            if let Ok(along) = several(true) {
                return Ok(along);
            }
            Ok(treeless.unwrap_or(plan))
        }
        Err(needed) => treeless.ok_or(needed),
    };
    if treeless.is_err() {
        let lft = sssp(fabric, hops);
        if let Ok(lanes) = df_dn(fabric, &lft, offer) {
            let mut plan = plan(lanes, lft, "DF-DN: one VL more at each hop".to_owned(), None);
            find_trees(fabric, hops, &mut plan, offer);
            if serves_multicast(&plan) {
                return Ok(plan);
            }
            treeless = Ok(plan);
        }
    }
    if settings.max_nonminimal.is_none() && (treeless.is_err() || settings.prefer != Prefer::Minimal) {
        let one = rejected.unwrap_or_else(|| OneSl::by(&found[0], fabric, hops, balance));
        let (plan, found) = one.plan(fabric, hops, offer);
        if serves_multicast(&plan) {
            return Ok(plan);
        }
        return Ok(OneSl::along_tree(found, fabric, hops, balance).plan(fabric, hops, offer).0);
    }
    treeless.map_err(|source| EngineError::Lanes { engine: "dfdn", source })
}

/// A routing on one SL.
struct OneSl {
    found: Found,
    ranked: Forwarding,
    /// What is to be expected in relation to P-SSSP without a rule; 1 where that was not found out.
    bandwidth: f64,
}

impl OneSl {
    /// A routing by a rule, which may have to be changed for that.
    fn by(found: &Found, fabric: &Fabric, hops: &Hops, balance: Balance) -> Self {
        let mut found = found.clone();
        let ranked = found.one_sl(fabric, hops, balance);
        Self { found, ranked, bandwidth: 1.0 }
    }

    /// The tables, and what they were made by.
    fn plan(self, fabric: &Fabric, hops: &Hops, offer: Offer) -> (Plan, Found) {
        let Self { found, ranked, .. } = self;
        (one_sl(fabric, hops, offer, (&found.rule, &found.name, &found.tree), ranked), found)
    }

    /// A routing with the paths of a tree legal under the rule, so that multicast may take it.
    fn along_tree(mut found: Found, fabric: &Fabric, hops: &Hops, balance: Balance) -> Self {
        let ranked = found.along_tree(fabric, hops, balance);
        Self { found, ranked, bandwidth: 1.0 }
    }
}

/// Of some routings of a fabric the one that is worth most.
fn best_of(fabric: &Fabric, hops: &Hops, mut ones: Vec<OneSl>) -> OneSl {
    if ones.len() > 1 {
        let plain =
            ranked_sssp(fabric, hops, &Rule::Any, Lookahead::Every, NoLegalPath::Break).bandwidth(fabric);
        ones.par_iter_mut().for_each(|one| one.bandwidth = one.ranked.bandwidth(fabric) / plain);
    }
    let worth = |one: &OneSl| worth(one.ranked.nonminimal_share(), one.bandwidth, &one.found.rule);
    ones.into_iter().min_by(|a, b| worth(a).total_cmp(&worth(b))).expect("there is a rule")
}

/// Tables for one SL, with multicast trees.
///
/// - `by`: the rule, the name of its order, and a tree whose paths may be legal under it.
pub(super) fn one_sl(
    fabric: &Fabric,
    hops: &Hops,
    offer: Offer,
    by: (&Rule, &str, &Tree),
    ranked: Forwarding,
) -> Plan {
    let (rule, name, tree) = by;
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
    let mut plan = plan(lanes, ranked.lft, remark, known(rule, tree));
    find_trees(fabric, hops, &mut plan, offer);
    plan
}

fn known(rule: &Rule, tree: &Tree) -> Option<KnownOrder> {
    rule.virtual_channel_order().map(|lanes| KnownOrder { lanes, tree: tree.clone() })
}

/// Whether there is a multicast tree for groups that nobody configured.
pub(super) fn serves_multicast(plan: &Plan) -> bool {
    plan.trees.as_ref().is_some_and(McastTrees::serve_default)
}

/// Several SLs over one of the orders that were found, the one that takes the fewest SLs; its labels
/// are those of SL 0. With multicast trees.
///
/// - `along_tree`: whether the orders are to be changed so that the paths of a tree are legal.
fn minimal(
    fabric: &Fabric,
    hops: &Hops,
    balance: Balance,
    offer: Offer,
    found: &[Found],
    compare: usize,
    along_tree: bool,
) -> Result<Plan, LanesError> {
    let rules: Vec<&Found> =
        found.iter().filter(|f| !matches!(f.rule, Rule::OneVl(_) | Rule::Any)).take(compare).collect();
    let tried: Vec<Result<(Lanes, Lft, Found), LanesError>> = rules
        .into_par_iter()
        .map(|found| {
            let mut found = found.clone();
            if along_tree {
                found.with_tree(fabric, hops);
            }
            let ranked = balance.route(fabric, hops, &found.rule, Lookahead::LastOption, NoLegalPath::Break);
            let lanes = ordered(fabric, &found.rule, &ranked.lft, &ranked.broken, offer)?;
            Ok((lanes, ranked.lft, found))
        })
        .collect();
    let mut least: Result<(Lanes, Lft, Found), LanesError> =
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
    let mut plan = plan(lanes, lft, remark, known(&found.rule, &found.tree));
    find_trees(fabric, hops, &mut plan, offer);
    Ok(plan)
}

fn plan(lanes: Lanes, lft: Lft, remark: String, known: Option<KnownOrder>) -> Plan {
    let mut remarks = vec![remark];
    if let PathSl::Any(_) = lanes.path_sl {
        let text = "one SL suffices: no host has to query PathRecords, every SL is safe, in both directions";
        remarks.push(text.to_owned());
    }
    Plan { lft, sl2vl: lanes.sl2vl, path_sl: lanes.path_sl, vls: lanes.vls, remarks, known, trees: None }
}
