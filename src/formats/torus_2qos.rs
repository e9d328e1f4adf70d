//! `torus-2QoS.conf`, which OpenSM's engine torus-2QoS needs. Written only.

use std::io::{self, Write};
use std::path::Path;

use super::{FormatError, write_file};
use crate::fabric::{Fabric, SwitchId};
use crate::ordering::{Dimension, Grid};

/// The file that [`write()`] writes.
pub const FILES: [&str; 1] = ["torus-2QoS.conf"];

/// Dimensions in the file.
const AXES: [char; 3] = ['x', 'y', 'z'];

/// End ports of a switch, or parallel links, that torus-2QoS expects without configuration.
const PORTS: usize = 16;

/// What the file does not say of a fabric, a sentence each.
///
/// # Errors
/// The fabric is no torus of two or three dimensions.
pub fn not_carried(fabric: &Fabric) -> Result<Vec<String>, FormatError> {
    let axes = Axes::new(fabric)?;
    let seeds = axes.seeds(fabric).len();
    let none = "adapters, LIDs and speeds: OpenSM finds them itself".to_owned();
    let second = (seeds < 2).then(|| {
        "a second seed: torus-2QoS cannot start where the switch of the first one, or a neighbour in the file, is down"
            .to_owned()
    });
    Ok([none].into_iter().chain(second).collect())
}

/// Writes the file into an existing folder: the lengths, and the links of one or two switches from which OpenSM finds
/// the others.
///
/// # Errors
/// Those of the file system; `InvalidInput` for a fabric that [`not_carried`] refuses.
///
/// Cost: that of [`Grid::find`].
pub fn write(dir: &Path, fabric: &Fabric) -> io::Result<()> {
    let axes = Axes::new(fabric).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e.to_string()))?;
    let seeds = axes.seeds(fabric);
    write_file(dir, FILES[0], |out| {
        let lengths = axes.list.iter().map(|axis| {
            let Dimension { length, ring } = axis.dimension();
            format!("{length}{}", if ring { 't' } else { 'm' })
        });
        let missing = AXES.len() - axes.list.len();
        let lengths: Vec<String> = lengths.chain(std::iter::repeat_n("1".to_owned(), missing)).collect();
        writeln!(out, "torus {}", lengths.join(" "))?;
        for (i, &seed) in seeds.iter().enumerate() {
            if i > 0 {
                writeln!(out, "\nnext_seed")?;
            }
            axes.write_seed(out, fabric, seed, seeds[0])?;
        }
        let most = axes.most_ports(fabric);
        if most > PORTS { writeln!(out, "\nportgroup_max_ports {most}") } else { Ok(()) }
    })
}

/// A dimension of the file.
enum Axis {
    /// The same as in the grid.
    Same(usize, Dimension),
    /// A ring of four: two paths of two in the grid.
    Square(usize, usize),
}

impl Axis {
    fn dimension(&self) -> Dimension {
        match *self {
            Self::Same(_, dimension) => dimension,
            Self::Square(..) => Dimension { length: 4, ring: true },
        }
    }

    fn position(&self, grid: &Grid, s: SwitchId) -> usize {
        let place = grid.place(s);
        match *self {
            Self::Same(i, _) => usize::from(place[i]),
            Self::Square(i, j) => match (place[i], place[j]) {
                (0, 0) => 0,
                (1, 0) => 1,
                (1, 1) => 2,
                _ => 3,
            },
        }
    }

    /// The next switch upwards or downwards, if there is a link.
    fn step(&self, fabric: &Fabric, grid: &Grid, s: SwitchId, up: bool) -> Option<SwitchId> {
        let (i, up) = match *self {
            Self::Same(i, _) => (i, up),
            // Positions 0 and 2 go up in the first path, 1 and 3 in the second; which way depends on the place.
            Self::Square(i, j) => {
                let first = self.position(grid, s) % 2 == usize::from(!up);
                let i = if first { i } else { j };
                (i, grid.place(s)[i] == 0)
            }
        };
        grid.step(fabric, s, i, up)
    }
}

/// A grid as torus-2QoS sees it.
struct Axes {
    grid: Grid,
    list: Vec<Axis>,
}

