//! The packets to one destination, free of cycles while they get further ways.

use super::dependencies::{Added, Dependencies};
use super::usage::Usage;
use crate::fabric::{ChannelId, Fabric, SwitchId};

/// Dependencies with the packets to one destination.
pub(super) struct Graph<'a> {
    fabric: &'a Fabric,
    usage: &'a Usage,
    pub(super) all: Dependencies,
    /// By switch: the channels by which it may forward to the present destination.
    hops: Vec<Vec<ChannelId>>,
    /// By channel: VLs of packets to the present destination.
    load: Vec<u16>,
    journal: Vec<Change>,
}

enum Change {
    Added(Added),
    Load(ChannelId, u16),
    Hop(SwitchId),
    VlAfter(usize, u16),
}

impl<'a> Graph<'a> {
    pub(super) fn new(fabric: &'a Fabric, usage: &'a Usage, all: Dependencies) -> Self {
        Self {
            fabric,
            usage,
            all,
            hops: vec![Vec::new(); fabric.num_switches()],
            load: vec![0; fabric.channels().len()],
            journal: Vec::new(),
        }
    }

    fn depend(&mut self, first: ChannelId, vls: u16, second: ChannelId, more: u16) -> bool {
        let Self { fabric, all, journal, usage, .. } = self;
        all.depend((fabric, &usage.turns), first, vls, second, more, |added| {
            journal.push(Change::Added(added))
        })
    }

    /// The next destination.
    pub(super) fn begin(&mut self) {
        self.journal.clear();
        self.hops.iter_mut().for_each(Vec::clear);
        self.load.fill(0);
    }

    /// Some switches forward to the present destination as in the earlier tables. The dependencies of these packets are
    /// in the graph already, and nobody else does so yet.
    pub(super) fn lay(&mut self, next: &[Option<ChannelId>], takes_part: impl Fn(SwitchId) -> bool) {
        let Self { fabric, usage, all, hops, load, .. } = self;
        for (s, channel) in fabric.switch_ids().zip(next).filter(|(s, _)| takes_part(*s)) {
            hops[s.index()].extend(channel);
        }
        for s in fabric.switch_ids() {
            let Some(&(mut channel)) = hops[s.index()].first() else { continue };
            let mut vls = usage.injected[channel.index()];
            while vls & !load[channel.index()] != 0 {
                load[channel.index()] |= vls;
                let Some(&second) = hops[fabric.channels().get(channel).to.index()].first() else { break };
                vls = all.vls_after[usage.turns.of(channel, second)];
                channel = second;
            }
        }
    }

    pub(super) fn mark(&self) -> usize {
        self.journal.len()
    }

    pub(super) fn back_to(&mut self, mark: usize) {
        while self.journal.len() > mark {
            match self.journal.pop() {
                Some(Change::Added(added)) => self.all.take_back(added),
                Some(Change::Load(channel, vls)) => self.load[channel.index()] = vls,
                Some(Change::Hop(s)) => {
                    self.hops[s.index()].pop();
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
        let into = self.fabric.channels().out(c.from).map(|(_, back)| back.reverse);
        let before = into.filter(|first| self.load[first.index()] != 0);
        let before = before.map(|first| self.usage.turns.of(first, channel));
        let behind = self.hops[c.to.index()].iter().map(|&second| self.usage.turns.of(channel, second));
        for turn in before.chain(behind).collect::<Vec<_>>() {
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
        if self.hops[s.index()].contains(&channel) {
            return true;
        }
        self.hops[s.index()].push(channel);
        self.journal.push(Change::Hop(s));
        let more = |turn: usize| more.get(turn).copied().unwrap_or(0);
        let mut vls = self.usage.injected[channel.index()];
        for (_, back) in self.fabric.channels().out(s) {
            let first = back.reverse;
            if self.load[first.index()] == 0 {
                continue;
            }
            let turn = self.usage.turns.of(first, channel);
            if !self.depend(first, self.load[first.index()], channel, more(turn)) {
                return false;
            }
            vls |= self.all.vls_after[turn] | more(turn);
        }
        let mut open = vec![(channel, vls)];
        while let Some((channel, vls)) = open.pop() {
            let load = self.load[channel.index()];
            let new = vls & !load;
            if new == 0 {
                continue;
            }
            self.journal.push(Change::Load(channel, load));
            self.load[channel.index()] = load | vls;
            let to = self.fabric.channels().get(channel).to;
            for i in 0..self.hops[to.index()].len() {
                let second = self.hops[to.index()][i];
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
