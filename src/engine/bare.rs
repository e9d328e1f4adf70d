//! What the settings of the bare routings may be.

use super::words::words;

words! {
    /// What a channel weighs in P-SSSP beside its routes (Hoefler et al., section III.A). In words `minimal` and `one`.
    pub enum Weights {
        /// P^2 with P end ports, so that no path is longer than minimal.
        #[default]
        Minimal = "minimal",
        /// 1: paths avoid channels with many routes, if need be over more hops.
        One = "one",
    }
}

words! {
    /// In which order P²-SSSP takes the pairs. In words `guid` and `random`.
    pub enum Pairs {
        /// In the order of GUIDs.
        #[default]
        Guid = "guid",
        /// In an order drawn at random, by [`Settings::draw_seed`](super::Settings::draw_seed).
        Random = "random",
    }
}
