//! What happens on the wires: packets, queues and credits, event by event.
//!
//! ```text
//!  host                     switch                                switch                  host
//!  ┌──────────┐  link   ┌─────────────┐ crossbar (output buffer) ┌─────────────┐  link  ┌──────┐
//!  │ VL 0 ▒▒▒ ├────────>│ VL 0  ▒▒▒▒  ├──────────┬───────────────>│ VL 0  ▒     ├───────>│ sink │
//!  │ VL 1 ▒   │<- - - - │ VL 1  ▒     │<- - - - -│- - - - - - - - │ VL 1  ▒▒▒   │        └──────┘
//!  └──────────┘ credits └─────────────┘          └─ VL arbitration└─────────────┘
//! ```
//!
//! - **Virtual cut-through.** A packet moves on as soon as its head has arrived, and only with
//!   credits (64 bytes each) for all of it in the buffer at the other end. They return when its
//!   tail has left that buffer, after the propagation delay of the cable.
//! - **Paths.** The out port comes from the forwarding table, the SL from the tables, the VL from
//!   the SL2VL row of (in port, out port); on the first link from the adapters' row.
//! - **Arbitration** for a link: first the VL, by the arbitration tables (high, low, limit), then
//!   in ports round-robin or by [`Arbitration`].
//! - **Time** is in integer picoseconds, links have the speed that the fabric states, and the same
//!   seed gives the same result on every machine and for any number of threads.
//! - **Deadlock** is found exactly: the greatest set of buffers whose heads wait for full buffers
//!   of the set. The report has the cycle that closed first, as [`verify`](crate::verify) reports a
//!   credit loop.
//!
//! ```
//! use dfdn::engine::{self, Settings};
//! use dfdn::simulate::{self, Load, Simulation};
//! use dfdn::topology::Dragonfly;
//!
//! let fabric = Dragonfly::balanced(1).build()?;
//! let routes = engine::route(&fabric, &Settings { engine: "dfdn".into(), ..Settings::default() })?.routes;
//! let settings = simulate::Settings::default();
//! let simulation = Simulation::new(&fabric, &routes, &settings)?;
//! let row = simulation.run(Load::Share(0.3), 1)?;
//! assert!(row.deadlock.is_none() && (row.accepted - 0.3).abs() < 0.1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **Tables may change** under way ([`Update`]): links fail, and switches are programmed packet by packet.
//!
//! **Not modelled.** Packets have no headers beside their bytes. Nothing is sent again, and nothing is lost but by a
//! change of tables: no head-of-queue lifetime drops a packet, no congestion control slows a sender. Management packets
//! (VL 15) and multicast are not sent. Flow control packets take no time on the link. Out ports
//! decide without delay. If a link is slower than the next, a packet blocks the next one until its
//! tail has passed, although a switch might store it first. Links to adapters with fewer VLs than
//! the fabric are treated as if they had as many.

mod arbiter;
mod choice;
mod credits;
mod cycle;
mod deadlock;
mod drainage;
mod hosts;
mod kernel;
mod look_ahead;
mod model;
mod network;
mod programming;
mod queue;
mod random;
mod state;
mod stats;
#[cfg(test)]
mod tests;
mod traffic;
mod update;

use std::time::Instant;

use rayon::prelude::*;
use serde_json::{Value, json};
use thiserror::Error;

use crate::fabric::{ChannelId, Fabric, Sl};
use crate::tables::Routes;
use crate::verify::Witness;

pub use deadlock::Stuck;
pub use hosts::{Arrivals, LidChoice};
pub use model::{Arbitration, CREDIT, Model, Queues, Room};
pub use queue::EventQueue;
pub use traffic::Traffic;
pub use update::{Lost, Update, Updated, Way};

use hosts::{Lids, Sender};
use kernel::Kernel;
use network::{Network, Pairs};
use state::Span;
use traffic::Demand;
use update::{Motion, Script};

/// The simulated time if none is stated, in picoseconds.
const USUAL_TIME: u64 = 100_000_000;

/// The largest packet in bytes: the largest MTU.
const MAX_PACKET: u32 = 4096;

