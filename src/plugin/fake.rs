//! OpenSM's objects for unit tests: a fabric as OpenSM holds it once it is discovered and up.
//!
//! Tests change them as OpenSM or a lying node would. What OpenSM's functions do is imitated as far as the
//! tested code relies on it.

use std::ffi::{CString, c_void};
use std::mem::{offset_of, size_of};
use std::ptr;

use super::abi::{self, HostFunctions};
use super::host::Host;
use crate::fabric::{
    Fabric, FabricBuilder, Guid, Lid, Lmc, Node, NodeId, NodeKind, PortNum, PortRef, SwitchId,
};
use crate::tables::{Lft, Programmed, SlVlRow};

/// What OpenSM writes for "no path" into its lid matrix.
pub(super) const NO_HOPS: u8 = 0xff;

/// Switches in a chain, the last two with two cables, and an adapter with 32 LIDs at each end. Ports of a switch: 1 to
/// the switch before, 2 and 3 to the next, 4 to the adapter, 5 free.
pub(super) fn chain(switches: usize) -> Fabric {
    let mut b = FabricBuilder::new();
    let switch = |s: usize| Node::new(NodeKind::Switch, Guid(0x100 + s as u64), 5, &format!("S{s}"));
    let ids: Vec<NodeId> = (0..switches).map(|s| b.add(switch(s)).expect("a new GUID")).collect();
    let cable = |a: (NodeId, u8), c: (NodeId, u8), b: &mut FabricBuilder| {
        let [a, c] = [a, c].map(|(node, port)| PortRef { node, port: PortNum(port) });
        b.connect(a, c).expect("free ports");
    };
    for pair in ids.windows(2) {
        cable((pair[0], 2), (pair[1], 1), &mut b);
    }
    cable((ids[switches - 2], 3), (ids[switches - 1], 3), &mut b);
    for (h, at) in [ids[0], ids[switches - 1]].into_iter().enumerate() {
        let node = Node::new(NodeKind::ChannelAdapter, Guid(0x1000 + h as u64), 1, &format!("H{h}"));
        let node = b.add(node).expect("a new GUID");
        cable((at, 4), (node, 1), &mut b);
    }
    b.finish(Lmc::new(5).expect("an LMC")).expect("a fabric")
}

/// The objects, which live as long as this.
pub(super) struct FakeOpenSm {
    osm: *mut abi::osm_opensm_t,
    /// By [`NodeId`].
    nodes: Vec<*mut abi::osm_node_t>,
    /// By [`SwitchId`].
    switches: Vec<*mut abi::osm_switch_t>,
    /// All memory of these objects.
    memory: Vec<*mut [u64]>,
    names: Vec<CString>,
}

impl FakeOpenSm {
    /// All nodes and cables of a fabric; every link is active and has 8 data VLs. The tables have
    /// "no path" everywhere and rows of zeros, as if nothing had been sent.
    pub(super) fn new(fabric: &Fabric) -> Self {
        let mut fake = Self {
            osm: ptr::null_mut(),
            nodes: Vec::new(),
            switches: Vec::new(),
            memory: Vec::new(),
            names: Vec::new(),
        };
        fake.osm = fake.allocate(size_of::<abi::osm_opensm_t>());
        for node in fabric.nodes() {
            let pointer = fake.node_of(node);
            fake.nodes.push(pointer);
        }
        for (id, node) in fabric.nodes().iter().enumerate() {
            for (number, port) in node.ports.iter().enumerate() {
                if let Some(peer) = port.peer {
                    let there = ptr::from_mut(fake.physp(peer.node, peer.port.0));
                    fake.physp(NodeId::at(id), number as u8).p_remote_physp = there;
                }
            }
        }
        for end in fabric.endports() {
            let port = fake.physp(end.node, end.port.0);
            (port.port_guid, port.port_info.base_lid) = (end.guid.0.to_be(), end.lid.get().to_be());
        }
        for s in fabric.switch_ids() {
            let pointer = fake.switch_of(fabric, s);
            fake.switches.push(pointer);
        }
        fake.osm().subn.opt.max_op_vls = 5;
        let nodes: Vec<_> = fake.nodes.iter().map(|node| node.cast()).collect();
        link(&mut fake.osm().subn.node_guid_tbl, nodes);
        fake.hold_ports(fabric);
        let all: Vec<SwitchId> = fabric.switch_ids().collect();
        fake.hold_switches(&all);
        fake
    }

