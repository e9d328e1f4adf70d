//! The judge: checks reachability, loops, minimality and credit loops, from the tables alone.
//!
//! It shares no code with what computes routes and lanes, so it finds mistakes made there.
//! [`verify`] checks every LID of every end port that is attached to a switch (adapters and routers
//! with their whole LMC range, switch port 0) from every such end port. It never walks pair by
//! pair: the forwarding entries for one LID form a tree, and everything is counted along the tree.
//! Only if a property fails are single pairs walked, to find a [`Witness`].

mod delivery;
mod flow;
mod graph;
mod hops;
mod minimal;
pub mod mixture;
mod multicast;
mod multicast_fault;
mod packet;
mod policy;
mod safety;
mod sets;
#[cfg(test)]
mod tests;
mod tree;
mod untrusted;
mod used;
mod witness;

use std::collections::HashSet;

use rayon::prelude::*;
use serde_json::{Value, json};

use crate::fabric::{ChannelId, EndPortId, Fabric, Lid, PortNum, Sl, SwitchId, Vl};
use crate::tables::{Routes, Sl2Vl, SlVlRow};

use flow::{Flow, Injection, dropped_at_home};
use graph::Graph;
use hops::{Distances, HopCounts};
use minimal::Minimal;
pub use multicast::McastVerdict;
pub use multicast_fault::{Cause, McastFault, McastWait};
pub use packet::Packet;
pub use policy::SlPolicy;
use policy::{Pairs, Senders, SlsInUse};
pub use safety::{SlSafety, sl_safety};
pub use sets::{SetsVerdict, verify_sets};
use tree::Tree;
use untrusted::Leak;
use witness::Finder;
pub use witness::{Fault, Wait, Witness};

/// Blocks of destinations that one thread judges before it asks for more.
const AT_ONCE: usize = 8;

/// How much is processed together. No verdict depends on it. Tests use smaller sizes, so that small tables
/// cover the same code as large ones.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Destinations, at most 64: one word of bits, and about a cache line of a forwarding table.
    block: usize,
    /// SL2VL rows that one thread searches for distinct ones.
    rows: usize,
    /// Switches whose entries are transposed at a time: about a cache line of each column.
    tile: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { block: 64, rows: 1 << 16, tile: 64 }
    }
}

/// The properties of some tables, and figures about their paths.
///
/// An *adapter pair* is an adapter (or router) end port and a LID of another one; with LMC > 0 each
/// LID counts. A *hop* is a switch-to-switch channel. Hop figures are over the adapter pairs that
/// arrive.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// No virtual channels wait for each other in a cycle. Over all pairs whose entries lead to the
    /// destination.
    pub deadlock_free: bool,
    /// The same for packets between adapters alone, as other checkers do it: they ignore traffic
    /// from and to switch port 0, which fills the same buffers.
    pub deadlock_free_adapters: bool,
    /// Every packet arrives: entries lead to the destination and no SL in use maps to VL 15, at any switch or
    /// sending adapter.
    pub reachable: bool,
    /// No packet loops.
    pub loop_free: bool,
    /// No channel carries a VL that an end of it cannot operate, as far as the ends state their
    /// VLs.
    pub vls_legal: bool,
    /// No packet from a switch that was left out gets past a port of the fabric that is
    /// [untrusted](crate::fabric::Port::untrusted): all are dropped before they hold a channel's
    /// buffer.
    pub contained: bool,
    /// Every adapter pair has as few hops as the cables allow.
    pub minimal: bool,
    /// Adapter pairs that arrive.
    pub pairs: u64,
    /// Share of these with more hops than necessary.
    pub nonminimal_share: f64,
    /// Mean over these of (hops + 1) / (fewest possible hops + 1), which compares the switches
    /// passed.
    pub mean_stretch: f64,
    /// Mean hops.
    pub mean_hops: f64,
    /// Most hops.
    pub max_hops: u16,
    /// Largest distance in hops between switches with adapters, as the cables allow.
    pub diameter: u16,
    /// Largest distance in hops between any two switches that are connected.
    pub diameter_all: u16,
    /// Distinct VLs that packets between adapters use on switch-to-switch channels.
    pub vls: u32,
    /// The same over all pairs.
    pub vls_all: u32,
    /// Distinct SLs assigned to adapter pairs, including all classes of service. A pair that may
    /// use several SLs counts with the lowest, so a set that serves every pair counts as one.
    pub sls: u32,
    /// The same over all pairs.
    pub sls_all: u32,
    /// Number of (channel, VL) in use.
    pub virtual_channels: usize,
    /// Number of dependencies between them.
    pub dependencies: usize,
    /// Number of strongly connected components of the dependency graph that have a cycle.
    pub cyclic_components: usize,
    /// The multicast groups, if the tables have any.
    pub multicast: Option<McastVerdict>,
    /// What adaptive routing may do, if the tables have sets of next hops. What it finds also tells against
    /// `deadlock_free`, `reachable` and `vls_legal`.
    pub adaptive: Option<SetsVerdict>,
    /// One witness for each property that fails: unreachable, loop, credit loop, illegal VL,
    /// foreign packets, adaptive routing, multicast, detour.
    pub witnesses: Vec<Witness>,
}

