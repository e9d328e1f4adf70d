//! The usual case, fast: all entries for a LID lead one hop nearer, and the packets of all sources
//! are told apart by SL alone.
//!
//! Where every switch sends to one that is nearer by the cables, no packet can go in circles or end
//! elsewhere, every way is minimal, and the order of the switches by distance is one in which the
//! packets can be let run. That is checked entry by entry, against distances that were found from
//! the cables. Where it does not hold, [`Tree`](super::tree::Tree) and [`Flow`](super::flow::Flow)
//! look closer.

use crate::fabric::Vl;

use super::flow::Outcome;
use super::{Destination, Plan};

const NONE: u32 = u32::MAX;
const DROPPED: u16 = 1 << Vl::MAX_DATA;

/// The switches by their distance to one of them.
pub(super) struct Nearest {
    /// The root first.
    order: Vec<u32>,
    /// By hops: the adapters that are so far away, one on the root not counted.
    pub(super) pairs: Vec<u64>,
}

impl Nearest {
    /// Cost: O(switches).
    pub(super) fn new(plan: &Plan<'_>, distance: &[u16]) -> Self {
        let reached = |d: u16| usize::from(d) < distance.len();
        let farthest = distance.iter().copied().filter(|&d| reached(d)).max().unwrap_or(0);
        let mut first = vec![0_u32; usize::from(farthest) + 2];
        let mut pairs = vec![0; usize::from(farthest) + 1];
        for (s, &d) in distance.iter().enumerate().filter(|&(_, &d)| reached(d)) {
            first[usize::from(d) + 1] += 1;
            pairs[usize::from(d)] += u64::from(plan.adapters[s]);
        }
        pairs[0] = pairs[0].saturating_sub(1);
        for d in 0..=usize::from(farthest) {
            first[d + 1] += first[d];
        }
        let mut order = vec![0; first[usize::from(farthest) + 1] as usize];
        for (s, &d) in distance.iter().enumerate().filter(|&(_, &d)| reached(d)) {
            let place = &mut first[usize::from(d)];
            order[*place as usize] = s as u32;
            *place += 1;
        }
        Self { order, pairs }
    }
}

/// A switch with what is known of the entry that it has, and with what passes it.
#[derive(Clone, Copy)]
struct Stop {
    /// The next switch.
    to: u32,
    /// The turns that leave by the port of the entry begin here.
    turns: u32,
    /// The turn that was noted last for the channel out of here, and what with.
    noted_turn: u32,
    noted_vls: u16,
    noted_vl: u8,
    /// The port by which the next switch is entered.
    in_port: u8,
    /// The port of the entry.
    out: u8,
    /// VLs that the sources here inject with, and those that adapters do.
    injected: u16,
    injected_by_adapters: u16,
    /// VLs of what came from behind; zero between two destinations.
    vls: u16,
    /// Whether packets of adapters did.
    adapters: bool,
}

/// Buffers for one SL, reused from destination to destination.
pub(super) struct Minimal {
    sl: usize,
    root: usize,
    stops: Vec<Stop>,
    column: Vec<u8>,
}

impl Minimal {
    pub(super) fn new(switches: usize, sl: usize) -> Self {
        let stop = Stop {
            to: NONE,
            turns: 0,
            noted_turn: NONE,
            noted_vls: 0,
            noted_vl: 0,
            in_port: 0,
            out: 0,
            injected: 0,
            injected_by_adapters: 0,
            vls: 0,
            adapters: false,
        };
        Self { sl, root: usize::MAX, stops: vec![stop; switches], column: vec![0; switches] }
    }

    /// Lets the packets of its SL run from all switches to a destination, and notes virtual channels
    /// and dependencies; `None`, and nothing noted, where some entry does not lead nearer.
    ///
    /// - `column`: entries for the destination by switch.
    /// - `nearest`, `distance`: of the switch that it is on.
    ///
    /// Cost: O(switches); of destinations on one switch in a row, each looks up only what differs
    /// from the one before.
    pub(super) fn run(
        &mut self,
        plan: &Plan<'_>,
        to: &Destination,
        to_adapter: bool,
        column: &[u8],
        nearest: &Nearest,
        distance: &[u16],
    ) -> Option<Outcome> {
        if column[to.root] != to.port || nearest.order.len() < column.len() {
            return None;
        }
        if !self.follow(plan, to.root, column, distance) {
            self.root = usize::MAX;
            return None;
        }
        let mut outcome = Outcome::default();
        for &s in nearest.order[1..].iter().rev() {
            let s = s as usize;
            let stop = &mut self.stops[s];
            let mut adapters = std::mem::take(&mut stop.adapters);
            outcome.dropped |= stop.injected & DROPPED != 0;
            let vls = std::mem::take(&mut stop.vls) | stop.injected & !DROPPED;
            if to_adapter {
                let injected = stop.injected_by_adapters & !DROPPED;
                outcome.adapter_vls |= injected;
                adapters |= injected != 0;
            }
            if vls == 0 {
                continue;
            }
            let (next, in_port, out) = (stop.to as usize, stop.in_port, stop.out);
            let turn = self.stops[next].turns + u32::from(in_port);
            let stop = &mut self.stops[s];
            if stop.noted_turn != turn || stop.noted_vls != vls {
                let row = plan.rows[turn as usize];
                let vl = row.get(crate::fabric::Sl(self.sl as u8)).0;
                // Into the root's own port the turn is one that no channel lies behind.
                if vl != Vl::MAX_DATA && next != to.root {
                    plan.graph.depend(turn as usize, vl, vls);
                }
                plan.graph.carry(plan.slot(s, out), vls);
                (stop.noted_turn, stop.noted_vls, stop.noted_vl) = (turn, vls, vl);
            }
            let vl = stop.noted_vl;
            if vl == Vl::MAX_DATA {
                outcome.dropped = true;
            } else if next != to.root {
                let ahead = &mut self.stops[next];
                ahead.vls |= 1 << vl;
                if adapters {
                    ahead.adapters = true;
                    outcome.adapter_vls |= 1 << vl;
                }
            }
        }
        Some(outcome)
    }

