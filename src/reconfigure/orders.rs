//! Rows, entries over channels that failed or returned, and other entries, one after another or together.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::tables::InForce;

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

/// Whether a step is proven: by the parts that are new before and after it, and whether it is the first or the last.
pub(super) type KnownSteps = HashMap<(u8, u8, bool, bool), bool>;

impl Planner<'_> {
    pub(super) fn live_then_dead(&self) -> Way {
        self.way(&[ROWS | LIVE, ALL])
    }

    pub(super) fn rows_then_entries(&self) -> Way {
        self.way(&[ROWS, ALL])
    }

    /// The shortest proven order of at most three steps.
    ///
    /// - `known`: which steps are proven, for further calls.
    ///
    /// Cost: at most 37 mixtures.
    pub(super) fn best_order(&self, max_steps: usize, known: &mut KnownSteps) -> Option<Way> {
        let mut proven = |from: u8, to: u8, first: bool, last: bool| {
            *known
                .entry((from, to, first, last))
                .or_insert_with(|| self.is_proven(&self.state_before(from, first), &self.state_at(to, last)))
        };
        if proven(0, ALL, true, true) {
            return Some(self.way(&[ALL]));
        }
        let distinct = self.distinct();
        if max_steps >= 2 {
            let found = distinct.iter().find(|&&a| proven(0, a, true, false) && proven(a, ALL, false, true));
            if let Some(&a) = found {
                return Some(self.way(&[a, ALL]));
            }
        }
        if max_steps >= 3 {
            for &b in &distinct {
                for &a in distinct.iter().filter(|&&a| a & b == a && a != b) {
                    if proven(0, a, true, false) && proven(a, b, false, false) && proven(b, ALL, false, true)
                    {
                        return Some(self.way(&[a, b, ALL]));
                    }
                }
            }
        }
        None
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

    /// The way over some sets of parts, the last one all.
    fn way(&self, sets: &[u8]) -> Way {
        let mut states = vec![self.transition.old.clone()];
        let mut before = 0;
        let mut words = Vec::new();
        for (i, &set) in sets.iter().enumerate() {
            states.push(self.state_at(set, i + 1 == sets.len()).into_owned());
            words.push(self.words_of(set & !before & !self.empty()));
            before = set;
        }
        let how = if sets.len() == 1 { "one step".to_owned() } else { words.join(", then ") };
        (how, states)
    }

    /// The state before a step.
    fn state_before(&self, set: u8, first: bool) -> Cow<'_, InForce> {
        if first { Cow::Borrowed(&self.transition.old) } else { self.state_at(set, false) }
    }

    /// The state after a step.
    fn state_at(&self, set: u8, last: bool) -> Cow<'_, InForce> {
        if last {
            return Cow::Borrowed(&self.transition.new);
        }
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
        Cow::Owned(state)
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
