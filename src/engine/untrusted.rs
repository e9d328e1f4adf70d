//! Packets from switches that nobody programs are kept back.

use crate::fabric::{Fabric, PortNum, Vl};
use crate::tables::{Sl2Vl, SlVlRow};

/// Has every switch drop what comes in by an [untrusted port](crate::fabric::Port::untrusted) and would go
/// on to another switch: VL 15 for every SL. Nobody who is routed loses by it: those behind such a port get
/// no answers.
///
/// Cost: O(ports) and, for each untrusted port, O(ports).
pub(super) fn keep_back(fabric: &Fabric, sl2vl: &mut Sl2Vl) {
    for s in fabric.switch_ids() {
        for (in_port, _) in fabric.switch(s).ports.iter().enumerate().filter(|(_, port)| port.untrusted) {
            for (_, channel) in fabric.channels().out(s) {
                sl2vl.set(s, PortNum(in_port as u8), channel.out_port, SlVlRow::uniform(Vl(Vl::MAX_DATA)));
            }
        }
    }
}
