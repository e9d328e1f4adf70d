//! Exact deadlock detection: the greatest set of buffers that each wait for another one in the set.
//!
//! A buffer is in the set if each of its non-empty queues has a head that waits for a lane, the
//! buffer behind that lane is in the set, and the lane's credits, including those on their way
//! back, are fewer than the head needs. Then no packet ever leaves the set: only a departure from
//! the set could return more credits. Conversely, if the set is empty, some packet can move.

use super::SimulateError;
use super::kernel::{Kernel, Pause};
use super::network::NONE;
use crate::fabric::{ChannelId, Lid, Sl, Vl};
use crate::verify::{Packet, Wait};

/// A deadlock.
#[derive(Clone, Debug, PartialEq)]
pub struct Stuck {
    /// When its cycle closed, in picoseconds.
    pub time: u64,
    /// Channels that wait for each other, each for the next one and the last for the first, and the
    /// waiting packets.
    pub cycle: Vec<Wait>,
    /// Packets in all buffers that will never move again.
    pub packets: u64,
    /// Number of these (channel, VL) buffers.
    pub buffers: usize,
}

/// Runs to the end or into a deadlock. Calls `stop` from time to time.
///
/// # Errors
/// [`SimulateError::Interrupted`] if `stop` returns true; a packet that the tables lead nowhere.
pub(super) fn run(kernel: &mut Kernel<'_>, stop: &dyn Fn() -> bool) -> Result<Option<Stuck>, SimulateError> {
    while let Pause::Check = kernel.run()? {
        if stop() {
            return Err(SimulateError::Interrupted);
        }
        let stuck = find(kernel);
        if stuck.is_some() {
            return Ok(stuck);
        }
    }
    // It may have closed since the last search.
    Ok(find(kernel))
}

/// Cost: O(queues), plus the removals.
fn find(kernel: &Kernel<'_>) -> Option<Stuck> {
    let net = kernel.net;
    let lanes: Vec<usize> =
        net.wires.iter().flat_map(|w| (0..net.vls).map(move |vl| w.lane(vl as u32) as usize)).collect();
    let queues_of = |lane: usize| lane..lane + net.wires[kernel.slots[lane].wire as usize].queues as usize;
    // Candidates: buffers that wait forever as far as their own lane shows.
    let short = |q: usize| {
        let slot = &kernel.slots[q];
        if slot.head == NONE {
            return true;
        }
        let packet = &kernel.packets[slot.head as usize];
        slot.waits() && kernel.credits_to_come(slot.wants) < packet.credits()
    };
    let has_packets = |lane: usize| queues_of(lane).any(|q| kernel.slots[q].head != NONE);
    // By lane.
    let mut stuck = vec![false; net.num_queues as usize];
    for &lane in &lanes {
        stuck[lane] = has_packets(lane) && queues_of(lane).all(short);
    }
    if !stuck.contains(&true) {
        return None;
    }
    let heads = |lane: usize| queues_of(lane).filter(|&q| kernel.slots[q].head != NONE);
    loop {
        let leaves = |lane: usize, stuck: &[bool]| {
            stuck[lane] && heads(lane).any(|q| !stuck[kernel.slots[q].wants as usize])
        };
        let mut changed = false;
        for &lane in &lanes {
            if leaves(lane, &stuck) {
                stuck[lane] = false;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let members: Vec<usize> = lanes.into_iter().filter(|&lane| stuck[lane]).collect();
    let packets = members.iter().flat_map(|&lane| queues_of(lane)).map(|q| kernel.in_queue(q).count() as u64);
    let cycle = first_cycle(kernel, &members, &heads)?;
    Some(Stuck {
        time: cycle.0,
        cycle: cycle.1,
        packets: packets.sum(),
        buffers: members.iter().filter(|&&lane| net.channel_of(kernel.slots[lane].wire).is_some()).count(),
    })
}

/// The cycle that closed first, following the first head of each buffer: (when, channels).
fn first_cycle<I: Iterator<Item = usize>>(
    kernel: &Kernel<'_>,
    members: &[usize],
    heads: &impl Fn(usize) -> I,
) -> Option<(u64, Vec<Wait>)> {
    let net = kernel.net;
    let first_head = |lane: usize| heads(lane).next();
    let after = |lane: usize| first_head(lane).map(|q| kernel.slots[q].wants as usize);
    // 0: not seen; otherwise the number of the walk that saw it.
    let mut seen = vec![0_u32; kernel.slots.len()];
    let mut found: Option<(u64, Vec<usize>)> = None;
    for (&start, walk) in members.iter().zip(1..) {
        let mut lane = start;
        while seen[lane] == 0 {
            seen[lane] = walk;
            lane = after(lane)?;
        }
        if seen[lane] != walk {
            continue;
        }
        let mut cycle = vec![lane];
        let mut next = after(lane)?;
        while next != lane {
            cycle.push(next);
            next = after(next)?;
        }
        // It is closed once the last head waits and the last packet has arrived in the buffer that
        // it fills.
        let closed = |&lane: &usize| {
            // Since when a head waits: it had come, and the packet before it had left.
            let since = |q: usize| {
                let slot = &kernel.slots[q];
                kernel.packets[slot.head as usize].ready.max(slot.free)
            };
            let waits = first_head(lane).map_or(0, since);
            let delay = u64::from(net.wires[kernel.slots[lane].wire as usize].delay);
            let last = heads(lane).flat_map(|q| kernel.in_queue(q)).map(|p| p.ready - delay).max();
            waits.max(last.unwrap_or(0))
        };
        let time = cycle.iter().map(closed).max().unwrap_or(0);
        if found.as_ref().is_none_or(|(earliest, _)| time < *earliest) {
            found = Some((time, cycle));
        }
    }
    let (time, cycle) = found?;
    let wait = |&lane: &usize| {
        let wire = kernel.slots[lane].wire;
        let channel: ChannelId = net.channel_of(wire)?;
        let spec = &net.wires[wire as usize];
        let vl = Vl(((lane - spec.first_queue as usize) / spec.queues as usize) as u8);
        let packet = &kernel.packets[kernel.slots[first_head(lane)?].head as usize];
        let source = net.hosts[usize::from(packet.source)].endport;
        let packet = Packet { source, dlid: Lid::new(packet.dlid)?, sl: Sl(packet.sl) };
        Some(Wait { channel, vl, packet })
    };
    let mut cycle: Vec<Wait> = cycle.iter().filter_map(wait).collect();
    // The lowest channel first, so that a cycle has one representation.
    let lowest = (0..cycle.len()).min_by_key(|&i| (cycle[i].channel, cycle[i].vl))?;
    cycle.rotate_left(lowest);
    Some((time, cycle))
}
