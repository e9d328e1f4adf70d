//! The shortest ordered path of each pair, if switches could look at the in port.

use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::ordering::Layers;

/// For one destination, the shortest ordered path from every switch: what APOT computes (Chiu et
/// al., section 4.4.1), so for layers of [`up_down_layers`](crate::ordering::up_down_layers) the paths of
/// up*/down* as well.
///
/// Such paths need source routing or a look at the in port: a switch whose own shortest path starts in a low
/// layer must forward packets that came over a higher one differently. A forwarding table cannot, so no
/// engine uses these paths. They are the bound for the engines.
///
/// By switch a few steps, hops and layer both rising: a packet that came over layer `l` takes the
/// first step whose layer is not below `l`.
#[derive(Clone, Debug)]
pub struct OrderedPaths {
    target: SwitchId,
    steps: Vec<Vec<Step>>,
    /// Channels visited: the cost of the search.
    pub relaxed: u64,
}

/// A next hop of a switch.
#[derive(Clone, Copy, Debug)]
struct Step {
    hops: u16,
    layer: u8,
    channel: ChannelId,
}

impl OrderedPaths {
    /// A search outward from the destination, hop by hop: whenever a switch can be left over a
    /// higher layer than before, the channels into it that this opens are followed, once each. Ties
    /// among channels of a layer go to the lowest port.
    ///
    /// Cost: O(C K) time with C channels and K steps of a switch (at most the number of layers);
    /// O(S K) memory.
    pub fn to(fabric: &Fabric, layers: &Layers, target: SwitchId) -> Self {
        let mut steps: Vec<Vec<Step>> = vec![Vec::new(); fabric.num_switches()];
        let mut relaxed = 0;
        // (switch, layers that were open before, highest layer open now)
        let mut frontier = vec![(target, None, u8::MAX)];
        let mut hops = 0;
        while !frontier.is_empty() {
            hops += 1;
            let mut offers = Vec::new();
            for &(s, before, now) in &frontier {
                for (_, out) in fabric.channels().out(s) {
                    relaxed += 1;
                    let layer = layers.of(out.reverse);
                    if out.to != target && layer <= now && before.is_none_or(|open| layer > open) {
                        offers.push((out.to, layer, out.reverse));
                    }
                }
            }
            // Of a switch's offers the highest layer counts; lower ones are no better.
            offers.sort_unstable_by_key(|&(s, layer, channel)| (s, u8::MAX - layer, channel));
            offers.dedup_by_key(|&mut (s, ..)| s);
            frontier.clear();
            for (s, layer, channel) in offers {
                let known = &mut steps[s.index()];
                let before = known.last().map(|step| step.layer);
                if before.is_none_or(|open| layer > open) {
                    known.push(Step { hops, layer, channel });
                    frontier.push((s, before, layer));
                }
            }
        }
        Self { target, steps, relaxed }
    }

    /// Hops of the shortest ordered path; `None` if there is none.
    pub fn hops(&self, from: SwitchId) -> Option<u16> {
        if from == self.target { Some(0) } else { Some(self.steps[from.index()].first()?.hops) }
    }

    /// The path itself; empty from the destination and if there is none.
    pub fn path(&self, fabric: &Fabric, from: SwitchId) -> Vec<ChannelId> {
        let mut path = Vec::new();
        let (mut at, mut least) = (from, 0);
        while at != self.target {
            let Some(step) = self.steps[at.index()].iter().find(|step| step.layer >= least) else { break };
            path.push(step.channel);
            (at, least) = (fabric.channels().get(step.channel).to, step.layer);
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::{LinkSort, ordered_trees, up_down_layers};
    use crate::routing::Hops;
    use crate::topology::{Mesh, small_members};

    #[test]
    fn paths_are_ordered_and_as_long_as_said() {
        for (name, f) in small_members() {
            let minimal = Hops::new(&f).unwrap();
            for layers in [ordered_trees(&f, LinkSort::Guid), up_down_layers(&f, SwitchId(0))] {
                for target in f.switch_ids() {
                    let paths = OrderedPaths::to(&f, &layers, target);
                    for from in f.switch_ids() {
                        let path = paths.path(&f, from);
                        assert_eq!(path.len(), usize::from(paths.hops(from).unwrap()), "{name}");
                        assert!(path.len() >= usize::from(minimal.get(from, target)), "{name}");
                        assert!(path.windows(2).all(|w| layers.allow(&f, w[0], w[1])), "{name}");
                        let channels = f.channels();
                        assert!(path.windows(2).all(|w| channels.get(w[0]).to == channels.get(w[1]).from));
                        assert!(path.last().is_none_or(|&c| channels.get(c).to == target), "{name}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_tree_loses_nothing() {
        let f = Mesh { dims: vec![7], cas: 1 }.build().unwrap();
        let minimal = Hops::new(&f).unwrap();
        let layers = ordered_trees(&f, LinkSort::Guid);
        assert_eq!(layers.count(), 1);
        let paths = OrderedPaths::to(&f, &layers, SwitchId(2));
        assert!(f.switch_ids().all(|s| paths.hops(s) == Some(minimal.get(s, SwitchId(2)).into())));
    }
}
