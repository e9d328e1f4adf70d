//! The search for a rule: screen all orders, narrow them down, improve the best, label their turns.
//!
//! Each step takes candidates and a budget and returns candidates.

use std::borrow::Borrow;
use std::sync::Arc;

use rayon::prelude::*;

use super::candidates::{Candidate, Refinement};
use super::estimate::{Budget, least_gain, sample, spread, thrifty, worth};
use super::orders::{LinkOrder, dimension_order, dimension_trees, orders};
use super::tuning::{
    FINALISTS, IMPROVED, LABEL_WORK, LEAST_ROUNDS, NARROWED, ONE_SL_VLS, ROUNDS, TELLING, VL_PRICE,
};
use crate::engine::{Settings, Task};
use crate::fabric::SwitchId;
use crate::lanes::LaneLimits;
use crate::ordering::{Rule, Tree};
use crate::routing::{Lookahead, Probe, RuleSearch, probe, probe_all, search_labels, search_rank};

/// A search for a rule, and what it found so far.
#[derive(Clone)]
pub(super) struct Search<'a> {
    task: Task<'a>,
    orders: Vec<Arc<LinkOrder>>,
    budget: Budget,
    /// The best first.
    tried: Vec<Candidate>,
    /// What [stricter](with_stricter) settings add to what is worth routing with.
    further: Vec<Candidate>,
    /// Whether it ended with plain orders: these leave all adapter pairs a legal minimal path, as far as that was estimated.
    pub(super) ended_early: bool,
}

impl Search<'_> {
    /// Improves the rank of the best and labels turns, until the budget is spent. Turns are labelled only where that leaves
    /// adapter pairs without a legal minimal path, or where plain orders sufficed: paths to switches alone are not worth a VL
    /// more.
    pub(super) fn go_on(&mut self) {
        let task = self.task;
        let sufficed = std::mem::take(&mut self.ended_early);
        self.budget.raise();
        if task.limits.vls > 1 {
            let all = Judged::on_all(task);
            let improved = improve(task, &all, &self.tried, &mut self.budget);
            add(&mut self.tried, improved);
            if task.limits.vls > 2 && (sufficed || self.tried[0].probe.broken > least_gain(task.fabric)) {
                let labelled = label(task, &all, &self.orders, &self.tried, &mut self.budget);
                add(&mut self.tried, labelled);
            }
        }
    }

    /// Adds what another search takes for worth routing with.
    fn take_up(&mut self, other: &Search<'_>) {
        let known = self.compared();
        let is_new = |candidate: &&Candidate| !known.iter().any(|known| known.is_alike(candidate));
        let new: Vec<Candidate> = other.compared().into_iter().filter(is_new).cloned().collect();
        self.further.extend(new);
    }

    /// What was found, the best first.
    pub(super) fn candidates(&self) -> Vec<&Candidate> {
        // Improving or labelling an order may have left it as it was.
        first_of_alike(&self.tried, Candidate::is_alike)
    }

    /// How many candidates are worth routing with, to compare the results.
    fn compare(&self) -> usize {
        self.budget.compared(self.task.fabric)
    }

    /// The candidates to route with: the first ones that differ in more than some labels, the one that breaks the fewest pairs,
    /// the best one with labels for each number of VLs, as more VLs shall not end worse, and those that were taken up.
    pub(super) fn compared(&self) -> Vec<&Candidate> {
        let use_of = |c: &Candidate| (c.rule.vls(), c.tree_reserved);
        let are_alike =
            |a: &Candidate, b: &Candidate| Arc::ptr_eq(&a.order, &b.order) && use_of(a) == use_of(b);
        let mut different = first_of_alike(self.candidates(), are_alike);
        let rest = different.split_off(self.compare().min(different.len()));
        take_least_broken(&mut different, rest.iter().copied());
        for candidate in rest.into_iter().filter(|c| c.has_labels()) {
            if different.iter().all(|other| use_of(other) != use_of(candidate)) {
                different.push(candidate);
            }
        }
        different.extend(&self.further);
        different
    }

    /// The candidates to route with for several SLs: those that have labels for the pairs without a legal path, or get them.
    /// They are routed with alike, however far they look ahead, so their rules differ.
    pub(super) fn for_several_sls(&self) -> Vec<&Candidate> {
        let serves = |c: &&Candidate| !matches!(c.rule, Rule::OneVl(_) | Rule::Any);
        let first = self.candidates().into_iter().filter(serves).take(self.compare());
        first_of_alike(first.chain(self.further.iter().filter(serves)), |a, b| a.rule == b.rule)
    }
}

