//! The SA under load while the fabric is rerouted repeatedly.

use std::fmt::Write as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use dfdn::engine::{self, Routed, Settings};
use dfdn::fabric::{EndPort, EndPortId, Fabric, FabricBuilder, Lid, Lmc, PortNum, PortRef, Sl};
use dfdn::formats;
use dfdn::tables::Routes;
use dfdn::topology::Torus;
use dfdn::verify::verify;

use crate::host::ibsim::{Ibsim, net};
use crate::host::opensm::OpenSm;
use crate::host::readback::Readback;
use crate::host::sweeps::{End, Sweeps};
use crate::host::{self, plugin};

/// Between two sweeps.
const PAUSE: Duration = Duration::from_millis(200);

/// VLs on the path from an end port to a LID with an SL, by the tables alone.
fn lanes(fabric: &Fabric, routes: &Routes, from: EndPortId, to: Lid, sl: Sl) -> Vec<u8> {
    let (mut at, mut in_port) = fabric.endport(from).attachment.expect("it is cabled");
    let mut vls = Vec::new();
    while let Some(id) = fabric.channels().at_port(at, PortNum(routes.lft.to(to)[at.index()])) {
        let channel = fabric.channels().get(id);
        vls.push(routes.sl2vl.row(at, in_port, channel.out_port).get(sl).0);
        (at, in_port) = (channel.to, channel.in_port);
        assert!(vls.len() <= fabric.num_switches(), "a loop from {from:?} to {to}");
    }
    vls
}

/// The SLs that may be assigned to a pair, as bits: the computed one, and SL 0 (what a query
/// without an SL asks for) if it takes the same VLs.
fn allowed(fabric: &Fabric, routes: &Routes, from: EndPortId, to: Lid) -> u16 {
    let told = routes.path_sl.get(fabric, from, to);
    let same = lanes(fabric, routes, from, to, told) == lanes(fabric, routes, from, to, Sl(0));
    1 << told.0 | u16::from(same)
}

/// All ordered pairs of adapters with the allowed SLs, as `tests/tools/paths.c` reads them.
fn pairs(fabric: &Fabric, states: &[&Routes]) -> (String, usize) {
    let (mut text, mut telling) = (String::new(), 0);
    for (id, from) in fabric.adapters() {
        for to in fabric.adapters().map(|(_, e)| e).filter(|e| e.lid != from.lid).flat_map(EndPort::lids) {
            let mask = states.iter().fold(0, |mask, routes| mask | allowed(fabric, routes, id, to));
            telling += usize::from(mask & 1 == 0);
            writeln!(text, "{} {to} {mask:x}", from.lid).expect("a string takes everything");
        }
    }
    (text, telling)
}

/// A client and its output file: libibmad warns of each unanswered query, which would fill a pipe.
struct Client(Child, tempfile::NamedTempFile);

impl Client {
    fn start(sim: &Ibsim, host: &str, file: &std::path::Path, count: usize) -> Self {
        let mut command = sim.run_on(host, &[], sim.paths());
        let output = tempfile::NamedTempFile::new().expect("a temporary file");
        let handle = || Stdio::from(output.reopen().expect("a second handle"));
        command.arg(file).arg(count.to_string()).stdout(handle()).stderr(handle());
        let child = command.spawn().expect("paths starts");
        Self(child, output)
    }

    fn running(&mut self) -> bool {
        self.0.try_wait().expect("it can be asked").is_none()
    }

    /// Its counts: answered, unanswered.
    fn end(mut self, what: &str) -> (usize, usize) {
        let status = self.0.wait().expect("it ends");
        let text = std::fs::read_to_string(self.1.path()).expect("its output");
        assert!(status.success(), "{what}: {text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |name| {
            let at = words.iter().position(|w| *w == name).unwrap_or_else(|| panic!("{text}"));
            words[at + 1].parse().expect("a number")
        };
        (number("answered"), number("none"))
    }
}