impl Verdict {
    /// Whether the tables may go to switches: every packet arrives, none loops, none deadlocks, all
    /// VLs exist and no foreign packet passes, multicast included if the tables have groups.
    /// Detours are safe.
    pub fn is_safe(&self) -> bool {
        let multicast = self.multicast.as_ref().is_none_or(McastVerdict::is_safe);
        self.deadlock_free
            && self.reachable
            && self.loop_free
            && self.vls_legal
            && self.contained
            && multicast
    }

    /// The witness of the most serious failure.
    pub fn witness(&self) -> Option<&Witness> {
        self.witnesses.first()
    }

    /// The verdict as JSON, with names, GUIDs and ports instead of indices.
    pub fn to_json(&self, fabric: &Fabric) -> Value {
        json!({
            "safe": self.is_safe(),
            "deadlock_free": self.deadlock_free,
            "deadlock_free_adapters": self.deadlock_free_adapters,
            "reachable": self.reachable,
            "loop_free": self.loop_free,
            "vls_legal": self.vls_legal,
            "contained": self.contained,
            "minimal": self.minimal,
            "pairs": self.pairs,
            "nonminimal_share": self.nonminimal_share,
            "mean_stretch": self.mean_stretch,
            "mean_hops": self.mean_hops,
            "max_hops": self.max_hops,
            "diameter": self.diameter,
            "diameter_all": self.diameter_all,
            "vls": self.vls,
            "vls_all": self.vls_all,
            "sls": self.sls,
            "sls_all": self.sls_all,
            "virtual_channels": self.virtual_channels,
            "dependencies": self.dependencies,
            "cyclic_components": self.cyclic_components,
            "multicast_groups": self.multicast.as_ref().map_or(0, |m| m.groups),
            "multicast_loop_free": self.multicast.as_ref().map(|m| m.loop_free),
            "multicast_once": self.multicast.as_ref().map(|m| m.once),
            "multicast_reachable": self.multicast.as_ref().map(|m| m.reachable),
            "multicast_deadlock_free": self.multicast.as_ref().map(|m| m.deadlock_free),
            "adaptive": self.adaptive.as_ref().map(|adaptive| adaptive.to_json(fabric)),
            "multicast_sls": self.multicast.as_ref().map(McastVerdict::sl_numbers),
            "witness": self.witness().map(|w| w.to_json(fabric)),
            "witnesses": self.witnesses.iter().map(|w| w.to_json(fabric)).collect::<Vec<_>>(),
        })
    }
}

/// Judges tables whose senders use the assigned SLs.
///
/// # Panics
/// If the tables were made for another fabric.
pub fn verify(fabric: &Fabric, routes: &Routes) -> Verdict {
    verify_with(fabric, routes, SlPolicy::AsTold)
}

