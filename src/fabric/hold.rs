//! Links and switches that the administrator wants to have no packets.
//!
//! A link that is held carries packets only where nothing else leads. A switch that is held keeps the links to
//! one neighbour: its adapters are reached over these, and no path leads through it. What would cut the fabric
//! stays in use, and is named.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use glob::Pattern;
use petgraph::unionfind::UnionFind;

use super::ids::{ChannelId, Guid, Lmc, NodeId, PortNum, SwitchId};
use super::node::{LinkState, PortRef};
use super::{Channel, Fabric, FabricBuilder, FabricError};

/// What is wanted of a link or switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// Used only where nothing else leads. Such links are preferred to those that are drained.
    Avoid,
    /// No path leads through it.
    Drain,
}

/// Which nodes an entry is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Nodes {
    /// Those with this node or port GUID.
    Guid(Guid),
    /// Those whose whole description matches: `*` stands for any text, `?` for any character.
    Described(Pattern),
}

/// As it is written in a file.
impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guid(guid) => write!(f, "{guid}"),
            Self::Described(pattern) => write!(f, "'{pattern}'"),
        }
    }
}

/// An entry: what is held, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Hold {
    /// What is wanted.
    pub measure: Measure,
    /// The nodes.
    pub nodes: Nodes,
    /// The port of the link; `None` for the switch as a whole.
    pub port: Option<PortNum>,
    /// Where that is written, as in `line 3 of /etc/opensm/hold`.
    pub source: String,
}

/// What became of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldNote {
    /// Whether it could be done.
    pub done: bool,
    /// What was done, or why it was not, in words.
    pub text: String,
}

/// A fabric with links held out.
#[derive(Clone, Debug)]
pub struct HeldOut {
    /// The same nodes, ports and LIDs. Links without packets are [held](LinkState::Held).
    pub fabric: Fabric,
    /// The held switches with one neighbour, ascending.
    pub leaves: Vec<SwitchId>,
    /// What became of the entries: of switches, then of links, then of what is no link between switches.
    pub notes: Vec<HoldNote>,
}

/// Takes out of use what `holds` name, as far as that cuts nothing off.
///
/// Links that nothing is said of connect the fabric first. Where they do not suffice, others do, those with the
/// fewest ends in a drain and then in an avoidance first. Of the links of a held switch, those to the neighbour
/// with the most stay. Ties are broken by the GUID of the switch and the port.
///
/// # Errors
/// [`FabricError`], as [`FabricBuilder::finish`]; never for a fabric that could be built with its LIDs.
///
/// Cost: O(ports), O(n log n) for n links in question, and a comparison of each pattern with each node.
pub fn hold_out(fabric: Fabric, holds: &[Hold]) -> Result<HeldOut, FabricError> {
    if holds.is_empty() {
        return Ok(HeldOut { fabric, leaves: Vec::new(), notes: Vec::new() });
    }
    let fabric = &fabric;
    let mut wanted = Wanted::of(fabric, holds);
    let kept = wanted.kept(fabric);
    let mut builder = FabricBuilder::from_fabric(fabric);
    for (id, channel) in links(fabric).filter(|(id, channel)| wanted.weight(*id, channel) != FREE) {
        if !kept.contains(&id) {
            for (switch, port) in [(channel.from, channel.out_port), (channel.to, channel.in_port)] {
                let node = builder.node_mut(fabric.switch_node_id(switch));
                node.ports[port.index()].state = LinkState::Held;
            }
        }
    }
    let mut notes: Vec<HoldNote> =
        wanted.switches.iter().map(|(&s, hold)| wanted.note_of_switch(fabric, s, hold, &kept)).collect();
    notes.extend(wanted.links.iter().map(|(id, hold)| note_of_link(fabric, *id, hold, kept.contains(id))));
    notes.append(&mut wanted.notes);
    let leaves = wanted.switches.keys().copied().filter(|&s| wanted.neighbours(fabric, s, &kept).len() == 1);
    Ok(HeldOut { leaves: leaves.collect(), fabric: builder.finish(Lmc::default())?, notes })
}

