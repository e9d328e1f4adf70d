//! The earlier tables, and what is left of their fabric.

use std::ops::Range;

use super::senders::Senders;
use crate::fabric::{ChannelId, Fabric, Lid, PortNum, SwitchId};
use crate::tables::{Lft, McastGroup, Sl2Vl};

/// Earlier tables, and what is left of their fabric.
pub struct Mending<'a> {
    /// The fabric of the tables; all numbers here are of this one.
    pub fabric: &'a Fabric,
    /// By channel: whether it is still there.
    pub alive: &'a [bool],
    /// By switch: whether it is still there. Without it none of its channels is.
    pub present: &'a [bool],
    /// The LIDs that have to be reached.
    pub lids: &'a [Lid],
    /// Entries; all paths are complete.
    pub lft: &'a Lft,
    /// Rows.
    pub sl2vl: &'a Sl2Vl,
    /// The SLs of senders and of multicast trees.
    pub senders: &'a Senders<'a>,
    /// VLs that they may have, from 0 on.
    pub most_vls: u8,
    /// Multicast trees.
    pub trees: &'a [McastGroup],
    /// Routes on a channel, over its rate, above which it is relieved of other destinations.
    pub enough: u64,
}

impl Mending<'_> {
    /// The same with other entries.
    pub(super) fn with<'b>(&'b self, lft: &'b Lft) -> Mending<'b> {
        Mending { lft, ..*self }
    }

    pub(super) fn next(&self, s: SwitchId, lid: Lid) -> Option<ChannelId> {
        self.fabric.channels().at_port(s, PortNum(self.lft.to(lid)[s.index()]))
    }

    /// The channels of a path to a destination, from the first one on.
    pub(super) fn path(&self, first: Option<ChannelId>, lid: Lid) -> impl Iterator<Item = ChannelId> {
        std::iter::successors(first, move |&c| self.next(self.fabric.channels().get(c).to, lid))
    }

    /// By switch: the next hop to a destination.
    pub(super) fn all_next(&self, lid: Lid) -> Vec<Option<ChannelId>> {
        self.fabric.switch_ids().map(|s| self.next(s, lid)).collect()
    }

    /// The LIDs that have to be reached and to which some switch that is still there forwards over a channel that is
    /// gone.
    ///
    /// Cost: O(D) for each channel that is gone.
    pub(super) fn lost(&self) -> Vec<Lid> {
        let gone = self.gone();
        self.lids.iter().copied().filter(|&lid| !self.at_the_break(lid, &gone).is_empty()).collect()
    }

    /// Channels that are gone, of switches that are still there.
    pub(super) fn gone(&self) -> Vec<ChannelId> {
        let channels = self.fabric.channels().iter();
        let gone = channels.filter(|(id, c)| !self.alive[id.index()] && self.present[c.from.index()]);
        gone.map(|(id, _)| id).collect()
    }

    pub(super) fn target(&self, lid: Lid) -> Option<SwitchId> {
        let (s, _) = self.fabric.endport(self.fabric.owner_of(lid)?).attachment?;
        Some(s)
    }

    /// The VL of packets of a class after a turn.
    pub(super) fn vl_after(&self, first: ChannelId, second: ChannelId, class: usize) -> u8 {
        let channels = self.fabric.channels();
        let c = channels.get(first);
        let row = self.sl2vl.row(c.to, c.in_port, channels.get(second).out_port);
        row.get(self.senders.classes().sl(class)).0
    }

    /// The VLs on which end ports of a switch send packets of a class over a channel.
    pub(super) fn injected(&self, channel: ChannelId, class: usize) -> u16 {
        self.senders.classes().injected(self.fabric, self.sl2vl, channel, class)
    }

    /// The switches whose path to a destination leads over one of some switches, these included.
    ///
    /// - `next`: next hops to the destination.
    ///
    /// Cost: O(d) for each, with d channels of a switch.
    pub(super) fn upstream(
        &self,
        of: Vec<SwitchId>,
        next: impl Fn(SwitchId) -> Option<ChannelId>,
    ) -> Vec<SwitchId> {
        let channels = self.fabric.channels();
        let mut met = vec![false; self.present.len()];
        of.iter().for_each(|s| met[s.index()] = true);
        let mut all = of;
        let mut done = 0;
        while let Some(&s) = all.get(done) {
            done += 1;
            for (_, back) in channels.out(s) {
                if !met[back.to.index()] && next(back.to) == Some(back.reverse) {
                    met[back.to.index()] = true;
                    all.push(back.to);
                }
            }
        }
        all
    }

    /// Switches that are still there and forward to a destination over a channel that is gone.
    ///
    /// - `gone`: all channels that are.
    pub(super) fn at_the_break(&self, lid: Lid, gone: &[ChannelId]) -> Vec<SwitchId> {
        let channels = gone.iter().map(|&channel| self.fabric.channels().get(channel));
        channels.filter(|c| self.lft.to(lid)[c.from.index()] == c.out_port.0).map(|c| c.from).collect()
    }

    /// The switches that are still there and whose path to a destination is not.
    ///
    /// - `old`: next hops to it.
    pub(super) fn without_path(&self, lid: Lid, old: &[Option<ChannelId>]) -> Vec<SwitchId> {
        let target = self.target(lid);
        let mut ends = self.at_the_break(lid, &self.gone());
        let none = self.fabric.switch_ids().filter(|&s| old[s.index()].is_none() && Some(s) != target);
        ends.extend(none);
        let mut all = self.upstream(ends, |s| old[s.index()]);
        all.retain(|s| self.present[s.index()]);
        all
    }

    /// Hops from a switch to a destination over what is left of its path, if all of it is.
    pub(super) fn hops_left(
        &self,
        from: SwitchId,
        target: SwitchId,
        old: &[Option<ChannelId>],
    ) -> Option<u32> {
        let mut at = from;
        for hops in 0..old.len() {
            if at == target {
                return Some(hops as u32);
            }
            let channel = old[at.index()].filter(|c| self.alive[c.index()])?;
            at = self.fabric.channels().get(channel).to;
        }
        None
    }
}

