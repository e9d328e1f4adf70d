//! The test networks of Chiu et al.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fabric::Fabric;

use super::coordinates::{digits, number};
use super::plan::{Plan, Size};
use super::{Hypercube, Ring, Torus};

/// The 46 networks of Chiu et al., Table 1, by their names there, with one adapter per switch.
///
/// The random networks are new ones, as the paper's generator is lost; only the numbers in their
/// names match. After `rndm` come the numbers of switches and links, the smallest and the largest
/// degree, and our own seed. A `d` in place of the smallest degree means that parallel links are
/// allowed. As 16 switches of degree 5 cannot have 48 links, the number after the `d` is read as
/// the largest number of neighbours. `rndm-nice` has 16 switches and 29 links (section 5).
///
/// Regular networks have the links that their names say, with one erratum: `hypercube-64-102-6` has
/// 192 links. The link counts of `torus3` fit meshes that wrap around in the last dimension only.
///
/// # Panics
/// If one cannot be built, which a test excludes.
pub fn chiu_table1() -> Vec<(&'static str, Fabric)> {
    RANDOM.iter().chain(REGULAR).map(|&name| (name, network(name))).collect()
}

const RANDOM: &[&str] = &[
    "rndm-16-24-1-8-4005",
    "rndm-16-25-1-8-4004",
    "rndm-16-26-1-8-4003",
    "rndm-16-27-1-8-4002",
    "rndm-16-28-1-8-4001",
    "rndm-16-32-1-8-3001",
    "rndm-16-32-1-8-3002",
    "rndm-16-32-1-8-3003",
    "rndm-16-32-1-8-3004",
    "rndm-16-32-2-6-3009",
    "rndm-16-32-2-6-3010",
    "rndm-16-32-2-6-3011",
    "rndm-16-32-2-6-3012",
    "rndm-16-48-1-8-3013",
    "rndm-16-48-1-8-3014",
    "rndm-16-48-1-8-3015",
    "rndm-16-48-1-8-3016",
    "rndm-16-48-d-5-5003",
    "rndm-16-48-d-9-5001",
    "rndm-16-48-d-9-5002",
    "rndm-16-48-d-9-5004",
    "rndm-32-96-1-8-1005",
    "rndm-32-96-1-8-1006",
    "rndm-32-96-2-8-1007",
    "rndm-32-96-2-8-1008",
    "rndm-64-128-1-8-2001",
    "rndm-64-128-1-8-2002",
    "rndm-64-128-1-8-2003",
    "rndm-64-128-1-8-2004",
    "rndm-64-160-1-8-2009",
    "rndm-64-160-1-8-2010",
    "rndm-64-192-1-8-2013",
    "rndm-64-192-1-8-2014",
    "rndm-64-192-1-8-2015",
    "rndm-64-192-1-8-2016",
    "rndm-nice",
];

const REGULAR: &[&str] = &[
    "hypercube-32-80-5",
    "hypercube-64-102-6",
    "ring-32-32",
    "ring-64-64",
    "torus2-16-32-4-4",
    "torus2-64-128-8-8",
    "torus3-16-32-2-2-4",
    "torus3-32-72-2-4-4",
    "torus3-48-116-3-4-4",
    "torus3-64-160-4-4-4",
];

fn network(name: &str) -> Fabric {
    let name = if name == "rndm-nice" { "rndm-16-29-1-8-0" } else { name };
    let (family, numbers) = name.split_once('-').expect("a family and its numbers");
    let n: Vec<u32> = numbers.split('-').filter_map(|number| number.parse().ok()).collect();
    match family {
        "rndm" if numbers.contains("-d-") => random(n[0], n[1], 1, Most::Neighbours(n[2]), n[3].into()),
        "rndm" => random(n[0], n[1], n[2], Most::Links(n[3]), n[4].into()),
        "hypercube" => Hypercube { n: n[2], cas: 1 }.build().expect("a valid hypercube"),
        "ring" => Ring { switches: n[0], cas: 1 }.build().expect("a valid ring"),
        "torus2" => Torus { dims: n[2..].to_vec(), cas: 1 }.build().expect("a valid torus"),
        _ => wrapped_mesh(&n[2..]),
    }
}

/// What the largest degree limits.
#[derive(Clone, Copy)]
enum Most {
    /// The links of a switch; no two may be parallel.
    Links(u32),
    /// The neighbours of a switch; links to one may be parallel.
    Neighbours(u32),
}

/// A random connected network with exactly `links` links: a tree, then links for switches that have
/// too few, then any others. Each is chosen uniformly from all that the degrees still permit. If no
/// choice is left, it starts again.
fn random(switches: u32, links: u32, least: u32, most: Most, seed: u64) -> Fabric {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let drawn = loop {
        if let Some(drawn) = draw(switches as usize, links as usize, least, most, &mut rng) {
            break drawn;
        }
    };
    build(switches as usize, drawn)
}

