//! An order of the virtual channels.

use super::Rank;
use crate::fabric::{ChannelId, Vl};

/// A strict order of the virtual channels, (channel, VL): by VL, those of one VL by the rank of that VL.
///
/// Where every packet that holds one virtual channel and waits for another waits for one that comes
/// later, there is no credit loop; and packets of any other kind, multicast among them, close none as
/// long as they keep to the same order.
#[derive(Clone, Debug)]
pub struct LaneOrder {
    ranks: Vec<Rank>,
}

impl LaneOrder {
    /// - `ranks`: by VL, at least one; the last serves all higher VLs too.
    ///
    /// # Panics
    /// Without a rank.
    pub fn new(ranks: Vec<Rank>) -> Self {
        assert!(!ranks.is_empty(), "an order has a rank");
        Self { ranks }
    }

    /// The same order with another rank for VL 0. What ascends still does unless it waits for VL 0.
    #[must_use]
    pub fn with_lowest(&self, rank: Rank) -> Self {
        let others = self.ranks.get(1..).filter(|ranks| !ranks.is_empty()).unwrap_or(&self.ranks);
        Self { ranks: std::iter::once(rank).chain(others.iter().cloned()).collect() }
    }

    /// The place of a virtual channel.
    #[inline(always)]
    pub fn place(&self, channel: ChannelId, vl: Vl) -> u32 {
        place(&self.ranks, channel, vl.0)
    }
}

/// Places hold the VL above this many bits of rank. A subnet has fewer than 2^14 * 3 * 2^8 channels.
const VL_SHIFT: u32 = 27;

/// The place of a virtual channel under ranks by VL, of which the last serves all higher VLs too.
#[inline(always)]
pub(super) fn place(ranks: &[Rank], channel: ChannelId, vl: u8) -> u32 {
    let rank = ranks.get(usize::from(vl)).unwrap_or(&ranks[ranks.len() - 1]);
    u32::from(vl) << VL_SHIFT | rank.of(channel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::SwitchId;
    use crate::ordering::bfs;
    use crate::topology::Ring;

    #[test]
    fn the_vl_comes_before_the_rank_of_that_vl() {
        let f = Ring { switches: 5, cas: 1 }.build().unwrap();
        let ranks = [0, 2, 4].map(|root| bfs(&f, SwitchId(root)));
        let order = LaneOrder::new(ranks[..2].to_vec());
        let other = order.with_lowest(ranks[2].clone());
        let only = LaneOrder::new(ranks[..1].to_vec()).with_lowest(ranks[2].clone());
        for (a, b) in f.channels().iter().flat_map(|(a, _)| f.channels().iter().map(move |(b, _)| (a, b))) {
            for (v, w) in (0..4).flat_map(|v| (0..4).map(move |w| (Vl(v), Vl(w)))) {
                let before = |order: &LaneOrder| order.place(a, v) < order.place(b, w);
                let under = |rank: &Rank| v < w || v == w && rank.of(a) < rank.of(b);
                assert_eq!(before(&order), under(&ranks[usize::from(v.0).min(1)]));
                assert_eq!(before(&other), under(&ranks[if v.0 == 0 { 2 } else { 1 }]));
                assert_eq!(before(&only), under(&ranks[if v.0 == 0 { 2 } else { 0 }]));
            }
        }
    }
}
