//! Several up*/down* trees in parallel.

use super::least_loaded::LeastLoaded;
use crate::fabric::{Fabric, SwitchId};
use crate::routing::minimal_dag::MinimalDag;
use crate::routing::{Hops, adapters_by_switch, ends_on};
use crate::tables::Lft;

/// Forwarding tables over several up*/down* trees, and which LID belongs to which tree.
#[derive(Clone, Debug)]
pub struct UpDnTrees {
    /// The tables.
    pub lft: Lft,
    /// The root of each tree.
    pub roots: Vec<SwitchId>,
    /// The tree of each LID: an array of [`Fabric::lid_table_len`], 0 for LIDs that are not in use.
    pub tree_of: Vec<u8>,
}

/// Routing over several up*/down* trees, each for a virtual network of its own (Flich et al.,
/// section 4).
///
/// **Roots.** The first is the switch with the lowest sum of distances to all others. Each further one makes
/// the distances between the roots as equal as possible, then as large as possible; ties go to the lowest sum
/// of distances, then the lowest GUID. For two trees that is the switch farthest from the first root.
///
/// **Trees.** The upper end of a link is the one nearer to the root, at equal distance the one with
/// the lower GUID. A path goes up any number of channels, then down any number.
///
/// **One out port a destination.** A switch does not know whether a packet has come down to it, and a packet
/// that has gone down must not go up. So for each LID a switch sends packets either only up or only down, and
/// a switch that sends them down sends them to a switch that does so too. Starting from the destination
/// switch, the switches are processed in order of the length of their path. A switch that has a path down of
/// this length sends down, any other up. So a switch may lose a shorter path down through a switch that has
/// an even shorter path up.
///
/// *No deadlock in a tree:* going up, the pair (distance to the root, GUID) falls with every channel; going
/// down it rises; and no packet goes up after down. So the channels of a tree can be numbered so that every
/// path ascends. *Every destination is reached:* each switch on the tree path from the root to a destination
/// gets its path down, as no path to a switch that many levels lower is shorter. From any other switch the
/// tree path up ends at the root, so it has a path when it is processed.
///
/// **Which tree.** The paper sends each pair over the tree with the shortest path. A LID has one out port at
/// each switch, so destinations are renamed: the LIDs of an end port (LMC > 0) get different trees, and a
/// sender chooses the LID. Each LID in turn takes the tree that most reduces the sum, over all adapters, of
/// the shortest path over the LIDs so far. Ties go to the tree with the fewest LIDs of this end port, then
/// the fewest of all, then the first tree. So with LMC 0 each destination has its best tree, with 2 LIDs and
/// 3 trees the two that complement each other best. The base LID is always the best for a sender that does
/// not choose.
///
/// A PathRecord does not state the length of a path, and neither OpenSM nor this crate can set its
/// preference. A sender that needs the shortest path requests all of them and counts hops in the tables
/// (`ibtracert` does), or is configured with the LID to use, for example by an MPI library with its own LMC
/// option. The others spread over the LIDs or use the base LID, which is safe too. It is not safe to use a
/// LID with an SL other than that of its PathRecord.
///
/// **Balance.** If a tree permits several shortest paths, the paper takes one at random. Here the path whose
/// channels carry the fewest routes so far, over all trees, is taken, as in [`sssp`](super::sssp()); ties go
/// to the lowest port. Destinations are taken switch by switch in GUID order, on each switch in port GUID
/// order. Switch LIDs are last and add no load.
///
/// - `fabric`: S switches, C channels, D destination LIDs.
/// - `hops`: distances of the same fabric.
/// - `trees`: how many, at least 1; at most one per switch is built.
///
/// Returns tables that reach every LID of every attached end port from every switch, deadlock-free
/// if each tree has its own VL.
///
/// Measured on the networks of section 5.1 (switches with 4 links to distinct others and 4 adapters,
/// ten networks a size, our own with seeds 1 to 10), over all pairs of adapters on different
/// switches; *minimal* is the share of paths that are as short as the cables permit:
///
/// | switches | trees | minimal, sender chooses the LID | hops | minimal, one LID | hops |
/// |---------:|------:|--------------------------------:|-----:|-----------------:|-----:|
/// |  8 | 1 |  98.9 % | 1.439 |  98.9 % | 1.439 |
/// |  8 | 2 | 100.0 % | 1.429 | 100.0 % | 1.429 |
/// |  8 | 3 | 100.0 % | 1.429 | 100.0 % | 1.429 |
/// | 16 | 1 |  84.8 % | 2.152 |  84.8 % | 2.152 |
/// | 16 | 2 |  97.5 % | 1.995 |  92.5 % | 2.050 |
/// | 16 | 3 |  99.8 % | 1.972 |  95.8 % | 2.014 |
/// | 32 | 1 |  72.9 % | 2.963 |  72.9 % | 2.963 |
/// | 32 | 2 |  90.0 % | 2.664 |  81.4 % | 2.797 |
/// | 32 | 3 |  96.5 % | 2.579 |  86.3 % | 2.715 |
/// | 64 | 1 |  59.8 % | 3.920 |  59.8 % | 3.920 |
/// | 64 | 2 |  81.4 % | 3.440 |  68.7 % | 3.694 |
/// | 64 | 3 |  91.9 % | 3.276 |  74.1 % | 3.574 |
///
/// Having one out port per destination affects less than 0.1 % of the paths: switches that also consider the
/// in port would need 3.919 hops instead of 3.920 with one tree over 64 switches, and the same as here in all
/// other rows.
///
/// Cost: O(n S (S + C) + n S D + D E) time with n trees and E <= C the channels on shortest paths to
/// one destination; O(n (S + C)) memory beside the tables.
pub fn updn_trees(fabric: &Fabric, hops: &Hops, trees: u8) -> UpDnTrees {
    updn_trees_from(fabric, hops, updn_roots(fabric, hops, trees))
}

