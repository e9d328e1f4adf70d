//! Classes of service: blocks of VLs side by side, and which SL leads to which.

use crate::fabric::{Sl, Vl};

/// How SLs and VLs are dealt out among classes of service, and within a class among *ways*, between
/// which destinations are spread.
///
/// Each pair of a class and a way has a *block*: `vls` VLs and `sls` SLs that nobody else uses. SL n
/// belongs to class n modulo `classes`, whatever the fabric looks like, so that SL q names class q in
/// OpenSM's files for good. Within its class, n / `classes` counts the SLs of the first way, then
/// those of the next; SLs beyond the last way start over with the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes {
    /// Classes of service, at least 1.
    pub classes: u8,
    /// Blocks of each class, at least 1; 1 where destinations are not spread.
    pub ways: u8,
    /// VLs of a block, at least 1.
    pub vls: u8,
    /// SLs of a block, at least 1.
    pub sls: u8,
}

impl Classes {
    /// Blocks in all.
    pub fn blocks(self) -> u8 {
        self.classes * self.ways
    }

    /// The block of a class and a way: the first blocks are those of the first way, so that a class
    /// keeps its first VLs when others are spread over.
    pub fn block(self, class: u8, way: u8) -> u8 {
        way * self.classes + class
    }

    /// The SL that stands for the `own`-th SL of a block.
    pub fn sl(self, class: u8, way: u8, own: u8) -> Sl {
        Sl(class + self.classes * (way * self.sls + own))
    }

    /// The class of an SL.
    pub fn class_of(self, sl: Sl) -> u8 {
        sl.0 % self.classes
    }

    /// The block of an SL, and which of the block's own SLs it stands for.
    pub fn block_of(self, sl: Sl) -> (u8, u8) {
        let n = sl.0 / self.classes % (self.ways * self.sls);
        (self.block(self.class_of(sl), n / self.sls), n % self.sls)
    }

    /// The VL that stands for the `own`-th VL of a block.
    pub fn vl(self, block: u8, own: Vl) -> Vl {
        Vl(block * self.vls + own.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Classes;
    use crate::fabric::{Sl, Vl};

    #[test]
    fn no_two_blocks_share_an_sl_or_a_vl() {
        for (classes, ways, vls, sls) in
            [(1, 1, 2, 1), (3, 1, 5, 5), (2, 3, 2, 2), (1, 8, 1, 2), (15, 1, 1, 1)]
        {
            let c = Classes { classes, ways, vls, sls };
            let (mut seen_sls, mut seen_vls) = (0_u16, 0_u16);
            for class in 0..classes {
                for way in 0..ways {
                    let block = c.block(class, way);
                    for own in 0..sls {
                        let sl = c.sl(class, way, own);
                        assert_eq!((c.class_of(sl), c.block_of(sl)), (class, (block, own)), "{c:?}");
                        assert_eq!(seen_sls & 1 << sl.0, 0, "{c:?}");
                        seen_sls |= 1 << sl.0;
                    }
                    for own in 0..vls {
                        let vl = c.vl(block, Vl(own));
                        assert!(vl.0 < c.blocks() * vls && seen_vls & 1 << vl.0 == 0, "{c:?}");
                        seen_vls |= 1 << vl.0;
                    }
                }
                assert_eq!(c.class_of(Sl(class)), class, "SL q names class q");
            }
            assert!((0..16).all(|sl| c.block_of(Sl(sl)).0 < c.blocks()), "every SL leads somewhere: {c:?}");
        }
    }
}
