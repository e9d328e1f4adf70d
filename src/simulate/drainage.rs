//! The drainage of a Double Scheme: control packets that pass virtual channels once these are empty (Pinkston, Zafar,
//! Duato, section 3.2).
//!
//! The subnet manager is at the first host. It sends a control packet towards each source, one after another like
//! its other management packets. A control packet takes the time of a hop from switch to switch, with a data packet
//! in its way each time, as VL 15 goes before data but interrupts no packet. A switch holds it until control
//! packets have come along all hops to the virtual channel, until the channel's buffers are empty, and until the hosts
//! of the switch have sent what they had for their paths of before. It looks once in the time of a hop.
//!
//! Pinkston, Zafar, Duato send a control packet for each path from a source to a leaf. Here copies join where paths
//! meet, which takes no longer and spares what grows exponentially with the size of the network.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use super::SimulateError;
use super::kernel::Kernel;
use super::network::{NONE, Network};
use crate::fabric::{ChannelId, Guid, PortNum, SwitchId};
use crate::tables::{Drain, VirtualChannel};

/// Bytes of a control packet, as of all management packets.
const CONTROL_PACKET: u32 = 256;

/// A virtual channel to be drained.
struct Lane {
    /// The switch that sends.
    switch: u32,
    /// The queues of its packets.
    queues: Vec<Range<usize>>,
    /// Hops to it, from the subnet manager or another one.
    before: u32,
    /// Whether the subnet manager sends to it.
    is_source: bool,
    /// Those that come after it.
    next: Vec<u32>,
}

/// What one switch gets from elsewhere than the virtual channels.
#[derive(Clone, Default)]
struct Entrance {
    hosts: Vec<usize>,
    /// From hosts, or over links that have failed.
    wires: Vec<u32>,
    /// Hops from the subnet manager.
    distance: u64,
}

/// A drainage of a network, the same for each run.
pub(super) struct Drainage {
    lanes: Vec<Lane>,
    /// By switch.
    entrances: Vec<Entrance>,
    /// Bit n for VL n.
    vls: u16,
    /// Picoseconds of a hop.
    hop: u64,
}

/// Its state in a run.
pub(super) struct Draining {
    /// By virtual channel: control packets that have not come, and when the last one came.
    missing: Vec<u32>,
    due: Vec<u64>,
    /// Virtual channels to which all control packets are on their way or have come.
    open: Vec<u32>,
    /// Number of those that have not been found empty.
    left: usize,
    began: u64,
    /// When the last control packet is back.
    back: u64,
}

impl Drainage {
    /// - `failed`: wires that fail before it.
    ///
    /// # Errors
    /// [`SimulateError::Update`]: a virtual channel that the fabric does not have, or a cycle.
    pub(super) fn new(
        net: &Network<'_>,
        drain: &Drain,
        failed: &[u32],
        find: &impl Fn(&Guid) -> Result<SwitchId, SimulateError>,
    ) -> Result<Self, SimulateError> {
        let refuse = |what: String| SimulateError::Update { what };
        let order = drain.order().ok_or_else(|| refuse("control packets go round in a cycle".to_owned()))?;
        let number: HashMap<VirtualChannel, u32> = order.iter().map(|(c, _)| *c).zip(0..).collect();
        let mut lanes = Vec::with_capacity(order.len());
        let mut vls = 0;
        for ((guid, port, vl), _) in order {
            let s = find(&guid)?;
            let channel = net.fabric.channels().at_port(s, PortNum(port)).filter(|_| vl < 15);
            let channel =
                channel.ok_or_else(|| refuse(format!("switch {guid} has no VL {vl} at port {port}")))?;
            let queues = Self::queues(net, channel, vl);
            vls |= 1 << vl;
            lanes.push(Lane { switch: s.0, queues, before: 0, is_source: false, next: Vec::new() });
        }
        for (from, to) in &drain.hops {
            let Some(to) = to.map(|to| number[&to]) else { continue };
            lanes[to as usize].before += 1;
            match from {
                Some(from) => lanes[number[from] as usize].next.push(to),
                None => lanes[to as usize].is_source = true,
            }
        }
        let channels = net.fabric.channels();
        let mut entrances =
            vec![Entrance { distance: u64::MAX, ..Entrance::default() }; net.fabric.num_switches()];
        for (host, of) in net.hosts.iter().enumerate() {
            entrances[of.switch.index()].hosts.push(host);
            entrances[of.switch.index()].wires.push(net.injection(host));
        }
        for &wire in failed {
            if let Some(channel) = net.channel_of(wire) {
                entrances[channels.get(channel).to.index()].wires.push(wire);
            }
        }
        let manager = net.hosts[0].switch;
        entrances[manager.index()].distance = 1;
        let mut open = VecDeque::from([manager]);
        while let Some(s) = open.pop_front() {
            let distance = entrances[s.index()].distance + 1;
            for (channel, c) in channels.out(s).filter(|(channel, _)| !failed.contains(&channel.0)) {
                debug_assert_eq!(net.channel_of(channel.0), Some(channel));
                if entrances[c.to.index()].distance == u64::MAX {
                    entrances[c.to.index()].distance = distance;
                    open.push_back(c.to);
                }
            }
        }
        let rate = (0..channels.len()).map(|wire| net.wires[wire].rate).max().unwrap_or(0);
        let sent = u64::from(CONTROL_PACKET + net.model.packet) * rate / 1000;
        let hop = (sent + net.model.flight + net.model.switch_delay).max(1);
        Ok(Self { lanes, entrances, vls, hop })
    }

