//! The functions that OpenSM calls.

use std::collections::HashSet;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;

use super::abi::{self, DONE, FAILED};
use super::configuration::Configuration;
use super::distrust::{Change, Distrust, faulty};
use super::guard::{guarded, install_hook};
use super::host::{self, Host};
use super::mcast;
use super::memory::Size;
use super::message::Message;
use super::notes::Notes;
use super::options;
use super::program;
use super::psl;
use super::recheck::{Recheck, Rows, recheck};
use super::rows::KnownRows;
use super::snapshot::{link_vls, snapshot};
use crate::engine::{self, Routed, Settings};
use crate::fabric::{Fabric, Guid, Sifted};
use crate::tables::Programmed;

/// The engine whose algorithm the configuration file chooses. The others are registered under names
/// of their own.
const CHOSEN_BY_CONFIG: &str = "dfdn";

/// How many sweeps in a row are asked for because SL2VL rows were clipped.
const MAX_FORCED_SWEEPS: u32 = 3;

/// Environment variable that names a callback which is to panic, to see on the very library that
/// is deployed what OpenSM then does.
const DRILL: &str = "DFDN_DRILL_PANIC";

/// What OpenSM looks for in the library: its version, to the letter, and three functions.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_upper_case_globals)]
pub static osm_event_plugin: EventPlugin = EventPlugin(abi::osm_event_plugin_t {
    osm_version: abi::OSM_VERSION.as_ptr().cast::<c_char>(),
    create: Some(create),
    delete: Some(delete),
    report: Some(report),
});

/// The exported table, laid out as OpenSM's `osm_event_plugin_t`.
#[derive(Debug)]
#[repr(transparent)]
pub struct EventPlugin(abi::osm_event_plugin_t);

// SAFETY: constant; the pointers in it lead to constants and functions.
unsafe impl Sync for EventPlugin {}

/// The plugin: one for each OpenSM object, from `create` to `delete`.
struct Plugin {
    host: Host,
    /// Settings by the configuration file.
    configuration: Mutex<Configuration>,
    /// The engines that OpenSM knows, set once by `create`; each is the context of its callbacks.
    registered: OnceLock<Vec<Registered>>,
    /// Computed and verified, hop counts written if they are read, forwarding tables not yet.
    pending: Mutex<Option<Pending>>,
    /// What is in the switches.
    programmed: ArcSwapOption<Programmed>,
    /// What OpenSM knows of SL2VL rows.
    known_rows: KnownRows,
    /// Sweeps asked for in a row because of rows between switches.
    forced_sweeps: AtomicU32,
    /// The same because of rows towards and of adapters alone, which are less urgent.
    forced_sweeps_at_adapters: AtomicU32,
    /// Whether the next regular sweep is to be a heavy one.
    retry_later: AtomicBool,
    /// Switches that do not take their tables.
    distrust: Distrust,
    /// What was said of the fabric.
    notes: Notes,
    /// What was said last of options without effect.
    unheeded: Mutex<Option<String>>,
    /// Gaps of multicast groups that a sweep was asked for already.
    gaps: Mutex<HashSet<(u16, String)>>,
    /// The callback that is to panic, from the environment variable [`DRILL`].
    drill: Option<String>,
}

/// An engine as OpenSM knows it.
struct Registered {
    plugin: *const Plugin,
    /// Its name.
    name: CString,
    /// The same, to route by; `None` for the one that the configuration chooses.
    fixed: Option<&'static str>,
    /// OpenSM's own object for it, from `setup` to `destroy`.
    object: AtomicPtr<abi::osm_routing_engine>,
}

struct Pending {
    fabric: Fabric,
    /// GUIDs of switches and of adapter ports that are left out, ascending.
    left_out: (Vec<Guid>, Vec<Guid>),
    routed: Routed,
    started: Instant,
    /// What the snapshot took.
    reading: Duration,
    /// What the lid matrix and the forwarding tables took.
    writing: Duration,
}