/// Judges tables under an assumption about the SLs that senders use. The verdict, witnesses
/// included, does not depend on the number of threads.
///
/// # Panics
/// If the tables were made for another fabric.
///
/// Cost, with S switches of d ports, C channels, D LIDs: O(D S) time per group of SLs that the
/// tables treat differently, spread over all cores. If all paths are minimal and no SL depends on
/// more of the sender than its switch, 64 LIDs are processed together, and the channels and turns
/// that they share only once: about one to three nanoseconds per (LID, switch). O(D x end ports)
/// more if SLs depend on the source end port. In addition, at most O(D / 64 x levels x C) for distances. Memory: a byte
/// and VLs times VLs bits for each of the S d^2 turns, with the VLs rounded up to a power of two, and O(S) per thread.
pub fn verify_with(fabric: &Fabric, routes: &Routes, policy: SlPolicy) -> Verdict {
    verify_in(fabric, routes, policy, Sizes::default())
}

fn verify_in(fabric: &Fabric, routes: &Routes, policy: SlPolicy, sizes: Sizes) -> Verdict {
    let destinations = destinations(fabric);
    let run = |pairs: Pairs| {
        let plan = Plan::new(fabric, routes, policy, pairs, sizes);
        (plan.judge_all(&destinations), plan)
    };
    let (tally, plan) = run(Pairs::All);
    let cycles = plan.graph.cycles(fabric, &plan.turns);
    // Which packets cause it matters only if there is a cycle.
    let between_adapters = cycles.example.as_ref().and_then(|_| {
        let (_, plan) = run(Pairs::Adapters);
        plan.graph.cycles(fabric, &plan.turns).example
    });

    let finder = Finder { fabric, routes, policy };
    let mut witnesses = Vec::new();
    let withheld = finder.withheld();
    let is_withheld = withheld.is_some();
    witnesses.extend(tally.unreachable.and_then(|lid| finder.unreachable(lid)).or(withheld));
    witnesses.extend(tally.looping.and_then(|lid| finder.looping(lid)));
    // A cycle caused by packets between adapters is the better witness.
    if let Some(cycle) = between_adapters.as_ref().or(cycles.example.as_ref()) {
        let next = cycle.iter().cycle().skip(1);
        let wait = |(&first, &second): (&_, &_)| {
            let packet = finder.packet_over(&destinations, first, Some(second))?;
            Some(Wait { channel: first.0, vl: first.1, packet })
        };
        let waits: Option<Vec<Wait>> = cycle.iter().zip(next).map(wait).collect();
        witnesses.push(Witness::CreditLoop(waits.expect("some packet made each dependency")));
    }
    let illegal = plan.illegal_vl();
    if let Some((channel, vl, data_vls)) = illegal {
        let packet = finder.packet_over(&destinations, (channel, vl), None);
        let packet = packet.expect("some packet used each virtual channel");
        witnesses.push(Witness::IllegalVl { wait: Wait { channel, vl, packet }, data_vls });
    }
    let leak = untrusted::leak(fabric, &routes.sl2vl);
    witnesses.extend(leak.map(|Leak { at, in_port, out_port, sl }| Witness::Foreign {
        at,
        in_port,
        out_port,
        sl,
    }));
    let adaptive = sets::judge(fabric, routes, policy);
    let chosen = adaptive.clone().unwrap_or_default();
    let (no_loop, arrives) = (chosen.credit_loop.is_empty(), chosen.dead_end.is_none());
    witnesses.extend(chosen.dead_end.map(|(at, lid)| Witness::AdaptiveDeadEnd { at, lid }));
    witnesses.extend((!no_loop).then_some(Witness::AdaptiveCreditLoop(chosen.credit_loop)));
    witnesses.extend(chosen.illegal.map(|(channel, vl)| Witness::AdaptiveVl { channel, vl }));
    let (multicast, faults) = multicast::judge(&plan, &cycles, &finder, &destinations).unzip();
    witnesses.extend(faults.unwrap_or_default().into_iter().map(Witness::Multicast));
    witnesses.extend(tally.detour.and_then(|lid| {
        let (root, _) = fabric.endport(fabric.owner_of(lid)?).attachment?;
        let distances = Distances::new(fabric.channels(), fabric.num_switches(), vec![root.index()]);
        finder.detour(lid, distances.to(root.index()))
    }));

    Verdict {
        deadlock_free: cycles.example.is_none() && no_loop,
        deadlock_free_adapters: between_adapters.is_none() && no_loop,
        reachable: tally.unreachable.is_none() && arrives && !is_withheld,
        loop_free: tally.looping.is_none(),
        vls_legal: illegal.is_none() && chosen.illegal.is_none(),
        contained: leak.is_none(),
        minimal: tally.detour.is_none(),
        pairs: tally.hops.pairs(),
        nonminimal_share: tally.hops.nonminimal_share(),
        mean_stretch: tally.hops.mean_stretch(),
        mean_hops: tally.hops.mean(),
        max_hops: tally.hops.max(),
        diameter: tally.diameter,
        diameter_all: tally.diameter_all,
        vls: plan.graph.used_by_adapters().count_ones(),
        vls_all: plan.graph.used_anywhere().count_ones(),
        sls: tally.sls.adapters.count_ones(),
        sls_all: tally.sls.all.count_ones(),
        virtual_channels: cycles.virtual_channels,
        dependencies: cycles.dependencies,
        cyclic_components: cycles.components.len(),
        multicast,
        adaptive,
        witnesses,
    }
}

