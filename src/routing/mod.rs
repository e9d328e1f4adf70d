//! Who goes where: one routing algorithm a file, each from a fabric and its hop distances to
//! forwarding tables. None of them hands out virtual lanes.

mod hops;
mod label_search;
mod legal;
mod outward;
mod ranked_sssp;
mod sssp;

use thiserror::Error;

pub use hops::Hops;
pub use label_search::{LabelSearch, search_labels};
pub use legal::Lookahead;
pub use ranked_sssp::{Probe, Ranked, Stuck, probe, ranked_sssp};
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
