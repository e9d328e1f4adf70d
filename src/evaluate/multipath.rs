//! Several LIDs an adapter: how different their paths are, and what they bring under traffic patterns.

use rayon::prelude::*;
use serde::Serialize;

use super::adversarial::worst_pairs;
use super::paths::{Adapter, Paths};
use super::{EvaluateError, trees};
use crate::fabric::{ChannelId, Fabric, Lid, SwitchId};
use crate::tables::Routes;

/// Paths to all LIDs of the receivers.
///
/// Pairs are ordered pairs of adapters on different switches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Multipath {
    /// The most LIDs of an adapter.
    pub lids: usize,
    /// By the least possible hops between the switches of a pair, from 1.
    pub distances: Vec<Distance>,
    /// By pattern and LIDs in use.
    pub patterns: Vec<Pattern>,
}

/// The pairs whose switches are so many hops apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distance {
    /// Least possible hops.
    pub hops: usize,
    /// Number of pairs.
    pub pairs: u64,
    /// Share of the pairs with at least 1, 2, 3 ... paths of which no two share a link, in either direction.
    pub disjoint: Vec<f64>,
    /// Share of the paths that have the least possible hops, over all LIDs.
    pub shortest: f64,
    /// Mean hops of the paths, over all LIDs.
    pub mean_hops: f64,
}

/// What a pattern can reach. A stream of rate 1 is what the links of most adapters carry. Each link has the rate that
/// the fabric states, as for [`Bisection`](super::Bisection): a slower one counts streams as often as a byte takes longer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pattern {
    /// `uniform`, `adversarial`, `shift` or `incast`.
    pub pattern: &'static str,
    /// `base`, `striped` or `same-index`.
    pub lids: &'static str,
    /// Streams, or shares of streams for `uniform`, on the channel between switches that they keep busy longest.
    pub hottest: f64,
    /// The load that all streams can have at once: one over the streams on the most loaded channel or adapter.
    pub load: f64,
    /// The load that all streams could have if channels between switches were busy alike: the rates of all channels over
    /// the hops of all streams, or one over the streams at an adapter. No tables with paths of these lengths do better.
    pub level: f64,
    /// Mean rate of the streams where each gets an equal share of the most loaded channel of its path.
    pub mean_rate: f64,
}

/// LIDs in use.
#[derive(Clone, Copy)]
enum Use {
    /// The base LID.
    Base,
    /// All LIDs alike: packets in rotation, or messages at random.
    Striped,
    /// The receiver's LID number i from adapter number i modulo their number, as UCX does with one path for each pair.
    SameIndex,
}

const USES: [(Use, &str); 3] =
    [(Use::Base, "base"), (Use::Striped, "striped"), (Use::SameIndex, "same-index")];

impl Use {
    /// The LIDs that adapter number `from` uses for another one.
    fn lids(self, from: usize, to: &Adapter) -> impl Iterator<Item = Lid> + use<> {
        let all = usize::from(to.end.lmc.lids());
        let (skip, take) = match self {
            Self::Base => (0, 1),
            Self::Striped => (0, all),
            Self::SameIndex => (from % all, 1),
        };
        to.end.lids().skip(skip).take(take)
    }
}

