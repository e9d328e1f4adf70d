//! Paths that move to channels with less load.

use super::graph::Graph;
use super::{PathsTo, Tables, To};
use crate::fabric::ChannelId;
use crate::routing::demand::Loads;
use crate::routing::under_rule::Forwarding;

/// A path moves to one with fewer routes by one in so many. Where all that have fewer move, four times as many do, for a few
/// thousandths of the bandwidth at most.
const LESS: u64 = 20;
/// How often each destination has its turn: the first time many paths cannot move yet. On an Internet map of 600 switches
/// the second time brings .8 % of the bandwidth of bisections.
const PASSES: usize = 2;

impl Tables<'_> {
    /// Levels the load, destination by destination. Returns how many entries have changed.
    ///
    /// As with [`sssp`](crate::routing::sssp), a switch prefers the path whose channels carry the fewest routes to other
    /// destinations in all. It takes the first one that has [fewer](LESS) than its own, is not longer, and closes no cycle;
    /// turns that no packets take yet may get another label for that. Switches that are nearer to the destination come
    /// first.
    ///
    /// Cost: O(S (log S + d)) for each destination with S switches and d channels of a switch, and that of [`Graph::take`] for
    /// each path that is tried, until the steps are spent.
    pub(super) fn level(
        &self,
        leading: &[To<'_>],
        graph: &mut Graph<'_>,
        steps: u64,
        forwarding: &mut Forwarding,
    ) -> u64 {
        if steps == 0 {
            return 0;
        }
        let mut loads = Loads::<u64>::new(&self.demand);
        for to in leading {
            let paths = self.paths_to(self.read(forwarding, to));
            self.count_by_role(&paths, to, &mut loads, |load, routes| *load += routes);
        }
        let (begun, mut moved) = (graph.steps(), 0);
        for (turn, to) in (0..PASSES).flat_map(|_| leading.iter().enumerate()) {
            if graph.steps() - begun >= steps {
                break;
            }
            if turn == 0 {
                graph.forget();
            }
            let old = self.paths_to(self.read(forwarding, to));
            self.count_by_role(&old, to, &mut loads, |load, routes| *load -= routes);
            let role = self.fabric.duty(to.end).role;
            let next = self.lighter(&old, graph, loads.of(role));
            let changed = old.next.iter().zip(&next).filter(|(old, new)| old != new).count() as u64;
            let new = (changed > 0).then(|| self.paths_to(next));
            self.count_by_role(new.as_ref().unwrap_or(&old), to, &mut loads, |load, routes| *load += routes);
            if let Some(new) = new {
                self.write((&old, &new), to, forwarding);
                moved += changed;
            }
        }
        moved
    }

    /// Counts routes to a destination in what each role is routed by.
    fn count_by_role(&self, paths: &PathsTo, to: &To<'_>, loads: &mut Loads<u64>, count: fn(&mut u64, u64)) {
        loads.count(self.fabric.duty(to.end).role, |times, load| {
            (0..times).for_each(|_| self.count(paths, to, load, count));
        });
    }

    /// The next hops to a destination, with less load where that is possible.
    ///
    /// - `load`: by channel, of other destinations.
    fn lighter(&self, old: &PathsTo, graph: &mut Graph<'_>, load: &[u64]) -> Vec<Option<ChannelId>> {
        let channels = self.fabric.channels();
        let (mut next, mut length) = (old.next.clone(), old.hops.clone());
        let mut sums: Vec<u64> = vec![0; next.len()];
        for &(s, here) in &old.outward {
            let sum = |channel: ChannelId| sums[channels.get(channel).to.index()] + load[channel.index()];
            let least = sum(here) - sum(here) / LESS;
            let others = channels
                .out(s)
                .filter(|(id, c)| length[c.to.index()] < length[s.index()] && sum(*id) < least);
            let mut others: Vec<(u64, ChannelId)> = others.map(|(id, _)| (sum(id), id)).collect();
            others.sort_unstable();
            let taken = others.into_iter().map(|(_, id)| id).find(|&id| graph.take(&mut next, &[(s, id)]));
            let here = taken.unwrap_or(here);
            sums[s.index()] = sum(here);
            length[s.index()] = length[channels.get(here).to.index()] + 1;
        }
        next
    }
}
