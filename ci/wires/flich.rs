//! Flich et al., "Improving InfiniBand Routing through Multiple Virtual Networks": throughput of several up*/down*
//! trees beside one tree on as many VLs, on random networks.
//!
//! Each switch has 4 adapters with a byte every 4 ns, so an accepted share is also a number of bytes per ns and switch.

use dfdn::fabric::{Fabric, Lmc, SwitchId};
use dfdn::lanes::{LaneLimits, tree_lanes};
use dfdn::routing::{Hops, updn_roots, updn_trees_from};
use dfdn::simulate::{Arrivals, LidChoice, Load, Model, Row, Settings, Simulation, Traffic};
use dfdn::tables::{Routes, VlArb};
use dfdn::topology::Random;
use rayon::prelude::*;

use crate::measure::{Context, Fallible, spread};
use crate::plot::{Curve, Panel};

const SIZES: [u32; 4] = [8, 16, 32, 64];
/// Picoseconds.
const TIME: u64 = 1_500_000_000;

/// A random network whose adapters have 8 LIDs, so that a sender can choose among trees and paths.
fn network(switches: u32, seed: u64) -> Fabric {
    let fabric = Random { switches, degree: 4, cas: 4, seed }.build().expect("a random network");
    fabric.with_lmc(Lmc::new(3).expect("at most 7")).expect("few LIDs")
}

/// Up*/down* trees with these roots, each on a VL of its own.
fn tables(fabric: &Fabric, hops: &Hops, roots: Vec<SwitchId>) -> Routes {
    let trees = updn_trees_from(fabric, hops, roots);
    let number = trees.roots.len();
    let lanes =
        tree_lanes(fabric, &trees.tree_of, number, LaneLimits { vls: 15, sls: 16 }).expect("few trees");
    Routes {
        engine: format!("{number} trees"),
        lft: trees.lft,
        sl2vl: lanes.sl2vl,
        path_sl: lanes.path_sl,
        vlarb: VlArb::fair(lanes.vls),
        multicast: Vec::new(),
        port_sets: None,
        remarks: Vec::new(),
    }
}

/// `trees` trees, or the first of them `vls` times.
fn roots(fabric: &Fabric, hops: &Hops, trees: u8, vls: u8) -> Vec<SwitchId> {
    let roots = updn_roots(fabric, hops, trees);
    if trees == 1 { vec![roots[0]; vls.into()] } else { roots }
}

/// `serial`: a switch routes the next packet of a queue only when the one before it has left.
fn model(serial: bool) -> Model {
    let model = Model::named("flich").expect("a model");
    if serial { Model { setup: model.switch_delay, switch_delay: 0, ..model } } else { model }
}

fn settings(traffic: Traffic) -> Settings {
    Settings {
        model: model(false),
        traffic,
        arrivals: Arrivals::Constant,
        lids: LidChoice::Shortest,
        time: Some(TIME),
        warm_up: Some(TIME / 3),
        ..Settings::default()
    }
}

/// The largest accepted traffic, in bytes per ns and switch. Halves the range of loads, on a logarithmic scale, by
/// whether they arrive; the hotspots and destinations depend on the seed.
fn throughput(fabric: &Fabric, routes: &Routes, traffic: &Traffic, seed: u64) -> f64 {
    throughput_with(fabric, routes, settings(traffic.clone()), seed)
}

fn throughput_with(fabric: &Fabric, routes: &Routes, settings: Settings, seed: u64) -> f64 {
    let simulation = Simulation::new(fabric, routes, &settings).expect("sound tables");
    let (mut low, mut high, mut best) = (0.01_f64, 1.0_f64, 0.0_f64);
    for _ in 0..8 {
        let load = (low * high).sqrt();
        let row = simulation.run(Load::Share(load), seed).expect("a valid load");
        assert!(row.deadlock.is_none(), "up*/down* has no credit loop");
        best = best.max(row.accepted);
        if row.accepted >= 0.97 * load { low = load } else { high = load }
    }
    best
}

