//! Tables between their computation and the moment when OpenSM takes them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::fault::Faults;
use crate::engine::Routed;
use crate::fabric::{Fabric, Guid};

/// Computed tables that OpenSM does not have yet.
pub(super) struct Pending {
    pub(super) fabric: Fabric,
    /// GUIDs of switches and adapter ports that are left out, ascending.
    pub(super) left_out: (Vec<Guid>, Vec<Guid>),
    /// The faults that were taken into account.
    pub(super) faults: Faults,
    pub(super) routed: Routed,
    pub(super) started: Instant,
    /// Time of the snapshot.
    pub(super) reading: Duration,
    /// Time to plan the way from the tables before.
    pub(super) planning: Duration,
    /// Time of the lid matrix and the forwarding tables.
    pub(super) writing: Duration,
    /// What the log says of the way to these tables.
    pub(super) transition: Option<String>,
    /// Where a line of JSON goes.
    pub(super) sweep_log: Option<PathBuf>,
}

/// `12 switches, 48 adapters, 72 links: DF-D2 ..., 2 VLs, 1 SL, ...; 3.1 ms`.
pub(super) fn summary(pending: &Pending) -> String {
    let Pending { fabric, routed, started, reading, planning, writing, .. } = pending;
    let verdict = &routed.verdict;
    format!(
        "{fabric}: {}; {} of {} VLs, {} SLs, verified: every pair reachable, deadlock-free{}; safe if hosts use: {}; \
         {:.3} s from snapshot to commit ({:.3} s reading, {:.3} s computing, {:.3} s verifying, \
         {:.3} s planning the way, {:.3} s writing)",
        routed.routes.remarks.join("; "),
        verdict.vls_all,
        routed.limits.vls,
        verdict.sls_all,
        if verdict.multicast.is_some() { " together with multicast" } else { "" },
        routed.safety.describe(),
        started.elapsed().as_secs_f64(),
        reading.as_secs_f64(),
        routed.computing.as_secs_f64(),
        routed.judging.as_secs_f64(),
        planning.as_secs_f64(),
        writing.as_secs_f64(),
    )
}
