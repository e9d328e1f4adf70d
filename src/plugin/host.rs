//! A handle to the running OpenSM: its log, its tables as iterators, its options.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::ptr::{self, NonNull};

use super::abi::{self, HostFunctions, osm_node_t, osm_opensm_t, osm_physp_t, osm_switch_t};
use super::message::Message;
use crate::fabric::Guid;
use crate::tables::SlVlRow;

/// The OpenSM that loaded the plugin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    osm: NonNull<osm_opensm_t>,
    functions: HostFunctions,
}

// SAFETY: OpenSM's object lives longer than the plugin and OpenSM calls plugins from many threads;
// what is read through this handle is read in callbacks, which OpenSM makes under its own lock, or
// under that lock taken here.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

/// Why the plugin must not trust what it was given.
#[derive(Debug, thiserror::Error)]
pub(super) enum HostError {
    /// `create` was given no object.
    #[error("OpenSM passed no object to the plugin")]
    Null,
    /// The headers that the plugin was built with do not describe this process.
    #[error(
        "OpenSM's structures are not where this libdfdn.so expects them ({0}): it was built with headers of an \
         OpenSM that was configured differently. Rebuild it on this host with the headers of the installed OpenSM"
    )]
    Layout(&'static str),
    /// A function that the plugin calls is not exported by the process.
    #[error(
        "this OpenSM does not export {0}(), which dfdn needs: use OpenSM 3.3.23 or 3.3.24 of linux-rdma, not a vendor's. \
         'dfdn verify' judges the tables of any"
    )]
    MissingFunction(&'static str),
}

impl Host {
    /// Checks that the object matches the headers before anything in it is trusted.
    pub(super) fn new(osm: *mut osm_opensm_t) -> Result<Self, HostError> {
        let osm = NonNull::new(osm).ok_or(HostError::Null)?;
        // A vendor's OpenSM lacks a function. So nothing in its object is read.
        let functions = HostFunctions::find().map_err(HostError::MissingFunction)?;
        check_layout(osm)?;
        Ok(Self { osm, functions })
    }

    /// A handle to an object that a test made.
    #[cfg(test)]
    pub(super) fn fake(osm: *mut osm_opensm_t, functions: HostFunctions) -> Self {
        Self { osm: NonNull::new(osm).expect("an object"), functions }
    }

    /// The subnet in it. Never makes a reference to the whole object: other threads of OpenSM write
    /// to its statistics, locks and flags at any time.
    fn subn(&self) -> *const abi::osm_subn_t {
        // SAFETY: `create` was given this object, which OpenSM frees after it deleted its plugins; only
        // an address is taken.
        unsafe { &raw const (*self.osm.as_ptr()).subn }
    }

    /// The object itself, for OpenSM's functions.
    pub(super) fn as_ptr(&self) -> *mut osm_opensm_t {
        self.osm.as_ptr()
    }

    /// The functions of the process.
    pub(super) fn functions(&self) -> &HostFunctions {
        &self.functions
    }

    /// Writes a line to OpenSM's log.
    pub(super) fn log(&self, message: Message, text: &str) {
        let line = message.line(text);
        // SAFETY: address of a field of the live object; OpenSM locks its log by itself.
        let log = unsafe { &raw mut (*self.osm.as_ptr()).log };
        let length = line.len() as c_int;
        // SAFETY: the format is constant and takes a length and that many bytes; the text is
        // shorter than osm_log's buffer of 4096 bytes, which `Message::line` ensures.
        unsafe {
            (self.functions.log)(
                log,
                message.flags(),
                c"%.*s\n".as_ptr(),
                length,
                line.as_ptr().cast::<c_char>(),
            )
        };
    }

    /// Whether OpenSM's log flags request dumps of routing tables.
    pub(super) fn dumps_routing(&self) -> bool {
        // SAFETY: a byte of the live object.
        let level = unsafe { (*self.osm.as_ptr()).log.level };
        u32::from(level) & abi::OSM_LOG_ROUTING != 0
    }

    /// The folder of OpenSM's dumps.
    pub(super) fn dump_folder(&self) -> Option<PathBuf> {
        // SAFETY: a field of OpenSM's options, see `options`.
        c_string(unsafe { (*self.options()).dump_files_dir }).map(PathBuf::from)
    }

    /// `max_op_vls` of the configuration, as PortInfo codes it.
    pub(super) fn max_op_vls(&self) -> u8 {
        // SAFETY: a field of OpenSM's options, see `options`.
        unsafe { (*self.options()).max_op_vls }
    }

