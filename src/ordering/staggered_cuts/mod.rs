//! Staggered cuts: a torus with one SL, and hardly more detours than one SL must have.

mod order;
mod places;
mod tree;

use std::cmp::{Ordering, Reverse};
use std::collections::HashSet;

use self::places::{column_starts, offsets};
pub use self::tree::SpanningTree;
use super::grid::{Dimension, Grid};
use crate::fabric::{Fabric, SwitchId, Vl};

/// An order of the virtual channels of a torus of two dimensions or more, or of a mixture of torus and mesh, for one SL.
///
/// *Why detours.* With one SL, the VL of a packet depends on the ports by which it comes and leaves. So all packets that
/// go straight on at a switch have the same VL there. If every three consecutive steps of a ring are part of a path, in
/// one direction, they close a credit loop on any number of VLs. So each ring has a *cut* in each direction: three steps
/// that no path takes one after the other. Two switches of one ring whose shortest path meets the cut need a detour,
/// unless they are half a ring apart. `evaluate --bounds` proves that fewer are impossible. All other pairs have a
/// shortest path here if at most one ring has an odd length, and not less than a quarter of that of the others; else nearly
/// all have.
///
/// *How the others go around the cuts.* An *axis* is a dimension. The axes are in an order, from the *inner* ones to the
/// *outer* ones. A *line* is a ring or path of one axis. The *core* is the innermost axis, or all paths if there are
/// any. All other axes are *outer*. The lines of an outer axis are *early* or *late*: a line and its neighbours along
/// the axes inside are of different kinds. A packet that has steps in an outer axis and in axes inside it takes:
///
/// 1. a free step in an axis inside, to an early line, if it begins in a late one;
/// 2. steps in the early line;
/// 3. steps in the axes inside, again in this way;
/// 4. steps in a late line: that of the target, or one next to it;
/// 5. a last step in an axis inside.
///
/// Any of these may be left out. In the core, packets take the shortest way, in dimension order if these are paths. For
/// two axes, the lines of the outer one are rows, early and late in turn, and the core is the columns.
///
/// *Rings of an odd number of lines.* Such lines cannot be early and late in turn all around. Those at position 0 are in
/// the *middle*: packets take them after the steps inside by which they come there, and before those by which they
/// leave. So they are late for the former and early for the latter.
///
/// Early, late and middle lines have their cuts in different places, and so have lines and their neighbours along outer
/// axes: half a ring apart, or a third where there are three kinds. No shortest path meets two of these cuts, except on
/// rings of 14, or of more than 15, with a middle line. So packets go in early lines where the cuts of these are not in the
/// way, and else in late ones. And they take the steps inside at a position of the outer axis where no cut is in the
/// way.
///
/// *Why no credit loop.* First steps have VL 0, and sources alone wait for them. Steps straight on have VL 1, and the cuts
/// leave no cycle among those of one ring. Steps from an inner axis into an outer one have VL 2. Steps from an outer
/// axis into an inner one have a VL for each outer axis, from 2 on. [`position`](Self::position) has the order of
/// all these virtual channels, axis by axis from the outermost: early lines, then steps out of them, then all of the
/// inner axes; then from the innermost axis outwards: late lines, and last steps out of them. Lines in the middle are
/// between two steps of the line that leads to them, in the same order among themselves. Every path ascends in it from
/// its second step on.
///
/// Which of the legal paths packets take is left to the routing.
#[derive(Clone, Debug)]
pub struct StaggeredCuts {
    /// From the innermost to the outermost.
    axes: Vec<Axis>,
    /// Number of axes of the core.
    core: usize,
    /// By place and axis: where the cut of its line begins, upwards and downwards.
    cuts: Vec<[u8; 2]>,
    /// By place: the axes whose lines are early there, as bits.
    early: Vec<u8>,
    /// The root of the [`SpanningTree`].
    root: usize,
    /// By place, axis, direction and the axis of the step before: see [`position`](Self::position).
    positions: Vec<u32>,
}

/// A dimension of the grid.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Which one.
    index: usize,
    dimension: Dimension,
    /// Of a place, for one step upwards.
    stride: usize,
}

/// The steps of a cut.
const CUT: usize = 3;

