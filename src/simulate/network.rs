//! A fabric and its tables, prepared for the event loop.
//!
//! A *wire* carries one packet at a time: a channel between switches, the link from or to an
//! adapter, and, if the model has them, the crossbar's path into an output buffer and an adapter
//! that accepts packets at a limited rate. At the end of each wire is a buffer per VL, so one rule
//! moves every packet:
//!
//! ```text
//!  adapter                 switch                                      adapter
//!  send queue --link--> [in buffer] --channel--> [in buffer] … --link--> taken
//!
//!  with output buffers and a limited rate at the adapter:
//!  send queue --link--> [in buffer] --crossbar--> [out buffer] --channel--> … --link--> [buffer] --taken
//! ```
//!
//! Queues are numbered consecutively: those of the buffers, wire by wire, VL by VL, and if there is
//! one per out port, by out port; then the send queues, host by host, VL by VL. A (wire, VL) is a
//! *lane*; its number is that of the first queue of the buffer at its end.

use std::collections::HashMap;
use std::ops::Range;

use rayon::prelude::*;

use super::SimulateError;
use super::model::{CREDIT, Model, Queues, USUAL_RATE};
use crate::fabric::{Channel, ChannelId, EndPort, EndPortId, Fabric, Lid, PortNum, Sl, SwitchId, Vl};
use crate::tables::{Lft, Routes, SlVlRow};

/// No wire, lane, packet or switch.
pub(super) const NONE: u32 = u32::MAX;

/// Credits of a buffer that is never full.
pub(super) const UNLIMITED: i32 = i32::MAX / 2;

/// The constant part of a wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire {
    /// Femtoseconds per byte.
    pub(super) rate: u64,
    /// From the start of a packet until its head can leave the buffer at the wire's end.
    pub(super) delay: u32,
    /// From the departure of a tail from that buffer until the credits are back.
    pub(super) credit_delay: u32,
    /// From the start of a packet until its first byte.
    pub(super) setup: u32,
    /// Where the wire ends.
    pub(super) end: End,
    /// Credits of each lane.
    pub(super) credits: i32,
    /// First queue at its end: `queues` per VL.
    pub(super) first_queue: u32,
    pub(super) queues: u32,
}

impl Wire {
    /// The lane of a VL.
    pub(super) fn lane(&self, vl: u32) -> u32 {
        self.first_queue + vl * self.queues
    }

    /// The queues of all its lanes.
    pub(super) fn all_queues(&self, vls: usize) -> Range<usize> {
        self.first_queue as usize..self.lane(vls as u32) as usize
    }
}

/// Where a wire ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// At an in port of a switch: its number, its first slot, and the first of its SL2VL rows.
    Switch { switch: u32, first_slot: u32, first_row: u32 },
    /// At another wire; the VL stays the same.
    Wire(u32),
    /// At an adapter that accepts everything at once.
    Adapter,
}

/// An adapter port.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) endport: EndPortId,
    pub(super) lid: u16,
    pub(super) lids: u16,
    pub(super) switch: SwitchId,
    pub(super) port: PortNum,
    /// Femtoseconds per byte of its link.
    pub(super) rate: u64,
}

/// See the [module](self).
pub(super) struct Network<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) routes: &'a Routes,
    pub(super) model: &'a Model,
    pub(super) hosts: Vec<Host>,
    /// By LID: the host, [`NONE`] for switches.
    pub(super) host_of_lid: Vec<u32>,
    pub(super) wires: Vec<Wire>,
    /// By slot of a switch: the wire for packets to that port.
    wire_of_slot: Vec<u32>,
    /// One more than the highest VL in use.
    pub(super) vls: usize,
    switches: usize,
    lft: Vec<&'a [u8]>,
    rows: Rows<'a>,
    adapter_row: SlVlRow,
    /// Queues of all buffers; send queues follow, one for each host and VL.
    pub(super) num_queues: u32,
    /// By wire: its number among the out ports of its switch, for queues per out port.
    out_index: Vec<u32>,
    /// If set, every packet has this SL instead of that of the tables.
    sl: Option<Sl>,
}