/// Tens of thousands of PathRecord queries from four adapters while a cable is cut and restored:
/// each answer has an SL of the tables with the cable or of those without.
#[test]
fn no_query_is_told_a_wrong_sl_while_the_fabric_is_routed() {
    let Some(tools) = host::tools("SA load") else { return };
    let whole = Torus { dims: vec![4, 4], cas: 1 }.build().expect("a torus");
    let settings = Settings { engine: "dfdn-paper".to_owned(), ..Settings::default() };
    let mut sim = Ibsim::start(tools, &net(&whole));
    let mut sm = OpenSm::up(&sim, &plugin::config("dfdn-paper"));
    let mut sweeps = Sweeps::of(&sm);
    sweeps.settle(&mut sm);
    let (whole, _) = formats::load_tables(Readback::of(&sim).folder(), whole).expect("the tables load");
    let route = |fabric: &Fabric| {
        let Routed { routes, .. } = engine::route(fabric, &settings).expect("it can be routed");
        routes
    };
    let cut = {
        let channel = whole.channels().as_slice()[0];
        PortRef { node: whole.switch_node_id(channel.from), port: channel.out_port }
    };
    let mut builder = FabricBuilder::from_fabric(&whole);
    builder.disconnect(cut);
    let without = builder.finish(Lmc::default()).expect("a fabric");
    let (first, second) = (route(&whole), route(&without));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("the pairs are written");
        path
    };
    let (text, telling) = pairs(&whole, &[&first]);
    assert!(telling > 20, "{telling} pairs must not be told SL 0: what a plugin without tables would tell");
    let still = write("still", &text);
    let (text, telling) = pairs(&whole, &[&first, &second]);
    assert!(telling > 5, "{telling} pairs must not be told SL 0 in either state");
    let moving = write("moving", &text);

    let hosts: Vec<String> = whole
        .adapters()
        .map(|(_, e)| format!("H-{:016x}", whole.node(e.node).guid.0))
        .filter(|name| name != sim.host())
        .collect();
    let at = |n: usize| &hosts[n * hosts.len() / 4];

    let port = format!("\"S-{:016x}\"[{}]", whole.node(cut.node).guid.0, cut.port);
    let (mut reroutes, mut counts) = (0, Vec::new());
    // On a busy machine a sweep may take as long as all queries: then query again.
    while reroutes < 4 {
        let mut clients: Vec<Client> = (0..4).map(|n| Client::start(&sim, at(n), &moving, 6000)).collect();
        while clients.iter_mut().any(Client::running) {
            for command in ["Unlink", "ReLink"] {
                sim.commands(&[format!("{command} {port}")]);
                assert_eq!(sweeps.settle(&mut sm), End::Up, "{}", sm.log());
                reroutes += 1;
                // Sweep after sweep, OpenSM would hardly answer: thousands of sweeps for these queries, and minutes.
                std::thread::sleep(PAUSE);
            }
        }
        counts.extend(clients.into_iter().map(|c| c.end("while the fabric is routed")));
    }
    let answered: usize = counts.iter().map(|c| c.0).sum();
    let none: usize = counts.iter().map(|c| c.1).sum();
    eprintln!("{answered} answers and {none} times no path while the fabric was routed {reroutes} times");
    // Between the cut and the new tables OpenSM finds no path over the cut cable.
    assert!(answered >= 20_000 && none < answered / 10, "{counts:?}, {reroutes}");

    let (answered, none) = Client::start(&sim, at(1), &still, 2000).end("at rest");
    assert_eq!((answered, none), (2000, 0));
    let log = sm.log();
    assert!(!log.contains("ERR DF") && !log.contains("1F24") && !log.contains("1F2A"), "{log}");
    let (fabric, held) = formats::load_tables(Readback::of(&sim).folder(), whole).expect("the tables load");
    assert!(held.lft == first.lft);
    assert!(verify(&fabric, &Routes { path_sl: first.path_sl, ..held }).is_safe());
    sm.wait_log("dfdn: DF05", 1, Duration::from_secs(1));
    assert!(sm.alive() && sm.stop().success(), "{}", sm.log());
}
