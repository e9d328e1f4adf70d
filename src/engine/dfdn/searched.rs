//! Tables by the best rule of a search.

use rayon::prelude::*;

use super::build::{df_dn_plan, several_lanes, several_sls};
use super::candidates::{BalanceBy, Candidate};
use super::estimate::Budget;
use super::objective::{Measured, Objective};
use super::search::{Search, search};
use super::straightened::straight_one_sl;
use super::tuning::{DETOURS, ONE_SL_VLS, TREE_RESERVED};
use super::{Priced, is_worth_more_time, limit};
use crate::engine::{EngineError, Prefer, Settings, Task};
use crate::lanes::{LaneLimits, Lanes, LanesError};
use crate::ordering::Rule;
use crate::routing::{Forwarding, Lookahead, NoLegalPath};

/// Tables by the best rule of a search ([`by_search`]). On small fabrics where these cost something, what stricter settings
/// bring counts too: to allow more shall not end worse.
///
/// - `by`: what tables under the rule are balanced by.
///
/// # Errors
/// Those of [`by_search`].
pub(super) fn searched_plan(objective: &Objective<'_>, by: BalanceBy) -> Result<Priced, EngineError> {
    let task = objective.task;
    let found = by_search(objective, by, Budget::is_small(task.fabric))?;
    if !is_worth_more_time(task, &found) {
        return Ok(found);
    }
    let others: Vec<Option<Priced>> = stricter(task)
        .par_iter()
        .map(|(settings, limits)| {
            let task = Task { settings, limits: *limits, ..task };
            by_search(&Objective { task, ..*objective }, by, false).ok()
        })
        .collect();
    let settings = task.settings;
    let better = |best: Priced, other| if best.yields_to(&other, settings) { other } else { best };
    Ok(others.into_iter().flatten().fold(found, better))
}

/// Settings that allow less: VLs, effort, or several SLs.
fn stricter(task: Task<'_>) -> Vec<(Settings, LaneLimits)> {
    let Task { settings, limits, .. } = task;
    let fewer = (2..limits.vls.min(ONE_SL_VLS)).map(|vls| (settings.clone(), LaneLimits { vls, ..limits }));
    let efforts = [0.0, 1.0].into_iter().filter(|&effort| effort < settings.search_effort);
    let less = efforts.map(|search_effort| (Settings { search_effort, ..settings.clone() }, limits));
    let one_sl = (settings.prefer == Prefer::Default)
        .then(|| (Settings { prefer: Prefer::OneSl, ..settings.clone() }, limits));
    fewer.chain(less).chain(one_sl).collect()
}

/// The first of these that the settings allow and the VLs and SLs suffice for:
///
/// 1. one SL with all adapter pairs minimal, on as few VLs as lose nothing;
/// 2. one SL with detours for a limited share of the pairs;
/// 3. several SLs with all adapter pairs minimal;
/// 4. DF-DN as printed;
/// 5. one SL with detours without limit, where no limit was stated.
///
/// Each of them needs a multicast tree for SL 0. Where the first three have none, the rule is changed so that the
/// paths of a tree are legal. Only where none of that has a multicast tree, plans without one count: with all
/// adapter pairs minimal, or within a limit that was stated.
///
/// - `by`: what tables under the rule are balanced by.
/// - `straighten_first`: whether candidates are compared as they are when their detours have become shortest. That takes
///   several times as long.
///
/// # Errors
/// [`EngineError::Lanes`] with what the third would have needed.
fn by_search(
    objective: &Objective<'_>,
    by: BalanceBy,
    straighten_first: bool,
) -> Result<Priced, EngineError> {
    let task = objective.task;
    let settings = task.settings;
    let search = search(task);
    let (rejected, without_tree);
    match one_sl_plan(objective, by, &search, straighten_first) {
        Ok(plan) => return Ok(plan),
        Err(why) => (rejected, without_tree) = (why.trial, why.without_tree),
    }
    let several = |with_tree| several_sls_plan(objective, by, &search, with_tree);
    let mut without_tree = match several(false) {
        Ok(plan) if plan.plan.serves_multicast() => return Ok(plan),
        Ok(plan) => {
            if let Ok(with_tree) = several(true) {
                return Ok(with_tree);
            }
            Ok(without_tree.unwrap_or(plan))
        }
        Err(needed) => without_tree.ok_or(needed),
    };
    if without_tree.is_err() {
        if let Ok(plan) = df_dn_plan(objective) {
            if plan.plan.serves_multicast() {
                return Ok(plan);
            }
            without_tree = Ok(plan);
        }
    }
    if settings.max_nonminimal.is_none() && (without_tree.is_err() || settings.prefer != Prefer::Minimal) {
        let (plan, candidate) = rejected.plan(objective);
        if plan.plan.serves_multicast() {
            return Ok(plan);
        }
        return Ok(Trial::with_tree(objective, by, candidate).plan(objective).0);
    }
    without_tree.map_err(|source| EngineError::Lanes { engine: "dfdn", source })
}

