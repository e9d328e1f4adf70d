//! Numbers in mixed radix: the coordinates of a switch in a grid, a tree or a word.

/// The digits of `number`, most significant first; `radices` likewise.
pub(super) fn digits(mut number: usize, radices: &[u32]) -> Vec<u32> {
    let mut digits = vec![0; radices.len()];
    for (digit, &radix) in digits.iter_mut().zip(radices).rev() {
        *digit = (number % radix as usize) as u32;
        number /= radix as usize;
    }
    digits
}

/// The number that has these digits.
pub(super) fn number(digits: &[u32], radices: &[u32]) -> usize {
    digits.iter().zip(radices).fold(0, |n, (&digit, &radix)| n * radix as usize + digit as usize)
}

/// How many numbers there are with these radices. Saturates.
pub(super) fn count(radices: &[u32]) -> u128 {
    radices.iter().fold(1, |n: u128, &radix| n.saturating_mul(radix.into()))
}

/// `prefix-1-0-3`.
pub(super) fn name(prefix: &str, digits: &[u32]) -> String {
    digits.iter().fold(prefix.to_owned(), |name, digit| format!("{name}-{digit}"))
}
