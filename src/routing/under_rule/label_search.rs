//! A rank, or the labels of turns, searched together with the routing that uses them.

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::load_walk::{LoadWalk, Lookahead};
use super::probe::{Probe, Tally};
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::ordering::{Labels, Precedence, Rank, Rule, Tree, sift};
use crate::routing::Hops;
use crate::routing::minimal_dag::{Lists, for_each_target};

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

/// What the search for labels is given.
#[derive(Clone, Copy, Debug)]
pub struct LabelSearch<'a> {
    /// The ranks by label to begin with, see [`Rule::Labelled`].
    pub ranks: &'a [Rank],
    /// The labels to begin with; all are 1 without.
    pub labels: Option<&'a Labels>,
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
    /// What the rounds have to bring.
    pub worth: Worth,
    /// How many walks share the targets, each by its own load, at a time.
    pub walks: usize,
    /// Once this is set, the search ends after its round: nobody needs the result.
    pub needless: Option<&'a AtomicBool>,
}

impl<'a> LabelSearch<'a> {
    /// From label 1 for all turns, by one walk, as long as anything better is found.
    pub fn new(
        ranks: &'a [Rank],
        most: u8,
        lookahead: Lookahead,
        targets: &'a [SwitchId],
        rounds: usize,
    ) -> Self {
        let worth = Worth::ANYTHING;
        Self {
            ranks,
            labels: None,
            most,
            pinned: None,
            lookahead,
            targets,
            rounds,
            worth,
            walks: 1,
            needless: None,
        }
    }
}

/// When a search ends before its last round, in shares of the adapter pairs. A round is taken to gain as much as the last
/// one.
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
        let gain = left as f64 * gain;
        gain >= self.least_gain && broken - gain <= self.most_broken
    }
}

/// Finds labels under which few adapter pairs are without a legal minimal path.
///
/// Each round routes under the labels so far, one tree a target. It counts for each two consecutive turns the
/// routes over them, forbidden ones twenty times, on top of most of what earlier rounds counted. Then each turn
/// takes the label with which most routes over it and its neighbours are legal, and the rank of each label is
/// improved for the turns with that label ([`sift`]). The best round counts.
///
/// Returns the rule and what it costs, as [`probe`](super::probe()) counts it.
///
/// Cost: that of [`probe`](super::probe()) and O(P log d) for sorting a round, with P <= S T the pairs of turns
/// in use by T targets, and d channels of a switch.
pub fn search_labels(fabric: &Fabric, hops: &Hops, search: LabelSearch<'_>) -> (Rule, Probe) {
    let mut labels = search.labels.cloned().unwrap_or_else(|| Labels::ones(fabric));
    let last = search.ranks.len() - 1;
    let ranks: Vec<Rank> =
        (0..=usize::from(search.most)).map(|label| search.ranks[label.min(last)].clone()).collect();
    let pinned: Vec<bool> = match search.pinned {
        Some(tree) => pinned_turns(fabric, &labels, tree),
        None => vec![false; labels.by_turn().len()],
    };
    labels
        .by_turn_mut()
        .iter_mut()
        .zip(&pinned)
        .filter(|(_, pinned)| **pinned)
        .for_each(|(label, _)| *label = 1);
    let start = Rule::Labelled { ranks, labels };
    rounds(fabric, hops, search, start, |rule, pairs| {
        let Rule::Labelled { ranks, labels } = rule else { unreachable!("the search starts with labels") };
        choose_labels(labels, pairs, &pinned, ranks);
        ranks.par_iter_mut().enumerate().skip(1).for_each(|(label, rank)| {
            let label_of = |turn: u32| usize::from(labels.by_turn()[turn as usize]);
            let same = pairs.iter().filter(|p| label_of(p.first) == label && label_of(p.second) == label);
            let wanted = by_second_turn(same, labels.by_turn().len());
            *rank = sift(fabric, rank, &wanted, search.pinned.filter(|_| label == 1));
        });
    })
}

