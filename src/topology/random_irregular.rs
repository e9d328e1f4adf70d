//! Random irregular network: switches of equal size, cabled at random.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::fabric::Fabric;

use super::error::{TopologyError, at_least, invalid};
use super::plan::{Plan, PlannedSwitch, Size};
use super::rewire::{self, Link};

/// Switches with `ports` ports: `cas` of them have an adapter, and all others are cabled at random
/// to other switches. Section IV.E of Hoefler et al. uses 24 ports and 12 adapters.
///
/// All free ports are shuffled and cabled in pairs; parallel cables may occur. A cable from a
/// switch to itself exchanges ends with a random other cable. So do cables of different parts until
/// the network is connected. If the number of free ports is odd, one stays free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RandomIrregular {
    /// Number of switches, at least 2.
    pub switches: u32,
    /// Ports per switch, at least `cas + 2`, or `cas + 1` with two switches.
    pub ports: u32,
    /// Adapters per switch, at least 1.
    pub cas: u32,
    /// Seed of all random choices.
    pub seed: u64,
}

impl RandomIrregular {
    /// Builds it. Switches: `sw-I`. Ports: adapters, then links by the number of the other switch.
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range or the fabric too large.
    ///
    /// Cost: O(links · log(links) + adapters) expected time.
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        let &Self { switches, ports, cas, seed } = self;
        at_least("switches", switches, 2)?;
        at_least("cas", cas, 1)?;
        let least = u64::from(cas) + if switches == 2 { 1 } else { 2 };
        if u64::from(ports) < least {
            let valid =
                format!("with cas = {cas} it must be at least {least} to connect {switches} switches");
            return Err(invalid("ports", ports, valid));
        }
        let mut plan = Plan::new(&Size {
            switches: switches.into(),
            adapters: u128::from(switches) * u128::from(cas),
            ports: ports.into(),
        })?;
        for i in 0..switches {
            plan.add(PlannedSwitch { name: format!("sw-{i}"), cas, ports, ..Default::default() });
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut free: Vec<u32> = (0..switches).flat_map(|s| (cas..ports).map(move |_| s)).collect();
        free.shuffle(&mut rng);
        let mut links: Vec<Link> = free.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        without_loops(&mut links, &mut rng);
        rewire::connect(switches, &mut links, &mut rng);
        let mut links: Vec<Link> = links.into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect();
        links.sort_unstable();
        for (a, b) in links {
            plan.link(a as usize, b as usize);
        }
        plan.build()
    }
}

/// Exchanges an end of each loop with a random link elsewhere. There is always one: a switch with a
/// loop has too few other ports to be at an end of all other links.
fn without_loops(links: &mut [Link], rng: &mut ChaCha8Rng) {
    for i in 0..links.len() {
        while links[i].0 == links[i].1 {
            let s = links[i].0;
            let j = rewire::any(links, rng);
            let (a, b) = links[j];
            if a != s && b != s {
                (links[i], links[j]) = ((s, a), (s, b));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;
    use crate::fabric::Note;

    #[test]
    fn all_ports_are_used_and_all_is_connected() {
        for (switches, ports, cas) in [(2, 2, 1), (2, 8, 3), (3, 3, 1), (3, 4, 1), (7, 6, 3), (43, 24, 12)] {
            for seed in 0..20 {
                let f = RandomIrregular { switches, ports, cas, seed }.build().unwrap();
                let label = format!("{switches} {ports} {cas} {seed}");
                assert_eq!(probe::shape(&f), (switches as usize, (switches * cas) as usize), "{label}");
                assert_eq!(f.channels().len(), (switches * (ports - cas)) as usize / 2 * 2, "{label}");
                assert!(f.switch_ids().all(|s| u32::from(f.switch(s).num_ports()) == ports), "{label}");
                assert!(probe::diameter(&f).is_some(), "{label}");
                assert!(!f.notes().iter().any(|n| matches!(n, Note::SelfLoop { .. })), "{label}");
            }
        }
    }

    #[test]
    fn sizes_of_the_paper() {
        // Hoefler et al., section IV.E: 3000 and 516 endpoints.
        for (switches, endpoints) in [(250, 3000), (43, 516)] {
            let f = RandomIrregular { switches, ports: 24, cas: 12, seed: 1 }.build().unwrap();
            assert_eq!(f.adapters().count(), endpoints);
        }
    }

    #[test]
    fn the_seed_decides() {
        let build = |seed| RandomIrregular { switches: 20, ports: 8, cas: 3, seed }.build().unwrap();
        assert!(probe::same(&build(1), &build(1)));
        assert!(!probe::same(&build(1), &build(2)));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let message = |switches, ports, cas| {
            RandomIrregular { switches, ports, cas, seed: 1 }.build().unwrap_err().to_string()
        };
        assert!(message(1, 4, 1).contains("switches = 1"));
        assert!(message(3, 4, 0).contains("cas = 0"));
        assert!(message(3, 4, 3).contains("at least 5"));
        assert!(message(3, 300, 3).contains("300 ports"));
        assert!(message(u32::MAX, 8, 4).contains("too many"));
    }
}
