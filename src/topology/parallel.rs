//! Parallel links: several cables in place of one.

use crate::fabric::Fabric;

use super::error::{TopologyError, at_least};
use super::plan::Plan;

/// The same switches and adapters with `cables` cables in place of each link between switches.
///
/// Switches keep their names. Ports and GUIDs are new ones, as the generators number them.
///
/// # Errors
/// [`TopologyError::TooManyPorts`]; [`TopologyError::Parameter`] for none.
///
/// Cost: O(S + A + C `cables`) with S switches, A adapters and C channels.
pub fn parallel_links(fabric: &Fabric, cables: u32) -> Result<Fabric, TopologyError> {
    at_least("parallel", cables, 1)?;
    let cas: Vec<u32> = fabric.switch_ids().map(|s| fabric.num_adapters_on(s) as u32).collect();
    Plan::of_switches(fabric, &cas, cables)?.build()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{Torus, fail_links, small_members};
    use super::*;
    use crate::fabric::SwitchId;

    /// Cables by the switches at their ends.
    fn cables(f: &Fabric) -> BTreeMap<(SwitchId, SwitchId), usize> {
        let mut cables = BTreeMap::new();
        f.channels().iter().for_each(|(_, c)| *cables.entry((c.from, c.to)).or_default() += 1);
        cables
    }

    #[test]
    fn each_link_becomes_so_many() {
        for (name, f) in small_members() {
            let wide = parallel_links(&f, 3).unwrap();
            let each: BTreeMap<_, _> = cables(&f).into_iter().map(|(ends, n)| (ends, 3 * n)).collect();
            assert_eq!(cables(&wide), each, "{name}");
            let adapters = |f: &Fabric| f.switch_ids().map(|s| f.num_adapters_on(s)).collect::<Vec<_>>();
            assert_eq!(adapters(&wide), adapters(&f), "{name}");
        }
    }

    #[test]
    fn single_cables_can_fail_then() {
        let torus = Torus { dims: vec![5, 5], cas: 1 }.build().unwrap();
        let worn = fail_links(&parallel_links(&torus, 2).unwrap(), 10, 1).unwrap();
        assert!(cables(&worn).values().any(|&n| n == 1) && worn.channels().len() == 2 * (100 - 10));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let torus = Torus { dims: vec![3, 3], cas: 1 }.build().unwrap();
        assert!(parallel_links(&torus, 0).is_err());
        assert!(matches!(parallel_links(&torus, 64), Err(TopologyError::TooManyPorts { ports: 257 })));
    }
}
