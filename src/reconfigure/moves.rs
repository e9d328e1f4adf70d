//! What differs between two states, and states between them.

use std::collections::{BTreeSet, HashSet};

use crate::fabric::{Fabric, Lid, PortNum, SwitchId};
use crate::tables::{InForce, McastGroup, PortSet, Transition};

/// Entries and rows to program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    pub(super) entries: BTreeSet<(Lid, SwitchId)>,
    /// (switch, in port, out port).
    pub(super) rows: BTreeSet<(SwitchId, PortNum, PortNum)>,
}

impl Moves {
    /// Everything in which two states differ.
    pub(super) fn between(fabric: &Fabric, before: &InForce, after: &InForce) -> Self {
        let mut moves = Self::default();
        for lid in (1..after.lft.lids()).filter_map(|lid| Lid::new(lid as u16)) {
            let (was, is) = (before.lft.to(lid), after.lft.to(lid));
            if was != is {
                let differ = (0..is.len()).filter(|&s| was[s] != is[s]);
                moves.entries.extend(differ.map(|s| (lid, SwitchId::at(s))));
            }
        }
        let rows_differ = before.sl2vl != after.sl2vl;
        let differs = |s: &SwitchId| rows_differ && before.sl2vl.of(*s) != after.sl2vl.of(*s);
        for s in fabric.switch_ids().filter(differs) {
            let ports = after.sl2vl.ports_of(s) as u8;
            let turns = (0..ports).flat_map(|i| (0..ports).map(move |o| (PortNum(i), PortNum(o))));
            let differ = turns.filter(|&(i, o)| before.sl2vl.row(s, i, o) != after.sl2vl.row(s, i, o));
            moves.rows.extend(differ.map(|(i, o)| (s, i, o)));
        }
        moves
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.rows.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.rows.len()
    }

    /// These without others.
    pub(super) fn without(&self, others: &Self) -> Self {
        Self { entries: &self.entries - &others.entries, rows: &self.rows - &others.rows }
    }

    /// These and others.
    pub(super) fn with(&self, others: &Self) -> Self {
        Self { entries: &self.entries | &others.entries, rows: &self.rows | &others.rows }
    }

    /// Two halves, in order; `None` of a single move.
    pub(super) fn halves(&self) -> Option<[Self; 2]> {
        let half = self.len() / 2;
        let mut first = Self::default();
        first.entries.extend(self.entries.iter().take(half));
        first.rows.extend(self.rows.iter().take(half - first.entries.len()));
        (half > 0).then(|| [self.without(&first), first])
    }

    /// How many of these are among others.
    pub(super) fn common(&self, others: &Self) -> usize {
        self.entries.intersection(&others.entries).count() + self.rows.intersection(&others.rows).count()
    }

    /// Copies these entries and rows of one state to another.
    pub(super) fn program(&self, from: &InForce, to: &mut InForce) {
        for &(lid, s) in &self.entries {
            match from.lft.get(s, lid) {
                Some(port) => to.lft.set(s, lid, port),
                None => to.lft.clear(s, lid),
            }
        }
        for &(s, i, o) in &self.rows {
            to.sl2vl.set(s, i, o, from.sl2vl.row(s, i, o));
        }
    }

    /// A state with these entries and rows of another one.
    pub(super) fn applied(&self, from: &InForce, to: &InForce) -> InForce {
        let mut state = to.clone();
        self.program(from, &mut state);
        state
    }
}

/// All that changes.
pub(super) struct Changes {
    pub(super) all: Moves,
    /// Entries of `all` whose old port has no live channel and no end port, or that did not exist.
    pub(super) dead: BTreeSet<(Lid, SwitchId)>,
    /// These, and the entries over a channel that returned: what is apart from the rest in the step before or after it.
    pub(super) ends: BTreeSet<(Lid, SwitchId)>,
    /// The tree ports that both tables have.
    pub(super) kept_trees: Vec<McastGroup>,
    /// Whether the trees differ.
    pub(super) trees: bool,
}

impl Changes {
    pub(super) fn new(fabric: &Fabric, t: &Transition) -> Self {
        let all = Moves::between(fabric, &t.old, &t.new);
        let ends: BTreeSet<(SwitchId, PortNum)> =
            fabric.endports().iter().filter_map(|end| end.attachment).collect();
        let leads = |s: SwitchId, port: PortNum| {
            fabric.channels().at_port(s, port).is_some() || ends.contains(&(s, port))
        };
        let dead = all.entries.iter().copied().filter(|&(lid, s)| {
            let port = t.old.lft.get(s, lid);
            !port.is_some_and(|port| leads(s, port))
        });
        let dead: BTreeSet<_> = dead.collect();
        let returned: HashSet<_> = t.returned.iter().copied().collect();
        let back = all.entries.iter().copied().filter(|&(lid, s)| {
            let port = t.new.lft.get(s, lid);
            port.is_some_and(|port| returned.contains(&(fabric.switch(s).guid, port.0)))
        });
        Self {
            ends: back.chain(dead.iter().copied()).collect(),
            dead,
            kept_trees: kept(&t.old.multicast, &t.new.multicast),
            trees: t.old.multicast != t.new.multicast,
            all,
        }
    }
}

/// The ports that both lists of trees have.
fn kept(old: &[McastGroup], new: &[McastGroup]) -> Vec<McastGroup> {
    let both = |a: PortSet, b: PortSet| {
        let mut set = PortSet::default();
        a.iter().filter(|&port| b.contains(port)).for_each(|port| set.insert(port));
        set
    };
    let group = |g: &McastGroup| {
        let is = new.iter().find(|is| is.mlid == g.mlid)?;
        let ports: Vec<_> = g.ports.iter().map(|&(s, set)| (s, both(set, is.at(s)))).collect();
        let ports: Vec<_> = ports.into_iter().filter(|(_, set)| !set.is_empty()).collect();
        (!ports.is_empty()).then(|| McastGroup { ports, ..g.clone() })
    };
    old.iter().filter_map(group).collect()
}
