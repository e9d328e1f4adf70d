//! What is left when a link fails: fault tolerance and alternatives.

use super::*;
use crate::routing::updn_trees;
use crate::topology::RandomIrregular;

/// A ring of four with LMC 1: the second LID uses the other direction.
#[test]
fn fault_tolerance_of_two_ways_round_a_ring() {
    let fabric = network(4, &[(0, 1), (1, 2), (2, 3), (3, 0)], &[0, 2], 1);
    let mut lft = Lft::new(&fabric);
    let ends = adapters(&fabric);
    let mut path = |switches: [usize; 3], adapter: usize, offset: u16| {
        let mut end = Lft::new(&fabric);
        lead(&mut end, &fabric, &switches, adapter);
        let base = ends[adapter].lid;
        let lid = Lid::new(base.get() + offset).expect("in range");
        for s in switches {
            let port = end.get(SwitchId::at(s), base).expect("just set");
            lft.set(SwitchId::at(s), lid, port);
        }
    };
    path([2, 1, 0], 0, 0);
    path([2, 3, 0], 0, 1);
    path([0, 1, 2], 1, 0);
    path([0, 1, 2], 1, 1);
    // For each link, adapter 0 has an alternative path and adapter 1 has none.
    let found = judge(&fabric, &lft).expect("sound tables");
    assert_eq!(found.faults, FaultTolerance { fault_tolerance: 0.5, mean_pairs_cut: 1.0, max_pairs_cut: 2 });
}

/// Flich et al.: a pair draws its LID from the shortest paths of all trees. Against a count of all pairs.
#[test]
fn pairs_draw_among_the_shortest_paths() {
    let fabric = RandomIrregular { switches: 24, ports: 8, cas: 4, seed: 3 }.build().expect("a fabric");
    let fabric = fabric.with_lmc(Lmc::new(2).expect("a small LMC")).expect("enough LIDs");
    let hops = Hops::new(&fabric).expect("connected");
    let tables = routes(&fabric, updn_trees(&fabric, &hops, 3).lft);
    let with = |lids, seed| {
        evaluate(&fabric, &tables, &Options { lids, seed, ..patterns(200) }).expect("sound tables")
    };
    let (base, drawn) = (with(LidChoice::Base, 1), with(LidChoice::Shortest, 1));
    let ends = adapters(&fabric);
    let mut least = 0;
    for (from, to) in
        ends.iter().flat_map(|a| ends.iter().map(move |b| (a, b))).filter(|(a, b)| a.lid != b.lid)
    {
        let length = |lid| {
            let (mut at, mut length) = (home(from).0, 0);
            while at != home(to).0 {
                let port = tables.lft.get(at, lid).expect("a route");
                at = fabric.channels().get(fabric.channels().at_port(at, port).expect("a channel")).to;
                length += 1;
            }
            length
        };
        least += to.lids().map(length).min().expect("a LID");
    }
    let total: u64 = drawn.lengths.hop_histogram.iter().zip(0..).map(|(pairs, hops)| pairs * hops).sum();
    assert_eq!(total, least);
    assert!(drawn.lengths.mean_hops < base.lengths.mean_hops);
    assert_eq!(drawn.load.channel_load.iter().sum::<u64>(), total);
    assert!(drawn.bisection.ebb > base.bisection.ebb);
    assert_eq!(drawn, with(LidChoice::Shortest, 1));
    assert_ne!(drawn.load, with(LidChoice::Shortest, 2).load);
}

