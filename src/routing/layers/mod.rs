//! Further paths for adapters with several LIDs: a layer of forwarding tables for each LID.

mod apart;
mod in_tree;
mod search;
#[cfg(test)]
mod tests;

use rayon::prelude::*;

use self::search::Search;
use super::{Hops, adapters_by_switch, ends_on};
use crate::fabric::{EndPort, Fabric, Lid, PortNum, SwitchId};
use crate::ordering::Rule;
use crate::tables::Lft;

/// LIDs of an adapter that get paths of their own. With a larger LMC the others take these paths in turn: hosts
/// hardly use more than eight.
pub(super) const MOST: usize = 8;

/// Searches whose paths are written together: bounds the memory beside the tables.
const WAVE: usize = 256;
/// [`Part`]s that are levelled at the same time, at most. They do not see each other's changes: more of them would all
/// leave one crowded channel for the same other one.
const TOGETHER: usize = 16;
/// Batches that are levelled one after the other, at least; fewer only where there are fewer [`Part`]s.
const SHARES: usize = 32;

/// How long the paths of the further LIDs may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stretch {
    /// As long as the shortest.
    None,
    /// One hop longer than the shortest; between adjacent switches up to four hops.
    OneHop,
}

impl Stretch {
    /// The most hops of a path between switches at a distance.
    fn most(self, distance: u16) -> u16 {
        match (self, distance) {
            (Self::None, _) | (_, 0) => distance,
            (Self::OneHop, 1) => 4,
            (Self::OneHop, _) => distance + 1,
        }
    }
}

/// Looks at channels that all searches may take together: some seconds on one core.
const STEPS: usize = 16_000_000;
/// Most sweeps of a search: a Slim Fly of 50 switches gains up to these.
const SWEEPS: usize = 120;
/// Sweeps that are worth more than a search for each adapter.
const ENOUGH_SWEEPS: usize = 12;
/// Fewest sweeps of a search: the first ones bring most.
const LEAST_SWEEPS: usize = 3;
/// Most searches for adapters with the same base paths: more balance no better.
const SETS: usize = 4;

/// Forwarding tables for all LIDs from those for the base LIDs.
///
/// Each LID after the base LID of an adapter gets an in-tree of its own, legal under the same rule. So the proof is
/// that of the base LIDs, and SLs, VLs and SL2VL tables stay as they are. The trees to one adapter begin as the base paths
/// of the adapters beside it on the same switch. Then they are searched together (see `search.rs`), so that each pair of
/// switches has as many paths without a common link as possible. Where a pair has no such path within the [`Stretch`], it
/// takes one that shares few links with the others. Where base paths are longer than that, others may be as long.
///
/// In the end each switch may take other next hops once more, by the load of all LIDs of all adapters together, so that
/// senders that use all LIDs alike find no crowded channel.
///
/// Further LIDs of port 0 have the paths of its base LID, and LIDs beyond the eighth those of the ones before in turn.
///
/// - `base`: complete tables, legal under the rule for the base LIDs of adapters. Only the columns of base LIDs are read.
/// - `hops`: distances of the same fabric.
///
/// Cost, over all cores: for each destination switch and each set of different base paths to its adapters up to
/// 121 sweeps of O(L C p) with L layers, C channels, and p switches whose paths lead over one. Where that would take
/// long, four for each destination switch. Memory: the tables, and those of 256 destination switches once more.
pub fn layered(fabric: &Fabric, hops: &Hops, rule: &Rule, stretch: Stretch, base: &Lft) -> Lft {
    let adapters = adapters_by_switch(fabric);
    let new_search = || Search::new(fabric, hops, rule, stretch, &adapters);
    let parts = parts(fabric, &adapters, stretch, base);
    let mut lft = paths_apart(fabric, &parts, new_search, base);
    level(fabric, &parts, new_search, &mut lft);
    lft
}

/// Tables whose further LIDs have paths apart.
fn paths_apart<'a>(
    fabric: &Fabric,
    parts: &[Part<'_>],
    new_search: impl Fn() -> Search<'a> + Sync,
    base: &Lft,
) -> Lft {
    let mut lft = Lft::new(fabric);
    for end in fabric.endports() {
        end.lids().for_each(|lid| lft.to_mut(lid).copy_from_slice(base.to(end.lid)));
    }
    for wave in parts.chunks(WAVE) {
        let found = wave.par_iter().map_init(&new_search, |search, part| {
            let begin: Vec<&[u8]> = part.begin.iter().map(|&lid| base.to(lid)).collect();
            search.run(part.target, &begin, part.seed(), part.sweeps).then(|| part.rows(search, base))
        });
        let found: Vec<Option<Rows>> = found.collect();
        write(&mut lft, found.into_iter().flatten().flatten());
    }
    lft
}