/// Why entries have no effect: one sentence for each that is about nothing in the fabric.
///
/// - `fabric`: without links that are held out already.
///
/// Cost: that of [`hold_out`].
pub fn without_effect(fabric: &Fabric, holds: &[Hold]) -> Vec<String> {
    Wanted::of(fabric, holds).notes.into_iter().filter(|note| note.done).map(|note| note.text).collect()
}

/// The links that entries name, by the channel of each with the lower number, whether they stay in use or not.
///
/// Cost: a comparison of each pattern with each node.
pub fn named_links(fabric: &Fabric, holds: &[Hold]) -> BTreeSet<ChannelId> {
    Wanted::of(fabric, holds).links.into_keys().collect()
}

/// How much speaks against a link: how many of itself and its two ends are drained, and how many avoided.
type Weight = (u8, u8);

/// Nothing does.
const FREE: Weight = (0, 0);

/// The entries, by what they are about. Of two for the same the stricter one counts, then the first.
struct Wanted<'a> {
    switches: BTreeMap<SwitchId, &'a Hold>,
    /// By the channel of each link with the lower number.
    links: BTreeMap<ChannelId, &'a Hold>,
    /// About entries without such links or switches.
    notes: Vec<HoldNote>,
}

impl<'a> Wanted<'a> {
    fn of(fabric: &Fabric, holds: &'a [Hold]) -> Self {
        let mut by_guid: HashMap<Guid, BTreeSet<NodeId>> = HashMap::new();
        for (node, id) in fabric.nodes().iter().zip(0..) {
            let ports = node.ports.iter().map(|port| port.guid).filter(|guid| guid.0 != 0);
            ports.chain([node.guid]).for_each(|guid| _ = by_guid.entry(guid).or_default().insert(NodeId(id)));
        }
        let mut wanted = Self { switches: BTreeMap::new(), links: BTreeMap::new(), notes: Vec::new() };
        for hold in holds {
            let nodes: Vec<NodeId> = match &hold.nodes {
                Nodes::Guid(guid) => by_guid.get(guid).into_iter().flatten().copied().collect(),
                Nodes::Described(pattern) => (fabric.nodes().iter().zip(0..))
                    .filter(|(node, _)| pattern.matches(&node.description))
                    .map(|(_, id)| NodeId(id))
                    .collect(),
            };
            if nodes.is_empty() {
                let text = format!("{} has no effect: no node has this GUID or description", hold.source);
                wanted.notes.push(HoldNote { done: true, text });
            }
            nodes.into_iter().for_each(|node| wanted.add(fabric, hold, node));
        }
        wanted
    }

