//! A spanning tree whose paths a rank can always be made to allow.

use petgraph::unionfind::UnionFind;

use super::rank::{Rank, distances};
use crate::fabric::{Channel, ChannelId, Fabric, SwitchId};

/// A spanning tree of the switches, as the channel from each switch to its parent.
///
/// The path along a tree is unique, so the paths of different switches to one destination never contradict
/// each other. Switches without another legal path take the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    root: SwitchId,
    /// By switch: the channel to the parent; the root's own entry means nothing.
    up: Vec<ChannelId>,
    /// By switch: channels to the root.
    depth: Vec<u32>,
}

impl Tree {
    /// Shortest paths to a root; of several channels the one with the lowest rank.
    ///
    /// `fabric`: connected.
    ///
    /// Cost: O(S + C).
    pub fn new(fabric: &Fabric, rank: &Rank, root: SwitchId) -> Self {
        let depth = distances(fabric, [root.index()]);
        let nearer = |s: SwitchId| {
            let out = fabric.channels().out(s).filter(|(_, c)| depth[c.to.index()] < depth[s.index()]);
            out.map(|(id, _)| id).min_by_key(|&id| rank.of(id))
        };
        let up = fabric.switch_ids().map(|s| nearer(s).unwrap_or(ChannelId(0))).collect();
        Self { root, up, depth }
    }

    /// The shortest paths to the first switch of an order, of those that only lead to earlier switches; of several channels
    /// the one to the earliest. Their tree ascends in [`Rank::up_down`] of that order.
    ///
    /// - `position`: by switch, its place in the order. Each but the first has an earlier neighbour.
    ///
    /// Cost: O(S log S + C).
    pub fn up_down(fabric: &Fabric, position: &[u32]) -> Self {
        let mut order: Vec<SwitchId> = fabric.switch_ids().collect();
        order.sort_by_key(|s| position[s.index()]);
        let (mut up, mut depth) = (vec![ChannelId(0); order.len()], vec![0; order.len()]);
        for &s in order.iter().skip(1) {
            let earlier =
                fabric.channels().out(s).filter(|(_, c)| position[c.to.index()] < position[s.index()]);
            let key = |(id, c): (ChannelId, &Channel)| (depth[c.to.index()], position[c.to.index()], id);
            let (hops, _, id) = earlier.map(key).min().expect("it has an earlier neighbour");
            (up[s.index()], depth[s.index()]) = (id, hops + 1);
        }
        Self { root: order.first().copied().unwrap_or(SwitchId(0)), up, depth }
    }

    /// The tree of some parents.
    ///
    /// - `order`: the switches, each after its parent; the root first.
    /// - `up`: by switch, the channel to the parent; that of the root means nothing.
    ///
    /// Cost: O(S).
    pub(super) fn from_parents(fabric: &Fabric, order: &[SwitchId], up: Vec<ChannelId>) -> Self {
        let mut depth = vec![0; up.len()];
        for &s in order.iter().skip(1) {
            let parent = fabric.channels().get(up[s.index()]).to;
            depth[s.index()] = depth[parent.index()] + 1;
        }
        Self { root: order.first().copied().unwrap_or(SwitchId(0)), up, depth }
    }

    /// The links whose channels have the lowest ranks, as far as they close no cycle, with a given root.
    ///
    /// `fabric`: connected.
    ///
    /// Cost: O(C log C).
    pub fn lowest(fabric: &Fabric, rank: &Rank, root: SwitchId) -> Self {
        let n = fabric.num_switches();
        let mut joined = UnionFind::new(n);
        let mut down: Vec<Vec<ChannelId>> = vec![Vec::new(); n];
        for id in rank.order() {
            let c = fabric.channels().get(id);
            if joined.union(c.from.index(), c.to.index()) {
                down[c.from.index()].push(id);
                down[c.to.index()].push(c.reverse);
            }
        }
        let (mut up, mut depth) = (vec![ChannelId(0); n], vec![u32::MAX; n]);
        depth[root.index()] = 0;
        let mut queue = vec![root];
        while let Some(s) = queue.pop() {
            for &id in &down[s.index()] {
                let c = fabric.channels().get(id);
                if depth[c.to.index()] == u32::MAX {
                    depth[c.to.index()] = depth[s.index()] + 1;
                    up[c.to.index()] = c.reverse;
                    queue.push(c.to);
                }
            }
        }
        Self { root, up, depth }
    }

    /// The same tree on a fabric with some of the channels; a tree of shortest paths from the same root, or from the
    /// first switch, where it has lost a channel.
    ///
    /// - `fabric`: connected.
    /// - `rank`: for a new tree, as in [`Tree::new`].
    /// - `switches`, `channels`: by switch and channel of `fabric`, what they are in this tree.
    ///
    /// Cost: O(S + C).
    #[must_use]
    pub fn onto(&self, fabric: &Fabric, rank: &Rank, switches: &[SwitchId], channels: &[ChannelId]) -> Self {
        let root = switches.iter().position(|&was| was == self.root).map(SwitchId::at);
        let up = |s: SwitchId| {
            let was = self.up[switches[s.index()].index()];
            let same = |(id, _): &(ChannelId, _)| channels[id.index()] == was;
            fabric
                .channels()
                .out(s)
                .find(same)
                .map(|(id, _)| id)
                .or((Some(s) == root).then_some(ChannelId(0)))
        };
        let kept: Option<Vec<ChannelId>> = fabric.switch_ids().map(up).collect();
        match (root, kept) {
            (Some(root), Some(up)) => {
                let depth = switches.iter().map(|was| self.depth[was.index()]).collect();
                Self { root, up, depth }
            }
            _ => Self::new(fabric, rank, root.unwrap_or(SwitchId(0))),
        }
    }

