//! Following the tables of a fabric hop by hop.

use super::times::Times;
use super::{DeadEnd, EvaluateError};
use crate::fabric::{ChannelId, EndPort, Fabric, Lid, PortNum, SwitchId};
use crate::tables::Lft;

/// An adapter port and the switch that it is attached to.
pub(super) struct Adapter<'a> {
    pub(super) end: &'a EndPort,
    pub(super) switch: SwitchId,
    /// The switch's port to the adapter.
    pub(super) port: u8,
}

/// The next step of a packet.
pub(super) enum Step {
    /// Over a channel to a switch.
    Over(ChannelId, SwitchId),
    /// To the adapter that it is for.
    Home,
    /// Lost: no usable entry.
    Lost,
}

/// The tables of a fabric and the adapters whose routes are evaluated.
pub(super) struct Paths<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) lft: &'a Lft,
    /// In port GUID order.
    pub(super) adapters: Vec<Adapter<'a>>,
    /// Number of adapters on each switch.
    pub(super) senders: Vec<u64>,
    /// What bytes take on links.
    pub(super) times: Times,
    /// Seed of the draw, where each pair draws its LID among those with the shortest paths.
    pub(super) drawn: Option<u64>,
}

impl<'a> Paths<'a> {
    /// # Errors
    /// [`EvaluateError::NoPair`].
    pub(super) fn new(fabric: &'a Fabric, lft: &'a Lft) -> Result<Self, EvaluateError> {
        let attached = fabric.adapters().filter_map(|(_, end)| Some((end, end.attachment?)));
        let adapters: Vec<_> =
            attached.map(|(end, (switch, port))| Adapter { end, switch, port: port.0 }).collect();
        if adapters.len() < 2 {
            return Err(EvaluateError::NoPair { adapters: adapters.len() });
        }
        let mut senders = vec![0; fabric.num_switches()];
        for a in &adapters {
            senders[a.switch.index()] += 1;
        }
        let times = Times::new(fabric, adapters.iter().map(|adapter| adapter.end));
        Ok(Self { fabric, lft, adapters, senders, times, drawn: None })
    }

    /// What switch `at` does by an entry `port` with a packet for an adapter.
    pub(super) fn step(&self, at: SwitchId, port: u8, to: &Adapter) -> Step {
        if at == to.switch && port == to.port {
            return Step::Home;
        }
        let channels = self.fabric.channels();
        match channels.at_port(at, PortNum(port)) {
            Some(id) => Step::Over(id, channels.get(id).to),
            None => Step::Lost,
        }
    }

    /// The channels from a switch to a LID of an adapter. Ends early if the tables do not lead
    /// there, and never ends if they loop.
    pub(super) fn walk(&self, from: SwitchId, to: &Adapter, lid: Lid) -> impl Iterator<Item = ChannelId> {
        let ports = self.lft.to(lid);
        let mut at = from;
        std::iter::from_fn(move || match self.step(at, ports[at.index()], to) {
            Step::Over(channel, next) => {
                at = next;
                Some(channel)
            }
            Step::Home | Step::Lost => None,
        })
    }

    /// The LID to which adapter number `from` sends packets for adapter number `to`.
    pub(super) fn lid(&self, from: usize, to: usize) -> Lid {
        let (at, receiver) = (self.adapters[from].switch, &self.adapters[to]);
        let base = receiver.end.lid;
        let Some(seed) = self.drawn.filter(|_| receiver.end.lmc.lids() > 1) else { return base };
        let hops = |lid: Lid| self.walk(at, receiver, lid).count();
        let least = receiver.end.lids().map(hops).min();
        let shortest = || receiver.end.lids().filter(|&lid| Some(hops(lid)) == least);
        let number = mixed(seed ^ mixed((from as u64) << 32 | to as u64)) % (shortest().count() as u64);
        shortest().nth(number as usize).unwrap_or(base)
    }

    /// An error for the first adapter that does not reach a LID of another one, if there is one.
    pub(super) fn unreached(&self, to: &Adapter, lid: Lid) -> Option<EvaluateError> {
        let mut sources = self.adapters.iter().filter(|a| a.end.lid != to.end.lid);
        sources.find_map(|from| {
            let reason = self.dead_end(from.switch, to, lid)?;
            let (source_port, destination) = (self.describe(from), self.describe(to));
            Some(EvaluateError::Unreached { source_port, destination, lid, reason })
        })
    }

    /// How the path from a switch to a LID of an adapter fails, if it does.
    fn dead_end(&self, from: SwitchId, to: &Adapter, lid: Lid) -> Option<DeadEnd> {
        let ports = self.lft.to(lid);
        let mut at = from;
        // A path that visits more switches than exist visits one twice.
        for _ in 0..ports.len() {
            let port = ports[at.index()];
            match self.step(at, port, to) {
                Step::Home => return None,
                Step::Over(_, next) => at = next,
                Step::Lost => {
                    let switch = self.fabric.describe_switch(at);
                    return Some(match port {
                        Lft::NO_PATH => DeadEnd::NoEntry { switch },
                        port => DeadEnd::Astray { switch, port },
                    });
                }
            }
        }
        Some(DeadEnd::Loop { switch: self.fabric.describe_switch(at) })
    }

    fn describe(&self, adapter: &Adapter) -> String {
        format!("{} port {}", self.fabric.describe(adapter.end.node), adapter.end.port)
    }
}

/// Spreads the bits of a number over all of it: the output function of SplitMix64.
fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
