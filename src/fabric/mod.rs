//! The subnet as the rest of the crate sees it: nodes, ports, cables and LIDs, and on top a dense
//! graph of switches and channels. It knows nothing of OpenSM or of file formats.
//!
//! A [`FabricBuilder`] takes nodes and cables in any order; [`FabricBuilder::finish`] checks them
//! and sorts everything by GUID. Two sources that describe the same subnet therefore give the same
//! `Fabric`, identifiers included.

mod builder;
mod channels;
mod duty;
mod hold;
mod ids;
mod node;
mod rates;
mod sift;
mod turns;

use std::borrow::Cow;
use std::fmt;

pub use builder::{FabricBuilder, FabricError, SharedLid};
pub use channels::{Channel, Channels};
pub use duty::{Duty, Role};
pub use hold::{HeldOut, Hold, HoldNote, Measure, Nodes, hold_out, named_links, without_effect};
pub use ids::{ChannelId, EndPortId, Guid, Lid, Lmc, NodeId, PortNum, Sl, SwitchId, Vl, bits};
pub use node::{LinkSpeed, LinkState, Node, NodeKind, Port, PortRef};
pub(crate) use rates::common_divisor;
pub use rates::{Weights, most_common};
pub use sift::{Sifted, Survey, sift};
pub use turns::TurnNumbers;

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
    /// The switch that it is attached to and the port of that switch; for a switch, itself and port
    /// 0. `None` for an adapter that is cabled to another adapter.
    pub attachment: Option<(SwitchId, PortNum)>,
}

impl EndPort {
    /// All its LIDs in ascending order: base LID to base LID + 2^LMC - 1.
    pub fn lids(&self) -> impl Iterator<Item = Lid> + use<> {
        let base = self.lid.get();
        (base..base + self.lmc.lids()).filter_map(Lid::new)
    }

    /// Whether it is an adapter or router port: a source or destination of host traffic.
    pub fn is_adapter(&self) -> bool {
        self.kind != NodeKind::Switch
    }
}

/// A remark about the subnet that is no error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A cable from a switch to itself. It carries nothing and is left out.
    SelfLoop {
        /// The switch.
        node: NodeId,
        /// The two ports.
        ports: (PortNum, PortNum),
    },
    /// The source stated no LIDs for some end ports; they were assigned in port GUID order.
    LidsAssigned {
        /// Number of such end ports.
        endports: usize,
    },
    /// An adapter that is not cabled to a switch. It is not routed.
    Unattached {
        /// The adapter's end port.
        endport: EndPortId,
    },
    /// A router: it forwards between its ports, and no check here covers credit loops through it.
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
    weights: Weights,
    notes: Vec<Note>,
}

