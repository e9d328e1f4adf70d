//! Options of OpenSM that steer other engines and have no effect on this one. The log names those that are set, and
//! `dfdn doctor` does so beforehand.

/// An option of `opensm.conf` that has no effect on the tables of dfdn.
#[derive(Clone, Copy, Debug)]
pub struct IgnoredOption {
    /// Its name.
    pub name: &'static str,
    /// Its value as `opensm.conf` has it by default; `(null)` for none.
    pub default: &'static str,
    /// Why it has none, in a few words.
    pub why: &'static str,
}

impl IgnoredOption {
    /// Whether a value is another than the default, numbers in any notation, words in any case.
    pub fn is_set(&self, value: &str) -> bool {
        let plain = |text: &str| {
            let text = text.trim().to_ascii_lowercase();
            let number = match text.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).ok(),
                None => text.parse().ok(),
            };
            number.map_or(text, |number| number.to_string())
        };
        ![String::new(), NULL.to_owned(), plain(self.default)].contains(&plain(value))
    }
}

const NULL: &str = "(null)";
const SL2VL: &str = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7";
const HIGH: &str = "0:4,1:0,2:0,3:0,4:0,5:0,6:0,7:0,8:0,9:0,10:0,11:0,12:0,13:0,14:0";
const LOW: &str = "0:0,1:4,2:4,3:4,4:4,5:4,6:4,7:4,8:4,9:4,10:4,11:4,12:4,13:4,14:4";
const BALANCED: &str = "dfdn balances paths by itself";
const FILES: &str = "a file that other engines read";
const OWN_VLS: &str = "SL2VL tables are those that were verified";
const OWN_ARBITRATION: &str = "all VLs in use have equal weights";

const fn ignored(name: &'static str, default: &'static str, why: &'static str) -> IgnoredOption {
    IgnoredOption { name, default, why }
}

/// All of them. What is not here either works with dfdn or has nothing to do with routing.
pub const IGNORED_OPTIONS: &[IgnoredOption] = &[
    ignored("port_prof_ignore_file", NULL, BALANCED),
    ignored("hop_weights_file", NULL, "paths are counted in hops"),
    ignored("port_search_ordering_file", NULL, BALANCED),
    ignored("port_profile_switch_nodes", "FALSE", BALANCED),
    ignored("guid_routing_order_file", NULL, "paths are computed in the order of GUIDs"),
    ignored("guid_routing_order_no_scatter", "FALSE", BALANCED),
    ignored("scatter_ports", "0", "tables are the same at each sweep"),
    ignored("port_shifting", "FALSE", BALANCED),
    ignored("avoid_throttled_links", "FALSE", "a slow link carries its share, not none"),
    ignored("connect_roots", "FALSE", "dfdn always connects all switches"),
    ignored("ids_guid_file", NULL, "ties between switches are broken by GUIDs"),
    ignored("max_reverse_hops", "0", "no path needs hops against the order"),
    ignored("quasi_ftree_indexing", "FALSE", "of the engine ftree"),
    ignored("lid_matrix_dump_file", NULL, FILES),
    ignored("lfts_file", NULL, FILES),
    ignored("do_mesh_analysis", "FALSE", "of the engine lash"),
    ignored("lash_start_vl", "0", "of the engine lash; dfdn begins with VL 0"),
    ignored("nue_max_num_vls", "1", "of the engine nue; vls in dfdn.conf limits dfdn"),
    ignored("nue_include_switches", "FALSE", "of the engine nue; dfdn always includes them"),
    ignored("use_optimized_slvl", "FALSE", "OpenSM sends the rows of such engines one by one"),
    ignored("qos_sl2vl", SL2VL, OWN_VLS),
    ignored("qos_ca_sl2vl", SL2VL, OWN_VLS),
    ignored("qos_sw0_sl2vl", SL2VL, OWN_VLS),
    ignored("qos_swe_sl2vl", SL2VL, OWN_VLS),
    ignored("qos_rtr_sl2vl", SL2VL, OWN_VLS),
    ignored("qos_vlarb_high", HIGH, OWN_ARBITRATION),
    ignored("qos_vlarb_low", LOW, OWN_ARBITRATION),
    ignored("qos_ca_vlarb_high", HIGH, OWN_ARBITRATION),
    ignored("qos_ca_vlarb_low", LOW, OWN_ARBITRATION),
    ignored("qos_sw0_vlarb_high", HIGH, OWN_ARBITRATION),
    ignored("qos_sw0_vlarb_low", LOW, OWN_ARBITRATION),
    ignored("qos_swe_vlarb_high", HIGH, OWN_ARBITRATION),
    ignored("qos_swe_vlarb_low", LOW, OWN_ARBITRATION),
    ignored("qos_rtr_vlarb_high", HIGH, OWN_ARBITRATION),
    ignored("qos_rtr_vlarb_low", LOW, OWN_ARBITRATION),
];

/// One sentence about the options that are set, by `value` of each name; `None` if there is none.
pub fn ignored_options(mut value: impl FnMut(&str) -> Option<String>) -> Option<String> {
    let set = IGNORED_OPTIONS.iter().filter_map(|option| {
        let value = value(option.name).filter(|value| option.is_set(value))?;
        Some(format!("{} {} ({})", option.name, value.trim(), option.why))
    });
    let set: Vec<String> = set.collect();
    (!set.is_empty()).then(|| format!("set in opensm.conf, without effect on dfdn: {}", set.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::{IGNORED_OPTIONS, ignored_options};

    #[test]
    fn defaults_are_not_set_in_whatever_notation() {
        for option in IGNORED_OPTIONS {
            assert!(!option.is_set(option.default) && !option.is_set(&option.default.to_lowercase()));
            assert!(option.is_set("/etc/opensm/a.file"), "{}", option.name);
            assert!(!option.is_set(" ") && !option.is_set("(null)"), "{}", option.name);
        }
        let scatter = IGNORED_OPTIONS.iter().find(|o| o.name == "scatter_ports").expect("is there");
        assert!(!scatter.is_set("0x0") && scatter.is_set("0x8"));
    }

    #[test]
    fn only_what_is_set_is_named() {
        assert_eq!(ignored_options(|_| None), None);
        let text = ignored_options(|name| (name == "port_shifting").then(|| "TRUE".to_owned()));
        assert!(text.expect("one is set").contains(": port_shifting TRUE (dfdn balances"));
    }
}
