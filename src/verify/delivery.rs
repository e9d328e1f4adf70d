//! Delivery of multicast packets: which end ports get them, and how often.

use super::Plan;
use super::multicast_fault::McastFault;
use crate::fabric::{ChannelId, EndPortId, PortNum, SwitchId};
use crate::tables::{McastGroup, PortSet};

/// The channels by which a group's packets go from a switch to another one that forwards them.
fn next_channels<'a>(
    plan: &'a Plan<'_>,
    group: &'a McastGroup,
    s: SwitchId,
) -> impl Iterator<Item = ChannelId> + 'a {
    let channels = plan.fabric.channels();
    let all = group.at(s).iter().filter_map(move |port| channels.at_port(s, port));
    all.filter(move |&c| !group.at(channels.get(c).to).is_empty())
}

/// A cycle of channels of a group, if there is one: channels that lead to no remaining channel are
/// removed until none can be.
pub(super) fn forwarding_loop(plan: &Plan<'_>, group: &McastGroup) -> Option<McastFault> {
    let channels = plan.fabric.channels();
    let list: Vec<ChannelId> = group.ports.iter().flat_map(|&(s, _)| next_channels(plan, group, s)).collect();
    let on = |c: ChannelId| {
        let c = channels.get(c);
        next_channels(plan, group, c.to).filter(|&d| d != c.reverse)
    };
    let mut count = vec![0_usize; channels.len()];
    let mut left = vec![false; channels.len()];
    for &c in &list {
        count[c.index()] = on(c).count();
        left[c.index()] = true;
    }
    let mut done: Vec<ChannelId> = list.iter().copied().filter(|c| count[c.index()] == 0).collect();
    while let Some(d) = done.pop() {
        left[d.index()] = false;
        let from = channels.get(d).from;
        let into = channels.out(from).map(|(_, back)| back.reverse).filter(|&c| c != channels.get(d).reverse);
        for c in into.filter(|c| left[c.index()]) {
            count[c.index()] -= 1;
            if count[c.index()] == 0 {
                done.push(c);
            }
        }
    }
    let mut at = list.into_iter().find(|c| left[c.index()])?;
    let mut path: Vec<ChannelId> = Vec::new();
    while !path.contains(&at) {
        path.push(at);
        at = on(at).find(|d| left[d.index()]).expect("what is left leads on to what is left");
    }
    let first = path.iter().position(|&c| c == at).unwrap_or(0);
    Some(McastFault::Loop { mlid: group.mlid, channels: path.split_off(first) })
}

/// Whether a group uses every channel in both directions.
fn there_and_back(plan: &Plan<'_>, group: &McastGroup) -> bool {
    let channels = plan.fabric.channels();
    group.ports.iter().flat_map(|&(s, _)| next_channels(plan, group, s)).all(|c| {
        let back = channels.get(channels.get(c).reverse);
        group.at(back.from).contains(back.out_port)
    })
}

/// A member that does not get another one's packets.
pub(super) fn unreached(plan: &Plan<'_>, group: &McastGroup) -> Option<McastFault> {
    let fabric = plan.fabric;
    let channels = fabric.channels();
    let member = |&(s, set): &(SwitchId, PortSet)| {
        let ends = fabric.endports_on(s).iter().copied();
        let mut ends = ends.filter(|e| set.contains(PortNum(plan.injection_port[e.index()])));
        ends.next().map(|e| (s, e))
    };
    let members: Vec<(SwitchId, EndPortId)> = group.ports.iter().filter_map(member).collect();
    // If every channel is used in both directions, one sender represents all.
    let senders = if there_and_back(plan, group) { &members[..members.len().min(1)] } else { &members[..] };
    senders.iter().find_map(|&(start, from)| {
        let mut met = vec![false; fabric.num_switches()];
        met[start.index()] = true;
        let mut queue: Vec<(SwitchId, Option<ChannelId>)> = vec![(start, None)];
        while let Some((s, came)) = queue.pop() {
            let back = came.map(|c| channels.get(c).reverse);
            for c in next_channels(plan, group, s).filter(|&c| Some(c) != back) {
                let to = channels.get(c).to;
                if !std::mem::replace(&mut met[to.index()], true) {
                    queue.push((to, Some(c)));
                }
            }
        }
        let missed = members.iter().find(|(s, _)| !met[s.index()]);
        missed.map(|&(_, to)| McastFault::Unreachable { mlid: group.mlid, from, to })
    })
}

/// An end port that gets a packet of another one twice. `loops`: whether packets of the group loop.
///
/// Over each channel a packet arrives as often as over all channels before it together; counted up
/// to two. A packet that returns to its sender loops, and so arrives twice.
///
/// Cost: O(channels of the group) if every channel is used in both directions; else O(channels x
/// ports) per switch of the group.
pub(super) fn twice(plan: &Plan<'_>, group: &McastGroup, loops: bool) -> Option<McastFault> {
    // Without a loop these channels form a tree, with one path to each of its switches.
    if !loops && there_and_back(plan, group) {
        return None;
    }
    let channels = plan.fabric.channels();
    group.ports.iter().find_map(|&(start, _)| {
        let mut times = vec![0_u8; channels.len()];
        let mut open: Vec<ChannelId> = next_channels(plan, group, start).collect();
        while let Some(id) = open.pop() {
            if times[id.index()] < 2 {
                times[id.index()] += 1;
                let c = channels.get(id);
                open.extend(next_channels(plan, group, c.to).filter(|&d| d != c.reverse));
            }
        }
        group.ports.iter().find_map(|&(s, set)| {
            let come: u32 = channels.out(s).map(|(_, c)| u32::from(times[c.reverse.index()])).sum();
            let gets = |e: &&EndPortId| set.contains(PortNum(plan.injection_port[e.index()]));
            let to = plan.fabric.endports_on(s).iter().find(gets).filter(|_| come > 1)?;
            let from = plan.fabric.endports_on(start).first()?;
            Some(McastFault::Twice { mlid: group.mlid, from: *from, to: *to })
        })
    })
}
