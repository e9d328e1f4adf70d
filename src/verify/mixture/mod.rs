//! The judge of a change: are the tables free of credit loops while switches are being programmed?
//!
//! During a change each entry, each SL2VL row and each multicast port may be that of any of several states,
//! independently of all others, and packets sent long ago are still under way. So a packet at a switch may
//! follow any of the possible entries for its LID, on the VL of any of the possible rows. [`Mixture`] follows all
//! packets that some end port can send over all these ways at once. If no virtual channels wait for each other in
//! a cycle, no order of updates and no packet under way can close a credit loop: every channel that a packet may
//! hold, and every one that it may wait for, is in the graph (Pinkston, Zafar, Duato: "A Method for Applying
//! Double Scheme Dynamic Reconfiguration over InfiniBand", section 2, calls such dependencies ghosts). Then no
//! packet can loop either, as a packet that returns to a channel makes a cycle.
//!
//! A single state is the common case of a mixture: then it says what [`verify`](super::verify) says about
//! credit loops, and counts packets that do not arrive, too.

mod block;
mod causes;
mod common;
mod flow;
mod spread;

use std::sync::Arc;

use rayon::prelude::*;

use crate::fabric::{ChannelId, EndPortId, Fabric, Lid, Sl, SwitchId, Vl};
use crate::tables::{InForce, SenderSls, Sl2Vl, SlVlRow};

use super::flow::DROPPED;
use super::graph::{Cycles, Graph};
use super::witness::Witness;
use super::{Sizes, Turns, bits};
use block::Block;
pub use causes::Dependency;
pub use common::Common;
use flow::{Flow, Out, Sink};
use spread::Groups;

/// The possible ways of all packets while some states are in force at the same time.
pub struct Mixture<'a> {
    mixing: Mixing<'a>,
    groups: Groups,
    graph: Graph,
}

/// What a mixture can do.
#[derive(Clone, Debug, PartialEq)]
pub struct MixtureVerdict {
    /// No virtual channels wait for each other in a cycle.
    pub deadlock_free: bool,
    /// No packet can pass a switch twice. Packets of a loop circle until the change is through.
    pub loop_free: bool,
    /// Number of (channel, VL) in use.
    pub virtual_channels: usize,
    /// Number of dependencies between them.
    pub dependencies: usize,
    /// The sets of virtual channels that wait for each other.
    pub cyclic_components: Vec<Vec<(ChannelId, Vl)>>,
    /// The credit loop and the forwarding loop, if there are.
    pub witnesses: Vec<Witness>,
}

impl<'a> Mixture<'a> {
    /// Follows all packets while each entry, row and multicast port may be that of any of the states.
    ///
    /// - `fabric`: its channels are those that are alive; an entry over another one drops its packets.
    /// - `sls`: the SLs that senders may use.
    ///
    /// # Panics
    /// If there is no state, or if a state or the SLs are for another fabric.
    ///
    /// Cost, with D LIDs, S switches and k states: O(D S k) bytes to compare entries, and O(S k^2) for each LID
    /// and each group of SLs that the rows treat differently; once for LIDs of a switch with the same entries.
    /// On all cores. Memory: 2 bytes for each turn and group of SLs, and VLs times VLs bits for each turn.
    pub fn new(fabric: &'a Fabric, sls: &'a SenderSls, states: &[&'a InForce]) -> Self {
        let mixing = Mixing::new(fabric, sls, states, None);
        let graph = mixing.graph(mixing.rows.lanes);
        mixing.follow(&graph, |_| true);
        Self::with_groups(mixing, graph, states)
    }

    /// The same, beside packets that have been followed already.
    ///
    /// Cost: that of [`new`](Self::new) for the other LIDs, and O(LIDs x switches) bytes compared; that of `new` where
    /// the packets in `common` are on another way in some state.
    pub fn beside(common: &Common<'a>, states: &[&'a InForce]) -> Self {
        let mixing = Mixing::new(common.fabric, common.sls, states, Some(&common.rows));
        let fits = mixing.rows.lanes <= common.graph.lanes();
        if !fits || !states.par_iter().all(|state| common.is_in(state)) {
            return Self::new(common.fabric, common.sls, states);
        }
        let graph = common.graph.clone();
        mixing.follow(&graph, |lid| !common.has(lid));
        Self::with_groups(mixing, graph, states)
    }

