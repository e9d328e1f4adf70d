//! Makes OpenSM's knowledge of the SL2VL rows in the nodes unambiguous.
//!
//! OpenSM keeps, for each port and in port, the row that the node acknowledged last, and does not
//! send a row that equals it, unless the port asks for everything (`need_update`). But all zeros
//! mean either "acknowledged as all VL 0" or "nothing is known", in two cases:
//!
//! - Its MAD failed: OpenSM zeroes the row when it sends it, and only an answer writes it again.
//! - The port's object is new, as after any loss of a link or node. It asks for everything, but
//!   only until OpenSM has read the port once more. OpenSM reads all ports again without sending a
//!   row if events arrive during discovery, or if the engine refuses the fabric. A switch whose
//!   ports stayed active then keeps its old rows.
//!
//! Neither is noticed if the wanted row is VL 0 alone. So the plugin writes [`UNKNOWN`] wherever
//! OpenSM knows nothing, and zeros are an acknowledgement like any other row:
//!
//! - over a row just sent, before OpenSM can have seen an answer: it requests all rows of the
//!   subnet and sends those that differ while it holds its lock once, so when it asks for the next
//!   row the last one is done. An answer overwrites it; nothing else does.
//! - over all rows of a switch port's object that it has not seen since another engine had the
//!   tables sent. A table beyond the last in port, which OpenSM allocates and never uses, serves as
//!   a marker: it lives and dies with the others.
//!
//! One case remains: no row follows the very last one that OpenSM asks for, that of the largest
//! port GUID. It counts as unknown in the next heavy sweep, so a row of zeros there costs one MAD
//! per sweep, and a failure is corrected one sweep late. On a switch it is a row that no packet
//! uses: out of its last port in use, from its last port. Adapters have no spare table. OpenSM
//! decides whether their rows are sent when the port is new, and no credit loop leads through an
//! adapter.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::abi;
use super::host::{self, Host};
use super::snapshot::data_vls;
use crate::fabric::Vl;
use crate::tables::SlVlRow;

/// Stands for an unknown row. No engine makes such a row. It has no VL 15, for which the SA would
/// leave an SL out of its answers.
pub(super) const UNKNOWN: SlVlRow = SlVlRow(0xdeed_dede_edde_deed);

/// Written to the spare table once a port was seen, plus how many times other engines had rows sent: never zeros, its
/// initial content.
const SEEN: u64 = u64::from_be_bytes(*b"dfdn\0\0\0\0");

/// A row that OpenSM will have sent, if it has to, when it asks for the next one.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// As OpenSM has it, in network order.
    node_guid: u64,
    out_port: u8,
    in_port: u8,
}

/// Keeps OpenSM's knowledge of rows correct.
#[derive(Debug, Default)]
pub(super) struct KnownRows {
    /// The last row that OpenSM asked for, if it is one to be sent.
    last: Mutex<Option<Sent>>,
    /// How many times other engines had rows sent.
    others: AtomicU32,
}

impl KnownRows {
    /// Call after a sweep in which another engine had its rows sent: their zeros are ambiguous.
    pub(super) fn sent_by_another(&self) {
        self.others.fetch_add(1, Ordering::Relaxed);
    }

    /// Call for each row that OpenSM asks for, with the answer, with OpenSM's lock held
    /// exclusively, as when it calls `update_sl2vl`.
    ///
    /// Cost: O(1); O(log n) for the first row of each of n nodes; O(in ports) for the first row of a port
    /// not seen before.
    pub(super) fn asked(&self, host: &Host, port: &abi::osm_physp_t, in_port: u8, wanted: SlVlRow) {
        let Some(node) = host::node_of(port) else { return };
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(sent) = last.take() {
            settle(host, node, sent);
        }
        self.meet(node, port);
        // SAFETY: only reads the port's own PortInfo.
        let operates = data_vls(unsafe { abi::ib_port_info_get_op_vls(&port.port_info) });
        let forced = port.need_update != 0 || host.updates_everything();
        if forced || host::row(port, in_port) != Some(clipped(wanted, operates)) {
            let node_guid = node.node_info.node_guid;
            *last = Some(Sent { node_guid, out_port: port.port_num, in_port });
        }
    }

    /// Marks all rows of a new switch port's object as unknown.
    fn meet(&self, node: &abi::osm_node_t, port: &abi::osm_physp_t) {
        let Ok(spare) = u8::try_from(node.physp_tbl_size) else { return };
        let seen = SlVlRow(SEEN + u64::from(self.others.load(Ordering::Relaxed)));
        if host::row(port, spare).is_some_and(|row| row != seen) {
            for in_port in 0..spare {
                host::set_row(port, in_port, UNKNOWN);
            }
            host::set_row(port, spare, seen);
        }
    }
}

