//! Held switches that hang off one neighbour: the rest of the fabric is routed without them, then they are added.
//!
//! A switch through which no path leads is to its neighbour what an adapter is. So each of its LIDs goes the way of
//! a LID on the neighbour, its *stand-in*, and then one hop further; what it sends goes the way of what the
//! neighbour's own adapters send. No channel depends on the links to such a switch, and they depend on none but each
//! other's ends, so there is no new credit loop; the judge checks that as all else.
//!
//! The paths of all others are as if the switch were gone. So nothing changes for them when it is switched off.

use std::time::Instant;

use super::{EngineError, Routed};
use crate::fabric::{
    Channel, EndPort, Fabric, FabricBuilder, HeldOut, Lid, Lmc, NodeId, PortNum, PortRef, SwitchId,
};
use crate::routing::Hops;
use crate::tables::{ClassSl, Lft, McastGroup, PathSl, PortSet, Routes, Sl2Vl};
use crate::verify::{sl_safety, verify};

/// Routes the fabric without its held leaves by `run`, and adds them. `None` where there are none, or where that does
/// not give safe tables.
///
/// Cost: that of `run`, of a judgement, and O(D S) with D LIDs and S switches.
///
/// # Errors
/// Those of the distances.
pub(super) fn route(
    held: &HeldOut,
    run: impl Fn(&Fabric) -> Result<Routed, EngineError>,
) -> Result<Option<Routed>, EngineError> {
    let fabric = &held.fabric;
    let leaves: Vec<SwitchId> = held.leaves.iter().copied().filter(|&s| is_apart(held, s)).collect();
    if leaves.is_empty() {
        return Ok(None);
    }
    let Some(core) = without(fabric, &leaves) else { return Ok(None) };
    let Ok(mut routed) = run(&core) else { return Ok(None) };
    let start = Instant::now();
    let Some(whole) = Whole::new(fabric, &core, &leaves) else { return Ok(None) };
    let Some(routes) = whole.routes(&routed.routes) else { return Ok(None) };
    routed.computing += start.elapsed();
    let start = Instant::now();
    let verdict = verify(fabric, &routes);
    let multicast = verdict.multicast.as_ref().is_none_or(|multicast| multicast.is_safe());
    if !verdict.is_safe() || !multicast || !verdict.vls_legal {
        return Ok(None);
    }
    routed.safety = sl_safety(fabric, &routes, &verdict);
    routed.judging += start.elapsed();
    (routed.routes, routed.verdict, routed.hops) = (routes, verdict, Hops::new(fabric)?);
    Ok(Some(routed))
}

/// Whether nothing hangs off a held leaf, and nobody else sends over it.
fn is_apart(held: &HeldOut, leaf: SwitchId) -> bool {
    let mut out = held.fabric.channels().out(leaf).map(|(_, channel)| channel.to);
    let trusted = held.fabric.switch(leaf).ports.iter().all(|port| !port.untrusted);
    trusted && out.len() > 0 && out.all(|to| !held.leaves.contains(&to))
}

/// The fabric without these switches and the adapters on them; `None` where nothing would be left.
fn without(fabric: &Fabric, leaves: &[SwitchId]) -> Option<Fabric> {
    let mut gone = vec![false; fabric.nodes().len()];
    for &leaf in leaves {
        gone[fabric.switch_node_id(leaf).index()] = true;
    }
    let attached = |node: NodeId| {
        let on = |peer: PortRef| !gone[peer.node.index()];
        fabric.switch_of(node).is_some()
            || fabric.node(node).ports.iter().filter_map(|port| port.peer).any(on)
    };
    let kept: Vec<NodeId> = (0..fabric.nodes().len() as u32)
        .map(NodeId)
        .filter(|&node| !gone[node.index()] && attached(node))
        .collect();
    let mut place = vec![None; gone.len()];
    kept.iter().zip(0..).for_each(|(old, new)| place[old.index()] = Some(NodeId(new)));
    let mut builder = FabricBuilder::new();
    for &node in &kept {
        let mut copy = fabric.node(node).clone();
        for port in &mut copy.ports {
            port.peer = port.peer.and_then(|peer| Some(PortRef { node: place[peer.node.index()]?, ..peer }));
        }
        builder.add(copy).ok()?;
    }
    builder.finish(Lmc::default()).ok().filter(|core| core.num_switches() > 0)
}

