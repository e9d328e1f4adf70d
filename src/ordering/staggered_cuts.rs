//! Staggered cuts: a two-dimensional torus with one SL, and as few detours as one SL can have.

use std::cmp::{Ordering, Reverse};

use super::grid::{Dimension, Grid};
use crate::fabric::{SwitchId, Vl};

/// Paths on a two-dimensional torus for one SL and three VLs.
///
/// *Why detours.* With one SL, the VL of a packet depends on the ports by which it comes and leaves. So all packets that
/// go straight on at a switch have the same VL there. If every three consecutive steps of a ring are part of a path, in
/// one direction, they close a credit loop on any number of VLs. So each ring has a *cut* in each direction: three steps
/// that no path takes one after the other. Two switches of one ring whose shortest path meets the cut need a detour,
/// unless they are half a ring apart. `evaluate --bounds` proves that fewer are impossible. All other pairs have a
/// shortest path here if the rows are an even number, or no ring.
///
/// *How the others go around the cuts.* A *row* is a ring, or path, of one dimension, a *column* one of the other. Rows
/// are *early* and *late* in turn. A path is:
///
/// 1. a free step in a column, to an early row, if it begins in a late one;
/// 2. steps in an early row;
/// 3. steps in a column;
/// 4. steps in a late row: that of the target, or one next to it;
/// 5. a last step in a column.
///
/// Any of these may be left out. In a ring of an odd number of rows, two neighbours are late. From one to the other there
/// is no last step. So a free step may be in the row there, and lead to a column that goes on to the other row; for some
/// packets it is a detour, away from the other row.
///
/// Early rows have their cuts half a ring away from those of late rows, and columns from those of their neighbours. No
/// shortest path meets both cuts of such a pair. So packets go in early rows where the cuts of these are not in the way,
/// and else in late rows; and in columns whose cut is not in the way.
///
/// *Why no credit loop.* First steps have VL 0, and sources alone wait for them. Steps straight on have VL 1, and the
/// cuts leave no cycle among those of one ring. Steps after a turn have VL 2: into early rows only packets turn that have
/// taken one step, and from late rows only packets that take one more, or have taken one. So no packet comes back to an
/// earlier phase.
///
/// Which columns packets take is left to the routing, for each target: see [`Columns`].
#[derive(Clone, Debug)]
pub struct StaggeredCuts {
    /// The dimension of the rows.
    x: Ring,
    /// The dimension of the columns. Its positions number the rows.
    y: Ring,
    /// Of early rows and of late ones, by direction, up first: where the three steps of the cut begin.
    row_cuts: [[usize; 2]; 2],
    /// The same by column.
    column_cuts: Vec<[usize; 2]>,
}

/// The columns that lead to a late row, for the sources in one [quadrant](PathsTo) of a target: those at these distances
/// in the row whose own cut is not in the way. In other columns, packets go on in early rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    from: usize,
    to: usize,
}

/// The paths to one switch. A *quadrant* is all sources from which it is in the same direction in both dimensions.
#[derive(Clone, Debug)]
pub struct PathsTo {
    /// Its column and its row.
    place: [usize; 2],
    /// Whether half-way sources go upwards, in rows and in columns.
    halves: [bool; 2],
    /// By quadrant.
    columns: [Columns; PathsTo::QUADRANTS],
}

/// A dimension of the grid.
#[derive(Clone, Copy, Debug)]
struct Ring {
    /// Which one.
    index: usize,
    dimension: Dimension,
}

/// A way in one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    up: bool,
    steps: usize,
}

/// The steps of a cut.
const CUT: usize = 3;

impl StaggeredCuts {
    /// The VLs that the paths need.
    pub const VLS: u8 = 3;

