//! Adapters on a given network of switches.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::fabric::Fabric;

use super::error::TopologyError;
use super::plan::{Plan, Size};

/// The same switches and links with other adapters: `adapters` in all, one after the other on the switch with the
/// fewest links and adapters so far, among equals the first (Chiu et al., section 6.2: the switch with the most free
/// ports, if all have the same number of ports).
///
/// Switches keep their names. Ports and GUIDs are new ones, as the generators number them.
///
/// # Errors
/// [`TopologyError::TooLarge`], [`TopologyError::TooManyPorts`].
///
/// Cost: O(C + (S + A) log S) with S switches, C channels and A adapters.
pub fn attach_adapters(fabric: &Fabric, adapters: u32) -> Result<Fabric, TopologyError> {
    let switches = fabric.num_switches();
    // Too many are refused before they are counted out.
    Plan::new(&Size { switches: switches as u128, adapters: adapters.into(), ports: 0 })?;
    let degrees = fabric.switch_ids().map(|s| fabric.channels().out(s).len() as u32);
    let mut fewest: BinaryHeap<Reverse<(u32, usize)>> =
        degrees.enumerate().map(|(s, degree)| Reverse((degree, s))).collect();
    let mut cas = vec![0; switches];
    for _ in 0..adapters {
        let Some(mut top) = fewest.peek_mut() else { break };
        let Reverse((degree, s)) = *top;
        cas[s] += 1;
        *top = Reverse((degree + 1, s));
    }
    Plan::of_switches(fabric, &cas, 1)?.build()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::topology::{Mesh, Ring, probe};

    #[test]
    fn adapters_go_where_ports_are_left() {
        let f = Mesh { dims: vec![2, 3], cas: 2 }.build().expect("a valid mesh");
        let at = |adapters| {
            let f = attach_adapters(&f, adapters).expect("few adapters");
            f.switch_ids().map(|s| f.num_adapters_on(s)).collect::<Vec<_>>()
        };
        // The switches in the middle have three links, the corners two.
        assert_eq!(at(0), [0; 6]);
        assert_eq!(at(3), [1, 0, 1, 1, 0, 0]);
        assert_eq!(at(4), [1, 0, 1, 1, 0, 1]);
        assert_eq!(at(7), [2, 1, 2, 1, 0, 1]);
    }

    #[test]
    fn the_network_stays_and_the_limits_hold() {
        let f = Ring { switches: 5, cas: 3 }.build().expect("a valid ring");
        let other = attach_adapters(&f, 15).expect("few adapters");
        let links =
            |f: &Fabric| -> BTreeSet<_> { f.channels().iter().map(|(_, c)| (c.from, c.to)).collect() };
        assert_eq!(links(&f), links(&other));
        assert_eq!((f.num_links(), probe::shape(&f)), (other.num_links(), probe::shape(&other)));
        let names = |f: &Fabric| f.switch_ids().map(|s| f.switch(s).description.clone()).collect::<Vec<_>>();
        assert_eq!(names(&f), names(&other));
        assert!(matches!(attach_adapters(&f, 50_000), Err(TopologyError::TooLarge { .. })));
        assert!(matches!(attach_adapters(&f, 5000), Err(TopologyError::TooManyPorts { ports: 1002 })));
    }
}