    /// Turns QoS on where it is off, and says so: without it OpenSM programs neither SL2VL nor VL arbitration. An option
    /// that changes in its file turns it off again. For `create`, which runs before any sweep, and for the thread that
    /// sweeps.
    pub(super) fn keep_qos_on(&self) {
        // SAFETY: a field of OpenSM's options, see `options`.
        if unsafe { (*self.options()).qos } == abi::TRUE {
            return;
        }
        // SAFETY: a plain flag of the live object. OpenSM itself writes it without a lock, and the SA's threads read it.
        unsafe { (*self.osm.as_ptr()).subn.opt.qos = abi::TRUE };
        self.log(
            Message::QosForcedOn,
            "qos was FALSE and is now on: without it OpenSM would program no SL2VL tables and credit loops were \
             possible. Put 'qos TRUE' into opensm.conf to say so yourself",
        );
    }

    /// Requests another heavy sweep right after the current one. The flag alone is not enough:
    /// after the console's `reroute`, OpenSM does not check it before the next regular sweep.
    pub(super) fn force_heavy_sweep(&self) {
        // SAFETY: a plain flag that OpenSM's own threads set without a lock, read by the sweep.
        unsafe { (*self.osm.as_ptr()).subn.force_heavy_sweep = abi::TRUE };
        // SAFETY: address of a field of the live object.
        let sm = unsafe { &raw mut (*self.osm.as_ptr()).sm };
        // SAFETY: signals the thread that sweeps, under a lock of its own; any thread may.
        unsafe { (self.functions.sweep)(sm) };
    }

    /// Makes OpenSM's next regular sweep a heavy one. For the event SUBNET UP, which OpenSM reports
    /// after its last check of the flag.
    pub(super) fn make_next_sweep_heavy(&self) {
        // SAFETY: as in `force_heavy_sweep`.
        unsafe { (*self.osm.as_ptr()).subn.force_heavy_sweep = abi::TRUE };
    }

    /// `routing_engine` of the configuration.
    pub(super) fn options_engines(&self) -> String {
        // SAFETY: a field of OpenSM's options, see `options`.
        c_string(unsafe { (*self.options()).routing_engine_names }).unwrap_or_default()
    }

    /// OpenSM's options. The sweeping thread changes them before it calls anyone, and its console
    /// may at any time: so no reference to them is made, and fields are read one by one.
    pub(super) fn options(&self) -> *const abi::osm_subn_opt_t {
        // SAFETY: part of the live object; only an address is taken.
        unsafe { &raw const (*self.subn()).opt }
    }

    /// Whether OpenSM keeps a cache of unicast tables.
    pub(super) fn caches_unicast(&self) -> bool {
        // SAFETY: a field of OpenSM's options, see `options`.
        let asked = unsafe { (*self.options()).use_ucast_cache };
        asked == abi::TRUE
    }

    /// Whether OpenSM leaves the subnet unrouted if no engine of its list routes it, instead of
    /// routing it with minhop.
    pub(super) fn has_no_fallback(&self) -> bool {
        // SAFETY: a flag of the live object, set when the engines are.
        let flag = unsafe { (*self.osm.as_ptr()).no_fallback_routing_engine };
        flag == abi::TRUE
    }

    /// Whether this OpenSM has just become the master and has not yet brought the subnet up: the
    /// switches have what the last master sent.
    pub(super) fn is_new_master(&self) -> bool {
        // SAFETY: a flag of the live object, which only the thread that sweeps changes.
        let flag = unsafe { (*self.subn()).coming_out_of_standby };
        flag == abi::TRUE
    }

    /// Whether this OpenSM brings the subnet up for the first time, or anew after its own port was down. Then another one may
    /// have programmed the switches meanwhile.
    pub(super) fn is_first_sweep(&self) -> bool {
        // SAFETY: a flag of the live object, which only the thread that sweeps changes.
        let flag = unsafe { (*self.subn()).first_time_master_sweep };
        flag == abi::TRUE
    }

    /// Whether OpenSM got no answer to something that it sent in this sweep, or an error.
    pub(super) fn had_errors(&self) -> bool {
        // SAFETY: a flag of the live object, which its threads set without a lock.
        let flag = unsafe { (*self.subn()).subnet_initialization_error };
        flag == abi::TRUE
    }

