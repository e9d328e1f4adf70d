//! Multicast trees that have lost links.

use std::collections::VecDeque;

use petgraph::unionfind::UnionFind;

use super::PreparedMending;
use super::graph::Graph;
use crate::fabric::{ChannelId, SwitchId};
use crate::tables::{McastGroup, PortSet};

/// Parts of a tree.
struct Parts<'a> {
    prepared: &'a PreparedMending<'a>,
    /// The classes of SLs of its packets.
    classes: Vec<usize>,
    /// By switch: the channels that lead out of it.
    out: Vec<Vec<ChannelId>>,
    /// The switches of a part.
    together: UnionFind<usize>,
    /// By channel of a part and class: the VLs of its packets.
    vls: Vec<u16>,
}

impl PreparedMending<'_> {
    /// The trees, with other links where they have lost some. Parts of a tree are joined by links that close no cycle in
    /// `ends`, those first that leave it the shallowest. `None` where some tree could not be joined again.
    ///
    /// - `stay`: whether the trees are in `ends`; else their own links are tried first.
    ///
    /// Cost: O(C log C) with C channels for each tree that has lost a link; O(C), and the cost of
    /// [`TopologicalOrder::admit`](crate::ordering::TopologicalOrder::admit) for each turn, for each link that is tried.
    pub(super) fn joined_trees(&self, graphs: &mut [Graph<'_>; 2], stay: bool) -> Option<Vec<McastGroup>> {
        self.mending.trees.iter().map(|tree| self.joined(tree, graphs, stay)).collect()
    }

    fn joined(
        &self,
        tree: &McastGroup,
        [ends, rest]: &mut [Graph<'_>; 2],
        stays: bool,
    ) -> Option<McastGroup> {
        let mending = self.mending;
        let channels = mending.fabric.channels();
        let out = |s: SwitchId| tree.at(s).iter().filter_map(move |port| channels.at_port(s, port));
        let is_alive = |c: &ChannelId| mending.alive[c.index()];
        let mut own: Vec<ChannelId> = mending.fabric.switch_ids().flat_map(out).collect();
        if stays && own.iter().all(is_alive) {
            return Some(tree.clone());
        }
        own.retain(is_alive);
        let mut parts = Parts::none(self, tree);
        let taken = &rest.all.waiting;
        let once = |id: &ChannelId| channels.get(*id).from < channels.get(*id).to;
        match stays {
            true => parts.begin_with(&own, ends),
            false => own.into_iter().filter(once).for_each(|id| parts.join(id, ends, taken)),
        }
        // The links between parts: with the shortest of the longest ways over each first.
        let far = parts.farthest();
        let all = channels.iter().map(|(id, _)| id).filter(|id| once(id) && is_alive(id));
        let mut links: Vec<(usize, ChannelId)> = all
            .filter(|&id| parts.are_apart(id))
            .map(|id| (parts.ends_of(id).map(|s| far[s]).iter().sum(), id))
            .collect();
        links.sort_unstable();
        links.into_iter().for_each(|(_, id)| parts.join(id, ends, taken));
        let mut present = mending.fabric.switch_ids().filter(|s| mending.present[s.index()]);
        let first = present.next()?;
        if !present.all(|s| parts.together.equiv(first.index(), s.index())) {
            return None;
        }
        let ports = mending.fabric.switch_ids().map(|s| {
            let mut ports = PortSet::default();
            let to_ends = tree.at(s).iter().filter(|&port| channels.at_port(s, port).is_none());
            let to_others = parts.out[s.index()].iter().map(|&c| channels.get(c).out_port);
            to_ends.chain(to_others).for_each(|port| ports.insert(port));
            (s, ports)
        });
        Some(McastGroup { ports: ports.filter(|(_, ports)| !ports.is_empty()).collect(), ..tree.clone() })
    }
}

impl<'a> Parts<'a> {
    /// Each switch is one.
    fn none(prepared: &'a PreparedMending<'a>, tree: &McastGroup) -> Self {
        let (mending, usage) = (prepared.mending, prepared.usage);
        let served = mending.senders.classes().of(tree.sls.unwrap_or(u16::MAX));
        let switches = mending.fabric.num_switches();
        Self {
            prepared,
            classes: (0..usage.turns.classes).filter(|class| served >> class & 1 != 0).collect(),
            out: vec![Vec::new(); switches],
            together: UnionFind::new(switches),
            vls: usage.injected.clone(),
        }
    }

    /// The switches of a link.
    fn ends_of(&self, link: ChannelId) -> [usize; 2] {
        let c = self.prepared.mending.fabric.channels().get(link);
        [c.from.index(), c.to.index()]
    }

    fn are_apart(&self, link: ChannelId) -> bool {
        let [from, to] = self.ends_of(link);
        !self.together.equiv(from, to)
    }

    /// Where the VLs of a class on a channel are.
    fn at(&self, channel: ChannelId, class: usize) -> usize {
        self.prepared.usage.turns.on(channel, class)
    }

    /// The channels by which packets go on from a channel.
    fn after(&self, first: ChannelId) -> Vec<ChannelId> {
        let c = self.prepared.mending.fabric.channels().get(first);
        self.out[c.to.index()].iter().copied().filter(|&second| second != c.reverse).collect()
    }

    /// The channels from which packets go on to a channel.
    fn before(&self, second: ChannelId) -> Vec<ChannelId> {
        let channels = self.prepared.mending.fabric.channels();
        let others = self.out[channels.get(second).from.index()].iter().filter(|&&c| c != second);
        others.map(|&c| channels.get(c).reverse).collect()
    }

    /// Takes over channels whose packets the graph has already.
    fn begin_with(&mut self, own: &[ChannelId], ends: &Graph<'_>) {
        for &c in own {
            let [from, to] = self.ends_of(c);
            self.out[from].push(c);
            self.together.union(from, to);
        }
        for class in self.classes.clone() {
            for &first in own {
                for second in self.after(first) {
                    let at = self.at(second, class);
                    self.vls[at] |= ends.all.vls_after[self.prepared.usage.turns.of(first, second, class)];
                }
            }
        }
    }

    /// By switch: links on the longest way from it within its part.
    fn farthest(&self) -> Vec<usize> {
        let channels = self.prepared.mending.fabric.channels();
        let walk = |from: usize| {
            let (mut met, mut open) = (Vec::new(), VecDeque::from([(from, None, 0)]));
            while let Some((at, back, links)) = open.pop_front() {
                met.push((at, links));
                let on = self.out[at].iter().filter(|&&c| Some(c) != back).map(|&c| channels.get(c));
                open.extend(on.map(|c| (c.to.index(), Some(c.reverse), links + 1)));
            }
            met
        };
        let last = |met: &[(usize, usize)]| met.last().map_or(0, |&(at, _)| at);
        let mut far: Vec<Option<usize>> = vec![None; self.out.len()];
        for s in 0..far.len() {
            if far[s].is_none() {
                // The longest way of a part is from the switch that is the farthest from any, to the farthest from there.
                let from_one = walk(last(&walk(s)));
                let from_other = walk(last(&from_one));
                from_one
                    .into_iter()
                    .chain(from_other)
                    .for_each(|(at, links)| far[at] = far[at].max(Some(links)));
            }
        }
        far.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// Joins two parts by a link, if that closes no cycle.
    ///
    /// - `taken`: by turn of a class, the VLs on which somebody takes it elsewhere.
    fn join(&mut self, link: ChannelId, ends: &mut Graph<'_>, taken: &[u16]) {
        if !self.are_apart(link) {
            return;
        }
        let both = [link, self.prepared.mending.fabric.channels().get(link).reverse];
        let switches = self.ends_of(link);
        switches.into_iter().zip(both).for_each(|(s, c)| self.out[s].push(c));
        let around = both.into_iter().flat_map(|c| {
            let before = self.before(c).into_iter().map(move |first| (first, c));
            before.chain(self.after(c).into_iter().map(move |second| (c, second)))
        });
        let turns = &self.prepared.usage.turns;
        let turns: Vec<usize> = around
            .flat_map(|(first, second)| self.classes.iter().map(move |&class| turns.of(first, second, class)))
            .collect();
        // One VL that nobody uses is as good as any other.
        let vls = self.prepared.mending.most_vls.min(ends.all.vls() + 1);
        for vl in std::iter::once(None).chain((0..vls).map(Some)) {
            let mark = ends.mark();
            if let Some(vl) = vl {
                ends.give(turns.iter().copied(), vl, taken);
                if ends.mark() == mark {
                    continue;
                }
            }
            let before = self.vls.clone();
            if both.into_iter().all(|c| self.send(c, ends)) {
                let [from, to] = switches;
                self.together.union(from, to);
                return;
            }
            self.vls = before;
            ends.back_to(mark);
        }
        for s in switches {
            self.out[s].pop();
        }
    }

    /// Packets are sent over a channel, and on. Returns whether there is no cycle.
    fn send(&mut self, c: ChannelId, ends: &mut Graph<'_>) -> bool {
        let turns = &self.prepared.usage.turns;
        for class in self.classes.clone() {
            let mut vls = self.prepared.usage.injected[self.at(c, class)];
            for first in self.before(c) {
                if !ends.depend((first, c, class), self.vls[self.at(first, class)], 0) {
                    return false;
                }
                vls |= ends.all.vls_after[turns.of(first, c, class)];
            }
            // What is known of the channel is from before it was there.
            let at = self.at(c, class);
            self.vls[at] = 0;
            let mut open = vec![(c, vls)];
            while let Some((first, vls)) = open.pop() {
                let at = self.at(first, class);
                let new = vls & !self.vls[at];
                if new == 0 {
                    continue;
                }
                self.vls[at] |= new;
                for second in self.after(first) {
                    if !ends.depend((first, second, class), new, 0) {
                        return false;
                    }
                    open.push((second, ends.all.vls_after[turns.of(first, second, class)]));
                }
            }
        }
        true
    }
}
