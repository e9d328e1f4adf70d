//! The order of virtual channels, and the rule that it is.

use std::cmp::Ordering;

use super::{Axis, CUT, StaggeredCuts};
use crate::fabric::{Fabric, Vl};
use crate::ordering::grid::{Dimension, Grid};
use crate::ordering::{Labels, Rank, Rule, VirtualChannelOrder, rank};

/// What virtual channels are sorted by, the first number first. A line has a number for its phase; steps of it follow.
type Key = Vec<u16>;

/// Steps into a line, straight on, and out of it, one after the other.
const INTO: u16 = 0;
const STRAIGHT: u16 = 1;
const OUT: u16 = 2;

/// The step of a ring that comes to position 0. Lines in the middle follow it.
const MIDDLE: u16 = 1 << 9;

impl StaggeredCuts {
    /// The VL after each turn, and the order of the virtual channels, as a rule.
    ///
    /// - `fabric`: that of the grid, whole.
    ///
    /// Cost: O(C d + C V log C) with C channels, d of a switch and V VLs.
    pub fn rule(&self, fabric: &Fabric, grid: &Grid) -> Rule {
        let channels = fabric.channels();
        let places = self.places(grid, fabric.switch_ids());
        let steps: Vec<(usize, usize, bool)> = channels
            .iter()
            .map(|(id, c)| {
                let dimension = grid.dimension_of(fabric, id);
                let up = grid.channels(c.from, dimension, true).contains(&id);
                (places[c.from.index()], self.axis_of(dimension), up)
            })
            .collect();
        let mut labels = Labels::ones(fabric);
        for (first, c) in channels.iter() {
            for (second, _) in channels.out(c.to) {
                let turn = labels.turn(first, second);
                labels.by_turn_mut()[turn] = self.vl(steps[first.index()].1, steps[second.index()].1).0;
            }
        }
        // Some virtual channels have no packets: VL 0 has those of sources alone.
        let position = |&(place, axis, up): &(usize, usize, bool), on: u8| {
            let before = (0..self.axes.len()).find(|&before| self.vl(before, axis) == Vl(on));
            before.map(|before| self.position(place, axis, up, before))
        };
        let all = steps.iter().flat_map(|step| (0..self.vls()).map(move |vl| position(step, vl)));
        let order = VirtualChannelOrder::mixed(rank::positions(all), Rank::by_key(fabric, |c, _| c));
        Rule::Ordered { order, labels }
    }
}

/// By place, axis, direction and the axis of the step before: see [`StaggeredCuts::position`].
///
/// Cost: O(S D^2 log S) with S switches and D axes.
pub(super) fn positions(cuts: &StaggeredCuts, switches: usize) -> Vec<u32> {
    let axes = cuts.axes.len();
    let mut keys = Vec::with_capacity(switches * axes * 2 * axes);
    for place in 0..switches {
        for (axis, up) in (0..axes).flat_map(|axis| [(axis, true), (axis, false)]) {
            keys.extend((0..axes).map(|before| key(cuts, place, axis, up, before)));
        }
    }
    let mut sorted: Vec<&Key> = keys.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    keys.iter().map(|key| sorted.binary_search(&key).expect("it is one of them") as u32).collect()
}

/// That of a step from a place.
fn key(cuts: &StaggeredCuts, place: usize, axis: usize, up: bool, before: usize) -> Key {
    match cuts.level(axis).cmp(&cuts.level(before)) {
        Ordering::Equal => with(straight(cuts, place, axis), step(cuts, place, axis, up)),
        Ordering::Greater => with(line(cuts, place, axis), INTO),
        Ordering::Less => with(line(cuts, place, before), OUT),
    }
}

fn with(mut key: Key, last: u16) -> Key {
    key.push(last);
    key
}

/// That of all steps straight on in the line of an axis at a place.
fn straight(cuts: &StaggeredCuts, place: usize, axis: usize) -> Key {
    match axis < cuts.core {
        true => vec![outermost(cuts), axis as u16],
        false => with(line(cuts, place, axis), STRAIGHT),
    }
}

/// That of the line of an outer axis at a place.
fn line(cuts: &StaggeredCuts, place: usize, axis: usize) -> Key {
    let level = cuts.level(axis) as u16;
    let phase = match cuts.is_early(place, axis) {
        true => outermost(cuts) - level,
        false => outermost(cuts) + level,
    };
    match cuts.around(place, axis) {
        None => vec![phase],
        Some(inside) => with(with(straight(cuts, place, inside), MIDDLE), phase),
    }
}

/// The level of the outermost axis: the phase of the core, with as many before it as after it.
fn outermost(cuts: &StaggeredCuts) -> u16 {
    (cuts.axes.len() - cuts.core) as u16
}

/// The place of a step straight on among those of its line. On a ring the third step of the cut comes first.
fn step(cuts: &StaggeredCuts, place: usize, axis: usize, up: bool) -> u16 {
    let Axis { dimension: Dimension { length, ring }, .. } = cuts.axes[axis];
    let at = cuts.at(place, axis);
    if !ring {
        return if up { at } else { length - 1 - at } as u16;
    }
    let cut = usize::from(cuts.cuts[place * cuts.axes.len() + axis][usize::from(!up)]);
    let last = CUT - 1;
    let from_third =
        |at: usize| (if up { at + 2 * length - cut - last } else { cut + 2 * length - last - at }) % length;
    // Position 0 has the same number in all rings of an axis.
    (usize::from(MIDDLE) + 1 + from_third(at) - from_third(0)) as u16
}
