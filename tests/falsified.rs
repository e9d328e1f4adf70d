//! Lying nodes: every field of every answer that matters, on a switch and on an adapter, before
//! OpenSM starts and while it runs, under minhop and under dfdn.
//!
//! Whenever minhop reaches SUBNET UP, dfdn does too. The tables are read back from the switches and packets
//! are walked over the real cables. Between two honest nodes, no path of minhop is missing if there is one
//! that avoids liars. The same run shows what minhop cannot do. A packet that arrives under minhop arrives
//! under dfdn, and no packets wait for each other in a cycle, no matter which node lies.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use dfdn::fabric::{NodeId, NodeKind};
use dfdn::topology::Torus;

use crate::host::falsify::Falsifier;
use crate::host::ibsim::{Ibsim, net};
use crate::host::opensm::{Config, OpenSm};
use crate::host::sweeps::Tail;
use crate::host::walks::{Cables, Held};
use crate::host::{self, Tools, plugin};

/// Number of sweeps that OpenSM may need until it comes up. It is higher if answers are lost by chance, as a sweep
/// with QoS sends more requests than one without.
const SWEEPS: usize = 3;
const SWEEPS_BY_CHANCE: usize = 10;
/// Total time limit of these sweeps if minhop finishes, and if it may not.
const PATIENCE: Duration = Duration::from_secs(60);
const PATIENCE_WITH_STOCK: Duration = Duration::from_secs(8);
/// How often a case is tried that goes wrong: with some orders, time decides whether minhop reaches SUBNET UP.
const ATTEMPTS: u32 = 3;
/// Jobs at a time. Each mostly waits.
const WORKERS: usize = 4;
/// Number of falsifications that one OpenSM sees in sequence.
const IN_A_ROW: usize = 12;

/// Orders for a switch; `%` stands for its GUID, `@` for another node's.
const SWITCH: &[&str] = &[
    "% lid 0 0",
    "% lid 0 5",
    "% lid 0 0xc001",
    "% lmc 0 3",
    "% vlcap * 0",
    "% vlcap 2 1",
    "% vlcap * 1",
    "% opvls * 0",
    "% opvls * 1",
    "% width * 0",
    "% width * 255",
    "% speed * 0",
    "% cap 0 0",
    "% cap 0 0xffffffff",
    "% mtucap * 0",
    "% mtucap * 15",
    "% state * 1",
    "% state * 2",
    "% state 2 1",
    "% state * 7",
    "% lowcap * 0",
    "% lowcap * 255",
    "% highcap * 0",
    "% highcap * 255",
    "% nports * 0",
    "% nports * 2",
    "% nports * 254",
    "% nports * 255",
    "% type * 1",
    "% type * 3",
    "% type * 9",
    "% guid * 0",
    "% guid * @",
    "% pguid * 0",
    "% pguid * @",
    "% lincap * 0",
    "% lincap * 10",
    "% lincap * 0xffff",
    "% mcap * 0",
    "% mcap * 0xffff",
    "% lintop * 0",
    "% lintop * 0xffff",
    "% desc * 00",
    "% desc * 25732573256e0a1b5b324affff",
    "% sl2vl * ffffffffffffffff",
    "% sl2vl * 0000000000000000",
    "% lose get nodeinfo * 100",
    "% lose get nodedesc * 100",
    "% lose get switchinfo * 100",
    "% lose get portinfo * 100",
    "% lose get portinfo * 40",
    "% lose get * * 30",
    "% lose set portinfo * 100",
    "% lose set portinfo 0 100",
    "% lose set switchinfo * 100",
    "% lose set lft * 100",
    "% lose set sl2vl * 100",
    "% lose set vlarb * 100",
    "% lose set mft * 100",
    "% refuse get nodedesc * 0x1c",
    "% refuse get switchinfo * 0x1c",
    "% refuse get portinfo * 0x1c",
    "% refuse get portinfo 2 0x1c",
    "% refuse get sl2vl * 0x0c",
    "% refuse get vlarb * 0x0c",
    "% refuse get pkeys * 0x0c",
    "% refuse set portinfo * 0x1c",
    "% refuse set lft * 0x1c",
    "% refuse set sl2vl * 0x1c",
    "% refuse set vlarb * 0x1c",
    "% refuse set mft * 0x1c",
    "% refuse set switchinfo * 0x1c",
];

