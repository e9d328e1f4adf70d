//! The judge against the [reference](super::reference): each field of the verdict and each witness.

use std::collections::BTreeSet;

use serde_json::json;

use super::reference::{self, End, Lane, Truth, Walk, operates};
use crate::fabric::{ChannelId, EndPortId, Fabric, NodeId, PortNum, Sl, SwitchId, Vl};
use crate::tables::Routes;
use crate::verify::minimal::Minimal;
use crate::verify::policy::{Pairs, Senders};
use crate::verify::safety::sl_safety_in;
use crate::verify::{
    Cause, Fault, McastFault, Packet, Plan, Sizes, SlPolicy, SlSafety, Verdict, Witness, cyclic_components,
    destinations, verify_in,
};

/// Both judges give the same verdict on some tables, and the witnesses are true.
pub(super) fn compare(f: &Fabric, r: &Routes, policy: SlPolicy, sizes: Sizes) -> Verdict {
    let (v, t) = (verify_in(f, r, policy, sizes), Truth::of(f, r, policy));
    assert_eq!(v.reachable, !t.unreachable);
    assert_eq!(v.loop_free, !t.looping);
    assert_eq!(v.vls_legal, !t.illegal);
    assert_eq!(v.contained, !t.foreign);
    assert_eq!(v.deadlock_free, t.deadlock_free());
    assert_eq!(v.deadlock_free_adapters, reference::without_dead_ends(t.waits_adapters.clone()).is_empty());
    assert_eq!(v.cyclic_components, t.cyclic_components);
    assert_eq!((v.virtual_channels, v.dependencies), (t.lanes.len(), t.waits.len()));
    let counts = [&t.vls, &t.vls_all, &t.sls, &t.sls_all].map(BTreeSet::len);
    assert_eq!([v.vls, v.vls_all, v.sls, v.sls_all].map(|n| n as usize), counts);
    assert_eq!((v.diameter, v.diameter_all), (t.diameter, t.diameter_all));

    if policy == SlPolicy::AsTold {
        let sets = cyclic_components(f, r);
        assert_eq!(sets.members.len(), reference::components(&t.waits_adapters));
        let first = sets.shortest.first().map(|&(channel, vl)| lane(f, channel, vl));
        assert_eq!(first.is_none(), v.deadlock_free_adapters);
        let length = first.map_or(0, |first| reference::shortest(&t.waits_adapters, first));
        assert_eq!(sets.shortest.len(), length);
    }

    let detours = t.pairs.iter().filter(|(hops, least)| hops > least).count();
    let mean = |of: &dyn Fn(&(u16, u16)) -> f64| t.pairs.iter().map(of).sum::<f64>() / t.pairs.len() as f64;
    assert_eq!((v.pairs, v.minimal), (t.pairs.len() as u64, detours == 0));
    assert_eq!(v.max_hops, t.pairs.iter().map(|p| p.0).max().unwrap_or(0));
    let means = if t.pairs.is_empty() {
        [0.0, 0.0, 1.0]
    } else {
        let stretch = mean(&|p| f64::from(p.0 + 1) / f64::from(p.1 + 1));
        [mean(&|p| f64::from(p.0)), mean(&|p| f64::from(p.0 > p.1)), stretch]
    };
    for (said, is) in [v.mean_hops, v.nonminimal_share, v.mean_stretch].into_iter().zip(means) {
        assert!((said - is).abs() < 1e-9, "{said} {is}");
    }

    let multicast = multicast(f, r, &v, &t);
    assert_eq!(v.is_safe(), t.is_safe() && multicast);
    let holds = [v.reachable, v.loop_free, v.deadlock_free, v.vls_legal, v.contained, v.minimal];
    let unicast = v.witnesses.iter().filter(|w| !matches!(w, Witness::Multicast(_))).count();
    assert_eq!(unicast, holds.iter().filter(|h| !**h).count(), "a witness each");
    assert_eq!(v.witness(), v.witnesses.first());
    v.witnesses.iter().for_each(|w| is_true(f, r, policy, &t, w));
    is_written(f, &v);
    the_fast_case_handles_all_that_it_can(f, r, policy, &t, sizes);
    v
}

