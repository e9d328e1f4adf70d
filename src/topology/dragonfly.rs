//! Dragonfly: fully connected groups of switches, and links between every two groups.

use std::collections::HashMap;

use crate::fabric::Fabric;

use super::error::{TopologyError, at_least, invalid};
use super::plan::{Plan, Size};

/// A Dragonfly (Kim et al.; Schneider et al., section VI.B): `g` groups of `a` switches. A switch
/// has `p` adapters, `a - 1` links within its group and up to `h` links to other groups.
///
/// With all `g = a·h + 1` groups there is one link between every two groups. With fewer, every two
/// groups have `⌊a·h / (g-1)⌋` links. Each remaining port gets one more link to the nearest groups
/// by number, modulo `g`: those at distance 1, then 2, and so on. If the last port cannot be
/// matched like that, groups at distance ⌊g/2⌋ are paired; a single port of a single group may stay
/// free. The links of a group are assigned round-robin to its switches; among the switches whose
/// turn it is, the one with the fewest links to the switch at the other end takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dragonfly {
    /// Switches per group, at least 1.
    pub a: u32,
    /// Global links per switch, at least 1.
    pub h: u32,
    /// Groups, `2..=a·h + 1`.
    pub g: u32,
    /// Adapters per switch, at least 1.
    pub p: u32,
}

impl Dragonfly {
    /// The balanced Dragonfly with full global bandwidth: a = 2p, h = p, g = a·h + 1. It has 4p⁴ +
    /// 2p² adapters. Saturates; [`build`](Self::build) refuses what is too large.
    pub fn balanced(p: u32) -> Self {
        let a = p.saturating_mul(2);
        Self { a, h: p, g: a.saturating_mul(p).saturating_add(1), p }
    }

    /// Builds it. Switch `sw-G-S` is number S in group G. Ports: adapters, group, global.
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range or the fabric too large.
    ///
    /// Cost: O(g·a·(p + a·h)) time.
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        let &Self { a, h, g, p } = self;
        at_least("a", a, 1)?;
        at_least("h", h, 1)?;
        at_least("p", p, 1)?;
        at_least("g", g, 2)?;
        let most = u64::from(a) * u64::from(h) + 1;
        if u64::from(g) > most {
            let valid = format!("with a = {a} and h = {h} it must be from 2 to a·h + 1 = {most}");
            return Err(invalid("g", g, valid));
        }
        let switches = u128::from(g) * u128::from(a);
        let ports = u128::from(p) + u128::from(a) - 1 + u128::from(h);
        let mut plan = Plan::new(&Size { switches, adapters: switches.saturating_mul(p.into()), ports })?;

        for group in 0..g {
            for s in 0..a {
                plan.switch(format!("sw-{group}-{s}"), p);
            }
        }
        let (a, g) = (a as usize, g as usize);
        for group in 0..g {
            for s in 0..a {
                for t in s + 1..a {
                    // The links follow the order of the other switches in the group.
                    let port = |of: usize, to: usize| p + to as u32 + u32::from(to < of);
                    plan.link_at((group * a + s, port(s, t)), (group * a + t, port(t, s)));
                }
            }
        }
        for (from, to) in by_turns(group_links(g, a * h as usize), g, a) {
            plan.link(from, to);
        }
        plan.build()
    }
}

/// Links between `g` groups of `a` switches as links between these, which are numbered group by group. The switches of a group
/// take turns; among those whose turn it is, the one with the fewest links to the switch at the other end comes first.
///
/// Cost: O(a) for each link.
pub(super) fn by_turns(links: Vec<(usize, usize)>, g: usize, a: usize) -> Vec<(usize, usize)> {
    let mut assigned = vec![0_u32; g * a];
    let mut cables: HashMap<(usize, usize), u32> = HashMap::new();
    let mut turn = |group: usize, other: Option<usize>| {
        let parallel = |s: usize| other.and_then(|o| cables.get(&(o, s))).copied().unwrap_or(0);
        let of_group = group * a..(group + 1) * a;
        let s = of_group.min_by_key(|&s| (assigned[s], parallel(s))).unwrap_or(group * a);
        assigned[s] += 1;
        if let Some(other) = other {
            *cables.entry((other, s)).or_default() += 1;
            *cables.entry((s, other)).or_default() += 1;
        }
        s
    };
    let ends = |(from, to): (usize, usize)| {
        let s = turn(from, None);
        (s, turn(to, Some(s)))
    };
    links.into_iter().map(ends).collect()
}

