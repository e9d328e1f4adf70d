//! Scale-free network, as the Internet is: few switches have many links, and most have one or two.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fabric::Fabric;

use super::error::{TopologyError, at_least, invalid};
use super::plan::{Plan, Size};
use super::rewire::{self, Link};

/// A network that grew by preferential attachment (Barabási and Albert, "Emergence of Scaling in Random Networks",
/// 1999): each new switch has links to others, drawn in proportion to the links that these have.
///
/// It begins with `links` + 1 switches, all linked to each other. The last `stubs` switches have one link, as most
/// networks of the Internet do. No links are parallel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleFree {
    /// Number of switches, more than `links` + `stubs`.
    pub switches: u32,
    /// Links of a new switch, at least 1.
    pub links: u32,
    /// Switches with one link.
    pub stubs: u32,
    /// Adapters per switch, at least 1.
    pub cas: u32,
    /// Seed of all random choices.
    pub seed: u64,
}

impl ScaleFree {
    /// Builds it. Switches: `sw-I`. Ports: adapters, then links by the number of the other switch.
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range, the fabric too large, or a switch has too many links.
    ///
    /// Cost: O(links · log(links) + adapters) expected time.
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        let &Self { switches, links, stubs, cas, seed } = self;
        at_least("links", links, 1)?;
        at_least("cas", cas, 1)?;
        if u64::from(links) + u64::from(stubs) >= switches.into() {
            let valid = format!("with links = {links} and stubs = {stubs} there must be more");
            return Err(invalid("switches", switches, valid));
        }
        let size = |ports: u128| Size {
            switches: switches.into(),
            adapters: u128::from(switches) * u128::from(cas),
            ports: ports + u128::from(cas),
        };
        Plan::new(&size(links.into()))?;
        let links = self.attach(&mut ChaCha8Rng::seed_from_u64(seed));
        let mut degrees = vec![0; switches as usize];
        links.iter().for_each(|&(a, b)| [a, b].iter().for_each(|&s| degrees[s as usize] += 1));
        let mut plan = Plan::new(&size(degrees.into_iter().max().unwrap_or(0)))?;
        for i in 0..switches {
            plan.switch(format!("sw-{i}"), cas);
        }
        for (a, b) in links {
            plan.link(a as usize, b as usize);
        }
        plan.build()
    }

    /// The links, sorted, each with its lower switch first.
    fn attach(&self, rng: &mut ChaCha8Rng) -> Vec<Link> {
        let first = self.links + 1;
        let mut all: Vec<Link> = (0..first).flat_map(|b| (0..b).map(move |a| (a, b))).collect();
        for new in first..self.switches {
            let wanted = if new < self.switches - self.stubs { self.links } else { 1 };
            let mut others: Vec<u32> = Vec::new();
            while others.len() < wanted as usize {
                // An end of a random link: a switch with twice the links is drawn twice as often.
                let (a, b) = all[rewire::any(&all, rng)];
                let other = if rng.random() { a } else { b };
                if !others.contains(&other) {
                    others.push(other);
                }
            }
            all.extend(others.into_iter().map(|other| (other, new)));
        }
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;

    fn build(switches: u32, links: u32, stubs: u32, seed: u64) -> Fabric {
        ScaleFree { switches, links, stubs, cas: 2, seed }.build().unwrap()
    }

    #[test]
    fn connected_with_few_large_switches() {
        for seed in 0..10 {
            let f = build(200, 2, 100, seed);
            assert_eq!(probe::shape(&f), (200, 400));
            // Three switches in a triangle, 97 with two links more each, and 100 with one.
            assert_eq!(f.channels().len(), 2 * (3 + 2 * 97 + 100));
            assert!(probe::is_simple(&f) && probe::diameter(&f).is_some());
            let mut degrees: Vec<usize> = f.switch_ids().map(|s| f.channels().out(s).count()).collect();
            degrees.sort_unstable();
            assert!(degrees[40] == 1 && degrees[100] <= 2 && degrees[199] >= 16, "{degrees:?}");
        }
    }

    #[test]
    fn smallest_members_and_trees() {
        assert_eq!(build(2, 1, 0, 1).channels().len(), 2);
        assert_eq!(build(20, 1, 5, 1).channels().len(), 2 * 19);
        assert_eq!(probe::degrees(&build(5, 4, 0, 1)), [4].into());
    }

    #[test]
    fn the_seed_decides() {
        assert!(probe::same(&build(40, 2, 10, 1), &build(40, 2, 10, 1)));
        assert!(!probe::same(&build(40, 2, 10, 1), &build(40, 2, 10, 2)));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let message = |switches, links, stubs, cas| {
            ScaleFree { switches, links, stubs, cas, seed: 1 }.build().unwrap_err().to_string()
        };
        assert!(message(5, 0, 0, 1).contains("links = 0"));
        assert!(message(5, 2, 3, 1).contains("there must be more"));
        assert!(message(5, 2, 0, 0).contains("cas = 0"));
        assert!(message(u32::MAX, 2, 0, 1).contains("too many"));
        assert!(message(20_000, 40, 0, 1).contains("ports"));
    }
}
