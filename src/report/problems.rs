//! What is wrong with a fabric, apart from its tables.

use std::collections::BTreeMap;

use serde::Serialize;

use super::groups::Groups;
use super::weak::{Weak, weak};
use crate::fabric::{Fabric, LinkSpeed, LinkState, NodeId, PortNum, PortRef};

/// Something that an administrator should look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// What it is, one sentence.
    pub what: String,
    /// Where: links, switches or hosts by name.
    pub places: Vec<String>,
    /// Number of places; [`places`](Self::places) has the first of them.
    pub count: usize,
}

/// Places that are listed.
const LISTED: usize = 20;

/// Everything that is wrong with a fabric.
///
/// Cost: O(n log n) in nodes and ports.
pub(super) fn problems(fabric: &Fabric, groups: &Groups) -> Vec<Problem> {
    let mut list = Vec::new();
    let mut add = |what: String, places: Vec<String>| {
        if !places.is_empty() {
            let count = places.len();
            list.push(Problem { what, places: places.into_iter().take(LISTED).collect(), count });
        }
    };
    let Weak { links, switches } = weak(fabric);
    let hosts = |count: usize| {
        if count == 1 { "1 adapter port".to_owned() } else { format!("{count} adapter ports") }
    };
    add(
        "Single points of failure: without one of these links the fabric falls apart".to_owned(),
        links
            .iter()
            .map(|&(id, cut)| format!("{}: cuts off {}", fabric.describe_channel(id), hosts(cut)))
            .collect(),
    );
    add(
        "Single points of failure: without one of these switches the others fall apart".to_owned(),
        switches
            .iter()
            .map(|&(s, cut)| format!("{}: cuts off {} beside its own", fabric.describe_switch(s), hosts(cut)))
            .collect(),
    );
    for between_switches in [true, false] {
        rates(fabric, between_switches, &mut add);
    }
    lanes(fabric, &mut add);
    add(
        "Cables or adapters that are left out".to_owned(),
        fabric.notes().iter().map(|n| fabric.explain(n)).collect(),
    );
    add("Links that are cabled, but down".to_owned(), down(fabric));
    balance(fabric, groups, &mut add);
    list
}

/// Cables that are up, each once: those between switches, or those of hosts.
fn cables(fabric: &Fabric, between_switches: bool) -> Vec<(PortRef, PortRef)> {
    let mut list = Vec::new();
    for (node, id) in fabric.nodes().iter().zip((0..).map(NodeId)) {
        for (port, number) in node.ports.iter().zip((0..).map(PortNum)) {
            let here = PortRef { node: id, port: number };
            let Some(there) = port.peer.filter(|&there| here < there && port.state.is_used()) else {
                continue;
            };
            if (node.is_switch() && fabric.node(there.node).is_switch()) == between_switches {
                list.push((here, there));
            }
        }
    }
    list
}

type Rate = (Option<u8>, Option<LinkSpeed>);

fn rate(fabric: &Fabric, end: PortRef) -> Rate {
    let port = &fabric.node(end.node).ports[end.port.index()];
    (port.width, port.speed)
}

/// `4x EDR`.
pub(super) fn in_words((width, speed): Rate) -> String {
    let width = width.map_or_else(|| "?x".to_owned(), |width| format!("{width}x"));
    format!("{width} {}", speed.map_or_else(|| "?".to_owned(), |speed| format!("{speed:?}").to_uppercase()))
}

fn name(fabric: &Fabric, (a, b): (PortRef, PortRef)) -> String {
    let end = |end: PortRef| format!("{} port {}", fabric.describe(end.node), end.port);
    format!("{} - {}", end(a), end(b))
}

