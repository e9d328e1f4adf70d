//! Paths on VLs until none is left, the rest by up*/down*.

use super::{LaneLimits, Lanes, LanesError};
use crate::fabric::{ChannelId, Fabric, Lid, PortNum, SwitchId, Vl};
use crate::ordering::{Rank, VirtualChannelOrder};
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
            let ascends = path.iter().all(|turn| rank.of(turn.first) < rank.of(turn.second));
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
    let ranks = layers.position.iter().take(usize::from(vls) - 1);
    let ranks = ranks.map(|position| Rank::by_key(fabric, |channel, _| position[channel.index()]));
    let order = VirtualChannelOrder::new(std::iter::once(rank.clone()).chain(ranks).collect());
    let mut sl2vl = Sl2Vl::new(fabric);
    sl2vl.rows_mut().fill(SlVlRow::from_vls(std::array::from_fn(|sl| Vl(sl as u8 % vls))));
    let path_sl = match vls {
        1 => super::any_sl(limits),
        _ => PathSl::BySwitch(path_sl),
    };
    Layered { lanes: Lanes { sl2vl, path_sl, vls, sls: vls }, left, order }
}

/// A channel that waits for another one.
#[derive(Clone, Copy)]
struct Turn {
    first: ChannelId,
    second: ChannelId,
    index: usize,
}

/// The dependencies of the paths on each VL; they are acyclic.
struct Layers<'a> {
    fabric: &'a Fabric,
    /// By channel: the index of the first turn out of it.
    turns: Vec<usize>,
    /// By turn: the layers that contain it, as bits.
    inside: Vec<u16>,
    /// By turn: the layers in which it closed a cycle, as bits.
    refused: Vec<u16>,
    /// By layer and channel: the position in a topological order.
    position: Vec<Vec<u32>>,
    /// Marks of the search, by channel.
    mark: Vec<bool>,
    /// Turns and the layers that they were added to, the latest last.
    added: Vec<(usize, usize)>,
}

impl<'a> Layers<'a> {
    fn new(fabric: &'a Fabric, layers: usize) -> Self {
        let channels = fabric.channels();
        let mut turns = Vec::with_capacity(channels.len());
        let mut count = 0;
        for (_, c) in channels.iter() {
            turns.push(count);
            count += channels.out_range(c.to).len();
        }
        Self {
            fabric,
            turns,
            inside: vec![0; count],
            refused: vec![0; count],
            position: vec![(0..channels.len() as u32).collect(); layers],
            mark: vec![false; channels.len()],
            added: Vec::new(),
        }
    }

    fn turn(&self, first: ChannelId, second: ChannelId) -> Turn {
        let channels = self.fabric.channels();
        let after = channels.out_range(channels.get(first).to);
        Turn { first, second, index: self.turns[first.index()] + second.index() - after.start }
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
            path.extend(last.map(|second| self.turn(first, second)));
        }
    }

    /// The lowest layer that the path fits into, with the path in it; `None` if there is none.
    fn place(&mut self, path: &[Turn]) -> Option<usize> {
        let refused = path.iter().fold(0, |all, turn| all | self.refused[turn.index]);
        (0..self.position.len()).find(|&layer| refused & 1 << layer == 0 && self.enter(layer, path))
    }

    /// Adds the turns of a path to a layer; false, and nothing is added, if that closes a cycle.
    fn enter(&mut self, layer: usize, path: &[Turn]) -> bool {
        let start = self.added.len();
        for turn in path {
            if self.inside[turn.index] & 1 << layer != 0 {
                continue;
            }
            if !self.order_before(layer, turn.first, turn.second) {
                if self.added.len() == start {
                    self.refused[turn.index] |= 1 << layer;
                }
                self.roll_back(start);
                return false;
            }
            self.inside[turn.index] |= 1 << layer;
            self.added.push((turn.index, layer));
        }
        true
    }

    /// Removes what was added since. The orders stay valid.
    fn roll_back(&mut self, start: usize) {
        for (turn, layer) in self.added.drain(start..) {
            self.inside[turn] &= !(1 << layer);
        }
    }

    /// Changes the order of a layer so that `a` comes before `b` (Pearce and Kelly, "A Dynamic Topological Sort
    /// Algorithm for Directed Acyclic Graphs"); false if a path leads from `b` to `a`.
    fn order_before(&mut self, layer: usize, a: ChannelId, b: ChannelId) -> bool {
        let (low, high) = (self.position[layer][b.index()], self.position[layer][a.index()]);
        if high < low {
            return true;
        }
        let ahead = self.reach(layer, b, |position| position <= high, Self::after);
        if ahead.contains(&a) {
            return false;
        }
        let mut list = self.reach(layer, a, |position| position >= low, Self::before);
        let position = &mut self.position[layer];
        let sort = |list: &mut [ChannelId], position: &[u32]| {
            list.sort_unstable_by_key(|c| position[c.index()]);
        };
        sort(&mut list, position);
        let behind = list.len();
        list.extend(ahead);
        sort(&mut list[behind..], position);
        let mut positions: Vec<u32> = list.iter().map(|c| position[c.index()]).collect();
        positions.sort_unstable();
        for (c, new) in list.into_iter().zip(positions) {
            position[c.index()] = new;
        }
        true
    }

    /// The channels that one waits for in a layer.
    fn after(&self, layer: usize, c: ChannelId, found: &mut Vec<ChannelId>) {
        let channels = self.fabric.channels();
        let next = channels.out_range(channels.get(c).to).map(ChannelId::at);
        found.extend(next.filter(|&d| self.inside[self.turn(c, d).index] & 1 << layer != 0));
    }

    /// The channels that wait for one in a layer.
    fn before(&self, layer: usize, d: ChannelId, found: &mut Vec<ChannelId>) {
        let channels = self.fabric.channels();
        let into = channels.out(channels.get(d).from).map(|(_, back)| back.reverse);
        found.extend(into.filter(|&c| self.inside[self.turn(c, d).index] & 1 << layer != 0));
    }

    /// All channels reached from a channel within a range of positions, the channel itself first.
    fn reach(
        &mut self,
        layer: usize,
        start: ChannelId,
        within: impl Fn(u32) -> bool,
        step: impl Fn(&Self, usize, ChannelId, &mut Vec<ChannelId>),
    ) -> Vec<ChannelId> {
        let (mut found, mut next) = (vec![start], Vec::new());
        self.mark[start.index()] = true;
        let mut at = 0;
        while let Some(&c) = found.get(at) {
            at += 1;
            step(self, layer, c, &mut next);
            for d in next.drain(..) {
                if !self.mark[d.index()] && within(self.position[layer][d.index()]) {
                    self.mark[d.index()] = true;
                    found.push(d);
                }
            }
        }
        found.iter().for_each(|c| self.mark[c.index()] = false);
        found
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
                        assert!(path.iter().all(|t| position(t.first) < position(t.second)), "{name}");
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
