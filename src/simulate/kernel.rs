//! The event loop.
//!
//! A packet takes one event for each wire: when it is at the head of its queue, has come far enough for
//! its head to leave, and the packet before it has left. What it needs then is a link that is idle and
//! credits. If it has to wait it stands in the list of the (wire, VL) that it wants, and the wire gets an
//! event for the earliest time at which that may have changed: when the packet on it is through, or
//! when credits are back. Credits on their way back are a list for each lane, which is looked at when
//! somebody wants them; nothing happens when they arrive unnoticed.

use super::SimulateError;
use super::arbiter::{Tables, Turn};
use super::deadlock::{self, Stuck};
use super::hosts::{Lids, Sender};
use super::model::{Arbitration, CREDIT};
use super::network::{End, NONE, Network, UNLIMITED};
use super::queue::EventQueue;
use super::stats::Histogram;
use super::traffic::Demand;

/// A packet in a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packet {
    /// When its message was made.
    pub(super) made: u64,
    /// When its head can leave the buffer that it is in.
    pub(super) ready: u64,
    /// From then until its tail could leave.
    pub(super) tail: u32,
    /// The one behind it, or the next free place.
    pub(super) next: u32,
    pub(super) source: u16,
    pub(super) dlid: u16,
    pub(super) bytes: u16,
    pub(super) sl: u8,
    /// The last one of its message.
    pub(super) last: bool,
}

impl Packet {
    pub(super) fn credits(&self) -> i32 {
        u32::from(self.bytes).div_ceil(CREDIT) as i32
    }
}

/// A queue of packets that leave in order, and, where it is the first one of a lane, the lane. They are
/// side by side because whoever touches one mostly touches the other: 64 bytes, a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Slot {
    pub(super) head: u32,
    tail: u32,
    /// The lane that the head waits for, [`NONE`] while it does not wait.
    pub(super) wants: u32,
    /// The next one in the list of that lane.
    next: u32,
    /// When the packet before has left.
    free: u64,
    /// Since when the head waits.
    pub(super) since: u64,
    /// The wire at whose end it is; [`NONE`] for a send queue.
    pub(super) wire: u32,
    /// Of the lane: credits of which the sender knows.
    pub(super) credits: i32,
    /// Queues whose heads want to go here, in the order in which they came.
    first: u32,
    last: u32,
    /// The queue that was served last.
    served: u32,
    /// How many credits are on their way back, the first of them, and where the ring with the others
    /// begins.
    backs: u16,
    back: u16,
    soonest: u64,
}

/// What changes about a wire.
#[derive(Clone, Copy, Debug)]
struct Busy {
    /// When the packet on it is through.
    until: u64,
    /// For when it has an event, `u64::MAX` for none. Others are out of date.
    wake: u64,
    /// VLs for which somebody waits.
    waiting: u16,
    /// VLs for which somebody waits for credits of which none is on its way.
    starved: u16,
    /// Packets that the buffers at its end are sending.
    reading: u8,
    /// Somebody in the buffers at its end waits for one of these to be through.
    held: bool,
}

/// Kinds of events, in the upper bits.
mod kind {
    /// The head of a queue can leave.
    pub(super) const HEAD: u32 = 0;
    /// A wire may be able to take a packet.
    pub(super) const WAKE: u32 = 1;
    /// A host makes a message.
    pub(super) const MAKE: u32 = 2;
    /// A packet has been read from the buffers at the end of a wire.
    pub(super) const READ: u32 = 3;
    /// Time to look for a deadlock.
    pub(super) const CHECK: u32 = 4;
    pub(super) const SHIFT: u32 = 25;
    pub(super) const MASK: u32 = (1 << SHIFT) - 1;
}

/// A ring of credits on their way back holds (time, credits) in one word.
const CREDIT_BITS: u32 = 8;
const CREDIT_MASK: u64 = (1 << CREDIT_BITS) - 1;

/// When to count and when to stop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// From when on deliveries count.
    pub(super) from: u64,
    /// When the run ends.
    pub(super) until: u64,
}

/// What was counted.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    pub(super) latency: Histogram,
    /// Packets that arrived in the time that counts.
    pub(super) packets: u64,
    /// Switches that packets left in the time that counts.
    pub(super) hops: u64,
    /// Bytes that arrived, by source.
    pub(super) by_source: Vec<u64>,
    /// Bytes by lane that left in the time that counts.
    pub(super) by_lane: Vec<u64>,
    /// When the last packet arrived.
    pub(super) finished: u64,
    /// Packets that hosts made, and that arrived, at any time.
    pub(super) made: u64,
    pub(super) delivered: u64,
    pub(super) events: u64,
}

