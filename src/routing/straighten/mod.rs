//! Detours made shortest paths, where the dependencies that packets really have allow it.
//!
//! A rule is sufficient, but not necessary: it forbids turns that close no cycle with those that packets take. So the
//! tables of a rule are taken as they are, with their multicast trees, and the graph of their dependencies is kept
//! free of cycles while detours become shortest, one after the other. Where a shortest path closes a cycle, some turn on
//! the cycle may get another label: packets that take this turn wait for another VL then, all at once.
//!
//! In the end there is an order of the virtual channels again, in which all packets ascend: the topological order of the
//! graph. VLs mix in it, and packets may go on to a lower VL.

mod graph;

use self::graph::Graph;
use super::demand::Demand;
use super::under_rule::Forwarding;
use super::{Hops, adapters_by_switch, ends_on};
use crate::fabric::{ChannelId, EndPort, Fabric, Lid, PortNum, SwitchId};
use crate::ordering::{Labels, Rank, Rule, VirtualChannelOrder};
use crate::tables::McastGroup;

/// Shortest paths of a detour that are tried. Random graphs have a handful.
const PATHS: usize = 8;
/// Labels that are tried for a path: those of all turns of a short cycle.
const LABELS: usize = 24;

/// Tables with one SL, in which packets ascend in an order.
#[derive(Clone, Copy, Debug)]
pub struct Bent<'a> {
    /// The order of unicast.
    pub order: &'a VirtualChannelOrder,
    /// The VL after each turn, from 1. Packets start on VL 0, and none waits for it.
    pub labels: &'a Labels,
    /// VLs that may be used, two or more.
    pub vls: u8,
    /// Multicast trees, free of cycles together with unicast.
    pub trees: &'a [McastGroup],
    /// Vertices of the graph that searches may meet.
    pub budget: u64,
    /// How many more for each route that has become shortest.
    pub each: u64,
    /// How many in all.
    pub most: u64,
}

/// A path to a destination: switches with their next hops.
type Way = Vec<(SwitchId, ChannelId)>;

/// Makes detours of adapter pairs shortest paths, and returns the rule that all paths obey then; the trees keep free of
/// cycles with any paths that obey it. `None` where no detour could be made shortest.
///
/// Destination by destination, a detour takes the shortest path that changes the fewest entries, of several the one
/// whose fullest channel has the least load, if the graph of dependencies stays free of cycles; else the first with which
/// it does if one turn of the cycle gets another label. No path becomes longer: what a switch forwards moves with it.
///
/// Port 0 of a switch with adapters takes the paths to the first of these. That of other switches keeps its own.
///
/// - `bent`: how packets of the tables ascend.
/// - `forwarding`: complete tables.
///
/// Cost: O(D S) with D LIDs and S switches for the graph. Then each detour takes at most `PATHS` (1 + `LABELS`) tries; each
/// takes the cost of [`TopologicalOrder::admit`] for the dependencies that change, until the budget is spent.
///
/// [`TopologicalOrder::admit`]: crate::ordering::TopologicalOrder::admit
pub fn straighten(fabric: &Fabric, hops: &Hops, bent: Bent<'_>, forwarding: &mut Forwarding) -> Option<Rule> {
    let adapters = adapters_by_switch(fabric);
    let mut graph = Graph::new(fabric, bent.order, bent.labels, bent.vls);
    let (leaders, followers) = destinations(fabric);
    let tables = Tables { fabric, hops, adapters: &adapters };
    for to in &leaders {
        graph.add(&tables.read(forwarding, to));
        graph.settle().ok()?;
    }
    for tree in bent.trees {
        graph.add_tree(tree);
        graph.settle().ok()?;
    }
    let demand = Demand::new(fabric);
    let before = forwarding.detours;
    for to in leaders.iter().filter(|to| to.end.is_adapter()) {
        let earned = bent.each * (before - forwarding.detours);
        let bent = Bent { budget: bent.most.min(bent.budget + earned), ..bent };
        tables.straighten_to(to, &mut graph, &demand, bent, forwarding);
    }
    if forwarding.detours == before {
        return None;
    }
    for (lid, leader) in followers {
        let ports = forwarding.lft.to(leader.lid).to_vec();
        forwarding.lft.to_mut(lid).copy_from_slice(&ports);
        forwarding.lft.set(leader.target, lid, PortNum(0));
    }
    Some(graph.into_rule(Rank::by_key(fabric, |c, _| c)))
}

/// A destination with paths of its own.
#[derive(Clone, Copy)]
struct To<'a> {
    lid: Lid,
    end: &'a EndPort,
    target: SwitchId,
}

/// The destinations with paths of their own, and LIDs of port 0 that take the paths of one of these.
fn destinations(fabric: &Fabric) -> (Vec<To<'_>>, Vec<(Lid, To<'_>)>) {
    let (mut leaders, mut followers) = (Vec::new(), Vec::new());
    for target in fabric.switch_ids() {
        let mut first = None;
        for (end, _) in ends_on(fabric, target) {
            for lid in end.lids() {
                let to = To { lid, end, target };
                match first.filter(|_| !end.is_adapter()) {
                    Some(first) => followers.push((lid, first)),
                    None => leaders.push(to),
                }
                first = first.or(Some(to).filter(|_| end.is_adapter()));
            }
        }
    }
    (leaders, followers)
}

