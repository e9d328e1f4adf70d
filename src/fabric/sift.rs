//! One bad node is left out, not the fabric: from what a subnet manager found to what can be routed.
//!
//! Rules, in this order:
//!
//! 1. The subnet manager's table of LIDs says who owns a LID. An end port that answers a base LID of
//!    another has none; of its range by LMC it keeps the largest part that is its own. An adapter port
//!    without a LID is left out, and a switch without one.
//! 2. A left-out switch may forward by old tables: no entry leads to it, and the ports of other switches
//!    that lead to it are [untrusted](super::Port::untrusted). Adapters that hang off it are left out.
//! 3. Which VL a switch without SL2VL tables sends on nobody can know, and one with a single data VL needs no
//!    such tables: its links have one VL. All VLs of a link count as that one then, which is never less
//!    strict. Where it has an untrusted port it cannot keep foreign packets back and is left out too.
//! 4. Of a fabric in parts the one of the subnet manager counts. Where it is on none, that with the most
//!    adapters, and of several that with the lowest GUID.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::builder::live_peer;
use super::ids::{Guid, Lid, Lmc, NodeId, PortNum};
use super::node::{Node, NodeKind, PortRef};
use super::{Fabric, FabricBuilder, FabricError};

/// What a subnet manager found, with what is known to be bad. Nodes are the builder's.
#[derive(Debug, Default)]
pub struct Survey {
    /// All nodes and cables, with the LIDs that the nodes answer.
    pub builder: FabricBuilder,
    /// The owner of each LID, by LID.
    pub owners: Vec<Option<PortRef>>,
    /// Switches to leave out, and why, in words that follow "is left out: ".
    pub bad: BTreeMap<NodeId, String>,
    /// The same for switches that must stay where the subnet manager hangs off them: nothing would be left
    /// to manage.
    pub doubtful: BTreeMap<NodeId, String>,
    /// Switches without SL2VL tables.
    pub one_vl: Vec<NodeId>,
    /// The end port of the subnet manager.
    pub home: Option<PortRef>,
}

/// What is left of a [`Survey`].
#[derive(Debug)]
pub struct Sifted {
    /// What can be routed.
    pub fabric: Fabric,
    /// What was left out or restricted and why, in words.
    pub left_out: Vec<String>,
    /// Node GUIDs of switches that were left out, ascending.
    pub switches: Vec<Guid>,
    /// Port GUIDs of adapters that were left out, ascending.
    pub adapters: Vec<Guid>,
}

/// Leaves out what is bad; see the [module](self).
///
/// # Errors
/// [`FabricError`], as [`FabricBuilder::finish`].
///
/// Cost: O(n log n) in nodes and ports; O(ports) more for each round of rule 3.
pub fn sift(survey: Survey) -> Result<Sifted, FabricError> {
    let Survey { builder, owners, mut bad, doubtful, one_vl, home } = survey;
    let mut sieve = Sieve {
        nodes: builder.nodes,
        gone: Vec::new(),
        left_out: Vec::new(),
        lost: Vec::new(),
        out: Vec::new(),
    };
    sieve.gone = vec![false; sieve.nodes.len()];
    let here = home.and_then(|port| sieve.switch_at(port));
    for (node, why) in doubtful {
        if here != Some(node.index()) {
            bad.entry(node).or_insert(why);
        }
    }
    for (node, why) in sieve.claims(&owners) {
        bad.entry(NodeId::at(node)).or_insert(why);
    }
    for (&node, why) in &bad {
        sieve.remove_switch(node.index(), why);
    }
    sieve.one_vl(&one_vl);
    sieve.keep_one_part(here);
    sieve.finish()
}

struct Sieve {
    nodes: Vec<Node>,
    /// By node.
    gone: Vec<bool>,
    left_out: Vec<String>,
    /// Port GUIDs of adapters without a path.
    lost: Vec<Guid>,
    /// GUIDs of left-out switches.
    out: Vec<Guid>,
}

impl Sieve {
    fn name(&self, node: usize) -> String {
        format!("'{}' ({})", self.nodes[node].description, self.nodes[node].guid)
    }

    /// The switch that an end port belongs to or hangs off.
    fn switch_at(&self, port: PortRef) -> Option<usize> {
        let node = self.nodes.get(port.node.index())?;
        if node.is_switch() {
            return Some(port.node.index());
        }
        let peer = node.ports.get(port.port.index())?.peer?;
        self.nodes[peer.node.index()].is_switch().then_some(peer.node.index())
    }

