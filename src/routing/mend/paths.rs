//! New paths to one destination.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Choice;
use super::graph::Graph;
use super::load::Flows;
use super::tables::Mending;
use crate::fabric::{ChannelId, Lid, SwitchId};
use crate::routing::demand::Demand;

/// New paths to a destination.
pub(super) struct NewPaths {
    /// By switch: the next hop; `None` at the target, and for switches that are gone what they had.
    pub(super) next: Vec<Option<ChannelId>>,
    pub(super) steps: Steps,
}

/// In which step the new entries to a destination go; by default all in that of `rest`.
#[derive(Clone, Default)]
pub(super) struct Steps {
    /// The switches that have got new paths.
    pub(super) moving: Vec<SwitchId>,
    /// Those of them whose entries go with those over channels that are gone.
    pub(super) late: Vec<SwitchId>,
    /// Whether the others have to take further steps.
    pub(super) strays: bool,
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
            let mut first = Vec::new();
            loop {
                let lengths = Lengths::new(self, target, old, &moving);
                let mut added = Vec::new();
                if all_move {
                    kept.take_from(load);
                }
                let of_load = (&mut *load, &mut added);
                let found =
                    self.search((lid, &moving, &first), lengths, graphs, of_load, (choice, strays, routes));
                for (channel, routes) in added {
                    load[channel.index()] = load[channel.index()].wrapping_sub(routes);
                }
                if all_move {
                    kept.add_to(load);
                }
                let mut without = match found {
                    Ok(paths) => return Some(paths),
                    Err(without) => without,
                };
                graphs.iter_mut().for_each(|graph| graph.back_to(0));
                let is_left = |s: &SwitchId| old[s.index()].is_some_and(|was| self.alive[was.index()]);
                without.retain(|s| choice.late && !all_move && is_left(s) && !first.contains(s));
                if without.is_empty() {
                    return None;
                }
                first.extend(without);
            }
        })
    }

    /// New paths, or else the switches that find none.
    ///
    /// - `moving`: the switches that get new paths; and those of them whose old entries are in `ends` before anybody
    ///   takes a new one, so that others leave room for them to be late.
    /// - `load`: by channel, and what is added to it, modulo 2^64. Routes of a switch that has not chosen yet count where they
    ///   would pass if it kept its next hop: else all spines of a tree would choose the same core, as those come before the
    ///   leaves that send.
    /// - `strays`: whether new entries need not fit into `rest`.
    /// - `routes`: from each switch, and how often they count.
    fn search(
        &self,
        (lid, moving, first): (Lid, &[SwitchId], &[SwitchId]),
        mut hops: Lengths<'_>,
        graphs: &mut [Graph<'_>; 2],
        (load, added): (&mut [u64], &mut Vec<(ChannelId, u64)>),
        (choice, strays, routes): (Choice, bool, Option<(&[u64], u64)>),
    ) -> Result<NewPaths, Vec<SwitchId>> {
        let old = hops.old;
        let channels = self.fabric.channels();
        let weights = self.fabric.weights().by_channel();
        begin(graphs, lid, old, moving);
        let [ends, _] = &mut *graphs;
        for &s in first {
            let before = ends.mark();
            if old[s.index()].is_some_and(|was| !ends.add(s, was, &[])) {
                ends.back_to(before);
            }
        }
        let mut next = old.to_vec();
        let mut late = Vec::new();
        let mut passing = self.passing(old, moving, routes);
        let weighed = |channel: ChannelId, flow: u64| flow * u64::from(weights[channel.index()]);
        // The largest load on the way to the target, and the sum of all, with the routes of the switch.
        let cost = |next: &[Option<ChannelId>], load: &[u64], flow: u64, is_new: bool, channel: ChannelId| {
            let after = |c: &ChannelId| next[channels.get(*c).to.index()];
            let with =
                |c: ChannelId| load[c.index()] + if is_new || c == channel { weighed(c, flow) } else { 0 };
            let loads = std::iter::successors(Some(channel), after).map(with);
            loads.fold((0, 0), |(most, sum), load| (load.max(most), sum + load))
        };
        let mut open = BinaryHeap::new();
        let candidate =
            |length: u32, next: &[_], load: &[_], flow: u64, from: SwitchId, channel: ChannelId| {
                let is_new = old[from.index()] != Some(channel);
                let cost = cost(next, load, flow, is_new, channel);
                Reverse((length + 1, is_new && !choice.by_load, cost, is_new, from, channel))
            };
        for &from in moving {
            let flow = passing[from.index()];
            for (channel, c) in channels.out(from).filter(|(channel, _)| self.alive[channel.index()]) {
                open.extend(hops.of(c.to).map(|length| candidate(length, &next, load, flow, from, channel)));
            }
        }
        while let Some(Reverse((length, first, price, is_new, from, channel))) = open.pop() {
            if hops.of(from).is_some() {
                continue;
            }
            let flow = passing[from.index()];
            let now = cost(&next, load, flow, is_new, channel);
            if now > price {
                open.push(Reverse((length, first, now, is_new, from, channel)));
                continue;
            }
            let was = old[from.index()];
            let marks = graphs.each_ref().map(Graph::mark);
            // One VL that nobody uses is as good as any other.
            let used = graphs.iter().map(|graph| graph.all.vls()).max().unwrap_or(0);
            let vls = self.most_vls.min(used + 1);
            let mut fits = |late: bool, vl: Option<u8>| {
                if let Some(vl) = vl {
                    let [ends, rest] = &mut *graphs;
                    ends.choose(channel, vl, &rest.all.waiting);
                    if ends.mark() == marks[0] {
                        return false;
                    }
                }
                let fits = self.add((from, channel), was, graphs, (late, strays));
                if !fits {
                    graphs.iter_mut().zip(marks).for_each(|(graph, mark)| graph.back_to(mark));
                }
                fits
            };
            let mut on_some_vl = |late: bool| fits(late, None) || (0..vls).any(|vl| fits(late, Some(vl)));
            let may_be_late = choice.late && is_new && was.is_some_and(|was| self.alive[was.index()]);
            if !on_some_vl(false) {
                if !(may_be_late && on_some_vl(true)) {
                    continue;
                }
                late.push(from);
            }
            hops.set(from, length);
            next[from.index()] = Some(channel);
            let mut shift = |channel: ChannelId, routes: u64| {
                load[channel.index()] = load[channel.index()].wrapping_add(routes);
                added.push((channel, routes));
            };
            let after = |c: &ChannelId| next[channels.get(*c).to.index()];
            let on = std::iter::successors(Some(channel), after);
            // Where it stays, the next switch has counted these routes.
            on.take(if is_new { usize::MAX } else { 1 }).for_each(|c| shift(c, weighed(c, flow)));
            let mut left = old[from.index()].filter(|was| is_new && self.alive[was.index()]);
            while let Some(s) = left.map(|was| channels.get(was).to) {
                if hops.of(s).is_some() {
                    let on = std::iter::successors(next[s.index()], after);
                    on.for_each(|c| shift(c, weighed(c, flow).wrapping_neg()));
                    break;
                }
                passing[s.index()] -= flow;
                left = old[s.index()].filter(|was| self.alive[was.index()]);
            }
            for back in channels.out(from).map(|(_, back)| back) {
                if self.alive[back.reverse.index()] && hops.of(back.to).is_none() {
                    let flow = passing[back.to.index()];
                    open.push(candidate(length, &next, load, flow, back.to, back.reverse));
                }
            }
        }
        let without: Vec<SwitchId> = moving.iter().copied().filter(|&s| hops.of(s).is_none()).collect();
        match without.is_empty() {
            true => Ok(NewPaths { next, steps: Steps { moving: moving.to_vec(), late, strays } }),
            false => Err(without),
        }
    }

    /// Adds an entry to both graphs. Returns whether they stay free of cycles; if not, what was added has to be taken
    /// [back](Graph::back_to).
    ///
    /// - `was`: the earlier entry.
    /// - `late`, `strays`: see [`Steps`].
    pub(super) fn add(
        &self,
        (at, channel): (SwitchId, ChannelId),
        was: Option<ChannelId>,
        [ends, rest]: &mut [Graph<'_>; 2],
        (late, strays): (bool, bool),
    ) -> bool {
        let is_new = was != Some(channel);
        let with_ends = was.filter(|was| is_new && (late || !self.alive[was.index()]));
        ends.add(at, channel, &[])
            && match with_ends {
                Some(was) => ends.add(at, was, &[]),
                None => !is_new || strays || rest.add(at, channel, &ends.all.vls_after),
            }
    }

    /// By switch: the routes that pass it on the way to a destination, of those of the switches that get new paths.
    ///
    /// - `old`, `moving`, `routes`: as in [`search`](Self::search).
    fn passing(
        &self,
        old: &[Option<ChannelId>],
        moving: &[SwitchId],
        routes: Option<(&[u64], u64)>,
    ) -> Vec<u64> {
        let mut passing = vec![0; old.len()];
        let Some((routes, times)) = routes else { return passing };
        let after = |s: &SwitchId| {
            let was = old[s.index()].filter(|was| self.alive[was.index()])?;
            Some(self.fabric.channels().get(was).to)
        };
        for &s in moving {
            let on = std::iter::successors(Some(s), after);
            on.for_each(|here| passing[here.index()] += routes[s.index()] * times);
        }
        passing
    }
}

/// The next destination.
///
/// - `old`: by switch, the next hop in the earlier tables.
/// - `moving`: the switches that get new paths.
pub(super) fn begin(
    [ends, rest]: &mut [Graph<'_>; 2],
    lid: Lid,
    old: &[Option<ChannelId>],
    moving: &[SwitchId],
) {
    ends.begin(lid, old, moving);
    rest.begin(lid, old, &[]);
}

/// The lengths of paths to a destination.
pub(super) struct Lengths<'a> {
    tables: &'a Mending<'a>,
    target: SwitchId,
    old: &'a [Option<ChannelId>],
    hops: Vec<Length>,
}

/// The length of a path, looked up where it is asked for.
#[derive(Clone, Copy)]
enum Length {
    Unknown,
    None,
    Hops(u32),
}

impl<'a> Lengths<'a> {
    /// - `moving`: the switches that have no path yet; those that are gone have none either.
    pub(super) fn new(
        tables: &'a Mending<'a>,
        target: SwitchId,
        old: &'a [Option<ChannelId>],
        moving: &[SwitchId],
    ) -> Self {
        let length = |&present: &bool| if present { Length::Unknown } else { Length::None };
        let mut hops: Vec<Length> = tables.present.iter().map(length).collect();
        moving.iter().for_each(|s| hops[s.index()] = Length::None);
        Self { tables, target, old, hops }
    }

    /// `None` without a path.
    pub(super) fn of(&mut self, s: SwitchId) -> Option<u32> {
        match self.hops[s.index()] {
            Length::None => None,
            Length::Hops(hops) => Some(hops),
            Length::Unknown => {
                let hops = self.tables.hops_left(s, self.target, self.old);
                self.hops[s.index()] = hops.map_or(Length::None, Length::Hops);
                hops
            }
        }
    }

    fn set(&mut self, s: SwitchId, hops: u32) {
        self.hops[s.index()] = Length::Hops(hops);
    }
}
