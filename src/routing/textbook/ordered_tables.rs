//! Forwarding tables whose paths are ordered: what APOT and BFOT have in common.
//!
//! InfiniBand forwards by destination LID alone, so the paths to a LID form a tree, and on a tree
//! the ordered-tree condition (Chiu et al., section 4.2) becomes: no switch forwards over a lower
//! layer than any switch that forwards to it. The tree grows from its root in order of hops. A channel joins
//! a switch only if its layer is not above the highest layer by which that switch can forward.
//!
//! In a connected fabric the tree always becomes complete: the lowest layer is a spanning tree and is never
//! above another, so a switch outside always has a neighbour inside that it can join.

use rayon::prelude::*;

use crate::fabric::{ChannelId, Fabric, Lid, SwitchId};
use crate::ordering::Layers;
use crate::routing::{adapters_by_switch, ends_on};
use crate::tables::Lft;

/// Destination switches whose labels are kept at a time: enough for all cores.
const BLOCK: usize = 64;

/// The hops and layers of each switch in the tree to one destination.
#[derive(Clone, Debug)]
pub(super) struct Labels {
    /// Hops to the destination by switch, [`Labels::FAR`] if there is no path.
    pub(super) hops: Vec<u16>,
    /// By switch: the highest layer of its next hops; `u8::MAX` at the destination.
    pub(super) top: Vec<u8>,
}

impl Labels {
    pub(super) const FAR: u16 = u16::MAX;

    /// Grows the tree. `floor`, by switch, forbids channels of lower layers to that switch.
    ///
    /// Cost: O(C) with C channels.
    pub(super) fn grow(fabric: &Fabric, layers: &Layers, target: SwitchId, floor: &[u8]) -> Self {
        let mut hops = vec![Self::FAR; fabric.num_switches()];
        let mut top = vec![0; fabric.num_switches()];
        (hops[target.index()], top[target.index()]) = (0, u8::MAX);
        let mut queue = Vec::with_capacity(hops.len());
        queue.push(target);
        let mut head = 0;
        while let Some(&s) = queue.get(head) {
            head += 1;
            let next = hops[s.index()] + 1;
            for (_, c) in fabric.channels().out(s) {
                let (t, layer) = (c.to.index(), layers.of(c.reverse));
                if layer > top[s.index()] || layer < floor[t] {
                    continue;
                }
                if hops[t] == Self::FAR {
                    hops[t] = next;
                    queue.push(c.to);
                }
                if hops[t] == next {
                    top[t] = top[t].max(layer);
                }
            }
        }
        Self { hops, top }
    }

    /// Hops to the destination from all end ports together.
    pub(super) fn total(&self, fabric: &Fabric) -> u64 {
        let from = |s: SwitchId| fabric.endports_on(s).len() as u64 * u64::from(self.hops[s.index()]);
        fabric.switch_ids().map(from).sum()
    }
}

/// Forwarding tables along labels.
///
/// For each destination LID every switch, the farthest first, takes a channel that leads one hop
/// nearer: not below the layers of the channels that its predecessors took (the route-constrain message of
/// BFOT), and not above the highest layer of the next switch's own next hops, so that one always exists. Among
/// these it takes the least loaded as in [`sssp`](super::sssp()), by the sum of routes along the path. The
/// rest of the path is taken to be the best one of the next switch, though constraints may forbid that later.
/// Order of destinations, what counts as a route and ties are as there.
pub(super) fn tables(fabric: &Fabric, layers: &Layers, labels: impl Fn(SwitchId) -> Labels + Sync) -> Lft {
    let mut lft = Lft::new(fabric);
    let adapters = adapters_by_switch(fabric);
    let mut load = vec![0_u64; fabric.channels().len()];
    let targets: Vec<SwitchId> = fabric.switch_ids().collect();
    for block in targets.chunks(BLOCK) {
        let grown: Vec<Labels> = block.par_iter().map(|&target| labels(target)).collect();
        for (&target, labels) in block.iter().zip(&grown) {
            let mut tree = Tree::new(fabric, layers, labels);
            for (end, port) in ends_on(fabric, target) {
                for lid in end.lids() {
                    tree.choose(&load);
                    tree.write(fabric, lid, &mut lft);
                    lft.set(target, lid, port);
                    if end.is_adapter() {
                        tree.count(&adapters, fabric.weights().by_channel(), &mut load);
                    }
                }
            }
        }
    }
    lft
}