/// Orders for an adapter with one port.
const ADAPTER: &[&str] = &[
    "% lid 1 0",
    "% lid 1 5",
    "% lid 1 0xc001",
    "% lmc 1 3",
    "% lmc 1 7",
    "% vlcap 1 0",
    "% vlcap 1 1",
    "% opvls 1 0",
    "% opvls 1 1",
    "% width 1 0",
    "% speed 1 0",
    "% cap 1 0",
    "% cap 1 0xffffffff",
    "% mtucap 1 0",
    "% mtucap 1 15",
    "% state 1 1",
    "% state 1 7",
    "% lowcap 1 0",
    "% highcap 1 255",
    "% nports * 0",
    "% nports * 2",
    "% nports * 255",
    "% type * 2",
    "% type * 3",
    "% type * 9",
    "% guid * 0",
    "% guid * @",
    "% pguid * 0",
    "% pguid * @",
    "% desc * 00",
    "% desc * 25732573256e0a1b5b324affff",
    "% sl2vl * ffffffffffffffff",
    "% sl2vl * 0000000000000000",
    "% lose get nodeinfo * 100",
    "% lose get nodedesc * 100",
    "% lose get portinfo * 100",
    "% lose get portinfo * 40",
    "% lose set portinfo * 100",
    "% lose set sl2vl * 100",
    "% refuse get nodedesc * 0x1c",
    "% refuse get portinfo * 0x1c",
    "% refuse get sl2vl * 0x0c",
    "% refuse get pkeys * 0x0c",
    "% refuse set portinfo * 0x1c",
    "% refuse set sl2vl * 0x1c",
    "% refuse set vlarb * 0x1c",
];

/// Result of a falsification.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Up,
    Errors,
    Refused,
    /// No sweep ended, or sweeps never stopped.
    Endless,
    /// OpenSM exited.
    Died,
}

/// One engine's result for one falsification.
struct Outcome {
    end: End,
    /// The tables and answers, or why they could not be read.
    held: Result<Held, String>,
    /// Lines of the log about it.
    said: String,
    /// Whether the order changed an answer.
    heard: bool,
    /// Whether everything was as before after the order had ended, if it began while running.
    healed: Option<bool>,
}

struct Cell {
    order: String,
    liar: u64,
    kind: &'static str,
    /// One of the liar's cables, as ibsim names its end.
    end: String,
}

/// A simulated fabric and the OpenSM on it.
struct Run {
    falsifier: Falsifier,
    sim: Ibsim,
    sm: OpenSm,
    log: Tail,
    started: usize,
    /// How many may end with errors.
    sweeps: usize,
    lines: Vec<String>,
}

impl Run {
    fn order(&mut self, orders: &[&str]) {
        let by_chance = orders.iter().any(|o| o.contains(" lose ") && !o.ends_with(" 100"));
        self.sweeps = if by_chance { SWEEPS_BY_CHANCE } else { SWEEPS };
        self.falsifier.order(orders);
    }
}

/// The fabric and the state of the test.
struct Patient {
    tools: &'static Tools,
    net: String,
    cables: Cables,
    engine: &'static str,
}

impl Patient {
    fn config(&self) -> Config {
        match self.engine {
            "dfdn" => plugin::config("dfdn,no_fallback"),
            engine => Config { engine: format!("{engine},no_fallback"), ..Config::default() },
        }
    }

    fn start(&self, orders: &[&str]) -> Run {
        let falsifier = Falsifier::new();
        falsifier.order(orders);
        let sim = Ibsim::start(self.tools, &self.net);
        let sm = OpenSm::start(&sim, &falsifier.config(self.config()));
        let log = Tail::new(sm.path("opensm.log"));
        let mut run = Run { falsifier, sim, sm, log, started: 0, sweeps: SWEEPS, lines: Vec::new() };
        run.order(orders);
        run
    }