/// One run.
pub(super) struct Kernel<'a> {
    pub(super) net: &'a Network<'a>,
    demand: &'a Demand,
    lids: &'a Lids,
    tables: Tables,
    span: Span,
    now: u64,
    events: EventQueue,
    pub(super) slots: Vec<Slot>,
    wires: Vec<Busy>,
    /// Where each wire is in the arbitration tables.
    turns: Vec<Turn>,
    /// Rings of credits on their way back, `1 << ring` words for each lane.
    backs: Vec<u64>,
    ring: u32,
    pub(super) packets: Vec<Packet>,
    free: u32,
    senders: Vec<Sender>,
    pub(super) counts: Counts,
    /// Credits of the largest packet.
    largest: i32,
    between_checks: u64,
}

impl<'a> Kernel<'a> {
    /// - `senders`: what each host makes.
    /// - `smallest`: bytes of the smallest packet.
    pub(super) fn new(
        net: &'a Network<'a>,
        demand: &'a Demand,
        lids: &'a Lids,
        senders: Vec<Sender>,
        span: Span,
        smallest: u32,
    ) -> Self {
        let vls = net.vls;
        let model = net.model;
        let slot = |wire, credits| Slot {
            head: NONE,
            tail: NONE,
            wants: NONE,
            next: NONE,
            free: 0,
            since: 0,
            wire,
            credits,
            first: NONE,
            last: NONE,
            served: 0,
            backs: 0,
            back: 0,
            soonest: 0,
        };
        let mut slots = Vec::with_capacity(net.num_queues as usize + net.hosts.len() * vls);
        for (wire, w) in net.wires.iter().zip(0..) {
            slots.extend(wire.all_queues(vls).map(|_| slot(w, wire.credits)));
        }
        slots.extend((0..net.hosts.len() * vls).map(|_| slot(NONE, 0)));
        let idle = Busy { until: 0, wake: u64::MAX, waiting: 0, starved: 0, reading: 0, held: false };
        // Packets that a buffer can hold.
        let limited = net.wires.iter().map(|w| w.credits).filter(|&c| c != UNLIMITED).max().unwrap_or(1);
        let ring = (limited as u32 / smallest.div_ceil(CREDIT).max(1) + 1).next_power_of_two().ilog2();
        let rate = net.wires.iter().map(|w| w.rate).max().unwrap_or(1);
        let packet_time = u64::from(model.packet) * rate / 1000;
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
            wires: vec![idle; net.wires.len()],
            turns: vec![Turn::default(); net.wires.len()],
            counts: Counts {
                latency: Histogram::new(),
                packets: 0,
                hops: 0,
                by_source: vec![0; net.hosts.len()],
                by_lane: vec![0; net.num_queues as usize],
                finished: 0,
                made: 0,
                delivered: 0,
                events: 0,
            },
            packets: Vec::new(),
            free: NONE,
            senders,
            largest: model.packet.div_ceil(CREDIT) as i32,
            between_checks: 16 * packet_time.max(1),
        };
        for host in 0..kernel.senders.len() {
            if let Some(first) = kernel.senders[host].first() {
                kernel.event(first, kind::MAKE, host as u32);
            }
        }
        kernel.event(kernel.between_checks, kind::CHECK, 0);
        kernel
    }

    /// Runs to the end of the span, to the end of all messages, or into a deadlock. `stop` is asked now
    /// and then; `Ok(None)` when it said so.
    ///
    /// # Errors
    /// A packet that the tables lead nowhere.
    pub(super) fn run(&mut self, stop: &dyn Fn() -> bool) -> Result<Option<Option<Stuck>>, SimulateError> {
        while let Some((time, what)) = self.events.pop() {
            if time >= self.span.until {
                break;
            }
            self.counts.events += 1;
            self.now = time;
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
                _ => {
                    if stop() {
                        return Ok(None);
                    }
                    if let Some(stuck) = deadlock::find(self) {
                        return Ok(Some(Some(stuck)));
                    }
                    // Nothing else is to come: either all is done or nothing moves.
                    if !self.events.is_empty() {
                        self.event(time + self.between_checks, kind::CHECK, 0);
                    }
                }
            }
        }
        Ok(Some(None))
    }

    fn event(&mut self, time: u64, kind: u32, subject: u32) {
        self.events.push(time, kind << kind::SHIFT | subject);
    }

    /// The packet at the head of a queue can leave: it wants a lane.
    fn head(&mut self, q: u32) -> Result<(), SimulateError> {
        let (net, vls) = (self.net, self.net.vls as u32);
        let slot = &mut self.slots[q as usize];
        let packet = &self.packets[slot.head as usize];
        let (wire, vl) = if slot.wire == NONE {
            let own = q - net.num_queues;
            (net.injection((own / vls) as usize), own % vls)
        } else {
            let spec = &net.wires[slot.wire as usize];
            match spec.end {
                End::Wire(wire) => (wire, (q - spec.first_queue) / spec.queues),
                end => match net.forward(end, packet.dlid, packet.sl) {
                    Some((wire, vl)) if wire != NONE && vl < vls => (wire, vl),
                    _ => return Err(SimulateError::Lost { dlid: packet.dlid, sl: packet.sl }),
                },
            }
        };
        let lane = net.wires[wire as usize].lane(vl);
        (slot.wants, slot.since, slot.next) = (lane, self.now, NONE);
        let last = std::mem::replace(&mut self.slots[lane as usize].last, q);
        if last == NONE {
            self.slots[lane as usize].first = q;
        } else {
            self.slots[last as usize].next = q;
        }
        self.wires[wire as usize].waiting |= 1 << vl;
        self.serve(wire);
        Ok(())
    }

    /// Takes over the credits of a lane that are back by now.
    fn settle(&mut self, lane: u32) {
        let slot = &mut self.slots[lane as usize];
        while slot.backs > 0 && slot.soonest >> CREDIT_BITS <= self.now {
            slot.credits += (slot.soonest & CREDIT_MASK) as i32;
            slot.backs -= 1;
            if slot.backs > 0 {
                slot.soonest = self.backs[((lane as usize) << self.ring) + usize::from(slot.back)];
                slot.back = (slot.back + 1) & ((1 << self.ring) - 1);
            }
        }
    }

    /// Credits of a lane that its sender has or will have without anything else happening.
    pub(super) fn credits_to_come(&self, lane: u32) -> i32 {
        let slot = &self.slots[lane as usize];
        let ring = &self.backs[(lane as usize) << self.ring..][..1 << self.ring];
        let back = |i: u16| match i {
            0 => slot.soonest & CREDIT_MASK,
            _ => ring[usize::from(slot.back + i - 1) & ((1 << self.ring) - 1)] & CREDIT_MASK,
        };
        slot.credits + (0..slot.backs).map(|i| back(i) as i32).sum::<i32>()
    }

    /// Lets `credits` of a lane be back at a time.
    fn give_back(&mut self, lane: u32, time: u64, credits: i32) {
        self.settle(lane);
        let slot = &mut self.slots[lane as usize];
        let mut word = time << CREDIT_BITS | credits as u64;
        if slot.backs == 0 {
            slot.soonest = word;
        } else {
            if word < slot.soonest {
                std::mem::swap(&mut word, &mut slot.soonest);
            }
            // Nearly always the last; packets that leave a buffer side by side may end out of order.
            let mask = (1 << self.ring) - 1;
            let ring = &mut self.backs[(lane as usize) << self.ring..][..1 << self.ring];
            let mut i = slot.backs - 1;
            while i > 0 && ring[usize::from(slot.back + i - 1) & mask] > word {
                ring[usize::from(slot.back + i) & mask] = ring[usize::from(slot.back + i - 1) & mask];
                i -= 1;
            }
            ring[usize::from(slot.back + i) & mask] = word;
        }
        slot.backs += 1;
        let wire = slot.wire;
        let spec = &self.net.wires[wire as usize];
        let vl = 1 << ((lane - spec.first_queue) / spec.queues);
        let busy = &mut self.wires[wire as usize];
        if busy.starved & vl != 0 {
            busy.starved &= !vl;
            self.wake(wire, time);
        }
    }

    /// Lets a wire be looked at, unless it is sooner anyway.
    fn wake(&mut self, wire: u32, time: u64) {
        let busy = &mut self.wires[wire as usize];
        let time = time.max(busy.until);
        if time < busy.wake {
            busy.wake = time;
            self.event(time, kind::WAKE, wire);
        }
    }

    /// Sends the next packet over a wire, if it is idle and there is one that can go.
    fn serve(&mut self, wire: u32) {
        let w = wire as usize;
        let vls = self.net.vls;
        let waiting = self.wires[w].waiting;
        if waiting == 0 {
            return;
        }
        if self.wires[w].until > self.now {
            return self.wake(wire, self.wires[w].until);
        }
        // VLs with a packet that can go.
        let spec = &self.net.wires[w];
        let (mut ready, mut left) = (0_u16, waiting);
        while left != 0 {
            let vl = left.trailing_zeros();
            left &= left - 1;
            self.settle(spec.lane(vl));
            if self.any_fits(spec.lane(vl)) {
                ready |= 1 << vl;
            }
        }
        if ready == 0 {
            return self.wait_for_credits(wire, waiting);
        }
        let head = |q: u32| &self.packets[self.slots[q as usize].head as usize];
        let vl = match self.net.model.arbitration {
            _ if vls == 1 => 0,
            Arbitration::RoundRobin | Arbitration::FirstCome => {
                let bytes = |vl: u8| u32::from(head(self.choose(spec.lane(vl.into())).1).bytes);
                let mut turn = self.turns[w];
                let vl = self.tables.choose(&mut turn, ready, bytes);
                self.turns[w] = turn;
                u32::from(vl)
            }
            Arbitration::VlAge => 15 - ready.leading_zeros(),
            Arbitration::Age => {
                let oldest = |vl: &u32| {
                    let q = self.choose(spec.lane(*vl)).1;
                    (head(q).made, q)
                };
                (0..vls as u32).filter(|vl| ready >> vl & 1 != 0).min_by_key(oldest).unwrap_or(0)
            }
        };
        let lane = spec.lane(vl);
        let (before, q) = self.choose(lane);
        self.leave_list(lane, before, q);
        if self.slots[lane as usize].first == NONE {
            self.wires[w].waiting &= !(1 << vl);
        }
        self.start(q, wire, lane);
        if self.wires[w].waiting != 0 {
            self.wake(wire, self.wires[w].until);
        }
    }

    /// Whether the head of a queue that waits for a lane can go now.
    fn fits(&self, credits: i32, slot: &Slot) -> bool {
        let enough = credits >= self.largest || credits >= self.packets[slot.head as usize].credits();
        enough && !self.is_held(slot)
    }

    /// Whether the buffers of a queue's in port send as many packets as they may.
    fn is_held(&self, slot: &Slot) -> bool {
        let reads = self.net.model.reads;
        reads != 0 && slot.wire != NONE && self.wires[slot.wire as usize].reading >= reads
    }

    fn any_fits(&self, lane: u32) -> bool {
        let lane = &self.slots[lane as usize];
        let mut q = lane.first;
        while q != NONE && !self.fits(lane.credits, &self.slots[q as usize]) {
            q = self.slots[q as usize].next;
        }
        q != NONE
    }

    /// Of the queues that wait for a lane and can go, the next one by the rule; and the one before it in
    /// the list. In turn means in the order of their numbers.
    fn choose(&self, lane: u32) -> (u32, u32) {
        let lane = &self.slots[lane as usize];
        let (mut best, mut best_key) = ((NONE, NONE), u64::MAX);
        let (mut before, mut q) = (NONE, lane.first);
        while q != NONE {
            let slot = &self.slots[q as usize];
            if self.fits(lane.credits, slot) {
                let key = match self.net.model.arbitration {
                    Arbitration::RoundRobin | Arbitration::VlAge => {
                        u64::from(q.wrapping_sub(lane.served + 1))
                    }
                    Arbitration::FirstCome => 0,
                    Arbitration::Age => self.packets[slot.head as usize].made,
                };
                if best.1 == NONE || key < best_key {
                    (best, best_key) = ((before, q), key);
                }
            }
            (before, q) = (q, slot.next);
        }
        best
    }

    fn leave_list(&mut self, lane: u32, before: u32, q: u32) {
        let next = self.slots[q as usize].next;
        if before != NONE {
            self.slots[before as usize].next = next;
        }
        let lane = &mut self.slots[lane as usize];
        lane.served = q;
        if before == NONE {
            lane.first = next;
        }
        if next == NONE {
            lane.last = before;
        }
    }

    /// Nobody can go: a wire sleeps until credits may be enough, or somebody has been read.
    fn wait_for_credits(&mut self, wire: u32, mut waiting: u16) {
        let spec = &self.net.wires[wire as usize];
        let mut soonest = u64::MAX;
        while waiting != 0 {
            let vl = waiting.trailing_zeros();
            waiting &= waiting - 1;
            let lane = &self.slots[spec.lane(vl) as usize];
            if lane.backs > 0 {
                soonest = soonest.min(lane.soonest >> CREDIT_BITS);
            } else {
                self.wires[wire as usize].starved |= 1 << vl;
            }
            if self.net.model.reads != 0 {
                let mut q = lane.first;
                while q != NONE {
                    let slot = &self.slots[q as usize];
                    if self.is_held(slot) {
                        self.wires[slot.wire as usize].held = true;
                    }
                    q = slot.next;
                }
            }
        }
        if soonest != u64::MAX {
            self.wake(wire, soonest);
        }
    }

    /// Puts the head of a queue on a wire.
    fn start(&mut self, q: u32, wire: u32, lane: u32) {
        let net = self.net;
        let spec = &net.wires[wire as usize];
        let now = self.now;
        let slot = &mut self.slots[q as usize];
        let p = slot.head;
        let packet = &mut self.packets[p as usize];
        let credits = packet.credits();
        let length = u64::from(packet.bytes) * spec.rate / 1000;
        // A packet that comes in more slowly than it could leave holds the link until its tail is through.
        let through = (now + length).max(packet.ready + u64::from(packet.tail));
        let behind = slot.wire;
        slot.head = packet.next;
        (slot.wants, slot.free) = (NONE, through);
        (packet.ready, packet.tail) = (now + u64::from(spec.delay), (through - now) as u32);
        packet.next = NONE;
        let (arrives, dlid, sl) = (packet.ready, packet.dlid, packet.sl);
        let counted = now >= self.span.from;
        if counted {
            self.counts.by_lane[lane as usize] += u64::from(packet.bytes);
        }
        if slot.head == NONE {
            slot.tail = NONE;
        } else {
            let ready = self.packets[slot.head as usize].ready.max(through);
            self.event(ready, kind::HEAD, q);
        }
        self.wires[wire as usize].until = through;
        if behind == NONE {
            self.sent((q - net.num_queues) as usize / net.vls);
        } else {
            self.freed(behind, q, through, credits, counted);
        }
        if spec.end == End::Adapter {
            return self.deliver(p, through + u64::from(spec.delay));
        }
        let to = if spec.queues == 1 {
            lane
        } else {
            let out = net.forward(spec.end, dlid, sl).map_or(0, |(wire, _)| wire);
            lane + net.out_index(out)
        };
        if spec.credits != UNLIMITED {
            self.slots[lane as usize].credits -= credits;
        }
        self.append(to, p, arrives);
    }

    /// A packet is leaving the buffers behind a wire.
    fn freed(&mut self, behind: u32, q: u32, through: u64, credits: i32, counted: bool) {
        let spec = &self.net.wires[behind as usize];
        if spec.credits != UNLIMITED {
            let lane = if spec.queues == 1 { q } else { q - (q - spec.first_queue) % spec.queues };
            self.give_back(lane, through + u64::from(spec.credit_delay), credits);
        }
        if let End::Switch { .. } = spec.end {
            self.counts.hops += u64::from(counted);
            if self.net.model.reads != 0 {
                self.wires[behind as usize].reading += 1;
                self.event(through, kind::READ, behind);
            }
        }
    }

    /// Puts a packet at the end of a queue.
    fn append(&mut self, q: u32, p: u32, ready: u64) {
        let slot = &mut self.slots[q as usize];
        let last = std::mem::replace(&mut slot.tail, p);
        if last == NONE {
            slot.head = p;
            let ready = slot.free.max(ready);
            self.event(ready, kind::HEAD, q);
        } else {
            self.packets[last as usize].next = p;
        }
    }

    /// A packet has been read from the buffers at the end of a wire: others there may go.
    fn read(&mut self, wire: u32) {
        let busy = &mut self.wires[wire as usize];
        busy.reading -= 1;
        if !std::mem::take(&mut busy.held) {
            return;
        }
        for q in self.net.wires[wire as usize].all_queues(self.net.vls) {
            let wants = self.slots[q].wants;
            if wants != NONE {
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
    }

    /// A packet has left a host's send queues: there may be room for another one.
    fn sent(&mut self, host: usize) {
        let sender = &mut self.senders[host];
        sender.waiting -= 1;
        if std::mem::take(&mut sender.stalled) {
            self.make(host);
        }
    }

    /// Makes the packets that a host should have made by now, as long as there is room.
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
            let made = sender.make(host, net, self.demand, self.lids);
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

    /// Packets that have left a host and not yet arrived at another one.
    #[cfg(test)]
    pub(super) fn in_buffers(&self) -> u64 {
        (0..self.net.num_queues as usize).map(|q| self.in_queue(q).count() as u64).sum()
    }
}
