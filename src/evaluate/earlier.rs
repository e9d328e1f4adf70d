//! What is known of earlier tables, for those that follow them.

use super::paths::{Adapter, Paths};
use super::trees::{Counts, count, count_to};
use crate::fabric::{Fabric, Lid};
use crate::tables::Lft;

/// Tables with the totals of their routes. Of later tables only the routes to LIDs whose entries differ are counted:
/// their earlier routes are taken away from the totals, and the new ones added.
pub struct Earlier<'a> {
    paths: Paths<'a>,
    counts: Counts,
}

impl<'a> Earlier<'a> {
    /// `None` where tables do not lead every adapter to every other.
    ///
    /// Cost: O(D S) with D LIDs and S switches, over all cores.
    pub fn new(fabric: &'a Fabric, lft: &'a Lft) -> Option<Self> {
        let paths = Paths::new(fabric, lft).ok()?;
        let counts = count(&paths).ok()?;
        Some(Self { paths, counts })
    }

    /// The totals of later tables. `None` where switches or adapters are not the same, or a route is broken.
    ///
    /// Cost: O(D S) for a comparison of bytes, and O(S) for each LID whose entries differ.
    pub(super) fn counts_of(&self, now: &Paths<'_>) -> Option<Counts> {
        let (before, fabric) = (self.paths.fabric, now.fabric);
        let switch = |f: &Fabric, s| f.switch(s).guid;
        let ids = before.switch_ids().map(|s| switch(before, s));
        if !ids.eq(fabric.switch_ids().map(|s| switch(fabric, s))) {
            return None;
        }
        let end = |a: &Adapter| (a.end.guid, a.end.lid, a.end.lmc, a.switch, a.port);
        if !self.paths.adapters.iter().map(end).eq(now.adapters.iter().map(end)) {
            return None;
        }
        let differs = |lid: Lid| self.paths.lft.to(lid) != now.lft.to(lid);
        let (gone, new) = (count_to(&self.paths, differs).ok()?, count_to(now, differs).ok()?);
        let hops = self.counts.hops.iter().zip(&gone.hops).zip(&new.hops);
        let mut load = new.load;
        for (id, c) in before.channels().iter() {
            let stays = self.counts.load[id.index()] - gone.load[id.index()];
            match fabric
                .channels()
                .at_port(c.from, c.out_port)
                .filter(|&now| fabric.channels().get(now).to == c.to)
            {
                Some(now) => load[now.index()] += stays,
                // Some route that is said to stay takes a channel that is gone.
                None if stays > 0 => return None,
                None => {}
            }
        }
        Some(Counts { load, hops: hops.map(|((all, gone), new)| all - gone + new).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Baseline, Settings, route, route_after};
    use crate::evaluate::{Options, evaluate, evaluate_after};
    use crate::topology::{Dragonfly, fail_links, fail_switches, small_members};

    #[test]
    fn figures_are_those_of_a_count_of_all_routes() {
        let settings = Settings::default();
        let options = Options { patterns: std::num::NonZeroU32::MIN, ..Options::default() };
        let mut counted = 0;
        let dragonfly = ("Dragonfly", Dragonfly::balanced(2).build().unwrap());
        for (name, whole) in small_members().into_iter().chain([dragonfly]) {
            let Ok(routed) = route(&whole, &settings) else { continue };
            let Some(earlier) = Earlier::new(&whole, &routed.routes.lft) else { continue };
            let baseline = Baseline::new(&whole, &settings, &routed);
            let any = crate::topology::Candidates::Any;
            let damaged =
                [fail_links(&whole, 1, 1), fail_links(&whole, 2, 2), fail_switches(&whole, 1, any, 1)];
            for damaged in damaged.into_iter().flatten() {
                let Ok(after) = route_after(&damaged, &settings, baseline.as_ref()) else { continue };
                let expected = evaluate(&damaged, &after.routes, &options).unwrap();
                let found = evaluate_after(&damaged, &after.routes, &options, Some(&earlier)).unwrap();
                assert_eq!(found, expected, "{name}");
                let now = Paths::new(&damaged, &after.routes.lft).unwrap();
                counted += usize::from(earlier.counts_of(&now).is_some());
            }
        }
        assert!(counted > 20, "{counted}");
    }
}
