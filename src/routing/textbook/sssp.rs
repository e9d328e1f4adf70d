//! P-SSSP: globally balanced minimal routing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::least_loaded::LeastLoaded;
use crate::fabric::{ChannelId, EndPort, Fabric, SwitchId};
use crate::routing::demand::{Demand, Loads};
use crate::routing::minimal_dag::{Lists, for_each_target};
use crate::routing::under_rule::Forwarding;
use crate::routing::{Hops, adapters_by_switch, ends_on, with_and_without_adapters};
use crate::tables::Lft;

/// Forwarding tables by P-SSSP (Hoefler et al., section III.A and Fig. 2(a)).
///
/// For one destination LID after another, every switch takes the minimal path whose channels carry the fewest
/// routes so far. Then the routes of this destination are counted on the channels of its tree. The paper
/// gives each edge the weight P^2 + routes, so that no path is longer than minimal. Here the cost is the pair
/// (hops, sum of routes along the path), which orders paths the same without large numbers.
///
/// A route counts once for each adapter end port that may send it, times the weight of the channel: on a channel of
/// half the usual rate it counts twice ([`Weights`](crate::fabric::Weights)). Destinations are taken switch by switch in
/// GUID order, on each switch in port GUID order, each with all LIDs of its LMC range, so that the LIDs of
/// one port spread over different paths. Switch LIDs (management traffic) also get the least loaded paths but
/// add no load. Ties go to the lowest port of the switch.
///
/// - `fabric`: S switches, C channels, D destination LIDs.
/// - `hops`: distances of the same fabric.
///
/// Returns tables that reach every LID of every attached end port from every switch.
///
/// Cost: O(S C / 8 + D E) time with E <= C the channels of one minimal-path DAG, built once for each
/// destination switch; O(S + C) memory beside the tables.
pub fn sssp(fabric: &Fabric, hops: &Hops) -> Lft {
    sssp_with_load(fabric, hops).lft
}

/// [`sssp`] with its loads.
///
/// Cost: as [`sssp`].
pub fn sssp_with_load(fabric: &Fabric, hops: &Hops) -> Forwarding {
    let targets: Vec<SwitchId> = fabric.switch_ids().collect();
    forwarding(fabric, hops, &targets, |_| true)
}

/// [`sssp`] to adapters alone, with its loads: what other tables are compared with. Switches are reached by none.
///
/// Cost: as [`sssp`], with DAGs for the switches that have adapters.
pub fn sssp_to_adapters(fabric: &Fabric, hops: &Hops) -> Forwarding {
    let (targets, _) = with_and_without_adapters(fabric);
    forwarding(fabric, hops, &targets, EndPort::is_adapter)
}

/// [`route`] with what it comes to.
fn forwarding(
    fabric: &Fabric,
    hops: &Hops,
    targets: &[SwitchId],
    is_wanted: fn(&EndPort) -> bool,
) -> Forwarding {
    let (lft, load) = route(fabric, hops, targets, is_wanted);
    let adapters = fabric.adapters().count() as u64;
    let lids: u64 = fabric.adapters().map(|(_, end)| end.lids().count() as u64).sum();
    let pairs = lids * adapters.saturating_sub(1);
    Forwarding { lft, load, pairs, broken: Vec::new(), broken_pairs: 0, detours: 0, complete: true }
}

