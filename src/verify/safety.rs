//! Which properties hold if hosts do not use the assigned SLs.

use serde_json::{Value, json};

use super::policy::Pairs;
use super::witness::Finder;
use super::{Destination, Plan, Sizes, SlPolicy, Verdict, destinations, sets};
use crate::fabric::{Fabric, Sl};
use crate::tables::Routes;

/// One of this many LIDs is checked, in one stage after another.
const PARTS: [usize; 3] = [64, 8, 1];

/// Which habits of applications are safe: every packet arrives and no credit loop can form, between
/// all end ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlSafety {
    /// All hosts use SL 0, like software that never requests a PathRecord.
    pub sl_zero: bool,
    /// Replies carry the SL of their request; requests have the assigned SL.
    pub replies: bool,
    /// Any host uses any SL.
    pub any: bool,
}

impl SlSafety {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({ "sl_0": self.sl_zero, "replies": self.replies, "any": self.any })
    }

    /// As one line.
    pub fn describe(&self) -> String {
        let yes = |holds| if holds { "yes" } else { "NO" };
        format!(
            "SL 0 alone {}, replies with the SL of the request {}, any SL {}",
            yes(self.sl_zero),
            yes(self.replies),
            yes(self.any)
        )
    }
}

/// Determines which habits are safe. The verdict on the assigned SLs suffices if the tables treat all SLs
/// alike. Otherwise this takes up to three more checks. Each ends early if the packets to a part of the LIDs
/// are already unsafe.
///
/// - `told`: the verdict of [`verify`](super::verify) on the same tables.
///
/// Cost: that of a [`verify`](super::verify) for each habit that is safe; mostly a small part of it for one
/// that is not.
///
/// # Panics
/// If the tables were made for another fabric.
pub fn sl_safety(fabric: &Fabric, routes: &Routes, told: &Verdict) -> SlSafety {
    sl_safety_in(fabric, routes, told, Sizes::default())
}

pub(super) fn sl_safety_in(fabric: &Fabric, routes: &Routes, told: &Verdict, sizes: Sizes) -> SlSafety {
    if !told.contained {
        // Foreign packets pass, no matter which SLs hosts use.
        return SlSafety { sl_zero: false, replies: false, any: false };
    }
    let told = told.deadlock_free && told.reachable && told.vls_legal;
    let (merge, ..) = super::merge(&[&routes.sl2vl], sizes);
    if merge[usize::from(u16::MAX)].count_ones() == 1 {
        return SlSafety { sl_zero: told, replies: told, any: told };
    }
    let destinations = destinations(fabric);
    let under = |policy| {
        let adaptive = || sets::judge(fabric, routes, policy).is_none_or(|verdict| verdict.is_safe());
        let withheld = || Finder { fabric, routes, policy }.withheld().is_some();
        judge_growing(fabric, routes, policy, &destinations, sizes) && adaptive() && !withheld()
    };
    // Fewer packets are never less safe than more.
    let set = routes.path_sl.any().map_or(0, |set| merge[usize::from(set)]);
    let any = if set == merge[usize::from(u16::MAX)] { told } else { under(SlPolicy::Any) };
    let zero_is_told = merge[1] & set != 0;
    // Replies then have the SL that they are assigned.
    let same_both_ways = routes.path_sl.is_same_both_ways();
    SlSafety {
        sl_zero: any || told && zero_is_told || under(SlPolicy::Fixed(Sl(0))),
        replies: any || told && (same_both_ways || under(SlPolicy::WithReplies)),
        any,
    }
}

/// A cycle among the packets to some LIDs is also a cycle among all packets. So a small part of the LIDs is
/// checked first, and all of them only if no cycle was found.
fn judge_growing(
    fabric: &Fabric,
    routes: &Routes,
    policy: SlPolicy,
    destinations: &[Destination],
    sizes: Sizes,
) -> bool {
    PARTS.iter().all(|&part| {
        // With few LIDs, checking a part first does not pay.
        if part > 1 && destinations.len() < part * sizes.block {
            return true;
        }
        let some: Vec<Destination> = destinations.iter().step_by(part).copied().collect();
        judge(fabric, routes, policy, &some, sizes)
    })
}

fn judge(
    fabric: &Fabric,
    routes: &Routes,
    policy: SlPolicy,
    destinations: &[Destination],
    sizes: Sizes,
) -> bool {
    let plan = Plan::new(fabric, routes, policy, Pairs::All, sizes);
    let tally = plan.judge_all(destinations);
    let arrives = tally.unreachable.is_none() && tally.looping.is_none();
    arrives && plan.illegal_vl().is_none() && plan.graph.is_acyclic(fabric, &plan.turns)
}
