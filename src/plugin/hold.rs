//! Tables from before stay in force while the fabric cannot be routed.
//!
//! OpenSM empties `new_lft` of every switch before it asks its engines, and its SA answers from
//! `new_lft`. If every engine fails it sends nothing: switches forward as before, but no PathRecord
//! is answered and new links stay down. When a member of a multicast group joins or leaves, OpenSM
//! tries to build the group's tree itself, fails without hop counts, and clears the group. So if no
//! other engine is to take over, dfdn does not fail: it gives OpenSM its last tables again, without
//! what is no longer valid, and the sweep continues.
//!
//! The valid part is determined again in each sweep, by GUIDs and ports, so that what was gone and has come
//! back is used again:
//!
//! - The entry of a switch for a LID, if the end port still has the LID and its place, and the
//!   entry's out port still leads to the same port.
//! - The SL2VL row of a turn, unless the cable at the in port leads elsewhere now: packets that
//!   arrive there are dropped (VL 15).
//! - SLs as they were assigned, and the multicast trees, without what is gone.
//!
//! Nothing has to be proven again. The tables were found free of credit loops with packets from
//! every end port to every LID. Each dependency between two virtual channels comes from an entry
//! and a row that some packet uses. Fewer entries over the same cables, with the same rows, make a
//! subgraph of an acyclic graph. There are no new senders either: packets of a new or moved
//! neighbour are dropped at the first switch. For the same reason a new node has no route, and no
//! route leads to it, until the fabric can be routed again. The tests judge restricted tables
//! nevertheless.

use super::abi;
use super::cables;
use super::fault::Faults;
use super::host::{self, Host};
use crate::fabric::{EndPort, Guid, Lid, PortNum, SwitchId};
use crate::tables::{Lft, PortSet, Programmed, SlVlRow};

/// The row that drops packets. OpenSM does not change VL 15, and its SA answers no query whose path
/// has such a row.
const DROP: SlVlRow = SlVlRow(u64::MAX);

/// The tables in force: the last ones given to OpenSM, and what a hold leaves of them.
#[derive(Debug)]
pub(super) struct InForce {
    /// The tables as they were proven.
    pub(super) programmed: std::sync::Arc<Programmed>,
    /// The faults that the tables take into account.
    pub(super) faults: Faults,
    /// The part that is not in use; `None` if the fabric was routed in the last sweep.
    pub(super) hold: Option<Hold>,
}

/// The part of the tables that is still valid.
#[derive(Debug)]
pub(super) struct Hold {
    /// By switch: ports whose cables lead where they led; none if the switch is gone.
    kept: Vec<PortSet>,
    /// By switch: ports whose cables lead elsewhere. Packets that arrive there are dropped.
    strange: Vec<PortSet>,
}

/// The size of a hold.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Table entries kept.
    pub(super) kept: usize,
    /// Table entries that were dropped.
    pub(super) dropped: usize,
    /// LIDs whose end port is gone, or has moved.
    pub(super) gone: usize,
    /// End ports that are new, or have moved.
    pub(super) new: usize,
}

impl InForce {
    /// The row for a turn; `None` for ports that the switch did not have.
    pub(super) fn row(&self, switch: SwitchId, in_port: u8, out_port: u8) -> Option<SlVlRow> {
        let strange = |hold: &Hold| hold.strange[switch.index()].contains(PortNum(in_port));
        if self.hold.as_ref().is_some_and(strange) {
            return Some(DROP);
        }
        self.programmed.row(switch, in_port, out_port)
    }

    /// Whether a port is used as it was when the fabric was routed.
    pub(super) fn uses(&self, switch: SwitchId, port: PortNum) -> bool {
        self.hold.as_ref().is_none_or(|hold| hold.kept[switch.index()].contains(port))
    }

    /// Ports of a switch whose incoming packets are dropped.
    pub(super) fn strange(&self, switch: SwitchId) -> PortSet {
        self.hold.as_ref().map_or_else(PortSet::default, |hold| hold.strange[switch.index()])
    }
}

impl Extent {
    /// As one sentence.
    pub(super) fn in_words(&self) -> String {
        let Self { kept, dropped, gone, new } = self;
        let mut text = format!("{kept} table entries stay");
        if *dropped + *gone > 0 {
            text += &format!(", {dropped} lead nowhere now ({gone} LIDs are gone or have moved)");
        }
        if *new > 0 {
            text += &format!("; {new} end ports are new or have moved and have NO ROUTE");
        }
        text
    }
}

