//! A rank, or the labels of turns, searched together with the routing that uses them.

use rayon::prelude::*;

use super::load_walk::{LoadWalk, Lookahead};
use super::probe::{Probe, Tally};
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::ordering::{Labels, Precedence, Rank, Rule, Tree, sift};
use crate::routing::Hops;
use crate::routing::minimal_dag::{Lists, for_each_target};
use crate::routing::turn_pairs::{Found, Pair, Pairs, by_other_number};

/// Weight of a route over two turns that the rule forbids, in units of a legal one.
const VIOLATION_WEIGHT: u64 = 20;
/// The fraction of the weights that a round passes on to the next. Without this memory the routing returns to
/// turns that it has just left: a random graph of 90 switches keeps ten times as many broken pairs.
const MEMORY: (u64, u64) = (4, 5);
/// Weight of one route, so large that it lasts for some rounds.
const ROUTE: u64 = 16;
/// Rounds without a better result after which the search ends.
const PATIENCE: usize = 4;
/// Passes over all turns in one round.
const PASSES: usize = 3;

/// How a rule is searched.
#[derive(Clone, Copy, Debug)]
pub struct RuleSearch<'a> {
    /// How the routing chooses.
    pub lookahead: Lookahead,
    /// Destination switches to route to in each round.
    pub targets: &'a [SwitchId],
    /// Rounds at most.
    pub rounds: usize,
    /// Turns between channels of this tree keep label 1, and paths along it ascend as before.
    pub pinned: Option<&'a Tree>,
    /// What the rounds have to bring.
    pub worth: Worth,
    /// How many walks share the targets of a search for labels, each by its own load, at a time.
    pub walks: usize,
}

impl<'a> RuleSearch<'a> {
    /// By one walk, as long as anything better is found.
    pub fn new(lookahead: Lookahead, targets: &'a [SwitchId], rounds: usize) -> Self {
        Self { lookahead, targets, rounds, pinned: None, worth: Worth::ANYTHING, walks: 1 }
    }
}

/// When a search ends before its last round, in shares of the adapter pairs. A round is taken to gain as much as the last
/// one, and all together no more than is left.
#[derive(Clone, Copy, Debug)]
pub struct Worth {
    /// The least gain of all rounds that are left.
    pub least_gain: f64,
    /// The most without a legal minimal path that is of use.
    pub most_broken: f64,
}

impl Worth {
    /// The search goes on as long as it finds anything better.
    pub const ANYTHING: Self = Self { least_gain: 0.0, most_broken: f64::INFINITY };

    /// Whether another round is worth it after one that was better than all before.
    ///
    /// - `gain`: of the last round.
    /// - `broken`: after it.
    /// - `left`: rounds that are left.
    fn goes_on(&self, gain: f64, broken: f64, left: usize) -> bool {
        let gain = (left as f64 * gain).min(broken);
        gain >= self.least_gain && broken - gain <= self.most_broken
    }
}

/// Finds labels under which few adapter pairs are without a legal minimal path. It begins with label 1 for all turns.
///
/// Each round routes under the labels so far, one tree a target. It counts for each two consecutive turns the
/// routes over them, forbidden ones twenty times, on top of most of what earlier rounds counted. Then each turn
/// takes the label with which most routes over it and its neighbours are legal, and the rank of each label is
/// improved for the turns with that label ([`sift`]). The best round counts.
///
/// - `ranks`: by label, to begin with, see [`Rule::Labelled`].
/// - `most`: the largest label.
///
/// Returns the rule and what it costs, as [`probe`](super::probe()) counts it.
///
/// Cost: that of [`probe`](super::probe()) and O(P log d) for sorting a round, with P <= S T the pairs of turns
/// in use by T targets, and d channels of a switch.
pub fn search_labels(
    fabric: &Fabric,
    hops: &Hops,
    ranks: &[Rank],
    most: u8,
    search: RuleSearch<'_>,
) -> (Rule, Probe) {
    let labels = Labels::ones(fabric);
    let last = ranks.len() - 1;
    let ranks: Vec<Rank> = (0..=usize::from(most)).map(|label| ranks[label.min(last)].clone()).collect();
    let pinned: Vec<bool> = match search.pinned {
        Some(tree) => pinned_turns(fabric, &labels, tree),
        None => vec![false; labels.by_turn().len()],
    };
    let ends = labels.ends(fabric);
    let start = Rule::Labelled { ranks, labels };
    rounds(fabric, hops, search, start, |rule, pairs| {
        let Rule::Labelled { ranks, labels } = rule else { unreachable!("the search starts with labels") };
        choose_labels(labels, pairs, &pinned, ranks, &ends);
        ranks.par_iter_mut().enumerate().skip(1).for_each(|(label, rank)| {
            let label_of = |turn: u32| usize::from(labels.by_turn()[turn as usize]);
            let same = pairs.iter().filter(|p| label_of(p.first) == label && label_of(p.second) == label);
            let wanted = by_second_turn(same, &ends);
            *rank = sift(fabric, rank, &wanted, search.pinned.filter(|_| label == 1));
        });
    })
}

