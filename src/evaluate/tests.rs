//! Every metric against numbers worked out by hand, or counted again by walking all pairs.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::bisection::{draw, student};
use super::*;
use crate::fabric::{
    ChannelId, EndPort, FabricBuilder, Guid, LinkSpeed, Lmc, Node, NodeKind, PortNum, PortRef, SwitchId,
};
use crate::routing::{Hops, minhop, sssp, updn_trees};
use crate::tables::Lft;
use crate::topology::{Dragonfly, FatTree, Hypercube, Mesh, RandomIrregular};

/// Switches with cables between them, and one adapter on each switch of `homes`.
fn network(switches: usize, cables: &[(usize, usize)], homes: &[usize], lmc: u8) -> Fabric {
    let mut b = FabricBuilder::new();
    let guid = |i: usize| Guid(i as u64 + 1);
    let nodes: Vec<_> = (0..switches)
        .map(|i| b.add(Node::new(NodeKind::Switch, guid(i), 60, &format!("s{i}"))).expect("few ports"))
        .collect();
    let mut used = vec![0; switches];
    let mut port = |s: usize| {
        used[s] += 1;
        PortRef { node: nodes[s], port: PortNum(used[s]) }
    };
    for &(x, y) in cables {
        let (x, y) = (port(x), port(y));
        b.connect(x, y).expect("free ports");
    }
    for (i, &home) in homes.iter().enumerate() {
        let node = Node::new(NodeKind::ChannelAdapter, Guid(1000 + 10 * i as u64), 1, &format!("h{i}"));
        let node = b.add(node).expect("few ports");
        b.connect(PortRef { node, port: PortNum(1) }, port(home)).expect("free ports");
    }
    b.finish(Lmc::new(lmc).expect("a small LMC")).expect("a sound network")
}

fn adapters(fabric: &Fabric) -> Vec<EndPort> {
    fabric.adapters().map(|(_, end)| *end).collect()
}

fn home(end: &EndPort) -> (SwitchId, PortNum) {
    end.attachment.expect("adapters hang off a switch")
}

/// Sets the path along `switches` to the base LID of an adapter.
fn lead(lft: &mut Lft, fabric: &Fabric, switches: &[usize], adapter: usize) {
    let end = adapters(fabric)[adapter];
    let (last, port) = home(&end);
    for pair in switches.windows(2) {
        let (from, to) = (SwitchId::at(pair[0]), SwitchId::at(pair[1]));
        let mut out = fabric.channels().out(from);
        let (_, channel) = out.find(|(_, c)| c.to == to).expect("a cable");
        let old = lft.get(from, end.lid);
        assert!(old.is_none_or(|port| port == channel.out_port), "not a destination-based route");
        lft.set(from, end.lid, channel.out_port);
    }
    assert_eq!(switches.last(), Some(&last.index()));
    lft.set(last, end.lid, port);
}

fn routes(fabric: &Fabric, lft: Lft) -> Routes {
    Routes::on_one_vl("test", fabric, lft)
}

fn patterns(n: u32) -> Options {
    Options { patterns: NonZeroU32::new(n).expect("not zero"), ..Options::default() }
}

fn judge(fabric: &Fabric, lft: &Lft) -> Result<Evaluation, EvaluateError> {
    evaluate(fabric, &routes(fabric, lft.clone()), &patterns(20))
}

fn by_sssp(fabric: &Fabric) -> Lft {
    sssp(fabric, &Hops::new(fabric).expect("a connected fabric"))
}

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;
const E: usize = 4;

/// The network of Hoefler et al., Fig. 2: endpoints 0, 1, 2 on A, E, C.
fn figure_2() -> Fabric {
    network(5, &[(A, B), (A, D), (B, E), (B, C), (C, D), (D, E)], &[A, E, C], 0)
}

fn loads(fabric: &Fabric, evaluation: &Evaluation) -> BTreeMap<(usize, usize), u64> {
    let by_channel = fabric.channels().iter().zip(&evaluation.load.channel_load);
    by_channel.map(|((_, c), &load)| ((c.from.index(), c.to.index()), load)).collect()
}

