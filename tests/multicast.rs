//! Multicast: trees of every engine, and the judge against a naive one. `multicast_groups.rs` has groups in OpenSM.

use std::collections::{HashMap, HashSet};

use dfdn::engine::{Balance, ENGINES, Prefer, Settings, route};
use dfdn::fabric::{ChannelId, Fabric, PortNum, Sl, SwitchId};
use dfdn::formats;
use dfdn::tables::{McastGroup, PortSet, Routes};
use dfdn::topology::{
    Dragonfly, FatTree, Hypercube, Kautz, Mesh, Oft, Random, Ring, SlimFly, Torus, fail_links, small_members,
};
use dfdn::verify::{Cause, McastFault, McastVerdict, Verdict, Witness, verify};

/// A reproducible sequence of numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// The small members, each whole and with links removed.
pub(crate) fn fabrics() -> Vec<(String, Fabric)> {
    let mut list = Vec::new();
    for (name, fabric) in small_members() {
        let links = fabric.channels().len() / 2;
        let spare = links + 1 - fabric.num_switches();
        for (gone, seed) in [(0, 1), (spare.min(2), 1), (spare.min(links / 4), 2), (spare, 3)] {
            let damaged = fail_links(&fabric, gone, seed).expect("links to spare");
            list.push((format!("{name} without {gone} links"), damaged));
        }
    }
    // Its tree uses entries of the SL2VL tables that unicast leaves free.
    let tree = FatTree { k: 6, levels: 3, down: None, cas: None }.build().expect("a fat tree");
    list.push(("fat tree without 8 links".to_owned(), fail_links(&tree, 8, 5).expect("links to spare")));
    list
}

/// The group of a tree: cables as channels in one direction, and every end port as a member.
fn tree(fabric: &Fabric, edges: &[ChannelId], sls: u16) -> McastGroup {
    let mut ports = vec![PortSet::default(); fabric.num_switches()];
    for c in edges.iter().map(|&c| fabric.channels().get(c)) {
        ports[c.from.index()].insert(c.out_port);
        ports[c.to.index()].insert(c.in_port);
    }
    for (s, port) in fabric.endports().iter().filter_map(|e| e.attachment) {
        ports[s.index()].insert(port);
    }
    let ports = fabric.switch_ids().zip(ports).collect();
    McastGroup { mlid: McastGroup::FIRST_MLID, sls: Some(sls), ports }
}

/// A random spanning tree.
fn random_tree(fabric: &Fabric, dice: &mut Dice) -> Vec<ChannelId> {
    let mut part: Vec<usize> = (0..fabric.num_switches()).collect();
    let mut links: Vec<ChannelId> = fabric.channels().iter().map(|(id, _)| id).collect();
    let mut edges = Vec::new();
    while !links.is_empty() {
        let id = links.swap_remove(dice.below(links.len()));
        let c = fabric.channels().get(id);
        let (a, b) = (part[c.from.index()], part[c.to.index()]);
        if a != b {
            part.iter_mut().filter(|p| **p == a).for_each(|p| *p = b);
            edges.push(id);
        }
    }
    edges
}

pub(crate) fn multicast(verdict: &Verdict) -> &McastVerdict {
    verdict.multicast.as_ref().expect("there are groups")
}

