//! Earlier tables, mended so that the way to them and back is free of credit loops.
//!
//! Where a link fails, some destinations lose paths. A rule says more than these tables need: it forbids turns that
//! close no cycle with the turns that paths really take. So nothing is asked of a rule here. The dependencies between
//! virtual channels that the earlier tables have are one graph, to which those of the new entries are added one
//! switch after the other, as long as there is no cycle.
//!
//! What is added is more than the paths of the new tables: the turns of packets that meet an old entry at one switch
//! and a new one at the next. Two graphs stay acyclic, those of the two steps in which the tables go to and fro:
//!
//! | graph | entries over channels that are gone, and late ones | other entries |
//! |---|---|---|
//! | `ends` | old or new | new |
//! | `rest` | old | old or new |
//!
//! When a channel fails the rest goes first, and the entries over the channel, which drop their packets anyway, go
//! next. When it returns, these go back first. A switch behind the channel may have to wait for those that forwarded to
//! it and find other ways: its entry is late, and goes with those over the channel. Until then its packets meet the new
//! entries of the others, so these must fit to its old one.
//!
//! Lost paths crowd the channels around the failure. So routes leave the fullest channel, one entry at a time, where both
//! graphs allow it (`relief.rs`).
//!
//! SL2VL rows stay, but for turns that no packet took: such a turn may get another VL. While `rest` changes it has either
//! VL.
//!
//! Every packet keeps its SL. With several SLs, those that all rows map alike are a class, and each class has turns of its own:
//! the VLs before and after them, and their users. The classes share one graph of virtual channels.
//!
//! A multicast tree that has lost a link gets another one, if that closes no cycle in `ends` (`trees.rs`).

mod dependencies;
mod graph;
mod load;
mod paths;
mod relief;
mod search;
mod senders;
mod tables;
mod trees;
mod usage;

use std::cell::{Cell, OnceCell};

use self::dependencies::Dependencies;
use self::graph::Graph;
use self::load::{Flows, Load};
use self::paths::{NewPaths, Steps};
use self::usage::union;
use super::demand::Demand;
use crate::fabric::{Lid, PortNum, SwitchId, Vl};
use crate::tables::{Lft, McastGroup, SlVlRow};

pub use senders::Senders;
pub use tables::Mending;
pub use usage::Usage;

/// How often destinations begin again in another order. Of 192 searches that found a path for each destination, 157
/// needed no other order, and 6 more than four.
const RESTARTS: usize = 4;

/// Mended tables.
#[derive(PartialEq, Eq)]
pub struct Mended {
    /// The entries, by numbers of the earlier fabric.
    pub lft: Lft,
    /// Rows that differ: (switch, in port, out port), and the row.
    pub rows: Vec<(SwitchId, PortNum, PortNum, SlVlRow)>,
    /// The VLs that these rows need.
    pub vls: u8,
    /// By VL, by channel of the earlier fabric: a place in an order in which all packets ascend, lower VLs first.
    /// `None` where some packets go on to a lower VL.
    pub places: Option<Vec<Vec<u32>>>,
    /// Multicast trees that span what is left, with as many links of those before as may stay. `None`
    /// where some tree could not be joined again; all SLs are alike then.
    pub trees: Option<Vec<McastGroup>>,
    /// By channel of the earlier fabric: routes to the base LIDs of all adapters, over its rate.
    pub load: Vec<u64>,
}

/// What counts where switches have a choice.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Whether the new entries must close no cycle with the multicast trees. If not, they still close none before
    /// the trees have been taken away.
    pub trees_stay: bool,
    /// Of paths of the same length, the one whose fullest channel has the least load, and only then one that stays; else
    /// the other way round.
    pub by_load: bool,
    /// Whether entries may be late.
    pub late: bool,
    /// Whether a destination that finds no new paths in both graphs may have others, which take steps of their own.
    pub may_stray: bool,
}

impl Choice {
    /// All of them, those first that change the least.
    pub fn all(may_stray: bool) -> impl Iterator<Item = Self> {
        (0..8).map(move |n| Self { late: n & 4 != 0, trees_stay: n & 2 == 0, by_load: n & 1 != 0, may_stray })
    }
}

