//! Many links, switches and adapters fail and come back, under the real OpenSM.
//!
//! After each few events OpenSM settles, and the tables are read back from the simulated switches
//! by management packets. They must pass `verify`. With `transition fast` they must be those that
//! `engine::route` computes for the remaining fabric, without anything else; so they depend only on
//! the current fabric, and nothing of an earlier one is left in them. The test determines the
//! remaining fabric by itself.
//!
//! `ci/soak` runs the same for any length of time.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use dfdn::engine::{self, Settings};
use dfdn::fabric::{EndPort, Fabric, FabricBuilder, Guid, Lmc, Node, NodeId, NodeKind, PortNum, PortRef};
use dfdn::formats;
use dfdn::tables::{PathSl, Routes};
use dfdn::topology::{Dragonfly, FatTree, HyperX, Mesh, Random, Ring, Torus};
use dfdn::verify::verify;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::host::ibsim::{Ibsim, net};
use crate::host::opensm::{Config, OpenSm};
use crate::host::readback::Readback;
use crate::host::sweeps::{End, Sweeps};
use crate::host::{self, Tools, plugin};

/// The name of a node in that text.
pub(crate) fn name(fabric: &Fabric, node: NodeId) -> String {
    let node = fabric.node(node);
    format!("{}-{:016x}", if node.is_switch() { "S" } else { "H" }, node.guid.0)
}

struct Cable {
    ends: [PortRef; 2],
    up: bool,
}

/// A simulated fabric that breaks and is repaired, and what remains of it.
pub(crate) struct Patient {
    whole: Fabric,
    cables: Vec<Cable>,
    /// The adapter that OpenSM runs on. Its cable stays.
    own: NodeId,
    random: ChaCha8Rng,
}

impl Patient {
    pub(crate) fn new(whole: Fabric, sim: &Ibsim, seed: u64) -> Self {
        let mut cables = Vec::new();
        let mut own = None;
        for (n, node) in whole.nodes().iter().enumerate() {
            let id = NodeId::at(n);
            if name(&whole, id) == sim.host() {
                own = Some(id);
            }
            for (p, port) in node.ports.iter().enumerate() {
                let here = PortRef { node: id, port: PortNum(p as u8) };
                if let Some(peer) = port.peer.filter(|&peer| here < peer) {
                    cables.push(Cable { ends: [here, peer], up: true });
                }
            }
        }
        let own = own.expect("OpenSM runs on one of the adapters");
        Self { whole, cables, own, random: ChaCha8Rng::seed_from_u64(seed) }
    }

    fn touches(&self, cable: usize, node: NodeId) -> bool {
        self.cables[cable].ends.iter().any(|end| end.node == node)
    }

    fn of(&self, node: NodeId) -> Vec<usize> {
        (0..self.cables.len()).filter(|&c| self.touches(c, node)).collect()
    }

    fn at(&self, end: PortRef) -> String {
        format!("\"{}\"[{}]", name(&self.whole, end.node), end.port)
    }

    fn cut(&mut self, cable: usize, commands: &mut Vec<String>) {
        if self.cables[cable].up && !self.touches(cable, self.own) {
            self.cables[cable].up = false;
            let end = self.cables[cable].ends[self.random.random_range(0..2)];
            commands.push(format!("Unlink {}", self.at(end)));
        }
    }

    fn mend(&mut self, cable: usize, commands: &mut Vec<String>) {
        if !self.cables[cable].up {
            self.cables[cable].up = true;
            let end = self.cables[cable].ends[self.random.random_range(0..2)];
            commands.push(format!("ReLink {}", self.at(end)));
        }
    }

