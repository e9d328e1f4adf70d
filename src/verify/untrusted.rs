//! Packets from switches that are not programmed.
//!
//! A port to such a switch may bring packets of any SL to any LID, over any path. The VL of their
//! next hop depends only on (in port, out port, SL), so the rows of that port decide: with VL 15
//! for every SL towards every channel, no packet holds a buffer that others wait for. Packets to an
//! adapter or to the switch itself drain.

use crate::fabric::{Fabric, PortNum, Sl, SwitchId, Vl};
use crate::tables::Sl2Vl;

/// A turn by which foreign packets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leak {
    pub(super) at: SwitchId,
    pub(super) in_port: PortNum,
    pub(super) out_port: PortNum,
    pub(super) sl: Sl,
}

/// The first turn from an untrusted port to another switch on a VL that carries data.
///
/// Cost: O(ports) and, for each untrusted port, O(ports).
pub(super) fn leak(fabric: &Fabric, sl2vl: &Sl2Vl) -> Option<Leak> {
    fabric.switch_ids().find_map(|at| {
        let ports = fabric.switch(at).ports.iter().enumerate();
        let mut untrusted = ports.filter(|(_, port)| port.untrusted).map(|(number, _)| PortNum(number as u8));
        untrusted.find_map(|in_port| {
            fabric.channels().out(at).find_map(|(_, channel)| {
                let out_port = channel.out_port;
                let row = sl2vl.row(at, in_port, out_port);
                let sl = (0..Sl::COUNT as u8).map(Sl).find(|&sl| row.get(sl).0 != Vl::MAX_DATA)?;
                Some(Leak { at, in_port, out_port, sl })
            })
        })
    })
}
