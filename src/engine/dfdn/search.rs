//! Which rule a fabric is routed by: several orders are tried and the best is kept.

use std::cmp::Reverse;

use rayon::prelude::*;

use crate::engine::Balance;
use crate::fabric::{Fabric, SwitchId};
use crate::ordering::{
    Dimensions, Rank, Rule, Tree, global_links_first, host_levels, local_links_first, up_down_rank,
};
use crate::routing::{
    Forwarding, Hops, LabelSearch, Lookahead, NoLegalPath, Probe, probe, probe_all, search_labels,
    search_rank,
};

/// The most VLs that one SL is given: with four, detours are rare wherever they can be.
const ONE_SL_VLS: u8 = 4;
/// Rounds of a search for labels, and how few of them are worth while.
const ROUNDS: usize = 12;
const LEAST_ROUNDS: usize = 4;
/// Rules that are compared by what they come to in the end.
pub(super) const COMPARED: usize = 4;
/// The same where the first one leaves nothing to be desired on the sample.
const COMPARED_IF_ENOUGH: usize = 1;
/// Rules that are tried on more destinations, and of these on more again.
const NARROWED: [usize; 2] = [16, 4];
/// Destinations that tell much: where a rule suffices on them, the last of these is come to at once, and
/// where rules fare alike on them one is enough.
const TELLING: usize = 10;
/// Orders that are improved channel by channel.
const IMPROVED: usize = 2;
/// Orders that labels are searched for in earnest.
const FINALISTS: usize = 2;
/// Work of a round of that in units of that of a try.
const IMPROVE_WORK: usize = 2;
/// Work of a round of labels in units of that of a try.
const LABEL_WORK: usize = 4;
/// What a share of the bandwidth is worth in shares of the pairs on detours, and what a VL is worth.
const BANDWIDTH_PRICE: f64 = 0.5;
const VL_PRICE: f64 = 0.0003;
/// A loss of bandwidth that is hardly worth a VL, and what it is worth still.
const BANDWIDTH_FREE: f64 = 0.01;
const BANDWIDTH_TIE: f64 = 0.02;
/// A loss for which labels are not searched where no pair is broken; on a sample of the
/// destinations, where it is known less well, a larger one.
const LOSS: f64 = 0.01;
const LOSS_ON_SAMPLE: f64 = 0.05;
/// What is added where detours may need the tree and the tree would change the rank.
const NO_TREE_PRICE: f64 = 0.002;
/// Steps through minimal-path DAGs that a search may always take: some tens of milliseconds.
pub(super) const LEAST_WORK: usize = 10_000_000;
/// The same where plain orders leave pairs without a legal minimal way: a fraction of a second.
const LEAST_WORK_IF_HARD: usize = 100_000_000;

/// In the names of orders that leave hardly any choice.
const BY_DIMENSION: &str = "by dimension";

/// An order of the channels with its name, and a tree.
struct Order {
    name: String,
    rank: Rank,
    tree: Tree,
    /// Whether hardly more than one path a pair ascends, so that the load has little say.
    one_way: bool,
    /// Whether the tree's paths ascend in the rank as it is.
    has_tree: bool,
}

/// A rule and how to route by it.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) rule: Rule,
    /// What its rank or ranks are, in words.
    pub(super) name: String,
    pub(super) lookahead: Lookahead,
    pub(super) probe: Probe,
    pub(super) tree: Tree,
    price: f64,
}

/// What a search found.
pub(super) struct Search {
    /// The rules, the best first; those that were spared the last round at the end.
    pub(super) found: Vec<Found>,
    /// How many of them it pays to route by, to compare what comes out.
    pub(super) compare: usize,
}

/// Steps that routing to one destination switch takes, and what may be spent on the search.
pub(super) struct Work {
    per_target: usize,
    left: usize,
    /// What may be left at least where plain orders do not do.
    least_if_hard: usize,
}

impl Work {
    /// Steps of routing to all destinations.
    pub(super) fn pass(fabric: &Fabric) -> usize {
        let switches = fabric.num_switches();
        fabric.endports().len() * switches * 2 + switches * (switches + fabric.channels().len())
    }

