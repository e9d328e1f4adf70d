//! One benchmark for each stage between a fabric and its tables, over fabrics that grow.
//!
//! ```sh
//! cargo bench                                       # up to some 200 switches, two minutes
//! DFDN_BENCH=all cargo bench                        # up to 40,000 end ports, some ten minutes
//! DFDN_BENCH=all cargo bench -- verify              # one stage
//! DFDN_BENCH=dragonfly-8,fat-tree-36 cargo bench    # some fabrics
//! ```
//!
//! The rate beside the times is that of the items in the stage's cost model (see the table in
//! `docs/performance.md`): if it stays the same from one size to the next, the stage grows as the
//! model says. Times are wall-clock time; `RAYON_NUM_THREADS=1` uses only one core.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwapOption;
use dfdn::engine::{self, Settings};
use dfdn::fabric::{Fabric, SwitchId};
use dfdn::formats::{ibnetdiscover, read_fabric};
use dfdn::lanes::{self, LaneLimits};
use dfdn::ordering::{Rule, global_links_first, host_levels, up_down_rank};
use dfdn::routing::{Forwarding, Hops, Lookahead, NoLegalPath, ranked_sssp, stable_sssp};
use dfdn::tables::{InForce, Lft, PathSl, Programmed, Routes, SenderSls, VlArb};
use dfdn::topology::{Dragonfly, FatTree, SlimFly, Torus};
use dfdn::verify::mixture::Mixture;
use dfdn::verify::verify;
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};

fn main() {
    divan::main();
}

/// Family and size; whether it is in a default run.
const SERIES: &[(&str, u32, bool)] = &[
    ("dragonfly", 2, true),
    ("dragonfly", 4, true),
    ("dragonfly", 6, false),
    ("dragonfly", 8, false),
    ("dragonfly", 10, false),
    ("slim-fly", 5, true),
    ("slim-fly", 7, true),
    ("slim-fly", 11, true),
    ("slim-fly", 13, false),
    ("slim-fly", 17, false),
    ("slim-fly", 19, false),
    ("fat-tree", 8, true),
    ("fat-tree", 16, true),
    ("fat-tree", 24, false),
    ("fat-tree", 36, false),
    ("torus", 4, true),
    ("torus", 6, true),
    ("torus", 8, false),
    ("torus", 16, false),
];

/// The fabrics of this run, as `family-size`.
fn fabrics() -> Vec<&'static str> {
    let asked = std::env::var("DFDN_BENCH").unwrap_or_default();
    let wanted = |name: &str, small: bool| match asked.as_str() {
        "" => small,
        "all" => true,
        list => list.split(',').any(|one| one == name),
    };
    let named = SERIES.iter().map(|&(family, size, small)| (format!("{family}-{size}"), small));
    named.filter(|(name, small)| wanted(name, *small)).map(|(name, _)| &*name.leak()).collect()
}

/// A fabric and what the stages need from earlier ones; made once.
struct Case {
    fabric: Fabric,
    hops: Hops,
    rule: Rule,
    ranked: OnceLock<Forwarding>,
    routes: OnceLock<Routes>,
    /// Channels on minimal paths to each switch, counted once for each LID of the switch.
    minimal: u64,
}

fn case(name: &str) -> &'static Case {
    static MADE: Mutex<Option<HashMap<String, &'static Case>>> = Mutex::new(None);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.get_or_insert_default()
        .entry(name.to_owned())
        .or_insert_with(|| Box::leak(Box::new(Case::new(name))))
}

impl Case {
    fn new(name: &str) -> Self {
        let (family, size) = name.rsplit_once('-').expect("family-size");
        let size: u32 = size.parse().expect("a number");
        let fabric = match family {
            "dragonfly" => Dragonfly::balanced(size).build(),
            "slim-fly" => SlimFly { q: size, cas: None }.build(),
            "fat-tree" => FatTree { k: size, levels: 3, down: None, cas: None }.build(),
            _ => Torus { dims: vec![size; 3], cas: 1 }.build(),
        };
        let fabric = fabric.expect("a member of the family");
        let hops = Hops::new(&fabric).expect("connected");
        let leaf = fabric.switch_ids().max_by_key(|&s| fabric.num_adapters_on(s)).expect("switches");
        let rule = match family {
            "dragonfly" => Rule::FirstTurnFree(global_links_first(&fabric, SwitchId(0))),
            "slim-fly" => Rule::FirstTurnFree(host_levels(&fabric, 1)),
            "fat-tree" => Rule::OneVl(up_down_rank(&fabric, leaf)),
            _ => Rule::FirstTurnFree(up_down_rank(&fabric, leaf)),
        };
        let minimal = fabric.switch_ids().map(|t| {
            let row = hops.row(t);
            let nearer =
                fabric.channels().as_slice().iter().filter(|c| row[c.to.index()] < row[c.from.index()]);
            (nearer.count() * fabric.endports_on(t).len()) as u64
        });
        let minimal = minimal.sum();
        let (ranked, routes) = (OnceLock::new(), OnceLock::new());
        Self { fabric, hops, rule, ranked, routes, minimal }
    }

