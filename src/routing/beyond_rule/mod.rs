//! Tables that keep to no rule, but to the dependencies that packets really have.
//!
//! A rule is sufficient, but not necessary: it forbids turns that close no cycle with those that packets take. So the
//! tables of a rule are taken as they are, with their multicast trees, and the graph of their dependencies is kept
//! free of cycles while paths change, one after the other: detours become shortest (`straighten.rs`), then paths move to
//! channels with less load (`level.rs`). Where a path closes a cycle, some turn may get another label: packets that take
//! this turn wait for another VL then, all at once.
//!
//! In the end there is an order of the virtual channels again, in which all packets ascend: the topological order of the
//! graph. VLs mix in it, and packets may go on to a lower VL.

mod complete;
mod graph;
mod level;
mod straighten;

pub use self::complete::complete;
use self::graph::Graph;
use super::demand::Demand;
use super::under_rule::Forwarding;
use super::{Hops, UNCOUNTED, adapters_by_switch, count_hops, ends_on};
use crate::fabric::{ChannelId, EndPort, Fabric, Lid, PortNum, SwitchId};
use crate::ordering::{Labels, Rule, VirtualChannelOrder};
use crate::tables::McastGroup;

/// How packets of tables with one SL ascend in an order.
#[derive(Clone, Copy, Debug)]
pub struct Ascent<'a> {
    /// The order of unicast.
    pub order: &'a VirtualChannelOrder,
    /// The VL after each turn, from 1. Packets start on VL 0, and none waits for it.
    pub labels: &'a Labels,
    /// VLs that may be used, two or more.
    pub vls: u8,
    /// Multicast trees, free of cycles together with unicast.
    pub trees: &'a [McastGroup],
}

/// What is tried, in steps: vertices that searches meet, and turns of packets that change.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// To make detours shortest, in any case.
    pub detours: u64,
    /// How many more for each adapter pair whose path has become shortest.
    pub each: u64,
    /// For detours in all.
    pub most: u64,
    /// To level the load.
    pub load: u64,
    /// Share of the adapter pairs: where more keep their detours, nothing more is tried.
    pub most_bent: f64,
}

/// A path to a destination: switches with their next hops.
type Way = Vec<(SwitchId, ChannelId)>;

