//! Writes verified tables into OpenSM, all or nothing, and out of the callbacks.

use rayon::prelude::*;
use thiserror::Error;

use super::abi;
use super::host::{self, Host};
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
/// - `hops`: those from a switch to every switch, with the same numbers the other way round.
///
/// Cost: O(S (S + C)) time on all cores, with S switches and C channels, and as many bytes of
/// OpenSM's memory as its own engines use.
///
/// # Errors
/// [`CommitError`].
pub(super) fn write_hops<'a>(
    host: &Host,
    fabric: &Fabric,
    switches: &[OneSwitch],
    hops: impl Fn(SwitchId) -> &'a [u8] + Sync,
) -> Result<(), CommitError> {
    let lids: Vec<Option<Lid>> = fabric.switch_ids().map(|s| switch_lid(fabric, s)).collect();
    let one = |(s, switch): (usize, &OneSwitch)| {
        let from = SwitchId::at(s);
        // Distances are the same in both directions, so one row of them gives those through a
        // channel.
        let through: Vec<_> =
            fabric.channels().out(from).map(|(_, c)| (c.out_port.index(), hops(c.to))).collect();
        let least = hops(from);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{EndPort, PortNum};
    use crate::plugin::fake::{FakeOpenSm, NO_HOPS, chain};

    fn guid(fabric: &Fabric, s: usize) -> Guid {
        fabric.switch(SwitchId::at(s)).guid
    }

    /// The GUIDs of the switches found, or why they are refused.
    fn found(fake: &FakeOpenSm, fabric: &Fabric, left_out: &[Guid]) -> Result<Vec<Guid>, CommitError> {
        let list = switches(&fake.host(), fabric, left_out)?;
        // SAFETY: switches of the fake.
        let node = |switch: &OneSwitch| unsafe { (*switch.0).p_node };
        // SAFETY: as above.
        Ok(list.iter().map(|switch| host::node_guid(unsafe { &*node(switch) })).collect())
    }

    #[test]
    fn switches_come_in_the_order_of_the_fabric() {
        let f = chain(4);
        let mut fake = FakeOpenSm::new(&f);
        fake.hold_switches(&[3, 0, 2, 1].map(SwitchId));
        let all: Vec<Guid> = (0..4).map(|s| guid(&f, s)).collect();
        assert_eq!(found(&fake, &f, &[]), Ok(all));
    }

    #[test]
    fn other_switches_than_were_routed_are_refused() {
        let f = chain(4);
        let mut fake = FakeOpenSm::new(&f);
        let differ = |held, s| Err(CommitError::Switches { held, routed: 4, guid: guid(&f, s) });
        fake.hold_switches(&[0, 1, 2].map(SwitchId));
        assert_eq!(found(&fake, &f, &[]), differ(3, 3));
        fake.hold_switches(&[0, 2, 3].map(SwitchId));
        assert_eq!(found(&fake, &f, &[]), differ(3, 2));
        // One more than was routed, which is right if it was left out on purpose.
        let more = chain(5);
        let fake = FakeOpenSm::new(&more);
        let extra = guid(&more, 4);
        let differ = CommitError::Switches { held: 5, routed: 4, guid: extra };
        assert_eq!(found(&fake, &f, &[]), Err(differ));
        assert_eq!(found(&fake, &f, &[extra]).map(|list| list.len()), Ok(4));
        // A switch without a node is none.
        let mut fake = FakeOpenSm::new(&f);
        fake.switch(SwitchId(1)).p_node = std::ptr::null_mut();
        assert!(matches!(found(&fake, &f, &[]), Err(CommitError::Switches { held: 3, .. })));
    }

    #[test]
    fn tables_that_are_too_short_are_refused() {
        let f = chain(3);
        let needed = f.lid_table_len() - 1;
        let changed = |change: &dyn Fn(&mut abi::osm_switch_t)| {
            let mut fake = FakeOpenSm::new(&f);
            change(fake.switch(SwitchId(1)));
            found(&fake, &f, &[]).map(|list| list.len())
        };
        let short = |room| Err(CommitError::TooShort { guid: guid(&f, 1), room, needed });
        assert_eq!(changed(&|s| s.max_lid_ho = needed as u16), Ok(3));
        assert_eq!(changed(&|s| s.max_lid_ho = needed as u16 - 1), short(needed - 1));
        assert_eq!(changed(&|s| s.lft_size = needed as u16 + 1), Ok(3));
        assert_eq!(changed(&|s| s.lft_size = needed as u16), short(needed - 1));
        assert_eq!(changed(&|s| s.num_hops = needed as u16 + 1), Ok(3));
        assert_eq!(changed(&|s| s.num_hops = needed as u16), short(needed));
        assert_eq!(changed(&|s| s.new_lft = std::ptr::null_mut()), short(needed));
        assert_eq!(changed(&|s| s.hops = std::ptr::null_mut()), short(needed));
    }

    /// Hops from each switch of a chain.
    fn chain_hops(switches: usize) -> Vec<Vec<u8>> {
        (0..switches).map(|s| (0..switches).map(|t| s.abs_diff(t) as u8).collect()).collect()
    }

    fn port0(f: &Fabric, s: usize) -> EndPort {
        let ends = f.endports_on(SwitchId::at(s)).iter().map(|&e| *f.endport(e));
        ends.into_iter().find(|end| !end.is_adapter()).expect("each switch has a LID")
    }

    #[test]
    fn the_lid_matrix_has_the_hops_through_each_port() {
        let f = chain(4);
        let mut fake = FakeOpenSm::new(&f);
        let list = switches(&fake.host(), &f, &[]).expect("the same switches");
        let hops = chain_hops(4);
        assert_eq!(write_hops(&fake.host(), &f, &list, |s| &hops[s.index()]), Ok(()));
        for (s, t) in (0..4).flat_map(|s| (0..4).map(move |t| (s, t))) {
            let row = fake.hops(SwitchId::at(s), port0(&f, t).lid.index()).to_vec();
            let through = |port: usize| match f.channels().at_port(SwitchId::at(s), PortNum(port as u8)) {
                _ if port == 0 => s.abs_diff(t) as u8,
                Some(c) if s != t => f.channels().get(c).to.index().abs_diff(t) as u8 + 1,
                _ => NO_HOPS,
            };
            assert_eq!(row, (0..row.len()).map(through).collect::<Vec<_>>(), "from {s} to {t}");
        }
        // LIDs of adapters have no rows of their own.
        let (_, adapter) = f.adapters().next().expect("an adapter");
        assert!(fake.hops(SwitchId(0), adapter.lid.index()).iter().all(|&hops| hops == NO_HOPS));
    }

    #[test]
    fn without_memory_the_lid_matrix_is_cleared() {
        let f = chain(4);
        let mut fake = FakeOpenSm::new(&f);
        fake.hop_rows(SwitchId(2))[port0(&f, 3).lid.index()] = std::ptr::null_mut();
        let list = switches(&fake.host(), &f, &[]).expect("the same switches");
        let hops = chain_hops(4);
        let refused = CommitError::NoMemory { guid: guid(&f, 2) };
        assert_eq!(write_hops(&fake.host(), &f, &list, |s| &hops[s.index()]), Err(refused));
        for (s, t) in (0..4).flat_map(|s| (0..4).map(move |t| (s, t))).filter(|&pair| pair != (2, 3)) {
            let row = fake.hops(SwitchId::at(s), port0(&f, t).lid.index());
            assert!(row.iter().all(|&hops| hops == NO_HOPS), "from {s} to {t}");
        }
    }

    #[test]
    fn forwarding_tables_are_written() {
        let f = chain(3);
        let mut fake = FakeOpenSm::new(&f);
        let mut lft = Lft::new(&f);
        let lids = || (1..f.lid_table_len()).filter_map(|lid| Lid::new(lid as u16));
        for (s, lid) in f.switch_ids().flat_map(|s| lids().map(move |lid| (s, lid))) {
            lft.set(s, lid, PortNum((s.index() + lid.index()) as u8));
        }
        let list = switches(&fake.host(), &f, &[]).expect("the same switches");
        write_lfts(&f, &list, &lft);
        for (s, lid) in f.switch_ids().flat_map(|s| lids().map(move |lid| (s, lid))) {
            assert_eq!(fake.new_lft(s)[lid.index()], (s.index() + lid.index()) as u8);
        }
    }
}