/// A leaf and what stands in for it.
struct Leaf<'a> {
    switch: SwitchId,
    /// Its links to the neighbour, seen from there.
    links: Vec<&'a Channel>,
    /// The neighbour in the core.
    neighbour: SwitchId,
    /// A port of the neighbour with an end port.
    port: PortNum,
    /// LIDs on the neighbour.
    lids: Vec<Lid>,
}

impl Leaf<'_> {
    /// What stands in for the `i`-th LID of the leaf.
    fn stand_in(&self, i: usize) -> Lid {
        self.lids[i % self.lids.len()]
    }

    fn link(&self, i: usize) -> &Channel {
        self.links[i % self.links.len()]
    }
}

struct Whole<'a> {
    fabric: &'a Fabric,
    core: &'a Fabric,
    /// By switch of the core: the same switch of the fabric.
    switches: Vec<SwitchId>,
    leaves: Vec<Leaf<'a>>,
    /// By LID of the fabric: itself, or its stand-in, or nothing.
    stand_ins: Vec<Option<Lid>>,
    /// By switch of the fabric: itself in the core, or its neighbour.
    sources: Vec<SwitchId>,
}

impl<'a> Whole<'a> {
    /// `None` where a neighbour has no end port.
    fn new(fabric: &'a Fabric, core: &'a Fabric, leaves: &[SwitchId]) -> Option<Self> {
        let mut sources = vec![SwitchId(0); fabric.num_switches()];
        let switches: Vec<SwitchId> = fabric.switch_ids().filter(|s| !leaves.contains(s)).collect();
        core.switch_ids().zip(&switches).for_each(|(inner, outer)| sources[outer.index()] = inner);
        let mut stand_ins: Vec<Option<Lid>> = vec![None; fabric.lid_table_len()];
        for lid in core.endports().iter().flat_map(EndPort::lids) {
            stand_ins[lid.index()] = Some(lid);
        }
        let mut found = Vec::new();
        for &switch in leaves {
            let links: Vec<&Channel> =
                fabric.channels().out(switch).map(|(_, c)| fabric.channels().get(c.reverse)).collect();
            let neighbour = sources[links.first()?.from.index()];
            let ends = core.endports_on(neighbour).iter().map(|&end| core.endport(end));
            let adapters: Vec<&EndPort> = ends.clone().filter(|end| end.is_adapter()).collect();
            let ends = if adapters.is_empty() { ends.collect() } else { adapters };
            let (_, port) = ends.first()?.attachment?;
            let leaf =
                Leaf { switch, links, neighbour, port, lids: ends.iter().flat_map(|e| e.lids()).collect() };
            for (i, (_, lid)) in lids_on(fabric, switch).enumerate() {
                stand_ins[lid.index()] = Some(leaf.stand_in(i));
            }
            sources[switch.index()] = neighbour;
            found.push(leaf);
        }
        Some(Self { fabric, core, switches, leaves: found, stand_ins, sources })
    }

    /// `None` for tables whose SLs are by end port.
    fn routes(&self, core: &Routes) -> Option<Routes> {
        Some(Routes {
            engine: core.engine.clone(),
            lft: self.lft(&core.lft),
            sl2vl: self.sl2vl(&core.sl2vl),
            path_sl: self.path_sl(&core.path_sl)?,
            vlarb: core.vlarb.clone(),
            multicast: core.multicast.iter().map(|group| self.group(group)).collect(),
            port_sets: None,
            remarks: core.remarks.clone(),
        })
    }

    fn lft(&self, core: &Lft) -> Lft {
        let mut lft = Lft::new(self.fabric);
        for lid in self.fabric.endports().iter().flat_map(EndPort::lids) {
            let Some(stand_in) = self.stand_ins[lid.index()] else { continue };
            let (from, to) = (core.to(stand_in), lft.to_mut(lid));
            for (outer, &port) in self.switches.iter().zip(from) {
                to[outer.index()] = port;
            }
            for leaf in &self.leaves {
                to[leaf.switch.index()] = leaf.link(lid.index()).in_port.0;
            }
        }
        for leaf in &self.leaves {
            for (i, (port, lid)) in lids_on(self.fabric, leaf.switch).enumerate() {
                lft.set(self.switches[leaf.neighbour.index()], lid, leaf.link(i).out_port);
                lft.set(leaf.switch, lid, port);
            }
        }
        lft
    }

