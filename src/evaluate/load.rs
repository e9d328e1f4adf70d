//! Routes on each channel: the edge-forwarding index, and the balance that Chiu et al. rate.

use serde::Serialize;

use crate::fabric::Weights;

/// Number of routes over each switch-to-switch channel, and how evenly they are spread.
///
/// Load is routes over capacity: a route counts twice on a channel of half the usual rate
/// ([`Weights`]). The largest load is the edge-forwarding index (Hoefler et al., section I.A;
/// without the links of adapters, as in section III.A, which carry P - 1 routes with any tables).
/// The number on a channel is the usage level of a link of Chiu et al. (section 6.2): there, the
/// smaller its variance, the more traffic the network carries at once. With equal rates the mean is
/// P (P - 1) x mean hops / channels.
///
/// Cost: O(C) from the counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChannelLoad {
    /// The largest load of a channel, in routes of a channel of the usual rate, rounded up; 0
    /// without channels.
    pub edge_forwarding_index: u64,
    /// Mean load over all channels, used or not.
    pub mean_channel_load: f64,
    /// Population variance of the load over all channels.
    pub channel_load_variance: f64,
    /// Coefficient of variation: standard deviation divided by mean; 0 if there is no load.
    pub channel_load_cv: f64,
    /// Number of routes on each channel, by [`ChannelId`](crate::fabric::ChannelId): by sending
    /// switch in GUID order, then by its port.
    pub channel_load: Vec<u64>,
}

impl ChannelLoad {
    /// - `routes`: by channel.
    pub(super) fn new(weights: &Weights, routes: Vec<u64>) -> Self {
        let channels = routes.len().max(1) as f64;
        let weighted = || routes.iter().zip(weights.by_channel()).map(|(n, &weight)| n * u64::from(weight));
        let usual = weights.usual() as f64;
        let mean = weighted().sum::<u64>() as f64 / usual / channels;
        let variance = weighted().map(|l| (l as f64 / usual - mean).powi(2)).sum::<f64>() / channels;
        Self {
            edge_forwarding_index: weighted().max().unwrap_or(0).div_ceil(weights.usual()),
            mean_channel_load: mean,
            channel_load_variance: variance,
            channel_load_cv: if mean > 0.0 { variance.sqrt() / mean } else { 0.0 },
            channel_load: routes,
        }
    }
}
