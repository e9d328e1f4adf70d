//! ib_flit_sim, Mellanox's model of InfiniBand for OMNeT++: the network, the forwarding tables, and settings that
//! connect the two.

use std::io::{self, Write};
use std::path::Path;

use super::lines::one_line;
use super::{FormatError, write_file};
use crate::fabric::{EndPort, Fabric, Lid, LinkSpeed, Port, PortNum, SwitchId};
use crate::tables::{Lft, Routes};

/// The files that [`write()`] writes. An `omnetpp.ini` includes the last one, beside the model's own settings.
pub const FILES: [&str; 3] = ["fabric.ned", "fabric.fdbs", "fabric.ini"];

/// The port of a LID that a switch does not forward.
const NO_PATH: usize = 255;

/// Entries on a line. The model reads lines of at most 1023 bytes.
const ENTRIES: usize = 128;

/// What these files do not say of a fabric and its tables, a sentence each.
///
/// # Errors
/// No adapter is attached to a switch.
pub fn not_carried(fabric: &Fabric) -> Result<Vec<String>, FormatError> {
    if fabric.adapters().next().is_none() {
        let reason = "ib_flit_sim needs a host, and no adapter is attached to a switch";
        return Err(FormatError::new(0, reason));
    }
    Ok(vec![
        "SLs and their VLs, VL arbitration: a packet keeps the VL that its sender chooses".to_owned(),
        "LIDs of switches, which the model does not send to".to_owned(),
        "multicast".to_owned(),
    ])
}

/// Writes the files into an existing folder. Switches are `SW_0` and on in GUID order, adapter ports `H_` with the
/// base LID. The gates of a switch are its cabled ports in order, without gaps: the model has no port without a link.
///
/// # Errors
/// Those of the file system.
///
/// Cost: O(channels + switches x LIDs).
pub fn write(dir: &Path, fabric: &Fabric, routes: &Routes) -> io::Result<()> {
    let gates = Gates::new(fabric);
    let [ned, fdbs, ini] = FILES;
    write_file(dir, ned, |out| network(out, fabric, &gates))?;
    write_file(dir, fdbs, |out| tables(out, fabric, &routes.lft, &gates))?;
    write_file(dir, ini, |out| {
        writeln!(out, "[General]\nnetwork = fabric\n**.pktFwdType = \"Pktfwd\"")?;
        writeln!(out, "**.pktfwd.fdbsVecFile = \"{fdbs}\"")?;
        let mut switches = 0..fabric.num_switches();
        switches.try_for_each(|s| writeln!(out, "**.SW_{s}.pktfwd.fdbIndex = {s}"))
    })
}

/// The ports of each switch that have a cable, in order.
struct Gates(Vec<Vec<PortNum>>);

impl Gates {
    fn new(fabric: &Fabric) -> Self {
        let mut ports: Vec<Vec<PortNum>> = vec![Vec::new(); fabric.num_switches()];
        for (s, port) in fabric.adapters().filter_map(|(_, end)| end.attachment) {
            ports[s.index()].push(port);
        }
        for c in fabric.channels().as_slice().iter().filter(|c| c.from != c.to) {
            ports[c.from.index()].push(c.out_port);
        }
        ports.iter_mut().for_each(|list| list.sort_unstable());
        Self(ports)
    }

    /// The gate of a port; `None` if it has no cable.
    fn of(&self, s: SwitchId, port: PortNum) -> Option<usize> {
        self.0[s.index()].binary_search(&port).ok()
    }
}

fn network(out: &mut impl Write, fabric: &Fabric, gates: &Gates) -> io::Result<()> {
    writeln!(out, "import ib_model.*;\n\nnetwork fabric\n{{\n\tsubmodules:")?;
    for (_, end) in fabric.adapters() {
        let who = fabric.describe(end.node);
        let who = one_line(&who);
        writeln!(
            out,
            "\t\t// port {} of {who}\n\t\tH_{lid}: HCA {{ parameters: srcLid = {lid}; }}",
            end.port,
            lid = end.lid
        )?;
    }
    for s in fabric.switch_ids() {
        let (i, ports, who) = (s.index(), gates.0[s.index()].len(), fabric.describe_switch(s));
        let who = one_line(&who);
        writeln!(
            out,
            "\t\t// {who}\n\t\tSW_{i}: Switch {{ parameters: numSwitchPorts = {ports}; gates: port[{ports}]; }}"
        )?;
    }
    writeln!(out, "\tconnections:")?;
    let gate = |s: SwitchId, port| gates.of(s, port).map(|gate| format!("SW_{}.port[{gate}]", s.index()));
    let cable = |a: String, s: SwitchId, port: PortNum| {
        let wire = wire(&fabric.switch(s).ports[port.index()]);
        gate(s, port).map(|b| format!("\t\t{a} <--> {wire} <--> {b};"))
    };
    let hosts = fabric.adapters().filter_map(|(_, end): (_, &EndPort)| {
        let (s, port) = end.attachment?;
        cable(format!("H_{}.port", end.lid), s, port)
    });
    let once = fabric
        .channels()
        .as_slice()
        .iter()
        .filter(|c| c.from < c.to || c.from == c.to && c.out_port < c.in_port);
    let between = once.filter_map(|c| cable(gate(c.from, c.out_port)?, c.to, c.in_port));
    hosts.chain(between).try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out, "}}")
}

/// The channel of a link: lanes, and Gbit/s of a lane on the wire. 4x QDR where the fabric does not state it.
fn wire(port: &Port) -> String {
    let speed = match port.speed.unwrap_or(LinkSpeed::Qdr) {
        LinkSpeed::Sdr => "2.5",
        LinkSpeed::Ddr => "5",
        LinkSpeed::Qdr => "10",
        LinkSpeed::Fdr10 => "10.3",
        LinkSpeed::Fdr => "14",
        LinkSpeed::Edr => "25",
        LinkSpeed::Hdr => "50",
        LinkSpeed::Ndr => "100",
        LinkSpeed::Xdr => "200",
    };
    format!("IBWire {{ width = {}; speed = {speed}Gbps; }}", port.width.unwrap_or(4))
}

/// A vector of gates by LID for each switch, on as many lines as it takes.
fn tables(out: &mut impl Write, fabric: &Fabric, lft: &Lft, gates: &Gates) -> io::Result<()> {
    let lids: Vec<u16> = (0..fabric.lid_table_len()).map(|lid| lid as u16).collect();
    for s in fabric.switch_ids() {
        let gate = |lid: u16| Lid::new(lid).and_then(|lid| gates.of(s, lft.get(s, lid)?)).unwrap_or(NO_PATH);
        for part in lids.chunks(ENTRIES) {
            write!(out, "{}:", s.index())?;
            part.iter().try_for_each(|&lid| write!(out, " {}", gate(lid)))?;
            writeln!(out)?;
        }
    }
    Ok(())
}