    fn with_groups(mixing: Mixing<'a>, graph: Graph, states: &[&'a InForce]) -> Self {
        let groups = Groups::new(states);
        groups.run(&mixing, &mut Recorder { graph: &graph });
        Self { mixing, groups, graph }
    }

    /// Whether no virtual channels wait for each other in a cycle.
    ///
    /// Cost: O(dependencies).
    pub fn is_deadlock_free(&self) -> bool {
        self.graph.is_acyclic(self.mixing.fabric, &self.mixing.turns)
    }

    /// The sets of virtual channels that wait for each other.
    ///
    /// Cost: O(dependencies).
    pub fn cyclic_components(&self) -> Vec<Vec<(ChannelId, Vl)>> {
        self.graph.cycles(self.mixing.fabric, &self.mixing.turns).components
    }

    /// The virtual channels in use, each before all that it waits for, or `None` if there is a cycle. It proves
    /// the mixture: anyone can check that each dependency leads forward.
    ///
    /// Cost: O(dependencies).
    pub fn order(&self) -> Option<Vec<(ChannelId, Vl)>> {
        self.graph.order(self.mixing.fabric, &self.mixing.turns)
    }

    /// The verdict, with an example of each failure.
    ///
    /// Cost: O(dependencies), and for a failure a walk for each LID until an example is found.
    pub fn verdict(&self) -> MixtureVerdict {
        self.verdict_on(self.graph.cycles(self.mixing.fabric, &self.mixing.turns))
    }

    /// The verdict, if no virtual channels wait for each other in a cycle.
    ///
    /// Cost: that of [`is_deadlock_free`](Self::is_deadlock_free).
    pub fn proof(&self) -> Option<MixtureVerdict> {
        let cycles = self.graph.if_acyclic(self.mixing.fabric, &self.mixing.turns);
        cycles.map(|none| self.verdict_on(none))
    }

    fn verdict_on(&self, cycles: Cycles) -> MixtureVerdict {
        let Cycles { virtual_channels, dependencies, components, example } = cycles;
        // A packet that loops waits for itself.
        let looping = example.as_ref().and_then(|_| self.looping());
        let mut witnesses: Vec<Witness> = example.iter().map(|cycle| self.credit_loop(cycle)).collect();
        let loop_free = looping.is_none();
        witnesses.extend(looping);
        MixtureVerdict {
            deadlock_free: example.is_none(),
            loop_free,
            virtual_channels,
            dependencies,
            cyclic_components: components,
            witnesses,
        }
    }
}

/// Adds to the graph.
struct Recorder<'a> {
    graph: &'a Graph,
}

impl Sink for Recorder<'_> {
    fn carry(&mut self, slot: usize, vls: u16) {
        self.graph.carry(slot, vls);
    }

    fn depend(&mut self, turn: usize, _: usize, from: u16, vls: u16) {
        for vl in bits(vls) {
            self.graph.depend(self.graph.cell(turn, vl as u8), from);
        }
    }
}

/// A group of SLs that all possible rows treat alike.
struct SlGroup {
    /// The lowest of them.
    sl: usize,
    /// The possible VLs by turn.
    vls: Vec<u16>,
    /// By slot: the VLs on which end ports of the switch send.
    injected: Vec<u16>,
    /// By slot: the VLs of packets that come from switches that are left out.
    foreign: Vec<u16>,
    /// By slot: both together.
    sent: Vec<u16>,
}

/// Look-up tables for all LIDs.
struct Mixing<'a> {
    fabric: &'a Fabric,
    sls: &'a SenderSls,
    /// Without states that are equal to an earlier one.
    states: Vec<&'a InForce>,
    turns: Turns,
    first_slot: Vec<usize>,
    /// By slot; leads nowhere where no channel leaves by the port.
    ahead: Vec<Out>,
    rows: Arc<Rows<'a>>,
}

/// What the rows of some states say. Mixtures of states with the same rows share it.
struct Rows<'a> {
    /// The different tables of rows.
    tables: Vec<&'a Sl2Vl>,
    /// One more than the highest VL in any row.
    lanes: usize,
    /// By set of SLs: the lowest SL of each group in it.
    merge: Vec<u16>,
    /// The SLs that adapters send with no possible row of theirs.
    unsent: SlVlRow,
    /// The lowest SL of each group that some packets may have.
    in_use: u16,
    /// By SL in use.
    groups: Vec<SlGroup>,
}

