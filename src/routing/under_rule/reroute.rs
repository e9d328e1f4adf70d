//! Legal paths for which other switches change their next hop.

use super::levels::Levels;
use super::paths::{NO_PATH, Paths};
use crate::fabric::{ChannelId, SwitchId};
use crate::ordering::Rule;

impl<X: Copy + Default> Paths<'_, X> {
    /// A legal path to the target with the least sum of its hops and of the switches on it that have to change
    /// their next hop. Forced switches keep theirs.
    ///
    /// Searches backward from the target, first where the sum is least that a path from `from` has at least
    /// ([`prices_from`](Self::prices_from)); of those, deepest first. Of the paths that begin with the same channel, only
    /// those count whose position is later than that of the cheaper ones: more channels may lead to them.
    ///
    /// Cost: O(C d), with d channels out of a switch, where few switches are passed by several; mostly far less.
    pub(super) fn legal_path(&mut self, rule: &Rule, from: SwitchId) -> Option<Vec<ChannelId>> {
        let channels = self.fabric.channels();
        let left = self.prices_from(from);
        // Paths as their first channel, their position, and the rest of the path.
        let mut paths: Vec<(ChannelId, u32, Option<usize>)> = Vec::new();
        // By channel: the latest position so far. What a channel adds to the price is always the same, so later
        // paths over it are no cheaper.
        let mut latest = std::mem::take(&mut self.latest);
        latest.fill(None);
        // The paths to go on from, by price.
        let mut open = Levels::new();
        open.push(0, None);
        let mut found = None;
        while let Some((price, path)) = open.pop() {
            let follow = || std::iter::successors(path, |&i: &usize| paths[i].2).map(|i| paths[i].0);
            let (here, next, ahead) = match path.map(|i| paths[i]) {
                None => (self.target, None, Rule::END),
                Some((channel, ..)) if channels.get(channel).from == from => {
                    found = Some(follow().collect());
                    break;
                }
                Some((channel, position, _)) => (channels.get(channel).from, Some(channel), position),
            };
            let mut more = Vec::new();
            for (_, out) in channels.out(here) {
                let (back, s) = (out.reverse, out.to);
                let Some(adds) = self.adds(s, from)(back).filter(|_| left[s.index()] != NO_PATH) else {
                    continue;
                };
                let position = rule.position_of(back, next);
                let is_later = latest[back.index()].is_none_or(|latest| latest < position);
                if !is_later || !Rule::legal(position, ahead) || s == self.target {
                    continue;
                }
                if follow().any(|c| channels.get(c).from == s) {
                    continue;
                }
                latest[back.index()] = Some(position);
                // No sum gets less: what is left to a switch is the least over its channels.
                let price = price + usize::from(adds + left[s.index()] - left[here.index()]);
                more.push((price, (back, position, path)));
            }
            for (price, path) in more.into_iter().rev() {
                open.push(price, Some(paths.len()));
                paths.push(path);
            }
        }
        self.latest = latest;
        found
    }

    /// What each channel out of a switch adds to the price of a path from `from`: a hop, and the change of a next hop.
    /// `None` where the switch must take another channel.
    fn adds(&self, s: SwitchId, from: SwitchId) -> impl Fn(ChannelId) -> Option<u16> {
        let forced = self.forced[s.index()];
        let kept = self.has_path(s).then_some(self.paths[s.index()].channel);
        move |channel| {
            let may = forced.is_none_or(|forced| forced == channel);
            may.then(|| 1 + u16::from(s != from && kept != Some(channel)))
        }
    }

    /// By switch: the least price of a path that `from` may have to it, legal or not; [`NO_PATH`] where it has none.
    ///
    /// Cost: O(C).
    fn prices_from(&self, from: SwitchId) -> Vec<u16> {
        let mut prices = vec![NO_PATH; self.paths.len()];
        prices[from.index()] = 0;
        let mut open = Levels::new();
        open.push(0, from);
        while let Some((price, s)) = open.pop() {
            // Paths end at the target.
            if usize::from(prices[s.index()]) < price || s == self.target {
                continue;
            }
            let adds = self.adds(s, from);
            for (channel, c) in self.fabric.channels().out(s) {
                let Some(adds) = adds(channel) else { continue };
                let more = prices[s.index()] + adds;
                if more < prices[c.to.index()] {
                    prices[c.to.index()] = more;
                    open.push(usize::from(more), c.to);
                }
            }
        }
        prices
    }
}

