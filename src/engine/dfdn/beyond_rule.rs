//! Tables with one SL whose detours are made shortest, and whose load is levelled, as far as the dependencies of packets
//! allow it.

use rayon::prelude::*;

use super::build::{known_order, one_sl, one_sl_lanes};
use super::candidates::{BalanceBy, Candidate, Refinement};
use super::estimate::Budget;
use super::objective::{Measured, Objective, level_price};
use super::tuning::{
    COMPLETE_WORK, LEVEL_LOOKS, LEVEL_WORK, ONE_SL_VLS, STABLE_LOST, STRAIGHTEN_EACH, STRAIGHTEN_LEAST,
    STRAIGHTEN_WORK, VL,
};
use super::{Priced, limit};
use crate::engine::{Settings, Task};
use crate::fabric::{Fabric, Sl};
use crate::lanes::Lanes;
use crate::multicast::{KnownOrder, McastTrees, given_tree, mcast_trees};
use crate::ordering::{Labels, Rule, VirtualChannelOrder};
use crate::routing::{Ascent, Effort, Forwarding, NoLegalPath, complete, refit};
use crate::tables::{Lft, Sl2Vl};

/// Entries (LIDs times switches) up to which paths change, as one thread looks at all.
const MOST: usize = 10_000_000;

/// A plan with one SL under the rule of a candidate, before paths go beyond it.
pub(super) struct UnderRule<'a> {
    candidate: &'a Candidate,
    pub(super) plan: Priced,
    /// What is [worth trying](worth_trying), what its tables come to, and these.
    start: Option<(Effort, Measured, Forwarding)>,
}

impl<'a> UnderRule<'a> {
    /// - `trees`: for multicast, free of cycles with any paths that obey the rule; `None` to look for some.
    ///
    /// Cost: that of [`one_sl`], and a copy.
    pub(super) fn new(
        objective: &Objective<'_>,
        by: BalanceBy,
        candidate: &'a Candidate,
        forwarding: Forwarding,
        measured: Measured,
        trees: Option<McastTrees>,
    ) -> Self {
        let start = worth_trying(objective, by, candidate, &measured, least_vls(candidate))
            .map(|(effort, _)| (effort, measured, forwarding.clone()));
        let plan = one_sl(objective, candidate, forwarding, measured, Vec::new(), trees);
        Self { candidate, plan, start }
    }

    /// Paths go beyond the rule where that is better by the objective: on as many VLs, or on one more where that may be worth a
    /// VL.
    ///
    /// - `most_bent`: the share of the adapter pairs that may be on detours. With more, tables are of no use.
    ///
    /// Cost: nothing more where nothing is [worth trying](worth_trying). Else that of [`refit`] and of a
    /// [measure](Objective::measure), twice where something is worth trying still and there is one VL more. On large fabrics
    /// both are tried at once.
    pub(super) fn beyond(self, objective: &Objective<'_>, by: BalanceBy, most_bent: f64) -> Priced {
        let Self { candidate, plan: plain, start } = self;
        let fabric = objective.task.fabric;
        let Some((effort, mut measured, start)) = start else { return plain };
        let Some(order) = candidate.rule.virtual_channel_order() else { return plain };
        let Some(trees) = plain.plan.trees.clone().filter(McastTrees::serve_default) else { return plain };
        let effort = Effort { most_bent, ..effort };
        let least = least_vls(candidate);
        let vls = least..=objective.task.limits.vls.min(ONE_SL_VLS).min(least + 1);
        let labels = labels(fabric, &plain.plan.sl2vl);
        let how = How { order: &order, labels: &labels, by, effort, trees: &trees };
        let refitted = |vls| how.refitted(objective, candidate, start.clone(), vls);
        let at_once: Vec<_> = match Budget::searches_are_cheap(fabric) {
            true => Vec::new(),
            false => vls.clone().into_par_iter().map(refitted).collect(),
        };
        let mut at_once = at_once.into_iter();
        let mut best = plain;
        for vls in vls {
            let Some((_, gain)) = worth_trying(objective, by, candidate, &measured, vls) else { break };
            if let Some((found, new)) = at_once.next().unwrap_or_else(|| refitted(vls)) {
                if found.price < best.price {
                    let levelled = if gain > VL { 0.0 } else { best.price - found.price };
                    (best, measured) = (Priced { levelled, ..found }, new);
                }
            }
        }
        best
    }
}

