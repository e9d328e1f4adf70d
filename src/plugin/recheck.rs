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
use crate::fabric::{LinkState, PortNum, SwitchId, Vl};
use crate::tables::{PathSl, Programmed, SlVlRow, VlArb};

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
    /// VL arbitration of links between switches.
    pub(super) arbitration: Arbitration,
}

/// Whether ports serve all VLs in use.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arbitration {
    /// Number of ports that do not.
    pub(super) lacking: usize,
    /// The first of these, as text.
    example: Option<String>,
}

impl Arbitration {
    /// How many ports lack a weight, and the first of them, as text.
    pub(super) fn in_words(&self) -> String {
        let Self { lacking, example } = self;
        let example = example.as_deref().unwrap_or_default();
        format!("ports between switches that do not serve all VLs in use: {lacking}, first {example}")
    }
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
        // Older entries may send over links that are held out, which lead to switches.
        let is_held = fabric.switch(switch).ports[out_port].state == LinkState::Held;
        let onward = is_held || fabric.channels().at_port(switch, PortNum(out_port as u8)).is_some();
        if !onward && !adapters_matter || !in_force.uses(switch, PortNum(out_port as u8)) {
            continue;
        }
        // If OpenSM's cache is used, a cable to an adapter may be gone since the tables were
        // computed.
        let there = |physp: &&abi::osm_physp_t| onward || host::remote(physp).is_some();
        let Some(physp) = host::physp(node, out_port).filter(there) else { continue };
        if onward {
            // OpenSM masks the VLs with those that the port operates.
            // SAFETY: only reads the port's own PortInfo.
            let operates = data_vls(unsafe { abi::ib_port_info_get_op_vls(&physp.port_info) });
            let vls = link_vls(host, physp).min(operates);
            found.arbitrate(node, physp, &in_force.programmed.routes.vlarb, vls);
        }
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

/// The first VL in use that the arbitration of a port gives no weight. Where its tables have less room than there are VLs,
/// only as many count.
fn unserved(physp: &abi::osm_physp_t, wanted: &VlArb, vls: u8) -> Option<Vl> {
    let room = physp.port_info.vl_arb_low_cap as usize + physp.port_info.vl_arb_high_cap as usize;
    let mut used = wanted.low.iter().map(|&(vl, _)| vl).filter(|vl| vl.0 < vls).take(room);
    let is_served = |vl: &Vl| {
        let mut entries = physp.vl_arb.iter().flat_map(|block| &block.vl_entry);
        entries.any(|entry| entry.vl == vl.0 && entry.weight > 0)
    };
    used.find(|vl| vls > 1 && !is_served(vl))
}

impl Recheck {
    /// Looks at the arbitration of a port to another switch.
    fn arbitrate(&mut self, node: &abi::osm_node_t, physp: &abi::osm_physp_t, wanted: &VlArb, vls: u8) {
        let Some(vl) = unserved(physp, wanted, vls) else { return };
        self.arbitration.lacking += 1;
        self.arbitration.example.get_or_insert_with(|| {
            let name = host::c_string(node.print_desc).unwrap_or_default();
            format!("'{name}' ({}) port {}: VL {} has no weight", host::node_guid(node), physp.port_num, vl.0)
        });
    }

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
    use super::*;
    use crate::fabric::{Fabric, FabricBuilder, Guid, Lid, Lmc, NodeId};
    use crate::plugin::fake::{FakeOpenSm, chain};
    use crate::plugin::hold::hold;
    use crate::tables::{ClassSl, Classes, Lft, Routes};

    /// Rows of a chain of three switches between switches, and those at adapters.
    const BETWEEN: usize = 3 + 12 + 8;
    const AT_ADAPTERS: usize = 3 + 4 + 2;

