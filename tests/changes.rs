//! A failed link changes few tables of the engine `dfdn`, by default or with `balance stable`.

use std::collections::HashSet;
use std::num::NonZeroU32;

use dfdn::engine::{Balance, Routed, Settings, route};
use dfdn::evaluate::{Options, channel_load, evaluate};
use dfdn::fabric::{Fabric, FabricBuilder, Lid, Lmc, PortRef, SwitchId, Vl};
use dfdn::tables::Routes;
use dfdn::topology::{
    Deimos, Dragonfly, FatTree, Grown, HyperX, Odin, SlimFly, Torus, fail_links, small_members,
};

fn stable(fabric: &Fabric) -> Routed {
    balanced(fabric, Balance::Stable)
}

fn balanced(fabric: &Fabric, balance: Balance) -> Routed {
    let settings = Settings { balance, ..Settings::default() };
    let routed = route(fabric, &settings).expect("it can be routed");
    assert!(routed.verdict.is_safe());
    routed
}

/// Number of blocks of 64 LIDs that differ, and of those with an entry that has to change because
/// its channel is gone or no longer leads nearer.
fn blocks(before: &Routed, damaged: &Fabric, after: &Routed) -> (usize, usize) {
    let (mut changed, mut must) = (HashSet::new(), HashSet::new());
    for end in damaged.endports() {
        let home = end.attachment.expect("all are attached to a switch").0;
        let entries = end.lids().flat_map(|lid| damaged.switch_ids().map(move |s| (lid, s)));
        for (lid, s) in entries.filter(|&(_, s)| s != home) {
            let block = (s, lid.get() / 64);
            let was = before.routes.lft.get(s, lid).expect("a way");
            if after.routes.lft.get(s, lid) != Some(was) {
                changed.insert(block);
            }
            let hops = &after.hops;
            let nearer = damaged
                .channels()
                .at_port(s, was)
                .is_some_and(|c| hops.get(damaged.channels().get(c).to, home) < hops.get(s, home));
            // A path that was longer before was so because of the rule, not the link.
            let minimal = before.hops.get(s, home) as usize == length(before, damaged, s, lid, home);
            if !nearer && minimal {
                must.insert(block);
            }
        }
    }
    (changed.len(), must.len())
}

/// Number of switches on a path of the old tables, if the damaged fabric still has its channels;
/// otherwise 0.
fn length(before: &Routed, fabric: &Fabric, from: SwitchId, lid: Lid, home: SwitchId) -> usize {
    let (mut at, mut length) = (from, 0);
    while at != home {
        let port = before.routes.lft.get(at, lid).expect("a way");
        let Some(c) = fabric.channels().at_port(at, port) else {
            return usize::from(before.hops.get(from, home));
        };
        (at, length) = (fabric.channels().get(c).to, length + 1);
    }
    length
}

/// Blocks changed, in total over all failed links: at most `most` times what must change.
fn holds(balance: Balance, name: &str, whole: &Fabric, links: u64, most: f64) {
    let stable = |fabric: &Fabric| balanced(fabric, balance);
    let before = stable(whole);
    let (mut changed, mut must) = (0, 0);
    for seed in 1..=links {
        let damaged = fail_links(whole, 1, seed).expect("a link can be spared");
        let (c, m) = blocks(&before, &damaged, &stable(&damaged));
        changed += c;
        must += m;
    }
    println!("{name}: {changed} blocks changed, {must} had to");
    assert!(must > 0 && changed as f64 <= most * must as f64, "{name}: {changed} changed, {must} had to");
}

#[test]
fn few_blocks_change() {
    for balance in [Balance::Auto, Balance::Stable] {
        let holds =
            |name: &str, whole: Fabric, links: u64, most: f64| holds(balance, name, &whole, links, most);
        holds("Slim Fly", SlimFly { q: 5, cas: None }.build().unwrap(), 6, 1.1);
        holds("Slim Fly", SlimFly { q: 7, cas: None }.build().unwrap(), 6, 2.0);
        holds("fat tree", FatTree { k: 8, levels: 3, down: None, cas: None }.build().unwrap(), 6, 2.0);
        holds("Dragonfly", Dragonfly::balanced(4).build().unwrap(), 6, 2.0);
    }
    let holds = |name: &str, whole: Fabric, most: f64| holds(Balance::Stable, name, &whole, 6, most);
    holds("HyperX", HyperX { dims: vec![6, 6], cas: 6 }.build().unwrap(), 1.1);
    holds("torus", Torus { dims: vec![4, 4, 4], cas: 4 }.build().unwrap(), 3.0);
    holds("torus in dimension order", Torus { dims: vec![8, 8], cas: 2 }.build().unwrap(), 2.2);
}

/// More detours and VLs than that have to be requested.
#[test]
fn by_default_few_changes_cost_next_to_nothing() {
    let vls = |routed: &Routed| routed.routes.sl2vl.rows().iter().flat_map(|row| row.vls()).max();
    for (name, fabric) in small_members() {
        for fabric in std::iter::once(fabric.clone()).chain(fail_links(&fabric, 2, 1)) {
            let [auto, full] = [Balance::Auto, Balance::Full].map(|balance| balanced(&fabric, balance));
            let most = vls(&full).max(Some(Vl(1))).map(|Vl(vl)| Vl(vl + 1));
            assert!(vls(&auto) <= most, "{name}");
            let share = |routed: &Routed| routed.verdict.nonminimal_share;
            assert!(share(&auto) <= share(&full).max(0.005), "{name}");
        }
    }
}

