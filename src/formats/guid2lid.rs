//! OpenSM's file of assigned LIDs, `guid2lid`: `0xPORT_GUID 0xfirst_lid 0xlast_lid`.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};

use super::lines::{Lines, guid, hex, quote};
use super::{FormatError, Warning, Warnings};
use crate::fabric::{Fabric, FabricBuilder, Guid, Lid, Lmc, NodeId, NodeKind};

/// Assigns the LIDs of the file to a fabric. End ports that are not in the file keep theirs.
///
/// # Errors
/// A line that is not in this format, a range that is not of 2^LMC LIDs, a LID assigned twice.
pub fn read(input: impl BufRead, fabric: &Fabric) -> Result<(Fabric, Vec<Warning>), FormatError> {
    let mut builder = FabricBuilder::from_fabric(fabric);
    let mut ports: HashMap<Guid, (NodeId, usize)> = HashMap::new();
    for (i, node) in fabric.nodes().iter().enumerate() {
        let end = if node.kind == NodeKind::Switch { 0..1 } else { 1..node.ports.len() };
        ports.extend(end.map(|p| (node.ports[p].guid, (NodeId::at(i), p))));
    }
    let mut warnings = Warnings::default();
    let mut lines = Lines::new(input);
    while let Some((number, line)) = lines.next()? {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = || FormatError::new(number, format!("no GUID and LID range in {}", quote(&line)));
        let mut words = line.split_whitespace();
        let guid = words.next().and_then(guid).ok_or_else(bad)?;
        let first = words.next().and_then(hex).ok_or_else(bad)?;
        let last = words.next().and_then(hex).ok_or_else(bad)?;
        let base = u16::try_from(first).ok().and_then(Lid::new);
        let lids = last.checked_sub(first).map_or(0, |n| n.saturating_add(1));
        let lmc = (0..=7).find(|&lmc| 1 << lmc == lids).and_then(Lmc::new);
        let (Some(base), Some(lmc), None) = (base, lmc, words.next()) else { return Err(bad()) };
        match ports.get(&guid) {
            Some(&(node, port)) => {
                let port = &mut builder.node_mut(node).ports[port];
                (port.lid, port.lmc) = (Some(base), lmc);
            }
            None => warnings.add(number, "port not in the fabric"),
        }
    }
    let fabric = builder.finish(Lmc::default()).map_err(|e| FormatError::fabric(0, &e))?;
    Ok((fabric, warnings.0))
}

/// Writes the LIDs of all end ports as OpenSM does, in port GUID order, each followed by an empty
/// line.
///
/// # Errors
/// Those of the output; two end ports that share a GUID, as OpenSM could not tell whose LID it is.
pub fn write(out: &mut impl Write, fabric: &Fabric) -> io::Result<()> {
    if let Some(twice) = fabric.endports().windows(2).find(|w| w[0].guid == w[1].guid) {
        let reason = format!("guid2lid: port GUID {} is used twice", twice[0].guid);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    for e in fabric.endports() {
        let first = e.lid.get();
        writeln!(out, "{} 0x{first:04x} 0x{:04x}\n", e.guid, first + (e.lmc.lids() - 1))?;
    }
    Ok(())
}
