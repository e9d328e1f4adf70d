//! DF-DN: the next VL at every hop.

use rayon::prelude::*;

use super::{LaneLimits, Lanes, LanesError};
use crate::fabric::{Channels, Fabric, Lid, PortNum, Sl, SwitchId, Vl};
use crate::tables::{Lft, PathSl, Sl2Vl, SlVlRow};

/// The SL to VL mapping and the SLs of DF-DN (Schneider et al., section V and Fig. 6).
///
/// The first channel of a path is on VL 0, each further one on the next VL. A switch does not know the VL on
/// which a packet arrived. So each path takes the first SL, from SL 0 on, in whose column every turn of the
/// path is unused or has the VL that it needs. Fig. 6 as printed keeps only the last hop of a path and counts
/// from the first switch; this follows section V. The first switch always uses VL 0 and needs no entry, nor
/// does the last one, which delivers.
///
/// Unused SLs get a copy of the column of SL 0, so that any SL may be used if one suffices.
///
/// A path is identified by its first switch and its destination LID, since packets start on VL 0
/// from any port. The paths of all switches to all LIDs are included, so adapters, routers and port
/// 0 are covered as sources and destinations. Destinations are processed in LID order, sources in
/// GUID order. A path over the same channels as one before has its SL: entries never change once
/// they are set, so those that did not fit still do not. LIDs on the same switch mostly share paths.
///
/// - `fabric`: S switches, D destination LIDs.
/// - `lft`: loop-free tables that reach every LID.
/// - `limits`: VLs and SLs that may be used.
///
/// # Errors
/// [`LanesError::TooFewVls`] if a path has more channels than there are VLs,
/// [`LanesError::TooFewSls`] if the columns do not suffice; both state how many would.
///
/// Cost: O(S D H) time with H the mean path length, on all cores but for the search of the columns; 8 bytes per turn
/// and one byte per (switch, LID).
pub fn df_dn(fabric: &Fabric, lft: &Lft, limits: LaneLimits) -> Result<Lanes, LanesError> {
    let destinations = destinations(fabric);
    let mut columns = Columns::new(fabric);
    let walks = Walks::new(fabric, lft, &columns.planes.planes[0]);
    let walk =
        |some: &[Destination]| -> Vec<NewPaths> { some.par_iter().map(|d| walks.new_paths(d)).collect() };
    // While some paths are entered, others are walked.
    let mut walked: (&[Destination], Vec<NewPaths>) = (&[], Vec::new());
    for next in destinations.chunks(LIDS_AT_A_TIME).chain([&[][..]]) {
        let (found, ()) = rayon::join(|| walk(next), || columns.enter(walked));
        walked = (next, found);
        if columns.longest > usize::from(limits.vls) {
            let deepest = |d: &Destination| deepest(fabric.channels(), lft.to(d.lid));
            let needed = destinations.iter().map(deepest).max().unwrap_or(columns.longest);
            return Err(LanesError::TooFewVls { needed, offered: limits.vls });
        }
    }
    let Columns { planes, path_sl, longest, sls: needed, .. } = columns;
    if needed > usize::from(limits.sls) {
        return Err(LanesError::TooFewSls { needed, offered: limits.sls });
    }
    let path_sl = match needed {
        1 => super::any_sl(limits),
        _ => PathSl::BySwitch(path_sl),
    };
    Ok(Lanes { sl2vl: planes.finish(needed), path_sl, vls: longest.max(1) as u8, sls: needed as u8 })
}

/// LIDs whose paths are walked before those of the next ones: what bounds the memory.
const LIDS_AT_A_TIME: usize = 64;

/// A LID that is attached to a switch.
struct Destination {
    lid: Lid,
    root: SwitchId,
    /// The LID before it on the same switch.
    before: Option<Lid>,
}

/// All LIDs in ascending order.
fn destinations(fabric: &Fabric) -> Vec<Destination> {
    let attached = fabric.endports().iter().filter_map(|e| Some((e, e.attachment?.0)));
    let mut lids: Vec<(Lid, SwitchId)> =
        attached.flat_map(|(e, root)| e.lids().map(move |lid| (lid, root))).collect();
    lids.sort_unstable();
    let mut last = vec![None; fabric.num_switches()];
    let known =
        |(lid, root): (Lid, SwitchId)| Destination { lid, root, before: last[root.index()].replace(lid) };
    lids.into_iter().map(known).collect()
}

