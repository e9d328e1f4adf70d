use super::*;
use crate::fabric::SwitchId;
use crate::topology::{FatTree, Mesh, Ring};

/// Times on links crossed by the head, cables and switches, and the tail.
fn zero_load(model: &Model, switches: u64, bytes: u64, slowest: u64) -> u64 {
    (switches + 1) * model.flight + switches * (model.switch_delay + model.setup) + bytes * slowest / 1000
}

fn one_message(fabric: &Fabric, routes: &Routes, settings: &Settings) -> u64 {
    let row = Simulation::new(fabric, routes, settings).unwrap().run(Load::Messages, 1).unwrap();
    assert!(row.deadlock.is_none());
    assert_eq!(row.latency.mean, row.finished.map(|ps| ps as f64 / 1000.0));
    row.finished.expect("it arrives")
}

#[test]
fn a_lone_packet_takes_what_cables_switches_and_its_length_take() {
    let fabric = line(5, 1);
    let routes = minimal(&fabric);
    for model in models().into_iter().filter(|m| m.sink.is_none()) {
        for (to, bytes) in [(1, 1), (1, 64), (4, 32), (3, 17), (4, u64::from(model.packet))] {
            let traffic = Traffic::Pairs(vec![(0, to)]);
            let settings =
                Settings { model: model.clone(), traffic, message: Some(bytes), ..Settings::default() };
            let expected = zero_load(&model, u64::from(to) + 1, bytes, model.rate.unwrap_or(250_000));
            assert_eq!(one_message(&fabric, &routes, &settings), expected, "{to} {bytes} {model:?}");
        }
    }
}

#[test]
fn on_a_tree_too_and_long_messages_are_as_long_as_their_bytes() {
    let fabric = FatTree { k: 4, levels: 3, down: None, cas: None }.build().unwrap();
    let routes = minimal(&fabric);
    let settings = |to, message| Settings {
        traffic: Traffic::Pairs(vec![(0, to)]),
        message: Some(message),
        ..Settings::default()
    };
    let hosts = fabric.adapters().count() as u32;
    let mut seen = std::collections::BTreeSet::new();
    for to in 1..hosts {
        let settings = settings(to, 100_000);
        let simulation = Simulation::new(&fabric, &routes, &settings).unwrap();
        let lid = simulation.network.hosts[to as usize].lid;
        let switches = simulation.network.walk(0, lid).unwrap().steps.len() as u64 + 1;
        seen.insert(switches);
        // Cut-through: 100,000 bytes follow each other without gaps.
        let expected = zero_load(&settings.model, switches, 100_000, 250_000);
        assert_eq!(one_message(&fabric, &routes, &settings), expected);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 3, 5]);
}

#[test]
fn the_slowest_link_sets_the_pace() {
    // 4x SDR between the second and the third of four switches, among faster ones.
    for slow in 0..3 {
        let speed = |i| if i == slow { LinkSpeed::Sdr } else { LinkSpeed::Edr };
        let fabric = network(4, &[(0, 1), (1, 2), (2, 3)], &[0, 3], speed);
        let routes = minimal(&fabric);
        let settings =
            Settings { traffic: Traffic::Pairs(vec![(0, 1)]), message: Some(20_480), ..Settings::default() };
        let expected = zero_load(&settings.model, 4, 20_480, 1_000_000);
        assert_eq!(one_message(&fabric, &routes, &settings), expected, "link {slow}");
    }
}

/// Pollaczek and Khinchine: with a load r of packets of length t the mean wait is t r / (2 (1 -
/// r)).
#[test]
fn packets_wait_for_one_link_as_in_the_m_d_1_queue() {
    let fabric = line(1, 2);
    let routes = minimal(&fabric);
    let model = Model { window: 10_000, ..Model::default() };
    let settings = Settings {
        traffic: Traffic::Pairs(vec![(0, 1)]),
        model,
        time: Some(300_000_000_000),
        ..Settings::default()
    };
    let simulation = Simulation::new(&fabric, &routes, &settings).unwrap();
    let (length, least) = (512.0, zero_load(&settings.model, 1, 2048, 250_000) as f64 / 1000.0);
    for (load, tolerance) in [(0.2, 0.02), (0.5, 0.02), (0.8, 0.04)] {
        let row = simulation.run(Load::Share(load), 3).unwrap();
        let waits = (row.latency.mean.unwrap() - least) / length;
        // Uses the actual load: the random one has its own error.
        let expected = row.accepted / (2.0 * (1.0 - row.accepted));
        assert!((waits / expected - 1.0).abs() < tolerance, "{load}: {waits} for {expected}");
        assert!((row.accepted - load).abs() < 0.005, "{load}: {}", row.accepted);
    }
    let constant = Settings { arrivals: Arrivals::Constant, time: Some(100_000_000), ..settings.clone() };
    let row = Simulation::new(&fabric, &routes, &constant).unwrap().run(Load::Share(0.9), 1).unwrap();
    assert_eq!(row.latency.mean, Some(least), "nothing waits where nothing is random");
}

