//! Every metric against numbers worked out by hand, or counted again by walking all pairs.

mod bisections;
mod by_hand;
mod failures;
mod pair_by_pair;
mod permutations;
mod rates_and_roles;

use std::collections::{BTreeMap, BTreeSet};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::bisection::draw;
use super::*;
use crate::fabric::{
    ChannelId, EndPort, FabricBuilder, Guid, Lmc, Node, NodeKind, PortNum, PortRef, SwitchId,
};
use crate::routing::{Hops, minhop, sssp};
use crate::tables::Lft;
use crate::topology::{Dragonfly, Hypercube, Mesh};

/// Switches with cables between them, and one adapter on each switch of `homes`.
fn network(switches: usize, cables: &[(usize, usize)], homes: &[usize], lmc: u8) -> Fabric {
    let mut b = FabricBuilder::new();
    let guid = |i: usize| Guid(i as u64 + 1);
    let nodes: Vec<_> = (0..switches)
        .map(|i| b.add(Node::new(NodeKind::Switch, guid(i), 60, &format!("s{i}"))).expect("few ports"))
        .collect();
    let mut used = vec![0; switches];
    let mut port = |s: usize| {
        used[s] += 1;
        PortRef { node: nodes[s], port: PortNum(used[s]) }
    };
    for &(x, y) in cables {
        let (x, y) = (port(x), port(y));
        b.connect(x, y).expect("free ports");
    }
    for (i, &home) in homes.iter().enumerate() {
        let node = Node::new(NodeKind::ChannelAdapter, Guid(1000 + 10 * i as u64), 1, &format!("h{i}"));
        let node = b.add(node).expect("few ports");
        b.connect(PortRef { node, port: PortNum(1) }, port(home)).expect("free ports");
    }
    b.finish(Lmc::new(lmc).expect("a small LMC")).expect("a sound network")
}

fn adapters(fabric: &Fabric) -> Vec<EndPort> {
    fabric.adapters().map(|(_, end)| *end).collect()
}

fn home(end: &EndPort) -> (SwitchId, PortNum) {
    end.attachment.expect("adapters hang off a switch")
}

/// Sets the path along `switches` to the base LID of an adapter.
fn lead(lft: &mut Lft, fabric: &Fabric, switches: &[usize], adapter: usize) {
    let end = adapters(fabric)[adapter];
    let (last, port) = home(&end);
    for pair in switches.windows(2) {
        let (from, to) = (SwitchId::at(pair[0]), SwitchId::at(pair[1]));
        let mut out = fabric.channels().out(from);
        let (_, channel) = out.find(|(_, c)| c.to == to).expect("a cable");
        let old = lft.get(from, end.lid);
        assert!(old.is_none_or(|port| port == channel.out_port), "not a destination-based route");
        lft.set(from, end.lid, channel.out_port);
    }
    assert_eq!(switches.last(), Some(&last.index()));
    lft.set(last, end.lid, port);
}

fn routes(fabric: &Fabric, lft: Lft) -> Routes {
    Routes::on_one_vl("test", fabric, lft)
}

fn patterns(n: u32) -> Options {
    Options { patterns: NonZeroU32::new(n).expect("not zero"), ..Options::default() }
}

fn judge(fabric: &Fabric, lft: &Lft) -> Result<Evaluation, EvaluateError> {
    evaluate(fabric, &routes(fabric, lft.clone()), &patterns(20))
}

fn by_sssp(fabric: &Fabric) -> Lft {
    sssp(fabric, &Hops::new(fabric).expect("a connected fabric"))
}

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;
const E: usize = 4;

/// The network of Hoefler et al., Fig. 2: endpoints 0, 1, 2 on A, E, C.
fn figure_2() -> Fabric {
    network(5, &[(A, B), (A, D), (B, E), (B, C), (C, D), (D, E)], &[A, E, C], 0)
}

fn loads(fabric: &Fabric, evaluation: &Evaluation) -> BTreeMap<(usize, usize), u64> {
    let by_channel = fabric.channels().iter().zip(&evaluation.load.channel_load);
    by_channel.map(|((_, c), &load)| ((c.from.index(), c.to.index()), load)).collect()
}
