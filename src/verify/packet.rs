//! A packet between two end ports, as text and as JSON.

use serde_json::{Value, json};

use crate::fabric::{ChannelId, EndPortId, Fabric, Lid, NodeId, Sl, Vl};

/// A pair, and the SL of its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The sending end port.
    pub source: EndPortId,
    /// The destination LID.
    pub dlid: Lid,
    /// The SL in use.
    pub sl: Sl,
}

impl Packet {
    /// The packet as text.
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

    /// The packet as JSON.
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

/// A credit loop as text: its virtual channels, each with the packet because of which it waits for the
/// next one, the last one for the first.
pub(super) fn credit_loop(fabric: &Fabric, waits: &[(ChannelId, Vl, String)]) -> String {
    let mut text = format!("{} virtual channels wait for each other in a credit loop:", waits.len());
    for (i, (channel, vl, cause)) in waits.iter().enumerate() {
        let (next, next_vl, _) = &waits[(i + 1) % waits.len()];
        text += &format!(
            "\n  {} VL {}\n    waits for {} VL {} because of {cause}",
            fabric.describe_channel(*channel),
            vl.0,
            fabric.describe_channel(*next),
            next_vl.0,
        );
    }
    text
}

/// A node as JSON.
pub(super) fn node(fabric: &Fabric, id: NodeId) -> Value {
    let n = fabric.node(id);
    json!({ "name": n.description, "guid": n.guid.to_string() })
}
