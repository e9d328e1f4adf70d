//! Allowing more never ends worse by the stated objective.

use std::sync::OnceLock;

use rayon::prelude::*;

use super::objective::{Figures, Objective};
use super::stable::StableTables;
use super::tuning::{STABLE_LOST, VL};
use super::{anew, orders_tried};
use crate::engine::{Balance, EngineError, Prefer, Settings, Task, route};
use crate::evaluate::{channel_load, largest_load, quick_bisection};
use crate::fabric::{Fabric, SwitchId};
use crate::ordering::{Datelines, Grid};
use crate::routing::{Hops, grid_routes};
use crate::topology::{
    Dragonfly, FatTree, HyperX, Hypercube, Mesh, Ring, ScaleFree, Torus, attach_adapters, fail_links,
    parallel_links, shuffle_guids, slow_links, small_members,
};

/// The largest fabrics that are tried, in switches.
const LARGEST: usize = 100;

/// What a comparison may be worse by: a VL.
const TOLERANCE: f64 = VL;

/// What may be left out of the settings of the default.
fn restrictions() -> Vec<(&'static str, Settings)> {
    let default = Settings::default;
    vec![
        ("vls 2", Settings { vls: Some(2), ..default() }),
        ("vls 3", Settings { vls: Some(3), ..default() }),
        ("vls 4", Settings { vls: Some(4), ..default() }),
        ("sls 1", Settings { sls: 1, ..default() }),
        ("search_effort 0", Settings { search_effort: 0.0, ..default() }),
        ("prefer one-sl", Settings { prefer: Prefer::OneSl, ..default() }),
        ("prefer minimal", Settings { prefer: Prefer::Minimal, ..default() }),
        ("balance stable", Settings { balance: Balance::Stable, ..default() }),
    ]
}

/// Tables as they come out.
struct Outcome {
    /// By the objective.
    price: f64,
    /// One SL, at the price of detours.
    one_sl_by_detours: bool,
    /// Stable tables that lose no more than [`STABLE_LOST`] are not compared with others.
    tolerance: f64,
}