/// The fast case handles all LIDs that it can: those that every switch sends packets to one hop nearer, with
/// no packet from another switch dropped on its path.
fn the_fast_case_handles_all_that_it_can(f: &Fabric, r: &Routes, policy: SlPolicy, t: &Truth, sizes: Sizes) {
    let plan = Plan::new(f, r, policy, Pairs::All, sizes);
    let silent = f.switch_ids().any(|s| f.endports_on(s).is_empty());
    let mut minimal = Minimal::new(f.num_switches(), sizes.tile);
    let distance = reference::distances(f);
    for block in destinations(f).chunks(sizes.block) {
        let closer = match Senders::new(&plan, block).0 {
            Senders::Same(_) => minimal.run(&plan, block).1,
            // What a switch without LIDs would send counts as well.
            Senders::BySwitch(sls) if !silent => minimal.run_by_switch(&plan, block, &sls).1,
            Senders::BySwitch(_) | Senders::ByEndPort(_) => return,
        };
        for (i, d) in block.iter().enumerate() {
            let near = f.endports().iter().enumerate().all(|(e, from)| {
                let Some((s, _)) = from.attachment.filter(|_| EndPortId::at(e) != d.owner) else {
                    return true;
                };
                let to = f.endport(d.owner);
                let plain = reference::walk(f, r, from, to, d.lid, 0);
                let sls = reference::sls(f, r, policy, EndPortId::at(e), d.owner, d.lid).1;
                let dropped = |sl: u8| reference::walk(f, r, from, to, d.lid, sl).dropped;
                plain.end == End::Home
                    && distance[s.index()][d.root] == Some(plain.hops)
                    && (s.index() == d.root || !sls.into_iter().any(dropped))
            });
            let connected = distance[d.root].iter().all(Option::is_some);
            let near = near && !silent;
            assert_eq!(closer >> i & 1 == 0, near && connected, "LID {}, {}", d.lid, t.unreachable);
        }
    }
}

