//! Which turns a path may take one after the other, and on which VL.

use rayon::prelude::*;

use super::virtual_channel_order::position;
use super::{Rank, VirtualChannelOrder};
use crate::fabric::{ChannelId, Fabric, SwitchId, Vl};
use crate::tables::{Sl2Vl, SlVlRow};

/// A label for each turn between two channels: the VL that a packet takes after the turn, from 1.
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

    /// By turn: the channels before it and after it; what numbers without a turn have means nothing.
    ///
    /// Cost: O(turns).
    pub fn ends(&self, fabric: &Fabric) -> Vec<(ChannelId, ChannelId)> {
        let mut ends = vec![(ChannelId(0), ChannelId(0)); self.labels.len()];
        let channels = fabric.channels();
        for (first, c) in channels.iter() {
            channels.out(c.to).for_each(|(second, _)| ends[self.turn(first, second)] = (first, second));
        }
        ends
    }

    fn onto(&self, new: &Fabric, was: &[ChannelId]) -> Self {
        let mut moved = Self::ones(new);
        for (first, c) in new.channels().iter() {
            for (second, _) in new.channels().out(c.to) {
                let turn = moved.turn(first, second);
                moved.labels[turn] = self.get(was[first.index()], was[second.index()]);
            }
        }
        moved
    }

    /// The label of a turn.
    pub fn get(&self, first: ChannelId, second: ChannelId) -> u8 {
        self.labels[self.turn(first, second)]
    }

    /// The largest label; 1 where there is no turn.
    ///
    /// Cost: O(turns).
    fn largest(&self) -> u8 {
        let mut largest = self.labels.first().copied().unwrap_or(1);
        // Not `max` of the iterator: that is a call for each turn where tests are built.
        for &label in &self.labels {
            largest = u8::max(largest, label);
        }
        largest
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

/// What keeps a routing free of credit loops: an order of the virtual channels in which every path
/// ascends, the same for every SL.
///
/// This file alone says what a rule allows. Routing asks through [`Turns`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Every turn is allowed: what paths would be without a rule.
    Any,
    /// One VL. Every path ascends in the rank.
    OneVl(Rank),
    /// The first channel is on VL 0, all others are on VL 1. Every path ascends in the rank from its
    /// second channel on.
    FirstTurnFree(Rank),
    /// The first channel is on VL 0. Every other one is on the VL that is the label of the turn to it.
    /// From one turn to the next either the label grows, or it stays and the second channels of the two
    /// turns ascend in the rank of that label.
    Labelled {
        /// The ranks by label; the last one serves all higher labels too. Only turns that ascend in the first rank
        /// may have label 0, as the first channel of a path is on VL 0 as well.
        ranks: Vec<Rank>,
        /// The labels of all turns.
        labels: Labels,
    },
    /// The first channel is on VL 0, for which nobody waits. Every other one is on the VL that is the label of the turn to
    /// it, from 1. From one turn to the next the virtual channels ascend.
    Ordered {
        /// The order in which they do. VLs may mix.
        order: VirtualChannelOrder,
        /// The labels of all turns.
        labels: Labels,
    },
}

impl Rule {
    /// The position of a path that ends at the next switch: any path may be prefixed to it.
    pub const END: u32 = u32::MAX;

    /// Whether a path at `position` may continue with a path at position `ahead`.
    #[inline(always)]
    pub fn legal(position: u32, ahead: u32) -> bool {
        position < ahead || position == Self::END
    }

    /// The VL after a turn.
    pub fn label(&self, first: ChannelId, second: ChannelId) -> u8 {
        match self {
            Self::Any | Self::OneVl(_) => 0,
            Self::FirstTurnFree(_) => 1,
            Self::Labelled { labels, .. } | Self::Ordered { labels, .. } => labels.get(first, second),
        }
    }

    /// The same rule on a fabric with some of the channels.
    ///
    /// - `was`: by channel of `new`, what it is in the fabric that the rule was made for.
    ///
    /// Cost: O(C log C), and O(C d) with d channels of a switch where turns have labels.
    #[must_use]
    pub fn onto(&self, new: &Fabric, was: &[ChannelId]) -> Self {
        match self {
            Self::Any => Self::Any,
            Self::OneVl(rank) => Self::OneVl(rank.onto(new, was)),
            Self::FirstTurnFree(rank) => Self::FirstTurnFree(rank.onto(new, was)),
            Self::Labelled { ranks, labels } => {
                let ranks = ranks.iter().map(|rank| rank.onto(new, was)).collect();
                Self::Labelled { ranks, labels: labels.onto(new, was) }
            }
            Self::Ordered { order, labels } => {
                Self::Ordered { order: order.onto(new, was), labels: labels.onto(new, was) }
            }
        }
    }

