//! Paths to one destination: their entries, lengths and steps.

use super::graph::Graph;
use super::tables::Mending;
use crate::fabric::{ChannelId, Lid, SwitchId};

/// New paths to a destination.
pub(super) struct NewPaths {
    /// By switch: the next hop; `None` at the target, and for switches that are gone what they had.
    pub(super) next: Vec<Option<ChannelId>>,
    pub(super) steps: Steps,
}

/// In which step the new entries to a destination go; by default all in that of `rest`.
#[derive(Clone, Default)]
pub(super) struct Steps {
    /// The switches that have got new paths.
    pub(super) moving: Vec<SwitchId>,
    /// Those of them whose entries go with those over channels that are gone.
    pub(super) late: Vec<SwitchId>,
    /// Whether the others have to take further steps.
    pub(super) strays: bool,
}

impl Mending<'_> {
    /// Adds an entry to both graphs. Returns whether they stay free of cycles; if not, what was added has to be taken
    /// [back](Graph::back_to).
    ///
    /// - `was`: the earlier entry.
    /// - `late`, `strays`: see [`Steps`].
    pub(super) fn add(
        &self,
        (at, channel): (SwitchId, ChannelId),
        was: Option<ChannelId>,
        [ends, rest]: &mut [Graph<'_>; 2],
        (late, strays): (bool, bool),
    ) -> bool {
        let is_new = was != Some(channel);
        let with_ends = was.filter(|was| is_new && (late || !self.alive[was.index()]));
        ends.add(at, channel, &[])
            && match with_ends {
                Some(was) => ends.add(at, was, &[]),
                None => !is_new || strays || rest.add(at, channel, &ends.all.vls_after),
            }
    }
}

/// The next destination.
///
/// - `old`: by switch, the next hop in the earlier tables.
/// - `moving`: the switches that get new paths.
pub(super) fn begin(
    [ends, rest]: &mut [Graph<'_>; 2],
    lid: Lid,
    old: &[Option<ChannelId>],
    moving: &[SwitchId],
) {
    ends.begin(lid, old, moving);
    rest.begin(lid, old, &[]);
}

/// The lengths of paths to a destination.
pub(super) struct Lengths<'a> {
    tables: &'a Mending<'a>,
    target: SwitchId,
    old: &'a [Option<ChannelId>],
    hops: Vec<Length>,
}

/// The length of a path, looked up where it is asked for.
#[derive(Clone, Copy)]
enum Length {
    Unknown,
    None,
    Hops(u32),
}

impl<'a> Lengths<'a> {
    /// - `moving`: the switches that have no path yet; those that are gone have none either.
    pub(super) fn new(
        tables: &'a Mending<'a>,
        target: SwitchId,
        old: &'a [Option<ChannelId>],
        moving: &[SwitchId],
    ) -> Self {
        let length = |&present: &bool| if present { Length::Unknown } else { Length::None };
        let mut hops: Vec<Length> = tables.present.iter().map(length).collect();
        moving.iter().for_each(|s| hops[s.index()] = Length::None);
        Self { tables, target, old, hops }
    }

    /// `None` without a path.
    pub(super) fn of(&mut self, s: SwitchId) -> Option<u32> {
        match self.hops[s.index()] {
            Length::None => None,
            Length::Hops(hops) => Some(hops),
            Length::Unknown => {
                let hops = self.tables.hops_left(s, self.target, self.old);
                self.hops[s.index()] = hops.map_or(Length::None, Length::Hops);
                hops
            }
        }
    }

    pub(super) fn set(&mut self, s: SwitchId, hops: u32) {
        self.hops[s.index()] = Length::Hops(hops);
    }
}
