//! `opensm-subnet.lst`: a line for each end of each cable with both nodes in full, `{ SW Ports:24
//! SystemGUID:… NodeGUID:… PortGUID:… VenID:… DevID:… Rev:… {name} LID:… PN:… } { … } PHY=4x
//! LOG=ACT SPD=10`, all numbers in hexadecimal.
//!
//! Only the first side of a line is used: some versions of OpenSM print wrong type, device or
//! revision for the second. The format has neither LMCs nor nodes without cables.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, Write};

use super::lines::{Lines, guid, hex, one_line, quote};
use super::{FabricFormat, FormatError, Warning, Warnings};
use crate::fabric::{
    Fabric, FabricBuilder, FabricError, Guid, Lid, LinkSpeed, LinkState, Lmc, Node, NodeId, NodeKind,
    PortNum, PortRef,
};

/// A brace, and then the node type.
pub(super) const FABRIC: FabricFormat =
    FabricFormat { recognizes: |first| first[0] == b'{', read: |text| read(text) };

/// One of the two nodes on a line.
struct Side {
    node: Node,
    port: PortNum,
    port_guid: Guid,
    num_ports: u8,
    lid: Option<Lid>,
}

struct Cable {
    line: usize,
    sides: [Side; 2],
    width: Option<u8>,
    state: LinkState,
    speed: Option<LinkSpeed>,
}

/// Reads a fabric.
///
/// # Errors
/// A line that is not in this format; lines that contradict each other; no switch at all; what
/// [`FabricBuilder::finish`] refuses.
pub fn read(input: impl BufRead) -> Result<(Fabric, Vec<Warning>), FormatError> {
    let mut cables = Vec::new();
    let mut warnings = Warnings::default();
    let mut lines = Lines::new(input);
    let mut last = 0;
    while let Some((number, line)) = lines.next()? {
        last = number;
        if line.starts_with('{') {
            cables.push(cable(number, &line).map_err(|reason| FormatError::new(number, reason))?);
        } else if !line.is_empty() && !line.starts_with('#') {
            warnings.add(number, "ignored text that is not a cable");
        }
    }

    retype_switches(&mut cables, &mut warnings);

    let mut builder = FabricBuilder::new();
    let mut ids: HashMap<Guid, (NodeId, usize)> = HashMap::new();
    for which in [1, 0] {
        for c in &cables {
            let side = &c.sides[which];
            let (id, line) = match ids.get(&side.node.guid) {
                Some(&known) => known,
                None => {
                    if builder.len() >= usize::from(Lid::MAX) {
                        let reason = "more nodes than InfiniBand has unicast LIDs";
                        return Err(FormatError::new(c.line, reason));
                    }
                    let ports = side.num_ports;
                    let new = Node::new(side.node.kind, side.node.guid, ports, &side.node.description);
                    let id = builder.add(new).map_err(|e| FormatError::fabric(c.line, &e))?;
                    ids.insert(side.node.guid, (id, c.line));
                    (id, c.line)
                }
            };
            let known = builder.node_mut(id);
            if known.num_ports() != side.num_ports {
                let reason = format!(
                    "node {} has {} ports here and {} on line {line}",
                    side.node.guid,
                    side.num_ports,
                    known.num_ports()
                );
                return Err(FormatError::new(c.line, reason));
            }
            let ports = std::mem::take(&mut known.ports);
            *known = Node { ports, ..side.node.clone() };
        }
    }
    let mut claimed: HashMap<PortRef, (PortRef, usize)> = HashMap::new();
    for which in [1, 0] {
        for c in &cables {
            let [here, there] = [which, 1 - which].map(|w| {
                let side = &c.sides[w];
                PortRef { node: ids[&side.node.guid].0, port: side.port }
            });
            let &mut (first, line) = claimed.entry(here).or_insert((there, c.line));
            if first != there {
                let reason = format!(
                    "port {} of {} has another cable on line {line}",
                    here.port, c.sides[which].node.guid
                );
                return Err(FormatError::new(c.line, reason));
            }
            builder.connect(here, there).map_err(|e| FormatError::fabric(c.line, &e))?;
            let side = &c.sides[which];
            let node = builder.node_mut(here.node);
            let is_switch = node.is_switch();
            let port = &mut node.ports[here.port.index()];
            (port.width, port.speed, port.state) = (c.width, c.speed, c.state);
            if is_switch {
                node.ports[0].lid = side.lid;
                if node.ports[0].guid != side.port_guid {
                    node.ports.iter_mut().for_each(|p| p.guid = side.port_guid);
                }
            } else {
                (port.guid, port.lid) = (side.port_guid, side.lid);
            }
        }
    }
    if (0..builder.len()).all(|i| !builder.node(NodeId::at(i)).is_switch()) {
        return Err(FormatError::new(last, "no switch in the file"));
    }
    let place = |guid: Guid| lines_of(&cables, guid).last().copied();
    super::part_shared_lids(&mut builder, &mut warnings, place);
    let fabric = builder.finish(Lmc::default()).map_err(|e| {
        let line = match &e {
            FabricError::LidRange { guid, .. } => place(*guid),
            _ => None,
        };
        FormatError::fabric(line.unwrap_or(0), &e)
    })?;
    super::distinct_port_guids(&fabric, |guid| lines_of(&cables, guid))?;
    Ok((fabric, warnings.0))
}

