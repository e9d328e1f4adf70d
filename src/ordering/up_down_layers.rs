//! Up*/down* from a root, as two layers.

use super::Layers;
use super::rank::{distances, positions};
use crate::fabric::{Fabric, SwitchId};

/// Up channels are layer 0 and down channels layer 1, where up is towards the root: to a switch
/// with fewer hops to it, among equals to the one that comes first in GUID order. An ordered path
/// then never goes up after it went down, which is the rule of up*/down* (Autonet; in Chiu et al.
/// what ordered trees are measured against).
///
/// Cost: O(S log S + C log C) with S switches and C channels.
pub fn up_down_layers(fabric: &Fabric, root: SwitchId) -> Layers {
    let positions = positions(distances(fabric, [root.index()]));
    let position = |s: SwitchId| i64::from(positions[s.index()]);
    let (of, key): (Vec<u8>, Vec<i64>) = fabric
        .channels()
        .as_slice()
        .iter()
        .map(|c| match (position(c.from), position(c.to)) {
            (here, there) if there < here => (0, -here),
            (_, there) => (1, there),
        })
        .unzip();
    Layers::new(of, &key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Ring;

    #[test]
    fn a_ring_turns_at_its_far_end_only() {
        let f = Ring { switches: 6, cas: 1 }.build().unwrap();
        let layers = up_down_layers(&f, SwitchId(0));
        let forbidden: Vec<SwitchId> = f
            .channels()
            .iter()
            .flat_map(|(a, c)| f.channels().out(c.to).map(move |(b, next)| (a, c, b, next)))
            .filter(|&(a, c, b, next)| next.to != c.from && !layers.allow(&f, a, b))
            .map(|(_, c, _, _)| c.to)
            .collect();
        assert_eq!(forbidden, [SwitchId(3), SwitchId(3)]);
    }
}
