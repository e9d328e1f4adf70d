//! Links between leaves after all others.

use super::rank::{Rank, distances_over, positions, up_down_key};
use crate::fabric::{Channel, Fabric, SwitchId};

/// Up*/down* from a root without the links between leaves, and these after all other channels. Leaves are the switches with
/// at least `least` adapters, which keeps single adapters on core switches (aggregation nodes of GPU fabrics) from making
/// leaves of them.
///
/// In a tree that has grown, cables lead from leaf to leaf, and service switches hang from leaves. By their hops to a root
/// all such links would be up in one direction and down in the other. But a shortest path takes one at either end: up, down
/// and over, and from there over, up and down. Over as the last channel ascends in either direction, and over as the first
/// one may be left on any turn where the [first turn is free](super::Rule::FirstTurnFree). Such links do not shorten the way
/// to the root either, so levels are those of the tree.
///
/// `None` where no link or every link is between leaves.
///
/// Cost: O(C log C) with C channels.
pub fn leaf_links_last(fabric: &Fabric, least: usize, root: SwitchId) -> Option<Rank> {
    let is_leaf = |s: SwitchId| fabric.num_adapters_on(s) >= least.max(1);
    let is_over = |c: &Channel| is_leaf(c.from) && is_leaf(c.to);
    let mut kinds = fabric.channels().as_slice().iter().map(is_over);
    let first = kinds.next()?;
    if kinds.all(|kind| kind == first) {
        return None;
    }
    let position = positions(distances_over(fabric, [root.index()], |c| !is_over(c)));
    Some(Rank::by_key(fabric, |_, c| (is_over(c), up_down_key(&position, c))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::{Rule, up_down_rank};
    use crate::routing::{Hops, Lookahead, NoLegalPath, ranked_sssp};
    use crate::topology::{FatTree, Rails, SlimFly};

    #[test]
    fn there_is_none_where_links_are_of_one_kind() {
        let tree = FatTree { k: 4, levels: 3, down: None, cas: None }.build().unwrap();
        let fly = SlimFly { q: 5, cas: None }.build().unwrap();
        assert!([tree, fly].iter().all(|f| leaf_links_last(f, 1, SwitchId(0)).is_none()));
    }

    /// The links of service switches may follow one another, and only one of them may be the last.
    #[test]
    fn shortest_paths_over_cross_links_are_legal_in_both_directions() {
        for (services, least) in [(0, 50), (1, 5)] {
            let (mut with, mut without) = (0, 0);
            for seed in 1..=6 {
                let (pods, units, rails, spines, width, cores, cas) = (2, 4, 2, 2, 1, 2, 4);
                let cross = 3;
                let rails = Rails { pods, units, rails, spines, width, cores, cas, cross, services, seed };
                let f = rails.build().unwrap();
                let fullest = |s: &SwitchId| (f.num_adapters_on(*s), std::cmp::Reverse(*s));
                let root = f.switch_ids().max_by_key(fullest).unwrap();
                let hops = Hops::new(&f).unwrap();
                let route = |rank| {
                    let rule = Rule::FirstTurnFree(rank);
                    ranked_sssp(&f, &hops, &rule, Lookahead::Every, NoLegalPath::Detour(None))
                };
                let last = route(leaf_links_last(&f, 2, root).unwrap());
                assert!(last.complete, "{seed}");
                with += last.detours;
                without += route(up_down_rank(&f, root)).detours;
            }
            assert!(least * with < without, "{services} service switches: {with} of {without}");
        }
    }
}
