//! A graph that stays free of cycles while edges are added (Pearce, Kelly: "A Dynamic Topological Sort Algorithm
//! for Directed Acyclic Graphs", 2006).

/// Vertices `0..n`, and an order of them in which every edge leads forward.
#[derive(Clone)]
pub struct Acyclic {
    after: Vec<Vec<u32>>,
    before: Vec<Vec<u32>>,
    /// Place of each vertex in the order.
    place: Vec<u32>,
    /// By vertex: the search that met it last.
    met: Vec<u32>,
    searches: u32,
}

impl Acyclic {
    /// Without edges.
    pub fn new(vertices: usize) -> Self {
        Self {
            after: vec![Vec::new(); vertices],
            before: vec![Vec::new(); vertices],
            place: (0..vertices as u32).collect(),
            met: vec![0; vertices],
            searches: 0,
        }
    }

    /// Adds an edge unless it would close a cycle; returns whether it was added.
    ///
    /// Cost: O(1) if it leads forward in the order; otherwise that of the vertices between its ends.
    pub fn add(&mut self, from: usize, to: usize) -> bool {
        if from == to {
            return false;
        }
        let (low, high) = (self.place[to], self.place[from]);
        if high > low {
            // Everything behind `to` and before `from` changes places.
            let mut behind = self.reach(to, Direction::After, |place| place <= high);
            if behind.contains(&(from as u32)) {
                return false;
            }
            let mut ahead = self.reach(from, Direction::Before, |place| place >= low);
            behind.sort_unstable_by_key(|&v| self.place[v as usize]);
            ahead.sort_unstable_by_key(|&v| self.place[v as usize]);
            let moved: Vec<u32> = ahead.into_iter().chain(behind).collect();
            let mut places: Vec<u32> = moved.iter().map(|&v| self.place[v as usize]).collect();
            places.sort_unstable();
            for (v, place) in moved.into_iter().zip(places) {
                self.place[v as usize] = place;
            }
        }
        self.after[from].push(to as u32);
        self.before[to].push(from as u32);
        true
    }

    /// Whether an edge was added.
    ///
    /// Cost: O(edges out of `from`).
    pub fn has(&self, from: usize, to: usize) -> bool {
        self.after[from].contains(&(to as u32))
    }

    /// Takes back the last edge that was added; the order stays.
    ///
    /// # Panics
    /// If another one was the last at one of its ends.
    pub fn remove_last(&mut self, from: usize, to: usize) {
        let (after, before) = (self.after[from].pop(), self.before[to].pop());
        assert!(after == Some(to as u32) && before == Some(from as u32), "the last edge");
    }

    /// The place of a vertex in the order.
    pub fn place(&self, vertex: usize) -> u32 {
        self.place[vertex]
    }

    /// The vertices that can be reached over edges without leaving some places.
    fn reach(&mut self, start: usize, direction: Direction, within: impl Fn(u32) -> bool) -> Vec<u32> {
        let edges = match direction {
            Direction::After => &self.after,
            Direction::Before => &self.before,
        };
        self.searches = self.searches.checked_add(1).unwrap_or_else(|| {
            self.met.fill(0);
            1
        });
        self.met[start] = self.searches;
        let mut found = vec![start as u32];
        let mut next = 0;
        while let Some(&v) = found.get(next) {
            next += 1;
            for &w in &edges[v as usize] {
                let met = &mut self.met[w as usize];
                if *met != self.searches && within(self.place[w as usize]) {
                    *met = self.searches;
                    found.push(w);
                }
            }
        }
        found
    }
}

enum Direction {
    After,
    Before,
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};

    use super::Acyclic;

    #[test]
    fn refuses_exactly_the_edges_that_close_a_cycle() {
        let (mut added, mut refused) = (0, 0);
        for seed in 0..50 {
            let mut dice = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let n = dice.random_range(2..20);
            let mut graph = Acyclic::new(n);
            let mut reach = vec![vec![false; n]; n];
            for _ in 0..60 {
                let (a, b) = (dice.random_range(0..n), dice.random_range(0..n));
                let cycle = a == b || reach[b][a];
                assert_eq!(graph.add(a, b), !cycle);
                if cycle {
                    refused += 1;
                    continue;
                }
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
    fn edges_are_taken_back() {
        let mut graph = Acyclic::new(3);
        assert!(graph.add(0, 1) && graph.add(1, 2) && !graph.add(2, 0));
        graph.remove_last(1, 2);
        assert!(graph.add(2, 0) && graph.has(2, 0) && !graph.has(1, 2));
        assert!(graph.place(2) < graph.place(0) && graph.place(0) < graph.place(1));
    }
}
