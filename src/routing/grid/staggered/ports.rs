//! Ports of the tables.

use super::space::Space;
use super::tree::Tree;
use crate::fabric::{ChannelId, EndPort, Fabric};
use crate::ordering::Grid;
use crate::tables::Lft;

/// Of parallel links each target takes the one with the least load.
pub(super) struct Ports<'a> {
    fabric: &'a Fabric,
    grid: &'a Grid,
    space: &'a Space<'a>,
    /// By channel: routes times weight.
    load: Vec<u64>,
}

impl<'a> Ports<'a> {
    pub(super) fn new(fabric: &'a Fabric, grid: &'a Grid, space: &'a Space<'a>) -> Self {
        Self { fabric, grid, space, load: vec![0; fabric.channels().len()] }
    }

    /// Routes on the most loaded channel, times its weight.
    pub(super) fn largest(&self) -> u64 {
        self.load.iter().copied().max().unwrap_or(0)
    }

    /// Writes the paths to an end port.
    pub(super) fn set(&mut self, tree: &Tree, end: &EndPort, lft: &mut Lft) {
        let Some((home, home_port)) = end.attachment else { return };
        let mut column = vec![Lft::NO_PATH; self.fabric.num_switches()];
        column[home.index()] = home_port.0;
        for place in 0..column.len() {
            let Some((step, flow)) = tree.step(place) else { continue };
            let s = self.space.switch_at(place);
            let dimension = self.space.cuts.axes()[step / 2].index();
            let with = |c: &ChannelId| {
                let weight = u64::from(self.fabric.weights().by_channel()[c.index()]);
                let routes = if end.is_adapter() { u64::from(flow) } else { 0 };
                self.load[c.index()] + weight * routes
            };
            let channels = self.grid.channels(s, dimension, step % 2 == 0);
            let Some(&channel) = channels.iter().min_by_key(|&c| with(c)) else { continue };
            self.load[channel.index()] = with(&channel);
            column[s.index()] = self.fabric.channels().get(channel).out_port.0;
        }
        for lid in end.lids() {
            lft.to_mut(lid).copy_from_slice(&column);
        }
    }
}
