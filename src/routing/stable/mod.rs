//! Balanced minimal paths that stay where they are when something else fails.

mod descents;
mod expected;
mod per_target;
#[cfg(test)]
mod tests;
mod turns;
mod twins;
mod walk;

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use self::descents::{DescentChannels, depth, ingress};
pub use self::expected::even_split_load;
use self::expected::{Expected, Prices};
use self::per_target::Destination;
use self::twins::{Twin, twins};
use self::walk::StableWalk;
use super::demand::Demand;
use super::minimal_dag::{Lists, MinimalDag, for_each_twin_here};
use super::under_rule::label_sets::{LabelSets, RuleWithSets};
use super::under_rule::paths::{DetourStats, PathRepair, Walk};
use super::under_rule::port0::{paths_to_port_0, write_rows};
use super::{
    Forwarding, Hops, Lookahead, NoLegalPath, adapters_by_switch, ends_on, with_and_without_adapters,
};
use crate::fabric::{Channel, ChannelId, EndPort, Fabric, Lid, PortNum, SwitchId};
use crate::ordering::Rule;
use crate::tables::Lft;

/// Targets that one thread routes to before it hands over.
const CHUNK: usize = 16;
/// Chunks that all threads route to before they are written into the tables: bounds the memory beside them.
const WAVE: usize = 16;

/// Forwarding tables under a rule, as [`ranked_sssp`](super::ranked_sssp), of which a failed link changes few
/// entries.
///
/// P-SSSP chooses by the load that all earlier destinations left behind, so after a change every later choice
/// may differ. Here each choice depends on its surroundings only:
///
/// 1. The *expected load* of a channel replaces the load: the routes over it if every switch split its traffic
///    evenly over all its minimal next hops. A failed link changes that by much on few channels. Where channels
///    fall into links within groups and links between groups, each counts with the mean of its kind.
/// 2. Per destination the minimal-path DAG is walked outward. A switch obeys the rule first and considers its
///    predecessors second, as in [`ranked_sssp`](super::ranked_sssp). All channels then stay eligible whose
///    expected load along the path is at most a fifth above the least (a tenth for means). Small changes move
///    only choices that cross that limit.
/// 3. Among the eligible channels the switch assigns the destinations of one destination switch evenly, in the
///    order of a hash of the GUIDs at both ends of the channel and of the destination switch (rendezvous
///    hashing, Thaler and Ravishankar 1998). So a destination moves if its own channel is lost, or if a channel
///    that its hash prefers becomes eligible.
/// 4. Where many switches have no adapters, as in trees, paths meet instead. Some last channels are marked for
///    each adapter (see `descents.rs`). Of all channels that the rule leaves, a switch takes the one whose path
///    ends best, whatever the expected load: in damaged trees that would lead all to the few top switches that
///    others cannot use.
///
/// Nothing is remembered, so every subnet manager computes the same tables, whatever it saw before.
///
/// A switch without a legal path takes a detour. Where the paths of others leave it none, some of these change
/// theirs: that moves less than other labels for the whole fabric would.
///
/// In a Dragonfly the even split shows that paths over two global links crowd those, so they are avoided: with
/// 1056 adapters the busiest channel carries 1120 routes, where P-SSSP comes to 1952, and under an order to 1664.
///
/// Under [`Rule::OneVl`] port 0 of a switch without adapters has paths of its own (see `port0.rs`), by the rule
/// alone.
///
/// Arguments, result and errors are those of [`ranked_sssp`](super::ranked_sssp). The result is the same for any
/// number of threads; ties of hashes go to the lowest channel.
///
/// The eligible channels are found once for all destinations on a switch wherever they are the same (see
/// `per_target.rs`), and for switches with the same neighbours, as the leaves of a pod, mostly from those of the one before
/// (see `twins.rs`). On a fat tree of 3,645 switches that takes half the time.
///
/// Cost, over all cores: O(S (S + C + E) + D S) time where they are, O(D E) where they are not, O(E d) a
/// destination more where the rule has labels and they are not; O(S + C) memory a thread.
pub fn stable_sssp(
    fabric: &Fabric,
    hops: &Hops,
    rule: &Rule,
    lookahead: Lookahead,
    no_legal_path: NoLegalPath<'_>,
) -> Forwarding {
    let criteria = Criteria::new(fabric, hops);
    let adapters = adapters_by_switch(fabric);
    let all: u64 = adapters.iter().sum();
    let demand = Demand::new(fabric);
    let label_sets = LabelSets::new(fabric, rule);
    let with_sets = RuleWithSets::new(rule, label_sets.as_ref());
    let mut result = Forwarding::nothing(fabric);
    let targets: Vec<SwitchId> = match rule {
        Rule::OneVl(rank) => {
            let (with, bare) = with_and_without_adapters(fabric);
            let (rows, left) = paths_to_port_0(fabric, rank, &bare);
            write_rows(rows, &mut result.lft);
            [with, left].concat()
        }
        _ => {
            let (with, bare) = with_and_without_adapters(fabric);
            match no_legal_path {
                NoLegalPath::Break => fabric.switch_ids().collect(),
                // Where a switch stays without a path, it is most often one to these: then there is no need to go on.
                NoLegalPath::Detour(_) => [bare, with].concat(),
            }
        }
    };
    let is_incomplete = AtomicBool::new(false);
    for wave in in_chunks(twins(fabric, &targets)).chunks(WAVE) {
        let parts = wave.par_iter().map(|twins| {
            let mut part = Part::new(fabric);
            let mut router = Router {
                fabric,
                repair: PathRepair { hops, no_legal_path, adapters: &adapters },
                criteria: &criteria,
                demand: &demand,
                walk: StableWalk::new(fabric, with_sets, lookahead, &criteria),
                is_incomplete: &is_incomplete,
            };
            for_each_twin_here(fabric, hops, twins, Lists::All, |dag, twin| {
                router.route_to(dag, twin, &mut part);
            });
            part
        });
        let parts: Vec<Part> = parts.collect();
        for part in parts {
            let rows = part.ports.chunks_exact(fabric.num_switches().max(1));
            for (&lid, ports) in part.lids.iter().zip(rows) {
                result.lft.to_mut(lid).copy_from_slice(ports);
            }
            result.add(part.stats);
            result.pairs += part.routed * all.saturating_sub(1);
            result.load.iter_mut().zip(part.load).for_each(|(sum, part)| *sum += part);
        }
        if !result.complete {
            break;
        }
    }
    result
}