impl Multipath {
    /// - `fabric`: S switches, P adapters with D LIDs.
    /// - `routes`: tables of this very fabric. Only the LFTs are used.
    ///
    /// The result is the same for any number of threads.
    ///
    /// # Errors
    /// As [`evaluate`](super::evaluate).
    ///
    /// Cost, over all cores: O(S D h l) for paths, with l LIDs an adapter and h hops, twice as much for the loads of
    /// uniform traffic, and that of [`worst_pairs`].
    pub fn new(fabric: &Fabric, routes: &Routes) -> Result<Self, EvaluateError> {
        let paths = Paths::new(fabric, &routes.lft)?;
        trees::count(&paths)?;
        let lids = paths.adapters.iter().map(|to| usize::from(to.end.lmc.lids())).max().unwrap_or(1);
        let n = paths.adapters.len();
        let shift: Vec<(usize, usize)> = (0..n).map(|from| (from, (from + n / 2) % n)).collect();
        let incast: Vec<(usize, usize)> = (1..n).map(|from| (from, 0)).collect();
        let worst = worst_pairs(fabric, routes)?;
        let worst: Vec<(usize, usize)> =
            worst.into_iter().map(|(from, to)| (from as usize, to as usize)).collect();
        let mut patterns = Vec::new();
        let uses = &USES[..if lids == 1 { 1 } else { USES.len() }];
        for &(lids, name) in uses {
            patterns.push(uniform(&paths, lids, name));
            for (pattern, pairs) in [("adversarial", &worst), ("shift", &shift), ("incast", &incast)] {
                patterns.push(streams(&paths, pairs, lids, (pattern, name)));
            }
        }
        Ok(Self { lids, distances: distances(&paths), patterns })
    }
}

/// Load of uniform traffic: each adapter sends an equal share to each other one.
fn uniform(paths: &Paths, lids: Use, name: &'static str) -> Pattern {
    let share = 1.0 / (paths.adapters.len() - 1) as f64;
    let senders: Vec<Vec<usize>> = {
        let mut by_switch = vec![Vec::new(); paths.fabric.num_switches()];
        paths.adapters.iter().enumerate().for_each(|(i, from)| by_switch[from.switch.index()].push(i));
        by_switch
    };
    // Integers, so that the sums do not depend on threads: in units of a route over the least common multiple of
    // all numbers of LIDs, which are powers of two up to 128.
    const UNIT: u64 = 128;
    let count = |mut load: Vec<u64>, to: &Adapter| {
        let part = UNIT / u64::from(to.end.lmc.lids());
        for from in paths.fabric.switch_ids().filter(|&s| s != to.switch && !senders[s.index()].is_empty()) {
            for (lid, index) in to.end.lids().zip(0..) {
                let here = &senders[from.index()];
                let routes = match lids {
                    Use::Base if index == 0 => UNIT * here.len() as u64,
                    Use::Base => 0,
                    Use::Striped => part * here.len() as u64,
                    Use::SameIndex => {
                        let all = usize::from(to.end.lmc.lids());
                        UNIT * here.iter().filter(|&&from| from % all == index).count() as u64
                    }
                };
                if routes > 0 {
                    paths.walk(from, to, lid).for_each(|c| load[c.index()] += routes);
                }
            }
        }
        load
    };
    let empty = || vec![0_u64; paths.fabric.channels().len()];
    let load = paths.adapters.par_iter().fold(empty, count).reduce(empty, |mut a, b| {
        a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        a
    });
    let streams: Vec<f64> = load.iter().map(|&load| load as f64 / UNIT as f64 * share).collect();
    let busy = busy(paths, &streams);
    let ends = (0..paths.adapters.len()).map(|i| paths.times.adapter(i)).fold(1.0, f64::max);
    // By receiver, so that the sum does not depend on threads.
    let rates = (0..paths.adapters.len()).into_par_iter().map(|to| {
        let (number, to) = (to, &paths.adapters[to]);
        let part = 1.0 / f64::from(to.end.lmc.lids());
        let mut sum = 0.0;
        for (from, here) in paths.fabric.switch_ids().zip(&senders).filter(|(_, here)| !here.is_empty()) {
            let most: Vec<f64> = to
                .end
                .lids()
                .map(|lid| paths.walk(from, to, lid).map(|c| busy[c.index()]).fold(0.0, f64::max))
                .collect();
            for &sender in here.iter().filter(|&&sender| sender != number) {
                let ends = paths.times.adapter(sender).max(paths.times.adapter(number));
                let rate = |index: usize| 1.0 / most[index].max(ends);
                sum += match lids {
                    Use::Base => rate(0),
                    Use::Striped => (0..most.len()).map(rate).sum::<f64>() * part,
                    Use::SameIndex => rate(sender % most.len()),
                };
            }
        }
        sum
    });
    let rates: Vec<f64> = rates.collect();
    let hottest = busy.iter().copied().fold(0.0, f64::max);
    Pattern {
        pattern: "uniform",
        lids: name,
        hottest,
        load: 1.0 / hottest.max(ends),
        level: 1.0 / level(paths, &streams).max(ends),
        mean_rate: rates.iter().sum::<f64>() * share / paths.adapters.len() as f64,
    }
}

