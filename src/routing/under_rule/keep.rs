//! Tables that keep every path of earlier ones that still exists.

use std::collections::HashSet;
use std::ops::AddAssign;

use rayon::prelude::*;

use super::in_tree::InTree;
use super::load_walk::LoadWalk;
use super::paths::{DetourStats, PathRepair, Walk};
use super::{Forwarding, Lookahead, NoLegalPath};
use crate::fabric::{EndPort, Fabric, Lid, PortNum, SwitchId};
use crate::ordering::{Labels, Rank, Rule};
use crate::routing::demand::Demand;
use crate::routing::minimal_dag::{Lists, for_each_target};
use crate::routing::{Hops, adapters_by_switch, ends_on};
use crate::tables::Lft;

/// Target switches of which one thread reads the paths before it takes more.
const CHUNK: usize = 32;

/// Forwarding tables under a rule that keep every path of earlier tables whose channels are all still there.
///
/// Per destination, switches that have lost their path get a legal one of the least hops over the paths that are
/// left, of several the one with the least load. Where the paths that are left admit none, others are rerouted, as
/// in [`ranked_sssp`](super::ranked_sssp()); where that fails too, the destination is routed anew. So after a failed
/// link only what went over it moves, and under the same rule every old and every new path ascends in one order.
///
/// While switches are programmed, old and new entries are in force side by side. So new entries are chosen with which
/// packets on old ones come into as few turns as possible that the rule forbids.
///
/// Returns the tables, and the destinations that had lost a path. Where some switch has no legal path, the tables are
/// not complete; [`raise_unused`] may help.
///
/// - `before`: entries in switches and LIDs of `fabric`; [`Lft::NO_PATH`] where there was none. Entries over ports
///   without a channel, and paths that the rule forbids, count as lost.
/// - `no_legal_path`: for destinations that are routed anew.
/// - `patient`: a path may be a hop longer for each such turn that it avoids.
///
/// Cost: O(D S) with D LIDs and S switches to read the tables, on all cores, and for each LID whose paths are not all
/// left O(S + C), or that of [`ranked_sssp`](super::ranked_sssp()) where it is routed anew.
pub fn keep_paths(
    fabric: &Fabric,
    hops: &Hops,
    rule: &Rule,
    lookahead: Lookahead,
    no_legal_path: NoLegalPath<'_>,
    before: Lft,
    patient: bool,
) -> (Forwarding, Vec<(SwitchId, Lid)>) {
    let adapters = adapters_by_switch(fabric);
    let all: u64 = adapters.iter().sum();
    let demand = Demand::new(fabric);
    let mut result = Forwarding { lft: before, ..Forwarding::nothing(fabric) };
    let targets: Vec<SwitchId> = fabric.switch_ids().collect();
    let read = |part: &[SwitchId]| {
        let mut kept = Kept::nothing(fabric);
        let mut tree = InTree::new(fabric, &adapters);
        part.iter().for_each(|&target| kept.read(&mut tree, hops, rule, target, &result.lft));
        kept
    };
    let kept = targets.par_chunks(CHUNK).map(read).reduce(
        || Kept::nothing(fabric),
        |mut a, b| {
            a += b;
            a
        },
    );
    result.load = kept.load;
    result.detours = kept.detours;
    result.pairs = fabric.adapters().map(|(_, end)| end.lids().count() as u64 * (all - 1)).sum();
    let mut lost = kept.lost;
    lost.sort_unstable();
    let mut targets: Vec<SwitchId> = lost.iter().map(|&(target, _)| target).collect();
    targets.dedup();
    let repair = PathRepair { hops, no_legal_path, adapters: &adapters };
    let mut walk = LoadWalk::new(fabric, rule, lookahead);
    for_each_target(fabric, hops, &targets, Lists::All, |dag| {
        for (lid, end, port) in lids(fabric, dag.target) {
            if lost.binary_search(&(dag.target, lid)).is_err() || !result.complete {
                continue;
            }
            let mut stats = DetourStats::default();
            let Forwarding { lft, load, .. } = &mut result;
            if walk.resume(dag.target, lft.to(lid), load, patient) {
                stats.detours += match end.is_adapter() {
                    true => walk.paths().detours(hops).map(|s| adapters[s.index()]).sum(),
                    false => 0,
                };
            } else {
                walk.choose(dag, load);
                if walk.any_violation() {
                    repair.repair(&mut walk, dag, load, (end, lid), &mut stats);
                }
            }
            walk.paths().write(lft.to_mut(lid));
            lft.set(dag.target, lid, port);
            if end.is_adapter() {
                let (routes, times) = demand.to(end);
                walk.paths_mut().count(routes, times, load);
            }
            result.add(stats);
        }
    });
    (result, lost)
}