impl<'a> Rows<'a> {
    /// Without groups.
    fn new(tables: Vec<&'a Sl2Vl>, may_have: u16) -> Self {
        let (merge, lanes, _) = super::merge(&tables, Sizes::default());
        let dropped_by_all = |drops: u64, row: SlVlRow| drops & row.drops().0;
        let unsent = SlVlRow(tables.iter().map(|t| t.adapters()).fold(u64::MAX, dropped_by_all));
        let in_use = merge[usize::from(may_have)];
        Self { tables, lanes, merge, unsent, in_use, groups: Vec::new() }
    }

    /// Whether these are what the same tables say, in any order, of the same SLs.
    fn serves(&self, tables: &[&Sl2Vl], may_have: u16) -> bool {
        let are_in = |some: &[&Sl2Vl], others: &[&Sl2Vl]| {
            some.iter().all(|a| others.iter().any(|b| std::ptr::eq(*a, *b) || a == b))
        };
        self.in_use == self.merge[usize::from(may_have)]
            && are_in(&self.tables, tables)
            && are_in(tables, &self.tables)
    }
}

/// The SLs that some packets may have.
fn may_have(fabric: &Fabric, sls: &SenderSls, states: &[&InForce]) -> u16 {
    let sent = match sls {
        SenderSls::Same(set) => *set,
        SenderSls::ByLid(table) | SenderSls::BySwitch(table) | SenderSls::ByEndPort(table) => {
            table.iter().fold(0, |all, set| all | set)
        }
    };
    let copied = states.iter().flat_map(|s| &s.multicast).fold(0, |all, g| all | spread::sls(g));
    let mut ports = fabric.nodes().iter().flat_map(|n| &n.ports);
    let foreign = if ports.any(|p| p.untrusted) { u16::MAX } else { 0 };
    sent | copied | foreign
}

/// LIDs that may have the same entries.
struct Task {
    /// The switch that they are attached to, if they are.
    root: Option<usize>,
    lids: Vec<Lid>,
}