impl Axes {
    fn new(fabric: &Fabric) -> Result<Self, FormatError> {
        let refused = |reason: &str| {
            FormatError::new(0, format!("torus-2QoS needs a torus of two or three dimensions: {reason}"))
        };
        let grid = Grid::find(fabric).ok_or_else(|| refused("this fabric is no grid"))?;
        let all = || grid.dimensions().iter().copied().enumerate();
        let is_pair = |dimension: Dimension| dimension.length == 2 && !dimension.ring;
        let mut list: Vec<Axis> =
            all().filter(|&(_, d)| !is_pair(d)).map(|(i, d)| Axis::Same(i, d)).collect();
        let pairs: Vec<(usize, Dimension)> = all().filter(|&(_, d)| is_pair(d)).collect();
        for two in pairs.chunks(2) {
            list.push(match *two {
                [(i, _), (j, _)] => Axis::Square(i, j),
                _ => Axis::Same(two[0].0, two[0].1),
            });
        }
        let is_path = |axis: &Axis| {
            let Dimension { length, ring } = axis.dimension();
            !ring && length > 2
        };
        if list.iter().any(is_path) {
            return Err(refused("OpenSM 3.3.23 does not come up on this one, which has a path"));
        }
        match list.len() {
            2 | 3 => Ok(Self { grid, list }),
            n => Err(refused(&format!("this one has {n}"))),
        }
    }

    /// The switches with all links that a seed may need: the first one, and one that shares no link with it.
    fn seeds(&self, fabric: &Fabric) -> Vec<SwitchId> {
        let near = |s: SwitchId| -> Vec<SwitchId> {
            let steps = self.list.iter().flat_map(|axis| [(axis, true), (axis, false)]);
            steps.filter_map(|(axis, up)| axis.step(fabric, &self.grid, s, up)).collect()
        };
        let enough = |s: &SwitchId| {
            self.list.iter().all(|axis| {
                let needed = axis.dimension();
                let steps = [true, false].map(|up| axis.step(fabric, &self.grid, *s, up).is_some());
                if needed.ring && needed.length == 4 { steps == [true; 2] } else { steps.contains(&true) }
            })
        };
        let mut good = fabric.switch_ids().filter(enough);
        let Some(first) = good.next() else { return Vec::new() };
        let around = near(first);
        let apart = |s: &SwitchId| !around.contains(s) && near(*s).iter().all(|t| !around.contains(t));
        std::iter::once(first).chain(good.find(apart)).collect()
    }

    /// The links of a seed, and where it lies from the first one, so that the datelines stay.
    fn write_seed(
        &self,
        out: &mut dyn Write,
        fabric: &Fabric,
        s: SwitchId,
        first: SwitchId,
    ) -> io::Result<()> {
        let guid = |s: SwitchId| fabric.switch(s).guid;
        for (axis, name) in self.list.iter().zip(AXES) {
            let step = |up| axis.step(fabric, &self.grid, s, up);
            let both = axis.dimension().length == 4;
            for (up, sign) in [(true, 'p'), (false, 'm')] {
                let Some(to) = step(up).filter(|_| up || both || step(true).is_none()) else { continue };
                writeln!(out, "{name}{sign}_link {} {}", guid(s), guid(to))?;
            }
            let (at, origin) = (axis.position(&self.grid, s), axis.position(&self.grid, first));
            if at != origin {
                let back = origin as i64 - at as i64;
                writeln!(out, "{name}_dateline {back}")?;
            }
        }
        Ok(())
    }

    /// The most ports between two switches, or between a switch and its end ports.
    fn most_ports(&self, fabric: &Fabric) -> usize {
        let ends = fabric.switch_ids().map(|s| fabric.num_adapters_on(s) + 1).max().unwrap_or(0);
        let slots = (0..self.grid.dimensions().len()).flat_map(|i| [(i, true), (i, false)]);
        let links = slots.flat_map(|(i, up)| fabric.switch_ids().map(move |s| (s, i, up)));
        links.map(|(s, i, up)| self.grid.channels(s, i, up).len()).fold(ends, usize::max)
    }
}
