use super::*;
use crate::fabric::{Duty, FabricBuilder, Guid, LinkSpeed, Lmc, Node, NodeKind, PortRef, Role};
use crate::ordering::{Tree, host_levels, up_down_rank};
use crate::topology::{FatTree, HyperX, SlimFly, fail_links, slow_links, small_members};

/// Channels from a switch to the home of a LID.
fn walk(f: &Fabric, lft: &Lft, from: SwitchId, lid: Lid, home: SwitchId) -> Vec<ChannelId> {
    let (mut at, mut path) = (from, Vec::new());
    while at != home {
        let c = f.channels().at_port(at, lft.get(at, lid).unwrap()).unwrap();
        path.push(c);
        at = f.channels().get(c).to;
        assert!(path.len() < f.num_switches(), "a loop");
    }
    path
}

fn free(f: &Fabric) -> Forwarding {
    let hops = Hops::new(f).unwrap();
    stable_sssp(f, &hops, &Rule::Any, Lookahead::Every, NoLegalPath::Break)
}

#[test]
fn without_a_rule_all_ways_are_minimal_and_counted() {
    for (name, f) in small_members() {
        let hops = Hops::new(&f).unwrap();
        let routed = free(&f);
        assert!(routed.complete && routed.broken.is_empty() && routed.detours == 0, "{name}");
        let mut load = vec![0; f.channels().len()];
        for end in f.endports() {
            let home = end.attachment.unwrap().0;
            for (lid, s) in end.lids().flat_map(|lid| f.switch_ids().map(move |s| (lid, s))) {
                let path = walk(&f, &routed.lft, s, lid, home);
                assert_eq!(path.len(), usize::from(hops.get(s, home)), "{name}");
                let weight = if end.is_adapter() { f.num_adapters_on(s) as u64 } else { 0 };
                path.iter().for_each(|c| load[c.index()] += weight);
            }
        }
        assert_eq!(load, routed.load, "{name}");
    }
}

/// A walk turned from one switch to others with the same neighbours takes the paths of a new walk to each.
#[test]
fn paths_to_twins_are_those_to_each_alone() {
    let tree = FatTree { k: 8, levels: 3, down: None, cas: None }.build().unwrap();
    let damaged = fail_links(&tree, 3, 1).unwrap();
    let slow = slow_links(&tree, 3, 2).unwrap();
    let mut turned = 0;
    for (name, f) in small_members().into_iter().chain([("tree", tree), ("damaged", damaged), ("slow", slow)])
    {
        let hops = Hops::new(&f).unwrap();
        let criteria = Criteria::new(&f, &hops);
        let targets: Vec<SwitchId> = f.switch_ids().collect();
        let lists: Vec<Vec<SwitchId>> = in_chunks(twins(&f, &targets)).concat();
        let rank = up_down_rank(&f, SwitchId(0));
        for rule in [Rule::Any, Rule::OneVl(rank.clone()), Rule::FirstTurnFree(rank)] {
            let with_sets = RuleWithSets::new(&rule, None);
            let new = || StableWalk::new(&f, with_sets, Lookahead::Every, &criteria);
            let mut walk = new();
            for_each_twin_here(&f, &hops, &lists, Lists::All, |dag, twin| {
                let target_hash = mix(f.switch(dag.target).guid.0);
                let mut alone = new();
                walk.turn_to(dag, twin, target_hash);
                alone.turn_to(dag, None, target_hash);
                turned += usize::from(twin.is_some());
                for (end, _) in ends_on(&f, dag.target) {
                    let descent = criteria.descents.as_ref().map_or(&[][..], |d| d.of(end.lid));
                    let destination = Destination { hash: hash_of(end, 0), target_hash, descent };
                    walk.choose(dag, destination);
                    alone.choose(dag, destination);
                    let paths = |walk: &StableWalk<'_>| walk.paths().outward().collect::<Vec<_>>();
                    assert_eq!(paths(&walk), paths(&alone), "{name} {:?}", dag.target);
                }
            });
        }
    }
    assert!(turned > 100, "{turned}");
}

