//! A spanning tree for multicast beside paths around staggered cuts.

use super::{Axis, CUT, StaggeredCuts};

/// A tree of all places for multicast, whatever the paths are: see [`next`](Self::next).
///
/// *Why no credit loop.* Steps of the tree are *towards* the root's position in an axis or *away* from it. A line that is
/// open within its cut leads from steps towards to steps away, never back, for unicast neither.
///
/// - *An axis with lines in the middle.* Unicast takes the steps by which it comes to these lines, then the lines, then the
///   steps by which it leaves them. So does the tree.
/// - *The others*, from the outermost on. The tree goes on from steps towards to inner axes at the root's position, and from
///   these to steps away; both only where lines are early. In unicast, steps in these lines, as long as they are towards,
///   come before the inner ones at the root's position. Packets that leave steps away go on at other positions, then in
///   late lines. From these they have a last step, which leads nowhere. The tree has no turns from such lines. So the
///   virtual channels can be sorted: early lines towards, inner axes at the root's position, early lines away, all others.
///   The inner axes at the root's position are sorted by the same rule.
///
/// A test compares the tree with all turns that paths may take.
pub struct SpanningTree<'a> {
    cuts: &'a StaggeredCuts,
    pub(super) root: usize,
    /// The axes in which places move towards the root, one after the other.
    axes: Vec<usize>,
}

/// The possible root that is farthest from the open ends of its lines. None where each one would be at an open end: in a few
/// cases with an outermost ring of six.
///
/// Cost: O(S L) with S switches and L lines of an axis.
pub(super) fn root(cuts: &StaggeredCuts) -> Option<usize> {
    let mut tree = SpanningTree::new(cuts);
    let possible = (0..cuts.early.len()).filter_map(|root| {
        tree.root = root;
        tree.is_possible().then(|| (tree.unequal(), root))
    });
    possible.min().map(|(_, root)| root)
}

impl<'a> SpanningTree<'a> {
    /// The tree of the cuts.
    pub fn new(cuts: &'a StaggeredCuts) -> Self {
        let all = 0..cuts.axes.len();
        let middles = all.clone().filter(|&axis| cuts.has_middle(axis));
        let others = |axes: std::ops::Range<usize>| axes.filter(|&axis| !cuts.has_middle(axis));
        let axes = middles.chain(others(cuts.core..all.end).rev()).chain(others(0..cuts.core)).collect();
        Self { cuts, root: cuts.root, axes }
    }

    /// Whether the root's position is at the open end of no line that the tree uses: packets pass an open end by one step.
    fn is_possible(&self) -> bool {
        let cuts = self.cuts;
        let is_inside = |line: usize, axis: usize| {
            let from_end = self.steps_from_end(line, axis);
            from_end > 0 && from_end + 1 < cuts.axes[axis].length()
        };
        let is_used = |line: usize, axis: usize| self.leads(line, axis) && self.is_in_middles(line, axis);
        let lines = |axis: usize| {
            let stride = cuts.axes[axis].stride;
            (0..stride).map(move |inside| self.root - self.root % stride + inside)
        };
        self.axes.iter().all(|&axis| match cuts.has_middle(axis) {
            true => cuts.at(self.root, axis) == 0,
            false => {
                self.leads(self.root, axis)
                    && (axis < cuts.core
                        || !cuts.axes[axis].dimension.ring
                        || lines(axis).filter(|&line| is_used(line, axis)).all(|line| is_inside(line, axis)))
            }
        })
    }

    /// How far its position in the lines is from their middle, in half steps.
    fn unequal(&self) -> usize {
        let ends = |axis: usize| 2 * self.steps_from_end(self.root, axis) + 1;
        (0..self.cuts.axes.len()).map(|axis| ends(axis).abs_diff(self.cuts.axes[axis].length())).sum()
    }

    /// The step from a place to the next one on the way to the root: axis by axis, in lines in which the tree leads. Places
    /// on other lines are leaves: few steps lead to such a line.
    ///
    /// `None` at the root, and where no such line is near, which cannot be.
    pub fn next(&self, place: usize) -> Option<(usize, bool)> {
        let cuts = self.cuts;
        let axis = *self.axes.iter().find(|&&axis| cuts.at(place, axis) != cuts.at(self.root, axis))?;
        if !self.leads(place, axis) {
            return (1..=axis).find_map(|most| self.inside(place, axis, None, most));
        }
        let Axis { stride, .. } = cuts.axes[axis];
        let root = place - cuts.at(place, axis) * stride + cuts.at(self.root, axis) * stride;
        Some((axis, self.steps_from_end(place, axis) < self.steps_from_end(root, axis)))
    }

    /// The first of so many steps from a leaf in axes inside, to a line of an axis in which the tree leads. Sources alone wait
    /// for the steps: the first one is free, and each other one goes on into a line of an axis outside, in which the tree
    /// leads too.
    ///
    /// - `before`: the axis of the step before it.
    fn inside(&self, place: usize, axis: usize, before: Option<usize>, most: usize) -> Option<(usize, bool)> {
        let first = before.map_or(0, |before| before + 1);
        let is_open = |inside: &usize| {
            !self.cuts.has_middle(*inside) && (before.is_none() || self.leads(place, *inside))
        };
        let axes = (first..axis).filter(is_open);
        let mut steps = axes.flat_map(|inside| [(inside, false), (inside, true)]);
        steps.find(|&(inside, up)| {
            let leads = |next| {
                self.leads(next, axis)
                    || most > 1 && self.inside(next, axis, Some(inside), most - 1).is_some()
            };
            self.cuts.next(place, inside, up).is_some_and(leads)
        })
    }

    /// Whether the tree has steps in the line of an axis at a place: in all lines of the core and in early ones; where they are
    /// in the middle of others, in those whose others it has steps in.
    fn leads(&self, place: usize, axis: usize) -> bool {
        axis < self.cuts.core
            || self.cuts.is_early(place, axis)
                && self.cuts.around(place, axis).is_none_or(|around| self.leads(place, around))
    }

    /// Whether a line is in the middle of those of all axes inside that have lines in their middle.
    fn is_in_middles(&self, place: usize, axis: usize) -> bool {
        (0..axis).all(|inside| !self.cuts.has_middle(inside) || self.cuts.at(place, inside) == 0)
    }

    /// The steps to the root.
    pub fn depth(&self, place: usize) -> usize {
        let next = |&place: &usize| {
            let (axis, up) = self.next(place)?;
            self.cuts.next(place, axis, up)
        };
        std::iter::successors(Some(place), next).count() - 1
    }

    /// Steps from the lower end of a line. Rings are open in the middle of their cuts.
    fn steps_from_end(&self, place: usize, axis: usize) -> usize {
        let cuts = self.cuts;
        let at = cuts.at(place, axis);
        let length = cuts.axes[axis].length();
        if !cuts.axes[axis].dimension.ring {
            return at;
        }
        let cut = usize::from(cuts.cuts[place * cuts.axes.len() + axis][0]);
        (at + 2 * length - cut - (CUT - 1)) % length
    }
}
