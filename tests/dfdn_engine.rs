//! The engine `dfdn` on every kind of fabric, judged by `verify`.

use dfdn::engine::{Balance, Baseline, Lineage, Prefer, Routed, Settings, route, route_after};
use dfdn::evaluate::Bounds;
use dfdn::fabric::{
    ChannelId, Fabric, FabricBuilder, Guid, Lid, Lmc, Node, NodeKind, PortNum, PortRef, SwitchId,
};
use dfdn::tables::{McastGroup, PathSl};
use dfdn::topology::{
    Candidates, Dragonfly, FatTree, HyperX, Hypercube, Kautz, Mesh, Oft, Random, RandomIrregular, Ring,
    SlimFly, Torus, fail_links, fail_switches, shuffle_guids, small_members,
};
use dfdn::verify::{SlPolicy, verify_with};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

fn settings(prefer: Prefer) -> Settings {
    Settings { prefer, ..Settings::default() }
}

fn routed(fabric: &Fabric, settings: &Settings) -> Routed {
    let routed = route(fabric, settings).unwrap_or_else(|e| panic!("{fabric}: {e}"));
    assert!(routed.verdict.is_safe(), "{fabric}");
    routed
}

/// One SL, and safe with any SL that a careless sender uses.
fn assert_one_sl(fabric: &Fabric, routed: &Routed, most_vls: u32) {
    assert!(matches!(routed.routes.path_sl, PathSl::Any(_)), "{fabric}");
    assert_eq!(routed.verdict.sls_all, 1, "{fabric}");
    assert!(routed.verdict.vls_all <= most_vls, "{fabric}: {} VLs", routed.verdict.vls_all);
    assert!(verify_with(fabric, &routed.routes, SlPolicy::Any).is_safe(), "{fabric}");
    assert!(routed.routes.remarks.iter().any(|r| r.contains("no host has to query PathRecords")));
}

/// A fabric of `switches` with the stated links and, on switch i, `cas[i]` adapters.
fn fabric(switches: usize, links: &[(usize, usize)], cas: &[usize]) -> Fabric {
    let mut builder = FabricBuilder::new();
    let mut next = vec![1_u8; switches];
    let nodes: Vec<_> = (0..switches)
        .map(|i| {
            let guid = Guid(0x100 + i as u64);
            builder.add(Node::new(NodeKind::Switch, guid, 200, &format!("sw-{i}"))).unwrap()
        })
        .collect();
    let mut port = |s: usize| {
        next[s] += 1;
        PortRef { node: nodes[s], port: PortNum(next[s] - 1) }
    };
    for &(a, b) in links.iter().filter(|(a, b)| a != b) {
        let (a, b) = (port(a), port(b));
        builder.connect(a, b).unwrap();
    }
    let mut adapters = 0;
    for (s, &cas) in cas.iter().enumerate() {
        for _ in 0..cas {
            let guid = Guid(0x10000 + 16 * adapters);
            let node = Node::new(NodeKind::ChannelAdapter, guid, 1, &format!("ca-{adapters}"));
            let node = builder.add(node).unwrap();
            let end = port(s);
            builder.connect(PortRef { node, port: PortNum(1) }, end).unwrap();
            adapters += 1;
        }
    }
    builder.finish(Lmc::default()).unwrap()
}

#[test]
fn one_sl_and_four_vls_for_every_small_fabric() {
    for (_, f) in small_members() {
        assert_one_sl(&f, &routed(&f, &settings(Prefer::OneSl)), 4);
    }
}

#[test]
fn shortest_paths_for_every_small_fabric() {
    for (name, f) in small_members() {
        let routed = routed(&f, &settings(Prefer::Minimal));
        assert!(routed.verdict.minimal, "{name}: {f}");
        assert!(routed.verdict.vls_all <= 8 && routed.verdict.sls_all <= 8, "{name}");
    }
}

#[test]
fn few_detours_by_default() {
    for (name, f) in small_members() {
        let verdict = routed(&f, &settings(Prefer::Default)).verdict;
        assert!(verdict.nonminimal_share <= Settings::MAX_NONMINIMAL, "{name}: {}", verdict.nonminimal_share);
        assert!(verdict.minimal || verdict.sls_all == 1, "{name}");
    }
}