    fn add(&mut self, fabric: &Fabric, hold: &'a Hold, node: NodeId) {
        let stricter = |before: &mut &'a Hold| {
            if before.measure < hold.measure {
                *before = hold;
            }
        };
        let useless = |why: String, done| HoldNote { done, text: format!("{} {why}", hold.source) };
        match (fabric.switch_of(node), hold.port) {
            (Some(switch), None) => {
                self.switches.entry(switch).and_modify(stricter).or_insert(hold);
            }
            (Some(switch), Some(port)) if usize::from(port.0) < fabric.node(node).ports.len() => match fabric
                .channels()
                .at_port(switch, port)
            {
                Some(id) => {
                    let id = id.min(fabric.channels().get(id).reverse);
                    self.links.entry(id).and_modify(stricter).or_insert(hold);
                }
                None if fabric.node(node).ports[port.index()].peer.is_some_and(|p| is_host(fabric, p)) => {
                    let why = format!(
                        "cannot be done: port {port} of {} leads to an adapter, which nothing else leads to",
                        fabric.describe(node)
                    );
                    self.notes.push(useless(why, false));
                }
                None => {
                    let why = format!("has no effect: port {port} of {} has no link", fabric.describe(node));
                    self.notes.push(useless(why, true));
                }
            },
            (Some(_), Some(port)) => {
                let why = format!("has no effect: {} has no port {port}", fabric.describe(node));
                self.notes.push(useless(why, true));
            }
            (None, _) => {
                let why = format!(
                    "cannot be done: {} is no switch, and nothing else leads there",
                    fabric.describe(node)
                );
                self.notes.push(useless(why, false));
            }
        }
    }

    fn weight(&self, id: ChannelId, channel: &Channel) -> Weight {
        let held = [self.links.get(&id), self.switches.get(&channel.from), self.switches.get(&channel.to)];
        let count = |measure| held.iter().flatten().filter(|hold| hold.measure == measure).count() as u8;
        (count(Measure::Drain), count(Measure::Avoid))
    }

    /// The links in question that stay in use.
    fn kept(&self, fabric: &Fabric) -> BTreeSet<ChannelId> {
        let mut parts = UnionFind::<usize>::new(fabric.num_switches());
        let mut suspects: Vec<(Weight, ChannelId, &Channel)> = Vec::new();
        for (id, channel) in links(fabric) {
            match self.weight(id, channel) {
                FREE => _ = parts.union(channel.from.index(), channel.to.index()),
                weight => suspects.push((weight, id, channel)),
            }
        }
        // Links between the same switches, as far as nothing is said of themselves.
        let ends = |channel: &Channel| (channel.from.min(channel.to), channel.from.max(channel.to));
        let mut parallel: HashMap<(SwitchId, SwitchId), Vec<ChannelId>> = HashMap::new();
        for (_, id, channel) in suspects.iter().filter(|(_, id, _)| !self.links.contains_key(id)) {
            parallel.entry(ends(channel)).or_default().push(*id);
        }
        let width = |channel: &Channel| parallel.get(&ends(channel)).map_or(0, Vec::len);
        suspects.sort_by_key(|(weight, id, channel)| (*weight, Reverse(width(channel)), *id));
        let mut kept = BTreeSet::new();
        for (_, id, channel) in suspects {
            if parts.union(channel.from.index(), channel.to.index()) {
                kept.insert(id);
                if !self.links.contains_key(&id) {
                    kept.extend(parallel.get(&ends(channel)).into_iter().flatten());
                }
            }
        }
        kept
    }

    /// What the links of a held switch that stay in use lead to.
    fn neighbours(
        &self,
        fabric: &Fabric,
        switch: SwitchId,
        kept: &BTreeSet<ChannelId>,
    ) -> BTreeSet<SwitchId> {
        let out = fabric.channels().out(switch);
        out.filter(|(id, c)| kept.contains(&c.reverse.min(*id))).map(|(_, c)| c.to).collect()
    }

    fn note_of_switch(
        &self,
        fabric: &Fabric,
        switch: SwitchId,
        hold: &Hold,
        kept: &BTreeSet<ChannelId>,
    ) -> HoldNote {
        let neighbours = self.neighbours(fabric, switch, kept);
        let names: Vec<String> = neighbours.iter().map(|&s| fabric.describe_switch(s)).collect();
        let (name, source) = (fabric.describe_switch(switch), &hold.source);
        let text = match &names[..] {
            [] => format!("switch {name} is {} ({source}): it has no link to a switch", hold.measure.done()),
            [one] => format!(
                "switch {name} is {} ({source}): no path leads through it, and its {} adapters are reached over {one}",
                hold.measure.done(),
                fabric.num_adapters_on(switch)
            ),
            more => format!(
                "switch {name} cannot be {} ({source}): its links to {} stay in use, as the fabric would be cut \
                 without them",
                hold.measure.done(),
                more.join(" and ")
            ),
        };
        HoldNote { done: names.len() < 2, text }
    }
}

fn is_host(fabric: &Fabric, port: PortRef) -> bool {
    fabric.switch_of(port.node).is_none()
}

fn note_of_link(fabric: &Fabric, id: ChannelId, hold: &Hold, kept: bool) -> HoldNote {
    let (link, source) = (fabric.describe_channel(id), &hold.source);
    let text = match kept {
        false => format!("the link {link} is {} ({source}): it carries no packets", hold.measure.done()),
        true => format!(
            "the link {link} cannot be {} ({source}): it stays in use, as the fabric would be cut without it",
            hold.measure.done()
        ),
    };
    HoldNote { done: !kept, text }
}

