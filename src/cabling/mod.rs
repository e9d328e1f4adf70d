//! A fabric as it should be against the fabric as it is: cables that are swapped, missing, additional or slower.
//!
//! ```text
//! plan ───┐
//!         ├─> matching (GUIDs, names, then structure) ──> differences (by cable) ──> Comparison
//! fabric ─┘
//! ```

mod differences;
mod matching;
mod structure;
#[cfg(test)]
mod tests;

use serde::Serialize;
use thiserror::Error;

use crate::fabric::{Fabric, NodeId, PortNum, PortRef};

/// One end of a cable, as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct End {
    /// Description of the node, as the fabric has it; as the plan has it if the fabric lacks the node.
    pub node: String,
    /// Its GUID, from the same side.
    pub guid: String,
    /// The port.
    pub port: u8,
}

/// A cable by its ends.
pub type Cable = [End; 2];

/// A difference between the plan and the fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Difference {
    /// Cables with exchanged ends: as many as planned, between the same ports, but paired in another way. Two
    /// mostly.
    Swapped {
        /// The cables as planned.
        planned: Vec<Cable>,
        /// The cables as they are.
        found: Vec<Cable>,
    },
    /// Cables that share ports with planned ones but do not use all of them: one that was moved to another port, or
    /// a swap of which a cable is missing.
    Moved {
        /// The cables as planned.
        planned: Vec<Cable>,
        /// The cables as they are.
        found: Vec<Cable>,
    },
    /// A planned cable whose ports are both empty.
    Missing {
        /// The cable.
        cable: Cable,
    },
    /// A cable whose ports are both empty in the plan.
    Additional {
        /// The cable.
        cable: Cable,
    },
    /// A cable in its place, slower or narrower than the plan states.
    Degraded {
        /// The cable.
        cable: Cable,
        /// Lanes and speed that are planned.
        planned: String,
        /// Lanes and speed that it has.
        found: String,
    },
    /// A planned node that the fabric does not have.
    MissingNode {
        /// Its description.
        node: String,
        /// Its GUID.
        guid: String,
        /// Its planned cables.
        cables: Vec<Cable>,
    },
    /// A node that is not planned.
    AdditionalNode {
        /// Its description.
        node: String,
        /// Its GUID.
        guid: String,
        /// Its cables.
        cables: Vec<Cable>,
    },
}

/// How the nodes of the plan were found in the fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Matched {
    /// Nodes with the same GUID.
    pub by_guid: usize,
    /// Nodes with the same description, which no other has.
    pub by_name: usize,
    /// Nodes in the same place, by the ports of their neighbours.
    pub by_structure: usize,
}

/// The result of [`compare`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// How nodes were matched.
    pub matched: Matched,
    /// Nodes that were matched by structure although others were by GUID or name: description in the plan and in the
    /// fabric.
    pub renamed: Vec<[String; 2]>,
    /// Cables of the plan.
    pub planned: usize,
    /// Cables of the fabric.
    pub found: usize,
    /// Cables that both have.
    pub in_place: usize,
    /// All differences: swapped, moved, missing, additional, degraded cables, then nodes.
    pub differences: Vec<Difference>,
}

/// Why fabrics cannot be compared.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CablingError {
    /// Too little is alike.
    #[error(
        "only {matched} of {planned} cables of the plan are found: GUIDs and names differ, and by structure no part is \
         alike. Give the plan the fabric's GUIDs or names, or its numbers of ports"
    )]
    Unlike {
        /// Cables in place at best.
        matched: usize,
        /// Cables of the plan.
        planned: usize,
    },
}

/// Compares the cabling of a fabric with a plan.
///
/// Nodes are matched by GUID, then by a description that no other node has, then by structure: the node at the same
/// port of a matched neighbour. If no GUID and no name is alike, every switch of the fabric is tried as a start and the
/// assignment with most cables in place is used. Cables are compared by node and port.
///
/// Missing and additional cables form paths and cycles over the ports that they share, each of which is one
/// difference. So a swap of two cables is one difference, not four.
///
/// # Errors
/// [`CablingError::Unlike`] if less than half of the cables are in place and all nodes were matched by structure.
///
/// Cost: O(n log n) in nodes and ports; by structure alone that for each switch, over all cores.
pub fn compare(plan: &Fabric, fabric: &Fabric) -> Result<Comparison, CablingError> {
    let (pairs, matched) = matching::matching(plan, fabric);
    let mut comparison = differences::differences(plan, fabric, &pairs, matched);
    let named = matched.by_guid + matched.by_name > 0;
    if named {
        let nodes = plan.nodes().iter().zip(&pairs).filter_map(|(a, b)| Some((a, fabric.node((*b)?))));
        let others = nodes.filter(|(a, b)| a.guid != b.guid && a.description != b.description);
        comparison.renamed = others.map(|(a, b)| [a.description.clone(), b.description.clone()]).collect();
    }
    if !named && 2 * comparison.in_place < comparison.planned {
        return Err(CablingError::Unlike { matched: comparison.in_place, planned: comparison.planned });
    }
    Ok(comparison)
}

/// For each node of the plan, the node of the fabric.
type Pairs = Vec<Option<NodeId>>;

/// The live cables of a fabric, each once: the lower end first.
fn cables(fabric: &Fabric) -> impl Iterator<Item = (PortRef, PortRef)> + '_ {
    let nodes = fabric.nodes().iter().zip((0..).map(NodeId));
    let ends = nodes.flat_map(|(node, id)| {
        (1..node.ports.len()).map(move |p| PortRef { node: id, port: PortNum(p as u8) })
    });
    ends.filter_map(|end| Some((end, peer(fabric, end)?))).filter(|(a, b)| a < b)
}

/// The other end of a live cable.
fn peer(fabric: &Fabric, end: PortRef) -> Option<PortRef> {
    let port = |end: PortRef| fabric.node(end.node).ports.get(end.port.index());
    let here = port(end).filter(|port| port.state.is_used())?;
    here.peer.filter(|&there| port(there).is_some_and(|port| port.state.is_used()))
}
