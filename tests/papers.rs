//! The examples that the papers draw, on the public interface.

use std::collections::BTreeSet;

use dfdn::engine::{Settings, route};
use dfdn::fabric::{
    ChannelId, EndPort, EndPortId, Fabric, FabricBuilder, Guid, Lmc, Node, NodeKind, PortNum, PortRef, Sl,
    SwitchId, Vl,
};
use dfdn::lanes::{LaneLimits, LanesError, df_d2, df_dn, layered};
use dfdn::ordering::{LinkSort, ordered_trees, up_down_rank};
use dfdn::routing::{apot, bfot};
use dfdn::simulate::{self, Load, Model, Room, Simulation, Traffic};
use dfdn::tables::{Lft, PathSl, Routes, SlVlRow};
use dfdn::topology::Ring;
use dfdn::verify::{Verdict, Witness, verify};

/// A fabric with names.
struct Drawing(Fabric);

impl Drawing {
    /// - `cables`: pairs of switches; switches come in the order of their first cable.
    /// - `hosts`: each with its switch.
    fn new(cables: &[[&str; 2]], hosts: &[[&str; 2]]) -> Self {
        let mut builder = FabricBuilder::new();
        let mut known = Vec::new();
        let mut ends = Vec::new();
        for (kind, name) in cables
            .iter()
            .flatten()
            .map(|name| (NodeKind::Switch, *name))
            .chain(hosts.iter().map(|[host, _]| (NodeKind::ChannelAdapter, *host)))
        {
            if !known.contains(&name) {
                let guid = Guid(0x1000 + 0x10 * known.len() as u64);
                known.push(name);
                ends.push((builder.add(Node::new(kind, guid, 4, name)).expect("a new GUID"), 0));
            }
        }
        for [a, b] in cables.iter().chain(hosts) {
            let [a, b] = [a, b].map(|name| {
                let (node, used) = &mut ends[known.iter().position(|n| n == name).expect("a known name")];
                *used += 1;
                PortRef { node: *node, port: PortNum(*used) }
            });
            builder.connect(a, b).expect("free ports");
        }
        Self(builder.finish(Lmc::default()).expect("a fabric"))
    }

    fn end(&self, name: &str) -> (EndPortId, &EndPort) {
        let found = self.0.endports().iter().position(|e| self.0.node(e.node).description == name);
        let id = EndPortId::at(found.expect("a known name"));
        (id, self.0.endport(id))
    }

    fn switch(&self, name: &str) -> SwitchId {
        self.0.switch_of(self.end(name).1.node).expect("the name of a switch")
    }

    fn channel(&self, from: &str, to: &str) -> ChannelId {
        let to = self.switch(to);
        let found = self.0.channels().out(self.switch(from)).find(|(_, c)| c.to == to);
        found.expect("a cable between them").0
    }

    /// Tables with these paths, each a list of switches and the destination, a host or the last switch itself.
    /// Neighbours are reached directly.
    fn lft<'a>(&self, paths: impl IntoIterator<Item = &'a str>) -> Lft {
        let mut lft = Lft::new(&self.0);
        for end in self.0.endports() {
            let (home, port) = end.attachment.expect("all are connected");
            lft.set(home, end.lid, port);
            for (_, c) in self.0.channels().iter().filter(|(_, c)| c.to == home) {
                lft.set(c.from, end.lid, c.out_port);
            }
        }
        for path in paths {
            let words: Vec<&str> = path.split(' ').collect();
            let (_, end) = self.end(words[words.len() - 1]);
            let switches = words.len() - usize::from(end.is_adapter());
            for hop in words[..switches].windows(2) {
                let channel = self.0.channels().get(self.channel(hop[0], hop[1]));
                lft.set(channel.from, end.lid, channel.out_port);
            }
        }
        lft
    }

    fn routes<'a>(&self, paths: impl IntoIterator<Item = &'a str>) -> Routes {
        Routes::on_one_vl("drawn", &self.0, self.lft(paths))
    }

    /// The channels of the credit loop, each as two names.
    fn credit_loop(&self, verdict: &Verdict) -> BTreeSet<String> {
        let waits = verdict.witnesses.iter().find_map(|w| match w {
            Witness::CreditLoop(waits) => Some(waits),
            _ => None,
        });
        let name = |s| self.0.switch(s).description.clone();
        let channels = waits.into_iter().flatten().map(|w| self.0.channels().get(w.channel));
        channels.map(|c| format!("{} {}", name(c.from), name(c.to))).collect()
    }
}

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

