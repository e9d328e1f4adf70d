//! The usual case, fast: all entries for a LID lead one hop nearer, and the packets of all sources
//! differ only in SL, or those of all sources on a switch (`by_switch`).
//!
//! Up to 64 LIDs are processed together, one bit each: for every channel, the set of LIDs whose
//! entries lead over it. If each entry leads to a switch that is nearer by the cables, no packet
//! can loop or end elsewhere, and every path is minimal. A turn is taken by the LIDs that both of
//! its channels carry. Its VL then depends on nothing else, so the VLs in use on a channel can be
//! found without ordering the switches. LIDs for which this does not hold, or with packets mapped
//! to VL 15, are left to [`Tree`](super::tree::Tree) and [`Flow`](super::flow::Flow), which are
//! exact in all cases.

mod by_switch;

use crate::fabric::Vl;

use self::by_switch::BySwitch;
use super::flow::{DROPPED, Injection};
use super::used::UsedChannels;
use super::{Destination, Plan, bits};

const NONE: u32 = u32::MAX;

const _: () = assert!((u8::MAX as usize + 1) * (Vl::MAX_DATA as usize + 1) <= u16::MAX as usize);

/// A turn from one channel into another.
#[derive(Clone, Copy)]
struct Turn {
    /// The LIDs that take it.
    lids: u64,
    /// The second channel.
    ahead: u32,
    /// The graph's cell for the VL used on it, counted from the cell of port 0 and VL 0: there may be
    /// more than 2^32 cells, but those of one in port are few.
    cell: u16,
}

/// Buffers, reused for each block.
pub(super) struct Minimal {
    used: UsedChannels,
    /// By switch: LIDs at the distance that the search has reached, one hop farther, and at most at the
    /// reached distance.
    front: Vec<u64>,
    near: Vec<u64>,
    seen: Vec<u64>,
    next: Vec<u64>,
    /// By channel x VL: LIDs.
    held: Vec<u64>,
    /// By first channel.
    turns: Vec<Turn>,
    /// By channel: end of its range of turns.
    turns_end: Vec<u32>,
    /// By channel: LIDs whose packets from adapters take it.
    adapters: Vec<u64>,
    by_switch: BySwitch,
}

/// Result of a search by distance.
#[derive(Default)]
pub(super) struct Search {
    /// LIDs with an entry that does not lead nearer, or that some switch cannot reach by cables.
    astray: u64,
    /// By hops: number of adapter pairs at that distance.
    pub(super) pairs: Vec<u64>,
    /// Largest distance between two switches with adapters.
    pub(super) diameter: u16,
    /// Largest distance.
    pub(super) diameter_all: u16,
}

impl Minimal {
    /// `tile`: number of switches whose entries are transposed at a time.
    pub(super) fn new(switches: usize, tile: usize) -> Self {
        Self {
            used: UsedChannels::new(switches, tile),
            front: vec![0; switches],
            near: vec![0; switches],
            seen: vec![0; switches],
            next: vec![0; switches],
            held: Vec::new(),
            turns: Vec::new(),
            turns_end: Vec::new(),
            adapters: Vec::new(),
            by_switch: BySwitch::default(),
        }
    }

    /// Runs packets from all switches to a block of destinations with each SL in use, and records virtual
    /// channels and dependencies. Also returns the LIDs of the block for which nothing was recorded or
    /// counted: they need the exact check.
    ///
    /// Cost: O(destinations x switches), plus the search.
    pub(super) fn run(&mut self, plan: &Plan<'_>, block: &[Destination]) -> (Search, u64) {
        assert!(!block.is_empty() && block.len() <= 64, "one bit a destination");
        let all = u64::MAX >> (64 - block.len());
        self.read(plan, block);
        let mut search = self.search(plan, block, all);
        // The code below assumes that each channel in use carries packets of the switch that it leaves.
        let mut good = if plan.silent { 0 } else { all & !search.astray };
        for (i, d) in block.iter().enumerate() {
            if plan.routes.lft.to(d.lid)[d.root] != d.port {
                good &= !(1 << i);
            }
        }
        if plan.drops {
            good &= !plan.vls.iter().fold(0, |lids, (sl, vls)| lids | self.dropped(plan, block, *sl, vls));
        }
        if good != all {
            search.pairs = self.search(plan, block, good).pairs;
            self.used.keep(good);
        }
        let to_adapters = to_adapters(plan, block);
        for (sl, vls) in &plan.vls {
            self.note(plan, plan.injections(*sl), vls);
            self.note_adapters(plan, plan.injections(*sl), to_adapters);
        }
        (search, all & !good)
    }

    /// Collects the channels in use.
    fn read(&mut self, plan: &Plan<'_>, block: &[Destination]) {
        let columns: Vec<_> = block.iter().map(|d| plan.routes.lft.to(d.lid)).enumerate().collect();
        self.used.read(self.seen.len(), &columns, |s| {
            let slots = plan.first_slot[s]..plan.first_slot[s] + plan.turns.side[s];
            plan.ahead[slots].iter().map(|ahead| (ahead.to != NONE).then_some((ahead.to, ahead.in_port)))
        });
    }