/// What the task of routing a fabric comes to; `None` where it cannot be routed.
pub(super) fn with_task<T>(
    fabric: &Fabric,
    settings: &Settings,
    run: impl FnOnce(Task<'_>) -> T,
) -> Option<T> {
    let (hops, dimensions) = (Hops::new(fabric).ok()?, OnceLock::new());
    let limits = settings.lane_limits(fabric).ok()?;
    Some(run(Task { fabric, hops: &hops, settings, limits, baseline: None, dimensions: &dimensions }))
}

/// `None` where there are no tables.
fn outcome(fabric: &Fabric, settings: &Settings) -> Option<Outcome> {
    with_task(fabric, settings, outcome_of)?
}

fn outcome_of(task: Task<'_>) -> Option<Outcome> {
    let Task { fabric, settings, .. } = task;
    let objective = Objective::new(task);
    let routed = route(fabric, settings).ok()?;
    let load = channel_load(fabric, &routed.routes).ok()?.edge_forwarding_index;
    let bandwidth = quick_bisection(fabric, &routed.routes.lft);
    let measured = objective.reference.compare(&Figures { load, bandwidth, detours: routed.detours(fabric) });
    let (vls, sls) = (routed.verdict.vls as u8, routed.verdict.sls as u8);
    let one_sl_by_detours = sls == 1 && measured.detours > 0.0;
    let lasts = routed.routes.remarks.iter().any(|remark| remark.starts_with("a failed link changes few"));
    let tolerance = if lasts { STABLE_LOST } else { TOLERANCE };
    Some(Outcome { price: objective.price(&measured, vls, sls), one_sl_by_detours, tolerance })
}

/// One comparison is left out: the default takes detours for one SL up to `max_nonminimal`, whatever they cost by the
/// objective, and `prefer minimal` does not.
#[test]
fn allowing_more_never_ends_worse() {
    let damaged = |fabric: &Fabric, seed| fail_links(fabric, fabric.channels().len().div_ceil(20), seed).ok();
    let cases = small_members().into_iter().filter(|(_, fabric)| fabric.num_switches() <= LARGEST);
    let cases: Vec<(String, Fabric)> = cases
        .flat_map(|(name, fabric)| {
            let damaged = (1..=3).filter_map(|seed| {
                damaged(&fabric, seed).map(|damaged| (format!("{name}, damaged by {seed}"), damaged))
            });
            let damaged: Vec<(String, Fabric)> = damaged.collect();
            [(name.to_owned(), fabric)].into_iter().chain(damaged)
        })
        .collect();
    let worse = |(name, fabric): &(String, Fabric)| {
        let all = outcome(fabric, &Settings::default()).expect("it can be routed");
        let less = |(what, settings): (&str, Settings)| {
            let Outcome { price, .. } = outcome(fabric, &settings)?;
            let by_choice = settings.prefer == Prefer::Minimal && all.one_sl_by_detours;
            let is_worse = price + all.tolerance < all.price && !by_choice;
            is_worse.then(|| format!("{name} ({fabric}): {what} {price:.4}, default {:.4}", all.price))
        };
        let mut found: Vec<String> = restrictions().into_iter().filter_map(less).collect();
        let more = outcome(fabric, &Settings { search_effort: 4.0, ..Settings::default() });
        let more = more.expect("it can be routed");
        if all.price + more.tolerance < more.price {
            let (more, all) = (more.price, all.price);
            found.push(format!("{name} ({fabric}): search_effort 4 {more:.4}, default {all:.4}"));
        }
        found
    };
    let found: Vec<String> = cases.par_iter().flat_map_iter(worse).collect();
    assert!(cases.len() > 20);
    assert!(found.is_empty(), "{found:#?}");
}

/// Where a search affords labels for one order alone, a few destinations tell which. Up*/down* would leave .5 % of the pairs
/// of this hypercube on detours.
#[test]
fn labels_go_to_the_order_that_they_serve_best() {
    let whole = Hypercube { n: 9, cas: 1 }.build().unwrap();
    let f = fail_links(&whole, 69, 1).unwrap();
    let limits = Settings::default().lane_limits(&f).unwrap();
    let tried = orders_tried(&f, &Hops::new(&f).unwrap(), limits);
    assert!(tried[0].ends_with("by dimension, with labels"), "{tried:?}");
}

/// P-SSSP and stable tables have one channel with nearly twice the load of others then.
#[test]
fn one_failed_link_costs_an_all_to_all_little() {
    let whole = FatTree { k: 16, levels: 3, down: None, cas: None }.build().unwrap();
    let f = fail_links(&whole, 1, 1).unwrap();
    let tables = |balance| {
        let settings = Settings { balance, ..Settings::default() };
        let routes = route(&f, &settings).unwrap().routes;
        (channel_load(&f, &routes).unwrap().edge_forwarding_index, routes.lft)
    };
    let ((default, lft), (stable, before)) = (tables(Balance::Auto), tables(Balance::Stable));
    assert!(5 * default < 3 * stable, "{default} {stable}");
    let lids = || f.adapters().map(|(_, end)| end.lid);
    let moved = lids().flat_map(|lid| lft.to(lid).iter().zip(before.to(lid))).filter(|(a, b)| a != b).count();
    let entries = lids().count() * f.num_switches();
    assert!(0 < moved && 500 * moved < entries, "{moved} of {entries}");
}

/// The leaf with the lowest GUID has often lost a link. With it as the root, some of these take two VLs, or a search.
#[test]
fn damaged_trees_take_one_vl_whatever_the_order_of_guids() {
    let whole = FatTree { k: 16, levels: 3, down: None, cas: None }.build().unwrap();
    let damaged = fail_links(&whole, 100, 1).unwrap();
    for seed in 1..=6 {
        let f = shuffle_guids(&damaged, seed).unwrap();
        let routed = route(&f, &Settings::default()).unwrap();
        let verdict = &routed.verdict;
        assert_eq!((verdict.vls, verdict.sls, verdict.minimal), (1, 1, true), "{seed}");
        assert!(routed.routes.remarks.iter().any(|remark| remark.contains("balance stable")), "{seed}");
    }
}

/// Two slow links of a Dragonfly: where one SL loses bandwidth by the expected load, DF-DN would take five SLs, with more
/// routes on the hottest channel.
#[test]
fn stable_tables_need_no_more_sls_than_others() {
    let whole = Dragonfly::balanced(2).build().unwrap();
    for (seed, vls) in [(1, 3), (3, 2), (6, 3)] {
        let f = slow_links(&fail_links(&whole, 1, seed).unwrap(), 2, seed).unwrap();
        let stable = Settings { balance: Balance::Stable, ..Settings::default() };
        let verdict = route(&f, &stable).unwrap().verdict;
        assert_eq!((verdict.vls, verdict.sls), (vls, 1), "{seed}");
    }
    // P-SSSP in layers costs less than tables by the expected load, and than one SL, which loses no more than it may.
    let map = ScaleFree { switches: 300, links: 2, stubs: 150, cas: 1, seed: 3 }.build().unwrap();
    let sls = |balance| route(&map, &Settings { balance, ..Settings::default() }).unwrap().verdict.sls;
    assert_eq!((sls(Balance::Stable), sls(Balance::Full)), (1, 1));
}

/// A limit that cannot be met is no reason to leave a fabric without tables.
#[test]
fn tables_beyond_the_stated_limit_are_better_than_none() {
    let ring = Ring { switches: 7, cas: 1 }.build().unwrap();
    for (prefer, limit) in [(Prefer::Default, 0.01), (Prefer::Minimal, 1.0)] {
        let settings = Settings { vls: Some(1), prefer, max_nonminimal: Some(limit), ..Settings::default() };
        let verdict = route(&ring, &settings).unwrap().verdict;
        assert!(verdict.is_safe() && verdict.vls == 1 && verdict.nonminimal_share > 0.01, "{prefer:?}");
        // Fewer classes have VLs enough to keep to it.
        let classes = Settings { vls: Some(2), classes: 2, ..settings };
        assert!(matches!(route(&ring, &classes), Err(EngineError::Classes { fit: 1, .. })), "{prefer:?}");
    }
}

/// No tables come below the floor of the load, so on a large tree P-SSSP need not be routed to compare with. A failed link
/// leaves the floor where it is, but the tables are above it.
#[test]
fn a_large_tree_has_the_same_tables_without_p_sssp() {
    let whole = FatTree { k: 20, levels: 3, down: None, cas: None }.build().unwrap();
    let damaged = fail_links(&whole, 3, 1).unwrap();
    let settings = Settings::default();
    for (fabric, is_spared) in [(&whole, true), (&damaged, false)] {
        let compare = |task: Task<'_>| {
            assert!(Objective::has_floor_in_reach(task), "{fabric}");
            let stable = StableTables::new(task, 0.0).next().unwrap().unwrap().forwarding;
            assert_eq!(Objective::at_floor(task, &stable).is_some(), is_spared, "{fabric}");
            let [without, with] = [None, Some(Objective::new(task))].map(|known| anew(task, known).unwrap());
            assert!(without.plan.lft == with.plan.lft, "{fabric}");
        };
        with_task(fabric, &settings, compare).expect("it can be routed");
    }
}

