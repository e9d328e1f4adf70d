//! A change of tables under load: links fail, and management packets rewrite the switches while data packets are on
//! their way.
//!
//! ```text
//!  rewriting  fail, all packets in random order
//!  steps      fail, step 1 in random order, barrier, step 2 in random order, barrier, …
//!             with a drainage instead of the barrier where the plan has one, and hosts that go over to other paths
//!  static     fail, hosts stop, the network drains, all packets in random order, hosts go on
//! ```

use std::collections::{BTreeMap, HashMap};

use super::SimulateError;
use super::drainage::{Drainage, Draining};
use super::network::{End, Network};
use super::random::Random;
use crate::fabric::{Guid, Lid, PortNum, SwitchId};
use crate::tables::{HostPaths, Plan, SlVlRow, Step};

/// A change of tables under load.
///
/// When the warm-up is over, the links that the plan names fail, and at once the switches are programmed. A
/// management packet has a block of 64 forwarding entries, or the SL2VL row of one turn. Hosts keep to the SLs of the
/// old tables, unless they go over to others step by step. The time to notice the failure and to compute new tables is left out: it is the same for all ways.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// What changes. Its links have to belong to the fabric.
    pub plan: Plan,
    /// In which order.
    pub way: Way,
    /// Picoseconds from one management packet to the next.
    pub interval: u64,
    /// Picoseconds between the steps of a plan, where it has no drainage. The proof of a plan needs that packets of
    /// before have left by then.
    pub barrier: u64,
}

/// The order in which switches are programmed. The order within a step depends on the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// All at once, as OpenSM does.
    Rewriting,
    /// Step by step.
    Steps,
    /// Hosts stop to send; when the network is empty, everything is programmed, and they go on.
    Static,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Updated {
    /// When links failed, in picoseconds, as all times.
    pub failed: u64,
    /// Management packets that arrived.
    pub mads: u64,
    /// When the last one arrived; `None` if the run was over before.
    pub programmed: Option<u64>,
    /// When everything flowed again: after the last loss and, if hosts had to stop, when they went on. `None` if that
    /// has not come.
    pub flows: Option<u64>,
    /// How long hosts could not send.
    pub stopped: u64,
    /// How long drainage took.
    pub drained: u64,
    /// When it was over, packets between switches on drained VLs, and those of before that hosts still had to send.
    pub missed: u64,
    /// Packets lost.
    pub lost: Lost,
}

/// Lost packets by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Their entry led to a port without a link.
    pub no_link: u64,
    /// There was no entry, or the row mapped their SL to no VL.
    pub no_entry: u64,
    /// The link of the sender or of the receiver itself had failed.
    pub cut_off: u64,
}

impl Lost {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.no_link + self.no_entry + self.cut_off
    }
}

/// What one management packet writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mad {
    /// (place in [`Live::entries`], port).
    entries: Vec<(usize, u8)>,
    /// (number of the row, row).
    rows: Vec<(usize, SlVlRow)>,
}

/// An update for a network, the same for each run.
pub(super) struct Script {
    /// Wires that fail.
    pub(super) failed: Vec<u32>,
    /// By host: whether it loses its own link.
    pub(super) cut_off: Vec<bool>,
    /// By step of the plan; one step if they are not separate.
    pub(super) steps: Vec<Vec<Mad>>,
    /// By step: what hosts use, and what has to be empty after it.
    pub(super) paths: Vec<Option<HostPaths>>,
    pub(super) drains: Vec<Option<Drainage>>,
    pub(super) update: Update,
}

/// Switch and block, or turn: what one management packet is about.
type Subject = (u32, u32, bool);

impl Script {
    /// # Errors
    /// [`SimulateError::Update`]: the plan names a switch or port that the fabric does not have.
    pub(super) fn new(net: &Network<'_>, update: &Update) -> Result<Self, SimulateError> {
        let refuse = |what: String| SimulateError::Update { what };
        let find = switches(net);
        let mut failed = Vec::new();
        let mut cut_off = vec![false; net.hosts.len()];
        for (guid, port) in &update.plan.failed {
            let s = find(guid)?;
            let wires = net.cable(s, PortNum(*port));
            if wires.is_empty() {
                return Err(refuse(format!("switch {guid} has no cable at port {port} that could fail")));
            }
            failed.extend(wires);
            let host = net.hosts.iter().position(|host| (host.switch, host.port.0) == (s, *port));
            host.into_iter().for_each(|host| cut_off[host] = true);
        }
        failed.sort_unstable();
        failed.dedup();
        let mut live = Live::new(net);
        let mut all = Step::default();
        let mut steps = Vec::new();
        for step in &update.plan.steps {
            let mads = mads(net, &live, step, &find)?;
            mads.iter().for_each(|mad| live.write(mad));
            steps.push(mads);
            all.lft.extend(&step.lft);
            all.sl2vl.extend(&step.sl2vl);
        }
        if update.way != Way::Steps {
            steps = vec![mads(net, &Live::new(net), &all, &find)?];
        }
        // Where there is one step, hosts stay with their first paths.
        let paths = update.plan.steps.iter().take(steps.len()).map(|step| step.paths).collect();
        Ok(Self { failed, cut_off, steps, paths, drains: Vec::new(), update: update.clone() })
    }

