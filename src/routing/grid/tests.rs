use super::*;
use crate::evaluate::largest_load;
use crate::fabric::Sl;
use crate::ordering::{Rank, Tree, up_down_rank};
use crate::topology::{Candidates, Torus, fail_links, fail_switches};

fn torus(dims: &[u32]) -> Fabric {
    Torus { dims: dims.to_vec(), cas: 2 }.build().unwrap()
}

fn routes(f: &Fabric, sidesteps: bool) -> (Grid, GridRoutes, Hops) {
    let (grid, hops) = (Grid::find(f).unwrap(), Hops::new(f).unwrap());
    let datelines = Datelines::new(f, &grid);
    let routes = grid_routes(f, &hops, &grid, &datelines, SwitchId(0), sidesteps);
    (grid, routes, hops)
}

/// Hops of the path; fails where it does not arrive.
fn walk(f: &Fabric, lft: &Lft, from: SwitchId, lid: Lid) -> usize {
    let (mut at, mut hops) = (from, 0);
    while let Some(channel) = f.channels().at_port(at, lft.get(at, lid).expect("an entry")) {
        at = f.channels().get(channel).to;
        hops += 1;
        assert!(hops <= f.num_switches(), "{f}: a loop");
    }
    assert_eq!(Some(at), f.endport(f.owner_of(lid).unwrap()).attachment.map(|(s, _)| s));
    hops
}

#[test]
fn all_paths_of_whole_grids_are_shortest() {
    for dims in [&[5, 5][..], &[6, 8], &[3, 7], &[4, 6], &[5, 6, 3]] {
        let f = torus(dims);
        let (_, routes, hops) = routes(&f, true);
        assert!(routes.starts.is_empty() && routes.detours == 0, "{f}");
        for end in f.endports() {
            for s in f.switch_ids() {
                let target = end.attachment.unwrap().0;
                assert_eq!(walk(&f, &routes.lft, s, end.lid), usize::from(hops.get(s, target)), "{f}");
            }
        }
    }
}

#[test]
fn damaged_grids_are_connected_and_detours_are_counted() {
    for dims in [&[6, 6][..], &[8, 7], &[5, 5, 6]] {
        let whole = torus(dims);
        for seed in 0..3 {
            for f in [
                fail_links(&whole, 6, seed).unwrap(),
                fail_switches(&whole, 1, Candidates::Any, seed).unwrap(),
            ] {
                let count = |sidesteps| {
                    let (_, routes, hops) = routes(&f, sidesteps);
                    let mut detours = 0;
                    for (_, end) in f.adapters() {
                        for s in f.switch_ids() {
                            let target = end.attachment.unwrap().0;
                            let long = walk(&f, &routes.lft, s, end.lid) > usize::from(hops.get(s, target));
                            detours += if long { f.num_adapters_on(s) as u64 } else { 0 };
                        }
                    }
                    assert_eq!(routes.detours, detours, "{f}");
                    detours
                };
                assert!(count(true) < count(false), "{f}: a sidestep is mostly on a shortest path");
            }
        }
    }
}

/// On three VLs, with all SLs or with as few as the datelines need, and beside a tree for multicast. Where less load is
/// wanted, there is less.
#[test]
fn labelled_paths_arrive_and_their_turns_have_vls() {
    for (dims, seed) in [(&[6, 6][..], 1), (&[5, 5, 6], 2), (&[8, 7], 3)] {
        let f = fail_links(&torus(dims), 6, seed).unwrap();
        let (grid, hops) = (Grid::find(&f).unwrap(), Hops::new(&f).unwrap());
        let datelines = Datelines::new(&f, &grid);
        let tree = Tree::new(&f, &up_down_rank(&f, SwitchId(0)), SwitchId(0)).channels_down(&f);
        let up_down = Rank::up_down(&f, &grid.from_corner(&f));
        let paths = LabelledGrid::new(&f, &hops, &grid, &datelines);
        // The share of the pairs on detours, and the largest load.
        let route = |sls: u8, first: FirstOrder<'_>, goal: u64| {
            let routes =
                paths.route(LabelledSettings { sls, first, entry: 4, goal }).expect("it can be routed");
            let mut detours = 0;
            for (_, end) in f.adapters() {
                let target = end.attachment.unwrap().0;
                for s in f.switch_ids() {
                    let long = walk(&f, &routes.lft, s, end.lid) > usize::from(hops.get(s, target));
                    detours += if long { f.num_adapters_on(s) as u64 } else { 0 };
                    // Every turn of the path has a VL with the SL of the pair; the first channel has the third one.
                    let sl = Sl(routes.sls[target.index() * f.num_switches() + s.index()]);
                    let (mut at, mut before) = (s, None);
                    while let Some(id) = f.channels().at_port(at, routes.lft.get(at, end.lid).unwrap()) {
                        let i = grid.dimension_of(&f, id);
                        let step = (i, grid.channels(at, i, true).contains(&id));
                        let vl = routes.vl(sl, at, before, step).expect("a turn of a path");
                        assert!(vl.0 < LabelledRoutes::VLS && (before.is_some() || vl.0 == 2), "{f}");
                        (at, before) = (f.channels().get(id).to, Some(step));
                    }
                }
            }
            let kept = u8::from(!matches!(first, FirstOrder::Growing));
            assert_eq!((routes.detours, routes.first), (detours, kept), "{f}");
            assert!(routes.used + routes.first <= sls, "{f}");
            (routes.detours as f64 / routes.pairs as f64, largest_load(&f, &routes.lft).unwrap())
        };
        let orders = [FirstOrder::Growing, FirstOrder::AroundTree(&tree), FirstOrder::UpDown(&up_down)];
        for (order, most) in orders.into_iter().zip([0.01, 0.02, 0.05]) {
            let (detours, load) = route(16, order, u64::MAX);
            assert!(detours < most, "{f}: {order:?} {detours}");
            let (detours, cooler) = route(16, order, load * 9 / 10);
            assert!(detours < most && cooler < load, "{f}: {order:?} {detours}, {load} -> {cooler}");
            // Hardly any SL is left: paths that do not fit into one have SL 0.
            let least = datelines.sls() as u8 + 1;
            if !matches!(order, FirstOrder::Growing) {
                let (detours, _) = route(least, order, load * 9 / 10);
                assert!(detours < 0.3, "{f}: {order:?} {detours}");
            }
        }
    }
}
