//! What no routing can avoid: shares of pairs that need longer paths.

use std::collections::VecDeque;

use serde::Serialize;

use crate::fabric::{ChannelId, Fabric, SwitchId};

/// Lower bounds for the share of ordered adapter pairs without a shortest path if one SL or one VL
/// has to keep all pairs free of credit loops. Zero where nothing was proven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bounds {
    /// With one SL for all pairs and any number of VLs.
    pub one_sl_longer_at_least: f64,
    /// With one VL.
    pub one_vl_longer_at_least: f64,
}

/// Limit on the steps of the search for cycles; what is proven by then counts.
const MAX_STEPS: usize = 400_000_000;

impl Bounds {
    /// Proves lower bounds for a fabric, for any routing.
    ///
    /// With one SL, the VL of a hop depends on the in port and the out port, so each turn (two
    /// consecutive channels) leads to one virtual channel. If a path takes two consecutive turns,
    /// the virtual channel of the first depends on that of the second. Turns that follow each other
    /// in a cycle therefore close a cycle of virtual channels, so one of these successions must
    /// stay unused. A pair is *forced* through the successions on the only path from its source, up
    /// to the first switch with several next channels on shortest paths. All pairs that are forced
    /// through the unused succession lose their shortest path. So each cycle costs at least the
    /// pairs that are forced through its cheapest succession. Costs of cycles add up if they are
    /// charged to different pairs, or to different parts of the weight of a pair. With one VL the
    /// same holds for single channels instead of turns.
    ///
    /// Cycles are chosen greedily: a short one among those whose cheapest succession has the most
    /// pairs. It is charged to the pairs that lie on most of it, as far as each succession needs
    /// them. That is exact on rings, which have one cycle per direction: 50 switches lose 20.7 %
    /// with one SL. With many shortest paths nothing is forced and nothing is proven.
    ///
    /// - `fabric`: connected switches; pairs in different parts have no path to lose.
    ///
    /// Cost: O(S (S + C)) for the shortest paths and O(P h) memory for P pairs of switches with
    /// forced paths of h channels; then a pass over all successions per cycle, up to a fixed number
    /// of steps.
    pub fn new(fabric: &Fabric) -> Self {
        let adapters: Vec<u64> = fabric.switch_ids().map(|s| fabric.num_adapters_on(s) as u64).collect();
        let all: u64 = adapters.iter().sum();
        let pairs = all * all.saturating_sub(1);
        if pairs == 0 {
            return Self::default();
        }
        let (mut by_turn, mut by_channel) = (Forced::default(), Forced::default());
        let mut path = Vec::new();
        for target in fabric.switch_ids().filter(|t| adapters[t.index()] > 0) {
            let hops = hops_to(fabric, target);
            for source in fabric.switch_ids().filter(|s| adapters[s.index()] > 0) {
                forced_path(fabric, &hops, source, &mut path);
                let weight = adapters[source.index()] * adapters[target.index()];
                by_channel.add(weight, path.iter().map(|c| u64::from(c.0)));
                let turn = |two: &[ChannelId]| u64::from(two[0].0) << 32 | u64::from(two[1].0);
                by_turn.add(weight, path.windows(2).map(turn));
            }
        }
        let share = |forced: Forced| forced.lost() as f64 / pairs as f64;
        Self { one_sl_longer_at_least: share(by_turn), one_vl_longer_at_least: share(by_channel) }
    }
}

/// Hops from every switch to one, `u32::MAX` where there is no path.
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

/// The channels that all shortest paths from a switch start with.
fn forced_path(fabric: &Fabric, hops: &[u32], source: SwitchId, path: &mut Vec<ChannelId>) {
    path.clear();
    let mut at = source;
    while hops[at.index()] != u32::MAX && hops[at.index()] > 0 {
        let mut nearer =
            fabric.channels().out(at).filter(|(_, c)| hops[c.to.index()] + 1 == hops[at.index()]);
        let (Some((only, c)), None) = (nearer.next(), nearer.next()) else { break };
        path.push(only);
        at = c.to;
    }
}

/// Sequences that pairs are forced through, and their weights.
#[derive(Default)]
struct Forced {
    /// By pair of switches: its adapter pairs.
    weight: Vec<u64>,
    /// By pair: index of its first succession.
    first: Vec<usize>,
    /// Consecutive elements of each sequence, for all pairs in order.
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

    /// Lower bound of the weight lost.
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
    /// Start and end by arc, sorted by the start.
    arcs: Vec<(usize, usize)>,
    /// By node: index of its first arc.
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

