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
pub(super) const NONE: u8 = u8::MAX;
/// The limit of a path that has no second step.
pub(super) const END: u32 = u32::MAX;

/// A tree that grows.
pub(super) struct Growing<'a> {
    pub(super) space: &'a Space<'a>,
    pub(super) place: usize,
    pub(super) steps: Vec<u8>,
    /// By place: the position of the second step of its path. That of a step before the first one must be less.
    pub(super) limit: Vec<u32>,
    /// By place: loads along the path, and its steps.
    cost: Vec<f64>,
    pub(super) length: Vec<u16>,
    load: &'a [u64],
}

impl Tree {
    /// Gives each place a shortest path with the [wanted](Target::wanted) steps, of these the one with the least load;
    /// else any legal one among the shortest. Others get one where some places [change](Growing::make_shortest) theirs;
    /// then the rest get detours, the shortest first. `None` where some place has none. The lower step decides between
    /// equal ones.
    ///
    /// - `adapters`: by place.
    ///
    /// Cost: O(S D) with S switches and D axes, a bounded search for each of L pairs without a path, and
    /// O(L^2 D) for those that keep none.
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
            load,
        };
        let mut left = Vec::new();
        tree.walk(target, &mut left);
        for &place in &left {
            if tree.steps[place] == NONE {
                tree.make_shortest(target, place);
            }
        }
        left.retain(|&place| tree.steps[place] == NONE);
        if !tree.detours(left) {
            return None;
        }
        let longer = (0..n).filter(|&place| usize::from(tree.length[place]) > target.steps(place)).collect();
        let flow = flow(space, &tree.steps, adapters.to_vec()).into_iter().map(|flow| flow as u32).collect();
        Some(Self { steps: tree.steps, flow, longer })
    }

    /// The step of a place, and the adapters whose packets it sends; `None` at the target.
    pub(super) fn step(&self, place: usize) -> Option<(usize, u32)> {
        let step = self.steps[place];
        (step != NONE).then(|| (usize::from(step), self.flow[place]))
    }

    /// The routes that each place sends, where places begin so many.
    ///
    /// Cost: O(S D).
    pub(super) fn flow(&self, space: &Space<'_>, routes: Vec<u64>) -> Vec<u64> {
        flow(space, &self.steps, routes)
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

/// The routes that each place sends, where places begin so many: those of the places that send to it come in addition.
fn flow(space: &Space<'_>, steps: &[u8], mut flow: Vec<u64>) -> Vec<u64> {
    let next = |place: usize| {
        let step = steps[place];
        (step != NONE).then(|| space.next(place, usize::from(step)) as usize)
    };
    let mut senders = vec![0_u8; steps.len()];
    (0..steps.len()).filter_map(next).for_each(|to| senders[to] += 1);
    let mut ready: Vec<usize> = (0..steps.len()).filter(|&place| senders[place] == 0).collect();
    while let Some(place) = ready.pop() {
        let Some(to) = next(place) else { continue };
        flow[to] += flow[place];
        senders[to] -= 1;
        if senders[to] == 0 {
            ready.push(to);
        }
    }
    flow
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
    pub(super) fn over(&self, place: usize, step: usize) -> Option<(f64, usize)> {
        let next = self.space.next(place, step) as usize;
        let has_path = next == self.place || self.steps.get(next).is_some_and(|&step| step != NONE);
        if !has_path || self.second(next, step) >= self.limit[next] && self.limit[next] != END {
            return None;
        }
        let load = self.load[place * self.space.steps() + step] as f64 * self.space.weight(place, step);
        Some((self.cost[next] + load, next))
    }

    /// The position of the step of a place after another one; [`END`] at the target.
    pub(super) fn second(&self, place: usize, before: usize) -> u32 {
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
                    self.set(beside, step, next, cost);
                    return true;
                }
            }
        }
        false
    }
}
