//! Multicast: do all members get exactly one copy of each packet, and do the copies close a credit
//! loop, among themselves or with unicast?
//!
//! The model: a packet in a switch holds the buffer of the channel that it arrived by until its
//! last copy has left, so that channel waits for each channel that a copy leaves by. Copies do not
//! hold anything for each other: a credit is used when a packet is sent and never reserved, and a
//! copy that was sent has left. Senders are all end ports on the switches of a group, members or
//! not: a switch does not check where a packet comes from.

use super::delivery::{forwarding_loop, twice, unreached};
use super::graph::{Cycles, Graph};
use super::multicast_fault::{Cause, McastFault, McastWait};
use super::policy::lowest;
use super::witness::Finder;
use super::{Destination, Plan, bits};
use crate::fabric::{ChannelId, EndPortId, PortNum, Sl, SwitchId, Vl};
use crate::tables::McastGroup;

/// The multicast properties of some tables.
#[derive(Clone, Debug, PartialEq)]
pub struct McastVerdict {
    /// Number of groups.
    pub groups: usize,
    /// No packet arrives twice by the same channel.
    pub loop_free: bool,
    /// Every member gets the packets of every other one.
    pub reachable: bool,
    /// No end port gets a packet twice.
    pub once: bool,
    /// No virtual channels wait for each other in a cycle, with packets of all groups and of
    /// unicast, no copy needs a VL that does not exist, and adapters map none of the SLs to VL 15.
    /// Checked for the SLs that the tables state for their groups, or else for SL 0, the default of
    /// groups.
    pub deadlock_free: bool,
    /// SLs that groups may have, all at the same time, so that this holds; bit `n` = SL `n`.
    pub sls: u16,
}

impl McastVerdict {
    /// Whether the tables may go to switches.
    pub fn is_safe(&self) -> bool {
        self.loop_free && self.reachable && self.once && self.deadlock_free
    }

    /// The SLs as numbers.
    pub fn sl_numbers(&self) -> Vec<usize> {
        bits(self.sls).collect()
    }
}

