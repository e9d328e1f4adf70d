//! The engines from papers: bare routings, and VLs over them as printed.

use super::plan::{Parts, Plan, one_vl};
use super::{EngineError, Settings};
use crate::fabric::{Fabric, SwitchId, Vl};
use crate::lanes::{LaneLimits, Lanes, LanesError, df_d2, df_dn, tree_lanes};
use crate::multicast::KnownOrder;
use crate::ordering::{Layers, LinkSort, Rank, Tree, VirtualChannelOrder, ordered_trees};
use crate::routing::{self, Hops};
use crate::tables::{Lft, PathSl};

/// The remark for [`PathSl::Any`].
const ONE_SL: &str = "one SL suffices: no host has to query PathRecords, and every SL is safe";

/// Locally balanced minimal hops.
pub(super) fn minhop(fabric: &Fabric, hops: &Hops, _: &Settings, _: LaneLimits) -> Result<Plan, EngineError> {
    Ok(Plan::bare(fabric, routing::minhop(fabric, hops)))
}

/// P-SSSP (Hoefler et al.).
pub(super) fn sssp(fabric: &Fabric, hops: &Hops, _: &Settings, _: LaneLimits) -> Result<Plan, EngineError> {
    Ok(Plan::bare(fabric, routing::sssp(fabric, hops)))
}

/// P²-SSSP (Hoefler et al.).
pub(super) fn p2sssp(fabric: &Fabric, hops: &Hops, _: &Settings, _: LaneLimits) -> Result<Plan, EngineError> {
    Ok(Plan::bare(fabric, routing::p2sssp(fabric, hops)?))
}

/// P-SSSP with DF-D2 (Schneider et al.), whatever the diameter: refused above two.
pub(super) fn dfd2(
    fabric: &Fabric,
    hops: &Hops,
    _: &Settings,
    limits: LaneLimits,
) -> Result<Plan, EngineError> {
    let lanes = df_d2(fabric, usize::from(hops.diameter()), limits).map_err(too_few("dfd2"))?;
    let (lft, remarks) = (routing::sssp(fabric, hops), vec![sl_remark(&lanes)]);
    Ok(Plan::new(fabric, hops, limits, Parts { lft, lanes, known: None, remarks }))
}

/// P-SSSP with DF-DN (Schneider et al.), whatever the diameter.
pub(super) fn dfdn_sssp(
    fabric: &Fabric,
    hops: &Hops,
    _: &Settings,
    limits: LaneLimits,
) -> Result<Plan, EngineError> {
    with_df_dn("dfdn-paper", (fabric, hops, limits), routing::sssp(fabric, hops))
}

/// MinHop with DF-DN (Schneider et al.), whatever the diameter.
pub(super) fn dfdn_minhop(
    fabric: &Fabric,
    hops: &Hops,
    _: &Settings,
    limits: LaneLimits,
) -> Result<Plan, EngineError> {
    with_df_dn("dfdn-paper-minhop", (fabric, hops, limits), routing::minhop(fabric, hops))
}

fn with_df_dn(
    engine: &'static str,
    (fabric, hops, limits): (&Fabric, &Hops, LaneLimits),
    lft: Lft,
) -> Result<Plan, EngineError> {
    let lanes = df_dn(fabric, &lft, limits).map_err(too_few(engine))?;
    let remarks = vec![sl_remark(&lanes)];
    Ok(Plan::new(fabric, hops, limits, Parts { lft, lanes, known: None, remarks }))
}

/// Several up*/down* trees, each on its own VL (Flich et al.).
pub(super) fn updn_trees(
    fabric: &Fabric,
    hops: &Hops,
    settings: &Settings,
    limits: LaneLimits,
) -> Result<Plan, EngineError> {
    if !(1..=Vl::MAX_DATA).contains(&settings.trees) {
        let value = settings.trees;
        return Err(EngineError::Setting { name: "trees", value, least: 1, most: Vl::MAX_DATA });
    }
    let routing::UpDnTrees { lft, roots, tree_of } = routing::updn_trees(fabric, hops, settings.trees);
    let lanes = tree_lanes(fabric, &tree_of, roots.len(), limits).map_err(too_few("updn-trees"))?;
    let roots: Vec<String> = roots.iter().map(|&r| fabric.describe_switch(r)).collect();
    let names = format!("{} up*/down* trees, root by SL and VL: {}", roots.len(), roots.join(", "));
    let remarks = vec![sl_remark(&lanes), names];
    Ok(Plan::new(fabric, hops, limits, Parts { lft, lanes, known: None, remarks }))
}

/// APOT for forwarding tables (Chiu et al.).
pub(super) fn apot(
    fabric: &Fabric,
    hops: &Hops,
    _: &Settings,
    limits: LaneLimits,
) -> Result<Plan, EngineError> {
    let layers = ordered_trees(fabric, LinkSort::Guid);
    let lft = routing::apot(fabric, &layers);
    Ok(ordered((fabric, hops, limits), LinkSort::Guid, &layers, lft))
}

/// BFOT (Chiu et al.).
pub(super) fn bfot(
    fabric: &Fabric,
    hops: &Hops,
    _: &Settings,
    limits: LaneLimits,
) -> Result<Plan, EngineError> {
    let layers = ordered_trees(fabric, LinkSort::Guid);
    let lft = routing::bfot(fabric, &layers);
    Ok(ordered((fabric, hops, limits), LinkSort::Guid, &layers, lft))
}

/// BFOT+ (Chiu et al.).
pub(super) fn bfot_plus(
    fabric: &Fabric,
    hops: &Hops,
    _: &Settings,
    limits: LaneLimits,
) -> Result<Plan, EngineError> {
    let (sort, lft) = routing::bfot_plus(fabric);
    Ok(ordered((fabric, hops, limits), sort, &ordered_trees(fabric, sort), lft))
}

/// Tables over ordered trees, which need one VL. Multicast may take the first of the trees.
fn ordered(
    (fabric, hops, limits): (&Fabric, &Hops, LaneLimits),
    sort: LinkSort,
    layers: &Layers,
    lft: Lft,
) -> Plan {
    let rank = Rank::by_key(fabric, |channel, _| layers.rank(channel));
    let tree = Tree::lowest(fabric, &rank, SwitchId(0));
    let known = Some(KnownOrder { lanes: VirtualChannelOrder::new(vec![rank]), tree });
    let remarks = vec![format!("ordered trees from links sorted by {sort}"), ONE_SL.to_owned()];
    Plan::new(fabric, hops, limits, Parts { lft, lanes: one_vl(fabric), known, remarks })
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
