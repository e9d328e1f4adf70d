//! Tests of all formats together: what is written is read back, and what is damaged is refused.

mod compacted;
mod damage;
mod fabrics;
mod folders;
mod foreign;

use std::io;

use super::*;
use crate::fabric::{FabricBuilder, Guid, Lid, Lmc, Node, NodeKind, PortNum, PortRef, SwitchId, Vl};
use crate::tables::{Lft, PathSl, Routes, Sl2Vl, SlVlRow, VlArb};

const SHORT: &str = "# drawn by hand\nSwitch\t8 \"leaf one\"\n[1]\t\"spine\"[1]\n[2]\t\"spine\"[2]\n\
    [3]\t\"H 1\"[1]\n[4]\t\"H2\"[2]\n\nSwitch\t8 \"spine\"\n[1]\t\"leaf one\"[1]\n[2]\t\"leaf one\"[2]\n\
    [5]\t\"leaf2\"[1]\t4xHDR\n\nSwitch 6 \"leaf2\"\n[1]\t\"spine\"[5]\n[2]\t\"H2\"[1]\n[3]\t\"H3\"[1]\n\n\
    Hca\t1 \"H 1\"\n[1]\t\"leaf one\"[3]\nCa\t2 \"H2\" # \"other {name}\"\n[1]\t\"leaf2\"[2]\n[2]\t\"leaf one\"[4]\n\
    Hca\t1 \"H3\"\n[1] \"leaf2\"[3]\n";

fn sample() -> Fabric {
    ibnetdiscover::read(SHORT.as_bytes()).unwrap().0
}

fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    out
}

/// Shortest paths in breadth-first order, so that every entry of every format occurs.
fn routes(fabric: &Fabric) -> Routes {
    let mut lft = Lft::new(fabric);
    for e in fabric.endports() {
        let Some((dest, last)) = e.attachment else { continue };
        let mut port_to = vec![None; fabric.num_switches()];
        port_to[dest.index()] = Some(last);
        let mut queue = std::collections::VecDeque::from([dest]);
        while let Some(s) = queue.pop_front() {
            for (_, c) in fabric.channels().out(s) {
                if port_to[c.to.index()].is_none() {
                    port_to[c.to.index()] = Some(c.in_port);
                    queue.push_back(c.to);
                }
            }
        }
        for (s, port) in port_to.into_iter().enumerate() {
            let Some(port) = port else { continue };
            e.lids().for_each(|lid| lft.set(SwitchId::at(s), lid, port));
        }
    }
    let mut sl2vl = Sl2Vl::new(fabric);
    for (_, c) in fabric.channels().iter() {
        let row = SlVlRow::from_vls(std::array::from_fn(|sl| Vl((sl as u8 + c.in_port.0) % 8)));
        sl2vl.set(c.from, PortNum(1), c.out_port, row);
    }
    sl2vl.set_adapters(SlVlRow::from_vls(std::array::from_fn(|sl| Vl(sl as u8 % 3))));
    let mut path_sl = PathSl::by_switch(fabric);
    if let PathSl::BySwitch(table) = &mut path_sl {
        table.iter_mut().enumerate().for_each(|(i, sl)| *sl = (i % 16) as u8);
    }
    Routes {
        engine: "test".into(),
        lft,
        sl2vl,
        path_sl,
        vlarb: VlArb::fair(8),
        multicast: Vec::new(),
        port_sets: None,
        remarks: Vec::new(),
    }
}

/// Two switches and two adapters, each with two lines: the stated GUID, and the name.
fn chassis(switches: [(&str, &str); 2]) -> String {
    let [(a, a_name), (b, b_name)] = switches;
    format!(
        "sysimgguid=0x10\nswitchguid={a}\nSwitch 4 \"{a_name}\" # \"spine\" base port 0 lid 1 lmc 0\n[1] \"H-0000000000000101\"[1]\n\
         [2] \"{b_name}\"[2]\n\nsysimgguid=0x10\nswitchguid={b}\nSwitch 4 \"{b_name}\" # \"leaf\" base port 0 lid 2 lmc 0\n\
         [1] \"H-0000000000000201\"[1]\n[2] \"{a_name}\"[2]\n\n\
         caguid=0x101\nCa 1 \"H-0000000000000101\" # \"h1\"\n[1](102) \"{a_name}\"[1] # lid 3 lmc 0\n\
         caguid=0x201\nCa 1 \"H-0000000000000201\" # \"h2\"\n[1](202) \"{b_name}\"[1] # lid 4 lmc 0\n"
    )
}
