//! The state of a run: packets, queues and lanes, wires, and counts.

use super::model::CREDIT;
use super::stats::Histogram;

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
    /// The lane that the head waits for, [`NONE`] while it does not wait.
    pub(super) wants: u32,
    /// The next queue in the list of that lane.
    pub(super) next: u32,
    /// When the previous packet has left.
    pub(super) free: u64,
    /// Since when the head waits.
    pub(super) since: u64,
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
}

/// The variable part of a wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Busy {
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
    /// By lane: bytes that left in the counted time.
    pub(super) by_lane: Vec<u64>,
    /// When the last packet arrived.
    pub(super) finished: u64,
    /// Packets that hosts created, and that arrived, at any time.
    pub(super) made: u64,
    pub(super) delivered: u64,
    pub(super) events: u64,
}
