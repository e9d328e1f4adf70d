//! All minimal paths to one switch, as lists that are fast to walk.

use super::Hops;
use crate::fabric::{ChannelId, Fabric, SwitchId};

/// A channel and the switch that it leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) channel: ChannelId,
    pub(super) to: SwitchId,
}

/// A channel and the switch that it comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    pub(super) channel: ChannelId,
    pub(super) from: SwitchId,
}

/// The minimal-path DAG of one destination switch: the other switches by distance, and of each the
/// channels that lead one hop nearer, in port order. Everything lies in the order in which it is
/// walked.
pub(super) struct Outward {
    pub(super) target: SwitchId,
    /// All switches by distance, then by GUID: the target first.
    pub(super) order: Vec<SwitchId>,
    /// By place in `order`: where its steps begin in `steps`.
    first: Vec<u32>,
    steps: Vec<Step>,
    /// By switch: where the channels into it begin in `behind`.
    first_behind: Vec<u32>,
    /// Channels that lead into a switch from one hop farther away, with the switch that they leave.
    behind: Vec<Behind>,
    /// By switch: where its steps begin in `by_switch`, while the DAG is built.
    first_by_switch: Vec<u32>,
    by_switch: Vec<Step>,
}

impl Outward {
    fn new() -> Self {
        Self {
            target: SwitchId(0),
            order: Vec::new(),
            first: Vec::new(),
            steps: Vec::new(),
            first_behind: Vec::new(),
            behind: Vec::new(),
            first_by_switch: Vec::new(),
            by_switch: Vec::new(),
        }
    }

    /// Sorts the switches by their distance, and what belongs to them.
    fn finish(&mut self, row: &[u8]) {
        self.first_by_switch.push(self.by_switch.len() as u32);
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
        self.first.clear();
        self.steps.clear();
        for s in &self.order {
            self.first.push(self.steps.len() as u32);
            let range = &self.first_by_switch[s.index()..][..2];
            self.steps.extend_from_slice(&self.by_switch[range[0] as usize..range[1] as usize]);
        }
        self.first.push(self.steps.len() as u32);
        self.find_behind();
    }

    /// The steps once more, by the switch that they lead to.
    fn find_behind(&mut self) {
        let n = self.order.len();
        self.first_behind.clear();
        self.first_behind.resize(n + 1, 0);
        for step in &self.steps {
            self.first_behind[step.to.index() + 1] += 1;
        }
        for s in 0..n {
            self.first_behind[s + 1] += self.first_behind[s];
        }
        self.behind.resize(self.steps.len(), Behind { channel: ChannelId(0), from: SwitchId(0) });
        for (place, &from) in self.order.iter().enumerate() {
            for i in self.first[place]..self.first[place + 1] {
                let Step { channel, to } = self.steps[i as usize];
                let next = &mut self.first_behind[to.index()];
                self.behind[*next as usize] = Behind { channel, from };
                *next += 1;
            }
        }
        // Each start has moved to the next one.
        self.first_behind.copy_within(0..n, 1);
        self.first_behind[0] = 0;
    }

    /// The channels that lead from the switch at a place of `order` one hop nearer to the target.
    pub(super) fn steps(&self, place: usize) -> &[Step] {
        &self.steps[self.range(place)]
    }

    /// Those of all switches.
    pub(super) fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter()
    }

    /// Where these are among all steps.
    pub(super) fn range(&self, place: usize) -> std::ops::Range<usize> {
        self.first[place] as usize..self.first[place + 1] as usize
    }

    /// The channels that lead into a switch from one hop farther away.
    pub(super) fn behind(&self, switch: SwitchId) -> &[Behind] {
        let first = &self.first_behind[switch.index()..][..2];
        &self.behind[first[0] as usize..first[1] as usize]
    }
}

/// Destinations whose DAGs are made together: two words of a byte each, see [`build`].
const CHUNK: usize = 16;