impl<'a> Mixing<'a> {
    /// - `known`: what some rows say; taken over if those of the states are the same.
    fn new(
        fabric: &'a Fabric,
        sls: &'a SenderSls,
        states: &[&'a InForce],
        known: Option<&Arc<Rows<'a>>>,
    ) -> Self {
        assert!(!states.is_empty(), "a mixture of nothing");
        let (channels, turns) = (fabric.channels(), Turns::new(fabric));
        for state in states {
            assert_eq!(state.sl2vl.rows().len(), turns.len, "tables of another fabric");
            assert!(state.lft.lids() >= fabric.lid_table_len(), "tables of another fabric");
        }
        let mut ahead = vec![Out { to: u32::MAX, ..Out::default() }; channels.num_slots()];
        for c in channels.as_slice() {
            let slot = channels.first_slot(c.from) + c.out_port.index();
            ahead[slot] = Out {
                to: c.to.0,
                slot: slot as u32,
                turns: turns.at(c.to.index(), 0, c.in_port.0) as u32,
                port: c.out_port.0,
                in_port: c.in_port.0,
            };
        }
        let mut tables = vec![&states[0].sl2vl];
        for state in states {
            if tables.iter().all(|known| **known != state.sl2vl) {
                tables.push(&state.sl2vl);
            }
        }
        let may_have = may_have(fabric, sls, states);
        let known = known.filter(|known| known.serves(&tables, may_have));
        let rows = known.cloned().unwrap_or_else(|| Arc::new(Rows::new(tables, may_have)));
        let is_new = known.is_none();
        let mut mixing = Self {
            fabric,
            sls,
            states: states.to_vec(),
            turns,
            first_slot: fabric.switch_ids().map(|s| channels.first_slot(s)).collect(),
            ahead,
            rows,
        };
        if is_new {
            let groups = bits(mixing.rows.in_use).map(|sl| mixing.group(sl)).collect();
            Arc::get_mut(&mut mixing.rows).expect("made above").groups = groups;
        }
        mixing
    }

    /// A graph without packets.
    fn graph(&self, lanes: usize) -> Graph {
        Graph::new(lanes, self.turns.len, self.fabric.channels().num_slots())
    }

    /// Follows the packets to some LIDs.
    fn follow(&self, graph: &Graph, of: impl Fn(Lid) -> bool + Sync) {
        let mut tasks = self.tasks();
        tasks.iter_mut().for_each(|task| task.lids.retain(|&lid| of(lid)));
        let flow = || Flow::new(self.fabric.num_switches(), self.states.len());
        if let SenderSls::Same(sls) = *self.sls {
            let lids: Vec<Lid> = tasks.into_iter().flat_map(|task| task.lids).collect();
            let buffers = || (Block::new(self.fabric.num_switches()), flow());
            let blocks = lids.par_chunks(Block::LIDS);
            blocks.for_each_init(buffers, |buffers, lids| self.run_block(buffers, sls, lids, graph));
            return;
        }
        tasks.into_par_iter().for_each_init(flow, |flow, task| {
            for lid in self.distinct(&task) {
                self.run(flow, lid, &mut Recorder { graph });
            }
        });
    }

    /// Runs all packets to some LIDs, whose SLs do not depend on the sender.
    fn run_block(&self, (block, flow): &mut (Block, Flow), sls: u16, lids: &[Lid], graph: &Graph) {
        block.read(self, lids);
        let mut left = 0;
        for group in &self.rows.groups {
            let sent = if self.uses(sls, group) { &group.sent } else { &group.foreign };
            left |= block.run(self, group, sent, graph);
        }
        for (_, &lid) in lids.iter().enumerate().filter(|(i, _)| left >> i & 1 != 0) {
            self.run(flow, lid, &mut Recorder { graph });
        }
    }

    fn group(&self, sl: usize) -> SlGroup {
        let (fabric, tables) = (self.fabric, &self.rows.tables);
        let of = |row: SlVlRow| 1 << row.get(Sl(sl as u8)).0;
        let mut vls: Vec<u16> = tables[0].rows().par_iter().map(|&row| of(row)).collect();
        for table in &tables[1..] {
            vls.par_iter_mut().zip(table.rows()).for_each(|(vls, &row)| *vls |= of(row));
        }
        let mut injected = vec![0; self.ahead.len()];
        let mut foreign = vec![0; self.ahead.len()];
        for c in fabric.channels().as_slice() {
            let s = c.from.index();
            let slot = self.slot(s, c.out_port.0);
            for &source in fabric.endports_on(c.from) {
                injected[slot] |= self.first_vls(&vls, sl, source, s, c.out_port.0);
            }
            let ports = fabric.switch(c.from).ports.iter().enumerate();
            for (port, _) in ports.filter(|(_, port)| port.untrusted) {
                foreign[slot] |= vls[self.turns.at(s, c.out_port.0, port as u8)];
            }
        }
        let sent = injected.iter().zip(&foreign).map(|(a, b)| a | b).collect();
        SlGroup { sl, vls, injected, foreign, sent }
    }

    /// The possible VLs of the packets of an end port on their first channel.
    fn first_vls(&self, vls: &[u16], sl: usize, source: EndPortId, s: usize, out_port: u8) -> u16 {
        let end = self.fabric.endport(source);
        let port = end.attachment.map_or(0, |(_, port)| port.0);
        if end.is_adapter() && self.rows.unsent.get(Sl(sl as u8)).0 == Vl::MAX_DATA {
            return 0;
        }
        vls[self.turns.at(s, out_port, port)] & !DROPPED
    }

    fn slot(&self, switch: usize, port: u8) -> usize {
        self.first_slot[switch] + usize::from(port)
    }

    /// The channel behind a port of a switch, if there is one.
    fn out(&self, s: usize, port: u8) -> Option<Out> {
        if usize::from(port) >= self.turns.side[s] {
            return None;
        }
        Some(self.ahead[self.slot(s, port)]).filter(|out| out.to != u32::MAX)
    }

    /// The channel out of a slot.
    fn channel(&self, slot: usize) -> ChannelId {
        let s = self.first_slot.partition_point(|&first| first <= slot) - 1;
        let port = crate::fabric::PortNum((slot - self.first_slot[s]) as u8);
        self.fabric.channels().at_port(SwitchId::at(s), port).expect("the slot of a channel")
    }

    /// All LIDs for which any state may have entries, those on one switch together.
    fn tasks(&self) -> Vec<Task> {
        let mut tasks = Vec::new();
        for s in self.fabric.switch_ids() {
            let lids = self.fabric.endports_on(s).iter().flat_map(|&e| self.fabric.endport(e).lids());
            tasks.push(Task { root: Some(s.index()), lids: lids.collect() });
        }
        let attached = |lid: Lid| {
            let owner = self.fabric.owner_of(lid);
            owner.is_some_and(|e| self.fabric.endport(e).attachment.is_some())
        };
        let last = self.states.iter().map(|state| state.lft.lids()).max().unwrap_or(0);
        let all = (1..last).filter_map(|lid| Lid::new(lid as u16));
        let others: Vec<Lid> = all.filter(|&lid| !attached(lid)).collect();
        tasks.extend(others.chunks(64).map(|lids| Task { root: None, lids: lids.to_vec() }));
        tasks
    }

    /// The different columns of entries for a LID.
    fn columns(&self, lid: Lid) -> Vec<&'a [u8]> {
        let mut columns: Vec<&[u8]> = Vec::with_capacity(self.states.len());
        for state in self.states.iter().filter(|state| lid.index() < state.lft.lids()) {
            let column = state.lft.to(lid);
            if columns.iter().all(|known| *known != column) {
                columns.push(column);
            }
        }
        columns
    }