/// The first ones of those that are alike.
fn first_of_alike<'a>(
    all: impl IntoIterator<Item = &'a Candidate>,
    are_alike: impl Fn(&Candidate, &Candidate) -> bool,
) -> Vec<&'a Candidate> {
    let mut different: Vec<&Candidate> = Vec::new();
    for candidate in all {
        if !different.iter().any(|other| are_alike(other, candidate)) {
            different.push(candidate);
        }
    }
    different
}

/// Searches the candidate of the least price: the share of the adapter pairs without a legal minimal path, with
/// the loss of bandwidth and the VLs weighed in ([`worth`]).
///
/// It tries all orders on one VL and with the first turn free. Where these leave pairs without a legal minimal
/// path, it [goes on](Search::go_on). The budget is counted, not timed, so the result is the same on any machine.
pub(super) fn search(task: Task<'_>) -> Search<'_> {
    let mut search = among_plain_orders(task);
    if !search.ended_early {
        search.go_on();
    }
    search
}

/// The search as it begins, with plain orders alone.
pub(super) fn among_plain_orders(task: Task<'_>) -> Search<'_> {
    let mut budget = Budget::new(task.fabric, task.settings.search_effort);
    let orders = orders(task);
    let (tried, ended_early) = plain(task, &orders, &mut budget);
    Search { task, orders, budget, tried, further: Vec::new(), ended_early }
}

/// As [`search`]. On small fabrics, what stricter settings lead it to is worth routing with too, also where it goes on: to
/// allow more shall not end worse.
pub(super) fn with_stricter(task: Task<'_>) -> Search<'_> {
    let all = if Budget::is_small(task.fabric) { stricter(task) } else { Vec::new() };
    let others = || -> Vec<Search<'_>> {
        let found = all.par_iter().flat_map_iter(|(settings, limits)| {
            let found = search(Task { settings, limits: *limits, ..task });
            let further = found.ended_early.then(|| {
                let mut further = found.clone();
                further.go_on();
                further
            });
            std::iter::once(found).chain(further)
        });
        found.collect()
    };
    let (mut search, others) = rayon::join(|| search(task), others);
    others.iter().for_each(|other| search.take_up(other));
    search
}

/// Settings that allow less: fewer VLs, less effort, or both.
fn stricter(task: Task<'_>) -> Vec<(Settings, LaneLimits)> {
    let Task { settings, limits, .. } = task;
    let most = limits.vls.min(ONE_SL_VLS);
    let less = [0.0, 1.0].into_iter().filter(|&effort| effort < settings.search_effort);
    let with = |search_effort| {
        let most = if search_effort < settings.search_effort { most } else { most - 1 };
        let settings = Settings { search_effort, ..settings.clone() };
        (2..=most).map(move |vls| (settings.clone(), LaneLimits { vls, ..limits }))
    };
    less.chain([settings.search_effort]).flat_map(with).collect()
}

/// Dimension order on a grid: on one VL and with the first turn free. None elsewhere.
pub(super) fn in_dimension_order(task: Task<'_>) -> Vec<Candidate> {
    let Some(order) = dimension_order(task).map(Arc::new) else { return Vec::new() };
    let rules = order.plain_rules(task.limits);
    rules.map(|rule| Candidate::plain(order.clone(), rule, Lookahead::Every)).collect()
}

/// Trees by dimension on a grid, on one VL. None elsewhere.
pub(super) fn trees_by_dimension(task: Task<'_>) -> Option<Candidate> {
    let order = dimension_trees(task).map(Arc::new)?;
    let rule = Rule::OneVl(order.rank.clone());
    Some(Candidate::plain(order, rule, Lookahead::Every))
}

/// The best first.
fn sort(candidates: &mut [Candidate]) {
    candidates.sort_by(|a, b| a.price.total_cmp(&b.price));
}

fn add(candidates: &mut Vec<Candidate>, more: Vec<Candidate>) {
    candidates.extend(more);
    sort(candidates);
}

/// The destinations by which candidates are judged, with what they cost without a rule.
struct Judged {
    targets: Vec<SwitchId>,
    plain: Probe,
}

impl Judged {
    fn on_all(Task { fabric, hops, .. }: Task<'_>) -> Self {
        let targets: Vec<SwitchId> = fabric.switch_ids().collect();
        let plain = probe(fabric, hops, &Rule::Any, Lookahead::Every, &targets);
        Self { targets, plain }
    }

    /// The price of a rule.
    fn price(&self, rule: &Rule, probe: &Probe) -> f64 {
        worth(probe.price(), probe.bandwidth / self.plain.bandwidth, rule)
    }
}

/// Tries the orders as they are: on a sample of the destinations, and the best of them on more.
///
/// Returns the candidates of the last round, and whether the best one suffices.
fn plain(task: Task<'_>, orders: &[Arc<LinkOrder>], budget: &mut Budget) -> (Vec<Candidate>, bool) {
    let mut tries: Vec<Candidate> = Vec::new();
    for order in orders {
        for lookahead in [Lookahead::Every, Lookahead::LastOption] {
            let rules = order.plain_rules(task.limits);
            tries.extend(rules.map(|rule| Candidate::plain(order.clone(), rule, lookahead)));
        }
    }
    let mut rounds = 1 + NARROWED.len();
    loop {
        let (tried, judged) = screen(task, tries, rounds, budget);
        rounds -= 1;
        let sampled = judged.targets.len() < task.fabric.num_switches();
        let suffices = tried[0].probe.broken == 0.0;
        if rounds == 0 || !sampled {
            return (tried, suffices);
        }
        if rounds > 1 && judged.targets.len() >= TELLING && suffices {
            // The last round gets no more than its share.
            budget.divide(rounds);
            rounds = 1;
        }
        tries = narrow(tried, &judged, NARROWED[NARROWED.len() - rounds]);
    }
}

/// Judges candidates on as many destinations as the budget affords; the best first.
///
/// - `rounds`: how many are left, this one included.
fn screen(
    task: Task<'_>,
    tries: Vec<Candidate>,
    rounds: usize,
    budget: &mut Budget,
) -> (Vec<Candidate>, Judged) {
    let Task { fabric, hops, .. } = task;
    // One more for no rule.
    let count = tries.len() + 1;
    let targets = sample(fabric, budget.targets(fabric, rounds * count));
    let trees = budget.rounds(2 * rounds * targets.len() * count).max(1);
    budget.spend(targets.len() * count * trees.min(fabric.endports().len() / targets.len()));
    let sampled = targets.len() < fabric.num_switches();
    // `LastOption` leaves balancing more freedom; on a sample try it only where `Every` falls short.
    let (mut tried, mut second): (Vec<_>, Vec<_>) =
        tries.into_iter().partition(|c| !sampled || c.lookahead == Lookahead::Every);
    let probes = |rules: &[(&Rule, Lookahead)]| probe_all(fabric, hops, rules, &targets, trees);
    let mut rules: Vec<(&Rule, Lookahead)> = tried.iter().map(|c| (&c.rule, c.lookahead)).collect();
    rules.push((&Rule::Any, Lookahead::Every));
    let mut probed = probes(&rules);
    let plain = probed.pop().expect("that of no rule");
    if rounds > NARROWED.len() {
        second.retain(|c| {
            let alike =
                |other: &Candidate| Arc::ptr_eq(&other.order, &c.order) && other.rule.vls() == c.rule.vls();
            tried.iter().position(alike).is_none_or(|same| !probed[same].loses_nothing(&plain))
        });
    }
    if !second.is_empty() {
        let rules: Vec<(&Rule, Lookahead)> = second.iter().map(|c| (&c.rule, c.lookahead)).collect();
        probed.extend(probes(&rules));
        tried.append(&mut second);
    }
    let judged = Judged { targets, plain };
    for (candidate, probe) in tried.iter_mut().zip(probed) {
        candidate.price = judged.price(&candidate.rule, &probe);
        candidate.probe = probe;
    }
    sort(&mut tried);
    (tried, judged)
}

/// Keeps some of the candidates of a sample for the next round, and the one that breaks the fewest pairs.
///
/// Small samples concentrate load near their targets and hide congestion in the core. There P-SSSP also evens out
/// what it cannot even out on all destinations. So gains of bandwidth are ignored.
fn narrow(mut tried: Vec<Candidate>, judged: &Judged, keep: usize) -> Vec<Candidate> {
    let plain = judged.plain.bandwidth;
    let known = |c: &Candidate| {
        let loss = (plain - c.probe.bandwidth).max(0.0) / plain;
        worth(c.probe.price(), 1.0 - loss, &c.rule)
    };
    tried.sort_by(|a, b| known(a).total_cmp(&known(b)));
    let telling = judged.targets.len() >= TELLING;
    let mut kept: Vec<Candidate> = Vec::new();
    let mut rest: Vec<Candidate> = Vec::new();
    for candidate in tried {
        // Of candidates that are equal on many destinations one is enough: the later one, because under up*/down*
        // cost alone decides more.
        let same_order = |other: &Candidate| Arc::ptr_eq(&other.order, &candidate.order);
        let alike = |other: &Candidate| {
            other.probe == candidate.probe
                && (same_order(other) || telling && other.rule.vls() == candidate.rule.vls())
        };
        match kept.iter().position(alike) {
            _ if candidate.order.one_path && candidate.lookahead == Lookahead::Every => kept.push(candidate),
            Some(same) if !same_order(&kept[same]) => kept[same] = candidate,
            None if kept.len() < keep => kept.push(candidate),
            None => rest.push(candidate),
            _ => {}
        }
    }
    take_least_broken(&mut kept, rest.into_iter());
    kept
}

/// Takes the candidate that breaks the fewest pairs, if it breaks fewer than all that are kept: its load may be bad now, but
/// gets [level](super::beyond_rule) later.
fn take_least_broken<C: Borrow<Candidate>>(kept: &mut Vec<C>, rest: impl Iterator<Item = C>) {
    let broken = |candidate: &C| candidate.borrow().probe.price();
    let least = rest.min_by(|a, b| broken(a).total_cmp(&broken(b)));
    kept.extend(least.filter(|least| kept.iter().all(|other| broken(least) < broken(other))));
}

/// Moves channels within the best orders so that the turns in use ascend.
///
/// - `tried`: the orders as they are, the best first.
fn improve(task: Task<'_>, judged: &Judged, tried: &[Candidate], budget: &mut Budget) -> Vec<Candidate> {
    let mut starts: Vec<&Candidate> = Vec::new();
    for candidate in tried {
        if starts.len() < IMPROVED && starts.iter().all(|s| !Arc::ptr_eq(&s.order, &candidate.order)) {
            starts.push(candidate);
        }
    }
    let round = judged.targets.len();
    starts.truncate(budget.rounds(round * LEAST_ROUNDS).clamp(1, IMPROVED));
    let rounds = (budget.rounds(round) / starts.len().max(1)).clamp(LEAST_ROUNDS, ROUNDS);
    budget.spend(starts.len() * round * rounds);
    let improved = starts.into_par_iter().map(|&Candidate { ref order, lookahead, .. }| {
        let search = RuleSearch::new(lookahead, &judged.targets, rounds);
        let search = thrifty(task, RuleSearch { pinned: tree_to_keep(task, order), ..search });
        let (rank, probe) = search_rank(task.fabric, task.hops, &order.rank, search);
        let rule = Rule::FirstTurnFree(rank);
        let price = judged.price(&rule, &probe);
        Candidate {
            order: order.clone(),
            refinement: Refinement::Improved,
            rule,
            lookahead,
            tree_reserved: false,
            probe,
            price,
        }
    });
    improved.collect()
}

/// On a large fabric, the tree of an order whose paths ascend in it already: there a search for another multicast tree takes
/// longer than the rounds that this costs.
fn tree_to_keep<'a>(task: Task<'_>, order: &'a LinkOrder) -> Option<&'a Tree> {
    let is_large = !Budget::searches_are_cheap(task.fabric);
    Some(&order.tree).filter(|tree| is_large && tree.ascends(task.fabric, &order.rank))
}

/// A search for labels: the orders for label 1 and for the higher ones, and the largest label.
#[derive(Clone)]
struct Labelling {
    first: Arc<LinkOrder>,
    higher: Arc<LinkOrder>,
    lookahead: Lookahead,
    most: u8,
    /// Whether the paths of the tree stay legal.
    around_tree: bool,
}

/// Searches labels for one order after the other: a few rounds for as many orders as the budget affords. The best
/// get all rounds, also with another order for the higher labels, and the best of these fewer labels as well. Where it
/// affords a single order, that is the one that labels serve best on a sample of the destinations: free and around its tree,
/// on a large fabric around the tree alone, from where its channels [moved](improve) to if that helped.
///
/// - `tried`: candidates without labels, the best first.
fn label(
    task: Task<'_>,
    judged: &Judged,
    orders: &[Arc<LinkOrder>],
    tried: &[Candidate],
    budget: &mut Budget,
) -> Vec<Candidate> {
    // Labels repair single pairs, so all destinations count.
    let targets = &judged.targets;
    let run = |searches: &[Labelling], rounds: usize| -> Vec<(Labelling, Candidate)> {
        let found = searches.par_iter().map(|labelling| {
            let &Labelling { ref first, ref higher, lookahead, most, around_tree } = labelling;
            let (pinned, lowest) = match around_tree {
                true => (Some(&first.tree), first.tree.with_tree_outermost(task.fabric, &first.rank)),
                false => (None, first.rank.clone()),
            };
            let ranks = [first.rank.clone(), lowest, higher.rank.clone()];
            let search = RuleSearch { pinned, ..RuleSearch::new(lookahead, targets, rounds) };
            let search = thrifty(task, search);
            let (rule, probe) = search_labels(task.fabric, task.hops, &ranks, most, search);
            let price = judged.price(&rule, &probe);
            let (order, refinement) = (first.clone(), Refinement::Labels(higher.clone()));
            let tree_reserved = around_tree;
            (labelling.clone(), Candidate { order, refinement, rule, lookahead, tree_reserved, probe, price })
        });
        let mut found: Vec<_> = found.collect();
        sort_labelled(&mut found);
        found
    };
    let most = task.limits.vls.min(ONE_SL_VLS) - 1;
    let mut searches: Vec<Labelling> = Vec::new();
    for Candidate { order, lookahead, .. } in tried {
        if searches.iter().all(|s| !Arc::ptr_eq(&s.first, order)) {
            let (first, higher) = (order.clone(), order.clone());
            searches.push(Labelling { first, higher, lookahead: *lookahead, most, around_tree: false });
        }
    }
    let round = LABEL_WORK * targets.len();
    let affordable = budget.rounds(2 * round * LEAST_ROUNDS).clamp(1, searches.len());
    if affordable == 1 {
        // On so few destinations that all searches together take as long as one round on all of them.
        let some = spread(task.fabric, (targets.len() / (LEAST_ROUNDS * searches.len())).max(TELLING));
        let broken = searches.par_iter().map(|Labelling { first, lookahead, .. }| {
            let ranks = std::slice::from_ref(&first.rank);
            let search = RuleSearch::new(*lookahead, &some, LEAST_ROUNDS);
            search_labels(task.fabric, task.hops, ranks, most, search).1.price()
        });
        let broken: Vec<f64> = broken.collect();
        // The first one that hardly any other betters: on a sample, less than what a VL counts says little.
        let least = broken.iter().copied().fold(f64::INFINITY, f64::min);
        let best = broken.iter().position(|&broken| broken <= least + VL_PRICE).unwrap_or(0);
        let best = searches.swap_remove(best);
        if Budget::searches_are_cheap(task.fabric) {
            // There is no time to search around the tree once it turns out that multicast needs that.
            let around = Labelling { around_tree: true, ..best.clone() };
            let found = run(&[best, around], Budget::tree_rounds(task.fabric));
            return found.into_iter().map(|(_, candidate)| candidate).collect();
        }
        let of_order = tried.iter().find(|c| Arc::ptr_eq(&c.order, &best.first)).expect("it was tried");
        let rank = match (&of_order.refinement, &of_order.rule) {
            (Refinement::Improved, Rule::FirstTurnFree(rank)) => rank,
            _ => &best.first.rank,
        };
        let start = Candidate { rule: Rule::FirstTurnFree(rank.clone()), ..of_order.clone() };
        let found = start.with_labels_around_tree(task);
        let priced = |found: Candidate| Candidate { price: judged.price(&found.rule, &found.probe), ..found };
        return found.map(priced).into_iter().collect();
    }
    budget.spend(affordable * round * LEAST_ROUNDS);
    let mut found = run(&searches[..affordable], LEAST_ROUNDS);
    let last = orders.last().expect("there is an order");
    let best = found[0].0.first.clone();
    let finalists = found.iter().take(FINALISTS).flat_map(|(labelling, _)| {
        let with = |higher: &Arc<LinkOrder>| Labelling { higher: higher.clone(), ..labelling.clone() };
        [labelling.clone(), with(last), with(&best)]
    });
    let finalists: Vec<Labelling> = finalists.collect();
    let rounds = ROUNDS.min(budget.rounds(round * (finalists.len() + 1)));
    if rounds > LEAST_ROUNDS {
        found.extend(run(&finalists, rounds));
        sort_labelled(&mut found);
        let fewer: Vec<Labelling> = (2..most).map(|most| Labelling { most, ..found[0].0.clone() }).collect();
        found.extend(run(&fewer, rounds));
    }
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

fn sort_labelled(found: &mut [(Labelling, Candidate)]) {
    found.sort_by(|(_, a), (_, b)| a.price.total_cmp(&b.price));
}
