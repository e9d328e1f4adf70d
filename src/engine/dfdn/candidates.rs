//! A rule made of an order of the links, and tables by it.

use std::sync::Arc;

use super::estimate::{Budget, thrifty};
use super::orders::LinkOrder;
use super::tuning::{DETOURS, ONE_SL_VLS, VL};
use crate::engine::Task;
use crate::fabric::SwitchId;
use crate::ordering::{Rank, Rule, Tree, late_turns};
use crate::routing::{
    Forwarding, Lookahead, NoLegalPath, Probe, RuleSearch, ranked_sssp, search_labels, search_rank,
    stable_sssp,
};

/// What tables under a rule are balanced by.
#[derive(Clone, Copy)]
pub(super) enum BalanceBy {
    /// The expected load: [`stable_sssp`].
    ExpectedLoad,
    /// The load of all destinations before: [`ranked_sssp`].
    Load,
}

/// What was done to the rank of a candidate.
#[derive(Clone)]
pub(super) enum Refinement {
    None,
    /// Channels moved.
    Improved,
    /// Turns have labels; the higher ones use another order.
    Labels(Arc<LinkOrder>),
    /// Made for tables that go [beyond](super::beyond_rule) the rule.
    Fitted,
}

/// A rule to route by: an order of the links, how it is used, and what it is expected to cost.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) order: Arc<LinkOrder>,
    pub(super) refinement: Refinement,
    pub(super) rule: Rule,
    pub(super) lookahead: Lookahead,
    /// Whether the paths of the tree are legal under the rule.
    pub(super) tree_reserved: bool,
    /// On the destinations that were tried.
    pub(super) probe: Probe,
    /// What the search takes it to cost, see [`worth`](super::estimate::worth).
    pub(super) price: f64,
}

impl Candidate {
    /// An order as it is, before anything is known of it.
    pub(super) fn plain(order: Arc<LinkOrder>, rule: Rule, lookahead: Lookahead) -> Self {
        let probe = Probe { broken: 0.0, broken_switches: 0.0, bandwidth: 0.0 };
        let refinement = Refinement::None;
        Self { order, refinement, rule, lookahead, tree_reserved: false, probe, price: 0.0 }
    }

    /// Its order in words.
    pub(super) fn name(&self) -> String {
        let name = &self.order.name;
        match &self.refinement {
            Refinement::None => name.clone(),
            Refinement::Improved => format!("{name}, improved"),
            Refinement::Fitted => format!("{name}, fitted to its paths"),
            Refinement::Labels(higher) if Arc::ptr_eq(higher, &self.order) => format!("{name}, with labels"),
            Refinement::Labels(higher) => format!("{name}, then {}, with labels", higher.name),
        }
    }

    /// Whether tables by another one come out the same, but for the tree.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.rule == other.rule && self.lookahead == other.lookahead
    }

    pub(super) fn has_labels(&self) -> bool {
        matches!(self.rule, Rule::Labelled { .. })
    }

    /// The price by the [objective](super::objective) that the probe promises, with all bandwidth by bisections.
    pub(super) fn expected_price(&self) -> f64 {
        DETOURS * self.probe.broken - 0.5 * self.probe.bandwidth.ln() + VL * f64::from(self.rule.vls())
    }

    /// Whether the order is as it was.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.refinement, Refinement::None)
    }

    /// A spanning tree whose paths may be legal under the rule.
    pub(super) fn tree(&self) -> &Tree {
        &self.order.tree
    }

    pub(super) fn route(&self, task: Task<'_>, by: BalanceBy, no_legal_path: NoLegalPath<'_>) -> Forwarding {
        let route = match by {
            BalanceBy::ExpectedLoad => stable_sssp,
            BalanceBy::Load => ranked_sssp,
        };
        route(task.fabric, task.hops, &self.rule, self.lookahead, no_legal_path)
    }

    /// What a switch without a legal minimal path does with one SL: it takes a detour, along the tree where that
    /// is [reserved](Self::reserve_tree).
    pub(super) fn detours(&self) -> NoLegalPath<'_> {
        NoLegalPath::Detour(self.tree_reserved.then(|| self.tree()))
    }

    /// The same order with [late turns](late_turns), where it has no labels yet and there are VLs for that.
    pub(super) fn with_late_turns(&self, Task { fabric, limits, .. }: Task<'_>) -> Option<Self> {
        match &self.rule {
            Rule::OneVl(rank) | Rule::FirstTurnFree(rank) if limits.vls > 2 => {
                let refinement = Refinement::Labels(self.order.clone());
                Some(Self { rule: late_turns(fabric, rank), refinement, ..self.clone() })
            }
            _ => None,
        }
    }

    /// Changes the rule so that the paths of the tree are legal, and searches it again around them, if they are not yet.
    pub(super) fn reserve_tree(&mut self, task: Task<'_>) {
        let Task { fabric, hops, .. } = task;
        if std::mem::replace(&mut self.tree_reserved, true) {
            return;
        }
        let tree = &self.order.tree;
        let all: Vec<SwitchId> = fabric.switch_ids().collect();
        let rounds = Budget::tree_rounds(fabric);
        self.rule = match &self.rule {
            Rule::Any | Rule::Ordered { .. } => unreachable!("no search finds such a rule"),
            Rule::OneVl(rank) => Rule::OneVl(tree.with_tree_outermost(fabric, rank)),
            Rule::FirstTurnFree(rank) => {
                // The tree may ascend in the order as it was before it was improved.
                let outermost = tree.with_tree_outermost(fabric, &self.order.rank);
                if outermost == *rank {
                    return;
                }
                let search = RuleSearch::new(self.lookahead, &all, rounds);
                let search = thrifty(task, RuleSearch { pinned: Some(tree), ..search });
                let (rank, _) = search_rank(fabric, hops, &outermost, search);
                Rule::FirstTurnFree(rank)
            }
            Rule::Labelled { ranks, .. } => {
                let most = (self.rule.vls() - 1).max(1);
                self.labels_around_tree(task, ranks.clone(), most).0
            }
        };
    }

    /// The same order with its tree [reserved](Self::reserve_tree), where it has no labels yet and there are VLs for that.
    pub(super) fn with_labels_around_tree(&self, task: Task<'_>) -> Option<Self> {
        let Rule::FirstTurnFree(rank) = &self.rule else { return None };
        let most = task.limits.vls.min(ONE_SL_VLS) - 1;
        let refinement = Refinement::Labels(self.order.clone());
        let (rule, probe) = (most > 1).then(|| self.labels_around_tree(task, vec![rank.clone(); 3], most))?;
        Some(Self { rule, probe, refinement, tree_reserved: true, ..self.clone() })
    }

    /// - `ranks`: by label, to begin with.
    fn labels_around_tree(&self, task: Task<'_>, mut ranks: Vec<Rank>, most: u8) -> (Rule, Probe) {
        let Task { fabric, hops, .. } = task;
        let tree = &self.order.tree;
        let all: Vec<SwitchId> = fabric.switch_ids().collect();
        ranks[1] = tree.with_tree_outermost(fabric, &ranks[1]);
        let search = RuleSearch::new(self.lookahead, &all, Budget::tree_rounds(fabric));
        let search = thrifty(task, RuleSearch { pinned: Some(tree), ..search });
        search_labels(fabric, hops, &ranks, most, search)
    }
}
