//! What no routing can do: shares of pairs that have to go a longer way.

use std::collections::VecDeque;

use serde::Serialize;

use crate::fabric::{ChannelId, Fabric, SwitchId};

/// Least shares of the ordered adapter pairs that cannot have a shortest path at the same time, if
/// every pair has to be free of credit loops by one SL or by one VL. Zero where nothing was proven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bounds {
    /// With one SL for all pairs, on however many VLs.
    pub one_sl_longer_at_least: f64,
    /// With one VL.
    pub one_vl_longer_at_least: f64,
}

/// Steps of the search for circles after which it is content with what it has proven.
const WORK: usize = 400_000_000;

impl Bounds {
    /// Proves lower bounds for a fabric, whatever the routing.
    ///
    /// With one SL the VL of a hop depends on the in port and the out port, so each turn (two
    /// channels in a row) has one virtual channel behind it. Where a path takes two turns in a row,
    /// the virtual channel of the second depends on that of the first. Turns that follow each other
    /// in a circle therefore close a circle of virtual channels, and one of these successions has to
    /// go unused. A pair is *forced* through a succession if it lies on the only way on from the
    /// source for as long as there is only one channel on any shortest path. All pairs that are
    /// forced through the unused succession lose their shortest path. So each circle costs at least
    /// the pairs that are forced through the least of its successions; and circles whose costs are
    /// charged to different pairs, or different parts of the weight of a pair, add up. With one VL
    /// the same holds of single channels instead of turns.
    ///
    /// Circles are taken greedily: one whose least succession has the most pairs, a short one of
    /// these; it is charged to the pairs that lie on most of it, as far as each succession needs them.
    /// That is exact on rings, which have one circle a direction: 50 switches lose 20.7 % with one SL.
    /// Where shortest paths are many nothing is forced and nothing is proven.
    ///
    /// - `fabric`: connected switches; pairs of parts count as having no path to lose.
    ///
    /// Cost: O(S (S + C)) for the shortest paths and O(P h) memory for P pairs of switches with
    /// forced ways of h channels; then a pass over all successions a circle, up to a fixed amount
    /// of work.
    pub fn new(fabric: &Fabric) -> Self {
        let adapters: Vec<u64> = fabric.switch_ids().map(|s| fabric.num_adapters_on(s) as u64).collect();
        let all: u64 = adapters.iter().sum();
        let pairs = all * all.saturating_sub(1);
        if pairs == 0 {
            return Self::default();
        }
        let (mut by_turn, mut by_channel) = (Forced::default(), Forced::default());
        let mut way = Vec::new();
        for target in fabric.switch_ids().filter(|t| adapters[t.index()] > 0) {
            let hops = hops_to(fabric, target);
            for source in fabric.switch_ids().filter(|s| adapters[s.index()] > 0) {
                forced_way(fabric, &hops, source, &mut way);
                let weight = adapters[source.index()] * adapters[target.index()];
                by_channel.add(weight, way.iter().map(|c| u64::from(c.0)));
                let turn = |two: &[ChannelId]| u64::from(two[0].0) << 32 | u64::from(two[1].0);
                by_turn.add(weight, way.windows(2).map(turn));
            }
        }
        let share = |forced: Forced| forced.lost() as f64 / pairs as f64;
        Self { one_sl_longer_at_least: share(by_turn), one_vl_longer_at_least: share(by_channel) }
    }
}

/// Hops from every switch to one, `u32::MAX` where there is no way.
fn hops_to(fabric: &Fabric, target: SwitchId) -> Vec<u32> {
    let mut hops = vec![u32::MAX; fabric.num_switches()];
    hops[target.index()] = 0;
    let mut queue = VecDeque::from([target]);
    while let Some(s) = queue.pop_front() {
        for (_, c) in fabric.channels().out(s) {
            if hops[c.to.index()] == u32::MAX {
                hops[c.to.index()] = hops[s.index()] + 1;
                queue.push_back(c.to);
            }
        }
    }
    hops
}

/// The channels that every shortest path begins with.
fn forced_way(fabric: &Fabric, hops: &[u32], source: SwitchId, way: &mut Vec<ChannelId>) {
    way.clear();
    let mut at = source;
    while hops[at.index()] != u32::MAX && hops[at.index()] > 0 {
        let mut nearer =
            fabric.channels().out(at).filter(|(_, c)| hops[c.to.index()] + 1 == hops[at.index()]);
        let (Some((only, c)), None) = (nearer.next(), nearer.next()) else { break };
        way.push(only);
        at = c.to;
    }
}

/// Sequences that pairs are forced through, and what they weigh.
#[derive(Default)]
struct Forced {
    /// By pair: adapters pairs.
    weight: Vec<u64>,
    /// By pair: where its successions begin.
    first: Vec<usize>,
    /// Two neighbours of a sequence and the next two, of all pairs in turn.
    successions: Vec<(u64, u64)>,
}

impl Forced {
    fn add(&mut self, weight: u64, sequence: impl Iterator<Item = u64>) {
        let start = self.successions.len();
        let mut last = None;
        for node in sequence {
            if let Some(last) = last.replace(node) {
                self.successions.push((last, node));
            }
        }
        if self.successions.len() > start {
            self.first.push(start);
            self.weight.push(weight);
        }
    }

