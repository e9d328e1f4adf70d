//! The shortest paths to one switch, all of them at once.

use crate::fabric::{Channel, ChannelId, Fabric, Lid, SwitchId};
use crate::tables::Lft;

/// All shortest paths to one switch, whatever "shortest" means to who asks: the other switches by
/// distance, each with the channels that lead one step nearer. Made for one target after the other.
pub(super) struct Dag {
    /// Switches in order of distance, the target first.
    order: Vec<SwitchId>,
    /// Per place in `order`: where its channels begin in `channels`.
    first: Vec<u32>,
    /// (channel, place of the switch that it leads to).
    channels: Vec<(ChannelId, u32)>,
    /// Per place: the channel chosen, and the place that it leads to.
    chosen: Vec<(ChannelId, u32)>,
    /// Per place: routes on the chosen path to the target.
    cost: Vec<u64>,
    /// Per place: routes that pass the switch.
    flow: Vec<u64>,
    /// Place of each switch.
    place: Vec<u32>,
}

impl Dag {
    /// Room for any target of a fabric.
    pub(super) fn new(fabric: &Fabric) -> Self {
        let n = fabric.num_switches();
        Self {
            order: Vec::with_capacity(n),
            first: Vec::with_capacity(n + 1),
            channels: Vec::with_capacity(fabric.channels().len()),
            chosen: vec![(ChannelId(0), 0); n],
            cost: vec![0; n],
            flow: vec![0; n],
            place: vec![0; n],
        }
    }

    /// Makes it anew from the distance of each switch to the target (0 for the target alone) and
    /// from which channels lead `nearer`: at least one from each other switch, only to switches of
    /// less distance.
    pub(super) fn rebuild<D: Copy + Ord>(
        &mut self,
        fabric: &Fabric,
        distance: &[D],
        nearer: impl Fn(&Channel) -> bool,
    ) {
        self.order.clear();
        self.order.extend(fabric.switch_ids());
        self.order.sort_by_key(|s| distance[s.index()]);
        for (place, s) in self.order.iter().enumerate() {
            self.place[s.index()] = place as u32;
        }
        self.first.clear();
        self.channels.clear();
        for &s in &self.order {
            self.first.push(self.channels.len() as u32);
            for (id, c) in fabric.channels().out(s) {
                if nearer(c) {
                    self.channels.push((id, self.place[c.to.index()]));
                }
            }
        }
        self.first.push(self.channels.len() as u32);
    }

    /// Each switch but the target with its channels in port order, the nearest switch first.
    pub(super) fn steps(&self) -> impl Iterator<Item = (SwitchId, impl Iterator<Item = ChannelId>)> {
        (1..self.order.len()).map(|place| (self.order[place], self.options(place).iter().map(|&(c, _)| c)))
    }

    /// Each switch takes the channel with the least load along the rest of the path, of several the
    /// one with the lowest port.
    pub(super) fn choose(&mut self, load: &[u64]) {
        for place in 1..self.order.len() {
            let mut best = (u64::MAX, (ChannelId(0), 0));
            for &(channel, next) in self.options(place) {
                let cost = load[channel.index()] + self.cost[next as usize];
                if cost < best.0 {
                    best = (cost, (channel, next));
                }
            }
            (self.cost[place], self.chosen[place]) = best;
        }
    }

    /// Writes what was chosen as the way to a LID.
    pub(super) fn write(&self, fabric: &Fabric, lid: Lid, lft: &mut Lft) {
        let ports = lft.to_mut(lid);
        for (s, &(channel, _)) in self.order.iter().zip(&self.chosen).skip(1) {
            ports[s.index()] = fabric.channels().get(channel).out_port.0;
        }
    }

    /// Counts the routes of all adapters to the target on the chosen channels. `adapters`: how many
    /// there are, by switch.
    pub(super) fn count(&mut self, adapters: &[u64], load: &mut [u64]) {
        for (flow, s) in self.flow.iter_mut().zip(&self.order) {
            *flow = adapters[s.index()];
        }
        for place in (1..self.order.len()).rev() {
            let (channel, next) = self.chosen[place];
            load[channel.index()] += self.flow[place];
            self.flow[next as usize] += self.flow[place];
        }
    }

    fn options(&self, place: usize) -> &[(ChannelId, u32)] {
        &self.channels[self.first[place] as usize..self.first[place + 1] as usize]
    }
}
