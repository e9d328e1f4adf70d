//! Adapters with several LIDs: base LIDs as with one LID, further LIDs in layers of their own.

use super::keepable::Keepable;
use super::objective::Objective;
use super::tuning::KEPT;
use super::{Legal, Priced, balanced};
use crate::engine::plan::{Parts, Plan};
use crate::engine::{EngineError, Layers, Lineage, Prefer, Task};
use crate::fabric::{Fabric, FabricBuilder, Lmc};
use crate::lanes::Lanes;
use crate::multicast::KnownOrder;
use crate::ordering::Rule;
use crate::routing::{Stretch, has_core_switches, layered};
use crate::tables::PathSl;

/// Routes to the base LIDs as if each adapter had one LID, and to further LIDs by [`layered`] under the same rule.
///
/// Under [`Rule::OneVl`] a grid has hardly more than one legal path for each pair. Outside of trees the layers take a
/// second VL then: with the first turn of a path free, more paths are legal, and those of the base LIDs stay legal.
///
/// After a change of the fabric only lost paths move, of all LIDs, where the base LIDs lose at most [`KEPT`] of the bandwidth by
/// that. Otherwise tables with layers are made anew.
///
/// Where paths need several SLs or are those of a torus, or layers would leave multicast without a tree, all LIDs are
/// balanced alike, over shortest paths as far as the base LIDs have them.
///
/// # Errors
/// Those of [`balanced`].
pub(super) fn with_layers(task: Task<'_>) -> Result<Plan, EngineError> {
    let fabric = task.fabric;
    let Some(bases) = base_lids_only(fabric) else { return Ok(balanced(task)?.plan) };
    let judged = Task { fabric: &bases, baseline: None, ..task };
    let mended = task.baseline.and_then(|baseline| {
        let mended = baseline.mend(judged, &|| Objective::new(judged), fabric)?;
        Some((baseline.matched_by(&mended), mended))
    });
    let mended = match mended {
        Some((true, mended)) => return Ok(mended.plan),
        mended => mended.map(|(_, mended)| mended),
    };
    let base = balanced(judged)?;
    if let Some(mended) = mended.filter(|mended| mended.lost <= base.lost + KEPT) {
        return Ok(mended.plan);
    }
    let why_not = match &base.legal {
        None if matches!(base.plan.path_sl, PathSl::Any(_)) => "paths are those of a torus",
        None => "paths need several SLs",
        Some(legal) => match plan(task, &base, legal) {
            Some(plan) => return Ok(plan),
            None => "multicast would have no tree beside them",
        },
    };
    let mut plan = balanced(task)?.plan;
    plan.remarks.push(format!("no layers for further LIDs, all LIDs are balanced alike ({why_not})"));
    Ok(plan)
}

/// The same fabric with one LID for each end port; `None` where that is so already.
fn base_lids_only(fabric: &Fabric) -> Option<Fabric> {
    let several = fabric.adapters().any(|(_, end)| end.lmc.lids() > 1);
    several.then(|| {
        let mut builder = FabricBuilder::from_fabric(fabric);
        for end in fabric.endports() {
            builder.node_mut(end.node).ports[end.port.index()].lmc = Lmc::default();
        }
        builder.finish(Lmc::default()).expect("a fabric with fewer LIDs is a fabric")
    })
}

