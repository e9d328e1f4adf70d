//! Routes moved off the fullest channels.

use std::cmp::Reverse;

use super::PreparedMending;
use super::graph::Graph;
use super::paths::{Lengths, Steps, begin};
use super::tables::Mending;
use crate::fabric::{ChannelId, Lid, SwitchId};
use crate::tables::Lft;

/// Entries, destinations times switches, that are looked at where the tables have fewer.
const LEAST: usize = 25_000_000;

/// An entry that may change.
struct Move {
    lid: Lid,
    at: SwitchId,
    to: ChannelId,
    /// Routes that move with it.
    routes: u64,
}

impl PreparedMending<'_> {
    /// Moves routes off the fullest channel as long as it carries more than [`Mending::enough`], and some entry fits both
    /// graphs. Paths stay as long as they are. Of the destinations that have lost no path, at most as many move as have
    /// lost one, each once.
    ///
    /// - `steps`: by LID.
    ///
    /// Cost: O(S (H + d)) with S switches of d channels and paths of H for each destination that is looked at. That is one
    /// pass over the tables, or more where that is less than [`LEAST`] entries.
    ///
    /// [`Mending::enough`]: super::Mending::enough
    pub(super) fn relieve(
        &self,
        graphs: &mut [Graph<'_>; 2],
        lft: &mut Lft,
        load: &mut [u64],
        steps: &[Steps],
    ) {
        let mending = self.mending;
        let has_lost = mending.marked_lids(&self.lost);
        let mut stays = vec![false; lft.lids()];
        let mut looks = mending.lids.len().max(LEAST / mending.present.len());
        let mut left = self.lost.len();
        loop {
            let fullest = (0..load.len()).rev().max_by_key(|&channel| load[channel]).map(ChannelId::at);
            let Some(fullest) = fullest.filter(|c| load[c.index()] > mending.enough) else { return };
            let from = mending.fabric.channels().get(fullest).from;
            let now = mending.with(lft);
            let is_behind = |lid: &Lid| !stays[lid.index()] && now.next(from, *lid) == Some(fullest);
            let behind: Vec<Lid> = mending.lids.iter().copied().filter(is_behind).collect();
            let Some(fewer) = looks.checked_sub(behind.len()) else { return };
            looks = fewer;
            let mut moves: Vec<(u64, Move)> =
                behind.into_iter().flat_map(|lid| self.moves(&now, fullest, lid, load)).collect();
            moves.sort_by_key(|(most, m)| (*most, Reverse(m.routes), m.lid, m.at));
            let before = load[fullest.index()];
            // A move changes what the others of its destination would move.
            let mut has_moved = vec![false; lft.lids()];
            for (_, m) in moves {
                if load[fullest.index()] <= mending.enough {
                    break;
                }
                let is_less = |c: ChannelId| load[c.index()] + self.carried(&m, c) < load[fullest.index()];
                let may = !has_moved[m.lid.index()] && (has_lost[m.lid.index()] || left > 0);
                let lowers = may && mending.with(lft).path(Some(m.to), m.lid).all(is_less);
                if lowers && self.fits(&m, graphs, lft, &steps[m.lid.index()]) {
                    self.apply(&m, lft, load);
                    has_moved[m.lid.index()] = true;
                    if !has_lost[m.lid.index()] {
                        stays[m.lid.index()] = true;
                        left -= 1;
                    }
                }
            }
            if load[fullest.index()] == before {
                return;
            }
        }
    }

    /// The entries that take routes to a destination off a channel, each with the largest load on the new path before
    /// that.
    ///
    /// - `now`: the tables as they are so far.
    fn moves(&self, now: &Mending<'_>, fullest: ChannelId, lid: Lid, load: &[u64]) -> Vec<(u64, Move)> {
        let (fabric, channels) = (now.fabric, now.fabric.channels());
        let owner = fabric.owner_of(lid).map(|owner| fabric.endport(owner)).filter(|end| end.is_adapter());
        let Some((owner, target)) = owner.zip(now.target(lid)) else { return Vec::new() };
        let (routes, times) = self.demand.to(owner);
        let next = now.all_next(lid);
        let mut hops = Lengths::new(now, target, &next, &[]);
        // By switch: whether its path has the fullest channel, and the routes that pass the switch on their way there.
        let (mut is_over, mut through) = (vec![false; next.len()], vec![0; next.len()]);
        for s in fabric.switch_ids().filter(|s| now.present[s.index()]) {
            let path = || now.path(next[s.index()], lid);
            let Some(before) = path().position(|c| c == fullest) else { continue };
            is_over[s.index()] = true;
            let on_the_way = path().take(before + 1).map(|c| channels.get(c).from.index());
            on_the_way.for_each(|at| through[at] += routes[s.index()] * times);
        }
        let mut best = |at: SwitchId| {
            let others = channels.out(at).filter(|(id, c)| {
                let mut is_as_long = || hops.of(c.to).map(|hops| hops + 1) == hops.of(at);
                now.alive[id.index()] && !is_over[c.to.index()] && is_as_long()
            });
            let most = |to| now.path(Some(to), lid).map(|c| load[c.index()]).max().unwrap_or(0);
            others.map(|(to, _)| (most(to), to)).min()
        };
        let passed = fabric.switch_ids().filter(|at| through[at.index()] > 0);
        let to_move = |at: SwitchId| {
            let (most, to) = best(at)?;
            Some((most, Move { lid, at, to, routes: through[at.index()] }))
        };
        passed.filter_map(to_move).collect()
    }

    /// What the routes of a move add to the load of a channel.
    fn carried(&self, m: &Move, channel: ChannelId) -> u64 {
        m.routes * u64::from(self.mending.fabric.weights().by_channel()[channel.index()])
    }

    /// Whether both graphs stay free of cycles with a new entry. If so, they have it.
    ///
    /// They have the other new entries to its destination already, and keep what a former one brought.
    fn fits(&self, m: &Move, graphs: &mut [Graph<'_>; 2], lft: &Lft, steps: &Steps) -> bool {
        let (mending, now) = (self.mending, self.mending.with(lft));
        let old = mending.all_next(m.lid);
        begin(graphs, m.lid, &old, &steps.moving);
        let mut is_moving = mending.marked(&steps.moving);
        is_moving[m.at.index()] = true;
        let is_late = mending.marked(&steps.late);
        let fits = mending.fabric.switch_ids().zip(&old).all(|(s, &was)| {
            let next = if s == m.at { Some(m.to) } else { now.next(s, m.lid) };
            let Some(next) = next.filter(|_| is_moving[s.index()] || next != was) else { return true };
            mending.add((s, next), was, graphs, (is_late[s.index()], steps.strays))
        });
        if !fits {
            graphs.iter_mut().for_each(|graph| graph.back_to(0));
        }
        fits
    }

    fn apply(&self, m: &Move, lft: &mut Lft, load: &mut [u64]) {
        let (mending, now) = (self.mending, self.mending.with(lft));
        for c in now.path(now.next(m.at, m.lid), m.lid) {
            load[c.index()] -= self.carried(m, c);
        }
        for c in now.path(Some(m.to), m.lid) {
            load[c.index()] += self.carried(m, c);
        }
        lft.set(m.at, m.lid, mending.fabric.channels().get(m.to).out_port);
    }
}
