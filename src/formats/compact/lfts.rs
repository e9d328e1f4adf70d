//! `lfts.dfdn`: forwarding tables.

use std::io::{self, BufRead, Write};

use super::{Kind, Packer, Unpacker};
use crate::fabric::{Fabric, Lid, PortNum};
use crate::formats::{FormatError, Warning, Warnings};
use crate::tables::Lft;

/// Reads the tables of the switches of `fabric`, matched by GUID or else by description. Warns of
/// switches and LIDs that are not in the fabric and ignores them.
///
/// # Errors
/// A file that is not in this format, truncated or damaged; a port that the switch does not have.
pub fn read(input: impl BufRead, fabric: &Fabric) -> Result<(Lft, Vec<Warning>), FormatError> {
    let mut warnings = Warnings::default();
    let (mut file, head) = Unpacker::begin(input, Kind::Lfts)?;
    let switches = head.switches_of(fabric, &mut warnings)?;
    let mut lft = Lft::new(fabric);
    let mut row = vec![0; switches.len()];
    for raw in 0..head.lids {
        file.take(&mut row)?;
        let lid = Lid::new(raw as u16).filter(|&lid| fabric.owner_of(lid).is_some());
        let Some(lid) = lid else {
            if row.iter().any(|&port| port != Lft::NO_PATH) {
                warnings.add(0, "entry for a LID not in the fabric");
            }
            continue;
        };
        let column = lft.to_mut(lid);
        for (&port, &switch) in row.iter().zip(&switches) {
            let Some(s) = switch.filter(|_| port != Lft::NO_PATH) else { continue };
            let num_ports = fabric.switch(s).num_ports();
            if port > num_ports {
                let port = PortNum(port);
                let name = fabric.describe_switch(s);
                let reason = format!("LID {lid} leads to port {port} of {name}, which has {num_ports} ports");
                return Err(FormatError::new(0, reason).hint(crate::formats::OTHER_FABRIC));
            }
            column[s.index()] = port;
        }
    }
    file.end()?;
    Ok((lft, warnings.0))
}

/// Writes the tables.
///
/// # Errors
/// Those of the output.
///
/// Cost: one byte per switch and LID, compressed on all cores.
pub fn write(out: &mut impl Write, fabric: &Fabric, lft: &Lft) -> io::Result<()> {
    let mut file = Packer::begin(out, Kind::Lfts, fabric)?;
    let nowhere = vec![Lft::NO_PATH; fabric.num_switches()];
    for raw in 0..fabric.lid_table_len() {
        let lid = Lid::new(raw as u16).filter(|&lid| fabric.owner_of(lid).is_some());
        file.put(lid.map_or(&nowhere, |lid| lft.to(lid)))?;
    }
    file.finish()
}
