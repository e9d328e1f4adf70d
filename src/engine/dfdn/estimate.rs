//! What a candidate is worth, and what the search may spend to find out.

use super::limit;
use super::tuning::{
    BANDWIDTH_FREE, BANDWIDTH_PRICE, COMPARED, DETOURS, FAR_BEYOND, LABEL_WORK, LEAST_COMPARED, LEAST_ROUNDS,
    LEAST_WORK, LEAST_WORK_IF_HARD, LONG, RELIEF_SHARE, RELIEF_TRIES, ROUNDS, SMALL, STABLE_LABEL_ROUNDS, VL,
    VL_PRICE, WALKS,
};
use crate::engine::Task;
use crate::fabric::{Fabric, SwitchId};
use crate::ordering::Rule;
use crate::routing::{RuleSearch, Worth};

/// The price of a rule, in shares of the adapter pairs.
///
/// - `nonminimal`: share of the pairs without a legal minimal path.
/// - `bandwidth`: expected, in relation to that without a rule.
pub(super) fn worth(nonminimal: f64, bandwidth: f64, rule: &Rule) -> f64 {
    let loss = 1.0 - bandwidth;
    nonminimal + BANDWIDTH_PRICE * (loss - BANDWIDTH_FREE).max(0.0) + VL_PRICE * f64::from(rule.vls())
}

/// What a search may spend, in steps.
#[derive(Clone)]
pub(super) struct Budget {
    /// Steps of routing to one destination switch.
    per_target: usize,
    left: usize,
    /// The least budget where plain orders do not suffice.
    least_if_hard: usize,
}

impl Budget {
    /// Steps of routing to all destinations.
    pub(super) fn pass(fabric: &Fabric) -> usize {
        let switches = fabric.num_switches();
        fabric.endports().len() * switches * 2 + Self::round(fabric)
    }

    /// How often a switch may look for another channel while hot channels are relieved: as much as a few passes take.
    pub(super) fn relief_tries(fabric: &Fabric) -> u64 {
        RELIEF_TRIES.max((fabric.endports().len() * fabric.num_switches() / RELIEF_SHARE) as u64)
    }

    /// As much as routing to all destinations takes, times `effort`.
    pub(super) fn new(fabric: &Fabric, effort: f64) -> Self {
        let per_target = Self::per_target(fabric);
        let steps = |work: usize| (work as f64 * effort) as usize;
        let left = steps(Self::pass(fabric).max(LEAST_WORK));
        Self { per_target, left, least_if_hard: steps(LEAST_WORK_IF_HARD) }
    }

    /// How many destinations each of some tries may have, at most all.
    pub(super) fn targets(&self, fabric: &Fabric, tries: usize) -> usize {
        (self.left / 2 / tries / self.per_target).clamp(1, fabric.num_switches())
    }

    /// How many tries of so many targets it affords.
    pub(super) fn rounds(&self, targets: usize) -> usize {
        self.left / (targets * self.per_target).max(1)
    }

    /// How many candidates to route with, to compare the results: as many as it affords, but always [`LEAST_COMPARED`], and
    /// some more where that takes little.
    pub(super) fn compared(&self, fabric: &Fabric) -> usize {
        let least = if Self::pass(fabric) <= LEAST_WORK { COMPARED } else { LEAST_COMPARED };
        (self.left / (fabric.endports().len() * self.per_target)).clamp(least, COMPARED)
    }

    /// Whether a fabric is searched in a fraction of a second, so that several searches are affordable.
    pub(super) fn is_small(fabric: &Fabric) -> bool {
        Self::round(fabric) <= SMALL
    }

    /// Once a small fabric has so many plans, candidates with too many detours get none.
    pub(super) fn plans(fabric: &Fabric) -> usize {
        COMPARED * SMALL / Self::round(fabric).max(1)
    }

    /// Whether routing takes no longer than to relieve the hottest channels, so that all candidates are soon compared.
    pub(super) fn comparisons_are_cheap(fabric: &Fabric) -> bool {
        Self::round(fabric) as u64 <= RELIEF_TRIES
    }

