//! Switches that do not accept their tables, and links that do not come up.
//!
//! A switch that, sweep after sweep, does not acknowledge its forwarding blocks as they were sent forwards by
//! unproven tables. It is left out of the next tables. A switch that does not acknowledge SL2VL rows uses
//! unknown VLs, and one that does not raise its LinearFDBTop drops packets; so does a link that OpenSM cannot
//! bring to ACTIVE. Such switches and links are avoided: see [`sift`](crate::fabric::sift). OpenSM continues
//! to send tables and link states. As soon as they are accepted, the switch or link is used again.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;

use super::abi;
use super::fault::{Fault, Faults};
use super::host::{self, Host};
use super::recheck::{blocks, short_top};
use super::rows::clipped;
use super::snapshot::{data_vls, maps_sls};
use crate::fabric::{Guid, PortNum, SwitchId};
use crate::tables::{Programmed, SlVlRow};

/// When a fault is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// After tables were sent and answered: all faults except those of links.
    TablesSent,
    /// At the end of a sweep: faults of links.
    SubnetUp,
}

/// The history of faults.
#[derive(Debug, Default)]
pub(super) struct Distrust(Mutex<BTreeMap<(Guid, Fault), Record>>);

#[derive(Debug, Default)]
struct Record {
    /// Consecutive sweeps with the fault.
    bad: u32,
    /// Consecutive sweeps without it since it began to count.
    good: u32,
    distrusted: bool,
    /// Number of times that it started to count.
    times: u32,
}

/// After so many relapses the sweeps that are needed do not double any more: each is a heavy one.
const MOST_DOUBLINGS: u32 = 6;

impl Record {
    /// Counts a sweep. After each relapse, twice as many good sweeps are needed.
    fn count(&mut self, faulty: bool, patience: u32) {
        (self.bad, self.good) = if faulty { (self.bad + 1, 0) } else { (0, self.good + 1) };
        if !self.distrusted && self.bad >= patience {
            self.distrusted = true;
            self.times += 1;
        } else if self.distrusted && self.good >= 1 << (self.times - 1).min(MOST_DOUBLINGS) {
            self.distrusted = false;
        }
    }
}

/// The result of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// A fault was absent and must be absent once more: another heavy sweep would show it.
    Waits,
    /// A fault starts or ceases to count: the fabric has to be routed again.
    Routes,
}

impl Distrust {
    /// Counts a sweep.
    ///
    /// - `found`: the faults that were found.
    /// - `of`: number of switches, or of links at the end of a sweep. If half of them or more are
    ///   faulty, the cause is elsewhere and nothing is counted.
    /// - `is_there`: whether OpenSM knows a node. Of others nothing is known, and nothing is counted.
    pub(super) fn count(
        &self,
        when: When,
        found: &Faults,
        of: usize,
        is_there: impl Fn(Guid) -> bool,
    ) -> Change {
        let mut records = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let faulty = match when {
            When::TablesSent => found.iter().map(|&(guid, _)| guid).collect::<HashSet<_>>().len(),
            When::SubnetUp => found.len(),
        };
        if faulty * 2 >= of.max(1) {
            return Change::None;
        }
        for &fault in found {
            records.entry(fault).or_default();
        }
        let mut change = Change::None;
        for (fault, record) in records.iter_mut() {
            if matches!(fault.1, Fault::Link(_)) != (when == When::SubnetUp) || !is_there(fault.0) {
                continue;
            }
            let before = record.distrusted;
            record.count(found.contains(fault), fault.1.patience());
            if record.distrusted != before {
                change = Change::Routes;
            } else if record.distrusted && record.good > 0 && change == Change::None {
                change = Change::Waits;
            }
        }
        records.retain(|_, record| record.bad > 0 || record.times > 0);
        change
    }

    /// The faults that count.
    pub(super) fn faults(&self) -> Faults {
        let records = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        records.iter().filter(|(_, record)| record.distrusted).map(|(&fault, _)| fault).collect()
    }
}

/// The faults of switches, and the number of switches. For the event that OpenSM reports after it has
/// waited for all answers, under its lock.
///
/// Cost: O(LIDs + ports^2) for each switch.
pub(super) fn faulty_switches(host: &Host, programmed: &Programmed) -> (Faults, usize) {
    let mut found = Faults::new();
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
        if blocks(switch).1 > 0 {
            found.insert((guid, Fault::Blocks));
        }
        if host::physp(node, 0).is_some_and(maps_sls) && !takes_rows() {
            found.insert((guid, Fault::Rows));
        }
        if short_top(switch).is_some() {
            found.insert((guid, Fault::Top));
        }
    }
    (found, switches)
}

/// Links between switches that are up and not ACTIVE at both ends, and the number of links that are
/// up. At the end of a sweep, under OpenSM's lock. Links of switches that are left out do not count.
///
/// Cost: O(ports).
pub(super) fn faulty_links(host: &Host, programmed: &Programmed) -> (Faults, usize) {
    let mut found = Faults::new();
    let mut links = 0;
    for node in host.nodes() {
        let guid = host::node_guid(node);
        if programmed.switch(guid).is_none() {
            continue;
        }
        for physp in (1..node.physp_tbl_size as usize).filter_map(|port| host::physp(node, port)) {
            let Some(remote) = host::remote(physp) else { continue };
            let there = host::node_of(remote).map(host::node_guid).unwrap_or_default();
            let lower = (guid, physp.port_num) < (there, remote.port_num);
            if !lower || guid == there || programmed.switch(there).is_none() {
                continue;
            }
            let states = [physp, remote].map(host::link_state);
            let healthy = [physp, remote].iter().all(|port| port.healthy == abi::TRUE);
            if !healthy || states.contains(&abi::IB_LINK_DOWN) {
                continue;
            }
            links += 1;
            if states != [abi::IB_LINK_ACTIVE; 2] {
                found.insert((guid, Fault::Link(PortNum(physp.port_num))));
            }
        }
    }
    (found, links)
}