    /// Tables of a fabric with another row for each turn. Those at adapters matter with `classes`.
    fn in_force(f: &Fabric, classes: bool) -> InForce {
        let mut routes = Routes::on_one_vl("test", f, Lft::new(f));
        for s in f.switch_ids() {
            for lid in (1..f.lid_table_len()).filter_map(|lid| Lid::new(lid as u16)) {
                routes.lft.set(s, lid, PortNum(1 + lid.index() as u8 % 4));
            }
            let ports = f.channels().slots_of(s) as u8;
            for (i, o) in (0..ports).flat_map(|i| (0..ports).map(move |o| (i, o))) {
                let untrusted = f.switch(s).ports[usize::from(i)].untrusted;
                let row = SlVlRow::uniform(Vl(if untrusted { 15 } else { (i + 2 * o) % 7 }));
                routes.sl2vl.set(s, PortNum(i), PortNum(o), row);
            }
        }
        routes.sl2vl.set_adapters(SlVlRow::uniform(Vl(3)));
        if classes {
            let classes = Classes { classes: 2, vl_sets: 1, vls: 1, sls: 1 };
            let own = Box::new(routes.path_sl.clone());
            routes.path_sl = PathSl::Classes(ClassSl { classes, own, vl_set_of: Vec::new() });
        }
        let programmed = std::sync::Arc::new(Programmed::new(f.clone(), routes));
        InForce { programmed, faults: Default::default(), hold: None }
    }

    fn compared(rows: &Rows) -> (usize, usize) {
        (rows.compared, rows.different)
    }

    fn of(f: &Fabric, s: usize) -> (SwitchId, NodeId, Guid) {
        let s = SwitchId::at(s);
        (s, f.switch_node_id(s), f.switch(s).guid)
    }

    /// Number of rows compared and of those that differ, between switches and at adapters.
    fn rows(fake: &FakeOpenSm, in_force: &InForce) -> [(usize, usize); 2] {
        let found = recheck(&fake.host(), in_force);
        [compared(&found.between_switches), compared(&found.at_adapters)]
    }

    #[test]
    fn tables_that_were_acknowledged_are_in_place() {
        let f = chain(3);
        for classes in [false, true] {
            let tables = in_force(&f, classes);
            let fake = FakeOpenSm::programmed(&tables.programmed);
            let found = recheck(&fake.host(), &tables);
            let at_adapters = if classes { AT_ADAPTERS } else { 0 };
            assert_eq!(compared(&found.between_switches), (BETWEEN, 0));
            assert_eq!(compared(&found.at_adapters), (at_adapters, 0));
            let blocks = f.num_switches() * f.lid_table_len().div_ceil(64);
            assert_eq!(found.forwarding, Blocks { compared: blocks, ..Blocks::default() });
            assert!(found.short_tops.is_empty());
            assert_eq!((found.between_switches.example, found.at_adapters.example), (None, None));
        }
    }

    #[test]
    fn rows_that_differ_are_counted_and_the_first_is_named() {
        let f = chain(3);
        let tables = in_force(&f, true);
        let mut fake = FakeOpenSm::programmed(&tables.programmed);
        let (_, node, guid) = of(&f, 1);
        fake.set_row(node, 2, 1, SlVlRow::uniform(Vl(7)));
        fake.set_row(node, 3, 0, UNKNOWN);
        let found = recheck(&fake.host(), &tables);
        assert_eq!(compared(&found.between_switches), (BETWEEN, 2));
        let text = found.between_switches.in_words();
        let start = format!(
            "2 of 23 SL2VL rows are not in place, first 'S1' ({guid}) port 2 from port 1: VLs by SL are \
             7777777777777777 instead of 5555555555555555, while the port operates 8 VLs"
        );
        assert_eq!(text, start);
        fake.set_row(node, 2, 1, UNKNOWN);
        let text = recheck(&fake.host(), &tables).between_switches.in_words();
        assert!(text.contains("VLs by SL are not acknowledged instead of 5555555555555555"), "{text}");
        // An adapter's own row.
        let (_, end) = f.adapters().next().expect("an adapter");
        fake.set_row(end.node, 1, 0, SlVlRow(0));
        assert_eq!(rows(&fake, &tables), [(BETWEEN, 2), (AT_ADAPTERS, 1)]);
    }