/// The tables in words of the fabric.
struct Tables<'a> {
    fabric: &'a Fabric,
    hops: &'a Hops,
    /// By switch.
    adapters: &'a [u64],
}

impl Tables<'_> {
    /// By switch: the next hop to a destination.
    fn read(&self, forwarding: &Forwarding, to: &To<'_>) -> Vec<Option<ChannelId>> {
        let ports = forwarding.lft.to(to.lid);
        let next = |s: SwitchId| self.fabric.channels().at_port(s, PortNum(ports[s.index()]));
        self.fabric.switch_ids().map(|s| next(s).filter(|_| s != to.target)).collect()
    }

    /// The switches on a path, each with its next hop.
    fn path<'n>(
        &'n self,
        next: &'n [Option<ChannelId>],
        s: SwitchId,
    ) -> impl Iterator<Item = (SwitchId, ChannelId)> {
        let hop = |s: SwitchId| next[s.index()].map(|channel| (s, channel));
        std::iter::successors(hop(s), move |&(_, channel)| hop(self.fabric.channels().get(channel).to))
    }

    fn is_detour(&self, next: &[Option<ChannelId>], to: &To<'_>, s: SwitchId) -> bool {
        self.path(next, s).count() > usize::from(self.hops.get(s, to.target))
    }

    /// Makes detours to one destination shortest, the nearest first.
    fn straighten_to(
        &self,
        to: &To<'_>,
        graph: &mut Graph<'_>,
        demand: &Demand<'_>,
        bent: Bent<'_>,
        forwarding: &mut Forwarding,
    ) {
        let mut next = self.read(forwarding, to);
        let old = next.clone();
        let senders = self.fabric.switch_ids().filter(|s| self.adapters[s.index()] > 0);
        let mut detours: Vec<SwitchId> = senders.filter(|&s| self.is_detour(&next, to, s)).collect();
        let were: u64 = detours.iter().map(|s| self.adapters[s.index()]).sum();
        detours.sort_by_key(|&s| self.hops.get(s, to.target));
        for &s in &detours {
            if graph.visited() < bent.budget && self.is_detour(&next, to, s) {
                let ways = self.shortest(&next, to, s, &forwarding.load);
                let done = ways.iter().any(|way| try_way(graph, &mut next, way).is_ok());
                if !done {
                    ways.iter().any(|way| try_labels(graph, &mut next, way, bent));
                }
            }
        }
        if next == old {
            return;
        }
        let are: u64 =
            detours.iter().filter(|&&s| self.is_detour(&next, to, s)).map(|s| self.adapters[s.index()]).sum();
        forwarding.detours -= were - are;
        let (routes, times) = demand.to(to.end);
        let weights = self.fabric.weights().by_channel();
        for s in self.fabric.switch_ids() {
            let routes = |c: ChannelId| routes[s.index()] * times * u64::from(weights[c.index()]);
            self.path(&old, s).for_each(|(_, c)| forwarding.load[c.index()] -= routes(c));
            self.path(&next, s).for_each(|(_, c)| forwarding.load[c.index()] += routes(c));
            if let Some(channel) = next[s.index()] {
                forwarding.lft.set(s, to.lid, self.fabric.channels().get(channel).out_port);
            }
        }
    }

    /// What some shortest paths of a switch change, in the order in which they are tried.
    fn shortest(&self, next: &[Option<ChannelId>], to: &To<'_>, s: SwitchId, load: &[u64]) -> Vec<Way> {
        let channels = self.fabric.channels();
        let row = self.hops.row(to.target);
        let mut found: Vec<(usize, u64, Way)> = Vec::new();
        let mut open: Vec<(SwitchId, Way)> = vec![(s, Vec::new())];
        while let Some((at, way)) = open.pop().filter(|_| found.len() < PATHS) {
            if at == to.target {
                let changes = way.iter().filter(|(s, c)| next[s.index()] != Some(*c)).count();
                let fullest = way.iter().map(|(_, c)| load[c.index()]).max().unwrap_or(0);
                found.push((changes, fullest, way));
                continue;
            }
            for (id, c) in channels.out(at).filter(|(_, c)| row[c.to.index()] < row[at.index()]) {
                let longer = way.iter().copied().chain([(at, id)]).collect();
                open.push((c.to, longer));
            }
        }
        found.sort();
        found.into_iter().map(|(.., way)| way).collect()
    }
}

/// Takes a path if that closes no cycle. The error is the turns of the cycle.
fn try_way(graph: &mut Graph<'_>, next: &mut [Option<ChannelId>], way: &Way) -> Result<(), Vec<u32>> {
    let old: Vec<Option<ChannelId>> = way.iter().map(|(s, _)| next[s.index()]).collect();
    let changes: Way = way.iter().copied().filter(|(s, c)| next[s.index()] != Some(*c)).collect();
    // From the target on: so there is no loop in between.
    let changes: Way = changes.into_iter().rev().collect();
    graph.reroute(next, &changes);
    let result = graph.settle();
    if result.is_err() {
        way.iter().zip(old).for_each(|((s, _), old)| next[s.index()] = old);
    }
    result
}

