//! A spanning tree for multicast beside paths around staggered cuts.

use super::{CUT, StaggeredCuts};

/// The longest ring on which no path takes three steps.
const SHORT_RING: usize = 5;

/// A tree of all places for multicast, whatever the paths are: see [`next`](Self::next).
///
/// *Why no credit loop.* Let an outer axis be the outermost one. Steps in its early lines are *towards* the root's
/// position or *away* from it; a line that is open within its cut leads from steps towards to steps away, never back, for
/// unicast neither. The tree goes on from steps towards to inner axes at the root's position, and from these to steps
/// away; both only where lines are early. In unicast, steps in early lines, as long as they are towards, come before the
/// inner ones at the root's position. Packets that leave steps away go on at other positions, then in late lines, then
/// with a last step after a late line, which leads nowhere, and the tree has no turns from late lines. So the virtual
/// channels can be sorted: early lines towards, inner axes at the root's position, early lines away, all others. The inner
/// axes at the root's position are sorted by the same rule.
pub struct SpanningTree<'a> {
    cuts: &'a StaggeredCuts,
    pub(super) root: usize,
}

impl<'a> SpanningTree<'a> {
    /// With the root farthest from the open ends of its lines. `None` if the core is a ring without a line whose cuts
    /// are in one place in both directions.
    ///
    /// Cost: O(S D) with S switches and D axes.
    pub fn new(cuts: &'a StaggeredCuts) -> Option<Self> {
        let tree = |root| Self { cuts, root };
        let is_long = |axis: usize| cuts.axes[axis].dimension.ring && cuts.axes[axis].length() > SHORT_RING;
        let is_possible = |&root: &usize| {
            let [up, down] = cuts.cuts[root * cuts.axes.len()].map(usize::from);
            let length = cuts.axes[0].length();
            let between = (down + length - up) % length;
            // Packets pass the open end by one step.
            let is_inside = |axis: usize| {
                let from_end = tree(root).steps_from_end(root, axis);
                !is_long(axis) || from_end > 0 && from_end + 1 < cuts.axes[axis].length()
            };
            (!is_long(0) || between == CUT || between == CUT + 1)
                && (cuts.core..cuts.axes.len()).all(|axis| cuts.is_early(root, axis) && is_inside(axis))
        };
        let unequal = |root: usize| -> usize {
            let ends = |axis: usize| 2 * tree(root).steps_from_end(root, axis) + 1;
            (0..cuts.axes.len()).map(|axis| ends(axis).abs_diff(cuts.axes[axis].length())).sum()
        };
        let roots = (0..cuts.early.len()).filter(is_possible);
        roots.min_by_key(|&root| unequal(root)).map(tree)
    }

    /// The step from a place to the next one on the way to the root: in early lines of the outermost axis, to the position
    /// of the root; there in the same way in the axes inside. Places on late lines are leaves next to early ones. In the
    /// core the lower axis comes first.
    ///
    /// `None` at the root, and where no early line is next to a late one, which cannot be.
    pub fn next(&self, place: usize) -> Option<(usize, bool)> {
        let cuts = self.cuts;
        let differs = |&axis: &usize| cuts.at(place, axis) != cuts.at(self.root, axis);
        let outer = (cuts.core..cuts.axes.len()).rev().find(differs);
        let axis = outer.or_else(|| (0..cuts.core).find(differs))?;
        if axis >= cuts.core && !cuts.is_early(place, axis) {
            let leads = |&(inside, up): &(usize, bool)| {
                cuts.next(place, inside, up).is_some_and(|next| cuts.is_early(next, axis))
            };
            return (0..axis).flat_map(|inside| [(inside, true), (inside, false)]).find(leads);
        }
        let root = place - cuts.at(place, axis) * cuts.axes[axis].stride
            + cuts.at(self.root, axis) * cuts.axes[axis].stride;
        Some((axis, self.steps_from_end(place, axis) < self.steps_from_end(root, axis)))
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
