//! What each channel would carry if every switch split its traffic evenly.

use rayon::prelude::*;

use crate::fabric::{Channel, ChannelId, Fabric, SwitchId};
use crate::ordering::common_neighbours;
use crate::routing::Hops;
use crate::routing::outward::{Outward, for_each_target_here};

/// One route, so that it can be split many times before it is lost to rounding.
const ROUTE: u64 = 1 << 20;
/// Targets that one thread adds up before it hands over.
pub(super) const CHUNK: usize = 32;

/// Flows to one switch after the other, each switch splitting what it has to send evenly.
pub(super) struct Split {
    /// By switch: what it has to send.
    flow: Vec<u64>,
}

impl Split {
    pub(super) fn new(fabric: &Fabric) -> Self {
        let n = fabric.num_switches();
        Self { flow: vec![0; n] }
    }

    /// Calls `visit` for each channel on the minimal ways to the target of a DAG that carries some of the routes of
    /// all adapters there, farther switches first.
    ///
    /// Cost: O(S + C).
    pub(super) fn each(&mut self, fabric: &Fabric, dag: &Outward, mut visit: impl FnMut(ChannelId, u64)) {
        let here = fabric.num_adapters_on(dag.target) as u64 * ROUTE;
        for s in fabric.switch_ids() {
            self.flow[s.index()] = fabric.num_adapters_on(s) as u64 * here;
        }
        for (place, &s) in dag.order.iter().enumerate().skip(1).rev() {
            let flow = self.flow[s.index()];
            if flow == 0 {
                continue;
            }
            let steps = dag.steps(place);
            let share = flow / steps.len() as u64;
            for step in steps {
                visit(step.channel, share);
                self.flow[step.to.index()] += share;
            }
        }
    }
}

/// Shares of a least cost by which a way may cost more and still be in choice: a fifth, and a tenth
/// where prices are means. In regular fabrics most costs are either the same or far apart.
const MARGIN: u64 = 5;
const MARGIN_OF_MEANS: u64 = 10;
/// Share of the channels that each kind has to have for there to be two: a fifth.
const KIND: usize = 5;

/// What channels cost: their expected load, or its mean over all channels of their kind.
///
/// In a Dragonfly the expected loads of single channels are spread widely, so many ways cost near what
/// is just in choice or just not, and a failed link anywhere carries some of them over the edge. What
/// matters there is the kind of channel alone: those between the groups are to be passed once and not
/// twice. Means over hundreds of channels hardly move.
pub(super) struct Prices {
    by_channel: Vec<u64>,
    margin: u64,
}

impl Prices {
    /// Cost: that of [`expected`], and O(C d) with d the largest number of channels of a switch.
    pub(super) fn new(fabric: &Fabric, hops: &Hops) -> Self {
        let load = expected(fabric, hops);
        let kinds = kinds(fabric);
        let all = load.len();
        let many = kinds.iter().filter(|&&many| many).count();
        if KIND * many.min(all - many) < all.max(1) {
            return Self { by_channel: load, margin: MARGIN };
        }
        let mean = |kind: bool| {
            let of =
                || load.iter().zip(&kinds).filter(move |(_, k)| **k == kind).map(|(load, _)| load / ROUTE);
            of().sum::<u64>() * ROUTE / (of().count() as u64).max(1)
        };
        let mean = [mean(false), mean(true)];
        let by_channel = kinds.iter().map(|&kind| mean[usize::from(kind)]);
        Self { by_channel: by_channel.collect(), margin: MARGIN_OF_MEANS }
    }

    pub(super) fn of(&self, channel: ChannelId) -> u64 {
        self.by_channel[channel.index()]
    }

    /// Whether a cost is near enough to the least one to be in choice.
    pub(super) fn near(&self, cost: u64, least: u64) -> bool {
        cost <= least + least / self.margin
    }
}

/// By channel: whether its ends have a third of their neighbours in common, as the links within a
/// group have.
fn kinds(fabric: &Fabric) -> Vec<bool> {
    let common = common_neighbours(fabric);
    let channels = fabric.channels();
    let degree = |s: SwitchId| channels.out(s).len() as u32;
    let kind = |(id, c): (ChannelId, &Channel)| 3 * common[id.index()] >= degree(c.from).max(degree(c.to));
    channels.iter().map(kind).collect()
}

/// Routes between adapters that each channel can expect, in parts of a route, if each switch splits
/// its traffic to each destination evenly over its minimal next channels. In whole numbers, so that
/// the sum is the same in whatever order it is taken.
///
/// Cost: O(A (S + C)) time over all cores with A switches that have adapters; O(S + C) memory a thread.
pub(super) fn expected(fabric: &Fabric, hops: &Hops) -> Vec<u64> {
    let targets: Vec<SwitchId> = fabric.switch_ids().filter(|&s| fabric.num_adapters_on(s) > 0).collect();
    let zero = || vec![0_u64; fabric.channels().len()];
    let part = |targets: &[SwitchId]| {
        let (mut split, mut load) = (Split::new(fabric), zero());
        for_each_target_here(fabric, hops, targets, |dag| {
            split.each(fabric, dag, |channel, share| load[channel.index()] += share);
        });
        load
    };
    targets.par_chunks(CHUNK).map(part).reduce(zero, |mut sum, part| {
        sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Mesh, Ring, small_members};

    #[test]
    fn all_hops_of_all_pairs_are_counted() {
        for (name, f) in small_members() {
            let hops = Hops::new(&f).unwrap();
            let loads = expected(&f, &hops);
            let adapters = |s: SwitchId| f.num_adapters_on(s) as u64;
            let pairs = f.switch_ids().flat_map(|a| f.switch_ids().map(move |b| (a, b)));
            let total: u64 = pairs.map(|(a, b)| adapters(a) * adapters(b) * u64::from(hops.get(a, b))).sum();
            let sum = loads.iter().sum::<u64>() as f64 / ROUTE as f64;
            assert!((sum - total as f64).abs() <= 1e-3 * total as f64, "{name}: {sum} of {total}");
        }
    }

    #[test]
    fn symmetry_is_kept() {
        let even = Ring { switches: 9, cas: 2 }.build().unwrap();
        let loads = expected(&even, &Hops::new(&even).unwrap());
        assert!(loads.iter().all(|&load| load == loads[0] && load > 0));
        let chain = Mesh { dims: vec![3], cas: 1 }.build().unwrap();
        let loads = expected(&chain, &Hops::new(&chain).unwrap());
        assert!(loads.iter().all(|&load| load == 2 * ROUTE), "each end of two links is alone: {loads:?}");
    }
}
