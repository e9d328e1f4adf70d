//! `opensm-sl2vl.dump`: the SL to VL mappings as OpenSM dumps them, a section per end port.
//!
//! Ports without a link are not listed. The sections of adapters and routers give the VLs on injection.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, Write};

use super::lfts_dump::kind_name;
use super::lines::{Lines, guid, one_line, quote};
use super::{FormatError, Warning, Warnings};
use crate::fabric::{EndPortId, Fabric, Guid, PortNum, Sl, SwitchId, Vl};
use crate::tables::{Sl2Vl, SlVlRow};

const HEAD: &str = "#in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15";
const RULE: &str = "#--------------------------------------------------------";

/// Reads the mappings of the switches of `fabric`, matched by the GUID of port 0 or else by
/// description, and the row of all adapters. What is not listed maps to VL 0.
///
/// Where adapters differ, each SL has the VL that most of them give it; it has VL 15 only if all of them drop it.
///
/// # Errors
/// A line that is not in this format, a port that the switch does not have, a VL above 15.
pub fn read(input: impl BufRead, fabric: &Fabric) -> Result<(Sl2Vl, Vec<Warning>), FormatError> {
    let by_guid: HashMap<Guid, SwitchId> =
        fabric.switch_ids().map(|s| (fabric.switch(s).ports[0].guid, s)).collect();
    let names = super::lfts_dump::Switches::new(fabric);
    let adapters_by_guid: HashMap<Guid, EndPortId> =
        fabric.adapters().map(|(id, end)| (end.guid, id)).collect();
    let mut table = Sl2Vl::new(fabric);
    let mut warnings = Warnings::default();
    let mut current = None;
    let mut seen = Seen::new(&table);
    let mut adapters = AdapterRows::default();
    let mut sections = 0;
    let mut lines = Lines::new(input);
    while let Some((number, line)) = lines.next()? {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with(|c: char| c.is_ascii_digit()) {
            if sections == 0 {
                return Err(FormatError::new(number, "a row before the first node"));
            }
            let Some(section) = current else { continue };
            let (in_port, out_port, row) = row(&line).ok_or_else(|| {
                FormatError::new(number, format!("{} is not a row of 16 VLs", quote(&line)))
            })?;
            let switch = match section {
                Section::Switch(switch) => switch,
                Section::Adapter { known } => {
                    if adapters.differ_from(row) {
                        warnings.add(number, "adapters differ: each SL has the VL of most of them");
                    }
                    adapters.add(row, known);
                    continue;
                }
            };
            let slots = table.ports_of(switch);
            if in_port >= slots || out_port >= slots {
                let reason =
                    format!("no ports {in_port} and {out_port} on a switch with {} ports", slots - 1);
                return Err(FormatError::new(number, reason));
            }
            let ports = (PortNum(in_port as u8), PortNum(out_port as u8));
            seen.set(&mut table, switch, ports, row).map_err(|why| FormatError::new(number, why))?;
        } else if let Some(rest) = line.strip_prefix("Switch ") {
            sections += 1;
            let (word, rest) = rest.split_once(',').unwrap_or((rest, ""));
            let guid =
                guid(word.trim()).ok_or_else(|| FormatError::new(number, "switch header without a GUID"))?;
            let name = rest.split_once('"').and_then(|(_, n)| n.rsplit_once('"')).map(|(n, _)| n);
            current = by_guid.get(&guid).copied().or_else(|| names.find(guid, name)).map(Section::Switch);
            if current.is_none() {
                warnings.add(number, "switch not in the fabric");
            }
        } else if let Some(rest) =
            line.strip_prefix("Channel Adapter ").or_else(|| line.strip_prefix("Router "))
        {
            sections += 1;
            let word = rest.split_once(',').map_or(rest, |(word, _)| word);
            let known = guid(word.trim()).and_then(|guid| adapters_by_guid.get(&guid).copied());
            current = Some(Section::Adapter { known });
        } else {
            warnings.add(number, "ignored text that is not a row");
        }
    }
    if sections == 0 {
        return Err(FormatError::new(0, "no node in the file"));
    }
    let mut unsent = std::mem::take(&mut adapters.unsent);
    let row = adapters.of_all(fabric.adapters().count());
    unsent.values_mut().for_each(|sls| *sls &= !dropped(row));
    unsent.retain(|_, sls| *sls != 0);
    table.set_adapters(row);
    table.set_withheld(unsent);
    seen.fill(fabric, &mut table, &mut warnings);
    Ok((table, warnings.0))
}

