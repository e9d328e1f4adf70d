//! OpenSM's view of the subnet as a [`Fabric`](crate::fabric::Fabric).

use std::collections::HashMap;

use thiserror::Error;

use super::abi;
use super::fault::{Fault, Faults};
use super::host::{self, Host};
use crate::fabric::{
    FabricError, Guid, Lid, LinkSpeed, LinkState, Lmc, Node, NodeKind, PortNum, PortRef, Sifted, Survey, sift,
};

/// Why OpenSM's structures do not give a fabric.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum SnapshotError {
    /// They contradict themselves.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// Every switch was left out.
    #[error("no switch is left to be routed: {0}")]
    NoSwitch(String),
}

/// The base LIDs that end ports report, by port GUID in network order.
pub(super) type Discovered = HashMap<u64, u16>;

/// Reads the LIDs of all end ports, under OpenSM's lock.
///
/// OpenSM takes the LID away from a port in its table if another port claims it; after that it is
/// unknown who claimed what. So call this when all ports were discovered and no LID has been
/// processed yet.
pub(super) fn discovered(host: &Host) -> Discovered {
    let lid = |port: &abi::osm_port_t| {
        // SAFETY: NULL or the port's physical port, which lives as long.
        let physp = unsafe { port.p_physp.as_ref() }?;
        Some((port.guid, u16::from_be(physp.port_info.base_lid)))
    };
    host.ports().filter_map(lid).collect()
}

/// Reads all nodes, ports and cables, each port with the VLs that it can operate under
/// `max_op_vls`, and leaves out what cannot be routed; see [`sift`].
///
/// - Links that are down or that OpenSM considers unhealthy are down in the fabric.
/// - Ports of switches that are up and whose other end OpenSM does not know are untrusted.
/// - `discovered`: the result of [`discovered`] in this sweep, before OpenSM took LIDs away.
/// - `faults`: known faults of switches and links. The subnet manager's own switch stays.
///
/// # Errors
/// [`SnapshotError`].
///
/// Cost: O(ports) time and memory, and O(n log n) to sort n nodes; some 100 bytes per port.
pub(super) fn snapshot(
    host: &Host,
    faults: &Faults,
    discovered: &Discovered,
) -> Result<Sifted, SnapshotError> {
    let mut survey = Survey::default();
    let mut ids = HashMap::new();
    let max_op_vls = host.max_op_vls();
    for node in host.nodes() {
        let Some(read) = read_node(node, max_op_vls) else { continue };
        let (guid, switch) = (read.guid, read.is_switch());
        let id = survey.builder.add(read)?;
        ids.insert(guid, id);
        if !switch {
            continue;
        }
        if node.sw.is_null() {
            survey.bad.insert(id, "it did not answer SwitchInfo".to_owned());
        } else if !host::physp(node, 0).is_some_and(host::answered_port_info) {
            survey.bad.insert(id, "it did not answer PortInfo of its port 0".to_owned());
        }
        if !host::physp(node, 0).is_some_and(maps_sls) {
            let why = "has no SL to VL mapping tables (IsSLMappingSupported of port 0)";
            survey.one_vl.insert(id, why.to_owned());
        }
    }
    for &(guid, fault) in faults {
        let Some(&id) = ids.get(&guid) else { continue };
        match fault {
            Fault::Blocks => {
                let why = "it does not take its tables (LFT blocks stay without an answer or differ)";
                survey.doubtful.insert(id, why.to_owned());
            }
            Fault::Rows => {
                let why = "does not take its SL2VL rows (they stay without an answer or differ)";
                survey.one_vl.insert(id, why.to_owned());
                survey.avoid.insert(id, "its SL2VL rows may drop packets".to_owned());
            }
            Fault::Top => {
                let why = "its LinearFDBTop stays below the largest LID, so it drops packets";
                survey.avoid.insert(id, why.to_owned());
            }
            Fault::Link(port) => {
                let why = "it does not come to state ACTIVE at both ends";
                survey.avoid_links.insert(PortRef { node: id, port }, why.to_owned());
            }
        }
    }
    for node in host.nodes() {
        let Some(&here) = ids.get(&host::node_guid(node)) else { continue };
        for port in 1..node.physp_tbl_size as usize {
            let Some(physp) = host::physp(node, port) else { continue };
            let here = PortRef { node: here, port: PortNum(port as u8) };
            let known = host::remote(physp)
                .and_then(|remote| Some((remote, ids.get(&host::node_guid(host::node_of(remote)?))?)));
            match known {
                Some((remote, &there)) => {
                    survey.connect(here, PortRef { node: there, port: PortNum(remote.port_num) });
                }
                None => {
                    let up = [abi::IB_LINK_INIT, abi::IB_LINK_ARMED, abi::IB_LINK_ACTIVE];
                    if up.contains(&host::link_state(physp)) {
                        survey.unknown.push(here);
                    }
                }
            }
        }
    }
    let end = |port: &abi::osm_port_t| {
        // SAFETY: NULL or the port's physical port, which lives as long.
        let physp = unsafe { port.p_physp.as_ref() }?;
        let node = *ids.get(&host::node_guid(host::node_of(physp)?))?;
        Some(PortRef { node, port: PortNum(physp.port_num) })
    };
    for port in host.ports() {
        let Some(place) = end(port) else { continue };
        if Guid(u64::from_be(port.guid)) == host.own_port() {
            survey.home = Some(place);
        }
        let given = Lid::new(u16::from_be(port.lid));
        if let Some(lid) = given.filter(|lid| discovered.get(&port.guid) == Some(&lid.get())) {
            survey.answered.insert(place, lid);
        }
    }
    survey.owners = host.lid_owners().into_iter().map(|owner| owner.and_then(end)).collect();
    let sifted = sift(survey)?;
    if sifted.fabric.num_switches() == 0 {
        return Err(SnapshotError::NoSwitch(sifted.left_out.join("; ")));
    }
    Ok(sifted)
}

