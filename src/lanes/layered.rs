//! Paths on VLs until none is left, the rest by up*/down*.

use super::{LaneLimits, Lanes, LanesError};
use crate::fabric::{ChannelId, Fabric, Lid, PortNum, SwitchId, TurnNumbers, Vl};
use crate::ordering::{Edges, Rank, TopologicalOrder, VirtualChannelOrder};
use crate::tables::{Lft, PathSl, Sl2Vl, SlVlRow};

/// The result of [`layered`].
#[derive(Clone, Debug)]
pub struct Layered {
    /// The VLs and SLs.
    pub lanes: Lanes,
    /// LIDs, ascending, to which some path fits on no VL: all paths to them must go up and then down.
    pub left: Vec<Lid>,
    /// An order in which all packets ascend.
    pub order: VirtualChannelOrder,
}

/// Breaks credit loops by VLs and, if none is left, leaves destinations to up*/down* (Hoefler et al., section
/// III.D; the layers are those of LASH, Skeie et al.).
///
/// VL 0 belongs to up*/down*: it takes the paths that already ascend in `rank`. Every other path goes to the lowest
/// further VL on which its dependencies close no cycle with those of earlier paths. If there is none, its destination
/// LID is left to up*/down*: a switch has one out port for a LID, so all paths to it have to change. SL n maps to VL n
/// at every port, so a packet never changes its VL.
///
/// Destinations come in LID order, sources in GUID order. A dependency that closed a cycle is not tried again on that
/// VL, even if paths to a LID that was left later caused the cycle.
///
/// - `lft`: loop-free tables that reach every LID.
/// - `rank`: of up*/down* from a root; the caller routes the remaining LIDs by it.
/// - `limits`: at least one VL and one SL; the fewer of both counts.
///
/// Cost: O(S D H) time with S switches, D destination LIDs and H the mean path length, and for each turn that is new
/// to a VL, at worst the size of that VL's graph, mostly O(1). Memory: 4 bytes a turn, 4 for each channel and VL, and
/// one for each (switch, LID).
pub fn layered(fabric: &Fabric, lft: &Lft, rank: &Rank, limits: LaneLimits) -> Layered {
    layer(fabric, lft, rank, limits, false)
}

/// The same where every path fits on a VL.
///
/// # Errors
/// [`LanesError::TooFewVls`] or [`LanesError::TooFewSls`], with one more than there are: how many would do is not known.
///
/// Cost: that of [`layered`]; it ends with the first LID that does not fit.
pub fn all_layered(
    fabric: &Fabric,
    lft: &Lft,
    rank: &Rank,
    limits: LaneLimits,
) -> Result<Layered, LanesError> {
    let layered = layer(fabric, lft, rank, limits, true);
    let LaneLimits { vls, sls } = limits;
    match layered.left.is_empty() {
        true => Ok(layered),
        false if sls < vls => Err(LanesError::TooFewSls { needed: usize::from(sls) + 1, offered: sls }),
        false => Err(LanesError::TooFewVls { needed: usize::from(vls) + 1, offered: vls }),
    }
}

