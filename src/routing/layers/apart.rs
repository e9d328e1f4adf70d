//! How many of the paths of a pair have no link in common.

use super::MOST;

/// For each path of a pair, which others share a link with it: bit `i` for path `i`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Overlaps([u8; MOST]);

impl Overlaps {
    /// Says which of the first paths share a link with path `path`.
    pub(super) fn set(&mut self, path: usize, others: u8) {
        let own = 1 << path;
        self.0[path] = others & !own;
        for (i, mask) in self.0.iter_mut().enumerate() {
            if others >> i & 1 != 0 && i != path {
                *mask |= own;
            } else {
                *mask &= !own;
            }
        }
    }

    /// Pairs of paths with a common link.
    pub(super) fn pairs(self) -> u32 {
        self.0.iter().map(|mask| mask.count_ones()).sum::<u32>() / 2
    }

    /// The most of the first `paths` paths of which no two share a link.
    ///
    /// Cost: O(2^paths) at worst, mostly O(paths).
    pub(super) fn disjoint(self, paths: usize) -> u32 {
        self.most_among(((1_u32 << paths) - 1) as u8)
    }

    fn most_among(self, left: u8) -> u32 {
        if left == 0 {
            return 0;
        }
        let first = left.trailing_zeros() as usize;
        let rest = left & (left - 1);
        let others = self.0[first] & rest;
        let with = 1 + self.most_among(rest & !others);
        // A path that shares links with at most one other is in some largest set.
        if others.count_ones() <= 1 { with } else { with.max(self.most_among(rest)) }
    }
}

#[cfg(test)]
mod tests {
    use super::Overlaps;

    #[test]
    #[expect(clippy::needless_range_loop, reason = "a symmetric matrix is filled")]
    fn the_largest_set_is_found() {
        let mut state = 1_u64;
        for _ in 0..500 {
            let mut overlaps = Overlaps::default();
            let mut shared = [[false; 6]; 6];
            for path in 0..6 {
                let mut others = 0_u8;
                for other in 0..path {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let meets = state >> 62 == 0;
                    (shared[path][other], shared[other][path]) = (meets, meets);
                    others |= u8::from(meets) << other;
                }
                overlaps.set(path, others);
            }
            let apart =
                |set: u32| (0..6).all(|a| (0..a).all(|b| set >> a & set >> b & 1 == 0 || !shared[a][b]));
            let best = (0..64_u32).filter(|&set| apart(set)).map(u32::count_ones).max();
            assert_eq!(Some(overlaps.disjoint(6)), best);
            let pairs = (0..6).map(|a| (0..a).filter(|&b| shared[a][b]).count() as u32).sum::<u32>();
            assert_eq!(overlaps.pairs(), pairs);
            // Set again, each path has the same partners.
            let before = overlaps;
            for path in 0..6 {
                overlaps.set(path, before.0[path]);
            }
            assert_eq!(overlaps, before);
        }
    }
}
