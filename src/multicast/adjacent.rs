//! The edges of a dependency graph as bits, to search it quickly.
//!
//! A virtual channel (channel, VL) waits for virtual channels that leave the switch at its end, and is waited for by
//! some that enter the switch where it begins. So each has two sets, of one bit for each virtual channel on that side of
//! that switch. A search keeps the same sets of those that it has met. It looks at 64 of them in one step, and at each
//! once, however many edges lead there.

use crate::fabric::{Channel, ChannelId, Fabric, SwitchId};

/// Which way a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From a virtual channel to those that it waits for.
    Ahead,
    /// From a virtual channel to those that wait for it.
    Behind,
}

/// The edges of a graph, and what a search has met.
#[derive(Clone)]
pub(super) struct Adjacent<'a> {
    fabric: &'a Fabric,
    lanes: usize,
    /// By switch: where its words begin, and one more.
    first: Vec<usize>,
    ahead: Edges,
    behind: Edges,
    /// By word of a switch: what the search has met; all zero between searches.
    met: Vec<u64>,
}

/// The edges in one direction.
#[derive(Clone)]
struct Edges {
    /// By channel: where the words of its first VL begin.
    first: Vec<usize>,
    words: Vec<u64>,
}

impl<'a> Adjacent<'a> {
    /// Without edges.
    ///
    /// Cost: O(C V ceil(d V / 64)) time and memory, with C channels, V VLs and d channels out of a switch.
    pub(super) fn new(fabric: &'a Fabric, lanes: usize) -> Self {
        let channels = fabric.channels();
        let mut first = vec![0];
        for s in fabric.switch_ids() {
            first.push(first[s.index()] + (channels.out_range(s).len() * lanes).div_ceil(64));
        }
        let edges = |way| {
            let (mut starts, mut len) = (Vec::with_capacity(channels.len()), 0);
            for (_, c) in channels.iter() {
                let s = switch(c, way);
                starts.push(len);
                len += lanes * (first[s + 1] - first[s]);
            }
            Edges { first: starts, words: vec![0; len] }
        };
        let (ahead, behind) = (edges(Way::Ahead), edges(Way::Behind));
        let met = vec![0; first[first.len() - 1]];
        Self { fabric, lanes, first, ahead, behind, met }
    }

    /// Adds an edge, or takes it out: the first virtual channel waits for the second.
    pub(super) fn set(&mut self, a: (ChannelId, usize), b: (ChannelId, usize), there: bool) {
        for (way, here, other) in [(Way::Ahead, a, b), (Way::Behind, b, a)] {
            let range = self.range(here.0, here.1, way);
            let bit = self.bit(other.0, other.1, way);
            let word = &mut self.edges_mut(way).words[range.start + bit / 64];
            let mask = 1 << (bit % 64);
            *word = if there { *word | mask } else { *word & !mask };
        }
    }

    /// All virtual channels reached from `start`, numbered as channel x VL, that are `within` and are reached over such;
    /// `None` if `target` is reached.
    ///
    /// - `visited`: grows by how many there are, found so far if that is the target.
    ///
    /// Cost: O(ceil(d V / 64)) for each of them, and O(1) for each that is next to one.
    pub(super) fn reach(
        &mut self,
        start: usize,
        way: Way,
        within: impl Fn(usize) -> bool,
        target: Option<usize>,
        visited: &mut usize,
    ) -> Option<Vec<u32>> {
        let lanes = self.lanes;
        let mut found = vec![start as u32];
        let mut touched = Vec::new();
        let mut hit = Some(start) == target;
        let channel = ChannelId::at(start / lanes);
        let home = self.first[switch(self.fabric.channels().get(channel), way.back())];
        let own = self.bit(channel, start % lanes, way);
        self.met[home + own / 64] |= 1 << (own % 64);
        touched.push(home + own / 64);
        let mut at = 0;
        while let Some(&v) = found.get(at).filter(|_| !hit) {
            let v = v as usize;
            at += 1;
            let channel = ChannelId::at(v / lanes);
            let s = switch(self.fabric.channels().get(channel), way);
            let out = self.fabric.channels().out_range(SwitchId::at(s)).start;
            let range = self.range(channel, v % lanes, way);
            for (i, word) in range.enumerate() {
                let (next, met) = (self.edges(way).words[word], self.first[s] + i);
                let mut new = next & !self.met[met];
                if new == 0 {
                    continue;
                }
                touched.push(met);
                self.met[met] |= new;
                while new != 0 {
                    let bit = 64 * i + new.trailing_zeros() as usize;
                    new &= new - 1;
                    let beside = ChannelId::at(out + bit / lanes);
                    let c = match way {
                        Way::Ahead => beside,
                        Way::Behind => self.fabric.channels().get(beside).reverse,
                    };
                    let w = c.index() * lanes + bit % lanes;
                    hit |= Some(w) == target;
                    if within(w) {
                        found.push(w as u32);
                    }
                }
            }
        }
        touched.into_iter().for_each(|word| self.met[word] = 0);
        *visited += found.len();
        (!hit).then_some(found)
    }

