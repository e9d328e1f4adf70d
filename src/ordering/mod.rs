//! Channel orders: which channel may follow which along a path, so that no path of any pair closes
//! a credit loop.

mod layers;
mod ordered_trees;
mod up_down;

pub use layers::Layers;
pub use ordered_trees::{LinkSort, ordered_trees};
pub use up_down::up_down;
