//! Coordinates of tori and meshes, from their links alone.

mod labels;
mod ladders;
mod place;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use self::labels::{Labels, MOST_NEIGHBOURS};
use self::ladders::Ladders;
use crate::fabric::{ChannelId, Fabric, SwitchId};

/// One dimension of a [`Grid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Positions, at least 2.
    pub length: usize,
    /// Whether the last position is next to the first.
    pub ring: bool,
}

impl Dimension {
    /// The next position upwards or downwards; `None` beyond the end of a path.
    pub fn next(self, position: usize, up: bool) -> Option<usize> {
        let last = self.length - 1;
        match (up, self.ring) {
            (true, _) if position < last => Some(position + 1),
            (false, _) if position > 0 => Some(position - 1),
            (true, true) => Some(0),
            (false, true) => Some(last),
            (_, false) => None,
        }
    }
}

/// A fabric whose switches lie in a grid: a Cartesian product of rings and paths, some links and switches of which may
/// be missing. Parallel links are links of one step. A ring of four is a product of two paths of two.
///
/// The dimensions come in the order of routing: rings of an even length first, the shortest of them first. Pairs that
/// are half a ring apart cannot be balanced in the last dimension as in the others
/// ([`Datelines`](super::Datelines)), which matters least on long rings and not at all on odd ones.
#[derive(Clone, Debug)]
pub struct Grid {
    dimensions: Vec<Dimension>,
    /// Switch-major.
    positions: Vec<u8>,
    /// By switch, dimension and direction, up first: where its channels begin among `ahead`.
    first: Vec<u32>,
    ahead: Vec<ChannelId>,
    /// By switch, dimension and direction: how many steps are possible, at most `length`.
    reach: Vec<u16>,
}

/// The share of the places that may be without a switch, and of the steps without a link: 1 in so many.
const DAMAGED: usize = 4;

impl Grid {
    /// Looks for the coordinates of all switches.
    ///
    /// Links get their dimensions from squares, as in [`Dimensions`](super::Dimensions), but only what squares prove
    /// counts: so one failed link hides no more than the squares that it belongs to.
    ///
    /// Cost: O(S d^3 + C K) time with S switches, C channels, d neighbours and K the longest dimension; O(1) where
    /// the first switch has more than eight neighbours, O(S) where another one has.
    pub fn find(fabric: &Fabric) -> Option<Self> {
        let ladders = Ladders::find(fabric, MOST_NEIGHBOURS)?;
        let labels = Labels::find(&ladders)?;
        let (dimensions, places) = place::place(&ladders, &labels)?;
        Self::new(fabric, dimensions, &places)
    }

    /// Orders the dimensions and finds the channels of each step. `None` where a link is no step, two switches share
    /// a place, or too much is missing.
    fn new(fabric: &Fabric, found: Vec<Dimension>, places: &[Vec<usize>]) -> Option<Self> {
        // A single switch has no dimension.
        found.first()?;
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_by_key(|&i| {
            let even = found[i].ring && found[i].length % 2 == 0;
            (!even, !found[i].ring, found[i].length, i)
        });
        let dimensions: Vec<Dimension> = order.iter().map(|&i| found[i]).collect();
        let positions: Vec<u8> =
            places.iter().flat_map(|place| order.iter().map(|&i| place[i] as u8)).collect();
        let (d, n) = (dimensions.len(), fabric.num_switches());
        let full = dimensions.iter().try_fold(1_usize, |all, dimension| all.checked_mul(dimension.length))?;
        if full < n || full - n > full / DAMAGED {
            return None;
        }
        let mut steps: Vec<(usize, ChannelId)> = Vec::with_capacity(fabric.channels().len());
        for (id, c) in fabric.channels().iter() {
            let (from, to) = (&positions[c.from.index() * d..][..d], &positions[c.to.index() * d..][..d]);
            let mut changed = (0..d).filter(|&i| from[i] != to[i]);
            let (i, None) = (changed.next()?, changed.next()) else { return None };
            let is = |up: bool| dimensions[i].next(usize::from(from[i]), up) == Some(usize::from(to[i]));
            let down = if is(true) { 0 } else { usize::from(is(false).then_some(true)?) };
            steps.push(((c.from.index() * d + i) * 2 + down, id));
        }
        steps.sort_unstable();
        let first: Vec<u32> =
            (0..=n * d * 2).map(|at| steps.partition_point(|&(step, _)| step < at) as u32).collect();
        let ahead = steps.into_iter().map(|(_, id)| id).collect();
        let mut grid = Self { dimensions, positions, first, ahead, reach: Vec::new() };
        if grid.has_twins(full) {
            return None;
        }
        grid.measure(fabric);
        let is_step = |&at: &usize| grid.first[at] != grid.first[at + 1];
        let there = (0..n * d * 2).filter(is_step).count();
        let ends = |dimension: &Dimension| if dimension.ring { 0 } else { 2 * (full / dimension.length) };
        let all = 2 * d * full - grid.dimensions.iter().map(ends).sum::<usize>();
        (all - there <= all / DAMAGED).then_some(grid)
    }

    /// Whether two switches share a place.
    fn has_twins(&self, full: usize) -> bool {
        let d = self.dimensions.len();
        let mut seen = vec![false; full];
        self.positions.chunks_exact(d).any(|place| {
            let at = place
                .iter()
                .zip(&self.dimensions)
                .fold(0, |at, (&p, dimension)| at * dimension.length + usize::from(p));
            std::mem::replace(&mut seen[at], true)
        })
    }

