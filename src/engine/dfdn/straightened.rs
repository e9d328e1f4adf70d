//! Tables with one SL whose detours are made shortest as far as the dependencies of packets allow it.

use super::Priced;
use super::build::one_sl;
use super::candidates::{Candidate, Refinement};
use super::objective::{Measured, Objective};
use super::tuning::{DETOURS, ONE_SL_VLS, STRAIGHTEN_EACH, STRAIGHTEN_LEAST, STRAIGHTEN_WORK, VL};
use crate::fabric::{Fabric, Sl};
use crate::multicast::McastTrees;
use crate::ordering::{Labels, VirtualChannelOrder};
use crate::routing::{Bent, Forwarding, straighten};
use crate::tables::Sl2Vl;

/// Entries (LIDs times switches) up to which detours are made shortest, as one thread looks at all.
const MOST: usize = 10_000_000;

/// As [`one_sl`], but detours become shortest where that is better by the objective: on as many VLs, or on one more.
///
/// Cost: nothing more where all detours are worth less than a VL, or with more than [`MOST`] entries. Else that of
/// [`straighten`], twice where some are left and there is one VL more, and of a [measure](Objective::measure) for each.
pub(super) fn straight_one_sl(
    objective: &Objective<'_>,
    candidate: &Candidate,
    forwarding: Forwarding,
    measured: Measured,
    remarks: Vec<String>,
) -> Priced {
    let fabric = objective.task.fabric;
    let bent = (worthwhile(measured.detours) && can_be_straightened(fabric)).then(|| forwarding.clone());
    let plain = one_sl(objective, candidate, forwarding, measured, remarks.clone(), None);
    let Some((bent, order)) = bent.zip(candidate.rule.virtual_channel_order()) else { return plain };
    let Some(trees) = plain.plan.trees.clone().filter(McastTrees::serve_default) else { return plain };
    let labels = labels(fabric, &plain.plan.sl2vl);
    let most = objective.task.limits.vls.min(ONE_SL_VLS);
    let mut best = plain;
    // VL 0 is for first channels alone.
    let least = best.plan.vls.max(2);
    for vls in least..=most.min(best.plan.vls + 1) {
        if !worthwhile(best.detours) {
            break;
        }
        let how = How { order: &order, labels: &labels, vls, trees: &trees, remarks: &remarks };
        if let Some(found) = how.straightened(objective, candidate, bent.clone()) {
            if found.price < best.price {
                best = found;
            }
        }
    }
    best
}

/// Whether tables of a fabric are small enough.
pub(super) fn can_be_straightened(fabric: &Fabric) -> bool {
    fabric.num_switches() * fabric.lid_table_len() <= MOST
}

/// Tables under a rule with these labels, and their trees.
pub(super) fn bent<'a>(
    (order, labels, vls): (&'a VirtualChannelOrder, &'a Labels, u8),
    trees: &'a McastTrees,
) -> Bent<'a> {
    let (budget, each, most) = (STRAIGHTEN_LEAST, STRAIGHTEN_EACH, STRAIGHTEN_WORK);
    Bent { order, labels, vls, trees: &trees.trees, budget, each, most }
}

/// Whether this share of the adapter pairs on detours is worth a VL.
fn worthwhile(detours: f64) -> bool {
    DETOURS * detours > VL
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

/// How tables are straightened.
struct How<'a> {
    order: &'a VirtualChannelOrder,
    labels: &'a Labels,
    vls: u8,
    trees: &'a McastTrees,
    remarks: &'a [String],
}

impl How<'_> {
    fn straightened(
        &self,
        objective: &Objective<'_>,
        candidate: &Candidate,
        mut forwarding: Forwarding,
    ) -> Option<Priced> {
        let task = objective.task;
        let &Self { order, labels, vls, trees, remarks } = self;
        let rule = straighten(task.fabric, task.hops, bent((order, labels, vls), trees), &mut forwarding)?;
        let measured = objective.measure(&forwarding);
        // Paths of the tree may be illegal now.
        let candidate = Candidate {
            rule,
            refinement: Refinement::Straightened,
            tree_reserved: false,
            ..candidate.clone()
        };
        Some(one_sl(objective, &candidate, forwarding, measured, remarks.to_vec(), Some(trees.clone())))
    }
}