    /// Whether each node can reach a cycle over arcs that are `open`.
    fn reaches_cycle(&self, open: impl Fn(usize) -> bool) -> Vec<bool> {
        let mut predecessors: Vec<Vec<usize>> = vec![Vec::new(); self.nodes];
        let mut left = vec![0_usize; self.nodes];
        for (i, &(a, b)) in self.arcs.iter().enumerate() {
            if open(i) {
                predecessors[b].push(a);
                left[a] += 1;
            }
        }
        let mut alive = vec![true; self.nodes];
        let mut dead: Vec<usize> = (0..self.nodes).filter(|&n| left[n] == 0).collect();
        while let Some(n) = dead.pop() {
            alive[n] = false;
            for &a in &predecessors[n] {
                left[a] -= 1;
                if left[a] == 0 {
                    dead.push(a);
                }
            }
        }
        alive
    }

    /// An arc of some cycle. Follows `open` arcs until a node repeats; each `alive` node has such
    /// an arc to another one.
    fn arc_on_cycle(&self, alive: &[bool], open: impl Fn(usize) -> bool) -> Option<usize> {
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

    /// The shortest cycle through an arc over arcs that are `open`, as arcs.
    fn cycle(&self, arc: usize, open: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
        let (goal, start) = self.arcs[arc];
        let mut over = vec![usize::MAX; self.nodes];
        let mut queue = VecDeque::from([start]);
        let mut seen = vec![false; self.nodes];
        seen[start] = true;
        while let Some(n) = queue.pop_front() {
            if n == goal {
                let mut cycle = vec![arc];
                let mut at = goal;
                while at != start {
                    cycle.push(over[at]);
                    at = self.arcs[over[at]].0;
                }
                return Some(cycle);
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

/// Cycles and the pairs that they are charged to.
struct Packing<'a> {
    graph: &'a Graph,
    /// By pair: weight not charged yet.
    left: Vec<u64>,
    first: &'a [usize],
    of_pair: &'a [usize],
    /// By arc: the pairs forced through it.
    pairs: Vec<Vec<usize>>,
    /// By arc: the weight that these still have.
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
        let mut steps = MAX_STEPS / (self.graph.arcs.len() + self.graph.nodes).max(1);
        let mut lost = 0;
        let mut most = self.weight.iter().copied().max().unwrap_or(0);
        while most > 0 && steps > 0 {
            steps -= 1;
            let alive = self.graph.reaches_cycle(|arc| self.weight[arc] >= most);
            if !alive.contains(&true) {
                most = self.next_level(most, &mut steps);
                continue;
            }
            let graph = self.graph;
            let open = |arc: usize| {
                let (a, b) = graph.arcs[arc];
                self.weight[arc] >= most && alive[a] && alive[b]
            };
            steps = steps.saturating_sub(2);
            let shortest = graph.arc_on_cycle(&alive, open).and_then(|arc| graph.cycle(arc, open));
            let Some(cycle) = shortest else { break };
            let cost = cycle.iter().map(|&arc| self.weight[arc]).min().unwrap_or(0);
            self.charge(&cycle, cost);
            lost += cost;
        }
        lost
    }

    /// The largest weight below `above` at which cycles remain; 0 if none does.
    fn next_level(&self, above: u64, steps: &mut usize) -> u64 {
        let mut levels: Vec<u64> = self.weight.iter().copied().filter(|&w| w > 0 && w < above).collect();
        levels.sort_unstable();
        levels.dedup();
        // The first `low` levels have cycles; those from `high` on have none.
        let (mut low, mut high) = (0, levels.len());
        while low < high {
            *steps = steps.saturating_sub(1);
            let middle = low + (high - low) / 2;
            let alive = self.graph.reaches_cycle(|arc| self.weight[arc] >= levels[middle]);
            if alive.contains(&true) { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1).map_or(0, |level| levels[level])
    }

    /// Charges `cost` for each arc of a cycle to the pairs forced through it, starting with those
    /// on most of its arcs.
    fn charge(&mut self, cycle: &[usize], cost: u64) {
        let mut need: Vec<(usize, u64)> = cycle.iter().map(|&arc| (arc, cost)).collect();
        need.sort_unstable();
        let mut on: Vec<usize> =
            cycle.iter().flat_map(|&arc| &self.pairs[arc]).copied().filter(|&p| self.left[p] > 0).collect();
        on.sort_unstable();
        let mut by_length: Vec<(usize, usize)> =
            on.chunk_by(|a, b| a == b).map(|same| (usize::MAX - same.len(), same[0])).collect();
        by_length.sort_unstable();
        for (_, pair) in by_length {
            let arcs = &self.of_pair[self.first[pair]..self.first[pair + 1]];
            let position = |arc: &usize| need.binary_search_by_key(arc, |n| n.0).ok();
            let positions: Vec<usize> = arcs.iter().filter_map(position).collect();
            let wanted = positions.iter().map(|&i| need[i].1).max().unwrap_or(0);
            let share = wanted.min(self.left[pair]);
            for i in positions {
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
        // Pairs up to 24 hops apart have only one path, so in either direction 22 + 21 + ... + 1 =
        // 253 of the 50 * 49 pairs use any three consecutive channels, and 276 any two.
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
