//! Routing under a [`Rule`](crate::ordering::Rule): balanced by load, destination by destination, with
//! detours where the rule leaves no minimal path, and the search for the labels of a rule.

mod earlier;
mod in_tree;
mod keep;
mod label_search;
pub(super) mod label_sets;
mod levels;
pub(super) mod load_walk;
pub(super) mod paths;
pub(super) mod port0;
mod probe;
mod ranked_sssp;
mod relieve;
mod reroute;

pub use in_tree::{base_detours, detours_to};
pub use keep::{keep_paths, lower_unused, raise_unused};
pub use label_search::{RuleSearch, Worth, search_labels, search_rank};
pub use load_walk::Lookahead;
pub use probe::{Probe, probe, probe_all, probe_within};
pub use ranked_sssp::{Forwarding, NoLegalPath, ranked_sssp};
pub use relieve::{Hot, Relief, relieve};