    /// As much as routing to all destinations takes, times `effort`.
    fn new(fabric: &Fabric, effort: f64) -> Self {
        let per_target = fabric.num_switches() + fabric.channels().len();
        let least = |work: usize| (work as f64 * effort) as usize;
        let left = least(Self::pass(fabric).max(LEAST_WORK));
        Self { per_target, left, least_if_hard: least(LEAST_WORK_IF_HARD) }
    }

    /// How many destinations some tries may have each, at most all there are.
    fn targets(&self, fabric: &Fabric, tries: usize) -> usize {
        (self.left / 2 / tries / self.per_target).clamp(1, fabric.num_switches())
    }

    /// How often a try of so many targets can be afforded.
    fn rounds(&self, targets: usize) -> usize {
        self.left / (targets * self.per_target).max(1)
    }

    /// How many routings of the whole fabric can be afforded.
    fn passes(&self, fabric: &Fabric) -> usize {
        self.left / (fabric.endports().len() * self.per_target)
    }

    /// Takes what a try costs, if there is as much left.
    fn take(&mut self, targets: usize) -> bool {
        let cost = targets * self.per_target;
        let enough = self.left >= cost;
        self.left = self.left.saturating_sub(cost);
        enough
    }
}

/// Tries orders on their own, with one VL and with the first turn free; and where pairs are left
/// without a legal minimal way, labels for the best of them, until the work allowed is used up. The
/// least price wins: the share of the adapter pairs without a legal minimal way, and with it, weighed
/// by constants of this file, how much more crowded the channels are than without a rule, and the
/// VLs.
///
/// - `vls`: VLs that may be used.
/// - `effort`: work allowed, in units of one pass of P-SSSP. It is counted, not timed, so the result
///   is the same on any machine.
pub(super) fn search(fabric: &Fabric, hops: &Hops, vls: u8, effort: f64) -> Search {
    let mut work = Work::new(fabric, effort);
    let orders = orders(fabric, hops);
    let mut tries: Vec<(usize, Lookahead, Rule)> = Vec::new();
    for (i, order) in orders.iter().enumerate() {
        for lookahead in [Lookahead::Every, Lookahead::LastOption] {
            tries.push((i, lookahead, Rule::OneVl(order.rank.clone())));
            if vls > 1 {
                tries.push((i, lookahead, Rule::FirstTurnFree(order.rank.clone())));
            }
        }
    }
    let once_more = |(i, found): (usize, Found)| (i, found.lookahead, found.rule);
    let price = |order: &Order, rule: &Rule, probe: &Probe, plain: &Probe| {
        let no_tree = if probe.broken_switches > 0.0 && !order.has_tree { NO_TREE_PRICE } else { 0.0 };
        worth(probe.price(), probe.bandwidth / plain.bandwidth, rule) + no_tree
    };
    // On some destinations, and where these are not all, the best once more on many.
    let mut rounds = 1 + NARROWED.len();
    let mut spare: Vec<(usize, Found)> = Vec::new();
    let (mut tried, enough) = loop {
        let targets = sample(fabric, work.targets(fabric, rounds * (tries.len() + 1)));
        let trees = work.rounds(2 * rounds * targets.len() * (tries.len() + 1)).max(1);
        work.take(targets.len() * (tries.len() + 1) * trees.min(fabric.endports().len() / targets.len()));
        let sampled = targets.len() < fabric.num_switches();
        let probes = |tries: &[(usize, Lookahead, Rule)]| {
            let rules: Vec<_> = tries.iter().map(|(_, lookahead, rule)| (rule, *lookahead)).collect();
            probe_all(fabric, hops, &rules, &targets, trees)
        };
        // Who minds the last chance alone has more choice, so it is tried where choice is wanting.
        let (mut first, mut second): (Vec<_>, Vec<_>) =
            tries.into_iter().partition(|(_, lookahead, _)| !sampled || *lookahead == Lookahead::Every);
        first.push((0, Lookahead::Every, Rule::Any));
        let mut probed = probes(&first);
        first.pop();
        let plain = probed.pop().expect("that of no rule");
        if rounds > NARROWED.len() {
            let wanting = |(i, _, rule): &(usize, Lookahead, Rule)| {
                let same = first.iter().position(|(j, _, other)| (j, other.vls()) == (i, rule.vls()));
                same.is_none_or(|same| !probed[same].suffices(&plain, 0.0))
            };
            second.retain(wanting);
        }
        if !second.is_empty() {
            probed.extend(probes(&second));
        }
        // A gain on a sample is chance more often than not.
        let most = if sampled { plain.bandwidth } else { f64::INFINITY };
        let judged = first.into_iter().chain(second).zip(probed).map(|((i, lookahead, rule), probe)| {
            let order = &orders[i];
            let seen = Probe { bandwidth: probe.bandwidth.min(most), ..probe };
            let price = price(order, &rule, &seen, &plain);
            let (name, tree) = (order.name.clone(), order.tree.clone());
            (i, Found { rule, name, lookahead, probe, tree, price })
        });
        let mut tried: Vec<(usize, Found)> = judged.collect();
        tried.sort_by(|(_, a), (_, b)| a.price.total_cmp(&b.price));
        rounds -= 1;
        let suffices = tried[0].1.probe.suffices(&plain, if sampled { LOSS_ON_SAMPLE } else { LOSS });
        if rounds == 0 && !suffices && !spare.is_empty() {
            rounds = 1;
            tries = tried.into_iter().chain(std::mem::take(&mut spare)).map(once_more).collect();
            continue;
        }
        if rounds == 0 || !sampled {
            break (tried, suffices);
        }
        let clear = targets.len() >= TELLING && suffices;
        if rounds > 1 && clear {
            // No more than its share goes into the last round.
            work.left /= rounds;
            rounds = 1;
        }
        // On a few destinations everything crowds before these, so that an order which crowds what
        // lies between looks as good as any; and P-SSSP evens out what it cannot even out on all.
        let loss = |f: &Found| (plain.bandwidth - f.probe.bandwidth).max(0.0) / plain.bandwidth;
        let known = |(i, f): &(usize, Found)| {
            let no_tree = if orders[*i].has_tree { 0.0 } else { f64::EPSILON };
            worth(f.probe.price(), 1.0 - loss(f), &f.rule) + no_tree
        };
        tried.sort_by(|a, b| known(a).total_cmp(&known(b)));
        let mut kept: Vec<(usize, Found)> = Vec::new();
        let keep = NARROWED[NARROWED.len() - rounds];
        for (i, found) in tried {
            let one_way = orders[i].one_way && found.lookahead == Lookahead::Every;
            // What fares alike on many destinations is as good as the same. One with a tree counts, and the later
            // one: under up*/down* more can be chosen by cost alone.
            let alike = |(k, other): &(usize, Found)| {
                other.probe == found.probe
                    && (*k == i || targets.len() >= TELLING && other.rule.vls() == found.rule.vls())
            };
            match kept.iter().position(alike) {
                _ if one_way => kept.push((i, found)),
                Some(same) if kept[same].0 != i && orders[i].has_tree => kept[same] = (i, found),
                None if kept.len() < keep => kept.push((i, found)),
                _ => {}
            }
        }
        // Those with more VLs than others are spared where one suffices, until none does.
        let fewest = kept.iter().map(|(_, found)| found.rule.vls()).min().unwrap_or(0);
        let (again, spared): (Vec<_>, Vec<_>) =
            kept.into_iter().partition(|(_, found)| !clear || found.rule.vls() == fewest);
        (tries, spare) = (again.into_iter().map(once_more).collect(), spared);
    };
    let all: Vec<SwitchId> = fabric.switch_ids().collect();
    if !enough {
        work.left = work.left.max(work.least_if_hard);
    }
    if !enough && vls > 1 {
        let plain = probe(fabric, hops, &Rule::Any, Lookahead::Every, &all, 1);
        let price = |order: &Order, rule: &Rule, probe: &Probe| price(order, rule, probe, &plain);
        tried.extend(improved(fabric, hops, &orders, &tried, &mut work, &price));
        tried.sort_by(|(_, a), (_, b)| a.price.total_cmp(&b.price));
    }
    if !enough && vls > 2 && tried[0].1.probe.broken_switches > 0.0 {
        let plain = probe(fabric, hops, &Rule::Any, Lookahead::Every, &all, 1);
        let price = |order: &Order, rule: &Rule, probe: &Probe| price(order, rule, probe, &plain);
        tried.extend(labelled(fabric, hops, &orders, &tried, vls, &mut work, &price));
        tried.sort_by(|(_, a), (_, b)| a.price.total_cmp(&b.price));
    }
    let found = tried.into_iter().chain(spare).map(|(_, found)| found).collect();
    let most = if enough { COMPARED_IF_ENOUGH } else { COMPARED };
    Search { found, compare: work.passes(fabric).clamp(1, most) }
}

