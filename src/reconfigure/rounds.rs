//! Rounds: each programs as much as can be proven.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::fabric::{ChannelId, Lid, PortNum, Sl, SwitchId, Vl};
use crate::ordering::Acyclic;
use crate::tables::InForce;
use crate::verify::mixture::Dependency;

use super::moves::Moves;
use super::{Planner, Way};

type Lane = (ChannelId, Vl);

/// What a round may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// Entries and rows.
    Both,
    /// Rows in the first round, both afterwards.
    RowsFirst,
    /// Entries in the first round, both afterwards.
    EntriesFirst,
    /// All but entries over channels that failed or returned.
    NoEnds,
}

/// How often to look for what may move first, and for what may stay. Most of what can be had comes from the first two.
const TURNS: usize = 4;

/// How often to look whether more moves fit into a step: enough for some ten that do not among a thousand.
const LOOKS: usize = 64;

/// A step, and what is in the way afterwards.
pub(super) struct Split {
    /// What moves in the step.
    pub(super) first: Moves,
    /// What may neither move then nor stay until the last step.
    pub(super) gone: Moves,
}

impl Planner<'_> {
    /// Two steps: in one of them move entries over channels that failed or returned, in the other one as many others as can
    /// be proven. `None` if that is not proven.
    ///
    /// Entries that [mending](crate::routing::Mending) calls late go with those over channels. They are what is left when
    /// the others have [grown](Self::grown).
    pub(super) fn ends_apart(&self) -> Option<Way> {
        let (old, new) = (&self.transition.old, &self.transition.new);
        let way = |between| Way::new("2 rounds".to_owned(), vec![old.clone(), between, new.clone()]);
        let failed = !self.changes.dead.is_empty();
        let returned = self.changes.ends.len() > self.changes.dead.len();
        let mut to_grow = Vec::new();
        // From one end as many moves as can be had; the step to the other end has to be proven too.
        for (near, far, may_grow) in [(old, new, failed), (new, old, returned)] {
            let start = self.without_changing_trees(near);
            let moves = self.reachable(near, &start, far, Parts::NoEnds, &Moves::default());
            let between = moves.applied(far, &start);
            if self.is_proven(&between, far) {
                return Some(way(between));
            }
            to_grow.extend(may_grow.then_some((near, start, far, moves)));
        }
        to_grow.into_iter().find_map(|(near, start, far, moves)| {
            let between = self.grown(moves, near, &start, far).applied(far, &start);
            self.is_proven(&between, far).then(|| way(between))
        })
    }

    /// Moves that can be programmed in one proven step, and as many others beside them, without those over channels that
    /// failed or returned. Tries all others at once, then each half of those that do not fit, and so on, [`LOOKS`] times.
    ///
    /// - `before`, `start`, `target`: as in [`reachable`](Self::reachable).
    fn grown(&self, mut moves: Moves, before: &InForce, start: &InForce, target: &InForce) -> Moves {
        let mut others = Moves::between(self.fabric, start, target).without(&moves);
        others.entries.retain(|entry| !self.changes.ends.contains(entry));
        let mut open = vec![others];
        let mut looks = 0..LOOKS;
        while let Some(more) = open.pop().filter(|_| looks.next().is_some()) {
            let both = moves.with(&more);
            if self.is_proven(before, &both.applied(target, start)) {
                moves = both;
            } else {
                open.extend(more.halves().into_iter().flatten());
            }
        }
        moves
    }

    /// The state after a round that moves as much as can be proven; `None` if that is nothing.
    ///
    /// - `states`: those so far, the old tables first.
    pub(super) fn round(&self, states: &[InForce], parts: Parts) -> Option<InForce> {
        let before = states.last().expect("at least the old tables");
        let start = self.without_changing_trees(before);
        let parts = if states.len() == 1 { parts } else { Parts::Both };
        let moves = self.reachable(before, &start, &self.transition.new, parts, &Moves::default());
        (!moves.is_empty()).then(|| moves.applied(&self.transition.new, &start))
    }

    /// A state without the tree ports that either tables do not have.
    pub(super) fn without_changing_trees(&self, state: &InForce) -> InForce {
        InForce { multicast: self.changes.kept_trees.clone(), ..state.clone() }
    }

    /// What to move in the next step, so that as little as possible can neither move then nor wait until the last.
    ///
    /// Looks in turn for what may move first, and for what may stay as it is while everything else is new; each
    /// prefers what the other left over.
    ///
    /// - `before`: the state before the step.
    pub(super) fn split(&self, before: &InForce) -> Split {
        let new = &self.transition.new;
        let (start, end) = (self.without_changing_trees(before), self.without_changing_trees(new));
        let all = Moves::between(self.fabric, &start, &end);
        let mut first = self.reachable(before, &start, new, Parts::Both, &Moves::default());
        let mut best: Option<Split> = None;
        for _ in 0..TURNS {
            let late = self.reachable(new, &end, before, Parts::Both, &all.without(&first));
            let early = all.without(&late);
            let gone = early.without(&first);
            let found = Split { first: first.clone(), gone };
            if best.as_ref().is_none_or(|best| found.gone.len() < best.gone.len()) {
                best = Some(found);
            }
            if best.as_ref().is_some_and(|best| best.gone.is_empty()) {
                break;
            }
            first = self.reachable(before, &start, new, Parts::Both, &early);
        }
        best.expect("at least one turn")
    }

    /// Entries and rows of `target` that can be programmed in one proven step.
    ///
    /// Leaves out what makes dependencies against an order of the virtual channels. The order has all dependencies
    /// of the state before, and those of the target if both together have an order, as tables under one rule do. Then
    /// those that most moves need are added as long as they close no cycle.
    ///
    /// Nothing once all looks have been [spent](Self::may_look_at).
    ///
    /// - `before`: the state before the step.
    /// - `start`: the state after it if nothing else changes.
    /// - `parts`: what may move.
    /// - `wanted`: moves whose dependencies are added before others.
    pub(super) fn reachable(
        &self,
        before: &InForce,
        start: &InForce,
        target: &InForce,
        parts: Parts,
        wanted: &Moves,
    ) -> Moves {
        let mut taken = Moves::between(self.fabric, start, target);
        match parts {
            Parts::Both => {}
            Parts::RowsFirst => taken.entries.clear(),
            Parts::EntriesFirst => taken.rows.clear(),
            Parts::NoEnds => taken.entries.retain(|entry| !self.changes.ends.contains(entry)),
        }
        while !taken.is_empty() {
            let after = taken.applied(target, start);
            let mixture = self.mixture(&[before, &after]);
            if mixture.is_deadlock_free() {
                break;
            }
            if !self.may_look_at(0) {
                return Moves::default();
            }
            let components = mixture.cyclic_components();
            let arcs = mixture.within(&components);
            self.may_look_at(arcs.iter().map(|d| d.lids.len()).sum());
            let alone = |state: &InForce| self.mixture(&[state]).arcs(&components);
            let ends = [alone(before), alone(target)];
            let reasons = Reasons { planner: self, before, target, taken: &taken };
            let culprits = rejected(&arcs, &ends, &reasons, wanted);
            let size = taken.len();
            taken = taken.without(&culprits);
            if taken.len() == size {
                // Multicast alone closes the cycle, or the state before is not free of cycles.
                taken = Moves::default();
            }
        }
        taken
    }
}

