use super::*;
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