/// The price of a rule, in shares of the adapter pairs.
///
/// - `nonminimal`: share of the pairs without a legal minimal way.
/// - `bandwidth`: to be expected, in relation to that without a rule.
pub(super) fn worth(nonminimal: f64, bandwidth: f64, rule: &Rule) -> f64 {
    let loss = 1.0 - bandwidth;
    let noticed = BANDWIDTH_PRICE * (loss - BANDWIDTH_FREE).max(0.0) + BANDWIDTH_TIE * loss;
    nonminimal + noticed + VL_PRICE * f64::from(rule.vls())
}

/// Moves channels within the best orders so that the turns that routes take ascend.
///
/// - `tried`: the orders on their own, the best first.
fn improved(
    fabric: &Fabric,
    hops: &Hops,
    orders: &[Order],
    tried: &[(usize, Found)],
    work: &mut Work,
    price: &(impl Fn(&Order, &Rule, &Probe) -> f64 + Sync),
) -> Vec<(usize, Found)> {
    let all: Vec<SwitchId> = fabric.switch_ids().collect();
    let mut starts: Vec<(usize, Lookahead)> = Vec::new();
    for (i, found) in first_turn_free(tried) {
        if starts.iter().all(|&(start, _)| start != *i) && starts.len() < IMPROVED {
            starts.push((*i, found.lookahead));
        }
    }
    let round = IMPROVE_WORK * all.len();
    let affordable = work.rounds(round * LEAST_ROUNDS).clamp(1, IMPROVED);
    starts.truncate(affordable);
    let rounds = (work.rounds(round) / starts.len().max(1)).clamp(LEAST_ROUNDS, ROUNDS);
    work.take(starts.len() * round * rounds);
    let found = starts.into_par_iter().map(|(i, lookahead)| {
        let order = &orders[i];
        let (rank, probe) = search_rank(fabric, hops, &order.rank, lookahead, &all, rounds, None);
        let rule = Rule::FirstTurnFree(rank);
        let price = price(order, &rule, &probe);
        let name = format!("{}, improved", order.name);
        (i, Found { rule, name, lookahead, probe, tree: order.tree.clone(), price })
    });
    found.collect()
}

