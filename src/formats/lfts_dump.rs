//! `opensm-lfts.dump`: the forwarding tables as OpenSM dumps them and as its `routing_engine file`
//! loads them.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};

use super::lines::{Lines, guid, hex, one_line, quote};
use super::{FormatError, Warning, Warnings};
use crate::fabric::{EndPort, Fabric, Guid, Lid, NodeKind, PortNum, SwitchId};
use crate::tables::Lft;

/// Reads the tables of the switches of `fabric`, matched by GUID or else by description. Warns of
/// switches and LIDs that are not in the fabric and ignores them. Port 255 stands for no path.
///
/// # Errors
/// A line that is not in this format, a port that the switch does not have, a switch stated twice.
pub fn read(input: impl BufRead, fabric: &Fabric) -> Result<(Lft, Vec<Warning>), FormatError> {
    let mut tables = Reader::new(fabric);
    let mut lines = Lines::new(input);
    while let Some((number, line)) = lines.next()? {
        if let Some(header) = line.strip_prefix("Unicast lids") {
            let (_, rest) = header.split_once(" guid ").unwrap_or_default();
            let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let name = rest.split_once("('").and_then(|(_, n)| n.rsplit_once("')")).map(|(n, _)| n);
            tables.begin(number, word, name)?;
        } else if line.starts_with("0x") {
            let mut words = line.split_whitespace();
            let lid = words.next().and_then(hex);
            let port = words.next().and_then(|w| w.parse::<u64>().ok());
            let leads_on = |&port: &u64| port != u64::from(Lft::NO_PATH);
            tables.entry(number, &line, lid, port.map(|port| Some(port).filter(leads_on)))?;
        } else if !line.is_empty() && !line.starts_with('#') && !line.ends_with("lids dumped") {
            tables.warnings.add(number, "ignored text that is not an entry");
        }
    }
    tables.finish()
}

/// Forwarding tables under construction, from a file that lists them by switch.
pub(super) struct Reader<'a> {
    fabric: &'a Fabric,
    switches: Switches<'a>,
    lft: Lft,
    /// Line of each switch's header, 0 if there is none.
    seen: Vec<usize>,
    /// Whether there was any header, and the switch of the last one if it is in the fabric.
    begun: bool,
    current: Option<SwitchId>,
    /// Whether entries are of a further table of a switch, which is left out.
    pub(super) further: bool,
    pub(super) warnings: Warnings,
}

impl<'a> Reader<'a> {
    pub(super) fn new(fabric: &'a Fabric) -> Self {
        Self {
            fabric,
            switches: Switches::new(fabric),
            lft: Lft::new(fabric),
            seen: vec![0; fabric.num_switches()],
            begun: false,
            current: None,
            further: false,
            warnings: Warnings::default(),
        }
    }

    /// Handles the header of a switch.
    pub(super) fn begin(&mut self, line: usize, word: &str, name: Option<&str>) -> Result<(), FormatError> {
        let guid = guid(word).ok_or_else(|| FormatError::new(line, "switch header without a GUID"))?;
        self.begun = true;
        self.further = false;
        self.current = self.switches.find(guid, name);
        let Some(SwitchId(s)) = self.current else {
            self.warnings.add(line, "switch not in the fabric");
            return Ok(());
        };
        match std::mem::replace(&mut self.seen[s as usize], line) {
            0 => Ok(()),
            first => {
                let reason = format!("switch {guid} was already stated on line {first}");
                Err(FormatError::new(line, reason))
            }
        }
    }

    /// Handles an entry; `Some(None)` for a LID that is stated to be unreachable.
    pub(super) fn entry(
        &mut self,
        line: usize,
        text: &str,
        lid: Option<u64>,
        port: Option<Option<u64>>,
    ) -> Result<(), FormatError> {
        if !self.begun {
            return Err(FormatError::new(line, "an entry before the first switch"));
        }
        let Some(switch) = self.current else { return Ok(()) };
        if self.further {
            self.warnings
                .add(line, "entry of a further table of a switch (pLFT): not judged without ibdiagnet2.far");
            return Ok(());
        }
        match (lid, port) {
            (Some(_), Some(None)) => Ok(()),
            (Some(lid), Some(Some(port))) => self.set(switch, lid, port, line),
            _ => Err(FormatError::new(line, format!("no LID and port in {}", quote(text)))),
        }
    }

