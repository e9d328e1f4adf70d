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
//! inserted without a comparison, and sorted among those of its day when that day comes. Days ahead
//! are lists of nodes from one pool, the one that was freed last first, so that they stay in a cache.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bits of the payload.
const WHAT: u32 = 28;

/// Mean number of events in a day at full load. With fewer, empty days cost more than sorting, and `look_ahead` has less
/// to prepare.
const PER_DAY: u64 = 16;

/// An event of a known day: 8 bytes. Events of the same time occur in the order of insertion, which sorting keeps.
#[derive(Clone, Copy, Debug)]
struct Event(u64);

impl Event {
    /// - `offset`: time since the day began, less than 2^36.
    fn new(offset: u64, what: u32) -> Self {
        Self(offset << WHAT | u64::from(what))
    }

    fn offset(self) -> u64 {
        self.0 >> WHAT
    }

    fn what(self) -> u32 {
        self.0 as u32 & ((1 << WHAT) - 1)
    }
}

/// An event of a day ahead.
#[derive(Clone, Copy, Debug)]
struct Node {
    event: Event,
    /// The one inserted before it, or the next free node; [`NO_NODE`] at the end.
    next: u32,
}

const NO_NODE: u32 = u32::MAX;

/// An event beyond the horizon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FarEvent {
    time: u64,
    /// Counts these events.
    number: u64,
    what: u32,
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
    /// By day: its event inserted last.
    days: Vec<u32>,
    nodes: Vec<Node>,
    free: u32,
    /// A bit for each day with events.
    busy: Vec<u64>,
    far: BinaryHeap<Reverse<FarEvent>>,
    far_number: u64,
    len: usize,
}

impl EventQueue {
    /// - `horizon`: how far ahead events are that should not need the heap.
    /// - `interval`: the mean time between events, at least 1.
    pub fn new(horizon: u64, interval: u64) -> Self {
        let shift = (PER_DAY * interval.max(1)).ilog2().min(63 - WHAT);
        let days = (horizon >> shift).saturating_add(2).next_power_of_two().clamp(64, 1 << 16);
        Self {
            shift,
            mask: days - 1,
            day: 0,
            today: Vec::with_capacity(16),
            next: 0,
            days: vec![NO_NODE; days as usize],
            nodes: Vec::new(),
            free: NO_NODE,
            busy: vec![0; (days / 64) as usize],
            far: BinaryHeap::new(),
            far_number: 0,
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
    #[inline]
    pub fn push(&mut self, time: u64, what: u32) {
        debug_assert!(what >> WHAT == 0, "28 bits");
        self.len += 1;
        let day = time >> self.shift;
        if day <= self.day {
            let event = Event::new(self.offset(time), what);
            let later = |e: &&Event| e.offset() > event.offset();
            let later = self.today[self.next..].iter().rev().take_while(later).count();
            self.today.insert(self.today.len() - later, event);
        } else if day - self.day <= self.mask {
            self.put(time, what);
        } else {
            self.far.push(Reverse(FarEvent { time, number: self.far_number, what }));
            self.far_number += 1;
        }
    }

    /// Removes the next event and returns it with its time.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, u32)> {
        if self.next == self.today.len() && !self.turn() {
            return None;
        }
        let event = self.today[self.next];
        self.next += 1;
        self.len -= 1;
        Some(((self.day << self.shift) + event.offset(), event.what()))
    }

    /// Whether the event removed last was the first of its day.
    pub(super) fn begins_day(&self) -> bool {
        self.next == 1
    }

    /// The payloads of all events of the day that are known, removed ones included.
    pub(super) fn day(&self) -> impl Iterator<Item = u32> + use<'_> {
        self.today.iter().map(|e| e.what())
    }

    /// Time since its day began.
    fn offset(&self, time: u64) -> u64 {
        time & ((1 << self.shift) - 1)
    }

    #[inline]
    fn put(&mut self, time: u64, what: u32) {
        let slot = (time >> self.shift & self.mask) as usize;
        let node = Node { event: Event::new(self.offset(time), what), next: self.days[slot] };
        if let Some(free) = self.nodes.get_mut(self.free as usize) {
            self.days[slot] = self.free;
            self.free = std::mem::replace(free, node).next;
        } else {
            self.days[slot] = self.nodes.len() as u32;
            self.nodes.push(node);
        }
        self.busy[slot / 64] |= 1 << (slot % 64);
    }

    /// Moves on to the next day with events, if there is one.
    #[inline(never)]
    fn turn(&mut self) -> bool {
        let ahead = self.next_busy();
        let far = self.far.peek().map(|Reverse(e)| e.time >> self.shift);
        self.day = match (ahead, far) {
            (Some(ahead), _) => ahead,
            (None, Some(far)) => far,
            (None, None) => return false,
        };
        // Events from the heap are near now; they were inserted before any others of that day.
        while let Some(&Reverse(event)) = self.far.peek() {
            let day = event.time >> self.shift;
            if day > self.day && day - self.day > self.mask {
                break;
            }
            self.far.pop();
            self.put(event.time, event.what);
        }
        let slot = (self.day & self.mask) as usize;
        self.today.clear();
        self.next = 0;
        self.busy[slot / 64] &= !(1 << (slot % 64));
        let first = std::mem::replace(&mut self.days[slot], NO_NODE);
        let (mut last, mut at) = (first, first);
        while let Some(node) = self.nodes.get(at as usize) {
            self.today.push(node.event);
            (last, at) = (at, node.next);
        }
        self.nodes[last as usize].next = std::mem::replace(&mut self.free, first);
        self.today.reverse();
        self.today.sort_by_key(|e| e.offset());
        true
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
