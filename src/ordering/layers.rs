//! Layers: the channels in a few ordered classes.

use super::rank::positions;
use crate::fabric::{ChannelId, Fabric};

/// The channels of a fabric, partitioned into ordered layers.
///
/// A path is *ordered* if its layers never fall and it never turns back to the switch that it came from.
/// Within a layer no walk without a turn back may meet itself. Then the channels have a total order,
/// [`rank`](Self::rank), in which every ordered path ascends, so ordered paths close no credit loop (Chiu et
/// al., section 4.1, Theorem 1).
///
/// One byte and one word a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layers {
    of: Vec<u8>,
    rank: Vec<u32>,
    count: usize,
}

impl Layers {
    /// `of[c]`: the layer of channel `c`, below 255; `key[c]`: its position among the channels of its
    /// layer, ties by channel index.
    pub(super) fn new(of: Vec<u8>, key: &[i64]) -> Self {
        let rank = positions(of.iter().zip(key));
        let count = of.iter().max().map_or(0, |&last| usize::from(last) + 1);
        Self { of, rank, count }
    }

    /// The layer of a channel, from 0.
    pub fn of(&self, channel: ChannelId) -> u8 {
        self.of[channel.index()]
    }

    /// The position of a channel in the total order, from 0.
    pub fn rank(&self, channel: ChannelId) -> u32 {
        self.rank[channel.index()]
    }

    /// Number of layers.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether an ordered path may go over `first` and then over `second`, which begins where
    /// `first` ends.
    pub fn allow(&self, fabric: &Fabric, first: ChannelId, second: ChannelId) -> bool {
        let channels = fabric.channels();
        self.of(first) <= self.of(second) && channels.get(first).from != channels.get(second).to
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LinkSort, ordered_trees, up_down_layers};
    use crate::fabric::SwitchId;
    use crate::topology::{RandomIrregular, small_members};

    #[test]
    fn every_turn_that_is_allowed_ascends() {
        let dense = RandomIrregular { switches: 6, ports: 14, cas: 1, seed: 3 }.build().unwrap();
        for (name, f) in small_members().into_iter().chain([("parallel links", dense)]) {
            let mut all: Vec<_> = LinkSort::ALL.iter().map(|&sort| ordered_trees(&f, sort)).collect();
            all.push(up_down_layers(&f, SwitchId(0)));
            for layers in all {
                let mut turns = 0;
                for (first, c) in f.channels().iter() {
                    for (second, _) in f.channels().out(c.to) {
                        if layers.allow(&f, first, second) {
                            turns += 1;
                            assert!(layers.rank(first) < layers.rank(second), "{name}");
                        }
                    }
                }
                assert!(turns > 0 || f.num_switches() < 3, "{name}");
            }
        }
    }
}
