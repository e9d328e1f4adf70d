//! Every engine on every family of fabrics, whole and damaged, with one LID per adapter and with
//! several.

use std::collections::BTreeMap;

use dfdn::engine::{ENGINES, EngineError, Settings, route};
use dfdn::fabric::{Fabric, FabricBuilder, LinkState, Lmc};
use dfdn::lanes::LanesError;
use dfdn::tables::Routes;
use dfdn::topology::{Megafly, Oft, fail_links, small_members};

/// The same fabric with 2^`lmc` LIDs per adapter.
pub(super) fn with_lmc(fabric: &Fabric, lmc: u8) -> Fabric {
    fabric.with_lmc(Lmc::new(lmc).expect("an LMC")).expect("enough LIDs")
}

/// The same fabric, in which every second switch has no LID: it forwards packets and is no end port.
fn without_lids(fabric: &Fabric) -> Fabric {
    let mut builder = FabricBuilder::from_fabric(fabric);
    for s in fabric.switch_ids().step_by(2) {
        let port0 = &mut builder.node_mut(fabric.switch_node_id(s)).ports[0];
        (port0.lid, port0.state) = (None, LinkState::Down);
    }
    builder.finish(Lmc::default()).expect("a fabric")
}

/// The small members, each whole, with some failed links, and with as many failed links as it can lose.
fn fabrics() -> Vec<(String, Fabric)> {
    let mut list = Vec::new();
    for (name, fabric) in small_members() {
        let links = fabric.channels().len() / 2;
        let spare = links + 1 - fabric.num_switches();
        for (gone, seed) in [(0, 1), (spare.min(2), 1), (spare.min(links / 4), 2), (spare, 3)] {
            let damaged = fail_links(&fabric, gone, seed).expect("links to spare");
            list.push((format!("{name} without {gone} links, LMC 1"), with_lmc(&damaged, 1)));
            if seed == 1 {
                list.push((format!("{name} without {gone} links and some LIDs"), without_lids(&damaged)));
            }
            list.push((format!("{name} without {gone} links"), damaged));
        }
    }
    list
}

/// Whether an engine promises shortest paths for all pairs.
fn is_minimal(engine: &str) -> bool {
    !["dfdn", "updn-trees", "sssp-layers", "apot", "bfot", "bfot-plus"].contains(&engine)
}

/// The largest distance between two switches with adapters.
fn between_adapters(fabric: &Fabric) -> usize {
    let hops = dfdn::routing::Hops::new(fabric).expect("all is connected");
    let with = || fabric.switch_ids().filter(|&s| fabric.num_adapters_on(s) > 0);
    with().flat_map(|s| with().map(move |t| (s, t))).map(|(s, t)| hops.get(s, t)).max().unwrap_or(0).into()
}

#[test]
fn df_d2_serves_adapters_that_are_two_channels_apart_whatever_the_paths_to_port_0() {
    for k in [3, 4, 6, 8] {
        let whole = Oft { k, cas: None }.build().expect("an OFT");
        for lmc in [0, 1] {
            let fabric = with_lmc(&whole, lmc);
            let settings = Settings { engine: "dfd2".to_owned(), ..Settings::default() };
            let routed = route(&fabric, &settings).expect("adapters are two channels apart");
            let verdict = &routed.verdict;
            assert!(verdict.is_safe() && verdict.minimal && routed.safety.any, "k = {k}, LMC {lmc}");
            assert_eq!((verdict.vls, verdict.sls, verdict.diameter), (2, 1, 2), "k = {k}, LMC {lmc}");
            assert!(verdict.diameter_all > 2, "k = {k}: paths of port 0 are longer");
            assert_eq!(verdict.multicast.as_ref().expect("a tree").sls, u16::MAX, "k = {k}, LMC {lmc}");
        }
    }
}

