//! `opensm.fdbs`: the forwarding tables with hop counts, as OpenSM dumps them and ibdmchk reads them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, BufRead, Write};

use super::lfts_dump::{Reader, Switches};
use super::lines::{Lines, guid, hex, leading_lid};
use super::{FormatError, Warning};
use crate::fabric::{EndPortId, Fabric, Lid, PortNum, SwitchId};
use crate::tables::Lft;

/// Reads the tables of the switches of `fabric`, matched by GUID. Hop counts are ignored. Where a switch has several tables
/// (`PLFT_NUM`), the first one counts; `ibdiagnet2.far` has all.
///
/// # Errors
/// A line that is not in this format, a port that the switch does not have, a switch stated twice.
pub fn read(input: impl BufRead, fabric: &Fabric) -> Result<(Lft, Vec<Warning>), FormatError> {
    let mut tables = Reader::new(fabric);
    let mut lines = Lines::new(input);
    while let Some((number, line)) = lines.next()? {
        match what(&line) {
            Line::Switch(guid) => tables.begin(number, guid, None)?,
            Line::Further(further) => tables.further = further,
            Line::Entry(lid, port) => tables.entry(number, &line, lid, port)?,
            Line::Other => tables.warnings.add(number, "ignored text that is not an entry"),
            Line::Title => {}
        }
    }
    tables.finish()
}

/// What a line is.
enum Line<'a> {
    /// The GUID.
    Switch(&'a str),
    /// Whether entries of a further table of the switch follow (pLFT).
    Further(bool),
    /// The LID and the port; `Some(None)` if it is unreachable.
    Entry(Option<u64>, Option<Option<u64>>),
    Title,
    Other,
}

fn what(line: &str) -> Line<'_> {
    if let Some((_, rest)) = line.split_once("Switch 0x") {
        Line::Switch(rest.split_whitespace().next().unwrap_or_default())
    } else if let Some(number) = line.strip_prefix("PLFT_NUM:") {
        Line::Further(number.trim() != "0")
    } else if line.starts_with("0x") {
        let mut fields = line.split(':').map(str::trim);
        let lid = fields.next().and_then(hex);
        let port = match fields.next() {
            Some("UNREACHABLE") => Some(None),
            field => field.and_then(|p| p.parse().ok()).map(Some),
        };
        Line::Entry(lid, port)
    } else if line.is_empty() || line.starts_with("LID") || line.starts_with('#') {
        Line::Title
    } else {
        Line::Other
    }
}

/// LIDs that no end port of `fabric` has, each with the end port to which a switch delivers it.
///
/// # Errors
/// Those of the input.
pub(super) fn delivered(
    input: impl BufRead,
    fabric: &Fabric,
) -> Result<BTreeMap<Lid, EndPortId>, FormatError> {
    let switches = Switches::new(fabric);
    let ids = (0..fabric.endports().len()).map(EndPortId::at);
    let attached: HashMap<(SwitchId, PortNum), EndPortId> =
        ids.filter_map(|id| Some((fabric.endport(id).attachment?, id))).collect();
    let mut found = BTreeMap::new();
    let mut switch = None;
    let mut lines = Lines::new(input);
    while let Some((_, line)) = lines.next_bytes()? {
        if leading_lid(line).is_some_and(|lid| fabric.owner_of(lid).is_some()) {
            continue;
        }
        match (what(&String::from_utf8_lossy(line)), switch) {
            (Line::Switch(word), _) => switch = guid(word).and_then(|guid| switches.find(guid, None)),
            (Line::Entry(Some(lid), Some(Some(port))), Some(switch)) => {
                let lid = u16::try_from(lid).ok().and_then(Lid::new);
                let Some(lid) = lid.filter(|&lid| fabric.owner_of(lid).is_none()) else { continue };
                let end = u8::try_from(port).ok().and_then(|port| attached.get(&(switch, PortNum(port))));
                if let Some(&end) = end {
                    found.insert(lid, end);
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Writes the tables as OpenSM does. Hops are those of a shortest path that starts with the entry's
/// port, including the cable to an adapter.
///
/// # Errors
/// Those of the output.
///
/// Cost: O(S (S + channels) + S L) time and S^2 bytes for S switches and L LIDs.
pub fn write(out: &mut impl Write, fabric: &Fabric, lft: &Lft) -> io::Result<()> {
    let n = fabric.num_switches();
    let mut distance = vec![u8::MAX; n * n];
    for s in fabric.switch_ids() {
        distances_to(fabric, s, &mut distance[s.index() * n..][..n]);
    }
    for s in fabric.switch_ids() {
        let node = fabric.switch(s);
        writeln!(out, "dump_ucast_routes: Switch {}\nLID    : Port : Hops : Optimal", node.guid)?;
        for raw in 1..fabric.lid_table_len() {
            let owner = Lid::new(raw as u16).and_then(|lid| Some((lid, fabric.owner_of(lid)?)));
            let Some((port, owner)) = owner.and_then(|(lid, owner)| Some((lft.get(s, lid)?, owner))) else {
                writeln!(out, "0x{raw:04X} : UNREACHABLE")?;
                continue;
            };
            let e = fabric.endport(owner);
            let Some((dest, last)) = e.attachment else {
                writeln!(out, "0x{raw:04X} : UNREACHABLE")?;
                continue;
            };
            let to_dest = &distance[dest.index() * n..][..n];
            let adapter = u32::from(e.is_adapter());
            let via = |p: PortNum| match fabric.channels().at_port(s, p) {
                Some(c) => match to_dest[fabric.channels().get(c).to.index()] {
                    u8::MAX => None,
                    hops => Some(u32::from(hops) + 1 + adapter),
                },
                None => (s == dest && p == last).then_some(adapter),
            };
            let port_number = port.0;
            let Some(hops) = via(port) else {
                writeln!(out, "0x{raw:04X} : {port_number:03}  : HOPS UNKNOWN")?;
                continue;
            };
            write!(out, "0x{raw:04X} : {port_number:03}  : {hops:02}   : ")?;
            let best = u32::from(to_dest[s.index()]) + adapter;
            if best == hops {
                writeln!(out, "yes")?;
            } else {
                let good = (0..=node.num_ports()).find(|&p| via(PortNum(p)) == Some(best)).unwrap_or(0);
                writeln!(out, "No {best} hop path possible via port {good}!")?;
            }
        }
    }
    Ok(())
}

/// The approximate number of bytes that [`write`] writes.
pub(super) fn bytes(fabric: &Fabric) -> u64 {
    fabric.num_switches() as u64 * (80 + 27 * fabric.lid_table_len() as u64)
}

/// Hops from each switch to `dest`, 255 if there is no path or a longer one.
fn distances_to(fabric: &Fabric, dest: SwitchId, distance: &mut [u8]) {
    distance[dest.index()] = 0;
    let mut queue = VecDeque::from([dest]);
    while let Some(s) = queue.pop_front() {
        let next = distance[s.index()].saturating_add(1);
        for (_, c) in fabric.channels().out(s) {
            if distance[c.to.index()] > next {
                distance[c.to.index()] = next;
                queue.push_back(c.to);
            }
        }
    }
}
