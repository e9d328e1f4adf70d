//! What ibsim received, replayed through the judge of changes: no moment is left out of a proven step.

use std::time::Instant;

use dfdn::fabric::{Fabric, Lid, NodeId};
use dfdn::formats;
use dfdn::reconfigure::judge;
use dfdn::tables::{Plan, Routes, Transition};
use dfdn::topology::{Dragonfly, FatTree, HyperX, Hypercube, Kautz, Mesh, Oft, Random, SlimFly, Torus};

use crate::faults::{Patient, config, name, soaking};
use crate::host::ibsim::{Ibsim, net};
use crate::host::opensm::{Config, OpenSm};
use crate::host::readback::Readback;
use crate::host::sets::Sets;
use crate::host::sweeps::{End, Sweeps};
use crate::host::{self, Tools, foreign, plugin};

/// What occurred in a run.
#[derive(Debug, Default)]
struct Replayed {
    /// Of the fabric: a cable, two at once or a switch, failed or repaired.
    changes: usize,
    /// Changes of tables that are proven, and their steps.
    proven: usize,
    steps: usize,
    /// Changes that are not, and what the log says of them.
    announced: Vec<String>,
    /// Those of which the log says nothing.
    uncovered: Vec<String>,
}

impl Replayed {
    fn add(&mut self, other: Self) {
        self.changes += other.changes;
        self.proven += other.proven;
        self.steps += other.steps;
        self.announced.extend(other.announced);
        self.uncovered.extend(other.uncovered);
    }
}

/// The tables in the switches.
fn held(sim: &Ibsim, sm: &OpenSm, left: Fabric) -> (Fabric, Routes) {
    let back = Readback::of(sim);
    if sm.path("psl").exists() {
        std::fs::copy(sm.path("psl"), back.folder().join("psl")).expect("psl is copied");
    }
    formats::load_tables(back.folder(), left).expect("the tables load")
}

/// Cables and switches fail and come back, one change after the other, and the judge of changes sees
/// all that OpenSM programs for it.
///
/// - `enough`: whether that many changes suffice.
fn run(
    tools: &'static Tools,
    what: &str,
    whole: Fabric,
    config: Config,
    seed: u64,
    enough: impl Fn(usize) -> bool,
) -> Replayed {
    let mut sets = Sets::new();
    let mut sim = Ibsim::start(tools, &net(&whole));
    let mut sm = OpenSm::start(&sim, &sets.config(config));
    let mut sweeps = Sweeps::of(&sm);
    assert_eq!(sweeps.rest(&mut sm, 0), End::Up, "{what}: at the start\n{}", sm.log());
    let mut patient = Patient::new(whole, &sim, seed);
    let host = sim.host().to_owned();
    let own = |fabric: &Fabric| {
        let mut nodes = (0..fabric.nodes().len()).map(NodeId::at);
        nodes.find(|&node| name(fabric, node) == host).expect("OpenSM's own node")
    };
    let mut seen = Replayed::default();
    let mut before = held(&sim, &sm, patient.left());
    let _start = sets.steps(&before.0, own(&before.0), before.1.lft.lids());
    while !enough(seen.changes) {
        let mut commands = Vec::new();
        patient.change(&mut commands);
        let unproven = sm.log().matches("dfdn: DF32: ").count();
        sim.commands(&commands);
        seen.changes += 1;
        let end = sweeps.settle(&mut sm);
        let what = format!("{what}, seed {seed}, after {} changes {commands:?}", seen.changes);
        assert!(end == End::Up && sweeps.defects.is_empty(), "{what}: {end:?} {:?}", sweeps.defects);
        let after = held(&sim, &sm, patient.left());
        let change = Transition::between(&before.0, &before.1, &after.0, &after.1);
        let steps = sets.steps(&after.0, own(&after.0), change.old.lft.lids());
        let plan = Plan { steps, failed: change.failed.clone() };
        let judged = judge(&after.0, &change, &plan).unwrap_or_else(|why| panic!("{what}: {why}"));
        let last = judged.states.last().expect("at least the tables before");
        for lid in (1..after.0.lid_table_len()).filter_map(|lid| Lid::new(lid as u16)) {
            if after.0.owner_of(lid).is_some() {
                assert_eq!(
                    last.lft.to(lid),
                    change.new.lft.to(lid),
                    "{what}: a Set for LID {lid} is missing"
                );
            }
        }
        if judged.is_proven() {
            seen.proven += usize::from(!plan.steps.is_empty());
            seen.steps += plan.steps.len();
        } else if sm.log().matches("dfdn: DF32: ").count() > unproven {
            let line = sm.log().lines().rfind(|line| line.contains("dfdn: DF32: ")).map(str::to_owned);
            seen.announced.push(format!("{what}: {}", line.expect("a line")));
        } else {
            let witness = judged.verdicts.iter().flat_map(|v| &v.witnesses).next();
            seen.uncovered.push(format!("{what}: {:?}", witness.map(|w| w.explain(&after.0))));
        }
        before = after;
    }
    assert!(sm.alive() && sm.stop().success(), "{what}: {}", sm.log());
    seen
}

