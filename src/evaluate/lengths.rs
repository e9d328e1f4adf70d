//! Path lengths.

use serde::Serialize;

/// Switch-to-switch channels per route: 0 between adapters on one switch.
///
/// Cost: O(hops) from the counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PathLengths {
    /// Mean over all ordered pairs of adapters.
    pub mean_hops: f64,
    /// The longest route.
    pub max_hops: usize,
    /// Number of ordered pairs of adapters by hops, `0..=max_hops`.
    pub hop_histogram: Vec<u64>,
}

impl PathLengths {
    /// `pairs[h]`: pairs with h hops. Trailing zeros are removed.
    pub(super) fn new(mut pairs: Vec<u64>) -> Self {
        let max_hops = pairs.iter().rposition(|&n| n > 0).unwrap_or(0);
        pairs.truncate(max_hops + 1);
        let hops: u64 = pairs.iter().zip(0..).map(|(n, h)| n * h).sum();
        let mean_hops = hops as f64 / pairs.iter().sum::<u64>().max(1) as f64;
        Self { mean_hops, max_hops, hop_histogram: pairs }
    }
}
