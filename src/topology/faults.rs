//! Faults: random links and switches fail while the rest stays connected.

use std::collections::HashSet;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::fabric::{ChannelId, Fabric, FabricBuilder, Lmc, Node, NodeId, PortNum, PortRef, SwitchId};

use super::error::TopologyError;
use super::rewire::Sets;

/// Which switches may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// Those without adapters: all adapters stay connected.
    WithoutAdapters,
    /// Any. The adapters of a failed switch are removed; the others stay connected.
    Any,
}

/// The fabric without `count` random switch-to-switch links. Switches that were connected stay
/// connected, and everything keeps its LID.
///
/// Links fail one after another in a random order given by `seed`. A link whose loss would
/// disconnect the fabric is skipped: in reverse order, the skipped links form a spanning tree.
///
/// # Errors
/// [`TopologyError::CannotFail`], if fewer than `count` links can be spared.
///
/// Cost: O(n log n) in nodes and links.
pub fn fail_links(fabric: &Fabric, count: usize, seed: u64) -> Result<Fabric, TopologyError> {
    let mut links: Vec<ChannelId> =
        fabric.channels().iter().filter(|(id, c)| *id < c.reverse).map(|(id, _)| id).collect();
    links.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut connected = Sets::new(fabric.num_switches());
    let mut spare: Vec<ChannelId> = Vec::new();
    for &link in links.iter().rev() {
        let c = fabric.channels().get(link);
        if !connected.join(c.from.index(), c.to.index()) {
            spare.push(link);
        }
    }
    if spare.len() < count {
        return Err(TopologyError::CannotFail { what: "links", asked: count, possible: spare.len() });
    }
    let mut builder = FabricBuilder::from_fabric(fabric);
    for &link in spare.iter().rev().take(count) {
        let c = fabric.channels().get(link);
        builder.disconnect(PortRef { node: fabric.switch_node_id(c.from), port: c.out_port });
    }
    Ok(builder.finish(Lmc::default())?)
}

/// The fabric without `count` random switches and without the adapters that were attached only to
/// these. Remaining switches that were connected stay connected, and everything keeps its LID.
///
/// Switches fail one after another in a random order given by `seed`. A switch that the others need
/// to stay connected is skipped, and tried again in a later pass until enough have failed.
///
/// # Errors
/// [`TopologyError::CannotFail`], if fewer than `count` switches can fail. With
/// [`Candidates::WithoutAdapters`] another seed may allow more.
///
/// Cost: O(n + links) for each switch tried.
pub fn fail_switches(
    fabric: &Fabric,
    count: usize,
    candidates: Candidates,
    seed: u64,
) -> Result<Fabric, TopologyError> {
    let mut order: Vec<SwitchId> = fabric
        .switch_ids()
        .filter(|&s| candidates == Candidates::Any || fabric.num_adapters_on(s) == 0)
        .collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut failed = vec![false; fabric.num_switches()];
    let mut possible = 0;
    while possible < count {
        let spare = |s: &SwitchId| possible + 1 < failed.len() && is_spare(fabric, &failed, *s);
        let Some(at) = order.iter().position(spare) else {
            return Err(TopologyError::CannotFail { what: "switches", asked: count, possible });
        };
        failed[order.remove(at).index()] = true;
        possible += 1;
    }
    without(fabric, &failed)
}

/// Whether the working neighbours of a switch are connected without it.
fn is_spare(fabric: &Fabric, failed: &[bool], switch: SwitchId) -> bool {
    let mut seen = failed.to_vec();
    seen[switch.index()] = true;
    let neighbours = || fabric.channels().out(switch).map(|(_, c)| c.to).filter(|t| !failed[t.index()]);
    let Some(start) = neighbours().next() else { return true };
    seen[start.index()] = true;
    let mut stack = vec![start];
    while let Some(s) = stack.pop() {
        for (_, c) in fabric.channels().out(s) {
            if !std::mem::replace(&mut seen[c.to.index()], true) {
                stack.push(c.to);
            }
        }
    }
    neighbours().all(|t| seen[t.index()])
}

