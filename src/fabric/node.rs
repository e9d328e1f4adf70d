//! Nodes, their ports and the cables between them, as discovered.

use serde::{Deserialize, Serialize};

use super::duty::Duty;
use super::ids::{Guid, Lid, Lmc, NodeId, PortNum};

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NodeKind {
    /// Forwards between its ports and has a management port 0.
    Switch,
    /// A channel adapter: host, storage or aggregation node.
    ChannelAdapter,
    /// Connects subnets; within this one each of its ports is an end port.
    Router,
}

/// Logical state of a port's link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LinkState {
    /// No link. Not used for routing.
    Down,
    /// Up, but held out: tables are not to use it. Those in force may still do so. See
    /// [`Fabric::with_held_links`](super::Fabric::with_held_links).
    Held,
    /// Physically up, not yet configured.
    Initialize,
    /// Configured, waiting for activation.
    Armed,
    /// Carries data. Assumed where a file does not state the state.
    #[default]
    Active,
}

impl LinkState {
    /// Whether tables may use the link.
    pub fn is_used(self) -> bool {
        !matches!(self, Self::Down | Self::Held)
    }
}

/// Signalling generation of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LinkSpeed {
    /// 2.5 Gb/s per lane.
    Sdr,
    /// 5 Gb/s per lane.
    Ddr,
    /// 10 Gb/s per lane, 8b/10b encoding.
    Qdr,
    /// 10.3 Gb/s per lane, 64b/66b encoding.
    Fdr10,
    /// 14 Gb/s per lane.
    Fdr,
    /// 25 Gb/s per lane.
    Edr,
    /// 50 Gb/s per lane.
    Hdr,
    /// 100 Gb/s per lane.
    Ndr,
    /// 200 Gb/s per lane.
    Xdr,
}

/// One end of a cable: a port of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PortRef {
    /// The node.
    pub node: NodeId,
    /// Its port.
    pub port: PortNum,
}

/// A port. Fields that the source does not state are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// The port's GUID; the external ports of a switch share that of its port 0.
    pub guid: Guid,
    /// Base LID. Only end ports have one: adapter ports, router ports, switch port 0.
    pub lid: Option<Lid>,
    /// LID mask control of an end port.
    pub lmc: Lmc,
    /// The other end of the cable.
    pub peer: Option<PortRef>,
    /// State of the link.
    pub state: LinkState,
    /// Active width in lanes: 4 for `4x`.
    pub width: Option<u8>,
    /// Active speed per lane.
    pub speed: Option<LinkSpeed>,
    /// Number of data VLs that the port supports (from VLCap: 1, 2, 4, 8 or 15).
    pub data_vls: Option<u8>,
    /// Whether the cable leads to a node that was left out and may send packets of any SL to any
    /// LID, as a switch does that nobody programs. See [`sift`](super::sift).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// What an adapter port is for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub duty: Duty,
}

fn is_default(duty: &Duty) -> bool {
    *duty == Duty::default()
}

/// A node of the fabric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Node GUID.
    pub guid: Guid,
    /// False if the source states no GUID and `guid` was generated; such nodes match by
    /// description.
    pub guid_stated: bool,
    /// System image GUID: shared by the nodes of one chassis.
    pub system_guid: Guid,
    /// What it is.
    pub kind: NodeKind,
    /// Node description, e.g. `leaf-03` or `host17 mlx5_0`.
    pub description: String,
    /// Vendor identifier (24 bits).
    pub vendor_id: u32,
    /// Device identifier.
    pub device_id: u32,
    /// Hardware revision.
    pub revision: u32,
    /// Whether a switch has an enhanced port 0 (with its own SL2VL row and VL arbitration).
    pub enhanced_port0: bool,
    /// Indexed by port number, `0..=number of physical ports`. Entry 0 of an adapter is unused.
    pub ports: Vec<Port>,
}

impl Node {
    /// A node with `num_ports` unconnected ports, each active once it has a cable. Port GUIDs: the
    /// node's own for a switch, otherwise the node's plus the port number.
    pub fn new(kind: NodeKind, guid: Guid, num_ports: u8, description: &str) -> Self {
        let port = |n: u8| Port {
            guid: match kind {
                NodeKind::Switch => guid,
                _ => Guid(guid.0.wrapping_add(u64::from(n))),
            },
            ..Port::default()
        };
        Self {
            guid,
            guid_stated: true,
            system_guid: guid,
            kind,
            description: description.to_owned(),
            vendor_id: 0,
            device_id: 0,
            revision: 0,
            enhanced_port0: false,
            ports: (0..=num_ports).map(port).collect(),
        }
    }

    /// Number of physical ports, without port 0.
    pub fn num_ports(&self) -> u8 {
        u8::try_from(self.ports.len() - 1).expect("at most 254 ports: checked when the fabric is built")
    }

    /// Whether it is a switch.
    pub fn is_switch(&self) -> bool {
        self.kind == NodeKind::Switch
    }
}