/// The verdict as JSON and the texts of its witnesses agree with their contents.
fn is_written(f: &Fabric, v: &Verdict) {
    let json = v.to_json(f);
    let holds = [
        ("safe", v.is_safe()),
        ("deadlock_free", v.deadlock_free),
        ("deadlock_free_adapters", v.deadlock_free_adapters),
        ("reachable", v.reachable),
        ("loop_free", v.loop_free),
        ("vls_legal", v.vls_legal),
        ("contained", v.contained),
        ("minimal", v.minimal),
    ];
    assert!(holds.into_iter().all(|(key, holds)| json[key] == holds));
    assert_eq!(json["multicast_deadlock_free"].as_bool(), v.multicast.as_ref().map(|m| m.deadlock_free));
    let of =
        |node: NodeId| json!({ "name": f.node(node).description, "guid": f.node(node).guid.to_string() });
    let packet = |p: &Packet| {
        let (from, to) = (f.endport(p.source), f.endport(f.owner_of(p.dlid).expect("a LID in use")));
        let words = format!(
            "a packet from {} port {} to {} LID {} with SL {}",
            f.describe(from.node),
            from.port,
            f.describe(to.node),
            p.dlid,
            p.sl.0
        );
        let json = json!({
            "source": of(from.node), "source_port": from.port.0, "source_lid": from.lid.get(),
            "destination": of(to.node), "dlid": p.dlid.get(), "sl": p.sl.0,
        });
        (words, json)
    };
    let channel = |c: ChannelId, vl: Vl| format!("{} VL {}", f.describe_channel(c), vl.0);
    for (i, w) in v.witnesses.iter().enumerate() {
        let (text, json) = (w.explain(f), &json["witnesses"][i]);
        let (kind, parts) = match w {
            Witness::Unreachable { packet: p, at, fault } => {
                let why = match fault {
                    Fault::NoEntry => "there is no entry".to_owned(),
                    Fault::NoLink(port) => format!("out of port {port}, which has no live cable"),
                    Fault::BackToItself(port) => format!("out of port {port}, whose cable leads back"),
                    Fault::WrongNode(port, node) => format!("out of port {port} to {}", f.describe(*node)),
                    Fault::Loop(switches) => format!("returns after {} hops", switches.len()),
                    Fault::Vl15(a, b) => format!("maps to VL 15 from port {a} to port {b}"),
                    Fault::Unsent => format!("its sender maps SL {} to VL 15", p.sl.0),
                };
                assert_eq!(json["packet"], packet(p).1);
                assert!(json["reason"].as_str().is_some_and(|reason| reason.contains(&why)));
                ("unreachable", vec![packet(p).0, f.describe_switch(*at), why])
            }
            Witness::Loop { packet: p, switches } => {
                let mut parts: Vec<String> = switches.iter().map(|&s| f.describe_switch(s)).collect();
                parts.push(packet(p).0);
                ("loop", parts)
            }
            Witness::CreditLoop(waits) => {
                let parts = waits.iter().enumerate().map(|(i, a)| {
                    let b = &waits[(i + 1) % waits.len()];
                    let words = packet(&a.packet).0;
                    let (a, b) = (channel(a.channel, a.vl), channel(b.channel, b.vl));
                    format!("\n  {a}\n    waits for {b} because of {words}")
                });
                ("credit_loop", parts.collect())
            }
            Witness::IllegalVl { wait, data_vls } => {
                let c = f.channels().get(wait.channel);
                assert_eq!(json["channel"]["from"], of(f.switch_node_id(c.from)));
                let on = format!("on VL {}, but the link operates only {data_vls}", wait.vl.0);
                ("illegal_vl", vec![packet(&wait.packet).0, f.describe_channel(wait.channel), on])
            }
            Witness::AdaptiveCreditLoop(_) | Witness::AdaptiveDeadEnd { .. } | Witness::AdaptiveVl { .. } => {
                unreachable!("these tables have one next hop")
            }
            Witness::Foreign { at, in_port, out_port, sl } => {
                assert_eq!((&json["at"], &json["in_port"]), (&of(f.switch_node_id(*at)), &json!(in_port.0)));
                let words = [format!("SL {} that", sl.0), format!("port {out_port}"), f.describe_switch(*at)];
                ("foreign", words.to_vec())
            }
            Witness::Detour { packet: p, hops, minimal } => {
                ("detour", vec![packet(p).0, format!("{hops} hops between switches where {minimal}")])
            }
            Witness::Multicast(McastFault::Loop { mlid, channels }) => {
                let mut parts: Vec<String> = channels.iter().map(|&c| f.describe_channel(c)).collect();
                parts.push(format!("0x{mlid:04x}"));
                ("multicast_loop", parts)
            }
            Witness::Multicast(McastFault::Unreachable { from, to, .. }) => {
                let end = |e: EndPortId| f.describe(f.endport(e).node);
                ("multicast_unreachable", vec![end(*from), end(*to)])
            }
            Witness::Multicast(McastFault::Twice { from, to, .. }) => {
                let end = |e: EndPortId| f.describe(f.endport(e).node);
                ("multicast_twice", vec![end(*from), format!("reach {}", end(*to))])
            }
            Witness::Multicast(McastFault::Unsent { mlid, sl, from }) => {
                let group = format!("0x{mlid:04x} with SL {} ", sl.0);
                ("multicast_unsent", vec![group, f.describe(f.endport(*from).node)])
            }
            Witness::Multicast(McastFault::NoVl { at, .. }) => {
                ("multicast_no_vl", vec![f.describe_switch(*at)])
            }
            Witness::Multicast(McastFault::CreditLoop(waits)) => {
                let parts = waits.iter().enumerate().map(|(i, a)| {
                    let b = &waits[(i + 1) % waits.len()];
                    let (a, b) = (channel(a.channel, a.vl), channel(b.channel, b.vl));
                    format!("\n  {a}\n    waits for {b} because of")
                });
                ("multicast_credit_loop", parts.collect())
            }
        };
        assert_eq!((&json["kind"], &json["text"]), (&json!(kind), &json!(text)));
        assert!(parts.iter().all(|part| text.contains(part)), "{text}: {parts:?}");
    }
}

