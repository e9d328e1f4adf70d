//! Orders of the channels, and what a routing has to keep to so that they prevent credit loops.
//!
//! One order a file, each a function from a fabric to a [`Rank`]; a [`Rule`] says with one or more
//! of them which turns a path may take and on which VL.

mod bfs;
mod host_levels;
mod rank;
mod rule;
mod tree;
mod triangles;

pub use bfs::bfs;
pub use host_levels::host_levels;
pub use rank::Rank;
pub use rule::{Labels, Rule};
pub use tree::Tree;
pub use triangles::triangles;
