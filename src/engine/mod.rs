//! The engines by name: a routing, lanes for it, and the judge over both.
//!
//! [`route`] is what the plugin and the command call. It hands out tables only if they passed
//! [`verify`](crate::verify).

mod balance;
mod classes;
mod config;
mod config_file;
mod dfdn;
mod fresh;
mod host_options;
mod multicast;
mod narrow;
mod papers;
mod search;
mod steady;
mod untrusted;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use thiserror::Error;

pub use balance::Balance;
pub use config::{ConfigError, KEYS, Key, effort, share};
pub use config_file::template;
pub use host_options::{UNHEEDED, Unheeded, unheeded_options};

use crate::fabric::{Fabric, Sl, Vl};
use crate::lanes::{LanesError, Offer};
use crate::routing::{Hops, KnownOrder, McastTrees, RoutingError};
use crate::tables::{Classes, Lft, PathSl, Routes, Sl2Vl, VlArb};
use crate::verify::{SlSafety, Verdict, sl_safety, verify};

/// A named combination of routing and lanes.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// Name, written as OpenSM would.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Whether its tables are free of credit loops on every fabric. Those of a bare routing are
    /// handed out although `verify` may object; see [`Routed::verdict`].
    pub deadlock_free: bool,
    run: fn(&Fabric, &Hops, &Settings, Offer) -> Result<Plan, EngineError>,
}

/// Every engine, the default first.
pub const ENGINES: &[Engine] = &[
    Engine {
        name: "dfdn",
        about: "P-SSSP that keeps to an order of the channels: one SL and few VLs where possible",
        deadlock_free: true,
        run: dfdn::dfdn,
    },
    Engine {
        name: "dfd2",
        about: "P-SSSP with DF-D2; refuses switch diameters above two",
        deadlock_free: true,
        run: papers::dfd2,
    },
    Engine {
        name: "dfdn-paper",
        about: "P-SSSP with DF-DN at any diameter",
        deadlock_free: true,
        run: papers::dfdn_sssp,
    },
    Engine {
        name: "dfdn-paper-minhop",
        about: "MinHop with DF-DN at any diameter",
        deadlock_free: true,
        run: papers::dfdn_minhop,
    },
    Engine {
        name: "updn-trees",
        about: "several up*/down* trees, each on its own lane; paths may be longer than minimal",
        deadlock_free: true,
        run: papers::updn_trees,
    },
    Engine {
        name: "apot",
        about: "all pairs over ordered trees on one VL and one SL, with the fewest hops in total",
        deadlock_free: true,
        run: papers::apot,
    },
    Engine {
        name: "bfot",
        about: "Bellman-Ford over ordered trees on one VL and one SL; paths may be longer than minimal",
        deadlock_free: true,
        run: papers::bfot,
    },
    Engine {
        name: "bfot-plus",
        about: "bfot with the links sorted in several ways, of which the best counts",
        deadlock_free: true,
        run: papers::bfot_plus,
    },
    Engine {
        name: "minhop",
        about: "locally balanced minimal hops on one lane; may have credit loops",
        deadlock_free: false,
        run: papers::minhop,
    },
    Engine {
        name: "sssp",
        about: "P-SSSP on one lane; may have credit loops",
        deadlock_free: false,
        run: papers::sssp,
    },
    Engine {
        name: "p2sssp",
        about: "P²-SSSP on one lane; may have credit loops; slow",
        deadlock_free: false,
        run: papers::p2sssp,
    },
];

/// The engine of a name.
///
/// # Errors
/// [`EngineError::Unknown`], with all names.
pub fn by_name(name: &str) -> Result<&'static Engine, EngineError> {
    ENGINES.iter().find(|e| e.name == name).ok_or_else(|| EngineError::Unknown {
        name: name.to_owned(),
        known: ENGINES.iter().map(|e| e.name).collect::<Vec<_>>().join(", "),
    })
}

/// What to route with.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name of the engine.
    pub engine: String,
    /// Data VLs to plan with, or as many as every switch-to-switch link states if that is fewer.
    /// `None`: as many as are stated, or [`Settings::VLS_UNSTATED`] where none are.
    pub vls: Option<u8>,
    /// SLs that may be given out, `1..=16`.
    pub sls: u8,
    /// Trees of `updn-trees`, `1..=15`.
    pub trees: u8,
    /// Classes of service, `1..=15`.
    pub classes: u8,
    /// Whether destinations are kept apart on the VLs that are left over.
    pub spread: bool,
    /// What `dfdn` prefers where it cannot have both.
    pub prefer: Prefer,
    /// Largest share of the adapter pairs that `dfdn` may send on detours to get by with one SL.
    /// `None`: [`Settings::MAX_NONMINIMAL`] by default, no limit where one SL is asked for.
    pub max_nonminimal: Option<f64>,
    /// Largest share of the bandwidth that one SL may cost `dfdn` by default, where that is compared.
    pub max_loss: f64,
    /// Work that `dfdn` may spend on the search for an order, in passes of P-SSSP.
    pub search_effort: f64,
    /// How `dfdn` balances.
    pub balance: Balance,
}

