//! VL arbitration.

use crate::fabric::Vl;

/// The arbitration tables of a port: entries in turn, each a VL and a weight in units of 64 bytes, in a
/// table of high and one of low priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlArb {
    /// (VL, weight) of high priority, weights not zero.
    pub high: Vec<(Vl, u8)>,
    /// (VL, weight) of low priority, weights not zero.
    pub low: Vec<(Vl, u8)>,
    /// What may go by the high table before the low one gets a turn, in units of 4 KiB; 0 for one packet,
    /// [`VlArb::UNLIMITED`] for any number.
    pub limit: u8,
}

impl VlArb {
    /// The [limit](VlArb::limit) that is none.
    pub const UNLIMITED: u8 = 255;

    /// The same weight for VL 0 to `vls` - 1: large enough for a packet of 4 KiB in one turn. All have
    /// low priority, so that no VL can starve another.
    pub fn fair(vls: u8) -> Self {
        let low = (0..vls.clamp(1, Vl::MAX_DATA)).map(|vl| (Vl(vl), 64)).collect();
        Self { high: Vec::new(), low, limit: 0 }
    }
}
