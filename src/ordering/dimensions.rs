//! Dimension order for grids, from their links alone.

use petgraph::unionfind::UnionFind;
use rayon::prelude::*;

use super::grid::Grid;
use super::ordered_trees::{linked_switches, partition};
use super::rank::{Rank, distances, positions, up_down_key};
use crate::fabric::{Fabric, SwitchId};

/// The dimensions of a fabric that looks like a Cartesian product of graphs: meshes, tori, hypercubes and
/// HyperX are products of paths, rings and complete graphs.
///
/// Squares give them away (as in the recognition of Cartesian products: Feigenbaum, Hershberger, Schäffer;
/// Imrich, Klavžar). Two links of one switch in different dimensions are sides of exactly one square, and
/// that has no diagonal between their ends. Opposite sides of such a square are in the same dimension, and so
/// are the sides of a triangle. That makes classes of links. Two classes that share switches are one
/// dimension unless most of their links that meet are sides of a square. The majority decides, because failed
/// links leave squares open.
#[derive(Clone, Debug)]
pub struct Dimensions {
    links: Vec<(SwitchId, SwitchId)>,
    /// By link.
    dimension: Vec<u32>,
}

impl Dimensions {
    /// Looks for at least two dimensions. A ring of four is a product of two paths.
    ///
    /// - `fabric`: connected.
    ///
    /// Cost: O(C d^2) time with C channels and d the largest number of neighbours, O(C d) on all cores where no links
    /// are sides of exactly one square, as in trees and Dragonflies; O(C d) memory.
    pub fn find(fabric: &Fabric) -> Option<Self> {
        let graph = Graph::new(fabric);
        // Else all links that meet are in one dimension.
        let switches = (0..graph.neighbours.len()).into_par_iter();
        let ways = || Ways::new(graph.neighbours.len());
        let is_candidate = switches.map_init(ways, |ways, s| graph.is_in_one_square(s, ways)).any(|is| is);
        let dimension = if is_candidate { graph.dimensions() } else { None };
        Some(Self { links: linked_switches(fabric), dimension: dimension? })
    }

    /// The dimensions of a grid, two or more, by the places of its switches. These are known where
    /// [`find`](Self::find) sees none: the only square of some link has lost a side.
    ///
    /// Cost: that of [`Grid::find`].
    pub fn of_grid(fabric: &Fabric) -> Option<Self> {
        let grid = Grid::find(fabric).filter(|grid| grid.dimensions().len() > 1)?;
        let links = linked_switches(fabric);
        let dimension = |&(a, b): &(SwitchId, SwitchId)| {
            let channel = fabric.channels().out(a).find(|(_, c)| c.to == b);
            channel.map(|(id, _)| grid.dimension_of(fabric, id) as u32)
        };
        let dimension: Option<Vec<u32>> = links.iter().map(dimension).collect();
        Some(Self { dimension: dimension?, links })
    }

    /// Dimension order: one dimension after the other, in each up before down from a root as in
    /// [`up_down_rank`](super::up_down_rank()).
    ///
    /// With the root in a corner, every pair of switches of a mesh, a hypercube, a HyperX, or a torus
    /// with rings of up to four has exactly one shortest path that ascends, so one VL suffices. These paths
    /// load the channels of a dimension evenly: up to a tenth more bandwidth than P-SSSP without a rule.
    ///
    /// Cost: O(C log C).
    pub fn dimension_order(&self, fabric: &Fabric, root: SwitchId) -> Rank {
        let position = positions(distances(fabric, [root.index()]));
        Rank::by_key(fabric, |_, c| {
            let link = self.links.binary_search(&(c.from.min(c.to), c.from.max(c.to)));
            (link.map(|link| self.dimension[link]), up_down_key(&position, c))
        })
    }

    /// Ordered trees (Chiu et al.) from links sorted by dimension, in each from the root outward: the
    /// first tree holds all rings of the first dimension except their last links, the second tree begins with
    /// those, and so on.
    ///
    /// It cuts long rings elsewhere than [`dimension_order`](Self::dimension_order), which suits labels better
    /// on some tori. Paths along the first tree, rooted at the first switch, ascend
    /// ([`Tree::lowest`](super::Tree::lowest)).
    ///
    /// Cost: O(L log L log S + M C) with S switches, L links, C channels and M trees.
    pub fn dimension_trees(&self, fabric: &Fabric, root: SwitchId) -> Rank {
        let position = positions(distances(fabric, [root.index()]));
        let mut order: Vec<usize> = (0..self.links.len()).collect();
        order.sort_by_key(|&i| {
            let (a, b) = (position[self.links[i].0.index()], position[self.links[i].1.index()]);
            (self.dimension[i], a.min(b), a.max(b))
        });
        let layers = partition(fabric, &self.links, order);
        Rank::by_key(fabric, |id, _| layers.rank(id))
    }
}

