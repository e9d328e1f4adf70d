//! Forwarding tables whose paths are ordered: what APOT and BFOT have in common.
//!
//! InfiniBand forwards by destination LID alone, so the paths to a LID form a tree, and on a tree
//! the ordered-tree condition (Chiu et al., section 4.2) becomes: no switch forwards over a lower
//! layer than any switch that forwards to it. The tree is grown from its root, in order of hops, and
//! a switch is joined only by channels that are not above the highest layer it can itself be left
//! by.
//!
//! In a connected fabric the tree always gets complete: a switch that is still outside has a
//! neighbour in the lowest layer, a spanning tree, that is inside, and the lowest layer is never
//! above anything.

use rayon::prelude::*;

use super::{adapters_by_switch, ends_on};
use crate::fabric::{ChannelId, Fabric, Lid, SwitchId};
use crate::ordering::Layers;
use crate::tables::Lft;

/// Destination switches whose labels are held at a time: enough for all cores.
const BLOCK: usize = 64;

/// Where each switch stands in the tree to one destination.
#[derive(Clone, Debug)]
pub(super) struct Labels {
    /// Hops to the destination by switch, [`Labels::FAR`] where there is no way.
    pub(super) hops: Vec<u16>,
    /// The highest layer of a channel that leads on, by switch; `u8::MAX` at the destination.
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
/// nearer: not below the layers of the channels that were taken towards the switch (the
/// route-constrain message of BFOT), and not above the highest layer by which the next switch can
/// be left, so that there is always one. Among these the least loaded counts, as in
/// [`sssp`](super::sssp()): the sum of routes along the path, where the rest of the path is the best
/// one that the next switch may have to give up for a constraint. Order of destinations, what counts
/// as a route and ties are as there.
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
                        tree.count(&adapters, &mut load);
                    }
                }
            }
        }
    }
    lft
}

/// All trees that the labels permit: the switches by hops, each with the channels that lead on.
struct Tree {
    /// Switches in order of hops, the destination first; without those that have no way.
    order: Vec<SwitchId>,
    /// Per place in `order`: where its ways begin.
    first: Vec<u32>,
    ways: Vec<Way>,
    /// Per place: the way taken.
    taken: Vec<Way>,
    /// Per place: routes on the best path, constraints left aside.
    cost: Vec<u64>,
    /// Per place: the highest layer of the channels taken towards the switch.
    floor: Vec<u8>,
    /// Per place: routes that pass the switch.
    flow: Vec<u64>,
}

/// A channel that leads a switch one hop nearer.
#[derive(Clone, Copy)]
struct Way {
    channel: ChannelId,
    layer: u8,
    /// Place of the next switch.
    next: u32,
}

impl Tree {
    fn new(fabric: &Fabric, layers: &Layers, labels: &Labels) -> Self {
        let mut order: Vec<SwitchId> =
            fabric.switch_ids().filter(|s| labels.hops[s.index()] != Labels::FAR).collect();
        order.sort_by_key(|s| labels.hops[s.index()]);
        let mut place = vec![0; fabric.num_switches()];
        for (i, s) in order.iter().enumerate() {
            place[s.index()] = i as u32;
        }
        let mut first = Vec::with_capacity(order.len() + 1);
        let mut ways = Vec::with_capacity(fabric.channels().len() / 2);
        for &s in &order {
            first.push(ways.len() as u32);
            for (channel, c) in fabric.channels().out(s) {
                let (layer, t) = (layers.of(channel), c.to.index());
                let nearer = labels.hops[t] != Labels::FAR && labels.hops[t] + 1 == labels.hops[s.index()];
                if nearer && layer <= labels.top[t] {
                    ways.push(Way { channel, layer, next: place[t] });
                }
            }
        }
        first.push(ways.len() as u32);
        let n = order.len();
        let nowhere = Way { channel: ChannelId(0), layer: 0, next: 0 };
        Self {
            order,
            first,
            ways,
            taken: vec![nowhere; n],
            cost: vec![0; n],
            floor: vec![0; n],
            flow: vec![0; n],
        }
    }

    fn ways(&self, place: usize) -> &[Way] {
        &self.ways[self.first[place] as usize..self.first[place + 1] as usize]
    }

    fn choose(&mut self, load: &[u64]) {
        for place in 1..self.order.len() {
            let cost = |way: &Way| load[way.channel.index()] + self.cost[way.next as usize];
            self.cost[place] = self.ways(place).iter().map(cost).min().unwrap_or(0);
        }
        self.floor.fill(0);
        for place in (1..self.order.len()).rev() {
            let allowed = self.ways(place).iter().filter(|way| way.layer >= self.floor[place]);
            let cost = |way: &&Way| load[way.channel.index()] + self.cost[way.next as usize];
            let way = *allowed.min_by_key(cost).expect("the way of the highest layer is always allowed");
            self.taken[place] = way;
            let floor = &mut self.floor[way.next as usize];
            *floor = way.layer.max(*floor);
        }
    }

    fn write(&self, fabric: &Fabric, lid: Lid, lft: &mut Lft) {
        let ports = lft.to_mut(lid);
        for (s, way) in self.order.iter().zip(&self.taken).skip(1) {
            ports[s.index()] = fabric.channels().get(way.channel).out_port.0;
        }
    }

    /// Counts the routes of all adapters to the destination on the channels taken.
    fn count(&mut self, adapters: &[u64], load: &mut [u64]) {
        for (flow, s) in self.flow.iter_mut().zip(&self.order) {
            *flow = adapters[s.index()];
        }
        for place in (1..self.order.len()).rev() {
            let way = self.taken[place];
            load[way.channel.index()] += self.flow[place];
            self.flow[way.next as usize] += self.flow[place];
        }
    }
}