    /// The same with all tables sent and acknowledged.
    pub(super) fn programmed(tables: &Programmed) -> Self {
        let mut fake = Self::new(&tables.fabric);
        let fabric = &tables.fabric;
        for s in fabric.switch_ids() {
            for lid in (1..fabric.lid_table_len()).filter_map(|lid| Lid::new(lid as u16)) {
                let port = tables.routes.lft.get(s, lid).map_or(Lft::NO_PATH, |port| port.0);
                fake.new_lft(s)[lid.index()] = port;
                fake.lft(s)[lid.index()] = port;
            }
            let ports = fabric.channels().slots_of(s) as u8;
            for (in_port, out_port) in (0..ports).flat_map(|i| (1..ports).map(move |o| (i, o))) {
                let row = tables.routes.sl2vl.row(s, PortNum(in_port), PortNum(out_port));
                fake.set_row(fabric.switch_node_id(s), out_port, in_port, row);
            }
        }
        for (_, end) in fabric.adapters() {
            fake.set_row(end.node, end.port.0, 0, tables.routes.sl2vl.adapters());
        }
        fake
    }

    /// A handle to it.
    pub(super) fn host(&self) -> Host {
        // SAFETY: in C, a function may be given more arguments than it looks at; the caller removes them.
        let log = unsafe { std::mem::transmute::<*const c_void, abi::LogFn>(log as *const c_void) };
        Host::fake(
            self.osm,
            HostFunctions {
                log,
                register,
                set_hops,
                clear_hops,
                sweep,
                mcast_tbl_set,
                cache_invalidate,
                map_get,
            },
        )
    }

    /// Makes OpenSM hold these switches, in this order.
    pub(super) fn hold_switches(&mut self, switches: &[SwitchId]) {
        let items = switches.iter().map(|s| self.switches[s.index()].cast()).collect();
        link(&mut self.osm().subn.sw_guid_tbl, items);
    }

    /// Makes OpenSM hold all end ports, each with its LIDs; its own is that of the first adapter.
    fn hold_ports(&mut self, fabric: &Fabric) {
        let lids = fabric.lid_table_len();
        let owners: *mut *const c_void = self.allocate(lids * size_of::<*const c_void>());
        let mut ports = Vec::new();
        for end in fabric.endports() {
            let pointer: *mut abi::osm_port_t = self.allocate(size_of::<abi::osm_port_t>());
            // SAFETY: zeroed memory is a port.
            let fresh = unsafe { &mut *pointer };
            (fresh.map_item.key, fresh.guid, fresh.lid) =
                (end.guid.0.to_be(), end.guid.0.to_be(), end.lid.get().to_be());
            fresh.p_physp = self.physp(end.node, end.port.0);
            for lid in end.lids() {
                // SAFETY: `owners` has a pointer for each LID.
                let place = unsafe { owners.add(lid.index()) };
                // SAFETY: as above.
                unsafe { place.write(pointer.cast_const().cast()) };
            }
            ports.push(pointer.cast());
        }
        let subn = &mut self.osm().subn;
        (subn.port_lid_tbl.p_ptr_array, subn.port_lid_tbl.size) = (owners, lids);
        subn.sm_port_guid = fabric.adapters().next().map_or(0, |(_, end)| end.guid.0.to_be());
        link(&mut subn.port_guid_tbl, ports);
    }

    pub(super) fn osm(&mut self) -> &mut abi::osm_opensm_t {
        // SAFETY: allocated in `new` and used by one thread.
        unsafe { &mut *self.osm }
    }

    pub(super) fn node(&mut self, node: NodeId) -> &mut abi::osm_node_t {
        // SAFETY: as in `osm`.
        unsafe { &mut *self.nodes[node.index()] }
    }

    pub(super) fn switch(&mut self, s: SwitchId) -> &mut abi::osm_switch_t {
        // SAFETY: as in `osm`.
        unsafe { &mut *self.switches[s.index()] }
    }

    /// A port, which the node must have.
    pub(super) fn physp(&mut self, node: NodeId, port: u8) -> &mut abi::osm_physp_t {
        let node = self.nodes[node.index()];
        // SAFETY: as in `osm`.
        assert!(u32::from(port) < unsafe { (*node).physp_tbl_size });
        let table = node.wrapping_byte_add(offset_of!(abi::osm_node_t, physp_table));
        let physp = table.cast::<abi::osm_physp_t>().wrapping_add(usize::from(port));
        // SAFETY: the node was allocated with so many ports.
        unsafe { &mut *physp }
    }

    /// The table as the switch acknowledged it, by LID.
    pub(super) fn lft(&mut self, s: SwitchId) -> &mut [u8] {
        let switch = self.switch(s);
        // SAFETY: allocated with this size.
        unsafe { std::slice::from_raw_parts_mut(switch.lft, usize::from(switch.lft_size)) }
    }

