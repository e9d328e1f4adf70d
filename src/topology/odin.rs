//! Odin, a cluster at Indiana University: one director.

use crate::fabric::Fabric;

use super::director::Director;
use super::error::TopologyError;

/// Odin as Hoefler et al. describe it in sections IV.B and V: 128 endpoints on one 144-port
/// director of 12 leaves with full bisection bandwidth. The paper does not say which ports are in
/// use: here the adapters are spread evenly over the leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Odin;

impl Odin {
    /// Builds it; names and ports as for [`Director`].
    ///
    /// # Errors
    /// None in practice.
    pub fn build(&self) -> Result<Fabric, TopologyError> {
        Director { ports: 144, adapters: Some(128) }.build()
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;
    use crate::fabric::SwitchId;

    #[test]
    fn it_is_as_printed() {
        let f = Odin.build().unwrap();
        assert_eq!(probe::shape(&f), (18, 128));
        assert!((0..12).all(|leaf| [10, 11].contains(&f.num_adapters_on(SwitchId(leaf)))));
        assert!((12..18).all(|spine| f.num_adapters_on(SwitchId(spine)) == 0));
    }
}
