//! OpenSM's view of the subnet as a [`Fabric`].

use std::collections::HashMap;

use thiserror::Error;

use super::abi;
use super::host::{self, Host};
use crate::fabric::{
    Fabric, FabricBuilder, FabricError, Guid, Lid, LinkSpeed, LinkState, Lmc, Node, NodeKind, PortNum,
    PortRef,
};

/// Why OpenSM's structures give no fabric.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum SnapshotError {
    /// They contradict themselves.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// A switch that OpenSM could not configure yet.
    #[error(
        "switch '{name}' ({guid}) has no LID, so its configuration failed; the next sweep will try again"
    )]
    SwitchWithoutLid {
        /// Its description.
        name: String,
        /// Its GUID.
        guid: Guid,
    },
    /// A switch that OpenSM gives no SL2VL tables.
    #[error(
        "switch '{name}' ({guid}) does not announce SL to VL mapping tables (IsSLMappingSupported of port 0), so \
         OpenSM would program none and credit loops through it could not be excluded"
    )]
    NoSlMapping {
        /// Its description.
        name: String,
        /// Its GUID.
        guid: Guid,
    },
}

/// What was read.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// The subnet, each port with the VLs that it can operate under `max_op_vls`.
    pub(super) fabric: Fabric,
    /// Adapter ports that were left out because OpenSM gave them no LID.
    pub(super) without_lid: Vec<Guid>,
    /// A switch without SL2VL tables, if there is one: no harm as long as one VL suffices.
    pub(super) no_sl_mapping: Option<SnapshotError>,
}

/// Reads all nodes, ports and cables.
///
/// - Links that are down or that OpenSM holds for unhealthy are in the fabric as down.
/// - Adapter ports without a LID are left out, as OpenSM's own engines do.
///
/// # Errors
/// [`SnapshotError`].
///
/// Cost: O(ports) time and memory, and O(n log n) to sort n nodes; some 100 bytes a port.
pub(super) fn snapshot(host: &Host) -> Result<Snapshot, SnapshotError> {
    let mut builder = FabricBuilder::new();
    let mut ids = HashMap::new();
    let mut without_lid = Vec::new();
    let mut no_sl_mapping = None;
    for node in host.nodes() {
        let Some(read) = read_node(node, host.max_op_vls()) else { continue };
        let guid = read.guid;
        if read.is_switch() {
            let name = read.description.clone();
            if read.ports[0].lid.is_none() {
                return Err(SnapshotError::SwitchWithoutLid { name, guid });
            }
            if !host::physp(node, 0).is_some_and(maps_sls) && no_sl_mapping.is_none() {
                no_sl_mapping = Some(SnapshotError::NoSlMapping { name, guid });
            }
        }
        ids.insert(guid, builder.add(read)?);
    }
    for node in host.nodes() {
        let Some(&here) = ids.get(&host::node_guid(node)) else { continue };
        for port in 1..node.physp_tbl_size as usize {
            let Some(remote) = host::physp(node, port).and_then(host::remote) else { continue };
            let Some(&there) = host::node_of(remote).and_then(|n| ids.get(&host::node_guid(n))) else {
                continue;
            };
            let here = PortRef { node: here, port: PortNum(port as u8) };
            let there = PortRef { node: there, port: PortNum(remote.port_num) };
            if let Some(guid) = [here, there].into_iter().find_map(|end| adapter_without_lid(&builder, end)) {
                without_lid.push(guid);
                continue;
            }
            builder.connect(here, there)?;
        }
    }
    without_lid.sort_unstable();
    without_lid.dedup();
    Ok(Snapshot { fabric: builder.finish(Lmc::default())?, without_lid, no_sl_mapping })
}

fn adapter_without_lid(builder: &FabricBuilder, end: PortRef) -> Option<Guid> {
    let node = builder.node(end.node);
    let port = node.ports.get(end.port.index())?;
    (!node.is_switch() && port.lid.is_none()).then_some(port.guid)
}

