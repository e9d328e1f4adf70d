//! The dimension and direction of each ladder.

use std::cmp::Reverse;

use super::ladders::Ladders;

/// The most neighbours of a switch, and so the most dimensions, for which a [`slot`] has bits; a ring of four counts as
/// two dimensions.
pub(super) const MOST_NEIGHBOURS: usize = 8;

/// By ladder: the dimension, and whether the ladder points upwards in it; `None` where that is open.
pub(super) struct Labels {
    pub(super) of: Vec<Option<(usize, bool)>>,
    pub(super) dimensions: usize,
    /// The switch where the labels begin.
    pub(super) seed: usize,
}

/// A bit for each dimension and direction.
fn slot(dimension: usize, up: bool) -> u16 {
    1 << (2 * dimension + usize::from(!up))
}

/// The same bits with up and down exchanged.
fn mirrored(slots: u16) -> u16 {
    (slots & 0x5555) << 1 | (slots & 0xaaaa) >> 1
}

impl Labels {
    /// Labels the ladders, from a switch outward where every two links in different dimensions are sides of a square.
    /// At each switch a direction of a dimension belongs to one link. So a ladder with one direction left, over all
    /// of its switches, has that one.
    ///
    /// A square that lost a link makes two dimensions of a switch look like one. So switches with the most dimensions come
    /// first, and others follow where labels contradict each other.
    ///
    /// `None` where no switch is such a seed, or the labels of the first few contradict each other.
    ///
    /// Cost: O(L K) with L links and K rounds, at most the length of the longest dimension on a whole grid.
    pub(super) fn find(ladders: &Ladders) -> Option<Self> {
        let n = ladders.neighbours.len();
        let most = ladders.neighbours.iter().map(Vec::len).max()?;
        let seeds = (0..n).filter(|&s| ladders.neighbours[s].len() == most);
        let mut seeds: Vec<(usize, Straight)> =
            seeds.take(SEEDS).filter_map(|s| Some((s, straight(ladders, s)?))).collect();
        seeds.sort_by_key(|(_, pairs)| Reverse(pairs.len()));
        seeds.into_iter().take(ATTEMPTS).find_map(|(seed, pairs)| Self::from(ladders, seed, &pairs))
    }

    /// `None` where labels contradict each other.
    fn from(ladders: &Ladders, seed: usize, pairs: &Straight) -> Option<Self> {
        let n = ladders.neighbours.len();
        let mut labels = Self { of: vec![None; ladders.links()], dimensions: pairs.len(), seed };
        let mut taken = vec![0_u16; n];
        let around: Vec<_> = ladders.around(seed).collect();
        for (dimension, &(a, b)) in pairs.iter().enumerate() {
            for (at, up) in [(Some(a), true), (b, false)] {
                let Some(at) = at else { continue };
                let (_, ladder, outward) = around[at];
                let label = (dimension, up == outward);
                if labels.of[ladder].is_some_and(|old| old != label) {
                    return None;
                }
                labels.of[ladder] = Some(label);
            }
        }
        let crossings = ladders.crossings();
        loop {
            labels.take_slots(ladders, &mut taken)?;
            let open = labels.candidates(ladders, &taken, &crossings);
            let mut new = false;
            for (ladder, slots) in open.into_iter().enumerate() {
                if slots.count_ones() == 1 {
                    let bit = slots.trailing_zeros() as usize;
                    labels.of[ladder] = Some((bit / 2, bit % 2 == 0));
                    new = true;
                }
            }
            if !new {
                return Some(labels);
            }
        }
    }

    /// Notes the directions that are taken at each switch. `None` where two links claim one.
    fn take_slots(&self, ladders: &Ladders, taken: &mut [u16]) -> Option<()> {
        taken.fill(0);
        for (s, taken) in taken.iter_mut().enumerate() {
            for (_, ladder, outward) in ladders.around(s) {
                if let Some((dimension, up)) = self.of[ladder] {
                    let own = slot(dimension, up == outward);
                    if *taken & own != 0 {
                        return None;
                    }
                    *taken |= own;
                }
            }
        }
        Some(())
    }

    /// By ladder without a label: the directions that it may have.
    fn candidates(&self, ladders: &Ladders, taken: &[u16], crossings: &[(usize, usize)]) -> Vec<u16> {
        let all = ((1_u32 << (2 * self.dimensions)) - 1) as u16;
        let mut open: Vec<u16> = self.of.iter().map(|label| if label.is_some() { 0 } else { all }).collect();
        let mut real = vec![false; open.len()];
        for (s, taken) in taken.iter().enumerate() {
            for (_, ladder, outward) in ladders.around(s) {
                real[ladder] = true;
                open[ladder] &= if outward { !taken } else { mirrored(!taken) };
            }
        }
        for &(x, y) in crossings {
            for (one, other) in [(x, y), (y, x)] {
                if let Some((dimension, _)) = self.of[other] {
                    open[one] &= !(slot(dimension, true) | slot(dimension, false));
                }
            }
        }
        open.iter_mut().zip(real).filter(|(_, real)| !real).for_each(|(slots, _)| *slots = 0);
        open
    }
}

/// Switches with the most neighbours that are tried as the seed.
const SEEDS: usize = 2000;
/// How many of them labels may begin from.
const ATTEMPTS: usize = 8;

/// The links of a switch by dimension, as indices among its neighbours: two, or one alone.
type Straight = Vec<(usize, Option<usize>)>;

/// The links of a switch by dimension, as indices among its neighbours: two that are no sides of a square, or one
/// alone. `None` where that is no grid.
fn straight(ladders: &Ladders, s: usize) -> Option<Straight> {
    let near = &ladders.neighbours[s];
    let mut partner: Vec<Option<usize>> = vec![None; near.len()];
    for (i, &a) in near.iter().enumerate() {
        for (j, &b) in near[..i].iter().enumerate() {
            if ladders.square(crate::fabric::SwitchId::at(s), a, b).is_none() {
                if partner[i].is_some() || partner[j].is_some() {
                    return None;
                }
                (partner[i], partner[j]) = (Some(j), Some(i));
            }
        }
    }
    let own = |i: &usize| partner[*i].is_none_or(|other| other > *i);
    Some((0..near.len()).filter(own).map(|i| (i, partner[i])).collect())
}
