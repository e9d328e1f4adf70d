//! Plans for failures and repairs of small members of all families.

mod double_scheme;

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::engine::{Baseline, Settings, route, route_after};
use crate::fabric::{ChannelId, Lmc, Sl, SwitchId, Vl};
use crate::tables::{Drain, Lft, PathSl, Routes, SlVlRow};
use crate::topology::{
    Candidates, FatTree, Mesh, Oft, Random, Ring, fail_links, fail_switches, small_members,
};
use crate::verify::mixture::Mixture;

/// The same with that many LIDs a host.
fn with_lmc(fabric: &Fabric, lmc: u8) -> Fabric {
    fabric.with_lmc(Lmc::new(lmc).expect("at most 7")).expect("enough LIDs")
}

fn routes(fabric: &Fabric) -> Routes {
    route(fabric, &Settings::default()).expect("it can be routed").routes
}

/// What every plan has to be; returns the words on how it was found.
fn check(fabric: &Fabric, t: &Transition, options: Options) -> Planned {
    let p = plan(fabric, t, options);
    assert!((p.states.first(), p.states.last()) == (Some(&t.old), Some(&t.new)));
    assert!(p.plan.states(fabric, t).unwrap() == p.states, "{}", p.how);
    assert!(p.plan.steps.len() <= options.max_steps.max(2) + 1, "{}", p.how);
    for (i, verdict) in p.verdicts.iter().enumerate() {
        let states = [&p.states[i], &p.states[i + 1]];
        assert_eq!(Mixture::new(fabric, &t.sls, &states).verdict(), *verdict);
    }
    p
}

/// A failure and its repair.
fn both_ways(whole: &Fabric, damaged: &Fabric, options: Options) -> [Planned; 2] {
    let (before, after) = (routes(whole), routes(damaged));
    let fails = Transition::between(whole, &before, damaged, &after);
    let returns = Transition::between(damaged, &after, whole, &before);
    [check(damaged, &fails, options), check(whole, &returns, options)]
}

#[test]
fn every_failure_and_repair_is_proven() {
    let mut ways: BTreeMap<String, usize> = BTreeMap::new();
    for (name, whole) in small_members() {
        let links = (1..=2).filter_map(|seed| fail_links(&whole, 1, seed).ok());
        let switches = fail_switches(&whole, 1, Candidates::Any, 1).ok();
        for damaged in links.chain(switches) {
            for p in both_ways(&whole, &damaged, Options::default()) {
                // Hosts may use any SL where one suffices, so tables with more SLs are not safe for them.
                assert_eq!(p.is_proven(), p.old_proven && p.new_proven, "{name}: {}", p.how);
                assert!(p.is_loop_free() || !p.is_proven(), "{name}: {}", p.how);
                if !p.is_proven() {
                    continue;
                }
                *ways.entry(p.how).or_default() += 1;
            }
        }
    }
    println!("{ways:#?}");
    assert!(ways.len() >= 3 && ways.values().sum::<usize>() > 60, "{ways:#?}");
}

/// Tables that keep to a baseline are made so that two steps lead to them and back, trees included, as long as that
/// costs little bandwidth.
#[test]
fn two_steps_lead_to_most_kept_tables_and_back() {
    let mut within = 0;
    let settings = Settings::default();
    let oft = Oft { k: 3, cas: None }.build().unwrap();
    let random = Random { switches: 24, degree: 4, cas: 2, seed: 1 }.build().unwrap();
    let grid = Mesh { dims: vec![5, 5], cas: 1 }.build().unwrap();
    for (name, whole) in [("mesh", grid), ("OFT", oft), ("random", random)] {
        let before = route(&whole, &settings).unwrap();
        let baseline = Baseline::new(&whole, &settings, &before).expect("one SL");
        for seed in 1..=3 {
            let damaged = fail_links(&whole, 1, seed).unwrap();
            let after = route_after(&damaged, &settings, Some(&baseline)).unwrap().routes;
            let fails = Transition::between(&whole, &before.routes, &damaged, &after);
            let returns = Transition::between(&damaged, &after, &whole, &before.routes);
            for (fabric, t) in [(&damaged, fails), (&whole, returns)] {
                let p = check(fabric, &t, Options::default());
                assert!(p.is_proven(), "{name} {seed}: {}", p.how);
                within += usize::from(p.plan.steps.len() <= 2 && p.dropped_entries == 0);
            }
        }
    }
    assert!(within >= 12, "{within} of 18");
}

