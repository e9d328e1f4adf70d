//! What routes take one after the other: pairs of turns, or of channels, with the routes over them.
//!
//! Millions of pairs are in use on a fabric of a thousand switches. They are kept in blocks by their first numbers, so that all
//! cores work on them, each on a block at a time that fits its cache.

use rayon::prelude::*;

/// Numbers in a block, as a power of two.
const BLOCK: u32 = 13;

/// Two numbers in a row, and what that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) first: u32,
    pub(super) second: u32,
    pub(super) weight: u64,
}

/// Pairs in any order, by the blocks of their first numbers. A pair may be there several times.
pub(super) struct Found {
    blocks: Vec<Vec<Pair>>,
}

impl Found {
    /// - `numbers`: how many there are.
    pub(super) fn new(numbers: usize) -> Self {
        Self { blocks: vec![Vec::new(); blocks(numbers)] }
    }

    pub(super) fn push(&mut self, pair: Pair) {
        self.blocks[block(pair.first)].push(pair);
    }
}

/// Pairs in order, each once.
pub(super) struct Pairs {
    blocks: Vec<Vec<Pair>>,
}

impl Pairs {
    /// None.
    ///
    /// - `numbers`: how many there are.
    pub(super) fn none(numbers: usize) -> Self {
        Self { blocks: vec![Vec::new(); blocks(numbers)] }
    }

    /// These with another weight each, without those that have none left, and with what was found: the weights of the same
    /// pair are added up.
    ///
    /// Cost: O(P log d) with P pairs, and d with the same first number.
    pub(super) fn joined(self, found: &[Found], weight: impl Fn(u64) -> u64 + Sync) -> Self {
        let joined = |(i, mut earlier): (usize, Vec<Pair>)| {
            earlier.iter_mut().for_each(|pair| pair.weight = weight(pair.weight));
            earlier.retain(|pair| pair.weight > 0);
            let found: Vec<Pair> = found.iter().flat_map(|found| &found.blocks[i]).copied().collect();
            united(earlier, in_order(i, found))
        };
        Self { blocks: self.blocks.into_par_iter().enumerate().map(joined).collect() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Pair> {
        self.blocks.iter().flatten()
    }

    /// By block: what `of` makes of each pair.
    pub(super) fn map<T: Send>(&self, of: impl Fn(&Pair) -> T + Sync) -> Vec<Vec<T>> {
        self.blocks.par_iter().map(|pairs| pairs.iter().map(&of).collect()).collect()
    }
}

/// How many blocks so many numbers take.
fn blocks(numbers: usize) -> usize {
    numbers.div_ceil(1 << BLOCK).max(1)
}

/// The block of a number.
fn block(number: u32) -> usize {
    (number >> BLOCK) as usize
}

/// Sorts the pairs of a block.
///
/// Cost: O(P log d) with P pairs, and d with the same first number.
fn in_order(block: usize, pairs: Vec<Pair>) -> Vec<Pair> {
    let mut pairs = by_number(block, pairs, |pair| pair.first);
    pairs.chunk_by_mut(|a, b| a.first == b.first).for_each(|same| same.sort_unstable_by_key(|p| p.second));
    pairs
}

/// Items by blocks of another number; in each block sorted by it, and those with the same number in the order that they had.
///
/// - `items`: by blocks of as many numbers.
///
/// Cost: O(I + N) with I items and N numbers.
pub(super) fn by_other_number<T: Copy + Send + Sync>(
    items: &[Vec<T>],
    number: impl Fn(&T) -> u32 + Sync,
) -> Vec<Vec<T>> {
    let shared_out = |items: &Vec<T>, blocks: usize| {
        let mut shared_out = vec![Vec::new(); blocks];
        items.iter().for_each(|item| shared_out[block(number(item))].push(*item));
        shared_out
    };
    let blocks = items.len();
    let shared_out: Vec<Vec<Vec<T>>> = items.par_iter().map(|items| shared_out(items, blocks)).collect();
    let of_block = |i: usize| -> Vec<T> {
        let of_block = shared_out.iter().flat_map(|shared_out| &shared_out[i]);
        by_number(i, of_block.copied().collect(), &number)
    };
    (0..blocks).into_par_iter().map(of_block).collect()
}

/// Sorts the items of a block by their numbers; those with the same number keep their order.
///
/// Cost: O(I + N) with I items and N numbers in a block.
fn by_number<T: Copy>(block: usize, items: Vec<T>, number: impl Fn(&T) -> u32) -> Vec<T> {
    let lowest = block << BLOCK;
    let place = |item: &T| number(item) as usize - lowest;
    let last = items.iter().map(place).max().unwrap_or(0);
    let mut next = vec![0_usize; last + 2];
    items.iter().for_each(|item| next[place(item) + 1] += 1);
    for i in 0..=last {
        next[i + 1] += next[i];
    }
    let mut sorted = items.clone();
    for item in items {
        let next = &mut next[place(&item)];
        sorted[*next] = item;
        *next += 1;
    }
    sorted
}

/// Pairs of two lists, in order, each once.
///
/// - `earlier`: in order, each once.
/// - `more`: in order.
///
/// Cost: O(P) with P pairs.
fn united(earlier: Vec<Pair>, more: Vec<Pair>) -> Vec<Pair> {
    let key = |pair: &Pair| (pair.first, pair.second);
    let mut all: Vec<Pair> = Vec::with_capacity(earlier.len() + more.len() / 2);
    let mut add = |pair: Pair| match all.last_mut().filter(|last| key(last) == key(&pair)) {
        Some(last) => last.weight += pair.weight,
        None => all.push(pair),
    };
    let mut more = more.into_iter().peekable();
    for pair in earlier {
        while let Some(next) = more.next_if(|next| key(next) < key(&pair)) {
            add(next);
        }
        add(pair);
    }
    more.for_each(add);
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Numbers that a seed brings.
    fn drawn(seed: u64) -> impl FnMut(u32) -> u32 {
        let mut state = seed;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % u64::from(below)) as u32
        }
    }

