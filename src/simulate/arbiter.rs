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
    /// VLs in neither table.
    rest: u16,
}

/// The position of a port in its tables.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    high: Place,
    low: Place,
    /// Bytes sent by the high table since the low one had a turn.
    since_low: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    entry: u8,
    /// Bytes of the current entry that are used up.
    used: u32,
}

impl Place {
    /// The VL of the next entry with a packet. An entry keeps its turn until its weight is used up,
    /// and its last packet may exceed it.
    fn next(&mut self, table: &Table, ready: u16) -> Option<u8> {
        for _ in 0..=table.len() {
            let &(vl, weight) = table.get(usize::from(self.entry))?;
            if self.used < weight && ready >> vl & 1 != 0 {
                return Some(vl);
            }
            self.entry = (self.entry + 1) % table.len() as u8;
            self.used = 0;
        }
        None
    }
}

impl Tables {
    /// The entries for VL 0 to `vls` - 1.
    pub(super) fn new(vlarb: &VlArb, vls: usize) -> Self {
        let entries = |list: &[(crate::fabric::Vl, u8)]| -> Table {
            let used = list.iter().filter(|(vl, weight)| usize::from(vl.0) < vls && *weight > 0);
            used.map(|&(vl, weight)| (vl.0, u32::from(weight) * 64)).collect()
        };
        let (high, low) = (entries(&vlarb.high), entries(&vlarb.low));
        let listed = high.iter().chain(&low).fold(0_u16, |all, (vl, _)| all | 1 << vl);
        let limit = match vlarb.limit {
            VlArb::UNLIMITED => None,
            limit => Some(u32::from(limit) * 4096),
        };
        Self { high, low, limit, rest: ((1 << vls) - 1) & !listed }
    }

    /// The VL whose packet is sent next, among those that have one ready.
    ///
    /// VLs of the high table come first, until they have sent the limit since the low one had its
    /// turn; a limit of 0 is one packet. VLs in neither table are sent when no other VL is ready. A
    /// switch would never send them, but this simulator is not about tables that omit a VL.
    pub(super) fn choose(&self, turn: &mut Turn, ready: u16, bytes: impl Fn(u8) -> u32) -> u8 {
        let low_waits = self.low.iter().any(|(vl, _)| ready >> vl & 1 != 0);
        let over = self.limit.is_some_and(|limit| turn.since_low > 0 && turn.since_low >= limit);
        let high = if low_waits && over { None } else { turn.high.next(&self.high, ready) };
        if let Some(vl) = high {
            let bytes = bytes(vl);
            turn.high.used += bytes;
            turn.since_low = if low_waits { turn.since_low.saturating_add(bytes) } else { 0 };
            return vl;
        }
        turn.since_low = 0;
        if let Some(vl) = turn.low.next(&self.low, ready) {
            turn.low.used += bytes(vl);
            return vl;
        }
        let unlisted = ready & self.rest;
        (if unlisted != 0 { unlisted } else { ready }).trailing_zeros() as u8
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
    fn a_vl_that_is_not_listed_goes_last() {
        assert_eq!(order(&VlArb::fair(1), 2, 0b11, 3), [0, 0, 0]);
        assert_eq!(order(&VlArb::fair(1), 2, 0b10, 2), [1, 1]);
    }
}
