//! Differences between cables, grouped by the ports that they share.

use std::collections::BTreeMap;

use super::{Cable, Comparison, Difference, End, Matched, Pairs, cables};
use crate::fabric::{Fabric, LinkSpeed, NodeId, PortNum, PortRef};

/// A node of either side: those of the fabric by their own identifiers, those that only the plan has after them.
type Place = (u32, PortNum);

/// Compares all cables of matched nodes, and lists nodes without a partner.
///
/// Cost: O(n log n) in cables.
pub(super) fn differences(plan: &Fabric, fabric: &Fabric, pairs: &Pairs, matched: Matched) -> Comparison {
    let sides = Sides { plan, fabric, first: fabric.nodes().len() as u32 };
    let by_plan = |end: PortRef| match pairs[end.node.index()] {
        Some(node) => (node.0, end.port),
        None => (sides.first + end.node.0, end.port),
    };
    let planned = Wiring::new(cables(plan).map(|(a, b)| (by_plan(a), by_plan(b))));
    let found = Wiring::new(cables(fabric).map(|(a, b)| ((a.node.0, a.port), (b.node.0, b.port))));

    let mut new = vec![true; fabric.nodes().len()];
    pairs.iter().flatten().for_each(|node| new[node.index()] = false);
    let lone = |(node, _): Place| node >= sides.first || new[node as usize];
    let both = |a: Place, b: Place| !lone(a) && !lone(b);
    let mut differences = sides.components(&planned, &found, &both);
    let in_place = planned.cables().filter(|&(a, b)| found.peer(a) == Some(b)).collect::<Vec<_>>();
    let mut degraded: Vec<Difference> = Vec::new();
    let plan_of: BTreeMap<u32, NodeId> =
        pairs.iter().zip(0..).filter_map(|(node, id)| Some((node.as_ref()?.0, NodeId(id)))).collect();
    for &(a, b) in &in_place {
        degraded.extend(sides.degraded(&plan_of, a, b));
    }
    differences.sort_by_key(rank);
    differences.extend(degraded);
    let node = |id: NodeId, side: &Fabric| {
        let node = side.node(id);
        (node.description.clone(), node.guid.to_string())
    };
    for (id, _) in (0..).map(NodeId).zip(pairs).filter(|(_, partner)| partner.is_none()) {
        let cables = sides.cables_of(&planned, sides.first + id.0);
        let (node, guid) = node(id, plan);
        // A node without cables is not part of the cabling.
        if !cables.is_empty() {
            differences.push(Difference::MissingNode { node, guid, cables });
        }
    }
    for id in (0..).map(NodeId).zip(&new).filter(|(_, new)| **new).map(|(id, _)| id) {
        let cables = sides.cables_of(&found, id.0);
        let (node, guid) = node(id, fabric);
        if !cables.is_empty() {
            differences.push(Difference::AdditionalNode { node, guid, cables });
        }
    }
    Comparison {
        matched,
        renamed: Vec::new(),
        planned: planned.len(),
        found: found.len(),
        in_place: in_place.len(),
        differences,
    }
}

fn rank(difference: &Difference) -> u8 {
    match difference {
        Difference::Swapped { .. } => 0,
        Difference::Moved { .. } => 1,
        Difference::Missing { .. } => 2,
        _ => 3,
    }
}

/// The other end of each port.
struct Wiring(BTreeMap<Place, Place>);

impl Wiring {
    fn new(cables: impl Iterator<Item = (Place, Place)>) -> Self {
        Self(cables.flat_map(|(a, b)| [(a, b), (b, a)]).collect())
    }

    fn peer(&self, end: Place) -> Option<Place> {
        self.0.get(&end).copied()
    }

    fn cables(&self) -> impl Iterator<Item = (Place, Place)> + '_ {
        self.0.iter().map(|(&a, &b)| (a, b)).filter(|(a, b)| a < b)
    }

    fn len(&self) -> usize {
        self.cables().count()
    }
}

/// Both sides, to name places.
struct Sides<'a> {
    plan: &'a Fabric,
    fabric: &'a Fabric,
    /// The first place of a node of the plan alone.
    first: u32,
}

