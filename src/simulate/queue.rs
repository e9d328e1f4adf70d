//! The event queue: a calendar of days (R. Brown, "Calendar queues", CACM 1988).
//!
//! ```text
//!   today, sorted        days ahead, unsorted            far ahead, a heap
//!   [e e e ^ e]          [..][e][ee][..][e]…             {e e}
//!        next
//! ```
//!
//! In this simulator nearly every event is at most a packet time, a cable and a switch ahead. So a
//! day is short enough to hold only a few events, and the days cover that time. An event is
//! inserted without a comparison, and sorted among those of its day when that day comes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bits of the payload; the rest of a word counts 2^36 events.
const WHAT: u32 = 28;

/// The time of an event, and its payload. Events of the same time occur in the order of their
/// numbers, which is the order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    time: u64,
    /// Number, and payload in the lowest [`WHAT`] bits.
    number: u64,
}

/// Events by time. Once its days have grown to the size needed, it allocates no more.
#[derive(Debug)]
pub struct EventQueue {
    /// Length of a day: 2^shift.
    shift: u32,
    mask: u64,
    day: u64,
    today: Vec<Event>,
    next: usize,
    days: Vec<Vec<Event>>,
    /// A bit for each day with events.
    busy: Vec<u64>,
    far: BinaryHeap<Reverse<Event>>,
    number: u64,
    len: usize,
}

impl EventQueue {
    /// - `horizon`: how far ahead events are that should not need the heap.
    /// - `interval`: the mean time between events, at least 1.
    pub fn new(horizon: u64, interval: u64) -> Self {
        // About four events per day: with fewer, empty days cost more than sorting; measured by
        // `benches/simulate.rs`.
        let shift = (4 * interval.max(1)).ilog2();
        let days = (horizon >> shift).saturating_add(2).next_power_of_two().clamp(64, 1 << 16);
        Self {
            shift,
            mask: days - 1,
            day: 0,
            today: Vec::with_capacity(16),
            next: 0,
            days: (0..days).map(|_| Vec::with_capacity(8)).collect(),
            busy: vec![0; (days / 64) as usize],
            far: BinaryHeap::new(),
            number: 0,
            len: 0,
        }
    }

    /// Number of pending events.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no event is pending.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Inserts an event, not before the time of the last one removed. `what` has at most 28 bits.
    ///
    /// Cost: O(1); O(events of the day) for today; O(log events) beyond the horizon.
    pub fn push(&mut self, time: u64, what: u32) {
        debug_assert!(what >> WHAT == 0, "28 bits");
        let event = Event { time, number: self.number << WHAT | u64::from(what) };
        self.number += 1;
        self.len += 1;
        let day = time >> self.shift;
        if day <= self.day {
            let later = self.today[self.next..].iter().rev().take_while(|e| e.time > time).count();
            self.today.insert(self.today.len() - later, event);
        } else if day - self.day <= self.mask {
            self.put(day, event);
        } else {
            self.far.push(Reverse(event));
        }
    }

    /// Removes the next event and returns it with its time.
    pub fn pop(&mut self) -> Option<(u64, u32)> {
        while self.next == self.today.len() {
            if self.len == 0 {
                return None;
            }
            self.turn();
        }
        let event = self.today[self.next];
        self.next += 1;
        self.len -= 1;
        Some((event.time, event.number as u32 & ((1 << WHAT) - 1)))
    }

    fn put(&mut self, day: u64, event: Event) {
        let slot = (day & self.mask) as usize;
        self.days[slot].push(event);
        self.busy[slot / 64] |= 1 << (slot % 64);
    }

    /// Moves on to the next day with events.
    fn turn(&mut self) {
        let ahead = self.next_busy();
        let far = self.far.peek().map(|Reverse(e)| e.time >> self.shift);
        self.day = match (ahead, far) {
            (Some(ahead), _) => ahead,
            (None, Some(far)) => far,
            (None, None) => return,
        };
        // Events from the heap are near now; they were inserted before any others of that day.
        while let Some(&Reverse(event)) = self.far.peek() {
            let day = event.time >> self.shift;
            if day > self.day && day - self.day > self.mask {
                break;
            }
            self.far.pop();
            self.put(day, event);
        }
        let slot = (self.day & self.mask) as usize;
        self.today.clear();
        self.next = 0;
        std::mem::swap(&mut self.today, &mut self.days[slot]);
        self.busy[slot / 64] &= !(1 << (slot % 64));
        self.today.sort_unstable();
    }

    fn next_busy(&self) -> Option<u64> {
        let words = self.busy.len();
        let start = self.day + 1;
        let slot = (start & self.mask) as usize;
        let first = self.busy[slot / 64] & (u64::MAX << (slot % 64));
        let days_to = |slot: usize| start + ((slot as u64).wrapping_sub(start) & self.mask);
        if first != 0 {
            return Some(days_to(slot / 64 * 64 + first.trailing_zeros() as usize));
        }
        (1..=words).find_map(|i| {
            let word = (slot / 64 + i) % words;
            let bits = self.busy[word];
            (bits != 0).then(|| days_to(word * 64 + bits.trailing_zeros() as usize))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::random::Random;

    #[test]
    fn events_come_by_time_and_then_in_order() {
        for (horizon, interval) in [(1000, 1), (64, 10), (1_000_000, 37), (1, 1)] {
            let mut queue = EventQueue::new(horizon, interval);
            let mut heap = BinaryHeap::new();
            let mut random = Random::new(5, horizon);
            let mut now = 0;
            for step in 0..20_000_u32 {
                if random.below(2) == 0 || heap.is_empty() {
                    // Some at the same time, most near, some far.
                    let reach = [1, 50, 1000, 1_000_000][random.below(4) as usize];
                    let time = now + random.below(reach);
                    queue.push(time, step);
                    heap.push(Reverse((time, step)));
                } else {
                    let Reverse((time, what)) = heap.pop().unwrap();
                    assert_eq!(queue.pop(), Some((time, what)));
                    now = time;
                }
                assert_eq!(queue.len(), heap.len());
            }
            while let Some(Reverse(next)) = heap.pop() {
                assert_eq!(queue.pop(), Some(next));
            }
            assert_eq!(queue.pop(), None);
            assert!(queue.is_empty());
        }
    }
}