    fn ranked(&self) -> &Forwarding {
        let route =
            || ranked_sssp(&self.fabric, &self.hops, &self.rule, Lookahead::Every, NoLegalPath::Break);
        self.ranked.get_or_init(route)
    }

    fn routes(&self) -> &Routes {
        self.routes.get_or_init(|| Routes {
            engine: "bench".to_owned(),
            lft: self.ranked().lft.clone(),
            sl2vl: self.rule.sl2vl(&self.fabric),
            path_sl: PathSl::Any(1),
            vlarb: VlArb::fair(2),
            multicast: Vec::new(),
            port_sets: None,
            remarks: Vec::new(),
        })
    }

    fn switches(&self) -> u64 {
        self.fabric.num_switches() as u64
    }

    /// Forwarding entries: destinations x switches.
    fn entries(&self) -> u64 {
        self.fabric.endports().len() as u64 * self.switches()
    }
}

/// Reads `ibnetdiscover` text. Model: bytes.
#[divan::bench(args = fabrics(), max_time = 3)]
fn a_load(bencher: Bencher<'_, '_>, name: &str) {
    let mut text = Vec::new();
    ibnetdiscover::write(&mut text, &case(name).fabric).expect("to memory");
    bencher.counter(BytesCount::new(text.len())).bench(|| read_fabric(&text).expect("a fabric"));
}

/// Distances between all switches. Model: S^2.
#[divan::bench(args = fabrics(), max_time = 3)]
fn b_distances(bencher: Bencher<'_, '_>, name: &str) {
    let case = case(name);
    let pairs = case.switches() * case.switches();
    bencher.counter(ItemsCount::new(pairs)).bench(|| Hops::new(&case.fabric));
}

/// P-SSSP under a rule. Model: D S + the channels on minimal paths to each destination.
#[divan::bench(args = fabrics(), max_time = 5)]
fn c_sssp(bencher: Bencher<'_, '_>, name: &str) {
    routing(bencher, name, ranked_sssp);
}

/// The same for stable routing, in which a failed link changes few tables. Model: the same.
#[divan::bench(args = fabrics(), max_time = 5)]
fn c_stable(bencher: Bencher<'_, '_>, name: &str) {
    routing(bencher, name, stable_sssp);
}

