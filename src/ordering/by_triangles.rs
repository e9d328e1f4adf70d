//! Global links before links within groups.

use super::rank::{Rank, distances, positions, up_down_key};
use crate::fabric::{Fabric, SwitchId};

/// Channels in few triangles before those in many, within either class up before down from a root as in
/// [`up_down_rank`](super::up_down_rank()).
///
/// A link is in a triangle with every common neighbour of its ends. In a Dragonfly the links within a group
/// are in many triangles and global links are in none. After its first channel a minimal path takes a global
/// channel and then a local one, or only one of them. So global before local never descends. Many means more
/// than half of the largest number: a group may lose some links, and three global links may form a triangle.
///
/// Cost: O(C d) with C channels and d the largest number of channels of a switch.
pub fn global_links_first(fabric: &Fabric, root: SwitchId) -> Rank {
    let counts = common_neighbours(fabric);
    let most = counts.iter().copied().max().unwrap_or(0);
    let position = positions(distances(fabric, [root.index()]));
    Rank::by_key(fabric, |id, c| {
        let many = 2 * counts[id.index()] > most;
        (many, up_down_key(&position, c))
    })
}

/// By channel: links from its second switch to neighbours of its first.
///
/// Cost: O(C d).
pub(crate) fn common_neighbours(fabric: &Fabric) -> Vec<u32> {
    let channels = fabric.channels();
    let mut neighbour_of = vec![u32::MAX; fabric.num_switches()];
    let mut counts = vec![0_u32; channels.len()];
    for s in fabric.switch_ids() {
        for (_, c) in channels.out(s) {
            neighbour_of[c.to.index()] = s.0;
        }
        for (id, c) in channels.out(s) {
            counts[id.index()] =
                channels.out(c.to).filter(|(_, d)| neighbour_of[d.to.index()] == s.0).count() as u32;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Dragonfly, fail_links};

    #[test]
    fn global_links_of_a_dragonfly_come_first() {
        let whole = Dragonfly::balanced(4).build().unwrap();
        for f in [fail_links(&whole, 10, 1).unwrap(), whole] {
            let group = |s: SwitchId| f.switch(s).description.rsplit_once('-').unwrap().0.to_owned();
            let order = global_links_first(&f, SwitchId(0)).order();
            let local = order.iter().map(|&c| {
                let c = f.channels().get(c);
                group(c.from) == group(c.to)
            });
            let local: Vec<bool> = local.collect();
            assert!(local.is_sorted());
        }
    }
}
