//! Multicast packets while the trees change.

use std::collections::BTreeMap;

use crate::fabric::{EndPortId, PortNum, SwitchId};
use crate::tables::{InForce, McastGroup, PortSet};

use super::flow::{Out, Sink};
use super::{Mixing, SlGroup};
use crate::verify::flow::DROPPED;

/// The SLs of the packets of a group; SL 0, the default of groups, if none is stated.
pub(super) fn sls(group: &McastGroup) -> u16 {
    group.sls.unwrap_or(1)
}

/// The ports by which each switch may forward packets of each group, over all states: programming sends them in
/// parts, so that old and new ones may be in force together.
pub(super) struct Groups(Vec<McastGroup>);

impl Groups {
    pub(super) fn new(states: &[&InForce]) -> Self {
        let mut all: BTreeMap<u16, (u16, BTreeMap<SwitchId, PortSet>)> = BTreeMap::new();
        for group in states.iter().flat_map(|state| &state.multicast) {
            let (set, switches) = all.entry(group.mlid).or_default();
            *set |= sls(group);
            for &(s, ports) in &group.ports {
                ports.iter().for_each(|port| switches.entry(s).or_default().insert(port));
            }
        }
        let group = |(mlid, (sls, ports)): (u16, (u16, BTreeMap<_, _>))| McastGroup {
            mlid,
            sls: Some(sls),
            ports: ports.into_iter().collect(),
        };
        Self(all.into_iter().map(group).collect())
    }

    /// All groups, by MLID.
    pub(super) fn all(&self) -> &[McastGroup] {
        &self.0
    }

    /// Runs the packets of all groups, from all end ports on their switches.
    ///
    /// Cost: O(turns of the groups x groups of SLs).
    pub(super) fn run(&self, mixing: &Mixing<'_>, sink: &mut impl Sink) {
        for group in &self.0 {
            self.run_group(mixing, group, sink);
        }
    }

    /// Runs the packets of one group.
    pub(super) fn run_group(&self, mixing: &Mixing<'_>, group: &McastGroup, sink: &mut impl Sink) {
        let used = mixing.rows.merge[usize::from(sls(group))];
        for sl in mixing.rows.groups.iter().filter(|sl| used & 1 << sl.sl != 0) {
            Spread::new(mixing, group, sl).run(|_| true, sink);
        }
    }

    /// Runs the packets that one end port sends to a group with SLs that are treated alike.
    pub(super) fn run_from(
        &self,
        mixing: &Mixing<'_>,
        group: &McastGroup,
        sl: &SlGroup,
        source: EndPortId,
        sink: &mut impl Sink,
    ) {
        Spread::new(mixing, group, sl).run(|e| e == source, sink);
    }
}

/// The packets of one group with one SL.
struct Spread<'a> {
    mixing: &'a Mixing<'a>,
    group: &'a McastGroup,
    sl: &'a SlGroup,
    /// By slot: VLs on the channel out of it.
    held: Vec<u16>,
    /// Channels with VLs that have not been followed yet.
    open: Vec<(Out, u16)>,
}

impl<'a> Spread<'a> {
    fn new(mixing: &'a Mixing<'a>, group: &'a McastGroup, sl: &'a SlGroup) -> Self {
        Self { mixing, group, sl, held: vec![0; mixing.ahead.len()], open: Vec::new() }
    }

    /// - `sends`: whether packets of an end port are among them.
    fn run(mut self, sends: impl Fn(EndPortId) -> bool, sink: &mut impl Sink) {
        let mixing = self.mixing;
        for &(s, ports) in &self.group.ports {
            for &source in mixing.fabric.endports_on(s).iter().filter(|&&e| sends(e)) {
                let port = mixing.fabric.endport(source).attachment.map_or(PortNum::ZERO, |(_, port)| port);
                let outs = ports.iter().filter(|&out| out != port);
                for out in outs.filter_map(|out| mixing.out(s.index(), out.0)) {
                    let vls = mixing.first_vls(&self.sl.vls, self.sl.sl, source, s.index(), out.port);
                    self.hold(out, vls, sink);
                }
            }
        }
        while let Some((out, from)) = self.open.pop() {
            let next = out.to as usize;
            let group = self.group.at(SwitchId::at(next));
            let ports = group.iter().filter(|port| port.0 != out.in_port);
            for ahead in ports.filter_map(|port| mixing.out(next, port.0)) {
                let turn = mixing.turns.at(next, ahead.port, out.in_port);
                let vls = self.sl.vls[turn] & !DROPPED;
                if vls != 0 {
                    sink.depend(turn, ahead.slot as usize, from, vls);
                    self.hold(ahead, vls, sink);
                }
            }
        }
    }

    /// Copies leave on some VLs of a channel.
    fn hold(&mut self, out: Out, vls: u16, sink: &mut impl Sink) {
        let held = &mut self.held[out.slot as usize];
        let more = vls & !*held;
        if more != 0 {
            *held |= more;
            sink.carry(out.slot as usize, more);
            self.open.push((out, more));
        }
    }
}
