//! Checks that the switches are programmed with the verified tables.
//!
//! OpenSM masks the VLs of each SL2VL row with the VLs that the out port operates at that moment, before it
//! raises the ports to the VLs that they can operate. So in the first sweep after a restart, VL 1 of a port
//! that still operates one VL silently becomes VL 0, and the tables differ from those that were proven free
//! of credit loops. The plugin checks for this after each sweep's tables were sent, and also for blocks of
//! forwarding tables that a switch did not acknowledge.

use super::abi;
use super::fault::Fault;
use super::hold::InForce;
use super::host::{self, Host};
use super::rows::{UNKNOWN, clipped};
use super::snapshot::{data_vls, link_vls, maps_sls};
use crate::fabric::{PortNum, SwitchId};
use crate::tables::{PathSl, Programmed, SlVlRow};

/// The result of the check.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Recheck {
    /// Rows from every port by which packets reach a switch to every port that leads to another
    /// switch.
    pub(super) between_switches: Rows,
    /// Rows towards adapters and those of adapters. They matter for separating classes of service;
    /// no credit loop leads through an adapter.
    pub(super) at_adapters: Rows,
    /// Forwarding tables of switches.
    pub(super) forwarding: Blocks,
    /// Switches with a LinearFDBTop below the largest LID, in words.
    pub(super) short_tops: Vec<String>,
}

/// Blocks of 64 LIDs of forwarding tables.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    /// Number of blocks compared.
    pub(super) compared: usize,
    /// Number of them that the switches did not acknowledge.
    pub(super) missing: usize,
    /// Switches with missing blocks: the first three, with their numbers.
    pub(super) switches: Vec<String>,
    /// Number of further switches with missing blocks.
    pub(super) more: usize,
}

impl Blocks {
    /// The switches with missing blocks and their numbers of blocks, as text.
    pub(super) fn in_words(&self) -> String {
        let Self { compared, missing, switches, more } = self;
        let more = if *more > 0 { format!(" and {more} more switches") } else { String::new() };
        format!(
            "{missing} of {compared} blocks of forwarding tables are not in place: {}{more}",
            switches.join(", ")
        )
    }
}

/// A group of rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rows {
    /// Number of rows compared.
    pub(super) compared: usize,
    /// Number of them that differ.
    pub(super) different: usize,
    /// The first of these, as text.
    pub(super) example: Option<String>,
}

impl Rows {
    /// How many differ, and the first of them, as text.
    pub(super) fn in_words(&self) -> String {
        let Self { compared, different, example } = self;
        let example = example.as_deref().unwrap_or_default();
        format!("{different} of {compared} SL2VL rows are not in place, first {example}")
    }
}

/// Compares the forwarding tables and the SL2VL rows that switches and adapters acknowledged with those of the tables.
///
/// Links to adapters may have fewer VLs than the tables, and rows on them stay folded: such a row is in place
/// if it equals the row that OpenSM computes for the VLs that the link will operate.
///
/// Rows that were not acknowledged are [`UNKNOWN`], which differs from every wanted row.
pub(super) fn recheck(host: &Host, in_force: &InForce) -> Recheck {
    let mut found = Recheck {
        forwarding: forwarding(host, &in_force.programmed),
        short_tops: short_tops(host, in_force),
        ..Recheck::default()
    };
    let programmed = &in_force.programmed;
    let adapters_matter = matches!(programmed.routes.path_sl, PathSl::Classes(_));
    for node in host.nodes() {
        match programmed.switch(host::node_guid(node)) {
            Some(switch) => of_switch(host, in_force, node, switch, adapters_matter, &mut found),
            None if adapters_matter && u32::from(node.node_info.node_type) != abi::IB_NODE_TYPE_SWITCH => {
                of_adapter(host, in_force, node, &mut found);
            }
            None => {}
        }
    }
    found
}

/// Number of blocks of 64 LIDs that a switch was sent, and of those that it did not acknowledge.
/// Under OpenSM's lock.
pub(super) fn blocks(switch: &abi::osm_switch_t) -> (usize, usize) {
    const BLOCK: usize = 64;
    if switch.new_lft.is_null() || switch.lft.is_null() {
        return (0, 0);
    }
    let length = (usize::from(switch.max_lid_ho) + 1).min(usize::from(switch.lft_size));
    // SAFETY: it has `lft_size` bytes, which OpenSM's lock keeps unchanged.
    let wanted = unsafe { std::slice::from_raw_parts(switch.new_lft, length) };
    // SAFETY: as above.
    let there = unsafe { std::slice::from_raw_parts(switch.lft, length) };
    let pairs = wanted.chunks(BLOCK).zip(there.chunks(BLOCK));
    (length.div_ceil(BLOCK), pairs.filter(|(wanted, there)| wanted != there).count())
}

/// LinearFDBTop of a switch and the largest LID in its table, if that LID is larger. Under OpenSM's
/// lock.
pub(super) fn short_top(switch: &abi::osm_switch_t) -> Option<(u16, u16)> {
    let top = u16::from_be(switch.switch_info.lin_top);
    (top < switch.max_lid_ho).then_some((top, switch.max_lid_ho))
}

/// Switches whose LinearFDBTop is too low, in words. Those that are left out or avoided are skipped.
fn short_tops(host: &Host, in_force: &InForce) -> Vec<String> {
    let mut found = Vec::new();
    for switch in host.switches() {
        // SAFETY: NULL or the node of the switch, which lives as long.
        let Some(node) = (unsafe { switch.p_node.as_ref() }) else { continue };
        let guid = host::node_guid(node);
        let Some((top, largest)) = short_top(switch) else { continue };
        if in_force.programmed.switch(guid).is_none() || in_force.faults.contains(&(guid, Fault::Top)) {
            continue;
        }
        let name = host::c_string(node.print_desc).unwrap_or_default();
        found.push(format!("LinearFDBTop of '{name}' ({guid}) is {top}, and LIDs go up to {largest}"));
    }
    found
}