/// The moves that make dependencies against the order that is found.
///
/// - `ends`: the dependencies of the state before and of the target, each alone.
fn rejected(
    arcs: &[Dependency],
    ends: &[HashSet<(Lane, Lane)>; 2],
    reasons: &Reasons<'_>,
    wanted: &Moves,
) -> Moves {
    let lanes: BTreeSet<Lane> = arcs.iter().flat_map(|d| [d.from, d.to]).collect();
    let number: BTreeMap<Lane, usize> = lanes.into_iter().enumerate().map(|(i, lane)| (lane, i)).collect();
    let ordered = |ends: &[HashSet<(Lane, Lane)>]| {
        let mut graph = Acyclic::new(number.len());
        let (base, others): (Vec<&Dependency>, Vec<_>) =
            arcs.iter().partition(|d| ends.iter().any(|end| end.contains(&(d.from, d.to))));
        let added = base.iter().filter(|d| graph.add(number[&d.from], number[&d.to])).count();
        (added == base.len(), graph, others)
    };
    let (fits, mut graph, mut others) = ordered(ends);
    if !fits {
        // Both together have no order.
        (_, graph, others) = ordered(&ends[..1]);
    }
    let with_moves = |d| {
        let mut moves = Moves::default();
        reasons.add(d, &mut moves);
        (moves.common(wanted), moves.len(), d, moves)
    };
    let mut others: Vec<(usize, usize, &Dependency, Moves)> = others.into_iter().map(with_moves).collect();
    others.sort_by_key(|&(common, all, d, _)| (Reverse(common), Reverse(all), d.from, d.to));
    let mut culprits = Moves::default();
    for (_, _, d, moves) in others {
        if !graph.add(number[&d.from], number[&d.to]) {
            // `append` would go through all that is there, for each dependency.
            culprits.entries.extend(moves.entries);
            culprits.rows.extend(moves.rows);
        }
    }
    culprits
}

