//! The names under which OpenSM knows the engines.

use std::ffi::{CString, c_int, c_void};
use std::sync::atomic::AtomicPtr;

use super::abi;
use super::instance::{BuildTree, Plugin, Registered};
use crate::engine;

/// The name of the engine whose algorithm the configuration file chooses. The others are registered under
/// their own names.
pub(super) const CHOSEN_BY_CONFIG: &str = "dfdn";

/// Called by OpenSM when `routing_engine` names an engine.
type Setup = unsafe extern "C" fn(*mut abi::osm_routing_engine, *mut abi::osm_opensm) -> c_int;

/// A warning if `routing_engine` names none of our engines. Names are compared as OpenSM compares them.
pub(super) fn not_asked(engines: &str) -> Option<String> {
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
/// tried. `trees` builds multicast trees. Returns the names that OpenSM refused.
pub(super) fn register(
    plugin: &Plugin,
    context: *const Plugin,
    setup: Setup,
    trees: BuildTree,
) -> Vec<String> {
    let free = engine::ENGINES.iter().filter(|e| e.deadlock_free && e.name != CHOSEN_BY_CONFIG);
    let names = std::iter::once((CHOSEN_BY_CONFIG, None)).chain(free.map(|e| (e.name, Some(e.name))));
    let entry = |(name, fixed)| {
        let name = CString::new(name).expect("names have no NUL");
        Registered { plugin: context, name, fixed, trees, object: AtomicPtr::default() }
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