/// - `all`: whether it ends with the first LID that is left.
fn layer(fabric: &Fabric, lft: &Lft, rank: &Rank, limits: LaneLimits, all: bool) -> Layered {
    let vls = limits.vls.min(limits.sls).max(1);
    let mut layers = Layers::new(fabric, usize::from(vls) - 1);
    let switches = fabric.num_switches();
    let mut path_sl = vec![0_u8; switches * fabric.lid_table_len()];
    let mut left = Vec::new();
    let mut lids: Vec<Lid> =
        fabric.endports().iter().filter(|e| e.attachment.is_some()).flat_map(|e| e.lids()).collect();
    lids.sort_unstable();
    let mut path = Vec::new();
    for lid in lids {
        let sls = &mut path_sl[lid.index() * switches..][..switches];
        let start = layers.added.len();
        let placed = fabric.switch_ids().all(|source| {
            layers.path(lft.to(lid), source, &mut path);
            let ascends = path.iter().all(|&(first, second)| rank.of(first) < rank.of(second));
            let vl = if ascends { Some(0) } else { layers.place(&path).map(|layer| layer + 1) };
            sls[source.index()] = vl.unwrap_or(0) as u8;
            vl.is_some()
        });
        if !placed {
            layers.roll_back(start);
            sls.fill(0);
            left.push(lid);
            if all {
                break;
            }
        }
    }
    let vls = 1 + path_sl.iter().copied().max().unwrap_or(0);
    let ranks = layers.orders.iter().take(usize::from(vls) - 1);
    let ranks = ranks.map(|order| Rank::by_key(fabric, |channel, _| order.place(channel.index())));
    let order = VirtualChannelOrder::new(std::iter::once(rank.clone()).chain(ranks).collect());
    let mut sl2vl = Sl2Vl::new(fabric);
    sl2vl.rows_mut().fill(SlVlRow::from_vls(std::array::from_fn(|sl| Vl(sl as u8 % vls))));
    let path_sl = match vls {
        1 => super::any_sl(limits),
        _ => PathSl::BySwitch(path_sl),
    };
    Layered { lanes: Lanes { sl2vl, path_sl, vls, sls: vls }, left, order }
}

/// The dependencies of the paths on each VL; they are acyclic.
struct Layers<'a> {
    fabric: &'a Fabric,
    turns: TurnNumbers,
    /// By turn: the layers that contain it, as bits.
    inside: Vec<u16>,
    /// By turn: the layers in which it closed a cycle, as bits.
    refused: Vec<u16>,
    /// By layer: an order of the channels.
    orders: Vec<TopologicalOrder>,
    /// Turns and the layers that they were added to, the latest last.
    added: Vec<(usize, usize)>,
}

/// The dependencies in a layer: from the first channel of each of its turns to the second.
struct Layer<'a> {
    fabric: &'a Fabric,
    turns: &'a TurnNumbers,
    inside: &'a [u16],
    layer: usize,
}

impl Layer<'_> {
    fn has(&self, first: ChannelId, second: ChannelId) -> bool {
        self.inside[self.turns.get(first, second)] & 1 << self.layer != 0
    }
}

impl Edges for Layer<'_> {
    fn after(&self, vertex: u32, each: impl FnMut(u32)) {
        let next = self.fabric.channels().out_range(self.turns.switch(ChannelId(vertex))).map(ChannelId::at);
        next.filter(|&c| self.has(ChannelId(vertex), c)).map(|c| c.0).for_each(each);
    }

    fn before(&self, vertex: u32, each: impl FnMut(u32)) {
        let channels = self.fabric.channels();
        let into = channels.out(channels.get(ChannelId(vertex)).from).map(|(_, back)| back.reverse);
        into.filter(|&c| self.has(c, ChannelId(vertex))).map(|c| c.0).for_each(each);
    }
}

/// A channel that waits for another one.
type Turn = (ChannelId, ChannelId);

impl<'a> Layers<'a> {
    fn new(fabric: &'a Fabric, layers: usize) -> Self {
        let turns = TurnNumbers::new(fabric);
        Self {
            fabric,
            inside: vec![0; turns.len()],
            refused: vec![0; turns.len()],
            turns,
            orders: vec![TopologicalOrder::new(fabric.channels().len()); layers],
            added: Vec::new(),
        }
    }

    /// The turns of the path from a switch.
    ///
    /// - `ports`: out ports by switch.
    fn path(&self, ports: &[u8], source: SwitchId, path: &mut Vec<Turn>) {
        let channels = self.fabric.channels();
        let next = |s: SwitchId| channels.at_port(s, PortNum(ports[s.index()]));
        path.clear();
        let mut last = next(source);
        while let Some(first) = last {
            last = next(channels.get(first).to);
            path.extend(last.map(|second| (first, second)));
        }
    }

