//! MinHop: locally balanced minimal routing.

use super::dag::Dag;
use super::{Hops, ends_on};
use crate::fabric::Fabric;
use crate::tables::Lft;

/// Forwarding tables by MinHop (Hoefler et al., section II; the base that Schneider et al., section
/// VI, use beside SSSP).
///
/// Each switch by itself takes for each destination LID, among its ports on minimal paths, the one
/// by which it has sent the fewest LIDs of adapters so far. Nobody looks at what happens behind the
/// next switch; that is the difference to [`sssp`](super::sssp()).
///
/// The LIDs of one end port (LMC > 0) spread over the next switches first, since two paths that part
/// at once survive more faults, and only then over the ports with the fewest LIDs. Destinations come
/// switch by switch in GUID order, on each switch in port GUID order, switch LIDs (management
/// traffic, no load) last. Ties go to the lowest port.
///
/// - `fabric`: S switches, C channels, D destination LIDs.
/// - `hops`: distances of the same fabric.
///
/// Returns tables that reach every LID of every attached end port from every switch. They may have
/// credit loops.
///
/// Cost: O(S C + D E) time with E <= C the channels of one minimal-path DAG; O(S + C) memory beside
/// the tables.
pub fn minhop(fabric: &Fabric, hops: &Hops) -> Lft {
    let channels = fabric.channels();
    let mut lft = Lft::new(fabric);
    let mut routes = vec![0_u32; channels.len()];
    let mut dag = Dag::new(fabric);
    // By channel: LIDs of the end port at hand that go to the same next switch.
    let mut alike = vec![0_u8; channels.len()];
    for target in fabric.switch_ids() {
        let row = hops.row(target);
        dag.rebuild(fabric, row, |c| row[c.to.index()] + 1 == row[c.from.index()]);
        for (end, port) in ends_on(fabric, target) {
            let several = end.lmc.lids() > 1;
            if several {
                alike.fill(0);
            }
            for lid in end.lids() {
                let ports = lft.to_mut(lid);
                ports[target.index()] = port.0;
                for (s, options) in dag.steps() {
                    let best = options.min_by_key(|c| (alike[c.index()], routes[c.index()]));
                    let best = best.expect("a shortest path to the target");
                    let chosen = channels.get(best);
                    ports[s.index()] = chosen.out_port.0;
                    routes[best.index()] += u32::from(end.is_adapter());
                    if several {
                        let same = channels.out(s).filter(|(_, c)| c.to == chosen.to);
                        same.for_each(|(c, _)| alike[c.index()] += 1);
                    }
                }
            }
        }
    }
    lft
}
