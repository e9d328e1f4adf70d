//! The channels that entries lead over, for up to 64 LIDs at once: one bit each.

use super::bits;

/// Room for a port number, plus a cache line so that ports of different switches do not share a
/// cache set.
const ROW: usize = 256 + 8;

/// A channel that entries lead over.
#[derive(Clone, Copy)]
pub(super) struct UsedChannel {
    /// The LIDs of these entries.
    pub(super) lids: u64,
    /// The switch at its end.
    pub(super) to: u32,
    /// The in port of that switch.
    pub(super) in_port: u8,
    /// The out port.
    pub(super) out: u8,
}

/// The channels in use of all switches, read anew for each block of LIDs.
pub(super) struct UsedChannels {
    /// By switch of a tile and port: LIDs. All zero between tiles.
    tile: Vec<[u64; ROW]>,
    /// By switch.
    list: Vec<UsedChannel>,
    /// By switch: its first channel; and one more entry.
    first: Vec<u32>,
    /// By switch with [`MANY`] channels in use: the number of that which carries each LID, [`NOT_CARRIED`] if none does.
    carriers: Vec<[u8; 64]>,
    /// Whether each LID has one channel out of a switch at most.
    one_each: bool,
}

/// Channels of a switch from which on the one that carries a LID is looked up.
const MANY: usize = 8;

/// No channel carries the LID. There are fewer ports.
const NOT_CARRIED: u8 = u8::MAX;

impl UsedChannels {
    /// `tile`: number of switches whose entries are transposed at a time.
    pub(super) fn new(switches: usize, tile: usize) -> Self {
        Self {
            tile: vec![[0; ROW]; tile],
            list: Vec::new(),
            first: Vec::with_capacity(switches + 1),
            carriers: vec![[NOT_CARRIED; 64]; switches],
            one_each: true,
        }
    }

    /// Collects the channels in use. Entries that lead over no channel are left out.
    ///
    /// - `columns`: the number of a LID, below 64, and its out ports by switch. A LID may have several columns.
    /// - `ahead`: by port of a switch, the switch at the end of its channel, and the in port of that; `None` without
    ///   a channel.
    ///
    /// Cost: O(columns x switches).
    pub(super) fn read<P: Iterator<Item = Option<(u32, u8)>>>(
        &mut self,
        switches: usize,
        columns: &[(usize, &[u8])],
        ahead: impl Fn(usize) -> P,
    ) {
        self.list.clear();
        self.first.clear();
        let all = columns.iter().fold(0u64, |all, (lid, _)| all | 1 << lid);
        self.one_each = columns.len() == all.count_ones() as usize;
        for begin in (0..switches).step_by(self.tile.len()) {
            let end = switches.min(begin + self.tile.len());
            for (lid, column) in columns {
                for (row, &out) in self.tile.iter_mut().zip(&column[begin..end]) {
                    row[usize::from(out)] |= 1 << lid;
                }
            }
            for (s, row) in (begin..end).zip(&mut self.tile) {
                self.first.push(self.list.len() as u32);
                let mut met = 0;
                for ((out, lids), ahead) in row.iter_mut().enumerate().zip(ahead(s)) {
                    if *lids != 0 {
                        let used = |(to, in_port)| UsedChannel { lids: *lids, to, in_port, out: out as u8 };
                        self.list.extend(ahead.map(used));
                    }
                    met |= std::mem::take(lids);
                }
                // Some entries name a port that the switch does not have.
                if met != all || !self.one_each {
                    row.fill(0);
                }
                let used = &self.list[self.first[s] as usize..];
                if self.one_each && used.len() >= MANY {
                    let carriers = &mut self.carriers[s];
                    carriers.fill(NOT_CARRIED);
                    for (number, channel) in (0..).zip(used) {
                        bits(channel.lids).for_each(|lid| carriers[lid] = number);
                    }
                }
            }
        }
        self.first.push(self.list.len() as u32);
    }

    /// Those of all switches, by switch.
    pub(super) fn all(&self) -> &[UsedChannel] {
        &self.list
    }

    /// Those out of a switch.
    pub(super) fn of(&self, s: usize) -> &[UsedChannel] {
        &self.list[self.range(s)]
    }