/// Compares the forwarding tables that switches acknowledged with those sent. Switches that are
/// left out are skipped: no entry leads to them.
fn forwarding(host: &Host, programmed: &Programmed) -> Blocks {
    let mut found = Blocks::default();
    for switch in host.switches() {
        // SAFETY: NULL or the node of the switch, which lives as long.
        let Some(node) = (unsafe { switch.p_node.as_ref() }) else { continue };
        if programmed.switch(host::node_guid(node)).is_none() {
            continue;
        }
        let (compared, missing) = blocks(switch);
        found.compared += compared;
        if missing == 0 {
            continue;
        }
        found.missing += missing;
        if found.switches.len() == 3 {
            found.more += 1;
            continue;
        }
        let name = host::c_string(node.print_desc).unwrap_or_default();
        found.switches.push(format!("{missing} of '{name}' ({})", host::node_guid(node)));
    }
    found
}

fn of_switch(
    host: &Host,
    in_force: &InForce,
    node: &abi::osm_node_t,
    switch: SwitchId,
    adapters_matter: bool,
    found: &mut Recheck,
) {
    let fabric = &in_force.programmed.fabric;
    // Tables from OpenSM's cache may be older than the node.
    let ports = fabric.switch(switch).ports.len().min(node.physp_tbl_size as usize);
    let unmapped = in_force.faults.contains(&(host::node_guid(node), Fault::Rows));
    if unmapped || !host::physp(node, 0).is_some_and(maps_sls) {
        return;
    }
    let cabled: Vec<usize> =
        (1..ports).filter(|&port| fabric.switch(switch).ports[port].peer.is_some()).collect();
    // Rows drop the packets that arrive by these ports.
    let strange = in_force.strange(switch);
    let untrusted: Vec<u8> = (1..ports)
        .filter(|&port| fabric.switch(switch).ports[port].untrusted)
        .map(|port| port as u8)
        .filter(|&port| !strange.contains(PortNum(port)))
        .collect();
    for &out_port in &cabled {
        let onward = fabric.channels().at_port(switch, PortNum(out_port as u8)).is_some();
        if !onward && !adapters_matter || !in_force.uses(switch, PortNum(out_port as u8)) {
            continue;
        }
        // If OpenSM's cache is used, a cable to an adapter may be gone since the tables were
        // computed.
        let there = |physp: &&abi::osm_physp_t| onward || host::remote(physp).is_some();
        let Some(physp) = host::physp(node, out_port).filter(there) else { continue };
        let folded_to = (!onward).then(|| link_vls(host, physp));
        let known = std::iter::once(0).chain(cabled.iter().map(|&port| port as u8));
        let known = known.filter(|&port| !strange.contains(PortNum(port)));
        let foreign = untrusted.iter().copied().filter(|_| onward).chain(strange.iter().map(|port| port.0));
        for in_port in known.chain(foreign) {
            let Some(row) = in_force.row(switch, in_port, out_port as u8) else { continue };
            found.compare(node, physp, in_port, row, folded_to);
        }
    }
}

fn of_adapter(host: &Host, in_force: &InForce, node: &abi::osm_node_t, found: &mut Recheck) {
    for port in 1..node.physp_tbl_size as usize {
        let in_use = |physp: &&abi::osm_physp_t| host::remote(physp).is_some() && maps_sls(physp);
        let Some(physp) = host::physp(node, port).filter(in_use) else { continue };
        let row = in_force.programmed.routes.sl2vl.adapters();
        found.compare(node, physp, 0, row, Some(link_vls(host, physp)));
    }
}

impl Recheck {
    /// Compares one row. `folded_to`: the VLs of the link if it is an adapter's.
    fn compare(
        &mut self,
        node: &abi::osm_node_t,
        physp: &abi::osm_physp_t,
        in_port: u8,
        row: SlVlRow,
        folded_to: Option<u8>,
    ) {
        let (rows, wanted) = match folded_to {
            None => (&mut self.between_switches, row),
            Some(vls) => (&mut self.at_adapters, clipped(row, vls)),
        };
        rows.compared += 1;
        let sent = host::row(physp, in_port);
        if sent == Some(wanted) {
            return;
        }
        rows.different += 1;
        let guid = host::node_guid(node);
        // SAFETY: only reads the port's own PortInfo.
        let operates = data_vls(unsafe { abi::ib_port_info_get_op_vls(&physp.port_info) });
        rows.example.get_or_insert_with(|| {
            format!(
                "'{}' ({guid}) port {} from port {in_port}: VLs by SL are {} instead of {:016x}, while the port \
                 operates {operates} VLs",
                host::c_string(node.print_desc).unwrap_or_default(),
                physp.port_num,
                sent.filter(|&row| row != UNKNOWN)
                    .map_or("not acknowledged".to_owned(), |row| format!("{:016x}", row.0)),
                wanted.0,
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::Blocks;

    #[test]
    fn switches_that_miss_blocks_are_named() {
        let switches = vec!["1 of 'a' (0x1)".to_owned(), "2 of 'b' (0x2)".to_owned()];
        let text = Blocks { compared: 9, missing: 4, switches, more: 1 }.in_words();
        assert!(
            text.starts_with("4 of 9 blocks") && text.ends_with("'b' (0x2) and 1 more switches"),
            "{text}"
        );
    }
}
