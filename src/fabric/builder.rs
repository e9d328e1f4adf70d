//! Builds a checked [`Fabric`] from nodes and cables in any order.

use std::collections::HashMap;
use std::ops::Range;

use thiserror::Error;

use super::ids::{ChannelId, EndPortId, Guid, Lid, Lmc, NodeId, PortNum, SwitchId};
use super::node::{LinkState, Node, NodeKind, Port, PortRef};
use super::rates::Weights;
use super::{Channel, Channels, EndPort, Fabric, Note};

/// Why nodes and cables do not make a valid subnet.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum FabricError {
    /// Two nodes share a GUID.
    #[error("node GUID {guid} is used twice: by '{first}' and by '{second}'")]
    DuplicateNodeGuid {
        /// The GUID.
        guid: Guid,
        /// Description of one node.
        first: String,
        /// Description of the other node.
        second: String,
    },
    /// Two end ports share a LID.
    #[error("LID {lid} is used twice: by port {first} and by port {second}")]
    DuplicateLid {
        /// The LID.
        lid: u16,
        /// Port GUID of one.
        first: Guid,
        /// Port GUID of the other.
        second: Guid,
    },
    /// The LID range of an end port exceeds the unicast space.
    #[error("port {guid} with base LID {lid} and LMC {lmc} exceeds the last unicast LID, {}", Lid::MAX)]
    LidRange {
        /// Port GUID.
        guid: Guid,
        /// Base LID.
        lid: u16,
        /// Its LMC.
        lmc: u8,
    },
    /// Too few LIDs are left for end ports without one.
    #[error("{needed} end ports need LIDs with LMC {lmc}, more than the unicast LID space holds")]
    LidSpace {
        /// End ports that need LIDs.
        needed: usize,
        /// The LMC asked for.
        lmc: u8,
    },
    /// A port number that the node does not have.
    #[error("'{node}' has {num_ports} ports, so there is no port {port}")]
    NoSuchPort {
        /// Description of the node.
        node: String,
        /// Its number of ports.
        num_ports: u8,
        /// The number asked for.
        port: u8,
    },
    /// A port with two different cables.
    #[error("'{node}' port {port} has two cables: to {first} and to {second}")]
    TwoCables {
        /// Description of the node.
        node: String,
        /// The port.
        port: u8,
        /// Where the first cable leads.
        first: String,
        /// Where the second cable leads.
        second: String,
    },
    /// A node with more ports than InfiniBand can number, or without a port 0.
    #[error("'{node}' has {ports} ports with port 0, and 1 to 255 are possible")]
    PortCount {
        /// Description of the node.
        node: String,
        /// Its number of ports, port 0 included.
        ports: usize,
    },
}

/// A LID that two end ports state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLid {
    /// The LID.
    pub lid: u16,
    /// The port that keeps it.
    pub kept: PortRef,
    /// The port that has none any more.
    pub parted: PortRef,
}

/// Collects nodes and cables; see the [module](super).
#[derive(Clone, Debug, Default)]
pub struct FabricBuilder {
    pub(super) nodes: Vec<Node>,
}

impl FabricBuilder {
    /// An empty subnet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A builder with the nodes and cables of a fabric, to change them.
    pub fn from_fabric(fabric: &Fabric) -> Self {
        Self { nodes: fabric.nodes.clone() }
    }

    /// Adds a node. The identifier returned belongs to the builder, in order of addition;
    /// [`finish`](Self::finish) renumbers all nodes.
    ///
    /// # Errors
    /// [`FabricError::PortCount`].
    pub fn add(&mut self, node: Node) -> Result<NodeId, FabricError> {
        if node.ports.is_empty() || node.ports.len() > 255 {
            return Err(FabricError::PortCount { node: node.description, ports: node.ports.len() });
        }
        self.nodes.push(node);
        Ok(NodeId::at(self.nodes.len() - 1))
    }

