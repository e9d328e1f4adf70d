//! Deimos, a cluster at the Technical University of Dresden: a chain of three directors.

use crate::fabric::Fabric;

use super::director::{OUTSIDE, add_chassis, spread};
use super::error::TopologyError;
use super::plan::{Plan, Size};

const DIRECTORS: usize = 3;
const LEAVES: usize = 24;
/// Cables between two neighbouring directors.
const CABLES: usize = 30;
const ADAPTERS: u32 = 724;

/// Deimos as Hoefler et al. describe it in sections IV.B and V: three 288-port directors in a chain
/// with 30 cables between neighbours, and 724 endpoints. The paper does not say which ports are in
/// use: here cables are assigned round-robin to the leaves of both directors, and adapters
/// round-robin to all leaves with a free port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deimos;

impl Deimos {
    /// Builds it. Director D has the switches `dD-leaf-I` and `dD-spine-I`. Ports of a leaf:
    /// adapters, free ports, cables to other directors from port 12 down, spines.
    ///
    /// # Errors
    /// None in practice.
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        let mut room = [OUTSIDE; DIRECTORS * LEAVES];
        let mut cables = Vec::new();
        let mut assigned = [0; DIRECTORS];
        for left in 0..DIRECTORS - 1 {
            for _ in 0..CABLES {
                cables.push([left, left + 1].map(|director| {
                    let leaf = director * LEAVES + assigned[director] % LEAVES;
                    assigned[director] += 1;
                    room[leaf] -= 1;
                    (leaf, room[leaf] + 1)
                }));
            }
        }
        let adapters = spread(ADAPTERS, &room);

        let mut plan = Plan::new(&Size {
            switches: (DIRECTORS * (LEAVES + LEAVES / 2)) as u128,
            adapters: ADAPTERS.into(),
            ports: 2 * u128::from(OUTSIDE),
        })?;
        let mut first = [0; DIRECTORS];
        for (director, adapters) in adapters.chunks(LEAVES).enumerate() {
            first[director] = add_chassis(&mut plan, &format!("d{director}-"), director as u32, adapters);
        }
        let switch = |leaf: usize| first[leaf / LEAVES] + leaf % LEAVES;
        for [(a, port_a), (b, port_b)] in cables {
            plan.link_at((switch(a), port_a), (switch(b), port_b));
        }
        plan.build()
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_is_as_printed() {
        let f = Deimos.build().unwrap();
        assert_eq!(probe::shape(&f), (108, 724));
        let mut between = BTreeMap::new();
        for (_, c) in f.channels().iter() {
            *between.entry((c.from.index() / 36, c.to.index() / 36)).or_insert(0) += 1;
        }
        let within = 2 * 288;
        let expected = [
            ((0, 0), within),
            ((0, 1), 30),
            ((1, 0), 30),
            ((1, 1), within),
            ((1, 2), 30),
            ((2, 1), 30),
            ((2, 2), within),
        ];
        assert_eq!(between, expected.into());
        assert!(f.switch_ids().all(|s| f.switch(s).num_ports() == 24));
        assert!(probe::diameter(&f).is_some());
        let chassis: std::collections::BTreeSet<_> =
            f.switch_ids().map(|s| f.switch(s).system_guid).collect();
        assert_eq!(chassis.len(), 3);
    }
}
