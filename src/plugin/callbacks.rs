//! The functions that OpenSM calls while it routes: each finds the plugin by its context, catches
//! panics, and calls the plugin's own logic (`instance.rs`, `sent.rs`).

use std::ffi::{c_int, c_uint, c_void};

use super::abi::{self, DONE, FAILED, OPENSM_DOES_IT};
use super::guard::guarded;
use super::host;
use super::instance::{HopCounts, Plugin, Registered, locked};
use super::message::Message;
use super::program;
use super::snapshot::link_vls;

/// Runs the body of the callback `name` with the plugin of its context. A panic is logged and
/// becomes `failed`.
fn with_plugin<T>(context: *const c_void, name: &str, failed: T, body: impl FnOnce(&Plugin) -> T) -> T {
    // SAFETY: OpenSM passes the pointer that `create` returned, until `delete`, and never NULL.
    let Some(plugin) = (unsafe { context.cast::<Plugin>().as_ref() }) else { return failed };
    let drilled = || {
        if let Some(drill) = &plugin.drill {
            drill.at(name);
        }
        body(plugin)
    };
    match guarded(drilled) {
        Ok(value) => value,
        Err(text) => {
            let text = format!("{text}. This is a defect of dfdn; OpenSM continues without it (in {name})");
            // Logging itself may have failed.
            let _ = guarded(|| plugin.host.log(Message::Panic, &text));
            failed
        }
    }
}

/// [`with_plugin`] for the callbacks of an engine.
pub(super) fn with_engine<T>(
    context: *const c_void,
    name: &str,
    failed: T,
    body: impl FnOnce(&Plugin, &Registered) -> T,
) -> T {
    // SAFETY: OpenSM passes the context that the engine was registered with, which the plugin owns.
    let Some(engine) = (unsafe { context.cast::<Registered>().as_ref() }) else { return failed };
    with_plugin(engine.plugin.cast(), name, failed, |plugin| body(plugin, engine))
}