    /// The table to be sent, by LID.
    pub(super) fn new_lft(&mut self, s: SwitchId) -> &mut [u8] {
        let switch = self.switch(s);
        // SAFETY: allocated with this size.
        unsafe { std::slice::from_raw_parts_mut(switch.new_lft, usize::from(switch.lft_size)) }
    }

    /// The rows of the lid matrix, by LID; NULL where OpenSM has no memory.
    pub(super) fn hop_rows(&mut self, s: SwitchId) -> &mut [*mut u8] {
        let switch = self.switch(s);
        // SAFETY: allocated with this size.
        unsafe { std::slice::from_raw_parts_mut(switch.hops, usize::from(switch.num_hops)) }
    }

    /// A row of the lid matrix, by port.
    pub(super) fn hops(&mut self, s: SwitchId, lid: usize) -> &[u8] {
        let row = self.hop_rows(s)[lid];
        let ports = self.switch(s).num_ports;
        // SAFETY: allocated with this size.
        unsafe { std::slice::from_raw_parts(row, usize::from(ports)) }
    }

    pub(super) fn row(&mut self, node: NodeId, out_port: u8, in_port: u8) -> SlVlRow {
        super::host::row(self.physp(node, out_port), in_port).expect("there is such a row")
    }

    pub(super) fn set_row(&mut self, node: NodeId, out_port: u8, in_port: u8, row: SlVlRow) {
        super::host::set_row(self.physp(node, out_port), in_port, row);
    }

    /// Zeroed memory.
    fn allocate<T>(&mut self, bytes: usize) -> *mut T {
        assert!(align_of::<T>() <= align_of::<u64>());
        let memory = Box::into_raw(vec![0_u64; bytes.div_ceil(8)].into_boxed_slice());
        self.memory.push(memory);
        memory.cast()
    }

    fn node_of(&mut self, node: &Node) -> *mut abi::osm_node_t {
        let ports = node.ports.len();
        let bytes = size_of::<abi::osm_node_t>() + ports * size_of::<abi::osm_physp_t>();
        let pointer: *mut abi::osm_node_t = self.allocate(bytes);
        let name = CString::new(node.description.as_str()).expect("no NUL in a name");
        // SAFETY: zeroed memory is a node.
        let fresh = unsafe { &mut *pointer };
        fresh.print_desc = name.as_ptr().cast_mut();
        self.names.push(name);
        fresh.map_item.key = node.guid.0.to_be();
        fresh.node_info.node_guid = node.guid.0.to_be();
        fresh.node_info.node_type = match node.kind {
            NodeKind::Switch => abi::IB_NODE_TYPE_SWITCH as u8,
            NodeKind::ChannelAdapter => abi::IB_NODE_TYPE_CA as u8,
            NodeKind::Router => abi::IB_NODE_TYPE_ROUTER as u8,
        };
        fresh.physp_tbl_size = ports as u32;
        self.nodes.push(pointer);
        let id = NodeId::at(self.nodes.len() - 1);
        let in_ports = if node.is_switch() { ports + 1 } else { 1 };
        for number in usize::from(!node.is_switch())..ports {
            let tables: *mut *const c_void = self.allocate(in_ports * size_of::<*const c_void>());
            for in_port in 0..in_ports {
                let table: *mut c_void = self.allocate(size_of::<abi::ib_slvl_table_t>());
                // SAFETY: `tables` has so many pointers.
                let place = unsafe { tables.add(in_port) };
                // SAFETY: as above.
                unsafe { place.write(table.cast_const()) };
            }
            let port = self.physp(id, number as u8);
            (port.port_guid, port.port_num, port.p_node) = (node.guid.0.to_be(), number as u8, pointer);
            (port.healthy, port.slvl_by_port.p_ptr_array) = (abi::TRUE, tables);
            (port.slvl_by_port.size, port.slvl_by_port.capacity) = (in_ports, in_ports);
            // IsSLMappingSupported; code 4 is 8 VLs.
            port.port_info.capability_mask = (1_u32 << 6).to_be();
            (port.port_info.vl_cap, port.port_info.vl_enforce) = (4 << 4, 4 << 4);
            port.port_info.state_info1 = abi::IB_LINK_ACTIVE as u8;
        }
        self.nodes.pop();
        pointer
    }

