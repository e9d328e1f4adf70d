//! What packets use in the earlier tables: the VLs of each turn, and the routes on each channel.

use std::fmt;
use std::sync::OnceLock;

use rayon::prelude::*;

use super::dependencies::Dependencies;
use super::load::{Flows, Load};
use super::tables::{Mending, Turns};
use crate::fabric::{ChannelId, Lid, SwitchId};
use crate::routing::demand::Demand;

/// What packets use in the earlier tables. It is the same whatever failed since.
pub struct Usage {
    pub(super) turns: Turns,
    /// By channel and class of SLs: the VLs on which end ports of its switch send over it.
    pub(super) injected: Vec<u16>,
    /// By turn of a class: the VL after it.
    pub(super) vl_after: Vec<u8>,
    /// By turn of a class, VLs of packets that take it: unicast and multicast.
    pub(super) before: Vec<u16>,
    pub(super) trees: Vec<u16>,
    /// By turn of a class and VL below `vls`: the destinations whose packets take it.
    users: Vec<u16>,
    vls: usize,
    load: Load,
    /// The dependencies of all these, with the VLs that they were made for.
    all: OnceLock<(u8, Option<Dependencies>)>,
}

/// Users and load as in [`Usage`].
type Users = (Vec<u16>, Load);

impl fmt::Debug for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Usage").field("vls", &self.vls).finish_non_exhaustive()
    }
}

impl Usage {
    /// - `tables`: what is left of their fabric does not matter.
    ///
    /// Cost: O(D S) with D LIDs and S switches, times the classes of SLs, on all cores. Memory: for each turn (a channel and
    /// a port of the switch that it leads to) of a class and VL 4 bytes, and 2 bytes for each core meanwhile.
    pub fn of(tables: &Mending<'_>) -> Self {
        let (fabric, channels) = (tables.fabric, tables.fabric.channels());
        let classes = tables.senders.classes().len();
        let turns = Turns::new(fabric, classes);
        let injected: Vec<u16> = channels
            .iter()
            .flat_map(|(c, _)| (0..classes).map(move |class| tables.injected(c, class)))
            .collect();
        let mut vl_after = vec![0; turns.of_all_classes()];
        for (first, c) in channels.iter() {
            for (second, class) in
                channels.out(c.to).flat_map(|(c, _)| (0..classes).map(move |class| (c, class)))
            {
                vl_after[turns.of(first, second, class)] = tables.vl_after(first, second, class);
            }
        }
        let all_vls = injected.iter().fold(0_u16, |all, vls| all | vls);
        let all_vls = vl_after.iter().fold(all_vls, |all, vl| all | 1 << vl);
        let vls = (u16::BITS - all_vls.leading_zeros()).max(1) as usize;
        let mut usage = Self {
            before: Vec::new(),
            trees: Vec::new(),
            users: Vec::new(),
            vls,
            load: Load::none(fabric),
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
        let nothing = || (vec![0; usage.turns.of_all_classes() * vls], Load::none(fabric));
        let read = |(mut users, mut load): Users, lid: Lid| {
            let next = tables.all_next(lid);
            usage.for_each_turn(tables, lid, &next, |turn, set| {
                usage.bits(turn, set).for_each(|at| users[at] += 1)
            });
            load.add(&Flows::new(fabric, lid, &next, &demand, |_| true));
            (users, load)
        };
        let sum = |(mut a, load): Users, (b, other): Users| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            (a, load.sum(&other))
        };
        let (users, load) = lids.fold(nothing, read).reduce(nothing, sum);
        (usage.users, usage.load) = (users, load);
        usage.before = usage.sets(&usage.users);
        usage
    }

    /// Where the users of a turn are, for some VLs.
    fn bits(&self, turn: usize, set: u16) -> impl Iterator<Item = usize> {
        let (first, vls) = (turn * self.vls, self.vls);
        (0..vls).filter(move |vl| set >> vl & 1 != 0).map(move |vl| first + vl)
    }

    /// By turn of a class: the VLs that have users.
    fn sets(&self, users: &[u16]) -> Vec<u16> {
        users.chunks_exact(self.vls).map(set_of).collect()
    }

