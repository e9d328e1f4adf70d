//! Slim Fly: McKay-Miller-Širáň graphs, of diameter 2 and nearly the largest possible size.

use crate::fabric::Fabric;

use super::error::{TopologyError, at_least, invalid};
use super::galois::{Field, nearest, prime_power};
use super::plan::{Plan, Size};

/// A Slim Fly (Besta and Hoefler) over GF(q), `q = 4w + δ` a prime power, δ in {-1, 0, 1}: 2q²
/// switches with `(3q - δ) / 2` links each.
///
/// The switches form two halves of q × q. In the first half, (x, y) and (x, y') are linked if y -
/// y' is in X; in the second, (m, c) and (m, c') if c - c' is in X'; and (x, y) is linked to (m, c)
/// if y = m·x + c. X and X' are made of powers of a primitive element ξ (Hafner's form):
///
/// | δ  | X                                        | X'                                       |
/// |----|------------------------------------------|------------------------------------------|
/// | 1  | even powers                              | odd powers                               |
/// | 0  | even powers, ξ⁰ to ξ^(q-2)               | odd powers, ξ¹ to ξ^(q-1)                |
/// | -1 | ξ⁰, ξ² … ξ^(2w-2); ξ^(2w-1) … ξ^(4w-3)   | the elements of X times ξ                |
///
/// By default a switch has as many adapters as links. This gives the 5, 7, 11, 17 and 19 adapters
/// that Schneider et al. print in Fig. 7 for q = 3, 5, 7, 11 and 13. (Besta and Hoefler call half
/// as many balanced.) Fig. 7 prints 337 switches in its last row; there are 2·13² = 338.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlimFly {
    /// Order of the field: 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, …
    pub q: u32,
    /// Adapters per switch; as many as links if `None`.
    pub cas: Option<u32>,
}

impl SlimFly {
    /// Builds it. Switches: `sw-0-X-Y` and `sw-1-M-C`. Ports: adapters, own column, other half.
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range or the fabric too large.
    ///
    /// Cost: O(q³ + adapters) time.
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        let q = self.q;
        at_least("q", q, 3)?;
        let w = q.div_ceil(4);
        let generators = if q % 4 == 1 { (q - 1) / 2 } else { 2 * w };
        let degree = q.saturating_add(generators);
        let cas = self.cas.unwrap_or(degree);
        at_least("cas", cas, 1)?;
        let switches = 2 * u128::from(q) * u128::from(q);
        let mut plan = Plan::new(&Size {
            switches,
            adapters: switches.saturating_mul(cas.into()),
            ports: u128::from(degree) + u128::from(cas),
        })?;
        let Some(field) = Field::new(q) else {
            let near = nearest(q, 3, |q| prime_power(q).is_some());
            return Err(invalid("q", q, format!("it must be a prime power from 3, like {near}")));
        };

        for half in 0..2 {
            for x in 0..q {
                for y in 0..q {
                    plan.switch(format!("sw-{half}-{x}-{y}"), cas);
                }
            }
        }
        let at = |half: u32, x: u32, y: u32| ((half * q + x) * q + y) as usize;
        for half in 0..2 {
            let mut set: Vec<u32> = match q % 4 {
                3 => (0..w).map(|i| 2 * i).chain((0..w).map(|i| 2 * w - 1 + 2 * i)).collect(),
                _ => (0..generators).map(|i| 2 * i).collect(),
            };
            for exponent in &mut set {
                *exponent = field.power(*exponent + half);
            }
            for x in 0..q {
                for y in 0..q {
                    for z in y + 1..q {
                        if set.contains(&field.sub(y, z)) {
                            plan.link(at(half, x, y), at(half, x, z));
                        }
                    }
                }
            }
        }
        for x in 0..q {
            for m in 0..q {
                for c in 0..q {
                    let y = field.add(field.mul(m, x), c);
                    plan.link(at(0, x, y), at(1, m, c));
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
    fn degree_and_diameter_for_every_kind_of_order() {
        for q in [3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19] {
            let f = SlimFly { q, cas: Some(1) }.build().unwrap();
            let delta = match q % 4 {
                3 => -1,
                rest => rest as i64,
            };
            let degree = (3 * i64::from(q) - delta) / 2;
            assert_eq!(f.num_switches(), 2 * (q * q) as usize, "q={q}");
            assert_eq!(probe::degrees(&f), [degree as usize].into(), "q={q}");
            assert_eq!(probe::diameter(&f), Some(2), "q={q}");
            assert!(probe::is_simple(&f), "q={q}");
        }
    }

    #[test]
    fn q_5_is_the_hoffman_singleton_graph() {
        let f = SlimFly { q: 5, cas: None }.build().unwrap();
        assert_eq!(probe::girth(&f), Some(5));
        assert_eq!(f.channels().len() / 2, 175);
    }

    #[test]
    fn sizes_of_the_paper() {
        // Schneider et al., Fig. 7; its last row prints 337 switches and 6403 hosts.
        let rows = [(3, 18, 90), (5, 50, 350), (7, 98, 1078), (11, 242, 4114), (13, 338, 6422)];
        for (q, switches, adapters) in rows {
            let f = SlimFly { q, cas: None }.build().unwrap();
            assert_eq!(probe::shape(&f), (switches, adapters));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let message = |q, cas| SlimFly { q, cas }.build().unwrap_err().to_string();
        assert!(message(6, None).contains("like 5 or 7"), "{}", message(6, None));
        assert!(message(2, None).contains("q = 2"));
        assert!(message(0, None).contains("q = 0"));
        assert!(message(5, Some(0)).contains("cas = 0"));
        assert!(message(u32::MAX, None).contains("too many"));
    }
}
