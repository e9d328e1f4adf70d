//! One VL per tree.

use super::{LaneLimits, Lanes, LanesError};
use crate::fabric::{Fabric, Vl};
use crate::tables::{PathSl, Sl2Vl, SlVlRow};

/// Lanes for several routings side by side, each on its own virtual network (Flich et al., section
/// 4): traffic to the LIDs of tree t uses SL t, and SL t maps to VL t at every port.
///
/// A packet never changes its VL, so there is no credit loop if no single tree has one. SLs beyond
/// the last tree start over from VL 0; no path uses them.
///
/// - `fabric`: the fabric.
/// - `tree_of`: the tree of each LID, an array of [`Fabric::lid_table_len`].
/// - `trees`: number of trees.
/// - `limits`: VLs and SLs that may be used.
///
/// # Errors
/// [`LanesError::TooFewVls`], [`LanesError::TooFewSls`].
///
/// Cost: O(sum over switches of ports^2 + S D) time and memory: the size of the tables.
pub fn tree_lanes(
    fabric: &Fabric,
    tree_of: &[u8],
    trees: usize,
    limits: LaneLimits,
) -> Result<Lanes, LanesError> {
    if trees > usize::from(limits.vls) {
        return Err(LanesError::TooFewVls { needed: trees, offered: limits.vls });
    }
    if trees > usize::from(limits.sls) {
        return Err(LanesError::TooFewSls { needed: trees, offered: limits.sls });
    }
    let mut sl2vl = Sl2Vl::new(fabric);
    let row = SlVlRow::from_vls(std::array::from_fn(|sl| Vl((sl % trees.max(1)) as u8)));
    sl2vl.rows_mut().fill(row);
    let path_sl = match trees {
        0 | 1 => super::any_sl(limits),
        _ => {
            let switches = fabric.num_switches();
            PathSl::BySwitch(tree_of.iter().flat_map(|&tree| std::iter::repeat_n(tree, switches)).collect())
        }
    };
    let vls = trees.max(1) as u8;
    Ok(Lanes { sl2vl, path_sl, vls, sls: vls })
}
