//! P-SSSP: globally balanced minimal routing.

use super::least_loaded::LeastLoaded;
use crate::fabric::{Fabric, SwitchId};
use crate::routing::minimal_dag::for_each_target;
use crate::routing::{Hops, adapters_by_switch, ends_on};
use crate::tables::Lft;

/// Forwarding tables by P-SSSP (Hoefler et al., section III.A and Fig. 2(a)).
///
/// One destination LID after the other takes, from every switch, the minimal path whose channels
/// carry the fewest routes so far; then the routes of this destination are counted on the channels
/// of its tree. The paper weighs each edge with P^2 + routes so that no path is longer than
/// minimal. Here the cost is the pair (hops, sum of routes along the path): the same order without the
/// large numbers.
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
/// Cost: O(S C / 8 + D E) time with E <= C the channels of one minimal-path DAG, which is built once a
/// destination switch; O(S + C) memory beside the tables.
pub fn sssp(fabric: &Fabric, hops: &Hops) -> Lft {
    let mut lft = Lft::new(fabric);
    let adapters = adapters_by_switch(fabric);
    let mut load = vec![0_u64; fabric.channels().len()];
    let mut paths = LeastLoaded::new(fabric);
    let targets: Vec<SwitchId> = fabric.switch_ids().collect();
    for_each_target(fabric, hops, &targets, |dag| {
        for (end, port) in ends_on(fabric, dag.target) {
            for lid in end.lids() {
                paths.choose(dag, &load);
                paths.write(fabric, dag, lid, &mut lft);
                lft.set(dag.target, lid, port);
                if end.is_adapter() {
                    paths.count(dag, &adapters, &mut load);
                }
            }
        }
    });
    lft
}
