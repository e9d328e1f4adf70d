//! What several mixtures have in common, followed once.

use std::sync::Arc;

use crate::fabric::{Fabric, Lid};
use crate::tables::{InForce, Lft, SenderSls, SlVlRow};

use super::{Mixing, Rows};
use crate::verify::graph::Graph;

/// The packets to all LIDs whose way is the same in two states.
///
/// Plans judge many mixtures of the same two tables, which differ in few entries. The other LIDs make the same
/// dependencies in each of them.
pub struct Common<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) sls: &'a SenderSls,
    states: [&'a InForce; 2],
    pub(super) rows: Arc<Rows<'a>>,
    /// By LID: whether its packets are in the graph.
    lids: Vec<bool>,
    /// By turn: whether its row may differ, as none of these packets uses it.
    loose: Vec<bool>,
    pub(super) graph: Graph,
}

impl<'a> Common<'a> {
    /// Follows the packets to all LIDs that have the same entries in both states, over turns with the same rows.
    ///
    /// Cost: that of [`Mixture::new`](super::Mixture::new) for these LIDs, and O(LIDs) for each row that differs.
    ///
    /// # Panics
    /// If a state or the SLs are for another fabric.
    pub fn new(fabric: &'a Fabric, sls: &'a SenderSls, [state, other]: [&'a InForce; 2]) -> Self {
        let mixing = Mixing::new(fabric, sls, &[state, other], None);
        let (rows, others) = (state.sl2vl.rows(), other.sl2vl.rows());
        let loose: Vec<bool> = rows.iter().zip(others).map(|(a, b)| a != b).collect();
        let alike = state.sl2vl.adapters() == other.sl2vl.adapters() && state.lft.lids() == other.lft.lids();
        let turns = Turn::all(&mixing, &loose);
        let is_common = |lid: Lid| {
            let column = state.lft.to(lid);
            alike && column == other.lft.to(lid) && turns.iter().all(|turn| !turn.is_used(column))
        };
        let mut lids = vec![false; state.lft.lids()];
        for lid in (1..lids.len()).filter_map(|lid| Lid::new(lid as u16)) {
            lids[lid.index()] = is_common(lid);
        }
        let graph = mixing.graph(mixing.rows.lanes);
        mixing.follow(&graph, |lid| lids[lid.index()]);
        Self { fabric, sls, states: [state, other], rows: mixing.rows, lids, loose, graph }
    }

    /// Whether these packets are on the same way in a state.
    ///
    /// Cost: O(LIDs x switches) bytes and O(turns) rows compared.
    pub(in crate::verify) fn is_in(&self, state: &InForce) -> bool {
        let own = self.states[0];
        let (rows, own_rows) = (state.sl2vl.rows(), own.sl2vl.rows());
        let same_row = |((a, b), loose): ((&SlVlRow, &SlVlRow), &bool)| *loose || a == b;
        let lft: (&Lft, &Lft) = (&state.lft, &own.lft);
        let mut lids = (1..self.lids.len()).filter_map(|lid| Lid::new(lid as u16));
        // Each of the two states has them on their way.
        let is_either = self.states.iter().any(|either| std::ptr::eq(*either, state));
        let same_way = is_either
            || (state.sl2vl == own.sl2vl || rows.iter().zip(own_rows).zip(&self.loose).all(same_row))
                && lids.all(|lid| !self.has(lid) || lft.0.to(lid) == lft.1.to(lid));
        state.sl2vl.adapters() == own.sl2vl.adapters() && lft.0.lids() == lft.1.lids() && same_way
    }

    /// Whether the packets to a LID are in the graph.
    pub(in crate::verify) fn has(&self, lid: Lid) -> bool {
        self.lids.get(lid.index()).is_some_and(|has| *has)
    }
}

/// A turn from one port of a switch to another.
struct Turn {
    switch: usize,
    out_port: u8,
    /// The switch and its port behind the in port; `None` where end ports or strangers may send.
    from: Option<(usize, u8)>,
}

impl Turn {
    /// Those of a set of turns.
    fn all(mixing: &Mixing<'_>, set: &[bool]) -> Vec<Self> {
        let mut all = Vec::new();
        for (switch, (&first, &side)) in mixing.turns.first.iter().zip(&mixing.turns.side).enumerate() {
            for turn in (0..side * side).filter(|turn| set[first + turn]) {
                let (in_port, out_port) = ((turn / side) as u8, (turn % side) as u8);
                let from = mixing.out(switch, in_port).map(|back| (back.to as usize, back.in_port));
                all.push(Self { switch, out_port, from });
            }
        }
        all
    }

    /// Whether packets to a LID with these entries may take it.
    fn is_used(&self, column: &[u8]) -> bool {
        column[self.switch] == self.out_port && self.from.is_none_or(|(s, port)| column[s] == port)
    }
}