/// Both judges agree on which habits of applications are safe.
pub(super) fn compare_safety(f: &Fabric, r: &Routes, verdict: &Verdict, sizes: Sizes) -> SlSafety {
    let safe = |policy| Truth::of(f, r, policy).is_safe();
    let truth = SlSafety {
        sl_zero: safe(SlPolicy::Fixed(Sl(0))),
        replies: safe(SlPolicy::WithReplies),
        any: safe(SlPolicy::Any),
    };
    let said = sl_safety_in(f, r, verdict, sizes);
    assert_eq!(said, truth);
    let json = json!({ "sl_0": truth.sl_zero, "replies": truth.replies, "any": truth.any });
    assert_eq!(said.to_json(), json);
    let words = [truth.sl_zero, truth.replies, truth.any].map(|holds| if holds { "yes" } else { "NO" });
    let said = said.describe();
    assert!(said.split(", ").zip(words).all(|(part, word)| part.ends_with(word)), "{said}");
    truth
}

/// Whether multicast is safe; both judges agree on it.
fn multicast(f: &Fabric, r: &Routes, v: &Verdict, t: &Truth) -> bool {
    let Some(m) = &v.multicast else {
        assert!(r.multicast.is_empty());
        return true;
    };
    let serve = |sls: u16| reference::sls_serve(f, r, &t.waits, sls);
    assert_eq!(m.groups, r.multicast.len());
    assert_eq!(m.loop_free, !r.multicast.iter().any(|g| reference::loops(f, g)));
    assert_eq!(m.reachable, r.multicast.iter().all(|g| reference::missed(f, g).is_empty()));
    assert_eq!(m.once, r.multicast.iter().all(|g| reference::twice(f, g).is_empty()));
    let wanted = r.multicast.iter().fold(0, |all, g| all | g.sls.unwrap_or(1));
    assert_eq!(m.deadlock_free, serve(wanted));
    // The set of SLs is maximal: no other SL fits.
    let able = r.multicast.iter().fold(0, |all, g| all | g.sls.unwrap_or(u16::MAX));
    assert_eq!(m.sls & !able, 0);
    if v.deadlock_free {
        assert!(serve(m.sls));
        for sl in (0..16).filter(|sl| able & !m.sls & 1 << sl != 0) {
            assert!(!serve(m.sls | 1 << sl), "SL {sl} would fit in with {:016b}", m.sls);
        }
    } else {
        assert_eq!(m.sls, 0);
    }
    assert!(m.sl_numbers().into_iter().eq((0..16).filter(|sl| m.sls >> sl & 1 != 0)));
    let count = |of: fn(&McastFault) -> bool| {
        v.witnesses.iter().filter(|w| matches!(w, Witness::Multicast(fault) if of(fault))).count()
    };
    assert_eq!(count(|w| matches!(w, McastFault::Loop { .. })), usize::from(!m.loop_free));
    assert_eq!(count(|w| matches!(w, McastFault::Unreachable { .. })), usize::from(!m.reachable));
    assert_eq!(count(|w| matches!(w, McastFault::Twice { .. })), usize::from(!m.once));
    let no_vl = |w: &McastFault| matches!(w, McastFault::NoVl { .. } | McastFault::Unsent { .. });
    let no_sl = count(|w| matches!(w, McastFault::CreditLoop(_))) + count(no_vl);
    assert!(no_sl <= 2 && (no_sl == 0) == (m.deadlock_free || !v.deadlock_free && no_sl == 0), "{m:?}");
    m.loop_free && m.reachable && m.once && m.deadlock_free
}

fn send(f: &Fabric, r: &Routes, p: &Packet) -> Walk {
    let owner = f.owner_of(p.dlid).expect("a LID in use");
    reference::walk(f, r, f.endport(p.source), f.endport(owner), p.dlid, p.sl.0)
}

fn lane(f: &Fabric, channel: ChannelId, vl: Vl) -> Lane {
    let c = f.channels().get(channel);
    (c.from.index(), c.out_port.0, vl.0)
}

