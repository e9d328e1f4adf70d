//! Small networks, worked out by hand.

use super::*;

/// Hoefler et al., Fig. 2 and section III.A, with R3's first route as in the erratum.
#[test]
fn figure_2_with_the_routes_of_p_sssp() {
    let fabric = figure_2();
    let mut lft = Lft::new(&fabric);
    lead(&mut lft, &fabric, &[E, B, A], 0);
    lead(&mut lft, &fabric, &[C, B, A], 0);
    lead(&mut lft, &fabric, &[A, D, E], 1);
    lead(&mut lft, &fabric, &[C, D, E], 1);
    lead(&mut lft, &fabric, &[A, B, C], 2);
    lead(&mut lft, &fabric, &[E, D, C], 2);
    let found = judge(&fabric, &lft).expect("sound tables");
    assert_eq!(found.load.edge_forwarding_index, 2);
    let by_channel = loads(&fabric, &found);
    let most: Vec<_> = by_channel.iter().filter(|&(_, &load)| load == 2).map(|(&ends, _)| ends).collect();
    assert_eq!(most, [(B, A), (D, E)]);
    assert_eq!((by_channel[&(B, E)], by_channel[&(D, A)]), (0, 0));
    assert_eq!(found.load.mean_channel_load, 1.0);
    // Two channels carry 2, two carry nothing, eight carry 1.
    assert!((found.load.channel_load_variance - 4.0 / 12.0).abs() < 1e-12);
    assert_eq!(found.lengths, PathLengths { mean_hops: 2.0, max_hops: 2, hop_histogram: vec![0, 0, 6] });
    // Six routes of two links on six links; the cables A-B and D-E carry three of them.
    assert_eq!((found.faults.mean_pairs_cut, found.faults.max_pairs_cut), (2.0, 3));
    // One of three adapters is left out, so there is one stream.
    assert_eq!((found.bisection.ebb, found.bisection.ebb_low, found.bisection.ebb_high), (1.0, 1.0, 1.0));
}

/// Hoefler et al., section III.B, on the same network; `lead` checks that routes are
/// destination-based.
#[test]
fn figure_2_with_the_routes_of_p2_sssp() {
    let fabric = figure_2();
    let mut lft = Lft::new(&fabric);
    lead(&mut lft, &fabric, &[A, B, E], 1);
    lead(&mut lft, &fabric, &[A, D, C], 2);
    lead(&mut lft, &fabric, &[E, D, A], 0);
    lead(&mut lft, &fabric, &[E, B, C], 2);
    lead(&mut lft, &fabric, &[C, B, A], 0);
    lead(&mut lft, &fabric, &[C, D, E], 1);
    let found = judge(&fabric, &lft).expect("sound tables");
    assert_eq!(found.load.edge_forwarding_index, 1);
    assert_eq!(found.load.channel_load, [1; 12]);
    assert_eq!((found.load.channel_load_variance, found.load.channel_load_cv), (0.0, 0.0));
}

#[test]
fn one_switch_has_full_bisection_bandwidth() {
    for count in [2, 3, 8, 9] {
        let fabric = network(1, &[], &vec![0; count], 0);
        let found = judge(&fabric, &by_sssp(&fabric)).expect("sound tables");
        let b = &found.bisection;
        assert_eq!((b.ebb, b.ebb_low, b.ebb_high, b.ebb_deviation), (1.0, 1.0, 1.0, 0.0));
        let pairs = (count * (count - 1)) as u64;
        assert_eq!(found.lengths, PathLengths { mean_hops: 0.0, max_hops: 0, hop_histogram: vec![pairs] });
        assert_eq!(found.load, ChannelLoad::default());
        assert_eq!(
            found.faults,
            FaultTolerance { fault_tolerance: 1.0, mean_pairs_cut: 0.0, max_pairs_cut: 0 }
        );
    }
}

/// Two switches with two adapters each and one cable. Both senders are on one switch in a third of
/// the patterns; then they share the cable. Otherwise each direction carries one stream at most.
#[test]
fn a_narrow_bridge_by_hand() {
    let fabric = network(2, &[(0, 1)], &[0, 0, 1, 1], 0);
    let tables = routes(&fabric, by_sssp(&fabric));
    let found = evaluate(&fabric, &tables, &patterns(4000)).expect("sound tables");
    let mut order = Vec::new();
    let together = (0..4000).filter(|&n| {
        draw(&mut order, 4, 1, n);
        (order[0] < 2) == (order[1] < 2)
    });
    let shares = 4000.0 - together.count() as f64 / 2.0;
    assert_eq!(found.bisection.ebb, shares / 4000.0);
    assert!(found.bisection.ebb_low < 5.0 / 6.0 && 5.0 / 6.0 < found.bisection.ebb_high);
    // The sample has only two values: sqrt(1/3 x 2/3) / 2 = 0.2357.
    assert!((found.bisection.ebb_deviation - 0.2357).abs() < 0.005);
    let margin = 1.9605 * found.bisection.ebb_deviation / 4000_f64.sqrt();
    assert!((found.bisection.ebb_high - found.bisection.ebb - margin).abs() < 1e-6);
    assert_eq!(found.load.channel_load, [4, 4]);
    assert_eq!(found.lengths.hop_histogram, [4, 8]);
    assert_eq!(found.faults.max_pairs_cut, 8);
}