    /// The order of virtual channels in which packets of legal paths ascend, on the VLs of
    /// [`Rule::sl2vl`]; `None` where everything is allowed.
    pub fn virtual_channel_order(&self) -> Option<VirtualChannelOrder> {
        match self {
            Self::Any => None,
            Self::OneVl(rank) | Self::FirstTurnFree(rank) => {
                Some(VirtualChannelOrder::new(vec![rank.clone()]))
            }
            Self::Labelled { ranks, .. } => Some(VirtualChannelOrder::new(ranks.clone())),
            Self::Ordered { order, .. } => Some(order.clone()),
        }
    }

    /// How many VLs it needs.
    pub fn vls(&self) -> u8 {
        match self {
            Self::Any | Self::OneVl(_) => 1,
            Self::FirstTurnFree(_) => 2,
            Self::Labelled { labels, .. } | Self::Ordered { labels, .. } => 1 + labels.largest(),
        }
    }

    /// The position of the path of a switch that goes on over `channel`, to a switch that itself goes on
    /// over `next` (`None` where the destination is there).
    #[inline(always)]
    pub fn position_of(&self, channel: ChannelId, next: Option<ChannelId>) -> u32 {
        self.position(channel, next.map(|next| (next, 0)))
    }

    /// Whether the position of a path depends on the channel after its first one.
    pub fn depends_on_next(&self) -> bool {
        !matches!(self, Self::Any | Self::OneVl(_))
    }

    /// The predecessors of a switch, to ask how many of them each of its choices blocks.
    ///
    /// - `channels`: from each predecessor to the switch.
    ///
    /// Cost: O(d) with d predecessors under [`Rule::OneVl`], else O(1).
    pub fn predecessors<I>(&self, channels: I) -> Predecessors<'_, I>
    where
        I: Iterator<Item = ChannelId> + Clone,
    {
        let (mut least, mut most, mut count) = (Self::END, 0, 0);
        if let Self::OneVl(rank) = self {
            for position in channels.clone().map(|channel| rank.of(channel)) {
                (least, most, count) = (least.min(position), most.max(position), count + 1);
            }
        }
        Predecessors { rule: self, channels, least, most, count }
    }

    /// The SL2VL tables that implement it, the same for every SL. Packets from adapters, routers and port
    /// 0 use VL 0, and so do packets to them.
    pub fn sl2vl(&self, fabric: &Fabric) -> Sl2Vl {
        let mut sl2vl = Sl2Vl::new(fabric);
        if matches!(self, Self::Any | Self::OneVl(_)) {
            return sl2vl;
        }
        let channels = fabric.channels();
        sl2vl.by_switch_mut().into_par_iter().enumerate().for_each(|(s, (ports, rows))| {
            let out = || channels.out(SwitchId::at(s));
            for (_, back) in out() {
                let rows = &mut rows[back.out_port.index() * ports..][..ports];
                for (second, c) in out() {
                    rows[c.out_port.index()] = SlVlRow::uniform(Vl(self.label(back.reverse, second)));
                }
            }
        });
        sl2vl
    }
}

/// What a rule says of the turns of paths: the only questions that routing asks.
///
/// The kinds without labels implement it apart ([`Rule::Any`] as [`AnyTurn`], and so on), so that a walk over
/// many paths is compiled for each. [`Rule`] implements it for every kind.
pub trait Turns {
    /// Whether a choice can block a predecessor at all.
    const BLOCKS: bool = true;
    /// Whether a choice blocks all predecessors of a switch or none.
    const BLOCKS_ALIKE: bool = false;

    /// The position of the path of a switch that goes on over `channel`: of the virtual channel that
    /// decides whether the path may be continued.
    ///
    /// - `next`: the channel over which the next switch goes on, with its [`rank`](Self::rank); `None` at the
    ///   target.
    fn position(&self, channel: ChannelId, next: Option<(ChannelId, u32)>) -> u32;

    /// Whether a switch that goes on over `channel`, with a path at `position`, blocks the predecessor that
    /// sends to it over `predecessor`: that turn would not be legal.
    ///
    /// - `position`: not [`Rule::END`], which blocks none.
    fn blocks(&self, predecessor: ChannelId, channel: ChannelId, position: u32) -> bool;

