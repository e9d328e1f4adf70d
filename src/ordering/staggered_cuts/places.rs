//! Where the cuts of lines begin, so that those of neighbours are never both in the way.

use super::{CUT, apart};
use crate::ordering::grid::Dimension;

/// How far the cuts of lines are moved, by the position of the lines in an outer axis. `None` if there are too few lines
/// in a ring for that.
///
/// - `outer`: the outer axis.
/// - `length`: of the rings with the cuts.
/// - `in_core`: whether cuts begin at every second position only; then it counts these.
pub(super) fn offsets(outer: Dimension, length: usize, in_core: bool) -> Option<Vec<usize>> {
    let least = apart(length);
    match in_core {
        true => walk(outer, (length / 2).max(1), least.div_ceil(2)),
        false => walk(outer, length, least),
    }
}

/// Where the cut of a ring of the core begins, upwards and downwards: in early lines of the next axis, both in one place.
/// The order of an odd ring does not begin where lines are in the middle.
///
/// - `moved`: sum of the [`offsets`].
pub(super) fn column_starts(moved: usize, length: usize) -> (usize, usize) {
    let start = 2 * (moved % (length / 2).max(1));
    let behind = usize::from(length % 2 == 0 || start + CUT < length);
    (start, (start + CUT + behind) % length)
}

/// A walk over some places in a circle, one place for each line. Neighbours in the walk are at least `least` places
/// apart. All places occur about equally often.
///
/// Cost: O(L P^2) with L lines and P places.
fn walk(lines: Dimension, places: usize, least: usize) -> Option<Vec<usize>> {
    let count = lines.length;
    let apart = |a: usize, b: usize| a.abs_diff(b).min(places - a.abs_diff(b));
    if places == 1 || least == 0 {
        return Some((0..count).map(|line| line % places).collect());
    }
    let suits = |a: usize, b: usize| apart(a, b) >= least;
    // By number of lines after it, and by place: whether they have places if one has this.
    let mut ends = vec![vec![true; places]];
    if lines.ring {
        ends[0] = (0..places).map(|place| suits(place, 0)).collect();
    }
    for left in 1..count.max(2) - 1 {
        let goes_on = |place| (0..places).any(|next| suits(place, next) && ends[left - 1][next]);
        ends.push((0..places).map(goes_on).collect());
    }
    let mut used = vec![0; places];
    let mut walk = vec![0];
    used[0] = 1;
    for left in (0..count - 1).rev() {
        let before = *walk.last()?;
        let possible = (0..places).filter(|&place| suits(before, place) && ends[left][place]);
        let next = possible.min_by_key(|&place| (used[place], places - apart(before, place), place))?;
        used[next] += 1;
        walk.push(next);
    }
    Some(walk)
}