    /// The row that a link with few VLs folds is in place on links to adapters only.
    #[test]
    fn rows_on_links_to_adapters_may_be_folded() {
        let f = chain(3);
        let tables = in_force(&f, true);
        let mut fake = FakeOpenSm::programmed(&tables.programmed);
        let (_, end) = f.adapters().next().expect("an adapter");
        let (s, port) = end.attachment.expect("on a switch");
        fake.physp(end.node, 1).port_info.vl_cap = 1 << 4;
        fake.set_row(end.node, 1, 0, SlVlRow(0));
        for in_port in 0..f.channels().slots_of(s) as u8 {
            fake.set_row(f.switch_node_id(s), port.0, in_port, SlVlRow(0));
        }
        assert_eq!(rows(&fake, &tables), [(BETWEEN, 0), (AT_ADAPTERS, 0)]);
        let (_, node, _) = of(&f, 1);
        fake.physp(node, 2).port_info.vl_cap = 1 << 4;
        fake.set_row(node, 2, 1, SlVlRow(0));
        assert_eq!(rows(&fake, &tables)[0], (BETWEEN, 1));
    }

    #[test]
    fn what_has_no_rows_is_not_compared() {
        let f = chain(3);
        let fresh = || {
            let tables = in_force(&f, true);
            (FakeOpenSm::programmed(&tables.programmed), tables)
        };
        let (_, node, guid) = of(&f, 1);
        let (fake, mut tables) = fresh();
        tables.faults.insert((guid, Fault::Rows));
        assert_eq!(rows(&fake, &tables), [(BETWEEN - 12, 0), (AT_ADAPTERS, 0)]);
        let (mut fake, tables) = fresh();
        fake.physp(node, 0).port_info.capability_mask = 0;
        assert_eq!(rows(&fake, &tables), [(BETWEEN - 12, 0), (AT_ADAPTERS, 0)]);
        // A switch that the tables do not have is no adapter either.
        let (mut fake, tables) = fresh();
        fake.node(node).node_info.node_guid = 0x999_u64.to_be();
        assert_eq!(rows(&fake, &tables), [(BETWEEN - 12, 0), (AT_ADAPTERS, 0)]);
        let (_, end) = f.adapters().next().expect("an adapter");
        let (s, port) = end.attachment.expect("on a switch");
        let (mut fake, tables) = fresh();
        fake.physp(end.node, 1).port_info.capability_mask = 0;
        assert_eq!(rows(&fake, &tables)[1], (AT_ADAPTERS - 1, 0));
        // The cable is gone, at one end or both.
        let (mut fake, tables) = fresh();
        fake.physp(end.node, 1).p_remote_physp = std::ptr::null_mut();
        assert_eq!(rows(&fake, &tables)[1], (AT_ADAPTERS - 1, 0));
        fake.physp(f.switch_node_id(s), port.0).p_remote_physp = std::ptr::null_mut();
        assert_eq!(rows(&fake, &tables), [(BETWEEN, 0), (AT_ADAPTERS - 1 - 3, 0)]);
    }

    #[test]
    fn rows_from_untrusted_ports_have_to_drop() {
        let mut b = FabricBuilder::from_fabric(&chain(3));
        let node = of(&chain(3), 1).1;
        b.node_mut(node).ports[5].untrusted = true;
        let f = b.finish(Lmc::default()).expect("a fabric");
        let tables = in_force(&f, true);
        let mut fake = FakeOpenSm::programmed(&tables.programmed);
        assert_eq!(rows(&fake, &tables), [(BETWEEN + 3, 0), (AT_ADAPTERS, 0)]);
        fake.set_row(node, 1, 5, SlVlRow(0));
        assert_eq!(rows(&fake, &tables)[0], (BETWEEN + 3, 1));
    }

