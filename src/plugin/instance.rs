//! The plugin's own logic: settings, computing, committing, and keeping what there is where that fails.

use std::collections::HashSet;
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;

use super::abi;
use super::configuration::Configuration;
use super::distrust::Distrust;
use super::drill::Drill;
use super::hold::{self, InForce};
use super::host::Host;
use super::mcast;
use super::memory::Size;
use super::message::Message;
use super::notes::Notes;
use super::options;
use super::program;
use super::retry::Retry;
use super::rows::KnownRows;
use super::snapshot::{Discovered, discovered, snapshot};
use super::threads::{self, in_own_threads};
use crate::engine::{self, Fitted, Routed, Settings};
use crate::fabric::{Fabric, Guid, Sifted};
use crate::tables::Programmed;

/// The plugin: one for each OpenSM object, from `create` to `delete`.
pub(super) struct Plugin {
    /// OpenSM.
    pub(super) host: Host,
    /// Settings by the configuration file.
    configuration: Mutex<Configuration>,
    /// The settings that the fabric was routed with last.
    routed_with: Mutex<Option<Settings>>,
    /// The engines that OpenSM knows, set once by `create`; each is the context of its callbacks.
    pub(super) registered: OnceLock<Vec<Registered>>,
    /// Computed and verified, hop counts written if they are read, forwarding tables not yet.
    pending: Mutex<Option<Pending>>,
    /// What OpenSM was handed last: what is in the switches, if [`Sent::Ours`].
    pub(super) in_force: ArcSwapOption<InForce>,
    /// Whose tables were sent last, a [`Sent`].
    pub(super) sent: AtomicU8,
    /// What OpenSM knows of SL2VL rows.
    pub(super) known_rows: KnownRows,
    /// Sweeps in a row that left rows between switches or forwarding tables out of place.
    pub(super) failures: AtomicU32,
    /// The same of rows towards and of adapters alone.
    pub(super) failures_at_adapters: AtomicU32,
    /// Asks for sweeps because of these.
    pub(super) retry: Retry,
    /// Whether the next regular sweep is to be a heavy one.
    pub(super) retry_later: AtomicBool,
    /// Switches that do not take their tables.
    pub(super) distrust: Distrust,
    /// LIDs as they were answered in the last discovery.
    discovered: Mutex<Discovered>,
    /// What was said of the fabric.
    notes: Notes,
    /// What was said last of options without effect.
    ignored: Mutex<Option<String>>,
    /// Threads that the last run had where these were fewer than cores.
    few_threads: AtomicU32,
    /// Gaps of multicast groups that a sweep was asked for already.
    gaps: Mutex<HashSet<(u16, String)>>,
    /// The callback that is to panic.
    pub(super) drill: Option<Drill>,
}

/// Whose tables OpenSM sent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Sent {
    /// Nobody's, since the plugin was loaded.
    Nothing,
    /// Ours.
    Ours,
    /// Those of an engine that leaves SLs to OpenSM.
    WithoutSls,
    /// Those of an engine that gives out SLs.
    WithSls,
}

/// Whether OpenSM will read hop counts of this sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HopCounts {
    /// It will.
    Read,
    /// It will not.
    NotRead,
}

/// OpenSM's callback for the tree of a multicast group.
pub(super) type BuildTree =
    unsafe extern "C" fn(*mut c_void, *mut abi::osm_mgrp_box_t) -> abi::ib_api_status_t;

/// An engine as OpenSM knows it.
pub(super) struct Registered {
    /// The plugin that it is of.
    pub(super) plugin: *const Plugin,
    /// Its name.
    pub(super) name: CString,
    /// The same, to route by; `None` for the one that the configuration chooses.
    pub(super) fixed: Option<&'static str>,
    /// What builds its multicast trees, where it has some.
    pub(super) trees: BuildTree,
    /// OpenSM's own object for it, from `setup` to `destroy`.
    pub(super) object: AtomicPtr<abi::osm_routing_engine>,
}

struct Pending {
    fabric: Fabric,
    /// GUIDs of switches and of adapter ports that are left out, ascending.
    left_out: (Vec<Guid>, Vec<Guid>),
    routed: Routed,
    started: Instant,
    /// What the snapshot took.
    reading: Duration,
    /// What the lid matrix and the forwarding tables took.
    writing: Duration,
}

type Failure = (Message, String);

/// What a mutex guards, also after a panic: every value is replaced as a whole.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Registered {
    /// Whether OpenSM asks no engine after this one.
    fn is_last(&self) -> bool {
        let object = self.object.load(Ordering::Relaxed);
        // SAFETY: not NULL, and then the object that `setup` was given, before `destroy`.
        !object.is_null() && unsafe { (*object).next }.is_null()
    }
}

