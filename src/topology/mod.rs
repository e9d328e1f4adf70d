//! One seeded generator of fabrics a file, and faults to damage them with.

mod coordinates;
mod dragonfly;
mod error;
mod fat_tree;
mod galois;
mod mesh;
mod plan;
#[cfg(test)]
mod probe;
mod ring;
mod slim_fly;
mod torus;
mod xgft;

pub use dragonfly::Dragonfly;
pub use error::TopologyError;
pub use fat_tree::FatTree;
pub use mesh::Mesh;
pub use ring::Ring;
pub use slim_fly::SlimFly;
pub use torus::Torus;
pub use xgft::Xgft;
