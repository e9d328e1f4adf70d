//! MinHop: locally balanced minimal routing.

use crate::fabric::{Fabric, SwitchId};
use crate::routing::minimal_dag::{Lists, for_each_target};
use crate::routing::{Hops, ends_on};
use crate::tables::Lft;

/// Forwarding tables by MinHop (Hoefler et al., section II; the base that Schneider et al., section
/// VI, use beside SSSP).
///
/// For each destination LID a switch takes, among its ports on minimal paths, the one that it has assigned
/// the fewest LIDs of adapters so far. It does not look beyond the next switch; that is the difference to
/// [`sssp`](super::sssp()).
///
/// The LIDs of one end port (LMC > 0) spread over the next switches first, since two paths that
/// part at once survive more faults, and only then over the ports with the fewest LIDs. Destinations come
/// switch by switch in GUID order, on each switch in port GUID order, switch LIDs (management
/// traffic, no load) last. Ties go to the lowest port.
///
/// - `fabric`: S switches, C channels, D destination LIDs.
/// - `hops`: distances of the same fabric.
///
/// Returns tables that reach every LID of every attached end port from every switch. They may have
/// credit loops.
///
/// Cost: O(S C / 8 + D E) time with E <= C the channels of one minimal-path DAG; O(S + C) memory beside
/// the tables.
pub fn minhop(fabric: &Fabric, hops: &Hops) -> Lft {
    let channels = fabric.channels();
    let mut lft = Lft::new(fabric);
    let mut routes = vec![0_u32; channels.len()];
    // By channel: LIDs of the present end port that go to the same next switch.
    let mut same_switch = vec![0_u8; channels.len()];
    let targets: Vec<SwitchId> = fabric.switch_ids().collect();
    for_each_target(fabric, hops, &targets, Lists::NextHops, |dag| {
        for (end, port) in ends_on(fabric, dag.target) {
            let several = end.lmc.lids() > 1;
            if several {
                same_switch.fill(0);
            }
            for lid in end.lids() {
                let ports = lft.to_mut(lid);
                ports[dag.target.index()] = port.0;
                for (index, &s) in dag.order.iter().enumerate().skip(1) {
                    let hops = dag.next_hops(index).iter().map(|hop| hop.channel);
                    let best = hops.min_by_key(|c| (same_switch[c.index()], routes[c.index()]));
                    let best = best.expect("a shortest path to the target");
                    let chosen = channels.get(best);
                    ports[s.index()] = chosen.out_port.0;
                    routes[best.index()] += u32::from(end.is_adapter());
                    if several {
                        let same = channels.out(s).filter(|(_, c)| c.to == chosen.to);
                        same.for_each(|(c, _)| same_switch[c.index()] += 1);
                    }
                }
            }
        }
    });
    lft
}
