//! Error counters of ports, as `ibqueryerrors` and `perfquery` print them.

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;

use super::lines::{Lines, guid, quote};
use super::{FormatError, Warning, Warnings};
use crate::fabric::{Fabric, Guid, Lid, NodeId, PortNum, PortRef};

/// The counters that speak of a bad link, and what one count weighs: a link that retrains or goes down loses packets.
///
/// Congestion (`PortXmitWait`, `PortXmitDiscards`) and packets that another link broke
/// (`PortRcvRemotePhysicalErrors`) are not among them.
pub const LINK_ERRORS: &[(&str, u64)] = &[
    ("SymbolErrorCounter", 1),
    ("PortRcvErrors", 1),
    ("LocalLinkIntegrityErrors", 1),
    ("ExcessiveBufferOverrunErrors", 1),
    ("LinkErrorRecoveryCounter", 10),
    ("LinkDownedCounter", 10),
];

/// The errors of a link, both ends together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkErrors {
    /// An end: of a link between switches the one with the lower GUID and port, otherwise the switch's.
    pub end: PortRef,
    /// The counters of [`LINK_ERRORS`] that are not zero, by name.
    pub counters: BTreeMap<&'static str, u64>,
    /// Their weighed sum.
    pub weight: u64,
}

/// Reads what `ibqueryerrors` prints, with or without `--report-port`. Sums over all ports of a switch are skipped;
/// so are lines of other kinds.
///
/// Returns the links that have errors, the worst first.
///
/// # Errors
/// A text without a single port, a counter that is no number, an input that cannot be read.
pub fn read_ibqueryerrors(
    input: impl BufRead,
    fabric: &Fabric,
) -> Result<(Vec<LinkErrors>, Vec<Warning>), FormatError> {
    let mut errors = Errors::of(fabric);
    let mut lines = Lines::new(input);
    while let Some((number, line)) = lines.next()? {
        let Some((name, rest)) = line.strip_prefix("GUID ").and_then(|rest| rest.split_once(" port ")) else {
            // A text without errors has its summary alone.
            errors.recognized |= line.starts_with("## Summary");
            continue;
        };
        let Some((port, counters)) = rest.split_once(':') else { continue };
        errors.recognized = true;
        let Some(port) = port.trim().parse().ok() else { continue };
        let Some(guid) = guid(name.trim()) else {
            return Err(FormatError::new(number, format!("no GUID in {}", quote(&line))));
        };
        let place = errors.by_guid(guid, port);
        for counter in counters.split('[').skip(1) {
            let (name, value) = counter.split_once("==").unwrap_or((counter, ""));
            errors.count(number, place, name, value.split(']').next().unwrap_or_default())?;
        }
    }
    errors.finish("ibqueryerrors")
}

/// Reads what `perfquery` prints for single ports (`perfquery -l LID 1-36`), any number of such texts one after
/// the other; see [`read_ibqueryerrors`].
///
/// # Errors
/// As there.
pub fn read_perfquery(
    input: impl BufRead,
    fabric: &Fabric,
) -> Result<(Vec<LinkErrors>, Vec<Warning>), FormatError> {
    let mut errors = Errors::of(fabric);
    let mut lines = Lines::new(input);
    let mut place = Place::Nowhere;
    while let Some((number, line)) = lines.next()? {
        if let Some(rest) = line.strip_prefix("# Port").and_then(|rest| rest.split_once("Lid ")) {
            errors.recognized = true;
            let mut words = rest.1.split_whitespace();
            let lid = words.next().and_then(|word| word.parse().ok()).and_then(Lid::new);
            let port = words.nth(1).and_then(|word| word.parse().ok());
            place = match (lid, port) {
                (Some(lid), Some(port)) => errors.by_lid(lid, port),
                _ => Place::Nowhere,
            };
        } else if let Some((name, value)) = line.split_once(':') {
            errors.count(number, place, name, value.trim_start_matches('.'))?;
        }
    }
    errors.finish("perfquery")
}