/// A complete graph in which each pair of switches has three cables, one of them at half the rate.
#[test]
fn parallel_channels_share_by_their_rates() {
    let mut b = FabricBuilder::new();
    let node = |kind, guid, ports| Node::new(kind, Guid(guid), ports, "");
    let switches: Vec<_> = (0..4).map(|s| b.add(node(NodeKind::Switch, s + 1, 60)).unwrap()).collect();
    let mut next = [0; 4];
    let mut port = |s: usize| {
        next[s] += 1;
        PortRef { node: switches[s], port: PortNum(next[s]) }
    };
    for (x, y) in (0..4).flat_map(|x| (0..x).map(move |y| (x, y))) {
        for width in [4, 2, 4] {
            let ends = [port(x), port(y)];
            b.connect(ends[0], ends[1]).unwrap();
            for end in ends {
                let port = &mut b.node_mut(end.node).ports[end.port.index()];
                (port.width, port.speed) = (Some(width), Some(LinkSpeed::Edr));
            }
        }
    }
    for h in 0..80 {
        let host = b.add(node(NodeKind::ChannelAdapter, 1000 + 10 * h as u64, 1)).unwrap();
        b.connect(PortRef { node: host, port: PortNum(1) }, port(h % 4)).unwrap();
    }
    let f = b.finish(Lmc::default()).unwrap();
    let hops = Hops::new(&f).unwrap();
    let plain = crate::routing::ranked_sssp(&f, &hops, &Rule::Any, Lookahead::Every, NoLegalPath::Break);
    for (what, load) in [("stable", free(&f).load), ("P-SSSP", plain.load)] {
        for (id, c) in f.channels().iter() {
            // 20 destinations of 20 routes each over a capacity of two and a half cables.
            assert_eq!(
                load[id.index()],
                160,
                "{what}: {} of weight {}",
                c.out_port,
                f.weights().by_channel()[id.index()]
            );
        }
    }
}

/// In a fat tree every switch has a choice.
#[test]
fn slow_links_carry_less() {
    let whole = FatTree { k: 8, levels: 3, down: None, cas: None }.build().unwrap();
    let f = slow_links(&whole, 26, 1).unwrap();
    let routed = free(&f);
    assert!(routed.complete && routed.broken.is_empty() && routed.detours == 0);
    let mean = |weight: u8| {
        let of = || f.weights().by_channel().iter().zip(&routed.load).filter(move |(w, _)| **w == weight);
        of().map(|(_, &load)| load as f64).sum::<f64>() / f64::from(weight) / of().count() as f64
    };
    assert!(mean(2) < 0.85 * mean(1), "{} and {} routes", mean(2), mean(1));
}

#[test]
fn what_is_not_broken_keeps_to_the_rule() {
    for (name, f) in small_members() {
        let hops = Hops::new(&f).unwrap();
        let root = SwitchId(0);
        let tree = Tree::new(&f, &up_down_rank(&f, root), root);
        for rank in [up_down_rank(&f, root), host_levels(&f, 1)] {
            let own = tree.with_tree_outermost(&f, &rank);
            for make in [Rule::OneVl, Rule::FirstTurnFree] {
                for lookahead in [Lookahead::Every, Lookahead::LastOption] {
                    let (rule, with_tree) = (make(rank.clone()), make(own.clone()));
                    let broken = stable_sssp(&f, &hops, &rule, lookahead, NoLegalPath::Break);
                    check(name, &f, &rule, &broken);
                    let mended =
                        stable_sssp(&f, &hops, &with_tree, lookahead, NoLegalPath::Detour(Some(&tree)));
                    assert!(mended.complete && mended.broken.is_empty(), "{name}");
                    check(name, &f, &with_tree, &mended);
                    let roomy = stable_sssp(&f, &hops, &rule, lookahead, NoLegalPath::Detour(None));
                    if roomy.complete {
                        check(name, &f, &rule, &roomy);
                    }
                }
            }
        }
    }
}

fn check(name: &str, f: &Fabric, rule: &Rule, routed: &Forwarding) {
    for end in f.endports() {
        let home = end.attachment.unwrap().0;
        for s in f.switch_ids().filter(|&s| !routed.broken.contains(&(s, end.lid))) {
            let path = walk(f, &routed.lft, s, end.lid, home);
            let positions = (0..path.len()).map(|i| rule.position_of(path[i], path.get(i + 1).copied()));
            let positions: Vec<u32> = positions.take_while(|&position| position != Rule::END).collect();
            assert!(positions.is_sorted_by(|a, b| a < b), "{name}: {positions:?}");
        }
    }
}

#[test]
fn the_same_tables_with_one_thread_and_with_three() {
    let f = fail_links(&HyperX { dims: vec![4, 4], cas: 3 }.build().unwrap(), 2, 1).unwrap();
    let tables = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| free(&f))
    };
    let (one, three) = (tables(1), tables(3));
    assert!(one.lft == three.lft && one.load == three.load);
}

