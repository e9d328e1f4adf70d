//! One SL on tori: paths around staggered cuts, balanced by load.

mod change;
mod ports;
mod slices;
mod space;
mod target;
mod tree;

use rayon::prelude::*;

use self::ports::Ports;
use self::space::Space;
use self::target::Target;
use self::tree::Tree;
use crate::fabric::{EndPort, Fabric};
use crate::ordering::{Grid, StaggeredCuts};
use crate::routing::{Forwarding, adapters_by_switch};

/// Routes around [`StaggeredCuts`]. One adapter port after the other gets the slices that make the sum of the fourth
/// powers of all loads least, and paths of little load within these; later rounds choose again. The fourth power is near
/// the greatest load and still sees the others.
///
/// All LIDs of a port have the same paths. On large tori all adapters of a switch have the same. Port 0 always has the
/// paths of an adapter on its switch. `None` where some switch finds no path.
///
/// - `grid`: of this fabric, and whole.
/// - `work`: steps that the trees of all rounds may take together; there is one round at least.
///
/// Cost: O(S D^2) time and 5 S bytes for each tree, with S switches and D dimensions, on all cores. There is one
/// tree for each switch. Its further adapters and later rounds have more, as long as all trees together have `WORK` steps
/// at most.
pub fn staggered_routes(
    fabric: &Fabric,
    grid: &Grid,
    cuts: &StaggeredCuts,
    work: usize,
) -> Option<Forwarding> {
    let space = Space::new(fabric, grid, cuts);
    let n = fabric.num_switches();
    let adapters = adapters_by_switch(fabric);
    let all: u64 = adapters.iter().sum();
    let groups = groups(fabric, &space, (WORK / (n * n)).max(1));
    let rounds = (work.min(WORK) / (groups.len() * n).max(1)).clamp(1, MOST_ROUNDS);
    let by_place = space.by_place(&adapters);
    let mut load = vec![0_u64; n * space.steps()];
    let mut trees: Vec<Option<Tree>> = groups.iter().map(|_| None).collect();
    let batch = (groups.len() / BATCHES).max(1);
    for _ in 0..rounds {
        for (groups, trees) in groups.chunks(batch).zip(trees.chunks_mut(batch)) {
            for (group, tree) in groups.iter().zip(trees.iter().flatten()) {
                tree.change_load(&mut load, |load, routes| load - routes * group.weight());
            }
            let grown: Vec<Option<Tree>> =
                groups.par_iter().map(|group| grow(&space, &by_place, group, &load)).collect();
            for ((group, tree), grown) in groups.iter().zip(trees).zip(grown) {
                let grown = grown?;
                grown.change_load(&mut load, |load, routes| load + routes * group.weight());
                *tree = Some(grown);
            }
        }
    }
    let ports = Ports::new(fabric, grid, &space);
    let mut routes = Forwarding::nothing(fabric);
    for (group, tree) in groups.iter().zip(trees.iter().flatten()) {
        for end in &group.ends {
            ports.set(tree, end, &mut routes);
        }
        routes.pairs += group.weight() * all.saturating_sub(1);
        routes.detours += group.weight() * tree.detours(&by_place);
    }
    Some(routes)
}

/// Steps of the trees that are grown beyond the least number.
const WORK: usize = 30_000_000;
/// Rounds of choices: the second brings a tenth less load, the third a few percent, later ones nothing.
const MOST_ROUNDS: usize = 3;
/// Trees of one batch do not see each other's load, so that all cores have work. So many batches at least make that
/// little of all load.
const BATCHES: usize = 256;
/// Other slices that are tried for a target that some switch does not reach.
const MOST_ATTEMPTS: usize = 16;

/// Ports with one tree.
struct Group<'a> {
    place: usize,
    /// Its number on the switch.
    number: usize,
    ends: Vec<&'a EndPort>,
}

impl Group<'_> {
    /// LIDs of adapters.
    fn weight(&self) -> u64 {
        self.ends.iter().filter(|end| end.is_adapter()).map(|end| end.lids().count() as u64).sum()
    }
}

/// Groups of the ports on a switch, in the order of ports: adapters in turn, and port 0 with the first ones.
///
/// - `most`: groups of a switch.
fn groups<'a>(fabric: &'a Fabric, space: &Space<'_>, most: usize) -> Vec<Group<'a>> {
    let mut by_switch: Vec<Vec<&EndPort>> = vec![Vec::new(); fabric.num_switches()];
    for end in fabric.endports() {
        if let Some((s, _)) = end.attachment {
            by_switch[s.index()].push(end);
        }
    }
    let mut found = Vec::new();
    for (s, ends) in fabric.switch_ids().zip(by_switch) {
        let (adapters, others): (Vec<_>, Vec<_>) = ends.into_iter().partition(|end| end.is_adapter());
        let place = space.place_of(s);
        let first = found.len();
        for number in 0..adapters.len().clamp(1, most) {
            let ends = adapters.iter().skip(number).step_by(most).copied().collect();
            found.push(Group { place, number, ends });
        }
        found[first].ends.extend(others);
    }
    found
}

/// `None` where some switch finds no path.
fn grow(space: &Space<'_>, adapters: &[u64], group: &Group<'_>, load: &[u64]) -> Option<Tree> {
    (0..MOST_ATTEMPTS).find_map(|attempt| {
        let mut target = Target::new(space, group.place, group.number);
        slices::choose(&mut target, load, attempt);
        Tree::grow(space, &target, adapters, load)
    })
}
