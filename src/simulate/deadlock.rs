//! Deadlock, exactly: the greatest set of buffers each of which waits for another one of the set.
//!
//! A buffer is in the set if each of its queues that has packets has a head that waits for a lane, the
//! buffer behind that lane is in the set, and the credits of that lane, those on their way back included,
//! are fewer than the head needs. Then nothing leaves any buffer of the set, ever: what could bring more
//! credits is a departure from the set. The other way round, if the set is empty, some packet can move.

use super::kernel::Kernel;
use super::network::NONE;
use crate::fabric::{ChannelId, Lid, Sl, Vl};
use crate::verify::{Packet, Wait};

/// A deadlock.
#[derive(Clone, Debug, PartialEq)]
pub struct Stuck {
    /// When its cycle closed, in picoseconds.
    pub time: u64,
    /// Channels that wait for each other, each for the next one and the last for the first, and the
    /// packets that wait.
    pub cycle: Vec<Wait>,
    /// Packets in all buffers that will never move again.
    pub packets: u64,
    /// How many (channel, VL) buffers these are.
    pub buffers: usize,
}

/// Cost: O(queues), plus what is taken away.
pub(super) fn find(kernel: &Kernel<'_>) -> Option<Stuck> {
    let net = kernel.net;
    let vls = net.vls;
    let queues_of = |lane: usize| {
        let wire = &net.wires[lane / vls];
        let first = (wire.first_queue + (lane % vls) as u32 * wire.queues) as usize;
        first..first + wire.queues as usize
    };
    // Who waits without end as far as its own lane can tell.
    let short = |q: usize| {
        let queue = &kernel.queues[q];
        if queue.head == NONE {
            return true;
        }
        let packet = &kernel.packets[queue.head as usize];
        queue.wants != NONE
            && kernel.credits_to_come(queue.wants as usize) < i32::from(packet.bytes.div_ceil(64))
    };
    let has_packets = |lane: usize| queues_of(lane).any(|q| kernel.queues[q].head != NONE);
    let lanes = kernel.lanes.len();
    let mut stuck: Vec<bool> =
        (0..lanes).map(|lane| has_packets(lane) && queues_of(lane).all(short)).collect();
    if !stuck.contains(&true) {
        return None;
    }
    let heads = |lane: usize| queues_of(lane).filter(|&q| kernel.queues[q].head != NONE);
    loop {
        let leaves = |lane: usize, stuck: &[bool]| {
            stuck[lane] && heads(lane).any(|q| !stuck[kernel.queues[q].wants as usize])
        };
        let mut changed = false;
        for lane in 0..lanes {
            if leaves(lane, &stuck) {
                stuck[lane] = false;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let members: Vec<usize> = (0..lanes).filter(|&lane| stuck[lane]).collect();
    let packets = members.iter().flat_map(|&lane| queues_of(lane)).map(|q| kernel.in_queue(q).count() as u64);
    let cycle = first_cycle(kernel, &members, &heads)?;
    Some(Stuck {
        time: cycle.0,
        cycle: cycle.1,
        packets: packets.sum(),
        buffers: members.iter().filter(|&&lane| net.channel_of((lane / vls) as u32).is_some()).count(),
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
    let after = |lane: usize| first_head(lane).map(|q| kernel.queues[q].wants as usize);
    // 0: not seen; otherwise the number of the walk that saw it.
    let mut seen = vec![0_u32; kernel.lanes.len()];
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
        // It is closed once the last head waits and the last packet has gone where it fills a buffer.
        let closed = |&lane: &usize| {
            let waits = first_head(lane).map_or(0, |q| kernel.queues[q].since);
            let delay = net.wires[lane / net.vls].delay;
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
        let channel: ChannelId = net.channel_of((lane / net.vls) as u32)?;
        let packet = &kernel.packets[kernel.queues[first_head(lane)?].head as usize];
        let source = net.hosts[usize::from(packet.source)].endport;
        let packet = Packet { source, dlid: Lid::new(packet.dlid)?, sl: Sl(packet.sl) };
        Some(Wait { channel, vl: Vl((lane % net.vls) as u8), packet })
    };
    let mut cycle: Vec<Wait> = cycle.iter().filter_map(wait).collect();
    // The lowest channel first, so that a cycle is told in one way.
    let lowest = (0..cycle.len()).min_by_key(|&i| (cycle[i].channel, cycle[i].vl))?;
    cycle.rotate_left(lowest);
    Some((time, cycle))
}
