//! P-SSSP that keeps to a rule.

use rayon::prelude::*;

use super::legal::{Legal, Lookahead};
use super::outward::{Outward, for_each_block};
use super::port0::{Rows, enter, ways_to_port_0};
use super::ways::{Detours, Mender, Toll};
use super::{Hops, adapters_by_switch, ends_on, with_and_without_adapters};
use crate::fabric::{ChannelId, EndPort, Fabric, Lid, PortNum, SwitchId};
use crate::ordering::{Rule, Tree};
use crate::tables::Lft;

/// What becomes of the switches that have no minimal way to a destination under the rule.
#[derive(Clone, Copy, Debug)]
pub enum Stuck<'a> {
    /// They take a minimal way that breaks it in as few places as possible. Ways to port 0, which
    /// carry no traffic that counts, take a detour instead where a search finds one.
    Break,
    /// They take a longer way that keeps to it: one that a search finds, or that along a tree whose
    /// paths are legal under the rule. Without a tree some may stay without any.
    Detour(Option<&'a Tree>),
}

/// Forwarding tables under a rule, and at what price.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// The tables.
    pub lft: Lft,
    /// Ways that break the rule, as (source switch, destination LID), by destination.
    pub broken: Vec<(SwitchId, Lid)>,
    /// Adapter pairs, LIDs of one LMC range each for itself.
    pub pairs: u64,
    /// How many of them break the rule.
    pub broken_pairs: u64,
    /// How many of them take a detour.
    pub detours: u64,
    /// Routes by channel.
    pub load: Vec<u64>,
    /// Whether all switches reach all destinations; otherwise the rest means nothing.
    pub complete: bool,
}

impl Ranked {
    /// Before any destination.
    pub(super) fn nothing(fabric: &Fabric) -> Self {
        Self {
            lft: Lft::new(fabric),
            broken: Vec::new(),
            pairs: 0,
            broken_pairs: 0,
            detours: 0,
            load: vec![0; fabric.channels().len()],
            complete: true,
        }
    }

    /// Adds what some destinations cost.
    pub(super) fn charge(&mut self, toll: Toll) {
        self.broken.extend(toll.broken);
        self.broken_pairs += toll.broken_pairs;
        self.detours += toll.detours;
        self.complete &= !toll.incomplete;
    }

    /// Share of the adapter pairs that take a detour.
    pub fn nonminimal_share(&self) -> f64 {
        self.detours as f64 / self.pairs.max(1) as f64
    }

    /// As [`Probe::bandwidth`], over all routes between adapters.
    ///
    /// Cost: O(S D) with S switches and D destination LIDs.
    pub fn bandwidth(&self, fabric: &Fabric) -> f64 {
        let adapters = adapters_by_switch(fabric);
        let chance = 0.5 / adapters.iter().sum::<u64>().max(1) as f64;
        let channels = fabric.channels();
        let (mut sum, mut routes) = (0.0, 0);
        let mut worst: Vec<Option<u64>> = vec![None; adapters.len()];
        let mut trail = Vec::new();
        for (_, end) in fabric.adapters() {
            for lid in end.lids() {
                let ports = self.lft.to(lid);
                worst.fill(None);
                for s in fabric.switch_ids() {
                    let mut at = s;
                    let mut flows = loop {
                        if let Some(known) = worst[at.index()] {
                            break known;
                        }
                        let Some(c) = channels.at_port(at, PortNum(ports[at.index()])) else { break 0 };
                        trail.push((at, c));
                        at = channels.get(c).to;
                    };
                    while let Some((at, c)) = trail.pop() {
                        flows = flows.max(self.load[c.index()]);
                        worst[at.index()] = Some(flows);
                    }
                    sum += adapters[s.index()] as f64 / (1.0 + chance * flows as f64);
                    routes += adapters[s.index()];
                }
            }
        }
        sum / routes.max(1) as f64
    }
}

/// How many share the ways to port 0 that are found by themselves.
const ASIDE: usize = 4;