    /// A few events, as commands of ibsim's console. The more is broken, the likelier are repairs.
    fn events(&mut self) -> Vec<String> {
        let mut commands = Vec::new();
        for _ in 0..self.random.random_range(1..=6) {
            let repair = self.wants_repair();
            match self.random.random_range(0..10) {
                0..=1 => self.any_switch(repair, &mut commands),
                // An adapter reboots: it comes back without a LID, on the ports that were up.
                2..=3 => {
                    let Some(adapter) = self.any_node(NodeKind::ChannelAdapter) else { continue };
                    let cables: Vec<_> =
                        self.of(adapter).into_iter().filter(|&c| self.cables[c].up).collect();
                    if let Some(&first) = cables.first().filter(|&&c| !self.touches(c, self.own)) {
                        let name = name(&self.whole, adapter);
                        commands.push(format!("Clear \"{name}\""));
                        debug_assert!(self.cables[first].up);
                        for &cable in &cables {
                            let end = self.cables[cable].ends.into_iter().find(|e| e.node == adapter);
                            commands.push(format!("ReLink {}", self.at(end.expect("its own end"))));
                        }
                    }
                }
                _ => self.any_cable(repair, &mut commands),
            }
        }
        commands
    }

    /// A cable, two at once or a switch with all its cables fails or comes back. Half of the times
    /// it is one cable.
    pub(crate) fn change(&mut self, commands: &mut Vec<String>) {
        let repair = self.wants_repair();
        match self.random.random_range(0..4) {
            0 => self.any_switch(repair, commands),
            1 => (0..2).for_each(|_| self.any_cable(repair, commands)),
            _ => self.any_cable(repair, commands),
        }
    }

    fn wants_repair(&mut self) -> bool {
        let down = self.cables.iter().filter(|c| !c.up).count();
        self.random.random_bool((0.15 + 1.5 * down as f64 / self.cables.len() as f64).min(0.9))
    }

    /// Not OpenSM's own.
    fn any_node(&mut self, kind: NodeKind) -> Option<NodeId> {
        let nodes = (0..self.whole.nodes().len()).map(NodeId::at);
        let of_kind: Vec<_> = nodes.filter(|&n| n != self.own && self.whole.node(n).kind == kind).collect();
        of_kind.choose(&mut self.random).copied()
    }

    /// A switch fails or comes back with all its cables.
    fn any_switch(&mut self, repair: bool, commands: &mut Vec<String>) {
        let Some(switch) = self.any_node(NodeKind::Switch) else { return };
        for cable in self.of(switch) {
            if repair { self.mend(cable, commands) } else { self.cut(cable, commands) }
        }
    }

    fn any_cable(&mut self, repair: bool, commands: &mut Vec<String>) {
        let mut order: Vec<usize> = (0..self.cables.len()).collect();
        order.shuffle(&mut self.random);
        if let Some(&cable) = order.iter().find(|&&c| self.cables[c].up != repair) {
            if repair { self.mend(cable, commands) } else { self.cut(cable, commands) }
        }
    }

    /// All repairs.
    fn heal(&mut self) -> Vec<String> {
        let mut commands = Vec::new();
        for cable in 0..self.cables.len() {
            self.mend(cable, &mut commands);
        }
        commands
    }

    /// What OpenSM can reach: through switches, not through adapters. LIDs are to be determined.
    pub(crate) fn left(&self) -> Fabric {
        let mut reached = BTreeSet::from([self.own]);
        let mut open = vec![self.own];
        while let Some(node) = open.pop() {
            for cable in self.of(node) {
                let Cable { ends: [a, b], up: true } = self.cables[cable] else { continue };
                let other = if a.node == node { b.node } else { a.node };
                if reached.insert(other) && self.whole.node(other).is_switch() {
                    open.push(other);
                }
            }
        }
        let mut builder = FabricBuilder::new();
        let mut place = vec![None; self.whole.nodes().len()];
        for &node in &reached {
            let mut copy = self.whole.node(node).clone();
            for port in &mut copy.ports {
                (port.peer, port.lid) = (None, None);
            }
            place[node.index()] = Some(builder.add(copy).expect("as in the whole fabric"));
        }
        for cable in self.cables.iter().filter(|c| c.up) {
            let end = |end: PortRef| Some(PortRef { node: place[end.node.index()]?, port: end.port });
            if let (Some(a), Some(b)) = (end(cable.ends[0]), end(cable.ends[1])) {
                builder.connect(a, b).expect("as in the whole fabric");
            }
        }
        builder.finish(Lmc::default()).expect("a part of a fabric is a fabric")
    }
}