    /// The places of these among all.
    pub(super) fn range(&self, s: usize) -> std::ops::Range<usize> {
        self.first[s] as usize..self.first[s + 1] as usize
    }

    /// Calls `visit` for each channel out of the end of another that carries some of the same LIDs: with its place, itself
    /// and these LIDs.
    ///
    /// Cost: O(channels out of that switch), or O(channels visited) where these are [`MANY`].
    pub(super) fn ahead(&self, channel: &UsedChannel, mut visit: impl FnMut(usize, &UsedChannel, u64)) {
        let next = self.range(channel.to as usize);
        let first = next.start;
        if !self.one_each || next.len() < MANY {
            for (place, ahead) in next.clone().zip(&self.list[next]) {
                let lids = channel.lids & ahead.lids;
                if lids != 0 {
                    visit(place, ahead, lids);
                }
            }
            return;
        }
        let carriers = &self.carriers[channel.to as usize];
        let mut rest = channel.lids;
        while rest != 0 {
            let number = carriers[rest.trailing_zeros() as usize];
            if number == NOT_CARRIED {
                rest &= rest - 1;
                continue;
            }
            let place = first + usize::from(number);
            let ahead = &self.list[place];
            visit(place, ahead, channel.lids & ahead.lids);
            rest &= !ahead.lids;
        }
    }

    /// Forgets all other LIDs.
    pub(super) fn keep(&mut self, lids: u64) {
        self.list.iter_mut().for_each(|channel| channel.lids &= lids);
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};

    use super::UsedChannels;

    /// The same, port by port, over switches of 4 or 16 ports; no channel leaves by port 1.
    #[test]
    fn each_port_has_the_lids_whose_entries_name_it() {
        let mut dice = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        for tile in [1, 2, 3, 64] {
            let (switches, ports) = (150, |s: usize| 0..[4, 16, 4][s % 3]);
            let mut used = UsedChannels::new(switches, tile);
            for (lids, more) in [(1, 0), (2, 0), (64, 0), (63, 21), (64, 21), (5, 1), (33, 0)] {
                let mut column = || -> Vec<u8> {
                    (0..switches)
                        .map(|_| [dice.random_range(0..18), 255][dice.random_range(0..9) / 8])
                        .collect()
                };
                let columns: Vec<_> = (0..lids + more).map(|i| (i % lids, column())).collect();
                let slices: Vec<(usize, &[u8])> =
                    columns.iter().map(|(lid, column)| (*lid, &column[..])).collect();
                used.read(switches, &slices, |s| {
                    ports(s).map(move |port| (port != 1).then_some((s as u32 + 1, port + 7)))
                });
                let mut all = 0;
                for s in 0..switches {
                    let of = |port| {
                        let named = columns.iter().filter(|(_, column)| column[s] == port);
                        named.fold(0u64, |set, (lid, _)| set | 1 << lid)
                    };
                    let of_ports = ports(s).filter(|&port| port != 1).map(|port| (port, of(port)));
                    let expected: Vec<_> = of_ports.filter(|(_, lids)| *lids != 0).collect();
                    let found: Vec<_> = used.of(s).iter().map(|c| (c.out, c.lids)).collect();
                    assert_eq!(found, expected, "switch {s} of tiles of {tile}");
                    assert!(used.of(s).iter().all(|c| (c.to, c.in_port) == (s as u32 + 1, c.out + 7)));
                    assert_eq!(used.range(s), all..all + used.of(s).len());
                    all = used.range(s).end;
                }
                assert_eq!(used.all().len(), all);
                for channel in used.all().iter().filter(|c| (c.to as usize) < switches) {
                    let mut found: Vec<(usize, u64)> = Vec::new();
                    used.ahead(channel, |place, ahead, lids| {
                        assert_eq!(lids, channel.lids & ahead.lids);
                        found.push((place, lids));
                    });
                    found.sort_unstable();
                    let next = used.range(channel.to as usize);
                    let all = next.map(|place| (place, channel.lids & used.all()[place].lids));
                    assert_eq!(found, all.filter(|(_, lids)| *lids != 0).collect::<Vec<_>>());
                }
                used.keep(1);
                assert!(used.all().iter().all(|c| c.lids <= 1));
            }
        }
    }
}
