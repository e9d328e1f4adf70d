//! Several SLs by a rule: pairs without a legal minimal path have SLs of their own.

use rayon::prelude::*;

use super::Priced;
use super::build::{several_lanes, several_sls};
use super::candidates::{BalanceBy, Candidate};
use super::objective::{Measured, Objective};
use super::search::{Search, among_plain_orders};
use crate::lanes::{Lanes, LanesError};
use crate::routing::{Forwarding, Lookahead, NoLegalPath};

/// Several SLs by a plain order: without a search for one that serves one SL. `None` where VLs or SLs do not suffice, or there is
/// no multicast tree.
///
/// Cost: that of routing with two to four candidates and of [`ordered`](crate::lanes::ordered).
pub(super) fn several_sls_plainly(objective: &Objective<'_>) -> Option<Priced> {
    objective.task.hops.keep_dags(objective.task.fabric);
    let search = among_plain_orders(objective.task);
    let found = several_sls_plan(objective, BalanceBy::Load, &search, |_| true).ok()?;
    found.plan.serves_multicast().then_some(found)
}

/// Several SLs, by the candidate that is worth most. Its tree is reserved where there is no multicast tree otherwise.
///
/// - `by`: what tables under the rule are balanced by.
/// - `is_wanted`: whether tables may be worth reserving a tree.
///
/// # Errors
/// What VLs and SLs the first candidate would need.
pub(super) fn several_sls_plan(
    objective: &Objective<'_>,
    by: BalanceBy,
    search: &Search<'_>,
    is_wanted: impl Fn(&Priced) -> bool,
) -> Result<Priced, LanesError> {
    let several = |with_tree| best_with_several_sls(objective, by, search, with_tree);
    match several(false) {
        Ok(plan) if !plan.plan.serves_multicast() && is_wanted(&plan) => several(true).or(Ok(plan)),
        several => several,
    }
}

/// Several SLs, by the candidate that is worth most; its labels are those of SL 0.
///
/// - `with_tree`: whether the tree is reserved.
fn best_with_several_sls(
    objective: &Objective<'_>,
    by: BalanceBy,
    search: &Search<'_>,
    with_tree: bool,
) -> Result<Priced, LanesError> {
    let task = objective.task;
    let tried = search.for_several_sls().into_par_iter().map(|candidate| {
        let mut candidate = candidate.clone();
        if with_tree {
            candidate.reserve_tree(task);
        }
        candidate.lookahead = Lookahead::LastOption;
        let plain = candidate.route(task, by, NoLegalPath::Break);
        let mut relieved = plain.clone();
        let measured = objective.relieve(&candidate.rule, by, &mut relieved);
        let measured = objective.level_load(&candidate.rule, by, measured, &mut relieved);
        let tables = |forwarding: Forwarding, measured: Measured| {
            let lanes = several_lanes(objective, &candidate.rule, &forwarding)?;
            let price = objective.price(&measured, lanes.vls, lanes.sls);
            Ok((price, lanes, forwarding, candidate.clone(), measured))
        };
        // Paths that moved may need more VLs or SLs than there are.
        tables(relieved, measured).or_else(|_: LanesError| {
            let measured = objective.measure(&plain);
            tables(plain, measured)
        })
    });
    type Tried = Result<(f64, Lanes, Forwarding, Candidate, Measured), LanesError>;
    let tried: Vec<Tried> = tried.collect();
    let mut best: Tried = Err(LanesError::TooFewVls { needed: 2, offered: objective.several.vls });
    for result in tried {
        best = match (result, best) {
            (Ok(new), Ok(old)) if new.0 < old.0 => Ok(new),
            (Ok(new), Err(_)) => Ok(new),
            (Err(new), Err(LanesError::TooFewVls { needed: 2, .. })) => Err(new),
            (_, old) => old,
        };
    }
    let (_, lanes, forwarding, candidate, measured) = best?;
    Ok(several_sls(objective, &candidate, forwarding, measured, lanes))
}
