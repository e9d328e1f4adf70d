//! Ladders: the links that squares make parallel.

use crate::fabric::{Fabric, SwitchId};

/// The links between neighbours, parallel cables counted once, joined by squares.
///
/// Two neighbours of a switch that are not neighbours of each other and have exactly one more neighbour in common are
/// the sides of a square. Opposite sides of a square belong to one *ladder* and point the same way. In a grid a square
/// lies in two dimensions, so a ladder has one dimension. A failed link takes squares away and adds none: ladders fall
/// apart, but never mix dimensions.
pub(super) struct Ladders {
    /// By switch: its neighbours in ascending order.
    pub(super) neighbours: Vec<Vec<SwitchId>>,
    /// By switch: the links to its neighbours, in the same order.
    links_of: Vec<Vec<usize>>,
    parent: Vec<usize>,
    /// Whether a link points the other way than its parent.
    turned: Vec<bool>,
    /// Pairs of links at one switch that are sides of a square: they are in different dimensions.
    crossings: Vec<(usize, usize)>,
}

impl Ladders {
    /// `None` where a switch has more than `most` neighbours.
    ///
    /// Cost: O(S d^3) with S switches and d neighbours.
    pub(super) fn find(fabric: &Fabric, most: usize) -> Option<Self> {
        let mut neighbours = Vec::with_capacity(fabric.num_switches());
        for s in fabric.switch_ids() {
            let mut all: Vec<SwitchId> = fabric.channels().out(s).map(|(_, c)| c.to).collect();
            all.sort_unstable();
            all.dedup();
            if all.len() > most {
                return None;
            }
            neighbours.push(all);
        }
        let mut links = 0;
        let mut links_of: Vec<Vec<usize>> = Vec::with_capacity(neighbours.len());
        for (s, near) in neighbours.iter().enumerate() {
            let number = |&a: &SwitchId| {
                if a.index() < s {
                    let at = neighbours[a.index()].partition_point(|&t| t.index() < s);
                    links_of[a.index()][at]
                } else {
                    links += 1;
                    links - 1
                }
            };
            let own = near.iter().map(number).collect();
            links_of.push(own);
        }
        let (parent, turned) = ((0..links).collect(), vec![false; links]);
        let mut ladders = Self { neighbours, links_of, parent, turned, crossings: Vec::new() };
        ladders.join_squares();
        Some(ladders)
    }

    /// Number of links.
    pub(super) fn links(&self) -> usize {
        self.parent.len()
    }

    /// The links of a switch: each with the neighbour, the ladder, and whether the ladder points to the neighbour.
    pub(super) fn around(&self, s: usize) -> impl Iterator<Item = (SwitchId, usize, bool)> + '_ {
        let links = self.neighbours[s].iter().zip(&self.links_of[s]);
        links.map(move |(&a, &link)| {
            let (ladder, turned) = self.of(link);
            (a, ladder, (a.index() > s) != turned)
        })
    }

    /// Pairs of ladders that cross in a square.
    pub(super) fn crossings(&self) -> Vec<(usize, usize)> {
        let mut all: Vec<(usize, usize)> =
            self.crossings.iter().map(|&(x, y)| (self.of(x).0, self.of(y).0)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The fourth corner of the square with sides from `s` to two of its neighbours.
    pub(super) fn square(&self, s: SwitchId, a: SwitchId, b: SwitchId) -> Option<SwitchId> {
        let (near_a, near_b) = (&self.neighbours[a.index()], &self.neighbours[b.index()]);
        if near_a.binary_search(&b).is_ok() {
            return None;
        }
        let mut corners = near_a.iter().copied().filter(|t| *t != s && near_b.binary_search(t).is_ok());
        let corner = corners.next()?;
        corners.next().is_none().then_some(corner)
    }

    fn join_squares(&mut self) {
        for s in (0..self.neighbours.len()).map(SwitchId::at) {
            let near = self.neighbours[s.index()].clone();
            for (i, &a) in near.iter().enumerate() {
                for &b in &near[..i] {
                    let Some(t) = self.square(s, a, b) else { continue };
                    self.join((s, a), (b, t));
                    self.join((s, b), (a, t));
                    self.crossings.push((self.link(s, a), self.link(s, b)));
                }
            }
        }
        for link in 0..self.parent.len() {
            (self.parent[link], self.turned[link]) = self.of(link);
        }
    }

    fn link(&self, a: SwitchId, b: SwitchId) -> usize {
        self.links_of[a.index()][self.neighbours[a.index()].partition_point(|&t| t < b)]
    }

    /// The ladder of a link, and whether the link points the other way.
    fn of(&self, link: usize) -> (usize, bool) {
        let (mut at, mut turned) = (link, false);
        while self.parent[at] != at {
            turned ^= self.turned[at];
            at = self.parent[at];
        }
        (at, turned)
    }

    /// Makes two links parallel, each from its first to its second switch.
    fn join(&mut self, (a, b): (SwitchId, SwitchId), (c, d): (SwitchId, SwitchId)) {
        let (x, y) = (self.link(a, b), self.link(c, d));
        let ((root_x, turned_x), (root_y, turned_y)) = (self.of(x), self.of(y));
        if root_x == root_y {
            return;
        }
        let turned = turned_x ^ turned_y ^ (a < b) ^ (c < d);
        let (upper, lower) = (root_x.min(root_y), root_x.max(root_y));
        self.parent[lower] = upper;
        self.turned[lower] = turned;
        // Short ways to the root.
        for link in [x, y] {
            let (root, turned) = self.of(link);
            if root != link {
                (self.parent[link], self.turned[link]) = (root, turned);
            }
        }
    }
}