/// The rule with one VL more, which turns have that no path uses. So all paths stay legal, and destinations without
/// a path have more turns to choose from. Where all was on one VL, these are the turns that descend.
///
/// - `rank`: in which consecutive turns with the new label ascend.
/// - `lost`: destinations whose paths do not count, as they have to move.
///
/// `None` under [`Rule::Any`].
///
/// Cost: O(D S) with D LIDs and S switches.
pub fn raise_unused(
    fabric: &Fabric,
    rule: &Rule,
    rank: Rank,
    lft: &Lft,
    lost: &[(SwitchId, Lid)],
) -> Option<Rule> {
    let (mut ranks, labels) = match rule {
        Rule::OneVl(only) => {
            let mut labels = Labels::ones(fabric);
            for (first, c) in fabric.channels().iter() {
                for (second, _) in fabric.channels().out(c.to) {
                    let turn = labels.turn(first, second);
                    labels.by_turn_mut()[turn] = u8::from(only.of(first) >= only.of(second));
                }
            }
            return Some(Rule::Labelled { ranks: vec![only.clone(), rank], labels });
        }
        Rule::FirstTurnFree(rank) => (vec![rank.clone(), rank.clone()], Labels::ones(fabric)),
        Rule::Labelled { ranks, labels } => (ranks.clone(), labels.clone()),
        Rule::Ordered { order, labels } => {
            let most = rule.vls().max(order.mixed_vls() as u8);
            let labels = raised(fabric, labels, lft, lost, most);
            return Some(Rule::Ordered { order: order.with_highest(most, rank), labels });
        }
        Rule::Any => return None,
    };
    let most = rule.vls();
    // The last rank serves all higher labels.
    let last = ranks.last()?.clone();
    ranks.resize(usize::from(most), last);
    ranks.push(rank);
    Some(Rule::Labelled { ranks, labels: raised(fabric, &labels, lft, lost, most) })
}

/// Labels where all turns have the highest one that no path uses.
fn raised(fabric: &Fabric, labels: &Labels, lft: &Lft, lost: &[(SwitchId, Lid)], most: u8) -> Labels {
    let mut labels = labels.clone();
    let lost: HashSet<Lid> = lost.iter().map(|&(_, lid)| lid).collect();
    let used = used_turns(fabric, &labels, lft, |lid| !lost.contains(&lid));
    for (label, used) in labels.by_turn_mut().iter_mut().zip(used) {
        *label = if used { *label } else { most };
    }
    labels
}

/// The rule with the labels of a lower one for all turns that no path uses, so that fewer SL2VL rows differ.
///
/// Cost: O(D S) with D LIDs and S switches.
pub fn lower_unused(fabric: &Fabric, rule: &Rule, lower: &Rule, lft: &Lft) -> Rule {
    let mut rule = rule.clone();
    let (Rule::Labelled { labels, .. } | Rule::Ordered { labels, .. }) = &mut rule else { return rule };
    let used = used_turns(fabric, labels, lft, |_| true);
    for (first, c) in fabric.channels().iter() {
        for (second, _) in fabric.channels().out(c.to) {
            let turn = labels.turn(first, second);
            if !used[turn] {
                labels.by_turn_mut()[turn] = lower.label(first, second);
            }
        }
    }
    rule
}

/// By turn, as labels are: whether paths use it.
fn used_turns(fabric: &Fabric, labels: &Labels, lft: &Lft, counts: impl Fn(Lid) -> bool) -> Vec<bool> {
    let mut used = vec![false; labels.by_turn().len()];
    let all = fabric.switch_ids().flat_map(|s| lids(fabric, s).map(move |(lid, ..)| (s, lid)));
    for (target, lid) in all.filter(|&(_, lid)| counts(lid)) {
        let ports = lft.to(lid);
        let next = |s: SwitchId| fabric.channels().at_port(s, PortNum(ports[s.index()]));
        for first in fabric.switch_ids().filter(|&s| s != target).filter_map(next) {
            let to = fabric.channels().get(first).to;
            if let Some(second) = (to != target).then(|| next(to)).flatten() {
                used[labels.turn(first, second)] = true;
            }
        }
    }
    used
}

/// The LIDs on a switch, with their end ports and the switch's ports to these.
fn lids(fabric: &Fabric, target: SwitchId) -> impl Iterator<Item = (Lid, &EndPort, PortNum)> {
    ends_on(fabric, target).into_iter().flat_map(|(end, port)| end.lids().map(move |lid| (lid, end, port)))
}

/// What is left of earlier tables.
struct Kept {
    /// Routes by channel to the destinations that keep all their paths.
    load: Vec<u64>,
    /// Adapter pairs on detours among these.
    detours: u64,
    /// The other destinations, with the switch that they are on.
    lost: Vec<(SwitchId, Lid)>,
}