    /// Prepares the drainage of all steps, once the number of VLs is known.
    ///
    /// # Errors
    /// As [`Drainage::new`].
    pub(super) fn with_drains(mut self, net: &Network<'_>) -> Result<Self, SimulateError> {
        let find = switches(net);
        let drains = self.update.plan.steps.iter().take(self.steps.len()).map(|step| {
            let needed = self.steps.len() > 1 && !step.drain.is_empty();
            needed.then(|| Drainage::new(net, &step.drain, &self.failed, &find)).transpose()
        });
        self.drains = drains.collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// The VLs of all rows to program, bit n for VL n.
    pub(super) fn vls(&self) -> u16 {
        let rows = self.steps.iter().flatten().flat_map(|mad| &mad.rows);
        let vls = rows.flat_map(|(_, row)| row.vls()).map(|vl| vl.0);
        vls.filter(|&vl| vl < crate::fabric::Vl::MAX_DATA).fold(0, |all, vl| all | 1 << vl)
    }
}

/// Finds switches by GUID.
fn switches(net: &Network<'_>) -> impl Fn(&Guid) -> Result<SwitchId, SimulateError> + use<> {
    let switches: HashMap<Guid, SwitchId> =
        net.fabric.switch_ids().map(|s| (net.fabric.switch(s).guid, s)).collect();
    move |guid| {
        let what = || SimulateError::Update { what: format!("there is no switch {guid}") };
        switches.get(guid).copied().ok_or_else(what)
    }
}

/// The management packets of a step, without what is in force already.
fn mads(
    net: &Network<'_>,
    live: &Live,
    step: &Step,
    find: &impl Fn(&Guid) -> Result<SwitchId, SimulateError>,
) -> Result<Vec<Mad>, SimulateError> {
    // What is written twice gets the last value.
    let (mut entries, mut rows) = (BTreeMap::new(), BTreeMap::new());
    for (guid, lid, port) in &step.lft {
        let s = find(guid)?;
        // No host sends to a LID that the fabric does not have.
        if Lid::new(*lid).is_some_and(|lid| lid.index() < net.fabric.lid_table_len()) {
            entries.insert((s, *lid), *port);
        }
    }
    for (guid, i, o, row) in &step.sl2vl {
        let s = find(guid)?;
        if usize::from(*i.max(o)) >= net.routes.sl2vl.ports_of(s) {
            let what = format!("switch {guid} has no row of port {i} to port {o}");
            return Err(SimulateError::Update { what });
        }
        rows.insert(net.routes.sl2vl.index(s, PortNum(*i), PortNum(*o)), (s, *row));
    }
    let mut mads: BTreeMap<Subject, Mad> = BTreeMap::new();
    for ((s, lid), port) in entries {
        let place = live.place(s.0, lid);
        if live.entries[place] != port {
            let block = (s.0, u32::from(lid) / 64, false);
            mads.entry(block).or_default().entries.push((place, port));
        }
    }
    for (index, (s, row)) in rows {
        if live.rows[index] != row {
            mads.entry((s.0, index as u32, true)).or_default().rows.push((index, row));
        }
    }
    Ok(mads.into_values().collect())
}

/// The tables in force.
pub(super) struct Live {
    switches: usize,
    /// Out port by LID and switch.
    entries: Vec<u8>,
    rows: Vec<SlVlRow>,
}

impl Live {
    fn new(net: &Network<'_>) -> Self {
        let switches = net.fabric.num_switches();
        let mut entries = Vec::with_capacity(net.fabric.lid_table_len() * switches);
        for lid in 0..net.fabric.lid_table_len() {
            match Lid::new(lid as u16) {
                Some(lid) => entries.extend(net.routes.lft.to(lid)),
                None => entries.resize(switches, 0),
            }
        }
        Self { switches, entries, rows: net.routes.sl2vl.rows().to_vec() }
    }

    fn place(&self, switch: u32, dlid: u16) -> usize {
        usize::from(dlid) * self.switches + switch as usize
    }

    pub(super) fn write(&mut self, mad: &Mad) {
        mad.entries.iter().for_each(|&(place, port)| self.entries[place] = port);
        mad.rows.iter().for_each(|&(index, row)| self.rows[index] = row);
    }
}

/// What happens next.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Fail,
    /// Management packet of a step: (step, number).
    Write(usize, usize),
    Barrier,
    /// Hosts go over to the paths of a step.
    GoOver(usize),
    /// Waits for the drainage of a step.
    Empty(usize),
    Stop,
    Drain,
    Go,
}

