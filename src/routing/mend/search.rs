//! The search for new paths to one destination: the shortest first, as in Dijkstra's algorithm. A switch takes a next hop only
//! if both graphs of dependencies stay free of cycles.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Choice;
use super::graph::Graph;
use super::load::Flows;
use super::paths::{Lengths, NewPaths, Steps, begin};
use super::tables::Mending;
use crate::fabric::{ChannelId, Lid, SwitchId};
use crate::routing::demand::Demand;

/// What new paths are wanted.
struct Wanted<'a> {
    lid: Lid,
    target: SwitchId,
    /// By switch: the next hop before.
    old: &'a [Option<ChannelId>],
    /// The switches that get new paths.
    moving: Vec<SwitchId>,
    /// From each switch, and how often they count; `None` to a destination that carries no traffic.
    routes: Option<(&'a [u64], u64)>,
    choice: Choice,
    /// Whether new entries need not fit into `rest`.
    strays: bool,
}

impl Wanted<'_> {
    /// The next hop of a switch before, if it is still there.
    fn left(&self, mending: &Mending<'_>, s: SwitchId) -> Option<ChannelId> {
        self.old[s.index()].filter(|was| mending.alive[was.index()])
    }
}

impl Mending<'_> {
    /// Where switches that have lost their paths find none, they may have to be late, so the others choose again and leave
    /// room for their old entries. Where some still find none, all may move. Where that does not help and the destination
    /// may [stray](Choice::may_stray), the new paths have to fit into `ends` alone.
    ///
    /// - `old`, `lost`, `kept`: the next hops before, the switches that have lost their paths, and the routes of the others.
    /// - `load`: by channel, with these routes; the same again afterwards.
    pub(super) fn route(
        &self,
        lid: Lid,
        (old, lost, kept): (&[Option<ChannelId>], &[SwitchId], &Flows),
        graphs: &mut [Graph<'_>; 2],
        load: &mut [u64],
        choice: Choice,
        demand: &Demand<'_>,
    ) -> Option<NewPaths> {
        let target = self.target(lid)?;
        let present = |s: &SwitchId| self.present[s.index()];
        let all = || self.fabric.switch_ids().filter(present).filter(|&s| s != target).collect::<Vec<_>>();
        let owner = self.fabric.endport(self.fabric.owner_of(lid)?);
        let routes = if owner.is_adapter() { Some(demand.to(owner)) } else { None };
        let strays = if choice.may_stray { &[false, true][..] } else { &[false] };
        let attempts = strays.iter().flat_map(|&strays| [(false, strays), (true, strays)]);
        attempts.into_iter().find_map(|(all_move, strays)| {
            let moving = if all_move { all() } else { lost.to_vec() };
            let wanted = Wanted { lid, target, old, moving, routes, choice, strays };
            if !all_move {
                return self.search(&wanted, choice.late, graphs, load);
            }
            kept.take_from(load);
            let found = self.search(&wanted, false, graphs, load);
            kept.add_to(load);
            found
        })
    }

    /// - `may_be_late`: whether switches that find no path may have to be late.
    fn search(
        &self,
        wanted: &Wanted<'_>,
        may_be_late: bool,
        graphs: &mut [Graph<'_>; 2],
        load: &mut [u64],
    ) -> Option<NewPaths> {
        let mut first = Vec::new();
        loop {
            let mut without = match Search::new(self, wanted, &first, graphs, load).run() {
                Ok(paths) => return Some(paths),
                Err(without) => without,
            };
            graphs.iter_mut().for_each(|graph| graph.back_to(0));
            without.retain(|&s| may_be_late && wanted.left(self, s).is_some() && !first.contains(&s));
            if without.is_empty() {
                return None;
            }
            first.extend(without);
        }
    }
}

/// A next hop that a switch may take: the shorter and cheaper ones come first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Offer {
    /// Hops to the target.
    length: u32,
    /// Whether it differs from the one before, where that counts more than the load.
    differs: bool,
    /// See [`Search::cost`].
    cost: (u64, u64),
    /// Whether it differs from the one before.
    is_new: bool,
    from: SwitchId,
    channel: ChannelId,
}