    fn sl2vl(&self, core: &Sl2Vl) -> Sl2Vl {
        let mut rows = Sl2Vl::new(self.fabric);
        rows.set_adapters(core.adapters());
        let ports = |switch| (0..core.ports_of(switch)).map(|port| PortNum(port as u8));
        for (inner, &outer) in self.core.switch_ids().zip(&self.switches) {
            let links = self.leaves.iter().filter(|leaf| leaf.neighbour == inner);
            let to_leaves: Vec<(PortNum, PortNum)> =
                links.flat_map(|leaf| leaf.links.iter().map(|c| (c.out_port, leaf.port))).collect();
            let like =
                |port: PortNum| to_leaves.iter().find(|(at, _)| *at == port).map_or(port, |(_, like)| *like);
            for in_port in ports(inner) {
                for out_port in ports(inner) {
                    rows.set(outer, in_port, out_port, core.row(inner, like(in_port), like(out_port)));
                }
            }
        }
        for leaf in &self.leaves {
            let row = core.row(leaf.neighbour, leaf.port, leaf.port);
            for in_port in 0..rows.ports_of(leaf.switch) {
                for out_port in 0..rows.ports_of(leaf.switch) {
                    rows.set(leaf.switch, PortNum(in_port as u8), PortNum(out_port as u8), row);
                }
            }
        }
        rows
    }

    fn path_sl(&self, core: &PathSl) -> Option<PathSl> {
        Some(match core {
            PathSl::Any(set) => PathSl::Any(*set),
            PathSl::ByEndPort(_) => return None,
            PathSl::BySwitch(table) => {
                let mut all = Vec::with_capacity(self.stand_ins.len() * self.sources.len());
                for stand_in in &self.stand_ins {
                    let row = stand_in.map(|lid| &table[lid.index() * self.core.num_switches()..]);
                    all.extend(self.sources.iter().map(|source| row.map_or(0, |row| row[source.index()])));
                }
                PathSl::BySwitch(all)
            }
            PathSl::BySwitchPair(pairs) => {
                let mut all = Vec::with_capacity(self.stand_ins.len() * self.sources.len());
                for stand_in in &self.stand_ins {
                    let row = stand_in.map(|lid| pairs.to(lid));
                    all.extend(self.sources.iter().map(|source| row.map_or(0, |row| row[source.index()])));
                }
                PathSl::BySwitch(all)
            }
            PathSl::Classes(ClassSl { classes, own, vl_set_of }) => {
                let set =
                    |lid: &Option<Lid>| lid.and_then(|lid| vl_set_of.get(lid.index())).copied().unwrap_or(0);
                let sets =
                    if vl_set_of.is_empty() { Vec::new() } else { self.stand_ins.iter().map(set).collect() };
                let own = Box::new(self.path_sl(own)?);
                PathSl::Classes(ClassSl { classes: *classes, own, vl_set_of: sets })
            }
        })
    }

    fn group(&self, core: &McastGroup) -> McastGroup {
        let mut ports = vec![PortSet::default(); self.fabric.num_switches()];
        for &(switch, set) in &core.ports {
            ports[self.switches[switch.index()].index()] = set;
        }
        for leaf in &self.leaves {
            ports[self.switches[leaf.neighbour.index()].index()].insert(leaf.link(0).out_port);
            ports[leaf.switch.index()].insert(leaf.link(0).in_port);
            lids_on(self.fabric, leaf.switch).for_each(|(port, _)| ports[leaf.switch.index()].insert(port));
        }
        let ports = self.fabric.switch_ids().zip(ports).filter(|(_, set)| !set.is_empty()).collect();
        McastGroup { mlid: core.mlid, sls: core.sls, ports }
    }
}

