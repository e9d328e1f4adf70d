//! VL arbitration.

use crate::fabric::Vl;

/// The arbitration tables of a port, one of high and one of low priority. Entries are served in
/// turn; each is a VL and a weight in units of 64 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlArb {
    /// (VL, weight) of high priority; no weight is zero.
    pub high: Vec<(Vl, u8)>,
    /// (VL, weight) of low priority; no weight is zero.
    pub low: Vec<(Vl, u8)>,
    /// How much the high table may send before the low table gets a turn, in units of 4 KiB; 0 for
    /// one packet, [`VlArb::UNLIMITED`] for no limit.
    pub limit: u8,
}

impl VlArb {
    /// The [limit](VlArb::limit) that means no limit.
    pub const UNLIMITED: u8 = 255;

    /// Equal weights for VL 0 to `vls` - 1, large enough for a packet of 4 KiB in one turn. All
    /// have low priority, so that no VL can starve another.
    pub fn fair(vls: u8) -> Self {
        let low = (0..vls.clamp(1, Vl::MAX_DATA)).map(|vl| (Vl(vl), 64)).collect();
        Self { high: Vec::new(), low, limit: 0 }
    }
}
