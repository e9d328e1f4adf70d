//! APOT for forwarding tables: a switch takes a longer path if others gain more hops.

use super::OrderedPaths;
use super::ordered_tables::{Labels, tables};
use crate::fabric::{Fabric, SwitchId};
use crate::ordering::Layers;
use crate::tables::Lft;

/// Trees grown at most for one destination; after so many little of the gap is left.
const TRIALS: usize = 128;

/// Forwarding tables after APOT (Chiu et al., section 4.4.1); free of credit loops on one VL.
///
/// APOT gives each pair its shortest ordered path ([`OrderedPaths`]), which a forwarding table
/// cannot hold: where one switch's shortest path starts in a low layer and another's arrives over a
/// higher one, only one of them can have it. The search starts with the tree of [`bfot`](super::bfot()) and
/// adds the global view that BFOT lacks (Fig. 4). A switch with a longer path than its shortest ordered one
/// asks every switch on that path to forward over layers that are high enough. The tree is grown anew under
/// these demands and kept if all LIDs together need fewer hops. So no destination is worse off than with
/// BFOT.
///
/// Switches ask in order of hops lost, the most first, ties in GUID order, until a round helps no
/// switch, at most 128 times for a destination.
///
/// Arguments and balance are as for [`bfot`](super::bfot()).
///
/// Cost: up to 128 times that of BFOT for the trees, on all cores, and as much as BFOT for the rest.
pub fn apot(fabric: &Fabric, layers: &Layers) -> Lft {
    tables(fabric, layers, |target| search(fabric, layers, target))
}

/// The best labels found for one destination.
fn search(fabric: &Fabric, layers: &Layers, target: SwitchId) -> Labels {
    let mut floor = vec![0; fabric.num_switches()];
    let mut best = Labels::grow(fabric, layers, target, &floor);
    let paths = OrderedPaths::to(fabric, layers, target);
    let lost = |labels: &Labels, s: SwitchId| {
        let reached = labels.hops[s.index()];
        paths.hops(s).map_or(0, |least| reached - least)
    };
    let mut least = best.total(fabric);
    let mut trials = 1;
    loop {
        let before = least;
        let mut asking: Vec<SwitchId> = fabric.switch_ids().filter(|&s| lost(&best, s) > 0).collect();
        asking.sort_by_key(|&s| u16::MAX - lost(&best, s));
        for s in asking {
            if lost(&best, s) == 0 {
                continue;
            }
            if trials == TRIALS {
                return best;
            }
            trials += 1;
            let mut demands = floor.clone();
            for &channel in &paths.path(fabric, s) {
                let next = fabric.channels().get(channel).to;
                if next != target {
                    let demand = &mut demands[next.index()];
                    *demand = layers.of(channel).max(*demand);
                }
            }
            let labels = Labels::grow(fabric, layers, target, &demands);
            // A switch that the demands cut off counts so many hops that they are refused.
            let hops = labels.total(fabric);
            if hops < least {
                (least, best, floor) = (hops, labels, demands);
            }
        }
        if least == before {
            return best;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{FabricBuilder, Guid, Lmc, Node, NodeId, NodeKind, PortNum, PortRef};
    use crate::ordering::{LinkSort, ordered_trees};
    use crate::topology::small_members;

    /// Chiu et al., Fig. 4: from A to D, 11 hops by C, which has nine links to E, or 3 hops by B, if
    /// B itself takes the long path, by X. Nodes in GUID order: C, eight on the path to E, E, D, B, A, X.
    #[test]
    fn one_gives_up_a_hop_to_spare_another_eight() {
        const C: usize = 0;
        const E: usize = 9;
        const D: usize = 10;
        const B: usize = 11;
        const A: usize = 12;
        const X: usize = 13;
        let mut builder = FabricBuilder::new();
        for i in 0..=X {
            builder.add(Node::new(NodeKind::Switch, Guid(i as u64 + 1), 4, &format!("s{i}"))).unwrap();
        }
        let mut used = [0; X + 1];
        let mut end = |i: usize| {
            used[i] += 1;
            PortRef { node: NodeId::at(i), port: PortNum(used[i]) }
        };
        let mut links: Vec<(usize, usize)> = (C..D).map(|i| (i, i + 1)).collect();
        links.extend([(A, C), (B, D), (X, E), (A, B), (B, X), (X, D)]);
        for (a, b) in links {
            builder.connect(end(a), end(b)).unwrap();
        }
        let f = builder.finish(Lmc::default()).unwrap();
        let layers = ordered_trees(&f, LinkSort::Guid);
        let upper: Vec<_> = f.channels().iter().filter(|&(id, _)| layers.of(id) == 1).collect();
        assert_eq!((upper.len(), layers.count()), (6, 2), "A-B, B-X and X-D are the second tree");
        assert!(upper.iter().all(|(_, c)| [A, B, X, D].contains(&c.from.index())));

        let target = SwitchId::at(D);
        let greedy = Labels::grow(&f, &layers, target, &[0; X + 1]);
        let found = search(&f, &layers, target);
        assert_eq!((greedy.hops[A], greedy.hops[B]), (11, 1));
        assert_eq!((found.hops[A], found.hops[B]), (3, 2));
    }

    #[test]
    fn between_bfot_and_the_bound() {
        let mut gained = 0;
        for (name, f) in small_members() {
            let layers = ordered_trees(&f, LinkSort::Guid);
            let none = vec![0; f.num_switches()];
            for target in f.switch_ids() {
                let paths = OrderedPaths::to(&f, &layers, target);
                let found = search(&f, &layers, target);
                let greedy = Labels::grow(&f, &layers, target, &none);
                assert!(found.total(&f) <= greedy.total(&f), "{name}");
                gained += greedy.total(&f) - found.total(&f);
                for s in f.switch_ids() {
                    assert!(found.hops[s.index()] >= paths.hops(s).unwrap(), "{name}");
                }
            }
        }
        assert!(gained > 0, "the global view never helped");
    }
}