impl<'a> Network<'a> {
    /// # Errors
    /// [`SimulateError`]: too few hosts, or an invalid model.
    pub(super) fn new(
        fabric: &'a Fabric,
        routes: &'a Routes,
        model: &'a Model,
        sl: Option<Sl>,
    ) -> Result<Self, SimulateError> {
        let channels = fabric.channels();
        let hosts: Vec<Host> =
            fabric.adapters().filter_map(|(id, end)| host(fabric, model, id, end)).collect();
        if hosts.len() < 2 {
            return Err(SimulateError::TooFewHosts { hosts: hosts.len() });
        }
        let mut host_of_lid = vec![NONE; fabric.lid_table_len()];
        for (i, h) in hosts.iter().enumerate() {
            host_of_lid[usize::from(h.lid)..usize::from(h.lid + h.lids)].fill(i as u32);
        }
        let mut network = Self {
            fabric,
            routes,
            model,
            lft: lft_columns(fabric, &routes.lft),
            host_of_lid,
            wires: Vec::new(),
            wire_of_slot: vec![NONE; channels.num_slots()],
            vls: 1,
            switches: fabric.num_switches(),
            rows: Rows::new(routes.sl2vl.rows()),
            adapter_row: routes.sl2vl.adapters(),
            num_queues: 0,
            out_index: Vec::new(),
            sl,
            hosts,
        };
        network.lay_wires();
        Ok(network)
    }

    fn lay_wires(&mut self) {
        let (fabric, model) = (self.fabric, self.model);
        let channels = fabric.channels();
        let rate = |s: SwitchId, port: PortNum| -> u64 {
            model.rate.or(fabric.byte_time_at(s, port)).unwrap_or(USUAL_RATE)
        };
        let at = |s: SwitchId, in_port: PortNum| End::Switch {
            switch: s.0,
            first_slot: channels.first_slot(s) as u32,
            first_row: self.routes.sl2vl.index(s, in_port, PortNum::ZERO) as u32,
        };
        let (flight, switch) = (model.flight, model.switch_delay);
        let wire = |rate, end, delay: u64| Wire {
            rate,
            delay: delay as u32,
            credit_delay: flight as u32,
            setup: 0,
            end,
            credits: 0,
            first_queue: 0,
            queues: 1,
        };
        let mut wires = Vec::new();
        for c in channels.as_slice() {
            wires.push(wire(rate(c.from, c.out_port), at(c.to, c.in_port), flight + switch));
        }
        for h in &self.hosts {
            wires.push(wire(h.rate, at(h.switch, h.port), flight + switch));
        }
        let (first, sinks) = (wires.len() as u32, (wires.len() + self.hosts.len()) as u32);
        for (h, sink) in self.hosts.iter().zip(sinks..) {
            let end = if model.sink.is_some() { End::Wire(sink) } else { End::Adapter };
            wires.push(wire(rate(h.switch, h.port), end, flight));
        }
        if let Some((_, rate)) = model.sink {
            wires.extend(self.hosts.iter().map(|_| wire(rate, End::Adapter, 0)));
        }
        let out_ports = channels.as_slice().iter().map(|c| (c.from, c.out_port)).zip(0..);
        let to_hosts = self.hosts.iter().map(|h| (h.switch, h.port)).zip(first..);
        let mut next_out = vec![0; self.switches];
        for ((s, port), out) in out_ports.chain(to_hosts) {
            let mut taken = out;
            if model.output.is_some() {
                taken = wires.len() as u32;
                let rate = (wires[out as usize].rate / u64::from(model.speedup.max(1))).max(1);
                let setup = model.setup as u32;
                wires.push(Wire { credit_delay: 0, setup, ..wire(rate, End::Wire(out), 0) });
            }
            self.wire_of_slot[channels.first_slot(s) + port.index()] = taken;
            self.out_index.resize(wires.len(), 0);
            self.out_index[taken as usize] = next_out[s.index()];
            next_out[s.index()] += 1;
        }
        self.out_index.resize(wires.len(), 0);
        self.wires = wires;
    }