#[test]
fn as_many_vls_as_there_are() {
    for (name, f) in small_members() {
        for vls in 1..=5 {
            for prefer in [Prefer::Default, Prefer::OneSl, Prefer::Minimal] {
                let routed = routed(&f, &Settings { vls: Some(vls), ..settings(prefer) });
                assert!(routed.verdict.vls_all <= u32::from(vls), "{name} {vls} {prefer:?}");
            }
        }
    }
}

#[test]
fn a_limit_that_cannot_be_met_is_said() {
    let ring = Ring { switches: 9, cas: 1 }.build().unwrap();
    let tight = Settings { vls: Some(2), sls: 1, max_nonminimal: Some(0.0), ..settings(Prefer::OneSl) };
    let found = routed(&ring, &tight);
    assert!(!found.verdict.minimal && found.verdict.sls_all == 1);
    let said = "no tables with so many VLs and SLs keep to max_nonminimal 0";
    assert!(found.routes.remarks.iter().any(|remark| remark == said), "{:?}", found.routes.remarks);
}

#[test]
fn damaged_fabrics() {
    for (name, f) in small_members() {
        let links = f.channels().len() / 2;
        for (seed, share) in [(1, 20), (2, 10), (3, 5)] {
            let Ok(damaged) = fail_links(&f, links.div_ceil(share), seed) else { continue };
            assert_one_sl(&damaged, &routed(&damaged, &settings(Prefer::OneSl)), 4);
            assert!(routed(&damaged, &settings(Prefer::Minimal)).verdict.minimal, "{name}");
        }
        if let Ok(damaged) = fail_switches(&f, 1, Candidates::Any, 1) {
            assert_one_sl(&damaged, &routed(&damaged, &settings(Prefer::OneSl)), 4);
        }
    }
}

#[test]
fn chains_trees_and_rings() {
    let chain: Vec<_> = (1..40).map(|i| (i - 1, i)).collect();
    let tree: Vec<_> = (1..60).map(|i| ((i - 1) / 3, i)).collect();
    for f in [
        fabric(40, &chain, &[1; 40]),
        fabric(40, &[chain.clone(), chain].concat(), &[1; 40]),
        fabric(60, &tree, &[2; 60]),
        fabric(1, &[], &[3]),
        fabric(2, &[(0, 1)], &[0, 0]),
        fabric(3, &[(0, 1), (1, 2)], &[1, 0, 0]),
        Ring { switches: 50, cas: 1 }.build().unwrap(),
    ] {
        assert_one_sl(&f, &routed(&f, &settings(Prefer::OneSl)), 4);
        routed(&f, &settings(Prefer::Minimal));
    }
    // Trees have one path per pair; that must not cost more than one VL.
    let f = fabric(60, &tree, &[2; 60]);
    let verdict = routed(&f, &settings(Prefer::Default)).verdict;
    assert!(verdict.minimal && verdict.vls_all == 1 && verdict.sls_all == 1);
}

