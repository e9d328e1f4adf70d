//! Small random fabrics and tables, whole and damaged, for both judges.

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::compare::{compare, compare_safety};
use crate::fabric::{
    Fabric, FabricBuilder, Guid, Lid, LinkState, Lmc, Node, NodeKind, PortNum, PortRef, Sl, SwitchId, Vl,
};
use crate::tables::{
    ClassSl, Classes, Lft, McastGroup, PathSl, PortSet, Routes, Sl2Vl, SlVlRow, SwitchPairs, VlArb,
};
use crate::verify::{Fault, McastFault, Sizes, SlPolicy, Witness};

pub(super) type Dice = ChaCha8Rng;

/// Whether the environment variable CASES chooses some cases, as in "10..100".
pub(super) fn some_cases() -> Option<String> {
    std::env::var("CASES").ok()
}

/// The numbers of a test's cases: all, or those that are chosen.
pub(super) fn cases(all: u64) -> std::ops::Range<u64> {
    let Some(some) = some_cases() else { return 0..all };
    let (first, end) = some.split_once("..").expect("a range");
    let number = |text: &str| text.parse::<u64>().expect("a number").min(all);
    number(first)..number(end)
}

/// At most 7 switches with up to 254 ports, and 8 adapters and routers with one port or two.
pub(super) fn fabric(dice: &mut Dice) -> Fabric {
    let mut b = FabricBuilder::new();
    let switches = dice.random_range(1..=7);
    let mut free: Vec<Vec<PortRef>> = Vec::new();
    for s in 0..switches {
        let ports = match dice.random_range(0..1500) {
            0 => 254,
            1..9 => 60,
            _ => dice.random_range(8..=14),
        };
        let mut node = Node::new(NodeKind::Switch, Guid(0x100 + s), ports, &format!("S{s}"));
        node.enhanced_port0 = dice.random_bool(0.3);
        if dice.random_bool(0.1) {
            (node.ports[0].lid, node.ports[0].lmc) = (Lid::new(0x40 + 8 * s as u16), lmc(dice));
        }
        for port in &mut node.ports {
            let vls = [Some(1), Some(2), Some(4), Some(8), Some(15)];
            port.data_vls = if dice.random_bool(0.05) { *vls.choose(dice).expect("some") } else { None };
        }
        let node = b.add(node).expect("a switch");
        let mut ports: Vec<PortRef> = (1..=ports).map(|p| PortRef { node, port: PortNum(p) }).collect();
        ports.shuffle(dice);
        free.push(ports);
    }
    let cable = |b: &mut FabricBuilder, free: &mut [Vec<PortRef>], x: usize, y: usize| {
        if let (Some(p), Some(q)) = (free[x].pop(), free[y].pop()) {
            b.connect(p, q).expect("two free ports");
        }
    };
    let switches = switches as usize;
    for s in 1..switches {
        if dice.random_bool(0.98) {
            cable(&mut b, &mut free, s, dice.random_range(0..s));
        }
    }
    for _ in 0..dice.random_range(0..9) {
        let (x, y) = (dice.random_range(0..switches), dice.random_range(0..switches));
        cable(&mut b, &mut free, x, y);
    }
    for h in 0..dice.random_range(0..7) {
        let kind = if dice.random_bool(0.1) { NodeKind::Router } else { NodeKind::ChannelAdapter };
        // GUIDs in another order than those of their switches; some lower than those of all switches.
        let guid = Guid(0x10 * dice.random_range(1..14) + 0x1000 * h);
        let node = b.add(Node::new(kind, guid, 2, &format!("H{h}"))).expect("an adapter");
        for port in 1..=dice.random_range(1..=2) {
            let s = dice.random_range(0..switches);
            if let Some(p) = free[s].pop() {
                b.connect(p, PortRef { node, port: PortNum(port) }).expect("two free ports");
            }
        }
        if dice.random_bool(0.02) {
            (b.node_mut(node).ports[1].lid, b.node_mut(node).ports[1].lmc) = (Lid::new(0xbff8), lmc(dice));
            break;
        }
    }
    // Cables that are down, at one end or both.
    for node in 0..b.len() {
        for port in &mut b.node_mut(crate::fabric::NodeId::at(node)).ports {
            if dice.random_bool(0.01) {
                port.state = *[LinkState::Down, LinkState::Initialize].choose(dice).expect("some");
            }
        }
    }
    // A port to a switch that is left out.
    if dice.random_bool(0.1) {
        let node = b.node_mut(crate::fabric::NodeId::at(dice.random_range(0..switches)));
        let number = dice.random_range(1..node.ports.len());
        node.ports[number].untrusted = true;
    }
    b.finish(lmc(dice)).expect("a fabric")
}

