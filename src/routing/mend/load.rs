//! Routes on each channel.

use crate::fabric::{ChannelId, Fabric, Lid, SwitchId};
use crate::routing::demand::Demand;

/// Routes by channel, over its rate.
#[derive(Clone)]
pub(super) struct Load {
    /// Those to the base LIDs of adapters: tables are judged by these.
    pub(super) base: Vec<u64>,
    /// Those to all LIDs of adapters.
    all: Vec<u64>,
}

impl Load {
    pub(super) fn none(fabric: &Fabric) -> Self {
        let none = vec![0; fabric.channels().len()];
        Self { base: none.clone(), all: none }
    }

    /// What paths to a LID are balanced by: those to base LIDs among each other, those to further ones among all.
    pub(super) fn to(&mut self, fabric: &Fabric, lid: Lid) -> &mut [u64] {
        if is_base(fabric, lid) { &mut self.base } else { &mut self.all }
    }

    pub(super) fn add(&mut self, flows: &Flows) {
        flows.add_to(&mut self.all);
        if flows.are_to_base {
            flows.add_to(&mut self.base);
        }
    }

    pub(super) fn take(&mut self, flows: &Flows) {
        flows.take_from(&mut self.all);
        if flows.are_to_base {
            flows.take_from(&mut self.base);
        }
    }

    pub(super) fn sum(mut self, other: &Self) -> Self {
        self.base.iter_mut().zip(&other.base).for_each(|(a, b)| *a += b);
        self.all.iter_mut().zip(&other.all).for_each(|(a, b)| *a += b);
        self
    }
}

/// The routes of some switches to a LID; none if it is not that of an adapter.
pub(super) struct Flows {
    are_to_base: bool,
    by_channel: Vec<(ChannelId, u64)>,
}

impl Flows {
    /// - `next`: by switch, the next hop.
    /// - `counts`: whether the routes of a switch do.
    ///
    /// Cost: O(S H) with S switches and paths of H.
    pub(super) fn new(
        fabric: &Fabric,
        lid: Lid,
        next: &[Option<ChannelId>],
        demand: &Demand<'_>,
        counts: impl Fn(SwitchId) -> bool,
    ) -> Self {
        let mut flows = Self { are_to_base: is_base(fabric, lid), by_channel: Vec::new() };
        let owner = fabric.owner_of(lid).map(|end| fabric.endport(end));
        let Some(owner) = owner.filter(|owner| owner.is_adapter()) else { return flows };
        let channels = fabric.channels();
        let weights = fabric.weights().by_channel();
        let (routes, times) = demand.to(owner);
        // By switch: the next one, and the routes that pass.
        let ahead: Vec<u32> = next.iter().map(|hop| hop.map_or(u32::MAX, |c| channels.get(c).to.0)).collect();
        let mut passing = vec![0_u64; next.len()];
        for s in fabric.switch_ids().filter(|&s| routes[s.index()] > 0 && counts(s)) {
            let mut at = s.0;
            for _ in 0..next.len() {
                if at == u32::MAX {
                    break;
                }
                passing[at as usize] += routes[s.index()];
                at = ahead[at as usize];
            }
        }
        let passed = passing.into_iter().zip(next).filter(|(passing, _)| *passing > 0);
        flows.by_channel.extend(passed.filter_map(|(passing, channel)| {
            let channel = (*channel)?;
            Some((channel, passing * times * u64::from(weights[channel.index()])))
        }));
        flows
    }

    pub(super) fn add_to(&self, load: &mut [u64]) {
        self.by_channel.iter().for_each(|&(channel, routes)| load[channel.index()] += routes);
    }

    pub(super) fn take_from(&self, load: &mut [u64]) {
        self.by_channel.iter().for_each(|&(channel, routes)| load[channel.index()] -= routes);
    }
}

fn is_base(fabric: &Fabric, lid: Lid) -> bool {
    fabric.owner_of(lid).is_some_and(|end| fabric.endport(end).lid == lid)
}
