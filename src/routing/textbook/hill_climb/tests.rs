use super::*;
use crate::ordering::{LinkSort, ordered_trees};
use crate::routing::{Hops, apot, bfot, sssp};
use crate::topology::{RandomIrregular, Torus, small_members};

const ALL: Picks = Picks::Best { budget: u64::MAX };
const RANDOM: Picks = Picks::Random { patience: 10.0, seed: 1 };

/// Variance of usage, hops of every pair, and all turns, counted pair by pair.
fn walk(fabric: &Fabric, lft: &Lft) -> (f64, Vec<usize>, Vec<(ChannelId, ChannelId)>) {
    let mut usage = vec![0; fabric.channels().len()];
    let (mut hops, mut turns) = (Vec::new(), Vec::new());
    for (_, end) in fabric.adapters() {
        for (lid, target) in homes(end) {
            for start in fabric.switch_ids() {
                let (mut at, mut path) = (start, Vec::new());
                while at != target {
                    let id = fabric.channels().at_port(at, lft.get(at, lid).unwrap()).unwrap();
                    path.push(id);
                    usage[id.index()] += fabric.num_adapters_on(start) as i64;
                    at = fabric.channels().get(id).to;
                    assert!(path.len() <= fabric.num_switches(), "a forwarding loop");
                }
                hops.push(path.len());
                turns.extend(path.windows(2).map(|w| (w[0], w[1])));
            }
        }
    }
    (variance(&usage), hops, turns)
}

#[test]
fn variance_falls_and_paths_stay_legal_and_as_long() {
    let parallel = RandomIrregular { switches: 6, ports: 14, cas: 3, seed: 5 }.build().unwrap();
    let mut moves = 0;
    for (name, f) in small_members().into_iter().chain([("parallel links", parallel)]) {
        let layers = ordered_trees(&f, LinkSort::Guid);
        let tables = [bfot(&f, &layers), apot(&f, &layers)];
        for (mut lft, picks) in tables.iter().flat_map(|lft| [ALL, RANDOM].map(|picks| (lft.clone(), picks)))
        {
            let (variance, hops, _) = walk(&f, &lft);
            let climb = hill_climb(&f, &mut lft, |_, a, b| layers.allow(&f, a, b), picks);
            let (then, hops_then, turns) = walk(&f, &lft);
            assert_eq!((climb.before, climb.after), (variance, then), "{name}");
            assert!(then <= variance, "{name}");
            assert_eq!(climb.moves > 0, then < variance, "{name}");
            assert_eq!(hops, hops_then, "{name}");
            assert!(turns.iter().all(|&(a, b)| layers.allow(&f, a, b)), "{name}");
            moves += climb.moves;

            let again = hill_climb(&f, &mut lft, |_, a, b| layers.allow(&f, a, b), ALL);
            assert!(again.after <= then, "{name}");
        }
    }
    assert!(moves > 0);
}

#[test]
fn parallel_links_are_balanced_apart() {
    // All routes over one of the parallel links, as if the others had just been plugged in.
    let f = RandomIrregular { switches: 2, ports: 7, cas: 4, seed: 1 }.build().unwrap();
    let mut lft = sssp(&f, &Hops::new(&f).unwrap());
    for (_, end) in f.adapters() {
        for (lid, target) in homes(end) {
            let other = SwitchId(1 - target.0);
            let first = f.channels().out(other).next().unwrap().1.out_port;
            lft.set(other, lid, first);
        }
    }
    let climb = hill_climb(&f, &mut lft, |_, _, _| true, Picks::Best { budget: 0 });
    assert_eq!(climb.trials, 0);
    let (then, ..) = walk(&f, &lft);
    assert_eq!(climb.after, then);
    // 4 destinations a side on 3 links, 4 sources each: 8, 4, 4.
    assert!((climb.after - (2.0 * 64.0 + 4.0 * 16.0) / 6.0 + (32.0_f64 / 6.0).powi(2)).abs() < 1e-9);
    assert!(climb.after < climb.before);
}

#[test]
fn the_budget_is_kept() {
    let f = Torus { dims: vec![4, 4], cas: 2 }.build().unwrap();
    let layers = ordered_trees(&f, LinkSort::Center);
    let all = |budget| {
        let mut lft = bfot(&f, &layers);
        hill_climb(&f, &mut lft, |_, a, b| layers.allow(&f, a, b), Picks::Best { budget })
    };
    let free = all(u64::MAX);
    assert!(free.trials > 100, "{free:?}");
    let short = all(100);
    assert_eq!(short.trials, 100);
    assert!(short.after >= free.after && short.after <= short.before);
    assert_eq!(all(0).moves, 0);
}

#[test]
fn random_picks_end_where_no_exchange_helps() {
    let f = Torus { dims: vec![4, 4], cas: 2 }.build().unwrap();
    let layers = ordered_trees(&f, LinkSort::Center);
    let all = |picks| {
        let mut lft = bfot(&f, &layers);
        let climb = hill_climb(&f, &mut lft, |_, a, b| layers.allow(&f, a, b), picks);
        (lft, climb)
    };
    let (mut lft, climb) = all(RANDOM);
    assert!(climb.moves > 10, "{climb:?}");
    assert_eq!(hill_climb(&f, &mut lft, |_, a, b| layers.allow(&f, a, b), ALL).moves, 0);
    assert_eq!(all(RANDOM), all(RANDOM));
    assert_ne!(all(RANDOM).0, all(Picks::Random { patience: 10.0, seed: 2 }).0);
    let hasty = all(Picks::Random { patience: 0.1, seed: 1 }).1;
    assert!(hasty.trials < climb.trials && hasty.after >= climb.after, "{hasty:?}");
    let (untouched, none) = all(Picks::Random { patience: 0.0, seed: 1 });
    assert_eq!((none.trials, untouched), (0, all(Picks::Best { budget: 0 }).0));
}