/// Finds a rank under which, with the first turn free, few adapter pairs are without a legal minimal path.
///
/// As [`search_labels`] with one label: only the rank changes from round to round.
///
/// - `pinned`: a tree whose paths ascend in `start` and shall ascend in the end.
///
/// Returns the rank and what it costs, as [`probe`](super::probe()) counts it.
///
/// Cost: that of [`probe`](super::probe()) and of [`sift`] over at most S T pairs of channels a round, with T
/// targets.
pub fn search_rank(
    fabric: &Fabric,
    hops: &Hops,
    start: &Rank,
    lookahead: Lookahead,
    targets: &[SwitchId],
    limit: usize,
    pinned: Option<&Tree>,
) -> (Rank, Probe) {
    let search = LabelSearch { pinned, ..LabelSearch::new(&[], 1, lookahead, targets, limit) };
    let start = Rule::FirstTurnFree(start.clone());
    let (rule, probe) = rounds(fabric, hops, search, start, |rule, pairs| {
        let Rule::FirstTurnFree(rank) = rule else { unreachable!("the search starts with a rank") };
        let wanted: Vec<Precedence> = pairs.iter().map(|pair| pair.wants(pair.weight)).collect();
        *rank = sift(fabric, rank, &wanted, pinned);
    });
    let Rule::FirstTurnFree(rank) = rule else { unreachable!("the search starts with a rank") };
    (rank, probe)
}

/// Routes under a rule and improves it, round by round. Returns the best rule of all rounds.
fn rounds(
    fabric: &Fabric,
    hops: &Hops,
    search: LabelSearch<'_>,
    mut rule: Rule,
    mut improve: impl FnMut(&mut Rule, &[Pair]),
) -> (Rule, Probe) {
    let mut best: Option<(Rule, Probe)> = None;
    let mut since = 0;
    let mut pairs = Vec::new();
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
        let needless = search.needless.is_some_and(|needless| needless.load(Ordering::Relaxed));
        if probe.broken_switches == 0.0 || since == PATIENCE || !goes_on || needless {
            break;
        }
        improve(&mut rule, &pairs);
    }
    best.expect("there is a round")
}

/// Two consecutive turns. The channels that they lead to decide whether the rule allows the second.
#[derive(Clone, Copy)]
struct Pair {
    /// The number of the first turn; 0 without labels.
    first: u32,
    second: u32,
    /// Channel that the first turn leads to.
    middle: u32,
    /// Channel that the second turn leads to.
    last: u32,
    weight: u64,
}

/// Routes to the targets under a rule. Returns the pairs of turns in use with those of earlier rounds, sorted, and what
/// the rule costs.
fn measure(
    fabric: &Fabric,
    hops: &Hops,
    rule: &Rule,
    search: LabelSearch<'_>,
    mut earlier: Vec<Pair>,
) -> (Vec<Pair>, Probe) {
    let turn = |first, second| match rule {
        Rule::Labelled { labels, .. } => labels.turn(first, second) as u32,
        _ => 0,
    };
    let labelled = matches!(rule, Rule::Labelled { .. });
    let key = |p: &Pair| if labelled { (p.first, p.second) } else { (p.middle, p.last) };
    let numbers = match rule {
        Rule::Labelled { labels, .. } => labels.by_turn().len(),
        _ => fabric.channels().len(),
    };
    for pair in &mut earlier {
        pair.weight = pair.weight * MEMORY.0 / MEMORY.1;
    }
    earlier.retain(|p| p.weight > 0);
    let shared = |i: usize| search.targets.iter().skip(i).step_by(search.walks).copied().collect::<Vec<_>>();
    let found = (0..search.walks).into_par_iter().map(|i| {
        let mut tally = Tally::new(fabric);
        let mut walk = LoadWalk::new(fabric, rule, search.lookahead);
        let mut pairs = Vec::new();
        for_each_target(fabric, hops, &shared(i), Lists::All, |dag| {
            let here = fabric.num_adapters_on(dag.target) as u64;
            tally.walk(&mut walk, dag, here);
            walk.each_pair(|[first, middle, last], flow, legal| {
                pairs.push(Pair {
                    first: turn(first, middle),
                    second: turn(middle, last),
                    middle: middle.0,
                    last: last.0,
                    weight: ROUTE * here.max(1) * flow.max(1) * if legal { 1 } else { VIOLATION_WEIGHT },
                });
            });
        });
        sort_by_key(&mut pairs, numbers, key);
        (pairs, tally)
    });
    let (pairs, tallies): (Vec<_>, Vec<_>) = found.unzip();
    let pairs = pairs.into_iter().fold(earlier, |all, more| united(all, more, key));
    let tally = tallies.into_iter().reduce(Tally::join).expect("there is a walk");
    (pairs, tally.finish(fabric))
}