/// Where counters belong.
#[derive(Clone, Copy)]
enum Place {
    /// To a sum over ports, or to no port yet.
    Nowhere,
    /// To a port that the fabric does not have.
    Unknown,
    At(PortRef),
}

struct Errors<'a> {
    fabric: &'a Fabric,
    nodes: HashMap<Guid, NodeId>,
    recognized: bool,
    found: BTreeMap<PortRef, BTreeMap<&'static str, u64>>,
    warnings: Warnings,
}

impl<'a> Errors<'a> {
    fn of(fabric: &'a Fabric) -> Self {
        let mut nodes = HashMap::new();
        for (node, id) in fabric.nodes().iter().zip(0..) {
            // A node GUID may equal the port GUID of another node's port: the node counts.
            node.ports.iter().for_each(|port| _ = nodes.entry(port.guid).or_insert(NodeId(id)));
        }
        fabric.nodes().iter().zip(0..).for_each(|(node, id)| _ = nodes.insert(node.guid, NodeId(id)));
        Self { fabric, nodes, recognized: false, found: BTreeMap::new(), warnings: Warnings::default() }
    }

    fn by_guid(&self, guid: Guid, port: u8) -> Place {
        self.nodes.get(&guid).map_or(Place::Unknown, |&node| self.at(node, port))
    }

    fn by_lid(&self, lid: Lid, port: u8) -> Place {
        self.fabric.owner_of(lid).map_or(Place::Unknown, |end| self.at(self.fabric.endport(end).node, port))
    }

    fn at(&self, node: NodeId, port: u8) -> Place {
        match self.fabric.node(node).ports.get(usize::from(port)) {
            // Port 0 has no cable; 255 stands for all.
            _ if port == 0 || port == u8::MAX => Place::Nowhere,
            Some(_) => Place::At(PortRef { node, port: PortNum(port) }),
            None => Place::Unknown,
        }
    }

    fn count(&mut self, line: usize, place: Place, name: &str, value: &str) -> Result<(), FormatError> {
        let Some((name, _)) = LINK_ERRORS.iter().find(|(known, _)| *known == name.trim()) else {
            return Ok(());
        };
        let value: u64 = value
            .trim()
            .parse()
            .map_err(|_| FormatError::new(line, format!("{name} has no number: {}", quote(value))))?;
        match place {
            Place::Nowhere => {}
            Place::Unknown if value > 0 => self.warnings.add(line, "a port with errors is not in the fabric"),
            Place::At(port) if value > 0 => {
                let counter = self.found.entry(self.end(port)).or_default().entry(name).or_default();
                *counter = counter.saturating_add(value);
            }
            Place::Unknown | Place::At(_) => {}
        }
        Ok(())
    }

    /// The end that stands for the link of a port.
    fn end(&self, port: PortRef) -> PortRef {
        let peer = self.fabric.node(port.node).ports[port.port.index()].peer;
        let is_switch = |end: &PortRef| self.fabric.switch_of(end.node).is_some();
        match peer {
            Some(peer) if (is_switch(&peer), port) > (is_switch(&port), peer) => peer,
            _ => port,
        }
    }

