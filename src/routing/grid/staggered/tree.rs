//! The paths of all switches to one target.

use super::space::{NOWHERE, Space};
use super::target::Target;

/// Neighbours, and steps to them: the paths to one place.
pub(super) struct Tree {
    /// By place.
    steps: Vec<u8>,
    /// By place: adapters whose packets it sends.
    flow: Vec<u32>,
    /// The places whose paths are not shortest.
    longer: Vec<usize>,
}

/// No path yet.
const NONE: u8 = u8::MAX;
/// The limit of a path that has no second step.
const END: u32 = u32::MAX;

/// A tree that grows.
struct Growing<'a> {
    space: &'a Space<'a>,
    place: usize,
    steps: Vec<u8>,
    /// By place: the position of the second step of its path. That of a step before the first one must be less.
    limit: Vec<u32>,
    /// By place: loads along the path, and its steps.
    cost: Vec<f64>,
    length: Vec<u16>,
    /// The places with a path, each after the next one on it.
    order: Vec<u32>,
    load: &'a [u64],
}

impl Tree {
    /// Gives each place a shortest path with the [wanted](Target::wanted) steps, of these the one with the least load;
    /// else any legal one among the shortest; then the others detours, the shortest first. `None` where some place has
    /// none. The lower step decides between equal ones.
    ///
    /// - `adapters`: by place.
    ///
    /// Cost: O(S D) with S switches and D axes, and O(L^2 D) with L detours.
    pub(super) fn grow(
        space: &Space<'_>,
        target: &Target<'_>,
        adapters: &[u64],
        load: &[u64],
    ) -> Option<Self> {
        let n = adapters.len();
        let mut tree = Growing {
            space,
            place: target.place,
            steps: vec![NONE; n],
            limit: vec![END; n],
            cost: vec![0.0; n],
            length: vec![0; n],
            order: Vec::with_capacity(n),
            load,
        };
        tree.order.push(target.place as u32);
        let mut left = Vec::new();
        tree.walk(target, &mut left);
        if !tree.detours(left) {
            return None;
        }
        let shortest = |place| (0..space.axes()).map(|axis| target.way(place, axis).steps).sum::<usize>();
        let longer = (0..n).filter(|&place| usize::from(tree.length[place]) > shortest(place)).collect();
        let mut flow: Vec<u32> = adapters.iter().map(|&adapters| adapters as u32).collect();
        for &place in tree.order[1..].iter().rev() {
            let next = space.next(place as usize, usize::from(tree.steps[place as usize]));
            flow[next as usize] += flow[place as usize];
        }
        Some(Self { steps: tree.steps, flow, longer })
    }

    /// The step of a place, and the adapters whose packets it sends; `None` at the target.
    pub(super) fn step(&self, place: usize) -> Option<(usize, u32)> {
        let step = self.steps[place];
        (step != NONE).then(|| (usize::from(step), self.flow[place]))
    }

    /// - `change`: adds routes of the tree to a load, or takes them away.
    pub(super) fn change_load(&self, load: &mut [u64], change: impl Fn(u64, u64) -> u64) {
        let steps = load.len() / self.steps.len();
        for place in 0..self.steps.len() {
            if let Some((step, flow)) = self.step(place) {
                let load = &mut load[place * steps + step];
                *load = change(*load, u64::from(flow));
            }
        }
    }

    /// Adapters on detours.
    pub(super) fn detours(&self, adapters: &[u64]) -> u64 {
        self.longer.iter().map(|&place| adapters[place]).sum()
    }
}

