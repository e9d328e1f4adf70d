//! Which packets cause the dependencies of a mixture: for witnesses, and for planners.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::fabric::{Channel, ChannelId, EndPortId, Lid, Sl, SwitchId, Vl};
use crate::verify::bits;
use crate::verify::multicast_fault::{Cause, McastFault, McastWait};
use crate::verify::packet::Packet;
use crate::verify::witness::{Wait, Witness};

use super::flow::{Flow, Out, Sink};
use super::{DROPPED, Mixing, Mixture, SlGroup};

/// A virtual channel.
type Lane = (ChannelId, Vl);

/// A virtual channel that waits for another one, and whose packets make it wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The virtual channel that waits.
    pub from: (ChannelId, Vl),
    /// The one that it waits for.
    pub to: (ChannelId, Vl),
    /// Destinations of these packets, ascending.
    pub lids: Vec<Lid>,
    /// Their groups if they are multicast, ascending.
    pub mlids: Vec<u16>,
}

impl Mixture<'_> {
    /// The dependencies between virtual channels of the same set, with all destinations that cause them,
    /// ascending by (from, to).
    ///
    /// - `sets`: disjoint, as [`cyclic_components`](super::MixtureVerdict::cyclic_components) are.
    ///
    /// Cost: that of [`Mixture::new`] without equal LIDs left out, and the size of the result.
    pub fn within(&self, sets: &[Vec<(ChannelId, Vl)>]) -> Vec<Dependency> {
        let mixing = &self.mixing;
        let lanes = self.graph.lanes();
        let mut member = vec![u32::MAX; mixing.ahead.len() * lanes];
        for (i, set) in sets.iter().enumerate() {
            for &(channel, vl) in set.iter().filter(|(_, vl)| usize::from(vl.0) < lanes) {
                let c = mixing.fabric.channels().get(channel);
                let slot = mixing.slot(c.from.index(), c.out_port.0);
                member[slot * lanes + usize::from(vl.0)] = i as u32;
            }
        }
        let is_member = |s: usize, port: u8| {
            let place = mixing.out(s, port).map(|out| out.slot as usize * lanes);
            place.is_some_and(|place| member[place..place + lanes].iter().any(|&set| set != u32::MAX))
        };
        let channels: BTreeSet<ChannelId> = sets.iter().flatten().map(|&(channel, _)| channel).collect();
        let channels: Vec<&Channel> =
            channels.into_iter().map(|id| mixing.fabric.channels().get(id)).collect();
        // Whether packets may take two of the channels, one after the other.
        let takes_two = |lid: &Lid| {
            let columns = mixing.columns(*lid);
            channels.iter().any(|c| {
                let to = c.to.index();
                columns.iter().any(|column| column[c.from.index()] == c.out_port.0)
                    && columns.iter().any(|column| is_member(to, column[to]))
            })
        };
        let mut found: BTreeMap<(Lane, Lane), (Vec<Lid>, Vec<u16>)> = BTreeMap::new();
        let mut flow = Flow::new(mixing.fabric.num_switches(), mixing.states.len());
        let mut filter = Filter { mixing, lanes, member: &member, met: Vec::new() };
        for lid in mixing.tasks().into_iter().flat_map(|task| task.lids).filter(takes_two) {
            mixing.run(&mut flow, lid, &mut filter);
            for arc in filter.take() {
                found.entry(arc).or_default().0.push(lid);
            }
        }
        for group in self.groups.all() {
            self.groups.run_group(mixing, group, &mut filter);
            for arc in filter.take() {
                found.entry(arc).or_default().1.push(group.mlid);
            }
        }
        let found = found.into_iter().map(|((from, to), (mut lids, mlids))| {
            lids.sort_unstable();
            Dependency { from, to, lids, mlids }
        });
        found.collect()
    }

    /// The dependencies of [`within`](Self::within) without what causes them, which is faster.
    ///
    /// Cost: O(ports) for each virtual channel of the sets.
    pub fn arcs(&self, sets: &[Vec<(ChannelId, Vl)>]) -> HashSet<((ChannelId, Vl), (ChannelId, Vl))> {
        let Mixing { fabric, turns, .. } = &self.mixing;
        let lanes = self.graph.lanes();
        let of_set = |set: &Vec<Lane>| {
            let number = |&(channel, vl): &Lane| channel.index() * lanes + usize::from(vl.0);
            let in_use = set.iter().filter(|(_, vl)| usize::from(vl.0) < lanes);
            let lanes: HashMap<usize, Lane> = in_use.map(|lane| (number(lane), *lane)).collect();
            let after = |(&v, &from): (&usize, &Lane)| {
                let to = self.graph.after(fabric, turns, v).filter_map(|w| lanes.get(&w));
                to.map(|&to| (from, to)).collect::<Vec<_>>()
            };
            lanes.iter().flat_map(after).collect::<Vec<_>>()
        };
        sets.iter().flat_map(of_set).collect()
    }

    /// A cycle with a packet for each of its dependencies.
    pub(super) fn credit_loop(&self, cycle: &[Lane]) -> Witness {
        let next = cycle.iter().cycle().skip(1);
        let cause = |(&first, &second): (&Lane, &Lane)| {
            let cause = self.cause(first, second).expect("some packet made each dependency");
            McastWait { channel: first.0, vl: first.1, cause }
        };
        let waits: Vec<McastWait> = cycle.iter().zip(next).map(cause).collect();
        let unicast = waits.iter().map(|w| match w.cause {
            Cause::Unicast(packet) => Some(Wait { channel: w.channel, vl: w.vl, packet }),
            Cause::Multicast { .. } => None,
        });
        match unicast.collect() {
            Some(waits) => Witness::CreditLoop(waits),
            None => Witness::Multicast(McastFault::CreditLoop(waits)),
        }
    }

    /// A packet that may hold one virtual channel and wait for another.
    fn cause(&self, first: Lane, second: Lane) -> Option<Cause> {
        let mixing = &self.mixing;
        let channels = mixing.fabric.channels();
        let leads = |columns: &[&[u8]], channel: ChannelId| {
            let c = channels.get(channel);
            columns.iter().any(|column| column[c.from.index()] == c.out_port.0)
        };
        let mut flow = Flow::new(mixing.fabric.num_switches(), mixing.states.len());
        for lid in mixing.tasks().into_iter().flat_map(|task| task.lids) {
            let columns = mixing.columns(lid);
            if leads(&columns, first.0) && leads(&columns, second.0) {
                flow.lay(mixing, &columns);
                for group in &mixing.rows.groups {
                    if let Some((source, sl)) = mixing.sender(&flow, group, lid, first, second) {
                        return Some(Cause::Unicast(Packet { source, dlid: lid, sl }));
                    }
                }
            }
        }
        self.groups.all().iter().find_map(|group| {
            let sls = super::spread::sls(group);
            mixing.rows.groups.iter().find_map(|alike| {
                let sl = bits(sls).find(|&sl| mixing.rows.merge[1 << sl] == 1 << alike.sl)?;
                let mut ends = group.ports.iter().flat_map(|&(s, _)| mixing.fabric.endports_on(s));
                let source = ends.find(|&&source| {
                    let mut pair = Pair { mixing, first, second, met: false };
                    self.groups.run_from(mixing, group, alike, source, &mut pair);
                    pair.met
                })?;
                Some(Cause::Multicast { mlid: group.mlid, source: *source, sl: Sl(sl as u8) })
            })
        })
    }

    /// The first LID whose packets may return to a switch.
    pub(super) fn looping(&self) -> Option<Witness> {
        let mixing = &self.mixing;
        let mut flow = Flow::new(mixing.fabric.num_switches(), mixing.states.len());
        mixing.tasks().into_iter().flat_map(|task| task.lids).find_map(|lid| {
            flow.lay(mixing, &mixing.columns(lid));
            if !flow.may_loop() {
                return None;
            }
            mixing.rows.groups.iter().find_map(|group| mixing.circle(&flow, group, lid))
        })
    }
}

