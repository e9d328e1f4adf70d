//! The SL that a sender must use: what PathRecord queries answer.

use crate::fabric::{EndPortId, Fabric, Lid, Sl, SwitchId};

/// SL by source and destination LID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathSl {
    /// Any SL of a set serves every pair (bit `n` = SL `n`); senders that ask get the lowest.
    Any(u16),
    /// One SL by destination LID and the source's switch: a dense array of
    /// [`Fabric::lid_table_len`] x switches bytes, destination-major as [`Lft`](super::Lft).
    BySwitch(Vec<u8>),
    /// One SL by source end port and destination LID: a dense array of end ports x
    /// [`Fabric::lid_table_len`] bytes, [`PathSl::UNKNOWN`] where nothing is known (then any SL
    /// may be in use). What the dumps of engines that were not written here amount to.
    ByEndPort(Vec<u8>),
}

impl PathSl {
    /// Entry of a pair that nothing is known about.
    pub const UNKNOWN: u8 = 0xff;

    /// One SL for every pair.
    pub fn one(sl: Sl) -> Self {
        Self::Any(1 << sl.0)
    }

    /// A table by source switch, all SL 0.
    pub fn by_switch(fabric: &Fabric) -> Self {
        Self::BySwitch(vec![0; fabric.num_switches() * fabric.lid_table_len()])
    }

    /// The SLs with which a packet from `source` to `dlid` may travel, bit `n` = SL `n`: one bit
    /// where the tables state one, several where any of them serves or none is known.
    pub fn allowed(&self, fabric: &Fabric, source: EndPortId, dlid: Lid) -> u16 {
        let stride = fabric.lid_table_len();
        let bit = |sl: u8| if sl == Self::UNKNOWN { u16::MAX } else { 1 << (sl & 0xf) };
        match self {
            Self::Any(set) => *set,
            Self::BySwitch(table) => match fabric.endport(source).attachment {
                Some((SwitchId(s), _)) => bit(table[dlid.index() * fabric.num_switches() + s as usize]),
                None => u16::MAX,
            },
            Self::ByEndPort(table) => bit(table[source.index() * stride + dlid.index()]),
        }
    }

    /// The SL that a sender is told: the lowest of those [`allowed`](Self::allowed).
    pub fn get(&self, fabric: &Fabric, source: EndPortId, dlid: Lid) -> Sl {
        Sl(self.allowed(fabric, source, dlid).trailing_zeros() as u8)
    }
}
