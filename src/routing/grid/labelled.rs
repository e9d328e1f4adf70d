//! Damaged grids on three VLs: dimension order where it is whole, and around the damage whatever ascends.

use rayon::prelude::*;

use super::ascending::{Ascending, Column, Load, carry};
use super::first_vl::{FirstVl, NONE};
use super::{BROKEN, HOME, Slot, tables};
use crate::fabric::{ChannelId, Fabric, Sl, SwitchId, Vl, common_divisor};
use crate::ordering::{Datelines, Grid, Rank};
use crate::routing::{Hops, adapters_by_switch};
use crate::tables::Lft;

/// Forwarding tables of a damaged [`Grid`] with an SL for each pair, and a VL for each turn and SL.
#[derive(Clone, Debug)]
pub struct LabelledRoutes {
    /// The tables.
    pub lft: Lft,
    /// By target and source switch, target-major: the SL.
    pub sls: Vec<u8>,
    /// See [`vl`](Self::vl).
    labels: Vec<u8>,
    slots: usize,
    /// Number of SLs of paths.
    pub used: u8,
    /// SLs before them: one if SL 0 is kept for multicast and for paths that are all on the third VL.
    pub first: u8,
    /// Pairs of adapters on detours.
    pub detours: u64,
    /// Ordered pairs of adapters.
    pub pairs: u64,
}

impl LabelledRoutes {
    /// VLs of dimension order, and the one before them.
    pub const VLS: u8 = 3;

    /// The VL after a turn; `None` if no path takes it with this SL. SL 0 has the third VL where it is for that alone.
    ///
    /// - `before`: dimension and direction of the step to the switch, `None` for sources.
    /// - `step`: those of the step from it.
    pub fn vl(&self, sl: Sl, s: SwitchId, before: Option<(usize, bool)>, step: (usize, bool)) -> Option<Vl> {
        if sl.0 < self.first {
            return Some(Vl(Self::VLS - 1));
        }
        let slot = |(dimension, up): (usize, bool)| usize::from(Datelines::sidestep(dimension, up));
        let turn = s.index() * (self.slots + 1) + before.map_or(self.slots, slot);
        let each = self.labels.len() / usize::from(self.used);
        let label =
            *self.labels.get(usize::from(sl.0 - self.first) * each + turn * self.slots + slot(step))?;
        (label < Self::VLS).then_some(Vl(label))
    }
}

/// What [`LabelledGrid::route`] may use.
#[derive(Clone, Copy, Debug)]
pub struct LabelledSettings<'a> {
    /// SLs, at least those of the datelines, and one more where SL 0 is kept.
    pub sls: u8,
    /// The order of the channels on the third VL.
    pub first: FirstOrder<'a>,
    /// How many channels of the third VL a new entry for an SL is worth.
    pub entry: usize,
    /// The largest load that is wanted, in routes over the rate of a link; each LID of an adapter has its own. Paths in
    /// dimension order leave channels with more where another shortest path has none of these.
    pub goal: u64,
}

/// The order of the channels on the third VL, and what becomes of pairs that fit into no SL.
#[derive(Clone, Copy, Debug)]
pub enum FirstOrder<'a> {
    /// It grows with the paths. Each pair must fit.
    Growing,
    /// It grows too. A spanning tree is part of it, given by its channels away from the root. SL 0 is kept: it has the
    /// third VL at every turn, and is for multicast and for pairs that do not fit.
    AroundTree(&'a [ChannelId]),
    /// It is that of up*/down*, and stays. SL 0 is kept likewise.
    UpDown(&'a Rank),
}

impl FirstOrder<'_> {
    /// Whether SL 0 is kept.
    pub fn keeps_one(self) -> bool {
        !matches!(self, Self::Growing)
    }
}

/// Paths on a damaged [`Grid`]: in dimension order as [`Datelines`] say where that is possible, on two VLs. The other
/// paths begin with one or more channels on a third VL and go on in dimension order, or in any other way that ascends in
/// the order of the virtual channels; they are shortest ones as far as an SL is left for them.
///
/// The order: the third VL, in an [order](FirstOrder) of its own; then dimension by dimension VL 0 and VL 1. In a ring,
/// channels ascend in each direction from the step that unicast never passes on that VL, or from a missing step. So the
/// channels of all paths, with all SLs, close no cycle.
pub struct LabelledGrid<'a> {
    fabric: &'a Fabric,
    hops: &'a Hops,
    grid: &'a Grid,
    datelines: &'a Datelines,
    /// By switch: its adapters.
    adapters: Vec<u64>,
    /// By switch and slot: the switch ahead, or [`NONE`].
    next: Vec<u32>,
    /// By VL of dimension order, switch and slot: the position of the virtual channel.
    position: [Vec<u32>; 2],
    /// By target and source: the next step in dimension order, or [`BROKEN`] where that does not reach the target.
    slots: Vec<Slot>,
    /// The same: the SL.
    sls: Vec<u8>,
    /// By switch and slot: what a route over it weighs: more on a slow link, less on parallel ones.
    weights: Vec<u64>,
    /// What a route weighs on one link of weight 1.
    unit: u64,
    /// By switch and slot: the weight of the routes in dimension order.
    load: Vec<u64>,
}