/// Entries that differ once a link is down, over a few links, and how many of them lead nowhere nearer any more.
fn moved_and_must(f: &Fabric) -> (u32, u32) {
    let before = free(f);
    let (mut moved, mut must) = (0, 0);
    for seed in 1..=8 {
        let damaged = fail_links(f, 1, seed).unwrap();
        let hops = Hops::new(&damaged).unwrap();
        let after = free(&damaged);
        for end in f.endports() {
            let home = end.attachment.unwrap().0;
            for s in f.switch_ids().filter(|&s| s != home) {
                let port = before.lft.get(s, end.lid).unwrap();
                moved += u32::from(after.lft.get(s, end.lid) != Some(port));
                let nearer = damaged
                    .channels()
                    .at_port(s, port)
                    .is_some_and(|c| hops.get(damaged.channels().get(c).to, home) < hops.get(s, home));
                must += u32::from(!nearer);
            }
        }
    }
    (moved, must)
}

/// On a Slim Fly nearly all paths are the only ones, so nothing moves that need not.
#[test]
fn a_failed_link_moves_hardly_more_than_what_went_over_it() {
    let (moved, must) = moved_and_must(&SlimFly { q: 5, cas: None }.build().unwrap());
    assert!(must > 0 && moved * 10 <= must * 11, "{moved} entries moved, {must} had to");
}

/// In a tree the paths of an adapter meet: if its channel is lost, all its paths move, and those of adapters that it
/// displaces.
#[test]
fn a_failed_link_takes_no_turn_from_others() {
    let f = FatTree { k: 6, levels: 3, down: None, cas: None }.build().unwrap();
    let (moved, must) = moved_and_must(&f);
    assert!(must > 0 && moved <= 3 * must, "{moved} entries moved, {must} had to");
}

/// What makes a fat tree non-blocking: down from the tops no two adapters share a channel.
#[test]
fn no_two_adapters_share_a_channel_down_a_fat_tree() {
    let f = FatTree { k: 4, levels: 3, down: None, cas: None }.build().unwrap();
    let routed = free(&f);
    let up = |c: ChannelId| host_levels(&f, 1).of(c) < f.channels().len() as u32 / 2;
    let mut user: Vec<Option<Lid>> = vec![None; f.channels().len()];
    for (_, end) in f.adapters() {
        let home = end.attachment.unwrap().0;
        for s in f.switch_ids().filter(|&s| f.num_adapters_on(s) > 0) {
            for c in walk(&f, &routed.lft, s, end.lid, home).into_iter().filter(|&c| !up(c)) {
                let user = user[c.index()].get_or_insert(end.lid);
                assert_eq!(*user, end.lid, "{}", f.describe_channel(c));
            }
        }
    }
}

/// Each adapter sends to the one k further on: in a whole fat tree every stream has its channels to itself.
#[test]
fn shifts_have_no_collision_in_a_fat_tree() {
    for (k, levels, cas) in [(4, 3, None), (6, 3, None), (8, 3, Some(2)), (8, 2, None), (8, 2, Some(3))] {
        let f = FatTree { k, levels, down: None, cas }.build().unwrap();
        let routed = free(&f);
        let ends: Vec<_> = f.adapters().map(|(_, end)| (end.lid, end.attachment.unwrap().0)).collect();
        for shift in 1..ends.len() {
            let mut used = vec![false; f.channels().len()];
            for (i, &(_, from)) in ends.iter().enumerate() {
                let (lid, home) = ends[(i + shift) % ends.len()];
                for c in walk(&f, &routed.lft, from, lid, home) {
                    assert!(!std::mem::replace(&mut used[c.index()], true), "k {k}, {cas:?}, shift {shift}");
                }
            }
        }
    }
}

/// The adapters of a role take turns among themselves, so those that compute use all channels up from a leaf alike.
#[test]
fn where_some_adapters_store_the_others_use_all_channels_up() {
    let mut f = FatTree { k: 8, levels: 3, down: None, cas: None }.build().unwrap();
    let ends: Vec<_> = f.adapters().map(|(id, end)| (id, end.lid, end.attachment.unwrap())).collect();
    let storage = Duty { role: Role::Storage, ..Duty::default() };
    let (store, compute): (Vec<_>, Vec<_>) = ends.into_iter().partition(|(.., (_, port))| port.0 == 2);
    store.iter().for_each(|&(id, ..)| f.set_duty(id, storage));
    let routed = free(&f);
    for leaf in f.switch_ids().filter(|&s| f.num_adapters_on(s) > 0) {
        let mut destinations = vec![0; 4];
        let others: Vec<_> = compute.iter().filter(|(.., (home, _))| *home != leaf).collect();
        for (_, lid, _) in &others {
            let c = f.channels().at_port(leaf, routed.lft.get(leaf, *lid).unwrap()).unwrap();
            let number = f.channels().out(leaf).position(|(id, _)| id == c).unwrap();
            destinations[number] += 1;
        }
        let share = others.len().div_ceil(4);
        assert!(destinations.iter().all(|&d| d + 1 >= share && d <= share), "{destinations:?}");
    }
}
