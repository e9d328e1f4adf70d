//! A rank, searched together with the routing that uses it.

use rayon::prelude::*;

use super::Hops;
use super::legal::{Legal, Lookahead};
use super::outward::for_each_target;
use super::ranked_sssp::{Probe, Tally};
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::ordering::{Rank, Rule, Tree, Want, feedback};

/// How much more a forbidden pair of turns weighs than a route that is legal already.
const BROKEN_WEIGHT: u64 = 20;
/// What a round remembers of the weights of the one before, as a fraction.
const MEMORY: (u64, u64) = (4, 5);
/// Weight of one route, so large that it is remembered for some rounds.
const UNIT: u64 = 16;
/// Rounds without a better result after which the search ends.
const PATIENCE: usize = 4;

/// Finds a rank under which, with the first turn free, few adapter pairs are without a legal minimal
/// way.
///
/// Each round routes by the rank so far, one tree a target, counts for each two channels in a row,
/// the first one of each route aside, the routes over them, those that descend twenty times and on
/// top of most of what earlier rounds counted, and lets [`feedback`] make the next rank of that. The
/// best round counts.
///
/// - `pinned`: a tree whose paths ascend in `start` and shall ascend in the end.
///
/// Returns the rank and what it costs, as [`probe`](super::probe()) counts it.
///
/// Cost: that of [`probe`](super::probe()) and of [`feedback`] over at most S T pairs of channels a
/// round, with T targets.
pub fn search_rank(
    fabric: &Fabric,
    hops: &Hops,
    start: &Rank,
    lookahead: Lookahead,
    targets: &[SwitchId],
    rounds: usize,
    pinned: Option<&Tree>,
) -> (Rank, Probe) {
    let mut rank = start.clone();
    let mut wants: Vec<Want> = Vec::new();
    let mut best: Option<(Rank, Probe)> = None;
    let mut since = 0;
    for _ in 0..rounds {
        let rule = Rule::FirstTurnFree(rank.clone());
        let mut tally = Tally::new(fabric);
        let mut walk = Legal::new(fabric, &rule, lookahead);
        for want in &mut wants {
            want.weight = want.weight * MEMORY.0 / MEMORY.1;
        }
        wants.retain(|want| want.weight > 0);
        for_each_target(fabric, hops, targets, |dag| {
            let here = fabric.num_adapters_on(dag.target) as u64;
            tally.walk(&mut walk, dag, here);
            walk.each_pair(|[_, low, high]: [ChannelId; 3], flow, legal| {
                let weight = UNIT * here.max(1) * flow.max(1) * if legal { 1 } else { BROKEN_WEIGHT };
                wants.push(Want { low, high, weight });
            });
        });
        let probe = tally.finish(fabric);
        since += 1;
        if best.as_ref().is_none_or(|(_, least)| probe.price() < least.price()) {
            best = Some((rank.clone(), probe));
            since = 0;
        }
        if probe.broken_switches == 0.0 || since == PATIENCE {
            break;
        }
        wants.par_sort_unstable_by_key(|w| (w.low, w.high));
        wants.dedup_by(|next, kept| {
            let same = (next.low, next.high) == (kept.low, kept.high);
            kept.weight += if same { next.weight } else { 0 };
            same
        });
        rank = feedback(fabric, &rank, &wants, pinned);
    }
    best.expect("there is a round")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::bfs;
    use crate::routing::probe;
    use crate::topology::{SlimFly, fail_links, small_members};

    #[test]
    fn never_worse_than_the_start() {
        for (name, f) in small_members() {
            let hops = Hops::new(&f).unwrap();
            let targets: Vec<_> = f.switch_ids().collect();
            let start = bfs(&f, SwitchId(0));
            let (rank, found) = search_rank(&f, &hops, &start, Lookahead::Every, &targets, 6, None);
            let again = |rank| probe(&f, &hops, &Rule::FirstTurnFree(rank), Lookahead::Every, &targets, 1);
            assert!(found.price() <= again(start).price(), "{name}");
            assert_eq!(again(rank), found, "{name}");
        }
    }

    #[test]
    fn a_damaged_slim_fly_keeps_to_two_vls() {
        let whole = SlimFly { q: 5, cas: None }.build().unwrap();
        let f = fail_links(&whole, 17, 1).unwrap();
        let hops = Hops::new(&f).unwrap();
        let targets: Vec<_> = f.switch_ids().collect();
        let start = bfs(&f, SwitchId(0));
        let (_, found) = search_rank(&f, &hops, &start, Lookahead::LastChance, &targets, 12, None);
        assert_eq!(found.broken, 0.0);
    }
}
