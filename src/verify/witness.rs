//! Proof of what is wrong: found by walking single pairs, and explained as text.

use rayon::prelude::*;
use serde_json::{Value, json};

use crate::fabric::{ChannelId, EndPortId, Fabric, Lid, NodeId, PortNum, Sl, SwitchId, Vl};
use crate::tables::{Routes, SlVlRow};

use super::multicast_fault::McastFault;
use super::packet::{Packet, credit_loop, node};
use super::policy::SlPolicy;
use super::{Destination, bits};

/// Why a packet does not arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The switch has no entry for the LID.
    NoEntry,
    /// The entry names a port without a live cable, or one that the switch does not have.
    NoLink(PortNum),
    /// The entry names a port whose cable leads back to the same switch.
    BackToItself(PortNum),
    /// The entry delivers to this node, which does not own the LID.
    WrongNode(PortNum, NodeId),
    /// The packet returns to this switch: the switches of the loop.
    Loop(Vec<SwitchId>),
    /// The SL is mapped to VL 15 for (in port, out port): the packet is dropped.
    Vl15(PortNum, PortNum),
    /// The sender's own row maps the SL to VL 15: the packet never reaches this switch, its first.
    Unsent,
}

/// A virtual channel of a credit loop, and a packet that holds it and waits for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The channel.
    pub channel: ChannelId,
    /// Its VL.
    pub vl: Vl,
    /// The packet.
    pub packet: Packet,
}

/// One example of a violated property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Witness {
    /// A packet that does not arrive.
    Unreachable {
        /// The packet.
        packet: Packet,
        /// Where it fails.
        at: SwitchId,
        /// Why.
        fault: Fault,
    },
    /// A packet that loops.
    Loop {
        /// The packet.
        packet: Packet,
        /// The loop: each switch forwards to the next and the last to the first.
        switches: Vec<SwitchId>,
    },
    /// Virtual channels that wait for each other, each for the next and the last for the first.
    CreditLoop(Vec<Wait>),
    /// A packet on a VL that an end of the link cannot operate.
    IllegalVl {
        /// The channel, its VL and the packet.
        wait: Wait,
        /// Data VLs that the link can operate.
        data_vls: u8,
    },
    /// A packet from a switch that was left out passes on to another switch.
    Foreign {
        /// The switch at which it arrives.
        at: SwitchId,
        /// The port by which it arrives.
        in_port: PortNum,
        /// The port by which it leaves.
        out_port: PortNum,
        /// Its SL.
        sl: Sl,
    },
    /// Buffers of which each may wait for the next, and the last for the first, by what adaptive routing chooses.
    AdaptiveCreditLoop(Vec<(ChannelId, Vl)>),
    /// A packet to a LID may come to a switch by adaptive routing and cannot go on.
    AdaptiveDeadEnd {
        /// The switch.
        at: SwitchId,
        /// The LID.
        lid: Lid,
    },
    /// By adaptive routing, packets may use a channel on a VL that an end of it cannot operate.
    AdaptiveVl {
        /// The channel.
        channel: ChannelId,
        /// The VL.
        vl: Vl,
    },
    /// A packet between adapters whose path is longer than necessary.
    Detour {
        /// The packet.
        packet: Packet,
        /// Switch-to-switch channels of its path.
        hops: u16,
        /// The fewest that the cables allow.
        minimal: u16,
    },
    /// A violated multicast property.
    Multicast(McastFault),
}

impl Witness {
    /// The witness as text, over several lines.
    pub fn explain(&self, fabric: &Fabric) -> String {
        match self {
            Self::Unreachable { packet, at, fault } => format!(
                "{} does not arrive: at {} {}",
                packet.describe(fabric),
                fabric.describe_switch(*at),
                fault.describe(fabric, packet)
            ),
            Self::Loop { packet, switches } => {
                let path: Vec<String> = switches.iter().map(|&s| fabric.describe_switch(s)).collect();
                format!("{} loops: {} and again {}", packet.describe(fabric), path.join(" -> "), path[0])
            }
            Self::CreditLoop(waits) => {
                let waits = waits.iter().map(|wait| (wait.channel, wait.vl, wait.packet.describe(fabric)));
                credit_loop(fabric, &waits.collect::<Vec<_>>())
            }
            Self::IllegalVl { wait, data_vls } => format!(
                "{} travels {} on VL {}, but the link operates only {data_vls} data VLs",
                wait.packet.describe(fabric),
                fabric.describe_channel(wait.channel),
                wait.vl.0
            ),
            Self::Foreign { at, in_port, out_port, sl } => format!(
                "a packet with SL {} that comes to {} by port {in_port}, where a switch is left out that may send \
                 anything, is not dropped on its way to port {out_port}",
                sl.0,
                fabric.describe_switch(*at)
            ),
            Self::AdaptiveCreditLoop(buffers) => {
                let line = |&(channel, vl): &(ChannelId, Vl)| {
                    format!("\n  {} on VL {}", fabric.describe_channel(channel), vl.0)
                };
                let lines: String = buffers.iter().map(line).collect();
                format!("adaptive routing may close a credit loop, each buffer waits for the next:{lines}")
            }
            Self::AdaptiveDeadEnd { at, lid } => format!(
                "by adaptive routing a packet to LID {lid} may arrive at {} and not go on",
                fabric.describe_switch(*at)
            ),
            Self::AdaptiveVl { channel, vl } => format!(
                "by adaptive routing packets may travel {} on VL {}, which the link does not operate",
                fabric.describe_channel(*channel),
                vl.0
            ),
            Self::Detour { packet, hops, minimal } => format!(
                "{} takes {hops} hops between switches where {minimal} would suffice",
                packet.describe(fabric)
            ),
            Self::Multicast(fault) => fault.explain(fabric),
        }
    }