/// P-SSSP (Hoefler et al., Fig. 2(a)) that keeps to a rule.
///
/// As [`sssp`](super::sssp()), destination by destination; but per destination the minimal-path DAG
/// is walked outward, and a switch takes, among the channels to switches that it may enter, those
/// that let the switches behind it enter in turn, and among these the one with the least load along
/// the path. Adapters come switch by switch in GUID order. Port 0, which counts as no load, has the ways of
/// an adapter on its switch. Where there is none, it has ways of its own under [`Rule::OneVl`], by the rule
/// alone (see `port0.rs`). Under another rule, where some switch has no such way, or where the ways of the
/// adapter broke the rule, its ways are found beside those to adapters, sixteen switches at a time, by the
/// load from before these.
///
/// - `hops`: distances of the same fabric.
/// - `rule`: made for the same fabric.
///
/// Returns tables that reach every LID of every attached end port from every switch.
///
/// Cost, with S switches, C channels, D destination LIDs and E the channels of a minimal-path DAG:
/// O(S C / 8 + S E) to make the DAGs, sixteen at a time, and O(S + C) for the ways to each port 0 without
/// an adapter beside it, both on another core meanwhile; O(D (S + E)) to walk the DAGs, one destination
/// after the other, as each is led by the load of those before. With [`Lookahead::LastChance`] the walk
/// looks at each channel of the DAG twice. A rule with labels costs O(E d) a destination more, with d the
/// mean number of channels of a switch; detours O(C) a destination, as many times as the tree has to step
/// in. Memory: O(S + C), 32 DAGs of 16 E + 20 S bytes each, and at most S^2 bytes for ways to port 0, beside
/// the tables of D S bytes.
pub fn ranked_sssp(
    fabric: &Fabric,
    hops: &Hops,
    rule: &Rule,
    lookahead: Lookahead,
    stuck: Stuck<'_>,
) -> Ranked {
    let adapters = adapters_by_switch(fabric);
    let all: u64 = adapters.iter().sum();
    let mut result = Ranked::nothing(fabric);
    let mender = Mender { hops, stuck, adapters: &adapters };
    let mut walk = Legal::new(fabric, rule, lookahead);
    let mut walks_aside = [(); ASIDE].map(|()| Legal::new(fabric, rule, lookahead));
    let mut visit = |dags: &[Outward]| {
        if !result.complete {
            return;
        }
        let before = result.load.clone();
        let Ranked { lft, load, pairs, .. } = &mut result;
        let adapters_of = || {
            let (mut toll, mut twins, mut left) = (Toll::default(), Vec::new(), Vec::new());
            for dag in dags {
                let mut switch = lids(fabric, dag, false);
                for (lid, end, port) in lids(fabric, dag, true) {
                    walk.choose(dag, load);
                    if walk.any_wrong() {
                        mender.mend(&mut walk, dag, load, (end, lid), &mut toll);
                    } else {
                        let twin =
                            switch.next().map(|(twin, ..)| Twin { lid: twin, of: lid, target: dag.target });
                        twins.extend(twin);
                    }
                    walk.ways().write(lft.to_mut(lid));
                    lft.set(dag.target, lid, port);
                    *pairs += all - 1;
                    walk.ways_mut().count(&adapters, 1, load);
                }
                left.extend(switch.filter(|_| adapters[dag.target.index()] > 0).map(|to| (dag, to)));
            }
            (toll, twins, left)
        };
        let switches_of = |walk: &mut Legal<'_>, ends: &[(&Outward, To<'_>)]| {
            let (mut toll, mut tables) = (Toll::default(), Rows::new());
            for &(dag, (lid, end, port)) in ends {
                walk.choose(dag, &before);
                if walk.any_wrong() {
                    mender.mend(walk, dag, &before, (end, lid), &mut toll);
                }
                let mut ports = vec![Lft::NO_PATH; adapters.len()];
                walk.ways().write(&mut ports);
                ports[dag.target.index()] = port.0;
                tables.push((lid, ports));
            }
            (toll, tables)
        };
        let mut aside = |ends: Vec<(&Outward, To<'_>)>| -> Vec<(Toll, Rows)> {
            let parts = ends.par_chunks(ends.len().div_ceil(ASIDE).max(1));
            walks_aside.par_iter_mut().zip(parts).map(|(walk, ends)| switches_of(walk, ends)).collect()
        };
        let bare = dags.iter().filter(|dag| adapters[dag.target.index()] == 0);
        let bare = bare.flat_map(|dag| lids(fabric, dag, false).map(move |to| (dag, to))).collect();
        let ((toll, twins, left), mut alone) = rayon::join(adapters_of, || aside(bare));
        alone.extend(aside(left));
        result.charge(toll);
        for Twin { lid, of, target } in twins {
            let ports = result.lft.to(of).to_vec();
            result.lft.to_mut(lid).copy_from_slice(&ports);
            result.lft.set(target, lid, PortNum(0));
        }
        for (toll, tables) in alone {
            result.charge(toll);
            enter(tables, &mut result.lft);
        }
    };
    match rule {
        Rule::OneVl(rank) => {
            let (with, bare) = with_and_without_adapters(fabric);
            let ((), (rows, left)) = rayon::join(
                || for_each_block(fabric, hops, &with, &mut visit),
                || ways_to_port_0(fabric, rank, &bare),
            );
            for_each_block(fabric, hops, &left, &mut visit);
            enter(rows, &mut result.lft);
        }
        _ => for_each_block(fabric, hops, &mixed(fabric), visit),
    }
    result
}

