//! A packet between two end ports, and how it is told.

use serde_json::{Value, json};

use crate::fabric::{EndPortId, Fabric, Lid, NodeId, Sl};

/// A pair, and the SL that its packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The end port that sends.
    pub source: EndPortId,
    /// The LID it sends to.
    pub dlid: Lid,
    /// The SL in use.
    pub sl: Sl,
}

impl Packet {
    /// The packet in words.
    pub fn describe(&self, fabric: &Fabric) -> String {
        let source = fabric.endport(self.source);
        let owner = fabric.owner_of(self.dlid).map(|e| fabric.describe(fabric.endport(e).node));
        format!(
            "a packet from {} port {} to {} LID {} with SL {}",
            fabric.describe(source.node),
            source.port,
            owner.unwrap_or_default(),
            self.dlid,
            self.sl.0
        )
    }

    /// The packet for machines.
    pub(super) fn to_json(self, fabric: &Fabric) -> Value {
        let source = fabric.endport(self.source);
        let owner = fabric.owner_of(self.dlid).map(|e| node(fabric, fabric.endport(e).node));
        json!({
            "source": node(fabric, source.node), "source_port": source.port.0,
            "source_lid": source.lid.get(), "destination": owner, "dlid": self.dlid.get(),
            "sl": self.sl.0,
        })
    }
}

/// A node for machines.
pub(super) fn node(fabric: &Fabric, id: NodeId) -> Value {
    let n = fabric.node(id);
    json!({ "name": n.description, "guid": n.guid.to_string() })
}