/// The simulated system, without the load and the seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The hardware.
    pub model: Model,
    /// The traffic pattern.
    pub traffic: Traffic,
    /// Bytes per message; `None`: one packet.
    pub message: Option<u64>,
    /// Times between messages.
    pub arrivals: Arrivals,
    /// Which LID of a receiver to send to.
    pub lids: LidChoice,
    /// One SL for all packets, instead of those of the tables.
    pub sl: Option<Sl>,
    /// Simulated time in picoseconds; `None`: 100 us, or until all messages have arrived.
    pub time: Option<u64>,
    /// The initial part that is not counted; `None`: a quarter, or nothing with [`Load::Messages`].
    pub warm_up: Option<u64>,
    /// A change of tables when the initial part is over. If no time is stated, the run goes on for 100 us after it.
    pub update: Option<Update>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            model: Model::default(),
            traffic: Traffic::Uniform,
            message: None,
            arrivals: Arrivals::default(),
            lids: LidChoice::default(),
            sl: None,
            time: None,
            warm_up: None,
            update: None,
        }
    }
}

/// How much hosts send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// A share of their link's rate, above 0 and at most 1, without end.
    Share(f64),
    /// One message for each pair of the pattern (one per host if receivers are random), one after
    /// the other from time 0.
    Messages,
}

/// Why a simulation is impossible.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SimulateError {
    /// There are not two hosts.
    #[error("{hosts} adapter ports are attached to a switch; a simulation needs at least two")]
    TooFewHosts {
        /// Number of hosts: 0 or 1.
        hosts: usize,
    },
    /// An invalid load.
    #[error("a load of {0} is not above 0 and at most 1: it is a share of the rate of a host's link")]
    Load(f64),
    /// An invalid packet size.
    #[error("a packet of {0} bytes: the size must be 1 to {MAX_PACKET}")]
    Packet(u32),
    /// A delay longer than any in a network.
    #[error("a delay of {0} ps is more than a millisecond")]
    Delay(u64),
    /// An empty message.
    #[error("a message of 0 bytes")]
    EmptyMessage,
    /// A buffer that is too small for a packet.
    #[error(
        "{what} has {has} credits for each of {vls} VLs, and a packet takes {needs}: give it more credits, or \
         make packets smaller"
    )]
    SmallBuffer {
        /// Which buffer.
        what: &'static str,
        /// Credits per VL.
        has: u32,
        /// Credits per packet.
        needs: u32,
        /// VLs in use.
        vls: usize,
    },
    /// An unknown pattern.
    #[error("no traffic pattern '{text}': there are {}, and files of pairs", Traffic::NAMES)]
    Traffic {
        /// The name given.
        text: String,
    },
    /// A pattern for more hosts than there are.
    #[error("{what}:{wanted} is not possible: there are {hosts} hosts, so the number must be 1 to {}", hosts - 1)]
    NoSuchHosts {
        /// The pattern.
        what: &'static str,
        /// The number given.
        wanted: usize,
        /// Number of hosts.
        hosts: usize,
    },
    /// A pattern without pairs.
    #[error("the pattern has no pair of hosts")]
    NoPairs,
    /// A host that sends to itself.
    #[error("{host} cannot send to itself")]
    ToItself {
        /// The host, as text.
        host: String,
    },
    /// The warm-up is too long.
    #[error("the warm-up must be shorter than the simulated time")]
    WarmUp,
    /// A path that does not arrive.
    #[error("a packet from {source_name} to LID {dlid} does not arrive: at {at} {why}")]
    Unreached {
        /// The sender.
        source_name: String,
        /// The receiver's LID.
        dlid: u16,
        /// The switch where the path ends.
        at: String,
        /// Why it ends.
        why: String,
    },
    /// A pair without an SL.
    #[error(
        "the tables state no SL for packets from {source_name} to LID {dlid}: complete the psl, or choose one \
         with --sl"
    )]
    NoSl {
        /// The sender.
        source_name: String,
        /// The receiver's LID.
        dlid: u16,
    },
    /// A receiver without a LID.
    #[error("{lid} is not a LID")]
    NoLid {
        /// The number.
        lid: u16,
    },
    /// A packet that was lost although its path was checked.
    #[error("a packet with SL {sl} to LID {dlid} was lost on its path")]
    Lost {
        /// The receiver's LID.
        dlid: u16,
        /// Its SL.
        sl: u8,
    },
    /// A change that does not fit the fabric.
    #[error(
        "{what}; the plan may be for another fabric: links that fail have to be there, and so have links that return"
    )]
    Update {
        /// What does not fit.
        what: String,
    },
    /// The run was told to stop.
    #[error("interrupted")]
    Interrupted,
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The load; `None` if each pair had one message.
    pub load: Option<f64>,
    /// The seed.
    pub seed: u64,
    /// Bytes that arrived, as a share of what the sending hosts could have sent until the run ended. A search for
    /// deadlocks, every 16 times that a packet takes on the fastest link, ends it if it finds one.
    pub accepted: f64,
    /// Latency of messages in nanoseconds, from creation to the arrival of the last byte.
    pub latency: Latency,
    /// Packets that arrived.
    pub packets: u64,
    /// Number of times that packets left a switch.
    pub packet_hops: u64,
    /// Bytes that arrived from the worst source, divided by the mean; over the hosts that send.
    pub fairness: f64,
    /// The deadlock that ended the run.
    pub deadlock: Option<Stuck>,
    /// What became of the change of tables, if there is one.
    pub update: Option<Updated>,
    /// Arrival of the last message in picoseconds, if all that were due have arrived.
    pub finished: Option<u64>,
    /// By channel and VL: the share of the counted time that a link was busy with it.
    pub use_of_links: Vec<Vec<f64>>,
    /// Events, a measure of work.
    pub events: u64,
    /// Wall-clock seconds of the run. All else depends on the input alone.
    pub seconds: f64,
}

