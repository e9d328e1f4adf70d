//! Memory is asked for what the events of a day need before the first of them is handled.
//!
//! The state of a large fabric is larger than a core's cache, and each step of a packet reads several places of it,
//! one depending on the other: its queue, the packet, the lane that it needs, and the wire. One event after another
//! would wait for each of them. The events of a day do not depend on each other here, so a core waits for many of them
//! at once. This only reads: what the events find later is what counts.

use std::hint::black_box;

use super::kernel::{Kernel, kind};
use super::network::NONE;

/// Most events that are prepared together.
const MOST: usize = 32;

/// Number of queues, of 64 bytes each, up to which the state stays in a cache and looking ahead costs more than it
/// brings.
const CACHED: usize = 4096;

impl Kernel<'_> {
    /// At the first event of a day, reads what the events of the day will need, level by level.
    #[inline]
    pub(super) fn look_ahead(&self) {
        if self.events.begins_day() && self.slots.len() > CACHED {
            self.read_ahead();
        }
    }

    fn read_ahead(&self) {
        // By event: the lane that it needs.
        let mut needs = [NONE; MOST];
        let mut count = 0;
        for (need, what) in needs.iter_mut().zip(self.events.day()) {
            let subject = what & kind::MASK;
            match what >> kind::SHIFT {
                kind::HEAD => {
                    let slot = &self.slots[subject as usize];
                    if let Some(packet) = self.packets.get(slot.head as usize) {
                        black_box(packet.ready);
                    }
                    *need = slot.wants;
                }
                kind::WAKE => {
                    let busy = &self.wires[subject as usize];
                    *need = self.lane(subject, busy.waiting.trailing_zeros() % 16);
                }
                _ => {}
            }
            count += 1;
        }
        for &need in &needs[..count] {
            if let Some(lane) = self.slots.get(need as usize) {
                if let Some(busy) = self.wires.get(lane.wire as usize) {
                    black_box(busy.until);
                }
            }
        }
    }
}