/// Dimension order leaves some pairs without a path, and the search took two SLs, or one and twelve times as long.
#[test]
fn grids_with_few_failed_links_have_one_sl() {
    let hypercube = Hypercube { n: 8, cas: 4 }.build().unwrap();
    let mesh = Mesh { dims: vec![6, 6, 6], cas: 2 }.build().unwrap();
    for (whole, links) in [(hypercube, 4), (mesh, 3)] {
        let fabric = fail_links(&whole, links, 1).unwrap();
        let minimal = Settings { prefer: Prefer::Minimal, ..Settings::default() };
        let full = Settings { balance: Balance::Full, ..Settings::default() };
        for settings in [Settings::default(), full, minimal] {
            let routed = route(&fabric, &settings).unwrap();
            let verdict = &routed.verdict;
            assert_eq!((verdict.sls, verdict.minimal), (1, true), "{fabric}");
            assert!(verdict.vls <= 3, "{fabric}");
            assert!(
                routed.routes.remarks.iter().any(|remark| remark.contains("fitted to its paths")),
                "{fabric}"
            );
        }
    }
}

/// Dimension order shares nothing between a step with all its cables and one with fewer, nor with a slow one.
#[test]
fn whole_tori_with_uneven_steps_are_not_as_hot_as_in_dimension_order() {
    let torus = |dims: &[u32], cas| Torus { dims: dims.to_vec(), cas }.build().unwrap();
    let trunks = parallel_links(&torus(&[6, 6, 4], 4), 3).unwrap();
    let few = attach_adapters(&torus(&[7, 7], 1), 60).unwrap();
    for fabric in [
        fail_links(&trunks, 30, 1).unwrap(),
        slow_links(&torus(&[6, 6, 4], 2), 10, 1).unwrap(),
        slow_links(&torus(&[9, 9], 3), 1, 1).unwrap(),
        few,
    ] {
        let grid = Grid::find(&fabric).unwrap();
        let settings = Settings::default();
        let (least, in_order) = with_task(&fabric, &settings, |task| {
            let (root, lines) = (SwitchId(0), Datelines::new(&fabric, &grid));
            let in_order = grid_routes(&fabric, task.hops, &grid, &lines, root, false);
            (Objective::new(task).reference.load, largest_load(&fabric, &in_order.lft).unwrap())
        })
        .unwrap();
        let load = largest_load(&fabric, &route(&fabric, &settings).unwrap().routes.lft).unwrap();
        assert!(grid.is_whole() && 8 * in_order > 9 * least, "{fabric}: {in_order}, {least}");
        assert!(10 * load <= 11 * least, "{fabric}: {load}, {least}");
    }
}

