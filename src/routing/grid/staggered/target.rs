//! What the switches do with packets to one target, as far as loads of single channels do not decide.

use super::space::{NOWHERE, Space};

/// A *slice* of an axis is all places with one position there, beside others that differ in the axes inside only. Packets
/// of the slices at these distances from the target take their inner steps there; those of others first go on in early
/// lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slices {
    pub(super) from: usize,
    pub(super) to: usize,
}

impl Slices {
    pub(super) const NONE: Self = Self { from: 1, to: 0 };

    pub(super) fn has(self, steps: usize) -> bool {
        (self.from..=self.to).contains(&steps)
    }
}

/// The ways to one place. A *quadrant* of an axis is all places from which the target is in the same directions in the
/// axes inside: a bit for each, set if it is downwards.
pub(super) struct Target<'a> {
    pub(super) space: &'a Space<'a>,
    pub(super) place: usize,
    /// By axis and position: steps to the target, and whether they are upwards.
    ways: Vec<Vec<Way>>,
    /// By axis: the most steps, upwards and downwards.
    longest: Vec<[usize; 2]>,
    /// By axis, then by the axes outside, direction and quadrant.
    slices: Vec<Vec<Slices>>,
}

/// A way in one axis.
#[derive(Clone, Copy)]
pub(super) struct Way {
    pub(super) steps: usize,
    pub(super) up: bool,
}

impl<'a> Target<'a> {
    /// Without slices.
    ///
    /// - `number`: targets at one place, in turn, have half-way packets come from different sides.
    pub(super) fn new(space: &'a Space<'a>, place: usize, number: usize) -> Self {
        let axes = space.axes();
        let sum: usize = (0..axes).map(|axis| space.at(place, axis)).sum::<usize>() + number;
        let half_up = |axis: usize| sum >> (axis % 2) & 1 == 0;
        let ways = |axis: usize| {
            let way = |from| way(space, axis, from, space.at(place, axis), half_up(axis));
            (0..space.lengths[axis]).map(way).collect()
        };
        let ways: Vec<Vec<Way>> = (0..axes).map(ways).collect();
        let longest = |ways: &Vec<Way>| {
            [true, false]
                .map(|up| ways.iter().filter(|way| way.up == up).map(|way| way.steps).max().unwrap_or(0))
        };
        let longest = ways.iter().map(longest).collect();
        Self { space, place, ways, longest, slices: Vec::new() }
    }

    /// - `slices`: by axis, then by the axes outside, direction and quadrant.
    pub(super) fn set_slices(&mut self, slices: Vec<Vec<Slices>>) {
        self.slices = slices;
    }

    pub(super) fn at(&self, axis: usize) -> usize {
        self.space.at(self.place, axis)
    }

    pub(super) fn ways(&self, axis: usize) -> &[Way] {
        &self.ways[axis]
    }

    pub(super) fn way(&self, place: usize, axis: usize) -> Way {
        self.ways[axis][self.space.at(place, axis)]
    }

    /// The steps of a shortest path.
    pub(super) fn steps(&self, place: usize) -> usize {
        (0..self.space.axes()).map(|axis| self.way(place, axis).steps).sum()
    }

    /// The steps with which shortest paths begin, each with its axis.
    pub(super) fn shortest(&self, place: usize) -> impl Iterator<Item = (usize, usize)> {
        let step = move |axis: usize| {
            let way = self.way(place, axis);
            (way.steps > 0).then_some((axis, 2 * axis + usize::from(!way.up)))
        };
        (0..self.space.axes()).filter_map(step)
    }

    pub(super) fn longest(&self, axis: usize, up: bool) -> usize {
        self.longest[axis][usize::from(!up)]
    }

    /// The fewest steps with which a way in a line meets its cut.
    pub(super) fn first_cut(&self, line: usize, axis: usize, up: bool) -> Option<usize> {
        let cut = self.space.cuts.first_cut(line, axis, up, self.at(axis));
        cut.filter(|&steps| steps <= self.longest(axis, up))
    }

    /// The line of an axis in which packets go on to the target after steps in an axis inside: that of the target, or
    /// its neighbour on the side from which they come.
    ///
    /// - `slice`: a place with the other positions.
    pub(super) fn last_line(&self, slice: usize, axis: usize, inside: usize, up: bool) -> usize {
        let stride = self.space.strides[axis];
        let line = slice - slice % stride + self.place % stride;
        if self.space.cuts.comes_after(line, axis, inside) {
            return line;
        }
        match self.space.next(line, 2 * inside + usize::from(up)) {
            NOWHERE => line,
            beside => beside as usize,
        }
    }

