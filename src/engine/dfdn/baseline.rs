//! Tables that later ones keep to.
//!
//! A subnet manager that computes every table anew after a failed link may choose another rule. Then nearly every
//! entry changes, and between old and new entries credit loops may close. Here a path moves only where it has lost a
//! channel, or where such paths crowd its own: first without regard to the rule of the baseline, among the dependencies
//! that its tables really have (`mended.rs`), then under that rule. Where that costs too much, the rule is new, and the
//! paths that it allows stay. Tables with several SLs have no rule that later ones could keep: they are mended, or made
//! anew. The tables are a function of the fabric, the settings and one baseline, so links that
//! fail and come back end in the tables of the baseline, byte for byte.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::build::one_sl;
use super::candidates::{Candidate, Refinement};
use super::keepable::Keepable;
use super::mended::{Before, Onto, mended};
use super::objective::Objective;
use super::orders::LinkOrder;
use super::tuning::KEPT;
use super::{Priced, limit};
use crate::engine::{Lineage, Routed, Settings, Task};
use crate::fabric::{ChannelId, EndPort, Fabric, Lid, SwitchId};
use crate::ordering::Rule;
use crate::routing::{Forwarding, NoLegalPath, Usage, keep_paths, lower_unused, raise_unused};
use crate::tables::Lft;

fn keep(
    task: Task<'_>,
    candidate: &Candidate,
    no_legal_path: NoLegalPath<'_>,
    before: &Lft,
    patient: bool,
) -> (Forwarding, Vec<(SwitchId, Lid)>) {
    let Candidate { rule, lookahead, .. } = candidate;
    keep_paths(task.fabric, task.hops, rule, *lookahead, no_legal_path, before.clone(), patient)
}

/// What came of a rule.
struct Tried {
    /// Whether its tables are as good as those of the baseline.
    is_match: bool,
    /// The destinations that had lost a path.
    lost: Vec<(SwitchId, Lid)>,
}

/// Tables with their fabric and their rule: what later tables keep to.
#[derive(Clone, Debug)]
pub struct Baseline {
    fabric: Fabric,
    settings: Settings,
    lft: Lft,
    keepable: Keepable,
    /// What packets use in the tables, once a link has failed.
    usage: Arc<OnceLock<Usage>>,
}

impl Baseline {
    /// `None` where later tables cannot keep to them: those of other engines, and those that keep to a baseline already.
    ///
    /// Cost: O(S D) bytes with S switches and D LIDs.
    pub fn new(fabric: &Fabric, settings: &Settings, routed: &Routed) -> Option<Self> {
        let Lineage::First(keepable) = &routed.lineage else { return None };
        Some(Self {
            fabric: keepable.links.as_ref().unwrap_or(fabric).clone(),
            settings: settings.clone(),
            lft: routed.routes.lft.clone(),
            keepable: keepable.as_ref().clone(),
            usage: Arc::default(),
        })
    }

    /// Whether tables by these settings may keep to it.
    pub(in crate::engine) fn serves(&self, settings: &Settings) -> bool {
        // These do not change tables, or as links that fail and return do.
        let Settings { transition_steps, sweep_log, hold, .. } = settings.clone();
        Settings { transition_steps, sweep_log, hold, ..self.settings.clone() } == *settings
    }

    /// Whether every SL is safe for every pair in its tables.
    pub(super) fn has_one_sl(&self) -> bool {
        self.keepable.lanes.sls == 1
    }

    /// Whether its tables are in dimension order, and tables of now may be so too.
    pub(super) fn in_dimension_order(&self, task: Task<'_>) -> bool {
        self.keepable.in_order && self.matching(task).is_some()
    }

