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
    let Outward { order, up } = Outward::new(fabric, root, is_over);
    let mut position = vec![u32::MAX; fabric.num_switches()];
    order.iter().zip(0..).for_each(|(s, place)| position[s.index()] = place);
    let is_up = |id: ChannelId, c: &Channel| c.from != root && up[c.from.index()] == id;
    let rank = Rank::by_key(fabric, |id, c| {
        let joins = is_up(id, c) || is_up(c.reverse, fabric.channels().get(c.reverse));
        (is_over(c) && !joins, up_down_key(&position, c))
    });
    Some((rank, Tree::from_parents(fabric, &order, up)))
}

/// The switches from a root outward.
struct Outward {
    order: Vec<SwitchId>,
    /// By switch: the channel to the one from which it was reached.
    up: Vec<ChannelId>,
}

impl Outward {
    /// In order of their hops over links that are not `over`, and over one of these where nothing else is left.
    ///
    /// Cost: O(S + C).
    fn new(fabric: &Fabric, root: SwitchId, is_over: impl Fn(&Channel) -> bool) -> Self {
        let mut up: Vec<Option<ChannelId>> = vec![None; fabric.num_switches()];
        let mut order = vec![root];
        let reach = |s: SwitchId, over: bool, order: &mut Vec<SwitchId>, up: &mut Vec<Option<ChannelId>>| {
            for (_, c) in fabric.channels().out(s).filter(|(_, c)| is_over(c) == over) {
                if c.to != root && up[c.to.index()].is_none() {
                    up[c.to.index()] = Some(c.reverse);
                    order.push(c.to);
                    if over {
                        return true;
                    }
                }
            }
            false
        };
        let (mut next, mut next_over) = (0, 0);
        loop {
            if let Some(&s) = order.get(next) {
                reach(s, false, &mut order, &mut up);
                next += 1;
            } else if let Some(&s) = order.get(next_over) {
                // It may have further ones.
                next_over += usize::from(!reach(s, true, &mut order, &mut up));
            } else {
                break;
            }
        }
        Self { order, up: up.into_iter().map(|up| up.unwrap_or(ChannelId(0))).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::{Rule, up_down_rank};
    use crate::routing::{Hops, Lookahead, NoLegalPath, ranked_sssp};
    use crate::topology::{FatTree, Grown, Rails, SlimFly};

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

    /// Two directors that are joined by trunks, and switches that hang from one leaf each.
    #[test]
    fn parts_that_hang_together_by_leaves_have_levels_of_their_own() {
        for seed in 1..=6 {
            let (islands, spines, cas) = (4, 4, 8);
            let f = Grown { islands, spines, cas, seed }.build().unwrap();
            let name = |s: SwitchId| f.switch(s).description.as_str();
            // Without the core, islands would hang together by nothing else.
            let is_leaf = |s: SwitchId| name(s).contains("leaf") || name(s).starts_with("core");
            let root = f.switch_ids().find(|&s| name(s).contains("leaf")).unwrap();
            let outward = Outward::new(&f, root, |c| is_leaf(c.from) && is_leaf(c.to));
            assert_eq!(outward.order.len(), f.num_switches());
            let (rank, tree) = leaf_links_last(&f, 2, root).unwrap_or_else(|| {
                let rank = up_down_rank(&f, root);
                let tree = Tree::new(&f, &rank, root);
                (rank, tree)
            });
            assert_eq!(tree.with_tree_outermost(&f, &rank), rank, "{seed}: its tree ascends");
        }
    }
}
