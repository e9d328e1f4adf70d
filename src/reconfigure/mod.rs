//! Plans the way from tables in force to new ones: which entries, rows and trees to program together, so that each
//! step is proven free of credit loops.
//!
//! A plan is a sequence of states, the old tables first and the new ones last. Between two of them, every entry, row
//! and tree port may be that of either. [`Mixture`], which shares no code with the planner, judges each step.
//!
//! Strategies, in the order of their price:
//!
//! 1. One step.
//! 2. Parts in a fixed order: the rows of SL2VL, the entries that can still forward (*live*), and those that lead
//!    over a channel that is gone (*dead*). Live entries first heals what a failed link in a tree does: a packet goes
//!    down by an old entry, meets a new one that leads up again, and so takes a turn that neither tables have. Where a
//!    channel returns, the entries over it go first, for the same reason backwards.
//! 3. Rounds: each programs as much as can be proven.
//! 4. Discards: entries that no round can place drop their packets for a step. This is always proven if both the
//!    old and the new tables are, with all SLs that packets may have, as every state then lies within one of them.
//!
//! Beside these there is the Double Scheme ([`double_scheme()`]), which needs the help of all hosts.
//!
//! Multicast trees that change are taken away by the first step and completed by the last, unless everything can go
//! in one step.

mod discard;
mod double_scheme;
mod moves;
mod orders;
mod rounds;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;

use crate::fabric::Fabric;
use crate::tables::{HostPaths, InForce, Plan, PlanError, SenderSls, Transition};
use crate::verify::mixture::{Common, Mixture, MixtureVerdict};

pub use double_scheme::{DoubleSchemeError, double_scheme};
use moves::{Changes, Moves};
use orders::KnownSteps;

/// How a plan is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The cheapest that is proven.
    Auto,
    /// Everything at once.
    OneStep,
    /// Live entries with rows, then dead entries.
    LiveThenDead,
    /// Rows, then all entries.
    RowsThenEntries,
    /// Rows, live entries and dead entries in the best order.
    Parts,
    /// As much as can be proven, again and again, with discards for the rest.
    Rounds,
    /// Drop what changes, change the rows, program the rest.
    Discard,
}

impl Strategy {
    /// All of them with their names.
    pub const ALL: [(&'static str, Self); 7] = [
        ("auto", Self::Auto),
        ("one-step", Self::OneStep),
        ("live-then-dead", Self::LiveThenDead),
        ("rows-then-entries", Self::RowsThenEntries),
        ("parts", Self::Parts),
        ("rounds", Self::Rounds),
        ("discard", Self::Discard),
    ];
}

/// Bounds of the search.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How a plan is searched.
    pub strategy: Strategy,
    /// Steps at most, at least 1; one more if discards change rows.
    pub max_steps: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { strategy: Strategy::Auto, max_steps: 6 }
    }
}

/// A plan and the verdict on each of its steps.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Which way was found, as one line.
    pub how: String,
    /// What to program.
    pub plan: Plan,
    /// The states: one more than steps.
    pub states: Vec<InForce>,
    /// By step.
    pub verdicts: Vec<MixtureVerdict>,
    /// Whether the old tables alone are free of credit loops on the new fabric, with all SLs that packets may have.
    pub old_proven: bool,
    /// The same for the new tables. If not, hosts that go on with SLs of the old tables can close one, and no plan
    /// helps before they ask for their paths again.
    pub new_proven: bool,
    /// Entries that differ between the old and the new tables.
    pub changed_entries: usize,
    /// Rows that differ.
    pub changed_rows: usize,
    /// Entries that drop their packets for a step, beside those whose channel is gone.
    pub dropped_entries: usize,
}

impl Planned {
    /// Whether every step is free of credit loops.
    pub fn is_proven(&self) -> bool {
        self.verdicts.iter().all(|v| v.deadlock_free)
    }

    /// Whether no packet can loop in any step.
    pub fn is_loop_free(&self) -> bool {
        self.verdicts.iter().all(|v| v.loop_free)
    }
}

/// Plans the way between some tables.
///
/// - `fabric`: the one that the new tables are made for.
///
/// Cost: a [`Mixture`] for one step; at most 60 for parts, and one for each attempt of a round.
pub fn plan(fabric: &Fabric, transition: &Transition, options: Options) -> Planned {
    let planner = Planner::new(fabric, transition);
    let way = planner.search(options);
    planner.judged(Plan::between(fabric, transition, &way.states), way)
}

/// Judges the steps of a plan that was made elsewhere.
///
/// # Errors
/// A switch, LID or port that the fabric does not have.
pub fn judge(fabric: &Fabric, transition: &Transition, plan: &Plan) -> Result<Planned, PlanError> {
    let states = plan.states(fabric, transition)?;
    Ok(Planner::new(fabric, transition).judged(plan.clone(), Way::new("given".to_owned(), states)))
}

/// The SLs of packets during a step of a plan, its number from 0. Hosts may go over from the paths of the step before to
/// its own at any time. Packets on those of earlier steps have left.
pub fn senders<'a>(
    fabric: &Fabric,
    transition: &'a Transition,
    plan: &Plan,
    step: usize,
) -> Cow<'a, SenderSls> {
    let steps = &plan.steps[step.saturating_sub(1)..=step];
    let paths: Option<Vec<HostPaths>> = steps.iter().map(|step| step.paths).collect();
    match paths {
        Some(paths) => Cow::Owned(double_scheme::senders_of(fabric, transition, &paths)),
        None => Cow::Borrowed(&transition.sls),
    }
}