/// A subnet manager that sends nothing for a change makes no step.
#[test]
fn a_plan_of_no_steps_is_judged() {
    let whole = Ring { switches: 4, cas: 1 }.build().unwrap();
    let tables = routes(&whole);
    let t = Transition::between(&whole, &tables, &whole, &tables);
    let judged = judge(&whole, &t, &Plan::default()).unwrap();
    assert!(judged.is_proven() && judged.old_proven && judged.new_proven);
    assert_eq!((judged.states.len(), judged.verdicts.len(), judged.dropped_entries), (1, 0, 0));
}

/// What drops all that changes needs no look.
#[test]
fn once_all_looks_are_spent_discards_are_left() {
    let whole = Mesh { dims: vec![5, 5], cas: 1 }.build().unwrap();
    let damaged = fail_links(&whole, 1, 1).unwrap();
    let t = Transition::between(&whole, &routes(&whole), &damaged, &routes(&damaged));
    let planned = |looks: usize| {
        let planner = Planner::new(&damaged, &t);
        planner.looks.set(looks);
        let way = planner.search(Options { strategy: Strategy::Rounds, ..Options::default() });
        planner.judged(Plan::between(&damaged, &t, &way.states), way)
    };
    let (all, none) = (planned(MOST_LOOKS), planned(0));
    assert!(all.is_proven() && none.is_proven(), "{}, {}", all.how, none.how);
    assert!(all.dropped_entries < none.dropped_entries, "{}, {}", all.how, none.how);
}

#[test]
fn discards_are_always_proven() {
    let mut dropped = 0;
    for (name, whole) in small_members() {
        let Ok(damaged) = fail_links(&whole, 1, 3) else { continue };
        let options = Options { strategy: Strategy::Discard, ..Options::default() };
        for p in both_ways(&whole, &damaged, options) {
            assert_eq!(p.is_proven(), p.old_proven && p.new_proven, "{name}: {}", p.how);
            dropped += p.dropped_entries;
        }
    }
    assert!(dropped > 1000, "{dropped}");
}

/// A failed link of a tree: what goes down by an old entry must not meet a new one that goes up again.
#[test]
fn live_entries_first_heals_a_tree() {
    let oft = Oft { k: 3, cas: None }.build().unwrap();
    let tree = FatTree { k: 4, levels: 3, down: None, cas: None }.build().unwrap();
    let mut healed = 0;
    for (whole, seed) in [&oft, &tree].into_iter().flat_map(|f| (1..=4).map(move |seed| (f, seed))) {
        let damaged = fail_links(whole, 1, seed).unwrap();
        let with = |strategy| both_ways(whole, &damaged, Options { strategy, ..Options::default() });
        let [one, _] = with(Strategy::OneStep);
        let [two, _] = with(Strategy::LiveThenDead);
        assert_eq!((one.plan.steps.len(), two.plan.steps.len()), (1, 2));
        healed += usize::from(!one.is_proven() && two.is_proven());
    }
    assert!(healed > 0);
}

/// Where one way round a ring is replaced by the other at once, the two close a loop.
#[test]
fn rows_that_cannot_be_dropped_wait_for_their_entries() {
    let f = Ring { switches: 6, cas: 1 }.build().unwrap();
    let mut old = routes(&f);
    // The same entries, with the two VLs exchanged.
    let mut new = old.clone();
    let exchanged = |row: SlVlRow| {
        let swap = |vl: Vl| if vl.0 < 2 { Vl(1 - vl.0) } else { vl };
        SlVlRow::from_vls(row.vls().map(swap))
    };
    new.sl2vl.rows_mut().iter_mut().for_each(|row| *row = exchanged(*row));
    old.multicast.clear();
    new.multicast.clear();
    let t = Transition::between(&f, &old, &f, &new);
    let one = plan(&f, &t, Options { strategy: Strategy::OneStep, ..Options::default() });
    let auto = check(&f, &t, Options::default());
    assert!(!one.is_proven() && auto.is_proven(), "{}", auto.how);
    assert!(auto.plan.steps.len() > 1);
}

