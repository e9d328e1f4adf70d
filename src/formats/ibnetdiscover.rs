//! The topology text that `ibnetdiscover` prints and `ibsim` reads.
//!
//! A record starts with a line `Switch 36 "id" # "description" enhanced port 0 lid 3 lmc 0` (or
//! `Ca`, `Hca`, `Rt`). Lines `vendid=`, `devid=`, `sysimgguid=`, `switchguid=0x..(port guid)`
//! precede it, and one line per cable follows, `[port](port guid) "id"[port] # … 4xQDR`. Blanks
//! between the parts are ignored. A cable may be stated from one end only, although ibsim needs
//! both.
//!
//! A record without a GUID gets the one that ibsim 0.10 assigns: switches from 0x200000, adapters
//! from 0x100000 in steps of their number of ports plus one. (ibsim gives routers 0, which is not a
//! valid GUID; here they start at 0x300000.)
//!
//! Some tools write the system's GUID instead of the node's, so that all nodes of a chassis share
//! it: `switchguid=0xSYSTEM(PORT)` before `Switch 36 "S-NODE"`. If a GUID would be used twice and
//! the names of the nodes, or else their port GUIDs, are distinct, these are used instead.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};

use super::lines::{Lines, guid, one_line, quote, split};
use super::{FabricFormat, FormatError, Warning, Warnings};
use crate::fabric::{
    Fabric, FabricBuilder, FabricError, Guid, Lid, LinkSpeed, Lmc, Node, NodeId, NodeKind, Port, PortNum,
    PortRef,
};

/// The format that may start with any text.
pub(super) const FABRIC: FabricFormat = FabricFormat { recognizes: |_| true, read: |text| read(text) };

/// The lines before a record.
#[derive(Clone, Default)]
struct Header {
    vendor_id: u32,
    device_id: u32,
    system_guid: Option<Guid>,
    guid: Option<Guid>,
    port_guid: Option<Guid>,
}

/// One statement of a cable.
struct Cable {
    line: usize,
    here: PortRef,
    peer: String,
    peer_port: PortNum,
    peer_guid: Option<Guid>,
    peer_lid: Option<Lid>,
    width: Option<u8>,
    speed: Option<LinkSpeed>,
}

/// The remarks that may follow the second port of a cable or the name of a node.
#[derive(Default)]
struct Remark<'a> {
    description: Option<&'a str>,
    before: &'a str,
    after: &'a str,
}

/// Reads a fabric.
///
/// # Errors
/// A line of the format that cannot be read; a node defined twice, or used and never defined; two
/// lines that contradict each other; no switch at all; what [`FabricBuilder::finish`] refuses.
pub fn read(input: impl BufRead) -> Result<(Fabric, Vec<Warning>), FormatError> {
    let mut reader = Reader::default();
    let mut lines = Lines::new(input);
    let mut last = 0;
    while let Some((number, line)) = lines.next()? {
        last = number;
        reader.line(number, &line).map_err(|reason| FormatError::new(number, reason))?;
    }
    reader.finish(last)
}