/// Routes to the end ports on some switches that are wanted. Returns the tables, and the routes by channel.
fn route(
    fabric: &Fabric,
    hops: &Hops,
    targets: &[SwitchId],
    is_wanted: fn(&EndPort) -> bool,
) -> (Lft, Vec<u64>) {
    let mut lft = Lft::new(fabric);
    let demand = Demand::new(fabric);
    let mut loads = Loads::<f64>::new(&demand);
    // With roles: the routes of all of them.
    let mut all = vec![0.0; if demand.several { fabric.channels().len() } else { 0 }];
    let mut paths = LeastLoaded::new(fabric);
    for_each_target(fabric, hops, targets, Lists::NextHops, |dag| {
        paths.turn_to(dag);
        for (end, port) in ends_on(fabric, dag.target).into_iter().filter(|(end, _)| is_wanted(end)) {
            for lid in end.lids() {
                let role = fabric.duty(end).role;
                paths.choose(dag, loads.of(role));
                let ports = lft.to_mut(lid);
                paths.write(dag, ports);
                ports[dag.target.index()] = port.0;
                if end.is_adapter() {
                    let (routes, times) = demand.to(end);
                    loads.count(role, |n, load| paths.count(dag, routes, n * times, load));
                    if demand.several {
                        paths.count(dag, routes, times, &mut all);
                    }
                }
            }
        }
    });
    let load = if demand.several { all } else { loads.into_only() };
    (lft, load.into_iter().map(|load| load as u64).collect())
}

/// Forwarding tables by P-SSSP with initial weights of 1 (Hoefler et al., Fig. 2(a) without the weights of P^2 that
/// the text adds): a path may be longer than minimal to avoid channels with many routes.
///
/// The weight of a channel is 1 + the routes on it so far. Routes are counted and destinations ordered as in [`sssp`].
/// Ties go to the path of fewer hops, then to the lowest port of the switch. Along a path to a LID the remaining sum
/// of weights falls with every hop, so no path loops.
///
/// - `fabric`: S switches, C channels, D destination LIDs; connected.
///
/// Returns tables that reach every LID of every attached end port from every switch. They may have credit loops.
///
/// Cost: O(D C log S) time; O(S + C) memory beside the tables.
pub fn sssp_of_any_length(fabric: &Fabric) -> Lft {
    let (channels, weights) = (fabric.channels(), fabric.weights().by_channel());
    let mut lft = Lft::new(fabric);
    let adapters = adapters_by_switch(fabric);
    let mut load = vec![0_u64; channels.len()];
    for target in fabric.switch_ids() {
        for (end, port) in ends_on(fabric, target) {
            for lid in end.lids() {
                let (order, next) = lightest(fabric, &load, target);
                let ports = lft.to_mut(lid);
                ports[target.index()] = port.0;
                for &s in &order[1..] {
                    ports[s.index()] = channels.get(next[s.index()]).out_port.0;
                }
                if end.is_adapter() {
                    let mut flow = adapters.clone();
                    for &s in order[1..].iter().rev() {
                        let c = next[s.index()];
                        load[c.index()] += flow[s.index()] * u64::from(weights[c.index()]);
                        flow[channels.get(c).to.index()] += flow[s.index()];
                    }
                }
            }
        }
    }
    lft
}

/// The switches in order of the weight of their lightest path to a target, the target first, and their next
/// channels (Dijkstra).
fn lightest(fabric: &Fabric, load: &[u64], target: SwitchId) -> (Vec<SwitchId>, Vec<ChannelId>) {
    let channels = fabric.channels();
    // By switch: weight, hops and next channel.
    let mut best = vec![(u64::MAX, u32::MAX, ChannelId(u32::MAX)); fabric.num_switches()];
    best[target.index()] = (0, 0, ChannelId(u32::MAX));
    let mut order = Vec::with_capacity(best.len());
    let mut done = vec![false; best.len()];
    let mut heap = BinaryHeap::from([Reverse((0_u64, 0_u32, target))]);
    while let Some(Reverse((weight, hops, s))) = heap.pop() {
        if std::mem::replace(&mut done[s.index()], true) {
            continue;
        }
        order.push(s);
        for (_, out) in channels.out(s) {
            let offer = (weight + 1 + load[out.reverse.index()], hops + 1, out.reverse);
            let known = &mut best[out.to.index()];
            if !done[out.to.index()] && offer < *known {
                if (offer.0, offer.1) < (known.0, known.1) {
                    heap.push(Reverse((offer.0, offer.1, out.to)));
                }
                *known = offer;
            }
        }
    }
    (order, best.into_iter().map(|(_, _, channel)| channel).collect())
}
