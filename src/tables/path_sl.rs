//! The SL that a sender must use: the answer to PathRecord queries.

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
    /// One SL by the switches of source and destination, for tables of which all LIDs on a switch agree.
    BySwitchPair(SwitchPairs),
    /// One SL by source end port and destination LID: a dense array of end ports x
    /// [`Fabric::lid_table_len`] bytes, [`PathSl::UNKNOWN`] where none is known (then any SL may be
    /// in use). Dumps of other engines are read into this form.
    ByEndPort(Vec<u8>),
    /// Classes of service over one of the above.
    Classes(ClassSl),
}

/// SL by source and destination switch: far less memory than a table by destination LID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPairs {
    /// The switch by LID; the number of switches for a LID without an owner on a switch.
    switch_of: Vec<u32>,
    switches: usize,
    /// Destination-major; the row after the last switch is that of LIDs without an owner.
    sls: Vec<u8>,
}

impl SwitchPairs {
    /// - `sls`: destination-major, switches x switches.
    ///
    /// # Panics
    /// If `sls` has another length.
    pub fn new(fabric: &Fabric, mut sls: Vec<u8>) -> Self {
        let switches = fabric.num_switches();
        assert_eq!(sls.len(), switches * switches, "an SL for each pair of switches");
        sls.resize(sls.len() + switches, PathSl::UNKNOWN);
        let mut switch_of = vec![switches as u32; fabric.lid_table_len()];
        for end in fabric.endports() {
            if let Some((s, _)) = end.attachment {
                end.lids().for_each(|lid| switch_of[lid.index()] = s.0);
            }
        }
        Self { switch_of, switches, sls }
    }

    /// The SLs to a LID by source switch.
    pub fn to(&self, dlid: Lid) -> &[u8] {
        &self.sls[self.switch_of[dlid.index()] as usize * self.switches..][..self.switches]
    }

    fn is_same_both_ways(&self) -> bool {
        let n = self.switches;
        (0..n).all(|s| (0..s).all(|t| self.sls[s * n + t] == self.sls[t * n + s]))
    }

    /// The highest SL of any pair.
    pub fn highest(&self) -> u8 {
        self.sls.iter().copied().filter(|&sl| sl != PathSl::UNKNOWN).max().unwrap_or(0)
    }
}

/// SL by class of service, source and destination LID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassSl {
    /// Which SL maps to which block.
    pub classes: Classes,
    /// The SL within a block, or [`PathSl::Any`] with all SLs, of any class, that serve every pair.
    /// Never [`PathSl::Classes`].
    pub own: Box<PathSl>,
    /// The VL set by destination LID, an array of [`Fabric::lid_table_len`]; empty if there is only
    /// one. Any VL set serves every pair.
    pub vl_set_of: Vec<u8>,
}

impl ClassSl {
    fn vl_set(&self, dlid: Lid) -> u8 {
        self.vl_set_of.get(dlid.index()).copied().unwrap_or(0)
    }