    /// The lowest layer that the path fits into, with the path in it; `None` if there is none.
    fn place(&mut self, path: &[Turn]) -> Option<usize> {
        let refused = path.iter().fold(0, |all, &(a, b)| all | self.refused[self.turns.get(a, b)]);
        (0..self.orders.len()).find(|&layer| refused & 1 << layer == 0 && self.enter(layer, path))
    }

    /// Adds the turns of a path to a layer; false, and nothing is added, if that closes a cycle.
    fn enter(&mut self, layer: usize, path: &[Turn]) -> bool {
        let start = self.added.len();
        for &(first, second) in path {
            let turn = self.turns.get(first, second);
            if self.inside[turn] & 1 << layer != 0 {
                continue;
            }
            let edges = Layer { fabric: self.fabric, turns: &self.turns, inside: &self.inside, layer };
            if !self.orders[layer].admit(&edges, first.index(), second.index()) {
                if self.added.len() == start {
                    self.refused[turn] |= 1 << layer;
                }
                self.roll_back(start);
                return false;
            }
            self.inside[turn] |= 1 << layer;
            self.added.push((turn, layer));
        }
        true
    }

    /// Removes what was added since. The orders stay valid.
    fn roll_back(&mut self, start: usize) {
        for (turn, layer) in self.added.drain(start..) {
            self.inside[turn] &= !(1 << layer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::up_down_rank;
    use crate::topology::{Ring, small_members};

    /// Tables along shortest paths; the lowest port breaks ties.
    fn shortest(fabric: &Fabric) -> Lft {
        let mut lft = Lft::new(fabric);
        for end in fabric.endports() {
            let (root, port) = end.attachment.unwrap();
            let mut queue = vec![root];
            let mut met = vec![false; fabric.num_switches()];
            met[root.index()] = true;
            lft.set(root, end.lid, port);
            let mut at = 0;
            while let Some(&s) = queue.get(at) {
                at += 1;
                for (_, c) in fabric.channels().out(s) {
                    if !std::mem::replace(&mut met[c.to.index()], true) {
                        lft.set(c.to, end.lid, c.in_port);
                        queue.push(c.to);
                    }
                }
            }
        }
        lft
    }

    #[test]
    fn every_path_ascends_in_the_order_unless_its_lid_is_left() {
        let (mut several, mut short) = (0, 0);
        for (name, f) in small_members() {
            let lft = shortest(&f);
            for vls in [1, 2, 8] {
                let rank = up_down_rank(&f, SwitchId(0));
                let Layered { lanes, left, order } = layered(&f, &lft, &rank, LaneLimits { vls, sls: 16 });
                assert!(lanes.vls <= vls, "{name}");
                several += usize::from(lanes.vls > 1);
                short += usize::from(!left.is_empty());
                let layers = Layers::new(&f, 0);
                let mut path = Vec::new();
                for end in f.endports().iter().filter(|e| !left.contains(&e.lid)) {
                    for &source in f.endports_on(f.switch_ids().last().unwrap()) {
                        let vl = Vl(lanes.path_sl.get(&f, source, end.lid).0);
                        layers.path(lft.to(end.lid), f.endport(source).attachment.unwrap().0, &mut path);
                        let position = |c| order.position(c, vl);
                        assert!(
                            path.iter().all(|&(first, second)| position(first) < position(second)),
                            "{name}"
                        );
                    }
                }
            }
        }
        assert!(several > 10 && short > 10, "{several} with several VLs, {short} with LIDs left");
    }

    #[test]
    fn a_ring_leaves_nothing_with_three_vls() {
        let f = Ring { switches: 7, cas: 1 }.build().unwrap();
        let rank = up_down_rank(&f, SwitchId(0));
        let left = |vls| layered(&f, &shortest(&f), &rank, LaneLimits { vls, sls: 16 }).left.len();
        assert!(left(1) > 0 && left(2) <= left(1) && left(3) == 0);
    }
}
