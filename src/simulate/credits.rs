//! Credits on their way back to their sender: a ring of (time, credits) for each lane.

use super::kernel::Kernel;

/// A ring of credits on their way back holds (time, credits) in one word.
pub(super) const CREDIT_BITS: u32 = 8;
const CREDIT_MASK: u64 = (1 << CREDIT_BITS) - 1;

impl Kernel<'_> {
    /// Collects the credits of a lane that have returned by now.
    #[inline]
    pub(super) fn settle(&mut self, lane: u32) {
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

    /// Credits of a lane that its sender has, or will have without any further event.
    pub(super) fn credits_to_come(&self, lane: u32) -> i32 {
        let slot = &self.slots[lane as usize];
        let ring = &self.backs[(lane as usize) << self.ring..][..1 << self.ring];
        let back = |i: u16| match i {
            0 => slot.soonest & CREDIT_MASK,
            _ => ring[usize::from(slot.back + i - 1) & ((1 << self.ring) - 1)] & CREDIT_MASK,
        };
        slot.credits + (0..slot.backs).map(|i| back(i) as i32).sum::<i32>()
    }

    /// Returns `credits` to a lane at a given time.
    #[inline]
    pub(super) fn give_back(&mut self, lane: u32, time: u64, credits: i32) {
        let mut word = time << CREDIT_BITS | credits as u64;
        if self.slots[lane as usize].backs > 0 {
            self.settle(lane);
        }
        let slot = &mut self.slots[lane as usize];
        if slot.backs == 0 {
            slot.soonest = word;
        } else {
            if word < slot.soonest {
                std::mem::swap(&mut word, &mut slot.soonest);
            }
            // Nearly always the last; packets that leave a buffer in parallel may end out of order.
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
        let busy = &mut self.wires[wire as usize];
        if busy.starved != 0 {
            let vl = 1 << ((lane - busy.first_queue) / self.paces[busy.pace as usize].queues);
            if busy.starved & vl != 0 {
                busy.starved &= !vl;
                self.wake(wire, time);
            }
        }
    }
}
