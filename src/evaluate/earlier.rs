//! What is known of earlier tables, for those that follow them.

use super::bisection::{KnownRoutes, Patterns};
use super::paths::{Adapter, Paths, Step};
use super::trees::{Counts, count};
use super::{LidChoice, Options};
use crate::fabric::{ChannelId, Fabric, Lid, SwitchId};
use crate::tables::Lft;

/// Tables with the totals of their routes, and their routes under random patterns. Of later tables only the routes that
/// lead over entries that differ are followed: what they were is taken away from the totals, and the new ones are added.
pub struct Earlier<'a> {
    paths: Paths<'a>,
    counts: Counts,
    patterns: Patterns,
}

/// What later tables are measured by.
pub(super) struct Later<'a> {
    pub(super) counts: Counts,
    pub(super) routes: KnownRoutes<'a>,
}

impl<'a> Earlier<'a> {
    /// `None` where tables do not lead every adapter to every other.
    ///
    /// - `options`: those by which later tables will be evaluated.
    ///
    /// Cost: O(D S) with D LIDs and S switches, and that of the patterns, over all cores. Memory: O(D S) for the patterns.
    pub fn new(fabric: &'a Fabric, lft: &'a Lft, options: &Options) -> Option<Self> {
        let paths = Paths::new(fabric, lft).ok()?;
        let counts = count(&paths).ok()?;
        let patterns = match options.lids {
            LidChoice::Base => Patterns::new(&paths, options),
            LidChoice::Shortest => Patterns::default(),
        };
        Some(Self { paths, counts, patterns })
    }

    /// What is known of later tables. `None` where switches, adapters or channels are not the same but for those that are
    /// gone, or a route is broken.
    ///
    /// Cost: O(D S) for a comparison of bytes, and O(d + h) for each entry that differs and each switch that forwards over
    /// it, with d channels of a switch and routes of h.
    pub(super) fn later(&self, now: &Paths<'_>) -> Option<Later<'_>> {
        let (before, fabric) = (self.paths.fabric, now.fabric);
        let switch = |f: &Fabric, s| f.switch(s).guid;
        let ids = before.switch_ids().map(|s| switch(before, s));
        if !ids.eq(fabric.switch_ids().map(|s| switch(fabric, s))) {
            return None;
        }
        let end = |a: &Adapter| (a.end.guid, a.end.lid, a.end.lmc, a.switch, a.port);
        if !self.paths.adapters.iter().map(end).eq(now.adapters.iter().map(end)) {
            return None;
        }
        let was = |c: &crate::fabric::Channel| {
            let was = before.channels().at_port(c.from, c.out_port)?;
            let same = before.channels().get(was);
            ((same.to, same.in_port) == (c.to, c.in_port)).then_some(was)
        };
        let was: Vec<ChannelId> = fabric.channels().as_slice().iter().map(was).collect::<Option<_>>()?;

        let mut moved = Moved::new(self, now);
        let mut differs = vec![false; now.adapters.len()];
        for ((from, to), differs) in self.paths.adapters.iter().zip(&now.adapters).zip(&mut differs) {
            for lid in to.end.lids().filter(|&lid| self.paths.lft.to(lid) != now.lft.to(lid)) {
                moved.add([from, to], lid)?;
                *differs |= lid == to.end.lid;
            }
        }
        let Moved { mut stays, mut load, hops, .. } = moved;
        for (load, was) in load.iter_mut().zip(&was) {
            *load += std::mem::take(&mut stays[was.index()]);
        }
        // Some route that is said to stay may take a channel that is gone.
        let all_there = stays.iter().all(|&routes| routes == 0);
        let routes = KnownRoutes { patterns: &self.patterns, was, differs };
        all_there.then_some(Later { counts: Counts { load, hops }, routes })
    }
}

/// The routes that move from some tables to others.
struct Moved<'a> {
    paths: [&'a Paths<'a>; 2],
    /// By channel of the earlier fabric: the routes that do not move.
    stays: Vec<u64>,
    /// By channel: the others.
    load: Vec<u64>,
    /// Number of routes by length.
    hops: Vec<u64>,
    /// By switch: whether its route to the present LID moves.
    moves: Vec<bool>,
}

impl<'a> Moved<'a> {
    fn new(earlier: &'a Earlier<'_>, now: &'a Paths<'_>) -> Self {
        Self {
            paths: [&earlier.paths, now],
            stays: earlier.counts.load.clone(),
            load: vec![0; now.fabric.channels().len()],
            hops: earlier.counts.hops.clone(),
            moves: vec![false; now.senders.len()],
        }
    }

