//! Where packets leave an outer axis for the steps in the axes inside, by load.

use super::target::{Slices, Target};

/// Gives a target the slices that add least to the sum of the fourth powers of the loads.
///
/// - `attempt`: 0, or other slices than the best.
pub(super) fn choose(target: &mut Target<'_>, load: &[u64], attempt: usize) {
    let (axes, strides, lengths) = (target.space.axes(), &target.space.strides, &target.space.lengths);
    let switches = strides[axes - 1] * lengths[axes - 1];
    let mut slices = Vec::with_capacity(axes);
    for axis in 0..axes {
        let mut of_axis = Vec::new();
        if axis >= target.space.cuts.core() {
            let choice = Choice::new(target, axis, load);
            for outside in (0..switches).step_by(strides[axis] * lengths[axis]) {
                for up in [true, false] {
                    of_axis
                        .extend((0..1 << axis).map(|quadrant| choice.best(outside, up, quadrant, attempt)));
                }
            }
        }
        slices.push(of_axis);
    }
    target.set_slices(slices);
}

/// Chooses the slices of one axis.
struct Choice<'a, 'b> {
    target: &'b Target<'a>,
    axis: usize,
    load: &'b [u64],
    /// By quadrant: the places among the axes inside, and how many.
    early: Vec<Vec<usize>>,
    all: Vec<usize>,
}

/// Most slices that are compared for a quadrant: so many are all on rings of up to nine.
const MOST_CHOICES: usize = 15;

/// The sum of fourth powers of loads as a function of the routes that come in addition: the factors of their powers
/// from the first to the fourth.
#[derive(Clone, Copy, Default)]
struct Growth([f64; 4]);

impl Growth {
    /// - `load`: of a channel.
    /// - `each`: what each route adds to it.
    fn add(&mut self, load: f64, each: f64) {
        let (load2, each2) = (load * load, each * each);
        let terms =
            [4.0 * load2 * load * each, 6.0 * load2 * each2, 4.0 * load * each2 * each, each2 * each2];
        for (sum, term) in self.0.iter_mut().zip(terms) {
            *sum += term;
        }
    }

    fn of(&self, routes: f64) -> f64 {
        let [a, b, c, d] = self.0;
        (((d * routes + c) * routes + b) * routes + a) * routes
    }
}

/// What slices cost at one distance.
#[derive(Clone, Copy, Default)]
struct Cost {
    /// For each slice whose packets pass in early lines, and in late ones.
    early: Growth,
    late: Growth,
    /// For each slice whose packets take the inner steps here.
    inside: Growth,
    /// Whether no cut is in the way of these.
    is_open: bool,
}

impl<'a, 'b> Choice<'a, 'b> {
    fn new(target: &'b Target<'a>, axis: usize, load: &'b [u64]) -> Self {
        let space = target.space;
        let mut early = Vec::with_capacity(1 << axis);
        let mut all = Vec::with_capacity(1 << axis);
        for quadrant in 0..1_usize << axis {
            let mut places = vec![0];
            for i in 0..axis {
                let up = quadrant >> i & 1 == 0;
                let steps = 0..=target.longest(i, up);
                let parts = steps.map(|steps| space.before(i, target.at(i), up, steps) * space.strides[i]);
                places = parts.flat_map(|part| places.iter().map(move |place| place + part)).collect();
            }
            all.push(places.len());
            places.retain(|&place| space.cuts.is_early(place, axis));
            early.push(places);
        }
        Self { target, axis, load, early, all }
    }

    /// The best slices of a quadrant.
    ///
    /// - `outside`: a place with the positions in the axes outside, and 0 in all others.
    /// - `attempt`: 0, or another choice instead.
    fn best(&self, outside: usize, up: bool, quadrant: usize, attempt: usize) -> Slices {
        let most = self.target.longest(self.axis, up);
        let possible = self.possible(outside, up, quadrant);
        if attempt > 0 && !possible.is_empty() {
            let block = self.target.space.strides[self.axis] * self.target.space.lengths[self.axis];
            return possible[(attempt + outside / block + quadrant) % possible.len()];
        }
        if possible.len() < 2 {
            return possible.first().copied().unwrap_or(Slices::NONE);
        }
        let costs: Vec<Cost> = (0..=most).map(|steps| self.cost(outside, up, quadrant, steps)).collect();
        let every = possible.len().div_ceil(MOST_CHOICES);
        let priced = possible.into_iter().step_by(every).map(|slices| (self.price(&costs, slices), slices));
        let best = priced.min_by(|a, b| a.0.total_cmp(&b.0));
        best.map_or(Slices::NONE, |(_, slices)| slices)
    }

