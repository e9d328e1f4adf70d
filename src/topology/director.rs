//! Director: a large chassis switch, inside a two-level Clos network of 24-port switches.

use crate::fabric::Fabric;

use super::error::{TopologyError, invalid};
use super::plan::{Plan, PlannedSwitch, Size};

/// Ports of each switch in a chassis.
const CROSSBAR: u32 = 24;
/// Ports of a leaf that lead out of the chassis.
pub(super) const OUTSIDE: u32 = CROSSBAR / 2;
/// Possible numbers of ports: the leaves must share the ports of a spine evenly.
const SIZES: [u32; 6] = [24, 48, 72, 96, 144, 288];

/// A director of `ports / 12` leaves and half as many spines, all of them 24-port switches, with
/// full bisection bandwidth. Hoefler et al., section V, use one of 144 and three of 288 ports.
///
/// A leaf has 12 external ports and 12 to the spines, the same number to each. The adapters are
/// spread evenly; if they do not divide, the first leaves have one more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Director {
    /// Ports of the chassis: 24, 48, 72, 96, 144 or 288.
    pub ports: u32,
    /// Adapters in total, up to `ports`; `ports` if `None`.
    pub adapters: Option<u32>,
}

impl Director {
    /// Builds it. Switches: `leaf-I` and `spine-I`. Ports of a leaf: adapters, free ports, spines.
    /// All nodes share a system image GUID.
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range.
    ///
    /// Cost: O(ports).
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        let &Self { ports, adapters } = self;
        if !SIZES.contains(&ports) {
            return Err(invalid("ports", ports, "it must be 24, 48, 72, 96, 144 or 288"));
        }
        let adapters = adapters.unwrap_or(ports);
        if !(1..=ports).contains(&adapters) {
            return Err(invalid("adapters", adapters, format!("it must be from 1 to ports = {ports}")));
        }
        let leaves = ports / OUTSIDE;
        let mut plan = Plan::new(&Size {
            switches: u128::from(leaves + leaves / 2),
            adapters: adapters.into(),
            ports: CROSSBAR.into(),
        })?;
        add_chassis(&mut plan, "", 0, &spread(adapters, &vec![OUTSIDE; leaves as usize]));
        plan.build()
    }
}

/// Adds a director with these adapters on its leaves and returns the number of its first leaf; the
/// other leaves follow. Ports of a leaf up to [`OUTSIDE`] that have no adapter stay free.
pub(super) fn add_chassis(plan: &mut Plan, prefix: &str, chassis: u32, adapters: &[u32]) -> usize {
    let leaves = adapters.len();
    let mut add = |name: String, cas, host_ports| {
        let name = format!("{prefix}{name}");
        plan.add(PlannedSwitch { name, cas, host_ports, ports: CROSSBAR, chassis: Some(chassis) })
    };
    let leaf: Vec<usize> =
        adapters.iter().enumerate().map(|(i, &cas)| add(format!("leaf-{i}"), cas, OUTSIDE)).collect();
    let spine: Vec<usize> = (0..leaves / 2).map(|i| add(format!("spine-{i}"), 0, 0)).collect();
    for &l in &leaf {
        for &s in &spine {
            for _ in 0..CROSSBAR as usize / leaves {
                plan.link(l, s);
            }
        }
    }
    leaf[0]
}

/// Distributes `total` adapters round-robin over leaves; `room` is the limit of each leaf.
pub(super) fn spread(total: u32, room: &[u32]) -> Vec<u32> {
    let mut assigned = vec![0; room.len()];
    let mut left = total.min(room.iter().sum());
    while left > 0 {
        for (assigned, _) in assigned.iter_mut().zip(room).filter(|(assigned, room)| **assigned < **room) {
            if left > 0 {
                *assigned += 1;
                left -= 1;
            }
        }
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;

    #[test]
    fn every_size_is_a_full_clos_network() {
        for ports in SIZES {
            let f = Director { ports, adapters: None }.build().unwrap();
            let leaves = ports as usize / 12;
            assert_eq!(probe::shape(&f), (leaves + leaves / 2, ports as usize));
            assert_eq!(f.channels().len() / 2, ports as usize);
            assert_eq!(probe::diameter(&f), Some(2));
            assert!(f.switch_ids().all(|s| f.switch(s).num_ports() == 24));
            let used = |s| f.channels().out(s).len() + f.num_adapters_on(s);
            assert!(f.switch_ids().all(|s| used(s) == 24));
            assert!(f.switch_ids().all(|s| f.switch(s).system_guid == f.nodes()[0].system_guid));
        }
    }

    #[test]
    fn adapters_are_assigned_in_turn() {
        assert_eq!(spread(7, &[2, 9, 1, 9]), [2, 2, 1, 2]);
        assert_eq!(spread(9, &[2, 1]), [2, 1]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let message = |ports, adapters| Director { ports, adapters }.build().unwrap_err().to_string();
        assert!(message(100, None).contains("96, 144 or 288"));
        assert!(message(144, Some(145)).contains("ports = 144"));
        assert!(message(144, Some(0)).contains("adapters = 0"));
    }
}