    /// Sets the number of VLs, and with it the buffers.
    ///
    /// # Errors
    /// If a buffer has no room for a packet.
    pub(super) fn with_vls(&mut self, vls: usize) -> Result<(), SimulateError> {
        self.vls = vls;
        let needs = self.model.packet.div_ceil(CREDIT);
        let channels = self.fabric.channels().len();
        let hosts = self.hosts.len();
        let mut first = 0;
        for (w, wire) in self.wires.iter_mut().enumerate() {
            let (room, what) = match wire.end {
                End::Switch { .. } => (Some(self.model.buffer), "an input buffer"),
                // From a switch's port to its adapter; any other wire ends before a link, in an
                // output buffer.
                End::Wire(_) if (channels..channels + 2 * hosts).contains(&w) => {
                    (self.model.sink.map(|(room, _)| room), "the buffer of an adapter")
                }
                End::Wire(_) => (self.model.output, "an output buffer"),
                End::Adapter => (None, ""),
            };
            let credits = room.map(|room| room.of_vl(vls));
            if let Some(has) = credits.filter(|&has| has < needs) {
                return Err(SimulateError::SmallBuffer { what, has, needs, vls });
            }
            wire.credits = credits.map_or(UNLIMITED, |c| c as i32);
            wire.queues = match (wire.end, self.model.queues) {
                (End::Switch { switch, .. }, Queues::PerOutPort) => {
                    self.fabric.channels().slots_of(SwitchId(switch)) as u32
                }
                _ => 1,
            };
            wire.first_queue = first;
            first += wire.queues * vls as u32;
        }
        self.num_queues = first;
        Ok(())
    }

    /// Wire of a host into its switch.
    pub(super) fn injection(&self, host: usize) -> u32 {
        (self.fabric.channels().len() + host) as u32
    }

    /// The channel of a wire, or the one whose output buffer it leads to.
    pub(super) fn channel_of(&self, wire: u32) -> Option<ChannelId> {
        ((wire as usize) < self.fabric.channels().len()).then_some(ChannelId(wire))
    }

    /// The wires that lead over a channel: its own, and the one to its output buffer.
    pub(super) fn wires_to(&self, channel: ChannelId) -> Vec<u32> {
        let channels = self.fabric.channels();
        let c = channels.get(channel);
        let taken = self.wire_of_slot[channels.first_slot(c.from) + c.out_port.index()];
        if taken == channel.0 { vec![taken] } else { vec![taken, channel.0] }
    }

    /// The next wire of a packet at a switch, and its VL there; `None` if the tables lead nowhere.
    #[inline]
    pub(super) fn forward(&self, end: End, dlid: u16, sl: u8) -> Option<(u32, u32)> {
        let End::Switch { switch, .. } = end else { return None };
        let port = self.lft[usize::from(dlid)][switch as usize];
        self.forward_to(end, port, sl, |row| self.rows.get(row))
    }

    /// The wire out of a port of the switch at the end of another wire, [`NONE`] if no cable is there, and the VL by
    /// the row that is in force.
    #[inline]
    pub(super) fn forward_to(
        &self,
        end: End,
        port: u8,
        sl: u8,
        row: impl Fn(usize) -> SlVlRow,
    ) -> Option<(u32, u32)> {
        let End::Switch { first_slot, first_row, .. } = end else { return None };
        if port == Lft::NO_PATH {
            return None;
        }
        let wire = *self.wire_of_slot.get(first_slot as usize + usize::from(port))?;
        let vl = match self.vls {
            1 => 0,
            _ => u32::from(row(first_row as usize + usize::from(port)).get(Sl(sl)).0),
        };
        Some((wire, vl))
    }

    /// The wires of the cable at a port of a switch, into it and out of it.
    pub(super) fn cable(&self, switch: SwitchId, port: PortNum) -> Vec<u32> {
        let channels = self.fabric.channels();
        let (first, hosts) = (channels.len(), self.hosts.len());
        let ends = |c: &Channel| [(c.from, c.out_port), (c.to, c.in_port)].contains(&(switch, port));
        let between = (0..).zip(channels.as_slice()).filter(|(_, c)| ends(c)).map(|(wire, _)| wire);
        let host = self.hosts.iter().position(|host| (host.switch, host.port) == (switch, port));
        let of_host = host.into_iter().flat_map(|h| [(first + h) as u32, (first + hosts + h) as u32]);
        between.chain(of_host).collect()
    }

    /// Whether a wire leads from a host into its switch.
    pub(super) fn is_injection(&self, wire: u32) -> bool {
        let first = self.fabric.channels().len();
        (first..first + self.hosts.len()).contains(&(wire as usize))
    }

    /// Number of a wire among the out ports of its switch.
    #[inline]
    pub(super) fn out_index(&self, wire: u32) -> u32 {
        self.out_index[wire as usize]
    }

    /// The SL of a packet.
    pub(super) fn sl(&self, host: usize, dlid: u16) -> Sl {
        match (self.sl, Lid::new(dlid)) {
            (None, Some(dlid)) => self.routes.path_sl.get(self.fabric, self.hosts[host].endport, dlid),
            (sl, _) => sl.unwrap_or_default(),
        }
    }