/// By hand: a route of two channels on a square with one diagonal, and a triangle whose detour is too long.
#[test]
fn alternatives_of_a_square_and_of_a_triangle() {
    let square = network(4, &[(0, 1), (1, 2), (2, 3), (3, 0)], &[0, 2], 0);
    let tables = routes(&square, by_sssp(&square));
    // The other way round avoids both links.
    let found = Alternatives::new(&square, &tables).expect("sound tables");
    assert_eq!(found.path_difference_any_turn, 1.0);
    let turns_back = |a: ChannelId, b: ChannelId| {
        let [a, b] = [a, b].map(|id| *square.channels().get(id));
        a.to == SwitchId(1) && b.from == SwitchId(1)
    };
    assert_eq!(path_difference(&square, &tables, turns_back), Ok(tables_over(&square, &tables, SwitchId(3))));
    let triangle = network(3, &[(0, 1), (1, 2), (2, 0)], &[0, 1, 2], 0);
    let tables = routes(&triangle, by_sssp(&triangle));
    let found = Alternatives::new(&triangle, &tables).expect("sound tables");
    assert_eq!((found.path_difference_any_turn, found.path_difference_own_turns), (0.0, 0.0));
}

/// The share of the two routes of the square that go through a switch.
fn tables_over(square: &Fabric, tables: &Routes, over: SwitchId) -> f64 {
    let ends = adapters(square);
    let goes = |from: &EndPort, to: &EndPort| {
        let port = tables.lft.get(home(from).0, to.lid).expect("a route");
        let channel = square.channels().at_port(home(from).0, port).expect("a channel");
        square.channels().get(channel).to == over
    };
    f64::from(u8::from(goes(&ends[0], &ends[1])) + u8::from(goes(&ends[1], &ends[0]))) / 2.0
}

/// Against an enumeration of all paths.
#[test]
fn alternatives_are_those_of_an_enumeration() {
    let fabrics = [
        Hypercube { n: 3, cas: 1 }.build(),
        Dragonfly::balanced(1).build(),
        Mesh { dims: vec![3, 3], cas: 2 }.build(),
    ];
    for fabric in fabrics.map(|f| f.expect("a fabric")) {
        let tables = routes(&fabric, by_sssp(&fabric));
        let channels = fabric.channels();
        let mut turns = BTreeSet::new();
        let mut all_routes = Vec::new();
        let ends = adapters(&fabric);
        for (from, to) in ends.iter().flat_map(|a| ends.iter().map(move |b| (a, b))) {
            let (mut at, target) = (home(from).0, home(to).0);
            let mut route = Vec::new();
            while at != target {
                let id =
                    channels.at_port(at, tables.lft.get(at, to.lid).expect("a route")).expect("a channel");
                route.push(id);
                at = channels.get(id).to;
            }
            turns.extend(route.windows(2).map(|w| (w[0], w[1])));
            all_routes.push((home(from).0, target, route));
        }
        all_routes.retain(|(.., route)| !route.is_empty());
        let link = |id: ChannelId| id.min(channels.get(id).reverse);
        let mean = |allow: &dyn Fn(ChannelId, ChannelId) -> bool| {
            let of = |(from, target, route): &(SwitchId, SwitchId, Vec<ChannelId>)| {
                let mut open: Vec<Vec<ChannelId>> = channels.out(*from).map(|(id, _)| vec![id]).collect();
                let mut least = route.len();
                while let Some(path) = open.pop() {
                    let last = *path.last().expect("a channel");
                    if channels.get(last).to == *target {
                        least = least.min(
                            path.iter().filter(|&&id| route.iter().any(|&r| link(r) == link(id))).count(),
                        );
                    } else if path.len() < route.len() {
                        let onward = channels.out(channels.get(last).to).filter(|&(id, _)| allow(last, id));
                        open.extend(onward.map(|(id, _)| path.iter().copied().chain([id]).collect()));
                    }
                }
                (route.len() - least) as f64 / route.len() as f64
            };
            all_routes.iter().map(of).sum::<f64>() / all_routes.len() as f64
        };
        let found = Alternatives::new(&fabric, &tables).expect("sound tables");
        assert!((found.path_difference_any_turn - mean(&|_, _| true)).abs() < 1e-9);
        assert!((found.path_difference_own_turns - mean(&|a, b| turns.contains(&(a, b)))).abs() < 1e-9);
    }
}
