//! The packets to one destination, free of cycles while they get further ways.

use super::dependencies::{Added, Dependencies};
use super::usage::Usage;
use crate::fabric::{ChannelId, Fabric, SwitchId};

/// Dependencies with the packets to one destination.
pub(super) struct Graph<'a> {
    fabric: &'a Fabric,
    usage: &'a Usage,
    pub(super) all: Dependencies,
    /// Virtual channels that may have been visited: nothing more is added afterwards.
    most_visits: u64,
    /// By switch: the channel by which it forwards to the present destination at first.
    laid: Vec<Option<ChannelId>>,
    /// By switch: further ones by which it may.
    more: Vec<Vec<ChannelId>>,
    /// Switches that have had further ones for the present destination.
    have_more: Vec<SwitchId>,
    /// By channel: VLs of packets to the present destination, if they have been looked up for it.
    load: Vec<(u32, u16)>,
    /// The number of the present destination.
    destination: u32,
    journal: Vec<Change>,
}

enum Change {
    Added(Added),
    Load(ChannelId, u16),
    Hop(SwitchId),
    VlAfter(usize, u16),
}

impl<'a> Graph<'a> {
    /// - `most_visits`: see [`Dependencies::visited`]; those so far do not count.
    pub(super) fn new(fabric: &'a Fabric, usage: &'a Usage, all: Dependencies, most_visits: u64) -> Self {
        Self {
            fabric,
            usage,
            most_visits: most_visits.saturating_add(all.visited()),
            all,
            laid: vec![None; fabric.num_switches()],
            more: vec![Vec::new(); fabric.num_switches()],
            have_more: Vec::new(),
            load: vec![(0, 0); fabric.channels().len()],
            destination: 0,
            journal: Vec::new(),
        }
    }

    fn depend(&mut self, first: ChannelId, vls: u16, second: ChannelId, more: u16) -> bool {
        let Self { fabric, all, journal, usage, most_visits, .. } = self;
        all.visited() <= *most_visits
            && all.depend((fabric, &usage.turns), first, vls, second, more, |added| {
                journal.push(Change::Added(added))
            })
    }

    /// The next destination. Some switches forward to it as in the earlier tables. The dependencies of these packets are
    /// in the graph already, and nobody else does so yet.
    ///
    /// - `without`: the switches that do not forward.
    ///
    /// Cost: a copy of `next`. What packets use is looked up where it is asked for.
    pub(super) fn begin(&mut self, next: &[Option<ChannelId>], without: &[SwitchId]) {
        self.journal.clear();
        self.have_more.drain(..).for_each(|s| self.more[s.index()].clear());
        self.destination = self.destination.checked_add(1).unwrap_or_else(|| {
            self.load.fill((0, 0));
            1
        });
        self.laid.copy_from_slice(next);
        without.iter().for_each(|s| self.laid[s.index()] = None);
    }

    /// The VLs of packets to the present destination on a channel.
    fn load(&mut self, channel: ChannelId) -> u16 {
        let (destination, load) = self.load[channel.index()];
        if destination == self.destination {
            return load;
        }
        let channels = self.fabric.channels();
        let from = channels.get(channel).from;
        let mut vls = 0;
        if self.laid[from.index()] == Some(channel) {
            vls = self.usage.injected[channel.index()];
            for (_, back) in channels.out(from) {
                let first = back.reverse;
                let is_used =
                    |graph: &mut Self| graph.usage.injected[first.index()] != 0 || graph.load(first) != 0;
                // Turns that packets take keep their VLs.
                if self.laid[back.to.index()] == Some(first) && is_used(self) {
                    vls |= self.all.vls_after[self.usage.turns.of(first, channel)];
                }
            }
        }
        self.load[channel.index()] = (self.destination, vls);
        vls
    }

    /// The channels by which a switch may forward to the present destination.
    fn hops(&self, s: SwitchId) -> impl Iterator<Item = ChannelId> {
        self.laid[s.index()].into_iter().chain(self.more[s.index()].iter().copied())
    }

    pub(super) fn mark(&self) -> usize {
        self.journal.len()
    }

    pub(super) fn back_to(&mut self, mark: usize) {
        while self.journal.len() > mark {
            match self.journal.pop() {
                Some(Change::Added(added)) => self.all.take_back(added),
                Some(Change::Load(channel, vls)) => self.load[channel.index()].1 = vls,
                Some(Change::Hop(s)) => {
                    self.more[s.index()].pop();
                }
                Some(Change::VlAfter(turn, vls)) => self.all.vls_after[turn] = vls,
                None => {}
            }
        }
    }

    /// Gives the turns to and from a channel that nobody takes another VL.
    ///
    /// - `other`: by turn, the VLs on which somebody takes it elsewhere.
    pub(super) fn choose(&mut self, channel: ChannelId, vl: u8, other: &[u16]) {
        let c = self.fabric.channels().get(channel);
        let mut turns = Vec::new();
        for (_, back) in self.fabric.channels().out(c.from) {
            if self.load(back.reverse) != 0 {
                turns.push(self.usage.turns.of(back.reverse, channel));
            }
        }
        turns.extend(self.hops(c.to).map(|second| self.usage.turns.of(channel, second)));
        for turn in turns {
            if self.all.waiting[turn] | other[turn] == 0 && self.all.vls_after[turn] != 1 << vl {
                self.journal.push(Change::VlAfter(turn, self.all.vls_after[turn]));
                self.all.vls_after[turn] = 1 << vl;
            }
        }
    }

    /// Packets to the present destination may leave a switch by a channel. Returns whether there is no cycle; if there
    /// is one, what was added has to be taken [back](Self::back_to).
    ///
    /// - `more`: by turn, further VLs after it, if any.
    pub(super) fn add(&mut self, s: SwitchId, channel: ChannelId, more: &[u16]) -> bool {
        if self.hops(s).any(|known| known == channel) {
            return true;
        }
        self.more[s.index()].push(channel);
        self.have_more.push(s);
        self.journal.push(Change::Hop(s));
        let more = |turn: usize| more.get(turn).copied().unwrap_or(0);
        let mut vls = self.usage.injected[channel.index()];
        for (_, back) in self.fabric.channels().out(s) {
            let first = back.reverse;
            let load = self.load(first);
            if load == 0 {
                continue;
            }
            let turn = self.usage.turns.of(first, channel);
            if !self.depend(first, load, channel, more(turn)) {
                return false;
            }
            vls |= self.all.vls_after[turn] | more(turn);
        }
        let mut open = vec![(channel, vls)];
        while let Some((channel, vls)) = open.pop() {
            let load = self.load(channel);
            let new = vls & !load;
            if new == 0 {
                continue;
            }
            self.journal.push(Change::Load(channel, load));
            self.load[channel.index()].1 = load | vls;
            let to = self.fabric.channels().get(channel).to;
            for second in self.laid[to.index()].into_iter().chain(self.more[to.index()].clone()) {
                let turn = self.usage.turns.of(channel, second);
                if !self.depend(channel, new, second, more(turn)) {
                    return false;
                }
                open.push((second, self.all.vls_after[turn] | more(turn)));
            }
        }
        true
    }
}