/// Tables under a rule that leaves some pairs without a minimal path: these take paths [beyond](complete) it, on as many VLs or
/// one more, beside a multicast tree that fits with the paths under the rule. Where there is none, the tree of the order serves,
/// and some of its turns get other labels. `None` where that does not succeed; on fabrics that are not small also where more pairs
/// are left than may take detours by default: it has never won there, and takes up to a second.
///
/// Cost: that of routing, of [`mcast_trees`], and of [`complete`], twice at most.
pub(super) fn completed(
    objective: &Objective<'_>,
    by: BalanceBy,
    candidate: &Candidate,
) -> Option<(Candidate, Forwarding, McastTrees)> {
    let task = objective.task;
    let Task { fabric, hops, limits, .. } = task;
    let known = known_order(candidate).filter(|_| is_small_enough(fabric))?;
    let broken = candidate.route(task, by, NoLegalPath::Break);
    let most = limit(task.settings).max(Settings::MAX_NONMINIMAL) * broken.pairs as f64;
    if broken.broken_pairs as f64 > most && !Budget::is_small(fabric) {
        return None;
    }
    let (labels, mut trees) = trees_beside(task, &candidate.rule, &broken.legal(), Some(&known));
    if !trees.serve_default() {
        trees = given_tree(fabric, &candidate.tree().channels_down(fabric), u16::MAX);
    }
    let least = least_vls(candidate);
    let on = |vls| {
        let ascent = Ascent { order: &known.lanes, labels: &labels, vls, trees: &trees.trees };
        complete(fabric, hops, ascent, complete_work(fabric), &broken)
    };
    let either = least..=limits.vls.min(least + 1);
    let found: Vec<(Rule, Forwarding)> = either.into_par_iter().filter_map(on).collect();
    let price = |(rule, forwarding): &(Rule, Forwarding)| level_price(forwarding, rule);
    let (rule, forwarding) = found.into_iter().min_by(|a, b| price(a).total_cmp(&price(b)))?;
    let candidate = Candidate { rule, refinement: Refinement::Fitted, ..candidate.clone() };
    Some((candidate, forwarding, trees))
}

/// Multicast trees beside tables under a rule, and the [labels]: turns that no packet takes may get others for the trees.
///
/// - `known`: the order of the rule, with trees.
///
/// Cost: that of [`mcast_trees`].
pub(super) fn trees_beside(
    Task { fabric, hops, limits, .. }: Task<'_>,
    rule: &Rule,
    lft: &Lft,
    known: Option<&KnownOrder>,
) -> (Labels, McastTrees) {
    let Lanes { mut sl2vl, path_sl, .. } = one_sl_lanes(fabric, rule, limits);
    let trees = mcast_trees(fabric, hops, lft, &mut sl2vl, &path_sl, known);
    (labels(fabric, &sl2vl), trees)
}

/// The work for paths that a rule of grids leaves out, in steps of [`complete`].
pub(super) fn complete_work(fabric: &Fabric) -> u64 {
    COMPLETE_WORK * fabric.num_switches() as u64
}

/// The fewest VLs for paths beyond a rule: VL 0 is for first channels alone.
fn least_vls(candidate: &Candidate) -> u8 {
    candidate.rule.vls().max(2)
}

/// The [effort] on so many VLs. One VL more than the rule has wants to be worth it, and as much again: by shorter detours, or where
/// more bandwidth is lost than [stable tables](STABLE_LOST) may lose.
fn worth_trying(
    objective: &Objective<'_>,
    by: BalanceBy,
    candidate: &Candidate,
    measured: &Measured,
    vls: u8,
) -> Option<(Effort, f64)> {
    let is_worth_a_vl = || objective.detours(measured) > 2.0 * VL || objective.lost(measured) > STABLE_LOST;
    effort(objective, by, measured).filter(|_| vls == candidate.rule.vls() || is_worth_a_vl())
}

/// What is worth trying, and what it may gain at most beside P-SSSP: what detours cost, and what is lost. The load gets level on
/// fabrics where that does not take long, even where nothing is lost. With tables that are balanced by the expected load it
/// stays as it is, as a failed link would change many of them; detours have to cost more than a VL then. `None` where nothing
/// is worth it, or with more than [`MOST`] entries.
fn effort(objective: &Objective<'_>, by: BalanceBy, measured: &Measured) -> Option<(Effort, f64)> {
    let (fabric, levels) = (objective.task.fabric, levels(objective.task, by));
    let detours = objective.detours(measured);
    let (effort, gain) = match levels {
        true => (for_all(), detours + objective.lost(measured).max(0.0)),
        false => (for_detours(), detours),
    };
    (is_small_enough(fabric) && (gain > VL || levels)).then_some((effort, gain))
}