/// Lists of twins, shared out in chunks: each has at least [`CHUNK`] targets, but the last one, and at most twice as many.
fn in_chunks(twins: Vec<Vec<Twin>>) -> Vec<Vec<Vec<SwitchId>>> {
    let mut chunks: Vec<Vec<Vec<SwitchId>>> = Vec::new();
    let mut left = 0;
    for list in twins.iter().flat_map(|list| list.chunks(CHUNK)) {
        if left == 0 {
            chunks.push(Vec::new());
            left = CHUNK;
        }
        left = left.saturating_sub(list.len());
        chunks.last_mut().expect("there is one").push(list.iter().map(|twin| twin.switch).collect());
    }
    chunks
}

/// What choices depend on.
struct Criteria {
    prices: Prices,
    hashes: ChannelHashes,
    /// Where paths are to meet.
    descents: Option<DescentChannels>,
}

impl Criteria {
    fn new(fabric: &Fabric, hops: &Hops) -> Self {
        let hashes = ChannelHashes::new(fabric);
        if !has_core_switches(fabric) {
            let expected = Expected::new(fabric, hops, |_, _| ());
            return Self { prices: Prices::new(fabric, expected.load), hashes, descents: None };
        }
        let depth = depth(fabric, hops);
        let near = |target, flow: &[u64]| ingress(fabric, hops, depth, target, flow);
        let Expected { load, seen } = Expected::new(fabric, hops, near);
        let descents = Some(DescentChannels::new(fabric, &hashes, &seen, depth));
        Self { prices: Prices::new(fabric, load), hashes, descents }
    }
}

