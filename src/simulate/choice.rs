//! Arbitration: which packet a wire takes next.

use super::credits::CREDIT_BITS;
use super::kernel::Kernel;
use super::model::Arbitration;
use super::network::NONE;
use super::state::{Busy, Slot};

impl Kernel<'_> {
    /// Sends the next packet over a wire, if the wire is idle and a packet is ready.
    pub(super) fn serve(&mut self, wire: u32) {
        let w = wire as usize;
        let Busy { waiting, until, first_queue, pace, .. } = self.wires[w];
        if waiting == 0 || self.holds_back(wire) {
            return;
        }
        if until > self.now {
            return self.wake(wire, until);
        }
        let queues = self.paces[pace as usize].queues;
        let lane_of = |vl: u32| first_queue + vl * queues;
        let (lane, (before, q)) = if waiting & (waiting - 1) == 0 {
            // Packets on one VL.
            let lane = lane_of(waiting.trailing_zeros());
            self.settle(lane);
            let chosen = self.choose(lane);
            if chosen.1 != NONE {
                self.take_turn(chosen.1, wire, lane);
            }
            (lane, chosen)
        } else {
            // VLs with a packet that is ready.
            let (mut ready, mut left) = (0_u16, waiting);
            while left != 0 {
                let vl = left.trailing_zeros();
                left &= left - 1;
                self.settle(lane_of(vl));
                ready |= u16::from(self.any_fits(lane_of(vl))) << vl;
            }
            if ready == 0 { (NONE, (NONE, NONE)) } else { self.choose_vl(wire, ready, &lane_of) }
        };
        if q == NONE {
            return self.wait_for_credits(wire, waiting);
        }
        self.leave_list(lane, before, q);
        if self.slots[lane as usize].first == NONE {
            self.wires[w].waiting &= !(1 << self.vl_of(wire, lane));
        }
        self.start(q, wire, lane);
        if self.wires[w].waiting != 0 {
            self.wake(wire, self.wires[w].until);
        }
    }

    /// Of several VLs with packets that are ready, takes the turn of the next one by the arbitration rule; returns its
    /// lane, and the queue as `choose` does.
    fn choose_vl(&mut self, wire: u32, ready: u16, lane_of: &impl Fn(u32) -> u32) -> (u32, (u32, u32)) {
        let head = |q: u32| &self.packets[self.slots[q as usize].head as usize];
        let mut chosen = (NONE, NONE);
        let vl = match self.net.model.arbitration {
            Arbitration::RoundRobin | Arbitration::FirstCome => {
                let mut turn = self.wires[wire as usize].turn;
                let vl = self.tables.choose(&mut turn, ready, |vl| {
                    chosen = self.choose(lane_of(vl.into()));
                    head(chosen.1).bytes.into()
                });
                self.wires[wire as usize].turn = turn;
                vl.into()
            }
            Arbitration::VlAge => 15 - ready.leading_zeros(),
            Arbitration::Age => {
                let oldest = |vl: &u32| {
                    let q = self.choose(lane_of(*vl)).1;
                    (head(q).made, q)
                };
                (0..self.net.vls as u32).filter(|vl| ready >> vl & 1 != 0).min_by_key(oldest).unwrap_or(0)
            }
        };
        let lane = lane_of(vl);
        (lane, if chosen.1 == NONE { self.choose(lane) } else { chosen })
    }

    /// The only packet that is ready takes the turn of its VL.
    #[inline]
    pub(super) fn take_turn(&mut self, q: u32, wire: u32, lane: u32) {
        if !self.by_tables {
            return;
        }
        let bytes = self.packets[self.slots[q as usize].head as usize].bytes;
        let vl = self.vl_of(wire, lane) as u8;
        self.tables.choose_only(&mut self.wires[wire as usize].turn, vl, bytes.into());
    }

    /// Whether the head of a queue that needs a lane can leave now.
    #[inline]
    pub(super) fn fits(&self, credits: i32, slot: &Slot) -> bool {
        let enough = credits >= self.largest || credits >= self.packets[slot.head as usize].credits();
        enough && !self.is_held(slot)
    }

    /// Whether the buffers of a queue's in port already send as many packets as they may.
    #[inline]
    fn is_held(&self, slot: &Slot) -> bool {
        let reads = self.net.model.reads;
        reads != 0 && slot.wire != NONE && self.wires[slot.wire as usize].reading >= reads
    }

    #[inline]
    fn any_fits(&self, lane: u32) -> bool {
        let lane = &self.slots[lane as usize];
        if self.net.model.reads == 0 && lane.credits >= self.largest {
            return true;
        }
        let mut q = lane.first;
        while q != NONE && !self.fits(lane.credits, &self.slots[q as usize]) {
            q = self.slots[q as usize].next;
        }
        q != NONE
    }

    /// Of the queues that wait for a lane and are ready, the next one by the arbitration rule, and
    /// the one before it in the list. Round-robin is in the order of queue numbers.
    #[inline]
    fn choose(&self, lane: u32) -> (u32, u32) {
        let lane = &self.slots[lane as usize];
        if lane.first == lane.last {
            let fits = self.fits(lane.credits, &self.slots[lane.first as usize]);
            return (NONE, if fits { lane.first } else { NONE });
        }
        match self.net.model.arbitration {
            Arbitration::RoundRobin | Arbitration::VlAge => {
                self.least(lane, |q, _| u64::from(q.wrapping_sub(lane.served + 1)))
            }
            Arbitration::FirstCome => self.least(lane, |_, _| 0),
            Arbitration::Age => self.least(lane, |_, slot| self.packets[slot.head as usize].made),
        }
    }

    /// Of the queues that wait for a lane and are ready, the first one with the least key.
    #[inline]
    fn least(&self, lane: &Slot, key: impl Fn(u32, &Slot) -> u64) -> (u32, u32) {
        let (mut best, mut best_key) = ((NONE, NONE), u64::MAX);
        let (mut before, mut q) = (NONE, lane.first);
        while q != NONE {
            let slot = &self.slots[q as usize];
            let key = key(q, slot);
            if (best.1 == NONE || key < best_key) && self.fits(lane.credits, slot) {
                (best, best_key) = ((before, q), key);
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

    /// No packet is ready: schedules the wire for when credits may suffice or a packet has been
    /// read.
    fn wait_for_credits(&mut self, wire: u32, mut waiting: u16) {
        let mut soonest = u64::MAX;
        while waiting != 0 {
            let vl = waiting.trailing_zeros();
            waiting &= waiting - 1;
            let lane = &self.slots[self.lane(wire, vl) as usize];
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
}
