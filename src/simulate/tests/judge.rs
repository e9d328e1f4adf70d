//! The judge and the simulator against each other.

use std::sync::atomic::{AtomicUsize, Ordering};

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::*;
use crate::fabric::{Lid, SwitchId, Vl};
use crate::tables::SlVlRow;
use crate::topology::{Mesh, Random, Ring, Torus};
use crate::verify::verify;

/// For each LID a random tree of shortest or arbitrary paths.
fn random_trees(fabric: &Fabric, rng: &mut ChaCha8Rng, shortest: bool) -> Lft {
    let mut lft = Lft::new(fabric);
    for end in fabric.endports() {
        let Some((root, port)) = end.attachment else { continue };
        for lid in end.lids() {
            grow(fabric, rng, shortest, root, lid, &mut lft);
            lft.set(root, lid, port);
        }
    }
    lft
}

fn grow(fabric: &Fabric, rng: &mut ChaCha8Rng, shortest: bool, root: SwitchId, lid: Lid, lft: &mut Lft) {
    let mut reached = vec![false; fabric.num_switches()];
    reached[root.index()] = true;
    let mut front = vec![root];
    while !front.is_empty() {
        let mut next = Vec::new();
        let at = if shortest {
            std::mem::take(&mut front)
        } else {
            vec![front.swap_remove(rng.random_range(0..front.len()))]
        };
        let mut steps: Vec<_> = at.iter().flat_map(|&s| fabric.channels().out(s).map(|(_, c)| *c)).collect();
        steps.shuffle(rng);
        for c in steps {
            if !std::mem::replace(&mut reached[c.to.index()], true) {
                lft.set(c.to, lid, c.in_port);
                next.push(c.to);
            }
        }
        front.extend(next);
    }
}

/// Tables of many kinds; some have credit loops, some have none.
fn random_tables(fabric: &Fabric, rng: &mut ChaCha8Rng, kind: u32) -> Routes {
    let engines = ["dfdn", "dfdn-paper", "updn-trees", "apot", "dfdn"];
    match kind % 10 {
        kind @ 0..5 => routes(fabric, engines[kind as usize]),
        5 | 6 => Routes::on_one_vl("test", fabric, random_trees(fabric, rng, true)),
        7 => Routes::on_one_vl("test", fabric, random_trees(fabric, rng, false)),
        kind => {
            // Random rows, too: VLs change along the path in any order.
            let mut routes = Routes::on_one_vl("test", fabric, random_trees(fabric, rng, kind == 8));
            routes
                .sl2vl
                .rows_mut()
                .iter_mut()
                .for_each(|row| *row = SlVlRow::uniform(Vl(rng.random_range(0..2))));
            routes.vlarb = VlArb::fair(2);
            routes
        }
    }
}

fn random_fabric(rng: &mut ChaCha8Rng) -> Fabric {
    let seed = rng.random();
    let built = match rng.random_range(0..5) {
        0 => Ring { switches: rng.random_range(4..9), cas: 2 }.build(),
        1 => Torus { dims: vec![3, rng.random_range(3..5)], cas: 2 }.build(),
        2 => Mesh { dims: vec![3, rng.random_range(2..5)], cas: 2 }.build(),
        _ => Random { switches: 2 * rng.random_range(4..8), degree: 3, cas: 2, seed }.build(),
    };
    built.expect("a small fabric")
}

/// At least 250 tables that the judge calls free and 250 that it calls cyclic. The former never
/// deadlock, under any traffic tried and with the smallest buffers; most of the latter do, under
/// `cycle` traffic.
#[test]
fn what_the_judge_calls_free_never_deadlocks_and_most_of_the_rest_does() {
    let (free, cyclic, stuck, stuck_with_less) =
        (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    (0..560_u32).into_par_iter().for_each(|n| {
        let mut rng = ChaCha8Rng::seed_from_u64(n.into());
        let fabric = random_fabric(&mut rng);
        let routes = random_tables(&fabric, &mut rng, n);
        let verdict = verify(&fabric, &routes);
        assert!(verdict.reachable, "{n}");
        let models = models();
        let model = Model { buffer: Room::PerVl(64), ..models[n as usize % models.len()].clone() };
        let run = |traffic, message: u64, load, model: &Model| {
            let message = Some(message * u64::from(model.packet));
            let packet_time = u64::from(model.packet) * model.rate.unwrap_or(250_000) / 1000;
            let time = matches!(load, Load::Share(_)).then_some(300 * packet_time);
            let settings = Settings { model: model.clone(), traffic, message, time, ..Settings::default() };
            let simulation = Simulation::new(&fabric, &routes, &settings).expect("sound tables");
            let row = simulation.run(load, n.into()).expect("it runs");
            assert!(row.finished.is_some() || row.deadlock.is_some() || load != Load::Messages, "{n}: lost");
            row
        };
        if verdict.deadlock_free_adapters {
            free.fetch_add(1, Ordering::Relaxed);
            for (traffic, message, load) in [
                (Traffic::Cycle, 64, Load::Messages),
                (Traffic::Permutation, 64, Load::Messages),
                (Traffic::AllToAll, 2, Load::Messages),
                (Traffic::Uniform, 1, Load::Share(1.0)),
            ] {
                let row = run(traffic.clone(), message, load, &model);
                assert_eq!(row.deadlock, None, "{n} {traffic:?} {model:?}");
            }
            return;
        }
        cyclic.fetch_add(1, Ordering::Relaxed);
        let row = run(Traffic::Cycle, 64, Load::Messages, &model);
        if let Some(deadlock) = row.deadlock {
            stuck.fetch_add(1, Ordering::Relaxed);
            let cycle = &deadlock.cycle;
            for (wait, next) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
                let (first, second) =
                    (fabric.channels().get(wait.channel), fabric.channels().get(next.channel));
                assert_eq!(first.to, second.from, "{n}: a cycle of channels");
                let out = routes.lft.get(first.to, wait.packet.dlid);
                assert_eq!(out, Some(second.out_port), "{n}: the packet that waits goes there");
                let row = routes.sl2vl.row(first.to, first.in_port, second.out_port);
                assert_eq!(row.get(wait.packet.sl), next.vl, "{n}: on that VL");
            }
        }
        let all = run(Traffic::AllToAll, 8, Load::Messages, &model);
        stuck_with_less.fetch_add(usize::from(all.deadlock.is_some()), Ordering::Relaxed);
    });
    let [free, cyclic, stuck, others] = [free, cyclic, stuck, stuck_with_less].map(AtomicUsize::into_inner);
    println!("free {free}, cyclic {cyclic}: {stuck} deadlock under cycle, {others} under all-to-all");
    assert!(free >= 250 && cyclic >= 250, "free {free}, cyclic {cyclic}");
    assert!(stuck * 2 > cyclic, "{stuck} of {cyclic}");
}