/// The switches and their neighbours; parallel links count once.
struct Graph {
    /// By switch, in ascending order.
    neighbours: Vec<Vec<SwitchId>>,
    /// By switch: where its links to larger neighbours begin among all links.
    first: Vec<usize>,
    links: usize,
}

impl Graph {
    fn new(fabric: &Fabric) -> Self {
        let mut first = Vec::with_capacity(fabric.num_switches());
        let mut links = 0;
        let neighbours: Vec<Vec<SwitchId>> = fabric
            .switch_ids()
            .map(|s| {
                let mut all: Vec<SwitchId> = fabric.channels().out(s).map(|(_, c)| c.to).collect();
                all.sort_unstable();
                all.dedup();
                let smaller = all.partition_point(|&t| t < s);
                // A link belongs to its smaller end.
                first.push(links);
                links += all.len() - smaller;
                all
            })
            .collect();
        Self { neighbours, first, links }
    }

    /// The number of the link between two neighbours.
    fn link(&self, a: SwitchId, b: SwitchId) -> usize {
        let (a, b) = (a.min(b), a.max(b));
        let all = &self.neighbours[a.index()];
        let smaller = all.partition_point(|&t| t < a);
        self.first[a.index()] + all[smaller..].partition_point(|&t| t < b)
    }

    /// The figure that has the links from `s` to `a` and to `b` as sides.
    fn corner(&self, s: SwitchId, a: SwitchId, b: SwitchId) -> Corner {
        let (mut x, mut y) = (self.neighbours[a.index()].as_slice(), self.neighbours[b.index()].as_slice());
        if x.binary_search(&b).is_ok() {
            return Corner::Triangle;
        }
        let mut found = Corner::None;
        while let ([p, rest_x @ ..], [q, rest_y @ ..]) = (x, y) {
            match p.cmp(q) {
                std::cmp::Ordering::Less => x = rest_x,
                std::cmp::Ordering::Greater => y = rest_y,
                std::cmp::Ordering::Equal => {
                    (x, y) = (rest_x, rest_y);
                    if *p != s {
                        if found != Corner::None {
                            return Corner::None;
                        }
                        found = Corner::Square(*p);
                    }
                }
            }
        }
        found
    }

    /// Whether two links of a switch without a link between their ends are sides of exactly one square.
    ///
    /// Cost: one step for each switch two hops away and each way there, O(d^2) of them.
    fn is_in_one_square(&self, s: usize, ways: &mut Ways) -> bool {
        let near = &self.neighbours[s];
        ways.clear();
        for (i, a) in near.iter().enumerate() {
            self.neighbours[a.index()]
                .iter()
                .filter(|far| far.index() != s)
                .for_each(|&far| ways.add(far, i));
        }
        // By neighbour: those that have a neighbour in common with it, and those that have several.
        let mut once = vec![Set::default(); near.len()];
        let mut often = once.clone();
        for (_, set) in &ways.sets {
            for i in set.iter() {
                often[i] = often[i].or(once[i].and(*set));
                once[i] = once[i].or(*set);
            }
        }
        (0..near.len()).any(|i| {
            let alone = once[i].without(often[i]).without(ways.to(near[i]));
            alone.iter().any(|other| other != i)
        })
    }

    /// The dimension of each link, from 0 in the order of their first links; `None` for fewer than
    /// two.
    fn dimensions(&self) -> Option<Vec<u32>> {
        let mut classes = Classes::new(self.links);
        let mut open: Vec<(usize, usize)> = Vec::new();
        let mut closed: Vec<(usize, usize)> = Vec::new();
        for (s, near) in self.neighbours.iter().enumerate() {
            let s = SwitchId::at(s);
            for (i, &a) in near.iter().enumerate() {
                for &b in &near[..i] {
                    let (x, y) = (self.link(s, a), self.link(s, b));
                    match self.corner(s, a, b) {
                        Corner::Triangle => classes.join(x, y),
                        Corner::None => open.push((x, y)),
                        Corner::Square(t) => {
                            classes.join(x, self.link(b, t));
                            classes.join(y, self.link(a, t));
                            closed.push((x, y));
                        }
                    }
                }
            }
            if classes.count == 1 {
                return None;
            }
        }
        let mut meetings: Vec<(usize, usize, bool)> = Vec::with_capacity(open.len() + closed.len());
        for (list, is_closed) in [(open, false), (closed, true)] {
            for (x, y) in list {
                let (x, y) = (classes.of(x), classes.of(y));
                if x != y {
                    meetings.push((x.min(y), x.max(y), is_closed));
                }
            }
        }
        meetings.sort_unstable();
        for group in meetings.chunk_by(|p, q| (p.0, p.1) == (q.0, q.1)) {
            let closed = group.iter().filter(|m| m.2).count();
            if 2 * closed <= group.len() {
                classes.join(group[0].0, group[0].1);
            }
        }
        if classes.count < 2 {
            return None;
        }
        let mut number = vec![u32::MAX; self.links];
        let mut next = 0;
        let of = (0..self.links).map(|link| {
            let class = classes.of(link);
            if number[class] == u32::MAX {
                number[class] = next;
                next += 1;
            }
            number[class]
        });
        Some(of.collect())
    }
}

