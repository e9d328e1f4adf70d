//! Who goes where: one routing algorithm a file, each from a fabric and its hop distances to
//! forwarding tables. None of them knows of virtual lanes.

mod apot;
mod apot_matrix;
mod bfot;
mod bfot_messages;
mod hill_climb;
mod hops;
mod ordered_paths;
mod ordered_tables;
mod sssp;

use thiserror::Error;

pub use apot::apot;
pub use apot_matrix::ApotMatrix;
pub use bfot::{bfot, bfot_plus};
pub use bfot_messages::BfotMessages;
pub use hill_climb::{Climb, hill_climb};
pub use hops::Hops;
pub use ordered_paths::OrderedPaths;
pub use sssp::sssp;

/// Why a fabric cannot be routed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RoutingError {
    /// Two switches have no way to each other.
    #[error(
        "the fabric is partitioned: no way from {from} to {to}; {reached} of {switches} switches are reached \
         from the first. Check the cables between the parts, or route each part by itself"
    )]
    Partitioned {
        /// A switch.
        from: String,
        /// A switch that it cannot reach.
        to: String,
        /// How many switches it does reach, itself included.
        reached: usize,
        /// All switches.
        switches: usize,
    },
    /// Two switches are farther apart than a hop count can say.
    #[error("from {from} to {to} it is more than {} hops, more than OpenSM can count", Hops::MAX)]
    TooFar {
        /// A switch.
        from: String,
        /// The far switch.
        to: String,
    },
}
