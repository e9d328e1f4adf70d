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

/// What a [`Baseline`](super::Baseline) with one SL is made of, beside its tables.
#[derive(Clone)]
pub struct Keepable {
    /// The rule of the tables; `None` for those that are mended at most.
    pub(super) candidate: Option<Candidate>,
    /// The bandwidth that the tables lose.
    pub(super) lost: f64,
    /// What that is measured by.
    pub(super) reference: Reference,
    /// Share of the adapter pairs on detours.
    pub(super) detours: f64,
    /// Their rows and SLs.
    pub(super) lanes: Lanes,
    pub(super) trees: Option<McastTrees>,
    /// Routes on their hottest channel.
    pub(super) largest: u64,
    /// The links that they use, where these are not all.
    pub(super) links: Option<Fabric>,
}

impl fmt::Debug for Keepable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rule, lost) = (self.candidate.as_ref().map(Candidate::name), self.lost);
        f.debug_struct("Keepable").field("rule", &rule).field("lost", &lost).finish_non_exhaustive()
    }
}

impl Keepable {
    /// Of tables with one SL.
    ///
    /// - `largest`: routes on the hottest channel.
    pub(super) fn of(
        objective: &Objective<'_>,
        Priced { plan, lost, detours, .. }: &Priced,
        candidate: Option<&Candidate>,
        largest: u64,
    ) -> Self {
        let Plan { sl2vl, path_sl, vls, trees, .. } = plan;
        Self {
            candidate: candidate.cloned(),
            lost: *lost,
            detours: *detours,
            reference: objective.reference,
            lanes: Lanes { sl2vl: sl2vl.clone(), path_sl: path_sl.clone(), vls: *vls, sls: 1 },
            trees: trees.clone(),
            largest,
            links: None,
        }
    }

    /// Whether tables are nearly as good as these.
    pub(super) fn matched_by(&self, kept: &Priced) -> bool {
        kept.lost <= self.lost + KEPT
    }
}

impl Lineage {
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
