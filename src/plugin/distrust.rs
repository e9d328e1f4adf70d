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
use super::recheck::blocks;
use super::rows::clipped;
use super::snapshot::{data_vls, maps_sls};
use crate::fabric::{Guid, PortNum, SwitchId};
use crate::tables::{Programmed, SlVlRow};

/// Sweeps in a row that a switch has to take its tables. More than pass before SL2VL rows are in place that
/// OpenSM clipped at first.
const SWEEPS: u32 = 4;

/// What is known of switches that did not take their tables.
#[derive(Debug, Default)]
pub(super) struct Distrust(Mutex<BTreeMap<Guid, Record>>);

#[derive(Debug, Default)]
struct Record {
    /// Sweeps in a row without its tables.
    bad: u32,
    /// Sweeps in a row with them since it is distrusted.
    good: u32,
    distrusted: bool,
    /// How often it was distrusted.
    times: u32,
}

impl Record {
    /// Counts a sweep. A switch that relapses has to take its tables twice as often as the time before.
    fn count(&mut self, faulty: bool) {
        (self.bad, self.good) = if faulty { (self.bad + 1, 0) } else { (0, self.good + 1) };
        if !self.distrusted && self.bad >= SWEEPS {
            self.distrusted = true;
            self.times += 1;
        } else if self.distrusted && self.good >= 1 << (self.times - 1).min(16) {
            self.distrusted = false;
        }
    }
}

/// What a sweep changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// A distrusted switch took its tables, and has to do so again: another heavy sweep would tell.
    Waits,
    /// A switch is distrusted that was not before, or no longer is: the fabric has to be routed again.
    Routes,
}

impl Distrust {
    /// Counts a sweep whose tables were sent and answered, as far as they are.
    ///
    /// - `faulty`: switches that do not have what was sent.
    /// - `switches`: how many there are. Where half of them or more are faulty the fault is none of theirs,
    ///   and nothing is counted.
    pub(super) fn count(&self, faulty: &HashSet<Guid>, switches: usize) -> Change {
        let mut records = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if faulty.len() * 2 >= switches.max(1) {
            return Change::None;
        }
        for &guid in faulty {
            records.entry(guid).or_default();
        }
        let mut change = Change::None;
        for (guid, record) in records.iter_mut() {
            let before = record.distrusted;
            record.count(faulty.contains(guid));
            if record.distrusted != before {
                change = Change::Routes;
            } else if record.distrusted && record.good > 0 && change == Change::None {
                change = Change::Waits;
            }
        }
        records.retain(|_, record| record.bad > 0 || record.times > 0);
        change
    }

    /// The switches that are to be left out, by GUID.
    pub(super) fn switches(&self) -> HashSet<Guid> {
        let records = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        records.iter().filter(|(_, record)| record.distrusted).map(|(&guid, _)| guid).collect()
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
            None => has_row(node, programmed.routes.sl2vl.adapters()),
        };
        if blocks(switch).1 > 0 || host::physp(node, 0).is_some_and(maps_sls) && !takes_rows() {
            found.insert(guid);
        }
    }
    (found, switches)
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

/// Whether a switch that is left out acknowledged the row that it is sent for all its ports.
fn has_row(node: &abi::osm_node_t, row: SlVlRow) -> bool {
    let ports = node.physp_tbl_size as usize;
    (1..ports).filter_map(|port| host::physp(node, port)).all(|physp| {
        // SAFETY: only reads the port's own PortInfo.
        let state = u32::from(unsafe { abi::ib_port_info_get_port_state(&physp.port_info) });
        // SAFETY: only reads the port's own PortInfo.
        let operates = data_vls(unsafe { abi::ib_port_info_get_op_vls(&physp.port_info) });
        let wanted = clipped(row, operates);
        state == abi::IB_LINK_DOWN
            || (0..ports).all(|in_port| host::row(physp, in_port as u8).is_none_or(|held| held == wanted))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{Change, Distrust, SWEEPS};
    use crate::fabric::Guid;

    #[test]
    fn a_switch_is_distrusted_after_several_sweeps_in_a_row() {
        let distrust = Distrust::default();
        let (one, none) = (HashSet::from([Guid(7)]), HashSet::new());
        for _ in 1..SWEEPS {
            assert_eq!(distrust.count(&one, 5), Change::None);
        }
        // One good sweep starts the count anew.
        assert_eq!(distrust.count(&none, 5), Change::None);
        for sweep in 1..=SWEEPS {
            assert!(distrust.switches().is_empty());
            let change = if sweep == SWEEPS { Change::Routes } else { Change::None };
            assert_eq!(distrust.count(&one, 5), change);
        }
        assert_eq!(distrust.switches(), one);
        assert_eq!(distrust.count(&one, 5), Change::None);
        assert_eq!(distrust.count(&none, 5), Change::Routes);
        assert!(distrust.switches().is_empty());
    }

    #[test]
    fn who_relapses_waits_twice_as_long() {
        let distrust = Distrust::default();
        let (one, none) = (HashSet::from([Guid(7)]), HashSet::new());
        for times in 0..4 {
            (0..SWEEPS).for_each(|_| _ = distrust.count(&one, 5));
            for _ in 1..1 << times {
                assert_eq!(distrust.count(&none, 5), Change::Waits);
                assert_eq!(distrust.switches(), one);
            }
            assert_eq!(distrust.count(&none, 5), Change::Routes);
            assert!(distrust.switches().is_empty());
        }
    }

    #[test]
    fn where_half_of_the_switches_are_faulty_none_is_distrusted() {
        let distrust = Distrust::default();
        let two = HashSet::from([Guid(7), Guid(8)]);
        for _ in 0..2 * SWEEPS {
            assert_eq!(distrust.count(&two, 4), Change::None);
        }
        assert!(distrust.switches().is_empty());
        (0..SWEEPS).for_each(|_| _ = distrust.count(&two, 5));
        assert_eq!(distrust.switches(), two);
    }
}