/// One node without its cables; `None` for a switch that OpenSM does not route (it never answered
/// for its SwitchInfo) and for kinds of node that InfiniBand does not have.
fn read_node(node: &abi::osm_node_t, max_op_vls: u8) -> Option<Node> {
    let kind = match u32::from(node.node_info.node_type) {
        abi::IB_NODE_TYPE_SWITCH => NodeKind::Switch,
        abi::IB_NODE_TYPE_CA => NodeKind::ChannelAdapter,
        abi::IB_NODE_TYPE_ROUTER => NodeKind::Router,
        _ => return None,
    };
    // SAFETY: NULL or the switch that OpenSM keeps beside the node.
    let switch = unsafe { node.sw.as_ref() };
    if kind == NodeKind::Switch && switch.is_none() {
        return None;
    }
    let num_ports = node.physp_tbl_size.saturating_sub(1).min(254) as u8;
    let description = host::c_string(node.print_desc).unwrap_or_default();
    let mut read = Node::new(kind, host::node_guid(node), num_ports, &description);
    read.system_guid = Guid(u64::from_be(node.node_info.sys_guid));
    read.device_id = u32::from(u16::from_be(node.node_info.device_id));
    read.revision = u32::from_be(node.node_info.revision);
    // SAFETY: only reads the node's own NodeInfo.
    read.vendor_id = u32::from_be(unsafe { abi::ib_node_info_get_vendor_id(&node.node_info) });
    // SAFETY: only reads the switch's own SwitchInfo.
    read.enhanced_port0 =
        switch.is_some_and(|s| unsafe { abi::ib_switch_info_is_enhanced_port0(&s.switch_info) } != 0);
    for number in 0..=usize::from(num_ports) {
        let Some(physp) = host::physp(node, number) else { continue };
        let port = &mut read.ports[number];
        let info = &physp.port_info;
        port.guid = Guid(u64::from_be(physp.port_guid));
        if kind != NodeKind::Switch || number == 0 {
            port.lid = Lid::new(u16::from_be(info.base_lid));
            // SAFETY: only reads the port's own PortInfo.
            port.lmc = Lmc::new(unsafe { abi::ib_port_info_get_lmc(info) }).unwrap_or_default();
        }
        // SAFETY: only reads the port's own PortInfo.
        let state = u32::from(unsafe { abi::ib_port_info_get_port_state(info) });
        port.state = match state {
            _ if number > 0 && physp.healthy != abi::TRUE => LinkState::Down,
            abi::IB_LINK_DOWN if number > 0 => LinkState::Down,
            abi::IB_LINK_INIT => LinkState::Initialize,
            abi::IB_LINK_ARMED => LinkState::Armed,
            _ => LinkState::Active,
        };
        port.width = width(info.link_width_active);
        port.speed = speed(physp);
        // SAFETY: only reads the port's own PortInfo.
        let vl_cap = unsafe { abi::ib_port_info_get_vl_cap(info) };
        port.data_vls = Some(data_vls(vl_cap.min(max_op_vls)));
    }
    Some(read)
}

/// Data VLs of PortInfo's VLCap and OperationalVLs code. Code 0 is taken for 1, as OpenSM does.
pub(super) fn data_vls(code: u8) -> u8 {
    match code {
        0 | 1 => 1,
        2 => 2,
        3 => 4,
        4 => 8,
        _ => 15,
    }
}

/// Data VLs that OpenSM has both ends of a port's cable operate in the end.
pub(super) fn link_vls(host: &Host, physp: &abi::osm_physp_t) -> u8 {
    // SAFETY: only reads the port's own PortInfo.
    let cap = |port: &abi::osm_physp_t| unsafe { abi::ib_port_info_get_vl_cap(&port.port_info) };
    let here = cap(physp).min(host.max_op_vls());
    data_vls(host::remote(physp).map_or(here, |remote| here.min(cap(remote))))
}

/// Whether a port has SL to VL mapping tables; for a switch port 0 says so.
pub(super) fn maps_sls(physp: &abi::osm_physp_t) -> bool {
    /// IsSLMappingSupported in the capability mask of PortInfo, host order.
    const SL_MAPPING_SUPPORTED: u32 = 1 << 6;
    u32::from_be(physp.port_info.capability_mask) & SL_MAPPING_SUPPORTED != 0
}

/// Lanes of PortInfo's LinkWidthActive.
fn width(code: u8) -> Option<u8> {
    match u32::from(code) {
        abi::IB_LINK_WIDTH_ACTIVE_1X => Some(1),
        abi::IB_LINK_WIDTH_ACTIVE_2X => Some(2),
        abi::IB_LINK_WIDTH_ACTIVE_4X => Some(4),
        abi::IB_LINK_WIDTH_ACTIVE_8X => Some(8),
        abi::IB_LINK_WIDTH_ACTIVE_12X => Some(12),
        _ => None,
    }
}

fn speed(physp: &abi::osm_physp_t) -> Option<LinkSpeed> {
    // SAFETY: only reads the port's own PortInfo.
    let extended = unsafe { abi::ib_port_info_get_link_speed_ext_active(&physp.port_info) };
    match u32::from(extended) {
        abi::IB_LINK_SPEED_EXT_ACTIVE_14 => return Some(LinkSpeed::Fdr),
        abi::IB_LINK_SPEED_EXT_ACTIVE_25 => return Some(LinkSpeed::Edr),
        abi::IB_LINK_SPEED_EXT_ACTIVE_50 => return Some(LinkSpeed::Hdr),
        _ => {}
    }
    if u32::from(physp.ext_port_info.link_speed_active) & abi::FDR10 != 0 {
        return Some(LinkSpeed::Fdr10);
    }
    // SAFETY: only reads the port's own PortInfo.
    let speed = unsafe { abi::ib_port_info_get_link_speed_active(&physp.port_info) };
    match u32::from(speed) {
        abi::IB_LINK_SPEED_ACTIVE_2_5 => Some(LinkSpeed::Sdr),
        abi::IB_LINK_SPEED_ACTIVE_5 => Some(LinkSpeed::Ddr),
        abi::IB_LINK_SPEED_ACTIVE_10 => Some(LinkSpeed::Qdr),
        _ => None,
    }
}
