//! The values of OpenSM's options that dfdn does not heed, as `opensm.conf` would say them.

use super::abi::{self, osm_subn_opt_t};
use super::host::c_string;
use crate::engine::ignored_options;

/// A sentence about those that are set, `None` if there is none.
pub(super) fn ignored(options: &osm_subn_opt_t) -> Option<String> {
    ignored_options(|name| value(options, name))
}

/// The value of one of [`crate::engine::IGNORED_OPTIONS`]; `None` for other names, and where none is set.
fn value(o: &osm_subn_opt_t, name: &str) -> Option<String> {
    let text = |text| c_string(text);
    let flag = |flag: abi::boolean_t| Some(if flag == abi::TRUE { "TRUE" } else { "FALSE" }.to_owned());
    if let Some(rest) = name.strip_prefix("qos_") {
        let (of, rest) = match rest.split_once('_') {
            Some(("ca", rest)) => (&o.qos_ca_options, rest),
            Some(("sw0", rest)) => (&o.qos_sw0_options, rest),
            Some(("swe", rest)) => (&o.qos_swe_options, rest),
            Some(("rtr", rest)) => (&o.qos_rtr_options, rest),
            _ => (&o.qos_options, rest),
        };
        return match rest {
            "sl2vl" => text(of.sl2vl),
            "vlarb_high" => text(of.vlarb_high),
            "vlarb_low" => text(of.vlarb_low),
            _ => None,
        };
    }
    match name {
        "port_prof_ignore_file" => text(o.port_prof_ignore_file),
        "hop_weights_file" => text(o.hop_weights_file),
        "port_search_ordering_file" => text(o.port_search_ordering_file),
        "port_profile_switch_nodes" => flag(o.port_profile_switch_nodes),
        "guid_routing_order_file" => text(o.guid_routing_order_file),
        "guid_routing_order_no_scatter" => flag(o.guid_routing_order_no_scatter),
        "scatter_ports" => Some(o.scatter_ports.to_string()),
        "port_shifting" => flag(o.port_shifting),
        "avoid_throttled_links" => flag(o.avoid_throttled_links),
        "connect_roots" => flag(o.connect_roots),
        "root_guid_file" => text(o.root_guid_file),
        "ids_guid_file" => text(o.ids_guid_file),
        "cn_guid_file" => text(o.cn_guid_file),
        "io_guid_file" => text(o.io_guid_file),
        "max_reverse_hops" => Some(o.max_reverse_hops.to_string()),
        "quasi_ftree_indexing" => flag(o.quasi_ftree_indexing),
        "lid_matrix_dump_file" => text(o.lid_matrix_dump_file),
        "lfts_file" => text(o.lfts_file),
        "do_mesh_analysis" => flag(o.do_mesh_analysis),
        "lash_start_vl" => Some(o.lash_start_vl.to_string()),
        "nue_max_num_vls" => Some(o.nue_max_num_vls.to_string()),
        "nue_include_switches" => flag(o.nue_include_switches),
        "use_optimized_slvl" => flag(o.use_optimized_slvl),
        _ => None,
    }
}
