//! Orders of the channels, and what a routing has to keep to so that they prevent credit loops.
//!
//! One order a file. A [`Rank`] is a strict order of all channels and a [`Rule`] says with one or
//! more of them which turns a path may take and on which VL; [`Layers`] are the ordered trees of
//! Chiu et al.
//!
#![doc = include_str!("ordered_links.md")]

mod bfs;
mod dimensions;
mod feedback;
mod host_levels;
mod lane_order;
mod layers;
mod ordered_trees;
mod rank;
mod rule;
mod tree;
mod triangles;
mod up_down;

pub use bfs::bfs;
pub use dimensions::Dimensions;
pub use feedback::{Want, feedback};
pub use host_levels::host_levels;
pub use lane_order::LaneOrder;
pub use layers::Layers;
pub use ordered_trees::{LinkSort, ordered_trees};
pub use rank::Rank;
pub use rule::{Labels, Rule};
pub use tree::Tree;
pub(crate) use triangles::common_neighbours;
pub use triangles::triangles;
pub use up_down::up_down;
