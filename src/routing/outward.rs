//! All minimal paths to one switch, as lists that are fast to walk.

use super::Hops;
use crate::fabric::{ChannelId, Fabric, SwitchId};

/// A channel and the switch that it leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) channel: ChannelId,
    pub(super) to: SwitchId,
}

/// The minimal-path DAG of one destination switch: the other switches by distance, and of each the
/// channels that lead one hop nearer, in port order.
pub(super) struct Outward {
    pub(super) target: SwitchId,
    /// All switches by distance, then by GUID: the target first.
    pub(super) order: Vec<SwitchId>,
    /// By switch: where its steps begin in `steps`.
    first: Vec<u32>,
    steps: Vec<Step>,
    /// By switch: where the channels into it begin in `behind`.
    first_behind: Vec<u32>,
    /// Channels that lead into a switch from one hop farther away, with the switch that they leave.
    behind: Vec<Behind>,
}

/// A channel and the switch that it comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    pub(super) channel: ChannelId,
    pub(super) from: SwitchId,
}

impl Outward {
    pub(super) fn new() -> Self {
        Self {
            target: SwitchId(0),
            order: Vec::new(),
            first: Vec::new(),
            steps: Vec::new(),
            first_behind: Vec::new(),
            behind: Vec::new(),
        }
    }

    /// Replaces it by that of another destination.
    ///
    /// Cost: O(S + C).
    pub(super) fn rebuild(&mut self, fabric: &Fabric, hops: &Hops, target: SwitchId) {
        let row = hops.row(target);
        self.target = target;
        let channels = fabric.channels();
        // One slot more than there are steps: each candidate is written, and only a step advances,
        // which costs less than to guess which is which.
        self.steps.resize(channels.len() + 1, Step { channel: ChannelId(0), to: target });
        self.behind.resize(channels.len() + 1, Behind { channel: ChannelId(0), from: target });
        self.first.clear();
        self.first_behind.clear();
        let (mut len, mut behind) = (0, 0);
        for s in fabric.switch_ids() {
            self.first.push(len as u32);
            self.first_behind.push(behind as u32);
            let here = u32::from(row[s.index()]);
            for (channel, c) in channels.out(s) {
                self.steps[len] = Step { channel, to: c.to };
                self.behind[behind] = Behind { channel: c.reverse, from: c.to };
                let there = u32::from(row[c.to.index()]);
                len += usize::from(there + 1 == here);
                behind += usize::from(there == here + 1);
            }
        }
        self.first.push(len as u32);
        self.first_behind.push(behind as u32);
        self.sort(row);
    }

    fn sort(&mut self, row: &[u8]) {
        let mut first = [0_u32; 257];
        for &h in row {
            first[usize::from(h) + 1] += 1;
        }
        for h in 0..256 {
            first[h + 1] += first[h];
        }
        self.order.resize(row.len(), SwitchId(0));
        for (s, &h) in row.iter().enumerate() {
            let place = &mut first[usize::from(h)];
            self.order[*place as usize] = SwitchId::at(s);
            *place += 1;
        }
    }

    /// The channels that lead from a switch one hop nearer to the target.
    pub(super) fn steps(&self, switch: SwitchId) -> &[Step] {
        &self.steps[self.first[switch.index()] as usize..self.first[switch.index() + 1] as usize]
    }

    /// The channels that lead into a switch from one hop farther away.
    pub(super) fn behind(&self, switch: SwitchId) -> &[Behind] {
        let first = &self.first_behind[switch.index()..];
        &self.behind[first[0] as usize..first[1] as usize]
    }
}

/// Destinations whose DAGs are made while those of as many others are walked.
const CHUNK: usize = 16;

/// Calls `visit` with the DAG of each target in turn. The next ones are made by other threads
/// meanwhile, so only walking them takes time where there is more than one core.
pub(super) fn for_each_target(
    fabric: &Fabric,
    hops: &Hops,
    targets: &[SwitchId],
    mut visit: impl FnMut(&Outward) + Send,
) {
    let build = |dags: &mut Vec<Outward>, targets: &[SwitchId]| {
        dags.resize_with(targets.len(), Outward::new);
        for (dag, &target) in dags.iter_mut().zip(targets) {
            dag.rebuild(fabric, hops, target);
        }
    };
    let mut chunks = targets.chunks(CHUNK);
    let (mut now, mut next) = (Vec::new(), Vec::new());
    build(&mut now, chunks.next().unwrap_or_default());
    while !now.is_empty() {
        let coming = chunks.next().unwrap_or_default();
        rayon::join(|| now.iter().for_each(&mut visit), || build(&mut next, coming));
        std::mem::swap(&mut now, &mut next);
    }
}
