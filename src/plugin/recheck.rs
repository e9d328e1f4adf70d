//! Are the switches programmed with what was verified?
//!
//! OpenSM masks the VLs of each SL2VL row with the VLs that the out port operates at that moment,
//! before it raises the ports to what they can do. So in the first sweep after a restart VL 1 of a
//! port that still operates one VL becomes VL 0 without a word, and the tables are not those that
//! were found free of credit loops. This is looked for after each sweep's tables were sent.

use super::abi;
use super::host::{self, Host};
use super::program::Programmed;
use super::snapshot::data_vls;
use crate::fabric::PortNum;
use crate::tables::SlVlRow;

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recheck {
    /// Rows compared: those from every port that packets come by to every port that leads to a switch.
    pub(super) rows: usize,
    /// How many differ.
    pub(super) different: usize,
    /// The first of them in words.
    pub(super) example: Option<String>,
}

/// Compares the SL2VL rows that the switches acknowledged with those of the tables. Rows towards
/// adapters do not count: no credit loop leads through an adapter.
pub(super) fn recheck(host: &Host, programmed: &Programmed) -> Recheck {
    let fabric = &programmed.fabric;
    let mut result = Recheck { rows: 0, different: 0, example: None };
    for node in host.nodes() {
        let Some(switch) = programmed.switch(host::node_guid(node)) else { continue };
        let in_ports: Vec<u8> = (0..fabric.switch(switch).ports.len() as u8)
            .filter(|&p| p == 0 || fabric.switch(switch).ports[usize::from(p)].peer.is_some())
            .collect();
        for (id, channel) in fabric.channels().out(switch) {
            let Some(physp) = host::physp(node, channel.out_port.index()) else { continue };
            for &in_port in &in_ports {
                let wanted = programmed.routes.sl2vl.row(switch, PortNum(in_port), channel.out_port);
                let sent = sent(physp, in_port);
                result.rows += 1;
                if sent == Some(wanted) {
                    continue;
                }
                result.different += 1;
                result.example.get_or_insert_with(|| {
                    // SAFETY: only reads the port's own PortInfo.
                    let operates = data_vls(unsafe { abi::ib_port_info_get_op_vls(&physp.port_info) });
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

/// The row that a switch acknowledged last.
fn sent(physp: &abi::osm_physp_t, in_port: u8) -> Option<SlVlRow> {
    // SAFETY: the table of a switch port has an entry for each in port of the switch, and `in_port`
    // is one of them.
    let table = unsafe { abi::osm_physp_get_slvl_tbl(physp, in_port) };
    // SAFETY: an element of the port's table, or NULL.
    let table = unsafe { table.as_ref() }?;
    Some(SlVlRow(u64::from_be_bytes(table.raw_vl_by_sl)))
}