    /// The LIDs of a task, without those whose packets use exactly the channels of an earlier one's.
    ///
    /// Cost: O(switches x states) bytes compared for each LID and each different one before it.
    fn distinct(&self, task: &Task) -> Vec<Lid> {
        let mut kept: Vec<(Lid, Vec<&[u8]>)> = Vec::new();
        for &lid in &task.lids {
            let columns = self.columns(lid);
            let same = |(other, theirs): &(Lid, Vec<&[u8]>)| {
                columns.len() == theirs.len()
                    && columns.iter().zip(theirs).all(|(a, b)| self.same_channels(task.root, a, b))
                    && self.senders(lid) == self.senders(*other)
            };
            if !kept.iter().any(same) {
                kept.push((lid, columns));
            }
        }
        kept.into_iter().map(|(lid, _)| lid).collect()
    }

    /// Whether two columns of LIDs on one switch lead over the same channels.
    fn same_channels(&self, root: Option<usize>, a: &[u8], b: &[u8]) -> bool {
        let Some(root) = root else { return a == b };
        let at_home =
            a[root] == b[root] || self.out(root, a[root]).is_none() && self.out(root, b[root]).is_none();
        at_home && a[..root] == b[..root] && a[root + 1..] == b[root + 1..]
    }

    /// The SLs of the senders to a LID, if they depend on the sender.
    fn senders(&self, lid: Lid) -> &[u16] {
        let (table, width) = match self.sls {
            SenderSls::Same(_) => return &[],
            SenderSls::ByLid(table) => (table, 1),
            SenderSls::BySwitch(table) => (table, self.fabric.num_switches()),
            SenderSls::ByEndPort(table) => (table, self.fabric.endports().len()),
        };
        &table[lid.index() * width..][..width]
    }

    /// Runs all packets to a LID.
    fn run(&self, flow: &mut Flow, lid: Lid, sink: &mut impl Sink) {
        let columns = self.columns(lid);
        flow.lay(self, &columns);
        for group in &self.rows.groups {
            match self.sls {
                SenderSls::Same(set) if self.uses(*set, group) => {
                    flow.run(&group.vls, |_, out| group.sent[out.slot as usize], sink);
                }
                _ => flow.run(&group.vls, |s, out| self.injected(group, lid, s, out), sink),
            }
        }
    }

    /// Whether packets with some of these SLs are in a group.
    fn uses(&self, sls: u16, group: &SlGroup) -> bool {
        self.rows.merge[usize::from(sls)] & 1 << group.sl != 0
    }

    /// The VLs on which packets to a LID begin at a switch, over one of its channels.
    fn injected(&self, group: &SlGroup, lid: Lid, s: usize, out: &Out) -> u16 {
        let slot = out.slot as usize;
        let uses = |set: u16| self.uses(set, group);
        let of_all = |set: u16| if uses(set) { group.injected[slot] } else { 0 };
        let sent = match self.sls {
            SenderSls::Same(set) => of_all(*set),
            SenderSls::ByLid(table) => of_all(table[lid.index()]),
            SenderSls::BySwitch(table) => of_all(table[lid.index() * self.first_slot.len() + s]),
            SenderSls::ByEndPort(_) => {
                let sets = self.senders(lid);
                let ends = self.fabric.endports_on(SwitchId::at(s)).iter();
                ends.filter(|e| uses(sets[e.index()]))
                    .fold(0, |all, &e| all | self.first_vls(&group.vls, group.sl, e, s, out.port))
            }
        };
        sent | group.foreign[slot]
    }
}
