//! The usual case, fast: up to 64 LIDs at once, one bit each, whose packets begin on each channel in use.
//!
//! Then no channel is empty, and a turn is taken by the LIDs that both of its channels carry. Its VLs depend on
//! nothing else.

use crate::fabric::Lid;
use crate::verify::bits;
use crate::verify::flow::DROPPED;
use crate::verify::graph::Graph;
use crate::verify::used::UsedChannels;

use super::{Mixing, SlGroup};

/// Number of switches whose entries are transposed at a time.
const TILE: usize = 64;

/// Buffers, reused for each block.
pub(super) struct Block {
    used: UsedChannels,
    /// By channel x VL: LIDs.
    held: Vec<u64>,
    taken: Vec<Taken>,
}

/// A turn with a row that lets packets pass.
struct Taken {
    turn: usize,
    /// The first channel.
    first: usize,
    /// The LIDs that take it.
    lids: u64,
    /// The possible VLs of the second channel.
    vls: u16,
}

impl Block {
    /// Number of LIDs that fit in.
    pub(super) const LIDS: usize = u64::BITS as usize;

    pub(super) fn new(switches: usize) -> Self {
        Self { used: UsedChannels::new(switches, TILE), held: Vec::new(), taken: Vec::new() }
    }

    /// Reads the entries for some LIDs.
    ///
    /// Cost: O(LIDs x switches x columns).
    pub(super) fn read(&mut self, mixing: &Mixing<'_>, lids: &[Lid]) {
        assert!(lids.len() <= Self::LIDS, "one bit a LID");
        let of = |(i, &lid)| mixing.columns(lid).into_iter().map(move |column| (i, column));
        let columns: Vec<_> = lids.iter().enumerate().flat_map(of).collect();
        self.used.read(mixing.first_slot.len(), &columns, |s| {
            let slots = mixing.slot(s, 0)..mixing.slot(s, 0) + mixing.turns.side[s];
            mixing.ahead[slots].iter().map(|out| (out.to != u32::MAX).then_some((out.to, out.in_port)))
        });
    }

    /// Records the virtual channels that the packets with some SLs use and wait for. Returns the LIDs for which
    /// nothing is recorded, as their packets are on channels on which none begin.
    ///
    /// - `sent`: by slot, the VLs on which packets to all LIDs begin.
    ///
    /// Cost: O(pairs of channels in use that follow each other).
    pub(super) fn run(&mut self, mixing: &Mixing<'_>, group: &SlGroup, sent: &[u16], graph: &Graph) -> u64 {
        let (mut some, mut none) = (0, 0);
        for s in 0..mixing.first_slot.len() {
            for channel in self.used.of(s) {
                let begin = sent[mixing.slot(s, channel.out)] & !DROPPED != 0;
                *(if begin { &mut some } else { &mut none }) |= channel.lids;
            }
        }
        let good = some & !none;
        if good != 0 {
            self.follow(mixing, group, sent, good, graph.lanes());
            self.record(mixing, good, graph);
        }
        some & none
    }

    /// Finds the turns that packets to some LIDs take, and the VLs of channels.
    fn follow(&mut self, mixing: &Mixing<'_>, group: &SlGroup, sent: &[u16], good: u64, lanes: usize) {
        self.taken.clear();
        self.held.clear();
        self.held.resize(self.used.all().len() * lanes, 0);
        for s in 0..mixing.first_slot.len() {
            for (first, channel) in self.used.range(s).zip(self.used.of(s)) {
                let lids = channel.lids & good;
                for vl in bits(sent[mixing.slot(s, channel.out)] & !DROPPED) {
                    self.held[first * lanes + vl] |= lids;
                }
                let to = channel.to as usize;
                let turns = mixing.turns.at(to, 0, channel.in_port);
                for (second, ahead) in self.used.range(to).zip(self.used.of(to)) {
                    let (turn, lids) = (turns + usize::from(ahead.out), lids & ahead.lids);
                    let vls = if lids == 0 { 0 } else { group.vls[turn] & !DROPPED };
                    if vls != 0 {
                        bits(vls).for_each(|vl| self.held[second * lanes + vl] |= lids);
                        self.taken.push(Taken { turn, first, lids, vls });
                    }
                }
            }
        }
    }

    /// Adds what was followed to the graph.
    fn record(&self, mixing: &Mixing<'_>, good: u64, graph: &Graph) {
        let lanes = graph.lanes();
        let vls_of = |channel: usize, lids: u64| {
            let held = self.held[channel * lanes..][..lanes].iter();
            held.rev().fold(0, |vls, held| vls << 1 | u16::from(held & lids != 0))
        };
        for s in 0..mixing.first_slot.len() {
            for (channel, used) in self.used.range(s).zip(self.used.of(s)) {
                graph.carry(mixing.slot(s, used.out), vls_of(channel, good));
            }
        }
        for taken in &self.taken {
            let from = vls_of(taken.first, taken.lids);
            bits(taken.vls).for_each(|vl| graph.depend(graph.cell(taken.turn, vl as u8), from));
        }
    }
}
