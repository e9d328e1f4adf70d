//! What holds for the layers of every fabric.

use super::*;
use crate::fabric::{ChannelId, Lmc};
use crate::ordering::up_down_rank;
use crate::routing::{Lookahead, NoLegalPath, ranked_sssp};
use crate::topology::{Dragonfly, HyperX, SlimFly, small_members};

/// The same fabric with 2^`lmc` LIDs for each adapter.
fn with_lmc(fabric: &Fabric, lmc: u8) -> Fabric {
    fabric.with_lmc(Lmc::new(lmc).unwrap()).unwrap()
}

fn path(f: &Fabric, lft: &Lft, from: SwitchId, to: SwitchId, lid: Lid) -> Vec<ChannelId> {
    let (mut at, mut path) = (from, Vec::new());
    while at != to {
        let channel = f.channels().at_port(at, lft.get(at, lid).unwrap()).unwrap();
        path.push(channel);
        at = f.channels().get(channel).to;
        assert!(path.len() <= f.num_switches(), "a loop");
    }
    path
}

fn base(f: &Fabric, hops: &Hops, rule: &Rule) -> Option<Lft> {
    let found = ranked_sssp(f, hops, rule, Lookahead::Every, NoLegalPath::Detour(None));
    found.complete.then_some(found.lft)
}

