//! The dependencies between virtual channels, in an order without cycles.

use super::tables::Turns;
use crate::fabric::{ChannelId, Fabric};
use crate::ordering::{Edges, TopologicalOrder};

/// What [`Dependencies::depend`] adds.
pub(super) enum Added {
    /// Packets on a VL before a turn wait for one after it.
    Dependency { turn: usize, from: usize, to: usize },
    /// The first packets that take a turn.
    Taken(usize),
}

/// Dependencies between virtual channels. They are bits by turn and VLs: a copy costs no more than its bytes, 2 for
/// each turn and VL.
#[derive(Clone)]
pub(super) struct Dependencies {
    order: TopologicalOrder,
    /// By turn and VL before it: the VLs after it that packets wait for.
    waits: Vec<u16>,
    /// By turn: the VL after it, as a set.
    pub(super) vls_after: Vec<u16>,
    /// By turn: whether packets take it.
    pub(super) taken: Vec<bool>,
    /// Whether packets may go on to a lower VL.
    descends: bool,
    most_vls: u8,
}

/// Dependencies as edges between vertices: one for each channel and VL.
struct Waits<'a> {
    net: (&'a Fabric, &'a Turns),
    waits: &'a [u16],
    vls: usize,
}

impl Waits<'_> {
    fn channel(&self, vertex: u32) -> (ChannelId, usize) {
        let vertex = vertex as usize;
        (ChannelId::at(vertex / self.vls), vertex % self.vls)
    }

    fn vertex(&self, channel: ChannelId, vl: usize) -> u32 {
        (channel.index() * self.vls + vl) as u32
    }
}

impl Edges for Waits<'_> {
    fn after(&self, vertex: u32, mut each: impl FnMut(u32)) {
        let ((fabric, turns), (channel, vl)) = (self.net, self.channel(vertex));
        for (second, _) in fabric.channels().out(fabric.channels().get(channel).to) {
            let waits = self.waits[turns.of(channel, second) * self.vls + vl];
            bits(waits).for_each(|to| each(self.vertex(second, to)));
        }
    }

    fn before(&self, vertex: u32, mut each: impl FnMut(u32)) {
        let ((fabric, turns), (channel, vl)) = (self.net, self.channel(vertex));
        for (_, back) in fabric.channels().out(fabric.channels().get(channel).from) {
            let first = turns.of(back.reverse, channel) * self.vls;
            for (from, waits) in self.waits[first..first + self.vls].iter().enumerate() {
                if waits >> vl & 1 != 0 {
                    each(self.vertex(back.reverse, from));
                }
            }
        }
    }
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
            order: TopologicalOrder::new(channels.len() * usize::from(most_vls)),
            waits: vec![0; turns.len * usize::from(most_vls)],
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
                if !fits || !all.depend((fabric, turns), first, used[turn], second, 0, |_| {}) {
                    return None;
                }
            }
        }
        Some(all)
    }

    /// The packets on a channel wait for another one. Returns whether there is no cycle.
    ///
    /// - `net`: as for [`Dependencies::new`].
    /// - `more`: further VLs after the turn.
    /// - `changed`: called with each thing that is added.
    pub(super) fn depend(
        &mut self,
        net: (&Fabric, &Turns),
        first: ChannelId,
        vls: u16,
        second: ChannelId,
        more: u16,
        mut changed: impl FnMut(Added),
    ) -> bool {
        if vls == 0 {
            return true;
        }
        let turn = net.1.of(first, second);
        if !std::mem::replace(&mut self.taken[turn], true) {
            changed(Added::Taken(turn));
        }
        let (after, most_vls) = (self.vls_after[turn] | more, usize::from(self.most_vls));
        for (from, to) in bits(vls).flat_map(|from| bits(after).map(move |to| (from, to))) {
            if self.waits[turn * most_vls + from] >> to & 1 != 0 {
                continue;
            }
            let edges = Waits { net, waits: &self.waits, vls: most_vls };
            let (start, end) = (edges.vertex(first, from), edges.vertex(second, to));
            if !self.order.admit(&edges, start as usize, end as usize) {
                return false;
            }
            self.waits[turn * most_vls + from] |= 1 << to;
            self.descends |= from > to;
            changed(Added::Dependency { turn, from, to });
        }
        true
    }

    /// Takes back something that was added; the order stays.
    pub(super) fn take_back(&mut self, added: &Added) {
        match *added {
            Added::Dependency { turn, from, to } => {
                self.waits[turn * usize::from(self.most_vls) + from] &= !(1 << to);
            }
            Added::Taken(turn) => self.taken[turn] = false,
        }
    }

    /// By VL and channel, places in the order.
    pub(super) fn places(&self, channels: usize) -> Option<Vec<Vec<u32>>> {
        let place = |c, vl| self.order.place(c * usize::from(self.most_vls) + vl);
        let of_vl = |vl| (0..channels).map(|c| place(c, vl)).collect();
        (!self.descends).then(|| (0..usize::from(self.most_vls)).map(of_vl).collect())
    }
}

/// The members of a set of VLs.
fn bits(mut set: u16) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        lowest
    })
}