/// How far from each other cuts must begin in rings of a length so that no shortest path meets both.
fn apart(length: usize) -> usize {
    (length / 2).saturating_sub(CUT - 1)
}

/// The ordered pairs of switches that need a detour with one SL, whatever the routing, at least: in each whole ring and
/// direction all that one cut separates.
///
/// - `fabric`: that of the grid.
///
/// Cost: O(S D) with S switches and D dimensions.
pub fn inevitable_detours(fabric: &Fabric, grid: &Grid) -> usize {
    let pairs = |length: usize| (CUT..length.div_ceil(2)).map(|steps| steps - CUT + 1).sum::<usize>();
    let of_rings = |(axis, dimension): (usize, &Dimension)| {
        let in_whole = |&s: &SwitchId| grid.reach(s, axis, true) == dimension.length;
        2 * pairs(dimension.length) * (fabric.switch_ids().filter(in_whole).count() / dimension.length)
    };
    grid.dimensions().iter().enumerate().filter(|(_, dimension)| dimension.ring).map(of_rings).sum()
}

impl StaggeredCuts {
    /// Places the cuts, with each order of the axes that makes a difference and leaves room for a [`SpanningTree`], the most
    /// promising first. Empty where the grid has one dimension, or where each order needs more than `most`
    /// VLs ([`vls`](Self::vls)).
    ///
    /// An odd ring has lines in the middle, where fewer ways are open. That harms no outermost ring, and an innermost one
    /// least. The cuts of an innermost ring are in the most places, which longer rings need more.
    ///
    /// - `most`: VLs that there may be.
    ///
    /// Cost: O(S D^2 + D L^3) for each order, with S switches, D dimensions and the greatest length L.
    pub fn find(grid: &Grid, most: u8) -> Vec<Self> {
        let axis = |(index, &dimension): (usize, &Dimension)| Axis { index, dimension, stride: 1 };
        let (rings, paths): (Vec<Axis>, Vec<Axis>) =
            grid.dimensions().iter().enumerate().map(axis).partition(|axis| axis.dimension.ring);
        let mut orders = orders(&rings);
        let odd = |axis: &Axis| axis.is_odd();
        orders.sort_by_key(|order| {
            let inside: Vec<bool> = order.iter().rev().skip(1).map(odd).collect();
            let odd_core = paths.is_empty() && order.first().is_some_and(odd);
            let lengths: Vec<Reverse<usize>> = order.iter().map(|axis| Reverse(axis.length())).collect();
            (inside.iter().filter(|&&odd| odd).count(), odd_core, inside, lengths)
        });
        let build =
            |order: Vec<Axis>| Self::new(paths.iter().copied().chain(order).collect(), paths.len().max(1));
        let found = orders.into_iter().filter(|order| order.len() + paths.len() > 1).filter_map(build);
        found.filter(|cuts| cuts.vls() <= most).collect()
    }

    fn new(mut axes: Vec<Axis>, core: usize) -> Option<Self> {
        let mut switches = 1;
        for axis in &mut axes {
            axis.stride = switches;
            switches *= axis.length();
        }
        let mut cuts =
            Self { axes, core, cuts: Vec::new(), early: Vec::new(), root: 0, positions: Vec::new() };
        cuts.early = (0..switches).map(|place| cuts.early_axes(place)).collect();
        cuts.cuts = cuts.place_cuts(switches)?;
        cuts.root = tree::root(&cuts)?;
        cuts.positions = order::positions(&cuts, switches);
        Some(cuts)
    }

    /// The axes, the innermost first.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// The number of axes of the core, which come first.
    pub fn core(&self) -> usize {
        self.core
    }

    /// The VLs that the paths need: one for first steps, one for steps straight on, and one for each outer axis.
    pub fn vls(&self) -> u8 {
        2 + (self.axes.len() - self.core) as u8
    }

    /// The VL of a step in an axis after one in another or the same axis. First steps have VL 0.
    fn vl(&self, before: usize, axis: usize) -> Vl {
        let before = self.level(before);
        match before.cmp(&self.level(axis)) {
            Ordering::Equal => Vl(1),
            Ordering::Less => Vl(2),
            Ordering::Greater => Vl(before as u8 + 1),
        }
    }