/// Whether the load gets level.
pub(super) fn levels(Task { fabric, .. }: Task<'_>, by: BalanceBy) -> bool {
    let looks = fabric.endports().len() * fabric.channels().len();
    matches!(by, BalanceBy::Load) && looks <= LEVEL_LOOKS
}

/// Whether tables of a fabric are small enough.
pub(super) fn is_small_enough(fabric: &Fabric) -> bool {
    fabric.num_switches() * fabric.lid_table_len() <= MOST
}

/// For detours alone.
pub(super) fn for_detours() -> Effort {
    Effort {
        detours: STRAIGHTEN_LEAST,
        each: STRAIGHTEN_EACH,
        most: STRAIGHTEN_WORK,
        load: 0,
        most_bent: 1.0,
    }
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
        vls: u8,
    ) -> Option<(Priced, Measured)> {
        let task = objective.task;
        let &Self { order, labels, by, effort, trees } = self;
        let ascent = Ascent { order, labels, vls, trees: &trees.trees };
        let rule = refit(task.fabric, task.hops, ascent, effort, &mut forwarding)?;
        let measured = match effort.load {
            0 => objective.measure(&forwarding),
            _ => objective.relieve(&rule, by, &mut forwarding),
        };
        // Paths of the tree may be illegal now.
        let candidate =
            Candidate { rule, refinement: Refinement::Fitted, tree_reserved: false, ..candidate.clone() };
        let priced = one_sl(objective, &candidate, forwarding, measured, Vec::new(), Some(trees.clone()));
        Some((priced, measured))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::dfdn::search::in_dimension_order;
    use crate::engine::dfdn::tests::with_task;
    use crate::topology::{Hypercube, Mesh, fail_links};

    /// Dimension order of a damaged grid, completed: its VLs, the share of the pairs on detours, and whether a multicast tree
    /// fits beside the legal paths without labels of its own.
    fn completed_grid(fabric: &Fabric) -> Option<(u8, f64, bool)> {
        let settings = Settings::default();
        with_task(fabric, &settings, |task| {
            let (objective, candidates) = (Objective::new(task), in_dimension_order(task));
            let plain = candidates.last().unwrap();
            let (candidate, forwarding, trees) = completed(&objective, BalanceBy::Load, plain)?;
            assert!(forwarding.complete && trees.serve_default());
            let broken = plain.route(task, BalanceBy::Load, NoLegalPath::Break);
            assert!(!broken.broken.is_empty());
            let known = known_order(plain).unwrap();
            let (_, plainly) = trees_beside(task, &plain.rule, &broken.legal(), Some(&known));
            Some((candidate.rule.vls(), forwarding.nonminimal_share(), plainly.serve_default()))
        })
        .unwrap()
    }

    #[test]
    fn the_tree_gets_labels_of_its_own_where_none_fits_otherwise() {
        let mesh = Mesh { dims: vec![16, 16], cas: 1 }.build().unwrap();
        let (vls, detours, plainly) = completed_grid(&fail_links(&mesh, 1, 2).unwrap()).unwrap();
        assert!(vls <= 3 && detours < 0.001 && !plainly, "{vls} VLs, {detours}, {plainly}");
    }

    /// Two destinations stand in each other's way, whichever comes first.
    #[test]
    fn a_destination_that_fails_again_has_the_tree() {
        let mesh = Mesh { dims: vec![8, 8, 8], cas: 1 }.build().unwrap();
        let (vls, detours, _) = completed_grid(&fail_links(&mesh, 10, 1).unwrap()).unwrap();
        assert!(vls <= 3 && (0.0005..0.005).contains(&detours), "{vls} VLs, {detours}");
    }

    /// With the destinations in the order of their numbers, some of these find no path.
    #[test]
    fn destinations_that_fail_come_first() {
        let cube = Hypercube { n: 8, cas: 4 }.build().unwrap();
        let (vls, detours, _) = completed_grid(&fail_links(&cube, 20, 1).unwrap()).unwrap();
        assert!(vls <= 3 && detours < 0.001, "{vls} VLs, {detours}");
    }
}
