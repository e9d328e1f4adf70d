//! Random graphs with given degrees, as lists of links.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// A link between two vertices.
pub(super) type Link = (u32, u32);

/// The index of a random link.
pub(super) fn any(links: &[Link], rng: &mut ChaCha8Rng) -> usize {
    rng.random_range(0..links.len() as u32) as usize
}

/// Exchanges ends between links of different components until all `n` vertices are connected.
///
/// Degrees stay the same. No loop or parallel link can result, as the ends were in different
/// components. An exchange never adds a component, and removes one if one of the links is on a
/// cycle; so every component except single links needs a cycle. Cost: O(components · (n + links))
/// expected.
pub(super) fn connect(n: u32, links: &mut [Link], rng: &mut ChaCha8Rng) {
    let mut component = components(n, links);
    while component.iter().any(|&c| c != component[0]) {
        let (i, j) = loop {
            let (i, j) = (any(links, rng), any(links, rng));
            if component[links[i].0 as usize] != component[links[j].0 as usize] {
                break (i, j);
            }
        };
        let ((a, b), (c, d)) = (links[i], links[j]);
        (links[i], links[j]) = ((a, c), (b, d));
        component = components(n, links);
    }
}

/// The component of each vertex, as its representative.
fn components(n: u32, links: &[Link]) -> Vec<u32> {
    let mut sets = Sets::new(n as usize);
    for &(a, b) in links {
        sets.join(a as usize, b as usize);
    }
    (0..n as usize).map(|v| sets.find(v) as u32).collect()
}

/// Disjoint sets.
pub(super) struct Sets {
    parent: Vec<usize>,
}

impl Sets {
    /// `n` sets of one.
    pub(super) fn new(n: usize) -> Self {
        Self { parent: (0..n).collect() }
    }

    /// The representative of a set.
    pub(super) fn find(&mut self, mut v: usize) -> usize {
        while self.parent[v] != v {
            self.parent[v] = self.parent[self.parent[v]];
            v = self.parent[v];
        }
        v
    }

    /// Merges two sets; false if they were one already.
    pub(super) fn join(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        self.parent[a.max(b)] = a.min(b);
        a != b
    }
}
