//! Rows, entries over channels that failed or returned, and other entries, one after another or together.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use crate::tables::InForce;
use crate::verify::mixture::MixtureVerdict;

use super::moves::Moves;
use super::{Planner, Way};

/// Parts, as bits.
const ENDS: u8 = 1;
const LIVE: u8 = 2;
const ROWS: u8 = 4;
const ALL: u8 = ENDS | LIVE | ROWS;

/// The parts that are new after a step but the last. Earlier ones serve the entries over channels that failed or
/// returned sooner.
const BETWEEN: [u8; 8] = [ALL, ROWS | ENDS, ENDS | LIVE, ENDS, ROWS | LIVE, LIVE, ROWS, 0];

/// A step: the parts that are new before and after it; `None` for the old tables and for the new ones.
type Step = (Option<u8>, Option<u8>);

/// The verdicts on the steps that were tried; `None` for those that are not proven.
pub(super) type KnownSteps = HashMap<Step, Option<MixtureVerdict>>;

impl Planner<'_> {
    pub(super) fn live_then_dead(&self) -> Way {
        self.way(&[ROWS | LIVE], vec![self.state_between(ROWS | LIVE)])
    }

    pub(super) fn rows_then_entries(&self) -> Way {
        self.way(&[ROWS], vec![self.state_between(ROWS)])
    }

    /// The shortest proven order of at most three steps.
    ///
    /// - `known`: for further calls.
    ///
    /// Cost: at most 37 mixtures.
    pub(super) fn best_order(&self, max_steps: usize, known: &mut KnownSteps) -> Option<Way> {
        let (old, new) = (&self.transition.old, &self.transition.new);
        if self.is_proven_step(known, (None, None), || [old, new]) {
            return Some(self.proven_way(known, &[], Vec::new()));
        }
        if max_steps < 2 {
            return None;
        }
        let distinct = self.distinct();
        for &a in &distinct {
            let middle = Between::new(self, a);
            if self.is_proven_step(known, (None, Some(a)), || [old, middle.state()])
                && self.is_proven_step(known, (Some(a), None), || [middle.state(), new])
            {
                return Some(self.proven_way(known, &[a], vec![middle.into_state()]));
            }
        }
        if max_steps < 3 {
            return None;
        }
        for &b in &distinct {
            let second = Between::new(self, b);
            for &a in distinct.iter().filter(|&&a| a & b == a && a != b) {
                let first = Between::new(self, a);
                if self.is_proven_step(known, (None, Some(a)), || [old, first.state()])
                    && self.is_proven_step(known, (Some(a), Some(b)), || [first.state(), second.state()])
                    && self.is_proven_step(known, (Some(b), None), || [second.state(), new])
                {
                    let between = vec![first.into_state(), second.into_state()];
                    return Some(self.proven_way(known, &[a, b], between));
                }
            }
        }
        None
    }

    /// Whether a step is proven.
    ///
    /// - `states`: before and after it.
    fn is_proven_step<'s>(
        &self,
        known: &mut KnownSteps,
        step: Step,
        states: impl FnOnce() -> [&'s InForce; 2],
    ) -> bool {
        known.entry(step).or_insert_with(|| self.mixture(&states()).proof()).is_some()
    }

    /// The way over some sets of parts, whose steps are proven.
    fn proven_way(&self, known: &KnownSteps, sets: &[u8], between: Vec<InForce>) -> Way {
        let step = |i: usize| (i.checked_sub(1).map(|i| sets[i]), sets.get(i).copied());
        let verdicts = (0..=sets.len()).filter_map(|i| known.get(&step(i))?.clone()).collect();
        Way { verdicts, ..self.way(sets, between) }
    }

    /// The states after the first steps that differ from the first and the last one.
    fn distinct(&self) -> Vec<u8> {
        let empty = self.empty();
        let trees = self.changes.trees;
        let differs = |set: &u8| set & empty == 0 && (trees || set | empty != ALL && *set != 0);
        let mut list: Vec<u8> = BETWEEN.iter().map(|set| set & !empty).filter(differs).collect();
        let mut seen = HashSet::new();
        list.retain(|set| seen.insert(*set));
        list
    }

    /// The parts that nothing belongs to.
    fn empty(&self) -> u8 {
        let mut empty = 0;
        for (part, is_empty) in [
            (ENDS, self.changes.ends.is_empty()),
            (LIVE, self.changes.ends.len() == self.changes.all.entries.len()),
            (ROWS, self.changes.all.rows.is_empty()),
        ] {
            empty |= if is_empty { part } else { 0 };
        }
        empty
    }

    /// The way over some sets of parts to all of them.
    ///
    /// - `between`: a state for each set.
    pub(super) fn way(&self, sets: &[u8], between: Vec<InForce>) -> Way {
        let mut before = 0;
        let mut words = Vec::new();
        for &set in sets.iter().chain([&ALL]) {
            words.push(self.words_of(set & !before & !self.empty()));
            before = set;
        }
        let how = if sets.is_empty() { "one step".to_owned() } else { words.join(", then ") };
        let mut states = vec![self.transition.old.clone()];
        states.extend(between);
        states.push(self.transition.new.clone());
        Way::new(how, states)
    }

    /// The state between two steps in which some parts are new.
    fn state_between(&self, set: u8) -> InForce {
        let changes = &self.changes;
        let mut moves = Moves::default();
        if set & ROWS != 0 {
            moves.rows.clone_from(&changes.all.rows);
        }
        let taken = |end: bool| set & if end { ENDS } else { LIVE } != 0;
        let entries = changes.all.entries.iter().copied();
        moves.entries.extend(entries.filter(|entry| taken(changes.ends.contains(entry))));
        let mut state = moves.applied(&self.transition.new, &self.transition.old);
        state.multicast.clone_from(&changes.kept_trees);
        state
    }

    fn words_of(&self, set: u8) -> String {
        let all_dead = self.changes.ends.len() == self.changes.dead.len();
        let ends = if all_dead { "dead entries" } else { "entries over returned links" };
        let names = [(ROWS, "rows"), (LIVE, "live entries"), (ENDS, ends)];
        let names: Vec<&str> =
            names.iter().filter(|(part, _)| set & part != 0).map(|(_, name)| *name).collect();
        if names.is_empty() { "trees".to_owned() } else { names.join(" and ") }
    }
}

/// A state between two steps, made when it is asked for.
struct Between<'a> {
    planner: &'a Planner<'a>,
    set: u8,
    state: OnceCell<InForce>,
}

impl<'a> Between<'a> {
    fn new(planner: &'a Planner<'a>, set: u8) -> Self {
        Self { planner, set, state: OnceCell::new() }
    }

    fn state(&self) -> &InForce {
        self.state.get_or_init(|| self.planner.state_between(self.set))
    }

    fn into_state(self) -> InForce {
        self.state();
        self.state.into_inner().expect("made above")
    }
}
