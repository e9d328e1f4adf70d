//! The least loaded paths over a DAG, for one destination after the other.

use crate::fabric::{Fabric, Lid};
use crate::routing::minimal_dag::{MinimalDag, NextHop};
use crate::tables::Lft;

/// The least loaded paths of all switches to one destination.
pub(super) struct LeastLoaded {
    /// By switch: its next hop.
    chosen: Vec<NextHop>,
    /// By switch: routes on the channels of its path.
    cost: Vec<u64>,
    /// By switch: routes that pass it.
    flow: Vec<u64>,
    /// By channel: see [`Weights`](crate::fabric::Weights).
    weights: Vec<u8>,
}

impl LeastLoaded {
    pub(super) fn new(fabric: &Fabric) -> Self {
        let n = fabric.num_switches();
        Self {
            chosen: vec![NextHop::NONE; n],
            cost: vec![0; n],
            flow: vec![0; n],
            weights: fabric.weights().by_channel().to_vec(),
        }
    }

    /// Each switch takes the next hop with the least load on the channels of the whole path; ties go to the
    /// lowest port.
    pub(super) fn choose(&mut self, dag: &MinimalDag, load: &[u64]) {
        self.cost[dag.target.index()] = 0;
        for (index, &s) in dag.order.iter().enumerate().skip(1) {
            let mut best = (u64::MAX, NextHop::NONE);
            for &hop in dag.next_hops(index) {
                let cost = load[hop.channel.index()] + self.cost[hop.to.index()];
                if cost < best.0 {
                    best = (cost, hop);
                }
            }
            (self.cost[s.index()], self.chosen[s.index()]) = best;
        }
    }

    /// Writes the next hops into the tables.
    pub(super) fn write(&self, fabric: &Fabric, dag: &MinimalDag, lid: Lid, lft: &mut Lft) {
        let ports = lft.to_mut(lid);
        for s in &dag.order[1..] {
            ports[s.index()] = fabric.channels().get(self.chosen[s.index()].channel).out_port.0;
        }
    }

    /// Adds the routes of all adapters to the target to the load, by the weights of the channels.
    ///
    /// - `routes`: by switch.
    /// - `times`: how often each counts.
    pub(super) fn count(&mut self, dag: &MinimalDag, routes: &[u64], times: u64, load: &mut [u64]) {
        self.flow.copy_from_slice(routes);
        for s in dag.order[1..].iter().rev() {
            let NextHop { channel, to } = self.chosen[s.index()];
            load[channel.index()] += times * self.flow[s.index()] * u64::from(self.weights[channel.index()]);
            self.flow[to.index()] += self.flow[s.index()];
        }
    }
}
