//! Spanning trees for multicast that close no credit loop with the unicast routes.
//!
//! A multicast packet comes into a switch by one port and leaves by all others of its group's tree.
//! It gives its buffer back when the last copy has left, so the channel that it came by waits for
//! every channel of the tree that it leaves by. Copies do not wait for each other: InfiniBand's
//! credits are spent when a packet is sent and are never held in reserve, and a copy that was sent
//! needs nothing more of the switch that sent it. So the dependencies of a tree are its turns, each
//! with the VL that the SL2VL tables give it, and together with those of unicast they must not have
//! a circle. All turns of a spanning tree count, from every end port and of every SL that groups may
//! have; what a group takes of the tree for its members is less.
//!
//! A tree's own turns never have a circle, and which switch or port joins which group when does not
//! matter: nothing is to be proven again.

use std::cmp::Reverse;

use super::Hops;
use super::ascending::Ascending;
use super::dependencies::{Dependencies, Graph, SlClasses};
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::ordering::{LaneOrder, Tree};
use crate::tables::{Lft, McastGroup, PathSl, PortSet, Sl2Vl};

/// How many roots are tried for a tree at most, and how many switches they may have together.
const ROOTS: usize = 64;
const WORK: usize = 200_000;
/// The same where the order is known: more would not help.
const ORDERED_ROOTS: usize = 6;
/// Virtual channels that may be looked at before no further root is tried: about a second. Less where an
/// order is known, as the routing can make room in it then.
const PATIENCE: usize = 10_000_000;
const ORDERED_PATIENCE: usize = 1_000_000;
/// The same for a tree that fits whatever way unicast goes: about a hundredth of a second.
const ANY_WAY_PATIENCE: usize = 100_000;
/// Roots tried for a tree that serves many SLs at once: if none of these does, hardly any will.
const SHARED_ROOTS: usize = 8;

/// Trees for multicast groups.
#[derive(Clone, Debug, Default)]
pub struct McastTrees {
    /// Each reaches every end port and serves groups with some SLs; the first one SL 0, if any does.
    pub trees: Vec<McastGroup>,
    /// SLs that no tree was found for, bit `n` = SL `n`.
    pub unserved: u16,
}

impl McastTrees {
    /// Whether groups are served that nobody configured: they have SL 0.
    pub fn serve_default(&self) -> bool {
        self.unserved & 1 == 0
    }
}

/// What is known of why unicast is free of credit loops.
#[derive(Clone, Debug)]
pub struct KnownOrder {
    /// All packets of unicast ascend in it, with any SL that they may have.
    pub lanes: LaneOrder,
    /// A spanning tree that may do so as well.
    pub tree: Tree,
}

