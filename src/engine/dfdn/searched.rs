//! Tables by the best rule of a search.

use rayon::prelude::*;

use super::build::{df_dn_plan, one_sl, several_lanes, several_sls};
use super::candidates::{BalanceBy, Candidate};
use super::estimate::worth;
use super::search::{Search, search};
use super::tuning::{COMPARED, HOPELESS, TREE_LOSS};
use super::{Task, limit};
use crate::engine::plan::Plan;
use crate::engine::{EngineError, Prefer};
use crate::evaluate::quick_bisection;
use crate::lanes::{Lanes, LanesError};
use crate::ordering::Rule;
use crate::routing::{Forwarding, Lookahead, NoLegalPath, ranked_sssp};
use crate::tables::Lft;

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
///
/// # Errors
/// [`EngineError::Lanes`] with what the third would have needed.
pub(super) fn searched_plan(task: Task<'_>, by: BalanceBy) -> Result<Plan, EngineError> {
    let settings = task.settings;
    let search = search(task);
    let mut rejected = None;
    let mut without_tree = None;
    if search.candidates[0].probe.broken <= HOPELESS * limit(settings) {
        match one_sl_plan(task, by, &search) {
            Ok(plan) => return Ok(plan),
            Err(why) => (rejected, without_tree) = (Some(why.trial), why.without_tree),
        }
    }
    let several = |with_tree| several_sls_plan(task, by, &search, with_tree);
    let mut without_tree = match several(false) {
        Ok(plan) if plan.serves_multicast() => return Ok(plan),
        Ok(plan) => {
            if let Ok(with_tree) = several(true) {
                return Ok(with_tree);
            }
            Ok(without_tree.unwrap_or(plan))
        }
        Err(needed) => without_tree.ok_or(needed),
    };
    if without_tree.is_err() {
        if let Ok(plan) = df_dn_plan(task) {
            if plan.serves_multicast() {
                return Ok(plan);
            }
            without_tree = Ok(plan);
        }
    }
    if settings.max_nonminimal.is_none() && (without_tree.is_err() || settings.prefer != Prefer::Minimal) {
        let trial = rejected.unwrap_or_else(|| Trial::new(task, by, &search.candidates[0]));
        let (plan, candidate) = trial.plan(task);
        if plan.serves_multicast() {
            return Ok(plan);
        }
        return Ok(Trial::with_tree(task, by, candidate).plan(task).0);
    }
    without_tree.map_err(|source| EngineError::Lanes { engine: "dfdn", source })
}

/// Why one SL will not do.
struct Rejected {
    /// It has too many detours or too little bandwidth.
    trial: Trial,
    /// A plan within the limits, but without a multicast tree.
    without_tree: Option<Plan>,
}

/// One SL within the limits: the best candidate by what comes out.
fn one_sl_plan(task: Task<'_>, by: BalanceBy, search: &Search) -> Result<Plan, Box<Rejected>> {
    let settings = task.settings;
    let (limit, candidates) = (limit(settings), &search.candidates);
    let run = |candidate: &Candidate| Trial::new(task, by, candidate);
    let (some, others) = candidates.split_at(search.compare.min(candidates.len()));
    let mut trials: Vec<Trial> = some.par_iter().map(run).collect();
    let worse = |trial: &Trial| trial.forwarding.detours > 0 || trial.candidate.rule != candidates[0].rule;
    if candidates[0].probe.broken == 0.0 && trials.len() == 1 && worse(&trials[0]) {
        // It is worse than the search expected, so others are compared.
        trials.par_extend(others.par_iter().take(COMPARED - 1).map(run));
    }
    let best = best_of(task, trials);
    let slow = settings.prefer == Prefer::Default && best.bandwidth < 1.0 - settings.max_loss;
    if best.forwarding.nonminimal_share() > limit || slow {
        return Err(Box::new(Rejected { trial: best, without_tree: None }));
    }
    let (plan, candidate) = best.plan(task);
    if plan.serves_multicast() {
        return Ok(plan);
    }
    let rule = candidate.rule.clone();
    let best = Trial::with_tree(task, by, candidate);
    let ebb = |lft: &Lft| quick_bisection(task.fabric, lft);
    let (without, with) = rayon::join(|| ebb(&plan.lft), || ebb(&best.forwarding.lft));
    if with < (1.0 - TREE_LOSS) * without {
        // The tree concentrates traffic. A candidate whose order has a tree as it is may do better.
        let others = candidates.iter().filter(|candidate| candidate.rule != rule).take(COMPARED);
        let trials = others.map(run).filter(|other| other.forwarding.nonminimal_share() <= limit);
        let plans = trials.map(|other| other.plan(task).0).filter(Plan::serves_multicast);
        let judged = plans.map(|plan| (ebb(&plan.lft), plan)).filter(|&(ebb, _)| ebb > with);
        if let Some((_, plan)) = judged.max_by(|(a, _), (b, _)| a.total_cmp(b)) {
            return Ok(plan);
        }
    }
    if best.forwarding.nonminimal_share() <= limit {
        return Ok(best.plan(task).0);
    }
    Err(Box::new(Rejected { trial: best, without_tree: Some(plan) }))
}

