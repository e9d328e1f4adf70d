//! The permutation that suits given tables least.

use std::collections::BinaryHeap;

use super::paths::Paths;
use super::{EvaluateError, trees};
use crate::fabric::{Fabric, SwitchId};
use crate::tables::Routes;

/// A permutation of the adapters that crowds channels as far as it can, by the paths to the base LIDs.
///
/// The worst load of one channel by a permutation is a largest matching of the senders and receivers whose routes lead
/// over it (Towles and Dally 2002). Here the channel with the largest matching takes its pairs, then the next one among
/// the adapters that are left, until all have a partner. So not one channel is crowded but nearly all traffic is.
/// Of channels with equal matchings the first one is taken, and of adapters the first ones.
///
/// Returns (sender, receiver) by adapter number in port GUID order, each adapter once as a sender and once as a receiver.
/// One adapter may be left over that could only send to itself.
///
/// # Errors
/// As [`evaluate`](super::evaluate).
///
/// Cost: O(S P h) time and memory for the routes by channel, with S switches, P adapters and h hops, and a matching for
/// each channel, some of them several times.
pub fn worst_pairs(fabric: &Fabric, routes: &Routes) -> Result<Vec<(u32, u32)>, EvaluateError> {
    let paths = Paths::new(fabric, &routes.lft)?;
    trees::count(&paths)?;
    let mut over: Vec<Vec<(SwitchId, u32)>> = vec![Vec::new(); fabric.channels().len()];
    for (to, number) in paths.adapters.iter().zip(0..) {
        for from in fabric.switch_ids().filter(|&s| s != to.switch && paths.senders[s.index()] > 0) {
            for channel in paths.walk(from, to, to.end.lid) {
                over[channel.index()].push((from, number));
            }
        }
    }
    let mut left = Left::new(&paths);
    // Matchings only shrink, so the first one that is as large as when it was last looked at is the largest.
    let first_first = |channel: usize| std::cmp::Reverse(channel);
    let mut queue: BinaryHeap<_> =
        (0..over.len()).map(|channel| (usize::MAX, first_first(channel))).collect();
    while let Some((known, std::cmp::Reverse(channel))) = queue.pop() {
        over[channel].retain(|&(from, to)| left.has(from, to));
        let matched = left.matching(&over[channel]);
        if matched.is_empty() {
            continue;
        }
        if matched.len() == known {
            left.take(matched);
        } else {
            queue.push((matched.len(), first_first(channel)));
        }
    }
    Ok(left.finish())
}

/// Adapters without a partner yet.
struct Left {
    /// By switch: adapters that do not send yet, the first one last.
    senders: Vec<Vec<u32>>,
    /// By adapter: whether it receives nothing yet.
    receives: Vec<bool>,
    pairs: Vec<(u32, u32)>,
}

impl Left {
    fn new(paths: &Paths) -> Self {
        let mut senders = vec![Vec::new(); paths.fabric.num_switches()];
        for (i, adapter) in paths.adapters.iter().enumerate().rev() {
            senders[adapter.switch.index()].push(i as u32);
        }
        Self { senders, receives: vec![true; paths.adapters.len()], pairs: Vec::new() }
    }

    fn has(&self, from: SwitchId, to: u32) -> bool {
        self.receives[to as usize] && !self.senders[from.index()].is_empty()
    }

    /// A largest matching of receivers and sending switches, each switch as often as it has senders left.
    ///
    /// - `routes`: by receiver.
    fn matching(&self, routes: &[(SwitchId, u32)]) -> Vec<(SwitchId, u32)> {
        let mut receivers: Vec<&[(SwitchId, u32)]> = routes.chunk_by(|a, b| a.1 == b.1).collect();
        receivers.sort_by_key(|routes| routes[0].1);
        // By switch: indices of the receivers that it sends to.
        let mut taken: Vec<Vec<usize>> = vec![Vec::new(); self.senders.len()];
        let mut seen = vec![usize::MAX; self.senders.len()];
        for start in 0..receivers.len() {
            self.augment(&receivers, start, start, &mut taken, &mut seen);
        }
        let pairs = taken
            .iter()
            .enumerate()
            .flat_map(|(s, to)| to.iter().map(move |&to| (SwitchId::at(s), to)).collect::<Vec<_>>());
        pairs.map(|(s, to)| (s, receivers[to][0].1)).collect()
    }

    /// Finds a switch for a receiver; another receiver may have to change its switch (Kuhn).
    fn augment(
        &self,
        receivers: &[&[(SwitchId, u32)]],
        to: usize,
        round: usize,
        taken: &mut [Vec<usize>],
        seen: &mut [usize],
    ) -> bool {
        for &(s, _) in receivers[to] {
            if std::mem::replace(&mut seen[s.index()], round) == round {
                continue;
            }
            if taken[s.index()].len() < self.senders[s.index()].len() {
                taken[s.index()].push(to);
                return true;
            }
            for i in 0..taken[s.index()].len() {
                let other = taken[s.index()][i];
                if self.augment(receivers, other, round, taken, seen) {
                    taken[s.index()][i] = to;
                    return true;
                }
            }
        }
        false
    }

    fn take(&mut self, pairs: Vec<(SwitchId, u32)>) {
        for (s, to) in pairs {
            if let Some(from) = self.senders[s.index()].pop() {
                self.receives[to as usize] = false;
                self.pairs.push((from, to));
            }
        }
    }

    /// Pairs what is left, on single switches, in rotation.
    fn finish(mut self) -> Vec<(u32, u32)> {
        let from: Vec<u32> = self.senders.iter().flatten().copied().collect();
        let to: Vec<u32> = (0..self.receives.len() as u32).filter(|&to| self.receives[to as usize]).collect();
        let rotated = |by: usize| -> Vec<(u32, u32)> {
            let to = to.iter().cycle().skip(by);
            from.iter().copied().zip(to.copied()).filter(|(from, to)| from != to).collect()
        };
        let best = (0..from.len()).map(rotated).max_by_key(Vec::len);
        self.pairs.extend(best.unwrap_or_default());
        self.pairs.sort_unstable();
        self.pairs
    }
}
