//! Random picks from the list of all exchanges, as Chiu et al. do in section 6.4.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Climber;
use crate::fabric::{ChannelId, Lid, PortNum, SwitchId};
use crate::tables::Lft;

/// The entry of one LID at the switch that the channel leaves.
#[derive(Clone, Copy)]
struct Exchange {
    /// Index of the LID among the destinations.
    to: u32,
    channel: ChannelId,
}

/// The paths to one LID, read from the tables step by step.
struct Tree<'a> {
    ports: &'a [u8],
    lid: Lid,
    target: SwitchId,
}

impl<F: Fn(Lid, ChannelId, ChannelId) -> bool> Climber<'_, F> {
    /// Returns the number of exchanges tried.
    pub(super) fn climb_at_random(
        &mut self,
        destinations: &[(Lid, SwitchId)],
        lft: &mut Lft,
        patience: f64,
        seed: u64,
    ) -> u64 {
        let all = self.list(destinations, lft);
        let patience = (patience * all.len() as f64).ceil() as u64;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (mut trials, mut in_vain) = (0, 0);
        while !all.is_empty() && in_vain < patience {
            let Exchange { to, channel } = all[rng.random_range(0..all.len() as u64) as usize];
            let (lid, target) = destinations[to as usize];
            let tree = Tree { ports: lft.to(lid), lid, target };
            trials += 1;
            in_vain += 1;
            if self.improve(&tree, channel) {
                let c = self.channel(channel);
                lft.set(c.from, lid, c.out_port);
                self.moves += 1;
                in_vain = 0;
            }
        }
        trials
    }

    /// The paper's list: for each LID and switch every channel that leads to the LID in as many hops as its path has.
    /// Exchanges keep the lengths, so this list stays true, also for the channels that are taken now.
    fn list(&mut self, destinations: &[(Lid, SwitchId)], lft: &Lft) -> Vec<Exchange> {
        let mut all = Vec::new();
        for (i, &(lid, target)) in destinations.iter().enumerate() {
            self.visit(lft.to(lid), target);
            for s in self.fabric.switch_ids().filter(|s| self.flow[s.index()] > 0) {
                let from = all.len();
                let nearer = self.fabric.channels().out(s).filter(|&(id, _)| self.is_nearer(id));
                all.extend(nearer.map(|(channel, _)| Exchange { to: i as u32, channel }));
                if all.len() == from + 1 {
                    // The path itself, without an alternative.
                    all.truncate(from);
                }
            }
        }
        all
    }

    /// Counts the usage anew if the exchange is possible now and makes it more even.
    fn improve(&mut self, tree: &Tree, new: ChannelId) -> bool {
        let s = self.channel(new).from;
        let Some(old) = self.next(tree, s).filter(|&old| old != new) else { return false };
        if !self.permits(tree, s, new) {
            return false;
        }
        let differing = self.paths(tree, old, new);
        let flow = self.flow_over(tree, s);
        let usage = |id: ChannelId| i128::from(self.usage[id.index()]);
        let flow_wide = i128::from(flow);
        if differing.iter().map(|&(a, b)| usage(b) - usage(a) + flow_wide).sum::<i128>() * flow_wide >= 0 {
            return false;
        }
        for (a, b) in differing {
            self.usage[a.index()] -= flow;
            self.usage[b.index()] += flow;
        }
        true
    }

    /// The channel over which a switch forwards; `None` at the destination.
    fn next(&self, tree: &Tree, s: SwitchId) -> Option<ChannelId> {
        let channel = || self.fabric.channels().at_port(s, PortNum(tree.ports[s.index()]));
        if s == tree.target { None } else { channel() }
    }

    /// The channels over which other switches forward through `s`.
    fn joining(&self, tree: &Tree, s: SwitchId) -> impl Iterator<Item = ChannelId> {
        let into = self.fabric.channels().out(s).map(|(_, c)| (c.to, c.reverse));
        into.filter(|&(from, channel)| self.next(tree, from) == Some(channel)).map(|(_, channel)| channel)
    }

    /// Whether `s` may forward over a channel that leads nearer to the destination.
    fn permits(&self, tree: &Tree, s: SwitchId, channel: ChannelId) -> bool {
        let onward = self.next(tree, self.channel(channel).to);
        onward.is_none_or(|then| (self.allow)(tree.lid, channel, then))
            && self.joining(tree, s).all(|before| (self.allow)(tree.lid, before, channel))
    }

    /// Pairs of channels of the old and the new path, up to where both meet. Both are equally long.
    fn paths(&self, tree: &Tree, old: ChannelId, new: ChannelId) -> Vec<(ChannelId, ChannelId)> {
        let onward = |&(old, new): &(ChannelId, ChannelId)| {
            let (a, b) = (self.channel(old).to, self.channel(new).to);
            if a == b { None } else { self.next(tree, a).zip(self.next(tree, b)) }
        };
        std::iter::successors(Some((old, new)), onward).collect()
    }

    /// Adapters whose packets come through `s`, its own included.
    fn flow_over(&self, tree: &Tree, s: SwitchId) -> i64 {
        let mut open = vec![s];
        let mut flow = 0;
        while let Some(s) = open.pop() {
            flow += self.adapters[s.index()];
            open.extend(self.joining(tree, s).map(|channel| self.channel(channel).from));
        }
        flow
    }
}