/// Sorts pairs by two numbers, of which the first is below `numbers`.
///
/// Cost: O(P log d + N) with P pairs, N numbers, and d pairs with the same first number.
fn sort_by_key(pairs: &mut Vec<Pair>, numbers: usize, key: impl Fn(&Pair) -> (u32, u32)) {
    sort_by_number(pairs, numbers, |pair| key(pair).0);
    pairs.chunk_by_mut(|a, b| key(a).0 == key(b).0).for_each(|same| same.sort_unstable_by_key(|p| key(p).1));
}

/// Pairs of two lists, sorted, with the weights of the same pair added up.
///
/// - `earlier`: sorted, each pair once.
/// - `more`: sorted.
/// - `key`: tells pairs apart, and sorts them.
///
/// Cost: O(P) with P pairs.
fn united(earlier: Vec<Pair>, more: Vec<Pair>, key: impl Fn(&Pair) -> (u32, u32)) -> Vec<Pair> {
    let mut all: Vec<Pair> = Vec::with_capacity(earlier.len() + more.len() / 2);
    let mut add = |pair: Pair| match all.last_mut().filter(|last| key(last) == key(&pair)) {
        Some(last) => last.weight += pair.weight,
        None => all.push(pair),
    };
    let mut more = more.into_iter().peekable();
    for pair in earlier {
        while let Some(next) = more.next_if(|next| key(next) < key(&pair)) {
            add(next);
        }
        add(pair);
    }
    more.for_each(add);
    all
}

impl Pair {
    /// What it wants of a rank: that the second turn ascends.
    fn wants(&self, weight: u64) -> Precedence {
        Precedence { before: ChannelId(self.middle), after: ChannelId(self.last), weight }
    }
}

/// What pairs want of a rank, those of a turn together.
///
/// - `turns`: how many there are.
fn by_second_turn<'a>(pairs: impl Iterator<Item = &'a Pair>, turns: usize) -> Vec<Precedence> {
    let mut weights = vec![0; turns];
    let mut firsts: Vec<&Pair> = Vec::new();
    for pair in pairs {
        let weight = &mut weights[pair.second as usize];
        if *weight == 0 {
            firsts.push(pair);
        }
        *weight += pair.weight;
    }
    firsts.into_iter().map(|pair| pair.wants(weights[pair.second as usize])).collect()
}

