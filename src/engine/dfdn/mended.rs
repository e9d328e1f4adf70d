//! Tables of a baseline, mended where it has lost links.

use std::collections::HashSet;
use std::sync::OnceLock;

use super::build::{ONE_SL_SUFFICES, detours_in_words, lanes_in_words};
use super::candidates::Candidate;
use super::keepable::Keepable;
use super::objective::{Figures, Objective};
use super::tuning::VL;
use super::{Priced, limit};
use crate::engine::plan::Plan;
use crate::engine::{Lineage, Task};
use crate::evaluate::{largest_load, quick_bisection};
use crate::fabric::{ChannelId, Fabric, Lid, PortNum, Sl, SwitchId};
use crate::lanes::Lanes;
use crate::multicast::{KnownOrder, McastTrees};
use crate::ordering::{Rank, Rule, VirtualChannelOrder};
use crate::routing::{
    Choice, Lookahead, Mended, Mending, NoLegalPath, Senders, Usage, detours_to, keep_paths,
};
use crate::tables::{Lft, PathSl, Sl2Vl};

/// Entries (LIDs times switches) up to which tables are mended, as one thread looks at the lost ones.
pub const MAX_MENDED: usize = 10_000_000;

/// Counts of packets, by turn, VL and class of SLs, up to which tables are mended: one for each data VL, and more on small
/// fabrics. Each takes two bytes for each thread.
///
/// - `turns`: of all switches, from each port to each.
pub fn max_counts(turns: usize) -> usize {
    const DATA_VLS: usize = 15;
    (DATA_VLS * turns).max(1 << 24).min(4 * DATA_VLS * turns)
}

/// Virtual channels that mending may visit: about a second. A cable between a core and a spine of a fat tree takes most:
/// with k = 16, eleven million; with k = 20 it failed after two thousand million.
const MOST_VISITS: u64 = 25_000_000;
/// How many times as many the choice by load may visit beside one that is good enough, and how many in any case.
const BESIDE: u64 = 2;
const LEAST_BESIDE: u64 = 1_000_000;

/// The tables of a baseline.
pub(super) struct Before<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) lft: &'a Lft,
    pub(super) keepable: &'a Keepable,
    /// What packets use in them, when that is known.
    pub(super) usage: &'a OnceLock<Usage>,
}

/// What switches and channels were in the fabric of the baseline.
pub(super) struct Onto {
    pub(super) switches: Vec<SwitchId>,
    pub(super) channels: Vec<ChannelId>,
}