/// All switches, for rules under which each takes a DAG: those with adapters in order, and as many without
/// among any few of them as among all, so there is as much to do on one core as on the others at any time.
fn mixed(fabric: &Fabric) -> Vec<SwitchId> {
    let (with, without) = with_and_without_adapters(fabric);
    // At which share of its kind each comes, in units that both kinds have.
    let share = |list: Vec<SwitchId>, other: usize| {
        list.into_iter().enumerate().map(move |(i, s)| ((2 * i + 1) * other.max(1), s))
    };
    let (n, m) = (with.len(), without.len());
    let mut list: Vec<(usize, SwitchId)> = share(with, m).chain(share(without, n)).collect();
    list.sort_by_key(|&(share, _)| share);
    list.into_iter().map(|(_, s)| s).collect()
}

/// A LID with its end port and the switch's port to that.
type To<'a> = (Lid, &'a EndPort, PortNum);

/// A LID of port 0 that has the ways of another LID on the same switch.
struct Twin {
    lid: Lid,
    of: Lid,
    target: SwitchId,
}

/// The LIDs on the target of a DAG: those of adapters and routers, or those of port 0.
fn lids<'a>(fabric: &'a Fabric, dag: &Outward, adapters: bool) -> impl Iterator<Item = To<'a>> {
    let ends = ends_on(fabric, dag.target).into_iter().filter(move |(end, _)| end.is_adapter() == adapters);
    ends.flat_map(|(end, port)| end.lids().map(move |lid| (lid, end, port)))
}

/// What a rule costs, from one tree for each of some destination switches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Share of the adapter pairs without a legal minimal way.
    pub broken: f64,
    /// Share of the (switch, switch) pairs without one.
    pub broken_switches: f64,
    /// Share of the link bandwidth that a flow may expect in a random bisection, roughly: mean over
    /// the routes of 1 / (1 + the flows to be expected on the most loaded channel of the route). What
    /// all destinations would bring to a channel is estimated from those that were tried: the one
    /// that brings most counts as it is, as the channel may be a last one on the way to it, and the
    /// others are taken for typical.
    pub bandwidth: f64,
}

impl Probe {
    /// Broken pairs in one figure: adapter pairs count, those of switches hardly.
    pub fn price(&self) -> f64 {
        self.broken + self.broken_switches / 1000.0
    }