/// One SL for every pair, or a shortest path for every pair. In words `default`, `one-sl` and
/// `minimal`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefer {
    /// One SL where few pairs take a detour for it, else shortest paths.
    #[default]
    Default,
    /// One SL.
    OneSl,
    /// Shortest paths for all pairs of adapters.
    Minimal,
}

impl FromStr for Prefer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "default" => Ok(Self::Default),
            "one-sl" => Ok(Self::OneSl),
            "minimal" => Ok(Self::Minimal),
            _ => Err(format!("'{text}' is none of default, one-sl, minimal")),
        }
    }
}

impl fmt::Display for Prefer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::OneSl => "one-sl",
            Self::Minimal => "minimal",
        })
    }
}

impl Settings {
    /// Data VLs assumed where the fabric states none: what most switches offer.
    pub const VLS_UNSTATED: u8 = 8;

    /// Share of the adapter pairs on detours that one SL is worth by default.
    pub const MAX_NONMINIMAL: f64 = 0.02;

    /// The lanes that a fabric offers under these settings.
    ///
    /// # Errors
    /// [`EngineError::Setting`] for numbers that InfiniBand does not have.
    pub fn offer(&self, fabric: &Fabric) -> Result<Offer, EngineError> {
        let stated = fabric.min_data_vls();
        let vls = match self.vls {
            Some(asked) => asked.min(stated.unwrap_or(asked)),
            None => stated.unwrap_or(Self::VLS_UNSTATED),
        };
        if !(1..=Vl::MAX_DATA).contains(&vls) {
            return Err(EngineError::Setting { name: "vls", value: vls, least: 1, most: Vl::MAX_DATA });
        }
        if !(1..=Sl::COUNT as u8).contains(&self.sls) {
            let most = Sl::COUNT as u8;
            return Err(EngineError::Setting { name: "sls", value: self.sls, least: 1, most });
        }
        if !(1..=Vl::MAX_DATA).contains(&self.classes) {
            return Err(EngineError::Setting {
                name: "classes",
                value: self.classes,
                least: 1,
                most: Vl::MAX_DATA,
            });
        }
        Ok(Offer { vls, sls: self.sls })
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            engine: ENGINES[0].name.to_owned(),
            vls: None,
            sls: Sl::COUNT as u8,
            trees: 2,
            classes: 1,
            spread: false,
            prefer: Prefer::Default,
            max_nonminimal: None,
            max_loss: 0.05,
            search_effort: 1.0,
            balance: Balance::default(),
        }
    }
}

/// Why no tables were handed out.
#[derive(Debug, Error)]
pub enum EngineError {
    /// No engine has this name.
    #[error("there is no engine '{name}'; there are {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// All names.
        known: String,
    },
    /// A number out of range.
    #[error("{name} must be {least} to {most}, not {value}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What it was.
        value: u8,
        /// The least value allowed.
        least: u8,
        /// The largest value allowed.
        most: u8,
    },
    /// The fabric cannot be routed.
    #[error(transparent)]
    Routing(#[from] RoutingError),
    /// The lanes do not suffice.
    #[error("{engine}: {source}")]
    Lanes {
        /// The engine.
        engine: &'static str,
        /// What is missing.
        source: LanesError,
    },
    /// The lanes do not suffice for so many classes of service, though for fewer.
    #[error(
        "{engine}: {classes} classes of service are too many: each has {part} of the {offer} offered, which does not \
         suffice. Set classes to at most {fit}, of which each takes {takes}, or raise max_op_vls if it limits the VLs"
    )]
    Classes {
        /// The engine.
        engine: &'static str,
        /// Classes asked for.
        classes: u8,
        /// What the fabric and the settings offer to all.
        offer: Offer,
        /// What each class has of that.
        part: Offer,
        /// The most classes that fit.
        fit: u8,
        /// VLs and SLs that each of those takes.
        takes: Offer,
    },
    /// The judge rejected what an engine computed. A defect of dfdn, never of the fabric.
    #[error("{engine} computed tables that are not safe, which is a defect of dfdn; please report it: {why}")]
    Rejected {
        /// The engine.
        engine: String,
        /// What the judge objects to.
        why: String,
    },
}

