//! Which way the last channels to each adapter are, where ways are to meet before their end.

use rayon::prelude::*;

use super::{Keys, mix};
use crate::fabric::{ChannelId, Fabric, Lid, SwitchId};
use crate::routing::{Hops, with_and_without_adapters};

/// The most channels that are marked for a LID: trees of four levels have that many down.
const DEPTH: u8 = 3;

/// For each LID of an adapter the channels that its ways should end with, the last one first.
///
/// In a tree of switches a way goes up and comes down, and what counts is where it comes down: there
/// is one way down from each top. Where every source comes down by the same channels no two
/// adapters' traffic need share one of them, which is what makes a fat tree non-blocking. So from
/// each adapter backwards one channel is marked for each hop, half as many as the longest way has, and three at most.
///
/// A switch marks the channels into it for the adapters whose marked ways pass it, all in one go:
/// each adapter asks for the channels in the order of a hash, and each channel keeps, by another
/// order, as many as are its even share (deferred acceptance, Gale and Shapley 1962; as consistent
/// hashing with bounded loads, Mirrokni, Thorup and Zadimoghaddam 2018). What comes out does not
/// depend on the order of asking, and if a channel is lost, its adapters move, and as many others
/// as they push aside. Channels from a switch that is expected to bring less than half as much as the one
/// that brings most are left out; over how many of them it does so is all the same, as it may have lost some.
/// Where only one channel is left none is marked, and what comes over it is what finds it on its way.
#[derive(Debug, Default)]
pub(super) struct Tails {
    /// By LID.
    marked: Vec<Vec<ChannelId>>,
}

/// An adapter's LID at a switch that its marked way passes.
#[derive(Clone, Copy)]
struct Guest {
    lid: Lid,
    key: u64,
    target: SwitchId,
}

/// The channels into each switch near a target from those switches that bring most of what goes there.
pub(super) struct Entrances {
    target: SwitchId,
    into: Vec<(SwitchId, Vec<ChannelId>)>,
}

impl Tails {
    /// - `entrances`: of every switch with adapters, as deep as [`depth`] says.
    ///
    /// Cost: O(D L d) time with D LIDs, L marked channels a LID and d channels of a switch; L is 1 on trees of two
    /// levels and 2 on trees of three.
    pub(super) fn new(fabric: &Fabric, keys: &Keys, entrances: &[Entrances], depth: u8) -> Self {
        let mut place = vec![usize::MAX; fabric.num_switches()];
        let mut guests: Vec<Vec<Guest>> = vec![Vec::new(); fabric.num_switches()];
        for (i, &Entrances { target, .. }) in entrances.iter().enumerate() {
            place[target.index()] = i;
            let ends = fabric.endports_on(target).iter().map(|&e| fabric.endport(e));
            for end in ends.filter(|e| e.is_adapter()) {
                guests[target.index()].extend(end.lids().zip(0..).map(|(lid, n)| Guest {
                    lid,
                    key: super::key_of(end, n),
                    target,
                }));
            }
        }
        let mut marked = vec![Vec::new(); fabric.lid_table_len()];
        for _ in 0..depth {
            let dealt = guests.par_iter().enumerate().map(|(s, guests)| {
                let s = SwitchId::at(s);
                let ask = |guest: &Guest| {
                    let near = &entrances[place[guest.target.index()]].into;
                    let here = near.iter().find(|&&(at, _)| at == s).map(|(_, channels)| channels.as_slice());
                    // Who has but one to ask for would draw everybody to it.
                    here.filter(|channels| channels.len() > 1).unwrap_or_default()
                };
                deal(guests, ask, keys)
            });
            let dealt: Vec<Vec<(Guest, ChannelId)>> = dealt.collect();
            guests.iter_mut().for_each(Vec::clear);
            for (guest, channel) in dealt.into_iter().flatten() {
                marked[guest.lid.index()].push(channel);
                guests[fabric.channels().get(channel).from.index()].push(guest);
            }
        }
        Self { marked }
    }

