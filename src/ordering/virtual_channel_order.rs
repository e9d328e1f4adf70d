//! A strict order of the virtual channels.

use super::Rank;
use crate::fabric::{ChannelId, Fabric, Vl};

/// A strict order of the virtual channels, (channel, VL): mostly by VL first, then by the rank of that VL.
///
/// If every packet that holds a virtual channel waits only for later ones, there is no credit loop. Other
/// packets, such as multicast, close none either as long as they obey the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualChannelOrder {
    /// By VL, behind those of `places`; the last one serves all higher VLs too.
    ranks: Vec<Rank>,
    /// By channel, for the VLs below some number: places that do not go by VL.
    places: Vec<u32>,
}

impl VirtualChannelOrder {
    /// - `ranks`: by VL, at least one; the last serves all higher VLs too.
    ///
    /// # Panics
    /// Without a rank.
    pub fn new(ranks: Vec<Rank>) -> Self {
        assert!(!ranks.is_empty(), "an order has a rank");
        Self { ranks, places: Vec::new() }
    }

    /// An order in which VLs mix.
    ///
    /// - `places`: by channel and VL, all different, for the same number of VLs for each channel.
    /// - `rank`: of all higher VLs, which come behind.
    pub fn mixed(places: Vec<u32>, rank: Rank) -> Self {
        Self { ranks: vec![rank], places }
    }

    /// How many VLs mix. Not all need be in use.
    pub fn mixed_vls(&self) -> usize {
        self.places.len().checked_div(self.ranks[0].positions().len()).unwrap_or(0)
    }

    /// The same order on a fabric with some of the channels.
    ///
    /// - `was`: by channel of `fabric`, what it is in this order.
    ///
    /// Cost: O(C log C) for each VL.
    #[must_use]
    pub fn onto(&self, fabric: &Fabric, was: &[ChannelId]) -> Self {
        let vls = self.mixed_vls();
        let of = |c: &ChannelId| &self.places[c.index() * vls..][..vls];
        let ranks = self.ranks.iter().map(|rank| rank.onto(fabric, was)).collect();
        Self { ranks, places: was.iter().flat_map(of).copied().collect() }
    }

    /// The same order with another rank for one VL and all higher ones.
    ///
    /// - `vl`: not below those that mix.
    #[must_use]
    pub fn with_highest(&self, vl: u8, rank: Rank) -> Self {
        let mut ranks = self.ranks.clone();
        let last = ranks[ranks.len() - 1].clone();
        ranks.resize(usize::from(vl) - self.mixed_vls(), last);
        ranks.push(rank);
        Self { ranks, places: self.places.clone() }
    }

    /// The same order with another rank for VL 0. Paths that never wait for VL 0 ascend as before. VLs do not mix.
    #[must_use]
    pub fn with_lowest(&self, rank: Rank) -> Self {
        let others = self.ranks.get(1..).filter(|ranks| !ranks.is_empty()).unwrap_or(&self.ranks);
        Self { ranks: std::iter::once(rank).chain(others.iter().cloned()).collect(), places: Vec::new() }
    }

    /// The position of a virtual channel.
    #[inline(always)]
    pub fn position(&self, channel: ChannelId, vl: Vl) -> u32 {
        let vls = self.mixed_vls();
        match usize::from(vl.0).checked_sub(vls) {
            None => self.places[channel.index() * vls + usize::from(vl.0)],
            Some(behind) => {
                let rank = self.ranks.get(behind).unwrap_or(&self.ranks[self.ranks.len() - 1]);
                u32::from(vl.0) << VL_SHIFT | rank.of(channel)
            }
        }
    }
}

/// Positions hold the VL above this many bits of rank. A subnet has fewer than 2^14 * 3 * 2^8 channels.
const VL_SHIFT: u32 = 27;

/// The position of a virtual channel under ranks by VL, of which the last serves all higher VLs too.
#[inline(always)]
pub(super) fn position(ranks: &[Rank], channel: ChannelId, vl: u8) -> u32 {
    let rank = ranks.get(usize::from(vl)).unwrap_or(&ranks[ranks.len() - 1]);
    u32::from(vl) << VL_SHIFT | rank.of(channel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::SwitchId;
    use crate::ordering::up_down_rank;
    use crate::topology::Ring;

    #[test]
    fn the_vl_comes_before_the_rank_of_that_vl() {
        let f = Ring { switches: 5, cas: 1 }.build().unwrap();
        let ranks = [0, 2, 4].map(|root| up_down_rank(&f, SwitchId(root)));
        let order = VirtualChannelOrder::new(ranks[..2].to_vec());
        let other = order.with_lowest(ranks[2].clone());
        let only = VirtualChannelOrder::new(ranks[..1].to_vec()).with_lowest(ranks[2].clone());
        for (a, b) in f.channels().iter().flat_map(|(a, _)| f.channels().iter().map(move |(b, _)| (a, b))) {
            for (v, w) in (0..4).flat_map(|v| (0..4).map(move |w| (Vl(v), Vl(w)))) {
                let before = |order: &VirtualChannelOrder| order.position(a, v) < order.position(b, w);
                let under = |rank: &Rank| v < w || v == w && rank.of(a) < rank.of(b);
                assert_eq!(before(&order), under(&ranks[usize::from(v.0).min(1)]));
                assert_eq!(before(&other), under(&ranks[if v.0 == 0 { 2 } else { 1 }]));
                assert_eq!(before(&only), under(&ranks[if v.0 == 0 { 2 } else { 0 }]));
            }
        }
    }
}
