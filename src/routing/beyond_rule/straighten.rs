//! Detours made shortest paths.

use super::graph::Graph;
use super::{Effort, Tables, To, Way};
use crate::fabric::{ChannelId, SwitchId};
use crate::routing::under_rule::Forwarding;

/// Shortest paths of a detour that are tried. Random graphs have a handful.
const PATHS: usize = 8;

impl Tables<'_> {
    /// Makes detours shortest, destination by destination. Returns the adapter pairs whose paths have become so; `None` as soon as
    /// [too many](Effort::most_bent) are left.
    ///
    /// A detour takes the shortest path that changes the fewest entries, of several the one whose fullest channel has the
    /// least load, if the graph of dependencies stays free of cycles; else the first with which it does if one turn of the
    /// cycle gets another label. No path becomes longer: what a switch forwards moves with it.
    ///
    /// Cost: each detour takes at most `PATHS` (1 + `LABELS`) tries; each takes the cost of [`TopologicalOrder::admit`] for
    /// the dependencies that change, until the steps are spent.
    ///
    /// [`TopologicalOrder::admit`]: crate::ordering::TopologicalOrder::admit
    pub(super) fn straighten(
        &self,
        leading: &[To<'_>],
        graph: &mut Graph<'_>,
        effort: Effort,
        forwarding: &mut Forwarding,
    ) -> Option<u64> {
        let (before, begun) = (forwarding.detours, graph.steps());
        let most_left = effort.most_bent * forwarding.pairs as f64;
        let mut left = 0;
        for to in leading {
            let earned = effort.each * (before - forwarding.detours);
            let most = begun + effort.most.min(effort.detours + earned);
            left += self.straighten_to(to, graph, most, forwarding);
            if left as f64 > most_left {
                return None;
            }
        }
        Some(before - forwarding.detours)
    }

    /// Makes detours to one destination shortest, the nearest first. Returns the adapters whose paths are detours still.
    ///
    /// - `most`: steps of the graph, of all destinations.
    fn straighten_to(
        &self,
        to: &To<'_>,
        graph: &mut Graph<'_>,
        most: u64,
        forwarding: &mut Forwarding,
    ) -> u64 {
        let old = self.paths_to(self.read(forwarding, to));
        let mut next = old.next.clone();
        let row = self.hops.row(to.target);
        let senders = self.fabric.switch_ids().filter(|s| self.adapters[s.index()] > 0);
        let mut detours: Vec<SwitchId> = senders.filter(|&s| old.is_detour(row, s)).collect();
        detours.sort_by_key(|s| row[s.index()]);
        for &s in &detours {
            if graph.steps() < most && self.is_detour(&next, to, s) {
                let ways = self.shortest(&next, to, s, &forwarding.load);
                let changes: Vec<Way> = ways.iter().map(|way| changes(&next, way)).collect();
                let done = changes.iter().any(|changes| graph.take(&mut next, changes));
                if !done {
                    changes.iter().any(|changes| graph.take_by_label(&mut next, changes, most));
                }
            }
        }
        if next == old.next {
            return self.detours(&old, to);
        }
        let new = self.paths_to(next);
        self.write((&old, &new), to, forwarding);
        self.detours(&new, to)
    }

    /// What some shortest paths of a switch change, in the order in which they are tried.
    fn shortest(&self, next: &[Option<ChannelId>], to: &To<'_>, s: SwitchId, load: &[u64]) -> Vec<Way> {
        let channels = self.fabric.channels();
        let row = self.hops.row(to.target);
        let mut found: Vec<(usize, u64, Way)> = Vec::new();
        let mut open: Vec<(SwitchId, Way)> = vec![(s, Vec::new())];
        while let Some((at, way)) = open.pop().filter(|_| found.len() < PATHS) {
            if at == to.target {
                let changes = way.iter().filter(|(s, c)| next[s.index()] != Some(*c)).count();
                let fullest = way.iter().map(|(_, c)| load[c.index()]).max().unwrap_or(0);
                found.push((changes, fullest, way));
                continue;
            }
            for (id, c) in channels.out(at).filter(|(_, c)| row[c.to.index()] < row[at.index()]) {
                let longer = way.iter().copied().chain([(at, id)]).collect();
                open.push((c.to, longer));
            }
        }
        found.sort();
        found.into_iter().map(|(.., way)| way).collect()
    }
}

/// The entries that a path changes, from the target on: so there is no loop in between.
fn changes(next: &[Option<ChannelId>], way: &Way) -> Way {
    way.iter().rev().copied().filter(|(s, c)| next[s.index()] != Some(*c)).collect()
}