#[test]
fn every_engine_has_trees_that_are_safe_together_with_unicast() {
    let mut dice = Dice(1);
    let (mut routed_all, mut one_tree) = (0, 0);
    for (name, fabric) in fabrics() {
        for engine in ENGINES.iter().filter(|e| e.deadlock_free) {
            let dfdn = engine.name == "dfdn";
            let variants =
                [(Prefer::Default, 8), (Prefer::OneSl, 1), (Prefer::OneSl, 4), (Prefer::Minimal, 8)];
            for (prefer, vls) in variants.into_iter().take(if dfdn { 4 } else { 1 }) {
                let label = format!("{} on {name}, {prefer}, {vls} VLs", engine.name);
                let engine = engine.name.to_owned();
                let settings = Settings { engine, vls: Some(vls), prefer, ..Settings::default() };
                // Too few lanes for a method is no error here: tests/engines.rs checks refusals.
                let Ok(routed) = route(&fabric, &settings) else { continue };
                let found = multicast(&routed.verdict);
                assert!(found.is_safe(), "{label}");
                assert_eq!(found.sls & 1, 1, "{label}: SL 0 is what groups have by default");
                routed_all += 1;
                one_tree += usize::from(found.groups == 1 && found.sls == u16::MAX);

                // Random members: the part of the trees that they use.
                let ends: Vec<_> = fabric.endports().iter().filter_map(|e| e.attachment).collect();
                let mut routes = routed.routes;
                for group in &mut routes.multicast {
                    let members: Vec<_> = ends.iter().copied().filter(|_| dice.below(3) == 0).collect();
                    group.ports = group.pruned(&fabric, &members);
                }
                let pruned = verify(&fabric, &routes);
                assert!(multicast(&pruned).is_safe() && pruned.is_safe(), "{label}");
                assert_eq!(multicast(&pruned).sls, found.sls, "{label}");
            }
        }
    }
    assert!(routed_all > 700 && one_tree * 10 > routed_all * 7, "{one_tree} of {routed_all}");
}

#[test]
fn every_engine_has_a_proven_tree_on_the_fabrics_of_the_literature() {
    let dragonfly = |p| Dragonfly::balanced(p).build();
    let oft = |k| Oft { k, cas: None }.build();
    let fabrics = [
        ("Dragonfly 2", dragonfly(2)),
        ("Dragonfly 4", dragonfly(4)),
        ("Dragonfly 5", dragonfly(5)),
        ("Slim Fly 5", SlimFly { q: 5, cas: None }.build()),
        ("Slim Fly 7", SlimFly { q: 7, cas: None }.build()),
        ("OFT 3", oft(3)),
        ("OFT 6", oft(6)),
        ("torus", Torus { dims: vec![4, 4, 4], cas: 2 }.build()),
        ("hypercube", Hypercube { n: 6, cas: 2 }.build()),
        ("random", Random { switches: 64, degree: 6, cas: 4, seed: 1 }.build()),
        ("fat tree", FatTree { k: 8, levels: 3, down: None, cas: None }.build()),
    ];
    for (name, fabric) in fabrics {
        let fabric = fabric.expect("a valid fabric");
        for engine in ENGINES.iter().filter(|e| e.deadlock_free && e.name != "dfdn") {
            let settings = Settings { engine: engine.name.to_owned(), ..Settings::default() };
            match route(&fabric, &settings) {
                Ok(routed) => {
                    let found = routed.verdict.multicast.as_ref();
                    let found = found.unwrap_or_else(|| panic!("{} on {name}: no tree", engine.name));
                    assert!(found.is_safe() && found.sls & 1 == 1, "{} on {name}", engine.name);
                }
                Err(error) => assert_eq!(engine.name, "dfd2", "{name}: {error}"),
            }
        }
    }
}

/// Fabrics with few paths beside those of unicast, each whole and with more and more links removed.
fn crowded() -> Vec<(String, Fabric)> {
    let torus = |dims: &[u32]| Torus { dims: dims.to_vec(), cas: 1 }.build();
    let random = |switches, degree| Random { switches, degree, cas: 2, seed: 1 }.build();
    let whole = [
        ("fat tree", FatTree { k: 6, levels: 3, down: None, cas: None }.build()),
        ("torus 7x7", torus(&[7, 7])),
        ("mesh 7x7", Mesh { dims: vec![7, 7], cas: 1 }.build()),
        ("hypercube", Hypercube { n: 5, cas: 1 }.build()),
        ("ring", Ring { switches: 20, cas: 1 }.build()),
        ("Dragonfly", Dragonfly::balanced(2).build()),
        ("Slim Fly", SlimFly { q: 5, cas: Some(2) }.build()),
        ("Kautz", Kautz { d: 3, n: 3, cas: 1 }.build()),
        ("random, degree 4", random(48, 4)),
        ("random, degree 6", random(40, 6)),
    ];
    let damage = |(name, fabric): (&str, Result<Fabric, _>)| {
        let fabric: Fabric = fabric.expect("a valid fabric");
        let links = fabric.channels().len() / 2;
        let spare = links + 1 - fabric.num_switches();
        let gone = [(0, 1), (spare / 10, 2), (spare / 3, 3)];
        gone.map(|(gone, seed)| {
            let damaged = fail_links(&fabric, gone, seed).expect("links to spare");
            (format!("{name} without {gone} links"), damaged)
        })
    };
    whole.into_iter().flat_map(damage).collect()
}

