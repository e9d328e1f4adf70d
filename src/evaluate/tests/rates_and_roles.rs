//! Rates of links, and roles of adapters.

use super::*;
use crate::fabric::LinkSpeed;

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

/// Three adapters on each of two switches, and one cable of a quarter of their rate. Of uniform traffic each adapter sends
/// three fifths over the cable, so the cable is busy 4 x 9 / 5 times as long as an adapter.
#[test]
fn patterns_count_a_slow_cable_as_slow() {
    use LinkSpeed::Qdr;
    let fabric = network(2, &[(0, 1)], &[0, 0, 0, 1, 1, 1], 0);
    let hops = Hops::new(&fabric).expect("connected");
    let fabric = rated(&fabric, &[(1, Qdr)], &[(4, Qdr); 6]);
    let found = Multipath::new(&fabric, &routes(&fabric, minhop(&fabric, &hops))).expect("sound tables");
    let of = |pattern: &str| found.patterns.iter().find(|p| p.pattern == pattern).expect("there is one");
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} for {b}");
    let (uniform, worst) = (of("uniform"), of("adversarial"));
    near(uniform.hottest, 7.2);
    near(uniform.load, 1.0 / 7.2);
    near(uniform.level, 1.0 / 7.2);
    // Two of five streams of an adapter stay on its switch.
    near(uniform.mean_rate, (2.0 + 3.0 / 7.2) / 5.0);
    near(worst.hottest, 12.0);
    near(worst.load, 1.0 / 12.0);
    near(worst.mean_rate, 1.0 / 12.0);
}
