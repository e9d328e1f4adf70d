//! BFOT: ordered paths by Bellman and Ford, central.

use rayon::prelude::*;

use super::ordered_tables::{Labels, tables};
use crate::fabric::{Fabric, SwitchId};
use crate::ordering::{Layers, LinkSort, ordered_trees};
use crate::tables::Lft;

/// Forwarding tables by BFOT (Chiu et al., section 4.4.1); free of credit loops on one VL.
///
/// To each destination every switch takes the shortest path that its neighbours' choices permit, among equals
/// one that starts in the highest layer if others depend on that. This is what the messages of the paper
/// converge to, computed centrally (a test compares them): BFOT is made for switches that hold one next hop a
/// destination, so nothing of it is lost on InfiniBand. As in the paper's Fig. 4 a switch never takes a
/// longer path to shorten those of others; [`apot`](super::apot()) does.
///
/// - `fabric`: any. Where it is not connected, pairs of different parts have no entry.
/// - `layers`: ordered trees of the same fabric; those of
///   [`up_down_layers`](crate::ordering::up_down_layers) give the tables of up*/down*.
///
/// Equal paths share the load, so the LIDs of an LMC range spread.
///
/// # Measured
/// Table 2 of the paper in kind, over [`chiu_table1`](crate::topology::chiu_table1) with random
/// networks of our own: path length against optimal, the mean of the 46 ratios, and what it took.
/// "By pair" are paths that need the in port ([`OrderedPaths`](super::OrderedPaths)), "tables" what
/// a switch can hold. A step is a channel visited, a message, or a sum of Fig. 2; times are of the
/// test `table_2_in_kind`, which prints the table with `--nocapture`, those of tables with the
/// judgement of `verify`.
///
/// | | paper | here | worst | steps | ms |
/// |---|---|---|---|---|---|
/// | optimal | 1 | 1 | 1 | 349,536 | 0.3 |
/// | up*/down*, by pair | 1.057 | 1.053 | 1.303 | 353,128 | 19 |
/// | up*/down*, tables | | 1.053 | 1.303 | | 30 |
/// | APOT, Fig. 2 | 1.096 | 1.095 | 1.303 | 552,992,768 | 2161 |
/// | APOT, by pair | | 1.095 | 1.303 | 493,173 | 25 |
/// | APOT, tables | | 1.096 | 1.303 | | 47 |
/// | BFOT, messages | 1.102 | 1.097 | 1.303 | 445,299 | 18 |
/// | BFOT, tables | | 1.097 | 1.303 | | 30 |
/// | BFOT+ with footnote 6, tables | | 1.097 | 1.303 | | 29 |
/// | BFOT+ with [`LinkSort::Center`], tables | | 1.090 | 1.303 | | 27 |
/// | BFOT+ with the best order, tables | | 1.081 | 1.303 | | 45 |
///
/// After [`hill_climb`](super::hill_climb()) BFOT uses the channels more evenly than up*/down* on 36
/// of the 46 networks (section 6.5: 35).
///
/// Cost: O((S + D) C) time with S switches, D destination LIDs and C channels, the part with S on
/// all cores; O(S + C) memory beside the tables.
pub fn bfot(fabric: &Fabric, layers: &Layers) -> Lft {
    let floor = vec![0; fabric.num_switches()];
    tables(fabric, layers, |target| Labels::grow(fabric, layers, target, &floor))
}

/// Forwarding tables by BFOT+: BFOT over links that were sorted before they were partitioned.
///
/// Chiu et al. found that the order of the links matters more than the algorithm, and that no order
/// wins on every fabric (sections 5 and 7.2). So each [`LinkSort`] is tried, that of their footnote 6
/// among them, and the one with the fewest hops between all end ports counts; among equals the first
/// in [`LinkSort::ALL`].
///
/// Returns the order taken and its tables.
///
/// Cost: that of [`bfot`] and for each order O(S C) on all cores.
pub fn bfot_plus(fabric: &Fabric) -> (LinkSort, Lft) {
    let floor = vec![0; fabric.num_switches()];
    let total = |layers: &Layers| -> u64 {
        let to = |target: usize| {
            let target = SwitchId::at(target);
            let labels = Labels::grow(fabric, layers, target, &floor);
            fabric.endports_on(target).len() as u64 * labels.total(fabric)
        };
        (0..fabric.num_switches()).into_par_iter().map(to).sum()
    };
    let tried = LinkSort::ALL.map(|sort| {
        let layers = ordered_trees(fabric, sort);
        (total(&layers), sort, layers)
    });
    let [first, others @ ..] = tried;
    let best = others.into_iter().fold(first, |best, next| if next.0 < best.0 { next } else { best });
    (best.1, bfot(fabric, &best.2))
}
