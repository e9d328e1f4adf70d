//! The usual case for tables whose SLs depend on the switch of the sender, as those of DF-DN.
//!
//! The LIDs that a channel carries differ by SL, so each SL is followed from the switches that send with it, all LIDs
//! of the block at once. A packet takes every turn whose two channels lead to its LID, and the VL of the second is that
//! of the row, whatever the first was on.

use super::{Destination, Minimal, Plan, Search, bits, to_adapters};
use crate::fabric::{Sl, Vl};
use crate::tables::SlVlRow;
use crate::verify::flow::DROPPED;

/// A turn from one channel into another.
#[derive(Clone, Copy)]
struct Step {
    /// The LIDs whose entries take it.
    lids: u64,
    row: SlVlRow,
    /// The second channel.
    ahead: u32,
    /// Its port.
    out: u8,
}

/// Buffers, reused for each block and SL.
#[derive(Default)]
pub(super) struct BySwitch {
    /// By first channel.
    steps: Vec<Step>,
    /// By channel: its first step; and one more entry.
    first: Vec<u32>,
    /// By SL in use x switch: LIDs to which it sends with the SL.
    senders: Vec<u64>,
    /// By channel: LIDs of packets with the SL, and those of them that are not passed on yet. All zero between SLs.
    carried: Vec<u64>,
    fresh: Vec<u64>,
    /// By channel x VL: LIDs. All zero between SLs.
    held: Vec<u64>,
    /// Channels that carry some LID, each once.
    touched: Vec<u32>,
    /// Channels with LIDs that are passed on next, in this order.
    active: Vec<u32>,
}

impl Minimal {
    /// As [`Minimal::run`], with SLs that depend on the sender's switch.
    ///
    /// - `sls`: destinations x switches.
    ///
    /// Cost: O(destinations x switches), plus for each SL the turns between channels that carry it.
    pub(in crate::verify) fn run_by_switch(
        &mut self,
        plan: &Plan<'_>,
        block: &[Destination],
        sls: &[u16],
    ) -> (Search, u64) {
        let all = u64::MAX >> (64 - block.len());
        self.read(plan, block);
        let mut search = self.search(plan, block, all);
        let mut good = all & !search.astray & at_home(plan, block);
        self.used.keep(good);
        let mut way = std::mem::take(&mut self.by_switch);
        way.find_steps(self, plan);
        let in_use = way.find_senders(sls, self.seen.len());
        let to_adapters = to_adapters(plan, block);
        for (sl, n) in bits(in_use).zip(0..) {
            let injections = plan.injections(sl);
            // What is dropped on the way is recorded as far as it comes, here and by the exact check.
            good &= !way.follow(self, plan, (sl, n), |slot| injections[slot].all, u64::MAX);
            if plan.drops {
                good &= !way.dropped_at_the_end(self, plan, block, sl);
            }
            way.record(self, plan, sl);
            let between = way.vls(plan, to_adapters) & !plan.graph.used_by_adapters() != 0;
            way.clear(plan);
            if between {
                way.follow(self, plan, (sl, n), |slot| injections[slot].adapters, to_adapters);
                plan.graph.carry_of_adapters(way.vls(plan, to_adapters));
                way.clear(plan);
            }
        }
        self.by_switch = way;
        if good != all {
            search.pairs = self.search(plan, block, good).pairs;
        }
        (search, all & !good)
    }
}

/// The LIDs whose own switch has the right entry.
fn at_home(plan: &Plan<'_>, block: &[Destination]) -> u64 {
    let right = |d: &Destination| plan.routes.lft.to(d.lid)[d.root] == d.port;
    block.iter().enumerate().fold(0, |lids, (i, d)| lids | u64::from(right(d)) << i)
}

impl BySwitch {
    /// Collects the turns between channels in use.
    fn find_steps(&mut self, block: &Minimal, plan: &Plan<'_>) {
        self.steps.clear();
        self.first.clear();
        for channel in block.used.all() {
            self.first.push(self.steps.len() as u32);
            let turn = plan.turn(channel.to as usize, 0, channel.in_port);
            block.used.ahead(channel, |ahead, next, lids| {
                let row = plan.rows[turn + usize::from(next.out)];
                self.steps.push(Step { lids, row, ahead: ahead as u32, out: next.out });
            });
        }
        self.first.push(self.steps.len() as u32);
        self.carried.resize(block.used.all().len(), 0);
        self.fresh.resize(block.used.all().len(), 0);
        self.held.resize(block.used.all().len() * plan.graph.lanes(), 0);
    }

