//! What switches hold at one moment, and the change from one set of tables to another.

use std::collections::{BTreeMap, HashMap};

use super::{Lft, McastGroup, PathSl, PortSet, Routes, Sl2Vl, SlVlRow};
use crate::fabric::{EndPortId, Fabric, Guid, Lid, PortNum, SwitchId};

/// What the switches of a fabric hold at one moment.
///
/// The tables need not be made for that fabric: entries may name LIDs that have no owner any more and ports
/// without a cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// Out port by switch and LID; at least [`Fabric::lid_table_len`] LIDs.
    pub lft: Lft,
    /// VL by switch, in port, out port and SL.
    pub sl2vl: Sl2Vl,
    /// Multicast trees by ascending MLID, without those that have no ports.
    pub multicast: Vec<McastGroup>,
}

impl InForce {
    /// Tables on the fabric that they were made for.
    ///
    /// - `lids`: number of LIDs of the table, LID 0 included; the further ones have no entry.
    fn of(routes: &Routes, lids: usize) -> Self {
        let mut multicast = routes.multicast.clone();
        multicast.retain(|group| !group.ports.is_empty());
        multicast.sort_by_key(|group| group.mlid);
        Self { lft: routes.lft.with_room(lids), sl2vl: routes.sl2vl.clone(), multicast }
    }

    /// The tables on the way to `target`: entries, rows and trees are those in force, the rest is that of the target.
    /// LIDs that the target does not have are left out.
    ///
    /// Cost: a copy of the tables.
    pub fn tables(&self, target: &Routes) -> Routes {
        let mut lft = target.lft.clone();
        for lid in all_lids(lft.lids()) {
            lft.to_mut(lid).copy_from_slice(self.lft.to(lid));
        }
        let mut sl2vl = self.sl2vl.clone();
        sl2vl.set_adapters(target.sl2vl.adapters());
        let sls =
            |mlid: u16| target.multicast.iter().find(|group| group.mlid == mlid).and_then(|group| group.sls);
        let groups = self.multicast.iter().map(|group| McastGroup { sls: sls(group.mlid), ..group.clone() });
        Routes { lft, sl2vl, multicast: groups.collect(), port_sets: None, ..target.clone() }
    }
}

/// The SLs with which packets may travel, bit `n` = SL `n`, over all tables that senders may have been told
/// about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SenderSls {
    /// The same set for every pair.
    Same(u16),
    /// By LID.
    ByLid(Vec<u16>),
    /// By LID and source switch: LIDs x switches, destination-major as [`Lft`].
    BySwitch(Vec<u16>),
    /// By LID and source end port: LIDs x end ports.
    ByEndPort(Vec<u16>),
}

impl SenderSls {
    /// The SLs of a sender to a LID.
    pub fn of(&self, fabric: &Fabric, source: EndPortId, dlid: Lid) -> u16 {
        match self {
            Self::Same(set) => *set,
            Self::ByLid(table) => table[dlid.index()],
            Self::BySwitch(table) => fabric
                .endport(source)
                .attachment
                .map_or(0, |(s, _)| table[dlid.index() * fabric.num_switches() + s.index()]),
            Self::ByEndPort(table) => table[dlid.index() * fabric.endports().len() + source.index()],
        }
    }
}

/// The change from some tables to others, both on the fabric of the others.
///
/// Switches and end ports are matched by GUID, ports by number. A channel that the new fabric does not have
/// is dead: its entries stay, and packets that follow them are dropped. A switch that the old fabric does not have
/// holds no entries.
///
/// Rows of ports without a cable are taken to be new already, as no packet uses them. So are rows of ports that had
/// none in the old fabric: a subnet manager activates a link after all switches have acknowledged what it sent, and
/// before that no data packet passes. So the first step has to program these rows.
#[derive(Clone, Debug)]
pub struct Transition {
    /// What the switches hold before.
    pub old: InForce,
    /// What they shall hold.
    pub new: InForce,
    /// The SLs of packets under way: those that either tables state for the pair.
    pub sls: SenderSls,
    /// LIDs that belong to other ports than before.
    pub moved_lids: Vec<Lid>,
    /// (switch, port) without the cable that it had.
    pub failed: Vec<(Guid, u8)>,
    /// (switch, port) with a cable that it did not have.
    pub returned: Vec<(Guid, u8)>,
    /// Rows of these ports that differ: (switch, in port, out port, new row).
    pub opened: Vec<(Guid, u8, u8, SlVlRow)>,
    /// The SLs of the old and of the new tables each of which serves every pair.
    pub any_sls: [Option<u16>; 2],
}