/// Tables in which lost paths move, and few others, so that the way to them and back is free of credit loops in two
/// steps: see [`Mending`]. The first that are as good as those of the baseline, else the best; `None` where some
/// switch finds no path so, or too many pairs take detours.
///
/// Tables may be as good as those of the baseline in two ways: by the P-SSSP of the fabric then, or by that of what is
/// left. The latter costs a pass of P-SSSP, so it is asked for where the former says no. As P-SSSP may have a channel with
/// twice the load of others then, the choice by load is looked at beside the one that moves less: it counts if it is worth
/// a VL more.
///
/// - `objective`: of the task. Its fabric is that of now, perhaps with fewer LIDs to judge tables by.
/// - `new`: the fabric of now.
///
/// Cost: that of [`Mending::prepare`], and sixteen times that of `mend` at most; not tried where there are more than
/// [`MAX_MENDED`] entries or [`max_counts`].
pub(super) fn mended<'a>(
    before: &Before<'_>,
    task: Task<'a>,
    objective: &dyn Fn() -> Objective<'a>,
    new: &Fabric,
    onto: &Onto,
) -> Option<Priced> {
    let &Before { fabric: old, lft, keepable, usage } = before;
    let trees = keepable.trees.as_ref()?;
    if old.num_switches() * lft.lids() > MAX_MENDED {
        return None;
    }
    let Lanes { sl2vl, path_sl, vls, sls } = &keepable.lanes;
    let senders = Senders::new(old, sl2vl, path_sl, &trees.trees)?;
    let turns = old.switch_ids().map(|s| old.channels().slots_of(s).pow(2)).sum();
    if turns * senders.classes().len() * usize::from(*vls) > max_counts(turns) {
        return None;
    }
    let (mut alive, mut present) = (vec![false; old.channels().len()], vec![false; old.num_switches()]);
    onto.channels.iter().for_each(|c| alive[c.index()] = true);
    onto.switches.iter().for_each(|s| present[s.index()] = true);
    let lids = same_lids(old, new, onto)?;
    let has_layers = new.adapters().any(|(_, end)| end.lmc.lids() > 1);
    let largest = || largest_load(old, lft).unwrap_or(u64::MAX);
    let mending = Mending {
        fabric: old,
        alive: &alive,
        present: &present,
        lids: &lids,
        lft,
        sl2vl,
        senders: &senders,
        most_vls: task.limits.vls.max(*vls),
        trees: &trees.trees,
        // Nor are they to share links again.
        enough: if has_layers {
            u64::MAX
        } else {
            keepable.worth.map_or_else(largest, |worth| worth.largest)
        },
    };
    let prepared = mending.prepare(usage.get_or_init(|| Usage::of(&mending)));
    let then = keepable.worth.map(|worth| Objective::beside(task, worth.reference));
    let mut best: Option<Priced> = None;
    let mut tried: Vec<(bool, Mended)> = Vec::new();
    // The paths of further LIDs leave little room, and so do some that obey no rule.
    let strays: &[bool] = match (has_layers, &keepable.candidate) {
        (true, _) => &[true],
        (false, None) => &[false, true],
        (false, Some(_)) => &[false],
    };
    for choice in strays.iter().flat_map(|&may_stray| Choice::all(may_stray)) {
        if choice.may_stray && best.is_some() && !has_layers {
            break;
        }
        let is_enough = best.as_ref().is_some_and(|best| keepable.matched_by(best));
        if is_enough && !choice.by_load {
            break;
        }
        let visited = prepared.visited();
        let beside = visited + LEAST_BESIDE.max(BESIDE * visited);
        let most = if is_enough { beside.min(MOST_VISITS) } else { MOST_VISITS };
        let Some(found) = prepared.mend(choice, most) else { continue };
        let found = (choice.trees_stay, found);
        // Choices often come to the same.
        if tried.contains(&found) {
            continue;
        }
        let kept_trees = found.1.trees.as_ref().and_then(|joined| {
            trees_over(new, &McastTrees { trees: joined.clone(), unserved: trees.unserved }, onto)
        });
        let plan = plan(before, task, (new, onto), &lids, &found.1, kept_trees);
        tried.push(found);
        let Some((plan, figures)) = plan else { continue };
        let by = |objective: Objective<'_>, plan| {
            Priced::new(plan, *sls, &objective, &objective.reference.compare(&figures))
        };
        let first = by(then.unwrap_or_else(objective), plan);
        let priced = match then {
            Some(_) if keepable.matched_by(&first) => return Some(first),
            Some(_) => by(objective(), first.plan),
            None => first,
        };
        let is_better = |best: &Priced| match keepable.matched_by(best) {
            true => priced.price + VL < best.price,
            false => priced.lost < best.lost,
        };
        if best.as_ref().is_none_or(is_better) {
            best = Some(priced);
        }
    }
    best
}

/// The LIDs of a fabric; `None` where one belonged to another port.
fn same_lids(old: &Fabric, new: &Fabric, onto: &Onto) -> Option<Vec<Lid>> {
    let mut lids = Vec::new();
    for end in new.endports() {
        let Some((s, port)) = end.attachment else { continue };
        for lid in end.lids() {
            let owner = old.endport(old.owner_of(lid)?);
            let attachment = Some((onto.switches[s.index()], port));
            (owner.guid == end.guid && owner.attachment == attachment).then(|| lids.push(lid))?;
        }
    }
    lids.sort_unstable();
    Some(lids)
}

