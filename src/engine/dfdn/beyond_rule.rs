//! Tables with one SL whose detours are made shortest, and whose load is levelled, as far as the dependencies of packets
//! allow it.

use super::Priced;
use super::build::one_sl;
use super::candidates::{BalanceBy, Candidate, Refinement};
use super::objective::{Measured, Objective};
use super::tuning::{
    LEVEL_LOOKS, LEVEL_WORK, ONE_SL_VLS, STRAIGHTEN_EACH, STRAIGHTEN_LEAST, STRAIGHTEN_WORK, VL,
};
use crate::fabric::{Fabric, Sl};
use crate::multicast::McastTrees;
use crate::ordering::{Labels, VirtualChannelOrder};
use crate::routing::{Ascent, Effort, Forwarding, refit};
use crate::tables::Sl2Vl;

/// Entries (LIDs times switches) up to which paths change, as one thread looks at all.
const MOST: usize = 10_000_000;

/// As [`one_sl`], but paths go beyond the rule where that is better by the objective: on as many VLs, or on one more.
///
/// Cost: nothing more where nothing is [worth trying](effort). Else that of [`refit`] and of a
/// [measure](Objective::measure), twice where something is worth trying still and there is one VL more.
pub(super) fn one_sl_beyond_rule(
    objective: &Objective<'_>,
    by: BalanceBy,
    candidate: &Candidate,
    forwarding: Forwarding,
    measured: Measured,
) -> Priced {
    let fabric = objective.task.fabric;
    let start = effort(objective, by, &measured).map(|_| (forwarding.clone(), measured));
    let plain = one_sl(objective, candidate, forwarding, measured, Vec::new(), None);
    let order = candidate.rule.virtual_channel_order();
    let Some(((start, mut measured), order)) = start.zip(order) else { return plain };
    let Some(trees) = plain.plan.trees.clone().filter(McastTrees::serve_default) else { return plain };
    let labels = labels(fabric, &plain.plan.sl2vl);
    let most = objective.task.limits.vls.min(ONE_SL_VLS);
    let mut best = plain;
    // VL 0 is for first channels alone.
    let least = best.plan.vls.max(2);
    for vls in least..=most.min(least + 1) {
        let Some(effort) = effort(objective, by, &measured) else { break };
        let how = How { order: &order, labels: &labels, vls, by, effort, trees: &trees };
        if let Some((found, new)) = how.refitted(objective, candidate, start.clone()) {
            if found.price < best.price {
                (best, measured) = (found, new);
            }
        }
    }
    best
}

/// What is worth trying: what detours cost, and what is lost, is more than a VL. The load gets level on fabrics where that
/// does not take long. With tables that are balanced by the expected load it stays as it is, as a failed link would change
/// many of them. `None` where nothing is worth it, or with more than [`MOST`] entries.
fn effort(objective: &Objective<'_>, by: BalanceBy, measured: &Measured) -> Option<Effort> {
    let fabric = objective.task.fabric;
    let looks = fabric.endports().len() * fabric.channels().len();
    let levels = matches!(by, BalanceBy::Load) && looks <= LEVEL_LOOKS;
    let detours = objective.detours(measured);
    let (effort, gain) = match levels {
        true => (for_all(), detours + objective.lost(measured).max(0.0)),
        false => (for_detours(), detours),
    };
    (is_small_enough(fabric) && gain > VL).then_some(effort)
}

/// Whether tables of a fabric are small enough.
pub(super) fn is_small_enough(fabric: &Fabric) -> bool {
    fabric.num_switches() * fabric.lid_table_len() <= MOST
}

/// For detours alone.
pub(super) fn for_detours() -> Effort {
    Effort { detours: STRAIGHTEN_LEAST, each: STRAIGHTEN_EACH, most: STRAIGHTEN_WORK, load: 0 }
}

/// For detours and the load.
fn for_all() -> Effort {
    Effort { load: LEVEL_WORK, ..for_detours() }
}

/// The label of each turn: the VL after it, alike for all SLs; 1 where first channels share their VL with others.
fn labels(fabric: &Fabric, sl2vl: &Sl2Vl) -> Labels {
    let mut labels = Labels::ones(fabric);
    let channels = fabric.channels();
    for (first, c) in channels.iter() {
        for (second, d) in channels.out(c.to) {
            let turn = labels.turn(first, second);
            labels.by_turn_mut()[turn] = sl2vl.row(c.to, c.in_port, d.out_port).get(Sl(0)).0.max(1);
        }
    }
    labels
}

/// How tables change.
struct How<'a> {
    order: &'a VirtualChannelOrder,
    labels: &'a Labels,
    vls: u8,
    by: BalanceBy,
    effort: Effort,
    trees: &'a McastTrees,
}

impl How<'_> {
    fn refitted(
        &self,
        objective: &Objective<'_>,
        candidate: &Candidate,
        mut forwarding: Forwarding,
    ) -> Option<(Priced, Measured)> {
        let task = objective.task;
        let &Self { order, labels, vls, by, effort, trees } = self;
        let ascent = Ascent { order, labels, vls, trees: &trees.trees };
        let rule = refit(task.fabric, task.hops, ascent, effort, &mut forwarding)?;
        if effort.load > 0 {
            objective.relieve(&rule, by, &mut forwarding);
        }
        let measured = objective.measure(&forwarding);
        // Paths of the tree may be illegal now.
        let candidate =
            Candidate { rule, refinement: Refinement::Fitted, tree_reserved: false, ..candidate.clone() };
        let priced = one_sl(objective, &candidate, forwarding, measured, Vec::new(), Some(trees.clone()));
        Some((priced, measured))
    }
}
