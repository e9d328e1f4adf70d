//! The expected load of each channel: what it would carry if every switch split its traffic evenly.

use rayon::prelude::*;

use super::twins::{Twin, twins};
use crate::fabric::{Channel, ChannelId, Fabric, Role, SwitchId, Weights};
use crate::ordering::common_neighbours;
use crate::routing::demand::Demand;
use crate::routing::minimal_dag::{Lists, MinimalDag, NextHop, for_each_target_here};
use crate::routing::{Hops, with_and_without_adapters};

/// One route, so large that it can be split many times before rounding matters.
const ROUTE: u64 = 1 << 20;
/// Targets that one thread adds up before it hands over.
const CHUNK: usize = 16;

/// A rate in proportion to those of other channels: the inverse of a weight, in parts so small that rounding does not
/// matter.
pub(super) fn rate(weight: u8) -> u64 {
    (1 << 16) / u64::from(weight.max(1))
}

/// Flows to one switch after the other, where each switch splits its traffic evenly: by the rates of its channels.
struct Split<'a> {
    fabric: &'a Fabric,
    demand: Demand<'a>,
    /// By switch: what it sends.
    flow: Vec<u64>,
    weights: &'a Weights,
    /// Whether all weights are the same.
    equal: bool,
}

impl<'a> Split<'a> {
    fn new(fabric: &'a Fabric) -> Self {
        let weights = fabric.weights();
        Self { fabric, demand: Demand::new(fabric), flow: Vec::new(), weights, equal: weights.equal() }
    }

    /// Calls `visit` for each channel that carries some of the routes of all adapters to the target of a DAG,
    /// farther switches first.
    ///
    /// Cost: O(S + C).
    fn each(&mut self, dag: &MinimalDag, mut visit: impl FnMut(ChannelId, u64)) {
        for role in Role::ALL {
            let ends = self.fabric.endports_on(dag.target).iter().map(|&end| self.fabric.endport(end));
            let duties = ends.filter(|end| end.is_adapter()).map(|end| self.fabric.duty(end));
            let of_role = duties.filter(|duty| duty.role == role);
            let here: u64 = of_role.map(|duty| u64::from(duty.destination)).sum();
            if here > 0 {
                self.each_of(dag, role, here * ROUTE, &mut visit);
            }
        }
    }

    /// The same for the routes to adapters of one role.
    ///
    /// - `here`: what each counts.
    fn each_of(&mut self, dag: &MinimalDag, role: Role, here: u64, visit: &mut impl FnMut(ChannelId, u64)) {
        self.flow.clear();
        self.flow.extend(self.demand.of_role(role).iter().map(|&there| there * here));
        for (index, &s) in dag.order.iter().enumerate().skip(1).rev() {
            let flow = self.flow[s.index()];
            if flow == 0 {
                continue;
            }
            let next_hops = dag.next_hops(index);
            let alike = flow / next_hops.len() as u64;
            let rate = |hop: &NextHop| rate(self.weights.by_channel()[hop.channel.index()]);
            let rates: u64 = if self.equal { 0 } else { next_hops.iter().map(rate).sum() };
            for hop in next_hops {
                let share = match self.equal {
                    true => alike,
                    false => (u128::from(flow) * u128::from(rate(hop)) / u128::from(rates)) as u64,
                };
                visit(hop.channel, share);
                self.flow[hop.to.index()] += share;
            }
        }
    }
}

/// The share of the least cost by which an eligible path may cost more: a fifth. In regular fabrics most costs are either
/// the same or far apart. Means by kind of channel always are, so they need no margin.
const MARGIN: u64 = 5;
/// Two kinds of channels count only if each has this share of the channels: a fifth.
const KIND: usize = 5;

/// What channels cost: their expected load over their rate, or its mean over all channels of their kind.
///
/// In a Dragonfly the expected loads of single channels vary widely. Many paths cost close to the limit of what
/// is eligible, so a failed link anywhere moves some of them across it. There only the kind of channel matters:
/// a path should use one channel between groups, not two. Means over hundreds of channels hardly change.
pub(super) struct Prices {
    by_channel: Vec<u64>,
    /// Share of the least cost; `None`: only the least is eligible.
    margin: Option<u64>,
}

