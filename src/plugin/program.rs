//! Writes verified tables into OpenSM, all or nothing, and out of the callbacks.

use rayon::prelude::*;
use thiserror::Error;

use super::abi;
use super::host::{self, Host};
use crate::engine::Routed;
use crate::fabric::{Fabric, Guid, Lid, SwitchId};
use crate::tables::Lft;

/// Why OpenSM's tables cannot take what was computed. Nothing is left half-written.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum CommitError {
    /// The switches are not those of the snapshot.
    #[error("OpenSM holds {held} switches where {routed} were routed (first difference at {guid})")]
    Switches {
        /// How many OpenSM holds.
        held: usize,
        /// How many were routed.
        routed: usize,
        /// One that only one of the two has.
        guid: Guid,
    },
    /// OpenSM made the tables of a switch too short.
    #[error("switch {guid} takes LIDs up to {room}, and LID {needed} is in use")]
    TooShort {
        /// The switch.
        guid: Guid,
        /// The last LID that it has room for.
        room: usize,
        /// The largest LID of the fabric.
        needed: usize,
    },
    /// OpenSM could not allocate a row of its lid matrix.
    #[error("no memory for the lid matrix of switch {guid}")]
    NoMemory {
        /// The switch.
        guid: Guid,
    },
}

/// OpenSM's switches in the order of the fabric's, each with tables of the right size.
///
/// - `left_out`: GUIDs of switches that are left out of the fabric on purpose, ascending. OpenSM
///   has filled their tables with "no path"; they should forward by that, and their acknowledgement
///   shows that they take tables again.
///
/// It reads OpenSM's nodes, so it runs in OpenSM's own thread.
///
/// # Errors
/// [`CommitError`].
pub(super) fn switches(
    host: &Host,
    fabric: &Fabric,
    left_out: &[Guid],
) -> Result<Vec<OneSwitch>, CommitError> {
    let needed = fabric.lid_table_len().saturating_sub(1);
    let mut found = Vec::with_capacity(fabric.num_switches());
    for pointer in host.switch_pointers() {
        // SAFETY: a switch of OpenSM's, which no thread writes to while this reference is in use.
        let Some(switch) = (unsafe { pointer.as_ref() }) else { continue };
        // SAFETY: NULL or the node of the switch, which lives as long.
        let Some(node) = (unsafe { switch.p_node.as_ref() }) else { continue };
        let guid = host::node_guid(node);
        if left_out.binary_search(&guid).is_ok() {
            continue;
        }
        let room = usize::from(switch.max_lid_ho).min(usize::from(switch.lft_size).saturating_sub(1));
        let has_tables = !switch.new_lft.is_null() && !switch.hops.is_null();
        if !has_tables || needed > room || needed >= usize::from(switch.num_hops) {
            return Err(CommitError::TooShort { guid, room, needed });
        }
        found.push((guid, OneSwitch(pointer)));
    }
    found.sort_unstable_by_key(|&(guid, _)| guid);
    let routed: Vec<Guid> = fabric.switch_ids().map(|s| fabric.switch(s).guid).collect();
    let differs = |i: &usize| found.get(*i).map(|f| f.0) != routed.get(*i).copied();
    if let Some(i) = (0..found.len().max(routed.len())).find(differs) {
        let guid = found.get(i).map(|f| f.0).or(routed.get(i).copied()).unwrap_or_default();
        return Err(CommitError::Switches { held: found.len(), routed: routed.len(), guid });
    }
    Ok(found.into_iter().map(|(_, switch)| switch).collect())
}