/// Searches labels for one order after the other: a few rounds for as many orders as there is work
/// for, more for the best of them, also with another order for the higher labels, and then with
/// fewer labels.
///
/// - `tried`: the orders on their own, the best first.
fn labelled(
    fabric: &Fabric,
    hops: &Hops,
    orders: &[Order],
    tried: &[(usize, Found)],
    vls: u8,
    work: &mut Work,
    price: &(impl Fn(&Order, &Rule, &Probe) -> f64 + Sync),
) -> Vec<(usize, Found)> {
    // Labels heal single pairs, so they are searched on all destinations.
    let all: Vec<SwitchId> = fabric.switch_ids().collect();
    let most = vls.min(ONE_SL_VLS) - 1;
    let run = |tries: &[Try], rounds: usize| -> Vec<(Try, Found)> {
        let mut found: Vec<(Try, Found)> = tries
            .par_iter()
            .map(|&attempt| {
                let Try { first, second, lookahead, most } = attempt;
                let order = &orders[first];
                let ranks = [order.rank.clone(), order.rank.clone(), orders[second].rank.clone()];
                let (pinned, targets) = (None, all.as_slice());
                let search = LabelSearch { ranks: &ranks, most, pinned, lookahead, targets, rounds };
                let (rule, probe) = search_labels(fabric, hops, search);
                let price = price(order, &rule, &probe);
                let name = match first == second {
                    true => format!("{}, with labels", order.name),
                    false => format!("{}, then {}, with labels", order.name, orders[second].name),
                };
                (attempt, Found { rule, name, lookahead, probe, tree: order.tree.clone(), price })
            })
            .collect();
        found.sort_by(|(_, a), (_, b)| a.price.total_cmp(&b.price));
        found
    };
    let mut tries: Vec<Try> = Vec::new();
    for (i, found) in first_turn_free(tried) {
        if tries.iter().all(|t| t.first != *i) {
            tries.push(Try { first: *i, second: *i, lookahead: found.lookahead, most });
        }
    }
    let round = LABEL_WORK * all.len();
    let affordable = work.rounds(2 * round * LEAST_ROUNDS).clamp(1, tries.len());
    work.take(affordable * round * LEAST_ROUNDS);
    let mut found = run(&tries[..affordable], LEAST_ROUNDS);
    let best = found[0].0;
    let finalists: Vec<Try> = found
        .iter()
        .take(FINALISTS)
        .flat_map(|&(t, _)| [t, Try { second: orders.len() - 1, ..t }, Try { second: best.first, ..t }])
        .collect();
    let rounds = ROUNDS.min(work.rounds(round * (finalists.len() + 1)));
    if rounds > LEAST_ROUNDS {
        found.extend(run(&finalists, rounds));
        found.sort_by(|(_, a), (_, b)| a.price.total_cmp(&b.price));
        let fewer: Vec<Try> = (2..most).map(|most| Try { most, ..found[0].0 }).collect();
        found.extend(run(&fewer, rounds));
    }
    found.into_iter().map(|(t, f)| (t.first, f)).collect()
}