    /// Makes the next sweep reroute although OpenSM caches unicast tables. For callbacks that
    /// OpenSM makes with its lock held exclusively.
    pub(super) fn route_anew(&self) {
        self.forget_cache();
        self.force_heavy_sweep();
    }

    /// Drops OpenSM's cache of unicast tables, so that the next heavy sweep asks the engine. Needs
    /// OpenSM's lock, held exclusively.
    pub(super) fn forget_cache(&self) {
        // SAFETY: address of a field of the live object.
        let manager = unsafe { &raw mut (*self.osm.as_ptr()).sm.ucast_mgr };
        // SAFETY: a flag of the live object, which only the thread that sweeps changes.
        let valid = unsafe { (*self.osm.as_ptr()).sm.ucast_mgr.cache_valid };
        if self.caches_unicast() && valid == abi::TRUE {
            // SAFETY: OpenSM's own manager, whose cache exists; the lock keeps others away from it.
            unsafe { (self.functions.cache_invalidate)(manager) };
        }
    }

    /// The context and the SL callback of the engine whose tables are in use.
    pub(super) fn engine_used(&self) -> Option<EngineUsed> {
        // SAFETY: a pointer of the live object, which only the thread that sweeps changes.
        let used = NonNull::new(unsafe { (*self.osm.as_ptr()).routing_engine_used })?;
        // SAFETY: an engine, which lives as long as OpenSM routes.
        let context = unsafe { (*used.as_ptr()).context };
        // SAFETY: as above.
        let path_sl = unsafe { (*used.as_ptr()).path_sl };
        Some(EngineUsed { context, path_sl })
    }

    /// Holds OpenSM's lock shared while `body` runs, as the SA does to read the subnet.
    pub(super) fn locked<T>(&self, body: impl FnOnce() -> T) -> T {
        let lock = self.lock();
        // SAFETY: an initialized lock; `report` is called without it.
        unsafe { abi::cl_plock_acquire(lock) };
        let _unlock = Unlock(lock);
        body()
    }

    /// Holds OpenSM's lock exclusively while `body` runs, as the sweep does to change the subnet.
    pub(super) fn locked_exclusively<T>(&self, body: impl FnOnce() -> T) -> T {
        let lock = self.lock();
        // SAFETY: an initialized lock; `report` is called without it.
        unsafe { abi::cl_plock_excl_acquire(lock) };
        let _unlock = Unlock(lock);
        body()
    }

    fn lock(&self) -> *mut abi::cl_plock_t {
        // SAFETY: address of a field of the live object.
        unsafe { &raw mut (*self.osm.as_ptr()).lock }
    }

    /// All discovered nodes.
    pub(super) fn nodes(&self) -> Items<'_, osm_node_t> {
        // SAFETY: a map of the live object, which OpenSM's lock keeps unchanged.
        Items::of(unsafe { &(*self.subn()).node_guid_tbl })
    }

    /// The node with a GUID in network order, if it was discovered.
    pub(super) fn node(&self, guid: u64) -> Option<&osm_node_t> {
        // SAFETY: a map of the live object, which OpenSM's lock keeps unchanged.
        let map = unsafe { &(*self.subn()).node_guid_tbl };
        // SAFETY: an initialized map; the function only reads.
        let item = unsafe { (self.functions.map_get)(map, guid) };
        // SAFETY: an initialized map.
        let end = unsafe { abi::cl_qmap_end(map) };
        let found = (!ptr::eq(item, end)).then_some(item)?;
        // SAFETY: an item of the map; nodes begin with it.
        unsafe { found.cast::<osm_node_t>().as_ref() }
    }

    /// The owner of each LID in OpenSM's own table, by LID; LID 0 has none.
    pub(super) fn lid_owners(&self) -> Vec<Option<&abi::osm_port_t>> {
        // SAFETY: a vector of the live object, which OpenSM's lock keeps unchanged.
        let table = unsafe { &(*self.subn()).port_lid_tbl };
        if table.p_ptr_array.is_null() {
            return Vec::new();
        }
        // SAFETY: the vector has that many pointers.
        let entries = unsafe { std::slice::from_raw_parts(table.p_ptr_array, table.size) };
        // SAFETY: each is NULL or points to a port that OpenSM holds.
        entries.iter().map(|entry| unsafe { entry.cast::<abi::osm_port_t>().as_ref() }).collect()
    }

    /// All end ports that were discovered.
    pub(super) fn ports(&self) -> Items<'_, abi::osm_port_t> {
        // SAFETY: a map of the live object, which OpenSM's lock keeps unchanged.
        Items::of(unsafe { &(*self.subn()).port_guid_tbl })
    }

    /// The GUID of OpenSM's own port.
    pub(super) fn own_port(&self) -> Guid {
        // SAFETY: a number of the live object, which only the thread that sweeps changes.
        Guid(u64::from_be(unsafe { (*self.subn()).sm_port_guid }))
    }

    /// Whether OpenSM sends all tables again, whether or not they changed.
    pub(super) fn updates_everything(&self) -> bool {
        // SAFETY: a plain flag of the live object, which only the thread that sweeps changes.
        unsafe { (*self.subn()).need_update != 0 }
    }

    /// All switches.
    pub(super) fn switches(&self) -> impl Iterator<Item = &osm_switch_t> {
        // SAFETY: an item of the map, which OpenSM's lock keeps.
        self.switch_pointers().filter_map(|switch| unsafe { switch.as_ref() })
    }

    /// The same, for writing: by callbacks that OpenSM makes with its lock held exclusively.
    pub(super) fn switch_pointers(&self) -> Pointers<osm_switch_t> {
        // SAFETY: address of a map of the live object, which OpenSM's lock keeps unchanged.
        Pointers::of(unsafe { &raw const (*self.subn()).sw_guid_tbl })
    }
}