fn draw(n: usize, links: usize, least: u32, most: Most, rng: &mut ChaCha8Rng) -> Option<Vec<(usize, usize)>> {
    let mut between = vec![vec![0_u32; n]; n];
    let mut drawn = Vec::with_capacity(links);
    while drawn.len() < links {
        let degrees: Vec<u32> = between.iter().map(|row| row.iter().sum()).collect();
        let neighbours: Vec<u32> =
            between.iter().map(|row| row.iter().filter(|&&links| links > 0).count() as u32).collect();
        let below = |of: &[u32], most: u32, a: usize, b: usize| of[a] < most && of[b] < most;
        let permits = |a: usize, b: usize| match most {
            Most::Links(most) => between[a][b] == 0 && below(&degrees, most, a, b),
            Most::Neighbours(most) => between[a][b] > 0 || below(&neighbours, most, a, b),
        };
        // The tree adds switches in order, from switch 0.
        let joining = Some(drawn.len() + 1).filter(|&s| s < n);
        let any_short = degrees.iter().any(|&degree| degree < least);
        let wanted = |a: usize, b: usize| match joining {
            Some(s) => b == s,
            None => !any_short || degrees[a] < least || degrees[b] < least,
        };
        let pairs: Vec<(usize, usize)> = (0..n)
            .flat_map(|b| (0..b).map(move |a| (a, b)))
            .filter(|&(a, b)| wanted(a, b) && permits(a, b))
            .collect();
        if pairs.is_empty() {
            return None;
        }
        let (a, b) = pairs[rng.random_range(0..pairs.len() as u32) as usize];
        between[a][b] += 1;
        between[b][a] += 1;
        drawn.push((a, b));
    }
    Some(drawn)
}

/// A mesh that wraps around in its last dimension.
fn wrapped_mesh(dims: &[u32]) -> Fabric {
    let switches = dims.iter().product::<u32>() as usize;
    let mut links = Vec::new();
    for i in 0..switches {
        let here = digits(i, dims);
        for (d, &size) in dims.iter().enumerate() {
            let mut next = here.clone();
            next[d] = (here[d] + 1) % size;
            if next[d] > 0 || d + 1 == dims.len() {
                links.push((i, number(&next, dims)));
            }
        }
    }
    build(switches, links)
}

fn build(switches: usize, links: Vec<(usize, usize)>) -> Fabric {
    let most = switches as u128;
    let mut plan = Plan::new(&Size { switches: most, adapters: most, ports: most }).expect("a small fabric");
    for i in 0..switches {
        plan.switch(format!("sw-{i}"), 1);
    }
    for (a, b) in links {
        plan.link(a, b);
    }
    plan.build().expect("few switches with few ports")
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;

    #[test]
    fn as_many_switches_and_links_as_the_names_say() {
        let all = chiu_table1();
        assert_eq!(all.len(), 46);
        for (name, f) in &all {
            let stated: Vec<usize> = name.split('-').filter_map(|n| n.parse().ok()).collect();
            let (switches, links) = match *name {
                "rndm-nice" => (16, 29),
                "hypercube-64-102-6" => (64, 192),
                _ => (stated[0], stated[1]),
            };
            assert_eq!(probe::shape(f), (switches, switches), "{name}");
            assert_eq!(f.channels().len() / 2, links, "{name}");
            assert!(probe::diameter(f).is_some(), "{name}");
            assert_eq!(probe::is_simple(f), !name.contains("-d-"), "{name}");
        }
    }

    #[test]
    fn degrees_are_as_the_names_say() {
        for (name, f) in chiu_table1().iter().filter(|(name, _)| name.starts_with("rndm-")) {
            let stated: Vec<usize> = name.split('-').filter_map(|n| n.parse().ok()).collect();
            let degrees = probe::degrees(f);
            if name.contains("-d-") {
                let most = f.switch_ids().map(|s| {
                    f.channels().out(s).map(|(_, c)| c.to).collect::<std::collections::BTreeSet<_>>().len()
                });
                assert!(most.max().unwrap() <= stated[2], "{name}");
            } else if let [_, _, least, most, _] = stated[..] {
                assert!(*degrees.first().unwrap() >= least, "{name}");
                assert!(*degrees.last().unwrap() <= most, "{name}");
            }
        }
    }

    #[test]
    fn seeds_make_a_difference() {
        let all = chiu_table1();
        let get = |name| &all.iter().find(|(n, _)| *n == name).unwrap().1;
        assert!(probe::same(get("rndm-16-32-1-8-3001"), &network("rndm-16-32-1-8-3001")));
        assert!(!probe::same(get("rndm-16-32-1-8-3001"), get("rndm-16-32-1-8-3002")));
    }

    #[test]
    fn only_the_last_dimension_closes() {
        let f = wrapped_mesh(&[3, 4, 4]);
        assert_eq!(probe::diameter(&f), Some(2 + 3 + 2));
    }
}
