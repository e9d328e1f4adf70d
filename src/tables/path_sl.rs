//! The SL that a sender must use: what PathRecord queries answer.

use super::Classes;
use crate::fabric::{EndPortId, Fabric, Lid, Sl, SwitchId};

/// SL by source and destination LID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathSl {
    /// Any SL of a set serves every pair (bit `n` = SL `n`); senders that ask get the lowest.
    Any(u16),
    /// One SL by destination LID and the source's switch: a dense array of
    /// [`Fabric::lid_table_len`] x switches bytes, destination-major as [`Lft`](super::Lft).
    BySwitch(Vec<u8>),
    /// One SL by source end port and destination LID: a dense array of end ports x
    /// [`Fabric::lid_table_len`] bytes, [`PathSl::UNKNOWN`] where nothing is known (then any SL
    /// may be in use). What the dumps of engines that were not written here amount to.
    ByEndPort(Vec<u8>),
    /// Classes of service over one of the above.
    Classes(ClassSl),
}

/// SL by class of service, source and destination LID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassSl {
    /// Which SL leads to which block.
    pub classes: Classes,
    /// The SL within a block, or [`PathSl::Any`] with all SLs, of whatever class, that serve every
    /// pair. Not classes again.
    pub own: Box<PathSl>,
    /// The way by destination LID, an array of [`Fabric::lid_table_len`]; empty where there is only
    /// one. Any way serves every pair.
    pub ways: Vec<u8>,
}

impl ClassSl {
    fn way(&self, dlid: Lid) -> u8 {
        self.ways.get(dlid.index()).copied().unwrap_or(0)
    }

    /// The SLs of all classes, in one way, for a pair whose SL within a block is `own`.
    fn of_way(&self, way: u8, own: u8) -> u16 {
        let sl = |class| self.classes.sl(class, way, own);
        (0..self.classes.classes).fold(0, |set, class| set | bit(sl(class).0))
    }
}

fn bit(sl: u8) -> u16 {
    if sl == PathSl::UNKNOWN { u16::MAX } else { 1 << (sl & 0xf) }
}

fn lowest(set: u16) -> u8 {
    set.trailing_zeros() as u8
}

impl PathSl {
    /// Entry of a pair that nothing is known about.
    pub const UNKNOWN: u8 = 0xff;

    /// One SL for every pair.
    pub fn one(sl: Sl) -> Self {
        Self::Any(1 << sl.0)
    }

    /// A table by source switch, all SL 0.
    pub fn by_switch(fabric: &Fabric) -> Self {
        Self::BySwitch(vec![0; fabric.num_switches() * fabric.lid_table_len()])
    }

    /// The SLs of which any serves every pair, if there are such.
    pub fn any(&self) -> Option<u16> {
        match self {
            Self::Any(set) => Some(*set),
            Self::BySwitch(_) | Self::ByEndPort(_) => None,
            Self::Classes(classes) => classes.own.any(),
        }
    }

    /// Whether all sources on one switch are told the same.
    pub fn is_by_switch(&self) -> bool {
        match self {
            Self::Any(_) | Self::BySwitch(_) => true,
            Self::ByEndPort(_) => false,
            Self::Classes(classes) => classes.own.is_by_switch(),
        }
    }

    /// Classes of service that the SLs tell apart.
    pub fn classes(&self) -> u8 {
        match self {
            Self::Classes(classes) => classes.classes.classes,
            _ => 1,
        }
    }

    /// The SL of the pair in a table, [`PathSl::UNKNOWN`] where there is none.
    fn entry(&self, fabric: &Fabric, source: EndPortId, dlid: Lid) -> u8 {
        match self {
            Self::Any(set) => lowest(*set),
            Self::BySwitch(table) => match fabric.endport(source).attachment {
                Some((SwitchId(s), _)) => table[dlid.index() * fabric.num_switches() + s as usize],
                None => Self::UNKNOWN,
            },
            Self::ByEndPort(table) => table[source.index() * fabric.lid_table_len() + dlid.index()],
            Self::Classes(classes) => classes.own.entry(fabric, source, dlid),
        }
    }

    /// The SLs with which a packet from `source` to `dlid` may travel, bit `n` = SL `n`: those that
    /// the tables state, one for each class and way; all of them where any serves or none is known.
    pub fn allowed(&self, fabric: &Fabric, source: EndPortId, dlid: Lid) -> u16 {
        match (self.any(), self.entry(fabric, source, dlid), self) {
            (Some(set), _, _) => set,
            (None, Self::UNKNOWN, _) => u16::MAX,
            (None, own, Self::Classes(c)) => (0..c.classes.ways).fold(0, |set, way| set | c.of_way(way, own)),
            (None, sl, _) => bit(sl),
        }
    }

    /// The SLs that senders are told, one for each class; the lowest where nothing is known.
    pub fn told(&self, fabric: &Fabric, source: EndPortId, dlid: Lid) -> u16 {
        match (self.entry(fabric, source, dlid), self) {
            (Self::UNKNOWN, _) => 1,
            (_, Self::Classes(c)) if c.own.any().is_some() => c.of_way(c.way(dlid), 0),
            (own, Self::Classes(c)) => c.of_way(c.way(dlid), own),
            (sl, _) => bit(sl),
        }
    }

    /// The SL that a sender in class 0 is told, the only class in most tables.
    pub fn get(&self, fabric: &Fabric, source: EndPortId, dlid: Lid) -> Sl {
        Sl(lowest(self.told(fabric, source, dlid)))
    }

    /// The SL that a sender on a switch is told who comes with a `wish`: that of its query, its
    /// partition or a QoS policy. `None` where SLs are known by end port only.
    ///
    /// A wish that serves the pair is granted; any other means the class that it belongs to. Where
    /// destinations are spread, SL q below the number of classes means class q, not that very SL.
    ///
    /// `switches`: how many the fabric has.
    ///
    /// Cost: a look-up, without a lock or an allocation.
    pub fn answer(&self, switches: usize, source: SwitchId, dlid: Lid, wish: Sl) -> Option<Sl> {
        let granted = |set: u16| wish.0 < Sl::COUNT as u8 && set & bit(wish.0) != 0;
        match self {
            Self::Any(set) => Some(if granted(*set) { wish } else { Sl(lowest(*set)) }),
            Self::BySwitch(table) => Some(Sl(table[dlid.index() * switches + source.index()])),
            Self::ByEndPort(_) => None,
            Self::Classes(c) => {
                let class = c.classes.class_of(wish);
                if let Some(set) = c.own.any() {
                    let names_a_class = c.classes.ways > 1 && wish.0 < c.classes.classes;
                    let told = c.classes.sl(class, c.way(dlid), 0);
                    return Some(if granted(set) && !names_a_class { wish } else { told });
                }
                let own = c.own.answer(switches, source, dlid, Sl(0))?;
                Some(c.classes.sl(class, c.way(dlid), own.0))
            }
        }
    }
}