/// Runs the body of the callback `name` with the plugin behind its context. A panic is logged and
/// becomes `failed`.
fn with_plugin<T>(context: *const c_void, name: &str, failed: T, body: impl FnOnce(&Plugin) -> T) -> T {
    // SAFETY: OpenSM passes what `create` gave it, until `delete`; NULL never.
    let Some(plugin) = (unsafe { context.cast::<Plugin>().as_ref() }) else { return failed };
    let drilled = || {
        assert!(plugin.drill.as_deref() != Some(name), "{DRILL}={name} asks for it");
        body(plugin)
    };
    match guarded(drilled) {
        Ok(value) => value,
        Err(text) => {
            let text = format!("{text}. This is a defect of dfdn; OpenSM goes on without it (in {name})");
            // Logging itself may be what failed.
            let _ = guarded(|| plugin.host.log(Message::Panic, &text));
            failed
        }
    }
}

/// [`with_plugin`] for the callbacks of an engine.
fn with_engine<T>(
    context: *const c_void,
    name: &str,
    failed: T,
    body: impl FnOnce(&Plugin, &Registered) -> T,
) -> T {
    // SAFETY: OpenSM passes the context that the engine was registered with, which the plugin owns.
    let Some(engine) = (unsafe { context.cast::<Registered>().as_ref() }) else { return failed };
    with_plugin(engine.plugin.cast(), name, failed, |plugin| body(plugin, engine))
}

/// Loads the plugin. NULL makes OpenSM go on without it.
unsafe extern "C" fn create(osm: *mut abi::osm_opensm) -> *mut c_void {
    install_hook();
    let created = guarded(|| {
        let host = match Host::new(osm) {
            Ok(host) => host,
            Err(error) => {
                eprintln!("dfdn: ERR {}: not loaded: {error}", Message::NotRegistered.code());
                return std::ptr::null_mut();
            }
        };
        if host.force_qos_on() {
            host.log(
                Message::QosForcedOn,
                "qos was FALSE and is now on: without it OpenSM would program no SL2VL tables and credit loops \
                 were possible. Put 'qos TRUE' into opensm.conf to say so yourself",
            );
        }
        let drill = std::env::var(DRILL).ok();
        if let Some(name) = &drill {
            host.log(Message::Drill, &format!("{DRILL} is set: {name} will panic on purpose"));
        }
        let plugin = Box::into_raw(Box::new(Plugin {
            host,
            configuration: Mutex::new(Configuration::new()),
            registered: OnceLock::new(),
            pending: Mutex::new(None),
            programmed: ArcSwapOption::empty(),
            known_rows: KnownRows::default(),
            forced_sweeps: AtomicU32::new(0),
            forced_sweeps_at_adapters: AtomicU32::new(0),
            retry_later: AtomicBool::new(false),
            distrust: Distrust::default(),
            notes: Notes::default(),
            unheeded: Mutex::new(None),
            gaps: Mutex::new(HashSet::new()),
            drill,
        }));
        // SAFETY: made above, and freed nowhere but below and in `delete`.
        let refused = register(unsafe { &*plugin }, plugin);
        if refused.iter().any(|name| name == CHOSEN_BY_CONFIG) {
            host.log(
                Message::NotRegistered,
                "OpenSM refused the engine 'dfdn', as it does when a plugin of this name is loaded already: name \
                 it once in event_plugin_name",
            );
            // SAFETY: made above; the engines that point to it were refused, so nobody knows of it.
            drop(unsafe { Box::from_raw(plugin) });
            return std::ptr::null_mut();
        }
        for name in refused {
            host.log(Message::EngineRefused, &format!("OpenSM has another engine named '{name}'"));
        }
        if let Some(text) = not_asked(&host.options_engines()) {
            host.log(Message::NotAsked, &text);
        }
        host.log(
            Message::Ready,
            concat!(
                "version ",
                env!("CARGO_PKG_VERSION"),
                " ready; it routes where opensm.conf says 'routing_engine dfdn' (and with \
                 'routing_engine dfdn,no_fallback' nothing else does when it cannot)"
            ),
        );
        plugin.cast()
    });
    created.unwrap_or_else(|text| {
        eprintln!("dfdn: ERR {}: not loaded: {text}", Message::Panic.code());
        std::ptr::null_mut()
    })
}

