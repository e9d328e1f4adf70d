//! The LIDs in OpenSM's dumps: a fabric in short form has none, an opensm-subnet.lst has no LMC,
//! and a fabric saved on another day may have different ones.

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;
use std::path::Path;

use super::lines::{Lines, guid, leading_lid};
use super::{FormatError, LftFile, compact, fdbs, open, subnet_lst};
use crate::fabric::{EndPort, EndPortId, Fabric, FabricBuilder, Guid, Lid, Lmc, Note};
use crate::tables::Lft;

/// Consecutive LIDs of an end port.
type Range = (Lid, Lmc);

/// What dumps state about one end port.
struct Stated {
    first: Lid,
    last: Lid,
    /// If it is stated.
    lmc: Option<Lmc>,
}

/// The LIDs of end ports by port GUID, and port GUIDs by node description if that is unique.
#[derive(Default)]
struct Statements {
    by_guid: HashMap<Guid, Stated>,
    by_name: HashMap<String, Option<Guid>>,
    owner: HashMap<Lid, Guid>,
    /// The largest LMC that tables show; unknown if they do not state owners of LIDs.
    largest: Option<Lmc>,
}

impl Statements {
    fn add(&mut self, port: Guid, lid: Lid, name: &str) {
        let stated = self.by_guid.entry(port).or_insert(Stated { first: lid, last: lid, lmc: None });
        stated.first = stated.first.min(lid);
        stated.last = stated.last.max(lid);
        self.owner.entry(lid).or_insert(port);
        let same = self.by_name.entry(name.to_owned()).or_insert(Some(port));
        if *same != Some(port) {
            *same = None;
        }
    }

    fn add_range(&mut self, port: Guid, (lid, lmc): Range, name: &str) {
        self.add(port, lid, name);
        self.add(port, last((lid, lmc)), name);
        self.by_guid.entry(port).and_modify(|stated| stated.lmc = Some(lmc));
    }

    fn find(&self, fabric: &Fabric, end: &EndPort) -> Option<(Guid, &Stated)> {
        let node = fabric.node(end.node);
        let by_name = || self.by_name.get(&node.description).copied().flatten();
        let named = || by_name().filter(|_| !node.guid_stated);
        let stated = |guid| self.by_guid.get(&guid).map(|stated| (guid, stated));
        stated(end.guid).or_else(|| stated(named()?))
    }

    /// The LIDs of an end port: those that the fabric states where these cover all that dumps state, else as few as do. A
    /// table may lack some of them: these are its fault. Those of the fabric also serve where no dump states any, if nobody
    /// else has them.
    ///
    /// # Errors
    /// LIDs too far apart for one end port.
    fn range(&self, fabric: &Fabric, end: &EndPort) -> Result<Option<Range>, FormatError> {
        let own = (end.lid, end.lmc);
        let lmc = self.largest.map_or(end.lmc, |largest| largest.min(end.lmc));
        let Some((guid, stated)) = self.find(fabric, end) else {
            return Ok([(end.lid, lmc), own].into_iter().find(|&range| self.is_free(range, None)));
        };
        if let Some(lmc) = stated.lmc {
            return Ok(Some((stated.first, lmc)));
        }
        let fewest = smallest_block(stated.first, stated.last);
        let serves = |&(first, lmc): &Range| {
            first <= stated.first
                && last((first, lmc)) >= stated.last
                && self.is_free((first, lmc), Some(guid))
        };
        let moved = self.largest.and_then(|_| aligned((stated.first, lmc)));
        let ranges = [Some((end.lid, lmc)), Some(own), moved, fewest];
        let too_far = || {
            let (port, Stated { first, last, .. }) = (describe(fabric, end), stated);
            FormatError::new(0, format!("LIDs {first} and {last} are both stated for {port}"))
                .hint("the tables are of different times: dump them again")
        };
        ranges.into_iter().flatten().find(serves).or(fewest).ok_or_else(too_far).map(Some)
    }

    /// Whether no other end port has one of these LIDs.
    fn is_free(&self, range: Range, owner: Option<Guid>) -> bool {
        lids(range).all(|lid| self.owner.get(&lid).is_none_or(|&other| Some(other) == owner))
    }
}

/// The last LID of a range.
fn last((lid, lmc): Range) -> Lid {
    Lid::new(lid.get().saturating_add(lmc.lids() - 1)).unwrap_or(lid)
}