/// Takes a path with another label for one turn of the cycle that it closes, if that closes none.
fn try_labels(graph: &mut Graph<'_>, next: &mut [Option<ChannelId>], way: &Way, bent: Bent<'_>) -> bool {
    let Err(cycle) = try_way(graph, next, way) else { return true };
    let others = cycle.iter().flat_map(|&turn| (1..bent.vls).map(move |label| (turn, label)));
    let others: Vec<(u32, u8)> = others.filter(|&(turn, label)| graph.label(turn) != label).collect();
    others.into_iter().take(LABELS).any(|(turn, label)| {
        let within = graph.visited() < bent.budget;
        within && {
            graph.set_label(turn, label);
            try_way(graph, next, way).is_ok()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::up_down_rank;
    use crate::routing::{LabelSearch, Lookahead, NoLegalPath, base_detours, ranked_sssp, search_labels};
    use crate::topology::{Random, fail_links, small_members};

    fn rules(fabric: &Fabric, hops: &Hops) -> [Rule; 2] {
        let ranks = [up_down_rank(fabric, SwitchId(0))];
        let targets: Vec<SwitchId> = fabric.switch_ids().collect();
        let lookahead = Lookahead::Every;
        let search =
            LabelSearch { ranks: &ranks, most: 2, pinned: None, lookahead, targets: &targets, rounds: 4 };
        [Rule::FirstTurnFree(ranks[0].clone()), search_labels(fabric, hops, search).0]
    }

    fn labels(fabric: &Fabric, rule: &Rule) -> Labels {
        let mut labels = Labels::ones(fabric);
        for (first, c) in fabric.channels().iter() {
            for (second, _) in fabric.channels().out(c.to) {
                let turn = labels.turn(first, second);
                labels.by_turn_mut()[turn] = rule.label(first, second);
            }
        }
        labels
    }

    /// Paths are complete, ascend under the rule that is returned, and are counted as they are.
    #[test]
    fn straight_paths_ascend_in_the_order_that_is_found() {
        let (mut before, mut after) = (0, 0);
        let random = Random { switches: 40, degree: 5, cas: 2, seed: 1 }.build().unwrap();
        for (name, whole) in small_members().into_iter().chain([("random", random)]) {
            let Ok(f) = fail_links(&whole, 2, 1) else { continue };
            let hops = Hops::new(&f).unwrap();
            for rule in rules(&f, &hops) {
                let detour = NoLegalPath::Detour(None);
                let mut tables = ranked_sssp(&f, &hops, &rule, Lookahead::Every, detour);
                if !tables.complete || tables.detours == 0 {
                    continue;
                }
                before += tables.detours;
                let order = rule.virtual_channel_order().unwrap();
                let labels = labels(&f, &rule);
                let (order, labels, vls) = (&order, &labels, rule.vls());
                let bent =
                    Bent { order, labels, vls, trees: &[], budget: 1_000_000, each: 0, most: 1_000_000 };
                let bent_tables = tables.clone();
                let found = straighten(&f, &hops, bent, &mut tables);
                after += tables.detours;
                assert!(found.is_some() == (tables.detours < bent_tables.detours), "{name}");
                let Some(found) = found else {
                    assert!(tables.lft == bent_tables.lft, "{name}");
                    continue;
                };
                assert!(found.vls() <= rule.vls(), "{name}");
                let mut load = vec![0; f.channels().len()];
                for end in f.endports() {
                    let (target, _) = end.attachment.unwrap();
                    let next = |s: SwitchId| {
                        let port = PortNum(tables.lft.to(end.lid)[s.index()]);
                        f.channels().at_port(s, port).filter(|_| s != target)
                    };
                    for s in f.switch_ids() {
                        let mut path = Vec::new();
                        let mut at = s;
                        while let Some(channel) = next(at) {
                            path.push(channel);
                            at = f.channels().get(channel).to;
                            assert!(path.len() <= f.num_switches(), "{name}");
                        }
                        assert_eq!(at, target, "{name}");
                        let positions: Vec<u32> = (0..path.len())
                            .map(|i| found.position_of(path[i], path.get(i + 1).copied()))
                            .collect();
                        assert!(positions.windows(2).all(|p| Rule::legal(p[0], p[1])), "{name}");
                        if end.is_adapter() {
                            let routes = f.num_adapters_on(s) as u64;
                            let weight = |c: &ChannelId| u64::from(f.weights().by_channel()[c.index()]);
                            path.iter().for_each(|c| load[c.index()] += routes * weight(c));
                        }
                    }
                }
                assert_eq!(tables.load, load, "{name}");
                assert_eq!(base_detours(&f, &hops, &tables.lft), tables.nonminimal_share(), "{name}");
            }
        }
        assert!(2 * after < before, "{after} of {before}");
    }
}