    /// A node, mutable.
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Number of nodes added so far.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no node has been added.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Plugs in a cable. Stating the same cable again, from either end, is no error.
    ///
    /// # Errors
    /// [`FabricError::NoSuchPort`], [`FabricError::TwoCables`]. The builder is then unchanged.
    pub fn connect(&mut self, a: PortRef, b: PortRef) -> Result<(), FabricError> {
        for (end, other) in [(a, b), (b, a)] {
            let node = self.node(end.node);
            if end.port == PortNum::ZERO || end.port.index() >= node.ports.len() {
                return Err(FabricError::NoSuchPort {
                    node: node.description.clone(),
                    num_ports: node.num_ports(),
                    port: end.port.0,
                });
            }
            if let Some(first) = node.ports[end.port.index()].peer.filter(|&first| first != other) {
                let name = |p: PortRef| format!("'{}' port {}", self.node(p.node).description, p.port);
                return Err(FabricError::TwoCables {
                    node: node.description.clone(),
                    port: end.port.0,
                    first: name(first),
                    second: name(other),
                });
            }
        }
        self.nodes[a.node.index()].ports[a.port.index()].peer = Some(b);
        self.nodes[b.node.index()].ports[b.port.index()].peer = Some(a);
        Ok(())
    }

    /// Unplugs the cable of a port, if there is one.
    pub fn disconnect(&mut self, end: PortRef) {
        if let Some(other) = self.nodes[end.node.index()].ports[end.port.index()].peer.take() {
            self.nodes[other.node.index()].ports[other.port.index()].peer = None;
        }
    }

    /// Removes all LIDs, so that [`finish`](Self::finish) assigns new ones.
    pub fn forget_lids(&mut self) {
        for port in self.nodes.iter_mut().flat_map(|n| &mut n.ports) {
            port.lid = None;
            port.lmc = Lmc::default();
        }
    }

    /// Takes their LIDs from end ports that state one of another end port: of those that share one, the first by port GUID keeps
    /// its LIDs. Returns each LID with the port that keeps it and the one that has none now, which [`finish`](Self::finish)
    /// gives other LIDs.
    ///
    /// Cost: O(n log n) in nodes and ports.
    pub fn part_shared_lids(&mut self) -> Vec<SharedLid> {
        let (mut owner, mut shared) = (Vec::new(), Vec::new());
        for end in ends(&self.nodes) {
            let port = &mut self.nodes[end.node.index()].ports[end.port.index()];
            let Some(base) = port.lid else { continue };
            if let Some((lid, kept)) = claim(&mut owner, lids_from(base, port.lmc), end) {
                (port.lid, port.lmc) = (None, Lmc::default());
                shared.push(SharedLid { lid: lid as u16, kept, parted: end });
            }
        }
        shared
    }

    /// Checks everything, sorts by GUID, assigns LIDs to end ports that have none, and builds the
    /// channel graph. LIDs are assigned in port GUID order, each time the lowest free range, with
    /// LMC `lmc` for adapters and routers and 0 for switches. A link is used if both ends
    /// [are](LinkState::is_used). A switch whose port 0 is down forwards packets, but is not an end port
    /// and gets no LID.
    ///
    /// # Errors
    /// Any [`FabricError`] except those of [`add`](Self::add) and [`connect`](Self::connect).
    ///
    /// Cost: O(n log n) in nodes and ports.
    pub fn finish(self, lmc: Lmc) -> Result<Fabric, FabricError> {
        let mut nodes = self.sorted()?;
        let mut notes = Vec::new();
        let mut switches = Vec::new();
        let mut switch_of_node = vec![None; nodes.len()];
        for (i, node) in nodes.iter().enumerate() {
            match node.kind {
                NodeKind::Switch => {
                    switch_of_node[i] = Some(SwitchId::at(switches.len()));
                    switches.push(NodeId::at(i));
                }
                NodeKind::Router => notes.push(Note::RouterPresent { node: NodeId::at(i) }),
                NodeKind::ChannelAdapter => {}
            }
        }
        let channels = channels(&nodes, &switches, &switch_of_node, &mut notes);
        let weights = Weights::new(&nodes, &switches, &channels);
        let (endports, lid_owner) = endports(&mut nodes, &switch_of_node, lmc, &mut notes)?;

        let mut endports_first = vec![0_u32; switches.len() + 1];
        for (s, _) in endports.iter().filter_map(|e| e.attachment) {
            endports_first[s.index() + 1] += 1;
        }
        for s in 0..switches.len() {
            endports_first[s + 1] += endports_first[s];
        }
        let mut next = endports_first.clone();
        let mut endports_by_switch = vec![EndPortId(0); endports_first[switches.len()] as usize];
        for (i, e) in endports.iter().enumerate() {
            if let Some((s, _)) = e.attachment {
                endports_by_switch[next[s.index()] as usize] = EndPortId::at(i);
                next[s.index()] += 1;
            }
        }
        Ok(Fabric {
            nodes,
            switches,
            switch_of_node,
            endports,
            lid_owner,
            endports_first,
            endports_by_switch,
            weights,
            channels,
            notes,
        })
    }