    /// The end of a sweep after the first `before`, and of those that OpenSM or dfdn request after
    /// it.
    fn settle(&self, run: &mut Run, mut before: usize, patience: Duration) -> End {
        let (mut end, mut again) = (None, 0);
        let (mut asked, mut written) = (false, false);
        let begun = Instant::now();
        let mut last = begun;
        run.lines.clear();
        loop {
            for line in run.log.lines() {
                last = Instant::now();
                if line.contains("INITIATING HEAVY SWEEP") || line.contains("Entering DISCOVERING") {
                    run.started += 1;
                    (end, asked, written) = (None, false, false);
                } else if line.contains("-> SUBNET UP") {
                    end = Some(End::Up);
                } else if line.contains("Errors during initialization") {
                    end = Some(End::Errors);
                } else if line.contains("No routing engine able") {
                    end = Some(End::Refused);
                } else if let Some((_, text)) = line.split_once("dfdn: ") {
                    asked |= text.starts_with("DF25");
                    written |= ["DF06", "DF07", "ERR DF27"].iter().any(|id| text.starts_with(id));
                }
                run.lines.push(line);
            }
            if !run.sm.alive() {
                return End::Died;
            }
            let quiet = last.elapsed();
            match &end {
                Some(End::Up)
                    if run.started > before
                        && !asked
                        && quiet.as_millis() > 30
                        && (self.engine != "dfdn" || written || quiet.as_secs() > 2) =>
                {
                    return End::Up;
                }
                // OpenSM would sweep again by itself, ten seconds later.
                Some(other) if *other != End::Up && run.started > before && quiet.as_millis() > 30 => {
                    again += 1;
                    if again == run.sweeps {
                        return other.clone();
                    }
                    before = run.started;
                    run.sm.hang_up();
                    last = Instant::now();
                }
                _ => {}
            }
            if begun.elapsed() > patience {
                return End::Endless;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn outcome(&self, run: &Run, end: End, order: &str) -> Outcome {
        let held = match end {
            End::Up => Held::of(&run.sim, &self.cables),
            _ => Err("not up".to_owned()),
        };
        let ours = run.lines.iter().filter_map(|l| l.split_once("dfdn: ")).map(|(_, text)| text);
        let error = ours.clone().rfind(|l| l.starts_with("ERR"));
        let theirs =
            || run.lines.iter().rev().filter_map(|l| l.split_once(" -> ")).find(|(_, l)| l.contains("ERR"));
        let said = match &end {
            End::Up => ours.clone().rfind(|l| l.starts_with("DF04")).or(error),
            _ => error.or_else(|| theirs().map(|(_, text)| text)),
        };
        let heard = run.falsifier.seen().iter().any(|l| l == order);
        Outcome { end, held, said: said.unwrap_or_default().to_owned(), heard, healed: None }
    }

    /// One falsification that begins before the start of OpenSM.
    fn before(&self, order: &str, patience: Duration) -> Outcome {
        let mut run = self.start(&[order]);
        let end = self.settle(&mut run, 0, patience);
        self.outcome(&run, end, order)
    }

    /// Several falsifications in sequence under the same OpenSM, with true answers in between.
    fn under_way(&self, cells: &[&Cell], patience: &[Duration], whole: usize) -> Vec<Outcome> {
        let mut run = None;
        let mut outcomes = Vec::new();
        for (cell, &patience) in cells.iter().zip(patience) {
            let run_now = run.get_or_insert_with(|| {
                let mut run = self.start(&[]);
                assert_eq!(self.settle(&mut run, 0, PATIENCE), End::Up, "{}: {}", self.engine, run.sm.log());
                run
            });
            let mut sweep = |orders: &[&str], link: Option<&str>, patience| {
                let before = run_now.started;
                run_now.order(orders);
                run_now.sim.commands(&link.map(str::to_owned).into_iter().collect::<Vec<_>>());
                run_now.sm.hang_up();
                self.settle(run_now, before, patience)
            };
            // OpenSM sets only what changes, so the node loses a link and has it back.
            let flap = cell.order.contains(" set ");
            let link = |command| format!("{command} {}", cell.end);
            if flap {
                sweep(&[], Some(&link("Unlink")), PATIENCE);
            }
            let end = sweep(&[&cell.order], flap.then(|| link("ReLink")).as_deref(), patience);
            let mut outcome = self.outcome(run.as_ref().expect("it was started"), end, &cell.order);
            if ![End::Died, End::Endless].contains(&outcome.end) {
                let run_now = run.as_mut().expect("it was started");
                let before = run_now.started;
                run_now.order(&[]);
                run_now.sm.hang_up();
                let up = self.settle(run_now, before, patience) == End::Up;
                let back = up.then(|| Held::of(&run_now.sim, &self.cables).ok()).flatten();
                let healed = back
                    .is_some_and(|b| b.told.len() == whole && b.faults(&self.cables, |_| true).is_empty());
                outcome.healed = Some(healed);
            }
            if outcome.healed != Some(true) {
                run = None;
            }
            outcomes.push(outcome);
        }
        outcomes
    }
}

/// The faults of dfdn's result compared with minhop's.
fn judge(cell: &Cell, cables: &Cables, sm: u64, minhop: &Outcome, dfdn: &Outcome) -> Vec<String> {
    let mut wrong = Vec::new();
    if minhop.healed == Some(true) && dfdn.healed != Some(true) {
        wrong.push("does not recover".to_owned());
    }
    if minhop.end != End::Up {
        if dfdn.end == End::Died && minhop.end != End::Died {
            wrong.push("OpenSM is gone".to_owned());
        }
        return wrong;
    }
    if dfdn.end != End::Up {
        wrong.push(format!("{:?}", dfdn.end));
        return wrong;
    }
    let held = match &dfdn.held {
        Ok(held) => held,
        Err(why) => {
            wrong.push(why.clone());
            return wrong;
        }
    };
    // If two nodes have the same GUID, OpenSM assumes cables that do not exist. Packets that are lost for
    // that reason under minhop may be lost under dfdn too. None of them may wait in a cycle.
    let stock = minhop.held.as_ref().ok();
    let arrivals = stock.map(|s| s.arrivals(cables)).unwrap_or_default();
    let honest = |pair: &((u64, u8), (u64, u8))| pair.0.0 != cell.liar && pair.1.0 != cell.liar;
    wrong.extend(held.faults(cables, |pair| honest(pair) && arrivals.contains(pair)).into_iter().take(3));
    let Some(stock) = stock else { return wrong };
    let reach = cables.reach(sm, cell.liar);
    let honest: Vec<_> = stock.told.keys().filter(|pair| honest(pair)).collect();
    let missing = honest.iter().copied().filter(|pair| !held.told.contains_key(pair)).collect::<Vec<_>>();
    let (there, behind): (Vec<_>, Vec<_>) =
        missing.into_iter().partition(|(a, b)| reach.contains(&a.0) && reach.contains(&b.0));
    if let Some((a, b)) = there.first() {
        wrong.push(format!(
            "{} of {} PathRecords are missing, as {:#x} to {:#x}",
            there.len(),
            honest.len(),
            a.0,
            b.0
        ));
    }
    // A switch that does not accept its forwarding table forwards by an unproven one: nodes behind it are lost under
    // dfdn.
    if !behind.is_empty() && !cell.order.contains(" set lft ") {
        wrong.push(format!(
            "{} of {} PathRecords of who is behind the liar are missing",
            behind.len(),
            honest.len()
        ));
    }
    wrong
}

/// Every field of an adapter's answers.
#[test]
fn an_adapter_that_lies_harms_nobody_else() {
    harms_nobody_else("adapter");
}

/// Every field of a switch's answers.
#[test]
fn a_switch_that_lies_harms_nobody_else() {
    harms_nobody_else("switch");
}

fn harms_nobody_else(kind: &str) {
    let Some(tools) = host::tools("falsified answers") else { return };
    let fabric = Torus { dims: vec![4, 3], cas: 1 }.build().expect("a torus");
    let net = net(&fabric);
    let patient = |engine| Patient { tools, net: net.clone(), cables: Cables::of(&fabric), engine };
    let (minhop, dfdn) = (patient("minhop"), patient("dfdn"));
    let guids = |kind| {
        let nodes = fabric.nodes().iter().filter(move |n| n.kind == kind);
        nodes.map(|n| n.guid.0).collect::<Vec<_>>()
    };
    let (switches, adapters) = (guids(NodeKind::Switch), guids(NodeKind::ChannelAdapter));
    // OpenSM runs on the first adapter of the text.
    let own = minhop.start(&[]).sim.host().to_owned();
    let sm = (0..fabric.nodes().len())
        .map(NodeId::at)
        .find(|&n| own.ends_with(&format!("{:016x}", fabric.node(n).guid.0)));
    let sm = fabric.node(sm.expect("one of the nodes")).guid.0;
    let whole = fabric.endports().len() * (fabric.endports().len() - 1);
    let only = std::env::var("DFDN_FALSIFY").unwrap_or_default();
    let cells_of = |kind: &'static str, liar: u64, other: u64, orders: &[&str]| {
        let give = |order: &&str| {
            let order = order.replace('%', &format!("{liar:#x}")).replace('@', &format!("{other:#x}"));
            // The first port of a switch leads to its adapter.
            let end = if kind == "switch" {
                format!("\"S-{liar:016x}\"[2]")
            } else {
                format!("\"H-{liar:016x}\"[1]")
            };
            Cell { order, liar, kind, end }
        };
        orders.iter().filter(|o| o.contains(&only)).map(give).collect::<Vec<_>>()
    };
    let cells = match kind {
        "switch" => cells_of("switch", switches[5], switches[7], SWITCH),
        _ => cells_of("adapter", adapters[8], adapters[3], ADAPTER),
    };
    assert!(!cells.is_empty() && adapters[8] != sm && adapters[3] != sm);

    // Jobs: cases that one OpenSM sees in sequence, and single cases from the start.
    let mut jobs: VecDeque<(bool, Vec<&Cell>, u32)> =
        cells.chunks(IN_A_ROW).map(|c| (true, c.iter().collect(), 1)).collect();
    jobs.extend(cells.iter().map(|cell| (false, vec![cell], 1)));
    let jobs = Mutex::new(jobs);
    let table = Mutex::new(Vec::new());
    let work = || {
        loop {
            let job = jobs.lock().expect("nobody panics with it").pop_front();
            let Some((under_way, cells, attempt)) = job else { break };
            let patience =
                |stock: &Outcome| if stock.end == End::Up { PATIENCE } else { PATIENCE_WITH_STOCK };
            let first = vec![PATIENCE_WITH_STOCK; cells.len()];
            let (stock, ours) = if under_way {
                let stock = minhop.under_way(&cells, &first, whole);
                let patience: Vec<_> = stock.iter().map(patience).collect();
                let ours = dfdn.under_way(&cells, &patience, whole);
                (stock, ours)
            } else {
                let stock = minhop.before(&cells[0].order, PATIENCE_WITH_STOCK);
                let ours = dfdn.before(&cells[0].order, patience(&stock));
                (vec![stock], vec![ours])
            };
            for ((cell, stock), ours) in cells.iter().zip(stock).zip(ours) {
                let wrong = judge(cell, &dfdn.cables, sm, &stock, &ours);
                let mut line = String::new();
                let when = if under_way { "under way" } else { "before" };
                let order = cell.order.split_once(' ').map_or("", |(_, o)| o);
                let pairs = |o: &Outcome| o.held.as_ref().map_or(0, |h| h.told.len());
                let _ = write!(
                    line,
                    "{:7} | {when:9} | {order:40} | {:8} {:3} | {:8} {:3} | {} | {}{}",
                    cell.kind,
                    format!("{:?}", stock.end),
                    pairs(&stock),
                    format!("{:?}", ours.end),
                    pairs(&ours),
                    if wrong.is_empty() { "ok".to_owned() } else { format!("WRONG: {}", wrong.join("; ")) },
                    if ours.heard { "" } else { "(never heard) " },
                    ours.said
                );
                println!("{line}");
                if !wrong.is_empty() && attempt < ATTEMPTS {
                    jobs.lock().expect("nobody panics with it").push_back((
                        under_way,
                        vec![cell],
                        attempt + 1,
                    ));
                    continue;
                }
                table.lock().expect("nobody panics with it").push((!wrong.is_empty(), line));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(work);
        }
    });
    let mut table = table.into_inner().expect("nobody panicked with it");
    table.sort();
    let wrong: Vec<&str> = table.iter().filter(|(wrong, _)| *wrong).map(|(_, l)| l.as_str()).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), table.len(), wrong.join("\n"));
}
