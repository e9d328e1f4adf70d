//! Paths for switches whose own violate the rule.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::graph::Graph;
use super::{Ascent, Tables, To, destinations, follow};
use crate::fabric::{ChannelId, Fabric, Lid, SwitchId};
use crate::ordering::Rule;
use crate::routing::demand::Demand;
use crate::routing::under_rule::Forwarding;
use crate::routing::{Hops, adapters_by_switch};
use crate::tables::McastGroup;

/// How often all destinations begin again. A hypercube of 1,024 switches without 60 links needs three times.
const BEGINNINGS: usize = 4;
/// One in so many destinations may have the tree: detours to more of them would cost as much as several SLs.
const BY_TREE: usize = 200;

/// Gives a legal path to each switch whose own path violates the rule. Destinations with the most such switches come
/// first, as they are the hardest. A destination that fails goes to the front, and all begin again, some times. After that,
/// or where one fails once more, all switches take the first tree to it, up to one in two hundred destinations.
///
/// Returns the rule that all paths obey then, and the tables. The trees close no cycle with any paths that obey it. `None`
/// where some switch finds no path and there is no tree, or a tree does not fit beside the legal paths.
///
/// The switches nearest to the destination come first. Each takes the next hop with the shortest path, of several the one
/// whose fullest channel has the least load, if the graph of dependencies stays free of cycles; else the first with which it
/// does if one turn of the cycle gets another label. Where a switch finds none, it tries again once farther ones have paths.
/// If that does not help, all switches get new paths to that destination.
///
/// - `ascent`: how packets of the legal paths ascend; turns of its trees may get another label.
/// - `work`: vertices that searches meet, and turns of packets that change, for new paths.
/// - `broken`: tables that are complete but for [`Forwarding::broken`].
///
/// Cost: as [`refit`](super::refit) for the graph; then O(d H) for each broken entry, with d channels of a switch and paths
/// of H hops, and the steps. A copy of the graph and of the tables each time that all begins anew.
pub fn complete(
    fabric: &Fabric,
    hops: &Hops,
    ascent: Ascent<'_>,
    work: u64,
    broken: &Forwarding,
) -> Option<(Rule, Forwarding)> {
    let adapters = adapters_by_switch(fabric);
    let tables = Tables { fabric, hops, adapters: &adapters, demand: Demand::new(fabric) };
    let (leaders, followers) = destinations(fabric);
    let mut without: HashMap<Lid, Vec<SwitchId>> = HashMap::new();
    for &(s, lid) in &broken.broken {
        without.entry(lid).or_default().push(s);
    }
    let legal = |to: &To<'_>| {
        let mut next = tables.read(broken, to);
        without.get(&to.lid).into_iter().flatten().for_each(|s| next[s.index()] = None);
        next
    };
    let mut graph = Graph::of_paths(fabric, ascent, &leaders, legal)?;
    if !ascent.trees.iter().all(|tree| graph.take_tree(tree)) {
        return None;
    }
    let wanted = leaders.iter().filter_map(|to| Some((to, without.remove(&to.lid)?)));
    let mut wanted: Vec<(&To<'_>, Vec<SwitchId>)> = wanted.collect();
    wanted.sort_by_key(|(_, without)| Reverse(without.len()));
    let (begin, mut left, mut failed) = (graph, work, HashSet::new());
    let (graph, mut found) = loop {
        let (mut graph, mut found) = (begin.clone(), broken.clone());
        let mut trees_left = leaders.len() / BY_TREE;
        let is_last = |lid: Lid| failed.len() == BEGINNINGS || failed.contains(&lid);
        let most = graph.steps() + left;
        let fails = wanted.iter().position(|(to, without)| {
            let tree = || {
                trees_left = trees_left.checked_sub(1).filter(|_| is_last(to.lid))?;
                ascent.trees.first()
            };
            tables.complete(to, (without.clone(), tree), (&mut graph, most), &mut found).is_none()
        });
        let Some(fails) = fails else { break (graph, found) };
        left = most.saturating_sub(graph.steps());
        let lid = wanted[fails].0.lid;
        let is_hopeless = ascent.trees.is_empty() && fails == 0;
        if is_hopeless || left == 0 || is_last(lid) {
            return None;
        }
        failed.insert(lid);
        wanted[..=fails].rotate_right(1);
    };
    follow(&followers, &mut found);
    found.broken.clear();
    (found.broken_pairs, found.complete) = (0, true);
    Some((graph.into_rule(), found))
}