/// The orders that were tried with the first turn free; where the last round had none of these, all of it.
fn first_turn_free(tried: &[(usize, Found)]) -> impl Iterator<Item = &(usize, Found)> {
    let free = |found: &Found| matches!(found.rule, Rule::FirstTurnFree(_));
    let none = !tried.iter().any(|(_, found)| free(found));
    tried.iter().filter(move |(_, found)| none || free(found))
}

/// Orders for label 1 and for the higher ones, and the largest label.
#[derive(Clone, Copy)]
struct Try {
    first: usize,
    second: usize,
    lookahead: Lookahead,
    most: u8,
}

impl Found {
    /// Routes with detours for what is left; with the help of a tree where it takes one.
    pub(super) fn one_sl(&mut self, fabric: &Fabric, hops: &Hops, balance: Balance) -> Forwarding {
        let ranked = balance.route(fabric, hops, &self.rule, self.lookahead, NoLegalPath::Detour(None));
        if ranked.complete {
            return ranked;
        }
        self.along_tree(fabric, hops, balance)
    }

    /// Routes with the paths of the tree legal under the rule, which it is changed for.
    pub(super) fn along_tree(&mut self, fabric: &Fabric, hops: &Hops, balance: Balance) -> Forwarding {
        self.with_tree(fabric, hops);
        balance.route(fabric, hops, &self.rule, self.lookahead, NoLegalPath::Detour(Some(&self.tree)))
    }

    /// Makes the paths of the tree legal under the rule.
    pub(super) fn with_tree(&mut self, fabric: &Fabric, hops: &Hops) {
        let tree = &self.tree;
        let all: Vec<SwitchId> = fabric.switch_ids().collect();
        self.rule = match &self.rule {
            Rule::Any => unreachable!("it leaves nothing out"),
            Rule::OneVl(rank) => Rule::OneVl(tree.with_tree_outermost(fabric, rank)),
            Rule::FirstTurnFree(rank) => {
                let own = tree.with_tree_outermost(fabric, rank);
                if own == *rank {
                    return;
                }
                let found = search_rank(fabric, hops, &own, self.lookahead, &all, ROUNDS, Some(tree));
                Rule::FirstTurnFree(found.0)
            }
            Rule::Labelled { ranks, .. } => {
                let mut ranks = ranks.clone();
                ranks[1] = tree.with_tree_outermost(fabric, &ranks[1]);
                let search = LabelSearch {
                    ranks: &ranks,
                    most: (self.rule.vls() - 1).max(1),
                    pinned: Some(tree),
                    lookahead: self.lookahead,
                    targets: &all,
                    rounds: ROUNDS,
                };
                search_labels(fabric, hops, search).0
            }
        };
    }
}

