//! The ways of all switches to one destination, and longer ones in place of those that break a rule.
//!
//! How a switch chooses between minimal ways is told elsewhere: by the load so far in `legal.rs`, by
//! what is to be expected in `stable/local.rs`.

use super::Hops;
use super::outward::Outward;
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::ordering::{Rule, Tree};

const UNROUTED: u16 = u16::MAX;

/// Where a path stands at one switch. Half a cache line, as the ways of all switches are walked for
/// each destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<X> {
    /// Of the channels of the way, in units of the walk.
    pub(super) cost: u64,
    /// The channel that it goes on over; meaningless at the target.
    pub(super) channel: ChannelId,
    /// The switch that this leads to.
    pub(super) to: SwitchId,
    /// [`Rule::place`] of that.
    pub(super) place: u32,
    /// Consecutive turns on the way that the rule forbids.
    pub(super) wrong: u16,
    /// Channels to the target; [`UNROUTED`] while there is no way.
    pub(super) hops: u16,
    /// What else a walk wants to know of it.
    pub(super) more: X,
}

/// The ways to one destination after the other.
pub(super) struct Ways<'a, X> {
    pub(super) fabric: &'a Fabric,
    pub(super) target: SwitchId,
    /// By switch.
    pub(super) ways: Vec<Way<X>>,
    /// Switches with a way, each after the one that it sends to; the target first.
    pub(super) grown: Vec<SwitchId>,
    /// Switches that must take the tree.
    forced: Vec<bool>,
    /// By switch, after [`count`](Self::count): routes that it sends on.
    pub(super) flow: Vec<u64>,
    /// By channel.
    out_port: Vec<u8>,
}

impl<'a, X: Copy + Default> Ways<'a, X> {
    pub(super) fn new(fabric: &'a Fabric) -> Self {
        let n = fabric.num_switches();
        let nowhere = Way {
            cost: 0,
            channel: ChannelId(0),
            to: SwitchId(0),
            place: Rule::END,
            wrong: 0,
            hops: UNROUTED,
            more: X::default(),
        };
        Self {
            fabric,
            target: SwitchId(0),
            ways: vec![nowhere; n],
            grown: Vec::with_capacity(n),
            forced: vec![false; n],
            flow: vec![0; n],
            out_port: fabric.channels().as_slice().iter().map(|c| c.out_port.0).collect(),
        }
    }

    /// Gives the target its way, which ends there.
    pub(super) fn arrive(&mut self) {
        let more = X::default();
        let target = &mut self.ways[self.target.index()];
        *target = Way { cost: 0, place: Rule::END, wrong: 0, hops: 0, more, ..*target };
    }

    fn has_way(&self, s: SwitchId) -> bool {
        self.ways[s.index()].hops != UNROUTED
    }

    fn complete(&self) -> bool {
        self.grown.len() == self.ways.len()
    }

    /// The switches whose ways break the rule.
    pub(super) fn wrong(&self) -> impl Iterator<Item = SwitchId> {
        let wrong = self.ways.iter().enumerate().filter(|(_, w)| w.wrong > 0);
        wrong.map(|(s, _)| SwitchId::at(s))
    }

    /// Takes the ways away that break the rule.
    fn drop_wrong(&mut self) {
        let ways = &mut self.ways;
        for way in ways.iter_mut().filter(|w| w.wrong > 0) {
            (way.hops, way.wrong) = (UNROUTED, 0);
        }
        self.grown.retain(|s| ways[s.index()].hops != UNROUTED);
    }

    /// Takes all ways away but that of the target.
    fn drop_all(&mut self) {
        for way in &mut self.ways {
            (way.hops, way.wrong) = (UNROUTED, 0);
        }
        self.arrive();
        self.grown.clear();
        self.grown.push(self.target);
    }

    fn set(&mut self, from: SwitchId, way: Way<X>) {
        self.ways[from.index()] = way;
        self.grown.push(from);
    }