/// The switches two hops away from one.
struct Ways {
    /// Each with the neighbours on the way.
    sets: Vec<(SwitchId, Set)>,
    /// By switch: its place among them.
    place: Vec<Option<u32>>,
}

impl Ways {
    fn new(switches: usize) -> Self {
        Self { sets: Vec::new(), place: vec![None; switches] }
    }

    fn clear(&mut self) {
        self.sets.drain(..).for_each(|(far, _)| self.place[far.index()] = None);
    }

    /// There is a way over neighbour number `i`.
    fn add(&mut self, far: SwitchId, i: usize) {
        let place = self.place[far.index()].get_or_insert_with(|| {
            self.sets.push((far, Set::default()));
            self.sets.len() as u32 - 1
        });
        self.sets[*place as usize].1.insert(i);
    }

    fn to(&self, far: SwitchId) -> Set {
        self.place[far.index()].map_or_else(Set::default, |place| self.sets[place as usize].1)
    }
}

/// Some of the neighbours of a switch, which has at most 255 ports.
#[derive(Clone, Copy, Default)]
struct Set([u64; 4]);

impl Set {
    fn insert(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }

    fn or(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    fn without(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    fn iter(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().enumerate().flat_map(|(word, bits)| {
            let rest = |bits: &u64| Some(bits & (bits - 1)).filter(|&bits| bits != 0);
            let sets = std::iter::successors(Some(bits).filter(|&bits| bits != 0), rest);
            sets.map(move |bits| word * 64 + bits.trailing_zeros() as usize)
        })
    }
}

/// The figure that two links of one switch belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Corner {
    Triangle,
    /// Exactly one square, with this switch opposite.
    Square(SwitchId),
    None,
}

/// Disjoint sets of links.
struct Classes {
    sets: UnionFind<usize>,
    count: usize,
}

impl Classes {
    fn new(links: usize) -> Self {
        Self { sets: UnionFind::new(links), count: links }
    }

    fn of(&mut self, link: usize) -> usize {
        self.sets.find_mut(link)
    }