/// Latencies in nanoseconds, `None` if no message arrived. The mean is exact; the others are to
/// within 1/128.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// What 95 % do not exceed.
    pub p95: Option<f64>,
    /// What 99 % do not exceed.
    pub p99: Option<f64>,
}

impl Row {
    /// As JSON. `links`: include the use of each link.
    pub fn to_json(&self, fabric: &Fabric, links: bool) -> Value {
        let deadlock = self.deadlock.as_ref().map(|stuck| {
            let mut value = Witness::CreditLoop(stuck.cycle.clone()).to_json(fabric);
            value["cycle"] = value["waits"].clone();
            value["time_ns"] = json!(stuck.time as f64 / 1000.0);
            value["packets"] = stuck.packets.into();
            value["buffers"] = stuck.buffers.into();
            value
        });
        let l = &self.latency;
        let mut value = json!({
            "load": self.load,
            "seed": self.seed,
            "accepted": self.accepted,
            "latency_ns": { "mean": l.mean, "p50": l.p50, "p95": l.p95, "p99": l.p99 },
            "packets": self.packets,
            "packet_hops": self.packet_hops,
            "fairness": self.fairness,
            "deadlock": deadlock,
            "finished_ns": self.finished.map(|time| time as f64 / 1000.0),
            "vl_use": self.vl_use(),
            "events": self.events,
            "seconds": self.seconds,
        });
        if let Some(update) = self.update {
            value["update"] = update.to_json();
        }
        if links {
            let link = |(c, vls): (usize, &Vec<f64>)| {
                let channel = fabric.channels().get(ChannelId::at(c));
                json!({
                    "from": fabric.switch(channel.from).guid.to_string(), "port": channel.out_port.0,
                    "to": fabric.switch(channel.to).guid.to_string(), "use": vls,
                })
            };
            value["links"] = self.use_of_links.iter().enumerate().map(link).collect();
        }
        value
    }

    /// By VL: the share of time that channels were busy with it, averaged over the channels.
    pub fn vl_use(&self) -> Vec<f64> {
        let vls = self.use_of_links.first().map_or(0, Vec::len);
        let channels = self.use_of_links.len().max(1) as f64;
        (0..vls).map(|vl| self.use_of_links.iter().map(|of| of[vl]).sum::<f64>() / channels).collect()
    }

    /// The channel that was busy for the largest share of the time, and that share.
    pub fn busiest(&self) -> Option<(ChannelId, f64)> {
        let of = self.use_of_links.iter().enumerate().map(|(c, vls)| (c, vls.iter().sum::<f64>()));
        let busiest = of.fold(None, |best: Option<(usize, f64)>, this| match best {
            Some(best) if best.1 >= this.1 => Some(best),
            _ => Some(this),
        });
        busiest.map(|(c, share)| (ChannelId::at(c), share))
    }
}

