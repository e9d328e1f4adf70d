//! The dependencies between virtual channels, in an order without cycles.

use super::tables::Turns;
use crate::fabric::{ChannelId, Fabric, PortNum, bits};
use crate::ordering::{Edges, TopologicalOrder};

/// What [`Dependencies::depend`] adds: packets on a VL before a turn wait for one after it.
#[derive(Clone, Copy)]
pub(super) struct Added {
    /// The turn of the packets' class.
    turn: usize,
    /// Where the waits are that this is one of.
    place: usize,
    from: usize,
    to: usize,
    /// Whether no packets of any class waited so before.
    is_edge: bool,
    /// Whether none of this class waited on this VL.
    is_user: bool,
}

/// Dependencies between virtual channels. They are bits by turn and VLs: a copy costs no more than its bytes, 2 for
/// each turn and VL, and 4 for each turn and class of SLs.
#[derive(Clone)]
pub(super) struct Dependencies {
    order: TopologicalOrder,
    /// By channel, VL and port of the switch that it leads to: the VLs behind the port that packets wait for.
    waits: Vec<u16>,
    /// By turn of a class: the VLs before it on which packets wait. None if no packet takes it.
    pub(super) waiting: Vec<u16>,
    /// By turn of a class: the VL after it, as a set.
    pub(super) vls_after: Vec<u16>,
    /// Whether packets may go on to a lower VL.
    descends: bool,
    /// By VL: dependencies from and to it.
    at_vl: [u32; 16],
    most_vls: u8,
}

/// Dependencies as edges between vertices: one for each channel and VL.
struct Waits<'a> {
    net: (&'a Fabric, &'a Turns),
    waits: &'a [u16],
    waiting: &'a [u16],
    vls: usize,
}

impl Waits<'_> {
    fn channel(&self, vertex: u32) -> (ChannelId, usize) {
        let vertex = vertex as usize;
        (ChannelId::at(vertex / self.vls), vertex % self.vls)
    }

    fn vertex(&self, channel: ChannelId, vl: usize) -> u32 {
        (channel.index() * self.vls + vl) as u32
    }
}

impl Edges for Waits<'_> {
    fn after(&self, vertex: u32, mut each: impl FnMut(u32)) {
        let ((fabric, turns), (channel, vl)) = (self.net, self.channel(vertex));
        let (channels, ports) = (fabric.channels(), turns.ports(channel));
        let first = place(turns, channel, vl, self.vls);
        for (port, &waits) in
            self.waits[first..first + ports].iter().enumerate().filter(|(_, set)| **set != 0)
        {
            let second = channels.at_port(channels.get(channel).to, PortNum(port as u8));
            second.into_iter().for_each(|second| bits(waits).for_each(|to| each(self.vertex(second, to))));
        }
    }

    fn before(&self, vertex: u32, mut each: impl FnMut(u32)) {
        let ((fabric, turns), (channel, vl)) = (self.net, self.channel(vertex));
        for (_, back) in fabric.channels().out(fabric.channels().get(channel).from) {
            let first = back.reverse;
            for from in bits(any(&self.waiting[turns.all(first, channel)])) {
                let at = place(turns, first, from, self.vls) + turns.port(channel);
                if self.waits[at] >> vl & 1 != 0 {
                    each(self.vertex(first, from));
                }
            }
        }
    }
}

/// Where the waits of a channel and VL are: one for each port of the switch that it leads to.
fn place(turns: &Turns, channel: ChannelId, vl: usize, vls: usize) -> usize {
    turns.first(channel) * vls + vl * turns.ports(channel)
}

