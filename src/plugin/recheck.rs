//! Are the switches programmed with what was verified?
//!
//! OpenSM masks the VLs of each SL2VL row with the VLs that the out port operates at that moment,
//! before it raises the ports to what they can do. So in the first sweep after a restart VL 1 of a
//! port that still operates one VL becomes VL 0 without a word, and the tables are not those that
//! were found free of credit loops. This is looked for after each sweep's tables were sent.

use super::abi;
use super::host::{self, Host};
use super::rows::UNKNOWN;
use super::snapshot::{data_vls, link_vls, maps_sls};
use crate::fabric::{PortNum, SwitchId, Vl};
use crate::tables::{PathSl, Programmed, SlVlRow};

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Recheck {
    /// Rows from every port of a switch that packets come by to every port that leads to a switch.
    pub(super) between_switches: Rows,
    /// Rows towards adapters and those of adapters. They matter where classes of service are to be
    /// kept apart; no credit loop leads through an adapter.
    pub(super) at_adapters: Rows,
}

/// Some of the rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rows {
    /// How many were compared.
    pub(super) compared: usize,
    /// How many of them differ.
    pub(super) different: usize,
    /// The first of these in words.
    pub(super) example: Option<String>,
}

/// Compares the SL2VL rows that switches and adapters acknowledged with those of the tables.
///
/// Links to adapters may have fewer VLs than the tables, and rows on them are folded for good: such a
/// row is in place if it is what OpenSM makes of it for the VLs that the link comes to operate.
///
/// Rows that were not acknowledged are [`UNKNOWN`], which differs from all that are wanted.
pub(super) fn recheck(host: &Host, programmed: &Programmed) -> Recheck {
    let mut found = Recheck::default();
    let adapters_matter = matches!(programmed.routes.path_sl, PathSl::Classes(_));
    for node in host.nodes() {
        match programmed.switch(host::node_guid(node)) {
            Some(switch) => of_switch(host, programmed, node, switch, adapters_matter, &mut found),
            None if adapters_matter => of_adapter(host, programmed, node, &mut found),
            None => {}
        }
    }
    found
}

fn of_switch(
    host: &Host,
    programmed: &Programmed,
    node: &abi::osm_node_t,
    switch: SwitchId,
    adapters_matter: bool,
    found: &mut Recheck,
) {
    let fabric = &programmed.fabric;
    // Tables of OpenSM's cache may be older than the node.
    let ports = fabric.switch(switch).ports.len().min(node.physp_tbl_size as usize);
    if !host::physp(node, 0).is_some_and(maps_sls) {
        return;
    }
    let cabled: Vec<usize> =
        (1..ports).filter(|&port| fabric.switch(switch).ports[port].peer.is_some()).collect();
    // What comes in by these is kept back by rows.
    let untrusted: Vec<usize> =
        (1..ports).filter(|&port| fabric.switch(switch).ports[port].untrusted).collect();
    for &out_port in &cabled {
        let onward = fabric.channels().at_port(switch, PortNum(out_port as u8)).is_some();
        if !onward && !adapters_matter {
            continue;
        }
        // A cable to an adapter may be gone since the tables were computed, if OpenSM's cache serves.
        let there = |physp: &&abi::osm_physp_t| onward || host::remote(physp).is_some();
        let Some(physp) = host::physp(node, out_port).filter(there) else { continue };
        let folded_to = (!onward).then(|| link_vls(host, physp));
        let foreign = untrusted.iter().filter(|_| onward);
        for in_port in std::iter::once(0).chain(cabled.iter().chain(foreign).map(|&port| port as u8)) {
            let row = programmed.routes.sl2vl.row(switch, PortNum(in_port), PortNum(out_port as u8));
            found.compare(node, physp, in_port, row, folded_to);
        }
    }
}

fn of_adapter(host: &Host, programmed: &Programmed, node: &abi::osm_node_t, found: &mut Recheck) {
    for port in 1..node.physp_tbl_size as usize {
        let in_use = |physp: &&abi::osm_physp_t| host::remote(physp).is_some() && maps_sls(physp);
        let Some(physp) = host::physp(node, port).filter(in_use) else { continue };
        found.compare(node, physp, 0, programmed.routes.sl2vl.adapters(), Some(link_vls(host, physp)));
    }
}

impl Recheck {
    /// Compares one row. `folded_to`: the VLs of the link where it is an adapter's.
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

/// What OpenSM makes of a row for a port that operates so many VLs, a power of two or 15.
pub(super) fn clipped(row: SlVlRow, vls: u8) -> SlVlRow {
    let mask = if vls == 15 { 15 } else { vls - 1 };
    // VL 15 stays: it says that packets are dropped.
    let fold = |vl: Vl| if vl.0 == Vl::MAX_DATA { vl } else { Vl(vl.0 & mask) };
    SlVlRow::from_vls(row.vls().map(fold))
}
