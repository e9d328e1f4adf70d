//! `ibdiagnet2.far`: adaptive routing groups and forwarding tables, as ibdiagnet 2 writes them.
//!
//! Each switch has a line with its GUID, a table of groups and a table of LIDs:
//!
//! ```text
//! Switch 0xb8599f0300fc6de4 ...
//! Groups Definition:
//! Group  SubGroup  WHBF  Ports
//! ----------------------------
//! 0      0         NO    17,18
//! LFT Definition:
//! LID    StaticPort  LidState  Group
//! ----------------------------------
//! 0x0001 17          Free      0
//! 0x0002 3           Static    0
//! ```
//!
//! NVIDIA documents the file by its columns alone; the layout is that of files in public use.

use std::collections::HashMap;
use std::io::BufRead;

use super::lfts_dump::Switches;
use super::lines::{Lines, guid, hex, quote};
use super::{FormatError, Warning, Warnings};
use crate::fabric::{Fabric, Lid, PortNum, SwitchId};
use crate::tables::{Lft, PortSet, PortSets};

/// Which table a line belongs to.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Head,
    Groups,
    Lids,
}

/// Reads the sets of next hops of the switches of `fabric`. Switches and LIDs that are not in the file have the port of
/// `lft`. Where a group has subgroups, and a switch several forwarding tables (pLFT), all their ports are taken
/// together, with the static port and that of `lft`: whatever is chosen is among them.
///
/// # Errors
/// A line that is not in this format, a port that the switch does not have, a group that is not defined.
pub fn read(
    input: impl BufRead,
    fabric: &Fabric,
    lft: &Lft,
) -> Result<(PortSets, Vec<Warning>), FormatError> {
    let switches = Switches::new(fabric);
    let mut sets = PortSets::of_lft(fabric, lft);
    let mut warnings = Warnings::default();
    let mut lines = Lines::new(input);
    let (mut part, mut switch): (Part, Option<SwitchId>) = (Part::Head, None);
    let mut groups: HashMap<u64, PortSet> = HashMap::new();
    let mut stated: HashMap<(SwitchId, Lid), PortSet> = HashMap::new();
    let mut found = false;
    while let Some((number, line)) = lines.next()? {
        let bad = |what: &str| FormatError::new(number, format!("{what} in {}", quote(&line)));
        if let Some(rest) = line.strip_prefix("Switch ") {
            let word = rest.split([' ', ',']).next().unwrap_or_default();
            switch = switches.find(guid(word).ok_or_else(|| bad("no GUID"))?, None);
            if switch.is_none() {
                warnings.add(number, "switch not in the fabric");
            }
            (part, found) = (Part::Head, true);
            groups.clear();
        } else if line.starts_with("Groups Definition") {
            part = Part::Groups;
        } else if line.starts_with("LFT Definition") {
            part = Part::Lids;
        } else if !line.starts_with(|c: char| c.is_ascii_digit()) {
            // Titles, rules, comments and what is said of a switch as a whole.
        } else if let Some(switch) = switch {
            let mut words = line.split_whitespace();
            let mut word = || words.next().ok_or_else(|| bad("too few columns"));
            match part {
                Part::Head => {}
                Part::Groups => {
                    let group = word()?.parse().map_err(|_| bad("no group"))?;
                    word()?;
                    word()?;
                    let ports = groups.entry(group).or_default();
                    for port in words.flat_map(|word| word.split(',')).filter(|port| !port.is_empty()) {
                        ports.insert(port_of(fabric, switch, port).map_err(|why| bad(&why))?);
                    }
                }
                Part::Lids => {
                    let lid = hex(word()?).and_then(|lid| Lid::new(u16::try_from(lid).ok()?));
                    let lid = lid.ok_or_else(|| bad("no LID"))?;
                    let (port, state, group) = (word()?, word()?, words.next());
                    if fabric.owner_of(lid).is_none() {
                        warnings.add(number, "LID not in the fabric");
                        continue;
                    }
                    let all = stated.entry((switch, lid)).or_default();
                    // Packets that may not be routed adaptively take the static port.
                    if port != "255" {
                        all.insert(port_of(fabric, switch, port).map_err(|why| bad(&why))?);
                    }
                    if !state.eq_ignore_ascii_case("static") {
                        let group =
                            group.and_then(|group| group.parse().ok()).ok_or_else(|| bad("no group"))?;
                        let group = groups.get(&group).ok_or_else(|| bad("a group that is not defined"))?;
                        group.iter().for_each(|port| all.insert(port));
                    }
                }
            }
        }
    }
    if !found {
        return Err(FormatError::new(0, "it names no switch"));
    }
    for ((switch, lid), mut ports) in stated {
        lft.get(switch, lid).into_iter().for_each(|port| ports.insert(port));
        sets.set(switch, lid, ports);
    }
    Ok((sets, warnings.0))
}

