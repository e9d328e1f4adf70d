//! Who goes where: one routing algorithm a file, each from a fabric and its hop distances to
//! forwarding tables. None of them hands out virtual lanes.

mod apot;
mod apot_matrix;
mod ascending;
mod bfot;
mod bfot_messages;
mod bisection;
mod dag;
mod dependencies;
mod hill_climb;
mod hops;
mod label_search;
mod legal;
mod minhop;
mod multicast;
mod ordered_paths;
mod ordered_tables;
mod outward;
mod p2sssp;
mod port0;
mod rank_search;
mod ranked_sssp;
mod sssp;
mod stable;
#[cfg(test)]
mod tests;
mod updn_trees;
mod ways;

use thiserror::Error;

use crate::fabric::{EndPort, Fabric, PortNum, SwitchId};

pub use apot::apot;
pub use apot_matrix::ApotMatrix;
pub use bfot::{bfot, bfot_plus};
pub use bfot_messages::BfotMessages;
pub use bisection::bisection;
pub use hill_climb::{Climb, hill_climb};
pub use hops::Hops;
pub use label_search::{LabelSearch, search_labels};
pub use legal::Lookahead;
pub use minhop::minhop;
pub use multicast::{KnownOrder, McastTrees, mcast_trees};
pub use ordered_paths::OrderedPaths;
pub use p2sssp::{P2SSSP_LIMIT, p2sssp};
pub use rank_search::search_rank;
pub use ranked_sssp::{Probe, Ranked, Stuck, probe, probe_all, ranked_sssp};
pub use sssp::sssp;
pub use stable::{has_core_switches, stable_sssp};
pub use updn_trees::{UpDnTrees, updn_trees};

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
    /// An algorithm would take far longer than anyone waits for a fabric to come up.
    #[error(
        "{method} would look at about {work} channels on this fabric, and {limit} is where it stops being \
         worth the wait. Choose {instead}"
    )]
    TooMuchWork {
        /// The algorithm.
        method: &'static str,
        /// Channels to look at, estimated.
        work: u64,
        /// The most that is done.
        limit: u64,
        /// What to choose.
        instead: &'static str,
    },
}

/// The end ports on a switch with the switch's ports to them, in the order in which they are routed:
/// adapters in port GUID order, then port 0.
fn ends_on(fabric: &Fabric, switch: SwitchId) -> Vec<(&EndPort, PortNum)> {
    let ends = fabric.endports_on(switch).iter().map(|&e| fabric.endport(e));
    let mut ends: Vec<_> = ends.filter_map(|e| e.attachment.map(|(_, port)| (e, port))).collect();
    ends.sort_by_key(|(e, _)| !e.is_adapter());
    ends
}

/// The switches with adapters, and those without.
fn with_and_without_adapters(fabric: &Fabric) -> (Vec<SwitchId>, Vec<SwitchId>) {
    fabric.switch_ids().partition(|&s| fabric.num_adapters_on(s) > 0)
}

/// How many adapter end ports each switch has.
fn adapters_by_switch(fabric: &Fabric) -> Vec<u64> {
    fabric.switch_ids().map(|s| fabric.num_adapters_on(s) as u64).collect()
}
