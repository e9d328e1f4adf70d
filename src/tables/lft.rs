//! Linear forwarding tables.

use crate::fabric::{Fabric, Lid, PortNum, SwitchId};

/// For each switch the out port by destination LID, as one dense array of
/// switches x [`Fabric::lid_table_len`] bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lft {
    stride: usize,
    ports: Vec<u8>,
}

impl Lft {
    /// What an entry holds that leads nowhere.
    pub const NO_PATH: u8 = 0xff;

    /// Tables for all switches of a fabric that lead nowhere yet.
    pub fn new(fabric: &Fabric) -> Self {
        let stride = fabric.lid_table_len();
        Self { stride, ports: vec![Self::NO_PATH; stride * fabric.num_switches()] }
    }

    /// The out port for a LID; `None` where the table has no way.
    pub fn get(&self, switch: SwitchId, lid: Lid) -> Option<PortNum> {
        match self.row(switch).get(lid.index()) {
            None | Some(&Self::NO_PATH) => None,
            Some(&port) => Some(PortNum(port)),
        }
    }

    /// Sets the out port for a LID of the fabric.
    pub fn set(&mut self, switch: SwitchId, lid: Lid, port: PortNum) {
        self.ports[switch.index() * self.stride + lid.index()] = port.0;
    }

    /// Sets an entry so that it leads nowhere.
    pub fn clear(&mut self, switch: SwitchId, lid: Lid) {
        self.ports[switch.index() * self.stride + lid.index()] = Self::NO_PATH;
    }

    /// The whole table of a switch by LID, [`Lft::NO_PATH`] where there is no way.
    pub fn row(&self, switch: SwitchId) -> &[u8] {
        &self.ports[switch.index() * self.stride..][..self.stride]
    }
}
