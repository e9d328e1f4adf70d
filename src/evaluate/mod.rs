//! How good tables are: load and edge-forwarding index, effective bisection bandwidth, path
//! lengths, and what a failed link does.
//!
//! One metric a file. All of them look at *routes*: a route is the way that the tables give to an
//! ordered pair of different adapter end ports (adapters and routers that hang off a switch), from
//! the one to the **base LID** of the other, as switch-to-switch channels. The other LIDs of an LMC
//! range are alternatives: they must lead home too, and only the fault tolerance counts them.
//! Traffic to and from switches is left out. Virtual lanes share the bandwidth of their channel and
//! so change nothing here.

mod bisection;
mod bounds;
mod faults;
mod lengths;
mod load;
mod paths;
#[cfg(test)]
mod tests;
mod trees;

use std::fmt;
use std::num::NonZeroU32;

use serde::Serialize;
use thiserror::Error;

pub use bisection::{Bisection, quick_bisection};
pub use bounds::Bounds;
pub use faults::FaultTolerance;
pub use lengths::PathLengths;
pub use load::ChannelLoad;

use crate::fabric::{Fabric, Lid};
use crate::tables::Routes;

/// What [`evaluate`] may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Random bisect patterns for the effective bisection bandwidth.
    pub patterns: NonZeroU32,
    /// Seed of the patterns.
    pub seed: u64,
}

/// 1000 patterns, seed 1.
impl Default for Options {
    fn default() -> Self {
        Self { patterns: NonZeroU32::MIN.saturating_add(999), seed: 1 }
    }
}

/// All metrics of one set of tables; in JSON one flat object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Routes on each channel, and how evenly.
    #[serde(flatten)]
    pub load: ChannelLoad,
    /// Channels of each route.
    #[serde(flatten)]
    pub lengths: PathLengths,
    /// Bandwidth under random pairs.
    #[serde(flatten)]
    pub bisection: Bisection,
    /// What a failed link does.
    #[serde(flatten)]
    pub faults: FaultTolerance,
}

/// Why tables cannot be judged.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EvaluateError {
    /// There is no pair of adapters to have a route.
    #[error("{adapters} adapter ports hang off a switch: it takes two to have a route to judge")]
    NoPair {
        /// How many there are: 0 or 1.
        adapters: usize,
    },
    /// A route that does not arrive.
    #[error("{source_port} does not reach LID {lid} of {destination}: {reason}")]
    Unreached {
        /// The sender, in words.
        source_port: String,
        /// The receiver, in words.
        destination: String,
        /// The receiver's LID that the sender does not reach.
        lid: Lid,
        /// Where the way ends.
        reason: DeadEnd,
    },
}

/// How a route fails to arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadEnd {
    /// A table without an entry for the LID.
    NoEntry {
        /// The switch, in words.
        switch: String,
    },
    /// An entry that leads neither to the receiver nor to another switch.
    Astray {
        /// The switch, in words.
        switch: String,
        /// The port that the entry names.
        port: u8,
    },
    /// The route comes back to where it has been.
    Loop {
        /// A switch on the loop, in words.
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
            Self::Loop { switch } => write!(f, "it goes round in a loop through {switch}"),
        }
    }
}

/// Routes on each channel alone; see [`evaluate`] for arguments and errors.
///
/// # Errors
/// As [`evaluate`].
///
/// Cost: O(D S).
pub fn channel_load(fabric: &Fabric, routes: &Routes) -> Result<ChannelLoad, EvaluateError> {
    let paths = paths::Paths::new(fabric, &routes.lft)?;
    Ok(ChannelLoad::new(trees::count(&paths)?.load))
}

/// Judges the tables of a fabric.
///
/// - `fabric`: S switches, C channels, P adapter ports with D LIDs.
/// - `routes`: tables that were made for this very fabric. Only the LFTs are looked at.
/// - `options`: N patterns.
///
/// The result is the same to the last bit for any number of threads.
///
/// # Errors
/// [`EvaluateError`]; of several routes that do not arrive, the one to the first destination and
/// then from the first source in port GUID order.
///
/// # Panics
/// May panic if the tables were made for another fabric.
///
/// Cost, over all cores: O(D S) for load and lengths, O(N (P h + C)) for the bisection bandwidth,
/// O(D S h) for the fault tolerance where there are alternatives, with routes of h channels;
/// O(P + C) memory a thread.
pub fn evaluate(fabric: &Fabric, routes: &Routes, options: &Options) -> Result<Evaluation, EvaluateError> {
    let paths = paths::Paths::new(fabric, &routes.lft)?;
    let counts = trees::count(&paths)?;
    let faults = FaultTolerance::new(&paths, &counts.load);
    Ok(Evaluation {
        load: ChannelLoad::new(counts.load),
        lengths: PathLengths::new(counts.hops),
        bisection: Bisection::new(&paths, options),
        faults,
    })
}
