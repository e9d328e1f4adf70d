//! Groups of switches, found by structure: for an order of the switches, and for a matrix of groups.

use petgraph::unionfind::UnionFind;
use serde::Serialize;

use crate::fabric::{Fabric, SwitchId};

/// A partition of the switches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Groups {
    /// How they were found, in words.
    pub by: &'static str,
    /// Whether the structure of the fabric gave them, not GUIDs alone.
    pub by_structure: bool,
    /// The group of each switch, by switch; groups are numbered by their first switch.
    #[serde(skip)]
    pub of: Vec<usize>,
    /// Number of switches of each group.
    pub sizes: Vec<usize>,
}

/// More groups than this are no help to the eye.
const MOST: usize = 300;

impl Groups {
    /// The groups of a Dragonfly (switches with many neighbours in common), else the pods of a tree (what stays connected
    /// without its top), else switches with adjacent GUIDs.
    ///
    /// Cost: O(C d) for C channels between switches of d ports.
    pub fn find(fabric: &Fabric) -> Self {
        let found = [
            (
                triangles(fabric),
                "links whose ends have many neighbours in common, as inside the groups of a Dragonfly",
            ),
            (pods(fabric), "what stays connected without the switches that are farthest from adapters"),
        ];
        let useful = |groups: &Self| {
            let n = groups.sizes.len();
            let largest = groups.sizes.iter().copied().max().unwrap_or(0);
            (2..=MOST).contains(&n) && 2 * largest <= fabric.num_switches() && 2 * n <= fabric.num_switches()
        };
        let all = found.into_iter().map(|(labels, by)| Self::new(&labels, by));
        all.into_iter().find(useful).unwrap_or_else(|| {
            let each = fabric.num_switches().div_ceil(100).max(1);
            let labels: Vec<usize> = (0..fabric.num_switches()).map(|s| s / each).collect();
            let by = "GUIDs that follow each other, as no structure was found";
            Self { by_structure: false, ..Self::new(&labels, by) }
        })
    }

    /// `labels`: equal within a group.
    fn new(labels: &[usize], by: &'static str) -> Self {
        let mut number = vec![usize::MAX; labels.iter().max().map_or(0, |most| most + 1)];
        let mut sizes = Vec::new();
        let mut of = Vec::with_capacity(labels.len());
        for &label in labels {
            if number[label] == usize::MAX {
                number[label] = sizes.len();
                sizes.push(0);
            }
            sizes[number[label]] += 1;
            of.push(number[label]);
        }
        Self { by, by_structure: true, of, sizes }
    }

    /// The switches, group after group.
    pub fn order(&self) -> Vec<SwitchId> {
        let mut order: Vec<SwitchId> = (0..self.of.len()).map(SwitchId::at).collect();
        order.sort_by_key(|s| (self.of[s.index()], *s));
        order
    }
}

/// Connected by links whose ends have many common neighbours: more than half of the most. A triangle of three groups
/// of a Dragonfly gives the ends of its links only one.
fn triangles(fabric: &Fabric) -> Vec<usize> {
    let mut near = vec![usize::MAX; fabric.num_switches()];
    let mut links = Vec::new();
    for s in fabric.switch_ids() {
        fabric.channels().out(s).for_each(|(_, c)| near[c.to.index()] = s.index());
        for (_, c) in fabric.channels().out(s).filter(|(_, c)| c.to > s) {
            let common = fabric.channels().out(c.to).filter(|(_, d)| near[d.to.index()] == s.index()).count();
            links.push((common, s.index(), c.to.index()));
        }
    }
    let most = links.iter().map(|link| link.0).max().unwrap_or(0);
    let mut sets = UnionFind::<usize>::new(fabric.num_switches());
    links.iter().filter(|link| 2 * link.0 > most).for_each(|&(_, a, b)| {
        sets.union(a, b);
    });
    sets.into_labeling()
}

/// Connected without the switches of the highest level: the most hops from the next switch with hosts. On some fabrics
/// each switch has an adapter of its own for aggregation; so switches with few adapters have none here.
fn pods(fabric: &Fabric) -> Vec<usize> {
    let most = fabric.switch_ids().map(|s| fabric.num_adapters_on(s)).max().unwrap_or(0);
    let mut level = vec![usize::MAX; fabric.num_switches()];
    let mut front: Vec<SwitchId> =
        fabric.switch_ids().filter(|&s| 4 * fabric.num_adapters_on(s) > most).collect();
    let mut depth = 0;
    while !front.is_empty() {
        front.iter().for_each(|s| level[s.index()] = depth);
        depth += 1;
        let next = front.iter().flat_map(|&s| fabric.channels().out(s)).map(|(_, c)| c.to);
        let mut next: Vec<SwitchId> = next.filter(|t| level[t.index()] == usize::MAX).collect();
        next.sort_unstable();
        next.dedup();
        front = next;
    }
    let mut sets = UnionFind::<usize>::new(fabric.num_switches());
    let top = depth.saturating_sub(1);
    for (_, c) in fabric.channels().iter() {
        if top > 0 && level[c.from.index()] < top && level[c.to.index()] < top {
            sets.union(c.from.index(), c.to.index());
        }
    }
    // The top is a group of its own.
    let mut labels = sets.into_labeling();
    let tops: Vec<usize> = (0..labels.len()).filter(|&s| top > 0 && level[s] >= top).collect();
    for &s in &tops {
        labels[s] = tops[0];
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Dragonfly, FatTree, Ring};

    #[test]
    fn structure_shows() {
        let fabric = Dragonfly::balanced(3).build().unwrap();
        let groups = Groups::find(&fabric);
        assert_eq!(groups.sizes, [6; 19]);
        assert!(groups.of.chunks(6).enumerate().all(|(i, group)| group.iter().all(|&g| g == i)));
        let fabric = FatTree { k: 8, levels: 3, down: None, cas: None }.build().unwrap();
        let mut sizes = Groups::find(&fabric).sizes;
        sizes.sort_unstable();
        assert_eq!(sizes, [8, 8, 8, 8, 8, 8, 8, 8, 16], "eight pods and the top");
        let ring = Ring { switches: 250, cas: 1 }.build().unwrap();
        let groups = Groups::find(&ring);
        assert_eq!((groups.sizes.len(), groups.order().len()), (84, 250));
    }
}
