//! Dragonfly+ (Megafly): groups of leaves and spines, and links between the spines of every two groups.

use crate::fabric::Fabric;

use super::dragonfly::{by_turns, group_links};
use super::error::{TopologyError, at_least, invalid};
use super::plan::{Plan, Size};

/// A Dragonfly+ (Shpiner et al. 2017), also called Megafly (Flajslik et al. 2018), as in Niagara, JUWELS Booster and
/// Leonardo. Each of `groups` groups is a complete bipartite graph of leaves and spines. A leaf has `cas` adapters, a
/// spine up to `h` links to other groups.
///
/// The groups share their global links as those of a [`Dragonfly`](super::Dragonfly) do. The spines of a group take turns,
/// first for all links to one other group, then for those to the next. So each spine has a link to each group where there are
/// enough, as in Leonardo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Megafly {
    /// Groups, `2..=spines·h + 1`.
    pub groups: u32,
    /// Leaves of a group, at least 1.
    pub leaves: u32,
    /// Spines of a group, at least 1.
    pub spines: u32,
    /// Global links of a spine, at least 1.
    pub h: u32,
    /// Adapters on a leaf, at least 1.
    pub cas: u32,
}

impl Megafly {
    /// Builds it. Switches: `leaf-G-I`, then `spine-G-I`, group by group. Ports of a leaf: adapters, spines. Ports of
    /// a spine: leaves, other groups.
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range or the fabric too large.
    ///
    /// Cost: O(L log L + adapters + groups · spines² · h) time with L links.
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        let &Self { groups, leaves, spines, h, cas } = self;
        for (name, value) in [("leaves", leaves), ("spines", spines), ("h", h), ("cas", cas)] {
            at_least(name, value, 1)?;
        }
        at_least("groups", groups, 2)?;
        let most = u64::from(spines) * u64::from(h) + 1;
        if u64::from(groups) > most {
            let valid =
                format!("with spines = {spines} and h = {h} it must be from 2 to spines·h + 1 = {most}");
            return Err(invalid("groups", groups, valid));
        }
        let in_all = |each: u32| u128::from(groups).saturating_mul(each.into());
        let mut plan = Plan::new(&Size {
            switches: in_all(leaves).saturating_add(in_all(spines)),
            adapters: in_all(leaves).saturating_mul(cas.into()),
            ports: u128::from(cas).saturating_add(spines.into()).max(u128::from(leaves) + u128::from(h)),
        })?;
        let mut first_spine = Vec::with_capacity(groups as usize);
        for group in 0..groups {
            let leaf: Vec<usize> =
                (0..leaves).map(|i| plan.switch(format!("leaf-{group}-{i}"), cas)).collect();
            let spine: Vec<usize> =
                (0..spines).map(|i| plan.switch(format!("spine-{group}-{i}"), 0)).collect();
            first_spine.push(spine[0]);
            for (i, &s) in spine.iter().enumerate() {
                for (j, &l) in leaf.iter().enumerate() {
                    plan.link_at((l, cas + 1 + i as u32), (s, 1 + j as u32));
                }
            }
        }
        let (groups, spines) = (groups as usize, spines as usize);
        let number = |spine: usize| first_spine[spine / spines] + spine % spines;
        let mut links = group_links(groups, spines * h as usize);
        links.sort_by_key(|&(a, b)| (a.min(b), a.max(b)));
        for (from, to) in by_turns(links, groups, spines) {
            plan.link(number(from), number(to));
        }
        plan.build()
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;
    use crate::fabric::SwitchId;

    #[test]
    fn groups_are_bipartite_and_share_the_global_links() {
        for (groups, leaves, spines, h) in [(2, 3, 2, 2), (5, 4, 4, 1), (9, 4, 4, 2), (4, 2, 3, 4)] {
            let f = Megafly { groups, leaves, spines, h, cas: 2 }.build().unwrap();
            let label = format!("{groups} {leaves} {spines} {h}");
            assert_eq!(
                probe::shape(&f),
                ((groups * (leaves + spines)) as usize, (2 * groups * leaves) as usize),
                "{label}"
            );
            let group = |s: usize| s / (leaves + spines) as usize;
            let is_leaf = |s: usize| s % ((leaves + spines) as usize) < leaves as usize;
            let (mut within, mut between) = (0, vec![0; (groups * groups) as usize]);
            for (_, c) in f.channels().iter() {
                let (a, b) = (c.from.index(), c.to.index());
                if group(a) == group(b) {
                    assert_ne!(is_leaf(a), is_leaf(b), "{label}");
                    within += 1;
                } else {
                    assert!(!is_leaf(a) && !is_leaf(b), "{label}");
                    between[group(a) * groups as usize + group(b)] += 1;
                }
            }
            assert_eq!(within, 2 * groups * leaves * spines, "{label}");
            let even = (spines * h / (groups - 1)) as usize;
            let pairs =
                between.iter().enumerate().filter(|(i, _)| i / groups as usize != i % groups as usize);
            assert!(pairs.into_iter().all(|(_, &n)| n == even || n == even + 1), "{label}");
            assert!(probe::diameter(&f).is_some(), "{label}");
        }
    }

    #[test]
    fn each_spine_has_a_link_to_each_group_where_there_are_enough() {
        for (groups, spines, h) in [(5, 4, 4), (9, 8, 8), (4, 6, 6)] {
            let f = Megafly { groups, leaves: 2, spines, h, cas: 1 }.build().unwrap();
            let group = |s: SwitchId| s.index() as u32 / (2 + spines);
            for spine in f.switch_ids().filter(|&s| f.num_adapters_on(s) == 0) {
                let mut links = vec![0; groups as usize];
                f.channels().out(spine).for_each(|(_, c)| links[group(c.to) as usize] += 1);
                links.remove(group(spine) as usize);
                assert!(links.iter().all(|&n| n == h / (groups - 1)), "{groups} {spines} {h}: {links:?}");
            }
        }
    }

    /// With one global link between every two groups, leaf to leaf takes three or five channels at most.
    #[test]
    fn the_largest_of_its_kind() {
        let f = Megafly { groups: 17, leaves: 4, spines: 4, h: 4, cas: 4 }.build().unwrap();
        assert_eq!(probe::shape(&f), (136, 272));
        assert_eq!(probe::diameter(&f), Some(5));
        let message =
            Megafly { groups: 18, leaves: 4, spines: 4, h: 4, cas: 4 }.build().unwrap_err().to_string();
        assert!(message.contains("groups = 18") && message.contains("17"), "{message}");
        assert!(matches!(
            Megafly { groups: 2, leaves: u32::MAX, spines: 1, h: 1, cas: u32::MAX }.build(),
            Err(TopologyError::TooLarge { .. })
        ));
    }
}
