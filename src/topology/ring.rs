//! Ring: the smallest network with a credit loop.

use crate::fabric::Fabric;

use super::error::{TopologyError, at_least};
use super::plan::{Plan, Size};

/// A ring of switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Number of switches, at least 3.
    pub switches: u32,
    /// Adapters per switch, at least 1.
    pub cas: u32,
}

impl Ring {
    /// Builds it. Switches: `sw-I`. Ports: adapters, next switch, previous switch.
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range or the fabric too large.
    ///
    /// Cost: O(switches + adapters).
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        let &Self { switches, cas } = self;
        at_least("switches", switches, 3)?;
        at_least("cas", cas, 1)?;
        let mut plan = Plan::new(&Size {
            switches: switches.into(),
            adapters: u128::from(switches) * u128::from(cas),
            ports: u128::from(cas) + 2,
        })?;
        for i in 0..switches {
            plan.switch(format!("sw-{i}"), cas);
        }
        for i in 0..switches as usize {
            plan.link_at((i, cas + 1), ((i + 1) % switches as usize, cas + 2));
        }
        plan.build()
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;

    #[test]
    fn it_goes_round() {
        for n in [3, 4, 7, 32] {
            let f = Ring { switches: n, cas: 2 }.build().unwrap();
            assert_eq!(probe::shape(&f), (n as usize, 2 * n as usize));
            assert_eq!(probe::degrees(&f), [2].into());
            assert_eq!(probe::diameter(&f), Some(n / 2));
            assert_eq!(probe::girth(&f), Some(n));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let message = |switches, cas| Ring { switches, cas }.build().unwrap_err().to_string();
        assert_eq!(message(2, 1), "switches = 2 is not possible: it must be at least 3");
        assert!(message(8, 0).starts_with("cas = 0"));
        assert!(message(3, 253).contains("255 ports"));
        assert!(message(u32::MAX, u32::MAX).contains("too many"));
    }
}
