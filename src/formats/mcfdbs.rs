//! `opensm.mcfdbs`: the multicast forwarding tables as OpenSM dumps them and ibdmchk reads them.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use super::lfts_dump::Switches;
use super::lines::{Lines, guid, hex, quote};
use super::{FormatError, Warning, Warnings};
use crate::fabric::{Fabric, PortNum, SwitchId};
use crate::tables::{McastGroup, PortSet};

/// Multicast LIDs.
const MLIDS: std::ops::RangeInclusive<u64> = 0xc000..=0xfffe;

/// Precedes the SLs of a group, which OpenSM's dumps do not have.
const SLS: &str = "# SLs of ";

/// Reads the groups in order of their LIDs, with their SLs if the file has them. Warns of switches
/// that are not in the fabric and ignores them. A file without groups is valid.
///
/// # Errors
/// A line that is not in this format, text without any switch, a port that the switch does not
/// have, an entry stated twice.
pub fn read(input: impl BufRead, fabric: &Fabric) -> Result<(Vec<McastGroup>, Vec<Warning>), FormatError> {
    let switches = Switches::new(fabric);
    let mut warnings = Warnings::default();
    let mut groups: BTreeMap<u16, BTreeMap<SwitchId, PortSet>> = BTreeMap::new();
    let mut sls: BTreeMap<u16, u16> = BTreeMap::new();
    let mut current: Option<Option<SwitchId>> = None;
    let mut lines = Lines::new(input);
    while let Some((number, line)) = lines.next()? {
        if let Some(word) = line.strip_prefix("Switch ") {
            let guid = guid(word.split_whitespace().next().unwrap_or_default())
                .ok_or_else(|| FormatError::new(number, "switch header without a GUID"))?;
            let found = switches.find(guid, None);
            if found.is_none() {
                warnings.add(number, "switch not in the fabric");
            }
            current = Some(found);
        } else if line.starts_with("0x") {
            let wrong =
                || FormatError::new(number, format!("no multicast LID and ports in {}", quote(&line)));
            let (mlid, ports) = line.split_once(':').ok_or_else(wrong)?;
            let mlid = hex(mlid.trim()).filter(|mlid| MLIDS.contains(mlid)).ok_or_else(wrong)? as u16;
            let current =
                current.ok_or_else(|| FormatError::new(number, "an entry before the first switch"))?;
            let Some(switch) = current else { continue };
            let num_ports = fabric.switch(switch).num_ports();
            let mut set = PortSet::default();
            for word in ports.split_whitespace() {
                let port = hex(word).ok_or_else(wrong)?;
                if port > u64::from(num_ports) {
                    let reason = format!("no port {port} on a switch with {num_ports} ports");
                    return Err(FormatError::new(number, reason).hint(super::OTHER_FABRIC));
                }
                set.insert(PortNum(port as u8));
            }
            let old = groups.entry(mlid).or_default().insert(switch, set);
            if old.is_some() {
                let reason = format!("group 0x{mlid:04x} of this switch was already stated");
                return Err(FormatError::new(number, reason));
            }
        } else if let Some(text) = line.strip_prefix(SLS) {
            let wrong = || FormatError::new(number, format!("no multicast LID and SLs in {}", quote(&line)));
            let (mlid, set) =
                text.split_once(':').and_then(|(m, s)| Some((hex(m.trim())?, s))).ok_or_else(wrong)?;
            let set = set.split_whitespace().try_fold(0_u16, |set, sl| {
                let sl = sl.parse::<u32>().ok().filter(|&sl| sl < 16)?;
                Some(set | 1 << sl)
            });
            sls.insert(u16::try_from(mlid).map_err(|_| wrong())?, set.ok_or_else(wrong)?);
        } else if !line.is_empty() && !line.starts_with("LID") {
            warnings.add(number, "ignored text that is not an entry");
        }
    }
    if let (None, true, [garbage, ..]) = (current, sls.is_empty(), &*warnings.0) {
        return Err(FormatError::new(garbage.line, "text without a multicast table"));
    }
    let group = |(mlid, ports): (u16, BTreeMap<SwitchId, PortSet>)| {
        let ports = ports.into_iter().filter(|(_, set)| !set.is_empty()).collect();
        McastGroup { mlid, sls: sls.get(&mlid).copied(), ports }
    };
    let groups: Vec<McastGroup> = groups.into_iter().map(group).collect();
    // What lies behind such a switch is no member then, as in a file that was cut.
    for group in &groups {
        let ends = |&(s, ports): &(SwitchId, PortSet)| {
            let ahead = move |port| fabric.channels().at_port(s, port).map(|c| fabric.channels().get(c).to);
            ports.iter().filter_map(ahead).any(|to| group.at(to).is_empty())
        };
        if group.ports.iter().any(ends) {
            warnings.add(0, "group with copies that end at a switch without an entry for it");
        }
    }
    Ok((groups, warnings.0))
}

/// Writes the groups as OpenSM does, each after a comment line with its SLs if these are known.
///
/// # Errors
/// Those of the output.
pub fn write(out: &mut impl Write, fabric: &Fabric, groups: &[McastGroup]) -> io::Result<()> {
    for group in groups {
        if let Some(sls) = group.sls {
            write!(out, "{SLS}0x{:04X}:", group.mlid)?;
            (0..16).filter(|sl| sls & 1 << sl != 0).try_for_each(|sl| write!(out, " {sl}"))?;
            writeln!(out)?;
        }
    }
    for s in fabric.switch_ids() {
        let mut begun = false;
        for group in groups {
            let set = group.at(s);
            if set.is_empty() {
                continue;
            }
            if !std::mem::replace(&mut begun, true) {
                write!(out, "\nSwitch {}\nLID    : Out Port(s)\n", fabric.switch(s).guid)?;
            }
            write!(out, "0x{:04X} :", group.mlid)?;
            for port in set.iter() {
                write!(out, " 0x{:03X} ", port.0)?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}