/// Finds spanning trees whose turns have no circle together with the dependencies of unicast: one
/// tree for all SLs if there is one, else further trees for the SLs that the first does not serve.
/// All of them are free of circles together, so groups with different SLs may exist side by side.
///
/// A tree grows breadth first from a root, over each channel that closes no circle. Roots come in
/// order of their greatest and then of their total distance to switches with adapters; ties by number
/// of the switch.
///
/// Where the order that unicast keeps to is known, trees that keep to it as well are looked for
/// first. These close no circle, whatever way unicast goes, so they are found without a look at the
/// forwarding tables. Of several the one counts whose adapters are nearest to its root. Where none
/// grows, the tree that comes with the order is tried.
///
/// Where that does not serve all SLs, one tree for those that are left is looked for which closes no circle
/// with anything that keeps to the order, though it does not keep to it itself. That needs no look at the
/// forwarding tables either. In a Dragonfly with the global links first there is such a tree: from a root to
/// its group, over global links, and from there to the other switches of each group.
///
/// Otherwise the first tree counts for SLs that are left that closes no circle with what unicast really
/// depends on; and then one for which entries of the SL2VL tables are set that no unicast packet uses.
///
/// - `known`: an order that all of unicast ascends in, where there is one.
///
/// Cost: O(R (S + C)) with R roots, S switches and C channels where a tree keeps to a known order; where one
/// fits everything that keeps to it, turns x VLs, and insertions as follow, but far fewer.
/// Otherwise that of finding the dependencies of unicast, O(L S) with L LIDs times the VLs in use; then,
/// for each root tried, O(S) insertions into a topological order, each at worst the graph of
/// dependencies and mostly O(1). Where many SLs fit into hardly any tree, the search ends after a
/// counted amount of that; SLs that are left then count as not served.
pub fn mcast_trees(
    fabric: &Fabric,
    hops: &Hops,
    lft: &Lft,
    sl2vl: &mut Sl2Vl,
    path_sl: &PathSl,
    known: Option<&KnownOrder>,
) -> McastTrees {
    let classes = SlClasses::new(sl2vl);
    let roots = Roots::new(fabric, hops);
    let mut forest = Forest { fabric, classes: &classes, trees: Vec::new() };
    let mut pending: Vec<usize> = (0..classes.len()).collect();
    if let Some(known) = known {
        let graph = Ascending { fabric, sl2vl, classes: &classes, order: &known.lanes };
        let mut growth = Growth::new(fabric, classes.len(), graph);
        let given = known.tree.channels_down(fabric);
        forest.add(&mut growth, &mut pending, |growth, classes| {
            roots
                .shallowest(growth, classes)
                .or_else(|| growth.replay(&given, classes).then(|| given.clone()))
        });
    }
    if pending.is_empty() {
        return forest.finish();
    }
    let mut growth = Growth::new(fabric, classes.len(), Dependencies::new(fabric, &classes, sl2vl));
    if let Some(known) = known {
        growth.graph.assume(&known.lanes);
        if let Some(edges) = roots.first(&mut growth, &pending, ANY_WAY_PATIENCE) {
            forest.trees.push((edges, pending));
            return forest.finish();
        }
    }
    if !growth.graph.follow(lft, path_sl) {
        forest.trees.clear();
        return forest.finish();
    }
    forest.replay(&mut growth);
    let patience = if known.is_some() { ORDERED_PATIENCE } else { PATIENCE };
    forest.search(&mut growth, (&roots, patience), &mut pending);
    if !pending.is_empty() {
        growth.graph.find_used(lft, path_sl);
        forest.search(&mut growth, (&roots, patience), &mut pending);
        growth.graph.write_vls(sl2vl);
    }
    forest.finish()
}

/// Where trees may begin.
struct Roots {
    /// The best first, each with its distance to the farthest switch with adapters.
    list: Vec<(SwitchId, u8)>,
}

impl Roots {
    fn new(fabric: &Fabric, hops: &Hops) -> Self {
        let adapters: Vec<u16> =
            fabric.switch_ids().map(|s| u16::from(fabric.num_adapters_on(s) > 0)).collect();
        let key = |s: SwitchId| {
            let far = hops.row(s).iter().zip(&adapters).map(|(&h, &has)| u16::from(h) * has);
            let (most, total) = far.fold((0, 0), |(most, total), h| (h.max(most), total + u32::from(h)));
            (most, total, s)
        };
        let mut keys: Vec<(u16, u32, SwitchId)> = fabric.switch_ids().map(key).collect();
        keys.sort_unstable();
        keys.truncate((WORK / fabric.num_switches().max(1)).clamp(1, ROOTS));
        Self { list: keys.into_iter().map(|(most, _, s)| (s, most as u8)).collect() }
    }

    /// The tree with the least distance from root to adapters.
    fn shallowest<G: Graph>(&self, growth: &mut Growth<'_, G>, classes: &[usize]) -> Option<Vec<ChannelId>> {
        let mut best: Option<(Vec<ChannelId>, u32)> = None;
        for &(root, far) in self.list.iter().take(ORDERED_ROOTS) {
            if best.as_ref().is_some_and(|(_, depth)| *depth <= u32::from(far)) {
                break;
            }
            if let Some((edges, depth)) = growth.grow(root, classes)
                && best.as_ref().is_none_or(|(_, least)| depth < *least)
            {
                best = Some((edges, depth));
            }
        }
        best.map(|(edges, _)| edges)
    }