#[derive(Default)]
struct Reader {
    builder: FabricBuilder,
    ids: HashMap<String, NodeId>,
    defined_at: Vec<usize>,
    /// By node: its name if that is a GUID, and the lines before it.
    named: Vec<(Option<Guid>, Header)>,
    made_up: [u64; 3],
    header: Header,
    cables: Vec<Cable>,
    warnings: Warnings,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        if line.is_empty() || line.starts_with('#') || line.starts_with("Chassis") {
            return Ok(());
        }
        if line.starts_with('[') {
            return self.cable(number, line);
        }
        if let Some((kind, rest)) = node_kind(line) {
            return self.node(number, kind, rest);
        }
        match line.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            Some((key @ ("vendid" | "devid" | "sysimgguid"), value)) => {
                let word = value.split(['(', ' ', '\t']).next().unwrap_or_default();
                let n = guid(word).ok_or_else(|| format!("{key} is not a hexadecimal number"))?;
                match key {
                    "vendid" => self.header.vendor_id = n.0 as u32,
                    "devid" => self.header.device_id = n.0 as u32,
                    _ => self.header.system_guid = Some(n),
                }
            }
            Some((key @ ("switchguid" | "caguid" | "rtguid"), value)) => {
                let (own, port) = value.split_once('(').unwrap_or((value, ""));
                let bad = || format!("{key} is not a GUID: {}", quote(value));
                self.header.guid = Some(guid(own.trim()).ok_or_else(bad)?);
                self.header.port_guid = match split(port, ")") {
                    Some((port, _)) => Some(guid(port).ok_or_else(bad)?),
                    None => None,
                };
            }
            _ => self.warnings.add(number, "ignored text outside any record"),
        }
        Ok(())
    }

    fn node(&mut self, number: usize, kind: NodeKind, rest: &str) -> Result<(), String> {
        let (ports, rest) = rest.split_once('"').ok_or("the node's name in quotes is missing")?;
        let num_ports = ports.trim().parse::<u64>().ok().filter(|&n| n <= 254);
        let num_ports = num_ports
            .ok_or_else(|| format!("{} is not a number of ports from 0 to 254", quote(ports.trim())))?
            as u8;
        let (id, rest) = rest.split_once('"').ok_or("the quote after the node's name is missing")?;
        // A subnet cannot have more nodes than LIDs, and a node takes far more memory than its
        // line.
        if self.builder.len() >= usize::from(Lid::MAX) {
            return Err("more nodes than InfiniBand has unicast LIDs".to_owned());
        }
        if let Some(first) = self.ids.get(id) {
            let line = self.defined_at[first.index()];
            return Err(format!("node {} was already defined on line {line}", quote(id)));
        }
        let header = std::mem::take(&mut self.header);
        let remark = remark(rest);
        let guid = header.guid.unwrap_or_else(|| self.next_guid(kind, num_ports));
        let mut node = Node::new(kind, guid, num_ports, remark.description.unwrap_or(id));
        node.guid_stated = header.guid.is_some();
        node.system_guid = header.system_guid.unwrap_or(guid);
        node.vendor_id = header.vendor_id;
        node.device_id = header.device_id;
        if kind == NodeKind::Switch {
            node.enhanced_port0 = remark.after.contains("enhanced port 0");
            let port_guid = header.port_guid.unwrap_or(guid);
            node.ports.iter_mut().for_each(|p| p.guid = port_guid);
            (node.ports[0].lid, node.ports[0].lmc) = self.lid_lmc(number, remark.after)?;
        }
        self.named.push((guid_of_id(id), header));
        let id_of = self.builder.add(node).map_err(|e| e.to_string())?;
        self.ids.insert(id.to_owned(), id_of);
        self.defined_at.push(number);
        Ok(())
    }

    /// The GUID that ibsim assigns to the next record without one.
    fn next_guid(&mut self, kind: NodeKind, num_ports: u8) -> Guid {
        let (i, base, step) = match kind {
            NodeKind::Switch => (0, 0x20_0000, 1),
            NodeKind::ChannelAdapter => (1, 0x10_0000, u64::from(num_ports) + 1),
            NodeKind::Router => (2, 0x30_0000, u64::from(num_ports) + 1),
        };
        let guid = Guid(base + self.made_up[i]);
        self.made_up[i] += step;
        guid
    }

    fn cable(&mut self, number: usize, line: &str) -> Result<(), String> {
        let node = self.builder.len().checked_sub(1).ok_or("a port before the first node")?;
        let node = NodeId::at(node);
        let (port, rest) = bracket(line).ok_or("the port number is not 0 to 254 in brackets")?;
        let (before, rest) = rest.split_once('"').ok_or("the name of the node at the far end is missing")?;
        let (peer, rest) = rest.split_once('"').ok_or("the quote after the far node's name is missing")?;
        let (peer_port, rest) = bracket(rest).ok_or("the far port number is not 0 to 254 in brackets")?;
        let (peer_guid, rest) = match rest.trim_start().strip_prefix('(') {
            Some(rest) => {
                let (inside, rest) = rest.split_once(')').ok_or("a parenthesis is not closed")?;
                (Some(guid(inside.trim()).ok_or("the far port's GUID is not a hexadecimal number")?), rest)
            }
            None => (None, rest),
        };
        let own = self.builder.node(node);
        let (num_ports, is_switch) = (own.num_ports(), own.is_switch());
        if port == PortNum::ZERO || port.0 > num_ports {
            return Err(format!("no port {port} on a node with {num_ports} ports"));
        }
        let remark = remark(rest);
        let mut peer_lid = None;
        if is_switch {
            peer_lid = self.lid_lmc(number, remark.after)?.0;
        } else {
            let own_words = if remark.description.is_some() { remark.before } else { remark.after };
            let (lid, lmc) = self.lid_lmc(number, own_words)?;
            let p = &mut self.builder.node_mut(node).ports[port.index()];
            if let Some((inside, _)) = before.trim().strip_prefix('(').and_then(|b| b.split_once(')')) {
                p.guid = guid(inside.trim()).ok_or("the port's GUID is not a hexadecimal number")?;
            }
            (p.lid, p.lmc) = (lid, lmc);
        }
        let (width, speed) = remark.after.split_whitespace().find_map(width_speed).unzip();
        self.cables.push(Cable {
            line: number,
            here: PortRef { node, port },
            peer: peer.to_owned(),
            peer_port,
            peer_guid,
            peer_lid,
            width,
            speed,
        });
        Ok(())
    }

    /// `lid N` and `lmc N`. LIDs 0 and 65535 mean none, as does a missing number.
    fn lid_lmc(&mut self, number: usize, words: &str) -> Result<(Option<Lid>, Lmc), String> {
        let (mut lid, mut lmc) = (None, Lmc::default());
        let mut words = words.split_whitespace().peekable();
        while let Some(word) = words.next() {
            if word != "lid" && word != "lmc" {
                continue;
            }
            if words.peek().is_none_or(|&next| next == "lid" || next == "lmc") {
                self.warnings.add(number, &format!("no number after '{word}': ignored"));
                continue;
            }
            let text = words.next().unwrap_or_default();
            let n: u16 = text.parse().map_err(|_| format!("{word} {} is out of range", quote(text)))?;
            if word == "lid" {
                lid = Lid::new(n);
                if lid.is_none() && n != 0 && n != 0xffff {
                    return Err(format!("LID {n} is not a unicast LID"));
                }
            } else {
                let fits = u8::try_from(n).ok().and_then(Lmc::new);
                lmc = fits.ok_or_else(|| format!("LMC {n} is above 7"))?;
            }
        }
        Ok((lid, if lid.is_some() { lmc } else { Lmc::default() }))
    }

    /// Gives nodes that share a GUID the one in their name, or else that of their port. If there
    /// are such nodes, the others that state the system's GUID have the same fault.
    fn tell_apart(&mut self) {
        let mut count: HashMap<Guid, usize> = HashMap::new();
        for (_, header) in &self.named {
            if let Some(guid) = header.guid {
                *count.entry(guid).or_default() += 1;
            }
        }
        if count.values().all(|&n| n < 2) {
            return;
        }
        for (i, (named, header)) in self.named.iter().enumerate() {
            let shared = header.guid.is_some_and(|guid| count[&guid] > 1);
            let of_system = header.guid.is_some() && header.guid == header.system_guid;
            // A unique GUID stays if the node's name is not a GUID.
            let better = named.or(header.port_guid.filter(|_| shared));
            let Some(better) = better.filter(|&better| (shared || of_system) && header.guid != Some(better))
            else {
                continue;
            };
            let node = self.builder.node_mut(NodeId::at(i));
            // Port GUIDs of adapters that the file does not state are derived from the node's.
            if !node.is_switch() {
                let made = Node::new(node.kind, better, node.num_ports(), "").ports;
                let old = Node::new(node.kind, node.guid, node.num_ports(), "").ports;
                for ((port, old), new) in node.ports.iter_mut().zip(old).zip(made) {
                    if port.guid == old.guid {
                        port.guid = new.guid;
                    }
                }
            } else if header.port_guid.is_none() {
                node.ports.iter_mut().for_each(|port| port.guid = better);
            }
            node.guid = better;
            let line = self.defined_at[i];
            self.warnings
                .add(line, "node GUID stated for several nodes: taken from the node's name or its port");
        }
    }

    fn finish(mut self, last: usize) -> Result<(Fabric, Vec<Warning>), FormatError> {
        self.tell_apart();
        // The first line that mentions a port, as its own or as the far one.
        let mut own: HashMap<PortRef, usize> = HashMap::with_capacity(self.cables.len());
        let mut claimed: HashMap<PortRef, (PortRef, usize)> = HashMap::with_capacity(self.cables.len());
        for (i, cable) in self.cables.iter().enumerate() {
            own.entry(cable.here).or_insert(i);
        }
        for cable in &self.cables {
            let &peer = self.ids.get(&cable.peer).ok_or_else(|| {
                FormatError::new(
                    cable.line,
                    format!("the cable leads to node {}, which is not defined", quote(&cable.peer)),
                )
                .hint("the file may be truncated; each node needs a record")
            })?;
            let there = PortRef { node: peer, port: cable.peer_port };
            for (end, other) in [(cable.here, there), (there, cable.here)] {
                let &mut (first, line) = claimed.entry(end).or_insert((other, cable.line));
                if first != other {
                    let name = &self.builder.node(end.node).description;
                    let reason =
                        format!("port {} of {} has another cable on line {line}", end.port, quote(name));
                    return Err(FormatError::new(cable.line, reason)
                        .hint("the fabric may have changed while it was discovered"));
                }
            }
            self.builder.connect(cable.here, there).map_err(|e| FormatError::fabric(cable.line, &e))?;
            let one_sided = !own.contains_key(&there);
            let p = &mut self.builder.node_mut(cable.here.node).ports[cable.here.port.index()];
            (p.width, p.speed) = (cable.width, cable.speed);
            if one_sided {
                self.warnings.add(cable.line, "cable stated from one end only");
                let node = self.builder.node_mut(there.node);
                let adapter = !node.is_switch();
                let p = &mut node.ports[there.port.index()];
                (p.width, p.speed) = (cable.width, cable.speed);
                if adapter {
                    p.guid = cable.peer_guid.unwrap_or(p.guid);
                    p.lid = cable.peer_lid;
                }
            }
        }
        if !self.defined_at.is_empty() && !self.builder_has_switch() {
            return Err(FormatError::new(last, "no switch in the file")
                .hint("the discovery may have failed after the first node"));
        }
        if self.defined_at.is_empty() {
            return Err(FormatError::new(last, "no node found in any known format").hint(
                "known are ibnetdiscover's output, opensm-subnet.lst and the JSON of 'dfdn generate --json'",
            ));
        }
        let lines = self.guid_lines();
        let place = |guid: Guid| lines.get(&guid).and_then(|of| of.last()).copied();
        super::part_shared_lids(&mut self.builder, &mut self.warnings, place);
        let fabric = self.builder.finish(Lmc::default()).map_err(|e| {
            let line = match &e {
                FabricError::DuplicateNodeGuid { guid, .. } | FabricError::LidRange { guid, .. } => {
                    place(*guid)
                }
                _ => None,
            };
            FormatError::fabric(line.unwrap_or(last), &e)
        })?;
        super::distinct_port_guids(&fabric, |guid| lines.get(&guid).cloned().unwrap_or_default())?;
        Ok((fabric, self.warnings.0))
    }

    fn builder_has_switch(&self) -> bool {
        (0..self.builder.len()).any(|i| self.builder.node(NodeId::at(i)).is_switch())
    }

    /// Line numbers of the records by node GUID and port GUID; several if records share one.
    fn guid_lines(&self) -> HashMap<Guid, Vec<usize>> {
        let mut lines: HashMap<Guid, Vec<usize>> = HashMap::new();
        for (i, &line) in self.defined_at.iter().enumerate() {
            let node = self.builder.node(NodeId::at(i));
            let of_ports = node.ports.iter().filter(|p| p.lid.is_some() || p.peer.is_some()).map(|p| p.guid);
            for guid in of_ports.chain([node.guid]) {
                let of = lines.entry(guid).or_default();
                if of.last() != Some(&line) {
                    of.push(line);
                }
            }
        }
        lines
    }
}