/// Finds a rank under which, with the first turn free, few adapter pairs are without a legal minimal path.
///
/// As [`search_labels`] with one label: only the rank changes from round to round. One walk has all targets: ranks get worse by
/// walks that do not know of each other's load.
///
/// Returns the rank and what it costs, as [`probe`](super::probe()) counts it.
///
/// Cost: that of [`probe`](super::probe()) and of [`sift`] over at most S T pairs of channels a round, with T
/// targets.
pub fn search_rank(fabric: &Fabric, hops: &Hops, start: &Rank, search: RuleSearch<'_>) -> (Rank, Probe) {
    let search = RuleSearch { walks: 1, ..search };
    let start = Rule::FirstTurnFree(start.clone());
    let (rule, probe) = rounds(fabric, hops, search, start, |rule, pairs| {
        let Rule::FirstTurnFree(rank) = rule else { unreachable!("the search starts with a rank") };
        let wanted = |&Pair { first, second, weight }: &Pair| Precedence {
            before: ChannelId(first),
            after: ChannelId(second),
            weight,
        };
        let wanted: Vec<Precedence> = pairs.iter().map(wanted).collect();
        *rank = sift(fabric, rank, &wanted, search.pinned);
    });
    let Rule::FirstTurnFree(rank) = rule else { unreachable!("the search starts with a rank") };
    (rank, probe)
}

/// Routes under a rule and improves it, round by round. Returns the best rule of all rounds.
fn rounds(
    fabric: &Fabric,
    hops: &Hops,
    search: RuleSearch<'_>,
    mut rule: Rule,
    mut improve: impl FnMut(&mut Rule, &Pairs),
) -> (Rule, Probe) {
    let mut best: Option<(Rule, Probe)> = None;
    let mut since = 0;
    let mut pairs = Pairs::none(numbers(fabric, &rule));
    for left in (0..search.rounds).rev() {
        let probe;
        (pairs, probe) = measure(fabric, hops, &rule, search, pairs);
        since += 1;
        let mut goes_on = true;
        if best.as_ref().is_none_or(|(_, least)| probe.price() < least.price()) {
            if let Some((_, least)) = &best {
                goes_on = search.worth.goes_on(least.broken - probe.broken, probe.broken, left);
            }
            best = Some((rule.clone(), probe));
            since = 0;
        }
        if probe.broken_switches == 0.0 || since == PATIENCE || !goes_on {
            break;
        }
        improve(&mut rule, &pairs);
    }
    best.expect("there is a round")
}

/// Routes to the targets under a rule. Returns the pairs in use with those of earlier rounds, and what the rule costs.
///
/// Pairs are of turns where these have labels, else of the channels that two consecutive turns lead to.
fn measure(
    fabric: &Fabric,
    hops: &Hops,
    rule: &Rule,
    search: RuleSearch<'_>,
    earlier: Pairs,
) -> (Pairs, Probe) {
    let pair = |[first, middle, last]: [ChannelId; 3]| match rule {
        Rule::Labelled { labels, .. } => {
            (labels.turn(first, middle) as u32, labels.turn(middle, last) as u32)
        }
        _ => (middle.0, last.0),
    };
    let shared = |i: usize| search.targets.iter().skip(i).step_by(search.walks).copied().collect::<Vec<_>>();
    let found = (0..search.walks).into_par_iter().map(|i| {
        let mut tally = Tally::new(fabric);
        let mut walk = LoadWalk::new(fabric, rule, search.lookahead);
        let mut found = Found::new(numbers(fabric, rule));
        for_each_target(fabric, hops, &shared(i), Lists::All, |dag| {
            let here = fabric.num_adapters_on(dag.target) as u64;
            tally.walk(&mut walk, dag, here);
            walk.each_pair(|channels, flow, legal| {
                let (first, second) = pair(channels);
                let weight = ROUTE * here.max(1) * flow.max(1) * if legal { 1 } else { VIOLATION_WEIGHT };
                found.push(Pair { first, second, weight });
            });
        });
        (found, tally)
    });
    let (found, tallies): (Vec<Found>, Vec<Tally>) = found.unzip();
    let pairs = earlier.joined(&found, |weight| weight * MEMORY.0 / MEMORY.1);
    let tally = tallies.into_iter().reduce(Tally::join).expect("there is a walk");
    (pairs, tally.finish(fabric))
}

