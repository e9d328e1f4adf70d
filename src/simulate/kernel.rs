//! The event loop.
//!
//! A packet takes one event per wire: when it is at the head of its queue, its head has come far
//! enough to leave, and the packet before it has left. It then needs an idle link and credits. If
//! it has to wait, its queue is listed at the (wire, VL) that it needs, and the wire gets an event
//! for the earliest time at which it may proceed: when the packet on the wire is through, or when
//! credits are back. Each lane has a list of credits on their way back. The list is read only when
//! a packet needs them; their arrival itself is no event.

use std::collections::HashMap;

use super::SimulateError;
use super::arbiter::{Tables, Turn};
use super::hosts::{Lids, Sender};
use super::model::{Arbitration, CREDIT};
use super::network::{End, NONE, Network, UNLIMITED};
use super::queue::EventQueue;
use super::state::{Busy, Counts, Pace, Packet, Slot, Span, UNLISTED};
use super::stats::Histogram;
use super::traffic::Demand;
use super::update::Motion;

/// Kinds of events, in the upper bits.
pub(super) mod kind {
    /// The head of a queue can leave.
    pub(in crate::simulate) const HEAD: u32 = 0;
    /// A wire may be able to send a packet.
    pub(in crate::simulate) const WAKE: u32 = 1;
    /// A host creates a message.
    pub(in crate::simulate) const MAKE: u32 = 2;
    /// A packet has been read from the buffers at the end of a wire.
    pub(in crate::simulate) const READ: u32 = 3;
    /// Time to search for a deadlock.
    pub(in crate::simulate) const CHECK: u32 = 4;
    /// The next action of a change of tables.
    pub(in crate::simulate) const UPDATE: u32 = 5;
    pub(in crate::simulate) const SHIFT: u32 = 25;
    pub(in crate::simulate) const MASK: u32 = (1 << SHIFT) - 1;
}

/// Why a run stops.
pub(super) enum Pause {
    /// It is time to search for a deadlock; the run may continue.
    Check,
    /// The run is over.
    End,
}

/// One run.
pub(super) struct Kernel<'a> {
    pub(super) net: &'a Network<'a>,
    pub(super) demand: &'a Demand,
    pub(super) lids: &'a Lids,
    pub(super) tables: Tables,
    pub(super) span: Span,
    pub(super) now: u64,
    pub(super) events: EventQueue,
    pub(super) slots: Vec<Slot>,
    pub(super) wires: Vec<Busy>,
    pub(super) paces: Vec<Pace>,
    /// Rings of credits on their way back, `1 << ring` words for each lane.
    pub(super) backs: Vec<u64>,
    pub(super) ring: u32,
    pub(super) packets: Vec<Packet>,
    pub(super) free: u32,
    pub(super) senders: Vec<Sender>,
    pub(super) counts: Counts,
    /// Credits of the largest packet.
    pub(super) largest: i32,
    /// Whether VLs take turns by the arbitration tables.
    pub(super) by_tables: bool,
    pub(super) between_checks: u64,
    /// A change of tables.
    pub(super) motion: Option<Box<Motion<'a>>>,
}