impl Dependencies {
    /// `None` if there is a cycle.
    ///
    /// - `vl_after`: by turn of a class, the VL after it.
    /// - `used`: by turn of a class, VLs of packets that take it.
    pub(super) fn new(
        fabric: &Fabric,
        turns: &Turns,
        vl_after: &[u8],
        used: &[u16],
        most_vls: u8,
    ) -> Option<Self> {
        let (channels, vls) = (fabric.channels(), usize::from(most_vls));
        let mut waits = vec![0; turns.len() * vls];
        let mut vls_after = vec![0; turns.of_all_classes()];
        let (mut descends, mut at_vl) = (false, [0; 16]);
        for (first, c) in channels.iter() {
            for (second, _) in channels.out(c.to) {
                for turn in turns.all(first, second) {
                    let to = vl_after[turn];
                    vls_after[turn] = 1 << to;
                    // The row of a turn that nobody takes may have any VL.
                    if used[turn] != 0 && to >= most_vls {
                        return None;
                    }
                    for from in bits(used[turn]) {
                        let waits = &mut waits[place(turns, first, from, vls) + turns.port(second)];
                        if *waits >> to & 1 == 0 {
                            *waits |= 1 << to;
                            descends |= from > usize::from(to);
                            [from, usize::from(to)].into_iter().for_each(|vl| at_vl[vl] += 1);
                        }
                    }
                }
            }
        }
        let edges = Waits { net: (fabric, turns), waits: &waits, waiting: used, vls };
        let order = TopologicalOrder::of(channels.len() * vls, |vertex, each| edges.after(vertex, each))?;
        Some(Self { order, waits, waiting: used.to_vec(), vls_after, descends, at_vl, most_vls })
    }

    /// What is left of these where fewer packets take the turns: any subset keeps its order.
    ///
    /// - `used`: by turn of a class, VLs of packets that still take it.
    ///
    /// Cost: O(turns).
    pub(super) fn only(mut self, fabric: &Fabric, turns: &Turns, used: &[u16]) -> Self {
        let (channels, vls) = (fabric.channels(), usize::from(self.most_vls));
        self.descends = false;
        for (first, c) in channels.iter() {
            for (second, _) in channels.out(c.to) {
                let all = turns.all(first, second);
                let before = any(&self.waiting[all.clone()]);
                all.clone().for_each(|turn| self.waiting[turn] &= used[turn]);
                for from in bits(before) {
                    let still = all.clone().filter(|&turn| self.waiting[turn] >> from & 1 != 0);
                    let still = still.fold(0, |to, turn| to | self.vls_after[turn]);
                    let waits = &mut self.waits[place(turns, first, from, vls) + turns.port(second)];
                    *waits &= still;
                    self.descends |= bits(*waits).any(|to| from > to);
                }
            }
        }
        self
    }

    /// The packets of a class on a channel wait for another one. Returns whether there is no cycle, and each VL is there.
    ///
    /// - `net`: as for [`Dependencies::new`].
    /// - `vls`: of these packets.
    /// - `more`: further VLs after the turn.
    /// - `changed`: called with each thing that is added.
    pub(super) fn depend(
        &mut self,
        net: (&Fabric, &Turns),
        (first, second, class): (ChannelId, ChannelId, usize),
        vls: u16,
        more: u16,
        mut changed: impl FnMut(Added),
    ) -> bool {
        let (turn, vls_all) = (net.1.of(first, second, class), usize::from(self.most_vls));
        let after = self.vls_after[turn] | more;
        // The row of a turn that nobody took may have any VL.
        if vls != 0 && u32::from(after) >> self.most_vls != 0 {
            return false;
        }
        for (from, to) in bits(vls).flat_map(|from| bits(after).map(move |to| (from, to))) {
            let place = place(net.1, first, from, vls_all) + net.1.port(second);
            let is_edge = self.waits[place] >> to & 1 == 0;
            let is_user = self.waiting[turn] >> from & 1 == 0;
            if is_edge {
                let edges = Waits { net, waits: &self.waits, waiting: &self.waiting, vls: vls_all };
                let (start, end) = (edges.vertex(first, from), edges.vertex(second, to));
                if !self.order.admit(&edges, start as usize, end as usize) {
                    return false;
                }
                self.waits[place] |= 1 << to;
                self.descends |= from > to;
                [from, to].into_iter().for_each(|vl| self.at_vl[vl] += 1);
            }
            self.waiting[turn] |= 1 << from;
            if is_edge || is_user {
                changed(Added { turn, place, from, to, is_edge, is_user });
            }
        }
        true
    }

    /// Takes back what was added last; the order stays.
    pub(super) fn take_back(&mut self, Added { turn, place, from, to, is_edge, is_user }: Added) {
        if is_edge {
            self.waits[place] &= !(1 << to);
            [from, to].into_iter().for_each(|vl| self.at_vl[vl] -= 1);
        }
        if is_user {
            self.waiting[turn] &= !(1 << from);
        }
    }