#[test]
fn many_to_one_share_its_link_and_a_slow_sink_halves_it() {
    let fabric = line(1, 6);
    let routes = minimal(&fabric);
    let mut settings =
        Settings { traffic: Traffic::Incast(5), time: Some(400_000_000), ..Settings::default() };
    let run = |settings: &Settings| {
        Simulation::new(&fabric, &routes, settings).unwrap().run(Load::Share(1.0), 1).unwrap()
    };
    let row = run(&settings);
    assert!((row.accepted - 0.2).abs() < 1e-3 && row.fairness > 0.99, "{row:?}");
    settings.model.sink = Some((Room::PerVl(64), 500_000));
    assert!((run(&settings).accepted - 0.1).abs() < 1e-3);
}

/// A channel with as many routes as the edge-forwarding index: no load beyond (hosts - 1) / index
/// is accepted, and well below it all is.
#[test]
fn the_edge_forwarding_index_bounds_uniform_traffic() {
    let fabrics = [
        Ring { switches: 6, cas: 2 }.build().unwrap(),
        Mesh { dims: vec![3, 3], cas: 3 }.build().unwrap(),
        line(4, 3),
    ];
    for fabric in fabrics {
        let routes = routes(&fabric, "dfdn");
        let index = crate::evaluate::channel_load(&fabric, &routes).unwrap().edge_forwarding_index;
        let bound = (fabric.adapters().count() as f64 - 1.0) / index as f64;
        assert!(bound < 0.9, "{bound}");
        let settings = Settings { time: Some(1_000_000_000), ..Settings::default() };
        let simulation = Simulation::new(&fabric, &routes, &settings).unwrap();
        let below = simulation.run(Load::Share(0.6 * bound), 1).unwrap();
        assert!((below.accepted / (0.6 * bound) - 1.0).abs() < 0.05, "{bound}: {below:?}");
        let beyond = simulation.run(Load::Share((1.2 * bound).min(1.0)), 1).unwrap();
        assert!(beyond.accepted < 0.95 * (1.2 * bound).min(1.0), "{bound}: {}", beyond.accepted);
        let busiest = beyond.busiest().unwrap().1;
        // Blocked heads delay packets that could go elsewhere.
        assert!(busiest > 0.7 && busiest <= 1.0 + 1e-3, "{busiest}");
    }
}

/// Each merge of a line halves what comes from upstream; age gives every packet the same.
#[test]
fn age_is_fair_where_taking_turns_is_not() {
    let fabric = line(5, 1);
    let routes = minimal(&fabric);
    let fairness = |arbitration| {
        let settings = Settings {
            traffic: Traffic::Pairs((0..4).map(|h| (h, 4)).collect()),
            model: Model { arbitration, window: 4000, ..Model::default() },
            time: Some(1_000_000_000),
            ..Settings::default()
        };
        let row = Simulation::new(&fabric, &routes, &settings).unwrap().run(Load::Share(0.5), 1).unwrap();
        assert!((row.accepted - 0.25).abs() < 0.005, "{row:?}");
        row.fairness
    };
    let (turns, age) = (fairness(Arbitration::RoundRobin), fairness(Arbitration::Age));
    assert!((turns - 0.5).abs() < 0.05, "an eighth instead of a quarter: {turns}");
    assert!(age > 0.9, "{age}");
}

/// Two hosts with different SLs share a channel as the arbitration tables say.
#[test]
fn vls_share_a_link_by_their_weights() {
    let fabric = line(3, 1);
    let mut routes = minimal(&fabric);
    let rows = routes.sl2vl.rows_mut();
    rows.fill(crate::tables::SlVlRow(0x0123_0000_0000_0000));
    routes.sl2vl.set_adapters(crate::tables::SlVlRow(0x0123_0000_0000_0000));
    // By destination LID and switch of the source: host 1 has SL 1.
    routes.path_sl = PathSl::BySwitch([0, 1, 2].repeat(fabric.lid_table_len()));
    let share = |vlarb: VlArb| {
        let routes = Routes { vlarb, ..routes.clone() };
        let settings = Settings {
            traffic: Traffic::Pairs(vec![(0, 2), (1, 2)]),
            time: Some(400_000_000),
            ..Settings::default()
        };
        let row = Simulation::new(&fabric, &routes, &settings).unwrap().run(Load::Share(1.0), 1).unwrap();
        assert!((row.accepted - 0.5).abs() < 1e-3, "{row:?}");
        let vls = &row.use_of_links[fabric.channels().out_range(crate::fabric::SwitchId(1)).end - 1];
        vls[0]
    };
    let near = |share: f64, expected: f64| assert!((share - expected).abs() < 0.03, "{share} for {expected}");
    use crate::fabric::Vl;
    let low = |a, b| VlArb { low: vec![(Vl(0), a), (Vl(1), b)], ..VlArb::fair(1) };
    near(share(low(64, 64)), 0.5);
    near(share(low(32, 96)), 0.25);
    let high = |limit| VlArb { high: vec![(Vl(1), 64)], low: vec![(Vl(0), 64)], limit };
    // Sometimes VL 1 has nothing to send.
    near(share(high(VlArb::UNLIMITED)), 0.0);
    // Two packets of VL 1, then one of VL 0.
    near(share(high(1)), 1.0 / 3.0);
}

