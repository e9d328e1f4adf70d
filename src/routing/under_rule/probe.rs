//! What a rule costs, from some destinations.

use rayon::prelude::*;

use super::load_walk::{LoadWalk, Lookahead};
use super::paths::Walk;
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::ordering::Rule;
use crate::routing::minimal_dag::{Lists, MinimalDag, for_each_block};
use crate::routing::{Hops, adapters_by_switch};

/// What a rule costs, from one tree for each of some destination switches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Share of the adapter pairs without a legal minimal path.
    pub broken: f64,
    /// Share of the (switch, switch) pairs without one.
    pub broken_switches: f64,
    /// Share of the link bandwidth that a flow may expect in a random bisection, roughly: the mean over the
    /// routes of 1 / (1 + the flows to be expected on the most loaded channel of the route). The load of all
    /// destinations is estimated from those that were tried. On each channel the destination with the most
    /// load counts as it is, because the channel may be a last one on the path to it. The others count as
    /// typical.
    pub bandwidth: f64,
}

impl Probe {
    /// Broken pairs as one figure. Pairs of switches count a thousandth of adapter pairs.
    pub fn price(&self) -> f64 {
        self.broken + self.broken_switches / 1000.0
    }

    /// Whether all adapter pairs have a legal minimal path, with as much bandwidth as without a rule.
    pub fn loses_nothing(&self, plain: &Self) -> bool {
        self.broken == 0.0 && self.bandwidth >= plain.bandwidth
    }
}

/// Tries a rule on some destination switches, with as many routes to each as it has adapters, over one tree.
///
/// Cost: that of a destination of [`ranked_sssp`](super::ranked_sssp()) for each target.
pub fn probe(fabric: &Fabric, hops: &Hops, rule: &Rule, lookahead: Lookahead, targets: &[SwitchId]) -> Probe {
    probe_all(fabric, hops, &[(rule, lookahead)], targets, 1)[0]
}

/// [`probe`], unless more than a share of the adapter pairs is without a legal minimal path: it
/// ends then, and returns nothing.
///
/// - `most`: that share.
pub fn probe_within(
    fabric: &Fabric,
    hops: &Hops,
    rule: &Rule,
    lookahead: Lookahead,
    targets: &[SwitchId],
    most: f64,
) -> Option<Probe> {
    let (mut tally, mut walk) = (Tally::new(fabric), LoadWalk::new(fabric, rule, lookahead));
    let here = |target: SwitchId| fabric.num_adapters_on(target) as u64;
    let all = targets.iter().map(|&target| tally.pairs_to(here(target))).sum();
    let mut is_within = true;
    for_each_block(fabric, hops, targets, Lists::All, |dags| {
        dags.iter().for_each(|dag| tally.walk(&mut walk, dag, here(dag.target)));
        is_within = share(tally.broken, all) <= most;
        is_within
    });
    is_within.then(|| tally.finish(fabric))
}