/// The node type at the start of a line, and the rest. The blank after the type may be missing.
fn node_kind(line: &str) -> Option<(NodeKind, &str)> {
    let kinds = [
        ("Switch", NodeKind::Switch),
        ("Hca", NodeKind::ChannelAdapter),
        ("Ca", NodeKind::ChannelAdapter),
        ("Router", NodeKind::Router),
        ("Rt", NodeKind::Router),
    ];
    kinds.iter().find_map(|&(word, kind)| {
        let rest = line.strip_prefix(word)?;
        rest.starts_with(|c: char| c.is_whitespace() || c.is_ascii_digit()).then_some((kind, rest))
    })
}

/// `[n]`, an optional `[ext m]`, and the rest.
fn bracket(text: &str) -> Option<(PortNum, &str)> {
    let (inside, mut rest) = text.trim_start().strip_prefix('[')?.split_once(']')?;
    if let Some(external) = rest.strip_prefix("[ext") {
        rest = external.split_once(']')?.1;
    }
    let number = inside.trim().parse().ok().filter(|&n| n != u8::MAX)?;
    Some((PortNum(number), rest))
}

/// Parses the remark of a line. A description may contain quotes: it ends at the last one.
fn remark(text: &str) -> Remark<'_> {
    let text = text.trim().trim_start_matches('#');
    match (text.find('"'), text.rfind('"')) {
        (Some(first), Some(last)) if first < last => Remark {
            description: Some(&text[first + 1..last]),
            before: &text[..first],
            after: &text[last + 1..],
        },
        _ => Remark { description: None, before: "", after: text },
    }
}

