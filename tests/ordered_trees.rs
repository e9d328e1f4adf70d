//! Ordered trees (Chiu et al.): properties of the engines on any fabric, and the paper's Table 2 in
//! form.

mod apot_matrix;
mod bfot_messages;

use std::time::{Duration, Instant};

use self::apot_matrix::ApotMatrix;
use self::bfot_messages::BfotMessages;
use super::engines::with_lmc;
use dfdn::engine::{ENGINES, Optimise, Routed, Settings, route};
use dfdn::evaluate::{Options, evaluate, path_difference};
use dfdn::fabric::{Fabric, FabricBuilder, Lmc, PortRef, SwitchId};
use dfdn::ordering::{Layers, LinkSort, ordered_trees, up_down_layers};
use dfdn::routing::{Hops, OrderedPaths, Picks, apot, bfot, bfot_plus, hill_climb, minhop};
use dfdn::tables::{Lft, PathSl, Routes};
use dfdn::topology::{Ring, attach_adapters, chiu_table1, fail_links, small_members};
use dfdn::verify::{Verdict, verify};

const ORDERED: [&str; 3] = ["apot", "bfot", "bfot-plus"];

fn safe(name: &str, fabric: &Fabric) {
    for engine in ORDERED {
        let settings = Settings { engine: engine.to_owned(), vls: Some(1), sls: 1, ..Settings::default() };
        let routed = route(fabric, &settings).unwrap_or_else(|e| panic!("{engine} on {name}: {e}"));
        let verdict = &routed.verdict;
        assert!(verdict.is_safe(), "{engine} on {name}");
        assert_eq!((verdict.vls, verdict.vls_all, verdict.sls_all), (1, 1, 1), "{engine} on {name}");
        assert_eq!(routed.routes.path_sl, PathSl::Any(0xffff), "{engine} on {name}");
        let pairs: u64 = fabric.adapters().map(|(_, end)| u64::from(end.lmc.lids())).sum::<u64>()
            * (fabric.adapters().count() as u64 - 1);
        assert_eq!(verdict.pairs, pairs, "{engine} on {name}: all pairs arrive");
    }
}

#[test]
fn every_fabric_is_routed_safely_on_one_vl() {
    for (name, fabric) in small_members() {
        safe(name, &fabric);
        let spare = fabric.channels().len() / 2 + 1 - fabric.num_switches();
        for (count, seed) in [(1, 1), (spare / 3, 2), (spare / 2, 3), (spare, 4)] {
            if let Ok(damaged) = fail_links(&fabric, count, seed) {
                safe(&format!("{name} without {count} links"), &damaged);
            }
        }
    }
}

#[test]
fn lid_ranges_are_routed_too() {
    for (name, fabric) in small_members() {
        safe(name, &with_lmc(&fabric, 2));
    }
}

fn judged(fabric: &Fabric, lft: Lft) -> Verdict {
    let verdict =
        verify(fabric, &Routes { path_sl: PathSl::Any(0xffff), ..Routes::on_one_vl("test", fabric, lft) });
    assert!(verdict.is_safe(), "{:?}", verdict.witness().map(|w| w.explain(fabric)));
    verdict
}

#[test]
fn parts_that_are_not_connected_are_each_routed() {
    let ring = Ring { switches: 8, cas: 2 }.build().unwrap();
    let mut builder = FabricBuilder::from_fabric(&ring);
    for (_, c) in ring.channels().iter().filter(|(_, c)| [(0, 7), (3, 4)].contains(&(c.from.0, c.to.0))) {
        builder.disconnect(PortRef { node: ring.switch_node_id(c.from), port: c.out_port });
    }
    let parts = builder.finish(Lmc::default()).unwrap();
    for sort in LinkSort::ALL {
        let layers = ordered_trees(&parts, sort);
        for mut lft in [bfot(&parts, &layers), apot(&parts, &layers), bfot_plus(&parts).1] {
            hill_climb(&parts, &mut lft, |_, a, b| layers.allow(&parts, a, b), Picks::Best { budget: 1000 });
            for end in parts.endports() {
                let (home, _) = end.attachment.unwrap();
                for s in parts.switch_ids() {
                    let same_part = (s.0 < 4) == (home.0 < 4);
                    assert_eq!(lft.get(s, end.lid).is_some(), same_part, "{s:?} to {home:?}");
                }
            }
        }
    }
}

