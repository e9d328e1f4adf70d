//! Datelines: which way around each ring of a grid, and on which of two VLs.

use super::grid::{Dimension, Grid};
use crate::fabric::{Fabric, Sl, SwitchId, Vl};

/// Dimension order on a [`Grid`] with two VLs (Dally and Seitz), where the SL says for each dimension with long rings
/// whether the path crosses its *dateline*, one step of its rings. The bit of the SL is the VL in that dimension (as
/// torus-2QoS of OpenSM does it).
///
/// Neither VL closes a cycle on a ring: paths that do not cross never use the dateline. A shortest path that crosses
/// has at most half of the steps, so it never uses the step *opposite* to the dateline. From one dimension to the next
/// there is no way back.
///
/// Rings of up to six need no bit: the first step in such a ring has VL 0 and the others have VL 1, which a switch tells
/// by the dimension that a packet comes from. In rings of up to five no packet waits on VL 1 for VL 1, as paths have two
/// steps. In a ring of six, every second path of three steps goes the other way around, so these waits close no cycle.
///
/// *Half-way pairs* are as far apart one way as the other. Both directions of such a pair take the same half of the
/// ring, so that they cross the same datelines and share their SL. Which half depends on both positions. In all
/// dimensions but the last it also depends on the parity of the later positions of both switches, which makes the
/// loads of both halves alike. In the last dimension the halves are chosen by load. The dateline is the step with the
/// greatest load, so that the second VL has as much to carry as it can.
#[derive(Clone, Debug)]
pub struct Datelines {
    rings: Vec<Steps>,
    /// By switch: bit `i` is the parity of its positions in the dimensions after `i`.
    parity: Vec<u16>,
    bits: u8,
}

/// The steps of one dimension.
#[derive(Clone, Debug)]
struct Steps {
    length: usize,
    /// The bit of the SL; `None` where the SL does not matter.
    bit: Option<u8>,
    /// Whether the first step has VL 0 and the others have VL 1.
    by_entry: bool,
    /// The steps that paths on VL 0 and on VL 1 never take and then go on: from this position upwards.
    unused: [usize; 2],
    /// By parity, target and position: [`HERE`], [`UP`] or [`DOWN`].
    way: [Vec<u8>; 2],
    /// By parity, target and position: whether the path crosses the dateline.
    crosses: [Vec<bool>; 2],
}

/// The longest ring that needs no bit.
const BY_ENTRY: usize = 6;

const HERE: u8 = 0;
const UP: u8 = 1;
const DOWN: u8 = 2;

impl Datelines {
    /// In a list of the starts of paths: in dimension order. Smaller numbers than [`Self::ESCAPES`] are a
    /// [sidestep](Self::sidestep).
    pub const IN_ORDER: u8 = u8::MAX;
    /// In a list of the starts of paths: not in dimension order at all.
    pub const ESCAPES: u8 = u8::MAX - 1;

    /// A step of a path before dimension order, as a number: two for each dimension, up first.
    pub fn sidestep(dimension: usize, up: bool) -> u8 {
        2 * dimension as u8 + u8::from(!up)
    }

    /// The dimension of a [`sidestep`](Self::sidestep), and whether it is up.
    pub fn dimension_and_direction(sidestep: u8) -> (usize, bool) {
        (usize::from(sidestep / 2), sidestep % 2 == 0)
    }

    /// Places the datelines and decides about half-way pairs, by the adapters at each position.
    ///
    /// Cost: O(S D + D L^3) with S switches, D dimensions and length L; O(D L^4) for rings of an even length up to
    /// `LONGEST`, whose half-way pairs have a choice.
    pub fn new(fabric: &Fabric, grid: &Grid) -> Self {
        let dimensions = grid.dimensions();
        let mut bits = 0;
        let rings = dimensions.iter().enumerate().map(|(i, &dimension)| {
            let mut adapters = vec![0_u64; dimension.length];
            for s in fabric.switch_ids() {
                adapters[usize::from(grid.place(s)[i])] += fabric.num_adapters_on(s) as u64;
            }
            let without = Steps::by_entry(dimension, &adapters);
            without.unwrap_or_else(|| {
                bits += 1;
                Steps::new(dimension, Some(bits - 1), &adapters)
            })
        });
        let rings = rings.collect();
        let parity = |s: SwitchId| {
            let mut later = 0;
            let each = grid.place(s).iter().enumerate().rev().map(|(i, &position)| {
                let own = later << i;
                later ^= u16::from(position) & 1;
                own
            });
            each.fold(0, |all, own| all | own)
        };
        Self { rings, parity: fabric.switch_ids().map(parity).collect(), bits }
    }