/// What an engine computes before it is judged.
struct Plan {
    lft: Lft,
    sl2vl: Sl2Vl,
    path_sl: PathSl,
    vls: u8,
    remarks: Vec<String>,
    /// An order that all of unicast ascends in, if one is known.
    known: Option<KnownOrder>,
    /// Multicast trees, as soon as they were looked for.
    trees: Option<McastTrees>,
}

/// Tables that passed the judge, with what was found out on the way.
#[derive(Clone, Debug)]
pub struct Routed {
    /// The tables.
    pub routes: Routes,
    /// What the judge says of them.
    pub verdict: Verdict,
    /// What if hosts use other SLs than they are told.
    pub safety: SlSafety,
    /// Distances between the switches.
    pub hops: Hops,
    /// VLs and SLs that the fabric offers.
    pub offer: Offer,
    /// How VLs and SLs are dealt out among classes of service.
    pub classes: Classes,
    /// Time for distances, routing, lanes and multicast trees.
    pub computing: Duration,
    /// Time for the judgement.
    pub judging: Duration,
}

/// What the engine `dfdn` tries before it routes, by name, the best first: its search by itself, for
/// those who want to know how long it takes.
pub fn orders_tried(fabric: &Fabric, hops: &Hops, offer: Offer) -> Vec<String> {
    dfdn::orders_tried(fabric, hops, offer)
}

/// Routes a fabric: distances, forwarding tables, lanes, multicast trees, verdict.
///
/// Cost: that of the stages, see [`Hops::new`], [`ranked_sssp`](crate::routing::ranked_sssp()),
/// [`ordered`](crate::lanes::ordered()) and [`verify`]; the search of the engine `dfdn` is held to about
/// the work of one pass of routing, or a fixed one where that is small. `docs/performance.md` puts
/// measured growth beside them. Memory: D S bytes of forwarding tables and S^2 bytes of distances,
/// with S switches and D LIDs, and what the stages take in turn.
///
/// # Errors
/// Any [`EngineError`]. Tables of a deadlock-free engine that `verify` objects to are not handed
/// out; those of a bare routing are, with the objection in [`Routed::verdict`], as long as they
/// reach everything.
///
/// Links that operate fewer VLs than others carry nothing where that is better; then it takes as long again.
pub fn route(fabric: &Fabric, settings: &Settings) -> Result<Routed, EngineError> {
    narrow::route(fabric, settings, |links| route_over(fabric, links, settings))
}

/// Routes a fabric over `links`, the same fabric with some links down or with other VLs.
fn route_over(fabric: &Fabric, links: &Fabric, settings: &Settings) -> Result<Routed, EngineError> {
    let engine = by_name(&settings.engine)?;
    let offer = settings.offer(links)?;
    let start = Instant::now();
    let hops = Hops::new(links)?;
    let (mut plan, classes) = classes::plan(links, &hops, engine, settings, offer)?;
    narrow::keep_to_vl_0(fabric, plan.vls, &mut plan.sl2vl);
    untrusted::keep_back(fabric, &mut plan.sl2vl);
    if let Some(trees) = &mut plan.trees {
        plan.remarks.push(multicast::in_words(trees));
    }
    let mut routes = Routes {
        engine: engine.name.to_owned(),
        lft: plan.lft,
        sl2vl: plan.sl2vl,
        path_sl: plan.path_sl,
        vlarb: VlArb::fair(plan.vls),
        multicast: plan.trees.map_or_else(Vec::new, |found| found.trees),
        remarks: plan.remarks,
    };
    let computing = start.elapsed();
    let start = Instant::now();
    let mut verdict = verify(fabric, &routes);
    if verdict.multicast.as_ref().is_some_and(|multicast| !multicast.is_safe()) {
        // Unicast is not to suffer from that.
        routes.multicast.clear();
        routes.remarks.push(
            "the trees found for multicast are not safe, which is a defect of dfdn; please report it. Multicast goes by \
             OpenSM's own trees and is not part of the proof"
                .to_owned(),
        );
        verdict = verify(fabric, &routes);
    }
    let bare = !engine.deadlock_free && verdict.reachable && verdict.loop_free;
    if !verdict.is_safe() && !bare {
        let why = verdict.witness().map_or_else(String::new, |w| w.explain(fabric));
        return Err(EngineError::Rejected { engine: settings.engine.clone(), why });
    }
    let safety = sl_safety(fabric, &routes, &verdict);
    Ok(Routed { routes, verdict, safety, hops, offer, classes, computing, judging: start.elapsed() })
}
