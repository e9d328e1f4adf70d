//! Links between switches that operate fewer VLs than others.
//!
//! Tables on all links use only the VLs of the narrowest. That may cost detours, or need more VLs than there are.
//! So for each number of VLs that links operate, the fabric is routed without the links that operate fewer, and
//! the best tables are used. If narrow links are the only path to some switches, those between one pair of
//! switches stay for each such part; all traffic over them uses VL 0. A part of one switch is then attached to
//! one other switch, so no path leads through it and no credit loop over its links; for larger parts the judge
//! decides.
//!
//! What counts, in this order: whether no more adapter pairs take detours, measured with all links, than the
//! settings allow for one SL; where that holds, the effective bisection bandwidth; fewer detours; all links.

use std::collections::BTreeMap;

use petgraph::unionfind::UnionFind;

use super::dfdn::limit;
use super::{EngineError, Routed, Settings, by_name};
use crate::evaluate::quick_bisection;
use crate::fabric::{Channel, Fabric, FabricBuilder, LinkState, Lmc, PortNum, SwitchId, Vl};
use crate::routing::Hops;
use crate::tables::{Sl2Vl, SlVlRow};

/// How many links are named.
const NAMED: usize = 4;

/// Routes a fabric with all links or without the narrow ones.
///
/// - `run`: routes it over the links of its argument, which has the same nodes, ports and LIDs.
///
/// # Errors
/// Those of `run` with all links.
///
/// Cost: that of `run` for each number of VLs that links operate; once where the tables on all links have no
/// detours.
pub(super) fn route(
    fabric: &Fabric,
    settings: &Settings,
    run: impl Fn(&Fabric) -> Result<Routed, EngineError>,
) -> Result<Routed, EngineError> {
    let levels = levels(fabric, settings.vls);
    let (least, wider) = match levels.split_first() {
        Some((least, wider)) if !wider.is_empty() && by_name(&settings.engine)?.deadlock_free => {
            (*least, wider)
        }
        _ => return run(fabric),
    };
    let all = match run(fabric) {
        Ok(routed) => Ok(Candidate::new(fabric, settings, routed)),
        // Fewer links with more VLs may do.
        Err(error @ (EngineError::Lanes { .. } | EngineError::Classes { .. })) => Err(error),
        Err(error) => return Err(error),
    };
    let mut best: Option<(u8, Candidate)> = None;
    for &vls in wider.iter().filter(|_| !all.as_ref().is_ok_and(|all| all.detours == 0.0)) {
        let Ok(mut routed) = run(&without_narrow(fabric, vls)) else { continue };
        routed.hops = Hops::new(fabric)?;
        let found = Candidate::new(fabric, settings, routed);
        if best.as_ref().is_none_or(|(_, best)| found.beats(best)) {
            best = Some((vls, found));
        }
    }
    let share = |candidate: &Candidate| 100.0 * candidate.detours;
    let (mut routed, remark) = match (all, best) {
        (Ok(all), Some((vls, best))) if best.beats(&all) => {
            let cost = format!(
                ", with {:.2} % of the adapter pairs on detours instead of {:.2} %",
                share(&all),
                share(&best)
            );
            (best.routed, spared(fabric, vls, least, &cost))
        }
        (Err(_), Some((vls, best))) => (best.routed, spared(fabric, vls, least, ", which do not suffice")),
        (Ok(all), best) => {
            let without =
                best.map_or_else(String::new, |(_, best)| format!("; without them {:.2} %", share(&best)));
            let cost = match share(&all) {
                0.0 => "no adapter pair takes a detour for it".to_owned(),
                share => format!("{share:.2} % of the adapter pairs take a detour{without}"),
            };
            let (number, names) = narrow(fabric, wider[0]);
            let remark = format!(
                "{number} links with fewer than {} VLs keep all tables to {least} VLs ({names}): {cost}",
                wider[0]
            );
            (all.routed, remark)
        }
        (Err(error), None) => return Err(error),
    };
    routed.routes.remarks.push(remark);
    Ok(routed)
}

fn spared(fabric: &Fabric, vls: u8, least: u8, cost: &str) -> String {
    let (number, names) = narrow(fabric, vls);
    format!(
        "{number} links with fewer than {vls} VLs carry nothing, or on VL 0 alone what has no other way ({names}): \
         otherwise all tables would keep to {least} VLs{cost}"
    )
}

/// Tables, and what counts of them.
struct Candidate {
    routed: Routed,
    /// Share of the adapter pairs with longer paths to the base LID.
    detours: f64,
    /// Whether few enough adapter pairs take detours.
    direct: bool,
    bandwidth: f64,
}

impl Candidate {
    fn new(fabric: &Fabric, settings: &Settings, routed: Routed) -> Self {
        let detours = routed.detours(fabric);
        let direct = detours <= limit(settings);
        let bandwidth = if direct { quick_bisection(fabric, &routed.routes.lft) } else { 0.0 };
        Self { routed, detours, direct, bandwidth }
    }