/// Several SLs, by the candidate that takes the fewest; its labels are those of SL 0.
///
/// - `with_tree`: whether the tree is reserved.
fn several_sls_plan(
    task: Task<'_>,
    by: BalanceBy,
    search: &Search,
    with_tree: bool,
) -> Result<Plan, LanesError> {
    let with_labels = |c: &&Candidate| !matches!(c.rule, Rule::OneVl(_) | Rule::Any);
    let candidates: Vec<&Candidate> =
        search.candidates.iter().filter(with_labels).take(search.compare).collect();
    let tried = candidates.into_par_iter().map(|candidate| {
        let mut candidate = candidate.clone();
        if with_tree {
            candidate.reserve_tree(task);
        }
        candidate.lookahead = Lookahead::LastOption;
        let forwarding = candidate.route(task, by, NoLegalPath::Break);
        let lanes = several_lanes(task, &candidate.rule, &forwarding)?;
        Ok((lanes, forwarding.lft, candidate))
    });
    let tried: Vec<Result<(Lanes, Lft, Candidate), LanesError>> = tried.collect();
    let mut least: Result<(Lanes, Lft, Candidate), LanesError> =
        Err(LanesError::TooFewVls { needed: 2, offered: task.limits.vls });
    for result in tried {
        least = match (result, least) {
            (Ok(new), Ok(old)) if (new.0.sls, new.0.vls) < (old.0.sls, old.0.vls) => Ok(new),
            (Ok(new), Err(_)) => Ok(new),
            (Err(new), Err(LanesError::TooFewVls { needed: 2, .. })) => Err(new),
            (_, old) => old,
        };
    }
    let (lanes, lft, candidate) = least?;
    Ok(several_sls(task, &candidate, lft, lanes))
}

/// A candidate, possibly changed for its tree, and the routing with one SL.
struct Trial {
    candidate: Candidate,
    forwarding: Forwarding,
    /// Expected, in relation to P-SSSP without a rule; 1 where nothing was compared.
    bandwidth: f64,
}

impl Trial {
    fn new(task: Task<'_>, by: BalanceBy, candidate: &Candidate) -> Self {
        let mut candidate = candidate.clone();
        let forwarding = candidate.route_one_sl(task, by);
        Self { candidate, forwarding, bandwidth: 1.0 }
    }

    fn with_tree(task: Task<'_>, by: BalanceBy, mut candidate: Candidate) -> Self {
        candidate.reserve_tree(task);
        let forwarding = candidate.route_with_tree(task, by);
        Self { candidate, forwarding, bandwidth: 1.0 }
    }

    /// The plan, and the candidate that it was made from.
    fn plan(self, task: Task<'_>) -> (Plan, Candidate) {
        let plan = one_sl(task, &self.candidate, self.forwarding, Vec::new());
        (plan, self.candidate)
    }

    fn worth(&self) -> f64 {
        worth(self.forwarding.nonminimal_share(), self.bandwidth, &self.candidate.rule)
    }
}

/// The trial that is worth most.
fn best_of(task: Task<'_>, mut trials: Vec<Trial>) -> Trial {
    let fabric = task.fabric;
    if trials.len() > 1 {
        let break_rule = NoLegalPath::Break;
        let plain =
            ranked_sssp(fabric, task.hops, &Rule::Any, Lookahead::Every, break_rule).bandwidth(fabric);
        trials.par_iter_mut().for_each(|trial| trial.bandwidth = trial.forwarding.bandwidth(fabric) / plain);
    }
    trials.into_iter().min_by(|a, b| a.worth().total_cmp(&b.worth())).expect("there is a candidate")
}
