//! An order in which few of the wanted turns descend.

use super::{Rank, Tree};
use crate::fabric::{ChannelId, Fabric};

/// Two channels, of which the first should come before the second, and how much that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precedence {
    /// The channel that should come first.
    pub before: ChannelId,
    /// The channel that should come later.
    pub after: ChannelId,
    /// What it costs if they do not.
    pub weight: u64,
}

/// Passes over all channels.
const PASSES: usize = 4;

/// A rank that violates precedences of little weight: a feedback arc set by sifting.
///
/// Each channel in turn, in the order of `start`, moves to the position that satisfies most weight of its
/// precedences while the other channels stay. Of several such positions it takes the nearest. That never
/// makes the whole worse. (Eades, Lin and Smyth's order from scratch is a common start for this; here the
/// start is a rank that routes well already.)
///
/// - `precedences`: any; several for the same two channels add up.
/// - `pinned`: channels of this tree keep their order among each other, so its paths ascend as before.
///
/// Cost: O(C log C + W log W) with C channels and W precedences, for each of a few passes.
pub fn sift(fabric: &Fabric, start: &Rank, precedences: &[Precedence], pinned: Option<&Tree>) -> Rank {
    let n = fabric.channels().len();
    // By channel: (other end, weight, whether the other end should come later).
    let mut first = vec![0_usize; n + 1];
    for w in precedences.iter().filter(|w| w.before != w.after) {
        first[w.before.index() + 1] += 1;
        first[w.after.index() + 1] += 1;
    }
    for c in 0..n {
        first[c + 1] += first[c];
    }
    let mut next = first.clone();
    let mut ends = vec![(0_u32, 0_u64, false); first[n]];
    for w in precedences.iter().filter(|w| w.before != w.after) {
        for (here, there, above) in [(w.before, w.after, true), (w.after, w.before, false)] {
            ends[next[here.index()]] = (there.0, w.weight, above);
            next[here.index()] += 1;
        }
    }
    let mut rank = start.clone();
    let mut around: Vec<(f64, u64, bool)> = Vec::new();
    for _ in 0..PASSES {
        let mut position: Vec<f64> = rank.positions().iter().map(|&p| f64::from(p)).collect();
        let mut moved = false;
        for channel in rank.order() {
            let c = channel.index();
            if first[c] == first[c + 1] || pinned.is_some_and(|tree| tree.contains(fabric, channel)) {
                continue;
            }
            around.clear();
            around.extend(
                ends[first[c]..first[c + 1]]
                    .iter()
                    .map(|&(other, w, above)| (position[other as usize], w, above)),
            );
            around.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            if let Some(better) = better_position(position[c], &around) {
                position[c] = better;
                moved = true;
            }
        }
        if !moved {
            break;
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| position[a].total_cmp(&position[b]));
        let mut positions = vec![0_u32; n];
        for (i, c) in order.into_iter().enumerate() {
            positions[c] = i as u32;
        }
        rank = Rank::by_key(fabric, |id, _| positions[id.index()]);
    }
    rank
}

/// A better position for a channel at `here` among the others, sorted by position; `None` where it has the
/// best one.
fn better_position(here: f64, around: &[(f64, u64, bool)]) -> Option<f64> {
    // Before all others it violates the precedences of those that should come before it.
    let mut lost: u64 = around.iter().filter(|(_, _, above)| !above).map(|(_, w, _)| w).sum();
    let at = around.partition_point(|&(position, _, _)| position < here);
    let (mut now, mut best) = (lost, (u64::MAX, usize::MAX, 0));
    for gap in 0..=around.len() {
        if gap > 0 {
            let (_, weight, above) = around[gap - 1];
            lost = if above { lost + weight } else { lost - weight };
        }
        if gap == at {
            now = lost;
        }
        best = best.min((lost, gap.abs_diff(at), gap));
    }
    let (least, _, gap) = best;
    if least == now {
        return None;
    }
    Some(match (gap.checked_sub(1).map(|i| around[i].0), around.get(gap).map(|a| a.0)) {
        (None, Some(high)) => high - 0.5,
        (Some(low), None) => low + 0.5,
        (Some(low), Some(high)) => low + (high - low) / 2.0,
        (None, None) => here,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::SwitchId;
    use crate::ordering::up_down_rank;
    use crate::topology::small_members;

    fn violated(rank: &Rank, precedences: &[Precedence]) -> u64 {
        precedences.iter().filter(|w| rank.of(w.before) > rank.of(w.after)).map(|w| w.weight).sum()
    }

    /// All turns that do not go back, with weights that depend on the channels.
    fn turns(f: &Fabric, weight: impl Fn(ChannelId, ChannelId) -> u64) -> Vec<Precedence> {
        let channels = f.channels();
        let of = |(before, c): (ChannelId, &crate::fabric::Channel)| {
            let (from, to) = (c.from, c.to);
            let next = channels.out(to).filter(move |(_, d)| d.to != from);
            next.map(move |(after, _)| (before, after)).collect::<Vec<_>>()
        };
        let all = channels.iter().flat_map(of);
        all.map(|(before, after)| Precedence { before, after, weight: weight(before, after) }).collect()
    }

    #[test]
    fn never_worse_than_the_start() {
        for (name, f) in small_members() {
            let start = up_down_rank(&f, SwitchId(0));
            let precedences = turns(&f, |a, b| u64::from((a.0 * 7919 + b.0 * 104_729) % 97));
            let found = sift(&f, &start, &precedences, None);
            assert!(violated(&found, &precedences) <= violated(&start, &precedences), "{name}");
            let mut positions: Vec<u32> = found.positions().to_vec();
            positions.sort_unstable();
            assert!(positions.into_iter().eq(0..f.channels().len() as u32), "{name}: a permutation");
        }
    }

    #[test]
    fn a_tree_that_is_pinned_ascends_as_before() {
        for (name, f) in small_members() {
            let start = up_down_rank(&f, SwitchId(0));
            let tree = Tree::new(&f, &start, SwitchId(0));
            let precedences = turns(&f, |a, b| u64::from((a.0 * 7919 + b.0 * 104_729) % 97));
            let found = sift(&f, &start, &precedences, Some(&tree));
            assert_eq!(tree.with_tree_outermost(&f, &found), found, "{name}");
        }
    }

    #[test]
    fn precedences_that_agree_are_mostly_met() {
        for (name, f) in small_members() {
            let goal = up_down_rank(&f, SwitchId::at(f.num_switches() - 1));
            let mut precedences = turns(&f, |_, _| 1);
            precedences.retain(|w| goal.of(w.before) < goal.of(w.after));
            let start = Rank::by_key(&f, |id, _| std::cmp::Reverse(id));
            let (before, after) = (
                violated(&start, &precedences),
                violated(&sift(&f, &start, &precedences, None), &precedences),
            );
            assert!(after <= 1 + before / 4, "{name}: {after} of {before}");
        }
    }
}