/// For each node, the first lines that mention its ports by GUID.
fn lines_of(cables: &[Cable], port: Guid) -> Vec<usize> {
    let mut nodes = HashSet::new();
    let mut is_new = |side: &Side| side.port_guid == port && nodes.insert((side.node.guid, side.port));
    cables.iter().filter(|c| c.sides.iter().any(&mut is_new)).map(|c| c.line).collect()
}

/// Some old files call every node a CA. Only on a switch do ports share one port GUID.
fn retype_switches(cables: &mut [Cable], warnings: &mut Warnings) {
    let mut first_port: HashMap<(Guid, Guid), PortNum> = HashMap::new();
    let mut switches = HashSet::new();
    for side in cables.iter().flat_map(|c| &c.sides) {
        let first = first_port.entry((side.node.guid, side.port_guid)).or_insert(side.port);
        if *first != side.port {
            switches.insert(side.node.guid);
        }
    }
    for c in cables {
        for side in &mut c.sides {
            if side.node.kind == NodeKind::ChannelAdapter && switches.contains(&side.node.guid) {
                side.node.kind = NodeKind::Switch;
                warnings.add(c.line, "CA read as a switch, as its ports share one port GUID");
            }
        }
    }
}

fn cable(line: usize, text: &str) -> Result<Cable, String> {
    let (first, rest) = side(text)?;
    let (second, rest) = side(rest)?;
    let mut cable =
        Cable { line, sides: [first, second], width: None, state: LinkState::Active, speed: None };
    for (key, value) in rest.split_whitespace().filter_map(|word| word.split_once('=')) {
        match key {
            "PHY" => cable.width = value.strip_suffix('x').and_then(|n| n.parse().ok()),
            "LOG" => {
                cable.state = match value {
                    "ACT" => LinkState::Active,
                    "ARM" => LinkState::Armed,
                    "INI" => LinkState::Initialize,
                    "DWN" => LinkState::Down,
                    _ => return Err(format!("{} is not a link state", quote(value))),
                }
            }
            "SPD" => cable.speed = SPEEDS.iter().find(|(name, _)| *name == value).map(|&(_, s)| s),
            _ => {}
        }
    }
    Ok(cable)
}

