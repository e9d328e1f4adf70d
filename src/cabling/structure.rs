//! Matching by structure: from matched nodes on, along cables with the same ports at both ends.
//!
//! Each pair of matched nodes votes for the pairs of their neighbours at the same port. The pair with most votes is
//! matched next, so that a few wrong cables are outvoted.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use rayon::prelude::*;

use super::{Pairs, cables, peer};
use crate::fabric::{Fabric, NodeId, PortNum, PortRef};

/// Starts that are tried in the plan if nothing is matched: more than one, as some may be gone or mispatched.
const STARTS: usize = 4;

/// Of the cables in place that another start must exceed: with this share no better assignment is looked for.
const ENOUGH: f64 = 0.9;

/// Matches further nodes; returns how many.
pub(super) fn extend(plan: &Fabric, fabric: &Fabric, pairs: &mut Pairs, taken: &mut [bool]) -> usize {
    let before = pairs.iter().flatten().count();
    let mut growth = Growth { plan, fabric, pairs: pairs.clone(), taken: taken.to_vec() };
    if before == 0 {
        growth = best_start(plan, fabric, growth);
    } else {
        growth.grow((0..pairs.len()).map(NodeId::at).filter(|id| pairs[id.index()].is_some()).collect());
    }
    *pairs = growth.pairs;
    taken.copy_from_slice(&growth.taken);
    pairs.iter().flatten().count() - before
}

/// Tries every switch of the fabric for some switches of the plan.
fn best_start<'a>(plan: &Fabric, fabric: &Fabric, empty: Growth<'a>) -> Growth<'a> {
    let all = cables(plan).count();
    // Starts far from each other in GUID order.
    let step = plan.num_switches().div_ceil(STARTS).max(1);
    let mut best = (0, empty.clone());
    for s in plan.switch_ids().step_by(step) {
        let start = plan.switch_node_id(s);
        let tried = fabric.switch_ids().collect::<Vec<_>>().into_par_iter().filter_map(|x| {
            let mut growth = empty.clone();
            growth.take(start, fabric.switch_node_id(x)).then_some(())?;
            growth.grow(vec![start]);
            Some((growth.in_place(), Reverse(x), growth))
        });
        let Some((in_place, _, growth)) = tried.max_by_key(|(in_place, x, _)| (*in_place, *x)) else {
            continue;
        };
        if in_place > best.0 {
            best = (in_place, growth);
        }
        if best.0 as f64 >= ENOUGH * all as f64 {
            break;
        }
    }
    best.1
}

/// An assignment under way.
#[derive(Clone)]
struct Growth<'a> {
    plan: &'a Fabric,
    fabric: &'a Fabric,
    pairs: Pairs,
    taken: Vec<bool>,
}

impl Growth<'_> {
    /// Matches two nodes that are alike and free.
    fn take(&mut self, id: NodeId, partner: NodeId) -> bool {
        let (a, b) = (self.plan.node(id), self.fabric.node(partner));
        let free = self.pairs[id.index()].is_none() && !self.taken[partner.index()];
        let alike = a.kind == b.kind && (!a.is_switch() || a.ports.len() == b.ports.len());
        if free && alike {
            self.pairs[id.index()] = Some(partner);
            self.taken[partner.index()] = true;
        }
        free && alike
    }

    /// Matches neighbours until no pair has a vote. `fresh`: matched nodes that have not voted.
    ///
    /// Cost: O(ports log ports).
    fn grow(&mut self, fresh: Vec<NodeId>) {
        let mut votes: HashMap<(NodeId, NodeId), u32> = HashMap::new();
        let mut queue = BinaryHeap::new();
        let mut fresh = fresh;
        loop {
            for id in fresh.drain(..) {
                let Some(partner) = self.pairs[id.index()] else { continue };
                for port in (1..self.plan.node(id).ports.len()).map(|p| PortNum(p as u8)) {
                    let there = |side: &Fabric, node| peer(side, PortRef { node, port });
                    let (Some(a), Some(b)) = (there(self.plan, id), there(self.fabric, partner)) else {
                        continue;
                    };
                    if self.pairs[a.node.index()].is_some() || self.taken[b.node.index()] {
                        continue;
                    }
                    // A different port at the far end speaks against it, but adapters may have another port.
                    let weight = if a.port == b.port { 2 } else { 1 };
                    let sum = votes.entry((a.node, b.node)).or_default();
                    *sum += weight;
                    queue.push((*sum, Reverse((a.node, b.node))));
                }
            }
            let Some((sum, Reverse((a, b)))) = queue.pop() else { return };
            // An entry is outdated if a later vote made another.
            if votes.get(&(a, b)) == Some(&sum) && self.take(a, b) {
                fresh.push(a);
            }
        }
    }

    /// Cables of the plan that the fabric has.
    fn in_place(&self) -> usize {
        let moved = |end: PortRef| Some(PortRef { node: self.pairs[end.node.index()]?, ..end });
        let is_there = |&(a, b): &(PortRef, PortRef)| {
            moved(a).and_then(|a| peer(self.fabric, a)).is_some_and(|there| Some(there) == moved(b))
        };
        cables(self.plan).filter(is_there).count()
    }
}