    /// Has a switch and all on its way along the tree take that.
    fn force(&mut self, from: SwitchId, tree: &Tree) {
        let mut at = from;
        while at != self.target && !std::mem::replace(&mut self.forced[at.index()], true) {
            let Some(next) = tree.next(self.fabric, at, self.target) else { break };
            at = self.fabric.channels().get(next).to;
        }
    }

    /// Writes the ways into the ports by switch of a destination.
    pub(super) fn write(&self, ports: &mut [u8]) {
        for &s in &self.grown[1..] {
            ports[s.index()] = self.out_port[self.ways[s.index()].channel.index()];
        }
    }

    /// Counts `times` the routes of all adapters to the target on the channels of the ways.
    pub(super) fn count(&mut self, adapters: &[u64], times: u64, load: &mut [u64]) {
        self.flow.copy_from_slice(adapters);
        for &s in self.grown[1..].iter().rev() {
            let way = &self.ways[s.index()];
            let flow = self.flow[s.index()];
            load[way.channel.index()] += times * flow;
            self.flow[way.to.index()] += flow;
        }
    }

    /// The switches but the target and the channels that they take, each after the one that it
    /// sends to.
    pub(super) fn outward(&self) -> impl Iterator<Item = (SwitchId, ChannelId)> {
        self.grown[1..].iter().map(|&s| (s, self.ways[s.index()].channel))
    }

    /// Switches whose way is not minimal, and by how many hops.
    pub(super) fn detours<'b>(&'b self, hops: &'b Hops) -> impl Iterator<Item = (SwitchId, u32)> + 'b {
        let row = hops.row(self.target);
        let extra =
            move |(s, way): (usize, &Way<X>)| (SwitchId::at(s), u32::from(way.hops) - u32::from(row[s]));
        self.ways.iter().enumerate().map(extra).filter(|&(_, extra)| extra > 0)
    }
}

