//! Links that carry packets only where nothing else leads.

use std::collections::BTreeMap;

use petgraph::unionfind::UnionFind;

use super::Sieve;
use crate::fabric::builder::live_peer;
use crate::fabric::ids::{NodeId, PortNum};
use crate::fabric::node::{LinkState, PortRef};

impl Sieve {
    /// Takes `links` and all links of `switches` out of use, except those that connect parts of the
    /// fabric. So a switch in doubt keeps one link: its adapters are reached, and no other packets
    /// pass through it.
    ///
    /// Links of switches in doubt are kept before links that are in doubt themselves; then the order
    /// is by node GUID and port.
    ///
    /// Cost: O(ports), and O(n log n) for n links in doubt.
    pub(super) fn avoid(&mut self, switches: &BTreeMap<NodeId, String>, links: &BTreeMap<PortRef, String>) {
        if switches.is_empty() && links.is_empty() {
            return;
        }
        let mut parts = UnionFind::new(self.nodes.len());
        let mut suspects = Vec::new();
        for (a, b) in self.links_between_switches() {
            let itself = links.contains_key(&a) || links.contains_key(&b);
            if itself || switches.contains_key(&a.node) || switches.contains_key(&b.node) {
                let key = |end: PortRef| (self.nodes[end.node.index()].guid, end.port);
                suspects.push((itself, key(a).min(key(b)), a, b));
            } else {
                parts.union(a.node.index(), b.node.index());
            }
        }
        suspects.sort_unstable();
        let mut kept = Vec::new();
        for (_, _, a, b) in suspects {
            if parts.union(a.node.index(), b.node.index()) {
                kept.push((a, b));
            } else {
                for end in [a, b] {
                    self.nodes[end.node.index()].ports[end.port.index()].state = LinkState::Held;
                }
            }
        }
        for (&node, why) in switches.iter().filter(|(node, _)| !self.gone[node.index()]) {
            let used = kept.iter().filter(|(a, b)| a.node == node || b.node == node).count();
            let name = self.name(node.index());
            self.left_out.push(format!(
                "switch {name} is avoided: {why}. {used} of its links to switches stay in use, as nothing else leads \
                 there"
            ));
        }
        for (&end, why) in links {
            let Some(peer) = self.nodes[end.node.index()].ports[end.port.index()].peer else { continue };
            let used = kept.iter().any(|&(a, b)| a == end || b == end);
            let then = if used { "used all the same, as nothing else leads there" } else { "avoided" };
            let name = |end: PortRef| format!("{} port {}", self.name(end.node.index()), end.port);
            self.left_out.push(format!("the link from {} to {} is {then}: {why}", name(end), name(peer)));
        }
    }

    /// Live links between different switches that are kept, each once.
    fn links_between_switches(&self) -> Vec<(PortRef, PortRef)> {
        let mut found = Vec::new();
        for (node, read) in self.nodes.iter().enumerate() {
            if !read.is_switch() || self.gone[node] {
                continue;
            }
            for port in 1..read.ports.len() {
                let here = PortRef { node: NodeId::at(node), port: PortNum(port as u8) };
                let Some(there) = live_peer(&self.nodes, node, port) else { continue };
                if there.node > here.node && self.nodes[there.node.index()].is_switch() {
                    found.push((here, there));
                }
            }
        }
        found
    }
}