    /// The tree of the first root that has one.
    ///
    /// - `patience`: virtual channels that may be looked at before no further root is tried.
    fn first(
        &self,
        growth: &mut Growth<'_, Dependencies<'_>>,
        classes: &[usize],
        patience: usize,
    ) -> Option<Vec<ChannelId>> {
        let tried = if classes.len() > 1 { SHARED_ROOTS } else { ROOTS };
        let end = growth.graph.looked_at() + patience;
        self.list.iter().take(tried).find_map(|&(root, _)| {
            let patient = growth.graph.looked_at() < end;
            if patient { growth.grow(root, classes).map(|(edges, _)| edges) } else { None }
        })
    }
}

/// Trees that were found, free of circles together.
struct Forest<'a> {
    fabric: &'a Fabric,
    classes: &'a SlClasses,
    /// Each with the classes that it serves.
    trees: Vec<(Vec<ChannelId>, Vec<usize>)>,
}

impl Forest<'_> {
    /// Adds trees for some classes until none is found for those that are left.
    ///
    /// - `find`: a tree for all of some classes, or none.
    fn add<G: Graph>(
        &mut self,
        growth: &mut Growth<'_, G>,
        pending: &mut Vec<usize>,
        mut find: impl FnMut(&mut Growth<'_, G>, &[usize]) -> Option<Vec<ChannelId>>,
    ) {
        let mut failed = Vec::new();
        while let Some((&first, others)) = pending.split_first() {
            let whole = if others.is_empty() { None } else { find(growth, pending) };
            let (edges, served) = match whole {
                Some(edges) => (edges, pending.clone()),
                None => match find(growth, &[first]) {
                    None => {
                        // Nothing is worth much without SL 0, which every class comes after.
                        if first == 0 {
                            return;
                        }
                        failed.push(first);
                        pending.remove(0);
                        continue;
                    }
                    Some(edges) => {
                        let more = others.iter().copied().filter(|&class| growth.replay(&edges, &[class]));
                        let served = std::iter::once(first).chain(more.collect::<Vec<_>>()).collect();
                        (edges, served)
                    }
                },
            };
            pending.retain(|class| !served.contains(class));
            self.trees.push((edges, served));
        }
        *pending = failed;
    }

    /// Adds trees that close no circle with what is in the graph, until the patience is at its end.
    fn search(
        &mut self,
        growth: &mut Growth<'_, Dependencies<'_>>,
        (roots, patience): (&Roots, usize),
        pending: &mut Vec<usize>,
    ) {
        let end = growth.graph.looked_at() + patience;
        self.add(growth, pending, |growth, classes| {
            let left = end.saturating_sub(growth.graph.looked_at());
            roots.first(growth, classes, left)
        });
    }

    /// Adds what the trees depend on to a graph. They keep to the order that unicast keeps to, so they fit.
    fn replay(&self, growth: &mut Growth<'_, Dependencies<'_>>) {
        for (edges, served) in &self.trees {
            growth.replay(edges, served);
        }
    }

    /// The trees as groups with every end port as a member, that of SL 0 first.
    fn finish(mut self) -> McastTrees {
        self.trees.sort_by_key(|(_, served)| served.iter().copied().min());
        let sls = |served: &[usize]| served.iter().fold(0, |all, &class| all | self.classes.members[class]);
        let groups = self.trees.iter().zip(McastGroup::FIRST_MLID..);
        let trees: Vec<McastGroup> =
            groups.map(|((edges, served), mlid)| everyone(self.fabric, edges, mlid, sls(served))).collect();
        let served = trees.iter().filter_map(|tree| tree.sls).fold(0, |all, sls| all | sls);
        McastTrees { trees, unserved: !served }
    }
}