    /// The next channel of the path along the tree.
    ///
    /// Cost: O(depth).
    pub fn next(&self, fabric: &Fabric, from: SwitchId, to: SwitchId) -> Option<ChannelId> {
        if from == to {
            return None;
        }
        let mut at = to;
        while self.depth[at.index()] > self.depth[from.index()] {
            let up = fabric.channels().get(self.up[at.index()]);
            if up.to == from {
                return Some(up.reverse);
            }
            at = up.to;
        }
        Some(self.up[from.index()])
    }

    /// The channels away from the root, each after the one that leads to its switch.
    ///
    /// Cost: O(S log S).
    pub fn channels_down(&self, fabric: &Fabric) -> Vec<ChannelId> {
        let mut switches: Vec<SwitchId> = fabric.switch_ids().filter(|&s| s != self.root).collect();
        switches.sort_by_key(|s| self.depth[s.index()]);
        switches.into_iter().map(|s| fabric.channels().get(self.up[s.index()]).reverse).collect()
    }

    /// Whether a channel is in the tree, up or down.
    pub fn contains(&self, fabric: &Fabric, channel: ChannelId) -> bool {
        let c = fabric.channels().get(channel);
        let up = |from: SwitchId, id| from != self.root && self.up[from.index()] == id;
        up(c.from, channel) || up(c.to, c.reverse)
    }

    /// The rank with the tree's channels outermost: those to parents before all others, the deepest first,
    /// and those to children after all others, the deepest last. Every path along the tree ascends in it.
    ///
    /// Returns `rank` unchanged where these paths ascend already.
    pub fn with_tree_outermost(&self, fabric: &Fabric, rank: &Rank) -> Rank {
        if self.ascends(fabric, rank) {
            return rank.clone();
        }
        let is_up = |c: ChannelId| {
            let from = fabric.channels().get(c).from;
            from != self.root && self.up[from.index()] == c
        };
        Rank::by_key(fabric, |id, c| match (is_up(id), is_up(c.reverse)) {
            (true, _) => (0, u32::MAX - self.depth[c.from.index()], 0),
            (_, true) => (2, self.depth[c.to.index()], 0),
            _ => (1, 0, rank.of(id)),
        })
    }

    /// Whether every path along the tree ascends.
    pub fn ascends(&self, fabric: &Fabric, rank: &Rank) -> bool {
        // At each switch: all ups from children before the up to its parent and before all downs to
        // children, and the down from its parent before all downs to children.
        let n = fabric.num_switches();
        let (mut last_up, mut first_down) = (vec![None; n], vec![u32::MAX; n]);
        let ups = || fabric.switch_ids().filter(|&s| s != self.root).map(|s| self.up[s.index()]);
        for up in ups() {
            let c = fabric.channels().get(up);
            let parent = c.to.index();
            last_up[parent] = last_up[parent].max(Some(rank.of(up)));
            first_down[parent] = first_down[parent].min(rank.of(c.reverse));
        }
        let inner = (0..n).all(|s| last_up[s] < Some(first_down[s]));
        inner
            && ups().all(|up| {
                let c = fabric.channels().get(up);
                let child = c.from.index();
                last_up[child] < Some(rank.of(up)) && rank.of(c.reverse) < first_down[child]
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::small_members;

    /// All paths along a tree, as channels.
    fn path(f: &Fabric, tree: &Tree, from: SwitchId, to: SwitchId) -> Vec<ChannelId> {
        let mut path = Vec::new();
        let mut at = from;
        while let Some(c) = tree.next(f, at, to) {
            path.push(c);
            at = f.channels().get(c).to;
            assert!(path.len() < f.num_switches());
        }
        assert_eq!(at, to);
        path
    }

    #[test]
    fn every_path_along_a_tree_ascends_with_the_tree_outermost() {
        for (name, f) in small_members() {
            let rank = Rank::by_key(&f, |id, _| id.0.wrapping_mul(2_654_435_761));
            let root = SwitchId::at(f.num_switches() / 2);
            let tree = Tree::new(&f, &rank, root);
            let own = tree.with_tree_outermost(&f, &rank);
            assert!(tree.ascends(&f, &own), "{name}");
            for from in f.switch_ids() {
                for to in f.switch_ids() {
                    let path = path(&f, &tree, from, to);
                    assert!(path.is_sorted_by_key(|&c| own.of(c)), "{name}");
                    assert!(path.iter().all(|&c| tree.contains(&f, c)), "{name}");
                }
            }
            let mut met = vec![false; f.num_switches()];
            met[root.index()] = true;
            for c in tree.channels_down(&f).into_iter().map(|c| f.channels().get(c)) {
                assert!(met[c.from.index()] && !std::mem::replace(&mut met[c.to.index()], true), "{name}");
            }
            assert!(met.into_iter().all(|met| met), "{name}");
            let others: Vec<_> = rank.order().into_iter().filter(|&c| !tree.contains(&f, c)).collect();
            assert!(others.is_sorted_by_key(|&c| own.of(c)), "{name}: the others keep their order");
            assert_eq!(own.order().len(), others.len() + 2 * (f.num_switches() - 1), "{name}");
        }
    }
}
