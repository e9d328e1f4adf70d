//! The engines of the literature: bare routings, and routings with VLs as printed.

use super::optimise::optimise;
use super::plan::{self, Parts, Plan, one_vl};
use super::{EngineError, Pairs, Settings, Task, Weights};
use crate::fabric::{Fabric, SwitchId, Vl};
use crate::lanes::{LaneLimits, Lanes, LanesError, Layered, df_d2, df_dn, layered, tree_lanes};
use crate::multicast::KnownOrder;
use crate::ordering::{
    Layers, LinkSort, Rank, Rule, Tree, VirtualChannelOrder, ordered_trees, up_down_layers, up_down_rank,
};
use crate::routing::{self, Hops, Lookahead, NoLegalPath, PairOrder};
use crate::tables::{Lft, PathSl};

/// The remark for [`PathSl::Any`].
const ONE_SL: &str = "one SL suffices: no host has to query PathRecords, and every SL is safe";

/// Locally balanced minimal hops.
pub(super) fn minhop(Task { fabric, hops, settings, .. }: Task<'_>) -> Result<Plan, EngineError> {
    Ok(bare(fabric, settings, routing::minhop(fabric, hops)))
}

/// P-SSSP (Hoefler et al.).
pub(super) fn sssp(Task { fabric, hops, settings, .. }: Task<'_>) -> Result<Plan, EngineError> {
    let lft = match settings.weights {
        Weights::Minimal => routing::sssp(fabric, hops),
        Weights::One => routing::sssp_of_any_length(fabric),
    };
    Ok(bare(fabric, settings, lft))
}

/// P²-SSSP (Hoefler et al.).
pub(super) fn p2sssp(Task { fabric, hops, settings, .. }: Task<'_>) -> Result<Plan, EngineError> {
    let order = match settings.pairs {
        Pairs::Guid => PairOrder::Guid,
        Pairs::Random => PairOrder::Random(settings.draw_seed.into()),
    };
    Ok(bare(fabric, settings, routing::p2sssp(fabric, hops, order)?))
}

/// A routing without VLs: any equally long path will do.
fn bare(fabric: &Fabric, settings: &Settings, mut lft: Lft) -> Plan {
    let mut remarks = Vec::new();
    optimise(fabric, settings, &mut lft, &mut remarks, |_, _, _| true);
    Plan { remarks, ..Plan::bare(fabric, lft) }
}

/// P-SSSP with DF-D2 (Schneider et al.): refused if adapters are more than two channels apart.
///
/// Packets from and to port 0 of switches may have longer paths, for example in an OFT. Then all paths obey an order
/// on VL 1. The first turn is free, so the order restricts no path of two channels.
pub(super) fn dfd2(Task { fabric, hops, settings, limits, .. }: Task<'_>) -> Result<Plan, EngineError> {
    let (all, between) = (usize::from(hops.diameter()), between_adapters(fabric, hops));
    if all <= 2 || between > 2 {
        let lanes = df_d2(fabric, all.min(between.max(3)), limits).map_err(too_few("dfd2"))?;
        let (mut lft, mut remarks) = (routing::sssp(fabric, hops), vec![sl_remark(&lanes)]);
        optimise(fabric, settings, &mut lft, &mut remarks, |_, _, _| true);
        let known = Some(by_vl(fabric, hops));
        return Ok(Plan::new(fabric, hops, limits, Parts { lft, lanes, known, remarks }));
    }
    let lanes = df_d2(fabric, 2, limits).map_err(too_few("dfd2"))?;
    let known = by_vl(fabric, hops);
    let rank = up_down_rank(fabric, plan::center(fabric, hops));
    let rule = Rule::FirstTurnFree(rank.clone());
    let stuck = NoLegalPath::Detour(known.trees.first());
    let mut lft = routing::ranked_sssp(fabric, hops, &rule, Lookahead::Every, stuck).lft;
    let port_0 = format!(
        "adapters are at most {between} channels apart: longer paths, up to {all} channels, have port 0 of a switch as \
         an end and obey an order on VL 1"
    );
    let mut remarks = vec![sl_remark(&lanes), port_0];
    // A turn that ascends may stand anywhere on a path.
    optimise(fabric, settings, &mut lft, &mut remarks, |_, a, b| rank.of(a) < rank.of(b));
    Ok(Plan::new(fabric, hops, limits, Parts { lft, lanes, known: Some(known), remarks }))
}

