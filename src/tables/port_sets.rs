//! Sets of next hops: what a switch with adaptive routing may choose from.

use std::collections::HashMap;

use super::{Lft, PortSet};
use crate::fabric::{Fabric, Lid, SwitchId};

/// The out ports that a switch may choose from, by destination LID and switch: four bytes each, and each distinct set
/// once.
#[derive(Clone, Debug)]
pub struct PortSets {
    switches: usize,
    sets: Vec<PortSet>,
    index: HashMap<PortSet, u32>,
    of: Vec<u32>,
}

impl PortSets {
    /// Sets of one port each: those of forwarding tables. LIDs without a path have none.
    pub fn of_lft(fabric: &Fabric, lft: &Lft) -> Self {
        let switches = fabric.num_switches();
        let mut sets = Self {
            switches,
            sets: vec![PortSet::default()],
            index: HashMap::from([(PortSet::default(), 0)]),
            of: vec![0; fabric.lid_table_len() * switches],
        };
        for lid in (0..fabric.lid_table_len() as u16).filter_map(Lid::new) {
            for s in fabric.switch_ids() {
                if let Some(port) = lft.get(s, lid) {
                    let mut set = PortSet::default();
                    set.insert(port);
                    sets.set(s, lid, set);
                }
            }
        }
        sets
    }

    /// The ports for a LID; empty if there are none.
    pub fn get(&self, switch: SwitchId, lid: Lid) -> PortSet {
        let at = self.of.get(lid.index() * self.switches + switch.index());
        at.map_or(PortSet::default(), |&at| self.sets[at as usize])
    }

    /// Replaces the ports for a LID of the fabric.
    pub fn set(&mut self, switch: SwitchId, lid: Lid, ports: PortSet) {
        let next = self.sets.len() as u32;
        let at = *self.index.entry(ports).or_insert(next);
        if at == next {
            self.sets.push(ports);
        }
        self.of[lid.index() * self.switches + switch.index()] = at;
    }

    /// Number of (switch, LID) with more than one port.
    pub fn adaptive(&self) -> usize {
        let many: Vec<bool> = self.sets.iter().map(|set| set.iter().nth(1).is_some()).collect();
        self.of.iter().filter(|&&at| many[at as usize]).count()
    }
}