impl Growing<'_> {
    /// Shortest paths, from the target outwards in each axis.
    ///
    /// - `left`: takes the places that have none.
    fn walk(&mut self, target: &Target<'_>, left: &mut Vec<usize>) {
        let space = self.space;
        let axes = space.axes();
        // By axis: the positions by distance, each as its part of a place.
        let outward = |axis: usize| {
            let mut positions: Vec<usize> = (0..space.lengths[axis]).collect();
            positions.sort_by_key(|&at| target.ways(axis)[at].steps);
            positions.into_iter().map(|at| at * space.strides[axis]).collect()
        };
        let outward: Vec<Vec<usize>> = (0..axes).map(outward).collect();
        let mut turn = vec![0; axes];
        // One combination after the other, the innermost axis first.
        while let Some(axis) = (0..axes).find(|&axis| turn[axis] + 1 < space.lengths[axis]) {
            turn[axis] += 1;
            turn[..axis].fill(0);
            let place: usize = outward.iter().zip(&turn).map(|(parts, &turn)| parts[turn]).sum();
            let differs = (0..axes).filter(|&axis| turn[axis] > 0).fold(0, |all, axis| all | 1 << axis);
            self.shortest(target, place, differs);
            if self.steps[place] == NONE {
                left.push(place);
            }
        }
    }

    /// Gives a place a shortest path, if there is one.
    fn shortest(&mut self, target: &Target<'_>, place: usize, differs: usize) {
        let wanted = target.wanted(place, differs);
        for among in [wanted, differs & !wanted] {
            let mut best: Option<(f64, usize, usize)> = None;
            for axis in (0..self.space.axes()).filter(|axis| among >> axis & 1 == 1) {
                let step = 2 * axis + usize::from(!target.way(place, axis).up);
                let Some((cost, next)) = self.over(place, step) else { continue };
                if best.is_none_or(|(least, ..)| cost < least) {
                    best = Some((cost, step, next));
                }
            }
            if let Some((cost, step, next)) = best {
                self.set(place, step, next, cost);
                return;
            }
        }
    }

    /// The cost of a path over a step, and where it leads, if it is legal.
    fn over(&self, place: usize, step: usize) -> Option<(f64, usize)> {
        let next = self.space.next(place, step) as usize;
        let has_path = next == self.place || self.steps.get(next).is_some_and(|&step| step != NONE);
        if !has_path || self.second(next, step) >= self.limit[next] && self.limit[next] != END {
            return None;
        }
        let load = self.load[place * self.space.steps() + step] as f64 * self.space.weight(place, step);
        Some((self.cost[next] + load, next))
    }

    /// The position of the step of a place after another one; [`END`] at the target.
    fn second(&self, place: usize, before: usize) -> u32 {
        match self.steps[place] {
            NONE => END,
            step => self.space.cuts.position(place, usize::from(step) / 2, step % 2 == 0, before / 2),
        }
    }

    fn set(&mut self, place: usize, step: usize, next: usize, cost: f64) {
        self.limit[place] = self.second(next, step);
        self.steps[place] = step as u8;
        self.cost[place] = cost;
        self.length[place] = self.length[next] + 1;
        self.order.push(place as u32);
    }

    /// Gives places without a path one that is longer: always the shortest that there is, then that of the least load.
    /// Returns whether all have one.
    fn detours(&mut self, mut left: Vec<usize>) -> bool {
        while !left.is_empty() {
            let mut best: Option<(u16, f64, usize, usize, usize)> = None;
            for (i, &place) in left.iter().enumerate() {
                for step in 0..self.space.steps() {
                    let Some((cost, next)) = self.over(place, step) else { continue };
                    let length = self.length[next] + 1;
                    let is_better = |(shortest, least, ..): (u16, f64, usize, usize, usize)| {
                        length < shortest || length == shortest && cost < least
                    };
                    if best.is_none_or(is_better) {
                        best = Some((length, cost, i, step, next));
                    }
                }
            }
            match best {
                Some((_, cost, i, step, next)) => {
                    let place = left.remove(i);
                    self.set(place, step, next, cost);
                }
                None if left.iter().any(|&place| self.make_way(place)) => {}
                None => return false,
            }
        }
        true
    }

    /// Gives a neighbour another step, so that it lets packets of a place pass. It is one that nobody sends to.
    fn make_way(&mut self, place: usize) -> bool {
        let steps = self.space.steps();
        for to in 0..steps {
            let beside = self.space.next(place, to);
            let is_next = |step: usize| {
                let from = self.space.next(beside as usize, step);
                from != NOWHERE && usize::from(self.steps[from as usize]) == step ^ 1
            };
            if beside == NOWHERE || (0..steps).any(is_next) || self.steps[beside as usize] == NONE {
                continue;
            }
            let beside = beside as usize;
            for step in 0..steps {
                let Some((cost, next)) = self.over(beside, step) else { continue };
                let limit = self.second(next, step);
                let passes = self.space.cuts.position(beside, step / 2, step % 2 == 0, to / 2);
                if passes < limit {
                    self.order.retain(|&place| place as usize != beside);
                    self.set(beside, step, next, cost);
                    return true;
                }
            }
        }
        false
    }
}