/// The virtual channels that wait for each other in cycles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CyclicComponents {
    /// The strongly connected components of the dependency graph that have a cycle.
    pub members: Vec<Vec<(ChannelId, Vl)>>,
    /// A short cycle: each virtual channel waits for the next one and the last for the first. Empty
    /// if there is none.
    pub shortest: Vec<(ChannelId, Vl)>,
}

/// The cycles of the dependency graph of packets between adapters with the assigned SLs.
///
/// # Panics
/// If the tables were made for another fabric.
///
/// Cost: that of [`verify`].
pub fn cyclic_components(fabric: &Fabric, routes: &Routes) -> CyclicComponents {
    let plan = Plan::new(fabric, routes, SlPolicy::AsTold, Pairs::Adapters, Sizes::default());
    plan.judge_all(&destinations(fabric));
    let cycles = plan.graph.cycles(fabric, &plan.turns);
    CyclicComponents { members: cycles.components, shortest: cycles.example.unwrap_or_default() }
}

/// A LID and its location.
#[derive(Clone, Copy, Debug)]
struct Destination {
    /// The switch that it is attached to.
    root: usize,
    lid: Lid,
    /// That switch's port to it; 0 for the switch itself.
    port: u8,
    owner: EndPortId,
}

/// All LIDs with possible senders; those on one switch are adjacent.
fn destinations(fabric: &Fabric) -> Vec<Destination> {
    let mut list = Vec::new();
    for s in fabric.switch_ids() {
        let first = list.len();
        for &owner in fabric.endports_on(s) {
            let end = fabric.endport(owner);
            let port = end.attachment.map_or(0, |(_, port)| port.0);
            list.extend(end.lids().map(|lid| Destination { root: s.index(), lid, port, owner }));
        }
        list[first..].sort_unstable_by_key(|d| d.lid);
    }
    // An end port does not send to itself.
    if list.iter().all(|d| d.owner == list[0].owner) {
        list.clear();
    }
    list
}

/// Numbers the turns of all switches as [`Sl2Vl`] does its rows: turns with the same in port are
/// adjacent.
struct Turns {
    first: Vec<usize>,
    side: Vec<usize>,
    len: usize,
}

impl Turns {
    fn new(fabric: &Fabric) -> Self {
        let side: Vec<usize> = fabric.switch_ids().map(|s| fabric.channels().slots_of(s)).collect();
        let mut len = 0;
        let mut first = Vec::with_capacity(side.len());
        for n in &side {
            first.push(len);
            len += n * n;
        }
        Self { first, side, len }
    }

    fn at(&self, switch: usize, out_port: u8, in_port: u8) -> usize {
        self.first[switch] + usize::from(in_port) * self.side[switch] + usize::from(out_port)
    }
}

/// The next switch behind a port.
#[derive(Clone, Copy)]
struct Ahead {
    /// The next switch, `u32::MAX` if no channel leaves by the port.
    to: u32,
    in_port: u8,
}