/// Notes dependencies within sets of virtual channels.
struct Filter<'a> {
    mixing: &'a Mixing<'a>,
    lanes: usize,
    /// By slot x lanes: the set.
    member: &'a [u32],
    met: Vec<(Lane, Lane)>,
}

impl Filter<'_> {
    fn take(&mut self) -> Vec<(Lane, Lane)> {
        let mut met = std::mem::take(&mut self.met);
        met.sort_unstable();
        met.dedup();
        met
    }
}

impl Sink for Filter<'_> {
    fn carry(&mut self, _: usize, _: u16) {}

    fn depend(&mut self, turn: usize, slot: usize, from: u16, vls: u16) {
        let lanes = self.lanes;
        let set = |vl: usize| self.member[slot * lanes + vl];
        if bits(vls).all(|vl| set(vl) == u32::MAX) {
            return;
        }
        let behind = self.mixing.behind(turn);
        for vl in bits(vls).filter(|&vl| set(vl) != u32::MAX) {
            let set = set(vl);
            for held in bits(from).filter(|held| self.member[behind * lanes + held] == set) {
                let lane = |slot: usize, vl: usize| (self.mixing.channel(slot), Vl(vl as u8));
                self.met.push((lane(behind, held), lane(slot, vl)));
            }
        }
    }
}