/// What occurred in a run.
#[derive(Debug, Default)]
struct Seen {
    events: usize,
    sweeps: usize,
    verified: usize,
    refused: usize,
    partitioned: usize,
    without_switch: usize,
    /// Transitions that were proven, and others.
    proven_ways: usize,
    unproven_ways: usize,
    /// OpenSM's resident memory after a twentieth of the run and at its end, in KiB.
    memory: Option<(u64, u64)>,
}

impl Seen {
    fn add(&mut self, other: &Seen) {
        self.events += other.events;
        self.sweeps += other.sweeps;
        self.verified += other.verified;
        self.refused += other.refused;
        self.partitioned += other.partitioned;
        self.without_switch += other.without_switch;
        self.proven_ways += other.proven_ways;
        self.unproven_ways += other.unproven_ways;
    }
}

/// The tables in the switches are exactly those of the remaining fabric.
fn check(what: &str, sim: &Ibsim, sm: &OpenSm, left: &Fabric, settings: &Settings) {
    let back = Readback::of(sim);
    if sm.path("psl").exists() {
        std::fs::copy(sm.path("psl"), back.folder().join("psl")).expect("psl is copied");
    }
    let (fabric, held) = formats::load_tables(back.folder(), left.clone()).expect("the tables load");
    // Entries for LIDs and switches that no longer exist, switches without a table, ...
    // In psl, an adapter with two ports on two switches is one source with two SLs for a pair.
    let usual = ["no psl", "LIDs of", "pair stated before with another SL"];
    let told = !held.remarks.iter().any(|remark| remark.contains("pair stated before with another SL"));
    let strange: Vec<_> = held.remarks.iter().filter(|r| !usual.iter().any(|u| r.contains(u))).collect();
    assert!(strange.is_empty(), "{what}: {strange:?}");
    let routed = engine::route(&fabric, settings).expect("OpenSM could route it");
    if settings.proven_transition {
        // They keep to earlier tables. All of these engines serve any SL, or say which.
        let path_sl = match sm.path("psl").exists() {
            true if told => held.path_sl.clone(),
            // Tables that need several SLs for which it cannot tell are made anew.
            true => routed.routes.path_sl,
            false => PathSl::Any(u16::MAX),
        };
        let verdict = verify(&fabric, &Routes { path_sl, ..held });
        assert!(verdict.is_safe(), "{what}: {:?}", verdict.witness().map(|w| w.explain(&fabric)));
        return;
    }
    assert!(
        held.lft == routed.routes.lft,
        "{what}: forwarding tables are not those of the fabric that is left"
    );
    for (_, channel) in fabric.channels().iter() {
        let node = fabric.switch(channel.from);
        for inp in (0..node.ports.len() as u8).map(PortNum) {
            if inp == PortNum::ZERO || node.ports[usize::from(inp.0)].peer.is_some() {
                let row = |t: &Routes| t.sl2vl.row(channel.from, inp, channel.out_port);
                assert_eq!(row(&held), row(&routed.routes), "{what}: SL2VL of {} in {inp}", node.description);
            }
        }
    }
    // The SLs assigned to hosts, as OpenSM answers for each pair; or all of them if all serve.
    let any = matches!(routed.routes.path_sl, PathSl::Any(_));
    assert_eq!(sm.path("psl").exists(), !any, "{what}: psl where SLs matter");
    let ports = |e: &EndPort| fabric.endports().iter().filter(|other| other.node == e.node).count();
    let told = !any && fabric.adapters().all(|(_, e)| ports(e) == 1);
    let path_sl = if told { held.path_sl.clone() } else { routed.routes.path_sl };
    let verdict = verify(&fabric, &Routes { path_sl, ..held });
    assert!(verdict.is_safe(), "{what}: {:?}", verdict.witness().map(|w| w.explain(&fabric)));
}