    /// Where the set of a virtual channel is.
    fn range(&self, channel: ChannelId, vl: usize, way: Way) -> std::ops::Range<usize> {
        let s = switch(self.fabric.channels().get(channel), way);
        let len = self.first[s + 1] - self.first[s];
        let start = self.edges(way).first[channel.index()] + vl * len;
        start..start + len
    }

    /// The place of a virtual channel in the sets of those before it.
    fn bit(&self, channel: ChannelId, vl: usize, way: Way) -> usize {
        let channels = self.fabric.channels();
        let c = channels.get(channel);
        let (s, out) = match way {
            Way::Ahead => (c.from, channel),
            Way::Behind => (c.to, c.reverse),
        };
        (out.index() - channels.out_range(s).start) * self.lanes + vl
    }

    fn edges(&self, way: Way) -> &Edges {
        match way {
            Way::Ahead => &self.ahead,
            Way::Behind => &self.behind,
        }
    }

    fn edges_mut(&mut self, way: Way) -> &mut Edges {
        match way {
            Way::Ahead => &mut self.ahead,
            Way::Behind => &mut self.behind,
        }
    }
}

impl Way {
    fn back(self) -> Self {
        match self {
            Self::Ahead => Self::Behind,
            Self::Behind => Self::Ahead,
        }
    }
}

/// The switch where the next virtual channels are, by number.
fn switch(c: &Channel, way: Way) -> usize {
    match way {
        Way::Ahead => c.to.index(),
        Way::Behind => c.from.index(),
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::topology::small_members;

    /// Random edges; some are taken out again.
    fn random<'a>(f: &'a Fabric, lanes: usize, rng: &mut ChaCha8Rng) -> (Adjacent<'a>, Vec<(usize, usize)>) {
        let mut adjacent = Adjacent::new(f, lanes);
        let mut edges = Vec::new();
        for (first, c) in f.channels().iter() {
            for (second, _) in f.channels().out(c.to) {
                let [from, to] = [(); 2].map(|()| rng.random_range(0..lanes));
                if rng.random_bool(0.4) {
                    adjacent.set((first, from), (second, to), true);
                    if rng.random_bool(0.2) {
                        adjacent.set((first, from), (second, to), false);
                    } else {
                        edges.push((first.index() * lanes + from, second.index() * lanes + to));
                    }
                }
            }
        }
        (adjacent, edges)
    }

    /// By the definition, edge by edge.
    fn reached(edges: &[(usize, usize)], start: usize, within: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut found = vec![start];
        let mut at = 0;
        while let Some(&v) = found.get(at) {
            at += 1;
            for &(_, w) in edges.iter().filter(|&&(from, _)| from == v) {
                if within(w) && !found.contains(&w) {
                    found.push(w);
                }
            }
        }
        found.sort_unstable();
        found
    }

    #[test]
    fn it_reaches_what_edges_lead_to() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for (name, f) in small_members() {
            for lanes in [1, 2, 5] {
                let (mut adjacent, ahead) = random(&f, lanes, &mut rng);
                let behind: Vec<(usize, usize)> = ahead.iter().map(|&(a, b)| (b, a)).collect();
                for _ in 0..8 {
                    let start = rng.random_range(0..f.channels().len() * lanes);
                    let skipped = rng.random_range(0..7);
                    let within = |v: usize| v % 7 != skipped;
                    for (way, edges) in [(Way::Ahead, &ahead), (Way::Behind, &behind)] {
                        let mut visited = 0;
                        let found = adjacent.reach(start, way, within, None, &mut visited).unwrap();
                        let mut found: Vec<usize> = found.into_iter().map(|v| v as usize).collect();
                        found.sort_unstable();
                        assert_eq!(found, reached(edges, start, within), "{name}, {lanes} VLs");
                        assert_eq!(visited, found.len());
                        let last = found[found.len() / 2];
                        assert_eq!(adjacent.reach(start, way, within, Some(last), &mut visited), None);
                    }
                }
            }
        }
    }
}