/// Hoefler et al., Fig. 2 and section III.A, with R3's first route as in the erratum.
#[test]
fn figure_2_with_the_routes_of_p_sssp() {
    let fabric = figure_2();
    let mut lft = Lft::new(&fabric);
    lead(&mut lft, &fabric, &[E, B, A], 0);
    lead(&mut lft, &fabric, &[C, B, A], 0);
    lead(&mut lft, &fabric, &[A, D, E], 1);
    lead(&mut lft, &fabric, &[C, D, E], 1);
    lead(&mut lft, &fabric, &[A, B, C], 2);
    lead(&mut lft, &fabric, &[E, D, C], 2);
    let found = judge(&fabric, &lft).expect("sound tables");
    assert_eq!(found.load.edge_forwarding_index, 2);
    let by_channel = loads(&fabric, &found);
    let most: Vec<_> = by_channel.iter().filter(|&(_, &load)| load == 2).map(|(&ends, _)| ends).collect();
    assert_eq!(most, [(B, A), (D, E)]);
    assert_eq!((by_channel[&(B, E)], by_channel[&(D, A)]), (0, 0));
    assert_eq!(found.load.mean_channel_load, 1.0);
    // Two channels carry 2, two carry nothing, eight carry 1.
    assert!((found.load.channel_load_variance - 4.0 / 12.0).abs() < 1e-12);
    assert_eq!(found.lengths, PathLengths { mean_hops: 2.0, max_hops: 2, hop_histogram: vec![0, 0, 6] });
    // Six routes of two links on six links; the cables A-B and D-E carry three of them.
    assert_eq!((found.faults.mean_pairs_cut, found.faults.max_pairs_cut), (2.0, 3));
    // One of three adapters is left out, so there is one stream.
    assert_eq!((found.bisection.ebb, found.bisection.ebb_low, found.bisection.ebb_high), (1.0, 1.0, 1.0));
}

/// Hoefler et al., section III.B, on the same network; `lead` checks that routes are
/// destination-based.
#[test]
fn figure_2_with_the_routes_of_p2_sssp() {
    let fabric = figure_2();
    let mut lft = Lft::new(&fabric);
    lead(&mut lft, &fabric, &[A, B, E], 1);
    lead(&mut lft, &fabric, &[A, D, C], 2);
    lead(&mut lft, &fabric, &[E, D, A], 0);
    lead(&mut lft, &fabric, &[E, B, C], 2);
    lead(&mut lft, &fabric, &[C, B, A], 0);
    lead(&mut lft, &fabric, &[C, D, E], 1);
    let found = judge(&fabric, &lft).expect("sound tables");
    assert_eq!(found.load.edge_forwarding_index, 1);
    assert_eq!(found.load.channel_load, [1; 12]);
    assert_eq!((found.load.channel_load_variance, found.load.channel_load_cv), (0.0, 0.0));
}

#[test]
fn one_switch_has_full_bisection_bandwidth() {
    for count in [2, 3, 8, 9] {
        let fabric = network(1, &[], &vec![0; count], 0);
        let found = judge(&fabric, &by_sssp(&fabric)).expect("sound tables");
        let b = &found.bisection;
        assert_eq!((b.ebb, b.ebb_low, b.ebb_high, b.ebb_deviation), (1.0, 1.0, 1.0, 0.0));
        let pairs = (count * (count - 1)) as u64;
        assert_eq!(found.lengths, PathLengths { mean_hops: 0.0, max_hops: 0, hop_histogram: vec![pairs] });
        assert_eq!(found.load, ChannelLoad::default());
        assert_eq!(
            found.faults,
            FaultTolerance { fault_tolerance: 1.0, mean_pairs_cut: 0.0, max_pairs_cut: 0 }
        );
    }
}

/// Two switches with two adapters each and one cable. Both senders are on one switch in a third of
/// the patterns; then they share the cable. Otherwise each direction carries one stream at most.
#[test]
fn a_narrow_bridge_by_hand() {
    let fabric = network(2, &[(0, 1)], &[0, 0, 1, 1], 0);
    let tables = routes(&fabric, by_sssp(&fabric));
    let found = evaluate(&fabric, &tables, &patterns(4000)).expect("sound tables");
    let mut order = Vec::new();
    let together = (0..4000).filter(|&n| {
        draw(&mut order, 4, 1, n);
        (order[0] < 2) == (order[1] < 2)
    });
    let shares = 4000.0 - together.count() as f64 / 2.0;
    assert_eq!(found.bisection.ebb, shares / 4000.0);
    assert!(found.bisection.ebb_low < 5.0 / 6.0 && 5.0 / 6.0 < found.bisection.ebb_high);
    // The sample has only two values: sqrt(1/3 x 2/3) / 2 = 0.2357.
    assert!((found.bisection.ebb_deviation - 0.2357).abs() < 0.005);
    let margin = 1.9605 * found.bisection.ebb_deviation / 4000_f64.sqrt();
    assert!((found.bisection.ebb_high - found.bisection.ebb - margin).abs() < 1e-6);
    assert_eq!(found.load.channel_load, [4, 4]);
    assert_eq!(found.lengths.hop_histogram, [4, 8]);
    assert_eq!(found.faults.max_pairs_cut, 8);
}

