//! Tables that change under load.

use super::conservation::{audit, kernel_after};
use super::*;
use crate::reconfigure::{self, Options, Strategy};
use crate::tables::{Plan, Transition};
use crate::topology::{Candidates, Dragonfly, FatTree, Mesh, Ring, fail_links, fail_switches};

const WAYS: [Way; 3] = [Way::Rewriting, Way::Steps, Way::Static];

/// A fabric, its tables, and the proven plan for a failure.
fn failure(whole: Fabric, damaged: &Fabric) -> (Fabric, Routes, Plan) {
    let (old, new) = (routes(&whole, "dfdn"), routes(damaged, "dfdn"));
    let t = Transition::between(&whole, &old, damaged, &new);
    let planned = reconfigure::plan(damaged, &t, Options::default());
    assert!(planned.is_proven(), "{}", planned.how);
    (whole, old, planned.plan)
}

fn failures() -> Vec<(Fabric, Routes, Plan)> {
    let wholes = [
        Dragonfly::balanced(1).build().unwrap(),
        FatTree { k: 4, levels: 3, down: None, cas: None }.build().unwrap(),
        Mesh { dims: vec![3, 3], cas: 2 }.build().unwrap(),
    ];
    let links = wholes.clone().map(|f| (fail_links(&f, 1, 2).unwrap(), f));
    let switches = wholes.map(|f| (fail_switches(&f, 1, Candidates::Any, 1).unwrap(), f));
    links.into_iter().chain(switches).map(|(damaged, whole)| failure(whole, &damaged)).collect()
}

fn update(plan: &Plan, way: Way) -> Option<Update> {
    Some(Update { plan: plan.clone(), way, interval: 200_000, barrier: 20_000_000 })
}

fn lost_in(update: Option<Updated>) -> Lost {
    update.expect("there was an update").lost
}

/// No packet and no credit vanishes but those that are counted as lost, in any model, and all ways lead to the same
/// tables. After that nothing is lost any more.
#[test]
fn losses_are_counted_and_all_ways_end_alike() {
    let (mut lost, mut cut_off) = (0, 0);
    for (fabric, old, plan) in failures() {
        for model in models() {
            let with =
                |way| Settings { model: model.clone(), update: update(&plan, way), ..Settings::default() };
            let settings = WAYS.map(with);
            let simulations = settings.each_ref().map(|s| Simulation::new(&fabric, &old, s).unwrap());
            let demand = Demand::Uniform;
            let load = Load::Share(0.9);
            let kernels: Vec<_> = simulations
                .iter()
                .map(|simulation| {
                    let (kernel, stuck) = kernel_after(simulation, &demand, load, 200_000_000);
                    let label = format!("{fabric} {:?}", simulation.settings);
                    let way = simulation.settings.update.as_ref().unwrap().way;
                    assert!(!stuck || way == Way::Rewriting, "{label}");
                    audit(&kernel, &label);
                    let report = kernel.motion.as_ref().unwrap().finished(stuck);
                    if !stuck {
                        let (programmed, flows) = (report.programmed.unwrap(), report.flows.unwrap());
                        // What was on its way to an entry of before.
                        assert!(
                            flows < programmed + 60_000_000 && programmed < 150_000_000,
                            "{label}: {report:?}"
                        );
                    }
                    assert_eq!(report.stopped > 0, way == Way::Static);
                    lost += report.lost.no_link;
                    cut_off += report.lost.cut_off;
                    kernel
                })
                .collect();
            let held = |i: usize| kernels[i].motion.as_ref().unwrap();
            assert!(held(0).holds_same_as(held(1)) && held(1).holds_same_as(held(2)));
        }
    }
    assert!(lost > 1000 && cut_off > 1000, "{lost} {cut_off}");
}

/// Hosts that stop lose nothing but what is under way when the link fails.
#[test]
fn the_price_of_each_way() {
    let whole = Ring { switches: 6, cas: 2 }.build().unwrap();
    let damaged = fail_links(&whole, 1, 1).unwrap();
    let (fabric, old, plan) = failure(whole, &damaged);
    let run = |way, interval| {
        let update = Update { interval, ..update(&plan, way).unwrap() };
        let settings = Settings { update: Some(update), ..Settings::default() };
        Simulation::new(&fabric, &old, &settings).unwrap().run(Load::Share(0.5), 3).unwrap().update.unwrap()
    };
    let [rewriting, steps, halted] = WAYS.map(|way| run(way, 10_000_000));
    assert_eq!(rewriting.failed, 25_000_000, "a quarter of the usual time");
    assert!(rewriting.lost.no_link > 10 * halted.lost.no_link, "{rewriting:?} {halted:?}");
    assert!(halted.lost.no_link > 0 && halted.stopped >= halted.mads * 10_000_000, "{halted:?}");
    assert_eq!(halted.flows, Some(halted.failed + halted.stopped));
    assert_eq!((rewriting.stopped, steps.stopped), (0, 0));
    // Each management packet takes its time.
    let slow = run(Way::Steps, 20_000_000);
    assert!(slow.lost.no_link > steps.lost.no_link, "{slow:?} {steps:?}");
    let barriers = 20_000_000 * (plan.steps.len() as u64 - 1);
    for (run, interval) in [(steps, 10_000_000), (slow, 20_000_000)] {
        assert_eq!(run.programmed, Some(run.failed + run.mads * interval + barriers));
        assert!(run.mads >= halted.mads && run.lost.cut_off == 0);
    }
}

