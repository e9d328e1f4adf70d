//! Properties of switches, links and adapters.

/// Bytes per credit.
pub const CREDIT: u32 = 64;

/// How packets wait in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// In one queue: a waiting packet blocks all behind it.
    Fifo,
    /// In one queue per out port.
    PerOutPort,
}

/// Size of a buffer, in credits of 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// For each VL.
    PerVl(u32),
    /// Per port, divided evenly among the VLs in use.
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

/// Which of the packets that wait for a link is sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arbitration {
    /// VLs by the VL arbitration tables; in ports round-robin.
    RoundRobin,
    /// VLs by the VL arbitration tables; the packet that reached the head of its queue first.
    FirstCome,
    /// The oldest packet of all VLs.
    Age,
    /// The highest VL, in ports round-robin. If every hop raises the VL, as in DF-DN, that is
    /// roughly the oldest packet (Schneider et al., section VIII).
    VlAge,
}

/// The hardware. Times are in picoseconds, rates in femtoseconds per byte.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Largest packet in bytes, headers included, at most 4096.
    pub packet: u32,
    /// Input buffers of switches.
    pub buffer: Room,
    /// How packets wait in an input buffer.
    pub queues: Queues,
    /// How many packets the input buffers of a port may send at the same time; 0 for one per queue.
    pub reads: u8,
    /// Buffers at the out ports of switches; `None`: packets go from the input buffer to the link.
    pub output: Option<Room>,
    /// Speed of a packet to an output buffer, as a multiple of the link's.
    pub speedup: u32,
    /// Time that each packet occupies its way to an output buffer before its first byte; without output buffers,
    /// nothing. A switch that routes the next packet only when the one before it has left its input buffer has its
    /// delay here, others in `switch_delay`.
    pub setup: u64,
    /// From the arrival of a head at a switch until it can leave.
    pub switch_delay: u64,
    /// Propagation delay of a cable.
    pub flight: u64,
    /// One rate for all links; `None`: as stated by the fabric.
    pub rate: Option<u64>,
    /// Buffer of an adapter and the rate at which it is emptied; `None`: adapters accept at link
    /// rate.
    pub sink: Option<(Room, u64)>,
    /// Arbitration for links.
    pub arbitration: Arbitration,
    /// Packets that an adapter queues for its link, over all VLs. While that many wait, later ones
    /// wait without a VL, in order of creation.
    pub window: u32,
}

impl Default for Model {
    /// 2 KiB packets, 16 KiB per VL of an in port, 100 ns per switch, 5 m of cable.
    fn default() -> Self {
        Self {
            packet: 2048,
            buffer: Room::PerVl(256),
            queues: Queues::Fifo,
            reads: 0,
            output: None,
            speedup: 1,
            setup: 0,
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
    ///   Low-Diameter InfiniBand Networks": 2 KiB packets, 800 credits per port, links of "10 GiB"
    ///   read as 10 GiB/s. What the paper does not state is as in the example of ib_flit_sim with
    ///   the same 800 credits and packets: 50 + 50 ns per switch, three packets at a time from an
    ///   in port, output buffers of 78 credits per VL.
    /// - `flich`: section 5.1 of Flich et al., "Improving InfiniBand Routing through Multiple
    ///   Virtual Networks": 32-byte packets, a byte every 4 ns, 100 ns per switch and 100 ns per
    ///   cable, 1 KB per VL at both sides of a crossbar as fast as the links, first come first
    ///   served.
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

/// The rate if a fabric states none: 4x QDR.
pub(super) const USUAL_RATE: u64 = 250_000;