/// A node without its cables; `None` for kinds of nodes that InfiniBand does not have.
fn read_node(node: &abi::osm_node_t, max_op_vls: u8) -> Option<Node> {
    let kind = match u32::from(node.node_info.node_type) {
        abi::IB_NODE_TYPE_SWITCH => NodeKind::Switch,
        abi::IB_NODE_TYPE_CA => NodeKind::ChannelAdapter,
        abi::IB_NODE_TYPE_ROUTER => NodeKind::Router,
        _ => return None,
    };
    // SAFETY: NULL or the switch that OpenSM keeps beside the node.
    let switch = unsafe { node.sw.as_ref() };
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
        port.state = match host::link_state(physp) {
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
        port.data_vls = Some(data_vls(vl_cap.min(max_op_vls)).min(arbitrated_vls(info)));
    }
    Some(read)
}

/// VLs that the tables for VL arbitration have room for: packets on others would wait for ever. A port that states no room
/// has no such tables.
fn arbitrated_vls(info: &abi::ib_port_info_t) -> u8 {
    match info.vl_arb_low_cap.saturating_add(info.vl_arb_high_cap) {
        0 => u8::MAX,
        room => room,
    }
}

/// Data VLs of PortInfo's VLCap and OperationalVLs code. Code 0 counts as 1, as in OpenSM.
pub(super) fn data_vls(code: u8) -> u8 {
    match code {
        0 | 1 => 1,
        2 => 2,
        3 => 4,
        4 => 8,
        _ => 15,
    }
}

/// Data VLs that OpenSM will make both ends of a port's cable operate.
pub(super) fn link_vls(host: &Host, physp: &abi::osm_physp_t) -> u8 {
    // SAFETY: only reads the port's own PortInfo.
    let cap = |port: &abi::osm_physp_t| unsafe { abi::ib_port_info_get_vl_cap(&port.port_info) };
    let here = cap(physp).min(host.max_op_vls());
    data_vls(host::remote(physp).map_or(here, |remote| here.min(cap(remote))))
}

/// Whether a port has SL to VL mapping tables; for a switch, port 0 says so.
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