    /// The witness as JSON, with names, GUIDs and ports.
    pub fn to_json(&self, fabric: &Fabric) -> Value {
        let switch = |s: SwitchId| node(fabric, fabric.switch_node_id(s));
        let buffer = |channel: ChannelId, vl: Vl| {
            let c = fabric.channels().get(channel);
            json!({
                "from": switch(c.from), "out_port": c.out_port.0,
                "to": switch(c.to), "in_port": c.in_port.0, "vl": vl.0,
            })
        };
        let wait = |w: &Wait| {
            let mut value = buffer(w.channel, w.vl);
            value["packet"] = w.packet.to_json(fabric);
            value
        };
        let mut value = match self {
            Self::Unreachable { packet, at, fault } => json!({
                "kind": "unreachable", "packet": packet.to_json(fabric), "at": switch(*at),
                "reason": fault.describe(fabric, packet),
            }),
            Self::Loop { packet, switches } => json!({
                "kind": "loop", "packet": packet.to_json(fabric),
                "switches": switches.iter().map(|&s| switch(s)).collect::<Vec<_>>(),
            }),
            Self::CreditLoop(waits) => json!({
                "kind": "credit_loop", "waits": waits.iter().map(wait).collect::<Vec<_>>(),
            }),
            Self::IllegalVl { wait: w, data_vls } => json!({
                "kind": "illegal_vl", "channel": wait(w), "data_vls": data_vls,
            }),
            Self::Foreign { at, in_port, out_port, sl } => json!({
                "kind": "foreign", "at": switch(*at), "in_port": in_port.0, "out_port": out_port.0, "sl": sl.0,
            }),
            Self::AdaptiveCreditLoop(buffers) => json!({
                "kind": "adaptive_credit_loop",
                "buffers": buffers.iter().map(|&(channel, vl)| buffer(channel, vl)).collect::<Vec<_>>(),
            }),
            Self::AdaptiveVl { channel, vl } => json!({
                "kind": "adaptive_vl", "channel": buffer(*channel, *vl),
            }),
            Self::AdaptiveDeadEnd { at, lid } => json!({
                "kind": "adaptive_dead_end", "at": switch(*at), "lid": lid.get(),
            }),
            Self::Detour { packet, hops, minimal } => json!({
                "kind": "detour", "packet": packet.to_json(fabric), "hops": hops, "minimal": minimal,
            }),
            Self::Multicast(fault) => fault.to_json(),
        };
        value["text"] = json!(self.explain(fabric));
        value
    }
}

impl Fault {
    fn describe(&self, fabric: &Fabric, packet: &Packet) -> String {
        let dlid = packet.dlid;
        match self {
            Self::NoEntry => format!("there is no entry for LID {dlid}"),
            Self::NoLink(port) => format!("LID {dlid} leads out of port {port}, which has no live cable"),
            Self::BackToItself(port) => {
                format!("LID {dlid} leads out of port {port}, whose cable leads back to the same switch")
            }
            Self::WrongNode(port, node) => {
                let node = fabric.describe(*node);
                format!("LID {dlid} leads out of port {port} to {node}, which does not own it")
            }
            Self::Loop(switches) => format!("it returns after {} hops", switches.len()),
            Self::Vl15(in_port, out_port) => {
                let sl = packet.sl.0;
                format!("SL {sl} maps to VL 15 from port {in_port} to port {out_port}: it is dropped")
            }
            Self::Unsent => {
                format!("it never comes in, as its sender maps SL {} to VL 15: it is not sent", packet.sl.0)
            }
        }
    }
}