    /// Takes LIDs away from those that do not own them. Returns the switches without one, and why.
    fn claims(&mut self, owners: &[Option<PortRef>]) -> Vec<(usize, String)> {
        let mut bad = Vec::new();
        for node in 0..self.nodes.len() {
            let switch = self.nodes[node].is_switch();
            let ports = if switch { 0..1 } else { 1..self.nodes[node].ports.len() };
            for number in ports {
                let port = &self.nodes[node].ports[number];
                if !switch && port.peer.is_none() {
                    continue;
                }
                let me = PortRef { node: NodeId::at(node), port: PortNum(number as u8) };
                let (lid, lmc) = (port.lid, port.lmc);
                let Some(lid) = lid else {
                    let why =
                        "it has no LID: it answered no PortInfo, or did not take the LID that it was given";
                    if switch {
                        bad.push((node, why.to_owned()));
                    } else {
                        self.left_out.push(format!("{} port {number} is left out: {why}", self.name(node)));
                        self.lose(node, number);
                    }
                    continue;
                };
                let owner = |lid: usize| owners.get(lid).copied().flatten();
                let owned = |lmc: u8| {
                    (lid.index()..lid.index() + (1 << lmc))
                        .all(|lid| Lid::new(lid as u16).is_some() && owner(lid) == Some(me))
                };
                if owned(lmc.get()) {
                    continue;
                }
                let answer = format!("it answers LID {lid} with LMC {}", lmc.get());
                let first =
                    (lid.index()..lid.index() + usize::from(lmc.lids())).find(|&lid| owner(lid) != Some(me));
                let theirs = first.map_or_else(String::new, |lid| match owner(lid) {
                    Some(end) => {
                        format!("LID {lid} belongs to {} port {}", self.name(end.node.index()), end.port)
                    }
                    None => format!("LID {lid} was given to nobody"),
                });
                if let Some(part) = (0..lmc.get()).rev().find(|&part| owned(part)) {
                    self.nodes[node].ports[number].lmc = Lmc::new(part).unwrap_or_default();
                    self.left_out.push(format!(
                        "{} port {number} keeps {} of its LIDs: {answer}, and {theirs}",
                        self.name(node),
                        1 << part
                    ));
                } else if switch {
                    self.nodes[node].ports[0].lid = None;
                    bad.push((node, format!("{answer}, and {theirs}")));
                } else {
                    self.left_out.push(format!(
                        "{} port {number} is left out: {answer}, and {theirs}",
                        self.name(node)
                    ));
                    self.lose(node, number);
                }
            }
        }
        bad
    }

    /// Takes an adapter's port out.
    fn lose(&mut self, node: usize, port: usize) {
        self.lost.push(self.nodes[node].ports[port].guid);
        self.disconnect(node, port);
    }

    fn disconnect(&mut self, node: usize, port: usize) -> Option<PortRef> {
        let peer = self.nodes[node].ports[port].peer.take()?;
        self.nodes[peer.node.index()].ports[peer.port.index()].peer = None;
        Some(peer)
    }

    /// Takes a switch out with the adapters on it. Returns what it says of these.
    fn take_switch(&mut self, node: usize) -> String {
        self.gone[node] = true;
        self.out.push(self.nodes[node].guid);
        let mut behind = Vec::new();
        for port in 1..self.nodes[node].ports.len() {
            let Some(peer) = self.disconnect(node, port) else { continue };
            let there = peer.node.index();
            if there == node {
                continue;
            }
            if self.nodes[there].is_switch() {
                self.nodes[there].ports[peer.port.index()].untrusted = true;
            } else {
                behind.push(format!("{} port {}", self.name(there), peer.port));
                self.lost.push(self.nodes[there].ports[peer.port.index()].guid);
            }
        }
        match behind.len() {
            0 => String::new(),
            1 => format!(". So is {} behind it", behind[0]),
            n => format!(". So are {n} adapter ports behind it: {}", behind.join(", ")),
        }
    }

    fn remove_switch(&mut self, node: usize, why: &str) {
        if self.gone[node] {
            return;
        }
        let behind = self.take_switch(node);
        self.left_out.push(format!("switch {} is left out: {why}{behind}", self.name(node)));
    }