/// A tree with every end port as a member.
fn everyone(fabric: &Fabric, edges: &[ChannelId], mlid: u16, sls: u16) -> McastGroup {
    let mut ports = vec![PortSet::default(); fabric.num_switches()];
    for &edge in edges {
        let c = fabric.channels().get(edge);
        ports[c.from.index()].insert(c.out_port);
        ports[c.to.index()].insert(c.in_port);
    }
    for (s, port) in fabric.endports().iter().filter_map(|e| e.attachment) {
        ports[s.index()].insert(port);
    }
    McastGroup { mlid, sls: Some(sls), ports: fabric.switch_ids().zip(ports).collect() }
}

/// A tree that grows.
struct Growth<'a, G> {
    fabric: &'a Fabric,
    graph: G,
    /// Classes of SLs.
    classes: usize,
    /// By switch: the tree's channels that leave it.
    out: Vec<Vec<ChannelId>>,
    /// By channel x class: VLs of the multicast packets in it, as bits.
    held: Vec<u16>,
}

impl<'a, G: Graph> Growth<'a, G> {
    fn new(fabric: &'a Fabric, classes: usize, graph: G) -> Self {
        let held = vec![0; fabric.channels().len() * classes];
        Self { fabric, graph, classes, out: vec![Vec::new(); fabric.num_switches()], held }
    }

    /// Grows a tree from a root for some classes of SLs; its channels away from the root in the order
    /// in which they were added, and how many lead from the root to the farthest switch with adapters.
    /// What it depends on stays in the graph; if there is none nothing does.
    fn grow(&mut self, root: SwitchId, classes: &[usize]) -> Option<(Vec<ChannelId>, u32)> {
        let channels = self.fabric.channels();
        let start = self.graph.checkpoint();
        let mut inside = vec![false; self.fabric.num_switches()];
        inside[root.index()] = true;
        let mut queue = vec![(root, 0)];
        let mut deepest = 0;
        let mut edges = Vec::with_capacity(inside.len());
        let mut at = 0;
        while let Some(&(s, depth)) = queue.get(at) {
            at += 1;
            if self.fabric.num_adapters_on(s) > 0 {
                deepest = depth;
            }
            // Switches with many ways on first: they are to branch, the others to be leaves.
            let mut ahead: Vec<ChannelId> = channels.out(s).map(|(id, _)| id).collect();
            ahead.sort_by_key(|&id| (Reverse(channels.out_range(channels.get(id).to).len()), id));
            for id in ahead {
                let to = channels.get(id).to;
                if !inside[to.index()] && self.attach(id, classes) {
                    inside[to.index()] = true;
                    queue.push((to, depth + 1));
                    edges.push(id);
                }
            }
        }
        let spans = queue.len() == inside.len();
        if !spans {
            self.graph.roll_back(start);
        }
        self.clear();
        spans.then_some((edges, deepest))
    }

    /// Whether a tree serves some classes of SLs. If so what it depends on stays in the graph.
    fn replay(&mut self, edges: &[ChannelId], classes: &[usize]) -> bool {
        let start = self.graph.checkpoint();
        let serves = edges.iter().all(|&edge| self.attach(edge, classes));
        if !serves {
            self.graph.roll_back(start);
        }
        self.clear();
        serves
    }

    fn clear(&mut self) {
        self.out.iter_mut().for_each(Vec::clear);
        self.held.fill(0);
    }

    /// Adds a switch at the end of a channel that leaves the tree, with what packets from and to it
    /// wait for. False where that closes a circle or packets would be dropped; then nothing is added.
    fn attach(&mut self, edge: ChannelId, classes: &[usize]) -> bool {
        let start = self.graph.checkpoint();
        let mut changed = Vec::new();
        let added = classes.iter().all(|&class| self.attach_class(edge, class, &mut changed));
        if added {
            let c = self.fabric.channels().get(edge);
            self.out[c.from.index()].push(edge);
            self.out[c.to.index()].push(c.reverse);
        } else {
            self.graph.roll_back(start);
            self.restore(&mut changed, 0);
        }
        added
    }

