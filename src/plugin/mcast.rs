//! Writes multicast groups into OpenSM's multicast forwarding tables. Each group uses the part
//! between its members of a tree that was proven with the unicast tables.
//!
//! OpenSM asks group by group, in sweeps and whenever a member joins or leaves, after removing the
//! group from all switches. Nothing is recomputed then: the tree belongs to the tables in force and
//! is looked up by GUID; switches and cables that are gone are left out.

use std::collections::{BTreeMap, HashMap};

use super::abi;
use super::cables;
use super::host::{self, Host};
use crate::fabric::{Guid, PortNum, Sl, SwitchId};
use crate::tables::PortSet;
use crate::tables::Programmed;

/// What happened to a group.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its table entries are written.
    Routed {
        /// Members that are connected.
        members: usize,
        /// Switches with entries.
        switches: usize,
        /// The first place where the subnet differs from what was routed, as text.
        gap: Option<String>,
    },
    /// No tree serves its SLs, so nothing was written.
    NotServed {
        /// The SLs, bit `n` = SL `n`.
        sls: u16,
    },
}

/// A group, or several that share a multicast LID.
struct Group {
    /// SLs, bit `n` = SL `n`.
    sls: u16,
    /// Members by port GUID: GUID of the switch, and its port to the member (0 for the switch
    /// itself); `None` for a member that is not cabled to a switch.
    members: BTreeMap<Guid, Option<(Guid, u8)>>,
}

/// Writes the entries of a group into OpenSM's tables.
///
/// Cost: O(S + members) with S switches.
pub(super) fn route(host: &Host, programmed: &Programmed, mbox: &abi::osm_mgrp_box_t) -> Outcome {
    let group = group(mbox);
    let trees = &programmed.routes.multicast;
    let serves = |tree: &&crate::tables::McastGroup| tree.sls.is_none_or(|sls| group.sls & !sls == 0);
    let Some(tree) = trees.iter().find(serves) else { return Outcome::NotServed { sls: group.sls } };
    if group.members.len() < 2 {
        return Outcome::Routed { members: group.members.len(), switches: 0, gap: None };
    }
    let mut gap = None;
    let fabric = &programmed.fabric;
    let mut members = Vec::with_capacity(group.members.len());
    for (guid, place) in &group.members {
        if programmed.is_left_out(*guid) {
            continue;
        }
        let known = place.and_then(|(s, port)| Some((programmed.switch(s)?, PortNum(port))));
        match known.filter(|&(s, port)| tree.at(s).contains(port)) {
            Some(member) => members.push(member),
            None => drop(
                gap.get_or_insert_with(|| format!("port {guid} did not exist when the fabric was routed")),
            ),
        }
    }
    members.sort_unstable();
    let mut switches = 0;
    let mut missing: HashMap<SwitchId, PortSet> = tree.pruned(fabric, &members).into_iter().collect();
    for pointer in host.switch_pointers() {
        // SAFETY: a switch of OpenSM's, which no thread writes to while this reference is in use.
        let Some(switch) = (unsafe { pointer.as_ref() }) else { continue };
        // SAFETY: NULL or the node of the switch, which lives as long.
        let Some(node) = (unsafe { switch.p_node.as_ref() }) else { continue };
        let Some(s) = programmed.switch(host::node_guid(node)) else { continue };
        let Some(set) = missing.remove(&s) else { continue };
        if switch.switch_info.mcast_cap == 0 {
            gap.get_or_insert_with(|| format!("{} does not support multicast", fabric.describe_switch(s)));
            continue;
        }
        switches += 1;
        for port in set.iter() {
            // Adapters may come and go.
            let to_switch = fabric.channels().at_port(s, port).is_some();
            if !to_switch || cables::lead_on(fabric, node, s, port) {
                if !write(host, pointer, mbox.mlid, port) {
                    gap.get_or_insert_with(|| {
                        format!("the table of {} is too short for this group", fabric.describe_switch(s))
                    });
                }
            } else {
                gap.get_or_insert_with(|| {
                    format!("{} port {port} no longer leads to the same port", fabric.describe_switch(s))
                });
            }
        }
    }
    if let Some(&s) = missing.keys().min() {
        gap.get_or_insert_with(|| format!("{} is gone", fabric.describe_switch(s)));
    }
    Outcome::Routed { members: members.len(), switches, gap }
}

/// Sets a bit of a switch's table; false if the table does not have it.
fn write(host: &Host, switch: *mut abi::osm_switch_t, mlid: u16, port: PortNum) -> bool {
    // SAFETY: address of a field of a live switch.
    let table = unsafe { &raw mut (*switch).mcast_tbl };
    // SAFETY: a field of the same.
    let masks = unsafe { (*table).p_mask_tbl };
    // SAFETY: a field of the same.
    let max_mlid = unsafe { (*table).max_mlid_ho };
    // SAFETY: a field of the live switch.
    let ports = unsafe { (*switch).num_ports };
    // In a release build the function checks nothing.
    let fits = !masks.is_null()
        && (crate::tables::McastGroup::FIRST_MLID..=max_mlid).contains(&mlid)
        && port.0 < ports;
    if fits {
        // SAFETY: the table has the group and the switch the port, see above; OpenSM's lock, held
        // exclusively around this callback, lets us write.
        unsafe { (host.functions().mcast_tbl_set)(table, mlid, port.0) };
    }
    fits
}

/// Reads a group.
fn group(mbox: &abi::osm_mgrp_box_t) -> Group {
    let mut group = Group { sls: 0, members: BTreeMap::new() };
    for mgrp in host::groups(mbox) {
        let sl = Sl((u32::from_be(mgrp.mcmember_rec.sl_flow_hop) >> 28) as u8);
        group.sls |= 1 << sl.0;
        for member in host::members(mgrp) {
            // SAFETY: NULL or the port of the member, which OpenSM holds as long as its membership.
            let Some(port) = (unsafe { member.port.as_ref() }) else { continue };
            let guid = Guid(u64::from_be(port.guid));
            group.members.insert(guid, place(port));
        }
    }
    group
}

/// The switch of a member and the switch's port to it.
fn place(port: &abi::osm_port_t) -> Option<(Guid, u8)> {
    // SAFETY: NULL or the node of the port.
    let node = unsafe { port.p_node.as_ref() }?;
    if !node.sw.is_null() {
        return Some((host::node_guid(node), 0));
    }
    // SAFETY: NULL or the physical port.
    let physp = unsafe { port.p_physp.as_ref() }?;
    let remote = host::remote(physp)?;
    let switch = host::node_of(remote)?;
    (!switch.sw.is_null()).then(|| (host::node_guid(switch), remote.port_num))
}