fn lmc(dice: &mut Dice) -> Lmc {
    Lmc::new([0, 0, 0, 1, 2, 3][dice.random_range(0..6)]).expect("an LMC")
}

/// A tree for each LID, of shortest paths or of any.
fn trees(f: &Fabric, dice: &mut Dice) -> Lft {
    let mut lft = Lft::new(f);
    let minimal = dice.random_bool(0.6);
    for end in f.endports() {
        let Some((root, port)) = end.attachment else { continue };
        for lid in end.lids() {
            lft.set(root, lid, port);
            let mut inside = vec![root];
            let mut level = inside.clone();
            loop {
                let mut rim: Vec<_> = level
                    .iter()
                    .flat_map(|&s| f.channels().out(s))
                    .map(|(_, c)| (c.to, c.in_port))
                    .filter(|(to, _)| !inside.contains(to))
                    .collect();
                if rim.is_empty() {
                    break;
                }
                rim.shuffle(dice);
                rim.truncate(if minimal { rim.len() } else { 1 });
                let before = inside.len();
                for (s, port) in rim {
                    if !inside.contains(&s) {
                        lft.set(s, lid, port);
                        inside.push(s);
                    }
                }
                level = if minimal { inside.split_off(before) } else { inside.clone() };
                inside.extend(level.iter().filter(|_| minimal));
            }
        }
    }
    lft
}

/// Rows that distinguish some sets of SLs.
fn sl2vl(f: &Fabric, dice: &mut Dice) -> Sl2Vl {
    let mut sl2vl = Sl2Vl::new(f);
    let vls = *[1, 2, 2, 3, 4, 15].choose(dice).expect("some");
    let sets = *[1, 1, 2, 3, 16].choose(dice).expect("some");
    let set: Vec<usize> = (0..Sl::COUNT).map(|_| dice.random_range(0..sets)).collect();
    let row = |dice: &mut Dice| {
        let vl: Vec<Vl> = (0..sets).map(|_| Vl(dice.random_range(0..vls))).collect();
        SlVlRow::from_vls(std::array::from_fn(|sl| vl[set[sl]]))
    };
    match dice.random_range(0..3) {
        // At random.
        0 => sl2vl.rows_mut().iter_mut().for_each(|r| *r = row(dice)),
        // Dependent on the set of the SL only.
        1 => {
            let all = row(dice);
            sl2vl.rows_mut().fill(all);
        }
        // One VL on the first channel, another on later ones.
        _ => {
            let (first, behind) = (row(dice), row(dice));
            sl2vl.rows_mut().fill(first);
            for c in f.channels().as_slice() {
                for out in 0..sl2vl.ports_of(c.to) as u8 {
                    sl2vl.set(c.to, c.in_port, PortNum(out), behind);
                }
            }
        }
    }
    for _ in 0..[0, 0, 0, 1, 4, 20][dice.random_range(0..6)] {
        let i = dice.random_range(0..sl2vl.rows().len());
        let (sl, vl) = (Sl(dice.random_range(0..16)), Vl(dice.random_range(0..16)));
        let old = sl2vl.rows()[i];
        sl2vl.rows_mut()[i] = if dice.random_bool(0.5) { old.with(sl, vl) } else { SlVlRow::uniform(vl) };
    }
    if dice.random_bool(0.2) {
        // An SL that all rows drop.
        let sl = Sl(dice.random_range(0..16));
        sl2vl.rows_mut().iter_mut().for_each(|row| *row = row.with(sl, Vl(15)));
    }
    if dice.random_bool(0.15) {
        // SLs that adapters do not send.
        let mut row = row(dice);
        for _ in 0..dice.random_range(1..4) {
            row = row.with(Sl(dice.random_range(0..16)), Vl(15));
        }
        sl2vl.set_adapters(row);
    }
    sl2vl
}

