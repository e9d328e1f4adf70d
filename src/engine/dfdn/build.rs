//! Plans from a candidate and its forwarding tables: with one SL, with several, DF-DN, and P-SSSP in layers.

use super::candidates::Candidate;
use super::objective::{Figures, Measured, Objective, relieve_slow};
use super::{Legal, Priced};
use crate::engine::Task;
use crate::engine::plan::{Parts, Plan};
use crate::fabric::{Fabric, SwitchId};
use crate::lanes::{LaneLimits, Lanes, LanesError, Layered, all_layered, any_sl, df_dn, ordered};
use crate::multicast::{KnownOrder, McastTrees};
use crate::ordering::{Rule, Tree, up_down_rank};
use crate::routing::{Forwarding, sssp_with_load, updn_roots};
use crate::tables::{Lft, PathSl};

/// What is remarked of tables with one SL.
pub(super) const ONE_SL_SUFFICES: &str =
    "one SL suffices: no host has to query PathRecords, every SL is safe, in both directions";

/// One SL for all pairs.
///
/// - `measured`: what the tables come to.
/// - `remarks`: further ones.
/// - `trees`: for multicast; `None` to look for some.
pub(super) fn one_sl(
    objective: &Objective<'_>,
    candidate: &Candidate,
    forwarding: Forwarding,
    measured: Measured,
    remarks: Vec<String>,
    trees: Option<McastTrees>,
) -> Priced {
    let task = objective.task;
    let rule = &candidate.rule;
    let detours = detours_in_words(forwarding.nonminimal_share());
    let how = match rule {
        Rule::OneVl(_) | Rule::Any => "every path ascends in the order",
        Rule::FirstTurnFree(_) => "every path ascends in the order after its first turn",
        Rule::Labelled { .. } => "every path ascends in the order or to a higher VL after its first turn",
        Rule::Ordered { .. } => "every path ascends in an order of links and VLs",
    };
    let vls = rule.vls();
    let lanes_used = if vls == 1 { "1 VL".to_owned() } else { format!("{vls} VLs") };
    let remark = format!("one SL, {lanes_used}, {detours}: {how} ({})", candidate.name());
    let lanes = one_sl_lanes(task.fabric, rule, task.limits);
    let legal = Legal { rule: rule.clone(), tree: candidate.tree().clone() };
    let largest = forwarding.largest_load();
    let multicast = trees.map_or_else(|| Multicast::ToFind(known_order(candidate)), Multicast::Given);
    let priced = plan(objective, (forwarding.lft, measured, largest), lanes, multicast, remark, remarks);
    Priced { legal: Some(legal), ..priced.keepable(objective, Some(candidate), 1, largest) }
}

/// The lanes of a rule that serves all pairs with one SL: any that may be used.
pub(super) fn one_sl_lanes(fabric: &Fabric, rule: &Rule, limits: LaneLimits) -> Lanes {
    Lanes { sl2vl: rule.sl2vl(fabric), path_sl: any_sl(limits), vls: rule.vls(), sls: 1 }
}

/// Several SLs: pairs that violate the rule get SLs of their own, the others SL 0.
///
/// - `measured`: what the tables come to.
pub(super) fn several_sls(
    objective: &Objective<'_>,
    candidate: &Candidate,
    forwarding: Forwarding,
    measured: Measured,
    lanes: Lanes,
) -> Priced {
    let remark = format!(
        "{} SLs, {} VLs, all adapter pairs on shortest paths: every path ascends in the order or to a higher \
         VL after its first turn ({})",
        lanes.sls,
        lanes.vls,
        candidate.name()
    );
    let multicast = Multicast::ToFind(known_order(candidate));
    let largest = forwarding.largest_load();
    plan(objective, (forwarding.lft, measured, largest), lanes, multicast, remark, Vec::new())
}

/// The lanes of [`several_sls`].
///
/// # Errors
/// Those of [`ordered`].
pub(super) fn several_lanes(
    &Objective { task, several, .. }: &Objective<'_>,
    rule: &Rule,
    forwarding: &Forwarding,
) -> Result<Lanes, LanesError> {
    ordered(task.fabric, rule, &forwarding.lft, &forwarding.broken, several)
}

