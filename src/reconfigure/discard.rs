//! Discards: entries that drop their packets for a step, where nothing else is proven.

use crate::fabric::{Lid, PortNum, SwitchId};
use crate::tables::{InForce, Lft, McastGroup};

use super::moves::Moves;
use super::rounds::{Parts, Split};
use super::{Planner, Way};

impl Planner<'_> {
    /// Rounds, at most two of them after what others prepare; and discards for what may neither move first nor stay
    /// until the last step. Of the ways to begin, the first without discards, or the one that drops the fewest
    /// entries. Without discards it has at most `max_steps` steps. Once all looks have been
    /// [spent](Self::may_look_at), the best so far: at least the one that drops all that changes.
    pub(super) fn rounds(&self, max_steps: usize) -> Way {
        let mut best: Option<(usize, Way)> = None;
        // Without rows all begin alike.
        let begin = if self.changes.all.rows.is_empty() { 1 } else { 3 };
        for &parts in &[Parts::Both, Parts::RowsFirst, Parts::EntriesFirst][..begin] {
            let mut states = vec![self.transition.old.clone()];
            loop {
                if parts == Parts::Both || states.len() > 1 {
                    let way = self.last_two(&states);
                    let dropped = self.dropped(&way.states);
                    if dropped == 0 && way.states.len() <= max_steps.max(2) + 1 {
                        return way;
                    }
                    if best.as_ref().is_none_or(|(least, _)| dropped < *least) {
                        best = Some((dropped, way));
                    }
                }
                let may_go_on = states.len() + 1 < max_steps && self.may_look_at(0);
                let next = if may_go_on { self.round(&states, parts) } else { None };
                let Some(next) = next else { break };
                states.push(next);
            }
        }
        best.expect("at least the way without prepared rounds").1
    }

    /// The last two rounds, with discards between them for what is in the way.
    fn last_two(&self, rounds: &[InForce]) -> Way {
        let before = rounds.last().expect("at least the old tables");
        let new = &self.transition.new;
        if rounds.len() > 1 && self.is_proven(before, new) {
            let states = [rounds, std::slice::from_ref(new)].concat();
            return Way::new(format!("{} rounds", states.len() - 1), states);
        }
        let Split { first, gone } = self.split(before);
        if gone.is_empty() {
            let between = first.applied(new, &self.without_changing_trees(before));
            let states = [rounds, &[between, new.clone()]].concat();
            return Way::new(format!("{} rounds", states.len() - 1), states);
        }
        self.discard(rounds, &first, &gone)
    }

    /// Nothing moves before all that changes has been dropped.
    pub(super) fn discard_all(&self) -> Way {
        self.discard(std::slice::from_ref(&self.transition.old), &Moves::default(), &self.changes.all)
    }

    /// - `rounds`: the states so far.
    /// - `first`: moves of the next step.
    /// - `gone`: entries to drop in that step, and rows to change once no entry uses their turns.
    ///
    /// Until then, every packet travels as before or by entries of `first`; after the last step as by the new tables. In between there is nothing but what both allow.
    fn discard(&self, rounds: &[InForce], first: &Moves, gone: &Moves) -> Way {
        let new = &self.transition.new;
        let before = rounds.last().expect("at least the old tables");
        let mut dropped = first.applied(new, &self.without_changing_trees(before));
        for &(lid, s) in &gone.entries {
            dropped.lft.clear(s, lid);
        }
        for &turn in &gone.rows {
            self.close(&mut dropped, turn);
        }
        dropped.multicast.retain(|group| !group.ports.is_empty());
        let mut states = rounds.to_vec();
        states.push(dropped);
        if !gone.rows.is_empty() {
            let rows = Moves { rows: gone.rows.clone(), ..Moves::default() };
            states.push(rows.applied(new, states.last().expect("the state with discards")));
        }
        states.push(new.clone());
        Way::new(format!("discards in {} steps", states.len() - 1), states)
    }

    /// Drops all packets that would take a turn towards another switch.
    fn close(&self, state: &mut InForce, (s, in_port, out_port): (SwitchId, PortNum, PortNum)) {
        let channels = self.fabric.channels();
        if channels.at_port(s, out_port).is_none() {
            return;
        }
        // The switch behind the in port, unless an end port is there.
        let behind = channels.at_port(s, in_port).map(|c| channels.get(c)).map(|c| (c.to, c.in_port));
        for lid in (1..state.lft.lids()).filter_map(|lid| Lid::new(lid as u16)) {
            let column = state.lft.to_mut(lid);
            let comes = behind.is_none_or(|(from, port)| column[from.index()] == port.0);
            if comes && column[s.index()] == out_port.0 {
                column[s.index()] = Lft::NO_PATH;
            }
        }
        for McastGroup { ports, .. } in &mut state.multicast {
            for (_, set) in ports.iter_mut().filter(|(at, _)| *at == s) {
                set.remove(out_port);
            }
            ports.retain(|(_, set)| !set.is_empty());
        }
    }
}
