//! Kautz: the densest known directed graphs of given degree and diameter, with a cable for each
//! arc.

use crate::fabric::Fabric;

use super::coordinates::{count, digits, name, number};
use super::error::{TopologyError, at_least};
use super::plan::{Plan, Size};

/// The Kautz graph K(d, n). Its switches are the `(d+1)·d^(n-1)` words of n letters out of d + 1 in
/// which no two adjacent letters are equal. An arc leads from each word to the d words made by
/// dropping the first letter and appending one. The diameter is n.
///
/// Each arc becomes a cable that carries both directions. The two arcs between `abab…` and `baba…`
/// share one cable, which leaves `(d+1)·dⁿ - d·(d+1)/2` cables, none of them parallel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kautz {
    /// Outgoing arcs per switch, at least 2.
    pub d: u32,
    /// Letters per word, at least 1.
    pub n: u32,
    /// Adapters per switch, at least 1.
    pub cas: u32,
}

impl Kautz {
    /// Builds it. Switches: `sw-` and the letters of the word as numbers, joined by `-`. Ports:
    /// adapters, d for outgoing arcs, d for incoming arcs; where two arcs share a cable, the ports
    /// of one of them stay free.
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range or the fabric too large.
    ///
    /// Cost: O(n · links + adapters) time.
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        let &Self { d, n, cas } = self;
        at_least("d", d, 2)?;
        at_least("n", n, 1)?;
        at_least("cas", cas, 1)?;
        let switches = u128::from(d).saturating_pow(n - 1).saturating_mul(u128::from(d) + 1);
        let adapters = switches.saturating_mul(cas.into());
        let ports = 2 * u128::from(d) + u128::from(cas);
        let mut plan = Plan::new(&Size { switches, adapters, ports })?;

        // Each letter is stored as its rank among the d letters that differ from the one before.
        let mut radices = vec![d; n as usize];
        radices[0] = d + 1;
        let words: Vec<Vec<u32>> =
            (0..count(&radices) as usize).map(|i| to_word(&digits(i, &radices))).collect();
        for word in &words {
            plan.switch(name("sw", word), cas);
        }
        for (i, word) in words.iter().enumerate() {
            for letter in (0..=d).filter(|letter| word.last() != Some(letter)) {
                let mut next = word[1..].to_vec();
                next.push(letter);
                let j = number(&to_ranks(&next), &radices);
                let opposite = next[1..] == word[..n as usize - 1];
                if opposite && j < i {
                    continue;
                }
                let leaves = cas + 1 + rank(letter, word.last());
                let enters = cas + 1 + d + rank(word[0], next.first());
                plan.link_at((i, leaves), (j, enters));
            }
        }
        plan.build()
    }
}

/// The rank of a letter among those that differ from `other`.
fn rank(letter: u32, other: Option<&u32>) -> u32 {
    letter - u32::from(other.is_some_and(|&other| other < letter))
}

fn to_ranks(word: &[u32]) -> Vec<u32> {
    (0..word.len()).map(|i| rank(word[i], i.checked_sub(1).map(|i| &word[i]))).collect()
}

fn to_word(ranks: &[u32]) -> Vec<u32> {
    let mut word: Vec<u32> = Vec::with_capacity(ranks.len());
    for &rank in ranks {
        let skips = word.last().is_some_and(|&before| before <= rank);
        word.push(rank + u32::from(skips));
    }
    word
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;

    #[test]
    fn size_links_and_diameter() {
        for (d, n) in [(2, 1), (2, 2), (2, 3), (3, 2), (3, 3), (2, 5), (4, 3)] {
            let f = Kautz { d, n, cas: 1 }.build().unwrap();
            let switches = ((d + 1) * d.pow(n - 1)) as usize;
            assert_eq!(probe::shape(&f), (switches, switches));
            let links = (d + 1) * d.pow(n) - d * (d + 1) / 2;
            assert_eq!(f.channels().len() / 2, links as usize, "d={d} n={n}");
            assert!(probe::diameter(&f).unwrap() <= n, "d={d} n={n}");
            assert!(probe::is_simple(&f));
            let most = [d, 2 * d - 1, 2 * d][n.min(3) as usize - 1] as usize;
            assert_eq!(probe::degrees(&f).last(), Some(&most), "d={d} n={n}");
        }
    }

    #[test]
    fn arcs_shift_words() {
        let f = Kautz { d: 3, n: 3, cas: 1 }.build().unwrap();
        let word = |s| f.switch(s).description.split('-').skip(1).map(String::from).collect::<Vec<_>>();
        for (_, c) in f.channels().iter().filter(|(_, c)| c.out_port.0 <= 4) {
            assert_eq!(word(c.from)[1..], word(c.to)[..2]);
            assert!(c.in_port.0 > 4);
        }
    }

    #[test]
    fn words_of_one_letter_are_a_full_mesh() {
        let f = Kautz { d: 4, n: 1, cas: 1 }.build().unwrap();
        assert_eq!(
            (probe::degrees(&f), probe::diameter(&f), probe::girth(&f)),
            ([4].into(), Some(1), Some(3))
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let message = |d, n, cas| Kautz { d, n, cas }.build().unwrap_err().to_string();
        assert!(message(1, 3, 1).contains("d = 1"));
        assert!(message(2, 0, 1).contains("n = 0"));
        assert!(message(2, 2, 0).contains("cas = 0"));
        assert!(message(u32::MAX, u32::MAX, 1).contains("too many"));
        assert!(message(126, 1, 3).contains("255 ports"));
    }
}
