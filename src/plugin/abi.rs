//! OpenSM's C interface as bindgen reads it, and the functions that the opensm process exports.

use std::ffi::{CStr, c_char, c_int, c_void};

#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    dead_code,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/opensm.rs"));
}

pub(super) use bindings::*;

pub(super) type LogFn = unsafe extern "C" fn(*mut osm_log_t, osm_log_level_t, *const c_char, ...);
type RegisterFn = unsafe extern "C" fn(
    *mut osm_opensm_t,
    *const external_routing_engine_module_t,
    *mut c_void,
) -> cl_status_t;
type SetHopsFn = unsafe extern "C" fn(*mut osm_switch_t, u16, u8, u8) -> cl_status_t;
type ClearHopsFn = unsafe extern "C" fn(*mut osm_switch_t);
type SweepFn = unsafe extern "C" fn(*mut osm_sm_t);
type McastTblSetFn = unsafe extern "C" fn(*mut osm_mcast_tbl_t, u16, u8);
type CacheInvalidateFn = unsafe extern "C" fn(*mut osm_ucast_mgr_t);
type MapGetFn = unsafe extern "C" fn(*const cl_qmap_t, u64) -> *mut cl_map_item_t;

// The types above are those of the headers. Only constants use these functions: a use at run time
// would add their names to the symbols that the library needs to load.
const _: LogFn = osm_log;
const _: RegisterFn = osm_register_external_routing_engine;
const _: SetHopsFn = osm_switch_set_hops;
const _: ClearHopsFn = osm_switch_clear_hops;
const _: SweepFn = osm_sm_sweep;
const _: McastTblSetFn = osm_mcast_tbl_set;
const _: CacheInvalidateFn = osm_ucast_cache_invalidate;
const _: MapGetFn = cl_qmap_get;

/// Functions of the opensm process, looked up by name when the plugin is created. If the library
/// named them as undefined symbols and one were missing, the whole library would fail to load with
/// a message of the dynamic loader; this way `create` can say which one is missing and what to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostFunctions {
    pub(super) log: LogFn,
    pub(super) register: RegisterFn,
    pub(super) set_hops: SetHopsFn,
    pub(super) clear_hops: ClearHopsFn,
    pub(super) sweep: SweepFn,
    pub(super) mcast_tbl_set: McastTblSetFn,
    pub(super) cache_invalidate: CacheInvalidateFn,
    pub(super) map_get: MapGetFn,
}

impl HostFunctions {
    /// Looks up all of them; the name of the first missing one otherwise.
    pub(super) fn find() -> Result<Self, &'static str> {
        fn symbol(name: &'static CStr) -> Result<*mut c_void, &'static str> {
            // SAFETY: the name is NUL-terminated and RTLD_DEFAULT is a valid handle.
            let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            if address.is_null() { Err(name.to_str().unwrap_or("?")) } else { Ok(address) }
        }
        let log = symbol(c"osm_log")?;
        let register = symbol(c"osm_register_external_routing_engine")?;
        let set_hops = symbol(c"osm_switch_set_hops")?;
        let clear_hops = symbol(c"osm_switch_clear_hops")?;
        let sweep = symbol(c"osm_sm_sweep")?;
        let mcast_tbl_set = symbol(c"osm_mcast_tbl_set")?;
        let cache_invalidate = symbol(c"osm_ucast_cache_invalidate")?;
        let map_get = symbol(c"cl_qmap_get")?;
        Ok(Self {
            // SAFETY: OpenSM's function of this name; its type is checked against the header above.
            log: unsafe { std::mem::transmute::<*mut c_void, LogFn>(log) },
            // SAFETY: as above.
            register: unsafe { std::mem::transmute::<*mut c_void, RegisterFn>(register) },
            // SAFETY: as above.
            set_hops: unsafe { std::mem::transmute::<*mut c_void, SetHopsFn>(set_hops) },
            // SAFETY: as above.
            clear_hops: unsafe { std::mem::transmute::<*mut c_void, ClearHopsFn>(clear_hops) },
            // SAFETY: as above.
            sweep: unsafe { std::mem::transmute::<*mut c_void, SweepFn>(sweep) },
            // SAFETY: as above.
            mcast_tbl_set: unsafe { std::mem::transmute::<*mut c_void, McastTblSetFn>(mcast_tbl_set) },
            // SAFETY: as above.
            cache_invalidate: unsafe {
                std::mem::transmute::<*mut c_void, CacheInvalidateFn>(cache_invalidate)
            },
            // SAFETY: as above.
            map_get: unsafe { std::mem::transmute::<*mut c_void, MapGetFn>(map_get) },
        })
    }
}

/// Returned by a callback that did its work.
pub(super) const DONE: c_int = 0;
/// Returned by a callback that failed: OpenSM tries the next engine. (A positive number would make
/// OpenSM run its own default for the step, which silently installs min-hop tables.)
pub(super) const FAILED: c_int = -1;
/// Returned by a build callback to make OpenSM do the step itself.
pub(super) const OPENSM_DOES_IT: c_int = 1;
/// OpenSM's TRUE.
pub(super) const TRUE: boolean_t = 1;