/// Levels the load over all LIDs, part by part: each counts what those before it have left.
fn level<'a>(fabric: &Fabric, parts: &[Part<'_>], new_search: impl Fn() -> Search<'a> + Sync, lft: &mut Lft) {
    let mut load = load_of_all(fabric, lft);
    for together in parts.chunks((parts.len() / SHARES).clamp(1, TOGETHER)) {
        let found = together.par_iter().map_init(&new_search, |search, part| {
            let begin: Vec<&[u8]> = part.lids().map(|lid| lft.to(lid)).collect();
            let moved = search.level(part.target, &begin, part.copies(), &load, (part.seed(), part.sweeps));
            moved.then(|| {
                let change = search.load().iter().zip(&load).map(|(new, old)| new - old);
                (part.rows(search, lft), change.collect::<Vec<i64>>())
            })
        });
        let found: Vec<Option<(Rows, Vec<i64>)>> = found.collect();
        for (rows, change) in found.into_iter().flatten() {
            write(lft, rows);
            load.iter_mut().zip(change).for_each(|(load, change)| *load += change);
        }
    }
}

/// By channel, routes between all LIDs of adapters, times weight.
fn load_of_all(fabric: &Fabric, lft: &Lft) -> Vec<i64> {
    let channels = fabric.channels();
    let count = |mut load: Vec<i64>, end: &EndPort| {
        let Some((target, _)) = end.attachment else { return load };
        for ports in end.lids().map(|lid| lft.to(lid)) {
            for s in fabric.switch_ids() {
                let routes = fabric.num_adapters_on(s) as i64;
                let mut at = s;
                while routes > 0 && at != target {
                    let Some(id) = channels.at_port(at, PortNum(ports[at.index()])) else { break };
                    load[id.index()] += routes * i64::from(fabric.weights().by_channel()[id.index()]);
                    at = channels.get(id).to;
                }
            }
        }
        load
    };
    let empty = || vec![0_i64; channels.len()];
    let adapters: Vec<&EndPort> = fabric.adapters().map(|(_, end)| end).collect();
    adapters.par_iter().fold(empty, |load, end| count(load, end)).reduce(empty, |mut a, b| {
        a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        a
    })
}

fn write(lft: &mut Lft, rows: impl IntoIterator<Item = (Lid, Vec<u8>)>) {
    for (lid, ports) in rows {
        lft.to_mut(lid).copy_from_slice(&ports);
    }
}

/// LIDs with the ports of all switches to each.
type Rows = Vec<(Lid, Vec<u8>)>;

/// Adapters on one switch with the same base paths, and the switch's ports to them.
type Group<'a> = Vec<(&'a EndPort, PortNum)>;

/// Adapters on one switch that share the trees of their further LIDs.
struct Part<'a> {
    target: SwitchId,
    ends: Group<'a>,
    /// By layer: the LID whose base paths it begins with.
    begin: Vec<Lid>,
    /// Sweeps of its search.
    sweeps: usize,
}

impl Part<'_> {
    fn seed(&self) -> u64 {
        self.ends[0].0.guid.0
    }

    /// The columns that a search has found.
    ///
    /// - `from`: tables with the base paths.
    fn rows(&self, search: &Search<'_>, from: &Lft) -> Rows {
        let layers = self.begin.len();
        let further = self.ends.iter().flat_map(|&(end, port)| {
            end.lids().zip(0..).skip(1).map(move |(lid, index)| (end, port, lid, index))
        });
        further
            .map(|(end, port, lid, index)| {
                let mut ports = from.to(end.lid).to_vec();
                search.write(index % layers, &mut ports);
                ports[self.target.index()] = port.0;
                (lid, ports)
            })
            .collect()
    }

    /// By layer, a LID that has it.
    fn lids(&self) -> impl Iterator<Item = Lid> {
        let most = self.ends.iter().max_by_key(|(end, _)| end.lmc.lids()).map(|(end, _)| end.lids());
        most.into_iter().flatten().take(self.begin.len())
    }

    /// By layer, how many LIDs have it.
    fn copies(&self) -> [i64; MOST] {
        let mut copies = [0; MOST];
        for (end, _) in &self.ends {
            (0..usize::from(end.lmc.lids())).for_each(|index| copies[index % self.begin.len()] += 1);
        }
        copies
    }
}