/// Fig. 1 of Schneider et al.: four switches in a ring, each with a host.
fn ring() -> Drawing {
    Drawing::new(
        &[["S1", "S2"], ["S2", "S3"], ["S3", "S4"], ["S4", "S1"]],
        &[["H1", "S1"], ["H2", "S2"], ["H3", "S3"], ["H4", "S4"]],
    )
}

/// The paths of two hops, those to the switches themselves beside those to their hosts: all clockwise.
const CLOCKWISE: [[&str; 2]; 4] = [
    ["S1 S2 S3 H3", "S1 S2 S3"],
    ["S2 S3 S4 H4", "S2 S3 S4"],
    ["S3 S4 S1 H1", "S3 S4 S1"],
    ["S4 S1 S2 H2", "S4 S1 S2"],
];

/// Whether a message from each host to the one two hops away, or between hosts that may close a credit loop, ends
/// in a deadlock, where each buffer has room for one packet. Larger ones fill only if the halves that a link serves
/// of its two senders are not equal all the time.
fn deadlocks(fabric: &Fabric, routes: &Routes) -> [bool; 2] {
    [Traffic::Pairs(vec![(0, 2), (1, 3), (2, 0), (3, 1)]), Traffic::Cycle].map(|traffic| {
        let model = Model { buffer: Room::PerVl(32), ..Model::default() };
        let settings = simulate::Settings { model, traffic, message: Some(1 << 20), ..Default::default() };
        let simulation = Simulation::new(fabric, routes, &settings).expect("every path arrives");
        let row = simulation.run(Load::Messages, 1).expect("a run");
        assert_eq!(row.deadlock.is_none(), row.finished.is_some(), "one of the two");
        row.deadlock.is_some()
    })
}

#[test]
fn schneider_fig_1_the_ring_deadlocks_on_one_vl() {
    let ring = ring();
    let routes = ring.routes(CLOCKWISE.into_iter().flatten());
    let verdict = verify(&ring.0, &routes);
    assert!(verdict.reachable && verdict.minimal && !verdict.deadlock_free_adapters);
    assert_eq!(ring.credit_loop(&verdict), names(&["S1 S2", "S2 S3", "S3 S4", "S4 S1"]));
    assert_eq!((verdict.virtual_channels, verdict.dependencies, verdict.cyclic_components), (8, 4, 1));
    assert_eq!(deadlocks(&ring.0, &routes), [true; 2]);
}

/// The packets of H4 continue on VL 1 at S1, so that the channel from S1 to S2 has two VLs and each other one has
/// one.
#[test]
fn schneider_fig_1_one_channel_on_another_vl_breaks_the_loop() {
    let ring = ring();
    let mut routes = ring.routes(CLOCKWISE.into_iter().flatten());
    let channels = ring.0.channels();
    let (arrives, leaves) = (channels.get(ring.channel("S4", "S1")), channels.get(ring.channel("S1", "S2")));
    routes.sl2vl.set(leaves.from, arrives.in_port, leaves.out_port, SlVlRow::uniform(Vl(1)));
    let verdict = verify(&ring.0, &routes);
    assert!(verdict.is_safe() && verdict.minimal, "{:?}", ring.credit_loop(&verdict));
    assert_eq!((verdict.vls, verdict.sls, verdict.virtual_channels, verdict.dependencies), (2, 1, 9, 4));
    assert_eq!(deadlocks(&ring.0, &routes), [false; 2]);
}

