//! Multicast forwarding: the ports of each switch that forward the packets of a group.

use crate::fabric::{Fabric, PortNum, SwitchId};

/// A set of ports of one switch, port 0 included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortSet([u64; 4]);

impl PortSet {
    /// Adds a port.
    pub fn insert(&mut self, port: PortNum) {
        self.0[port.index() / 64] |= 1 << (port.index() % 64);
    }

    /// Removes a port.
    pub fn remove(&mut self, port: PortNum) {
        self.0[port.index() / 64] &= !(1 << (port.index() % 64));
    }

    /// Whether the set contains a port.
    pub fn contains(&self, port: PortNum) -> bool {
        self.0[port.index() / 64] & 1 << (port.index() % 64) != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// The ports in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = PortNum> + use<> {
        let mut words = self.0;
        let mut at = 0;
        std::iter::from_fn(move || {
            while at < words.len() && words[at] == 0 {
                at += 1;
            }
            let word = words.get_mut(at)?;
            let port = at as u32 * 64 + word.trailing_zeros();
            *word &= *word - 1;
            Some(PortNum(port as u8))
        })
    }
}

/// The ports that forward the packets of a multicast group, by switch. A packet leaves by each of
/// them except the one that it arrived by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McastGroup {
    /// Multicast LID in host order, `0xc000..=0xfffe`.
    pub mlid: u16,
    /// SLs that its packets may have, bit `n` for SL `n`; `None` if unknown.
    pub sls: Option<u16>,
    /// Ports by switch, in switch order; only switches that have some.
    pub ports: Vec<(SwitchId, PortSet)>,
}

impl McastGroup {
    /// The first multicast LID. OpenSM gives it to the first group, IPoIB's broadcast.
    pub const FIRST_MLID: u16 = 0xc000;

    /// The ports of a switch.
    ///
    /// Cost: O(log S) with S switches.
    pub fn at(&self, switch: SwitchId) -> PortSet {
        let found = self.ports.binary_search_by_key(&switch, |&(s, _)| s);
        found.map_or_else(|_| PortSet::default(), |i| self.ports[i].1)
    }

    /// The part of this tree between some members: the paths that connect them. Members that the
    /// tree does not reach are left out.
    ///
    /// - `members`: each as its switch and the switch's port to it; port 0 for the switch itself.
    ///
    /// Cost: O(S + ports in the tree) with S switches.
    pub fn pruned(&self, fabric: &Fabric, members: &[(SwitchId, PortNum)]) -> Vec<(SwitchId, PortSet)> {
        let channels = fabric.channels();
        let mut ports = vec![PortSet::default(); fabric.num_switches()];
        for &(s, port) in members.iter().filter(|&&(s, port)| self.at(s).contains(port)) {
            ports[s.index()].insert(port);
        }
        let wanted: Vec<bool> = ports.iter().map(|set| !set.is_empty()).collect();
        let mut between: Vec<Vec<_>> = vec![Vec::new(); ports.len()];
        for &(s, set) in &self.ports {
            between[s.index()] = set.iter().filter_map(|p| channels.at_port(s, p)).collect();
        }
        let mut degree: Vec<usize> = between.iter().map(Vec::len).collect();
        let mut ends: Vec<usize> = (0..degree.len()).filter(|&s| degree[s] == 1 && !wanted[s]).collect();
        let mut gone = vec![false; degree.len()];
        while let Some(s) = ends.pop() {
            gone[s] = true;
            for &c in &between[s] {
                let to = channels.get(c).to.index();
                if !gone[to] {
                    degree[to] -= 1;
                    if degree[to] == 1 && !wanted[to] {
                        ends.push(to);
                    }
                }
            }
        }
        for (s, list) in between.iter().enumerate().filter(|&(s, _)| !gone[s]) {
            for c in list.iter().map(|&c| channels.get(c)).filter(|c| !gone[c.to.index()]) {
                ports[s].insert(c.out_port);
            }
        }
        fabric.switch_ids().zip(ports).filter(|(_, set)| !set.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Mesh;

    #[test]
    fn a_set_of_ports_is_a_set() {
        let mut set = PortSet::default();
        for p in [0, 63, 64, 254, 255, 7] {
            set.insert(PortNum(p));
        }
        set.remove(PortNum(64));
        assert_eq!(set.iter().map(|p| p.0).collect::<Vec<_>>(), [0, 7, 63, 254, 255]);
        assert!(set.contains(PortNum(254)) && !set.contains(PortNum(64)) && !set.is_empty());
    }

    #[test]
    fn only_the_ways_between_members_remain() {
        // A chain of five switches with one adapter each; the tree is the whole chain.
        let f = Mesh { dims: vec![5], cas: 1 }.build().unwrap();
        let mut ports = vec![PortSet::default(); f.num_switches()];
        f.channels().as_slice().iter().for_each(|c| ports[c.from.index()].insert(c.out_port));
        let adapters: Vec<_> = f.adapters().map(|(_, e)| e.attachment.unwrap()).collect();
        adapters.iter().for_each(|&(s, p)| ports[s.index()].insert(p));
        let ports = f.switch_ids().zip(ports).collect();
        let whole = McastGroup { mlid: McastGroup::FIRST_MLID, sls: None, ports };
        assert_eq!(whole.pruned(&f, &adapters), whole.ports);
        let of = |s: usize| adapters.iter().copied().find(|&(at, _)| at == SwitchId::at(s)).unwrap();
        let count = |members: &[(SwitchId, PortNum)]| {
            let group = McastGroup { ports: whole.pruned(&f, members), ..whole.clone() };
            f.switch_ids().map(|s| group.at(s).iter().count()).collect::<Vec<_>>()
        };
        assert_eq!(count(&[of(1), of(3)]), [0, 2, 2, 2, 0]);
        assert_eq!(count(&[of(2)]), [0, 0, 1, 0, 0]);
        assert_eq!(count(&[]), [0; 5]);
    }
}