/// All adapters with several LIDs, as many together as one search is for.
fn parts<'a>(fabric: &'a Fabric, adapters: &[u64], stretch: Stretch, base: &Lft) -> Vec<Part<'a>> {
    let targets = || fabric.switch_ids().filter(|&s| adapters[s.index()] > 0);
    let steps = STEPS / targets().count().max(1);
    targets().flat_map(|to| parts_on(fabric, to, steps, stretch, base)).collect()
}

/// Those on one switch.
///
/// - `steps`: looks at channels that all searches may take.
fn parts_on<'a>(
    fabric: &'a Fabric,
    target: SwitchId,
    steps: usize,
    stretch: Stretch,
    base: &Lft,
) -> Vec<Part<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (end, port) in ends_on(fabric, target).into_iter().filter(|(end, _)| end.is_adapter()) {
        let paths = |lid| without(base.to(lid), target);
        match groups.iter_mut().find(|group| paths(group[0].0.lid).eq(paths(end.lid))) {
            Some(group) => group.push((end, port)),
            None => groups.push(vec![(end, port)]),
        }
    }
    let layers = |(end, _): &(&EndPort, PortNum)| usize::from(end.lmc.lids()).min(MOST);
    let most = groups.iter().flatten().map(layers).max().unwrap_or(1);
    if most == 1 {
        return Vec::new();
    }
    let plan = Effort::new(steps / (most * fabric.channels().len()).max(1), &groups, stretch, most);
    // Adapters with the same base paths are neighbours here, each with the number of its group.
    let ends: Vec<(usize, (&EndPort, PortNum))> = groups
        .iter()
        .enumerate()
        .flat_map(|(number, group)| group.iter().map(move |&end| (number, end)))
        .collect();
    let parts: Vec<&[(usize, (&EndPort, PortNum))]> = match plan.searches < groups.len() {
        true => ends.chunks(ends.len().div_ceil(plan.searches)).collect(),
        false => {
            let sets = plan.searches / groups.len();
            let of_group = ends.chunk_by(|a, b| a.0 == b.0);
            of_group.flat_map(|group| group.chunks(group.len().div_ceil(sets))).collect()
        }
    };
    let parts = parts.into_iter().map(|part| {
        let begin = |layer: usize| groups[(part[0].0 + layer) % groups.len()][0].0.lid;
        let layers = part.iter().map(|(_, end)| layers(end)).max().unwrap_or(1);
        let ends = part.iter().map(|&(_, end)| end).collect();
        Part { target, ends, begin: (0..layers).map(begin).collect(), sweeps: plan.sweeps }
    });
    parts.filter(|part| part.begin.len() > 1).collect()
}

/// How much is searched for the adapters on one switch.
struct Effort {
    /// Searches, each for some of the adapters.
    searches: usize,
    /// Sweeps of each.
    sweeps: usize,
}

impl Effort {
    /// - `affordable`: sweeps of all searches together.
    /// - `groups`: adapters with the same base paths.
    fn new(affordable: usize, groups: &[Group<'_>], stretch: Stretch, layers: usize) -> Self {
        let own = groups.len();
        if stretch == Stretch::None && own >= layers {
            // The base paths of other adapters may do as they are.
            return Self { searches: own, sweeps: (affordable / own).min(SWEEPS) };
        }
        let adapters = groups.iter().map(Vec::len).max().unwrap_or(1);
        let sets = (affordable / own / SWEEPS).clamp(1, SETS.min(adapters));
        let searches = (affordable / ENOUGH_SWEEPS).clamp(1, own * sets);
        let searches = if searches < own { searches } else { own * sets };
        Self { searches, sweeps: (affordable / searches).clamp(LEAST_SWEEPS, SWEEPS) }
    }
}

/// The ports of all switches but one.
fn without(ports: &[u8], target: SwitchId) -> impl Iterator<Item = &u8> {
    ports.iter().enumerate().filter(move |&(s, _)| s != target.index()).map(|(_, port)| port)
}