/// A path has four channels with those of its hosts, two of them between switches: layers move four at least.
/// Two paths without a common channel, as the paper divides them, take four between switches.
#[test]
fn schneider_fig_1_layers_need_whole_paths_on_another_vl() {
    let ring = ring();
    let mut routes = ring.routes(CLOCKWISE.into_iter().flatten());
    routes.sl2vl.rows_mut().fill(SlVlRow::default().with(Sl(1), Vl(1)));
    routes.sl2vl.set_adapters(SlVlRow::default().with(Sl(1), Vl(1)));
    for moved in 0..16_u32 {
        let mut sls = vec![0; ring.0.num_switches() * ring.0.lid_table_len()];
        for path in (0..4).filter(|path| moved & 1 << path != 0).flat_map(|path| CLOCKWISE[path]) {
            let (from, to) = (&path[..2], path.rsplit(' ').next().expect("a destination"));
            let lid = ring.end(to).1.lid.index();
            sls[lid * ring.0.num_switches() + ring.switch(from).index()] = 1;
        }
        routes.path_sl = PathSl::BySwitch(sls);
        let verdict = verify(&ring.0, &routes);
        assert_eq!(verdict.is_safe(), (1..15).contains(&moved), "{moved:04b}");
        // Neighbours still use all eight channels on VL 0.
        let more = (0..4).filter(|c| (moved >> c | moved >> ((c + 3) % 4)) & 1 != 0).count();
        assert_eq!(verdict.virtual_channels, 8 + more, "{moved:04b}");
        if [0b0001, 0b0101, 0b1010].contains(&moved) {
            assert_eq!(more, 2 * moved.count_ones() as usize);
            assert_eq!(deadlocks(&ring.0, &routes), [false; 2], "{moved:04b}");
        }
    }
    let rank = up_down_rank(&ring.0, ring.switch("S1"));
    let found = layered(&ring.0, &routes.lft, &rank, LaneLimits { vls: 2, sls: 2 });
    assert!(found.left.is_empty());
    let on_vl_1 = |from: &str, to: &str| {
        found.lanes.path_sl.get(&ring.0, ring.end(from).0, ring.end(to).1.lid) == Sl(1)
    };
    let pairs = [["H1", "H3"], ["H2", "H4"], ["H3", "H1"], ["H4", "H2"]];
    assert_eq!(pairs.iter().filter(|[from, to]| on_vl_1(from, to)).count(), 1);
    let lanes = found.lanes;
    let verdict = verify(&ring.0, &Routes { sl2vl: lanes.sl2vl, path_sl: lanes.path_sl, ..routes });
    assert!(verdict.is_safe());
    assert_eq!((verdict.vls, verdict.virtual_channels), (2, 10));
}

/// Fig. 4 of Schneider et al.: S3 must send packets of H1 on VL 2 and those of H2, which arrive by the same port
/// and leave by the same, on VL 1. The drawing is lost; this is the smallest fabric with that property.
#[test]
fn schneider_fig_4_two_flows_that_a_switch_cannot_tell_apart() {
    let chain = Drawing::new(
        &[["S1", "S2"], ["S2", "S3"], ["S3", "S4"]],
        &[["H1", "S1"], ["H2", "S2"], ["H4", "S4"]],
    );
    let fabric = &chain.0;
    let lft =
        chain.lft(["S1 S2 S3 S4 H4", "S1 S2 S3 S4", "S4 S3 S2 S1 H1", "S4 S3 S2 S1"].into_iter().chain([
            "S1 S2 S3",
            "S4 S3 S2",
            "S4 S3 S2 H2",
        ]));
    let limits = LaneLimits { vls: 3, sls: 16 };
    let refused = df_d2(fabric, 3, limits).expect_err("a path has three channels");
    assert_eq!(refused, LanesError::DiameterAboveTwo { hops: 3 });
    let (arrives, leaves) = (chain.channel("S2", "S3"), chain.channel("S3", "S4"));
    let (arrives, leaves) = (fabric.channels().get(arrives), fabric.channels().get(leaves));
    let two = df_d2(fabric, 2, limits).expect("the table for diameter two");
    assert_eq!(two.sl2vl.row(leaves.from, arrives.in_port, leaves.out_port), SlVlRow::uniform(Vl(1)));

    let lanes = df_dn(fabric, &lft, limits).expect("three VLs suffice");
    let row = lanes.sl2vl.row(leaves.from, arrives.in_port, leaves.out_port);
    let sl = |from: &str| lanes.path_sl.get(fabric, chain.end(from).0, chain.end("H4").1.lid);
    assert_ne!(sl("H1"), sl("H2"));
    assert_eq!((row.get(sl("H1")), row.get(sl("H2"))), (Vl(2), Vl(1)));
    let routes =
        Routes { sl2vl: lanes.sl2vl, path_sl: lanes.path_sl, ..Routes::on_one_vl("DF-DN", fabric, lft) };
    assert!(verify(fabric, &routes).is_safe());
}

