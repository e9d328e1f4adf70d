//! Rates of links, and what a route adds to the load of a channel of such a rate.

use super::channels::Channels;
use super::ids::{NodeId, PortNum};
use super::node::{LinkSpeed, Node, Port, PortRef};
use super::{Fabric, SwitchId};

/// The weight of the usual rate before weights are reduced: rates are told apart by twelfths of it.
const USUAL: u64 = 12;

impl Port {
    /// Femtoseconds that a byte takes at the stated width and speed, without coding; `None` if the port does not
    /// state both.
    pub fn byte_time(&self) -> Option<u64> {
        let lane = match self.speed? {
            LinkSpeed::Sdr => 4_000_000,
            LinkSpeed::Ddr => 2_000_000,
            LinkSpeed::Qdr => 1_000_000,
            LinkSpeed::Fdr10 => 800_000,
            // 14.0625 Gbit/s, 64 of 66 bits.
            LinkSpeed::Fdr => 586_667,
            LinkSpeed::Edr => 320_000,
            LinkSpeed::Hdr => 160_000,
            LinkSpeed::Ndr => 80_000,
            LinkSpeed::Xdr => 40_000,
        };
        Some(lane / u64::from(self.width.filter(|&lanes| lanes > 0)?))
    }
}

/// Load over capacity, in whole numbers: a route adds its weight to the load of each channel on its path.
///
/// The weight is inverse to the rate of the cable. The usual rate is that of most cables between switches, the
/// faster of two. Weights are rounded to twelfths of its weight, limited to 1 to 255, and reduced by their greatest
/// common divisor. So where all cables have one rate every weight is 1, a cable of half the usual rate weighs
/// twice as much as others, and one that is more than 21 times slower counts as 21 times slower. A cable whose
/// rate neither end states has the usual one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights {
    by_channel: Vec<u8>,
    usual: u8,
}

impl Weights {
    /// Cost: O(C log C) with C channels.
    pub(super) fn new(nodes: &[Node], switches: &[NodeId], channels: &Channels) -> Self {
        let time = |from: SwitchId, port| byte_time(nodes, PortRef { node: switches[from.index()], port });
        let times: Vec<Option<u64>> = channels.iter().map(|(_, c)| time(c.from, c.out_port)).collect();
        let Some(usual) = most_common(times.iter().copied().flatten()) else {
            return Self { by_channel: vec![1; times.len()], usual: 1 };
        };
        let weigh = |time: u64| ((USUAL * time + usual / 2) / usual).clamp(1, 255);
        let weights: Vec<u64> = times.into_iter().map(|time| weigh(time.unwrap_or(usual))).collect();
        let divisor = weights.iter().copied().fold(USUAL, common_divisor);
        let reduced = |weight: u64| (weight / divisor) as u8;
        Self { by_channel: weights.into_iter().map(reduced).collect(), usual: reduced(USUAL) }
    }

    /// By [`ChannelId`](super::ChannelId).
    pub fn by_channel(&self) -> &[u8] {
        &self.by_channel
    }

    /// The weight of a cable of the usual rate.
    pub fn usual(&self) -> u64 {
        u64::from(self.usual.max(1))
    }

    /// Whether all cables between switches count alike.
    pub fn equal(&self) -> bool {
        self.by_channel.iter().all(|&weight| weight == self.usual)
    }
}

impl Fabric {
    /// What a route adds to the load of each channel.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Femtoseconds that a byte takes over the cable of a port: the slower of what both ends state, without coding.
    /// `None` if neither states it.
    pub fn byte_time(&self, end: PortRef) -> Option<u64> {
        byte_time(&self.nodes, end)
    }

    /// [`byte_time`](Self::byte_time) of the cable at a port of a switch.
    pub fn byte_time_at(&self, switch: SwitchId, port: PortNum) -> Option<u64> {
        self.byte_time(PortRef { node: self.switch_node_id(switch), port })
    }
}

fn byte_time(nodes: &[Node], end: PortRef) -> Option<u64> {
    let port = |end: PortRef| nodes[end.node.index()].ports.get(end.port.index());
    let here = port(end)?;
    let there = here.peer.and_then(port).and_then(Port::byte_time);
    here.byte_time().max(there)
}

