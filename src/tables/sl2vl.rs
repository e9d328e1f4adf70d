//! SL to VL mapping tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fabric::{Channels, EndPortId, Fabric, PortNum, Sl, SwitchId, Vl};

/// The VLs of the sixteen SLs for one (in port, out port), four bits each: SL 0 in the highest.
///
/// Its big-endian bytes are the SLtoVLMappingTable attribute on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlVlRow(pub u64);

impl SlVlRow {
    /// The same VL for every SL.
    pub fn uniform(vl: Vl) -> Self {
        Self(0x1111_1111_1111_1111 * u64::from(vl.0 & 0xf))
    }

    /// One VL per SL.
    pub fn from_vls(vls: [Vl; Sl::COUNT]) -> Self {
        Self(vls.iter().fold(0, |row, vl| row << 4 | u64::from(vl.0 & 0xf)))
    }

    /// The VL of an SL.
    pub fn get(self, sl: Sl) -> Vl {
        Vl((self.0 >> Self::shift(sl) & 0xf) as u8)
    }

    /// The same row with a different VL for one SL.
    #[must_use]
    pub fn with(self, sl: Sl, vl: Vl) -> Self {
        let shift = Self::shift(sl);
        Self(self.0 & !(0xf << shift) | u64::from(vl.0 & 0xf) << shift)
    }

    /// The VLs in order of SL.
    pub fn vls(self) -> [Vl; Sl::COUNT] {
        std::array::from_fn(|sl| self.get(Sl(sl as u8)))
    }

    /// The row with VL 15 for every SL that has it here, and VL 0 for the others.
    pub fn drops(self) -> Self {
        let all = self.0 & self.0 >> 1 & self.0 >> 2 & self.0 >> 3 & 0x1111_1111_1111_1111;
        Self(all * 15)
    }

    fn shift(sl: Sl) -> u32 {
        60 - 4 * u32::from(sl.0 & 0xf)
    }
}

/// For each switch and each of its (in port, out port), port 0 included, a row of VLs by SL: one
/// dense array of 8 bytes x sum over switches of (ports + 1)^2. Adapters and routers share one row
/// for what they send. A new table maps everything to VL 0. Copies share the rows until one of them changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sl2Vl {
    first: Vec<usize>,
    side: Vec<usize>,
    rows: Arc<Vec<SlVlRow>>,
    adapters: SlVlRow,
    withheld: Arc<BTreeMap<EndPortId, u16>>,
}

impl Sl2Vl {
    /// All rows map every SL to VL 0.
    pub fn new(fabric: &Fabric) -> Self {
        let channels: &Channels = fabric.channels();
        let side: Vec<usize> = fabric.switch_ids().map(|s| channels.slots_of(s)).collect();
        let mut first = Vec::with_capacity(side.len());
        let mut len = 0;
        for n in &side {
            first.push(len);
            len += n * n;
        }
        Self {
            first,
            side,
            rows: Arc::new(vec![SlVlRow::default(); len]),
            adapters: SlVlRow::default(),
            withheld: Arc::default(),
        }
    }

    /// Index of (switch, in port, out port) among all rows.
    ///
    /// # Panics
    /// If the switch does not have these ports.
    pub fn index(&self, switch: SwitchId, in_port: PortNum, out_port: PortNum) -> usize {
        let side = self.side[switch.index()];
        assert!(in_port.index() < side && out_port.index() < side, "a port that the switch does not have");
        self.first[switch.index()] + in_port.index() * side + out_port.index()
    }

    /// The row of (switch, in port, out port).
    pub fn row(&self, switch: SwitchId, in_port: PortNum, out_port: PortNum) -> SlVlRow {
        self.rows[self.index(switch, in_port, out_port)]
    }

    /// Replaces the row of (switch, in port, out port).
    pub fn set(&mut self, switch: SwitchId, in_port: PortNum, out_port: PortNum, row: SlVlRow) {
        let i = self.index(switch, in_port, out_port);
        self.rows_mut()[i] = row;
    }

    /// The rows of a switch: those of in port 0 by out port, then those of in port 1, and so on.
    pub fn of(&self, switch: SwitchId) -> &[SlVlRow] {
        let side = self.side[switch.index()];
        &self.rows[self.first[switch.index()]..][..side * side]
    }

    /// The rows of a switch, mutable.
    pub fn of_mut(&mut self, switch: SwitchId) -> &mut [SlVlRow] {
        let side = self.side[switch.index()];
        let first = self.first[switch.index()];
        &mut self.rows_mut()[first..][..side * side]
    }

    /// For each switch its [number of ports](Self::ports_of) and its [rows](Self::of), mutable.
    pub fn by_switch_mut(&mut self) -> Vec<(usize, &mut [SlVlRow])> {
        let side = self.side.clone();
        let mut rest = self.rows_mut();
        let of = side.into_iter().map(|side| {
            let (rows, more) = std::mem::take(&mut rest).split_at_mut(side * side);
            rest = more;
            (side, rows)
        });
        of.collect()
    }

    /// All rows, indexed by [`Sl2Vl::index`].
    pub fn rows(&self) -> &[SlVlRow] {
        &self.rows
    }

    /// All rows, indexed by [`Sl2Vl::index`], mutable.
    pub fn rows_mut(&mut self) -> &mut [SlVlRow] {
        Arc::make_mut(&mut self.rows).as_mut_slice()
    }

    /// The row of every adapter and router. A packet's VL on its way into the first switch cannot
    /// cause a credit loop; the row keeps classes of service separate. Packets with an SL that it
    /// maps to VL 15 are not sent.
    pub fn adapters(&self) -> SlVlRow {
        self.adapters
    }

    /// Replaces the row of every adapter and router.
    pub fn set_adapters(&mut self, row: SlVlRow) {
        self.adapters = row;
    }

    /// Adapters and routers that map SLs to VL 15 which their common row does not: these SLs, bit `n` = SL `n`.
    pub fn withheld(&self) -> &BTreeMap<EndPortId, u16> {
        &self.withheld
    }

    /// A row with VL 15 for each SL that some adapter or router maps to it.
    pub fn some_drop(&self) -> SlVlRow {
        let sls = self.withheld.values().fold(0, |all, sls| all | sls);
        let all = (0..Sl::COUNT as u8).map(Sl).filter(|sl| sls >> sl.0 & 1 != 0);
        all.fold(self.adapters.drops(), |row, sl| row.with(sl, Vl(Vl::MAX_DATA)))
    }

    /// Replaces the SLs that single adapters and routers map to VL 15.
    pub fn set_withheld(&mut self, sls: BTreeMap<EndPortId, u16>) {
        self.withheld = Arc::new(sls);
    }

    /// Number of ports, port 0 included, that the rows of a switch cover.
    pub fn ports_of(&self, switch: SwitchId) -> usize {
        self.side[switch.index()]
    }
}