    fn finish(self, program: &str) -> Result<(Vec<LinkErrors>, Vec<Warning>), FormatError> {
        if !self.recognized {
            return Err(FormatError::new(0, format!("not what {program} prints: it names no port")));
        }
        let weighed = |(end, counters): (PortRef, BTreeMap<&'static str, u64>)| {
            let weight =
                |name: &str| LINK_ERRORS.iter().find(|(known, _)| *known == name).map_or(0, |(_, w)| *w);
            let weight = counters
                .iter()
                .fold(0, |sum: u64, (name, count)| sum.saturating_add(count.saturating_mul(weight(name))));
            LinkErrors { end, counters, weight }
        };
        let mut list: Vec<LinkErrors> = self.found.into_iter().map(weighed).collect();
        list.sort_by_key(|link| (std::cmp::Reverse(link.weight), link.end));
        Ok((list, self.warnings.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Ring;

    /// Switches sw-0 to sw-3 with LIDs 1 to 4; port 3 leads to the next one's port 4.
    fn ring() -> Fabric {
        Ring { switches: 4, cas: 2 }.build().expect("a ring")
    }

    #[test]
    fn the_errors_of_both_ends_are_those_of_the_link() {
        let text = "Errors for 0x2c90200000001 \"sw-1\"\n   \
            GUID 0x2c90200000001 port ALL: [SymbolErrorCounter == 250] [LinkDownedCounter == 3]\n   \
            GUID 0x2c90200000001 port 3: [SymbolErrorCounter == 250] [LinkDownedCounter == 3] [PortXmitWait == 7]\n       \
            Link info:      2   3[  ] ==( 4X          10.0 Gbps Active/  LinkUp)==>  0x0002c90200000002      3    4[  ]\n\
            Errors for 0x2c90200000002 \"sw-2\"\n   \
            GUID 0x2c90200000002 port 4: [SymbolErrorCounter == 5]\n\
            Errors for \"sw-0-ca-2\"\n   GUID 0x2c90300000011 port 1: [SymbolErrorCounter == 7]\n   \
            GUID 0x99 port 1: [SymbolErrorCounter == 7]\n\n## Summary: 12 nodes checked, 2 bad nodes found\n";
        let fabric = ring();
        let (links, warnings) = read_ibqueryerrors(text.as_bytes(), &fabric).expect("it is right");
        let named: Vec<(String, u8, u64)> = links
            .iter()
            .map(|l| (fabric.node(l.end.node).description.clone(), l.end.port.0, l.weight))
            .collect();
        assert_eq!(named, [("sw-1".to_owned(), 3, 285), ("sw-0".to_owned(), 2, 7)]);
        assert_eq!(
            links[0].counters,
            BTreeMap::from([("LinkDownedCounter", 3), ("SymbolErrorCounter", 255)])
        );
        assert!(warnings.len() == 1 && warnings[0].reason.contains("not in the fabric"));
    }

    #[test]
    fn perfquery_names_ports_by_lid() {
        let text = "# Port counters: Lid 2 port 4 (CapMask: 0x1300)\nPortSelect:......................4\n\
            SymbolErrorCounter:..............250\nPortRcvErrors:...................2\nPortXmitWait:....9\n\
            # Port counters: Lid 2 port 255 (CapMask: 0x1300)\nSymbolErrorCounter:..............250\n\
            # Port extended counters: Lid 2 port 3 (CapMask: 0x1300 CapMask2: 0x0000000)\nPortXmitData:...1\n";
        let fabric = ring();
        let (links, _) = read_perfquery(text.as_bytes(), &fabric).expect("it is right");
        // Port 4 of sw-1 leads to port 3 of sw-0.
        let [link] = &links[..] else { panic!("{links:?}") };
        assert_eq!(fabric.node(link.end.node).description, "sw-0");
        assert_eq!((link.end.port.0, link.weight), (3, 252));
    }

    #[test]
    fn other_texts_and_bad_numbers_are_refused() {
        let fabric = ring();
        for text in ["", "nothing\n", "Lid 2 port 3\n"] {
            let why = read_ibqueryerrors(text.as_bytes(), &fabric).expect_err(text).to_string();
            assert!(why.contains("ibqueryerrors"), "{why}");
            assert!(read_perfquery(text.as_bytes(), &fabric).is_err(), "{text}");
        }
        let why = read_ibqueryerrors(&b"\nGUID 0x1 port 1: [SymbolErrorCounter == many]"[..], &fabric);
        assert!(why.expect_err("no number").to_string().contains("line 2"));
        let (links, _) =
            read_ibqueryerrors(&b"## Summary: 4 nodes checked, 0 bad nodes found\n"[..], &fabric)
                .expect("nothing is bad");
        assert!(links.is_empty());
    }
}