/// Makes detours of adapter pairs shortest, then levels the load, and returns the rule that all paths obey then; the trees
/// keep free of cycles with any paths that obey it. `None` where nothing could be changed, and where
/// [too many](Effort::most_bent) pairs keep their detours: then some tables may have changed. No path becomes longer.
///
/// Port 0 of a switch with adapters takes the paths to the first of these. That of other switches keeps its own.
///
/// - `ascent`: how packets of the tables ascend.
/// - `forwarding`: complete tables.
///
/// Cost: O(D S log S) with D LIDs and S switches, and the steps. Levelling takes O(S (log S + d)) for each destination more, with
/// switches of d channels.
pub fn refit(
    fabric: &Fabric,
    hops: &Hops,
    ascent: Ascent<'_>,
    effort: Effort,
    forwarding: &mut Forwarding,
) -> Option<Rule> {
    let adapters = adapters_by_switch(fabric);
    let (leaders, followers) = destinations(fabric);
    let tables = Tables { fabric, hops, adapters: &adapters, demand: Demand::new(fabric) };
    let mut graph = Graph::of_paths(fabric, ascent, &leaders, |to| tables.read(forwarding, to))?;
    for tree in ascent.trees {
        graph.add_tree(tree);
        graph.settle().ok()?;
    }
    let leading: Vec<To<'_>> = leaders.into_iter().filter(|to| to.end.is_adapter()).collect();
    let straightened = tables.straighten(&leading, &mut graph, effort, forwarding)?;
    let levelled = tables.level(&leading, &mut graph, effort.load, forwarding);
    if straightened + levelled == 0 {
        return None;
    }
    follow(&followers, forwarding);
    Some(graph.into_rule())
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

/// Gives LIDs of port 0 the paths that they take.
fn follow(followers: &[(Lid, To<'_>)], forwarding: &mut Forwarding) {
    for &(lid, leader) in followers {
        let ports = forwarding.lft.to(leader.lid).to_vec();
        forwarding.lft.to_mut(lid).copy_from_slice(&ports);
        forwarding.lft.set(leader.target, lid, PortNum(0));
    }
}

/// The paths of all switches to one destination.
struct PathsTo {
    /// By switch; `None` at the target.
    next: Vec<Option<ChannelId>>,
    /// By switch.
    hops: Vec<u16>,
    /// The switches with a next hop, each with that, by hops.
    outward: Way,
}

impl PathsTo {
    /// - `row`: by switch, the hops of a shortest path.
    fn is_detour(&self, row: &[u8], s: SwitchId) -> bool {
        self.hops[s.index()] > u16::from(row[s.index()])
    }
}

/// The tables in words of the fabric.
struct Tables<'a> {
    fabric: &'a Fabric,
    hops: &'a Hops,
    /// By switch.
    adapters: &'a [u64],
    demand: Demand<'a>,
}

impl Tables<'_> {
    /// By switch: the next hop to a destination.
    fn read(&self, forwarding: &Forwarding, to: &To<'_>) -> Vec<Option<ChannelId>> {
        let ports = forwarding.lft.to(to.lid);
        let next = |s: SwitchId| self.fabric.channels().at_port(s, PortNum(ports[s.index()]));
        self.fabric.switch_ids().map(|s| next(s).filter(|_| s != to.target)).collect()
    }

    /// Cost: O(S log S) with S switches.
    fn paths_to(&self, next: Vec<Option<ChannelId>>) -> PathsTo {
        let channels = self.fabric.channels();
        let mut hops: Vec<u16> = next.iter().map(|next| next.map_or(0, |_| UNCOUNTED)).collect();
        let ahead = |s: SwitchId| next[s.index()].map_or(s, |channel| channels.get(channel).to);
        count_hops(&mut hops, ahead);
        let next_hop = |s: SwitchId| Some((s, next[s.index()]?));
        let mut outward: Way = self.fabric.switch_ids().filter_map(next_hop).collect();
        outward.sort_by_key(|(s, _)| hops[s.index()]);
        PathsTo { next, hops, outward }
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

    /// The adapters whose paths are detours.
    fn detours(&self, paths: &PathsTo, to: &To<'_>) -> u64 {
        let row = self.hops.row(to.target);
        let bent = self.fabric.switch_ids().filter(|&s| paths.is_detour(row, s));
        bent.map(|s| self.adapters[s.index()]).sum()
    }

    /// Counts the routes to a destination: `count` adds them to the load of a channel, or takes them off.
    ///
    /// Cost: O(S) with S switches.
    fn count(&self, paths: &PathsTo, to: &To<'_>, load: &mut [u64], count: fn(&mut u64, u64)) {
        let channels = self.fabric.channels();
        let weights = self.fabric.weights().by_channel();
        let (routes, times) = self.demand.to(to.end);
        let mut flow = routes.to_vec();
        for &(s, channel) in paths.outward.iter().rev() {
            let routes = flow[s.index()];
            count(&mut load[channel.index()], routes * times * u64::from(weights[channel.index()]));
            flow[channels.get(channel).to.index()] += routes;
        }
    }

    /// Writes the paths to a destination, and counts what they change for adapters.
    fn write(&self, (old, new): (&PathsTo, &PathsTo), to: &To<'_>, forwarding: &mut Forwarding) {
        if to.end.is_adapter() {
            forwarding.detours = forwarding.detours + self.detours(new, to) - self.detours(old, to);
            self.count(old, to, &mut forwarding.load, |load, routes| *load -= routes);
            self.count(new, to, &mut forwarding.load, |load, routes| *load += routes);
        }
        let ports = forwarding.lft.to_mut(to.lid);
        for s in self.fabric.switch_ids() {
            if let Some(channel) = new.next[s.index()] {
                ports[s.index()] = self.fabric.channels().get(channel).out_port.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::up_down_rank;
    use crate::routing::{Lookahead, NoLegalPath, RuleSearch, base_detours, ranked_sssp, search_labels};
    use crate::topology::{Mesh, Random, fail_links, small_members};

    fn rules(fabric: &Fabric, hops: &Hops) -> [Rule; 2] {
        let ranks = [up_down_rank(fabric, SwitchId(0))];
        let targets: Vec<SwitchId> = fabric.switch_ids().collect();
        let search = RuleSearch::new(Lookahead::Every, &targets, 4);
        [Rule::FirstTurnFree(ranks[0].clone()), search_labels(fabric, hops, &ranks, 2, search).0]
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

    /// The sum of squares: the less, the more level.
    fn unevenness(tables: &Forwarding) -> u64 {
        tables.load.iter().map(|load| load * load).sum()
    }

    /// Paths are complete, ascend under the rule that is returned, and are counted as they are.
    fn assert_ascends(name: &str, f: &Fabric, hops: &Hops, tables: &Forwarding, found: &Rule) {
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
                let positions: Vec<u32> =
                    (0..path.len()).map(|i| found.position_of(path[i], path.get(i + 1).copied())).collect();
                assert!(positions.windows(2).all(|p| Rule::legal(p[0], p[1])), "{name}");
                if end.is_adapter() {
                    let routes = f.num_adapters_on(s) as u64;
                    let weight = |c: &ChannelId| u64::from(f.weights().by_channel()[c.index()]);
                    path.iter().for_each(|c| load[c.index()] += routes * weight(c));
                }
            }
        }
        assert_eq!(tables.load, load, "{name}");
        assert_eq!(base_detours(f, hops, &tables.lft), tables.nonminimal_share(), "{name}");
    }

    #[test]
    fn broken_paths_are_completed_in_an_order_with_the_others() {
        let (mut tried, mut completed) = (0, 0);
        let random = Random { switches: 40, degree: 5, cas: 2, seed: 1 }.build().unwrap();
        let grid = Mesh { dims: vec![5, 5, 3], cas: 2 }.build().unwrap();
        for (name, whole) in small_members().into_iter().chain([("random", random), ("mesh", grid)]) {
            for f in (1..4).filter_map(|seed| fail_links(&whole, 2, seed).ok()) {
                let hops = Hops::new(&f).unwrap();
                for rule in rules(&f, &hops) {
                    let broken = ranked_sssp(&f, &hops, &rule, Lookahead::Every, NoLegalPath::Break);
                    if broken.broken.is_empty() {
                        continue;
                    }
                    tried += 1;
                    let (order, labels) = (rule.virtual_channel_order().unwrap(), labels(&f, &rule));
                    let ascent = Ascent { order: &order, labels: &labels, vls: rule.vls() + 1, trees: &[] };
                    let none = complete(&f, &hops, ascent, 0, &broken);
                    assert!(none.is_none(), "{name}: nothing is to be had without work");
                    let Some((found, tables)) = complete(&f, &hops, ascent, 1_000_000, &broken) else {
                        continue;
                    };
                    completed += 1;
                    assert!(found.vls() <= rule.vls() + 1, "{name}");
                    assert!(
                        tables.complete && tables.broken.is_empty() && tables.broken_pairs == 0,
                        "{name}"
                    );
                    assert_ascends(name, &f, &hops, &tables, &found);
                }
            }
        }
        assert!(tried > 20 && 4 * completed > 3 * tried, "{completed} of {tried}");
    }

    #[test]
    fn paths_beyond_the_rule_ascend_in_the_order_that_is_found() {
        let alone = Effort { detours: 1_000_000, each: 0, most: 1_000_000, load: 0, most_bent: 1.0 };
        let (mut bent, mut straight, mut uneven, mut level, mut in_vain) = (0, 0, 0, 0, 0);
        let random = Random { switches: 40, degree: 5, cas: 2, seed: 1 }.build().unwrap();
        for (name, whole) in small_members().into_iter().chain([("random", random)]) {
            let Ok(f) = fail_links(&whole, 2, 1) else { continue };
            let hops = Hops::new(&f).unwrap();
            for rule in rules(&f, &hops) {
                let detour = NoLegalPath::Detour(None);
                let before = ranked_sssp(&f, &hops, &rule, Lookahead::Every, detour);
                if !before.complete {
                    continue;
                }
                let order = rule.virtual_channel_order().unwrap();
                let labels = labels(&f, &rule);
                let ascent = Ascent { order: &order, labels: &labels, vls: rule.vls(), trees: &[] };
                let mut tables = before.clone();
                let found = refit(&f, &hops, ascent, alone, &mut tables);
                assert!(found.is_some() == (tables.detours < before.detours), "{name}");
                match found {
                    Some(found) => {
                        assert!(found.vls() <= rule.vls(), "{name}");
                        assert_ascends(name, &f, &hops, &tables, &found);
                    }
                    None => assert!(tables.lft == before.lft, "{name}"),
                }
                // With a limit that the tables keep to they are the same; with one that they exceed there are none.
                let share = |detours: f64| detours / tables.pairs as f64;
                let left = tables.detours as f64;
                for (most_bent, enough) in [(share(left + 0.5), true), (share(left - 0.5), false)] {
                    let mut limited = before.clone();
                    let found = refit(&f, &hops, ascent, Effort { most_bent, ..alone }, &mut limited);
                    let is_changed = tables.detours < before.detours;
                    assert_eq!(found.is_some(), enough && is_changed, "{name}: {most_bent}");
                    assert!(!enough || limited.lft == tables.lft, "{name}: {most_bent}");
                    in_vain += u64::from(!enough && is_changed);
                }
                bent += before.detours;
                straight += tables.detours;

                let mut levelled = before.clone();
                match refit(&f, &hops, ascent, Effort { load: 1_000_000, ..alone }, &mut levelled) {
                    Some(found) => {
                        assert!(found.vls() <= rule.vls(), "{name}");
                        assert_ascends(name, &f, &hops, &levelled, &found);
                    }
                    None => assert!(levelled.lft == before.lft, "{name}"),
                }
                assert!(levelled.detours <= tables.detours, "{name}");
                uneven += unevenness(&tables);
                level += unevenness(&levelled);
            }
        }
        assert!(2 * straight < bent, "{straight} of {bent}");
        assert!(21 * level < 20 * uneven, "{level} of {uneven}");
        assert!(in_vain > 0);
    }
}
