//! The engine `dfdn`: one SL where that is to be had.
//!
//! See [`ordering`](crate::ordering) for the idea. This file is the strategy: which orders are tried
//! and what is preferred.

use super::{EngineError, Plan, Prefer, Settings};
use crate::fabric::{Fabric, Sl, SwitchId};
use crate::lanes::Offer;
use crate::ordering::{Rank, Rule, Tree, bfs, host_levels, triangles};
use crate::routing::{Hops, Probe, Stuck, probe, ranked_sssp};
use crate::tables::PathSl;

/// Destination switches that an order is tried on.
const SAMPLE: usize = 64;

/// A channel order with its name and the root of a tree that goes with it.
struct Candidate {
    name: String,
    rank: Rank,
    root: SwitchId,
}

/// Routes with [`Rule`]s found by a search.
pub(super) fn dfdn(
    fabric: &Fabric,
    hops: &Hops,
    offer: Offer,
    _settings: &Settings,
) -> Result<Plan, EngineError> {
    let targets = sample(fabric);
    let candidates = candidates(fabric, hops);
    let plain = probe(fabric, hops, &Rule::Any, &targets);
    let mut best: Option<((bool, u64, u8), Rule, &Candidate)> = None;
    for candidate in &candidates {
        for rule in [Rule::OneVl(candidate.rank.clone()), Rule::FirstTurnFree(candidate.rank.clone())] {
            if rule.vls() > offer.vls {
                continue;
            }
            let key = worth(&rule, probe(fabric, hops, &rule, &targets), plain);
            if best.as_ref().is_none_or(|(least, ..)| key < *least) {
                best = Some((key, rule, candidate));
            }
        }
    }
    let (_, rule, candidate) = best.expect("there is a candidate, and one VL is always offered");
    one_sl(fabric, hops, offer, rule, candidate).map(|(plan, _)| plan)
}

/// What is preferred, the least first.
fn worth(rule: &Rule, probe: Probe, plain: Probe) -> (bool, u64, u8) {
    let crowded = (probe.crowding / plain.crowding.max(1.0) - 1.0).max(0.0);
    let price = probe.broken + crowded.max(0.01) + probe.broken_switches / 100.0;
    (false, (price * 1e4) as u64, rule.vls())
}

fn one_sl(
    fabric: &Fabric,
    hops: &Hops,
    offer: Offer,
    rule: Rule,
    candidate: &Candidate,
) -> Result<(Plan, f64), EngineError> {
    let (rank, label) = match rule {
        Rule::OneVl(rank) => (rank, 0),
        Rule::FirstTurnFree(rank) => (rank, 1),
        _ => unreachable!(),
    };
    let make = |rank: Rank| if label == 0 { Rule::OneVl(rank) } else { Rule::FirstTurnFree(rank) };
    let tree = Tree::new(fabric, &rank, candidate.root);
    let mut rule = make(rank.clone());
    let mut ranked = ranked_sssp(fabric, hops, &rule, Stuck::Detour(None));
    if !ranked.complete {
        rule = make(tree.own_place(fabric, &rank));
        ranked = ranked_sssp(fabric, hops, &rule, Stuck::Detour(Some(&tree)));
    }
    let share = ranked.nonminimal_share();
    let remarks = vec![
        format!("{} with {} VLs, {share:.4} of the pairs on detours", candidate.name, rule.vls()),
        "one SL suffices: no host has to query PathRecords, and every SL is safe".to_owned(),
    ];
    let all = u16::MAX >> (Sl::COUNT - usize::from(offer.sls));
    Ok((
        Plan {
            lft: ranked.lft,
            sl2vl: rule.sl2vl(fabric),
            path_sl: PathSl::Any(all),
            vls: rule.vls(),
            remarks,
        },
        share,
    ))
}

fn sample(fabric: &Fabric) -> Vec<SwitchId> {
    let n = fabric.num_switches();
    let take = n.min(SAMPLE);
    (0..take).map(|i| SwitchId::at(i * n / take)).collect()
}

fn candidates(fabric: &Fabric, hops: &Hops) -> Vec<Candidate> {
    let most = fabric.switch_ids().map(|s| fabric.num_adapters_on(s)).max().unwrap_or(0);
    let middle =
        fabric.switch_ids().min_by_key(|&s| hops.row(s).iter().copied().max()).unwrap_or(SwitchId(0));
    let n = fabric.num_switches();
    let mut list = vec![
        Candidate { name: "host levels".into(), rank: host_levels(fabric, most.div_ceil(4)), root: middle },
        Candidate { name: "triangles".into(), rank: triangles(fabric, middle, false), root: middle },
        Candidate {
            name: "triangles, many first".into(),
            rank: triangles(fabric, middle, true),
            root: middle,
        },
        Candidate { name: "BFS from the middle".into(), rank: bfs(fabric, middle), root: middle },
    ];
    for i in 0..4 {
        let root = SwitchId::at(i * n / 4);
        list.push(Candidate { name: format!("BFS from {i}"), rank: bfs(fabric, root), root });
    }
    list
}
