//! Which VLs the packets to one LID use, and which channel then waits for which.

use crate::fabric::{EndPortId, SwitchId, Vl};
use crate::tables::SlVlRow;

use super::policy::Senders;
use super::tree::Tree;
use super::{Destination, Plan, bits};

/// Bit of the VL that carries no data.
const DROPPED: u16 = 1 << Vl::MAX_DATA;

/// VLs by SL that the sources of a switch inject with on one out port, bit `n` = VL `n`.
#[derive(Clone, Copy, Default)]
pub(super) struct Injection {
    pub(super) adapters: [u16; 16],
    pub(super) all: [u16; 16],
}

impl Injection {
    pub(super) fn add(&mut self, row: SlVlRow, adapter: bool) {
        for (sl, vl) in row.vls().iter().enumerate() {
            self.all[sl] |= 1 << vl.0;
            if adapter {
                self.adapters[sl] |= 1 << vl.0;
            }
        }
    }
}

/// What the channel out of a switch carries towards the destination.
#[derive(Clone, Copy, Default)]
struct Load {
    /// SLs.
    sls: u16,
    /// SLs of packets from adapters to an adapter.
    adapter_sls: u16,
    /// VLs by SL; all zero between two destinations.
    vls: [u16; 16],
}

/// What one destination adds to the whole.
#[derive(Clone, Copy, Default)]
pub(super) struct Outcome {
    /// VLs that packets between adapters use on channels.
    pub(super) adapter_vls: u16,
    /// Some packets are mapped to VL 15.
    pub(super) dropped: bool,
}

impl Outcome {
    /// Of both.
    pub(super) fn and(self, other: Self) -> Self {
        Self { adapter_vls: self.adapter_vls | other.adapter_vls, dropped: self.dropped | other.dropped }
    }
}

/// Buffers, reused from destination to destination.
pub(super) struct Flow {
    loads: Vec<Load>,
}

impl Flow {
    pub(super) fn new(switches: usize) -> Self {
        Self { loads: vec![Load::default(); switches] }
    }

    /// Lets all packets that the forwarding tables bring to destination `index` of its block run
    /// from the leaves of the tree to its root, and notes virtual channels and dependencies.
    ///
    /// The VL of a hop depends on (in port, out port, SL) only. So it suffices to know for each
    /// channel of the tree which SLs it carries, and for each of these in which VLs.
    ///
    /// Cost: O(switches x SLs in use per channel), and O(end ports) more where the SL depends on
    /// the end port.
    pub(super) fn run(
        &mut self,
        plan: &Plan<'_>,
        senders: &Senders,
        index: usize,
        to: &Destination,
        tree: &Tree,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let to_adapter = plan.fabric.endport(to.owner).is_adapter();
        let Some((_, others)) = tree.order.split_first() else { return outcome };
        for &s in others.iter().rev() {
            let s = s as usize;
            let slot = plan.slot(s, tree.out[s]);
            self.inject(plan, senders, index, s, tree.out[s], to_adapter, &mut outcome);
            let load = std::mem::take(&mut self.loads[s]);
            let next = tree.to[s] as usize;
            let turn = plan.turn(next, tree.out[next], tree.in_port[s]);
            let row = plan.rows[turn];
            let mut used = 0;
            for sl in bits(load.sls) {
                used |= load.vls[sl];
                let vl = vl_of(row, sl);
                if vl == Vl::MAX_DATA {
                    outcome.dropped = true;
                } else if next != to.root {
                    plan.graph.depend(turn, vl, load.vls[sl]);
                    let ahead = &mut self.loads[next];
                    ahead.sls |= 1 << sl;
                    ahead.vls[sl] |= 1 << vl;
                    if load.adapter_sls & 1 << sl != 0 {
                        ahead.adapter_sls |= 1 << sl;
                        outcome.adapter_vls |= 1 << vl;
                    }
                }
            }
            plan.graph.carry(slot, used);
        }
        outcome.dropped |= self.dropped_at_home(plan, senders, index, to);
        outcome
    }

    /// Whether packets of other sources on the destination's switch are mapped to VL 15.
    pub(super) fn dropped_at_home(
        &self,
        plan: &Plan<'_>,
        senders: &Senders,
        index: usize,
        to: &Destination,
    ) -> bool {
        let s = SwitchId::at(to.root);
        plan.fabric.endports_on(s).iter().filter(|&&e| e != to.owner).any(|&source| {
            let row = plan.rows[plan.turn(to.root, to.port, plan.injection_port[source.index()])];
            let to_nowhere = |&sl: &usize| vl_of(row, sl) == Vl::MAX_DATA;
            let dropped = bits(u16::MAX).filter(to_nowhere).fold(0, |sls, sl| sls | 1 << sl);
            dropped != 0 && dropped & self.sls(plan, senders, index, source, to.root) != 0
        })
    }

    fn sls(&self, plan: &Plan<'_>, senders: &Senders, index: usize, source: EndPortId, on: usize) -> u16 {
        match senders {
            Senders::Same(sls) => *sls,
            Senders::BySwitch(table) => table[index * self.loads.len() + on],
            Senders::ByEndPort(table) => table[index * plan.fabric.endports().len() + source.index()],
        }
    }

    /// Adds the packets of the sources on a switch to what comes from behind it.
    #[expect(clippy::too_many_arguments, reason = "the inner step of `run`, split off to be read")]
    fn inject(
        &mut self,
        plan: &Plan<'_>,
        senders: &Senders,
        index: usize,
        s: usize,
        out: u8,
        to_adapter: bool,
        outcome: &mut Outcome,
    ) {
        let mut add = |load: &mut Load, sl: usize, all: u16, adapters: u16| {
            outcome.dropped |= all & DROPPED != 0;
            let all = all & !DROPPED;
            let adapters = if to_adapter { adapters & !DROPPED } else { 0 };
            load.vls[sl] |= all;
            load.sls |= u16::from(all != 0) << sl;
            load.adapter_sls |= u16::from(adapters != 0) << sl;
            outcome.adapter_vls |= adapters;
        };
        let sls = match senders {
            Senders::Same(sls) => *sls,
            Senders::BySwitch(table) => table[index * self.loads.len() + s],
            Senders::ByEndPort(table) => {
                let sls = &table[index * plan.fabric.endports().len()..];
                for &source in plan.fabric.endports_on(SwitchId::at(s)) {
                    let row = plan.rows[plan.turn(s, out, plan.injection_port[source.index()])];
                    let adapter = plan.injection_port[source.index()] != 0;
                    for sl in bits(sls[source.index()]) {
                        let vls = 1 << vl_of(row, sl);
                        add(&mut self.loads[s], sl, vls, if adapter { vls } else { 0 });
                    }
                }
                return;
            }
        };
        let injection = &plan.injections[plan.slot(s, out)];
        for sl in bits(sls) {
            add(&mut self.loads[s], sl, injection.all[sl], injection.adapters[sl]);
        }
    }
}

/// The VL of an SL in a row.
fn vl_of(row: SlVlRow, sl: usize) -> u8 {
    row.get(crate::fabric::Sl(sl as u8)).0
}