/// [`probe`] for several rules side by side on all cores; minimal-path DAGs are built once for all.
///
/// - `trees`: different trees for each target, at most; the routes are shared out among them.
///
/// Cost: that of [`probe`] for each rule and tree.
///
/// Memory: O(T S) a rule with T the trees of all targets.
pub fn probe_all(
    fabric: &Fabric,
    hops: &Hops,
    rules: &[(&Rule, Lookahead)],
    targets: &[SwitchId],
    trees: usize,
) -> Vec<Probe> {
    let trial = |&(rule, lookahead)| (Tally::new(fabric), LoadWalk::new(fabric, rule, lookahead));
    let mut trials: Vec<(Tally, LoadWalk<'_>)> = rules.iter().map(trial).collect();
    for_each_block(fabric, hops, targets, Lists::All, |dags| {
        trials.par_iter_mut().for_each(|(tally, walk)| {
            for dag in dags {
                let here = fabric.num_adapters_on(dag.target);
                let trees = trees.clamp(1, here.max(1));
                for i in 0..trees {
                    tally.walk(walk, dag, ((i + 1) * here / trees - i * here / trees) as u64);
                }
            }
        });
        true
    });
    trials.par_iter().map(|(tally, _)| tally.finish(fabric)).collect()
}

/// A share of pairs.
fn share(some: u64, all: u64) -> f64 {
    some as f64 / all.max(1) as f64
}

/// Adds up a [`Probe`].
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
    pub(super) fn walk(&mut self, walk: &mut LoadWalk<'_>, dag: &MinimalDag, here: u64) {
        walk.choose(dag, &self.load);
        if walk.any_violation() {
            self.broken_switches += walk.paths().illegal().count();
            self.broken += here * walk.paths().illegal().map(|s| self.adapters[s.index()]).sum::<u64>();
        }
        self.pairs += self.pairs_to(here);
        walk.paths_mut().count(&self.adapters, here, &mut self.load);
        self.trees.extend(walk.paths().outward());
        self.targets.push((dag.target, here));
    }

    /// Adds what another one has of other targets.
    pub(super) fn join(mut self, other: Self) -> Self {
        self.load.iter_mut().zip(other.load).for_each(|(load, more)| *load += more);
        self.pairs += other.pairs;
        self.broken += other.broken;
        self.broken_switches += other.broken_switches;
        self.trees.extend(other.trees);
        self.targets.extend(other.targets);
        self
    }

    /// The pairs to so many adapters.
    fn pairs_to(&self, here: u64) -> u64 {
        here * self.adapters.iter().sum::<u64>()
    }

    pub(super) fn finish(&self, fabric: &Fabric) -> Probe {
        let switch_pairs = (self.targets.len() * self.adapters.len()).max(1);
        Probe {
            broken: share(self.broken, self.pairs),
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
        let chance = 0.5 / (all.max(1) * fabric.weights().usual()) as f64;
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

    /// By channel: the load of the destination switch with the most routes over it.
    fn most(&self, fabric: &Fabric) -> Vec<u64> {
        let weights = fabric.weights().by_channel();
        let mut most = vec![0; self.load.len()];
        let mut routes = vec![0; self.load.len()];
        let mut trees = self.trees();
        for same in self.targets.chunk_by(|(a, _), (b, _)| a == b) {
            let mut used = Vec::new();
            for (&(_, here), tree) in same.iter().zip(&mut trees) {
                let mut flow = self.adapters.clone();
                for &(s, channel) in tree.iter().rev() {
                    routes[channel.index()] += here * flow[s.index()] * u64::from(weights[channel.index()]);
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
    use crate::ordering::up_down_rank;
    use crate::routing::{NoLegalPath, ranked_sssp};
    use crate::topology::{Torus, small_members};

    #[test]
    fn a_probe_ends_early_only_where_it_would_exceed_its_limit() {
        for (name, f) in small_members() {
            let hops = Hops::new(&f).unwrap();
            let targets: Vec<_> = f.switch_ids().collect();
            let rule = Rule::OneVl(up_down_rank(&f, SwitchId(0)));
            let whole = probe(&f, &hops, &rule, Lookahead::Every, &targets);
            let within = |most| probe_within(&f, &hops, &rule, Lookahead::Every, &targets, most);
            assert_eq!(within(whole.broken), Some(whole), "{name}");
            assert!(whole.broken == 0.0 || within(whole.broken * 0.999).is_none(), "{name}");
        }
    }

    #[test]
    fn a_sample_of_everything_counts_everything() {
        let f = Torus { dims: vec![5, 5], cas: 1 }.build().unwrap();
        let hops = Hops::new(&f).unwrap();
        let targets: Vec<_> = f.switch_ids().collect();
        let probe = probe(&f, &hops, &Rule::Any, Lookahead::Every, &targets);
        let all = ranked_sssp(&f, &hops, &Rule::Any, Lookahead::Every, NoLegalPath::Break);
        assert_eq!((probe.broken, probe.broken_switches), (0.0, 0.0));
        assert!((probe.bandwidth - all.bandwidth(&f)).abs() < 0.02);
    }
}