/// By channel: how long the streams on it keep it busy, in units of the time that one takes on the links of most adapters.
fn busy(paths: &Paths, streams: &[f64]) -> Vec<f64> {
    streams.iter().zip(0..).map(|(streams, c)| streams * paths.times.channel(ChannelId(c))).collect()
}

/// How long all channels would be busy with these streams if all were busy alike.
fn level(paths: &Paths, streams: &[f64]) -> f64 {
    let rates: f64 = (0..streams.len()).map(|c| 1.0 / paths.times.channel(ChannelId::at(c))).sum();
    if streams.is_empty() { 0.0 } else { streams.iter().sum::<f64>() / rates }
}

/// Load and rates of streams between adapters by number.
fn streams(
    paths: &Paths,
    pairs: &[(usize, usize)],
    lids: Use,
    (pattern, name): (&'static str, &'static str),
) -> Pattern {
    let adapters = &paths.adapters;
    let mut load = vec![0.0_f64; paths.fabric.channels().len()];
    let (mut sent, mut received) = (vec![0.0_f64; adapters.len()], vec![0.0_f64; adapters.len()]);
    let parts = |&(from, to): &(usize, usize)| {
        let all: Vec<Lid> = lids.lids(from, &adapters[to]).collect();
        let part = 1.0 / all.len() as f64;
        all.into_iter().map(move |lid| (from, to, lid, part))
    };
    for (from, to, lid, part) in pairs.iter().flat_map(parts) {
        sent[from] += part * paths.times.adapter(from);
        received[to] += part * paths.times.adapter(to);
        paths.walk(adapters[from].switch, &adapters[to], lid).for_each(|c| load[c.index()] += part);
    }
    let level = level(paths, &load);
    let load = busy(paths, &load);
    let most = |load: &[f64]| load.iter().copied().fold(0.0, f64::max);
    let rate = |(from, to, lid, part): (usize, usize, Lid, f64)| {
        let path = paths.walk(adapters[from].switch, &adapters[to], lid).map(|c| load[c.index()]);
        part / path.fold(sent[from].max(received[to]), f64::max).max(1.0)
    };
    let hottest = most(&load);
    let ends = most(&sent).max(most(&received)).max(1.0);
    Pattern {
        pattern,
        lids: name,
        hottest,
        load: 1.0 / hottest.max(ends),
        level: 1.0 / level.max(ends),
        mean_rate: pairs.iter().flat_map(parts).map(rate).sum::<f64>() / pairs.len().max(1) as f64,
    }
}

/// Sums over pairs at one distance.
#[derive(Clone, Default)]
struct Sums {
    /// Weights: pairs.
    pairs: u64,
    /// By number of paths without a common link.
    disjoint: Vec<u64>,
    /// Pairs times LIDs, those of them with shortest paths, and their hops.
    paths: u64,
    shortest: u64,
    hops: u64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.pairs += other.pairs;
        if self.disjoint.len() < other.disjoint.len() {
            self.disjoint.resize(other.disjoint.len(), 0);
        }
        self.disjoint.iter_mut().zip(&other.disjoint).for_each(|(a, b)| *a += b);
        self.paths += other.paths;
        self.shortest += other.shortest;
        self.hops += other.hops;
    }
}

