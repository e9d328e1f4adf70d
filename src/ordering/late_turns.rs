//! Labels for switches without adapters: turns back at their end.

use super::{Labels, Rank, Rule};
use crate::fabric::{Fabric, SwitchId};

/// The rule with the first turn free, and the last one as well at half of the switches.
///
/// Under [`Rule::FirstTurnFree`] a turn that descends in the rank must be the first one. On a Megafly with the levels
/// from the hosts, that is enough for all adapters: up, over, and down. A spine reaches no spine of another group,
/// though: both its first turn, at a leaf, and its last, at another leaf, descend. So descending turns get label 2 at
/// half of the switches, where they may be last, and label 1 at the others, where they may be first. Each switch shall
/// have neighbours of both kinds: one switch after the other joins the kind of which its neighbours have fewer, the
/// first kind if they have as many.
///
/// Cost: O(C + T), with C channels and T turns.
pub fn late_turns(fabric: &Fabric, rank: &Rank) -> Rule {
    let channels = fabric.channels();
    // By switch: how many more neighbours with early turns than with late ones it has.
    let mut more_early = vec![0_i64; fabric.num_switches()];
    let mut labels = Labels::ones(fabric);
    for s in fabric.switch_ids() {
        let neighbours = || channels.out(s).map(|(_, c)| c.to.index());
        let late = neighbours().map(|n| more_early[n]).sum::<i64>() > 0;
        neighbours().for_each(|n| more_early[n] += if late { -1 } else { 1 });
        if late {
            label_descending(fabric, rank, s, &mut labels);
        }
    }
    Rule::Labelled { ranks: vec![rank.clone(); 3], labels }
}

/// Gives label 2 to the turns at a switch that descend.
fn label_descending(fabric: &Fabric, rank: &Rank, s: SwitchId, labels: &mut Labels) {
    let channels = fabric.channels();
    for (_, back) in channels.out(s) {
        for (second, _) in channels.out(s) {
            if rank.of(back.reverse) > rank.of(second) {
                let turn = labels.turn(back.reverse, second);
                labels.by_turn_mut()[turn] = 2;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::host_levels;
    use crate::routing::{Hops, Lookahead, NoLegalPath, ranked_sssp};
    use crate::topology::{Megafly, small_members};

    #[test]
    fn a_megafly_takes_one_sl_and_three_vls() {
        for (groups, leaves, h) in [(5, 4, 1), (9, 4, 2), (5, 3, 2), (7, 3, 2)] {
            let f = Megafly { groups, leaves, spines: leaves, h, cas: 2 }.build().unwrap();
            let hops = Hops::new(&f).unwrap();
            let rank = host_levels(&f, 1);
            let route =
                |rule: &Rule| ranked_sssp(&f, &hops, rule, Lookahead::Every, NoLegalPath::Detour(None));
            assert!(!route(&Rule::FirstTurnFree(rank.clone())).complete);
            let late = late_turns(&f, &rank);
            let routed = route(&late);
            assert!(routed.complete && routed.detours == 0, "{groups} groups of {leaves} leaves");
            assert_eq!(late.vls(), 3);
        }
    }

    #[test]
    fn only_turns_that_descend_are_late_and_only_at_some_switches() {
        for (name, f) in small_members() {
            let rank = host_levels(&f, 1);
            let Rule::Labelled { labels, .. } = late_turns(&f, &rank) else { panic!("no labels") };
            for s in f.switch_ids() {
                let mut kinds = [0, 0];
                for (_, back) in f.channels().out(s) {
                    for (second, _) in f.channels().out(s) {
                        let late = labels.get(back.reverse, second) == 2;
                        if rank.of(back.reverse) > rank.of(second) {
                            kinds[usize::from(late)] += 1;
                        } else {
                            assert!(!late, "{name}");
                        }
                    }
                }
                assert!(kinds.contains(&0), "{name}");
            }
        }
    }
}