impl<'a> LabelledGrid<'a> {
    /// - `grid`: of this fabric.
    ///
    /// Cost: O(S^2) on all cores, and 2 S^2 bytes.
    pub fn new(fabric: &'a Fabric, hops: &'a Hops, grid: &'a Grid, datelines: &'a Datelines) -> Self {
        let n = fabric.num_switches();
        let width = 2 * grid.dimensions().len();
        let adapters = adapters_by_switch(fabric);
        let (next, position) = (next(fabric, grid), positions(fabric, grid, datelines));
        let walk = Walk { grid, datelines, next: &next, position: &position };
        let (weights, unit) = weights(fabric, grid);
        let mut slots = vec![HOME; n * n];
        let mut sls = vec![0_u8; n * n];
        let columns = slots.par_chunks_mut(n.max(1)).zip(sls.par_chunks_mut(n.max(1))).enumerate();
        let routes = columns
            .fold(
                || vec![0_u64; n * width],
                |mut load, (target, (slots, sls))| {
                    walk.in_order(SwitchId::at(target), slots, sls);
                    walk.add_load(SwitchId::at(target), slots, &adapters, &mut load);
                    load
                },
            )
            .reduce(|| vec![0; n * width], |a, b| a.into_iter().zip(b).map(|(a, b)| a + b).collect());
        let load = routes.iter().zip(&weights).map(|(routes, weight)| routes * weight).collect();
        Self { fabric, hops, grid, datelines, adapters, next, position, slots, sls, weights, unit, load }
    }

    /// Whether more pairs are out of dimension order than the SLs have entries, as on 14x14x14 with 5 % of its links down.
    /// So many do not fit that their paths should not share the few of an order that grew for others.
    pub fn is_crowded(&self, sls: u8) -> bool {
        let width = 2 * self.grid.dimensions().len();
        let broken = self.slots.iter().filter(|&&slot| slot == BROKEN).count();
        broken > self.next.len() * (width + 1) * usize::from(sls)
    }

    /// Completes the paths, and moves some off hot channels. Of the shortest ones that fit into an SL, a switch takes one
    /// that adds to no channel with the largest load, then that which needs the fewest channels of the third VL and new
    /// entries for its SL, then the least loaded.
    ///
    /// Pairs that fit into no SL get SL 0, if it is kept: their paths are all on the third VL, as short as its order
    /// allows, and at worst those of its tree. So every pair of every connected grid has a path. These channels are before
    /// all others, so they close no cycle either. `None` where SL 0 is not kept and some pair does not fit.
    ///
    /// Cost: O(S^2) where one step before dimension order suffices, on one core; for each pair that needs more, O(d K + h)
    /// with K SLs, d slots and h hops. 2 S^2 bytes and O(K C d).
    pub fn route(&self, settings: LabelledSettings<'_>) -> Option<LabelledRoutes> {
        let (fabric, grid) = (self.fabric, self.grid);
        let n = fabric.num_switches();
        let width = 2 * grid.dimensions().len();
        let first = u8::from(settings.first.keeps_one());
        let mut ascending = Ascending::new(
            width,
            self.next.clone(),
            self.position.clone(),
            Load {
                of: self.load.clone(),
                weights: self.weights.clone(),
                goal: self.per_adapter(settings.goal).saturating_mul(self.unit),
            },
            self.first_vl(settings.first),
            (usize::from(settings.sls - first), settings.entry),
            &self.labels_in_order(),
        );
        let (mut slots, mut sls) = (self.slots.clone(), self.sls.clone());
        let walk = self.walk();
        let mut detours = 0;
        for (target, (slots, sls)) in slots.chunks_mut(n.max(1)).zip(sls.chunks_mut(n.max(1))).enumerate() {
            let routes: Vec<u64> = self.adapters.iter().map(|&a| a * self.adapters[target]).collect();
            let hops = self.hops.row(SwitchId::at(target));
            let mut lengths = walk.lengths(target, slots);
            ascending.leave_hot(slots, &mut lengths, hops, &routes);
            let in_order: Vec<bool> = slots.iter().map(|&slot| slot != BROKEN).collect();
            let (in_order, lengths) = (&in_order, &lengths);
            let mut column = Column { target, slots, sls, in_order, lengths, hops, routes: &routes };
            let length = ascending.complete(&mut column)?;
            let longer = (0..n).filter(|&s| length[s] > u16::from(hops[s]));
            detours += longer.map(|s| routes[s]).sum::<u64>();
        }
        // Paths that are all on the third VL get SL 0.
        sls.iter_mut().for_each(|sl| *sl = sl.wrapping_add(first));
        let adapters = fabric.adapters().count() as u64;
        Some(LabelledRoutes {
            lft: tables(fabric, grid, &slots),
            sls,
            slots: width,
            used: ascending.used as u8,
            first,
            labels: ascending.into_labels(),
            detours,
            pairs: adapters * adapters.saturating_sub(1),
        })
    }