/// The engine in use, as far as the plugin needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct EngineUsed {
    /// The context of its callbacks.
    pub(super) context: *mut c_void,
    /// Its SL callback, if it has one.
    pub(super) path_sl: Option<unsafe extern "C" fn(*mut c_void, u8, u16, u16) -> u8>,
}

/// Releases OpenSM's lock, however the body ends.
struct Unlock(*mut abi::cl_plock_t);

impl Drop for Unlock {
    fn drop(&mut self) {
        // SAFETY: acquired by the creator of this value, released once.
        unsafe { abi::cl_plock_release(self.0) };
    }
}

/// Compares pointers that OpenSM keeps to parts of its own object with the addresses that the
/// headers give. The version string does not show how OpenSM was configured; this does.
fn check_layout(osm: NonNull<osm_opensm_t>) -> Result<(), HostError> {
    let osm = osm.as_ptr();
    /// Copies a field of the object, or its address. Other threads may run already, so no reference
    /// is made.
    macro_rules! field {
        (&$($path:ident).+) => {
            // SAFETY: an address in OpenSM's object.
            unsafe { &raw const (*osm).$($path).+ }
        };
        ($($path:ident).+) => {
            // SAFETY: a field of OpenSM's object. With other headers its size may differ, but all fields
            // read here lie in the smallest of them, and pointers are only compared.
            unsafe { (*osm).$($path).+ }
        };
    }
    let (subn, log) = (field!(&subn), field!(&log));
    let checks = [
        ("subn.p_osm", ptr::eq(field!(subn.p_osm), osm)),
        ("sm.p_subn", ptr::eq(field!(sm.p_subn), subn)),
        ("sm.p_log", ptr::eq(field!(sm.p_log), log)),
        ("sm.p_lock", ptr::eq(field!(sm.p_lock), field!(&lock))),
        ("sm.p_disp", ptr::eq(field!(sm.p_disp), field!(&disp))),
        ("sm.ucast_mgr.p_subn", ptr::eq(field!(sm.ucast_mgr.p_subn), subn)),
        ("sm.ucast_mgr.p_log", ptr::eq(field!(sm.ucast_mgr.p_log), log)),
        ("sa.p_subn", ptr::eq(field!(sa.p_subn), subn)),
        ("sa.p_log", ptr::eq(field!(sa.p_log), log)),
        ("qos of options", field!(subn.opt.qos) <= abi::TRUE),
    ];
    if let Some((what, _)) = checks.iter().find(|(_, holds)| !holds) {
        return Err(HostError::Layout(what));
    }
    // Where all of these hold this is a string.
    let is_ours = c_string(field!(osm_version)).as_deref().map(str::as_bytes) == version();
    if is_ours { Ok(()) } else { Err(HostError::Layout("osm_version")) }
}

fn version() -> Option<&'static [u8]> {
    CStr::from_bytes_until_nul(abi::OSM_VERSION).ok().map(CStr::to_bytes)
}

