//! Are the switches programmed with what was verified?
//!
//! OpenSM masks the VLs of each SL2VL row with the VLs that the out port operates at that moment,
//! before it raises the ports to what they can do. So in the first sweep after a restart VL 1 of a
//! port that still operates one VL becomes VL 0 without a word, and the tables are not those that
//! were found free of credit loops. This is looked for after each sweep's tables were sent.

use super::abi;
use super::host::{self, Host};
use super::snapshot::data_vls;
use crate::fabric::{Guid, PortNum, Vl};
use crate::tables::{Programmed, SlVlRow};

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recheck {
    /// Rows compared: those from every port that packets come by to every port that leads to a switch.
    pub(super) rows: usize,
    /// How many differ.
    pub(super) different: usize,
    /// The first of them in words.
    pub(super) example: Option<String>,
    /// Switches with rows that differ by more than the clipping, in GUID order: some of their SL2VL
    /// MADs failed.
    pub(super) failed: Vec<Guid>,
}

/// Compares the SL2VL rows that the switches acknowledged with those of the tables. Rows towards
/// adapters do not count: no credit loop leads through an adapter.
///
/// OpenSM notes a row whose MAD failed as all zeros. For a row of VL 0 alone that looks like success,
/// to OpenSM as well, which then never sends it again. Other rows of the same switch give the failure
/// away; hence [`Recheck::failed`], whose rows are all to be sent once more.
pub(super) fn recheck(host: &Host, programmed: &Programmed) -> Recheck {
    let fabric = &programmed.fabric;
    let mut result = Recheck { rows: 0, different: 0, example: None, failed: Vec::new() };
    for node in host.nodes() {
        let guid = host::node_guid(node);
        let Some(switch) = programmed.switch(guid) else { continue };
        // Tables of OpenSM's cache may be older than the node.
        let ports = fabric.switch(switch).ports.len().min(node.physp_tbl_size as usize);
        let in_ports: Vec<u8> = (0..ports as u8)
            .filter(|&p| p == 0 || fabric.switch(switch).ports[usize::from(p)].peer.is_some())
            .collect();
        for (id, channel) in fabric.channels().out(switch) {
            let Some(physp) = host::physp(node, channel.out_port.index()) else { continue };
            // SAFETY: only reads the port's own PortInfo.
            let operates = data_vls(unsafe { abi::ib_port_info_get_op_vls(&physp.port_info) });
            for &in_port in &in_ports {
                let wanted = programmed.routes.sl2vl.row(switch, PortNum(in_port), channel.out_port);
                let sent = sent(physp, in_port);
                result.rows += 1;
                if sent == Some(wanted) {
                    continue;
                }
                result.different += 1;
                if sent != Some(clipped(wanted, operates)) && result.failed.last() != Some(&guid) {
                    result.failed.push(guid);
                }
                result.example.get_or_insert_with(|| {
                    format!(
                        "{} from port {in_port}: VLs by SL are {} instead of {:016x}, while the port operates \
                         {operates} VLs and {} are needed",
                        fabric.describe_channel(id),
                        sent.map_or("unknown".to_owned(), |row| format!("{:016x}", row.0)),
                        wanted.0,
                        programmed.vls()
                    )
                });
            }
        }
    }
    result
}

/// What OpenSM makes of a row for a port that operates so many VLs, a power of two or 15.
fn clipped(row: SlVlRow, vls: u8) -> SlVlRow {
    let mask = if vls == 15 { 15 } else { vls - 1 };
    SlVlRow(row.0 & SlVlRow::uniform(Vl(mask)).0)
}

/// The row that a switch acknowledged last.
fn sent(physp: &abi::osm_physp_t, in_port: u8) -> Option<SlVlRow> {
    // SAFETY: the table of a switch port has an entry for each in port of the switch, and `in_port`
    // is one of them.
    let table = unsafe { abi::osm_physp_get_slvl_tbl(physp, in_port) };
    // SAFETY: an element of the port's table, or NULL.
    let table = unsafe { table.as_ref() }?;
    Some(SlVlRow(u64::from_be_bytes(table.raw_vl_by_sl)))
}
