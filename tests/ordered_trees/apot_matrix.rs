//! APOT as printed: all pairs by matrix multiplication.

use dfdn::fabric::{Fabric, SwitchId};
use dfdn::ordering::{Layers, LinkSort, ordered_trees};
use dfdn::routing::OrderedPaths;
use dfdn::topology::small_members;

/// Distances by APOT (Chiu et al., Fig. 2), for comparison.
///
/// Fig. 2 as printed has the digit 1 in two places where the letter l is meant: the innermost loop
/// starts at `h = l`, which is the ordered-tree condition. Its loop over t, at most n rounds, ends
/// here as soon as a round changes nothing.
///
/// It is not used otherwise: [`OrderedPaths`] finds the same distances and the paths in a small
/// part of the time.
#[derive(Clone, Debug)]
pub(super) struct ApotMatrix {
    switches: usize,
    layers: usize,
    /// Q: least hops by source, destination and layer of the last channel.
    q: Vec<u32>,
    /// Number of sums computed: its cost.
    pub(super) sums: u64,
}

impl ApotMatrix {
    const FAR: u32 = u32::MAX / 2;

    /// Runs it.
    ///
    /// Cost: O(T S^3 M^2) time and O(S^2 M) memory with S switches, M layers and T rounds, one more
    /// than the longest path has hops.
    pub(super) fn new(fabric: &Fabric, layers: &Layers) -> Self {
        let (n, m) = (fabric.num_switches(), layers.count().max(1));
        let at = |i: usize, j: usize, layer: usize| (i * n + j) * m + layer;
        let mut q = vec![Self::FAR; n * n * m];
        let mut s = q.clone();
        for i in 0..n {
            q[at(i, i, 0)] = 0;
            s[at(i, i, 0)..at(i, i, 0) + m].fill(0);
        }
        for (id, c) in fabric.channels().iter() {
            s[at(c.from.index(), c.to.index(), usize::from(layers.of(id)))] = 1;
        }
        let mut sums = 0;
        loop {
            let mut p = vec![Self::FAR; q.len()];
            for i in 0..n {
                for j in 0..n {
                    for l in 0..m {
                        for k in 0..n {
                            for h in l..m {
                                let distance = q[at(i, k, l)] + s[at(k, j, h)];
                                if distance < p[at(i, j, h)] {
                                    p[at(i, j, h)] = distance;
                                }
                            }
                            sums += (m - l) as u64;
                        }
                    }
                }
            }
            if p == q {
                return Self { switches: n, layers: m, q, sums };
            }
            q = p;
        }
    }

    /// Hops of the shortest ordered path; `None` if there is none.
    pub(super) fn hops(&self, from: SwitchId, to: SwitchId) -> Option<u16> {
        let first = (from.index() * self.switches + to.index()) * self.layers;
        let least = self.q[first..first + self.layers].iter().copied().min()?;
        (least < Self::FAR).then_some(least as u16)
    }
}

#[test]
fn the_search_finds_the_same() {
    for (name, f) in small_members() {
        let layers = ordered_trees(&f, LinkSort::Guid);
        let matrix = ApotMatrix::new(&f, &layers);
        let mut relaxed = 0;
        for to in f.switch_ids() {
            let paths = OrderedPaths::to(&f, &layers, to);
            relaxed += paths.relaxed;
            for from in f.switch_ids() {
                assert_eq!(matrix.hops(from, to), paths.hops(from), "{name} {from:?} {to:?}");
            }
        }
        assert!(relaxed < matrix.sums, "{name}");
    }
}
