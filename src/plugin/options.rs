//! The values of OpenSM's options that dfdn ignores, as written in `opensm.conf`.

use std::path::PathBuf;

use super::abi::{self, osm_subn_opt_t};
use super::host::c_string;
use crate::engine::ignored_options;

/// A sentence about those that are set; `None` if none is.
///
/// - `options`: those of the live object, see [`Host::options`](super::host::Host::options).
pub(super) fn ignored(options: *const osm_subn_opt_t) -> Option<String> {
    ignored_options(|name| value(options, name))
}

/// Copies a field of OpenSM's options. No reference to them is made: other threads may write to them.
macro_rules! field {
    ($options:expr, $($path:ident).+) => {
        // SAFETY: a field of the options of the live object, read in the thread that sweeps.
        unsafe { (*$options).$($path).+ }
    };
}

/// The files of compute nodes and of storage nodes that OpenSM is told of.
///
/// - `options`: as in [`ignored`].
pub(super) fn role_files(options: *const osm_subn_opt_t) -> [Option<PathBuf>; 2] {
    let files = [field!(options, cn_guid_file), field!(options, io_guid_file)];
    files.map(|name| c_string(name).filter(|name| !name.is_empty()).map(PathBuf::from))
}

/// The file of root switches that OpenSM is told of; `None` if there is none.
///
/// - `options`: as in [`ignored`].
pub(super) fn root_file(options: *const osm_subn_opt_t) -> Option<PathBuf> {
    c_string(field!(options, root_guid_file)).filter(|name| !name.is_empty()).map(PathBuf::from)
}

/// The three tables of a kind of port.
macro_rules! qos {
    ($options:expr, $kind:ident) => {
        [field!($options, $kind.sl2vl), field!($options, $kind.vlarb_high), field!($options, $kind.vlarb_low)]
    };
}

/// The value of one of [`crate::engine::IGNORED_OPTIONS`]; `None` for other names, and if it is not
/// set.
fn value(o: *const osm_subn_opt_t, name: &str) -> Option<String> {
    let text = |text| c_string(text);
    let flag = |flag: abi::boolean_t| Some(if flag == abi::TRUE { "TRUE" } else { "FALSE" }.to_owned());
    if let Some(rest) = name.strip_prefix("qos_") {
        let of = rest.split_once('_').filter(|(of, _)| ["ca", "sw0", "swe", "rtr"].contains(of));
        let (of, rest) = of.unwrap_or(("", rest));
        let [sl2vl, high, low] = match of {
            "ca" => qos!(o, qos_ca_options),
            "sw0" => qos!(o, qos_sw0_options),
            "swe" => qos!(o, qos_swe_options),
            "rtr" => qos!(o, qos_rtr_options),
            _ => qos!(o, qos_options),
        };
        return match rest {
            "sl2vl" => text(sl2vl),
            "vlarb_high" => text(high),
            "vlarb_low" => text(low),
            _ => None,
        };
    }
    match name {
        "port_prof_ignore_file" => text(field!(o, port_prof_ignore_file)),
        "hop_weights_file" => text(field!(o, hop_weights_file)),
        "port_search_ordering_file" => text(field!(o, port_search_ordering_file)),
        "port_profile_switch_nodes" => flag(field!(o, port_profile_switch_nodes)),
        "guid_routing_order_file" => text(field!(o, guid_routing_order_file)),
        "guid_routing_order_no_scatter" => flag(field!(o, guid_routing_order_no_scatter)),
        "scatter_ports" => Some(field!(o, scatter_ports).to_string()),
        "port_shifting" => flag(field!(o, port_shifting)),
        "avoid_throttled_links" => flag(field!(o, avoid_throttled_links)),
        "connect_roots" => flag(field!(o, connect_roots)),
        "ids_guid_file" => text(field!(o, ids_guid_file)),
        "max_reverse_hops" => Some(field!(o, max_reverse_hops).to_string()),
        "quasi_ftree_indexing" => flag(field!(o, quasi_ftree_indexing)),
        "lid_matrix_dump_file" => text(field!(o, lid_matrix_dump_file)),
        "lfts_file" => text(field!(o, lfts_file)),
        "do_mesh_analysis" => flag(field!(o, do_mesh_analysis)),
        "lash_start_vl" => Some(field!(o, lash_start_vl).to_string()),
        "nue_max_num_vls" => Some(field!(o, nue_max_num_vls).to_string()),
        "nue_include_switches" => flag(field!(o, nue_include_switches)),
        "use_optimized_slvl" => flag(field!(o, use_optimized_slvl)),
        _ => None,
    }
}
