//! Traffic that closes credit loops if the tables allow it.

use std::borrow::Cow;
use std::collections::HashMap;

use super::SimulateError;
use super::network::Network;
use super::random::Random;
use crate::fabric::{ChannelId, Lid, Sl, Vl};
use crate::tables::{PathSl, Routes};
use crate::verify::{CyclicComponents, cyclic_components};

/// Pairs (sender, receiver) whose paths use an arc between virtual channels of one cyclic component
/// of the dependency graph, as long as there are any; each host sends once and receives once. Pairs
/// on arcs of a shortest cycle come first: one for each arc, then a second one for each, and so on,
/// as the cycle cannot close without one for each. The remaining hosts send to each other at random
/// (Schneider, Bibartiu, Hoefler, section VI.A).
///
/// Cost: that of [`cyclic_components`], and at worst a walk along the path of each pair of hosts.
///
/// # Errors
/// If a path does not arrive.
pub(super) fn pairs(network: &Network<'_>, random: &mut Random) -> Result<Vec<(u32, u32)>, SimulateError> {
    let hosts = network.hosts.len();
    let components = cyclic_components(network.fabric, &routes_in_use(network));
    let mut matching = Matching { receiver: vec![None; hosts], taken: vec![false; hosts] };
    if !components.members.is_empty() {
        for (from, to) in along(&components.shortest, network, random)? {
            matching.add(from, to);
        }
        matching.add_within(&components, network, random)?;
    }
    let mut free: Vec<usize> = (0..hosts).filter(|&h| !matching.taken[h]).collect();
    random.shuffle(&mut free);
    for from in 0..hosts {
        if matching.receiver[from].is_none() {
            // The last one may be left with itself, and then does not send.
            let other = free.iter().rposition(|&to| to != from);
            matching.receiver[from] = other.map(|i| free.swap_remove(i) as u32);
        }
    }
    Ok((0..).zip(matching.receiver).filter_map(|(from, to)| Some((from, to?))).collect())
}

/// The tables with the SLs that hosts use in the simulation.
fn routes_in_use<'a>(network: &Network<'a>) -> Cow<'a, Routes> {
    let path_sl = &network.routes.path_sl;
    let lowest = path_sl.any().map(|set| Sl(set.trailing_zeros() as u8));
    match network.forced_sl().or(lowest) {
        Some(sl) => Cow::Owned(Routes { path_sl: PathSl::one(sl), ..network.routes.clone() }),
        None => Cow::Borrowed(network.routes),
    }
}

/// Each host at most once as a sender and once as a receiver.
struct Matching {
    receiver: Vec<Option<u32>>,
    taken: Vec<bool>,
}

impl Matching {
    fn add(&mut self, from: usize, to: usize) {
        if from != to && self.receiver[from].is_none() && !self.taken[to] {
            self.receiver[from] = Some(to as u32);
            self.taken[to] = true;
        }
    }

    /// For each unused host, in random order, the first receiver whose path uses an arc within a
    /// component.
    fn add_within(
        &mut self,
        components: &CyclicComponents,
        network: &Network<'_>,
        random: &mut Random,
    ) -> Result<(), SimulateError> {
        let of: HashMap<(ChannelId, Vl), usize> = components
            .members
            .iter()
            .zip(0..)
            .flat_map(|(list, i)| list.iter().map(move |&m| (m, i)))
            .collect();
        let hosts = network.hosts.len();
        let (mut senders, mut receivers): (Vec<usize>, Vec<usize>) =
            ((0..hosts).collect(), (0..hosts).collect());
        random.shuffle(&mut senders);
        random.shuffle(&mut receivers);
        for from in senders {
            for &to in &receivers {
                if from == to || self.taken[to] || self.receiver[from].is_some() {
                    continue;
                }
                let steps = network.walk(from, network.hosts[to].lid)?.steps;
                let within = |arc: &[(ChannelId, Vl)]| {
                    let component = of.get(&arc[0]);
                    component.is_some() && component == of.get(&arc[1])
                };
                if steps.windows(2).any(within) {
                    self.add(from, to);
                }
            }
        }
        Ok(())
    }
}

/// Pairs whose paths use an arc of a cycle: in random order one for each arc, then another for
/// each, and so on.
fn along(
    cycle: &[(ChannelId, Vl)],
    network: &Network<'_>,
    random: &mut Random,
) -> Result<Vec<(usize, usize)>, SimulateError> {
    let channels = network.fabric.channels();
    let arcs: Vec<_> = cycle.iter().copied().zip(cycle.iter().copied().cycle().skip(1)).collect();
    let mut found = vec![Vec::new(); arcs.len()];
    for (to, host) in network.hosts.iter().enumerate() {
        let Some(lid) = Lid::new(host.lid) else { continue };
        let enters = |channel: ChannelId| {
            let c = channels.get(channel);
            network.routes.lft.get(c.from, lid) == Some(c.out_port)
        };
        let of_lid =
            |&(first, second): &((ChannelId, Vl), (ChannelId, Vl))| enters(first.0) && enters(second.0);
        if !arcs.iter().any(of_lid) {
            continue;
        }
        for from in (0..network.hosts.len()).filter(|&from| from != to) {
            let steps = network.walk(from, host.lid)?.steps;
            let taken =
                |arc: &((ChannelId, Vl), (ChannelId, Vl))| steps.windows(2).any(|w| (w[0], w[1]) == *arc);
            if let Some(arc) = arcs.iter().position(taken) {
                found[arc].push((from, to));
            }
        }
    }
    found.iter_mut().for_each(|pairs| random.shuffle(pairs));
    let rounds = found.iter().map(Vec::len).max().unwrap_or(0);
    Ok((0..rounds).flat_map(|i| found.iter().filter_map(move |pairs| pairs.get(i).copied())).collect())
}
