//! A plan: what to program, step by step, to get from some tables to others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use thiserror::Error;

use super::{Drain, HostPaths, InForce, Lft, McastGroup, PortSet, SlVlRow, Transition};
use crate::fabric::{Fabric, Guid, Lid, PortNum, SwitchId};

/// What is programmed in any order; afterwards everything is acknowledged before the next step begins, and all
/// packets of before have left the fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// (switch, LID, out port), [`Lft::NO_PATH`] to drop its packets.
    pub lft: Vec<(Guid, u16, u8)>,
    /// (switch, in port, out port, row).
    pub sl2vl: Vec<(Guid, u8, u8, SlVlRow)>,
    /// (switch, MLID, ports), no ports to remove the entry.
    pub mcast: Vec<(Guid, u16, PortSet)>,
    /// What hosts use from here on, once all is acknowledged; in the first step, before, too. `None`: whatever the old
    /// or the new tables state.
    pub paths: Option<HostPaths>,
    /// What has to be empty before the next step.
    pub drain: Drain,
}

/// The steps from some tables to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In order.
    pub steps: Vec<Step>,
    /// (switch, port) without the cable that it had in the fabric of before.
    pub failed: Vec<(Guid, u8)>,
}

/// Why a plan does not fit a fabric.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("step {step}: {reason}; the plan may be for another fabric")]
pub struct PlanError {
    /// Number of the step, from 1.
    pub step: usize,
    /// What does not fit.
    pub reason: String,
}

impl Plan {
    /// The steps between successive states, the first of them after the failures of a change. It also programs the rows
    /// of ports whose cable returned, unless the first step has others for them.
    pub fn between(fabric: &Fabric, change: &Transition, states: &[InForce]) -> Self {
        let mut steps: Vec<Step> =
            states.windows(2).map(|pair| Step::between(fabric, &pair[0], &pair[1])).collect();
        if let Some(first) = steps.first_mut() {
            let written: BTreeSet<_> = first.sl2vl.iter().map(|&(s, i, o, _)| (s, i, o)).collect();
            let others = change.opened.iter().filter(|(s, i, o, _)| !written.contains(&(*s, *i, *o)));
            first.sl2vl.extend(others);
            first.sl2vl.sort_by_key(|&(s, i, o, _)| (s, i, o));
        }
        Self { steps, failed: change.failed.clone() }
    }

    /// The states after each step of a change, the tables in force first. Plans do not state SLs of groups: they
    /// are those of the change.
    ///
    /// # Errors
    /// A switch, LID or port that the fabric does not have.
    pub fn states(&self, fabric: &Fabric, change: &Transition) -> Result<Vec<InForce>, PlanError> {
        let groups = || change.old.multicast.iter().chain(&change.new.multicast);
        let sls = |mlid: u16| groups().find(|g| g.mlid == mlid).and_then(|g| g.sls);
        let mut states = vec![change.old.clone()];
        for (i, step) in self.steps.iter().enumerate() {
            let mut state = states[i].clone();
            step.apply(fabric, &mut state, sls).map_err(|reason| PlanError { step: i + 1, reason })?;
            states.push(state);
        }
        Ok(states)
    }
}

impl Step {
    /// What differs between two states of a fabric.
    ///
    /// Cost: O(LIDs x switches + rows).
    pub fn between(fabric: &Fabric, before: &InForce, after: &InForce) -> Self {
        let guid = |s: SwitchId| fabric.switch(s).guid;
        let mut step = Self::default();
        let lids = (1..after.lft.lids()).filter_map(|lid| Lid::new(lid as u16));
        for lid in lids.filter(|&lid| before.lft.to(lid) != after.lft.to(lid)) {
            let columns = before.lft.to(lid).iter().zip(after.lft.to(lid));
            for (s, (_, &port)) in columns.enumerate().filter(|(_, (was, is))| was != is) {
                step.lft.push((guid(SwitchId::at(s)), lid.get(), port));
            }
        }
        step.lft.sort_unstable();
        let rows_differ = before.sl2vl != after.sl2vl;
        let differs = |s: &SwitchId| rows_differ && before.sl2vl.of(*s) != after.sl2vl.of(*s);
        for s in fabric.switch_ids().filter(differs) {
            let ports = after.sl2vl.ports_of(s) as u8;
            for (i, o) in (0..ports).flat_map(|i| (0..ports).map(move |o| (i, o))) {
                let row = after.sl2vl.row(s, PortNum(i), PortNum(o));
                if before.sl2vl.row(s, PortNum(i), PortNum(o)) != row {
                    step.sl2vl.push((guid(s), i, o, row));
                }
            }
        }
        let trees = |state: &InForce| -> BTreeMap<(SwitchId, u16), PortSet> {
            let groups = state.multicast.iter();
            groups.flat_map(|g| g.ports.iter().map(|&(s, ports)| ((s, g.mlid), ports))).collect()
        };
        let (was, is) = (trees(before), trees(after));
        for key in was.keys().chain(is.keys().filter(|key| !was.contains_key(key))) {
            let ports = is.get(key).copied().unwrap_or_default();
            if was.get(key).copied().unwrap_or_default() != ports {
                step.mcast.push((guid(key.0), key.1, ports));
            }
        }
        step.mcast.sort_unstable();
        step
    }