/// A sentence where `routing_engine` names none of our engines; names are as OpenSM tells them apart.
fn not_asked(engines: &str) -> Option<String> {
    let names: Vec<&str> = engines.split([',', ' ', '\t']).filter(|name| !name.is_empty()).collect();
    let ours: Vec<&str> = engine::ENGINES.iter().filter(|e| e.deadlock_free).map(|e| e.name).collect();
    let none = !names.iter().any(|name| ours.contains(name));
    none.then(|| {
        format!(
            "routing_engine names no engine of dfdn ({}), so dfdn routes nothing: OpenSM's own engines do, minhop if \
             it knows none of the names. For dfdn write 'routing_engine dfdn,no_fallback' into opensm.conf; it has {}",
            if names.is_empty() { "none at all".to_owned() } else { names.join(", ") },
            ours.join(", ")
        )
    })
}

/// Registers all deadlock-free engines, the configurable one first: if that is refused, no other is
/// tried. Returns the names that OpenSM refused.
fn register(plugin: &Plugin, context: *const Plugin) -> Vec<String> {
    let free = engine::ENGINES.iter().filter(|e| e.deadlock_free && e.name != CHOSEN_BY_CONFIG);
    let names = std::iter::once((CHOSEN_BY_CONFIG, None)).chain(free.map(|e| (e.name, Some(e.name))));
    let entry = |(name, fixed)| {
        let name = CString::new(name).expect("names have no NUL");
        Registered { plugin: context, name, fixed, object: AtomicPtr::default() }
    };
    let registered = plugin.registered.get_or_init(|| names.map(entry).collect());
    let mut refused = Vec::new();
    for engine in registered {
        let context = std::ptr::from_ref(engine).cast_mut().cast::<c_void>();
        let name = engine.name.as_ptr();
        let module = abi::external_routing_engine_module_t { name, setup: Some(setup), context };
        let (register, osm) = (plugin.host.functions().register, plugin.host.as_ptr());
        // SAFETY: OpenSM copies the module and its name; the context lives as long as the plugin.
        let status = unsafe { register(osm, &raw const module, context) };
        if status != 0 {
            refused.push(engine.name.to_string_lossy().into_owned());
            if engine.fixed.is_none() {
                break;
            }
        }
    }
    refused
}

/// Unloads the plugin. OpenSM has destroyed its engines before, so nobody calls it any more.
unsafe extern "C" fn delete(plugin: *mut c_void) {
    let _ = guarded(|| {
        if !plugin.is_null() {
            // SAFETY: what `create` gave out, given back once. No thread of ours is left: the pool of
            // `build_lid_matrices` joins its threads before it returns.
            drop(unsafe { Box::from_raw(plugin.cast::<Plugin>()) });
        }
    });
}

/// Fills the callback table of the engine `dfdn`. Its context was set by OpenSM.
unsafe extern "C" fn setup(engine: *mut abi::osm_routing_engine, _: *mut abi::osm_opensm) -> c_int {
    // SAFETY: OpenSM passes its new engine and nobody else knows of it yet.
    let Some(engine) = (unsafe { engine.as_mut() }) else { return FAILED };
    engine.build_lid_matrices = Some(build_lid_matrices);
    engine.ucast_build_fwd_tables = Some(ucast_build_fwd_tables);
    engine.update_sl2vl = Some(update_sl2vl);
    engine.update_vlarb = Some(update_vlarb);
    engine.path_sl = Some(path_sl);
    engine.mcast_build_stree = Some(mcast_build_stree);
    engine.destroy = Some(destroy);
    let object = std::ptr::from_mut(engine);
    let context = engine.context;
    with_engine(context, "setup", (), |_, registered| registered.object.store(object, Ordering::Relaxed));
    DONE
}

/// The engine goes; what it uses belongs to the plugin, which is freed by `delete`.
unsafe extern "C" fn destroy(context: *mut c_void) {
    with_engine(context, "destroy", (), |_, engine| {
        engine.object.store(std::ptr::null_mut(), Ordering::Relaxed);
    });
}

/// Writes a multicast group into OpenSM's tables, which it has cleared of the group before.
unsafe extern "C" fn mcast_build_stree(
    context: *mut c_void,
    group: *mut abi::osm_mgrp_box_t,
) -> abi::ib_api_status_t {
    let failed = abi::_ib_api_status_t_IB_ERROR;
    with_engine(context, "mcast_build_stree", failed, |plugin, _| {
        // SAFETY: OpenSM passes a group of its own, under its lock.
        let Some(group) = (unsafe { group.as_ref() }) else { return failed };
        if plugin.route_group(group) { abi::_ib_api_status_t_IB_SUCCESS } else { failed }
    })
}