    /// The channels that ways to a LID should end with.
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

/// The channels into each switch nearer than `depth` to a target that bring something, from switches that bring at
/// least half of what the busiest brings.
///
/// - `flow`: by channel, what can be expected on the way there.
///
/// Memory: O(d^depth) with d channels of a switch.
pub(super) fn entrances(
    fabric: &Fabric,
    hops: &Hops,
    depth: u8,
    target: SwitchId,
    flow: &[u64],
) -> Entrances {
    let row = hops.row(target);
    let near = fabric.switch_ids().filter(|s| row[s.index()] < depth);
    let into = near.filter_map(|s| {
        let into = || fabric.channels().out(s).filter(|(_, c)| flow[c.reverse.index()] > 0);
        let mut by_switch: Vec<(SwitchId, u64)> = Vec::new();
        for (_, c) in into() {
            match by_switch.iter_mut().find(|(from, _)| *from == c.to) {
                Some((_, sum)) => *sum += flow[c.reverse.index()],
                None => by_switch.push((c.to, flow[c.reverse.index()])),
            }
        }
        let most = by_switch.iter().map(|&(_, sum)| sum).max()?;
        let enough = |from: SwitchId| by_switch.iter().any(|&(other, sum)| other == from && 2 * sum >= most);
        Some((s, into().filter(|(_, c)| enough(c.to)).map(|(_, c)| c.reverse).collect()))
    });
    Entrances { target, into: into.collect() }
}

/// Gives each guest one of the channels that it may ask for, and each channel its even share.
fn deal<'a>(
    guests: &[Guest],
    ask: impl Fn(&Guest) -> &'a [ChannelId],
    keys: &Keys,
) -> Vec<(Guest, ChannelId)> {
    let liking = |guest: &Guest, c: ChannelId| mix(keys.channel(c) ^ guest.key);
    let mut wishes: Vec<(Guest, Vec<ChannelId>)> = Vec::with_capacity(guests.len());
    let mut channels: Vec<ChannelId> = Vec::new();
    for guest in guests {
        let mut list = ask(guest).to_vec();
        if list.is_empty() {
            continue;
        }
        channels.extend(&list);
        list.sort_unstable_by_key(|&c| (liking(guest, c), c));
        wishes.push((*guest, list));
    }
    channels.sort_unstable();
    channels.dedup();
    if channels.is_empty() {
        return Vec::new();
    }
    // As many as all can have at first, so that none stays empty; then one more.
    let share = wishes.len() / channels.len();
    let mut held: Vec<Vec<usize>> = vec![Vec::with_capacity(share + 2); channels.len()];
    let mut got: Vec<Option<ChannelId>> = vec![None; wishes.len()];
    let mut asking: Vec<usize> = (0..wishes.len()).rev().collect();
    for share in [share, share + 1] {
        let mut asked = vec![0; wishes.len()];
        let mut refused = Vec::new();
        while let Some(i) = asking.pop() {
            let Some(&channel) = wishes[i].1.get(asked[i]) else {
                refused.push(i);
                continue;
            };
            let Ok(at) = channels.binary_search(&channel) else { continue };
            let held = &mut held[at];
            held.push(i);
            if held.len() > share {
                let least = |&&i: &&usize| (mix(liking(&wishes[i].0, channel)), i);
                let worst = held.iter().max_by_key(least).copied().unwrap_or(i);
                held.retain(|&h| h != worst);
                asked[worst] += 1;
                asking.push(worst);
            }
        }
        refused.sort_unstable_by(|a, b| b.cmp(a));
        asking = refused;
    }
    // Refused wherever they asked: they go where they like best, beyond the share.
    for i in asking {
        got[i] = wishes[i].1.first().copied();
    }
    for (channel, held) in channels.iter().zip(held) {
        for i in held {
            got[i] = Some(*channel);
        }
    }
    wishes.iter().zip(got).filter_map(|((guest, _), got)| Some((*guest, got?))).collect()
}
