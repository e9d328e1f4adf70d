//! A spanning tree for multicast beside paths around staggered cuts.

use super::{Axis, CUT, StaggeredCuts};

/// The longest ring on which no path takes three steps.
const SHORT_RING: usize = 5;

/// A tree of all places for multicast, whatever the paths are: see [`next`](Self::next).
///
/// *Why no credit loop.* Let an outer axis be the outermost one. Steps in its early lines are *towards* the root's
/// position or *away* from it; a line that is open within its cut leads from steps towards to steps away, never back, for
/// unicast neither. The tree goes on from steps towards to inner axes at the root's position, and from these to steps
/// away; both only where lines are early, and not in the middle of others. In unicast, steps in these lines, as long as
/// they are towards, come before the inner ones at the root's position. Packets that leave steps away go on at other
/// positions, then in late lines or in the middle of others. From late lines they have a last step, which leads nowhere;
/// so it is from lines in the middle at the root's position. The tree has no turns from such lines. So the virtual
/// channels can be sorted: early lines towards, inner axes at the root's position, early lines away, all others. The inner
/// axes at the root's position are sorted by the same rule.
pub struct SpanningTree<'a> {
    cuts: &'a StaggeredCuts,
    pub(super) root: usize,
}

/// The possible root that is farthest from the open ends of its lines.
///
/// Cost: O(S L) with S switches and L lines of an axis.
pub(super) fn root(cuts: &StaggeredCuts) -> Option<usize> {
    let tree = |root| SpanningTree { cuts, root };
    let is_long = |axis: usize| cuts.axes[axis].dimension.ring && cuts.axes[axis].length() > SHORT_RING;
    let is_possible = |&root: &usize| {
        let [up, down] = cuts.cuts[root * cuts.axes.len()].map(usize::from);
        let length = cuts.axes[0].length();
        let between = (down + length - up) % length;
        // Packets pass the open end of a line by one step.
        let is_inside = |axis: usize| {
            let Axis { stride, dimension, .. } = cuts.axes[axis];
            let lines = (0..stride).map(|inside| root - root % stride + inside);
            !is_long(axis)
                || lines.filter(|&line| tree(root).leads(line, axis)).all(|line| {
                    let from_end = tree(root).steps_from_end(line, axis);
                    from_end > 0 && from_end + 1 < dimension.length
                })
        };
        (!is_long(0) || between == CUT || between == CUT + 1)
            && (cuts.core..cuts.axes.len()).all(|axis| tree(root).leads(root, axis) && is_inside(axis))
    };
    let unequal = |root: usize| -> usize {
        let ends = |axis: usize| 2 * tree(root).steps_from_end(root, axis) + 1;
        (0..cuts.axes.len()).map(|axis| ends(axis).abs_diff(cuts.axes[axis].length())).sum()
    };
    let roots = (0..cuts.early.len()).filter(is_possible);
    roots.min_by_key(|&root| unequal(root))
}

impl<'a> SpanningTree<'a> {
    /// `None` if the core is a ring without a line whose cuts are in one place in both directions.
    pub fn new(cuts: &'a StaggeredCuts) -> Option<Self> {
        cuts.root.map(|root| Self { cuts, root })
    }

    /// The step from a place to the next one on the way to the root: in early lines of the outermost axis, to the position
    /// of the root; there in the same way in the axes inside. Places on other lines are leaves: few steps lead to an early
    /// line. In the core the lower axis comes first.
    ///
    /// `None` at the root, and where no early line is near, which cannot be.
    pub fn next(&self, place: usize) -> Option<(usize, bool)> {
        let cuts = self.cuts;
        let differs = |&axis: &usize| cuts.at(place, axis) != cuts.at(self.root, axis);
        let outer = (cuts.core..cuts.axes.len()).rev().find(differs);
        let axis = outer.or_else(|| (0..cuts.core).find(differs))?;
        if axis >= cuts.core && !self.leads(place, axis) {
            return (1..=axis).find_map(|most| self.inside(place, axis, None, most));
        }
        let root = place - cuts.at(place, axis) * cuts.axes[axis].stride
            + cuts.at(self.root, axis) * cuts.axes[axis].stride;
        Some((axis, self.steps_from_end(place, axis) < self.steps_from_end(root, axis)))
    }

    /// The first of so many steps from a leaf in axes inside, to a line of an axis in which the tree leads. Sources alone wait
    /// for the steps: the first one is free, and each other one goes on into a line of an axis outside, in which the tree
    /// leads too. Middle lines are left downwards, to lines of the same kind.
    ///
    /// - `before`: the axis of the step before it.
    fn inside(&self, place: usize, axis: usize, before: Option<usize>, most: usize) -> Option<(usize, bool)> {
        let first = before.map_or(0, |before| before + 1);
        let axes = (first..axis).filter(|&inside| before.is_none() || self.leads(place, inside));
        let mut steps = axes.flat_map(|inside| [(inside, false), (inside, true)]);
        steps.find(|&(inside, up)| {
            let leads = |next| {
                self.leads(next, axis)
                    || most > 1 && self.inside(next, axis, Some(inside), most - 1).is_some()
            };
            self.cuts.next(place, inside, up).is_some_and(leads)
        })
    }

    /// Whether the tree has steps in the line of an outer axis at a place: in early lines that are not in the middle of others.
    fn leads(&self, place: usize, axis: usize) -> bool {
        self.cuts.is_early(place, axis) && !self.cuts.is_in_middle(place, axis)
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