    /// Weight that is lost at least.
    fn lost(mut self) -> u64 {
        self.first.push(self.successions.len());
        let mut arcs = self.successions.clone();
        arcs.sort_unstable();
        arcs.dedup();
        let mut nodes: Vec<u64> = arcs.iter().flat_map(|&(a, b)| [a, b]).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let node = |name: &u64| nodes.binary_search(name).expect("every end is a node");
        let graph = Graph::new(nodes.len(), arcs.iter().map(|(a, b)| (node(a), node(b))).collect());
        let arc_of = |arc: &(u64, u64)| arcs.binary_search(arc).expect("every succession is an arc");
        let of_pair: Vec<usize> = self.successions.iter().map(arc_of).collect();
        Packing::new(&graph, &self.weight, &self.first, &of_pair).run()
    }
}

/// A directed graph.
struct Graph {
    nodes: usize,
    /// Ends by arc, sorted by the first.
    arcs: Vec<(usize, usize)>,
    /// By node: where its arcs begin.
    first: Vec<usize>,
}

impl Graph {
    fn new(nodes: usize, arcs: Vec<(usize, usize)>) -> Self {
        let first = (0..=nodes).map(|node| arcs.partition_point(|a| a.0 < node)).collect();
        Self { nodes, arcs, first }
    }

    fn out(&self, node: usize) -> std::ops::Range<usize> {
        self.first[node]..self.first[node + 1]
    }

    /// The nodes from which a circle can be reached over arcs that are `open`.
    fn before_circles(&self, open: impl Fn(usize) -> bool) -> Vec<bool> {
        let mut behind: Vec<Vec<usize>> = vec![Vec::new(); self.nodes];
        let mut left = vec![0_usize; self.nodes];
        for (i, &(a, b)) in self.arcs.iter().enumerate() {
            if open(i) {
                behind[b].push(a);
                left[a] += 1;
            }
        }
        let mut alive = vec![true; self.nodes];
        let mut dead: Vec<usize> = (0..self.nodes).filter(|&n| left[n] == 0).collect();
        while let Some(n) = dead.pop() {
            alive[n] = false;
            for &a in &behind[n] {
                left[a] -= 1;
                if left[a] == 0 {
                    dead.push(a);
                }
            }
        }
        alive
    }

    /// An arc of some circle: follows arcs that are `open`, of which each node that is `alive` has
    /// one to another, until it comes back to where it has been.
    fn on_a_circle(&self, alive: &[bool], open: impl Fn(usize) -> bool) -> Option<usize> {
        let mut at = alive.iter().position(|&alive| alive)?;
        let mut seen = vec![false; self.nodes];
        loop {
            let arc = self.out(at).find(|&i| open(i))?;
            if std::mem::replace(&mut seen[at], true) {
                return Some(arc);
            }
            at = self.arcs[arc].1;
        }
    }

    /// The shortest circle through an arc over arcs that are `open`, as arcs.
    fn circle(&self, arc: usize, open: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
        let (goal, start) = self.arcs[arc];
        let mut over = vec![usize::MAX; self.nodes];
        let mut queue = VecDeque::from([start]);
        let mut seen = vec![false; self.nodes];
        seen[start] = true;
        while let Some(n) = queue.pop_front() {
            if n == goal {
                let mut circle = vec![arc];
                let mut at = goal;
                while at != start {
                    circle.push(over[at]);
                    at = self.arcs[over[at]].0;
                }
                return Some(circle);
            }
            for i in self.out(n).filter(|&i| open(i)) {
                let to = self.arcs[i].1;
                if !std::mem::replace(&mut seen[to], true) {
                    over[to] = i;
                    queue.push_back(to);
                }
            }
        }
        None
    }
}

/// Circles charged to pairs.
struct Packing<'a> {
    graph: &'a Graph,
    /// By pair: weight that is not charged yet.
    left: Vec<u64>,
    first: &'a [usize],
    of_pair: &'a [usize],
    /// By arc: the pairs forced through it.
    pairs: Vec<Vec<usize>>,
    /// By arc: what they still weigh.
    weight: Vec<u64>,
}

impl<'a> Packing<'a> {
    fn new(graph: &'a Graph, weights: &[u64], first: &'a [usize], of_pair: &'a [usize]) -> Self {
        let mut pairs: Vec<Vec<usize>> = vec![Vec::new(); graph.arcs.len()];
        let mut weight = vec![0; graph.arcs.len()];
        for (pair, range) in first.windows(2).enumerate() {
            for &arc in &of_pair[range[0]..range[1]] {
                pairs[arc].push(pair);
                weight[arc] += weights[pair];
            }
        }
        Self { graph, left: weights.to_vec(), first, of_pair, pairs, weight }
    }

