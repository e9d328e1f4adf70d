//! Which rule a fabric is routed by where its tables are to last: the first that is good enough, not
//! the best of many.

use crate::fabric::{Fabric, SwitchId};
use crate::ordering::{
    Dimensions, Rank, Rule, Tree, global_links_first, host_levels, local_links_first, up_down_rank,
};
use crate::routing::{
    Forwarding, Hops, LabelSearch, Lookahead, NoLegalPath, Probe, probe, probe_all, search_labels,
    stable_sssp,
};

/// Share of the adapter pairs without a legal minimal way up to which detours will do.
const BROKEN: f64 = 0.01;
/// Share of the bandwidth without a rule that a rule has to leave.
const BANDWIDTH: f64 = 0.98;
/// Destination switches that a rule is judged by, and how few show that it is hopeless.
const TARGETS: usize = 256;
const GLANCE: usize = 16;
const HOPELESS: f64 = 5.0 * BROKEN;

/// What the name of an order ends with where turns are labelled.
const WITH_LABELS: &str = ", with labels";
/// Rounds of a search for labels, and VLs for it.
const ROUNDS: usize = 8;
const MOST_VLS: u8 = 4;

/// A rule and how to route by it.
pub(super) struct Steady {
    pub(super) rule: Rule,
    /// What its rank is, in words.
    pub(super) name: String,
    /// Which of the rules it is.
    pub(super) number: usize,
    lookahead: Lookahead,
    /// Its paths may be legal under the rule.
    pub(super) tree: Tree,
    /// Whether it was changed for the tree's sake: then what it was judged by holds no more.
    pub(super) changed: bool,
}

type Kind = fn(Rank) -> Rule;
type Make<'a> = &'a dyn Fn() -> Rank;

/// The first of a few rules, in a fixed order, that leaves nearly all adapter pairs a legal minimal
/// way and nearly all bandwidth; `None` if none does.
///
/// - `from`: the number of the first rule to look at; [`Steady::number`] and one for what comes after that.
///
/// To take the best of many rules, or to have labels made to measure, would mean that a fabric with one
/// link less may get another rule, and with it other tables everywhere. A rule that is good enough
/// mostly remains so, and its rank hangs on one switch: that with the most adapters and, of several,
/// the lowest GUID. Pairs that it leaves without a legal minimal way take a detour.
///
/// Grids come first, though in dimension order with the first turn free: on one VL hardly more than one
/// path a pair is legal, and the first failed links would bring another rule.
///
/// Cost: that of routing to 256 destination switches, once for each rule that is not hopeless.
pub(super) fn steady(fabric: &Fabric, hops: &Hops, vls: u8, from: usize) -> Option<Steady> {
    let adapters = |s: SwitchId| fabric.num_adapters_on(s);
    let root = fabric.switch_ids().max_by_key(|&s| (adapters(s), std::cmp::Reverse(s)))?;
    let levels = || host_levels(fabric, adapters(root).div_ceil(4));
    let around = format!("up*/down* from {}", fabric.switch(root).description);
    let free: Kind = Rule::FirstTurnFree;
    let dimensions = Dimensions::find(fabric);
    let dimension_order =
        dimensions.iter().map(|d| move || d.dimension_order(fabric, root)).collect::<Vec<_>>();
    let grid = dimension_order.iter().map(|make| ("dimension by dimension", free, make as Make<'_>));
    let list: [(&str, Kind, Make<'_>); 5] = [
        (&around, Rule::OneVl, &|| up_down_rank(fabric, root)),
        ("host levels", free, &levels),
        ("global links first", free, &|| global_links_first(fabric, root)),
        (&around, free, &|| up_down_rank(fabric, root)),
        ("local links first", free, &|| local_links_first(fabric, root)),
    ];
    let few = sample(fabric, GLANCE);
    let many = sample(fabric, TARGETS);
    let mut plain: Option<Probe> = None;
    for (number, (name, kind, make)) in grid.chain(list).enumerate().skip(from) {
        let rank = make();
        let tree = Tree::new(fabric, &rank, root);
        let rule = kind(rank);
        if rule.vls() > vls {
            continue;
        }
        if probe(fabric, hops, &rule, Lookahead::Every, &few, 1).broken > HOPELESS {
            continue;
        }
        for lookahead in [Lookahead::Every, Lookahead::LastOption] {
            let (this, without) = ((&rule, lookahead), (&Rule::Any, Lookahead::Every));
            let (probe, plain) = match plain {
                Some(plain) => (probe_all(fabric, hops, &[this], &many, 1)[0], plain),
                None => {
                    let both = probe_all(fabric, hops, &[this, without], &many, 1);
                    (both[0], *plain.insert(both[1]))
                }
            };
            if probe.broken <= BROKEN && probe.bandwidth >= BANDWIDTH * plain.bandwidth {
                return Some(Steady { rule, name: name.to_owned(), number, lookahead, tree, changed: false });
            }
        }
    }
    None
}

impl Steady {
    /// Routes with detours for what is left. Where these do not reach everything, or are more than so
    /// few that they hardly matter, turns are labelled for one VL more, or two; and where that does not
    /// help, a tree does, at the price of the rank.
    ///
    /// `limit`: share of the adapter pairs that may take a detour.
    pub(super) fn one_sl(&mut self, fabric: &Fabric, hops: &Hops, vls: u8, limit: f64) -> Forwarding {
        let route =
            |rule: &Rule, stuck: NoLegalPath<'_>| stable_sssp(fabric, hops, rule, self.lookahead, stuck);
        let plain = route(&self.rule, NoLegalPath::Detour(None));
        if plain.complete && plain.nonminimal_share() <= limit.min(BROKEN) {
            return plain;
        }
        if let Rule::FirstTurnFree(rank) = &self.rule
            && vls > 2
        {
            let all: Vec<SwitchId> = fabric.switch_ids().collect();
            for most in 2..vls.min(MOST_VLS) {
                let search = LabelSearch {
                    ranks: &[rank.clone(), rank.clone()],
                    most,
                    pinned: None,
                    lookahead: self.lookahead,
                    targets: &all,
                    rounds: ROUNDS,
                };
                let (rule, _) = search_labels(fabric, hops, search);
                let ranked = route(&rule, NoLegalPath::Detour(None));
                if ranked.complete {
                    self.rule = rule;
                    self.name.push_str(WITH_LABELS);
                    return ranked;
                }
            }
        }
        if plain.complete {
            return plain;
        }
        self.along_tree(fabric, hops)
    }

    /// Routes with the paths of a tree legal under the rule, which it is changed for.
    pub(super) fn along_tree(&mut self, fabric: &Fabric, hops: &Hops) -> Forwarding {
        if let Rule::Labelled { ranks, .. } = &self.rule {
            self.rule = Rule::FirstTurnFree(ranks[1].clone());
            self.name.truncate(self.name.len() - WITH_LABELS.len());
        }
        let (Rule::OneVl(rank) | Rule::FirstTurnFree(rank)) = &mut self.rule else {
            unreachable!("the list has no others")
        };
        let own = self.tree.with_tree_outermost(fabric, rank);
        self.changed |= own != *rank;
        *rank = own;
        stable_sssp(fabric, hops, &self.rule, self.lookahead, NoLegalPath::Detour(Some(&self.tree)))
    }
}

/// Some destination switches, evenly spread.
fn sample(fabric: &Fabric, take: usize) -> Vec<SwitchId> {
    let n = fabric.num_switches();
    let take = take.min(n);
    (0..take).map(|i| SwitchId::at(i * n / take)).collect()
}
