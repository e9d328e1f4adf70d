//! Everything again, by walking all pairs of random networks.

use proptest::prelude::*;
use rand::seq::IndexedRandom;

use super::*;

/// The channels of a walk as far as it gets, and whether it arrives.
fn walk(fabric: &Fabric, lft: &Lft, from: &EndPort, to: &EndPort, lid: Lid) -> (Vec<ChannelId>, bool) {
    let mut at = home(from).0;
    let mut path = Vec::new();
    while path.len() <= fabric.num_switches() {
        let Some(port) = lft.get(at, lid) else { return (path, false) };
        if (at, port) == home(to) {
            return (path, true);
        }
        let Some(id) = fabric.channels().at_port(at, port) else { return (path, false) };
        path.push(id);
        at = fabric.channels().get(id).to;
    }
    (path, false)
}

/// A connected random network, with parallel cables, and a random tree for each LID.
fn random(seed: u64) -> (Fabric, Lft) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let switches = rng.random_range(1..10);
    let mut cables: Vec<(usize, usize)> = (1..switches).map(|s| (rng.random_range(0..s), s)).collect();
    for _ in 0..rng.random_range(0..2 * switches) {
        let (x, y) = (rng.random_range(0..switches), rng.random_range(0..switches));
        if x != y {
            cables.push((x, y));
        }
    }
    let homes: Vec<usize> = (0..rng.random_range(2..20)).map(|_| rng.random_range(0..switches)).collect();
    let fabric = network(switches, &cables, &homes, rng.random_range(0..3));
    let mut lft = Lft::new(&fabric);
    for end in adapters(&fabric) {
        for lid in end.lids() {
            let (target, port) = home(&end);
            lft.set(target, lid, port);
            let mut inside = vec![target];
            while inside.len() < switches {
                let &s = inside.choose(&mut rng).expect("not empty");
                let around: Vec<_> = fabric.channels().out(s).map(|(_, c)| *c).collect();
                let Some(c) = around.choose(&mut rng) else { continue };
                if !inside.contains(&c.to) {
                    inside.push(c.to);
                    lft.set(c.to, lid, c.in_port);
                }
            }
        }
    }
    (fabric, lft)
}

/// Everything again, pair by pair: load, lengths, bandwidth, faults.
fn naive(fabric: &Fabric, lft: &Lft, options: &Options) -> (ChannelLoad, PathLengths, f64, FaultTolerance) {
    let ends = adapters(fabric);
    let path = |i: usize, j: usize, lid| walk(fabric, lft, &ends[i], &ends[j], lid).0;
    let link = |id: &ChannelId| (*id).min(fabric.channels().get(*id).reverse);
    let mut load = vec![0; fabric.channels().len()];
    let mut hops = vec![0; 20];
    let mut cut: BTreeMap<ChannelId, u64> = fabric.channels().iter().map(|(id, _)| (link(&id), 0)).collect();
    let mut differences = Vec::new();
    for i in 0..ends.len() {
        for j in (0..ends.len()).filter(|&j| j != i) {
            let route = path(i, j, ends[j].lid);
            hops[route.len()] += 1;
            for id in &route {
                load[id.index()] += 1;
            }
            let links: BTreeSet<ChannelId> = route.iter().map(link).collect();
            for l in &links {
                *cut.get_mut(l).expect("a link") += 1;
            }
            if !links.is_empty() {
                let differs = ends[j].lids().map(|lid| {
                    let other: BTreeSet<ChannelId> = path(i, j, lid).iter().map(link).collect();
                    links.difference(&other).count() as f64 / links.len() as f64
                });
                differences.push(differs.fold(0.0, f64::max));
            }
        }
    }
    let mut shares = Vec::new();
    for n in 0..options.patterns.get() {
        let mut order = Vec::new();
        draw(&mut order, ends.len(), options.seed, n);
        let half = order.len() / 2;
        let paths: Vec<_> = (0..half)
            .map(|k| (order[k] as usize, order[half + k] as usize))
            .map(|(i, j)| path(i, j, ends[j].lid))
            .collect();
        let streams = |id: &ChannelId| paths.iter().flatten().filter(|other| *other == id).count();
        let bandwidth = paths.iter().map(|w| 1.0 / w.iter().map(streams).max().unwrap_or(1) as f64);
        shares.push(bandwidth.sum::<f64>() / half as f64);
    }
    let faults = FaultTolerance {
        fault_tolerance: match differences.len() {
            0 => 1.0,
            n => differences.iter().sum::<f64>() / n as f64,
        },
        mean_pairs_cut: cut.values().sum::<u64>() as f64 / cut.len().max(1) as f64,
        max_pairs_cut: cut.values().copied().max().unwrap_or(0),
    };
    let ebb = shares.iter().sum::<f64>() / shares.len() as f64;
    (ChannelLoad::new(fabric.weights(), load), PathLengths::new(hops), ebb, faults)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_same_as_walking_all_pairs(seed: u64) {
        let (fabric, lft) = random(seed);
        let found = judge(&fabric, &lft).expect("trees reach everything");
        let (load, lengths, ebb, faults) = naive(&fabric, &lft, &patterns(20));
        // Chiu et al., section 6.2: U = n (n-1) D / L.
        let pairs = lengths.hop_histogram.iter().sum::<u64>() as f64;
        let mean_load = pairs * lengths.mean_hops / fabric.channels().len().max(1) as f64;
        prop_assert!((mean_load - load.mean_channel_load).abs() < 1e-9 * mean_load.max(1.0));
        prop_assert_eq!(found.load, load);
        prop_assert_eq!(found.lengths, lengths);
        prop_assert!((found.bisection.ebb - ebb).abs() < 1e-12);
        prop_assert!((found.faults.fault_tolerance - faults.fault_tolerance).abs() < 1e-12);
        prop_assert_eq!(found.faults.max_pairs_cut, faults.max_pairs_cut);
        prop_assert_eq!(found.faults.mean_pairs_cut, faults.mean_pairs_cut);
    }

    /// Random overwritten entries give an error exactly if some pair is unreachable, and the error
    /// names the first such pair.
    #[test]
    fn damaged_tables_are_errors_where_a_pair_suffers(seed: u64, damages in 1..6) {
        let (fabric, mut lft) = random(seed);
        let mut rng = ChaCha8Rng::seed_from_u64(!seed);
        let ends = adapters(&fabric);
        for _ in 0..damages {
            let end = ends.choose(&mut rng).expect("two or more");
            let lids: Vec<Lid> = end.lids().collect();
            let s = SwitchId::at(rng.random_range(0..fabric.num_switches()));
            let port = PortNum(*[rng.random_range(0..8), rng.random()].choose(&mut rng).expect("two"));
            lft.set(s, *lids.choose(&mut rng).expect("one or more"), port);
        }
        let targets = ends.iter().flat_map(|to| to.lids().map(move |lid| (to, lid)));
        let first = targets
            .flat_map(|(to, lid)| ends.iter().map(move |from| (from, to, lid)))
            .find(|(from, to, lid)| from.lid != to.lid && !walk(&fabric, &lft, from, to, *lid).1);
        match (judge(&fabric, &lft), first) {
            (Ok(_), None) => {}
            (Err(EvaluateError::Unreached { source_port, destination, lid, .. }), Some(pair)) => {
                let name = |end: &EndPort| format!("{} port {}", fabric.describe(end.node), end.port);
                prop_assert_eq!((source_port, destination, lid), (name(pair.0), name(pair.1), pair.2));
            }
            (found, first) => prop_assert!(false, "{found:?}, but by walking {first:?}"),
        }
    }
}
