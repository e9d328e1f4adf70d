//! Ports of the tables.

use super::space::Space;
use super::tree::Tree;
use crate::fabric::{ChannelId, EndPort, Fabric};
use crate::ordering::Grid;
use crate::routing::Forwarding;
use crate::routing::demand::Demand;
use crate::tables::Lft;

/// Of parallel links each target takes the one with the least load.
pub(super) struct Ports<'a> {
    fabric: &'a Fabric,
    grid: &'a Grid,
    space: &'a Space<'a>,
    demand: Demand<'a>,
}

impl<'a> Ports<'a> {
    pub(super) fn new(fabric: &'a Fabric, grid: &'a Grid, space: &'a Space<'a>) -> Self {
        Self { fabric, grid, space, demand: Demand::new(fabric) }
    }

    /// Writes the paths to an end port, and counts their load.
    pub(super) fn set(&self, tree: &Tree, end: &EndPort, forwarding: &mut Forwarding) {
        let Some((home, home_port)) = end.attachment else { return };
        let mut column = vec![Lft::NO_PATH; self.fabric.num_switches()];
        column[home.index()] = home_port.0;
        let (routes, times) = self.demand.to(end);
        let flow = self.demand.several.then(|| tree.flow(self.space, self.space.by_place(routes)));
        let times = if end.is_adapter() { times * end.lids().count() as u64 } else { 0 };
        for place in 0..column.len() {
            let Some((step, adapters)) = tree.step(place) else { continue };
            let s = self.space.switch_at(place);
            let dimension = self.space.cuts.axes()[step / 2].index();
            let routes = flow.as_ref().map_or(u64::from(adapters), |flow| flow[place]) * times;
            let with = |c: &ChannelId| {
                let weight = u64::from(self.fabric.weights().by_channel()[c.index()]);
                forwarding.load[c.index()] + weight * routes
            };
            let channels = self.grid.channels(s, dimension, step % 2 == 0);
            let Some(&channel) = channels.iter().min_by_key(|&c| with(c)) else { continue };
            forwarding.load[channel.index()] = with(&channel);
            column[s.index()] = self.fabric.channels().get(channel).out_port.0;
        }
        for lid in end.lids() {
            forwarding.lft.to_mut(lid).copy_from_slice(&column);
        }
    }
}
