//! The engines by name: a routing, its VLs and SLs, multicast trees, and the judge that checks all of these.
//!
//! The plugin and the command call [`route`], which returns tables only if they passed
//! [`verify`](crate::verify).

mod balance;
mod bare;
mod classes;
mod config;
mod config_error;
mod config_file;
mod dfdn;
mod fitting;
mod hold_file;
mod ignored_options;
mod layers;
mod leaves;
mod list_file;
mod narrow;
mod optimise;
mod papers;
mod plan;
mod role_file;
mod root_file;
mod unmatched;
mod untrusted;
mod words;

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use thiserror::Error;

pub use balance::{Balance, Traffic};
pub use bare::{Pairs, Weights};
pub use config::{KEYS, Key, Values};
pub use config_error::ConfigError;
pub use config_file::template;
pub use dfdn::{Baseline, Keepable, MAX_MENDED, max_counts};
pub use fitting::{Fitted, route_fitting};
pub use hold_file::parse as parse_holds;
pub use ignored_options::{IGNORED_OPTIONS, IgnoredOption, ignored_options};
pub use layers::Layers;
pub use list_file::Listed;
pub use optimise::Optimise;
pub use role_file::{RoleLine, assign as assign_roles, parse as parse_roles, read_guid_files};
pub use root_file::read as read_roots;
pub use unmatched::{unmatched, unmatched_names};

use self::plan::Plan;
use self::words::words;
use crate::fabric::{Fabric, FabricError, Guid, Hold, Sl, Vl, hold_out};
use crate::lanes::{LaneLimits, LanesError};
use crate::ordering::Dimensions;
use crate::routing::{Hops, RoutingError, base_detours};
use crate::tables::{Classes, Routes, VlArb};
use crate::verify::{SlSafety, Verdict, sl_safety, verify};

/// A named combination of routing and lanes.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// Name, written as OpenSM would.
    pub name: &'static str,
    /// A description of one line.
    pub about: &'static str,
    /// Whether its tables are free of credit loops on every fabric. Tables of a bare routing are returned even if
    /// `verify` rejects them; see [`Routed::verdict`].
    pub deadlock_free: bool,
    run: fn(Task<'_>) -> Result<Plan, EngineError>,
}

/// What is to be routed, and with what.
#[derive(Clone, Copy)]
struct Task<'a> {
    fabric: &'a Fabric,
    hops: &'a Hops,
    settings: &'a Settings,
    limits: LaneLimits,
    /// Earlier tables to keep to.
    baseline: Option<&'a Baseline>,
    /// Of the fabric, once they were looked for.
    dimensions: &'a OnceLock<Option<Dimensions>>,
}

impl<'a> Task<'a> {
    /// The dimensions of the fabric; `None` where it is no grid.
    ///
    /// Cost: that of [`Dimensions::find`] and [`Dimensions::of_grid`], once.
    fn dimensions(&self) -> Option<&'a Dimensions> {
        let find = || Dimensions::find(self.fabric).or_else(|| Dimensions::of_grid(self.fabric));
        self.dimensions.get_or_init(find).as_ref()
    }
}