/// Tables of BFOT after an exchange of equally long paths, with the variance of the channels' usage.
fn climbed(name: &str, fabric: &Fabric, layers: &Layers, picks: Picks) -> (Lft, f64) {
    let mut lft = bfot(fabric, layers);
    let before = judged(fabric, lft.clone());
    let climb = hill_climb(fabric, &mut lft, |_, a, b| layers.allow(fabric, a, b), picks);
    assert!(climb.after <= climb.before, "{name}");
    assert_eq!(before.mean_hops, judged(fabric, lft.clone()).mean_hops, "{name}");
    (lft, climb.after)
}

/// Section 6.5 in form: hill climbing for BFOT and for up*/down*. In the paper BFOT is more even than up*/down* on 35
/// of its 46 networks. One adapter per switch, and as many at the switches of least degree (section 6.2), of which
/// then more than one may be on a switch (BFOT is ahead on fewer networks then; the paper does not state how many
/// adapters it had); the best exchanges, and random ones.
#[test]
fn climbing_keeps_tables_safe_and_bfot_is_more_even_than_up_down() {
    for (adapters, most_even) in [("one per switch", [36, 35]), ("at least degree", [10, 10])] {
        for (picks, least) in [BEST, RANDOM].into_iter().zip(most_even) {
            let mut more_even = 0;
            for (name, mut fabric) in chiu_table1() {
                if adapters == "at least degree" {
                    fabric = attach_adapters(&fabric, fabric.num_switches() as u32).unwrap();
                }
                let root = root(&fabric, &Hops::new(&fabric).unwrap());
                let after = |layers: &Layers| climbed(name, &fabric, layers, picks).1;
                let trees = after(&ordered_trees(&fabric, LinkSort::Guid));
                more_even += usize::from(trees < after(&up_down_layers(&fabric, root)));
            }
            println!("adapters {adapters}, {picks:?}: more even than up*/down* on {more_even} of 46");
            assert!(more_even >= least);
        }
    }
}

/// Section 6.3 and 6.5 in form: the tables with the most even load, and how different their alternatives are. In the
/// paper the optimal routing is best throughout, and up*/down* is better than BFOT on 38 of 46 networks; here on 25, and
/// in the mean of all.
#[test]
fn optimal_paths_have_the_most_different_alternatives() {
    let (mut up_down_better, mut sums) = (0, [0.0; 3]);
    for (name, fabric) in chiu_table1() {
        let hops = Hops::new(&fabric).unwrap();
        let trees = ordered_trees(&fabric, LinkSort::Guid);
        let up_down = up_down_layers(&fabric, root(&fabric, &hops));
        let measured = |lft: Lft, allow: &(dyn Fn(_, _) -> bool + Sync)| {
            path_difference(&fabric, &Routes::on_one_vl("test", &fabric, lft), allow).unwrap()
        };
        let mut optimal = minhop(&fabric, &hops);
        hill_climb(&fabric, &mut optimal, |_, _, _| true, BEST);
        let optimal = measured(optimal, &|_, _| true);
        let [bfot, up_down] = [&trees, &up_down].map(|layers| {
            let lft = climbed(name, &fabric, layers, BEST).0;
            measured(lft, &|a, b| layers.allow(&fabric, a, b))
        });
        println!("{name:24} {optimal:.3} {up_down:.3} {bfot:.3}");
        up_down_better += usize::from(up_down > bfot);
        sums.iter_mut().zip([optimal, up_down, bfot]).for_each(|(sum, x)| *sum += x / 46.0);
    }
    println!("up*/down* better than BFOT on {up_down_better} of 46; means {sums:.3?}");
    assert!(sums[0] > sums[1] && sums[1] > sums[2]);
    assert!(up_down_better > 46 / 2);
}

const BEST: Picks = Picks::Best { budget: 100_000 };
const RANDOM: Picks = Picks::Random { patience: 1.0, seed: 1 };

