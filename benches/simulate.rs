//! The packet simulator: packet-hops per second, and its event queue beside a binary heap.
//!
//! ```sh
//! cargo bench --bench simulate                       # a minute
//! DFDN_BENCH=all cargo bench --bench simulate        # Dragonfly p=6 and Slim Fly q=11 too
//! ```
//!
//! The rate beside the times counts switches that packets leave (`packet_hops`), and for the queues
//! events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

use dfdn::engine;
use dfdn::fabric::Fabric;
use dfdn::simulate::{EventQueue, Load, Settings, Simulation};
use dfdn::topology::{Dragonfly, FatTree, SlimFly};
use divan::Bencher;
use divan::counter::ItemsCount;

fn main() {
    divan::main();
}

fn fabrics() -> Vec<&'static str> {
    let small = ["dragonfly-2", "dragonfly-4", "slim-fly-7", "fat-tree-8"];
    let large = ["dragonfly-6", "slim-fly-11"];
    match std::env::var("DFDN_BENCH").as_deref() {
        Ok("all") => small.into_iter().chain(large).collect(),
        _ => small.to_vec(),
    }
}

fn build(name: &str) -> Fabric {
    let (family, size) = name.rsplit_once('-').expect("family-size");
    let size = size.parse().expect("a number");
    match family {
        "dragonfly" => Dragonfly::balanced(size).build(),
        "slim-fly" => SlimFly { q: size, cas: None }.build(),
        _ => FatTree { k: size, levels: 3, down: None, cas: None }.build(),
    }
    .expect("a valid fabric")
}

/// Uniform traffic of 2 KiB packets at half load, dfdn's tables, one core.
#[divan::bench(args = fabrics(), sample_count = 5, sample_size = 1)]
fn half_load(bencher: Bencher, name: &str) {
    let fabric = build(name);
    let routes = engine::route(&fabric, &engine::Settings::default()).expect("it routes").routes;
    let hosts = fabric.adapters().count() as u64;
    // About half a million packets.
    let settings = Settings { time: Some(500_000 * 1_024_000 / hosts), ..Settings::default() };
    let simulation = Simulation::new(&fabric, &routes, &settings).expect("sound tables");
    let run = || simulation.run(Load::Share(0.5), 1).expect("it runs");
    let settled = run().packet_hops;
    // Three quarters of the time are counted.
    bencher.counter(ItemsCount::new(settled * 4 / 3)).bench_local(run);
}

/// Times as in the simulator: most a packet, a cable and a switch ahead, some a packet.
fn ahead(n: u64) -> u64 {
    let random = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    if n % 3 == 0 { 512_000 } else { 125_000 + random % 600_000 }
}

const HELD: [u64; 3] = [100, 2_000, 20_000];
const EVENTS: u64 = 1_000_000;

/// Removes an event and inserts one, a million times, with this many pending.
#[divan::bench(args = HELD, sample_count = 10, sample_size = 1)]
fn queue_calendar(bencher: Bencher, held: u64) {
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| {
        let mut queue = EventQueue::new(1_200_000, 400_000 / held);
        (0..held).for_each(|n| queue.push(ahead(n), n as u32));
        for n in 0..EVENTS {
            let (time, what) = queue.pop().expect("there is one");
            queue.push(time + ahead(n), black_box(what));
        }
    });
}

/// The same with the standard library's heap.
#[divan::bench(args = HELD, sample_count = 10, sample_size = 1)]
fn queue_heap(bencher: Bencher, held: u64) {
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| {
        let mut queue = BinaryHeap::new();
        (0..held).for_each(|n| queue.push(Reverse((ahead(n), n, n as u32))));
        for n in 0..EVENTS {
            let Reverse((time, _, what)) = queue.pop().expect("there is one");
            queue.push(Reverse((time + ahead(n), held + n, black_box(what))));
        }
    });
}