/// Each lane ends at the switch where the next begins.
fn assert_cycle(f: &Fabric, lanes: &[Lane]) {
    assert!(lanes.len() > 1);
    for (i, a) in lanes.iter().enumerate() {
        let b = lanes[(i + 1) % lanes.len()];
        assert_eq!(reference::next(f, a.0, a.1).map(|(to, _)| to), Some(b.0));
    }
}

fn is_true(f: &Fabric, r: &Routes, policy: SlPolicy, t: &Truth, w: &Witness) {
    let walk_of = |p: &Packet| {
        let owner = f.owner_of(p.dlid).expect("a LID in use");
        assert_ne!(owner, p.source);
        assert!(reference::sls(f, r, policy, p.source, owner, p.dlid).1.contains(&p.sl.0), "SL in use");
        send(f, r, p)
    };
    let adapters = |p: &Packet| {
        let owner = f.owner_of(p.dlid).expect("a LID in use");
        f.endport(p.source).is_adapter() && f.endport(owner).is_adapter()
    };
    match w {
        Witness::Unreachable { packet, at, fault } => {
            let walk = walk_of(packet);
            let end = match fault {
                Fault::Loop(_) => End::Loop,
                Fault::Vl15(in_port, out) => {
                    let row = r.sl2vl.row(*at, *in_port, *out);
                    assert!(walk.dropped && row.get(packet.sl) == Vl(15));
                    assert_eq!(r.lft.get(*at, packet.dlid), Some(*out));
                    End::Home
                }
                Fault::Unsent => {
                    let from = f.endport(packet.source);
                    assert_eq!(from.attachment.map(|(s, _)| s), Some(*at));
                    assert!(reference::withheld(r, from, packet.sl.0));
                    End::Home
                }
                dead => {
                    let fault = reference::dead_end(f, r, *at, packet.dlid);
                    assert_eq!(*dead, fault);
                    End::Dead
                }
            };
            assert_eq!(walk.end, end);
        }
        Witness::Loop { packet, switches } => {
            assert_eq!(walk_of(packet).end, End::Loop);
            let out = |s: SwitchId| r.lft.get(s, packet.dlid).expect("an entry");
            assert_cycle(f, &switches.iter().map(|&s| (s.index(), out(s).0, 0)).collect::<Vec<_>>());
        }
        Witness::AdaptiveCreditLoop(_) | Witness::AdaptiveDeadEnd { .. } | Witness::AdaptiveVl { .. } => {
            unreachable!("these tables have one next hop")
        }
        Witness::CreditLoop(waits) => {
            let adapters_alone = !reference::without_dead_ends(t.waits_adapters.clone()).is_empty();
            let graph = if adapters_alone { &t.waits_adapters } else { &t.waits };
            let first = lane(f, waits[0].channel, waits[0].vl);
            assert_eq!(waits.len(), reference::shortest(graph, first), "the shortest of its component");
            for (i, a) in waits.iter().enumerate() {
                let b = &waits[(i + 1) % waits.len()];
                let pair = [lane(f, a.channel, a.vl), lane(f, b.channel, b.vl)];
                assert_eq!(walk_of(&a.packet).end, End::Home);
                assert!(walk_of(&a.packet).lanes.windows(2).any(|w| w == pair), "{}", w.explain(f));
                // A packet between adapters is the better witness.
                assert!(adapters(&a.packet) || !t.waits_adapters.contains(&(pair[0], pair[1])));
            }
        }
        Witness::IllegalVl { wait, data_vls } => {
            let used = lane(f, wait.channel, wait.vl);
            assert_eq!(*data_vls, operates(f, used.0, used.1));
            assert_eq!(walk_of(&wait.packet).end, End::Home);
            assert!(wait.vl.0 >= *data_vls && walk_of(&wait.packet).lanes.contains(&used));
        }
        Witness::Foreign { at, in_port, out_port, sl } => {
            assert!(f.switch(*at).ports[in_port.index()].untrusted);
            assert!(reference::next(f, at.index(), out_port.0).is_some());
            assert_ne!(r.sl2vl.row(*at, *in_port, *out_port).get(*sl), Vl(15));
        }
        Witness::Detour { packet, hops, minimal } => {
            let walk = walk_of(packet);
            assert!(adapters(packet) && minimal < hops);
            assert_eq!((walk.end, walk.hops), (End::Home, *hops));
            let at = |e: EndPortId| f.endport(e).attachment.expect("on a switch").0.index();
            let owner = f.owner_of(packet.dlid).expect("a LID in use");
            assert_eq!(reference::distances(f)[at(packet.source)][at(owner)], Some(*minimal));
        }
        Witness::Multicast(fault) => is_true_of_groups(f, r, policy, fault),
    }
}