/// The same with given roots, at least one, as in section 5.5 of the paper. A root that occurs twice is that of two
/// equal trees: the paper compares several trees with one tree on as many VLs.
pub fn updn_trees_from(fabric: &Fabric, hops: &Hops, roots: Vec<SwitchId>) -> UpDnTrees {
    let mut lft = Lft::new(fabric);
    let mut tree_of = vec![0; fabric.lid_table_len()];
    let adapters = adapters_by_switch(fabric);
    let mut load = vec![0.0; fabric.channels().len()];
    let mut lids_of_tree = vec![0_u64; roots.len()];
    let mut trees: Vec<TreePaths> = roots.iter().map(|_| TreePaths::new(fabric)).collect();
    let mut dags: Vec<MinimalDag> = roots.iter().map(|_| MinimalDag::new()).collect();
    let mut paths = LeastLoaded::new(fabric);
    for target in fabric.switch_ids() {
        for ((tree, dag), &root) in trees.iter_mut().zip(&mut dags).zip(&roots) {
            tree.find(fabric, hops.row(root), target);
            tree.fill(fabric, hops.row(root), dag);
        }
        for (end, port) in ends_on(fabric, target) {
            let mut choice = Choice::new(fabric, &trees, &adapters);
            for lid in end.lids() {
                let tree = choice.next(&lids_of_tree);
                lids_of_tree[tree] += u64::from(end.is_adapter());
                tree_of[lid.index()] = tree as u8;
                let dag = &dags[tree];
                paths.turn_to(dag);
                paths.choose(dag, &load);
                paths.write(dag, lft.to_mut(lid));
                lft.set(target, lid, port);
                if end.is_adapter() {
                    paths.count(dag, &adapters, 1, &mut load);
                }
            }
        }
    }
    UpDnTrees { lft, roots, tree_of }
}

/// The roots of up to `trees` up*/down* trees, the best first; see [`updn_trees`].
///
/// Cost: O(n^2 S + n S^2) time with n trees and S switches.
pub fn updn_roots(fabric: &Fabric, hops: &Hops, trees: u8) -> Vec<SwitchId> {
    let total = |s: SwitchId| hops.row(s).iter().map(|&h| u64::from(h)).sum::<u64>();
    let mut roots: Vec<SwitchId> = fabric.switch_ids().min_by_key(|&s| total(s)).into_iter().collect();
    // The least and the largest distance between two roots.
    let mut range: Option<(u8, u8)> = None;
    while roots.len() < usize::from(trees) {
        let with = |s: SwitchId| {
            let to_roots = roots.iter().map(|&r| hops.get(r, s));
            to_roots.fold(range, |range, h| match range {
                None => Some((h, h)),
                Some((least, most)) => Some((least.min(h), most.max(h))),
            })
        };
        let key = |s: SwitchId| {
            let (least, most) = with(s).unwrap_or_default();
            let sum: u64 = roots.iter().map(|&r| u64::from(hops.get(r, s))).sum();
            (most - least, std::cmp::Reverse(sum), total(s))
        };
        let Some(next) = fabric.switch_ids().filter(|s| !roots.contains(s)).min_by_key(|&s| key(s)) else {
            break;
        };
        range = with(next);
        roots.push(next);
    }
    roots
}