/// Runs one fabric under OpenSM with dfdn and hits it until `enough`.
fn run(
    tools: &'static Tools,
    what: &str,
    whole: Fabric,
    config: &Config,
    seed: u64,
    enough: impl Fn(&Seen) -> f64,
) -> Seen {
    let proven_transition = config.env.is_empty();
    let settings = Settings { engine: config.engine.clone(), proven_transition, ..Settings::default() };
    let config = Config { engine: format!("{},no_fallback", config.engine), ..config.clone() };
    let mut sim = Ibsim::start(tools, &net(&whole));
    let mut sm = OpenSm::start(&sim, &config);
    let mut sweeps = Sweeps::of(&sm);
    let mut seen = Seen::default();
    assert_eq!(sweeps.rest(&mut sm, 0), End::Up, "{what}: at the start\n{}", sm.log());
    let mut patient = Patient::new(whole, &sim, seed);
    let nodes = patient.left().nodes().len();
    let mut early = None;
    loop {
        let share = enough(&seen);
        let over = share >= 1.0;
        let commands = if over { patient.heal() } else { patient.events() };
        sim.commands(&commands);
        seen.events += commands.len();
        let end = sweeps.settle(&mut sm);
        let left = patient.left();
        seen.partitioned += usize::from(left.nodes().len() < nodes);
        let what = format!("{what}, seed {seed}, after {} events {commands:?}", seen.events);
        assert!(sweeps.defects.is_empty(), "{what}: {:?}", sweeps.defects);
        match end {
            End::Up if left.num_switches() == 0 => seen.without_switch += 1,
            End::Up => {
                assert!(sweeps.said().iter().any(|l| l.starts_with("DF05")), "{what}: {:?}", sweeps.said());
                check(&what, &sim, &sm, &left, &settings);
                seen.verified += 1;
            }
            // With the reason, and only for what the engine also refuses outside OpenSM.
            End::Refused(said) | End::Held(said) => {
                let why = engine::route(&left, &settings).err().map(|e| e.to_string());
                let why = why.unwrap_or_else(|| panic!("{what}: refused, but can be routed: {said:?}"));
                assert!(said.iter().any(|l| l.contains("ERR DF22") && l.contains(&why)), "{what}: {said:?}");
                seen.refused += 1;
            }
            other => panic!("{what}: {other:?}\n{}", sm.log()),
        }
        if early.is_none() && share > 0.05 {
            early = sm.memory();
        }
        if over {
            break;
        }
    }
    seen.sweeps = sweeps.started();
    seen.proven_ways =
        sm.log().matches("dfdn: DF11: ").count() - sm.log().matches("dfdn: DF11: step ").count();
    seen.unproven_ways = sm.log().matches("dfdn: DF32: ").count();
    seen.memory = early.zip(sm.memory());
    assert!(sm.alive() && sm.stop().success(), "{what}: {}", sm.log());
    seen
}

/// Parallel cables of 1x and 4x, an adapter with two ports on two switches, a switch without an
/// adapter, one with an enhanced port 0.
fn mixed() -> Fabric {
    let mut b = FabricBuilder::new();
    let switches: Vec<NodeId> = (0..7_u64)
        .map(|i| {
            let mut node = Node::new(NodeKind::Switch, Guid(0x200 + i), 8, &format!("sw{i}"));
            node.enhanced_port0 = i == 2;
            b.add(node).expect("few ports")
        })
        .collect();
    let adapters: Vec<NodeId> = (0..5_u64)
        .map(|i| {
            let node = Node::new(NodeKind::ChannelAdapter, Guid(0x1000 + 16 * i), 2, &format!("host{i}"));
            b.add(node).expect("few ports")
        })
        .collect();
    let mut free = [0_u8; 7];
    let mut cable = |b: &mut FabricBuilder, end: PortRef, s: usize, width: u8| {
        free[s] += 1;
        let other = PortRef { node: switches[s], port: PortNum(free[s]) };
        let end = if end.port.0 == 0 {
            let from = switches.iter().position(|&n| n == end.node).expect("a switch");
            free[from] += 1;
            PortRef { port: PortNum(free[from]), ..end }
        } else {
            end
        };
        b.connect(end, other).expect("free ports");
        for end in [end, other] {
            let port = &mut b.node_mut(end.node).ports[end.port.index()];
            (port.width, port.speed) = (Some(width), Some(dfdn::fabric::LinkSpeed::Qdr));
        }
    };
    // Adapter 1 has its two ports on two switches, adapter 2 on one; switch 6 has no adapter.
    for (a, port, s) in [(0, 1, 0), (1, 1, 0), (1, 2, 2), (2, 1, 1), (2, 2, 1), (3, 1, 3), (4, 1, 5)] {
        cable(&mut b, PortRef { node: adapters[a], port: PortNum(port) }, s, 4);
    }
    let links = [
        (0, 1, 4),
        (0, 1, 1),
        (1, 2, 4),
        (2, 3, 1),
        (3, 4, 4),
        (3, 4, 4),
        (4, 5, 4),
        (5, 0, 4),
        (6, 0, 4),
        (6, 3, 1),
        (6, 2, 4),
        (1, 4, 4),
    ];
    for (from, to, width) in links {
        cable(&mut b, PortRef { node: switches[from], port: PortNum::ZERO }, to, width);
    }
    b.finish(Lmc::default()).expect("a fabric")
}