impl Sides<'_> {
    fn end(&self, (node, port): Place) -> End {
        let node = match node.checked_sub(self.first) {
            Some(id) => self.plan.node(NodeId(id)),
            None => self.fabric.node(NodeId(node)),
        };
        End { node: node.description.clone(), guid: node.guid.to_string(), port: port.0 }
    }

    fn cable(&self, a: Place, b: Place) -> Cable {
        [self.end(a), self.end(b)]
    }

    fn cables_of(&self, wiring: &Wiring, node: u32) -> Vec<Cable> {
        let ends = wiring.0.range((node, PortNum(0))..=(node, PortNum(u8::MAX)));
        ends.map(|(&a, &b)| self.cable(a, b)).collect()
    }

    /// Each port has at most one cable in the plan and one in the fabric. So those that differ form paths and cycles
    /// in which the two alternate.
    ///
    /// - `both`: whether a cable counts, by its ends.
    fn components(
        &self,
        planned: &Wiring,
        found: &Wiring,
        both: &dyn Fn(Place, Place) -> bool,
    ) -> Vec<Difference> {
        let differs = |of: &Wiring, other: &Wiring, a: Place| {
            of.peer(a).filter(|&b| other.peer(a) != Some(b) && both(a, b))
        };
        let red = |end: Place| differs(planned, found, end);
        let blue = |end: Place| differs(found, planned, end);
        let mut ends: Vec<Place> = planned.0.keys().chain(found.0.keys()).copied().collect();
        ends.sort_unstable();
        ends.dedup();
        let mut seen: BTreeMap<Place, ()> = BTreeMap::new();
        let mut list = Vec::new();
        for start in ends {
            if seen.contains_key(&start) || (red(start).is_none() && blue(start).is_none()) {
                continue;
            }
            // All ports of the component.
            let mut ports = Vec::new();
            let mut front = vec![start];
            while let Some(at) = front.pop() {
                if seen.insert(at, ()).is_none() {
                    ports.push(at);
                    front.extend([red(at), blue(at)].into_iter().flatten());
                }
            }
            ports.sort_unstable();
            let cables = |of: &dyn Fn(Place) -> Option<Place>| -> Vec<Cable> {
                let once = ports.iter().filter_map(|&a| Some((a, of(a)?))).filter(|(a, b)| a < b);
                once.map(|(a, b)| self.cable(a, b)).collect()
            };
            let (planned, found) = (cables(&red), cables(&blue));
            list.push(match (&planned[..], &found[..]) {
                ([cable], []) => Difference::Missing { cable: cable.clone() },
                ([], [cable]) => Difference::Additional { cable: cable.clone() },
                _ if planned.len() == found.len() && 2 * planned.len() == ports.len() => {
                    Difference::Swapped { planned, found }
                }
                _ => Difference::Moved { planned, found },
            });
        }
        list
    }

    /// Whether a cable has fewer lanes or a lower speed than planned, at either end.
    fn degraded(&self, plan_of: &BTreeMap<u32, NodeId>, a: Place, b: Place) -> Option<Difference> {
        let lanes = |side: &Fabric, node: NodeId, port: PortNum| {
            let port = &side.node(node).ports[port.index()];
            (port.width, port.speed)
        };
        // What both ends of a link agree on is what the lower states.
        let least = |ends: [(Option<u8>, Option<LinkSpeed>); 2]| {
            (ends.iter().filter_map(|e| e.0).min(), ends.iter().filter_map(|e| e.1).min())
        };
        let planned =
            least([lanes(self.plan, *plan_of.get(&a.0)?, a.1), lanes(self.plan, *plan_of.get(&b.0)?, b.1)]);
        let found = least([lanes(self.fabric, NodeId(a.0), a.1), lanes(self.fabric, NodeId(b.0), b.1)]);
        let lower = |planned: Option<u8>, found: Option<u8>| planned.zip(found).is_some_and(|(p, f)| f < p);
        let slower = planned.1.zip(found.1).is_some_and(|(p, f)| f < p);
        (lower(planned.0, found.0) || slower).then(|| Difference::Degraded {
            cable: self.cable(a, b),
            planned: rate(planned),
            found: rate(found),
        })
    }
}

/// `4x EDR`, as far as it is known.
fn rate((width, speed): (Option<u8>, Option<LinkSpeed>)) -> String {
    let words =
        [width.map(|width| format!("{width}x")), speed.map(|speed| format!("{speed:?}").to_uppercase())];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
