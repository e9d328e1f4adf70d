//! The part of a fabric that goes on after a failure.

use std::cmp::Reverse;

use petgraph::unionfind::UnionFind;

use super::Failure;
use crate::fabric::{Fabric, FabricBuilder, FabricError, Lmc, NodeId, PortNum, PortRef, SwitchId};

/// What a failure leaves.
pub(super) struct Damage {
    /// The connected part with most adapter ports, then with most switches, then with the lowest GUID. Everything
    /// in it keeps its LIDs.
    pub(super) fabric: Result<Fabric, FabricError>,
    /// For each of its switches, which one it was.
    pub(super) switches: Vec<SwitchId>,
    /// Hosts outside of it that were attached to a switch.
    pub(super) cut_off: u64,
    /// Those of them with a working cable to a working switch.
    pub(super) cut_off_beyond: u64,
}

impl Damage {
    /// Cost: O(nodes + ports).
    pub(super) fn of(fabric: &Fabric, failure: &Failure) -> Self {
        let broken = Broken::new(fabric, failure);
        let part = broken.largest_part(fabric);
        let nodes = fabric.nodes().len();
        // Nodes that were attached, that still are to any switch, and that go on.
        let [mut before, mut attached, mut stays] = [(); 3].map(|()| vec![false; nodes]);
        for s in fabric.switch_ids() {
            stays[fabric.switch_node_id(s).index()] = part[s.index()];
        }
        for (_, end) in fabric.adapters() {
            let Some((s, port)) = end.attachment else { continue };
            let (node, works) = (end.node.index(), broken.works(fabric, s, port));
            before[node] = true;
            attached[node] |= works;
            stays[node] |= works && part[s.index()];
        }
        let lost = || (0..nodes).filter(|&n| before[n] && !stays[n]);
        Self {
            fabric: broken.without(fabric, &stays),
            switches: fabric.switch_ids().filter(|s| part[s.index()]).collect(),
            cut_off: lost().count() as u64,
            cut_off_beyond: lost().filter(|&n| attached[n]).count() as u64,
        }
    }
}

/// What fails, for look-ups.
pub(super) struct Broken {
    nodes: Vec<bool>,
    /// Both ends of each cable: few.
    ends: Vec<PortRef>,
}

impl Broken {
    pub(super) fn new(fabric: &Fabric, failure: &Failure) -> Self {
        let mut nodes = vec![false; fabric.nodes().len()];
        failure.nodes.iter().for_each(|node| nodes[node.index()] = true);
        let peer = |end: &PortRef| fabric.node(end.node).ports[end.port.index()].peer;
        let ends = failure.cables.iter().flat_map(|end| [Some(*end), peer(end)]).flatten().collect();
        Self { nodes, ends }
    }

    /// Whether a node fails.
    pub(super) fn node(&self, node: NodeId) -> bool {
        self.nodes[node.index()]
    }

    /// Whether the cable of a switch's port, which is up, and both its nodes still work.
    pub(super) fn works(&self, fabric: &Fabric, switch: SwitchId, port: PortNum) -> bool {
        let here = PortRef { node: fabric.switch_node_id(switch), port };
        let peer = fabric.node(here.node).ports[port.index()].peer;
        !self.node(here.node)
            && !self.ends.contains(&here)
            && peer.is_some_and(|there| !self.node(there.node))
    }

    /// By switch: whether it is in the part that goes on.
    fn largest_part(&self, fabric: &Fabric) -> Vec<bool> {
        let works = |s: SwitchId| !self.node(fabric.switch_node_id(s));
        let mut parts = UnionFind::<usize>::new(fabric.num_switches());
        for (_, c) in fabric.channels().iter().filter(|(id, c)| *id < c.reverse) {
            if self.works(fabric, c.from, c.out_port) {
                parts.union(c.from.index(), c.to.index());
            }
        }
        let parts = parts.into_labeling();
        let mut size = vec![(0_usize, 0_usize); fabric.num_switches()];
        for s in fabric.switch_ids().filter(|&s| works(s)) {
            let adapters = fabric.endports_on(s).iter().map(|&e| fabric.endport(e));
            let cabled = |port| self.works(fabric, s, port);
            let adapters =
                adapters.filter(|e| e.is_adapter() && e.attachment.is_some_and(|(_, p)| cabled(p)));
            let size = &mut size[parts[s.index()]];
            (size.0, size.1) = (size.0 + adapters.count(), size.1 + 1);
        }
        let largest =
            fabric.switch_ids().filter(|&s| works(s)).min_by_key(|s| (Reverse(size[parts[s.index()]]), *s));
        let is_in = |s: SwitchId| works(s) && largest.is_some_and(|l| parts[l.index()] == parts[s.index()]);
        fabric.switch_ids().map(is_in).collect()
    }

    /// The nodes that stay and the cables between them that work.
    fn without(&self, fabric: &Fabric, stays: &[bool]) -> Result<Fabric, FabricError> {
        let mut place = vec![None; stays.len()];
        let staying = (0..stays.len()).filter(|&i| stays[i]);
        staying.enumerate().for_each(|(new, old)| place[old] = Some(NodeId::at(new)));
        let mut builder = FabricBuilder::new();
        for (i, node) in fabric.nodes().iter().enumerate().filter(|&(i, _)| stays[i]) {
            let mut copy = node.clone();
            for (port, number) in copy.ports.iter_mut().zip(0..) {
                let here = PortRef { node: NodeId::at(i), port: PortNum(number) };
                let there = port.peer.filter(|_| !self.ends.contains(&here));
                port.peer = there.and_then(|t| Some(PortRef { node: place[t.node.index()]?, ..t }));
            }
            builder.add(copy)?;
        }
        builder.finish(Lmc::default())
    }
}
