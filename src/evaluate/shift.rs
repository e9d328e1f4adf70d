//! Shift traffic over hosts in the order of their names.

use rayon::prelude::*;
use serde::Serialize;

use super::bisection::Simulation;
use super::paths::Paths;
use super::{EvaluateError, trees};
use crate::fabric::Fabric;
use crate::tables::Routes;

/// Shifts that are tried at most, evenly spread.
const SHIFTS: usize = 400;

/// Bandwidth of shifts: number the adapters by name, then in shift k each sends to the one k further on, as mpiGraph
/// and linear all-to-alls do. Digits in names count as numbers: `node9` comes before `node10`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Shift {
    /// Mean bandwidth of a stream over all shifts, in shares of the rate of most adapters.
    pub shift_mean: f64,
    /// That of the worst shift.
    pub shift_least: f64,
}

impl Shift {
    /// Measures tables that lead every adapter to every other.
    ///
    /// # Errors
    /// As [`evaluate`](super::evaluate()).
    ///
    /// Cost: O(P h + C) for each of at most 400 shifts of P adapters, over all cores.
    pub fn new(fabric: &Fabric, routes: &Routes) -> Result<Self, EvaluateError> {
        let paths = Paths::new(fabric, &routes.lft)?;
        trees::count(&paths)?;
        let mut order: Vec<u32> = (0..paths.adapters.len() as u32).collect();
        let name = |&i: &u32| {
            let end = paths.adapters[i as usize].end;
            (natural(&fabric.node(end.node).description), end.port)
        };
        order.sort_by_cached_key(name);
        let n = order.len();
        let tried = (n - 1).min(SHIFTS);
        let shares = (0..tried).into_par_iter().map_init(
            || Simulation::new(&paths),
            |simulation, i| {
                let shift = 1 + i * (n - 1) / tried;
                let mut receivers = order.clone();
                receivers.rotate_left(shift);
                simulation.share_of(&order, &receivers)
            },
        );
        let shares: Vec<f64> = shares.collect();
        Ok(Self {
            shift_mean: shares.iter().sum::<f64>() / tried as f64,
            shift_least: shares.iter().copied().fold(1.0, f64::min),
        })
    }
}

/// A name in parts that compare as people sort them: text, and numbers by their value.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = vec![(String::new(), 0_u64)];
    let mut digits = false;
    for c in name.chars() {
        match (c.to_digit(10), digits) {
            (Some(_), false) | (None, true) if c.is_ascii_digit() != digits => {
                digits = c.is_ascii_digit();
                if !digits {
                    parts.push((String::new(), 0));
                }
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            match c.to_digit(10) {
                Some(digit) => last.1 = last.1.saturating_mul(10).saturating_add(u64::from(digit)),
                None => last.0.push(c),
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::{Hops, minhop};
    use crate::topology::{FatTree, Xgft};

    #[test]
    fn names_sort_as_people_do() {
        let mut names = ["n10-2", "n9-11", "n9", "a100", "n9-2"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["a100", "n9", "n9-2", "n9-11", "n10-2"]);
    }

    /// In one switch nothing is in the way. In a tree of two levels with one top switch the four adapters of a leaf
    /// share its only way up.
    #[test]
    fn shifts_of_small_trees() {
        let of = |f: &Fabric| {
            let lft = minhop(f, &Hops::new(f).unwrap());
            Shift::new(f, &Routes::on_one_vl("test", f, lft)).unwrap()
        };
        let star = Xgft { m: vec![8], w: vec![1], cas: None }.build().unwrap();
        assert_eq!(of(&star), Shift { shift_mean: 1.0, shift_least: 1.0 });
        let narrow = FatTree { k: 8, levels: 2, down: Some(7), cas: None }.build().unwrap();
        let shift = of(&narrow);
        assert!((shift.shift_least - 1.0 / 7.0).abs() < 1e-9, "{shift:?}");
        assert!(shift.shift_mean > shift.shift_least && shift.shift_mean < 0.5, "{shift:?}");
    }
}