    /// The highest VL with a dependency, and one more.
    pub(super) fn vls(&self) -> u8 {
        self.at_vl.iter().rposition(|&dependencies| dependencies > 0).map_or(0, |highest| highest as u8 + 1)
    }

    /// Virtual channels that were visited to keep the order.
    pub(super) fn visited(&self) -> u64 {
        self.order.visited()
    }

    /// By VL and channel, places in the order.
    pub(super) fn places(&self, channels: usize) -> Option<Vec<Vec<u32>>> {
        let place = |c, vl| self.order.place(c * usize::from(self.most_vls) + vl);
        let of_vl = |vl| (0..channels).map(|c| place(c, vl)).collect();
        (!self.descends).then(|| (0..usize::from(self.most_vls)).map(of_vl).collect())
    }
}

/// What is in any of these sets.
fn any(sets: &[u16]) -> u16 {
    sets.iter().fold(0, |all, set| all | set)
}

#[cfg(test)]
mod tests {
    use petgraph::algo::is_cyclic_directed;
    use petgraph::graphmap::DiGraphMap;
    use rand::{Rng, SeedableRng};

    use super::{Added, ChannelId, Dependencies, Turns};
    use crate::topology::Random;

    /// A graph of virtual channels: channels and VLs.
    type Plain = DiGraphMap<(usize, usize), ()>;

    /// The same is done with a plain graph whose cycles another library finds.
    #[test]
    fn exactly_what_closes_a_cycle_is_refused() {
        let (mut added, mut refused, mut taken_back) = (0, 0, 0);
        for seed in 0..20 {
            let fabric = Random { switches: 8, degree: 3, cas: 1, seed }.build().expect("a random network");
            let (channels, turns) = (fabric.channels(), Turns::new(&fabric, 1 + seed as usize % 3));
            let mut dice = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            // VL 3 is one too many.
            let vl_after: Vec<u8> = (0..turns.of_all_classes()).map(|_| dice.random_range(0..4)).collect();
            let new = |used: &[u16]| Dependencies::new(&fabric, &turns, &vl_after, used, 3);
            let mut all = new(&vec![0; turns.of_all_classes()]).expect("nothing is used");
            let mut plain = Plain::new();
            let mut last: Vec<(Vec<Added>, Plain)> = Vec::new();
            for _ in 0..400 {
                if dice.random_ratio(1, 5) {
                    let Some((added, before)) = last.pop() else { continue };
                    added.into_iter().rev().for_each(|added| all.take_back(added));
                    plain = before;
                    taken_back += 1;
                    continue;
                }
                let first = ChannelId::at(dice.random_range(0..channels.len()));
                let nexts: Vec<_> = channels.out(channels.get(first).to).map(|(second, _)| second).collect();
                let second = nexts[dice.random_range(0..nexts.len())];
                let class = dice.random_range(0..turns.classes);
                let (from, more) = (dice.random_range(0..3), [0, 1, 4][dice.random_range(0..3)]);
                let mut news = Vec::new();
                let turn = (first, second, class);
                let fits = all.depend((&fabric, &turns), turn, 1 << from, more, |added| news.push(added));
                let after = 1 << vl_after[turns.of(first, second, class)] | more;
                let mut with = plain.clone();
                for to in (0..3).filter(|to| after >> to & 1 != 0) {
                    with.add_edge((first.index(), from), (second.index(), to), ());
                }
                assert_eq!(fits, after >> 3 == 0 && !is_cyclic_directed(&with));
                if !fits {
                    news.into_iter().rev().for_each(|added| all.take_back(added));
                    refused += 1;
                    continue;
                }
                added += news.len();
                last.push((news, std::mem::replace(&mut plain, with)));
                assert!(all.waiting[turns.of(first, second, class)] >> from & 1 != 0);
            }
            for (from, to, ()) in plain.all_edges() {
                let place = |(c, vl)| all.order.place(c * 3 + vl);
                assert!(place(from) < place(to));
            }
        }
        assert!(added > 500 && refused > 100 && taken_back > 100, "{added} {refused} {taken_back}");
    }
}