/// The state of an update in a run.
pub(super) struct Motion<'a> {
    pub(super) script: &'a Script,
    pub(super) live: Live,
    /// In reverse order.
    pub(super) actions: Vec<Action>,
    /// By wire.
    pub(super) dead: Vec<bool>,
    /// The LIDs and SLs that hosts use; `None` for those of the tables.
    pub(super) paths: Option<HostPaths>,
    /// Drainage under way.
    pub(super) draining_lanes: Option<Draining>,
    /// Whether hosts may not send.
    pub(super) stopped: bool,
    /// Whether the next action waits for an empty network.
    pub(super) draining: bool,
    /// Packets that have left their host and have not arrived.
    pub(super) inside: u64,
    /// When hosts went on.
    pub(super) went_on: u64,
    last_loss: u64,
    pub(super) report: Updated,
}

impl<'a> Motion<'a> {
    pub(super) fn new(net: &Network<'_>, script: &'a Script, seed: u64) -> Self {
        // Hosts use random streams with numbers from 0, patterns the last one.
        let mut random = Random::new(seed, u64::MAX - 1);
        let mut actions = vec![Action::Fail];
        let is_static = script.update.way == Way::Static;
        if is_static {
            actions.extend([Action::Stop, Action::Drain]);
        }
        for (i, step) in script.steps.iter().enumerate() {
            if i > 0 {
                let drains = script.drains[i - 1].is_some();
                actions.push(if drains { Action::Empty(i - 1) } else { Action::Barrier });
            }
            let mut order: Vec<usize> = (0..step.len()).collect();
            random.shuffle(&mut order);
            actions.extend(order.into_iter().map(|mad| Action::Write(i, mad)));
            if i > 0 && script.paths[i] != script.paths[i - 1] {
                actions.push(Action::GoOver(i));
            }
        }
        if is_static {
            actions.push(Action::Go);
        }
        actions.reverse();
        Self {
            script,
            live: Live::new(net),
            actions,
            dead: vec![false; net.wires.len()],
            paths: script.paths.first().copied().flatten(),
            draining_lanes: None,
            stopped: false,
            draining: false,
            inside: 0,
            went_on: 0,
            last_loss: 0,
            report: Updated::default(),
        }
    }

    /// As [`Network::forward`], by the tables in force.
    pub(super) fn forward(&self, net: &Network<'_>, end: End, dlid: u16, sl: u8) -> Option<(u32, u32)> {
        let End::Switch { switch, .. } = end else { return None };
        let port = self.live.entries[self.live.place(switch, dlid)];
        net.forward_to(end, port, sl, |row| self.live.rows[row])
    }

    /// Whether the tables in force are those of another.
    #[cfg(test)]
    pub(super) fn holds_same_as(&self, other: &Self) -> bool {
        (&self.live.entries, &self.live.rows) == (&other.live.entries, &other.live.rows)
    }

    pub(super) fn is_dead(&self, wire: u32) -> bool {
        self.dead[wire as usize]
    }

    /// Whether packets may not enter a wire now.
    pub(super) fn holds_back(&self, net: &Network<'_>, wire: u32) -> bool {
        self.stopped && net.is_injection(wire)
    }

    /// A packet has left its host.
    pub(super) fn enters(&mut self) {
        self.inside += 1;
    }

    /// A packet leaves the network. If the network is empty and something waits for that: the time until the next
    /// management packet.
    pub(super) fn leaves(&mut self) -> Option<u64> {
        self.inside -= 1;
        let empty = self.inside == 0 && std::mem::take(&mut self.draining);
        empty.then_some(self.script.update.interval)
    }

    pub(super) fn lose(&mut self, now: u64, from: usize, to: u32, without_link: bool) {
        let cut_off = |host: usize| self.script.cut_off.get(host).copied().unwrap_or(false);
        let lost = &mut self.report.lost;
        if cut_off(from) || cut_off(to as usize) {
            lost.cut_off += 1;
            return;
        }
        *(if without_link { &mut lost.no_link } else { &mut lost.no_entry }) += 1;
        self.last_loss = now;
    }

    /// The report of a run.
    pub(super) fn finished(&self, deadlock: bool) -> Updated {
        let flows = self.report.failed.max(self.last_loss).max(self.went_on);
        let over = self.report.programmed.is_some() && !self.stopped && !deadlock;
        Updated { flows: over.then_some(flows), ..self.report }
    }
}

impl Updated {
    /// As JSON, times in nanoseconds.
    pub(super) fn to_json(self) -> serde_json::Value {
        let nanoseconds = |time: u64| time as f64 / 1000.0;
        serde_json::json!({
            "failed_ns": nanoseconds(self.failed),
            "mads": self.mads,
            "programmed_ns": self.programmed.map(nanoseconds),
            "flows_ns": self.flows.map(nanoseconds),
            "without_service_ns": self.flows.map(|time| nanoseconds(time - self.failed)),
            "stopped_ns": nanoseconds(self.stopped),
            "drained_ns": nanoseconds(self.drained),
            "missed": self.missed,
            "lost": {
                "no_link": self.lost.no_link, "no_entry": self.lost.no_entry, "cut_off": self.lost.cut_off,
                "all": self.lost.total(),
            },
        })
    }
}