/// Limits for named fabrics: VLs, SLs and detours.
#[test]
fn the_measures_on_small_members() {
    let dragonfly = |p| Dragonfly::balanced(p).build().unwrap();
    let slim_fly = |q| SlimFly { q, cas: None }.build().unwrap();
    let hyperx = |dims: &[u32]| HyperX { dims: dims.to_vec(), cas: 2 }.build().unwrap();
    let tree = FatTree { k: 8, levels: 3, down: None, cas: None }.build().unwrap();
    let damaged = |f: &Fabric| fail_links(f, f.channels().len() / 20, 1).unwrap();
    let random = |switches, degree| Random { switches, degree, cas: 2, seed: 1 }.build().unwrap();
    let cases = [
        ("dragonfly p=2", dragonfly(2), 2, 0.0),
        ("dragonfly p=3", dragonfly(3), 2, 0.0),
        ("dragonfly p=3, 10 % down", damaged(&dragonfly(3)), 4, 0.01),
        ("slim fly q=5", slim_fly(5), 2, 0.0),
        ("slim fly q=5, 10 % down", damaged(&slim_fly(5)), 2, 0.0),
        // Stable tables: a search would find none, but a failed link would change most of its tables.
        ("slim fly q=7, 10 % down", damaged(&slim_fly(7)), 2, 0.002),
        ("hyperx 6x6", hyperx(&[6, 6]), 2, 0.0),
        ("hyperx 4x4x4", hyperx(&[4, 4, 4]), 1, 0.0),
        ("hyperx 4x4x4, 10 % down", damaged(&hyperx(&[4, 4, 4])), 2, 0.0),
        ("hypercube n=6", Hypercube { n: 6, cas: 1 }.build().unwrap(), 1, 0.0),
        ("torus 4x4x4", Torus { dims: vec![4, 4, 4], cas: 1 }.build().unwrap(), 1, 0.0),
        // Stable tables may take a VL more.
        ("oft k=4", Oft { k: 4, cas: None }.build().unwrap(), 3, 0.0),
        ("kautz d=3 n=3", Kautz { d: 3, n: 3, cas: 2 }.build().unwrap(), 3, 0.0),
        ("fat tree k=8", tree.clone(), 2, 0.0),
        ("fat tree k=8, 10 % down", damaged(&tree), 2, 0.0),
        ("mesh 8x8", Mesh { dims: vec![8, 8], cas: 1 }.build().unwrap(), 1, 0.0),
        ("random n=60 d=7", random(60, 7), 4, 0.01),
        ("random n=90 d=8", random(90, 8), 4, 0.01),
    ];
    for (name, f, vls, nonminimal) in cases {
        let routed = routed(&f, &settings(Prefer::Default));
        let v = &routed.verdict;
        println!(
            "{name:26} {} VLs, {} SLs, {:.4} of the pairs on detours, stretch {:.4}: {}",
            v.vls, v.sls, v.nonminimal_share, v.mean_stretch, routed.routes.remarks[0]
        );
        assert_one_sl(&f, &routed, 4);
        assert!(v.vls <= vls && v.nonminimal_share <= nonminimal && v.mean_stretch <= 1.005, "{name}");
    }
}

/// The same grid with any GUIDs: dimensions are found, not read off.
#[test]
fn one_vl_for_a_grid_with_any_guids() {
    let (mut links, mut state) = (Vec::new(), 1_u64);
    let mut name: Vec<usize> = (0..64).collect();
    for i in (1..64).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        name.swap(i, (state >> 33) as usize % (i + 1));
    }
    for s in 0..64_usize {
        for (stride, end) in [(1, s % 4 == 3), (4, s / 4 % 4 == 3), (16, s / 16 == 3)] {
            if !end {
                links.push((name[s], name[s + stride]));
            }
        }
    }
    let f = fabric(64, &links, &[2; 64]);
    let verdict = routed(&f, &settings(Prefer::Default)).verdict;
    assert!(verdict.minimal && verdict.vls_all == 1 && verdict.sls_all == 1);
}

/// `ci/measures` prints one line per fabric in each of its two tables.
#[test]
fn the_script_of_the_measures() {
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("ci/measures");
    let run =
        std::process::Command::new(script).arg("--quick").env("DFDN", env!("CARGO_BIN_EXE_dfdn")).output();
    let output = run.expect("bash runs it");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let (measures, preferences) = text.split_once("\n\n").expect("two tables");
    let rows = |table: &str| -> Vec<Vec<String>> {
        let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect();
        table.lines().skip(2).map(cells).collect()
    };
    let (measures, preferences) = (rows(measures), rows(preferences));
    assert_eq!((measures.len(), preferences.len()), (3, 3), "{text}");
    assert!(
        measures.iter().all(|row| row.len() == 17) && preferences.iter().all(|row| row.len() == 8),
        "{text}"
    );
    let hypercube = &measures[1];
    assert_eq!((&hypercube[3][..], &hypercube[4][..], &hypercube[15][..]), ("1/1", "0.000", ""), "{text}");
    let load: f64 = hypercube[5].parse().expect("a load");
    assert!(load < 0.9, "dimension order loads the channels evenly: {text}");
    assert!(measures[2][15].starts_with("SLs 2"), "a ring needs two: {text}");
    assert!(preferences[2][4].ends_with('%'), "a ring has a lower bound: {text}");
}

