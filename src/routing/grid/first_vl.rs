//! The VL of the first channels, and the order of its channels.

use std::cmp::Reverse;

use crate::ordering::{Edges, TopologicalOrder, positions};

/// No switch, or no link.
pub(super) const NONE: u32 = u32::MAX;
/// Visits of channels by reorderings, for each channel. With 256, 10x10x10 with 5 % of its links down has none left for
/// the last targets, and three times the detours.
const REORDERING: u64 = 4096;

/// The dependencies between channels on the first VL, and an order in which all of them ascend.
pub(super) struct FirstVl {
    slots: usize,
    /// Of the channels.
    order: TopologicalOrder,
    dependencies: Dependencies,
    /// By channel and the slot after it: it would close a cycle.
    refused: Vec<bool>,
    /// By channel: whether it belongs to a tree.
    reserved: Vec<bool>,
    /// Whether a path that ascends leads from each switch to each, or a tree does.
    connects: bool,
    /// Visits that are left.
    budget: u64,
}

/// What waits for what: edges between channels.
struct Dependencies {
    slots: usize,
    next: Vec<u32>,
    /// By channel and the slot after it: whether the second waits for the first.
    has: Vec<bool>,
}

impl Dependencies {
    fn number(&self, first: usize, second: usize) -> usize {
        first * self.slots + second % self.slots
    }
}

impl Edges for Dependencies {
    fn after(&self, vertex: u32, mut each: impl FnMut(u32)) {
        let channel = vertex as usize;
        for slot in (0..self.slots).filter(|slot| self.has[channel * self.slots + slot]) {
            each(self.next[channel] * self.slots as u32 + slot as u32);
        }
    }

    fn before(&self, vertex: u32, mut each: impl FnMut(u32)) {
        let channel = vertex as usize;
        let switch = channel / self.slots;
        for slot in 0..self.slots {
            let from = self.next[switch * self.slots + slot];
            if from == NONE {
                continue;
            }
            let behind = from as usize * self.slots + (slot ^ 1);
            if self.has[self.number(behind, channel)] {
                each(behind as u32);
            }
        }
    }
}

impl FirstVl {
    /// An order that grows with the paths.
    ///
    /// - `position`: by channel, where it begins.
    pub(super) fn growing(slots: usize, next: &[u32], position: &[u32]) -> Self {
        Self::new(slots, next, position, REORDERING * next.len() as u64)
    }

    /// An order that stays. A path that ascends in it must lead from each switch to each.
    pub(super) fn fixed(slots: usize, next: &[u32], position: &[u32]) -> Self {
        Self { connects: true, ..Self::new(slots, next, position, 0) }
    }

    fn new(slots: usize, next: &[u32], position: &[u32], budget: u64) -> Self {
        let channels = next.len();
        let none = vec![false; channels * slots];
        Self {
            slots,
            order: TopologicalOrder::by_place(positions(position)),
            dependencies: Dependencies { slots, next: next.to_vec(), has: none.clone() },
            refused: none,
            reserved: vec![false; channels],
            connects: false,
            budget,
        }
    }

    pub(super) fn add(&mut self, first: usize, second: usize) {
        let edge = self.dependencies.number(first, second);
        self.dependencies.has[edge] = true;
    }

    fn next(&self, channel: usize) -> u32 {
        self.dependencies.next[channel]
    }

    /// Adds a link to a tree, in both directions and with all their turns. To be called for all links of the tree before
    /// any path, away from the root.
    ///
    /// - `channel`: to a switch that is not in the tree yet.
    pub(super) fn reserve(&mut self, channel: usize) {
        let (from, to) = (channel / self.slots, self.next(channel) as usize);
        let back = to * self.slots + ((channel % self.slots) ^ 1);
        for slot in 0..self.slots {
            let other = from * self.slots + slot;
            if other == channel || !self.reserved[other] {
                continue;
            }
            let towards = self.next(other) as usize * self.slots + (slot ^ 1);
            for (first, second) in [(back, other), (towards, channel)] {
                let fits = self.admits(&[first, second], true);
                debug_assert!(fits, "the turns of a tree close no cycle");
                if fits {
                    self.add(first, second);
                }
            }
        }
        self.reserved[channel] = true;
        self.reserved[back] = true;
        self.connects = true;
    }