    /// The places of some switches, in their order. A *place* is a number made of the positions of a switch: each
    /// times the [`stride`](Axis::stride) of its axis.
    pub fn places(&self, grid: &Grid, switches: impl Iterator<Item = SwitchId>) -> Vec<usize> {
        let place = |s: SwitchId| -> usize {
            self.axes.iter().map(|axis| usize::from(grid.place(s)[axis.index]) * axis.stride).sum()
        };
        switches.map(place).collect()
    }

    /// The position of a place in an axis.
    pub fn at(&self, place: usize, axis: usize) -> usize {
        let axis = &self.axes[axis];
        place / axis.stride % axis.length()
    }

    /// The next place in an axis.
    pub fn next(&self, place: usize, axis: usize, up: bool) -> Option<usize> {
        let at = self.at(place, axis);
        let axis = &self.axes[axis];
        axis.dimension.next(at, up).map(|next| place + next * axis.stride - at * axis.stride)
    }

    /// Whether the line of an outer axis at a place is early.
    pub fn is_early(&self, place: usize, axis: usize) -> bool {
        self.early[place] >> axis & 1 == 1
    }

    /// Whether packets may go in the line of an outer axis at a place before all of their steps in axes inside.
    ///
    /// - `inside`: these, as bits.
    pub fn comes_before(&self, place: usize, axis: usize, inside: usize) -> bool {
        let only = inside.trailing_zeros() as usize;
        self.is_early(place, axis) || inside == 1 << only && self.is_middle(place, only)
    }

    /// Whether packets may go in the line of an outer axis at a place after steps in one axis inside.
    pub fn comes_after(&self, place: usize, axis: usize, inside: usize) -> bool {
        !self.is_early(place, axis) || self.is_middle(place, inside)
    }

    /// Whether the outer lines at a place are in the middle of the line of an axis.
    fn is_middle(&self, place: usize, axis: usize) -> bool {
        self.has_middle(axis) && self.at(place, axis) == 0
    }

    /// Whether the line of an outer axis at a place is in the middle of another line.
    fn is_in_middle(&self, place: usize, axis: usize) -> bool {
        self.around(place, axis).is_some()
    }

    /// The axis of the line in whose middle another line is at a place, if there is one: the outermost such axis. That line may
    /// be in the middle of a third one, and so on.
    fn around(&self, place: usize, axis: usize) -> Option<usize> {
        (0..axis).rev().find(|&inside| self.is_middle(place, inside))
    }

    /// Whether there are lines in the middle of those of an axis.
    fn has_middle(&self, axis: usize) -> bool {
        axis + 1 < self.axes.len() && self.axes[axis].is_odd()
    }

    /// Where the cuts of the early lines of an axis begin upwards, each place once, as a line where it does.
    pub fn early_lines(&self, axis: usize) -> Vec<usize> {
        let mut lines: Vec<usize> =
            (0..self.axes[axis].stride).filter(|&line| self.is_early(line, axis)).collect();
        let begin = |line: &usize| self.cuts[line * self.axes.len() + axis][0];
        lines.sort_by_key(begin);
        lines.dedup_by_key(|line| begin(line));
        lines
    }

    /// The steps of the shortest way to a place that takes all of the cut of a line, if there is one.
    ///
    /// - `line`: a place on it.
    /// - `to`: a position.
    pub fn first_cut(&self, line: usize, axis: usize, up: bool, to: usize) -> Option<usize> {
        let Axis { dimension: Dimension { length, ring }, .. } = self.axes[axis];
        let cut = usize::from(self.cuts[line * self.axes.len() + axis][usize::from(!up)]);
        let steps = if up { to + length - cut } else { cut + length - to } % length;
        (ring && steps >= CUT).then_some(steps)
    }

    /// The position of a virtual channel: that of the step from a place, after a step in another or the same axis.
    /// Paths ascend from their second step on.
    #[inline]
    pub fn position(&self, place: usize, axis: usize, up: bool, before: usize) -> u32 {
        let axes = self.axes.len();
        self.positions[((place * axes + axis) * 2 + usize::from(!up)) * axes + before]
    }

    fn axis_of(&self, dimension: usize) -> usize {
        self.axes.iter().position(|axis| axis.index == dimension).expect("each has an axis")
    }