    /// The SL that every packet has, if it does not depend on the tables.
    pub(super) fn forced_sl(&self) -> Option<Sl> {
        self.sl
    }

    /// The VL on which an adapter sends an SL.
    pub(super) fn first_vl(&self, sl: Sl) -> u32 {
        if self.vls == 1 { 0 } else { u32::from(self.adapter_row.get(sl).0) }
    }

    /// The channels and VLs of a path, and the set of its VLs.
    ///
    /// # Errors
    /// If it does not arrive.
    pub(super) fn walk(&self, from: usize, dlid: u16) -> Result<Path, SimulateError> {
        let fabric = self.fabric;
        let source = &self.hosts[from];
        let lid = Lid::new(dlid).ok_or(SimulateError::NoLid { lid: dlid })?;
        let fail = |at: SwitchId, why: String| SimulateError::Unreached {
            source_name: fabric.describe(fabric.endport(source.endport).node),
            dlid,
            at: fabric.describe_switch(at),
            why,
        };
        if self.sl.is_none() && self.routes.path_sl.known(fabric, source.endport, lid).is_none() {
            return Err(SimulateError::NoSl {
                source_name: fabric.describe(fabric.endport(source.endport).node),
                dlid,
            });
        }
        let sl = self.sl(from, dlid);
        let dropped = |at, in_port: PortNum, out: PortNum| {
            fail(at, format!("SL {} maps to VL 15 from port {in_port} to port {out}: it is dropped", sl.0))
        };
        let first = self.adapter_row.get(sl);
        if first.0 >= Vl::MAX_DATA {
            return Err(fail(source.switch, format!("adapters map SL {} to VL 15", sl.0)));
        }
        let mut path = Path { steps: Vec::new(), vls: 1 << first.0 };
        let home = &self.hosts[self.host_of_lid[usize::from(dlid)] as usize];
        let (mut at, mut in_port) = (source.switch, source.port);
        for _ in 0..=self.switches {
            let Some(out) = self.routes.lft.get(at, lid) else {
                return Err(fail(at, "there is no entry for it".to_owned()));
            };
            if out.index() >= fabric.channels().slots_of(at) {
                return Err(fail(at, format!("it leads out of port {out}, which does not exist")));
            }
            let vl = self.routes.sl2vl.row(at, in_port, out).get(sl);
            if vl.0 >= Vl::MAX_DATA {
                return Err(dropped(at, in_port, out));
            }
            path.vls |= 1 << vl.0;
            if (at, out) == (home.switch, home.port) {
                return Ok(path);
            }
            let Some(channel) = fabric.channels().at_port(at, out) else {
                return Err(fail(
                    at,
                    format!("it leads out of port {out}, which leads neither to a switch nor to its owner"),
                ));
            };
            path.steps.push((channel, vl));
            let c = fabric.channels().get(channel);
            (at, in_port) = (c.to, c.in_port);
        }
        Err(fail(at, "it loops".to_owned()))
    }

    /// Walks pairs of a host and a LID, on all cores, and returns their VLs.
    ///
    /// # Errors
    /// For the first pair that does not arrive.
    pub(super) fn check(&self, pairs: &Pairs) -> Result<u16, SimulateError> {
        let walk = |vls: &mut u16, host: usize, dlid: u16| -> Result<(), SimulateError> {
            *vls |= self.walk(host, dlid)?.vls;
            Ok(())
        };
        let results: Vec<Result<u16, SimulateError>> = match pairs {
            Pairs::Some(pairs) => pairs
                .par_iter()
                .map(|&(from, to)| {
                    let mut vls = 0;
                    self.lids(to as usize).try_for_each(|dlid| walk(&mut vls, from as usize, dlid))?;
                    Ok(vls)
                })
                .collect(),
            Pairs::All => {
                // The common part of all hosts on one switch with the same SL is walked once.
                let alike = self.sl.is_some() || self.routes.path_sl.is_by_switch();
                let mut seen = HashMap::new();
                let sources: Vec<usize> = (0..self.hosts.len())
                    .filter(|&h| {
                        let host = &self.hosts[h];
                        let rows = (1..self.fabric.channels().slots_of(host.switch))
                            .map(|out| self.routes.sl2vl.row(host.switch, host.port, PortNum(out as u8)))
                            .collect::<Vec<_>>();
                        !alike || seen.insert((host.switch, rows), h).is_none()
                    })
                    .collect();
                (0..self.hosts.len())
                    .into_par_iter()
                    .map(|to| {
                        let mut vls = 0;
                        for dlid in self.lids(to) {
                            let others = sources.iter().filter(|&&from| from != to);
                            others.into_iter().try_for_each(|&from| walk(&mut vls, from, dlid))?;
                        }
                        Ok(vls)
                    })
                    .collect()
            }
        };
        results.into_iter().try_fold(0, |all, vls| Ok(all | vls?))
    }