/// The node at the start of a text, and the rest.
fn side(text: &str) -> Result<(Side, &str), String> {
    let text = text.trim_start().strip_prefix('{').ok_or("an opening brace is missing")?;
    let (fields, rest) = text.split_once('{').ok_or("the node's name in braces is missing")?;
    // A name may contain braces: it ends where valid fields follow.
    let (name, lid, port, rest) = rest
        .match_indices("} LID:")
        .find_map(|(end, mark)| {
            let (tail, after) = rest[end + mark.len()..].split_once('}')?;
            let (lid, port) = tail.split_once("PN:")?;
            Some((&rest[..end], hex(lid.trim())?, hex(port.trim())?, after))
        })
        .ok_or("the fields LID and PN after the node's name are missing")?;
    let mut words = fields.split_whitespace();
    let kind = words.next().unwrap_or_default();
    let kind = match kind.strip_suffix("-SM").unwrap_or(kind) {
        "SW" => NodeKind::Switch,
        "CA" => NodeKind::ChannelAdapter,
        "Rt" => NodeKind::Router,
        _ => return Err(format!("{} is not a node type", quote(kind))),
    };
    let mut node = Node::new(kind, Guid(0), 0, name);
    let (mut num_ports, mut node_guid, mut port_guid) = (None, None, None);
    for word in words {
        let (key, value) = word.split_once(':').ok_or_else(|| format!("{} has no value", quote(word)))?;
        let n = hex(value).ok_or_else(|| format!("{} is not a hexadecimal number", quote(word)))?;
        match key {
            "Ports" => num_ports = Some(n),
            "SystemGUID" => node.system_guid = Guid(n),
            "NodeGUID" => node_guid = guid(value),
            "PortGUID" => port_guid = guid(value),
            "VenID" => node.vendor_id = n as u32,
            // Some versions print the 16-bit value in the upper half of the word.
            "DevID" => node.device_id = if n > 0xffff { (n >> 16) as u32 & 0xffff } else { n as u32 },
            "Rev" => node.revision = n as u32,
            _ => {}
        }
    }
    node.guid = node_guid.ok_or("NodeGUID is missing")?;
    let num_ports = num_ports.filter(|&n| n <= 254).ok_or("Ports is missing or above FE")? as u8;
    let port = u8::try_from(port).ok().filter(|&p| p > 0 && p <= num_ports);
    let port = PortNum(port.ok_or_else(|| format!("PN is not a port of a node with {num_ports} ports"))?);
    let raw = u16::try_from(lid).map_err(|_| format!("LID {lid:X} is out of range"))?;
    let lid = Lid::new(raw);
    if lid.is_none() && raw != 0 && raw != 0xffff {
        return Err(format!("LID {raw:X} is not a unicast LID"));
    }
    let port_guid = port_guid.unwrap_or(node.guid);
    Ok((Side { node, port, port_guid, num_ports, lid }, rest))
}

/// Lane speeds in Gb/s as OpenSM prints them, with the later ones as it would print them.
const SPEEDS: [(&str, LinkSpeed); 9] = [
    ("2.5", LinkSpeed::Sdr),
    ("5", LinkSpeed::Ddr),
    ("10", LinkSpeed::Qdr),
    ("FDR10", LinkSpeed::Fdr10),
    ("14", LinkSpeed::Fdr),
    ("25", LinkSpeed::Edr),
    ("50", LinkSpeed::Hdr),
    ("100", LinkSpeed::Ndr),
    ("200", LinkSpeed::Xdr),
];

/// Writes a fabric as OpenSM does: each cable from both ends, nodes in GUID order.
///
/// # Errors
/// Those of the output.
pub fn write(out: &mut impl Write, fabric: &Fabric) -> io::Result<()> {
    for node in fabric.nodes() {
        for (n, port) in node.ports.iter().enumerate().skip(1) {
            let Some(peer) = port.peer else { continue };
            write_side(out, node, n, 6)?;
            write_side(out, fabric.node(peer.node), peer.port.index(), 8)?;
            match port.width {
                Some(width) => write!(out, "PHY={width}x")?,
                None => write!(out, "PHY=??")?,
            }
            let state = match port.state {
                LinkState::Active | LinkState::Held => "ACT",
                LinkState::Armed => "ARM",
                LinkState::Initialize => "INI",
                LinkState::Down => "DWN",
            };
            let speed = SPEEDS.iter().find(|(_, s)| Some(*s) == port.speed).map_or("??", |(name, _)| name);
            writeln!(out, " LOG={state} SPD={speed}")?;
        }
    }
    Ok(())
}

fn write_side(out: &mut impl Write, node: &Node, port: usize, vendor_digits: usize) -> io::Result<()> {
    let (kind, lid) = match node.kind {
        NodeKind::Switch => ("SW", node.ports[0].lid),
        NodeKind::ChannelAdapter => ("CA", node.ports[port].lid),
        NodeKind::Router => ("Rt", node.ports[port].lid),
    };
    write!(
        out,
        "{{ {kind} Ports:{:02X} SystemGUID:{:016x} NodeGUID:{:016x} PortGUID:{:016x} \
         VenID:{:0vendor_digits$X} DevID:{:04X} Rev:{:08X} {{{}}} LID:{:04X} PN:{port:02X} }} ",
        node.num_ports(),
        node.system_guid.0,
        node.guid.0,
        node.ports[port].guid.0,
        node.vendor_id,
        node.device_id,
        node.revision,
        one_line(&node.description),
        lid.map_or(0, Lid::get),
    )
}