    /// Moves the routes to a LID, which lead over entries that differ. `None` if one does not arrive.
    ///
    /// - `ends`: the adapter, before and now.
    fn add(&mut self, ends: [&Adapter<'_>; 2], lid: Lid) -> Option<()> {
        let [before, now] = self.paths;
        let (old, new) = (before.lft.to(lid), now.lft.to(lid));
        let mut all: Vec<SwitchId> =
            now.fabric.switch_ids().filter(|s| old[s.index()] != new[s.index()]).collect();
        all.iter().for_each(|s| self.moves[s.index()] = true);
        let channels = before.fabric.channels();
        let mut done = 0;
        while let Some(&s) = all.get(done) {
            done += 1;
            for (_, back) in channels.out(s) {
                let first = channels.get(back.reverse);
                if !self.moves[first.from.index()] && old[first.from.index()] == first.out_port.0 {
                    self.moves[first.from.index()] = true;
                    all.push(first.from);
                }
            }
        }
        let counts = lid == ends[1].end.lid;
        let mut arrive = true;
        for s in all {
            self.moves[s.index()] = false;
            let routes = now.senders[s.index()];
            if routes > 0 && arrive {
                let [stays, load] = [&mut self.stays, &mut self.load];
                let gone = follow(before, s, (ends[0], lid), |c| {
                    stays[c.index()] -= if counts { routes } else { 0 }
                });
                let come =
                    follow(now, s, (ends[1], lid), |c| load[c.index()] += if counts { routes } else { 0 });
                match gone.zip(come).filter(|_| counts) {
                    Some((gone, come)) => {
                        self.hops[gone] -= routes;
                        self.hops[come] += routes;
                    }
                    None => arrive = come.is_some(),
                }
            }
        }
        arrive.then_some(())
    }
}

/// Follows a route. Returns its length; `None` if it does not arrive.
fn follow(
    paths: &Paths<'_>,
    from: SwitchId,
    (to, lid): (&Adapter<'_>, Lid),
    mut each: impl FnMut(ChannelId),
) -> Option<usize> {
    let ports = paths.lft.to(lid);
    let mut at = from;
    for hops in 0..ports.len() {
        match paths.step(at, ports[at.index()], to) {
            Step::Home => return Some(hops),
            Step::Lost => return None,
            Step::Over(channel, next) => {
                each(channel);
                at = next;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Baseline, Settings, route, route_after};
    use crate::evaluate::{Options, evaluate, evaluate_after};
    use crate::topology::{Dragonfly, fail_links, fail_switches, small_members};

    #[test]
    fn figures_are_those_of_a_count_of_all_routes() {
        let settings = Settings::default();
        let options = Options { patterns: std::num::NonZeroU32::MIN.saturating_add(4), ..Options::default() };
        let (mut counted, mut known) = (0, 0);
        let dragonfly = ("Dragonfly", Dragonfly::balanced(2).build().unwrap());
        for (name, whole) in small_members().into_iter().chain([dragonfly]) {
            let Ok(routed) = route(&whole, &settings) else { continue };
            let Some(earlier) = Earlier::new(&whole, &routed.routes.lft, &options) else { continue };
            let baseline = Baseline::new(&whole, &settings, &routed);
            let any = crate::topology::Candidates::Any;
            let damaged =
                [fail_links(&whole, 1, 1), fail_links(&whole, 2, 2), fail_switches(&whole, 1, any, 1)];
            for damaged in damaged.into_iter().flatten() {
                let Ok(after) = route_after(&damaged, &settings, baseline.as_ref()) else { continue };
                let expected = evaluate(&damaged, &after.routes, &options).unwrap();
                let found = evaluate_after(&damaged, &after.routes, &options, Some(&earlier)).unwrap();
                assert_eq!(found, expected, "{name}");
                let now = Paths::new(&damaged, &after.routes.lft).unwrap();
                let later = earlier.later(&now);
                counted += usize::from(later.is_some());
                let has_patterns = |later: &Later<'_>| later.routes.patterns.of(options.seed, 4).is_some();
                known += usize::from(later.is_some_and(|later| has_patterns(&later)));
            }
        }
        assert!(counted > 20 && known > 5, "{counted} {known}");
    }
}