/// Replaces the zeros that OpenSM left when it sent the row.
fn settle(host: &Host, node: &abi::osm_node_t, sent: Sent) {
    let same = (node.node_info.node_guid == sent.node_guid).then_some(node);
    let node = same.or_else(|| host.node(sent.node_guid));
    let port = node.and_then(|node| host::physp(node, usize::from(sent.out_port)));
    // If OpenSM had no memory for the MAD, the row is unchanged.
    if let Some(port) = port.filter(|port| host::row(port, sent.in_port) == Some(SlVlRow(0))) {
        host::set_row(port, sent.in_port, UNKNOWN);
    }
}

/// What OpenSM makes of a row for a port that operates so many VLs, a power of two or 15. It leaves VL 15,
/// which drops packets, as it is.
pub(super) fn clipped(row: SlVlRow, vls: u8) -> SlVlRow {
    const ONES: u64 = 0x1111_1111_1111_1111;
    let mask = if vls == 15 { 15 } else { vls - 1 };
    let drops = row.0 & row.0 >> 1 & row.0 >> 2 & row.0 >> 3 & ONES;
    SlVlRow((row.0 & SlVlRow::uniform(Vl(mask)).0) | (drops * 15))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{Fabric, NodeId, SwitchId};
    use crate::plugin::fake::{FakeOpenSm, chain};

    const ZEROS: SlVlRow = SlVlRow(0);

    /// A switch in the middle of a chain, the in ports of its rows, and one row beyond them.
    fn middle(f: &Fabric) -> (NodeId, std::ops::Range<u8>, u8) {
        let ports = f.switch(SwitchId(1)).ports.len() as u8;
        (f.switch_node_id(SwitchId(1)), 0..ports, ports)
    }

    /// OpenSM asks for a row and sends it if it differs from what it knows.
    fn ask(fake: &mut FakeOpenSm, known: &KnownRows, (node, out, inp): (NodeId, u8, u8), row: SlVlRow) {
        let host = fake.host();
        known.asked(&host, fake.physp(node, out), inp, row);
        let port = fake.physp(node, out);
        // SAFETY: only reads the port's own PortInfo.
        let operates = data_vls(unsafe { abi::ib_port_info_get_op_vls(&port.port_info) });
        let forced = port.need_update != 0 || host.updates_everything();
        if forced || fake.row(node, out, inp) != clipped(row, operates) {
            fake.set_row(node, out, inp, ZEROS);
        }
    }

    /// OpenSM with all rows of the switch in the middle acknowledged, and seen by the plugin.
    fn acknowledged(f: &Fabric, row: SlVlRow) -> (FakeOpenSm, KnownRows) {
        let (mut fake, known) = (FakeOpenSm::new(f), KnownRows::default());
        let (node, ports, _) = middle(f);
        let all: Vec<(u8, u8)> =
            ports.clone().flat_map(|out| ports.clone().map(move |inp| (out, inp))).collect();
        let answers =
            |fake: &mut FakeOpenSm| all.iter().for_each(|&(out, inp)| fake.set_row(node, out, inp, row));
        all.iter().for_each(|&(out, inp)| ask(&mut fake, &known, (node, out, inp), row));
        answers(&mut fake);
        // Settles the last one.
        ask(&mut fake, &known, (node, 0, 0), row);
        answers(&mut fake);
        (fake, known)
    }

    #[test]
    fn rows_of_a_new_port_are_unknown() {
        let f = chain(3);
        let (node, ports, spare) = middle(&f);
        let (mut fake, known) = (FakeOpenSm::new(&f), KnownRows::default());
        let host = fake.host();
        let rows = |fake: &mut FakeOpenSm, out| -> Vec<SlVlRow> {
            ports.clone().map(|inp| fake.row(node, out, inp)).collect()
        };
        known.asked(&host, fake.physp(node, 1), 0, ZEROS);
        assert!(rows(&mut fake, 1).iter().all(|&row| row == UNKNOWN));
        assert!(rows(&mut fake, 2).iter().all(|&row| row == ZEROS), "another port");
        assert_eq!(fake.row(node, 1, spare), SlVlRow(SEEN));
        // Acknowledged rows are not forgotten, until another engine has sent some.
        let one = SlVlRow::uniform(Vl(1));
        ports.clone().for_each(|inp| fake.set_row(node, 1, inp, one));
        known.asked(&host, fake.physp(node, 1), 0, one);
        assert!(rows(&mut fake, 1).iter().all(|&row| row == one));
        known.sent_by_another();
        known.asked(&host, fake.physp(node, 1), 0, one);
        assert!(rows(&mut fake, 1).iter().all(|&row| row == UNKNOWN));
        assert_eq!(fake.row(node, 1, spare), SlVlRow(SEEN + 1));
        // Adapters have no spare row.
        let (_, end) = f.adapters().next().expect("an adapter");
        known.asked(&host, fake.physp(end.node, 1), 0, ZEROS);
        assert_eq!(fake.row(end.node, 1, 0), ZEROS);
    }

    #[test]
    fn a_row_that_was_sent_is_unknown_until_it_is_acknowledged() {
        let f = chain(3);
        let (node, ..) = middle(&f);
        let (one, two) = (SlVlRow::uniform(Vl(1)), SlVlRow::uniform(Vl(2)));
        let (mut fake, known) = acknowledged(&f, one);
        ask(&mut fake, &known, (node, 1, 2), two);
        assert_eq!(fake.row(node, 1, 2), ZEROS);
        ask(&mut fake, &known, (node, 1, 3), one);
        assert_eq!((fake.row(node, 1, 2), fake.row(node, 1, 3)), (UNKNOWN, one));
        // An answer overwrites it, and nothing else does.
        fake.set_row(node, 1, 2, two);
        ask(&mut fake, &known, (node, 1, 4), one);
        assert_eq!(fake.row(node, 1, 2), two);
        // OpenSM had no memory to send it.
        known.asked(&fake.host(), fake.physp(node, 2), 3, two);
        ask(&mut fake, &known, (node, 2, 4), one);
        assert_eq!(fake.row(node, 2, 3), one);
    }

    #[test]
    fn the_last_row_of_a_node_is_settled_by_the_next_node() {
        let f = chain(3);
        let (node, ..) = middle(&f);
        let (mut fake, known) = acknowledged(&f, SlVlRow::uniform(Vl(1)));
        ask(&mut fake, &known, (node, 3, 2), SlVlRow::uniform(Vl(2)));
        let next = f.switch_node_id(SwitchId(2));
        ask(&mut fake, &known, (next, 3, 2), ZEROS);
        assert_eq!((fake.row(node, 3, 2), fake.row(next, 3, 2)), (UNKNOWN, ZEROS));
    }

    #[test]
    fn acknowledged_zeros_stay() {
        let f = chain(3);
        let (node, ..) = middle(&f);
        let (mut fake, known) = acknowledged(&f, ZEROS);
        ask(&mut fake, &known, (node, 1, 2), ZEROS);
        ask(&mut fake, &known, (node, 1, 3), ZEROS);
        assert_eq!(fake.row(node, 1, 2), ZEROS);
        // The port operates one VL: OpenSM makes zeros of the row.
        fake.physp(node, 1).port_info.vl_enforce = 1 << 4;
        ask(&mut fake, &known, (node, 1, 2), SlVlRow::uniform(Vl(1)));
        ask(&mut fake, &known, (node, 1, 3), ZEROS);
        assert_eq!(fake.row(node, 1, 2), ZEROS);
    }

    #[test]
    fn zeros_are_unknown_where_opensm_sends_all_rows() {
        let f = chain(3);
        let (node, ..) = middle(&f);
        let of_the_port = |fake: &mut FakeOpenSm| fake.physp(node, 1).need_update = 1;
        let of_the_subnet = |fake: &mut FakeOpenSm| fake.osm().subn.need_update = 1;
        for everything in [&of_the_port as &dyn Fn(&mut FakeOpenSm), &of_the_subnet] {
            let (mut fake, known) = acknowledged(&f, ZEROS);
            everything(&mut fake);
            ask(&mut fake, &known, (node, 1, 2), ZEROS);
            ask(&mut fake, &known, (node, 1, 3), ZEROS);
            assert_eq!(fake.row(node, 1, 2), UNKNOWN);
        }
    }

    #[test]
    fn rows_are_clipped_as_opensm_does() {
        let row = SlVlRow(0x0123_4567_89ab_cdef);
        assert_eq!(clipped(row, 4), SlVlRow(0x0123_0123_0123_012f));
        assert_eq!(clipped(row, 1), SlVlRow(0x0000_0000_0000_000f));
        assert_eq!(clipped(row, 15), row);
        assert_eq!(clipped(SlVlRow(u64::MAX), 1), SlVlRow(u64::MAX));
    }
}