#[cfg(test)]
mod tests {
    use super::super::load_walk::{LoadWalk, Lookahead};
    use super::super::paths::Walk;
    use super::*;
    use crate::ordering::up_down_rank;
    use crate::routing::Hops;
    use crate::routing::minimal_dag::{Lists, for_each_target};
    use crate::topology::{Random, fail_links, small_members};

    /// The least price of any legal path without a loop, by trying all of up to some channels; `None` where there is none.
    fn least_price<X: Copy + Default>(
        paths: &Paths<'_, X>,
        rule: &Rule,
        path: &mut Vec<ChannelId>,
        price: u16,
        (from, most): (SwitchId, usize),
    ) -> Option<u16> {
        let channels = paths.fabric.channels();
        let (here, next) = match path.last() {
            None => (paths.target, None),
            Some(&first) => (channels.get(first).from, Some(first)),
        };
        if here == from {
            return Some(price);
        }
        let ahead = path.last().map_or(Rule::END, |&first| {
            let next = path.len().checked_sub(2).map(|i| path[i]);
            rule.position_of(first, next)
        });
        if path.len() == most {
            return None;
        }
        let mut least = None;
        for (_, out) in channels.out(here) {
            let (back, s) = (out.reverse, out.to);
            let is_new = s != paths.target && path.iter().all(|&c| channels.get(c).from != s);
            let legal = Rule::legal(rule.position_of(back, next), ahead);
            if let Some(adds) = paths.adds(s, from)(back).filter(|_| is_new && legal) {
                path.push(back);
                let found = least_price(paths, rule, path, price + adds, (from, most));
                path.pop();
                least = least.into_iter().chain(found).min();
            }
        }
        least
    }

    #[test]
    fn a_path_that_reroutes_others_has_the_least_price() {
        let random = Random { switches: 12, degree: 3, cas: 1, seed: 3 }.build().unwrap();
        let damaged = fail_links(&random, 3, 1).unwrap();
        let mut found = 0;
        for (name, f) in small_members().into_iter().chain([("random", random), ("damaged", damaged)]) {
            if f.num_switches() > 16 {
                continue;
            }
            let hops = Hops::new(&f).unwrap();
            let rule = Rule::OneVl(up_down_rank(&f, SwitchId(0)));
            let mut walk = LoadWalk::new(&f, &rule, Lookahead::Every);
            let load = vec![0; f.channels().len()];
            let targets: Vec<_> = f.switch_ids().collect();
            for_each_target(&f, &hops, &targets, Lists::All, |dag| {
                walk.choose(dag, &load);
                let paths = walk.paths_mut();
                paths.drop_illegal();
                // A path that must not change.
                paths.forced.fill(None);
                let kept = paths.outward_order.last().filter(|&&s| s != dag.target);
                if let Some(&kept) = kept {
                    paths.forced[kept.index()] = paths.next(kept);
                }
                for from in f.switch_ids().filter(|&s| s != dag.target) {
                    let path = paths.legal_path(&rule, from);
                    // What the target itself took as another destination was routed to does not count.
                    let prices = paths.prices_from(from);
                    for (channel, _) in f.channels().out(dag.target) {
                        paths.paths[dag.target.index()].channel = channel;
                        assert_eq!(prices, paths.prices_from(from), "{name}: {from:?}");
                    }
                    let adds = |&c: &ChannelId| paths.adds(f.channels().get(c).from, from)(c).unwrap();
                    let ours = path.as_ref().map(|path| path.iter().map(adds).sum::<u16>());
                    let most = ours.map_or(6, usize::from);
                    let least = least_price(paths, &rule, &mut Vec::new(), 0, (from, most));
                    assert_eq!(ours, least, "{name}: {from:?} to {:?}", dag.target);
                    found += usize::from(ours.is_some());
                }
            });
        }
        assert!(found > 1000, "{found}");
    }
}