    /// Whether each pair of switches has a path on this VL.
    pub(super) fn connects(&self) -> bool {
        self.connects
    }

    /// Whether the order may still change.
    pub(super) fn grows(&self) -> bool {
        self.budget > 0
    }

    /// By switch: the slot of a path to a target that ascends in the order, and the hops; `u16::MAX` where none is found.
    /// Of several steps with the fewest hops, it takes one that is later than the step back, as down channels are later
    /// than up channels: more channels ascend to it. Of these, it takes the one with the least load.
    ///
    /// - `load`: by channel.
    ///
    /// Cost: O(C log C).
    pub(super) fn towards(&self, target: usize, load: &[u64]) -> Vec<(u8, u16)> {
        let mut towards = vec![(u8::MAX, u16::MAX); self.reserved.len() / self.slots];
        towards[target].1 = 0;
        let mut level = vec![target];
        for hops in 1.. {
            let mut found: Vec<(usize, bool, Reverse<u64>, u8)> = Vec::new();
            for s in level {
                let after = if s == target {
                    u32::MAX
                } else {
                    self.order.place(s * self.slots + usize::from(towards[s].0))
                };
                for slot in 0..self.slots {
                    let from = self.next(s * self.slots + slot);
                    if from == NONE || towards[from as usize].1 != u16::MAX {
                        continue;
                    }
                    let (from, back) = (from as usize, s * self.slots + slot);
                    let slot = slot ^ 1;
                    let channel = from * self.slots + slot;
                    if self.order.place(channel) < after {
                        let is_late = self.order.place(channel) > self.order.place(back);
                        found.push((from, is_late, Reverse(load[channel]), slot as u8));
                    }
                }
            }
            if found.is_empty() {
                break;
            }
            found.sort_unstable();
            // The last one of each switch.
            found.iter().for_each(|&(s, .., slot)| towards[s] = (slot, hops));
            level = found.into_iter().map(|(s, ..)| s).collect();
            level.dedup();
        }
        towards
    }

    /// By switch: the slot of its path in the tree to a target, and the hops. `None` without a tree.
    pub(super) fn tree_towards(&self, target: usize) -> Option<Vec<(u8, u16)>> {
        let mut towards = vec![(u8::MAX, u16::MAX); self.reserved.len() / self.slots];
        towards[target].1 = 0;
        let mut queue = vec![target];
        let mut at = 0;
        while let Some(&s) = queue.get(at) {
            at += 1;
            for slot in 0..self.slots {
                let channel = s * self.slots + slot;
                if !self.reserved[channel] {
                    continue;
                }
                let next = self.next(channel) as usize;
                if towards[next].1 == u16::MAX {
                    towards[next] = ((slot ^ 1) as u8, towards[s].1 + 1);
                    queue.push(next);
                }
            }
        }
        (queue.len() == towards.len()).then_some(towards)
    }

    /// Whether the channels of a path can ascend.
    ///
    /// - `reorder`: whether the order may change for it.
    pub(super) fn admits(&mut self, path: &[usize], reorder: bool) -> bool {
        let mut added = Vec::new();
        let fits = path.windows(2).all(|two| {
            let (first, second) = (two[0], two[1]);
            let edge = self.dependencies.number(first, second);
            if self.refused[edge] {
                return false;
            }
            if self.dependencies.has[edge] {
                return true;
            }
            let ascends = self.order.place(first) < self.order.place(second);
            if !(ascends || reorder && self.reorder(first, second)) {
                // With what was added before it might be the path itself that closes the cycle.
                self.refused[edge] = reorder && added.is_empty() && self.budget > 0;
                return false;
            }
            self.dependencies.has[edge] = true;
            added.push(edge);
            true
        });
        added.into_iter().for_each(|edge| self.dependencies.has[edge] = false);
        fits
    }

    /// Changes the order so that the first channel comes before the second one; `false` if that closes a cycle, or takes
    /// too long.
    fn reorder(&mut self, first: usize, second: usize) -> bool {
        if self.budget == 0 {
            return false;
        }
        let before = self.order.visited();
        let fits = self.order.admit(&self.dependencies, first, second);
        self.budget = self.budget.saturating_sub(self.order.visited() - before);
        fits
    }
}