impl Prices {
    /// - `load`: the expected load by channel, which counts here over the rate of the channel.
    ///
    /// Cost: O(C d) with d the largest number of channels of a switch.
    pub(super) fn new(fabric: &Fabric, mut load: Vec<u64>) -> Self {
        let weights = fabric.weights();
        for (load, &weight) in load.iter_mut().zip(weights.by_channel()) {
            *load = *load * u64::from(weight) / weights.usual();
        }
        let kinds = kinds(fabric);
        let all = load.len();
        let many = kinds.iter().filter(|&&many| many).count();
        if KIND * many.min(all - many) < all.max(1) {
            return Self { by_channel: load, margin: Some(MARGIN) };
        }
        let mean = |kind: bool| {
            let of =
                || load.iter().zip(&kinds).filter(move |(_, k)| **k == kind).map(|(load, _)| load / ROUTE);
            of().sum::<u64>() * ROUTE / (of().count() as u64).max(1)
        };
        let mean = [mean(false), mean(true)];
        let by_channel = kinds.iter().map(|&kind| mean[usize::from(kind)]);
        Self { by_channel: by_channel.collect(), margin: None }
    }

    #[inline]
    pub(super) fn of(&self, channel: ChannelId) -> u64 {
        self.by_channel[channel.index()]
    }

    /// Whether a cost is near enough to the least one to be eligible.
    #[inline]
    pub(super) fn eligible(&self, cost: u64, least: u64) -> bool {
        cost <= least + self.margin.map_or(0, |margin| least / margin)
    }
}

/// By channel: whether its ends have a third of their neighbours in common, like the links within a group.
fn kinds(fabric: &Fabric) -> Vec<bool> {
    let common = common_neighbours(fabric);
    let channels = fabric.channels();
    let degree = |s: SwitchId| channels.out(s).len() as u32;
    let kind = |(id, c): (ChannelId, &Channel)| 3 * common[id.index()] >= degree(c.from).max(degree(c.to));
    channels.iter().map(kind).collect()
}

/// The load if each switch splits its traffic to each destination evenly over its minimal next hops, by their rates.
pub(super) struct Expected<T> {
    /// By channel: routes between adapters, in parts of a route. Whole numbers, so that the sum does not depend
    /// on the order of adding.
    pub(super) load: Vec<u64>,
    /// By switch with adapters: what `see` returned.
    pub(super) seen: Vec<T>,
}

impl<T: Send> Expected<T> {
    /// What holds for one switch holds for its [twins], with the channels of both exchanged.
    ///
    /// - `see`: called with each switch with adapters, and by channel the load on the paths there.
    ///
    /// Cost: O(A (S + C)) time over all cores with A switches that have adapters, where none have twins; O(S + C) memory a
    /// thread.
    pub(super) fn new(fabric: &Fabric, hops: &Hops, see: impl Fn(SwitchId, &[u64]) -> T + Sync) -> Self {
        let (targets, _) = with_and_without_adapters(fabric);
        let channels = fabric.channels().len();
        let part = |lists: &[Vec<Twin>]| {
            let mut split = Split::new(fabric);
            let (mut load, mut flow) = (vec![0_u64; channels], vec![0_u64; channels]);
            let mut seen = Vec::with_capacity(lists.len());
            let firsts: Vec<SwitchId> = lists.iter().map(|twins| twins[0].switch).collect();
            let mut lists = lists.iter();
            for_each_target_here(fabric, hops, &firsts, Lists::NextHops, |dag| {
                let twins = lists.next().expect("one list for each DAG");
                split.each(dag, |channel, share| flow[channel.index()] += share);
                let alike = twins.len() as u64;
                let next_hops = || dag.all_next_hops().map(|hop| hop.channel.index());
                next_hops().for_each(|c| load[c] += alike * flow[c]);
                seen.push((twins[0].place, see(dag.target, &flow)));
                for twin in &twins[1..] {
                    let exchanged: Vec<(usize, usize)> = twins[0].exchanged(twin, fabric).collect();
                    for &(a, b) in &exchanged {
                        load[a] = load[a] + flow[b] - flow[a];
                        load[b] = load[b] + flow[a] - flow[b];
                    }
                    let exchange = |flow: &mut [u64]| exchanged.iter().for_each(|&(a, b)| flow.swap(a, b));
                    exchange(&mut flow);
                    seen.push((twin.place, see(twin.switch, &flow)));
                    exchange(&mut flow);
                }
                // Few channels lead to one target: they are cleared one by one.
                next_hops().for_each(|c| flow[c] = 0);
            });
            (load, seen)
        };
        let nothing = || (vec![0; channels], Vec::new());
        let (load, mut seen) =
            twins(fabric, &targets).par_chunks(CHUNK).map(part).reduce(nothing, |mut sum, part| {
                sum.0.iter_mut().zip(part.0).for_each(|(sum, part)| *sum += part);
                sum.1.extend(part.1);
                sum
            });
        seen.sort_unstable_by_key(|(place, _)| *place);
        Self { load, seen: seen.into_iter().map(|(_, seen)| seen).collect() }
    }
}