/// Settings of dfdn that give one SL or several, on few VLs and on many.
fn settings_of_dfdn() -> Vec<Settings> {
    let with = |prefer, vls| Settings { prefer, vls: Some(vls), ..Settings::default() };
    let one_sl = [1, 2, 8].map(|vls| with(Prefer::OneSl, vls));
    let others = [
        with(Prefer::Default, 8),
        with(Prefer::Minimal, 8),
        Settings { classes: 2, ..with(Prefer::Default, 8) },
        Settings { balance: Balance::Stable, ..with(Prefer::Default, 8) },
    ];
    one_sl.into_iter().chain(others).collect()
}

#[test]
fn groups_that_nobody_configured_have_a_tree_wherever_dfdn_routes() {
    let (mut routed_all, mut apart) = (0, 0);
    for (name, fabric) in crowded() {
        for settings in settings_of_dfdn() {
            let label = format!(
                "{name}, {} on {:?} VLs, {} classes, {}",
                settings.prefer, settings.vls, settings.classes, settings.balance
            );
            let Ok(routed) = route(&fabric, &settings) else { continue };
            let found = multicast(&routed.verdict);
            assert!(found.is_safe(), "{label}");
            let wanted = (1 << settings.classes) - 1;
            assert_eq!(found.sls & wanted, wanted, "{label}: the SLs that name the classes");
            assert!(settings.prefer != Prefer::Minimal || routed.verdict.minimal, "{label}");
            routed_all += 1;
            let said = routed.routes.remarks.iter().any(|r| r.starts_with("SL 0 is for multicast alone"));
            let told = fabric.endports().iter().any(|to| {
                fabric.endports().iter().enumerate().any(|(from, _)| {
                    let allowed =
                        routed.routes.path_sl.allowed(&fabric, dfdn::fabric::EndPortId::at(from), to.lid);
                    allowed & 1 != 0
                })
            });
            assert_eq!(said, !told, "{label}: paths have SL 0 unless it is said that they have not");
            apart += usize::from(said);
        }
    }
    assert!(routed_all > 150 && apart > 5, "{apart} of {routed_all} with SL 0 for multicast alone");
}

#[test]
fn ordered_trees_have_a_tree_for_multicast_among_them() {
    for (name, fabric) in crowded() {
        for engine in ["apot", "bfot", "bfot-plus"] {
            let settings = Settings { engine: engine.into(), ..Settings::default() };
            let routed = route(&fabric, &settings).expect("one VL is enough");
            let found = multicast(&routed.verdict);
            assert!(found.is_safe() && found.sls == u16::MAX && found.groups == 1, "{engine} on {name}");
        }
    }
}

/// Tori that are too large for a tree beside arbitrary unicast: with one SL, for which rules are
/// changed, and with all the SLs that shortest paths need.
#[test]
fn large_tori_have_a_tree() {
    for dims in [vec![5, 5, 5], vec![8, 8, 8]] {
        let torus = Torus { dims: dims.clone(), cas: 1 }.build().expect("a torus");
        for prefer in [Prefer::OneSl, Prefer::Minimal] {
            let routed = route(&torus, &Settings { prefer, ..Settings::default() }).expect("it is routed");
            let found = multicast(&routed.verdict);
            assert!(found.is_safe() && found.sls & 1 == 1, "{dims:?}, {prefer}");
            // Rings of five need no SL.
            let minimal = prefer == Prefer::Minimal || dims == [5, 5, 5];
            assert_eq!(routed.verdict.minimal, minimal, "{dims:?}, {prefer}");
        }
    }
}