/// One switch with three adapters.
fn one_switch() -> Fabric {
    let mut b = FabricBuilder::new();
    let switch = b.add(Node::new(NodeKind::Switch, Guid(0x200), 4, "alone")).expect("few ports");
    for i in 0..3_u8 {
        let guid = Guid(0x1000 + 16 * u64::from(i));
        let host =
            b.add(Node::new(NodeKind::ChannelAdapter, guid, 1, &format!("host{i}"))).expect("few ports");
        let (host, switch) =
            (PortRef { node: host, port: PortNum(1) }, PortRef { node: switch, port: PortNum(i + 1) });
        b.connect(host, switch).expect("free ports");
    }
    b.finish(Lmc::default()).expect("a fabric")
}

/// A fabric to hit, with its name, engine and LMC.
type Case = (&'static str, Fabric, &'static str, u8);

fn cases() -> Vec<Case> {
    let random = Random { switches: 12, degree: 4, cas: 1, seed: 5 };
    vec![
        ("mixed", mixed(), "dfdn", 0),
        ("dragonfly p=2", Dragonfly::balanced(2).build().expect("a Dragonfly"), "dfdn", 0),
        ("torus 3x3", Torus { dims: vec![3, 3], cas: 1 }.build().expect("a torus"), "dfdn-paper", 1),
        ("one switch", one_switch(), "dfdn", 0),
        ("mixed with LMC", mixed(), "dfdn-paper", 2),
        (
            "fat tree",
            FatTree { k: 4, levels: 3, down: None, cas: None }.build().expect("a fat tree"),
            "dfdn",
            0,
        ),
        ("random", random.build().expect("a random fabric"), "updn-trees", 0),
        // Its diameter is two only while it is whole: dfd2 sometimes refuses what remains.
        ("HyperX 3x3", HyperX { dims: vec![3, 3], cas: 1 }.build().expect("a HyperX"), "dfd2", 0),
        ("ring", Ring { switches: 8, cas: 1 }.build().expect("a ring"), "bfot-plus", 3),
    ]
}

pub(crate) fn config(engine: &str, lmc: u8) -> Config {
    Config { lmc, extra: "lmc_esp0 TRUE\n".to_owned(), ..plugin::config(engine) }
}

#[test]
fn hundreds_of_failures_and_repairs() {
    let Some(tools) = host::tools("faults") else { return };
    let mut all = Seen::default();
    for (n, (name, fabric, engine, lmc)) in cases().into_iter().enumerate() {
        let events = if n < 3 { 100 } else { 50 };
        let config = plugin::fast(config(engine, lmc));
        let seen = run(tools, name, fabric, &config, n as u64 + 1, |seen| seen.events as f64 / events as f64);
        eprintln!("{name}: {seen:?}");
        all.add(&seen);
    }
    // The test proves little unless these occurred.
    assert!(all.events >= 600 && all.verified >= 100 && all.partitioned >= 50 && all.refused >= 3, "{all:?}");
}

