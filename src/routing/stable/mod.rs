//! Globally balanced minimal paths that stay where they are when something else fails.

mod expected;
mod local;
mod settled;
mod tails;
#[cfg(test)]
mod tests;

use rayon::prelude::*;

use self::expected::{Expected, Prices};
use self::local::{Goal, Local};
use self::tails::{Tails, depth, entrances};
use super::outward::{Outward, for_each_target_here};
use super::port0::{enter, ways_to_port_0};
use super::ways::{Detours, Mender, Toll};
use super::{Hops, Lookahead, Ranked, Stuck, adapters_by_switch, ends_on, with_and_without_adapters};
use crate::fabric::{ChannelId, EndPort, Fabric, Lid, PortNum, SwitchId};
use crate::ordering::Rule;
use crate::tables::Lft;

/// Targets that one thread routes to before it hands over, and how many all threads do before that
/// is entered into the tables: bounds what has to be kept beside them.
const CHUNK: usize = 16;
const WAVE: usize = 16 * CHUNK;

/// Forwarding tables under a rule, as [`ranked_sssp`](super::ranked_sssp), but such that a failed
/// link changes few of them.
///
/// P-SSSP chooses by the load that all earlier destinations have left behind, so after a change
/// every later choice may come out another way. Here each choice is made from what lies around it:
///
/// 1. What a channel can *expect* to carry takes the place of the load: the routes over it if every
///    switch split its traffic evenly over all its minimal next channels. One failed link changes that
///    by much on few channels only. Where channels fall into links within groups and links between
///    them, the mean over its kind takes the place of what is expected of a single channel.
/// 2. Per destination the minimal-path DAG is walked outward. A switch keeps to the rule first and
///    thinks of those behind it second, as in [`ranked_sssp`](super::ranked_sssp); then all channels are in
///    choice by which the expected load along the way is at most a fifth above the least (a tenth for
///    means), as what a small change does is to carry some choice over that edge.
/// 3. Among those the switch deals out the destinations of one destination switch evenly, in an order
///    that is a hash of the GUIDs at both ends of the channel and of the destination switch (rendezvous
///    hashing, Thaler and Ravishankar 1998). So a destination moves where its own channel is lost, or
///    one comes into choice that its hash prefers.
/// 4. Where many switches have no adapters, as in trees, ways are made to meet instead: for each adapter
///    some last channels are marked (see `tails.rs`), and of all channels that the rule leaves a switch
///    takes the one whose way ends best, whatever the expected load. In damaged trees that would lead all to the few
///    tops that others cannot use.
///
/// Nothing is remembered, so any subnet manager comes to the same tables, whatever it has seen before.
///
/// A switch without a legal way takes a detour, and where the ways of the others leave it none, some of
/// these change theirs for it: that moves less than other labels for the whole fabric would.
///
/// In a Dragonfly the even split shows that ways over two global links crowd those, and they are
/// avoided outright: with 1056 adapters the busiest channel carries 1120 routes, where P-SSSP comes to
/// 1952 and with an order to keep to 1664.
///
/// Under [`Rule::OneVl`] port 0 of a switch without adapters has ways of its own (see `port0.rs`), which go
/// by the rule alone.
///
/// Arguments, result and errors are those of [`ranked_sssp`](super::ranked_sssp). The result is the same for any
/// number of threads; ties of hashes go to the lowest channel.
///
/// Which ways are in choice is found once for all destinations on a switch wherever it is the same for them
/// (see `settled.rs`).
///
/// Cost, over all cores: O(S (S + C + E) + D S) time where it is, O(D E) where it is not, O(E d) a destination
/// more where the rule has labels and that is not; O(S + C) memory a thread.
pub fn stable_sssp(
    fabric: &Fabric,
    hops: &Hops,
    rule: &Rule,
    lookahead: Lookahead,
    stuck: Stuck<'_>,
) -> Ranked {
    let guide = Guide::new(fabric, hops);
    let adapters = adapters_by_switch(fabric);
    let all: u64 = adapters.iter().sum();
    let mut result = Ranked::nothing(fabric);
    let targets: Vec<SwitchId> = match rule {
        Rule::OneVl(rank) => {
            let (with, bare) = with_and_without_adapters(fabric);
            let (rows, left) = ways_to_port_0(fabric, rank, &bare);
            enter(rows, &mut result.lft);
            [with, left].concat()
        }
        _ => fabric.switch_ids().collect(),
    };
    for wave in targets.chunks(WAVE) {
        let parts = wave.par_chunks(CHUNK).map(|targets| {
            let mut part = Part::new(fabric);
            let mut walk = Walk {
                fabric,
                mender: Mender { hops, stuck, adapters: &adapters },
                guide: &guide,
                walk: Local::new(fabric, rule, lookahead, &guide),
            };
            for_each_target_here(fabric, hops, targets, |dag| walk.to(dag, &mut part));
            part
        });
        let parts: Vec<Part> = parts.collect();
        for part in parts {
            let rows = part.ports.chunks_exact(fabric.num_switches().max(1));
            for (&lid, ports) in part.lids.iter().zip(rows) {
                result.lft.to_mut(lid).copy_from_slice(ports);
            }
            result.charge(part.toll);
            result.pairs += part.routed * all.saturating_sub(1);
            result.load.iter_mut().zip(part.load).for_each(|(sum, part)| *sum += part);
        }
        if !result.complete {
            break;
        }
    }
    result
}