/// Fabrics whose changes need several steps, and some that need one.
fn cases() -> Vec<(&'static str, Fabric)> {
    vec![
        ("mesh", Mesh { dims: vec![4, 4], cas: 1 }.build().expect("a mesh")),
        ("dragonfly p=2", Dragonfly::balanced(2).build().expect("a Dragonfly")),
        ("fat tree", FatTree { k: 4, levels: 3, down: None, cas: None }.build().expect("a fat tree")),
        ("random", Random { switches: 12, degree: 4, cas: 1, seed: 5 }.build().expect("a random fabric")),
        // Several SLs.
        ("torus 7x5", Torus { dims: vec![7, 5], cas: 1 }.build().expect("a torus")),
    ]
}

/// Those of [`cases`], one or two of each further family, and real ones where they are.
fn families() -> Vec<(&'static str, Fabric)> {
    let further = [
        ("dragonfly p=3", Dragonfly::balanced(3).build()),
        ("dragonfly p=4", Dragonfly::balanced(4).build()),
        ("slim fly q=5", SlimFly { q: 5, cas: Some(1) }.build()),
        ("slim fly q=7", SlimFly { q: 7, cas: Some(1) }.build()),
        ("fat tree of two levels", FatTree { k: 12, levels: 2, down: None, cas: Some(1) }.build()),
        ("fat tree k=6", FatTree { k: 6, levels: 3, down: None, cas: Some(1) }.build()),
        ("OFT", Oft { k: 4, cas: Some(1) }.build()),
        ("HyperX", HyperX { dims: vec![4, 4], cas: 1 }.build()),
        ("hypercube", Hypercube { n: 5, cas: 1 }.build()),
        ("torus 4x4", Torus { dims: vec![4, 4], cas: 1 }.build()),
        ("torus 4x4x4", Torus { dims: vec![4, 4, 4], cas: 1 }.build()),
        ("mesh 5x5", Mesh { dims: vec![5, 5], cas: 1 }.build()),
        ("Kautz graph", Kautz { d: 3, n: 3, cas: 1 }.build()),
        ("random, 64 switches", Random { switches: 64, degree: 6, cas: 1, seed: 1 }.build()),
    ];
    let further = further.map(|(name, fabric)| (name, fabric.expect("a member of the family")));
    let real = ["x5/X5.topofile", "tartu/topo"].map(|file| Some((file, foreign::fabric(file)?)));
    cases().into_iter().chain(further).chain(real.into_iter().flatten()).collect()
}

#[test]
fn everything_that_is_programmed_belongs_to_a_proven_step() {
    let Some(tools) = host::tools("replayed Sets") else { return };
    let mut all = Replayed::default();
    for (n, (name, fabric)) in cases().into_iter().enumerate() {
        let seen = run(tools, name, fabric, config("dfdn", 0), n as u64 + 1, |changes| changes >= 12);
        eprintln!("{name}: {seen:?}");
        all.add(seen);
    }
    assert!(all.uncovered.is_empty(), "{}", all.uncovered.join("\n"));
    assert!(all.proven >= 30 && all.steps > all.proven && all.announced.len() * 4 < all.proven, "{all:?}");
    // At once, as an administrator may choose, the same does not hold.
    let (name, fabric) = cases().swap_remove(0);
    let fast = run(tools, name, fabric, plugin::fast(config("dfdn", 0)), 1, |changes| changes >= 6);
    assert!(!fast.uncovered.is_empty() && fast.announced.is_empty(), "{fast:?}");
}

/// `ci/soak`: all families, each for the same time and at least four changes.
#[test]
#[ignore = "runs for as long as DFDN_SOAK_MINUTES says; ci/soak"]
fn soak() {
    let (tools, whole, first) = soaking();
    let families = families();
    let share = whole / families.len() as u32;
    let start = Instant::now();
    let mut all = Replayed::default();
    for (n, (name, fabric)) in families.into_iter().enumerate() {
        let begun = Instant::now();
        let seen = run(tools, name, fabric, config("dfdn", 0), first + n as u64, |changes| {
            changes >= 4 && begun.elapsed() > share
        });
        println!("{:>5} s  {name}, replayed: {seen:?}", start.elapsed().as_secs());
        all.add(seen);
    }
    println!("soak: what OpenSM programmed, through the judge of changes: {all:?}");
    assert!(all.uncovered.is_empty(), "{}", all.uncovered.join("\n"));
}
