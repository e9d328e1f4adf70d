//! Paths to destinations that have lost nothing, moved off the fullest channels.

use std::cmp::Reverse;

use super::PreparedMending;
use super::graph::Graph;
use super::paths::Lengths;
use crate::fabric::{ChannelId, Lid, SwitchId};
use crate::tables::Lft;

/// An entry that may change.
struct Move {
    lid: Lid,
    at: SwitchId,
    to: ChannelId,
    /// Routes that move with it.
    routes: u64,
}

impl PreparedMending<'_> {
    /// Moves routes off the fullest channel as long as it carries more than [`Mending::enough`], and some entry of
    /// another destination fits both graphs. Paths stay as long as they are. At most as many destinations move as have
    /// lost a path, each once.
    ///
    /// Cost: O(S (H + d)) with S switches of d channels and paths of H for each destination that is looked at, and at
    /// most as many are looked at as there are LIDs.
    ///
    /// [`Mending::enough`]: super::Mending::enough
    pub(super) fn relieve(&self, graphs: &mut [Graph<'_>; 2], lft: &mut Lft, load: &mut [u64]) {
        let mending = self.mending;
        // What may move has its earlier entries still.
        let mut stays = vec![false; lft.lids()];
        self.lost.iter().for_each(|lid| stays[lid.index()] = true);
        let (mut looks, mut left) = (mending.lids.len(), self.lost.len());
        loop {
            let fullest = (0..load.len()).rev().max_by_key(|&channel| load[channel]).map(ChannelId::at);
            let Some(fullest) = fullest.filter(|c| load[c.index()] > mending.enough) else { return };
            let from = mending.fabric.channels().get(fullest).from;
            let is_behind = |lid: &Lid| !stays[lid.index()] && mending.next(from, *lid) == Some(fullest);
            let behind: Vec<Lid> = mending.lids.iter().copied().filter(is_behind).collect();
            let Some(fewer) = looks.checked_sub(behind.len()) else { return };
            looks = fewer;
            let mut moves: Vec<(u64, Move)> =
                behind.into_iter().flat_map(|lid| self.moves(fullest, lid, load)).collect();
            moves.sort_by_key(|(most, m)| (*most, Reverse(m.routes), m.lid, m.at));
            let before = load[fullest.index()];
            for (_, m) in moves {
                if left == 0 || load[fullest.index()] <= mending.enough {
                    break;
                }
                let is_less = |c: ChannelId| load[c.index()] + self.carried(&m, c) < load[fullest.index()];
                let lowers = !stays[m.lid.index()] && mending.path(Some(m.to), m.lid).all(is_less);
                if lowers && self.fits(&m, graphs) {
                    self.apply(&m, lft, load);
                    stays[m.lid.index()] = true;
                    left -= 1;
                }
            }
            if load[fullest.index()] == before {
                return;
            }
        }
    }

    /// The entries that take routes to a destination off a channel, each with the largest load on the new path before
    /// that.
    fn moves(&self, fullest: ChannelId, lid: Lid, load: &[u64]) -> Vec<(u64, Move)> {
        let mending = self.mending;
        let (fabric, channels) = (mending.fabric, mending.fabric.channels());
        let owner = fabric.owner_of(lid).map(|owner| fabric.endport(owner)).filter(|end| end.is_adapter());
        let Some((owner, target)) = owner.zip(mending.target(lid)) else { return Vec::new() };
        let (routes, times) = self.demand.to(owner);
        let old = mending.all_next(lid);
        let mut hops = Lengths::new(mending, target, &old, &[]);
        // By switch: whether its path has the fullest channel, and the routes that pass the switch on their way there.
        let (mut is_over, mut through) = (vec![false; old.len()], vec![0; old.len()]);
        for s in fabric.switch_ids().filter(|s| mending.present[s.index()]) {
            let path = || mending.path(mending.next(s, lid), lid);
            let Some(before) = path().position(|c| c == fullest) else { continue };
            is_over[s.index()] = true;
            let on_the_way = path().take(before + 1).map(|c| channels.get(c).from.index());
            on_the_way.for_each(|at| through[at] += routes[s.index()] * times);
        }
        let mut best = |at: SwitchId| {
            let others = channels.out(at).filter(|(id, c)| {
                let mut is_as_long = || hops.of(c.to).map(|hops| hops + 1) == hops.of(at);
                mending.alive[id.index()] && !is_over[c.to.index()] && is_as_long()
            });
            let most = |to| mending.path(Some(to), lid).map(|c| load[c.index()]).max().unwrap_or(0);
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
    fn fits(&self, m: &Move, graphs: &mut [Graph<'_>; 2]) -> bool {
        let old = self.mending.all_next(m.lid);
        for graph in graphs.iter_mut() {
            graph.begin(&old, &[]);
        }
        let [ends, rest] = graphs;
        let fits = ends.add(m.at, m.to, &[]) && rest.add(m.at, m.to, &ends.all.vls_after);
        if !fits {
            ends.back_to(0);
            rest.back_to(0);
        }
        fits
    }

    fn apply(&self, m: &Move, lft: &mut Lft, load: &mut [u64]) {
        let mending = self.mending;
        for c in mending.path(mending.next(m.at, m.lid), m.lid) {
            load[c.index()] -= self.carried(m, c);
        }
        for c in mending.path(Some(m.to), m.lid) {
            load[c.index()] += self.carried(m, c);
        }
        lft.set(m.at, m.lid, mending.fabric.channels().get(m.to).out_port);
    }
}
