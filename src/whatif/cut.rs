//! Pairs that lose their path when something fails, by the tables as they are.

use rayon::prelude::*;

use super::Failure;
use super::damage::Broken;
use crate::fabric::{Channels, EndPort, Fabric, PortNum, SwitchId};
use crate::tables::Lft;

/// Ordered pairs of adapter ports on switches whose path, to the base LID, uses a part that fails.
///
/// Cost: O(S) per adapter port, over all cores.
pub(super) fn pairs(fabric: &Fabric, lft: &Lft, failure: &Failure) -> u64 {
    let broken = Broken::new(fabric, failure);
    // Adapters on each switch whose own cable works; the others reach nothing.
    let mut senders = vec![0_u64; fabric.num_switches()];
    let mut total = 0;
    for (_, end) in fabric.adapters() {
        let Some((s, port)) = end.attachment else { continue };
        senders[s.index()] += u64::from(broken.works(fabric, s, port));
        total += 1;
    }
    let ends: Vec<&EndPort> = fabric.adapters().map(|(_, end)| end).collect();
    let arrive =
        |state: &mut Vec<Arrives>, to: &&EndPort| arriving(fabric, lft, &broken, &senders, state, to);
    let arriving: u64 = ends.par_iter().map_init(Vec::new, arrive).sum();
    total * (total - 1_u64.min(total)) - arriving
}

/// What is known of the packets at a switch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrives {
    Unknown,
    Yes,
    No,
}

/// Number of adapters whose packets to `to` arrive although parts fail.
fn arriving(
    fabric: &Fabric,
    lft: &Lft,
    broken: &Broken,
    senders: &[u64],
    state: &mut Vec<Arrives>,
    to: &EndPort,
) -> u64 {
    let Some((home, home_port)) = to.attachment else { return 0 };
    if !broken.works(fabric, home, home_port) {
        return 0;
    }
    let channels: &Channels = fabric.channels();
    let ports = lft.to(to.lid);
    state.clear();
    state.resize(senders.len(), Arrives::Unknown);
    if ports[home.index()] == home_port.0 {
        state[home.index()] = Arrives::Yes;
    }
    let mut trail: Vec<SwitchId> = Vec::new();
    let mut count = 0;
    for s in fabric.switch_ids().filter(|s| senders[s.index()] > 0) {
        let mut at = s;
        let arrives = loop {
            match state[at.index()] {
                Arrives::Unknown => {}
                known => break known,
            }
            // No until the way is known: a loop comes back here.
            state[at.index()] = Arrives::No;
            trail.push(at);
            let port = PortNum(ports[at.index()]);
            match channels.at_port(at, port).filter(|_| broken.works(fabric, at, port)) {
                Some(channel) => at = channels.get(channel).to,
                None => break Arrives::No,
            }
        };
        trail.drain(..).for_each(|s| state[s.index()] = arrives);
        if arrives == Arrives::Yes {
            count += senders[s.index()];
        }
    }
    // The destination sends nothing to itself.
    count - u64::from(state[home.index()] == Arrives::Yes)
}