fn is_true_of_groups(f: &Fabric, r: &Routes, policy: SlPolicy, fault: &McastFault) {
    let group = |mlid: u16| r.multicast.iter().find(|g| g.mlid == mlid).expect("a group");
    match fault {
        McastFault::Loop { mlid, channels } => {
            let lanes: Vec<Lane> = channels.iter().map(|&c| lane(f, c, Vl(0))).collect();
            assert_cycle(f, &lanes);
            let followers = reference::followers(f, group(*mlid));
            for (i, &(s, out, _)) in lanes.iter().enumerate() {
                let b = lanes[(i + 1) % lanes.len()];
                let follows = followers.iter().any(|(c, d)| (c.0, c.2, d.0, d.2) == (s, out, b.0, b.1));
                assert!(follows, "{channels:?}");
            }
        }
        McastFault::Unreachable { mlid, from, to } => {
            assert!(reference::missed(f, group(*mlid)).contains(&(*from, *to)));
        }
        McastFault::Twice { mlid, from, to } => {
            assert!(reference::twice(f, group(*mlid)).contains(&(*from, *to)));
        }
        McastFault::Unsent { mlid, sl, from } => {
            let g = group(*mlid);
            assert!(g.sls.is_none_or(|sls| sls >> sl.0 & 1 != 0) && reference::unsent(f, r, g, sl.0));
            assert!(reference::withheld(r, f.endport(*from), sl.0));
            assert!(f.endport(*from).attachment.is_some_and(|(s, _)| !g.at(s).is_empty()));
        }
        McastFault::NoVl { mlid, sl, at, port } => {
            let g = group(*mlid);
            assert!(g.sls.is_none_or(|sls| sls >> sl.0 & 1 != 0));
            let ends = f.endports().iter().filter_map(|e| e.attachment);
            let copies = ends.flat_map(|(s, port)| reference::copies(f, g, s.index(), port.0));
            let mut here = copies.filter(|c| (c.0, c.2) == (at.index(), port.0));
            assert!(here.any(|c| reference::impossible(f, r, c, sl.0)));
        }
        McastFault::CreditLoop(waits) => {
            for (i, a) in waits.iter().enumerate() {
                let b = &waits[(i + 1) % waits.len()];
                let (first, second) = (lane(f, a.channel, a.vl), lane(f, b.channel, b.vl));
                match &a.cause {
                    Cause::Unicast(p) => {
                        let owner = f.owner_of(p.dlid).expect("a LID in use");
                        assert!(reference::sls(f, r, policy, p.source, owner, p.dlid).1.contains(&p.sl.0));
                        assert_eq!(send(f, r, p).end, End::Home);
                        assert!(send(f, r, p).lanes.windows(2).any(|w| w == [first, second]));
                    }
                    Cause::Multicast { mlid, source, sl } => {
                        let g = group(*mlid);
                        assert!(g.sls.is_none_or(|sls| sls >> sl.0 & 1 != 0));
                        let (s, port) = f.endport(*source).attachment.expect("on a switch");
                        let sent = reference::copies(f, g, s.index(), port.0);
                        let passes = |&(s, in_port, out): &(usize, u8, u8), lane: Lane| {
                            let vl = r.sl2vl.row(SwitchId::at(s), PortNum(in_port), PortNum(out)).get(*sl);
                            (s, out, vl.0) == lane
                        };
                        let turn = |c: &(usize, u8, u8)| {
                            let ahead = reference::next(f, c.0, c.2);
                            passes(c, first)
                                && sent.iter().any(|d| ahead == Some((d.0, d.1)) && passes(d, second))
                        };
                        assert!(sent.iter().any(turn));
                    }
                }
            }
        }
    }
}
