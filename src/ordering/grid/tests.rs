use super::*;
use crate::ordering::{Rank, Tree};
use crate::topology::{
    Candidates, Dragonfly, FatTree, HyperX, Hypercube, Kautz, Mesh, Random, Ring, SlimFly, Torus, fail_links,
    fail_switches, parallel_links, slow_links,
};

fn torus(dims: &[u32]) -> Fabric {
    Torus { dims: dims.to_vec(), cas: 1 }.build().unwrap()
}

fn lengths(grid: &Grid) -> Vec<(usize, bool)> {
    grid.dimensions().iter().map(|dimension| (dimension.length, dimension.ring)).collect()
}

#[test]
fn whole_grids_have_their_lengths() {
    for (f, expected) in [
        (torus(&[5, 7]), vec![(5, true), (7, true)]),
        (torus(&[6, 5, 8]), vec![(6, true), (8, true), (5, true)]),
        (torus(&[3, 6]), vec![(6, true), (3, true)]),
        (torus(&[4, 5]), vec![(5, true), (2, false), (2, false)]),
        (torus(&[5, 5, 5, 5]), vec![(5, true); 4]),
        (Ring { switches: 9, cas: 1 }.build().unwrap(), vec![(9, true)]),
        (Mesh { dims: vec![4, 6], cas: 1 }.build().unwrap(), vec![(4, false), (6, false)]),
    ] {
        let grid = Grid::find(&f).unwrap_or_else(|| panic!("{f}"));
        assert_eq!(lengths(&grid), expected, "{f}");
        assert!(grid.is_whole(), "{f}");
        // Steps there and back, and channels that are all steps.
        let mut seen = 0;
        for s in f.switch_ids() {
            for i in 0..grid.dimensions().len() {
                for up in [true, false] {
                    seen += grid.channels(s, i, up).len();
                    if let Some(next) = grid.step(&f, s, i, up) {
                        assert_eq!(grid.step(&f, next, i, !up), Some(s), "{f}");
                    }
                }
            }
        }
        assert_eq!(seen, f.channels().len(), "{f}");
    }
}

#[test]
fn steps_are_even_if_all_in_a_dimension_have_the_same_links() {
    let is_even = |f: &Fabric| Grid::find(f).unwrap().has_even_steps(f);
    let wide = parallel_links(&torus(&[5, 6]), 2).unwrap();
    assert!(is_even(&wide) && is_even(&torus(&[5, 6])));
    for seed in 0..3 {
        for uneven in [
            fail_links(&wide, 1, seed).unwrap(),
            slow_links(&wide, 1, seed).unwrap(),
            slow_links(&torus(&[5, 6]), 1, seed).unwrap(),
        ] {
            assert!(Grid::find(&uneven).unwrap().is_whole() && !is_even(&uneven), "{seed}: {uneven}");
        }
    }
}

#[test]
fn damaged_tori_are_recognised() {
    for dims in [&[8, 8][..], &[12, 9], &[16, 16], &[6, 6, 6], &[5, 3, 7], &[5, 5, 5, 3]] {
        let whole = torus(dims);
        let links = whole.channels().len() / 2;
        for seed in 0..4 {
            for damaged in [
                fail_links(&whole, 1, seed).unwrap(),
                fail_links(&whole, links / 20, seed).unwrap(),
                fail_switches(&whole, 2, Candidates::Any, seed).unwrap(),
            ] {
                let grid = Grid::find(&damaged).unwrap_or_else(|| panic!("{dims:?}, seed {seed}: {damaged}"));
                let mut found: Vec<usize> = grid.dimensions().iter().map(|d| d.length).collect();
                let mut expected: Vec<usize> = dims.iter().map(|&d| d as usize).collect();
                found.sort_unstable();
                expected.sort_unstable();
                assert_eq!(found, expected, "{damaged}");
                assert!(!grid.is_whole(), "{damaged}");
            }
        }
    }
}

#[test]
fn other_fabrics_are_no_grids() {
    for f in [
        Dragonfly::balanced(2).build().unwrap(),
        Dragonfly::balanced(3).build().unwrap(),
        FatTree { k: 4, levels: 3, down: None, cas: None }.build().unwrap(),
        FatTree { k: 8, levels: 3, down: None, cas: None }.build().unwrap(),
        SlimFly { q: 5, cas: None }.build().unwrap(),
        Kautz { d: 3, n: 3, cas: 1 }.build().unwrap(),
        HyperX { dims: vec![4, 5], cas: 1 }.build().unwrap(),
        Random { switches: 60, degree: 6, cas: 1, seed: 1 }.build().unwrap(),
        Random { switches: 40, degree: 3, cas: 1, seed: 1 }.build().unwrap(),
    ] {
        assert!(Grid::find(&f).is_none(), "{f}");
    }
}

#[test]
fn the_order_from_a_corner_grows_from_neighbour_to_neighbour() {
    let mesh = Mesh { dims: vec![4, 5, 3], cas: 1 }.build().unwrap();
    let without = |f: &Fabric, seed| {
        let f = fail_links(f, 6, seed).unwrap();
        fail_switches(&f, 1, Candidates::Any, seed).unwrap()
    };
    for f in [mesh.clone(), torus(&[6, 7]), without(&mesh, 1), without(&torus(&[5, 6, 4]), 2)] {
        let grid = Grid::find(&f).unwrap();
        let place = grid.from_corner(&f);
        let mut sorted = place.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..f.num_switches() as u32), "{f}: all are different");
        for s in f.switch_ids().filter(|s| place[s.index()] > 0) {
            let ahead = f.channels().out(s).map(|(_, c)| place[c.to.index()]);
            assert!(ahead.min() < Some(place[s.index()]), "{f}: {s:?} has an earlier neighbour");
        }
        let rank = Rank::up_down(&f, &place);
        let tree = Tree::up_down(&f, &place);
        assert_eq!(tree.with_tree_outermost(&f, &rank), rank, "{f}: the paths of its tree ascend");
        if grid.is_whole() {
            let sum = |s: SwitchId| grid.place(s).iter().map(|&p| u32::from(p)).sum::<u32>();
            let mut order: Vec<SwitchId> = f.switch_ids().collect();
            order.sort_by_key(|s| place[s.index()]);
            assert!(order.is_sorted_by_key(|&s| sum(s)), "{f}: the sums of positions ascend");
        }
    }
}

/// A square that lost a link makes two dimensions of a switch look like one.
#[test]
fn damaged_hypercubes_are_recognised() {
    for n in [6, 8] {
        let whole = Hypercube { n, cas: 1 }.build().unwrap();
        let grid = Grid::find(&fail_links(&whole, 10, 1).unwrap()).expect("a grid");
        assert_eq!(lengths(&grid), vec![(2, false); n as usize]);
    }
}
