//! What fails: single links and switches, random pairs, and parts given by name.

use std::collections::BTreeSet;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use thiserror::Error;

use crate::fabric::{Fabric, NodeId, PortNum, PortRef};

/// Nodes and cables that fail together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// Nodes, with all their cables.
    pub nodes: Vec<NodeId>,
    /// Cables, each by one of its ends.
    pub cables: Vec<PortRef>,
}

impl Failure {
    /// Its parts as text: `'leaf' (GUID)`, and `'leaf' (GUID) port 3 - 'spine' (GUID) port 7`.
    pub fn describe(&self, fabric: &Fabric) -> String {
        let end = |end: PortRef| format!("{} port {}", fabric.describe(end.node), end.port);
        let cable = |a: &PortRef| match fabric.node(a.node).ports[a.port.index()].peer {
            Some(b) => format!("{} - {}", end(*a), end(b)),
            None => end(*a),
        };
        let nodes = self.nodes.iter().map(|&node| fabric.describe(node));
        nodes.chain(self.cables.iter().map(cable)).collect::<Vec<_>>().join(" and ")
    }

    /// All that fails in either.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        self.nodes.extend(other.nodes.iter().copied());
        self.cables.extend(other.cables.iter().copied());
        self
    }
}

/// Every single link between switches: by switch in GUID order, then by port.
pub fn links(fabric: &Fabric) -> Vec<Failure> {
    let once = fabric.channels().iter().filter(|(id, c)| *id < c.reverse);
    let end = |node, port| Failure { cables: vec![PortRef { node, port }], ..Failure::default() };
    once.map(|(_, c)| end(fabric.switch_node_id(c.from), c.out_port)).collect()
}

/// Every single switch, in GUID order.
pub fn switches(fabric: &Fabric) -> Vec<Failure> {
    let nodes = fabric.switch_ids().map(|s| vec![fabric.switch_node_id(s)]);
    nodes.map(|nodes| Failure { nodes, ..Failure::default() }).collect()
}

/// Random pairs of different failures, no pair twice: `count`, or all if there are fewer. The same seed gives the
/// same pairs on any machine.
///
/// Cost: O(count log count).
pub fn pairs(of: &[Failure], count: usize, seed: u64) -> Vec<Failure> {
    let n = of.len() as u64;
    let all = n * n.saturating_sub(1) / 2;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut drawn: Vec<(usize, usize)> = Vec::new();
    if all <= (count as u64).saturating_mul(2) {
        drawn.extend((0..of.len()).flat_map(|b| (0..b).map(move |a| (a, b))));
        drawn.shuffle(&mut rng);
        drawn.truncate(count);
    } else {
        // At least every second draw is new.
        let mut seen = BTreeSet::new();
        while drawn.len() < count {
            let [a, b] = [0; 2].map(|_| rng.random_range(0..n as u32) as usize);
            if a != b && seen.insert((a.min(b), a.max(b))) {
                drawn.push((a.min(b), a.max(b)));
            }
        }
    }
    drawn.into_iter().map(|(a, b)| of[a].clone().with(&of[b])).collect()
}

/// A name that is not that of one part of the fabric.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UnknownPart {
    /// No node has it.
    #[error("no node of the fabric has the name or GUID '{0}'")]
    NoNode(String),
    /// Several nodes have it.
    #[error("'{0}' is the name of several nodes: use a GUID")]
    Ambiguous(String),
    /// The port has no cable that is up.
    #[error("{0} has no cable at port {1}")]
    NoCable(String, String),
}

/// What a text names: a node by its description or GUID (0x…), or a cable by one end, as in `leaf-3 port 7`.
///
/// # Errors
/// [`UnknownPart`].
pub fn find(fabric: &Fabric, text: &str) -> Result<Failure, UnknownPart> {
    match node(fabric, text) {
        Ok(node) => Ok(Failure { nodes: vec![node], ..Failure::default() }),
        Err(error) => {
            let Some((name, port)) = text.rsplit_once(" port ") else { return Err(error) };
            let id = node(fabric, name.trim())?;
            let number = port.trim().parse().ok().map(PortNum);
            let ports = &fabric.node(id).ports;
            let cabled = number.filter(|n| ports.get(n.index()).is_some_and(|p| p.peer.is_some()));
            let no_cable = || UnknownPart::NoCable(fabric.describe(id), port.trim().to_owned());
            let end = PortRef { node: id, port: cabled.ok_or_else(no_cable)? };
            Ok(Failure { cables: vec![end], ..Failure::default() })
        }
    }
}

fn node(fabric: &Fabric, name: &str) -> Result<NodeId, UnknownPart> {
    let hex = name.strip_prefix("0x").or_else(|| name.strip_prefix("0X"));
    let guid = hex.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let nodes = (0..).map(NodeId).zip(fabric.nodes());
    let mut found = nodes.filter(|(_, node)| node.description == name || Some(node.guid.0) == guid);
    match (found.next(), found.next()) {
        (Some((id, _)), None) => Ok(id),
        (None, _) => Err(UnknownPart::NoNode(name.to_owned())),
        (Some(_), Some(_)) => Err(UnknownPart::Ambiguous(name.to_owned())),
    }
}