/// Reads the subnet, computes and verifies everything, writes hop counts if they are read.
unsafe extern "C" fn build_lid_matrices(context: *mut c_void) -> c_int {
    with_engine(context, "build_lid_matrices", FAILED, |plugin, engine| match plugin.compute(engine) {
        Ok(()) => DONE,
        Err((message, text)) => {
            plugin.host.log(message, &text);
            FAILED
        }
    })
}

/// Writes the forwarding tables and publishes what the other callbacks look up.
unsafe extern "C" fn ucast_build_fwd_tables(context: *mut c_void) -> c_int {
    let done = with_engine(context, "ucast_build_fwd_tables", FAILED, |plugin, engine| {
        match plugin.commit(engine) {
            Ok(()) => DONE,
            Err((message, text)) => {
                plugin.host.log(message, &text);
                FAILED
            }
        }
    });
    if done != DONE {
        // The next engine expects the lid matrix as it was before build_lid_matrices.
        with_engine(context, "clear_hops", (), |plugin, _| program::clear_hops(&plugin.host));
    }
    done
}

/// The SL2VL row of (in port, out port) of a switch, or that of an adapter.
unsafe extern "C" fn update_sl2vl(
    context: *mut c_void,
    port: *mut abi::osm_physp_t,
    in_port: u8,
    out_port: u8,
    table: *mut abi::ib_slvl_table_t,
) {
    with_engine(context, "update_sl2vl", (), |plugin, _| {
        let programmed = plugin.programmed.load();
        let Some(programmed) = programmed.as_deref() else { return };
        // SAFETY: OpenSM passes one of its ports.
        let Some(port) = (unsafe { port.as_ref() }) else { return };
        let guid = host::node_of(port).map(host::node_guid).unwrap_or_default();
        let row = match programmed.switch(guid) {
            Some(switch) => programmed.row(switch, in_port, out_port).unwrap_or_default(),
            None => programmed.routes.sl2vl.adapters(),
        };
        plugin.known_rows.asked(&plugin.host, port, in_port, row);
        // SAFETY: OpenSM passes a table of its own stack.
        if let Some(table) = unsafe { table.as_mut() } {
            table.raw_vl_by_sl = row.0.to_be_bytes();
        }
    });
}

/// Blocks 0 and 1 are the low-priority table, 2 and 3 the high-priority one. All VLs in use get the
/// same weight in the low table; only where that has fewer entries than there are VLs do the rest
/// go into the high one.
unsafe extern "C" fn update_vlarb(
    context: *mut c_void,
    port: *mut abi::osm_physp_t,
    _: u8,
    block: *mut abi::ib_vl_arb_table_t,
    length: c_uint,
    number: c_uint,
) {
    with_engine(context, "update_vlarb", (), |plugin, _| {
        const BLOCK: usize = 32;
        let programmed = plugin.programmed.load();
        let Some(programmed) = programmed.as_deref() else { return };
        // SAFETY: OpenSM passes one of its ports.
        let Some(port) = (unsafe { port.as_ref() }) else { return };
        // SAFETY: OpenSM passes a block of its own stack.
        let Some(block) = (unsafe { block.as_mut() }) else { return };
        // A link with fewer VLs than are in use (an adapter's) arbitrates among those that it has: an
        // entry beyond them would be folded onto a lower VL and double its weight.
        let vls = link_vls(&plugin.host, port);
        let entries: Vec<_> = programmed.routes.vlarb.low.iter().filter(|(vl, _)| vl.0 < vls).collect();
        let low_room = usize::from(port.port_info.vl_arb_low_cap).min(entries.len());
        let (entries, first) = match number {
            0 | 1 => (&entries[..low_room], number as usize * BLOCK),
            _ => (&entries[low_room..], (number as usize - 2) * BLOCK),
        };
        for (i, slot) in block.vl_entry.iter_mut().enumerate().take(length as usize) {
            let entry = entries.get(first + i);
            slot.vl = entry.map_or(0, |(vl, _)| vl.0);
            slot.weight = entry.map_or(0, |(_, weight)| *weight);
        }
    });
}

/// The SL of a path; LIDs in network order. Called from the SA's threads, several at once.
unsafe extern "C" fn path_sl(
    context: *mut c_void,
    hint: u8,
    slid: abi::ib_net16_t,
    dlid: abi::ib_net16_t,
) -> u8 {
    with_engine(context, "path_sl", hint, |plugin, _| match plugin.programmed.load().as_deref() {
        Some(programmed) => programmed.path_sl(hint, u16::from_be(slid), u16::from_be(dlid)),
        None => hint,
    })
}

