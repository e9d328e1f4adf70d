//! Several LIDs, and the worst permutation.

use super::*;

/// A ring of four with LMC 1: one receiver has a LID for each direction, the other two LIDs for one.
#[test]
fn paths_to_all_lids_of_two_adapters_on_a_ring() {
    let fabric = network(4, &[(0, 1), (1, 2), (2, 3), (3, 0)], &[0, 2], 1);
    let ends = adapters(&fabric);
    let mut lft = Lft::new(&fabric);
    let paths = [([2, 1, 0], 0, 0), ([2, 3, 0], 0, 1), ([0, 1, 2], 1, 0), ([0, 1, 2], 1, 1)];
    for (switches, adapter, offset) in paths {
        let mut end = Lft::new(&fabric);
        lead(&mut end, &fabric, &switches, adapter);
        let base = ends[adapter].lid;
        let lid = Lid::new(base.get() + offset).expect("in range");
        for s in switches.map(SwitchId::at) {
            lft.set(s, lid, end.get(s, base).expect("just set"));
        }
    }
    let found = Multipath::new(&fabric, &routes(&fabric, lft)).expect("sound tables");
    let class = Distance { hops: 2, pairs: 2, disjoint: vec![1.0, 0.5], shortest: 1.0, mean_hops: 2.0 };
    assert_eq!((found.lids, found.distances), (2, vec![class]));
    let hottest = |pattern: &str, lids: &str| {
        let found = found.patterns.iter().find(|p| (p.pattern, p.lids) == (pattern, lids));
        let found = found.expect("each pattern with each use of LIDs");
        (found.hottest, found.load)
    };
    // Each adapter sends to the other one. Only adapter 0 receives over two paths.
    for lids in ["base", "striped", "same-index"] {
        assert_eq!(hottest("adversarial", lids), (1.0, 1.0));
        assert_eq!(hottest("uniform", lids), (1.0, 1.0));
    }
}

/// Two switches of three adapters each and one cable: the worst permutation sends everything over it.
#[test]
fn the_worst_permutation_meets_on_the_only_cable() {
    let fabric = network(2, &[(0, 1)], &[0, 0, 0, 1, 1, 1], 0);
    let hops = Hops::new(&fabric).expect("connected");
    let tables = routes(&fabric, minhop(&fabric, &hops));
    let pairs = worst_pairs(&fabric, &tables).expect("sound tables");
    assert!(pairs.iter().all(|&(from, to)| (from < 3) != (to < 3)), "{pairs:?}");
    let found = Multipath::new(&fabric, &tables).expect("sound tables");
    let worst = found.patterns.iter().find(|p| p.pattern == "adversarial").expect("there is one");
    assert_eq!((worst.hottest, worst.load), (3.0, 1.0 / 3.0));
    assert!((worst.mean_rate - 1.0 / 3.0).abs() < 1e-9);
}

/// It is a permutation, and its hottest channel is no cooler than that of any of many random ones.
#[test]
fn no_random_permutation_is_worse() {
    for topology in [Dragonfly::balanced(2)] {
        let fabric = topology.build().expect("a fabric");
        let hops = Hops::new(&fabric).expect("connected");
        let tables = routes(&fabric, sssp(&fabric, &hops));
        let pairs = worst_pairs(&fabric, &tables).expect("sound tables");
        let n = adapters(&fabric).len();
        let senders: BTreeSet<u32> = pairs.iter().map(|pair| pair.0).collect();
        let receivers: BTreeSet<u32> = pairs.iter().map(|pair| pair.1).collect();
        assert!(senders.len() == n && receivers.len() == n && pairs.iter().all(|(a, b)| a != b));
        let ends = adapters(&fabric);
        let hottest = |pairs: &[(u32, u32)]| {
            let mut load = BTreeMap::<ChannelId, u32>::new();
            for &(from, to) in pairs {
                let (mut at, to) = (home(&ends[from as usize]).0, &ends[to as usize]);
                while at != home(to).0 {
                    let port = tables.lft.get(at, to.lid).expect("a route");
                    let channel = fabric.channels().at_port(at, port).expect("a channel");
                    *load.entry(channel).or_default() += 1;
                    at = fabric.channels().get(channel).to;
                }
            }
            load.into_values().max().unwrap_or(0)
        };
        let worst = hottest(&pairs);
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for _ in 0..50 {
            let mut to: Vec<u32> = (0..n as u32).collect();
            rand::seq::SliceRandom::shuffle(&mut to[..], &mut rng);
            let random: Vec<(u32, u32)> = (0..n as u32).zip(to).collect();
            assert!(hottest(&random) < worst);
        }
    }
}
