//! `psl.dfdn`: path SLs as a [`PathSl`] holds them, by the source's switch if that is enough.
//!
//! The body follows the header of all compact tables:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | `A`: any SL of a set serves every pair; `S`: by the source's switch; `E`: by the source's end port |
//! | 1, 1, 1, 1 | classes of service; VL sets per class, VLs and SLs per VL set, as in [`Classes`]. All are 0 without classes |
//! | with several VL sets: LIDs | the VL set of each LID |
//! | `A`: 2 | the set, bit n for SL n |
//! | `S`: LIDs x switches | for each LID from 0 on, the SL by switch, a byte each, 255 if unknown |
//! | `E`: end ports x LIDs | for each end port, the SL by LID |

use std::io::{self, BufRead, Write};

use super::{Head, Kind, Packer, Unpacker};
use crate::fabric::{Fabric, Lid, Sl};
use crate::formats::{FormatError, Warning, Warnings};
use crate::tables::{ClassSl, Classes, PathSl};

/// Reads the SLs; pairs that are not stated are [`PathSl::UNKNOWN`].
///
/// # Errors
/// A file that is not in this format, truncated or damaged; numbers out of range.
pub fn read(input: impl BufRead, fabric: &Fabric) -> Result<(PathSl, Vec<Warning>), FormatError> {
    let mut warnings = Warnings::default();
    let (mut file, head) = Unpacker::begin(input, Kind::Psl)?;
    let form = file.u8()?;
    let mut numbers = [0; 4];
    file.take(&mut numbers)?;
    let [classes, vl_sets, vls, sls] = numbers;
    let classes = match classes {
        0 => None,
        _ => {
            let blocks = u32::from(classes) * u32::from(vl_sets);
            if !(1..=16).contains(&(blocks * u32::from(sls)))
                || !(1..=15).contains(&(blocks * u32::from(vls)))
            {
                let reason = format!(
                    "{classes} classes of {vl_sets} VL sets with {vls} VLs and {sls} SLs each exceed the limits"
                );
                return Err(FormatError::new(0, reason));
            }
            Some(Classes { classes, vl_sets, vls, sls })
        }
    };
    let mut vl_set_of = Vec::new();
    if let Some(classes) = classes.filter(|c| c.vl_sets > 1) {
        vl_set_of = vec![0; head.lids];
        file.take(&mut vl_set_of)?;
        if let Some(set) = vl_set_of.iter().find(|&&set| set >= classes.vl_sets) {
            return Err(FormatError::new(0, format!("VL set {set} of {}, counted from 0", classes.vl_sets)));
        }
        vl_set_of.resize(fabric.lid_table_len(), 0);
    }
    let most = classes.map_or(Sl::COUNT as u8, |c| c.sls);
    let own = match form {
        b'A' => match file.u16()? {
            0 => return Err(FormatError::new(0, "no SL serves any pair")),
            set => PathSl::Any(set),
        },
        b'S' => PathSl::BySwitch(by_switch(&mut file, &head, fabric, most, &mut warnings)?),
        b'E' => PathSl::ByEndPort(by_end_port(&mut file, &head, fabric, most, &mut warnings)?),
        other => return Err(FormatError::new(0, format!("unknown form of path SLs: {other}"))),
    };
    file.end()?;
    let table = match classes {
        None => own,
        Some(classes) => PathSl::Classes(ClassSl { classes, own: Box::new(own), vl_set_of }),
    };
    Ok((table, warnings.0))
}

/// The table of [`PathSl::BySwitch`]. `most`: number of SLs.
fn by_switch(
    file: &mut Unpacker<impl BufRead>,
    head: &Head,
    fabric: &Fabric,
    most: u8,
    warnings: &mut Warnings,
) -> Result<Vec<u8>, FormatError> {
    let switches = head.switches_of(fabric, warnings)?;
    let stride = fabric.num_switches();
    let mut table = vec![PathSl::UNKNOWN; fabric.lid_table_len() * stride];
    let mut row = vec![0; switches.len()];
    for raw in 0..head.lids {
        file.take(&mut row)?;
        in_range(&row, most)?;
        let Some(lid) = owned(fabric, raw, &row, warnings) else { continue };
        for (&sl, switch) in row.iter().zip(&switches) {
            if let Some(s) = switch {
                table[lid.index() * stride + s.index()] = sl;
            }
        }
    }
    Ok(table)
}

