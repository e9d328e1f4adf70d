//! Linear forwarding tables.

use std::sync::Arc;

use rayon::prelude::*;

use crate::fabric::{Fabric, Lid, PortNum, SwitchId};

/// The out port by destination LID and switch: a dense array of [`Fabric::lid_table_len`] x
/// switches bytes.
///
/// Destination-major: computing and checking a routing both work on one destination at a time, and
/// then the ports of all switches are adjacent. Copies share the entries until one of them changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lft {
    switches: usize,
    ports: Arc<Vec<u8>>,
}

impl Lft {
    /// The entry of an unreachable LID.
    pub const NO_PATH: u8 = 0xff;

    /// Tables for all switches of a fabric, with every LID unreachable.
    pub fn new(fabric: &Fabric) -> Self {
        Self::with_lids(fabric, fabric.lid_table_len())
    }

    /// The same for a number of LIDs, LID 0 included: a table may know LIDs that the fabric does not have.
    pub fn with_lids(fabric: &Fabric, lids: usize) -> Self {
        let switches = fabric.num_switches();
        Self { switches, ports: Arc::new(vec![Self::NO_PATH; lids * switches]) }
    }

    /// A copy with a number of LIDs, LID 0 included; those that it did not have are unreachable.
    pub fn with_room(&self, lids: usize) -> Self {
        let bytes = lids * self.switches;
        if bytes == self.ports.len() {
            return self.clone();
        }
        let mut ports = Vec::with_capacity(bytes);
        ports.extend_from_slice(&self.ports[..bytes.min(self.ports.len())]);
        ports.resize(bytes, Self::NO_PATH);
        Self { switches: self.switches, ports: Arc::new(ports) }
    }

    /// Number of LIDs, LID 0 included: [`Fabric::lid_table_len`] in the tables of an engine.
    pub fn lids(&self) -> usize {
        self.ports.len().checked_div(self.switches).unwrap_or(0)
    }

    /// The out port for a LID; `None` if the table has none.
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

    /// Makes a LID unreachable.
    pub fn clear(&mut self, switch: SwitchId, lid: Lid) {
        self.to_mut(lid)[switch.index()] = Self::NO_PATH;
    }

    /// The out ports to a LID of the fabric by switch, [`Lft::NO_PATH`] where there is none.
    pub fn to(&self, lid: Lid) -> &[u8] {
        &self.ports[lid.index() * self.switches..][..self.switches]
    }

    /// The out ports to a LID of the fabric by switch, mutable.
    pub fn to_mut(&mut self, lid: Lid) -> &mut [u8] {
        &mut Arc::make_mut(&mut self.ports)[lid.index() * self.switches..][..self.switches]
    }

    /// The out ports by switch of every LID, LID 0 included, mutable: one slice each, for many threads.
    pub fn all_mut(&mut self) -> impl IndexedParallelIterator<Item = &mut [u8]> {
        Arc::make_mut(&mut self.ports).par_chunks_mut(self.switches.max(1))
    }

    /// The table of one switch by LID, as it is programmed; [`Lft::NO_PATH`] if unreachable.
    pub fn row(&self, switch: SwitchId) -> Vec<u8> {
        self.ports.iter().skip(switch.index()).step_by(self.switches.max(1)).copied().collect()
    }

    /// Writes the tables of all switches as they are programmed: `tables[s][lid]`, each at least as
    /// long as the fabric's LID range; further entries keep their value.
    ///
    /// Cost: O(LIDs x switches) bytes read and written once, on all cores. Blocks of eight LIDs by
    /// eight switches are transposed, for 64 switches at a time, so that each cache line is read
    /// once.
    ///
    /// # Panics
    /// If there are fewer tables than switches, or one is too short.
    pub fn fill(&self, tables: &mut [&mut [u8]]) {
        const AT_ONCE: usize = 64;
        let lids = self.ports.len() / self.switches.max(1);
        assert!(tables.len() >= self.switches, "a table for each switch");
        tables[..self.switches].par_chunks_mut(AT_ONCE).enumerate().for_each(|(block, tables)| {
            for first_lid in (0..lids).step_by(8) {
                let height = (lids - first_lid).min(8);
                for (group, tables) in tables.chunks_mut(8).enumerate() {
                    let s = block * AT_ONCE + group * 8;
                    let at = |lid: usize| (first_lid + lid) * self.switches + s;
                    if let (8, [a, b, c, d, e, f, g, h]) = (height, &mut *tables) {
                        let row = |lid| u64::from_le_bytes(self.ports[at(lid)..][..8].try_into().unwrap());
                        let turned = transpose(std::array::from_fn(row));
                        for (table, ports) in [a, b, c, d, e, f, g, h].into_iter().zip(turned) {
                            table[first_lid..first_lid + 8].copy_from_slice(&ports.to_le_bytes());
                        }
                    } else {
                        for (i, table) in tables.iter_mut().enumerate() {
                            for lid in 0..height {
                                table[first_lid + lid] = self.ports[at(lid) + i];
                            }
                        }
                    }
                }
            }
        });
    }
}

/// Byte `j` of word `i` becomes byte `i` of word `j`.
fn transpose(mut x: [u64; 8]) -> [u64; 8] {
    for (distance, shift, mask) in
        [(4, 32, 0x0000_0000_ffff_ffff_u64), (2, 16, 0x0000_ffff_0000_ffff), (1, 8, 0x00ff_00ff_00ff_00ff)]
    {
        for i in (0..8).filter(|i| i & distance == 0) {
            let swap = (x[i] >> shift ^ x[i + distance]) & mask;
            x[i + distance] ^= swap;
            x[i] ^= swap << shift;
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Mesh, Ring};

    #[test]
    fn tables_by_switch_say_what_columns_do() {
        // Numbers of switches and LIDs, multiples of the block sizes and others.
        for (switches, cas) in [(2, 1), (8, 3), (9, 1), (64, 1), (67, 3), (130, 1)] {
            let f = match switches {
                2 => Mesh { dims: vec![2], cas: 1 }.build().unwrap(),
                _ => Ring { switches, cas }.build().unwrap(),
            };
            let mut lft = Lft::new(&f);
            for (i, port) in Arc::make_mut(&mut lft.ports).iter_mut().enumerate() {
                *port = (i * 31 % 251) as u8;
            }
            let lids = f.lid_table_len();
            let mut tables = vec![vec![7; lids + 5]; f.num_switches()];
            lft.fill(&mut tables.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
            for s in f.switch_ids() {
                assert_eq!(tables[s.index()][..lids], lft.row(s), "{switches}");
                assert_eq!(tables[s.index()][lids..], [7; 5], "{switches}");
            }
        }
    }
}
