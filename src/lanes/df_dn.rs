//! DF-DN: the next VL at every hop.

use super::{LaneLimits, Lanes, LanesError};
use crate::fabric::{Channels, EndPort, Fabric, Lid, PortNum, Sl, SwitchId, Vl};
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
/// Cost: O(S D H) time with H the mean path length; 8 bytes per turn and one byte per (switch,
/// LID).
pub fn df_dn(fabric: &Fabric, lft: &Lft, limits: LaneLimits) -> Result<Lanes, LanesError> {
    let mut planes = SlPlanes::new(fabric);
    let mut path_sl = vec![0_u8; fabric.num_switches() * fabric.lid_table_len()];
    let mut needed_sls = 1;
    let destinations = fabric.endports().iter().filter(|e| e.attachment.is_some());
    let mut lids: Vec<(Lid, &EndPort)> =
        destinations.flat_map(|e| e.lids().map(move |lid| (lid, e))).collect();
    lids.sort_by_key(|&(lid, _)| lid);

    let mut walk = Walk::new(fabric, &planes.planes[0]);
    let mut turns = Vec::new();
    let mut longest = 0;
    // By switch: the last LID there.
    let mut last: Vec<Option<Lid>> = vec![None; fabric.num_switches()];
    for &(lid, end) in &lids {
        let before = end.attachment.and_then(|(s, _)| last[s.index()].replace(lid));
        let row = |lid: Lid| lid.index() * fabric.num_switches();
        walk.enter(fabric.channels(), lft.to(lid), before.map(|lid| lft.to(lid)));
        for source in fabric.switch_ids() {
            let (channels, known) = walk.turns_from(source, &mut turns);
            if let Some(before) = before.filter(|_| known) {
                path_sl[row(lid) + source.index()] = path_sl[row(before) + source.index()];
                continue;
            }
            if channels > usize::from(limits.vls) {
                let needed = lids.iter().map(|&(lid, _)| deepest(fabric.channels(), lft.to(lid))).max();
                return Err(LanesError::TooFewVls {
                    needed: needed.unwrap_or(channels),
                    offered: limits.vls,
                });
            }
            longest = longest.max(channels);
            let sl = planes.assign(&turns);
            needed_sls = needed_sls.max(sl + 1);
            path_sl[row(lid) + source.index()] = sl as u8;
        }
    }
    if needed_sls > usize::from(limits.sls) {
        return Err(LanesError::TooFewSls { needed: needed_sls, offered: limits.sls });
    }
    let path_sl = match needed_sls {
        1 => PathSl::Any(u16::MAX >> (Sl::COUNT - usize::from(limits.sls))),
        _ => PathSl::BySwitch(path_sl),
    };
    Ok(Lanes { sl2vl: planes.finish(needed_sls), path_sl, vls: longest.max(1) as u8, sls: needed_sls as u8 })
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

/// The paths to one LID.
struct Walk {
    /// By channel: the index of the first row of the turns out of it.
    after: Vec<usize>,
    /// By switch: the next hop.
    steps: Vec<Step>,
}

/// The next hop of a switch.
#[derive(Clone, Copy)]
struct Step {
    /// The next switch; `u32::MAX` if no channel leaves by the port.
    to: u32,
    out_port: u8,
    /// Whether the LID before on the same switch had another one.
    is_new: bool,
    /// The index of the first row of the turns out of the channel.
    after: usize,
}

impl Walk {
    fn new(fabric: &Fabric, sl2vl: &Sl2Vl) -> Self {
        let channels = fabric.channels().as_slice();
        let after = channels.iter().map(|c| sl2vl.index(c.to, c.in_port, PortNum::ZERO)).collect();
        Self { after, steps: Vec::with_capacity(fabric.num_switches()) }
    }

    /// Switches to another LID.
    ///
    /// - `ports`: its out ports by switch.
    /// - `before`: those of a LID on the same switch, if one came before.
    fn enter(&mut self, channels: &Channels, ports: &[u8], before: Option<&[u8]>) {
        let step = |(s, &out_port): (usize, &u8)| {
            let is_new = before.is_none_or(|before| before[s] != out_port);
            match channels.at_port(SwitchId::at(s), PortNum(out_port)) {
                Some(c) => Step { to: channels.get(c).to.0, out_port, is_new, after: self.after[c.index()] },
                None => Step { to: u32::MAX, out_port, is_new, after: 0 },
            }
        };
        self.steps.clear();
        self.steps.extend(ports.iter().enumerate().map(step));
    }

    /// The turns of the path from `source`: indices of rows, in order. Returns its number of channels, and whether the
    /// LID before had the same path.
    fn turns_from(&self, source: SwitchId, turns: &mut Vec<usize>) -> (usize, bool) {
        turns.clear();
        let mut incoming = self.steps[source.index()];
        if incoming.to == u32::MAX {
            return (0, false);
        }
        let mut known = true;
        loop {
            known &= !incoming.is_new;
            let outgoing = self.steps[incoming.to as usize];
            if outgoing.to == u32::MAX {
                return (turns.len() + 1, known);
            }
            turns.push(incoming.after + usize::from(outgoing.out_port));
            incoming = outgoing;
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
    fn assign(&mut self, turns: &[usize]) -> usize {
        for plane in 0.. {
            if plane == self.planes.len() {
                let mut empty = self.planes[0].clone();
                empty.rows_mut().fill(SlVlRow::default());
                self.planes.push(empty);
            }
            let rows = self.planes[plane].rows_mut();
            let mut fits = LOW_BITS;
            for (i, &turn) in turns.iter().enumerate() {
                let row = rows[turn].0;
                let wanted = row ^ SlVlRow::uniform(Vl(i as u8 + 1)).0;
                fits &= zero_nibbles(row) | zero_nibbles(wanted);
            }
            if fits != 0 {
                let sl = Sl((fits.leading_zeros() / 4) as u8);
                for (i, &turn) in turns.iter().enumerate() {
                    rows[turn] = rows[turn].with(sl, Vl(i as u8 + 1));
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
