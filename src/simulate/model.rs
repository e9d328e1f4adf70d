//! What switches, links and adapters are like.

use crate::fabric::{LinkSpeed, Port};

/// Bytes that one credit stands for.
pub const CREDIT: u32 = 64;

/// How the packets of a buffer wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// In one queue: a packet that waits holds up all behind it.
    Fifo,
    /// In a queue for each out port.
    PerOutPort,
}

/// Room of a buffer, in credits of 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// For each VL.
    PerVl(u32),
    /// For a port, divided evenly among the VLs in use.
    PerPort(u32),
}

impl Room {
    /// Credits of one of `vls` VLs.
    pub(super) fn of_vl(self, vls: usize) -> u32 {
        match self {
            Self::PerVl(credits) => credits,
            Self::PerPort(credits) => credits / vls.max(1) as u32,
        }
    }
}

/// Which of the packets that wait for a link goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arbitration {
    /// VLs by the VL arbitration tables; in ports in turn.
    RoundRobin,
    /// VLs by the VL arbitration tables; the packet that came to the head of its queue first.
    FirstCome,
    /// The oldest packet, whatever its VL.
    Age,
    /// The highest VL, in ports in turn. Where every hop raises the VL, as in DF-DN, that is about the
    /// oldest packet (Schneider et al., section VIII).
    VlAge,
}

/// The hardware. Times are in picoseconds, rates in femtoseconds a byte.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Largest packet in bytes, headers included, at most 4096.
    pub packet: u32,
    /// Input buffers of switches.
    pub buffer: Room,
    /// How packets wait in an input buffer.
    pub queues: Queues,
    /// How many packets the input buffers of a port may send at the same time; 0 for one from each
    /// queue.
    pub reads: u8,
    /// Buffers at the out ports of switches; `None`: packets go from the input buffer to the link.
    pub output: Option<Room>,
    /// How many times as fast as the link a packet goes to an output buffer.
    pub speedup: u32,
    /// From the arrival of a head at a switch until it can leave.
    pub switch_delay: u64,
    /// How long a bit takes through a cable.
    pub flight: u64,
    /// One rate for all links; `None`: as the fabric states.
    pub rate: Option<u64>,
    /// Buffer of an adapter and the rate at which it is emptied; `None`: adapters take what comes.
    pub sink: Option<(Room, u64)>,
    /// Who goes next.
    pub arbitration: Arbitration,
    /// Packets that an adapter lines up for its link, all VLs together. While so many wait, later ones
    /// wait without a VL, in the order in which they were made.
    pub window: u32,
}

impl Default for Model {
    /// 2 KiB packets, 16 KiB for each VL of an in port, 100 ns a switch, 5 m of cable.
    fn default() -> Self {
        Self {
            packet: 2048,
            buffer: Room::PerVl(256),
            queues: Queues::Fifo,
            reads: 0,
            output: None,
            speedup: 1,
            switch_delay: 100_000,
            flight: 25_000,
            rate: None,
            sink: None,
            arbitration: Arbitration::RoundRobin,
            window: 64,
        }
    }
}

impl Model {
    /// The names of [`Model::named`].
    pub const NAMES: &'static [&'static str] = &["default", "schneider", "flich"];

    /// A model by its name.
    ///
    /// - `schneider`: section VI.A of Schneider, Bibartiu, Hoefler, "Ensuring Deadlock-Freedom in
    ///   Low-Diameter InfiniBand Networks": 2 KiB packets, 800 credits a port, links of "10 GiB" taken as
    ///   10 GiB/s. What the paper does not say is as in the example of ib_flit_sim with the same 800
    ///   credits and packets: 50 + 50 ns a switch, three packets at a time from an in port, output
    ///   buffers of 78 credits a VL.
    /// - `flich`: section 5.1 of Flich et al., "Improving InfiniBand Routing through Multiple Virtual
    ///   Networks": 32-byte packets, a byte every 4 ns, 100 ns a switch and 100 ns a cable, 1 KB for each
    ///   VL at both sides of a crossbar as fast as the links, first come first served.
    pub fn named(name: &str) -> Option<Self> {
        let default = Self::default();
        match name {
            "default" => Some(default),
            "schneider" => Some(Self {
                buffer: Room::PerPort(800),
                reads: 3,
                output: Some(Room::PerVl(78)),
                speedup: 3,
                // 2^30 x 10 bytes a second.
                rate: Some(93_132),
                ..default
            }),
            "flich" => Some(Self {
                packet: 32,
                buffer: Room::PerVl(16),
                output: Some(Room::PerVl(16)),
                flight: 100_000,
                rate: Some(4_000_000),
                arbitration: Arbitration::FirstCome,
                ..default
            }),
            _ => None,
        }
    }
}

/// Femtoseconds a byte of a link, as a port states it: the rate of the data, coding taken off.
pub(super) fn rate_of(port: &Port) -> Option<u64> {
    let lane = match port.speed? {
        LinkSpeed::Sdr => 4_000_000,
        LinkSpeed::Ddr => 2_000_000,
        LinkSpeed::Qdr => 1_000_000,
        LinkSpeed::Fdr10 => 800_000,
        // 14.0625 Gbit/s, 64 of 66 bits.
        LinkSpeed::Fdr => 586_667,
        LinkSpeed::Edr => 320_000,
        LinkSpeed::Hdr => 160_000,
        LinkSpeed::Ndr => 80_000,
        LinkSpeed::Xdr => 40_000,
    };
    Some(lane / u64::from(port.width.unwrap_or(4).max(1)))
}

/// The rate where a fabric states none: 4x QDR.
pub(super) const USUAL_RATE: u64 = 250_000;
