//! The judge of changes against a slow reference that sends every packet over every way.

use std::collections::BTreeSet;

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::random::{Dice, case, cases, multicast, path_sl, some_cases};
use super::reference::{Lane, Waits, next, without_dead_ends};
use super::{Build, adapter_lid, around, clockwise, port_to, ring, routes, tables};
use crate::fabric::{
    ChannelId, EndPort, EndPortId, Fabric, FabricBuilder, Lid, LinkState, Lmc, NodeId, PortNum, Sl, SwitchId,
    Vl,
};
use crate::tables::{InForce, Lft, McastGroup, PathSl, PortSet, Routes, SenderSls, SlVlRow, Transition};
use crate::topology::fail_links;
use crate::verify::mixture::{Common, Mixture, MixtureVerdict};
use crate::verify::{Cause, McastFault, Packet, Witness, verify};

/// All that packets may do.
#[derive(Default)]
struct Truth {
    lanes: BTreeSet<Lane>,
    waits: Waits,
    /// Some packet to a LID may pass a channel twice.
    looping: bool,
}

/// A packet's place: the switch, the in port and the virtual channel whose buffer it holds.
type Place = (usize, u8, Option<Lane>);

/// Whether an end port may send packets with an SL.
fn sends(states: &[&InForce], e: &EndPort, sl: u8) -> bool {
    e.port.0 == 0 || states.iter().any(|state| state.sl2vl.adapters().get(Sl(sl)).0 != 15)
}

/// The possible entries of a switch for a LID.
fn entries(states: &[&InForce], s: usize, lid: Lid) -> Vec<u8> {
    let entry = |state: &&InForce| Some(state.lft.get(SwitchId::at(s), lid)?.0);
    states.iter().filter(|state| lid.index() < state.lft.lids()).filter_map(entry).collect()
}

fn groups<'a>(states: &'a [&InForce], mlid: u16) -> impl Iterator<Item = &'a McastGroup> {
    states.iter().flat_map(|s| &s.multicast).filter(move |g| g.mlid == mlid)
}

/// The possible ports of a group at a switch.
fn mcast_ports(states: &[&InForce], mlid: u16, s: usize) -> BTreeSet<u8> {
    groups(states, mlid).flat_map(|g| g.at(SwitchId::at(s)).iter()).map(|p| p.0).collect()
}

impl Truth {
    fn of(f: &Fabric, sls: &SenderSls, states: &[&InForce]) -> Self {
        let mut t = Self::default();
        let ends = || f.endports().iter().enumerate().filter(|(_, e)| e.attachment.is_some());
        let lids = states.iter().map(|state| state.lft.lids()).max().unwrap_or(0);
        let place = |e: &EndPort| e.attachment.map(|(s, port)| (s.index(), port.0, None)).expect("attached");
        for sl in 0..16 {
            for lid in (1..lids).filter_map(|lid| Lid::new(lid as u16)) {
                let from = |(i, e): (usize, &EndPort)| {
                    let uses = sls.of(f, EndPortId::at(i), lid) >> sl & 1 != 0;
                    (uses && sends(states, e, sl)).then(|| place(e))
                };
                let mut starts: Vec<Place> = ends().filter_map(from).collect();
                for s in f.switch_ids() {
                    let ports = f.switch(s).ports.iter().enumerate();
                    let open = ports.filter(|(_, p)| p.untrusted);
                    starts.extend(open.map(|(port, _)| (s.index(), port as u8, None)));
                }
                t.looping |= t.send(f, states, sl, starts, |s, _| entries(states, s, lid));
            }
            let mlids: BTreeSet<u16> = states.iter().flat_map(|s| &s.multicast).map(|g| g.mlid).collect();
            for mlid in mlids {
                if groups(states, mlid).all(|g| g.sls.unwrap_or(1) >> sl & 1 == 0) {
                    continue;
                }
                let ports = |s: usize| mcast_ports(states, mlid, s);
                let inside = |e: &EndPort| !ports(place(e).0).is_empty() && sends(states, e, sl);
                let starts = ends().filter(|(_, e)| inside(e)).map(|(_, e)| place(e)).collect();
                let _ = t.send(f, states, sl, starts, |s, in_port| {
                    ports(s).into_iter().filter(|&p| p != in_port).collect()
                });
            }
        }
        t
    }

