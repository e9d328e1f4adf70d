//! Routing: from a fabric and its hop distances to forwarding tables. No virtual lanes are assigned here. Load counts
//! over the rate of a channel ([`Weights`](crate::fabric::Weights)).
//!
//! - [`Hops`] and the minimal-path DAG: what all algorithms start with.
//! - `textbook`: algorithms from the literature ([`minhop`], [`sssp`], [`p2sssp`], [`updn_trees`], [`apot`],
//!   [`bfot`], [`bfot_plus`]), and [`hill_climb`], which balances the tables of any of them.
//! - `under_rule`: P-SSSP under a [`Rule`](crate::ordering::Rule) ([`ranked_sssp`]), what a rule costs
//!   ([`probe`]), and the search for its labels ([`search_labels`]).
//! - `grid`: tori and meshes: dimension order, whole and damaged ([`grid_routes`], [`LabelledGrid`]), and one SL
//!   ([`staggered_routes`]).
//! - `stable`: tables of which a failed link changes few entries ([`stable_sssp`]).
//! - `beyond_rule`: detours made shortest and load levelled where the dependencies that packets have allow it
//!   ([`refit`]).
//! - `mend`: earlier tables without what is gone, so that the way to them and back is free of credit loops
//!   ([`Mending`]).
//! - `layers`: paths of their own for the further LIDs of an adapter ([`layered`]).

mod beyond_rule;
mod demand;
mod grid;
mod hops;
mod layers;
mod mend;
mod minimal_dag;
mod stable;
#[cfg(test)]
mod tests;
mod textbook;
mod turn_pairs;
mod under_rule;

use thiserror::Error;

use crate::fabric::{EndPort, Fabric, PortNum, SwitchId};

pub use beyond_rule::{Ascent, Effort, complete, refit};
pub use grid::{
    FirstOrder, GridRoutes, LabelledGrid, LabelledRoutes, LabelledSettings, grid_routes, staggered_routes,
};
pub use hops::Hops;
pub use layers::{Stretch, layered};
pub use mend::{Choice, Mended, Mending, PreparedMending, Senders, Usage};
pub use stable::{even_split_load, has_core_switches, stable_sssp};
pub use textbook::{
    Climb, OrderedPaths, P2SSSP_LIMIT, PairOrder, Picks, UpDnTrees, apot, bfot, bfot_plus, hill_climb,
    minhop, p2sssp, sssp, sssp_of_any_length, sssp_to_adapters, sssp_with_load, updn_roots, updn_trees,
    updn_trees_from,
};
pub use under_rule::{
    Forwarding, Hot, Lookahead, NoLegalPath, Probe, Relief, RuleSearch, Worth, base_detours, detours_to,
    keep_paths, lower_unused, probe, probe_all, probe_within, raise_unused, ranked_sssp, relieve,
    search_labels, search_rank,
};

/// Why a fabric cannot be routed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RoutingError {
    /// There is nothing to route.
    #[error("there is no switch")]
    NoSwitch,
    /// Two switches have no path to each other.
    #[error(
        "the fabric is partitioned: no path from {from} to {to}; {reached} of {switches} switches are reached \
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
    /// An algorithm would take much longer than a fabric may wait for its tables.
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

/// The switches with adapters and those without.
fn with_and_without_adapters(fabric: &Fabric) -> (Vec<SwitchId>, Vec<SwitchId>) {
    fabric.switch_ids().partition(|&s| fabric.num_adapters_on(s) > 0)
}

/// The hops of a switch that are not counted yet.
const UNCOUNTED: u16 = u16::MAX;

/// Counts the hops of all paths to one destination. A switch on a loop, or before one, stays uncounted.
///
/// - `hops`: by switch; what is counted already is where paths end.
/// - `ahead`: where a switch that is not counted sends packets.
///
/// Cost: O(S) with S switches.
fn count_hops(hops: &mut [u16], ahead: impl Fn(SwitchId) -> SwitchId) {
    let mut trail = Vec::new();
    for s in (0..hops.len()).map(SwitchId::at) {
        let mut at = s;
        while hops[at.index()] == UNCOUNTED && trail.len() < hops.len() {
            trail.push(at);
            at = ahead(at);
        }
        let mut behind = hops[at.index()];
        if behind == UNCOUNTED {
            trail.clear();
        }
        while let Some(s) = trail.pop() {
            behind += 1;
            hops[s.index()] = behind;
        }
    }
}

/// How many adapter end ports each switch has.
fn adapters_by_switch(fabric: &Fabric) -> Vec<u64> {
    fabric.switch_ids().map(|s| fabric.num_adapters_on(s) as u64).collect()
}
