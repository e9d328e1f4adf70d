//! What several mixtures have in common makes no difference to any of them.

use std::collections::BTreeSet;

use rand::{Rng, SeedableRng};

use super::mixture::changed;
use super::random::{Dice, case, cases, some_cases};
use super::reference::next;
use crate::fabric::{Fabric, Lid, PortNum, SwitchId, Vl};
use crate::tables::{InForce, SlVlRow, Transition};
use crate::topology::fail_links;
use crate::verify::mixture::{Common, Mixture};

/// Packets to a LID are common to two states if all have the same way in both: the entries, and the rows that they may
/// use with these.
fn are_common(f: &Fabric, [a, b]: [&InForce; 2], lid: Lid) -> bool {
    let entry = |s: usize| a.lft.to(lid)[s];
    let enters = |s: usize, port: u8| next(f, s, port).is_none_or(|(from, out)| entry(from) == out);
    let ports = |s: SwitchId| (0..f.switch(s).ports.len()).map(|p| PortNum(p as u8));
    let same_rows = |s: SwitchId| {
        let out = PortNum(entry(s.index()));
        let mut used = ports(s).filter(|port| ports(s).any(|p| p == out) && enters(s.index(), port.0));
        used.all(|port| a.sl2vl.row(s, port, out) == b.sl2vl.row(s, port, out))
    };
    a.sl2vl.adapters() == b.sl2vl.adapters()
        && a.lft.to(lid) == b.lft.to(lid)
        && f.switch_ids().all(same_rows)
}

/// A state has the common packets of two others on their way if it differs from them only where these differ, and in
/// entries for other LIDs.
fn has_common(f: &Fabric, common: &Common<'_>, [a, b]: [&InForce; 2], state: &InForce) -> bool {
    let rows = a.sl2vl.rows().iter().zip(b.sl2vl.rows()).zip(state.sl2vl.rows());
    let lids = (1..a.lft.lids()).filter_map(|lid| Lid::new(lid as u16));
    a.sl2vl.adapters() == state.sl2vl.adapters()
        && rows.into_iter().all(|((a, b), row)| a != b || a == row)
        && lids
            .filter(|&lid| common.has(lid))
            .all(|lid| f.switch_ids().all(|s| a.lft.get(s, lid) == state.lft.get(s, lid)))
}

/// What mixtures have in common is the same wherever it is taken from.
#[test]
fn mixtures_of_similar_states_are_those_made_in_full() {
    let mut found = BTreeSet::new();
    for seed in cases(200) {
        let mut dice = Dice::seed_from_u64(seed);
        let (f, r) = case(&mut dice);
        let damaged = if dice.random_bool(0.4) { fail_links(&f, 1, seed).ok() } else { None };
        let now = damaged.as_ref().unwrap_or(&f);
        let t = Transition::between(&f, &r, now, &changed(now, &r, &mut dice));
        let mut between = t.old.clone();
        for lid in (1..t.new.lft.lids()).filter_map(|lid| Lid::new(lid as u16)) {
            if dice.random_bool(0.5) {
                between.lft.to_mut(lid).copy_from_slice(t.new.lft.to(lid));
            }
        }
        let new_rows = InForce { sl2vl: t.new.sl2vl.clone(), ..between.clone() };
        // It may change entries and rows that the two agree about.
        let foreign = Transition::between(&f, &changed(&f, &r, &mut dice), now, &r).old;
        // Rows about which they disagree may name a VL that is in no other row.
        let mut raised = t.new.clone();
        for (row, old) in raised.sl2vl.rows_mut().iter_mut().zip(t.old.sl2vl.rows()) {
            *row = if row == old { *row } else { SlVlRow::uniform(Vl(14)) };
        }
        let both = [&t.old, &t.new];
        let common = Common::new(now, &t.sls, both);
        for lid in (1..t.new.lft.lids()).filter_map(|lid| Lid::new(lid as u16)) {
            assert_eq!(common.has(lid), are_common(now, both, lid), "seed {seed}");
        }
        // Its groups have SLs that nothing has in the two.
        let mut other_sls = t.old.clone();
        for group in &mut other_sls.multicast {
            group.sls = group.sls.map(|sls| !sls);
        }
        for state in [&t.old, &t.new, &between, &new_rows, &foreign, &raised] {
            assert_eq!(common.is_in(state), has_common(now, &common, both, state), "seed {seed}");
        }
        for states in [
            &[&raised][..],
            &[&t.old, &raised],
            &[&t.old, &t.new],
            &[&t.new],
            &[&t.old, &between],
            &[&t.old],
            &[&between, &new_rows],
            &[&new_rows, &t.new],
            &[&t.old, &foreign],
            &[&other_sls],
            &[&t.old, &t.new],
        ] {
            let (fast, full) = (Mixture::beside(&common, states), Mixture::new(now, &t.sls, states));
            let verdict = full.verdict();
            assert_eq!(fast.verdict(), verdict, "seed {seed}");
            assert_eq!(fast.order(), full.order(), "seed {seed}");
            assert_eq!(fast.within(&verdict.cyclic_components), full.within(&fast.cyclic_components()));
            found.insert(verdict.deadlock_free);
        }
    }
    assert!(some_cases().is_some() || found.len() == 2);
}
