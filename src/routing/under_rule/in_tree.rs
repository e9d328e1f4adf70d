//! The paths of all switches to one destination, read from tables.

use crate::fabric::{ChannelId, Fabric, Lid, PortNum, SwitchId};
use crate::ordering::Rule;
use crate::routing::demand::Demand;
use crate::routing::{Hops, UNCOUNTED, adapters_by_switch, count_hops};
use crate::tables::Lft;

/// Share of the adapter pairs whose path to the base LID is longer than the shortest. A LID that some switch has no
/// path to is left out.
///
/// Cost: O(S D) with S switches and D adapters.
pub fn base_detours(fabric: &Fabric, hops: &Hops, lft: &Lft) -> f64 {
    let by_lid = detours_by_lid(fabric, hops, lft, fabric.adapters().map(|(_, end)| end.lid));
    let known: Vec<u64> = by_lid.into_iter().flatten().collect();
    let pairs = known.len() * fabric.adapters().count().saturating_sub(1);
    known.iter().sum::<u64>() as f64 / pairs.max(1) as f64
}

/// Adapter pairs on longer paths than the shortest, to some LIDs of adapters; `None` where some switch has no path to
/// one of them.
///
/// Cost: O(S) for each LID, with S switches.
pub fn detours_to(fabric: &Fabric, hops: &Hops, lft: &Lft, lids: impl Iterator<Item = Lid>) -> Option<u64> {
    detours_by_lid(fabric, hops, lft, lids).into_iter().sum()
}

/// By LID: adapters on longer paths than the shortest; `None` where some switch has no path.
fn detours_by_lid(
    fabric: &Fabric,
    hops: &Hops,
    lft: &Lft,
    lids: impl Iterator<Item = Lid>,
) -> Vec<Option<u64>> {
    let adapters = adapters_by_switch(fabric);
    let mut tree = InTree::new(fabric, &adapters);
    let to = |lid: Lid| {
        let (target, _) = fabric.endport(fabric.owner_of(lid)?).attachment?;
        tree.read(target, lft.to(lid)).then(|| tree.detours(hops))
    };
    lids.map(to).collect()
}

/// The paths of all switches to one destination after the other, as next hops.
pub(super) struct InTree<'a> {
    pub(super) fabric: &'a Fabric,
    /// By switch.
    adapters: &'a [u64],
    demand: Demand<'a>,
    /// The destination, by whose role routes count; unknown, each adapter counts once.
    pub(super) lid: Option<Lid>,
    pub(super) target: SwitchId,
    /// By switch: the channel that it takes; meaningless at the target.
    pub(super) next: Vec<ChannelId>,
    /// By switch: where that leads, as [`measure`](Self::measure) found it.
    ahead: Vec<SwitchId>,
    /// By channel: where it leads. One more, as a single switch has no channel and yet a next one, which means nothing.
    ends: Vec<SwitchId>,
    /// By channel: see [`Weights`](crate::fabric::Weights).
    weights: &'a [u8],
    /// By switch: hops to the target.
    pub(super) length: Vec<u16>,
    /// By switch: routes that it forwards.
    pub(super) flow: Vec<u64>,
    /// The switches but the target, each after its next hop. It mostly serves the next destination, too.
    pub(super) order: Vec<SwitchId>,
    /// By switch: its place in the order, the target's 0.
    place: Vec<u32>,
}

impl<'a> InTree<'a> {
    /// - `adapters`: by switch.
    pub(super) fn new(fabric: &'a Fabric, adapters: &'a [u64]) -> Self {
        let n = fabric.num_switches();
        Self {
            fabric,
            adapters,
            demand: Demand::new(fabric),
            lid: None,
            target: SwitchId(0),
            next: vec![ChannelId(0); n],
            ahead: vec![SwitchId(0); n],
            ends: fabric.channels().as_slice().iter().map(|c| c.to).chain([SwitchId(0)]).collect(),
            weights: fabric.weights().by_channel(),
            length: vec![0; n],
            flow: vec![0; n],
            order: Vec::with_capacity(n),
            place: vec![0; n],
        }
    }

    /// Reads the paths in force. Returns false where some switch has none.
    ///
    /// Cost: O(S).
    pub(super) fn read(&mut self, target: SwitchId, ports: &[u8]) -> bool {
        let channels = self.fabric.channels();
        self.target = target;
        for s in self.fabric.switch_ids().filter(|&s| s != target) {
            let Some(channel) = channels.at_port(s, PortNum(ports[s.index()])) else { return false };
            self.next[s.index()] = channel;
        }
        self.measure();
        self.order.len() + 1 == ports.len()
    }