/// Events of the subnet.
unsafe extern "C" fn report(context: *mut c_void, event: abi::osm_epi_event_id_t, _: *mut c_void) {
    // These come from the thread that sweeps, the others from any. A thread that comes here for the
    // first time has the C library allocate what is its own in this library, and that ends the process
    // where there is no memory: so as few as possible come.
    let ours = [
        abi::osm_epi_event_id_t_OSM_EVENT_ID_UCAST_ROUTING_DONE,
        abi::osm_epi_event_id_t_OSM_EVENT_ID_SUBNET_UP,
    ];
    if !ours.contains(&event) {
        return;
    }
    with_plugin(context, "report", (), |plugin| {
        let ours = || plugin.is_ours();
        match event {
            abi::osm_epi_event_id_t_OSM_EVENT_ID_UCAST_ROUTING_DONE => {
                if ours() {
                    plugin.recheck();
                } else {
                    plugin.known_rows.sent_by_another();
                    plugin.forced_sweeps.store(0, Ordering::Relaxed);
                }
            }
            abi::osm_epi_event_id_t_OSM_EVENT_ID_SUBNET_UP => {
                if plugin.retry_later.swap(false, Ordering::Relaxed) {
                    plugin.host.make_next_sweep_heavy();
                }
                if plugin.host.dumps_routing() {
                    plugin.write_psl(ours());
                }
            }
            _ => {}
        }
    });
}

type Failure = (Message, String);

impl Plugin {
    /// Whether the engine in use is one of ours.
    fn is_ours(&self) -> bool {
        let ours = self.registered.get().map_or(&[][..], Vec::as_slice);
        let used = self.host.engine_used().map(|engine| engine.context.cast_const());
        used.is_some_and(|used| {
            ours.iter().any(|engine| std::ptr::eq(used, std::ptr::from_ref(engine).cast()))
        })
    }

    /// What to route with: the configuration file as it is now, with the engine that OpenSM named.
    fn settings(&self, engine: &Registered) -> Result<Settings, Failure> {
        let mut configuration = self.configuration.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let read = configuration.read().map_err(|error| (Message::ConfigFailed, error))?;
        if let Some(error) = read.kept_in_spite_of {
            let text = format!("{error}. The settings of the last good file stay in force");
            self.host.log(Message::ConfigFailed, &text);
        }
        if let Some(news) = read.news {
            self.host.log(Message::Settings, &news);
        }
        let mut settings = read.settings;
        if let Some(name) = engine.fixed {
            name.clone_into(&mut settings.engine);
        }
        Ok(settings)
    }

    /// Says which options have no effect, when that is news.
    fn tell_unheeded(&self) {
        let mut told = self.unheeded.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let now = options::unheeded(self.host.options());
        if let Some(text) = now.as_ref().filter(|text| told.as_ref() != Some(text)) {
            self.host.log(Message::Unheeded, text);
        }
        *told = now;
    }

    fn compute(&self, engine: &Registered) -> Result<(), Failure> {
        let started = Instant::now();
        let mut pending = self.pending.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *pending = None;
        let settings = self.settings(engine)?;
        self.tell_unheeded();
        Size::of(&self.host).check().map_err(|error| (Message::TooLittleMemory, error))?;
        let Sifted { fabric, left_out, switches, adapters } = snapshot(&self.host, &self.distrust.switches())
            .map_err(|error| (Message::SnapshotFailed, error.to_string()))?;
        let reading = started.elapsed();
        let notes = fabric.notes().iter().map(|note| fabric.explain(note));
        for note in self.notes.news(left_out.into_iter().chain(notes)) {
            self.host.log(Message::FabricNote, &note);
        }
        let routed = in_own_threads(|| engine::route(&fabric, &settings))
            .map_err(|error| (Message::RouteFailed, error))?
            .map_err(|error| (Message::RouteFailed, error.to_string()))?;
        let writing = Instant::now();
        let host = &self.host;
        if self.hops_are_read(&routed) {
            in_own_threads(|| program::write_hops(host, &fabric, &switches, &routed))
                .map_err(|error| (Message::CommitFailed, error))?
                .map_err(|error| (Message::CommitFailed, error.to_string()))?;
        }
        let writing = writing.elapsed();
        *pending =
            Some(Pending { fabric, left_out: (switches, adapters), routed, started, reading, writing });
        Ok(())
    }