/// The LIDs on a switch, each with the port to it.
fn lids_on(fabric: &Fabric, switch: SwitchId) -> impl Iterator<Item = (PortNum, Lid)> {
    let ends = fabric.endports_on(switch).iter().map(|&end| fabric.endport(end));
    ends.filter_map(|end| Some((end.attachment?.1, end)))
        .flat_map(|(port, end)| end.lids().map(move |lid| (port, lid)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Baseline, Lineage, Settings, parse_holds, route_after};
    use crate::fabric::hold_out;
    use crate::topology::small_members;

    /// Switches of every family, drained and then switched off: no path of others leads through them, and none changes.
    /// That is so with new tables, and with those that keep to a baseline.
    #[test]
    fn switching_a_drained_switch_off_changes_nothing_for_others() {
        let (mut drained, mut added, mut kept) = (0, 0, 0);
        for (name, fabric) in small_members() {
            let settings = Settings::default();
            let whole = route_after(&fabric, &settings, None).expect("it can be routed");
            let baseline = Baseline::new(&fabric, &settings, &whole);
            for number in [0, fabric.num_switches() / 2] {
                let switch = fabric.switch_ids().nth(number).expect("a switch");
                let entry = format!("drain {}", fabric.switch(switch).guid);
                let mut settings = Settings::default();
                settings.hold.entries = parse_holds(&entry, "a test").expect("an entry");
                let held = hold_out(fabric.clone(), &settings.hold).expect("it can be built");
                if !held.notes[0].done {
                    continue;
                }
                for baseline in [None, baseline.as_ref()] {
                    let routed = route_after(&fabric, &settings, baseline).expect("it can be routed");
                    assert!(verify(&held.fabric, &routed.routes).is_safe(), "{name}");
                    no_path_leads_through(&fabric, switch, &routed.routes, name);
                    kept += usize::from(matches!(routed.lineage, Lineage::Kept));
                    let one_sl = baseline.is_some() && whole.verdict.sls == 1;
                    assert!(routed.verdict.sls == 1 || !one_sl, "{name}");
                    drained += 1;
                    let Some(core) = without(&held.fabric, &[switch]) else { continue };
                    let off = route_after(&core, &settings, baseline).expect("it can be routed");
                    let others: Vec<SwitchId> = fabric.switch_ids().filter(|&s| s != switch).collect();
                    let same = core.endports().iter().flat_map(EndPort::lids).all(|lid| {
                        core.switch_ids().zip(&others).all(|(inner, &outer)| {
                            off.routes.lft.get(inner, lid) == routed.routes.lft.get(outer, lid)
                        })
                    });
                    let rows = core.switch_ids().zip(&others).all(|(inner, &outer)| {
                        let ports: Vec<PortNum> =
                            core.channels().out(inner).map(|(_, c)| c.out_port).collect();
                        ports.iter().all(|&a| {
                            ports.iter().all(|&b| {
                                off.routes.sl2vl.row(inner, a, b) == routed.routes.sl2vl.row(outer, a, b)
                            })
                        })
                    });
                    assert_eq!(same, rows, "{name}");
                    added += usize::from(same);
                }
            }
        }
        assert!(drained > 40 && added == drained, "{drained} drained, {added} without a change for others");
        assert!(kept > 10, "{kept}");
    }

    fn no_path_leads_through(fabric: &Fabric, switch: SwitchId, routes: &Routes, name: &str) {
        let own: Vec<Lid> = lids_on(fabric, switch).map(|(_, lid)| lid).collect();
        for s in fabric.switch_ids().filter(|&s| s != switch) {
            for lid in fabric.endports().iter().flat_map(EndPort::lids).filter(|lid| !own.contains(lid)) {
                let port = routes.lft.get(s, lid).expect("a path");
                let to = fabric.channels().at_port(s, port).map(|c| fabric.channels().get(c).to);
                assert!(to != Some(switch), "{name}: LID {lid} by way of the drained switch");
            }
        }
    }

    #[test]
    fn classes_and_several_sls_reach_the_leaf_as_well() {
        let fabric = crate::topology::Dragonfly::balanced(2).build().expect("a fabric");
        for text in
            ["classes 3", "spread yes", "prefer minimal\nvls 4", "engine dfdn-paper", "engine updn-trees"]
        {
            let mut settings = Settings::from_config(text).expect("settings");
            settings.hold.entries = parse_holds("drain sw-1-2", "a test").expect("an entry");
            let held = hold_out(fabric.clone(), &settings.hold).expect("it can be built");
            let run =
                |core: &Fabric| super::super::route(core, &Settings::from_config(text).expect("settings"));
            let routed = route(&held, run).expect("distances").expect("safe tables");
            assert!(verify(&held.fabric, &routed.routes).is_safe(), "{text}");
        }
    }
}
