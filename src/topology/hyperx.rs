//! HyperX: a grid in which the switches of every line are fully connected.

use crate::fabric::Fabric;

use super::coordinates::{count, digits, name, number};
use super::error::{TopologyError, at_least};
use super::mesh::check_dims;
use super::plan::{Plan, Size};

/// A HyperX (Ahn et al.): two switches are linked if they differ in one coordinate only. With one
/// dimension it is the full mesh; with equal dimensions, a Hamming graph or flattened butterfly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperX {
    /// Switches in each dimension, each at least 2.
    pub dims: Vec<u32>,
    /// Adapters per switch, at least 1.
    pub cas: u32,
}

impl HyperX {
    /// Builds it. Switches: `sw-X-Y-…`. Ports: adapters, then for each dimension the links to the
    /// other switches in line, in the order of their coordinates.
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range or the fabric too large.
    ///
    /// Cost: O(links · dims + adapters) time.
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        let Self { dims, cas } = self;
        check_dims(dims)?;
        at_least("cas", *cas, 1)?;
        let degree: u128 = dims.iter().map(|&d| u128::from(d) - 1).sum();
        let switches = count(dims);
        let adapters = switches.saturating_mul(u128::from(*cas));
        let mut plan = Plan::new(&Size { switches, adapters, ports: degree + u128::from(*cas) })?;
        for i in 0..switches as usize {
            plan.switch(name("sw", &digits(i, dims)), *cas);
        }
        for i in 0..switches as usize {
            let here = digits(i, dims);
            let mut port = cas + 1;
            for (d, &size) in dims.iter().enumerate() {
                for c in here[d] + 1..size {
                    let mut there = here.clone();
                    there[d] = c;
                    // The links follow the order of the other switches in line.
                    plan.link_at((i, port + c - 1), (number(&there, dims), port + here[d]));
                }
                port += size - 1;
            }
        }
        plan.build()
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;

    #[test]
    fn size_degree_and_diameter() {
        for dims in [vec![5], vec![3, 4], vec![4, 4, 4], vec![2, 2, 2, 2]] {
            let f = HyperX { dims: dims.clone(), cas: 3 }.build().unwrap();
            let switches = dims.iter().product::<u32>() as usize;
            assert_eq!(probe::shape(&f), (switches, 3 * switches));
            let degree = dims.iter().map(|&d| d as usize - 1).sum();
            assert_eq!(probe::degrees(&f), [degree].into());
            assert_eq!(probe::diameter(&f), Some(dims.len() as u32));
            assert!(probe::is_simple(&f));
            assert!(f.switch_ids().all(|s| f.switch(s).ports[1..].iter().all(|p| p.peer.is_some())));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let message = |dims, cas| HyperX { dims, cas }.build().unwrap_err().to_string();
        assert!(message(vec![1], 1).contains("dims = '1'"));
        assert!(message(vec![3], 0).contains("cas = 0"));
        assert!(message(vec![u32::MAX; 40], 1).contains("too many"));
        assert!(message(vec![300], 1).contains("300 ports"));
    }
}