#[test]
fn layers_are_used_before_up_down_takes_the_rest() {
    let (mut spread, mut rest) = (0, 0);
    for (name, fabric) in fabrics() {
        let with = |vls| {
            let settings =
                Settings { engine: "sssp-layers".to_owned(), vls: Some(vls), ..Settings::default() };
            route(&fabric, &settings).unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        let (one, many) = (with(1), with(15));
        for routed in [&one, &many] {
            assert!(routed.verdict.is_safe(), "{name}");
            // If a switch has neither a LID nor adapters, OpenSM's own trees may have to serve.
            let silent = fabric.switch_ids().any(|s| fabric.endports_on(s).is_empty());
            let tree = routed.verdict.multicast.as_ref().map(|m| m.sls & 1);
            assert!(tree == Some(1) || silent && tree.is_none(), "{name}");
        }
        assert_eq!(one.verdict.vls_all.max(1), 1, "{name}");
        let used_up = |routed: &dfdn::engine::Routed| {
            routed.routes.remarks.iter().any(|remark| remark.starts_with("the VLs are used up"))
        };
        assert!(many.verdict.minimal && !used_up(&many), "{name}: 15 VLs suffice");
        assert!(one.verdict.minimal || used_up(&one), "{name}");
        spread += usize::from(many.verdict.vls > 1);
        rest += usize::from(used_up(&one));
    }
    assert!(spread > 20 && rest > 20, "{spread} on several VLs, {rest} with a rest");
}

#[test]
fn every_engine_is_safe_on_every_fabric_or_says_why_not() {
    let mut routed_by = BTreeMap::new();
    for (name, fabric) in fabrics() {
        for engine in ENGINES {
            let label = format!("{} on {name}", engine.name);
            let settings = Settings { engine: engine.name.to_owned(), vls: Some(8), ..Settings::default() };
            match route(&fabric, &settings) {
                Ok(routed) => {
                    *routed_by.entry(engine.name).or_insert(0) += 1;
                    let detours = routed.detours(&fabric);
                    let verdict = routed.verdict;
                    assert!(verdict.reachable && verdict.loop_free && verdict.vls_legal, "{label}");
                    assert!(verdict.deadlock_free || !engine.deadlock_free, "{label}");
                    assert!(verdict.minimal || !is_minimal(engine.name), "{label}");
                    if engine.name == "dfdn" {
                        assert!(detours <= Settings::MAX_NONMINIMAL, "{label}");
                    }
                    assert!(verdict.vls_all <= 8, "{label}");
                }
                Err(EngineError::OwnLimit { name, needed, offered, .. }) => {
                    let diameter = dfdn::routing::Hops::new(&fabric).expect("all is connected").diameter();
                    assert_eq!((name, needed, offered), ("vls", usize::from(diameter), 8), "{label}");
                    assert!(needed > 8, "{label}");
                }
                Err(EngineError::Lanes { source, .. }) => {
                    let diameter = dfdn::routing::Hops::new(&fabric).expect("all is connected").diameter();
                    match source {
                        // Links state 8 VLs, so the setting is not the limit.
                        LanesError::TooFewVls { needed, offered } => {
                            assert_eq!((needed, offered), (usize::from(diameter), 8), "{label}");
                            assert!(needed > 8, "{label}");
                        }
                        LanesError::TooFewSls { needed, offered } => {
                            assert!(needed > usize::from(offered), "{label}");
                        }
                        LanesError::DiameterAboveTwo { hops } => {
                            assert_eq!(engine.name, "dfd2");
                            assert!(hops == between_adapters(&fabric) && hops > 2, "{label}");
                        }
                    }
                }
                Err(error) => panic!("{label}: {error}"),
            }
        }
    }
    // No engine refuses every fabric.
    for engine in ENGINES {
        let routed = routed_by.get(engine.name).copied().unwrap_or(0);
        let least = if engine.name == "dfd2" { 20 } else { 100 };
        assert!(routed >= least, "{} routes only {routed} of {} fabrics", engine.name, fabrics().len());
    }
}

#[test]
fn up_down_trees_never_refuse_for_long_paths() {
    for (name, fabric) in fabrics() {
        for trees in 1..=3 {
            let engine = "updn-trees".to_owned();
            let settings = Settings { engine, trees, vls: Some(trees), sls: trees, ..Settings::default() };
            let routed = route(&fabric, &settings).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(routed.verdict.is_safe(), "{name}");
            assert!(routed.verdict.vls_all <= u32::from(trees), "{name}");
        }
    }
}

fn by_threads(fabric: &Fabric, settings: &Settings, threads: usize) -> Result<Routes, String> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    pool.install(|| route(fabric, settings).map(|r| r.routes).map_err(|e| e.to_string()))
}

fn assert_the_same(one: &Routes, other: &Routes, what: &str) {
    assert_eq!(one.lft, other.lft, "{what}");
    assert_eq!(one.sl2vl, other.sl2vl, "{what}");
    assert_eq!(one.path_sl, other.path_sl, "{what}");
}

#[test]
fn the_same_fabric_is_routed_the_same_by_any_number_of_threads() {
    for (name, fabric) in small_members() {
        let fabric = with_lmc(&fabric, 1);
        for engine in ENGINES {
            let settings = Settings { engine: engine.name.to_owned(), ..Settings::default() };
            let what = format!("{} on {name}", engine.name);
            match (by_threads(&fabric, &settings, 1), by_threads(&fabric, &settings, 4)) {
                (Ok(one), Ok(four)) => assert_the_same(&one, &four, &what),
                (one, four) => assert_eq!(one.err(), four.err(), "{what}"),
            }
        }
    }
}

/// Turns get labels, and as the paths leave no multicast tree, one is reserved: that begins on another thread meanwhile.
#[test]
fn a_large_damaged_fabric_is_routed_the_same_by_any_number_of_threads() {
    let whole = Megafly { groups: 17, leaves: 16, spines: 16, h: 1, cas: 2 }.build().expect("a Megafly");
    let fabric = fail_links(&whole, 60, 1).expect("it stays connected");
    let settings = Settings::default();
    let [one, four] = [1, 4].map(|threads| by_threads(&fabric, &settings, threads).expect("tables"));
    assert_the_same(&one, &four, "a Megafly");
    assert!(one.path_sl.any().is_some() && !one.multicast.is_empty());
}

#[test]
fn numbers_out_of_range_are_refused_by_name() {
    let (_, fabric) = small_members().swap_remove(0);
    for (trees, vls, message) in [
        (0, 8, "trees must be 1 to 15, not 0"),
        (16, 15, "trees must be 1 to 15, not 16"),
        (3, 2, "3 VLs are needed and the setting vls allows 2"),
    ] {
        let engine = "updn-trees".to_owned();
        let settings = Settings { engine, trees, vls: Some(vls), ..Settings::default() };
        let error = route(&fabric, &settings).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}