impl Transition {
    /// The change from the tables of one fabric to those of another, or of the same.
    ///
    /// Cost: O(LIDs x switches) time and memory; O(LIDs x end ports) if SLs depend on the end port.
    ///
    /// # Panics
    /// If tables were made for another fabric than the one beside them.
    pub fn between(old_fabric: &Fabric, old: &Routes, new_fabric: &Fabric, new: &Routes) -> Self {
        let lids = old.lft.lids().max(new.lft.lids());
        let match_up = Matching::new(old_fabric, new_fabric);
        let sls = match_up.sls(&old.path_sl, &new.path_sl, lids);
        let any_sls = [old.path_sl.any(), new.path_sl.any()];
        let owner = |fabric: &Fabric, lid: Lid| fabric.owner_of(lid).map(|e| fabric.endport(e).guid);
        let moved = |lid: &Lid| match (owner(old_fabric, *lid), owner(new_fabric, *lid)) {
            (Some(a), Some(b)) => a != b,
            _ => false,
        };
        let (mut old, mut new) = (match_up.carry(old, lids), InForce::of(new, lids));
        either_sls(&mut old.multicast, &mut new.multicast);
        let opened = match_up.rows_without_cable(&new.sl2vl, &mut old.sl2vl);
        if old.sl2vl == new.sl2vl {
            // What shares its rows is compared at once.
            old.sl2vl = new.sl2vl.clone();
        }
        let (before, after) = (cables(old_fabric), cables(new_fabric));
        let without = |some: &[Cable], others: &[Cable]| {
            let mut others = others.iter().peekable();
            let gone = some.iter().filter(|cable| {
                while others.next_if(|other| other < cable).is_some() {}
                others.peek() != Some(cable)
            });
            gone.map(|(end, _)| *end).collect()
        };
        let moved_lids = all_lids(lids).filter(moved).collect();
        let (failed, returned) = (without(&before, &after), without(&after, &before));
        Self { old, new, sls, moved_lids, failed, returned, opened, any_sls }
    }
}

/// A (switch, port), and what is at the other end of its cable: a port of a switch, or an end port.
type Cable = ((Guid, u8), (Guid, u8));

/// The cables that carry packets, in order.
fn cables(fabric: &Fabric) -> Vec<Cable> {
    let end = |s: SwitchId, port: PortNum| (fabric.switch(s).guid, port.0);
    let channels = fabric.channels().as_slice().iter();
    let mut cables: Vec<Cable> = channels.map(|c| (end(c.from, c.out_port), end(c.to, c.in_port))).collect();
    let hosts = fabric.adapters().filter_map(|(_, host)| Some((host.attachment?, host.guid)));
    cables.extend(hosts.map(|((s, port), guid)| (end(s, port), (guid, 0))));
    cables.sort();
    cables
}

/// By switch and port, whether packets pass: port 0, and ports that something is attached to.
fn in_use(fabric: &Fabric) -> Vec<Vec<bool>> {
    let mut used: Vec<Vec<bool>> =
        fabric.switch_ids().map(|s| vec![false; fabric.channels().slots_of(s)]).collect();
    let of_ends = fabric.endports().iter().filter_map(|end| end.attachment);
    let of_channels = fabric.channels().as_slice().iter().map(|c| (c.from, c.out_port));
    of_ends.chain(of_channels).for_each(|(s, port)| used[s.index()][port.index()] = true);
    for (s, used) in fabric.switch_ids().zip(&mut used) {
        // Packets of switches that are left out may arrive by such a port.
        let untrusted = fabric.switch(s).ports.iter().map(|port| port.untrusted);
        used.iter_mut().zip(untrusted).for_each(|(used, untrusted)| *used |= untrusted);
        used[0] = true;
    }
    used
}