/// Whether at least a fifth of the switches serve others: they have less than a quarter of the adapters of the
/// fullest switch. Core switches may have an aggregation node each.
pub fn has_core_switches(fabric: &Fabric) -> bool {
    let adapters = adapters_by_switch(fabric);
    let most = adapters.iter().copied().max().unwrap_or(0);
    5 * adapters.iter().filter(|&&n| 4 * n < most).count() >= adapters.len()
}

/// Hashes of channels, made of nothing but GUIDs and ports.
#[derive(Debug)]
struct ChannelHashes {
    channels: Vec<u64>,
}

impl ChannelHashes {
    fn new(fabric: &Fabric) -> Self {
        let end = |s: SwitchId, port: PortNum| mix(fabric.switch(s).guid.0 ^ u64::from(port.0) << 56);
        let hash = |c: &Channel| mix(end(c.from, c.out_port)).wrapping_add(end(c.to, c.in_port));
        Self { channels: fabric.channels().as_slice().iter().map(hash).collect() }
    }

    #[inline]
    fn of(&self, channel: ChannelId) -> u64 {
        self.channels[channel.index()]
    }

    /// The hash of a channel together with that of an end port or a switch.
    #[inline]
    fn with(&self, channel: ChannelId, other: u64) -> u64 {
        mix(self.of(channel) ^ other)
    }
}

/// The hash of LID number `n` of an end port.
fn hash_of(end: &EndPort, n: u64) -> u64 {
    mix(end.guid.0).wrapping_add(n)
}

/// The finalizer of splitmix64 (Steele, Lea and Flood 2014; Stafford 13).
#[inline]
pub(super) fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// The tables for some targets.
struct Part {
    lids: Vec<Lid>,
    /// Ports by switch, LID by LID.
    ports: Vec<u8>,
    stats: DetourStats,
    /// LIDs of adapters.
    routed: u64,
    load: Vec<u64>,
}

impl Part {
    fn new(fabric: &Fabric) -> Self {
        Self {
            lids: Vec::new(),
            ports: Vec::new(),
            stats: DetourStats::default(),
            routed: 0,
            load: vec![0; fabric.channels().len()],
        }
    }
}

/// Routes to one target after the other on one thread.
struct Router<'a> {
    fabric: &'a Fabric,
    repair: PathRepair<'a>,
    criteria: &'a Criteria,
    demand: &'a Demand<'a>,
    walk: StableWalk<'a>,
    /// Whether some thread has left a switch without a path: then the others stop.
    is_incomplete: &'a AtomicBool,
}

impl Router<'_> {
    /// All destinations on the target of a DAG, adapters before port 0.
    ///
    /// - `twin`: the last target, if it has the same neighbours.
    fn route_to(&mut self, dag: &MinimalDag, twin: Option<SwitchId>, part: &mut Part) {
        if self.is_incomplete.load(Ordering::Relaxed) {
            return;
        }
        let target = dag.target;
        let target_hash = mix(self.fabric.switch(target).guid.0);
        self.walk.turn_to(dag, twin, target_hash);
        for (end, port) in ends_on(self.fabric, target) {
            for (lid, n) in end.lids().zip(0..) {
                let descent = self.criteria.descents.as_ref().map_or(&[][..], |descents| descents.of(lid));
                let destination = Destination { hash: hash_of(end, n), target_hash, descent };
                self.walk.choose(dag, destination);
                if self.walk.any_violation() {
                    self.repair.repair(&mut self.walk, dag, destination, (end, lid), &mut part.stats);
                    if part.stats.incomplete {
                        self.is_incomplete.store(true, Ordering::Relaxed);
                        return;
                    }
                }
                let row = part.ports.len();
                part.lids.push(lid);
                part.ports.resize(row + self.repair.adapters.len(), Lft::NO_PATH);
                let ports = &mut part.ports[row..];
                self.walk.paths().write(ports);
                ports[target.index()] = port.0;
                if end.is_adapter() {
                    part.routed += 1;
                    let (routes, times) = self.demand.to(end);
                    self.walk.paths_mut().count(routes, times, &mut part.load);
                }
            }
        }
    }
}