/// Finds the moves that make a dependency.
struct Reasons<'a> {
    planner: &'a Planner<'a>,
    before: &'a InForce,
    target: &'a InForce,
    taken: &'a Moves,
}

impl Reasons<'_> {
    fn add(&self, d: &Dependency, culprits: &mut Moves) {
        let channels = self.planner.fabric.channels();
        let (c, e) = (channels.get(d.from.0), channels.get(d.to.0));
        let turn = (c.to, c.in_port, e.out_port);
        let row_moves = self.taken.rows.contains(&turn)
            && (0..16).all(|sl| self.before.sl2vl.row(turn.0, turn.1, turn.2).get(Sl(sl)) != d.to.1);
        if row_moves || !d.mlids.is_empty() {
            culprits.rows.extend(self.taken.rows.contains(&turn).then_some(turn));
        }
        if row_moves {
            return;
        }
        let is_new = |lid: Lid, s: SwitchId, port| self.before.lft.get(s, lid) != Some(port);
        for &lid in &d.lids {
            let entry = if is_new(lid, e.from, e.out_port) {
                (lid, e.from)
            } else if is_new(lid, c.from, c.out_port) {
                (lid, c.from)
            } else {
                self.upstream(lid, d.from, turn, culprits);
                continue;
            };
            if self.taken.entries.contains(&entry) {
                culprits.entries.insert(entry);
            }
        }
    }

    /// The packets take an old turn, but only new entries or rows bring them there, or there on this VL.
    fn upstream(&self, lid: Lid, from: Lane, turn: (SwitchId, PortNum, PortNum), culprits: &mut Moves) {
        let c = self.planner.fabric.channels().get(from.0);
        let ports = 0..self.before.sl2vl.ports_of(c.from) as u8;
        let turns = ports.map(|i| (c.from, PortNum(i), c.out_port));
        // Rows that may put packets on this VL only when they are new.
        let has = |state: &InForce, (s, i, o)| state.sl2vl.row(s, i, o).vls().contains(&from.1);
        let new = |t: &(SwitchId, PortNum, PortNum)| {
            self.taken.rows.contains(t) && !has(self.before, *t) && has(self.target, *t)
        };
        let rows: Vec<_> = turns.filter(new).collect();
        if rows.is_empty() {
            let mut entries = self.leading_to(lid, c.from);
            if entries.is_empty() {
                let of_lid = self.taken.entries.range((lid, SwitchId(0))..=(lid, SwitchId(u32::MAX)));
                entries.extend(of_lid);
            }
            culprits.entries.extend(entries);
            let of_switch = (c.from, PortNum(0), PortNum(0))..=(c.from, PortNum(u8::MAX), PortNum(u8::MAX));
            culprits.rows.extend(self.taken.rows.range(of_switch));
            culprits.rows.extend(self.taken.rows.contains(&turn).then_some(turn));
        }
        culprits.rows.extend(rows);
    }

    /// The new entries for a LID that lead to a switch from which old ones lead on to this one, or to this one itself.
    fn leading_to(&self, lid: Lid, switch: SwitchId) -> Vec<(Lid, SwitchId)> {
        let channels = self.planner.fabric.channels();
        let mut open = vec![switch];
        let mut seen = BTreeSet::from([switch]);
        let mut entries = Vec::new();
        while let Some(s) = open.pop() {
            for (_, back) in channels.out(s) {
                let (from, port) = (back.to, Some(back.in_port));
                if self.before.lft.get(from, lid) == port && seen.insert(from) {
                    open.push(from);
                }
                if self.target.lft.get(from, lid) == port && self.taken.entries.contains(&(lid, from)) {
                    entries.push((lid, from));
                }
            }
        }
        entries
    }
}
