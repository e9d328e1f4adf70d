//! Up is away from the hosts.

use super::rank::{Rank, distances, positions};
use crate::fabric::Fabric;

/// Up channels before down channels, where up is away from the adapters: the level of a switch is
/// its distance from the nearest one with at least `least` adapters, and the highest level comes
/// first, within a level in GUID order.
///
/// `least` keeps single adapters on core switches, as the aggregation nodes of GPU fabrics are,
/// from making leaves of them. Where no switch has that many, all are on one level.
///
/// Gives fat trees their full bandwidth, damaged ones too. The tops of a tree have no legal way to
/// each other.
///
/// Cost: O(C log C) with C channels.
pub fn host_levels(fabric: &Fabric, least: usize) -> Rank {
    let leaves = fabric.switch_ids().filter(|&s| fabric.num_adapters_on(s) >= least.max(1));
    let levels = distances(fabric, leaves.map(|s| s.index()));
    Rank::up_down(fabric, &positions(levels.into_iter().map(std::cmp::Reverse)))
}
