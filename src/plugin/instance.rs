//! The plugin's own logic: settings, computing, committing, and keeping the old tables if that
//! fails.

use std::collections::HashSet;
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;

use super::abi;
use super::configuration::{Configuration, Read};
use super::distrust::Distrust;
use super::drill::Drill;
use super::hold::{self, InForce};
use super::host::Host;
use super::mcast;
use super::memory::Size;
use super::message::Message;
use super::notes::Notes;
use super::options;
use super::pending::{Pending, summary};
use super::program::{self, CommitError};
use super::retry::{Lacking, Retry};
use super::rows::KnownRows;
use super::snapshot::{Discovered, discovered, snapshot};
use super::sweep_log::SweepLog;
use super::threads::{self, in_own_threads};
use super::transit::{News, Transit};
use crate::engine::{self, Baseline, Fitted, Routed, Settings};
use crate::fabric::{Fabric, HeldOut, Sifted, hold_out};
use crate::tables::Programmed;

/// The plugin: one per OpenSM object, from `create` to `delete`.
pub(super) struct Plugin {
    /// OpenSM.
    pub(super) host: Host,
    /// The configuration file and its settings.
    configuration: Mutex<Configuration>,
    /// What the last tables were asked for with.
    routed_for: Mutex<Option<AskedFor>>,
    /// The settings of the last successful routing.
    routed_with: Mutex<Option<Settings>>,
    /// The engines registered with OpenSM, set once by `create`; each is the context of its
    /// callbacks.
    pub(super) registered: OnceLock<Vec<Registered>>,
    /// Computed and verified tables. Hop counts are written if they are read, forwarding tables not
    /// yet.
    pending: Mutex<Option<Pending>>,
    /// The last tables given to OpenSM: those in the switches if [`Sent::Ours`].
    pub(super) in_force: ArcSwapOption<InForce>,
    /// Whose tables were sent last, a [`Sent`].
    pub(super) sent: AtomicU8,
    /// OpenSM's knowledge of SL2VL rows.
    pub(super) known_rows: KnownRows,
    /// Consecutive sweeps that left rows between switches or forwarding tables out of place.
    pub(super) failures: Lacking,
    /// The same, only for rows towards and of adapters.
    pub(super) failures_at_adapters: Lacking,
    /// The same, only for LinearFDBTop of switches.
    pub(super) failures_of_tops: Lacking,
    /// The same, only for VL arbitration.
    pub(super) failures_of_arbitration: Lacking,
    /// The same, only for links between switches.
    pub(super) failures_of_links: Lacking,
    /// Requests sweeps because of these.
    pub(super) retry: Retry,
    /// Whether the next regular sweep should be a heavy one.
    pub(super) retry_later: AtomicBool,
    /// The way to new tables.
    pub(super) transit: Mutex<Transit>,
    /// The line of JSON of this sweep.
    pub(super) sweep_log: Mutex<SweepLog>,
    /// Switches that do not take their tables, and links that do not come up.
    pub(super) distrust: Distrust,
    /// LIDs that end ports reported in the last discovery.
    discovered: Mutex<Discovered>,
    /// Remarks made about the fabric.
    notes: Notes,
    /// The last remark about options without effect.
    ignored: Mutex<Option<String>>,
    /// The last mistake in the configuration file, and the last of its settings that did not fit.
    mistake: Mutex<Option<String>>,
    misfit: Mutex<Option<String>>,
    /// Number of threads in the last run, if fewer than cores.
    few_threads: AtomicU32,
    /// Gaps of multicast groups for which a sweep was already requested.
    gaps: Mutex<HashSet<(u16, String)>>,
    /// The callback that shall panic.
    pub(super) drill: Option<Drill>,
}

/// What tables depend on beside the fabric.
#[derive(Clone, Debug, PartialEq)]
struct AskedFor {
    /// With what OpenSM's own files say.
    settings: Settings,
    /// What is wrong with the configuration file.
    mistake: Option<String>,
    /// What is wrong with OpenSM's own files.
    misread: [Option<String>; 2],
    /// As PortInfo codes it.
    max_op_vls: u8,
}

/// Whose tables OpenSM sent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Sent {
    /// Nobody's since the plugin was loaded.
    Nothing,
    /// Ours.
    Ours,
    /// Those of an engine that leaves SLs to OpenSM.
    WithoutSls,
    /// Those of an engine that assigns SLs.
    WithSls,
}