    /// Calls `each` with every turn of the packets of a class to a destination, and their VLs before it.
    ///
    /// - `next`: by switch, the next hop, if it forwards any.
    fn for_each_turn(
        &self,
        tables: &Mending<'_>,
        lid: Lid,
        next: &[Option<ChannelId>],
        mut each: impl FnMut(usize, u16),
    ) {
        let (channels, classes) = (tables.fabric.channels(), self.turns.classes);
        let hop = |s: SwitchId| next[s.index()];
        let forwarded = tables.forwarded(lid, hop, |s| hop(s).is_some());
        let mut vls = vec![0; next.len()];
        for class in 0..classes {
            let turn = |first: ChannelId| {
                let to = channels.get(first).to;
                hop(to).map(|second| (to.index(), self.turns.of(first, second, class)))
            };
            for (s, vls) in tables.fabric.switch_ids().zip(&mut vls) {
                let own = hop(s).filter(|_| tables.senders.of(s, lid) >> class & 1 != 0);
                *vls = own.map_or(0, |c| self.injected[self.turns.on(c, class)]);
            }
            let of_class = |s: &usize| forwarded[*s] >> class & 1 != 0;
            let hops = || (0..next.len()).filter(of_class).filter_map(|s| Some((s, turn(next[s]?)?)));
            for (_, (to, turn)) in hops() {
                vls[to] |= 1 << self.vl_after[turn];
            }
            for (s, (_, turn)) in hops() {
                each(turn, vls[s]);
            }
        }
    }

    /// By turn of a class, the VLs of packets over what is left of the tables.
    ///
    /// - `lost`: the destinations that have lost a path.
    ///
    /// Cost: O(S) with S switches for each of these, and O(d) with d channels of a switch, times the classes, for each
    /// switch without a path and for those behind it; and a copy of the users.
    pub(super) fn left(&self, tables: &Mending<'_>, lost: &[Lid]) -> Vec<u16> {
        let (channels, classes) = (tables.fabric.channels(), self.turns.classes);
        let (mut users, mut left) = (self.users.clone(), self.before.clone());
        let gone = tables.gone();
        let mut without = vec![false; tables.present.len()];
        for &lid in lost {
            let next = |s: SwitchId| tables.next(s, lid);
            let mut changed = tables.upstream(tables.at_the_break(lid, &gone), next);
            let stops: Vec<SwitchId> =
                changed.iter().copied().filter(|s| tables.present[s.index()]).collect();
            stops.iter().for_each(|s| without[s.index()] = true);
            // The packets of these are gone, and those that went on from the next switch together with them. With one class
            // the others go on as they did.
            let next_switch = |s: &SwitchId| next(*s).map(|hop| channels.get(hop).to);
            for s in &stops {
                let behind = std::iter::successors(next_switch(s), next_switch);
                changed.extend(behind.take(if classes == 1 { 1 } else { usize::MAX }));
            }
            changed.sort_unstable();
            changed.dedup();
            let all = tables.forwarded(lid, next, |_| true);
            let rest = tables.forwarded(lid, next, |s| !without[s.index()]);
            for (s, class) in changed.into_iter().flat_map(|s| (0..classes).map(move |class| (s, class))) {
                let Some(hop) = next(s) else { continue };
                let to = channels.get(hop).to;
                let Some(second) = next(to) else { continue };
                let turn = self.turns.of(hop, second, class);
                let vls = |forwarded: &[u16], counts: &dyn Fn(SwitchId) -> bool| {
                    if forwarded[s.index()] >> class & 1 == 0 {
                        return 0;
                    }
                    let sends = tables.senders.of(s, lid) >> class & 1 != 0;
                    let own = if sends { self.injected[self.turns.on(hop, class)] } else { 0 };
                    let into = channels.out(s).map(|(_, back)| (back.to, back.reverse));
                    let into = into.filter(|&(from, first)| {
                        next(from) == Some(first) && forwarded[from.index()] >> class & 1 != 0 && counts(from)
                    });
                    into.fold(own, |vls, (_, first)| {
                        vls | 1 << self.vl_after[self.turns.of(first, hop, class)]
                    })
                };
                let ends = without[s.index()] || without[to.index()];
                let after = if ends { 0 } else { vls(&rest, &|from| !without[from.index()]) };
                self.bits(turn, vls(&all, &|_| true) & !after).for_each(|at| users[at] -= 1);
                left[turn] = set_of(&users[turn * self.vls..][..self.vls]);
            }
            stops.iter().for_each(|s| without[s.index()] = false);
        }
        left
    }