/// Why one SL will not do.
struct Rejected {
    /// It has too many detours or too little bandwidth.
    trial: Trial,
    /// A plan within the limits, but without a multicast tree.
    without_tree: Option<Priced>,
}

/// One SL within the limits: the best candidate by what comes out. After the choice, its detours become shortest as far as
/// they can.
///
/// - `straighten_first`: whether that is known before the choice.
fn one_sl_plan(
    objective: &Objective<'_>,
    by: BalanceBy,
    search: &Search,
    straighten_first: bool,
) -> Result<Priced, Box<Rejected>> {
    let settings = objective.task.settings;
    let mut trials: Vec<Judged> = trials(objective, by, &search.compared())
        .into_iter()
        .map(|trial| Judged::as_it_is(trial, objective))
        .collect();
    let sort = |trials: &mut [Judged]| {
        trials.sort_by(|a, b| a.exceeds.cmp(&b.exceeds).then(a.price.total_cmp(&b.price)));
    };
    sort(&mut trials);
    if straighten_first {
        let first = Judged::straight(trials.remove(0).trial, objective);
        let most = if first.exceeds { f64::INFINITY } else { first.price };
        let others = trials.into_par_iter().map(|other| {
            let detours = other.trial.measured.detours;
            let may_win = detours > 0.0 && other.price - DETOURS * detours < most;
            if may_win { Judged::straight(other.trial, objective) } else { other }
        });
        trials = std::iter::once(first).chain(others.collect::<Vec<_>>()).collect();
        sort(&mut trials);
    }
    let best = trials.remove(0);
    let slow = settings.prefer == Prefer::Default && objective.lost(&best.trial.measured) > settings.max_loss;
    if best.exceeds || slow {
        return Err(Box::new(Rejected { trial: best.trial, without_tree: None }));
    }
    let (found, candidate) = best.plan(objective);
    if found.plan.serves_multicast() {
        return Ok(found);
    }
    let with_tree = trials
        .into_iter()
        .find(|Judged { trial, .. }| trial.candidate.tree_reserved && trial.forwarding.complete)
        .unwrap_or_else(|| Judged::as_it_is(Trial::with_tree(objective, by, candidate), objective));
    if !with_tree.exceeds {
        return Ok(with_tree.plan(objective).0);
    }
    Err(Box::new(Rejected { trial: with_tree.trial, without_tree: Some(found) }))
}

/// Routes with candidates. Those that leave a switch without a path get [late turns](Candidate::with_late_turns). Only
/// where none has all paths then, their trees are reserved.
fn trials(objective: &Objective<'_>, by: BalanceBy, candidates: &[&Candidate]) -> Vec<Trial> {
    let complete = |trial: &Trial| trial.forwarding.complete;
    let late =
        |candidate: &Candidate| Some(Trial::new(objective, by, &candidate.with_late_turns(objective.task)?));
    let trial = |candidate: &&Candidate| {
        let plain = Some(Trial::new(objective, by, candidate)).filter(complete);
        plain.or_else(|| late(candidate).filter(complete))
    };
    let tried: Vec<Option<Trial>> = candidates.par_iter().map(trial).collect();
    if tried.iter().any(Option::is_some) {
        return tried.into_iter().flatten().collect();
    }
    candidates.par_iter().map(|candidate| Trial::with_tree(objective, by, (*candidate).clone())).collect()
}