    /// Counts the steps that are possible from each switch.
    fn measure(&mut self, fabric: &Fabric) {
        let (d, n) = (self.dimensions.len(), fabric.num_switches());
        let mut reach = vec![0_u16; n * d * 2];
        for s in fabric.switch_ids() {
            for (i, dimension) in self.dimensions.iter().enumerate() {
                for up in [true, false] {
                    let (mut at, mut steps) = (s, 0);
                    while let Some(next) = self.step(fabric, at, i, up).filter(|_| steps < dimension.length) {
                        (at, steps) = (next, steps + 1);
                    }
                    reach[self.index(s, i, up)] = steps as u16;
                }
            }
        }
        self.reach = reach;
    }

    fn index(&self, s: SwitchId, dimension: usize, up: bool) -> usize {
        (s.index() * self.dimensions.len() + dimension) * 2 + usize::from(!up)
    }

    /// The dimensions in the order of routing.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// The position of a switch in each dimension.
    pub fn place(&self, s: SwitchId) -> &[u8] {
        let d = self.dimensions.len();
        &self.positions[s.index() * d..][..d]
    }

    /// The channels from a switch to the next position, parallel links included; none where the link is missing.
    pub fn channels(&self, s: SwitchId, dimension: usize, up: bool) -> &[ChannelId] {
        let at = self.index(s, dimension, up);
        &self.ahead[self.first[at] as usize..self.first[at + 1] as usize]
    }

    /// The switch at the next position, if a link leads to it.
    pub fn step(&self, fabric: &Fabric, s: SwitchId, dimension: usize, up: bool) -> Option<SwitchId> {
        let channel = self.channels(s, dimension, up).first()?;
        Some(fabric.channels().get(*channel).to)
    }

    /// How many steps are possible from a switch in one direction; the length of the dimension on a whole ring.
    pub fn reach(&self, s: SwitchId, dimension: usize, up: bool) -> usize {
        usize::from(self.reach[self.index(s, dimension, up)])
    }

    /// Whether some ring is in several parts: some of its switches do not reach each other in it.
    pub fn has_ring_in_parts(&self) -> bool {
        self.reach.chunks_exact(2 * self.dimensions.len()).any(|reach| {
            let each = self.dimensions.iter().zip(reach.chunks_exact(2));
            each.filter(|(dimension, _)| dimension.ring)
                .any(|(dimension, reach)| usize::from(reach[0] + reach[1]) + 1 < dimension.length)
        })
    }

    /// The dimension of a channel.
    pub fn dimension_of(&self, fabric: &Fabric, channel: ChannelId) -> usize {
        let c = fabric.channels().get(channel);
        let differs = |(a, b): (&u8, &u8)| a != b;
        self.place(c.from).iter().zip(self.place(c.to)).position(differs).expect("each channel is a step")
    }

    /// By switch, its place in an order that begins in a corner and grows from neighbour to neighbour, always at the least
    /// sum of positions. Each switch but the first has a neighbour before it. On a mesh, up*/down* by this order allows a
    /// shortest path to all pairs, and these do not gather at the first switch as they do at a root.
    ///
    /// `fabric`: connected.
    ///
    /// Cost: O(S log S + C).
    pub fn from_corner(&self, fabric: &Fabric) -> Vec<u32> {
        let key = |s: SwitchId| {
            let sum: u32 = self.place(s).iter().map(|&position| u32::from(position)).sum();
            Reverse((sum, s))
        };
        let mut place = vec![u32::MAX; fabric.num_switches()];
        let mut open: BinaryHeap<_> = fabric.switch_ids().map(key).max().into_iter().collect();
        let mut now = 0;
        while let Some(Reverse((_, s))) = open.pop() {
            if place[s.index()] < u32::MAX {
                continue;
            }
            place[s.index()] = now;
            now += 1;
            let ahead = fabric.channels().out(s).map(|(_, c)| c.to);
            open.extend(ahead.filter(|to| place[to.index()] == u32::MAX).map(key));
        }
        place
    }

    /// Whether all steps in a dimension have as many parallel links, of the same rates.
    pub fn has_even_steps(&self, fabric: &Fabric) -> bool {
        let weights = fabric.weights().by_channel();
        let rates = |s: SwitchId, i: usize, up: bool| {
            let mut rates: Vec<_> = self.channels(s, i, up).iter().map(|c| weights[c.index()]).collect();
            rates.sort_unstable();
            rates
        };
        (0..self.dimensions.len()).all(|i| {
            let steps = fabric.switch_ids().flat_map(|s| [(s, true), (s, false)]);
            let mut steps = steps.map(|(s, up)| rates(s, i, up)).filter(|rates| !rates.is_empty());
            let first = steps.next();
            steps.all(|rates| Some(&rates) == first.as_ref())
        })
    }

    /// Whether no switch and no step is missing.
    pub fn is_whole(&self) -> bool {
        let d = self.dimensions.len();
        self.reach.chunks_exact(2 * d).zip(self.positions.chunks_exact(d)).all(|(reach, place)| {
            self.dimensions.iter().enumerate().all(|(i, dimension)| {
                let (up, down) = (usize::from(reach[2 * i]), usize::from(reach[2 * i + 1]));
                let last = dimension.length - 1;
                match dimension.ring {
                    true => up == dimension.length && down == dimension.length,
                    false => up == last - usize::from(place[i]) && down == usize::from(place[i]),
                }
            })
        })
    }
}

#[cfg(test)]
mod tests;
