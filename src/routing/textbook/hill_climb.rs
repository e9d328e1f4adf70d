//! Balances finished tables: exchanges equally long paths while the load gets more even.

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

/// Makes the usage of channels more even, by its variance (Chiu et al., section 6), without longer paths. The
/// mean usage stays, so the variance falls with the sum of squares. Only exchanges that lower it are made.
///
/// 1. Parallel links (section 6.4, step 2): for each pair of linked switches the routes are sorted
///    by usage and given one after the other to the link that carries least; kept if that is better
///    than what was.
/// 2. Hill climbing (step 3): LID by LID and switch by switch, nearest to the destination first, each
///    other channel that leads to it in as many hops is tried, and the best one taken. Where the
///    paper picks at random, this repeats rounds until one finds nothing, so the result is a local
///    optimum unless the budget ends it.
///
/// - `lft`: tables of `fabric` without forwarding loops; entries that lead nowhere stay so.
/// - `allow`: whether a path may go over the first channel and then over the second. With
///   [`Layers::allow`](crate::ordering::Layers::allow) ordered paths stay ordered; a routing that
///   needs no order may allow everything. It is asked about each turn that an exchange brings in.
/// - `budget`: largest number of exchanges tried in step 2.
///
/// Switch LIDs (management traffic) are no load and keep their paths. Ties go to the lowest port.
///
/// Cost: O(R D (S + C) + B H) time with R rounds, D adapter LIDs, S switches, C channels, B exchanges
/// tried and H hops; O(S + C) memory, and 8 bytes for each (LID, switch) that forwards over one
/// of several parallel links.
pub fn hill_climb(
    fabric: &Fabric,
    lft: &mut Lft,
    allow: impl Fn(ChannelId, ChannelId) -> bool,
    budget: u64,
) -> Climb {
    let destinations: Vec<(Lid, SwitchId)> = fabric.adapters().flat_map(|(_, end)| homes(end)).collect();
    let mut climber = Climber::new(fabric, allow);
    for &(lid, target) in &destinations {
        climber.visit(lft.to(lid), target);
        climber.add_usage();
    }
    let before = variance(&climber.usage);
    climber.spread_parallel(&destinations, lft);
    let mut trials = 0;
    'rounds: loop {
        let moves = climber.moves;
        for &(lid, target) in &destinations {
            climber.visit(lft.to(lid), target);
            trials += climber.climb(lft.to_mut(lid), budget - trials);
            if trials == budget {
                break 'rounds;
            }
        }
        if climber.moves == moves {
            break;
        }
    }
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

impl<'a, F: Fn(ChannelId, ChannelId) -> bool> Climber<'a, F> {
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

