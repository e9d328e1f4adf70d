//! What an adapter is for: which pairs of adapters are balanced, and how much each counts.

use serde::{Deserialize, Serialize};

use super::ids::EndPortId;
use super::{EndPort, Fabric};

/// What an adapter is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Exchanges data with other compute nodes and with storage.
    #[default]
    Compute,
    /// Exchanges data with compute nodes.
    Storage,
    /// Logins, monitoring, aggregation: exchanges too little to be balanced.
    Service,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Compute, Self::Storage, Self::Service];

    /// Whether adapters of these roles exchange data that is balanced.
    pub fn talks_to(self, other: Self) -> bool {
        match (self, other) {
            (Self::Service, _) | (_, Self::Service) | (Self::Storage, Self::Storage) => false,
            (Self::Compute, _) | (Self::Storage, Self::Compute) => true,
        }
    }
}

/// The role of an adapter port, and how much it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duty {
    /// What it is for.
    pub role: Role,
    /// How often a route from it counts, at most [`Duty::MOST`].
    pub source: u8,
    /// How often a route to it counts, at most [`Duty::MOST`].
    pub destination: u8,
}

impl Duty {
    /// The largest weight: sums of routes stay far below 2^48.
    pub const MOST: u8 = 8;
}

/// A compute node that counts once.
impl Default for Duty {
    fn default() -> Self {
        Self { role: Role::Compute, source: 1, destination: 1 }
    }
}

impl Fabric {
    /// The duty of an end port.
    pub fn duty(&self, end: &EndPort) -> Duty {
        self.node(end.node).ports[end.port.index()].duty
    }

    /// Gives an end port another duty.
    pub fn set_duty(&mut self, end: EndPortId, duty: Duty) {
        let EndPort { node, port, .. } = *self.endport(end);
        self.nodes[node.index()].ports[port.index()].duty = duty;
    }

    /// Whether some adapter is no compute node that counts once.
    pub fn has_duties(&self) -> bool {
        self.adapters().any(|(_, end)| self.duty(end) != Duty::default())
    }
}