/// The largest distance between two switches with adapters.
fn between_adapters(fabric: &Fabric, hops: &Hops) -> usize {
    let with: Vec<SwitchId> = fabric.switch_ids().filter(|&s| fabric.num_adapters_on(s) > 0).collect();
    let farthest = |&s: &SwitchId| with.iter().map(|&t| hops.get(s, t)).max().unwrap_or(0);
    with.iter().map(farthest).max().unwrap_or(0).into()
}

/// An order for DF-D2 and DF-DN. Each channel of a path has a higher VL than the one before it, so the channels of one
/// VL may be in any order. This order has a tree.
fn by_vl(fabric: &Fabric, hops: &Hops) -> KnownOrder {
    let center = plan::center(fabric, hops);
    let around = up_down_rank(fabric, center);
    let trees = vec![Tree::new(fabric, &around, center)];
    KnownOrder { lanes: VirtualChannelOrder::new(vec![around]), trees, suffices: true }
}

/// P-SSSP with DF-DN (Schneider et al.), for any diameter.
pub(super) fn dfdn_sssp(Task { fabric, hops, settings, limits, .. }: Task<'_>) -> Result<Plan, EngineError> {
    with_df_dn("dfdn-paper", (fabric, hops, limits), settings, routing::sssp(fabric, hops))
}

/// MinHop with DF-DN (Schneider et al.), for any diameter.
pub(super) fn dfdn_minhop(
    Task { fabric, hops, settings, limits, .. }: Task<'_>,
) -> Result<Plan, EngineError> {
    with_df_dn("dfdn-paper-minhop", (fabric, hops, limits), settings, routing::minhop(fabric, hops))
}

fn with_df_dn(
    engine: &'static str,
    (fabric, hops, limits): (&Fabric, &Hops, LaneLimits),
    settings: &Settings,
    mut lft: Lft,
) -> Result<Plan, EngineError> {
    let mut remarks = Vec::new();
    optimise(fabric, settings, &mut lft, &mut remarks, |_, _, _| true);
    let lanes = df_dn(fabric, &lft, limits).map_err(too_few(engine))?;
    remarks.insert(0, sl_remark(&lanes));
    let known = Some(by_vl(fabric, hops));
    Ok(Plan::new(fabric, hops, limits, Parts { lft, lanes, known, remarks }))
}

/// Several up*/down* trees, each on its own VL (Flich et al.).
pub(super) fn updn_trees(Task { fabric, hops, settings, limits, .. }: Task<'_>) -> Result<Plan, EngineError> {
    if !(1..=Vl::MAX_DATA).contains(&settings.trees) {
        let value = settings.trees;
        return Err(EngineError::Setting { name: "trees", value, least: 1, most: Vl::MAX_DATA });
    }
    let routing::UpDnTrees { mut lft, roots, tree_of } = routing::updn_trees(fabric, hops, settings.trees);
    let lanes = tree_lanes(fabric, &tree_of, roots.len(), limits).map_err(too_few("updn-trees"))?;
    // A packet stays on the VL of its tree and goes up, then down.
    let ranks: Vec<Rank> = roots.iter().map(|&root| up_down_rank(fabric, root)).collect();
    let trees = ranks.iter().zip(&roots).map(|(rank, &root)| Tree::new(fabric, rank, root)).collect();
    let known = KnownOrder { lanes: VirtualChannelOrder::new(ranks), trees, suffices: true };
    let described: Vec<String> = roots.iter().map(|&r| fabric.describe_switch(r)).collect();
    let names = format!("{} up*/down* trees, root by SL and VL: {}", roots.len(), described.join(", "));
    let mut remarks = vec![sl_remark(&lanes), names];
    let layers: Vec<Layers> = roots.iter().map(|&root| up_down_layers(fabric, root)).collect();
    optimise(fabric, settings, &mut lft, &mut remarks, |lid, a, b| {
        layers[usize::from(tree_of[lid.index()])].allow(fabric, a, b)
    });
    Ok(Plan::new(fabric, hops, limits, Parts { lft, lanes, known: Some(known), remarks }))
}