/// Number of channels of the longest path to one LID.
fn deepest(channels: &Channels, ports: &[u8]) -> usize {
    const UNKNOWN: usize = usize::MAX;
    let mut depth = vec![UNKNOWN; ports.len()];
    let mut trail = Vec::new();
    let mut deepest = 0;
    for start in 0..ports.len() {
        let mut at = start;
        let base = loop {
            if depth[at] != UNKNOWN {
                break depth[at];
            }
            match channels.at_port(SwitchId::at(at), PortNum(ports[at])) {
                Some(c) => trail.push(std::mem::replace(&mut at, channels.get(c).to.index())),
                None => {
                    depth[at] = 0;
                    break 0;
                }
            }
        };
        let mut d = base;
        while let Some(s) = trail.pop() {
            d += 1;
            depth[s] = d;
        }
        deepest = deepest.max(d);
    }
    deepest
}

/// The paths to one LID that those to the LID before on its switch do not have.
#[derive(Default)]
struct NewPaths {
    /// First switch and number of channels, by first switch.
    paths: Vec<(SwitchId, usize)>,
    /// The turns of all of them, one fewer than channels each: indices of rows.
    turns: Vec<u32>,
}

/// What follows the paths of all LIDs.
struct Walks<'a> {
    fabric: &'a Fabric,
    lft: &'a Lft,
    /// By channel: the index of the first row of the turns out of it.
    after: Vec<u32>,
}

/// The next hop of a switch.
#[derive(Clone, Copy)]
struct Step {
    /// The next switch; `u32::MAX` if no channel leaves by the port.
    to: u32,
    /// The index of the first row of the turns out of the channel.
    after: u32,
    out_port: u8,
    /// Whether the LID before on the same switch had another one.
    is_new: bool,
}

impl<'a> Walks<'a> {
    fn new(fabric: &'a Fabric, lft: &'a Lft, sl2vl: &Sl2Vl) -> Self {
        let channels = fabric.channels().as_slice();
        let after = channels.iter().map(|c| sl2vl.index(c.to, c.in_port, PortNum::ZERO) as u32).collect();
        Self { fabric, lft, after }
    }

    fn new_paths(&self, destination: &Destination) -> NewPaths {
        let (ports, root) = (self.lft.to(destination.lid), destination.root.index());
        let before = destination.before.map(|lid| self.lft.to(lid));
        if before.is_some_and(|b| b[..root] == ports[..root] && b[root + 1..] == ports[root + 1..]) {
            return NewPaths::default();
        }
        let channels = self.fabric.channels();
        let step = |(s, &out_port): (usize, &u8)| {
            let is_new = before.is_none_or(|before| before[s] != out_port);
            match channels.at_port(SwitchId::at(s), PortNum(out_port)) {
                Some(c) => Step { to: channels.get(c).to.0, after: self.after[c.index()], out_port, is_new },
                None => Step { to: u32::MAX, after: 0, out_port, is_new },
            }
        };
        let steps: Vec<Step> = ports.iter().enumerate().map(step).collect();
        let mut new = NewPaths::default();
        for source in self.fabric.switch_ids() {
            let first = new.turns.len();
            let (channels, known) = turns_from(&steps, source, &mut new.turns);
            if known {
                new.turns.truncate(first);
            } else {
                new.paths.push((source, channels));
            }
        }
        new
    }
}

/// Adds the turns of the path from `source`, in order. Returns its number of channels, and whether the LID before had
/// the same path.
fn turns_from(steps: &[Step], source: SwitchId, turns: &mut Vec<u32>) -> (usize, bool) {
    let mut incoming = steps[source.index()];
    if incoming.to == u32::MAX {
        return (0, false);
    }
    let (mut channels, mut known) = (1, true);
    loop {
        known &= !incoming.is_new;
        let outgoing = steps[incoming.to as usize];
        if outgoing.to == u32::MAX {
            return (channels, known);
        }
        turns.push(incoming.after + u32::from(outgoing.out_port));
        channels += 1;
        incoming = outgoing;
    }
}

/// The SLs of the paths so far.
struct Columns {
    planes: SlPlanes,
    switches: usize,
    /// By LID x first switch.
    path_sl: Vec<u8>,
    /// Channels of the longest path.
    longest: usize,
    /// SLs in use.
    sls: usize,
}

impl Columns {
    fn new(fabric: &Fabric) -> Self {
        let switches = fabric.num_switches();
        let path_sl = vec![0; switches * fabric.lid_table_len()];
        Self { planes: SlPlanes::new(fabric), switches, path_sl, longest: 0, sls: 1 }
    }

