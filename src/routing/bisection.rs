//! What forwarding tables are worth to random traffic.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::fabric::{ChannelId, Fabric, Lid, PortNum, SwitchId};
use crate::tables::Lft;

/// Streams of all patterns together, and bounds for the number of patterns.
const STREAMS: usize = 20_000;
const PATTERNS: (usize, usize) = (8, 400);

/// Share of the full bandwidth that adapters have when one half of them sends to the other at random: the
/// effective bisection bandwidth of Hoefler et al., section IV.A, over some patterns, always the same ones.
///
/// For an engine that has to decide between tables; those who judge them have
/// [`evaluate`](crate::evaluate). NaN without two adapters. `lft` has to reach all adapters.
///
/// Cost: O(H + C) for each of at most 400 patterns, fewer with many adapters, over all cores, with H the hops
/// of the streams.
pub fn bisection(fabric: &Fabric, lft: &Lft) -> f64 {
    let adapters: Vec<(SwitchId, Lid)> =
        fabric.adapters().filter_map(|(_, end)| Some((end.attachment?.0, end.lid))).collect();
    let streams = adapters.len() / 2;
    let patterns = (STREAMS / streams.max(1)).clamp(PATTERNS.0, PATTERNS.1);
    let channels = fabric.channels();
    let shares = (0..patterns).into_par_iter().map(|n| {
        let mut random = ChaCha8Rng::seed_from_u64(n as u64);
        let mut order = adapters.clone();
        order.shuffle(&mut random);
        let (senders, receivers) = order.split_at(streams);
        let mut crowd = vec![0_u32; channels.len()];
        let routes = senders.iter().zip(receivers).map(|(&(mut at, _), &(home, lid))| {
            let ports = lft.to(lid);
            let mut route = Vec::new();
            while at != home {
                let Some(c) = channels.at_port(at, PortNum(ports[at.index()])) else { break };
                crowd[c.index()] += 1;
                route.push(c);
                at = channels.get(c).to;
            }
            route
        });
        let routes: Vec<_> = routes.collect();
        let most = |route: &[ChannelId]| route.iter().map(|c| crowd[c.index()]).max();
        routes.iter().map(|route| 1.0 / f64::from(most(route).unwrap_or(1))).sum::<f64>()
    });
    // Added in the order of the patterns, so that the sum is the same on any number of threads.
    let shares: Vec<f64> = shares.collect();
    shares.iter().sum::<f64>() / (patterns * streams) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::{Hops, minhop, sssp};
    use crate::topology::{FatTree, Mesh};

    #[test]
    fn a_full_fat_tree_is_worth_more_by_global_balance() {
        let f = FatTree { k: 8, levels: 3, down: None, cas: None }.build().unwrap();
        let hops = Hops::new(&f).unwrap();
        let (global, local) = (bisection(&f, &sssp(&f, &hops)), bisection(&f, &minhop(&f, &hops)));
        assert!(global > 1.2 * local && global < 1.0, "{global}, {local}");
    }

    #[test]
    fn one_stream_has_all() {
        let f = Mesh { dims: vec![2], cas: 1 }.build().unwrap();
        assert_eq!(bisection(&f, &sssp(&f, &Hops::new(&f).unwrap())), 1.0);
    }
}