/// Mended tables on the fabric of now, and what they come to.
///
/// - `trees`: `None` to look for some.
fn plan(
    before: &Before<'_>,
    task: Task<'_>,
    (new, onto): (&Fabric, &Onto),
    lids: &[Lid],
    mended: &Mended,
    trees: Option<McastTrees>,
) -> Option<(Plan, Figures)> {
    let keepable = before.keepable;
    let mut lft = Lft::new(new);
    for &lid in lids {
        let entries = lft.to_mut(lid).iter_mut().zip(&onto.switches);
        entries.for_each(|(entry, was)| *entry = mended.lft.to(lid)[was.index()]);
    }
    let figures = figures(before, task, new, lids, mended, &lft)?;
    if figures.detours > limit(task.settings) {
        return None;
    }
    let known = mended.places.as_ref().map(|by_vl| {
        let rank = |places: &Vec<u32>| Rank::by_key(new, |c, _| places[onto.channels[c.index()].index()]);
        let ranks: Vec<Rank> = by_vl.iter().map(rank).collect();
        let tree = keepable.candidate.as_ref().map(Candidate::tree);
        let trees = tree.map(|tree| tree.onto(new, &ranks[0], &onto.switches, &onto.channels));
        let trees = trees.into_iter().collect();
        KnownOrder { lanes: VirtualChannelOrder::new(ranks), trees, suffices: false }
    });
    let Lanes { sl2vl: rows, path_sl, vls, sls } = &keepable.lanes;
    let mut rows = rows.clone();
    mended.rows.iter().for_each(|&(s, i, o, row)| rows.set(s, i, o, row));
    let vls = mended.vls.max(*vls);
    let mut sl2vl = Sl2Vl::new(new);
    for (s, &was) in new.switch_ids().zip(&onto.switches) {
        if sl2vl.ports_of(s) == rows.ports_of(was) {
            sl2vl.of_mut(s).copy_from_slice(rows.of(was));
            continue;
        }
        let ports = sl2vl.ports_of(s).min(rows.ports_of(was)) as u8;
        for (i, o) in (0..ports).flat_map(|i| (0..ports).map(move |o| (PortNum(i), PortNum(o)))) {
            sl2vl.set(s, i, o, rows.row(was, i, o));
        }
    }
    sl2vl.set_adapters(rows.adapters());
    let lanes = lanes_in_words(*sls, vls);
    let mut remarks = vec![format!("{lanes}, {}", detours_in_words(figures.detours))];
    remarks.extend((*sls == 1).then(|| ONE_SL_SUFFICES.to_owned()));
    remarks.push("paths stay as they were, but for those that failed links took".to_owned());
    let path_sl = same_sls(before.fabric, path_sl, (new, onto), lids);
    let to_find = trees.is_none();
    let mut plan = Plan { lft, sl2vl, path_sl, vls, remarks, trees, lineage: Lineage::Kept };
    if to_find {
        plan.find_trees(new, task.hops, known.as_ref());
    }
    plan.serves_multicast().then_some((plan, figures))
}

/// The SLs of a fabric on that of now.
fn same_sls(old: &Fabric, path_sl: &PathSl, (new, onto): (&Fabric, &Onto), lids: &[Lid]) -> PathSl {
    let switches = || new.switch_ids().zip(&onto.switches);
    let are_all_there = old.num_switches() == new.num_switches() && switches().all(|(s, &was)| s == was);
    if path_sl.any().is_some() || are_all_there && old.lid_table_len() == new.lid_table_len() {
        return path_sl.clone();
    }
    let mut sls = vec![0; new.num_switches() * new.lid_table_len()];
    for &lid in lids {
        for (s, &was) in switches() {
            let sl = path_sl.path_record_sl(old.num_switches(), was, lid, Sl(0));
            sls[lid.index() * new.num_switches() + s.index()] = sl.map_or(PathSl::UNKNOWN, |sl| sl.0);
        }
    }
    PathSl::BySwitch(sls)
}