/// How many numbers [pairs](measure) may have.
fn numbers(fabric: &Fabric, rule: &Rule) -> usize {
    match rule {
        Rule::Labelled { labels, .. } => labels.by_turn().len(),
        _ => fabric.channels().len(),
    }
}

/// What pairs want of a rank, those of a turn together.
///
/// - `ends`: by turn, the channels before it and after it.
fn by_second_turn<'a>(
    pairs: impl Iterator<Item = &'a Pair>,
    ends: &[(ChannelId, ChannelId)],
) -> Vec<Precedence> {
    let mut weights = vec![0; ends.len()];
    let mut seconds: Vec<usize> = Vec::new();
    for pair in pairs {
        let second = pair.second as usize;
        if weights[second] == 0 {
            seconds.push(second);
        }
        weights[second] += pair.weight;
    }
    let wants =
        |second: usize| Precedence { before: ends[second].0, after: ends[second].1, weight: weights[second] };
    seconds.into_iter().map(wants).collect()
}

/// A turn beside another one that packets take before or after it.
#[derive(Clone, Copy)]
struct Beside {
    turn: u32,
    other: u32,
    /// The labels with which both may follow each other, as bits.
    ascends: u8,
    weight: u64,
}

/// Coordinate ascent: each turn takes the label that makes most of its pairs legal.
///
/// - `ends`: by turn, the channels before it and after it.
fn choose_labels(
    labels: &mut Labels,
    pairs: &Pairs,
    pinned: &[bool],
    ranks: &[Rank],
    ends: &[(ChannelId, ChannelId)],
) {
    let most = ranks.len() - 1;
    let ascends = |turn: u32, label: &usize| {
        let (positions, (before, after)) = (ranks[*label].positions(), ends[turn as usize]);
        positions[before.index()] < positions[after.index()]
    };
    let ahead = pairs.map(|&Pair { first, second, weight }| {
        let ascends =
            (1..=most).filter(|label| ascends(second, label)).fold(0, |all, label| all | 1 << label);
        Beside { turn: first, other: second, ascends, weight }
    });
    let turned = |b: &Beside| Beside { turn: b.other, other: b.turn, ..*b };
    let behind: Vec<Vec<Beside>> =
        by_other_number(&ahead, |b| b.other).par_iter().map(|all| all.iter().map(turned).collect()).collect();
    // By label, of the turns beside one that have it: what is legal with a lower label, with the same, and with a higher.
    let (mut lower, mut same, mut higher) = (vec![0; most + 1], vec![0; most + 1], vec![0; most + 1]);
    for _ in 0..PASSES {
        let mut changed = false;
        for (ahead, behind) in ahead.iter().zip(&behind) {
            let (mut ahead, mut behind) = (ahead.as_slice(), behind.as_slice());
            while let Some(turn) = ahead.first().into_iter().chain(behind.first()).map(|b| b.turn).min() {
                [&mut lower, &mut same, &mut higher].into_iter().for_each(|gain| gain.fill(0));
                for (list, other_way) in [(&mut ahead, &mut lower), (&mut behind, &mut higher)] {
                    let (these, rest) = list.split_at(list.iter().take_while(|b| b.turn == turn).count());
                    *list = rest;
                    for b in these {
                        let label = labels.by_turn()[b.other as usize];
                        other_way[usize::from(label)] += b.weight;
                        same[usize::from(label)] += b.weight * u64::from(b.ascends >> label & 1);
                    }
                }
                if pinned[turn as usize] {
                    continue;
                }
                let gain = |label: u8| {
                    let label = usize::from(label);
                    lower[label + 1..].iter().sum::<u64>() + same[label] + higher[..label].iter().sum::<u64>()
                };
                let now = labels.by_turn()[turn as usize];
                let mut best = now;
                for label in 1..=most as u8 {
                    if gain(label) > gain(best) {
                        best = label;
                    }
                }
                changed |= best != now;
                labels.by_turn_mut()[turn as usize] = best;
            }
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
    use crate::ordering::up_down_rank;
    use crate::routing::probe;
    use crate::topology::{Random, SlimFly, fail_links, small_members};

    fn search<'a>(targets: &'a [SwitchId], pinned: Option<&'a Tree>) -> RuleSearch<'a> {
        RuleSearch { pinned, ..RuleSearch::new(Lookahead::Every, targets, 8) }
    }

    /// A random graph of 60 switches with its distances, all switches, and up*/down*.
    fn random_graph() -> (Fabric, Hops, Vec<SwitchId>, [Rank; 1]) {
        let f = Random { switches: 60, degree: 7, cas: 2, seed: 1 }.build().unwrap();
        let hops = Hops::new(&f).unwrap();
        let (targets, ranks) = (f.switch_ids().collect(), [up_down_rank(&f, SwitchId(0))]);
        (f, hops, targets, ranks)
    }

    #[test]
    fn labels_only_help() {
        for (name, f) in small_members() {
            let hops = Hops::new(&f).unwrap();
            let targets: Vec<_> = f.switch_ids().collect();
            let rank = up_down_rank(&f, SwitchId(0));
            let ranks = [rank.clone()];
            let (rule, found) = search_labels(&f, &hops, &ranks, 3, search(&targets, None));
            let plain = probe(&f, &hops, &Rule::FirstTurnFree(rank), Lookahead::Every, &targets);
            assert!(found.price() <= plain.price(), "{name}");
            assert_eq!(probe(&f, &hops, &rule, Lookahead::Every, &targets), found, "{name}");
            assert!(rule.vls() <= 4, "{name}");
        }
    }

    #[test]
    fn a_random_graph_loses_most_of_its_broken_pairs() {
        let (f, hops, targets, ranks) = random_graph();
        let plain = Rule::FirstTurnFree(ranks[0].clone());
        let plain = probe(&f, &hops, &plain, Lookahead::Every, &targets);
        let (_, found) = search_labels(&f, &hops, &ranks, 3, search(&targets, None));
        assert!(found.broken < plain.broken / 10.0, "{} of {}", found.broken, plain.broken);
    }

    #[test]
    fn walks_that_share_the_targets_find_labels_as_good() {
        let (f, hops, targets, ranks) = random_graph();
        let by = |walks, threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let search = RuleSearch { walks, ..search(&targets, None) };
            pool.install(|| search_labels(&f, &hops, &ranks, 3, search).1)
        };
        let (one, four) = (by(1, 2), by(4, 2));
        assert!(four.broken < one.broken * 1.5 + 0.001, "{} beside {}", four.broken, one.broken);
        assert_eq!(four, by(4, 1));
    }

    #[test]
    fn a_search_ends_where_it_is_not_worth_it() {
        let worth = Worth { least_gain: 0.001, most_broken: 0.02 };
        assert!(worth.goes_on(0.01, 0.045, 3));
        // Two rounds more come down to .025 at best.
        assert!(!worth.goes_on(0.01, 0.045, 2));
        assert!(!worth.goes_on(0.0004, 0.01, 2));
        // There is less to gain than it has to.
        assert!(!worth.goes_on(0.01, 0.0009, 2));
        assert!(Worth::ANYTHING.goes_on(0.0, 1.0, 0));
        let (f, hops, targets, ranks) = random_graph();
        let all = search(&targets, None);
        let of = |search| search_labels(&f, &hops, &ranks, 3, search).1;
        // The second round is the first that gains.
        let worth = Worth { least_gain: 1.0, ..Worth::ANYTHING };
        assert!(of(RuleSearch { worth, ..all }).broken > of(all).broken);
    }

    #[test]
    fn turns_of_the_tree_keep_label_one() {
        let f = Random { switches: 30, degree: 3, cas: 1, seed: 1 }.build().unwrap();
        let hops = Hops::new(&f).unwrap();
        let targets: Vec<_> = f.switch_ids().collect();
        let ranks = [up_down_rank(&f, SwitchId(0))];
        let tree = Tree::new(&f, &ranks[0], SwitchId(0));
        let (rule, _) = search_labels(&f, &hops, &ranks, 3, search(&targets, Some(&tree)));
        let Rule::Labelled { labels, .. } = rule else { panic!("no labels") };
        let pinned = pinned_turns(&f, &labels, &tree);
        assert!(pinned.iter().zip(labels.by_turn()).all(|(&pinned, &label)| !pinned || label == 1));
        assert!(labels.by_turn().iter().any(|&label| label > 1));
    }

    #[test]
    fn a_searched_rank_is_never_worse_than_the_start() {
        for (name, f) in small_members() {
            let hops = Hops::new(&f).unwrap();
            let targets: Vec<_> = f.switch_ids().collect();
            let start = up_down_rank(&f, SwitchId(0));
            let search = RuleSearch::new(Lookahead::Every, &targets, 6);
            let (rank, found) = search_rank(&f, &hops, &start, search);
            let again = |rank| probe(&f, &hops, &Rule::FirstTurnFree(rank), Lookahead::Every, &targets);
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
        let start = up_down_rank(&f, SwitchId(0));
        let search = RuleSearch::new(Lookahead::LastOption, &targets, 12);
        let (_, found) = search_rank(&f, &hops, &start, search);
        assert_eq!(found.broken, 0.0);
    }
}
