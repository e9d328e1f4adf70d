//! Up*/down* with up away from the adapters.

use super::rank::{Rank, distances, positions};
use crate::fabric::Fabric;

/// Up channels before down channels, where up is away from the adapters: the level of a switch is
/// its distance from the nearest one with at least `least` adapters, and the highest level comes
/// first, within a level in GUID order.
///
/// `least` keeps single adapters on core switches (aggregation nodes of GPU fabrics) from making leaves of
/// them. Where no switch has that many, all are on one level.
///
/// It gives fat trees their full bandwidth, damaged ones too. The top switches of a tree have no legal path to
/// each other.
///
/// Cost: O(C log C) with C channels.
pub fn host_levels(fabric: &Fabric, least: usize) -> Rank {
    let leaves = fabric.switch_ids().filter(|&s| fabric.num_adapters_on(s) >= least.max(1));
    let levels = distances(fabric, leaves.map(|s| s.index()));
    Rank::up_down(fabric, &positions(levels.into_iter().map(std::cmp::Reverse)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::SwitchId;
    use crate::topology::FatTree;

    #[test]
    fn up_is_away_from_switches_with_enough_adapters() {
        // Four adapters on each leaf; levels are the same whether one or four are asked for.
        let f = FatTree { k: 8, levels: 3, down: None, cas: None }.build().unwrap();
        assert_eq!(host_levels(&f, 1), host_levels(&f, 4));
        let rank = host_levels(&f, 4);
        let leaf = |s: SwitchId| f.num_adapters_on(s) > 0;
        let ups = f.channels().iter().filter(|(_, c)| leaf(c.from)).map(|(id, _)| rank.of(id)).max();
        let downs = f.channels().iter().filter(|(_, c)| leaf(c.to)).map(|(id, _)| rank.of(id)).min();
        assert!(ups < downs);
    }

    #[test]
    fn without_a_leaf_there_is_one_level() {
        let f = FatTree { k: 4, levels: 2, down: None, cas: None }.build().unwrap();
        let position = positions(f.switch_ids());
        assert_eq!(host_levels(&f, 100), Rank::up_down(&f, &position));
    }
}
