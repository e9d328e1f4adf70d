//! The Double Scheme of Pinkston, Zafar, Duato ("A Method for Applying Double Scheme Dynamic Reconfiguration over
//! InfiniBand", section 3.1): old and new paths side by side, on two sets of LIDs, SLs and VLs.
//!
//! ```text
//!  step 1  rows: old SLs on the lower VLs, new SLs on the upper ones; entries of the new LIDs
//!          drain the upper VLs, along the dependencies of the new paths
//!  step 2  all hosts go over to the new SLs and LIDs
//!          drain the lower VLs, along the dependencies of the old paths
//!  step 3  the new rows, and entries of the old LIDs
//! ```
//!
//! The old LIDs are the lower half of those of a port, the old SLs those below a limit. Old and new packets never share
//! a virtual channel between switches, so each step is proven if the old and the new tables are, each on half of
//! the VLs.
//!
//! - A switch has a single LID. Its entries that change drop their packets from the first step until the last.
//! - Only rows of turns between switches, or into them, are divided. On the link to an adapter packets wait for nothing.
//! - Groups of multicast have no second MLID: trees lose the ports that change, or if that is not proven all ports,
//!   until the last step.

use thiserror::Error;

use crate::fabric::{ChannelId, EndPortId, Fabric, Lid, PortNum, Vl};
use crate::tables::{Drain, HostPaths, InForce, Plan, SenderSls, SlVlRow, Transition, VirtualChannel};
use crate::verify::mixture::Mixture;

use super::{Planned, Planner, Way};

/// Why old and new paths cannot be kept apart.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DoubleSchemeError {
    /// A port of a host without a second LID.
    #[error(
        "{port} has one LID, and a Double Scheme needs two sets of LIDs: an entry is chosen by the LID alone, so SLs do \
         not keep old and new paths apart; give hosts several LIDs ('lmc 1' in opensm.conf, 'dfdn route --lmc 1')"
    )]
    OneLid {
        /// The port.
        port: String,
    },
    /// Tables with SLs of their own for each pair.
    #[error(
        "the {which} tables state an SL for each pair, and a Double Scheme needs two sets of SLs that each serve every \
         pair; make tables of which one SL suffices ('prefer one-sl')"
    )]
    SlByPair {
        /// Old or new.
        which: &'static str,
    },
    /// No second SL.
    #[error(
        "there is no second set of SLs: every pair can use the SLs {old} under the old tables and {new} under the new \
         ones, and some new SL has to be above some old one; make tables of which every SL serves every pair"
    )]
    OneSl {
        /// SLs of the old tables.
        old: String,
        /// SLs of the new ones.
        new: String,
    },
    /// No second VL.
    #[error("there is no second set of VLs: switches have {vls} data VL; a Double Scheme needs two (--vls)")]
    OneVl {
        /// Data VLs.
        vls: u8,
    },
    /// Tables that need more than half of the VLs.
    #[error(
        "the {which} tables are not free of credit loops on half of {vls} VLs, which is what a Double Scheme leaves \
         them; allow more VLs (--vls) or make tables that need fewer ('dfdn route --vls')"
    )]
    HalfTheVls {
        /// Old or new.
        which: &'static str,
        /// Data VLs.
        vls: u8,
    },
}

/// The two sets of VLs and SLs.
struct Sets {
    /// Of the VLs, the first upper one, and their number.
    upper: u8,
    vls: u8,
    /// SLs below this one are old.
    limit: usize,
    old: HostPaths,
    new: HostPaths,
}

/// `0-3,5`.
fn list(set: u16) -> String {
    let in_set = |n: &u8| set >> n & 1 != 0;
    let starts = (0..16).filter(|n| in_set(n) && (*n == 0 || !in_set(&(n - 1))));
    let range = |from: u8| match (from..16).take_while(in_set).last() {
        Some(to) if to > from => format!("{from}-{to}"),
        _ => from.to_string(),
    };
    starts.map(range).collect::<Vec<_>>().join(",")
}

impl Sets {
    fn new(fabric: &Fabric, t: &Transition, vls: u8) -> Result<Self, DoubleSchemeError> {
        if let Some((_, end)) = fabric.adapters().find(|(_, end)| end.lmc.lids() < 2) {
            let port = format!("port {} of {}", end.port, fabric.describe(end.node));
            return Err(DoubleSchemeError::OneLid { port });
        }
        let [old, new] = t.any_sls;
        let old = old.ok_or(DoubleSchemeError::SlByPair { which: "old" })?;
        let new = new.ok_or(DoubleSchemeError::SlByPair { which: "new" })?;
        // Old SLs are below a limit, new ones not: a half each if that leaves both some.
        let (least, most) = (old.trailing_zeros() + 1, 15 - new.leading_zeros().min(15));
        if least > most {
            return Err(DoubleSchemeError::OneSl { old: list(old), new: list(new) });
        }
        if vls < 2 {
            return Err(DoubleSchemeError::OneVl { vls });
        }
        let limit = 8.clamp(least, most);
        let below = (1 << limit) - 1;
        Ok(Self {
            upper: vls / 2,
            vls,
            limit: limit as usize,
            old: HostPaths { sls: old & below, upper: false },
            new: HostPaths { sls: new & !below, upper: true },
        })
    }

    /// A row during the change: old SLs on the lower VLs, new ones on the upper.
    fn divided(&self, old: SlVlRow, new: SlVlRow) -> SlVlRow {
        let (old, new) = (old.vls(), new.vls());
        let place = |sl: usize| match if sl < self.limit { old[sl] } else { new[sl] } {
            Vl(vl) if vl >= Vl::MAX_DATA => Vl(vl),
            Vl(vl) if sl < self.limit => Vl(vl % self.upper),
            Vl(vl) => Vl(self.upper + vl % (self.vls - self.upper)),
        };
        SlVlRow::from_vls(std::array::from_fn(place))
    }
}