    /// While tables from before are in force, packets from ports with other cables are dropped, and ports
    /// with other cables carry nothing.
    #[test]
    fn a_hold_drops_what_comes_by_other_cables() {
        let mut b = FabricBuilder::from_fabric(&chain(3));
        let [first, middle, last] = [0, 1, 2].map(|s| of(&chain(3), s).1);
        b.node_mut(middle).ports[3].untrusted = true;
        let f = b.finish(Lmc::default()).expect("a fabric");
        let mut tables = in_force(&f, true);
        let mut fake = FakeOpenSm::programmed(&tables.programmed);
        // The second cable of the last two switches now leads to the first one.
        fake.physp(middle, 3).p_remote_physp = fake.physp(first, 1);
        fake.physp(first, 1).p_remote_physp = fake.physp(middle, 3);
        fake.physp(last, 3).p_remote_physp = std::ptr::null_mut();
        let (held, _) = hold(&fake.host(), &tables.programmed).expect("memory");
        tables.hold = Some(held);
        for s in f.switch_ids() {
            fake.new_lft(s).copy_from_slice(&tables.programmed.routes.lft.row(s));
        }
        let drop = SlVlRow(u64::MAX);
        // Out of port 2 of the first switch, and out of ports 1 and 2 of the middle, from the new cable.
        for (node, out, inp) in [(first, 2, 1), (first, 4, 1), (middle, 1, 3), (middle, 2, 3)] {
            fake.set_row(node, out, inp, drop);
        }
        // First switch: 3 known in ports and the new one. Middle: 2 out ports, 3 in ports and the new one. Last: 1
        // out port, by which the switch still sends, from 4.
        let all = 4 + 2 * 4 + 4;
        let at_adapters = 4 + 4 + 2;
        assert_eq!(rows(&fake, &tables), [(all, 0), (at_adapters, 0)]);
        fake.set_row(middle, 1, 3, SlVlRow(0));
        fake.set_row(first, 4, 1, SlVlRow(0));
        assert_eq!(rows(&fake, &tables), [(all, 1), (at_adapters, 1)]);
    }

    #[test]
    fn blocks_that_differ_are_counted_and_three_switches_are_named() {
        let f = chain(5);
        let tables = in_force(&f, false);
        let mut fake = FakeOpenSm::programmed(&tables.programmed);
        let last = f.lid_table_len() - 1;
        assert!(last >= 64, "two blocks");
        fake.lft(SwitchId(0))[1] = 77;
        fake.lft(SwitchId(0))[last] = 77;
        let missing = |fake: &FakeOpenSm| recheck(&fake.host(), &tables).forwarding;
        let blocks = f.num_switches() * f.lid_table_len().div_ceil(64);
        let found = missing(&fake);
        assert_eq!((found.compared, found.missing, found.more), (blocks, 2, 0));
        assert_eq!(found.switches, [format!("2 of 'S0' ({})", of(&f, 0).2)]);
        assert!(found.in_words().ends_with(&format!("2 of 'S0' ({})", of(&f, 0).2)));
        for s in [1, 2, 3, 4] {
            fake.lft(SwitchId(s))[2] = 77;
        }
        let found = missing(&fake);
        assert_eq!((found.compared, found.missing, found.more), (blocks, 6, 2));
        assert_eq!(found.switches.len(), 3);
        let text = found.in_words();
        assert!(text.starts_with(&format!("6 of {blocks} blocks of forwarding tables are not")), "{text}");
        assert!(text.ends_with("and 2 more switches"), "{text}");
        // A switch that is left out.
        fake.node(of(&f, 4).1).node_info.node_guid = 0x999_u64.to_be();
        let each = f.lid_table_len().div_ceil(64);
        assert_eq!((missing(&fake).compared, missing(&fake).missing), (blocks - each, 5));
    }