/// Whether `a` is above `b`, by the distances to a root.
fn above(level: &[u8], a: SwitchId, b: SwitchId) -> bool {
    (level[a.index()], a) < (level[b.index()], b)
}

/// The paths of all switches to one destination switch in one tree.
struct TreePaths {
    /// By switch: length of its path in channels.
    length: Vec<u16>,
    /// By switch: whether it leads down.
    down: Vec<bool>,
    /// Switches in order of length.
    order: Vec<SwitchId>,
}

impl TreePaths {
    const UNKNOWN: u16 = u16::MAX;

    fn new(fabric: &Fabric) -> Self {
        let n = fabric.num_switches();
        Self { length: vec![Self::UNKNOWN; n], down: vec![false; n], order: Vec::with_capacity(n) }
    }

    /// Breadth first from the destination; `level`: distances to the root.
    fn find(&mut self, fabric: &Fabric, level: &[u8], target: SwitchId) {
        self.length.fill(Self::UNKNOWN);
        self.down.fill(false);
        self.order.clear();
        self.length[target.index()] = 0;
        self.down[target.index()] = true;
        self.order.push(target);
        let mut head = 0;
        while let Some(&next) = self.order.get(head) {
            head += 1;
            let length = self.length[next.index()] + 1;
            for (_, c) in fabric.channels().out(next) {
                let s = c.to;
                let known = self.length[s.index()];
                if known < length {
                    continue;
                }
                let leads_down = above(level, s, next);
                if leads_down && !self.down[next.index()] {
                    continue;
                }
                if known == Self::UNKNOWN {
                    self.length[s.index()] = length;
                    self.order.push(s);
                }
                // Of two paths of the same length take the one down, as switches above can use it too.
                self.down[s.index()] |= leads_down;
            }
        }
    }

    /// All paths of these lengths as a DAG.
    fn fill(&self, fabric: &Fabric, level: &[u8], dag: &mut MinimalDag) {
        dag.rebuild(fabric, &self.length, |c| {
            let (from, to) = (c.from.index(), c.to.index());
            let goes_down = above(level, c.from, c.to);
            self.length[to] + 1 == self.length[from]
                && goes_down == self.down[from]
                && (self.down[to] || !goes_down)
        });
    }
}

/// Assigns trees to the LIDs of one end port.
struct Choice<'a> {
    trees: &'a [TreePaths],
    adapters: &'a [u64],
    /// By switch: the shortest path over the LIDs so far.
    shortest: Vec<u16>,
    /// LIDs of the end port on each tree.
    lids: Vec<u64>,
}

impl<'a> Choice<'a> {
    fn new(fabric: &Fabric, trees: &'a [TreePaths], adapters: &'a [u64]) -> Self {
        let shortest = vec![TreePaths::UNKNOWN; fabric.num_switches()];
        Self { trees, adapters, shortest, lids: vec![0; trees.len()] }
    }

    /// The tree of the next LID; `all`: LIDs of all end ports on each tree.
    fn next(&mut self, all: &[u64]) -> usize {
        let sum = |tree: usize| {
            let lengths = self.shortest.iter().zip(&self.trees[tree].length);
            let weighed = lengths.zip(self.adapters);
            weighed.map(|((&a, &b), &adapters)| u64::from(a.min(b)) * adapters).sum::<u64>()
        };
        let best = (0..self.trees.len()).min_by_key(|&tree| (sum(tree), self.lids[tree], all[tree]));
        let best = best.expect("at least one tree");
        for (shortest, &length) in self.shortest.iter_mut().zip(&self.trees[best].length) {
            *shortest = length.min(*shortest);
        }
        self.lids[best] += 1;
        best
    }
}
