//! Switches that do not take their tables.
//!
//! A switch whose forwarding blocks or SL2VL rows stay without an answer, or other than they were sent, sweep
//! after sweep forwards by tables that nobody proved. It is left out of the next tables, as a switch without
//! a LID is: see [`sift`](crate::fabric::sift). OpenSM goes on to send it tables, which have no path then;
//! as soon as it takes them it is routed again.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;

use super::abi;
use super::host::{self, Host};
use super::rows::UNKNOWN;
use super::snapshot::maps_sls;
use crate::fabric::{Guid, PortNum, SwitchId};
use crate::tables::Programmed;

/// Sweeps in a row that a switch has to take its tables. More than pass before SL2VL rows are in place that
/// OpenSM clipped at first.
const SWEEPS: u32 = 4;

/// How often in a row switches did not take their tables.
#[derive(Debug, Default)]
pub(super) struct Distrust(Mutex<BTreeMap<Guid, u32>>);

impl Distrust {
    /// Counts a sweep whose tables were sent and answered, as far as they are.
    ///
    /// - `faulty`: switches that do not have what was sent.
    /// - `switches`: how many there are. Where half of them or more are faulty the fault is none of theirs,
    ///   and nothing is counted.
    ///
    /// Returns whether a switch is distrusted that was not before, or no longer is.
    pub(super) fn count(&self, faulty: &HashSet<Guid>, switches: usize) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let distrusted = |counts: &BTreeMap<Guid, u32>| -> Vec<Guid> {
            counts.iter().filter(|(_, n)| **n >= SWEEPS).map(|(&guid, _)| guid).collect()
        };
        let before = distrusted(&counts);
        counts.retain(|guid, _| faulty.contains(guid));
        if faulty.len() * 2 < switches {
            for &guid in faulty {
                let count = counts.entry(guid).or_default();
                *count = count.saturating_add(1);
            }
        }
        before != distrusted(&counts)
    }

    /// The switches that are to be left out, by GUID.
    pub(super) fn switches(&self) -> HashSet<Guid> {
        let counts = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        counts.iter().filter(|(_, n)| **n >= SWEEPS).map(|(&guid, _)| guid).collect()
    }
}

/// The switches that do not have the forwarding blocks and SL2VL rows that were sent, and how many switches
/// there are. For the event that OpenSM reports when it has waited for all answers, under its lock.
///
/// Cost: O(LIDs + ports^2) for each switch.
pub(super) fn faulty(host: &Host, programmed: &Programmed) -> (HashSet<Guid>, usize) {
    let mut found = HashSet::new();
    let mut switches = 0;
    for switch in host.switches() {
        // SAFETY: NULL or the node of the switch, which lives as long.
        let Some(node) = (unsafe { switch.p_node.as_ref() }) else { continue };
        switches += 1;
        let guid = host::node_guid(node);
        let takes_rows = || match programmed.switch(guid) {
            Some(s) => has_rows(programmed, node, s),
            None => answers_rows(node),
        };
        if !has_blocks(switch) || host::physp(node, 0).is_some_and(maps_sls) && !takes_rows() {
            found.insert(guid);
        }
    }
    (found, switches)
}

/// Whether a switch acknowledged its forwarding table.
fn has_blocks(switch: &abi::osm_switch_t) -> bool {
    if switch.new_lft.is_null() || switch.lft.is_null() {
        return true;
    }
    let length = usize::from(switch.lft_size).min(usize::from(switch.max_lid_ho) + 1);
    // SAFETY: `new_lft` has `lft_size` bytes, which nobody changes while OpenSM's lock is held.
    let wanted = unsafe { std::slice::from_raw_parts(switch.new_lft, length) };
    // SAFETY: the same of `lft`.
    let held = unsafe { std::slice::from_raw_parts(switch.lft, length) };
    wanted == held
}

/// Whether a switch that is routed acknowledged its rows towards other switches.
fn has_rows(programmed: &Programmed, node: &abi::osm_node_t, s: SwitchId) -> bool {
    let fabric = &programmed.fabric;
    let ports = &fabric.switch(s).ports;
    let in_ports = || (0..ports.len()).filter(|&i| i == 0 || ports[i].peer.is_some() || ports[i].untrusted);
    fabric.channels().out(s).all(|(_, channel)| {
        let Some(physp) = host::physp(node, channel.out_port.index()) else { return true };
        in_ports().all(|in_port| {
            let row = programmed.routes.sl2vl.row(s, PortNum(in_port as u8), channel.out_port);
            host::row(physp, in_port as u8).is_none_or(|held| held == row)
        })
    })
}

/// Whether a switch that is left out acknowledged whatever rows it was sent.
fn answers_rows(node: &abi::osm_node_t) -> bool {
    let ports = node.physp_tbl_size as usize;
    (1..ports)
        .filter_map(|port| host::physp(node, port))
        .all(|physp| (0..ports).all(|in_port| host::row(physp, in_port as u8) != Some(UNKNOWN)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{Distrust, SWEEPS};
    use crate::fabric::Guid;

    #[test]
    fn a_switch_is_distrusted_after_several_sweeps_in_a_row_and_trusted_at_once() {
        let distrust = Distrust::default();
        let one = HashSet::from([Guid(7)]);
        for _ in 1..SWEEPS {
            assert!(!distrust.count(&one, 5));
        }
        // One good sweep starts the count anew.
        assert!(!distrust.count(&HashSet::new(), 5));
        for sweep in 1..=SWEEPS {
            assert!(distrust.switches().is_empty());
            assert_eq!(distrust.count(&one, 5), sweep == SWEEPS);
        }
        assert_eq!(distrust.switches(), one);
        assert!(!distrust.count(&one, 5));
        assert!(distrust.count(&HashSet::new(), 5));
        assert!(distrust.switches().is_empty());
    }

    #[test]
    fn where_half_of_the_switches_are_faulty_none_is_distrusted() {
        let distrust = Distrust::default();
        let two = HashSet::from([Guid(7), Guid(8)]);
        for _ in 0..2 * SWEEPS {
            assert!(!distrust.count(&two, 4));
        }
        assert!(distrust.switches().is_empty());
        for _ in 0..SWEEPS {
            distrust.count(&two, 5);
        }
        assert_eq!(distrust.switches(), two);
    }
}
