//! Up*/down* from a root.

use super::rank::{Rank, distances, positions};
use crate::fabric::{Fabric, SwitchId};

/// Up channels before down channels, where up is towards a root: switches by their hops to it, then
/// by GUID (the order of up*/down*; Schroeder et al., Autonet).
///
/// Rooted at a *leaf* of a fat tree of any height it makes all shortest paths between leaves legal
/// without a turn from down to up: a path climbs towards the root's side, and wherever it turns
/// away it never turns back. It keeps spines connected to each other as well, through the root,
/// which an order by levels does not.
///
/// Every connected fabric has a legal way between any two switches under it, if not always a
/// shortest one.
///
/// Cost: O(C log C) with C channels.
pub fn bfs(fabric: &Fabric, root: SwitchId) -> Rank {
    Rank::up_down(fabric, &positions(distances(fabric, [root.index()])))
}