/// Writes a multicast group into OpenSM's tables, from which OpenSM has removed the group before.
pub(super) unsafe extern "C" fn mcast_build_stree(
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

/// Reads the subnet, computes and verifies everything, and writes hop counts if they are read. If that fails
/// and the earlier tables stay in force, OpenSM continues.
pub(super) unsafe extern "C" fn build_lid_matrices(context: *mut c_void) -> c_int {
    let done = with_engine(context, "build_lid_matrices", FAILED, |plugin, engine| {
        code(plugin, plugin.compute(engine))
    });
    if done == DONE {
        return DONE;
    }
    let held = with_engine(context, "hold", None, |plugin, engine| plugin.plan_hold(engine));
    match held {
        // After an error some of our hop counts may remain.
        Some(HopCounts::Read) => {
            with_engine(context, "clear_hops", (), |plugin, _| program::clear_hops(&plugin.host));
            OPENSM_DOES_IT
        }
        Some(HopCounts::NotRead) => DONE,
        None => {
            refuse(context);
            FAILED
        }
    }
}

/// Writes the forwarding tables and publishes the data for the other callbacks: the computed tables, or else
/// the entries of the earlier ones that are still valid.
pub(super) unsafe extern "C" fn ucast_build_fwd_tables(context: *mut c_void) -> c_int {
    let done = with_engine(context, "ucast_build_fwd_tables", FAILED, |plugin, engine| {
        if plugin.is_to_hold(engine) { FAILED } else { code(plugin, plugin.commit(engine)) }
    });
    if done == DONE {
        return DONE;
    }
    let held = with_engine(context, "hold", FAILED, |plugin, engine| match plugin.hold(engine) {
        None => FAILED,
        Some(result) => code(plugin, result),
    });
    if held != DONE {
        refuse(context);
    }
    held
}

/// Leaves everything as the next engine expects it: the lid matrix as it was before `build_lid_matrices`, or,
/// if there is no next engine, in a form that the SA can use.
fn refuse(context: *const c_void) {
    with_engine(context, "clear_hops", (), |plugin, _| program::clear_hops(&plugin.host));
    with_engine(context, "answer", (), Plugin::answer_by_acknowledged);
    with_engine(context, "lose_way", (), |plugin, _| locked(&plugin.transit).lose_way());
}

/// The return value of a callback; logs an error.
fn code(plugin: &Plugin, result: Result<(), (Message, String)>) -> c_int {
    match result {
        Ok(()) => DONE,
        Err((message, text)) => {
            plugin.host.log(message, &text);
            FAILED
        }
    }
}

/// The SL2VL row of (in port, out port) of a switch, or that of an adapter.
pub(super) unsafe extern "C" fn update_sl2vl(
    context: *mut c_void,
    port: *mut abi::osm_physp_t,
    in_port: u8,
    out_port: u8,
    table: *mut abi::ib_slvl_table_t,
) {
    with_engine(context, "update_sl2vl", (), |plugin, _| {
        let in_force = plugin.in_force.load();
        let Some(in_force) = in_force.as_deref() else { return };
        // SAFETY: OpenSM passes one of its ports.
        let Some(port) = (unsafe { port.as_ref() }) else { return };
        let guid = host::node_of(port).map(host::node_guid).unwrap_or_default();
        let row = match in_force.programmed.switch(guid) {
            Some(switch) => in_force.row(switch, in_port, out_port).unwrap_or_default(),
            None => in_force.programmed.routes.sl2vl.adapters(),
        };
        plugin.known_rows.asked(&plugin.host, port, in_port, row);
        // SAFETY: OpenSM passes a table on its own stack.
        if let Some(table) = unsafe { table.as_mut() } {
            table.raw_vl_by_sl = row.0.to_be_bytes();
        }
    });
}

/// Blocks 0 and 1 are the low-priority table, 2 and 3 the high-priority one. All VLs in use get the same
/// weight in the low table; if that has fewer entries than there are VLs, the others go into the high one.
pub(super) unsafe extern "C" fn update_vlarb(
    context: *mut c_void,
    port: *mut abi::osm_physp_t,
    _: u8,
    block: *mut abi::ib_vl_arb_table_t,
    length: c_uint,
    number: c_uint,
) {
    with_engine(context, "update_vlarb", (), |plugin, _| {
        const BLOCK: usize = 32;
        let in_force = plugin.in_force.load();
        let Some(in_force) = in_force.as_deref() else { return };
        // SAFETY: OpenSM passes one of its ports.
        let Some(port) = (unsafe { port.as_ref() }) else { return };
        // SAFETY: OpenSM passes a block on its own stack.
        let Some(block) = (unsafe { block.as_mut() }) else { return };
        // A link with fewer VLs than are in use (an adapter's) arbitrates among its own: an entry
        // for a higher VL would be folded onto a lower one and double its weight.
        let vls = link_vls(&plugin.host, port);
        let entries: Vec<_> =
            in_force.programmed.routes.vlarb.low.iter().filter(|(vl, _)| vl.0 < vls).collect();
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

/// The SL of a path; LIDs in network order. Called from several of the SA's threads at once.
pub(super) unsafe extern "C" fn path_sl(
    context: *mut c_void,
    hint: u8,
    slid: abi::ib_net16_t,
    dlid: abi::ib_net16_t,
) -> u8 {
    with_engine(context, "path_sl", hint, |plugin, _| match plugin.in_force.load().as_deref() {
        Some(in_force) => in_force.programmed.path_sl(hint, u16::from_be(slid), u16::from_be(dlid)),
        None => hint,
    })
}

/// Subnet events.
pub(super) unsafe extern "C" fn report(context: *mut c_void, event: abi::osm_epi_event_id_t, _: *mut c_void) {
    // These come from the sweeping thread, the others from any. The first call of a thread makes
    // the C library allocate its thread-local data in this library, which ends the process if there
    // is no memory: so as few threads as possible get here.
    let ours = [
        abi::osm_epi_event_id_t_OSM_EVENT_ID_HEAVY_SWEEP_DONE,
        abi::osm_epi_event_id_t_OSM_EVENT_ID_UCAST_ROUTING_DONE,
        abi::osm_epi_event_id_t_OSM_EVENT_ID_SUBNET_UP,
    ];
    if !ours.contains(&event) {
        return;
    }
    with_plugin(context, "report", (), |plugin| match event {
        abi::osm_epi_event_id_t_OSM_EVENT_ID_HEAVY_SWEEP_DONE => plugin.discovery_done(),
        abi::osm_epi_event_id_t_OSM_EVENT_ID_UCAST_ROUTING_DONE => plugin.tables_sent(),
        abi::osm_epi_event_id_t_OSM_EVENT_ID_SUBNET_UP => plugin.subnet_up(),
        _ => {}
    });
}