/// A fabric with its tables, ready to run at any load with any seed, from any number of threads.
pub struct Simulation<'a> {
    network: Network<'a>,
    settings: &'a Settings,
    lids: Lids,
    /// Whether all pairs have been checked.
    all_checked: bool,
    script: Option<Script>,
}

impl<'a> Simulation<'a> {
    /// - `routes`: tables made for this very fabric.
    ///
    /// # Errors
    /// [`SimulateError`]: invalid settings, and the first pair (of any two hosts, or of a pattern
    /// that is not random) that has no SL or whose path does not arrive.
    ///
    /// # Panics
    /// If the tables were made for another fabric.
    ///
    /// Cost: a walk along the path from each switch to each LID if any two hosts may send to each
    /// other.
    pub fn new(
        fabric: &'a Fabric,
        routes: &'a Routes,
        settings: &'a Settings,
    ) -> Result<Self, SimulateError> {
        let model = &settings.model;
        if !(1..=MAX_PACKET).contains(&model.packet) {
            return Err(SimulateError::Packet(model.packet));
        }
        if let Some(delay) =
            [model.flight, model.switch_delay, model.setup].into_iter().find(|&d| d > 1_000_000_000)
        {
            return Err(SimulateError::Delay(delay));
        }
        if settings.message == Some(0) {
            return Err(SimulateError::EmptyMessage);
        }
        let mut network = Network::new(fabric, routes, model, settings.sl)?;
        // Random patterns know their pairs only with a seed; for them, walking all pairs finds
        // every VL.
        let fixed = matches!(settings.traffic, Traffic::Shift(_) | Traffic::Pairs(_));
        let pairs = if fixed { Demand::new(&settings.traffic, &network, 0)?.pairs() } else { Pairs::All };
        let script = settings.update.as_ref().map(|update| Script::new(&network, update)).transpose()?;
        let vls = network.check(&pairs)? | script.as_ref().map_or(0, Script::vls);
        network.with_vls((u16::BITS - vls.leading_zeros()).max(1) as usize)?;
        let script = script.map(|script| script.with_drains(&network)).transpose()?;
        let lids = Lids::new(&network, settings.lids);
        Ok(Self { network, settings, lids, all_checked: !fixed, script })
    }

    /// VLs in use: one more than the highest.
    pub fn vls(&self) -> usize {
        self.network.vls
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        self.settings
    }

    /// One run.
    ///
    /// # Errors
    /// An invalid load or pattern.
    pub fn run(&self, load: Load, seed: u64) -> Result<Row, SimulateError> {
        self.run_until(load, seed, &|| false)
    }

