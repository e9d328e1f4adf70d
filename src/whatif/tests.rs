//! Failures of small fabrics, against counts by other means.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::engine::{Routed, route};
use crate::evaluate::evaluate;
use crate::fabric::{Lid, NodeKind, SwitchId};
use crate::tables::Lft;
use crate::topology::{Dragonfly, FatTree, Mesh, Ring, Torus, fail_links, small_members};

fn routed(fabric: &Fabric) -> Routed {
    route(fabric, &Settings::default()).expect("it can be routed")
}

fn options() -> Options {
    Options { patterns: std::num::NonZeroU32::new(20).unwrap(), ..Options::default() }
}

/// Whether a packet arrives without the failed parts, walked hop by hop.
fn arrives(fabric: &Fabric, lft: &Lft, failure: &Failure, from: usize, to: usize) -> bool {
    let ends: Vec<_> = fabric.adapters().map(|(_, end)| *end).collect();
    let (from, to) = (ends[from], ends[to]);
    let gone = |s: SwitchId, port| {
        let node = fabric.switch_node_id(s);
        let peer = fabric.node(node).ports[usize::from(port)].peer.unwrap();
        let is =
            |end: crate::fabric::PortRef| failure.nodes.contains(&end.node) || failure.cables.contains(&end);
        is(crate::fabric::PortRef { node, port: crate::fabric::PortNum(port) }) || is(peer)
    };
    let (mut at, first) = from.attachment.unwrap();
    if gone(at, first.0) {
        return false;
    }
    loop {
        let port = lft.get(at, to.lid).unwrap();
        if gone(at, port.0) {
            return false;
        }
        match fabric.channels().at_port(at, port) {
            Some(c) => at = fabric.channels().get(c).to,
            None => return (at, port) == to.attachment.unwrap(),
        }
    }
}

#[test]
fn pairs_are_cut_as_a_walk_says() {
    for (name, fabric) in small_members() {
        let tables = routed(&fabric).routes.lft;
        let all: Vec<Failure> = links(&fabric).into_iter().chain(switches(&fabric)).collect();
        for failure in all.iter().step_by(5).cloned().chain(pairs(&all, 3, 1)) {
            let hosts = fabric.adapters().count();
            let pairs = (0..hosts).flat_map(|a| (0..hosts).map(move |b| (a, b))).filter(|(a, b)| a != b);
            let lost = pairs.filter(|&(a, b)| !arrives(&fabric, &tables, &failure, a, b)).count();
            assert_eq!(
                cut::pairs(&fabric, &tables, &failure),
                lost as u64,
                "{name}: {}",
                failure.describe(&fabric)
            );
        }
    }
}

#[test]
fn a_link_leaves_what_the_generator_of_faults_leaves() {
    let fabric = Dragonfly::balanced(2).build().unwrap();
    let before = routed(&fabric);
    let damaged = fail_links(&fabric, 1, 7).unwrap();
    let lost = |failure: &&Failure| {
        let end = failure.cables[0];
        damaged.node(end.node).ports[end.port.index()].peer.is_none()
    };
    let all = links(&fabric);
    assert_eq!(all.len(), fabric.channels().len() / 2);
    let failure = all.iter().find(lost).expect("one is gone");
    let settings = Settings::default();
    let whatif = WhatIf {
        fabric: &fabric,
        before: &before.routes,
        baseline: None,
        settings: &settings,
        options: options(),
    };
    let row = whatif.row(failure);
    let after = routed(&damaged);
    let mut blocks = HashSet::new();
    for lid in (1..fabric.lid_table_len()).filter_map(|lid| Lid::new(lid as u16)) {
        for s in fabric.switch_ids() {
            if after.routes.lft.get(s, lid) != before.routes.lft.get(s, lid) {
                blocks.insert((s, lid.get() / 64));
            }
        }
    }
    let figures = row.figures.expect("it can be routed");
    let measured = evaluate(&damaged, &after.routes, &options()).unwrap();
    assert_eq!((row.cut_off, row.error), (0, None));
    assert_eq!(figures.lft_blocks, blocks.len() as u64);
    assert!(figures.lft_blocks > 0 && row.pairs_cut > 0);
    assert_eq!((figures.vls, figures.sls), (after.verdict.vls, after.verdict.sls));
    assert_eq!(figures.ebb, measured.bisection.ebb);
    assert_eq!(figures.edge_forwarding_index, measured.load.edge_forwarding_index);
}