/// Every engine, the default first.
pub const ENGINES: &[Engine] = &[
    Engine {
        name: "dfdn",
        about: "P-SSSP that obeys an order of the channels: one SL and few VLs if possible",
        deadlock_free: true,
        run: dfdn::dfdn,
    },
    Engine {
        name: "dfd2",
        about: "P-SSSP with DF-D2; refuses adapters that are more than two channels apart",
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
        about: "several up*/down* trees, each on its own VL; paths may be longer than minimal",
        deadlock_free: true,
        run: papers::updn_trees,
    },
    Engine {
        name: "sssp-layers",
        about: "P-SSSP on VLs until none is left, the rest by up*/down*",
        deadlock_free: true,
        run: papers::sssp_layers,
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
        about: "bfot with several orders of the links; the best one is used",
        deadlock_free: true,
        run: papers::bfot_plus,
    },
    Engine {
        name: "minhop",
        about: "locally balanced minimal hops on one VL; may have credit loops",
        deadlock_free: false,
        run: papers::minhop,
    },
    Engine {
        name: "sssp",
        about: "P-SSSP on one VL; may have credit loops",
        deadlock_free: false,
        run: papers::sssp,
    },
    Engine {
        name: "p2sssp",
        about: "P²-SSSP on one VL; may have credit loops; slow",
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

/// The settings of a routing run.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name of the engine.
    pub engine: String,
    /// Data VLs to use, or as many as every switch-to-switch link states if that is fewer. `None`: as many as
    /// are stated, or [`Settings::VLS_UNSTATED`] if none are.
    pub vls: Option<u8>,
    /// SLs that may be assigned, `1..=16`.
    pub sls: u8,
    /// What adapters are for.
    pub roles: Listed<RoleLine>,
    /// Trees of `updn-trees`, `1..=15`.
    pub trees: u8,
    /// Classes of service, `1..=15`.
    pub classes: u8,
    /// Whether destinations are spread over unused VLs.
    pub spread: bool,
    /// What `dfdn` prefers if one SL and shortest paths exclude each other.
    pub prefer: Prefer,
    /// Largest share of the adapter pairs that `dfdn` may send on detours so that one SL suffices. `None`:
    /// [`Settings::MAX_NONMINIMAL`] by default, no limit if one SL is preferred.
    pub max_nonminimal: Option<f64>,
    /// Largest share of the bandwidth that one SL may cost by default, all-to-all and bisection together.
    pub max_loss: f64,
    /// Budget of the search for an order, in passes of P-SSSP.
    pub search_effort: f64,
    /// Whether the plugin keeps to earlier tables and programs new ones in proven steps.
    pub proven_transition: bool,
    /// Most steps of a transition without dropped entries.
    pub transition_steps: u8,
    /// How `dfdn` balances.
    pub balance: Balance,
    /// The paths of an adapter's LIDs after the first, in `dfdn`.
    pub layers: Layers,
    /// The traffic that `dfdn` balances for.
    pub traffic: Traffic,
    /// The weight of a channel without routes in `sssp`.
    pub weights: Weights,
    /// The order of the pairs of `p2sssp`.
    pub pairs: Pairs,
    /// How the tables of every engine but `dfdn` are balanced further.
    pub optimise: Optimise,
    /// Tries in a row without success after which random exchanges end, as a multiple of the exchanges there are.
    pub patience: f64,
    /// The seed of what is drawn at random: the order of the pairs, and exchanges.
    pub draw_seed: u8,
    /// Links and switches that shall carry no packets.
    pub hold: Listed<Hold>,
    /// Where the plugin adds a line of JSON after each heavy sweep.
    pub sweep_log: Option<PathBuf>,
    /// Switches that the engine `dfdn` shall try as roots of an order of the links, by node or port GUID.
    pub roots: Listed<Guid>,
}

words! {
    /// One SL for every pair, or a shortest path for every pair. As text: `default`, `one-sl` and `minimal`.
    pub enum Prefer {
        /// One SL if few pairs take a detour for it, else shortest paths.
        #[default]
        Default = "default",
        /// One SL.
        OneSl = "one-sl",
        /// Shortest paths for all pairs of adapters.
        Minimal = "minimal",
    }
}

impl Settings {
    /// Data VLs assumed if the fabric states none: most switches offer as many.
    pub const VLS_UNSTATED: u8 = 8;

    /// Largest share of the adapter pairs that may take a detour for one SL by default.
    pub const MAX_NONMINIMAL: f64 = 0.02;

    /// The VLs and SLs that a fabric offers under these settings.
    ///
    /// # Errors
    /// [`EngineError::Setting`] for numbers outside of InfiniBand's range.
    pub fn lane_limits(&self, fabric: &Fabric) -> Result<LaneLimits, EngineError> {
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
        Ok(LaneLimits { vls, sls: self.sls })
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            engine: ENGINES[0].name.to_owned(),
            vls: None,
            sls: Sl::COUNT as u8,
            roles: Listed::default(),
            trees: 2,
            classes: 1,
            spread: false,
            prefer: Prefer::Default,
            max_nonminimal: None,
            max_loss: 0.05,
            search_effort: 1.0,
            proven_transition: true,
            transition_steps: 4,
            balance: Balance::default(),
            layers: Layers::default(),
            traffic: Traffic::default(),
            weights: Weights::default(),
            pairs: Pairs::default(),
            optimise: Optimise::default(),
            patience: 1.0,
            draw_seed: 1,
            hold: Listed::default(),
            sweep_log: None,
            roots: Listed::default(),
        }
    }
}

