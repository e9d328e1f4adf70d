//! Positions from the dimensions and directions of the links.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::Dimension;
use super::labels::Labels;
use super::ladders::Ladders;

/// The longest dimension: positions are bytes.
const LONGEST: usize = 255;

/// The dimensions, and the position of each switch in them. `None` where these are no grid.
///
/// A walk over the labelled links gives each switch its steps from the seed. Where two walks to one switch differ,
/// rings close; the greatest common divisor of the differences in a dimension is the length of its rings. A switch
/// without a labelled link takes a free place next to all of its neighbours.
///
/// Cost: O(L D) with L links and D dimensions.
pub(super) fn place(ladders: &Ladders, labels: &Labels) -> Option<(Vec<Dimension>, Vec<Vec<usize>>)> {
    let (n, d) = (ladders.neighbours.len(), labels.dimensions);
    let mut steps: Vec<Option<Vec<i32>>> = vec![None; n];
    steps[labels.seed] = Some(vec![0; d]);
    let mut queue = vec![labels.seed];
    let mut lengths = vec![0_i32; d];
    let mut at = 0;
    while let Some(&s) = queue.get(at) {
        at += 1;
        let here = steps[s].clone()?;
        for (to, ladder, outward) in ladders.around(s) {
            let Some((dimension, up)) = labels.of[ladder] else { continue };
            let mut there = here.clone();
            there[dimension] += if up == outward { 1 } else { -1 };
            match &steps[to.index()] {
                None => {
                    steps[to.index()] = Some(there);
                    queue.push(to.index());
                }
                Some(old) => {
                    for (length, (a, b)) in lengths.iter_mut().zip(there.iter().zip(old)) {
                        *length = gcd(*length, (a - b).abs());
                    }
                }
            }
        }
    }
    let mut dimensions = Vec::with_capacity(d);
    let mut first = Vec::with_capacity(d);
    for (i, &length) in lengths.iter().enumerate() {
        let all = || steps.iter().flatten().map(|place| place[i]);
        let (least, most) = (all().min()?, all().max()?);
        let (length, ring) = if length == 0 { (most - least + 1, false) } else { (length, true) };
        if length < if ring { 3 } else { 2 } || length as usize > LONGEST {
            return None;
        }
        first.push(if ring { 0 } else { least });
        dimensions.push(Dimension { length: length as usize, ring });
    }
    let position = |place: Vec<i32>| -> Vec<usize> {
        let each = place.iter().zip(first.iter().zip(&dimensions));
        each.map(|(&p, (&first, dimension))| (p - first).rem_euclid(dimension.length as i32) as usize)
            .collect()
    };
    let places: Vec<Option<Vec<usize>>> = steps.into_iter().map(|place| place.map(position)).collect();
    Some((dimensions.clone(), fill(ladders, &dimensions, places)?))
}

/// Places the switches that have no place yet next to their neighbours.
fn fill(
    ladders: &Ladders,
    dimensions: &[Dimension],
    mut places: Vec<Option<Vec<usize>>>,
) -> Option<Vec<Vec<usize>>> {
    let mut owner: HashMap<Vec<usize>, usize> = HashMap::new();
    for (s, place) in places.iter().enumerate() {
        let Some(place) = place else { continue };
        match owner.entry(place.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(free) => free.insert(s),
        };
    }
    let mut open: Vec<usize> = (0..places.len()).filter(|&s| places[s].is_none()).collect();
    while !open.is_empty() {
        let before = open.len();
        let mut still = Vec::new();
        for s in open {
            let placed: Vec<Vec<usize>> =
                ladders.neighbours[s].iter().filter_map(|a| places[a.index()].clone()).collect();
            let Some((one, others)) = placed.split_first() else {
                still.push(s);
                continue;
            };
            let next_to_all =
                |place: &Vec<usize>| others.iter().all(|other| are_next(dimensions, place, other));
            let free =
                around(dimensions, one).find(|place| !owner.contains_key(place) && next_to_all(place))?;
            owner.insert(free.clone(), s);
            places[s] = Some(free);
        }
        if still.len() == before {
            return None;
        }
        open = still;
    }
    places.into_iter().collect()
}

/// The places next to one.
fn around<'a>(dimensions: &'a [Dimension], place: &'a [usize]) -> impl Iterator<Item = Vec<usize>> + 'a {
    (0..dimensions.len()).flat_map(move |i| {
        [true, false].into_iter().filter_map(move |up| {
            let mut next = place.to_vec();
            next[i] = dimensions[i].next(place[i], up)?;
            Some(next)
        })
    })
}

fn are_next(dimensions: &[Dimension], a: &[usize], b: &[usize]) -> bool {
    around(dimensions, a).any(|next| next == b)
}

fn gcd(a: i32, b: i32) -> i32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