    /// Gives all links of these switches one VL, or leaves them out where foreign packets may come in.
    fn one_vl(&mut self, switches: &[NodeId]) {
        loop {
            let exposed = switches
                .iter()
                .map(|id| id.index())
                .find(|&node| !self.gone[node] && self.nodes[node].ports.iter().any(|port| port.untrusted));
            let Some(node) = exposed else { break };
            self.remove_switch(
                node,
                "it has no SL to VL mapping tables (IsSLMappingSupported of port 0), so it cannot keep back what a \
                 left-out switch beside it may send",
            );
        }
        for node in switches.iter().map(|id| id.index()) {
            if self.gone[node] {
                continue;
            }
            self.nodes[node].ports.iter_mut().for_each(|port| port.data_vls = Some(1));
            self.left_out.push(format!(
                "switch {} has no SL to VL mapping tables (IsSLMappingSupported of port 0): its links carry VL 0 alone",
                self.name(node)
            ));
        }
    }

    /// Removes all switches that no live cables connect with the subnet manager.
    fn keep_one_part(&mut self, here: Option<usize>) {
        let mut part = vec![usize::MAX; self.nodes.len()];
        let mut parts = Vec::new();
        for start in 0..self.nodes.len() {
            if !self.nodes[start].is_switch() || self.gone[start] || part[start] != usize::MAX {
                continue;
            }
            let mut queue = VecDeque::from([start]);
            let mut members = Vec::new();
            part[start] = parts.len();
            while let Some(node) = queue.pop_front() {
                members.push(node);
                for port in 1..self.nodes[node].ports.len() {
                    let Some(peer) = live_peer(&self.nodes, node, port) else { continue };
                    let there = peer.node.index();
                    if self.nodes[there].is_switch() && part[there] == usize::MAX {
                        part[there] = parts.len();
                        queue.push_back(there);
                    }
                }
            }
            parts.push(members);
        }
        let adapters = |members: &Vec<usize>| -> usize {
            let on = |&node: &usize| {
                let live = |&port: &usize| live_peer(&self.nodes, node, port);
                (1..self.nodes[node].ports.len())
                    .filter_map(|port| live(&port))
                    .filter(|peer| !self.nodes[peer.node.index()].is_switch())
                    .count()
            };
            members.iter().map(on).sum()
        };
        let lowest = |members: &Vec<usize>| members.iter().map(|&node| self.nodes[node].guid).min();
        let kept = here.filter(|&node| !self.gone[node]).map(|node| part[node]).or_else(|| {
            (0..parts.len()).min_by_key(|&i| (std::cmp::Reverse(adapters(&parts[i])), lowest(&parts[i])))
        });
        let mut others: Vec<(Option<Guid>, usize)> =
            (0..parts.len()).filter(|&i| Some(i) != kept).map(|i| (lowest(&parts[i]), i)).collect();
        others.sort_unstable();
        for (_, i) in others {
            let mut members = std::mem::take(&mut parts[i]);
            members.sort_unstable_by_key(|&node| self.nodes[node].guid);
            let names: Vec<String> = members.iter().map(|&node| self.name(node)).collect();
            let lost = self.lost.len();
            for &node in &members {
                self.take_switch(node);
            }
            self.left_out.push(format!(
                "{} switches and the {} adapter ports on them are left out: no link that is up and routed connects them \
                 with the subnet manager: {}",
                names.len(),
                self.lost.len() - lost,
                names.join(", ")
            ));
        }
    }

    fn finish(mut self) -> Result<Sifted, FabricError> {
        // Adapters whose switch is gone have no cable left; they keep their place among the nodes.
        let mut builder = FabricBuilder::new();
        let mut place = HashMap::new();
        for (i, node) in self.nodes.iter().enumerate().filter(|&(i, _)| !self.gone[i]) {
            let mut node = node.clone();
            for port in &mut node.ports {
                port.peer = None;
            }
            place.insert(i, builder.add(node)?);
        }
        for (i, node) in self.nodes.iter().enumerate().filter(|&(i, _)| !self.gone[i]) {
            for (number, port) in node.ports.iter().enumerate() {
                let Some(peer) = port.peer else { continue };
                let here = PortRef { node: place[&i], port: PortNum(number as u8) };
                let there = PortRef { node: place[&peer.node.index()], port: peer.port };
                builder.connect(here, there)?;
            }
        }
        self.out.sort_unstable();
        self.lost.sort_unstable();
        self.lost.dedup();
        let fabric = builder.finish(Lmc::default())?;
        Ok(Sifted { fabric, left_out: self.left_out, switches: self.out, adapters: self.lost })
    }
}