/// Look-up tables used for every destination, in the order of use.
struct Plan<'a> {
    fabric: &'a Fabric,
    routes: &'a Routes,
    policy: SlPolicy,
    pairs: Pairs,
    sizes: Sizes,
    turns: Turns,
    /// By turn.
    rows: &'a [SlVlRow],
    /// Whether any row maps an SL to VL 15.
    drops: bool,
    /// VL 15 for each SL that adapters and routers map to it.
    unsent: SlVlRow,
    first_slot: Vec<usize>,
    /// By slot.
    ahead: Vec<Ahead>,
    /// By SL x slot.
    injections: Vec<Injection>,
    /// Port of its switch by end port.
    injection_port: Vec<u8>,
    /// Whether a switch has no end port: no LID and no adapters.
    silent: bool,
    /// Number of adapter end ports by switch.
    adapters: Vec<u32>,
    /// For each SL that serves every pair: VLs by turn. SLs that all rows treat alike appear once.
    vls: Vec<(usize, Vec<u8>)>,
    /// By set of SLs: the same set with one SL for each group that all rows treat alike.
    merge: Vec<u16>,
    graph: Graph,
}

impl<'a> Plan<'a> {
    fn new(fabric: &'a Fabric, routes: &'a Routes, policy: SlPolicy, pairs: Pairs, sizes: Sizes) -> Self {
        let channels = fabric.channels();
        let turns = Turns::new(fabric);
        let alike = |s: SwitchId| routes.sl2vl.ports_of(s) == channels.slots_of(s);
        assert!(fabric.switch_ids().all(alike), "tables of another fabric");
        let rows = routes.sl2vl.rows();
        assert_eq!(rows.len(), turns.len, "tables of another fabric");
        let injection_port: Vec<u8> =
            fabric.endports().iter().map(|e| e.attachment.map_or(0, |(_, port)| port.0)).collect();
        let unsent = routes.sl2vl.adapters().drops();
        let slots = channels.num_slots();
        let mut ahead = vec![Ahead { to: u32::MAX, in_port: 0 }; slots];
        let mut injections = vec![Injection::default(); Sl::COUNT * slots];
        for c in channels.as_slice() {
            let slot = channels.first_slot(c.from) + c.out_port.index();
            ahead[slot] = Ahead { to: c.to.0, in_port: c.in_port.0 };
            let mut last = None;
            for &source in fabric.endports_on(c.from) {
                let adapter = fabric.endport(source).is_adapter();
                let row = rows[turns.at(c.from.index(), c.out_port.0, injection_port[source.index()])];
                let row = if adapter { SlVlRow(row.0 | unsent.0) } else { row };
                // Most sources on a switch have the same set.
                if last.replace((row, adapter)) == Some((row, adapter)) {
                    continue;
                }
                for (sl, vl) in row.vls().iter().enumerate() {
                    let injection = &mut injections[sl * slots + slot];
                    injection.all |= 1 << vl.0;
                    injection.adapters |= u16::from(adapter) << vl.0;
                }
            }
        }
        let (merge, lanes, drops) = merge(&[&routes.sl2vl], sizes);
        let same = policy.same(&routes.path_sl).filter(|_| pairs == Pairs::All);
        let of_sl = |sl: usize| (sl, rows.par_iter().map(|row| row.get(Sl(sl as u8)).0).collect());
        let vls = same.map_or(Vec::new(), |sls| bits(merge[usize::from(sls)]).map(of_sl).collect());
        Self {
            fabric,
            routes,
            policy,
            pairs,
            sizes,
            vls,
            graph: Graph::new(lanes, turns.len, channels.num_slots()),
            turns,
            rows,
            drops,
            unsent,
            first_slot: fabric.switch_ids().map(|s| channels.first_slot(s)).collect(),
            ahead,
            injections,
            injection_port,
            silent: fabric.switch_ids().any(|s| fabric.endports_on(s).is_empty()),
            adapters: fabric.switch_ids().map(|s| fabric.num_adapters_on(s) as u32).collect(),
            merge,
        }
    }

    fn turn(&self, switch: usize, out_port: u8, in_port: u8) -> usize {
        self.turns.at(switch, out_port, in_port)
    }

