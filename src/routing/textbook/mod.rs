//! Routing algorithms from the literature, one a file, each from a fabric to forwarding tables.

mod apot;
mod bfot;
mod hill_climb;
mod least_loaded;
mod minhop;
mod ordered_paths;
mod ordered_tables;
mod p2sssp;
mod sssp;
mod updn_trees;

pub use apot::apot;
pub use bfot::{bfot, bfot_plus};
pub use hill_climb::{Climb, Picks, hill_climb};
pub use minhop::minhop;
pub use ordered_paths::OrderedPaths;
pub use p2sssp::{P2SSSP_LIMIT, PairOrder, p2sssp};
pub use sssp::{sssp, sssp_of_any_length, sssp_to_adapters, sssp_with_load};
pub use updn_trees::{UpDnTrees, updn_roots, updn_trees, updn_trees_from};

#[cfg(test)]
pub(super) use p2sssp::within as p2sssp_within;
