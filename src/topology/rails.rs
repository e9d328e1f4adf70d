//! The tree of a GPU cluster, with what such trees grow: cross links and service switches.

use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;

use crate::fabric::Fabric;

use super::error::{TopologyError, at_least};
use super::plan::{Plan, Size};

/// Cables of a service switch.
const SERVICE_CABLES: u32 = 6;

/// A rail-optimised tree of three levels, as GPU clusters have it: adapter number `r` of every node is on rail `r`.
///
/// A unit of a pod is some nodes and a leaf for each rail. Spine number `j` of a rail joins the leaves of that rail in its
/// pod, and the cores with the same number join all spines number `j`. Each core has an aggregation node.
///
/// Cross links and service switches make it a cluster that has grown: a cross link leads from one leaf to any other, and
/// a service switch hangs from six leaves and has half as many adapters as a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rails {
    /// Pods, `1..`.
    pub pods: u32,
    /// Units of a pod, `1..`.
    pub units: u32,
    /// Rails, so leaves of a unit, `1..`.
    pub rails: u32,
    /// Spines of a rail in a pod, `1..`.
    pub spines: u32,
    /// Cables from a leaf to each of its spines, `1..`.
    pub width: u32,
    /// Cores for each number of a spine, `1..`.
    pub cores: u32,
    /// Adapters on a leaf, `1..`.
    pub cas: u32,
    /// Cross links.
    pub cross: u32,
    /// Service switches.
    pub services: u32,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Rails {
    /// Builds it. Switches: `core-J-I`, then by pod `pP-spine-R-J` and `pP-leaf-U-R`, then `service-I`.
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range or the fabric too large.
    ///
    /// Cost: O(links + adapters) time.
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        let &Self { pods, units, rails, spines, width, cores, cas, cross, services, seed } = self;
        let needed = [
            ("pods", pods),
            ("units", units),
            ("rails", rails),
            ("spines", spines),
            ("width", width),
            ("cores", cores),
            ("cas", cas),
        ];
        for (name, value) in needed {
            at_least(name, value, 1)?;
        }
        let product = |factors: &[u32]| factors.iter().fold(1_u128, |all, &n| all.saturating_mul(n.into()));
        let (leaves, tops) = (product(&[pods, units, rails]), product(&[spines, cores]));
        let all_spines = product(&[pods, rails, spines]);
        let service_cas = (cas / 2).max(1);
        let leaf_ports = product(&[width, spines]).saturating_add(cas.into());
        let spine_ports = product(&[units, width]).saturating_add(cores.into());
        let mut plan = Plan::new(&Size {
            switches: leaves.saturating_add(all_spines).saturating_add(tops).saturating_add(services.into()),
            adapters: (leaves.saturating_mul(cas.into()))
                .saturating_add(tops)
                .saturating_add(product(&[services, service_cas])),
            ports: leaf_ports.max(spine_ports).max(product(&[pods, rails]) + 1),
        })?;
        let core: Vec<Vec<usize>> = (0..spines)
            .map(|j| (0..cores).map(|i| plan.switch(format!("core-{j}-{i}"), 1)).collect())
            .collect();
        let mut all_leaves = Vec::new();
        for pod in 0..pods {
            let mut of_rail: Vec<Vec<usize>> = Vec::new();
            for rail in 0..rails {
                let spine = (0..spines).map(|j| plan.switch(format!("p{pod}-spine-{rail}-{j}"), 0));
                of_rail.push(spine.collect());
            }
            for spine in &of_rail {
                for (&spine, core) in spine.iter().zip(&core) {
                    core.iter().for_each(|&core| plan.link(spine, core));
                }
            }
            for unit in 0..units {
                for (rail, spine) in of_rail.iter().enumerate() {
                    let leaf = plan.switch(format!("p{pod}-leaf-{unit}-{rail}"), cas);
                    all_leaves.push(leaf);
                    for &spine in spine {
                        (0..width).for_each(|_| plan.link(leaf, spine));
                    }
                }
            }
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut some = |count: u32| -> Vec<usize> {
            let count = (count as usize).min(all_leaves.len());
            sample(&mut rng, all_leaves.len(), count).into_iter().map(|i| all_leaves[i]).collect()
        };
        for i in 0..services {
            let service = plan.switch(format!("service-{i}"), service_cas);
            some(SERVICE_CABLES).into_iter().for_each(|leaf| plan.link(service, leaf));
        }
        for _ in 0..cross {
            if let [a, b] = some(2)[..] {
                plan.link(a, b);
            }
        }
        plan.build()
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;

    fn small() -> Rails {
        let (cross, services, seed) = (0, 0, 1);
        Rails { pods: 2, units: 3, rails: 2, spines: 2, width: 2, cores: 3, cas: 4, cross, services, seed }
    }

    #[test]
    fn a_rail_is_two_channels_wide_in_a_pod_and_four_between_pods() {
        let f = small().build().unwrap();
        assert_eq!(probe::shape(&f), (2 * 3 * 2 + 2 * 2 * 2 + 2 * 3, 2 * 3 * 2 * 4 + 6));
        let hops = crate::routing::Hops::new(&f).unwrap();
        let leaf = |name: &str| f.switch_ids().find(|&s| f.switch(s).description == name).unwrap();
        let apart = |a: &str, b: &str| hops.get(leaf(a), leaf(b));
        assert_eq!(apart("p0-leaf-0-1", "p0-leaf-2-1"), 2);
        assert_eq!(apart("p0-leaf-0-1", "p0-leaf-0-0"), 4);
        assert_eq!(apart("p0-leaf-0-1", "p1-leaf-2-1"), 4);
    }

    #[test]
    fn cross_links_and_service_switches_hang_from_leaves() {
        let plain = small().build().unwrap();
        for seed in 1..=4 {
            let f = Rails { cross: 5, services: 2, seed, ..small() }.build().unwrap();
            assert_eq!(probe::shape(&f), (plain.num_switches() + 2, plain.adapters().count() + 2 * 2));
            let more = f.channels().len() - plain.channels().len();
            assert_eq!(more, 2 * (5 + 2 * SERVICE_CABLES as usize));
            let name = |s| f.switch(s).description.as_str();
            for (_, c) in f.channels().iter().filter(|(_, c)| name(c.from).starts_with("service")) {
                assert!(name(c.to).contains("leaf"), "{seed}");
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let message = |rails: Rails| rails.build().unwrap_err().to_string();
        assert!(message(Rails { pods: 0, ..small() }).contains("pods"));
        assert!(message(Rails { cores: 0, ..small() }).contains("cores"));
        assert!(matches!(
            Rails { units: u32::MAX, rails: u32::MAX, ..small() }.build(),
            Err(TopologyError::TooLarge { .. })
        ));
    }
}