/// The plan with layers; `None` where multicast had a tree and has none beside them.
fn plan(task: Task<'_>, base: &Priced, legal: &Legal) -> Option<Plan> {
    let Task { fabric, hops, settings, limits, .. } = task;
    let tree = has_core_switches(fabric);
    let diverse = match settings.layers {
        Layers::Auto => settings.prefer != Prefer::Minimal && !tree,
        Layers::Minimal => false,
        Layers::Diverse => true,
    };
    let rule = match &legal.rule {
        Rule::OneVl(rank) if !tree && limits.vls > 1 => Rule::FirstTurnFree(rank.clone()),
        rule => rule.clone(),
    };
    let stretch = if diverse { Stretch::OneHop } else { Stretch::None };
    let lft = layered(fabric, hops, &rule, stretch, &base.plan.lft);
    let mut remarks = base.plan.remarks.clone();
    let second = if rule.vls() > legal.rule.vls() { ", on a second VL" } else { "" };
    remarks.push(match stretch {
        Stretch::None => format!("further LIDs have shortest paths with few links in common{second} (layers minimal)"),
        Stretch::OneHop => format!(
            "further LIDs have paths with few links in common, at most one hop longer, or of four hops between adjacent \
             switches{second} (layers diverse)"
        ),
    });
    let lanes =
        Lanes { sl2vl: rule.sl2vl(fabric), path_sl: base.plan.path_sl.clone(), vls: rule.vls(), sls: 1 };
    let known = rule.virtual_channel_order().map(|lanes| KnownOrder {
        lanes,
        trees: vec![legal.tree.clone()],
        suffices: false,
    });
    let mut plan = match (&rule, &base.plan.trees) {
        // The trees of the base LIDs ascend in its order.
        (Rule::Ordered { .. }, trees @ Some(_)) => {
            Plan { trees: trees.clone(), ..Plan::without_trees(lft, lanes.clone(), remarks) }
        }
        _ => Plan::new(fabric, hops, limits, Parts { lft, lanes: lanes.clone(), known, remarks }),
    };
    if let Lineage::First(kept) = &base.plan.lineage {
        let kept = Keepable { lanes, trees: plan.trees.clone(), ..kept.as_ref().clone() };
        plan.lineage = Lineage::First(Box::new(kept));
    }
    (plan.serves_multicast() || !base.plan.serves_multicast()).then_some(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Baseline, Routed, Settings, route, route_after};
    use crate::evaluate::Multipath;
    use crate::reconfigure;
    use crate::tables::Transition;
    use crate::topology::{Candidates, FatTree, HyperX, SlimFly, fail_links, fail_switches, small_members};
    use crate::verify::verify;

    fn with_lmc(fabric: &Fabric, lmc: u8) -> Fabric {
        fabric.with_lmc(Lmc::new(lmc).expect("an LMC")).expect("enough LIDs")
    }

    /// Whole and damaged members of every family: without links, or without a switch.
    fn whole_and_damaged() -> Vec<(String, Fabric)> {
        let damaged = |(name, whole): (&'static str, Fabric)| {
            let fewer_links = fail_links(&whole, 3, 1).map(|f| (format!("{name}, links down"), f));
            let no_switch = fail_switches(&whole, 1, Candidates::Any, 1);
            let no_switch = no_switch.map(|f| (format!("{name}, a switch down"), f));
            [Ok((name.to_owned(), whole)), fewer_links, no_switch].into_iter().flatten()
        };
        small_members().into_iter().flat_map(damaged).collect()
    }

    /// Whatever the layers and the damage: what can be routed with one LID can be with several. Where one SL suffices, it does
    /// with several LIDs, and base LIDs have the same tables. Only what needs one VL may take a second one, and only what needs
    /// several SLs one SL more.
    #[test]
    fn base_lids_are_routed_as_with_one_lid() {
        let (mut layered, mut not) = (0, 0);
        let all = [Layers::Minimal, Layers::Diverse, Layers::Auto];
        let turns = all.into_iter().flat_map(|layers| [1, 2, 3].map(|lmc| (layers, lmc))).cycle();
        for ((name, f), (layers, lmc)) in whole_and_damaged().into_iter().zip(turns) {
            let Ok(one) = route(&f, &Settings::default()) else { continue };
            let several = with_lmc(&f, lmc);
            let settings = Settings { layers, ..Settings::default() };
            let many = route(&several, &settings)
                .unwrap_or_else(|e| panic!("{name}, LMC {lmc}, layers {layers}: {e}"));
            assert!(verify(&several, &many.routes).is_safe(), "{name}");
            assert!(many.verdict.sls <= one.verdict.sls + u32::from(one.verdict.sls > 1), "{name}");
            if many.routes.remarks.iter().any(|remark| remark.starts_with("no layers")) {
                let in_order = many.routes.remarks.iter().any(|remark| remark.contains("dimension order"));
                assert!(one.verdict.sls > 1 || in_order, "{name}");
                not += 1;
                continue;
            }
            layered += 1;
            for (a, b) in f.endports().iter().zip(several.endports()) {
                assert_eq!(one.routes.lft.to(a.lid), many.routes.lft.to(b.lid), "{name}");
            }
            assert_eq!((many.verdict.sls, one.detours(&f)), (1, many.detours(&several)), "{name}");
            let vls = (one.verdict.vls_all, many.verdict.vls_all);
            assert!(vls.0 == vls.1 || vls == (1, 2), "{name}: {vls:?} VLs");
            if layers == Layers::Minimal && one.verdict.minimal {
                assert!(many.verdict.minimal, "{name}");
            }
        }
        assert!(layered > 40, "{layered} with layers, {not} without");
    }

    /// The way there and back is proven and ends where it began; fewer entries move and drop than in tables made anew.
    #[test]
    fn after_a_failure_only_lost_paths_move_of_all_lids() {
        let settings = Settings::default();
        let slim_fly = SlimFly { q: 5, cas: Some(2) }.build().expect("a Slim Fly");
        let tree = FatTree { k: 4, levels: 3, down: None, cas: None }.build().expect("a fat tree");
        let routed = [slim_fly, tree].map(|f| {
            let f = with_lmc(&f, 2);
            let before = route(&f, &settings).expect("it can be routed");
            (f, before)
        });
        for ((f, before), seed) in routed.iter().flat_map(|routed| [1, 2].map(|seed| (routed, seed))) {
            let baseline = Baseline::new(f, &settings, before).expect("tables with layers are kept to");
            let damaged = fail_links(f, 1, seed).expect("it stays connected");
            let after = route_after(&damaged, &settings, Some(&baseline)).expect("it can be routed");
            assert!(matches!(after.lineage, Lineage::Kept));
            let way = |from: &Fabric, old: &Routed, to: &Fabric, new: &Routed| {
                let change = Transition::between(from, &old.routes, to, &new.routes);
                let planned = reconfigure::plan(to, &change, reconfigure::Options::default());
                assert!(planned.is_proven(), "{}", planned.how);
                (planned.changed_entries, planned.dropped_entries)
            };
            let anew = route(&damaged, &settings).expect("it can be routed");
            let (moved, dropped) = way(f, before, &damaged, &anew);
            for kept in [way(f, before, &damaged, &after), way(&damaged, &after, f, before)] {
                assert!(kept.0 < moved && kept.1 <= dropped, "{kept:?} of {moved}, {dropped}");
            }
            let back = route_after(f, &settings, Some(&baseline)).expect("it can be routed");
            assert!(back.routes.lft == before.routes.lft && back.routes.sl2vl == before.routes.sl2vl);
        }
    }

    /// Were base LIDs balanced by the load of all LIDs, two of four would lose too much: tables are judged by base LIDs.
    #[test]
    fn base_lids_are_balanced_among_each_other_when_paths_are_lost() {
        let settings = Settings::default();
        let f = with_lmc(&SlimFly { q: 5, cas: Some(2) }.build().expect("a Slim Fly"), 2);
        let before = route(&f, &settings).expect("it can be routed");
        let baseline = Baseline::new(&f, &settings, &before).expect("tables with layers are kept to");
        for seed in 1..=4 {
            let damaged = fail_links(&f, 1, seed).expect("it stays connected");
            let after = route_after(&damaged, &settings, Some(&baseline)).expect("it can be routed");
            assert!(matches!(after.lineage, Lineage::Kept), "{seed}");
        }
    }

    /// The shares of the pairs so many hops apart that have at least two, three and four paths without a common link.
    fn apart(f: &Fabric, hops: usize) -> Vec<f64> {
        let routed = route(f, &Settings::default()).expect("it can be routed");
        assert_eq!(routed.verdict.sls, 1);
        let found = Multipath::new(f, &routed.routes).expect("sound tables");
        let class = found.distances.into_iter().find(|class| class.hops == hops).expect("such pairs");
        class.disjoint[1..].to_vec()
    }

    /// A leaf has four switches above it, so four paths are apart, all of them shortest.
    #[test]
    fn a_fat_tree_has_a_top_for_each_lid() {
        let tree = FatTree { k: 8, levels: 3, down: None, cas: None };
        let f = with_lmc(&tree.build().expect("a fat tree"), 2);
        assert_eq!(apart(&f, 4), [1.0; 3]);
        assert_eq!(apart(&f, 2), [1.0; 3]);
    }

    /// Two switches of a Slim Fly that are two hops apart have one shortest path, and two VLs do for four others.
    #[test]
    fn a_slim_fly_has_three_paths_where_it_had_one() {
        let f = with_lmc(&SlimFly { q: 5, cas: Some(2) }.build().expect("a Slim Fly"), 2);
        let shares = apart(&f, 2);
        assert!(shares[0] > 0.98 && shares[1] > 0.88, "{shares:?}");
    }

    /// A HyperX needs one VL. With two LIDs it takes a second one, and where there is none the layers do without.
    #[test]
    fn layers_of_a_grid_take_a_second_vl() {
        let f = with_lmc(&HyperX { dims: vec![4, 4], cas: 2 }.build().expect("a HyperX"), 1);
        let vls = |vls, layers| {
            let settings = Settings { vls, layers, ..Settings::default() };
            let routed = route(&f, &settings).expect("it can be routed");
            (routed.verdict.vls_all, routed.verdict.nonminimal_share > 0.0)
        };
        assert_eq!(vls(None, Layers::Auto), (2, true));
        assert_eq!(vls(None, Layers::Minimal), (2, false));
        assert_eq!(vls(Some(1), Layers::Auto).0, 1);
    }
}