impl<'a> Kernel<'a> {
    /// - `senders`: what each host sends.
    /// - `smallest`: bytes of the smallest packet.
    /// - `motion`: a change of tables, when the counted time begins.
    pub(super) fn new(
        net: &'a Network<'a>,
        demand: &'a Demand,
        lids: &'a Lids,
        senders: Vec<Sender>,
        span: Span,
        smallest: u32,
        motion: Option<Box<Motion<'a>>>,
    ) -> Self {
        let vls = net.vls;
        let model = net.model;
        let mut slots = Vec::with_capacity(net.num_queues as usize + net.hosts.len() * vls);
        let (mut wires, mut paces) = (Vec::with_capacity(net.wires.len()), Vec::new());
        let mut numbers = HashMap::new();
        for (wire, w) in net.wires.iter().zip(0..) {
            for vl in 0..vls as u32 {
                let wants = match wire.end {
                    End::Wire(next) => net.wires[next as usize].lane(vl),
                    End::Switch { .. } | End::Adapter => NONE,
                };
                slots.extend((0..wire.queues).map(|_| Slot::new(w, wire.credits, wants)));
            }
            let pace = *numbers.entry(Pace::of(wire)).or_insert_with_key(|pace| {
                paces.push(*pace);
                paces.len() as u32 - 1
            });
            wires.push(Busy {
                end: wire.end,
                first_queue: wire.first_queue,
                pace,
                turn: Turn::default(),
                until: 0,
                wake: u64::MAX,
                waiting: 0,
                starved: 0,
                reading: 0,
                held: false,
            });
        }
        for host in 0..net.hosts.len() {
            let injection = &net.wires[net.injection(host) as usize];
            slots.extend((0..vls as u32).map(|vl| Slot::new(NONE, 0, injection.lane(vl))));
        }
        // Packets that a buffer can hold.
        let limited = net.wires.iter().map(|w| w.credits).filter(|&c| c != UNLIMITED).max().unwrap_or(1);
        let ring = (limited as u32 / smallest.div_ceil(CREDIT).max(1) + 1).next_power_of_two().ilog2();
        let rate = net.wires.iter().map(|w| w.rate).max().unwrap_or(1);
        let packet_time = u64::from(model.packet) * rate / 1000;
        let fastest = net.wires.iter().map(|w| w.rate).min().unwrap_or(1);
        let delays = net.wires.iter().map(|w| u64::from(w.delay) + 2 * u64::from(w.credit_delay));
        let ahead = delays.max().unwrap_or(0) + 2 * packet_time;
        let mut kernel = Self {
            net,
            demand,
            lids,
            tables: Tables::new(&net.routes.vlarb, vls),
            span,
            now: 0,
            events: EventQueue::new(ahead, (packet_time / net.wires.len() as u64).max(1)),
            backs: vec![0; (net.num_queues as usize) << ring],
            ring,
            slots,
            wires,
            paces,
            counts: Counts {
                latency: Histogram::new(),
                packets: 0,
                hops: 0,
                by_source: vec![0; net.hosts.len()],
                finished: 0,
                made: 0,
                delivered: 0,
                events: 0,
            },
            packets: Vec::new(),
            free: NONE,
            senders,
            largest: model.packet.div_ceil(CREDIT) as i32,
            by_tables: vls > 1
                && matches!(model.arbitration, Arbitration::RoundRobin | Arbitration::FirstCome),
            between_checks: (16 * u64::from(model.packet) * fastest / 1000).max(16),
            motion,
        };
        if kernel.motion.is_some() {
            kernel.update_at(span.from);
        }
        for host in 0..kernel.senders.len() {
            if let Some(first) = kernel.senders[host].first() {
                kernel.event(first, kind::MAKE, host as u32);
            }
        }
        kernel.event(kernel.between_checks, kind::CHECK, 0);
        kernel
    }

    /// Runs until it is time to search for a deadlock, or until the span ends or all messages have
    /// arrived.
    ///
    /// # Errors
    /// If the tables lead a packet nowhere.
    pub(super) fn run(&mut self) -> Result<Pause, SimulateError> {
        while let Some((time, what)) = self.events.pop() {
            if time >= self.span.until {
                break;
            }
            self.counts.events += 1;
            self.now = time;
            self.look_ahead();
            let subject = what & kind::MASK;
            match what >> kind::SHIFT {
                kind::HEAD => self.head(subject)?,
                kind::WAKE => {
                    if self.wires[subject as usize].wake == time {
                        self.wires[subject as usize].wake = u64::MAX;
                        self.serve(subject);
                    }
                }
                kind::MAKE => self.make(subject as usize),
                kind::READ => self.read(subject),
                kind::UPDATE => {
                    if let Some(time) = self.advance() {
                        self.update_at(time);
                    }
                }
                _ => {
                    // No event is left: either all is done or nothing moves.
                    if !self.events.is_empty() {
                        self.event(time + self.between_checks, kind::CHECK, 0);
                    }
                    return Ok(Pause::Check);
                }
            }
        }
        Ok(Pause::End)
    }