    /// The LIDs of a host.
    pub(super) fn lids(&self, host: usize) -> impl Iterator<Item = u16> + use<> {
        let host = &self.hosts[host];
        host.lid..host.lid + host.lids
    }

    /// Hops from each switch to a LID of a host; `u16::MAX` if the tables do not lead there.
    pub(super) fn hops_to(&self, host: usize, dlid: u16) -> Vec<u16> {
        let channels = self.fabric.channels();
        let ports = self.lft[usize::from(dlid)];
        let mut hops = vec![u16::MAX; self.switches];
        hops[self.hosts[host].switch.index()] = 0;
        let mut path = Vec::new();
        for start in 0..self.switches {
            let mut at = start;
            path.clear();
            while hops[at] == u16::MAX && path.len() < self.switches {
                path.push(at);
                let channel = channels.at_port(SwitchId::at(at), PortNum(ports[at]));
                let Some(channel) = channel else { break };
                at = channels.get(channel).to.index();
            }
            let mut h = hops[at];
            for &s in path.iter().rev() {
                h = h.saturating_add(1);
                hops[s] = h;
            }
        }
        hops
    }

    /// A host, for messages.
    pub(super) fn describe_host(&self, host: usize) -> String {
        self.fabric.describe(self.fabric.endport(self.hosts[host].endport).node)
    }
}

/// SL2VL rows. Few of many turns have a row of their own, and row numbers fit into a cache where
/// the rows do not.
enum Rows<'a> {
    Small(Vec<u8>, Vec<SlVlRow>),
    Numbered(Vec<u16>, Vec<SlVlRow>),
    Plain(&'a [SlVlRow]),
}

impl<'a> Rows<'a> {
    fn new(rows: &'a [SlVlRow]) -> Self {
        let mut distinct = Vec::new();
        let mut numbers = HashMap::new();
        let mut of = Vec::with_capacity(rows.len());
        for &row in rows {
            let number = *numbers.entry(row).or_insert_with(|| {
                distinct.push(row);
                distinct.len() - 1
            });
            let Ok(number) = u16::try_from(number) else { return Self::Plain(rows) };
            of.push(number);
        }
        match of.iter().map(|&number| u8::try_from(number)).collect() {
            Ok(small) => Self::Small(small, distinct),
            Err(_) => Self::Numbered(of, distinct),
        }
    }

    #[inline]
    fn get(&self, index: usize) -> SlVlRow {
        match self {
            Self::Small(of, distinct) => distinct[usize::from(of[index])],
            Self::Numbered(of, distinct) => distinct[usize::from(of[index])],
            Self::Plain(rows) => rows[index],
        }
    }
}

/// A path between hosts.
pub(super) struct Path {
    pub(super) steps: Vec<(ChannelId, Vl)>,
    /// VLs of all its links, bit n for VL n.
    pub(super) vls: u16,
}

/// Pairs of hosts.
pub(super) enum Pairs {
    /// Any two.
    All,
    /// (sender, receiver).
    Some(Vec<(u32, u32)>),
}

fn host(fabric: &Fabric, model: &Model, endport: EndPortId, end: &EndPort) -> Option<Host> {
    let (switch, port) = end.attachment?;
    Some(Host {
        endport,
        lid: end.lid.get(),
        lids: end.lmc.lids(),
        switch,
        port,
        rate: model.rate.or(fabric.byte_time_at(switch, port)).unwrap_or(USUAL_RATE),
    })
}

/// The forwarding tables by LID; empty for LID 0.
fn lft_columns<'a>(fabric: &Fabric, lft: &'a Lft) -> Vec<&'a [u8]> {
    let column = |lid| Lid::new(lid as u16).map_or(&[][..], |lid| lft.to(lid));
    (0..fabric.lid_table_len()).map(column).collect()
}
