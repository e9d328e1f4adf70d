//! The one objective: what an administrator gives up for what.
//!
//! A price is a share of bandwidth; less is better. The tables of P-SSSP without VLs and without a rule are the
//! measure: they cost nothing.
//!
//! | what | price |
//! |---|---|
//! | all-to-all bandwidth | half of ln(largest load / that of P-SSSP) |
//! | bisection bandwidth | half of ln(that of P-SSSP / that of the tables) |
//! | detours | the share of the adapter pairs |
//! | a VL | [`VL_PRICE`] |
//! | more than one SL | the setting `max_loss`: hosts have to query PathRecords |
//! | tables that a failed link changes all over | [`STABILITY`] |
//!
//! So a tenth more load on the hottest channel costs about 5 % of bandwidth, as a tenth less bandwidth in
//! bisections does. Detours of some tenths of a percent cost as little as they hurt. A gain is a negative price.

use super::Task;
use super::tuning::VL_PRICE;
use crate::engine::Traffic;
use crate::evaluate::quick_bisection;
use crate::fabric::Fabric;
use crate::ordering::Rule;
use crate::routing::Hops;
use crate::routing::{Forwarding, Lookahead, NoLegalPath, ranked_sssp};

/// What P-SSSP without a rule comes to, by which tables are judged.
pub(super) struct Reference {
    /// Its largest load: routes on a channel.
    pub(super) load: u64,
    /// See [`quick_bisection`].
    bandwidth: f64,
}

impl Reference {
    /// Cost: that of [`ranked_sssp`].
    pub(super) fn new(fabric: &Fabric, hops: &Hops) -> Self {
        let plain = ranked_sssp(fabric, hops, &Rule::Any, Lookahead::Every, NoLegalPath::Break);
        Self { load: largest(&plain), bandwidth: quick_bisection(fabric, &plain.lft) }
    }
}

fn largest(forwarding: &Forwarding) -> u64 {
    forwarding.load.iter().copied().max().unwrap_or(0)
}

/// What tables come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// Largest load of P-SSSP over the largest load: what an all-to-all gains, or loses below 1.
    all_to_all: f64,
    /// Effective bisection bandwidth over that of P-SSSP.
    pub(super) bisection: f64,
    /// Share of the adapter pairs on detours.
    detours: f64,
}

impl Measured {
    /// P-SSSP without a rule.
    pub(super) const REFERENCE: Self = Self { all_to_all: 1.0, bisection: 1.0, detours: 0.0 };

    pub(super) fn new(task: Task<'_>, forwarding: &Forwarding) -> Self {
        let ratio = |a: f64, b: f64| if a > 0.0 && b > 0.0 { a / b } else { 1.0 };
        Self {
            all_to_all: ratio(task.reference.load as f64, largest(forwarding) as f64),
            bisection: ratio(quick_bisection(task.fabric, &forwarding.lft), task.reference.bandwidth),
            detours: forwarding.nonminimal_share(),
        }
    }

    /// The price of the tables with as many VLs and SLs.
    pub(super) fn price(&self, task: Task<'_>, vls: u8, sls: u8) -> f64 {
        let (all_to_all, bisection) = match task.settings.traffic {
            Traffic::Both => (0.5, 0.5),
            Traffic::AllToAll => (1.0, 0.0),
            Traffic::Bisection => (0.0, 1.0),
        };
        let queries = if sls > 1 { task.settings.max_loss } else { 0.0 };
        self.detours - all_to_all * self.all_to_all.ln() - bisection * self.bisection.ln()
            + VL_PRICE * f64::from(vls)
            + queries
    }
}