/// Why there are no tables.
#[derive(Debug, Error)]
pub enum EngineError {
    /// No engine has this name.
    #[error("there is no engine '{name}'; there are {known}")]
    Unknown {
        /// The requested name.
        name: String,
        /// All names.
        known: String,
    },
    /// A number out of range.
    #[error("{name} must be {least} to {most}, not {value}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: u8,
        /// The least value allowed.
        least: u8,
        /// The largest value allowed.
        most: u8,
    },
    /// The fabric cannot be routed.
    #[error(transparent)]
    Routing(#[from] RoutingError),
    /// The fabric cannot be built without the links that are held out.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The VLs or SLs do not suffice.
    #[error("{engine}: {source}")]
    Lanes {
        /// The engine.
        engine: &'static str,
        /// What is lacking.
        source: LanesError,
    },
    /// The links offer enough lanes, but the settings allow too few.
    #[error(
        "{engine}: {needed} {kind} are needed and the setting {name} allows {offered}. Set {name} to at least \
         {needed}{}, or choose another engine",
        if *name == "vls" { " or to auto, as far as the links between switches operate so many" } else { "" }
    )]
    OwnLimit {
        /// The engine.
        engine: &'static str,
        /// The setting.
        name: &'static str,
        /// What it limits: VLs or SLs.
        kind: &'static str,
        /// Lanes that the engine needs.
        needed: usize,
        /// What the setting allows.
        offered: u8,
    },
    /// The lanes suffice for some classes of service, but not for as many as requested.
    #[error(
        "{engine}: {classes} classes of service are too many: each has {part} of the {limits} offered, which does not \
         suffice. Set classes to at most {fit}, of which each takes {takes}, or raise vls or max_op_vls where these limit the VLs"
    )]
    Classes {
        /// The engine.
        engine: &'static str,
        /// Requested classes.
        classes: u8,
        /// What the fabric and the settings offer to all classes together.
        limits: LaneLimits,
        /// The share of each class.
        part: LaneLimits,
        /// The most classes that fit.
        fit: u8,
        /// VLs and SLs that each class needs.
        takes: LaneLimits,
    },
    /// The judge rejected the tables of an engine. This is a defect of dfdn, never of the fabric.
    #[error("{engine} computed tables that are not safe, which is a defect of dfdn; please report it: {why}")]
    Rejected {
        /// The engine.
        engine: String,
        /// Why the judge rejected them.
        why: String,
    },
}

/// Tables that passed the judge, and figures about them.
#[derive(Clone, Debug)]
pub struct Routed {
    /// The tables.
    pub routes: Routes,
    /// The verdict.
    pub verdict: Verdict,
    /// What happens if hosts use other SLs than the assigned ones.
    pub safety: SlSafety,
    /// Distances between the switches.
    pub hops: Hops,
    /// VLs and SLs that the fabric offers.
    pub limits: LaneLimits,
    /// How VLs and SLs are divided among classes of service.
    pub classes: Classes,
    /// Whether a [`Baseline`] can be made of the tables, or they keep to one.
    pub lineage: Lineage,
    /// Time for distances, routing, VLs and multicast trees.
    pub computing: Duration,
    /// Time for the verification.
    pub judging: Duration,
}

