//! What an engine computes before the judge checks it. Only here are forwarding tables, VLs and multicast
//! trees combined.

use super::Lineage;
use crate::fabric::{Fabric, PortNum, Sl, SwitchId, Vl};
use crate::lanes::{LaneLimits, Lanes};
use crate::multicast::{KnownOrder, McastTrees, mcast_trees};
use crate::ordering::{Tree, up_down_rank};
use crate::routing::Hops;
use crate::tables::{Classes, Lft, PathSl, Sl2Vl, SlVlRow};

/// Unicast tables, the input of [`Plan::new`].
pub(super) struct Parts {
    pub(super) lft: Lft,
    pub(super) lanes: Lanes,
    /// An order in which all unicast paths ascend, if one is known.
    pub(super) known: Option<KnownOrder>,
    pub(super) remarks: Vec<String>,
}

/// Tables that are not checked yet.
pub(super) struct Plan {
    pub(super) lft: Lft,
    pub(super) sl2vl: Sl2Vl,
    pub(super) path_sl: PathSl,
    pub(super) vls: u8,
    pub(super) remarks: Vec<String>,
    /// Multicast trees; `None` for an engine that may have credit loops.
    pub(super) trees: Option<McastTrees>,
    pub(super) lineage: Lineage,
}

impl Plan {
    /// Adds multicast trees to unicast tables.
    ///
    /// Groups without configuration use SL 0. If unicast uses several SLs, SL 0 gets no tree and one more SL may be
    /// assigned, then SL 0 is reserved for multicast and unicast uses the SLs from 1 on. If the known order
    /// [suffices](KnownOrder::suffices), this is tried before any search among the dependencies of unicast.
    pub(super) fn new(fabric: &Fabric, hops: &Hops, limits: LaneLimits, parts: Parts) -> Self {
        let Parts { lft, lanes, known, remarks } = parts;
        let mut plan = Self::without_trees(lft, lanes, remarks);
        plan.find_trees(fabric, hops, known.as_ref());
        if plan.serves_multicast() {
            return plan;
        }
        if plan.reserve_sl_zero(fabric, hops, limits, known.as_ref()) {
            return plan;
        }
        if known.is_some_and(|known| known.suffices) {
            // No SL is left: a tree must fit the dependencies of unicast.
            plan.find_trees(fabric, hops, None);
        }
        plan
    }

    /// Tables on one VL for all SLs, without multicast trees.
    pub(super) fn bare(fabric: &Fabric, lft: Lft) -> Self {
        Self::without_trees(lft, one_vl(fabric), Vec::new())
    }

    /// Unicast tables, before there are multicast trees.
    pub(super) fn without_trees(lft: Lft, lanes: Lanes, remarks: Vec<String>) -> Self {
        let Lanes { sl2vl, path_sl, vls, .. } = lanes;
        Self { lft, sl2vl, path_sl, vls, remarks, trees: None, lineage: Lineage::Single }
    }

    /// Whether groups without configuration, which use SL 0, have a multicast tree.
    pub(super) fn serves_multicast(&self) -> bool {
        self.trees.as_ref().is_some_and(McastTrees::serve_default)
    }

    /// Adds trees that are found among the dependencies of unicast, where its order is not known.
    pub(super) fn find_any_trees(&mut self, fabric: &Fabric, hops: &Hops) {
        self.find_trees(fabric, hops, None);
    }

    /// Adds trees; no SL is reserved for them.
    ///
    /// - `known`: the order in which all unicast paths ascend, if there is one.
    pub(super) fn find_trees(&mut self, fabric: &Fabric, hops: &Hops, known: Option<&KnownOrder>) {
        self.trees = Some(mcast_trees(fabric, hops, &self.lft, &mut self.sl2vl, &self.path_sl, known));
    }

    /// Reserves SL 0 for multicast, with a tree for it on VL 0 or on a VL of its own. If all turns map to VL 1 or
    /// higher, no packet between switches waits for VL 0, so no tree on VL 0 can close a cycle. False, and nothing
    /// changed, if that cannot be had.
    fn reserve_sl_zero(
        &mut self,
        fabric: &Fabric,
        hops: &Hops,
        limits: LaneLimits,
        known: Option<&KnownOrder>,
    ) -> bool {
        let PathSl::BySwitch(path_sl) = &mut self.path_sl else { return false };
        let sls = path_sl.iter().copied().max().unwrap_or(0) + 1;
        if sls >= limits.sls {
            return false;
        }
        path_sl.iter_mut().for_each(|sl| *sl += 1);
        let center = center(fabric, hops);
        let around = up_down_rank(fabric, center);
        let tree = Tree::new(fabric, &around, center);
        let (unicast, vls, trees) = (self.sl2vl.clone(), self.vls, self.trees.take());
        for vl in [Some(0), Some(vls).filter(|&vl| vl < limits.vls)].into_iter().flatten() {
            let known = known.filter(|_| vl == 0).map(|known| KnownOrder {
                lanes: known.lanes.with_lowest(around.clone()),
                trees: vec![tree.clone()],
                suffices: known.suffices,
            });
            self.sl2vl = shift_sls(fabric, &unicast, sls, Vl(vl));
            self.find_trees(fabric, hops, known.as_ref());
            if self.serves_multicast() {
                self.vls = vls.max(vl + 1);
                self.remarks.push(format!("SL 0 is for multicast alone, paths have SLs 1 to {sls}"));
                return true;
            }
        }
        (self.sl2vl, self.trees) = (unicast, trees);
        if let PathSl::BySwitch(path_sl) = &mut self.path_sl {
            path_sl.iter_mut().for_each(|sl| *sl -= 1);
        }
        false
    }
}

/// The switch with the least distance to its farthest switch; the first of several.
pub(super) fn center(fabric: &Fabric, hops: &Hops) -> SwitchId {
    fabric.switch_ids().min_by_key(|&s| (hops.row(s).iter().max(), s)).unwrap_or(SwitchId(0))
}

/// One VL for all SLs.
pub(super) fn one_vl(fabric: &Fabric) -> Lanes {
    Lanes { sl2vl: Sl2Vl::new(fabric), path_sl: PathSl::Any(u16::MAX), vls: 1, sls: 1 }
}

/// The rows with each of the first `sls` SLs shifted up by one, and all others on one VL between switches.
fn shift_sls(fabric: &Fabric, sl2vl: &Sl2Vl, sls: u8, vl: Vl) -> Sl2Vl {
    let mut moved = sl2vl.clone();
    // The SLs after the shift, as bits.
    let own = (1..=sls).fold(SlVlRow::default(), |row, sl| row.with(Sl(sl), Vl(15))).0;
    for s in fabric.switch_ids() {
        for out in (0..sl2vl.ports_of(s)).map(|port| PortNum(port as u8)) {
            let other = if fabric.channels().at_port(s, out).is_some() { vl } else { Vl(0) };
            for inp in (0..sl2vl.ports_of(s)).map(|port| PortNum(port as u8)) {
                let shifted = sl2vl.row(s, inp, out).0 >> 4 & own;
                moved.set(s, inp, out, SlVlRow(shifted | SlVlRow::uniform(other).0 & !own));
            }
        }
    }
    moved
}

/// Trees after the lanes were copied for every class of service and every VL set: a tree serves the copies of the SLs
/// that it served. The copies share no VL, so if one is acyclic, all are together.
///
/// - `any`: the SLs that served every pair before the copying, if there were any; the lowest represents them
///   all.
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

/// What the trees serve, as text. If SL 0 has no tree, all are dropped and OpenSM builds its own trees.
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