/// On a fat tree, paths between adapters are as short on the multicast tree as by unicast.
#[test]
fn the_tree_of_a_fat_tree_is_rooted_at_its_top() {
    let fabric = FatTree { k: 8, levels: 3, down: None, cas: None }.build().expect("a fat tree");
    let routed = route(&fabric, &Settings::default()).expect("it is routed");
    let tree = routed.routes.multicast.first().expect("a tree");
    let leaves: Vec<SwitchId> = fabric.switch_ids().filter(|&s| fabric.num_adapters_on(s) > 0).collect();
    for &leaf in &leaves {
        let mut hops = vec![usize::MAX; fabric.num_switches()];
        hops[leaf.index()] = 0;
        let mut queue = vec![leaf];
        while let Some(s) = queue.pop() {
            for c in tree.at(s).iter().filter_map(|port| fabric.channels().at_port(s, port)) {
                let to = fabric.channels().get(c).to;
                if hops[to.index()] == usize::MAX {
                    hops[to.index()] = hops[s.index()] + 1;
                    queue.push(to);
                }
            }
        }
        assert!(leaves.iter().all(|l| hops[l.index()] <= usize::from(routed.hops.diameter())));
    }
}

/// (channel, VL).
type Lane = (ChannelId, u8);

/// Which virtual channel waits for which, packet by packet and copy by copy.
fn naive_edges(fabric: &Fabric, routes: &Routes) -> HashSet<(Lane, Lane)> {
    let channels = fabric.channels();
    let mut edges = HashSet::new();
    let vl = |s: SwitchId, i: PortNum, o: PortNum, sl: usize| routes.sl2vl.row(s, i, o).get(Sl(sl as u8)).0;
    let ends = || fabric.endports().iter().enumerate();
    for (i, source) in ends() {
        for (_, to) in ends().filter(|&(j, _)| j != i) {
            let allowed = routes.path_sl.allowed(fabric, dfdn::fabric::EndPortId::at(i), to.lid);
            for sl in (0..16).filter(|sl| allowed & 1 << sl != 0) {
                let (mut at, mut inp) = source.attachment.expect("all are attached");
                let mut last: Option<Lane> = None;
                while let Some(c) = routes.lft.get(at, to.lid).and_then(|p| channels.at_port(at, p)) {
                    let lane = (c, vl(at, inp, channels.get(c).out_port, sl));
                    edges.extend(last.map(|l| (l, lane)));
                    last = Some(lane);
                    (at, inp) = (channels.get(c).to, channels.get(c).in_port);
                }
            }
        }
        for group in &routes.multicast {
            for sl in (0..16).filter(|sl| group.sls.unwrap_or(1) & 1 << sl != 0) {
                let (s, port) = source.attachment.expect("all are attached");
                let mut copies: Vec<(SwitchId, PortNum, Option<Lane>)> = vec![(s, port, None)];
                while let Some((at, inp, last)) = copies.pop() {
                    for out in group.at(at).iter().filter(|&out| out != inp) {
                        let Some(c) = channels.at_port(at, out) else { continue };
                        let lane = (c, vl(at, inp, out, sl));
                        edges.extend(last.map(|l| (l, lane)));
                        copies.push((channels.get(c).to, channels.get(c).in_port, Some(lane)));
                    }
                }
            }
        }
    }
    edges
}

fn cyclic(edges: &HashSet<(Lane, Lane)>) -> bool {
    fn visit(v: Lane, next: &HashMap<Lane, Vec<Lane>>, open: &mut HashMap<Lane, bool>) -> bool {
        if let Some(&open) = open.get(&v) {
            return open;
        }
        open.insert(v, true);
        let found = next.get(&v).is_some_and(|ws| ws.iter().any(|&w| visit(w, next, open)));
        open.insert(v, false);
        found
    }
    let mut next: HashMap<Lane, Vec<Lane>> = HashMap::new();
    edges.iter().for_each(|&(a, b)| next.entry(a).or_default().push(b));
    let mut open = HashMap::new();
    next.keys().any(|&v| visit(v, &next, &mut open))
}