    /// The slices that may be chosen.
    fn possible(&self, outside: usize, up: bool, quadrant: usize) -> Vec<Slices> {
        let (target, axis) = (self.target, self.axis);
        let space = target.space;
        let most = target.longest(axis, up);
        let early = space.early[axis].iter().find_map(|line| target.first_cut(outside + line, axis, up));
        let last_line = |i: usize| target.last_line(outside, axis, i, quadrant >> i & 1 == 0);
        let late = (0..axis).filter_map(|i| target.first_cut(last_line(i), axis, up)).min();
        let last = late.map_or(most, |cut| most.min(cut - 1));
        let may = |&Slices { from, to }: &Slices| {
            let some = from <= to;
            // Packets from beyond the cut of early lines must have left these before its third step, in either of two
            // slices; in one of them no other cut is in the way.
            let leaves_early = |cut: usize| some && from < cut && to >= most.min((from + 1).max(cut - 1));
            early.is_none_or(leaves_early)
                // From beyond the cut of late lines, packets must not have gone into these.
                && to <= last
        };
        let some = (1..=most).flat_map(|from| (from..=most).map(move |to| Slices { from, to }));
        std::iter::once(Slices::NONE).chain(some).filter(may).collect()
    }

    /// What it costs that packets pass at a distance.
    fn cost(&self, outside: usize, up: bool, quadrant: usize, steps: usize) -> Cost {
        let (target, axis) = (self.target, self.axis);
        let space = target.space;
        let slice = outside + space.before(axis, target.at(axis), up, steps) * space.strides[axis];
        let mut cost = Cost { is_open: true, ..Cost::default() };
        let all = self.all[quadrant] as f64;
        let add = |growth: &mut Growth, place: usize, step: usize, routes: f64| {
            let weight = space.weight(place, step);
            growth.add(self.load[place * space.steps() + step] as f64 * weight, routes * weight);
        };
        if steps > 0 {
            let step = 2 * axis + usize::from(!up);
            let early = &self.early[quadrant];
            for place in early {
                add(&mut cost.early, slice + place, step, all / early.len() as f64);
            }
            let last: Vec<usize> =
                (0..axis).map(|i| target.last_line(slice, axis, i, quadrant >> i & 1 == 0)).collect();
            for &place in &last {
                add(&mut cost.late, place, step, all / last.len() as f64);
            }
        }
        if axis == 1 {
            let up = quadrant & 1 == 0;
            let longest = target.longest(0, up);
            cost.is_open = target.first_cut(slice, 0, up).is_none();
            for steps in 1..=longest {
                let place = slice + space.before(0, target.at(0), up, steps);
                add(&mut cost.inside, place, usize::from(!up), (longest - steps + 1) as f64);
            }
        }
        cost
    }

    /// What the routes of all slices of a quadrant add to the sum of the fourth powers of the loads.
    ///
    /// - `costs`: by distance.
    fn price(&self, costs: &[Cost], slices: Slices) -> f64 {
        let most = costs.len() - 1;
        // By distance: slices whose packets go inward there.
        let mut inward = vec![0_usize; most + 1];
        let mut last = 0;
        for (steps, cost) in costs.iter().enumerate() {
            let serves = steps == 1 && !costs[0].is_open;
            if cost.is_open && (slices.has(steps) || serves) {
                last = steps;
            }
            inward[last] += 1;
        }
        // Those are passed in late lines that go inward beyond, and in early lines the others from beyond.
        let mut late = 0;
        let mut price = 0.0;
        for (steps, cost) in costs.iter().enumerate().rev() {
            late += inward[steps];
            let early = most + 1 - steps - late;
            price += cost.inside.of(inward[steps] as f64);
            if steps > 0 {
                price += cost.early.of(early as f64) + cost.late.of(late as f64);
            }
        }
        price
    }
}
