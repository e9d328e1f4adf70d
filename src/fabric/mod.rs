//! The subnet as the rest of the crate sees it: nodes, ports, cables, LIDs, and over them a dense
//! graph of switches and channels. Nothing of OpenSM and nothing of any file format is in here.
//!
//! A [`FabricBuilder`] takes nodes and cables in any order; [`FabricBuilder::finish`] checks them
//! and sorts everything by GUID, so that two sources that describe the same subnet give the same
//! `Fabric`, identifiers included.

mod builder;
mod channels;
mod ids;
mod node;
mod sift;

use std::fmt;

pub use builder::{FabricBuilder, FabricError};
pub use channels::{Channel, Channels};
pub use ids::{ChannelId, EndPortId, Guid, Lid, Lmc, NodeId, PortNum, Sl, SwitchId, Vl};
pub use node::{LinkSpeed, LinkState, Node, NodeKind, Port, PortRef};
pub use sift::{Sifted, Survey, sift};

/// A port that has LIDs: an adapter port, a router port or a switch's port 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndPort {
    /// Its node.
    pub node: NodeId,
    /// Its number on the node.
    pub port: PortNum,
    /// Port GUID.
    pub guid: Guid,
    /// Kind of the node.
    pub kind: NodeKind,
    /// Base LID.
    pub lid: Lid,
    /// LID mask control.
    pub lmc: Lmc,
    /// The switch it hangs off and the switch's port that leads to it; port 0 of itself for a
    /// switch. `None` for an adapter that is cabled to another adapter.
    pub attachment: Option<(SwitchId, PortNum)>,
}

impl EndPort {
    /// All its LIDs in ascending order: base LID to base LID + 2^LMC - 1.
    pub fn lids(&self) -> impl Iterator<Item = Lid> + use<> {
        let base = self.lid.get();
        (base..base + self.lmc.lids()).filter_map(Lid::new)
    }

    /// Whether it is an adapter or router port: an end of the traffic that counts.
    pub fn is_adapter(&self) -> bool {
        self.kind != NodeKind::Switch
    }
}

/// Something about the subnet that a careful reader wants to know and that is no error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A cable that leads from a switch back to itself carries nothing and was left out.
    SelfLoop {
        /// The switch.
        node: NodeId,
        /// The two ports.
        ports: (PortNum, PortNum),
    },
    /// The source named no LIDs for this many end ports; they were assigned in port GUID order.
    LidsAssigned {
        /// How many end ports.
        endports: usize,
    },
    /// An adapter that is cabled to no switch. It has no part in routing.
    Unattached {
        /// The adapter's end port.
        endport: EndPortId,
    },
    /// A router forwards between its ports, so credit loops through it are beyond any proof here.
    RouterPresent {
        /// The router.
        node: NodeId,
    },
}

/// A subnet. Immutable; see the [module](self).
#[derive(Clone, Debug)]
pub struct Fabric {
    nodes: Vec<Node>,
    switches: Vec<NodeId>,
    switch_of_node: Vec<Option<SwitchId>>,
    endports: Vec<EndPort>,
    lid_owner: Vec<Option<EndPortId>>,
    endports_first: Vec<u32>,
    endports_by_switch: Vec<EndPortId>,
    channels: Channels,
    notes: Vec<Note>,
}

impl Fabric {
    /// All nodes, in GUID order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Number of switches.
    pub fn num_switches(&self) -> usize {
        self.switches.len()
    }

    /// All switches in GUID order.
    pub fn switch_ids(&self) -> impl ExactSizeIterator<Item = SwitchId> + use<> {
        (0..self.switches.len()).map(SwitchId::at)
    }

    /// The node of a switch.
    pub fn switch_node_id(&self, switch: SwitchId) -> NodeId {
        self.switches[switch.index()]
    }

    /// The node of a switch.
    pub fn switch(&self, switch: SwitchId) -> &Node {
        self.node(self.switch_node_id(switch))
    }

    /// The switch that a node is, if it is one.
    pub fn switch_of(&self, node: NodeId) -> Option<SwitchId> {
        self.switch_of_node[node.index()]
    }