impl Routed {
    /// Share of the adapter pairs whose path to the base LID is longer than the shortest. Paths to further LIDs may be
    /// longer on purpose, see [`Layers`]; [`Verdict::nonminimal_share`] counts them too.
    ///
    /// - `fabric`: the one that was routed.
    ///
    /// Cost: O(S D) with S switches and D adapters; nothing where each has one LID.
    pub fn detours(&self, fabric: &Fabric) -> f64 {
        if fabric.adapters().all(|(_, end)| end.lmc.lids() == 1) {
            return self.verdict.nonminimal_share;
        }
        base_detours(fabric, &self.hops, &self.routes.lft)
    }
}

/// How tables relate to earlier and to later ones.
#[derive(Clone, Debug)]
pub enum Lineage {
    /// They were made anew, and later ones cannot keep to them.
    Single,
    /// They were made anew, and later ones may keep to them: see [`Baseline::new`].
    First(Box<Keepable>),
    /// They keep to the baseline that they were made with.
    Kept,
}

/// The orders that the engine `dfdn` tries before it routes, by name, the best first. Runs the search alone, for
/// benchmarks.
pub fn orders_tried(fabric: &Fabric, hops: &Hops, limits: LaneLimits) -> Vec<String> {
    dfdn::orders_tried(fabric, hops, limits)
}

/// Routes a fabric: distances, forwarding tables, VLs and SLs, multicast trees, verdict.
///
/// With [`Settings::hold`] all of these are about the fabric without the links that are held out; see [`hold_out`].
///
/// Cost: that of the stages, see [`Hops::new`], [`ranked_sssp`](crate::routing::ranked_sssp()),
/// [`ordered`](crate::lanes::ordered()) and [`verify`]; the search of the engine `dfdn` has a budget of about one pass
/// of routing, or a fixed budget if that is small. `docs/performance.md` has the measured growth. If some links
/// operate fewer VLs than others, the time is multiplied by the number of distinct VL counts, as the engine also tries
/// to leave out the links with fewer VLs. Memory: D S bytes of forwarding tables and S^2 bytes of distances, with S
/// switches and D LIDs, and the memory of one stage at a time.
///
/// # Errors
/// Any [`EngineError`]. Tables of a deadlock-free engine that `verify` rejects are not returned. Those of a bare
/// routing are returned, with the failure in [`Routed::verdict`], as long as they reach all end ports.
pub fn route(fabric: &Fabric, settings: &Settings) -> Result<Routed, EngineError> {
    route_after(fabric, settings, None)
}

/// As [`route`], with tables that keep to earlier ones as long as these are nearly as good as new ones.
///
/// All paths stay that still exist, and the others move under the rule of the earlier tables. So most of the way from
/// one to the other is free of credit loops. The result depends on the fabric, the settings and the baseline, not
/// on what was between the baseline and now.
///
/// Only the engine `dfdn` keeps to a baseline; [`Routed::lineage`] says whether it did.
///
/// Cost: two passes of P-SSSP where the baseline is kept to, else that of [`route`] beside it.
///
/// # Errors
/// Those of [`route`].
pub fn route_after(
    fabric: &Fabric,
    settings: &Settings,
    baseline: Option<&Baseline>,
) -> Result<Routed, EngineError> {
    if settings.roles.is_empty() {
        return route_held(fabric, settings, baseline);
    }
    let mut fabric = fabric.clone();
    let [compute, storage, service] = role_file::assign(&settings.roles, &mut fabric);
    let mut routed = route_held(&fabric, settings, baseline)?;
    routed.routes.remarks.push(format!(
        "roles: {compute} adapters compute, {storage} store and {service} serve by the file; the others compute"
    ));
    Ok(routed)
}

