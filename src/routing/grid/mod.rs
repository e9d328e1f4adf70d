//! Dimension order on grids, with detours where links or switches are missing.

mod ascending;
mod escape;
mod first_vl;
mod labelled;
mod staggered;

use rayon::prelude::*;

use self::escape::Escape;
pub use self::labelled::{FirstOrder, LabelledGrid, LabelledRoutes, LabelledSettings};
pub use self::staggered::staggered_routes;
use super::Hops;
use crate::fabric::{ChannelId, EndPort, Fabric, Lid, SwitchId};
use crate::ordering::{Datelines, Grid};
use crate::tables::Lft;

/// Forwarding tables of a [`Grid`], and the pairs that leave dimension order.
#[derive(Clone, Debug)]
pub struct GridRoutes {
    /// The tables.
    pub lft: Lft,
    /// By target and source switch, target-major, how the path starts: [`Datelines::IN_ORDER`], a
    /// [sidestep](Datelines::sidestep) with the rest in order, or [`Datelines::ESCAPES`] if it obeys up*/down*. Empty if
    /// all paths are in order.
    pub starts: Vec<u8>,
    /// Ordered pairs of adapters on detours.
    pub detours: u64,
    /// Ordered pairs of adapters.
    pub pairs: u64,
}

/// What a switch does with packets to a target: a direction of a dimension, two numbers for each dimension, up first.
type Slot = u8;

/// At the target itself.
const HOME: Slot = Slot::MAX;
/// No step leads on.
const BROKEN: Slot = Slot::MAX - 1;

/// Routes in dimension order as [`Datelines`] say. Where a link or a switch on the way is missing, a switch sends to the
/// neighbour with the shortest path in order: a *sidestep*, mostly on a shortest path too. The first channel of a path
/// may have a VL of its own: nothing waits for it but sources, so sidesteps close no cycle.
///
/// Where no neighbour has such a path, the switch takes the next hop of up*/down* from `root`, and so do all switches
/// after it whose path would not obey up*/down* to its end otherwise. These pairs *escape*: on the VL of the first
/// channels they obey up*/down* all the way, and need an SL of their own. Switches before that lead to such a switch
/// escape too.
///
/// In the last dimension, and in all without sidesteps, packets on a ring with a missing link go the way that is left,
/// which is the long one for some. Such a ring is a path, on which no VL closes a cycle.
///
/// Parallel links share the targets at each distance round-robin.
///
/// - `grid`: of this fabric.
/// - `hops`: to count detours.
/// - `sidesteps`: whether there is a VL for them.
///
/// Cost: O(S^2 D + L S) time with S switches, D dimensions and L LIDs, on all cores, but on one with parallel links;
/// on a damaged grid times a few rounds. S^2 bytes, twice on a damaged grid.
pub fn grid_routes(
    fabric: &Fabric,
    hops: &Hops,
    grid: &Grid,
    datelines: &Datelines,
    root: SwitchId,
    sidesteps: bool,
) -> GridRoutes {
    let n = fabric.num_switches();
    let mut slots = vec![HOME; n * n];
    let columns = slots.par_chunks_mut(n.max(1)).enumerate();
    let (mut starts, mut detours) = (Vec::new(), 0);
    if grid.is_whole() {
        columns.for_each(|(target, column)| {
            for (s, slot) in column.iter_mut().enumerate() {
                if let Some((i, up)) = datelines.way(grid, SwitchId::at(s), SwitchId::at(target)) {
                    *slot = Datelines::sidestep(i, up);
                }
            }
        });
    } else {
        let escape = Escape::new(fabric, hops, grid, datelines, root, sidesteps);
        starts = vec![Datelines::IN_ORDER; n * n];
        detours = columns
            .zip(starts.par_chunks_mut(n.max(1)))
            .map(|((target, column), starts)| escape.route(SwitchId::at(target), column, starts))
            .sum();
        if starts.iter().all(|&start| start == Datelines::IN_ORDER) {
            starts = Vec::new();
        }
    }
    let adapters = fabric.adapters().count() as u64;
    let lft = tables(fabric, grid, &slots);
    GridRoutes { lft, starts, detours, pairs: adapters * adapters.saturating_sub(1) }
}

/// Forwarding tables from the slots by target and switch.
fn tables(fabric: &Fabric, grid: &Grid, slots: &[Slot]) -> Lft {
    let (n, width) = (fabric.num_switches(), 2 * grid.dimensions().len());
    let channels = fabric.channels();
    let mut lft = Lft::new(fabric);
    let port = |&id: &ChannelId| channels.get(id).out_port.0;
    let mut first = vec![Lft::NO_PATH; n * width];
    let mut parallel = false;
    for s in fabric.switch_ids() {
        for slot in 0..width {
            let (i, up) = Datelines::dimension_and_direction(slot as Slot);
            let ahead = grid.channels(s, i, up);
            first[s.index() * width + slot] = ahead.first().map_or(Lft::NO_PATH, port);
            parallel |= ahead.len() > 1;
        }
    }
    let target_of = |lid: usize| {
        let owner = fabric.owner_of(Lid::new(lid as u16)?)?;
        fabric.endport(owner).attachment
    };
    lft.all_mut().enumerate().for_each(|(lid, row)| {
        let Some((target, home)) = target_of(lid) else { return };
        let column = &slots[target.index() * n..][..n];
        for (s, (port, &slot)) in row.iter_mut().zip(column).enumerate() {
            *port = if slot == HOME { home.0 } else { first[s * width + usize::from(slot)] };
        }
    });
    if parallel {
        share_parallel_links(fabric, grid, slots, &mut lft);
    }
    lft
}

/// Shares parallel links among the targets: round-robin among those at the same distance in the dimension, as about as
/// many sources reach each of these over the links. LIDs of adapters come before those of switches.
fn share_parallel_links(fabric: &Fabric, grid: &Grid, slots: &[Slot], lft: &mut Lft) {
    let (n, width) = (fabric.num_switches(), 2 * grid.dimensions().len());
    let longest = grid.dimensions().iter().map(|dimension| dimension.length).max().unwrap_or(1);
    let mut turns = vec![0_u32; n * width * longest];
    let (switches, adapters): (Vec<&EndPort>, Vec<&EndPort>) =
        fabric.endports().iter().partition(|end| !end.is_adapter());
    for end in adapters.into_iter().chain(switches) {
        let Some((target, _)) = end.attachment else { continue };
        let column = &slots[target.index() * n..][..n];
        for lid in end.lids() {
            let row = lft.to_mut(lid);
            for (s, &slot) in column.iter().enumerate().filter(|(_, slot)| **slot != HOME) {
                let (i, up) = Datelines::dimension_and_direction(slot);
                let from = SwitchId::at(s);
                let ahead = grid.channels(from, i, up);
                if ahead.len() < 2 {
                    continue;
                }
                let far = distance(grid, from, target, i, up);
                let turn = &mut turns[(s * width + usize::from(slot)) * longest + far];
                // Different distances begin with different links.
                let link = (*turn as usize + far) % ahead.len();
                row[s] = fabric.channels().get(ahead[link]).out_port.0;
                *turn += 1;
            }
        }
    }
}

/// Steps from a switch to the position of another one in a dimension, in one direction.
fn distance(grid: &Grid, from: SwitchId, to: SwitchId, dimension: usize, up: bool) -> usize {
    let length = grid.dimensions()[dimension].length;
    let (a, b) = (usize::from(grid.place(from)[dimension]), usize::from(grid.place(to)[dimension]));
    if up { (b + length - a) % length } else { (a + length - b) % length }
}

#[cfg(test)]
mod tests;