/// Pinkston, Zafar, Duato's example: from routing along rows first to columns first. Both ways at once deadlock under
/// load; in proven steps they never do, nor if hosts stop.
#[test]
fn rewriting_deadlocks_where_proven_steps_do_not() {
    let fabric = Mesh { dims: vec![3, 3], cas: 2 }.build().unwrap();
    let old = along(&fabric, true);
    let t = Transition::between(&fabric, &old, &fabric, &along(&fabric, false));
    let planned = |strategy| reconfigure::plan(&fabric, &t, Options { strategy, ..Options::default() });
    let (one, rounds) = (planned(Strategy::OneStep), planned(Strategy::Auto));
    assert!(!one.is_proven() && rounds.is_proven() && rounds.plan.steps.len() == 2);
    let deadlocks = |plan: &Plan, way| -> usize {
        let model = Model { buffer: Room::PerVl(32), ..Model::default() };
        let update = Update { plan: plan.clone(), way, interval: 10_000_000, barrier: 100_000_000 };
        let settings = Settings { model, update: Some(update), ..Settings::default() };
        let simulation = Simulation::new(&fabric, &old, &settings).unwrap();
        let runs: Vec<_> = (1..=20).map(|seed| (Load::Share(1.0), seed)).collect();
        let rows = simulation.sweep(&runs, &|| false, &|_| ()).unwrap();
        for row in &rows {
            let lost = lost_in(row.update);
            assert_eq!(lost.total(), 0, "no link fails");
            assert_eq!(row.update.unwrap().flows.is_none(), row.deadlock.is_some());
            // The judge of the step knows the cycle.
            let Some(stuck) = &row.deadlock else { continue };
            let components = &one.verdicts[0].cyclic_components;
            let waits =
                |lanes: &Vec<_>| stuck.cycle.iter().all(|wait| lanes.contains(&(wait.channel, wait.vl)));
            assert!(stuck.cycle.len() > 2 && components.iter().any(waits), "{stuck:?}");
        }
        rows.iter().filter(|row| row.deadlock.is_some()).count()
    };
    let at_once = deadlocks(&one.plan, Way::Rewriting);
    println!("{at_once} of 20 deadlock");
    assert!(at_once > 0);
    assert_eq!(deadlocks(&one.plan, Way::Steps), at_once, "one step is the same");
    assert_eq!(deadlocks(&rounds.plan, Way::Steps), 0);
    assert_eq!(deadlocks(&rounds.plan, Way::Static), 0);
}

#[test]
fn a_change_is_the_same_on_any_number_of_threads() {
    let (fabric, old, plan) = failures().swap_remove(1);
    let settings = Settings { update: update(&plan, Way::Steps), ..Settings::default() };
    let simulation = Simulation::new(&fabric, &old, &settings).unwrap();
    let rows = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let runs = [1, 2, 3].map(|seed| (Load::Share(0.6), seed));
        let rows = pool.install(|| simulation.sweep(&runs, &|| false, &|_| ())).unwrap();
        rows.into_iter().map(|row| Row { seconds: 0.0, ..row }).collect::<Vec<_>>()
    };
    let one = rows(1);
    assert_eq!(one, rows(3));
    assert!(one.iter().any(|row| row.update != one[0].update), "seeds differ");
}

#[test]
fn a_plan_for_another_fabric_is_refused() {
    let fabric = Ring { switches: 4, cas: 1 }.build().unwrap();
    let old = routes(&fabric, "dfdn");
    let refused = |plan: Plan| {
        let settings = Settings { update: update(&plan, Way::Steps), ..Settings::default() };
        Simulation::new(&fabric, &old, &settings).err().expect("it does not fit").to_string()
    };
    let own = fabric.switch(crate::fabric::SwitchId::at(0)).guid;
    let error = refused(Plan { failed: vec![(Guid(9), 1)], ..Plan::default() });
    assert!(error.starts_with("there is no switch 0x0000000000000009; the plan may be"), "{error}");
    let error = refused(Plan { failed: vec![(own, 77)], ..Plan::default() });
    assert!(error.contains("has no cable at port 77"), "{error}");
    let step = crate::tables::Step { sl2vl: vec![(own, 1, 99, Default::default())], ..Default::default() };
    let error = refused(Plan { steps: vec![step], ..Plan::default() });
    assert!(error.contains("has no row of port 1 to port 99"), "{error}");
}
