//! The turns into each channel by label, as sets, to count those that a choice forbids.

use crate::fabric::{ChannelId, Fabric, Vl};
use crate::ordering::Rule;

/// Turns of a rule with labels: by second channel and label, the ports by which packets come in.
///
/// A switch that chooses a channel asks how many of its predecessors that blocks, for each of its channels. With
/// sets that takes a few words for each label, in place of a look at each turn.
#[derive(Debug)]
pub(in crate::routing) struct LabelSets {
    /// Words of a set: one bit for each port of a switch.
    words: usize,
    /// Labels, 0 included.
    labels: usize,
    /// By channel and label: the [position](Rule::position_of) of a path over a turn with that label to the channel.
    positions: Vec<u32>,
    /// By channel and label: the ports from which turns to the channel have that label.
    sets: Vec<u64>,
    /// By channel: the port of the switch that it leads to.
    in_port: Vec<u8>,
}

impl LabelSets {
    /// `None` where turns have no labels.
    ///
    /// Cost: O(T + C L) with T turns, C channels and L labels.
    pub(in crate::routing) fn new(fabric: &Fabric, rule: &Rule) -> Option<Self> {
        let order = match rule {
            Rule::Any | Rule::OneVl(_) | Rule::FirstTurnFree(_) => return None,
            Rule::Labelled { .. } | Rule::Ordered { .. } => rule.virtual_channel_order()?,
        };
        let channels = fabric.channels();
        let words = fabric.switch_ids().map(|s| channels.slots_of(s).div_ceil(64)).max().unwrap_or(0);
        let labels = usize::from(rule.vls());
        let mut sets = vec![0; channels.len() * labels * words];
        for (first, c) in channels.iter() {
            for (second, _) in channels.out(c.to) {
                let set = second.index() * labels + usize::from(rule.label(first, second));
                sets[set * words + c.in_port.index() / 64] |= 1 << (c.in_port.index() % 64);
            }
        }
        let position = |id: ChannelId| (0..labels).map(move |label| (id, Vl(label as u8)));
        let all = channels.iter().flat_map(|(id, _)| position(id));
        let positions = all.map(|(channel, label)| order.position(channel, label)).collect();
        let in_port = channels.as_slice().iter().map(|c| c.in_port.0).collect();
        Some(Self { words, labels, positions, sets, in_port })
    }

    /// Collects the ports of predecessors, given as channels to one switch. Returns whether there are any.
    ///
    /// - `set`: is overwritten.
    pub(in crate::routing) fn collect(
        &self,
        channels: impl Iterator<Item = ChannelId>,
        set: &mut Vec<u64>,
    ) -> bool {
        set.clear();
        set.resize(self.words, 0);
        for port in channels.map(|c| usize::from(self.in_port[c.index()])) {
            set[port / 64] |= 1 << (port % 64);
        }
        set.iter().any(|&ports| ports != 0)
    }

    /// How many predecessors the choice of a channel blocks, as [`Turns::blocked`](crate::ordering::Turns::blocked) says.
    ///
    /// - `predecessors`: as [`collect`](Self::collect) makes it.
    /// - `position`: of the path over the channel.
    ///
    /// Cost: O(L) with L labels.
    #[inline(always)]
    pub(in crate::routing) fn blocked(&self, predecessors: &[u64], channel: ChannelId, position: u32) -> u32 {
        let first = channel.index() * self.labels;
        let mut count = 0;
        for (label, &before) in self.positions[first..][..self.labels].iter().enumerate() {
            if !Rule::legal(before, position) {
                let set = &self.sets[(first + label) * self.words..][..self.words];
                count += set.iter().zip(predecessors).map(|(a, b)| (a & b).count_ones()).sum::<u32>();
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::SwitchId;
    use crate::ordering::{Labels, Turns, VirtualChannelOrder, up_down_rank};
    use crate::topology::{FatTree, small_members};

    #[test]
    fn a_set_counts_what_a_look_at_each_turn_does() {
        let wide = FatTree { k: 70, levels: 2, down: None, cas: Some(1) }.build().unwrap();
        for (name, f) in small_members().into_iter().chain([("more than 64 ports", wide)]) {
            let rank = up_down_rank(&f, SwitchId(0));
            let mut labels = Labels::ones(&f);
            for (turn, label) in labels.by_turn_mut().iter_mut().enumerate() {
                *label = 1 + (turn * 7 % 3) as u8;
            }
            let places = (0..4 * f.channels().len() as u32).rev().collect();
            let order = VirtualChannelOrder::mixed(places, rank.clone());
            for rule in [
                Rule::Labelled { ranks: vec![rank.clone()], labels: labels.clone() },
                Rule::Ordered { order, labels: labels.clone() },
            ] {
                let sets = LabelSets::new(&f, &rule).expect("labels");
                let mut set = Vec::new();
                for (id, c) in f.channels().iter() {
                    let into: Vec<ChannelId> =
                        f.channels().out(c.from).map(|(_, back)| back.reverse).collect();
                    for skip in 1..4 {
                        let some: Vec<ChannelId> = into.iter().copied().step_by(skip).collect();
                        sets.collect(some.iter().copied(), &mut set);
                        for (next, _) in f.channels().out(c.to).take(5) {
                            let position = rule.position_of(id, Some(next));
                            let each = rule.blocked(some.iter().copied(), id, position);
                            assert_eq!(sets.blocked(&set, id, position), each, "{name}");
                        }
                        assert_eq!(sets.blocked(&set, id, Rule::END), 0, "{name}");
                    }
                }
            }
            assert!(LabelSets::new(&f, &Rule::OneVl(rank)).is_none());
        }
    }
}
