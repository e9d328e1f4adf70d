//! The LIDs in OpenSM's dumps: a fabric in short form has none, an opensm-subnet.lst has no LMC,
//! and a fabric saved on another day may have different ones.

use std::collections::HashMap;
use std::io::BufRead;
use std::path::Path;

use super::lines::{Lines, guid, hex};
use super::{FormatError, compact, open, subnet_lst};
use crate::fabric::{EndPort, Fabric, FabricBuilder, Guid, Lid, Lmc, Note};
use crate::tables::Lft;

/// What a dump states about one end port.
struct Stated {
    first: Lid,
    last: Lid,
}

/// The LIDs of end ports by port GUID, and port GUIDs by node description if that is unique.
#[derive(Default)]
struct Statements {
    by_guid: HashMap<Guid, Stated>,
    by_name: HashMap<String, Option<Guid>>,
}

impl Statements {
    fn add(&mut self, port: Guid, lid: Lid, name: &str) {
        let stated = self.by_guid.entry(port).or_insert(Stated { first: lid, last: lid });
        stated.first = stated.first.min(lid);
        stated.last = stated.last.max(lid);
        let same = self.by_name.entry(name.to_owned()).or_insert(Some(port));
        if *same != Some(port) {
            *same = None;
        }
    }

    fn find(&self, fabric: &Fabric, end: &EndPort) -> Option<&Stated> {
        let node = fabric.node(end.node);
        let named = || {
            let by_name = self.by_name.get(&node.description).copied().flatten();
            by_name.filter(|_| !node.guid_stated).and_then(|guid| self.by_guid.get(&guid))
        };
        self.by_guid.get(&end.guid).or_else(named)
    }
}

/// The fabric with the LIDs that the dumps in a folder state, and a remark if that changed any. End
/// ports are matched by port GUID, or by description if the fabric's source states no GUIDs. The
/// lines of one switch in `opensm-lfts.dump` give all LIDs with their LMC ranges;
/// `opensm-subnet.lst` adds those that this switch cannot reach.
///
/// # Errors
/// A subnet list that its reader refuses, LIDs that contradict each other.
pub(super) fn adopt(dir: &Path, fabric: Fabric) -> Result<(Fabric, Option<String>), FormatError> {
    let mut stated = Statements::default();
    let lfts = dir.join("opensm-lfts.dump");
    let packed = dir.join("lfts.dfdn");
    if lfts.exists() {
        first_switch(open(&lfts)?, &mut stated).map_err(|e| e.in_file(&lfts))?;
    } else if packed.exists() {
        for end in compact::lids(open(&packed)?).map_err(|e| e.in_file(&packed))? {
            stated.add(end.guid, end.lid, &end.name);
            let last = end.lid.get().saturating_add(end.lmc.lids() - 1);
            stated.add(end.guid, Lid::new(last).unwrap_or(end.lid), &end.name);
        }
    }
    let list = dir.join("opensm-subnet.lst");
    // OpenSM's list shows links, and a lone switch has none.
    if std::fs::metadata(&list).is_ok_and(|list| list.len() > 0) {
        let (other, _) = subnet_lst::read(open(&list)?).map_err(|e| e.in_file(&list))?;
        for end in other.endports().iter().filter(|e| other.node(e.node).ports[e.port.index()].lid.is_some())
        {
            if !stated.by_guid.contains_key(&end.guid) {
                stated.add(end.guid, end.lid, &other.node(end.node).description);
            }
        }
    }
    if stated.by_guid.is_empty() {
        return Ok((fabric, None));
    }

    let mut builder = FabricBuilder::from_fabric(&fabric);
    builder.forget_lids();
    let mut changed = 0;
    let mut first = None;
    for end in fabric.endports() {
        let (lid, lmc) = match stated.find(&fabric, end) {
            Some(s) => {
                let lids = (s.last.get() - s.first.get() + 1).next_power_of_two();
                (Some(s.first), Lmc::new(lids.trailing_zeros() as u8).unwrap_or_default())
            }
            None => (None, Lmc::default()),
        };
        if (lid, lmc) != (Some(end.lid), end.lmc) {
            changed += 1;
            if let (None, Some(lid)) = (&first, lid) {
                first = Some(format!(
                    "{}, LID {} in the file and {lid} in the tables",
                    describe(&fabric, end),
                    end.lid
                ));
            }
        }
        let port = &mut builder.node_mut(end.node).ports[end.port.index()];
        (port.lid, port.lmc) = (lid, lmc);
    }
    if changed == 0 {
        return Ok((fabric, None));
    }
    let made_up = fabric.notes().iter().any(|note| matches!(note, Note::LidsAssigned { .. }));
    let fabric = builder.finish(Lmc::default()).map_err(|e| FormatError::fabric(0, &e).in_file(dir))?;
    let mut remark = format!("LIDs of {changed} end ports taken from the tables");
    if let Some(first) = first.filter(|_| !made_up) {
        remark = format!("{remark}; the fabric's file has different ones, first: {first}");
    }
    Ok((fabric, Some(remark)))
}

/// `port 1 of 'H1'`.
fn describe(fabric: &Fabric, end: &EndPort) -> String {
    format!("port {} of '{}'", end.port, fabric.node(end.node).description)
}

/// A remark if switches do not forward LIDs of their own adapters to these: the tables may be for
/// other LIDs than the fabric's.
///
/// Cost: O(end ports).
pub(super) fn doubtful(fabric: &Fabric, lft: &Lft) -> Option<String> {
    let mut first = None;
    let (mut wrong, mut all) = (0, 0);
    for end in fabric.endports() {
        let Some((switch, port)) = end.attachment else { continue };
        all += 1;
        let Some(leads) = lft.get(switch, end.lid).filter(|&leads| leads != port) else { continue };
        wrong += 1;
        first.get_or_insert_with(|| {
            let there = fabric.endports_on(switch).iter().map(|&e| fabric.endport(e));
            let there = there.into_iter().find(|e| e.attachment == Some((switch, leads)));
            let there =
                there.map_or(String::new(), |e| format!(" to {} (LID {})", describe(fabric, e), e.lid));
            format!(
                "LID {} is {} at port {port} of {}, whose table sends it out of port {leads}{there}",
                end.lid,
                describe(fabric, end),
                fabric.describe_switch(switch)
            )
        });
    }
    first.map(|first| {
        format!("the tables may be for other LIDs than the fabric's, at {wrong} of {all} end ports: {first}")
    })
}

/// Collects the owners of LIDs from the entries of the first switch: `0x0004 005 # Switch portguid
/// 0x0002c90200000001: 'leaf-1'`.
fn first_switch(input: impl BufRead, stated: &mut Statements) -> Result<(), FormatError> {
    let mut lines = Lines::new(input);
    let mut headers = 0;
    while let Some((_, line)) = lines.next()? {
        headers += usize::from(line.starts_with("Unicast lids"));
        if headers > 1 {
            break;
        }
        let lid = line.split_whitespace().next().filter(|w| w.starts_with("0x")).and_then(hex);
        let Some(lid) = lid.and_then(|lid| u16::try_from(lid).ok()).and_then(Lid::new) else { continue };
        let Some((_, owner)) = line.split_once(" portguid ") else { continue };
        let Some((word, name)) = owner.split_once(": '") else { continue };
        if let Some(port) = guid(word) {
            stated.add(port, lid, name.trim_end_matches('\''));
        }
    }
    Ok(())
}
