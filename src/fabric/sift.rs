//! From what a subnet manager found to what can be routed: one bad node is left out, not the fabric.
//!
//! Rules, in this order:
//!
//! 1. The subnet manager's table of LIDs says who owns a LID. An end port that reports a base LID of
//!    another one has no LID; of a range of LIDs it keeps the largest part that it owns. OpenSM takes
//!    a LID away from its owner if another port reports it; an owner that was assigned the LID and
//!    reported it gets it back. An adapter port without a LID is left out. A switch without a LID
//!    forwards packets, but no packet is routed to its port 0.
//! 2. A left-out switch may forward by old tables. No entry leads to it, and the ports of other
//!    switches that lead to it are [untrusted](super::Port::untrusted). Adapters on it are left out.
//!    A port that is up and behind which nothing answers may lead to such a switch.
//! 3. The VLs used by a switch without known SL2VL tables are unknown. All VLs of its links count as
//!    one VL, which is never less strict. With an untrusted port it could not keep foreign packets
//!    back, so it is left out then.
//! 4. Links and switches in doubt carry packets only where nothing else leads (`avoid.rs`).
//! 5. If the fabric is in several parts, the part of the subnet manager is kept. If that is unknown,
//!    the part with the most adapters is kept; among equals the one with the lowest GUID.

mod avoid;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::builder::live_peer;
use super::ids::{Guid, Lid, Lmc, NodeId, PortNum};
use super::node::{LinkState, Node, NodeKind, PortRef};
use super::{Fabric, FabricBuilder, FabricError};

