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
use super::dependencies::Dependencies;
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::tables::{Lft, McastGroup, PathSl, PortSet, Sl2Vl};

/// How many roots are tried for a tree at most, and how many switches they may have together.
const ROOTS: usize = 64;
const WORK: usize = 200_000;
/// Virtual channels that may be looked at before no further root is tried: about a second.
const PATIENCE: usize = 10_000_000;

/// Trees for multicast groups.
#[derive(Clone, Debug, Default)]
pub struct McastTrees {
    /// Each reaches every end port and serves groups with some SLs; the first one SL 0, if any does.
    pub trees: Vec<McastGroup>,
    /// SLs that no tree was found for, bit `n` = SL `n`.
    pub unserved: u16,
}

/// Finds spanning trees whose turns have no circle together with the dependencies of unicast: one
/// tree for all SLs if there is one, else further trees for the SLs that the first does not serve.
/// All of them are free of circles together, so groups with different SLs may exist side by side.
///
/// A tree grows breadth first from a root, over each channel that closes no circle. Roots come in
/// order of their greatest and then of their total distance to other switches, so the first tree
/// that fits is a shallow one; ties by number of the switch.
///
/// Cost: that of finding the dependencies of unicast, O(L S) with L LIDs and S switches times the
/// VLs in use; then, for each root tried, O(S) insertions into a topological order, each at worst
/// the graph of dependencies and mostly O(1). Where many SLs fit into hardly any tree, the search ends
/// after a counted amount of that; SLs that are left then count as not served.
pub fn mcast_trees(
    fabric: &Fabric,
    hops: &Hops,
    lft: &Lft,
    sl2vl: &mut Sl2Vl,
    path_sl: &PathSl,
) -> McastTrees {
    let mut result = McastTrees::default();
    let Some(graph) = Dependencies::new(fabric, lft, sl2vl, path_sl) else {
        result.unserved = u16::MAX;
        return result;
    };
    let mut growth = Growth::new(fabric, graph);
    let mut roots: Vec<SwitchId> = fabric.switch_ids().collect();
    let total = |s: SwitchId| hops.row(s).iter().map(|&h| u32::from(h)).sum::<u32>();
    roots.sort_by_cached_key(|&s| (hops.row(s).iter().copied().max(), total(s), s));
    roots.truncate((WORK / fabric.num_switches().max(1)).clamp(1, ROOTS));

    let mut pending: Vec<usize> = (0..growth.graph.classes.len()).collect();
    for free in [false, true] {
        if pending.is_empty() {
            break;
        }
        if free {
            growth.graph.find_used(lft, path_sl);
        }
        let mut failed = Vec::new();
        let end = growth.graph.looked_at() + PATIENCE;
        while let Some((&first, others)) = pending.split_first() {
            let mut grow = |classes: &[usize]| {
                let patient = |growth: &Growth<'_>| growth.graph.looked_at() < end;
                roots
                    .iter()
                    .find_map(|&root| if patient(&growth) { growth.grow(root, classes) } else { None })
            };
            let whole = if others.is_empty() { None } else { grow(&pending) };
            let (edges, served) = match whole {
                Some(edges) => (edges, pending.clone()),
                None => match grow(&[first]) {
                    None => {
                        failed.push(first);
                        pending.remove(0);
                        continue;
                    }
                    Some(edges) => {
                        let more = others.iter().copied().filter(|&class| growth.replay(&edges, class));
                        let served = std::iter::once(first).chain(more.collect::<Vec<_>>()).collect();
                        (edges, served)
                    }
                },
            };
            let sls = served.iter().fold(0, |all, &class| all | growth.graph.classes.members[class]);
            let mlid = McastGroup::FIRST_MLID + result.trees.len() as u16;
            result.trees.push(everyone(fabric, &edges, mlid, sls));
            pending.retain(|class| !served.contains(class));
        }
        pending = failed;
        if free {
            growth.graph.write_vls(sl2vl);
        }
    }
    result.unserved = pending.iter().fold(0, |all, &class| all | growth.graph.classes.members[class]);
    result
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
struct Growth<'a> {
    fabric: &'a Fabric,
    graph: Dependencies<'a>,
    /// By switch: the tree's channels that leave it.
    out: Vec<Vec<ChannelId>>,
    /// By channel x class: VLs of the multicast packets in it, as bits.
    held: Vec<u16>,
}

impl<'a> Growth<'a> {
    fn new(fabric: &'a Fabric, graph: Dependencies<'a>) -> Self {
        let held = vec![0; fabric.channels().len() * graph.classes.len()];
        Self { fabric, graph, out: vec![Vec::new(); fabric.num_switches()], held }
    }

    /// Grows a tree from a root for some classes of SLs; its channels away from the root in the order
    /// in which they were added. What it depends on stays in the graph; if there is none nothing does.
    fn grow(&mut self, root: SwitchId, classes: &[usize]) -> Option<Vec<ChannelId>> {
        let channels = self.fabric.channels();
        let start = self.graph.checkpoint();
        let mut inside = vec![false; self.fabric.num_switches()];
        inside[root.index()] = true;
        let mut queue = vec![root];
        let mut edges = Vec::with_capacity(inside.len());
        let mut at = 0;
        while let Some(&s) = queue.get(at) {
            at += 1;
            // Switches with many ways on first: they are to branch, the others to be leaves.
            let mut ahead: Vec<ChannelId> = channels.out(s).map(|(id, _)| id).collect();
            ahead.sort_by_key(|&id| (Reverse(channels.out_range(channels.get(id).to).len()), id));
            for id in ahead {
                let to = channels.get(id).to;
                if !inside[to.index()] && self.attach(id, classes) {
                    inside[to.index()] = true;
                    queue.push(to);
                    edges.push(id);
                }
            }
        }
        let spans = queue.len() == inside.len();
        if !spans {
            self.graph.roll_back(start);
        }
        self.clear();
        spans.then_some(edges)
    }

    /// Whether a tree serves one more class of SLs. If so what it depends on stays in the graph.
    fn replay(&mut self, edges: &[ChannelId], class: usize) -> bool {
        let start = self.graph.checkpoint();
        let serves = edges.iter().all(|&edge| self.attach(edge, &[class]));
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
        channel.index() * self.graph.classes.len() + class
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