    /// Number of SLs that paths have: two for each dimension with a dateline.
    pub fn sls(&self) -> usize {
        1 << self.bits
    }

    /// The way from a switch to another one: the first dimension in which they differ, and whether it is upwards there.
    /// `None` at the target.
    #[inline]
    pub fn way(&self, grid: &Grid, from: SwitchId, to: SwitchId) -> Option<(usize, bool)> {
        let odd = self.parity[from.index()] ^ self.parity[to.index()];
        let both = grid.place(from).iter().zip(grid.place(to)).zip(&self.rings).enumerate();
        for (i, ((&a, &b), steps)) in both {
            match steps.way[usize::from(odd >> i & 1)][usize::from(b) * steps.length + usize::from(a)] {
                HERE => {}
                way => return Some((i, way == UP)),
            }
        }
        None
    }

    /// The SL of the paths between two switches, in both directions.
    pub fn sl(&self, grid: &Grid, from: SwitchId, to: SwitchId) -> u8 {
        let odd = self.parity[from.index()] ^ self.parity[to.index()];
        let both = grid.place(from).iter().zip(grid.place(to)).zip(&self.rings).enumerate();
        both.fold(0, |sl, (i, ((&a, &b), steps))| match steps.bit {
            Some(bit) => {
                let crosses = &steps.crosses[usize::from(odd >> i & 1)];
                sl | u8::from(crosses[usize::from(b) * steps.length + usize::from(a)]) << bit
            }
            None => sl,
        })
    }

    /// Number of VLs.
    pub fn vls(&self) -> u8 {
        let two = self.rings.iter().any(|ring| ring.by_entry || ring.bit.is_some());
        if two { 2 } else { 1 }
    }

    /// Whether the VL in a dimension is that of the first step or that of the others, whatever the SL.
    pub fn is_by_entry(&self, dimension: usize) -> bool {
        self.rings[dimension].by_entry
    }

    /// The VL of a packet with an SL in a dimension. SLs beyond those of paths repeat them.
    ///
    /// - `continues`: whether its step before was in this dimension too.
    pub fn vl(&self, dimension: usize, sl: Sl, continues: bool) -> Vl {
        let ring = &self.rings[dimension];
        Vl(ring.bit.map_or(u8::from(ring.by_entry && continues), |bit| sl.0 >> bit & 1))
    }

    /// The step of a ring, from this position upwards, that no path takes on a VL and then goes on in the ring on that
    /// VL.
    pub fn unused(&self, dimension: usize, vl: Vl) -> usize {
        self.rings[dimension].unused[usize::from(vl.0 & 1)]
    }

    /// The same for packets with an SL, from their second step in the ring on.
    pub fn cut(&self, dimension: usize, sl: Sl) -> usize {
        self.unused(dimension, self.vl(dimension, sl, true))
    }
}

impl Steps {
    /// Without a bit; `None` where that would close a cycle.
    fn by_entry(dimension: Dimension, adapters: &[u64]) -> Option<Self> {
        let steps = Self::new(dimension, None, adapters);
        let length = dimension.length;
        if !dimension.ring || length <= 3 {
            return Some(steps);
        }
        if length > BY_ENTRY {
            return None;
        }
        // By direction and step: whether a path takes it, not first, and then goes on.
        let mut passed = [vec![false; length], vec![false; length]];
        for (a, b) in (0..length).flat_map(|a| (0..length).map(move |b| (a, b))) {
            let way = steps.way[0][b * length + a];
            let hops = if way == UP { b + length - a } else { a + length - b } % length;
            for hop in 1..hops.saturating_sub(1) {
                let step = if way == UP { a + hop } else { a + length - hop - 1 };
                passed[usize::from(way == DOWN)][step % length] = true;
            }
        }
        let cut = (0..length).find(|&step| !passed[0][step] && !passed[1][step])?;
        let [way, _] = steps.way;
        Some(Self { way: [way.clone(), way], by_entry: true, unused: [cut; 2], ..steps })
    }

