//! Numbers of turns.

use super::Fabric;
use super::ids::{ChannelId, SwitchId};

/// All turns from one channel into another, numbered from 0 on: by the first channel, then by the second. Turns back are
/// numbered, too.
#[derive(Clone, Debug)]
pub struct TurnNumbers {
    /// By channel: the switch at its end, and an offset. A turn has the offset of its first channel plus the number of
    /// its second one, modulo 2^32.
    after: Vec<(SwitchId, u32)>,
    len: usize,
}

impl TurnNumbers {
    /// Of a fabric.
    ///
    /// Cost: O(C) time and 8 bytes for each of the C channels.
    pub fn new(fabric: &Fabric) -> Self {
        let channels = fabric.channels();
        let mut len = 0;
        let number = |c: &super::Channel| {
            let out = channels.out_range(c.to);
            let offset = (len as u32).wrapping_sub(out.start as u32);
            len += out.len();
            (c.to, offset)
        };
        let after = channels.as_slice().iter().map(number).collect();
        Self { after, len }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of the turn from a channel into one that leaves the switch at its end.
    #[inline]
    pub fn get(&self, first: ChannelId, second: ChannelId) -> usize {
        self.after[first.index()].1.wrapping_add(second.0) as usize
    }

    /// The switch at the end of a channel.
    #[inline]
    pub fn switch(&self, first: ChannelId) -> SwitchId {
        self.after[first.index()].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::small_members;

    #[test]
    fn turns_are_numbered_in_order() {
        for (name, f) in small_members() {
            let turns = TurnNumbers::new(&f);
            let mut next = 0;
            for (first, c) in f.channels().iter() {
                assert_eq!(turns.switch(first), c.to);
                for (second, _) in f.channels().out(c.to) {
                    assert_eq!(turns.get(first, second), next, "{name}");
                    next += 1;
                }
            }
            assert_eq!((turns.len(), turns.is_empty()), (next, next == 0), "{name}");
        }
    }
}
