//! Makes the plugin's view of OpenSM out of the headers of the host it is built on.
//!
//! With the feature `plugin`: finds the headers, runs bindgen on `wrapper.h`, and compiles C
//! functions for the `static inline` ones among them. Without it there is nothing to do.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=wrapper.h");
    #[cfg(feature = "plugin")]
    plugin::generate();
}

#[cfg(feature = "plugin")]
mod plugin {
    use std::env;
    use std::path::{Path, PathBuf};

    /// Where OpenSM's headers may be: the folder that holds `opensm/`, `iba/` and `complib/`.
    const HEADER_FOLDERS: &[&str] = &["/usr/include/infiniband", "/usr/local/include/infiniband"];
    /// Names another such folder.
    const HEADER_VARIABLE: &str = "OPENSM_INCLUDE_DIR";

    /// The functions used. Every one is either `static inline` and compiled below, or exported by
    /// the opensm process and looked up there by name when the plugin is created.
    const FUNCTIONS: &[&str] = &[
        "cl_plock_acquire",
        "cl_plock_excl_acquire",
        "cl_plock_release",
        "cl_qmap_get",
        "cl_qmap_head",
        "cl_qmap_next",
        "cl_qmap_end",
        "ib_port_info_get_lmc",
        "ib_port_info_get_op_vls",
        "ib_port_info_get_port_state",
        "ib_port_info_get_vl_cap",
        "ib_port_info_get_link_speed_active",
        "ib_port_info_get_link_speed_ext_active",
        "ib_switch_info_is_enhanced_port0",
        "ib_node_info_get_vendor_id",
        "osm_log",
        "osm_mcast_tbl_set",
        "osm_log_is_active",
        "osm_node_get_physp_ptr",
        "osm_physp_get_slvl_tbl",
        "osm_register_external_routing_engine",
        "osm_sm_sweep",
        "osm_switch_clear_hops",
        "osm_switch_set_hops",
        "osm_ucast_cache_invalidate",
    ];

    const TYPES: &[&str] = &[
        "external_routing_engine_module_t",
        "ib_slvl_table_t",
        "ib_vl_arb_table_t",
        "osm_epi_event_id_t",
        "osm_event_plugin_t",
        "osm_mcast_tbl_t",
        "osm_mcm_port_t",
        "osm_mgrp_box_t",
        "osm_mgrp_t",
        "osm_node_t",
        "osm_opensm_t",
        "osm_physp_t",
        "osm_port_t",
        "osm_sm_t",
        "osm_subn_opt_t",
        "osm_switch_t",
        "osm_ucast_mgr_t",
    ];

    const CONSTANTS: &[&str] = &[
        "FDR10",
        "IB_LINK_.*",
        "IB_NODE_TYPE_.*",
        "IB_PORT_CAP_HAS_.*",
        "OSM_LOG_.*",
        "OSM_VERSION",
        "OSM_EVENT_ID_.*",
        "_?osm_epi_event_id_t_.*",
        "_?ib_api_status_t_IB_.*",
    ];

    pub(super) fn generate() {
        println!("cargo::rerun-if-env-changed={HEADER_VARIABLE}");
        let headers = find_headers();
        println!("cargo::rerun-if-changed={}", headers.join("opensm").display());
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        let inlines = out.join("inlines.c");

        let mut builder = bindgen::Builder::default()
            .header("wrapper.h")
            .clang_arg(format!("-I{}", headers.display()))
            .default_enum_style(bindgen::EnumVariation::Consts)
            .layout_tests(true)
            .generate_comments(false)
            .wrap_static_fns(true)
            .wrap_static_fns_path(&inlines)
            .wrap_unsafe_ops(true)
            .parse_callbacks(Box::new(bindgen::CargoCallbacks::new().rerun_on_header_files(false)));
        for name in FUNCTIONS {
            builder = builder.allowlist_function(name);
        }
        for name in TYPES {
            builder = builder.allowlist_type(name);
        }
        for name in CONSTANTS {
            builder = builder.allowlist_var(name);
        }
        let bindings = builder.generate().unwrap_or_else(|error| {
            fail(&format!(
                "bindgen cannot read OpenSM's headers in {}: {error}. bindgen needs libclang \
                 (Debian: apt-get install libclang-dev)",
                headers.display()
            ))
        });
        let file = out.join("opensm.rs");
        if let Err(error) = bindings.write_to_file(&file) {
            fail(&format!("cannot write {}: {error}", file.display()));
        }

        cc::Build::new()
            .file(&inlines)
            .include(&headers)
            .include(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"))
            .flag_if_supported("-Wno-unused-parameter")
            .warnings(false)
            .compile("dfdn_opensm_inlines");
    }

    fn find_headers() -> PathBuf {
        let named = env::var_os(HEADER_VARIABLE).map(PathBuf::from);
        let candidates: Vec<PathBuf> = match named {
            Some(folder) => vec![folder],
            None => HEADER_FOLDERS.iter().map(PathBuf::from).collect(),
        };
        let complete = |folder: &&PathBuf| {
            ["opensm/osm_config.h", "opensm/osm_opensm.h", "complib/cl_qmap.h", "iba/ib_types.h"]
                .iter()
                .all(|header| Path::new(folder).join(header).is_file())
        };
        candidates.iter().find(complete).cloned().unwrap_or_else(|| {
            fail(&format!(
                "OpenSM's headers (opensm/osm_config.h and others) are not in {}. Install them (Debian and \
                 Ubuntu: apt-get install libopensm-dev; RHEL and SLES: opensm-devel), or name their folder in \
                 {HEADER_VARIABLE}, or build the command without the plugin: \
                 cargo build --no-default-features --features command",
                candidates.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(" nor in ")
            ))
        })
    }

    /// Stops the build with a message that stands by itself in cargo's output.
    fn fail(message: &str) -> ! {
        println!("cargo::error={message}");
        std::process::exit(1)
    }
}