/// Links slower than most of their kind, and those whose ends disagree.
fn rates(fabric: &Fabric, between_switches: bool, add: &mut dyn FnMut(String, Vec<String>)) {
    let all = cables(fabric, between_switches);
    let of = |&(a, b): &(PortRef, PortRef)| rate(fabric, a).min(rate(fabric, b));
    let mut counts: BTreeMap<Rate, usize> = BTreeMap::new();
    all.iter().for_each(|cable| *counts.entry(of(cable)).or_default() += 1);
    let Some((&usual, _)) = counts.iter().max_by_key(|(rate, count)| (**count, **rate)) else { return };
    let kind = if between_switches { "between switches" } else { "of adapters" };
    let lanes = |(width, speed): Rate| u32::from(width.unwrap_or(0)) * speed.map_or(0, |s| 1 << s as u32);
    let slow = all.iter().filter(|cable| lanes(of(cable)) < lanes(usual) && of(cable) != (None, None));
    let places = slow.map(|&cable| format!("{}: {}", name(fabric, cable), in_words(of(&cable)))).collect();
    add(format!("Links {kind} that are slower than most, which are {}", in_words(usual)), places);
    let fast = all.iter().filter(|cable| lanes(of(cable)) > lanes(usual) && usual != (None, None));
    let places = fast.map(|&cable| format!("{}: {}", name(fabric, cable), in_words(of(&cable)))).collect();
    add(format!("Links {kind} that are faster than most, which are {}", in_words(usual)), places);
    let apart = all.iter().filter(|&&(a, b)| rate(fabric, a) != rate(fabric, b));
    let both = |&(a, b): &(PortRef, PortRef)| {
        let [first, second] = [a, b].map(|end| in_words(rate(fabric, end)));
        format!("{}: {first} and {second}", name(fabric, (a, b)))
    };
    add(format!("Links {kind} whose ends state different rates"), apart.map(both).collect());
}

/// Links between switches with fewer VLs than the most.
fn lanes(fabric: &Fabric, add: &mut dyn FnMut(String, Vec<String>)) {
    let all = cables(fabric, true);
    let vls = |end: PortRef| fabric.node(end.node).ports[end.port.index()].data_vls;
    let of = |&(a, b): &(PortRef, PortRef)| vls(a).min(vls(b)).or(vls(a)).or(vls(b));
    let Some(most) = all.iter().filter_map(of).max() else { return };
    let few = all.iter().filter_map(|cable| Some((cable, of(cable).filter(|&vls| vls < most)?)));
    let places = few.map(|(&cable, vls)| format!("{}: {vls}", name(fabric, cable))).collect();
    add(format!("Links between switches with fewer data VLs than others, which have {most}"), places);
}

fn down(fabric: &Fabric) -> Vec<String> {
    let nodes = fabric.nodes().iter().zip((0..).map(NodeId));
    let ports = nodes.flat_map(|(node, id)| {
        node.ports
            .iter()
            .zip((0..).map(PortNum))
            .map(move |(port, number)| (port, PortRef { node: id, port: number }))
    });
    let down = ports.filter(|(port, _)| port.state == LinkState::Down);
    down.filter_map(|(port, end)| Some(name(fabric, (end, port.peer?)))).collect()
}

/// Groups and switches that have less than their like.
fn balance(fabric: &Fabric, groups: &Groups, add: &mut dyn FnMut(String, Vec<String>)) {
    let mut outside = vec![0_usize; groups.sizes.len()];
    let mut hosts = vec![0_usize; groups.sizes.len()];
    for (_, c) in fabric.channels().iter() {
        let (from, to) = (groups.of[c.from.index()], groups.of[c.to.index()]);
        outside[from] += usize::from(from != to);
    }
    for s in fabric.switch_ids() {
        hosts[groups.of[s.index()]] += fabric.num_adapters_on(s);
    }
    let first = |group: usize| fabric.switch_ids().find(|s| groups.of[s.index()] == group);
    let mut less = |what: &str, numbers: &[usize]| {
        // Only groups of the most frequent size are alike.
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        groups.sizes.iter().for_each(|&size| *sizes.entry(size).or_default() += 1);
        let Some((&size, _)) = sizes.iter().max_by_key(|(size, count)| (**count, **size)) else { return };
        let alike = || (0..numbers.len()).filter(|&g| groups.sizes[g] == size);
        let most = alike().map(|g| numbers[g]).max().unwrap_or(0);
        let few = alike().filter(|&g| numbers[g] < most);
        let place = |g: usize| {
            let first = first(g).map(|s| fabric.describe_switch(s)).unwrap_or_default();
            format!("group {} (from {first}): {}", g + 1, numbers[g])
        };
        add(
            format!("Groups of {size} switches with fewer {what} than others, which have {most}"),
            few.map(place).collect(),
        );
    };
    if groups.by_structure {
        less("links to other groups", &outside);
        less("adapter ports", &hosts);
    }
}