/// Gives a group the SLs that either state knows for it: its packets may have any of them.
fn either_sls(old: &mut [McastGroup], new: &mut [McastGroup]) {
    for group in new {
        for was in old.iter_mut().filter(|was| was.mlid == group.mlid) {
            if was.sls != group.sls {
                let both = was.sls.unwrap_or(1) | group.sls.unwrap_or(1);
                (was.sls, group.sls) = (Some(both), Some(both));
            }
        }
    }
}

/// The LIDs of a table of some length.
fn all_lids(len: usize) -> impl Iterator<Item = Lid> {
    (1..len.min(usize::from(Lid::MAX) + 1)).filter_map(|lid| Lid::new(lid as u16))
}

/// The switches and end ports of one fabric in another.
struct Matching<'a> {
    old: &'a Fabric,
    new: &'a Fabric,
    /// By switch of the new fabric.
    switch: Vec<Option<SwitchId>>,
}

impl<'a> Matching<'a> {
    fn new(old: &'a Fabric, new: &'a Fabric) -> Self {
        let known: HashMap<Guid, SwitchId> = old.switch_ids().map(|s| (old.switch(s).guid, s)).collect();
        let switch = new.switch_ids().map(|s| known.get(&new.switch(s).guid).copied()).collect();
        Self { old, new, switch }
    }

    /// The old tables on the new fabric.
    fn carry(&self, routes: &Routes, lids: usize) -> InForce {
        let pairs = || self.new.switch_ids().filter_map(|s| Some((s, self.switch[s.index()]?)));
        let lft = if self.switch.iter().copied().eq(self.old.switch_ids().map(Some)) {
            routes.lft.with_room(lids)
        } else {
            let mut lft = Lft::with_lids(self.new, lids);
            for lid in all_lids(routes.lft.lids()) {
                let (from, to) = (routes.lft.to(lid), lft.to_mut(lid));
                pairs().for_each(|(s, was)| to[s.index()] = from[was.index()]);
            }
            lft
        };
        let mut sl2vl = Sl2Vl::new(self.new);
        sl2vl.set_adapters(routes.sl2vl.adapters());
        for (s, was) in pairs() {
            if sl2vl.ports_of(s) == routes.sl2vl.ports_of(was) {
                sl2vl.of_mut(s).copy_from_slice(routes.sl2vl.of(was));
                continue;
            }
            let ports = sl2vl.ports_of(s).min(routes.sl2vl.ports_of(was)) as u8;
            for (i, o) in (0..ports).flat_map(|i| (0..ports).map(move |o| (PortNum(i), PortNum(o)))) {
                sl2vl.set(s, i, o, routes.sl2vl.row(was, i, o));
            }
        }
        let mut multicast: Vec<McastGroup> = routes
            .multicast
            .iter()
            .map(|group| McastGroup {
                ports: pairs()
                    .map(|(s, was)| (s, group.at(was)))
                    .filter(|(_, set)| *set != PortSet::default())
                    .collect(),
                ..group.clone()
            })
            .collect();
        multicast.retain(|group| !group.ports.is_empty());
        multicast.sort_by_key(|group| group.mlid);
        InForce { lft, sl2vl, multicast }
    }

    /// Makes the rows of ports that nothing is, or was, attached to those of the new tables. Returns those of ports
    /// that are attached now and differ.
    fn rows_without_cable(&self, new: &Sl2Vl, old: &mut Sl2Vl) -> Vec<(Guid, u8, u8, SlVlRow)> {
        let (were, are) = (in_use(self.old), in_use(self.new));
        let mut opened = Vec::new();
        for s in self.new.switch_ids() {
            let was = self.switch[s.index()].map_or(&[][..], |was| &were[was.index()]);
            let of = |used: &[bool], port: u8| used.get(usize::from(port)).copied().unwrap_or(false);
            let both = |used: &[bool], i: u8, o: u8| of(used, i) && of(used, o);
            let ports = new.ports_of(s) as u8;
            let stays = |port: u8| of(&are[s.index()], port) && of(was, port);
            let changed: Vec<u8> = (0..ports).filter(|&port| !stays(port)).collect();
            // Rows between ports that are in use before and after stay as they are.
            let turns = (0..ports).flat_map(|i| {
                let outs = if stays(i) { changed.clone() } else { (0..ports).collect() };
                outs.into_iter().map(move |o| (i, o))
            });
            for (i, o) in turns {
                let (now, before) = (both(&are[s.index()], i, o), both(was, i, o));
                let row = new.row(s, PortNum(i), PortNum(o));
                if now && !before && old.row(s, PortNum(i), PortNum(o)) != row {
                    opened.push((self.new.switch(s).guid, i, o, row));
                }
                if !(now && before) {
                    old.set(s, PortNum(i), PortNum(o), row);
                }
            }
        }
        opened
    }