/// Each step of a credit loop is a turn, and a step made by multicast is a turn of its group.
fn check_witness(fabric: &Fabric, routes: &Routes, verdict: &Verdict) -> usize {
    let edges = naive_edges(fabric, routes);
    let mut loops = verdict.witnesses.iter().filter_map(|w| match w {
        Witness::Multicast(McastFault::CreditLoop(waits)) => Some(waits),
        _ => None,
    });
    let waits = loops.next().expect("a credit loop is the witness");
    let mut by_multicast = 0;
    for (i, wait) in waits.iter().enumerate() {
        let next = &waits[(i + 1) % waits.len()];
        assert!(edges.contains(&((wait.channel, wait.vl.0), (next.channel, next.vl.0))));
        if let Cause::Multicast { mlid, sl, .. } = wait.cause {
            let group = routes.multicast.iter().find(|g| g.mlid == mlid).expect("the group");
            let c = fabric.channels().get(next.channel);
            assert!(group.at(c.from).contains(c.out_port));
            assert!(group.sls.is_some_and(|sls| sls & 1 << sl.0 != 0));
            by_multicast += 1;
        }
    }
    by_multicast
}

#[test]
fn the_judge_agrees_with_a_naive_one_on_any_tree() {
    let fabrics = [
        ("ring", Ring { switches: 6, cas: 1 }.build().expect("a ring")),
        ("mesh", Mesh { dims: vec![3, 3], cas: 1 }.build().expect("a mesh")),
        ("torus", Torus { dims: vec![3, 3], cas: 1 }.build().expect("a torus")),
        ("fat tree", FatTree { k: 4, levels: 2, down: None, cas: None }.build().expect("a fat tree")),
    ];
    let mut dice = Dice(7);
    let (mut safe, mut unsafe_ones) = (0, 0);
    for (name, fabric) in &fabrics {
        for engine in ["dfdn", "bfot", "updn-trees", "dfdn-paper"] {
            let settings = Settings { engine: engine.into(), vls: Some(8), ..Settings::default() };
            let routes = route(fabric, &settings).expect("it is routed").routes;
            for _ in 0..12 {
                let sls = if dice.below(2) == 0 { 1 } else { 1 + dice.below(15) as u16 };
                let group = tree(fabric, &random_tree(fabric, &mut dice), sls);
                let routes = Routes { multicast: vec![group], ..routes.clone() };
                let verdict = verify(fabric, &routes);
                let found = multicast(&verdict);
                assert!(found.loop_free && found.reachable && verdict.deadlock_free, "{engine} on {name}");
                let cycle = cyclic(&naive_edges(fabric, &routes));
                assert_eq!(found.deadlock_free, !cycle, "{engine} on {name}, SLs {sls:04x}");
                assert_eq!(found.deadlock_free, found.sls == sls, "{engine} on {name}");
                assert_eq!(verdict.is_safe(), !cycle, "{engine} on {name}");
                if cycle {
                    assert!(check_witness(fabric, &routes, &verdict) > 0, "{engine} on {name}");
                    unsafe_ones += 1;
                } else {
                    safe += 1;
                }
            }
        }
    }
    assert!(safe > 30 && unsafe_ones > 30, "{safe} safe, {unsafe_ones} not");
}

#[test]
fn a_tree_against_the_order_is_rejected_with_its_circle() {
    // On one VL, unicast takes all turns of a ring except those at one switch. A tree with that
    // turn closes the ring.
    let ring = Ring { switches: 6, cas: 1 }.build().expect("a ring");
    let settings = Settings { vls: Some(1), prefer: Prefer::OneSl, ..Settings::default() };
    let routes = route(&ring, &settings).expect("it is routed").routes;
    let links: Vec<ChannelId> =
        ring.channels().iter().filter(|&(id, c)| id < c.reverse).map(|(id, _)| id).collect();
    let mut rejected = 0;
    for without in 0..links.len() {
        let mut edges = links.clone();
        edges.remove(without);
        let routes = Routes { multicast: vec![tree(&ring, &edges, u16::MAX)], ..routes.clone() };
        let verdict = verify(&ring, &routes);
        if !verdict.is_safe() {
            assert!(verdict.deadlock_free, "unicast alone is safe");
            assert!(check_witness(&ring, &routes, &verdict) > 0);
            let text = verdict.witness().expect("a witness").explain(&ring);
            assert!(text.contains("credit loop") && text.contains("to group 0xc000 with SL 0"), "{text}");
            rejected += 1;
        }
    }
    assert_eq!(rejected, 4, "all trees but the two that end at that switch");
}

