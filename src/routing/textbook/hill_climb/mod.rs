//! Balances finished tables: exchanges equally long paths while the load gets more even.

mod random;
#[cfg(test)]
mod tests;

use crate::fabric::{Channel, ChannelId, EndPort, Fabric, Lid, PortNum, SwitchId};
use crate::tables::Lft;

/// What [`hill_climb`] did. Usage of a channel: routes between adapters that pass it. Variances are
/// over all switch-to-switch channels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Climb {
    /// Variance of usage before.
    pub before: f64,
    /// Variance of usage afterwards.
    pub after: f64,
    /// Exchanges tried.
    pub trials: u64,
    /// Exchanges made.
    pub moves: u64,
}

/// How [`hill_climb`] picks the exchanges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Picks {
    /// LID by LID and switch by switch, nearest to the destination first, each other channel that leads to it in as many
    /// hops is tried, and the best one taken. Rounds are repeated until one finds nothing, so the result is a local
    /// optimum unless the budget ends it.
    Best {
        /// Largest number of exchanges tried.
        budget: u64,
    },
    /// As the paper does: at random from a list of all exchanges. One that makes the usage more even is kept.
    Random {
        /// The paper's T: ends after this many tries in a row without success, as a multiple of the list's length.
        patience: f64,
        /// Seed of the picks.
        seed: u64,
    },
}

/// Makes the usage of channels more even, by its variance (Chiu et al., section 6), without longer paths. The
/// mean usage stays, so the variance falls with the sum of squares. Only exchanges that lower it are made.
///
/// 1. Parallel links (section 6.4, steps 1 and 2): for each pair of linked switches the routes are sorted
///    by usage and given one after the other to the link that carries least; kept if that is better
///    than what was. The paper takes the parallel links away before it computes the tables and adds them back here. That
///    changes nothing: which of them a route takes so far has no influence on where it goes.
/// 2. Hill climbing (step 3), with [`Picks`] of the best or at random.
///
/// - `lft`: tables of `fabric` without forwarding loops; entries that lead nowhere stay so.
/// - `allow`: whether a path to a LID may go over the first channel and then over the second. With
///   [`Layers::allow`](crate::ordering::Layers::allow) ordered paths stay ordered; a routing that
///   needs no order may allow everything. It is asked about each turn that an exchange brings in.
///
/// Switch LIDs (management traffic) are no load and keep their paths. Ties go to the lowest port.
///
/// Cost: with R rounds, D adapter LIDs, S switches, C channels, B exchanges tried and H hops, O(R D (S + C) + B H) time
/// for the best picks, O(D (S + C) + B (H + F)) for random ones, where F switches forward over the one that changes;
/// O(S + C) memory, 8 bytes for each (LID, switch) that forwards over one of several parallel links, and 8 bytes for
/// each exchange in the list of the random picks.
pub fn hill_climb(
    fabric: &Fabric,
    lft: &mut Lft,
    allow: impl Fn(Lid, ChannelId, ChannelId) -> bool,
    picks: Picks,
) -> Climb {
    let destinations: Vec<(Lid, SwitchId)> = fabric.adapters().flat_map(|(_, end)| homes(end)).collect();
    let mut climber = Climber::new(fabric, allow);
    for &(lid, target) in &destinations {
        climber.visit(lft.to(lid), target);
        climber.add_usage();
    }
    let before = variance(&climber.usage);
    climber.spread_parallel(&destinations, lft);
    let trials = match picks {
        Picks::Best { budget } => climber.climb_all(&destinations, lft, budget),
        Picks::Random { patience, seed } => climber.climb_at_random(&destinations, lft, patience, seed),
    };
    Climb { before, after: variance(&climber.usage), trials, moves: climber.moves }
}

/// The LIDs of an end port, each with the switch of the port.
fn homes(end: &EndPort) -> impl Iterator<Item = (Lid, SwitchId)> + use<> {
    let home = end.attachment.map(|(switch, _)| switch);
    end.lids().filter_map(move |lid| Some((lid, home?)))
}

fn variance(usage: &[i64]) -> f64 {
    let n = usage.len().max(1) as f64;
    let sum: i128 = usage.iter().map(|&u| i128::from(u)).sum();
    let squares: i128 = usage.iter().map(|&u| i128::from(u) * i128::from(u)).sum();
    let mean = sum as f64 / n;
    squares as f64 / n - mean * mean
}