    /// The routes over what is left of the tables.
    ///
    /// - `lost`: the destinations that have lost a path.
    ///
    /// Cost: O(S) with S switches for each of these; where a switch is gone, for each LID.
    pub(super) fn load_left(&self, tables: &Mending<'_>, lost: &[Lid], demand: &Demand<'_>) -> Load {
        let all = tables.lft.lids();
        let (is_there, has_lost) = (tables.marked_lids(tables.lids), tables.marked_lids(lost));
        let none_is_gone = !tables.present.contains(&false);
        let stays = |lid: &Lid| is_there[lid.index()] && !has_lost[lid.index()] && none_is_gone;
        let mut load = self.load.clone();
        let lids = (1..all).filter_map(|lid| Lid::new(lid as u16));
        for lid in lids.filter(|lid| tables.target(*lid).is_some() && !stays(lid)) {
            let old = tables.all_next(lid);
            let without = match has_lost[lid.index()] {
                true => tables.marked(&tables.without_path(lid, &old)),
                false => vec![!is_there[lid.index()]; old.len()],
            };
            let is_left = |s: SwitchId| tables.present[s.index()] && !without[s.index()];
            load.take(&Flows::new(tables.fabric, lid, &old, demand, |s| !is_left(s)));
        }
        load
    }

    /// The dependencies of all packets, unicast and multicast; `None` if they have a cycle.
    pub(super) fn all(&self, tables: &Mending<'_>) -> Option<Dependencies> {
        let used = || union(&self.before, &self.trees);
        let make = || Dependencies::new(tables.fabric, &self.turns, &self.vl_after, &used(), tables.most_vls);
        let (most_vls, all) = self.all.get_or_init(|| (tables.most_vls, make()));
        if *most_vls == tables.most_vls { all.clone() } else { make() }
    }
}

/// The VLs that have users.
fn set_of(users: &[u16]) -> u16 {
    users.iter().rev().fold(0, |set, &users| set << 1 | u16::from(users > 0))
}

pub(super) fn union(a: &[u16], b: &[u16]) -> Vec<u16> {
    a.iter().zip(b).map(|(a, b)| a | b).collect()
}