    /// Sends packets from some places; returns whether any can come by a channel twice.
    fn send(
        &mut self,
        f: &Fabric,
        states: &[&InForce],
        sl: u8,
        starts: Vec<Place>,
        entries: impl Fn(usize, u8) -> Vec<u8>,
    ) -> bool {
        let mut open = starts;
        let mut met: BTreeSet<Place> = open.iter().copied().collect();
        let mut steps = Waits::new();
        while let Some((s, in_port, held)) = open.pop() {
            for out in entries(s, in_port) {
                let Some((to, to_port)) = next(f, s, out) else { continue };
                for state in states {
                    let row = state.sl2vl.row(SwitchId::at(s), PortNum(in_port), PortNum(out));
                    let vl = row.get(Sl(sl)).0;
                    if vl == 15 {
                        continue;
                    }
                    let lane = (s, out, vl);
                    self.lanes.insert(lane);
                    if let Some(held) = held {
                        self.waits.insert((held, lane));
                        steps.insert(((held.0, held.1, 0), (s, out, 0)));
                    }
                    if met.insert((to, to_port, Some(lane))) {
                        open.push((to, to_port, Some(lane)));
                    }
                }
            }
        }
        !without_dead_ends(steps).is_empty()
    }
}

/// The packets that a witness names can do what it says.
fn is_true(f: &Fabric, sls: &SenderSls, states: &[&InForce], witness: &Witness) {
    let lane = |channel: ChannelId, vl: Vl| {
        let c = f.channels().get(channel);
        (c.from.index(), c.out_port.0, vl.0)
    };
    // What packets do that an end port sends, or that come from a switch that is left out to its switch; and whether
    // they loop.
    let sent = |p: &Packet| {
        let end = f.endport(p.source);
        let (s, port) = end.attachment.expect("attached");
        let mut starts = Vec::new();
        if sls.of(f, p.source, p.dlid) >> p.sl.0 & 1 != 0 && sends(states, end, p.sl.0) {
            starts.push((s.index(), port.0, None));
        }
        let open = f.switch(s).ports.iter().enumerate().filter(|(_, port)| port.untrusted);
        starts.extend(open.map(|(port, _)| (s.index(), port as u8, None)));
        let mut t = Truth::default();
        let looping = t.send(f, states, p.sl.0, starts, |s, _| entries(states, s, p.dlid));
        (t, looping)
    };
    let copied = |mlid: u16, source: EndPortId, sl: Sl| {
        let end = f.endport(source);
        let (s, port) = end.attachment.expect("attached");
        assert!(sends(states, end, sl.0) && !mcast_ports(states, mlid, s.index()).is_empty());
        assert!(groups(states, mlid).any(|g| g.sls.unwrap_or(1) >> sl.0 & 1 != 0));
        let mut t = Truth::default();
        let _ = t.send(f, states, sl.0, vec![(s.index(), port.0, None)], |s, in_port| {
            mcast_ports(states, mlid, s).into_iter().filter(|&p| p != in_port).collect()
        });
        t
    };
    match witness {
        Witness::CreditLoop(waits) => {
            for (a, b) in waits.iter().zip(waits.iter().cycle().skip(1)) {
                let wait = (lane(a.channel, a.vl), lane(b.channel, b.vl));
                assert!(sent(&a.packet).0.waits.contains(&wait), "{}", witness.explain(f));
            }
        }
        Witness::Multicast(McastFault::CreditLoop(waits)) => {
            for (a, b) in waits.iter().zip(waits.iter().cycle().skip(1)) {
                let wait = (lane(a.channel, a.vl), lane(b.channel, b.vl));
                let t = match &a.cause {
                    Cause::Unicast(packet) => sent(packet).0,
                    Cause::Multicast { mlid, source, sl } => copied(*mlid, *source, *sl),
                };
                assert!(t.waits.contains(&wait), "{}", witness.explain(f));
            }
        }
        Witness::Loop { packet, .. } => assert!(sent(packet).1, "{}", witness.explain(f)),
        other => panic!("no such witness: {other:?}"),
    }
}