    /// Chooses the SLs of all paths to some LIDs. A path with more turns than a row has VLs for gets none.
    fn enter(&mut self, (destinations, found): (&[Destination], Vec<NewPaths>)) {
        for (destination, new) in destinations.iter().zip(found) {
            let row = |lid: Lid| lid.index() * self.switches;
            if let Some(before) = destination.before {
                self.path_sl.copy_within(row(before)..row(before) + self.switches, row(destination.lid));
            }
            let mut turns = new.turns.as_slice();
            for (source, channels) in new.paths {
                let (path, others) = turns.split_at(channels.saturating_sub(1));
                turns = others;
                self.longest = self.longest.max(channels);
                if channels > usize::from(Vl::MAX_DATA) {
                    continue;
                }
                let sl = self.planes.assign(path);
                self.sls = self.sls.max(sl + 1);
                self.path_sl[row(destination.lid) + source.index()] = sl as u8;
            }
        }
    }
}

/// The SL2VL tables under construction: sixteen SLs a plane, and as many planes as needed, so that an error
/// can state how many SLs would suffice. VL 0 means unused.
struct SlPlanes {
    planes: Vec<Sl2Vl>,
}

impl SlPlanes {
    fn new(fabric: &Fabric) -> Self {
        Self { planes: vec![Sl2Vl::new(fabric)] }
    }

    /// Finds the first SL that the path fits into and enters the path there.
    fn assign(&mut self, turns: &[u32]) -> usize {
        for plane in 0.. {
            if plane == self.planes.len() {
                let mut empty = self.planes[0].clone();
                empty.rows_mut().fill(SlVlRow::default());
                self.planes.push(empty);
            }
            let rows = self.planes[plane].rows_mut();
            let mut fits = LOW_BITS;
            for (i, &turn) in turns.iter().enumerate() {
                let row = rows[turn as usize].0;
                let wanted = row ^ SlVlRow::uniform(Vl(i as u8 + 1)).0;
                fits &= zero_nibbles(row) | zero_nibbles(wanted);
            }
            if fits != 0 {
                let sl = Sl((fits.leading_zeros() / 4) as u8);
                for (i, &turn) in turns.iter().enumerate() {
                    let row = &mut rows[turn as usize];
                    *row = row.with(sl, Vl(i as u8 + 1));
                }
                return plane * Sl::COUNT + usize::from(sl.0);
            }
        }
        unreachable!("the range has no end")
    }

    /// The first plane; SLs from `used` on get the column of SL 0.
    fn finish(mut self, used: usize) -> Sl2Vl {
        let mut sl2vl = self.planes.swap_remove(0);
        let spare = u64::MAX.checked_shr(4 * used as u32).unwrap_or(0);
        for row in sl2vl.rows_mut() {
            row.0 = row.0 & !spare | SlVlRow::uniform(row.get(Sl(0))).0 & spare;
        }
        sl2vl
    }
}

const LOW_BITS: u64 = 0x1111_1111_1111_1111;

/// The lowest bit of each nibble that is zero.
fn zero_nibbles(x: u64) -> u64 {
    !(x | x >> 1 | x >> 2 | x >> 3) & LOW_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Mesh;

    /// Fig. 5 of Schneider et al.: the first two columns and those of other VLs do not fit, so SL 2 is chosen.
    #[test]
    fn columns_are_searched_from_the_left() {
        let fabric = Mesh { dims: vec![4], cas: 1 }.build().unwrap();
        let before = [[2, 1, 0], [1, 1, 0], [0, 0, 3]];
        let search = |before: [[u8; 3]; 3]| {
            let mut planes = SlPlanes::new(&fabric);
            for (row, vls) in planes.planes[0].rows_mut().iter_mut().zip(before) {
                for (sl, vl) in vls.into_iter().enumerate() {
                    *row = row.with(Sl(sl as u8), Vl(vl));
                }
            }
            let sl = planes.assign(&[0, 1, 2]);
            let after = |row: usize| planes.planes[0].rows()[row].vls()[..4].iter().map(|vl| vl.0).collect();
            (sl, [0, 1, 2].map(after))
        };
        let (sl, after): (usize, [Vec<u8>; 3]) = search(before);
        assert_eq!((sl, after), (2, [vec![2, 1, 1, 0], vec![1, 1, 2, 0], vec![0, 0, 3, 0]]));
        // With another VL in the last row, the next column is as good as new.
        let (sl, after) = search([before[0], before[1], [0, 0, 2]]);
        assert_eq!((sl, after), (3, [vec![2, 1, 0, 1], vec![1, 1, 0, 2], vec![0, 0, 2, 3]]));
    }
}