    /// The VLs of packets of an end port on the first channel, by SL; VL 15 for those that it does not send.
    fn row_from(&self, source: EndPortId, switch: usize, out_port: u8) -> SlVlRow {
        let port = self.injection_port[source.index()];
        let row = self.rows[self.turn(switch, out_port, port)];
        if port == 0 { row } else { SlVlRow(row.0 | self.unsent.0) }
    }

    fn slot(&self, switch: usize, port: u8) -> usize {
        self.first_slot[switch] + usize::from(port)
    }

    /// By slot.
    fn injections(&self, sl: usize) -> &[Injection] {
        &self.injections[sl * self.ahead.len()..][..self.ahead.len()]
    }

    fn ahead(&self, switch: usize, port: u8) -> Ahead {
        if usize::from(port) < self.turns.side[switch] {
            self.ahead[self.slot(switch, port)]
        } else {
            Ahead { to: u32::MAX, in_port: 0 }
        }
    }

    /// Judges all destinations, on all cores.
    fn judge_all(&self, destinations: &[Destination]) -> Tally {
        // Some take longer than others: what is left at the end shall be little.
        let blocks = destinations.par_chunks(self.sizes.block).with_max_len(AT_ONCE);
        let buffers = || Minimal::new(self.fabric.num_switches(), self.sizes.tile);
        let tallies = blocks.map_init(buffers, |minimal, block| self.judge(minimal, block));
        tallies.reduce(Tally::default, Tally::merge)
    }

    /// Judges a block of destinations.
    fn judge(&self, minimal: &mut Minimal, block: &[Destination]) -> Tally {
        let switches = self.fabric.num_switches();
        let (senders, sls) = Senders::new(self, block);
        let mut tally = Tally { sls, ..Tally::default() };
        // One SL at a time, as long as none depends on more than the sender's switch.
        let mut closer = u64::MAX;
        let quick = match &senders {
            Senders::Same(_) => Some(minimal.run(self, block)),
            Senders::BySwitch(sls) => Some(minimal.run_by_switch(self, block, sls)),
            Senders::ByEndPort(_) => None,
        };
        if let Some((search, left)) = quick {
            closer = left;
            (tally.diameter, tally.diameter_all) = (search.diameter, search.diameter_all);
            tally.hops.add_minimal(search.pairs);
        }
        let (closer, usual): (Vec<_>, Vec<_>) =
            block.iter().enumerate().partition(|(i, _)| closer >> i & 1 != 0);
        for (i, d) in usual {
            if dropped_at_home(self, &senders, i, d) {
                tally.unreachable = first(tally.unreachable, Some(d.lid));
            }
        }
        if closer.is_empty() {
            return tally;
        }
        let mut roots: Vec<usize> = closer.iter().map(|(_, d)| d.root).collect();
        roots.dedup();
        let distances = Distances::new(self.fabric.channels(), switches, roots);
        let (diameter, diameter_all) = distances.diameters(self);
        tally.diameter = tally.diameter.max(diameter);
        tally.diameter_all = tally.diameter_all.max(diameter_all);
        let (mut tree, mut flow) = (Tree::new(switches), Flow::new(switches));
        let to_adapter = |d: &Destination| self.fabric.endport(d.owner).is_adapter();
        for (i, d) in closer {
            tree.grow(self, d, self.routes.lft.to(d.lid));
            let dropped = flow.run(self, &senders, i, d, &tree);
            if tree.dead_end || tree.looping || dropped {
                tally.unreachable = first(tally.unreachable, Some(d.lid));
            }
            if tree.looping {
                tally.looping = first(tally.looping, Some(d.lid));
            }
            if to_adapter(d) && tally.hops.add(self, d, &tree, distances.to(d.root)) {
                tally.detour = first(tally.detour, Some(d.lid));
            }
        }
        tally
    }