/// Writes the valid part of the tables into OpenSM's, over any content.
///
/// Cost: O(S x LIDs) bytes written once, in the calling thread, with S switches. It allocates only
/// 72 bytes per switch and a bit per LID, so it works even when memory ran out.
///
/// # Errors
/// Not enough memory for that.
pub(super) fn hold(host: &Host, programmed: &Programmed) -> Result<(Hold, Extent), String> {
    let fabric = &programmed.fabric;
    let no_memory = |_| "no memory to keep the tables from before".to_owned();
    let mut switches: Vec<Option<&abi::osm_switch_t>> = Vec::new();
    switches.try_reserve_exact(fabric.num_switches()).map_err(no_memory)?;
    switches.resize(fabric.num_switches(), None);
    for switch in host.switches() {
        clear(switch);
        // SAFETY: NULL or the node of the switch, which lives as long.
        let Some(node) = (unsafe { switch.p_node.as_ref() }) else { continue };
        if let Some(s) = programmed.switch(host::node_guid(node)) {
            switches[s.index()] = Some(switch);
        }
    }
    let (mut kept, mut strange) = (Vec::new(), Vec::new());
    for sets in [&mut kept, &mut strange] {
        sets.try_reserve_exact(fabric.num_switches()).map_err(no_memory)?;
    }
    for s in fabric.switch_ids() {
        let (same, other) = ports(programmed, s, switches[s.index()]);
        kept.push(same);
        strange.push(other);
    }
    let hold = Hold { kept, strange };
    let mut extent = Extent::default();
    let mut live: Vec<u64> = Vec::new();
    live.try_reserve_exact(fabric.lid_table_len().div_ceil(64)).map_err(no_memory)?;
    live.resize(fabric.lid_table_len().div_ceil(64), 0);
    for end in fabric.endports().iter().filter(|end| end.attachment.is_some()) {
        let now = lids_now(end, &switches, &hold);
        for lid in end.lids() {
            if now.is_some_and(|(first, count)| (first..first + count).contains(&u32::from(lid.get()))) {
                live[lid.index() / 64] |= 1 << (lid.index() % 64);
            } else {
                extent.gone += 1;
            }
        }
    }
    let is_live = |lid: Lid| live[lid.index() / 64] & 1 << (lid.index() % 64) != 0;
    for lid in (0..fabric.lid_table_len()).filter_map(|lid| Lid::new(lid as u16)) {
        let column = programmed.routes.lft.to(lid);
        for (s, &port) in column.iter().enumerate().filter(|&(_, &port)| port != Lft::NO_PATH) {
            let switch = switches[s].filter(|_| is_live(lid) && hold.kept[s].contains(PortNum(port)));
            if switch.is_some_and(|switch| write(switch, lid, port)) {
                extent.kept += 1;
            } else {
                extent.dropped += 1;
            }
        }
    }
    extent.new = host.nodes().map(|node| strangers(programmed, node)).sum();
    Ok((hold, extent))
}

/// Ports whose cables lead where they led, and ports whose cables lead elsewhere. Port 0 leads to
/// the switch itself.
fn ports(programmed: &Programmed, s: SwitchId, switch: Option<&abi::osm_switch_t>) -> (PortSet, PortSet) {
    let (mut kept, mut strange) = (PortSet::default(), PortSet::default());
    // SAFETY: NULL or the node of the switch, which lives as long.
    let Some(node) = switch.and_then(|switch| unsafe { switch.p_node.as_ref() }) else {
        return (kept, strange);
    };
    let fabric = &programmed.fabric;
    let before = &fabric.switch(s).ports;
    kept.insert(PortNum::ZERO);
    for number in 1..node.physp_tbl_size.min(255) as u8 {
        let port = PortNum(number);
        let Some((guid, remote)) = cables::peer(node, port) else { continue };
        let peer = before.get(port.index()).and_then(|port| port.peer);
        let same = peer.is_some_and(|p| p.port.0 == remote && fabric.node(p.node).guid == guid);
        // A cable whose link was down was not part of the proof.
        let used = fabric.channels().at_port(s, port).is_some()
            || fabric.endports_on(s).iter().any(|&e| fabric.endport(e).attachment == Some((s, port)));
        if same && used { kept.insert(port) } else { strange.insert(port) }
    }
    (kept, strange)
}

