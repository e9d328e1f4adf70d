//! Reachability and loops: where the forwarding entries for one LID lead from every switch.

use crate::fabric::SwitchId;
use crate::tables::Lft;

use super::{Destination, Plan};

const NONE: u32 = u32::MAX;

/// The entries for one LID as an in-tree to its switch. Buffers are reused for each LID.
pub(super) struct Tree {
    /// Out port by switch.
    pub(super) out: Vec<u8>,
    /// Next switch, valid for all switches in `order` except the root.
    pub(super) to: Vec<u32>,
    /// The in port at the next switch.
    pub(super) in_port: Vec<u8>,
    /// The switches from which packets arrive: the root first, each after its next switch, those
    /// with the same next switch adjacent.
    pub(super) order: Vec<u32>,
    /// Channels to the root, valid for the switches in `order`.
    pub(super) hops: Vec<u16>,
    /// Packets sent at some switch end at a wrong node.
    pub(super) dead_end: bool,
    /// Packets sent at some switch loop.
    pub(super) looping: bool,
    child: Vec<u32>,
    sibling: Vec<u32>,
}

impl Tree {
    pub(super) fn new(switches: usize) -> Self {
        Self {
            out: vec![Lft::NO_PATH; switches],
            to: vec![NONE; switches],
            in_port: vec![0; switches],
            order: Vec::with_capacity(switches),
            hops: vec![0; switches],
            dead_end: false,
            looping: false,
            child: vec![NONE; switches],
            sibling: vec![NONE; switches],
        }
    }

    /// Replaces the tree by that of another LID, whose out ports by switch are `column`.
    ///
    /// Cost: O(switches).
    pub(super) fn grow(&mut self, plan: &Plan<'_>, destination: &Destination, column: &[u8]) {
        let root = destination.root;
        self.out.copy_from_slice(column);
        self.child.fill(NONE);
        for (s, &out) in column.iter().enumerate() {
            let ahead = plan.ahead(s, out);
            self.to[s] = ahead.to;
            self.in_port[s] = ahead.in_port;
            if ahead.to != NONE {
                self.sibling[s] = self.child[ahead.to as usize];
                self.child[ahead.to as usize] = s as u32;
            }
        }
        self.order.clear();
        if column[root] == destination.port {
            self.hops[root] = 0;
            self.gather(root);
        }
        (self.dead_end, self.looping) = (false, false);
        let arrived = self.order.len();
        if arrived < column.len() {
            for s in 0..column.len() {
                if self.to[s] == NONE && !(s == root && column[root] == destination.port) {
                    self.gather(s);
                }
            }
            // A switch without end ports sends nothing.
            let sends = |s: usize| {
                let ends = plan.fabric.endports_on(SwitchId::at(s)).len();
                ends > usize::from(s == root)
            };
            let mut ended = vec![false; column.len()];
            self.order.iter().for_each(|&s| ended[s as usize] = true);
            self.dead_end = self.order[arrived..].iter().any(|&s| sends(s as usize));
            self.looping = (0..column.len()).any(|s| !ended[s] && sends(s));
            self.order.truncate(arrived);
        }
    }

    /// Appends to `order` all switches whose packets reach `end`.
    fn gather(&mut self, end: usize) {
        let mut next = self.order.len();
        self.order.push(end as u32);
        while let Some(&s) = self.order.get(next) {
            let mut child = self.child[s as usize];
            while child != NONE {
                self.hops[child as usize] = self.hops[s as usize].saturating_add(1);
                self.order.push(child);
                child = self.sibling[child as usize];
            }
            next += 1;
        }
    }
}
