//! Multicast forwarding: which ports of each switch pass the packets of a group on.

use crate::fabric::{Fabric, PortNum, SwitchId};

/// A set of ports of one switch, port 0 included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortSet([u64; 4]);

impl PortSet {
    /// Adds a port.
    pub fn insert(&mut self, port: PortNum) {
        self.0[port.index() / 64] |= 1 << (port.index() % 64);
    }

    /// Takes a port away.
    pub fn remove(&mut self, port: PortNum) {
        self.0[port.index() / 64] &= !(1 << (port.index() % 64));
    }

    /// Whether a port is in it.
    pub fn contains(&self, port: PortNum) -> bool {
        self.0[port.index() / 64] & 1 << (port.index() % 64) != 0
    }

    /// Whether there is none.
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

/// The ports that pass the packets of a multicast group on, by switch. A packet leaves by each of
/// them but the one that it came in by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McastGroup {
    /// Multicast LID, host order, `0xc000..=0xfffe`.
    pub mlid: u16,
    /// SLs that its packets may have, bit `n` = SL `n`; `None` where that is not known.
    pub sls: Option<u16>,
    /// Ports by switch.
    pub ports: Vec<PortSet>,
}

impl McastGroup {
    /// The first multicast LID: what OpenSM gives to the first group, which is IPoIB's broadcast.
    pub const FIRST_MLID: u16 = 0xc000;

    /// What remains of this tree for some of its members: the ways between them. Members that the
    /// tree does not reach are left out.
    ///
    /// - `members`: each as its switch and the switch's port to it, 0 for the switch itself.
    ///
    /// Cost: O(S + ports in the tree) with S switches.
    pub fn pruned(&self, fabric: &Fabric, members: &[(SwitchId, PortNum)]) -> Vec<PortSet> {
        let channels = fabric.channels();
        let mut ports = vec![PortSet::default(); self.ports.len()];
        let mut wanted = vec![false; ports.len()];
        for &(s, port) in members {
            if self.ports.get(s.index()).is_some_and(|set| set.contains(port)) {
                ports[s.index()].insert(port);
                wanted[s.index()] = true;
            }
        }
        let between: Vec<Vec<_>> = fabric
            .switch_ids()
            .map(|s| self.ports[s.index()].iter().filter_map(|p| channels.at_port(s, p)).collect())
            .collect();
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
        // One switch alone may be left that nobody wants: the last one of a tree without members.
        for (s, list) in between.iter().enumerate().filter(|&(s, _)| !gone[s]) {
            for c in list.iter().map(|&c| channels.get(c)).filter(|c| !gone[c.to.index()]) {
                ports[s].insert(c.out_port);
            }
        }
        ports
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
        // A chain of five switches with an adapter each; the tree is the whole chain.
        let f = Mesh { dims: vec![5], cas: 1 }.build().unwrap();
        let mut whole = McastGroup {
            mlid: McastGroup::FIRST_MLID,
            sls: None,
            ports: vec![PortSet::default(); f.num_switches()],
        };
        f.channels().as_slice().iter().for_each(|c| whole.ports[c.from.index()].insert(c.out_port));
        let adapters: Vec<_> = f.adapters().map(|(_, e)| e.attachment.unwrap()).collect();
        adapters.iter().for_each(|&(s, p)| whole.ports[s.index()].insert(p));
        assert_eq!(whole.pruned(&f, &adapters), whole.ports);
        let of = |s: usize| adapters.iter().copied().find(|&(at, _)| at == SwitchId::at(s)).unwrap();
        let two = whole.pruned(&f, &[of(1), of(3)]);
        let count: Vec<usize> = two.iter().map(|set| set.iter().count()).collect();
        assert_eq!(count, [0, 2, 2, 2, 0]);
        let one = whole.pruned(&f, &[of(2)]);
        assert_eq!(one.iter().map(|set| set.iter().count()).collect::<Vec<_>>(), [0, 0, 1, 0, 0]);
        assert!(whole.pruned(&f, &[]).iter().all(PortSet::is_empty));
    }
}