    /// How many predecessors a choice blocks. Where it blocks all or none, 1 stands for all.
    #[inline(always)]
    fn blocked(
        &self,
        mut predecessors: impl Iterator<Item = ChannelId>,
        channel: ChannelId,
        position: u32,
    ) -> u32 {
        let blocks = |predecessor| self.blocks(predecessor, channel, position);
        match () {
            _ if !Self::BLOCKS || position == Rule::END => 0,
            _ if Self::BLOCKS_ALIKE => u32::from(predecessors.next().is_some_and(blocks)),
            _ => predecessors.filter(|&predecessor| blocks(predecessor)).count() as u32,
        }
    }

    /// Of a channel: what [`position`](Self::position) wants of the next one, kept with the path.
    #[inline(always)]
    fn rank(&self, _channel: ChannelId) -> u32 {
        0
    }
}

/// The predecessors of one switch under a rule.
#[derive(Clone, Copy, Debug)]
pub struct Predecessors<'a, I> {
    rule: &'a Rule,
    channels: I,
    /// Under [`Rule::OneVl`] the least and the greatest of their positions, and how many there are.
    least: u32,
    most: u32,
    count: u32,
}

impl<I: Iterator<Item = ChannelId> + Clone> Predecessors<'_, I> {
    /// How many of them the switch blocks if it goes on over `channel` with a path at `position`. Where it
    /// blocks all or none, 1 stands for all.
    ///
    /// A path at a later position blocks no more than one at an earlier position.
    ///
    /// Cost: O(d) with d predecessors where the rule has labels, else mostly O(1).
    #[inline(always)]
    pub fn blocked(&self, channel: ChannelId, position: u32) -> u32 {
        let channels = self.channels.clone();
        match self.rule {
            Rule::Any => AnyTurn.blocked(channels, channel, position),
            Rule::OneVl(_) if position > self.most => 0,
            Rule::OneVl(_) if position <= self.least => self.count,
            Rule::OneVl(rank) => Ascending(rank.positions()).blocked(channels, channel, position),
            Rule::FirstTurnFree(rank) => {
                AscendingAfterFirst(rank.positions()).blocked(channels, channel, position)
            }
            Rule::Labelled { .. } | Rule::Ordered { .. } => self.rule.blocked(channels, channel, position),
        }
    }
}

/// [`Rule::Any`].
#[derive(Clone, Copy, Debug)]
pub struct AnyTurn;

impl Turns for AnyTurn {
    const BLOCKS: bool = false;

    #[inline(always)]
    fn position(&self, _: ChannelId, _: Option<(ChannelId, u32)>) -> u32 {
        Rule::END
    }

    #[inline(always)]
    fn blocks(&self, _: ChannelId, _: ChannelId, _: u32) -> bool {
        false
    }
}

/// [`Rule::OneVl`], with the positions of its rank by channel.
#[derive(Clone, Copy, Debug)]
pub struct Ascending<'a>(pub &'a [u32]);

impl Turns for Ascending<'_> {
    #[inline(always)]
    fn position(&self, channel: ChannelId, _: Option<(ChannelId, u32)>) -> u32 {
        self.0[channel.index()]
    }

    #[inline(always)]
    fn blocks(&self, predecessor: ChannelId, _: ChannelId, position: u32) -> bool {
        self.0[predecessor.index()] >= position
    }
}

/// [`Rule::FirstTurnFree`], with the positions of its rank by channel. The channel to the switch decides
/// nothing there, so all predecessors are blocked alike.
#[derive(Clone, Copy, Debug)]
pub struct AscendingAfterFirst<'a>(pub &'a [u32]);

impl Turns for AscendingAfterFirst<'_> {
    const BLOCKS_ALIKE: bool = true;

    #[inline(always)]
    fn position(&self, _: ChannelId, next: Option<(ChannelId, u32)>) -> u32 {
        next.map_or(Rule::END, |(_, rank)| rank)
    }

    #[inline(always)]
    fn blocks(&self, _: ChannelId, channel: ChannelId, position: u32) -> bool {
        self.0[channel.index()] >= position
    }

    #[inline(always)]
    fn rank(&self, channel: ChannelId) -> u32 {
        self.0[channel.index()]
    }
}

/// Any rule. Looks ranks up instead of keeping them.
impl Turns for Rule {
    #[inline(always)]
    fn position(&self, channel: ChannelId, next: Option<(ChannelId, u32)>) -> u32 {
        match (self, next) {
            (Self::OneVl(rank), _) => rank.of(channel),
            (Self::Any, _) | (_, None) => Self::END,
            (Self::FirstTurnFree(rank), Some((next, _))) => rank.of(next),
            (Self::Labelled { ranks, labels }, Some((next, _))) => {
                position(ranks, next, labels.get(channel, next))
            }
            (Self::Ordered { order, labels }, Some((next, _))) => {
                order.position(next, Vl(labels.get(channel, next)))
            }
        }
    }

