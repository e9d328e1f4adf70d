//! The paths of an adapter's LIDs after the first.

use super::words::words;

words! {
    /// The paths of an adapter's LIDs after the first, in the engine `dfdn`. In words `auto`, `minimal` and `diverse`.
    pub enum Layers {
        /// [`Minimal`](Self::Minimal) in trees and where shortest paths are preferred, else [`Diverse`](Self::Diverse).
        #[default]
        Auto = "auto",
        /// Shortest paths, with as few links in common as these allow.
        Minimal = "minimal",
        /// At most one hop longer, between adjacent switches up to four hops, where that saves common links.
        Diverse = "diverse",
    }
}
