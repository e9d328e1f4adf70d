//! Spanning trees for multicast that close no credit loop with the unicast paths.
//!
//! A multicast packet enters a switch by one port and leaves by all others of its group's tree. It frees its buffer
//! when the last copy has left, so the channel by which it arrived waits for every channel by which it leaves. Copies
//! do not wait for each other: a credit is spent when a packet is sent and is never reserved, and a copy that was sent
//! needs nothing more from the switch that sent it. So the dependencies of a tree are its turns, each with the VL of
//! the SL2VL tables. Together with those of unicast they must be acyclic. All turns of a spanning tree count, from
//! every end port and with every SL that groups may have; a group uses some of them for its members.
//!
//! The turns of one tree alone are never cyclic. Ports may join groups at any time: nothing has to be proven again.
//!
//! If no tree fits, this module sets entries of the SL2VL tables that unicast does not use.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, Ordering};

mod adjacent;
mod ascending;
mod dependencies;
mod grid;

pub use self::grid::{given_tree, grid_trees, staggered_tree};

use self::ascending::Ascending;
use self::dependencies::{Dependencies, Graph};
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::ordering::{Tree, VirtualChannelOrder};
use crate::routing::Hops;
use crate::tables::{Lft, McastGroup, PathSl, PortSet, Sl2Vl, SlClasses};

/// The most roots that are tried for a tree, and the most switches that their trees may have together.
const MAX_ROOTS: usize = 64;
const MAX_SWITCHES: usize = 200_000;
/// Number of virtual channels visited after which no further root is tried: a third of a second. A torus of 8x8x8 without ten
/// links has a tree beside its one SL after half of that.
const BUDGET: usize = 10_000_000;
/// The same where unicast has several SLs, as one can be kept for multicast.
const BUDGET_OF_SEVERAL: usize = 3_000_000;
/// The same if an order is known, as the routing can then reserve a tree in it.
const ORDERED_BUDGET: usize = 1_000_000;
/// The same that a single tree for SL 0 may take. On a Megafly of 1,088 switches one was found after twelve million.
const TREE_BUDGET: usize = 16_000_000;

/// Trees for multicast groups.
#[derive(Clone, Debug, Default)]
pub struct McastTrees {
    /// Each tree reaches every end port and serves groups with some SLs. The first serves SL 0, if any does.
    pub trees: Vec<McastGroup>,
    /// SLs without a tree, bit `n` = SL `n`.
    pub unserved: u16,
}

impl McastTrees {
    /// Whether groups without configuration, which use SL 0, have a tree.
    pub fn serve_default(&self) -> bool {
        self.unserved & 1 == 0
    }
}

/// An order that shows why unicast is free of credit loops.
#[derive(Clone, Debug)]
pub struct KnownOrder {
    /// The order in which all unicast packets ascend, with any SL that they may have.
    pub lanes: VirtualChannelOrder,
    /// Spanning trees whose paths may also ascend in it, each for at least one SL.
    pub trees: Vec<Tree>,
    /// Whether only trees that obey the order are searched for. Then the paths of unicast are not needed.
    pub suffices: bool,
}

