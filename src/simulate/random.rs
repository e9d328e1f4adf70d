//! Random numbers that are the same on every machine.

/// splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014):
/// eight bytes of state, so that every host has a generator of its own.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// A generator for one `user` of a seed.
    pub(super) fn new(seed: u64, user: u64) -> Self {
        let mut seeds = Self(seed);
        let start = seeds.next();
        let mut own = Self(start ^ user.wrapping_mul(0xd1b5_4a32_d192_ed03));
        own.next();
        own
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`. Some are likelier than others by a factor of n / 2^64.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// An exponentially distributed number with a mean of `mean`.
    ///
    /// Von Neumann's method ("Various techniques used in connection with random digits", 1951): it
    /// only compares uniform numbers, whereas a logarithm differs between machines.
    pub(super) fn exponential(&mut self, mean: u64) -> u64 {
        let mut whole = 0;
        loop {
            let first = self.next();
            let (mut last, mut falling) = (first, 1);
            loop {
                let next = self.next();
                if next >= last {
                    break;
                }
                last = next;
                falling += 1;
            }
            if falling % 2 == 1 {
                return whole + ((u128::from(first) * u128::from(mean)) >> 64) as u64;
            }
            whole += mean;
        }
    }

    /// Shuffles as Fisher and Yates do.
    pub(super) fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn known_numbers() {
        // The reference implementation, from state 1234567.
        let mut random = Random(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn intervals_are_exponential() {
        let mut random = Random::new(1, 7);
        let (n, mean) = (200_000, 1_000_000_u64);
        let drawn: Vec<f64> = (0..n).map(|_| random.exponential(mean) as f64 / mean as f64).collect();
        let average = drawn.iter().sum::<f64>() / f64::from(n);
        let square = drawn.iter().map(|x| x * x).sum::<f64>() / f64::from(n);
        assert!((average - 1.0).abs() < 0.01, "{average}");
        assert!((square - 2.0).abs() < 0.05, "{square}");
        for x in [0.1, 0.5, 1.0, 2.0, 4.0] {
            let beyond = drawn.iter().filter(|&&d| d > x).count() as f64 / f64::from(n);
            assert!((beyond - (-x).exp()).abs() < 0.005, "{x}: {beyond}");
        }
    }

    #[test]
    fn users_of_a_seed_differ_and_a_shuffle_keeps_all() {
        let first: Vec<u64> = (0..1000).map(|user| Random::new(3, user).next()).collect();
        let mut distinct = first.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), first.len());
        let mut list: Vec<u32> = (0..100).collect();
        Random::new(1, 1).shuffle(&mut list);
        assert_ne!(list, (0..100).collect::<Vec<_>>());
        list.sort_unstable();
        assert_eq!(list, (0..100).collect::<Vec<_>>());
    }
}
