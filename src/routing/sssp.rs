//! P-SSSP: globally balanced minimal routing.

use super::Hops;
use crate::fabric::{ChannelId, Fabric, Lid, SwitchId};
use crate::tables::Lft;

/// Forwarding tables by P-SSSP (Hoefler et al., section III.A and Fig. 2(a)).
///
/// One destination LID after the other takes, from every switch, the minimal path whose channels
/// carry the fewest routes so far; then the routes of this destination are counted on the channels
/// of its tree. The paper weighs each edge with P^2 + routes so that no path is longer than
/// minimal; here the cost is the pair (hops, sum of routes along the path) outright, which is the
/// same order without the large numbers.
///
/// A route counts once for each adapter end port that may send it. Destinations come switch by
/// switch in GUID order, on each switch in port GUID order, each with all LIDs of its LMC range, so
/// that the LIDs of one port spread over different paths. Switch LIDs (management traffic) follow
/// the least loaded paths but count as no load. Ties go to the lowest port of the switch.
///
/// - `fabric`: S switches, C channels, D destination LIDs.
/// - `hops`: distances of the same fabric.
///
/// Returns tables that reach every LID of every attached end port from every switch.
///
/// Cost: O(S C + D E) time with E <= C the channels of one minimal-path DAG, which is built once a
/// destination switch; O(S + C) memory beside the tables.
pub fn sssp(fabric: &Fabric, hops: &Hops) -> Lft {
    let mut lft = Lft::new(fabric);
    let adapters: Vec<u64> = fabric.switch_ids().map(|s| fabric.num_adapters_on(s) as u64).collect();
    let mut load = vec![0_u64; fabric.channels().len()];
    let mut dag = Dag::new(fabric);
    for target in fabric.switch_ids() {
        dag.rebuild(fabric, hops, target);
        let mut endports: Vec<_> = fabric.endports_on(target).iter().map(|&e| fabric.endport(e)).collect();
        endports.sort_by_key(|e| !e.is_adapter());
        for end in endports {
            let Some((_, port)) = end.attachment else { continue };
            for lid in end.lids() {
                dag.choose(&load);
                dag.write(fabric, lid, &mut lft);
                lft.set(target, lid, port);
                if end.is_adapter() {
                    dag.count(&adapters, &mut load);
                }
            }
        }
    }
    lft
}

/// All minimal paths to one switch: the other switches by distance, each with the channels that
/// lead one hop nearer.
struct Dag {
    /// Switches in order of distance, the target first.
    order: Vec<SwitchId>,
    /// Per place in `order`: where its channels begin in `channels`.
    first: Vec<u32>,
    /// (channel, place of the switch that it leads to).
    channels: Vec<(ChannelId, u32)>,
    /// Per place: the channel chosen, and the place that it leads to.
    chosen: Vec<(ChannelId, u32)>,
    /// Per place: routes on the chosen path to the target.
    cost: Vec<u64>,
    /// Per place: routes that pass the switch.
    flow: Vec<u64>,
    /// Place of each switch.
    place: Vec<u32>,
}

impl Dag {
    fn new(fabric: &Fabric) -> Self {
        let n = fabric.num_switches();
        Self {
            order: Vec::with_capacity(n),
            first: Vec::with_capacity(n + 1),
            channels: Vec::with_capacity(fabric.channels().len()),
            chosen: vec![(ChannelId(0), 0); n],
            cost: vec![0; n],
            flow: vec![0; n],
            place: vec![0; n],
        }
    }

    fn rebuild(&mut self, fabric: &Fabric, hops: &Hops, target: SwitchId) {
        let row = hops.row(target);
        self.order.clear();
        self.order.extend(fabric.switch_ids());
        self.order.sort_by_key(|s| row[s.index()]);
        for (place, s) in self.order.iter().enumerate() {
            self.place[s.index()] = place as u32;
        }
        self.first.clear();
        self.channels.clear();
        for &s in &self.order {
            self.first.push(self.channels.len() as u32);
            for (id, c) in fabric.channels().out(s) {
                if row[c.to.index()] + 1 == row[s.index()] {
                    self.channels.push((id, self.place[c.to.index()]));
                }
            }
        }
        self.first.push(self.channels.len() as u32);
    }

    /// Each switch takes the channel with the least load along the rest of the path.
    fn choose(&mut self, load: &[u64]) {
        for place in 1..self.order.len() {
            let options = &self.channels[self.first[place] as usize..self.first[place + 1] as usize];
            let mut best = (u64::MAX, (ChannelId(0), 0));
            for &(channel, next) in options {
                let cost = load[channel.index()] + self.cost[next as usize];
                if cost < best.0 {
                    best = (cost, (channel, next));
                }
            }
            (self.cost[place], self.chosen[place]) = best;
        }
    }

    fn write(&self, fabric: &Fabric, lid: Lid, lft: &mut Lft) {
        let ports = lft.to_mut(lid);
        for (s, &(channel, _)) in self.order.iter().zip(&self.chosen).skip(1) {
            ports[s.index()] = fabric.channels().get(channel).out_port.0;
        }
    }

    /// Counts the routes of all adapters to the target on the chosen channels.
    fn count(&mut self, adapters: &[u64], load: &mut [u64]) {
        for (flow, s) in self.flow.iter_mut().zip(&self.order) {
            *flow = adapters[s.index()];
        }
        for place in (1..self.order.len()).rev() {
            let (channel, next) = self.chosen[place];
            load[channel.index()] += self.flow[place];
            self.flow[next as usize] += self.flow[place];
        }
    }
}