/// The setting `optimise`: tables stay proven, paths as long, and the largest load falls somewhere.
#[test]
fn every_engine_can_be_optimised() {
    let mut better = Vec::new();
    for (name, fabric) in small_members() {
        let fabric = with_lmc(&fabric, 1);
        for engine in ENGINES.iter().filter(|engine| engine.name != "dfdn") {
            let run = |optimise| {
                route(&fabric, &Settings { engine: engine.name.to_owned(), optimise, ..Settings::default() })
            };
            let Ok(plain) = run(Optimise::No) else { continue };
            for optimise in [Optimise::Best, Optimise::Random] {
                let routed = run(optimise).unwrap_or_else(|e| panic!("{} on {name}: {e}", engine.name));
                let [before, after] = [&plain, &routed].map(|r| &r.verdict);
                assert_eq!(before.mean_hops, after.mean_hops, "{} on {name}", engine.name);
                assert!(after.is_safe() || !engine.deadlock_free, "{} on {name}", engine.name);
                let remark = routed.routes.remarks.iter().find(|r| r.contains("standard deviation"));
                assert!(remark.is_some(), "{} on {name}", engine.name);
                let cv = |r: &Routed| {
                    evaluate(&fabric, &r.routes, &Options::default()).unwrap().load.channel_load_cv
                };
                if cv(&routed) < cv(&plain) {
                    better.push((engine.name, optimise.to_string()));
                }
            }
        }
    }
    for engine in ENGINES.iter().filter(|engine| engine.name != "dfdn") {
        for optimise in ["best", "random"] {
            assert!(
                better.contains(&(engine.name, optimise.to_owned())),
                "{} is never more even",
                engine.name
            );
        }
    }
}

/// Mean hops over all ordered pairs of different switches.
fn mean(fabric: &Fabric, mut hops: impl FnMut(SwitchId, SwitchId) -> u16) -> f64 {
    let n = fabric.num_switches();
    let pairs = fabric.switch_ids().flat_map(|to| fabric.switch_ids().map(move |from| (from, to)));
    let total: u64 = pairs.filter(|(a, b)| a != b).map(|(from, to)| u64::from(hops(from, to))).sum();
    total as f64 / (n * (n - 1)) as f64
}

/// The switch with the smallest total distance, the root that Flich et al. use.
fn root(fabric: &Fabric, hops: &Hops) -> SwitchId {
    let total = |&s: &SwitchId| -> u64 { hops.row(s).iter().map(|&h| u64::from(h)).sum() };
    fabric.switch_ids().min_by_key(total).unwrap()
}

/// Shortest ordered paths of all pairs, and the number of channels visited.
fn bound(fabric: &Fabric, layers: &Layers) -> (f64, u64) {
    let paths: Vec<_> = fabric.switch_ids().map(|to| OrderedPaths::to(fabric, layers, to)).collect();
    let hops = mean(fabric, |from, to| paths[to.index()].hops(from).unwrap());
    (hops, paths.iter().map(|p| p.relaxed).sum())
}

/// BFOT by messages, and the number of messages.
fn by_messages(fabric: &Fabric, layers: &Layers) -> (f64, u64) {
    let runs: Vec<_> = fabric.switch_ids().map(|to| BfotMessages::to(fabric, layers, to)).collect();
    let hops = mean(fabric, |from, to| runs[to.index()].hops(from).unwrap());
    (hops, runs.iter().map(|r| r.messages).sum())
}

fn table(fabric: &Fabric, lft: Lft) -> (f64, u64) {
    (judged(fabric, lft).mean_hops, 0)
}