#[test]
fn hosts_are_cut_off_with_their_switch_or_behind_it() {
    // A line of five switches with two hosts each.
    let fabric = Mesh { dims: vec![5], cas: 2 }.build().unwrap();
    let before = routed(&fabric).routes;
    let settings = Settings::default();
    let whatif =
        WhatIf { fabric: &fabric, before: &before, baseline: None, settings: &settings, options: options() };
    let rows: Vec<Row> = switches(&fabric).iter().map(|failure| whatif.row(failure)).collect();
    let of = |i: usize| (rows[i].cut_off, rows[i].cut_off_beyond, rows[i].pairs_cut);
    assert_eq!(
        [of(0), of(1), of(2)],
        [(2, 0, 2 * 8 * 2 + 2), (4, 2, 90 - 6 * 5 - 2), (6, 4, 90 - 2 * 4 * 3)]
    );
    // LIDs that are gone have no path any more, which every switch that is left learns.
    assert!(rows.iter().all(|row| row.figures.is_some_and(|f| f.lft_blocks >= 2)));
    let cable = whatif.row(&links(&fabric)[0]);
    assert_eq!((cable.cut_off, cable.cut_off_beyond, cable.pairs_cut), (2, 2, 2 * 2 * 8));
    let host = fabric.nodes().iter().position(|n| n.kind == NodeKind::ChannelAdapter).unwrap();
    let name = fabric.nodes()[host].description.clone();
    let down = whatif.row(&find(&fabric, &name).unwrap());
    assert_eq!((down.cut_off, down.cut_off_beyond, down.pairs_cut), (1, 0, 2 * 9));
}

#[test]
fn what_cannot_be_routed_is_said() {
    let fabric = Ring { switches: 3, cas: 1 }.build().unwrap();
    let before = routed(&fabric).routes;
    let settings = Settings { engine: "sssp".to_owned(), ..Settings::default() };
    let whatif =
        WhatIf { fabric: &fabric, before: &before, baseline: None, settings: &settings, options: options() };
    let all = switches(&fabric);
    let rows =
        [whatif.row(&all[0].clone().with(&all[1])), whatif.row(&all[0]), whatif.row(&Failure::default())];
    assert!(rows[0].figures.is_none() && rows[0].error.as_ref().unwrap().contains("at least two"));
    assert!(rows[1].error.is_none());
    // The whole ring has a credit loop with this engine if packets turn; three switches have none.
    assert_eq!(rows[2].pairs_cut, 0);
    let summary = Summary::new(&rows);
    assert_eq!((summary.failures, summary.unroutable), (3, 1));
    assert_eq!(summary.worst[0], rows[0]);
    let torus = Torus { dims: vec![4, 4], cas: 1 }.build().unwrap();
    let before = routed(&torus).routes;
    let whatif =
        WhatIf { fabric: &torus, before: &before, baseline: None, settings: &settings, options: options() };
    assert!(whatif.row(&links(&torus)[0]).error.unwrap().contains("may deadlock"));
}

#[test]
fn rows_are_the_same_for_any_number_of_threads_and_can_be_stopped() {
    let fabric = FatTree { k: 4, levels: 2, down: None, cas: None }.build().unwrap();
    let before = routed(&fabric).routes;
    let settings = Settings::default();
    let whatif =
        WhatIf { fabric: &fabric, before: &before, baseline: None, settings: &settings, options: options() };
    let all: Vec<Failure> = links(&fabric).into_iter().chain(switches(&fabric)).collect();
    let with = |threads: usize| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| whatif.rows(&all, &|| false, &|| ())).unwrap()
    };
    let one = with(1);
    assert!(one.iter().all(Option::is_some));
    assert_eq!(one, with(3));
    let done = AtomicUsize::new(0);
    let some = whatif.rows(&all, &|| done.load(Ordering::Relaxed) >= 2, &|| {
        done.fetch_add(1, Ordering::Relaxed);
    });
    let some = some.unwrap();
    let there = some.iter().flatten().count();
    assert!(there >= 2 && there < all.len(), "{there}");
    assert!(some.iter().zip(&one).all(|(a, b)| a.is_none() || a == b));
    assert_eq!(whatif.rows(&[], &|| false, &|| ()).unwrap(), []);
}

#[test]
fn pairs_are_different_and_depend_on_the_seed() {
    let fabric = Torus { dims: vec![4, 4], cas: 1 }.build().unwrap();
    let all = links(&fabric);
    for (count, expected) in [(5, 5), (400, 400), (10_000, 32 * 31 / 2)] {
        let drawn = pairs(&all, count, 3);
        let texts: HashSet<String> = drawn.iter().map(|f| f.describe(&fabric)).collect();
        assert_eq!((drawn.len(), texts.len()), (expected, expected));
        assert!(drawn.iter().all(|f| f.cables.len() == 2 && f.cables[0] != f.cables[1]));
        assert_eq!(drawn, pairs(&all, count, 3));
    }
    assert_ne!(pairs(&all, 5, 3), pairs(&all, 5, 4));
}

#[test]
fn parts_are_found_by_name() {
    let fabric = Ring { switches: 4, cas: 1 }.build().unwrap();
    let name = fabric.nodes()[0].description.clone();
    assert_eq!(find(&fabric, &name).unwrap().nodes, [crate::fabric::NodeId(0)]);
    assert_eq!(find(&fabric, &fabric.nodes()[0].guid.to_string()).unwrap().nodes, [crate::fabric::NodeId(0)]);
    let cable = find(&fabric, &format!("{name} port 2")).unwrap();
    assert_eq!((cable.nodes.len(), cable.cables[0].port.0), (0, 2));
    assert!(cable.describe(&fabric).contains(" port 2 - "), "{}", cable.describe(&fabric));
    for (wrong, why) in
        [("nobody", "no node"), ("nobody port 1", "no node"), (&*format!("{name} port 9"), "no cable")]
    {
        assert!(find(&fabric, wrong).unwrap_err().to_string().contains(why), "{wrong}");
    }
}
