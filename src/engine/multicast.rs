//! Multicast trees for what an engine computed.

use super::Plan;
use crate::fabric::{Fabric, Sl};
use crate::routing::{Hops, McastTrees, mcast_trees};
use crate::tables::McastGroup;

/// Finds the trees and says in the plan's remarks what they serve. None where even SL 0, the SL of
/// groups that nobody configured, has no tree: then OpenSM's own trees remain.
pub(super) fn add_trees(fabric: &Fabric, hops: &Hops, plan: &mut Plan) -> Vec<McastGroup> {
    let McastTrees { trees, unserved } = mcast_trees(fabric, hops, &plan.lft, &mut plan.sl2vl, &plan.path_sl);
    let numbers = |sls: u16| {
        let list: Vec<String> =
            (0..Sl::COUNT).filter(|sl| sls & 1 << sl != 0).map(|sl| sl.to_string()).collect();
        list.join(", ")
    };
    if unserved & 1 != 0 {
        plan.remarks.push(
            "no spanning tree for multicast is free of credit loops with these paths: multicast goes by OpenSM's \
             own trees and is not part of the proof"
                .to_owned(),
        );
        return Vec::new();
    }
    plan.remarks.push(match (trees.len(), unserved) {
        (1, 0) => "one multicast tree for all groups, whatever their SL".to_owned(),
        (count, 0) => format!("{count} multicast trees, chosen by the SL of the group"),
        (count, _) => format!(
            "{count} multicast trees, for groups with any SL but {}, which are not routed",
            numbers(unserved)
        ),
    });
    trees
}