    /// Transposes the SLs of senders. Returns the SLs in use.
    fn find_senders(&mut self, sls: &[u16], switches: usize) -> u16 {
        let in_use = sls.iter().fold(0, |all, sls| all | sls);
        self.senders.clear();
        self.senders.resize(in_use.count_ones() as usize * switches, 0);
        for (i, column) in sls.chunks(switches).enumerate() {
            for (s, &set) in column.iter().enumerate() {
                for sl in bits(set) {
                    let n = (in_use & ((1 << sl) - 1)).count_ones() as usize;
                    self.senders[n * switches + s] |= 1 << i;
                }
            }
        }
        in_use
    }

    /// Follows the packets with an SL to some LIDs. Returns the LIDs of those that a sender or a row maps to VL 15.
    ///
    /// - `(sl, n)`: the SL, and its number among those in use.
    /// - `injected`: by slot, the VLs on which packets begin.
    fn follow(
        &mut self,
        block: &Minimal,
        plan: &Plan<'_>,
        (sl, n): (usize, usize),
        injected: impl Fn(usize) -> u16,
        lids: u64,
    ) -> u64 {
        let lanes = plan.graph.lanes();
        let switches = block.seen.len();
        let mut dropped = 0;
        for s in 0..switches {
            let sent = self.senders[n * switches + s] & lids;
            if sent == 0 {
                continue;
            }
            for (channel, w) in block.used.of(s).iter().zip(block.used.range(s)) {
                let lids = channel.lids & sent;
                if lids != 0 {
                    let vls = injected(plan.slot(s, channel.out));
                    dropped |= if vls & DROPPED != 0 { lids } else { 0 };
                    for vl in bits(vls & !DROPPED) {
                        self.add(w, lids, vl, lanes);
                    }
                }
            }
        }
        let mut next = 0;
        while let Some(&w) = self.active.get(next) {
            next += 1;
            let w = w as usize;
            let new = std::mem::take(&mut self.fresh[w]);
            for at in self.first[w] as usize..self.first[w + 1] as usize {
                let step = self.steps[at];
                let lids = new & step.lids;
                if lids != 0 {
                    match step.row.get(Sl(sl as u8)).0 {
                        Vl::MAX_DATA => dropped |= lids,
                        vl => self.add(step.ahead as usize, lids, usize::from(vl), lanes),
                    }
                }
            }
        }
        self.active.clear();
        dropped
    }

    /// Adds packets on a VL of a channel.
    fn add(&mut self, w: usize, lids: u64, vl: usize, lanes: usize) {
        self.held[w * lanes + vl] |= lids;
        let new = lids & !self.carried[w];
        if new == 0 {
            return;
        }
        if self.carried[w] == 0 {
            self.touched.push(w as u32);
        }
        if self.fresh[w] == 0 {
            self.active.push(w as u32);
        }
        self.carried[w] |= new;
        self.fresh[w] |= new;
    }

    /// LIDs with packets that their last switch maps to VL 15.
    fn dropped_at_the_end(
        &self,
        block: &Minimal,
        plan: &Plan<'_>,
        destinations: &[Destination],
        sl: usize,
    ) -> u64 {
        let mut dropped = 0;
        for &w in &self.touched {
            let (channel, carried) = (block.used.all()[w as usize], self.carried[w as usize]);
            for (i, d) in destinations.iter().enumerate().filter(|(_, d)| d.root == channel.to as usize) {
                let row = plan.rows[plan.turn(d.root, d.port, channel.in_port)];
                if carried >> i & 1 != 0 && row.get(Sl(sl as u8)).0 == Vl::MAX_DATA {
                    dropped |= 1 << i;
                }
            }
        }
        dropped
    }

    /// Records the virtual channels that the packets followed use and wait for.
    fn record(&self, block: &Minimal, plan: &Plan<'_>, sl: usize) {
        for &w in &self.touched {
            let w = w as usize;
            let channel = block.used.all()[w];
            let cells = plan.turn(channel.to as usize, 0, channel.in_port);
            for step in &self.steps[self.first[w] as usize..self.first[w + 1] as usize] {
                let lids = self.carried[w] & step.lids;
                let vl = step.row.get(Sl(sl as u8)).0;
                if lids != 0 && vl != Vl::MAX_DATA {
                    let cell = plan.graph.cell(cells + usize::from(step.out), vl);
                    plan.graph.depend(cell, self.vls_of(plan, w, lids));
                }
            }
            let back = plan.ahead(channel.to as usize, channel.in_port);
            plan.graph.carry(plan.slot(back.to as usize, channel.out), self.vls_of(plan, w, u64::MAX));
        }
    }

