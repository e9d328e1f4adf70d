//! SL to VL mappings in ibdmchk's own format: `0xSWITCH_NODE_GUID in out 0x01 0x23 … 0xef`, the VLs
//! of two SLs per byte. ibdmchk takes either this or `opensm-sl2vl.dump`.

use std::io::{self, BufRead, Write};

use super::lfts_dump::Switches;
use super::lines::{Lines, guid, hex, quote};
use super::sl2vl_dump::{Seen, Texts, linked_ports, rows};
use super::{FormatError, Warning, Warnings};
use crate::fabric::{Fabric, Guid, PortNum};
use crate::tables::{Sl2Vl, SlVlRow};

/// Reads the mappings of the switches of `fabric`. Where a row between two ports with links is not listed, packets are taken
/// to be dropped.
///
/// # Errors
/// A line that is not in this format, a port that the switch does not have.
pub fn read(input: impl BufRead, fabric: &Fabric) -> Result<(Sl2Vl, Vec<Warning>), FormatError> {
    let switches = Switches::new(fabric);
    let mut table = Sl2Vl::new(fabric);
    let mut seen = Seen::new(&table);
    let mut warnings = Warnings::default();
    let mut lines = Lines::new(input);
    while let Some((number, line)) = lines.next()? {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (guid, in_port, out_port, row) =
            row(&line).ok_or_else(|| FormatError::new(number, format!("{} is not a row", quote(&line))))?;
        let Some(switch) = switches.find(guid, None) else {
            warnings.add(number, "switch not in the fabric");
            continue;
        };
        if usize::from(in_port.max(out_port)) >= table.ports_of(switch) {
            let reason = format!("this switch has no port {}", in_port.max(out_port));
            return Err(FormatError::new(number, reason));
        }
        let ports = (PortNum(in_port), PortNum(out_port));
        seen.set(&mut table, switch, ports, row).map_err(|why| FormatError::new(number, why))?;
    }
    seen.fill(fabric, &mut table, &mut warnings);
    Ok((table, warnings.0))
}

fn row(line: &str) -> Option<(Guid, u8, u8, SlVlRow)> {
    let mut words = line.split_whitespace();
    let guid = guid(words.next()?)?;
    let (in_port, out_port) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let mut bits = 0;
    for _ in 0..8 {
        bits = bits << 8 | hex(words.next()?).filter(|&byte| byte <= 0xff)?;
    }
    words.next().is_none().then_some((guid, in_port, out_port, SlVlRow(bits)))
}

/// Writes a row for each pair of an in port and an out port that has a link.
///
/// # Errors
/// Those of the output.
pub fn write(out: &mut impl Write, fabric: &Fabric, table: &Sl2Vl) -> io::Result<()> {
    let mut texts = Texts::new(|row| row.0.to_be_bytes().map(|byte| format!(" 0x{byte:02x}")).concat());
    for s in fabric.switch_ids() {
        let node = fabric.switch(s);
        let guid = node.guid.to_string();
        for out_port in linked_ports(fabric, s) {
            for in_port in 0..=node.num_ports() {
                let row = table.row(s, PortNum(in_port), PortNum(out_port));
                writeln!(out, "{guid} {in_port} {out_port}{}", texts.of(row))?;
            }
        }
    }
    Ok(())
}

/// The approximate number of bytes that [`write`] writes.
pub(super) fn bytes(fabric: &Fabric) -> u64 {
    65 * rows(fabric)
}
