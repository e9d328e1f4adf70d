//! Ordered trees: the links of a fabric as a sequence of spanning trees.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fmt;

use petgraph::unionfind::UnionFind;
use rayon::prelude::*;

use super::Layers;
use super::rank::distances;
use crate::fabric::{Fabric, SwitchId};

/// The order in which Kruskal's algorithm sees the links. The first ones get into the lowest trees, which
/// every pair may use from any start. Ties, and everything in
/// [`Guid`](LinkSort::Guid), go by the lower and then the higher switch in GUID order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkSort {
    /// In GUID order: APOT and BFOT.
    Guid,
    /// BFOT+ (Chiu et al., footnote 6): switches ranked by their number of links, equal numbers
    /// alike; links by the sum of the ranks of their ends, the highest first.
    Degree,
    /// Our own: by distance from the most central switch (least total distance), so that the first
    /// tree is a breadth-first tree.
    Center,
}

impl LinkSort {
    /// Every order there is, that of BFOT+ first.
    pub const ALL: [Self; 3] = [Self::Degree, Self::Guid, Self::Center];
}

/// `GUID`, `degree`, `center`.
impl fmt::Display for LinkSort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Guid => "GUID",
            Self::Degree => "degree",
            Self::Center => "center",
        })
    }
}

/// Partitions the links into ordered spanning trees (Chiu et al., section 4.3): Kruskal's algorithm
/// again and again on what is left. Both directions of a link are in the same tree. When too few
/// links are left for a tree, or the fabric is not connected, a layer is a spanning forest.
///
/// Parallel links share a layer: they are one link while trees are built and added back afterwards
/// (section 6.4, steps 1 and 2). A tree with doubled links is as safe as a tree, since no ordered
/// path goes back to the switch that it came from.
///
/// There are at most as many layers as the largest switch has neighbours, as each forest takes a
/// link from every switch that has one left.
///
/// Cost: O(L log L log S + M C) time with S switches, L pairs of linked switches, C channels and M layers;
/// O(S C) more over all cores for [`LinkSort::Center`]; O(M S + C) memory.
pub fn ordered_trees(fabric: &Fabric, sort: LinkSort) -> Layers {
    let links = linked_switches(fabric);
    let order = sorted(fabric, &links, sort);
    partition(fabric, &links, order)
}

/// The pairs of linked switches, the one first in GUID order first, in ascending order.
pub(super) fn linked_switches(fabric: &Fabric) -> Vec<(SwitchId, SwitchId)> {
    let channels = fabric.channels();
    let mut links: Vec<(SwitchId, SwitchId)> =
        channels.iter().filter(|(_, c)| c.from < c.to).map(|(_, c)| (c.from, c.to)).collect();
    links.sort_unstable();
    links.dedup();
    links
}

/// The layers that come of links in a given order, as indices of [`linked_switches`].
pub(super) fn partition(fabric: &Fabric, links: &[(SwitchId, SwitchId)], order: Vec<usize>) -> Layers {
    let channels = fabric.channels();
    // The k-th run of Kruskal's algorithm sees the links that the runs before refused. So a link belongs to
    // the first forest that does not connect its ends yet. A forest only grows over links whose ends the
    // forest before connects, so bisection finds it.
    let mut forests: Vec<UnionFind<u32>> = Vec::new();
    let mut layer = vec![0; links.len()];
    for i in order {
        let (a, b) = links[i];
        let first = forests.partition_point(|forest| forest.equiv(a.0, b.0));
        if first == forests.len() {
            forests.push(UnionFind::new(fabric.num_switches()));
        }
        forests[first].union(a.0, b.0);
        layer[i] = u8::try_from(first).expect("at most 254 ports, and a forest for each at most");
    }

    let of: Vec<u8> = channels
        .as_slice()
        .iter()
        .map(|c| {
            let link = (c.from.min(c.to), c.from.max(c.to));
            layer[links.binary_search(&link).expect("every pair of linked switches is listed")]
        })
        .collect();
    let key = keys(fabric, &of, forests.len());
    Layers::new(of, &key)
}

/// The links as indices in the order wanted.
fn sorted(fabric: &Fabric, links: &[(SwitchId, SwitchId)], sort: LinkSort) -> Vec<usize> {
    let mut order: Vec<usize> = (0..links.len()).collect();
    match sort {
        LinkSort::Guid => {}
        LinkSort::Degree => {
            let degree = |s| fabric.channels().out(s).len();
            let mut distinct: Vec<usize> = fabric.switch_ids().map(degree).collect();
            distinct.sort_unstable();
            distinct.dedup();
            let rank = |s| distinct.partition_point(|&d| d < degree(s));
            order.sort_by_key(|&i| Reverse(rank(links[i].0) + rank(links[i].1)));
        }
        LinkSort::Center => {
            let total =
                |s: SwitchId| -> u64 { distances(fabric, [s.index()]).iter().map(|&d| u64::from(d)).sum() };
            let totals: Vec<u64> =
                (0..fabric.num_switches()).into_par_iter().map(|s| total(SwitchId::at(s))).collect();
            if let Some(center) = fabric.switch_ids().min_by_key(|s| totals[s.index()]) {
                let from = distances(fabric, [center.index()]);
                let far = |s: SwitchId| from[s.index()];
                order.sort_by_key(|&i| {
                    let (a, b) = links[i];
                    (far(a).min(far(b)), far(a).max(far(b)))
                });
            }
        }
    }
    order
}