    fn beats(&self, other: &Self) -> bool {
        let worth = |candidate: &Self| (candidate.direct, candidate.bandwidth, -candidate.detours);
        worth(self) > worth(other)
    }
}

/// Data VLs that both ends of a channel operate, as far as stated.
fn operates(fabric: &Fabric, channel: &Channel) -> Option<u8> {
    let ends = [(channel.from, channel.out_port), (channel.to, channel.in_port)];
    let stated = ends.into_iter().filter_map(|(s, port)| fabric.switch(s).ports[port.index()].data_vls);
    stated.min()
}

fn is_narrow(fabric: &Fabric, channel: &Channel, vls: u8) -> bool {
    operates(fabric, channel).is_some_and(|operates| operates < vls)
}

/// The distinct numbers of VLs that links between switches operate, ascending, none above `vls`.
fn levels(fabric: &Fabric, vls: Option<u8>) -> Vec<u8> {
    let unstated = vls.unwrap_or(Settings::VLS_UNSTATED);
    let level = |c| operates(fabric, c).unwrap_or(unstated).min(vls.unwrap_or(Vl::MAX_DATA));
    let mut levels: Vec<u8> = fabric.channels().as_slice().iter().map(level).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

/// How many links operate fewer than `vls` VLs, and the first of them by name.
fn narrow(fabric: &Fabric, vls: u8) -> (usize, String) {
    let channels = fabric.channels().iter();
    let found: Vec<_> = channels
        .filter(|(id, c)| *id < c.reverse && is_narrow(fabric, c, vls))
        .map(|(id, c)| (id, *c))
        .collect();
    let name = |(_, c): &(_, Channel)| {
        format!(
            "{} port {} - {} port {}: {}",
            fabric.describe_switch(c.from),
            c.out_port,
            fabric.describe_switch(c.to),
            c.in_port,
            operates(fabric, c).unwrap_or_default()
        )
    };
    let mut names: Vec<String> = found.iter().take(NAMED).map(name).collect();
    if found.len() > NAMED {
        names.push("...".to_owned());
    }
    (found.len(), names.join(", "))
}

/// The same fabric with all links down that operate fewer than `vls` VLs, but for those that a part has no
/// other way by, which seem to have as many as the others.
///
/// Of those the most VLs go first, then the most links between the two switches, then the lowest numbers.
fn without_narrow(fabric: &Fabric, vls: u8) -> Fabric {
    let mut parts = UnionFind::new(fabric.num_switches());
    let mut pairs: BTreeMap<(SwitchId, SwitchId), (u8, usize)> = BTreeMap::new();
    for c in fabric.channels().as_slice().iter().filter(|c| c.from < c.to) {
        if !is_narrow(fabric, c, vls) {
            parts.union(c.from.index(), c.to.index());
        } else {
            let operates = operates(fabric, c).unwrap_or_default();
            let (most, links) = pairs.entry((c.from, c.to)).or_default();
            (*most, *links) = (operates.max(*most), *links + 1);
        }
    }
    let mut order: Vec<_> = pairs.into_iter().collect();
    order.sort_by_key(|&(pair, (most, links))| (std::cmp::Reverse((most, links)), pair));
    let pairs = order.into_iter().map(|(pair, _)| pair);
    let kept: Vec<(SwitchId, SwitchId)> = pairs.filter(|&(a, b)| parts.union(a.index(), b.index())).collect();

    let mut builder = FabricBuilder::from_fabric(fabric);
    for (_, c) in fabric.channels().iter().filter(|(_, c)| is_narrow(fabric, c, vls)) {
        let stays = kept.contains(&(c.from.min(c.to), c.from.max(c.to)));
        let port = &mut builder.node_mut(fabric.switch_node_id(c.from)).ports[c.out_port.index()];
        if stays {
            port.data_vls = Some(vls);
        } else {
            port.state = LinkState::Down;
        }
    }
    builder.finish(Lmc::default()).expect("a fabric with fewer links is a fabric")
}

/// Maps all SLs to VL 0 towards links that operate fewer VLs than were planned with.
pub(super) fn keep_to_vl_0(fabric: &Fabric, vls: u8, sl2vl: &mut Sl2Vl) {
    for c in fabric.channels().as_slice().iter().filter(|c| is_narrow(fabric, c, vls)) {
        for in_port in 0..fabric.switch(c.from).ports.len() {
            sl2vl.set(c.from, PortNum(in_port as u8), c.out_port, SlVlRow::uniform(Vl(0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Prefer, route};
    use super::*;
    use crate::topology::{FatTree, Torus};
    use crate::verify::verify;

    /// The fabric with 8 VLs everywhere but on some links, those of channels that `narrow` says.
    fn with_narrow(fabric: &Fabric, vls: u8, narrow: impl Fn(SwitchId, SwitchId) -> bool) -> Fabric {
        let mut builder = FabricBuilder::from_fabric(fabric);
        for c in fabric.channels().as_slice() {
            let data_vls = if narrow(c.from, c.to) || narrow(c.to, c.from) { vls } else { 8 };
            let port = &mut builder.node_mut(fabric.switch_node_id(c.from)).ports[c.out_port.index()];
            port.data_vls = Some(data_vls);
        }
        builder.finish(Lmc::default()).unwrap()
    }

    fn torus() -> Fabric {
        Torus { dims: vec![5, 5], cas: 2 }.build().unwrap()
    }

    /// What is used of the narrow links, by channel: LIDs.
    fn used(fabric: &Fabric, routed: &Routed, vls: u8) -> usize {
        let lids = || fabric.endports().iter().flat_map(|end| end.lids());
        let narrow = fabric.channels().as_slice().iter().filter(|c| is_narrow(fabric, c, vls));
        narrow
            .map(|c| lids().filter(|&lid| routed.routes.lft.get(c.from, lid) == Some(c.out_port)).count())
            .sum()
    }

    #[test]
    fn one_narrow_link_does_not_take_the_fabric_to_one_vl() {
        let fabric = with_narrow(&torus(), 1, |a, b| (a, b) == (SwitchId(0), SwitchId(1)));
        let routed = route(&fabric, &Settings::default()).unwrap();
        assert!(verify(&fabric, &routed.routes).is_safe());
        assert!(routed.limits.vls == 8 && used(&fabric, &routed, 8) == 0);
        // One VL for all would have cost more.
        let one = Settings { vls: Some(1), ..Settings::default() };
        let one = route(&fabric, &one).unwrap();
        assert!(one.verdict.nonminimal_share > routed.verdict.nonminimal_share + 0.05);
        let said = routed.routes.remarks.last().unwrap();
        assert!(
            said.starts_with("1 links with fewer than 8 VLs carry nothing") && said.contains("'sw-0-0'"),
            "{said}"
        );
        assert_eq!(routed.hops.get(SwitchId(0), SwitchId(1)), 1, "distances are those of all links");
    }

    #[test]
    fn a_switch_behind_narrow_links_alone_is_reached_on_vl_0() {
        let fabric = with_narrow(&torus(), 1, |a, _| a == SwitchId(5));
        let routed = route(&fabric, &Settings { prefer: Prefer::Minimal, ..Settings::default() }).unwrap();
        let verdict = verify(&fabric, &routed.routes);
        assert!(verdict.is_safe() && verdict.vls_legal && routed.routes.vlarb.low.len() > 1);
        let (uses, lids) = (used(&fabric, &routed, 8), fabric.endports().len());
        assert!(uses >= lids, "all LIDs go over them, {uses} of {lids}");
    }

    #[test]
    fn where_one_vl_costs_nothing_all_links_are_used() {
        let fabric = FatTree { k: 8, levels: 2, down: None, cas: None }.build().unwrap();
        let fabric = with_narrow(&fabric, 1, |a, _| a == SwitchId(0));
        let routed = route(&fabric, &Settings::default()).unwrap();
        assert!(routed.verdict.is_safe() && routed.verdict.minimal && used(&fabric, &routed, 8) > 0);
        let said = routed.routes.remarks.last().unwrap();
        assert!(said.contains("keep all tables to 1 VLs") && said.contains("no adapter pair"), "{said}");
    }

    #[test]
    fn equal_links_are_no_matter() {
        for vls in [None, Some(1), Some(8)] {
            let fabric = with_narrow(&torus(), 2, |_, _| true);
            let routed = route(&fabric, &Settings { vls, ..Settings::default() }).unwrap();
            assert!(!routed.routes.remarks.iter().any(|said| said.contains("links with fewer")));
            assert_eq!(routed.limits.vls, vls.unwrap_or(2).min(2));
        }
        // Settings that ask for no more than all links have neither.
        let fabric = with_narrow(&torus(), 2, |a, _| a == SwitchId(3));
        let routed = route(&fabric, &Settings { vls: Some(2), ..Settings::default() }).unwrap();
        assert!(!routed.routes.remarks.iter().any(|said| said.contains("links with fewer")));
    }

    #[test]
    fn foreign_packets_are_dropped() {
        let mut builder = FabricBuilder::from_fabric(&torus());
        let node = torus().switch_node_id(SwitchId(3));
        let port = builder.node(node).ports.iter().rposition(|p| p.peer.is_some()).unwrap();
        let here = crate::fabric::PortRef { node, port: PortNum(port as u8) };
        builder.disconnect(here);
        builder.node_mut(node).ports[port].untrusted = true;
        let fabric = builder.finish(Lmc::default()).unwrap();
        let routed = route(&fabric, &Settings::default()).unwrap();
        assert!(routed.verdict.is_safe() && routed.verdict.contained);
        for (_, c) in fabric.channels().out(SwitchId(3)) {
            let row = routed.routes.sl2vl.row(SwitchId(3), here.port, c.out_port);
            assert_eq!(row, SlVlRow::uniform(Vl(15)));
        }
    }
}