    /// Tables of a fabric in which lost paths move, and few others: see [`mended`].
    pub(super) fn mend<'a>(
        &self,
        task: Task<'a>,
        objective: &dyn Fn() -> Objective<'a>,
        fabric: &Fabric,
    ) -> Option<Priced> {
        let before =
            Before { fabric: &self.fabric, lft: &self.lft, keepable: &self.keepable, usage: &self.usage };
        mended(&before, task, objective, fabric, &self.matching(task)?)
    }

    /// Tables that keep to it, if there are any within the limit on detours.
    ///
    /// First the rule stays as it is. Where that leaves some switch without a path, or costs too much, turns that
    /// nobody takes may use a VL of their own; where all was on one VL, the first turn becomes free before. That
    /// changes many rows of SL2VL. Under each rule, paths that are longer so that the way there is free of credit
    /// loops come first. The first tables that are as good as those of the baseline are taken, else the best.
    pub(super) fn follow(&self, objective: &Objective<'_>) -> Option<Priced> {
        let task = objective.task;
        let (candidate, before) = self.onto(task)?;
        let mut best = None;
        let Tried { is_match, lost } = self.attempt(objective, &candidate, &before, None, &mut best);
        if is_match {
            return best;
        }
        let one_vl = match &candidate.rule {
            Rule::OneVl(rank) => Some(Rule::FirstTurnFree(rank.clone())),
            _ => None,
        };
        let mut others: Vec<(Rule, Option<&Rule>)> = Vec::new();
        for rule in std::iter::once(&candidate.rule).chain(&one_vl) {
            if Some(rule) == one_vl.as_ref() {
                others.push((rule.clone(), None));
            }
            // Turns of no path at first, then those of destinations that have to move as well.
            for movable in [&[][..], &lost] {
                let rank = candidate.order.rank.clone();
                let raised = raise_unused(task.fabric, rule, rank, &before, movable);
                others.extend(raised.map(|raised| (raised, Some(rule))));
            }
        }
        others.dedup_by(|a, b| a.0 == b.0);
        for (rule, lower) in others {
            let candidate = Candidate { rule, ..candidate.clone() };
            if self.attempt(objective, &candidate, &before, lower, &mut best).is_match {
                break;
            }
        }
        best
    }

    /// Keeps paths under a rule, and takes over tables that are as good as those of the baseline, or better than the
    /// best so far.
    fn attempt(
        &self,
        objective: &Objective<'_>,
        candidate: &Candidate,
        before: &Lft,
        lower: Option<&Rule>,
        best: &mut Option<Priced>,
    ) -> Tried {
        let mut tried = Tried { is_match: false, lost: Vec::new() };
        for patient in [true, false] {
            let detour = NoLegalPath::Detour(None);
            let (forwarding, lost) = keep(objective.task, candidate, detour, before, patient);
            tried.lost = lost;
            let remark = "paths stay as they were, but for those that failed links took";
            let found = self.plan(objective, candidate.clone(), forwarding, lower, remark);
            let Some(found) = found else { continue };
            tried.is_match = self.matched_by(&found);
            if tried.is_match || best.as_ref().is_none_or(|best| found.lost < best.lost) {
                *best = Some(found);
            }
            if tried.is_match {
                break;
            }
        }
        tried
    }

    /// Tables under the rule of new ones that keep the paths of the baseline that this rule allows.
    pub(super) fn under(&self, objective: &Objective<'_>, new: &Priced) -> Option<Priced> {
        let Lineage::First(rule) = &new.plan.lineage else { return None };
        let candidate = rule.candidate.as_ref()?;
        let (was, before) = self.onto(objective.task)?;
        let mut plans = [true, false].into_iter().filter_map(|patient| {
            let (forwarding, _) = keep(objective.task, candidate, candidate.detours(), &before, patient);
            let remark = "paths stay as they were where a new rule allows them";
            self.plan(objective, candidate.clone(), forwarding, Some(&was.rule), remark)
        });
        plans.find(|kept| kept.lost <= new.lost + KEPT)
    }

    /// The plan, if it is complete and has few enough detours.
    ///
    /// - `lower`: the rule for the turns that nobody takes in the end.
    fn plan(
        &self,
        objective: &Objective<'_>,
        mut candidate: Candidate,
        mut forwarding: Forwarding,
        lower: Option<&Rule>,
        remark: &str,
    ) -> Option<Priced> {
        let task = objective.task;
        let fits = candidate.rule.vls() <= task.limits.vls;
        if !fits || !forwarding.complete || forwarding.nonminimal_share() > limit(task.settings) {
            return None;
        }
        let goal = self.keepable.worth?.largest;
        objective.relieve_to(goal, &candidate.rule, &mut forwarding);
        let measured = objective.measure(&forwarding);
        let (forwarding, measured) = objective.relieve_few(&candidate.rule, forwarding, measured, goal);
        if let Some(lower) = lower {
            candidate.rule = lower_unused(task.fabric, &candidate.rule, lower, &forwarding.lft);
        }
        let mut kept = one_sl(objective, &candidate, forwarding, measured, vec![remark.to_owned()], None);
        kept.plan.lineage = Lineage::Kept;
        kept.plan.serves_multicast().then_some(kept)
    }

    /// Whether tables are nearly as good as those of the baseline.
    pub(super) fn matched_by(&self, kept: &Priced) -> bool {
        self.keepable.matched_by(kept)
    }

    /// What switches and channels of now were. `None` where there are some that the baseline does not know.
    fn matching(&self, task: Task<'_>) -> Option<Onto> {
        let (old, new) = (&self.fabric, task.fabric);
        let by_guid: HashMap<_, SwitchId> = old.switch_ids().map(|s| (old.switch(s).guid, s)).collect();
        let switches: Option<Vec<SwitchId>> =
            new.switch_ids().map(|s| by_guid.get(&new.switch(s).guid).copied()).collect();
        let switches = switches?;
        let was = |s: SwitchId| switches[s.index()];
        let channels: Option<Vec<ChannelId>> = new
            .channels()
            .as_slice()
            .iter()
            .map(|c| {
                let id = old.channels().at_port(was(c.from), c.out_port)?;
                let before = old.channels().get(id);
                (before.to == was(c.to) && before.in_port == c.in_port).then_some(id)
            })
            .collect();
        let channels = channels?;
        Some(Onto { switches, channels })
    }

    /// The rule and the entries on the fabric of now; `None` where there is no rule.
    ///
    /// Cost: O(S D) with S switches and D LIDs, and O(C log C) with C channels.
    fn onto(&self, task: Task<'_>) -> Option<(Candidate, Lft)> {
        let (old, new) = (&self.fabric, task.fabric);
        let kept = self.keepable.candidate.as_ref()?;
        let Onto { switches, channels } = &self.matching(task)?;
        let was = |s: SwitchId| switches[s.index()];
        let Candidate { order, rule, lookahead, tree_reserved, probe, price, .. } = kept;
        let rule = rule.onto(new, channels);
        let rank = order.rank.onto(new, channels);
        let tree = order.tree.onto(new, &rank, switches, channels);
        let name = kept.name();
        let order = Arc::new(LinkOrder { name, rank, tree, one_path: order.one_path });
        let candidate = Candidate {
            order,
            refinement: Refinement::None,
            rule,
            lookahead: *lookahead,
            tree_reserved: *tree_reserved,
            probe: *probe,
            price: *price,
        };
        let mut lft = Lft::new(new);
        for end in new.endports() {
            let Some((s, port)) = end.attachment else { continue };
            for lid in end.lids() {
                let owner = old.owner_of(lid).map(|owner| old.endport(owner));
                let same = |old: &&EndPort| old.guid == end.guid && old.attachment == Some((was(s), port));
                if owner.filter(same).is_some() {
                    let before = self.lft.to(lid);
                    let entries = lft.to_mut(lid).iter_mut().zip(switches);
                    entries.for_each(|(entry, was)| *entry = before[was.index()]);
                }
            }
        }
        Some((candidate, lft))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Balance, route, route_after};
    use crate::evaluate::largest_load;
    use crate::topology::{Dragonfly, HyperX, Mesh, Torus, fail_links, slow_links};

    fn first(fabric: &Fabric, settings: &Settings) -> (Routed, Baseline) {
        let routed = route(fabric, settings).unwrap();
        let baseline = Baseline::new(fabric, settings, &routed).expect("later tables may keep to it");
        (routed, baseline)
    }

    fn differing(before: &Lft, after: &Lft, fabric: &Fabric) -> usize {
        let lids = fabric.endports().iter().flat_map(|end| end.lids());
        lids.map(|lid| before.to(lid).iter().zip(after.to(lid)).filter(|(a, b)| a != b).count()).sum()
    }

    #[test]
    fn links_that_fail_and_come_back_end_in_the_same_tables() {
        let settings = Settings::default();
        for fabric in [
            Mesh { dims: vec![5, 5], cas: 2 }.build().unwrap(),
            HyperX { dims: vec![4, 4], cas: 1 }.build().unwrap(),
            Dragonfly::balanced(2).build().unwrap(),
            Torus { dims: vec![5, 5], cas: 2 }.build().unwrap(),
            Torus { dims: vec![7, 7], cas: 1 }.build().unwrap(),
        ] {
            let (before, baseline) = first(&fabric, &settings);
            let mut times_kept = 0;
            for seed in 1..4 {
                let damaged = fail_links(&fabric, 1, seed).unwrap();
                let kept = route_after(&damaged, &settings, Some(&baseline)).unwrap();
                let anew = route(&damaged, &settings).unwrap();
                times_kept += usize::from(matches!(kept.lineage, Lineage::Kept));
                let moved = |routed: &Routed| differing(&before.routes.lft, &routed.routes.lft, &damaged);
                assert!(moved(&kept) <= moved(&anew), "{} {}", moved(&kept), moved(&anew));
                let back = route_after(&fabric, &settings, Some(&baseline)).unwrap();
                assert!(back.routes.lft == before.routes.lft && back.routes.sl2vl == before.routes.sl2vl);
            }
            assert!(times_kept > 0);
        }
    }

    /// No way from one SL to several is proven, and nobody may ask hosts to change.
    #[test]
    fn one_sl_stays_however_much_fails() {
        let settings = Settings::default();
        let whole = Mesh { dims: vec![5, 5], cas: 1 }.build().unwrap();
        let (_, baseline) = first(&whole, &settings);
        let mut several = 0;
        for fabric in (1..=12).map(|seed| fail_links(&whole, 13, seed).unwrap()) {
            let sls = |baseline| route_after(&fabric, &settings, baseline).unwrap().verdict.sls;
            several += usize::from(sls(None) > 1);
            assert_eq!(sls(Some(&baseline)), 1);
        }
        assert!(several > 0);
    }

    /// No link is gone, so nothing has to change. But dimension order is hot on the slow links.
    #[test]
    fn paths_leave_slow_links_of_a_torus() {
        let settings = Settings::default();
        let whole = Torus { dims: vec![6, 6, 6], cas: 2 }.build().unwrap();
        let slow = slow_links(&whole, 3, 1).unwrap();
        let (before, baseline) = first(&whole, &settings);
        let largest = |routed: &Routed| largest_load(&slow, &routed.routes.lft).unwrap();
        let after = route_after(&slow, &settings, Some(&baseline)).unwrap();
        assert_eq!((after.verdict.sls, after.verdict.minimal), (1, true));
        assert!(matches!(after.lineage, Lineage::Kept));
        let moved = differing(&before.routes.lft, &after.routes.lft, &slow);
        let entries = slow.num_switches() * slow.endports().len();
        assert!(0 < moved && 20 * moved < entries, "{moved} of {entries}");
        let back = route_after(&whole, &settings, Some(&baseline)).unwrap();
        assert!(back.routes.lft == before.routes.lft);
        let stable = Settings { balance: Balance::Stable, ..settings };
        let (_, baseline) = first(&whole, &stable);
        let kept = route_after(&slow, &stable, Some(&baseline)).unwrap();
        assert!(5 * largest(&kept) >= 6 * largest(&after), "{} {}", largest(&kept), largest(&after));
    }

    #[test]
    fn what_the_baseline_does_not_know_is_routed_anew() {
        let settings = Settings::default();
        let whole = Mesh { dims: vec![5, 5], cas: 2 }.build().unwrap();
        let damaged = fail_links(&whole, 1, 1).unwrap();
        let (_, baseline) = first(&damaged, &settings);
        let routed = route_after(&whole, &settings, Some(&baseline)).unwrap();
        assert!(matches!(routed.lineage, Lineage::First(_)));
        assert!(routed.routes.lft == route(&whole, &settings).unwrap().routes.lft);
        // Other settings do not keep to it either.
        let other = Settings { balance: Balance::Full, ..settings };
        let routed = route_after(&damaged, &other, Some(&baseline)).unwrap();
        assert!(routed.routes.lft == route(&damaged, &other).unwrap().routes.lft);
    }
}
