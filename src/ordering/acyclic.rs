//! A graph that stays free of cycles while edges are added (Pearce, Kelly: "A Dynamic Topological Sort Algorithm
//! for Directed Acyclic Graphs", 2006).

use std::ops::RangeInclusive;

/// The edges of a graph.
pub trait Edges {
    /// Calls `each` with the vertices that edges lead to.
    fn after(&self, vertex: u32, each: impl FnMut(u32));
    /// Calls `each` with the vertices that edges come from.
    fn before(&self, vertex: u32, each: impl FnMut(u32));
}

/// An order of the vertices of a graph in which every edge leads forward.
#[derive(Clone)]
pub struct TopologicalOrder {
    /// Place of each vertex in the order.
    place: Vec<u32>,
    /// By vertex: the search that met it last.
    met: Vec<u32>,
    searches: u32,
    /// Vertices that all searches met.
    visited: u64,
}

impl TopologicalOrder {
    /// Vertices `0..n`, as long as there are no edges.
    pub fn new(vertices: usize) -> Self {
        Self::by_place((0..vertices as u32).collect())
    }

    /// Of a graph without edges.
    ///
    /// - `place`: of each vertex, all different.
    pub fn by_place(place: Vec<u32>) -> Self {
        Self { met: vec![0; place.len()], place, searches: 0, visited: 0 }
    }

    /// Of a graph, those first that no edge leads to; `None` if it has a cycle.
    ///
    /// - `after`: as [`Edges::after`].
    ///
    /// Cost: O(vertices and edges).
    pub fn of(vertices: usize, after: impl Fn(u32, &mut dyn FnMut(u32))) -> Option<Self> {
        let mut before = vec![0_u32; vertices];
        let all = 0..vertices as u32;
        all.clone().for_each(|v| after(v, &mut |w| before[w as usize] += 1));
        let mut order: Vec<u32> = all.filter(|&v| before[v as usize] == 0).collect();
        let mut place = vec![0; vertices];
        let mut next = 0;
        while let Some(&v) = order.get(next) {
            place[v as usize] = next as u32;
            next += 1;
            after(v, &mut |w| {
                before[w as usize] -= 1;
                if before[w as usize] == 0 {
                    order.push(w);
                }
            });
        }
        (order.len() == vertices).then(|| Self::by_place(place))
    }

    /// Changes the order so that one more edge leads forward; returns whether there is such an order.
    ///
    /// - `edges`: those that lead forward now.
    ///
    /// Cost: O(1) if it leads forward already; otherwise that of the vertices between its ends. Where there is no such order,
    /// the searches from both ends take turns, and end where they meet.
    pub fn admit(&mut self, edges: &impl Edges, from: usize, to: usize) -> bool {
        let (low, high) = (self.place[to], self.place[from]);
        if high <= low {
            return from != to;
        }
        self.begin();
        // Everything behind `to` and before `from` changes places.
        let mut behind = self.search(Direction::After, to, low..=high);
        let mut ahead = self.search(Direction::Before, from, low..=high);
        while !behind.is_done() && !ahead.is_done() {
            if self.go_on(edges, &mut behind, ahead.number) || self.go_on(edges, &mut ahead, behind.number) {
                return false;
            }
        }
        // They meet no more.
        for search in [&mut behind, &mut ahead] {
            while !search.is_done() {
                self.go_on(edges, search, 0);
            }
        }
        self.exchange(ahead.found, behind.found);
        true
    }

    /// Puts some vertices before others, on the places that all of them have together.
    ///
    /// - `first`, `then`: each keep their order among themselves.
    pub fn exchange(&mut self, mut first: Vec<u32>, mut then: Vec<u32>) {
        for list in [&mut first, &mut then] {
            list.sort_unstable_by_key(|&v| self.place[v as usize]);
        }
        first.append(&mut then);
        let mut places: Vec<u32> = first.iter().map(|&v| self.place[v as usize]).collect();
        places.sort_unstable();
        for (v, place) in first.into_iter().zip(places) {
            self.place[v as usize] = place;
        }
    }

    /// The place of a vertex in the order.
    pub fn place(&self, vertex: usize) -> u32 {
        self.place[vertex]
    }

    /// The places by vertex.
    pub fn places(&self) -> &[u32] {
        &self.place
    }

    /// Vertices that all searches for an order met so far: the cost of additions.
    pub fn visited(&self) -> u64 {
        self.visited
    }

    /// The vertices on a way from one vertex to another, both included, the last first; `None` without a way.
    ///
    /// Cost: that of the vertices between the places of the two.
    pub fn way(&mut self, edges: &impl Edges, from: usize, to: usize) -> Option<Vec<u32>> {
        self.begin();
        let places = self.place[from]..=self.place[to];
        let mut search = self.search(Direction::After, from, places);
        // By vertex found: the place of the one that it was found from.
        let mut found_from = vec![0];
        while !search.is_done() && self.met[to] != search.number {
            self.go_on(edges, &mut search, 0);
            found_from.resize(search.found.len(), search.next - 1);
        }
        let end = search.found.iter().position(|&v| v as usize == to)?;
        let back = |&at: &usize| (at > 0).then(|| found_from[at]);
        Some(std::iter::successors(Some(end), back).map(|at| search.found[at]).collect())
    }