    #[inline]
    fn event(&mut self, time: u64, kind: u32, subject: u32) {
        self.events.push(time, kind << kind::SHIFT | subject);
    }

    /// The packet at the head of a queue can leave: it needs a lane.
    #[inline]
    fn head(&mut self, q: u32) -> Result<(), SimulateError> {
        let mut lane = self.slots[q as usize].wants;
        if lane == NONE || self.motion.is_some() {
            match self.find_lane(q)? {
                Some(found) => lane = found,
                None => return Ok(()),
            }
        }
        let wire = self.slots[lane as usize].wire;
        let busy = &self.wires[wire as usize];
        if busy.until <= self.now && busy.waiting == 0 && !self.holds_back(wire) {
            // It is the only one, so there is nothing to choose from if it fits.
            self.settle(lane);
            if self.fits(self.slots[lane as usize].credits, &self.slots[q as usize]) {
                self.take_turn(q, wire, lane);
                self.slots[lane as usize].served = q;
                self.start(q, wire, lane);
                return Ok(());
            }
        }
        self.slots[q as usize].next = NONE;
        let last = std::mem::replace(&mut self.slots[lane as usize].last, q);
        if last == NONE {
            self.slots[lane as usize].first = q;
        } else {
            self.slots[last as usize].next = q;
        }
        let vl = self.vl_of(wire, lane);
        self.wires[wire as usize].waiting |= 1 << vl;
        self.serve(wire);
        Ok(())
    }

    /// Looks up the lane that the head of a queue needs; `None` if the packet was dropped.
    #[cold]
    fn find_lane(&mut self, q: u32) -> Result<Option<u32>, SimulateError> {
        let net = self.net;
        let slot = &self.slots[q as usize];
        let packet = &self.packets[slot.head as usize];
        let end = if slot.wire == NONE { End::Adapter } else { self.wires[slot.wire as usize].end };
        let lane = match end {
            End::Switch { .. } => match forward(net, self.motion.as_deref(), end, packet) {
                Some((wire, vl)) if wire != NONE && vl < net.vls as u32 => net.wires[wire as usize].lane(vl),
                next if self.motion.is_some() => {
                    self.drop_head(q, next.is_some_and(|(wire, _)| wire == NONE));
                    return Ok(None);
                }
                _ => return Err(SimulateError::Lost { dlid: packet.dlid, sl: packet.sl }),
            },
            End::Wire(_) | End::Adapter => slot.wants,
        };
        let wire = self.slots[lane as usize].wire;
        if self.motion.as_ref().is_some_and(|motion| motion.is_dead(wire)) {
            self.drop_head(q, true);
            return Ok(None);
        }
        self.slots[q as usize].wants = lane;
        Ok(Some(lane))
    }

    /// The lane that a packet at the head of a queue needs; [`NONE`] if that is not known yet, or nowhere.
    #[inline]
    fn lane_for(&self, end: End, p: u32) -> u32 {
        if self.motion.is_some() {
            return NONE;
        }
        let packet = &self.packets[p as usize];
        match self.net.forward(end, packet.dlid, packet.sl) {
            Some((wire, vl)) if vl < self.net.vls as u32 => self.lane(wire, vl),
            _ => NONE,
        }
    }

    /// The lane of a wire and VL; [`NONE`] without a wire.
    #[inline]
    pub(super) fn lane(&self, wire: u32, vl: u32) -> u32 {
        self.wires.get(wire as usize).map_or(NONE, |busy| {
            let queues = self.paces[busy.pace as usize].queues;
            busy.first_queue + vl * queues
        })
    }

    /// The VL of a lane of a wire.
    #[inline]
    pub(super) fn vl_of(&self, wire: u32, lane: u32) -> u32 {
        let busy = &self.wires[wire as usize];
        match self.paces[busy.pace as usize].queues {
            1 => lane - busy.first_queue,
            queues => (lane - busy.first_queue) / queues,
        }
    }

    /// Whether a change of tables keeps packets from entering a wire.
    #[inline]
    pub(super) fn holds_back(&self, wire: u32) -> bool {
        self.motion.as_ref().is_some_and(|motion| motion.holds_back(self.net, wire))
    }

