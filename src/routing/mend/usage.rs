//! What packets use in the earlier tables: the VLs of each turn, and the routes on each channel.

use std::fmt;
use std::sync::OnceLock;

use rayon::prelude::*;

use super::dependencies::Dependencies;
use super::tables::{Mending, Turns};
use crate::fabric::{ChannelId, Fabric, Lid, SwitchId};
use crate::routing::demand::Demand;

/// What packets use in the earlier tables. It is the same whatever failed since.
pub struct Usage {
    pub(super) turns: Turns,
    /// By channel: the VLs on which end ports of its switch send over it.
    pub(super) injected: Vec<u16>,
    /// By turn: the VL after it.
    pub(super) vl_after: Vec<u8>,
    /// By turn, VLs of packets that take it: unicast and multicast.
    pub(super) before: Vec<u16>,
    pub(super) trees: Vec<u16>,
    /// By turn and VL below `vls`: the destinations whose packets take it.
    users: Vec<u16>,
    vls: usize,
    /// By channel: routes to all adapters.
    pub(super) load: Vec<u64>,
    /// The dependencies of all these, with the VLs that they were made for.
    all: OnceLock<(u8, Option<Dependencies>)>,
}

/// Users and load as in [`Usage`], and a buffer.
type Users = (Vec<u16>, Vec<u64>, Vec<u16>);

impl fmt::Debug for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Usage").field("vls", &self.vls).finish_non_exhaustive()
    }
}

impl Usage {
    /// - `tables`: what is left of their fabric does not matter.
    ///
    /// Cost: O(D S) with D LIDs and S switches, on all cores. Memory: for each turn (a channel and a port of the switch
    /// that it leads to) and VL 4 bytes, and 2 bytes for each core meanwhile.
    pub fn of(tables: &Mending<'_>) -> Self {
        let (fabric, channels) = (tables.fabric, tables.fabric.channels());
        let turns = Turns::new(fabric);
        let injected: Vec<u16> = channels.iter().map(|(c, _)| tables.injected(c)).collect();
        let mut vl_after = vec![0; turns.len];
        for (first, c) in channels.iter() {
            channels
                .out(c.to)
                .for_each(|(second, _)| vl_after[turns.of(first, second)] = tables.vl_after(first, second));
        }
        let all_vls = injected.iter().fold(0_u16, |all, vls| all | vls);
        let all_vls = vl_after.iter().fold(all_vls, |all, vl| all | 1 << vl);
        let vls = (u16::BITS - all_vls.leading_zeros()).max(1) as usize;
        let mut usage = Self {
            before: Vec::new(),
            trees: Vec::new(),
            users: Vec::new(),
            vls,
            load: Vec::new(),
            all: OnceLock::new(),
            turns,
            injected,
            vl_after,
        };
        usage.trees = tables.used_by_trees(&usage);
        let demand = Demand::new(fabric);
        // Large parts: each has counts of its own.
        let lids = tables.lft.lids();
        let part = lids.div_ceil(rayon::current_num_threads());
        let lids = (1..lids).into_par_iter().with_min_len(part).filter_map(|lid| Lid::new(lid as u16));
        let lids = lids.filter(|&lid| tables.target(lid).is_some());
        let nothing = || (vec![0; usage.turns.len * vls], vec![0; channels.len()], Vec::new());
        let read = |(mut users, mut load, mut buffer): Users, lid: Lid| {
            let next = tables.all_next(lid);
            usage.for_each_turn(fabric, &next, &mut buffer, |turn, set| {
                usage.bits(turn, set).for_each(|at| users[at] += 1)
            });
            count(fabric, lid, &next, &demand, &mut load, |_| true);
            (users, load, buffer)
        };
        let sum = |(mut a, mut b, buffer): Users, (c, d, _): Users| {
            a.iter_mut().zip(c).for_each(|(a, c)| *a += c);
            b.iter_mut().zip(d).for_each(|(b, d)| *b += d);
            (a, b, buffer)
        };
        let (users, load, _) = lids.fold(nothing, read).reduce(nothing, sum);
        (usage.users, usage.load) = (users, load);
        usage.before = usage.sets(&usage.users);
        usage
    }

    /// Where the users of a turn are, for some VLs.
    fn bits(&self, turn: usize, set: u16) -> impl Iterator<Item = usize> {
        let (first, vls) = (turn * self.vls, self.vls);
        (0..vls).filter(move |vl| set >> vl & 1 != 0).map(move |vl| first + vl)
    }

    /// By turn: the VLs that have users.
    fn sets(&self, users: &[u16]) -> Vec<u16> {
        let set = |of: &[u16]| of.iter().rev().fold(0, |set, &users| set << 1 | u16::from(users > 0));
        users.chunks_exact(self.vls).map(set).collect()
    }

    /// Calls `each` with every turn of the packets to a destination, and their VLs before it.
    ///
    /// - `vls`: a buffer.
    fn for_each_turn(
        &self,
        fabric: &Fabric,
        next: &[Option<ChannelId>],
        vls: &mut Vec<u16>,
        mut each: impl FnMut(usize, u16),
    ) {
        let turn = |first: ChannelId| {
            let to = fabric.channels().get(first).to.index();
            next[to].map(|second| (to, self.turns.of(first, second)))
        };
        vls.clear();
        vls.extend(next.iter().map(|hop| hop.map_or(0, |c| self.injected[c.index()])));
        for (to, turn) in next.iter().flatten().filter_map(|&first| turn(first)) {
            vls[to] |= 1 << self.vl_after[turn];
        }
        for (vls, hop) in vls.iter().zip(next) {
            if let Some((_, turn)) = hop.and_then(turn) {
                each(turn, *vls);
            }
        }
    }