fn port_of(fabric: &Fabric, switch: SwitchId, text: &str) -> Result<PortNum, String> {
    let port: u8 = text.parse().map_err(|_| format!("'{text}' is no port"))?;
    let has = usize::from(port) < fabric.switch(switch).ports.len();
    has.then_some(PortNum(port))
        .ok_or_else(|| format!("{} has no port {port}", fabric.describe_switch(switch)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Ring;

    fn fabric() -> (Fabric, Lft) {
        let fabric = Ring { switches: 4, cas: 2 }.build().expect("a ring");
        let lft = Lft::new(&fabric);
        (fabric, lft)
    }

    fn ports(sets: &PortSets, lid: u16) -> Vec<u8> {
        let lid = Lid::new(lid).expect("a LID");
        sets.get(SwitchId(0), lid).iter().map(|port| port.0).collect()
    }

    #[test]
    fn groups_are_sets_and_static_lids_have_one_port() {
        let (fabric, lft) = fabric();
        let text = "# made by a test\nSwitch 0x0002c90200000000, LID 1, enabled\nGroups Definition:\n\
            Group  SubGroup  WHBF  Ports\n---\n0  0  NO  3,4\n1  0  NO  1,\n1  1  NO  2\n\nLFT Definition:\n\
            LID  StaticPort  LidState  Group\n---\n0x0003 3 Free 0\n0x0004 4 Static 0\n0x0005 1 HBF 1\n0x0006 255 Static 0\n\
            0x0077 1 Static 0\n\nLFT Definition: pLFT 1\n---\n0x0004 3 Static 0\n";
        let (sets, warnings) = read(text.as_bytes(), &fabric, &lft).expect("it is right");
        assert_eq!(
            [3, 4, 5, 6, 7].map(|lid| ports(&sets, lid)),
            [vec![3, 4], vec![3, 4], vec![1, 2], vec![], vec![]]
        );
        assert_eq!(sets.adaptive(), 3);
        assert!(warnings.len() == 1 && warnings[0].reason.contains("LID not in the fabric"));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let (fabric, lft) = fabric();
        let head = "Switch 0x0002c90200000000\nGroups Definition:\n---\n0 0 NO 3\nLFT Definition:\n---\n";
        for (text, line, word) in [
            ("nothing\n".to_owned(), 0, "no switch"),
            ("Switch leaf\n".to_owned(), 1, "no GUID"),
            (format!("{head}0x0003 3 Free 7\n"), 7, "not defined"),
            (format!("{head}0x0003 77 Static 0\n"), 7, "has no port 77"),
            (format!("{head}0x0003 3\n"), 7, "too few"),
            (format!("{head}0xffff 3 Static\n"), 7, "no LID"),
            ("Switch 0x0002c90200000000\nGroups Definition:\n0 0 NO 9\n".to_owned(), 3, "has no port 9"),
        ] {
            let error = read(text.as_bytes(), &fabric, &lft).expect_err(&text);
            assert_eq!(error.line, line, "{text}");
            assert!(error.reason.contains(word), "{text}: {error}");
        }
    }
}