/// What all choices have in common.
pub struct PreparedMending<'a> {
    mending: &'a Mending<'a>,
    usage: &'a Usage,
    demand: Demand<'a>,
    /// Destinations that have lost a path.
    lost: Vec<Lid>,
    /// By turn of a class, VLs of packets that take it in what is left of the tables.
    left: Vec<u16>,
    /// The routes over what is left of the tables.
    load: Load,
    /// The dependencies of what is left, without trees and with them.
    ends: [OnceCell<Option<Dependencies>>; 2],
    /// Virtual channels that all searches visited so far.
    visited: Cell<u64>,
}

impl PreparedMending<'_> {
    /// Entries for the destinations that have lost a path, all others as they were. `None` where some switch finds no
    /// path, with unlike SLs also where a tree is not joined again, the earlier tables are not acyclic, or more would be
    /// [visited](Self::visited) than may be.
    ///
    /// A switch with a lost path gets the shortest that closes no cycle. Where some find none and entries may be late, the
    /// others choose anew and leave room for the old entries of these. Where some still find none, all switches may get new paths
    /// to that destination. Destinations follow one another in the order of LIDs. One that finds no path among the new paths
    /// of others goes before all of these, and all begin again, up to `RESTARTS` times. A turn that was free gets its old VL
    /// if that closes no cycle, else the lowest that closes none. In the end the fullest channels are relieved.
    ///
    /// Cost: for each destination with lost paths O(C log C) with C channels of the switches that have lost theirs, and the
    /// cost of [`TopologicalOrder::admit`] for each new dependency; that again whenever further ones of these switches find
    /// no path, and for each restart. Then that of relief (`relief.rs`).
    ///
    /// - `most_visits`: with those of earlier calls.
    ///
    /// [`TopologicalOrder::admit`]: crate::ordering::TopologicalOrder::admit
    pub fn mend(&self, choice: Choice, most_visits: u64) -> Option<Mended> {
        let mut order = self.lost.clone();
        for _ in 0..=RESTARTS {
            match self.mend_in(choice, &order, most_visits)? {
                Ok(mended) => return Some(mended),
                // Nobody was before it.
                Err(0) => return None,
                Err(place) => order[..=place].rotate_right(1),
            }
        }
        None
    }

    /// Virtual channels that all searches visited so far to keep dependencies free of cycles.
    pub fn visited(&self) -> u64 {
        self.visited.get()
    }

    /// Destinations in an order. The error is the place of one that finds no path; `None` as for [`mend`](Self::mend)
    /// otherwise.
    fn mend_in(&self, choice: Choice, order: &[Lid], most_visits: u64) -> Option<Result<Mended, usize>> {
        let &Self { mending, usage, ref demand, .. } = self;
        let left = most_visits.saturating_sub(self.visited.get());
        let graph = |all: Dependencies| Graph::new(mending, usage, all, left);
        let rest = graph(usage.all(mending)?);
        let ends = graph(self.ends(choice.trees_stay)?);
        let mut graphs = [ends, rest];
        let visited = |graphs: &[Graph<'_>; 2]| graphs.iter().map(|graph| graph.all.visited()).sum::<u64>();
        let mut before = visited(&graphs);
        let mut load = self.load.clone();
        let mut lft = mending.lft.clone();
        let mut steps = vec![Steps::default(); lft.lids()];
        for (place, &lid) in order.iter().enumerate() {
            let old = mending.all_next(lid);
            let lost = mending.without_path(lid, &old);
            let (is_lost, present) = (mending.marked(&lost), |s: SwitchId| mending.present[s.index()]);
            let keeps = |s: SwitchId| present(s) && !is_lost[s.index()];
            let kept = Flows::new(mending.fabric, lid, &old, demand, keeps);
            let balanced_by = load.to(mending.fabric, lid);
            let found = mending.route(lid, (&old, &lost, &kept), &mut graphs, balanced_by, choice, demand);
            let now = visited(&graphs);
            self.visited.set(self.visited.get() + now - std::mem::replace(&mut before, now));
            if self.visited.get() > most_visits {
                return None;
            }
            let Some(NewPaths { next, steps: of_lid }) = found else {
                return Some(Err(place));
            };
            steps[lid.index()] = of_lid;
            load.take(&kept);
            load.add(&Flows::new(mending.fabric, lid, &next, demand, present));
            for ((s, channel), was) in mending.fabric.switch_ids().zip(next).zip(old) {
                if let Some(channel) = channel.filter(|_| channel != was) {
                    lft.set(s, lid, mending.fabric.channels().get(channel).out_port);
                }
            }
        }
        let trees = self.joined_trees(&mut graphs, choice.trees_stay);
        if trees.is_none() && mending.senders.classes().len() > 1 {
            // Other trees would serve other SLs, and those of before would not fit to a group with these.
            return None;
        }
        self.relieve(&mut graphs, &mut lft, &mut load.base, &steps);
        let [ends, _] = graphs;
        let (rows, vls) = mending.rows(usage, &ends.all);
        let places = ends.all.places(mending.fabric.channels().len());
        Some(Ok(Mended { lft, rows, vls, places, trees, load: load.base }))
    }

    /// The dependencies of what is left; `None` if those of all tables have a cycle.
    fn ends(&self, with_trees: bool) -> Option<Dependencies> {
        let make = || {
            let with = with_trees.then(|| union(&self.left, &self.usage.trees));
            let used = with.as_ref().unwrap_or(&self.left);
            let all = self.usage.all(self.mending)?;
            Some(all.only(self.mending.fabric, &self.usage.turns, used))
        };
        self.ends[usize::from(with_trees)].get_or_init(make).clone()
    }
}