/// Tables with a few entries and rows changed, and some with other trees and other SLs.
pub(super) fn changed(f: &Fabric, r: &Routes, dice: &mut Dice) -> Routes {
    let mut new = r.clone();
    let lids: Vec<Lid> = f.endports().iter().flat_map(|e| e.lids()).collect();
    for _ in 0..[0, 1, 1, 2, 5, 20][dice.random_range(0..6)] {
        let s = SwitchId::at(dice.random_range(0..f.num_switches()));
        let lid = *lids.choose(dice).expect("that of a switch");
        let channels: Vec<_> = f.channels().out(s).map(|(_, c)| c.out_port).collect();
        match (dice.random_range(0..6), channels.choose(dice)) {
            (0, _) => new.lft.clear(s, lid),
            (1, _) => new.lft.set(s, lid, PortNum(dice.random_range(0..16))),
            (_, Some(&port)) => new.lft.set(s, lid, port),
            (_, None) => {}
        }
    }
    for _ in 0..[0, 0, 1, 10][dice.random_range(0..4)] {
        let i = dice.random_range(0..new.sl2vl.rows().len());
        let vl = Vl(*[0, 1, 2, 15].choose(dice).expect("some"));
        new.sl2vl.rows_mut()[i] = SlVlRow::uniform(vl);
    }
    if dice.random_bool(0.2) {
        new.multicast = multicast(f, dice);
    }
    if dice.random_bool(0.2) {
        new.path_sl = path_sl(f, dice);
    }
    if dice.random_bool(0.1) {
        new.sl2vl.set_adapters(SlVlRow::default().with(Sl(dice.random_range(0..16)), Vl(15)));
    }
    new
}