/// P-SSSP with VLs until none is left, the rest by up*/down* (Hoefler et al., section III.D).
pub(super) fn sssp_layers(
    Task { fabric, hops, settings, limits, .. }: Task<'_>,
) -> Result<Plan, EngineError> {
    let mut lft = routing::sssp(fabric, hops);
    let mut remarks = Vec::new();
    optimise(fabric, settings, &mut lft, &mut remarks, |_, _, _| true);
    let root = routing::updn_roots(fabric, hops, 1).first().copied().unwrap_or(SwitchId(0));
    let rank = up_down_rank(fabric, root);
    let Layered { lanes, left, order } = layered(fabric, &lft, &rank, limits);
    remarks.insert(0, sl_remark(&lanes));
    if !left.is_empty() {
        let up_down = routing::updn_trees(fabric, hops, 1).lft;
        for &lid in &left {
            lft.to_mut(lid).copy_from_slice(up_down.to(lid));
        }
        let lids: usize = fabric.endports().iter().map(|end| end.lids().count()).sum();
        remarks.push(format!("the VLs are used up: up*/down* serves {} of {lids} LIDs", left.len()));
    }
    let trees = vec![Tree::new(fabric, &rank, root)];
    let known = Some(KnownOrder { lanes: order, trees, suffices: true });
    Ok(Plan::new(fabric, hops, limits, Parts { lft, lanes, known, remarks }))
}

/// APOT for forwarding tables (Chiu et al.).
pub(super) fn apot(Task { fabric, hops, settings, limits, .. }: Task<'_>) -> Result<Plan, EngineError> {
    let layers = ordered_trees(fabric, LinkSort::Guid);
    let lft = routing::apot(fabric, &layers);
    Ok(ordered((fabric, hops, limits), settings, LinkSort::Guid, &layers, lft))
}

/// BFOT (Chiu et al.).
pub(super) fn bfot(Task { fabric, hops, settings, limits, .. }: Task<'_>) -> Result<Plan, EngineError> {
    let layers = ordered_trees(fabric, LinkSort::Guid);
    let lft = routing::bfot(fabric, &layers);
    Ok(ordered((fabric, hops, limits), settings, LinkSort::Guid, &layers, lft))
}

/// BFOT+ (Chiu et al.).
pub(super) fn bfot_plus(Task { fabric, hops, settings, limits, .. }: Task<'_>) -> Result<Plan, EngineError> {
    let (sort, lft) = routing::bfot_plus(fabric);
    Ok(ordered((fabric, hops, limits), settings, sort, &ordered_trees(fabric, sort), lft))
}

/// Tables over ordered trees, which need one VL. Multicast may use the first tree.
fn ordered(
    (fabric, hops, limits): (&Fabric, &Hops, LaneLimits),
    settings: &Settings,
    sort: LinkSort,
    layers: &Layers,
    mut lft: Lft,
) -> Plan {
    let rank = Rank::by_key(fabric, |channel, _| layers.rank(channel));
    let tree = Tree::lowest(fabric, &rank, SwitchId(0));
    let known =
        Some(KnownOrder { lanes: VirtualChannelOrder::new(vec![rank]), trees: vec![tree], suffices: false });
    let mut remarks = vec![format!("ordered trees from links sorted by {sort}"), ONE_SL.to_owned()];
    optimise(fabric, settings, &mut lft, &mut remarks, |_, a, b| layers.allow(fabric, a, b));
    Plan::new(fabric, hops, limits, Parts { lft, lanes: one_vl(fabric), known, remarks })
}

/// The remark on the SLs of an assignment.
fn sl_remark(lanes: &Lanes) -> String {
    match lanes.path_sl {
        PathSl::Any(_) => ONE_SL,
        _ => "the SL depends on the path: hosts must query PathRecords",
    }
    .to_owned()
}

fn too_few(engine: &'static str) -> impl Fn(LanesError) -> EngineError {
    move |source| EngineError::Lanes { engine, source }
}