/// A position for each channel among those of its layer. The root of each tree is its first switch in GUID
/// order. Channels towards the root come before those away from it.
fn keys(fabric: &Fabric, of: &[u8], layers: usize) -> Vec<i64> {
    let mut key = vec![0; of.len()];
    for layer in 0..layers {
        let mut depth = vec![None; fabric.num_switches()];
        let mut queue = VecDeque::new();
        for root in fabric.switch_ids() {
            if depth[root.index()].is_none() {
                depth[root.index()] = Some(0);
                queue.push_back((root, 0));
            }
            while let Some((s, here)) = queue.pop_front() {
                for (id, c) in fabric.channels().out(s) {
                    if usize::from(of[id.index()]) == layer && depth[c.to.index()].is_none() {
                        depth[c.to.index()] = Some(here + 1);
                        queue.push_back((c.to, here + 1));
                    }
                    // A parallel link leads to a switch that was just found from here.
                    if usize::from(of[id.index()]) == layer && depth[c.to.index()] == Some(here + 1) {
                        key[id.index()] = here + 1;
                        key[c.reverse.index()] = -(here + 1);
                    }
                }
            }
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{RandomIrregular, Torus, small_members};
    use std::collections::BTreeSet;

    /// Kruskal's algorithm again and again, as the paper says it.
    fn repeated(fabric: &Fabric, sort: LinkSort) -> Vec<Vec<(SwitchId, SwitchId)>> {
        let ends: BTreeSet<_> =
            fabric.channels().iter().filter(|(_, c)| c.from < c.to).map(|(_, c)| (c.from, c.to)).collect();
        let links: Vec<_> = ends.into_iter().collect();
        let mut left: Vec<_> = sorted(fabric, &links, sort).into_iter().map(|i| links[i]).collect();
        let mut trees = Vec::new();
        while !left.is_empty() {
            let mut forest = UnionFind::<u32>::new(fabric.num_switches());
            let (taken, rest) = left.into_iter().partition(|&(a, b)| forest.union(a.0, b.0));
            trees.push(taken);
            left = rest;
        }
        trees
    }

    #[test]
    fn the_same_as_repeated_runs() {
        for (name, f) in small_members() {
            for sort in LinkSort::ALL {
                let layers = ordered_trees(&f, sort);
                let trees = repeated(&f, sort);
                assert_eq!(layers.count(), trees.len(), "{name}");
                for (id, c) in f.channels().iter() {
                    let link = (c.from.min(c.to), c.from.max(c.to));
                    assert!(trees[usize::from(layers.of(id))].contains(&link), "{name}");
                }
                assert_eq!(trees[0].len(), f.num_switches() - 1, "{name}: the first spans all");
            }
        }
    }

    #[test]
    fn parallel_links_share_a_layer() {
        let f = RandomIrregular { switches: 5, ports: 14, cas: 1, seed: 1 }.build().unwrap();
        let layers = ordered_trees(&f, LinkSort::Guid);
        let mut parallel = 0;
        for (a, x) in f.channels().iter() {
            assert_eq!(layers.of(a), layers.of(x.reverse));
            for (b, y) in f.channels().out(x.from) {
                if a != b && x.to == y.to {
                    parallel += 1;
                    assert_eq!(layers.of(a), layers.of(b));
                }
            }
        }
        assert!(parallel > 0);
    }

    #[test]
    fn degree_prefers_hubs_and_center_makes_a_breadth_first_tree() {
        for (name, f) in small_members() {
            let layers = ordered_trees(&f, LinkSort::Center);
            let center = f
                .switch_ids()
                .min_by_key(|&s| distances(&f, [s.index()]).iter().map(|&d| u64::from(d)).sum::<u64>())
                .unwrap();
            let from = distances(&f, [center.index()]);
            let lowest = f.channels().iter().filter(|&(id, _)| layers.of(id) == 0);
            for (_, c) in lowest {
                assert_eq!(from[c.from.index()].abs_diff(from[c.to.index()]), 1, "{name}");
            }
        }
        // All switches of a torus are alike, so the rank of footnote 6 changes nothing.
        let torus = Torus { dims: vec![4, 4], cas: 1 }.build().unwrap();
        assert_eq!(ordered_trees(&torus, LinkSort::Degree), ordered_trees(&torus, LinkSort::Guid));
        let f = RandomIrregular { switches: 12, ports: 7, cas: 2, seed: 2 }.build().unwrap();
        let f = crate::topology::fail_links(&f, 5, 1).unwrap();
        let links: Vec<_> =
            f.channels().iter().filter(|(_, c)| c.from < c.to).map(|(_, c)| (c.from, c.to)).collect();
        let order = sorted(&f, &links, LinkSort::Degree);
        let degree = |s| f.channels().out(s).len();
        let most = links.iter().map(|&(a, b)| degree(a) + degree(b)).max().unwrap();
        let (a, b) = links[order[0]];
        assert_eq!(degree(a) + degree(b), most);
    }
}