/// Sorts by a number below `numbers`; those with the same number keep their order.
///
/// Cost: O(P + N) with P items and N numbers.
fn sort_by_number<T: Copy>(items: &mut Vec<T>, numbers: usize, number: impl Fn(&T) -> u32) {
    let mut next = vec![0_usize; numbers + 1];
    for item in items.iter() {
        next[number(item) as usize + 1] += 1;
    }
    for i in 0..numbers {
        next[i + 1] += next[i];
    }
    let mut sorted = items.clone();
    for item in items.iter() {
        let place = &mut next[number(item) as usize];
        sorted[*place] = *item;
        *place += 1;
    }
    *items = sorted;
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
/// - `pairs`: sorted by their first turns.
fn choose_labels(labels: &mut Labels, pairs: &[Pair], pinned: &[bool], ranks: &[Rank]) {
    let most = ranks.len() - 1;
    let ascends = |pair: &Pair, label: &usize| {
        let positions = ranks[*label].positions();
        positions[pair.middle as usize] < positions[pair.last as usize]
    };
    let ahead = pairs.iter().map(|pair| {
        let ascends = (1..=most).filter(|label| ascends(pair, label)).fold(0, |all, label| all | 1 << label);
        Beside { turn: pair.first, other: pair.second, ascends, weight: pair.weight }
    });
    let ahead: Vec<Beside> = ahead.collect();
    let mut behind: Vec<Beside> =
        ahead.iter().map(|b| Beside { turn: b.other, other: b.turn, ..*b }).collect();
    sort_by_number(&mut behind, labels.by_turn().len(), |b| b.turn);
    // By label, of the turns beside one that have it: what is legal with a lower label, with the same, and with a higher.
    let (mut lower, mut same, mut higher) = (vec![0; most + 1], vec![0; most + 1], vec![0; most + 1]);
    for _ in 0..PASSES {
        let mut changed = false;
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

    fn search<'a>(ranks: &'a [Rank], targets: &'a [SwitchId], pinned: Option<&'a Tree>) -> LabelSearch<'a> {
        LabelSearch { pinned, ..LabelSearch::new(ranks, 3, Lookahead::Every, targets, 8) }
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
            let (rule, found) = search_labels(&f, &hops, search(&ranks, &targets, None));
            let plain = probe(&f, &hops, &Rule::FirstTurnFree(rank), Lookahead::Every, &targets, 1);
            assert!(found.price() <= plain.price(), "{name}");
            assert_eq!(probe(&f, &hops, &rule, Lookahead::Every, &targets, 1), found, "{name}");
            assert!(rule.vls() <= 4, "{name}");
        }
    }

    #[test]
    fn a_random_graph_loses_most_of_its_broken_pairs() {
        let (f, hops, targets, ranks) = random_graph();
        let plain = Rule::FirstTurnFree(ranks[0].clone());
        let plain = probe(&f, &hops, &plain, Lookahead::Every, &targets, 1);
        let (_, found) = search_labels(&f, &hops, search(&ranks, &targets, None));
        assert!(found.broken < plain.broken / 10.0, "{} of {}", found.broken, plain.broken);
    }

    #[test]
    fn walks_that_share_the_targets_find_labels_as_good() {
        let (f, hops, targets, ranks) = random_graph();
        let by = |walks, threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let search = LabelSearch { walks, ..search(&ranks, &targets, None) };
            pool.install(|| search_labels(&f, &hops, search).1)
        };
        let (one, four) = (by(1, 2), by(4, 2));
        assert!(four.broken < one.broken * 1.5 + 0.001, "{} beside {}", four.broken, one.broken);
        assert_eq!(four, by(4, 1));
    }

    #[test]
    fn labels_found_before_are_taken_up_but_for_those_of_the_tree() {
        let (f, hops, targets, ranks) = random_graph();
        let (rule, found) = search_labels(&f, &hops, search(&ranks, &targets, None));
        let Rule::Labelled { ranks, labels } = rule else { panic!("no labels") };
        let again = LabelSearch { labels: Some(&labels), rounds: 1, ..search(&ranks, &targets, None) };
        assert_eq!(search_labels(&f, &hops, again).1, found);
        let tree = Tree::new(&f, &ranks[1], SwitchId(0));
        let around = LabelSearch { pinned: Some(&tree), ..again };
        let (Rule::Labelled { labels, .. }, _) = search_labels(&f, &hops, around) else {
            panic!("no labels")
        };
        let pinned = pinned_turns(&f, &labels, &tree);
        assert!(pinned.iter().zip(labels.by_turn()).all(|(&pinned, &label)| !pinned || label == 1));
    }

    #[test]
    fn a_search_ends_where_it_is_not_worth_it() {
        let worth = Worth { least_gain: 0.001, most_broken: 0.02 };
        assert!(worth.goes_on(0.01, 0.045, 3));
        // Two rounds more come down to .025 at best.
        assert!(!worth.goes_on(0.01, 0.045, 2));
        assert!(!worth.goes_on(0.0004, 0.01, 2));
        assert!(Worth::ANYTHING.goes_on(0.0, 1.0, 0));
        let (f, hops, targets, ranks) = random_graph();
        let all = search(&ranks, &targets, None);
        let of = |search| search_labels(&f, &hops, search).1;
        let needless = AtomicBool::new(true);
        assert_eq!(
            of(LabelSearch { needless: Some(&needless), ..all }),
            of(LabelSearch { rounds: 1, ..all })
        );
        // The second round is the first that gains.
        let worth = Worth { least_gain: 1.0, ..Worth::ANYTHING };
        assert!(of(LabelSearch { worth, ..all }).broken > of(all).broken);
    }

    #[test]
    fn turns_of_the_tree_keep_label_one() {
        let f = Random { switches: 30, degree: 3, cas: 1, seed: 1 }.build().unwrap();
        let hops = Hops::new(&f).unwrap();
        let targets: Vec<_> = f.switch_ids().collect();
        let ranks = [up_down_rank(&f, SwitchId(0))];
        let tree = Tree::new(&f, &ranks[0], SwitchId(0));
        let (rule, _) = search_labels(&f, &hops, search(&ranks, &targets, Some(&tree)));
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
        let start = up_down_rank(&f, SwitchId(0));
        let (_, found) = search_rank(&f, &hops, &start, Lookahead::LastOption, &targets, 12, None);
        assert_eq!(found.broken, 0.0);
    }
}