    /// Programs a state.
    fn apply(
        &self,
        fabric: &Fabric,
        state: &mut InForce,
        sls: impl Fn(u16) -> Option<u16>,
    ) -> Result<(), String> {
        let known: HashMap<Guid, SwitchId> =
            fabric.switch_ids().map(|s| (fabric.switch(s).guid, s)).collect();
        let switch =
            |guid: &Guid| known.get(guid).copied().ok_or_else(|| format!("there is no switch {guid}"));
        for (guid, lid, port) in &self.lft {
            let lid = Lid::new(*lid).filter(|lid| lid.index() < state.lft.lids());
            let lid = lid.ok_or_else(|| format!("an entry of {guid} is for a LID that no table has"))?;
            state.lft.set(switch(guid)?, lid, PortNum(*port));
        }
        for (guid, i, o, row) in &self.sl2vl {
            let s = switch(guid)?;
            if usize::from(*i.max(o)) >= state.sl2vl.ports_of(s) {
                return Err(format!("switch {guid} has no row of port {i} to port {o}"));
            }
            state.sl2vl.set(s, PortNum(*i), PortNum(*o), *row);
        }
        for (guid, mlid, ports) in &self.mcast {
            let s = switch(guid)?;
            let at = match state.multicast.binary_search_by_key(mlid, |g| g.mlid) {
                Ok(at) => at,
                Err(at) => {
                    state
                        .multicast
                        .insert(at, McastGroup { mlid: *mlid, sls: sls(*mlid), ports: Vec::new() });
                    at
                }
            };
            let entries = &mut state.multicast[at].ports;
            match entries.binary_search_by_key(&s, |&(s, _)| s) {
                Ok(at) => entries[at].1 = *ports,
                Err(at) => entries.insert(at, (s, *ports)),
            }
            entries.retain(|(_, ports)| !ports.is_empty());
        }
        state.multicast.retain(|g| !g.ports.is_empty());
        Ok(())
    }

    /// Whether there is nothing to program.
    pub fn is_empty(&self) -> bool {
        self.lft.is_empty() && self.sl2vl.is_empty() && self.mcast.is_empty()
    }

    /// Entries whose packets are dropped from this step on.
    pub fn dropped(&self) -> usize {
        self.lft.iter().filter(|(_, _, port)| *port == Lft::NO_PATH).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{Sl, Vl};
    use crate::tables::Routes;
    use crate::topology::Ring;

    #[test]
    fn steps_lead_from_state_to_state() {
        let f = Ring { switches: 5, cas: 1 }.build().unwrap();
        let routes = Routes::on_one_vl("test", &f, Lft::new(&f));
        let mut change = Transition::between(&f, &routes, &f, &routes);
        let old = change.old.clone();
        let mut next = old.clone();
        let (s, lid) = (SwitchId::at(3), Lid::new(4).unwrap());
        next.lft.set(s, lid, PortNum(2));
        next.sl2vl.set(s, PortNum(1), PortNum(2), SlVlRow::default().with(Sl(3), Vl(1)));
        let mut ports = PortSet::default();
        ports.insert(PortNum(2));
        next.multicast = vec![McastGroup { mlid: 0xc001, sls: Some(4), ports: vec![(s, ports)] }];
        change.new = next.clone();
        let states = [old.clone(), next, old.clone()];
        change.failed = vec![(Guid(7), 2)];
        let plan = Plan::between(&f, &change, &states);
        assert_eq!(plan.failed, [(Guid(7), 2)]);
        assert_eq!(plan.states(&f, &change).unwrap(), states);
        assert_eq!((plan.steps[0].dropped(), plan.steps[1].dropped()), (0, 1));
        assert!(Step::between(&f, &old, &old).is_empty());
        let steps = vec![Step { lft: vec![(Guid(9), 1, 1)], ..Step::default() }];
        let foreign = Plan { steps, ..Plan::default() };
        let error = foreign.states(&f, &change).unwrap_err().to_string();
        assert!(error.starts_with("step 1: there is no switch 0x0000000000000009"), "{error}");
    }
}
