//! Which node of the fabric is which node of the plan.

use std::collections::HashMap;
use std::hash::Hash;

use super::{Matched, Pairs, structure};
use crate::fabric::{Fabric, Node, NodeId};

/// Matches by GUID, then by name, then by structure.
///
/// Cost: as [`compare`](super::compare).
pub(super) fn matching(plan: &Fabric, fabric: &Fabric) -> (Pairs, Matched) {
    let mut pairs: Pairs = vec![None; plan.nodes().len()];
    let mut taken = vec![false; fabric.nodes().len()];
    let guid = |node: &Node| node.guid_stated.then_some((node.kind, node.guid));
    let name = |node: &Node| (!node.description.is_empty()).then(|| (node.kind, node.description.clone()));
    let by_guid = match_by(plan, fabric, &mut pairs, &mut taken, guid);
    let by_name = match_by(plan, fabric, &mut pairs, &mut taken, name);
    let by_structure = structure::extend(plan, fabric, &mut pairs, &mut taken);
    (pairs, Matched { by_guid, by_name, by_structure })
}

/// Matches nodes that are still without a partner if they have the same key and no other node of their side has it.
fn match_by<K: Hash + Eq>(
    plan: &Fabric,
    fabric: &Fabric,
    pairs: &mut Pairs,
    taken: &mut [bool],
    key: impl Fn(&Node) -> Option<K>,
) -> usize {
    let unique = |side: &Fabric, free: &dyn Fn(usize) -> bool| {
        let mut of: HashMap<K, Option<NodeId>> = HashMap::new();
        for (i, node) in side.nodes().iter().enumerate() {
            let Some(key) = key(node) else { continue };
            // A name that a matched node has is not free either.
            let this = free(i).then_some(NodeId::at(i));
            of.entry(key).and_modify(|id| *id = None).or_insert(this);
        }
        of
    };
    let there = unique(fabric, &|i| !taken[i]);
    let here = unique(plan, &|i| pairs[i].is_none());
    let mut count = 0;
    for (key, id) in here {
        if let (Some(id), Some(Some(partner))) = (id, there.get(&key)) {
            pairs[id.index()] = Some(*partner);
            taken[partner.index()] = true;
            count += 1;
        }
    }
    count
}