/// What choices go by.
struct Guide {
    prices: Prices,
    keys: Keys,
    /// Where ways are to meet.
    tails: Option<Tails>,
}

impl Guide {
    fn new(fabric: &Fabric, hops: &Hops) -> Self {
        let keys = Keys::new(fabric);
        if !has_core_switches(fabric) {
            let expected = Expected::new(fabric, hops, |_, _| ());
            return Self { prices: Prices::new(fabric, expected.load), keys, tails: None };
        }
        let depth = depth(fabric, hops);
        let near = |target, flow: &[u64]| entrances(fabric, hops, depth, target, flow);
        let Expected { load, seen } = Expected::new(fabric, hops, near);
        let tails = Some(Tails::new(fabric, &keys, &seen, depth));
        Self { prices: Prices::new(fabric, load), keys, tails }
    }
}

/// Whether a fair share of the switches, a fifth, is there for others: they have less than a quarter of
/// the adapters of the fullest. Core switches may have an aggregation node each.
pub fn has_core_switches(fabric: &Fabric) -> bool {
    let adapters = adapters_by_switch(fabric);
    let most = adapters.iter().copied().max().unwrap_or(0);
    5 * adapters.iter().filter(|&&n| 4 * n < most).count() >= adapters.len()
}

/// Numbers of their own for channels, made of nothing but GUIDs and ports.
#[derive(Debug)]
struct Keys {
    channels: Vec<u64>,
}

impl Keys {
    fn new(fabric: &Fabric) -> Self {
        let end = |s: SwitchId, port: PortNum| mix(fabric.switch(s).guid.0 ^ u64::from(port.0) << 56);
        let channels = fabric.channels().as_slice().iter();
        let key =
            |c: &crate::fabric::Channel| mix(end(c.from, c.out_port)).wrapping_add(end(c.to, c.in_port));
        Self { channels: channels.map(key).collect() }
    }

    fn channel(&self, channel: ChannelId) -> u64 {
        self.channels[channel.index()]
    }
}

/// A number of its own for LID number `n` of an end port.
fn key_of(end: &EndPort, n: u64) -> u64 {
    mix(end.guid.0).wrapping_add(n)
}

/// Turns a number into one that has nothing to do with it to the eye: Steele, Lea and Flood 2014,
/// with the constants of Stafford's 13th variant.
fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// What came of some targets.
struct Part {
    lids: Vec<Lid>,
    /// Ports by switch, LID by LID.
    ports: Vec<u8>,
    toll: Toll,
    /// LIDs of adapters.
    routed: u64,
    load: Vec<u64>,
}

impl Part {
    fn new(fabric: &Fabric) -> Self {
        Self {
            lids: Vec::new(),
            ports: Vec::new(),
            toll: Toll::default(),
            routed: 0,
            load: vec![0; fabric.channels().len()],
        }
    }
}

/// One thread's way from target to target.
struct Walk<'a> {
    fabric: &'a Fabric,
    mender: Mender<'a>,
    guide: &'a Guide,
    walk: Local<'a>,
}

impl Walk<'_> {
    /// All destinations on the target of a DAG, adapters before port 0.
    fn to(&mut self, dag: &Outward, part: &mut Part) {
        if part.toll.incomplete {
            return;
        }
        let target = dag.target;
        let target_key = mix(self.fabric.switch(target).guid.0);
        self.walk.turn_to(dag, target_key);
        for (end, port) in ends_on(self.fabric, target) {
            for (lid, n) in end.lids().zip(0..) {
                let tail = self.guide.tails.as_ref().map_or(&[][..], |tails| tails.of(lid));
                let goal = Goal { key: key_of(end, n), target_key, tail };
                self.walk.choose(dag, goal);
                if self.walk.any_wrong() {
                    self.mender.mend(&mut self.walk, dag, goal, (end, lid), &mut part.toll);
                    if part.toll.incomplete {
                        return;
                    }
                }
                let row = part.ports.len();
                part.lids.push(lid);
                part.ports.resize(row + self.mender.adapters.len(), Lft::NO_PATH);
                let ports = &mut part.ports[row..];
                self.walk.ways().write(ports);
                ports[target.index()] = port.0;
                if end.is_adapter() {
                    part.routed += 1;
                    self.walk.ways_mut().count(self.mender.adapters, 1, &mut part.load);
                }
            }
        }
    }
}
