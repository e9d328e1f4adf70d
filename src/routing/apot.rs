//! APOT for forwarding tables: a switch gives up hops of its own where others gain more.

use super::OrderedPaths;
use super::ordered_tables::{Labels, tables};
use crate::fabric::{Fabric, SwitchId};
use crate::ordering::Layers;
use crate::tables::Lft;

/// Trees grown at most for one destination: what is left of the gap after so many is small.
const TRIALS: usize = 128;

/// Forwarding tables after APOT (Chiu et al., section 4.4.1); free of credit loops on one VL.
///
/// APOT gives each pair its shortest ordered path ([`OrderedPaths`]), which a forwarding table
/// cannot hold: where one switch's shortest path starts in a low layer and another's comes in over a
/// higher one, both cannot have theirs. Here the tree of [`bfot`](super::bfot()) is the start, and
/// then the global view that BFOT misses (Fig. 4) is used: a switch that is farther away than its
/// shortest ordered path asks every switch on that path to forward over layers that are high enough.
/// The tree is grown anew under these demands and kept if the hops of all LIDs together became
/// fewer. So no destination is worse off than with BFOT.
///
/// Switches ask in order of hops lost, the most first, ties in GUID order, again and again until a
/// round helps nobody, at most 128 times for a destination.
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
    let total = |labels: &Labels| -> u64 {
        let end_ports = |s: SwitchId| fabric.endports_on(s).len() as u64;
        fabric.switch_ids().map(|s| end_ports(s) * u64::from(labels.hops[s.index()])).sum()
    };
    let lost = |labels: &Labels, s: SwitchId| {
        let reached = labels.hops[s.index()];
        paths.hops(s).map_or(0, |least| reached - least)
    };
    let mut least = total(&best);
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
            let hops = total(&labels);
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
    use crate::ordering::{LinkSort, ordered_trees};
    use crate::topology::small_members;

    #[test]
    fn between_bfot_and_the_bound() {
        let mut gained = 0;
        for (name, f) in small_members() {
            let layers = ordered_trees(&f, LinkSort::Guid);
            let none = vec![0; f.num_switches()];
            for target in f.switch_ids() {
                let paths = OrderedPaths::to(&f, &layers, target);
                let sum = |labels: &Labels| -> usize {
                    let of = |s: SwitchId| usize::from(labels.hops[s.index()]) * f.endports_on(s).len();
                    f.switch_ids().map(of).sum()
                };
                let found = search(&f, &layers, target);
                let greedy = Labels::grow(&f, &layers, target, &none);
                assert!(sum(&found) <= sum(&greedy), "{name}");
                gained += sum(&greedy) - sum(&found);
                for s in f.switch_ids() {
                    assert!(found.hops[s.index()] >= paths.hops(s).unwrap(), "{name}");
                }
            }
        }
        assert!(gained > 0, "the global view never helped");
    }
}
