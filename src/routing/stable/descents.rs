//! The last channels of the paths to each adapter, where paths are to meet before their end.

use rayon::prelude::*;

use super::expected::rate;
use super::turns::{Request, Turns};
use super::{ChannelHashes, hash_of, mix};
use crate::fabric::{ChannelId, Fabric, Lid, Role, SwitchId};
use crate::routing::{Hops, with_and_without_adapters};

/// The most channels that are marked for a LID: trees of four levels have that many down.
const DEPTH: u8 = 3;

/// For each LID of an adapter the channels with which its paths should end, the last one first.
///
/// In a tree of switches a path goes up and comes down, and the descent matters: there is one path down from
/// each top switch. If every source descends over the same channels, the traffic of no two adapters need share
/// one, which makes a fat tree non-blocking. So from each adapter backwards one channel is marked for each hop:
/// half as many as the longest path has, and three at most.
///
/// A switch marks the channels into it for all adapters whose marked paths pass it at once. Adapters take turns
/// (see `turns.rs`): each prefers the channel that is its turn, then the others in the order of a hash. Each
/// channel keeps as many adapters as its even share, those whose turn it is first, then in the order of another
/// hash (deferred acceptance, Gale and Shapley 1962; as consistent hashing with bounded loads, Mirrokni, Thorup and
/// Zadimoghaddam 2018). The result does not depend on the order of requests. If a channel is lost, its adapters
/// move, and as many others as they displace.
///
/// Neighbours expected to deliver less than half the traffic of the busiest are ignored, whatever their number
/// of channels, as they may have lost some. Where only one channel is left none is marked: the paths that end
/// there find it anyway.
#[derive(Debug, Default)]
pub(super) struct DescentChannels {
    /// By LID.
    marked: Vec<Vec<ChannelId>>,
}

/// The channels into each switch near a target from the neighbours that deliver most of the traffic to it.
pub(super) struct Ingress {
    target: SwitchId,
    into: Vec<(SwitchId, Vec<ChannelId>)>,
}

impl DescentChannels {
    /// - `ingress`: of every switch with adapters, as deep as [`depth`] says.
    ///
    /// Cost: O(D L d) time with D LIDs, L marked channels a LID and d channels of a switch; L is 1 on trees of
    /// two levels and 2 on trees of three.
    pub(super) fn new(fabric: &Fabric, hashes: &ChannelHashes, ingress: &[Ingress], depth: u8) -> Self {
        let mut index_of = vec![usize::MAX; fabric.num_switches()];
        let mut requests: Vec<Vec<Request>> = vec![Vec::new(); fabric.num_switches()];
        for (i, &Ingress { target, .. }) in ingress.iter().enumerate() {
            index_of[target.index()] = i;
            let ends = fabric.endports_on(target).iter().map(|&e| fabric.endport(e));
            for end in ends.filter(|e| e.is_adapter()) {
                let role = fabric.duty(end).role;
                let Some((_, port)) = end.attachment else { continue };
                let of =
                    |(lid, n)| Request { lid, hash: hash_of(end, n), target, role, port, left: n as usize };
                requests[target.index()].extend(end.lids().zip(0..).map(of));
            }
        }
        let mut marked = vec![Vec::new(); fabric.lid_table_len()];
        for _ in 0..depth {
            let channels_for = |s: SwitchId, request: &Request| {
                let near = &ingress[index_of[request.target.index()]].into;
                let here = near.iter().find(|&&(at, _)| at == s).map(|(_, channels)| channels.as_slice());
                // Requests with a single choice would all crowd that channel.
                here.filter(|channels| channels.len() > 1).unwrap_or_default()
            };
            let turns = Turns::new(fabric, &requests, channels_for);
            let assigned = requests.par_iter().enumerate().map(|(s, requests)| {
                let s = SwitchId::at(s);
                // Service nodes for themselves, so that they take no channel from the others.
                let assigned = |service| {
                    let of = requests.iter().filter(|request| (request.role == Role::Service) == service);
                    let of: Vec<Request> = of.copied().collect();
                    let at = |request: &Request| channels_for(s, request);
                    let key =
                        |request: &Request, c| (!turns.is_at(s, request, c), hashes.with(c, request.hash));
                    assign(&of, at, key, fabric.weights().by_channel())
                };
                [false, true].into_iter().flat_map(assigned).collect()
            });
            let assigned: Vec<Vec<(Request, ChannelId)>> = assigned.collect();
            requests.iter_mut().for_each(Vec::clear);
            for (s, assigned) in fabric.switch_ids().zip(assigned) {
                for (request, channel) in assigned {
                    let from = fabric.channels().get(channel);
                    let left = turns.left(s, &request);
                    marked[request.lid.index()].push(channel);
                    requests[from.from.index()].push(Request { port: from.out_port, left, ..request });
                }
            }
        }
        Self { marked }
    }

    /// The channels with which paths to a LID should end.
    pub(super) fn of(&self, lid: Lid) -> &[ChannelId] {
        self.marked.get(lid.index()).map_or(&[], Vec::as_slice)
    }
}