/// One in each byte of a word.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Makes the DAGs of at most [`CHUNK`] targets. Distances lie side by side, a byte for each target,
/// so that one comparison of words tells for eight targets whether a channel leads nearer.
///
/// Cost: O(C + T S + E) with T the targets and E the steps of all their DAGs.
fn build(dags: &mut Vec<Outward>, fabric: &Fabric, hops: &Hops, targets: &[SwitchId]) {
    dags.resize_with(targets.len(), Outward::new);
    let mut near = vec![[0_u64; CHUNK / 8]; fabric.num_switches()];
    for (i, (dag, &target)) in dags.iter_mut().zip(targets).enumerate() {
        dag.target = target;
        dag.first_by_switch.clear();
        dag.by_switch.clear();
        for (near, &h) in near.iter_mut().zip(hops.row(target)) {
            near[i / 8] |= u64::from(h) << (i % 8 * 8);
        }
    }
    let channels = fabric.channels();
    for s in fabric.switch_ids() {
        for dag in dags.iter_mut() {
            dag.first_by_switch.push(dag.by_switch.len() as u32);
        }
        let here = near[s.index()];
        for (channel, c) in channels.out(s) {
            let there = &near[c.to.index()];
            for (word, (&here, &there)) in here.iter().zip(there).enumerate() {
                // No byte overflows: distances are at most Hops::MAX. Where both ends agree but for
                // the hop between them, the byte becomes zero, and the zero bytes are marked. Bytes
                // beyond the last target are zero at both ends and never are.
                let differs = here ^ (there + ONES);
                let low = 0x7f * ONES;
                let mut marked = !(((differs & low) + low) | differs | low);
                while marked != 0 {
                    let i = word * 8 + (marked.trailing_zeros() / 8) as usize;
                    dags[i].by_switch.push(Step { channel, to: c.to });
                    marked &= marked - 1;
                }
            }
        }
    }
    for dag in dags.iter_mut() {
        dag.finish(hops.row(dag.target));
    }
}

/// Calls `visit` with the DAG of each target in turn. The next ones are made by other threads
/// meanwhile, so only walking them takes time where there is more than one core.
pub(super) fn for_each_target(
    fabric: &Fabric,
    hops: &Hops,
    targets: &[SwitchId],
    mut visit: impl FnMut(&Outward) + Send,
) {
    for_each_block(fabric, hops, targets, |dags| dags.iter().for_each(&mut visit));
}

/// As [`for_each_target`], with the DAGs of [`CHUNK`] targets at a time.
pub(super) fn for_each_block(
    fabric: &Fabric,
    hops: &Hops,
    targets: &[SwitchId],
    mut visit: impl FnMut(&[Outward]) + Send,
) {
    let mut chunks = targets.chunks(CHUNK);
    let (mut now, mut next) = (Vec::new(), Vec::new());
    build(&mut now, fabric, hops, chunks.next().unwrap_or_default());
    while !now.is_empty() {
        let coming = chunks.next().unwrap_or_default();
        rayon::join(|| visit(&now), || build(&mut next, fabric, hops, coming));
        std::mem::swap(&mut now, &mut next);
    }
}

/// As [`for_each_target`] on the calling thread alone, for those who share out the targets themselves.
pub(super) fn for_each_target_here(
    fabric: &Fabric,
    hops: &Hops,
    targets: &[SwitchId],
    mut visit: impl FnMut(&Outward),
) {
    let mut dags = Vec::new();
    for targets in targets.chunks(CHUNK) {
        build(&mut dags, fabric, hops, targets);
        dags.iter().for_each(&mut visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::small_members;

    #[test]
    fn it_holds_every_channel_that_leads_nearer() {
        for (name, f) in small_members() {
            let hops = Hops::new(&f).unwrap();
            let targets: Vec<_> = (0..f.num_switches()).rev().map(SwitchId::at).collect();
            let mut seen = Vec::new();
            for_each_target(&f, &hops, &targets, |dag| {
                let row = hops.row(dag.target);
                assert!(dag.order.is_sorted_by_key(|s| (row[s.index()], *s)), "{name}");
                let mut behind = 0;
                for (place, &s) in dag.order.iter().enumerate() {
                    let nearer = f.channels().out(s).filter(|(_, c)| row[c.to.index()] < row[s.index()]);
                    let nearer: Vec<_> = nearer.map(|(id, c)| (id, c.to)).collect();
                    let steps: Vec<_> = dag.steps(place).iter().map(|s| (s.channel, s.to)).collect();
                    assert_eq!(steps, nearer, "{name}");
                    for b in dag.behind(s) {
                        let c = f.channels().get(b.channel);
                        assert_eq!((c.from, c.to), (b.from, s), "{name}");
                        assert_eq!(row[b.from.index()], row[s.index()] + 1, "{name}");
                        behind += 1;
                    }
                }
                assert_eq!((behind, dag.order.len()), (dag.steps.len(), f.num_switches()), "{name}");
                seen.push(dag.target);
            });
            assert_eq!(seen, targets, "{name}");
        }
    }
}