/// A comparison: its name, the traffic for a number of switches, (trees, VLs) of both sides, and the figures printed for
/// 8, 16, 32 and 64 switches: min / max / mean.
struct Comparison {
    name: &'static str,
    traffic: fn(u32) -> Traffic,
    more: (u8, u8),
    fewer: (u8, u8),
    serial: bool,
    printed: [&'static str; 4],
}

fn hotspot(spots: usize, percent: f64) -> Traffic {
    Traffic::Hotspot { spots, percent }
}

fn comparisons() -> Vec<Comparison> {
    let two = |name, traffic, printed| Comparison {
        name,
        traffic,
        more: (2, 2),
        fewer: (1, 2),
        serial: false,
        printed,
    };
    let three = |name, fewer, printed| Comparison {
        name,
        traffic: |_| Traffic::Uniform,
        more: (3, 3),
        fewer,
        serial: false,
        printed,
    };
    vec![
        two(
            "Table 1: uniform",
            |_| Traffic::Uniform,
            ["? / 1.47 / 1.18", "? / 2.01 / 1.55", "1.59 / 3.00 / 2.18", "1.81 / 2.83 / 2.14"],
        ),
        Comparison {
            serial: true,
            ..two(
                "Table 1, switches that route serially",
                |_| Traffic::Uniform,
                ["? / 1.47 / 1.18", "? / 2.01 / 1.55", "1.59 / 3.00 / 2.18", "1.81 / 2.83 / 2.14"],
            )
        },
        two(
            "Table 2: one hotspot, 5 %",
            |_| hotspot(1, 5.0),
            ["?", "?", "1.52 / 2.82 / 1.95", "1.36 / 2.84 / 1.86"],
        ),
        two(
            "Table 2: one hotspot, 10 %",
            |_| hotspot(1, 10.0),
            ["?", "?", "1.30 / 1.93 / 1.67", "1.01 / 2.10 / 1.36"],
        ),
        two(
            "Table 2: one hotspot, 20 %",
            |_| hotspot(1, 20.0),
            ["?", "?", "0.78 / 1.67 / 1.25", "0.81 / 1.86 / 1.28"],
        ),
        two(
            "Table 3: hotspots on a quarter as many hosts as switches, 20 %",
            |switches| hotspot(switches as usize / 4, 20.0),
            ["0.90 / 1.19 / 1.03", "1.20 / 1.75 / 1.49", "1.41 / 2.57 / 1.93", "1.60 / 2.61 / 2.02"],
        ),
        three(
            "Table 4: three trees, two trees",
            (2, 2),
            ["1.00 / 1.20 / 1.12", "?", "?", "1.21 / 1.78 / 1.52"],
        ),
        three(
            "Table 4: three trees, one tree",
            (1, 3),
            ["1.03 / 1.47 / 1.22", "? / ? / 1.61", "1.70 / 3.42 / 2.58", "2.63 / 3.61 / 3.22"],
        ),
    ]
}

pub(crate) fn run(context: &Context) -> Fallible {
    let seeds: Vec<u64> = (1..=context.pick(3, 10)).collect();
    println!("\n### Flich et al., Tables 1 to 4\n");
    println!(
        "Throughput of several trees divided by that of fewer, on {} random networks a size: least / largest / mean. \
         Absolute: bytes per ns and switch, ours, mean.\n",
        seeds.len()
    );
    println!("| comparison | switches | printed | ours | absolute |");
    println!("|---|--:|---|---|---|");
    // By size: the network whose factor under uniform traffic is nearest to the mean.
    let mut typical = Vec::new();
    for comparison in comparisons() {
        for (size, printed) in SIZES.into_iter().zip(comparison.printed) {
            let pairs: Vec<(f64, f64)> = seeds
                .par_iter()
                .map(|&seed| {
                    let fabric = network(size, seed);
                    let hops = Hops::new(&fabric).expect("it is connected");
                    let traffic = (comparison.traffic)(size);
                    let of = |(trees, vls)| {
                        let routes = tables(&fabric, &hops, roots(&fabric, &hops, trees, vls));
                        let model = model(comparison.serial);
                        let settings = Settings { model, ..settings(traffic.clone()) };
                        throughput_with(&fabric, &routes, settings, seed)
                    };
                    (of(comparison.more), of(comparison.fewer))
                })
                .collect();
            let factors: Vec<f64> = pairs.iter().map(|(more, fewer)| more / fewer).collect();
            let (least, largest, mean) = spread(&factors);
            if typical.len() < SIZES.len() {
                let distance = |i: &usize| (factors[*i] - mean).abs();
                let nearest =
                    (0..factors.len()).min_by(|a, b| distance(a).total_cmp(&distance(b))).expect("a network");
                typical.push(seeds[nearest]);
            }
            let absolute =
                |side: fn(&(f64, f64)) -> f64| spread(&pairs.iter().map(side).collect::<Vec<_>>()).2;
            println!(
                "| {} | {size} | {printed} | {least:.2} / {largest:.2} / {mean:.2} | {:.3}, {:.3} |",
                comparison.name,
                absolute(|p| p.0),
                absolute(|p| p.1)
            );
        }
    }
    curves(context, &typical)?;
    link_use(context, typical[2])?;
    root_pairs(context, typical[1])
}

/// Rows of a sweep over loads up to twice the throughput.
fn rising(fabric: &Fabric, routes: &Routes, traffic: &Traffic, points: u32, up_to: f64) -> Vec<Row> {
    let settings = settings(traffic.clone());
    let simulation = Simulation::new(fabric, routes, &settings).expect("sound tables");
    let runs: Vec<(Load, u64)> =
        (1..=points).map(|i| (Load::Share(up_to * f64::from(i) / f64::from(points)), 1)).collect();
    simulation.sweep(&runs, &|| false, &|_| ()).expect("valid loads")
}

/// Fig. 1, 3, 4, 5, 6: latency over accepted traffic, on a typical network of each size.
fn curves(context: &Context, typical: &[u64]) -> Fallible {
    let points = context.pick(8, 24);
    let one_two: &[(u8, u8)] = &[(1, 2), (2, 2)];
    let uniform = |_| Traffic::Uniform;
    let strong = |_| hotspot(1, 20.0);
    let several = |switches: u32| hotspot(switches as usize / 4, 20.0);
    let panel = |size: u32, title: String, traffic: Traffic, sides: &[(u8, u8)]| -> Panel {
        let seed = typical[SIZES.iter().position(|&s| s == size).expect("a size")];
        let fabric = network(size, seed);
        let hops = Hops::new(&fabric).expect("it is connected");
        let curves = sides.iter().map(|&(trees, vls)| {
            let routes = tables(&fabric, &hops, roots(&fabric, &hops, trees, vls));
            let up_to = (1.3 * throughput(&fabric, &routes, &traffic, seed)).min(1.0);
            let rows = rising(&fabric, &routes, &traffic, points, up_to);
            let point = |row: &Row| row.latency.mean.map(|ns| (row.accepted, ns));
            let name = if trees == 1 { format!("1 tree on {vls} VLs") } else { format!("{trees} trees") };
            Curve { name, points: rows.iter().filter_map(point).collect() }
        });
        Panel {
            title,
            x: "accepted traffic, bytes/ns/switch",
            y: "mean latency, ns",
            highest: Some(10_000.0),
            curves: curves.collect(),
        }
    };
    let by_size = |traffic: &dyn Fn(u32) -> Traffic, sides: &[(u8, u8)]| -> Vec<Panel> {
        SIZES[1..].iter().map(|&s| panel(s, format!("{s} switches"), traffic(s), sides)).collect()
    };
    context.plot("flich-1", &by_size(&uniform, one_two))?;
    context.plot("flich-3", &by_size(&strong, one_two))?;
    let shares = [20.0, 10.0, 5.0];
    let of_32 = shares.map(|p| panel(32, format!("32 switches, hotspot {p} %"), hotspot(1, p), one_two));
    context.plot("flich-4", &of_32)?;
    context.plot("flich-5", &by_size(&several, one_two))?;
    context.plot("flich-6", &by_size(&uniform, &[(1, 2), (1, 3), (2, 2), (3, 3)]))
}

/// Fig. 2: use of the links between switches at three loads.
fn link_use(context: &Context, seed: u64) -> Fallible {
    let fabric = network(32, seed);
    let hops = Hops::new(&fabric).expect("it is connected");
    let mut panels = Vec::new();
    println!("\n### Flich et al., Fig. 2\n");
    println!(
        "| trees | bytes/ns/switch | accepted | links used below 10 % | below 20 % | above 30 % | most, % |"
    );
    println!("|--:|--:|--:|--:|--:|--:|--:|");
    let one = tables(&fabric, &hops, roots(&fabric, &hops, 1, 2));
    let two = tables(&fabric, &hops, roots(&fabric, &hops, 2, 2));
    let limits = [&one, &two].map(|routes| throughput(&fabric, routes, &Traffic::Uniform, seed));
    for (trees, routes, load) in
        [(1, &one, 0.03), (2, &two, 0.03), (2, &two, 0.09), (1, &one, limits[0]), (2, &two, limits[1])]
    {
        let settings = settings(Traffic::Uniform);
        let row = Simulation::new(&fabric, routes, &settings)?.run(Load::Share(load), 1)?;
        let mut used: Vec<f64> = row.use_of_links.iter().map(|vls| 100.0 * vls.iter().sum::<f64>()).collect();
        used.sort_by(f64::total_cmp);
        let share = |of: &dyn Fn(f64) -> bool| {
            100.0 * used.iter().filter(|&&u| of(u)).count() as f64 / used.len() as f64
        };
        println!(
            "| {trees} | {load:.3} | {:.3} | {:.0} % | {:.0} % | {:.0} % | {:.0} |",
            row.accepted,
            share(&|u| u < 10.0),
            share(&|u| u < 20.0),
            share(&|u| u > 30.0),
            used[used.len() - 1]
        );
        if panels.len() < 3 {
            let points = used.iter().enumerate().map(|(i, &u)| (i as f64, u)).collect();
            panels.push(Panel {
                title: format!("{trees} tree(s), {load} bytes/ns/switch"),
                x: "channels, sorted",
                y: "use, %",
                highest: None,
                curves: vec![Curve { name: String::new(), points }],
            });
        }
    }
    context.plot("flich-2", &panels)
}

/// Fig. 7: all ordered pairs of roots.
fn root_pairs(context: &Context, seed: u64) -> Fallible {
    let fabric = network(16, seed);
    let hops = Hops::new(&fabric).expect("it is connected");
    let step = context.pick(6, 1);
    let pairs: Vec<(SwitchId, SwitchId)> = fabric
        .switch_ids()
        .flat_map(|a| fabric.switch_ids().filter(move |&b| a != b).map(move |b| (a, b)))
        .step_by(step)
        .collect();
    let of =
        |roots: Vec<SwitchId>| throughput(&fabric, &tables(&fabric, &hops, roots), &Traffic::Uniform, seed);
    let mut all: Vec<f64> = pairs.par_iter().map(|&(a, b)| of(vec![a, b])).collect();
    all.sort_by(f64::total_cmp);
    let farthest = of(updn_roots(&fabric, &hops, 2));
    println!("\n### Flich et al., Fig. 7\n");
    println!("| | least | farthest roots | largest | largest / farthest |\n|---|--:|--:|--:|--:|");
    println!("| printed | 0.07 | 0.145 | 0.2 | 1.40 |");
    let (least, largest) = (all[0], all[all.len() - 1]);
    println!(
        "| ours, {} pairs | {least:.3} | {farthest:.3} | {largest:.3} | {:.2} |",
        all.len(),
        largest / farthest
    );
    let level = vec![(0.0, farthest), (all.len() as f64, farthest)];
    let points = all.into_iter().enumerate().map(|(i, v)| (i as f64, v)).collect();
    context.plot(
        "flich-7",
        &[Panel {
            title: "16 switches, all ordered pairs of roots".to_owned(),
            x: "pair of roots, sorted",
            y: "throughput, bytes/ns/switch",
            highest: None,
            curves: vec![
                Curve { name: "throughput".to_owned(), points },
                Curve { name: "farthest roots".to_owned(), points: level },
            ],
        }],
    )
}
