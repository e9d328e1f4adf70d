//! Finite fields of prime power order, small enough for tables.

/// GF(q). An element is a number below `q`. Its digits to the base `p`, lowest first, are the
/// coefficients of a polynomial over GF(p); 0 and 1 are themselves.
pub(super) struct Field {
    order: u32,
    characteristic: u32,
    /// `exp[i]` is the i-th power of a primitive element, `i < q - 1`.
    exp: Vec<u32>,
    /// The inverse of `exp`; entry 0 is unused.
    log: Vec<u32>,
}

impl Field {
    /// The field of order `q`; `None` if `q` is not a prime power.
    ///
    /// Uses the first monic polynomial, ordered by its coefficients as a number, modulo which x is
    /// primitive. Cost: O(q) for each polynomial tried; few are.
    pub(super) fn new(q: u32) -> Option<Self> {
        let (p, n) = prime_power(q)?;
        let exp = (1..q).find_map(|polynomial| {
            let mut powers = vec![1];
            let mut power = times_x(1, polynomial, p, n);
            while power > 1 && powers.len() < q as usize {
                powers.push(power);
                power = times_x(power, polynomial, p, n);
            }
            (power == 1 && powers.len() == q as usize - 1).then_some(powers)
        })?;
        let mut log = vec![0; q as usize];
        for (i, &element) in exp.iter().enumerate() {
            log[element as usize] = i as u32;
        }
        Some(Self { order: q, characteristic: p, exp, log })
    }

    /// A power of the primitive element.
    pub(super) fn power(&self, exponent: u32) -> u32 {
        self.exp[(exponent % (self.order - 1)) as usize]
    }

    /// a + b.
    pub(super) fn add(&self, a: u32, b: u32) -> u32 {
        self.digitwise(a, b, |a, b| a + b)
    }

    /// a - b.
    pub(super) fn sub(&self, a: u32, b: u32) -> u32 {
        self.digitwise(a, b, |a, b| a + self.characteristic - b)
    }

    /// a · b.
    pub(super) fn mul(&self, a: u32, b: u32) -> u32 {
        if a == 0 || b == 0 {
            return 0;
        }
        self.power(self.log[a as usize] + self.log[b as usize])
    }

    fn digitwise(&self, mut a: u32, mut b: u32, f: impl Fn(u32, u32) -> u32) -> u32 {
        let p = self.characteristic;
        let (mut result, mut place) = (0, 1);
        while a > 0 || b > 0 {
            result += place * (f(a % p, b % p) % p);
            (a, b, place) = (a / p, b / p, place * p);
        }
        result
    }
}

/// `element` times x, modulo the monic polynomial of degree `n` over GF(p) whose lower coefficients
/// are the digits of `polynomial`.
fn times_x(element: u32, polynomial: u32, p: u32, n: u32) -> u32 {
    let top = p.pow(n - 1);
    let lead = element / top;
    let (mut shifted, mut lower) = (element % top * p, polynomial);
    let (mut result, mut place) = (0, 1);
    for _ in 0..n {
        result += place * ((shifted + (p - lead) * (lower % p)) % p);
        (shifted, lower, place) = (shifted / p, lower / p, place * p);
    }
    result
}

/// `(p, n)` with `q = p^n` and p prime, if it exists.
pub(super) fn prime_power(q: u32) -> Option<(u32, u32)> {
    let p = (2..=q).find(|&d| q % d == 0 || d.saturating_mul(d) > q)?;
    let p = if q % p == 0 { p } else { q };
    let (mut rest, mut n) = (q, 0);
    while rest % p == 0 {
        (rest, n) = (rest / p, n + 1);
    }
    (rest == 1).then_some((p, n))
}

/// `x or y` for messages: the nearest valid numbers below and above `wrong`, if they exist between
/// `least` and `2 · wrong`.
pub(super) fn nearest(wrong: u32, least: u32, valid: impl Fn(u32) -> bool) -> String {
    let below = (least..wrong).rev().find(|&n| valid(n));
    let above = (wrong.max(least)..=wrong.max(least).saturating_mul(2)).find(|&n| valid(n));
    let names: Vec<String> = below.into_iter().chain(above).map(|n| n.to_string()).collect();
    names.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prime_powers_are_told_from_other_numbers() {
        let found: Vec<u32> = (0..=32).filter(|&q| prime_power(q).is_some()).collect();
        assert_eq!(found, [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32]);
        assert_eq!(prime_power(125), Some((5, 3)));
    }

    #[test]
    fn every_small_field_satisfies_the_axioms() {
        for q in [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 25, 27] {
            let f = Field::new(q).unwrap();
            for a in 0..q {
                assert_eq!((f.add(a, 0), f.mul(a, 1), f.sub(a, a)), (a, a, 0));
                assert!(a == 0 || (1..q).filter(|&b| f.mul(a, b) == 1).count() == 1);
                for b in 0..q {
                    assert_eq!((f.add(a, b), f.mul(a, b)), (f.add(b, a), f.mul(b, a)));
                    assert_eq!(f.add(f.sub(a, b), b), a);
                    for c in 0..q {
                        assert_eq!(f.mul(a, f.add(b, c)), f.add(f.mul(a, b), f.mul(a, c)));
                        assert_eq!(f.mul(a, f.mul(b, c)), f.mul(f.mul(a, b), c));
                        assert_eq!(f.add(a, f.add(b, c)), f.add(f.add(a, b), c));
                    }
                }
            }
        }
    }

    #[test]
    fn larger_orders_have_a_primitive_element() {
        for q in [49, 64, 81, 121, 125, 127, 128, 149] {
            let f = Field::new(q).unwrap();
            let mut powers: Vec<u32> = (0..q - 1).map(|i| f.power(i)).collect();
            powers.sort_unstable();
            assert!(powers.into_iter().eq(1..q));
        }
        assert!(Field::new(15).is_none());
    }

    #[test]
    fn nearest_names_both_sides() {
        assert_eq!(nearest(15, 2, |n| prime_power(n).is_some()), "13 or 16");
        assert_eq!(nearest(0, 3, |n| n >= 3), "3");
    }
}