    fn run(mut self) -> u64 {
        let mut work = WORK / (self.graph.arcs.len() + self.graph.nodes).max(1);
        let mut lost = 0;
        let mut most = self.weight.iter().copied().max().unwrap_or(0);
        while most > 0 && work > 0 {
            work -= 1;
            let alive = self.graph.before_circles(|arc| self.weight[arc] >= most);
            if !alive.contains(&true) {
                most = self.next_level(most, &mut work);
                continue;
            }
            let graph = self.graph;
            let open = |arc: usize| {
                let (a, b) = graph.arcs[arc];
                self.weight[arc] >= most && alive[a] && alive[b]
            };
            work = work.saturating_sub(2);
            let shortest = graph.on_a_circle(&alive, open).and_then(|arc| graph.circle(arc, open));
            let Some(circle) = shortest else { break };
            let cost = circle.iter().map(|&arc| self.weight[arc]).min().unwrap_or(0);
            self.charge(&circle, cost);
            lost += cost;
        }
        lost
    }

    /// The largest weight below which no circle is left: less than `above`.
    fn next_level(&self, above: u64, work: &mut usize) -> u64 {
        let mut levels: Vec<u64> = self.weight.iter().copied().filter(|&w| w > 0 && w < above).collect();
        levels.sort_unstable();
        levels.dedup();
        // The first `low` levels have circles, those from `high` on have none.
        let (mut low, mut high) = (0, levels.len());
        while low < high {
            *work = work.saturating_sub(1);
            let middle = low + (high - low) / 2;
            let alive = self.graph.before_circles(|arc| self.weight[arc] >= levels[middle]);
            if alive.contains(&true) { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1).map_or(0, |level| levels[level])
    }

    /// Charges `cost` for each arc of a circle to the pairs forced through it, those first that lie
    /// on most of its arcs.
    fn charge(&mut self, circle: &[usize], cost: u64) {
        let mut need: Vec<(usize, u64)> = circle.iter().map(|&arc| (arc, cost)).collect();
        need.sort_unstable();
        let mut on: Vec<usize> =
            circle.iter().flat_map(|&arc| &self.pairs[arc]).copied().filter(|&p| self.left[p] > 0).collect();
        on.sort_unstable();
        let mut by_length: Vec<(usize, usize)> =
            on.chunk_by(|a, b| a == b).map(|same| (usize::MAX - same.len(), same[0])).collect();
        by_length.sort_unstable();
        for (_, pair) in by_length {
            let arcs = &self.of_pair[self.first[pair]..self.first[pair + 1]];
            let place = |arc: &usize| need.binary_search_by_key(arc, |n| n.0).ok();
            let places: Vec<usize> = arcs.iter().filter_map(place).collect();
            let wanted = places.iter().map(|&i| need[i].1).max().unwrap_or(0);
            let share = wanted.min(self.left[pair]);
            for i in places {
                need[i].1 -= share.min(need[i].1);
            }
            self.left[pair] -= share;
            for &arc in arcs {
                self.weight[arc] -= share;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Dragonfly, FatTree, Hypercube, Mesh, Random, Ring, SlimFly};

    #[test]
    fn a_ring_of_fifty_loses_a_fifth_with_one_sl() {
        // 24 hops at most have only one way, so 22 + 21 + ... + 1 = 253 pairs go through any three
        // channels in a row, and 276 through any two: in either direction, of 50 * 49 pairs.
        let f = Ring { switches: 50, cas: 1 }.build().unwrap();
        let bounds = Bounds::new(&f);
        assert_eq!(bounds.one_sl_longer_at_least, 2.0 * 253.0 / 2450.0);
        assert_eq!(bounds.one_vl_longer_at_least, 2.0 * 276.0 / 2450.0);
    }

    #[test]
    fn small_rings_can_and_larger_ones_cannot() {
        for switches in 3..12 {
            let f = Ring { switches, cas: 2 }.build().unwrap();
            let bounds = Bounds::new(&f);
            assert_eq!(bounds.one_sl_longer_at_least > 0.0, switches >= 7, "{switches}");
            assert_eq!(bounds.one_vl_longer_at_least > 0.0, switches >= 5, "{switches}");
        }
    }

    #[test]
    fn nothing_is_proven_of_what_can_be_done() {
        for f in [
            Mesh { dims: vec![5, 4], cas: 1 }.build().unwrap(),
            Hypercube { n: 5, cas: 1 }.build().unwrap(),
            FatTree { k: 4, levels: 3, down: None, cas: None }.build().unwrap(),
        ] {
            assert_eq!(Bounds::new(&f), Bounds::default(), "{f}");
        }
        for f in [Dragonfly::balanced(3).build().unwrap(), SlimFly { q: 5, cas: None }.build().unwrap()] {
            let bounds = Bounds::new(&f);
            assert_eq!(bounds.one_sl_longer_at_least, 0.0, "{f}");
            assert!(bounds.one_vl_longer_at_least > 0.0, "{f}");
        }
    }

    #[test]
    fn sparse_random_graphs_cannot() {
        let f = Random { switches: 128, degree: 4, cas: 1, seed: 1 }.build().unwrap();
        let bounds = Bounds::new(&f);
        assert!(bounds.one_sl_longer_at_least > 0.01, "{bounds:?}");
        assert!(bounds.one_sl_longer_at_least <= bounds.one_vl_longer_at_least, "{bounds:?}");
    }
}