impl Mending<'_> {
    /// By switch: the classes of packets to a LID that it forwards, its own and those of others.
    ///
    /// - `next`: by switch, the next hop.
    /// - `counts`: whether packets from a switch do; those from a switch behind one that does count, too.
    ///
    /// Cost: O(S) with S switches, times the classes.
    fn forwarded(
        &self,
        lid: Lid,
        next: impl Fn(SwitchId) -> Option<ChannelId>,
        counts: impl Fn(SwitchId) -> bool,
    ) -> Vec<u16> {
        let mut all = vec![0; self.present.len()];
        let senders = self.fabric.switch_ids().filter(|&s| counts(s));
        if let Some(classes) = self.senders.same() {
            // Each switch has end ports of its own: at least its port 0.
            senders.for_each(|s| all[s.index()] = classes);
            return all;
        }
        for s in senders {
            let classes = self.senders.of(s, lid);
            let mut at = Some(s);
            while let Some(here) = at.filter(|here| classes & !all[here.index()] != 0) {
                all[here.index()] |= classes;
                at = next(here).map(|hop| self.fabric.channels().get(hop).to);
            }
        }
        all
    }

    /// By turn of a class: the VLs of multicast packets that take it.
    fn used_by_trees(&self, usage: &Usage) -> Vec<u16> {
        let Usage { turns, injected, .. } = usage;
        let channels = self.fabric.channels();
        let mut used = vec![0; turns.of_all_classes()];
        for group in self.trees {
            let out = |s: SwitchId| group.at(s).iter().filter_map(move |port| channels.at_port(s, port));
            let follow = |first: ChannelId| {
                let c = channels.get(first);
                out(c.to).filter(move |&second| second != c.reverse)
            };
            let all: Vec<ChannelId> = self.fabric.switch_ids().flat_map(out).collect();
            let served = self.senders.classes().of(group.sls.unwrap_or(u16::MAX));
            for class in (0..turns.classes).filter(|class| served >> class & 1 != 0) {
                let mut vls: Vec<u16> = injected.iter().skip(class).step_by(turns.classes).copied().collect();
                for &first in &all {
                    let after = |second| self.vl_after(first, second, class);
                    follow(first).for_each(|second| vls[second.index()] |= 1 << after(second));
                }
                for &first in &all {
                    follow(first)
                        .for_each(|second| used[turns.of(first, second, class)] |= vls[first.index()]);
                }
            }
        }
        used
    }

    /// By LID: whether it is one of these.
    pub(super) fn marked_lids(&self, some: &[Lid]) -> Vec<bool> {
        let mut marked = vec![false; self.lft.lids()];
        some.iter().for_each(|lid| marked[lid.index()] = true);
        marked
    }

    /// By switch: whether it is one of these.
    pub(super) fn marked(&self, some: &[SwitchId]) -> Vec<bool> {
        let mut marked = vec![false; self.present.len()];
        some.iter().for_each(|s| marked[s.index()] = true);
        marked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Prefer, Settings, route};
    use crate::routing::mend::tests::without;
    use crate::topology::small_members;

    /// The same by all turns of all packets that still arrive.
    #[test]
    fn what_is_left_is_what_a_walk_of_all_paths_says() {
        let (mut lost_some, mut several) = (0, 0);
        for (name, fabric) in small_members() {
            for prefer in [Prefer::Default, Prefer::Minimal] {
                let settings = Settings { prefer, ..Settings::default() };
                let Ok(routed) = route(&fabric, &settings) else { continue };
                let routes = &routed.routes;
                let channels = fabric.channels();
                let link = |c: ChannelId| vec![c, channels.get(c).reverse];
                let middle = SwitchId::at(fabric.num_switches() / 2);
                let of_middle = channels.out(middle).map(|(c, _)| c).collect();
                let failures: [(Vec<ChannelId>, Option<SwitchId>); 3] = [
                    (link(ChannelId(0)), None),
                    (link(ChannelId::at(channels.len() / 2)), None),
                    (of_middle, Some(middle)),
                ];
                for (gone, switch) in failures {
                    without(&fabric, routes, &gone, switch, |tables| {
                        several += usize::from(tables.senders.classes().len() > 1);
                        let usage = Usage::of(tables);
                        let lost = tables.lost();
                        lost_some += usize::from(!lost.is_empty());
                        assert!(usage.left(tables, &lost) == walked(tables, &usage, &lost), "{name}");
                    });
                }
            }
        }
        assert!(lost_some > 100 && several > 3 * 3, "{lost_some} {several}");
    }

    /// By turn of a class: the VLs before it, of each packet on its path.
    fn walked(tables: &Mending<'_>, usage: &Usage, lost: &[Lid]) -> Vec<u16> {
        let fabric = tables.fabric;
        let mut used = vec![0; usage.turns.of_all_classes()];
        let lids = (1..tables.lft.lids()).filter_map(|lid| Lid::new(lid as u16));
        let lids = lids.filter(|&lid| tables.target(lid).is_some());
        for (lid, from) in lids.flat_map(|lid| fabric.switch_ids().map(move |s| (lid, s))) {
            let path: Vec<ChannelId> = tables.path(tables.next(from, lid), lid).collect();
            // Those of a switch that is gone do not count as lost.
            let is_lost = tables.present[from.index()] && path.iter().any(|c| !tables.alive[c.index()]);
            if path.is_empty() || lost.contains(&lid) && is_lost {
                continue;
            }
            let sends = tables.senders.of(from, lid);
            for class in (0..usage.turns.classes).filter(|class| sends >> class & 1 != 0) {
                let mut vls = tables.injected(path[0], class);
                for turn in path.windows(2) {
                    used[usage.turns.of(turn[0], turn[1], class)] |= vls;
                    vls = 1 << tables.vl_after(turn[0], turn[1], class);
                }
            }
        }
        used
    }
}
