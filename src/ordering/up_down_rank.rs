//! Up*/down* from a root, as a rank.

use super::rank::{Rank, distances, positions};
use crate::fabric::{Fabric, SwitchId};

/// Up channels before down channels, where up is towards a root: switches by their hops to it, then
/// by GUID (the order of up*/down*; Schroeder et al., Autonet).
///
/// Rooted at a *leaf* of a fat tree of any height it makes all shortest paths between leaves legal: a path
/// climbs towards the root's side, and after it turns away it never turns back. It also connects spines to
/// each other, through the root, which an order by levels does not.
///
/// In a connected fabric any two switches have a legal path under it, though not always a shortest one.
///
/// Cost: O(C log C) with C channels.
pub fn up_down_rank(fabric: &Fabric, root: SwitchId) -> Rank {
    up_down_from(fabric, &[root])
}

/// The same from several roots at once, such as the top switches of a fat tree: up is towards the nearest of them.
///
/// Two roots may have no legal path to each other.
///
/// Cost: as [`up_down_rank`].
pub fn up_down_from(fabric: &Fabric, roots: &[SwitchId]) -> Rank {
    Rank::up_down(fabric, &positions(distances(fabric, roots.iter().map(|root| root.index()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::Tree;
    use crate::topology::{FatTree, small_members};

    #[test]
    fn the_tree_of_the_root_ascends() {
        for (name, f) in small_members() {
            for root in f.switch_ids() {
                let rank = up_down_rank(&f, root);
                assert_eq!(
                    Tree::new(&f, &rank, root).with_tree_outermost(&f, &rank),
                    rank,
                    "{name} {root:?}"
                );
            }
        }
    }

    #[test]
    fn rooted_at_a_leaf_it_allows_what_leaves_of_a_fat_tree_take() {
        let f = FatTree { k: 4, levels: 3, down: None, cas: None }.build().unwrap();
        let leaves: Vec<SwitchId> = f.switch_ids().filter(|&s| f.num_adapters_on(s) > 0).collect();
        let rank = up_down_rank(&f, leaves[0]);
        let levels = distances(&f, leaves.iter().map(|s| s.index()));
        for (first, c) in f.channels().iter() {
            for (second, d) in f.channels().out(c.to).filter(|(_, d)| d.to != c.from) {
                let level = |s: SwitchId| levels[s.index()];
                // All but down and then up again.
                if level(c.to) > level(c.from) || level(d.to) < level(d.from) {
                    assert!(rank.of(first) < rank.of(second), "{}", f.describe_channel(first));
                }
            }
        }
    }
}