/// Plans the way between some tables by a Double Scheme. Hosts use the lower half of the LIDs and of the SLs before it.
///
/// - `fabric`: the one that the new tables are made for.
/// - `vls`: number of data VLs.
///
/// Cost: at most eleven mixtures, and O(dependencies) for the drainage.
///
/// # Errors
/// [`DoubleSchemeError`]: there are no two sets of LIDs, SLs or VLs.
pub fn double_scheme(
    fabric: &Fabric,
    transition: &Transition,
    vls: u8,
) -> Result<Planned, DoubleSchemeError> {
    let sets = Sets::new(fabric, transition, vls)?;
    let planner = Planner::new(fabric, transition);
    let between = planner.side_by_side(&sets);
    let drained = |paths: HostPaths, which| {
        planner.drain(&between, paths).ok_or(DoubleSchemeError::HalfTheVls { which, vls })
    };
    // Without trees, which hosts may send to with any SL.
    let (old, new) = (drained(sets.old, "old")?, drained(sets.new, "new")?);
    let how = format!(
        "Double Scheme: SLs {} and {}, VLs {} and {}",
        list(sets.old.sls),
        list(sets.new.sls),
        list((1 << sets.upper) - 1),
        list(((1_u32 << sets.vls) - (1_u32 << sets.upper)) as u16)
    );
    let plan = |states: &[InForce]| {
        let mut plan = Plan::between(fabric, transition, states);
        let paths = [sets.old, sets.new].into_iter().chain(std::iter::repeat(sets.new));
        plan.steps.iter_mut().zip(paths).for_each(|(step, paths)| step.paths = Some(paths));
        (plan.steps[0].drain, plan.steps[1].drain) = (new.clone(), old.clone());
        plan
    };
    let (first, last) = (&transition.old, &transition.new);
    let kept = InForce { multicast: planner.changes.kept_trees.clone(), ..between.clone() };
    let states = vec![first.clone(), kept.clone(), kept, last.clone()];
    let planned = planner.judged(plan(&states), Way::new(how.clone(), states));
    if planned.is_proven() || first.multicast.is_empty() && last.multicast.is_empty() {
        return Ok(planned);
    }
    let bare = InForce { multicast: Vec::new(), ..last.clone() };
    let states = vec![first.clone(), between.clone(), between, bare, last.clone()];
    Ok(planner.judged(plan(&states), Way::new(how, states)))
}

impl Planner<'_> {
    /// The state with old and new paths, without trees.
    fn side_by_side(&self, sets: &Sets) -> InForce {
        let (fabric, Transition { old, new, .. }) = (self.fabric, self.transition);
        let mut state = InForce { multicast: Vec::new(), ..old.clone() };
        for s in fabric.switch_ids() {
            let channels = fabric.channels();
            let ports = (0..state.sl2vl.ports_of(s) as u8).map(PortNum);
            let outs: Vec<PortNum> =
                ports.clone().filter(|&port| channels.at_port(s, port).is_some()).collect();
            let enters = |&port: &PortNum| {
                let port_of = |&e: &EndPortId| fabric.endport(e).attachment.map(|(_, port)| port);
                outs.contains(&port)
                    || fabric.switch(s).ports[port.index()].untrusted
                    || fabric.endports_on(s).iter().any(|e| port_of(e) == Some(port))
            };
            for i in ports.filter(enters) {
                for &o in outs.iter().filter(|&&o| o != i) {
                    let row = sets.divided(old.sl2vl.row(s, i, o), new.sl2vl.row(s, i, o));
                    state.sl2vl.set(s, i, o, row);
                }
            }
        }
        for &(lid, s) in &self.changes.all.entries {
            let used = |by: HostPaths| by.sls_to(fabric, lid) != 0;
            match (used(sets.old), used(sets.new), new.lft.get(s, lid)) {
                (true, false, _) => {}
                (false, true, Some(port)) => state.lft.set(s, lid, port),
                _ => state.lft.clear(s, lid),
            }
        }
        state
    }

    /// How the virtual channels of packets with some LIDs and SLs are drained; `None` if they are not free of credit
    /// loops.
    fn drain(&self, state: &InForce, paths: HostPaths) -> Option<Drain> {
        let sls = senders_of(self.fabric, self.transition, &[paths]);
        let mixture = Mixture::new(self.fabric, &sls, &[state]);
        let order = mixture.order()?;
        let lane = |&(channel, vl): &(ChannelId, Vl)| -> VirtualChannel {
            let c = self.fabric.channels().get(channel);
            (self.fabric.switch(c.from).guid, c.out_port.0, vl.0)
        };
        let channels: Vec<_> = order.iter().map(lane).collect();
        let arcs = mixture.arcs(&[order]);
        Some(Drain::along(&channels, arcs.iter().map(|(from, to)| (lane(from), lane(to)))))
    }
}

/// The SLs of packets by LID, while some of several sets are in use.
pub(super) fn senders_of(fabric: &Fabric, t: &Transition, paths: &[HostPaths]) -> SenderSls {
    let lids = t.old.lft.lids();
    let of = |lid| paths.iter().fold(0, |all, paths| all | paths.sls_to(fabric, lid));
    let table = (0..lids).map(|lid| Lid::new(lid as u16).map_or(0, of));
    SenderSls::ByLid(table.collect())
}
