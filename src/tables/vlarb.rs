//! VL arbitration.

use crate::fabric::Vl;

/// The low-priority arbitration table of a port: entries in turn, each a VL and a weight in units
/// of 64 bytes. The high-priority table stays empty, so that no VL can starve another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlArb {
    /// (VL, weight), weights not zero.
    pub low: Vec<(Vl, u8)>,
}

impl VlArb {
    /// The same weight for VL 0 to `vls` - 1: large enough for a packet of 4 KiB in one turn.
    pub fn fair(vls: u8) -> Self {
        Self { low: (0..vls.clamp(1, Vl::MAX_DATA)).map(|vl| (Vl(vl), 64)).collect() }
    }
}
