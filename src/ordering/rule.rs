//! Which turns a path may take one after the other, and on which VL.

use super::lane_order::place;
use super::{LaneOrder, Rank};
use crate::fabric::{ChannelId, Fabric, Vl};
use crate::tables::{Sl2Vl, SlVlRow};

/// A label for each turn between two channels: the VL on which it is taken, from 1.
///
/// A dense array of one byte for each (in port, out port) of each switch, like [`Sl2Vl`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// By channel: where the turns out of it begin.
    after: Vec<u32>,
    /// By channel: its out port.
    out_port: Vec<u8>,
    labels: Vec<u8>,
}

impl Labels {
    /// Label 1 for every turn.
    pub fn ones(fabric: &Fabric) -> Self {
        let channels = fabric.channels();
        let mut first = Vec::with_capacity(fabric.num_switches());
        let mut len = 0;
        for s in fabric.switch_ids() {
            first.push(len);
            len += channels.slots_of(s) * channels.slots_of(s);
        }
        let after = channels.as_slice().iter().map(|c| {
            let start = first[c.to.index()] + c.in_port.index() * channels.slots_of(c.to);
            u32::try_from(start).expect("a subnet has fewer than 2^32 turns")
        });
        Self {
            after: after.collect(),
            out_port: channels.as_slice().iter().map(|c| c.out_port.0).collect(),
            labels: vec![1; len],
        }
    }

    /// The number of a turn among all turns.
    pub fn turn(&self, first: ChannelId, second: ChannelId) -> usize {
        self.after[first.index()] as usize + usize::from(self.out_port[second.index()])
    }

    /// The label of a turn.
    pub fn get(&self, first: ChannelId, second: ChannelId) -> u8 {
        self.labels[self.turn(first, second)]
    }

    /// The labels by number of the turn.
    pub fn by_turn(&self) -> &[u8] {
        &self.labels
    }

    /// The labels by number of the turn.
    pub fn by_turn_mut(&mut self) -> &mut [u8] {
        &mut self.labels
    }
}

/// What keeps a routing free of credit loops: an order of the virtual channels that every path
/// ascends in, the same for every SL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Everything is allowed; what paths would be without a rule.
    Any,
    /// One VL; every path ascends in the rank.
    OneVl(Rank),
    /// The first channel on VL 0, all others on VL 1; every path ascends in the rank from its second
    /// channel on.
    FirstTurnFree(Rank),
    /// The first channel on VL 0, every other one on the label of the turn that leads to it; from
    /// one turn to the next the label grows, or it stays and the second channels of the two turns
    /// ascend in the rank of that label.
    Labelled {
        /// The ranks by label; the last one serves all higher labels too. Label 0 is not in use.
        ranks: Vec<Rank>,
        /// The labels of all turns.
        labels: Labels,
    },
}

impl Rule {
    /// Where a switch is in the order whose way on is over no further channel: its own channel may
    /// be taken from anywhere.
    pub const END: u32 = u32::MAX;

    /// Where the path stands at a switch from which it goes on over `channel`, to a switch that
    /// itself goes on over `next` (`None` where the destination is there): the place of the virtual
    /// channel that the path occupies at last knowledge, see [`Rule::legal`].
    #[inline(always)]
    pub fn place(&self, channel: ChannelId, next: Option<ChannelId>) -> u32 {
        match (self, next) {
            (Self::OneVl(rank), _) => rank.of(channel),
            (Self::Any, _) | (_, None) => Self::END,
            (Self::FirstTurnFree(rank), Some(next)) => rank.of(next),
            (Self::Labelled { ranks, labels }, Some(next)) => place(ranks, next, labels.get(channel, next)),
        }
    }

    /// Whether a path may enter, at `place`, a switch whose own path stands at `ahead`.
    #[inline(always)]
    pub fn legal(place: u32, ahead: u32) -> bool {
        place < ahead || place == Self::END
    }

    /// The order of virtual channels that packets of legal paths ascend in, on the VLs of
    /// [`Rule::sl2vl`]; `None` where everything is allowed.
    pub fn lane_order(&self) -> Option<LaneOrder> {
        match self {
            Self::Any => None,
            Self::OneVl(rank) | Self::FirstTurnFree(rank) => Some(LaneOrder::new(vec![rank.clone()])),
            Self::Labelled { ranks, .. } => Some(LaneOrder::new(ranks.clone())),
        }
    }