    #[test]
    fn weights_of_the_same_pair_add_up_round_by_round() {
        for numbers in [1_u32, 40, 20_000] {
            let mut draw = drawn(u64::from(numbers));
            let mut pairs = Pairs::none(numbers as usize);
            let mut expected: BTreeMap<(u32, u32), u64> = BTreeMap::new();
            for _ in 0..4 {
                expected.values_mut().for_each(|weight| *weight /= 2);
                expected.retain(|_, weight| *weight > 0);
                let found = (0..3).map(|_| {
                    let mut found = Found::new(numbers as usize);
                    for _ in 0..5_000 {
                        let (first, second) = (draw(numbers), draw(numbers));
                        let weight = u64::from(draw(5));
                        found.push(Pair { first, second, weight });
                        *expected.entry((first, second)).or_default() += weight;
                    }
                    found
                });
                let found: Vec<Found> = found.collect();
                pairs = pairs.joined(&found, |weight| weight / 2);
                let listed: Vec<((u32, u32), u64)> =
                    pairs.iter().map(|p| ((p.first, p.second), p.weight)).collect();
                assert!(listed.into_iter().eq(expected.clone()), "{numbers}");
            }
        }
    }

    #[test]
    fn items_come_by_their_other_number_and_else_keep_their_order() {
        let numbers = 30_000;
        let mut draw = drawn(1);
        let mut found = Found::new(numbers as usize);
        for weight in 0..50_000 {
            found.push(Pair { first: draw(numbers), second: draw(numbers), weight });
        }
        let pairs = Pairs::none(numbers as usize).joined(&[found], |weight| weight);
        let turned = by_other_number(&pairs.map(|pair| (pair.second, pair.first)), |&(second, _)| second);
        assert_eq!(turned.len(), 4);
        let mut expected: Vec<(u32, u32)> = pairs.iter().map(|pair| (pair.second, pair.first)).collect();
        expected.sort_unstable();
        assert!(turned.into_iter().flatten().eq(expected));
    }
}
