//! A fabric as one JSON object, as `dfdn generate --json` prints it: `{"format": "dfdn-fabric-1",
//! "nodes": […]}`. Nodes are in GUID order. Each has the fields of a [`Node`], and in `ports` those
//! of a [`Port`](crate::fabric::Port), port 0 first. A `peer` gives the far node by its index in
//! `nodes`. The format keeps everything that a [`Fabric`] holds.

use std::borrow::Cow;
use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use super::{FabricFormat, FormatError};
use crate::fabric::{Fabric, FabricBuilder, Lid, Lmc, Node, NodeId, PortNum, PortRef, Vl};

/// An object whose first character after the brace is a quote.
pub(super) const FABRIC: FabricFormat = FabricFormat {
    recognizes: |first| first[0] == b'{' && matches!(first[1], b'"' | b'}'),
    read: |text| read(text).map(|fabric| (fabric, Vec::new())),
};

const FORMAT: &str = "dfdn-fabric-1";

#[derive(Serialize, Deserialize)]
struct Document<'a> {
    format: Cow<'a, str>,
    nodes: Cow<'a, [Node]>,
}

/// Reads a fabric.
///
/// # Errors
/// Text that is not such an object, numbers out of range, cables that contradict each other, no switch at all, what
/// [`FabricBuilder::finish`] refuses.
pub fn read(input: impl BufRead) -> Result<Fabric, FormatError> {
    let document: Document<'_> =
        serde_json::from_reader(input).map_err(|e| FormatError::new(e.line(), e.to_string()))?;
    if document.format != FORMAT {
        return Err(FormatError::new(
            0,
            format!("the field 'format' is not '{FORMAT}', as 'dfdn generate --json' writes it"),
        ));
    }
    let mut nodes = document.nodes.into_owned();
    let mut cables = Vec::new();
    let count = nodes.len();
    for (i, node) in nodes.iter_mut().enumerate() {
        let name = node.description.clone();
        let bad = |what: &str| FormatError::new(0, format!("node {i} ('{name}'): {what}"));
        if node.ports.is_empty() {
            return Err(bad("it has no ports; port 0 is the first in 'ports'"));
        }
        for (p, port) in node.ports.iter_mut().enumerate() {
            let bad = |what: String| bad(&format!("port {p}: {what}"));
            // Derived deserializers accept any number.
            if port.lid.is_some_and(|lid| Lid::new(lid.get()).is_none()) || Lmc::new(port.lmc.get()).is_none()
            {
                return Err(bad("a LID or LMC is out of range".to_owned()));
            }
            if let Some(vls) = port.data_vls.filter(|vls| !(1..=Vl::MAX_DATA).contains(vls)) {
                return Err(bad(format!("data_vls must be 1 to {}, not {vls}", Vl::MAX_DATA)));
            }
            if port.untrusted && (p == 0 || port.peer.is_some()) {
                return Err(bad(
                    "it is untrusted, which only a port is whose cable leads to a node that is left \
                                out: give it no peer"
                        .to_owned(),
                ));
            }
            if let Some(peer) = port.peer.take() {
                if peer.node.index() >= count || p > usize::from(u8::MAX) {
                    return Err(bad("its cable leads to no node".to_owned()));
                }
                cables.push((PortRef { node: NodeId::at(i), port: PortNum(p as u8) }, peer));
            }
        }
    }
    if !nodes.iter().any(Node::is_switch) {
        return Err(FormatError::new(0, "no switch in the file"));
    }
    let mut builder = FabricBuilder::new();
    for node in nodes {
        builder.add(node).map_err(|e| FormatError::fabric(0, &e))?;
    }
    for (a, b) in cables {
        builder.connect(a, b).map_err(|e| FormatError::fabric(0, &e))?;
    }
    let fabric = builder.finish(Lmc::default()).map_err(|e| FormatError::fabric(0, &e))?;
    super::distinct_port_guids(&fabric, |_| Vec::new())?;
    Ok(fabric)
}

/// Writes a fabric.
///
/// # Errors
/// Those of the output.
pub fn write(out: &mut impl Write, fabric: &Fabric) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &Document { format: FORMAT.into(), nodes: fabric.nodes().into() })?;
    writeln!(out)
}
