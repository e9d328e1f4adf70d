//! Switches whose tables nobody knows: no proof of a transition covers what they do.

use std::collections::HashMap;

use crate::fabric::{Fabric, Guid, LinkState, Node};

/// Says which switches these are:
///
/// - those that are left out since the tables before, though a link to them is up: they may forward as they did;
/// - those that are new and have an active link to another switch: somebody else may have programmed them. A switch that
///   starts has no active link.
///
/// Cost: O(ports).
pub(super) fn unknown(old: &Fabric, new: &Fabric) -> Option<String> {
    let by_guid = |fabric| switches(fabric).map(|node| (node.guid, node)).collect::<HashMap<Guid, &Node>>();
    let (were, are) = (by_guid(old), by_guid(new));
    let silent = switches(old).filter(|node| !are.contains_key(&node.guid)).filter(|node| {
        let mut peers = node.ports.iter().filter(|port| port.state.is_used()).filter_map(|port| port.peer);
        peers.any(|peer| {
            let beside =
                are.get(&old.node(peer.node).guid).and_then(|node| node.ports.get(peer.port.index()));
            beside.is_some_and(|port| port.untrusted)
        })
    });
    let strange = switches(new).filter(|node| !were.contains_key(&node.guid)).filter(|node| {
        let mut active = node.ports.iter().filter(|port| port.state == LinkState::Active);
        active.any(|port| port.peer.is_some_and(|peer| new.node(peer.node).is_switch()))
    });
    let silent = in_words(silent, "left out and may forward as before");
    let strange = in_words(strange, "new with active links, and may have tables of another subnet manager");
    match (silent, strange) {
        (Some(silent), Some(strange)) => Some(format!("{silent}, and over {strange}")),
        (silent, strange) => silent.or(strange),
    }
}

fn switches(fabric: &Fabric) -> impl Iterator<Item = &Node> {
    fabric.switch_ids().map(|s| fabric.switch(s))
}

/// `'leaf-7' (0x…) and 2 more, which are left out`; `None` for no switch.
fn in_words<'a>(mut nodes: impl Iterator<Item = &'a Node>, why: &str) -> Option<String> {
    let first = nodes.next()?;
    let first = format!("'{}' ({})", first.description, first.guid);
    Some(match nodes.count() {
        0 => format!("{first}, which is {why}"),
        more => format!("{first} and {more} more switches, which are {why}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{FabricBuilder, Lmc, NodeId};
    use crate::topology::Torus;

    fn torus() -> Fabric {
        Torus { dims: vec![3, 3], cas: 1 }.build().expect("a torus")
    }

    /// The fabric, with another state of all links, and with the first switch missing. `live`: its neighbours see a link.
    fn changed(fabric: &Fabric, state: LinkState, without_first: bool, live: bool) -> Fabric {
        let gone = fabric.switch_node_id(fabric.switch_ids().next().expect("a switch"));
        let mut builder = FabricBuilder::new();
        let mut ids: HashMap<NodeId, NodeId> = HashMap::new();
        let is_gone = |node: NodeId| {
            let hangs_on_it = |id: NodeId| {
                let mut peers = fabric.node(id).ports.iter().filter_map(|port| port.peer);
                !fabric.node(id).is_switch() && peers.any(|peer| peer.node == gone)
            };
            without_first && (node == gone || hangs_on_it(node))
        };
        for (i, node) in fabric.nodes().iter().enumerate().filter(|(i, _)| !is_gone(NodeId::at(*i))) {
            let mut node = node.clone();
            for port in &mut node.ports {
                let to_it = port.peer.is_some_and(|peer| is_gone(peer.node));
                port.untrusted = to_it && live;
                port.state = if port.peer.is_some() { state } else { port.state };
                port.peer = None;
            }
            ids.insert(NodeId::at(i), builder.add(node).expect("a node"));
        }
        for (&old, &new) in &ids {
            for (number, port) in fabric.node(old).ports.iter().enumerate() {
                let Some(peer) = port.peer.filter(|peer| ids.contains_key(&peer.node)) else { continue };
                let (a, b) = ((new, number), (ids[&peer.node], peer.port.index()));
                if a < b {
                    let at = |(node, port): (NodeId, usize)| crate::fabric::PortRef {
                        node,
                        port: crate::fabric::PortNum(port as u8),
                    };
                    builder.connect(at(a), at(b)).expect("a cable");
                }
            }
        }
        builder.finish(Lmc::default()).expect("a fabric")
    }

    #[test]
    fn switches_that_may_forward_unseen_are_named() {
        let whole = torus();
        let name = &whole.switch(whole.switch_ids().next().unwrap()).description;
        let without = |state, live| changed(&whole, state, true, live);
        let active = LinkState::Active;
        // It is silent and its links are up; it is gone.
        let said = unknown(&whole, &without(active, true)).expect("it may forward");
        assert!(said.contains(&format!("'{name}'")) && said.contains("left out"), "{said}");
        assert_eq!(unknown(&whole, &without(active, false)), None);
        // It comes with active links; it has just started.
        let before = without(active, false);
        let said = unknown(&before, &whole).expect("it may have tables");
        assert!(said.contains(&format!("'{name}'")) && said.contains("new with active links"), "{said}");
        assert_eq!(unknown(&before, &changed(&whole, LinkState::Initialize, false, false)), None);
        assert_eq!(unknown(&whole, &whole), None);
    }
}
