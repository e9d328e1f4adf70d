//! Known changes of known fabrics: all found, none invented.

use std::collections::BTreeSet;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::fabric::{FabricBuilder, Guid, LinkSpeed, Lmc};
use crate::topology::{Dragonfly, FatTree, Ring, SlimFly, small_members};

type Wire = BTreeSet<(u64, u8)>;

fn wire(fabric: &Fabric, (a, b): (PortRef, PortRef)) -> Wire {
    [a, b].into_iter().map(|end| (fabric.node(end.node).guid.0, end.port.0)).collect()
}

/// A fabric with random pairs of cables swapped and random cables removed, all different; and what that is. `of`: the
/// cables that may be.
fn disturbed(
    fabric: &Fabric,
    of: &dyn Fn(&(PortRef, PortRef)) -> bool,
    swaps: usize,
    losses: usize,
    seed: u64,
) -> (Fabric, BTreeSet<BTreeSet<Wire>>, BTreeSet<Wire>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut all: Vec<_> = cables(fabric).filter(of).collect();
    all.shuffle(&mut rng);
    let mut builder = FabricBuilder::from_fabric(fabric);
    let (mut swapped, mut lost) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..swaps {
        let (one, other) = (all.pop().expect("a cable"), all.pop().expect("a cable"));
        let (c, d) = if rng.random() { other } else { (other.1, other.0) };
        builder.disconnect(one.0);
        builder.disconnect(c);
        builder.connect(one.0, d).expect("free ports");
        builder.connect(c, one.1).expect("free ports");
        swapped.insert([wire(fabric, one), wire(fabric, other)].into_iter().collect());
    }
    for _ in 0..losses {
        let one = all.pop().expect("a cable");
        builder.disconnect(one.0);
        lost.insert(wire(fabric, one));
    }
    (builder.finish(Lmc::default()).expect("a fabric"), swapped, lost)
}

/// The same fabric with other GUIDs, in another order, and other names.
fn disguised(fabric: &Fabric, seed: u64) -> Fabric {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut guids: Vec<u64> = (0..fabric.nodes().len() as u64).map(|i| 0xabc0_0000_0000 + 64 * i).collect();
    guids.shuffle(&mut rng);
    let mut builder = FabricBuilder::from_fabric(fabric);
    for (i, guid) in guids.into_iter().enumerate() {
        let node = builder.node_mut(NodeId::at(i));
        node.guid = Guid(guid);
        node.description = format!("node {guid:x}");
        let switch = node.is_switch();
        for (n, port) in node.ports.iter_mut().enumerate() {
            port.guid = Guid(guid + if switch { 0 } else { n as u64 });
        }
    }
    builder.forget_lids();
    builder.finish(Lmc::default()).expect("a fabric")
}

fn wire_of(cable: &Cable) -> Wire {
    let guid = |end: &End| u64::from_str_radix(end.guid.trim_start_matches("0x"), 16).expect("a GUID");
    cable.iter().map(|end| (guid(end), end.port)).collect()
}

/// Swaps and losses as they are reported; panics at anything else.
fn reported(comparison: &Comparison) -> (BTreeSet<BTreeSet<Wire>>, BTreeSet<Wire>) {
    let (mut swapped, mut lost) = (BTreeSet::new(), BTreeSet::new());
    for difference in &comparison.differences {
        match difference {
            Difference::Swapped { planned, found } => {
                assert_eq!((planned.len(), found.len()), (2, 2));
                swapped.insert(planned.iter().map(wire_of).collect());
            }
            Difference::Missing { cable } => drop(lost.insert(wire_of(cable))),
            other => panic!("{other:?}"),
        }
    }
    (swapped, lost)
}

fn the_four() -> Vec<(&'static str, Fabric)> {
    vec![
        ("Dragonfly p=4", Dragonfly::balanced(4).build().unwrap()),
        ("Slim Fly q=7", SlimFly { q: 7, cas: None }.build().unwrap()),
        ("fat tree k=8", FatTree { k: 8, levels: 3, down: None, cas: None }.build().unwrap()),
    ]
}

#[test]
fn all_swaps_and_losses_are_found_and_none_is_invented() {
    for (name, plan) in the_four().into_iter().chain(small_members()) {
        for n in 1..=10_usize.min(cables(&plan).count() / 6) {
            let (fabric, swapped, lost) = disturbed(&plan, &|_| true, n, n, n as u64);
            let comparison = compare(&plan, &fabric).unwrap();
            assert_eq!(reported(&comparison), (swapped, lost), "{name}: {n}");
            assert_eq!(comparison.in_place, comparison.planned - 3 * n, "{name}");
            assert!(comparison.renamed.is_empty());
        }
        assert_eq!(compare(&plan, &plan).unwrap().differences, [], "{name}");
    }
}