    /// The SLs of all classes, in one VL set, for a pair whose SL within a block is `own`.
    fn of_vl_set(&self, set: u8, own: u8) -> u16 {
        let sl = |class| self.classes.sl(class, set, own);
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
    /// Entry of a pair whose SL is unknown.
    pub const UNKNOWN: u8 = 0xff;

    /// One SL for every pair.
    pub fn one(sl: Sl) -> Self {
        Self::Any(1 << sl.0)
    }

    /// A table by source switch, all SL 0.
    pub fn by_switch(fabric: &Fabric) -> Self {
        Self::BySwitch(vec![0; fabric.num_switches() * fabric.lid_table_len()])
    }

    /// The SLs that each serve every pair, if there are such.
    pub fn any(&self) -> Option<u16> {
        match self {
            Self::Any(set) => Some(*set),
            Self::BySwitch(_) | Self::BySwitchPair(_) | Self::ByEndPort(_) => None,
            Self::Classes(classes) => classes.own.any(),
        }
    }

    /// Whether SL 0 serves every pair, and is the one that [`get`](Self::get) assigns to it.
    pub fn is_zero(&self) -> bool {
        let spreads = |classes: &ClassSl| classes.vl_set_of.iter().any(|&set| set != 0);
        self.any().is_some_and(|set| set & 1 != 0) && !matches!(self, Self::Classes(c) if spreads(c))
    }

    /// Whether all sources on one switch use the same SL.
    pub fn is_by_switch(&self) -> bool {
        match self {
            Self::Any(_) | Self::BySwitch(_) | Self::BySwitchPair(_) => true,
            Self::ByEndPort(_) => false,
            Self::Classes(classes) => classes.own.is_by_switch(),
        }
    }

    /// Whether the SL depends on nothing but the switches of source and destination.
    pub fn is_by_switch_pair(&self) -> bool {
        match self {
            Self::Any(_) | Self::BySwitchPair(_) => true,
            Self::BySwitch(_) | Self::ByEndPort(_) => false,
            Self::Classes(classes) => classes.own.is_by_switch_pair(),
        }
    }

    /// Whether both directions of every pair are known to have the same SLs. False where that takes long to find out.
    ///
    /// Cost: O(S^2) with S switches.
    pub fn is_same_both_ways(&self) -> bool {
        match self {
            Self::Any(_) => true,
            Self::BySwitchPair(pairs) => pairs.is_same_both_ways(),
            Self::BySwitch(_) | Self::ByEndPort(_) => false,
            Self::Classes(classes) => classes.own.is_same_both_ways(),
        }
    }

    /// Number of classes of service.
    pub fn classes(&self) -> u8 {
        match self {
            Self::Classes(classes) => classes.classes.classes,
            _ => 1,
        }
    }

    /// The SL of the pair in a table, [`PathSl::UNKNOWN`] if there is none.
    fn entry(&self, fabric: &Fabric, source: EndPortId, dlid: Lid) -> u8 {
        match self {
            Self::Any(set) => lowest(*set),
            Self::BySwitch(table) => match fabric.endport(source).attachment {
                Some((SwitchId(s), _)) => table[dlid.index() * fabric.num_switches() + s as usize],
                None => Self::UNKNOWN,
            },
            Self::BySwitchPair(pairs) => match fabric.endport(source).attachment {
                Some((s, _)) => pairs.to(dlid)[s.index()],
                None => Self::UNKNOWN,
            },
            Self::ByEndPort(table) => table[source.index() * fabric.lid_table_len() + dlid.index()],
            Self::Classes(classes) => classes.own.entry(fabric, source, dlid),
        }
    }

    /// The SLs with which a packet from `source` to `dlid` may travel, bit `n` = SL `n`: those that
    /// the tables state, one for each class and VL set; all of them if any SL serves or none is
    /// known.
    pub fn allowed(&self, fabric: &Fabric, source: EndPortId, dlid: Lid) -> u16 {
        match (self.any(), self.entry(fabric, source, dlid), self) {
            (Some(set), _, _) => set,
            (None, Self::UNKNOWN, _) => u16::MAX,
            (None, own, Self::Classes(c)) => {
                (0..c.classes.vl_sets).fold(0, |all, set| all | c.of_vl_set(set, own))
            }
            (None, sl, _) => bit(sl),
        }
    }

    /// The SLs assigned to senders, one for each class; the lowest if none is known.
    pub fn assigned_sls(&self, fabric: &Fabric, source: EndPortId, dlid: Lid) -> u16 {
        match (self.entry(fabric, source, dlid), self) {
            (Self::UNKNOWN, _) => 1,
            (_, Self::Classes(c)) if c.own.any().is_some() => c.of_vl_set(c.vl_set(dlid), 0),
            (own, Self::Classes(c)) => c.of_vl_set(c.vl_set(dlid), own),
            (sl, _) => bit(sl),
        }
    }

    /// [`PathSl::get`], or `None` if unknown.
    pub fn known(&self, fabric: &Fabric, source: EndPortId, dlid: Lid) -> Option<Sl> {
        (self.entry(fabric, source, dlid) != Self::UNKNOWN).then(|| self.get(fabric, source, dlid))
    }

    /// The SL assigned to a sender in class 0, which is the only class in most tables.
    pub fn get(&self, fabric: &Fabric, source: EndPortId, dlid: Lid) -> Sl {
        Sl(lowest(self.assigned_sls(fabric, source, dlid)))
    }

    /// The SL in the PathRecord for a sender on a switch. `requested` comes from its query, its
    /// partition or a QoS policy. `None` if SLs are known by end port only.
    ///
    /// A requested SL that serves the pair is granted; any other stands for its class. If
    /// destinations are spread, SL q below the number of classes means class q, not that very SL.
    ///
    /// `switches`: number of switches of the fabric.
    ///
    /// Cost: one look-up, without locks or allocations.
    pub fn path_record_sl(&self, switches: usize, source: SwitchId, dlid: Lid, requested: Sl) -> Option<Sl> {
        let granted = |set: u16| requested.0 < Sl::COUNT as u8 && set & bit(requested.0) != 0;
        match self {
            Self::Any(set) => Some(if granted(*set) { requested } else { Sl(lowest(*set)) }),
            Self::BySwitch(table) => Some(Sl(table[dlid.index() * switches + source.index()])),
            Self::BySwitchPair(pairs) => Some(Sl(pairs.to(dlid)[source.index()])),
            Self::ByEndPort(_) => None,
            Self::Classes(c) => {
                let class = c.classes.class_of(requested);
                if let Some(set) = c.own.any() {
                    let names_a_class = c.classes.vl_sets > 1 && requested.0 < c.classes.classes;
                    let assigned = c.classes.sl(class, c.vl_set(dlid), 0);
                    return Some(if granted(set) && !names_a_class { requested } else { assigned });
                }
                let own = c.own.path_record_sl(switches, source, dlid, Sl(0))?;
                Some(c.classes.sl(class, c.vl_set(dlid), own.0))
            }
        }
    }
}