/// The GUID in a name as ibnetdiscover writes it: `S-0002c903007b78b0`.
fn guid_of_id(id: &str) -> Option<Guid> {
    let (letter, digits) = id.split_once('-')?;
    let fits = ["S", "H", "R"].contains(&letter) && digits.len() == 16;
    guid(digits).filter(|guid| fits && guid.0 != 0)
}

/// Speed names after the width, as in `4xEDR`.
const SPEEDS: [(&str, LinkSpeed); 9] = [
    ("SDR", LinkSpeed::Sdr),
    ("DDR", LinkSpeed::Ddr),
    ("QDR", LinkSpeed::Qdr),
    ("FDR10", LinkSpeed::Fdr10),
    ("FDR", LinkSpeed::Fdr),
    ("EDR", LinkSpeed::Edr),
    ("HDR", LinkSpeed::Hdr),
    ("NDR", LinkSpeed::Ndr),
    ("XDR", LinkSpeed::Xdr),
];

fn width_speed(word: &str) -> Option<(u8, LinkSpeed)> {
    let (width, speed) = word.split_once('x')?;
    let &(_, speed) = SPEEDS.iter().find(|(name, _)| *name == speed)?;
    Some((width.parse().ok().filter(|w| [1, 2, 4, 8, 12].contains(w))?, speed))
}

