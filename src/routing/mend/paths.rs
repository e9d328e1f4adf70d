//! New paths to one destination.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Choice;
use super::graph::Graph;
use super::tables::Mending;
use crate::fabric::{ChannelId, Lid, SwitchId};
use crate::routing::demand::Demand;

impl Mending<'_> {
    /// The next hop of each switch to a destination; `None` at the target, and for switches that are gone what they
    /// had.
    /// Where the switches that have lost their paths find none, all may move. Where they still find none and the
    /// destination may [stray](Mending::may_stray), the new paths have to fit into `ends` alone.
    pub(super) fn route(
        &self,
        lid: Lid,
        graphs: &mut [Graph<'_>; 2],
        load: &[u64],
        choice: Choice,
        demand: &Demand<'_>,
    ) -> Option<Vec<Option<ChannelId>>> {
        let target = self.target(lid)?;
        let old: Vec<Option<ChannelId>> = self.fabric.switch_ids().map(|s| self.next(s, lid)).collect();
        let left = self.hops_left(target, &old);
        let mut nothing = vec![None; left.len()];
        nothing[target.index()] = Some(0);
        let owner = self.fabric.endport(self.fabric.owner_of(lid)?);
        let routes = if owner.is_adapter() { Some(demand.to(owner)) } else { None };
        let strays = if self.may_stray { &[false, true][..] } else { &[false] };
        let attempts = strays.iter().flat_map(|&strays| [(&left, strays), (&nothing, strays)]);
        attempts.into_iter().find_map(|(hops, strays)| {
            graphs.iter_mut().for_each(Graph::begin);
            let next = self.search(&old, hops.clone(), graphs, load.to_vec(), (choice, strays, routes));
            if next.is_none() {
                graphs.iter_mut().for_each(|graph| graph.back_to(0));
            }
            next
        })
    }

    /// - `hops`: of the paths that stay.
    /// - `strays`: whether new entries need not fit into `rest`.
    /// - `routes`: from each switch, and how often they count.
    pub(super) fn search(
        &self,
        old: &[Option<ChannelId>],
        mut hops: Vec<Option<u32>>,
        [ends, rest]: &mut [Graph<'_>; 2],
        mut load: Vec<u64>,
        (choice, strays, routes): (Choice, bool, Option<(&[u64], u64)>),
    ) -> Option<Vec<Option<ChannelId>>> {
        let channels = self.fabric.channels();
        let weights = self.fabric.weights().by_channel();
        ends.lay(old, |s| !self.present[s.index()] || hops[s.index()].is_some());
        rest.lay(old, |_| true);
        let mut next = old.to_vec();
        // The largest load on the way to the target, and the sum of all.
        let cost = |next: &[Option<ChannelId>], load: &[u64], channel: ChannelId| {
            let after = |c: &ChannelId| next[channels.get(*c).to.index()];
            let loads = std::iter::successors(Some(channel), after).map(|c| load[c.index()]);
            loads.fold((0, 0), |(most, sum), load| (load.max(most), sum + load))
        };
        let mut open = BinaryHeap::new();
        let candidate = |length: u32, next: &[_], load: &[_], from: SwitchId, channel: ChannelId| {
            let is_new = old[from.index()] != Some(channel);
            let cost = cost(next, load, channel);
            Reverse((length + 1, is_new && !choice.by_load, cost, is_new, from, channel))
        };
        for from in self.fabric.switch_ids().filter(|s| hops[s.index()].is_none()) {
            for (channel, c) in channels.out(from).filter(|(channel, _)| self.alive[channel.index()]) {
                open.extend(hops[c.to.index()].map(|length| candidate(length, &next, &load, from, channel)));
            }
        }
        while let Some(Reverse((length, first, price, is_new, from, channel))) = open.pop() {
            if hops[from.index()].is_some() {
                continue;
            }
            let now = cost(&next, &load, channel);
            if now > price {
                open.push(Reverse((length, first, now, is_new, from, channel)));
                continue;
            }
            let was = old[from.index()].filter(|_| is_new);
            let is_left = was.is_some_and(|was| self.alive[was.index()]);
            let (in_ends, in_rest) = (ends.mark(), rest.mark());
            let mut fits = |late: bool, vl: Option<u8>| {
                if let Some(vl) = vl {
                    ends.choose(channel, vl, &rest.all.waiting);
                    if ends.mark() == in_ends {
                        return false;
                    }
                }
                let with_ends = was.filter(|_| late || !is_left);
                let fits = ends.add(from, channel, &[])
                    && match with_ends {
                        Some(was) => ends.add(from, was, &[]),
                        None => !is_new || strays || rest.add(from, channel, &ends.all.vls_after),
                    };
                if !fits {
                    ends.back_to(in_ends);
                    rest.back_to(in_rest);
                }
                fits
            };
            let mut on_some_vl =
                |late: bool| fits(late, None) || (0..self.most_vls).any(|vl| fits(late, Some(vl)));
            if !(on_some_vl(false) || choice.late && is_left && on_some_vl(true)) {
                continue;
            }
            hops[from.index()] = Some(length);
            next[from.index()] = Some(channel);
            if let Some((routes, times)) = routes {
                let mut at = Some(channel);
                while let Some(channel) = at {
                    let weight = u64::from(weights[channel.index()]);
                    load[channel.index()] += routes[from.index()] * times * weight;
                    at = next[channels.get(channel).to.index()];
                }
            }
            for back in channels.out(from).map(|(_, back)| back) {
                if self.alive[back.reverse.index()] && hops[back.to.index()].is_none() {
                    open.push(candidate(length, &next, &load, back.to, back.reverse));
                }
            }
        }
        let missing = self.fabric.switch_ids().any(|s| self.present[s.index()] && hops[s.index()].is_none());
        (!missing).then_some(next)
    }
}
