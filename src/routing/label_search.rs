//! Labels of turns, searched together with the routing that uses them.

use rayon::prelude::*;

use super::Hops;
use super::legal::{Legal, Lookahead};
use super::outward::for_each_target;
use super::ranked_sssp::{Probe, Tally};
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::ordering::{Labels, Rank, Rule, Tree, Want, feedback};

/// How much more a forbidden pair of turns weighs than a route that is legal already.
const BROKEN_WEIGHT: u64 = 20;
/// What a round remembers of the weights of the one before, as a fraction: a pair of turns that the
/// routing has just left should stay legal, or it will be missed there.
const MEMORY: (u64, u64) = (4, 5);
/// Weight of one route, so large that it is remembered for some rounds.
const UNIT: u64 = 16;
/// Rounds without a better result after which the search ends.
const PATIENCE: usize = 4;
/// Passes over all turns in one round.
const PASSES: usize = 3;

/// What the search is given.
#[derive(Clone, Copy, Debug)]
pub struct LabelSearch<'a> {
    /// The ranks by label to begin with, see [`Rule::Labelled`].
    pub ranks: &'a [Rank],
    /// The largest label.
    pub most: u8,
    /// Turns between channels of this tree keep label 1, and paths along it ascend as before.
    pub pinned: Option<&'a Tree>,
    /// How the routing chooses.
    pub lookahead: Lookahead,
    /// Destination switches to route to in each round.
    pub targets: &'a [SwitchId],
    /// Rounds at most.
    pub rounds: usize,
}

/// Finds labels under which few adapter pairs are without a legal minimal way.
///
/// Each round routes under the labels so far, one tree a target, and counts for each two turns in a
/// row the routes over them, those that are forbidden twenty times, on top of most of what
/// earlier rounds counted. Then every turn in
/// turn takes the label with which most of the routes over it and its neighbours are legal; and the
/// rank of each label is improved for the turns that have that label ([`feedback`]). The best round
/// counts.
///
/// Returns the rule and what it costs, as [`probe`](super::probe()) counts it.
///
/// Cost: that of [`probe`](super::probe()) and O(P log P) for sorting a round, with P <= S T the
/// pairs of turns in use by T targets.
pub fn search_labels(fabric: &Fabric, hops: &Hops, search: LabelSearch<'_>) -> (Rule, Probe) {
    let mut labels = Labels::ones(fabric);
    let last = search.ranks.len() - 1;
    let mut ranks: Vec<Rank> =
        (0..=usize::from(search.most)).map(|label| search.ranks[label.min(last)].clone()).collect();
    let pinned: Vec<bool> = match search.pinned {
        Some(tree) => pinned_turns(fabric, &labels, tree),
        None => vec![false; labels.by_turn().len()],
    };
    let mut best: Option<(Rule, Probe)> = None;
    let mut since = 0;
    let mut pairs = Vec::new();
    for _ in 0..search.rounds {
        let rule = Rule::Labelled { ranks: ranks.clone(), labels: labels.clone() };
        let probe = measure(fabric, hops, &rule, search, &mut pairs);
        since += 1;
        if best.as_ref().is_none_or(|(_, least)| probe.price() < least.price()) {
            best = Some((rule, probe));
            since = 0;
        }
        if probe.broken_switches == 0.0 || since == PATIENCE {
            break;
        }
        ascend(&mut labels, &pairs, &pinned, &ranks);
        improve(fabric, &labels, &pairs, search.pinned, &mut ranks);
    }
    best.expect("there is a round")
}

/// Two turns in a row: the channels that they lead to decide about the pair.
#[derive(Clone, Copy)]
struct Pair {
    first: u32,
    second: u32,
    /// Channel that the first turn leads to.
    middle: u32,
    /// Channel that the second turn leads to.
    last: u32,
    weight: u64,
}

fn measure(
    fabric: &Fabric,
    hops: &Hops,
    rule: &Rule,
    search: LabelSearch<'_>,
    pairs: &mut Vec<Pair>,
) -> Probe {
    let Rule::Labelled { labels, .. } = rule else { unreachable!("the search makes labelled rules") };
    let mut tally = Tally::new(fabric);
    let mut walk = Legal::new(fabric, rule, search.lookahead);
    for pair in pairs.iter_mut() {
        pair.weight = pair.weight * MEMORY.0 / MEMORY.1;
    }
    pairs.retain(|p| p.weight > 0);
    for_each_target(fabric, hops, search.targets, |dag| {
        let here = fabric.num_adapters_on(dag.target) as u64;
        tally.walk(&mut walk, dag, here);
        walk.each_pair(|channels, flow, legal| {
            let [first, middle, last] = channels;
            pairs.push(Pair {
                first: labels.turn(first, middle) as u32,
                second: labels.turn(middle, last) as u32,
                middle: middle.0,
                last: last.0,
                weight: UNIT * here.max(1) * flow.max(1) * if legal { 1 } else { BROKEN_WEIGHT },
            });
        });
    });
    pairs.par_sort_unstable_by_key(|p| (p.first, p.second));
    pairs.dedup_by(|next, kept| {
        let same = (next.first, next.second) == (kept.first, kept.second);
        kept.weight += if same { next.weight } else { 0 };
        same
    });
    tally.finish(fabric)
}

/// Makes more pairs of turns legal that have the same label.
fn improve(fabric: &Fabric, labels: &Labels, pairs: &[Pair], pinned: Option<&Tree>, ranks: &mut [Rank]) {
    ranks.par_iter_mut().enumerate().skip(1).for_each(|(label, rank)| {
        let label_of = |turn: u32| usize::from(labels.by_turn()[turn as usize]);
        let same = pairs.iter().filter(|p| label_of(p.first) == label && label_of(p.second) == label);
        let wants: Vec<Want> = same
            .map(|p| Want { low: ChannelId(p.middle), high: ChannelId(p.last), weight: p.weight })
            .collect();
        *rank = feedback(fabric, rank, &wants, pinned.filter(|_| label == 1));
    });
}