    /// 0 for the core, then one more for each axis.
    fn level(&self, axis: usize) -> usize {
        (axis + 1).saturating_sub(self.core)
    }

    /// The axes whose lines are early at a place, as bits: those where the positions in the axes inside have an even sum.
    fn early_axes(&self, place: usize) -> u8 {
        let mut sum = 0;
        let mut early = 0;
        for axis in 0..self.axes.len() {
            if axis >= self.core && sum % 2 == 0 {
                early |= 1 << axis;
            }
            sum += self.at(place, axis);
        }
        early
    }

    /// Where the cut of the line of an outer axis at a place begins upwards, before it is moved for its neighbours along
    /// outer axes. Neighbours along axes inside are half a ring apart, or a third where there are three kinds of lines.
    fn begin(&self, place: usize, axis: usize) -> usize {
        let length = self.axes[axis].length();
        let middle = |inside: usize| usize::from(self.is_middle(place, inside));
        let is_early = self.is_early(place, axis);
        if !(0..axis).any(|inside| self.has_middle(inside)) {
            return if is_early { 0 } else { length / 2 };
        }
        if length / 3 >= apart(length) {
            let sum: usize = (0..axis).map(|inside| self.at(place, inside) % 2 + 2 * middle(inside)).sum();
            return sum % 3 * length / 3;
        }
        match self.is_in_middle(place, axis) {
            true => length * 3 / 4,
            false if is_early => 0,
            false => length / 2,
        }
    }

    /// Where the cuts begin, upwards and downwards, by place and axis. `None` if the lines are too few in some ring to
    /// be apart from each other.
    ///
    /// Half-way packets must find one of their ways open, so both cuts of a line are in one place. Those of the core
    /// begin in early lines of the next axis: the free step of a packet that cannot pass the cut must not lead beyond
    /// its begin.
    fn place_cuts(&self, switches: usize) -> Option<Vec<[u8; 2]>> {
        let axes = self.axes.len();
        // By axis and outer axis: how far the cuts are moved, by position in the outer axis.
        let mut moves: Vec<Vec<Vec<usize>>> = Vec::with_capacity(axes);
        for (i, axis) in self.axes.iter().enumerate() {
            let outside = &self.axes[i + 1..];
            moves.push(match (axis.dimension.ring, i < self.core) {
                (false, _) => Vec::new(),
                (true, in_core) => {
                    let of = |outer: &Axis| offsets(outer.dimension, axis.length(), in_core);
                    outside.iter().map(of).collect::<Option<_>>()?
                }
            });
        }
        let cut = |place: usize, i: usize| {
            let length = self.axes[i].length();
            let moved: usize = moves[i].iter().zip(i + 1..).map(|(moves, k)| moves[self.at(place, k)]).sum();
            let (up, down) = match length {
                // No path takes three steps, so the order may begin opposite to the lines in the middle.
                3 | 5 => ((length / 2 + length + 1 - 2) % length, (length / 2 + 2) % length),
                _ if i < self.core => column_starts(moved, length),
                _ => {
                    let up = (moved + self.begin(place, i)) % length;
                    // The third step of a cut is the first one in the order of its ring: not where lines are in the
                    // middle.
                    let up = match length - up {
                        1 if self.has_middle(i) => 0,
                        2 if self.has_middle(i) => up - 1,
                        _ => up,
                    };
                    (up, (up + CUT) % length)
                }
            };
            [up as u8, down as u8]
        };
        Some(
            (0..switches)
                .flat_map(|place| (0..axes).map(move |i| (place, i)))
                .map(|(p, i)| cut(p, i))
                .collect(),
        )
    }
}

impl Axis {
    /// Its number among the dimensions of the grid.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The dimension of the grid.
    pub fn dimension(&self) -> Dimension {
        self.dimension
    }

    /// Of a place, for one step upwards.
    pub fn stride(&self) -> usize {
        self.stride
    }

    fn length(&self) -> usize {
        self.dimension.length
    }

    /// Whether it is a ring of an odd length.
    fn is_odd(&self) -> bool {
        self.dimension.ring && self.length() % 2 == 1
    }
}