    /// Breadth-first search from the switches of some LIDs of the block, all at once. Cables work
    /// in both directions.
    ///
    /// Cost: O(levels x channels in use), plus at most O(levels x channels); less if few switches
    /// are equally far away, and none of it if entries lead from all remaining switches.
    fn search(&mut self, plan: &Plan<'_>, block: &[Destination], lids: u64) -> Search {
        let mut found = Search { pairs: vec![0], ..Search::default() };
        let adapters = to_adapters(plan, block) & lids;
        let mut populated = 0;
        self.front.fill(0);
        for (i, d) in block.iter().enumerate().filter(|(i, _)| lids >> i & 1 != 0) {
            self.front[d.root] |= 1 << i;
            let here = plan.adapters[d.root];
            populated |= u64::from(here > 0) << i;
            found.pairs[0] += u64::from(here.saturating_sub(1)) * (adapters >> i & 1);
        }
        self.seen.copy_from_slice(&self.front);
        for level in 1.. {
            let mut open = false;
            for s in 0..self.seen.len() {
                let left = lids & !self.seen[s];
                let mut nearer = 0;
                if left != 0 {
                    nearer = self.used.of(s).iter().fold(0, |n, w| n | w.lids & self.front[w.to as usize]);
                }
                self.near[s] = nearer & left;
                open |= nearer & left != left;
            }
            if open {
                // The others are farther away, or have entries that lead elsewhere.
                self.next.fill(0);
                for (s, &front) in self.front.iter().enumerate().filter(|&(_, &front)| front != 0) {
                    for (_, c) in plan.fabric.channels().out(crate::fabric::SwitchId::at(s)) {
                        self.next[c.to.index()] |= front;
                    }
                }
                for ((next, near), seen) in self.next.iter().zip(&mut self.near).zip(&self.seen) {
                    let next = next & !seen;
                    found.astray |= next & !*near;
                    *near = next;
                }
            }
            let (mut any, mut between, mut pairs) = (0, 0, 0);
            for ((&near, seen), &here) in self.near.iter().zip(&mut self.seen).zip(&plan.adapters) {
                *seen |= near;
                any |= near;
                if here > 0 && near != 0 {
                    between |= near;
                    pairs += u64::from((near & adapters).count_ones()) * u64::from(here);
                }
            }
            if any == 0 {
                break;
            }
            found.diameter_all = level;
            if between & populated != 0 {
                found.diameter = level;
            }
            found.pairs.push(pairs);
            std::mem::swap(&mut self.front, &mut self.near);
            if !open {
                break;
            }
        }
        found.astray |= self.seen.iter().fold(0, |left, seen| left | lids & !seen);
        found
    }

    /// LIDs with packets that are mapped to VL 15 before they reach their last switch.
    fn dropped(&self, plan: &Plan<'_>, block: &[Destination], sl: usize, vls: &[u8]) -> u64 {
        let to_nowhere =
            |s: u32, in_port: u8, out: u8| vls[plan.turn(s as usize, out, in_port)] == Vl::MAX_DATA;
        let mut dropped = 0;
        for s in 0..self.seen.len() {
            for channel in self.used.of(s) {
                if plan.injections(sl)[plan.slot(s, channel.out)].all & DROPPED != 0 {
                    dropped |= channel.lids;
                }
                for ahead in self.used.of(channel.to as usize) {
                    if channel.lids & ahead.lids != 0 && to_nowhere(channel.to, channel.in_port, ahead.out) {
                        dropped |= channel.lids & ahead.lids;
                    }
                }
                for (i, d) in block.iter().enumerate().filter(|(_, d)| d.root == channel.to as usize) {
                    if channel.lids >> i & 1 != 0 && to_nowhere(channel.to, channel.in_port, d.port) {
                        dropped |= 1 << i;
                    }
                }
            }
        }
        dropped
    }

    /// Records which virtual channels the packets with an SL use and wait for.
    ///
    /// - `injections`: by slot.
    /// - `vls`: by turn.
    fn note(&mut self, plan: &Plan<'_>, injections: &[Injection], vls: &[u8]) {
        let lanes = plan.graph.lanes();
        self.held.clear();
        self.held.resize(self.used.all().len() * lanes, 0);
        self.turns.clear();
        self.turns_end.clear();
        for s in 0..self.seen.len() {
            for w in self.used.range(s) {
                let channel = self.used.all()[w];
                for vl in bits(injections[plan.slot(s, channel.out)].all & !DROPPED) {
                    self.held[w * lanes + vl] |= channel.lids;
                }
                let turn = plan.turn(channel.to as usize, 0, channel.in_port);
                self.used.ahead(&channel, |ahead, next, lids| {
                    // The VLs of all turns of a large tree are more than the caches hold.
                    let vl = if lanes == 1 { 0 } else { vls[turn + usize::from(next.out)] };
                    self.held[ahead * lanes + usize::from(vl)] |= lids;
                    let cell = plan.graph.cell(usize::from(next.out), vl) as u16;
                    self.turns.push(Turn { lids, ahead: ahead as u32, cell });
                });
                self.turns_end.push(self.turns.len() as u32);
            }
        }
        let mut begin = 0;
        for ((way, held), &end) in self.used.all().iter().zip(self.held.chunks(lanes)).zip(&self.turns_end) {
            let cells = plan.graph.cell(plan.turn(way.to as usize, 0, way.in_port), 0);
            for turn in &self.turns[begin..end as usize] {
                let vls = held.iter().rev().fold(0, |vls, h| vls << 1 | u16::from(h & turn.lids != 0));
                plan.graph.depend(cells + usize::from(turn.cell), vls);
            }
            begin = end as usize;
        }
        for s in 0..self.seen.len() {
            for w in self.used.range(s) {
                let held = &self.held[w * lanes..][..lanes];
                let vls = held.iter().rev().fold(0, |vls, &h| vls << 1 | u16::from(h != 0));
                plan.graph.carry(plan.slot(s, self.used.all()[w].out), vls);
            }
        }
    }