/// What mended tables come to. `None` where some switch has no path.
///
/// - `new`: the fabric of now.
/// - `lft`: the tables on it.
fn figures(
    before: &Before<'_>,
    task: Task<'_>,
    new: &Fabric,
    lids: &[Lid],
    mended: &Mended,
    lft: &Lft,
) -> Option<Figures> {
    let Task { fabric, hops, .. } = task;
    let equal = before.fabric.weights().equal() && fabric.weights().equal();
    // The known load is that of all LIDs. Paths that stay are as short as they were.
    if !equal || before.keepable.detours > 0.0 || !std::ptr::eq(fabric, new) {
        let anything = (&Rule::Any, Lookahead::Every, NoLegalPath::Break);
        let (forwarding, lost) =
            keep_paths(fabric, hops, anything.0, anything.1, anything.2, lft.clone(), false);
        return lost.is_empty().then(|| Figures::of(fabric, &forwarding));
    }
    let to_adapter = |lid: &Lid| fabric.owner_of(*lid).is_some_and(|end| fabric.endport(end).is_adapter());
    let moved = |lid: &Lid| before.lft.to(*lid) != mended.lft.to(*lid);
    let to_adapters = lids.iter().copied().filter(to_adapter);
    let pairs = to_adapters.clone().count() * fabric.adapters().count().saturating_sub(1);
    Some(Figures {
        load: mended.load.iter().copied().max().unwrap_or(0),
        bandwidth: quick_bisection(fabric, lft),
        detours: detours_to(fabric, hops, lft, to_adapters.filter(moved))? as f64 / pairs.max(1) as f64,
    })
}