/// The links between `g` groups that have `ports` global ports each, `ports >= g - 1`.
pub(super) fn group_links(g: usize, ports: usize) -> Vec<(usize, usize)> {
    let mut links = Vec::with_capacity(g * ports / 2);
    let mut ring = |distance: usize| {
        // At distance g/2 both ends would name the same links.
        let starts = if 2 * distance == g { distance } else { g };
        links.extend((0..starts).map(|i| (i, (i + distance) % g)));
    };
    for _ in 0..ports / (g - 1) {
        (1..=g / 2).for_each(&mut ring);
    }
    let rest = ports % (g - 1);
    (1..=rest / 2).for_each(&mut ring);
    if rest % 2 == 1 {
        if g % 2 == 0 {
            ring(g / 2);
        } else {
            // ⌊g/2⌋ and g are coprime: steps of that length visit all groups.
            let step = g / 2;
            links.extend((0..g - 1).step_by(2).map(|i| (i * step % g, (i + 1) * step % g)));
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;

    #[test]
    fn balanced_ones_have_the_printed_sizes() {
        // Schneider et al., section VI.B: n = 4p^4 + 2p^2; 16512 adapters for p = 8.
        for (p, switches, adapters) in [(1, 6, 6), (2, 36, 72), (3, 114, 342), (4, 264, 1056)] {
            let f = Dragonfly::balanced(p).build().unwrap();
            assert_eq!(probe::shape(&f), (switches, adapters));
            assert_eq!(probe::degrees(&f), [3 * p as usize - 1].into());
            assert_eq!(probe::diameter(&f), Some(3));
        }
    }

    #[test]
    fn the_largest_of_the_paper() {
        let f = Dragonfly::balanced(8).build().unwrap();
        assert_eq!(probe::shape(&f), (2064, 16_512));
        assert_eq!(probe::degrees(&f), [23].into());
    }

    #[test]
    fn fewer_groups_share_the_global_ports_evenly() {
        for a in 1..=5 {
            for h in 1..=4 {
                for g in 2..=a * h + 1 {
                    let f = Dragonfly { a, h, g, p: 1 }.build().unwrap();
                    let label = format!("a={a} h={h} g={g}");
                    let (a, h, g) = (a as usize, h as usize, g as usize);
                    assert!(probe::diameter(&f).is_some(), "{label}");
                    let mut between = vec![0; g * g];
                    let mut global = 0;
                    for (_, c) in f.channels().iter() {
                        let (x, y) = (c.from.index() / a, c.to.index() / a);
                        between[x * g + y] += 1;
                        global += usize::from(x != y);
                    }
                    assert_eq!(global, g * a * h / 2 * 2, "all ports but an odd one in use: {label}");
                    for (i, &n) in between.iter().enumerate() {
                        let even = a * h / (g - 1);
                        assert!(i / g == i % g || n == even || n == even + 1, "{label}");
                    }
                    assert!(f.switch_ids().all(|s| f.switch(s).num_ports() as usize <= 1 + a - 1 + h));
                }
            }
        }
    }

    #[test]
    fn parallel_cables_are_avoided_where_there_are_other_switches() {
        let f = Dragonfly { a: 4, h: 4, g: 2, p: 1 }.build().unwrap();
        assert!(probe::is_simple(&f));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let message = Dragonfly { a: 4, h: 2, g: 10, p: 2 }.build().unwrap_err().to_string();
        assert!(message.contains("g = 10") && message.contains("a·h + 1 = 9"), "{message}");
        assert!(matches!(Dragonfly::balanced(0).build(), Err(TopologyError::Parameter { .. })));
        assert!(matches!(Dragonfly::balanced(11).build(), Err(TopologyError::TooLarge { .. })));
        assert!(matches!(Dragonfly::balanced(u32::MAX).build(), Err(TopologyError::TooLarge { .. })));
        let wide = Dragonfly { a: 120, h: 120, g: 2, p: 20 };
        assert!(matches!(wide.build(), Err(TopologyError::TooManyPorts { ports: 259 })));
    }
}
