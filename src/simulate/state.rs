//! The state of a run: packets, queues and lanes, wires, and counts.

use super::arbiter::Turn;
use super::model::CREDIT;
use super::network::{End, NONE, UNLIMITED, Wire};
use super::stats::Histogram;

/// As `next` of a queue whose head does not wait for a lane.
pub(super) const UNLISTED: u32 = NONE - 1;

/// A packet in a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packet {
    /// Creation time of its message.
    pub(super) made: u64,
    /// When its head can leave its current buffer.
    pub(super) ready: u64,
    /// From then until its tail could leave.
    pub(super) tail: u32,
    /// The packet behind it, or the next free slot.
    pub(super) next: u32,
    pub(super) source: u16,
    pub(super) dlid: u16,
    pub(super) bytes: u16,
    pub(super) sl: u8,
    /// Whether it is the last one of its message.
    pub(super) last: bool,
}

impl Packet {
    pub(super) fn credits(&self) -> i32 {
        u32::from(self.bytes).div_ceil(CREDIT) as i32
    }
}

/// A queue of packets that leave in order and, if it is the first one of a lane, the lane. They are
/// stored together because they are mostly used together: 64 bytes, a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Slot {
    pub(super) head: u32,
    pub(super) tail: u32,
    /// The lane that the head needs, [`NONE`] while that is not known.
    pub(super) wants: u32,
    /// The next queue in the list of that lane, [`NONE`] for its last one, [`UNLISTED`] while the head does not wait.
    pub(super) next: u32,
    /// When the previous packet has left.
    pub(super) free: u64,
    /// The wire that ends at this queue; [`NONE`] for a send queue.
    pub(super) wire: u32,
    /// Of the lane: credits that the sender has.
    pub(super) credits: i32,
    /// Queues whose heads wait for this lane, in order of arrival.
    pub(super) first: u32,
    pub(super) last: u32,
    /// The last queue served.
    pub(super) served: u32,
    /// Number of credit entries on their way back, the first of them, and the start of the ring
    /// with the others.
    pub(super) backs: u16,
    pub(super) back: u16,
    pub(super) soonest: u64,
    /// Of the lane: bytes that left over its wire in the counted time.
    pub(super) sent: u64,
}

const _: () = assert!(size_of::<Slot>() == 64);

impl Slot {
    /// An empty queue at the end of a wire, with an idle lane.
    pub(super) fn new(wire: u32, credits: i32, wants: u32) -> Self {
        Self {
            head: NONE,
            tail: NONE,
            wants,
            next: UNLISTED,
            free: 0,
            wire,
            credits,
            first: NONE,
            last: NONE,
            served: 0,
            backs: 0,
            back: 0,
            soonest: 0,
            sent: 0,
        }
    }

    /// Whether the head waits for its lane.
    pub(super) fn waits(&self) -> bool {
        self.next != UNLISTED
    }
}

/// Properties that many wires share, so that few of these are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pace {
    /// As those of [`Wire`].
    pub(super) rate: u64,
    pub(super) delay: u32,
    pub(super) credit_delay: u32,
    pub(super) setup: u32,
    pub(super) queues: u32,
    /// Whether the buffer at its end can be full.
    pub(super) limited: bool,
}

impl Pace {
    pub(super) fn of(wire: &Wire) -> Self {
        let Wire { rate, delay, credit_delay, setup, queues, credits, .. } = *wire;
        Self { rate, delay, credit_delay, setup, queues, limited: credits != UNLIMITED }
    }
}

/// A wire in a run, with what events need of its constants: 64 bytes, a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Busy {
    /// Where it ends.
    pub(super) end: End,
    /// The first queue there.
    pub(super) first_queue: u32,
    /// Number of its [`Pace`].
    pub(super) pace: u32,
    /// Its position in the arbitration tables.
    pub(super) turn: Turn,
    /// When the packet on it is through.
    pub(super) until: u64,
    /// The time of its event, `u64::MAX` for none. Other events are outdated.
    pub(super) wake: u64,
    /// VLs with waiting queues.
    pub(super) waiting: u16,
    /// VLs with queues that wait for credits while none is on its way.
    pub(super) starved: u16,
    /// Number of packets that the buffers at its end are sending.
    pub(super) reading: u8,
    /// Whether a packet in the buffers at its end waits for one of these to be through.
    pub(super) held: bool,
}

const _: () = assert!(size_of::<Busy>() == 64);

/// When to count and when to stop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// When counting begins.
    pub(super) from: u64,
    /// When the run ends.
    pub(super) until: u64,
    /// How long it goes on after a change of tables, if it does not end before.
    pub(super) afterwards: u64,
}

/// The counts of a run.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    pub(super) latency: Histogram,
    /// Packets that arrived in the counted time.
    pub(super) packets: u64,
    /// Number of times that packets left a switch in the counted time.
    pub(super) hops: u64,
    /// Bytes that arrived, by source.
    pub(super) by_source: Vec<u64>,
    /// When the last packet arrived.
    pub(super) finished: u64,
    /// Packets that hosts created, and that arrived, at any time.
    pub(super) made: u64,
    pub(super) delivered: u64,
    pub(super) events: u64,
}