/// A switch that is left without a legal path needs a detour, but no further VL.
#[test]
fn others_make_room_for_a_detour() {
    let whole = Dragonfly::balanced(4).build().unwrap();
    let damaged = fail_links(&whole, 1, 1).unwrap();
    let most = |routed: &Routed| routed.routes.sl2vl.rows().iter().flat_map(|row| row.vls()).max();
    assert_eq!(most(&stable(&damaged)), most(&stable(&whole)));
}

/// At least 95 % of the bandwidth that the same fabric has after a full rebalance.
#[test]
fn the_balance_is_near_that_of_full() {
    let odin = Odin.build().unwrap();
    let leaves = FatTree { k: 24, levels: 2, down: None, cas: None }.build().unwrap();
    let pods = FatTree { k: 12, levels: 3, down: None, cas: None }.build().unwrap();
    let damaged = |fabric: &Fabric, seed| fail_links(fabric, 10, seed).expect("links to spare");
    for (name, fabric) in [
        ("Dragonfly", Dragonfly::balanced(3).build().unwrap()),
        ("fat tree", FatTree { k: 8, levels: 3, down: None, cas: None }.build().unwrap()),
        ("damaged fat tree", damaged(&leaves, 1)),
        ("more damaged fat tree", fail_links(&pods, 30, 1).expect("links to spare")),
        ("HyperX", HyperX { dims: vec![4, 4, 4], cas: 4 }.build().unwrap()),
        ("torus", Torus { dims: vec![4, 4, 4], cas: 4 }.build().unwrap()),
        ("damaged Odin", damaged(&odin, 2)),
        ("damaged Odin", damaged(&odin, 4)),
        ("Deimos", Deimos.build().unwrap()),
    ] {
        let full = bandwidth(
            &fabric,
            &route(&fabric, &Settings { balance: Balance::Full, ..Settings::default() })
                .expect("it can be routed")
                .routes,
        );
        let stable = bandwidth(&fabric, &stable(&fabric).routes);
        assert!(stable >= 0.95 * full, "{name}: {stable} of {full}");
    }
}

/// Where entries by their surroundings alone would lose a tenth of the bandwidth of P-SSSP or carry several times its
/// largest load, more of them move, or another order is found.
#[test]
fn uneven_fabrics_keep_their_bandwidth() {
    let grown = |seed| Grown { islands: 12, spines: 10, cas: 24, seed }.build().unwrap();
    for (name, fabric) in [
        ("Deimos", Deimos.build().unwrap()),
        ("grown", grown(1)),
        ("grown", grown(2)),
        ("damaged grown", fail_links(&grown(3), 20, 3).expect("links to spare")),
    ] {
        let measured = |settings: Settings| {
            let routes = route(&fabric, &settings).expect("it can be routed").routes;
            let load = channel_load(&fabric, &routes).expect("all arrive").edge_forwarding_index as f64;
            (load, bandwidth(&fabric, &routes))
        };
        let plain = measured(Settings { engine: "sssp".to_owned(), ..Settings::default() });
        let stable = measured(Settings { balance: Balance::Stable, ..Settings::default() });
        assert!(stable.0 <= 1.25 * plain.0, "{name}: load {} of {}", stable.0, plain.0);
        assert!(stable.1 >= 0.98 * plain.1, "{name}: bandwidth {} of {}", stable.1, plain.1);
    }
}

/// Fat trees that have lost some links keep nearly all the bandwidth of P-SSSP without a rule.
#[test]
fn damaged_fat_trees_are_balanced() {
    let whole = FatTree { k: 12, levels: 3, down: None, cas: None }.build().unwrap();
    for seed in 1..=4 {
        let fabric = fail_links(&whole, 30, seed).expect("links to spare");
        let by = |engine: &str| {
            let settings = Settings { engine: engine.to_owned(), ..Settings::default() };
            bandwidth(&fabric, &route(&fabric, &settings).expect("it can be routed").routes)
        };
        let (dfdn, plain) = (by("dfdn"), by("sssp"));
        assert!(dfdn >= 0.98 * plain, "seed {seed}: {dfdn} of {plain}");
    }
}

fn bandwidth(fabric: &Fabric, routes: &Routes) -> f64 {
    let options =
        Options { patterns: NonZeroU32::new(300).expect("not zero"), seed: 1, ..Options::default() };
    evaluate(fabric, routes, &options).expect("all arrive").bisection.ebb
}

#[test]
fn a_link_that_comes_back_leaves_no_trace() {
    let whole = Dragonfly::balanced(2).build().unwrap();
    let before = stable(&whole);
    let (_, c) = whole.channels().iter().next().expect("a channel");
    let ends = [(c.from, c.out_port), (c.to, c.in_port)]
        .map(|(s, port)| PortRef { node: whole.switch_node_id(s), port });
    let mut builder = FabricBuilder::from_fabric(&whole);
    builder.disconnect(ends[0]);
    let damaged = builder.finish(Lmc::default()).unwrap();
    assert!(stable(&damaged).routes.lft != before.routes.lft);
    let mut builder = FabricBuilder::from_fabric(&damaged);
    builder.connect(ends[0], ends[1]).expect("the ports are free again");
    let after = stable(&builder.finish(Lmc::default()).unwrap());
    assert!(after.routes.lft == before.routes.lft && after.routes.sl2vl == before.routes.sl2vl);
}