    /// The VLs of packets to some LIDs on a channel.
    fn vls_of(&self, plan: &Plan<'_>, w: usize, lids: u64) -> u16 {
        let lanes = plan.graph.lanes();
        let held = self.held[w * lanes..][..lanes].iter();
        held.rev().fold(0, |vls, held| vls << 1 | u16::from(held & lids != 0))
    }

    /// The VLs of packets to some LIDs on any channel.
    fn vls(&self, plan: &Plan<'_>, lids: u64) -> u16 {
        self.touched.iter().fold(0, |vls, &w| vls | self.vls_of(plan, w as usize, lids))
    }

    /// Forgets the packets followed.
    fn clear(&mut self, plan: &Plan<'_>) {
        let lanes = plan.graph.lanes();
        for w in self.touched.drain(..) {
            self.carried[w as usize] = 0;
            self.held[w as usize * lanes..][..lanes].fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fabric::{PortNum, Sl, SwitchId, Vl};
    use crate::routing::{Hops, sssp};
    use crate::tables::{PathSl, Routes, Sl2Vl, SlVlRow, VlArb};
    use crate::topology::small_members;
    use crate::verify::verify;

    /// SLs by switch, and the same SLs stated for each end port: the exact check, LID by LID.
    #[test]
    fn both_ways_come_to_the_same() {
        let (mut cyclic, mut dropping) = (0, 0);
        for (name, f) in small_members() {
            let switches = f.num_switches();
            let sl = |s: usize, lid: usize| ((s * 7 + lid * 3 + s * lid) % 5) as u8;
            let mut sl2vl = Sl2Vl::new(&f);
            for (i, row) in sl2vl.rows_mut().iter_mut().enumerate() {
                *row = SlVlRow::from_vls(std::array::from_fn(|sl| Vl(((i * 5 + sl * i / 3) % 4) as u8)));
            }
            let by_switch = (0..f.lid_table_len() * switches).map(|i| sl(i % switches, i / switches));
            let by_end_port = f.endports().iter().flat_map(|end| {
                let s = end.attachment.map_or(0, |(s, _)| s.index());
                (0..f.lid_table_len()).map(move |lid| sl(s, lid))
            });
            let by_end_port = PathSl::ByEndPort(by_end_port.collect());
            let mut routes = Routes {
                engine: String::new(),
                lft: sssp(&f, &Hops::new(&f).unwrap()),
                sl2vl,
                path_sl: PathSl::BySwitch(by_switch.collect()),
                vlarb: VlArb::fair(4),
                multicast: Vec::new(),
                port_sets: None,
                remarks: Vec::new(),
            };
            // Damages one entry after another and keeps the damage: LFT entries, then SL2VL rows.
            for (i, end) in f.endports().iter().enumerate().step_by(3) {
                let verdict = verify(&f, &routes);
                let exact = verify(&f, &Routes { path_sl: by_end_port.clone(), ..routes.clone() });
                assert_eq!(verdict, exact, "{name} {i}");
                cyclic += usize::from(!verdict.deadlock_free);
                dropping += usize::from(!verdict.reachable);
                let s = SwitchId::at((i * 7) % switches);
                let ports = f.channels().slots_of(s) as u8;
                let (inp, out) = (PortNum(i as u8 % ports), PortNum(i as u8 / 2 % ports));
                match i % 6 {
                    0 => routes.sl2vl.set(s, inp, out, SlVlRow::default().with(Sl(2), Vl(15))),
                    1 => routes.lft.clear(s, end.lid),
                    2 => routes.lft.set(s, end.lid, PortNum(i as u8 % (ports + 2))),
                    3 => routes.sl2vl.set_adapters(SlVlRow::default().with(Sl(i as u8 % 16), Vl(15))),
                    _ => routes.sl2vl.set(s, inp, out, SlVlRow::uniform(Vl(if i % 4 == 1 { 15 } else { 3 }))),
                }
            }
        }
        assert!(cyclic > 20 && dropping > 20, "{cyclic} cyclic, {dropping} dropping");
    }
}
