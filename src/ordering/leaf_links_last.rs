//! Links between leaves after all others.

use super::rank::{Rank, up_down_key};
use super::tree::Tree;
use crate::fabric::{Channel, ChannelId, Fabric, SwitchId};

/// Up*/down* from a root without the links between leaves, and these after all other channels; with a tree that ascends.
/// Leaves are the switches with at least `least` adapters, which keeps single adapters on core switches (aggregation nodes
/// of GPU fabrics) from making leaves of them.
///
/// In a tree that has grown, cables lead from leaf to leaf. By their hops to a root all such links would be up in one
/// direction and down in the other. But a shortest path takes one at either end: up, down and over, and from there over, up
/// and down. Over as the last channel ascends in either direction, and over as the first one may be left on any turn where
/// the [first turn is free](super::Rule::FirstTurnFree). Such links do not shorten the way to the root either, so levels are
/// those of the tree.
///
/// Some parts may hang together by such links alone: a service switch on some leaves, or directors joined by trunks. One link
/// then counts as up and down, from the leaf nearest to the root, and the part has its levels from the leaf at its end.
///
/// `None` where no link or every link is between leaves.
///
/// - `fabric`: connected.
///
/// Cost: O(C log C) with C channels.
pub fn leaf_links_last(fabric: &Fabric, least: usize, root: SwitchId) -> Option<(Rank, Tree)> {
    let is_leaf = |s: SwitchId| fabric.num_adapters_on(s) >= least.max(1);
    let is_over = |c: &Channel| is_leaf(c.from) && is_leaf(c.to);
    let mut kinds = fabric.channels().as_slice().iter().map(is_over);
    let first = kinds.next()?;
    if kinds.all(|kind| kind == first) {
        return None;
    }
    let (order, up) = outward(fabric, root, is_over);
    let mut position = vec![u32::MAX; fabric.num_switches()];
    order.iter().zip(0..).for_each(|(s, place)| position[s.index()] = place);
    let tree = Tree::from_parents(fabric, &order, up);
    let is_last = |id: ChannelId, c: &Channel| is_over(c) && !tree.contains(fabric, id);
    let rank = Rank::by_key(fabric, |id, c| (is_last(id, c), up_down_key(&position, c)));
    Some((rank, tree))
}

/// The switches from a root outward, and by switch the channel to the one from which it was reached. In order of their hops
/// over links that are not `over`; where nothing else is left, over one of these.
///
/// Cost: O(S + C).
fn outward(
    fabric: &Fabric,
    root: SwitchId,
    is_over: impl Fn(&Channel) -> bool,
) -> (Vec<SwitchId>, Vec<ChannelId>) {
    let channels = fabric.channels();
    let (mut order, mut up) = (vec![root], vec![ChannelId(0); fabric.num_switches()]);
    let mut is_reached = vec![false; fabric.num_switches()];
    is_reached[root.index()] = true;
    let (mut next, mut next_over) = (0, 0);
    while next_over < order.len() {
        let over = next == order.len();
        let from = order[if over { next_over } else { next }];
        let before = order.len();
        for (_, c) in channels.out(from).filter(|(_, c)| is_over(c) == over) {
            if !std::mem::replace(&mut is_reached[c.to.index()], true) {
                up[c.to.index()] = c.reverse;
                order.push(c.to);
                if over {
                    break; // What lies behind it comes first.
                }
            }
        }
        match over {
            false => next += 1,
            true => next_over += usize::from(order.len() == before),
        }
    }
    (order, up)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::{Rule, up_down_rank};
    use crate::routing::{Hops, Lookahead, NoLegalPath, ranked_sssp};
    use crate::topology::{Deimos, FatTree, Grown, Rails, SlimFly};

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
                let last = route(leaf_links_last(&f, 2, root).unwrap().0);
                assert!(last.complete, "{seed}");
                with += last.detours;
                without += route(up_down_rank(&f, root)).detours;
            }
            assert!(least * with < without, "{services} service switches: {with} of {without}");
        }
    }

    /// Directors that are joined by trunks, service switches on leaves, and islands.
    #[test]
    fn parts_that_hang_together_by_leaves_are_reached_and_the_tree_ascends() {
        let rails = |seed| Rails {
            pods: 2,
            units: 3,
            rails: 2,
            spines: 2,
            width: 1,
            cores: 2,
            cas: 4,
            cross: 2,
            services: 2,
            seed,
        };
        let grown = |seed| Grown { islands: 4, spines: 4, cas: 8, seed };
        let fabrics = (1..=6).flat_map(|seed| [rails(seed).build(), grown(seed).build()]);
        let mut tried = 0;
        for f in fabrics.chain([Deimos.build()]).map(Result::unwrap) {
            let root = f.switch_ids().find(|&s| f.num_adapters_on(s) > 1).unwrap();
            let is_leaf = |s: SwitchId| f.num_adapters_on(s) > 1;
            let (order, _) = outward(&f, root, |c| is_leaf(c.from) && is_leaf(c.to));
            assert_eq!(order.len(), f.num_switches());
            let Some((rank, tree)) = leaf_links_last(&f, 2, root) else { continue };
            assert_eq!(tree.with_tree_outermost(&f, &rank), rank, "its tree ascends");
            tried += 1;
        }
        assert!(tried > 8, "{tried}");
    }
}
