//! The Double Scheme under load.

use super::conservation::{audit, kernel_after};
use super::*;
use crate::reconfigure::double_scheme;
use crate::tables::{Drain, Plan, Transition};
use crate::topology::{FatTree, Mesh, fail_links};

fn with_two_lids(fabric: &Fabric) -> Fabric {
    fabric.with_lmc(Lmc::new(1).unwrap()).unwrap()
}

/// Pinkston, Zafar, Duato's example, with two hosts a switch.
fn example() -> (Fabric, Routes, Plan) {
    let fabric = with_two_lids(&Mesh { dims: vec![3, 3], cas: 2 }.build().unwrap());
    let old = along(&fabric, true);
    let t = Transition::between(&fabric, &old, &fabric, &along(&fabric, false));
    let planned = double_scheme(&fabric, &t, 4).unwrap();
    assert!(planned.is_proven());
    (fabric, old, planned.plan)
}

fn settings(plan: &Plan, way: Way) -> Settings {
    let update = Update { plan: plan.clone(), way, interval: 1_000_000, barrier: 100_000_000 };
    let model = Model { buffer: Room::PerVl(32), ..Model::default() };
    Settings { model, update: Some(update), ..Settings::default() }
}

fn updates(fabric: &Fabric, old: &Routes, plan: &Plan, way: Way) -> Vec<(bool, Updated)> {
    let settings = settings(plan, way);
    let simulation = Simulation::new(fabric, old, &settings).unwrap();
    let runs: Vec<_> = (1..=10).map(|seed| (Load::Share(1.0), seed)).collect();
    let rows = simulation.sweep(&runs, &|| false, &|_| ()).unwrap();
    rows.into_iter().map(|row| (row.deadlock.is_some(), row.update.unwrap())).collect()
}

#[test]
fn old_packets_have_left_before_the_next_step() {
    let (fabric, old, plan) = example();
    let at_once = updates(&fabric, &old, &plan, Way::Rewriting);
    assert!(at_once.iter().any(|(deadlock, _)| *deadlock), "what the scheme is for");
    assert!(at_once.iter().all(|(_, update)| (update.drained, update.missed) == (0, 0)));
    for (deadlock, update) in updates(&fabric, &old, &plan, Way::Steps) {
        assert!(!deadlock && update.missed == 0, "{update:?}");
        assert_eq!((update.lost.total(), update.stopped, update.flows), (0, 0, Some(update.failed)));
        // 6 sources, twice, for which the subnet manager takes its time.
        assert!(update.drained > 12 * 1_000_000, "{update:?}");
        assert!(update.programmed.unwrap() >= update.failed + update.mads * 1_000_000 + update.drained);
    }
}

/// Packets on other virtual channels than those that a plan names are counted.
#[test]
fn a_drainage_that_forgets_something_is_noticed() {
    let (fabric, old, mut plan) = example();
    let lanes: Vec<_> = plan.steps[1].drain.order().unwrap().into_iter().map(|(lane, _)| lane).collect();
    plan.steps[1].drain = Drain::along(&lanes[..1], []);
    let missed: u64 = updates(&fabric, &old, &plan, Way::Steps).iter().map(|(_, update)| update.missed).sum();
    assert!(missed > 0);
}

/// What hosts send changes with the step, nothing vanishes, and the tables in the end are those of the other ways.
#[test]
fn hosts_go_over_to_new_lids_and_sls() {
    let whole = with_two_lids(&FatTree { k: 4, levels: 3, down: None, cas: None }.build().unwrap());
    let damaged = fail_links(&whole, 1, 2).unwrap();
    let (old, new) = (routes(&whole, "dfdn"), routes(&damaged, "dfdn"));
    let t = Transition::between(&whole, &old, &damaged, &new);
    let planned = double_scheme(&damaged, &t, 4).unwrap();
    for choice in [LidChoice::Base, LidChoice::Shortest, LidChoice::Random] {
        let settings =
            [Way::Steps, Way::Static].map(|way| Settings { lids: choice, ..settings(&planned.plan, way) });
        let simulations = settings.each_ref().map(|s| Simulation::new(&whole, &old, s).unwrap());
        let kernels = simulations.each_ref().map(|simulation| {
            let (kernel, stuck) = kernel_after(simulation, &Demand::Uniform, Load::Share(0.5), 6_000_000_000);
            assert!(!stuck);
            audit(&kernel, "Double Scheme");
            kernel
        });
        let sent: Vec<Vec<(bool, u8)>> = kernels
            .iter()
            .map(|kernel| {
                let packets = (0..kernel.slots.len()).flat_map(|q| kernel.in_queue(q).copied());
                let upper = |dlid: u16| {
                    dlid - kernel.net.hosts[kernel.net.host_of_lid[usize::from(dlid)] as usize].lid
                };
                packets.map(|packet| (upper(packet.dlid) > 0, packet.sl)).collect()
            })
            .collect();
        assert!(sent[0].len() > 20 && sent[0].iter().all(|&packet| packet == (true, 8)), "{:?}", sent[0]);
        assert!(sent[1].len() > 20 && sent[1].iter().all(|&packet| packet == (false, 0)), "{:?}", sent[1]);
        let [steps, halted] = kernels.each_ref().map(|kernel| kernel.motion.as_ref().unwrap());
        assert!(steps.holds_same_as(halted));
        assert!(steps.report.lost.no_link > 0 && steps.report.missed == 0, "{:?}", steps.report);
        assert!(steps.report.programmed.is_some(), "it takes less than the time given");
    }
}

#[test]
fn a_drainage_of_another_fabric_is_refused() {
    let (fabric, old, plan) = example();
    let refused = |drain: Drain| {
        let mut plan = plan.clone();
        plan.steps[0].drain = drain;
        let settings = settings(&plan, Way::Steps);
        Simulation::new(&fabric, &old, &settings).err().expect("it does not fit").to_string()
    };
    let own = fabric.switch(crate::fabric::SwitchId::at(0)).guid;
    let error = refused(Drain::along(&[(own, 99, 0)], []));
    assert!(error.contains("has no VL 0 at port 99"), "{error}");
    let error = refused(Drain::along(&[(Guid(9), 1, 0)], []));
    assert!(error.contains("there is no switch 0x0000000000000009"), "{error}");
    let lanes = [(own, 1, 0), (own, 2, 0)];
    let error = refused(Drain::along(&lanes, [(lanes[0], lanes[1]), (lanes[1], lanes[0])]));
    assert!(error.contains("in a cycle"), "{error}");
}