/// Some destination switches, at most `take`: three of four evenly spread over the adapters, the
/// fourth over all switches; all if that is as many as there are.
fn sample(fabric: &Fabric, take: usize) -> Vec<SwitchId> {
    let n = fabric.num_switches();
    let adapters: Vec<SwitchId> =
        fabric.switch_ids().flat_map(|s| std::iter::repeat_n(s, fabric.num_adapters_on(s))).collect();
    if take >= n || adapters.is_empty() {
        return fabric.switch_ids().take(take).collect();
    }
    let pick = |i: usize| match i % 4 {
        3 => SwitchId::at(i * n / take),
        _ => adapters[i * adapters.len() / take],
    };
    let mut some: Vec<SwitchId> = (0..take).map(pick).collect();
    some.sort_unstable();
    some.dedup();
    some
}

/// The orders to try: by levels, by triangles, up*/down* from several roots; those that no tree
/// agrees with once more around a tree.
fn orders(fabric: &Fabric, hops: &Hops) -> Vec<Order> {
    let n = fabric.num_switches();
    let adapters = |s: SwitchId| fabric.num_adapters_on(s);
    let eccentricity = |s: SwitchId| hops.row(s).iter().copied().max();
    let middle = fabric.switch_ids().min_by_key(|&s| eccentricity(s)).unwrap_or(SwitchId(0));
    let far = fabric.switch_ids().max_by_key(|&s| (eccentricity(s), Reverse(s))).unwrap_or(SwitchId(0));
    let most = fabric.switch_ids().max_by_key(|&s| (adapters(s), Reverse(s))).unwrap_or(SwitchId(0));
    let mut list = Vec::new();
    let mut add = |name: String, rank: Rank, tree: Tree| {
        let one_way = name.contains(BY_DIMENSION);
        let own = tree.with_tree_outermost(fabric, &rank);
        let has_tree = own == rank;
        if !has_tree {
            list.push(Order {
                name: format!("{name} around a tree"),
                rank: own,
                tree: tree.clone(),
                one_way: false,
                has_tree: true,
            });
        }
        list.push(Order { name, rank, tree, one_way, has_tree });
    };
    let with_tree = |rank: Rank, root: SwitchId| {
        let tree = Tree::new(fabric, &rank, root);
        (rank, tree)
    };
    if let Some(dimensions) = Dimensions::find(fabric) {
        let (rank, tree) = with_tree(dimensions.dimension_order(fabric, far), far);
        add(format!("dimension {BY_DIMENSION}"), rank, tree);
        let rank = dimensions.dimension_trees(fabric, far);
        let tree = Tree::lowest(fabric, &rank, SwitchId(0));
        add(format!("trees {BY_DIMENSION}"), rank, tree);
    }
    for (name, rank) in [
        ("host levels", host_levels(fabric, adapters(most).div_ceil(4))),
        ("global links first", global_links_first(fabric, middle)),
        ("local links first", local_links_first(fabric, middle)),
    ] {
        let (rank, tree) = with_tree(rank, middle);
        add(name.to_owned(), rank, tree);
    }
    let mut roots: Vec<SwitchId> = (0..4).map(|i| SwitchId::at(i * n / 4)).collect();
    roots.extend([SwitchId::at(n - 1), most, middle]);
    let mut seen = Vec::new();
    for root in roots {
        if !seen.contains(&root) {
            seen.push(root);
            let (rank, tree) = with_tree(up_down_rank(fabric, root), root);
            add(format!("up*/down* from {}", fabric.switch(root).description), rank, tree);
        }
    }
    list
}
