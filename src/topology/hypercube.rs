//! Hypercube: the 2-ary n-cube.

use crate::fabric::Fabric;

use super::error::{TopologyError, at_least};
use super::plan::{Plan, Size};

/// A hypercube of 2ⁿ switches: two switches are linked if their numbers differ in one bit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hypercube {
    /// Dimensions, at least 1.
    pub n: u32,
    /// Adapters per switch, at least 1.
    pub cas: u32,
}

impl Hypercube {
    /// Builds it. Switches: `sw-` and the number in binary. Ports: adapters, then one per dimension
    /// from the lowest bit; both ends of a link use the same port number.
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range or the fabric too large.
    ///
    /// Cost: O(n · switches + adapters).
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        let &Self { n, cas } = self;
        at_least("n", n, 1)?;
        at_least("cas", cas, 1)?;
        let switches = 2_u128.saturating_pow(n);
        let adapters = switches.saturating_mul(cas.into());
        let ports = u128::from(n) + u128::from(cas);
        let mut plan = Plan::new(&Size { switches, adapters, ports })?;
        let switches = switches as usize;
        for i in 0..switches {
            plan.switch(format!("sw-{i:0width$b}", width = n as usize), cas);
        }
        for i in 0..switches {
            for bit in (0..n).filter(|bit| i >> bit & 1 == 0) {
                let port = cas + 1 + bit;
                plan.link_at((i, port), (i | 1 << bit, port));
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
    fn size_degree_diameter_and_girth() {
        for n in 1..=7 {
            let f = Hypercube { n, cas: 2 }.build().unwrap();
            assert_eq!(probe::shape(&f), (1 << n, 2 << n));
            assert_eq!(probe::degrees(&f), [n as usize].into());
            assert_eq!(probe::diameter(&f), Some(n));
            assert_eq!(probe::girth(&f), (n > 1).then_some(4));
        }
        // Chiu et al., Table 1, as corrected: 64 switches have 192 links.
        assert_eq!(Hypercube { n: 6, cas: 1 }.build().unwrap().channels().len() / 2, 192);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let message = |n, cas| Hypercube { n, cas }.build().unwrap_err().to_string();
        assert!(message(0, 1).contains("n = 0"));
        assert!(message(4, 0).contains("cas = 0"));
        assert!(message(u32::MAX, 1).contains("too many"));
        assert!(message(2, 253).contains("255 ports"));
    }
}
