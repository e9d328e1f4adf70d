//! BookSim 2: a fabric as a topology file of its network `anynet`, with a configuration that loads it.

use std::io::{self, Write};
use std::path::Path;

use super::lines::one_line;
use super::{FormatError, write_file};
use crate::fabric::{EndPort, Fabric, SwitchId, Vl};
use crate::tables::Routes;

/// The files that [`write()`] writes: the topology, the configuration, and which node is which. BookSim's topology
/// files know no comments.
pub const FILES: [&str; 3] = ["fabric.anynet", "booksim.cfg", "fabric.names"];

/// What these files do not say of a fabric and its tables, a sentence each.
///
/// # Errors
/// BookSim cannot load the fabric: it has no adapters, or is not connected.
///
/// Cost: O(switches + channels).
pub fn not_carried(fabric: &Fabric) -> Result<Vec<String>, FormatError> {
    if fabric.adapters().next().is_none() {
        return Err(FormatError::new(0, "BookSim needs a node, and no adapter is attached to a switch"));
    }
    if let Some(far) = unreached(fabric) {
        let (far, from) = (fabric.describe_switch(far), fabric.describe_switch(SwitchId(0)));
        let reason = format!("BookSim needs a connected network, and no cables lead from {from} to {far}");
        return Err(FormatError::new(0, reason));
    }
    let mut list = vec![
        "forwarding tables: anynet computes shortest paths of its own".to_owned(),
        "SLs and their VLs: there are as many VCs as the tables use VLs, and a packet takes any".to_owned(),
        "multicast".to_owned(),
    ];
    let twins: usize = fabric.switch_ids().map(|s| cables(fabric, s) - neighbours(fabric, s).len()).sum();
    if twins > 0 {
        let cables = twins / 2;
        list.push(format!("{cables} cables beside others: routers have one channel to a neighbour"));
    }
    if rates_differ(fabric) {
        list.push("rates of links: each channel carries a flit a cycle".to_owned());
    }
    if fabric.adapters().any(|(_, end)| end.lmc.lids() > 1) {
        list.push("further LIDs of adapters: a node has one number".to_owned());
    }
    Ok(list)
}

/// Whether some links state another rate than others.
fn rates_differ(fabric: &Fabric) -> bool {
    let channels = fabric.channels().as_slice().iter().map(|c| (c.from, c.out_port));
    let ends = channels.chain(fabric.adapters().filter_map(|(_, end)| end.attachment));
    let mut times = ends.filter_map(|(switch, port)| fabric.byte_time_at(switch, port));
    times.next().is_some_and(|first| times.any(|time| time != first))
}

/// Writes the files into an existing folder. Routers are the switches in GUID order, nodes the adapter ports in port
/// GUID order; a channel takes one cycle.
///
/// # Errors
/// Those of the file system.
///
/// Cost: O(switches + channels + adapters).
pub fn write(dir: &Path, fabric: &Fabric, routes: &Routes) -> io::Result<()> {
    let [topology, configuration, names] = FILES;
    write_file(dir, topology, |out| network(out, fabric))?;
    write_file(dir, configuration, |out| {
        writeln!(out, "// booksim booksim.cfg, in this folder")?;
        writeln!(out, "topology = anynet;\nnetwork_file = {topology};\nrouting_function = min;")?;
        writeln!(out, "num_vcs = {};\ntraffic = uniform;\ninjection_rate = 0.1;", vls(routes))
    })?;
    write_file(dir, names, |out| {
        for s in fabric.switch_ids() {
            writeln!(out, "router {} {}", s.index(), one_line(&fabric.describe_switch(s)))?;
        }
        fabric.adapters().enumerate().try_for_each(|(node, (_, end))| {
            writeln!(out, "node {node} port {} of {}", end.port, one_line(&fabric.describe(end.node)))
        })
    })
}

/// A line for each router: its nodes, and its neighbours with higher numbers. BookSim adds the way back.
fn network(out: &mut impl Write, fabric: &Fabric) -> io::Result<()> {
    let mut nodes = vec![Vec::new(); fabric.num_switches()];
    let home = |end: &EndPort| end.attachment.map(|(s, _)| s.index());
    for (node, s) in fabric.adapters().filter_map(|(_, end)| home(end)).enumerate() {
        nodes[s].push(node);
    }
    for s in fabric.switch_ids() {
        write!(out, "router {}", s.index())?;
        nodes[s.index()].iter().try_for_each(|node| write!(out, " node {node}"))?;
        let higher = neighbours(fabric, s).into_iter().filter(|to| s < *to);
        higher.into_iter().try_for_each(|to| write!(out, " router {}", to.index()))?;
        writeln!(out)?;
    }
    Ok(())
}

/// The switches that cables of a switch lead to, each once, in ascending order.
fn neighbours(fabric: &Fabric, s: SwitchId) -> Vec<SwitchId> {
    let mut list: Vec<SwitchId> = fabric.channels().out(s).map(|(_, c)| c.to).filter(|&to| to != s).collect();
    list.sort_unstable();
    list.dedup();
    list
}

/// Cables of a switch to other switches.
fn cables(fabric: &Fabric, s: SwitchId) -> usize {
    fabric.channels().out(s).filter(|(_, c)| c.to != s).count()
}

/// The first switch that no cables lead to from the first one.
fn unreached(fabric: &Fabric) -> Option<SwitchId> {
    let mut seen = vec![false; fabric.num_switches()];
    let mut front: Vec<SwitchId> = fabric.switch_ids().take(1).collect();
    while let Some(s) = front.pop() {
        if !std::mem::replace(&mut seen[s.index()], true) {
            front.extend(fabric.channels().out(s).map(|(_, c)| c.to));
        }
    }
    seen.iter().position(|seen| !seen).map(SwitchId::at)
}

/// One more than the highest VL in the tables.
fn vls(routes: &Routes) -> u8 {
    let all = routes.sl2vl.rows().iter().flat_map(|row| row.vls());
    1 + all.filter(|vl| *vl != Vl(15)).map(|vl| vl.0).max().unwrap_or(0)
}
