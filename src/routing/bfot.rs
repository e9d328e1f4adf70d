//! BFOT: ordered paths by Bellman and Ford, central.

use super::ordered_tables::{Labels, tables};
use crate::fabric::Fabric;
use crate::ordering::Layers;
use crate::tables::Lft;

/// Forwarding tables by BFOT (Chiu et al., section 4.4.1), or BFOT+ if the links were sorted before
/// they were partitioned; free of credit loops on one VL.
///
/// To each destination every switch takes the shortest path that its neighbours' choices leave it,
/// among equals one that is left over the highest layer where others depend on that. This is what
/// the messages of [`bfot_messages`](super::bfot_messages()) arrive at, computed outright: BFOT is
/// made for switches that hold one next hop a destination, so nothing of it is lost on InfiniBand.
/// As in the paper's Fig. 4 a switch gives up no hop of its own to spare others many;
/// [`apot`](super::apot()) does.
///
/// - `fabric`: any. Where it is not connected, pairs of different parts have no entry.
/// - `layers`: ordered trees of the same fabric; those of
///   [`up_down`](crate::ordering::up_down) give the tables of up*/down*.
///
/// Equal paths share the load, so the LIDs of an LMC range spread.
///
/// Cost: O((S + D) C) time with S switches, D destination LIDs and C channels, the part with S on
/// all cores; O(S + C) memory beside the tables.
pub fn bfot(fabric: &Fabric, layers: &Layers) -> Lft {
    let floor = vec![0; fabric.num_switches()];
    tables(fabric, layers, |target| Labels::grow(fabric, layers, target, &floor))
}