#[test]
fn patterns_match_each_adapter_once_and_do_not_repeat() {
    let mut seen = BTreeSet::new();
    let mut idle = BTreeSet::new();
    for n in 0..50 {
        let mut order = Vec::new();
        draw(&mut order, 9, 7, n);
        let members: BTreeSet<u32> = order.iter().copied().collect();
        assert_eq!((order.len(), members.len()), (8, 8));
        idle.extend((0..9).find(|i| !members.contains(i)));
        seen.insert(order);
    }
    assert_eq!(seen.len(), 50);
    assert_eq!(idle.len(), 9, "everyone stays out at some time");
}

#[test]
fn quantiles_of_students_distribution() {
    // From any table: 97.5 %, three digits.
    for (degrees, table) in
        [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (9, 2.262), (29, 2.045), (120, 1.980)]
    {
        let off = (student(degrees) / table - 1.0).abs();
        assert!(off < 1.3e-3, "{degrees} degrees of freedom: {}", student(degrees));
    }
    assert!((student(1_000_000) - 1.959_966).abs() < 1e-5);
}

#[test]
fn one_pattern_says_nothing_about_the_spread() {
    let fabric = network(2, &[(0, 1)], &[0, 0, 1, 1], 0);
    let b = evaluate(&fabric, &routes(&fabric, by_sssp(&fabric)), &patterns(1)).expect("sound").bisection;
    assert_eq!((b.ebb_low, b.ebb_high, b.ebb_deviation), (0.0, 1.0, 0.0));
}

#[test]
fn bits_do_not_depend_on_threads() {
    let dragonfly = Dragonfly::balanced(2).build().expect("a Dragonfly");
    let tables = routes(&dragonfly, by_sssp(&dragonfly));
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        let found = pool.install(|| evaluate(&dragonfly, &tables, &patterns(50))).expect("sound tables");
        serde_json::to_string(&found).expect("plain numbers")
    };
    assert_eq!(with(1), with(2));
    assert_eq!(with(1), with(5));
}

#[test]
fn the_seed_matters_and_more_patterns_narrow_the_interval() {
    let fabric = Hypercube { n: 4, cas: 2 }.build().expect("a hypercube");
    let tables = routes(&fabric, by_sssp(&fabric));
    let run =
        |n, seed| evaluate(&fabric, &tables, &Options { seed, ..patterns(n) }).expect("sound").bisection;
    assert_ne!(run(50, 1).ebb, run(50, 2).ebb);
    let (few, many) = (run(20, 1), run(2000, 1));
    assert!(many.ebb_high - many.ebb_low < (few.ebb_high - few.ebb_low) / 5.0);
    assert!(few.ebb_low < many.ebb && many.ebb < few.ebb_high);
}

/// A hypercube with one adapter per switch: P-SSSP balances it perfectly, with P/2 routes per
/// channel.
#[test]
fn known_index_of_a_hypercube() {
    let fabric = Hypercube { n: 4, cas: 1 }.build().expect("a hypercube");
    let found = judge(&fabric, &by_sssp(&fabric)).expect("sound tables");
    assert_eq!(found.load.mean_channel_load, 8.0);
    assert!(found.load.edge_forwarding_index >= 8);
    assert_eq!(found.lengths.hop_histogram, [0, 64, 96, 64, 16]);
}

