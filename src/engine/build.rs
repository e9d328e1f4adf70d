//! Multicast trees for what an engine computed.

use super::Plan;
use crate::fabric::{Fabric, PortNum, Sl, SwitchId, Vl};
use crate::lanes::Offer;
use crate::multicast::{KnownOrder, McastTrees, mcast_trees};
use crate::ordering::{Tree, up_down_rank};
use crate::routing::Hops;
use crate::tables::{Classes, PathSl, Sl2Vl, SlVlRow};

/// Finds trees for a plan that has none yet. Where SL 0, the SL of groups that nobody configured, gets
/// none although unicast has several SLs, and one more may be given out, SL 0 is left to multicast:
/// unicast takes the SLs from 1 on.
pub(super) fn find_trees(fabric: &Fabric, hops: &Hops, plan: &mut Plan, offer: Offer) {
    if plan.trees.is_some() {
        return;
    }
    let trees = search(fabric, hops, plan);
    if !trees.serve_default()
        && let Some(apart) = sl_zero_apart(fabric, hops, plan, offer)
    {
        *plan = apart;
    } else {
        plan.trees = Some(trees);
    }
}

fn search(fabric: &Fabric, hops: &Hops, plan: &mut Plan) -> McastTrees {
    mcast_trees(fabric, hops, &plan.lft, &mut plan.sl2vl, &plan.path_sl, plan.known.as_ref())
}

/// The plan with SL 0 for multicast alone, and a tree for it: on VL 0, or on a VL of its own. In all
/// lanes whose turns have VLs from 1 on no packet waits for VL 0 between switches, so no tree on it
/// can close a circle.
fn sl_zero_apart(fabric: &Fabric, hops: &Hops, plan: &Plan, offer: Offer) -> Option<Plan> {
    let PathSl::BySwitch(path_sl) = &plan.path_sl else { return None };
    let sls = path_sl.iter().copied().max().unwrap_or(0) + 1;
    if sls >= offer.sls {
        return None;
    }
    let middle = fabric.switch_ids().min_by_key(|&s| (hops.row(s).iter().max(), s)).unwrap_or(SwitchId(0));
    let around = up_down_rank(fabric, middle);
    let tree = Tree::new(fabric, &around, middle);
    let own = Some(plan.vls).filter(|&vl| vl < offer.vls);
    [Some(0), own].into_iter().flatten().find_map(|vl| {
        let known = plan.known.as_ref().filter(|_| vl == 0);
        let mut apart = Plan {
            lft: plan.lft.clone(),
            sl2vl: moved_up(fabric, &plan.sl2vl, sls, Vl(vl)),
            path_sl: PathSl::BySwitch(path_sl.iter().map(|sl| sl + 1).collect()),
            vls: plan.vls.max(vl + 1),
            remarks: plan.remarks.clone(),
            known: known.map(|known| KnownOrder {
                lanes: known.lanes.with_lowest(around.clone()),
                tree: tree.clone(),
            }),
            trees: None,
        };
        let trees = search(fabric, hops, &mut apart);
        if !trees.serve_default() {
            return None;
        }
        apart.trees = Some(trees);
        apart.remarks.push(format!("SL 0 is for multicast alone, paths have SLs 1 to {sls}"));
        Some(apart)
    })
}

/// The rows with each of the first `sls` SLs one higher, and all others on one VL between switches.
fn moved_up(fabric: &Fabric, sl2vl: &Sl2Vl, sls: u8, vl: Vl) -> Sl2Vl {
    let mut moved = sl2vl.clone();
    for s in fabric.switch_ids() {
        for out in (0..sl2vl.ports_of(s)).map(|port| PortNum(port as u8)) {
            let other = if fabric.channels().at_port(s, out).is_some() { vl } else { Vl(0) };
            for inp in (0..sl2vl.ports_of(s)).map(|port| PortNum(port as u8)) {
                let row = sl2vl.row(s, inp, out);
                let own = |sl: u8| if (1..=sls).contains(&sl) { row.get(Sl(sl - 1)) } else { other };
                moved.set(s, inp, out, SlVlRow::from_vls(std::array::from_fn(|sl| own(sl as u8))));
            }
        }
    }
    moved
}

/// Trees for lanes that every class of service, and every way of it, has a copy of: a tree serves the
/// SLs that stand for those that it served. The copies have no VL in common, so what is free of circles
/// in one is in all.
///
/// - `any`: the SLs before that served every pair, if there were such: the lowest stands for all.
pub(super) fn divided(trees: McastTrees, classes: Classes, any: Option<u16>) -> McastTrees {
    let own = |sl: u8| any.map_or(classes.block_of(Sl(sl)).1, |set| set.trailing_zeros() as u8);
    let moved = |sls: u16| {
        (0..Sl::COUNT as u8).filter(|&sl| sls & 1 << own(sl) != 0).fold(0, |all, sl| all | 1 << sl)
    };
    let McastTrees { mut trees, unserved } = trees;
    for tree in &mut trees {
        tree.sls = tree.sls.map(moved);
    }
    trees.retain(|tree| tree.sls != Some(0));
    McastTrees { trees, unserved: moved(unserved) }
}

/// What the trees serve, in words. They are given up where not even SL 0 has one: then OpenSM's own trees
/// remain.
pub(super) fn in_words(trees: &mut McastTrees) -> String {
    if !trees.serve_default() {
        trees.trees.clear();
        return "no spanning tree for multicast is free of credit loops with these paths: multicast goes by OpenSM's \
                own trees and is not part of the proof"
            .to_owned();
    }
    let numbers: Vec<String> =
        (0..Sl::COUNT).filter(|sl| trees.unserved & 1 << sl != 0).map(|sl| sl.to_string()).collect();
    match (trees.trees.len(), numbers.len()) {
        (1, 0) => "one multicast tree for all groups, whatever their SL".to_owned(),
        (count, 0) => format!("{count} multicast trees, chosen by the SL of the group"),
        (count, _) => {
            let trees =
                if count == 1 { "one multicast tree".to_owned() } else { format!("{count} multicast trees") };
            format!("{trees}, for groups with any SL but {}, which are not routed", numbers.join(", "))
        }
    }
}