    /// Whether OpenSM reads hop counts after an engine of ours: for multicast trees of its own and for
    /// dumps, which where it keeps a cache of unicast tables may be asked for long after. Else they stay
    /// "no path", as writing them takes OpenSM an allocation for each two switches.
    fn hops_are_read(&self, routed: &Routed) -> bool {
        let cached = self.host.options().use_ucast_cache == abi::TRUE;
        routed.routes.multicast.is_empty() || self.host.dumps_routing() || cached
    }

    fn commit(&self, engine: &Registered) -> Result<(), Failure> {
        let mut pending = self.pending.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let nothing = || (Message::NothingToCommit, "no tables were computed in this sweep".to_owned());
        let mut pending = pending.take().ok_or_else(nothing)?;
        let Pending { fabric, left_out, routed, .. } = &pending;
        let (host, start) = (&self.host, Instant::now());
        in_own_threads(|| program::write_lfts(host, fabric, &left_out.0, &routed.routes.lft))
            .map_err(|error| (Message::CommitFailed, error))?
            .map_err(|error| (Message::CommitFailed, error.to_string()))?;
        pending.writing += start.elapsed();
        self.host.log(Message::Routed, &summary(&pending));
        let Pending { fabric, left_out, routed, .. } = pending;
        // SAFETY: NULL, or the object that `setup` was given, before `destroy`; OpenSM calls engines under
        // its lock, held exclusively.
        if let Some(object) = unsafe { engine.object.load(Ordering::Relaxed).as_mut() } {
            // Without the callback OpenSM builds trees of its own.
            let ours = !routed.routes.multicast.is_empty();
            object.mcast_build_stree = if ours { Some(mcast_build_stree) } else { None };
        }
        let (switches, adapters) = left_out;
        let programmed = Programmed::new(fabric, routed.routes).without(switches.into_iter().chain(adapters));
        self.programmed.store(Some(std::sync::Arc::new(programmed)));
        Ok(())
    }

    /// Routes a multicast group on its tree; false where no tree serves it.
    fn route_group(&self, group: &abi::osm_mgrp_box_t) -> bool {
        let programmed = self.programmed.load();
        let Some(programmed) = programmed.as_deref() else { return false };
        let mlid = group.mlid;
        match mcast::route(&self.host, programmed, group) {
            mcast::Outcome::NotServed { sls } => {
                let list: Vec<String> =
                    (0..16).filter(|sl| sls & 1 << sl != 0).map(|sl: u16| sl.to_string()).collect();
                let text = format!(
                    "multicast group 0x{mlid:04x} has SL {} and no tree that is free of credit loops serves it: \
                     it is not routed. Give its partition SL 0 in partitions.conf",
                    list.join(" and ")
                );
                self.host.log(Message::GroupNotServed, &text);
                false
            }
            mcast::Outcome::Routed { members, switches, gap: None } => {
                let text =
                    format!("multicast group 0x{mlid:04x}: {members} members over {switches} switches");
                self.host.log(Message::GroupRouted, &text);
                let mut gaps = self.gaps.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                gaps.retain(|(group, _)| *group != mlid);
                true
            }
            mcast::Outcome::Routed { gap: Some(gap), .. } => {
                let mut gaps = self.gaps.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                // A gap that another sweep did not mend stays, so sweeps are not asked for without end.
                let new = gaps.insert((mlid, gap.clone()));
                let then =
                    if new { "The fabric will be routed anew" } else { "Another sweep did not mend it" };
                let text =
                    format!("multicast group 0x{mlid:04x} does not reach all its members: {gap}. {then}");
                self.host.log(Message::GroupHasGap, &text);
                if new {
                    self.host.route_anew();
                }
                true
            }
        }
    }

