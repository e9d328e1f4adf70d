//! Slow links: some links between switches run on half their lanes.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::fabric::{ChannelId, Fabric, FabricBuilder, Lmc, PortRef};

use super::error::TopologyError;

/// The fabric with `count` random switch-to-switch links at half their width: 2x instead of 4x. Links that state no
/// width, or one lane, cannot be halved. `seed` decides which ones; everything else stays as it is.
///
/// # Errors
/// [`TopologyError::CannotSlow`], if there are fewer than `count` links that can.
///
/// Cost: O(n log n) in nodes and links.
pub fn slow_links(fabric: &Fabric, count: usize, seed: u64) -> Result<Fabric, TopologyError> {
    let ends = |id: ChannelId| {
        let c = fabric.channels().get(id);
        let end = |switch, port| PortRef { node: fabric.switch_node_id(switch), port };
        [end(c.from, c.out_port), end(c.to, c.in_port)]
    };
    let half = |end: PortRef| {
        let width = fabric.node(end.node).ports[end.port.index()].width?;
        Some(width / 2).filter(|&half| half > 0)
    };
    let mut links: Vec<ChannelId> =
        fabric.channels().iter().filter(|(id, c)| *id < c.reverse).map(|(id, _)| id).collect();
    links.retain(|&id| ends(id).into_iter().all(|end| half(end).is_some()));
    if links.len() < count {
        return Err(TopologyError::CannotSlow { asked: count, possible: links.len() });
    }
    links.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut builder = FabricBuilder::from_fabric(fabric);
    for end in links.into_iter().take(count).flat_map(ends) {
        builder.node_mut(end.node).ports[end.port.index()].width = half(end);
    }
    Ok(builder.finish(Lmc::default())?)
}

#[cfg(test)]
mod tests {
    use super::super::{Torus, small_members};
    use super::*;

    #[test]
    fn exactly_so_many_links_run_at_half_rate() {
        for (name, f) in small_members() {
            assert!(f.weights().equal(), "{name}");
            let links = f.channels().len() / 2;
            for count in [0, 1, links / 3] {
                let g = slow_links(&f, count, 7).unwrap();
                let slow = g.weights().by_channel().iter().filter(|&&weight| weight == 2).count();
                let usual = g.weights().by_channel().iter().filter(|&&weight| weight == 1).count();
                assert_eq!((slow, usual), (2 * count, 2 * (links - count)), "{name}");
            }
            assert!(slow_links(&f, links + 1, 7).is_err(), "{name}");
        }
    }

    #[test]
    fn the_seed_decides() {
        let f = Torus { dims: vec![6, 6], cas: 1 }.build().unwrap();
        let weights = |seed| slow_links(&f, 5, seed).unwrap().weights().clone();
        assert_eq!(weights(1), weights(1));
        assert_ne!(weights(1), weights(2));
    }
}