/// The first LID and the number of LIDs that an end port has now; `None` if it has moved.
fn lids_now(end: &EndPort, switches: &[Option<&abi::osm_switch_t>], hold: &Hold) -> Option<(u32, u32)> {
    let (s, port) = end.attachment?;
    // SAFETY: NULL or the node of the switch, which lives as long.
    let node = unsafe { switches[s.index()]?.p_node.as_ref() }?;
    let physp = host::physp(node, port.index())?;
    let own = if port == PortNum::ZERO { physp } else { host::remote(physp)? };
    let same = Guid(u64::from_be(own.port_guid)) == end.guid && hold.kept[s.index()].contains(port);
    // SAFETY: only reads the port's own PortInfo.
    let lmc = unsafe { abi::ib_port_info_get_lmc(&own.port_info) };
    same.then(|| (u32::from(u16::from_be(own.port_info.base_lid)), 1 << lmc))
}

/// End ports of a node that have a LID but were not routed with it.
fn strangers(programmed: &Programmed, node: &abi::osm_node_t) -> usize {
    let fabric = &programmed.fabric;
    let ports = if node.sw.is_null() { 1..node.physp_tbl_size as usize } else { 0..1 };
    let physps = ports.filter_map(|port| host::physp(node, port));
    let new = |physp: &&abi::osm_physp_t| {
        let Some(lid) = Lid::new(u16::from_be(physp.port_info.base_lid)) else { return false };
        let owner = (lid.index() < fabric.lid_table_len()).then(|| fabric.owner_of(lid)).flatten();
        owner.is_none_or(|e| fabric.endport(e).guid.0 != u64::from_be(physp.port_guid))
    };
    physps.filter(new).count()
}

/// Empties a table of OpenSM's that an error may have left partly written.
fn clear(switch: &abi::osm_switch_t) {
    if !switch.new_lft.is_null() {
        // SAFETY: `new_lft` has `lft_size` bytes; OpenSM holds its lock exclusively around engines.
        unsafe { switch.new_lft.write_bytes(Lft::NO_PATH, usize::from(switch.lft_size)) };
    }
}

/// Writes an entry; false if the table is too short.
fn write(switch: &abi::osm_switch_t, lid: Lid, port: u8) -> bool {
    let fits = !switch.new_lft.is_null()
        && lid.get() <= switch.max_lid_ho
        && lid.get() < switch.lft_size
        && port < switch.num_ports;
    if fits {
        // SAFETY: `new_lft` has `lft_size` bytes.
        let entry = unsafe { switch.new_lft.add(lid.index()) };
        // SAFETY: a byte of `new_lft`; OpenSM holds its lock exclusively around engines.
        unsafe { entry.write(port) };
    }
    fits
}

/// Makes OpenSM's SA answer from what the switches acknowledged, when nothing will be sent in this
/// sweep. The SA follows a path entry by entry over the cables as they are, and reports none that
/// does not arrive.
pub(super) fn answer_by_acknowledged(host: &Host) {
    for switch in host.switches().filter(|switch| !switch.new_lft.is_null() && !switch.lft.is_null()) {
        for lid in 0..usize::from(switch.lft_size) {
            // SAFETY: both tables have `lft_size` bytes.
            let from = unsafe { switch.lft.add(lid) };
            // SAFETY: as above.
            let port = unsafe { from.read() };
            // SAFETY: as above.
            let to = unsafe { switch.new_lft.add(lid) };
            // The SA looks up ports without a check.
            let port = if port < switch.num_ports { port } else { Lft::NO_PATH };
            // SAFETY: as above; OpenSM holds its lock exclusively around engines.
            unsafe { to.write(port) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Vl;

    #[test]
    fn packets_to_be_dropped_have_the_vl_that_drops() {
        assert_eq!(DROP, SlVlRow::uniform(Vl(15)));
    }

    #[test]
    fn what_is_lost_is_said() {
        let some = Extent { kept: 7, dropped: 2, gone: 1, new: 3 };
        let text = some.in_words();
        assert!(text.contains("7 table entries stay") && text.contains("3 end ports are new"), "{text}");
        assert_eq!(Extent { kept: 7, ..Extent::default() }.in_words(), "7 table entries stay");
    }
}