#[test]
fn every_path_is_legal_and_short_enough_and_base_lids_keep_theirs() {
    let mut checked = 0;
    // One for each rule, in turn.
    let stretches = [Stretch::None, Stretch::OneHop];
    // Odin's 128 adapters take as long as all others together.
    let members = small_members().into_iter().filter(|(name, _)| *name != "odin");
    for (i, (name, f)) in members.enumerate() {
        let f = with_lmc(&f, 2);
        let hops = Hops::new(&f).unwrap();
        let rank = up_down_rank(&f, SwitchId(0));
        for (j, rule) in [Rule::OneVl(rank.clone()), Rule::FirstTurnFree(rank)].into_iter().enumerate() {
            let stretch = stretches[(i + j) % 2];
            let Some(base) = base(&f, &hops, &rule) else { continue };
            let lft = layered(&f, &hops, &rule, stretch, &base);
            for end in f.endports() {
                let (home, port) = end.attachment.unwrap();
                assert_eq!(lft.to(end.lid), base.to(end.lid), "{name}");
                // Base paths to any adapter on the switch may be as long as a detour is.
                let others =
                    ends_on(&f, home).into_iter().filter(|(e, _)| e.is_adapter() == end.is_adapter());
                let bases: Vec<Lid> = others.map(|(e, _)| e.lid).collect();
                for (lid, s) in end.lids().flat_map(|lid| f.switch_ids().map(move |s| (lid, s))) {
                    if s == home {
                        assert_eq!(lft.get(s, lid), Some(port), "{name}");
                        continue;
                    }
                    let found = path(&f, &lft, s, home, lid);
                    let longest = bases.iter().map(|&b| path(&f, &base, s, home, b).len()).max().unwrap();
                    let most = usize::from(stretch.most(hops.get(s, home).into())).max(longest);
                    assert!(found.len() <= most, "{name}: {} hops", found.len());
                    let positions = (0..found.len())
                        .map(|i| rule.position_of(found[i], found.get(i + 1).copied()))
                        .collect::<Vec<_>>();
                    assert!(positions.windows(2).all(|p| Rule::legal(p[0], p[1])), "{name}: {positions:?}");
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 10_000);
}

/// Shares of the pairs of switches with at least two and three paths without a common link.
fn apart(f: &Fabric, hops: &Hops, lft: &Lft, distance: u8) -> (f64, f64) {
    let link = |c: &ChannelId| (*c).min(f.channels().get(*c).reverse);
    let (mut two, mut three, mut pairs) = (0, 0, 0);
    for (_, end) in f.adapters() {
        let home = end.attachment.unwrap().0;
        for s in f.switch_ids().filter(|&s| hops.get(s, home) == distance) {
            let paths: Vec<Vec<ChannelId>> =
                end.lids().map(|lid| path(f, lft, s, home, lid).iter().map(link).collect()).collect();
            let meet = |a: usize, b: usize| paths[a].iter().any(|link| paths[b].contains(link));
            let n = paths.len();
            let pair = |a: usize| (0..a).filter(move |&b| !meet(a, b));
            two += u32::from((0..n).any(|a| pair(a).next().is_some()));
            three += u32::from((0..n).any(|a| pair(a).any(|b| pair(b).any(|c| !meet(a, c)))));
            pairs += 1;
        }
    }
    (f64::from(two) / f64::from(pairs), f64::from(three) / f64::from(pairs))
}

#[test]
fn a_slim_fly_has_three_paths_where_it_had_one() {
    let f = with_lmc(&SlimFly { q: 5, cas: Some(1) }.build().unwrap(), 2);
    let hops = Hops::new(&f).unwrap();
    let rule = Rule::FirstTurnFree(up_down_rank(&f, SwitchId(0)));
    let base = base(&f, &hops, &rule).unwrap();
    let lft = layered(&f, &hops, &rule, Stretch::OneHop, &base);
    let (two, three) = apart(&f, &hops, &lft, 2);
    assert!(two > 0.97 && three > 0.8, "{two}, {three}");
    let shortest = layered(&f, &hops, &rule, Stretch::None, &base);
    assert_eq!(apart(&f, &hops, &shortest, 2), (0.0, 0.0), "two switches have one shortest path");
}

#[test]
fn the_same_tables_with_one_thread_and_with_two() {
    let f = with_lmc(&SlimFly { q: 5, cas: Some(2) }.build().unwrap(), 1);
    let hops = Hops::new(&f).unwrap();
    let rule = Rule::FirstTurnFree(up_down_rank(&f, SwitchId(0)));
    let base = base(&f, &hops, &rule).unwrap();
    let tables = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| layered(&f, &hops, &rule, Stretch::OneHop, &base))
    };
    assert!(tables(1) == tables(2));
}

#[test]
fn lids_beyond_the_eighth_take_turns() {
    let f = with_lmc(&HyperX { dims: vec![4, 4], cas: 1 }.build().unwrap(), 4);
    let hops = Hops::new(&f).unwrap();
    let rule = Rule::FirstTurnFree(up_down_rank(&f, SwitchId(0)));
    let base = base(&f, &hops, &rule).unwrap();
    let lft = layered(&f, &hops, &rule, Stretch::OneHop, &base);
    for (_, end) in f.adapters().take(5) {
        let lids: Vec<Lid> = end.lids().collect();
        for (a, b) in lids[..MOST].iter().zip(&lids[MOST..]) {
            assert_eq!(lft.to(*a), lft.to(*b));
        }
        assert!(lids[1..MOST].iter().all(|&lid| lft.to(lid) != lft.to(end.lid)));
    }
}

/// Whoever uses all LIDs alike finds channels that are nearly alike: a fifth less load at least on the worst one, where
/// the paths of each adapter are apart but nobody looks at those of others.
#[test]
fn the_load_over_all_lids_is_levelled() {
    for f in [SlimFly { q: 5, cas: Some(3) }.build().unwrap(), Dragonfly::balanced(2).build().unwrap()] {
        let f = with_lmc(&f, 2);
        let hops = Hops::new(&f).unwrap();
        let rule = Rule::FirstTurnFree(up_down_rank(&f, SwitchId(0)));
        let base = base(&f, &hops, &rule).unwrap();
        let adapters = adapters_by_switch(&f);
        let new_search = || Search::new(&f, &hops, &rule, Stretch::OneHop, &adapters);
        let parts = parts(&f, &adapters, Stretch::OneHop, &base);
        let before = paths_apart(&f, &parts, new_search, &base);
        let mut levelled = before.clone();
        level(&f, &parts, new_search, &mut levelled);
        let largest = |lft: &Lft| load_of_all(&f, lft).into_iter().max().unwrap();
        let (before, after) = (largest(&before), largest(&levelled));
        assert!(5 * after < 4 * before, "{before}, then {after}");
    }
}