    /// The queues with the packets of a virtual channel.
    fn queues(net: &Network<'_>, channel: ChannelId, vl: u8) -> Vec<Range<usize>> {
        let wires = net.wires_to(channel).into_iter().filter(|_| usize::from(vl) < net.vls);
        wires
            .map(|wire| {
                let wire = &net.wires[wire as usize];
                let first = wire.lane(vl.into()) as usize;
                first..first + wire.queues as usize
            })
            .collect()
    }

    /// The control packets set out.
    ///
    /// - `interval`: from one that the subnet manager sends to the next.
    fn begin(&self, now: u64, interval: u64) -> Draining {
        let mut draining = Draining {
            missing: self.lanes.iter().map(|lane| lane.before).collect(),
            due: vec![now; self.lanes.len()],
            open: Vec::new(),
            left: self.lanes.len(),
            began: now,
            back: now,
        };
        let sources = (0..).zip(&self.lanes).filter(|(_, lane)| lane.is_source);
        for ((number, lane), sent) in sources.zip(1..) {
            let time = now + sent * interval + self.to_manager(lane);
            draining.arrive(number, time);
        }
        draining
    }

    /// Time of a control packet between the subnet manager and a virtual channel.
    fn to_manager(&self, lane: &Lane) -> u64 {
        self.entrances[lane.switch as usize].distance.saturating_mul(self.hop).min(1 << 40)
    }
}

impl Draining {
    /// A control packet comes to a virtual channel at some time.
    fn arrive(&mut self, lane: u32, time: u64) {
        let i = lane as usize;
        self.due[i] = self.due[i].max(time);
        self.missing[i] -= 1;
        if self.missing[i] == 0 {
            self.open.push(lane);
        }
    }
}

impl Kernel<'_> {
    /// Goes on with the drainage of a step; returns when to look again, or `None` if all is empty.
    pub(super) fn drain(&mut self, step: usize) -> Option<u64> {
        let now = self.now;
        let motion = self.motion.as_mut()?;
        let script = motion.script;
        let drainage = script.drains[step].as_ref()?;
        let mut draining = match motion.draining_lanes.take() {
            Some(draining) => draining,
            None => drainage.begin(now, script.update.interval),
        };
        let mut again = u64::MAX;
        let mut kept = Vec::new();
        let mut sent_all: HashMap<usize, bool> = HashMap::new();
        while let Some(number) = draining.open.pop() {
            let lane = &drainage.lanes[number as usize];
            let due = draining.due[number as usize];
            let empty = || lane.queues.iter().all(|queues| self.are_empty(queues.clone()));
            let at = lane.switch as usize;
            let mut sent = || *sent_all.entry(at).or_insert_with(|| self.stale(drainage, at) == 0);
            if due > now || !empty() || !sent() {
                again = again.min(if due > now { due } else { now + drainage.hop });
                kept.push(number);
                continue;
            }
            draining.left -= 1;
            if lane.next.is_empty() {
                draining.back = draining.back.max(now + drainage.to_manager(lane) + drainage.hop);
            }
            lane.next.iter().for_each(|&next| draining.arrive(next, now + drainage.hop));
        }
        draining.open = kept;
        let over = draining.left == 0 && draining.back <= now;
        let stale = || (0..drainage.entrances.len()).map(|s| self.stale(drainage, s)).sum::<u64>();
        let missed = if over { self.packets_on(drainage.vls) + stale() } else { 0 };
        let motion = self.motion.as_mut()?;
        if over {
            motion.report.drained += now - draining.began;
            motion.report.missed += missed;
            return None;
        }
        let again = if draining.left == 0 { draining.back } else { again };
        motion.draining_lanes = Some(draining);
        Some(again)
    }

    fn are_empty(&self, mut queues: Range<usize>) -> bool {
        queues.all(|q| self.slots[q].head == NONE)
    }

    /// Packets that are about to enter at a switch with an SL that is not of the paths that hosts have now.
    fn stale(&self, drainage: &Drainage, switch: usize) -> u64 {
        let (net, vls) = (self.net, self.net.vls);
        let paths = self.motion.as_ref().and_then(|motion| motion.paths);
        let sls = paths.map_or(u16::MAX, |paths| paths.sls);
        let entrance = &drainage.entrances[switch];
        let first = |host: usize| net.num_queues as usize + host * vls;
        let of_hosts = entrance.hosts.iter().flat_map(|&host| first(host)..first(host + 1));
        let of_wires = entrance.wires.iter().flat_map(|&wire| net.wires[wire as usize].all_queues(vls));
        let stale = |q| self.in_queue(q).filter(|packet| sls >> packet.sl & 1 == 0).count() as u64;
        of_hosts.chain(of_wires).map(stale).sum()
    }

    /// Packets between switches on some VLs.
    fn packets_on(&self, vls: u16) -> u64 {
        let lanes = |channel: usize| {
            let vls = (0..15).filter(move |vl| vls >> vl & 1 != 0);
            vls.flat_map(move |vl| Drainage::queues(self.net, ChannelId::at(channel), vl))
        };
        let queues = (0..self.net.fabric.channels().len()).flat_map(lanes).flatten();
        queues.map(|q| self.in_queue(q).count() as u64).sum()
    }
}
