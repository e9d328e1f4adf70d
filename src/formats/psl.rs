//! Path SLs in ibdmchk's format: `0xSOURCE_NODE_GUID destination_lid sl`.
//!
//! The source is a node, so a line holds for all its ports. If the ports of one node differ, each has lines of its own
//! after our comment `# dfdn port 0xPORT_GUID`. Lines that contradict each other leave the pair unknown, so that
//! every SL is checked on it.
//!
//! With several classes of service the file has the SLs of class 0. Its first line is our comment
//! `# dfdn classes N`: the SLs of class q are higher by q. ibdmchk ignores comments.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};

use super::lines::{Lines, guid, quote};
use super::{FormatError, Warning, Warnings};
use crate::fabric::{EndPortId, Fabric, Guid, Lid, NodeId, Sl, Vl};
use crate::tables::{ClassSl, Classes, PathSl};

/// Precedes the number of classes of service.
const HEAD: &str = "# dfdn classes ";

/// Precedes the port of the lines that follow.
const PORT: &str = "# dfdn port ";

/// Reads the SLs; pairs that are not stated are [`PathSl::UNKNOWN`].
///
/// # Errors
/// A line that is not in this format, an SL that is not of class 0 or leaves no room for the other
/// classes, a number of classes after the first pair.
pub fn read(input: impl BufRead, fabric: &Fabric) -> Result<(PathSl, Vec<Warning>), FormatError> {
    let ports = ports_of_nodes(fabric);
    let by_guid: HashMap<Guid, NodeId> =
        fabric.nodes().iter().enumerate().map(|(i, n)| (n.guid, NodeId::at(i))).collect();
    let stride = fabric.lid_table_len();
    let mut table = vec![PathSl::UNKNOWN; fabric.endports().len() * stride];
    let mut classes: Option<u8> = None;
    let mut stated_port: Option<Guid> = None;
    let mut contradicted = std::collections::HashSet::new();
    let mut warnings = Warnings::default();
    let mut lines = Lines::new(input);
    while let Some((number, line)) = lines.next()? {
        if let Some(words) = line.strip_prefix(HEAD) {
            let stated = words.trim().parse().ok().filter(|n| (1..=Vl::MAX_DATA).contains(n));
            let bad = || format!("{} is not a number of classes", quote(words.trim()));
            if classes.replace(stated.ok_or_else(|| FormatError::new(number, bad()))?).is_some() {
                return Err(FormatError::new(
                    number,
                    "the number of classes must be stated once, before all pairs".to_owned(),
                ));
            }
            continue;
        }
        if let Some(word) = line.strip_prefix(PORT) {
            let bad = || FormatError::new(number, format!("{} is not a port GUID", quote(word.trim())));
            stated_port = Some(guid(word.trim()).ok_or_else(bad)?);
            continue;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = || FormatError::new(number, format!("no 'GUID LID SL' in {}", quote(&line)));
        let mut words = line.split_whitespace();
        let guid = words.next().filter(|w| w.starts_with("0x")).and_then(guid).ok_or_else(bad)?;
        let lid: u64 = words.next().and_then(|w| w.parse().ok()).ok_or_else(bad)?;
        let sl: u8 = words.next().and_then(|w| w.parse().ok()).ok_or_else(bad)?;
        if words.next().is_some() {
            return Err(bad());
        }
        if usize::from(sl) >= Sl::COUNT {
            return Err(FormatError::new(number, format!("SL {sl} is above 15")));
        }
        let classes = *classes.get_or_insert(1);
        if sl % classes != 0 || usize::from(sl + classes) > Sl::COUNT {
            return Err(FormatError::new(number, format!("SL {sl} is not of class 0 of {classes} classes")));
        }
        let sl = sl / classes;
        let Some(node) = by_guid.get(&guid) else {
            warnings.add(number, "source not in the fabric");
            continue;
        };
        let lid = u16::try_from(lid).ok().and_then(Lid::new).filter(|&l| fabric.owner_of(l).is_some());
        let Some(lid) = lid else {
            warnings.add(number, "destination LID not in the fabric");
            continue;
        };
        let ports = &ports[node.index()];
        let is_stated = |port: &&EndPortId| Some(fabric.endport(**port).guid) == stated_port;
        // A comment holds for the lines of its own node.
        let only = ports.iter().find(is_stated).map(std::slice::from_ref);
        for port in only.unwrap_or(ports) {
            let entry = &mut table[port.index() * stride + lid.index()];
            if *entry == PathSl::UNKNOWN && !contradicted.contains(&(*port, lid)) {
                *entry = sl;
            } else if *entry != PathSl::UNKNOWN && *entry != sl {
                *entry = PathSl::UNKNOWN;
                contradicted.insert((*port, lid));
                warnings.add(number, "pair stated before with another SL: its SL counts as unknown");
            }
        }
    }
    let unstated = |source: EndPortId, lid: Lid| {
        let unknown = table[source.index() * stride + lid.index()] == PathSl::UNKNOWN;
        unknown && !contradicted.contains(&(source, lid))
    };
    let lids_of = |source: EndPortId| {
        let others = fabric.endports().iter().enumerate().filter(move |&(i, _)| i != source.index());
        others.flat_map(|(_, e)| e.lids())
    };
    let missing = |&source: &EndPortId| lids_of(source).filter(|&lid| unstated(source, lid)).count();
    let missing: usize = ports.iter().flatten().map(missing).sum();
    if missing > 0 {
        warnings.add(0, &format!("{missing} pairs are not stated: every SL may be used on them"));
    }
    let mut table = PathSl::ByEndPort(table);
    if let Some(classes) = classes.filter(|&n| n > 1) {
        // VL sets are not distinguished here: the SL2VL tables define the VLs.
        let classes = Classes { classes, vl_sets: 1, vls: 1, sls: Sl::COUNT as u8 / classes };
        table = PathSl::Classes(ClassSl { classes, own: Box::new(table), vl_set_of: Vec::new() });
    }
    Ok((table, warnings.0))
}

/// The end ports of each node that are attached to a switch.
fn ports_of_nodes(fabric: &Fabric) -> Vec<Vec<EndPortId>> {
    let mut ports = vec![Vec::new(); fabric.nodes().len()];
    for (i, e) in fabric.endports().iter().enumerate().filter(|(_, e)| e.attachment.is_some()) {
        ports[e.node.index()].push(EndPortId::at(i));
    }
    ports
}

/// Writes the SL from each node to each LID, its own and those of switches included (whose
/// management traffic can be part of a credit loop), sources in GUID order.
///
/// - `fabric`: the fabric.
/// - `classes`: number of classes of service.
/// - `assigned`: the SL of a pair in class 0; nothing is written for `None`.
///
/// # Errors
/// Those of the output.
///
/// Cost: about 25 bytes per pair, no memory.
pub fn write(
    out: &mut impl Write,
    fabric: &Fabric,
    classes: u8,
    assigned: impl Fn(EndPortId, Lid) -> Option<Sl>,
) -> io::Result<()> {
    if classes > 1 {
        writeln!(out, "{HEAD}{classes}")?;
    }
    let lid = |raw: usize| Lid::new(raw as u16).filter(|&lid| fabric.owner_of(lid).is_some());
    let tails: Vec<String> = (0..fabric.lid_table_len()).map(|lid| format!(" {lid} ")).collect();
    for (node, ports) in fabric.nodes().iter().zip(ports_of_nodes(fabric)) {
        let source = node.guid.to_string();
        let lids = || tails.iter().enumerate().filter_map(|(raw, tail)| Some((lid(raw)?, tail)));
        // No port sends to itself.
        let to = |port: EndPortId, lid| assigned(port, lid).filter(|_| fabric.owner_of(lid) != Some(port));
        let differ = |port: EndPortId| {
            let is_own = |lid| fabric.owner_of(lid).is_some_and(|owner| owner == port || owner == ports[0]);
            lids().any(|(lid, _)| !is_own(lid) && to(port, lid) != to(ports[0], lid))
        };
        let differ = ports.iter().skip(1).any(|&port| differ(port));
        for part in ports.chunks(if differ { 1 } else { ports.len().max(1) }) {
            if differ {
                writeln!(out, "{PORT}{}", fabric.endport(part[0]).guid)?;
            }
            for (lid, tail) in lids() {
                let of_part = part.iter().find_map(|&port| to(port, lid));
                if let Some(sl) = of_part.or_else(|| assigned(part[0], lid)) {
                    out.write_all(source.as_bytes())?;
                    out.write_all(tail.as_bytes())?;
                    writeln!(out, "{}", sl.0)?;
                }
            }
        }
    }
    Ok(())
}

/// The approximate number of bytes that [`write`] writes.
pub(super) fn bytes(fabric: &Fabric) -> u64 {
    let lids: u64 = fabric.endports().iter().map(|e| u64::from(e.lmc.lids())).sum();
    let sources = ports_of_nodes(fabric).iter().filter(|ports| !ports.is_empty()).count() as u64;
    let digits = fabric.lid_table_len().to_string().len() as u64;
    sources * lids * (22 + digits)
}