/// A C string of OpenSM, invalid UTF-8 replaced; `None` for NULL.
pub(super) fn c_string(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not NULL, and OpenSM's strings are NUL-terminated and live in its object.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

/// The objects in one of OpenSM's maps, in key order. Each begins with the map's item.
pub(super) struct Items<'a, T> {
    pointers: Pointers<T>,
    map: PhantomData<&'a T>,
}

impl<'a, T> Items<'a, T> {
    fn of(map: &'a abi::cl_qmap_t) -> Self {
        Self { pointers: Pointers::of(map), map: PhantomData }
    }
}

impl<'a, T> Iterator for Items<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        // SAFETY: an item of the map, which OpenSM's lock keeps.
        self.pointers.next().and_then(|item| unsafe { item.as_ref() })
    }
}

/// The same, as pointers.
pub(super) struct Pointers<T> {
    next: *mut abi::cl_map_item_t,
    end: *const abi::cl_map_item_t,
    kind: PhantomData<*mut T>,
}

impl<T> Pointers<T> {
    fn of(map: *const abi::cl_qmap_t) -> Self {
        // SAFETY: an initialized map.
        let next = unsafe { abi::cl_qmap_head(map) };
        // SAFETY: an initialized map.
        let end = unsafe { abi::cl_qmap_end(map) };
        Self { next, end, kind: PhantomData }
    }
}

impl<T> Iterator for Pointers<T> {
    type Item = *mut T;

    fn next(&mut self) -> Option<*mut T> {
        if ptr::eq(self.next, self.end) {
            return None;
        }
        let item = self.next;
        // SAFETY: not the end, so an item of the map; OpenSM's lock keeps the map unchanged.
        self.next = unsafe { abi::cl_qmap_next(item) };
        // Nodes, switches, ports and members of groups begin with their map item.
        Some(item.cast::<T>())
    }
}

/// The groups that share a multicast LID.
pub(super) fn groups(mbox: &abi::osm_mgrp_box_t) -> impl Iterator<Item = &abi::osm_mgrp_t> {
    let end = &raw const mbox.mgrp_list.end;
    let mut next = mbox.mgrp_list.end.p_next;
    std::iter::from_fn(move || {
        if next.is_null() || ptr::eq(next, end) {
            return None;
        }
        let item = next;
        // SAFETY: not the end, so an item of the list; OpenSM's lock keeps the list unchanged.
        next = unsafe { (*item).p_next };
        // SAFETY: the list links groups by this field of theirs.
        let group = unsafe { item.byte_sub(std::mem::offset_of!(abi::osm_mgrp_t, list_item)) };
        // SAFETY: as above.
        unsafe { group.cast::<abi::osm_mgrp_t>().as_ref() }
    })
}

/// The members of a group.
pub(super) fn members(group: &abi::osm_mgrp_t) -> Items<'_, abi::osm_mcm_port_t> {
    Items::of(&group.mcm_port_tbl)
}

/// Node GUID in host order.
pub(super) fn node_guid(node: &osm_node_t) -> Guid {
    Guid(u64::from_be(node.node_info.node_guid))
}

/// A port of a node, if OpenSM knows it.
pub(super) fn physp(node: &osm_node_t, port: usize) -> Option<&osm_physp_t> {
    if port >= node.physp_tbl_size as usize {
        return None;
    }
    // SAFETY: `port` is within the node's table of ports; the function only reads.
    let physp = unsafe { abi::osm_node_get_physp_ptr(ptr::from_ref(node).cast_mut(), port as u32) };
    // SAFETY: NULL for a port that was not discovered, else an element of the node's table.
    unsafe { physp.as_ref() }
}

/// The port at the other end of the cable.
pub(super) fn remote(physp: &osm_physp_t) -> Option<&osm_physp_t> {
    // SAFETY: NULL or a port of a node that OpenSM holds.
    unsafe { physp.p_remote_physp.as_ref() }
}

/// The logical state of a port's link, as PortInfo codes it.
pub(super) fn link_state(physp: &osm_physp_t) -> u32 {
    // SAFETY: only reads the port's own PortInfo.
    u32::from(unsafe { abi::ib_port_info_get_port_state(&physp.port_info) })
}

/// Whether the node answered PortInfo of a port, of which no answer is all zeros.
pub(super) fn answered_port_info(physp: &osm_physp_t) -> bool {
    let info = (&raw const physp.port_info).cast::<u8>();
    // SAFETY: PortInfo as it is on the wire, a packed structure of bytes that are all initialized.
    let bytes = unsafe { std::slice::from_raw_parts(info, size_of_val(&physp.port_info)) };
    bytes.iter().any(|&byte| byte != 0)
}