#[test]
fn circles_and_missing_ways_are_found() {
    let ring = Ring { switches: 5, cas: 1 }.build().expect("a ring");
    let routes = route(&ring, &Settings::default()).expect("it is routed").routes;
    let judge = |edges: &[ChannelId]| {
        let routes = Routes { multicast: vec![tree(&ring, edges, u16::MAX)], ..routes.clone() };
        verify(&ring, &routes)
    };
    let links: Vec<ChannelId> =
        ring.channels().iter().filter(|&(id, c)| id < c.reverse).map(|(id, _)| id).collect();
    let whole = judge(&links);
    assert!(!multicast(&whole).loop_free && !whole.is_safe());
    assert!(whole.witnesses.iter().any(|w| w.explain(&ring).contains("0xc000 loop:")));
    let parted = judge(&links[2..]);
    assert!(multicast(&parted).loop_free && !multicast(&parted).reachable && !parted.is_safe());
    assert!(parted.witnesses.iter().any(|w| w.explain(&ring).contains("do not reach")));
}

/// What hosts may do beside what they are assigned.
#[test]
fn other_sls_than_the_told_ones() {
    use dfdn::verify::{SlPolicy, SlSafety, sl_safety, verify_with};
    let (mut all, mut none) = (0, 0);
    for (name, fabric) in fabrics() {
        for engine in ["dfdn", "dfdn-paper", "updn-trees", "sssp"] {
            let settings = Settings { engine: engine.into(), vls: Some(8), ..Settings::default() };
            let Ok(routed) = route(&fabric, &settings) else { continue };
            let under = |policy| {
                let v = verify_with(&fabric, &routed.routes, policy);
                v.deadlock_free && v.reachable && v.vls_legal
            };
            let each = SlSafety {
                sl_zero: under(SlPolicy::Fixed(Sl(0))),
                replies: under(SlPolicy::WithReplies),
                any: under(SlPolicy::Any),
            };
            assert_eq!(routed.safety, each, "{engine} on {name}");
            assert_eq!(sl_safety(&fabric, &routed.routes, &routed.verdict), each);
            all += usize::from(each.any);
            none += usize::from(!each.sl_zero && !each.replies);
        }
    }
    assert!(all > 50 && none > 10, "{all} safe with any SL, {none} neither with SL 0 nor with replies");
}

/// Trees with their SLs survive a folder of tables, and invalid texts are refused with their line.
#[test]
fn groups_are_written_and_read_again() {
    let fabric = Torus { dims: vec![4, 4], cas: 1 }.build().expect("a torus");
    let settings = Settings { engine: "updn-trees".into(), ..Settings::default() };
    let routes = route(&fabric, &settings).expect("it is routed").routes;
    assert!(routes.multicast.len() > 1, "a tree for each SL");
    let mut text = Vec::new();
    formats::mcfdbs::write(&mut text, &fabric, &routes.multicast).expect("text");
    let read = |text: &str| formats::mcfdbs::read(text.as_bytes(), &fabric);
    let text = String::from_utf8(text).expect("text");
    let (back, warnings) = read(&text).expect("it reads");
    assert!(back == routes.multicast && warnings.is_empty(), "{warnings:?}");
    let unstated: String = text.lines().filter(|l| !l.starts_with('#')).map(|l| format!("{l}\n")).collect();
    assert!(read(&unstated).expect("it reads").0.iter().all(|g| g.sls.is_none()));
    let header = text.lines().find(|l| l.starts_with("Switch")).expect("a switch");
    for (wrong, why) in [
        ("0xC000 : 0x001", "before the first switch"),
        (&format!("{header}\n0x0004 : 0x001"), "line 2: no multicast LID"),
        (&format!("{header}\n0xC000 : 0x0ff"), "line 2: no port 255 on a switch with"),
        (
            &format!("{header}\n0xC000 : 0x001\n0xC000 : 0x002"),
            "line 3: group 0xc000 of this switch was already stated",
        ),
        ("# SLs of 0xC000: 16", "line 1: no multicast LID and SLs"),
        ("Switch none", "line 1: switch header without a GUID"),
    ] {
        let error = read(wrong).expect_err(wrong).to_string();
        assert!(error.contains(why), "{error}");
    }
}
