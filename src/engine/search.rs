//! Which rule a fabric is routed by: several orders are tried and the best is kept.

use crate::fabric::{Fabric, SwitchId};
use crate::ordering::{Rank, Rule, Tree, bfs, host_levels, triangles};
use crate::routing::{Hops, LabelSearch, Lookahead, Probe, Ranked, Stuck, probe, ranked_sssp, search_labels};

/// The most VLs that one SL is given: with four, detours are rare wherever they can be.
pub(super) const ONE_SL_VLS: u8 = 4;
/// Destination switches that an order is tried on in a large fabric.
const SAMPLE: usize = 64;
/// Fabrics of at most this many switches are tried on all destinations.
const SMALL: usize = 300;
/// Rounds of a search for labels.
const ROUNDS: usize = 12;
/// Orders that labels are searched for.
const FINALISTS: usize = 3;
/// What 1 of crowding is worth in shares of the pairs on detours, and what a VL is worth.
const CROWDING_PRICE: f64 = 0.2;
const VL_PRICE: f64 = 0.001;
/// Crowding that nobody would notice.
const CROWDING_FREE: f64 = 0.005;

/// An order of the channels with its name, and a root for a tree that agrees with it where one does.
#[derive(Clone)]
struct Order {
    name: String,
    rank: Rank,
    root: SwitchId,
}

/// A rule and how to route by it.
pub(super) struct Found {
    pub(super) rule: Rule,
    /// What its rank or ranks are, in words.
    pub(super) name: String,
    pub(super) lookahead: Lookahead,
    pub(super) probe: Probe,
    root: SwitchId,
    price: f64,
}

/// Tries orders on their own, with one VL and with the first turn free; and where pairs are left
/// without a legal minimal way, labels for the best of them.
///
/// Cost: about that of one pass of P-SSSP.
pub(super) fn search(fabric: &Fabric, hops: &Hops, vls: u8) -> Found {
    let targets = sample(fabric);
    let orders = orders(fabric, hops);
    let plain = probe(fabric, hops, &Rule::Any, Lookahead::Every, &targets);
    let price = |rule: &Rule, probe: &Probe| {
        let crowding = probe.crowding / plain.crowding.max(1.0) - 1.0 - CROWDING_FREE;
        probe.price() + CROWDING_PRICE * crowding.max(0.0) + VL_PRICE * f64::from(rule.vls())
    };
    let mut tried: Vec<(usize, Found)> = Vec::new();
    for (i, order) in orders.iter().enumerate() {
        for lookahead in [Lookahead::Every, Lookahead::LastChance] {
            for rule in [Rule::OneVl(order.rank.clone()), Rule::FirstTurnFree(order.rank.clone())] {
                if rule.vls() > vls {
                    continue;
                }
                let probe = probe(fabric, hops, &rule, lookahead, &targets);
                let price = price(&rule, &probe);
                let name = order.name.clone();
                tried.push((i, Found { rule, name, lookahead, probe, root: order.root, price }));
            }
        }
    }
    tried.sort_by(|(_, a), (_, b)| a.price.total_cmp(&b.price));
    let good_enough = tried[0].1.probe.broken == 0.0 && tried[0].1.price < 0.01;
    if !good_enough && vls > 2 {
        let all: Vec<SwitchId> = fabric.switch_ids().collect();
        let finalists: Vec<(usize, Lookahead)> = tried
            .iter()
            .filter(|(_, f)| matches!(f.rule, Rule::FirstTurnFree(_)))
            .take(FINALISTS)
            .map(|(i, f)| (*i, f.lookahead))
            .collect();
        for (i, lookahead) in finalists {
            let order = &orders[i];
            for second in [&order.rank, &orders[orders.len() - 1].rank] {
                for most in 2..vls.min(ONE_SL_VLS) {
                    let ranks = [order.rank.clone(), order.rank.clone(), second.clone()];
                    let (rule, probe) = search_labels(
                        fabric,
                        hops,
                        LabelSearch {
                            ranks: &ranks,
                            most,
                            pinned: None,
                            lookahead,
                            targets: &all,
                            rounds: ROUNDS,
                        },
                    );
                    let price = price(&rule, &probe);
                    let name = format!("{} with labels", order.name);
                    tried.push((i, Found { rule, name, lookahead, probe, root: order.root, price }));
                }
            }
        }
        tried.sort_by(|(_, a), (_, b)| a.price.total_cmp(&b.price));
    }
    tried.swap_remove(0).1
}

impl Found {
    /// Routes with detours for what is left; with the help of a tree where it takes one.
    pub(super) fn one_sl(&mut self, fabric: &Fabric, hops: &Hops) -> Ranked {
        let ranked = ranked_sssp(fabric, hops, &self.rule, self.lookahead, Stuck::Detour(None));
        if ranked.complete {
            return ranked;
        }
        let tree = self.with_tree(fabric, hops);
        ranked_sssp(fabric, hops, &self.rule, self.lookahead, Stuck::Detour(Some(&tree)))
    }

    /// Makes the paths of a tree legal under the rule.
    fn with_tree(&mut self, fabric: &Fabric, hops: &Hops) -> Tree {
        let own = |rank: &Rank| {
            let tree = Tree::new(fabric, rank, self.root);
            (tree.own_place(fabric, rank), tree)
        };
        let (rule, tree) = match &self.rule {
            Rule::Any => unreachable!("it leaves nothing out"),
            Rule::OneVl(rank) => {
                let (rank, tree) = own(rank);
                (Rule::OneVl(rank), tree)
            }
            Rule::FirstTurnFree(rank) => {
                let (rank, tree) = own(rank);
                (Rule::FirstTurnFree(rank), tree)
            }
            Rule::Labelled { ranks, .. } => {
                let (rank, tree) = own(&ranks[1]);
                let ranks = [rank.clone(), rank, ranks[2].clone()];
                let all: Vec<SwitchId> = fabric.switch_ids().collect();
                let search = LabelSearch {
                    ranks: &ranks,
                    most: self.rule.vls() - 1,
                    pinned: Some(&tree),
                    lookahead: self.lookahead,
                    targets: &all,
                    rounds: ROUNDS,
                };
                (search_labels(fabric, hops, search).0, tree)
            }
        };
        self.rule = rule;
        tree
    }
}

fn sample(fabric: &Fabric) -> Vec<SwitchId> {
    let n = fabric.num_switches();
    let take = if n <= SMALL { n } else { SAMPLE };
    (0..take).map(|i| SwitchId::at(i * n / take)).collect()
}

fn orders(fabric: &Fabric, hops: &Hops) -> Vec<Order> {
    let most = fabric.switch_ids().map(|s| fabric.num_adapters_on(s)).max().unwrap_or(0);
    let middle =
        fabric.switch_ids().min_by_key(|&s| hops.row(s).iter().copied().max()).unwrap_or(SwitchId(0));
    let order = |name: &str, rank: Rank, root: SwitchId| Order { name: name.to_owned(), rank, root };
    let mut list = vec![
        order("host levels", host_levels(fabric, most.div_ceil(4)), middle),
        order("global links first", triangles(fabric, middle, false), middle),
        order("local links first", triangles(fabric, middle, true), middle),
    ];
    let n = fabric.num_switches();
    let mut roots: Vec<SwitchId> = (0..4).map(|i| SwitchId::at(i * n / 4)).collect();
    roots.push(SwitchId::at(n - 1));
    roots.push(middle);
    roots.dedup();
    list.extend(roots.into_iter().map(|root| {
        let name = format!("up*/down* from {}", fabric.switch(root).description);
        order(&name, bfs(fabric, root), root)
    }));
    list
}