    /// - `adapters`: by position.
    fn new(dimension: Dimension, bit: Option<u8>, adapters: &[u64]) -> Self {
        let length = dimension.length;
        let halves = if dimension.ring { halves(adapters) } else { vec![false; length] };
        let up = |odd: bool, a: usize, b: usize| {
            let ahead = (b + length - a) % length;
            match (dimension.ring, (2 * ahead).cmp(&length)) {
                (false, _) => a < b,
                (true, std::cmp::Ordering::Less) => true,
                (true, std::cmp::Ordering::Greater) => false,
                // The half above the lower position, or the other one.
                (true, std::cmp::Ordering::Equal) => (halves[a.min(b)] ^ odd) == (a < b),
            }
        };
        let load = load(adapters, |a, b| up(false, a, b));
        let most = load.iter().copied().max().unwrap_or(0);
        let dateline = load.iter().position(|&step| step == most).unwrap_or(0);
        let crosses = |odd: bool, a: usize, b: usize| {
            let (start, end) = if up(odd, a, b) { (a, b) } else { (b, a) };
            a != b && (dateline + length - start) % length < (end + length - start) % length
        };
        let pairs = || (0..length).flat_map(|b| (0..length).map(move |a| (a, b)));
        let way = |odd| {
            let way = |(a, b)| {
                if a == b {
                    HERE
                } else if up(odd, a, b) {
                    UP
                } else {
                    DOWN
                }
            };
            pairs().map(way).collect()
        };
        let over = |odd| pairs().map(|(a, b)| bit.is_some() && crosses(odd, a, b)).collect();
        Self {
            length,
            bit,
            by_entry: false,
            unused: [dateline, (dateline + length / 2) % length],
            way: [false, true].map(way),
            crosses: [false, true].map(over),
        }
    }
}

/// The load of each step of a ring, the same in both directions.
///
/// - `up`: whether the path from one position to another is upwards.
fn load(adapters: &[u64], up: impl Fn(usize, usize) -> bool) -> Vec<u64> {
    let length = adapters.len();
    let mut load = vec![0; length];
    for (a, b) in (0..length).flat_map(|a| (0..length).map(move |b| (a, b))).filter(|(a, b)| a != b) {
        if up(a, b) {
            for step in 0..(b + length - a) % length {
                load[(a + step) % length] += adapters[a] * adapters[b];
            }
        }
    }
    load
}

/// For each lower position of a half-way pair: whether the pair uses the half above it. Begins with alternating halves,
/// which is best for equal numbers of adapters, and exchanges halves as long as that lowers the loads.
///
/// Cost: O(L^4) with length L: `ROUNDS` rounds of L / 2 exchanges, and O(L^3) to add up the loads after each.
fn halves(adapters: &[u64]) -> Vec<bool> {
    let length = adapters.len();
    let mut halves: Vec<bool> = (0..length).map(|low| low % 2 == 0).collect();
    if length % 2 == 1 || length > LONGEST {
        return halves;
    }
    let half = length / 2;
    let cost = |halves: &[bool]| {
        let up = |a: usize, b: usize| match ((b + length - a) % length).cmp(&half) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Greater => false,
            std::cmp::Ordering::Equal => halves[a.min(b)] == (a < b),
        };
        let load = load(adapters, up);
        let squares: u128 = load.iter().map(|&step| u128::from(step) * u128::from(step)).sum();
        (load.into_iter().max(), squares)
    };
    let mut least = cost(&halves);
    for _ in 0..ROUNDS {
        let before = least;
        for low in 0..half {
            halves[low] = !halves[low];
            let now = cost(&halves);
            if now < least {
                least = now;
            } else {
                halves[low] = !halves[low];
            }
        }
        if least == before {
            break;
        }
    }
    halves
}

