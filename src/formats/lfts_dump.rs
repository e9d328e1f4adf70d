//! `opensm-lfts.dump`: the forwarding tables as OpenSM dumps them and as its `routing_engine file`
//! loads them back.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};

use super::lines::{Lines, guid, hex, one_line, quote};
use super::{FormatError, Warning, Warnings};
use crate::fabric::{Fabric, Guid, Lid, NodeKind, PortNum, SwitchId};
use crate::tables::Lft;

/// Reads the tables of the switches of `fabric`, matched by GUID or else by description. Switches
/// and LIDs that the fabric does not have are passed over with a warning.
///
/// # Errors
/// A line that is not of this form, a port that the switch does not have, a switch stated twice.
pub fn read(input: impl BufRead, fabric: &Fabric) -> Result<(Lft, Vec<Warning>), FormatError> {
    let switches = Switches::new(fabric);
    let mut lft = Lft::new(fabric);
    let mut warnings = Warnings::default();
    let mut seen = vec![0; fabric.num_switches()];
    let mut current = None;
    let mut headers = 0;
    let mut lines = Lines::new(input);
    while let Some((number, line)) = lines.next()? {
        if let Some(header) = line.strip_prefix("Unicast lids") {
            headers += 1;
            let bad = || FormatError::new(number, "the header of a switch names no GUID");
            let (_, rest) = header.split_once(" guid ").ok_or_else(bad)?;
            let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let guid = guid(word).ok_or_else(bad)?;
            let name = rest.split_once("('").and_then(|(_, n)| n.rsplit_once("')")).map(|(n, _)| n);
            current = switches.find(guid, name);
            match current {
                None => warnings.add(number, "switch that the fabric does not have"),
                Some(SwitchId(s)) => {
                    let first = std::mem::replace(&mut seen[s as usize], number);
                    if first != 0 {
                        let reason = format!("switch {guid} was stated before, on line {first}");
                        return Err(FormatError::new(number, reason));
                    }
                }
            }
        } else if line.starts_with("0x") {
            if headers == 0 {
                return Err(FormatError::new(number, "an entry before the first switch"));
            }
            let Some(switch) = current else { continue };
            let mut words = line.split_whitespace();
            let lid = words.next().and_then(hex);
            let port = words.next().and_then(|w| w.parse::<u64>().ok());
            let (Some(lid), Some(port)) = (lid, port) else {
                return Err(FormatError::new(number, format!("no LID and port in {}", quote(&line))));
            };
            set(&mut lft, fabric, switch, lid, port, &mut warnings, number)?;
        } else if !line.is_empty() && !line.starts_with('#') && !line.ends_with("lids dumped") {
            warnings.add(number, "text that is no entry was passed over");
        }
    }
    if headers == 0 {
        return Err(FormatError::new(0, "no switch in it").hint("OpenSM writes such files with -D 0x43"));
    }
    note_missing(&seen, &mut warnings);
    Ok((lft, warnings.0))
}

/// Puts an entry as read into the tables.
pub(super) fn set(
    lft: &mut Lft,
    fabric: &Fabric,
    switch: SwitchId,
    lid: u64,
    port: u64,
    warnings: &mut Warnings,
    line: usize,
) -> Result<(), FormatError> {
    let num_ports = fabric.switch(switch).num_ports();
    if port > u64::from(num_ports) {
        let reason = format!("port {port} of a switch with {num_ports} ports");
        return Err(FormatError::new(line, reason).hint("the tables may belong to another fabric"));
    }
    match u16::try_from(lid).ok().and_then(Lid::new).filter(|&l| fabric.owner_of(l).is_some()) {
        Some(lid) => lft.set(switch, lid, PortNum(port as u8)),
        None => warnings.add(line, "entry for a LID that the fabric does not have"),
    }
    Ok(())
}

/// Warns of switches without a table. `seen`: line of each switch's header, 0 where there is none.
pub(super) fn note_missing(seen: &[usize], warnings: &mut Warnings) {
    for _ in seen.iter().filter(|&&line| line == 0) {
        warnings.add(0, "switch of the fabric that has no table here");
    }
}

/// Finds switches by GUID, and by description those of which the fabric's source states no GUID.
pub(super) struct Switches<'a> {
    by_guid: HashMap<Guid, SwitchId>,
    by_name: HashMap<&'a str, Option<SwitchId>>,
}

impl<'a> Switches<'a> {
    pub(super) fn new(fabric: &'a Fabric) -> Self {
        let (mut by_guid, mut by_name) = (HashMap::new(), HashMap::new());
        for s in fabric.switch_ids() {
            let node = fabric.switch(s);
            by_guid.insert(node.guid, s);
            // A name that two switches share names none.
            by_name.entry(node.description.as_str()).and_modify(|e| *e = None).or_insert(Some(s));
        }
        Self { by_guid, by_name }
    }

    pub(super) fn find(&self, guid: Guid, name: Option<&str>) -> Option<SwitchId> {
        let by_name = || name.and_then(|n| self.by_name.get(n).copied().flatten());
        self.by_guid.get(&guid).copied().or_else(by_name)
    }
}

/// Writes the tables as OpenSM does, switches in GUID order.
///
/// # Errors
/// Those of the output.
///
/// Cost: about 70 bytes for each switch and LID, copied from parts that are formatted once.
pub fn write(out: &mut impl Write, fabric: &Fabric, lft: &Lft) -> io::Result<()> {
    let max = fabric.lid_table_len().saturating_sub(1);
    let parts: Vec<Option<(String, String)>> = (0..=max)
        .map(|raw| {
            let owner = Lid::new(raw as u16).and_then(|lid| fabric.owner_of(lid))?;
            let e = fabric.endport(owner);
            let kind = kind_name(e.kind);
            let name = one_line(&fabric.node(e.node).description).into_owned();
            Some((format!("0x{raw:04x} "), format!(" # {kind} portguid {}: '{name}'\n", e.guid)))
        })
        .collect();
    let ports: Vec<String> = (0..=u8::MAX).map(|p| format!("{p:03}")).collect();
    for s in fabric.switch_ids() {
        let node = fabric.switch(s);
        writeln!(
            out,
            "Unicast lids [0-{max}] of switch Lid {} guid {} ('{}'):",
            node.ports[0].lid.map_or(0, Lid::get),
            node.guid,
            one_line(&node.description)
        )?;
        for (&port, part) in lft.row(s).iter().zip(&parts) {
            if let (Some((head, tail)), true) = (part, port <= node.num_ports()) {
                out.write_all(head.as_bytes())?;
                out.write_all(ports[usize::from(port)].as_bytes())?;
                out.write_all(tail.as_bytes())?;
            }
        }
        writeln!(out, "{max} lids dumped")?;
    }
    Ok(())
}

/// OpenSM's words for the node types.
pub(super) fn kind_name(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Switch => "Switch",
        NodeKind::ChannelAdapter => "Channel Adapter",
        NodeKind::Router => "Router",
    }
}
