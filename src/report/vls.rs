//! How much each VL carries.

use rayon::prelude::*;
use serde::Serialize;

use crate::fabric::{EndPort, EndPortId, Fabric, PortNum};
use crate::tables::Routes;

/// What one VL carries between switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct VlUse {
    /// The VL.
    pub vl: u8,
    /// Routes of adapter pairs, each counted on every channel of its path.
    pub steps: u64,
    /// Channels on which it carries something.
    pub channels: u64,
}

/// Steps of routes that are followed; above that only some receivers are.
const STEPS: usize = 30_000_000;

/// The use of each VL that is used, with the assigned SLs, and of how many receivers one was followed.
///
/// Cost: O(P h) steps for each receiver that is followed, over all cores, with P senders and routes of h channels.
pub(super) fn vl_use(fabric: &Fabric, routes: &Routes) -> (Vec<VlUse>, usize) {
    let adapters: Vec<(EndPortId, &EndPort)> = fabric.adapters().collect();
    let sample = (3 * adapters.len() * adapters.len()).div_ceil(STEPS).max(1);
    let channels = fabric.channels().len();
    let new = || (vec![0_u64; 16], vec![0_u16; channels]);
    let receivers: Vec<&EndPort> = adapters.iter().step_by(sample).map(|(_, end)| *end).collect();
    let follow = |(mut steps, mut used): (Vec<u64>, Vec<u16>), to: &&EndPort| {
        for &(from, end) in adapters.iter().filter(|(_, end)| end.lid != to.lid) {
            let sl = routes.path_sl.get(fabric, from, to.lid);
            let Some((mut at, port)) = end.attachment else { continue };
            let mut in_port: PortNum = port;
            for _ in 0..fabric.num_switches() {
                let Some(out_port) = routes.lft.get(at, to.lid) else { break };
                let Some(channel) = fabric.channels().at_port(at, out_port) else { break };
                let vl = routes.sl2vl.row(at, in_port, out_port).get(sl).0;
                steps[usize::from(vl)] += 1;
                used[channel.index()] |= 1 << vl;
                let c = fabric.channels().get(channel);
                (at, in_port) = (c.to, c.in_port);
            }
        }
        (steps, used)
    };
    let join = |(mut a, mut b): (Vec<u64>, Vec<u16>), (c, d): (Vec<u64>, Vec<u16>)| {
        a.iter_mut().zip(c).for_each(|(a, c)| *a += c);
        b.iter_mut().zip(d).for_each(|(b, d)| *b |= d);
        (a, b)
    };
    let (steps, used) = receivers.par_iter().fold(new, follow).reduce(new, join);
    let on = |vl: u8| used.iter().filter(|used| **used & 1 << vl != 0).count() as u64;
    let all = (0_u8..16).map(|vl| VlUse { vl, steps: steps[usize::from(vl)], channels: on(vl) });
    (all.filter(|of| of.steps > 0).collect(), sample)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Settings, route};
    use crate::evaluate::{Options, evaluate};
    use crate::topology::small_members;

    #[test]
    fn steps_are_those_of_all_routes() {
        for (name, fabric) in small_members() {
            let routed = route(&fabric, &Settings::default()).unwrap();
            let (vls, sample) = vl_use(&fabric, &routed.routes);
            let load = evaluate(&fabric, &routed.routes, &Options::default()).unwrap().load.channel_load;
            let steps: u64 = vls.iter().map(|of| of.steps).sum();
            assert_eq!((sample, steps), (1, load.iter().sum()), "{name}");
            assert_eq!(vls.len() as u32, routed.verdict.vls, "{name}");
        }
    }
}
