//! VL arbitration by the tables (InfiniBand Architecture Specification, volume 1, section 7.6.9).

use crate::tables::VlArb;

/// The entries of one of the two tables with a weight and a VL in use, in bytes.
type Table = Vec<(u8, u32)>;

/// The tables of all ports, prepared.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    high: Table,
    low: Table,
    /// Bytes of the high table after which the low one gets a turn; `None` for no limit.
    limit: Option<u32>,
    /// VLs in the low table, and in neither.
    in_low: u16,
    rest: u16,
    /// By entry of the low table and VL: the next entry of that VL, at the earliest the one after it.
    after: Vec<[u8; 16]>,
}

/// The position of a port in its tables: 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    /// Bytes of the current entries that are used up.
    high_used: u32,
    low_used: u32,
    /// Bytes sent by the high table since the low one had a turn.
    since_low: u32,
    /// The current entries.
    high: u8,
    low: u8,
}

/// The VL of the next entry with a packet. An entry keeps its turn until its weight is used up,
/// and its last packet may exceed it.
#[inline]
fn next(table: &[(u8, u32)], entry: &mut u8, used: &mut u32, ready: u16) -> Option<u8> {
    for _ in 0..=table.len() {
        let &(vl, weight) = table.get(usize::from(*entry))?;
        if *used < weight && ready >> vl & 1 != 0 {
            return Some(vl);
        }
        *entry += 1;
        if usize::from(*entry) == table.len() {
            *entry = 0;
        }
        *used = 0;
    }
    None
}

impl Tables {
    /// The entries for VL 0 to `vls` - 1.
    pub(super) fn new(vlarb: &VlArb, vls: usize) -> Self {
        let entries = |list: &[(crate::fabric::Vl, u8)]| -> Table {
            let used = list.iter().filter(|(vl, weight)| usize::from(vl.0) < vls && *weight > 0);
            used.map(|&(vl, weight)| (vl.0, u32::from(weight) * 64)).collect()
        };
        let (high, low) = (entries(&vlarb.high), entries(&vlarb.low));
        let listed = |table: &Table| table.iter().fold(0_u16, |all, (vl, _)| all | 1 << vl);
        let in_low = listed(&low);
        let rest = ((1 << vls) - 1) & !in_low & !listed(&high);
        let limit = match vlarb.limit {
            VlArb::UNLIMITED => None,
            limit => Some(u32::from(limit) * 4096),
        };
        let mut after = vec![[0; 16]; low.len()];
        for (entry, of) in after.iter_mut().enumerate() {
            for i in (1..=low.len()).rev().map(|ahead| (entry + ahead) % low.len()) {
                of[usize::from(low[i].0)] = i as u8;
            }
        }
        Self { high, low, limit, in_low, rest, after }
    }

    /// The VL whose packet is sent next, among those that have one ready.
    ///
    /// VLs of the high table come first, until they have sent the limit since the low one had its
    /// turn; a limit of 0 is one packet. VLs in neither table are sent when no other VL is ready. A
    /// switch would never send them, but this simulator is not about tables that omit a VL.
    #[inline]
    pub(super) fn choose(&self, turn: &mut Turn, ready: u16, mut bytes: impl FnMut(u8) -> u32) -> u8 {
        let low_waits = self.in_low & ready != 0;
        let over = || self.limit.is_some_and(|limit| turn.since_low > 0 && turn.since_low >= limit);
        let passed = self.high.is_empty() || low_waits && over();
        let high = if passed { None } else { next(&self.high, &mut turn.high, &mut turn.high_used, ready) };
        if let Some(vl) = high {
            let bytes = bytes(vl);
            turn.high_used += bytes;
            turn.since_low = if low_waits { turn.since_low.saturating_add(bytes) } else { 0 };
            return vl;
        }
        turn.since_low = 0;
        if let Some(vl) = next(&self.low, &mut turn.low, &mut turn.low_used, ready) {
            turn.low_used += bytes(vl);
            return vl;
        }
        let unlisted = ready & self.rest;
        (if unlisted != 0 { unlisted } else { ready }).trailing_zeros() as u8
    }

