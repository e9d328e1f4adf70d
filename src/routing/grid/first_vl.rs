//! The VL of the first channels, and the order of its channels.

use std::cmp::Reverse;

use crate::ordering::positions;

/// No switch, or no link.
pub(super) const NONE: u32 = u32::MAX;
/// Visits of channels by reorderings, for each channel. With 256, 10x10x10 with 5 % of its links down has none left for
/// the last targets, and three times the detours.
const REORDERING: usize = 4096;

/// The dependencies between channels on the first VL, and an order in which all of them ascend (Pearce and Kelly, *A
/// Dynamic Topological Sort Algorithm for Directed Acyclic Graphs*).
pub(super) struct FirstVl {
    slots: usize,
    next: Vec<u32>,
    /// By channel.
    order: Vec<u32>,
    /// By channel and the slot after it: whether the second waits for the first.
    depends: Vec<bool>,
    /// The same: it would close a cycle.
    refused: Vec<bool>,
    /// By channel: whether it belongs to a tree.
    reserved: Vec<bool>,
    /// Whether a path that ascends leads from each switch to each, or a tree does.
    connects: bool,
    mark: Vec<bool>,
    /// Visits that are left.
    budget: usize,
}

impl FirstVl {
    /// An order that grows with the paths.
    ///
    /// - `position`: by channel, where it begins.
    pub(super) fn growing(slots: usize, next: &[u32], position: &[u32]) -> Self {
        Self::new(slots, next, position, REORDERING * next.len())
    }

    /// An order that stays. A path that ascends in it must lead from each switch to each.
    pub(super) fn fixed(slots: usize, next: &[u32], position: &[u32]) -> Self {
        Self { connects: true, ..Self::new(slots, next, position, 0) }
    }

    fn new(slots: usize, next: &[u32], position: &[u32], budget: usize) -> Self {
        let channels = next.len();
        let order = positions(position);
        let none = vec![false; channels * slots];
        let (depends, refused) = (none.clone(), none);
        let (reserved, mark) = (vec![false; channels], vec![false; channels]);
        let connects = false;
        Self { slots, next: next.to_vec(), order, depends, refused, reserved, connects, mark, budget }
    }

    fn edge(&self, first: usize, second: usize) -> usize {
        first * self.slots + second % self.slots
    }

    pub(super) fn add(&mut self, first: usize, second: usize) {
        let edge = self.edge(first, second);
        self.depends[edge] = true;
    }

    /// Adds a link to a tree, in both directions and with all their turns. To be called for all links of the tree before
    /// any path, away from the root.
    ///
    /// - `channel`: to a switch that is not in the tree yet.
    pub(super) fn reserve(&mut self, channel: usize) {
        let (from, to) = (channel / self.slots, self.next[channel] as usize);
        let back = to * self.slots + ((channel % self.slots) ^ 1);
        for slot in 0..self.slots {
            let other = from * self.slots + slot;
            if other == channel || !self.reserved[other] {
                continue;
            }
            let towards = self.next[other] as usize * self.slots + (slot ^ 1);
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
        let mut towards = vec![(u8::MAX, u16::MAX); self.next.len() / self.slots];
        towards[target].1 = 0;
        let mut level = vec![target];
        for hops in 1.. {
            let mut found: Vec<(usize, bool, Reverse<u64>, u8)> = Vec::new();
            for s in level {
                let after = if s == target {
                    u32::MAX
                } else {
                    self.order[s * self.slots + usize::from(towards[s].0)]
                };
                for slot in 0..self.slots {
                    let from = self.next[s * self.slots + slot];
                    if from == NONE || towards[from as usize].1 != u16::MAX {
                        continue;
                    }
                    let (from, back) = (from as usize, s * self.slots + slot);
                    let slot = slot ^ 1;
                    let channel = from * self.slots + slot;
                    if self.order[channel] < after {
                        let is_late = self.order[channel] > self.order[back];
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
        let mut towards = vec![(u8::MAX, u16::MAX); self.next.len() / self.slots];
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
                let next = self.next[channel] as usize;
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
            let edge = self.edge(first, second);
            if self.refused[edge] {
                return false;
            }
            if self.depends[edge] {
                return true;
            }
            if self.order[first] > self.order[second] && !(reorder && self.reorder(first, second)) {
                // With what was added before it might be the path itself that closes the cycle.
                self.refused[edge] = reorder && added.is_empty() && self.budget > 0;
                return false;
            }
            self.depends[edge] = true;
            added.push(edge);
            true
        });
        added.into_iter().for_each(|edge| self.depends[edge] = false);
        fits
    }

    /// Changes the order so that the first channel comes before the second one; `false` if that closes a cycle, or takes
    /// too long.
    fn reorder(&mut self, first: usize, second: usize) -> bool {
        if self.budget == 0 {
            return false;
        }
        let (low, high) = (self.order[second], self.order[first]);
        let mut after = vec![second];
        self.mark[second] = true;
        let (mut at, mut cycle) = (0, false);
        while at < after.len() && !cycle {
            let c = after[at];
            at += 1;
            for slot in (0..self.slots).filter(|slot| self.depends[c * self.slots + slot]) {
                let ahead = self.next[c] as usize * self.slots + slot;
                cycle |= ahead == first;
                if !self.mark[ahead] && self.order[ahead] < high {
                    self.mark[ahead] = true;
                    after.push(ahead);
                }
            }
        }
        after.iter().for_each(|&c| self.mark[c] = false);
        self.budget = self.budget.saturating_sub(after.len());
        if cycle {
            return false;
        }
        let mut before = vec![first];
        self.mark[first] = true;
        let mut at = 0;
        while let Some(&c) = before.get(at) {
            at += 1;
            let switch = c / self.slots;
            for slot in 0..self.slots {
                let from = self.next[switch * self.slots + slot];
                if from == NONE {
                    continue;
                }
                let behind = from as usize * self.slots + (slot ^ 1);
                let depends = self.depends[self.edge(behind, c)];
                if depends && !self.mark[behind] && self.order[behind] > low {
                    self.mark[behind] = true;
                    before.push(behind);
                }
            }
        }
        before.iter().for_each(|&c| self.mark[c] = false);
        self.budget = self.budget.saturating_sub(before.len());
        before.sort_unstable_by_key(|&c| self.order[c]);
        after.sort_unstable_by_key(|&c| self.order[c]);
        before.extend(after);
        let mut places: Vec<u32> = before.iter().map(|&c| self.order[c]).collect();
        places.sort_unstable();
        before.into_iter().zip(places).for_each(|(c, place)| self.order[c] = place);
        true
    }
}