    /// The first channel with a VL in use that one of its ends cannot operate, and how many VLs it
    /// can.
    fn illegal_vl(&self) -> Option<(ChannelId, Vl, u8)> {
        self.fabric.channels().iter().find_map(|(id, c)| {
            let limit = self.operates(c.from.index(), c.out_port);
            let used = self.graph.used(self.slot(c.from.index(), c.out_port.0));
            bits(used).find(|&vl| vl >= usize::from(limit)).map(|vl| (id, Vl(vl as u8), limit))
        })
    }

    /// Data VLs that both ends of a link to another switch can operate, as far as stated.
    fn operates(&self, s: usize, port: PortNum) -> u8 {
        let ahead = self.ahead(s, port.0);
        let data_vls = |s: usize, port: PortNum| {
            self.fabric.switch(SwitchId::at(s)).ports[port.index()].data_vls.unwrap_or(Vl::MAX_DATA)
        };
        data_vls(s, port).min(data_vls(ahead.to as usize, PortNum(ahead.in_port)))
    }
}

/// [`Plan::merge`], one more than the highest data VL in any row, and [`Plan::drops`], over some tables.
fn merge(tables: &[&Sl2Vl], sizes: Sizes) -> (Vec<u16>, usize, bool) {
    let chunks = tables.par_iter().flat_map(|table| table.rows().par_chunks(sizes.rows)).map(|rows| {
        let mut distinct = HashSet::new();
        // Usually a few rows repeat.
        let mut recent = [None; 4];
        for &row in rows {
            if !recent.contains(&Some(row)) {
                recent.rotate_right(1);
                recent[0] = Some(row);
                distinct.insert(row);
            }
        }
        distinct
    });
    let mut distinct = chunks.reduce(HashSet::new, |a, b| &a | &b);
    // Of the rows of adapters, only the SLs that they do not send matter.
    distinct.extend(tables.iter().flat_map(|table| [table.adapters().drops(), table.some_drop()]));
    let mut alike = [u16::MAX; Sl::COUNT];
    let (mut highest, mut drops) = (0, false);
    for row in distinct {
        let vls = row.vls();
        for (sl, vl) in vls.iter().enumerate() {
            let same = vls.iter().enumerate().filter(|&(_, other)| other == vl);
            alike[sl] &= same.fold(0, |set, (other, _)| set | 1 << other);
            highest = highest.max(if vl.0 < Vl::MAX_DATA { vl.0 } else { 0 });
            drops |= vl.0 == Vl::MAX_DATA;
        }
    }
    let mut merge = vec![0; 1 << Sl::COUNT];
    for set in 1..merge.len() {
        merge[set] = merge[set & (set - 1)] | policy::lowest(alike[set.trailing_zeros() as usize]);
    }
    (merge, usize::from(highest) + 1, drops)
}

/// The result for a block of destinations. Merging is commutative and exact.
#[derive(Default)]
struct Tally {
    hops: HopCounts,
    diameter: u16,
    diameter_all: u16,
    sls: SlsInUse,
    /// The lowest LID that some packet does not reach.
    unreachable: Option<Lid>,
    /// The lowest LID with a loop.
    looping: Option<Lid>,
    /// The lowest LID of an adapter with a path that is too long.
    detour: Option<Lid>,
}

impl Tally {
    fn merge(mut self, other: Self) -> Self {
        self.hops.merge(other.hops);
        Self {
            diameter: self.diameter.max(other.diameter),
            diameter_all: self.diameter_all.max(other.diameter_all),
            sls: SlsInUse {
                adapters: self.sls.adapters | other.sls.adapters,
                all: self.sls.all | other.sls.all,
            },
            unreachable: first(self.unreachable, other.unreachable),
            looping: first(self.looping, other.looping),
            detour: first(self.detour, other.detour),
            hops: self.hops,
        }
    }
}

/// The lower of two LIDs, if there is one.
fn first(a: Option<Lid>, b: Option<Lid>) -> Option<Lid> {
    a.into_iter().chain(b).min()
}

/// The positions of the bits in a set, ascending.
fn bits(set: impl Into<u64>) -> impl Iterator<Item = usize> {
    let mut set: u64 = set.into();
    std::iter::from_fn(move || {
        let bit = set.trailing_zeros() as usize;
        (set != 0).then(|| {
            set &= set - 1;
            bit
        })
    })
}