/// The node of a port.
pub(super) fn node_of(physp: &osm_physp_t) -> Option<&osm_node_t> {
    // SAFETY: NULL or the node that holds the port.
    unsafe { physp.p_node.as_ref() }
}

/// OpenSM's copy of the SL2VL row for an in port of a port; an adapter uses in port 0. `None` if
/// there is no table for it.
pub(super) fn row(physp: &osm_physp_t, in_port: u8) -> Option<SlVlRow> {
    let table = row_table(physp, in_port)?;
    // SAFETY: one of the port's tables, which live as long as the port and change under OpenSM's lock only.
    let bytes = unsafe { (*table.as_ptr()).raw_vl_by_sl };
    Some(SlVlRow(u64::from_be_bytes(bytes)))
}

/// Replaces that row, if there is a table for it. For `update_sl2vl`, which OpenSM calls with its
/// lock held exclusively.
pub(super) fn set_row(physp: &osm_physp_t, in_port: u8, row: SlVlRow) {
    if let Some(table) = row_table(physp, in_port) {
        // SAFETY: one of the port's tables, which no other thread uses while OpenSM holds its lock
        // exclusively.
        unsafe { (*table.as_ptr()).raw_vl_by_sl = row.0.to_be_bytes() };
    }
}

fn row_table(physp: &osm_physp_t, in_port: u8) -> Option<NonNull<abi::ib_slvl_table_t>> {
    if usize::from(in_port) >= physp.slvl_by_port.size {
        return None;
    }
    // SAFETY: the port has a table of this number; the function only reads.
    NonNull::new(unsafe { abi::osm_physp_get_slvl_tbl(physp, in_port) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::fake::{FakeOpenSm, chain};

    /// OpenSM's object with all that is checked in place.
    fn in_order(fake: &mut FakeOpenSm) -> NonNull<osm_opensm_t> {
        let osm = fake.osm();
        let own: *mut osm_opensm_t = osm;
        let (subn, log): (*mut abi::osm_subn_t, *mut abi::osm_log_t) = (&raw mut osm.subn, &raw mut osm.log);
        (osm.subn.p_osm, osm.sm.p_subn, osm.sm.p_log) = (own, subn, log);
        (osm.sm.p_lock, osm.sm.p_disp) = (&raw mut osm.lock, &raw mut osm.disp);
        (osm.sm.ucast_mgr.p_subn, osm.sm.ucast_mgr.p_log) = (subn, log);
        (osm.sa.p_subn, osm.sa.p_log) = (subn, log);
        osm.osm_version = abi::OSM_VERSION.as_ptr().cast();
        NonNull::new(own).expect("an object")
    }

    #[test]
    fn an_object_that_is_laid_out_otherwise_is_refused() {
        let mut fake = FakeOpenSm::new(&chain(2));
        let osm = in_order(&mut fake);
        assert!(check_layout(osm).is_ok());
        let refused = |what: &str| match check_layout(osm) {
            Err(HostError::Layout(field)) => assert_eq!(field, what),
            other => panic!("{what}: {other:?}"),
        };
        fake.osm().sm.p_lock = ptr::null_mut();
        refused("sm.p_lock");
        in_order(&mut fake);
        fake.osm().sa.p_log = ptr::null_mut();
        refused("sa.p_log");
        in_order(&mut fake);
        fake.osm().subn.opt.qos = 0x5ead_5eed;
        refused("qos of options");
        fake.osm().subn.opt.qos = abi::TRUE;
        // A pointer that leads nowhere is not followed while anything else is wrong.
        fake.osm().osm_version = ptr::without_provenance(8);
        fake.osm().subn.p_osm = ptr::null_mut();
        refused("subn.p_osm");
        in_order(&mut fake);
        fake.osm().osm_version = c"OpenSM 5.17.0.MLNX".as_ptr();
        refused("osm_version");
    }

    #[test]
    fn what_is_no_opensm_is_refused_with_one_line() {
        // This test's own process exports none of OpenSM's functions.
        let mut fake = FakeOpenSm::new(&chain(2));
        let error = Host::new(in_order(&mut fake).as_ptr()).expect_err("no OpenSM").to_string();
        assert!(error.contains("does not export osm_") && !error.contains('\n'), "{error}");
        assert!(Host::new(ptr::null_mut()).is_err_and(|error| matches!(error, HostError::Null)));
    }
}
