//! What failures would cost: each is applied to a copy of the fabric, the rest is routed again, judged and
//! measured, and compared with the tables before.
//!
//! ```text
//! Failure ──> damage (the fabric that is left) ──> engine::route_after ──> evaluate ──┐
//!    │                                                         ├──> changes (blocks) ─┼─> Row ──> Summary
//!    │                                                         └──> reconfigure::plan ┤
//!    └──> cut (pairs that lose their path until then) ────────────────────────────────┘
//! ```

mod changes;
mod cut;
mod damage;
mod failure;
mod summary;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use serde::{Deserialize, Serialize};

use self::changes::Changes;
use self::damage::Damage;
use crate::engine::{self, Baseline, Settings};
use crate::evaluate::{Earlier, Options, evaluate_after};
use crate::fabric::Fabric;
use crate::reconfigure::{self, plan};
use crate::tables::{Routes, Transition};

pub use failure::{Failure, UnknownPart, find, links, pairs, switches};
pub use summary::{Extremes, Summary};

/// What one failure costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What fails, as text.
    pub failed: String,
    /// Hosts (adapters and routers) that lose all their links to the part of the fabric that goes on: the one
    /// with most adapter ports.
    pub cut_off: u64,
    /// Those of them that have a link to a switch that does not fail.
    pub cut_off_beyond: u64,
    /// Ordered pairs of adapter ports that lose their path until the fabric is routed again. Pairs of the
    /// ports that are cut off are among them.
    pub pairs_cut: u64,
    /// The tables after it; `None` if there are none.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no tables.
    pub error: Option<String>,
}

/// The tables after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// VLs in use between adapters.
    pub vls: u32,
    /// SLs in use between adapters.
    pub sls: u32,
    /// Share of the adapter pairs on longer paths than the damaged fabric has.
    pub nonminimal_share: f64,
    /// Effective bisection bandwidth among the adapters that are left, as a share of the full one.
    pub ebb: f64,
    /// The largest number of routes on a channel.
    pub edge_forwarding_index: u64,
    /// Blocks of 64 forwarding entries that differ, over the switches that are left: what a subnet manager
    /// sends. A LID that is gone has entries without a path.
    pub lft_blocks: u64,
    /// SL2VL rows that differ, of ports that have a link before and after.
    pub sl2vl_rows: u64,
    /// The way there from the tables before.
    pub transition: Way,
}

/// The way from some tables to others, as the plugin goes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Steps between which all switches acknowledge their tables.
    pub steps: u64,
    /// Whether each of them is free of credit loops, whatever arrives first.
    pub proven: bool,
    /// Entries that drop their packets for a step, beside those over the failed part.
    pub dropped_entries: u64,
}

impl Way {
    /// Cost: that of [`reconfigure::plan`].
    fn between(fabric: &Fabric, before: &Routes, left: &Fabric, after: &Routes, settings: &Settings) -> Self {
        let transition = Transition::between(fabric, before, left, after);
        let max_steps = settings.transition_steps.into();
        let planned = plan(left, &transition, reconfigure::Options { max_steps, ..Default::default() });
        Self {
            steps: planned.plan.steps.len() as u64,
            proven: planned.is_proven(),
            dropped_entries: planned.dropped_entries as u64,
        }
    }
}

/// A fabric, its tables, and how to route what is left of it.
#[derive(Clone, Copy, Debug)]
pub struct WhatIf<'a> {
    /// The fabric before.
    pub fabric: &'a Fabric,
    /// Its tables, of any engine.
    pub before: &'a Routes,
    /// What the tables after a failure keep to, as in the plugin.
    pub baseline: Option<&'a Baseline>,
    /// The engine for the damaged fabric.
    pub settings: &'a Settings,
    /// How the bandwidth is measured.
    pub options: Options,
}

