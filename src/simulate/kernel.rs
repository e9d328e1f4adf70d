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
    fn credits(&self) -> i32 {
        u32::from(self.bytes).div_ceil(CREDIT) as i32
    }
}

/// Packets that leave in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
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
    /// The lane whose buffer it is part of; [`NONE`] for a send queue.
    pub(super) lane: u32,
}

/// A (wire, VL) and the buffer at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    /// Credits of which the sender knows.
    pub(super) credits: i32,
    /// Queues whose heads want to go here, in the order in which they came.
    first: u32,
    last: u32,
    /// The queue that was served last.
    served: u32,
    /// Credits on their way back: where the list begins in its ring, and how many.
    back: u16,
    backs: u16,
    /// Somebody waits for credits of which none is on its way.
    starved: bool,
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
    /// Packets that the buffers at its end are sending.
    reading: u8,
    /// Somebody in the buffers at its end waits for one of these to be through.
    held: bool,
    turn: Turn,
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
    pub(super) queues: Vec<Queue>,
    pub(super) lanes: Vec<Lane>,
    wires: Vec<Busy>,
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
    /// - `load`: the greatest share of their rate that hosts send at, for the event queue.
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
        let mut queues = Vec::with_capacity(net.num_queues as usize + net.hosts.len() * vls);
        let empty = |lane| Queue { head: NONE, tail: NONE, wants: NONE, next: NONE, free: 0, since: 0, lane };
        for (w, wire) in net.wires.iter().enumerate() {
            for vl in 0..vls {
                queues.extend((0..wire.queues).map(|_| empty((w * vls + vl) as u32)));
            }
        }
        queues.extend((0..net.hosts.len() * vls).map(|_| empty(NONE)));
        let lane =
            |credits| Lane { credits, first: NONE, last: NONE, served: 0, back: 0, backs: 0, starved: false };
        let lanes = net.wires.iter().flat_map(|w| (0..vls).map(move |_| lane(w.credits))).collect::<Vec<_>>();
        let idle =
            Busy { until: 0, wake: u64::MAX, waiting: 0, reading: 0, held: false, turn: Turn::default() };
        // Packets that a buffer can hold.
        let limited = net.wires.iter().map(|w| w.credits).filter(|&c| c != UNLIMITED).max().unwrap_or(1);
        let ring = (limited as u32 / smallest.div_ceil(CREDIT).max(1) + 1).next_power_of_two().ilog2();
        let rate = net.wires.iter().map(|w| w.rate).max().unwrap_or(1);
        let packet_time = u64::from(model.packet) * rate / 1000;
        let ahead =
            net.wires.iter().map(|w| w.delay + 2 * w.credit_delay).max().unwrap_or(0) + 2 * packet_time;
        let mut kernel = Self {
            net,
            demand,
            lids,
            tables: Tables::new(&net.routes.vlarb, vls),
            span,
            now: 0,
            events: EventQueue::new(ahead, (packet_time / net.wires.len() as u64).max(1)),
            backs: vec![0; lanes.len() << ring],
            ring,
            queues,
            wires: vec![idle; net.wires.len()],
            counts: Counts {
                latency: Histogram::new(),
                packets: 0,
                hops: 0,
                by_source: vec![0; net.hosts.len()],
                by_lane: vec![0; lanes.len()],
                finished: 0,
                made: 0,
                delivered: 0,
                events: 0,
            },
            lanes,
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
        let queue = self.queues[q as usize];
        let packet = self.packets[queue.head as usize];
        let (wire, vl) = if queue.lane == NONE {
            let own = q - self.net.num_queues;
            (self.net.injection(own as usize / self.net.vls), own % self.net.vls as u32)
        } else {
            let vls = self.net.vls as u32;
            match self.net.wires[(queue.lane / vls) as usize].end {
                End::Wire(wire) => (wire, queue.lane % vls),
                end => match self.net.forward(end, packet.dlid, packet.sl) {
                    Some((wire, vl)) if wire != NONE && vl < vls => (wire, vl),
                    _ => return Err(SimulateError::Lost { dlid: packet.dlid, sl: packet.sl }),
                },
            }
        };
        let lane = wire * self.net.vls as u32 + vl;
        let queue = &mut self.queues[q as usize];
        (queue.wants, queue.since, queue.next) = (lane, self.now, NONE);
        let last = std::mem::replace(&mut self.lanes[lane as usize].last, q);
        if last == NONE {
            self.lanes[lane as usize].first = q;
        } else {
            self.queues[last as usize].next = q;
        }
        self.wires[wire as usize].waiting |= 1 << vl;
        self.serve(wire);
        Ok(())
    }

    /// Takes over the credits that are back by now.
    fn settle(&mut self, lane: usize) {
        let l = &mut self.lanes[lane];
        let ring = &self.backs[lane << self.ring..][..1 << self.ring];
        while l.backs > 0 {
            let back = ring[usize::from(l.back)];
            if back >> CREDIT_BITS > self.now {
                break;
            }
            l.credits += (back & ((1 << CREDIT_BITS) - 1)) as i32;
            l.backs -= 1;
            l.back = if l.backs == 0 { 0 } else { (l.back + 1) & ((1 << self.ring) - 1) };
        }
    }

    /// When the next credits are back.
    fn next_back(&self, lane: usize) -> Option<u64> {
        let l = &self.lanes[lane];
        (l.backs > 0).then(|| self.backs[(lane << self.ring) + usize::from(l.back)] >> CREDIT_BITS)
    }

    /// Credits of a lane that its sender has or will have without anything else happening.
    pub(super) fn credits_to_come(&self, lane: usize) -> i32 {
        let l = &self.lanes[lane];
        let ring = &self.backs[lane << self.ring..][..1 << self.ring];
        let back = |i: u16| ring[usize::from(l.back + i) & ((1 << self.ring) - 1)] & ((1 << CREDIT_BITS) - 1);
        l.credits + (0..l.backs).map(|i| back(i) as i32).sum::<i32>()
    }

    /// Lets `credits` of a lane be back at a time.
    fn give_back(&mut self, lane: usize, time: u64, credits: i32) {
        let mask = (1 << self.ring) - 1;
        let l = &mut self.lanes[lane];
        let ring = &mut self.backs[lane << self.ring..][..1 << self.ring];
        let word = time << CREDIT_BITS | credits as u64;
        // Nearly always the last; several packets that leave a buffer side by side may end out of order.
        let mut i = l.backs;
        while i > 0 {
            let before = ring[usize::from(l.back + i - 1) & mask];
            if before <= word {
                break;
            }
            ring[usize::from(l.back + i) & mask] = before;
            i -= 1;
        }
        ring[usize::from(l.back + i) & mask] = word;
        l.backs += 1;
        if l.starved {
            l.starved = false;
            self.wake((lane / self.net.vls) as u32, time);
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
        let (mut ready, mut left) = (0_u16, waiting);
        while left != 0 {
            let vl = left.trailing_zeros() as usize;
            left &= left - 1;
            self.settle(w * vls + vl);
            if self.any_fits(w * vls + vl) {
                ready |= 1 << vl;
            }
        }
        if ready == 0 {
            return self.wait_for_credits(wire, waiting);
        }
        let vl = match self.net.model.arbitration {
            _ if ready.is_power_of_two() && vls == 1 => 0,
            Arbitration::RoundRobin | Arbitration::FirstCome => {
                let mut turn = self.wires[w].turn;
                let bytes = |vl: u8| {
                    let q = self.choose(w * vls + usize::from(vl)).1;
                    u32::from(self.packets[self.queues[q as usize].head as usize].bytes)
                };
                let vl = self.tables.choose(&mut turn, ready, bytes);
                self.wires[w].turn = turn;
                usize::from(vl)
            }
            Arbitration::VlAge => 15 - ready.leading_zeros() as usize,
            Arbitration::Age => {
                let age = |vl: &usize| {
                    let q = self.choose(w * vls + vl).1;
                    (self.packets[self.queues[q as usize].head as usize].made, q)
                };
                (0..vls).filter(|vl| ready >> vl & 1 != 0).min_by_key(age).unwrap_or(0)
            }
        };
        let (before, q) = self.choose(w * vls + vl);
        self.leave_list(w * vls + vl, before, q);
        self.start(q, wire, vl);
        if self.wires[w].waiting != 0 {
            self.wake(wire, self.wires[w].until);
        }
    }

    /// Whether the head of a queue that waits for a lane can go now.
    fn fits(&self, lane: usize, q: u32) -> bool {
        let queue = &self.queues[q as usize];
        let credits = self.lanes[lane].credits;
        let enough = credits >= self.largest || credits >= self.packets[queue.head as usize].credits();
        enough && !self.is_held(queue)
    }

    /// Whether the buffers of a queue's in port send as many packets as they may.
    fn is_held(&self, queue: &Queue) -> bool {
        let reads = self.net.model.reads;
        reads != 0 && queue.lane != NONE && self.wires[queue.lane as usize / self.net.vls].reading >= reads
    }

    fn any_fits(&self, lane: usize) -> bool {
        let mut q = self.lanes[lane].first;
        while q != NONE && !self.fits(lane, q) {
            q = self.queues[q as usize].next;
        }
        q != NONE
    }

    /// Of the queues that wait for a lane and can go, the next one by the rule; and the one before it in
    /// the list. In turn means in the order of their numbers.
    fn choose(&self, lane: usize) -> (u32, u32) {
        let l = &self.lanes[lane];
        let key = |q: u32| match self.net.model.arbitration {
            Arbitration::RoundRobin | Arbitration::VlAge => u64::from(q.wrapping_sub(l.served + 1)),
            Arbitration::FirstCome => 0,
            Arbitration::Age => self.packets[self.queues[q as usize].head as usize].made,
        };
        let (mut best, mut best_key) = ((NONE, NONE), u64::MAX);
        let (mut before, mut q) = (NONE, l.first);
        while q != NONE {
            if self.fits(lane, q) {
                let key = key(q);
                if best.1 == NONE || key < best_key {
                    (best, best_key) = ((before, q), key);
                }
            }
            (before, q) = (q, self.queues[q as usize].next);
        }
        best
    }

    fn leave_list(&mut self, lane: usize, before: u32, q: u32) {
        let next = self.queues[q as usize].next;
        let l = &mut self.lanes[lane];
        l.served = q;
        if before == NONE {
            l.first = next;
        } else {
            self.queues[before as usize].next = next;
        }
        if next == NONE {
            self.lanes[lane].last = before;
        }
        if self.lanes[lane].first == NONE {
            self.wires[lane / self.net.vls].waiting &= !(1 << (lane % self.net.vls));
        }
    }

    /// Nobody can go: a wire sleeps until credits may be enough, or somebody has been read.
    fn wait_for_credits(&mut self, wire: u32, mut waiting: u16) {
        let mut soonest = u64::MAX;
        while waiting != 0 {
            let lane = wire as usize * self.net.vls + waiting.trailing_zeros() as usize;
            waiting &= waiting - 1;
            match self.next_back(lane) {
                Some(time) => soonest = soonest.min(time),
                None => self.lanes[lane].starved = true,
            }
            if self.net.model.reads != 0 {
                let mut q = self.lanes[lane].first;
                while q != NONE {
                    let queue = self.queues[q as usize];
                    if self.is_held(&queue) {
                        self.wires[queue.lane as usize / self.net.vls].held = true;
                    }
                    q = queue.next;
                }
            }
        }
        if soonest != u64::MAX {
            self.wake(wire, soonest);
        }
    }

    /// Puts the head of a queue on a wire.
    fn start(&mut self, q: u32, wire: u32, vl: usize) {
        let net = self.net;
        let spec = &net.wires[wire as usize];
        let now = self.now;
        let queue = &mut self.queues[q as usize];
        let p = queue.head;
        let packet = &mut self.packets[p as usize];
        let credits = packet.credits();
        let length = u64::from(packet.bytes) * spec.rate / 1000;
        // A packet that comes in more slowly than it could leave holds the link until its tail is through.
        let through = (now + length).max(packet.ready + u64::from(packet.tail));
        let from = queue.lane;
        queue.head = packet.next;
        (queue.wants, queue.free) = (NONE, through);
        if queue.head == NONE {
            queue.tail = NONE;
        } else {
            let ready = self.packets[queue.head as usize].ready.max(through);
            self.event(ready, kind::HEAD, q);
        }
        self.wires[wire as usize].until = through;
        let counted = now >= self.span.from;
        let lane = wire as usize * net.vls + vl;
        if counted {
            self.counts.by_lane[lane] += u64::from(self.packets[p as usize].bytes);
        }
        if from == NONE {
            self.sent((q - net.num_queues) as usize / net.vls);
        } else {
            let behind = from as usize / net.vls;
            if net.wires[behind].credits != UNLIMITED {
                self.give_back(from as usize, through + net.wires[behind].credit_delay, credits);
            }
            if let End::Switch { .. } = net.wires[behind].end {
                self.counts.hops += u64::from(counted);
                if net.model.reads != 0 {
                    self.wires[behind].reading += 1;
                    self.event(through, kind::READ, behind as u32);
                }
            }
        }
        let arrives = now + spec.delay;
        if spec.end == End::Adapter {
            return self.deliver(p, through + spec.delay);
        }
        if spec.credits != UNLIMITED {
            self.lanes[lane].credits -= credits;
        }
        let packet = &mut self.packets[p as usize];
        (packet.ready, packet.tail, packet.next) = (arrives, (through - now) as u32, NONE);
        let out = if spec.queues == 1 {
            NONE
        } else {
            net.forward(spec.end, packet.dlid, packet.sl).map_or(NONE, |(wire, _)| wire)
        };
        let to = net.queue(spec, vl as u32, out);
        let queue = &mut self.queues[to as usize];
        let last = std::mem::replace(&mut queue.tail, p);
        if last == NONE {
            queue.head = p;
            let ready = queue.free.max(arrives);
            self.event(ready, kind::HEAD, to);
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
        let spec = &self.net.wires[wire as usize];
        for q in spec.first_queue..spec.first_queue + spec.queues * self.net.vls as u32 {
            let wants = self.queues[q as usize].wants;
            if wants != NONE {
                self.serve(wants / self.net.vls as u32);
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
            let queue = &mut self.queues[q as usize];
            let last = std::mem::replace(&mut queue.tail, p);
            if last == NONE {
                queue.head = p;
                let ready = queue.free.max(self.now);
                self.event(ready, kind::HEAD, q);
            } else {
                self.packets[last as usize].next = p;
            }
        }
    }

    /// Packets in a queue, from its head.
    pub(super) fn in_queue(&self, q: usize) -> impl Iterator<Item = &Packet> {
        let at = |p: u32| (p != NONE).then(|| &self.packets[p as usize]);
        std::iter::successors(at(self.queues[q].head), move |packet| at(packet.next))
    }

    /// Packets that have left a host and not yet arrived at another one.
    pub(super) fn in_buffers(&self) -> u64 {
        (0..self.net.num_queues as usize).map(|q| self.in_queue(q).count() as u64).sum()
    }
}
