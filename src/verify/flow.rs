//! Which VLs the packets to one LID use, and which channel waits for which.

use crate::fabric::{SwitchId, Vl};
use crate::tables::SlVlRow;

use super::policy::Senders;
use super::tree::Tree;
use super::{Destination, Plan, bits};

/// Bit of the VL that carries no data.
pub(super) const DROPPED: u16 = 1 << Vl::MAX_DATA;

/// VLs that the sources of a switch use on one out port, for one SL; bit `n` = VL `n`.
#[derive(Clone, Copy, Default)]
pub(super) struct Injection {
    pub(super) adapters: u16,
    pub(super) all: u16,
}

/// What the channel out of a switch carries to the destination.
#[derive(Clone, Copy, Default)]
struct Load {
    /// SLs.
    sls: u16,
    /// SLs of packets from adapters to an adapter.
    adapter_sls: u16,
    /// VLs by SL; all zero between two destinations.
    vls: [u16; 16],
}

/// Buffers, reused for each destination.
pub(super) struct Flow {
    loads: Vec<Load>,
}

impl Flow {
    pub(super) fn new(switches: usize) -> Self {
        Self { loads: vec![Load::default(); switches] }
    }

    /// Runs all packets that reach destination `index` of its block from the leaves of the tree to
    /// its root, and records virtual channels and dependencies. Returns whether some are mapped to
    /// VL 15.
    ///
    /// The VL of a hop depends only on (in port, out port, SL). So it is enough to know which SLs
    /// each channel of the tree carries, and each of these on which VLs.
    ///
    /// Cost: O(switches x SLs in use per channel), plus O(end ports) if the SL depends on the end
    /// port.
    pub(super) fn run(
        &mut self,
        plan: &Plan<'_>,
        senders: &Senders,
        index: usize,
        to: &Destination,
        tree: &Tree,
    ) -> bool {
        let mut dropped = false;
        let to_adapter = plan.fabric.endport(to.owner).is_adapter();
        let Some((_, others)) = tree.order.split_first() else { return false };
        for &s in others.iter().rev() {
            let s = s as usize;
            let slot = plan.slot(s, tree.out[s]);
            self.inject(plan, senders, index, s, tree.out[s], to_adapter, &mut dropped);
            let load = std::mem::take(&mut self.loads[s]);
            let next = tree.to[s] as usize;
            let turn = plan.turn(next, tree.out[next], tree.in_port[s]);
            let row = plan.rows[turn];
            let mut used = 0;
            for sl in bits(load.sls) {
                used |= load.vls[sl];
                let vl = vl_of(row, sl);
                if vl == Vl::MAX_DATA {
                    dropped = true;
                } else if next != to.root {
                    plan.graph.depend(plan.graph.cell(turn, vl), load.vls[sl]);
                    let ahead = &mut self.loads[next];
                    ahead.sls |= 1 << sl;
                    ahead.vls[sl] |= 1 << vl;
                    if load.adapter_sls & 1 << sl != 0 {
                        ahead.adapter_sls |= 1 << sl;
                        plan.graph.carry_of_adapters(1 << vl);
                    }
                }
            }
            plan.graph.carry(slot, used);
        }
        dropped || dropped_at_home(plan, senders, index, to)
    }

    /// Adds the packets of the sources on a switch to what arrives from its predecessors.
    #[expect(clippy::too_many_arguments, reason = "the inner step of `run`, split off to be read")]
    fn inject(
        &mut self,
        plan: &Plan<'_>,
        senders: &Senders,
        index: usize,
        s: usize,
        out: u8,
        to_adapter: bool,
        dropped: &mut bool,
    ) {
        let mut add = |load: &mut Load, sl: usize, all: u16, adapters: u16| {
            *dropped |= all & DROPPED != 0;
            let all = all & !DROPPED;
            let adapters = if to_adapter { adapters & !DROPPED } else { 0 };
            load.vls[sl] |= all;
            load.sls |= u16::from(all != 0) << sl;
            load.adapter_sls |= u16::from(adapters != 0) << sl;
            plan.graph.carry_of_adapters(adapters);
        };
        let sls = match senders {
            Senders::Same(sls) => *sls,
            Senders::BySwitch(table) => table[index * self.loads.len() + s],
            Senders::ByEndPort(table) => {
                let sls = &table[index * plan.fabric.endports().len()..];
                for &source in plan.fabric.endports_on(SwitchId::at(s)) {
                    let row = plan.row_from(source, s, out);
                    let adapter = plan.injection_port[source.index()] != 0;
                    for sl in bits(sls[source.index()]) {
                        let vls = 1 << vl_of(row, sl);
                        add(&mut self.loads[s], sl, vls, if adapter { vls } else { 0 });
                    }
                }
                return;
            }
        };
        for sl in bits(sls) {
            let injection = plan.injections(sl)[plan.slot(s, out)];
            add(&mut self.loads[s], sl, injection.all, injection.adapters);
        }
    }
}

/// Whether packets of other sources on the destination's switch are mapped to VL 15.
///
/// - `index`: number of the destination in its block.
pub(super) fn dropped_at_home(plan: &Plan<'_>, senders: &Senders, index: usize, to: &Destination) -> bool {
    let others = || plan.fabric.endports_on(SwitchId::at(to.root)).iter().filter(|&&e| e != to.owner);
    plan.drops
        && others().any(|&source| {
            let row = plan.row_from(source, to.root, to.port);
            let sls = match senders {
                Senders::Same(sls) => *sls,
                Senders::BySwitch(table) => table[index * plan.fabric.num_switches() + to.root],
                Senders::ByEndPort(table) => table[index * plan.fabric.endports().len() + source.index()],
            };
            bits(sls).any(|sl| vl_of(row, sl) == Vl::MAX_DATA)
        })
}

/// The VL of an SL in a row.
fn vl_of(row: SlVlRow, sl: usize) -> u8 {
    row.get(crate::fabric::Sl(sl as u8)).0
}