/// Four switches in a ring with `cas` adapters each. Every adapter sends 64 packets two switches ahead, clockwise, so
/// that all four channels wait for each other.
fn ring_of_four(cas: usize, buffer: u32) -> Row {
    ring_of_four_with(
        cas,
        buffer,
        Settings { message: Some(64 * 2048), ..Settings::default() },
        Load::Messages,
    )
}

fn ring_of_four_with(cas: usize, buffer: u32, settings: Settings, load: Load) -> Row {
    let homes: Vec<usize> = (0..4 * cas).map(|i| i / cas).collect();
    let fabric = network(4, &[(0, 1), (1, 2), (2, 3), (3, 0)], &homes, |_| LinkSpeed::Qdr);
    let mut routes = minimal(&fabric);
    for (_, end) in fabric.adapters() {
        let home = end.attachment.expect("it is attached").0;
        let from = SwitchId::at((home.index() + 2) % 4);
        let clockwise = fabric.channels().out(from).find(|(_, c)| c.to.index() == (from.index() + 1) % 4);
        routes.lft.set(from, end.lid, clockwise.expect("a neighbour").1.out_port);
    }
    let hosts = homes.len() as u32;
    let traffic = Traffic::Pairs((0..hosts).map(|h| (h, (h + hosts / 2) % hosts)).collect());
    let model = Model { buffer: Room::PerVl(buffer), ..Model::default() };
    let settings = Settings { model, traffic, ..settings };
    Simulation::new(&fabric, &routes, &settings).unwrap().run(load, 1).unwrap()
}

/// In a ring of four each channel has packets that enter the ring and packets that come along it. With one adapter at
/// each switch, half of the packets in a buffer are at their destination, and round robin gives the other half just the
/// share of the next channel that they need: no buffer fills but one of a single packet. With two adapters the share is a
/// third, while two thirds of the packets go on: every buffer fills.
#[test]
fn a_ring_of_four_deadlocks_if_more_go_on_than_fair_arbitration_lets_through() {
    for buffer in [64, 128, 256, 1024] {
        let row = ring_of_four(1, buffer);
        assert!(row.deadlock.is_none() && row.finished.is_some(), "one adapter, {buffer} credits");
        let stuck = ring_of_four(2, buffer).deadlock;
        assert_eq!(stuck.map(|stuck| stuck.cycle.len()), Some(4), "two adapters, {buffer} credits");
    }
    assert!(ring_of_four(1, 32).deadlock.is_some(), "a single packet");
}

/// A deadlock is reported however soon after it the run ends, and what arrived is never more than the hosts could send,
/// wherever the counted time begins.
#[test]
fn a_deadlock_is_found_where_the_run_ends_soon_after_it() {
    let run = |time, warm_up| {
        let settings = Settings { time: Some(time), warm_up: Some(warm_up), ..Settings::default() };
        ring_of_four_with(2, 64, settings, Load::Share(1.0))
    };
    let closed = run(400_000_000, 0).deadlock.expect("it deadlocks").time;
    assert!(run(closed, 0).deadlock.is_none());
    for after in [1, 1_000_000, 20_000_000] {
        let stuck = run(closed + after, 0).deadlock;
        assert_eq!(stuck.map(|stuck| stuck.time), Some(closed), "{after} ps later");
    }
    for warm_up in (0..40).map(|part| closed * part / 32) {
        let row = run(400_000_000, warm_up);
        let busiest = row.busiest().map(|(_, share)| share);
        assert!(row.deadlock.is_some() && row.accepted <= 1.0, "{warm_up} ps: {row:?}");
        assert!(busiest.is_some_and(|share| share <= 1.0), "{warm_up} ps: {row:?}");
    }
}
