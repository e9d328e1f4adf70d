//! Pairs that lose their path when something fails, by the tables as they are.

use rayon::prelude::*;

use super::Failure;
use super::damage::Broken;
use crate::fabric::{EndPort, Fabric, PortNum, SwitchId};
use crate::tables::Lft;

/// Ordered pairs of adapter ports on switches that have a path, to the base LID, and lose it as it uses a part that
/// fails.
///
/// Cost: O(1) per adapter port and channel that fails, and O(S) where the port's LID has an entry over one of these, or
/// adapters fail; over all cores.
pub(super) fn pairs(fabric: &Fabric, lft: &Lft, failure: &Failure) -> u64 {
    let broken = Broken::new(fabric, failure);
    let works = |s, port| broken.works(fabric, s, port);
    let gone = fabric.channels().iter().filter(|(_, c)| !works(c.from, c.out_port));
    let gone: Vec<(SwitchId, PortNum)> = gone.map(|(_, c)| (c.from, c.out_port)).collect();
    let mut senders = vec![Senders::default(); fabric.num_switches()];
    for (s, port) in fabric.adapters().filter_map(|(_, end)| end.attachment) {
        senders[s.index()].all += 1;
        senders[s.index()].cut += u64::from(!works(s, port));
    }
    let adapters_fail = senders.iter().any(|senders| senders.cut > 0);
    let ends: Vec<&EndPort> = fabric.adapters().map(|(_, end)| end).collect();
    let cut = |ways: &mut Vec<Way>, to: &&EndPort| {
        let ports = lft.to(to.lid);
        if !adapters_fail && gone.iter().all(|&(s, port)| ports[s.index()] != port.0) {
            return 0;
        }
        cut_to(fabric, ports, &broken, &senders, ways, to)
    };
    ends.par_iter().map_init(Vec::new, cut).sum()
}

/// The adapters on a switch.
#[derive(Clone, Copy, Default)]
struct Senders {
    all: u64,
    /// Those whose own cable fails.
    cut: u64,
}

/// What becomes of the packets at a switch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Unknown,
    /// They never arrived.
    None,
    /// They arrived, over a part that fails.
    Cut,
    Works,
}

/// Number of adapters that lose their path to `to`.
///
/// - `ports`: the entries for its base LID.
fn cut_to(
    fabric: &Fabric,
    ports: &[u8],
    broken: &Broken,
    senders: &[Senders],
    ways: &mut Vec<Way>,
    to: &EndPort,
) -> u64 {
    let Some((home, home_port)) = to.attachment else { return 0 };
    let channels = fabric.channels();
    ways.clear();
    ways.resize(senders.len(), Way::Unknown);
    let to_works = broken.works(fabric, home, home_port);
    if ports[home.index()] == home_port.0 {
        ways[home.index()] = if to_works { Way::Works } else { Way::Cut };
    }
    let mut trail: Vec<SwitchId> = Vec::new();
    for s in fabric.switch_ids() {
        let mut at = s;
        let mut way = loop {
            match ways[at.index()] {
                Way::Unknown => {}
                known => break known,
            }
            // None until the way is known: a loop comes back here.
            ways[at.index()] = Way::None;
            trail.push(at);
            match channels.at_port(at, PortNum(ports[at.index()])) {
                Some(channel) => at = channels.get(channel).to,
                None => break Way::None,
            }
        };
        while let Some(at) = trail.pop() {
            if way == Way::Works && !broken.works(fabric, at, PortNum(ports[at.index()])) {
                way = Way::Cut;
            }
            ways[at.index()] = way;
        }
    }
    let lost = |(way, senders): (&Way, &Senders)| match way {
        Way::Works => senders.cut,
        Way::Cut => senders.all,
        Way::None | Way::Unknown => 0,
    };
    // The destination sends nothing to itself.
    ways.iter().zip(senders).map(lost).sum::<u64>() - u64::from(ways[home.index()] == Way::Cut)
}
