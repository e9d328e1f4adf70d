//! The path of one pair, hop by hop.

use serde::Serialize;
use thiserror::Error;

use crate::fabric::{ChannelId, EndPort, EndPortId, Fabric, Guid, Lid};
use crate::tables::Routes;

/// One switch on a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// The switch.
    pub switch: String,
    /// The port by which packets arrive.
    pub in_port: u8,
    /// The port by which they leave; 0 if they are for the switch itself.
    pub out_port: u8,
    /// The VL on the link that they leave by.
    pub vl: u8,
}

/// Why there is no path.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PathError {
    /// A name of nothing.
    #[error("no end port of the fabric has the name, GUID or LID '{0}'")]
    Unknown(String),
    /// A name of several ports.
    #[error("'{name}' is the name of several end ports: use a LID, such as {lid}")]
    Ambiguous {
        /// The name.
        name: String,
        /// The LID of the first.
        lid: Lid,
    },
    /// The sender is not attached to a switch.
    #[error("{0} is not cabled to a switch")]
    Unattached(String),
    /// The tables lead elsewhere.
    #[error("it does not arrive: {reason}, after {hops} switches")]
    Lost {
        /// Why.
        reason: String,
        /// Switches on the way.
        hops: usize,
    },
}

/// A pair and its path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Path {
    /// The sender.
    pub from: String,
    /// Its base LID.
    pub slid: u16,
    /// The receiver.
    pub to: String,
    /// The LID that the path leads to.
    pub dlid: u16,
    /// The SL that the sender uses.
    pub sl: u8,
    /// The switches in order.
    pub hops: Vec<Hop>,
}

/// The path between two end ports, each given by the description or GUID of its node, its port GUID or one of its LIDs.
///
/// # Errors
/// [`PathError`].
///
/// Cost: O(end ports + hops).
pub fn path(fabric: &Fabric, routes: &Routes, from: &str, to: &str) -> Result<Path, PathError> {
    let (source, _) = find(fabric, from)?;
    let (target, dlid) = find(fabric, to)?;
    let (from, to) = (fabric.endport(source), fabric.endport(target));
    let name = |end: &EndPort| format!("{} port {}", fabric.describe(end.node), end.port);
    let (mut at, mut in_port) = from.attachment.ok_or_else(|| PathError::Unattached(name(from)))?;
    let sl = routes.path_sl.get(fabric, source, dlid);
    let mut hops = Vec::new();
    loop {
        let lost = |reason: String| PathError::Lost { reason, hops: hops.len() };
        let switch = fabric.describe_switch(at);
        if hops.len() > fabric.num_switches() {
            return Err(lost(format!("it loops through {switch}")));
        }
        let Some(out_port) = routes.lft.get(at, dlid) else {
            return Err(lost(format!("{switch} has no entry for LID {dlid}")));
        };
        let ports = &fabric.switch(at).ports;
        if out_port.index() >= ports.len() {
            return Err(lost(format!("{switch} has no port {out_port}")));
        }
        let vl = routes.sl2vl.row(at, in_port, out_port).get(sl).0;
        let home = to.attachment == Some((at, out_port));
        let channel: Option<ChannelId> = fabric.channels().at_port(at, out_port);
        if !home && channel.is_none() {
            return Err(lost(format!("{switch} sends it out of port {out_port}, which leads elsewhere")));
        }
        hops.push(Hop { switch, in_port: in_port.0, out_port: out_port.0, vl });
        match channel.filter(|_| !home) {
            Some(channel) => {
                let c = fabric.channels().get(channel);
                (at, in_port) = (c.to, c.in_port);
            }
            None => break,
        }
    }
    Ok(Path { from: name(from), slid: from.lid.get(), to: name(to), dlid: dlid.get(), sl: sl.0, hops })
}

/// The end port of a name, and the LID that it names.
fn find(fabric: &Fabric, name: &str) -> Result<(EndPortId, Lid), PathError> {
    let ends = || fabric.endports().iter().zip((0..).map(EndPortId));
    if let Some(lid) = name.parse().ok().and_then(Lid::new) {
        if let Some(owner) = fabric.owner_of(lid) {
            return Ok((owner, lid));
        }
    }
    let hex = name.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()).map(Guid);
    let is = |end: &EndPort| {
        let node = fabric.node(end.node);
        node.description == name || hex.is_some_and(|guid| guid == node.guid || guid == end.guid)
    };
    // A port GUID may be a node GUID too: the port is meant then.
    let mut exact = ends().filter(|(end, _)| hex == Some(end.guid));
    if let (Some((end, id)), None) = (exact.next(), exact.next()) {
        return Ok((id, end.lid));
    }
    let mut found = ends().filter(|(end, _)| is(end));
    match (found.next(), found.next()) {
        (Some((end, id)), None) => Ok((id, end.lid)),
        (Some((end, _)), Some(_)) => Err(PathError::Ambiguous { name: name.to_owned(), lid: end.lid }),
        (None, _) => Err(PathError::Unknown(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Settings, route};
    use crate::topology::Ring;

    #[test]
    fn a_path_is_followed_and_names_are_found() {
        let fabric = Ring { switches: 5, cas: 1 }.build().unwrap();
        let routes = route(&fabric, &Settings::default()).unwrap().routes;
        let found = path(&fabric, &routes, "sw-0-ca-1", "sw-2-ca-1").unwrap();
        assert_eq!(found.hops.len(), 3);
        assert!(found.hops[0].switch.contains("sw-0") && found.hops[2].switch.contains("sw-2"));
        assert_eq!((found.hops[0].in_port, found.hops[2].out_port), (1, 1));
        let same = path(&fabric, &routes, &found.slid.to_string(), &found.dlid.to_string()).unwrap();
        assert_eq!(same, found);
        let to_switch = path(&fabric, &routes, "sw-0-ca-1", "sw-1").unwrap();
        assert_eq!(to_switch.hops.last().unwrap().out_port, 0);
        assert!(matches!(path(&fabric, &routes, "nobody", "sw-1"), Err(PathError::Unknown(_))));
        let mut broken = routes.clone();
        let lid = Lid::new(found.dlid).unwrap();
        fabric.switch_ids().for_each(|s| broken.lft.clear(s, lid));
        let error = path(&fabric, &broken, "sw-0-ca-1", "sw-2-ca-1").unwrap_err();
        assert!(error.to_string().contains("has no entry"), "{error}");
    }
}