/// A copy without some switches and without nodes whose cables all led to them.
fn without(fabric: &Fabric, failed: &[bool]) -> Result<Fabric, TopologyError> {
    let gone = |end: PortRef| fabric.switch_of(end.node).is_some_and(|s| failed[s.index()]);
    let stays = |node: &Node| {
        let mut peers = node.ports.iter().filter_map(|p| p.peer).peekable();
        node.is_switch() || peers.peek().is_none() || !peers.all(gone)
    };
    let failed_nodes: HashSet<_> =
        fabric.switch_ids().filter(|s| failed[s.index()]).map(|s| fabric.switch_node_id(s)).collect();
    let mut builder = FabricBuilder::new();
    let mut place = Vec::with_capacity(fabric.nodes().len());
    for (i, node) in fabric.nodes().iter().enumerate() {
        let id = NodeId::at(i);
        let mut copy = node.clone();
        copy.ports.iter_mut().for_each(|p| p.peer = None);
        let kept = !failed_nodes.contains(&id) && stays(node);
        place.push(if kept { Some(builder.add(copy)?) } else { None });
    }
    for (i, node) in fabric.nodes().iter().enumerate() {
        for (number, port) in node.ports.iter().enumerate() {
            let Some(peer) = port.peer else { continue };
            if let (Some(here), Some(there)) = (place[i], place[peer.node.index()]) {
                let port = PortNum(number as u8);
                builder.connect(PortRef { node: here, port }, PortRef { node: there, port: peer.port })?;
            }
        }
    }
    Ok(builder.finish(Lmc::default())?)
}

#[cfg(test)]
mod tests {
    use super::super::{FatTree, Ring, Torus, probe, small_members};
    use super::*;
    use crate::fabric::Lid;
    use std::collections::BTreeMap;

    fn lids(f: &Fabric) -> BTreeMap<String, Lid> {
        f.endports().iter().map(|e| (f.node(e.node).description.clone(), e.lid)).collect()
    }

    #[test]
    fn exactly_so_many_links_fail_and_all_stays_connected() {
        for (name, f) in small_members() {
            let links = f.channels().len() / 2;
            let spare = links + 1 - f.num_switches();
            for count in [0, 1.min(spare), spare / 2, spare] {
                let g = fail_links(&f, count, 7).unwrap();
                assert_eq!(g.channels().len() / 2, links - count, "{name}");
                assert_eq!(lids(&g), lids(&f), "{name}");
                assert!(probe::diameter(&g).is_some(), "{name}");
                assert!(probe::same(&g, &fail_links(&f, count, 7).unwrap()), "{name}");
            }
            let error = fail_links(&f, spare + 1, 7).unwrap_err();
            let expected = TopologyError::CannotFail { what: "links", asked: spare + 1, possible: spare };
            assert_eq!(error, expected, "{name}");
        }
    }

    #[test]
    fn exactly_so_many_switches_fail_and_all_stays_connected() {
        for (name, f) in small_members() {
            for count in [0, 1, 2, f.num_switches() - 1] {
                let g = fail_switches(&f, count, Candidates::Any, 3).unwrap();
                assert_eq!(g.num_switches(), f.num_switches() - count, "{name}");
                assert!(probe::diameter(&g).is_some(), "{name}");
                let before = lids(&f);
                assert!(lids(&g).iter().all(|(node, lid)| before[node] == *lid), "{name}");
                assert!(g.nodes().iter().all(|n| n.ports.iter().any(|p| p.peer.is_some()) || n.is_switch()));
            }
            assert!(fail_switches(&f, f.num_switches(), Candidates::Any, 3).is_err(), "{name}");
        }
    }

    #[test]
    fn without_adapters_only_spines_fail() {
        let f = FatTree { k: 8, levels: 2, down: None, cas: None }.build().unwrap();
        let g = fail_switches(&f, 3, Candidates::WithoutAdapters, 5).unwrap();
        assert_eq!(probe::shape(&g), (9, 32));
        assert_eq!(
            fail_switches(&f, 4, Candidates::WithoutAdapters, 5).unwrap_err().to_string(),
            "only 3 of the 4 switches can fail without cutting off what remains"
        );
        let ring = Ring { switches: 5, cas: 1 }.build().unwrap();
        assert!(fail_switches(&ring, 1, Candidates::WithoutAdapters, 5).is_err());
    }

    #[test]
    fn the_seed_decides() {
        let f = Torus { dims: vec![6, 6], cas: 1 }.build().unwrap();
        assert!(!probe::same(&fail_links(&f, 5, 1).unwrap(), &fail_links(&f, 5, 2).unwrap()));
        let fail = |seed| fail_switches(&f, 5, Candidates::Any, seed).unwrap();
        assert!(probe::same(&fail(1), &fail(1)));
        assert!(!probe::same(&fail(1), &fail(2)));
    }
}
