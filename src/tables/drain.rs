//! What a plan says about hosts and about packets that have to leave before the next step: the two sets of a Double
//! Scheme, and its drainage (Pinkston, Zafar, Duato, sections 3.1 and 3.2).

use std::collections::{BTreeMap, BTreeSet};

use crate::fabric::{EndPort, Fabric, Guid, Lid};

/// A virtual channel: (switch, out port, VL).
pub type VirtualChannel = (Guid, u8, u8);

/// One hop of a control packet, from virtual channel to virtual channel. It begins and ends at the subnet manager,
/// which is `None`.
pub type Hop = (Option<VirtualChannel>, Option<VirtualChannel>);

/// Which LIDs and SLs the subnet administrator gives to hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPaths {
    /// Bit n for SL n.
    pub sls: u16,
    /// Whether the LIDs are the upper half of those of a port with several, or the lower one.
    pub upper: bool,
}

impl HostPaths {
    /// Whether hosts send to this LID. To a port with a single one they always do.
    pub fn has(self, end: &EndPort, lid: Lid) -> bool {
        let half = end.lmc.lids() / 2;
        half == 0 || (lid.get() - end.lid.get() >= half) == self.upper
    }

    /// The SLs of packets to a LID; to one without an owner, too.
    pub fn sls_to(self, fabric: &Fabric, lid: Lid) -> u16 {
        let owner = fabric.owner_of(lid).map(|e| fabric.endport(e));
        if owner.is_none_or(|end| self.has(end, lid)) { self.sls } else { 0 }
    }
}

/// How it is found out that virtual channels are empty.
///
/// ```text
///  subnet manager ──> source ──> … ──> leaf ──> subnet manager
///                        └─────> … ──> leaf ──> subnet manager
/// ```
///
/// The virtual channels are those of a routing function, the hops between them its dependencies. A control packet on
/// VL 15 goes on from a virtual channel when that is empty. Nothing follows into it by then, as all before it are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// Ascending: the first ones come from the subnet manager.
    pub hops: Vec<Hop>,
}

/// The size of a drainage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainSize {
    /// Virtual channels.
    pub channels: usize,
    /// Dependencies between them.
    pub dependencies: usize,
    /// Those that no other one waits for.
    pub sources: usize,
    /// Those that wait for no other one.
    pub leaves: usize,
    /// Paths from a source to a leaf, at most `u64::MAX`.
    pub control_packets: u64,
}

impl Drain {
    /// Along the dependencies between virtual channels.
    pub fn along(
        channels: &[VirtualChannel],
        dependencies: impl IntoIterator<Item = (VirtualChannel, VirtualChannel)>,
    ) -> Self {
        let arcs: BTreeSet<_> = dependencies.into_iter().collect();
        let behind: BTreeSet<_> = arcs.iter().map(|(from, _)| *from).collect();
        let ahead: BTreeSet<_> = arcs.iter().map(|(_, to)| *to).collect();
        let sources = channels.iter().filter(|c| !ahead.contains(*c)).map(|&c| (None, Some(c)));
        let leaves = channels.iter().filter(|c| !behind.contains(*c)).map(|&c| (Some(c), None));
        let arcs = arcs.iter().map(|&(from, to)| (Some(from), Some(to)));
        let hops: BTreeSet<Hop> = sources.chain(arcs).chain(leaves).collect();
        Self { hops: hops.into_iter().collect() }
    }

    /// Whether nothing has to be empty.
    pub fn is_empty(&self) -> bool {
        self.hops.is_empty()
    }

    /// The virtual channels, each after all that lead to it, with the number of paths from a source; `None` if they
    /// cannot all be reached so, as in a cycle.
    ///
    /// Cost: O(hops log hops).
    pub fn order(&self) -> Option<Vec<(VirtualChannel, u64)>> {
        let mut ahead: BTreeMap<_, Vec<_>> = BTreeMap::new();
        // By virtual channel: hops to it that have not been made, and paths.
        let mut open: BTreeMap<VirtualChannel, (usize, u64)> = BTreeMap::new();
        for &(from, to) in &self.hops {
            from.into_iter().chain(to).for_each(|c| {
                open.entry(c).or_default();
            });
            if let Some(to) = to {
                ahead.entry(from).or_default().push(to);
                open.entry(to).or_default().0 += 1;
            }
        }
        let mut order = Vec::with_capacity(open.len());
        let mut next = 0;
        let (mut at, mut paths) = (None, 1_u64);
        loop {
            for to in ahead.get(&at).into_iter().flatten() {
                let (missing, sum) = open.get_mut(to)?;
                (*missing, *sum) = (*missing - 1, sum.saturating_add(paths));
                if *missing == 0 {
                    order.push((*to, *sum));
                }
            }
            let Some(&(channel, sum)) = order.get(next) else { break };
            (at, paths, next) = (Some(channel), sum, next + 1);
        }
        (order.len() == open.len()).then_some(order)
    }

    /// Its size; `None` if the virtual channels wait for each other in a cycle.
    ///
    /// Cost: that of [`order`](Self::order).
    pub fn size(&self) -> Option<DrainSize> {
        let paths: BTreeMap<_, _> = self.order()?.into_iter().collect();
        let leaves: Vec<_> =
            self.hops.iter().filter(|(_, to)| to.is_none()).filter_map(|(c, _)| *c).collect();
        let sources = self.hops.iter().filter(|(from, _)| from.is_none()).count();
        let all = leaves.iter().map(|c| paths[c]).fold(0, u64::saturating_add);
        Some(DrainSize {
            channels: paths.len(),
            dependencies: self.hops.len() - sources - leaves.len(),
            sources,
            leaves: leaves.len(),
            control_packets: all,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channels(n: u8) -> Vec<VirtualChannel> {
        (0..n).map(|port| (Guid(1), port, 0)).collect()
    }

    #[test]
    fn a_control_packet_takes_each_path() {
        let c = channels(6);
        // Two ways from 0 to 3, one of them by way of 1; 4 and 5 wait for nothing and nothing for them.
        let arcs = [(0, 1), (0, 2), (1, 3), (2, 3), (1, 2)].map(|(a, b): (usize, usize)| (c[a], c[b]));
        let drain = Drain::along(&c, arcs);
        let size = drain.size().unwrap();
        assert_eq!(
            size,
            DrainSize { channels: 6, dependencies: 5, sources: 3, leaves: 3, control_packets: 5 }
        );
        let order: Vec<_> = drain.order().unwrap().into_iter().map(|(c, _)| c).collect();
        let place = |x: VirtualChannel| order.iter().position(|&c| c == x);
        assert!(arcs.iter().all(|&(a, b)| place(a) < place(b)));
        assert!(Drain::default().is_empty() && !drain.is_empty());
    }

    #[test]
    fn what_waits_in_a_cycle_has_no_order() {
        let c = channels(4);
        let drain = Drain::along(&c, [(c[0], c[1]), (c[1], c[2]), (c[2], c[1])]);
        assert_eq!((drain.order(), drain.size()), (None, None));
    }

    #[test]
    fn many_paths_are_counted_without_being_walked() {
        let c = channels(200);
        let arcs = (0..99).flat_map(|i| {
            let (a, b) = (2 * i, 2 * i + 1);
            [(a, a + 2), (a, b + 2), (b, a + 2), (b, b + 2)]
        });
        let drain = Drain::along(&c, arcs.map(|(a, b)| (c[a], c[b])));
        assert_eq!(drain.size().unwrap().control_packets, u64::MAX);
    }
}