/// Which rows of switches a file has, by [`Sl2Vl::index`].
pub(super) struct Seen(Vec<bool>);

impl Seen {
    pub(super) fn new(table: &Sl2Vl) -> Self {
        Self(vec![false; table.rows().len()])
    }

    /// Puts a row into the table.
    ///
    /// # Errors
    /// Another row of the same ports.
    pub(super) fn set(
        &mut self,
        table: &mut Sl2Vl,
        switch: SwitchId,
        (in_port, out_port): (PortNum, PortNum),
        row: SlVlRow,
    ) -> Result<(), String> {
        let known = std::mem::replace(&mut self.0[table.index(switch, in_port, out_port)], true);
        if known && table.row(switch, in_port, out_port) != row {
            return Err(format!(
                "another row from port {in_port} to port {out_port} of this switch came before"
            ));
        }
        table.set(switch, in_port, out_port, row);
        Ok(())
    }

    /// What a file leaves out is unknown: packets from one port with a link to another are taken to be dropped there, so that
    /// nothing is called safe for want of rows. A switch may have no rows for its own packets: these have VL 0 then.
    pub(super) fn fill(&self, fabric: &Fabric, table: &mut Sl2Vl, warnings: &mut Warnings) {
        for s in fabric.switch_ids() {
            let seen = |port: u8| self.0[table.index(s, PortNum::ZERO, PortNum(port))];
            let own = linked_ports(fabric, s).any(seen).then_some(0);
            for out_port in linked_ports(fabric, s) {
                for in_port in linked_ports(fabric, s).chain(own).filter(|&port| port != out_port) {
                    let (in_port, out_port) = (PortNum(in_port), PortNum(out_port));
                    if !self.0[table.index(s, in_port, out_port)] {
                        warnings.add(0, MISSING);
                        table.set(s, in_port, out_port, SlVlRow::uniform(Vl(Vl::MAX_DATA)));
                    }
                }
            }
        }
    }
}

/// What is said of a row that a file leaves out.
pub(super) const MISSING: &str =
    "no row for two ports of a switch: all packets are taken to be dropped there";

/// Whose rows follow.
#[derive(Clone, Copy)]
enum Section {
    Switch(SwitchId),
    /// An adapter or a router, if the fabric has it.
    Adapter {
        known: Option<EndPortId>,
    },
}

/// What the rows of adapters have.
#[derive(Default)]
struct AdapterRows {
    first: Option<SlVlRow>,
    /// Rows of adapters that the fabric has.
    known: usize,
    /// By SL and VL: the rows.
    counts: [[usize; 16]; Sl::COUNT],
    /// SLs that adapters of the fabric do not send, bit `n` = SL `n`.
    unsent: BTreeMap<EndPortId, u16>,
}

impl AdapterRows {
    fn differ_from(&self, row: SlVlRow) -> bool {
        self.first.is_some_and(|first| first != row)
    }

    fn add(&mut self, row: SlVlRow, known: Option<EndPortId>) {
        self.first.get_or_insert(row);
        if let Some(adapter) = known {
            self.known += 1;
            *self.unsent.entry(adapter).or_default() |= dropped(row);
        }
        row.vls().iter().zip(&mut self.counts).for_each(|(vl, count)| count[usize::from(vl.0)] += 1);
    }

