//! The SLs with which packets are sent.

use crate::fabric::{Fabric, Lid, Sl, SwitchId};
use crate::tables::{McastGroup, PathSl, Sl2Vl, SlClasses};

/// The SLs of senders and of multicast trees, in classes that all rows map alike. Most tables have one class.
#[derive(Debug)]
pub struct Senders<'a> {
    classes: SlClasses,
    of: Of<'a>,
}

#[derive(Debug)]
enum Of<'a> {
    /// The classes of all pairs.
    All(u16),
    /// SLs, and the number of switches.
    BySwitch(&'a PathSl, usize),
}

impl<'a> Senders<'a> {
    /// `None` where senders on one switch have unlike SLs.
    ///
    /// Cost: O(rows); with several SLs O(D S) with D LIDs and S switches.
    pub fn new(fabric: &Fabric, sl2vl: &Sl2Vl, path_sl: &'a PathSl, trees: &[McastGroup]) -> Option<Self> {
        let switches = fabric.num_switches();
        let of_trees = trees.iter().fold(0, |all, group| all | group.sls.unwrap_or(u16::MAX));
        let all = SlClasses::new(sl2vl);
        if let Some(any) = path_sl.any() {
            let classes = all.only(any | of_trees);
            return Some(Self { of: Of::All(classes.of(any)), classes });
        }
        let lids =
            || fabric.endports().iter().filter(|end| end.attachment.is_some()).flat_map(|end| end.lids());
        let pairs = fabric.switch_ids().flat_map(|s| lids().map(move |lid| (s, lid)));
        let is_by_switch = path_sl.is_by_switch() && path_sl.classes() == 1;
        let used =
            is_by_switch.then(|| pairs.fold(0, |all, (s, lid)| all | sls(path_sl, switches, s, lid)))?;
        Some(Self { classes: all.only(used | of_trees), of: Of::BySwitch(path_sl, switches) })
    }

    /// The classes.
    pub fn classes(&self) -> &SlClasses {
        &self.classes
    }

    /// The classes, bit `n` = class `n`, of packets from end ports on a switch to a LID.
    pub(super) fn of(&self, from: SwitchId, lid: Lid) -> u16 {
        match self.of {
            Of::All(classes) => classes,
            Of::BySwitch(path_sl, switches) => self.classes.of(sls(path_sl, switches, from, lid)),
        }
    }

    /// The classes of packets from any end port to any LID, if they are the same everywhere.
    pub(super) fn same(&self) -> Option<u16> {
        match self.of {
            Of::All(classes) => Some(classes),
            Of::BySwitch(..) => None,
        }
    }
}

/// The SLs, bit `n` = SL `n`, from end ports on a switch to a LID: all where none is known.
fn sls(path_sl: &PathSl, switches: usize, from: SwitchId, lid: Lid) -> u16 {
    let sl = path_sl.path_record_sl(switches, from, lid, Sl(0));
    sl.filter(|sl| usize::from(sl.0) < Sl::COUNT).map_or(u16::MAX, |sl| 1 << sl.0)
}
