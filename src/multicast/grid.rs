//! Multicast trees on whole grids: one for each SL of dimension order, or one around staggered cuts.

use super::{McastTrees, everyone};
use crate::fabric::{ChannelId, Fabric, Sl, SwitchId};
use crate::ordering::{Datelines, Grid, SpanningTree, StaggeredCuts};
use crate::tables::McastGroup;

/// A tree for each SL of [`Datelines`]: all paths of the last dimension, those of the dimension before where the last
/// position is that of a centre, and so on. Rings are cut at the step that unicast never uses on the VL that the SL has
/// in the dimension: at the dateline on VL 0, opposite to it on VL 1. Rings of up to six without a bit of the SL are cut
/// where no path goes on from its second step.
///
/// No tree closes a cycle with unicast or another tree. In the last dimension call channels that lead towards the
/// position of the centre *inward* and the others *outward*; a cut ring has no way from outward to inward on its VL,
/// for unicast neither. Only inward channels lead into lower dimensions, and only at the centre. So channels can be
/// sorted: lower dimensions beside the centre, inward ones, lower dimensions at the centre, outward ones. The lower
/// dimensions at the centre are sorted by the same rule, those beside it in dimension order.
///
/// `None` if a step that a tree needs is missing.
///
/// Cost: O(T S D) with T trees, S switches and D dimensions.
pub fn grid_trees(fabric: &Fabric, grid: &Grid, datelines: &Datelines) -> Option<McastTrees> {
    let dimensions = grid.dimensions();
    // The middle of the trees of SL 0, which most groups have.
    let centre: Vec<usize> = dimensions
        .iter()
        .enumerate()
        .map(|(i, dimension)| match dimension.ring {
            true => (datelines.cut(i, Sl(0)) + 1 + (dimension.length - 1) / 2) % dimension.length,
            false => (dimension.length - 1) / 2,
        })
        .collect();
    let sls = datelines.sls();
    let mut trees = Vec::with_capacity(sls);
    for (sl, mlid) in (0..sls).zip(McastGroup::FIRST_MLID..) {
        let edges = edges(fabric, grid, datelines, &centre, Sl(sl as u8))?;
        let all = (sl..Sl::COUNT).step_by(sls).fold(0, |all, sl| all | 1_u16 << sl);
        trees.push(everyone(fabric, &edges, mlid, all));
    }
    Some(McastTrees { trees, unserved: 0 })
}

fn edges(
    fabric: &Fabric,
    grid: &Grid,
    datelines: &Datelines,
    centre: &[usize],
    sl: Sl,
) -> Option<Vec<ChannelId>> {
    let mut edges = Vec::with_capacity(fabric.num_switches());
    for s in fabric.switch_ids() {
        for (i, dimension) in grid.dimensions().iter().enumerate().rev() {
            let position = usize::from(grid.place(s)[i]);
            let last = position + 1 == dimension.length && !dimension.ring;
            let cut = dimension.ring && position == datelines.cut(i, sl);
            if !last && !cut {
                edges.push(*grid.channels(s, i, true).first()?);
            }
            if position != centre[i] {
                break;
            }
        }
    }
    debug_assert_eq!(edges.len() + 1, fabric.num_switches(), "a spanning tree");
    Some(edges)
}

/// One tree for all SLs beside paths around staggered cuts: a [`SpanningTree`].
///
/// - `fabric`: that of the grid, whole.
///
/// Cost: O(S H) with S switches and H steps to the root.
pub fn staggered_tree(fabric: &Fabric, grid: &Grid, cuts: &StaggeredCuts) -> McastTrees {
    let tree = SpanningTree::new(cuts);
    let places = cuts.places(grid, fabric.switch_ids());
    let edge = |(s, place): (SwitchId, usize)| {
        let (axis, up) = tree.next(place)?;
        let towards = grid.channels(s, cuts.axes()[axis].index(), up).first()?;
        Some((tree.depth(place), fabric.channels().get(*towards).reverse))
    };
    let mut edges: Vec<(usize, ChannelId)> = fabric.switch_ids().zip(places).filter_map(edge).collect();
    edges.sort_unstable();
    let edges: Vec<ChannelId> = edges.into_iter().map(|(_, edge)| edge).collect();
    debug_assert_eq!(edges.len() + 1, fabric.num_switches(), "a spanning tree");
    given_tree(fabric, &edges, u16::MAX)
}

/// One tree for some SLs, from its channels away from the root.
pub fn given_tree(fabric: &Fabric, edges: &[ChannelId], sls: u16) -> McastTrees {
    McastTrees { trees: vec![everyone(fabric, edges, McastGroup::FIRST_MLID, sls)], unserved: !sls }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Torus, fail_links};

    #[test]
    fn each_sl_has_a_tree_of_all_switches() {
        for dims in [&[5, 5][..], &[6, 3], &[4, 7], &[5, 2, 8]] {
            let f = Torus { dims: dims.to_vec(), cas: 1 }.build().unwrap();
            let grid = Grid::find(&f).unwrap();
            let datelines = Datelines::new(&f, &grid);
            let found = grid_trees(&f, &grid, &datelines).unwrap();
            assert_eq!((found.trees.len(), found.unserved), (datelines.sls(), 0), "{f}");
            let sls: Vec<u16> = found.trees.iter().filter_map(|tree| tree.sls).collect();
            assert_eq!(sls.iter().fold(0, |all, sls| all | sls), u16::MAX);
            assert_eq!(sls.iter().map(|sls| sls.count_ones()).sum::<u32>(), 16, "each SL has one tree");
            for tree in &found.trees {
                let links: usize = tree
                    .ports
                    .iter()
                    .map(|&(s, set)| {
                        set.iter().filter(|&port| f.channels().at_port(s, port).is_some()).count()
                    })
                    .sum();
                assert_eq!(links, 2 * (f.num_switches() - 1), "{f}");
            }
            let damaged = fail_links(&f, 2, 1).unwrap();
            let Some(grid) = Grid::find(&damaged) else { continue };
            let datelines = Datelines::new(&damaged, &grid);
            let spans =
                |found: McastTrees| found.trees.iter().all(|tree| tree.ports.len() == f.num_switches());
            assert!(grid_trees(&damaged, &grid, &datelines).is_none_or(spans), "{f}");
        }
    }

    #[test]
    fn the_centre_is_a_switch_of_every_tree() {
        let f = Torus { dims: vec![5, 5], cas: 1 }.build().unwrap();
        let grid = Grid::find(&f).unwrap();
        let found = grid_trees(&f, &grid, &Datelines::new(&f, &grid)).unwrap();
        assert!(found.trees.iter().all(|tree| f.switch_ids().all(|s| !tree.at(s).is_empty())));
    }
}
