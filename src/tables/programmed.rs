//! Programmed tables, for look-ups.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Routes, SlVlRow};
use crate::fabric::{Fabric, Guid, Lid, PortNum, Sl, SwitchId};

/// Tables in force, for look-ups from any thread without locks. Keyed by GUID and LID, which
/// outlive the objects of a subnet manager.
///
/// Cost: that of the tables, and 8 bytes per LID and switch.
#[derive(Debug)]
pub struct Programmed {
    /// The fabric that was routed.
    pub fabric: Fabric,
    /// Its tables.
    pub routes: Routes,
    /// GUIDs of switches and of adapter ports that were left out of the tables on purpose, ascending.
    left_out: Vec<Guid>,
    guids: Vec<u64>,
    source_switch: Vec<Option<SwitchId>>,
    last: AtomicUsize,
}

impl Programmed {
    /// Takes over tables and the fabric that they were made for.
    pub fn new(fabric: Fabric, routes: Routes) -> Self {
        let guids = fabric.switch_ids().map(|s| fabric.switch(s).guid.0).collect();
        let mut source_switch = vec![None; fabric.lid_table_len()];
        for e in fabric.endports() {
            for lid in e.lids() {
                source_switch[lid.index()] = e.attachment.map(|(s, _)| s);
            }
        }
        Self { fabric, routes, left_out: Vec::new(), guids, source_switch, last: AtomicUsize::new(0) }
    }

    /// Adds the GUIDs of switches and adapter ports that were left out on purpose.
    #[must_use]
    pub fn without(mut self, left_out: impl IntoIterator<Item = Guid>) -> Self {
        self.left_out = left_out.into_iter().collect();
        self.left_out.sort_unstable();
        self
    }

    /// Whether a switch or adapter port was left out on purpose.
    pub fn is_left_out(&self, guid: Guid) -> bool {
        self.left_out.binary_search(&guid).is_ok()
    }

    /// The switch with a GUID. OpenSM asks for the same switch many times in a row.
    pub fn switch(&self, guid: Guid) -> Option<SwitchId> {
        let last = self.last.load(Ordering::Relaxed);
        if self.guids.get(last) == Some(&guid.0) {
            return Some(SwitchId::at(last));
        }
        let found = self.guids.binary_search(&guid.0).ok()?;
        self.last.store(found, Ordering::Relaxed);
        Some(SwitchId::at(found))
    }

    /// The SL2VL row of a switch; `None` for ports that the switch did not have.
    pub fn row(&self, switch: SwitchId, in_port: u8, out_port: u8) -> Option<SlVlRow> {
        let ports = self.routes.sl2vl.ports_of(switch);
        (usize::from(in_port) < ports && usize::from(out_port) < ports)
            .then(|| self.routes.sl2vl.row(switch, PortNum(in_port), PortNum(out_port)))
    }

    /// The SL for a path, host-order LIDs. The hint comes from the query, a partition or a QoS
    /// policy and names a class of service. It is returned unchanged if it is as good as any other
    /// SL or if the path is unknown: a query that asks for an SL fails if it gets another.
    ///
    /// Cost: a few look-ups of about a nanosecond each when cached; if the hint differs from the
    /// table's SL, as many more as the path has hops.
    pub fn path_sl(&self, hint: u8, slid: u16, dlid: u16) -> u8 {
        let known = |lid: u16| self.source_switch.get(usize::from(lid)).copied().flatten();
        let (Some(source), Some(_), Some(lid)) = (known(slid), known(dlid), Lid::new(dlid)) else {
            return hint;
        };
        let table = &self.routes.path_sl;
        let Some(assigned) = table.path_record_sl(self.fabric.num_switches(), source, lid, Sl(hint)) else {
            return hint;
        };
        let another = assigned.0 != hint && usize::from(hint) < Sl::COUNT;
        if another && self.same_lanes(source, lid, Sl(hint), assigned) { hint } else { assigned.0 }
    }

    /// Whether a path uses the same VLs with either SL.
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