pub(super) fn path_sl(f: &Fabric, dice: &mut Dice) -> PathSl {
    let classes = dice.random_bool(0.3).then(|| {
        let (classes, vl_sets) = (dice.random_range(1..=3), dice.random_range(1..=2));
        Classes { classes, vl_sets, vls: 1, sls: dice.random_range(1..=2) }
    });
    let sls = classes.map_or(dice.random_range(1..=16), |c| c.sls);
    let unknown = dice.random_bool(0.3);
    let table = |rows: usize, dice: &mut Dice| -> Vec<u8> {
        let sl = |_| match dice.random_range(0..20) {
            0 if unknown => PathSl::UNKNOWN,
            _ => dice.random_range(0..sls),
        };
        (0..rows * f.lid_table_len()).map(sl).collect()
    };
    let own = match dice.random_range(0..5) {
        0 => PathSl::Any(1 << dice.random_range(0..16)),
        1 => PathSl::Any(dice.random_range(1..=u16::MAX)),
        2 => PathSl::BySwitch(table(f.num_switches(), dice)),
        3 => {
            let n = f.num_switches();
            let mut pairs = table(n, dice);
            pairs.resize(n * n, 0);
            if dice.random_bool(0.5) {
                (0..n * n).for_each(|i| pairs[i] = pairs[i.max(i % n * n + i / n)]);
            }
            PathSl::BySwitchPair(SwitchPairs::new(f, pairs))
        }
        _ => PathSl::ByEndPort(table(f.endports().len(), dice)),
    };
    let Some(classes) = classes else { return own };
    let vl_set_of = (0..f.lid_table_len()).map(|_| dice.random_range(0..classes.vl_sets)).collect();
    let vl_set_of = if classes.vl_sets == 1 { Vec::new() } else { vl_set_of };
    PathSl::Classes(ClassSl { classes, own: Box::new(own), vl_set_of })
}

/// Groups on trees, some with ports removed or added.
pub(super) fn multicast(f: &Fabric, dice: &mut Dice) -> Vec<McastGroup> {
    let groups = [0, 0, 1, 2, 3][dice.random_range(0..5)];
    let group = |i: u16| {
        let mut sets = vec![PortSet::default(); f.num_switches()];
        let mut inside = vec![SwitchId::at(dice.random_range(0..f.num_switches()))];
        for _ in 0..dice.random_range(0..=2 * f.num_switches()) {
            let rim = inside.iter().flat_map(|&s| f.channels().out(s)).map(|(_, c)| c);
            let rim: Vec<_> = rim.filter(|c| !inside.contains(&c.to)).collect();
            if let Some(c) = rim.choose(dice) {
                sets[c.from.index()].insert(c.out_port);
                sets[c.to.index()].insert(c.in_port);
                inside.push(c.to);
            }
        }
        // Channels used in one direction only: two paths may meet again.
        if dice.random_bool(0.2) {
            for c in f.channels().as_slice().iter().filter(|c| c.from < c.to) {
                if dice.random_bool(0.7) {
                    sets[c.from.index()].insert(c.out_port);
                    sets[c.to.index()].remove(c.in_port);
                    inside.push(c.to);
                }
            }
        }
        for (s, port) in f.endports().iter().filter_map(|e| e.attachment) {
            if inside.contains(&s) && dice.random_bool(0.5) {
                sets[s.index()].insert(port);
            }
        }
        for _ in 0..[0, 0, 0, 1, 3][dice.random_range(0..5)] {
            let s = SwitchId::at(dice.random_range(0..f.num_switches()));
            let channels: Vec<_> = f.channels().out(s).map(|(_, c)| c).collect();
            match (channels.choose(dice), dice.random_range(0..4)) {
                (Some(c), 0) => sets[s.index()].remove(c.out_port),
                (Some(c), 1) => sets[s.index()].insert(c.out_port),
                (Some(c), 2) => {
                    sets[s.index()].insert(c.out_port);
                    sets[c.to.index()].insert(c.in_port);
                }
                _ => sets[s.index()].insert(PortNum(dice.random_range(0..20))),
            }
        }
        let sls = [None, Some(1), Some(1 << dice.random_range(0..16)), Some(dice.random())];
        McastGroup {
            mlid: McastGroup::FIRST_MLID + i,
            sls: sls[dice.random_range(0..4)],
            ports: f.switch_ids().zip(sets).filter(|(_, set)| !set.is_empty()).collect(),
        }
    };
    (0..groups).map(group).collect()
}

/// Most untrusted ports have rows that drop the packets that arrive by them.
fn kept_back(f: &Fabric, mut rows: Sl2Vl, dice: &mut Dice) -> Sl2Vl {
    for s in f.switch_ids() {
        for i in (0..f.switch(s).ports.len()).filter(|&i| f.switch(s).ports[i].untrusted) {
            if dice.random_bool(0.7) {
                for o in 0..f.switch(s).ports.len() {
                    rows.set(s, PortNum(i as u8), PortNum(o as u8), SlVlRow::uniform(Vl(15)));
                }
            }
        }
    }
    rows
}

