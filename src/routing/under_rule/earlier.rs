//! The entries of earlier tables for one destination, beside which new ones come into force.

use super::paths::Paths;
use crate::fabric::{ChannelId, Fabric, PortNum, SwitchId};
use crate::ordering::Rule;

/// The next hops that switches had to one destination.
///
/// While switches are programmed, packets may follow an old entry at one switch and a new one at the next. Such turns
/// are free of credit loops if the rule allows them, too.
#[derive(Default)]
pub(super) struct Earlier {
    /// By switch: the channel, if it is still there.
    next: Vec<Option<ChannelId>>,
    /// By switch: the channels of these that lead to it.
    into: Vec<Vec<ChannelId>>,
}

impl Earlier {
    /// Takes over the entries for a destination.
    ///
    /// Cost: O(S).
    pub(super) fn read(&mut self, fabric: &Fabric, target: SwitchId, ports: &[u8]) {
        self.next.clear();
        self.into.iter_mut().for_each(Vec::clear);
        self.into.resize_with(ports.len(), Vec::new);
        for s in fabric.switch_ids() {
            let channel = fabric.channels().at_port(s, PortNum(ports[s.index()])).filter(|_| s != target);
            self.next.push(channel);
            if let Some(channel) = channel {
                self.into[fabric.channels().get(channel).to.index()].push(channel);
            }
        }
    }

    /// Whether a switch goes on as it did.
    pub(super) fn has(&self, from: SwitchId, channel: ChannelId) -> bool {
        self.next[from.index()] == Some(channel)
    }

    /// How many ways of packets the rule forbids that use old entries before or behind a new one. A new entry towards
    /// a switch whose old channel is gone counts as one: it will be there again.
    ///
    /// - `paths`: the new ones so far.
    ///
    /// Cost: O(d^2) with d old entries towards one switch.
    pub(super) fn conflicts<X: Copy + Default>(
        &self,
        paths: &Paths<'_, X>,
        rule: &Rule,
        channel: ChannelId,
    ) -> u32 {
        let channels = paths.fabric.channels();
        let (from, to) = (channels.get(channel).from, channels.get(channel).to);
        if self.has(from, channel) {
            return 0;
        }
        let forbidden = |a: ChannelId, b: ChannelId, c: Option<ChannelId>| {
            u32::from(!Rule::legal(rule.position_of(a, Some(b)), rule.position_of(b, c)))
        };
        let behind = |b: ChannelId, a: ChannelId| -> u32 {
            let far = channels.get(b).to;
            if far == paths.target {
                return forbidden(a, b, None);
            }
            self.ways(paths, far).map(|c| forbidden(a, b, Some(c))).sum()
        };
        let gone = to != paths.target && self.next[to.index()].is_none();
        let after: u32 = self.ways(paths, to).map(|next| behind(next, channel)).sum();
        let before = self.into[from.index()].iter().map(|&first| {
            let ahead: u32 = self.into[channels.get(first).from.index()]
                .iter()
                .map(|&start| forbidden(start, first, Some(channel)))
                .sum();
            ahead + behind(channel, first)
        });
        u32::from(gone) + after + before.sum::<u32>()
    }

    /// The channels by which a switch may go on.
    fn ways<X: Copy + Default>(
        &self,
        paths: &Paths<'_, X>,
        s: SwitchId,
    ) -> impl Iterator<Item = ChannelId> + use<X> {
        let old = self.next[s.index()];
        let new = paths.next(s).filter(|_| paths.has_path(s));
        old.into_iter().chain(new.filter(|&new| Some(new) != old))
    }
}