    fn switch_of(&mut self, fabric: &Fabric, s: SwitchId) -> *mut abi::osm_switch_t {
        let lids = fabric.lid_table_len();
        let pointer: *mut abi::osm_switch_t = self.allocate(size_of::<abi::osm_switch_t>());
        let node = fabric.switch_node_id(s);
        let ports = self.node(node).physp_tbl_size as usize;
        let (lft, new_lft, hops): (*mut u8, *mut u8, *mut *mut u8) =
            (self.allocate(lids), self.allocate(lids), self.allocate(lids * size_of::<*mut u8>()));
        for lid in 0..lids {
            let row: *mut u8 = self.allocate(ports);
            // SAFETY: so many bytes.
            unsafe { row.write_bytes(NO_HOPS, ports) };
            // SAFETY: `hops` has so many pointers.
            let place = unsafe { hops.add(lid) };
            // SAFETY: as above.
            unsafe { place.write(row) };
        }
        // SAFETY: zeroed memory is a switch.
        let fresh = unsafe { &mut *pointer };
        fresh.p_node = self.nodes[node.index()];
        (fresh.lft, fresh.new_lft, fresh.lft_size) = (lft, new_lft, lids as u16);
        (fresh.hops, fresh.num_hops, fresh.num_ports) = (hops, lids as u16, ports as u8);
        (fresh.max_lid_ho, fresh.switch_info.lin_top) = (lids as u16 - 1, (lids as u16 - 1).to_be());
        for table in [lft, new_lft] {
            // SAFETY: so many bytes.
            unsafe { table.write_bytes(Lft::NO_PATH, lids) };
        }
        self.node(node).sw = pointer;
        pointer
    }
}

impl Drop for FakeOpenSm {
    fn drop(&mut self) {
        for &memory in &self.memory {
            // SAFETY: from `Box::into_raw`, once each.
            drop(unsafe { Box::from_raw(memory) });
        }
    }
}

/// Makes a map of items in their order.
fn link(map: &mut abi::cl_qmap_t, items: Vec<*mut abi::cl_map_item_t>) {
    map.count = items.len();
    let mut last = &raw mut map.nil;
    for next in items {
        // SAFETY: the end of the map or an item of it.
        let list = unsafe { &mut (*last).pool_item.list_item };
        list.p_next = next.cast();
        last = next;
    }
    // SAFETY: as above.
    let list = unsafe { &mut (*last).pool_item.list_item };
    list.p_next = (&raw mut map.nil).cast();
}

unsafe extern "C" fn map_get(map: *const abi::cl_qmap_t, key: u64) -> *mut abi::cl_map_item_t {
    // SAFETY: a map made by `link`.
    let end = unsafe { abi::cl_qmap_end(map) }.cast_mut();
    // SAFETY: as above.
    let mut item = unsafe { abi::cl_qmap_head(map) };
    // SAFETY: an item of the map.
    while !ptr::eq(item, end) && unsafe { (*item).key } != key {
        // SAFETY: as above.
        item = unsafe { abi::cl_qmap_next(item) };
    }
    item
}

/// Fails where there is no row.
unsafe extern "C" fn set_hops(switch: *mut abi::osm_switch_t, lid: u16, port: u8, hops: u8) -> i32 {
    // SAFETY: a switch made by `switch_of`.
    let switch = unsafe { &*switch };
    assert!(lid < switch.num_hops && port < switch.num_ports);
    // SAFETY: the matrix has `num_hops` rows.
    let place = unsafe { switch.hops.add(usize::from(lid)) };
    // SAFETY: as above.
    let row = unsafe { *place };
    if row.is_null() {
        return 1;
    }
    // SAFETY: a row has `num_ports` bytes.
    let entry = unsafe { row.add(usize::from(port)) };
    // SAFETY: as above.
    unsafe { entry.write(hops) };
    0
}

unsafe extern "C" fn clear_hops(switch: *mut abi::osm_switch_t) {
    // SAFETY: a switch made by `switch_of`.
    let switch = unsafe { &*switch };
    // SAFETY: the matrix has `num_hops` rows.
    let rows = unsafe { std::slice::from_raw_parts(switch.hops, usize::from(switch.num_hops)) };
    for row in rows.iter().filter(|row| !row.is_null()) {
        // SAFETY: a row has `num_ports` bytes.
        unsafe { row.write_bytes(NO_HOPS, usize::from(switch.num_ports)) };
    }
}

/// Takes any line, and keeps none.
unsafe extern "C" fn log() {}

unsafe extern "C" fn register(
    _: *mut abi::osm_opensm_t,
    _: *const abi::external_routing_engine_module_t,
    _: *mut c_void,
) -> abi::cl_status_t {
    std::process::abort();
}

unsafe extern "C" fn sweep(_: *mut abi::osm_sm_t) {
    std::process::abort();
}

unsafe extern "C" fn mcast_tbl_set(_: *mut abi::osm_mcast_tbl_t, _: u16, _: u8) {
    std::process::abort();
}

unsafe extern "C" fn cache_invalidate(_: *mut abi::osm_ucast_mgr_t) {
    std::process::abort();
}