/// A hypercube with one adapter per switch: P-SSSP balances it perfectly, with P/2 routes per
/// channel.
#[test]
fn known_index_of_a_hypercube() {
    let fabric = Hypercube { n: 4, cas: 1 }.build().expect("a hypercube");
    let found = judge(&fabric, &by_sssp(&fabric)).expect("sound tables");
    assert_eq!(found.load.mean_channel_load, 8.0);
    assert!(found.load.edge_forwarding_index >= 8);
    assert_eq!(found.lengths.hop_histogram, [0, 64, 96, 64, 16]);
}

#[test]
fn json_has_the_fields_of_the_command() {
    let fabric = figure_2();
    let found = judge(&fabric, &by_sssp(&fabric)).expect("sound tables");
    let json = serde_json::to_value(&found).expect("plain numbers");
    for field in [
        "edge_forwarding_index",
        "mean_channel_load",
        "channel_load_variance",
        "channel_load_cv",
        "channel_load",
        "ebb",
        "ebb_low",
        "ebb_high",
        "ebb_deviation",
        "patterns",
        "seed",
        "mean_hops",
        "max_hops",
        "hop_histogram",
        "fault_tolerance",
        "mean_pairs_cut",
        "max_pairs_cut",
    ] {
        assert!(json.get(field).is_some_and(|v| !v.is_null()), "{field}");
    }
}

#[test]
fn too_few_adapters() {
    for count in [0, 1] {
        let fabric = network(2, &[(0, 1)], &vec![0; count], 0);
        assert_eq!(judge(&fabric, &Lft::new(&fabric)), Err(EvaluateError::NoPair { adapters: count }));
    }
    let nothing = FabricBuilder::new().finish(Lmc::default()).expect("an empty subnet");
    assert_eq!(judge(&nothing, &Lft::new(&nothing)), Err(EvaluateError::NoPair { adapters: 0 }));
}

#[test]
fn routes_that_do_not_arrive_are_named() {
    let fabric = network(3, &[(0, 1), (1, 2)], &[0, 2], 0);
    let good = by_sssp(&fabric);
    let lid = adapters(&fabric)[1].lid;
    let (middle, last) = (SwitchId::at(1), SwitchId::at(2));
    let fails = |change: &dyn Fn(&mut Lft)| {
        let mut lft = good.clone();
        change(&mut lft);
        match judge(&fabric, &lft) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("no error"),
        }
    };
    let pair = "'h0' (0x00000000000003e8) port 1 does not reach LID 2 of 'h1' (0x00000000000003f2) port 1: ";
    let pair = pair.replace("LID 2", &format!("LID {lid}"));
    let s1 = "'s1' (0x0000000000000002)";
    assert_eq!(fails(&|lft| lft.clear(middle, lid)), format!("{pair}{s1} has no entry for it"));
    let back =
        fabric.channels().out(middle).find(|(_, c)| c.to == SwitchId::at(0)).expect("a cable").1.out_port;
    let text = fails(&|lft| lft.set(middle, lid, back));
    assert!(text.starts_with(&pair) && text.contains("it loops through 's"), "{text}");
    for port in [0, 60, 200] {
        let text = fails(&|lft| lft.set(last, lid, PortNum(port)));
        assert!(text.ends_with(&format!("port {port}, which leads neither there nor to a switch")), "{text}");
    }
}

/// Holes and loops that no adapter's packet meets are no error.
#[test]
fn entries_beside_the_routes_do_not_matter() {
    let fabric = network(4, &[(0, 1), (1, 2), (2, 3)], &[0, 1], 0);
    let mut lft = Lft::new(&fabric);
    lead(&mut lft, &fabric, &[1, 0], 0);
    lead(&mut lft, &fabric, &[0, 1], 1);
    let clean = judge(&fabric, &lft).expect("sound tables");
    let lid = adapters(&fabric)[0].lid;
    lft.set(SwitchId::at(2), lid, PortNum(2));
    lft.set(SwitchId::at(3), lid, PortNum(1));
    assert_eq!(judge(&fabric, &lft), Ok(clean));
}
