//! P-SSSP: globally balanced minimal routing.

use super::dag::Dag;
use super::{Hops, adapters_by_switch, ends_on};
use crate::fabric::Fabric;
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
    let adapters = adapters_by_switch(fabric);
    let mut load = vec![0_u64; fabric.channels().len()];
    let mut dag = Dag::new(fabric);
    for target in fabric.switch_ids() {
        let row = hops.row(target);
        dag.rebuild(fabric, row, |c| row[c.to.index()] + 1 == row[c.from.index()]);
        for (end, port) in ends_on(fabric, target) {
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