impl Plugin {
    /// With nothing routed yet.
    pub(super) fn new(host: Host, drill: Option<Drill>) -> Self {
        Self {
            host,
            configuration: Mutex::new(Configuration::new()),
            routed_with: Mutex::new(None),
            registered: OnceLock::new(),
            pending: Mutex::new(None),
            in_force: ArcSwapOption::empty(),
            sent: AtomicU8::new(Sent::Nothing as u8),
            known_rows: KnownRows::default(),
            failures: AtomicU32::new(0),
            failures_at_adapters: AtomicU32::new(0),
            retry: Retry::new(),
            retry_later: AtomicBool::new(false),
            distrust: Distrust::default(),
            discovered: Mutex::default(),
            notes: Notes::default(),
            ignored: Mutex::new(None),
            few_threads: AtomicU32::new(0),
            gaps: Mutex::new(HashSet::new()),
            drill,
        }
    }

    /// Whether the engine in use is one of ours.
    pub(super) fn is_ours(&self) -> bool {
        let ours = self.registered.get().map_or(&[][..], Vec::as_slice);
        let used = self.host.engine_used().map(|engine| engine.context.cast_const());
        used.is_some_and(|used| {
            ours.iter().any(|engine| std::ptr::eq(used, std::ptr::from_ref(engine).cast()))
        })
    }

    /// What to route with: the configuration file as it is now, with the engine that OpenSM named.
    fn settings(&self, engine: &Registered) -> Result<Settings, Failure> {
        let mut configuration = locked(&self.configuration);
        let read = configuration.read().map_err(|error| (Message::ConfigFailed, error))?;
        if let Some(error) = read.kept_in_spite_of {
            let text = format!("{error}. The settings of the last good file stay in force");
            self.host.log(Message::ConfigFailed, &text);
        }
        if let Some(news) = read.news {
            self.host.log(Message::Settings, &news);
        }
        let mut settings = read.settings;
        if let Some(name) = engine.fixed {
            name.clone_into(&mut settings.engine);
        }
        Ok(settings)
    }

    /// Says which options have no effect, when that is news.
    fn tell_ignored(&self) {
        let mut told = locked(&self.ignored);
        let now = options::ignored(self.host.options());
        if let Some(text) = now.as_ref().filter(|text| told.as_ref() != Some(text)) {
            self.host.log(Message::IgnoredOption, text);
        }
        *told = now;
    }

    /// Remembers what end ports answered, before OpenSM changes their LIDs.
    pub(super) fn discovery_done(&self) {
        let found = self.host.locked(|| discovered(&self.host));
        *locked(&self.discovered) = found;
    }

    /// Reads the subnet, computes tables and has them verified, with settings that fit.
    ///
    /// # Errors
    /// What stands against it. Nothing is changed then but hop counts, perhaps.
    pub(super) fn compute(&self, engine: &Registered) -> Result<(), Failure> {
        let started = Instant::now();
        let mut pending = locked(&self.pending);
        *pending = None;
        let settings = self.settings(engine)?;
        self.tell_ignored();
        Size::of(&self.host).check().map_err(|error| (Message::TooLittleMemory, error))?;
        let Sifted { fabric, left_out, switches, adapters } =
            snapshot(&self.host, &self.distrust.switches(), &locked(&self.discovered))
                .map_err(|error| (Message::SnapshotFailed, error.to_string()))?;
        let reading = started.elapsed();
        let notes = fabric.notes().iter().map(|note| fabric.explain(note));
        for note in self.notes.news(left_out.into_iter().chain(notes)) {
            self.host.log(Message::FabricNote, &note);
        }
        let routed = self.route(engine, &fabric, &settings)?;
        let writing = Instant::now();
        let host = &self.host;
        if self.hop_counts(routed.routes.multicast.is_empty()) == HopCounts::Read {
            let (written, _) = in_own_threads(|| program::write_hops(host, &fabric, &switches, &routed))
                .map_err(|error| (Message::CommitFailed, error))?;
            written.map_err(|error| (Message::CommitFailed, error.to_string()))?;
        }
        let writing = writing.elapsed();
        let left_out = (switches, adapters);
        *pending = Some(Pending { fabric, left_out, routed, started, reading, writing });
        Ok(())
    }