    /// All end ports, in port GUID order: those of switches, adapters and routers whose link is up. The port 0
    /// of a switch counts as up, except where a subnet manager found no LID for it.
    pub fn endports(&self) -> &[EndPort] {
        &self.endports
    }

    /// One end port.
    pub fn endport(&self, id: EndPortId) -> &EndPort {
        &self.endports[id.index()]
    }

    /// End ports of adapters and routers that hang off a switch, with their identifiers.
    pub fn adapters(&self) -> impl Iterator<Item = (EndPortId, &EndPort)> {
        self.endports
            .iter()
            .enumerate()
            .filter(|(_, e)| e.is_adapter() && e.attachment.is_some())
            .map(|(i, e)| (EndPortId::at(i), e))
    }

    /// The end ports on a switch: its own port 0, if it has a LID, and the adapters on it, in port GUID order.
    pub fn endports_on(&self, switch: SwitchId) -> &[EndPortId] {
        let s = switch.index();
        &self.endports_by_switch[self.endports_first[s] as usize..self.endports_first[s + 1] as usize]
    }

    /// Number of adapter and router end ports on a switch.
    pub fn num_adapters_on(&self, switch: SwitchId) -> usize {
        self.endports_on(switch).iter().filter(|&&e| self.endport(e).is_adapter()).count()
    }

    /// The end port that answers to a LID.
    pub fn owner_of(&self, lid: Lid) -> Option<EndPortId> {
        self.lid_owner.get(lid.index()).copied().flatten()
    }

    /// One more than the largest LID in use: the length of a table that is indexed by LID.
    pub fn lid_table_len(&self) -> usize {
        self.lid_owner.len()
    }

    /// The switch-to-switch channels.
    pub fn channels(&self) -> &Channels {
        &self.channels
    }

    /// Number of cables that are up: between switches and between switches and end ports.
    pub fn num_links(&self) -> usize {
        self.channels.len() / 2 + self.adapters().count()
    }

    /// The fewest data VLs that any end of a switch-to-switch link can operate; `None` where no
    /// such link states them.
    pub fn min_data_vls(&self) -> Option<u8> {
        let ports = self.channels.iter().map(|(_, c)| &self.switch(c.from).ports[c.out_port.index()]);
        ports.filter_map(|p| p.data_vls).min()
    }

    /// What was left out or made up when the fabric was built.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// `description (GUID)` of a node, for messages.
    pub fn describe(&self, node: NodeId) -> String {
        let n = self.node(node);
        format!("'{}' ({})", n.description, n.guid)
    }

    /// `description (GUID)` of a switch, for messages.
    pub fn describe_switch(&self, switch: SwitchId) -> String {
        self.describe(self.switch_node_id(switch))
    }

    /// `'leaf' (GUID) port 3 -> 'spine' (GUID) port 7` of a channel, for messages.
    pub fn describe_channel(&self, channel: ChannelId) -> String {
        let c = self.channels.get(channel);
        format!(
            "{} port {} -> {} port {}",
            self.describe_switch(c.from),
            c.out_port,
            self.describe_switch(c.to),
            c.in_port
        )
    }

    /// A note in words.
    pub fn explain(&self, note: &Note) -> String {
        match note {
            Note::SelfLoop { node, ports: (a, b) } => {
                format!("cable from {} port {a} back to its own port {b} left out", self.describe(*node))
            }
            Note::LidsAssigned { endports } => {
                format!("{endports} end ports had no LID and were given one in GUID order")
            }
            Note::Unattached { endport } => {
                let e = self.endport(*endport);
                format!("{} port {} is cabled to no switch and left out", self.describe(e.node), e.port)
            }
            Note::RouterPresent { node } => format!(
                "{} is a router: credit loops that lead through it and another subnet are not covered",
                self.describe(*node)
            ),
        }
    }
}

/// `12 switches, 48 adapters, 72 links`.
impl fmt::Display for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} switches, {} adapters, {} links",
            self.num_switches(),
            self.adapters().count(),
            self.num_links()
        )
    }
}
