//! The packets to one LID while each switch may hold any of several entries for it.

use crate::tables::Lft;

use super::Mixing;
use crate::verify::flow::DROPPED;

/// A channel by which a switch may forward the packets to a LID.
#[derive(Clone, Copy, Default)]
pub(super) struct Out {
    /// The next switch.
    pub(super) to: u32,
    /// The slot of the channel.
    pub(super) slot: u32,
    /// The number of the first turn at the next switch.
    pub(super) turns: u32,
    pub(super) port: u8,
    /// The in port of the next switch.
    pub(super) in_port: u8,
}

/// What a flow consists of.
pub(super) trait Sink {
    /// Packets travel on these VLs of the channel out of a slot.
    fn carry(&mut self, slot: usize, vls: u16);

    /// Packets on the first channel of a turn, on any VL in `from`, wait for any VL in `vls` of the second,
    /// whose slot is `slot`.
    fn depend(&mut self, turn: usize, slot: usize, from: u16, vls: u16);
}

/// Buffers, reused for each LID.
pub(super) struct Flow {
    /// Room for so many channels a switch.
    width: usize,
    /// Switches x width.
    outs: Vec<Out>,
    /// By switch: number of channels.
    count: Vec<u8>,
    /// By switch: channels that lead to it and do not come from a switch in `order`.
    waiting: Vec<u32>,
    /// Switches, each after all that may forward to it.
    order: Vec<u32>,
    /// The other switches: those on loops, and behind them.
    late: Vec<u32>,
    /// Whether `order` and `late` are those of the entries.
    sorted: bool,
    /// Switches x width: VLs of packets with one SL.
    load: Vec<u16>,
    /// Turns that packets with one SL take.
    taken: Vec<Taken>,
}

/// A turn with a row that lets packets pass.
struct Taken {
    turn: u32,
    /// Where `outs` has its channels.
    first: u32,
    second: u32,
    /// The possible VLs of the second one.
    vls: u16,
}

impl Flow {
    /// - `width`: the largest number of different entries of a switch.
    pub(super) fn new(switches: usize, width: usize) -> Self {
        Self {
            width,
            outs: vec![Out::default(); switches * width],
            count: vec![0; switches],
            waiting: vec![0; switches],
            order: Vec::with_capacity(switches),
            late: Vec::new(),
            sorted: false,
            load: vec![0; switches * width],
            taken: Vec::with_capacity(switches),
        }
    }

    /// Takes over the entries for one LID. Each column has one out port by switch.
    ///
    /// Cost: O(switches x columns).
    pub(super) fn lay(&mut self, mixing: &Mixing<'_>, columns: &[&[u8]]) {
        self.sorted = false;
        for s in 0..self.count.len() {
            let mut count = 0;
            for column in columns {
                let port = column[s];
                if port == Lft::NO_PATH {
                    continue;
                }
                let Some(out) = mixing.out(s, port) else { continue };
                let outs = &mut self.outs[s * self.width..];
                if outs[..count].iter().all(|known| known.port != port) {
                    outs[count] = out;
                    count += 1;
                }
            }
            self.count[s] = count as u8;
        }
    }

    /// Finds an order of the switches.
    ///
    /// Cost: O(switches x columns).
    fn sort(&mut self) {
        if std::mem::replace(&mut self.sorted, true) {
            return;
        }
        self.waiting.fill(0);
        for s in 0..self.count.len() {
            for i in self.range(s) {
                self.waiting[self.outs[i].to as usize] += 1;
            }
        }
        self.order.clear();
        self.order.extend((0..self.count.len()).filter(|&s| self.waiting[s] == 0).map(|s| s as u32));
        let mut next = 0;
        while let Some(&s) = self.order.get(next) {
            next += 1;
            for i in self.range(s as usize) {
                let to = self.outs[i].to;
                self.waiting[to as usize] -= 1;
                if self.waiting[to as usize] == 0 {
                    self.order.push(to);
                }
            }
        }
        self.late.clear();
        if next < self.count.len() {
            self.late.extend((0..self.count.len()).filter(|&s| self.waiting[s] > 0).map(|s| s as u32));
        }
    }