/// Writes a fabric in GUID order, every cable from both ends, as ibsim needs it.
///
/// The format has no link state: cables that are down are left out.
///
/// # Errors
/// Those of the output.
pub fn write(out: &mut impl Write, fabric: &Fabric) -> io::Result<()> {
    writeln!(out, "#\n# Topology file: {fabric}\n#")?;
    for node in fabric.nodes() {
        let (word, key) = match node.kind {
            NodeKind::Switch => ("Switch", "switchguid"),
            NodeKind::ChannelAdapter => ("Ca", "caguid"),
            NodeKind::Router => ("Rt", "rtguid"),
        };
        writeln!(out, "\nvendid={:#x}\ndevid={:#x}", node.vendor_id, node.device_id)?;
        writeln!(out, "sysimgguid={:#x}", node.system_guid.0)?;
        write!(out, "{key}={:#x}", node.guid.0)?;
        if node.is_switch() {
            write!(out, "({:x})", node.ports[0].guid.0)?;
        }
        write!(
            out,
            "\n{word}\t{} \"{}\"\t\t# \"{}\"",
            node.num_ports(),
            id(node),
            one_line(&node.description)
        )?;
        if node.is_switch() {
            let kind = if node.enhanced_port0 { "enhanced" } else { "base" };
            write!(out, " {kind} port 0 lid {} lmc {}", lid(&node.ports[0]), node.ports[0].lmc.get())?;
        }
        writeln!(out)?;
        for (n, port) in node.ports.iter().enumerate().skip(1) {
            let Some(peer) = port.peer else { continue };
            let far = fabric.node(peer.node);
            let far_port = &far.ports[peer.port.index()];
            if !port.state.is_used() || !far_port.state.is_used() {
                continue;
            }
            write!(out, "[{n}]")?;
            if !node.is_switch() {
                write!(out, "({:x}) ", port.guid.0)?;
            }
            write!(out, "\t\"{}\"[{}]", id(far), peer.port)?;
            if !far.is_switch() {
                write!(out, "({:x}) ", far_port.guid.0)?;
            }
            write!(out, "\t\t#")?;
            if !node.is_switch() {
                write!(out, " lid {} lmc {}", lid(port), port.lmc.get())?;
            }
            let far_lid = if far.is_switch() { &far.ports[0] } else { far_port };
            write!(out, " \"{}\" lid {}", one_line(&far.description), lid(far_lid))?;
            if let (Some(width), Some(speed)) = (port.width, port.speed) {
                let name = SPEEDS.iter().find(|(_, s)| *s == speed).map_or("", |(name, _)| name);
                write!(out, " {width}x{name}")?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

/// `S-0002c903007b78b0`.
fn id(node: &Node) -> String {
    let letter = match node.kind {
        NodeKind::Switch => 'S',
        NodeKind::ChannelAdapter => 'H',
        NodeKind::Router => 'R',
    };
    format!("{letter}-{:016x}", node.guid.0)
}

fn lid(port: &Port) -> u16 {
    port.lid.map_or(0, Lid::get)
}
