//! The engines of the papers that are not dfdn's own: bare routings, and lanes over them as printed.

use super::{EngineError, Plan, Settings};
use crate::fabric::{Fabric, SwitchId, Vl};
use crate::lanes::{Lanes, LanesError, Offer, df_d2, df_dn, tree_lanes};
use crate::multicast::KnownOrder;
use crate::ordering::{Layers, LinkSort, Rank, Tree, VirtualChannelOrder, ordered_trees};
use crate::routing::{self, Hops};
use crate::tables::{Lft, PathSl, Sl2Vl};

/// The remark where [`PathSl::Any`] holds.
const ONE_SL: &str = "one SL suffices: no host has to query PathRecords, and every SL is safe";

/// Locally balanced minimal hops.
pub(super) fn minhop(fabric: &Fabric, hops: &Hops, _: &Settings, _: Offer) -> Result<Plan, EngineError> {
    Ok(bare(fabric, routing::minhop(fabric, hops)))
}

/// P-SSSP (Hoefler et al.).
pub(super) fn sssp(fabric: &Fabric, hops: &Hops, _: &Settings, _: Offer) -> Result<Plan, EngineError> {
    Ok(bare(fabric, routing::sssp(fabric, hops)))
}

/// P²-SSSP (Hoefler et al.).
pub(super) fn p2sssp(fabric: &Fabric, hops: &Hops, _: &Settings, _: Offer) -> Result<Plan, EngineError> {
    Ok(bare(fabric, routing::p2sssp(fabric, hops)?))
}

/// P-SSSP with DF-D2 (Schneider et al.), whatever the diameter: refused above two.
pub(super) fn dfd2(fabric: &Fabric, hops: &Hops, _: &Settings, offer: Offer) -> Result<Plan, EngineError> {
    let lanes = df_d2(fabric, usize::from(hops.diameter()), offer);
    with_lanes("dfd2", routing::sssp(fabric, hops), lanes)
}

/// P-SSSP with DF-DN (Schneider et al.), whatever the diameter.
pub(super) fn dfdn_sssp(
    fabric: &Fabric,
    hops: &Hops,
    _: &Settings,
    offer: Offer,
) -> Result<Plan, EngineError> {
    let lft = routing::sssp(fabric, hops);
    let lanes = df_dn(fabric, &lft, offer);
    with_lanes("dfdn-paper", lft, lanes)
}

/// MinHop with DF-DN (Schneider et al.), whatever the diameter.
pub(super) fn dfdn_minhop(
    fabric: &Fabric,
    hops: &Hops,
    _: &Settings,
    offer: Offer,
) -> Result<Plan, EngineError> {
    let lft = routing::minhop(fabric, hops);
    let lanes = df_dn(fabric, &lft, offer);
    with_lanes("dfdn-paper-minhop", lft, lanes)
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
    let lanes = tree_lanes(fabric, &tree_of, roots.len(), offer);
    let mut plan = with_lanes("updn-trees", lft, lanes)?;
    let roots: Vec<String> = roots.iter().map(|&r| fabric.describe_switch(r)).collect();
    plan.remarks.push(format!("{} up*/down* trees, root by SL and VL: {}", roots.len(), roots.join(", ")));
    Ok(plan)
}

/// APOT for forwarding tables (Chiu et al.).
pub(super) fn apot(fabric: &Fabric, _: &Hops, _: &Settings, _: Offer) -> Result<Plan, EngineError> {
    let layers = ordered_trees(fabric, LinkSort::Guid);
    Ok(ordered(fabric, LinkSort::Guid, &layers, routing::apot(fabric, &layers)))
}

/// BFOT (Chiu et al.).
pub(super) fn bfot(fabric: &Fabric, _: &Hops, _: &Settings, _: Offer) -> Result<Plan, EngineError> {
    let layers = ordered_trees(fabric, LinkSort::Guid);
    Ok(ordered(fabric, LinkSort::Guid, &layers, routing::bfot(fabric, &layers)))
}

/// BFOT+ (Chiu et al.).
pub(super) fn bfot_plus(fabric: &Fabric, _: &Hops, _: &Settings, _: Offer) -> Result<Plan, EngineError> {
    let (sort, lft) = routing::bfot_plus(fabric);
    Ok(ordered(fabric, sort, &ordered_trees(fabric, sort), lft))
}

/// Tables over ordered trees, which need no lanes. Multicast may take the first of the trees.
fn ordered(fabric: &Fabric, sort: LinkSort, layers: &Layers, lft: Lft) -> Plan {
    let mut plan = bare(fabric, lft);
    let rank = Rank::by_key(fabric, |channel, _| layers.rank(channel));
    let tree = Tree::lowest(fabric, &rank, SwitchId(0));
    plan.known = Some(KnownOrder { lanes: VirtualChannelOrder::new(vec![rank]), tree });
    plan.remarks.push(format!("ordered trees from links sorted by {sort}"));
    plan.remarks.push(ONE_SL.to_owned());
    plan
}

/// Tables on one lane that any SL leads to.
fn bare(fabric: &Fabric, lft: Lft) -> Plan {
    Plan {
        lft,
        sl2vl: Sl2Vl::new(fabric),
        path_sl: PathSl::Any(u16::MAX),
        vls: 1,
        remarks: Vec::new(),
        known: None,
        trees: None,
    }
}

/// Tables with the lanes that were found for them.
fn with_lanes(engine: &'static str, lft: Lft, lanes: Result<Lanes, LanesError>) -> Result<Plan, EngineError> {
    let lanes = lanes.map_err(|source| EngineError::Lanes { engine, source })?;
    let remark = match lanes.path_sl {
        PathSl::Any(_) => ONE_SL,
        _ => "the SL depends on the path: hosts must query PathRecords",
    };
    let remarks = vec![remark.to_owned()];
    Ok(Plan {
        lft,
        sl2vl: lanes.sl2vl,
        path_sl: lanes.path_sl,
        vls: lanes.vls,
        remarks,
        known: None,
        trees: None,
    })
}