    /// Whether some switches may forward to each other in a loop.
    pub(super) fn may_loop(&mut self) -> bool {
        self.sort();
        !self.late.is_empty()
    }

    /// The channels by which a switch may forward.
    pub(super) fn outs(&self, s: usize) -> &[Out] {
        &self.outs[self.range(s)]
    }

    fn range(&self, s: usize) -> std::ops::Range<usize> {
        s * self.width..s * self.width + usize::from(self.count[s])
    }

    /// Runs the packets with one SL from all their senders to wherever the entries may lead.
    ///
    /// - `vls`: for that SL, the possible VLs by turn.
    /// - `injected`: the VLs on which the end ports of a switch send over its channel.
    ///
    /// Where end ports send on every channel, no channel is empty, and the VLs of each follow from the turns to it
    /// alone. Elsewhere packets are followed from switch to switch.
    ///
    /// Cost: O(switches x columns^2) if end ports send everywhere or no packet can loop; otherwise as often as VLs are
    /// added to a channel.
    pub(super) fn run(&mut self, vls: &[u16], injected: impl Fn(usize, &Out) -> u16, sink: &mut impl Sink) {
        let mut everywhere = true;
        for s in 0..self.count.len() {
            for i in self.range(s) {
                self.load[i] = injected(s, &self.outs[i]) & !DROPPED;
                everywhere &= self.load[i] != 0;
            }
        }
        if everywhere {
            self.run_everywhere(vls, sink);
            return;
        }
        self.sort();
        for i in 0..self.order.len() {
            self.forward(vls, self.order[i] as usize, sink);
        }
        let mut changed = !self.late.is_empty();
        while changed {
            changed = false;
            for i in 0..self.late.len() {
                changed |= self.forward(vls, self.late[i] as usize, sink);
            }
        }
    }

    /// [`run`](Self::run) where packets travel on each of the channels.
    fn run_everywhere(&mut self, vls: &[u16], sink: &mut impl Sink) {
        self.taken.clear();
        for s in 0..self.count.len() {
            for i in self.range(s) {
                let Out { to, turns, .. } = self.outs[i];
                for k in self.range(to as usize) {
                    let turn = turns + u32::from(self.outs[k].port);
                    let vls = vls[turn as usize] & !DROPPED;
                    if vls != 0 {
                        self.load[k] |= vls;
                        self.taken.push(Taken { turn, first: i as u32, second: k as u32, vls });
                    }
                }
            }
        }
        for s in 0..self.count.len() {
            for i in self.range(s) {
                sink.carry(self.outs[i].slot as usize, self.load[i]);
            }
        }
        for &Taken { turn, first, second, vls } in &self.taken {
            let slot = self.outs[second as usize].slot as usize;
            sink.depend(turn as usize, slot, self.load[first as usize], vls);
        }
    }

    /// Forwards what a switch sends to the next switches; returns whether any of these sends on more VLs now.
    fn forward(&mut self, vls: &[u16], s: usize, sink: &mut impl Sink) -> bool {
        let mut changed = false;
        for i in self.range(s) {
            let load = self.load[i];
            if load == 0 {
                continue;
            }
            let out = self.outs[i];
            sink.carry(out.slot as usize, load);
            let next = out.to as usize;
            for k in self.range(next) {
                let turn = (out.turns + u32::from(self.outs[k].port)) as usize;
                let possible = vls[turn] & !DROPPED;
                if possible != 0 {
                    sink.depend(turn, self.outs[k].slot as usize, load, possible);
                    changed |= self.load[k] & possible != possible;
                    self.load[k] |= possible;
                }
            }
        }
        changed
    }
}