impl Tables<'_> {
    /// Gives switches without a path to a destination one. `None` where some find none, and there is no tree.
    ///
    /// - `without`: these switches, and the tree that all take where some find none.
    /// - `graph`: with the most steps that it may come to.
    fn complete<'t>(
        &self,
        to: &To<'_>,
        (without, tree): (Vec<SwitchId>, impl FnOnce() -> Option<&'t McastGroup>),
        (graph, most): (&mut Graph<'_>, u64),
        found: &mut Forwarding,
    ) -> Option<()> {
        let old = self.paths_to(self.read(found, to));
        let mut next = old.next.clone();
        without.iter().for_each(|s| next[s.index()] = None);
        let mut paths = Paths { tables: self, to, graph, next, load: &found.load, most };
        if !paths.complete(without) {
            paths.clear();
            let all = self.fabric.switch_ids().filter(|&s| s != to.target).collect();
            if !paths.complete(all) {
                paths.clear();
                paths.follow(tree()?)?;
            }
        }
        let new = self.paths_to(paths.next);
        self.write((&old, &new), to, found);
        Some(())
    }
}

/// The paths to a destination, some of them missing.
struct Paths<'p, 'a> {
    tables: &'p Tables<'p>,
    to: &'p To<'p>,
    graph: &'p mut Graph<'a>,
    /// By switch.
    next: Vec<Option<ChannelId>>,
    /// By channel.
    load: &'p [u64],
    /// Steps of the graph.
    most: u64,
}

impl Paths<'_, '_> {
    /// Gives switches a path over others, the nearest first. Returns whether each has one in the end.
    ///
    /// - `without`: the switches without a path.
    fn complete(&mut self, mut without: Vec<SwitchId>) -> bool {
        without.sort_by_key(|&s| self.tables.hops.get(s, self.to.target));
        let mut before = usize::MAX;
        while without.len() < before {
            before = without.len();
            without.retain(|&s| !self.complete_from(s));
        }
        without.is_empty()
    }

    /// Takes all paths away.
    fn clear(&mut self) {
        self.graph.remove(&self.next);
        self.next.fill(None);
    }

    /// All switches take a tree whose packets are in the graph: that closes no cycle. `None` where it does not reach all.
    fn follow(&mut self, tree: &McastGroup) -> Option<()> {
        let channels = self.tables.fabric.channels();
        let mut reached = vec![self.to.target];
        let mut at = 0;
        while let Some(&s) = reached.get(at) {
            at += 1;
            for id in tree.at(s).iter().filter_map(|port| channels.at_port(s, port)) {
                let c = channels.get(id);
                if c.to != self.to.target && self.next[c.to.index()].is_none() {
                    self.graph.take(&mut self.next, &[(c.to, c.reverse)]).then(|| reached.push(c.to))?;
                }
            }
        }
        (reached.len() == self.next.len()).then_some(())
    }

    /// Gives a switch without a path one over a neighbour that has one. Returns whether one fits.
    fn complete_from(&mut self, s: SwitchId) -> bool {
        let channels = self.tables.fabric.channels();
        let over = |(id, n): (ChannelId, SwitchId)| {
            let (mut at, mut length, mut fullest) = (n, 1, self.load[id.index()]);
            for (_, c) in self.tables.path(&self.next, n) {
                (at, length, fullest) = (channels.get(c).to, length + 1, fullest.max(self.load[c.index()]));
            }
            (at == self.to.target).then_some((length, fullest, id))
        };
        let mut ways: Vec<(usize, u64, ChannelId)> =
            channels.out(s).map(|(id, c)| (id, c.to)).filter_map(over).collect();
        ways.sort_unstable();
        let (graph, next, most) = (&mut *self.graph, &mut self.next, self.most);
        ways.iter().any(|&(.., id)| graph.steps() < most && graph.take(next, &[(s, id)]))
            || ways
                .iter()
                .any(|&(.., id)| graph.steps() < most && graph.take_by_label(next, &[(s, id)], most))
    }
}