/// A row of the table: the measured algorithm, on a fabric and a partition, as mean hops and steps.
type Row = (&'static str, fn(&Fabric, &Partitions) -> (f64, u64));

/// The partitions of one fabric.
struct Partitions {
    minimal: Hops,
    up_down_layers: Layers,
    guid: Layers,
    degree: Layers,
    center: Layers,
}

const ROWS: &[Row] = &[
    ("optimal", |f, p| {
        let steps = f.num_switches() * f.channels().len();
        (mean(f, |a, b| p.minimal.get(a, b).into()), steps as u64)
    }),
    ("up*/down*, by pair", |f, p| bound(f, &p.up_down_layers)),
    ("up*/down*, tables", |f, p| table(f, bfot(f, &p.up_down_layers))),
    ("APOT, Fig. 2", |f, p| {
        let matrix = ApotMatrix::new(f, &p.guid);
        (mean(f, |a, b| matrix.hops(a, b).unwrap()), matrix.sums)
    }),
    ("APOT, by search", |f, p| bound(f, &p.guid)),
    ("APOT, tables", |f, p| table(f, apot(f, &p.guid))),
    ("BFOT, messages", |f, p| by_messages(f, &p.guid)),
    ("BFOT, tables", |f, p| table(f, bfot(f, &p.guid))),
    ("BFOT+, messages", |f, p| by_messages(f, &p.degree)),
    ("BFOT+, tables", |f, p| table(f, bfot(f, &p.degree))),
    ("BFOT+, best order", |f, _| table(f, bfot_plus(f).1)),
    ("center, by search", |f, p| bound(f, &p.center)),
    ("center, APOT tables", |f, p| table(f, apot(f, &p.center))),
    ("center, BFOT tables", |f, p| table(f, bfot(f, &p.center))),
];

#[test]
fn table_2_in_kind() {
    let mut sums = vec![(0.0, 0.0_f64, 0_u64, Duration::ZERO); ROWS.len()];
    let all = chiu_table1();
    for (name, fabric) in &all {
        let minimal = Hops::new(fabric).unwrap();
        let partitions = Partitions {
            up_down_layers: up_down_layers(fabric, root(fabric, &minimal)),
            guid: ordered_trees(fabric, LinkSort::Guid),
            degree: ordered_trees(fabric, LinkSort::Degree),
            center: ordered_trees(fabric, LinkSort::Center),
            minimal,
        };
        let mut ratios = Vec::new();
        for ((_, measure), (sum, worst, steps, time)) in ROWS.iter().zip(&mut sums) {
            let start = Instant::now();
            let (hops, counted) = measure(fabric, &partitions);
            *time += start.elapsed();
            let least = ratios.first().map_or(hops, |&(first, _)| first);
            ratios.push((hops, hops / least));
            *sum += hops / least / all.len() as f64;
            *worst = worst.max(hops / least);
            *steps += counted;
        }
        let hops = |row: &str| ratios[ROWS.iter().position(|(name, _)| *name == row).unwrap()].0;
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(hops("optimal") <= hops("up*/down*, by pair"), "{name}");
        assert!(hops("up*/down*, by pair") <= hops("up*/down*, tables") + 1e-9, "{name}");
        assert!(close(hops("APOT, Fig. 2"), hops("APOT, by search")), "{name}");
        assert!(hops("optimal") <= hops("APOT, Fig. 2"), "{name}");
        assert!(hops("APOT, Fig. 2") <= hops("APOT, tables") + 1e-9, "{name}");
        assert!(hops("APOT, tables") <= hops("BFOT, tables") + 1e-9, "{name}");
        assert!(close(hops("BFOT, messages"), hops("BFOT, tables")), "{name}");
        assert!(close(hops("BFOT+, messages"), hops("BFOT+, tables")), "{name}");
        let orders = ["BFOT, tables", "BFOT+, tables", "center, BFOT tables"];
        let least = orders.map(hops).into_iter().fold(f64::INFINITY, f64::min);
        assert!(close(hops("BFOT+, best order"), least), "{name}");
        let line: Vec<String> = ratios.iter().map(|(_, ratio)| format!("{ratio:.3}")).collect();
        println!("{name:24} {}", line.join(" "));
    }
    println!("{:22} {:>8} {:>8} {:>14} {:>10}", "", "mean", "worst", "steps", "ms");
    for ((name, _), (sum, worst, steps, time)) in ROWS.iter().zip(&sums) {
        let steps = if *steps == 0 { "-".to_owned() } else { steps.to_string() };
        println!("{name:22} {sum:8.3} {worst:8.3} {steps:>14} {:10.1}", time.as_secs_f64() * 1e3);
    }
    let row = |row: &str| sums[ROWS.iter().position(|(name, _)| *name == row).unwrap()];
    // The paper's conclusions: all within some ten percent, BFOT next to APOT, and the order of the
    // run times, here in steps, as a test must not depend on a clock.
    assert!(row("up*/down*, by pair").0 < row("APOT, Fig. 2").0);
    assert!(row("BFOT, messages").0 - row("APOT, Fig. 2").0 < 0.05);
    assert!(row("BFOT, messages").0 < 1.25);
    assert!(row("optimal").2 < row("BFOT, messages").2);
    assert!(row("up*/down*, by pair").2 < row("BFOT, messages").2);
    assert!(row("BFOT, messages").2 * 10 < row("APOT, Fig. 2").2);
}