/// Dimension order around much damage is hot, and one SL takes too many detours. Plain orders serve the first of these, layers the
/// second one.
#[test]
fn damaged_tori_that_are_not_small_take_other_ways_where_dimension_order_is_hot() {
    let torus = |dims: &[u32]| Torus { dims: dims.to_vec(), cas: 1 }.build().unwrap();
    let damaged = fail_links(&torus(&[4, 4, 10]), 28, 31).unwrap();
    let slow = slow_links(&torus(&[3, 11, 3]), 8, 45).unwrap();
    for (fabric, how) in
        [(damaged, "every path ascends in the order"), (slow, "those of an SL close no cycle")]
    {
        let settings = Settings::default();
        let reference = with_task(&fabric, &settings, |task| Objective::new(task).reference.load).unwrap();
        let routed = route(&fabric, &settings).unwrap();
        let load = largest_load(&fabric, &routed.routes.lft).unwrap();
        assert!(routed.verdict.minimal && load <= reference, "{fabric}: {load}, {reference}");
        assert!(routed.routes.remarks[0].contains(how), "{fabric}: {}", routed.routes.remarks[0]);
    }
}

/// One SL within three VLs would take too many detours on this mesh. Several SLs of the same search are not held to them.
#[test]
fn one_search_serves_one_sl_on_few_vls_and_several_on_all() {
    let whole = Mesh { dims: vec![9, 9, 4], cas: 1 }.build().unwrap();
    let fabric = fail_links(&whole, 77, 6).unwrap();
    let verdict = route(&fabric, &Settings::default()).unwrap().verdict;
    assert!(
        verdict.vls > 3 && verdict.sls > 1 && verdict.minimal,
        "{} VLs, {} SLs",
        verdict.vls,
        verdict.sls
    );
}

/// A search would judge these by a sample of their destinations, and find up*/down* best.
#[test]
fn large_whole_grids_are_in_dimension_order() {
    let mesh = |dims: &[u32]| Mesh { dims: dims.to_vec(), cas: 1 }.build().unwrap();
    let hyperx = HyperX { dims: vec![8, 8, 8], cas: 1 }.build().unwrap();
    for (fabric, largest) in [(mesh(&[32, 32]), 8192), (mesh(&[12, 10, 8]), 2880), (hyperx, 64)] {
        let routed = route(&fabric, &Settings::default()).unwrap();
        let verdict = &routed.verdict;
        assert_eq!((verdict.vls, verdict.sls, verdict.minimal), (1, 1, true), "{fabric}");
        let load = channel_load(&fabric, &routed.routes).unwrap();
        assert_eq!(load.edge_forwarding_index, largest, "{fabric}");
    }
}
