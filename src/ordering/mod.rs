//! Orders of the channels, and what a routing has to obey so that they prevent credit loops.
//!
//! One order a file. A [`Rank`] is a strict order of all channels. A [`Rule`] says with one or more ranks
//! which turns a path may take and on which VL. [`Layers`] are the ordered trees of Chiu et al.
//!
#![doc = include_str!("ordered_links.md")]

mod acyclic;
mod by_triangles;
mod datelines;
mod dimensions;
mod grid;
mod host_levels;
mod late_turns;
mod layers;
mod leaf_links_last;
mod ordered_trees;
mod rank;
mod rule;
mod sift;
mod staggered_cuts;
mod tree;
mod up_down_layers;
mod up_down_rank;
mod virtual_channel_order;

pub use acyclic::{Acyclic, Edges, TopologicalOrder};
pub(crate) use by_triangles::common_neighbours;
pub use by_triangles::global_links_first;
pub use datelines::Datelines;
pub use dimensions::Dimensions;
pub use grid::{Dimension, Grid};
pub use host_levels::host_levels;
pub use late_turns::late_turns;
pub use layers::Layers;
pub use leaf_links_last::leaf_links_last;
pub use ordered_trees::{LinkSort, ordered_trees};
pub use rank::Rank;
pub(crate) use rank::positions;
pub use rule::{AnyTurn, Ascending, AscendingAfterFirst, Labels, Predecessors, Rule, Turns};
pub use sift::{Precedence, sift};
pub use staggered_cuts::{Axis, SpanningTree, StaggeredCuts, inevitable_detours};
pub use tree::Tree;
pub use up_down_layers::up_down_layers;
pub use up_down_rank::{up_down_from, up_down_rank};
pub use virtual_channel_order::VirtualChannelOrder;