impl Survey {
    /// Plugs a cable. One that contradicts others is left out; its ports at switches are untrusted.
    pub fn connect(&mut self, a: PortRef, b: PortRef) {
        if self.builder.connect(a, b).is_ok() {
            return;
        }
        for end in [a, b] {
            let node = self.builder.node_mut(end.node);
            if node.kind == NodeKind::Switch
                && let Some(port) = node.ports.get_mut(end.port.index())
            {
                port.untrusted = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Switches 1 to n in a ring, each with one adapter; LIDs 1 to n of the switches, then those of the
    /// adapters. The subnet manager is on the first adapter.
    fn ring(n: u16) -> Survey {
        let mut survey = Survey::default();
        for i in 0..n {
            let guid = Guid(u64::from(i) + 1);
            let mut switch = Node::new(NodeKind::Switch, guid, 4, &format!("S{}", i + 1));
            switch.ports[0].lid = Lid::new(i + 1);
            survey.builder.add(switch).unwrap();
        }
        for i in 0..n {
            let guid = Guid(u64::from(i) * 16 + 0x100);
            let mut host = Node::new(NodeKind::ChannelAdapter, guid, 1, &format!("H{}", i + 1));
            host.ports[1].lid = Lid::new(n + i + 1);
            survey.builder.add(host).unwrap();
        }
        let end = |i: u16, port| PortRef { node: NodeId(u32::from(i)), port: PortNum(port) };
        for i in 0..n {
            survey.connect(end(i, 1), end((i + 1) % n, 2));
            survey.connect(end(i, 3), end(n + i, 1));
        }
        survey.owners = vec![None];
        survey.owners.extend((0..2 * n).map(|i| Some(end(i, u8::from(i >= n)))));
        survey.home = Some(end(n, 1));
        survey
    }

    fn names(fabric: &Fabric, kept: bool) -> Vec<String> {
        let cabled = |node: &&Node| node.ports.iter().any(|port| port.peer.is_some());
        fabric.nodes().iter().filter(|n| cabled(n) == kept).map(|n| n.description.clone()).collect()
    }

    fn untrusted(fabric: &Fabric) -> Vec<(String, usize)> {
        let ports = |node: &Node| -> Vec<(String, usize)> {
            let ports = node.ports.iter().enumerate().filter(|(_, port)| port.untrusted);
            ports.map(|(number, _)| (node.description.clone(), number)).collect()
        };
        fabric.nodes().iter().flat_map(ports).collect()
    }

    #[test]
    fn an_honest_fabric_stays_as_it_is() {
        let sifted = sift(ring(5)).unwrap();
        assert!(sifted.left_out.is_empty() && sifted.switches.is_empty() && sifted.adapters.is_empty());
        assert_eq!((sifted.fabric.num_switches(), sifted.fabric.num_links()), (5, 10));
        assert!(untrusted(&sifted.fabric).is_empty());
    }

    #[test]
    fn the_table_of_lids_says_who_owns_one() {
        // An adapter answers the LID of another, before and behind it in order.
        for (liar, honest) in [(7_u32, 8_u16), (8, 7)] {
            let mut survey = ring(5);
            survey.builder.node_mut(NodeId(liar)).ports[1].lid = Lid::new(honest + 1);
            let sifted = sift(survey).unwrap();
            let name = format!("H{}", liar - 4);
            assert_eq!(names(&sifted.fabric, false), [name.clone()]);
            assert_eq!(sifted.left_out.len(), 1);
            let [owner, note] = [format!("'H{}'", honest - 4), sifted.left_out[0].clone()];
            for word in [
                &format!("'{name}'"),
                "port 1 is left out",
                &format!("LID {} with LMC 0", honest + 1),
                &owner,
            ] {
                assert!(note.contains(word), "{word}: {note}");
            }
            assert_eq!(sifted.adapters, [Guid(u64::from(liar - 5) * 16 + 0x101)]);
        }
        // A switch does: it is left out with what hangs off it.
        let mut survey = ring(5);
        survey.builder.node_mut(NodeId(2)).ports[0].lid = Lid::new(7);
        let sifted = sift(survey).unwrap();
        assert_eq!(names(&sifted.fabric, false), ["H3"]);
        assert_eq!(sifted.switches, [Guid(3)]);
        assert!(
            sifted.left_out[0].contains("'S3'") && sifted.left_out[0].contains("'H3'"),
            "{:?}",
            sifted.left_out
        );
        assert_eq!(untrusted(&sifted.fabric), [("S2".to_owned(), 1), ("S4".to_owned(), 2)]);
    }

    #[test]
    fn a_range_that_reaches_into_others_is_cut() {
        let mut survey = ring(5);
        survey.builder.node_mut(NodeId(6)).ports[1].lmc = Lmc::new(2).unwrap();
        survey.builder.node_mut(NodeId(3)).ports[0].lmc = Lmc::new(3).unwrap();
        let sifted = sift(survey).unwrap();
        assert_eq!(sifted.left_out.len(), 2, "{:?}", sifted.left_out);
        assert!(names(&sifted.fabric, false).is_empty());
        assert!(sifted.fabric.endports().iter().all(|end| end.lmc.get() == 0));
        assert!(sifted.left_out[1].contains("'H2'") && sifted.left_out[1].contains("LID 7 with LMC 2"));
        // What the table gives it stays its own, up to the last LID that is.
        let mut survey = ring(5);
        survey.builder.node_mut(NodeId(9)).ports[1].lmc = Lmc::new(2).unwrap();
        survey.owners.push(survey.owners[10]);
        let sifted = sift(survey).unwrap();
        assert_eq!(sifted.fabric.endports().iter().map(|end| end.lmc.get()).max(), Some(1));
    }

    #[test]
    fn without_a_lid_a_switch_is_left_out_and_the_rest_stays_together() {
        let mut survey = ring(6);
        survey.builder.node_mut(NodeId(3)).ports[0].lid = None;
        let sifted = sift(survey).unwrap();
        assert_eq!((sifted.fabric.num_switches(), sifted.fabric.adapters().count()), (5, 5));
        assert!(sifted.left_out[0].contains("no LID") && sifted.left_out[0].contains("'H4'"));
    }

    #[test]
    fn of_two_parts_that_of_the_subnet_manager_counts() {
        let mut survey = ring(7);
        survey.bad.insert(NodeId(1), "it is bad".to_owned());
        survey.bad.insert(NodeId(5), "it is bad".to_owned());
        let sifted = sift(survey).unwrap();
        // S1 and S7 are between them, and the subnet manager, though the other part is larger.
        let kept: Vec<_> = sifted.fabric.switch_ids().map(|s| sifted.fabric.switch(s).guid.0).collect();
        assert_eq!(kept, [1, 7]);
        let note = sifted.left_out.last().unwrap();
        assert!(note.contains("3 switches") && note.contains("'S4'"), "{note}");
        assert_eq!((sifted.switches.len(), sifted.adapters.len()), (5, 5));
        // Where its own switch is bad the larger part does.
        let mut survey = ring(7);
        survey.bad.insert(NodeId(0), "it is bad".to_owned());
        survey.bad.insert(NodeId(2), "it is bad".to_owned());
        assert_eq!(sift(survey).unwrap().fabric.num_switches(), 4);
    }

    #[test]
    fn a_doubtful_switch_stays_where_the_subnet_manager_hangs_off_it() {
        for (switch, kept) in [(0, 5), (2, 4)] {
            let mut survey = ring(5);
            survey.doubtful.insert(NodeId(switch), "it takes no tables".to_owned());
            assert_eq!(sift(survey).unwrap().fabric.num_switches(), kept);
        }
    }

    #[test]
    fn without_sl2vl_tables_links_have_one_vl_unless_foreign_packets_may_come() {
        let mut survey = ring(5);
        survey.one_vl.push(NodeId(2));
        let sifted = sift(survey).unwrap();
        let fabric = &sifted.fabric;
        assert!(fabric.switch(crate::fabric::SwitchId(2)).ports.iter().all(|p| p.data_vls == Some(1)));
        assert_eq!((fabric.num_switches(), sifted.left_out.len()), (5, 1));
        let mut survey = ring(6);
        survey.one_vl.extend([NodeId(2), NodeId(3)]);
        survey.bad.insert(NodeId(1), "it is bad".to_owned());
        let sifted = sift(survey).unwrap();
        let kept: Vec<_> = sifted.fabric.switch_ids().map(|s| sifted.fabric.switch(s).guid.0).collect();
        assert_eq!(kept, [1, 5, 6]);
    }

    #[test]
    fn a_cable_that_contradicts_another_is_left_out() {
        let mut survey = ring(5);
        let end = |i, port| PortRef { node: NodeId(i), port: PortNum(port) };
        survey.connect(end(0, 1), end(3, 4));
        survey.connect(end(2, 9), end(4, 4));
        let sifted = sift(survey).unwrap();
        assert_eq!(sifted.fabric.num_links(), 10);
        assert_eq!(
            untrusted(&sifted.fabric),
            [("S1".to_owned(), 1), ("S4".to_owned(), 4), ("S5".to_owned(), 4)]
        );
    }
}
