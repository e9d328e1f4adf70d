//! Minimal hop counts between all switches.

use rayon::prelude::*;

use super::RoutingError;
use crate::fabric::{Fabric, SwitchId};

/// The least number of channels between any two switches: one byte a pair, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hops {
    switches: usize,
    hops: Vec<u8>,
}

impl Hops {
    /// The largest distance that OpenSM's lid matrix can hold (0xff means that there is no path).
    pub const MAX: u8 = 254;

    const UNREACHED: u8 = 255;

    /// A breadth-first search from each switch.
    ///
    /// # Errors
    /// [`RoutingError::Partitioned`], [`RoutingError::TooFar`].
    ///
    /// Cost: O(S (S + C)) time over all cores, S^2 bytes, with S switches and C channels.
    pub fn new(fabric: &Fabric) -> Result<Self, RoutingError> {
        let switches = fabric.num_switches();
        let mut hops = vec![Self::UNREACHED; switches * switches];
        hops.par_chunks_mut(switches.max(1))
            .enumerate()
            .try_for_each(|(s, row)| search(fabric, SwitchId::at(s), row))?;
        Ok(Self { switches, hops })
    }

    /// Distance of every switch from `switch`, and by symmetry to it.
    pub fn row(&self, switch: SwitchId) -> &[u8] {
        &self.hops[switch.index() * self.switches..][..self.switches]
    }

    /// Distance between two switches.
    pub fn get(&self, from: SwitchId, to: SwitchId) -> u8 {
        self.row(from)[to.index()]
    }

    /// The switch diameter: the largest distance between any two switches.
    pub fn diameter(&self) -> u8 {
        self.hops.iter().copied().max().unwrap_or(0)
    }
}

fn search(fabric: &Fabric, start: SwitchId, row: &mut [u8]) -> Result<(), RoutingError> {
    row[start.index()] = 0;
    let mut queue = Vec::with_capacity(row.len());
    queue.push(start);
    let mut head = 0;
    while let Some(&s) = queue.get(head) {
        head += 1;
        let next = row[s.index()] + 1;
        for (_, c) in fabric.channels().out(s) {
            if row[c.to.index()] == Hops::UNREACHED {
                if next > Hops::MAX {
                    return Err(RoutingError::TooFar {
                        from: fabric.describe_switch(start),
                        to: fabric.describe_switch(c.to),
                    });
                }
                row[c.to.index()] = next;
                queue.push(c.to);
            }
        }
    }
    match row.iter().position(|&h| h == Hops::UNREACHED) {
        None => Ok(()),
        Some(lost) => Err(RoutingError::Partitioned {
            from: fabric.describe_switch(start),
            to: fabric.describe_switch(SwitchId::at(lost)),
            reached: queue.len(),
            switches: row.len(),
        }),
    }
}
