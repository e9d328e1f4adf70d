//! How many routes to a destination count, and how the load of each kind of traffic is kept apart.

use crate::fabric::{EndPort, Fabric, Role};

/// The routes to adapters of each role. Without roles each adapter counts once, whatever the destination.
#[derive(Clone, Debug)]
pub(in crate::routing) struct Demand<'a> {
    fabric: &'a Fabric,
    /// By role of the destination, then by switch.
    by_role: [Vec<u64>; 3],
    /// Whether roles differ.
    pub(in crate::routing) several: bool,
}

impl<'a> Demand<'a> {
    /// Cost: O(S + P) with P adapters.
    pub(in crate::routing) fn new(fabric: &'a Fabric) -> Self {
        let mut by_role = [(); 3].map(|()| vec![0; fabric.num_switches()]);
        for (_, end) in fabric.adapters() {
            let (duty, Some((switch, _))) = (fabric.duty(end), end.attachment) else { continue };
            for (to, routes) in Role::ALL.into_iter().zip(&mut by_role) {
                routes[switch.index()] += if duty.role.talks_to(to) { u64::from(duty.source) } else { 0 };
            }
        }
        Self { fabric, by_role, several: fabric.has_duties() }
    }

    /// The routes to an adapter by switch, and how often each counts.
    pub(in crate::routing) fn to(&self, end: &EndPort) -> (&[u64], u64) {
        let duty = self.fabric.duty(end);
        (self.of_role(duty.role), u64::from(duty.destination))
    }

    /// The routes to an adapter of a role that counts once, by switch.
    pub(in crate::routing) fn of_role(&self, role: Role) -> &[u64] {
        &self.by_role[role as usize]
    }
}

/// The load by channel that destinations of each role are routed by: that of their own traffic, and some of the
/// rest. So traffic among compute nodes is balanced for itself, and so is traffic to storage.
pub(in crate::routing) struct Loads<T> {
    /// By role; only the first one without roles.
    by_role: Vec<Vec<T>>,
}

/// How many routes to a destination of another role count as much as one of the own. Without the others, the few
/// routes to storage would take the same channels as the first ones to compute nodes. A fat tree k = 8 without 26
/// links, every fourth adapter storage: compute nodes get 3 % more bandwidth among themselves than with 1.
const OWN: u64 = 4;

impl<T: Clone + Default> Loads<T> {
    pub(in crate::routing) fn new(demand: &Demand<'_>) -> Self {
        let roles = if demand.several { Role::ALL.len() } else { 1 };
        Self { by_role: vec![vec![T::default(); demand.fabric.channels().len()]; roles] }
    }

    /// What a destination is routed by.
    pub(in crate::routing) fn of(&self, role: Role) -> &[T] {
        self.by_role.get(role as usize).unwrap_or(&self.by_role[0])
    }

    /// The load by channel, without roles.
    pub(in crate::routing) fn into_only(mut self) -> Vec<T> {
        self.by_role.swap_remove(0)
    }

    /// Counts routes to a destination: `count` adds them, as often as it is told, to a load by channel.
    pub(in crate::routing) fn count(&mut self, role: Role, mut count: impl FnMut(u64, &mut [T])) {
        if let [only] = self.by_role.as_mut_slice() {
            return count(1, only);
        }
        for (other, load) in self.by_role.iter_mut().enumerate() {
            count(if other == role as usize { OWN } else { 1 }, load);
        }
    }
}