    /// Steps of routing to one switch.
    fn per_target(fabric: &Fabric) -> usize {
        fabric.num_switches() + fabric.channels().len()
    }

    /// Steps of routing to all switches once.
    fn round(fabric: &Fabric) -> usize {
        Self::round_of(fabric.num_switches(), fabric.channels().len())
    }

    /// The same with so many switches and channels.
    fn round_of(switches: usize, channels: usize) -> usize {
        switches * (switches + channels)
    }

    /// Whether one more search for labels, or a few more plans, take a fraction of a second.
    pub(super) fn searches_are_cheap(fabric: &Fabric) -> bool {
        Self::would_be_cheap(fabric.num_switches(), fabric.channels().len())
    }

    /// The same on a fabric of so many switches and channels.
    pub(super) fn would_be_cheap(switches: usize, channels: usize) -> bool {
        STABLE_LABEL_ROUNDS * LABEL_WORK * Self::round_of(switches, channels) <= LEAST_WORK_IF_HARD
    }

    /// Whether a search on a damaged grid takes ten seconds.
    pub(super) fn searches_are_long(fabric: &Fabric) -> bool {
        Self::round(fabric) > LONG
    }

    /// Rounds of a search around a tree: all where they take little.
    pub(super) fn tree_rounds(fabric: &Fabric) -> usize {
        (LEAST_WORK_IF_HARD / Self::round(fabric).max(1)).clamp(LEAST_ROUNDS, ROUNDS)
    }

    /// Spends what a try of so many targets costs.
    pub(super) fn spend(&mut self, targets: usize) {
        self.left = self.left.saturating_sub(targets * self.per_target);
    }

    /// Leaves one of some equal shares.
    pub(super) fn divide(&mut self, shares: usize) {
        self.left /= shares;
    }

    /// Raises it where plain orders do not suffice.
    pub(super) fn raise(&mut self) {
        self.left = self.left.max(self.least_if_hard);
    }
}

/// Whether a share of the adapter pairs on detours is so large that tables get no plan by themselves: [`FAR_BEYOND`] as many as may
/// be, on a fabric that is not small.
pub(super) fn is_hopeless(Task { fabric, settings, .. }: Task<'_>, share: f64) -> bool {
    share > FAR_BEYOND * limit(settings) && !Budget::is_small(fabric)
}

/// The search as it is on a small fabric. On others it ends where it gains less than a VL is worth, or where one SL is
/// [hopeless](is_hopeless). On a large one it shares the destinations out among the cores, and ends where one SL would take more
/// detours than it may at all: paths beyond the rule take too long there to make many shorter.
pub(super) fn thrifty<'a>(Task { fabric, settings, .. }: Task<'_>, search: RuleSearch<'a>) -> RuleSearch<'a> {
    if Budget::is_small(fabric) {
        return search;
    }
    let (walks, times) = match Budget::searches_are_cheap(fabric) {
        true => (search.walks, FAR_BEYOND),
        false => (WALKS, 1.0),
    };
    let worth = Worth { least_gain: least_gain(fabric), most_broken: times * limit(settings) };
    RuleSearch { worth, walks, ..search }
}

/// The share of the adapter pairs without a legal minimal path that is worth a search: as many as a VL is worth, on a small fabric
/// any.
pub(super) fn least_gain(fabric: &Fabric) -> f64 {
    if Budget::is_small(fabric) { 0.0 } else { VL / DETOURS }
}

/// Some destination switches, at most `take`: three of four evenly spread over the adapters, the fourth over all
/// switches; all switches if that is as many.
pub(super) fn sample(fabric: &Fabric, take: usize) -> Vec<SwitchId> {
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

/// Some destination switches, evenly spread: a failed link changes none of them.
pub(super) fn spread(fabric: &Fabric, take: usize) -> Vec<SwitchId> {
    let n = fabric.num_switches();
    let take = take.min(n);
    (0..take).map(|i| SwitchId::at(i * n / take)).collect()
}
