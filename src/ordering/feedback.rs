//! An order that few of the wanted turns descend in.

use super::{Rank, Tree};
use crate::fabric::{ChannelId, Fabric};

/// Two channels of which the first wants to be below the second, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The channel that should be lower.
    pub low: ChannelId,
    /// The channel that should be higher.
    pub high: ChannelId,
    /// What it costs if it is not.
    pub weight: u64,
}

/// Passes over all channels.
const PASSES: usize = 4;

/// A rank that violates wants of little weight: a feedback arc set by sifting.
///
/// Each channel in turn, in the order of `start`, moves to where most weight of the wants that it is
/// part of is satisfied, as the other channels stand; where several places are as good it moves
/// least. That never makes the whole worse. (Eades, Lin and Smyth's order from scratch is a common
/// start for this; here the start is a rank that routes well already and that routing knows.)
///
/// - `wants`: any; several for the same two channels add up.
/// - `pinned`: channels of this tree stay where they are among each other, so that its paths ascend
///   as before.
///
/// Cost: O(C log C + W log W) with C channels and W wants, for each of a few passes.
pub fn feedback(fabric: &Fabric, start: &Rank, wants: &[Want], pinned: Option<&Tree>) -> Rank {
    let n = fabric.channels().len();
    // By channel: (other end, weight, whether the other end wants to be higher).
    let mut first = vec![0_usize; n + 1];
    for w in wants.iter().filter(|w| w.low != w.high) {
        first[w.low.index() + 1] += 1;
        first[w.high.index() + 1] += 1;
    }
    for c in 0..n {
        first[c + 1] += first[c];
    }
    let mut next = first.clone();
    let mut ends = vec![(0_u32, 0_u64, false); first[n]];
    for w in wants.iter().filter(|w| w.low != w.high) {
        for (here, there, above) in [(w.low, w.high, true), (w.high, w.low, false)] {
            ends[next[here.index()]] = (there.0, w.weight, above);
            next[here.index()] += 1;
        }
    }
    let mut rank = start.clone();
    let mut around: Vec<(f64, u64, bool)> = Vec::new();
    for _ in 0..PASSES {
        let mut place: Vec<f64> = rank.places().iter().map(|&p| f64::from(p)).collect();
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
                    .map(|&(other, w, above)| (place[other as usize], w, above)),
            );
            around.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            if let Some(better) = sift(place[c], &around) {
                place[c] = better;
                moved = true;
            }
        }
        if !moved {
            break;
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| place[a].total_cmp(&place[b]));
        let mut places = vec![0_u32; n];
        for (i, c) in order.into_iter().enumerate() {
            places[c] = i as u32;
        }
        rank = Rank::by_key(fabric, |id, _| places[id.index()]);
    }
    rank
}

/// A better place for a channel at `here` among the others, sorted by place; `None` where it stands
/// best.
fn sift(here: f64, around: &[(f64, u64, bool)]) -> Option<f64> {
    // Below everybody, what is lost are the wants of those who want to be lower.
    let mut lost: u64 = around.iter().filter(|(_, _, above)| !above).map(|(_, w, _)| w).sum();
    let at = around.partition_point(|&(place, _, _)| place < here);
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
    use crate::ordering::bfs;
    use crate::topology::small_members;

    fn violated(rank: &Rank, wants: &[Want]) -> u64 {
        wants.iter().filter(|w| rank.of(w.low) > rank.of(w.high)).map(|w| w.weight).sum()
    }

    /// All turns that do not go back, with weights that depend on the channels.
    fn turns(f: &Fabric, weight: impl Fn(ChannelId, ChannelId) -> u64) -> Vec<Want> {
        let channels = f.channels();
        let of = |(low, c): (ChannelId, &crate::fabric::Channel)| {
            let (from, to) = (c.from, c.to);
            let next = channels.out(to).filter(move |(_, d)| d.to != from);
            next.map(move |(high, _)| (low, high)).collect::<Vec<_>>()
        };
        let all = channels.iter().flat_map(of);
        all.map(|(low, high)| Want { low, high, weight: weight(low, high) }).collect()
    }

    #[test]
    fn never_worse_than_the_start() {
        for (name, f) in small_members() {
            let start = bfs(&f, SwitchId(0));
            let wants = turns(&f, |a, b| u64::from((a.0 * 7919 + b.0 * 104_729) % 97));
            let found = feedback(&f, &start, &wants, None);
            assert!(violated(&found, &wants) <= violated(&start, &wants), "{name}");
            let mut places: Vec<u32> = found.places().to_vec();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..f.channels().len() as u32), "{name}: a permutation");
        }
    }

    #[test]
    fn a_tree_that_is_pinned_ascends_as_before() {
        for (name, f) in small_members() {
            let start = bfs(&f, SwitchId(0));
            let tree = Tree::new(&f, &start, SwitchId(0));
            let wants = turns(&f, |a, b| u64::from((a.0 * 7919 + b.0 * 104_729) % 97));
            let found = feedback(&f, &start, &wants, Some(&tree));
            assert_eq!(tree.own_place(&f, &found), found, "{name}");
        }
    }

    #[test]
    fn wants_that_agree_are_mostly_met() {
        for (name, f) in small_members() {
            let goal = bfs(&f, SwitchId::at(f.num_switches() - 1));
            let mut wants = turns(&f, |_, _| 1);
            wants.retain(|w| goal.of(w.low) < goal.of(w.high));
            let start = Rank::by_key(&f, |id, _| std::cmp::Reverse(id));
            let (before, after) =
                (violated(&start, &wants), violated(&feedback(&f, &start, &wants, None), &wants));
            assert!(after <= 1 + before / 4, "{name}: {after} of {before}");
        }
    }
}
