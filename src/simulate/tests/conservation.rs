use super::*;
use crate::topology::{Dragonfly, Random, Torus};

pub(super) fn kernel_after<'a>(
    simulation: &'a Simulation<'_>,
    demand: &'a Demand,
    load: Load,
    until: u64,
) -> (Kernel<'a>, bool) {
    let net = &simulation.network;
    let message = simulation.settings.message.unwrap_or(net.model.packet.into());
    let sender = |h| Sender::new(net, demand, h, 1, load, Arrivals::Poisson, message);
    let senders = (0..net.hosts.len()).map(sender).collect();
    let smallest = message.min(net.model.packet.into()) as u32;
    let smallest = if message % u64::from(net.model.packet) == 0 { smallest } else { 1 };
    let from = if simulation.script.is_some() { 10_000_000 } else { 0 };
    let span = Span { from, until, afterwards: u64::MAX };
    let motion = simulation.script.as_ref().map(|script| Box::new(Motion::new(net, script, 1)));
    let mut kernel = Kernel::new(net, demand, &simulation.lids, senders, span, smallest, motion);
    let stuck = deadlock::run(&mut kernel, &|| false).unwrap().is_some();
    (kernel, stuck)
}

/// Every packet created is in a send queue, in a buffer, or has arrived; and the credits of every
/// buffer are at its sender, on their way there, or stand for a packet in it.
pub(super) fn audit(kernel: &Kernel<'_>, label: &str) {
    let net = kernel.net;
    let sent: u64 =
        (net.num_queues as usize..kernel.slots.len()).map(|q| kernel.in_queue(q).count() as u64).sum();
    let lost = kernel.motion.as_ref().map_or(0, |motion| motion.report.lost.total());
    assert_eq!(kernel.counts.made, kernel.counts.delivered + kernel.in_buffers() + sent + lost, "{label}");
    for wire in net.wires.iter().filter(|wire| wire.credits != network::UNLIMITED) {
        for vl in 0..net.vls as u32 {
            let lane = wire.lane(vl);
            let queues = (lane..lane + wire.queues).flat_map(|q| kernel.in_queue(q as usize));
            let held: i32 = queues.map(state::Packet::credits).sum();
            assert_eq!(kernel.credits_to_come(lane) + held, wire.credits, "{label}: lane {lane}");
            assert!(kernel.slots[lane as usize].credits >= 0, "{label}: lane {lane}");
        }
    }
}

#[test]
fn no_packet_and_no_credit_is_lost_or_made() {
    let fabrics = [
        Dragonfly::balanced(1).build().unwrap(),
        Torus { dims: vec![3, 3], cas: 2 }.build().unwrap(),
        Random { switches: 10, degree: 3, cas: 2, seed: 4 }.build().unwrap(),
    ];
    for fabric in &fabrics {
        for engine in ["dfdn", "dfdn-paper"] {
            let routes = routes(fabric, engine);
            for model in models() {
                for (traffic, load, message) in [
                    (Traffic::Uniform, Load::Share(0.9), None),
                    (Traffic::Hotspot { spots: 1, percent: 30.0 }, Load::Share(1.0), Some(3001)),
                    (Traffic::Permutation, Load::Messages, Some(100_000)),
                    (Traffic::AllToAll, Load::Messages, Some(777)),
                ] {
                    let label = format!("{fabric} {engine} {model:?} {traffic:?}");
                    let settings = Settings { model: model.clone(), traffic, message, ..Settings::default() };
                    let simulation = Simulation::new(fabric, &routes, &settings).unwrap();
                    let demand = Demand::new(&settings.traffic, &simulation.network, 1).unwrap();
                    let bytes = u64::from(model.packet) * model.rate.unwrap_or(250_000) / 1000;
                    let until = if load == Load::Messages { u64::MAX } else { 40 * bytes };
                    let (kernel, stuck) = kernel_after(&simulation, &demand, load, until);
                    assert!(!stuck, "{label}");
                    audit(&kernel, &label);
                    let arrived = kernel.counts.delivered;
                    assert!(arrived > 0, "{label}");
                    if load == Load::Messages {
                        assert_eq!(kernel.counts.made, arrived, "all is done: {label}");
                        let messages: u64 = (0..simulation.network.hosts.len())
                            .map(|h| demand.messages(h, simulation.network.hosts.len()))
                            .sum();
                        assert_eq!(kernel.counts.latency.total(), messages, "{label}");
                    }
                }
            }
        }
    }
}

#[test]
fn nor_in_a_deadlock() {
    let fabric = Torus { dims: vec![5], cas: 2 }.build().unwrap();
    let routes = minimal(&fabric);
    let mut deadlocks = 0;
    for model in models() {
        let message = Some(60 * u64::from(model.packet));
        let settings = Settings { traffic: Traffic::Cycle, model, message, ..Settings::default() };
        let simulation = Simulation::new(&fabric, &routes, &settings).unwrap();
        let demand = Demand::new(&settings.traffic, &simulation.network, 1).unwrap();
        let (kernel, stuck) = kernel_after(&simulation, &demand, Load::Messages, u64::MAX);
        audit(&kernel, &format!("{:?}", settings.model));
        assert_eq!(stuck, kernel.counts.made > kernel.counts.delivered, "who is not through is stuck");
        deadlocks += u32::from(stuck);
    }
    assert!(deadlocks > 3, "{deadlocks}");
}

#[test]
fn the_same_seed_gives_the_same_rows_for_any_number_of_threads() {
    let fabric = Dragonfly::balanced(2).build().unwrap();
    let routes = routes(&fabric, "dfdn");
    let settings = Settings {
        traffic: Traffic::Hotspot { spots: 2, percent: 10.0 },
        lids: LidChoice::Random,
        time: Some(20_000_000),
        ..Settings::default()
    };
    let simulation = Simulation::new(&fabric, &routes, &settings).unwrap();
    let runs: Vec<_> =
        [0.2, 0.9].into_iter().flat_map(|l| (1..4).map(move |seed| (Load::Share(l), seed))).collect();
    let rows = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let rows = pool.install(|| simulation.sweep(&runs, &|| false, &|_| ())).unwrap();
        rows.iter()
            .map(|row| {
                let mut value = row.to_json(&fabric, true);
                value["seconds"] = 0.into();
                value.to_string()
            })
            .collect::<Vec<_>>()
    };
    let one = rows(1);
    assert_eq!(one, rows(3));
    assert_eq!(one.len(), 6);
    assert_ne!(one[0], one[1], "seeds differ");
}
