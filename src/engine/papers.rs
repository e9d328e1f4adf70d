//! The engines from papers: bare routings, and VLs over them as printed.

use super::plan::{self, Parts, Plan, one_vl};
use super::{EngineError, Settings};
use crate::fabric::{Fabric, SwitchId, Vl};
use crate::lanes::{Lanes, LanesError, Offer, df_d2, df_dn, tree_lanes};
use crate::multicast::KnownOrder;
use crate::ordering::{Layers, LinkSort, Rank, Tree, VirtualChannelOrder, ordered_trees, up_down_rank};
use crate::routing::{self, Hops};
use crate::tables::{Lft, PathSl};

/// The remark for [`PathSl::Any`].
const ONE_SL: &str = "one SL suffices: no host has to query PathRecords, and every SL is safe";

/// Locally balanced minimal hops.
pub(super) fn minhop(fabric: &Fabric, hops: &Hops, _: &Settings, _: Offer) -> Result<Plan, EngineError> {
    Ok(Plan::bare(fabric, routing::minhop(fabric, hops)))
}

/// P-SSSP (Hoefler et al.).
pub(super) fn sssp(fabric: &Fabric, hops: &Hops, _: &Settings, _: Offer) -> Result<Plan, EngineError> {
    Ok(Plan::bare(fabric, routing::sssp(fabric, hops)))
}

/// P²-SSSP (Hoefler et al.).
pub(super) fn p2sssp(fabric: &Fabric, hops: &Hops, _: &Settings, _: Offer) -> Result<Plan, EngineError> {
    Ok(Plan::bare(fabric, routing::p2sssp(fabric, hops)?))
}

/// P-SSSP with DF-D2 (Schneider et al.), whatever the diameter: refused above two.
pub(super) fn dfd2(fabric: &Fabric, hops: &Hops, _: &Settings, offer: Offer) -> Result<Plan, EngineError> {
    let lanes = df_d2(fabric, usize::from(hops.diameter()), offer).map_err(too_few("dfd2"))?;
    let (lft, remarks) = (routing::sssp(fabric, hops), vec![sl_remark(&lanes)]);
    let known = Some(by_vl(fabric, hops));
    Ok(Plan::new(fabric, hops, offer, Parts { lft, lanes, known, remarks }))
}

/// The order of DF-D2 and DF-DN: each channel of a path has a higher VL than the one before it, so any order of
/// the channels of a VL will do. The one that is taken has a tree.
fn by_vl(fabric: &Fabric, hops: &Hops) -> KnownOrder {
    let center = plan::center(fabric, hops);
    let around = up_down_rank(fabric, center);
    let trees = vec![Tree::new(fabric, &around, center)];
    KnownOrder { lanes: VirtualChannelOrder::new(vec![around]), trees, suffices: true }
}

/// P-SSSP with DF-DN (Schneider et al.), whatever the diameter.
pub(super) fn dfdn_sssp(
    fabric: &Fabric,
    hops: &Hops,
    _: &Settings,
    offer: Offer,
) -> Result<Plan, EngineError> {
    with_df_dn("dfdn-paper", (fabric, hops, offer), routing::sssp(fabric, hops))
}

/// MinHop with DF-DN (Schneider et al.), whatever the diameter.
pub(super) fn dfdn_minhop(
    fabric: &Fabric,
    hops: &Hops,
    _: &Settings,
    offer: Offer,
) -> Result<Plan, EngineError> {
    with_df_dn("dfdn-paper-minhop", (fabric, hops, offer), routing::minhop(fabric, hops))
}

fn with_df_dn(
    engine: &'static str,
    (fabric, hops, offer): (&Fabric, &Hops, Offer),
    lft: Lft,
) -> Result<Plan, EngineError> {
    let lanes = df_dn(fabric, &lft, offer).map_err(too_few(engine))?;
    let remarks = vec![sl_remark(&lanes)];
    let known = Some(by_vl(fabric, hops));
    Ok(Plan::new(fabric, hops, offer, Parts { lft, lanes, known, remarks }))
}

/// Several up*/down* trees, each on its own VL (Flich et al.).
pub(super) fn updn_trees(
    fabric: &Fabric,
    hops: &Hops,
    settings: &Settings,
    offer: Offer,
) -> Result<Plan, EngineError> {
    if !(1..=Vl::MAX_DATA).contains(&settings.trees) {
        let value = settings.trees;
        return Err(EngineError::Setting { name: "trees", value, least: 1, most: Vl::MAX_DATA });
    }
    let routing::UpDnTrees { lft, roots, tree_of } = routing::updn_trees(fabric, hops, settings.trees);
    let lanes = tree_lanes(fabric, &tree_of, roots.len(), offer).map_err(too_few("updn-trees"))?;
    // A packet stays on the VL of its tree, where it goes up and then down.
    let ranks: Vec<Rank> = roots.iter().map(|&root| up_down_rank(fabric, root)).collect();
    let trees = ranks.iter().zip(&roots).map(|(rank, &root)| Tree::new(fabric, rank, root)).collect();
    let known = KnownOrder { lanes: VirtualChannelOrder::new(ranks), trees, suffices: true };
    let roots: Vec<String> = roots.iter().map(|&r| fabric.describe_switch(r)).collect();
    let names = format!("{} up*/down* trees, root by SL and VL: {}", roots.len(), roots.join(", "));
    let remarks = vec![sl_remark(&lanes), names];
    Ok(Plan::new(fabric, hops, offer, Parts { lft, lanes, known: Some(known), remarks }))
}

/// APOT for forwarding tables (Chiu et al.).
pub(super) fn apot(fabric: &Fabric, hops: &Hops, _: &Settings, offer: Offer) -> Result<Plan, EngineError> {
    let layers = ordered_trees(fabric, LinkSort::Guid);
    let lft = routing::apot(fabric, &layers);
    Ok(ordered((fabric, hops, offer), LinkSort::Guid, &layers, lft))
}

/// BFOT (Chiu et al.).
pub(super) fn bfot(fabric: &Fabric, hops: &Hops, _: &Settings, offer: Offer) -> Result<Plan, EngineError> {
    let layers = ordered_trees(fabric, LinkSort::Guid);
    let lft = routing::bfot(fabric, &layers);
    Ok(ordered((fabric, hops, offer), LinkSort::Guid, &layers, lft))
}

/// BFOT+ (Chiu et al.).
pub(super) fn bfot_plus(
    fabric: &Fabric,
    hops: &Hops,
    _: &Settings,
    offer: Offer,
) -> Result<Plan, EngineError> {
    let (sort, lft) = routing::bfot_plus(fabric);
    Ok(ordered((fabric, hops, offer), sort, &ordered_trees(fabric, sort), lft))
}

/// Tables over ordered trees, which need one VL. Multicast may take the first of the trees.
fn ordered(
    (fabric, hops, offer): (&Fabric, &Hops, Offer),
    sort: LinkSort,
    layers: &Layers,
    lft: Lft,
) -> Plan {
    let rank = Rank::by_key(fabric, |channel, _| layers.rank(channel));
    let tree = Tree::lowest(fabric, &rank, SwitchId(0));
    let known =
        Some(KnownOrder { lanes: VirtualChannelOrder::new(vec![rank]), trees: vec![tree], suffices: false });
    let remarks = vec![format!("ordered trees from links sorted by {sort}"), ONE_SL.to_owned()];
    Plan::new(fabric, hops, offer, Parts { lft, lanes: one_vl(fabric), known, remarks })
}

/// The remark on the SLs of some lanes.
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