    /// A load with one LID for each adapter.
    fn per_adapter(&self, load: u64) -> u64 {
        let lids: u64 = self.fabric.adapters().map(|(_, end)| end.lids().count() as u64).sum();
        let adapters: u64 = self.adapters.iter().sum();
        (u128::from(load) * u128::from(adapters) / u128::from(lids.max(1))) as u64
    }

    fn walk(&self) -> Walk<'_> {
        Walk { grid: self.grid, datelines: self.datelines, next: &self.next, position: &self.position }
    }

    /// The labels of the SLs of dimension order, by SL, switch, slot of the channel before and slot.
    fn labels_in_order(&self) -> Vec<u8> {
        let (n, width) = (self.fabric.num_switches(), 2 * self.grid.dimensions().len());
        let mut labels = Vec::with_capacity(self.datelines.sls() * n * (width + 1) * width);
        for sl in 0..self.datelines.sls() {
            let of = |before: usize, slot: usize| {
                self.datelines.vl(slot / 2, Sl(sl as u8), before / 2 == slot / 2).0
            };
            let one: Vec<u8> =
                (0..=width).flat_map(|before| (0..width).map(move |slot| of(before, slot))).collect();
            (0..n).for_each(|_| labels.extend(&one));
        }
        labels
    }

    fn first_vl(&self, order: FirstOrder<'_>) -> FirstVl {
        let (fabric, grid) = (self.fabric, self.grid);
        let width = 2 * grid.dimensions().len();
        if let FirstOrder::UpDown(rank) = order {
            let mut position = vec![0; self.next.len()];
            for s in fabric.switch_ids() {
                for slot in 0..width {
                    let (i, up) = Datelines::dimension_and_direction(slot as Slot);
                    let channel = grid.channels(s, i, up).first();
                    position[s.index() * width + slot] = channel.map_or(0, |&channel| rank.of(channel));
                }
            }
            return FirstVl::fixed(width, &self.next, &position);
        }
        // At first, the third VL is in dimension order too.
        let mut first = FirstVl::growing(width, &self.next, &self.position[0]);
        if let FirstOrder::AroundTree(tree) = order {
            for &channel in tree {
                let c = fabric.channels().get(channel);
                let i = grid.dimension_of(fabric, channel);
                let slot = Datelines::sidestep(i, grid.channels(c.from, i, true).contains(&channel));
                first.reserve(c.from.index() * width + usize::from(slot));
            }
        }
        first
    }
}

/// By switch and slot: the switch ahead, or [`NONE`].
fn next(fabric: &Fabric, grid: &Grid) -> Vec<u32> {
    let width = 2 * grid.dimensions().len();
    let ahead = |s: SwitchId, slot: usize| {
        let (i, up) = Datelines::dimension_and_direction(slot as Slot);
        grid.step(fabric, s, i, up).map_or(NONE, |next| next.index() as u32)
    };
    fabric.switch_ids().flat_map(|s| (0..width).map(move |slot| ahead(s, slot))).collect()
}

/// By switch and slot: what a route over it weighs, and what one weighs on one link of weight 1.
fn weights(fabric: &Fabric, grid: &Grid) -> (Vec<u64>, u64) {
    let width = 2 * grid.dimensions().len();
    let slots = || fabric.switch_ids().flat_map(|s| (0..width).map(move |slot| (s, slot)));
    let links = |(s, slot): (SwitchId, usize)| {
        let (i, up) = Datelines::dimension_and_direction(slot as Slot);
        grid.channels(s, i, up)
    };
    // A multiple of the numbers of parallel links, so that their shares are whole.
    let numbers = slots().map(|at| links(at).len().max(1) as u64);
    let unit = numbers.fold(1, |unit, number| unit / common_divisor(unit, number) * number);
    let weigh = |channels: &[ChannelId]| {
        let slowest = channels.iter().map(|c| fabric.weights().by_channel()[c.index()]).max();
        u64::from(slowest.unwrap_or(1)) * unit / channels.len().max(1) as u64
    };
    (slots().map(|at| weigh(links(at))).collect(), unit)
}

