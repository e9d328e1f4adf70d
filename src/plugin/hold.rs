//! Tables from before stay in force while the fabric cannot be routed.
//!
//! OpenSM empties `new_lft` of every switch before it asks its engines, and its SA answers by `new_lft`. When
//! every engine fails it sends nothing: switches forward as before, but no PathRecord is answered, links
//! that came up stay down, and the next member of a multicast group that comes or goes has the group's
//! tree built anew by OpenSM, without hop counts, which fails and clears the group. So where no other engine
//! is to take over, dfdn does not fail: it hands OpenSM the tables that it handed out last, without what no
//! longer holds, and the sweep goes on.
//!
//! What stays of them, by GUIDs and ports, looked up anew in each sweep, so that what was gone and came back
//! counts again:
//!
//! - The entry of a switch for a LID, if the end port of the LID still has it and is where it was, and the
//!   entry's out port still leads to the port that it led to.
//! - The SL2VL row of a turn, but that of an in port whose cable leads elsewhere now: packets that come in
//!   there are dropped (VL 15).
//! - SLs as they were told, and the multicast trees, less what is gone.
//!
//! Nothing has to be proven again. The tables were found free of credit loops with packets from every end
//! port to every LID. Each dependency between two virtual channels comes from an entry and a row for which
//! a packet takes both. Fewer entries over channels that are the same cables, with the same rows, make a
//! subgraph of an acyclic graph; and nobody injects who did not when it was proven: packets of a new or
//! moved neighbour are dropped at the first switch. For the same reason a new node has no route, and no
//! route leads to it, until the fabric can be routed again. The tests judge restricted tables all the same.

use super::abi;
use super::cables;
use super::distrust::Faults;
use super::host::{self, Host};
use crate::fabric::{EndPort, Guid, Lid, PortNum, SwitchId};
use crate::tables::{Lft, PortSet, Programmed, SlVlRow};

/// The row of packets that are to be dropped. OpenSM leaves VL 15 as it is, and its SA answers no query whose
/// path has such a row.
const DROP: SlVlRow = SlVlRow(u64::MAX);

/// The tables in force: those that were handed out last, and what a hold makes of them.
#[derive(Debug)]
pub(super) struct InForce {
    /// The tables as they were proven.
    pub(super) programmed: std::sync::Arc<Programmed>,
    /// The faults that they heed.
    pub(super) faults: Faults,
    /// What of them is not in use; `None` if the fabric was routed in the last sweep.
    pub(super) hold: Option<Hold>,
}

/// What still holds of tables.
#[derive(Debug)]
pub(super) struct Hold {
    /// By switch: ports whose cables lead where they led; none of a switch that is gone.
    kept: Vec<PortSet>,
    /// By switch: ports with cables that lead elsewhere. What comes in there is dropped.
    strange: Vec<PortSet>,
}

/// What a hold comes to, in numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Table entries that stay.
    pub(super) kept: usize,
    /// Those that lead nowhere now.
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

    /// Ports of a switch from which packets are dropped.
    pub(super) fn strange(&self, switch: SwitchId) -> PortSet {
        self.hold.as_ref().map_or_else(PortSet::default, |hold| hold.strange[switch.index()])
    }
}

impl Extent {
    /// In one sentence.
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

/// Writes what still holds of tables into OpenSM's, over whatever is there.
///
/// Cost: O(S x LIDs) bytes written once, in the calling thread, with S switches. It allocates 72 bytes a
/// switch and a bit a LID, so that it serves where memory ran out.
///
/// # Errors
/// No memory for that.
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

/// Ports whose cables lead where they led, and those whose cables lead elsewhere. Port 0 leads to the
/// switch itself.
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
        // A cable that was there but not in use, as its link was down, was not part of the proof.
        let used = fabric.channels().at_port(s, port).is_some()
            || fabric.endports_on(s).iter().any(|&e| fabric.endport(e).attachment == Some((s, port)));
        if same && used { kept.insert(port) } else { strange.insert(port) }
    }
    (kept, strange)
}

/// The first LID that an end port has now, and how many; `None` if it is not where it was.
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

/// End ports of a node that have a LID and were not routed with it.
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

/// Empties a table of OpenSM's, of which an error may have left a part.
fn clear(switch: &abi::osm_switch_t) {
    if !switch.new_lft.is_null() {
        // SAFETY: `new_lft` has `lft_size` bytes; OpenSM holds its lock exclusively around engines.
        unsafe { switch.new_lft.write_bytes(Lft::NO_PATH, usize::from(switch.lft_size)) };
    }
}

/// Writes an entry; false where the table is too short.
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

/// Lets OpenSM's SA answer by what the switches acknowledged, where nothing will be sent in this sweep. It
/// follows a path entry by entry over the cables as they are, and tells none that does not arrive.
pub(super) fn answer_by_acknowledged(host: &Host) {
    for switch in host.switches().filter(|switch| !switch.new_lft.is_null() && !switch.lft.is_null()) {
        for lid in 0..usize::from(switch.lft_size) {
            // SAFETY: both tables have `lft_size` bytes.
            let from = unsafe { switch.lft.add(lid) };
            // SAFETY: as above.
            let port = unsafe { from.read() };
            // SAFETY: as above.
            let to = unsafe { switch.new_lft.add(lid) };
            // The SA looks ports up without a check.
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