/// LIDs of dependencies that a plan may look at for what closes cycles: some ten seconds. A torus of 512 switches with 8
/// SLs took several minutes where dimension order was out of reach.
const MOST_LOOKS: usize = 8_000_000;

/// What all strategies need.
struct Planner<'a> {
    fabric: &'a Fabric,
    transition: &'a Transition,
    changes: Changes,
    common: Common<'a>,
    /// LIDs of dependencies that may be looked at still.
    looks: Cell<usize>,
}

/// A way from the old tables to the new ones.
struct Way {
    /// As words.
    how: String,
    states: Vec<InForce>,
    /// By step; none where they are not known.
    verdicts: Vec<MixtureVerdict>,
}

impl Way {
    fn new(how: String, states: Vec<InForce>) -> Self {
        Self { how, states, verdicts: Vec::new() }
    }
}

impl<'a> Planner<'a> {
    fn new(fabric: &'a Fabric, transition: &'a Transition) -> Self {
        let changes = Changes::new(fabric, transition);
        let Transition { old, new, sls, .. } = transition;
        let common = Common::new(fabric, sls, [old, new]);
        Self { fabric, transition, changes, common, looks: Cell::new(MOST_LOOKS) }
    }

    /// Whether so many LIDs of dependencies that close cycles may be looked at. If not, nothing may from then on.
    fn may_look_at(&self, lids: usize) -> bool {
        let left = self.looks.get().checked_sub(lids);
        self.looks.set(left.unwrap_or(0));
        left.is_some_and(|left| left > 0)
    }

    /// The mixture of some states.
    fn mixture<'b>(&'b self, states: &[&'b InForce]) -> Mixture<'b> {
        Mixture::beside(&self.common, states)
    }

    fn search(&self, options: Options) -> Way {
        let Options { strategy, max_steps } = options;
        let mut known = KnownSteps::new();
        let one = || self.way(&[], Vec::new());
        match strategy {
            Strategy::OneStep => one(),
            Strategy::LiveThenDead => self.live_then_dead(),
            Strategy::RowsThenEntries => self.rows_then_entries(),
            Strategy::Parts => self.best_order(max_steps, &mut known).unwrap_or_else(one),
            Strategy::Rounds => self.rounds(max_steps),
            Strategy::Discard => self.discard_all(),
            Strategy::Auto if max_steps < 2 => one(),
            Strategy::Auto => {
                let two = self.best_order(max_steps.min(2), &mut known).or_else(|| self.ends_apart());
                two.unwrap_or_else(|| {
                    let rounds = self.rounds(max_steps);
                    let is_dear = rounds.states.len() > 3 || self.dropped(&rounds.states) > 0;
                    let order = if is_dear { self.best_order(max_steps, &mut known) } else { None };
                    order.unwrap_or(rounds)
                })
            }
        }
    }

    /// Whether a step between two states is proven.
    fn is_proven(&self, before: &InForce, after: &InForce) -> bool {
        self.mixture(&[before, after]).is_deadlock_free()
    }

    /// - `plan`: from state to state of the way.
    fn judged(&self, plan: Plan, Way { how, states, verdicts }: Way) -> Planned {
        let verdict = |(i, pair): (usize, &[InForce])| {
            let states = [&pair[0], &pair[1]];
            match senders(self.fabric, self.transition, &plan, i) {
                Cow::Borrowed(_) => self.mixture(&states).verdict(),
                Cow::Owned(sls) => Mixture::new(self.fabric, &sls, &states).verdict(),
            }
        };
        let known = Some(verdicts).filter(|known| !known.is_empty());
        let verdicts = known.unwrap_or_else(|| states.windows(2).enumerate().map(verdict).collect());
        // What holds in a mixture holds in each of its states, with all SLs.
        let any_sl = plan.steps.iter().all(|step| step.paths.is_none());
        let alone = |step: Option<&MixtureVerdict>, state: &InForce| {
            any_sl && step.is_some_and(|v| v.deadlock_free) || self.is_proven(state, state)
        };
        Planned {
            how,
            old_proven: alone(verdicts.first(), &self.transition.old),
            new_proven: alone(verdicts.last(), &states[states.len() - 1]),
            verdicts,
            changed_entries: self.changes.all.entries.len(),
            changed_rows: self.changes.all.rows.len(),
            dropped_entries: self.dropped(&states),
            plan,
            states,
        }
    }

    /// See [`Planned::dropped_entries`].
    fn dropped(&self, states: &[InForce]) -> usize {
        let [_, between @ .., last] = states else { return 0 };
        let all = Moves::between(self.fabric, &self.transition.old, last).entries;
        let unchanged = between.iter().flat_map(|state| Moves::between(self.fabric, last, state).entries);
        let touched: BTreeSet<_> = all.into_iter().chain(unchanged).collect();
        let has = |state: &InForce, (lid, s)| state.lft.get(s, lid).is_some();
        let drops = |entry: &&_| {
            !self.changes.dead.contains(*entry)
                && has(&self.transition.old, **entry)
                && has(last, **entry)
                && between.iter().any(|state| !has(state, **entry))
        };
        touched.iter().filter(drops).count()
    }
}