    /// The axes of the steps that a switch had better take, as bits: one, or those of a free step.
    ///
    /// - `differs`: the axes in which it is not at the target yet, as bits.
    pub(super) fn wanted(&self, place: usize, differs: usize) -> usize {
        let cuts = self.space.cuts;
        for axis in (cuts.core()..self.space.axes()).rev().filter(|axis| differs >> axis & 1 == 1) {
            let inside = differs & ((1 << axis) - 1);
            if inside == 0 {
                return 1 << axis;
            }
            let only = inside.trailing_zeros() as usize;
            let is_beside = inside == 1 << only && self.way(place, only).steps == 1;
            let ends_here = is_beside && !cuts.comes_after(self.place, axis, only);
            if self.goes_inward(place, axis, inside) {
                if ends_here {
                    return 1 << axis;
                }
                continue;
            }
            // In the last line, packets of slices farther away come by.
            let way = self.way(place, axis);
            let is_last = || ends_here && way.steps <= self.of(place, axis, inside, 0).to;
            let is_open = || self.first_cut(place, axis, way.up).is_none_or(|cut| way.steps < cut);
            let goes_on = cuts.is_early(place, axis) || cuts.comes_before(place, axis, inside) && is_open();
            return if goes_on || is_last() { 1 << axis } else { inside };
        }
        differs & differs.wrapping_neg()
    }

    /// Whether packets leave an axis here, for the steps in the axes inside.
    ///
    /// - `inside`: those of these that have steps, as bits; not none.
    fn goes_inward(&self, place: usize, axis: usize, inside: usize) -> bool {
        let way = self.way(place, axis);
        let others = ((1 << axis) - 1) & !inside;
        // Packets of all quadrants beside come by.
        let mut beside = Some(others);
        let is_slice = std::iter::from_fn(|| {
            let now = beside?;
            beside = now.checked_sub(1).map(|less| less & others);
            Some(now)
        })
        .any(|quadrant| self.of(place, axis, inside, quadrant).has(way.steps));
        let only = inside.trailing_zeros() as usize;
        if inside != 1 << only {
            return is_slice;
        }
        let to = self.way(place, only);
        let line = self.space.outside(place, axis) + self.place % self.space.strides[axis];
        match self.first_cut(line, only, to.up) {
            None => {
                is_slice
                    || self.serves(line, axis, only, to.up, way.steps)
                    || self.is_free(place, axis, only, way)
            }
            // Beyond the cut, and from an early line on that leads to where the cut is not.
            Some(cut) => {
                let stride = self.space.strides[only];
                let at = self.space.before(only, self.at(only), to.up, cut);
                let begin = line - self.space.at(line, only) * stride + at * stride;
                let open =
                    if self.space.cuts.comes_before(begin, axis, 1 << only) { cut - 1 } else { cut - 2 };
                (is_slice || self.is_free(place, axis, only, way)) && to.steps <= open
            }
        }
    }

    /// Whether a line next to that of the target serves packets whose way there meets the cut.
    fn serves(&self, line: usize, axis: usize, only: usize, up: bool, steps: usize) -> bool {
        let stride = self.space.strides[axis];
        let last = || line - self.space.at(line, axis) * stride + self.at(axis) * stride;
        steps == 1 && self.first_cut(last(), only, up).is_some()
    }

    /// Whether packets with steps in one axis inside may leave at any place from which the cut of late lines is not in
    /// the way. In the outer axes but the first they do: then none waits for an early line where a ring is odd.
    fn is_free(&self, place: usize, axis: usize, only: usize, way: Way) -> bool {
        let is_open = || {
            let late = self.last_line(place, axis, only, self.way(place, only).up);
            self.first_cut(late, axis, way.up).is_none_or(|cut| way.steps < cut)
        };
        axis > self.space.cuts.core() && is_open()
    }

    /// The slices of a quadrant of an axis.
    ///
    /// - `inside`: the axes inside in which the place decides the quadrant, as bits.
    /// - `others`: the quadrant in the others.
    fn of(&self, place: usize, axis: usize, inside: usize, others: usize) -> Slices {
        let mut quadrant = others;
        for i in (0..axis).filter(|i| inside >> i & 1 == 1) {
            quadrant |= usize::from(!self.way(place, i).up) << i;
        }
        let block = self.space.strides[axis] * self.space.lengths[axis];
        let up = self.way(place, axis).up;
        self.slices[axis][(place / block * 2 + usize::from(!up)) << axis | quadrant]
    }
}

/// The shortest way.
fn way(space: &Space<'_>, axis: usize, from: usize, to: usize, half_up: bool) -> Way {
    let length = space.lengths[axis];
    if !space.rings[axis] {
        return Way { up: from < to, steps: from.abs_diff(to) };
    }
    let ahead = (to + length - from) % length;
    let up = 2 * ahead < length || 2 * ahead == length && half_up;
    Way { up, steps: if up { ahead } else { length - ahead } }
}
