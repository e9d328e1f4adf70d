//! Linear forwarding tables.

use crate::fabric::{Fabric, Lid, PortNum, SwitchId};

/// The out port by destination LID and switch, as one dense array of
/// [`Fabric::lid_table_len`] x switches bytes.
///
/// Destination-major: everything that computes or judges a routing works on one destination at a
/// time, and then finds the ports of all switches side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lft {
    switches: usize,
    ports: Vec<u8>,
}

impl Lft {
    /// What an entry holds that leads nowhere.
    pub const NO_PATH: u8 = 0xff;

    /// Tables for all switches of a fabric that lead nowhere yet.
    pub fn new(fabric: &Fabric) -> Self {
        let switches = fabric.num_switches();
        Self { switches, ports: vec![Self::NO_PATH; fabric.lid_table_len() * switches] }
    }

    /// The out port for a LID; `None` where the table has no way.
    pub fn get(&self, switch: SwitchId, lid: Lid) -> Option<PortNum> {
        match self.ports.get(lid.index() * self.switches + switch.index()) {
            None | Some(&Self::NO_PATH) => None,
            Some(&port) => Some(PortNum(port)),
        }
    }

    /// Sets the out port for a LID of the fabric.
    pub fn set(&mut self, switch: SwitchId, lid: Lid, port: PortNum) {
        self.to_mut(lid)[switch.index()] = port.0;
    }

    /// Sets an entry so that it leads nowhere.
    pub fn clear(&mut self, switch: SwitchId, lid: Lid) {
        self.to_mut(lid)[switch.index()] = Self::NO_PATH;
    }

    /// The way to a LID of the fabric: out port by switch, [`Lft::NO_PATH`] where there is none.
    pub fn to(&self, lid: Lid) -> &[u8] {
        &self.ports[lid.index() * self.switches..][..self.switches]
    }

    /// The way to a LID of the fabric: out port by switch.
    pub fn to_mut(&mut self, lid: Lid) -> &mut [u8] {
        &mut self.ports[lid.index() * self.switches..][..self.switches]
    }

    /// The table of one switch by LID, as it is programmed; [`Lft::NO_PATH`] where there is no way.
    pub fn row(&self, switch: SwitchId) -> Vec<u8> {
        self.ports.iter().skip(switch.index()).step_by(self.switches.max(1)).copied().collect()
    }

    /// The tables of `switches` (an index range of at most 64 or so), LID by LID: one pass over the
    /// array serves them all, which a pass for each would read as many times.
    pub fn rows(&self, switches: std::ops::Range<usize>) -> Vec<Vec<u8>> {
        let lids = self.ports.len() / self.switches.max(1);
        let mut rows = vec![Vec::with_capacity(lids); switches.len()];
        for ports in self.ports.chunks_exact(self.switches.max(1)) {
            for (row, &port) in rows.iter_mut().zip(&ports[switches.clone()]) {
                row.push(port);
            }
        }
        rows
    }
}