/// The trees on the fabric of now; `None` where one has lost a link that it needs.
fn trees_over(new: &Fabric, trees: &McastTrees, onto: &Onto) -> Option<McastTrees> {
    let ends: HashSet<_> = new.endports().iter().filter_map(|end| end.attachment).collect();
    let mut trees = trees.clone();
    for tree in &mut trees.trees {
        let mut links = 0;
        let mut left = Vec::new();
        for (s, &was) in new.switch_ids().zip(&onto.switches) {
            let mut ports = tree.at(was);
            for port in tree.at(was).iter() {
                let leads = new.channels().at_port(s, port).is_some();
                links += usize::from(leads);
                if !leads && !ends.contains(&(s, port)) {
                    ports.remove(port);
                }
            }
            left.push((s, ports));
        }
        // What is left of a tree spans all switches if it has as many links as that takes.
        if links != 2 * (new.num_switches() - 1) {
            return None;
        }
        left.retain(|(_, ports)| !ports.is_empty());
        tree.ports = left;
    }
    Some(trees)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Balance, Baseline, Prefer, Settings, Task, route};
    use crate::evaluate::largest_load;
    use crate::lanes::LaneLimits;
    use crate::reconfigure::{Options, plan};
    use crate::routing::Hops;
    use crate::tables::{McastGroup, Routes, Transition};
    use crate::topology::{
        Candidates, FatTree, Kautz, Oft, Random, Torus, fail_links, fail_switches, small_members,
    };

    fn mend(baseline: &Baseline, damaged: &Fabric, settings: &Settings) -> Option<Priced> {
        let hops = Hops::new(damaged).expect("in one part");
        let limits = LaneLimits { vls: 8, sls: 16 };
        let dimensions = OnceLock::new();
        let task =
            Task { fabric: damaged, hops: &hops, settings, limits, baseline: None, dimensions: &dimensions };
        baseline.mend(task, &|| Objective::new(task), damaged)
    }

    /// Routes on the fullest channel of mended tables after a failed link; `None` where there are none.
    fn largest_after(baseline: &Baseline, whole: &Fabric, seed: u64) -> Option<u64> {
        let damaged = fail_links(whole, 1, seed).unwrap();
        let mended = mend(baseline, &damaged, &Settings::default())?;
        Some(largest_load(&damaged, &mended.plan.lft).unwrap())
    }

    /// Whatever the family, and whatever bandwidth that costs; with one SL and with several.
    #[test]
    fn two_steps_lead_to_mended_tables_and_back() {
        let (mut ways, mut with_several_sls) = (0, 0);
        let minimal = Settings { prefer: Prefer::Minimal, ..Settings::default() };
        let all = small_members().into_iter().flat_map(|(name, whole)| {
            [(name, whole.clone(), Settings::default()), (name, whole, minimal.clone())]
        });
        for (name, whole, settings) in all {
            let Ok(routed) = route(&whole, &settings) else { continue };
            let Some(baseline) = Baseline::new(&whole, &settings, &routed) else { continue };
            let links = (1..=2).filter_map(|seed| fail_links(&whole, 1, seed).ok());
            let switch = fail_switches(&whole, 1, Candidates::Any, 1).ok();
            for damaged in links.chain(switch) {
                let Some(mended) = mend(&baseline, &damaged, &settings) else { continue };
                // The trees are left out: they change in the same steps.
                let unicast = |lft: &Lft, sl2vl: &Sl2Vl, path_sl: &PathSl, fabric: &Fabric| Routes {
                    sl2vl: sl2vl.clone(),
                    path_sl: path_sl.clone(),
                    ..Routes::on_one_vl("unicast", fabric, lft.clone())
                };
                let before = &routed.routes;
                let before = unicast(&before.lft, &before.sl2vl, &before.path_sl, &whole);
                let after = &mended.plan;
                let after = unicast(&after.lft, &after.sl2vl, &after.path_sl, &damaged);
                let fails = Transition::between(&whole, &before, &damaged, &after);
                let returns = Transition::between(&damaged, &after, &whole, &before);
                for (fabric, t, is_repair) in [(&damaged, fails, false), (&whole, returns, true)] {
                    let p = plan(fabric, &t, Options::default());
                    assert!(p.is_proven(), "{name}: {}", p.how);
                    ways += 1;
                    let several_sls = before.path_sl.any().is_none();
                    with_several_sls += usize::from(several_sls);
                    let in_two = p.dropped_entries == 0 && p.plan.steps.len() <= 2;
                    // With several SLs a destination may stray; the way back may discard some packets then.
                    assert!(several_sls || in_two, "{name}: {}", p.how);
                    assert!(in_two || p.dropped_entries == 0 || is_repair, "{name}: {}", p.how);
                }
            }
        }
        assert!(ways > 100 && with_several_sls > 10, "{ways} {with_several_sls}");
    }

    /// One other link for the one that failed.
    #[test]
    fn a_tree_that_has_lost_a_link_is_joined_again() {
        let settings = Settings::default();
        let (mut hit, mut joined) = (0, 0);
        for (_, whole) in small_members() {
            let Ok(routed) = route(&whole, &settings) else { continue };
            let Some(baseline) = Baseline::new(&whole, &settings, &routed) else { continue };
            let Some(before) = routed.routes.multicast.first() else { continue };
            for damaged in (1..=4).filter_map(|seed| fail_links(&whole, 1, seed).ok()) {
                let Some(mended) = mend(&baseline, &damaged, &settings) else { continue };
                let trees = mended.plan.trees.expect("mended tables have trees").trees;
                let links = |of: &Fabric, group: &McastGroup| {
                    let ports = of.switch_ids().flat_map(|s| group.at(s).iter().map(move |port| (s, port)));
                    let links = ports.filter(|&(s, port)| of.channels().at_port(s, port).is_some());
                    links.map(|(s, port)| (of.switch(s).guid, port)).collect::<HashSet<_>>()
                };
                let (was, is) = (links(&whole, before), links(&damaged, &trees[0]));
                assert_eq!(is.len(), 2 * (damaged.num_switches() - 1));
                let is_hit = was.iter().any(|&(guid, port)| {
                    let s = damaged.switch_ids().find(|&s| damaged.switch(s).guid == guid);
                    damaged.channels().at_port(s.expect("no switch failed"), port).is_none()
                });
                hit += usize::from(is_hit);
                joined += usize::from(is_hit && is.difference(&was).count() == 2);
            }
        }
        assert!(hit > 10 && 10 * joined > 8 * hit, "{joined} of {hit}");
    }

    /// In the order of LIDs alone, fewer failures of these leave each destination a path.
    #[test]
    fn destinations_without_a_path_go_first() {
        let settings = Settings::default();
        let whole = Random { switches: 16, degree: 4, cas: 2, seed: 1 }.build().unwrap();
        let baseline = Baseline::new(&whole, &settings, &route(&whole, &settings).unwrap()).unwrap();
        let is_mended =
            |seed: &u64| mend(&baseline, &fail_links(&whole, 2, *seed).unwrap(), &settings).is_some();
        let mended = (1..=20).filter(is_mended).count();
        assert!(mended >= 19, "{mended}");
    }

    /// 16 routes before; otherwise 19.1 in the mean. Two of the ten failures leave a switch without a path unless others
    /// leave room for its old entry.
    #[test]
    fn others_leave_channels_that_lost_paths_crowd() {
        let settings = Settings { balance: Balance::Full, ..Settings::default() };
        let whole = Kautz { d: 3, n: 3, cas: 1 }.build().unwrap();
        let routed = route(&whole, &settings).unwrap();
        let baseline = Baseline::new(&whole, &settings, &routed).unwrap();
        let largest = |seed| largest_after(&baseline, &whole, seed).expect("every switch has a path");
        let mean = (1..=10).map(largest).sum::<u64>() as f64 / 10.0;
        assert!(mean < 18.5, "{mean}");
    }

    /// 1016 routes before, and at least 1048 with new tables. Spines choose before the leaves that send; these move to other
    /// spines afterwards, else there are 1152. Where a leaf loses a cable, the other seven carry 1161 at least.
    #[test]
    fn spines_and_leaves_share_what_a_lost_cable_to_a_core_carried() {
        let settings = Settings::default();
        let whole = FatTree { k: 16, levels: 3, down: None, cas: None }.build().unwrap();
        let baseline = Baseline::new(&whole, &settings, &route(&whole, &settings).unwrap()).unwrap();
        let all: Vec<u64> = (1..=12).filter_map(|seed| largest_after(&baseline, &whole, seed)).collect();
        let of_cores = all.iter().filter(|&&largest| largest < 1048).count();
        assert!(of_cores >= 7 && all.iter().all(|&largest| largest <= 1168), "{all:?}");
    }

    /// Without late entries, only 8 of 20 on the torus. By the sum of loads alone, 10 on the OFT.
    #[test]
    fn mended_tables_are_as_good_as_those_of_the_baseline() {
        let settings = Settings::default();
        let torus = Torus { dims: vec![4, 4], cas: 1 }.build().unwrap();
        let oft = Oft { k: 4, cas: None }.build().unwrap();
        for (whole, least) in [(torus, 20), (oft, 20)] {
            let baseline = Baseline::new(&whole, &settings, &route(&whole, &settings).unwrap()).unwrap();
            let is_as_good = |seed: &u64| {
                let mended = mend(&baseline, &fail_links(&whole, 1, *seed).unwrap(), &settings);
                mended.is_some_and(|mended| baseline.matched_by(&mended))
            };
            let count = (1..=20).filter(is_as_good).count();
            assert!(count >= least, "{count}");
        }
    }
}