/// Whether OpenSM will read hop counts in this sweep.
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

/// An engine as registered with OpenSM.
pub(super) struct Registered {
    /// The plugin that it belongs to.
    pub(super) plugin: *const Plugin,
    /// Its name.
    pub(super) name: CString,
    /// The algorithm to route with; `None` for the engine that the configuration chooses.
    pub(super) fixed: Option<&'static str>,
    /// Builds its multicast trees, if it has any.
    pub(super) trees: BuildTree,
    /// OpenSM's own object for it, from `setup` to `destroy`.
    pub(super) object: AtomicPtr<abi::osm_routing_engine>,
}

type Failure = (Message, String);

/// The value in a mutex, also after a panic: every value is replaced as a whole.
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
    /// A plugin that has not routed anything yet.
    pub(super) fn new(host: Host, drill: Option<Drill>) -> Self {
        Self {
            host,
            configuration: Mutex::new(Configuration::new()),
            routed_for: Mutex::new(None),
            routed_with: Mutex::new(None),
            registered: OnceLock::new(),
            pending: Mutex::new(None),
            in_force: ArcSwapOption::empty(),
            sent: AtomicU8::new(Sent::Nothing as u8),
            known_rows: KnownRows::default(),
            failures: Lacking::default(),
            failures_at_adapters: Lacking::default(),
            failures_of_tops: Lacking::default(),
            failures_of_arbitration: Lacking::default(),
            failures_of_links: Lacking::default(),
            retry: Retry::new(host),
            retry_later: AtomicBool::new(false),
            transit: Mutex::default(),
            sweep_log: Mutex::default(),
            distrust: Distrust::default(),
            discovered: Mutex::default(),
            notes: Notes::default(),
            ignored: Mutex::new(None),
            mistake: Mutex::new(None),
            misfit: Mutex::new(None),
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

    /// What tables depend on beside the fabric, as it is now: the configuration file, with what OpenSM's own files say.
    fn asked_for(&self) -> AskedFor {
        let Read { mut settings, mistake } = locked(&self.configuration).read();
        let misread = [self.take_roots(&mut settings), self.take_roles(&mut settings)];
        AskedFor { settings, mistake, misread, max_op_vls: self.host.max_op_vls() }
    }

    /// Says what is wrong with the configuration file as it is now. A standby would read it for the first time when it takes
    /// over.
    pub(super) fn check_settings(&self) {
        let mistake = locked(&self.configuration).parse().err();
        self.tell_once(Message::ConfigFailed, &self.mistake, mistake);
    }

    /// Logs what is to be said now, if that is news.
    ///
    /// - `told`: what was to be said last.
    fn tell_once(&self, message: Message, told: &Mutex<Option<String>>, now: Option<String>) {
        let mut told = locked(told);
        if let Some(text) = now.as_ref().filter(|text| told.as_ref() != Some(text)) {
            self.host.log(message, text);
        }
        *told = now;
    }

    /// Puts the roles of OpenSM's own files before those of the settings. Returns what is wrong with the files.
    fn take_roles(&self, settings: &mut Settings) -> Option<String> {
        let [compute, storage] = options::role_files(self.host.options());
        match engine::read_guid_files(compute.as_deref(), storage.as_deref()) {
            Ok(mut lines) => {
                lines.append(&mut settings.roles.entries);
                settings.roles.entries = lines;
                None
            }
            Err(error) => {
                Some(format!("cn_guid_file and io_guid_file of opensm.conf have no effect: {error}"))
            }
        }
    }

    /// Takes the root switches from OpenSM's own file where the settings name none. Returns what is wrong with it.
    fn take_roots(&self, settings: &mut Settings) -> Option<String> {
        let path = options::root_file(self.host.options()).filter(|_| settings.roots.path.is_none())?;
        match engine::read_roots(&path) {
            Ok(roots) => {
                settings.roots.entries = roots;
                None
            }
            Err(error) => Some(format!("root_guid_file of opensm.conf has no effect: {error}")),
        }
    }

    /// Reports options without effect, if that is news.
    fn tell_ignored(&self) {
        self.tell_once(Message::IgnoredOption, &self.ignored, options::ignored(self.host.options()));
    }

    /// Stores the LIDs that end ports reported, before OpenSM changes them. OpenSM has read its options again: QoS stays on
    /// while one of our engines is set up, and tables from its cache do not outlive the settings that they were made for.
    pub(super) fn discovery_done(&self) {
        let found = self.host.locked(|| discovered(&self.host));
        *locked(&self.discovered) = found;
        if self.is_set_up() {
            self.host.keep_qos_on();
        }
        let is_stale = |routed_for: &AskedFor| *routed_for != self.asked_for();
        if self.host.caches_unicast() && locked(&self.routed_for).as_ref().is_some_and(is_stale) {
            self.host.locked_exclusively(|| self.host.forget_cache());
        }
    }

    /// Whether OpenSM may ask one of our engines.
    fn is_set_up(&self) -> bool {
        let engines = self.registered.get().map_or(&[][..], Vec::as_slice);
        engines.iter().any(|engine| !engine.object.load(Ordering::Relaxed).is_null())
    }

    /// Reads the subnet, computes tables and verifies them, with settings that fit.
    ///
    /// # Errors
    /// Why the fabric cannot be routed. Then nothing has changed, except perhaps hop counts.
    pub(super) fn compute(&self, engine: &Registered) -> Result<(), Failure> {
        let started = Instant::now();
        let mut pending = locked(&self.pending);
        *pending = None;
        let asked = self.asked_for();
        *locked(&self.routed_for) = Some(asked.clone());
        let AskedFor { mut settings, mistake, misread, .. } = asked;
        self.tell_once(Message::ConfigFailed, &self.mistake, mistake);
        if let Some(news) = locked(&self.configuration).news(&settings) {
            self.host.log(Message::Settings, &news);
        }
        if let Some(name) = engine.fixed {
            name.clone_into(&mut settings.engine);
        }
        self.tell_ignored();
        Size::of(&self.host).check().map_err(|error| (Message::TooLittleMemory, error))?;
        let faults = self.distrust.faults();
        let Sifted { fabric, left_out, switches, adapters } =
            snapshot(&self.host, &faults, &locked(&self.discovered))
                .map_err(|error| (Message::SnapshotFailed, error.to_string()))?;
        let reading = started.elapsed();
        let HeldOut { fabric, notes: held, .. } =
            hold_out(fabric, &settings.hold).map_err(|error| (Message::SnapshotFailed, error.to_string()))?;
        let held = held.into_iter().map(|note| note.text);
        let notes = fabric.notes().iter().map(|note| fabric.explain(note));
        let notes = notes.chain(engine::unmatched_names(&fabric, &settings));
        let misread = misread.into_iter().flatten();
        for note in self.notes.news(left_out.into_iter().chain(held).chain(notes).chain(misread)) {
            self.host.log(Message::FabricNote, &note);
        }
        let (routed, transition, planning) = self.step(engine, &fabric, &settings)?;
        let writing = Instant::now();
        let host = &self.host;
        if self.hop_counts(routed.routes.multicast.is_empty()) == HopCounts::Read {
            let failed = |error: CommitError| (Message::CommitFailed, error.to_string());
            let tables = program::switches(host, &fabric, &switches).map_err(failed)?;
            let (written, _) =
                in_own_threads(|| program::write_hops(host, &fabric, &tables, |s| routed.hops.row(s)))
                    .map_err(|error| (Message::CommitFailed, error))?;
            written.map_err(failed)?;
        }
        let writing = writing.elapsed();
        let left_out = (switches, adapters);
        let sweep_log = settings.sweep_log;
        *pending = Some(Pending {
            fabric,
            left_out,
            faults,
            routed,
            started,
            reading,
            planning,
            writing,
            transition,
            sweep_log,
        });
        Ok(())
    }

    /// The next step of the way that was begun, or the first one to new tables; what the log says of it, and the time to plan
    /// the way.
    fn step(
        &self,
        engine: &Registered,
        fabric: &Fabric,
        wanted: &Settings,
    ) -> Result<(Routed, Option<String>, Duration), Failure> {
        let known = self.switches_have_ours() && !self.host.is_first_sweep();
        let before = self.in_force.load_full().filter(|_| known);
        let mut transit = locked(&self.transit);
        let last = before.as_deref().filter(|before| before.hold.is_none());
        if let Some((routed, news)) = last.and_then(|last| transit.next(fabric, wanted, &last.programmed)) {
            // Nothing is computed for a step on the way.
            let routed = Routed { computing: Duration::ZERO, judging: Duration::ZERO, ..routed };
            return Ok((routed, self.tell(news), Duration::ZERO));
        }
        let routed = self.route(engine, fabric, wanted, transit.baseline(wanted).as_deref())?;
        let transit = &mut *transit;
        let planning = Instant::now();
        let (planned, _) = in_own_threads(|| transit.begin(fabric, wanted, routed, before.as_deref()))
            .map_err(|error| (Message::RouteFailed, error))?;
        let (routed, news) = planned;
        Ok((routed, self.tell(news), planning.elapsed()))
    }

    /// Logs what is to be said, and returns it.
    fn tell(&self, news: News) -> Option<String> {
        let (message, text) = news?;
        self.host.log(message, &text);
        Some(text)
    }

    /// Routes with the settings; if they do not fit, with those from before or the nearest that do.
    fn route(
        &self,
        engine: &Registered,
        fabric: &Fabric,
        wanted: &Settings,
        baseline: Option<&Baseline>,
    ) -> Result<Routed, Failure> {
        let mut routed_with = locked(&self.routed_with);
        let mut before = routed_with.clone();
        if let (Some(before), Some(name)) = (&mut before, engine.fixed) {
            name.clone_into(&mut before.engine);
        }
        let keep_engine = engine.fixed.is_some();
        let (fitted, threads) =
            in_own_threads(|| engine::route_fitting(fabric, wanted, before.as_ref(), keep_engine, baseline))
                .map_err(|error| (Message::RouteFailed, error))?;
        let Fitted { routed, settings, misfit } =
            fitted.map_err(|error| (Message::RouteFailed, error.to_string()))?;
        let in_file = |misfit| format!("{}: {misfit}", locked(&self.configuration).path().display());
        self.tell_once(Message::ConfigFailed, &self.misfit, misfit.map(in_file));
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

    /// Whether OpenSM reads hop counts after one of our engines: for its own multicast trees and
    /// for dumps, which may be requested much later if it caches unicast tables. Otherwise they
    /// stay "no path", as writing them costs OpenSM an allocation for each two switches.
    fn hop_counts(&self, multicast_is_opensms: bool) -> HopCounts {
        let read = multicast_is_opensms || self.host.dumps_routing() || self.host.caches_unicast();
        if read { HopCounts::Read } else { HopCounts::NotRead }
    }

    /// Gives OpenSM the computed tables.
    ///
    /// # Errors
    /// OpenSM's tables do not fit.
    pub(super) fn commit(&self, engine: &Registered) -> Result<(), Failure> {
        let nothing = || (Message::NothingToCommit, "no tables were computed in this sweep".to_owned());
        let mut pending = locked(&self.pending).take().ok_or_else(nothing)?;
        let Pending { fabric, left_out, routed, .. } = &pending;
        let (host, start) = (&self.host, Instant::now());
        let tables = program::switches(host, fabric, &left_out.0)
            .map_err(|error| (Message::CommitFailed, error.to_string()))?;
        in_own_threads(|| program::write_lfts(fabric, &tables, &routed.routes.lft))
            .map_err(|error| (Message::CommitFailed, error))?;
        pending.writing += start.elapsed();
        self.host.log(Message::Routed, &summary(&pending));
        let (file, way) = (pending.sweep_log.clone(), pending.transition.as_deref());
        locked(&self.sweep_log).begin(file, &pending, way);
        let Pending { fabric, left_out: (switches, adapters), faults, routed, .. } = pending;
        let left_out = switches.into_iter().chain(adapters);
        let programmed = Arc::new(Programmed::new(fabric, routed.routes).without(left_out));
        self.publish(engine, InForce { programmed, faults, hold: None });
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

    /// The tables to keep if the fabric cannot be routed: ours, if the switches have them and
    /// nobody else will be asked for tables. An administrator who names another engine after ours,
    /// or lets OpenSM fall back to minhop, wants that one then.
    fn to_be_kept(&self, engine: &Registered) -> Option<Arc<InForce>> {
        let alone = engine.is_last() && self.host.has_no_fallback();
        (alone && self.switches_have_ours()).then(|| self.in_force.load_full()).flatten()
    }

    /// Whether the last tables that the switches were sent are ours.
    fn switches_have_ours(&self) -> bool {
        self.sent.load(Ordering::Relaxed) == Sent::Ours as u8 && !self.host.is_new_master()
    }

    /// Whether [`Plugin::hold`] will follow, and whether OpenSM needs hop counts for it.
    pub(super) fn plan_hold(&self, engine: &Registered) -> Option<HopCounts> {
        *locked(&self.pending) = None;
        let in_force = self.to_be_kept(engine)?;
        Some(self.hop_counts(in_force.programmed.routes.multicast.is_empty()))
    }

    /// Whether nothing was computed and [`Plugin::hold`] will follow.
    pub(super) fn is_to_hold(&self, engine: &Registered) -> bool {
        locked(&self.pending).is_none() && self.to_be_kept(engine).is_some()
    }

    /// Gives OpenSM what is still valid of the tables from before; `None` if there are none to
    /// keep.
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
        self.publish(engine, InForce { programmed, faults: in_force.faults.clone(), hold: Some(hold) });
        Ok(())
    }

    /// If no engine will route the fabric, makes the SA continue to answer from what the switches
    /// have, provided that it then assigns the same SLs as before.
    pub(super) fn answer_by_acknowledged(&self, engine: &Registered) {
        let other = self.sent.load(Ordering::Relaxed) == Sent::WithoutSls as u8;
        if other && engine.is_last() && self.host.has_no_fallback() && !self.host.is_new_master() {
            hold::answer_by_acknowledged(&self.host);
        }
    }

    /// Routes a multicast group on its tree; false if no tree serves it.
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
                // A gap that another sweep did not correct stays, so sweeps are not requested
                // forever.
                let held = in_force.hold.is_some();
                let new = !held && gaps.insert((mlid, gap.clone()));
                let then = match (held, new) {
                    (true, _) => "The fabric cannot be rerouted at the moment",
                    (false, true) => "The fabric will be rerouted",
                    (false, false) => "Another sweep did not correct it",
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

#[cfg(test)]
mod tests {
    use std::ffi::{CString, c_void};
    use std::ptr;
    use std::sync::atomic::AtomicPtr;

    use super::{Plugin, Registered};
    use crate::fabric::SwitchId;
    use crate::plugin::abi;
    use crate::plugin::fake::{FakeOpenSm, chain};
    use crate::plugin::message::Message;

    unsafe extern "C" fn no_trees(_: *mut c_void, _: *mut abi::osm_mgrp_box_t) -> abi::ib_api_status_t {
        0
    }

    fn engine() -> Registered {
        let name = CString::from(c"dfdn");
        Registered {
            plugin: ptr::null(),
            name,
            fixed: Some("dfdn"),
            trees: no_trees,
            object: AtomicPtr::default(),
        }
    }

    /// DF21: nothing is routed and nothing written.
    #[test]
    fn without_a_switch_that_answers_nothing_is_routed() {
        let fabric = chain(3);
        let mut fake = FakeOpenSm::new(&fabric);
        for s in fabric.switch_ids() {
            fake.node(fabric.switch_node_id(s)).sw = ptr::null_mut();
        }
        let plugin = Plugin::new(fake.host(), None);
        let (message, text) = plugin.compute(&engine()).expect_err("no switch is left");
        assert_eq!(message, Message::SnapshotFailed);
        assert!(
            text.starts_with("no switch is left to be routed: ") && text.contains("SwitchInfo"),
            "{text}"
        );
        let (message, _) = plugin.commit(&engine()).expect_err("there is nothing to commit");
        assert_eq!(message, Message::NothingToCommit);
    }

    /// DF23: OpenSM holds other switches than those that were routed. No table is written.
    #[test]
    fn tables_for_other_switches_are_not_written() {
        let fabric = chain(3);
        let mut fake = FakeOpenSm::new(&fabric);
        let plugin = Plugin::new(fake.host(), None);
        plugin.compute(&engine()).expect("a chain can be routed");
        fake.hold_switches(&[SwitchId(0), SwitchId(1)]);
        let before = fake.new_lft(SwitchId(0)).to_vec();
        let (message, text) = plugin.commit(&engine()).expect_err("one switch is missing");
        assert_eq!(message, Message::CommitFailed);
        assert!(text.starts_with("OpenSM holds 2 switches where 3 were routed"), "{text}");
        assert_eq!(fake.new_lft(SwitchId(0)), before);
        assert!(plugin.in_force.load().is_none());
        // With all of them the tables are written.
        fake.hold_switches(&fabric.switch_ids().collect::<Vec<_>>());
        plugin.compute(&engine()).expect("a chain can be routed");
        plugin.commit(&engine()).expect("the switches are those that were routed");
        assert_ne!(fake.new_lft(SwitchId(0)), before);
        assert!(plugin.in_force.load().is_some());
    }
}
