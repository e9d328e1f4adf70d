//! Minimal hop counts between all switches.

use std::fmt;
use std::sync::OnceLock;

use rayon::prelude::*;

use super::RoutingError;
use super::minimal_dag::{self, MinimalDag};
use crate::fabric::{Fabric, SwitchId};

/// The least number of channels between any two switches: one byte a pair, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hops {
    switches: usize,
    hops: Vec<u8>,
    kept: Kept,
}

/// Minimal-path DAGs that are kept for further passes. They follow from fabric and distances, so they tell no distances
/// apart.
#[derive(Default)]
struct Kept(OnceLock<Option<Vec<MinimalDag>>>);

impl Clone for Kept {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Kept {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Kept {}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

impl Hops {
    /// The largest distance that OpenSM's lid matrix can hold (0xff means that there is no path).
    pub const MAX: u8 = 254;

    const UNREACHED: u8 = 255;

    /// Breadth-first searches from all switches, 64 at a time with a bit each.
    ///
    /// # Errors
    /// [`RoutingError::NoSwitch`], [`RoutingError::Partitioned`], [`RoutingError::TooFar`].
    ///
    /// Cost: O(S (S + C)) time at worst, less by up to 64 times where the searches meet the same
    /// switches at the same distance; spread over all cores. S^2 bytes, with S switches and C channels.
    pub fn new(fabric: &Fabric) -> Result<Self, RoutingError> {
        let switches = fabric.num_switches();
        if switches == 0 {
            return Err(RoutingError::NoSwitch);
        }
        let mut hops = vec![Self::UNREACHED; switches * switches];
        hops.par_chunks_mut(ROOTS * switches)
            .enumerate()
            .try_for_each(|(block, rows)| search(fabric, block * ROOTS, rows))?;
        Ok(Self { switches, hops, kept: Kept::default() })
    }

    /// Builds the minimal-path DAGs of all switches once for all further passes, where that takes at most 200 MB.
    ///
    /// - `fabric`: the same.
    ///
    /// Cost: O(S C / 8 + S E) with E the channels of a DAG, on all cores.
    pub fn keep_dags(&self, fabric: &Fabric) {
        // Two threads may build them at the same time. If one waited for the other, it might wait for itself.
        if self.kept.0.get().is_none() {
            let _ = self.kept.0.set(minimal_dag::all(fabric, self));
        }
    }

    /// The distances alone.
    #[must_use]
    pub fn without_dags(self) -> Self {
        Self { kept: Kept::default(), ..self }
    }

    /// The minimal-path DAGs of all switches, if they are kept.
    pub(super) fn dags(&self, fabric: &Fabric) -> Option<&[MinimalDag]> {
        debug_assert_eq!(fabric.num_switches(), self.switches);
        self.kept.0.get()?.as_deref()
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

/// Searches that run together.
const ROOTS: usize = 64;

/// Fills the rows of consecutive switches from `first` on.
fn search(fabric: &Fabric, first: usize, rows: &mut [u8]) -> Result<(), RoutingError> {
    let n = fabric.num_switches();
    let roots = rows.len() / n;
    // By switch, a bit for each search: has it been here, does it come from here, does it come here
    // next.
    let (mut seen, mut front, mut coming) = (vec![0_u64; n], vec![0_u64; n], vec![0_u64; n]);
    let mut active: Vec<usize> = (first..first + roots).collect();
    for (i, row) in rows.chunks_exact_mut(n).enumerate() {
        let root = first + i;
        row[root] = 0;
        (seen[root], front[root]) = (1 << i, 1 << i);
    }
    let mut next = Vec::new();
    for hops in 1.. {
        for &s in &active {
            for (_, c) in fabric.channels().out(SwitchId::at(s)) {
                let to = c.to.index();
                if coming[to] == 0 {
                    next.push(to);
                }
                coming[to] |= front[s];
            }
        }
        active.drain(..).for_each(|s| front[s] = 0);
        for s in next.drain(..) {
            let mut new = std::mem::take(&mut coming[s]) & !seen[s];
            if new == 0 {
                continue;
            }
            if hops > usize::from(Hops::MAX) {
                return Err(RoutingError::TooFar {
                    from: fabric.describe_switch(SwitchId::at(first + new.trailing_zeros() as usize)),
                    to: fabric.describe_switch(SwitchId::at(s)),
                });
            }
            seen[s] |= new;
            front[s] = new;
            active.push(s);
            while new != 0 {
                rows[new.trailing_zeros() as usize * n + s] = hops as u8;
                new &= new - 1;
            }
        }
        if active.is_empty() {
            break;
        }
    }
    let row = &rows[..n];
    match row.iter().position(|&h| h == Hops::UNREACHED) {
        None => Ok(()),
        Some(lost) => Err(RoutingError::Partitioned {
            from: fabric.describe_switch(SwitchId::at(first)),
            to: fabric.describe_switch(SwitchId::at(lost)),
            reached: row.iter().filter(|&&h| h != Hops::UNREACHED).count(),
            switches: n,
        }),
    }
}