    /// The SLs that either tables allow.
    fn sls(&self, old: &PathSl, new: &PathSl, lids: usize) -> SenderSls {
        if let (Some(a), Some(b)) = (old.any(), new.any()) {
            return SenderSls::Same(a | b);
        }
        let owned = |fabric: &Fabric, lid: Lid| fabric.owner_of(lid).is_some();
        let allowed = |was: Option<EndPortId>, is: EndPortId, lid: Lid| {
            let of_old = was.filter(|_| owned(self.old, lid)).map_or(0, |e| old.allowed(self.old, e, lid));
            let of_new = if owned(self.new, lid) { new.allowed(self.new, is, lid) } else { 0 };
            of_old | of_new
        };
        if old.is_by_switch() && new.is_by_switch() {
            let mut table = vec![0; lids * self.new.num_switches()];
            for s in self.new.switch_ids() {
                let Some(&is) = self.new.endports_on(s).first() else { continue };
                let was = self.switch[s.index()].and_then(|s| self.old.endports_on(s).first().copied());
                for lid in all_lids(lids) {
                    table[lid.index() * self.new.num_switches() + s.index()] = allowed(was, is, lid);
                }
            }
            return SenderSls::BySwitch(table);
        }
        let ends = |fabric: &Fabric| {
            let ends = fabric.endports().iter().enumerate().filter(|(_, end)| end.attachment.is_some());
            ends.map(|(i, end)| (end.guid, EndPortId::at(i))).collect::<BTreeMap<_, _>>()
        };
        let (were, count) = (ends(self.old), self.new.endports().len());
        let mut table = vec![0; lids * count];
        for (guid, is) in ends(self.new) {
            for lid in all_lids(lids) {
                table[lid.index() * count + is.index()] = allowed(were.get(&guid).copied(), is, lid);
            }
        }
        SenderSls::ByEndPort(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{FabricBuilder, Lmc, PortRef, Sl, Vl};
    use crate::topology::Ring;

    /// Tables that differ in every entry and row.
    fn marked(fabric: &Fabric) -> Routes {
        let mut lft = Lft::new(fabric);
        for lid in all_lids(lft.lids()) {
            for (s, port) in lft.to_mut(lid).iter_mut().enumerate() {
                *port = (lid.index() * 7 + s) as u8 % 200;
            }
        }
        let mut routes = Routes::on_one_vl("test", fabric, lft);
        let rows = routes.sl2vl.rows_mut().iter_mut().enumerate();
        rows.for_each(|(i, row)| *row = SlVlRow::uniform(Vl(i as u8 % 15)));
        routes
    }

    #[test]
    fn tables_follow_their_switches_to_another_fabric() {
        let whole = Ring { switches: 6, cas: 1 }.build().unwrap();
        let gone = SwitchId::at(2);
        // The same without the cables of one switch, which leaves the others in another order.
        let mut builder = FabricBuilder::new();
        let mut place = HashMap::new();
        for (i, node) in whole.nodes().iter().enumerate() {
            if node.guid != whole.switch(gone).guid {
                let mut node = node.clone();
                node.ports.iter_mut().for_each(|p| p.peer = None);
                place.insert(i, builder.add(node).unwrap());
            }
        }
        for (i, node) in whole.nodes().iter().enumerate() {
            for (p, peer) in node.ports.iter().enumerate().filter_map(|(p, port)| Some((p, port.peer?))) {
                if let (Some(&a), Some(&b)) = (place.get(&i), place.get(&peer.node.index())) {
                    let end = PortRef { node: a, port: PortNum(p as u8) };
                    builder.connect(end, PortRef { node: b, port: peer.port }).unwrap();
                }
            }
        }
        let damaged = builder.finish(Lmc::default()).unwrap();
        assert_eq!(damaged.num_switches(), 5);
        let (old, new) = (marked(&whole), marked(&damaged));
        let t = Transition::between(&whole, &old, &damaged, &new);
        for s in damaged.switch_ids() {
            let was = SwitchId::at(s.index() + usize::from(s >= gone));
            for lid in all_lids(old.lft.lids()) {
                assert_eq!(t.old.lft.get(s, lid), old.lft.get(was, lid));
                assert_eq!(t.new.lft.get(s, lid), new.lft.get(s, lid));
            }
            // The neighbours of the switch that is gone have a port without a cable.
            for port in (0..3).map(PortNum) {
                let cabled = port.0 == 0 || damaged.switch(s).ports[port.index()].peer.is_some();
                let source =
                    if cabled { old.sl2vl.row(was, port, port) } else { new.sl2vl.row(s, port, port) };
                assert_eq!(t.old.sl2vl.row(s, port, port), source);
            }
        }
        // Each end of a cable at a switch, of the ring and of the adapter.
        let mut lost =
            vec![(whole.switch(gone).guid, 1), (whole.switch(gone).guid, 2), (whole.switch(gone).guid, 3)];
        lost.extend(damaged.switch_ids().flat_map(|s| {
            let ports = &damaged.switch(s).ports;
            let bare = (1..ports.len()).filter(|&p| ports[p].peer.is_none());
            bare.map(|p| (damaged.switch(s).guid, p as u8)).collect::<Vec<_>>()
        }));
        lost.sort_unstable();
        assert_eq!((&t.failed, lost.len()), (&lost, 5));
        assert!(t.returned.is_empty() && t.opened.is_empty());
        // And back: the switch that returns holds nothing.
        let back = Transition::between(&damaged, &new, &whole, &old);
        assert!(all_lids(old.lft.lids()).all(|lid| back.old.lft.get(gone, lid).is_none()));
        assert!(back.moved_lids.is_empty() && back.failed.is_empty());
        assert_eq!(back.returned, lost);
        // Nothing passes its ports before the first step has been acknowledged, so their rows are new already.
        assert!(back.opened.iter().any(|row| row.0 == whole.switch(gone).guid));
        for &(guid, i, o, row) in &back.opened {
            assert!(
                lost.contains(&(guid, i)) || lost.contains(&(guid, o)) || guid == whole.switch(gone).guid
            );
            let s = whole.switch_ids().find(|&s| whole.switch(s).guid == guid).unwrap();
            assert_eq!(
                (back.old.sl2vl.row(s, PortNum(i), PortNum(o)), row),
                (row, old.sl2vl.row(s, PortNum(i), PortNum(o)))
            );
        }
        let plan = crate::tables::Plan::between(&whole, &back, &[back.old.clone(), back.new.clone()]);
        assert!(back.opened.iter().all(|row| plan.steps[0].sl2vl.contains(row)));
    }

    #[test]
    fn senders_may_use_the_sls_of_either_tables() {
        let f = Ring { switches: 4, cas: 1 }.build().unwrap();
        let with = |path_sl| Routes { path_sl, ..marked(&f) };
        let between = |a, b| Transition::between(&f, &with(a), &f, &with(b)).sls;
        assert_eq!(between(PathSl::one(Sl(1)), PathSl::one(Sl(4))), SenderSls::Same(0b10010));
        let mut table = vec![3; f.num_switches() * f.lid_table_len()];
        let (source, dlid) = (EndPortId::at(0), f.endport(EndPortId::at(5)).lid);
        let s = f.endport(source).attachment.unwrap().0;
        table[dlid.index() * f.num_switches() + s.index()] = 7;
        let by_switch = between(PathSl::one(Sl(1)), PathSl::BySwitch(table));
        assert_eq!(by_switch.of(&f, source, dlid), 1 << 1 | 1 << 7);
        let by_end = vec![PathSl::UNKNOWN; f.endports().len() * f.lid_table_len()];
        assert_eq!(between(PathSl::one(Sl(1)), PathSl::ByEndPort(by_end)).of(&f, source, dlid), u16::MAX);
    }
}
