//! GUIDs in no order, as those of real switches.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::fabric::{Fabric, FabricBuilder, Lmc};

use super::error::TopologyError;

/// The fabric with the GUIDs of its switches dealt out anew. Families number their switches part by part, and whoever goes by
/// the GUIDs finds these parts; a real fabric has no such order. `seed` decides; everything else stays as it is.
///
/// # Errors
/// None of a fabric that is valid.
///
/// Cost: O(n log n) in nodes and links.
pub fn shuffle_guids(fabric: &Fabric, seed: u64) -> Result<Fabric, TopologyError> {
    let mut from: Vec<_> = fabric.switch_ids().map(|s| fabric.switch(s)).collect();
    from.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut builder = FabricBuilder::from_fabric(fabric);
    for (s, other) in fabric.switch_ids().zip(from) {
        let node = builder.node_mut(fabric.switch_node_id(s));
        (node.guid, node.system_guid) = (other.guid, other.system_guid);
        node.ports[0].guid = other.ports[0].guid;
    }
    Ok(builder.finish(Lmc::default())?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::small_members;
    use super::*;
    use crate::fabric::{Channel, Guid, SwitchId};

    #[test]
    fn cables_stay_where_they_are() {
        for (name, f) in small_members() {
            let g = shuffle_guids(&f, 3).unwrap();
            let guids = |f: &Fabric| f.switch_ids().map(|s| f.switch(s).guid).collect::<BTreeSet<Guid>>();
            assert_eq!(guids(&f), guids(&g), "{name}");
            let by_name = |f: &Fabric, s: SwitchId| f.switch(s).description.clone();
            let cables = |f: &Fabric| {
                let ends =
                    |(_, c): (_, &Channel)| (by_name(f, c.from), c.out_port, by_name(f, c.to), c.in_port);
                f.channels().iter().map(ends).collect::<BTreeSet<_>>()
            };
            assert_eq!(cables(&f), cables(&g), "{name}");
            let order = |f: &Fabric| f.switch_ids().map(|s| by_name(f, s)).collect::<Vec<_>>();
            assert!(f.num_switches() < 9 || order(&f) != order(&g), "{name}");
            assert_eq!(order(&g), order(&shuffle_guids(&f, 3).unwrap()), "{name}");
        }
    }
}