    /// By turn, the VLs of packets over what is left of the tables.
    ///
    /// - `lost`: the destinations that have lost a path.
    ///
    /// Cost: O(S) for each of these, and O(turns).
    pub(super) fn left(&self, tables: &Mending<'_>, lost: &[Lid]) -> Vec<u16> {
        let mut users = self.users.clone();
        let mut buffer = Vec::new();
        for &lid in lost {
            let mut next = tables.all_next(lid);
            self.for_each_turn(tables.fabric, &next, &mut buffer, |turn, set| {
                self.bits(turn, set).for_each(|at| users[at] -= 1)
            });
            let whole = tables.whole(&next);
            for ((next, whole), present) in next.iter_mut().zip(whole).zip(tables.present) {
                *next = next.filter(|_| whole || !present);
            }
            self.for_each_turn(tables.fabric, &next, &mut buffer, |turn, set| {
                self.bits(turn, set).for_each(|at| users[at] += 1)
            });
        }
        self.sets(&users)
    }

    /// By channel, routes to the destinations that have lost nothing.
    pub(super) fn load_left(&self, tables: &Mending<'_>, lost: &[bool], demand: &Demand<'_>) -> Vec<u64> {
        if tables.present.contains(&false) {
            return tables.load(|lid| !lost[lid.index()], demand);
        }
        let mut counts = vec![false; lost.len()];
        tables.lids.iter().for_each(|lid| counts[lid.index()] = !lost[lid.index()]);
        let mut gone = vec![0; self.load.len()];
        for lid in (1..lost.len()).filter(|&lid| !counts[lid]).filter_map(|lid| Lid::new(lid as u16)) {
            count(tables.fabric, lid, &tables.all_next(lid), demand, &mut gone, |_| true);
        }
        self.load.iter().zip(gone).map(|(all, gone)| all - gone).collect()
    }

    /// The dependencies of all packets, unicast and multicast; `None` if they have a cycle.
    pub(super) fn all(&self, tables: &Mending<'_>) -> Option<Dependencies> {
        let used = || union(&self.before, &self.trees);
        let make = || Dependencies::new(tables.fabric, &self.turns, &self.vl_after, &used(), tables.most_vls);
        let (most_vls, all) = self.all.get_or_init(|| (tables.most_vls, make()));
        if *most_vls == tables.most_vls { all.clone() } else { make() }
    }
}

pub(super) fn union(a: &[u16], b: &[u16]) -> Vec<u16> {
    a.iter().zip(b).map(|(a, b)| a | b).collect()
}

impl Mending<'_> {
    /// By turn: the VLs of multicast packets that take it.
    fn used_by_trees(&self, usage: &Usage) -> Vec<u16> {
        let Usage { turns, injected, .. } = usage;
        let channels = self.fabric.channels();
        let mut used = vec![0; turns.len];
        for group in self.trees {
            let out = |s: SwitchId| group.at(s).iter().filter_map(move |port| channels.at_port(s, port));
            let follow = |first: ChannelId| {
                let c = channels.get(first);
                out(c.to).filter(move |&second| second != c.reverse)
            };
            let all: Vec<ChannelId> = self.fabric.switch_ids().flat_map(out).collect();
            let mut vls = injected.clone();
            for &first in &all {
                follow(first).for_each(|second| vls[second.index()] |= 1 << self.vl_after(first, second));
            }
            for &first in &all {
                follow(first).for_each(|second| used[turns.of(first, second)] |= vls[first.index()]);
            }
        }
        used
    }

    /// Routes by channel to some destinations, over the rates of the channels.
    fn load(&self, counts: impl Fn(Lid) -> bool, demand: &Demand<'_>) -> Vec<u64> {
        let mut load = vec![0; self.fabric.channels().len()];
        for &lid in self.lids.iter().filter(|lid| counts(**lid)) {
            let present = |s: SwitchId| self.present[s.index()];
            count(self.fabric, lid, &self.all_next(lid), demand, &mut load, present);
        }
        load
    }
}

/// Counts the routes of some switches to a destination.
pub(super) fn count(
    fabric: &Fabric,
    lid: Lid,
    next: &[Option<ChannelId>],
    demand: &Demand<'_>,
    load: &mut [u64],
    counts: impl Fn(SwitchId) -> bool,
) {
    let Some(owner) = fabric.owner_of(lid).map(|end| fabric.endport(end)) else { return };
    if !owner.is_adapter() {
        return;
    }
    let channels = fabric.channels();
    let weights = fabric.weights().by_channel();
    let (routes, times) = demand.to(owner);
    for s in fabric.switch_ids().filter(|&s| counts(s)) {
        let mut at = s;
        for _ in 0..next.len() {
            let Some(channel) = next[at.index()] else { break };
            load[channel.index()] += routes[s.index()] * times * u64::from(weights[channel.index()]);
            at = channels.get(channel).to;
        }
    }
}
