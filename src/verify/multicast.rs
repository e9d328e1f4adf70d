//! Multicast: do all members get one copy of each packet, and do the copies close a credit loop,
//! among themselves or with unicast?
//!
//! The model: a packet in a switch holds the buffer of the channel that it came by until the last of
//! its copies has left, so that channel waits for each channel that a copy leaves by. Copies hold
//! nothing for each other: a credit is spent when a packet is sent and never held in reserve, and a
//! copy that was sent has left. Senders are all end ports on the switches of a group, members or not:
//! a switch does not ask where a packet comes from.

use serde_json::{Value, json};

use super::delivery::{circle, twice, unreached};
use super::graph::{Cycles, Graph};
use super::policy::lowest;
use super::witness::Finder;
use super::{Destination, Packet, Plan, bits};
use crate::fabric::{ChannelId, EndPortId, Fabric, PortNum, Sl, SwitchId, Vl};
use crate::tables::McastGroup;

/// What holds for the multicast groups of some tables.
#[derive(Clone, Debug, PartialEq)]
pub struct McastVerdict {
    /// How many groups were looked at.
    pub groups: usize,
    /// No packet comes by the same channel twice.
    pub loop_free: bool,
    /// Every member gets the packets of every other one.
    pub reachable: bool,
    /// No end port gets a packet twice.
    pub once: bool,
    /// No virtual channels wait for each other in a circle, with packets of all groups and of unicast,
    /// no copy needs a VL that does not exist, and adapters map none of the SLs to VL 15: for the SLs that
    /// the tables state of their groups, and for SL 0, which is what groups have by default, where they
    /// state none.
    pub deadlock_free: bool,
    /// SLs that groups may have for that, all at the same time, bit `n` = SL `n`.
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

/// One example of a property of multicast that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McastFault {
    /// Packets of a group go in circles.
    Loop {
        /// The group.
        mlid: u16,
        /// The circle.
        channels: Vec<ChannelId>,
    },
    /// A member does not get the packets of another.
    Unreachable {
        /// The group.
        mlid: u16,
        /// Who sends.
        from: EndPortId,
        /// Who does not get it.
        to: EndPortId,
    },
    /// An end port gets the packets of another twice.
    Twice {
        /// The group.
        mlid: u16,
        /// Who sends.
        from: EndPortId,
        /// Who gets them twice.
        to: EndPortId,
    },
    /// Virtual channels that wait for each other, each for the next and the last for the first.
    CreditLoop(Vec<McastWait>),
    /// Adapters map the SL to VL 15, and do not send.
    Unsent {
        /// The group.
        mlid: u16,
        /// The SL of the packet.
        sl: Sl,
        /// An adapter that does not.
        from: EndPortId,
    },
    /// A copy is dropped or needs a VL that an end of the link cannot operate.
    NoVl {
        /// The group.
        mlid: u16,
        /// The SL of the packet.
        sl: Sl,
        /// Where it is copied.
        at: SwitchId,
        /// The port that the copy leaves by.
        port: PortNum,
    },
}

/// A virtual channel of a credit loop, and what waits in it for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct McastWait {
    /// The channel.
    pub channel: ChannelId,
    /// Its VL.
    pub vl: Vl,
    /// The packet.
    pub cause: Cause,
}

/// A packet in a credit loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// To one LID.
    Unicast(Packet),
    /// To a group.
    Multicast {
        /// The group.
        mlid: u16,
        /// An end port that sends.
        source: EndPortId,
        /// The SL in use.
        sl: Sl,
    },
}

