//! The places of a torus in numbers that are fast to walk.

use crate::fabric::{Fabric, SwitchId};
use crate::ordering::{Grid, StaggeredCuts};

/// No step: the end of a path, or the target itself.
pub(super) const NOWHERE: u32 = u32::MAX;

/// A torus, by place. A *step* of a place is an axis and a direction: two numbers for each axis, up first.
pub(super) struct Space<'a> {
    pub(super) cuts: &'a StaggeredCuts,
    /// By axis.
    pub(super) lengths: Vec<usize>,
    pub(super) strides: Vec<usize>,
    pub(super) rings: Vec<bool>,
    /// By place and axis: the position.
    at: Vec<u8>,
    /// By place and step: the next place, or [`NOWHERE`].
    next: Vec<u32>,
    /// By place and step: what a route adds to its load, the weight of a channel over parallel ones.
    weights: Vec<f64>,
    /// By axis: early lines, one for each place of their cuts.
    pub(super) early: Vec<Vec<usize>>,
    /// By switch.
    places: Vec<usize>,
    /// By place.
    switches: Vec<SwitchId>,
}

impl<'a> Space<'a> {
    pub(super) fn new(fabric: &Fabric, grid: &Grid, cuts: &'a StaggeredCuts) -> Self {
        let axes = cuts.axes();
        let n = fabric.num_switches();
        let places = cuts.places(grid, fabric.switch_ids());
        let mut switches = vec![SwitchId(0); n];
        for (s, &place) in fabric.switch_ids().zip(&places) {
            switches[place] = s;
        }
        let steps = || (0..n).flat_map(|place| (0..2 * axes.len()).map(move |step| (place, step)));
        let next = |(place, step): (usize, usize)| {
            cuts.next(place, step / 2, step % 2 == 0).map_or(NOWHERE, |next| next as u32)
        };
        let weight = |(place, step): (usize, usize)| {
            let weights = fabric.weights().by_channel();
            let channels = grid.channels(switches[place], axes[step / 2].index(), step % 2 == 0);
            let rates = channels.iter().map(|c| 1.0 / f64::from(weights[c.index()].max(1)));
            1.0 / rates.sum::<f64>()
        };
        Self {
            cuts,
            lengths: axes.iter().map(|axis| axis.dimension().length).collect(),
            strides: axes.iter().map(|axis| axis.stride()).collect(),
            rings: axes.iter().map(|axis| axis.dimension().ring).collect(),
            at: (0..n).flat_map(|place| (0..axes.len()).map(move |i| cuts.at(place, i) as u8)).collect(),
            next: steps().map(next).collect(),
            weights: steps().map(weight).collect(),
            early: (0..axes.len()).map(|axis| cuts.early_lines(axis)).collect(),
            places,
            switches,
        }
    }

    pub(super) fn axes(&self) -> usize {
        self.lengths.len()
    }

    /// Steps of a place.
    pub(super) fn steps(&self) -> usize {
        2 * self.axes()
    }

    pub(super) fn place_of(&self, s: SwitchId) -> usize {
        self.places[s.index()]
    }

    pub(super) fn switch_at(&self, place: usize) -> SwitchId {
        self.switches[place]
    }

    pub(super) fn by_place<T: Copy>(&self, by_switch: &[T]) -> Vec<T> {
        self.switches.iter().map(|s| by_switch[s.index()]).collect()
    }

    pub(super) fn at(&self, place: usize, axis: usize) -> usize {
        usize::from(self.at[place * self.axes() + axis])
    }

    /// The next place, or [`NOWHERE`].
    pub(super) fn next(&self, place: usize, step: usize) -> u32 {
        self.next[place * self.steps() + step]
    }

    /// The part of a place that its positions in an axis and in the axes outside it make.
    pub(super) fn outside(&self, place: usize, axis: usize) -> usize {
        place - place % self.strides[axis]
    }

    /// What routes over a step weigh.
    pub(super) fn weight(&self, place: usize, step: usize) -> f64 {
        self.weights[place * self.steps() + step]
    }

    /// The position so many steps before another one.
    pub(super) fn before(&self, axis: usize, to: usize, up: bool, steps: usize) -> usize {
        match (self.rings[axis], up) {
            (false, true) => to - steps,
            (false, false) => to + steps,
            (true, true) => (to + self.lengths[axis] - steps) % self.lengths[axis],
            (true, false) => (to + steps) % self.lengths[axis],
        }
    }
}