    /// One run that ends with [`SimulateError::Interrupted`] soon after `stop` says so.
    ///
    /// # Errors
    /// As [`Simulation::run`].
    ///
    /// Cost: see `docs/simulations.md`; memory is that of the buffers, 32 bytes for each packet in
    /// them and 8 for each credit that a packet may return.
    pub fn run_until(&self, load: Load, seed: u64, stop: &dyn Fn() -> bool) -> Result<Row, SimulateError> {
        let began = Instant::now();
        let (settings, net) = (self.settings, &self.network);
        let span = self.span(load)?;
        let demand = Demand::new(&settings.traffic, net, seed)?;
        debug_assert!(self.all_checked || matches!(demand, Demand::Lists(..)), "their paths are known");
        let message = settings.message.unwrap_or(settings.model.packet.into());
        let arrivals = settings.arrivals;
        let sender = |host| Sender::new(net, &demand, host, seed, load, arrivals, message);
        let senders: Vec<Sender> = (0..net.hosts.len()).map(sender).collect();
        let sends: Vec<bool> = senders.iter().map(Sender::sends).collect();
        let smallest = match message % u64::from(settings.model.packet) {
            0 => settings.model.packet,
            rest => rest as u32,
        };
        let motion = self.script.as_ref().map(|script| Box::new(Motion::new(net, script, seed)));
        let mut kernel = Kernel::new(net, &demand, &self.lids, senders, span, smallest, motion);
        let deadlock = deadlock::run(&mut kernel, stop)?;
        let (counts, span) = (&kernel.counts, kernel.span);
        let update = kernel.motion.as_ref().map(|motion| motion.finished(deadlock.is_some()));
        let lost = update.map_or(0, |update| update.lost.total());
        let finished =
            (deadlock.is_none() && load == Load::Messages && counts.made == counts.delivered + lost)
                .then_some(counts.finished);
        // Until the span ends, the last message has arrived, or a deadlock was found: beside it packets still arrived.
        let until = match (&deadlock, finished) {
            (Some(_), _) => kernel.now.max(span.from + kernel.between_checks),
            (None, Some(finished)) => finished,
            (None, None) => span.until,
        };
        let time = (until - span.from.min(until)).max(1) as f64;
        let of_sources = || counts.by_source.iter().zip(&sends).filter(|(_, sends)| **sends).map(|(b, _)| *b);
        let bytes: u64 = of_sources().sum();
        let could: f64 = net
            .hosts
            .iter()
            .zip(&sends)
            .filter(|(_, s)| **s)
            .map(|(h, _)| time * 1000.0 / h.rate as f64)
            .sum();
        let (least, sources) = (of_sources().min().unwrap_or(0), of_sources().count());
        let nanoseconds = |value: Option<f64>| value.map(|ps| ps / 1000.0);
        let quantile = |share| nanoseconds(counts.latency.quantile(share));
        let vls = net.vls;
        let busy = |wire: usize, vl: usize| {
            let wire = &net.wires[wire];
            let rate = wire.rate as f64 / 1000.0;
            kernel.slots[wire.lane(vl as u32) as usize].sent as f64 * rate / time
        };
        Ok(Row {
            load: match load {
                Load::Share(share) => Some(share),
                Load::Messages => None,
            },
            seed,
            accepted: bytes as f64 / could,
            latency: Latency {
                mean: nanoseconds(counts.latency.mean()),
                p50: quantile(0.5),
                p95: quantile(0.95),
                p99: quantile(0.99),
            },
            packets: counts.packets,
            packet_hops: counts.hops,
            fairness: if bytes == 0 { 0.0 } else { least as f64 * sources as f64 / bytes as f64 },
            deadlock,
            update,
            finished,
            use_of_links: (0..net.fabric.channels().len())
                .map(|c| (0..vls).map(|vl| busy(c, vl)).collect())
                .collect(),
            events: counts.events,
            seconds: began.elapsed().as_secs_f64(),
        })
    }

    fn span(&self, load: Load) -> Result<Span, SimulateError> {
        let Settings { time, warm_up, .. } = *self.settings;
        let (until, from, afterwards) = match load {
            Load::Share(share) if share > 0.0 && share <= 1.0 => {
                let usual = time.unwrap_or(USUAL_TIME);
                let from = warm_up.unwrap_or(usual / 4);
                match (&self.script, time) {
                    (Some(_), None) => (u64::MAX, from, USUAL_TIME),
                    _ => (usual, from, u64::MAX),
                }
            }
            Load::Share(share) => return Err(SimulateError::Load(share)),
            Load::Messages => (time.unwrap_or(u64::MAX), warm_up.unwrap_or(0), u64::MAX),
        };
        if from >= until { Err(SimulateError::WarmUp) } else { Ok(Span { from, until, afterwards }) }
    }

    /// All runs of some loads and seeds, on all cores: rows by load, then by seed. Calls `done`
    /// with each finished row, in any order.
    ///
    /// # Errors
    /// As [`Simulation::run_until`], of the first row that has one.
    pub fn sweep(
        &self,
        runs: &[(Load, u64)],
        stop: &(dyn Fn() -> bool + Sync),
        done: &(dyn Fn(&Row) + Sync),
    ) -> Result<Vec<Row>, SimulateError> {
        let rows: Vec<_> = runs
            .par_iter()
            // One at a time per idle core: the last rows of a sweep take longest.
            .with_max_len(1)
            .map(|&(load, seed)| {
                let row = self.run_until(load, seed, &|| stop());
                row.inspect(done)
            })
            .collect();
        rows.into_iter().filter(|row| *row != Err(SimulateError::Interrupted)).collect()
    }
}