/// Whether a routed switch acknowledged its rows towards other switches.
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

/// Whether a left-out switch acknowledged the one row sent for all its ports.
fn has_row(node: &abi::osm_node_t, row: SlVlRow) -> bool {
    let ports = node.physp_tbl_size as usize;
    (1..ports).filter_map(|port| host::physp(node, port)).all(|physp| {
        // SAFETY: only reads the port's own PortInfo.
        let operates = data_vls(unsafe { abi::ib_port_info_get_op_vls(&physp.port_info) });
        let wanted = clipped(row, operates);
        host::link_state(physp) == abi::IB_LINK_DOWN
            || (0..ports).all(|in_port| host::row(physp, in_port as u8).is_none_or(|held| held == wanted))
    })
}

#[cfg(test)]
mod tests {
    use super::{Change, Distrust, Fault, Faults, MOST_DOUBLINGS, When};
    use crate::fabric::{Guid, PortNum};

    const PATIENCE: u32 = 4;

    fn count(distrust: &Distrust, found: &Faults, of: usize) -> Change {
        distrust.count(When::TablesSent, found, of, |_| true)
    }

    #[test]
    fn a_switch_is_distrusted_after_several_sweeps_in_a_row() {
        let distrust = Distrust::default();
        let (one, none) = (Faults::from([(Guid(7), Fault::Rows)]), Faults::new());
        for _ in 1..PATIENCE {
            assert_eq!(count(&distrust, &one, 5), Change::None);
        }
        // One good sweep restarts the count.
        assert_eq!(count(&distrust, &none, 5), Change::None);
        for sweep in 1..=PATIENCE {
            assert!(distrust.faults().is_empty());
            let change = if sweep == PATIENCE { Change::Routes } else { Change::None };
            assert_eq!(count(&distrust, &one, 5), change);
        }
        assert_eq!(distrust.faults(), one);
        assert_eq!(count(&distrust, &one, 5), Change::None);
        assert_eq!(count(&distrust, &none, 5), Change::Routes);
        assert!(distrust.faults().is_empty());
    }

    #[test]
    fn what_relapses_waits_twice_as_long() {
        let distrust = Distrust::default();
        let (one, none) = (Faults::from([(Guid(7), Fault::Blocks)]), Faults::new());
        for times in 0..MOST_DOUBLINGS + 3 {
            (0..PATIENCE).for_each(|_| _ = count(&distrust, &one, 5));
            for _ in 1..1 << times.min(MOST_DOUBLINGS) {
                assert_eq!(count(&distrust, &none, 5), Change::Waits);
                assert_eq!(distrust.faults(), one);
            }
            assert_eq!(count(&distrust, &none, 5), Change::Routes);
            assert!(distrust.faults().is_empty());
        }
    }

    #[test]
    fn nothing_is_waited_for_while_a_switch_is_gone() {
        let distrust = Distrust::default();
        let (one, none) = (Faults::from([(Guid(7), Fault::Blocks)]), Faults::new());
        for _ in 0..2 {
            (0..PATIENCE).for_each(|_| _ = count(&distrust, &one, 5));
            let gone = || distrust.count(When::TablesSent, &none, 4, |guid| guid != Guid(7));
            assert!((0..5).all(|_| gone() == Change::None) && distrust.faults() == one);
            while count(&distrust, &none, 5) != Change::Routes {}
        }
        assert!(distrust.faults().is_empty());
    }

    #[test]
    fn where_half_of_the_switches_are_faulty_none_is_distrusted() {
        let distrust = Distrust::default();
        let two = Faults::from([(Guid(7), Fault::Blocks), (Guid(7), Fault::Rows), (Guid(8), Fault::Blocks)]);
        for _ in 0..2 * PATIENCE {
            assert_eq!(count(&distrust, &two, 4), Change::None);
        }
        assert!(distrust.faults().is_empty());
        (0..PATIENCE).for_each(|_| _ = count(&distrust, &two, 5));
        assert_eq!(distrust.faults(), two);
    }

    #[test]
    fn links_and_tables_are_counted_apart() {
        let distrust = Distrust::default();
        let link = Faults::from([(Guid(7), Fault::Link(PortNum(3)))]);
        let top = Faults::from([(Guid(7), Fault::Top)]);
        let none = Faults::new();
        assert_eq!(distrust.count(When::SubnetUp, &link, 5, |_| true), Change::None);
        // Complete tables do not imply that links are up.
        assert_eq!(count(&distrust, &none, 5), Change::None);
        assert_eq!(distrust.count(When::SubnetUp, &link, 5, |_| true), Change::Routes);
        assert_eq!(count(&distrust, &top, 5), Change::None);
        assert_eq!(count(&distrust, &top, 5), Change::Routes);
        assert_eq!(distrust.faults(), &link | &top);
        assert_eq!(distrust.count(When::SubnetUp, &none, 5, |_| true), Change::Routes);
        assert_eq!(distrust.faults(), top);
    }
}
