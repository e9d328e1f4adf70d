//! Slurm's topology.conf, for its plugins `topology/tree` and `topology/block`. Written only.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use super::lines::one_line;
use super::{FormatError, write_file};
use crate::fabric::{Fabric, SwitchId};

/// The files that [`write()`] writes: for `topology/tree`, and for `topology/block`. Each becomes Slurm's
/// `topology.conf`.
pub const FILES: [&str; 2] = ["topology.conf", "topology-block.conf"];

/// Words of a description that no host has: what switches attach for aggregation.
const NO_HOST: [&str; 2] = ["Aggregation Node", "aggregation node"];

/// What these files do not say of a fabric, a sentence each.
///
/// # Errors
/// No node has a description with a host name.
pub fn not_carried(fabric: &Fabric) -> Result<Vec<String>, FormatError> {
    let hosts = Hosts::new(fabric);
    if hosts.switch_of.is_empty() {
        let reason = "no adapter has a description that begins with a host name";
        return Err(FormatError::new(0, reason).hint("'host-17 mlx5_0' names the host host-17"));
    }
    let mut list = vec![
        "links beside a tree: below one root there is a level for groups and one for switches".to_owned(),
    ];
    if !hosts.nameless.is_empty() {
        let first = hosts.nameless.iter().next().map_or("", String::as_str);
        list.push(format!(
            "{} adapters whose descriptions name no host, such as '{first}'",
            hosts.nameless.len()
        ));
    }
    if hosts.on_several > 0 {
        let count = hosts.on_several;
        list.push(format!(
            "{count} hosts are on several switches: each is listed on the one with most of its ports"
        ));
    }
    Ok(list)
}

/// Writes both files into an existing folder.
///
/// - `groups`: the group of each switch, numbered from 0.
///
/// # Errors
/// Those of the file system.
///
/// Cost: O(n log n) in switches and adapters.
pub fn write(dir: &Path, fabric: &Fabric, groups: &[usize]) -> io::Result<()> {
    let hosts = Hosts::new(fabric);
    let names = switch_names(fabric);
    let [tree, block] = FILES;
    let mut on: BTreeMap<SwitchId, Vec<&str>> = BTreeMap::new();
    hosts.switch_of.iter().for_each(|(host, s)| on.entry(*s).or_default().push(host));
    let mut of_group: BTreeMap<usize, Vec<SwitchId>> = BTreeMap::new();
    on.keys().for_each(|s| of_group.entry(groups[s.index()]).or_default().push(*s));
    let list =
        |switches: &[SwitchId]| switches.iter().map(|s| &*names[s.index()]).collect::<Vec<_>>().join(",");
    write_file(dir, tree, |out| {
        writeln!(out, "# TopologyPlugin=topology/tree")?;
        for (s, hosts) in &on {
            comment(out, fabric, *s)?;
            writeln!(out, "SwitchName={} Nodes={}", names[s.index()], hosts.join(","))?;
        }
        // A root above groups of one switch each would be the same twice.
        let levels = of_group.len() > 1 && of_group.values().any(|switches| switches.len() > 1);
        if levels {
            for (group, switches) in &of_group {
                writeln!(out, "SwitchName=dfdn-group-{} Switches={}", group + 1, list(switches))?;
            }
            let all: Vec<String> = of_group.keys().map(|group| format!("dfdn-group-{}", group + 1)).collect();
            writeln!(out, "SwitchName=dfdn-root Switches={}", all.join(","))
        } else if on.len() > 1 {
            writeln!(out, "SwitchName=dfdn-root Switches={}", list(&on.keys().copied().collect::<Vec<_>>()))
        } else {
            Ok(())
        }
    })?;
    write_file(dir, block, |out| {
        writeln!(out, "# TopologyPlugin=topology/block")?;
        let mut smallest = usize::MAX;
        for (group, switches) in &of_group {
            let hosts: Vec<&str> = switches.iter().flat_map(|s| on[s].iter().copied()).collect();
            smallest = smallest.min(hosts.len());
            writeln!(out, "BlockName=dfdn-group-{} Nodes={}", group + 1, hosts.join(","))?;
        }
        writeln!(out, "BlockSizes={smallest}")
    })
}

fn comment(out: &mut impl Write, fabric: &Fabric, s: SwitchId) -> io::Result<()> {
    writeln!(out, "# {}", one_line(&fabric.describe_switch(s)))
}

/// Hosts by name, each with its switch.
struct Hosts {
    switch_of: BTreeMap<String, SwitchId>,
    /// Descriptions that name none.
    nameless: BTreeSet<String>,
    on_several: usize,
}

impl Hosts {
    /// A host has one adapter port or more; its name is the first word of their descriptions.
    fn new(fabric: &Fabric) -> Self {
        let mut ports: BTreeMap<String, BTreeMap<SwitchId, usize>> = BTreeMap::new();
        let mut nameless = BTreeSet::new();
        for (_, end) in fabric.adapters() {
            let description = &fabric.node(end.node).description;
            let Some((s, _)) = end.attachment else { continue };
            match host(description) {
                Some(name) => *ports.entry(name.to_owned()).or_default().entry(s).or_default() += 1,
                None => drop(nameless.insert(one_line(description).into_owned())),
            }
        }
        let on_several = ports.values().filter(|on| on.len() > 1).count();
        // The switch with most ports; of several, the first.
        let most =
            |on: BTreeMap<SwitchId, usize>| on.into_iter().max_by_key(|(s, n)| (*n, std::cmp::Reverse(*s)));
        let switch_of = ports.into_iter().filter_map(|(name, on)| Some((name, most(on)?.0))).collect();
        Self { switch_of, nameless, on_several }
    }
}

/// The host name at the beginning of a description: `host-17 mlx5_0`, `host-17/mlx5_0`, `'host-17 HCA-1'`.
fn host(description: &str) -> Option<&str> {
    if NO_HOST.iter().any(|words| description.contains(words)) {
        return None;
    }
    let word = description.trim_start_matches(['\'', '"', ' ']).split([' ', '/', ':', '\'', '"']).next()?;
    is_name(word).then_some(word)
}

/// Whether Slurm takes a word as a name.
fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
}

/// A name for each switch: its description if Slurm takes it and no other switch has it, else its GUID.
fn switch_names(fabric: &Fabric) -> Vec<String> {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    fabric.switch_ids().for_each(|s| *count.entry(&fabric.switch(s).description).or_default() += 1);
    let own = |name: &str| is_name(name) && count[name] == 1 && !name.starts_with("dfdn-");
    let name = |s| {
        let node = fabric.switch(s);
        if own(&node.description) { node.description.clone() } else { format!("switch-{:016x}", node.guid.0) }
    };
    fabric.switch_ids().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_are_first_words() {
        let names = [
            ("host-17 mlx5_0", Some("host-17")),
            ("'node01 HCA-1'", Some("node01")),
            ("gpu.cluster/mlx5_2", Some("gpu.cluster")),
            ("Mellanox Technologies Aggregation Node", None),
            ("", None),
            ("-x", None),
            ("a;b", None),
            ("x\nNodeName=y", None),
        ];
        names.iter().for_each(|(text, name)| assert_eq!(host(text), *name, "{text}"));
    }
}