fn distances(paths: &Paths) -> Vec<Distance> {
    let merge = |mut a: Vec<Sums>, b: Vec<Sums>| {
        if a.len() < b.len() {
            a.resize(b.len(), Sums::default());
        }
        a.iter_mut().zip(&b).for_each(|(a, b)| a.add(b));
        a
    };
    let sums = paths.adapters.par_iter().map(|to| to_adapter(paths, to)).reduce(Vec::new, merge);
    let classes = sums.into_iter().enumerate().filter(|(_, sums)| sums.pairs > 0);
    classes
        .map(|(hops, sums)| {
            let share = |n: usize| sums.disjoint[n..].iter().sum::<u64>() as f64 / sums.pairs as f64;
            Distance {
                hops,
                pairs: sums.pairs,
                disjoint: (1..sums.disjoint.len()).map(share).collect(),
                shortest: sums.shortest as f64 / sums.paths as f64,
                mean_hops: sums.hops as f64 / sums.paths as f64,
            }
        })
        .collect()
}

/// The sums of the pairs with one receiver, by distance.
fn to_adapter(paths: &Paths, to: &Adapter) -> Vec<Sums> {
    let fabric = paths.fabric;
    let channels = fabric.channels();
    let link = |c: ChannelId| c.min(channels.get(c).reverse);
    let mut sums: Vec<Sums> = Vec::new();
    for (from, hops) in distances_to(fabric, to.switch) {
        let pairs = paths.senders[from.index()];
        if hops == 0 || pairs == 0 {
            continue;
        }
        let mut found: Vec<Vec<ChannelId>> =
            to.end.lids().map(|lid| paths.walk(from, to, lid).map(link).collect()).collect();
        if sums.len() <= hops {
            sums.resize(hops + 1, Sums::default());
        }
        let sums = &mut sums[hops];
        sums.pairs += pairs;
        sums.paths += pairs * found.len() as u64;
        sums.shortest += pairs * found.iter().filter(|path| path.len() == hops).count() as u64;
        sums.hops += pairs * found.iter().map(Vec::len).sum::<usize>() as u64;
        if sums.disjoint.len() <= found.len() {
            sums.disjoint.resize(found.len() + 1, 0);
        }
        found.sort_unstable();
        found.dedup();
        sums.disjoint[most_apart(&found)] += pairs;
    }
    sums
}

/// Switches with their distance to one of them, by distance.
fn distances_to(fabric: &Fabric, target: SwitchId) -> Vec<(SwitchId, usize)> {
    let mut seen = vec![false; fabric.num_switches()];
    seen[target.index()] = true;
    let mut order = vec![(target, 0)];
    let mut at = 0;
    while let Some(&(s, hops)) = order.get(at) {
        at += 1;
        for (_, c) in fabric.channels().out(s) {
            if !std::mem::replace(&mut seen[c.to.index()], true) {
                order.push((c.to, hops + 1));
            }
        }
    }
    order
}

/// The most of some paths of which no two share a link. A path may also lead over no link.
fn most_apart(paths: &[Vec<ChannelId>]) -> usize {
    let meets = |a: &Vec<ChannelId>, b: &Vec<ChannelId>| a.iter().any(|link| b.contains(link));
    let masks: Vec<u128> = paths
        .iter()
        .map(|a| (0..paths.len()).filter(|&i| meets(a, &paths[i])).fold(0, |mask, i| mask | 1 << i))
        .collect();
    independent(&masks, u128::MAX >> (128 - paths.len().clamp(1, 128)))
}

/// The largest set of the paths in `left` whose masks meet no other of the set.
fn independent(masks: &[u128], left: u128) -> usize {
    if left == 0 {
        return 0;
    }
    let degree = |i: u32| (masks[i as usize] & left & !(1 << i)).count_ones();
    let members = || {
        let mut rest = left;
        std::iter::from_fn(move || {
            let i = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(i)
        })
    };
    // A path that meets at most one other is in some largest set; else either side of the one that meets most.
    if let Some(i) = members().find(|&i| degree(i) <= 1) {
        return 1 + independent(masks, left & !(masks[i as usize] | 1 << i));
    }
    let Some(i) = members().max_by_key(|&i| degree(i)) else { return 0 };
    let with = 1 + independent(masks, left & !(masks[i as usize] | 1 << i));
    with.max(independent(masks, left & !(1 << i)))
}
