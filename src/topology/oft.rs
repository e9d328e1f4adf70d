//! Two-level Orthogonal Fat Tree: two single-path trees that share their upper switches.

use crate::fabric::Fabric;

use super::error::{TopologyError, at_least, invalid};
use super::galois::{Field, nearest, prime_power};
use super::plan::{Plan, Size};

/// The two-level k-OFT (Valerio et al.; Schneider et al., section VI.C).
///
/// A single-path tree is a projective plane of order k - 1: its n = k² - k + 1 points are the lower
/// switches, its n lines the upper ones, and a point is linked to the k lines through it. Two
/// points have one line in common, so there is one shortest path. Two such trees that share their
/// upper switches make the OFT: 3n switches of 2k ports, and 2kn adapters on the lower two thirds.
/// A lower switch and its twin in the other tree share all k upper switches; any other two lower
/// switches share one.
///
/// The plane is over GF(k - 1), so k - 1 must be a prime power. Of the paper's k = 3, 4, 6, 8, 14,
/// 16 and 18, this excludes 16.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oft {
    /// Links per lower switch: 3, 4, 5, 6, 8, 9, 10, 12, 14, 17, 18, …
    pub k: u32,
    /// Adapters per lower switch; `k` if `None`, which gives full bandwidth.
    pub cas: Option<u32>,
}

impl Oft {
    /// Builds it. Switches: `l0-I` and `l2-I` are the points of the two trees, `l1-I` the shared
    /// lines. Ports: adapters, then links; on an upper switch, those to `l0` precede those to `l2`.
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range or the fabric too large.
    ///
    /// Cost: O(k⁴ + adapters) time.
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        let k = self.k;
        let cas = self.cas.unwrap_or(k);
        at_least("k", k, 3)?;
        at_least("cas", cas, 1)?;
        let n = u128::from(k) * u128::from(k - 1) + 1;
        let mut plan = Plan::new(&Size {
            switches: 3 * n,
            adapters: (2 * n).saturating_mul(cas.into()),
            ports: u128::from(k) + u128::from(k.max(cas)),
        })?;
        let Some(field) = Field::new(k - 1) else {
            let near = nearest(k, 3, |k| prime_power(k - 1).is_some());
            return Err(invalid("k", k, format!("k - 1 must be a prime power; the nearest are {near}")));
        };

        let n = n as usize;
        for (layer, cas) in [cas, 0, cas].into_iter().enumerate() {
            for i in 0..n {
                plan.switch(format!("l{layer}-{i}"), cas);
            }
        }
        let vectors = projective_points(k - 1);
        for lower in [0, 2 * n] {
            for (line, a) in vectors.iter().enumerate() {
                for (point, b) in vectors.iter().enumerate() {
                    let product = (0..3).fold(0, |sum, i| field.add(sum, field.mul(a[i], b[i])));
                    if product == 0 {
                        plan.link(lower + point, n + line);
                    }
                }
            }
        }
        plan.build()
    }
}

/// One vector for each point of the plane over GF(q); the first non-zero component is 1. The
/// vectors also stand for the lines: a point is on a line if their product is 0.
fn projective_points(q: u32) -> Vec<[u32; 3]> {
    let mut points = vec![[0, 0, 1]];
    points.extend((0..q).map(|z| [0, 1, z]));
    points.extend((0..q).flat_map(|y| (0..q).map(move |z| [1, y, z])));
    points
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;
    use crate::fabric::SwitchId;

    #[test]
    fn counts_and_single_paths() {
        for k in [3, 4, 5, 6, 8] {
            let f = Oft { k, cas: None }.build().unwrap();
            let k = k as usize;
            let n = k * k - k + 1;
            assert_eq!(probe::shape(&f), (3 * n, 2 * k * n));
            assert!(f.switch_ids().all(|s| usize::from(f.switch(s).num_ports()) == 2 * k));
            let lower = |i: usize| i / n != 1;
            for s in (0..3 * n).filter(|&s| lower(s)) {
                let paths = probe::paths(&f, SwitchId::at(s));
                for t in (0..3 * n).filter(|&t| lower(t) && t != s) {
                    let count = if t % n == s % n { k as u64 } else { 1 };
                    assert_eq!(paths[t], Some((2, count)), "k={k} {s} {t}");
                }
            }
        }
    }

    #[test]
    fn the_largest_of_the_paper() {
        let f = Oft { k: 18, cas: None }.build().unwrap();
        assert_eq!(probe::shape(&f), (921, 11_052));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let message = |k, cas| Oft { k, cas }.build().unwrap_err().to_string();
        assert!(message(16, None).contains("14 or 17"), "{}", message(16, None));
        assert!(message(7, None).contains("6 or 8"));
        assert!(message(2, None).contains("k = 2"));
        assert!(message(4, Some(0)).contains("cas = 0"));
        assert!(message(u32::MAX, None).contains("too many"));
    }
}