    /// Places the cuts, with either dimension as that of the rows, the better one first. None if the grid has not two
    /// dimensions. A dimension does not suit if a ring has so few columns that not all can have their cuts away from
    /// those of their neighbours.
    ///
    /// The cuts of early rows are all in one place, those of columns in as many as possible. So columns had better be
    /// longer, and rows an even number.
    ///
    /// Cost: O(L^3) with L the greater length.
    pub fn find(grid: &Grid) -> Vec<Self> {
        let [a, b] = *grid.dimensions() else { return Vec::new() };
        let (a, b) = (Ring { index: 0, dimension: a }, Ring { index: 1, dimension: b });
        let mut choices = [(a, b), (b, a)];
        choices.sort_by_key(|(_, y)| (y.is_odd(), Reverse((y.dimension.ring, y.length()))));
        let place = |(x, y): (Ring, Ring)| {
            let half = x.length() / 2;
            let row_cuts = [[0, CUT % x.length()], [half, (half + CUT) % x.length()]];
            let column_cuts = column_cuts(x, y)?;
            Some(Self { x, y, row_cuts, column_cuts })
        };
        choices.into_iter().filter_map(place).collect()
    }

    /// The VL of a step in a dimension.
    ///
    /// - `before`: the dimension of the step before it, if there was one.
    pub fn vl(before: Option<usize>, dimension: usize) -> Vl {
        match before {
            None => Vl(0),
            Some(before) if before == dimension => Vl(1),
            Some(_) => Vl(2),
        }
    }

    /// The paths to a switch, with the first of the [`choices`](Self::choices) in each quadrant.
    ///
    /// - `halves`: whether half-way sources go upwards in rows, and in columns if the cut of the target's column allows.
    pub fn target(&self, grid: &Grid, to: SwitchId, halves: [bool; 2]) -> PathsTo {
        let place = self.place(grid, to);
        let half = Way { up: halves[1], steps: self.y.length() / 2 };
        let cut = self.y.length() % 2 == 0 && self.y.meets(place[1], half, self.column_cuts[place[0]]);
        let halves = [halves[0], halves[1] != cut];
        let none = Columns { from: 1, to: 0 };
        let mut target = PathsTo { place, halves, columns: [none; PathsTo::QUADRANTS] };
        for quadrant in 0..PathsTo::QUADRANTS {
            target.columns[quadrant] = self.choices(&target, quadrant).next().unwrap_or(none);
        }
        target
    }

    /// The columns that may lead to late rows. Any choice is safe. Lengths depend on it only where the rows are an odd
    /// ring.
    pub fn choices(
        &self,
        target: &PathsTo,
        quadrant: usize,
    ) -> impl Iterator<Item = Columns> + Clone + use<> {
        let up = quadrant & 1 == 0;
        let most = self.x.longest(up, target.halves[0]);
        let cut = |cuts| (CUT..=most).find(|&steps| self.x.meets(target.place[0], Way { up, steps }, cuts));
        let (from, to) = match self.row_cuts.map(cut) {
            // Packets from beyond the cut of early rows must have left these before its third step.
            [Some(early), _] => (1..=(early + 1).saturating_sub(CUT).max(1), most..=most),
            // From beyond the cut of late rows, packets must not have gone into these.
            [None, Some(late)] => (1..=1, 0..=late - 1),
            [None, None] => (1..=most + 1, most..=most),
        };
        from.flat_map(move |from| to.clone().map(move |to| Columns { from, to }))
    }

    /// The step of packets to a target: a dimension, and whether it is upwards there. `None` at the target.
    ///
    /// Cost: O(1).
    pub fn step(&self, grid: &Grid, target: &PathsTo, at: SwitchId) -> Option<(usize, bool)> {
        let [column, row] = self.place(grid, at);
        let across = self.x.way(column, target.place[0], target.halves[0]);
        let along = self.y.way(row, target.place[1], target.halves[1]);
        let in_row = |up| (self.x.index, up);
        let in_column = |up| (self.y.index, up);
        match (across.steps, along.steps) {
            (0, 0) => None,
            (0, _) if !self.y.meets(target.place[1], along, self.column_cuts[column]) => {
                Some(in_column(along.up))
            }
            // Beyond the cut of the column: over a neighbouring column, from an early row.
            (0, _) if self.is_late(row) => Some(in_column(self.free_step(row, along))),
            (0, _) => self.aside(target, column, along).map(in_row),
            (_, 0) => Some(match self.in_own_row(target, row, across) {
                Some(up) => in_row(up),
                None => in_column(self.out_of_row(column, row)),
            }),
            _ => Some(self.towards(target, [column, row], across, along)),
        }
    }

