//! Which SLs senders use: the assigned ones, or those that careless software uses.

use crate::fabric::{EndPortId, Fabric, Lid, Sl};
use crate::tables::PathSl;

use super::{Destination, Plan};

/// What SL a packet from one end port to a LID may carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlPolicy {
    /// Each sender uses an SL that the tables allow for its path ([`PathSl::allowed`]).
    #[default]
    AsTold,
    /// Every sender uses this SL, no matter which one it was assigned.
    Fixed(Sl),
    /// Every sender may use any of the sixteen.
    Any,
    /// From `a` to `b`, both the SLs assigned to (a, b) and those assigned to (b, any LID of a) may
    /// be in use. This happens if replies carry the SL of their request.
    WithReplies,
}

impl SlPolicy {
    /// The SLs that may be in use for every pair, if they are the same.
    pub(super) fn same(self, path_sl: &PathSl) -> Option<u16> {
        match self {
            Self::Fixed(sl) => Some(1 << (sl.0 & 0xf)),
            Self::Any => Some(u16::MAX),
            Self::AsTold | Self::WithReplies => path_sl.any(),
        }
    }

    /// The SLs that may be in use from `source` to `dlid`, bit `n` = SL `n`.
    pub fn mask(self, fabric: &Fabric, path_sl: &PathSl, source: EndPortId, dlid: Lid) -> u16 {
        match self {
            Self::AsTold => path_sl.allowed(fabric, source, dlid),
            Self::Fixed(sl) => 1 << (sl.0 & 0xf),
            Self::Any => u16::MAX,
            Self::WithReplies => {
                let replies = fabric.owner_of(dlid).map_or(0, |owner| {
                    let slids = fabric.endport(source).lids();
                    slids.fold(0, |all, slid| all | path_sl.allowed(fabric, owner, slid))
                });
                replies | path_sl.allowed(fabric, source, dlid)
            }
        }
    }
}

/// Which packets are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pairs {
    /// Those between all end ports.
    All,
    /// Those between adapters.
    Adapters,
}

/// The lowest SL of a set, as a set.
pub(super) fn lowest(sls: u16) -> u16 {
    sls & sls.wrapping_neg()
}

/// SLs by source for some destinations, reduced to one SL of each group that the SL2VL tables treat
/// alike; as coarse as policy and tables allow.
pub(super) enum Senders {
    /// The same set for every pair.
    Same(u16),
    /// Destinations x switches: one set for all sources on a switch.
    BySwitch(Vec<u16>),
    /// Destinations x end ports.
    ByEndPort(Vec<u16>),
}

/// The SLs assigned to senders, over pairs of adapters and over all pairs: one for each class of
/// service, the lowest if several serve.
#[derive(Clone, Copy, Default)]
pub(super) struct SlsInUse {
    pub(super) adapters: u16,
    pub(super) all: u16,
}

impl Senders {
    /// Cost: O(1) if one set serves all; otherwise O(destinations x switches) or O(destinations x
    /// end ports).
    pub(super) fn new(plan: &Plan<'_>, destinations: &[Destination]) -> (Self, SlsInUse) {
        let Plan { fabric, policy, pairs, ref merge, .. } = *plan;
        let path_sl = &plan.routes.path_sl;
        let mut used = SlsInUse::default();
        let mut note = |sls: u16, adapters: usize, all: usize, to_adapter: bool| {
            used.adapters |= if to_adapter && adapters > 0 { sls } else { 0 };
            used.all |= if all > 0 { sls } else { 0 };
        };
        // If any SL serves, the assigned one does not depend on the source.
        if let Some(sls) = policy.same(path_sl).filter(|_| pairs == Pairs::All) {
            let adapters = plan.adapters.iter().map(|&n| n as usize).sum::<usize>();
            let all = fabric.endports().iter().filter(|end| end.attachment.is_some()).count();
            for d in destinations {
                let to_adapter = fabric.endport(d.owner).is_adapter();
                let told = match policy {
                    SlPolicy::Fixed(_) | SlPolicy::Any => lowest(sls),
                    SlPolicy::AsTold | SlPolicy::WithReplies => path_sl.assigned_sls(fabric, d.owner, d.lid),
                };
                note(told, adapters.saturating_sub(1), all - 1, to_adapter);
            }
            return (Self::Same(merge[usize::from(sls)]), used);
        }
        let by_switch = match policy {
            SlPolicy::WithReplies => path_sl.is_by_switch_pair(),
            _ => path_sl.is_by_switch(),
        };
        if by_switch && pairs == Pairs::All {
            let mut table = Vec::with_capacity(destinations.len() * fabric.num_switches());
            // A switch without a LID and without adapters sends nothing.
            let on: Vec<(Option<EndPortId>, usize, usize)> = fabric
                .switch_ids()
                .map(|s| (fabric.endports_on(s), fabric.num_adapters_on(s)))
                .map(|(ends, adapters)| (ends.first().copied(), adapters, ends.len()))
                .collect();
            for d in destinations {
                let to_adapter = fabric.endport(d.owner).is_adapter();
                // If only one SL serves a pair, the assigned SL is the allowed one.
                let single = match (policy, path_sl) {
                    (SlPolicy::AsTold, PathSl::BySwitch(sls)) => {
                        Some(&sls[d.lid.index() * on.len()..][..on.len()])
                    }
                    (SlPolicy::AsTold, PathSl::BySwitchPair(pairs)) => Some(pairs.to(d.lid)),
                    _ => None,
                };
                for (s, &(source, adapters, all)) in on.iter().enumerate() {
                    let Some(source) = source else {
                        table.push(0);
                        continue;
                    };
                    let own = usize::from(s == d.root);
                    let (told, allowed) = match single.map(|sls| sls[s]) {
                        None | Some(PathSl::UNKNOWN) => (
                            path_sl.assigned_sls(fabric, source, d.lid),
                            policy.mask(fabric, path_sl, source, d.lid),
                        ),
                        Some(sl) => (1 << (sl & 0xf), 1 << (sl & 0xf)),
                    };
                    note(told, adapters.saturating_sub(own), all - own, to_adapter);
                    table.push(merge[usize::from(allowed)]);
                }
            }
            return (Self::BySwitch(table), used);
        }
        let len = fabric.endports().len();
        let mut table = vec![0; destinations.len() * len];
        for (e, port) in fabric.endports().iter().enumerate() {
            if port.attachment.is_none() {
                continue;
            }
            let source = EndPortId::at(e);
            for (i, d) in destinations.iter().enumerate().filter(|(_, d)| d.owner != source) {
                let to_adapter = fabric.endport(d.owner).is_adapter();
                if pairs == Pairs::Adapters && !(to_adapter && port.is_adapter()) {
                    continue;
                }
                let told = path_sl.assigned_sls(fabric, source, d.lid);
                note(told, usize::from(port.is_adapter()), 1, to_adapter);
                table[i * len + e] = merge[usize::from(policy.mask(fabric, path_sl, source, d.lid))];
            }
        }
        (Self::ByEndPort(table), used)
    }
}