fn ascend(labels: &mut Labels, pairs: &[Pair], pinned: &[bool], ranks: &[Rank]) {
    let mut by_second: Vec<u32> = (0..pairs.len() as u32).collect();
    by_second.par_sort_unstable_by_key(|&i| (pairs[i as usize].second, i));
    let legal = |a: u8, b: u8, pair: &Pair| {
        a < b
            || a == b
                && ranks[usize::from(a)].places()[pair.middle as usize]
                    < ranks[usize::from(a)].places()[pair.last as usize]
    };
    let most = (ranks.len() - 1) as u8;
    let mut gain = vec![0_u64; ranks.len()];
    for _ in 0..PASSES {
        let mut changed = false;
        // Merge the two orders: a turn's pairs as the first one and as the second one.
        let (mut i, mut j) = (0, 0);
        while i < pairs.len() || j < pairs.len() {
            let as_first = pairs.get(i).map_or(u32::MAX, |p| p.first);
            let as_second = by_second.get(j).map_or(u32::MAX, |&k| pairs[k as usize].second);
            let turn = as_first.min(as_second);
            gain.fill(0);
            while let Some(pair) = pairs.get(i).filter(|p| p.first == turn) {
                let other = labels.by_turn()[pair.second as usize];
                for label in 1..=most {
                    gain[usize::from(label)] += if legal(label, other, pair) { pair.weight } else { 0 };
                }
                i += 1;
            }
            while let Some(pair) = by_second.get(j).map(|&k| &pairs[k as usize]).filter(|p| p.second == turn)
            {
                let other = labels.by_turn()[pair.first as usize];
                for label in 1..=most {
                    gain[usize::from(label)] += if legal(other, label, pair) { pair.weight } else { 0 };
                }
                j += 1;
            }
            if pinned[turn as usize] {
                continue;
            }
            let now = labels.by_turn()[turn as usize];
            let mut best = now;
            for label in 1..=most {
                if gain[usize::from(label)] > gain[usize::from(best)] {
                    best = label;
                }
            }
            changed |= best != now;
            labels.by_turn_mut()[turn as usize] = best;
        }
        if !changed {
            break;
        }
    }
}

fn pinned_turns(fabric: &Fabric, labels: &Labels, tree: &Tree) -> Vec<bool> {
    let mut pinned = vec![false; labels.by_turn().len()];
    let channels = fabric.channels();
    for (first, c) in channels.iter().filter(|&(id, _)| tree.contains(fabric, id)) {
        for (second, _) in channels.out(c.to).filter(|&(id, _)| tree.contains(fabric, id)) {
            pinned[labels.turn(first, second)] = true;
        }
    }
    pinned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::bfs;
    use crate::routing::probe;
    use crate::topology::{Random, small_members};

    fn search<'a>(ranks: &'a [Rank], targets: &'a [SwitchId], pinned: Option<&'a Tree>) -> LabelSearch<'a> {
        LabelSearch { ranks, most: 3, pinned, lookahead: Lookahead::Every, targets, rounds: 8 }
    }

    #[test]
    fn labels_only_help() {
        for (name, f) in small_members() {
            let hops = Hops::new(&f).unwrap();
            let targets: Vec<_> = f.switch_ids().collect();
            let rank = bfs(&f, SwitchId(0));
            let ranks = [rank.clone()];
            let (rule, found) = search_labels(&f, &hops, search(&ranks, &targets, None));
            let plain = probe(&f, &hops, &Rule::FirstTurnFree(rank), Lookahead::Every, &targets, 1);
            assert!(found.price() <= plain.price(), "{name}");
            assert_eq!(probe(&f, &hops, &rule, Lookahead::Every, &targets, 1), found, "{name}");
            assert!(rule.vls() <= 4, "{name}");
        }
    }

    #[test]
    fn a_random_graph_loses_most_of_its_broken_pairs() {
        let f = Random { switches: 60, degree: 7, cas: 2, seed: 1 }.build().unwrap();
        let hops = Hops::new(&f).unwrap();
        let targets: Vec<_> = f.switch_ids().collect();
        let ranks = [bfs(&f, SwitchId(0))];
        let plain = Rule::FirstTurnFree(ranks[0].clone());
        let plain = probe(&f, &hops, &plain, Lookahead::Every, &targets, 1);
        let (_, found) = search_labels(&f, &hops, search(&ranks, &targets, None));
        assert!(found.broken < plain.broken / 10.0, "{} of {}", found.broken, plain.broken);
    }

    #[test]
    fn turns_of_the_tree_keep_label_one() {
        let f = Random { switches: 30, degree: 3, cas: 1, seed: 1 }.build().unwrap();
        let hops = Hops::new(&f).unwrap();
        let targets: Vec<_> = f.switch_ids().collect();
        let ranks = [bfs(&f, SwitchId(0))];
        let tree = Tree::new(&f, &ranks[0], SwitchId(0));
        let (rule, _) = search_labels(&f, &hops, search(&ranks, &targets, Some(&tree)));
        let Rule::Labelled { labels, .. } = rule else { panic!("no labels") };
        let pinned = pinned_turns(&f, &labels, &tree);
        assert!(pinned.iter().zip(labels.by_turn()).all(|(&pinned, &label)| !pinned || label == 1));
        assert!(labels.by_turn().iter().any(|&label| label > 1));
    }
}
