//! Random regular network: every switch has the same number of links, to random others.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fabric::Fabric;

use super::error::{TopologyError, at_least, invalid};
use super::plan::{Plan, Size};
use super::rewire::{self, Link};

/// Exchanges tried per link: enough to lose all trace of the initial graph.
const EXCHANGES: usize = 10;

/// A random connected graph in which all switches have `degree` links, none of them parallel:
/// Jellyfish, if `degree` is at least 3.
///
/// Shuffles a circulant graph: two random links exchange ends, 10 times as often as there are
/// links, unless that would create a loop or a parallel link. If the result is not connected, links
/// of different parts exchange ends until it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    /// Number of switches, more than `degree`.
    pub switches: u32,
    /// Links per switch, at least 2; even if the number of switches is odd.
    pub degree: u32,
    /// Adapters per switch, at least 1.
    pub cas: u32,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Random {
    /// Builds it. Switches: `sw-I`. Ports: adapters, then links by the number of the other switch.
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range or the fabric too large.
    ///
    /// Cost: O(links · (degree + log(links)) + adapters) expected time.
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        let &Self { switches, degree, cas, seed } = self;
        at_least("degree", degree, 2)?;
        at_least("cas", cas, 1)?;
        if degree >= switches {
            return Err(invalid("degree", degree, format!("it must be below switches = {switches}")));
        }
        if degree % 2 == 1 && switches % 2 == 1 {
            let valid = format!("with an odd number of switches, {switches}, it must be even");
            return Err(invalid("degree", degree, valid));
        }
        let mut plan = Plan::new(&Size {
            switches: switches.into(),
            adapters: u128::from(switches) * u128::from(cas),
            ports: u128::from(degree) + u128::from(cas),
        })?;
        for i in 0..switches {
            plan.switch(format!("sw-{i}"), cas);
        }
        let mut links = regular(switches, degree, &mut ChaCha8Rng::seed_from_u64(seed));
        links.sort_unstable();
        for (a, b) in links {
            plan.link(a as usize, b as usize);
        }
        plan.build()
    }
}

fn regular(n: u32, degree: u32, rng: &mut ChaCha8Rng) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    for distance in 1..=degree / 2 {
        links.extend((0..n).map(|i| (i, (i + distance) % n)));
    }
    if degree % 2 == 1 {
        links.extend((0..n / 2).map(|i| (i, i + n / 2)));
    }
    let mut neighbours = vec![Vec::with_capacity(degree as usize); n as usize];
    for &(a, b) in &links {
        neighbours[a as usize].push(b);
        neighbours[b as usize].push(a);
    }
    for _ in 0..EXCHANGES * links.len() {
        let (i, j) = (rewire::any(&links, rng), rewire::any(&links, rng));
        let ((a, b), (mut c, mut d)) = (links[i], links[j]);
        if rng.random() {
            (c, d) = (d, c);
        }
        let linked = |a: u32, b: u32| neighbours[a as usize].contains(&b);
        if a == c || b == d || linked(a, c) || linked(b, d) {
            continue;
        }
        for (at, old, new) in [(a, b, c), (b, a, d), (c, d, a), (d, c, b)] {
            for neighbour in neighbours[at as usize].iter_mut().filter(|n| **n == old) {
                *neighbour = new;
            }
        }
        (links[i], links[j]) = ((a, c), (b, d));
    }
    rewire::connect(n, &mut links, rng);
    links.into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;

    #[test]
    fn regular_simple_and_connected_for_every_seed() {
        for (switches, degree) in [(3, 2), (4, 3), (10, 3), (11, 4), (40, 2), (64, 6), (8, 7), (9, 6)] {
            for seed in 0..20 {
                let f = Random { switches, degree, cas: 2, seed }.build().unwrap();
                let label = format!("{switches} {degree} {seed}");
                assert_eq!(probe::shape(&f), (switches as usize, 2 * switches as usize), "{label}");
                assert_eq!(probe::degrees(&f), [degree as usize].into(), "{label}");
                assert!(probe::is_simple(&f) && probe::diameter(&f).is_some(), "{label}");
            }
        }
    }

    #[test]
    fn the_seed_decides() {
        let build = |seed| Random { switches: 64, degree: 6, cas: 1, seed }.build().unwrap();
        assert!(probe::same(&build(1), &build(1)));
        assert!(!probe::same(&build(1), &build(2)));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let message = |switches, degree, cas| {
            Random { switches, degree, cas, seed: 1 }.build().unwrap_err().to_string()
        };
        assert!(message(9, 3, 1).contains("odd number of switches, 9"));
        assert!(message(4, 4, 1).contains("below switches = 4"));
        assert!(message(4, 1, 1).contains("degree = 1"));
        assert!(message(4, 2, 0).contains("cas = 0"));
        assert!(message(u32::MAX, 4, u32::MAX).contains("too many"));
        assert!(message(400, 300, 1).contains("301 ports"));
    }
}