    /// As `choose` when only one VL has a packet.
    #[inline]
    pub(super) fn choose_only(&self, turn: &mut Turn, vl: u8, bytes: u32) {
        let entry = usize::from(turn.low);
        if !self.high.is_empty() || self.in_low >> vl & 1 == 0 {
            self.choose(turn, 1 << vl, |_| bytes);
        } else if let (Some((of, weight)), Some(after)) = (self.low.get(entry), self.after.get(entry)) {
            let stays = *of == vl && turn.low_used < *weight;
            (turn.low_used, turn.low) =
                if stays { (turn.low_used, turn.low) } else { (0, after[usize::from(vl) % 16]) };
            turn.low_used += bytes;
            turn.since_low = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Vl;

    fn order(vlarb: &VlArb, vls: usize, ready: u16, n: usize) -> Vec<u8> {
        let tables = Tables::new(vlarb, vls);
        let mut turn = Turn::default();
        (0..n).map(|_| tables.choose(&mut turn, ready, |_| 2048)).collect()
    }

    #[test]
    fn weights_are_kept() {
        // 64 x 64 bytes are two packets of 2 KiB.
        assert_eq!(order(&VlArb::fair(3), 3, 0b111, 8), [0, 0, 1, 1, 2, 2, 0, 0]);
        assert_eq!(order(&VlArb::fair(3), 3, 0b101, 5), [0, 0, 2, 2, 0], "who has nothing is passed over");
        let low = vec![(Vl(0), 32), (Vl(1), 96)];
        let uneven = VlArb { low, ..VlArb::fair(1) };
        assert_eq!(order(&uneven, 2, 0b11, 8), [0, 1, 1, 1, 0, 1, 1, 1]);
        let short = VlArb { low: vec![(Vl(0), 1), (Vl(1), 1)], ..VlArb::fair(1) };
        assert_eq!(order(&short, 2, 0b11, 4), [0, 1, 0, 1], "the last packet may be longer than the weight");
    }

    #[test]
    fn the_high_table_goes_first_up_to_its_limit() {
        let tables = |limit| VlArb { high: vec![(Vl(1), 255)], low: vec![(Vl(0), 255)], limit };
        assert_eq!(order(&tables(VlArb::UNLIMITED), 2, 0b11, 5), [1, 1, 1, 1, 1]);
        assert_eq!(order(&tables(0), 2, 0b11, 6), [1, 0, 1, 0, 1, 0], "0: one packet");
        assert_eq!(order(&tables(1), 2, 0b11, 6), [1, 1, 0, 1, 1, 0], "1: 4 KiB");
        assert_eq!(order(&tables(0), 2, 0b10, 3), [1, 1, 1], "nobody of the low table waits");
    }

    #[test]
    fn the_only_vl_takes_its_turn_as_one_of_several_does() {
        let twice = VlArb { low: vec![(Vl(1), 2), (Vl(0), 40), (Vl(1), 64)], ..VlArb::fair(1) };
        let high = VlArb { high: vec![(Vl(1), 255)], low: vec![(Vl(0), 255)], limit: 1 };
        for vlarb in [VlArb::fair(1), VlArb::fair(3), twice, high] {
            let tables = Tables::new(&vlarb, 3);
            let (mut turn, mut same) = (Turn::default(), Turn::default());
            let mut random = crate::simulate::random::Random::new(1, 2);
            for _ in 0..2000 {
                let (vl, bytes) = (random.below(3) as u8, 64 * random.below(32) as u32 + 64);
                tables.choose_only(&mut turn, vl, bytes);
                assert_eq!(tables.choose(&mut same, 1 << vl, |_| bytes), vl);
                assert_eq!(turn, same, "{vlarb:?}");
                if random.below(4) == 0 {
                    tables.choose(&mut turn, 0b111, |_| bytes);
                    tables.choose(&mut same, 0b111, |_| bytes);
                }
            }
        }
    }

    #[test]
    fn a_vl_that_is_not_listed_goes_last() {
        assert_eq!(order(&VlArb::fair(1), 2, 0b11, 3), [0, 0, 0]);
        assert_eq!(order(&VlArb::fair(1), 2, 0b10, 2), [1, 1]);
    }
}
