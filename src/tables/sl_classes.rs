//! SLs that all switches treat alike.

use super::{Sl2Vl, SlVlRow};
use crate::fabric::{ChannelId, Fabric, Sl, Vl};

/// Classes of SLs: all SL2VL rows map the SLs of a class alike.
#[derive(Clone, Debug)]
pub struct SlClasses {
    /// The SLs of each class, bit `n` = SL `n`, in ascending order of the lowest.
    members: Vec<u16>,
}

impl SlClasses {
    /// Cost: O(rows).
    pub fn new(sl2vl: &Sl2Vl) -> Self {
        let mut alike = [u16::MAX; Sl::COUNT];
        let mut last = SlVlRow::default();
        for &row in sl2vl.rows() {
            if row == last || row == SlVlRow::uniform(row.get(Sl(0))) {
                continue;
            }
            last = row;
            let vls = row.vls();
            for (sl, vl) in vls.iter().enumerate() {
                let same = (0..Sl::COUNT).filter(|&other| vls[other] == *vl);
                alike[sl] &= same.fold(0, |set, other| set | 1 << other);
            }
        }
        let mut members: Vec<u16> = alike.to_vec();
        members.dedup();
        let mut seen = 0;
        members.retain(|&set| {
            let new = seen & set == 0;
            seen |= set;
            new
        });
        Self { members }
    }

    /// The number of classes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// The SLs of a class, bit `n` = SL `n`.
    pub fn members(&self, class: usize) -> u16 {
        self.members[class]
    }

    /// The data VLs, bit `n` = VL `n`, with which end ports of a switch send packets of a class over a channel.
    pub fn injected(&self, fabric: &Fabric, sl2vl: &Sl2Vl, channel: ChannelId, class: usize) -> u16 {
        let c = fabric.channels().get(channel);
        let ports = fabric.endports_on(c.from).iter().filter_map(|&e| fabric.endport(e).attachment);
        let vls = ports.map(|(_, port)| sl2vl.row(c.from, port, c.out_port).get(self.sl(class)));
        vls.fold(0, |all, vl| all | vl.data_bit())
    }

    /// A row in which the SLs of a class have a VL.
    pub fn with(&self, row: SlVlRow, class: usize, vl: Vl) -> SlVlRow {
        let members = (0..Sl::COUNT as u8).filter(|sl| self.members[class] >> sl & 1 != 0);
        members.fold(row, |row, sl| row.with(Sl(sl), vl))
    }

    /// An SL of a class: the lowest.
    pub fn sl(&self, class: usize) -> Sl {
        Sl(self.members[class].trailing_zeros() as u8)
    }

    /// The classes, bit `n` = class `n`, of some SLs.
    pub fn of(&self, sls: u16) -> u16 {
        let met = |&(_, &set): &(usize, &u16)| set & sls != 0;
        self.members.iter().enumerate().filter(met).fold(0, |all, (class, _)| all | 1 << class)
    }

    /// The same without the classes of which no SL is among these.
    #[must_use]
    pub fn only(mut self, sls: u16) -> Self {
        self.members.retain(|set| set & sls != 0);
        self
    }
}