    /// Schedules a check of a wire, unless there is an earlier one.
    #[inline]
    pub(super) fn wake(&mut self, wire: u32, time: u64) {
        let busy = &mut self.wires[wire as usize];
        let time = time.max(busy.until);
        if time < busy.wake {
            busy.wake = time;
            self.event(time, kind::WAKE, wire);
        }
    }

    /// Puts the head of a queue on a wire.
    #[inline]
    pub(super) fn start(&mut self, q: u32, wire: u32, lane: u32) {
        let net = self.net;
        let busy = &mut self.wires[wire as usize];
        let pace = self.paces[busy.pace as usize];
        let end = busy.end;
        let now = self.now;
        let p = self.slots[q as usize].head;
        let packet = &mut self.packets[p as usize];
        let (credits, bytes) = (packet.credits(), u64::from(packet.bytes));
        let begin = now + u64::from(pace.setup);
        // A packet that arrives more slowly than it could leave blocks the link until its tail has
        // passed.
        let through = (begin + bytes * pace.rate / 1000).max(packet.ready + u64::from(packet.tail));
        let arrives = begin + u64::from(pace.delay);
        let behind = std::mem::replace(&mut packet.next, NONE);
        (packet.ready, packet.tail) = (arrives, (through - begin) as u32);
        busy.until = through;
        let counted = now >= self.span.from;
        if counted {
            self.slots[lane as usize].sent += bytes;
        }
        self.leave(q, behind, through, credits, counted);
        if let Some(motion) = self.motion.as_mut().filter(|_| net.is_injection(wire)) {
            motion.enters();
        }
        if end == End::Adapter {
            return self.deliver(p, through + u64::from(pace.delay));
        }
        let to = if pace.queues == 1 {
            lane
        } else {
            let next = forward(net, self.motion.as_deref(), end, &self.packets[p as usize]);
            lane + next.filter(|(wire, _)| *wire != NONE).map_or(0, |(wire, _)| net.out_index(wire))
        };
        if pace.limited {
            self.slots[lane as usize].credits -= credits;
        }
        if self.append(to, p, arrives) {
            if let End::Switch { .. } = end {
                self.slots[to as usize].wants = self.lane_for(end, p);
            }
        }
    }

    /// The head of a queue leaves it.
    ///
    /// - `next`: the packet behind it.
    /// - `through`: when its tail has left.
    /// - `counted`: whether its hop counts.
    #[inline]
    pub(super) fn leave(&mut self, q: u32, next: u32, through: u64, credits: i32, counted: bool) {
        let slot = &mut self.slots[q as usize];
        let behind = slot.wire;
        (slot.head, slot.next, slot.free) = (next, UNLISTED, through);
        if next == NONE {
            slot.tail = NONE;
        } else {
            let ready = self.packets[next as usize].ready.max(through);
            self.event(ready, kind::HEAD, q);
        }
        if behind == NONE {
            self.sent((q - self.net.num_queues) as usize / self.net.vls);
        } else {
            self.freed(behind, q, through, credits, counted);
        }
    }

    /// Handles a packet that is leaving the buffers at the end of a wire.
    #[inline]
    fn freed(&mut self, behind: u32, q: u32, through: u64, credits: i32, counted: bool) {
        let busy = &self.wires[behind as usize];
        let (end, first) = (busy.end, busy.first_queue);
        let pace = &self.paces[busy.pace as usize];
        if pace.limited {
            let lane = if pace.queues == 1 { q } else { q - (q - first) % pace.queues };
            self.give_back(lane, through + u64::from(pace.credit_delay), credits);
        }
        if let End::Switch { .. } = end {
            let next = self.slots[q as usize].head;
            if next != NONE {
                self.slots[q as usize].wants = self.lane_for(end, next);
            }
            self.counts.hops += u64::from(counted);
            if self.net.model.reads != 0 {
                self.wires[behind as usize].reading += 1;
                self.event(through, kind::READ, behind);
            }
        }
    }

