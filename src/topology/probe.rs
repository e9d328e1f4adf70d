//! Measurements for the tests of the generators, by plain breadth-first search.

use std::collections::BTreeSet;

use crate::fabric::{Fabric, SwitchId};

/// Numbers of switches and adapters.
pub(super) fn shape(fabric: &Fabric) -> (usize, usize) {
    (fabric.num_switches(), fabric.adapters().count())
}

/// The set of degrees: numbers of links to other switches.
pub(super) fn degrees(fabric: &Fabric) -> BTreeSet<usize> {
    fabric.switch_ids().map(|s| fabric.channels().out(s).len()).collect()
}

/// Hops to every switch and the number of shortest paths; `None` if unreachable.
pub(super) fn paths(fabric: &Fabric, from: SwitchId) -> Vec<Option<(u32, u64)>> {
    let mut found = vec![None; fabric.num_switches()];
    found[from.index()] = Some((0, 1));
    let mut queue = std::collections::VecDeque::from([from]);
    while let Some(s) = queue.pop_front() {
        let Some((hops, count)) = found[s.index()] else { continue };
        for (_, c) in fabric.channels().out(s) {
            match &mut found[c.to.index()] {
                Some((h, w)) if *h == hops + 1 => *w += count,
                Some(_) => {}
                unseen => {
                    *unseen = Some((hops + 1, count));
                    queue.push_back(c.to);
                }
            }
        }
    }
    found
}

/// The largest distance in hops between two switches; `None` if the fabric is not connected.
pub(super) fn diameter(fabric: &Fabric) -> Option<u32> {
    let mut most = 0;
    for s in fabric.switch_ids() {
        for path in paths(fabric, s) {
            most = most.max(path?.0);
        }
    }
    Some(most)
}

/// Whether there are no parallel cables.
pub(super) fn is_simple(fabric: &Fabric) -> bool {
    let ends: BTreeSet<_> = fabric.channels().iter().map(|(_, c)| (c.from, c.to)).collect();
    ends.len() == fabric.channels().len()
}

/// Length of the shortest cycle of cables; `None` for a tree.
pub(super) fn girth(fabric: &Fabric) -> Option<u32> {
    let cycle_through = |start: SwitchId| {
        let mut seen = vec![None; fabric.num_switches()];
        seen[start.index()] = Some((0, None));
        let mut queue = std::collections::VecDeque::from([start]);
        let mut best = None;
        while let Some(s) = queue.pop_front() {
            let (hops, by) = seen[s.index()].unwrap_or((0, None));
            for (id, c) in fabric.channels().out(s) {
                match seen[c.to.index()] {
                    _ if Some(c.reverse) == by => {}
                    Some((h, _)) => best = best.into_iter().chain([hops + h + 1]).min(),
                    None => {
                        seen[c.to.index()] = Some((hops + 1, Some(id)));
                        queue.push_back(c.to);
                    }
                }
            }
        }
        best
    };
    fabric.switch_ids().filter_map(cycle_through).min()
}

/// Whether two fabrics agree in every node, port, cable and LID.
pub(super) fn same(a: &Fabric, b: &Fabric) -> bool {
    a.nodes() == b.nodes()
}