struct Climber<'a, F> {
    fabric: &'a Fabric,
    allow: F,
    adapters: Vec<i64>,
    /// Routes by channel.
    usage: Vec<i64>,
    moves: u64,
    /// The tree of the present LID: first channel by switch,
    taken: Vec<Option<ChannelId>>,
    /// hops by switch,
    hops: Vec<u32>,
    /// switches that have a path, in order of hops, the destination first,
    order: Vec<SwitchId>,
    /// and adapters behind each switch, its own included.
    flow: Vec<i64>,
}

impl<'a, F: Fn(Lid, ChannelId, ChannelId) -> bool> Climber<'a, F> {
    fn new(fabric: &'a Fabric, allow: F) -> Self {
        let n = fabric.num_switches();
        Self {
            fabric,
            allow,
            adapters: fabric.switch_ids().map(|s| fabric.num_adapters_on(s) as i64).collect(),
            usage: vec![0; fabric.channels().len()],
            moves: 0,
            taken: vec![None; n],
            hops: vec![u32::MAX; n],
            order: Vec::with_capacity(n),
            flow: vec![0; n],
        }
    }

    fn channel(&self, id: ChannelId) -> &'a Channel {
        self.fabric.channels().get(id)
    }

    /// Reads the tree of a LID.
    fn visit(&mut self, ports: &[u8], target: SwitchId) {
        let channels = self.fabric.channels();
        for s in self.fabric.switch_ids() {
            self.taken[s.index()] = channels.at_port(s, PortNum(ports[s.index()]));
        }
        self.taken[target.index()] = None;
        self.hops.fill(u32::MAX);
        self.hops[target.index()] = 0;
        self.order.clear();
        self.order.push(target);
        let mut head = 0;
        while let Some(&s) = self.order.get(head) {
            head += 1;
            for (_, c) in channels.out(s) {
                if self.taken[c.to.index()] == Some(c.reverse) {
                    self.hops[c.to.index()] = self.hops[s.index()] + 1;
                    self.order.push(c.to);
                }
            }
        }
        self.flow.copy_from_slice(&self.adapters);
        for &s in self.order.iter().skip(1).rev() {
            if let Some(taken) = self.taken[s.index()] {
                let next = self.channel(taken).to;
                self.flow[next.index()] += self.flow[s.index()];
            }
        }
    }

    fn add_usage(&mut self) {
        for &s in &self.order {
            if let Some(taken) = self.taken[s.index()] {
                self.usage[taken.index()] += self.flow[s.index()];
            }
        }
    }

    /// Whether a channel leads nearer to the destination.
    fn is_nearer(&self, channel: ChannelId) -> bool {
        let c = self.channel(channel);
        let (here, there) = (self.hops[c.from.index()], self.hops[c.to.index()]);
        there != u32::MAX && there + 1 == here
    }

    /// Whether the tree, that of a LID, may have `s` forward over `channel`.
    fn fits(&self, lid: Lid, s: SwitchId, channel: ChannelId) -> bool {
        let next = self.channel(channel).to;
        let onward = self.taken[next.index()].is_none_or(|then| (self.allow)(lid, channel, then));
        let joins = |&(_, c): &(ChannelId, &Channel)| self.taken[c.to.index()] == Some(c.reverse);
        onward
            && self.fabric.channels().out(s).filter(joins).all(|(_, c)| (self.allow)(lid, c.reverse, channel))
    }

    /// Step 1.
    fn spread_parallel(&mut self, destinations: &[(Lid, SwitchId)], lft: &mut Lft) {
        let channels = self.fabric.channels();
        // The channels that are one of several, each with the first one of its pair of switches.
        let mut pairs: Vec<(SwitchId, SwitchId, ChannelId)> =
            channels.iter().map(|(id, c)| (c.from, c.to, id)).collect();
        pairs.sort_unstable();
        let bundles: Vec<Vec<ChannelId>> = pairs
            .chunk_by(|a, b| (a.0, a.1) == (b.0, b.1))
            .filter(|bundle| bundle.len() > 1)
            .map(|bundle| bundle.iter().map(|&(.., id)| id).collect())
            .collect();
        let mut bundle_of = vec![None; channels.len()];
        for (i, bundle) in bundles.iter().enumerate() {
            bundle.iter().for_each(|id| bundle_of[id.index()] = Some(i));
        }

        // By bundle: (usage, index of the destination), only where every link of it fits.
        let mut movable: Vec<Vec<(u32, u32)>> = vec![Vec::new(); bundles.len()];
        for (i, &(lid, target)) in destinations.iter().enumerate().filter(|_| !bundles.is_empty()) {
            self.visit(lft.to(lid), target);
            for &s in &self.order {
                let Some(taken) = self.taken[s.index()] else { continue };
                let (flow, Some(bundle)) = (self.flow[s.index()], bundle_of[taken.index()]) else { continue };
                if flow > 0 && bundles[bundle].iter().all(|&link| self.fits(lid, s, link)) {
                    movable[bundle].push((flow as u32, i as u32));
                }
            }
        }

        for (bundle, mut routes) in bundles.iter().zip(movable) {
            let from = self.channel(bundle[0]).from;
            let mut usage: Vec<i64> = bundle.iter().map(|id| self.usage[id.index()]).collect();
            let link_of = |lft: &Lft, lid: Lid| {
                let port = lft.to(lid)[from.index()];
                bundle.iter().position(|&id| channels.get(id).out_port.0 == port)
            };
            for &(flow, i) in &routes {
                if let Some(at) = link_of(lft, destinations[i as usize].0) {
                    usage[at] -= i64::from(flow);
                }
            }
            routes.sort_unstable_by_key(|&(flow, i)| (std::cmp::Reverse(flow), i));
            let mut chosen = Vec::with_capacity(routes.len());
            for &(flow, _) in &routes {
                let least = (0..bundle.len()).min_by_key(|&at| usage[at]).unwrap_or(0);
                usage[least] += i64::from(flow);
                chosen.push(least);
            }
            let squares = |all: &mut dyn Iterator<Item = i64>| -> i128 {
                all.map(|u| i128::from(u) * i128::from(u)).sum()
            };
            let old = squares(&mut bundle.iter().map(|id| self.usage[id.index()]));
            if squares(&mut usage.iter().copied()) < old {
                for (&(_, i), &at) in routes.iter().zip(&chosen) {
                    lft.set(from, destinations[i as usize].0, self.channel(bundle[at]).out_port);
                }
                for (id, u) in bundle.iter().zip(usage) {
                    self.usage[id.index()] = u;
                }
                self.moves += 1;
            }
        }
    }

    /// Step 2 with the best picks. Returns the number of exchanges tried.
    fn climb_all(&mut self, destinations: &[(Lid, SwitchId)], lft: &mut Lft, budget: u64) -> u64 {
        let mut trials = 0;
        loop {
            let moves = self.moves;
            for &(lid, target) in destinations {
                self.visit(lft.to(lid), target);
                trials += self.climb(lid, lft.to_mut(lid), budget - trials);
                if trials == budget {
                    return trials;
                }
            }
            if self.moves == moves {
                return trials;
            }
        }
    }

    /// The same for the present LID. Returns the number of exchanges tried.
    fn climb(&mut self, lid: Lid, ports: &mut [u8], budget: u64) -> u64 {
        let mut trials = 0;
        for i in 1..self.order.len() {
            let s = self.order[i];
            let Some(old) = self.taken[s.index()].filter(|_| self.flow[s.index()] > 0) else { continue };
            let mut best = (0, old);
            for (id, _) in self.fabric.channels().out(s) {
                if id == old || !self.is_nearer(id) || !self.fits(lid, s, id) {
                    continue;
                }
                if trials == budget {
                    break;
                }
                trials += 1;
                best = best.min((self.change(s, old, id), id));
            }
            if best.0 < 0 {
                self.exchange(s, old, best.1);
                ports[s.index()] = self.channel(best.1).out_port.0;
                self.moves += 1;
            }
        }
        trials
    }

    /// The pairs of channels, one of the old and one of the new path, up to where both meet.
    fn differing(&self, old: ChannelId, new: ChannelId) -> impl Iterator<Item = (ChannelId, ChannelId)> {
        let onward = |(old, new): &(ChannelId, ChannelId)| {
            let (a, b) = (self.channel(*old).to, self.channel(*new).to);
            if a == b { None } else { self.taken[a.index()].zip(self.taken[b.index()]) }
        };
        std::iter::successors(Some((old, new)), onward)
    }

    /// By how much the sum of squares would grow.
    fn change(&self, s: SwitchId, old: ChannelId, new: ChannelId) -> i128 {
        let flow = i128::from(self.flow[s.index()]);
        let usage = |id: ChannelId| i128::from(self.usage[id.index()]);
        self.differing(old, new).map(|(a, b)| 2 * flow * (usage(b) - usage(a) + flow)).sum()
    }

    fn exchange(&mut self, s: SwitchId, old: ChannelId, new: ChannelId) {
        let flow = self.flow[s.index()];
        let differing: Vec<_> = self.differing(old, new).collect();
        for (a, b) in differing {
            self.usage[a.index()] -= flow;
            self.usage[b.index()] += flow;
            let (left, joined) = (self.channel(a).to, self.channel(b).to);
            self.flow[left.index()] -= flow;
            self.flow[joined.index()] += flow;
        }
        self.taken[s.index()] = Some(new);
    }
}
