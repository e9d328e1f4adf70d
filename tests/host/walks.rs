//! Walks packets through the tables that switches hold, over known cables: a small judge that
//! shares nothing with `verify`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;

use dfdn::fabric::{Fabric, NodeId, PortRef};

use super::ibsim::Ibsim;
use super::readback::Readback;

/// A node by its GUID, and one of its ports.
type Port = (u64, u8);
/// What waits for space: the out port of a packet, and its VL.
type Buffer = (Port, u8);

/// The real cables of a fabric.
pub(crate) struct Cables {
    peer: BTreeMap<Port, Port>,
    switches: BTreeSet<u64>,
    /// Node and port by port GUID.
    ends: BTreeMap<u64, Port>,
}

impl Cables {
    pub(crate) fn of(fabric: &Fabric) -> Self {
        let guid = |node: NodeId| fabric.node(node).guid.0;
        let mut peer = BTreeMap::new();
        for (n, node) in fabric.nodes().iter().enumerate() {
            for (p, port) in node.ports.iter().enumerate() {
                if let Some(PortRef { node, port }) = port.peer {
                    peer.insert((guid(NodeId::at(n)), p as u8), (guid(node), port.0));
                }
            }
        }
        let switches = fabric.nodes().iter().filter(|n| n.is_switch()).map(|n| n.guid.0).collect();
        let ends = fabric.endports().iter().map(|e| (e.guid.0, (guid(e.node), e.port.0))).collect();
        Self { peer, switches, ends }
    }

    /// The nodes reachable from one over switches not in `without`, including those at its ends.
    pub(crate) fn reach(&self, from: u64, without: u64) -> BTreeSet<u64> {
        let mut reached = BTreeSet::from([from]);
        let mut open = vec![from];
        while let Some(node) = open.pop() {
            for (_, &(to, _)) in self.peer.range((node, 0)..=(node, u8::MAX)) {
                if to != without && reached.insert(to) && self.switches.contains(&to) {
                    open.push(to);
                }
            }
        }
        reached
    }
}

/// The tables in the nodes, and the SA's answers.
pub(crate) struct Held {
    /// LID by node and port; port 0 of a switch.
    lids: BTreeMap<Port, u16>,
    lft: BTreeMap<u64, BTreeMap<u16, u8>>,
    /// Rows by node, in port and out port; (0, 0) of an adapter.
    sl2vl: BTreeMap<(u64, u8, u8), Vec<u8>>,
    /// The SL of the PathRecord between two end ports, if there is one.
    pub(crate) told: BTreeMap<(Port, Port), u8>,
}

impl Held {
    /// Reads tables back, and queries the SA for the path between every two end ports found.
    pub(crate) fn of(sim: &Ibsim, cables: &Cables) -> Result<Self, String> {
        let back = Readback::try_of(sim)?;
        let (mut lids, mut sl2vl) = (BTreeMap::new(), BTreeMap::new());
        let mut at = (0, 0);
        for line in back.sl2vl().lines() {
            if let Some((head, rest)) = line.split_once(", base LID ") {
                let guid = head.rsplit("0x").next().and_then(|g| u64::from_str_radix(g, 16).ok());
                at = *guid.and_then(|g| cables.ends.get(&g)).ok_or_else(|| format!("a stranger: {line}"))?;
                let lid = rest.split(',').next().and_then(|l| l.parse().ok());
                lids.insert(at, lid.ok_or_else(|| format!("no LID: {line}"))?);
            } else if let Some((ports, row)) = line.split_once(':').filter(|_| !line.starts_with('#')) {
                let ports: Vec<u8> = ports.split_whitespace().filter_map(|w| w.parse().ok()).collect();
                let row: Vec<u8> = row.split_whitespace().filter_map(|w| w.parse().ok()).collect();
                assert!(ports.len() == 2 && row.len() == 16, "readback writes such rows: {line}");
                sl2vl.insert((at.0, ports[0], ports[1]), row);
            }
        }
        let mut lft: BTreeMap<u64, BTreeMap<u16, u8>> = BTreeMap::new();
        let mut switch = 0;
        for line in back.lfts().lines() {
            if line.starts_with("Unicast lids") {
                let guid =
                    line.split("guid 0x").nth(1).and_then(|g| u64::from_str_radix(g.get(..16)?, 16).ok());
                switch = guid.expect("readback writes GUIDs of sixteen digits");
                lft.entry(switch).or_default();
            } else if let Some((lid, port)) = line.strip_prefix("0x").and_then(|l| l.split_once(' ')) {
                let lid = u16::from_str_radix(lid, 16).expect("a LID");
                let port = port.get(..3).and_then(|p| p.parse().ok()).expect("a port");
                lft.entry(switch).or_default().insert(lid, port);
            }
        }
        let told = ask(sim, back.folder(), &lids);
        Ok(Self { lids, lft, sl2vl, told })
    }