    /// Appends a packet to a queue; returns whether it is the only one there.
    #[inline]
    fn append(&mut self, q: u32, p: u32, ready: u64) -> bool {
        let slot = &mut self.slots[q as usize];
        let last = std::mem::replace(&mut slot.tail, p);
        if last == NONE {
            slot.head = p;
            let ready = slot.free.max(ready);
            self.event(ready, kind::HEAD, q);
        } else {
            self.packets[last as usize].next = p;
        }
        last == NONE
    }

    /// Handles a packet that has been read from the buffers at the end of a wire: others there may
    /// leave.
    fn read(&mut self, wire: u32) {
        let busy = &mut self.wires[wire as usize];
        busy.reading -= 1;
        if !std::mem::take(&mut busy.held) {
            return;
        }
        for q in self.net.wires[wire as usize].all_queues(self.net.vls) {
            if self.slots[q].waits() {
                let wants = self.slots[q].wants;
                self.serve(self.slots[wants as usize].wire);
            }
        }
    }

    fn deliver(&mut self, p: u32, time: u64) {
        let packet = &mut self.packets[p as usize];
        packet.next = self.free;
        self.free = p;
        let packet = *packet;
        self.counts.delivered += 1;
        self.counts.finished = self.counts.finished.max(time);
        if (self.span.from..self.span.until).contains(&time) {
            self.counts.packets += 1;
            self.counts.by_source[usize::from(packet.source)] += u64::from(packet.bytes);
            if packet.last {
                self.counts.latency.add(time - packet.made);
            }
        }
        if let Some(pause) = self.motion.as_mut().and_then(|motion| motion.leaves()) {
            self.update_at(time + pause);
        }
    }

    /// The next action of a change of tables is due at some time.
    pub(super) fn update_at(&mut self, time: u64) {
        self.event(time, kind::UPDATE, 0);
    }

    /// Handles a packet that has left a host's send queues: there may be room for another one.
    fn sent(&mut self, host: usize) {
        let sender = &mut self.senders[host];
        sender.waiting -= 1;
        if std::mem::take(&mut sender.stalled) {
            self.make(host);
        }
    }

    /// Creates the packets of a host that are due, as long as there is room.
    fn make(&mut self, host: usize) {
        let net = self.net;
        loop {
            let sender = &mut self.senders[host];
            if sender.waiting == net.model.window {
                sender.stalled = true;
                return;
            }
            let Some(next) = sender.next() else { return };
            if next > self.now {
                return self.event(next, kind::MAKE, host as u32);
            }
            let paths = self.motion.as_ref().and_then(|motion| motion.paths);
            let made = sender.make(host, net, self.demand, self.lids, paths);
            sender.waiting += 1;
            self.counts.made += 1;
            let packet = Packet { ready: self.now, tail: 0, next: NONE, ..made };
            let vl = net.first_vl(crate::fabric::Sl(packet.sl));
            let p = if self.free == NONE {
                self.packets.push(packet);
                self.packets.len() as u32 - 1
            } else {
                let p = self.free;
                self.free = self.packets[p as usize].next;
                self.packets[p as usize] = packet;
                p
            };
            let q = net.num_queues + host as u32 * net.vls as u32 + vl;
            self.append(q, p, self.now);
        }
    }

    /// Packets in a queue, from its head.
    pub(super) fn in_queue(&self, q: usize) -> impl Iterator<Item = &Packet> {
        let at = |p: u32| (p != NONE).then(|| &self.packets[p as usize]);
        std::iter::successors(at(self.slots[q].head), move |packet| at(packet.next))
    }

    /// Packets that have left a host and have not arrived yet.
    #[cfg(test)]
    pub(super) fn in_buffers(&self) -> u64 {
        (0..self.net.num_queues as usize).map(|q| self.in_queue(q).count() as u64).sum()
    }
}

/// The next wire of a packet and its VL there, by the tables in force.
#[inline]
pub(super) fn forward(
    net: &Network<'_>,
    motion: Option<&Motion<'_>>,
    end: End,
    packet: &Packet,
) -> Option<(u32, u32)> {
    match motion {
        None => net.forward(end, packet.dlid, packet.sl),
        Some(motion) => motion.forward(net, end, packet.dlid, packet.sl),
    }
}