/// A search that goes on switch by switch.
struct Search<'s, 'g> {
    mending: &'s Mending<'s>,
    wanted: &'s Wanted<'s>,
    graphs: &'s mut [Graph<'g>; 2],
    /// By channel. Routes of a switch that has not chosen yet count where they would pass if it kept its next hop: else all
    /// spines of a tree would choose the same core, as those come before the leaves that send.
    load: &'s mut [u64],
    /// What was added to the load, modulo 2^64.
    added: Vec<(ChannelId, u64)>,
    hops: Lengths<'s>,
    /// By switch: the next hop so far.
    next: Vec<Option<ChannelId>>,
    /// By switch: the routes that pass it, of those of the switches that get new paths.
    passing: Vec<u64>,
    late: Vec<SwitchId>,
    open: BinaryHeap<Reverse<Offer>>,
}

impl<'s, 'g> Search<'s, 'g> {
    /// - `first`: switches whose old entries are in `ends` before anybody takes a new one, so that others leave room for them to
    ///   be late.
    /// - `load`: by channel; the same again once it has [run](Self::run).
    fn new(
        mending: &'s Mending<'s>,
        wanted: &'s Wanted<'s>,
        first: &[SwitchId],
        graphs: &'s mut [Graph<'g>; 2],
        load: &'s mut [u64],
    ) -> Self {
        let Wanted { lid, target, old, ref moving, .. } = *wanted;
        begin(graphs, lid, old, moving);
        let [ends, _] = &mut *graphs;
        for &s in first {
            let before = ends.mark();
            if old[s.index()].is_some_and(|was| !ends.add(s, was, &[])) {
                ends.back_to(before);
            }
        }
        let (next, passing) = (old.to_vec(), passing(mending, wanted));
        let hops = Lengths::new(mending, target, old, moving);
        let (added, late, open) = (Vec::new(), Vec::new(), BinaryHeap::new());
        Self { mending, wanted, graphs, load, added, hops, next, passing, late, open }
    }

    /// New paths, or else the switches that find none.
    fn run(mut self) -> Result<NewPaths, Vec<SwitchId>> {
        let (mending, wanted) = (self.mending, self.wanted);
        let channels = mending.fabric.channels();
        for &from in &wanted.moving {
            for (channel, c) in channels.out(from) {
                if let Some(length) = self.alive(channel).then(|| self.hops.of(c.to)).flatten() {
                    self.offer(length + 1, from, channel);
                }
            }
        }
        while let Some(Reverse(offer)) = self.open.pop() {
            let Offer { length, from, channel, .. } = offer;
            if self.hops.of(from).is_some() {
                continue;
            }
            let now = self.cost(from, channel);
            if now > offer.cost {
                self.open.push(Reverse(Offer { cost: now, ..offer }));
                continue;
            }
            if !self.enter(from, channel) {
                continue;
            }
            self.hops.set(from, length);
            self.next[from.index()] = Some(channel);
            self.shift_routes(from, channel);
            for (_, back) in channels.out(from) {
                if self.alive(back.reverse) && self.hops.of(back.to).is_none() {
                    self.offer(length + 1, back.to, back.reverse);
                }
            }
        }
        for &(channel, routes) in &self.added {
            self.load[channel.index()] = self.load[channel.index()].wrapping_sub(routes);
        }
        let (moving, strays) = (&wanted.moving, wanted.strays);
        let without: Vec<SwitchId> = moving.iter().copied().filter(|&s| self.hops.of(s).is_none()).collect();
        if !without.is_empty() {
            return Err(without);
        }
        Ok(NewPaths { next: self.next, steps: Steps { moving: moving.clone(), late: self.late, strays } })
    }

    fn alive(&self, channel: ChannelId) -> bool {
        self.mending.alive[channel.index()]
    }

    fn left(&self, s: SwitchId) -> Option<ChannelId> {
        self.wanted.left(self.mending, s)
    }

    fn is_new(&self, from: SwitchId, channel: ChannelId) -> bool {
        self.wanted.old[from.index()] != Some(channel)
    }

    /// A channel and those that follow it, as far as switches have chosen.
    fn path(&self, first: ChannelId) -> impl Iterator<Item = ChannelId> {
        let channels = self.mending.fabric.channels();
        std::iter::successors(Some(first), |c| self.next[channels.get(*c).to.index()])
    }

    /// What so many routes add to the load of a channel, modulo 2^64.
    fn weighed(&self, channel: ChannelId, routes: u64) -> u64 {
        routes.wrapping_mul(self.mending.fabric.weights().by_channel()[channel.index()].into())
    }

    /// The largest load on the way to the target, and the sum of all, with the routes of the switch.
    fn cost(&self, from: SwitchId, channel: ChannelId) -> (u64, u64) {
        let (is_new, flow) = (self.is_new(from, channel), self.passing[from.index()]);
        let own = |c: ChannelId| if is_new || c == channel { self.weighed(c, flow) } else { 0 };
        let loads = self.path(channel).map(|c| self.load[c.index()] + own(c));
        loads.fold((0, 0), |(most, sum), load| (load.max(most), sum + load))
    }

    /// - `length`: hops to the target.
    fn offer(&mut self, length: u32, from: SwitchId, channel: ChannelId) {
        let is_new = self.is_new(from, channel);
        let (differs, cost) = (is_new && !self.wanted.choice.by_load, self.cost(from, channel));
        self.open.push(Reverse(Offer { length, differs, cost, is_new, from, channel }));
    }

    /// Adds a next hop to both graphs, where needed with another VL for turns that nobody takes, or late. Returns whether it
    /// fits.
    fn enter(&mut self, from: SwitchId, channel: ChannelId) -> bool {
        if self.enter_on_some_vl(from, channel, false) {
            return true;
        }
        let may_be_late = self.is_new(from, channel) && self.left(from).is_some();
        let is_late = self.wanted.choice.late && may_be_late && self.enter_on_some_vl(from, channel, true);
        self.late.extend(is_late.then_some(from));
        is_late
    }

    fn enter_on_some_vl(&mut self, from: SwitchId, channel: ChannelId, late: bool) -> bool {
        // One VL that nobody uses is as good as any other.
        let used = self.graphs.iter().map(|graph| graph.all.vls()).max().unwrap_or(0);
        let vls = self.mending.most_vls.min(used + 1);
        std::iter::once(None).chain((0..vls).map(Some)).any(|vl| self.fits((from, channel), late, vl))
    }

    /// - `vl`: another VL for turns that nobody takes; `None` to leave all as they are.
    fn fits(&mut self, (from, channel): (SwitchId, ChannelId), late: bool, vl: Option<u8>) -> bool {
        let marks = self.graphs.each_ref().map(Graph::mark);
        if let Some(vl) = vl {
            let [ends, rest] = &mut *self.graphs;
            ends.choose(channel, vl, &rest.all.waiting);
            if ends.mark() == marks[0] {
                return false;
            }
        }
        let (was, how) = (self.wanted.old[from.index()], (late, self.wanted.strays));
        let fits = self.mending.add((from, channel), was, self.graphs, how);
        if !fits {
            self.graphs.iter_mut().zip(marks).for_each(|(graph, mark)| graph.back_to(mark));
        }
        fits
    }

    /// Moves the routes that pass a switch to its new path.
    fn shift_routes(&mut self, from: SwitchId, channel: ChannelId) {
        let flow = self.passing[from.index()];
        if !self.is_new(from, channel) {
            // The next switch has counted these routes.
            self.shift(channel, flow);
            return;
        }
        self.shift_path(Some(channel), flow);
        let channels = self.mending.fabric.channels();
        let mut left = self.left(from);
        while let Some(s) = left.map(|was| channels.get(was).to) {
            if self.hops.of(s).is_some() {
                self.shift_path(self.next[s.index()], flow.wrapping_neg());
                break;
            }
            self.passing[s.index()] -= flow;
            left = self.left(s);
        }
    }

    /// Adds routes to a channel and those that follow it.
    fn shift_path(&mut self, first: Option<ChannelId>, routes: u64) {
        let channels = self.mending.fabric.channels();
        let mut ahead = first;
        while let Some(channel) = ahead {
            self.shift(channel, routes);
            ahead = self.next[channels.get(channel).to.index()];
        }
    }

    /// - `routes`: modulo 2^64.
    fn shift(&mut self, channel: ChannelId, routes: u64) {
        let more = self.weighed(channel, routes);
        self.load[channel.index()] = self.load[channel.index()].wrapping_add(more);
        self.added.push((channel, more));
    }
}

/// By switch: the routes that pass it on the way to a destination, of those of the switches that get new paths.
fn passing(mending: &Mending<'_>, wanted: &Wanted<'_>) -> Vec<u64> {
    let mut passing = vec![0; wanted.old.len()];
    let Some((routes, times)) = wanted.routes else { return passing };
    let after = |&s: &SwitchId| wanted.left(mending, s).map(|was| mending.fabric.channels().get(was).to);
    for &s in &wanted.moving {
        let on = std::iter::successors(Some(s), after);
        on.for_each(|here| passing[here.index()] += routes[s.index()] * times);
    }
    passing
}
