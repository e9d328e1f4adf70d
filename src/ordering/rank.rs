//! A strict total order of the channels.

use crate::fabric::{Channel, ChannelId, Fabric, SwitchId};

/// A strict total order of the channels of one fabric: the position of each channel, `0..C`, all
/// different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    position: Vec<u32>,
}

impl Rank {
    /// The channels by ascending key, those with the same key by their own number.
    ///
    /// Cost: O(C log C) with C channels.
    pub fn by_key<K: Ord>(fabric: &Fabric, mut key: impl FnMut(ChannelId, &Channel) -> K) -> Self {
        Self { position: positions(fabric.channels().iter().map(|(id, c)| key(id, c))) }
    }

    /// Up channels before down channels, over a strict total order of the switches (`position[s]`,
    /// all different): up is towards the smaller position. Up channels come in descending order of
    /// the switch that they leave, down channels in ascending order of the switch that they reach,
    /// so a path descends only where it goes down and then up.
    pub fn up_down(fabric: &Fabric, position: &[u32]) -> Self {
        Self::by_key(fabric, |_, c| up_down_key(position, c))
    }

    /// The same order on a fabric with some of the channels.
    ///
    /// - `was`: by channel of `fabric`, what it is in this rank.
    ///
    /// Cost: O(C log C).
    #[must_use]
    pub fn onto(&self, fabric: &Fabric, was: &[ChannelId]) -> Self {
        Self::by_key(fabric, |id, _| self.of(was[id.index()]))
    }

    /// The position of a channel.
    pub fn of(&self, channel: ChannelId) -> u32 {
        self.position[channel.index()]
    }

    /// The positions by channel.
    pub fn positions(&self) -> &[u32] {
        &self.position
    }

    /// The channels in ascending order.
    pub fn order(&self) -> Vec<ChannelId> {
        let mut order = vec![ChannelId(0); self.position.len()];
        for (c, &position) in self.position.iter().enumerate() {
            order[position as usize] = ChannelId::at(c);
        }
        order
    }
}

/// Sorts channels as [`Rank::up_down`] does.
pub(super) fn up_down_key(position: &[u32], c: &Channel) -> (bool, u32, u32) {
    let (from, to) = (position[c.from.index()], position[c.to.index()]);
    if to < from { (false, u32::MAX - from, u32::MAX - to) } else { (true, to, from) }
}

/// The position of each key when all are sorted, the same ones in the order in which they come here.
///
/// Cost: O(n log n) with n keys.
pub(crate) fn positions<K: Ord>(keys: impl IntoIterator<Item = K>) -> Vec<u32> {
    let mut sorted: Vec<(K, usize)> = keys.into_iter().zip(0..).collect();
    sorted.sort_unstable();
    let mut position = vec![0; sorted.len()];
    sorted.iter().zip(0..).for_each(|((_, number), place)| position[*number] = place);
    position
}

/// Least hops of every switch to the nearest of some switches; `u32::MAX` where there is no path.
///
/// Cost: O(S + C).
pub(super) fn distances(fabric: &Fabric, starts: impl IntoIterator<Item = usize>) -> Vec<u32> {
    let mut distance = vec![u32::MAX; fabric.num_switches()];
    let mut queue: Vec<usize> = starts.into_iter().collect();
    for &s in &queue {
        distance[s] = 0;
    }
    let mut head = 0;
    while let Some(&s) = queue.get(head) {
        head += 1;
        let hops = distance[s] + 1;
        for (_, c) in fabric.channels().out(SwitchId::at(s)) {
            let next = &mut distance[c.to.index()];
            if *next == u32::MAX {
                *next = hops;
                queue.push(c.to.index());
            }
        }
    }
    distance
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::small_members;

    #[test]
    fn a_rank_is_a_permutation() {
        for (name, f) in small_members() {
            let rank = Rank::by_key(&f, |_, c| c.in_port);
            let order = rank.order();
            assert!(order.iter().enumerate().all(|(i, &c)| rank.of(c) as usize == i), "{name}");
            assert!(order.is_sorted_by_key(|&c| (f.channels().get(c).in_port, c)), "{name}");
        }
    }

    #[test]
    fn up_down_descends_only_from_down_to_up() {
        for (name, f) in small_members() {
            let position = positions(f.switch_ids().map(|s| f.endports_on(s).len()));
            let rank = Rank::up_down(&f, &position);
            let up = |c: &Channel| position[c.to.index()] < position[c.from.index()];
            for (first, c) in f.channels().iter() {
                for (second, d) in f.channels().out(c.to).filter(|(_, d)| d.to != c.from) {
                    assert_eq!(rank.of(first) > rank.of(second), !up(c) && up(d), "{name}");
                }
            }
        }
    }
}
