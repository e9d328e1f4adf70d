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
use super::unknown::unknown;
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
    /// Sweeps in a row with errors.
    with_errors: u32,
    /// Whether the step is to be repeated because of the last one.
    repeats: bool,
    /// Sweeps in a row that the step was sent again in, as the switches had not acknowledged everything.
    unacknowledged: u32,
    /// What no proof [covers](unknown) until new tables are in place everywhere.
    uncovered: Option<String>,
}

/// Sweeps that a step is sent again in before the way ends. A switch that takes no tables is left out before; nobody leaves out
/// that of the subnet manager, or half of the fabric.
const PATIENCE: u32 = 6;

/// Sweeps with errors that repeat a step. Multicast tables go out after the others, and OpenSM does not keep whether they
/// were acknowledged. It says only that something in the sweep failed, and a dead host brings that about as well: so the
/// way goes on then.
const REPEATS: u32 = 3;

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

    /// What was computed last was not taken. A step may have been among it, so the way begins anew.
    pub(super) fn lose_way(&mut self) {
        self.way = None;
        self.arrived = false;
    }

    /// The switches acknowledged all tables. Returns whether another step follows.
    pub(super) fn arrived(&mut self) -> bool {
        self.arrived = true;
        self.unacknowledged = 0;
        let goes_on = self.way.as_ref().is_some_and(|way| !way.states.is_empty());
        if !goes_on {
            self.uncovered = None;
        }
        goes_on
    }

    /// A sweep is over. After errors the step on the way is repeated, as some of it may not have arrived.
    pub(super) fn swept(&mut self, had_errors: bool) {
        self.with_errors = if had_errors { self.with_errors.saturating_add(1) } else { 0 };
        self.repeats = had_errors && self.with_errors <= REPEATS;
    }

    /// The next step on the way, if nothing has changed since it began: its tables, and what to say. The step
    /// before is repeated where it has not arrived. Without an end the fabric would stay between old and new tables, with
    /// hosts that do not reach each other: after [`PATIENCE`] sweeps the new tables go out.
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
            self.unacknowledged += 1;
        }
        if self.unacknowledged > PATIENCE {
            self.unacknowledged = 0;
            let text = format!(
                "a step was sent {PATIENCE} times more, and switches have not acknowledged all of it: the new tables go out \
                 at once, and credit loops are possible until they are in place"
            );
            let target = self.way.take()?.target;
            return Some((target, Some((Message::TransitionNotProven, text))));
        }
        if !self.arrived || self.repeats {
            let step = way.steps - way.states.len();
            let again = || {
                let of = way.steps;
                (Message::Transition, format!("step {step} of {of} again: not all of it was acknowledged"))
            };
            let news = (!self.arrived && self.unacknowledged == 1).then(again);
            (self.arrived, self.repeats) = (false, false);
            return Some((Routed { routes: before.routes.clone(), ..way.target.clone() }, news));
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
            let text = "the first tables of this OpenSM, or the first since its port was down: it does not know what the \
                        switches hold, so the way from there is not proven";
            return (routed, Some((Message::Transition, text.to_owned())));
        };
        let old = &before.programmed;
        // Links that are held out are up: entries that are in force may still send over them.
        let (were, are) = (old.fabric.with_held_links(), fabric.with_held_links());
        let transition = Transition::between(&were, &old.routes, &are, &routed.routes);
        if transition.old == transition.new && before.hold.is_none() {
            return (routed, None);
        }
        if !arrived || before.hold.is_some() {
            let text = "not every switch has acknowledged the tables from before, so nobody knows what is in force: the \
                        new ones go out at once, and credit loops are possible until they are in place";
            return (routed, Some((Message::TransitionNotProven, text.to_owned())));
        }
        let size = are.num_switches() * are.lid_table_len();
        let fewer = were.channels().len() > are.channels().len();
        let strategy = match (size > LARGE, fewer) {
            (false, _) => Strategy::Auto,
            (true, true) => Strategy::LiveThenDead,
            (true, false) => Strategy::Parts,
        };
        let options = Options { strategy, max_steps: settings.transition_steps.into() };
        let planned = match guarded(|| plan(&are, &transition, options)) {
            Ok(planned) => planned,
            Err(panic) => {
                let text = format!(
                    "the new tables go out at once, as the way to them was not planned: {panic}. This is a \
                     defect of dfdn; please report it"
                );
                return (routed, Some((Message::TransitionNotProven, text)));
            }
        };
        self.uncovered = unknown(&old.fabric, fabric).or(self.uncovered.take());
        let news = in_words(&planned, self.uncovered.as_deref());
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
///
/// - `unknown`: what that does not cover.
fn in_words(planned: &Planned, unknown: Option<&str>) -> (Message, String) {
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
    let text = format!("{what} in {number} ({how}), free of credit loops whatever arrives first{dropped}");
    match unknown {
        None => (Message::Transition, text),
        Some(unknown) => {
            (Message::TransitionNotProven, format!("{text}. That is not proven for packets over {unknown}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Listed, route_after};
    use crate::fabric::{Hold, Measure, Nodes, hold_out};
    use crate::plugin::fault::Faults;
    use crate::topology::{Ring, small_members};
    use crate::verify::mixture::Mixture;

    /// Changes the entries of the hold file. Returns whether that is said to be proven, and how many steps it takes. What is
    /// said to be proven is judged with all links up.
    fn change(transit: &mut Transit, whole: &Fabric, before: &mut InForce, holds: &[Hold]) -> (bool, usize) {
        let settings =
            Settings { hold: Listed { path: None, entries: holds.to_vec() }, ..Settings::default() };
        let held = hold_out(whole.clone(), holds).unwrap().fabric;
        let baseline = transit.baseline(&settings);
        let routed = route_after(&held, &settings, baseline.as_deref()).unwrap();
        let target = routed.routes.clone();
        transit.arrived();
        let (first, news) = transit.begin(&held, &settings, routed, Some(before));
        let t = Transition::between(whole, &before.programmed.routes, whole, &target);
        *before = in_force(&held, target.clone());
        let said = news.map(|(message, _)| message);
        assert!(said.is_some() || t.old == t.new);
        let is_proven = said != Some(Message::TransitionNotProven);
        let on_whole = |routes| Transition::between(whole, routes, whole, &target).old;
        let way = transit.way.take();
        let left = way.iter().flat_map(|way| &way.states).cloned();
        let states: Vec<State> = [t.old.clone(), on_whole(&first.routes)].into_iter().chain(left).collect();
        for pair in states.windows(2).filter(|_| is_proven) {
            let verdict = Mixture::new(whole, &t.sls, &[&pair[0], &pair[1]]).verdict();
            assert!(verdict.deadlock_free, "{holds:?}");
        }
        (is_proven, states.len() - 1)
    }

    fn in_force(fabric: &Fabric, routes: crate::tables::Routes) -> InForce {
        InForce {
            programmed: Arc::new(Programmed::new(fabric.clone(), routes)),
            faults: Faults::default(),
            hold: None,
        }
    }

    #[test]
    fn a_sweep_with_errors_repeats_a_step_but_not_for_ever() {
        let fabric = Ring { switches: 5, cas: 1 }.build().unwrap();
        let settings = Settings::default();
        let target = route_after(&fabric, &settings, None).unwrap();
        let before = in_force(&fabric, target.routes.clone());
        let state = Transition::between(&fabric, &target.routes, &fabric, &target.routes).new;
        let states = VecDeque::from(vec![state; 2]);
        let way = Way { fabric: fabric.clone(), settings: settings.clone(), target, states, steps: 3 };
        let mut transit = Transit { way: Some(way), arrived: true, ..Transit::default() };
        let mut next = |had_errors: bool| {
            transit.arrived();
            transit.swept(had_errors);
            let (_, news) = transit.next(&fabric, &settings, &before.programmed).unwrap();
            news.map(|(_, text)| text)
        };
        for _ in 0..REPEATS {
            assert_eq!(next(true), None);
        }
        assert_eq!(next(true).as_deref(), Some("step 2 of 3"));
        assert_eq!(next(false).as_deref(), Some("step 3 of 3"));
        // What begins then begins from what is known.
        transit.arrived();
        transit.swept(true);
        assert!(transit.arrived && transit.way.is_none());
    }

    /// Else hosts that have no path in this step would never have one.
    #[test]
    fn a_step_that_nobody_acknowledges_is_not_repeated_for_ever() {
        let fabric = Ring { switches: 5, cas: 1 }.build().unwrap();
        let settings = Settings::default();
        let target = route_after(&fabric, &settings, None).unwrap();
        let before = in_force(&fabric, target.routes.clone());
        let state = Transition::between(&fabric, &target.routes, &fabric, &target.routes).new;
        let way = || {
            let states = VecDeque::from(vec![state.clone(); 2]);
            Way {
                fabric: fabric.clone(),
                settings: settings.clone(),
                target: target.clone(),
                states,
                steps: 3,
            }
        };
        let mut transit = Transit { way: Some(way()), ..Transit::default() };
        let next = |transit: &mut Transit| transit.next(&fabric, &settings, &before.programmed).unwrap().1;
        let said = next(&mut transit);
        assert!(said.is_some_and(|(_, text)| text.starts_with("step 1 of 3 again")));
        for _ in 1..PATIENCE {
            assert!(next(&mut transit).is_none());
        }
        // What arrives late counts all the same, and the next step has as many sweeps again.
        transit.arrived();
        assert_eq!(next(&mut transit).map(|(_, text)| text).as_deref(), Some("step 2 of 3"));
        for _ in 0..PATIENCE {
            assert!(transit.way.is_some());
            next(&mut transit);
        }
        let (message, text) = next(&mut transit).expect("the end of the way is said");
        assert!(message == Message::TransitionNotProven && text.contains("at once"), "{text}");
        assert!(transit.way.is_none());
        // The same tables again are no news, though nobody has acknowledged them.
        let (_, news) = transit.begin(&fabric, &settings, target.clone(), Some(&before));
        assert!(news.is_none() && !transit.arrived);
    }

    /// Drains of switches and links of every family, and their ends.
    #[test]
    fn links_that_are_held_out_may_carry_packets_until_the_last_step() {
        let (mut all, mut proven, mut steps) = (0, 0, 0);
        for (name, whole) in small_members() {
            let settings = Settings::default();
            let routed = route_after(&whole, &settings, None).expect(name);
            for s in whole.switch_ids().step_by(1 + whole.num_switches() / 3) {
                let (_, link) = whole.channels().out(s).next().expect("a link");
                for port in [None, Some(link.out_port)] {
                    let nodes = Nodes::Guid(whole.switch(s).guid);
                    let hold = Hold { measure: Measure::Drain, nodes, port, source: "a test".to_owned() };
                    let mut transit = Transit::default();
                    transit.begin(&whole, &settings, routed.clone(), None);
                    let mut before = in_force(&whole, routed.routes.clone());
                    for holds in [&[hold][..], &[]] {
                        let (is_proven, n) = change(&mut transit, &whole, &mut before, holds);
                        (all, proven, steps) = (all + 1, proven + usize::from(is_proven), steps + n);
                    }
                }
            }
        }
        // The others have several SLs.
        assert!(proven * 10 > all * 9 && steps > all, "{proven} of {all} proven, {steps} steps");
    }
}