    /// Routes with the settings, or where they do not fit with those from before or the nearest that do.
    fn route(&self, engine: &Registered, fabric: &Fabric, wanted: &Settings) -> Result<Routed, Failure> {
        let mut routed_with = locked(&self.routed_with);
        let mut before = routed_with.clone();
        if let (Some(before), Some(name)) = (&mut before, engine.fixed) {
            name.clone_into(&mut before.engine);
        }
        let keep_engine = engine.fixed.is_some();
        let (fitted, threads) =
            in_own_threads(|| engine::route_fitting(fabric, wanted, before.as_ref(), keep_engine))
                .map_err(|error| (Message::RouteFailed, error))?;
        let Fitted { routed, settings, misfit } =
            fitted.map_err(|error| (Message::RouteFailed, error.to_string()))?;
        if let Some(misfit) = misfit {
            let text = format!("{}: {misfit}", locked(&self.configuration).path().display());
            self.host.log(Message::ConfigFailed, &text);
        }
        *routed_with = Some(settings);
        let few = if threads < threads::wanted() { threads as u32 } else { 0 };
        if self.few_threads.swap(few, Ordering::Relaxed) != few && few > 0 {
            let text = format!(
                "the process may start no more threads: routed with {threads} instead of {}, which takes longer. Raise \
                 its limit (ulimit -u, TasksMax of its service, pids.max of its control group)",
                threads::wanted()
            );
            self.host.log(Message::FewerThreads, &text);
        }
        Ok(routed)
    }

    /// Whether OpenSM reads hop counts after an engine of ours: for multicast trees of its own and for
    /// dumps, which where it keeps a cache of unicast tables may be asked for long after. Else they stay
    /// "no path", as writing them takes OpenSM an allocation for each two switches.
    fn hop_counts(&self, multicast_is_opensms: bool) -> HopCounts {
        let read = multicast_is_opensms || self.host.dumps_routing() || self.host.caches_unicast();
        if read { HopCounts::Read } else { HopCounts::NotRead }
    }

    /// Hands OpenSM what was computed.
    ///
    /// # Errors
    /// OpenSM's tables do not fit.
    pub(super) fn commit(&self, engine: &Registered) -> Result<(), Failure> {
        let nothing = || (Message::NothingToCommit, "no tables were computed in this sweep".to_owned());
        let mut pending = locked(&self.pending).take().ok_or_else(nothing)?;
        let Pending { fabric, left_out, routed, .. } = &pending;
        let (host, start) = (&self.host, Instant::now());
        let (written, _) =
            in_own_threads(|| program::write_lfts(host, fabric, &left_out.0, &routed.routes.lft))
                .map_err(|error| (Message::CommitFailed, error))?;
        written.map_err(|error| (Message::CommitFailed, error.to_string()))?;
        pending.writing += start.elapsed();
        self.host.log(Message::Routed, &summary(&pending));
        let Pending { fabric, left_out: (switches, adapters), routed, .. } = pending;
        let left_out = switches.into_iter().chain(adapters);
        let programmed = Arc::new(Programmed::new(fabric, routed.routes).without(left_out));
        self.publish(engine, InForce { programmed, hold: None });
        Ok(())
    }

    fn publish(&self, engine: &Registered, in_force: InForce) {
        // SAFETY: NULL, or the object that `setup` was given, before `destroy`; OpenSM calls engines under
        // its lock, held exclusively.
        if let Some(object) = unsafe { engine.object.load(Ordering::Relaxed).as_mut() } {
            // Without the callback OpenSM builds trees of its own.
            let ours = !in_force.programmed.routes.multicast.is_empty();
            object.mcast_build_stree = ours.then_some(engine.trees);
        }
        self.in_force.store(Some(Arc::new(in_force)));
    }

    /// The tables to be kept where the fabric cannot be routed: ours, if the switches have them and nobody
    /// else will be asked for tables. An administrator who names another engine behind, or lets OpenSM fall
    /// back to minhop, wants that one then.
    fn to_be_kept(&self, engine: &Registered) -> Option<Arc<InForce>> {
        let ours = self.sent.load(Ordering::Relaxed) == Sent::Ours as u8;
        let alone = engine.is_last() && self.host.has_no_fallback();
        (ours && alone && !self.host.is_new_master()).then(|| self.in_force.load_full()).flatten()
    }

    /// Whether [`Plugin::hold`] is to follow, and what OpenSM needs for it.
    pub(super) fn plan_hold(&self, engine: &Registered) -> Option<HopCounts> {
        *locked(&self.pending) = None;
        let in_force = self.to_be_kept(engine)?;
        Some(self.hop_counts(in_force.programmed.routes.multicast.is_empty()))
    }

