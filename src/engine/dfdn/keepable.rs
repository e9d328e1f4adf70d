//! What is kept of tables so that later ones can keep to them.

use std::fmt;

use super::Priced;
use super::candidates::Candidate;
use super::objective::{Objective, Reference};
use super::tuning::KEPT;
use crate::engine::Lineage;
use crate::engine::plan::Plan;
use crate::fabric::Fabric;
use crate::lanes::Lanes;
use crate::multicast::McastTrees;

/// What a [`Baseline`](super::Baseline) is made of, beside its tables.
#[derive(Clone)]
pub struct Keepable {
    /// The rule of the tables; `None` for those that are mended at most.
    pub(super) candidate: Option<Candidate>,
    /// Whether they are in dimension order on a torus: what later ones keep is that order, as long as that can be.
    pub(super) in_order: bool,
    /// `None` for those of whole tori, which are compared with nothing.
    pub(super) worth: Option<Worth>,
    /// Share of the adapter pairs on detours.
    pub(super) detours: f64,
    /// Their rows and SLs.
    pub(super) lanes: Lanes,
    pub(super) trees: Option<McastTrees>,
    /// The links that they use, where these are not all.
    pub(super) links: Option<Fabric>,
}

/// What tables come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worth {
    /// The bandwidth that they lose.
    pub(super) lost: f64,
    /// What that is measured by.
    pub(super) reference: Reference,
    /// Routes on their hottest channel.
    pub(super) largest: u64,
}

impl fmt::Debug for Keepable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rule, worth) = (self.candidate.as_ref().map(Candidate::name), self.worth);
        f.debug_struct("Keepable").field("rule", &rule).field("worth", &worth).finish_non_exhaustive()
    }
}

impl Keepable {
    /// - `sls`: that paths need.
    /// - `largest`: routes on the hottest channel.
    pub(super) fn of(
        objective: &Objective<'_>,
        Priced { plan, lost, detours, .. }: &Priced,
        candidate: Option<&Candidate>,
        sls: u8,
        largest: u64,
    ) -> Self {
        let worth = Worth { lost: *lost, reference: objective.reference, largest };
        Self { candidate: candidate.cloned(), ..Self::by_plan(plan, sls, *detours, Some(worth)) }
    }

    /// Of tables without a rule.
    pub(super) fn by_plan(plan: &Plan, sls: u8, detours: f64, worth: Option<Worth>) -> Self {
        let Plan { sl2vl, path_sl, vls, trees, .. } = plan;
        let lanes = Lanes { sl2vl: sl2vl.clone(), path_sl: path_sl.clone(), vls: *vls, sls };
        Self { candidate: None, in_order: false, worth, detours, lanes, trees: trees.clone(), links: None }
    }

    /// Whether tables are nearly as good as these.
    pub(super) fn matched_by(&self, kept: &Priced) -> bool {
        kept.lost <= self.worth.map_or(0.0, |worth| worth.lost) + KEPT
    }
}

impl Lineage {
    /// The same, but later tables cannot keep to those that were made anew.
    pub(in crate::engine) fn kept_or_single(self) -> Self {
        match self {
            Self::First(_) => Self::Single,
            lineage => lineage,
        }
    }

    /// The same for tables of `fabric` that use only `links`.
    pub(in crate::engine) fn over(self, fabric: &Fabric, links: &Fabric) -> Self {
        match self {
            Self::First(keepable) if keepable.links.is_none() && !std::ptr::eq(fabric, links) => {
                Self::First(Box::new(Keepable { links: Some(links.clone()), ..*keepable }))
            }
            lineage => lineage,
        }
    }
}
