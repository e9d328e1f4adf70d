//! Mesh: a grid of any number of dimensions.

use crate::fabric::Fabric;

use super::coordinates::{count, digits, name, number};
use super::error::{TopologyError, at_least, invalid};
use super::plan::{Plan, PlannedSwitch, Size};

/// A mesh: each switch is linked to the next one in every dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mesh {
    /// Switches in each dimension, each at least 2.
    pub dims: Vec<u32>,
    /// Adapters per switch, at least 1.
    pub cas: u32,
}

impl Mesh {
    /// Builds it. Switches: `sw-X-Y-…`. Ports: adapters, then for each dimension one towards higher
    /// and one towards lower coordinates, so that a port leads in the same direction on every
    /// switch. At the border such ports stay free.
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range or the fabric too large.
    ///
    /// Cost: O(switches · dims² + adapters) time.
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        grid(&self.dims, self.cas, false)
    }
}

/// A grid of switches; with `wrap`, dimensions of 3 and more also link the last switch to the
/// first.
pub(super) fn grid(dims: &[u32], cas: u32, wrap: bool) -> Result<Fabric, TopologyError> {
    check_dims(dims)?;
    at_least("cas", cas, 1)?;
    let ports = cas.saturating_add(2 * dims.len() as u32);
    let switches = count(dims);
    let adapters = switches.saturating_mul(cas.into());
    let mut plan = Plan::new(&Size { switches, adapters, ports: ports.into() })?;

    for i in 0..switches as usize {
        plan.add(PlannedSwitch { name: name("sw", &digits(i, dims)), cas, ports, ..Default::default() });
    }
    for i in 0..switches as usize {
        let here = digits(i, dims);
        for (d, &size) in dims.iter().enumerate() {
            let mut next = here.clone();
            next[d] = (here[d] + 1) % size;
            if next[d] > 0 || (wrap && size > 2) {
                let up = cas + 1 + 2 * d as u32;
                plan.link_at((i, up), (number(&next, dims), up + 1));
            }
        }
    }
    plan.build()
}

/// Refuses an empty list and dimensions of a single switch.
pub(super) fn check_dims(dims: &[u32]) -> Result<(), TopologyError> {
    if dims.is_empty() || dims.iter().any(|&d| d < 2) {
        let given: Vec<String> = dims.iter().map(u32::to_string).collect();
        let valid = "it must be one or more numbers, each at least 2, e.g. 4,4,4";
        return Err(invalid("dims", format!("'{}'", given.join(",")), valid));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;

    #[test]
    fn size_links_and_diameter() {
        for (dims, links) in [(vec![5], 4), (vec![3, 3], 12), (vec![2, 3, 4], 46), (vec![2, 2, 2, 2], 32)] {
            let f = Mesh { dims: dims.clone(), cas: 2 }.build().unwrap();
            let switches = dims.iter().product::<u32>() as usize;
            assert_eq!(probe::shape(&f), (switches, 2 * switches));
            assert_eq!(f.channels().len() / 2, links, "{dims:?}");
            assert_eq!(probe::diameter(&f), Some(dims.iter().map(|d| d - 1).sum()));
        }
    }

    #[test]
    fn a_port_leads_the_same_way_on_every_switch() {
        let f = Mesh { dims: vec![3, 4], cas: 2 }.build().unwrap();
        for (_, c) in f.channels().iter() {
            let step = c.to.index() as i64 - c.from.index() as i64;
            assert_eq!(step, [4, -4, 1, -1][c.out_port.index() - 3]);
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let message = |dims, cas| Mesh { dims, cas }.build().unwrap_err().to_string();
        assert!(message(vec![], 1).contains("dims = ''"));
        assert!(message(vec![4, 1], 1).contains("dims = '4,1'"));
        assert!(message(vec![u32::MAX; 9], 1).contains("too many"));
        assert!(message(vec![2], 254).contains("256 ports"));
    }
}