/// All trees that the labels permit: the switches by hops, each with its next hops.
struct Tree {
    /// Switches in order of hops, the destination first; without those that have no path.
    order: Vec<SwitchId>,
    /// By index in `order`: the start of its next hops.
    first: Vec<u32>,
    next_hops: Vec<NextHop>,
    /// Per index: the next hop taken.
    taken: Vec<NextHop>,
    /// Per index: routes on the best path, without constraints.
    cost: Vec<u64>,
    /// Per index: the highest layer of the channels that predecessors took.
    floor: Vec<u8>,
    /// Per index: routes that pass the switch.
    flow: Vec<u64>,
}

/// A channel that leads a switch one hop nearer.
#[derive(Clone, Copy)]
struct NextHop {
    channel: ChannelId,
    layer: u8,
    /// Index of the next switch.
    next: u32,
}

impl Tree {
    fn new(fabric: &Fabric, layers: &Layers, labels: &Labels) -> Self {
        let mut order: Vec<SwitchId> =
            fabric.switch_ids().filter(|s| labels.hops[s.index()] != Labels::FAR).collect();
        order.sort_by_key(|s| labels.hops[s.index()]);
        let mut index = vec![0; fabric.num_switches()];
        for (i, s) in order.iter().enumerate() {
            index[s.index()] = i as u32;
        }
        let mut first = Vec::with_capacity(order.len() + 1);
        let mut next_hops = Vec::with_capacity(fabric.channels().len() / 2);
        for &s in &order {
            first.push(next_hops.len() as u32);
            for (channel, c) in fabric.channels().out(s) {
                let (layer, t) = (layers.of(channel), c.to.index());
                let nearer = labels.hops[t] != Labels::FAR && labels.hops[t] + 1 == labels.hops[s.index()];
                if nearer && layer <= labels.top[t] {
                    next_hops.push(NextHop { channel, layer, next: index[t] });
                }
            }
        }
        first.push(next_hops.len() as u32);
        let n = order.len();
        let nowhere = NextHop { channel: ChannelId(0), layer: 0, next: 0 };
        Self {
            order,
            first,
            next_hops,
            taken: vec![nowhere; n],
            cost: vec![0; n],
            floor: vec![0; n],
            flow: vec![0; n],
        }
    }

    fn next_hops(&self, index: usize) -> &[NextHop] {
        &self.next_hops[self.first[index] as usize..self.first[index + 1] as usize]
    }

    fn choose(&mut self, load: &[u64]) {
        for index in 1..self.order.len() {
            let cost = |hop: &NextHop| load[hop.channel.index()] + self.cost[hop.next as usize];
            self.cost[index] = self.next_hops(index).iter().map(cost).min().unwrap_or(0);
        }
        self.floor.fill(0);
        for index in (1..self.order.len()).rev() {
            let allowed = self.next_hops(index).iter().filter(|hop| hop.layer >= self.floor[index]);
            let cost = |hop: &&NextHop| load[hop.channel.index()] + self.cost[hop.next as usize];
            let hop = *allowed.min_by_key(cost).expect("the next hop of the highest layer is always allowed");
            self.taken[index] = hop;
            let floor = &mut self.floor[hop.next as usize];
            *floor = hop.layer.max(*floor);
        }
    }

    fn write(&self, fabric: &Fabric, lid: Lid, lft: &mut Lft) {
        let ports = lft.to_mut(lid);
        for (s, hop) in self.order.iter().zip(&self.taken).skip(1) {
            ports[s.index()] = fabric.channels().get(hop.channel).out_port.0;
        }
    }

    /// Counts the routes of all adapters to the destination on the channels taken.
    fn count(&mut self, adapters: &[u64], weights: &[u8], load: &mut [u64]) {
        for (flow, s) in self.flow.iter_mut().zip(&self.order) {
            *flow = adapters[s.index()];
        }
        for index in (1..self.order.len()).rev() {
            let hop = self.taken[index];
            load[hop.channel.index()] += self.flow[index] * u64::from(weights[hop.channel.index()]);
            self.flow[hop.next as usize] += self.flow[index];
        }
    }
}
