//! What hosts send: messages, divided into packets, with their LIDs and SLs.

use super::Load;
use super::network::Network;
use super::random::Random;
use super::state::Packet;
use super::traffic::Demand;
use crate::tables::HostPaths;

/// To which LID of a receiver with several LIDs hosts send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LidChoice {
    /// The base LID.
    #[default]
    Base,
    /// One with the shortest path, drawn once per pair and for all seeds alike.
    Shortest,
    /// Any, chosen at random for each packet.
    Random,
    /// All in rotation, packet by packet.
    Striped,
    /// The receiver's i-th LID for the sender's i-th: host h uses its LID number h modulo the
    /// number of LIDs.
    SameIndex,
}

/// Times between messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Independent of each other: a Poisson process.
    #[default]
    Poisson,
    /// Constant, with a random start.
    Constant,
}

/// The LIDs that hosts may choose from.
pub(super) struct Lids {
    choice: LidChoice,
    /// For `Shortest`: by receiver and switch of the sender, one bit per LID.
    shortest: Vec<u128>,
    switches: usize,
}

impl Lids {
    /// Cost: O(LIDs x switches) for `Shortest`, else nothing.
    pub(super) fn new(net: &Network<'_>, choice: LidChoice) -> Self {
        let switches = net.fabric.num_switches();
        let mut shortest = Vec::new();
        if choice == LidChoice::Shortest {
            shortest.reserve(net.hosts.len() * switches);
            for host in 0..net.hosts.len() {
                let hops: Vec<Vec<u16>> = net.lids(host).map(|lid| net.hops_to(host, lid)).collect();
                shortest.extend((0..switches).map(|s| {
                    let least = hops.iter().map(|of| of[s]).min();
                    (0..hops.len()).filter(|&i| Some(hops[i][s]) == least).fold(0, |set, i| set | 1_u128 << i)
                }));
            }
        }
        Self { choice, shortest, switches }
    }

    /// The LID for a packet; `n` counts the sender's packets. `upper`: one of that half, if only a half is in use.
    fn choose(
        &self,
        net: &Network<'_>,
        (from, to): (usize, usize),
        n: u64,
        upper: Option<bool>,
        random: &mut Random,
    ) -> u16 {
        let receiver = &net.hosts[to];
        if receiver.lids == 1 {
            return receiver.lid;
        }
        let (first, count) = match upper {
            None => (0, receiver.lids),
            Some(upper) => (if upper { receiver.lids / 2 } else { 0 }, receiver.lids / 2),
        };
        let lids = u64::from(count);
        let index = match self.choice {
            LidChoice::Base => 0,
            LidChoice::Random => random.below(lids),
            LidChoice::Striped => n % lids,
            LidChoice::SameIndex => from as u64 % lids,
            LidChoice::Shortest => {
                let all = self.shortest[to * self.switches + net.hosts[from].switch.index()];
                let half = u128::MAX >> (128 - count);
                let set = Some(all >> first & half).filter(|set| *set != 0).unwrap_or(half);
                let pair = Random::new(from as u64, to as u64).below(u64::from(set.count_ones()));
                let mut left = set;
                for _ in 0..pair {
                    left &= left - 1;
                }
                u64::from(left.trailing_zeros())
            }
        };
        receiver.lid + first + index as u16
    }
}

/// A host that sends.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    random: Random,
    arrivals: Arrivals,
    /// Mean time between messages in femtoseconds; 0: each starts when the one before is sent.
    interval: u64,
    /// Creation time of the next message, in femtoseconds, and of the current one.
    next: u64,
    /// Bytes of a message.
    message: u64,
    /// Bytes left of the current message.
    left: u64,
    to: usize,
    /// Messages still to be created.
    messages: u64,
    /// Messages and packets created.
    made: u64,
    packets: u64,
    /// Packets in the send queues.
    pub(super) waiting: u32,
    /// Whether the send queues are full.
    pub(super) stalled: bool,
}

impl Sender {
    /// - `message`: bytes per message.
    pub(super) fn new(
        net: &Network<'_>,
        demand: &Demand,
        host: usize,
        seed: u64,
        load: Load,
        arrivals: Arrivals,
        message: u64,
    ) -> Self {
        let mut random = Random::new(seed, host as u64);
        let hosts = net.hosts.len();
        let messages = demand.messages(host, hosts);
        let (interval, next, messages) = match load {
            Load::Messages => (0, 0, messages),
            Load::Share(share) => {
                let interval = (message as f64 * net.hosts[host].rate as f64 / share) as u64;
                let next = match arrivals {
                    Arrivals::Poisson => random.exponential(interval),
                    Arrivals::Constant => random.below(interval.max(1)),
                };
                (interval, next, if messages == 0 { 0 } else { u64::MAX })
            }
        };
        Self {
            random,
            arrivals,
            interval,
            next,
            message,
            left: 0,
            to: 0,
            messages,
            made: 0,
            packets: 0,
            waiting: 0,
            stalled: false,
        }
    }

    /// Whether it sends at all.
    pub(super) fn sends(&self) -> bool {
        self.messages > 0 || self.left > 0
    }

    /// Sends nothing more.
    pub(super) fn silence(&mut self) {
        (self.messages, self.left) = (0, 0);
    }

    /// Time of its first message.
    pub(super) fn first(&self) -> Option<u64> {
        self.next()
    }

    /// Creation time of the next packet; it may have passed.
    pub(super) fn next(&self) -> Option<u64> {
        self.sends().then_some(self.next / 1000)
    }

    /// Creates the next packet.
    ///
    /// - `paths`: which LIDs and SLs may be used, if not all that the tables state.
    pub(super) fn make(
        &mut self,
        host: usize,
        net: &Network<'_>,
        demand: &Demand,
        lids: &Lids,
        paths: Option<HostPaths>,
    ) -> Packet {
        if self.left == 0 {
            self.to = demand.receiver(host, net.hosts.len(), self.made, &mut self.random);
            self.left = self.message;
            self.messages -= 1;
            self.made += 1;
        }
        let bytes = self.left.min(u64::from(net.model.packet));
        self.left -= bytes;
        let upper = paths.map(|paths| paths.upper);
        let dlid = lids.choose(net, (host, self.to), self.packets, upper, &mut self.random);
        let sl = net.sl(host, dlid).0;
        let is_other = |paths: &HostPaths| paths.sls >> sl & 1 == 0;
        self.packets += 1;
        let packet = Packet {
            made: self.next / 1000,
            source: host as u16,
            dlid,
            bytes: bytes as u16,
            sl: paths.filter(is_other).map_or(sl, |paths| paths.sls.trailing_zeros() as u8),
            last: self.left == 0,
            ..Packet::default()
        };
        if self.left == 0 {
            self.next += match self.arrivals {
                Arrivals::Poisson => self.random.exponential(self.interval),
                Arrivals::Constant => self.interval,
            };
        }
        packet
    }
}