impl Kept {
    fn nothing(fabric: &Fabric) -> Self {
        Self { load: vec![0; fabric.channels().len()], detours: 0, lost: Vec::new() }
    }

    fn read(&mut self, tree: &mut InTree<'_>, hops: &Hops, rule: &Rule, target: SwitchId, lft: &Lft) {
        for (lid, end, port) in lids(tree.fabric, target) {
            let ports = lft.to(lid);
            tree.lid = Some(lid);
            if ports[target.index()] != port.0 || !tree.read(target, ports) || !tree.obeys(rule) {
                self.lost.push((target, lid));
            } else if end.is_adapter() {
                tree.count(&mut self.load);
                self.detours += tree.detours(hops);
            }
        }
    }
}

impl AddAssign for Kept {
    fn add_assign(&mut self, other: Self) {
        self.load.iter_mut().zip(other.load).for_each(|(sum, load)| *sum += load);
        self.detours += other.detours;
        self.lost.extend(other.lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::{VirtualChannelOrder, up_down_rank};
    use crate::routing::ranked_sssp;
    use crate::topology::{Ring, fail_links, small_members};

    #[test]
    fn tables_of_the_same_fabric_stay_as_they_are() {
        for (name, f) in small_members() {
            let hops = Hops::new(&f).unwrap();
            let rule = Rule::FirstTurnFree(up_down_rank(&f, SwitchId(0)));
            let detour = NoLegalPath::Detour(None);
            let before = ranked_sssp(&f, &hops, &rule, Lookahead::Every, detour);
            if !before.complete {
                continue;
            }
            let (kept, _) = keep_paths(&f, &hops, &rule, Lookahead::Every, detour, before.lft.clone(), true);
            assert!(kept.lft == before.lft && kept.load == before.load && kept.complete, "{name}");
            assert_eq!((kept.pairs, kept.detours), (before.pairs, before.detours), "{name}");
        }
    }

    /// An order may mix more VLs than labels use.
    #[test]
    fn unused_turns_get_a_vl_above_all_that_mix() {
        let f = Ring { switches: 5, cas: 1 }.build().unwrap();
        let hops = Hops::new(&f).unwrap();
        let rank = up_down_rank(&f, SwitchId(0));
        let lft = ranked_sssp(&f, &hops, &Rule::Any, Lookahead::Every, NoLegalPath::Break).lft;
        let places = (0..3 * f.channels().len() as u32).collect();
        let order = VirtualChannelOrder::mixed(places, rank.clone());
        let rule = Rule::Ordered { order, labels: Labels::ones(&f) };
        let raised = raise_unused(&f, &rule, rank, &lft, &[]).unwrap();
        assert_eq!((rule.vls(), raised.vls()), (2, 4));
    }

    /// Switches and LIDs keep their numbers where only links fail.
    #[test]
    fn after_a_failed_link_only_paths_over_it_move() {
        let mut moved = 0;
        for (name, f) in small_members() {
            let Ok(left) = fail_links(&f, 1, 1) else { continue };
            let was = Hops::new(&f).unwrap();
            let hops = Hops::new(&left).unwrap();
            let rank = up_down_rank(&f, SwitchId(0));
            let detour = NoLegalPath::Detour(None);
            let lookahead = Lookahead::Every;
            let before = ranked_sssp(&f, &was, &Rule::OneVl(rank.clone()), lookahead, detour);
            let twin = |c: &crate::fabric::Channel| f.channels().at_port(c.from, c.out_port).unwrap();
            let rule = Rule::OneVl(crate::ordering::Rank::by_key(&left, |_, c| rank.of(twin(c))));
            let (after, _) = keep_paths(&left, &hops, &rule, lookahead, detour, before.lft.clone(), false);
            if !before.complete || !after.complete {
                continue;
            }
            let adapters = adapters_by_switch(&left);
            let mut tree = InTree::new(&left, &adapters);
            for (target, (lid, ..)) in left.switch_ids().flat_map(|s| lids(&left, s).map(move |l| (s, l))) {
                let (old, new) = (before.lft.to(lid), after.lft.to(lid));
                assert!(tree.read(target, new), "{name}");
                let ascends = |c| {
                    tree.after(tree.to(c)).is_none_or(|next| {
                        Rule::legal(rule.position_of(c, Some(next)), rule.position_of(next, None))
                    })
                };
                assert!(tree.order.iter().all(|s| ascends(tree.next[s.index()])), "{name}");
                let lost = |s: &SwitchId| {
                    *s != target && left.channels().at_port(*s, PortNum(old[s.index()])).is_none()
                };
                let any_lost = left.switch_ids().any(|s| lost(&s));
                assert!(any_lost || old == new, "{name}");
                moved += old.iter().zip(new).filter(|(a, b)| a != b).count();
            }
        }
        assert!(moved > 0);
    }
}