#[test]
fn tori_with_shortest_paths() {
    for (dims, cas, vls, sls) in [(vec![8, 8], 1, 8, 8), (vec![5, 5, 3], 1, 8, 8), (vec![4, 4, 4], 1, 4, 4)] {
        let f = Torus { dims: dims.clone(), cas }.build().unwrap();
        let v = routed(&f, &settings(Prefer::Minimal)).verdict;
        println!("torus {dims:?}: {} VLs, {} SLs", v.vls_all, v.sls_all);
        assert!(v.minimal && v.vls_all <= vls && v.sls_all <= sls, "{dims:?}: {} {}", v.vls_all, v.sls_all);
    }
}

#[test]
fn irregular_networks_of_64_switches() {
    for seed in 1..=3 {
        let f = RandomIrregular { switches: 64, ports: 6, cas: 2, seed }.build().unwrap();
        assert_one_sl(&f, &routed(&f, &settings(Prefer::OneSl)), 4);
        assert!(routed(&f, &settings(Prefer::Minimal)).verdict.minimal);
    }
}

#[test]
fn the_same_tables_with_one_thread_and_with_two() {
    for (name, f) in small_members() {
        for prefer in [Prefer::Default, Prefer::OneSl, Prefer::Minimal] {
            let by = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| routed(&f, &settings(prefer)).routes)
            };
            let (one, two) = (by(1), by(2));
            assert!(one.lft == two.lft && one.sl2vl == two.sl2vl && one.path_sl == two.path_sl, "{name}");
            assert_eq!(one.remarks, two.remarks, "{name}");
        }
    }
}

/// Connected multigraphs with adapters on some switches only.
fn any_fabric() -> impl Strategy<Value = Fabric> {
    (2_usize..24).prop_flat_map(|n| {
        let tree = (1..n).map(|i| (0..i).prop_map(move |j| (j, i))).collect::<Vec<_>>();
        let more = prop::collection::vec((0..n, 0..n), 0..3 * n);
        let cas = prop::collection::vec(0_usize..3, n);
        (tree, more, cas).prop_map(move |(tree, more, cas)| fabric(n, &[tree, more].concat(), &cas))
    })
}

#[test]
fn any_connected_fabric() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config { cases: 150, ..Config::default() }, rng);
    runner
        .run(&any_fabric(), |f| {
            assert_one_sl(&f, &routed(&f, &settings(Prefer::OneSl)), 4);
            assert!(routed(&f, &settings(Prefer::Minimal)).verdict.minimal);
            routed(&f, &Settings { vls: Some(1), ..settings(Prefer::Default) });
            routed(&f, &Settings { vls: Some(2), ..settings(Prefer::OneSl) });
            Ok(())
        })
        .unwrap();
}

/// Tori with long rings in dimension order: two VLs, an SL for each set of datelines of rings above six, shortest paths,
/// multicast with any SL, and the same SL for replies.
#[test]
fn tori_take_two_vls_and_multicast_has_any_sl() {
    let settings = Settings { balance: Balance::Stable, ..Settings::default() };
    for (dims, cas, sls) in [
        (&[5, 5][..], 2, 1),
        (&[7, 3], 1, 2),
        (&[4, 7], 1, 2),
        (&[6, 5, 4], 1, 1),
        (&[5, 6, 7], 1, 2),
        (&[7, 8, 5], 1, 4),
        (&[6, 6, 6], 1, 1),
        (&[5, 5, 5, 3], 1, 1),
    ] {
        let fabric = Torus { dims: dims.to_vec(), cas }.build().expect("a torus");
        let routed = route(&fabric, &settings).expect("a torus can be routed");
        let verdict = &routed.verdict;
        assert!(verdict.is_safe() && verdict.minimal, "{dims:?}");
        assert_eq!((verdict.vls_all, verdict.sls_all), (2, sls), "{dims:?}");
        assert!(routed.safety.replies, "{dims:?}: both directions have one SL");
        let served = routed.routes.multicast.iter().filter_map(|tree| tree.sls).fold(0, |all, sls| all | sls);
        assert_eq!(served, u16::MAX, "{dims:?}: groups with any SL");
    }
}

