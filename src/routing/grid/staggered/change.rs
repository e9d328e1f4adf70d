//! Shortest paths for places that have none, because others changed theirs.

use super::space::NOWHERE;
use super::target::Target;
use super::tree::{END, Growing, NONE};

/// Places that may be tried for one that has no path: most that get one need some tens.
const TRIES: usize = 20_000;
/// Changes that may depend on each other.
const DEPTH: usize = 5;

/// A search for changes.
struct Search<'a> {
    target: &'a Target<'a>,
    tries: usize,
    /// Of places that changed, what they had: step and limit. The last change comes last.
    before: Vec<(usize, u8, u32)>,
}

impl Growing<'_> {
    /// Gives a place a shortest path if some other places may take other shortest paths for that, as few as possible. All
    /// paths so far are shortest, and stay so.
    ///
    /// Cost: at most [`TRIES`] places with all their steps.
    pub(super) fn make_shortest(&mut self, target: &Target<'_>, place: usize) {
        let mut search = Search { target, tries: TRIES, before: Vec::new() };
        for depth in 1..=DEPTH {
            if self.lead(&mut search, place, None, depth) {
                for &(place, ..) in &search.before {
                    self.length[place] = target.steps(place) as u16;
                }
                return;
            }
        }
    }

    /// Gives a place a shortest path, or another one. Returns whether there is one.
    ///
    /// - `before`: the axis of a step to it, after which its path must be legal.
    /// - `depth`: how many places may follow each other in changing.
    fn lead(&mut self, search: &mut Search<'_>, place: usize, before: Option<usize>, depth: usize) -> bool {
        let steps: Vec<(usize, usize)> = search.target.shortest(place).collect();
        search.any(self, steps, depth, |tree, search, (axis, step)| {
            let next = tree.space.next(place, step) as usize;
            if tree.over(place, step).is_none() {
                let is_led = next != tree.place && tree.lead(search, next, Some(axis), depth - 1);
                if !is_led || tree.over(place, step).is_none() {
                    return false;
                }
            }
            let limit = tree.second(next, step);
            let position = |before| tree.space.cuts.position(place, axis, step % 2 == 0, before);
            before.is_none_or(|before| position(before) < limit) && tree.put(search, place, step, depth)
        })
    }

    /// Gives a place that must not send over one step another one.
    fn lead_elsewhere(&mut self, search: &mut Search<'_>, place: usize, not: usize, depth: usize) -> bool {
        let steps: Vec<(usize, usize)> =
            search.target.shortest(place).filter(|&(_, step)| step != not).collect();
        search.any(self, steps, depth, |tree, search, (_, step)| {
            tree.over(place, step).is_some() && tree.put(search, place, step, depth - 1)
        })
    }

    /// Changes the step of a place, and those of places whose paths are not legal then.
    fn put(&mut self, search: &mut Search<'_>, place: usize, step: usize, depth: usize) -> bool {
        let is_new = self.steps[place] == NONE;
        let next = self.space.next(place, step) as usize;
        let limit = self.second(next, step);
        search.before.push((place, self.steps[place], self.limit[place]));
        self.steps[place] = step as u8;
        self.limit[place] = limit;
        // Nobody sends to a place without a path.
        is_new
            || self.senders(place).into_iter().all(|(from, step)| {
                let position = self.second(place, step);
                if limit != END && position >= limit {
                    return self.lead_elsewhere(search, from, step, depth);
                }
                search.before.push((from, self.steps[from], self.limit[from]));
                self.limit[from] = position;
                self.senders(from).into_iter().all(|(behind, step)| {
                    self.second(from, step) < position || self.lead_elsewhere(search, behind, step, depth)
                })
            })
    }

    /// The places that send to one, each with its step.
    fn senders(&self, place: usize) -> Vec<(usize, usize)> {
        let from = |step: usize| (self.space.next(place, step) as usize, step ^ 1);
        let sends = |&(from, step): &(usize, usize)| {
            from != NOWHERE as usize && usize::from(self.steps[from]) == step
        };
        (0..self.space.steps()).map(from).filter(sends).collect()
    }
}

impl Search<'_> {
    /// Tries steps until one succeeds; what the others changed is taken back.
    fn any(
        &mut self,
        tree: &mut Growing<'_>,
        steps: Vec<(usize, usize)>,
        depth: usize,
        mut succeeds: impl FnMut(&mut Growing<'_>, &mut Self, (usize, usize)) -> bool,
    ) -> bool {
        if depth == 0 || self.tries == 0 {
            return false;
        }
        self.tries -= 1;
        let start = self.before.len();
        steps.into_iter().any(|step| {
            let done = succeeds(tree, self, step);
            if !done {
                for (place, step, limit) in self.before.drain(start..).rev() {
                    tree.steps[place] = step;
                    tree.limit[place] = limit;
                }
            }
            done
        })
    }
}
