//! What a byte takes on each link, from the rates that the fabric states.

use crate::fabric::{ChannelId, EndPort, Fabric, most_common};

/// Times of a byte, in units of that on the links of most adapters.
pub(super) struct Times {
    by_channel: Vec<f64>,
    by_adapter: Vec<f64>,
}

impl Times {
    /// A link that states no rate is as fast as most links of its kind, between switches or to adapters. If none of a
    /// kind states one, both kinds are equally fast.
    ///
    /// Cost: O(n log n) with n channels and adapters.
    pub(super) fn new<'a>(fabric: &Fabric, adapters: impl Iterator<Item = &'a EndPort>) -> Self {
        let channels = fabric.channels().as_slice();
        let channels: Vec<Option<u64>> =
            channels.iter().map(|c| fabric.byte_time_at(c.from, c.out_port)).collect();
        let at = |adapter: &EndPort| {
            let (switch, port) = adapter.attachment?;
            fabric.byte_time_at(switch, port)
        };
        let adapters: Vec<Option<u64>> = adapters.map(at).collect();
        let usual = |times: &[Option<u64>]| most_common(times.iter().copied().flatten());
        let (of_channels, of_adapters) = (usual(&channels), usual(&adapters));
        let unit = of_adapters.or(of_channels).unwrap_or(1);
        let of_channels = of_channels.unwrap_or(unit);
        let scaled = |time: u64| time as f64 / unit as f64;
        Self {
            by_channel: channels.iter().map(|time| scaled(time.unwrap_or(of_channels))).collect(),
            by_adapter: adapters.iter().map(|time| scaled(time.unwrap_or(unit)).max(1.0)).collect(),
        }
    }

    pub(super) fn channel(&self, channel: ChannelId) -> f64 {
        self.by_channel[channel.index()]
    }

    /// At least 1: no stream counts as faster than most adapters.
    pub(super) fn adapter(&self, number: usize) -> f64 {
        self.by_adapter[number]
    }
}
