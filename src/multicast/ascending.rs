//! Dependencies that ascend in a known order of the virtual channels.

use super::dependencies::Graph;
use crate::fabric::{ChannelId, Fabric, Vl, bits};
use crate::ordering::VirtualChannelOrder;
use crate::tables::{Sl2Vl, SlClasses};

/// Allows exactly the dependencies that ascend in an order. If all unicast paths ascend in it too, unicast
/// and multicast close no cycle together. So it needs no knowledge of unicast.
pub(super) struct Ascending<'a> {
    fabric: &'a Fabric,
    sl2vl: &'a Sl2Vl,
    classes: &'a SlClasses,
    order: &'a VirtualChannelOrder,
    /// By channel x class: what was asked for already. Trees from many roots ask for the same.
    injected: Vec<Option<u16>>,
}

impl<'a> Ascending<'a> {
    pub(super) fn new(
        fabric: &'a Fabric,
        sl2vl: &'a Sl2Vl,
        classes: &'a SlClasses,
        order: &'a VirtualChannelOrder,
    ) -> Self {
        let injected = vec![None; fabric.channels().len() * classes.len()];
        Self { fabric, sl2vl, classes, order, injected }
    }
}

impl Graph for Ascending<'_> {
    fn injected(&mut self, channel: ChannelId, class: usize) -> u16 {
        let known = &mut self.injected[channel.index() * self.classes.len() + class];
        *known.get_or_insert_with(|| self.classes.injected(self.fabric, self.sl2vl, channel, class))
    }

    fn vl(&self, first: ChannelId, second: ChannelId, class: usize) -> u16 {
        let (c, d) = (self.fabric.channels().get(first), self.fabric.channels().get(second));
        self.sl2vl.row(c.to, c.in_port, d.out_port).get(self.classes.sl(class)).data_bit()
    }

    fn depend(&mut self, first: ChannelId, held: u16, second: ChannelId, vl: u16) -> bool {
        let position = self.order.position(second, Vl(vl.trailing_zeros() as u8));
        bits(held).all(|from| self.order.position(first, Vl(from as u8)) < position)
    }
}