/// The table of [`PathSl::ByEndPort`].
fn by_end_port(
    file: &mut Unpacker<impl BufRead>,
    head: &Head,
    fabric: &Fabric,
    most: u8,
    warnings: &mut Warnings,
) -> Result<Vec<u8>, FormatError> {
    let by_guid = head.endports_by_guid();
    let mut port_of = vec![None; head.endports.len()];
    for (i, e) in fabric.endports().iter().enumerate() {
        if let Some(&stated) = by_guid.get(&e.guid) {
            port_of[stated] = Some(i);
        }
    }
    let stride = fabric.lid_table_len();
    let mut table = vec![PathSl::UNKNOWN; fabric.endports().len() * stride];
    let mut row = vec![0; head.lids];
    for port in port_of {
        file.take(&mut row)?;
        in_range(&row, most)?;
        match port {
            Some(port) => {
                let shared = stride.min(head.lids);
                table[port * stride..][..shared].copy_from_slice(&row[..shared]);
            }
            None => warnings.add(0, "source not in the fabric"),
        }
    }
    Ok(table)
}

fn in_range(row: &[u8], most: u8) -> Result<(), FormatError> {
    match row.iter().find(|&&sl| sl >= most && sl != PathSl::UNKNOWN) {
        Some(sl) => Err(FormatError::new(0, format!("SL {sl} is above {}", most - 1))),
        None => Ok(()),
    }
}

/// The LID of a row, if it is in the fabric.
fn owned(fabric: &Fabric, raw: usize, row: &[u8], warnings: &mut Warnings) -> Option<Lid> {
    let lid = Lid::new(raw as u16).filter(|&lid| fabric.owner_of(lid).is_some());
    if lid.is_none() && row.iter().any(|&sl| sl != PathSl::UNKNOWN) {
        warnings.add(0, "destination LID not in the fabric");
    }
    lid
}

/// Writes the SLs of all pairs and classes.
///
/// # Errors
/// Those of the output.
///
/// Cost: that of the table, compressed on all cores.
pub fn write(out: &mut impl Write, fabric: &Fabric, path_sl: &PathSl) -> io::Result<()> {
    let mut file = Packer::begin(out, Kind::Psl, fabric)?;
    let (own, classes) = match path_sl {
        PathSl::Classes(c) => (&*c.own, Some(c)),
        own => (own, None),
    };
    let form = match own {
        PathSl::Any(_) => b'A',
        PathSl::BySwitch(_) | PathSl::BySwitchPair(_) => b'S',
        PathSl::ByEndPort(_) => b'E',
        PathSl::Classes(_) => return Err(io::Error::new(io::ErrorKind::InvalidInput, "classes of classes")),
    };
    file.put(&[form])?;
    file.put(
        &classes.map_or([0; 4], |c| [c.classes.classes, c.classes.vl_sets, c.classes.vls, c.classes.sls]),
    )?;
    if let Some(c) = classes.filter(|c| c.classes.vl_sets > 1) {
        let mut vl_set_of = c.vl_set_of.clone();
        vl_set_of.resize(fabric.lid_table_len(), 0);
        file.put(&vl_set_of)?;
    }
    match own {
        PathSl::Any(set) => file.put(&set.to_le_bytes())?,
        PathSl::BySwitch(table) => {
            let nothing = vec![PathSl::UNKNOWN; fabric.num_switches()];
            for raw in 0..fabric.lid_table_len() {
                let lid = Lid::new(raw as u16).filter(|&lid| fabric.owner_of(lid).is_some());
                let row = &table[raw * fabric.num_switches()..][..fabric.num_switches()];
                file.put(if lid.is_some() { row } else { &nothing })?;
            }
        }
        PathSl::BySwitchPair(pairs) => {
            for raw in 0..fabric.lid_table_len() {
                let lid = Lid::new(raw as u16).filter(|&lid| fabric.owner_of(lid).is_some());
                match lid {
                    Some(lid) => file.put(pairs.to(lid))?,
                    None => file.put(&vec![PathSl::UNKNOWN; fabric.num_switches()])?,
                }
            }
        }
        PathSl::ByEndPort(table) => file.put(table)?,
        PathSl::Classes(_) => {}
    }
    file.finish()
}