    /// Computes lengths, order and flows from the next hops. Switches on a loop are left out of the order.
    ///
    /// Cost: O(S).
    pub(super) fn measure(&mut self) {
        self.ahead.iter_mut().zip(&self.next).for_each(|(ahead, next)| *ahead = self.ends[next.index()]);
        if self.is_sorted() {
            self.length[self.target.index()] = 0;
            for &s in &self.order {
                self.length[s.index()] = self.length[self.ahead[s.index()].index()] + 1;
            }
        } else {
            self.sort();
        }
        let end = self.lid.and_then(|lid| self.fabric.owner_of(lid));
        let (routes, times) = match end {
            Some(end) => self.demand.to(self.fabric.endport(end)),
            None => (self.adapters, 1),
        };
        self.flow.iter_mut().zip(routes).for_each(|(flow, routes)| *flow = times * routes);
        for &s in self.order.iter().rev() {
            self.flow[self.ahead[s.index()].index()] += self.flow[s.index()];
        }
    }

    /// Whether the order has all switches but the target, each after its next hop.
    fn is_sorted(&self) -> bool {
        let mut ways = self.ahead.iter().zip(&self.place).enumerate();
        self.order.len() + 1 == self.place.len()
            && self.place[self.target.index()] == 0
            && ways.all(|(s, (ahead, place))| self.place[ahead.index()] < *place || s == self.target.index())
    }

    /// Computes the lengths, and sorts the switches by them: that order serves all trees of shortest paths to the target.
    fn sort(&mut self) {
        let Self { length, order, place, target, ahead, .. } = self;
        length.fill(UNCOUNTED);
        length[target.index()] = 0;
        count_hops(length, |s| ahead[s.index()]);
        order.clear();
        order.extend(self.fabric.switch_ids().filter(|s| s != target && length[s.index()] != UNCOUNTED));
        order.sort_unstable_by_key(|s| length[s.index()]);
        place[target.index()] = 0;
        order.iter().zip(1..).for_each(|(s, number)| place[s.index()] = number);
    }

    /// Whether all paths obey a rule.
    ///
    /// Cost: O(S).
    pub(super) fn obeys(&self, rule: &Rule) -> bool {
        if matches!(rule, Rule::Any) {
            return true;
        }
        let after = |c: ChannelId| self.after(self.to(c));
        let position = |c: ChannelId| rule.position_of(c, after(c));
        self.order.iter().all(|s| {
            let first = self.next[s.index()];
            after(first).is_none_or(|second| Rule::legal(position(first), position(second)))
        })
    }

    /// How many adapters take a detour.
    pub(super) fn detours(&self, hops: &Hops) -> u64 {
        let row = hops.row(self.target);
        let longer = self.order.iter().filter(|s| self.length[s.index()] > u16::from(row[s.index()]));
        longer.map(|s| self.adapters[s.index()]).sum()
    }

    pub(super) fn to(&self, channel: ChannelId) -> SwitchId {
        self.ends[channel.index()]
    }

    /// The channel over which a switch goes on; `None` at the target.
    pub(super) fn after(&self, switch: SwitchId) -> Option<ChannelId> {
        (switch != self.target).then(|| self.next[switch.index()])
    }

    /// The switches that go on to a switch, with their channels to it.
    pub(super) fn predecessors(&self, switch: SwitchId) -> impl Iterator<Item = (SwitchId, ChannelId)> {
        let into = self.fabric.channels().out(switch).map(|(_, c)| (c.to, c.reverse));
        into.filter(|&(from, channel)| from != self.target && self.next[from.index()] == channel)
    }

    /// Adds the routes of all adapters to the load by channel, by the weights of the channels.
    pub(super) fn count(&self, load: &mut [u64]) {
        for &s in &self.order {
            let channel = self.next[s.index()];
            load[channel.index()] += self.flow[s.index()] * self.weight(channel);
        }
    }

    /// What a route adds to the load of a channel.
    pub(super) fn weight(&self, channel: ChannelId) -> u64 {
        u64::from(self.weights[channel.index()])
    }

    /// Writes the ports by switch.
    pub(super) fn write(&self, ports: &mut [u8]) {
        for &s in &self.order {
            ports[s.index()] = self.fabric.channels().get(self.next[s.index()]).out_port.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::sssp;
    use crate::topology::Xgft;

    #[test]
    fn a_single_switch_has_no_paths() {
        let f = Xgft { m: vec![4], w: vec![1], cas: None }.build().unwrap();
        assert_eq!((f.num_switches(), f.channels().len()), (1, 0));
        let hops = Hops::new(&f).unwrap();
        let lft = sssp(&f, &hops);
        assert_eq!(base_detours(&f, &hops, &lft), 0.0);
        let adapters = adapters_by_switch(&f);
        let mut tree = InTree::new(&f, &adapters);
        assert!(tree.read(SwitchId(0), lft.to(f.adapters().next().unwrap().1.lid)));
        assert!(tree.obeys(&Rule::Any) && tree.order.is_empty());
    }
}