    #[test]
    fn no_block_lies_beyond_the_largest_lid_or_without_a_table() {
        let f = chain(3);
        let tables = in_force(&f, false);
        let damaged = |change: &dyn Fn(&mut abi::osm_switch_t)| {
            let mut fake = FakeOpenSm::programmed(&tables.programmed);
            let last = f.lid_table_len() - 1;
            fake.lft(SwitchId(1))[last] = 77;
            change(fake.switch(SwitchId(1)));
            blocks(fake.switch(SwitchId(1)))
        };
        let count = f.lid_table_len().div_ceil(64);
        assert_eq!(damaged(&|_| ()), (count, 1));
        assert_eq!(damaged(&|switch| switch.max_lid_ho -= 1).1, 0);
        assert_eq!(damaged(&|switch| switch.lft_size -= 1).1, 0);
        assert_eq!(damaged(&|switch| switch.lft = std::ptr::null_mut()), (0, 0));
        assert_eq!(damaged(&|switch| switch.new_lft = std::ptr::null_mut()), (0, 0));
    }

    #[test]
    fn a_low_top_is_named_unless_it_is_known() {
        let f = chain(3);
        let mut tables = in_force(&f, false);
        let mut fake = FakeOpenSm::programmed(&tables.programmed);
        let (s, node, guid) = of(&f, 1);
        let largest = fake.switch(s).max_lid_ho;
        assert_eq!(short_top(fake.switch(s)), None);
        fake.switch(s).switch_info.lin_top = (largest + 1).to_be();
        assert_eq!(short_top(fake.switch(s)), None);
        fake.switch(s).switch_info.lin_top = (largest - 1).to_be();
        assert_eq!(short_top(fake.switch(s)), Some((largest - 1, largest)));
        let text = format!("LinearFDBTop of 'S1' ({guid}) is {}, and LIDs go up to {largest}", largest - 1);
        assert_eq!(recheck(&fake.host(), &tables).short_tops, [text]);
        tables.faults.insert((guid, Fault::Top));
        assert!(recheck(&fake.host(), &tables).short_tops.is_empty());
        tables.faults.clear();
        fake.node(node).node_info.node_guid = 0x999_u64.to_be();
        assert!(recheck(&fake.host(), &tables).short_tops.is_empty());
    }

    #[test]
    fn ports_that_do_not_serve_a_vl_in_use_are_named() {
        let f = chain(3);
        let tables = in_force(&f, false);
        let with = |vls| {
            let mut routes = tables.programmed.routes.clone();
            routes.vlarb = VlArb::fair(vls);
            let programmed = std::sync::Arc::new(Programmed::new(f.clone(), routes));
            InForce { programmed, faults: Default::default(), hold: None }
        };
        let mut fake = FakeOpenSm::programmed(&tables.programmed);
        let (_, node, guid) = of(&f, 1);
        let (_, channel) = f.channels().out(SwitchId::at(1)).next().expect("a channel");
        let port = channel.out_port.0;
        // Without room for weights there are none.
        assert_eq!(recheck(&fake.host(), &with(2)).arbitration, Arbitration::default());
        fake.physp(node, port).port_info.vl_arb_low_cap = 8;
        let vl = |fake: &mut FakeOpenSm, block: usize, i: usize, vl, weight| {
            let entry = &mut fake.physp(node, port).vl_arb[block].vl_entry[i];
            (entry.vl, entry.weight) = (vl, weight);
        };
        vl(&mut fake, 0, 0, 0, 64);
        vl(&mut fake, 0, 1, 1, 0);
        assert_eq!(recheck(&fake.host(), &with(1)).arbitration, Arbitration::default());
        let found = recheck(&fake.host(), &with(2)).arbitration;
        let text = format!(
            "ports between switches that do not serve all VLs in use: 1, first 'S1' ({guid}) port {port}: VL 1"
        );
        assert!(found.lacking == 1 && found.in_words().starts_with(&text), "{}", found.in_words());
        // The high table serves as well; what has no room is not asked for.
        vl(&mut fake, 2, 3, 1, 1);
        assert_eq!(recheck(&fake.host(), &with(2)).arbitration, Arbitration::default());
        assert_eq!(recheck(&fake.host(), &with(3)).arbitration.lacking, 1);
        fake.physp(node, port).port_info.vl_arb_low_cap = 2;
        assert_eq!(recheck(&fake.host(), &with(3)).arbitration, Arbitration::default());
    }

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