/// P-SSSP with DF-DN as printed. `None` where VLs or SLs do not suffice, and where it costs as much as others: multicast trees
/// take long.
///
/// - `others`: their price.
pub(super) fn df_dn_plan(objective: &Objective<'_>, others: f64) -> Option<Priced> {
    let tables = p_sssp(objective);
    let (lft, measured, _) = &tables;
    let lanes = df_dn(objective.task.fabric, lft, objective.several).ok()?;
    let is_better = objective.price(measured, lanes.vls, lanes.sls) < others;
    let remark = "DF-DN: one VL more at each hop".to_owned();
    is_better.then(|| plan(objective, tables, lanes, Multicast::ToFind(None), remark, Vec::new()))
}

/// P-SSSP on so many VLs that no credit loop closes, an SL for each: see [`all_layered`].
///
/// # Errors
/// Those of [`all_layered`].
pub(super) fn layered_plan(objective: &Objective<'_>) -> Result<Priced, LanesError> {
    let Task { fabric, hops, .. } = objective.task;
    let tables = p_sssp(objective);
    let root = updn_roots(fabric, hops, 1).first().copied().unwrap_or(SwitchId(0));
    let rank = up_down_rank(fabric, root);
    let Layered { lanes, order, .. } = all_layered(fabric, &tables.0, &rank, objective.several)?;
    let remark = format!(
        "{}, all adapter pairs on shortest paths: those of an SL close no cycle",
        lanes_in_words(lanes.sls, lanes.vls)
    );
    let known = KnownOrder { lanes: order, trees: vec![Tree::new(fabric, &rank, root)], suffices: true };
    Ok(plan(objective, tables, lanes, Multicast::ToFind(Some(known)), remark, Vec::new()))
}

/// Tables, what they come to, and the routes on the hottest channel.
type MeasuredTables = (Lft, Measured, u64);

/// The tables of the reference, to all LIDs.
fn p_sssp(&Objective { task, reference, .. }: &Objective<'_>) -> MeasuredTables {
    let mut plain = sssp_with_load(task.fabric, task.hops);
    relieve_slow(task, &mut plain);
    let figures = Figures::of_tables(task.fabric, &plain.lft, 0.0).expect("P-SSSP reaches every adapter");
    (plain.lft, reference.compare(&figures), figures.load)
}

/// The multicast trees of a plan.
pub(super) enum Multicast {
    Given(McastTrees),
    /// By the order in which all paths ascend, if it is known.
    ToFind(Option<KnownOrder>),
}

/// The order of a candidate, with its tree.
pub(super) fn known_order(candidate: &Candidate) -> Option<KnownOrder> {
    let order = candidate.rule.virtual_channel_order()?;
    Some(KnownOrder { lanes: order, trees: vec![candidate.tree().clone()], suffices: false })
}

/// Tables with their multicast trees. With several SLs, later ones may keep to them.
///
/// - `remark`, `more`: what an administrator should know of them.
pub(super) fn plan(
    objective: &Objective<'_>,
    (lft, measured, largest): MeasuredTables,
    lanes: Lanes,
    multicast: Multicast,
    remark: String,
    more: Vec<String>,
) -> Priced {
    let task = objective.task;
    let one_sl = matches!(lanes.path_sl, PathSl::Any(_)).then(|| ONE_SL_SUFFICES.to_owned());
    let remarks = std::iter::once(remark).chain(one_sl).chain(more).collect();
    let sls = lanes.sls;
    let plan = match multicast {
        Multicast::Given(trees) => Plan { trees: Some(trees), ..Plan::without_trees(lft, lanes, remarks) },
        Multicast::ToFind(known) => {
            Plan::new(task.fabric, task.hops, objective.several, Parts { lft, lanes, known, remarks })
        }
    };
    let priced = Priced::new(plan, sls, objective, &measured);
    if sls > 1 { priced.keepable(objective, None, sls, largest) } else { priced }
}

/// - `share`: of the adapter pairs on detours.
pub(super) fn detours_in_words(share: f64) -> String {
    match share {
        0.0 => "all adapter pairs on shortest paths".to_owned(),
        share => format!("{:.2} % of the adapter pairs on detours", 100.0 * share),
    }
}

/// `one SL, 3 VLs`.
pub(super) fn lanes_in_words(sls: u8, vls: u8) -> String {
    let count = |n: u8, what: &str| if n == 1 { format!("one {what}") } else { format!("{n} {what}s") };
    format!("{}, {}", count(sls, "SL"), count(vls, "VL"))
}