/// Signalling generation of a port; `None` for values that InfiniBand does not have.
fn speed(physp: &abi::osm_physp_t) -> Option<LinkSpeed> {
    /// Not in the headers of every OpenSM.
    const EXT_ACTIVE_100: u32 = 8;
    // SAFETY: only reads the port's own PortInfo.
    let extended = unsafe { abi::ib_port_info_get_link_speed_ext_active(&physp.port_info) };
    match u32::from(extended) {
        abi::IB_LINK_SPEED_EXT_ACTIVE_14 => return Some(LinkSpeed::Fdr),
        abi::IB_LINK_SPEED_EXT_ACTIVE_25 => return Some(LinkSpeed::Edr),
        abi::IB_LINK_SPEED_EXT_ACTIVE_50 => return Some(LinkSpeed::Hdr),
        EXT_ACTIVE_100 => return Some(LinkSpeed::Ndr),
        0 => {}
        // The other fields would state a speed far below the real one.
        _ => return None,
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

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeOpenSm, chain};
    use super::*;
    use crate::fabric::{NodeId, SwitchId};

    /// Width and speed of a port with LinkWidthActive, LinkSpeedActive and LinkSpeedExtActive.
    fn read(width: u8, speed: u8, extended: u8) -> (Option<u8>, Option<LinkSpeed>) {
        let fabric = chain(2);
        let node: NodeId = fabric.switch_node_id(SwitchId(1));
        let mut fake = FakeOpenSm::new(&fabric);
        let info = &mut fake.physp(node, 3).port_info;
        info.link_width_active = width;
        info.link_speed = info.link_speed & 0x0f | speed << 4;
        info.link_speed_ext = extended << 4;
        let guid = fabric.node(node).guid;
        let mut found =
            fake.host().nodes().filter_map(|node| read_node(node, 5)).collect::<Vec<_>>().into_iter();
        let port = found.find(|node| node.guid == guid).expect("the switch").ports.swap_remove(3);
        (port.width, port.speed)
    }

    #[test]
    fn rates_are_those_of_port_info() {
        use LinkSpeed::{Ddr, Edr, Hdr, Ndr, Qdr, Sdr};
        assert_eq!([1, 2, 4].map(|speed| read(2, speed, 0).1), [Sdr, Ddr, Qdr].map(Some));
        assert_eq!([1, 2, 4, 8].map(|ext| read(2, 4, ext).1), [LinkSpeed::Fdr, Edr, Hdr, Ndr].map(Some));
        assert_eq!([1, 2, 4, 8, 16].map(|width| read(width, 4, 2).0), [1, 4, 8, 12, 2].map(Some));
    }

    /// A port whose width or speed is unknown counts as one of the usual rate.
    #[test]
    fn values_without_meaning_are_none() {
        assert_eq!([0, 3, 255].map(|width| read(width, 4, 2).0), [None; 3]);
        assert_eq!([(0, 0), (7, 0), (4, 15), (4, 3)].map(|(speed, ext)| read(2, speed, ext).1), [None; 4]);
    }

    /// Packets on other VLs would never leave.
    #[test]
    fn vls_are_those_that_arbitration_has_room_for() {
        let fabric = chain(2);
        let node: NodeId = fabric.switch_node_id(SwitchId(1));
        let vls = |low: u8, high: u8| {
            let mut fake = FakeOpenSm::new(&fabric);
            let info = &mut fake.physp(node, 3).port_info;
            (info.vl_arb_low_cap, info.vl_arb_high_cap) = (low, high);
            let guid = fabric.node(node).guid;
            let host = fake.host();
            let mut found = host.nodes().filter_map(|node| read_node(node, 5));
            found.find(|node| node.guid == guid).and_then(|node| node.ports[3].data_vls)
        };
        let all = vls(0, 0);
        assert!(all.is_some_and(|vls| vls > 3), "{all:?}");
        assert_eq!([vls(8, 8), vls(64, 200), vls(2, 1), vls(1, 0)], [all, all, Some(3), Some(1)]);
    }
}
