//! Links and switches that something depends on: without one of them the rest falls apart.

use crate::fabric::{ChannelId, Fabric, SwitchId};

/// A part whose loss separates others, and how many adapter ports lose the larger part of the fabric. Adapters on a
/// switch that fails are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Weak {
    pub(super) links: Vec<(ChannelId, usize)>,
    pub(super) switches: Vec<(SwitchId, usize)>,
}

/// Finds them by depth-first search (Tarjan's low links).
///
/// Cost: O(S + C).
pub(super) fn weak(fabric: &Fabric) -> Weak {
    let n = fabric.num_switches();
    let mut search =
        Search { fabric, seen: vec![usize::MAX; n], low: vec![0; n], hosts: vec![0; n], time: 0 };
    let mut weak = Weak::default();
    for root in fabric.switch_ids() {
        if search.seen[root.index()] == usize::MAX {
            search.from(root, &mut weak);
        }
    }
    weak.links.sort_unstable();
    weak.switches.sort_unstable();
    weak
}

struct Search<'a> {
    fabric: &'a Fabric,
    /// When each switch was found.
    seen: Vec<usize>,
    /// The earliest switch that its subtree has a link to.
    low: Vec<usize>,
    /// Adapters in its subtree.
    hosts: Vec<usize>,
    time: usize,
}

impl Search<'_> {
    fn enter(&mut self, s: SwitchId) {
        (self.seen[s.index()], self.low[s.index()]) = (self.time, self.time);
        self.hosts[s.index()] = self.fabric.num_adapters_on(s);
        self.time += 1;
    }

    fn from(&mut self, root: SwitchId, weak: &mut Weak) {
        let channels = self.fabric.channels();
        self.enter(root);
        // Switch, the channel by which it was found, its next channel; then subtrees that only it connects.
        let mut stack = vec![(root, None::<ChannelId>, channels.out_range(root), Vec::new())];
        let (mut bridges, mut cuts) = (Vec::new(), Vec::new());
        while let Some((s, by, rest, parts)) = stack.last_mut() {
            let (s, by) = (*s, *by);
            if let Some(next) = rest.next() {
                let c = channels.get(ChannelId::at(next));
                if Some(c.reverse) == by {
                    continue;
                }
                if self.seen[c.to.index()] == usize::MAX {
                    self.enter(c.to);
                    stack.push((c.to, Some(ChannelId::at(next)), channels.out_range(c.to), Vec::new()));
                } else {
                    self.low[s.index()] = self.low[s.index()].min(self.seen[c.to.index()]);
                }
                continue;
            }
            let parts = std::mem::take(parts);
            stack.pop();
            if let Some((parent, .., list)) = stack.last_mut() {
                let p = parent.index();
                self.low[p] = self.low[p].min(self.low[s.index()]);
                self.hosts[p] += self.hosts[s.index()];
                if self.low[s.index()] >= self.seen[p] {
                    list.push(self.hosts[s.index()]);
                }
                if self.low[s.index()] > self.seen[p] {
                    bridges.extend(by.map(|by| (by.min(channels.get(by).reverse), self.hosts[s.index()])));
                }
            }
            cuts.push((s, parts));
        }
        let total = self.hosts[root.index()];
        weak.links.extend(bridges.into_iter().map(|(link, below)| (link, below.min(total - below))));
        for (s, parts) in cuts {
            let above = total - self.fabric.num_adapters_on(s) - parts.iter().sum::<usize>();
            let separate = parts.len() + usize::from(s != root);
            if separate > 1 {
                let largest = parts.iter().copied().chain([above]).max().unwrap_or(0);
                let cut = parts.iter().sum::<usize>() + above - largest;
                weak.switches.push((s, cut));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{FabricBuilder, Lmc, PortRef};
    use crate::topology::{Mesh, Ring, small_members};

    /// Number of adapter ports outside of the largest part without a switch or without a link.
    fn apart(fabric: &Fabric, without: Option<SwitchId>, link: Option<ChannelId>) -> usize {
        let mut parts = petgraph::unionfind::UnionFind::<usize>::new(fabric.num_switches());
        for (id, c) in fabric.channels().iter() {
            let gone = Some(c.from) == without || Some(c.to) == without || Some(id.min(c.reverse)) == link;
            if !gone {
                parts.union(c.from.index(), c.to.index());
            }
        }
        let mut sizes = vec![0; fabric.num_switches()];
        for s in fabric.switch_ids().filter(|s| Some(*s) != without) {
            sizes[parts.find(s.index())] += fabric.num_adapters_on(s);
        }
        sizes.iter().sum::<usize>() - sizes.iter().max().unwrap()
    }

    #[test]
    fn they_are_what_trying_all_says() {
        let line = Mesh { dims: vec![5], cas: 2 }.build().unwrap();
        let open = |fabric: &Fabric| {
            let (_, c) = fabric.channels().iter().next().unwrap();
            let mut builder = FabricBuilder::from_fabric(fabric);
            builder.disconnect(PortRef { node: fabric.switch_node_id(c.from), port: c.out_port });
            builder.finish(Lmc::default()).unwrap()
        };
        let mut all: Vec<Fabric> = small_members().into_iter().map(|(_, fabric)| fabric).collect();
        all.extend([line, open(&Ring { switches: 6, cas: 1 }.build().unwrap())]);
        let mut found = 0;
        for fabric in all {
            let weak = weak(&fabric);
            for s in fabric.switch_ids() {
                let cut = weak.switches.iter().find(|(w, _)| *w == s).map_or(0, |(_, cut)| *cut);
                assert_eq!(cut, apart(&fabric, Some(s), None), "{fabric}: {}", fabric.describe_switch(s));
            }
            for (id, _) in fabric.channels().iter().filter(|(id, c)| *id < c.reverse) {
                let cut = weak.links.iter().find(|(w, _)| *w == id).map_or(0, |(_, cut)| *cut);
                assert_eq!(cut, apart(&fabric, None, Some(id)), "{fabric}: {}", fabric.describe_channel(id));
            }
            found += weak.links.len() + weak.switches.len();
        }
        assert!(found >= 4 + 3 + 5 + 4, "{found}");
    }
}