/// On a ring with paths of three hops, the table for diameter two has a credit loop on VL 1.
#[test]
fn schneider_fig_4_what_a_switch_cannot_tell_apart_deadlocks() {
    let fabric = Ring { switches: 7, cas: 1 }.build().expect("a ring");
    let settings = Settings { engine: "minhop".to_owned(), ..Settings::default() };
    let routes = route(&fabric, &settings).expect("tables").routes;
    let limits = LaneLimits { vls: 3, sls: 16 };
    let two = df_d2(&fabric, 2, limits).expect("the table for diameter two");
    let verdict = verify(&fabric, &Routes { sl2vl: two.sl2vl, path_sl: two.path_sl, ..routes.clone() });
    let Some(Witness::CreditLoop(waits)) = verdict.witness() else { panic!("{verdict:?}") };
    assert!(verdict.reachable && waits.len() == 7 && waits.iter().all(|w| w.vl == Vl(1)));
    let all = df_dn(&fabric, &routes.lft, limits).expect("three VLs suffice");
    let verdict = verify(&fabric, &Routes { sl2vl: all.sl2vl, path_sl: all.path_sl, ..routes });
    assert!(verdict.deadlock_free && verdict.vls == 3);
}

/// Fig. 1 of Hoefler et al.: crossbars A to D in a ring, an endpoint on each, and three routes.
#[test]
fn hoefler_fig_1_the_credit_loop_of_three_routes() {
    let ring = Drawing::new(
        &[["A", "B"], ["B", "C"], ["C", "D"], ["D", "A"]],
        &[["0", "A"], ["1", "B"], ["2", "D"], ["3", "C"]],
    );
    // What the other pairs use waits for nothing that these three hold.
    let others = ["C B A 0", "D A B 1", "A B C", "C B A", "B C D", "D A B"];
    let drawn = ["D C B A 0", "A D C 3", "B A D 2"];
    let verdict = verify(&ring.0, &ring.routes(others.into_iter().chain(drawn)));
    assert!(verdict.reachable && verdict.loop_free);
    assert_eq!(ring.credit_loop(&verdict), names(&["D C", "C B", "B A", "A D"]));
    let elsewhere = ["D A 0", "A B C 3", "B C D 2"];
    for i in 0..3 {
        let mut paths = drawn;
        paths[i] = elsewhere[i];
        let verdict = verify(&ring.0, &ring.routes(others.into_iter().chain(paths)));
        assert!(verdict.is_safe(), "without {}: {:?}", drawn[i], ring.credit_loop(&verdict));
    }
}

/// Fig. 1 of Chiu et al.: nodes 1 to 4 in a ring; four minimal routes close a cycle, ordered trees close none.
#[test]
fn chiu_fig_1_four_minimal_routes_and_ordered_trees() {
    let ring = Drawing::new(
        &[["1", "2"], ["2", "3"], ["3", "4"], ["4", "1"]],
        &[["n1", "1"], ["n2", "2"], ["n3", "3"], ["n4", "4"]],
    );
    let routes = ["1 2 3 n3", "2 3 4 n4", "3 4 1 n1", "4 1 2 n2", "1 2 3", "2 3 4", "3 4 1", "4 1 2"];
    let verdict = verify(&ring.0, &ring.routes(routes));
    assert!(verdict.reachable && verdict.minimal);
    assert_eq!(ring.credit_loop(&verdict), names(&["1 2", "2 3", "3 4", "4 1"]));
    for sort in LinkSort::ALL {
        let layers = ordered_trees(&ring.0, sort);
        for lft in [apot(&ring.0, &layers), bfot(&ring.0, &layers)] {
            let verdict = verify(&ring.0, &Routes::on_one_vl("ordered trees", &ring.0, lft));
            assert!(verdict.is_safe() && verdict.vls_all == 1, "{sort:?}: {:?}", ring.credit_loop(&verdict));
            assert!(verdict.dependencies < 8, "not every turn in both directions");
        }
    }
}