    /// In the row of the target: whether the way to it is upwards. `None` beyond the cut.
    fn in_own_row(&self, target: &PathsTo, row: usize, across: Way) -> Option<bool> {
        let cuts = self.row_cuts[usize::from(self.is_late(row))];
        let is_open = |up| !self.x.meets(target.place[0], Way { up, ..across }, cuts);
        let half = 2 * across.steps == self.x.length();
        if is_open(across.up) {
            Some(across.up)
        } else if half && is_open(!across.up) {
            Some(!across.up)
        } else {
            None
        }
    }

    /// Whether the step to a neighbouring row of the other kind is upwards; both ways in turn.
    fn out_of_row(&self, column: usize, row: usize) -> bool {
        let up = column / 2 % 2 == 1;
        let suits = |next| self.is_late(next) != self.is_late(row);
        up == self.y.dimension.next(row, up).is_some_and(suits)
    }

    /// The step to a target in another row and column.
    fn towards(&self, target: &PathsTo, [column, row]: [usize; 2], across: Way, along: Way) -> (usize, bool) {
        let leads = self.leads_to_late_row(target, column, across, along);
        let Columns { to, .. } = target.columns[quadrant(across, along)];
        // In the last row, packets of columns farther away come by.
        let is_last = row == self.late_row(target, along) && (leads || across.steps <= to);
        let (in_row, in_column) = ((self.x.index, across.up), (self.y.index, along.up));
        if is_last || !leads && !self.is_late(row) {
            in_row
        } else if leads || self.free_step(row, along) == along.up {
            in_column
        } else if self.is_free_beside(target, column, across, along) {
            in_row
        } else {
            (self.y.index, !along.up)
        }
    }

    /// The late row at the end of paths in a quadrant.
    fn late_row(&self, target: &PathsTo, along: Way) -> usize {
        let row = target.place[1];
        if self.is_late(row) { row } else { self.y.after(row, !along.up, 1) }
    }

    /// Whether the free step from a late row to an early one is upwards: towards the target if it can be.
    fn free_step(&self, row: usize, along: Way) -> bool {
        along.up != self.is_late(self.y.after(row, along.up, 1))
    }

    /// Whether packets that have taken a step in a row may go on in the next column: it is that of the target, or leads
    /// to a late row.
    fn is_free_beside(&self, target: &PathsTo, column: usize, across: Way, along: Way) -> bool {
        let next = self.x.after(column, across.up, 1);
        let closer = Way { steps: across.steps - 1, ..across };
        match closer.steps {
            0 => self.is_open(target, next, along.up),
            _ => self.leads_to_late_row(target, next, closer, along),
        }
    }

    /// Whether a row is late.
    fn is_late(&self, row: usize) -> bool {
        self.y.is_late(row)
    }

    /// Whether packets in a column go on in it, to a late row.
    fn leads_to_late_row(&self, target: &PathsTo, column: usize, across: Way, along: Way) -> bool {
        let Columns { from, to } = target.columns[quadrant(across, along)];
        // The neighbour of a target whose own column is cut serves it.
        let serves = across.steps == 1 && !self.is_open(target, target.place[0], along.up);
        self.is_open(target, column, along.up) && (serves || (from..=to).contains(&across.steps))
    }

    /// Whether the step to a neighbouring column whose cut is not in the way is upwards.
    fn aside(&self, target: &PathsTo, column: usize, along: Way) -> Option<bool> {
        let open = |up: &bool| {
            let next = self.x.dimension.next(column, *up);
            next.is_some_and(|next| self.is_open(target, next, along.up))
        };
        [true, false].into_iter().find(open)
    }

    /// Whether no way in a column to the row of the target, from one side, meets the cut.
    fn is_open(&self, target: &PathsTo, column: usize, up: bool) -> bool {
        let longest = Way { up, steps: self.y.longest(up, target.halves[1]) };
        !self.y.meets(target.place[1], longest, self.column_cuts[column])
    }

    fn place(&self, grid: &Grid, s: SwitchId) -> [usize; 2] {
        [self.x, self.y].map(|ring| usize::from(grid.place(s)[ring.index]))
    }
}

impl PathsTo {
    /// Number of quadrants.
    pub const QUADRANTS: usize = 4;

