//! Switches that may be exchanged without changing the fabric: what holds for paths to one holds for the other.

use std::collections::HashMap;

use crate::fabric::{ChannelId, Fabric, Role, SwitchId};
use crate::routing::demand::Demand;

/// A switch with the channels that leave it, by the neighbour that they lead to.
pub(super) struct Twin {
    /// Its place among those that were asked for.
    pub(super) place: usize,
    pub(super) switch: SwitchId,
    out: Vec<ChannelId>,
}

/// What twins have in common: the neighbour and the weights of each channel in both directions, and by role what their
/// adapters send and receive.
type Surroundings = (Vec<(SwitchId, u8, u8)>, [(u64, u64); Role::ALL.len()]);

impl Twin {
    fn new(fabric: &Fabric, demand: &Demand<'_>, place: usize, switch: SwitchId) -> (Surroundings, Self) {
        let (channels, weights) = (fabric.channels(), fabric.weights().by_channel());
        let seen = |id: &ChannelId| {
            let c = channels.get(*id);
            (c.to, weights[id.index()], weights[c.reverse.index()])
        };
        let mut out: Vec<ChannelId> = channels.out(switch).map(|(id, _)| id).collect();
        out.sort_by_key(seen);
        let duties = Role::ALL.map(|role| {
            let ends = fabric.endports_on(switch).iter().map(|&end| fabric.endport(end));
            let duties = ends.filter(|end| end.is_adapter()).map(|end| fabric.duty(end));
            let here = duties.filter(|duty| duty.role == role).map(|duty| u64::from(duty.destination)).sum();
            (demand.of_role(role)[switch.index()], here)
        });
        let surroundings = (out.iter().map(seen).collect(), duties);
        (surroundings, Self { place, switch, out })
    }

    /// The numbers of the channels that change places where this switch and its twin do.
    pub(super) fn exchanged(&self, other: &Self, fabric: &Fabric) -> impl Iterator<Item = (usize, usize)> {
        let reverse = |id: ChannelId| fabric.channels().get(id).reverse.index();
        let out = self.out.iter().zip(&other.out);
        out.flat_map(move |(&a, &b)| [(a.index(), b.index()), (reverse(a), reverse(b))])
    }
}

/// Sorts switches by what surrounds them: each list has those that are twins of each other. Leaves of a pod of a fat tree
/// are, until one loses a link.
///
/// Cost: O(C log d) with d the largest number of channels of a switch.
pub(super) fn twins(fabric: &Fabric, switches: &[SwitchId]) -> Vec<Vec<Twin>> {
    let demand = Demand::new(fabric);
    let mut lists: Vec<Vec<Twin>> = Vec::new();
    let mut known: HashMap<Surroundings, usize> = HashMap::new();
    for (place, &switch) in switches.iter().enumerate() {
        let (surroundings, twin) = Twin::new(fabric, &demand, place, switch);
        let list = *known.entry(surroundings).or_insert(lists.len());
        if list == lists.len() {
            lists.push(Vec::new());
        }
        lists[list].push(twin);
    }
    lists
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{FatTree, SlimFly, fail_links, slow_links};

    fn sizes(fabric: &Fabric) -> Vec<usize> {
        let switches: Vec<SwitchId> =
            fabric.switch_ids().filter(|&s| fabric.num_adapters_on(s) > 0).collect();
        let mut sizes: Vec<usize> = twins(fabric, &switches).iter().map(Vec::len).collect();
        sizes.sort_unstable();
        sizes
    }

    #[test]
    fn leaves_of_a_pod_are_twins_until_they_lose_a_link() {
        let tree = FatTree { k: 4, levels: 3, down: None, cas: None }.build().unwrap();
        assert_eq!(sizes(&tree), [2; 4]);
        let slow = slow_links(&tree, 1, 1).unwrap();
        let damaged = fail_links(&tree, 1, 1).unwrap();
        assert!(sizes(&slow).len() <= 5 && sizes(&damaged).len() <= 5);
        let slim_fly = SlimFly { q: 5, cas: Some(2) }.build().unwrap();
        assert_eq!(sizes(&slim_fly), [1; 50]);
    }
}