/// Finds spanning trees whose turns are acyclic together with the dependencies of unicast: one tree for all SLs if
/// possible, else further trees for the SLs that the first does not serve. All of them are acyclic together, so groups
/// with different SLs may exist at the same time.
///
/// A tree grows breadth first from a root, over each channel that closes no cycle. Roots are tried in order of their
/// greatest, then of their total distance to switches with adapters; ties go to the lowest switch number.
///
/// 1. If the order of unicast is known: trees that obey it too. They close no cycle for any paths of unicast,
///    so the forwarding tables are not needed. Of several, the one whose adapters are nearest to its root is
///    taken. If none grows, the trees given with the order are tried. If the order
///    [suffices](KnownOrder::suffices), the search ends here.
/// 2. For the remaining SLs, one tree that does not obey the order itself but closes no cycle with any path that does.
///    The forwarding tables are not needed either. A Dragonfly with the global links first has such a tree: from a
///    root to its group, over global links, and from there to the other switches of each group.
/// 3. The first tree that closes no cycle with the real dependencies of unicast.
/// 4. The same, with entries of the SL2VL tables set that no unicast packet uses.
///
/// - `known`: an order in which all unicast paths ascend, if there is one.
///
/// Cost, with R roots, S switches and C channels: O(R (S + C)) for step 1. Step 2 takes O(turns x VLs) and insertions
/// as in step 3, but far fewer. Steps 3 and 4 find the dependencies of unicast in O(L S) with L LIDs, times the VLs in
/// use. Then each root takes O(S) insertions into a topological order; each costs at worst the size of the dependency
/// graph, mostly O(1). A budget ends the search if hardly any tree fits many SLs; the remaining SLs count as not
/// served.
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
        let graph = Ascending::new(fabric, sl2vl, &classes, &known.lanes);
        let mut growth = Growth::new(fabric, classes.len(), graph);
        let given: Vec<_> = known.trees.iter().map(|tree| tree.channels_down(fabric)).collect();
        forest.add(&mut growth, &mut pending, |growth, classes| {
            let given = |growth: &mut Growth<'_, _>| {
                given.iter().find(|edges| growth.replay(edges, classes)).cloned()
            };
            roots.shallowest(growth, classes).or_else(|| given(growth))
        });
    }
    if pending.is_empty() || known.is_some_and(|known| known.suffices) {
        return forest.finish();
    }
    let mut growth = Growth::new(fabric, classes.len(), Dependencies::new(fabric, &classes, sl2vl));
    if let Some(known) = known {
        growth.graph.assume(&known.lanes);
        if let Some(edges) = roots.first(&mut growth, &pending, ORDERED_BUDGET) {
            forest.trees.push((edges, pending));
            return forest.finish();
        }
    }
    if !growth.graph.follow(lft, path_sl) {
        forest.trees.clear();
        return forest.finish();
    }
    forest.replay(&mut growth);
    let budget = match known {
        Some(_) => ORDERED_BUDGET,
        None if classes.len() == 1 => BUDGET,
        None => BUDGET_OF_SEVERAL,
    };
    forest.search(&mut growth, (&roots, budget), &mut pending);
    if !pending.is_empty() {
        growth.graph.find_used(lft, path_sl);
        forest.search(&mut growth, (&roots, budget), &mut pending);
        growth.graph.write_vls(sl2vl);
    }
    forest.finish()
}

/// The possible roots of trees.
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
        keys.truncate((MAX_SWITCHES / fabric.num_switches().max(1)).clamp(1, MAX_ROOTS));
        Self { list: keys.into_iter().map(|(most, _, s)| (s, most as u8)).collect() }
    }

    /// The tree with the least distance from its root to adapters.
    fn shallowest<G: Graph>(&self, growth: &mut Growth<'_, G>, classes: &[usize]) -> Option<Vec<ChannelId>> {
        let mut best: Option<(Vec<ChannelId>, u32)> = None;
        for &(root, far) in &self.list {
            if best.as_ref().is_some_and(|(_, depth)| *depth <= u32::from(far)) {
                break;
            }
            let better = |&(_, depth): &(_, u32)| best.as_ref().is_none_or(|(_, least)| depth < *least);
            if let Some(found) = growth.grow(root, classes, usize::MAX).filter(better) {
                best = Some(found);
            }
        }
        best.map(|(edges, _)| edges)
    }

    /// The tree of the first root that yields one. Where the very first one does not, two roots are tried at once, on any
    /// number of cores; both count.
    ///
    /// - `budget`: number of virtual channels visited after which no further root is tried.
    fn first(
        &self,
        growth: &mut Growth<'_, Dependencies<'_>>,
        classes: &[usize],
        budget: usize,
    ) -> Option<Vec<ChannelId>> {
        let start = growth.graph.visited();
        // Groups without configuration have SL 0: other SLs are not worth as much.
        let most = start + if classes[0] == 0 { TREE_BUDGET } else { budget };
        let (&(first, _), others) = self.list.split_first().filter(|_| budget > 0)?;
        if let Some((edges, _)) = growth.grow(first, classes, most) {
            return Some(edges);
        }
        let mut beside: Option<Growth<'_, Dependencies<'_>>> = None;
        for pair in others.chunks(2) {
            if growth.graph.visited() >= start + budget {
                break;
            }
            let beside = beside.get_or_insert_with(|| growth.clone());
            let found = AtomicBool::new(false);
            let before = beside.graph.visited();
            let one = || {
                let tree = growth.grow(pair[0].0, classes, most);
                found.store(tree.is_some(), Ordering::Relaxed);
                tree
            };
            let other = || {
                let &(root, _) = pair.get(1).filter(|_| !found.load(Ordering::Relaxed))?;
                beside.grow(root, classes, most)
            };
            let (one, other) = rayon::join(one, other);
            if let Some((edges, _)) = one {
                return Some(edges);
            }
            growth.graph.count(beside.graph.visited() - before);
            if let Some((edges, _)) = other {
                let serves = growth.replay(&edges, classes);
                return serves.then_some(edges);
            }
        }
        None
    }
}