impl Mending<'_> {
    /// What all choices have in common.
    ///
    /// - `usage`: of the same tables.
    ///
    /// Cost: O(S) with S switches for each destination that has lost a path, and O(turns); where a switch is gone
    /// O(D S) with D LIDs.
    pub fn prepare<'a>(&'a self, usage: &'a Usage) -> PreparedMending<'a> {
        let lost = self.lost();
        let left = usage.left(self, &lost);
        let demand = Demand::new(self.fabric);
        let load = usage.load_left(self, &lost, &demand);
        PreparedMending {
            mending: self,
            usage,
            demand,
            lost,
            left,
            load,
            ends: Default::default(),
            visited: Cell::new(0),
        }
    }

    /// The rows of turns that have another VL now, and how many VLs they need.
    fn rows(&self, usage: &Usage, ends: &Dependencies) -> (Vec<(SwitchId, PortNum, PortNum, SlVlRow)>, u8) {
        let (channels, classes) = (self.fabric.channels(), self.senders.classes());
        let (mut rows, mut vls) = (Vec::new(), 0);
        for (first, c) in channels.iter() {
            for (second, d) in channels.out(c.to) {
                let was = self.sl2vl.row(c.to, c.in_port, d.out_port);
                let row = usage.turns.all(first, second).enumerate().fold(was, |row, (class, turn)| {
                    let vl = Vl(ends.vls_after[turn].trailing_zeros() as u8);
                    if vl.0 == usage.vl_after[turn] {
                        return row;
                    }
                    vls = vls.max(vl.0 + 1);
                    classes.with(row, class, vl)
                });
                if row != was {
                    rows.push((c.to, c.in_port, d.out_port, row));
                }
            }
        }
        (rows, vls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Settings, route};
    use crate::fabric::{Channel, ChannelId, EndPort, Fabric};
    use crate::tables::Routes;
    use crate::topology::{FatTree, small_members};

    /// A cable between a core and a spine: the core has to go down and up again.
    #[test]
    fn it_visits_no_more_than_it_may() {
        let fabric = FatTree { k: 8, levels: 3, down: None, cas: None }.build().unwrap();
        let is_bare = |s: SwitchId| fabric.num_adapters_on(s) == 0;
        let between = fabric.channels().iter().find(|(_, c)| is_bare(c.from) && is_bare(c.to));
        let (gone, _) = between.expect("a tree has spines");
        without_a_link(&fabric, gone, |mending| {
            let usage = Usage::of(mending);
            let with = |most: u64| {
                let prepared = mending.prepare(&usage);
                let choice = Choice { trees_stay: true, by_load: false, late: true, may_stray: true };
                (prepared.mend(choice, most).is_some(), prepared.visited())
            };
            let (found, visited) = with(u64::MAX);
            assert!(found && visited > 10_000, "{visited}");
            assert_eq!(with(visited), (true, visited));
            let (found, fewer) = with(visited / 10);
            assert!(!found && 5 * fewer < visited, "{fewer} of {visited}");
        })
        .expect("the tree can be routed");
    }

    /// Whatever moves: lost paths alone, all paths to a destination, or others off the fullest channel.
    #[test]
    fn the_load_is_that_of_the_mended_tables() {
        let (mut links, mut switches) = (0, 0);
        for (name, fabric) in small_members() {
            let check = |mending: &Mending<'_>| {
                let usage = Usage::of(mending);
                let prepared = mending.prepare(&usage);
                let mended = Choice::all(true).filter_map(|choice| prepared.mend(choice, u64::MAX));
                let is_right = |found: Mended| {
                    let tables = mending.with(&found.lft);
                    let mut load = Load::none(&fabric);
                    for &lid in mending.lids {
                        let next = tables.all_next(lid);
                        let present = |s: SwitchId| mending.present[s.index()];
                        load.add(&Flows::new(&fabric, lid, &next, &prepared.demand, present));
                    }
                    assert_eq!(found.load, load.base, "{name}");
                };
                mended.map(is_right).count()
            };
            let link = ChannelId::at(fabric.channels().len() / 2);
            links += without_a_link(&fabric, link, check).unwrap_or(0);
            let switch = SwitchId::at(fabric.num_switches() / 2);
            let of_switch: Vec<ChannelId> = fabric.channels().out(switch).map(|(id, _)| id).collect();
            if let Ok(routed) = route(&fabric, &Settings::default()) {
                switches += without(&fabric, &routed.routes, &of_switch, Some(switch), check);
            }
        }
        assert!(links > 100 && switches > 50, "{links} {switches}");
    }

    /// As [`without`], with the tables of a fabric by default. `None` where it cannot be routed.
    fn without_a_link<R>(fabric: &Fabric, gone: ChannelId, f: impl FnOnce(&Mending<'_>) -> R) -> Option<R> {
        let routed = route(fabric, &Settings::default()).ok()?;
        Some(without(fabric, &routed.routes, &[gone], None, f))
    }

    /// Calls `f` with tables of a fabric, without some links and perhaps a switch.
    pub(super) fn without<R>(
        fabric: &Fabric,
        routes: &Routes,
        gone: &[ChannelId],
        switch: Option<SwitchId>,
        f: impl FnOnce(&Mending<'_>) -> R,
    ) -> R {
        let is_alive = |(id, c): (ChannelId, &Channel)| !gone.contains(&id) && !gone.contains(&c.reverse);
        let alive: Vec<bool> = fabric.channels().iter().map(is_alive).collect();
        let present: Vec<bool> = fabric.switch_ids().map(|s| Some(s) != switch).collect();
        let is_there = |end: &&EndPort| end.attachment.is_some_and(|(s, _)| Some(s) != switch);
        let lids: Vec<Lid> = fabric.endports().iter().filter(is_there).flat_map(|end| end.lids()).collect();
        let senders = Senders::new(fabric, &routes.sl2vl, &routes.path_sl, &[]);
        f(&Mending {
            fabric,
            alive: &alive,
            present: &present,
            lids: &lids,
            lft: &routes.lft,
            sl2vl: &routes.sl2vl,
            senders: &senders.expect("SLs by switch"),
            most_vls: 8,
            trees: &[],
            enough: 0,
        })
    }
}
