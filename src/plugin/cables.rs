//! Whether cables lead where they led when the fabric was routed.

use super::abi;
use super::host;
use crate::fabric::{Fabric, Guid, PortNum, SwitchId};

/// Whether the cable at a switch port that led to another switch still leads to the same port
/// there.
pub(super) fn lead_on(fabric: &Fabric, node: &abi::osm_node_t, s: SwitchId, port: PortNum) -> bool {
    let Some(channel) = fabric.channels().at_port(s, port) else { return false };
    let c = fabric.channels().get(channel);
    peer(node, port).is_some_and(|(guid, number)| number == c.in_port.0 && guid == fabric.switch(c.to).guid)
}

/// Node and port at the other end of a port's cable.
pub(super) fn peer(node: &abi::osm_node_t, port: PortNum) -> Option<(Guid, u8)> {
    let remote = host::physp(node, port.index()).and_then(host::remote)?;
    Some((host::node_of(remote).map(host::node_guid)?, remote.port_num))
}
