//! Classes of service: blocks of VLs side by side, and which SL maps to which block.

use crate::fabric::{Sl, Vl};

/// How SLs and VLs are divided among classes of service, and within a class among *VL sets*, over
/// which destinations are spread.
///
/// Each VL set of each class is a *block*: `vls` VLs and `sls` SLs of its own. On any fabric, SL n
/// belongs to class n modulo `classes`, so that in OpenSM's files SL q always means class q. Within
/// its class, n / `classes` counts the SLs of the first VL set, then those of the next; SLs beyond
/// the last set start over with the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes {
    /// Classes of service, at least 1.
    pub classes: u8,
    /// VL sets per class, at least 1; 1 if destinations are not spread.
    pub vl_sets: u8,
    /// VLs per block, at least 1.
    pub vls: u8,
    /// SLs per block, at least 1.
    pub sls: u8,
}

impl Classes {
    /// Number of blocks.
    pub fn blocks(self) -> u8 {
        self.classes * self.vl_sets
    }

    /// The block of a VL set of a class: the first VL sets of all classes come first, so that a
    /// class keeps its first VLs when destinations are spread over more.
    pub fn block(self, class: u8, set: u8) -> u8 {
        set * self.classes + class
    }

    /// The SL that stands for the `own`-th SL of a block.
    pub fn sl(self, class: u8, set: u8, own: u8) -> Sl {
        Sl(class + self.classes * (set * self.sls + own))
    }

    /// The class of an SL.
    pub fn class_of(self, sl: Sl) -> u8 {
        sl.0 % self.classes
    }

    /// The block of an SL, and which of the block's SLs it stands for.
    pub fn block_of(self, sl: Sl) -> (u8, u8) {
        let n = sl.0 / self.classes % (self.vl_sets * self.sls);
        (self.block(self.class_of(sl), n / self.sls), n % self.sls)
    }

    /// The VL that stands for the `own`-th VL of a block.
    pub fn vl(self, block: u8, own: Vl) -> Vl {
        Vl(block * self.vls + own.0)
    }

    /// The VL of a block on links to adapters, which need only one.
    ///
    /// A port with fewer VLs keeps only their low bits. These are the class, so classes stay
    /// separate as long as there is a VL for each; VL sets stay separate as far as the VLs of all
    /// blocks suffice.
    pub fn vl_at_adapters(self, block: u8) -> Vl {
        let (set, class) = (block / self.classes, block % self.classes);
        let stride = self.classes.next_power_of_two();
        let vl_sets = (self.blocks() * self.vls / stride).max(1);
        Vl(set % vl_sets * stride + class)
    }
}

#[cfg(test)]
mod tests {
    use super::Classes;
    use crate::fabric::{Sl, Vl};

    #[test]
    fn no_two_blocks_share_an_sl_or_a_vl() {
        for (classes, vl_sets, vls, sls) in
            [(1, 1, 2, 1), (3, 1, 5, 5), (2, 3, 2, 2), (1, 8, 1, 2), (15, 1, 1, 1)]
        {
            let c = Classes { classes, vl_sets, vls, sls };
            let (mut seen_sls, mut seen_vls) = (0_u16, 0_u16);
            for class in 0..classes {
                for set in 0..vl_sets {
                    let block = c.block(class, set);
                    for own in 0..sls {
                        let sl = c.sl(class, set, own);
                        assert_eq!((c.class_of(sl), c.block_of(sl)), (class, (block, own)), "{c:?}");
                        assert_eq!(seen_sls & 1 << sl.0, 0, "{c:?}");
                        seen_sls |= 1 << sl.0;
                    }
                    assert!(c.vl_at_adapters(c.block(class, set)).0 < c.blocks() * vls, "{c:?}");
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

    #[test]
    fn classes_meet_at_adapters_only_where_there_are_fewer_vls_than_classes() {
        let mut met = 0;
        for classes in 1..=15 {
            for (vl_sets, vls) in (1..=15).flat_map(|w| (1..=15).map(move |v| (w, v))) {
                if u16::from(classes) * vl_sets * vls > 15 {
                    continue;
                }
                let c = Classes { classes, vl_sets: vl_sets as u8, vls: vls as u8, sls: 1 };
                // The data VLs that a port operates, and what OpenSM then keeps of a VL.
                for (operates, mask) in [(1, 0), (2, 1), (4, 3), (8, 7), (15, 15)] {
                    for (a, b) in (0..c.blocks()).flat_map(|a| (0..a).map(move |b| (a, b))) {
                        let meet = c.vl_at_adapters(a).0 & mask == c.vl_at_adapters(b).0 & mask;
                        let of_one_class = a % classes == b % classes;
                        assert!(!meet || of_one_class || operates < classes, "{c:?}, {operates} VLs");
                        met += u32::from(meet);
                    }
                }
                if classes.is_power_of_two() {
                    assert!(
                        (0..c.blocks()).all(|b| c.vl_at_adapters(b) == Vl(b)),
                        "VL sets are apart too: {c:?}"
                    );
                }
            }
        }
        assert!(met > 0);
    }
}
