//! Loading and unloading of the plugin by OpenSM: the exported table, and the callback table of an
//! engine.

use std::ffi::{c_char, c_int, c_void};
use std::io::Write as _;
use std::sync::atomic::Ordering;

use super::abi::{self, DONE, FAILED};
use super::callbacks::{
    build_lid_matrices, mcast_build_stree, path_sl, report, ucast_build_fwd_tables, update_sl2vl,
    update_vlarb, with_engine,
};
use super::drill::Drill;
use super::guard::{guarded, install_hook};
use super::host::Host;
use super::instance::Plugin;
use super::message::Message;
use super::registration::{CHOSEN_BY_CONFIG, not_asked, register};

/// The table that OpenSM looks up in the library: OpenSM's exact version, and three functions.
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

/// Loads the plugin. NULL makes OpenSM continue without it.
unsafe extern "C" fn create(osm: *mut abi::osm_opensm) -> *mut c_void {
    install_hook();
    let created = guarded(|| {
        let host = match Host::new(osm) {
            Ok(host) => host,
            Err(error) => {
                not_loaded(Message::NotRegistered, &error.to_string());
                return std::ptr::null_mut();
            }
        };
        host.keep_qos_on();
        let drill = Drill::from_environment();
        if let Some(drill) = &drill {
            host.log(Message::Drill, &drill.describe());
        }
        let plugin = Box::into_raw(Box::new(Plugin::new(host, drill)));
        // SAFETY: created above, and freed only below and in `delete`.
        let refused = register(unsafe { &*plugin }, plugin, setup, mcast_build_stree);
        if refused.iter().any(|name| name == CHOSEN_BY_CONFIG) {
            host.log(
                Message::NotRegistered,
                "OpenSM refused the engine 'dfdn', as it does when a plugin of this name is loaded already: name \
                 it once in event_plugin_name",
            );
            // SAFETY: created above; the engines that point to it were refused, so no other pointer to it
            // exists.
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
        // SAFETY: created above, and freed in `delete` alone.
        unsafe { &*plugin }.check_settings();
        plugin.cast()
    });
    created.unwrap_or_else(|text| {
        not_loaded(Message::Panic, &text);
        std::ptr::null_mut()
    })
}

/// Says so on standard error: there is no log yet. Where that cannot be written, nobody is told.
fn not_loaded(message: Message, why: &str) {
    let _ = writeln!(std::io::stderr(), "dfdn: ERR {}: not loaded: {why}", message.code());
}

/// Unloads the plugin. OpenSM has destroyed its engines before, so it is not called any more.
unsafe extern "C" fn delete(plugin: *mut c_void) {
    let _ = guarded(|| {
        if !plugin.is_null() {
            // SAFETY: created by `create`, returned once. No thread of ours is left: those of a callback are
            // joined before it returns, and that of `Retry` when it is dropped here.
            drop(unsafe { Box::from_raw(plugin.cast::<Plugin>()) });
        }
    });
}

/// Fills the callback table of an engine. Its context was set by OpenSM.
unsafe extern "C" fn setup(engine: *mut abi::osm_routing_engine, _: *mut abi::osm_opensm) -> c_int {
    // SAFETY: OpenSM passes its new engine, and no other pointer to it exists yet.
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

/// Destroys the engine. Its data belongs to the plugin, which `delete` frees.
unsafe extern "C" fn destroy(context: *mut c_void) {
    with_engine(context, "destroy", (), |_, engine| {
        engine.object.store(std::ptr::null_mut(), Ordering::Relaxed);
    });
}
