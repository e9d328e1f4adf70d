//! The way from the tables in force to new ones, in steps that are each proven free of credit loops.
//!
//! While OpenSM programs the switches, old and new entries are in force side by side. So what was computed is not
//! handed over at once where that is not proven: [`reconfigure`](crate::reconfigure) plans steps. Each sweep programs
//! one; the next one begins when OpenSM has found everything of the one before acknowledged (`sent.rs`), and asks for
//! another heavy sweep. That is the barrier: OpenSM has discovered the whole fabric anew before the next step leaves.
//!
//! A fabric or settings that change under way begin a new way, from what the switches hold then. Where the
//! switches did not acknowledge everything, or another subnet manager may have programmed them, nobody knows what is
//! in force: then the tables go out at once, and the log says that this was not covered.

use std::collections::VecDeque;
use std::sync::Arc;

use super::guard::guarded;
use super::hold::InForce;
use super::message::Message;
use crate::engine::{Baseline, Lineage, Routed, Settings};
use crate::fabric::Fabric;
use crate::reconfigure::{Options, Planned, Strategy, plan};
use crate::tables::{InForce as State, Programmed, Transition};

/// LIDs times switches from which only the likeliest way is judged, as OpenSM waits meanwhile: the first judgement of
/// a way takes most of a second of CPU time there, and each one does where many rows change.
const LARGE: usize = 10_000_000;

/// What is remembered from sweep to sweep.
#[derive(Default)]
pub(super) struct Transit {
    /// What new tables keep to.
    baseline: Option<Arc<Baseline>>,
    way: Option<Way>,
    /// Whether the switches acknowledged everything of the last tables.
    arrived: bool,
}

/// Steps that are left.
struct Way {
    fabric: Fabric,
    settings: Settings,
    /// The tables in the end.
    target: Routed,
    states: VecDeque<State>,
    steps: usize,
}

/// What to say of a transition.
pub(super) type News = Option<(Message, String)>;

impl Transit {
    /// What new tables keep to, if the settings ask for it.
    pub(super) fn baseline(&self, settings: &Settings) -> Option<Arc<Baseline>> {
        self.baseline.clone().filter(|_| settings.proven_transition)
    }

    /// Forgets everything: other tables are in force now.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The switches acknowledged all tables. Returns whether another step follows.
    pub(super) fn arrived(&mut self) -> bool {
        self.arrived = true;
        self.way.as_ref().is_some_and(|way| !way.states.is_empty())
    }

    /// The next step on the way, if nothing has changed since it began: its tables, and what to say. The step
    /// before is repeated where it has not arrived.
    ///
    /// - `before`: the tables of the step before.
    pub(super) fn next(
        &mut self,
        fabric: &Fabric,
        settings: &Settings,
        before: &Programmed,
    ) -> Option<(Routed, News)> {
        let way = self.way.as_mut()?;
        if !way.fabric.is_same_as(fabric) || way.settings != *settings || way.states.is_empty() {
            self.way = None;
            return None;
        }
        if !self.arrived {
            return Some((Routed { routes: before.routes.clone(), ..way.target.clone() }, None));
        }
        let state = way.states.pop_front()?;
        let (left, of) = (way.states.len(), way.steps);
        let routed = at(&state, &way.target, of - left, of);
        self.arrived = false;
        if left == 0 {
            self.way = None;
        }
        Some((routed, Some((Message::Transition, format!("step {} of {of}", of - left)))))
    }

    /// Takes note of new tables, and returns those of the first step towards them.
    ///
    /// - `before`: the tables that the switches hold, as far as that is known.
    pub(super) fn begin(
        &mut self,
        fabric: &Fabric,
        settings: &Settings,
        routed: Routed,
        before: Option<&InForce>,
    ) -> (Routed, News) {
        self.way = None;
        let arrived = std::mem::take(&mut self.arrived);
        match routed.lineage {
            Lineage::Kept => {}
            _ => self.baseline = Baseline::new(fabric, settings, &routed).map(Arc::new),
        }
        if !settings.proven_transition {
            return (routed, None);
        }
        let Some(before) = before else {
            let text = "the first tables of this OpenSM: it does not know what the switches hold, so the way from there is \
                        not proven";
            return (routed, Some((Message::Transition, text.to_owned())));
        };
        let old = &before.programmed;
        if !arrived || before.hold.is_some() {
            let text = "not every switch has acknowledged the tables from before, so nobody knows what is in force: the \
                        new ones go out at once, and credit loops are possible until they are in place";
            return (routed, Some((Message::TransitionNotProven, text.to_owned())));
        }
        let transition = Transition::between(&old.fabric, &old.routes, fabric, &routed.routes);
        if transition.old == transition.new {
            return (routed, None);
        }
        let size = fabric.num_switches() * fabric.lid_table_len();
        let fewer = old.fabric.channels().len() > fabric.channels().len();
        let strategy = match (size > LARGE, fewer) {
            (false, _) => Strategy::Auto,
            (true, true) => Strategy::LiveThenDead,
            (true, false) => Strategy::Parts,
        };
        let options = Options { strategy, max_steps: settings.transition_steps.into() };
        let planned = match guarded(|| plan(fabric, &transition, options)) {
            Ok(planned) => planned,
            Err(panic) => {
                let text = format!(
                    "the new tables go out at once, as the way to them was not planned: {panic}. This is a \
                     defect of dfdn; please report it"
                );
                return (routed, Some((Message::TransitionNotProven, text)));
            }
        };
        let news = in_words(&planned);
        let steps = planned.states.len() - 1;
        let proven = planned.is_proven();
        let mut states: VecDeque<State> = planned.states.into_iter().skip(1).collect();
        let Some(first) = states.pop_front().filter(|_| steps > 1 && proven) else {
            return (routed, Some(news));
        };
        let first = at(&first, &routed, 1, steps);
        self.way =
            Some(Way { fabric: fabric.clone(), settings: settings.clone(), target: routed, states, steps });
        (first, Some(news))
    }
}

/// The tables of a step.
fn at(state: &State, target: &Routed, step: usize, of: usize) -> Routed {
    let mut routes = state.tables(&target.routes);
    if step < of {
        routes.remarks.push(format!("step {step} of {of} on the way there"));
    }
    Routed { routes, ..target.clone() }
}

/// `in 2 steps (live, then dead entries), each free of credit loops: 12 entries, 3 rows`.
fn in_words(planned: &Planned) -> (Message, String) {
    let Planned { how, changed_entries, changed_rows, dropped_entries, .. } = planned;
    let steps = planned.states.len() - 1;
    let what = format!("{changed_entries} entries and {changed_rows} SL2VL rows change");
    if !planned.is_proven() {
        let text = format!("{what}, at once: no way in steps was proven free of credit loops");
        return (Message::TransitionNotProven, text);
    }
    let number = if steps == 1 { "1 step".to_owned() } else { format!("{steps} steps, a sweep each") };
    let dropped = match dropped_entries {
        0 => String::new(),
        n => format!("; {n} entries drop their packets for a step"),
    };
    (
        Message::Transition,
        format!("{what} in {number} ({how}), free of credit loops whatever arrives first{dropped}"),
    )
}