/// All orders of rings, one of those that differ in rings of the same length only.
fn orders(rings: &[Axis]) -> Vec<Vec<Axis>> {
    if rings.is_empty() {
        return vec![Vec::new()];
    }
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for (i, &ring) in rings.iter().enumerate() {
        if !seen.insert(ring.length()) {
            continue;
        }
        let others: Vec<Axis> = rings.iter().enumerate().filter(|&(j, _)| j != i).map(|(_, &r)| r).collect();
        let with = |order: Vec<Axis>| std::iter::once(ring).chain(order).collect();
        found.extend(orders(&others).into_iter().map(with));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use petgraph::algo::is_cyclic_directed;
    use petgraph::graphmap::DiGraphMap;

    use super::*;
    use crate::topology::{Torus, fail_links};

    fn found(dims: &[u32]) -> Vec<StaggeredCuts> {
        let f = Torus { dims: dims.to_vec(), cas: 1 }.build().unwrap();
        StaggeredCuts::find(&Grid::find(&f).unwrap(), 15)
    }

    #[test]
    fn each_whole_ring_above_six_takes_detours() {
        let least = |dims: &[u32], failed: usize| {
            let whole = Torus { dims: dims.to_vec(), cas: 1 }.build().unwrap();
            let f = fail_links(&whole, failed, 1).unwrap();
            inevitable_detours(&f, &Grid::find(&f).unwrap())
        };
        assert_eq!((least(&[6, 6, 5], 0), least(&[4, 6], 0)), (0, 0));
        // One pair in each direction of 16 rings; on rings of nine three.
        assert_eq!((least(&[8, 8], 0), least(&[8, 8], 1)), (32, 30));
        assert_eq!((least(&[9, 4], 0), least(&[8, 4, 4], 0)), (4 * 6, 16 * 2));
    }

    const TORI: [&[u32]; 12] = [
        &[8, 8],
        &[7, 8],
        &[5, 16],
        &[9, 9],
        &[16, 11],
        &[4, 12],
        &[8, 8, 8],
        &[7, 7, 7],
        &[5, 8, 9],
        &[10, 3, 6],
        &[4, 8, 7],
        &[5, 3, 7, 3],
    ];

    /// Early, late and middle lines of one outer axis, and those next to each other in an axis outside. Cuts of rings with
    /// lines in the middle of them are moved a little, so that some neighbours share a step.
    #[test]
    fn cuts_of_neighbours_are_hardly_ever_both_in_the_way() {
        for cuts in TORI.into_iter().flat_map(found) {
            let axes = cuts.axes.len();
            let (mut all, mut shared) = (0, 0);
            for (place, axis) in
                (0..cuts.early.len()).flat_map(|place| (0..axes).map(move |axis| (place, axis)))
            {
                let length = cuts.axes[axis].length();
                let blocked = |line: usize, up: bool, to: usize| {
                    cuts.first_cut(line, axis, up, to).is_some_and(|steps| steps <= length / 2)
                };
                for beside in 0..axes {
                    let Some(next) = cuts.next(place, beside, true).filter(|_| beside != axis) else {
                        continue;
                    };
                    // On longer rings there are no three places that are apart.
                    let has_room = length / 3 >= apart(length)
                        || !cuts.is_in_middle(place, axis) && !cuts.is_in_middle(next, axis);
                    let other_kind = beside < axis && has_room;
                    for (up, to) in (0..length).flat_map(|to| [(true, to), (false, to)]) {
                        if (beside > axis || other_kind) && blocked(place, up, to) {
                            all += 1;
                            shared += usize::from(blocked(next, up, to));
                        }
                    }
                }
            }
            let most = if (0..axes).any(|axis| cuts.has_middle(axis)) { all / 8 } else { 0 };
            assert!(shared <= most, "{:?}: {shared} of {all}", cuts.axes);
        }
    }

    /// A virtual channel has one position, whatever step came before.
    #[test]
    fn positions_are_those_of_virtual_channels() {
        for cuts in TORI.into_iter().flat_map(found) {
            let axes = cuts.axes.len();
            let mut positions = HashMap::new();
            for (place, axis) in
                (0..cuts.early.len()).flat_map(|place| (0..axes).map(move |axis| (place, axis)))
            {
                for (up, before) in (0..axes).flat_map(|before| [(true, before), (false, before)]) {
                    let vl = cuts.vl(before, axis);
                    assert!(vl.0 > 0 && vl.0 < cuts.vls());
                    let position = cuts.position(place, axis, up, before);
                    assert_eq!(*positions.entry((place, axis, up, vl)).or_insert(position), position);
                }
            }
        }
    }

    #[test]
    fn there_are_orders_within_the_vls() {
        let f = Torus { dims: vec![8, 7, 6], cas: 1 }.build().unwrap();
        let grid = Grid::find(&f).unwrap();
        assert_eq!(StaggeredCuts::find(&grid, 4).len(), 6);
        assert!(StaggeredCuts::find(&grid, 3).is_empty());
        // A ring of four is two paths, which are one core. Rings of one length are interchangeable.
        assert_eq!(found(&[4, 8, 8]).iter().map(StaggeredCuts::vls).collect::<Vec<_>>(), [4]);
        assert_eq!(found(&[4, 12]).iter().map(StaggeredCuts::vls).collect::<Vec<_>>(), [3]);
        assert!(found(&[12]).is_empty());
    }

    #[test]
    fn a_tree_spans_all_places() {
        for cuts in TORI.into_iter().flat_map(found) {
            let tree = SpanningTree::new(&cuts);
            for start in 0..cuts.early.len() {
                let (mut at, mut steps) = (start, 0);
                while let Some((axis, up)) = tree.next(at) {
                    at = cuts.next(at, axis, up).expect("a step");
                    steps += 1;
                    assert!(steps <= cuts.early.len(), "{:?}: a loop", cuts.axes);
                }
                assert_eq!((at, tree.depth(start)), (tree.root, steps));
            }
        }
    }

    /// A virtual channel: a step from a place, after one in another or the same axis.
    type Step = (usize, usize, bool, usize);

    /// Not only with the paths that packets take.
    #[test]
    fn the_tree_closes_no_cycle_with_any_legal_path() {
        let more: [&[u32]; 8] = [
            &[7, 7],
            &[3, 3, 3],
            &[7, 7, 8],
            &[5, 5, 8, 8],
            &[5, 6, 7, 8],
            &[3, 5, 7, 7],
            &[4, 3, 7, 8],
            &[5, 5, 5, 5],
        ];
        for cuts in TORI.into_iter().chain(more).flat_map(found) {
            let axes = cuts.axes.len();
            let number = |(place, axis, up, before): Step| {
                ((place * axes + axis) * 2 + usize::from(up)) * axes + usize::from(cuts.vl(before, axis).0)
                    - 1
            };
            let steps = || {
                let all = (0..axes).flat_map(|axis| [(axis, true), (axis, false)]);
                all.flat_map(|(axis, up)| (0..axes).map(move |before| (axis, up, before)))
            };
            let mut links = vec![Vec::new(); cuts.early.len()];
            let tree = SpanningTree::new(&cuts);
            for place in 0..cuts.early.len() {
                let Some((axis, up)) = tree.next(place) else { continue };
                links[place].push((axis, up));
                links[cuts.next(place, axis, up).expect("a step")].push((axis, !up));
            }
            let mut graph = DiGraphMap::<usize, ()>::new();
            for (place, (axis, up, before)) in
                (0..cuts.early.len()).flat_map(|place| steps().map(move |step| (place, step)))
            {
                let Some(next) = cuts.next(place, axis, up) else { continue };
                let is_in_tree = links[place].contains(&(axis, up))
                    && links[place].iter().any(|&(into, back)| into == before && (into, back) != (axis, up));
                let here = cuts.position(place, axis, up, before);
                for (axis2, up2) in steps().filter(|step| step.2 == axis).map(|(axis2, up2, _)| (axis2, up2))
                {
                    let goes_back = (axis2, up2) == (axis, !up);
                    if goes_back || cuts.next(next, axis2, up2).is_none() {
                        continue;
                    }
                    let is_legal = cuts.position(next, axis2, up2, axis) > here;
                    if is_legal || is_in_tree && links[next].contains(&(axis2, up2)) {
                        let ends = [(place, axis, up, before), (next, axis2, up2, axis)].map(number);
                        graph.add_edge(ends[0], ends[1], ());
                    }
                }
            }
            assert!(!is_cyclic_directed(&graph), "{:?}", cuts.axes);
        }
    }
}