/// The judge's verdict, which is what the reference says; every witness is one.
fn compare(f: &Fabric, sls: &SenderSls, states: &[&InForce]) -> MixtureVerdict {
    let mixture = Mixture::new(f, sls, states);
    let v = mixture.verdict();
    let t = Truth::of(f, sls, states);
    let cyclic = without_dead_ends(t.waits.clone());
    assert_eq!(v.dependencies, t.waits.len());
    assert_eq!(v.virtual_channels, t.lanes.len());
    assert_eq!(v.deadlock_free, cyclic.is_empty());
    assert_eq!(v.loop_free, !t.looping, "a loop makes a cycle, so it is looked for only then");
    assert_eq!(mixture.is_deadlock_free(), v.deadlock_free);
    let lane = |(channel, vl): (ChannelId, Vl)| {
        let c = f.channels().get(channel);
        (c.from.index(), c.out_port.0, vl.0)
    };
    match mixture.order() {
        None => assert!(!v.deadlock_free),
        Some(order) => {
            let order: Vec<Lane> = order.into_iter().map(lane).collect();
            assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), t.lanes);
            let place = |l: Lane| order.iter().position(|&o| o == l).expect("in use");
            assert!(t.waits.iter().all(|&(a, b)| place(a) < place(b)));
        }
    }
    let within: Waits =
        mixture.within(&v.cyclic_components).iter().map(|d| (lane(d.from), lane(d.to))).collect();
    let set = |l: Lane| v.cyclic_components.iter().position(|c| c.iter().any(|&m| lane(m) == l));
    let inside = |w: &&(Lane, Lane)| set(w.0).is_some() && set(w.0) == set(w.1);
    assert_eq!(within, t.waits.iter().filter(inside).copied().collect());
    let arcs = mixture.arcs(&v.cyclic_components);
    assert_eq!(within, arcs.iter().map(|&(from, to)| (lane(from), lane(to))).collect());
    // VLs that no row names are those of no packet.
    if !v.deadlock_free {
        let rows = states.iter().flat_map(|state| state.sl2vl.rows());
        let highest = rows.flat_map(|row| row.vls()).map(|vl| vl.0).filter(|&vl| vl < 15).max().unwrap_or(0);
        let mut sets = v.cyclic_components.clone();
        for set in &mut sets {
            let beyond: BTreeSet<_> = set.iter().map(|(channel, _)| (*channel, Vl(highest + 1))).collect();
            set.extend(beyond);
        }
        assert_eq!(mixture.within(&sets), mixture.within(&v.cyclic_components));
        assert_eq!(mixture.arcs(&sets), arcs);
    }
    v.witnesses.iter().for_each(|witness| is_true(f, sls, states, witness));
    for witness in &v.witnesses {
        let cycle: Vec<Lane> = match witness {
            Witness::CreditLoop(waits) => waits.iter().map(|w| lane((w.channel, w.vl))).collect(),
            Witness::Multicast(McastFault::CreditLoop(waits)) => {
                assert!(waits.iter().any(|w| matches!(w.cause, Cause::Multicast { .. })));
                waits.iter().map(|w| lane((w.channel, w.vl))).collect()
            }
            Witness::Loop { packet, switches } => {
                let next_of = |s: SwitchId| {
                    let entries = states.iter().filter_map(move |state| state.lft.get(s, packet.dlid));
                    entries
                        .filter_map(|port| next(f, s.index(), port.0))
                        .map(|(to, _)| to)
                        .collect::<Vec<_>>()
                };
                let after = switches.iter().cycle().skip(1);
                assert!(switches.iter().zip(after).all(|(&s, to)| next_of(s).contains(&to.index())));
                continue;
            }
            other => panic!("no such witness: {other:?}"),
        };
        let after = cycle.iter().cycle().skip(1);
        assert!(cycle.iter().zip(after).all(|(&a, &b)| t.waits.contains(&(a, b))));
    }
    v
}

#[test]
fn agrees_with_the_reference() {
    let mut said = std::collections::BTreeMap::new();
    for seed in cases(300) {
        let mut dice = Dice::seed_from_u64(seed);
        let (f, r) = case(&mut dice);
        let damaged = if dice.random_bool(0.4) { fail_links(&f, 1, seed).ok() } else { None };
        let now = damaged.as_ref().unwrap_or(&f);
        let new = changed(now, &r, &mut dice);
        let t = Transition::between(&f, &r, now, &new);
        let mut states = vec![&t.old, &t.new];
        let third = Transition::between(&f, &changed(&f, &r, &mut dice), now, &new).old;
        if dice.random_bool(0.2) {
            states.push(&third);
        }
        let common = Common::new(now, &t.sls, [&t.old, &t.new]);
        let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let single = compare(now, &t.sls, &[&t.new]);
            (single, compare(now, &t.sls, &states))
        }));
        let (single, v) = asked.unwrap_or_else(|_| panic!("seed {seed}"));
        let by_lid = (0..t.new.lft.lids()).map(|_| dice.random::<u16>() & dice.random::<u16>());
        let by_lid = SenderSls::ByLid(by_lid.collect());
        compare(now, &by_lid, &states);
        assert_eq!(Mixture::beside(&common, &[&t.new]).verdict(), single, "seed {seed}");
        assert_eq!(Mixture::beside(&common, &states).verdict(), v, "seed {seed}");
        assert!(single.deadlock_free || !v.deadlock_free, "more states never do less: seed {seed}");
        let mut note = |what: &'static str, holds: bool| *said.entry((what, holds)).or_insert(0) += 1;
        note("deadlock free", v.deadlock_free);
        note("loop free", v.loop_free);
        note("packets in common", states.iter().all(|state| common.is_in(state)));
        if single.deadlock_free {
            note("deadlock free as the new tables are", v.deadlock_free);
        }
        if let Some(w) = v.witnesses.first() {
            note("multicast in the cycle", matches!(w, Witness::Multicast(_)));
        }
    }
    assert!(some_cases().is_some() || said.len() == 10 && said.values().all(|&n| n >= 5), "{said:#?}");
}