    /// - `adapters`: how many there are. Those without a row send on VL 0.
    fn of_all(mut self, adapters: usize) -> SlVlRow {
        let silent = self.known < adapters.max(1);
        let data = usize::from(Vl::MAX_DATA);
        SlVlRow::from_vls(self.counts.each_mut().map(|count| {
            if silent && count[..data].iter().all(|&n| n == 0) {
                count[0] = 1;
            }
            let most = (0..data).rev().max_by_key(|&vl| count[vl]).filter(|&vl| count[vl] > 0);
            Vl(most.unwrap_or(data) as u8)
        }))
    }
}

/// The SLs that a row maps to VL 15, bit `n` = SL `n`.
fn dropped(row: SlVlRow) -> u16 {
    (0..).zip(row.vls()).filter(|(_, vl)| vl.0 == Vl::MAX_DATA).fold(0, |sls, (sl, _)| sls | 1_u16 << sl)
}

fn row(line: &str) -> Option<(usize, usize, SlVlRow)> {
    let (ports, vls) = line.split_once(':')?;
    let mut ports = ports.split_whitespace().map(|w| w.parse().ok());
    let (in_port, out_port) = (ports.next()??, ports.next()??);
    let mut row = [Vl(0); Sl::COUNT];
    let mut vls = vls.split_whitespace().map(|w| w.parse::<u8>().ok().filter(|&vl| vl < 16));
    for vl in &mut row {
        *vl = Vl(vls.next()??);
    }
    (ports.next().is_none() && vls.next().is_none()).then(|| (in_port, out_port, SlVlRow::from_vls(row)))
}

/// Writes the mappings as OpenSM does, end ports in GUID order.
///
/// # Errors
/// Those of the output.
pub fn write(out: &mut impl Write, fabric: &Fabric, table: &Sl2Vl) -> io::Result<()> {
    let mut texts = Texts::new(|row| row.vls().map(|vl| format!(" {:<2}", vl.0)).concat());
    for e in fabric.endports() {
        let node = fabric.node(e.node);
        writeln!(
            out,
            "{} {}, base LID {}, \"{}\"\n{HEAD}\n{RULE}",
            kind_name(e.kind),
            e.guid,
            e.lid,
            one_line(&node.description)
        )?;
        match fabric.switch_of(e.node) {
            None => writeln!(out, "0   0   :{}", texts.of(table.adapters()))?,
            Some(s) => {
                for out_port in linked_ports(fabric, s) {
                    for in_port in 0..=node.num_ports() {
                        let row = table.row(s, PortNum(in_port), PortNum(out_port));
                        writeln!(out, "{in_port:<3} {out_port:<3} :{}", texts.of(row))?;
                    }
                }
            }
        }
        writeln!(out, "{RULE}\n")?;
    }
    Ok(())
}

/// The approximate number of bytes that [`write`] writes.
pub(super) fn bytes(fabric: &Fabric) -> u64 {
    fabric.endports().len() as u64 * 240 + 58 * rows(fabric)
}

/// Number of pairs of a switch's in port and out port that have links.
pub(super) fn rows(fabric: &Fabric) -> u64 {
    let of = |s| linked_ports(fabric, s).count() as u64 * (u64::from(fabric.switch(s).num_ports()) + 1);
    fabric.switch_ids().map(of).sum()
}

/// The ports of a switch with a link, which OpenSM and ibdmchk expect.
pub(super) fn linked_ports(fabric: &Fabric, switch: SwitchId) -> impl Iterator<Item = u8> {
    let ports = &fabric.switch(switch).ports;
    (1..ports.len()).filter(|&p| ports[p].peer.is_some() && ports[p].state.is_used()).map(|p| p as u8)
}

/// The texts of rows, each made once: a table has few different ones.
pub(super) struct Texts {
    of_row: fn(SlVlRow) -> String,
    known: HashMap<SlVlRow, String>,
}

impl Texts {
    pub(super) fn new(of_row: fn(SlVlRow) -> String) -> Self {
        Self { of_row, known: HashMap::new() }
    }

    pub(super) fn of(&mut self, row: SlVlRow) -> &str {
        self.known.entry(row).or_insert_with(|| (self.of_row)(row))
    }
}