fn lids(range: Range) -> impl Iterator<Item = Lid> {
    (range.0.get()..=last(range).get()).filter_map(Lid::new)
}

/// A range whose first LID may have the LMC: a multiple of the number of LIDs.
fn aligned((lid, lmc): Range) -> Option<Range> {
    (lid.get() % lmc.lids() == 0).then_some((lid, lmc))
}

/// The smallest range with two LIDs that some LMC allows.
fn smallest_block(first: Lid, last: Lid) -> Option<Range> {
    let bits = u16::BITS - (first.get() ^ last.get()).leading_zeros();
    let lmc = Lmc::new(u8::try_from(bits).ok()?)?;
    Some((Lid::new(first.get() & !(lmc.lids() - 1))?, lmc))
}

/// The fabric with the LIDs that the dumps in a folder state, and remarks on what that changed. End
/// ports are matched by port GUID, or by description if the fabric's source states no GUIDs. The
/// lines of all switches in `opensm-lfts.dump` give the LIDs with their LMC ranges;
/// `opensm-subnet.lst` adds those that no switch can reach. `opensm.fdbs` names no owners, but the
/// switch of an adapter [delivers](with_delivered) its LIDs.
///
/// # Errors
/// A subnet list that its reader refuses, LIDs that contradict each other.
pub(super) fn adopt(
    dir: &Path,
    lfts: &LftFile,
    fabric: Fabric,
) -> Result<(Fabric, Vec<String>), FormatError> {
    let mut stated = Statements::default();
    let in_file = |e: FormatError| e.in_file(lfts.path());
    match lfts {
        LftFile::Text(path) => {
            owners(open(path)?, &mut stated).map_err(in_file)?;
            let blocks = stated.by_guid.values().filter_map(|s| smallest_block(s.first, s.last));
            stated.largest = blocks.map(|(_, lmc)| lmc).max();
        }
        LftFile::Compact(path) => {
            for end in compact::lids(open(path)?).map_err(in_file)? {
                stated.add_range(end.guid, (end.lid, end.lmc), &end.name);
            }
        }
        LftFile::WithHops(_) => {}
    }
    let list = dir.join("opensm-subnet.lst");
    // OpenSM's list shows links, and a lone switch has none.
    if std::fs::metadata(&list).is_ok_and(|list| list.len() > 0) {
        let (other, _) = subnet_lst::read(open(&list)?).map_err(|e| e.in_file(&list))?;
        for end in other.endports() {
            let is_new = match stated.by_guid.get(&end.guid) {
                // Tables may lack the first LID.
                Some(seen) => {
                    let block = smallest_block(end.lid, seen.last);
                    end.lid < seen.first
                        && block
                            .is_some_and(|block| block.0 == end.lid && stated.is_free(block, Some(end.guid)))
                }
                None => true,
            };
            if is_new && stated.owner.get(&end.lid).is_none_or(|&owner| owner == end.guid) {
                stated.add(end.guid, end.lid, &other.node(end.node).description);
            }
        }
    }
    let mut remarks = Vec::new();
    let mut fabric = match stated.by_guid.is_empty() {
        true => fabric,
        false => with_stated(&stated, fabric, &mut remarks).map_err(|e| e.in_file(dir))?,
    };
    if let (LftFile::WithHops(path), false) = (lfts, is_made_up(&fabric)) {
        let delivered = fdbs::delivered(open(path)?, &fabric).map_err(in_file)?;
        fabric = with_delivered(&delivered, fabric, &mut remarks).map_err(in_file)?;
    }
    remarks.extend(misaligned(&fabric));
    Ok((fabric, remarks))
}

fn with_stated(
    stated: &Statements,
    fabric: Fabric,
    remarks: &mut Vec<String>,
) -> Result<Fabric, FormatError> {
    let mut builder = FabricBuilder::from_fabric(&fabric);
    builder.forget_lids();
    let mut changed = 0;
    let mut first = None;
    for end in fabric.endports() {
        let range = stated.range(&fabric, end)?;
        if range != Some((end.lid, end.lmc)) {
            changed += 1;
            if let (None, Some(range)) = (&first, range) {
                first = Some(format!(
                    "{}, {} in the file and {} in the tables",
                    describe(&fabric, end),
                    words((end.lid, end.lmc)),
                    words(range).trim_start_matches("LID ")
                ));
            }
        }
        let port = &mut builder.node_mut(end.node).ports[end.port.index()];
        (port.lid, port.lmc) = (range.map(|(lid, _)| lid), range.map_or(Lmc::default(), |(_, lmc)| lmc));
    }
    if changed == 0 {
        return Ok(fabric);
    }
    let mut remark = format!("LIDs of {changed} end ports taken from the tables");
    if let Some(first) = first.filter(|_| !is_made_up(&fabric)) {
        remark = format!("{remark}; the fabric's file has different ones, first: {first}");
    }
    remarks.push(remark);
    builder.finish(Lmc::default()).map_err(|e| FormatError::fabric(0, &e))
}