    /// Whether nothing was computed and [`Plugin::hold`] is to follow.
    pub(super) fn is_to_hold(&self, engine: &Registered) -> bool {
        locked(&self.pending).is_none() && self.to_be_kept(engine).is_some()
    }

    /// Hands OpenSM what still holds of the tables from before; `None` where there are none to be kept.
    ///
    /// # Errors
    /// No memory.
    pub(super) fn hold(&self, engine: &Registered) -> Option<Result<(), Failure>> {
        self.to_be_kept(engine).map(|in_force| self.keep(engine, &in_force))
    }

    fn keep(&self, engine: &Registered, in_force: &InForce) -> Result<(), Failure> {
        let programmed = in_force.programmed.clone();
        let (hold, extent) =
            hold::hold(&self.host, &programmed).map_err(|error| (Message::TooLittleMemory, error))?;
        let text = format!(
            "the fabric could not be routed, for the reason above: the tables from before stay in force as far as they \
             hold. {}. Tried again at each regular sweep",
            extent.in_words()
        );
        self.host.log(Message::Held, &text);
        self.publish(engine, InForce { programmed, hold: Some(hold) });
        Ok(())
    }

    /// Where no engine will route the fabric: lets the SA go on answering by what the switches have, if the
    /// SLs that it tells then are those that it told.
    pub(super) fn answer_by_acknowledged(&self, engine: &Registered) {
        let other = self.sent.load(Ordering::Relaxed) == Sent::WithoutSls as u8;
        if other && engine.is_last() && self.host.has_no_fallback() && !self.host.is_new_master() {
            hold::answer_by_acknowledged(&self.host);
        }
    }

    /// Routes a multicast group on its tree; false where no tree serves it.
    pub(super) fn route_group(&self, group: &abi::osm_mgrp_box_t) -> bool {
        let in_force = self.in_force.load();
        let Some(in_force) = in_force.as_deref() else { return false };
        let mlid = group.mlid;
        match mcast::route(&self.host, &in_force.programmed, group) {
            mcast::Outcome::NotServed { sls } => {
                let list: Vec<String> =
                    (0..16).filter(|sl| sls & 1 << sl != 0).map(|sl: u16| sl.to_string()).collect();
                let text = format!(
                    "multicast group 0x{mlid:04x} has SL {} and no tree that is free of credit loops serves it: \
                     it is not routed. Give its partition SL 0 in partitions.conf",
                    list.join(" and ")
                );
                self.host.log(Message::GroupNotServed, &text);
                false
            }
            mcast::Outcome::Routed { members, switches, gap: None } => {
                let text =
                    format!("multicast group 0x{mlid:04x}: {members} members over {switches} switches");
                self.host.log(Message::GroupRouted, &text);
                let mut gaps = locked(&self.gaps);
                gaps.retain(|(group, _)| *group != mlid);
                true
            }
            mcast::Outcome::Routed { gap: Some(gap), .. } => {
                let mut gaps = locked(&self.gaps);
                // A gap that another sweep did not mend stays, so sweeps are not asked for without end.
                let held = in_force.hold.is_some();
                let new = !held && gaps.insert((mlid, gap.clone()));
                let then = match (held, new) {
                    (true, _) => "The fabric cannot be routed anew at the moment",
                    (false, true) => "The fabric will be routed anew",
                    (false, false) => "Another sweep did not mend it",
                };
                let text =
                    format!("multicast group 0x{mlid:04x} does not reach all its members: {gap}. {then}");
                self.host.log(Message::GroupHasGap, &text);
                if new {
                    self.host.route_anew();
                }
                true
            }
        }
    }
}

/// `12 switches, 48 adapters, 72 links: DF-D2 ..., 2 VLs, 1 SL, ...; 3.1 ms`.
fn summary(pending: &Pending) -> String {
    let Pending { fabric, routed, started, reading, writing, .. } = pending;
    let verdict = &routed.verdict;
    format!(
        "{fabric}: {}; {} of {} VLs, {} SLs, verified: every pair reachable, deadlock-free{}; safe if hosts use: {}; \
         {:.3} s from snapshot to commit ({:.3} s reading, {:.3} s computing, {:.3} s verifying, {:.3} s writing)",
        routed.routes.remarks.join("; "),
        verdict.vls_all,
        routed.offer.vls,
        verdict.sls_all,
        if verdict.multicast.is_some() { " together with multicast" } else { "" },
        routed.safety.describe(),
        started.elapsed().as_secs_f64(),
        reading.as_secs_f64(),
        routed.computing.as_secs_f64(),
        routed.judging.as_secs_f64(),
        writing.as_secs_f64(),
    )
}
