//! Quality of tables: load and edge-forwarding index, effective bisection bandwidth, path lengths,
//! and what a failed link costs.
//!
//! One metric per file. All metrics are about *routes*. A route is the path that the tables give an
//! ordered pair of different adapter end ports (adapters and routers attached to a switch), from
//! the first to the **base LID** of the second, as switch-to-switch channels. The other LIDs of an
//! LMC range are alternatives: they must be reachable too, but only the fault tolerance counts
//! them, unless each pair draws one ([`LidChoice`]). Traffic to and from switches is left out. Virtual
//! lanes share the bandwidth of their channel, so they make no difference here.

mod adversarial;
mod alternatives;
mod bisection;
mod bounds;
mod by_role;
mod earlier;
mod faults;
mod lengths;
mod load;
mod multipath;
mod paths;
mod shift;
#[cfg(test)]
mod tests;
mod times;
mod trees;

use std::fmt;
use std::num::NonZeroU32;

use serde::Serialize;
use thiserror::Error;

pub use adversarial::worst_pairs;
pub use alternatives::{Alternatives, path_difference};
pub use bisection::Bisection;
pub use bounds::Bounds;
pub use by_role::{ByRole, ClassFigures};
pub use earlier::Earlier;
pub use faults::FaultTolerance;
pub use lengths::PathLengths;
pub use load::ChannelLoad;
pub use multipath::{Distance, Multipath, Pattern};
pub use shift::Shift;

use crate::fabric::{Fabric, Lid};
use crate::tables::{Lft, Routes};

/// Options of [`evaluate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Random bisect patterns for the effective bisection bandwidth.
    pub patterns: NonZeroU32,
    /// Seed of the patterns, and of the LIDs drawn.
    pub seed: u64,
    /// The LIDs that pairs use.
    pub lids: LidChoice,
}

/// To which LID of a receiver with several LIDs a sender's route leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LidChoice {
    /// The base LID.
    #[default]
    Base,
    /// One with the shortest path, drawn at random once per pair (Flich et al., section 4: the path is drawn from the
    /// shortest ones of all trees).
    Shortest,
}

/// 1000 patterns, seed 1, base LIDs.
impl Default for Options {
    fn default() -> Self {
        Self { patterns: NonZeroU32::MIN.saturating_add(999), seed: 1, lids: LidChoice::Base }
    }
}

/// All metrics of one set of tables; in JSON one flat object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Number of routes on each channel, and its spread.
    #[serde(flatten)]
    pub load: ChannelLoad,
    /// Lengths of the routes.
    #[serde(flatten)]
    pub lengths: PathLengths,
    /// Bandwidth under random bisect patterns.
    #[serde(flatten)]
    pub bisection: Bisection,
    /// What a failed link costs.
    #[serde(flatten)]
    pub faults: FaultTolerance,
}

/// Why tables cannot be evaluated.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EvaluateError {
    /// There are not two adapters, so there is no route.
    #[error("{adapters} adapter ports are attached to a switch; an evaluation needs at least two")]
    NoPair {
        /// Number of adapter ports: 0 or 1.
        adapters: usize,
    },
    /// A route that does not reach its destination.
    #[error("{source_port} does not reach LID {lid} of {destination}: {reason}")]
    Unreached {
        /// The sender, as text.
        source_port: String,
        /// The receiver, as text.
        destination: String,
        /// The receiver's LID that the sender does not reach.
        lid: Lid,
        /// Why the route ends.
        reason: DeadEnd,
    },
}

/// How a route fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadEnd {
    /// A table without an entry for the LID.
    NoEntry {
        /// The switch, as text.
        switch: String,
    },
    /// An entry for a port that leads neither to the receiver nor to a switch.
    Astray {
        /// The switch, as text.
        switch: String,
        /// The port that the entry names.
        port: u8,
    },
    /// A route that visits a switch twice.
    Loop {
        /// A switch on the loop, as text.
        switch: String,
    },
}