    /// Records the VLs that packets between adapters use, after [`Minimal::note`] with the same SL.
    /// Stops as soon as all are found.
    fn note_adapters(&mut self, plan: &Plan<'_>, injections: &[Injection], to_adapters: u64) {
        let lanes = plan.graph.lanes();
        let used = self.held.chunks(lanes).fold(0, |vls, held| {
            held.iter().enumerate().fold(vls, |vls, (vl, h)| vls | u16::from(h & to_adapters != 0) << vl)
        });
        if used & !plan.graph.used_by_adapters() == 0 {
            return;
        }
        let mut vls = 0;
        self.adapters.clear();
        for s in 0..self.seen.len() {
            for channel in self.used.of(s) {
                let injected = injections[plan.slot(s, channel.out)].adapters & !DROPPED;
                let lids = if injected == 0 { 0 } else { channel.lids & to_adapters };
                vls |= if lids == 0 { 0 } else { injected };
                self.adapters.push(lids);
            }
        }
        let mut more = true;
        while std::mem::take(&mut more) {
            let mut begin = 0;
            for (w, &end) in self.turns_end.iter().enumerate() {
                for turn in &self.turns[begin..end as usize] {
                    let lids = self.adapters[w] & turn.lids;
                    let ahead = &mut self.adapters[turn.ahead as usize];
                    vls |= u16::from(lids != 0) << (usize::from(turn.cell) % lanes);
                    more |= lids & !*ahead != 0;
                    *ahead |= lids;
                }
                begin = end as usize;
            }
        }
        plan.graph.carry_of_adapters(vls);
    }
}

/// The LIDs of a block that belong to adapters.
fn to_adapters(plan: &Plan<'_>, block: &[Destination]) -> u64 {
    let adapter = |d: &Destination| plan.fabric.endport(d.owner).is_adapter();
    block.iter().enumerate().fold(0, |lids, (i, d)| lids | u64::from(adapter(d)) << i)
}

#[cfg(test)]
mod tests {
    use crate::fabric::{Fabric, Lid, PortNum, Sl, SwitchId, Vl};
    use crate::ordering::{Rule, up_down_rank};
    use crate::routing::{Hops, Lookahead, NoLegalPath, ranked_sssp};
    use crate::tables::{PathSl, Routes, SlVlRow, VlArb};
    use crate::topology::small_members;
    use crate::verify::{Verdict, verify};

    /// The verdict on the same tables with SL 0 stated for each end port: this disables the fast
    /// case.
    fn the_long_way(f: &Fabric, routes: &Routes) -> Verdict {
        let entries = f.endports().len() * f.lid_table_len();
        verify(f, &Routes { path_sl: PathSl::ByEndPort(vec![0; entries]), ..routes.clone() })
    }

    #[test]
    fn both_ways_come_to_the_same() {
        for (name, f) in small_members() {
            let hops = Hops::new(&f).unwrap();
            let rule = Rule::FirstTurnFree(up_down_rank(&f, SwitchId(0)));
            let ranked = ranked_sssp(&f, &hops, &rule, Lookahead::Every, NoLegalPath::Break);
            let mut routes = Routes {
                engine: String::new(),
                lft: ranked.lft,
                sl2vl: rule.sl2vl(&f),
                path_sl: PathSl::one(Sl(0)),
                vlarb: VlArb::fair(2),
                multicast: Vec::new(),
                port_sets: None,
                remarks: Vec::new(),
            };
            let verdict = verify(&f, &routes);
            assert!(verdict.minimal && verdict.reachable, "{name}");
            assert_eq!(verdict, the_long_way(&f, &routes), "{name}");
            // Damages one entry after another and keeps the damage: LFT entries, then SL2VL rows.
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
            let ranked = ranked_sssp(&f, &hops, &Rule::Any, Lookahead::Every, NoLegalPath::Break);
            let mut routes = Routes {
                engine: String::new(),
                lft: ranked.lft,
                sl2vl: Rule::Any.sl2vl(&f),
                path_sl: PathSl::one(Sl(0)),
                vlarb: VlArb::fair(1),
                multicast: Vec::new(),
                port_sets: None,
                remarks: Vec::new(),
            };
            // Two neighbours that forward to each other.
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
