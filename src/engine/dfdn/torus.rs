//! Tori: dimension order on two VLs, with an SL for each set of datelines.

use super::Task;
use crate::engine::plan::{Plan, center};
use crate::engine::{Balance, Lineage, Prefer};
use crate::lanes::{Lanes, datelines};
use crate::multicast::{given_tree, grid_trees};
use crate::ordering::{Datelines, Grid, Tree, up_down_rank};
use crate::routing::{GridRoutes, grid_routes};

/// The longest ring on which one VL suffices for all shortest paths.
const SHORT_RING: usize = 4;
/// The longest ring on which one SL and two VLs suffice for all shortest paths, if no other ring is long: with at most
/// three steps a path turns twice in the ring. Its first turn is free, and the second one ascends in an order.
const ONE_SL_RING: usize = 6;
/// VLs from which on damaged tori use one for the first channels of all paths.
const SIDESTEP_VLS: u8 = 3;

/// Tables for tori with long rings: shortest paths on two VLs, and two SLs for each dimension with long rings. Packets
/// go around broken rings the other way. Where that does not suffice, a third VL lets paths begin with any step, and an
/// SL more is for paths without such a way.
///
/// `None` where the fabric is no such torus, one SL does as well or is preferred, VLs or SLs do not suffice, or more
/// pairs take detours than the settings allow.
///
/// Cost: that of [`grid_routes`]; a search for multicast trees where links are missing.
pub(super) fn torus_plan(task: Task<'_>) -> Option<Plan> {
    let Task { fabric, hops, settings, limits, .. } = task;
    if settings.prefer == Prefer::OneSl || settings.balance == Balance::Stable {
        return None;
    }
    let grid = Grid::find(fabric)?;
    let rings = || grid.dimensions().iter().filter(|dimension| dimension.ring);
    let mut long = rings().map(|ring| ring.length).filter(|&length| length > SHORT_RING);
    let (longest, others) = (long.next()?, long.next());
    if longest <= ONE_SL_RING && others.is_none() {
        return None;
    }
    let lines = Datelines::new(fabric, &grid);
    let root = center(fabric, hops);
    let route = |sidesteps| grid_routes(fabric, hops, &grid, &lines, root, sidesteps);
    let mut routes = route(false);
    if !routes.starts.is_empty() && limits.vls >= SIDESTEP_VLS {
        // Two VLs do not suffice.
        routes = route(true);
    }
    let share = routes.detours as f64 / routes.pairs.max(1) as f64;
    let allowed = match settings.prefer {
        Prefer::Minimal => 0.0,
        _ => settings.max_nonminimal.unwrap_or(1.0),
    };
    if share > allowed {
        return None;
    }
    let lanes = |escape_first| datelines(fabric, &grid, &lines, &routes.starts, escape_first, limits).ok();
    let Lanes { sl2vl, path_sl, vls, sls } = lanes(false)?;
    let remarks = in_words(&grid, &routes, share, (vls, sls));
    let trees = grid_trees(fabric, &grid, &lines);
    let mut plan = Plan { lft: routes.lft, sl2vl, path_sl, vls, remarks, trees, lineage: Lineage::Single };
    if plan.trees.is_none() {
        plan.find_any_trees(fabric, hops);
    }
    if !plan.serves_multicast() {
        // Groups have SL 0 by default. The tree of up*/down* is legal among the paths that obey it.
        Lanes { sl2vl: plan.sl2vl, path_sl: plan.path_sl, vls: plan.vls, .. } = lanes(true)?;
        let tree = Tree::new(fabric, &up_down_rank(fabric, root), root);
        plan.trees = Some(given_tree(fabric, &tree.channels_down(fabric), 1));
    }
    Some(plan)
}

/// What an administrator should know of the tables.
fn in_words(grid: &Grid, routes: &GridRoutes, share: f64, (vls, sls): (u8, u8)) -> Vec<String> {
    let lengths: Vec<String> = grid
        .dimensions()
        .iter()
        .map(|dimension| {
            format!("{} of {}", if dimension.ring { "rings" } else { "paths" }, dimension.length)
        })
        .collect();
    let detours = match routes.detours {
        0 => "all adapter pairs on shortest paths".to_owned(),
        _ => format!("{:.2} % of the adapter pairs on detours", 100.0 * share),
    };
    let first = format!(
        "{sls} SLs, {vls} VLs, {detours}: dimension order, and the SL says which datelines the path crosses ({})",
        lengths.join(", ")
    );
    let mut remarks = vec![first, "hosts must use the SL of the PathRecord".to_owned()];
    if !routes.starts.is_empty() {
        let all = (routes.starts.len() as f64).sqrt();
        let share = |escapes: bool| {
            let is = |&&start: &&u8| start != Datelines::IN_ORDER && (start == Datelines::ESCAPES) == escapes;
            100.0 * routes.starts.iter().filter(is).count() as f64 / (all * (all - 1.0))
        };
        remarks.push(format!(
            "links or switches are missing: {:.2} % of the switch pairs take a step before dimension order, and {:.2} % obey \
             up*/down*, on a VL of their own",
            share(false),
            share(true)
        ));
    }
    remarks
}