/// How many channels are marked for a LID.
pub(super) fn depth(fabric: &Fabric, hops: &Hops) -> u8 {
    let (leaves, _) = with_and_without_adapters(fabric);
    let longest = leaves.iter().flat_map(|&a| leaves.iter().map(move |&b| hops.get(a, b))).max();
    longest.unwrap_or(0).div_ceil(2).min(DEPTH)
}

/// The channels into each switch nearer than `depth` to a target, from neighbours that deliver at least half of
/// what the busiest delivers. A slow channel counts as if it had the usual rate.
///
/// - `flow`: by channel, the expected load on the paths to the target.
///
/// Memory: O(d^depth) with d channels of a switch.
pub(super) fn ingress(fabric: &Fabric, hops: &Hops, depth: u8, target: SwitchId, flow: &[u64]) -> Ingress {
    let (row, weights) = (hops.row(target), fabric.weights());
    let near = fabric.switch_ids().filter(|s| row[s.index()] < depth);
    let into = near.filter_map(|s| {
        let into = || fabric.channels().out(s).filter(|(_, c)| flow[c.reverse.index()] > 0);
        // What each neighbour delivers, and what it would deliver over channels of the usual rate.
        let mut by_switch: Vec<(SwitchId, u64, u64)> = Vec::new();
        for (_, c) in into() {
            let (flow, weight) =
                (flow[c.reverse.index()], u64::from(weights.by_channel()[c.reverse.index()]));
            let here = (flow * weights.usual(), flow * weight.max(weights.usual()));
            match by_switch.iter_mut().find(|(from, ..)| *from == c.to) {
                Some((_, real, usual)) => (*real, *usual) = (*real + here.0, *usual + here.1),
                None => by_switch.push((c.to, here.0, here.1)),
            }
        }
        let most = by_switch.iter().map(|&(_, real, _)| real).max()?;
        let enough = |from| by_switch.iter().any(|&(other, _, usual)| other == from && 2 * usual >= most);
        Some((s, into().filter(|(_, c)| enough(c.to)).map(|(_, c)| c.reverse).collect()))
    });
    Ingress { target, into: into.collect() }
}

/// Gives each request one of the channels that are open to it, and each channel its even share, by its rate.
///
/// - `key`: least for the channel that a request prefers. A channel keeps those that prefer it, then by the hash.
fn assign<'a>(
    requests: &[Request],
    channels_for: impl Fn(&Request) -> &'a [ChannelId],
    key: impl Fn(&Request, ChannelId) -> (bool, u64),
    weights: &[u8],
) -> Vec<(Request, ChannelId)> {
    let mut preferences: Vec<(Request, Vec<ChannelId>)> = Vec::with_capacity(requests.len());
    let mut channels: Vec<ChannelId> = Vec::new();
    for request in requests {
        let mut list = channels_for(request).to_vec();
        if list.is_empty() {
            continue;
        }
        channels.extend(&list);
        list.sort_by_cached_key(|&c| (key(request, c), c));
        preferences.push((*request, list));
    }
    channels.sort_unstable();
    channels.dedup();
    if channels.is_empty() {
        return Vec::new();
    }
    // First as many as every channel can have, so that none stays empty; then one more.
    let rate_of = |channel: &ChannelId| rate(weights[channel.index()]);
    let rates: u64 = channels.iter().map(rate_of).sum();
    let share = |channel: &ChannelId| (preferences.len() as u64 * rate_of(channel) / rates) as usize;
    let shares: Vec<usize> = channels.iter().map(share).collect();
    let mut held: Vec<Vec<usize>> = shares.iter().map(|share| Vec::with_capacity(share + 2)).collect();
    let mut got: Vec<Option<ChannelId>> = vec![None; preferences.len()];
    let mut asking: Vec<usize> = (0..preferences.len()).rev().collect();
    for more in [0, 1] {
        let mut asked = vec![0; preferences.len()];
        let mut refused = Vec::new();
        while let Some(i) = asking.pop() {
            let Some(&channel) = preferences[i].1.get(asked[i]) else {
                refused.push(i);
                continue;
            };
            let Ok(at) = channels.binary_search(&channel) else { continue };
            let held = &mut held[at];
            held.push(i);
            if held.len() > shares[at] + more {
                let order = |&&i: &&usize| {
                    let (later, hash) = key(&preferences[i].0, channel);
                    (later, mix(hash), i)
                };
                let worst = held.iter().max_by_key(order).copied().unwrap_or(i);
                held.retain(|&h| h != worst);
                asked[worst] += 1;
                asking.push(worst);
            }
        }
        refused.sort_unstable_by(|a, b| b.cmp(a));
        asking = refused;
    }
    // Refused everywhere: they take their first preference, beyond the share.
    for i in asking {
        got[i] = preferences[i].1.first().copied();
    }
    for (channel, held) in channels.iter().zip(held) {
        for i in held {
            got[i] = Some(*channel);
        }
    }
    preferences.iter().zip(got).filter_map(|((request, _), got)| Some((*request, got?))).collect()
}