/// Judges all groups, together with the dependencies of unicast.
///
/// Cost: O(turns of all groups x SLs that the tables treat differently), plus a search for a cycle.
pub(super) fn judge(
    plan: &Plan<'_>,
    unicast: &Cycles,
    finder: &Finder<'_>,
    destinations: &[Destination],
) -> Option<(McastVerdict, Vec<McastFault>)> {
    let groups = finder.routes.multicast.as_slice();
    if groups.is_empty() {
        return None;
    }
    let loops: Vec<Option<McastFault>> = groups.iter().map(|g| forwarding_loop(plan, g)).collect();
    let copied = groups.iter().zip(&loops).find_map(|(g, looped)| twice(plan, g, looped.is_some()));
    let looped = loops.into_iter().flatten().next();
    let missed = groups.iter().find_map(|g| unreached(plan, g));
    let (loop_free, reachable, once) = (looped.is_none(), missed.is_none(), copied.is_none());
    let mut faults: Vec<McastFault> = looped.into_iter().chain(missed).chain(copied).collect();

    let candidates = |g: &McastGroup| g.sls.unwrap_or(u16::MAX);
    let all = groups.iter().fold(0, |all, g| all | candidates(g));
    let wanted = groups.iter().fold(0, |all, g| all | g.sls.unwrap_or(1));
    // One SL represents all that the tables treat alike, unless a group may use only some of them.
    let alike = |sl: usize| {
        let same = bits(all).filter(|&other| plan.merge[1 << other] == plan.merge[1 << sl]);
        same.fold(0, |set, other| set | 1 << other)
    };
    let parted = |g: &McastGroup| bits(candidates(g)).any(|sl| alike(sl) & !candidates(g) != 0);
    let one_by_one = groups.iter().any(parted);
    let class = |sl: usize| if one_by_one { 1 << sl } else { alike(sl) };
    let classes = bits(all).fold(0, |set, sl| set | lowest(class(sl)));
    let is_wanted = |sl: usize| wanted & class(sl) != 0;
    let spread = |graph: &Graph, sl: usize| {
        let serves = groups.iter().filter(|g| candidates(g) & 1 << sl != 0);
        serves.map(|g| Spread::new(plan, graph, g, Sl(sl as u8)).run()).find_map(Result::err)
    };
    let mut no_vl = None;
    let mut good: u16 = 0;
    let each = plan.graph.clone();
    for sl in bits(classes) {
        let fault = spread(&each, sl);
        good |= u16::from(fault.is_none()) << sl;
        no_vl = no_vl.or(fault.filter(|_| is_wanted(sl)));
    }
    let mut cycle = None;
    if unicast.example.is_some() {
        good = 0;
    } else {
        let with = |sls: u16| {
            let graph = plan.graph.clone();
            bits(sls).for_each(|sl| drop(spread(&graph, sl)));
            graph.cycles(plan.fabric, &plan.turns).example.map(|cycle| (graph, cycle))
        };
        let circular = if good == classes {
            each.cycles(plan.fabric, &plan.turns).example.is_some()
        } else {
            with(good).is_some()
        };
        if circular {
            let possible = std::mem::take(&mut good);
            // An unrequested SL never replaces a requested one.
            let (first, others): (Vec<_>, Vec<_>) = bits(possible).partition(|&sl| is_wanted(sl));
            for sl in first.into_iter().chain(others) {
                match with(good | 1 << sl) {
                    None => good |= 1 << sl,
                    Some((_, found)) if is_wanted(sl) && cycle.is_none() => {
                        cycle = Some((good | 1 << sl, found));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    let sls = bits(good).fold(0, |set, sl| set | class(sl));
    faults.extend(no_vl);
    if let Some((sls, cycle)) = cycle {
        let next = cycle.iter().cycle().skip(1);
        let wait = |(&first, &second): (&(ChannelId, Vl), &(ChannelId, Vl))| {
            let unicast = || finder.packet_over(destinations, first, Some(second)).map(Cause::Unicast);
            let cause = cause(plan, groups, sls, first, second).or_else(unicast)?;
            Some(McastWait { channel: first.0, vl: first.1, cause })
        };
        let waits: Option<Vec<McastWait>> = cycle.iter().zip(next).map(wait).collect();
        faults.push(McastFault::CreditLoop(waits.expect("some packet made each dependency")));
    }
    let deadlock_free = unicast.example.is_none() && wanted & !sls == 0;
    Some((McastVerdict { groups: groups.len(), loop_free, reachable, once, deadlock_free, sls }, faults))
}

/// The packets of one group with one SL, from all senders.
struct Spread<'a> {
    plan: &'a Plan<'a>,
    graph: &'a Graph,
    group: &'a McastGroup,
    sl: Sl,
    /// By slot: VLs on the channel out of it.
    held: Vec<u16>,
    /// Slots with VLs that have not been followed yet.
    open: Vec<(usize, u8, u16)>,
}

impl<'a> Spread<'a> {
    fn new(plan: &'a Plan<'a>, graph: &'a Graph, group: &'a McastGroup, sl: Sl) -> Self {
        Self { plan, graph, group, sl, held: vec![0; plan.ahead.len()], open: Vec::new() }
    }

    /// Adds all dependencies to the graph.
    fn run(mut self) -> Result<(), McastFault> {
        let plan = self.plan;
        for &(s, ports) in &self.group.ports {
            let (on, s) = (plan.fabric.endports_on(s), s.index());
            for &source in on {
                let port = plan.injection_port[source.index()];
                if port != 0 && plan.unsent.get(self.sl).0 == Vl::MAX_DATA {
                    let (mlid, sl) = (self.group.mlid, self.sl);
                    return Err(McastFault::Unsent { mlid, sl, from: source });
                }
                for out in ports.iter().filter(|out| out.0 != port) {
                    self.copy(s, port, out, 0)?;
                }
            }
        }
        while let Some((s, out, vls)) = self.open.pop() {
            let ahead = plan.ahead(s, out);
            let next = ahead.to as usize;
            for port in self.group.at(SwitchId::at(next)).iter().filter(|port| port.0 != ahead.in_port) {
                self.copy(next, ahead.in_port, port, vls)?;
            }
        }
        Ok(())
    }

    /// Copies of packets that arrived by a port on some VLs leave by another port.
    fn copy(&mut self, s: usize, in_port: u8, out: PortNum, from: u16) -> Result<(), McastFault> {
        let plan = self.plan;
        if out.index() >= plan.turns.side[s] {
            return Ok(());
        }
        let turn = plan.turn(s, out.0, in_port);
        let vl = plan.rows[turn].get(self.sl);
        let ahead = plan.ahead(s, out.0);
        let limit = if ahead.to == u32::MAX { Vl::MAX_DATA } else { plan.operates(s, out) };
        if vl.0 >= limit.min(Vl::MAX_DATA) {
            let (mlid, sl, at) = (self.group.mlid, self.sl, SwitchId::at(s));
            return Err(McastFault::NoVl { mlid, sl, at, port: out });
        }
        if ahead.to == u32::MAX {
            return Ok(());
        }
        // It waits for the channel even if the next switch is not in the group and drops it.
        if from != 0 {
            self.graph.depend(self.graph.cell(turn, vl.0), from);
        }
        let held = &mut self.held[plan.slot(s, out.0)];
        if *held & 1 << vl.0 == 0 {
            *held |= 1 << vl.0;
            self.open.push((s, out.0, 1 << vl.0));
        }
        Ok(())
    }
}

/// The multicast packet that makes one virtual channel wait for another, if there is one.
fn cause(
    plan: &Plan<'_>,
    groups: &[McastGroup],
    sls: u16,
    first: (ChannelId, Vl),
    second: (ChannelId, Vl),
) -> Option<Cause> {
    let channels = plan.fabric.channels();
    let (c, d) = (channels.get(first.0), channels.get(second.0));
    let passes = |g: &McastGroup, id: ChannelId| {
        let c = channels.get(id);
        g.at(c.from).contains(c.out_port)
    };
    let vl = |s: SwitchId, inp: PortNum, out: PortNum, sl: Sl| {
        plan.rows[plan.turn(s.index(), out.0, inp.0)].get(sl)
    };
    groups.iter().filter(|g| passes(g, first.0) && passes(g, second.0)).find_map(|g| {
        let sls = sls & g.sls.unwrap_or(u16::MAX);
        bits(sls).map(|sl| Sl(sl as u8)).find_map(|sl| {
            if vl(c.to, c.in_port, d.out_port, sl) != second.1 || first.0 == d.reverse {
                return None;
            }
            let injects = |&&e: &&EndPortId| {
                let port = PortNum(plan.injection_port[e.index()]);
                vl(c.from, port, c.out_port, sl) == first.1
            };
            // The channels of the group from which packets go on over a channel.
            let behind = |next: ChannelId| {
                let back = channels.out(channels.get(next).from).map(|(_, back)| back.reverse);
                back.filter(move |&b| b != channels.get(next).reverse && passes(g, b))
            };
            let before = || {
                let row = |b: &ChannelId| vl(c.from, channels.get(*b).in_port, c.out_port, sl) == first.1;
                let mut open: Vec<ChannelId> = behind(first.0).filter(row).collect();
                let mut next = 0;
                // A switch need not have an end port.
                while let Some(&b) = open.get(next) {
                    if let Some(source) = plan.fabric.endports_on(channels.get(b).from).first() {
                        return Some(source);
                    }
                    let more: Vec<ChannelId> = behind(b).filter(|b| !open.contains(b)).collect();
                    open.extend(more);
                    next += 1;
                }
                None
            };
            let source = plan.fabric.endports_on(c.from).iter().find(injects).or_else(before)?;
            Some(Cause::Multicast { mlid: g.mlid, source: *source, sl })
        })
    })
}
