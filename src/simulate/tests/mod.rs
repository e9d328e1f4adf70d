//! The simulator against closed forms, laws of conservation, and the judge.

mod closed_forms;
mod conservation;
mod double_scheme;
mod judge;
mod refusals;
mod update;

use super::*;
use crate::engine;
use crate::fabric::{FabricBuilder, Guid, LinkSpeed, Lmc, Node, NodeKind, PortNum, PortRef};
use crate::tables::{Lft, PathSl, VlArb};

/// Switches with cables between them, and one adapter on each switch of `homes`. Adapters use the
/// first ports of a switch.
fn network(
    switches: usize,
    cables: &[(usize, usize)],
    homes: &[usize],
    speed: impl Fn(usize) -> LinkSpeed,
) -> Fabric {
    let mut b = FabricBuilder::new();
    let guid = |i: usize| Guid(i as u64 + 1);
    let with = |mut node: Node, speed: Option<LinkSpeed>| {
        for port in &mut node.ports {
            (port.speed, port.width) = (speed, Some(4));
        }
        node
    };
    let mut list = Vec::new();
    for i in 0..switches {
        // The properties of a cable are stated at its ends: here, an adapter's.
        list.push(Node::new(NodeKind::Switch, guid(i), 60, &format!("s{i}")));
    }
    let mut used = vec![0_u8; switches];
    let mut port = |s: usize| {
        used[s] += 1;
        used[s]
    };
    let mut links = Vec::new();
    for (i, &home) in homes.iter().enumerate() {
        links.push((switches + i, 1, home, port(home)));
    }
    for (i, &(x, y)) in cables.iter().enumerate() {
        let (a, b) = (port(x), port(y));
        for (s, p) in [(x, a), (y, b)] {
            let port = &mut list[s].ports[usize::from(p)];
            (port.speed, port.width) = (Some(speed(i)), Some(4));
        }
        links.push((x, a, y, b));
    }
    for i in 0..homes.len() {
        let node = Node::new(NodeKind::ChannelAdapter, Guid(1000 + 10 * i as u64), 1, &format!("h{i}"));
        list.push(with(node, Some(LinkSpeed::Qdr)));
    }
    let nodes: Vec<_> = list.into_iter().map(|node| b.add(node).expect("few ports")).collect();
    for (x, a, y, c) in links {
        let end = |node: usize, port| PortRef { node: nodes[node], port: PortNum(port) };
        b.connect(end(x, a), end(y, c)).expect("free ports");
    }
    b.finish(Lmc::default()).expect("a sound network")
}

/// A line of switches with `cas` adapters each.
fn line(switches: usize, cas: usize) -> Fabric {
    let cables: Vec<_> = (1..switches).map(|s| (s - 1, s)).collect();
    let homes: Vec<_> = (0..switches * cas).map(|i| i / cas).collect();
    network(switches, &cables, &homes, |_| LinkSpeed::Qdr)
}

fn routes(fabric: &Fabric, engine: &str) -> Routes {
    let settings = engine::Settings { engine: engine.to_owned(), ..engine::Settings::default() };
    engine::route(fabric, &settings).expect("it routes this fabric").routes
}

/// Tables of a mesh of 3 x 3 switches, numbered by rows: along its row first, or along its column.
fn along(fabric: &Fabric, rows_first: bool) -> Routes {
    let mut lft = Lft::new(fabric);
    for end in fabric.endports() {
        let (home, at_home) = end.attachment.unwrap();
        for s in 0..9 {
            let (at, to) = ([s / 3, s % 3], [home.index() / 3, home.index() % 3]);
            let axes = if rows_first { [1, 0] } else { [0, 1] };
            let port = match axes.into_iter().find(|&axis| at[axis] != to[axis]) {
                None => at_home,
                Some(axis) => {
                    let mut next = at;
                    next[axis] = if to[axis] > at[axis] { at[axis] + 1 } else { at[axis] - 1 };
                    let to = 3 * next[0] + next[1];
                    let mut out = fabric.channels().out(crate::fabric::SwitchId::at(s));
                    out.find(|(_, c)| c.to.index() == to).map(|(_, c)| c.out_port).expect("neighbours")
                }
            };
            end.lids().for_each(|lid| lft.set(crate::fabric::SwitchId::at(s), lid, port));
        }
    }
    Routes { path_sl: PathSl::Any(u16::MAX), ..Routes::on_one_vl("example", fabric, lft) }
}

/// Shortest paths on one VL, which may have credit loops.
fn minimal(fabric: &Fabric) -> Routes {
    let hops = crate::routing::Hops::new(fabric).expect("it is connected");
    Routes::on_one_vl("test", fabric, crate::routing::minhop(fabric, &hops))
}

/// Models that differ in everything that the kernel distinguishes.
fn models() -> Vec<Model> {
    let default = Model { buffer: Room::PerVl(70), ..Model::default() };
    vec![
        default.clone(),
        Model { arbitration: Arbitration::Age, queues: Queues::PerOutPort, ..default.clone() },
        Model { arbitration: Arbitration::FirstCome, reads: 1, ..default.clone() },
        Model { arbitration: Arbitration::VlAge, queues: Queues::PerOutPort, reads: 2, ..default.clone() },
        Model { output: Some(Room::PerVl(64)), speedup: 2, setup: 30_000, window: 3, ..default.clone() },
        Model { sink: Some((Room::PerVl(40), 400_000)), ..default },
        Model::named("schneider").expect("a name"),
        Model::named("flich").expect("a name"),
    ]
}
