//! Extended generalized fat tree: any regular tree whose switches have several parents.

use crate::fabric::Fabric;

use super::coordinates::{count, digits, name, number};
use super::error::{TopologyError, invalid};
use super::plan::{Plan, PlannedSwitch, Size};

/// XGFT(h; m₁ … m_h; w₁ … w_h) of Öhring et al.: a node of level i has mᵢ children, and a node of
/// level i - 1 has wᵢ parents. Level 0 holds the adapters, levels 1 to h the switches; an adapter
/// has one port, so w₁ = 1.
///
/// Level i has `w₁ ⋯ wᵢ · mᵢ₊₁ ⋯ m_h` switches, and there are `m₁ ⋯ m_h` adapters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xgft {
    /// Children by level, from level 1.
    pub m: Vec<u32>,
    /// Parents by level, from level 0; as long as `m`.
    pub w: Vec<u32>,
    /// Adapters per switch of level 1, up to m₁; m₁ if `None`. The other ports stay free.
    pub cas: Option<u32>,
}

impl Xgft {
    /// Builds it. Switch `lI-…` is on level I; the numbers that follow are its position in the
    /// tree, from the top level down. Ports: children, then parents.
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range or the fabric too large.
    ///
    /// Cost: O(h · links + adapters) time.
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        let cas = self.check()?;
        let Self { m, w, .. } = self;
        let h = m.len();
        let parents = |level: usize| w.get(level).copied().unwrap_or(0);
        let levels: Vec<Vec<u32>> = (1..=h).map(|level| self.radices(level)).collect();
        let counts: Vec<u128> = levels.iter().map(|radices| count(radices)).collect();
        let mut plan = Plan::new(&Size {
            switches: counts.iter().fold(0, |sum: u128, &n| sum.saturating_add(n)),
            adapters: counts[0].saturating_mul(cas.into()),
            ports: (1..=h).map(|i| u128::from(m[i - 1]) + u128::from(parents(i))).max().unwrap_or(0),
        })?;

        let mut first = Vec::with_capacity(h);
        for (i, radices) in levels.iter().enumerate() {
            for n in 0..counts[i] as usize {
                let number = plan.add(PlannedSwitch {
                    name: name(&format!("l{}", i + 1), &digits(n, radices)),
                    cas: if i == 0 { cas } else { 0 },
                    host_ports: if i == 0 { m[0] } else { 0 },
                    ports: m[i] + parents(i + 1),
                    chassis: None,
                });
                if n == 0 {
                    first.push(number);
                }
            }
        }
        for i in 0..h - 1 {
            for n in 0..counts[i] as usize {
                // A parent and its child differ only in the digit of the parent's level.
                let mut place = digits(n, &levels[i]);
                let at = h - 2 - i;
                let child = place[at];
                for parent in 0..parents(i + 1) {
                    place[at] = parent;
                    let above = first[i + 1] + number(&place, &levels[i + 1]);
                    plan.link_at((first[i] + n, m[i] + 1 + parent), (above, child + 1));
                }
            }
        }
        plan.build()
    }

    /// The radices of a switch's digits on a level from 1. The digits belong to the levels h to 2:
    /// those above its own select the subtree, the others the parent within it.
    fn radices(&self, level: usize) -> Vec<u32> {
        (2..=self.m.len()).rev().map(|j| if j <= level { self.w[j - 1] } else { self.m[j - 1] }).collect()
    }

    /// Adapters on a switch of level 1.
    fn check(&self) -> Result<u32, TopologyError> {
        let list = |numbers: &[u32]| {
            let list: Vec<String> = numbers.iter().map(u32::to_string).collect();
            format!("'{}'", list.join(","))
        };
        let Self { m, w, cas } = self;
        if m.is_empty() || m.contains(&0) {
            return Err(invalid("m", list(m), "it must be one or more numbers, each at least 1"));
        }
        if w.len() != m.len() || w.contains(&0) {
            let valid = format!("it must be as many numbers as m, {}, each at least 1", m.len());
            return Err(invalid("w", list(w), valid));
        }
        if w[0] != 1 {
            return Err(invalid("w", list(w), "it must begin with 1, as an adapter has one port"));
        }
        let cas = cas.unwrap_or(m[0]);
        if !(1..=m[0]).contains(&cas) {
            return Err(invalid("cas", cas, format!("a leaf has from 1 to {} adapters here", m[0])));
        }
        Ok(cas)
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;

    fn xgft(m: &[u32], w: &[u32]) -> Xgft {
        Xgft { m: m.to_vec(), w: w.to_vec(), cas: None }
    }

    #[test]
    fn counts_follow_the_definition() {
        let f = xgft(&[2, 3, 4], &[1, 2, 5]).build().unwrap();
        // Level 1: 3·4; level 2: 2·4; level 3: 2·5.
        assert_eq!(probe::shape(&f), (12 + 8 + 10, 24));
        let level =
            |l: &str| f.nodes().iter().filter(|n| n.is_switch() && n.description.starts_with(l)).count();
        assert_eq!((level("l1-"), level("l2-"), level("l3-")), (12, 8, 10));
        assert_eq!(f.channels().len() / 2, 12 * 2 + 8 * 5);
        assert_eq!(probe::diameter(&f), Some(4));
        assert!(probe::is_simple(&f));
        assert_eq!(probe::shape(&xgft(&[6], &[1]).build().unwrap()), (1, 6));
    }

    #[test]
    fn two_levels_are_a_full_bipartite_graph() {
        let f = xgft(&[3, 5], &[1, 4]).build().unwrap();
        let mut links: Vec<_> = f.channels().iter().map(|(_, c)| (c.from.0, c.to.0)).collect();
        links.sort_unstable();
        let both = |a: u32, b: u32| (a < 5) != (b < 5);
        let expected: Vec<_> =
            (0..9).flat_map(|a| (0..9).map(move |b| (a, b))).filter(|&(a, b)| both(a, b)).collect();
        assert_eq!(links, expected);
    }

    #[test]
    fn free_ports_stay_between_adapters_and_parents() {
        let f = Xgft { cas: Some(1), ..xgft(&[3, 2], &[1, 2]) }.build().unwrap();
        assert_eq!(probe::shape(&f), (4, 2));
        let used: Vec<bool> = f.nodes()[0].ports.iter().map(|p| p.peer.is_some()).collect();
        assert_eq!(used, [false, true, false, false, true, true]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let message = |t: Xgft| t.build().unwrap_err().to_string();
        assert!(message(xgft(&[], &[])).contains("m = ''"));
        assert!(message(xgft(&[2, 0], &[1, 1])).contains("m = '2,0'"));
        assert!(message(xgft(&[2, 2], &[1])).contains("w = '1'"));
        assert!(message(xgft(&[2, 2], &[2, 2])).contains("begin with 1"));
        assert!(message(Xgft { cas: Some(0), ..xgft(&[2], &[1]) }).contains("cas = 0"));
        assert!(message(xgft(&[300], &[1])).contains("300 ports"));
        assert!(message(xgft(&[u32::MAX; 9], &[1; 9])).contains("too many"));
    }
}