/// With the default, from table to table in proven steps.
#[test]
fn failures_and_repairs_in_proven_steps() {
    let Some(tools) = host::tools("proven steps") else { return };
    let mesh = Mesh { dims: vec![4, 4], cas: 1 }.build().expect("a mesh");
    let random = Random { switches: 12, degree: 4, cas: 1, seed: 5 }.build().expect("a random fabric");
    let fabrics = [
        ("mesh", mesh),
        ("random", random),
        ("dragonfly p=2", Dragonfly::balanced(2).build().expect("a Dragonfly")),
    ];
    let mut all = Seen::default();
    for (n, (name, fabric)) in fabrics.into_iter().enumerate() {
        let seen =
            run(tools, name, fabric, &config("dfdn", 0), n as u64 + 1, |seen| seen.events as f64 / 50.0);
        eprintln!("{name}: {seen:?}");
        all.add(&seen);
    }
    assert!(
        all.verified >= 20 && all.proven_ways >= 20 && all.proven_ways > 4 * all.unproven_ways,
        "{all:?}"
    );
}

/// Without a switch there is nothing to route: OpenSM does not ask the engine, and nothing must go
/// wrong.
#[test]
fn two_adapters_back_to_back() {
    let Some(tools) = host::tools("two adapters back to back") else { return };
    let mut b = FabricBuilder::new();
    let ends = [0x1000, 0x2000].map(|guid| {
        let node = Node::new(NodeKind::ChannelAdapter, Guid(guid), 1, &format!("host{guid:x}"));
        PortRef { node: b.add(node).expect("few ports"), port: PortNum(1) }
    });
    b.connect(ends[0], ends[1]).expect("free ports");
    let fabric = b.finish(Lmc::default()).expect("a fabric");
    let mut sim = Ibsim::start(tools, &net(&fabric));
    let mut sm = OpenSm::up(&sim, &plugin::config("dfdn,no_fallback"));
    let other = name(&fabric, ends[1].node);
    for command in ["Unlink", "ReLink", "Clear", "ReLink"] {
        let port = if command == "Clear" { "" } else { "[1]" };
        // Its own port is down without the cable.
        let line = if command == "ReLink" { "-> SUBNET UP" } else { "SM port is down" };
        let before = sm.log().matches(line).count();
        sim.commands(&[format!("{command} \"{other}\"{port}")]);
        sm.hang_up();
        sm.wait_log(line, before + 1, Duration::from_secs(20));
    }
    assert!(!sm.log().contains("ERR DF"), "{}", sm.log());
    assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
}

/// What `ci/soak` asks for: the tools, how long, and the first seed.
pub(crate) fn soaking() -> (&'static Tools, Duration, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let tools = host::tools("soak").expect("ci/soak installs what it needs");
    let minutes = number("DFDN_SOAK_MINUTES").unwrap_or(60);
    (tools, Duration::from_secs(60 * minutes), number("DFDN_SOAK_SEED").unwrap_or(1))
}

/// `ci/soak`: all fabrics in rotation, with a new seed each time, until the time is up.
#[test]
#[ignore = "runs for as long as DFDN_SOAK_MINUTES says; ci/soak"]
fn soak() {
    let (tools, whole, first) = soaking();
    let start = Instant::now();
    let cases = cases();
    let share = whole / cases.len() as u32;
    let mut all = Seen::default();
    let mut growth = Vec::new();
    // One OpenSM for all the time of a fabric, so that leaks add up.
    for (n, (name, fabric, engine, lmc)) in cases.into_iter().enumerate() {
        let begun = Instant::now();
        let part = |_: &Seen| begun.elapsed().as_secs_f64() / share.as_secs_f64();
        let seen = run(tools, name, fabric, &config(engine, lmc), first + n as u64, part);
        println!("{:>5} s  {name} ({engine}, LMC {lmc}): {seen:?}", start.elapsed().as_secs());
        if let Some((early, late)) = seen.memory {
            growth.push(format!("{name} {:+} KiB", late as i64 - early as i64));
        }
        all.add(&seen);
    }
    println!(
        "soak: {} minutes from seed {first}: {} events, {} sweeps, {} times all tables read back and verified, \
         {} refusals, {} times parts of the fabric were cut off, {} times there was no switch; OpenSM's memory: {}",
        start.elapsed().as_secs() / 60,
        all.events,
        all.sweeps,
        all.verified,
        all.refused,
        all.partitioned,
        all.without_switch,
        growth.join(", ")
    );
}