pub(super) fn case(dice: &mut Dice) -> (Fabric, Routes) {
    let f = fabric(dice);
    let mut lft = trees(&f, dice);
    for _ in 0..[0, 0, 0, 1, 2, 8][dice.random_range(0..6)] {
        let s = SwitchId::at(dice.random_range(0..f.num_switches()));
        let lids: Vec<Lid> =
            f.endports().iter().filter(|e| e.attachment.is_some()).flat_map(|e| e.lids()).collect();
        let lid = *lids.choose(dice).expect("that of a switch");
        let channels: Vec<_> = f.channels().out(s).map(|(_, c)| c.out_port).collect();
        match (dice.random_range(0..5), channels.choose(dice)) {
            (0, _) => lft.clear(s, lid),
            (1, _) => lft.set(s, lid, PortNum(dice.random_range(0..16))),
            (2, _) => lft.set(s, lid, PortNum(dice.random())),
            (_, Some(&port)) => lft.set(s, lid, port),
            (_, None) => {}
        }
    }
    let routes = Routes {
        engine: "random".into(),
        lft,
        sl2vl: kept_back(&f, sl2vl(&f, dice), dice),
        path_sl: path_sl(&f, dice),
        vlarb: VlArb::fair(1),
        multicast: multicast(&f, dice),
        port_sets: None,
        remarks: Vec::new(),
    };
    (f, routes)
}

fn sizes(dice: &mut Dice) -> Sizes {
    Sizes {
        block: *[1, 2, 3, 7, 64].choose(dice).expect("some"),
        rows: *[1, 5, 100, 1 << 16].choose(dice).expect("some"),
        tile: *[1, 2, 3, 64].choose(dice).expect("some"),
    }
}

/// Both judges agree on random tables, and each result occurs for many of them.
#[test]
fn agrees_with_the_reference() {
    let mut said = std::collections::BTreeMap::new();
    for seed in cases(3000) {
        let mut dice = Dice::seed_from_u64(seed);
        let (f, r) = case(&mut dice);
        let sl = Sl(dice.random_range(0..16));
        let policies =
            [SlPolicy::AsTold, SlPolicy::AsTold, SlPolicy::Fixed(sl), SlPolicy::Any, SlPolicy::WithReplies];
        let (policy, sizes) = (*policies.choose(&mut dice).expect("some"), sizes(&mut dice));
        let ask = || {
            let v = compare(&f, &r, policy, sizes);
            let safety =
                (policy == SlPolicy::AsTold && seed % 3 == 0).then(|| compare_safety(&f, &r, &v, sizes));
            (v, safety)
        };
        let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(ask));
        let (v, safety) = asked.unwrap_or_else(|_| panic!("seed {seed}, {policy:?}, {sizes:?}"));
        let mut note = |what: &'static str, holds: bool| *said.entry((what, holds)).or_insert(0) += 1;
        note("safe", v.is_safe());
        note("reachable", v.reachable);
        note("loop free", v.loop_free);
        note("deadlock free", v.deadlock_free);
        note("minimal", v.minimal);
        note("VLs legal", v.vls_legal);
        note("contained", v.contained);
        note("one component", v.cyclic_components == 1);
        if !v.deadlock_free {
            note("deadlock free between adapters", v.deadlock_free_adapters);
        }
        if let Some(m) = &v.multicast {
            note("multicast safe", m.is_safe());
            note("multicast loop free", m.loop_free);
            note("multicast reachable", m.reachable);
            note("multicast once", m.once);
            note("every SL for multicast", m.sls == u16::MAX);
            if v.deadlock_free {
                note("multicast deadlock free", m.deadlock_free);
            }
        }
        for w in &v.witnesses {
            match w {
                Witness::Multicast(McastFault::CreditLoop(_)) => note("multicast credit loop", true),
                Witness::Multicast(McastFault::NoVl { .. }) => note("no VL for multicast", true),
                Witness::Multicast(McastFault::Unsent { .. }) => note("multicast is not sent", true),
                Witness::Multicast(McastFault::Twice { .. }) => {
                    let loop_free = v.multicast.as_ref().is_some_and(|m| m.loop_free);
                    note("twice without a loop", loop_free);
                }
                Witness::Unreachable { fault: Fault::Unsent, .. } => note("not sent", true),
                _ => {}
            }
        }
        if let Some(safety) = safety {
            note("safe with SL 0", safety.sl_zero);
            note("safe with replies", safety.replies);
            note("safe with any SL", safety.any);
        }
    }
    let both = said.keys().filter(|(_, holds)| *holds).count();
    assert!(
        some_cases().is_some() || both == 23 && said.len() == 2 * both - 4 && said.values().all(|&n| n >= 20),
        "{said:#?}"
    );
}