    /// Whether the tree may have `s` forward over `channel`.
    fn fits(&self, s: SwitchId, channel: ChannelId) -> bool {
        let next = self.channel(channel).to;
        let onward = self.taken[next.index()].is_none_or(|then| (self.allow)(channel, then));
        let joins = |&(_, c): &(ChannelId, &Channel)| self.taken[c.to.index()] == Some(c.reverse);
        onward && self.fabric.channels().out(s).filter(joins).all(|(_, c)| (self.allow)(c.reverse, channel))
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
                if flow > 0 && bundles[bundle].iter().all(|&link| self.fits(s, link)) {
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

    /// Step 2 for the present LID. Returns the number of exchanges tried.
    fn climb(&mut self, ports: &mut [u8], budget: u64) -> u64 {
        let mut trials = 0;
        for i in 1..self.order.len() {
            let s = self.order[i];
            let Some(old) = self.taken[s.index()].filter(|_| self.flow[s.index()] > 0) else { continue };
            let mut best = (0, old);
            for (id, c) in self.fabric.channels().out(s) {
                let nearer = self.hops[c.to.index()] != u32::MAX
                    && self.hops[c.to.index()] + 1 == self.hops[s.index()];
                if id == old || !nearer || !self.fits(s, id) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::{LinkSort, ordered_trees};
    use crate::routing::{Hops, apot, bfot, sssp};
    use crate::topology::{RandomIrregular, Torus, small_members};

    /// Variance of usage, hops of every pair, and all turns, counted pair by pair.
    fn walk(fabric: &Fabric, lft: &Lft) -> (f64, Vec<usize>, Vec<(ChannelId, ChannelId)>) {
        let mut usage = vec![0; fabric.channels().len()];
        let (mut hops, mut turns) = (Vec::new(), Vec::new());
        for (_, end) in fabric.adapters() {
            for (lid, target) in homes(end) {
                for start in fabric.switch_ids() {
                    let (mut at, mut path) = (start, Vec::new());
                    while at != target {
                        let id = fabric.channels().at_port(at, lft.get(at, lid).unwrap()).unwrap();
                        path.push(id);
                        usage[id.index()] += fabric.num_adapters_on(start) as i64;
                        at = fabric.channels().get(id).to;
                        assert!(path.len() <= fabric.num_switches(), "a forwarding loop");
                    }
                    hops.push(path.len());
                    turns.extend(path.windows(2).map(|w| (w[0], w[1])));
                }
            }
        }
        (variance(&usage), hops, turns)
    }

    #[test]
    fn variance_falls_and_paths_stay_legal_and_as_long() {
        let parallel = RandomIrregular { switches: 6, ports: 14, cas: 3, seed: 5 }.build().unwrap();
        let mut moves = 0;
        for (name, f) in small_members().into_iter().chain([("parallel links", parallel)]) {
            let layers = ordered_trees(&f, LinkSort::Guid);
            for mut lft in [bfot(&f, &layers), apot(&f, &layers)] {
                let (variance, hops, _) = walk(&f, &lft);
                let climb = hill_climb(&f, &mut lft, |a, b| layers.allow(&f, a, b), u64::MAX);
                let (then, hops_then, turns) = walk(&f, &lft);
                assert_eq!((climb.before, climb.after), (variance, then), "{name}");
                assert!(then <= variance, "{name}");
                assert_eq!(climb.moves > 0, then < variance, "{name}");
                assert_eq!(hops, hops_then, "{name}");
                assert!(turns.iter().all(|&(a, b)| layers.allow(&f, a, b)), "{name}");
                moves += climb.moves;

                let again = hill_climb(&f, &mut lft, |a, b| layers.allow(&f, a, b), u64::MAX);
                assert!(again.after <= then, "{name}");
            }
        }
        assert!(moves > 0);
    }

    #[test]
    fn parallel_links_are_balanced_apart() {
        // All routes over one of the parallel links, as if the others had just been plugged in.
        let f = RandomIrregular { switches: 2, ports: 7, cas: 4, seed: 1 }.build().unwrap();
        let mut lft = sssp(&f, &Hops::new(&f).unwrap());
        for (_, end) in f.adapters() {
            for (lid, target) in homes(end) {
                let other = SwitchId(1 - target.0);
                let first = f.channels().out(other).next().unwrap().1.out_port;
                lft.set(other, lid, first);
            }
        }
        let climb = hill_climb(&f, &mut lft, |_, _| true, 0);
        assert_eq!(climb.trials, 0);
        let (then, ..) = walk(&f, &lft);
        assert_eq!(climb.after, then);
        // 4 destinations a side on 3 links, 4 sources each: 8, 4, 4.
        assert!((climb.after - (2.0 * 64.0 + 4.0 * 16.0) / 6.0 + (32.0_f64 / 6.0).powi(2)).abs() < 1e-9);
        assert!(climb.after < climb.before);
    }

    #[test]
    fn the_budget_is_kept() {
        let f = Torus { dims: vec![4, 4], cas: 2 }.build().unwrap();
        let layers = ordered_trees(&f, LinkSort::Center);
        let all = |budget| {
            let mut lft = bfot(&f, &layers);
            hill_climb(&f, &mut lft, |a, b| layers.allow(&f, a, b), budget)
        };
        let free = all(u64::MAX);
        assert!(free.trials > 100, "{free:?}");
        let short = all(100);
        assert_eq!(short.trials, 100);
        assert!(short.after >= free.after && short.after <= short.before);
        assert_eq!(all(0).moves, 0);
    }
}