/// The channels and VLs of a packet and, if it does not arrive, where it ends and why.
type Walk = (Vec<(ChannelId, Vl)>, Option<(SwitchId, Fault)>);

/// Walks single pairs. Used once something is known to be wrong.
pub(super) struct Finder<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) routes: &'a Routes,
    pub(super) policy: SlPolicy,
}

impl Finder<'_> {
    /// The channels of a path by the forwarding tables alone, and why it fails if it does.
    fn follow(&self, from: SwitchId, dlid: Lid) -> (Vec<ChannelId>, Option<(SwitchId, Fault)>) {
        let fabric = self.fabric;
        let home = fabric.owner_of(dlid).and_then(|e| fabric.endport(e).attachment);
        let mut path: Vec<ChannelId> = Vec::new();
        let mut at = from;
        loop {
            let Some(port) = self.routes.lft.get(at, dlid) else {
                return (path, Some((at, Fault::NoEntry)));
            };
            if Some((at, port)) == home {
                return (path, None);
            }
            let Some(channel) = fabric.channels().at_port(at, port) else {
                return (path, Some((at, self.dead_end(at, port))));
            };
            path.push(channel);
            at = fabric.channels().get(channel).to;
            if let Some(first) = path.iter().position(|&c| fabric.channels().get(c).from == at) {
                let switches = path[first..].iter().map(|&c| fabric.channels().get(c).from).collect();
                return (path, Some((at, Fault::Loop(switches))));
            }
        }
    }

    /// What is wrong with a port that leads to no channel.
    fn dead_end(&self, at: SwitchId, port: PortNum) -> Fault {
        let fabric = self.fabric;
        let end = fabric.endports_on(at).iter().map(|&e| fabric.endport(e));
        if let Some(end) = end.into_iter().find(|e| e.attachment == Some((at, port))) {
            return Fault::WrongNode(port, end.node);
        }
        // Port 0 of a switch without a LID is not an end port.
        if port == PortNum::ZERO {
            return Fault::WrongNode(port, fabric.switch_node_id(at));
        }
        let peer = fabric.switch(at).ports.get(port.index()).and_then(|p| p.peer);
        match peer {
            Some(peer) if peer.node == fabric.switch_node_id(at) => Fault::BackToItself(port),
            _ => Fault::NoLink(port),
        }
    }

    /// The path of a packet that is injected at a port of a switch.
    fn walk(&self, packet: &Packet) -> Option<Walk> {
        let fabric = self.fabric;
        let (from, injection) = fabric.endport(packet.source).attachment?;
        let (path, fault) = self.follow(from, packet.dlid);
        let sends = |row: SlVlRow| row.get(packet.sl).0 != Vl::MAX_DATA;
        if fabric.endport(packet.source).is_adapter() && !sends(self.routes.sl2vl.adapters()) {
            return Some((Vec::new(), fault.or(Some((from, Fault::Unsent)))));
        }
        let mut walk = Vec::with_capacity(path.len());
        let (mut at, mut in_port) = (from, injection);
        for &channel in &path {
            let c = fabric.channels().get(channel);
            let vl = self.routes.sl2vl.row(at, in_port, c.out_port).get(packet.sl);
            if vl.0 == Vl::MAX_DATA {
                return Some((walk, fault.or(Some((at, Fault::Vl15(in_port, c.out_port))))));
            }
            walk.push((channel, vl));
            (at, in_port) = (c.to, c.in_port);
        }
        if fault.is_none() {
            let out_port = self.routes.lft.get(at, packet.dlid)?;
            if self.routes.sl2vl.row(at, in_port, out_port).get(packet.sl).0 == Vl::MAX_DATA {
                return Some((walk, Some((at, Fault::Vl15(in_port, out_port)))));
            }
        }
        Some((walk, fault))
    }

    /// All packets to a LID, in order of source and SL.
    fn packets(&self, dlid: Lid) -> impl Iterator<Item = Packet> + '_ {
        let ids = (0..self.fabric.endports().len()).map(EndPortId::at);
        ids.filter(move |&e| {
            self.fabric.owner_of(dlid) != Some(e) && self.fabric.endport(e).attachment.is_some()
        })
        .flat_map(move |source| self.packets_from(source, dlid))
    }

    fn packets_from(&self, source: EndPortId, dlid: Lid) -> impl Iterator<Item = Packet> + use<> {
        let sls = self.policy.mask(self.fabric, &self.routes.path_sl, source, dlid);
        bits(sls).map(move |sl| Packet { source, dlid, sl: Sl(sl as u8) })
    }

    /// The first packet to a LID that does not arrive.
    pub(super) fn unreachable(&self, dlid: Lid) -> Option<Witness> {
        self.packets(dlid).find_map(|packet| {
            let (at, fault) = self.walk(&packet)?.1?;
            Some(Witness::Unreachable { packet, at, fault })
        })
    }

    /// A packet from an adapter that does not send its SL, though others do.
    ///
    /// Cost: O(L) look-ups for each such adapter, with L LIDs, on all cores.
    pub(super) fn withheld(&self) -> Option<Witness> {
        let lids: Vec<Lid> = match self.routes.sl2vl.withheld().is_empty() {
            true => return None,
            false => self
                .fabric
                .endports()
                .iter()
                .filter(|e| e.attachment.is_some())
                .flat_map(|e| e.lids())
                .collect(),
        };
        let withheld: Vec<_> = self.routes.sl2vl.withheld().iter().collect();
        withheld.par_iter().find_map_first(|&(&source, &sls)| {
            let (at, _) = self.fabric.endport(source).attachment?;
            let others = lids.iter().filter(|&&lid| self.fabric.owner_of(lid) != Some(source));
            let mut packets = others.flat_map(|&dlid| self.packets_from(source, dlid));
            let packet = packets.find(|packet| sls & 1 << packet.sl.0 != 0)?;
            Some(Witness::Unreachable { packet, at, fault: Fault::Unsent })
        })
    }

    /// The first packet to a LID that loops.
    pub(super) fn looping(&self, dlid: Lid) -> Option<Witness> {
        self.packets(dlid).find_map(|packet| match self.walk(&packet)?.1? {
            (_, Fault::Loop(switches)) => Some(Witness::Loop { packet, switches }),
            _ => None,
        })
    }

    /// The first packet between adapters to a LID whose path is longer than necessary.
    pub(super) fn detour(&self, dlid: Lid, distance: &[u16]) -> Option<Witness> {
        let adapters = self.packets(dlid).filter(|p| self.fabric.endport(p.source).is_adapter());
        adapters.into_iter().find_map(|packet| {
            let (from, _) = self.fabric.endport(packet.source).attachment?;
            let (path, fault) = self.follow(from, dlid);
            let minimal = distance[from.index()];
            (fault.is_none() && path.len() > usize::from(minimal)).then_some(Witness::Detour {
                packet,
                hops: path.len() as u16,
                minimal,
            })
        })
    }

    /// A packet that uses a virtual channel and then, if requested, directly another one; between
    /// adapters if there is one.
    ///
    /// Cost: O(destinations), and for each whose entries fit, a walk from each source upstream of
    /// the channel, until one is found.
    pub(super) fn packet_over(
        &self,
        destinations: &[Destination],
        first: (ChannelId, Vl),
        second: Option<(ChannelId, Vl)>,
    ) -> Option<Packet> {
        let fabric = self.fabric;
        let adapter = |e: EndPortId| fabric.endport(e).is_adapter();
        let enters = |(channel, _): (ChannelId, Vl), dlid: Lid| {
            let c = fabric.channels().get(channel);
            self.routes.lft.get(c.from, dlid) == Some(c.out_port)
        };
        let start = fabric.channels().get(first.0).from;
        let fits = |d: &&Destination| {
            enters(first, d.lid)
                && second.is_none_or(|second| enters(second, d.lid))
                && self.follow(start, d.lid).1.is_none()
        };
        let travels = |packet: &Packet| {
            self.walk(packet).is_some_and(|(walk, _)| {
                let place = walk.iter().position(|&step| step == first);
                place.is_some_and(|i| second.is_none_or(|second| walk.get(i + 1) == Some(&second)))
            })
        };
        [true, false].into_iter().find_map(|adapters_only| {
            let to = destinations.iter().filter(|d| !adapters_only || adapter(d.owner)).filter(fits);
            to.into_iter().find_map(|d| {
                let behind = self.behind(start, d.lid);
                let sources = behind.iter().flat_map(|&s| fabric.endports_on(s));
                let sources = sources.filter(|&&e| e != d.owner && (!adapters_only || adapter(e)));
                sources.flat_map(|&e| self.packets_from(e, d.lid)).find(travels)
            })
        })
    }

    /// The switches whose packets to a LID pass a switch from which packets arrive.
    fn behind(&self, switch: SwitchId, dlid: Lid) -> Vec<SwitchId> {
        let channels = self.fabric.channels();
        let mut found = vec![switch];
        let mut next = 0;
        while let Some(&s) = found.get(next) {
            for (_, out) in channels.out(s) {
                if self.routes.lft.get(out.to, dlid) == Some(out.in_port) {
                    found.push(out.to);
                }
            }
            next += 1;
        }
        found
    }
}
