//! What a subnet manager has to send after tables have changed.

use crate::fabric::{Fabric, Lid, PortNum, SwitchId};
use crate::tables::{Lft, Routes};

/// LIDs in a block of a forwarding table, the unit that is sent.
const BLOCK: usize = 64;

/// Numbers of differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) lft_blocks: u64,
    pub(super) sl2vl_rows: u64,
}

impl Changes {
    /// - `after`: tables for `fabric`, whose switch s was `switches[s]` before.
    ///
    /// Cost: O(D S) with D LIDs before or after, and O(ports^2) for each switch.
    pub(super) fn between(before: &Routes, fabric: &Fabric, after: &Routes, switches: &[SwitchId]) -> Self {
        Self {
            lft_blocks: lft_blocks(&before.lft, fabric, &after.lft, switches),
            sl2vl_rows: sl2vl_rows(before, fabric, after, switches),
        }
    }
}

fn lft_blocks(before: &Lft, fabric: &Fabric, after: &Lft, switches: &[SwitchId]) -> u64 {
    let none = vec![Lft::NO_PATH; switches.len()];
    let mut changed = vec![false; switches.len()];
    let mut blocks = 0;
    let lids = before.lids().max(after.lids());
    for first in (0..lids).step_by(BLOCK) {
        changed.fill(false);
        for lid in (first..(first + BLOCK).min(lids)).filter_map(|lid| Lid::new(lid as u16)) {
            let new = if fabric.owner_of(lid).is_some() { after.to(lid) } else { &none };
            if lid.index() < before.lids() {
                let old = before.to(lid);
                for ((changed, new), was) in changed.iter_mut().zip(new).zip(switches) {
                    *changed |= old[was.index()] != *new;
                }
            } else {
                changed.iter_mut().zip(new).for_each(|(changed, new)| *changed |= *new != Lft::NO_PATH);
            }
        }
        blocks += changed.iter().filter(|&&changed| changed).count() as u64;
    }
    blocks
}

fn sl2vl_rows(before: &Routes, fabric: &Fabric, after: &Routes, switches: &[SwitchId]) -> u64 {
    let mut rows = 0;
    let pairs = fabric.switch_ids().zip(switches);
    for (s, &was) in pairs.filter(|(s, was)| before.sl2vl.of(**was) != after.sl2vl.of(*s)) {
        let ports = &fabric.switch(s).ports;
        let up = |port: &usize| *port == 0 || ports[*port].peer.is_some() && ports[*port].state.is_used();
        let up: Vec<PortNum> = (0..ports.len()).filter(up).map(|port| PortNum(port as u8)).collect();
        for &from in &up {
            let differs = |to: &&PortNum| before.sl2vl.row(was, from, **to) != after.sl2vl.row(s, from, **to);
            rows += up.iter().filter(|to| to.index() > 0).filter(differs).count() as u64;
        }
    }
    rows
}
