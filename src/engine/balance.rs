//! How the engine `dfdn` balances, and for which traffic.

use super::words::words;

words! {
    /// How the engine `dfdn` balances. In words `auto`, `stable` and `full`.
    pub enum Balance {
        /// [`Stable`](Self::Stable) where that costs next to nothing, else [`Full`](Self::Full).
        #[default]
        Auto = "auto",
        /// By expected loads: paths that a failed link does not touch stay. See
        /// [`stable_sssp`](crate::routing::stable_sssp).
        Stable = "stable",
        /// By the load of all destinations before: every change of the fabric may change all tables. See
        /// [`ranked_sssp`](crate::routing::ranked_sssp()).
        Full = "full",
    }
}

words! {
    /// The traffic that the engine `dfdn` balances for. In words `both`, `all-to-all` and `bisection`.
    pub enum Traffic {
        /// Half of each of the others.
        #[default]
        Both = "both",
        /// Every adapter sends to every other: the largest load of a channel counts.
        AllToAll = "all-to-all",
        /// Random bisections: the expected bandwidth counts.
        Bisection = "bisection",
    }
}