impl fmt::Display for DeadEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEntry { switch } => write!(f, "{switch} has no entry for it"),
            Self::Astray { switch, port } => {
                write!(f, "{switch} sends it out of port {port}, which leads neither there nor to a switch")
            }
            Self::Loop { switch } => write!(f, "it loops through {switch}"),
        }
    }
}

/// Only the number of routes on each channel; see [`evaluate`] for arguments and errors.
///
/// # Errors
/// As [`evaluate`].
///
/// Cost: O(D S).
pub fn channel_load(fabric: &Fabric, routes: &Routes) -> Result<ChannelLoad, EvaluateError> {
    let paths = paths::Paths::new(fabric, &routes.lft)?;
    Ok(ChannelLoad::new(fabric.weights(), trees::count(&paths)?.load))
}

/// The largest load of a channel: routes over its rate, in units of the fastest channel.
///
/// # Errors
/// As [`evaluate`].
///
/// Cost: O(D S).
pub(crate) fn largest_load(fabric: &Fabric, lft: &Lft) -> Result<u64, EvaluateError> {
    let paths = paths::Paths::new(fabric, lft)?;
    let routes = trees::count(&paths)?.load;
    let weighted = routes.iter().zip(fabric.weights().by_channel()).map(|(n, &weight)| n * u64::from(weight));
    Ok(weighted.max().unwrap_or(0))
}

/// Evaluates the tables of a fabric.
///
/// - `fabric`: S switches, C channels, P adapter ports with D LIDs.
/// - `routes`: tables made for this very fabric. Only the LFTs are used.
/// - `options`: N patterns.
///
/// The result is the same to the last bit for any number of threads.
///
/// # Errors
/// [`EvaluateError`]; of several failing routes, the one to the first destination, and of these the
/// one from the first source, in port GUID order.
///
/// # Panics
/// May panic if the tables were made for another fabric.
///
/// Cost, over all cores: O(D S) for load and lengths, O(N (P h + C)) for the bisection bandwidth,
/// O(D S h) for the fault tolerance if there are alternatives, with routes of h channels; O(P + C)
/// memory per thread. Drawn LIDs cost O((P + N) D h) more.
pub fn evaluate(fabric: &Fabric, routes: &Routes, options: &Options) -> Result<Evaluation, EvaluateError> {
    evaluate_after(fabric, routes, options, None)
}

/// As [`evaluate`], with less work where most entries are those of earlier tables.
///
/// # Errors
/// Those of [`evaluate`].
pub fn evaluate_after(
    fabric: &Fabric,
    routes: &Routes,
    options: &Options,
    earlier: Option<&Earlier<'_>>,
) -> Result<Evaluation, EvaluateError> {
    let mut paths = paths::Paths::new(fabric, &routes.lft)?;
    let later = earlier.and_then(|earlier| earlier.later(&paths));
    let mut counts = match &later {
        Some(later) => later.counts.clone(),
        None => trees::count(&paths)?,
    };
    if options.lids == LidChoice::Shortest {
        paths.drawn = Some(options.seed);
        counts = trees::count_drawn(&paths);
    }
    let later = later.filter(|_| options.lids == LidChoice::Base);
    let faults = FaultTolerance::new(&paths, &counts.load);
    Ok(Evaluation {
        load: ChannelLoad::new(fabric.weights(), counts.load),
        lengths: PathLengths::new(counts.hops),
        bisection: Bisection::new(&paths, options, later.as_ref().map(|later| &later.routes)),
        faults,
    })
}

/// Like [`Bisection::ebb`], over fewer patterns, always the same: for an engine that chooses
/// between tables. NaN with fewer than two adapters. Where adapters have roles, the mean over both kinds of traffic.
///
/// - `lft`: tables that lead every adapter to every other.
///
/// Cost: as for [`evaluate`], O(P h + C) for each of at most 400 patterns; fewer patterns with many adapters.
pub fn quick_bisection(fabric: &Fabric, lft: &Lft) -> f64 {
    let Ok(paths) = paths::Paths::new(fabric, lft) else { return f64::NAN };
    if fabric.has_duties() { by_role::quick(&paths) } else { bisection::quick(&paths) }
}
