//! The packets to one destination, free of cycles while they get further ways.

use super::dependencies::{Added, Dependencies};
use super::tables::Mending;
use super::usage::Usage;
use crate::fabric::{ChannelId, Lid, SwitchId};

/// Dependencies with the packets to one destination.
pub(super) struct Graph<'a> {
    mending: &'a Mending<'a>,
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
    /// By channel and class of SLs: VLs of packets to the present destination, if they have been looked up for it.
    load: Vec<(u32, u16)>,
    /// The present destination, and its number.
    lid: Option<Lid>,
    destination: u32,
    journal: Vec<Change>,
}

enum Change {
    Added(Added),
    Load(usize, u16),
    Hop(SwitchId),
    VlAfter(usize, u16),
}

impl<'a> Graph<'a> {
    /// - `most_visits`: see [`Dependencies::visited`]; those so far do not count.
    pub(super) fn new(
        mending: &'a Mending<'a>,
        usage: &'a Usage,
        all: Dependencies,
        most_visits: u64,
    ) -> Self {
        let fabric = mending.fabric;
        Self {
            mending,
            usage,
            most_visits: most_visits.saturating_add(all.visited()),
            all,
            laid: vec![None; fabric.num_switches()],
            more: vec![Vec::new(); fabric.num_switches()],
            have_more: Vec::new(),
            load: vec![(0, 0); fabric.channels().len() * usage.turns.classes],
            lid: None,
            destination: 0,
            journal: Vec::new(),
        }
    }

    /// See [`Dependencies::depend`]; false, too, where too much has been visited.
    pub(super) fn depend(&mut self, turn: (ChannelId, ChannelId, usize), vls: u16, more: u16) -> bool {
        let Self { mending, all, journal, usage, most_visits, .. } = self;
        let net = (mending.fabric, &usage.turns);
        all.visited() <= *most_visits
            && all.depend(net, turn, vls, more, |added| journal.push(Change::Added(added)))
    }

    /// Classes of SLs.
    fn classes(&self) -> usize {
        self.usage.turns.classes
    }

    /// The VLs on which end ports of its switch send packets of a class to the present destination over a channel.
    fn injected(&self, channel: ChannelId, class: usize) -> u16 {
        let from = self.mending.fabric.channels().get(channel).from;
        let sends = self.lid.is_some_and(|lid| self.mending.senders.of(from, lid) >> class & 1 != 0);
        if sends { self.usage.injected[self.usage.turns.on(channel, class)] } else { 0 }
    }

    /// The next destination. Some switches forward to it as in the earlier tables. The dependencies of these packets are
    /// in the graph already, and nobody else does so yet.
    ///
    /// - `without`: the switches that do not forward.
    ///
    /// Cost: a copy of `next`. What packets use is looked up where it is asked for.
    pub(super) fn begin(&mut self, lid: Lid, next: &[Option<ChannelId>], without: &[SwitchId]) {
        self.lid = Some(lid);
        self.journal.clear();
        self.have_more.drain(..).for_each(|s| self.more[s.index()].clear());
        self.destination = self.destination.checked_add(1).unwrap_or_else(|| {
            self.load.fill((0, 0));
            1
        });
        self.laid.copy_from_slice(next);
        without.iter().for_each(|s| self.laid[s.index()] = None);
    }

    /// The VLs of packets of a class to the present destination on a channel.
    fn load(&mut self, channel: ChannelId, class: usize) -> u16 {
        let at = self.usage.turns.on(channel, class);
        let (destination, load) = self.load[at];
        if destination == self.destination {
            return load;
        }
        let channels = self.mending.fabric.channels();
        let from = channels.get(channel).from;
        let mut vls = 0;
        if self.laid[from.index()] == Some(channel) {
            vls = self.injected(channel, class);
            for (_, back) in channels.out(from) {
                let first = back.reverse;
                let is_used =
                    |graph: &mut Self| graph.injected(first, class) != 0 || graph.load(first, class) != 0;
                // Turns that packets take keep their VLs.
                if self.laid[back.to.index()] == Some(first) && is_used(self) {
                    vls |= self.all.vls_after[self.usage.turns.of(first, channel, class)];
                }
            }
        }
        self.load[at] = (self.destination, vls);
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
                Some(Change::Load(at, vls)) => self.load[at].1 = vls,
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
    /// - `other`: by turn of a class, the VLs on which somebody takes it elsewhere.
    pub(super) fn choose(&mut self, channel: ChannelId, vl: u8, other: &[u16]) {
        let channels = self.mending.fabric.channels();
        let c = channels.get(channel);
        for class in 0..self.classes() {
            let mut turns = Vec::new();
            for (_, back) in channels.out(c.from) {
                if self.load(back.reverse, class) != 0 {
                    turns.push(self.usage.turns.of(back.reverse, channel, class));
                }
            }
            turns.extend(self.hops(c.to).map(|second| self.usage.turns.of(channel, second, class)));
            self.give(turns, vl, other);
        }
    }

    /// Gives those turns that nobody takes another VL.
    ///
    /// - `other`: as for [`choose`](Self::choose).
    pub(super) fn give(&mut self, turns: impl IntoIterator<Item = usize>, vl: u8, other: &[u16]) {
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
    /// - `more`: by turn of a class, further VLs after it, if any.
    pub(super) fn add(&mut self, s: SwitchId, channel: ChannelId, more: &[u16]) -> bool {
        if self.hops(s).any(|known| known == channel) {
            return true;
        }
        self.more[s.index()].push(channel);
        self.have_more.push(s);
        self.journal.push(Change::Hop(s));
        (0..self.classes()).all(|class| self.add_class(s, channel, class, more))
    }

    /// The same for packets of one class.
    fn add_class(&mut self, s: SwitchId, channel: ChannelId, class: usize, more: &[u16]) -> bool {
        let channels = self.mending.fabric.channels();
        let more = |turn: usize| more.get(turn).copied().unwrap_or(0);
        let mut vls = self.injected(channel, class);
        for (_, back) in channels.out(s) {
            let first = back.reverse;
            let load = self.load(first, class);
            if load == 0 {
                continue;
            }
            let turn = self.usage.turns.of(first, channel, class);
            if !self.depend((first, channel, class), load, more(turn)) {
                return false;
            }
            vls |= self.all.vls_after[turn] | more(turn);
        }
        let mut open = vec![(channel, vls)];
        while let Some((channel, vls)) = open.pop() {
            let load = self.load(channel, class);
            let new = vls & !load;
            if new == 0 {
                continue;
            }
            let to = channels.get(channel).to;
            let seconds: Vec<ChannelId> = self.hops(to).collect();
            // They are looked up without what goes on here.
            for &second in &seconds {
                self.load(second, class);
            }
            let at = self.usage.turns.on(channel, class);
            self.journal.push(Change::Load(at, load));
            self.load[at].1 = load | vls;
            for second in seconds {
                let turn = self.usage.turns.of(channel, second, class);
                if !self.depend((channel, second, class), new, more(turn)) {
                    return false;
                }
                open.push((second, self.all.vls_after[turn] | more(turn)));
            }
        }
        true
    }
}