    /// The columns that lead to late rows.
    pub fn columns(&self, quadrant: usize) -> Columns {
        self.columns[quadrant]
    }

    /// Takes one of the [`choices`](StaggeredCuts::choices).
    pub fn choose(&mut self, quadrant: usize, columns: Columns) {
        self.columns[quadrant] = columns;
    }
}

impl Ring {
    fn length(self) -> usize {
        self.dimension.length
    }

    /// Whether it is a ring of an odd length.
    fn is_odd(self) -> bool {
        self.dimension.ring && self.length() % 2 == 1
    }

    /// Whether a row is late: every second one; in an odd ring, the first and the last one too.
    fn is_late(self, row: usize) -> bool {
        (row % 2 == 1) != self.is_odd()
    }

    /// The shortest way.
    fn way(self, from: usize, to: usize, half_up: bool) -> Way {
        if !self.dimension.ring {
            return Way { up: from < to, steps: from.abs_diff(to) };
        }
        let ahead = (to + self.length() - from) % self.length();
        let up = match (2 * ahead).cmp(&self.length()) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => half_up,
        };
        Way { up, steps: if up { ahead } else { self.length() - ahead } }
    }

    /// The steps of the longest way from one side.
    fn longest(self, up: bool, half_up: bool) -> usize {
        match (self.dimension.ring, self.length() % 2) {
            (false, _) => self.length() - 1,
            (true, 0) if up == half_up => self.length() / 2,
            (true, _) => (self.length() - 1) / 2,
        }
    }

    fn after(self, from: usize, up: bool, steps: usize) -> usize {
        let steps = steps % self.length();
        (from + if up { steps } else { self.length() - steps }) % self.length()
    }

    /// Whether the way to a position takes all steps of a cut.
    ///
    /// - `cuts`: where the cuts begin, upwards and downwards.
    fn meets(self, to: usize, way: Way, cuts: [usize; 2]) -> bool {
        if !self.dimension.ring || way.steps < CUT {
            return false;
        }
        let start = self.after(to, !way.up, way.steps);
        let cut = cuts[usize::from(!way.up)];
        let before = if way.up { cut + self.length() - start } else { start + self.length() - cut };
        before % self.length() <= way.steps - CUT
    }
}

fn quadrant(across: Way, along: Way) -> usize {
    usize::from(!across.up) + 2 * usize::from(!along.up)
}