fn routing(
    bencher: Bencher<'_, '_>,
    name: &str,
    by: impl Fn(&Fabric, &Hops, &Rule, Lookahead, NoLegalPath<'_>) -> Forwarding + Sync,
) {
    let case = case(name);
    let work = ItemsCount::new(case.entries() + case.minimal);
    bencher
        .counter(work)
        .bench(|| by(&case.fabric, &case.hops, &case.rule, Lookahead::Every, NoLegalPath::Break));
}

/// What the engine tries before it routes. Model: as much as P-SSSP.
#[divan::bench(args = fabrics(), max_time = 10)]
fn d_search(bencher: Bencher<'_, '_>, name: &str) {
    let case = case(name);
    let work = ItemsCount::new(case.entries() + case.minimal);
    let limits = Settings::default().lane_limits(&case.fabric).expect("lanes");
    bencher.counter(work).bench(|| engine::orders_tried(&case.fabric, &case.hops, limits));
}

/// SL2VL tables, and SLs for paths that break the rule. Model: rows, the sum of (ports + 1)^2.
#[divan::bench(args = fabrics(), max_time = 3)]
fn e_lanes(bencher: Bencher<'_, '_>, name: &str) {
    let case = case(name);
    let rows = ItemsCount::new(case.routes().sl2vl.rows().len());
    let ranked = case.ranked();
    let limits = LaneLimits { vls: 15, sls: 16 };
    bencher
        .counter(rows)
        .bench(|| lanes::ordered(&case.fabric, &case.rule, &ranked.lft, &ranked.broken, limits));
}

/// The judge, when one SL serves every pair. Model: D S.
#[divan::bench(args = fabrics(), max_time = 5)]
fn f_verify(bencher: Bencher<'_, '_>, name: &str) {
    let case = case(name);
    let routes = case.routes();
    bencher.counter(ItemsCount::new(case.entries())).bench(|| verify(&case.fabric, routes));
}

/// The judge of changes: each entry for every sixteenth LID is there or not yet. Model: D S.
#[divan::bench(args = fabrics(), max_time = 5)]
fn f_verify_change(bencher: Bencher<'_, '_>, name: &str) {
    let case = case(name);
    let Routes { lft, sl2vl, .. } = case.routes();
    let new = InForce { lft: lft.clone(), sl2vl: sl2vl.clone(), multicast: Vec::new() };
    let mut old = new.clone();
    for lid in case.fabric.endports().iter().flat_map(|e| e.lids()).step_by(16) {
        old.lft.to_mut(lid).fill(Lft::NO_PATH);
    }
    let sls = SenderSls::Same(1);
    let judge = || Mixture::new(&case.fabric, &sls, &[&old, &new]).is_deadlock_free();
    bencher.counter(ItemsCount::new(case.entries())).bench(judge);
}

/// Forwarding tables by switch, as OpenSM takes them. Model: D S bytes.
#[divan::bench(args = fabrics(), max_time = 3)]
fn g_table_fill(bencher: Bencher<'_, '_>, name: &str) {
    let case = case(name);
    let lft = &case.routes().lft;
    let mut tables = vec![vec![0; case.fabric.lid_table_len()]; case.fabric.num_switches()];
    bencher.counter(BytesCount::new(case.entries())).bench_local(|| {
        let mut tables: Vec<&mut [u8]> = tables.iter_mut().map(Vec::as_mut_slice).collect();
        lft.fill(&mut tables);
    });
}

/// The limit: the same tables, LFTs and SL2VL, copied once.
#[divan::bench(args = fabrics(), max_time = 3)]
fn h_copy(bencher: Bencher<'_, '_>, name: &str) {
    let case = case(name);
    let routes = case.routes();
    let lids = case.fabric.endports().iter().flat_map(|e| e.lids());
    let columns: Vec<&[u8]> = lids.map(|lid| routes.lft.to(lid)).collect();
    let rows = routes.sl2vl.rows();
    let mut lft = vec![0_u8; columns.iter().map(|c| c.len()).sum()];
    let mut sl2vl = rows.to_vec();
    bencher.counter(BytesCount::new(lft.len() + 8 * rows.len())).bench_local(|| {
        for (to, from) in lft.chunks_exact_mut(columns[0].len()).zip(&columns) {
            to.copy_from_slice(from);
        }
        sl2vl.copy_from_slice(rows);
        divan::black_box((&lft, &sl2vl));
    });
}

/// One answer to a PathRecord query, with the guard and the hand-over to other threads of OpenSM's
/// callback around it, over random LIDs.
#[divan::bench(args = fabrics(), max_time = 1)]
fn i_path_sl(bencher: Bencher<'_, '_>, name: &str) {
    let case = case(name);
    let programmed = Programmed::new(case.fabric.clone(), case.routes().clone());
    let programmed = ArcSwapOption::from_pointee(programmed);
    let lids = case.fabric.lid_table_len() as u32;
    let mut n = 0_u32;
    bencher.bench_local(|| {
        n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (slid, dlid) = ((n >> 16) % lids, (n & 0xffff) % lids);
        catch_unwind(AssertUnwindSafe(|| match programmed.load().as_deref() {
            Some(tables) => tables.path_sl(0, slid as u16, dlid as u16),
            None => 0,
        }))
    });
}

/// All except reading and table fill: what `dfdn route` and the plugin do.
#[divan::bench(args = fabrics(), max_time = 10)]
fn j_route(bencher: Bencher<'_, '_>, name: &str) {
    let case = case(name);
    let work = ItemsCount::new(case.entries() + case.minimal);
    bencher.counter(work).bench(|| engine::route(&case.fabric, &Settings::default()));
}
