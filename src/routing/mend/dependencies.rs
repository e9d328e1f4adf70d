//! The dependencies between virtual channels, in an order without cycles.

use super::tables::Turns;
use crate::fabric::{ChannelId, Fabric};
use crate::ordering::Acyclic;

/// What [`Dependencies::depend`] adds.
pub(super) enum Added {
    /// Of one virtual channel on another.
    Dependency(usize, usize),
    /// The first packets that take a turn.
    Taken(usize),
}

/// Dependencies between virtual channels.
#[derive(Clone)]
pub(super) struct Dependencies {
    order: Acyclic,
    /// By turn: the VL after it, as a set.
    pub(super) vls_after: Vec<u16>,
    /// By turn: whether packets take it.
    pub(super) taken: Vec<bool>,
    /// Whether packets may go on to a lower VL.
    descends: bool,
    most_vls: u8,
}

impl Dependencies {
    /// `None` if there is a cycle.
    ///
    /// - `vl_after`: by turn, the VL after it.
    /// - `used`: by turn, VLs of packets that take it.
    pub(super) fn new(
        fabric: &Fabric,
        turns: &Turns,
        vl_after: &[u8],
        used: &[u16],
        most_vls: u8,
    ) -> Option<Self> {
        let channels = fabric.channels();
        let mut all = Self {
            order: Acyclic::new(channels.len() * usize::from(most_vls)),
            vls_after: vec![0; turns.len],
            taken: vec![false; turns.len],
            descends: false,
            most_vls,
        };
        for (first, c) in channels.iter() {
            for (second, _) in channels.out(c.to) {
                let turn = turns.of(first, second);
                all.vls_after[turn] = 1 << vl_after[turn];
                let fits = vl_after[turn] < most_vls || used[turn] == 0;
                if !fits || !all.depend(first, used[turn], (turn, second), 0, |_| {}) {
                    return None;
                }
            }
        }
        Some(all)
    }

    fn vertex(&self, channel: ChannelId, vl: usize) -> usize {
        channel.index() * usize::from(self.most_vls) + vl
    }

    /// The packets on a channel wait for another one. Returns whether there is no cycle.
    ///
    /// - `more`: further VLs after the turn.
    /// - `changed`: called with each thing that is added.
    pub(super) fn depend(
        &mut self,
        first: ChannelId,
        vls: u16,
        (turn, second): (usize, ChannelId),
        more: u16,
        mut changed: impl FnMut(Added),
    ) -> bool {
        if vls == 0 {
            return true;
        }
        if !std::mem::replace(&mut self.taken[turn], true) {
            changed(Added::Taken(turn));
        }
        let after = self.vls_after[turn] | more;
        for (from, to) in bits(vls).flat_map(|from| bits(after).map(move |to| (from, to))) {
            let (start, end) = (self.vertex(first, from), self.vertex(second, to));
            if self.order.has(start, end) {
                continue;
            }
            if !self.order.add(start, end) {
                return false;
            }
            self.descends |= from > to;
            changed(Added::Dependency(start, end));
        }
        true
    }

    /// Takes back what was added last.
    pub(super) fn take_back(&mut self, added: &Added) {
        match *added {
            Added::Dependency(from, to) => self.order.remove_last(from, to),
            Added::Taken(turn) => self.taken[turn] = false,
        }
    }

    /// By VL and channel, places in the order.
    pub(super) fn places(&self, channels: usize) -> Option<Vec<Vec<u32>>> {
        let place = |c, vl| self.order.place(self.vertex(ChannelId::at(c), vl));
        let of_vl = |vl| (0..channels).map(|c| place(c, vl)).collect();
        (!self.descends).then(|| (0..usize::from(self.most_vls)).map(of_vl).collect())
    }
}

fn bits(set: u16) -> impl Iterator<Item = usize> {
    (0..16).filter(move |bit| set >> bit & 1 != 0)
}