    /// How many VLs it needs.
    pub fn vls(&self) -> u8 {
        match self {
            Self::Any | Self::OneVl(_) => 1,
            Self::FirstTurnFree(_) => 2,
            Self::Labelled { labels, .. } => 1 + labels.labels.iter().copied().max().unwrap_or(1),
        }
    }

    /// The tables that carry it out, the same for every SL. Packets from adapters, routers and port
    /// 0 go on VL 0, and so do those that leave for them.
    pub fn sl2vl(&self, fabric: &Fabric) -> Sl2Vl {
        let mut sl2vl = Sl2Vl::new(fabric);
        let channels = fabric.channels();
        for (first, c) in channels.iter() {
            for (second, d) in channels.out(c.to) {
                let label = match self {
                    Self::Any | Self::OneVl(_) => 0,
                    Self::FirstTurnFree(_) => 1,
                    Self::Labelled { labels, .. } => labels.get(first, second),
                };
                sl2vl.set(c.to, c.in_port, d.out_port, SlVlRow::uniform(Vl(label)));
            }
        }
        sl2vl
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{PortNum, SwitchId};
    use crate::ordering::bfs;
    use crate::topology::Mesh;

    /// Three channels in a row along a chain of four switches, and the channels back.
    fn chain() -> (Fabric, [ChannelId; 3], [ChannelId; 3]) {
        let f = Mesh { dims: vec![4], cas: 1 }.build().unwrap();
        let find = |a: u32, b: u32| {
            let mut channels = f.channels().iter();
            channels.find(|(_, c)| (c.from.0, c.to.0) == (a, b)).unwrap().0
        };
        let there = [find(0, 1), find(1, 2), find(2, 3)];
        let back = there.map(|c| f.channels().get(c).reverse);
        (f, there, back)
    }

    #[test]
    fn the_first_turn_is_free_and_the_others_ascend() {
        let (f, there, _) = chain();
        let down = Rule::FirstTurnFree(bfs(&f, SwitchId(0)));
        let [a, b, c] = there;
        assert_eq!(down.place(c, None), Rule::END);
        assert!(Rule::legal(down.place(b, Some(c)), Rule::END));
        assert!(Rule::legal(down.place(a, Some(b)), down.place(b, Some(c))));
        let reversed = Rank::by_key(&f, |id, _| std::cmp::Reverse(bfs(&f, SwitchId(0)).of(id)));
        let against = Rule::FirstTurnFree(reversed.clone());
        assert!(!Rule::legal(against.place(a, Some(b)), against.place(b, Some(c))));
        // A higher label at the second turn makes up for it, a lower one never does.
        let mut labels = Labels::ones(&f);
        let turn = labels.turn(b, c);
        labels.by_turn_mut()[turn] = 2;
        let rule = Rule::Labelled { ranks: vec![reversed], labels };
        assert!(Rule::legal(rule.place(a, Some(b)), rule.place(b, Some(c))));
        assert_eq!((against.vls(), rule.vls()), (2, 3));
    }

    #[test]
    fn the_tables_say_what_the_rule_does() {
        let (f, [a, b, c], _) = chain();
        let mut labels = Labels::ones(&f);
        let turn = labels.turn(b, c);
        labels.by_turn_mut()[turn] = 3;
        let rank = bfs(&f, SwitchId(0));
        let vl = |rule: &Rule, first: ChannelId, second: ChannelId| {
            let (c, d) = (f.channels().get(first), f.channels().get(second));
            rule.sl2vl(&f).row(c.to, c.in_port, d.out_port)
        };
        let row = |vl| SlVlRow::uniform(Vl(vl));
        let rule = Rule::Labelled { ranks: vec![rank.clone()], labels };
        assert_eq!((vl(&rule, a, b), vl(&rule, b, c)), (row(1), row(3)));
        assert_eq!(vl(&Rule::OneVl(rank.clone()), a, b), row(0));
        assert_eq!(vl(&Rule::FirstTurnFree(rank), a, b), row(1));
        let from_port_0 = rule.sl2vl(&f).row(SwitchId(1), PortNum(0), f.channels().get(b).out_port);
        assert_eq!(from_port_0, row(0));
    }
}
