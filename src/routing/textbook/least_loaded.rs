//! The least loaded paths over a DAG, for one destination after the other.

use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::routing::minimal_dag::{MinimalDag, NextHop, in_line};

/// The least loaded paths of all switches to one destination.
///
/// Loads and costs are whole numbers as `f64`, exact below 2^53: every processor has an instruction for the lesser of
/// two, for several pairs at once.
pub(super) struct LeastLoaded<'a> {
    /// By index in the order of the DAG: the next hop; meaningless at the target.
    chosen: Vec<NextHop>,
    /// What a choice has to look at, outward.
    asked: Vec<Asked>,
    /// By switch: routes on the channels of its path, where a switch compares them.
    cost: Vec<f64>,
    /// By switch: whether one with several next hops compares its cost.
    compared: Vec<bool>,
    /// By next hop of one switch: the cost of the path of the switch that it leads to.
    ahead: Vec<f64>,
    /// By switch: routes that pass it.
    flow: Vec<u64>,
    /// By channel.
    out_port: Vec<u8>,
    /// By channel: see [`Weights`](crate::fabric::Weights).
    weights: &'a [u8],
}

/// A switch that chooses, or whose cost counts for another one that does.
struct Asked {
    index: usize,
    switch: SwitchId,
    kind: Kind,
}

enum Kind {
    /// It has one next hop.
    Cost(NextHop),
    /// Several over any channels.
    Several,
    /// Several over channels with consecutive numbers.
    InLine {
        first: ChannelId,
        /// Whether they lead to the same switches as those of the one before.
        repeated: bool,
    },
}

impl<'a> LeastLoaded<'a> {
    pub(super) fn new(fabric: &'a Fabric) -> Self {
        let n = fabric.num_switches();
        Self {
            chosen: Vec::new(),
            asked: Vec::new(),
            cost: vec![0.0; n],
            compared: vec![false; n],
            ahead: Vec::new(),
            flow: vec![0; n],
            out_port: fabric.channels().as_slice().iter().map(|c| c.out_port.0).collect(),
            weights: fabric.weights().by_channel(),
        }
    }

    /// Turns to a DAG: finds what is the same for all destinations on its target.
    ///
    /// Cost: O(S + E) with E the channels of the DAG.
    pub(super) fn turn_to(&mut self, dag: &MinimalDag) {
        self.compared.fill(false);
        self.chosen.clear();
        self.chosen.resize(dag.order.len(), NextHop::NONE);
        self.asked.clear();
        for (index, &switch) in dag.order.iter().enumerate().skip(1).rev() {
            let kind = match dag.next_hops(index) {
                &[only] => {
                    self.chosen[index] = only;
                    if !self.compared[switch.index()] {
                        continue;
                    }
                    Kind::Cost(only)
                }
                several => match in_line(several) {
                    Some(first) => Kind::InLine { first, repeated: false },
                    None => Kind::Several,
                },
            };
            dag.next_hops(index).iter().for_each(|hop| self.compared[hop.to.index()] = true);
            self.asked.push(Asked { index, switch, kind });
        }
        self.asked.reverse();
        // The last one of this kind, by index.
        let mut before = None;
        for Asked { index, kind, .. } in &mut self.asked {
            let Kind::InLine { repeated, .. } = kind else { continue };
            let leads_to = |index: usize| dag.next_hops(index).iter().map(|hop| hop.to);
            *repeated = before.is_some_and(|before| leads_to(before).eq(leads_to(*index)));
            before = Some(*index);
        }
        self.cost[dag.target.index()] = 0.0;
    }

    /// Each switch takes the next hop with the least load on the channels of the whole path; ties go to the
    /// lowest port.
    ///
    /// - `dag`: the one turned to.
    /// - `load`: by channel.
    pub(super) fn choose(&mut self, dag: &MinimalDag, load: &[f64]) {
        for &Asked { index, switch, ref kind } in &self.asked {
            let next_hops = dag.next_hops(index);
            let (best, cost) = match *kind {
                Kind::Cost(NextHop { channel, to }) => {
                    self.cost[switch.index()] = load[channel.index()] + self.cost[to.index()];
                    continue;
                }
                Kind::Several => {
                    let costs =
                        next_hops.iter().map(|hop| load[hop.channel.index()] + self.cost[hop.to.index()]);
                    let less =
                        |best: (usize, f64), next: (usize, f64)| if next.1 < best.1 { next } else { best };
                    costs.enumerate().fold((0, f64::INFINITY), less)
                }
                Kind::InLine { first, repeated } => {
                    if !repeated {
                        self.ahead.clear();
                        self.ahead.extend(next_hops.iter().map(|hop| self.cost[hop.to.index()]));
                    }
                    cheapest(&self.ahead, &load[first.index()..][..next_hops.len()])
                }
            };
            self.chosen[index] = next_hops[best];
            self.cost[switch.index()] = cost;
        }
    }

    /// Writes the next hops into the ports by switch of a destination.
    pub(super) fn write(&self, dag: &MinimalDag, ports: &mut [u8]) {
        for (s, hop) in dag.order.iter().zip(&self.chosen).skip(1) {
            ports[s.index()] = self.out_port[hop.channel.index()];
        }
    }

    /// Adds the routes of all adapters to the target to the load, by the weights of the channels.
    ///
    /// - `routes`: by switch.
    /// - `times`: how often each counts.
    pub(super) fn count(&mut self, dag: &MinimalDag, routes: &[u64], times: u64, load: &mut [f64]) {
        self.flow.copy_from_slice(routes);
        for (s, &NextHop { channel, to }) in dag.order.iter().zip(&self.chosen).skip(1).rev() {
            let flow = self.flow[s.index()];
            load[channel.index()] += (times * flow * u64::from(self.weights[channel.index()])) as f64;
            self.flow[to.index()] += flow;
        }
    }
}

/// The number of the next hop of least cost, the first of those, and that cost.
///
/// - `ahead`: by next hop, the cost beyond its channel.
/// - `load`: by next hop, as many.
fn cheapest(ahead: &[f64], load: &[f64]) -> (usize, f64) {
    const LANES: usize = 4;
    let lesser = |a: f64, b: f64| if a < b { a } else { b };
    let mut least = [f64::INFINITY; LANES];
    let (aheads, loads) = (ahead.chunks_exact(LANES), load.chunks_exact(LANES));
    let rest = aheads.remainder().iter().zip(loads.remainder()).map(|(a, l)| a + l);
    let rest = rest.fold(f64::INFINITY, lesser);
    for (ahead, load) in aheads.zip(loads) {
        for lane in 0..LANES {
            least[lane] = lesser(ahead[lane] + load[lane], least[lane]);
        }
    }
    let least = least.into_iter().fold(rest, lesser);
    let is_least = |(ahead, load): (&f64, &f64)| ahead + load == least;
    (ahead.iter().zip(load).position(is_least).unwrap_or(0), least)
}
