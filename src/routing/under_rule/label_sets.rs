//! The turns into each channel by label, as sets, to count those that a choice forbids.

use crate::fabric::{ChannelId, Fabric, Vl};
use crate::ordering::{Labels, Predecessors, Rule};

/// Turns of a rule with labels: by second channel, the ports by which packets come in, in the order of the virtual channels
/// that they wait for.
///
/// A switch that chooses a channel asks how many of its predecessors that blocks, for each of its channels. With
/// sets that takes a few words, in place of a look at each turn.
#[derive(Debug)]
pub(in crate::routing) struct LabelSets<'a> {
    labels: &'a Labels,
    /// Words of a set: one bit for each port of a switch.
    words: usize,
    /// VLs, 0 included.
    vls: usize,
    /// By channel and label: the [position](Rule::position_of) of a path over a turn with that label to the channel.
    positions: Vec<u32>,
    /// The same, by channel in ascending order.
    ascending: Vec<u32>,
    /// By channel, and by how many of the positions in ascending order are left out, 0 to all: the ports from which turns to
    /// the channel have one of the others.
    sets: Vec<u64>,
    /// By channel: the port of the switch that it leads to.
    in_port: Vec<u8>,
}

impl<'a> LabelSets<'a> {
    /// `None` where turns have no labels.
    ///
    /// Cost: O(T + C L log L) with T turns, C channels and L labels.
    pub(in crate::routing) fn new(fabric: &Fabric, rule: &'a Rule) -> Option<Self> {
        let (Rule::Labelled { labels, .. } | Rule::Ordered { labels, .. }) = rule else { return None };
        let order = rule.virtual_channel_order()?;
        let channels = fabric.channels();
        let words = fabric.switch_ids().map(|s| channels.slots_of(s).div_ceil(64)).max().unwrap_or(0);
        let vls = usize::from(rule.vls());
        let position = |id: ChannelId| (0..vls).map(move |vl| (id, Vl(vl as u8)));
        let all = channels.iter().flat_map(|(id, _)| position(id));
        let positions: Vec<u32> = all.map(|(channel, vl)| order.position(channel, vl)).collect();
        let mut ascending = positions.clone();
        ascending.chunks_mut(vls).for_each(<[u32]>::sort_unstable);
        let mut sets = vec![0; channels.len() * (vls + 1) * words];
        for (first, c) in channels.iter() {
            for (second, _) in channels.out(c.to) {
                let own = second.index() * vls;
                let position = positions[own + usize::from(labels.get(first, second))];
                let place = ascending[own..][..vls].iter().take_while(|&&other| other < position).count();
                let set = second.index() * (vls + 1) + place;
                sets[set * words + c.in_port.index() / 64] |= 1 << (c.in_port.index() % 64);
            }
        }
        // Each has the turns of all later ones too.
        for of_channel in sets.chunks_mut((vls + 1) * words) {
            for i in (0..vls * words).rev() {
                of_channel[i] |= of_channel[i + words];
            }
        }
        let in_port = channels.as_slice().iter().map(|c| c.in_port.0).collect();
        Some(Self { labels, words, vls, positions, ascending, sets, in_port })
    }

    /// [`Rule::position_of`].
    #[inline(always)]
    pub(in crate::routing) fn position(&self, channel: ChannelId, next: Option<ChannelId>) -> u32 {
        next.map_or(Rule::END, |next| {
            self.positions[next.index() * self.vls + usize::from(self.labels.get(channel, next))]
        })
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
        let ascending = &self.ascending[channel.index() * self.vls..][..self.vls];
        let legal: usize = ascending.iter().map(|&before| usize::from(Rule::legal(before, position))).sum();
        let set = &self.sets[(channel.index() * (self.vls + 1) + legal) * self.words..][..self.words];
        set.iter().zip(predecessors).map(|(a, b)| (a & b).count_ones()).sum()
    }
}

/// A rule, with the sets of its turns where these have labels.
#[derive(Clone, Copy, Debug)]
pub(in crate::routing) struct RuleWithSets<'a> {
    pub(in crate::routing) rule: &'a Rule,
    sets: Option<&'a LabelSets<'a>>,
}

impl<'a> RuleWithSets<'a> {
    /// - `sets`: of the rule, `None` where turns have no labels.
    pub(in crate::routing) fn new(rule: &'a Rule, sets: Option<&'a LabelSets<'a>>) -> Self {
        Self { rule, sets }
    }

    /// [`Rule::position_of`].
    #[inline(always)]
    pub(in crate::routing) fn position(self, channel: ChannelId, next: Option<ChannelId>) -> u32 {
        match self.sets {
            Some(sets) => sets.position(channel, next),
            None => self.rule.position_of(channel, next),
        }
    }

    /// The predecessors of one switch.
    ///
    /// - `channels`: those from them to the switch.
    /// - `set`: is overwritten where turns have labels.
    pub(in crate::routing) fn predecessors<'s, I>(
        self,
        channels: I,
        set: &'s mut Vec<u64>,
    ) -> PredecessorsWithSets<'a, 's, I>
    where
        I: Iterator<Item = ChannelId> + Clone,
    {
        if let Some(sets) = self.sets {
            sets.collect(channels.clone(), set);
        }
        PredecessorsWithSets { sets: self.sets, set, plain: self.rule.predecessors(channels) }
    }
}

/// [`Predecessors`], with a set of them where turns have labels.
pub(in crate::routing) struct PredecessorsWithSets<'a, 's, I> {
    sets: Option<&'a LabelSets<'a>>,
    set: &'s [u64],
    plain: Predecessors<'a, I>,
}

impl<I: Iterator<Item = ChannelId> + Clone> PredecessorsWithSets<'_, '_, I> {
    /// [`Predecessors::blocked`].
    #[inline(always)]
    pub(in crate::routing) fn blocked(&self, channel: ChannelId, position: u32) -> u32 {
        match self.sets {
            Some(sets) => sets.blocked(self.set, channel, position),
            None => self.plain.blocked(channel, position),
        }
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
                    for next in f.channels().out(c.to).map(|(next, _)| Some(next)).chain([None]) {
                        assert_eq!(sets.position(id, next), rule.position_of(id, next), "{name}");
                    }
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