    /// Looks for SL2VL rows that were clipped or not acknowledged, and asks for another sweep where there are any.
    fn recheck(&self) {
        let programmed = self.programmed.load();
        let Some(programmed) = programmed.as_deref() else { return };
        let Recheck { between_switches, at_adapters } = self.host.locked(|| recheck(&self.host, programmed));
        let (faulty, switches) = self.host.locked(|| faulty(&self.host, programmed));
        match self.distrust.count(&faulty, switches) {
            Change::Routes => self.host.force_heavy_sweep(),
            Change::Waits => self.retry_later.store(true, Ordering::Relaxed),
            Change::None => {}
        }
        let rows = between_switches.compared + at_adapters.compared;
        if between_switches.different == 0 {
            self.forced_sweeps.store(0, Ordering::Relaxed);
        }
        if at_adapters.different == 0 {
            self.forced_sweeps_at_adapters.store(0, Ordering::Relaxed);
        }
        if between_switches.different > 0 {
            let danger = "the fabric is not safe from credit loops";
            self.rows_differ(&between_switches, &self.forced_sweeps, danger);
        } else if at_adapters.different > 0 {
            let danger = "links to adapters do not keep classes of service apart, which makes no credit loop";
            self.rows_differ(&at_adapters, &self.forced_sweeps_at_adapters, danger);
        } else {
            let text = format!("all {rows} SL2VL rows that matter are in place as verified");
            self.host.log(Message::Programmed, &text);
        }
    }

    /// Asks for another sweep, unless so many have not helped. `danger`: what holds until then.
    fn rows_differ(&self, rows: &Rows, forced_sweeps: &AtomicU32, danger: &str) {
        let Rows { compared, different, example } = rows;
        let example = example.as_deref().unwrap_or_default();
        let count = format!("{different} of {compared} SL2VL rows are not in place, first {example}");
        if forced_sweeps.fetch_add(1, Ordering::Relaxed) < MAX_FORCED_SWEEPS {
            let text = format!(
                "{count}. Until another heavy sweep, which is asked for and which opensm -o does not make, {danger}"
            );
            self.host.log(Message::RowsDiffer, &text);
            self.host.force_heavy_sweep();
        } else {
            let text = format!(
                "{count}, after {MAX_FORCED_SWEEPS} more sweeps: {danger}. Look for failed SL2VL MADs above and for \
                 nodes that refuse their tables. Tried again at each regular sweep"
            );
            self.retry_later.store(true, Ordering::Relaxed);
            self.host.log(Message::RowsStayDifferent, &text);
        }
    }

    fn write_psl(&self, ours: bool) {
        let programmed = self.programmed.load();
        let path_sl = programmed.as_deref().filter(|_| ours).map(|p| &p.routes.path_sl);
        match self.host.locked(|| psl::write(&self.host, path_sl)) {
            Ok(psl::Outcome::Written(endports)) => {
                self.host.log(Message::PslWritten, &format!("SLs of {endports} end ports written to psl"));
            }
            Ok(psl::Outcome::Skipped(why)) => self.host.log(Message::PslSkipped, &format!("no psl: {why}")),
            Err(why) => self.host.log(Message::PslFailed, &why),
        }
    }
}

/// `12 switches, 48 adapters, 72 links: DF-D2 ..., 2 VLs, 1 SL, ...; 3.1 ms`.
fn summary(pending: &Pending) -> String {
    let Pending { fabric, routed, started, reading, writing, .. } = pending;
    let verdict = &routed.verdict;
    format!(
        "{fabric}: {}; {} of {} VLs, {} SLs, verified: every pair reachable, deadlock-free{}; safe if hosts use: {}; \
         {:.3} s from snapshot to commit ({:.3} s reading, {:.3} s computing, {:.3} s verifying, {:.3} s writing)",
        routed.routes.remarks.join("; "),
        verdict.vls_all,
        routed.offer.vls,
        verdict.sls_all,
        if verdict.multicast.is_some() { " together with multicast" } else { "" },
        routed.safety.describe(),
        started.elapsed().as_secs_f64(),
        reading.as_secs_f64(),
        routed.computing.as_secs_f64(),
        routed.judging.as_secs_f64(),
        writing.as_secs_f64(),
    )
}

/// Runs `body` with as many threads as there are cores, and joins them before it returns: a thread
/// that outlived the library would run in unmapped memory after OpenSM closed it.
fn in_own_threads<T: Send>(body: impl FnOnce() -> T + Send) -> Result<T, String> {
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_scoped(|thread| thread.run(), |pool| pool.install(body))
        .map_err(|error| format!("cannot start {threads} threads: {error}"))
}