impl Measure {
    fn done(self) -> &'static str {
        match self {
            Self::Avoid => "avoided",
            Self::Drain => "drained",
        }
    }
}

/// The links between switches, each once, by the channel with the lower number.
fn links(fabric: &Fabric) -> impl Iterator<Item = (ChannelId, &Channel)> {
    fabric.channels().iter().filter(|(id, channel)| *id < channel.reverse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Dragonfly, FatTree, Ring};

    fn hold(measure: Measure, node: &str, port: Option<u8>) -> Hold {
        let nodes = Nodes::Described(Pattern::new(node).expect("a pattern"));
        Hold { measure, nodes, port: port.map(PortNum), source: format!("hold of {node}") }
    }

    fn drain(node: &str) -> Hold {
        hold(Measure::Drain, node, None)
    }

    /// Names of the neighbours of a switch, each once.
    fn neighbours(fabric: &Fabric, name: &str) -> BTreeSet<String> {
        let at = |s: SwitchId| fabric.switch(s).description.clone();
        let switch = fabric.switch_ids().find(|&s| at(s) == name).expect("it is there");
        fabric.channels().out(switch).map(|(_, c)| at(c.to)).collect()
    }

    fn all_reach_each_other(fabric: &Fabric) -> bool {
        let mut parts = UnionFind::<usize>::new(fabric.num_switches());
        links(fabric).for_each(|(_, c)| _ = parts.union(c.from.index(), c.to.index()));
        let labels = parts.into_labeling();
        labels.iter().all(|label| *label == labels[0])
    }

    #[test]
    fn any_switch_of_a_dragonfly_can_be_drained() {
        let whole = Dragonfly::balanced(2).build().unwrap();
        for s in whole.switch_ids() {
            let name = whole.switch(s).description.clone();
            let held = hold_out(whole.clone(), &[drain(&name)]).unwrap();
            assert!(held.notes.len() == 1 && held.notes[0].done, "{:?}", held.notes);
            assert_eq!(neighbours(&held.fabric, &name).len(), 1);
            assert!(all_reach_each_other(&held.fabric));
            assert_eq!(held.fabric.endports(), whole.endports());
        }
    }

    #[test]
    fn switches_that_are_drained_hang_off_others() {
        // Two neighbours of a ring of six: each keeps its link to the outside.
        let whole = Ring { switches: 6, cas: 1 }.build().unwrap();
        let names: Vec<String> = whole.switch_ids().map(|s| whole.switch(s).description.clone()).collect();
        let held = hold_out(whole.clone(), &[drain(&names[1]), drain(&names[2])]).unwrap();
        assert!(held.notes.iter().all(|note| note.done), "{:?}", held.notes);
        assert_eq!(neighbours(&held.fabric, &names[1]), BTreeSet::from([names[0].clone()]));
        assert_eq!(neighbours(&held.fabric, &names[2]), BTreeSet::from([names[3].clone()]));
        // Two that are opposite cut it: the one with the lower GUID stays a path.
        let held = hold_out(whole, &[drain(&names[1]), drain(&names[4])]).unwrap();
        let done: Vec<bool> = held.notes.iter().map(|note| note.done).collect();
        assert_eq!(done.iter().filter(|&&done| done).count(), 1, "{:?}", held.notes);
        let refused = held.notes.iter().find(|note| !note.done).expect("one");
        assert!(
            refused.text.contains("cannot be drained") && refused.text.contains("would be cut"),
            "{refused:?}"
        );
        assert!(all_reach_each_other(&held.fabric));
    }

    #[test]
    fn what_is_avoided_serves_before_what_is_drained() {
        let whole = Ring { switches: 4, cas: 1 }.build().unwrap();
        let names: Vec<String> = whole.switch_ids().map(|s| whole.switch(s).description.clone()).collect();
        for (a, b) in [(1, 3), (3, 1)] {
            let held =
                hold_out(whole.clone(), &[drain(&names[a]), hold(Measure::Avoid, &names[b], None)]).unwrap();
            assert_eq!(neighbours(&held.fabric, &names[a]).len(), 1);
            assert_eq!(neighbours(&held.fabric, &names[b]).len(), 2);
        }
    }

    #[test]
    fn links_are_held_by_either_end_and_kept_where_they_connect() {
        let whole = FatTree { k: 4, levels: 2, down: None, cas: None }.build().unwrap();
        let (id, channel) = links(&whole).next().expect("a link");
        for (switch, port) in [(channel.from, channel.out_port), (channel.to, channel.in_port)] {
            let node = whole.switch(switch);
            let by_guid = Hold { nodes: Nodes::Guid(node.guid), ..hold(Measure::Avoid, "", Some(port.0)) };
            for entry in [hold(Measure::Avoid, &node.description, Some(port.0)), by_guid] {
                let named = named_links(&whole, std::slice::from_ref(&entry));
                assert!(named.into_iter().eq([id]));
                let held = hold_out(whole.clone(), &[entry]).unwrap();
                assert_eq!(held.fabric.channels().len(), whole.channels().len() - 2);
                assert!(held.notes[0].done && held.notes[0].text.contains("carries no packets"));
            }
        }
        // All links: a tree of them stays in use.
        let ports = (1..=4).map(|port| hold(Measure::Drain, "*", Some(port)));
        let held = hold_out(whole.clone(), &ports.collect::<Vec<_>>()).unwrap();
        assert!(all_reach_each_other(&held.fabric));
        assert_eq!(held.fabric.channels().len(), 2 * (whole.num_switches() - 1));
        let refused = held.notes.iter().filter(|note| note.text.contains("cannot be drained")).count();
        assert_eq!(refused, whole.num_switches() - 1);
    }

    #[test]
    fn parallel_links_to_one_neighbour_stay() {
        let plain = FatTree { k: 4, levels: 2, down: None, cas: None }.build().unwrap();
        let mut builder = FabricBuilder::from_fabric(&plain);
        // A second link of the first leaf, in place of an adapter on each side.
        let leaf = plain.switch_ids().find(|&s| plain.num_adapters_on(s) > 0).expect("a leaf");
        let (_, uplink) = plain.channels().out(leaf).last().expect("it has uplinks");
        let free = |builder: &mut FabricBuilder, switch: SwitchId| {
            let node = plain.switch_node_id(switch);
            let number = builder.node(node).ports.len() as u8;
            builder.node_mut(node).ports.push(crate::fabric::Port::default());
            PortRef { node, port: PortNum(number) }
        };
        let (a, b) = (free(&mut builder, leaf), free(&mut builder, uplink.to));
        builder.connect(a, b).unwrap();
        let fabric = builder.finish(Lmc::default()).unwrap();
        let name = fabric.switch(leaf).description.clone();
        let held = hold_out(fabric, &[drain(&name)]).unwrap();
        assert_eq!(held.fabric.channels().out(leaf).count(), 2);
        assert_eq!(neighbours(&held.fabric, &name).len(), 1);
    }

    #[test]
    fn entries_without_a_link_between_switches_are_named() {
        let whole = Ring { switches: 3, cas: 1 }.build().unwrap();
        let host = whole.adapters().next().expect("a host").1;
        let (switch, port) = host.attachment.expect("it is attached");
        let entries = [
            hold(Measure::Drain, "nobody*", None),
            hold(Measure::Avoid, &whole.switch(switch).description, Some(port.0)),
            hold(Measure::Avoid, &whole.switch(switch).description, Some(200)),
            Hold { nodes: Nodes::Guid(host.guid), ..drain("") },
        ];
        let held = hold_out(whole.clone(), &entries).unwrap();
        assert_eq!(held.fabric.channels().len(), whole.channels().len());
        let found: Vec<(bool, &str)> =
            held.notes.iter().map(|note| (note.done, note.text.as_str())).collect();
        for (i, (done, word)) in
            [(true, "no node"), (false, "an adapter"), (true, "no port 200"), (false, "no switch")]
                .iter()
                .enumerate()
        {
            assert!(found[i].0 == *done && found[i].1.contains(word), "{word}: {:?}", found[i]);
        }
    }
}