/// Several SLs, by the candidate that takes the fewest; its labels are those of SL 0.
///
/// - `with_tree`: whether the tree is reserved.
fn several_sls_plan(
    objective: &Objective<'_>,
    by: BalanceBy,
    search: &Search,
    with_tree: bool,
) -> Result<Priced, LanesError> {
    let task = objective.task;
    let with_labels = |c: &&Candidate| !matches!(c.rule, Rule::OneVl(_) | Rule::Any);
    let candidates: Vec<&Candidate> =
        search.candidates.iter().filter(with_labels).take(search.compare).collect();
    let tried = candidates.into_par_iter().map(|candidate| {
        let mut candidate = candidate.clone();
        if with_tree {
            candidate.reserve_tree(task);
        }
        candidate.lookahead = Lookahead::LastOption;
        let mut forwarding = candidate.route(task, by, NoLegalPath::Break);
        objective.relieve(&candidate, by, &mut forwarding);
        let lanes = several_lanes(task, &candidate.rule, &forwarding)?;
        Ok((lanes, forwarding, candidate))
    });
    let tried: Vec<Result<(Lanes, Forwarding, Candidate), LanesError>> = tried.collect();
    let mut least: Result<(Lanes, Forwarding, Candidate), LanesError> =
        Err(LanesError::TooFewVls { needed: 2, offered: task.limits.vls });
    for result in tried {
        least = match (result, least) {
            (Ok(new), Ok(old)) if (new.0.sls, new.0.vls) < (old.0.sls, old.0.vls) => Ok(new),
            (Ok(new), Err(_)) => Ok(new),
            (Err(new), Err(LanesError::TooFewVls { needed: 2, .. })) => Err(new),
            (_, old) => old,
        };
    }
    let (lanes, forwarding, candidate) = least?;
    Ok(several_sls(objective, &candidate, forwarding, lanes))
}

/// A candidate, possibly changed for its tree, and the routing with one SL.
#[derive(Clone)]
struct Trial {
    candidate: Candidate,
    forwarding: Forwarding,
    measured: Measured,
}

impl Trial {
    fn new(objective: &Objective<'_>, by: BalanceBy, candidate: &Candidate) -> Self {
        let forwarding = candidate.route(objective.task, by, candidate.detours());
        Self::finish(objective, by, candidate.clone(), forwarding)
    }

    fn with_tree(objective: &Objective<'_>, by: BalanceBy, mut candidate: Candidate) -> Self {
        candidate.reserve_tree(objective.task);
        let forwarding = candidate.route(objective.task, by, candidate.detours());
        Self::finish(objective, by, candidate, forwarding)
    }

    fn finish(
        objective: &Objective<'_>,
        by: BalanceBy,
        candidate: Candidate,
        mut forwarding: Forwarding,
    ) -> Self {
        objective.relieve(&candidate, by, &mut forwarding);
        Self { candidate, measured: objective.measure(&forwarding), forwarding }
    }

    /// The plan, and the candidate that it was made from.
    fn plan(self, objective: &Objective<'_>) -> (Priced, Candidate) {
        let plan = straight_one_sl(objective, &self.candidate, self.forwarding, self.measured, Vec::new());
        (plan, self.candidate)
    }

    fn price(&self, objective: &Objective<'_>) -> f64 {
        objective.price(&self.measured, self.candidate.rule.vls(), 1)
    }
}

/// A trial, and what it is worth.
struct Judged {
    /// Whether more pairs take detours than may.
    exceeds: bool,
    /// With what it is worth that multicast surely has a tree.
    price: f64,
    trial: Trial,
    /// The plan with its detours made shortest, if that is known.
    plan: Option<Priced>,
}

impl Judged {
    fn as_it_is(trial: Trial, objective: &Objective<'_>) -> Self {
        let (detours, price) = (trial.measured.detours, trial.price(objective));
        Self::new(trial, None, (detours, price), objective)
    }

    /// As it is with its detours made shortest.
    fn straight(trial: Trial, objective: &Objective<'_>) -> Self {
        let plan = trial.clone().plan(objective).0;
        let worth = (plan.detours, plan.price);
        Self::new(trial, Some(plan), worth, objective)
    }

    fn new(
        trial: Trial,
        plan: Option<Priced>,
        (detours, price): (f64, f64),
        objective: &Objective<'_>,
    ) -> Self {
        let surely = if trial.candidate.tree_reserved { 0.0 } else { TREE_RESERVED };
        Self { exceeds: detours > limit(objective.task.settings), price: price + surely, trial, plan }
    }

    /// The plan, and the candidate that it was made from.
    fn plan(self, objective: &Objective<'_>) -> (Priced, Candidate) {
        match self.plan {
            Some(plan) => (plan, self.trial.candidate),
            None => self.trial.plan(objective),
        }
    }
}