    #[inline(always)]
    fn blocks(&self, predecessor: ChannelId, channel: ChannelId, position: u32) -> bool {
        !Self::legal(self.position(predecessor, Some((channel, 0))), position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{PortNum, SwitchId};
    use crate::ordering::up_down_rank;
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
        let down = Rule::FirstTurnFree(up_down_rank(&f, SwitchId(0)));
        let [a, b, c] = there;
        assert_eq!(down.position_of(c, None), Rule::END);
        assert!(Rule::legal(down.position_of(b, Some(c)), Rule::END));
        assert!(Rule::legal(down.position_of(a, Some(b)), down.position_of(b, Some(c))));
        let reversed = Rank::by_key(&f, |id, _| std::cmp::Reverse(up_down_rank(&f, SwitchId(0)).of(id)));
        let against = Rule::FirstTurnFree(reversed.clone());
        assert!(!Rule::legal(against.position_of(a, Some(b)), against.position_of(b, Some(c))));
        // A higher label at the second turn makes up for it, a lower one never does.
        let mut labels = Labels::ones(&f);
        let turn = labels.turn(b, c);
        labels.by_turn_mut()[turn] = 2;
        let rule = Rule::Labelled { ranks: vec![reversed], labels };
        assert!(Rule::legal(rule.position_of(a, Some(b)), rule.position_of(b, Some(c))));
        assert_eq!((against.vls(), rule.vls()), (2, 3));
    }

    #[test]
    fn the_tables_say_what_the_rule_does() {
        let (f, [a, b, c], _) = chain();
        let mut labels = Labels::ones(&f);
        let turn = labels.turn(b, c);
        labels.by_turn_mut()[turn] = 3;
        let rank = up_down_rank(&f, SwitchId(0));
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

    /// Each kind by itself answers as the rule does, which every walk relies on.
    #[test]
    fn the_kinds_answer_as_the_rule_does() {
        fn check(f: &Fabric, rule: &Rule, turns: &impl Turns) {
            let kept = |c: ChannelId| (c, turns.rank(c));
            for (b, channel) in f.channels().iter() {
                let into = f.channels().out(channel.from).map(|(_, back)| back.reverse);
                let into: Vec<_> = into.filter(|&a| f.channels().get(a).from != channel.to).collect();
                let predecessors = || into.iter().copied();
                for next in f.channels().out(channel.to).map(|(c, _)| Some(c)).chain([None]) {
                    let position = rule.position_of(b, next);
                    assert_eq!(turns.position(b, next.map(kept)), position);
                    let legal = |a: ChannelId| Rule::legal(rule.position_of(a, Some(b)), position);
                    let blocked = predecessors().filter(|&a| !legal(a)).count() as u32;
                    let asked = rule.predecessors(predecessors()).blocked(b, position);
                    // 1 may stand for all.
                    let all = blocked == predecessors().count() as u32;
                    assert!(asked == blocked || all && asked == 1, "{asked} of {blocked}");
                    assert_eq!(turns.blocked(predecessors(), b, position).min(1), blocked.min(1));
                    if position != Rule::END {
                        assert!(predecessors().all(|a| turns.blocks(a, b, position) != legal(a)));
                    }
                }
            }
        }
        for (_, f) in crate::topology::small_members() {
            let rank = up_down_rank(&f, SwitchId(0));
            let mut labels = Labels::ones(&f);
            for (turn, label) in labels.by_turn_mut().iter_mut().enumerate() {
                *label = 1 + (turn * 7 % 3) as u8;
            }
            check(&f, &Rule::Any, &AnyTurn);
            check(&f, &Rule::OneVl(rank.clone()), &Ascending(rank.positions()));
            check(&f, &Rule::FirstTurnFree(rank.clone()), &AscendingAfterFirst(rank.positions()));
            let labelled = Rule::Labelled { ranks: vec![rank.clone()], labels: labels.clone() };
            check(&f, &labelled, &labelled);
            let places = (0..4 * f.channels().len() as u32).rev().collect();
            let ordered = Rule::Ordered { order: VirtualChannelOrder::mixed(places, rank), labels };
            check(&f, &ordered, &ordered);
        }
    }
}