    /// Numbers for two more searches.
    fn begin(&mut self) {
        if self.searches > u32::MAX - 2 {
            self.met.fill(0);
            self.searches = 0;
        }
    }

    /// A search for the vertices that can be reached without leaving some places.
    fn search(&mut self, direction: Direction, start: usize, within: RangeInclusive<u32>) -> Search {
        self.searches += 1;
        self.met[start] = self.searches;
        self.visited += 1;
        Search { direction, number: self.searches, within, found: vec![start as u32], next: 0 }
    }

    /// Follows the edges of one more vertex; returns whether some lead to one that another search met.
    fn go_on(&mut self, edges: &impl Edges, search: &mut Search, other: u32) -> bool {
        let Self { place, met, visited, .. } = self;
        let Search { direction, number, within, found, next } = search;
        let (v, before) = (found[*next], found.len());
        *next += 1;
        let mut meets = false;
        let visit = |w: u32| {
            let met = &mut met[w as usize];
            meets |= *met == other;
            if *met != *number && within.contains(&place[w as usize]) {
                *met = *number;
                found.push(w);
            }
        };
        match direction {
            Direction::After => edges.after(v, visit),
            Direction::Before => edges.before(v, visit),
        }
        *visited += (found.len() - before) as u64;
        meets
    }
}

/// The vertices that a search has met.
struct Search {
    direction: Direction,
    number: u32,
    /// Places that it does not leave.
    within: RangeInclusive<u32>,
    found: Vec<u32>,
    /// The first of them whose edges have not been followed.
    next: usize,
}

impl Search {
    fn is_done(&self) -> bool {
        self.next == self.found.len()
    }
}

#[derive(Clone, Copy)]
enum Direction {
    After,
    Before,
}

/// Vertices `0..n`, lists of their edges, and an order of them.
#[derive(Clone)]
pub struct Acyclic {
    order: TopologicalOrder,
    lists: Lists,
}

#[derive(Clone)]
struct Lists {
    after: Vec<Vec<u32>>,
    before: Vec<Vec<u32>>,
}

impl Edges for Lists {
    fn after(&self, vertex: u32, each: impl FnMut(u32)) {
        self.after[vertex as usize].iter().copied().for_each(each);
    }

    fn before(&self, vertex: u32, each: impl FnMut(u32)) {
        self.before[vertex as usize].iter().copied().for_each(each);
    }
}

impl Acyclic {
    /// Without edges.
    pub fn new(vertices: usize) -> Self {
        let lists = Lists { after: vec![Vec::new(); vertices], before: vec![Vec::new(); vertices] };
        Self { order: TopologicalOrder::new(vertices), lists }
    }

    /// Adds an edge unless it would close a cycle; returns whether it was added.
    ///
    /// Cost: that of [`TopologicalOrder::admit`].
    pub fn add(&mut self, from: usize, to: usize) -> bool {
        let fits = self.order.admit(&self.lists, from, to);
        if fits {
            self.lists.after[from].push(to as u32);
            self.lists.before[to].push(from as u32);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};

    use super::{Acyclic, Edges, Lists, TopologicalOrder};

    #[test]
    fn refuses_exactly_the_edges_that_close_a_cycle() {
        let (mut added, mut refused) = (0, 0);
        for seed in 0..50 {
            let mut dice = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let n = dice.random_range(2..20);
            let mut graph = Acyclic::new(n);
            let of = |lists: &Lists| TopologicalOrder::of(n, |v, each| lists.after(v, each));
            let mut reach = vec![vec![false; n]; n];
            for _ in 0..60 {
                let (a, b) = (dice.random_range(0..n), dice.random_range(0..n));
                let cycle = a == b || reach[b][a];
                assert_eq!(graph.add(a, b), !cycle);
                if cycle {
                    graph.lists.after[a].push(b as u32);
                    assert!(of(&graph.lists).is_none());
                    graph.lists.after[a].pop();
                    refused += 1;
                    continue;
                }
                let order = of(&graph.lists).unwrap();
                let leads_forward = |(v, after): (usize, &Vec<u32>)| {
                    after.iter().all(|&w| order.place(v) < order.place(w as usize))
                };
                assert!(graph.lists.after.iter().enumerate().all(leads_forward));
                added += 1;
                for x in 0..n {
                    for y in 0..n {
                        reach[x][y] |= (x == a || reach[x][a]) && (y == b || reach[b][y]);
                    }
                }
            }
        }
        assert!(added > 100 && refused > 100);
    }

    #[test]
    fn a_search_ends_where_it_closes_the_cycle() {
        let mut chain = Acyclic::new(1000);
        assert!((1..1000).all(|v| chain.add(v - 1, v)) && chain.add(0, 999));
        let before = chain.order.visited();
        assert!(!chain.add(999, 0));
        // Both ends, and the vertex after the first one, whose edge leads to the last one.
        assert!(chain.order.visited() - before <= 4);
    }
}
