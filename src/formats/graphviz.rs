//! The fabric as a graph for Graphviz. Written only.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use super::write_file;
use crate::fabric::{Fabric, SwitchId};

/// The file that [`write()`] writes.
pub const FILES: [&str; 1] = ["fabric.dot"];

/// Adapters that are drawn; where there are more, a switch says how many it has.
const DRAWN: usize = 200;

/// What the file does not say of a fabric, a sentence each.
pub fn not_carried(fabric: &Fabric) -> Vec<String> {
    let adapters = fabric.adapters().count();
    let mut list = vec!["ports: parallel cables are one line with their number".to_owned()];
    if adapters > DRAWN {
        list.push(format!("{adapters} adapters: each switch says how many it has"));
    }
    list
}

/// Writes the file into an existing folder. `sfdp` draws large fabrics faster than `dot`.
///
/// - `groups`: the group of each switch, numbered from 0. Groups are drawn as clusters.
///
/// # Errors
/// Those of the file system.
///
/// Cost: O(n log n) in switches and links.
pub fn write(dir: &Path, fabric: &Fabric, groups: &[usize]) -> io::Result<()> {
    write_file(dir, FILES[0], |out| {
        writeln!(out, "graph fabric {{\n\tnode [shape=box];")?;
        let drawn = fabric.adapters().count() <= DRAWN;
        let mut of_group: BTreeMap<usize, Vec<SwitchId>> = BTreeMap::new();
        fabric.switch_ids().for_each(|s| of_group.entry(groups[s.index()]).or_default().push(s));
        for (group, switches) in &of_group {
            writeln!(out, "\tsubgraph cluster_{group} {{")?;
            for s in switches {
                let hosts = match fabric.num_adapters_on(*s) {
                    0 => String::new(),
                    _ if drawn => String::new(),
                    count => format!("\\n{count} adapters"),
                };
                let label = quoted(&fabric.switch(*s).description);
                writeln!(out, "\t\ts{} [label=\"{label}{hosts}\"];", s.index())?;
            }
            writeln!(out, "\t}}")?;
        }
        if drawn {
            for (i, (_, end)) in fabric.adapters().enumerate() {
                let Some((s, _)) = end.attachment else { continue };
                let label = quoted(&fabric.node(end.node).description);
                writeln!(out, "\th{i} [shape=ellipse, label=\"{label}\"];\n\th{i} -- s{};", s.index())?;
            }
        }
        let mut cables: BTreeMap<(SwitchId, SwitchId), usize> = BTreeMap::new();
        for (_, c) in fabric.channels().iter().filter(|(id, c)| *id < c.reverse) {
            *cables.entry((c.from.min(c.to), c.from.max(c.to))).or_default() += 1;
        }
        for ((a, b), count) in cables {
            let label = if count > 1 { format!(" [label=\"{count}\"]") } else { String::new() };
            writeln!(out, "\ts{} -- s{}{label};", a.index(), b.index())?;
        }
        writeln!(out, "}}")
    })
}

/// A text within quotation marks: neither they, nor escapes, nor entities of HTML have a meaning.
fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '&' => quoted.push_str("&amp;"),
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted
}