/// The largest load of a channel, in whole routes, if each switch splits its traffic evenly over its minimal next hops.
///
/// Cost: O(A (S + C)) time over all cores with A switches that have adapters; O(S + C) memory a thread.
pub fn even_split_load(fabric: &Fabric, hops: &Hops) -> u64 {
    let load = Expected::new(fabric, hops, |_, _| ()).load;
    load.into_iter().max().unwrap_or(0).div_ceil(ROUTE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{FatTree, Mesh, Ring, fail_links, slow_links, small_members};

    fn load(f: &Fabric) -> Vec<u64> {
        Expected::new(f, &Hops::new(f).unwrap(), |_, _| ()).load
    }

    #[test]
    fn all_hops_of_all_pairs_are_counted() {
        for (name, f) in small_members() {
            let hops = Hops::new(&f).unwrap();
            let loads = load(&f);
            let adapters = |s: SwitchId| f.num_adapters_on(s) as u64;
            let pairs = f.switch_ids().flat_map(|a| f.switch_ids().map(move |b| (a, b)));
            let total: u64 = pairs.map(|(a, b)| adapters(a) * adapters(b) * u64::from(hops.get(a, b))).sum();
            let sum = loads.iter().sum::<u64>() as f64 / ROUTE as f64;
            assert!((sum - total as f64).abs() <= 1e-3 * total as f64, "{name}: {sum} of {total}");
        }
    }

    /// The load, and what is seen, are those of one switch after the other.
    #[test]
    fn twins_change_nothing() {
        let whole = small_members();
        let damaged = whole.iter().filter_map(|(name, f)| Some((*name, fail_links(f, 1, 2).ok()?)));
        let slow = whole.iter().filter_map(|(name, f)| Some((*name, slow_links(f, 2, 3).ok()?)));
        let mut twins_of_three = 0;
        for (name, f) in damaged.chain(slow).chain(whole.clone()) {
            let hops = Hops::new(&f).unwrap();
            let Expected { load, seen } = Expected::new(&f, &hops, |target, flow| (target, flow.to_vec()));
            let (targets, _) = with_and_without_adapters(&f);
            twins_of_three += twins(&f, &targets).iter().filter(|twins| twins.len() > 2).count();
            let (mut all, mut split) = (vec![0; f.channels().len()], Split::new(&f));
            let mut seen = seen.into_iter();
            for_each_target_here(&f, &hops, &targets, Lists::NextHops, |dag| {
                let mut flow = vec![0; f.channels().len()];
                split.each(dag, |channel, share| flow[channel.index()] += share);
                all.iter_mut().zip(&flow).for_each(|(all, flow)| *all += flow);
                assert!(seen.next() == Some((dag.target, flow)), "{name}, {:?}", dag.target);
            });
            assert!(seen.next().is_none() && all == load, "{name}");
        }
        assert!(twins_of_three > 3, "{twins_of_three}");
    }

    #[test]
    fn symmetry_is_kept() {
        let even = Ring { switches: 9, cas: 2 }.build().unwrap();
        let loads = load(&even);
        assert!(loads.iter().all(|&load| load == loads[0] && load > 0));
        let chain = Mesh { dims: vec![3], cas: 1 }.build().unwrap();
        let loads = load(&chain);
        assert!(loads.iter().all(|&load| load == 2 * ROUTE), "each end of two links is alone: {loads:?}");
    }

    /// Two of four adapters on a leaf send to 14 others, half of that over each of two links.
    #[test]
    fn a_whole_tree_splits_down_to_what_its_leaves_send() {
        let f = FatTree { k: 4, levels: 3, down: None, cas: None }.build().unwrap();
        assert_eq!(even_split_load(&f, &Hops::new(&f).unwrap()), 14);
    }
}