impl WhatIf<'_> {
    /// What one failure costs.
    ///
    /// Cost: that of [`route_after`](engine::route_after) and [`evaluate`](crate::evaluate::evaluate()), and O(D S) with D
    /// LIDs and S switches.
    ///
    /// # Panics
    /// If the tables were made for another fabric.
    pub fn row(&self, failure: &Failure) -> Row {
        self.row_after(failure, None)
    }

    /// - `earlier`: the tables before, if their routes have been counted.
    fn row_after(&self, failure: &Failure, earlier: Option<&Earlier<'_>>) -> Row {
        let damage = Damage::of(self.fabric, failure);
        let (figures, error) = match self.figures(&damage, earlier) {
            Ok(figures) => (Some(figures), None),
            Err(error) => (None, Some(error)),
        };
        Row {
            failed: failure.describe(self.fabric),
            cut_off: damage.cut_off,
            cut_off_beyond: damage.cut_off_beyond,
            pairs_cut: cut::pairs(self.fabric, &self.before.lft, failure),
            figures,
            error,
        }
    }

    fn figures(&self, damage: &Damage, earlier: Option<&Earlier<'_>>) -> Result<Figures, String> {
        let left = damage.fabric.as_ref().map_err(ToString::to_string)?;
        let routed =
            engine::route_after(left, self.settings, self.baseline).map_err(|error| error.to_string())?;
        if !routed.verdict.is_safe() {
            return Err(format!("{} may deadlock", self.settings.engine));
        }
        let measured = evaluate_after(left, &routed.routes, &self.options, earlier);
        let measured = measured.map_err(|error| error.to_string())?;
        let changes = Changes::between(self.before, left, &routed.routes, &damage.switches);
        Ok(Figures {
            vls: routed.verdict.vls,
            sls: routed.verdict.sls,
            nonminimal_share: routed.verdict.nonminimal_share,
            ebb: measured.bisection.ebb,
            edge_forwarding_index: measured.load.edge_forwarding_index,
            lft_blocks: changes.lft_blocks,
            sl2vl_rows: changes.sl2vl_rows,
            transition: Way::between(self.fabric, self.before, left, &routed.routes, self.settings),
        })
    }

    /// Rows of all failures in their order; `None` for those that `stop` came before. Calls `done` after each
    /// row, from any thread.
    ///
    /// As many failures are worked on at once as there are threads in rayon's pool; each has one thread, or
    /// more where there are fewer failures.
    ///
    /// # Errors
    /// Threads cannot be started.
    ///
    /// Cost: that of [`row`](Self::row) for each; the memory of as many as are worked on at once.
    pub fn rows(
        &self,
        failures: &[Failure],
        stop: &(dyn Fn() -> bool + Sync),
        done: &(dyn Fn() + Sync),
    ) -> Result<Vec<Option<Row>>, ThreadPoolBuildError> {
        let earlier = Earlier::new(self.fabric, &self.before.lft, &self.options);
        let threads = rayon::current_num_threads();
        let workers = threads.min(failures.len()).max(1);
        // A pool for each worker: a thread of a common pool that waits for a part of its own work would begin
        // another failure meanwhile, and hold the memory of both.
        let pool = |_| ThreadPoolBuilder::new().num_threads(threads / workers).build();
        let pools: Vec<ThreadPool> = (0..workers).map(pool).collect::<Result<_, _>>()?;
        let next = AtomicUsize::new(0);
        let rows = Mutex::new(vec![None; failures.len()]);
        let work = |pool: &ThreadPool| {
            while let Some((at, failure)) = Some(next.fetch_add(1, Ordering::Relaxed))
                .and_then(|at| Some((at, failures.get(at)?)))
                .filter(|_| !stop())
            {
                let row = pool.install(|| self.row_after(failure, earlier.as_ref()));
                rows.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(row);
                done();
            }
        };
        thread::scope(|scope| pools.iter().for_each(|pool| drop(scope.spawn(|| work(pool)))));
        Ok(rows.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}