/// With three dimensions, one SL costs few detours, and is worth them: also where links are missing. With two it is not.
#[test]
fn tori_take_one_sl_where_that_costs_little() {
    let mut taken = 0;
    for (dims, failed, share) in [
        (&[8, 4, 4][..], 0, 0.0025),
        (&[7, 6, 5], 0, 0.0015),
        (&[8, 8, 4], 0, 0.002),
        (&[8, 8, 8], 0, 0.0015),
        (&[6, 6, 4], 4, 0.001),
        (&[5, 5, 5], 5, 0.001),
        (&[8, 4, 4], 3, 0.0025),
        (&[8, 8, 4], 2, 0.0025),
        (&[8, 8], 0, 0.0),
        (&[9, 9], 3, 0.0),
    ] {
        let whole = Torus { dims: dims.to_vec(), cas: 1 }.build().expect("a torus");
        let fabric = fail_links(&whole, failed, 1).expect("links to spare");
        let default = routed(&fabric, &Settings::default());
        assert!(default.detours(&fabric) <= share, "{fabric}: {}", default.detours(&fabric));
        if dims.len() > 2 {
            assert_one_sl(&fabric, &default, 4);
        } else {
            assert!(default.verdict.sls_all > 1, "{fabric}");
        }
        let minimal = routed(&fabric, &settings(Prefer::Minimal));
        assert!(minimal.verdict.minimal, "{fabric}");
        taken += usize::from(minimal.verdict.sls_all > default.verdict.sls_all);
    }
    assert!(taken >= 7, "of ten, {taken} have fewer SLs than with shortest paths alone");
}

/// Where dimension order takes more SLs than there are, one SL serves each class of service.
#[test]
fn a_damaged_torus_has_classes_with_one_sl_each() {
    let whole = Torus { dims: vec![5, 7, 7], cas: 1 }.build().expect("a torus");
    let fabric = fail_links(&whole, 1, 1).expect("links to spare");
    let few = Settings { sls: 4, ..Settings::default() };
    let default = routed(&fabric, &few);
    assert_one_sl(&fabric, &default, 4);
    let preferred = routed(&fabric, &Settings { prefer: Prefer::OneSl, ..few });
    assert!(default.detours(&fabric) <= preferred.detours(&fabric) + 0.001, "{}", default.detours(&fabric));
    // Here the detours are few enough only once paths go beyond the rule.
    let whole = Torus { dims: vec![8, 7, 7], cas: 1 }.build().expect("a torus");
    let tight = shuffle_guids(&fail_links(&whole, 1, 8).expect("links to spare"), 8).expect("GUIDs");
    for (fabric, sls) in [(&fabric, 16), (&tight, 8)] {
        let classes = Settings { classes: 2, sls, ..Settings::default() };
        assert_eq!(routed(fabric, &classes).verdict.sls_all, 2, "{fabric}");
    }
}

/// In dimension order around the damage, one SL is worth few detours, and hosts may use any.
#[test]
fn damaged_tori_in_dimension_order_take_one_sl_if_that_costs_little() {
    for (dims, failed) in [([6, 6, 4], 4), ([6, 6, 6], 2)] {
        let whole = Torus { dims: dims.to_vec(), cas: 1 }.build().expect("a torus");
        let fabric = fail_links(&whole, failed, 1).expect("links to spare");
        let stable = routed(&fabric, &Settings { balance: Balance::Stable, ..Settings::default() });
        assert_one_sl(&fabric, &stable, 3);
        assert!(stable.routes.remarks[0].contains("dimension order"), "{:?}", stable.routes.remarks);
        assert!(stable.detours(&fabric) < 0.002, "{fabric}: {}", stable.detours(&fabric));
    }
}