/// Where the cuts of the columns begin, upwards and downwards: about half a ring from those of the neighbouring columns,
/// and in as many places as possible. `None` if there are too few columns in a ring for that.
///
/// They begin in early rows: the free step of a packet that cannot pass the cut must not lead beyond its begin.
fn column_cuts(x: Ring, y: Ring) -> Option<Vec<[usize; 2]>> {
    let (columns, rows) = (x.length(), y.length());
    if !y.dimension.ring {
        return Some(vec![[0; 2]; columns]);
    }
    let early: Vec<usize> = (0..rows).filter(|&row| !y.is_late(row)).collect();
    let apart = |a: usize, b: usize| a.abs_diff(b).min(rows - a.abs_diff(b));
    // No way meets two cuts that are so far apart.
    let suits = |a: usize, b: usize| rows / 2 < CUT || a != b && apart(a, b) + CUT > rows / 2;
    // By number of columns after it, and by row: whether they have places if the cut of one begins there.
    let mut ends = vec![vec![true; rows]];
    if x.dimension.ring {
        ends[0] = (0..rows).map(|row| suits(row, early[0])).collect();
    }
    for left in 1..columns - 1 {
        let goes_on = |row| early.iter().any(|&next| suits(row, next) && ends[left - 1][next]);
        ends.push((0..rows).map(goes_on).collect());
    }
    let mut used = vec![0; rows];
    let mut cuts = vec![early[0]];
    for left in (0..columns - 1).rev() {
        let before = *cuts.last()?;
        let possible = early.iter().filter(|&&row| suits(before, row) && ends[left][row]);
        let next = *possible.min_by_key(|&&row| (used[row], rows / 2 - apart(before, row), row))?;
        used[next] += 1;
        cuts.push(next);
    }
    // Half-way packets must find one of their ways open, so both cuts are in one place there.
    let down = |up: usize| if y.is_odd() { rows - 1 - up } else { (up + CUT + 1) % rows };
    Some(cuts.iter().map(|&up| [up, down(up)]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Fabric;
    use crate::topology::Torus;

    /// The dimensions that a packet goes in, step by step.
    fn path(f: &Fabric, grid: &Grid, cuts: &StaggeredCuts, target: &PathsTo, from: SwitchId) -> Vec<usize> {
        let (mut at, mut path) = (from, Vec::new());
        while let Some((i, up)) = cuts.step(grid, target, at) {
            path.push(i);
            at = grid.step(f, at, i, up).expect("a link");
            assert!(path.len() <= f.num_switches(), "{f}: a loop");
        }
        assert_eq!(cuts.place(grid, at), target.place);
        path
    }

    /// Whatever columns are chosen: in tori whose rows are no odd ring, only switches of one ring take detours, of two
    /// steps or the other way around, and with each ring as many as its cuts make inevitable.
    #[test]
    fn detours_are_those_that_one_sl_makes_inevitable() {
        for dims in [[8, 8], [7, 8], [10, 9], [16, 5], [2, 12], [12, 3]] {
            let f = Torus { dims: dims.to_vec(), cas: 1 }.build().unwrap();
            let grid = Grid::find(&f).unwrap();
            for cuts in StaggeredCuts::find(&grid).into_iter().filter(|cuts| !cuts.y.is_odd()) {
                let mut longer = 0;
                for (to, half) in f.switch_ids().flat_map(|to| [(to, true), (to, false)]) {
                    let mut target = cuts.target(&grid, to, [half; 2]);
                    for quadrant in 0..PathsTo::QUADRANTS {
                        let choices = cuts.choices(&target, quadrant);
                        let choice = choices.clone().nth(to.index() % choices.count()).unwrap();
                        target.choose(quadrant, choice);
                    }
                    for from in f.switch_ids() {
                        let [here, there] = [from, to].map(|s| cuts.place(&grid, s));
                        let least = cuts.x.way(here[0], there[0], half).steps
                            + cuts.y.way(here[1], there[1], half).steps;
                        let taken = path(&f, &grid, &cuts, &target, from).len();
                        if taken != least {
                            assert!(here[0] == there[0] || here[1] == there[1], "{f}");
                            assert_eq!(taken, least + 2, "{f}");
                            longer += 1;
                        }
                    }
                }
                // Of each ring and direction, the pairs three steps apart and more that meet the cut.
                let of = |ring: Ring| match (ring.dimension.ring, ring.length()) {
                    (true, length) => (CUT..length.div_ceil(2)).map(|steps| steps - CUT + 1).sum(),
                    _ => 0,
                };
                let inevitable: usize = 2 * (cuts.y.length() * of(cuts.x) + cuts.x.length() * of(cuts.y));
                assert_eq!(longer, 2 * inevitable, "{f}");
            }
        }
    }

    #[test]
    fn cuts_of_neighbouring_columns_are_never_both_in_the_way() {
        for (columns, rows) in [(8, 8), (7, 8), (5, 16), (9, 9), (7, 7), (11, 16), (16, 11), (2, 40)] {
            let ring = |index, length| Ring { index, dimension: Dimension { length, ring: length > 2 } };
            let (x, y) = (ring(0, columns), ring(1, rows));
            let cuts = column_cuts(x, y).expect("there are enough columns");
            for (i, up, to) in (0..columns - usize::from(columns == 2))
                .flat_map(|i| [true, false].map(|up| (i, up)))
                .flat_map(|(i, up)| (0..rows).map(move |to| (i, up, to)))
            {
                let way = Way { up, steps: rows / 2 };
                let meet = [i, (i + 1) % columns].map(|column| y.meets(to, way, cuts[column]));
                assert_ne!(meet, [true; 2], "{columns}x{rows}, {i}");
                assert!(cuts[i].iter().all(|&row| !y.is_late(row)));
            }
        }
        let few = Dimension { length: 3, ring: true };
        let many = Dimension { length: 16, ring: true };
        assert_eq!(column_cuts(Ring { index: 0, dimension: few }, Ring { index: 1, dimension: many }), None);
    }
}