/// A sender may go on with an SL of the old tables; where that is not safe with the new ones, the plan says so.
#[test]
fn an_old_sl_that_the_new_tables_cannot_carry_is_not_proven() {
    let t = Ring { switches: 5, cas: 1 }.build().unwrap();
    let mut old = routes(&t);
    old.multicast.clear();
    let mut new = old.clone();
    // SL 1 has one VL all around the ring.
    old.path_sl = PathSl::one(Sl(1));
    new.path_sl = PathSl::one(Sl(0));
    new.sl2vl.rows_mut().iter_mut().for_each(|row| *row = row.with(Sl(1), Vl(0)));
    let change = Transition::between(&t, &old, &t, &new);
    let p = plan(&t, &change, Options::default());
    assert!(!p.is_proven() && p.old_proven && !p.new_proven);
    assert!(p.verdicts.iter().any(|v| !v.witnesses.is_empty()));
}

/// Pinkston, Zafar, Duato's example: a mesh of nine switches, numbered by rows, that is routed first along rows (XY)
/// and then first along columns (YX).
struct Example {
    fabric: Fabric,
    t: Transition,
}

impl Example {
    fn new() -> Self {
        Self::with(0, 1)
    }

    /// - `lmc`: of the adapters.
    /// - `vls`: on which the SLs are, in rotation.
    fn with(lmc: u8, vls: u8) -> Self {
        let fabric = with_lmc(&Mesh { dims: vec![3, 3], cas: 1 }.build().unwrap(), lmc);
        let port = |from: usize, to: usize| {
            let mut out = fabric.channels().out(SwitchId::at(from));
            out.find(|(_, c)| c.to.index() == to).map(|(_, c)| c.out_port).expect("neighbours")
        };
        let towards = |a: usize, b: usize| if b > a { a + 1 } else { a - 1 };
        let routed = |rows_first: bool| {
            let mut lft = Lft::new(&fabric);
            for end in fabric.endports() {
                let (home, at_home) = end.attachment.unwrap();
                let (y, x) = (home.index() / 3, home.index() % 3);
                for s in 0..9 {
                    let (row, column) = (s / 3, s % 3);
                    let along_row = if rows_first { column != x } else { row == y };
                    let next = match (s == home.index(), along_row) {
                        (true, _) => at_home,
                        (false, true) => port(s, 3 * row + towards(column, x)),
                        (false, false) => port(s, 3 * towards(row, y) + column),
                    };
                    end.lids().for_each(|lid| lft.set(SwitchId::at(s), lid, next));
                }
            }
            let mut routes = Routes::on_one_vl("example", &fabric, lft);
            let row = SlVlRow::from_vls(std::array::from_fn(|sl| Vl(sl as u8 % vls)));
            routes.sl2vl.rows_mut().fill(row);
            routes.path_sl = PathSl::Any(u16::MAX);
            routes
        };
        let t = Transition::between(&fabric, &routed(true), &fabric, &routed(false));
        Self { fabric, t }
    }

    /// XY, but YX at some switches.
    fn updated(&self, switches: impl Fn(usize) -> bool) -> InForce {
        let all = Moves::between(&self.fabric, &self.t.old, &self.t.new);
        let entries = all.entries.into_iter().filter(|(_, s)| switches(s.index())).collect();
        Moves { entries, ..Moves::default() }.applied(&self.t.new, &self.t.old)
    }

