//! Minimality: hops of the routes against the hops that the cables allow.

use std::collections::BTreeMap;

use crate::fabric::Channels;

use super::tree::Tree;
use super::{Destination, Plan};

/// Distance of an unreachable switch.
const FAR: u16 = u16::MAX;

/// Distances to at most 64 switches.
pub(super) struct Distances {
    roots: Vec<usize>,
    table: Vec<u16>,
    switches: usize,
}

impl Distances {
    /// One breadth-first search for all roots at once, one bit each. `roots`: distinct, at most 64.
    ///
    /// Cost: O(levels x channels + roots x switches).
    pub(super) fn new(channels: &Channels, switches: usize, roots: Vec<usize>) -> Self {
        assert!(roots.len() <= 64, "one bit a root");
        let mut table = vec![FAR; roots.len() * switches];
        let mut seen = vec![0_u64; switches];
        let mut front = vec![0_u64; switches];
        for (i, &root) in roots.iter().enumerate() {
            front[root] |= 1 << i;
        }
        for level in 0.. {
            let mut any = false;
            for s in 0..switches {
                front[s] &= !seen[s];
                seen[s] |= front[s];
                let mut new = front[s];
                any |= new != 0;
                while new != 0 {
                    table[new.trailing_zeros() as usize * switches + s] = level;
                    new &= new - 1;
                }
            }
            if !any {
                break;
            }
            let mut next = vec![0; switches];
            for c in channels.as_slice() {
                next[c.to.index()] |= front[c.from.index()];
            }
            front = next;
        }
        Self { roots, table, switches }
    }

    /// Distances of all switches to one of the roots; cables work in both directions.
    pub(super) fn to(&self, root: usize) -> &[u16] {
        let i = self.roots.iter().position(|&r| r == root).expect("asked for its own roots only");
        &self.table[i * self.switches..][..self.switches]
    }

    /// The largest finite distance: between switches with adapters, and between any.
    pub(super) fn diameters(&self, plan: &Plan<'_>) -> (u16, u16) {
        let (mut adapters, mut all) = (0, 0);
        for &root in &self.roots {
            for (s, &d) in self.to(root).iter().enumerate().filter(|&(_, &d)| d != FAR) {
                all = all.max(d);
                if plan.adapters[root] > 0 && plan.adapters[s] > 0 {
                    adapters = adapters.max(d);
                }
            }
        }
        (adapters, all)
    }
}

/// Number of adapter pairs by hops. Integers only, so that sums do not depend on their order.
#[derive(Default)]
pub(super) struct HopCounts {
    minimal: Vec<u64>,
    /// By (hops, least possible hops).
    detours: BTreeMap<(u16, u16), u64>,
}

impl HopCounts {
    /// Counts the pairs that arrive at one LID of an adapter; returns whether any is a detour.
    pub(super) fn add(&mut self, plan: &Plan<'_>, to: &Destination, tree: &Tree, distance: &[u16]) -> bool {
        let mut detour = false;
        for &s in &tree.order {
            let s = s as usize;
            let pairs = u64::from(plan.adapters[s] - u32::from(s == to.root));
            if pairs == 0 {
                continue;
            }
            let hops = tree.hops[s];
            if hops == distance[s] {
                if self.minimal.len() <= usize::from(hops) {
                    self.minimal.resize(usize::from(hops) + 1, 0);
                }
                self.minimal[usize::from(hops)] += pairs;
            } else {
                *self.detours.entry((hops, distance[s])).or_default() += pairs;
                detour = true;
            }
        }
        detour
    }

    /// Adds pairs whose paths are minimal, by hops.
    pub(super) fn add_minimal(&mut self, pairs: Vec<u64>) {
        self.merge(Self { minimal: pairs, detours: BTreeMap::new() });
    }

    pub(super) fn merge(&mut self, other: Self) {
        if self.minimal.len() < other.minimal.len() {
            self.minimal.resize(other.minimal.len(), 0);
        }
        for (mine, theirs) in self.minimal.iter_mut().zip(other.minimal) {
            *mine += theirs;
        }
        for (key, pairs) in other.detours {
            *self.detours.entry(key).or_default() += pairs;
        }
    }

    /// (hops, least possible hops, pairs).
    fn all(&self) -> impl Iterator<Item = (u16, u16, u64)> {
        let minimal = self.minimal.iter().enumerate().map(|(h, &pairs)| (h as u16, h as u16, pairs));
        minimal.filter(|c| c.2 > 0).chain(self.detours.iter().map(|(&(h, d), &pairs)| (h, d, pairs)))
    }

    pub(super) fn pairs(&self) -> u64 {
        self.all().map(|c| c.2).sum()
    }

    pub(super) fn max(&self) -> u16 {
        self.all().map(|c| c.0).max().unwrap_or(0)
    }

    pub(super) fn nonminimal_share(&self) -> f64 {
        self.detours.values().sum::<u64>() as f64 / self.pairs().max(1) as f64
    }

    pub(super) fn mean(&self) -> f64 {
        self.all().map(|(hops, _, pairs)| u64::from(hops) * pairs).sum::<u64>() as f64
            / self.pairs().max(1) as f64
    }

    /// Mean of (hops + 1) / (least possible hops + 1); 1 without pairs.
    pub(super) fn mean_stretch(&self) -> f64 {
        let extra: f64 = self
            .detours
            .iter()
            .map(|(&(h, d), &pairs)| f64::from(h - d) / (f64::from(d) + 1.0) * pairs as f64)
            .sum();
        1.0 + extra / self.pairs().max(1) as f64
    }
}
