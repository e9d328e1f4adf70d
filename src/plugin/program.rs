//! Verified tables into OpenSM, all or nothing, and out of the callbacks.

use std::sync::atomic::{AtomicUsize, Ordering};

use thiserror::Error;

use super::abi;
use super::host::{self, Host};
use crate::engine::Routed;
use crate::fabric::{Fabric, Guid, Lid, PortNum, Sl, SwitchId};
use crate::tables::{Lft, Routes, SlVlRow};

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
        /// One that only one side knows.
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
fn switches<'a>(host: &'a Host, fabric: &Fabric) -> Result<Vec<&'a abi::osm_switch_t>, CommitError> {
    let needed = fabric.lid_table_len().saturating_sub(1);
    let mut found = Vec::with_capacity(fabric.num_switches());
    for switch in host.switches() {
        // SAFETY: NULL or the node of the switch, which lives as long.
        let Some(node) = (unsafe { switch.p_node.as_ref() }) else { continue };
        let guid = host::node_guid(node);
        let room = usize::from(switch.max_lid_ho).min(usize::from(switch.lft_size).saturating_sub(1));
        let has_tables = !switch.new_lft.is_null() && !switch.hops.is_null();
        if !has_tables || needed > room || needed >= usize::from(switch.num_hops) {
            return Err(CommitError::TooShort { guid, room, needed });
        }
        found.push((guid, switch));
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
/// OpenSM's lid matrix. Multicast is routed by it. An error clears the whole matrix again.
///
/// # Errors
/// [`CommitError`].
pub(super) fn write_hops(host: &Host, fabric: &Fabric, routed: &Routed) -> Result<(), CommitError> {
    let hops = &routed.hops;
    let switches = switches(host, fabric)?;
    for (s, &switch) in switches.iter().enumerate() {
        let from = SwitchId::at(s);
        let channels: Vec<_> = fabric.channels().out(from).map(|(_, c)| *c).collect();
        for target in fabric.switch_ids() {
            let lid = switch_lid(fabric, target);
            let written = with_hops_row(host, switch, lid, hops.get(from, target), |row| {
                let distances = hops.row(target);
                for c in channels.iter().filter(|_| target != from) {
                    if let Some(through) = row.get_mut(c.out_port.index()) {
                        *through = distances[c.to.index()].saturating_add(1);
                    }
                }
            });
            if !written {
                clear(host, &switches);
                return Err(CommitError::NoMemory { guid: fabric.switch(from).guid });
            }
        }
    }
    Ok(())
}

/// Lets `fill` write the lid matrix row of a switch for a LID: hops by port number, the least hops
/// in entry 0, which is set before. False where OpenSM has no memory for the row.
fn with_hops_row(
    host: &Host,
    switch: &abi::osm_switch_t,
    lid: Lid,
    least: u8,
    fill: impl FnOnce(&mut [u8]),
) -> bool {
    let pointer = std::ptr::from_ref(switch).cast_mut();
    // SAFETY: a switch with room for this LID (see `switches`); allocates the row if there is none.
    let status = unsafe { (host.functions().set_hops)(pointer, lid.get(), 0, least) };
    if status != 0 {
        return false;
    }
    // SAFETY: `hops` has `num_hops` entries and the LID is below that.
    let entry = unsafe { switch.hops.add(lid.index()) };
    // SAFETY: an element of `hops`.
    let row = unsafe { *entry };
    // SAFETY: set_hops succeeded, so the row is there, `num_ports` bytes long; OpenSM holds its lock
    // exclusively around engines, and this slice ends with `fill`.
    fill(unsafe { std::slice::from_raw_parts_mut(row, usize::from(switch.num_ports)) });
    true
}

fn switch_lid(fabric: &Fabric, switch: SwitchId) -> Lid {
    let port0 = fabric.endports_on(switch).iter().map(|&e| fabric.endport(e)).find(|e| !e.is_adapter());
    port0.map(|e| e.lid).expect("every switch has an end port: FabricBuilder makes one")
}

fn clear(host: &Host, switches: &[&abi::osm_switch_t]) {
    for &switch in switches {
        // SAFETY: a live switch; resets the rows that exist.
        unsafe { (host.functions().clear_hops)(std::ptr::from_ref(switch).cast_mut()) };
    }
}

/// Takes hop counts back after a failure, as the next engine expects to find them.
pub(super) fn clear_hops(host: &Host) {
    let switches: Vec<_> = host.switches().collect();
    clear(host, &switches);
}

/// Writes the forwarding tables of all switches. OpenSM has filled them with "no path" before.
///
/// # Errors
/// [`CommitError`], before anything is written.
pub(super) fn write_lfts(host: &Host, fabric: &Fabric, lft: &Lft) -> Result<(), CommitError> {
    const AT_ONCE: usize = 64;
    let switches = switches(host, fabric)?;
    for first in (0..switches.len()).step_by(AT_ONCE) {
        let last = (first + AT_ONCE).min(switches.len());
        for (switch, row) in switches[first..last].iter().zip(lft.rows(first..last)) {
            // SAFETY: `new_lft` has `lft_size` bytes, more than the row (see `switches`); OpenSM holds
            // its lock exclusively around engines.
            let table = unsafe { std::slice::from_raw_parts_mut(switch.new_lft, row.len()) };
            table.copy_from_slice(&row);
        }
    }
    Ok(())
}

/// Tables that are in OpenSM, for look-ups from any thread. Keyed by GUID and LID: pointers of
/// OpenSM change between sweeps.
#[derive(Debug)]
pub(super) struct Programmed {
    /// The fabric that was routed.
    pub(super) fabric: Fabric,
    /// Its tables.
    pub(super) routes: Routes,
    guids: Vec<u64>,
    source_switch: Vec<Option<SwitchId>>,
    last: AtomicUsize,
}

impl Programmed {
    pub(super) fn new(fabric: Fabric, routes: Routes) -> Self {
        let guids = fabric.switch_ids().map(|s| fabric.switch(s).guid.0).collect();
        let mut source_switch = vec![None; fabric.lid_table_len()];
        for e in fabric.endports() {
            for lid in e.lids() {
                source_switch[lid.index()] = e.attachment.map(|(s, _)| s);
            }
        }
        Self { fabric, routes, guids, source_switch, last: AtomicUsize::new(0) }
    }

    /// How many VLs the tables use.
    pub(super) fn vls(&self) -> usize {
        self.routes.vlarb.low.len()
    }

    /// The switch of a GUID. OpenSM asks for one switch many times in a row.
    pub(super) fn switch(&self, guid: Guid) -> Option<SwitchId> {
        let last = self.last.load(Ordering::Relaxed);
        if self.guids.get(last) == Some(&guid.0) {
            return Some(SwitchId::at(last));
        }
        let found = self.guids.binary_search(&guid.0).ok()?;
        self.last.store(found, Ordering::Relaxed);
        Some(SwitchId::at(found))
    }

    /// The SL2VL row of a switch; `None` for ports that it did not have.
    pub(super) fn row(&self, switch: SwitchId, in_port: u8, out_port: u8) -> Option<SlVlRow> {
        let ports = self.routes.sl2vl.ports_of(switch);
        (usize::from(in_port) < ports && usize::from(out_port) < ports)
            .then(|| self.routes.sl2vl.row(switch, PortNum(in_port), PortNum(out_port)))
    }

    /// The SL for a path, host-order LIDs. The hint, which is what a query asks for or what a partition
    /// or QoS policy says, names a class of service. It is returned as it is where it is as good as any,
    /// or where nothing is known of the path: an SL other than the one that a query asks for makes the
    /// query fail.
    pub(super) fn path_sl(&self, hint: u8, slid: u16, dlid: u16) -> u8 {
        let known = |lid: u16| self.source_switch.get(usize::from(lid)).copied().flatten();
        let (Some(source), Some(_), Some(lid)) = (known(slid), known(dlid), Lid::new(dlid)) else {
            return hint;
        };
        let table = &self.routes.path_sl;
        let Some(told) = table.answer(self.fabric.num_switches(), source, lid, Sl(hint)) else { return hint };
        let another = told.0 != hint && usize::from(hint) < Sl::COUNT;
        if another && self.same_lanes(source, lid, Sl(hint), told) { hint } else { told.0 }
    }

    /// Whether a path takes the same VLs with either SL.
    fn same_lanes(&self, source: SwitchId, dlid: Lid, a: Sl, b: Sl) -> bool {
        let channels = self.fabric.channels();
        let ports = self.routes.lft.to(dlid);
        let (mut at, mut in_port) = (source, PortNum::ZERO);
        for _ in 0..=ports.len() {
            let out_port = PortNum(ports[at.index()]);
            let Some(channel) = channels.at_port(at, out_port) else { return true };
            let row = self.routes.sl2vl.row(at, in_port, out_port);
            if row.get(a) != row.get(b) {
                return false;
            }
            let channel = channels.get(channel);
            (at, in_port) = (channel.to, channel.in_port);
        }
        false
    }
}