    /// Looks up where the entries lead, and whether all lead nearer.
    fn follow(&mut self, plan: &Plan<'_>, root: usize, column: &[u8], distance: &[u16]) -> bool {
        let same_root = std::mem::replace(&mut self.root, root) == root;
        let mut nearer = true;
        for (word, (new, old)) in column.chunks(8).zip(self.column.chunks(8)).enumerate() {
            if same_root && new == old {
                continue;
            }
            for (i, &out) in new.iter().enumerate() {
                let s = word * 8 + i;
                let stop = &mut self.stops[s];
                if s == root || stop.to == NONE || stop.out != out {
                    let ahead = plan.ahead(s, out);
                    (stop.to, stop.in_port, stop.out) = (ahead.to, ahead.in_port, out);
                    if s == root || ahead.to != NONE {
                        stop.turns = plan.turn(s, out, 0) as u32;
                    }
                    if ahead.to != NONE {
                        let injection = &plan.injections[plan.slot(s, out)];
                        stop.injected = injection.all[self.sl];
                        stop.injected_by_adapters = injection.adapters[self.sl];
                    }
                }
                let leads = stop.to != NONE && distance[stop.to as usize].wrapping_add(1) == distance[s];
                nearer &= leads || s == root;
            }
        }
        self.column.copy_from_slice(column);
        nearer
    }
}

#[cfg(test)]
mod tests {
    use crate::fabric::{Fabric, Lid, PortNum, Sl, SwitchId, Vl};
    use crate::ordering::{Rule, bfs};
    use crate::routing::{Hops, Lookahead, Stuck, ranked_sssp};
    use crate::tables::{PathSl, Routes, SlVlRow, VlArb};
    use crate::topology::small_members;
    use crate::verify::{Verdict, verify};

    /// What is said of the same tables where SL 0 is the word of each end port: then nothing is
    /// looked at the short way.
    fn the_long_way(f: &Fabric, routes: &Routes) -> Verdict {
        let entries = f.endports().len() * f.lid_table_len();
        verify(f, &Routes { path_sl: PathSl::ByEndPort(vec![0; entries]), ..routes.clone() })
    }

    #[test]
    fn both_ways_come_to_the_same() {
        for (name, f) in small_members() {
            let hops = Hops::new(&f).unwrap();
            let rule = Rule::FirstTurnFree(bfs(&f, SwitchId(0)));
            let ranked = ranked_sssp(&f, &hops, &rule, Lookahead::Every, Stuck::Break);
            let mut routes = Routes {
                engine: String::new(),
                lft: ranked.lft,
                sl2vl: rule.sl2vl(&f),
                path_sl: PathSl::one(Sl(0)),
                vlarb: VlArb::fair(2),
                remarks: Vec::new(),
            };
            let verdict = verify(&f, &routes);
            assert!(verdict.minimal && verdict.reachable, "{name}");
            assert_eq!(verdict, the_long_way(&f, &routes), "{name}");
            // Damage in one place after another, kept: entries, then rows.
            for (i, end) in f.endports().iter().enumerate().step_by(3) {
                let s = SwitchId::at((i * 7) % f.num_switches());
                let ports = f.channels().slots_of(s) as u8;
                match i % 4 {
                    0 => routes.lft.clear(s, end.lid),
                    1 => routes.lft.set(s, end.lid, PortNum(i as u8 % (ports + 2))),
                    2 => routes.lft.set(s, end.lid, PortNum::ZERO),
                    _ => {
                        let (inp, out) = (PortNum(i as u8 % ports), PortNum(i as u8 / 2 % ports));
                        routes.sl2vl.set(s, inp, out, SlVlRow::uniform(Vl(if i % 8 == 3 { 15 } else { 3 })));
                    }
                }
                assert_eq!(verify(&f, &routes), the_long_way(&f, &routes), "{name} {i}");
            }
        }
    }

    #[test]
    fn a_way_that_leads_no_nearer_is_not_taken_for_one() {
        for (name, f) in small_members().into_iter().filter(|(_, f)| f.num_switches() > 2) {
            let hops = Hops::new(&f).unwrap();
            let ranked = ranked_sssp(&f, &hops, &Rule::Any, Lookahead::Every, Stuck::Break);
            let mut routes = Routes {
                engine: String::new(),
                lft: ranked.lft,
                sl2vl: Rule::Any.sl2vl(&f),
                path_sl: PathSl::one(Sl(0)),
                vlarb: VlArb::fair(1),
                remarks: Vec::new(),
            };
            // Two neighbours that send to each other.
            let (_, c) = f.channels().iter().next().unwrap();
            let lid =
                |e: &crate::fabric::EndPort| e.attachment.is_some_and(|(s, _)| s != c.from && s != c.to);
            let Some(lid) = f.endports().iter().find(|e| lid(e)).map(|e: &crate::fabric::EndPort| e.lid)
            else {
                continue;
            };
            let lid: Lid = lid;
            routes.lft.set(c.from, lid, c.out_port);
            routes.lft.set(c.to, lid, c.in_port);
            let verdict = verify(&f, &routes);
            assert!(!verdict.loop_free && !verdict.reachable, "{name}");
        }
    }
}