/// The trees found so far, acyclic together.
struct Forest<'a> {
    fabric: &'a Fabric,
    classes: &'a SlClasses,
    /// Each tree with the classes that it serves.
    trees: Vec<(Vec<ChannelId>, Vec<usize>)>,
}

impl Forest<'_> {
    /// Adds trees for some classes until none is found for the remaining ones.
    ///
    /// - `find`: returns a tree that serves all given classes, or none.
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
                        // Without a tree for SL 0, the lowest SL, other trees are useless.
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

    /// Adds trees that close no cycle with the graph, until the budget is spent.
    fn search(
        &mut self,
        growth: &mut Growth<'_, Dependencies<'_>>,
        (roots, budget): (&Roots, usize),
        pending: &mut Vec<usize>,
    ) {
        let end = growth.graph.visited() + budget;
        self.add(growth, pending, |growth, classes| {
            let left = end.saturating_sub(growth.graph.visited());
            // Something has to be left for a tree with less to serve.
            let share = if classes.len() > 1 { 2 } else { 1 };
            roots.first(growth, classes, left / share)
        });
    }

    /// Adds the dependencies of the trees to a graph. They obey the order of unicast, so no cycle is closed.
    fn replay(&self, growth: &mut Growth<'_, Dependencies<'_>>) {
        for (edges, served) in &self.trees {
            growth.replay(edges, served);
        }
    }

    /// The trees as groups with every end port as a member, that of SL 0 first.
    fn finish(mut self) -> McastTrees {
        self.trees.sort_by_key(|(_, served)| served.iter().copied().min());
        let sls = |served: &[usize]| served.iter().fold(0, |all, &class| all | self.classes.members(class));
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

/// A growing tree.
#[derive(Clone)]
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

    /// Grows a tree from a root for some classes of SLs. Returns its channels away from the root in the order in which
    /// they were added, and the distance from the root to the farthest switch with adapters. The graph keeps the
    /// dependencies of the tree; without a tree it is unchanged.
    ///
    /// - `most`: visits of the graph after which it gives up.
    fn grow(&mut self, root: SwitchId, classes: &[usize], most: usize) -> Option<(Vec<ChannelId>, u32)> {
        let channels = self.fabric.channels();
        let start = self.graph.checkpoint();
        let mut inside = vec![false; self.fabric.num_switches()];
        inside[root.index()] = true;
        let mut queue = vec![(root, 0)];
        let mut deepest = 0;
        let mut edges = Vec::with_capacity(inside.len());
        let mut at = 0;
        // By switch: channels by which the tree may still reach it.
        let mut open: Vec<usize> = self.fabric.switch_ids().map(|s| channels.out_range(s).len()).collect();
        'tree: while let Some(&(s, depth)) = queue.get(at) {
            at += 1;
            if self.fabric.num_adapters_on(s) > 0 {
                deepest = depth;
            }
            // Switches with many channels first: they should be inner nodes, the others leaves.
            let mut ahead: Vec<ChannelId> = channels.out(s).map(|(id, _)| id).collect();
            ahead.sort_by_key(|&id| (Reverse(channels.out_range(channels.get(id).to).len()), id));
            for id in ahead {
                let to = channels.get(id).to;
                if inside[to.index()] {
                    continue;
                }
                if self.attach(id, classes) {
                    inside[to.index()] = true;
                    queue.push((to, depth + 1));
                    edges.push(id);
                    continue;
                }
                open[to.index()] -= 1;
                if open[to.index()] == 0 || self.graph.visited() > most {
                    break 'tree;
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

    /// Whether a tree serves some classes of SLs. If so the graph keeps its dependencies.
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

    /// Adds the switch at the end of a channel that leaves the tree, with the dependencies of packets from and to it.
    /// False if that closes a cycle or packets would be dropped; nothing is added then.
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

    /// Adds a turn of a tree, on the first VL that closes no cycle.
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
            let held = self.held[self.index(first, class)];
            let mut fits = self.graph.depend(first, held, second, vl);
            if fits {
                // On the channels that follow, packets may now be on another VL than before.
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

    fn index(&self, channel: ChannelId, class: usize) -> usize {
        channel.index() * self.classes + class
    }

    /// Adds VLs to those of a channel. Returns the new ones.
    fn hold(&mut self, c: ChannelId, class: usize, vls: u16, changed: &mut Vec<(usize, u16)>) -> u16 {
        let index = self.index(c, class);
        let old = self.held[index];
        changed.push((index, old));
        self.held[index] |= vls;
        vls & !old
    }

    fn restore(&mut self, changed: &mut Vec<(usize, u16)>, marks: usize) {
        for (index, old) in changed.drain(marks..).rev() {
            self.held[index] = old;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::{Rank, Rule, global_links_first};
    use crate::topology::{Dragonfly, small_members};

    #[test]
    fn of_several_roots_the_first_one_with_a_tree_is_taken() {
        let (mut later, mut none) = (0, 0);
        for (name, fabric) in small_members() {
            let hops = Hops::new(&fabric).unwrap();
            let roots = Roots::new(&fabric, &hops);
            for factor in [3, 7, 11, 23, 41] {
                let rank = Rank::by_key(&fabric, |id, _| id.index() * factor % 101);
                let rule = Rule::FirstTurnFree(rank);
                let (sl2vl, order) = (rule.sl2vl(&fabric), rule.virtual_channel_order().unwrap());
                let classes = SlClasses::new(&sl2vl);
                let growth = || {
                    let mut growth = Growth::new(&fabric, 1, Dependencies::new(&fabric, &classes, &sl2vl));
                    growth.graph.assume(&order);
                    growth
                };
                let grown = |&(root, _): &(SwitchId, u8)| Some(growth().grow(root, &[0], usize::MAX)?.0);
                let found = roots.first(&mut growth(), &[0], 1 << 40);
                assert_eq!(found, roots.list.iter().find_map(grown), "{name}");
                later += usize::from(found.is_some() && grown(&roots.list[0]).is_none());
                none += usize::from(found.is_none());
            }
        }
        assert!(later > 10 && none > 0, "{later} at later roots, {none} without a tree");
    }

    #[test]
    fn a_dragonfly_with_the_global_links_first_has_a_tree_for_all_unicast_paths() {
        for p in [2, 3, 4] {
            let fabric = Dragonfly::balanced(p).build().unwrap();
            let hops = Hops::new(&fabric).unwrap();
            let rule = Rule::FirstTurnFree(global_links_first(&fabric, SwitchId(0)));
            let (sl2vl, order) = (rule.sl2vl(&fabric), rule.virtual_channel_order().unwrap());
            let classes = SlClasses::new(&sl2vl);
            let roots = Roots::new(&fabric, &hops);
            let graph = Ascending::new(&fabric, &sl2vl, &classes, &order);
            assert!(roots.shallowest(&mut Growth::new(&fabric, 1, graph), &[0]).is_none(), "p = {p}");

            let mut growth = Growth::new(&fabric, 1, Dependencies::new(&fabric, &classes, &sl2vl));
            growth.graph.assume(&order);
            let tree = roots.first(&mut growth, &[0], ORDERED_BUDGET).expect("a tree");
            let mut depth = vec![0; fabric.num_switches()];
            for c in tree.iter().map(|&edge| fabric.channels().get(edge)) {
                depth[c.to.index()] = depth[c.from.index()] + 1;
            }
            assert_eq!(tree.len(), fabric.num_switches() - 1);
            assert_eq!(depth.into_iter().max(), Some(3), "p = {p}");
        }
    }
}
