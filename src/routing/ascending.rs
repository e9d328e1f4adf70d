//! Dependencies that keep to an order of the virtual channels which is known from the start.

use super::dependencies::{Graph, SlClasses, bits, data_bit};
use crate::fabric::{ChannelId, Fabric, Vl};
use crate::ordering::LaneOrder;
use crate::tables::Sl2Vl;

/// Takes every dependency that ascends in an order and no other. Where all of unicast ascends in it,
/// these close no circle with them, so nothing has to be known of unicast and nothing is kept.
pub(super) struct Ascending<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) sl2vl: &'a Sl2Vl,
    pub(super) classes: &'a SlClasses,
    pub(super) order: &'a LaneOrder,
}

impl Graph for Ascending<'_> {
    fn injected(&self, channel: ChannelId, class: usize) -> u16 {
        self.classes.injected(self.fabric, self.sl2vl, channel, class)
    }

    fn vl(&self, first: ChannelId, second: ChannelId, class: usize) -> u16 {
        let (c, d) = (self.fabric.channels().get(first), self.fabric.channels().get(second));
        data_bit(self.sl2vl.row(c.to, c.in_port, d.out_port).get(self.classes.sl(class)))
    }

    fn depend(&mut self, first: ChannelId, held: u16, second: ChannelId, vl: u16) -> bool {
        let place = self.order.place(second, Vl(vl.trailing_zeros() as u8));
        bits(held).all(|from| self.order.place(first, Vl(from as u8)) < place)
    }
}