/// What a subnet manager found, with what is known to be bad. Nodes are the builder's.
#[derive(Debug, Default)]
pub struct Survey {
    /// All nodes and cables, with the LIDs that the nodes answer.
    pub builder: FabricBuilder,
    /// The owner of each LID, by LID.
    pub owners: Vec<Option<PortRef>>,
    /// The LID of each end port that was given it and answered it when it was discovered.
    pub answered: HashMap<PortRef, Lid>,
    /// Switches to leave out, and why, in words that follow "is left out: ".
    pub bad: BTreeMap<NodeId, String>,
    /// The same for switches that must stay where the subnet manager hangs off them: nothing would be left
    /// to manage.
    pub doubtful: BTreeMap<NodeId, String>,
    /// Switches whose SL2VL tables are unknown, and why, in words that follow "switch X ".
    pub one_vl: BTreeMap<NodeId, String>,
    /// Switches to avoid, and why, in words that follow "avoided: ".
    pub avoid: BTreeMap<NodeId, String>,
    /// Links to avoid, each by one of its ends, and why.
    pub avoid_links: BTreeMap<PortRef, String>,
    /// Ports that are up and of whose other end nothing is known.
    pub unknown: Vec<PortRef>,
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

/// Leaves out what is bad; the description of this file says what that is.
///
/// # Errors
/// [`FabricError`], as [`FabricBuilder::finish`].
///
/// Cost: O(n log n) in nodes and ports; O(ports) more for each round of rule 3.
pub fn sift(survey: Survey) -> Result<Sifted, FabricError> {
    let Survey {
        builder,
        mut owners,
        answered,
        mut bad,
        doubtful,
        one_vl,
        avoid,
        avoid_links,
        unknown,
        home,
    } = survey;
    let mut sieve = Sieve {
        nodes: builder.nodes,
        gone: Vec::new(),
        left_out: Vec::new(),
        lost: Vec::new(),
        out: Vec::new(),
    };
    sieve.gone = vec![false; sieve.nodes.len()];
    sieve.unknown(&unknown);
    let here = home.and_then(|port| sieve.switch_at(port));
    for (node, why) in doubtful {
        if here != Some(node.index()) {
            bad.entry(node).or_insert(why);
        }
    }
    sieve.give_back(&mut owners, &answered);
    sieve.claims(&owners, &bad);
    for (&node, why) in &bad {
        sieve.remove_switch(node.index(), why);
    }
    sieve.one_vl(&one_vl);
    sieve.avoid(&avoid, &avoid_links);
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

    /// What is behind these ports may be a switch.
    fn unknown(&mut self, ports: &[PortRef]) {
        for end in ports {
            let node = &mut self.nodes[end.node.index()];
            if !node.is_switch() || end.port.index() >= node.ports.len() {
                continue;
            }
            node.ports[end.port.index()].untrusted = true;
            let name = self.name(end.node.index());
            self.left_out.push(format!(
                "what is behind switch {name} port {} is left out: the port is up, and nothing there answers",
                end.port
            ));
        }
    }

    /// Gives end ports the LIDs back that were taken away although they answer them.
    fn give_back(&mut self, owners: &mut Vec<Option<PortRef>>, answered: &HashMap<PortRef, Lid>) {
        for (node, read) in self.nodes.iter_mut().enumerate() {
            let ports = if read.is_switch() { 0..1 } else { 1..read.ports.len() };
            for number in ports {
                let me = PortRef { node: NodeId::at(node), port: PortNum(number as u8) };
                let port = &mut read.ports[number];
                let Some(&lid) = answered.get(&me).filter(|_| port.lid.is_none()) else { continue };
                port.lid = Some(lid);
                let end = lid.index() + usize::from(port.lmc.lids());
                owners.resize(owners.len().max(end), None);
                owners[lid.index()..end].iter_mut().for_each(|owner| _ = owner.get_or_insert(me));
            }
        }
    }

    /// Takes LIDs away from ports that do not own them. Adds no remark about switches that are `bad`.
    fn claims(&mut self, owners: &[Option<PortRef>], bad: &BTreeMap<NodeId, String>) {
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
                    if switch {
                        self.forget_port0(node, bad, "it did not take the LID that it was given, or lost it");
                    } else {
                        self.left_out.push(format!(
                            "{} port {number} is left out: it has no LID: it did not answer PortInfo, or did not take \
                             the LID that it was given",
                            self.name(node)
                        ));
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
                    self.forget_port0(node, bad, &format!("{answer}, and {theirs}"));
                } else {
                    self.left_out.push(format!(
                        "{} port {number} is left out: {answer}, and {theirs}",
                        self.name(node)
                    ));
                    self.lose(node, number);
                }
            }
        }
    }

    /// A switch without a LID forwards packets, but its port 0 is not an end port.
    fn forget_port0(&mut self, node: usize, bad: &BTreeMap<NodeId, String>, why: &str) {
        let port0 = &mut self.nodes[node].ports[0];
        (port0.lid, port0.state) = (None, LinkState::Down);
        if bad.contains_key(&NodeId::at(node)) {
            return;
        }
        self.lost.push(self.nodes[node].ports[0].guid);
        self.left_out.push(format!(
            "switch {} has no LID: {why}. Packets are routed through it, and none to itself",
            self.name(node)
        ));
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
    fn one_vl(&mut self, switches: &BTreeMap<NodeId, String>) {
        loop {
            let exposed = switches.iter().find(|(id, _)| {
                let node = id.index();
                !self.gone[node] && self.nodes[node].ports.iter().any(|port| port.untrusted)
            });
            let Some((node, why)) = exposed else { break };
            let why = format!("it {why}, so it cannot keep back what a left-out switch beside it may send");
            self.remove_switch(node.index(), &why);
        }
        for (node, why) in switches.iter().map(|(id, why)| (id.index(), why)) {
            if self.gone[node] {
                continue;
            }
            self.nodes[node].ports.iter_mut().for_each(|port| port.data_vls = Some(1));
            self.left_out.push(format!("switch {} {why}: its links count as one VL", self.name(node)));
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
            if node.kind != NodeKind::Switch {
                continue;
            }
            if let Some(port) = node.ports.get_mut(end.port.index()) {
                port.untrusted = true;
            }
        }
    }
}