/// Tables that are in force alone.
fn alone(f: &Fabric, r: &Routes) -> MixtureVerdict {
    let t = Transition::between(f, r, f, r);
    compare(f, &t.sls, &[&t.new])
}

/// A ring whose switches have a port each to a switch that is left out.
fn besieged() -> Fabric {
    let mut b = FabricBuilder::from_fabric(&ring(5, 0..5, 0));
    for s in 0..5 {
        let ports = &mut b.node_mut(NodeId(s)).ports;
        let free = ports.iter().rposition(|p| p.peer.is_none()).expect("a free port");
        ports[free].untrusted = true;
    }
    b.finish(Lmc::default()).expect("a fabric")
}

/// End ports send with SL 0, on VL 0 and then VL 1. Packets from elsewhere stay on VL 0 with any other SL.
#[test]
fn packets_from_elsewhere_close_a_cycle() {
    for (f, safe) in [(ring(5, 0..5, 0), true), (besieged(), false)] {
        let mut r = routes(&f, tables(&f, |_| 0, true));
        for c in f.channels().as_slice() {
            for out in 0..r.sl2vl.ports_of(c.to) as u8 {
                let row = SlVlRow::default().with(Sl(0), Vl(1));
                r.sl2vl.set(c.to, c.in_port, PortNum(out), row);
            }
        }
        let v = alone(&f, &r);
        assert_eq!((v.deadlock_free, v.loop_free), (safe, true));
        // The same with SL 3 alone, which a group has too. Its packets reach no other switch.
        for c in f.channels().as_slice() {
            for out in 0..r.sl2vl.ports_of(c.to) as u8 {
                let row = SlVlRow::uniform(Vl(1)).with(Sl(3), Vl(0));
                r.sl2vl.set(c.to, c.in_port, PortNum(out), row);
            }
        }
        let (s, port) = f.adapters().next().expect("an adapter").1.attachment.expect("attached");
        let mut ports = PortSet::default();
        ports.insert(port);
        let group = McastGroup { mlid: McastGroup::FIRST_MLID, sls: Some(1 << 3), ports: vec![(s, ports)] };
        r.multicast.push(group);
        assert_eq!(alone(&f, &r).deadlock_free, safe);
    }
}

/// Two LIDs that no end port has: nothing leads to one, and packets to the other go around. Both lie beyond the LIDs of
/// one of the states.
#[test]
fn lids_that_nobody_has_are_followed_too() {
    let f = ring(5, 0..5, 0);
    let mut r = routes(&f, tables(&f, |_| 0, true));
    for c in f.channels().as_slice() {
        for out in 0..r.sl2vl.ports_of(c.to) as u8 {
            r.sl2vl.set(c.to, c.in_port, PortNum(out), SlVlRow::uniform(Vl(1)));
        }
    }
    let t = Transition::between(&f, &r, &f, &r);
    let lids = t.new.lft.lids();
    let [none, around] = [lids, lids + 1].map(|lid| Lid::new(lid as u16).expect("a LID"));
    let mut more = t.new.clone();
    more.lft = Lft::with_lids(&f, lids + 2);
    for lid in (1..lids).filter_map(|lid| Lid::new(lid as u16)) {
        more.lft.to_mut(lid).copy_from_slice(t.new.lft.to(lid));
    }
    let all_sls = [SenderSls::Same(1), SenderSls::ByLid(vec![1; lids + 2])];
    assert!(all_sls.iter().all(|sls| compare(&f, sls, &[&more]).deadlock_free));
    let round = clockwise(&f);
    for s in f.switch_ids() {
        let ahead = f.endports().iter().find(|e| e.attachment.is_some_and(|(home, _)| home != s));
        let lid = ahead.expect("another switch").lid;
        more.lft.set(s, around, round.get(s, lid).expect("an entry"));
    }
    assert!(f.switch_ids().all(|s| more.lft.get(s, none).is_none()));
    for sls in &all_sls {
        for states in [&[&more][..], &[&t.new, &more], &[&more, &t.new]] {
            let v = compare(&f, sls, states);
            assert_eq!((v.deadlock_free, v.loop_free), (false, false));
        }
    }
}

