//! `sl2vl.dfdn`: SL to VL mappings.

use std::io::{self, BufRead, Write};

use super::{Kind, Packer, Unpacker};
use crate::fabric::{Fabric, PortNum, SwitchId, Vl};
use crate::formats::{FormatError, Warning, Warnings};
use crate::tables::{Sl2Vl, SlVlRow};

/// Reads the mappings of the switches of `fabric`, matched by GUID or else by description. Switches
/// that are not in the file are taken to drop all packets.
///
/// # Errors
/// A file that is not in this format, truncated or damaged; a switch with a different number of
/// ports.
pub fn read(input: impl BufRead, fabric: &Fabric) -> Result<(Sl2Vl, Vec<Warning>), FormatError> {
    let mut warnings = Warnings::default();
    let (mut file, head) = Unpacker::begin(input, Kind::Sl2Vl)?;
    let switches = head.switches_of(fabric, &mut warnings)?;
    let mut table = Sl2Vl::new(fabric);
    let mut row = [0; 8];
    file.take(&mut row)?;
    table.set_adapters(SlVlRow(u64::from_be_bytes(row)));
    for (stated, &switch) in head.switches.iter().zip(&switches) {
        let side = usize::from(stated.ports) + 1;
        let mut rows = vec![0; side * side * 8];
        file.take(&mut rows)?;
        let Some(s) = switch else { continue };
        if table.ports_of(s) != side {
            let reason = format!(
                "{} has {} ports, but {} in this file",
                fabric.describe_switch(s),
                table.ports_of(s) - 1,
                stated.ports
            );
            return Err(FormatError::new(0, reason).hint(crate::formats::OTHER_FABRIC));
        }
        let first = table.index(s, PortNum::ZERO, PortNum::ZERO);
        for (to, from) in table.rows_mut()[first..].iter_mut().zip(rows.chunks_exact(8)) {
            *to = SlVlRow(u64::from_be_bytes(from.try_into().expect("eight bytes")));
        }
    }
    file.end()?;
    let is_missing = |s: &SwitchId| !switches.contains(&Some(*s));
    for s in fabric.switch_ids().filter(is_missing) {
        table.of_mut(s).fill(SlVlRow::uniform(Vl(Vl::MAX_DATA)));
        warnings.add(0, "no rows for a switch: all packets are taken to be dropped there");
    }
    Ok((table, warnings.0))
}

/// Writes the mappings.
///
/// # Errors
/// Those of the output.
pub fn write(out: &mut impl Write, fabric: &Fabric, table: &Sl2Vl) -> io::Result<()> {
    let mut file = Packer::begin(out, Kind::Sl2Vl, fabric)?;
    file.put(&table.adapters().0.to_be_bytes())?;
    for s in fabric.switch_ids() {
        let first = table.index(s, PortNum::ZERO, PortNum::ZERO);
        for row in &table.rows()[first..][..table.ports_of(s).pow(2)] {
            file.put(&row.0.to_be_bytes())?;
        }
    }
    file.finish()
}