#[test]
fn json_has_the_fields_of_the_command() {
    let fabric = figure_2();
    let found = judge(&fabric, &by_sssp(&fabric)).expect("sound tables");
    let json = serde_json::to_value(&found).expect("plain numbers");
    for field in [
        "edge_forwarding_index",
        "mean_channel_load",
        "channel_load_variance",
        "channel_load_cv",
        "channel_load",
        "ebb",
        "ebb_low",
        "ebb_high",
        "ebb_deviation",
        "patterns",
        "seed",
        "mean_hops",
        "max_hops",
        "hop_histogram",
        "fault_tolerance",
        "mean_pairs_cut",
        "max_pairs_cut",
    ] {
        assert!(json.get(field).is_some_and(|v| !v.is_null()), "{field}");
    }
}

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
    let mut builder = FabricBuilder::from_fabric(&fabric);
    builder.forget_lids();
    let fabric = builder.finish(Lmc::new(2).expect("a small LMC")).expect("a sound network");
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

#[test]
fn too_few_adapters() {
    for count in [0, 1] {
        let fabric = network(2, &[(0, 1)], &vec![0; count], 0);
        assert_eq!(judge(&fabric, &Lft::new(&fabric)), Err(EvaluateError::NoPair { adapters: count }));
    }
    let nothing = FabricBuilder::new().finish(Lmc::default()).expect("an empty subnet");
    assert_eq!(judge(&nothing, &Lft::new(&nothing)), Err(EvaluateError::NoPair { adapters: 0 }));
}

#[test]
fn routes_that_do_not_arrive_are_named() {
    let fabric = network(3, &[(0, 1), (1, 2)], &[0, 2], 0);
    let good = by_sssp(&fabric);
    let lid = adapters(&fabric)[1].lid;
    let (middle, last) = (SwitchId::at(1), SwitchId::at(2));
    let fails = |change: &dyn Fn(&mut Lft)| {
        let mut lft = good.clone();
        change(&mut lft);
        match judge(&fabric, &lft) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("no error"),
        }
    };
    let pair = "'h0' (0x00000000000003e8) port 1 does not reach LID 2 of 'h1' (0x00000000000003f2) port 1: ";
    let pair = pair.replace("LID 2", &format!("LID {lid}"));
    let s1 = "'s1' (0x0000000000000002)";
    assert_eq!(fails(&|lft| lft.clear(middle, lid)), format!("{pair}{s1} has no entry for it"));
    let back =
        fabric.channels().out(middle).find(|(_, c)| c.to == SwitchId::at(0)).expect("a cable").1.out_port;
    let text = fails(&|lft| lft.set(middle, lid, back));
    assert!(text.starts_with(&pair) && text.contains("it loops through 's"), "{text}");
    for port in [0, 60, 200] {
        let text = fails(&|lft| lft.set(last, lid, PortNum(port)));
        assert!(text.ends_with(&format!("port {port}, which leads neither there nor to a switch")), "{text}");
    }
}

/// Holes and loops that no adapter's packet meets are no error.
#[test]
fn entries_beside_the_routes_do_not_matter() {
    let fabric = network(4, &[(0, 1), (1, 2), (2, 3)], &[0, 1], 0);
    let mut lft = Lft::new(&fabric);
    lead(&mut lft, &fabric, &[1, 0], 0);
    lead(&mut lft, &fabric, &[0, 1], 1);
    let clean = judge(&fabric, &lft).expect("sound tables");
    let lid = adapters(&fabric)[0].lid;
    lft.set(SwitchId::at(2), lid, PortNum(2));
    lft.set(SwitchId::at(3), lid, PortNum(1));
    assert_eq!(judge(&fabric, &lft), Ok(clean));
}

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

#[test]
fn the_quick_bisection_tells_global_from_local_balance() {
    let f = FatTree { k: 8, levels: 3, down: None, cas: None }.build().unwrap();
    let hops = Hops::new(&f).unwrap();
    let quick = |lft: &Lft| super::quick_bisection(&f, lft);
    let (global, local) = (quick(&sssp(&f, &hops)), quick(&minhop(&f, &hops)));
    assert!(global > 1.2 * local && global < 1.0, "{global}, {local}");
    let pair = Mesh { dims: vec![2], cas: 1 }.build().unwrap();
    assert_eq!(super::quick_bisection(&pair, &sssp(&pair, &Hops::new(&pair).unwrap())), 1.0);
}

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