/// Two LIDs on a switch with the same entries elsewhere, around the ring; the switch forwards the packets to one of them.
/// No others take more than two channels.
#[test]
fn an_entry_of_the_last_switch_that_leads_on_is_followed() {
    let f = ring(5, 0..5, 0);
    let round = clockwise(&f);
    let lid = adapter_lid(&f, 0);
    let home = f.endport(f.owner_of(lid).expect("in use")).attachment.expect("attached").0;
    let own = f.endports_on(home).iter().map(|&e| f.endport(e).lid).find(|&l| l != lid).expect("its own");
    let mut safe = routes(&f, tables(&f, |_| 0, true));
    for c in f.channels().as_slice() {
        for out in 0..safe.sl2vl.ports_of(c.to) as u8 {
            safe.sl2vl.set(c.to, c.in_port, PortNum(out), SlVlRow::uniform(Vl(1)));
        }
    }
    for (s, lid) in f.switch_ids().flat_map(|s| [(s, lid), (s, own)]) {
        safe.lft.set(s, lid, round.get(s, lid).expect("an entry"));
    }
    assert!(alone(&f, &safe).deadlock_free);
    for on in [lid, own] {
        let mut r = safe.clone();
        r.lft.set(home, on, round.get(home, adapter_lid(&f, 1)).expect("an entry"));
        let v = alone(&f, &r);
        assert_eq!((v.deadlock_free, v.loop_free), (false, false));
    }
}

/// No row lets the packets of end ports pass; those from elsewhere go round and round.
#[test]
fn packets_from_elsewhere_loop() {
    for (f, safe) in [(ring(5, 0..5, 0), true), (besieged(), false)] {
        let mut r = routes(&f, clockwise(&f));
        let round = clockwise(&f);
        let lid = adapter_lid(&f, 0);
        let home = f.endport(f.owner_of(lid).expect("in use")).attachment.expect("attached").0;
        let elsewhere = f.endports().iter().find(|e| e.attachment.expect("attached").0 != home).expect("one");
        r.lft.set(home, lid, round.get(home, elsewhere.lid).expect("an entry"));
        r.sl2vl.rows_mut().fill(SlVlRow::default().with(Sl(0), Vl(15)));
        let v = alone(&f, &r);
        assert_eq!((v.deadlock_free, v.loop_free), (safe, safe));
    }
}

/// Packets to one LID are sent around, and dropped before they return; others close a credit loop.
#[test]
fn what_is_dropped_on_its_way_does_not_loop() {
    let cases = [ring(5, 0..5, 0), besieged()].into_iter().flat_map(|f| [(f.clone(), true), (f, false)]);
    for (f, drops) in cases {
        let mut r = routes(&f, clockwise(&f));
        let lid = adapter_lid(&f, 0);
        let home = f.endport(f.owner_of(lid).expect("in use")).attachment.expect("attached").0;
        let other = adapter_lid(&f, 1);
        r.lft.set(home, lid, r.lft.get(home, other).expect("an entry"));
        let mut sls = vec![1; f.num_switches() * f.lid_table_len()];
        sls[lid.index() * f.num_switches()..][..f.num_switches()].fill(0);
        r.path_sl = PathSl::BySwitch(sls);
        if drops {
            for i in 0..r.sl2vl.ports_of(home) {
                for o in 0..r.sl2vl.ports_of(home) {
                    let row = SlVlRow::default().with(Sl(0), Vl(15));
                    r.sl2vl.set(home, PortNum(i as u8), PortNum(o as u8), row);
                }
            }
        }
        let v = alone(&f, &r);
        // Packets from elsewhere have other SLs.
        let open = f.nodes().iter().flat_map(|n| &n.ports).any(|p| p.untrusted);
        assert_eq!((v.deadlock_free, v.loop_free), (false, drops && !open));
    }
}

