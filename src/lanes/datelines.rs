//! Two VLs for dimension order on grids, a third one for what does not begin in it.

use rayon::prelude::*;

use super::{LaneLimits, Lanes, LanesError};
use crate::fabric::{Fabric, PortNum, Sl, SwitchId, Vl};
use crate::ordering::{Datelines, Grid};
use crate::tables::{PathSl, Sl2Vl, SlVlRow, SwitchPairs};

/// VLs and SLs for tables in dimension order: the VL of a hop is the bit of the SL that belongs to its dimension
/// ([`Datelines`]).
///
/// If not all paths start in order, a third VL takes the first channel of every path: sources alone wait for it, so no
/// cycle leads over it, whatever the first step is. Paths that escape have an SL of their own and stay on that VL, where
/// they obey up*/down*. No packet comes back to the third VL, so the paths close no cycle together.
///
/// - `starts`: by target and source switch, target-major, how the paths start: [`Datelines::IN_ORDER`] and so on.
///   Empty if all are in order.
/// - `escape_first`: whether SL 0 is that of the paths that escape, also if there are none; otherwise it comes last.
///
/// # Errors
/// [`LanesError::TooFewVls`], [`LanesError::TooFewSls`].
///
/// Cost: O(S^2 D) time with S switches and D dimensions, on all cores, and S^2 bytes.
pub fn datelines(
    fabric: &Fabric,
    grid: &Grid,
    datelines: &Datelines,
    starts: &[u8],
    escape_first: bool,
    limits: LaneLimits,
) -> Result<Lanes, LanesError> {
    let in_order = datelines.vls();
    let more = escape_first || !starts.is_empty();
    let escapes = escape_first || starts.contains(&Datelines::ESCAPES);
    let (sls, vls) = (datelines.sls() as u8 + u8::from(escapes), in_order + u8::from(more));
    if vls > limits.vls {
        return Err(LanesError::TooFewVls { needed: usize::from(vls), offered: limits.vls });
    }
    if sls > limits.sls {
        return Err(LanesError::TooFewSls { needed: usize::from(sls), offered: limits.sls });
    }
    let first = u8::from(escape_first);
    let escape = escapes.then_some(if escape_first { 0 } else { sls - 1 });
    let own = Vl(in_order);
    let dimensions = grid.dimensions().len();
    // The dimension of the step before: one more for sources.
    let vl = |before: usize, dimension: usize, sl: u8| {
        let alone = Some(sl) == escape || before == dimensions && more;
        let sl = Sl(sl.wrapping_sub(first));
        if alone { own } else { datelines.vl(dimension, sl, before == dimension) }
    };
    let row = |before: usize, i: usize| SlVlRow::from_vls(std::array::from_fn(|sl| vl(before, i, sl as u8)));
    let rows: Vec<Vec<SlVlRow>> =
        (0..=dimensions).map(|before| (0..dimensions).map(|i| row(before, i)).collect()).collect();
    let sl2vl = by_dimension(fabric, grid, |before, dimension| rows[before.unwrap_or(dimensions)][dimension]);
    let n = fabric.num_switches();
    let mut pairs = vec![0_u8; n * n];
    pairs.par_chunks_mut(n.max(1)).enumerate().for_each(|(target, row)| {
        for (s, sl) in row.iter_mut().enumerate() {
            let start = starts.get(target * n + s).copied().unwrap_or(Datelines::IN_ORDER);
            let in_order_from = |s: SwitchId| first + datelines.sl(grid, s, SwitchId::at(target));
            let s = SwitchId::at(s);
            *sl = match (start, escape) {
                (Datelines::IN_ORDER, _) => in_order_from(s),
                (Datelines::ESCAPES, Some(escape)) => escape,
                (sidestep, _) => {
                    let (i, up) = Datelines::dimension_and_direction(sidestep);
                    in_order_from(grid.step(fabric, s, i, up).expect("a sidestep is a link"))
                }
            };
        }
    });
    let path_sl = match sls {
        1 => any_sl(limits),
        _ => PathSl::BySwitchPair(SwitchPairs::new(fabric, pairs)),
    };
    Ok(Lanes { sl2vl, path_sl, vls, sls })
}

/// SL2VL tables where the VL depends on the dimensions of two steps: that before, if there was one, and the next.
fn by_dimension(fabric: &Fabric, grid: &Grid, row: impl Fn(Option<usize>, usize) -> SlVlRow) -> Sl2Vl {
    let mut sl2vl = Sl2Vl::new(fabric);
    for (id, c) in fabric.channels().iter() {
        let dimension = grid.dimension_of(fabric, id);
        for port in (0..sl2vl.ports_of(c.from)).map(|port| PortNum(port as u8)) {
            // Back over the link by which packets come.
            let before = fabric.channels().at_port(c.from, port);
            let before = before.map(|before| grid.dimension_of(fabric, before));
            sl2vl.set(c.from, port, c.out_port, row(before, dimension));
        }
    }
    sl2vl
}

/// One SL: any that may be used.
pub fn any_sl(limits: LaneLimits) -> PathSl {
    PathSl::Any(u16::MAX >> (Sl::COUNT - usize::from(limits.sls)))
}

/// VLs and SLs for tables whose turns have theirs, as of
/// [`LabelledGrid::route`](crate::routing::LabelledGrid::route). A turn that no path takes has the VL of dimension order.
///
/// - `vl`: the VL by SL, switch, step to it and step from it.
/// - `pairs`: by target and source switch, target-major, the SL.
/// - `(vls, sls)`: how many there are.
///
/// Cost: O(C d K) time with C channels, d of a switch and K SLs, and S^2 bytes.
pub fn labelled(
    fabric: &Fabric,
    grid: &Grid,
    datelines: &Datelines,
    vl: impl Fn(Sl, SwitchId, Option<(usize, bool)>, (usize, bool)) -> Option<Vl>,
    pairs: Vec<u8>,
    (vls, sls): (u8, u8),
    limits: LaneLimits,
) -> Lanes {
    let mut sl2vl = Sl2Vl::new(fabric);
    // Each channel of a switch as a step from it.
    let steps: Vec<(usize, bool)> = fabric
        .channels()
        .iter()
        .map(|(id, c)| {
            let i = grid.dimension_of(fabric, id);
            (i, grid.channels(c.from, i, true).contains(&id))
        })
        .collect();
    for (id, c) in fabric.channels().iter() {
        let step = steps[id.index()];
        for port in (0..sl2vl.ports_of(c.from)).map(|port| PortNum(port as u8)) {
            // Packets that come by a port go on in the direction opposite to the channel back.
            let before = fabric.channels().at_port(c.from, port).map(|back| steps[back.index()]);
            let before = before.map(|(i, up)| (i, !up));
            let continues = before.is_some_and(|(i, _)| i == step.0);
            let row = std::array::from_fn(|sl| {
                // One SL serves for all.
                let sl = Sl(if sls == 1 { 0 } else { sl as u8 });
                vl(sl, c.from, before, step).unwrap_or_else(|| datelines.vl(step.0, sl, continues))
            });
            sl2vl.set(c.from, port, c.out_port, SlVlRow::from_vls(row));
        }
    }
    let path_sl = match sls {
        1 => any_sl(limits),
        _ => PathSl::BySwitchPair(SwitchPairs::new(fabric, pairs)),
    };
    Lanes { sl2vl, path_sl, vls, sls }
}