/// Writes the hop count from every switch through each of its ports to every switch LID into
/// OpenSM's lid matrix, by which OpenSM routes multicast. An error clears the whole matrix again.
///
/// Cost: O(S (S + C)) time on all cores, with S switches and C channels, and as many bytes of
/// OpenSM's memory as its own engines use.
///
/// # Errors
/// [`CommitError`].
pub(super) fn write_hops(
    host: &Host,
    fabric: &Fabric,
    switches: &[OneSwitch],
    routed: &Routed,
) -> Result<(), CommitError> {
    let hops = &routed.hops;
    let lids: Vec<Option<Lid>> = fabric.switch_ids().map(|s| switch_lid(fabric, s)).collect();
    let one = |(s, switch): (usize, &OneSwitch)| {
        let from = SwitchId::at(s);
        // Distances are the same in both directions, so one row of them gives those through a
        // channel.
        let through: Vec<_> =
            fabric.channels().out(from).map(|(_, c)| (c.out_port.index(), hops.row(c.to))).collect();
        let least = hops.row(from);
        lids.iter().enumerate().filter_map(|(target, &lid)| Some((target, lid?))).all(|(target, lid)| {
            with_hops_row(host, switch, lid, least[target], |row| {
                for (port, distances) in through.iter().filter(|_| target != s) {
                    if let Some(hops) = row.get_mut(*port) {
                        *hops = distances[target].saturating_add(1);
                    }
                }
            })
        })
    };
    match switches.par_iter().enumerate().map(|(s, switch)| (s, one((s, switch)))).find_first(|r| !r.1) {
        None => Ok(()),
        Some((s, _)) => {
            clear_hops(host);
            Err(CommitError::NoMemory { guid: fabric.switch(SwitchId::at(s)).guid })
        }
    }
}

/// A switch of OpenSM's that only one thread at a time uses.
pub(super) struct OneSwitch(*mut abi::osm_switch_t);

// SAFETY: OpenSM holds its lock exclusively around engines and waits for them, and each switch is
// handed to one thread only.
unsafe impl Send for OneSwitch {}
// SAFETY: as above.
unsafe impl Sync for OneSwitch {}

/// Makes `fill` write the lid matrix row of a switch for a LID: hops by port number; entry 0, the
/// smallest, is set before. False if OpenSM has no memory for the row.
fn with_hops_row(host: &Host, switch: &OneSwitch, lid: Lid, least: u8, fill: impl FnOnce(&mut [u8])) -> bool {
    let pointer = switch.0;
    // SAFETY: a switch with room for this LID (see `switches`), in no other thread's hands; allocates the row if there is none.
    let status = unsafe { (host.functions().set_hops)(pointer, lid.get(), 0, least) };
    if status != 0 {
        return false;
    }
    // SAFETY: a field of the live switch.
    let hops = unsafe { (*pointer).hops };
    // SAFETY: `hops` has `num_hops` entries and the LID is below that.
    let entry = unsafe { hops.add(lid.index()) };
    // SAFETY: an element of `hops`.
    let row = unsafe { *entry };
    // SAFETY: a field of the live switch.
    let ports = unsafe { (*pointer).num_ports };
    // SAFETY: set_hops succeeded, so the row is there, `num_ports` bytes long; OpenSM holds its lock
    // exclusively around engines, and this slice ends with `fill`.
    fill(unsafe { std::slice::from_raw_parts_mut(row, usize::from(ports)) });
    true
}

/// `None` of a switch that has no LID.
fn switch_lid(fabric: &Fabric, switch: SwitchId) -> Option<Lid> {
    let port0 = fabric.endports_on(switch).iter().map(|&e| fabric.endport(e)).find(|e| !e.is_adapter());
    port0.map(|e| e.lid)
}

/// Clears hop counts after a failure, as the next engine expects.
pub(super) fn clear_hops(host: &Host) {
    for switch in host.switch_pointers() {
        // SAFETY: a live switch; resets the rows that exist.
        unsafe { (host.functions().clear_hops)(switch) };
    }
}

/// Writes the forwarding tables of all `switches`. OpenSM has filled them with "no path" before.
///
/// Cost: that of [`Lft::fill`].
pub(super) fn write_lfts(fabric: &Fabric, switches: &[OneSwitch], lft: &Lft) {
    let lids = fabric.lid_table_len();
    let table = |switch: &OneSwitch| {
        // SAFETY: a field of the live switch.
        let table = unsafe { (*switch.0).new_lft };
        // SAFETY: `new_lft` has `lft_size` bytes, at least as many as there are LIDs (see `switches`),
        // each switch its own; OpenSM holds its lock exclusively around engines.
        unsafe { std::slice::from_raw_parts_mut(table, lids) }
    };
    let mut tables: Vec<&mut [u8]> = switches.iter().map(table).collect();
    lft.fill(&mut tables);
}