/// Rounds of exchanges of halves, and the longest ring that is worth them.
const ROUNDS: usize = 8;
const LONGEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Torus;

    fn cases() -> Vec<(Fabric, Grid, Datelines)> {
        let dims: [&[u32]; 7] = [&[5, 5], &[8, 8], &[6, 7], &[3, 10], &[4, 9], &[6, 5, 8], &[5, 6, 2, 7]];
        let case = |dims: &&[u32]| {
            let f = Torus { dims: dims.to_vec(), cas: 1 }.build().unwrap();
            let grid = Grid::find(&f).unwrap();
            let datelines = Datelines::new(&f, &grid);
            (f, grid, datelines)
        };
        dims.iter().map(case).collect()
    }

    /// The steps from one switch to another: switch, dimension and direction.
    fn path(
        f: &Fabric,
        grid: &Grid,
        lines: &Datelines,
        from: SwitchId,
        to: SwitchId,
    ) -> Vec<(SwitchId, usize, bool)> {
        let (mut at, mut path) = (from, Vec::new());
        while let Some((i, up)) = lines.way(grid, at, to) {
            path.push((at, i, up));
            at = grid.step(f, at, i, up).unwrap();
        }
        assert_eq!(at, to);
        path
    }

    #[test]
    fn the_sl_is_the_same_both_ways_and_says_what_the_path_crosses() {
        for (f, grid, lines) in cases() {
            for (a, b) in f.switch_ids().flat_map(|a| f.switch_ids().map(move |b| (a, b))) {
                assert_eq!(lines.sl(&grid, a, b), lines.sl(&grid, b, a), "{f}");
                let sl = Sl(lines.sl(&grid, a, b));
                let path = path(&f, &grid, &lines, a, b);
                assert!(path.is_sorted_by_key(|step| step.1), "{f}: dimension order");
                for (i, dimension) in
                    grid.dimensions().iter().enumerate().filter(|(_, d)| d.ring && d.length > BY_ENTRY)
                {
                    let taken = |unused: usize| {
                        path.iter().filter(|step| step.1 == i).any(|&(s, _, up)| {
                            let from = usize::from(grid.place(s)[i]);
                            unused == if up { from } else { dimension.next(from, false).unwrap() }
                        })
                    };
                    assert_eq!(taken(lines.unused(i, Vl(0))), lines.vl(i, sl, true) == Vl(1), "{f}");
                    assert!(!taken(lines.unused(i, Vl(1))) || lines.vl(i, sl, true) == Vl(0), "{f}");
                }
            }
        }
    }

    #[test]
    fn loads_of_the_steps_of_a_ring_differ_by_as_little_as_they_can() {
        // In the last dimension no choice of halves does better; in the others all steps are alike.
        for (f, grid, lines) in cases().into_iter().filter(|(f, ..)| f.num_switches() <= 64) {
            let mut load = vec![0_usize; f.channels().len()];
            for (a, b) in f.switch_ids().flat_map(|a| f.switch_ids().map(move |b| (a, b))) {
                for (s, i, up) in path(&f, &grid, &lines, a, b) {
                    load[grid.channels(s, i, up)[0].index()] += 1;
                }
            }
            for (i, dimension) in grid.dimensions().iter().enumerate().filter(|(_, d)| d.ring) {
                let others = f.num_switches() / dimension.length;
                let even = others * (dimension.length * dimension.length / 4).div_ceil(2);
                let most = f.channels().iter().filter(|&(id, _)| grid.dimension_of(&f, id) == i);
                let most = most.map(|(id, _)| load[id.index()]).max().unwrap();
                let fixed = i + 1 == grid.dimensions().len() || lines.is_by_entry(i);
                let slack = if fixed { others } else { dimension.length / 2 };
                assert!(most <= even + slack, "{f}: {most} in dimension {i}, {even} if even");
            }
        }
    }
}
