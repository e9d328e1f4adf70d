//! What a failed link costs before the fabric is rerouted.

use rayon::prelude::*;
use serde::Serialize;

use super::paths::{Adapter, Paths};
use crate::fabric::ChannelId;

/// Fault tolerance of the tables as they are. Links are cables between switches: both channels of a
/// link fail together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FaultTolerance {
    /// The fault tolerance of Chiu et al. (section 6.3), in `0..=1`: the share of a route's links
    /// that its most different alternative avoids, averaged over the ordered pairs of adapters on
    /// different switches. In other words, how often there is a path that avoids a failed link of
    /// the route.
    ///
    /// The alternatives are the paths to the other LIDs of the receiver, of any length. A switch
    /// stores one path per LID (section 6.1), so with LMC 0 there are no alternatives and this is
    /// 0. It is 1 if no pair depends on a link. [`Alternatives`](super::Alternatives) counts paths that are not in the
    /// tables.
    pub fault_tolerance: f64,
    /// Ordered pairs of adapters that lose their route when a link fails: mean over links.
    pub mean_pairs_cut: f64,
    /// The same for the worst link.
    pub max_pairs_cut: u64,
}

impl FaultTolerance {
    /// `load`: number of routes on each channel.
    ///
    /// Cost: O(C), and O(S h) for each LID of adapters with more than one, over all cores.
    pub(super) fn new(paths: &Paths, load: &[u64]) -> Self {
        let channels = paths.fabric.channels();
        let cables = channels.iter().filter(|(id, c)| *id < c.reverse);
        let cut: Vec<u64> = cables.map(|(id, c)| load[id.index()] + load[c.reverse.index()]).collect();
        Self {
            fault_tolerance: difference(paths),
            mean_pairs_cut: cut.iter().sum::<u64>() as f64 / cut.len().max(1) as f64,
            max_pairs_cut: cut.iter().copied().max().unwrap_or(0),
        }
    }
}

/// Mean difference of the most different alternatives. The sums of all destinations are added in
/// order, so the result does not depend on threads.
fn difference(paths: &Paths) -> f64 {
    let sums: Vec<f64> = paths.adapters.par_iter().map(|to| difference_to(paths, to)).collect();
    let remote = |to: &Adapter| paths.adapters.len() as u64 - paths.senders[to.switch.index()];
    match paths.adapters.iter().map(remote).sum::<u64>() {
        0 => 1.0,
        pairs => sums.iter().sum::<f64>() / pairs as f64,
    }
}

/// Sum over all senders on other switches.
fn difference_to(paths: &Paths, to: &Adapter) -> f64 {
    if to.end.lmc.lids() == 1 {
        return 0.0;
    }
    let channels = paths.fabric.channels();
    let link = |id: ChannelId| id.min(channels.get(id).reverse);
    let mut route = Vec::new();
    let mut sum = 0.0;
    for from in paths.fabric.switch_ids().filter(|&s| s != to.switch) {
        let senders = paths.senders[from.index()];
        if senders == 0 {
            continue;
        }
        route.clear();
        route.extend(paths.walk(from, to, to.end.lid).map(link));
        let alternatives = to.end.lids().skip(1);
        let shared = alternatives.map(|lid| {
            // Routes are short: a linear search is faster than a set.
            paths.walk(from, to, lid).filter(|&id| route.contains(&link(id))).count()
        });
        let least = shared.min().unwrap_or(route.len());
        sum += senders as f64 * (route.len() - least) as f64 / route.len() as f64;
    }
    sum
}