    /// The nodes in GUID order, peers renumbered.
    fn sorted(self) -> Result<Vec<Node>, FabricError> {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_key(|&i| self.nodes[i].guid);
        for w in order.windows(2) {
            let (a, b) = (&self.nodes[w[0]], &self.nodes[w[1]]);
            if a.guid == b.guid {
                return Err(FabricError::DuplicateNodeGuid {
                    guid: a.guid,
                    first: a.description.clone(),
                    second: b.description.clone(),
                });
            }
        }
        let mut place = vec![NodeId(0); order.len()];
        for (new, &old) in order.iter().enumerate() {
            place[old] = NodeId::at(new);
        }
        let mut old: Vec<Option<Node>> = self.nodes.into_iter().map(Some).collect();
        let mut nodes: Vec<Node> = order.iter().filter_map(|&i| old[i].take()).collect();
        for port in nodes.iter_mut().flat_map(|n| &mut n.ports) {
            if let Some(peer) = &mut port.peer {
                peer.node = place[peer.node.index()];
            }
        }
        Ok(nodes)
    }
}

/// The other end of a port's cable if tables may use the link: both ends exist, and neither is down or held out.
pub(super) fn live_peer(nodes: &[Node], node: usize, port: usize) -> Option<PortRef> {
    let here = &nodes[node].ports[port];
    let peer = here.peer?;
    let there = &nodes[peer.node.index()].ports[peer.port.index()];
    (here.state.is_used() && there.state.is_used()).then_some(peer)
}

fn channels(
    nodes: &[Node],
    switches: &[NodeId],
    switch_of_node: &[Option<SwitchId>],
    notes: &mut Vec<Note>,
) -> Channels {
    let mut list = Vec::new();
    let mut at = HashMap::new();
    for (s, &node) in switches.iter().enumerate() {
        for port in 1..nodes[node.index()].ports.len() {
            let Some(peer) = live_peer(nodes, node.index(), port) else { continue };
            let Some(to) = switch_of_node[peer.node.index()] else { continue };
            let here = PortNum(port as u8);
            if to == SwitchId::at(s) {
                if here <= peer.port {
                    notes.push(Note::SelfLoop { node, ports: (here, peer.port) });
                }
                continue;
            }
            at.insert((SwitchId::at(s), here), ChannelId::at(list.len()));
            list.push(Channel {
                from: SwitchId::at(s),
                to,
                out_port: here,
                in_port: peer.port,
                reverse: ChannelId(0),
            });
        }
    }
    for channel in &mut list {
        channel.reverse = at[&(channel.to, channel.in_port)];
    }
    let num_ports: Vec<u8> = switches.iter().map(|&n| nodes[n.index()].num_ports()).collect();
    Channels::new(&num_ports, list)
}

/// The ports that are end ports, in the order of their GUIDs.
fn ends(nodes: &[Node]) -> Vec<PortRef> {
    let mut list = Vec::new();
    for (i, node) in nodes.iter().enumerate() {
        let is_end = |&port: &usize| match node.is_switch() {
            true => port == 0 && node.ports[0].state != LinkState::Down,
            false => port > 0 && live_peer(nodes, i, port).is_some(),
        };
        let ports = (0..node.ports.len()).filter(is_end);
        list.extend(ports.map(|port| PortRef { node: NodeId::at(i), port: PortNum(port as u8) }));
    }
    list.sort_by_key(|&end| (port_at(nodes, end).guid, end));
    list
}

