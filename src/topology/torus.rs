//! Torus: a grid that wraps around in every dimension.

use crate::fabric::Fabric;

use super::error::TopologyError;
use super::mesh;

/// A torus; a k-ary n-cube if all dimensions are equal.
///
/// A dimension of 2 has one link between its two switches, not two. So the 2-ary n-cube is the
/// hypercube, and a 2×2×4 torus has the 32 links of Chiu et al., Table 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torus {
    /// Switches in each dimension, each at least 2.
    pub dims: Vec<u32>,
    /// Adapters per switch, at least 1.
    pub cas: u32,
}

impl Torus {
    /// Builds it. Switches: `sw-X-Y-…`. Ports: adapters, then for each dimension one towards higher
    /// and one towards lower coordinates, so that a port leads in the same direction on every
    /// switch. In a dimension of 2 each switch has only one of the two.
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range or the fabric too large.
    ///
    /// Cost: O(switches · dims² + adapters) time.
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        mesh::grid(&self.dims, self.cas, true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;

    #[test]
    fn links_of_the_test_networks() {
        // Chiu et al., Table 1; the full tori where the table has fewer links.
        let rows = [
            (vec![4, 4], 32),
            (vec![8, 8], 128),
            (vec![2, 2, 4], 32),
            (vec![2, 4, 4], 80),
            (vec![3, 4, 4], 144),
            (vec![4, 4, 4], 192),
        ];
        for (dims, links) in rows {
            let f = Torus { dims: dims.clone(), cas: 1 }.build().unwrap();
            assert_eq!(f.channels().len() / 2, links, "{dims:?}");
            assert_eq!(probe::degrees(&f).len(), 1, "{dims:?}");
            assert_eq!(probe::diameter(&f), Some(dims.iter().map(|d| d / 2).sum()), "{dims:?}");
            assert!(probe::is_simple(&f), "{dims:?}");
        }
    }

    #[test]
    fn a_port_leads_the_same_way_on_every_switch() {
        let f = Torus { dims: vec![5], cas: 3 }.build().unwrap();
        for (_, c) in f.channels().iter() {
            let step = if c.out_port.0 == 4 { 1 } else { 4 };
            assert_eq!(c.to.index(), (c.from.index() + step) % 5);
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(Torus { dims: vec![4, 0], cas: 1 }.build().is_err());
        assert!(Torus { dims: vec![300, 300], cas: 1 }.build().is_err());
        assert!(Torus { dims: vec![4, 4], cas: 0 }.build().is_err());
    }
}
