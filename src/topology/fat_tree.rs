//! Fat tree: a folded Clos network of equal switches.

use crate::fabric::Fabric;

use super::error::{TopologyError, invalid};
use super::xgft::Xgft;

/// A fat tree of `k`-port switches with `levels` levels: `(2·levels - 1)·(k/2)^(levels-1)` switches
/// and `2·(k/2)^levels` adapters. It is XGFT(levels; k/2, …, k/2, k; 1, k/2, …, k/2).
///
/// With `down`, a leaf has that many ports for adapters and `k - down` uplinks, and the tree is
/// narrower above the leaves: 12, 16 and 18 of 24 ports make the oversubscribed trees 1:1, 1:2 and
/// 1:3 of Hoefler et al., section IV.C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatTree {
    /// Ports of a switch, even.
    pub k: u32,
    /// Levels of switches, `2..=16`.
    pub levels: u32,
    /// Ports of a leaf for adapters, `1..k`; `k / 2` if `None`.
    pub down: Option<u32>,
    /// Adapters per leaf, up to `down`; `down` if `None`.
    pub cas: Option<u32>,
}

impl FatTree {
    /// Builds it; names and ports as for [`Xgft`].
    ///
    /// # Errors
    /// [`TopologyError`], if a parameter is out of range or the fabric too large.
    ///
    /// Cost: as for [`Xgft`].
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        let &Self { k, levels, down, cas } = self;
        if k < 2 || k % 2 != 0 {
            return Err(invalid("k", k, "it must be even and at least 2"));
        }
        if !(2..=16).contains(&levels) {
            return Err(invalid("levels", levels, "it must be from 2 to 16"));
        }
        let down = down.unwrap_or(k / 2);
        if !(1..k).contains(&down) {
            return Err(invalid("down", down, format!("with k = {k} it must be from 1 to {}", k - 1)));
        }
        let mut m = vec![k / 2; levels as usize];
        let mut w = m.clone();
        (m[0], w[0], w[1]) = (down, 1, k - down);
        m[levels as usize - 1] = k;
        Xgft { m, w, cas }.build()
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;

    fn tree(k: u32, levels: u32) -> FatTree {
        FatTree { k, levels, down: None, cas: None }
    }

    #[test]
    fn known_sizes() {
        let rows = [(4, 2, 6, 8), (4, 3, 20, 16), (8, 3, 80, 128), (24, 2, 36, 288), (4, 4, 56, 32)];
        for (k, levels, switches, adapters) in rows {
            let f = tree(k, levels).build().unwrap();
            assert_eq!(probe::shape(&f), (switches, adapters));
            assert_eq!(probe::diameter(&f), Some(2 * (levels - 1)));
            assert!(f.switch_ids().all(|s| u32::from(f.switch(s).num_ports()) == k));
            assert!(f.nodes().iter().flat_map(|n| &n.ports[1..]).all(|p| p.peer.is_some()));
        }
    }

    #[test]
    fn the_largest_with_36_ports() {
        assert_eq!(probe::shape(&tree(36, 3).build().unwrap()), (1620, 11_664));
    }

    #[test]
    fn oversubscribed_trees_of_24_port_switches() {
        for (down, switches, adapters) in [(12, 36, 288), (16, 32, 384), (18, 30, 432)] {
            let f = FatTree { down: Some(down), ..tree(24, 2) }.build().unwrap();
            assert_eq!(probe::shape(&f), (switches, adapters));
            assert!(f.switch_ids().all(|s| f.switch(s).num_ports() == 24));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let message = |t: FatTree| t.build().unwrap_err().to_string();
        assert!(message(tree(7, 3)).contains("k = 7"));
        assert!(message(tree(8, 1)).contains("levels = 1"));
        assert!(message(FatTree { down: Some(8), ..tree(8, 2) }).contains("from 1 to 7"));
        assert!(message(FatTree { cas: Some(5), ..tree(8, 2) }).contains("cas = 5"));
        assert!(message(tree(u32::MAX - 1, 16)).contains("too many"));
    }
}