/// A network with these rates: by cable in order, then by adapter.
fn rated(fabric: &Fabric, cables: &[(u8, LinkSpeed)], hosts: &[(u8, LinkSpeed)]) -> Fabric {
    let mut b = FabricBuilder::from_fabric(fabric);
    let mut set = |end: PortRef, (width, speed): (u8, LinkSpeed)| {
        let port = &mut b.node_mut(end.node).ports[end.port.index()];
        (port.width, port.speed) = (Some(width), Some(speed));
    };
    let links = fabric.channels().iter().filter(|(id, c)| *id < c.reverse);
    for ((_, c), &rate) in links.zip(cables) {
        set(PortRef { node: fabric.switch_node_id(c.from), port: c.out_port }, rate);
    }
    for (end, &rate) in adapters(fabric).iter().zip(hosts) {
        set(PortRef { node: end.node, port: end.port }, rate);
    }
    b.finish(Lmc::default()).expect("a sound network")
}

fn measured(f: &Fabric) -> Evaluation {
    let lft = minhop(f, &Hops::new(f).expect("connected"));
    evaluate(f, &routes(f, lft), &Options::default()).expect("tables that lead everywhere")
}

#[test]
fn load_and_bandwidth_count_over_rates() {
    use LinkSpeed::{Edr, Hdr};
    // Two switches with four adapters each and one cable between them.
    let plain = network(2, &[(0, 1)], &[0, 0, 0, 0, 1, 1, 1, 1], 0);
    let with = |cable| measured(&rated(&plain, &[cable], &[(4, Edr); 8]));
    let equal = with((4, Edr));
    assert_eq!(equal, measured(&plain));
    assert_eq!(equal.load.edge_forwarding_index, 16);
    // Streams between the switches share the cable; with enough room they do not.
    assert!(equal.bisection.ebb < 0.95);
    assert_eq!(with((12, Hdr)).bisection.ebb, 1.0);
    assert!(with((4, Hdr)).bisection.ebb > equal.bisection.ebb + 0.03);
    assert!(with((2, Edr)).bisection.ebb < equal.bisection.ebb - 0.03);

    // A second cable at half the rate: both rates are equally frequent, so the faster is the usual one.
    let line = network(3, &[(0, 1), (1, 2)], &[0, 1, 2], 0);
    let e = measured(&rated(&line, &[(4, Edr), (2, Edr)], &[(4, Edr); 3]));
    assert_eq!(e.load.channel_load, [2, 2, 2, 2]);
    assert_eq!((e.load.edge_forwarding_index, e.load.mean_channel_load), (4, 3.0));

    // A slow adapter holds back what it sends and receives, a fast one gains nothing. One of the three is left out
    // of each pattern of one stream.
    let middle = |rate| measured(&rated(&line, &[(4, Edr); 2], &[(4, Edr), rate, (4, Edr)])).bisection.ebb;
    assert_eq!(middle((4, Hdr)), 1.0);
    assert!((middle((1, Edr)) - (1.0 + 2.0 * 0.25) / 3.0).abs() < 0.05, "{}", middle((1, Edr)));
}

/// Two switches with one cable: two compute nodes and a storage node on each, and a service node.
#[test]
fn traffic_is_measured_by_role() {
    use crate::fabric::{Duty, Role};
    let mut f = network(2, &[(0, 1)], &[0, 0, 0, 1, 1, 1, 1], 0);
    assert!(!f.has_duties());
    let roles = [(2, Role::Storage), (5, Role::Storage), (6, Role::Service)];
    let ends: Vec<_> = f.adapters().map(|(id, _)| id).collect();
    roles.into_iter().for_each(|(i, role)| f.set_duty(ends[i], Duty { role, ..Duty::default() }));
    let lft = minhop(&f, &Hops::new(&f).expect("connected"));
    let of = ByRole::new(&f, &routes(&f, lft), &patterns(2000)).expect("tables that lead everywhere");
    let (among, with) = (of.among_compute.expect("four"), of.with_storage.expect("two"));
    assert_eq!((among.compute, among.storage, among.largest_load), (4, 0, 4));
    assert_eq!((with.compute, with.storage, with.largest_load), (4, 2, 4));
    // Two pairs. Compute nodes: both across in the same direction in a third of the patterns.
    let third = 1.0 - 0.5 / 3.0;
    assert!((among.ebb - third).abs() < 0.03, "{among:?}");
    // Two pairs in both directions: with both across they use opposite directions at the ends, so each direction
    // carries two streams.
    assert!(with.ebb < 1.0 && with.ebb > 0.7, "{with:?}");
}