/// The fabric with larger LMCs for end ports whose switch sends LIDs to them that nobody has: the LIDs that follow their own
/// are theirs, if it sends most of these.
///
/// - `delivered`: as [`fdbs::delivered`] finds them.
fn with_delivered(
    delivered: &BTreeMap<Lid, EndPortId>,
    fabric: Fabric,
    remarks: &mut Vec<String>,
) -> Result<Fabric, FormatError> {
    let mut ranges: BTreeMap<EndPortId, Range> = BTreeMap::new();
    for (&lid, &id) in delivered {
        let end = fabric.endport(id);
        let is_free = |range: &Range| {
            let new = || lids(*range).filter(|&lid| fabric.owner_of(lid) != Some(id));
            let sent = new().filter(|lid| delivered.get(lid) == Some(&id)).count();
            let mut free = new().map(|lid| fabric.owner_of(lid).is_none());
            range.0 == end.lid && free.all(|free| free) && 2 * sent > new().count()
        };
        if let Some(range) = smallest_block(end.lid, lid).filter(is_free) {
            ranges.insert(id, range);
        }
    }
    let Some((&id, &range)) = ranges.first_key_value() else { return Ok(fabric) };
    let mut builder = FabricBuilder::from_fabric(&fabric);
    for (&id, &(_, lmc)) in &ranges {
        let end = fabric.endport(id);
        builder.node_mut(end.node).ports[end.port.index()].lmc = lmc;
    }
    remarks.push(format!(
        "more LIDs than the fabric states for {} end ports, as their switches deliver them there; first: {} has {}",
        ranges.len(),
        describe(&fabric, fabric.endport(id)),
        words(range)
    ));
    builder.finish(Lmc::default()).map_err(|e| FormatError::fabric(0, &e))
}

/// A remark if a first LID is not a multiple of the number of LIDs: hosts and switches take an end port to have others then.
fn misaligned(fabric: &Fabric) -> Option<String> {
    let mut odd = fabric.endports().iter().filter(|end| aligned((end.lid, end.lmc)).is_none());
    let first = odd.next()?;
    Some(format!(
        "{} end ports have a first LID that their LMC does not allow, first: {} with {}",
        odd.count() + 1,
        describe(fabric, first),
        words((first.lid, first.lmc))
    ))
}

/// `LID 3`, `LIDs 4 to 7`.
fn words(range: Range) -> String {
    match range.1.lids() {
        1 => format!("LID {}", range.0),
        _ => format!("LIDs {} to {}", range.0, last(range)),
    }
}

/// Whether LIDs were chosen, as the file of the fabric does not state all.
fn is_made_up(fabric: &Fabric) -> bool {
    fabric.notes().iter().any(|note| matches!(note, Note::LidsAssigned { .. }))
}

/// `port 1 of 'H1'`.
fn describe(fabric: &Fabric, end: &EndPort) -> String {
    super::port_of(end.port, fabric.node(end.node))
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

/// Collects the owners of LIDs from all entries: `0x0004 005 # Switch portguid 0x0002c90200000001: 'leaf-1'`. No
/// switch need reach them all.
fn owners(input: impl BufRead, stated: &mut Statements) -> Result<(), FormatError> {
    let mut lines = Lines::new(input);
    let mut known = vec![false; usize::from(Lid::MAX) + 1];
    while let Some((_, line)) = lines.next_bytes()? {
        let Some(lid) = leading_lid(line).filter(|lid| !known[lid.index()]) else { continue };
        let line = String::from_utf8_lossy(line);
        let Some((_, owner)) = line.split_once(" portguid ") else { continue };
        let Some((word, name)) = owner.split_once(": '") else { continue };
        if let Some(port) = guid(word) {
            known[lid.index()] = true;
            stated.add(port, lid, name.trim_end_matches('\''));
        }
    }
    Ok(())
}