/// Neither a GUID nor a name is alike. The assignment may be another than that which the fabric was made with, if
/// the fabric is symmetric; so the numbers count. Hosts without names differ in their place only, so theirs stay.
#[test]
fn structure_alone_suffices() {
    for (name, plan) in the_four() {
        for n in [0, 1, 4, 10] {
            let (fabric, ..) = disturbed(
                &plan,
                &|(a, b)| plan.node(a.node).is_switch() && plan.node(b.node).is_switch(),
                n,
                n,
                7 + n as u64,
            );
            let comparison = compare(&plan, &disguised(&fabric, n as u64)).unwrap();
            assert_eq!((comparison.matched.by_guid, comparison.matched.by_name), (0, 0), "{name}");
            assert_eq!(comparison.in_place, comparison.planned - 3 * n, "{name}: {n}");
            let kinds = |is: fn(&Difference) -> bool| comparison.differences.iter().filter(|d| is(d)).count();
            let swaps = kinds(|d| matches!(d, Difference::Swapped { .. }));
            assert_eq!((swaps, comparison.differences.len()), (n, 2 * n), "{name}: {n}");
        }
    }
}

#[test]
fn unlike_fabrics_are_refused() {
    let plan = Dragonfly::balanced(2).build().unwrap();
    let other = disguised(&SlimFly { q: 5, cas: None }.build().unwrap(), 1);
    let error = compare(&plan, &other).unwrap_err();
    assert!(error.to_string().contains("by structure"), "{error}");
}

/// A ring of five switches with two hosts each, changed by hand. Port 1 and 2 have hosts, 3 and 4 the ring.
#[test]
fn each_kind_of_difference() {
    let plan = Ring { switches: 5, cas: 2 }.build().unwrap();
    let end = |name: &str, port| {
        let node = plan.nodes().iter().position(|n| n.description == name).expect("a node");
        PortRef { node: NodeId::at(node), port: PortNum(port) }
    };
    let changed = |change: &dyn Fn(&mut FabricBuilder)| {
        let mut builder = FabricBuilder::from_fabric(&plan);
        for i in 0..builder.len() {
            builder.node_mut(NodeId::at(i)).ports.resize(6, Default::default());
        }
        change(&mut builder);
        compare(&plan, &builder.finish(Lmc::default()).unwrap()).unwrap().differences
    };
    assert_eq!(changed(&|_| ()), []);
    let moved = changed(&|b| {
        b.disconnect(end("sw-0-ca-1", 1));
        b.connect(end("sw-0-ca-1", 1), end("sw-0", 5)).unwrap();
    });
    let [Difference::Moved { planned, found }] = &moved[..] else { panic!("{moved:?}") };
    assert_eq!((planned.len(), found.len(), found[0].iter().filter(|e| e.port == 5).count()), (1, 1, 1));
    let additional = changed(&|b| b.connect(end("sw-0", 5), end("sw-2", 5)).unwrap());
    assert!(matches!(&additional[..], [Difference::Additional { .. }]), "{additional:?}");
    let slow = changed(&|b| {
        for end in [end("sw-0-ca-1", 1), end("sw-0", 1)] {
            let port = &mut b.node_mut(end.node).ports[end.port.index()];
            (port.width, port.speed) = (Some(1), Some(LinkSpeed::Sdr));
        }
    });
    let [Difference::Degraded { planned, found, .. }] = &slow[..] else { panic!("{slow:?}") };
    assert_eq!((&**planned, &**found), ("4x QDR", "1x SDR"));
    let down = changed(&|b| b.node_mut(end("sw-0", 1).node).ports[1].state = crate::fabric::LinkState::Down);
    assert!(matches!(&down[..], [Difference::Missing { .. }]), "{down:?}");
    // Three cables in a circle.
    let circle = changed(&|b| {
        let hosts = ["sw-0", "sw-1", "sw-2"];
        hosts.iter().for_each(|s| b.disconnect(end(&format!("{s}-ca-1"), 1)));
        for (s, host) in [("sw-0", "sw-1"), ("sw-1", "sw-2"), ("sw-2", "sw-0")] {
            b.connect(end(s, 1), end(&format!("{host}-ca-1"), 1)).unwrap();
        }
    });
    assert!(matches!(&circle[..], [Difference::Swapped { planned, .. }] if planned.len() == 3), "{circle:?}");
    // A switch with another GUID and name is found by its place; one that is gone, with its cables.
    let mut builder = FabricBuilder::from_fabric(&plan);
    let node = builder.node_mut(end("sw-2", 1).node);
    (node.guid, node.description) = (Guid(0x77), "spare".to_owned());
    let fabric = builder.finish(Lmc::default()).unwrap();
    let comparison = compare(&plan, &fabric).unwrap();
    assert_eq!(
        (&comparison.differences[..], comparison.renamed),
        (&[][..], vec![["sw-2".to_owned(), "spare".to_owned()]])
    );
    let smaller = crate::topology::fail_switches(&plan, 1, crate::topology::Candidates::Any, 1).unwrap();
    let gone = compare(&plan, &smaller).unwrap().differences;
    assert!(gone.iter().all(|d| matches!(d, Difference::MissingNode { .. })), "{gone:?}");
    assert_eq!(gone.len(), 3, "a switch and its two hosts");
    let more = compare(&smaller, &plan).unwrap().differences;
    assert!(
        more.len() == 3 && more.iter().all(|d| matches!(d, Difference::AdditionalNode { .. })),
        "{more:?}"
    );
}
