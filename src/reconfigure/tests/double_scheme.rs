//! The Double Scheme.

use super::*;
use crate::fabric::Lid;
use crate::tables::{DrainSize, HostPaths, SenderSls};
use crate::topology::{SlimFly, Torus};

const LOWER: HostPaths = HostPaths { sls: 0x00ff, upper: false };
const UPPER: HostPaths = HostPaths { sls: 0xff00, upper: true };

/// The states, the order of the sets, and the proof of a plan.
fn is_sound(fabric: &Fabric, t: &Transition, p: &Planned, label: &str) {
    assert!(p.is_proven() && p.is_loop_free(), "{label}: {:?}", p.verdicts);
    assert!((p.states.first(), p.states.last()) == (Some(&t.old), Some(&t.new)), "{label}");
    assert!(p.plan.states(fabric, t).unwrap() == p.states, "{label}");
    let paths: Vec<_> = p.plan.steps.iter().map(|step| step.paths.unwrap()).collect();
    assert_eq!((paths[0], &paths[1..3]), (LOWER, &[UPPER, UPPER][..]), "{label}");
    let second = &p.plan.steps[1];
    assert!(second.is_empty(), "hosts go over, and nothing else happens");
    assert!(p.plan.steps[..2].iter().all(|step| !step.drain.is_empty()), "{label}");
    // Packets on old paths and on new ones share nothing.
    let side_by_side = &p.states[1];
    let used = |paths: HostPaths| -> BTreeSet<_> {
        let of = |lid| Lid::new(lid as u16).map_or(0, |lid| paths.sls_to(fabric, lid));
        let sls = SenderSls::ByLid((0..side_by_side.lft.lids()).map(of).collect());
        let mut bare = side_by_side.clone();
        bare.multicast.clear();
        Mixture::new(fabric, &sls, &[&bare]).order().unwrap().into_iter().collect()
    };
    assert!(used(LOWER).is_disjoint(&used(UPPER)), "{label}");
    let judged = judge(fabric, t, &p.plan).unwrap();
    assert_eq!((judged.verdicts, judged.dropped_entries), (p.verdicts.clone(), p.dropped_entries));
}

/// From XY to YX as printed: SLs and VLs in halves, and what drains them.
#[test]
fn the_example_goes_over_in_three_steps() {
    for (vls, lanes) in [(1, 1), (4, 2)] {
        let e = Example::with(1, vls);
        let p = double_scheme(&e.fabric, &e.t, 4).unwrap();
        is_sound(&e.fabric, &e.t, &p, "example");
        assert_eq!(p.plan.steps.len(), 3);
        assert_eq!(p.how, "Double Scheme: SLs 0-7 and 8-15, VLs 0-1 and 2-3");
        let printed =
            DrainSize { channels: 24, dependencies: 28, sources: 6, leaves: 6, control_packets: 16 };
        for (step, drained) in [(0, 2..4), (1, 0..2)] {
            let drain = &p.plan.steps[step].drain;
            let size = drain.size().unwrap();
            assert_eq!(
                (size.channels, size.dependencies, size.sources, size.leaves, size.control_packets),
                (
                    lanes * printed.channels,
                    lanes * printed.dependencies,
                    lanes * printed.sources,
                    lanes * printed.leaves,
                    lanes as u64 * printed.control_packets
                )
            );
            assert!(drain.order().unwrap().iter().all(|((_, _, vl), _)| drained.contains(vl)));
        }
        // Only LIDs of switches are without service meanwhile, and each host keeps a path.
        let host = |lid| e.fabric.owner_of(lid).is_some_and(|end| e.fabric.endport(end).is_adapter());
        let lids = (1..e.t.old.lft.lids()).filter_map(|lid| Lid::new(lid as u16));
        for lid in lids.filter(|&lid| host(lid)) {
            assert!(e.fabric.switch_ids().all(|s| p.states[1].lft.get(s, lid).is_some()));
        }
        // Without the sets the same states close a credit loop.
        let mut mixed = p.plan.clone();
        mixed.steps.iter_mut().for_each(|step| step.paths = None);
        assert!(!judge(&e.fabric, &e.t, &mixed).unwrap().is_proven());
        // So they do if hosts use old SLs for new LIDs.
        let mut wrong = p.plan.clone();
        wrong.steps[1].paths = Some(HostPaths { upper: true, ..LOWER });
        wrong.steps[2].paths = wrong.steps[1].paths;
        assert!(!judge(&e.fabric, &e.t, &wrong).unwrap().is_proven());
    }
}

/// Failed links and their repair, with the trees that dfdn makes.
#[test]
fn failures_and_repairs_are_proven_side_by_side() {
    let wholes = [
        Mesh { dims: vec![4, 4], cas: 1 }.build().unwrap(),
        FatTree { k: 4, levels: 3, down: None, cas: None }.build().unwrap(),
        SlimFly { q: 5, cas: Some(1) }.build().unwrap(),
        Torus { dims: vec![5, 5], cas: 1 }.build().unwrap(),
        Random { switches: 16, degree: 4, cas: 1, seed: 1 }.build().unwrap(),
    ];
    let mut apart = 0;
    for whole in wholes.map(|whole| with_lmc(&whole, 1)) {
        let damaged = fail_links(&whole, 1, 2).unwrap();
        let (before, after) = (routes(&whole), routes(&damaged));
        let fails = Transition::between(&whole, &before, &damaged, &after);
        let returns = Transition::between(&damaged, &after, &whole, &before);
        for (fabric, t) in [(&damaged, fails), (&whole, returns)] {
            let p = double_scheme(fabric, &t, 8).unwrap();
            is_sound(fabric, &t, &p, &fabric.to_string());
            apart += usize::from(p.plan.steps.len() == 4);
        }
    }
    println!("trees in a step of their own: {apart} of 10");
}

#[test]
fn what_is_missing_is_named() {
    let refused = |fabric: &Fabric, t: &Transition, vls| double_scheme(fabric, t, vls).unwrap_err();
    let one_lid = Example::new();
    let error = refused(&one_lid.fabric, &one_lid.t, 4);
    assert!(matches!(error, DoubleSchemeError::OneLid { .. }));
    assert!(error.to_string().contains("has one LID") && error.to_string().contains("--lmc 1"), "{error}");
    let mut e = Example::with(1, 1);
    assert_eq!(refused(&e.fabric, &e.t, 1), DoubleSchemeError::OneVl { vls: 1 });
    e.t.any_sls = [Some(0b11), None];
    assert_eq!(refused(&e.fabric, &e.t, 4), DoubleSchemeError::SlByPair { which: "new" });
    e.t.any_sls = [Some(0b1110_0010), Some(0b11)];
    let (old, new) = ("1,5-7".to_owned(), "0-1".to_owned());
    assert_eq!(refused(&e.fabric, &e.t, 4), DoubleSchemeError::OneSl { old, new });
    e.t.any_sls = [Some(0b10), Some(0b101)];
    let p = double_scheme(&e.fabric, &e.t, 4).unwrap();
    assert!(p.is_proven() && p.how.starts_with("Double Scheme: SLs 1 and 2,"), "{}", p.how);
    // A ring needs two VLs, and half of three is one for the old tables.
    let ring = with_lmc(&Ring { switches: 5, cas: 1 }.build().unwrap(), 1);
    let t = Transition::between(&ring, &routes(&ring), &ring, &routes(&ring));
    assert_eq!(refused(&ring, &t, 3), DoubleSchemeError::HalfTheVls { which: "old", vls: 3 });
    assert!(double_scheme(&ring, &t, 4).unwrap().is_proven());
}