/// By VL of dimension order, switch and slot: the position of the virtual channel, from 1 on.
fn positions(fabric: &Fabric, grid: &Grid, datelines: &Datelines) -> [Vec<u32>; 2] {
    let dimensions = grid.dimensions();
    let longest = dimensions.iter().map(|dimension| dimension.length).max().unwrap_or(1);
    [0, 1].map(|vl| {
        let mut positions = Vec::with_capacity(fabric.num_switches() * 2 * dimensions.len());
        for s in fabric.switch_ids() {
            for (i, dimension) in dimensions.iter().enumerate() {
                let (length, place) = (dimension.length, usize::from(grid.place(s)[i]));
                let reach = grid.reach(s, i, true);
                let cut = match dimension.ring {
                    false => length - 1,
                    true if reach < length => (place + reach) % length,
                    true => datelines.unused(i, Vl(vl)),
                };
                // The channel upwards is that of the step from here, the one downwards that of the step to here.
                let up = (place + 2 * length - cut - 1) % length;
                let down = (cut + length - place) % length;
                let first = (2 * i + usize::from(vl)) * longest + 1;
                positions.extend([(first + up) as u32, (first + down) as u32]);
            }
        }
        positions
    })
}

/// Dimension order on what is left of the grid.
struct Walk<'a> {
    grid: &'a Grid,
    datelines: &'a Datelines,
    next: &'a [u32],
    position: &'a [Vec<u32>; 2],
}

impl Walk<'_> {
    /// Fills the slots to a target and the SLs; [`BROKEN`] where the path in dimension order does not reach it.
    fn in_order(&self, target: SwitchId, slots: &mut [Slot], sls: &mut [u8]) {
        let width = 2 * self.grid.dimensions().len();
        let mut known = vec![false; slots.len()];
        known[target.index()] = true;
        let mut walked = Vec::new();
        for start in 0..slots.len() {
            let mut at = start;
            while !known[at] {
                known[at] = true;
                let Some((i, up)) = self.datelines.way(self.grid, SwitchId::at(at), target) else { break };
                slots[at] = Datelines::sidestep(i, up);
                walked.push(at);
                match self.next[at * width + usize::from(slots[at])] {
                    NONE => break,
                    next => at = next as usize,
                }
            }
            while let Some(s) = walked.pop() {
                let sl = self.datelines.sl(self.grid, SwitchId::at(s), target);
                if self.ascends(s, slots, Sl(sl)) {
                    sls[s] = sl;
                } else {
                    slots[s] = BROKEN;
                }
            }
        }
    }

    /// By switch: the hops to a target in dimension order; 0 where that does not reach it.
    fn lengths(&self, target: usize, slots: &[Slot]) -> Vec<u16> {
        let width = 2 * self.grid.dimensions().len();
        let mut lengths = vec![0; slots.len()];
        let mut walked = Vec::new();
        for start in (0..slots.len()).filter(|&s| slots[s] < BROKEN) {
            let mut at = start;
            while at != target && lengths[at] == 0 {
                walked.push(at);
                at = self.next[at * width + usize::from(slots[at])] as usize;
            }
            let mut length = lengths[at];
            while let Some(s) = walked.pop() {
                length += 1;
                lengths[s] = length;
            }
        }
        lengths
    }

    /// Whether a path goes on in order from the next switch, and its second channel comes before its third one.
    fn ascends(&self, s: usize, slots: &[Slot], sl: Sl) -> bool {
        let width = 2 * self.grid.dimensions().len();
        let ahead =
            |s: usize, slot: Slot| Some(self.next[s * width + usize::from(slot)]).filter(|&s| s != NONE);
        let Some(second) = ahead(s, slots[s]).map(|s| s as usize) else { return false };
        match slots[second] {
            HOME => return true,
            BROKEN => return false,
            _ => {}
        }
        let third = ahead(second, slots[second]).expect("it goes on") as usize;
        if slots[third] == HOME {
            return true;
        }
        let position = |at: usize, before: Slot| {
            let dimension = usize::from(slots[at] / 2);
            let vl = self.datelines.vl(dimension, sl, before / 2 == slots[at] / 2);
            self.position[usize::from(vl.0)][at * width + usize::from(slots[at])]
        };
        position(second, slots[s]) < position(third, slots[second])
    }

    /// Adds the routes in dimension order to a target.
    fn add_load(&self, target: SwitchId, slots: &[Slot], adapters: &[u64], load: &mut [u64]) {
        let lengths = self.lengths(target.index(), slots);
        let routes = adapters.iter().map(|&a| a * adapters[target.index()]).collect();
        carry(slots, &lengths, self.next, routes, |channel, routes| load[channel] += routes);
    }
}