/// A walk over the minimal-path DAG of a destination that gives each switch a way.
pub(super) trait Detours<'a> {
    /// [`Way::more`].
    type More: Copy + Default;
    /// The destination, as far as it has a say in what is chosen.
    type Goal<'g>: Copy;
    /// What decides between detours of as many hops, the least first; then the channel's number does.
    type Price: Ord + Copy;

    fn ways(&self) -> &Ways<'a, Self::More>;
    fn ways_mut(&mut self) -> &mut Ways<'a, Self::More>;

    /// The way of a switch over a channel, to a switch that has one.
    fn over(&self, channel: ChannelId, to: SwitchId, goal: Self::Goal<'_>) -> Way<Self::More>;

    fn price(&self, way: &Way<Self::More>, goal: Self::Goal<'_>) -> Self::Price;

    /// The minimal way of the switch at a place in the DAG, where some others have longer ones: one
    /// that leads over such a switch counts as broken. `hops`: of a minimal way.
    fn minimal(
        &mut self,
        dag: &Outward,
        place: usize,
        hops: u16,
        goal: Self::Goal<'_>,
    ) -> Option<Way<Self::More>>;

    /// Replaces ways that break the rule by longer ones that keep to it.
    ///
    /// First by a search outward from the switches that have a legal way, in order of hops and then
    /// of price. A switch that this does not reach is sent along the tree, with all switches on its
    /// way; then everything else is chosen anew around these, until nothing is left. The ways along
    /// the tree are legal and agree with each other, so it ends with the whole tree at the latest.
    ///
    /// Returns whether every switch has a legal way in the end.
    fn detour(&mut self, dag: &Outward, hops: &Hops, goal: Self::Goal<'_>, tree: Option<&Tree>) -> bool {
        self.search(goal);
        let Some(tree) = tree.filter(|_| !self.ways().complete()) else {
            return self.ways().complete();
        };
        self.ways_mut().forced.fill(false);
        while !self.ways().complete() {
            let ways = self.ways_mut();
            for s in ways.fabric.switch_ids() {
                if !ways.has_way(s) {
                    ways.force(s, tree);
                }
            }
            self.choose_around(dag, hops, goal, tree);
            self.search(goal);
        }
        true
    }

    /// Replaces all ways that break the rule by longer ones that keep to it, or none where a search
    /// does not find them all.
    fn detour_some(&mut self, goal: Self::Goal<'_>) {
        let (ways, grown) = (self.ways().ways.clone(), self.ways().grown.clone());
        self.search(goal);
        if !self.ways().complete() {
            (self.ways_mut().ways, self.ways_mut().grown) = (ways, grown);
        }
    }

    /// Finds ways for all switches whose own breaks the rule, as far as that can be without
    /// changing any other.
    ///
    /// Cost: O(C).
    fn search(&mut self, goal: Self::Goal<'_>) {
        self.ways_mut().drop_wrong();
        let fabric = self.ways().fabric;
        let channels = fabric.channels();
        // By hops: channels from switches without a way that a legal one goes on over.
        let mut levels: Vec<Vec<ChannelId>> = Vec::new();
        let offer = |walk: &Self, levels: &mut Vec<Vec<ChannelId>>, channel: ChannelId, to: SwitchId| {
            let way = walk.over(channel, to, goal);
            if way.wrong == 0 {
                let level = usize::from(way.hops);
                levels.resize_with(levels.len().max(level + 1), Vec::new);
                levels[level].push(channel);
            }
        };
        for s in fabric.switch_ids().filter(|&s| !self.ways().has_way(s)) {
            for (id, c) in channels.out(s).filter(|(_, c)| self.ways().has_way(c.to)) {
                offer(self, &mut levels, id, c.to);
            }
        }
        let mut best: Vec<Option<(Self::Price, ChannelId)>> = vec![None; fabric.num_switches()];
        let mut level = 0;
        while level < levels.len() {
            let mut reached = Vec::new();
            for channel in std::mem::take(&mut levels[level]) {
                let c = channels.get(channel);
                if self.ways().has_way(c.from) {
                    continue;
                }
                let offered = (self.price(&self.over(channel, c.to, goal), goal), channel);
                match &mut best[c.from.index()] {
                    Some(best) => *best = offered.min(*best),
                    none => {
                        *none = Some(offered);
                        reached.push(c.from);
                    }
                }
            }
            for &s in &reached {
                if let Some((_, channel)) = best[s.index()] {
                    let way = self.over(channel, channels.get(channel).to, goal);
                    self.ways_mut().set(s, way);
                }
            }
            for s in reached {
                for (_, back) in channels.out(s).filter(|(_, back)| !self.ways().has_way(back.to)) {
                    offer(self, &mut levels, back.reverse, s);
                }
            }
            level += 1;
        }
    }

    /// Chooses ways anew, with the forced switches on the tree.
    fn choose_around(&mut self, dag: &Outward, hops: &Hops, goal: Self::Goal<'_>, tree: &Tree) {
        let (fabric, target) = (self.ways().fabric, self.ways().target);
        let channels = fabric.channels();
        self.ways_mut().drop_all();
        let mut path = Vec::new();
        for s in fabric.switch_ids() {
            if !self.ways().forced[s.index()] {
                continue;
            }
            let mut at = s;
            while !self.ways().has_way(at) {
                let Some(next) = tree.next(fabric, at, target) else { break };
                path.push(next);
                at = channels.get(next).to;
            }
            while let Some(next) = path.pop() {
                let c = channels.get(next);
                let way = self.over(next, c.to, goal);
                self.ways_mut().set(c.from, way);
            }
        }
        let row = hops.row(target);
        for (place, &s) in dag.order.iter().enumerate().skip(1) {
            if self.ways().forced[s.index()] {
                continue;
            }
            if let Some(way) = self.minimal(dag, place, u16::from(row[s.index()]), goal) {
                self.ways_mut().set(s, way);
            }
        }
    }
}