/// Two links a step, and a ring beside a path, without any configuration.
#[test]
fn parallel_links_and_mixtures_with_meshes_are_tori() {
    let steps = |dims: [usize; 2], ring: [bool; 2], parallel: usize| {
        let mut links = Vec::new();
        for (x, y) in (0..dims[0]).flat_map(|x| (0..dims[1]).map(move |y| (x, y))) {
            let ahead = [((x + 1) % dims[0], y), (x, (y + 1) % dims[1])];
            for (i, (to_x, to_y)) in ahead.into_iter().enumerate() {
                if ring[i] || to_x + to_y > x + y {
                    links.extend(vec![(x * dims[1] + y, to_x * dims[1] + to_y); parallel]);
                }
            }
        }
        fabric(dims[0] * dims[1], &links, &vec![6; dims[0] * dims[1]])
    };
    for (fabric, sls) in [
        (steps([5, 6], [true, true], 2), 1),
        (steps([8, 4], [true, false], 1), 2),
        (steps([3, 7], [false, true], 3), 2),
    ] {
        if sls > 1 {
            assert_one_sl(&fabric, &routed(&fabric, &settings(Prefer::OneSl)), 3);
        }
        let routed = routed(&fabric, &Settings::default());
        assert!(routed.verdict.minimal, "{fabric}");
        assert_eq!((routed.verdict.vls_all, routed.verdict.sls_all), (2, sls), "{fabric}");
        // Parallel links carry about as much.
        let mut load = std::collections::BTreeMap::<_, Vec<u64>>::new();
        for (id, c) in fabric.channels().iter() {
            load.entry((c.from, c.to)).or_default().push(count(&fabric, &routed, id));
        }
        for (step, loads) in load {
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            assert!(most - least <= most / 3 + 6, "{fabric}, {step:?}: {loads:?}");
        }
    }
}

/// Routes of pairs of adapters over a channel.
fn count(fabric: &Fabric, routed: &Routed, channel: ChannelId) -> u64 {
    let (c, lft) = (fabric.channels().get(channel), &routed.routes.lft);
    let passes = |from: SwitchId, lid: Lid| {
        let mut at = from;
        while let Some(next) = fabric.channels().at_port(at, lft.get(at, lid).expect("an entry")) {
            if next == channel {
                return true;
            }
            at = fabric.channels().get(next).to;
        }
        false
    };
    let home = |end: &dfdn::fabric::EndPort| end.attachment.expect("a switch").0;
    let mut routes = 0;
    for (_, end) in fabric.adapters().filter(|(_, end)| home(end) != c.from) {
        routes += fabric.adapters().filter(|(_, source)| passes(home(source), end.lid)).count() as u64;
    }
    routes
}

#[test]
fn damaged_tori_take_few_vls_and_detours() {
    let tori = [
        (&[7, 7][..], 0.02),
        (&[8, 8], 0.02),
        (&[5, 6, 5], 0.005),
        (&[5, 3, 3, 5], 0.01),
        (&[3, 4, 5], 0.005),
        (&[4, 4, 4], 0.002),
    ];
    for (dims, longer) in tori {
        let whole = Torus { dims: dims.to_vec(), cas: 1 }.build().expect("a torus");
        let links = whole.channels().len() / 2;
        for seed in 1..if dims.len() < 4 { 4 } else { 2 } {
            for fabric in [
                fail_links(&whole, links / 20, seed).expect("links to spare"),
                fail_switches(&whole, 2, Candidates::Any, seed).expect("switches to spare"),
            ] {
                let routed = route(&fabric, &Settings::default()).expect("it is connected");
                // Where one SL would cost too much, each of some SLs may have a VL of its own.
                let is_layered = routed.verdict.minimal && routed.verdict.sls == routed.verdict.vls;
                let most = if is_layered { 6 } else { 3 };
                assert!(routed.verdict.is_safe() && routed.verdict.vls_all <= most, "{dims:?}, seed {seed}");
                assert!(
                    routed.detours(&fabric) <= longer,
                    "{dims:?}, seed {seed}: {}",
                    routed.detours(&fabric)
                );
                let serves_default = |tree: &McastGroup| tree.sls.is_some_and(|sls| sls & 1 != 0);
                assert!(routed.routes.multicast.iter().any(serves_default), "{dims:?}, seed {seed}");
            }
        }
    }
}

