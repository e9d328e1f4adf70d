//! Random bisections: their patterns, their spread, and what is quick.

use super::*;
use crate::evaluate::bisection::student;
use crate::topology::FatTree;

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