    /// Whether all adapter pairs have a legal minimal way, and at most a share `loss` less bandwidth than in
    /// `plain`, the same without a rule.
    pub fn suffices(&self, plain: &Self, loss: f64) -> bool {
        self.broken == 0.0 && self.bandwidth >= plain.bandwidth * (1.0 - loss)
    }
}

/// Tries a rule on some destination switches, with as many routes to each as it has adapters, over
/// at most `trees` different trees.
///
/// Cost: that of `trees` destinations of [`ranked_sssp`] for each target.
pub fn probe(
    fabric: &Fabric,
    hops: &Hops,
    rule: &Rule,
    lookahead: Lookahead,
    targets: &[SwitchId],
    trees: usize,
) -> Probe {
    probe_all(fabric, hops, &[(rule, lookahead)], targets, trees)[0]
}

/// [`probe`] for several rules, side by side on all cores; minimal-path DAGs are made once for all.
///
/// Memory: O(T S) a rule with T the trees of all targets.
pub fn probe_all(
    fabric: &Fabric,
    hops: &Hops,
    rules: &[(&Rule, Lookahead)],
    targets: &[SwitchId],
    trees: usize,
) -> Vec<Probe> {
    let trial = |&(rule, lookahead)| (Tally::new(fabric), Legal::new(fabric, rule, lookahead));
    let mut trials: Vec<(Tally, Legal<'_>)> = rules.iter().map(trial).collect();
    for_each_block(fabric, hops, targets, |dags| {
        trials.par_iter_mut().for_each(|(tally, walk)| {
            for dag in dags {
                let here = fabric.num_adapters_on(dag.target);
                let trees = trees.clamp(1, here.max(1));
                for i in 0..trees {
                    tally.walk(walk, dag, ((i + 1) * here / trees - i * here / trees) as u64);
                }
            }
        });
    });
    trials.par_iter().map(|(tally, _)| tally.finish(fabric)).collect()
}

/// A [`Probe`] in the making.
pub(super) struct Tally {
    adapters: Vec<u64>,
    load: Vec<u64>,
    pairs: u64,
    broken: u64,
    broken_switches: usize,
    /// The switches outward and the channel that each takes, target by target.
    trees: Vec<(SwitchId, ChannelId)>,
    /// For each tree the target and the adapters.
    targets: Vec<(SwitchId, u64)>,
}

impl Tally {
    pub(super) fn new(fabric: &Fabric) -> Self {
        Self {
            adapters: adapters_by_switch(fabric),
            load: vec![0; fabric.channels().len()],
            pairs: 0,
            broken: 0,
            broken_switches: 0,
            trees: Vec::new(),
            targets: Vec::new(),
        }
    }

    /// One tree for `here` adapters on the target.
    pub(super) fn walk(&mut self, walk: &mut Legal<'_>, dag: &Outward, here: u64) {
        walk.choose(dag, &self.load);
        if walk.any_wrong() {
            self.broken_switches += walk.ways().wrong().count();
            self.broken += here * walk.ways().wrong().map(|s| self.adapters[s.index()]).sum::<u64>();
        }
        self.pairs += here * self.adapters.iter().sum::<u64>();
        walk.ways_mut().count(&self.adapters, here, &mut self.load);
        self.trees.extend(walk.ways().outward());
        self.targets.push((dag.target, here));
    }

    pub(super) fn finish(&self, fabric: &Fabric) -> Probe {
        let switch_pairs = (self.targets.len() * self.adapters.len()).max(1);
        Probe {
            broken: self.broken as f64 / self.pairs.max(1) as f64,
            broken_switches: self.broken_switches as f64 / switch_pairs as f64,
            bandwidth: self.bandwidth(fabric),
        }
    }

    fn bandwidth(&self, fabric: &Fabric) -> f64 {
        let channels = fabric.channels();
        let tried: u64 = self.targets.iter().map(|&(_, here)| here).sum();
        let all: u64 = self.adapters.iter().sum();
        let typical = all.max(1) as f64 / tried.max(1) as f64;
        let most = if tried < all { self.most(fabric) } else { self.load.clone() };
        let load = |c: ChannelId| {
            let most = most[c.index()];
            most as f64 + typical * (self.load[c.index()] - most) as f64
        };
        let load: Vec<f64> = (0..channels.len()).map(ChannelId::at).map(load).collect();
        // In a random bisection a source sends to each destination with a chance of one in twice
        // their number.
        let chance = 0.5 / all.max(1) as f64;
        let mut worst = vec![0.0_f64; self.adapters.len()];
        let (mut sum, mut routes) = (0.0, 0);
        for (&(target, here), tree) in self.targets.iter().zip(self.trees()) {
            worst[target.index()] = 0.0;
            for &(s, channel) in tree {
                let flows = worst[channels.get(channel).to.index()].max(load[channel.index()]);
                worst[s.index()] = flows;
                let here = here * self.adapters[s.index()];
                sum += here as f64 / (1.0 + chance * flows);
                routes += here;
            }
        }
        sum / routes.max(1) as f64
    }

    fn trees(&self) -> impl Iterator<Item = &[(SwitchId, ChannelId)]> {
        self.trees.chunks_exact((self.adapters.len() - 1).max(1))
    }

    /// By channel: the routes to that destination switch which brings the most.
    fn most(&self, fabric: &Fabric) -> Vec<u64> {
        let mut most = vec![0; self.load.len()];
        let mut routes = vec![0; self.load.len()];
        let mut trees = self.trees();
        for same in self.targets.chunk_by(|(a, _), (b, _)| a == b) {
            let mut used = Vec::new();
            for (&(_, here), tree) in same.iter().zip(&mut trees) {
                let mut flow = self.adapters.clone();
                for &(s, channel) in tree.iter().rev() {
                    routes[channel.index()] += here * flow[s.index()];
                    flow[fabric.channels().get(channel).to.index()] += flow[s.index()];
                }
                used.push(tree);
            }
            for &(_, channel) in used.into_iter().flatten() {
                let c = channel.index();
                most[c] = most[c].max(std::mem::take(&mut routes[c]));
            }
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::{bfs, host_levels};
    use crate::routing::sssp;
    use crate::topology::{FatTree, Ring, Torus, small_members};

    #[test]
    fn without_a_rule_it_is_p_sssp() {
        for (name, f) in small_members() {
            let hops = Hops::new(&f).unwrap();
            let ranked = ranked_sssp(&f, &hops, &Rule::Any, Lookahead::Every, Stuck::Break);
            let (lft, plain) = (ranked.lft, sssp(&f, &hops));
            assert!(
                f.adapters().all(|(_, end)| end.lids().all(|lid| lft.to(lid) == plain.to(lid))),
                "{name}"
            );
            assert!(ranked.broken.is_empty() && ranked.detours == 0 && ranked.complete, "{name}");
            let nearer = |s, lid, target| {
                let c = f.channels().at_port(s, lft.get(s, lid).unwrap()).unwrap();
                hops.get(f.channels().get(c).to, target) + 1 == hops.get(s, target)
            };
            for end in f.endports() {
                let home = end.attachment.unwrap().0;
                assert!(f.switch_ids().all(|s| s == home || nearer(s, end.lid, home)), "{name}");
            }
        }
    }

    #[test]
    fn what_is_not_broken_keeps_to_the_rule() {
        for (name, f) in small_members() {
            let hops = Hops::new(&f).unwrap();
            let levels = host_levels(&f, 1);
            let one_vl = [bfs(&f, SwitchId(0)), levels.clone()].map(Rule::OneVl);
            for rule in one_vl.into_iter().chain([Rule::FirstTurnFree(levels)]) {
                for lookahead in [Lookahead::Every, Lookahead::LastChance] {
                    let ranked = ranked_sssp(&f, &hops, &rule, lookahead, Stuck::Break);
                    check(name, &f, &rule, &ranked);
                    let root = SwitchId(0);
                    let tree = Tree::new(&f, &bfs(&f, root), root);
                    let own = |rank: &_| tree.own_place(&f, rank);
                    let rule = match &rule {
                        Rule::OneVl(rank) => Rule::OneVl(own(rank)),
                        Rule::FirstTurnFree(rank) => Rule::FirstTurnFree(own(rank)),
                        other => other.clone(),
                    };
                    let ranked = ranked_sssp(&f, &hops, &rule, lookahead, Stuck::Detour(Some(&tree)));
                    assert!(ranked.complete, "{name}");
                    check(name, &f, &rule, &ranked);
                }
            }
        }
    }

    /// Walks every way that is not reported as broken.
    fn check(name: &str, f: &Fabric, rule: &Rule, ranked: &Ranked) {
        for end in f.endports() {
            let home = end.attachment.unwrap().0;
            for source in f.switch_ids().filter(|&s| s != home) {
                let mut path = Vec::new();
                let mut at = source;
                while at != home {
                    let c = f.channels().at_port(at, ranked.lft.get(at, end.lid).unwrap()).unwrap();
                    path.push(c);
                    at = f.channels().get(c).to;
                    assert!(path.len() < f.num_switches(), "{name}: a loop");
                }
                let places: Vec<u32> = (0..path.len())
                    .map(|i| rule.place(path[i], path.get(i + 1).copied()))
                    .take_while(|&place| place != Rule::END)
                    .collect();
                if !ranked.broken.contains(&(source, end.lid)) {
                    assert!(places.is_sorted_by(|a, b| a < b), "{name}: {places:?}");
                }
            }
        }
    }

    /// Under the second rank tops of a fat tree have no ways to each other but broken ones.
    #[test]
    fn the_same_tables_with_one_thread_and_with_two() {
        let f = FatTree { k: 6, levels: 3, down: None, cas: None }.build().unwrap();
        let hops = Hops::new(&f).unwrap();
        for (rank, breaks) in [(bfs(&f, SwitchId(0)), false), (host_levels(&f, 1), true)] {
            let rule = Rule::OneVl(rank);
            let tables = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| ranked_sssp(&f, &hops, &rule, Lookahead::Every, Stuck::Break))
            };
            let (one, two) = (tables(1), tables(2));
            assert!(one.lft == two.lft && one.load == two.load && one.broken == two.broken);
            assert_eq!((one.broken.is_empty(), one.broken_pairs), (!breaks, 0));
        }
    }

    #[test]
    fn a_ring_is_completed_by_its_tree() {
        let f = Ring { switches: 20, cas: 1 }.build().unwrap();
        let hops = Hops::new(&f).unwrap();
        let rank = bfs(&f, SwitchId(0));
        let tree = Tree::new(&f, &rank, SwitchId(0));
        let rule = Rule::FirstTurnFree(rank);
        let ranked = ranked_sssp(&f, &hops, &rule, Lookahead::Every, Stuck::Detour(Some(&tree)));
        assert!(ranked.complete && ranked.detours > 0);
        let broken = ranked_sssp(&f, &hops, &rule, Lookahead::Every, Stuck::Break);
        assert!(broken.broken_pairs > 0 && broken.broken_pairs <= ranked.detours);
    }

    #[test]
    fn a_sample_of_everything_counts_everything() {
        let f = Torus { dims: vec![5, 5], cas: 1 }.build().unwrap();
        let hops = Hops::new(&f).unwrap();
        let targets: Vec<_> = f.switch_ids().collect();
        let probe = probe(&f, &hops, &Rule::Any, Lookahead::Every, &targets, 1);
        let all = ranked_sssp(&f, &hops, &Rule::Any, Lookahead::Every, Stuck::Break);
        assert_eq!((probe.broken, probe.broken_switches), (0.0, 0.0));
        assert!((probe.bandwidth - all.bandwidth(&f)).abs() < 0.02);
    }
}