/// With one odd ring at most, detours are as few as is proven to be possible. A ring of four is two paths.
#[test]
fn one_sl_on_tori_takes_hardly_more_detours_than_it_must() {
    for (dims, cas, vls, more) in [
        (&[8, 8][..], 1, 3, 1.0),
        (&[7, 8], 2, 3, 1.0),
        (&[12, 9], 1, 3, 1.0),
        (&[16, 16], 1, 3, 1.0),
        (&[4, 16], 1, 3, 1.0),
        (&[4, 4, 8], 1, 3, 1.0),
        (&[7, 7], 1, 3, 1.0),
        (&[9, 7], 1, 3, 1.0),
        (&[13, 11], 1, 3, 1.0),
        (&[15, 3], 2, 3, 1.0),
        (&[8, 8, 8], 1, 4, 1.0),
        (&[8, 6, 7], 3, 4, 1.0),
        (&[4, 8, 9], 1, 4, 1.0),
        (&[5, 7, 8], 1, 4, 1.0),
        (&[7, 8, 9], 1, 4, 1.05),
        (&[7, 7, 7], 1, 4, 1.2),
        (&[9, 9, 9], 1, 4, 1.3),
        (&[3, 3, 3, 8], 1, 5, 1.0),
        (&[3, 5, 7, 7], 1, 5, 1.5),
    ] {
        let whole = Torus { dims: dims.to_vec(), cas }.build().expect("a torus");
        let routed = routed(&whole, &settings(Prefer::OneSl));
        assert_one_sl(&whole, &routed, vls);
        assert!(routed.verdict.multicast.is_some(), "{whole}");
        // The bound counts pairs of adapters, and none on one switch.
        let least = Bounds::new(&whole).one_sl_longer_at_least;
        let share = routed.detours(&whole);
        assert!(share <= least * more + 1e-9, "{whole}: {share}, at least {least}");
    }
}

#[test]
fn one_sl_where_a_torus_needs_more_sls_than_there_are() {
    let whole = Torus { dims: vec![8, 8], cas: 1 }.build().expect("a torus");
    for (prefer, sls) in [(Prefer::Default, 2), (Prefer::Default, 1), (Prefer::Minimal, 1)] {
        let few = Settings { sls, ..settings(prefer) };
        assert_one_sl(&whole, &routed(&whole, &few), 3);
    }
    let limited = Settings { max_nonminimal: Some(0.005), ..settings(Prefer::OneSl) };
    let several = routed(&whole, &limited);
    assert!(several.verdict.sls > 1, "with one SL, 0.8 % of the pairs take detours at least");
    assert!(several.detours(&whole) <= 0.005);
}

/// Lost paths move, hardly any others, and the way there is proven.
#[test]
fn one_sl_on_a_torus_stays_when_links_fail() {
    for dims in [&[8, 7][..], &[5, 4, 7]] {
        let whole = Torus { dims: dims.to_vec(), cas: 1 }.build().expect("a torus");
        let one_sl = settings(Prefer::OneSl);
        let before = routed(&whole, &one_sl);
        let baseline = Baseline::new(&whole, &one_sl, &before).expect("later tables may keep to it");
        let mut kept = 0;
        for seed in 1..=8 {
            let damaged = fail_links(&whole, 1, seed).expect("enough links");
            let after = route_after(&damaged, &one_sl, Some(&baseline)).expect("it can be routed");
            assert!(after.verdict.is_safe() && after.verdict.sls == 1, "{damaged}");
            kept += usize::from(matches!(after.lineage, Lineage::Kept));
            let back = route_after(&whole, &one_sl, Some(&baseline)).expect("it can be routed");
            assert!(back.routes.lft == before.routes.lft && back.routes.sl2vl == before.routes.sl2vl);
        }
        assert!(kept >= 6, "{whole}: {kept}");
    }
}

#[test]
fn a_torus_obeys_limits_and_preferences() {
    let fabric = Torus { dims: vec![7, 7], cas: 1 }.build().expect("a torus");
    let sls = |settings: Settings| route(&fabric, &settings).map(|routed| routed.verdict.sls_all);
    assert_eq!(sls(Settings { prefer: Prefer::OneSl, ..Settings::default() }).expect("one SL"), 1);
    assert_eq!(sls(Settings { prefer: Prefer::Minimal, ..Settings::default() }).expect("two VLs"), 4);
    assert_eq!(sls(Settings { sls: 3, ..Settings::default() }).expect("a search"), 1);
    assert_eq!(sls(Settings { classes: 4, ..Settings::default() }).expect("four times two VLs"), 16);
}