    fn mixture<'a>(&'a self, states: &[&'a InForce]) -> Mixture<'a> {
        Mixture::new(&self.fabric, &self.t.sls, states)
    }

    /// All dependencies between channels.
    fn dependencies(&self, states: &[&InForce]) -> BTreeSet<(ChannelId, ChannelId)> {
        let all = (0..self.fabric.channels().len()).map(|c| (ChannelId::at(c), Vl(0))).collect();
        let found = Mixture::new(&self.fabric, &self.t.sls, states).within(&[all]);
        found.iter().map(|d| (d.from.0, d.to.0)).collect()
    }
}

#[test]
fn the_figures_of_the_double_scheme_are_the_printed_ones() {
    let e = Example::new();
    for state in [&e.t.old, &e.t.new] {
        let v = e.mixture(&[state]).verdict();
        assert!(v.deadlock_free);
        assert_eq!((v.virtual_channels, v.dependencies), (24, 28));
        let arcs = e.dependencies(&[state]);
        let first: BTreeSet<_> =
            arcs.iter().map(|a| a.0).filter(|c| arcs.iter().all(|a| a.1 != *c)).collect();
        let last: BTreeSet<_> = arcs.iter().map(|a| a.1).filter(|c| arcs.iter().all(|a| a.0 != *c)).collect();
        assert_eq!((first.len(), last.len()), (6, 6), "sources and leaves");
        // A control packet drains each way from a source to a leaf.
        let mut ways: Vec<Vec<ChannelId>> = first.iter().map(|&c| vec![c]).collect();
        let mut whole = Vec::new();
        while let Some(way) = ways.pop() {
            let end = way[way.len() - 1];
            if last.contains(&end) {
                whole.push(way.clone());
            }
            let ahead = arcs.iter().filter(|a| a.0 == end).map(|a| a.1);
            ways.extend(ahead.map(|next| [way.clone(), vec![next]].concat()));
        }
        assert_eq!(whole.len(), 16);
        let lane = |c: ChannelId| {
            let c = e.fabric.channels().get(c);
            (e.fabric.switch(c.from).guid, c.out_port.0, 0)
        };
        let all: Vec<_> = (0..24).map(|c| lane(ChannelId::at(c))).collect();
        let size = Drain::along(&all, arcs.iter().map(|&(a, b)| (lane(a), lane(b)))).size().unwrap();
        assert_eq!((size.sources, size.leaves, size.control_packets), (6, 6, 16), "as counted by walking");
        if state == &e.t.new {
            let channel = |c: ChannelId| e.fabric.channels().get(c);
            let of_first = whole.iter().filter(|way| channel(way[0]).from.index() == 0);
            let ends: BTreeSet<usize> = of_first.map(|way| channel(way[way.len() - 1]).to.index()).collect();
            assert_eq!(ends, BTreeSet::from([5, 8]), "the control packets of the first switch");
        }
    }
}

#[test]
fn two_rounds_suffice_for_the_example_without_a_double_scheme() {
    let e = Example::new();
    let v = e.mixture(&[&e.t.old, &e.t.new]).verdict();
    assert!(!v.deadlock_free && v.loop_free, "every way is shortest");
    let both: BTreeSet<_> =
        e.dependencies(&[&e.t.old]).union(&e.dependencies(&[&e.t.new])).copied().collect();
    assert_eq!(both.len(), 44);
    let cyclic = |set: &u32| {
        let state = e.updated(|s| set >> s & 1 != 0);
        !e.mixture(&[&state]).is_deadlock_free()
    };
    let count = (0..512).filter(cyclic).count();
    assert_eq!(count, 314, "sets of switches that are updated already");
    let rows = e.updated(|s| s / 3 != 1);
    let proven = |a: &InForce, b: &InForce| e.mixture(&[a, b]).is_deadlock_free();
    assert!(proven(&e.t.old, &rows) && proven(&rows, &e.t.new));
    let p = check(&e.fabric, &e.t, Options::default());
    assert!(p.is_proven() && p.dropped_entries == 0, "{}", p.how);
    assert_eq!(p.plan.steps.len(), 2, "{}", p.how);
}
