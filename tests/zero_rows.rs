//! SL2VL rows of VL 0 alone, which OpenSM's memory of a row cannot distinguish from "nothing is
//! known": switches that hold another row come to hold the zeros, and until then nothing claims
//! that they do.

use std::fs;
use std::process::Command;
use std::time::Duration;

use dfdn::fabric::{Fabric, PortNum};
use dfdn::formats;
use dfdn::tables::SlVlRow;
use dfdn::topology::Ring;

use crate::host::ibsim::{Ibsim, net};
use crate::host::opensm::{Config, OpenSm};
use crate::host::readback::Readback;
use crate::host::sweeps::{End, Sweeps};
use crate::host::{self, plugin};

/// Settings under which no row between switches is all VL 0: odd SLs have VL 1.
const TWO_CLASSES: &str = "engine updn-trees\ntrees 1\nspread no\nclasses 2\n";
/// The same routes in one class: all rows are VL 0 alone.
const ONE_CLASS: &str = "engine updn-trees\ntrees 1\nspread no\n";

/// A ring of six switches under OpenSM with dfdn, and its settings.
struct Bench {
    fabric: Fabric,
    sim: Ibsim,
    sm: OpenSm,
    sweeps: Sweeps,
    settings: tempfile::NamedTempFile,
}

impl Bench {
    /// The subnet after start, with the rows of two classes.
    fn start(tools: &'static host::Tools) -> Self {
        let fabric = Ring { switches: 6, cas: 1 }.build().expect("a ring");
        let sim = Ibsim::start(tools, &net(&fabric));
        let settings = tempfile::NamedTempFile::new().expect("a temporary file");
        fs::write(settings.path(), TWO_CLASSES).expect("the settings are written");
        let env = vec![("DFDN_CONF".to_owned(), settings.path().to_owned())];
        let mut sm = OpenSm::start(&sim, &Config { env, ..plugin::config("dfdn,no_fallback") });
        let mut sweeps = Sweeps::of(&sm);
        assert_eq!(sweeps.rest(&mut sm, 0), End::Up, "{}", sm.log());
        let this = Self { fabric, sim, sm, sweeps, settings };
        assert!(this.rows().iter().all(|(what, row)| *row != SlVlRow(0) || panic!("{what}: {row:?}")));
        this
    }

    /// A sweep with other settings.
    fn sweep(&mut self, settings: &str) -> End {
        fs::write(self.settings.path(), settings).expect("the settings are written");
        self.sweeps.settle(&mut self.sm)
    }

    /// Limits the address space of OpenSM.
    fn limit(&self, bytes: &str) {
        let arguments = ["--pid", &self.sm.pid().to_string(), &format!("--as={bytes}:unlimited")];
        let status = Command::new("prlimit").args(arguments).status();
        assert!(status.expect("prlimit is part of util-linux").success());
    }

    /// The rows in the switches that packets between switches and from adapters use.
    fn rows(&self) -> Vec<(String, SlVlRow)> {
        let back = Readback::of(&self.sim);
        let (fabric, held) =
            formats::load_tables(back.folder(), self.fabric.clone()).expect("the tables load");
        let mut rows = Vec::new();
        for (_, channel) in fabric.channels().iter() {
            let (switch, out) = (channel.from, channel.out_port);
            let cabled = |p: u8| fabric.switch(switch).ports[usize::from(p)].peer.is_some();
            for inp in (1..fabric.switch(switch).ports.len() as u8).filter(|&p| p != out.0 && cabled(p)) {
                let what = format!("{} in {inp} out {}", fabric.describe_switch(switch), out.0);
                rows.push((what, held.sl2vl.row(switch, PortNum(inp), out)));
            }
        }
        rows
    }

    /// All of them are zeros, and the log says that all is in place.
    fn assert_zeros(&self) {
        assert!(self.sweeps.said().iter().any(|l| l.starts_with("DF05")), "{:?}", self.sweeps.said());
        for (what, row) in self.rows() {
            assert_eq!(row, SlVlRow(0), "{what}");
        }
    }

    /// The cables between switches 2 and 3 and the rest.
    fn cut(&mut self, command: &str) {
        let commands = [(2, 3), (3, 2)].map(|(switch, port)| {
            let guid = self.fabric.nodes().iter().find(|n| n.description == format!("sw-{switch}"));
            format!("{command} \"S-{:016x}\"[{port}]", guid.expect("a ring has it").guid.0)
        });
        self.sim.commands(&commands);
    }
}

/// Two switches are cut off and come back while the engine refuses the fabric. They are new to
/// OpenSM, but the cable between them was never down, so it requests nothing by the time that it
/// routes.
#[test]
fn a_switch_that_comes_back_in_a_sweep_that_fails_keeps_no_old_row() {
    let Some(tools) = host::tools("rows of switches that come back") else { return };
    let mut bench = Bench::start(tools);
    bench.cut("Unlink");
    assert_eq!(bench.sweep(TWO_CLASSES), End::Up);
    // Too little memory. Set before the cables are back: OpenSM sweeps when they are.
    let used = bench.sm.address_space().expect("a running process");
    bench.limit(&(1024 * (used + 4096)).to_string());
    bench.cut("ReLink");
    let end = bench.sweep(TWO_CLASSES);
    assert!(matches!(&end, End::Held(said) if said.iter().any(|l| l.contains("ERR DF35"))), "{end:?}");
    bench.limit("unlimited");
    assert_eq!(bench.sweep(ONE_CLASS), End::Up);
    bench.assert_zeros();
}

/// All SL2VL MADs of a switch fail while all of its rows are to become zeros.
#[test]
fn rows_of_zeros_whose_mads_failed_are_sent_again() {
    let Some(tools) = host::tools("rows of zeros whose MADs failed") else { return };
    let mut bench = Bench::start(tools);
    let switch = bench.fabric.switch(bench.fabric.switch_ids().nth(3).expect("six switches")).guid;
    bench.sim.command(&format!("Error \"S-{:016x}\" 100 0x17", switch.0));
    let before = bench.sm.log().matches("dfdn: DF05").count();
    fs::write(bench.settings.path(), ONE_CLASS).expect("the settings are written");
    bench.sm.hang_up();
    bench.sm.wait_log("dfdn: ERR DF26", 1, Duration::from_secs(30));
    let log = bench.sm.log();
    let until = log.find("dfdn: ERR DF26").expect("it was waited for");
    assert_eq!(log[..until].matches("dfdn: DF05").count(), before, "{log}");
    // The switch is avoided now, until it takes its rows.
    bench.sm.wait_log("is avoided: its SL2VL rows", 1, Duration::from_secs(30));
    bench.sim.command(&format!("Error \"S-{:016x}\" 0", switch.0));
    bench.sm.resweep();
    bench.sm.wait_log("no longer so", 1, Duration::from_secs(30));
    let before = bench.sm.log().matches("dfdn: DF05").count();
    bench.sm.resweep();
    bench.sm.wait_log("dfdn: DF05", before + 1, Duration::from_secs(20));
    assert!(bench.rows().iter().all(|(what, row)| *row == SlVlRow(0) || panic!("{what}: {row:?}")));
}