/// Routes without the links that are held out, and remarks what that costs.
fn route_held(
    fabric: &Fabric,
    settings: &Settings,
    baseline: Option<&Baseline>,
) -> Result<Routed, EngineError> {
    let baseline = baseline.filter(|baseline| baseline.serves(settings));
    let run = |fabric: &Fabric, baseline: Option<&Baseline>| {
        narrow::route(fabric, settings, |links| route_over(fabric, links, settings, baseline))
    };
    if settings.hold.is_empty() {
        return run(fabric, baseline);
    }
    let held = hold_out(fabric.clone(), &settings.hold)?;
    let mut routed = match leaves::route(&held, |core| run(core, baseline))? {
        // Tables with leaves are those of a smaller fabric: later ones do not keep to them, but to what they kept to.
        Some(routed) => Routed { lineage: routed.lineage.kept_or_single(), ..routed },
        None => {
            let routed = run(&held.fabric, baseline)?;
            Routed { lineage: routed.lineage.over(fabric, &held.fabric), ..routed }
        }
    };
    let refused = held.notes.into_iter().filter(|note| !note.done).map(|note| note.text);
    routed.routes.remarks.extend(refused);
    let longer = 100.0 * base_detours(fabric, &Hops::new(fabric)?, &routed.routes.lft);
    if longer > 0.0 {
        let cost =
            format!("without the links that are held, {longer:.2} % of the adapter pairs have more hops");
        routed.routes.remarks.push(cost);
    }
    Ok(routed)
}

/// Routes a fabric over `links`: the same fabric with some links down or with other VLs.
fn route_over(
    fabric: &Fabric,
    links: &Fabric,
    settings: &Settings,
    baseline: Option<&Baseline>,
) -> Result<Routed, EngineError> {
    let engine = by_name(&settings.engine)?;
    let limits = settings.lane_limits(links)?;
    let start = Instant::now();
    let hops = Hops::new(links)?;
    let dimensions = OnceLock::new();
    let task = Task { fabric: links, hops: &hops, settings, limits, baseline, dimensions: &dimensions };
    let planned = classes::plan(engine, task);
    let (mut plan, classes) = planned.map_err(|error| blame(error, links, settings))?;
    let hops = hops.without_dags();
    narrow::keep_to_vl_0(fabric, plan.vls, &mut plan.sl2vl);
    untrusted::keep_back(fabric, &mut plan.sl2vl);
    if let Some(trees) = &mut plan.trees {
        plan.remarks.push(plan::in_words(trees));
    }
    let lineage = plan.lineage.over(fabric, links);
    let mut routes = Routes {
        engine: engine.name.to_owned(),
        lft: plan.lft,
        sl2vl: plan.sl2vl,
        path_sl: plan.path_sl,
        vlarb: VlArb::fair(plan.vls),
        multicast: plan.trees.map_or_else(Vec::new, |found| found.trees),
        port_sets: None,
        remarks: plan.remarks,
    };
    let computing = start.elapsed();
    let start = Instant::now();
    let mut verdict = verify(fabric, &routes);
    if verdict.multicast.as_ref().is_some_and(|multicast| !multicast.is_safe()) {
        // Unicast works without multicast trees.
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
    Ok(Routed {
        routes,
        verdict,
        safety,
        hops,
        limits,
        classes,
        lineage,
        computing,
        judging: start.elapsed(),
    })
}

/// The same error, with the setting named if it limits the lanes and the links do not.
fn blame(error: EngineError, fabric: &Fabric, settings: &Settings) -> EngineError {
    let own_vls = settings.vls.is_some_and(|asked| fabric.min_data_vls().is_none_or(|stated| asked < stated));
    let own_sls = usize::from(settings.sls) < Sl::COUNT;
    match error {
        EngineError::Lanes { engine, source: LanesError::TooFewVls { needed, offered } } if own_vls => {
            EngineError::OwnLimit { engine, name: "vls", kind: "VLs", needed, offered }
        }
        EngineError::Lanes { engine, source: LanesError::TooFewSls { needed, offered } } if own_sls => {
            EngineError::OwnLimit { engine, name: "sls", kind: "SLs", needed, offered }
        }
        other => other,
    }
}