/// Notes one dependency.
struct Pair<'a> {
    mixing: &'a Mixing<'a>,
    first: Lane,
    second: Lane,
    met: bool,
}

impl Sink for Pair<'_> {
    fn carry(&mut self, _: usize, _: u16) {}

    fn depend(&mut self, turn: usize, slot: usize, from: u16, vls: u16) {
        self.met |= from & 1 << self.first.1.0 != 0
            && vls & 1 << self.second.1.0 != 0
            && self.mixing.channel(slot) == self.second.0
            && self.mixing.channel(self.mixing.behind(turn)) == self.first.0;
    }
}

/// Packets on their first channel.
struct Start {
    source: EndPortId,
    sl: Sl,
    out: Out,
    /// The possible VLs, of data.
    vls: u16,
}

impl Mixing<'_> {
    /// The slot of the first channel of a turn.
    fn behind(&self, turn: usize) -> usize {
        let s = self.turns.first.partition_point(|&first| first <= turn) - 1;
        let in_port = ((turn - self.turns.first[s]) / self.turns.side[s]) as u8;
        let Some(out) = self.out(s, in_port) else {
            unreachable!("packets came over the cable of that port")
        };
        self.slot(out.to as usize, out.in_port)
    }

    /// A sender, and its SL, whose packets to a LID may hold one virtual channel and wait for another.
    fn sender(
        &self,
        flow: &Flow,
        group: &SlGroup,
        lid: Lid,
        first: Lane,
        second: Lane,
    ) -> Option<(EndPortId, Sl)> {
        let channels = self.fabric.channels();
        let (c, d) = (channels.get(first.0), channels.get(second.0));
        let turn = self.turns.at(c.to.index(), d.out_port.0, c.in_port.0);
        if group.vls[turn] & 1 << second.1.0 == 0 {
            return None;
        }
        let wanted = (self.slot(c.from.index(), c.out_port.0), usize::from(first.1.0));
        // Breadth first from all senders; `origin` has the sender of each virtual channel that was reached.
        let mut origin: HashMap<(usize, usize), (EndPortId, Sl)> = HashMap::new();
        let mut queue = Vec::new();
        for Start { source, sl, out, vls } in self.starts(flow, group, lid) {
            for vl in bits(vls) {
                origin.entry((out.slot as usize, vl)).or_insert_with(|| {
                    queue.push((out, vl));
                    (source, sl)
                });
            }
        }
        let mut next = 0;
        while let Some(&(out, vl)) = queue.get(next) {
            next += 1;
            let from = origin[&(out.slot as usize, vl)];
            for ahead in flow.outs(out.to as usize) {
                let turn = self.turns.at(out.to as usize, ahead.port, out.in_port);
                for vl in bits(group.vls[turn] & !DROPPED) {
                    origin.entry((ahead.slot as usize, vl)).or_insert_with(|| {
                        queue.push((*ahead, vl));
                        from
                    });
                }
            }
        }
        origin.get(&wanted).copied()
    }

    /// Where packets to a LID begin: those of end ports, and those from switches that are left out, named by an end
    /// port of the switch at which they arrive.
    fn starts(&self, flow: &Flow, group: &SlGroup, lid: Lid) -> Vec<Start> {
        let mut starts = Vec::new();
        for (i, end) in self.fabric.endports().iter().enumerate() {
            let (source, Some((s, _))) = (EndPortId::at(i), end.attachment) else { continue };
            let sls = self.sls.of(self.fabric, source, lid);
            let alike = |sl: &usize| self.rows.merge[1 << sl] == 1 << group.sl;
            let Some(sl) = bits(sls).find(alike).map(|sl| Sl(sl as u8)) else { continue };
            for &out in flow.outs(s.index()) {
                let vls = self.first_vls(&group.vls, group.sl, source, s.index(), out.port);
                starts.push(Start { source, sl, out, vls });
            }
        }
        for s in self.fabric.switch_ids() {
            let source = self.fabric.endports_on(s).first().copied().unwrap_or(EndPortId::at(0));
            for &out in flow.outs(s.index()) {
                let vls = group.foreign[out.slot as usize] & !DROPPED;
                starts.push(Start { source, sl: Sl(group.sl as u8), out, vls });
            }
        }
        starts.retain(|start| start.vls != 0);
        starts
    }

    /// A forwarding loop of packets to a LID, if some sender reaches one.
    fn circle(&self, flow: &Flow, group: &SlGroup, lid: Lid) -> Option<Witness> {
        /// A channel is being looked at from the start on, or has been.
        #[derive(Clone, Copy, PartialEq)]
        enum Met {
            Never,
            OnPath,
            Done,
        }
        let mut met = vec![Met::Never; self.ahead.len()];
        for Start { source, sl, out: first, .. } in self.starts(flow, group, lid) {
            if met[first.slot as usize] != Met::Never {
                continue;
            }
            let mut path = vec![(first, 0)];
            met[first.slot as usize] = Met::OnPath;
            while let Some((out, tried)) = path.last_mut() {
                let Some(&ahead) = flow.outs(out.to as usize).get(*tried) else {
                    met[out.slot as usize] = Met::Done;
                    path.pop();
                    continue;
                };
                *tried += 1;
                let turn = self.turns.at(out.to as usize, ahead.port, out.in_port);
                if group.vls[turn] & !DROPPED == 0 {
                    continue;
                }
                match met[ahead.slot as usize] {
                    Met::Done => {}
                    Met::Never => {
                        met[ahead.slot as usize] = Met::OnPath;
                        path.push((ahead, 0));
                    }
                    Met::OnPath => {
                        let begin = path.iter().position(|(out, _)| out.slot == ahead.slot).unwrap_or(0);
                        let from =
                            |out: &Out| self.fabric.channels().get(self.channel(out.slot as usize)).from;
                        let switches: Vec<SwitchId> =
                            path[begin..].iter().map(|(out, _)| from(out)).collect();
                        let packet = Packet { source, dlid: lid, sl };
                        return Some(Witness::Loop { packet, switches });
                    }
                }
            }
        }
        None
    }
}