/// Numbers of turns.
pub(super) struct Turns {
    /// By channel: the turn to port 0 of the switch that it leads to; then the number of turns.
    after: Vec<u32>,
    out_port: Vec<u8>,
    /// Classes of SLs.
    pub(super) classes: usize,
}

impl Turns {
    pub(super) fn new(fabric: &Fabric, classes: usize) -> Self {
        let channels = fabric.channels();
        let mut after = vec![0];
        let mut len = 0;
        for c in channels.as_slice() {
            len += channels.slots_of(c.to);
            after.push(len as u32);
        }
        Self { after, out_port: channels.as_slice().iter().map(|c| c.out_port.0).collect(), classes }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.after.last().map_or(0, |&len| len as usize)
    }

    /// How many there are of all classes: what [`Turns::of`] counts.
    pub(super) fn of_all_classes(&self) -> usize {
        self.len() * self.classes
    }

    /// The turn of packets of a class.
    pub(super) fn of(&self, first: ChannelId, second: ChannelId, class: usize) -> usize {
        (self.first(first) + self.port(second)) * self.classes + class
    }

    /// The place of packets of a class on a channel.
    pub(super) fn on(&self, channel: ChannelId, class: usize) -> usize {
        channel.index() * self.classes + class
    }

    /// The same turn for all classes.
    pub(super) fn all(&self, first: ChannelId, second: ChannelId) -> Range<usize> {
        let at = self.of(first, second, 0);
        at..at + self.classes
    }

    /// The turn to port 0.
    pub(super) fn first(&self, channel: ChannelId) -> usize {
        self.after[channel.index()] as usize
    }

    /// Ports of the switch that a channel leads to, port 0 included.
    pub(super) fn ports(&self, channel: ChannelId) -> usize {
        self.after[channel.index() + 1] as usize - self.first(channel)
    }

    /// The port by which a channel leaves its switch.
    pub(super) fn port(&self, channel: ChannelId) -> usize {
        usize::from(self.out_port[channel.index()])
    }
}