    fn attach_class(&mut self, edge: ChannelId, class: usize, changed: &mut Vec<(usize, u16)>) -> bool {
        let channels = self.fabric.channels();
        let (back, near) = (channels.get(edge).reverse, channels.get(edge).from);
        for c in [edge, back] {
            let injected = self.graph.injected(c, class);
            self.hold(c, class, injected, changed);
            if injected == 0 {
                return false;
            }
        }
        // Out of the tree to the new switch, and from there into the tree.
        self.out[near.index()].clone().into_iter().all(|away| {
            let towards = channels.get(away).reverse;
            self.turn(towards, edge, class, changed) && self.turn(back, away, class, changed)
        })
    }

    /// Adds a turn of a tree, on the first VL that closes no circle.
    fn turn(
        &mut self,
        first: ChannelId,
        second: ChannelId,
        class: usize,
        changed: &mut Vec<(usize, u16)>,
    ) -> bool {
        let choices = self.graph.choices(first, second, class);
        choices.into_iter().any(|vl| {
            let (start, marks) = (self.graph.checkpoint(), changed.len());
            let held = self.held[self.place(first, class)];
            let mut fits = self.graph.depend(first, held, second, vl);
            if fits {
                // Packets may be on another VL in what follows than others were before.
                let new = self.hold(second, class, vl, changed);
                let far = self.fabric.channels().get(second);
                fits = new == 0
                    || self.out[far.to.index()].iter().filter(|&&c| c != far.reverse).all(|&c| {
                        let next = self.graph.vl(second, c, class);
                        self.graph.depend(second, new, c, next)
                    });
            }
            if fits {
                self.graph.set_vl(first, second, class, vl);
            } else {
                self.graph.roll_back(start);
                self.restore(changed, marks);
            }
            fits
        })
    }

    fn place(&self, channel: ChannelId, class: usize) -> usize {
        channel.index() * self.classes + class
    }

    /// Adds VLs to those of a channel; those that were not there before.
    fn hold(&mut self, c: ChannelId, class: usize, vls: u16, changed: &mut Vec<(usize, u16)>) -> u16 {
        let place = self.place(c, class);
        let old = self.held[place];
        changed.push((place, old));
        self.held[place] |= vls;
        vls & !old
    }

    fn restore(&mut self, changed: &mut Vec<(usize, u16)>, marks: usize) {
        for (place, old) in changed.drain(marks..).rev() {
            self.held[place] = old;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::{Rule, triangles};
    use crate::topology::Dragonfly;

    #[test]
    fn a_dragonfly_with_the_global_links_first_has_a_tree_whatever_way_unicast_goes() {
        for p in [2, 3, 4] {
            let fabric = Dragonfly::balanced(p).build().unwrap();
            let hops = Hops::new(&fabric).unwrap();
            let rule = Rule::FirstTurnFree(triangles(&fabric, SwitchId(0), false));
            let (sl2vl, order) = (rule.sl2vl(&fabric), rule.lane_order().unwrap());
            let classes = SlClasses::new(&sl2vl);
            let roots = Roots::new(&fabric, &hops);
            let graph = Ascending { fabric: &fabric, sl2vl: &sl2vl, classes: &classes, order: &order };
            assert!(roots.shallowest(&mut Growth::new(&fabric, 1, graph), &[0]).is_none(), "p = {p}");

            let mut growth = Growth::new(&fabric, 1, Dependencies::new(&fabric, &classes, &sl2vl));
            growth.graph.assume(&order);
            let tree = roots.first(&mut growth, &[0], ANY_WAY_PATIENCE).expect("a tree");
            let mut depth = vec![0; fabric.num_switches()];
            for c in tree.iter().map(|&edge| fabric.channels().get(edge)) {
                depth[c.to.index()] = depth[c.from.index()] + 1;
            }
            assert_eq!(tree.len(), fabric.num_switches() - 1);
            assert_eq!(depth.into_iter().max(), Some(3), "p = {p}");
        }
    }
}
