//! Paths to destinations that have lost nothing, moved off the fullest channels.

use std::cmp::Reverse;

use super::PreparedMending;
use super::graph::Graph;
use crate::fabric::{ChannelId, Lid, PortNum, SwitchId};
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
    /// lost a path.
    ///
    /// Cost: O(S d) with S switches of d channels for each destination that is looked at, and as many are looked at
    /// as there are LIDs.
    ///
    /// [`Mending::enough`]: super::Mending::enough
    pub(super) fn relieve(&self, graphs: &mut [Graph<'_>; 2], lft: &mut Lft, load: &mut [u64]) {
        let mut stays = vec![true; lft.lids()];
        self.mending.lids.iter().for_each(|lid| stays[lid.index()] = false);
        self.lost.iter().for_each(|lid| stays[lid.index()] = true);
        let (mut looks, mut left) = (self.mending.lids.len(), self.lost.len());
        loop {
            let fullest = (0..load.len()).rev().max_by_key(|&channel| load[channel]).map(ChannelId::at);
            let Some(fullest) = fullest.filter(|c| load[c.index()] > self.mending.enough) else { return };
            let c = self.mending.fabric.channels().get(fullest);
            let is_behind = |lid: &Lid| !stays[lid.index()] && lft.to(*lid)[c.from.index()] == c.out_port.0;
            let behind: Vec<Lid> = self.mending.lids.iter().copied().filter(is_behind).collect();
            let Some(fewer) = looks.checked_sub(behind.len()) else { return };
            looks = fewer;
            let mut moves: Vec<(u64, Move)> =
                behind.iter().flat_map(|&lid| self.moves(fullest, lid, lft, load)).collect();
            moves.sort_by_key(|(most, m)| (*most, Reverse(m.routes), m.lid, m.at));
            let before = load[fullest.index()];
            for (_, m) in moves {
                if left == 0 || load[fullest.index()] <= self.mending.enough {
                    break;
                }
                let is_less = |c: ChannelId| load[c.index()] + self.carried(&m, c) < load[fullest.index()];
                let lowers = !stays[m.lid.index()] && self.path(m.to, m.lid, lft).all(is_less);
                if lowers && self.fits(&m, lft, graphs) {
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
    fn moves(&self, fullest: ChannelId, lid: Lid, lft: &Lft, load: &[u64]) -> Vec<(u64, Move)> {
        let (fabric, channels) = (self.mending.fabric, self.mending.fabric.channels());
        let owner = fabric.owner_of(lid).map(|owner| fabric.endport(owner)).filter(|end| end.is_adapter());
        let Some(owner) = owner else { return Vec::new() };
        let (routes, times) = self.demand.to(owner);
        let way = |s: SwitchId| Way {
            is_over: self.mending.present[s.index()] && self.path_from(s, lid, lft).any(|c| c == fullest),
            hops: self.path_from(s, lid, lft).count(),
        };
        let ways: Vec<Way> = fabric.switch_ids().map(way).collect();
        let mut through = vec![0; ways.len()];
        for s in fabric.switch_ids().filter(|s| ways[s.index()].is_over) {
            let mut at = s;
            while ways[at.index()].is_over {
                through[at.index()] += routes[s.index()] * times;
                let Some(channel) = self.next(at, lid, lft) else { break };
                at = channels.get(channel).to;
            }
        }
        let mut moves = Vec::new();
        for at in fabric.switch_ids().filter(|s| ways[s.index()].is_over && through[s.index()] > 0) {
            let length = ways[at.index()].hops;
            let others = channels.out(at).filter(|(id, c)| {
                let after = &ways[c.to.index()];
                self.mending.alive[id.index()] && !after.is_over && after.hops + 1 == length
            });
            let most = |to| self.path(to, lid, lft).map(|c| load[c.index()]).max().unwrap_or(0);
            let best = others.map(|(to, _)| (most(to), to)).min();
            moves.extend(best.map(|(most, to)| (most, Move { lid, at, to, routes: through[at.index()] })));
        }
        moves
    }

    fn next(&self, s: SwitchId, lid: Lid, lft: &Lft) -> Option<ChannelId> {
        self.mending.fabric.channels().at_port(s, PortNum(lft.to(lid)[s.index()]))
    }

    /// The channels of the path to a destination that begins with a channel.
    fn path<'a>(&'a self, first: ChannelId, lid: Lid, lft: &'a Lft) -> impl Iterator<Item = ChannelId> + 'a {
        let channels = self.mending.fabric.channels();
        std::iter::successors(Some(first), move |&c| self.next(channels.get(c).to, lid, lft))
    }

    fn path_from<'a>(&'a self, s: SwitchId, lid: Lid, lft: &'a Lft) -> impl Iterator<Item = ChannelId> + 'a {
        self.next(s, lid, lft).into_iter().flat_map(move |first| self.path(first, lid, lft))
    }

    /// What the routes of a move add to the load of a channel.
    fn carried(&self, m: &Move, channel: ChannelId) -> u64 {
        m.routes * u64::from(self.mending.fabric.weights().by_channel()[channel.index()])
    }

    /// Whether both graphs stay free of cycles with a new entry. If so, they have it.
    fn fits(&self, m: &Move, lft: &Lft, graphs: &mut [Graph<'_>; 2]) -> bool {
        let old: Vec<_> = self.mending.fabric.switch_ids().map(|s| self.next(s, m.lid, lft)).collect();
        for graph in graphs.iter_mut() {
            graph.begin();
            graph.lay(&old, |_| true);
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
        for c in self.path_from(m.at, m.lid, lft) {
            load[c.index()] -= self.carried(m, c);
        }
        for c in self.path(m.to, m.lid, lft) {
            load[c.index()] += self.carried(m, c);
        }
        lft.set(m.at, m.lid, self.mending.fabric.channels().get(m.to).out_port);
    }
}

/// The path of a switch to a destination.
struct Way {
    hops: usize,
    /// Whether it has the fullest channel, and the switch is there.
    is_over: bool,
}
