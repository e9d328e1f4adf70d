//! A cluster as it grows over the years: islands of different oversubscription around a core.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fabric::Fabric;

use super::error::{TopologyError, at_least};
use super::plan::{Plan, PlannedSwitch, Size};

/// Ports of a switch.
const PORTS: u32 = 36;
/// Leaves of an island, and spines of one that has its own.
const LEAVES: std::ops::RangeInclusive<usize> = 4..=10;
const ISLAND_SPINES: std::ops::RangeInclusive<usize> = 2..=4;
/// One cable in so many is missing.
const MISSING: u32 = 50;

/// A grown cluster: a core of `spines` switches, and islands of leaves that were bought one after the other.
///
/// By chance, an island's leaves are cabled straight to the core, or to spines of the island that lead on to the core,
/// over one or two cables each. Islands differ in leaves, uplinks and adapters, so in oversubscription. Some
/// neighbouring leaves have a cross link. The first two core switches have an aggregation node each. One cable in 50
/// is missing, but every switch keeps its first uplink, so the fabric is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grown {
    /// Islands, `1..`.
    pub islands: u32,
    /// Switches of the core, `2..=18`.
    pub spines: u32,
    /// Most adapters on a leaf, `1..=24`.
    pub cas: u32,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Grown {
    /// Builds it. Switches: `core-I`, then by island `iN-spine-I` and `iN-leaf-I`. Switches have at least 36 ports;
    /// those of the core as many as their cables need, as directors do.
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range or the fabric too large.
    ///
    /// Cost: O(links + adapters) time.
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        let &Self { islands, spines, cas, seed } = self;
        at_least("islands", islands, 1)?;
        for (name, value, least, most) in [("spines", spines, 2, 18), ("cas", cas, 1, 24)] {
            at_least(name, value, least)?;
            if value > most {
                return Err(super::error::invalid(
                    name,
                    value,
                    format!("it must be from {least} to {most} here"),
                ));
            }
        }
        let leaves = u128::from(islands) * *LEAVES.end() as u128;
        let mut plan = Plan::new(&Size {
            switches: u128::from(spines) + leaves + u128::from(islands) * *ISLAND_SPINES.end() as u128,
            adapters: 2 + leaves * u128::from(cas),
            ports: u128::from(PORTS),
        })?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let switch = |name: String, cas: u32, plan: &mut Plan| {
            plan.add(PlannedSwitch { name, cas, ports: PORTS, ..PlannedSwitch::default() })
        };
        let core: Vec<usize> =
            (0..spines).map(|i| switch(format!("core-{i}"), u32::from(i < 2), &mut plan)).collect();
        // Where the next uplink goes: every cable into the core takes the next core switch.
        let mut turn = 0;
        let mut uplinks = |from: usize, count: usize, plan: &mut Plan, rng: &mut ChaCha8Rng| {
            for i in 0..count {
                if i == 0 || !rng.random_ratio(1, MISSING) {
                    plan.link(from, core[turn % core.len()]);
                }
                turn += 1;
            }
        };
        for island in 0..islands {
            let adapters = rng.random_range(cas.div_ceil(2)..=cas);
            let count = rng.random_range(LEAVES);
            let own = rng.random_bool(0.5);
            let above: Vec<usize> = (0..if own { rng.random_range(ISLAND_SPINES) } else { 0 })
                .map(|i| switch(format!("i{island}-spine-{i}"), 0, &mut plan))
                .collect();
            let leaves: Vec<usize> =
                (0..count).map(|i| switch(format!("i{island}-leaf-{i}"), adapters, &mut plan)).collect();
            let up = rng.random_range(2..=(PORTS - adapters - 2).min(spines)) as usize;
            for &spine in &above {
                uplinks(spine, up.max(3), &mut plan, &mut rng);
            }
            let parallel = rng.random_range(1..=2);
            for (n, &leaf) in leaves.iter().enumerate() {
                if above.is_empty() {
                    uplinks(leaf, up, &mut plan, &mut rng);
                }
                for i in 0..above.len() * parallel {
                    if i == 0 || !rng.random_ratio(1, MISSING) {
                        plan.link(leaf, above[(n + i) % above.len()]);
                    }
                }
            }
            for pair in leaves.windows(2) {
                if rng.random_ratio(1, 5) {
                    plan.link(pair[0], pair[1]);
                }
            }
        }
        plan.build()
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;

    #[test]
    fn it_has_what_grown_clusters_have() {
        let (mut cross, mut parallel, mut own, mut straight) = (0, 0, 0, 0);
        for seed in 1..=8 {
            let f = Grown { islands: 6, spines: 6, cas: 16, seed }.build().unwrap();
            assert!(probe::diameter(&f).is_some(), "{seed}");
            assert_eq!(
                (f.num_adapters_on(f.switch_ids().next().unwrap()), f.adapters().count() > 100),
                (1, true)
            );
            let name = |s| f.switch(s).description.as_str();
            let mut seen = std::collections::HashSet::new();
            for (_, c) in f.channels().iter() {
                cross += usize::from(name(c.from).contains("leaf") && name(c.to).contains("leaf"));
                straight += usize::from(name(c.from).contains("leaf") && name(c.to).starts_with("core"));
                own += usize::from(name(c.from).contains("-spine-"));
                parallel += usize::from(!seen.insert((c.from, c.to)));
            }
            let by_island: std::collections::BTreeSet<usize> =
                f.switch_ids().filter(|&s| name(s).contains("leaf")).map(|s| f.num_adapters_on(s)).collect();
            assert!(by_island.len() > 1, "islands differ");
        }
        assert!(cross > 0 && parallel > 0 && own > 0 && straight > 0);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let message = |grown: Grown| grown.build().unwrap_err().to_string();
        let some = Grown { islands: 2, spines: 4, cas: 8, seed: 1 };
        assert!(message(Grown { islands: 0, ..some.clone() }).contains("islands"));
        assert!(message(Grown { spines: 1, ..some.clone() }).contains("spines"));
        assert!(message(Grown { spines: 19, ..some.clone() }).contains("18"));
        assert!(message(Grown { cas: 25, ..some.clone() }).contains("24"));
        assert!(matches!(Grown { islands: u32::MAX, ..some }.build(), Err(TopologyError::TooLarge { .. })));
    }
}