impl Fabric {
    /// Whether switches, end ports, their LIDs and all cables are the same, with the same VLs.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let switch = |f: &Self, s: SwitchId| {
            let node = f.switch(s);
            (node.guid, node.ports.iter().map(|port| (port.data_vls, port.untrusted)).collect::<Vec<_>>())
        };
        self.num_switches() == other.num_switches()
            && self.endports == other.endports
            && self.channels.as_slice() == other.channels.as_slice()
            && self.switch_ids().all(|s| switch(self, s) == switch(other, s))
    }

    /// The same fabric with new LIDs for all end ports: 2^`lmc` for each adapter and router, one for each switch.
    ///
    /// # Errors
    /// [`FabricError::LidSpace`].
    ///
    /// Cost: that of [`FabricBuilder::finish`].
    pub fn with_lmc(&self, lmc: Lmc) -> Result<Self, FabricError> {
        let mut builder = FabricBuilder::from_fabric(self);
        builder.forget_lids();
        let mut fabric = builder.finish(lmc)?;
        // That is what was asked for.
        fabric.notes.retain(|note| !matches!(note, Note::LidsAssigned { .. }));
        Ok(fabric)
    }

    /// The fabric as it is cabled: links that are [held](LinkState::Held) out are channels, too.
    ///
    /// Cost: O(ports); that of [`FabricBuilder::finish`] where some are.
    ///
    /// # Panics
    /// Never: no LID changes.
    pub fn with_held_links(&self) -> Cow<'_, Self> {
        let is_held = |port: &Port| port.state == LinkState::Held;
        if !self.nodes.iter().flat_map(|node| &node.ports).any(is_held) {
            return Cow::Borrowed(self);
        }
        let mut builder = FabricBuilder::from_fabric(self);
        for port in builder.nodes.iter_mut().flat_map(|node| &mut node.ports).filter(|port| is_held(port)) {
            port.state = LinkState::Active;
        }
        Cow::Owned(builder.finish(Lmc::default()).expect("a fabric with more links is a fabric"))
    }

    /// All nodes, in GUID order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Number of switches.
    #[inline]
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

    /// The switch index of a node; `None` if it is not a switch.
    pub fn switch_of(&self, node: NodeId) -> Option<SwitchId> {
        self.switch_of_node[node.index()]
    }

    /// All end ports in port GUID order: port 0 of switches, and ports of adapters and routers
    /// whose link is up. Port 0 of a switch without a LID is not among them.
    pub fn endports(&self) -> &[EndPort] {
        &self.endports
    }

    /// One end port.
    #[inline]
    pub fn endport(&self, id: EndPortId) -> &EndPort {
        &self.endports[id.index()]
    }

    /// End ports of adapters and routers that are attached to a switch, with their identifiers.
    pub fn adapters(&self) -> impl Iterator<Item = (EndPortId, &EndPort)> {
        self.endports
            .iter()
            .enumerate()
            .filter(|(_, e)| e.is_adapter() && e.attachment.is_some())
            .map(|(i, e)| (EndPortId::at(i), e))
    }

    /// The end ports on a switch: its own port 0, if it has a LID, and its adapters, in port GUID
    /// order.
    pub fn endports_on(&self, switch: SwitchId) -> &[EndPortId] {
        let s = switch.index();
        &self.endports_by_switch[self.endports_first[s] as usize..self.endports_first[s + 1] as usize]
    }

    /// Number of adapter and router end ports on a switch.
    pub fn num_adapters_on(&self, switch: SwitchId) -> usize {
        self.endports_on(switch).iter().filter(|&&e| self.endport(e).is_adapter()).count()
    }

    /// The end port that owns a LID.
    pub fn owner_of(&self, lid: Lid) -> Option<EndPortId> {
        self.lid_owner.get(lid.index()).copied().flatten()
    }

    /// One more than the largest LID in use: the length of a table indexed by LID.
    pub fn lid_table_len(&self) -> usize {
        self.lid_owner.len()
    }

    /// The switch-to-switch channels.
    #[inline]
    pub fn channels(&self) -> &Channels {
        &self.channels
    }

    /// Number of cables that are up, between switches and from switches to end ports.
    pub fn num_links(&self) -> usize {
        self.channels.len() / 2 + self.adapters().count()
    }

    /// The smallest number of data VLs at any end of a switch-to-switch link; `None` if no such
    /// link states it.
    pub fn min_data_vls(&self) -> Option<u8> {
        let ports = self.channels.iter().map(|(_, c)| &self.switch(c.from).ports[c.out_port.index()]);
        ports.filter_map(|p| p.data_vls).min()
    }

    /// What was left out or assigned when the fabric was built.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// What a verdict on the fabric does not cover, or takes for granted: one sentence for each kind of note that says so.
    pub fn limits_of_verdicts(&self) -> Vec<String> {
        let of_kind = |is: fn(&Note) -> bool, rest: &str| {
            let mut notes = self.notes.iter().filter(|note| is(note));
            let first = self.explain(notes.next()?);
            Some(match notes.count() {
                0 => first,
                more => format!("{first}; so {} {more} {rest}", if more == 1 { "is" } else { "are" }),
            })
        };
        let kinds = [
            of_kind(|note| matches!(note, Note::Unattached { .. }), "more adapter ports"),
            of_kind(|note| matches!(note, Note::RouterPresent { .. }), "more routers"),
            of_kind(|note| matches!(note, Note::LidsAssigned { .. }), ""),
        ];
        kinds.into_iter().flatten().collect()
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

    /// A note as text.
    pub fn explain(&self, note: &Note) -> String {
        match note {
            Note::SelfLoop { node, ports: (a, b) } => {
                format!("cable from {} port {a} back to its own port {b} left out", self.describe(*node))
            }
            Note::LidsAssigned { endports } => {
                format!("{endports} end ports had no LID; LIDs were assigned in GUID order")
            }
            Note::Unattached { endport } => {
                let e = self.endport(*endport);
                format!("{} port {} is not cabled to a switch and left out", self.describe(e.node), e.port)
            }
            Note::RouterPresent { node } => format!(
                "{} is a router: credit loops through it and another subnet are not covered",
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