    /// The buffers that a packet uses; an error if it does not arrive.
    fn walk(&self, cables: &Cables, from: Port, to: Port, sl: u8) -> (Vec<Buffer>, Result<(), String>) {
        let (mut taken, lid) = (Vec::new(), self.lids[&to]);
        let (mut node, mut inp) = from;
        loop {
            let adapter = !cables.switches.contains(&node);
            let out = match (adapter, taken.is_empty()) {
                (true, true) => inp,
                (true, false) => {
                    let end = (node == to.0).then_some(()).ok_or(format!("ends at {node:#x}"));
                    return (taken, end);
                }
                (false, _) => match self.lft.get(&node).and_then(|l| l.get(&lid)) {
                    Some(&0) => {
                        let end = (node == to.0).then_some(()).ok_or(format!("ends in switch {node:#x}"));
                        return (taken, end);
                    }
                    Some(&out) => out,
                    None => return (taken, Err(format!("no entry in {node:#x}"))),
                },
            };
            let row = self.sl2vl.get(&if adapter { (node, 0, 0) } else { (node, inp, out) });
            let vl = row.map_or(0, |row| row[usize::from(sl)]);
            let Some(&peer) = cables.peer.get(&(node, out)).filter(|_| vl != 15) else {
                return (taken, Err(format!("port {out} of {node:#x} leads nowhere on VL {vl}")));
            };
            if taken.len() > cables.switches.len() {
                return (taken, Err("goes round in a cycle".to_owned()));
            }
            taken.push(((node, out), vl));
            (node, inp) = peer;
        }
    }

    /// The pairs of end ports for which the SA has a path and packets arrive.
    pub(crate) fn arrivals(&self, cables: &Cables) -> BTreeSet<(Port, Port)> {
        let arrives = |&(from, to): &(Port, Port), sl| self.walk(cables, from, to, sl).1.is_ok();
        self.told.iter().filter(|&(pair, &sl)| arrives(pair, sl)).map(|(&pair, _)| pair).collect()
    }

    /// What is wrong with packets on paths that the SA reports: one of a pair that is `due` does
    /// not arrive, or buffers wait for each other in a cycle.
    pub(crate) fn faults(&self, cables: &Cables, due: impl Fn(&(Port, Port)) -> bool) -> Vec<String> {
        let mut faults = Vec::new();
        let mut waits: BTreeMap<Buffer, BTreeSet<Buffer>> = BTreeMap::new();
        for (&(from, to), &sl) in &self.told {
            let (taken, end) = self.walk(cables, from, to, sl);
            if let Some(why) = end.err().filter(|_| due(&(from, to))) {
                faults.push(format!("{:#x} to {:#x}, SL {sl}: {why}", from.0, to.0));
            }
            for pair in taken.windows(2) {
                waits.entry(pair[0]).or_default().insert(pair[1]);
                waits.entry(pair[1]).or_default();
            }
        }
        // Buffers that wait for nothing drain; any that remain wait in a cycle or for one.
        loop {
            let free: Vec<Buffer> = waits.iter().filter(|(_, w)| w.is_empty()).map(|(&b, _)| b).collect();
            if free.is_empty() {
                break;
            }
            for buffer in &free {
                waits.remove(buffer);
            }
            for others in waits.values_mut() {
                others.retain(|b| free.binary_search(b).is_err());
            }
        }
        if !waits.is_empty() {
            faults.push(format!("credit loop among {} buffers", waits.len()));
        }
        faults
    }
}

/// The SLs of PathRecords between all end ports.
fn ask(sim: &Ibsim, folder: &Path, lids: &BTreeMap<Port, u16>) -> BTreeMap<(Port, Port), u8> {
    let by_lid: BTreeMap<u16, Port> = lids.iter().map(|(&port, &lid)| (lid, port)).collect();
    let pairs = by_lid.keys().flat_map(|a| by_lid.keys().map(move |b| (a, b))).filter(|(a, b)| a != b);
    let text: String = pairs.map(|(a, b)| format!("{a} {b} ffff\n")).collect();
    let file = folder.join("pairs");
    std::fs::write(&file, text).expect("the pairs are written");
    let output = sim.run(&[], sim.paths()).arg(&file).stderr(Stdio::null()).output().expect("paths starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let mut lid = || words.next()?.parse().ok();
        let ends = (by_lid[&lid()?], by_lid[&lid()?]);
        Some((ends, words.next()?.parse().ok()?))
    };
    text.lines().filter(|l| l.starts_with(|c: char| c.is_ascii_digit())).filter_map(parse).collect()
}