fn port_at(nodes: &[Node], end: PortRef) -> &Port {
    &nodes[end.node.index()].ports[end.port.index()]
}

fn lids_from(base: Lid, lmc: Lmc) -> Range<usize> {
    base.index()..base.index() + usize::from(lmc.lids())
}

/// Notes who owns some LIDs. Where one of them has an owner, returns the first such one with that, and notes nothing.
///
/// - `owner`: by LID; it grows.
fn claim<T: Copy>(owner: &mut Vec<Option<T>>, lids: Range<usize>, new: T) -> Option<(usize, T)> {
    if owner.len() < lids.end {
        owner.resize(lids.end, None);
    }
    let taken = lids.clone().find_map(|lid| Some((lid, owner[lid]?)));
    if taken.is_none() {
        owner[lids].fill(Some(new));
    }
    taken
}

type EndPorts = (Vec<EndPort>, Vec<Option<EndPortId>>);

/// The end ports in port GUID order, and the owner of each LID. Assigns LIDs to those without one.
fn endports(
    nodes: &mut [Node],
    switch_of_node: &[Option<SwitchId>],
    lmc: Lmc,
    notes: &mut Vec<Note>,
) -> Result<EndPorts, FabricError> {
    let found = ends(nodes);
    let mut owner: Vec<Option<EndPortId>> = Vec::new();
    for (id, &end) in found.iter().enumerate() {
        let port = port_at(nodes, end);
        let Some(base) = port.lid else { continue };
        let lids = lids_from(base, port.lmc);
        if lids.end > usize::from(Lid::MAX) + 1 {
            return Err(FabricError::LidRange { guid: port.guid, lid: base.get(), lmc: port.lmc.get() });
        }
        if let Some((lid, first)) = claim(&mut owner, lids, EndPortId::at(id)) {
            let first = port_at(nodes, found[first.index()]).guid;
            return Err(FabricError::DuplicateLid { lid: lid as u16, first, second: port.guid });
        }
    }

    let mut assigned = 0;
    let mut next = [1_usize; 8];
    for (id, &end) in found.iter().enumerate() {
        let node = &mut nodes[end.node.index()];
        if node.ports[end.port.index()].lid.is_some() {
            continue;
        }
        let lmc = if node.is_switch() { Lmc::default() } else { lmc };
        let step = usize::from(lmc.lids());
        let cursor = &mut next[usize::from(lmc.get())];
        *cursor = cursor.next_multiple_of(step);
        while claim(&mut owner, *cursor..*cursor + step, EndPortId::at(id)).is_some() {
            *cursor += step;
        }
        let base = u16::try_from(*cursor).ok().and_then(Lid::new);
        *cursor += step;
        let base = base.filter(|_| *cursor <= usize::from(Lid::MAX) + 1);
        let base = base.ok_or(FabricError::LidSpace { needed: found.len(), lmc: lmc.get() })?;
        let port = &mut node.ports[end.port.index()];
        (port.lid, port.lmc) = (Some(base), lmc);
        assigned += 1;
    }
    if assigned > 0 {
        notes.push(Note::LidsAssigned { endports: assigned });
    }

    let mut list = Vec::with_capacity(found.len());
    for (id, &end) in found.iter().enumerate() {
        let port = port_at(nodes, end);
        let Some(lid) = port.lid else { continue };
        let attachment = match switch_of_node[end.node.index()] {
            Some(s) => Some((s, PortNum::ZERO)),
            None => live_peer(nodes, end.node.index(), end.port.index())
                .and_then(|peer| Some((switch_of_node[peer.node.index()]?, peer.port))),
        };
        if attachment.is_none() {
            notes.push(Note::Unattached { endport: EndPortId::at(id) });
        }
        list.push(EndPort {
            node: end.node,
            port: end.port,
            guid: port.guid,
            kind: nodes[end.node.index()].kind,
            lid,
            lmc: port.lmc,
            attachment,
        });
    }
    Ok((list, owner))
}
