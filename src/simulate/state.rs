//! What a run keeps: packets, queues and lanes, wires, and what was counted.

use super::model::CREDIT;
use super::stats::Histogram;

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
    pub(super) tail: u32,
    /// The lane that the head waits for, [`NONE`] while it does not wait.
    pub(super) wants: u32,
    /// The next one in the list of that lane.
    pub(super) next: u32,
    /// When the packet before has left.
    pub(super) free: u64,
    /// Since when the head waits.
    pub(super) since: u64,
    /// The wire at whose end it is; [`NONE`] for a send queue.
    pub(super) wire: u32,
    /// Of the lane: credits of which the sender knows.
    pub(super) credits: i32,
    /// Queues whose heads want to go here, in the order in which they came.
    pub(super) first: u32,
    pub(super) last: u32,
    /// The queue that was served last.
    pub(super) served: u32,
    /// How many credits are on their way back, the first of them, and where the ring with the others
    /// begins.
    pub(super) backs: u16,
    pub(super) back: u16,
    pub(super) soonest: u64,
}

/// What changes about a wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Busy {
    /// When the packet on it is through.
    pub(super) until: u64,
    /// For when it has an event, `u64::MAX` for none. Others are out of date.
    pub(super) wake: u64,
    /// VLs for which somebody waits.
    pub(super) waiting: u16,
    /// VLs for which somebody waits for credits of which none is on its way.
    pub(super) starved: u16,
    /// Packets that the buffers at its end are sending.
    pub(super) reading: u8,
    /// Somebody in the buffers at its end waits for one of these to be through.
    pub(super) held: bool,
}

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