/// No unicast, and groups with two SLs on three cables each, around a ring. Of the end ports on a switch the last sends on
/// VL 0, and the others on VL 1. Behind the first cable packets with SL 1 are on VL 0, where they wait for each other;
/// those with SL 0 are on VL 2, and dropped at one of the switches.
#[test]
fn the_packet_that_a_witness_names_has_the_sl_and_the_sender() {
    let f = ring(5, (0..5).chain(0..5), 0);
    let mut r = routes(&f, Lft::new(&f));
    for s in 0..5 {
        let (back, out) = (port_to(&f, s, (s + 4) % 5), port_to(&f, s, (s + 1) % 5));
        let vl = if s == 0 { 15 } else { 2 };
        r.sl2vl.set(SwitchId::at(s), back, out, SlVlRow::default().with(Sl(0), Vl(vl)));
        let (_, others) = f.endports_on(SwitchId::at(s)).split_last().expect("some");
        for port in others.iter().map(|&e| f.endport(e).attachment.expect("attached").1) {
            r.sl2vl.set(SwitchId::at(s), port, out, SlVlRow::uniform(Vl(1)));
        }
        r.multicast.push(around(&f, s, 3, Some(0b11)));
    }
    assert!(!alone(&f, &r).deadlock_free);
}

/// One state alone is judged as [`verify`] judges tables all of whose packets arrive.
#[test]
fn one_state_is_judged_as_tables_are() {
    let mut agreed = BTreeSet::new();
    for seed in cases(300) {
        let mut dice = Dice::seed_from_u64(seed);
        let (f, mut r) = case(&mut dice);
        r.multicast.clear();
        let v = verify(&f, &r);
        if v.reachable && v.contained {
            let t = Transition::between(&f, &r, &f, &r);
            // Foreign packets are a verdict of their own.
            let alone = Mixture::new(&f, &t.sls, &[&t.new]).verdict();
            assert_eq!(alone.deadlock_free, v.deadlock_free, "seed {seed}");
            if !matches!(r.path_sl, PathSl::ByEndPort(_)) && f.endports().len() > 1 {
                assert_eq!(alone.dependencies, v.dependencies, "seed {seed}");
                assert_eq!(alone.virtual_channels, v.virtual_channels, "seed {seed}");
            }
            agreed.insert(v.deadlock_free);
        }
    }
    assert!(some_cases().is_some() || agreed.len() == 2);
}

/// The entries of two switches lead in a loop, and no packet comes to them.
#[test]
fn entries_that_no_packet_reaches_count_for_nothing() {
    let mut b = Build::new(4);
    for (from, to) in [(0, 3), (0, 1), (1, 2), (2, 0)] {
        b.cable(from, to);
    }
    b.adapter(0);
    b.adapter(3);
    let mut b = FabricBuilder::from_fabric(&b.finish(0));
    for s in [1, 2] {
        b.node_mut(NodeId(s)).ports[0].state = LinkState::Down;
    }
    let f = b.finish(Lmc::default()).expect("a fabric");
    let r = routes(&f, tables(&f, |_| 0, true));
    let mut state = Transition::between(&f, &r, &f, &r).new;
    let lid = adapter_lid(&f, 0);
    assert_eq!(f.endport(f.owner_of(lid).expect("in use")).attachment.expect("attached").0, SwitchId(0));
    for (from, to) in [(1, 2), (2, 1)] {
        state.lft.set(SwitchId::at(from), lid, port_to(&f, from, to));
    }
    assert!(compare(&f, &SenderSls::Same(1), &[&state]).deadlock_free);
}