impl McastFault {
    /// The fault in plain words, over several lines.
    pub fn explain(&self, fabric: &Fabric) -> String {
        let end = |e: EndPortId| {
            let end = fabric.endport(e);
            format!("{} port {}", fabric.describe(end.node), end.port)
        };
        match self {
            Self::Loop { mlid, channels } => {
                let list: Vec<String> = channels.iter().map(|&c| fabric.describe_channel(c)).collect();
                format!("packets of group 0x{mlid:04x} go in circles:\n  {}", list.join("\n  "))
            }
            Self::Unreachable { mlid, from, to } => {
                format!("packets of group 0x{mlid:04x} from {} do not reach {}", end(*from), end(*to))
            }
            Self::Twice { mlid, from, to } => {
                format!("packets of group 0x{mlid:04x} from {} reach {} twice", end(*from), end(*to))
            }
            Self::Unsent { mlid, sl, from } => format!(
                "packets of group 0x{mlid:04x} with SL {} from {} are not sent, as adapters map it to VL 15",
                sl.0,
                end(*from)
            ),
            Self::NoVl { mlid, sl, at, port } => format!(
                "a packet of group 0x{mlid:04x} with SL {} cannot leave {} by port {port}: its VL is 15 or more \
                 than the link can operate",
                sl.0,
                fabric.describe_switch(*at)
            ),
            Self::CreditLoop(waits) => {
                let mut text =
                    format!("{} virtual channels wait for each other in a credit loop:", waits.len());
                for (i, wait) in waits.iter().enumerate() {
                    let next = &waits[(i + 1) % waits.len()];
                    let cause = match wait.cause {
                        Cause::Unicast(packet) => packet.describe(fabric),
                        Cause::Multicast { mlid, source, sl } => {
                            format!("a packet from {} to group 0x{mlid:04x} with SL {}", end(source), sl.0)
                        }
                    };
                    text += &format!(
                        "\n  {} VL {}\n    waits for {} VL {} because of {cause}",
                        fabric.describe_channel(wait.channel),
                        wait.vl.0,
                        fabric.describe_channel(next.channel),
                        next.vl.0,
                    );
                }
                text
            }
        }
    }

    /// The fault for machines.
    pub(super) fn to_json(&self) -> Value {
        let kind = match self {
            Self::Loop { .. } => "multicast_loop",
            Self::Unreachable { .. } => "multicast_unreachable",
            Self::CreditLoop(_) => "multicast_credit_loop",
            Self::Twice { .. } => "multicast_twice",
            Self::NoVl { .. } => "multicast_no_vl",
            Self::Unsent { .. } => "multicast_unsent",
        };
        json!({ "kind": kind })
    }
}

/// Judges all groups, beside the dependencies of unicast.
///
/// Cost: O(turns of all groups x SLs that need telling apart), and that of finding a cycle: once where
/// there is none.
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
    let circles: Vec<Option<McastFault>> = groups.iter().map(|g| circle(plan, g)).collect();
    let copied = groups.iter().zip(&circles).find_map(|(g, circle)| twice(plan, g, circle.is_some()));
    let circle = circles.into_iter().flatten().next();
    let missed = groups.iter().find_map(|g| unreached(plan, g));
    let (loop_free, reachable, once) = (circle.is_none(), missed.is_none(), copied.is_none());
    let mut faults: Vec<McastFault> = circle.into_iter().chain(missed).chain(copied).collect();

    let candidates = |g: &McastGroup| g.sls.unwrap_or(u16::MAX);
    let all = groups.iter().fold(0, |all, g| all | candidates(g));
    let wanted = groups.iter().fold(0, |all, g| all | g.sls.unwrap_or(1));
    // One SL stands for all that the tables treat alike, unless a group may have only some of these.
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
            // An SL that nobody asked for takes the place of none that is.
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
    /// Slots with VLs that have not been followed.
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

    /// A copy of packets that came by a port, on some VLs, leaves by another.
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
        // It waits for the channel even where the next switch is not in the group and drops it.
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
            let before = || {
                let back = channels.out(c.from).map(|(_, back)| back.reverse);
                let mut back = back.filter(|&b| b != c.reverse && passes(g, b));
                let b = back.find(|&b| vl(c.from, channels.get(b).in_port, c.out_port, sl) == first.1)?;
                plan.fabric.endports_on(channels.get(b).from).first()
            };
            let source = plan.fabric.endports_on(c.from).iter().find(injects).or_else(before)?;
            Some(Cause::Multicast { mlid: g.mlid, source: *source, sl })
        })
    })
}
