//! Statistics of a run.

/// Latencies, to within 1/128 of themselves, in a fixed array.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
}

/// Bits of a value that distinguish classes within a power of two.
const BITS: u32 = 6;

impl Histogram {
    pub(super) fn new() -> Self {
        Self { counts: vec![0; ((65 - BITS) << BITS) as usize], total: 0, sum: 0 }
    }

    fn class(value: u64) -> usize {
        let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
        ((u64::from(shift) << BITS) + (value >> shift)) as usize
    }

    /// The middle of a class.
    fn middle(class: usize) -> f64 {
        let shift = (class >> BITS).saturating_sub(1);
        let low = (class - (shift << BITS)) as f64;
        let width = (shift as f64).exp2();
        if shift == 0 { low } else { (low + 0.5) * width }
    }

    pub(super) fn add(&mut self, value: u64) {
        self.counts[Self::class(value)] += 1;
        self.total += 1;
        self.sum += u128::from(value);
    }

    #[cfg(test)]
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The mean, without rounding; `None` without values.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum as f64 / self.total as f64)
    }

    /// The value that a share of them does not exceed; `None` without values.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let rank = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let class = self.counts.iter().position(|&n| {
            seen += n;
            seen >= rank
        });
        class.filter(|_| self.total > 0).map(Self::middle)
    }
}

#[cfg(test)]
mod tests {
    use super::Histogram;

    #[test]
    fn classes_are_narrow_and_in_order() {
        let mut last = 0;
        for value in (0..100_000).chain((20..63).flat_map(|b| [(1 << b) - 1, 1 << b, (1 << b) + 12_345])) {
            let class = Histogram::class(value);
            assert!(class >= last || value < 100_000 && class + 1 >= last || value == 0, "{value}");
            last = class;
            let middle = Histogram::middle(class);
            assert!((middle - value as f64).abs() <= value as f64 / 128.0 + 1e-9, "{value}: {middle}");
        }
        Histogram::new().add(u64::MAX);
    }

    #[test]
    fn quantiles_of_known_values() {
        let mut h = Histogram::new();
        assert_eq!((h.mean(), h.quantile(0.5)), (None, None));
        (1..=10_000).for_each(|value| h.add(value));
        assert_eq!(h.mean(), Some(5000.5));
        for share in [0.5, 0.95, 0.99] {
            let (found, exact) = (h.quantile(share).unwrap(), 10_000.0 * share);
            assert!((found - exact).abs() <= exact / 128.0, "{share}: {found}");
        }
    }
}