    fn join(&mut self, a: usize, b: usize) {
        self.count -= usize::from(self.sets.union(a, b));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::ChannelId;
    use crate::ordering::Tree;
    use crate::topology::{
        Dragonfly, FatTree, HyperX, Hypercube, Kautz, Mesh, Random, SlimFly, Torus, fail_links, small_members,
    };

    /// The short way to say no never says it too often.
    #[test]
    fn without_links_in_exactly_one_square_it_is_no_product() {
        let fabrics = small_members().into_iter().map(|(_, f)| f).chain(products());
        let damaged = fabrics.flat_map(|f| [0, 1, 3].map(|links| fail_links(&f, links, 7).ok())).flatten();
        let (mut refused, mut found) = (0, 0);
        for f in damaged {
            let graph = Graph::new(&f);
            let dimension = Dimensions::find(&f).map(|found| found.dimension);
            assert_eq!(dimension, graph.dimensions(), "{f}");
            let mut ways = Ways::new(f.num_switches());
            let refuses = (0..f.num_switches()).all(|s| !graph.is_in_one_square(s, &mut ways));
            refused += usize::from(refuses);
            found += usize::from(dimension.is_some());
        }
        assert!(refused >= 10 && found >= 10, "{refused} and {found}");
    }

    fn corner(f: &Fabric) -> SwitchId {
        let far = |s: SwitchId| distances(f, [s.index()]).into_iter().max();
        f.switch_ids().max_by_key(|&s| (far(s), std::cmp::Reverse(s))).unwrap()
    }

    /// Pairs of switches without a shortest path that ascends.
    fn without(f: &Fabric, rank: &Rank) -> usize {
        let order = rank.order();
        let from = |s: SwitchId| {
            let mut hops = vec![u32::MAX; f.num_switches()];
            hops[s.index()] = 0;
            for &c in &order {
                let c = f.channels().get(c);
                let next = hops[c.from.index()].saturating_add(1);
                hops[c.to.index()] = hops[c.to.index()].min(next);
            }
            let least = distances(f, [s.index()]);
            hops.iter().zip(least).filter(|&(&hops, least)| hops > least).count()
        };
        f.switch_ids().map(from).sum()
    }

    fn products() -> Vec<Fabric> {
        let mesh = |dims: &[u32]| Mesh { dims: dims.to_vec(), cas: 1 }.build().unwrap();
        let hyperx = |dims: &[u32]| HyperX { dims: dims.to_vec(), cas: 1 }.build().unwrap();
        let torus = |dims: &[u32]| Torus { dims: dims.to_vec(), cas: 1 }.build().unwrap();
        vec![
            mesh(&[5, 4]),
            mesh(&[3, 4, 3]),
            hyperx(&[4, 3]),
            hyperx(&[4, 3, 3]),
            torus(&[3, 4, 4]),
            Hypercube { n: 5, cas: 1 }.build().unwrap(),
        ]
    }

    #[test]
    fn shortest_paths_in_dimension_order_ascend() {
        for f in products() {
            let found = Dimensions::find(&f).unwrap();
            assert_eq!(without(&f, &found.dimension_order(&f, corner(&f))), 0, "{f}");
        }
    }

    #[test]
    fn the_trees_span_and_ascend() {
        let torus = Torus { dims: vec![6, 6], cas: 1 }.build().unwrap();
        for f in products().into_iter().chain([torus]) {
            let found = Dimensions::find(&f).unwrap();
            let root = corner(&f);
            let rank = found.dimension_trees(&f, root);
            let tree = Tree::lowest(&f, &rank, SwitchId(0));
            let in_tree = |c: ChannelId| tree.contains(&f, c);
            assert!(rank.order().iter().map(|&c| !in_tree(c)).is_sorted(), "{f}: the first tree is lowest");
            assert_eq!(tree.with_tree_outermost(&f, &rank), rank, "{f}");
        }
    }

    #[test]
    fn a_link_changes_one_coordinate_and_that_is_its_dimension() {
        let torus = Torus { dims: vec![6, 5, 3], cas: 1 }.build().unwrap();
        let hyperx = HyperX { dims: vec![5, 5], cas: 1 }.build().unwrap();
        for whole in [torus, hyperx] {
            for f in [fail_links(&whole, 6, 1).unwrap(), whole] {
                let found = Dimensions::find(&f).unwrap();
                let coordinates = |s: SwitchId| {
                    let name = f.switch(s).description.trim_start_matches("sw-").to_owned();
                    name.split('-').map(str::to_owned).collect::<Vec<_>>()
                };
                let changed = |&(a, b): &(SwitchId, SwitchId)| {
                    let (a, b) = (coordinates(a), coordinates(b));
                    a.iter().zip(&b).position(|(a, b)| a != b).unwrap()
                };
                let mut both: Vec<(u32, usize)> =
                    found.dimension.iter().copied().zip(found.links.iter().map(changed)).collect();
                both.sort_unstable();
                both.dedup();
                assert!(both.is_sorted_by(|x, y| x.0 != y.0 && x.1 != y.1), "{f}: {both:?}");
            }
        }
    }

    /// Where one link of a corner's square is gone, the others may be sides of no square.
    #[test]
    fn places_show_what_open_squares_hide() {
        let whole = Mesh { dims: vec![6, 6], cas: 1 }.build().unwrap();
        let mut hidden = 0;
        for seed in 1..=40 {
            let f = fail_links(&whole, 1, seed).unwrap();
            let by_places = Dimensions::of_grid(&f).unwrap();
            match Dimensions::find(&f) {
                Some(found) => {
                    let same = found.dimension.iter().zip(&by_places.dimension).all(|(a, b)| {
                        let first = found.dimension.iter().position(|other| other == a).unwrap();
                        by_places.dimension[first] == *b
                    });
                    assert!(same, "{f}");
                }
                None => hidden += 1,
            }
        }
        assert!(hidden > 0);
        assert!(Dimensions::of_grid(&Mesh { dims: vec![9], cas: 1 }.build().unwrap()).is_none());
    }

    #[test]
    fn other_fabrics_have_none() {
        for f in [
            Dragonfly::balanced(3).build().unwrap(),
            FatTree { k: 8, levels: 3, down: None, cas: None }.build().unwrap(),
            SlimFly { q: 5, cas: None }.build().unwrap(),
            Kautz { d: 3, n: 3, cas: 1 }.build().unwrap(),
            Random { switches: 60, degree: 6, cas: 1, seed: 1 }.build().unwrap(),
            Mesh { dims: vec![9], cas: 1 }.build().unwrap(),
        ] {
            assert!(Dimensions::find(&f).is_none(), "{f}");
        }
    }
}
