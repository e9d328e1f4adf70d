//! Arbitration: which packet a wire takes next.

use super::credits::CREDIT_BITS;
use super::kernel::Kernel;
use super::model::Arbitration;
use super::network::NONE;
use super::state::Slot;

impl Kernel<'_> {
    /// Sends the next packet over a wire, if the wire is idle and a packet is ready.
    pub(super) fn serve(&mut self, wire: u32) {
        let w = wire as usize;
        let vls = self.net.vls;
        let waiting = self.wires[w].waiting;
        if waiting == 0 || self.motion.as_ref().is_some_and(|motion| motion.holds_back(self.net, wire)) {
            return;
        }
        if self.wires[w].until > self.now {
            return self.wake(wire, self.wires[w].until);
        }
        // VLs with a packet that is ready.
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

    /// Whether the head of a queue that waits for a lane can leave now.
    fn fits(&self, credits: i32, slot: &Slot) -> bool {
        let enough = credits >= self.largest || credits >= self.packets[slot.head as usize].credits();
        enough && !self.is_held(slot)
    }

    /// Whether the buffers of a queue's in port already send as many packets as they may.
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

    /// Of the queues that wait for a lane and are ready, the next one by the arbitration rule, and
    /// the one before it in the list. Round-robin is in the order of queue numbers.
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

    /// No packet is ready: schedules the wire for when credits may suffice or a packet has been
    /// read.
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
}