/// The most frequent time, the shortest of several; `None` if there is none.
pub fn most_common(times: impl Iterator<Item = u64>) -> Option<u64> {
    let mut times: Vec<u64> = times.collect();
    times.sort_unstable();
    let runs = times.chunk_by(|a, b| a == b);
    // `max_by_key` takes the last of several: from the longest time to the shortest.
    runs.rev().max_by_key(|run| run.len()).map(|run| run[0])
}

/// The greatest one.
pub(crate) fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{FabricBuilder, Guid, Lmc, NodeKind};

    /// Two switches with one cable for each (width, speed), which both ends state.
    fn trunk(cables: &[(Option<u8>, Option<LinkSpeed>)]) -> Fabric {
        let mut builder = FabricBuilder::new();
        let ends = [1, 2].map(|guid| {
            let mut node = Node::new(NodeKind::Switch, Guid(guid), cables.len() as u8, "");
            for (port, &(width, speed)) in node.ports[1..].iter_mut().zip(cables) {
                (port.width, port.speed) = (width, speed);
            }
            builder.add(node).unwrap()
        });
        for port in (1..=cables.len() as u8).map(PortNum) {
            builder.connect(PortRef { node: ends[0], port }, PortRef { node: ends[1], port }).unwrap();
        }
        builder.finish(Lmc::default()).unwrap()
    }

    fn weights(cables: &[(u8, LinkSpeed)]) -> (Vec<u8>, u64) {
        let stated: Vec<_> = cables.iter().map(|&(width, speed)| (Some(width), Some(speed))).collect();
        let f = trunk(&stated);
        assert_eq!(f.weights().by_channel()[..cables.len()], f.weights().by_channel()[cables.len()..]);
        (f.weights().by_channel()[..cables.len()].to_vec(), f.weights().usual())
    }

    #[test]
    fn weights_are_inverse_to_rates() {
        use LinkSpeed::{Ddr, Edr, Fdr10, Hdr, Ndr, Qdr, Sdr, Xdr};
        for speed in [Sdr, Fdr10, LinkSpeed::Fdr, Xdr] {
            assert_eq!(weights(&[(4, speed), (4, speed)]), (vec![1, 1], 1));
        }
        assert_eq!(weights(&[(4, Edr), (2, Edr), (4, Edr)]), (vec![1, 2, 1], 1));
        assert_eq!(weights(&[(4, Edr), (4, Hdr), (4, Edr), (1, Edr)]), (vec![2, 1, 2, 8], 2));
        assert_eq!(weights(&[(4, Qdr), (4, Fdr10), (4, Qdr), (4, Ddr)]), (vec![6, 5, 6, 12], 6));
        // Of two equally frequent rates the faster is the usual one.
        assert_eq!(weights(&[(4, Sdr), (4, Ddr)]), (vec![2, 1], 1));
        // 200 times slower.
        assert_eq!(weights(&[(4, Ndr), (4, Ndr), (1, Sdr)]), (vec![4, 4, 85], 4));
    }

    #[test]
    fn what_is_not_stated_is_usual() {
        let qdr = Some(LinkSpeed::Qdr);
        let f = trunk(&[(Some(4), qdr), (None, qdr), (Some(0), qdr), (Some(4), None), (Some(2), qdr)]);
        assert_eq!(f.weights().by_channel()[..5], [1, 1, 1, 1, 2]);
        assert!(!f.weights().equal());
        let f = trunk(&[(None, None); 3]);
        assert_eq!((f.weights().by_channel(), f.weights().equal()), (&[1; 6][..], true));
    }

    #[test]
    fn the_slower_end_counts() {
        let f = trunk(&[(Some(4), Some(LinkSpeed::Edr)); 2]);
        let mut builder = FabricBuilder::from_fabric(&f);
        builder.node_mut(NodeId(1)).ports[2].width = Some(1);
        let f = builder.finish(Lmc::default()).unwrap();
        assert_eq!(f.weights().by_channel(), [1, 4, 1, 4]);
        let at = |switch, port| f.byte_time_at(SwitchId(switch), PortNum(port));
        assert_eq!(
            [at(0, 1), at(0, 2), at(1, 2), at(1, 200)],
            [Some(80_000), Some(320_000), Some(320_000), None]
        );
    }
}