    fn set(&mut self, switch: SwitchId, lid: u64, port: u64, line: usize) -> Result<(), FormatError> {
        let num_ports = self.fabric.switch(switch).num_ports();
        if port > u64::from(num_ports) {
            let reason = format!("no port {port} on a switch with {num_ports} ports");
            return Err(FormatError::new(line, reason).hint(super::OTHER_FABRIC));
        }
        match u16::try_from(lid).ok().and_then(Lid::new).filter(|&l| self.fabric.owner_of(l).is_some()) {
            Some(lid) => {
                let port = PortNum(port as u8);
                if let Some(other) = self.lft.get(switch, lid).filter(|&other| other != port) {
                    let reason = format!(
                        "LID {lid} of {} leads out of port {port}, and before of port {other}",
                        self.fabric.describe_switch(switch)
                    );
                    return Err(FormatError::new(line, reason)
                        .hint("a switch has one entry for a LID: dump the tables again"));
                }
                self.lft.set(switch, lid, port);
            }
            None => self.warnings.add(line, "entry for a LID not in the fabric"),
        }
        Ok(())
    }

    /// The tables; an error if there was no switch.
    pub(super) fn finish(mut self) -> Result<(Lft, Vec<Warning>), FormatError> {
        if !self.begun {
            return Err(
                FormatError::new(0, "no switch in the file").hint("OpenSM writes such files with -D 0x43")
            );
        }
        note_missing(&self.seen, &mut self.warnings);
        Ok((self.lft, self.warnings.0))
    }
}

/// Warns of switches without a table. `seen`: line of each switch's header, 0 if there is none.
pub(super) fn note_missing(seen: &[usize], warnings: &mut Warnings) {
    for _ in seen.iter().filter(|&&line| line == 0) {
        warnings.add(0, "switch of the fabric without a table");
    }
}

/// Finds switches by GUID, and by description if the fabric's source states no GUIDs.
pub(super) struct Switches<'a> {
    by_guid: HashMap<Guid, SwitchId>,
    by_name: HashMap<&'a str, Option<SwitchId>>,
}

impl<'a> Switches<'a> {
    pub(super) fn new(fabric: &'a Fabric) -> Self {
        let (mut by_guid, mut by_name) = (HashMap::new(), HashMap::new());
        for s in fabric.switch_ids() {
            let node = fabric.switch(s);
            by_guid.insert(node.guid, s);
            // A name that two switches share identifies neither, and a switch with a GUID of its own is known by that.
            let named = Some(s).filter(|_| !node.guid_stated);
            by_name.entry(node.description.as_str()).and_modify(|e| *e = None).or_insert(named);
        }
        Self { by_guid, by_name }
    }

    pub(super) fn find(&self, guid: Guid, name: Option<&str>) -> Option<SwitchId> {
        let by_name = || name.and_then(|n| self.by_name.get(n).copied().flatten());
        self.by_guid.get(&guid).copied().or_else(by_name)
    }
}

/// Writes the tables as OpenSM does, switches in GUID order.
///
/// # Errors
/// Those of the output.
///
/// Cost: about 70 bytes for each switch and LID, copied from parts that are formatted once.
pub fn write(out: &mut impl Write, fabric: &Fabric, lft: &Lft) -> io::Result<()> {
    let max = fabric.lid_table_len().saturating_sub(1);
    let parts: Vec<Option<(String, String)>> = (0..=max)
        .map(|raw| {
            let owner = Lid::new(raw as u16).and_then(|lid| fabric.owner_of(lid))?;
            let e = fabric.endport(owner);
            let kind = kind_name(e.kind);
            let name = one_line(&fabric.node(e.node).description).into_owned();
            Some((format!("0x{raw:04x} "), format!(" # {kind} portguid {}: '{name}'\n", e.guid)))
        })
        .collect();
    let ports: Vec<String> = (0..=u8::MAX).map(|p| format!("{p:03}")).collect();
    for s in fabric.switch_ids() {
        let node = fabric.switch(s);
        writeln!(
            out,
            "Unicast lids [0-{max}] of switch Lid {} guid {} ('{}'):",
            node.ports[0].lid.map_or(0, Lid::get),
            node.guid,
            one_line(&node.description)
        )?;
        for (&port, part) in lft.row(s).iter().zip(&parts) {
            if let (Some((head, tail)), true) = (part, port <= node.num_ports()) {
                out.write_all(head.as_bytes())?;
                out.write_all(ports[usize::from(port)].as_bytes())?;
                out.write_all(tail.as_bytes())?;
            }
        }
        writeln!(out, "{max} lids dumped")?;
    }
    Ok(())
}

/// The approximate number of bytes that [`write`] writes.
pub(super) fn bytes(fabric: &Fabric) -> u64 {
    let entries = |e: &EndPort| {
        let words = 49 + kind_name(e.kind).len() + fabric.node(e.node).description.len();
        words as u64 * u64::from(e.lmc.lids())
    };
    fabric.num_switches() as u64 * (100 + fabric.endports().iter().map(entries).sum::<u64>())
}

/// OpenSM's words for the node types.
pub(super) fn kind_name(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Switch => "Switch",
        NodeKind::ChannelAdapter => "Channel Adapter",
        NodeKind::Router => "Router",
    }
}
